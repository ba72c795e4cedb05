# The Makefile: versions, installing, bundles.
load helper

setup_file() { unset MAKEFLAGS MFLAGS MAKELEVEL VERSION; }

# tree DIR: what the Makefile needs, and little to compile
tree() {
    mkdir -p "$1/common/base"
    cp "$ROOT/Makefile" "$ROOT/VERSION" "$1"
    cp "$ROOT"/common/base/* "$1/common/base"
}

# commit DIR: a repository of its own with one commit more
commit() {
    git -C "$1" init -q 2>/dev/null
    git -C "$1" add -A
    git -C "$1" -c user.name=a -c user.email=a@b commit -q --allow-empty -m "$RANDOM"
}

# value DIR VARIABLE
value() { make -C "$1" -s -p -n CUDA=0 2>/dev/null | sed -n "s/^$2 :\\{0,2\\}= //p" | head -n 1; }

@test "the version follows the commit, and nothing else is compiled for it" {
    command -v git >/dev/null && command -v gcc >/dev/null || skip "no git or no gcc"
    tree t
    echo build >t/.gitignore
    commit t
    obj=$(value t OBJ)
    both=("$obj/common/base/version.o" "$obj/common/base/places.o")
    make -C t -s CUDA=0 "${both[@]}"
    grep -qF "$(cat VERSION 2>/dev/null || cat t/VERSION)+$(git -C t describe --always)" "t/${both[0]}"
    commit t
    make -C t V=1 CUDA=0 "${both[@]}" >log
    grep -qF "+$(git -C t describe --always)" "t/${both[0]}"
    grep -q version.c log
    run -1 grep places.c log
    make -C t V=1 CUDA=0 "${both[@]}" >log
    run -1 grep version.c log
}

@test "a tarball inside another repository is not that one's version" {
    command -v git >/dev/null || skip "no git"
    tree other/t
    [ "$(value other/t VERSION)" = "$(cat VERSION 2>/dev/null || cat other/t/VERSION)" ]
    commit other
    [ "$(value other/t VERSION)" = "$(cat other/t/VERSION)" ]
    commit other/t
    [ "$(value other/t VERSION)" = "$(cat other/t/VERSION)+$(git -C other/t describe --always)" ]
}
