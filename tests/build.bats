# The Makefile: what is built anew, versions, installing, bundles.
load helper

setup_file() { unset MAKEFLAGS MFLAGS MAKELEVEL VERSION O; }

# tree DIR: what the Makefile needs, and little to compile
tree() {
    mkdir -p "$1/common"
    cp "$ROOT/Makefile" "$ROOT/VERSION" "$1"
    cp -r "$ROOT"/common/base "$ROOT"/common/app "$1/common"
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
    both=("$obj/common/app/version.o" "$obj/common/base/places.o")
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

@test "programs look for libraries beside themselves in a bundle only" {
    command -v readelf >/dev/null || skip "no readelf"
    for program in "$BUILD"/bin/*; do run -1 grep -E 'RPATH|RUNPATH' <(readelf -d "$program"); done
    grep -q -- '-rpath,.*ORIGIN' <(sed -n '/^\$(OBJ)\/bundle/,/^$/p' "$ROOT/Makefile")
}

@test "make bundle in a fresh tree makes the programs of the bundle, and their names" {
    command -v gcc >/dev/null || skip "no gcc"
    make -n -C "$ROOT" O="$PWD/fresh" CUDA=0 MPI=0 HDF5=0 bundle BUNDLE="$PWD/b" > said
    grep -E -- "-o $PWD/fresh/obj-[0-9]*/bin/voxpipe " said
    grep -E -- "-o $PWD/fresh/obj-[0-9]*/bundle/voxpipe " said
}

@test "a bundle has what its programs load, stripped, with the notices, and nothing under the GPL" {
    command -v gcc >/dev/null && command -v readelf >/dev/null || skip "no gcc or no readelf"
    needs_plain_memory
    mkdir programs
    cp "$BUILD/bin/img-cat" programs
    sh "$ROOT/packaging/bundle.sh" b programs 2>err
    LD_LIBRARY_PATH=$PWD/b/lib/voxpipe b/bin/img-cat --version
    grep -q libtiff <(ls b/lib/voxpipe)
    for file in b/bin/img-cat b/lib/voxpipe/*; do
        run -1 grep -F .symtab <(readelf -S "$file")
        [ "$file" = b/bin/img-cat ] || grep -q "^$(basename "$file"): " b/licenses/README
    done
    [ -z "$(find b/lib/voxpipe -name 'libc.so*')" ]
    for file in man/man7/voxpipe.7 bash-completion/completions/img-cat doc/voxpipe/examples/python/voxpipe.py; do
        [ -s "b/share/$file" ]
    done
    [ -s b/LICENSE ]
    [ -s b/share/man/man1/img-cat.1 ]
    # the C library is the machine's: no symbol is newer than the version that the bundle names
    floor=$(sed -n 's/.* need glibc \([0-9.]*\) or newer$/\1/p' b/licenses/README)
    newest=$(objdump -T b/bin/img-cat b/lib/voxpipe/* | grep -o 'GLIBC_2[0-9.]*' | sort -uV | tail -n 1)
    [ "GLIBC_$floor" = "$newest" ]
    # what is not a bundle is not taken away for one
    mkdir mine
    touch mine/thesis
    fails 1 "mine is there already, and is no bundle" sh "$ROOT/packaging/bundle.sh" mine programs
    [ -e mine/thesis ]
    # a library without a notice is said to be one
    [ "$(grep -c ': no notice' b/licenses/README || true)" = "$(grep -c 'no notice' err || true)" ]
    if command -v dpkg >/dev/null; then
        grep -q 'zlib' b/licenses/libz.so.1.txt
    fi
    # libjbig is: what libtiff loads instead says why it cannot decode
    if [ -e b/lib/voxpipe/libjbig.so.0 ]; then
        grep -q 'under the GPL' b/lib/voxpipe/libjbig.so.0
        [ "$(stat -c %s b/lib/voxpipe/libjbig.so.0)" -lt 20000 ]
    fi
}

@test "install-strip leaves symbols out" {
    command -v readelf >/dev/null || skip "no readelf"
    grep -q -- '-s --strip-program' <(make -C "$ROOT" -n CUDA=0 install-strip 2>/dev/null)
}

# object VARIABLE=VALUE...: the names of an object of the plugin and of one of the programs
object() {
    env -u MAKEFLAGS -u MAKELEVEL make -n -C "$ROOT" O="$PWD/b" VERSION=x CUDA=1 NVCC=/bin/true "$@" |
        grep -o '[^ ]*/\(cuda/backproject\.cu\|base/err\)\.o' | sort -u
}

@test "objects of the plugin are built anew when targets or flags change, and only they" {
    object > plain
    [ "$(wc -l < plain)" -eq 2 ]
    for change in GPU_ARCH=-arch=sm_90 HOPPER_ARCH=-arch=sm_90a NVCCFLAGS=-G; do
        object "$change" > changed
        [ "$(sort plain changed | uniq -d | wc -l)" -eq 1 ]
        grep -qFx "$(grep err plain)" changed
    done
    object CFLAGS=-O0 > changed
    [ "$(sort plain changed | uniq -d | wc -l)" -eq 0 ]
}

@test "programs and plugins are built with what stops an overflow" {
    command -v readelf >/dev/null || skip "no readelf"
    [[ $(ldd "$BUILD/bin/ct-fdk") != *libasan* && $(ldd "$BUILD/bin/ct-fdk") != *libtsan* ]] || skip "built with a sanitizer"
    for file in "$BUILD"/bin/* "$BUILD"/lib/voxpipe/*.so; do
        readelf -lWd --dyn-syms "$file" > elf
        for mark in GNU_RELRO 'Flags:.*NOW' __stack_chk_fail '__[a-z]*_chk@'; do
            grep -q "$mark" elf || { echo "$file: no $mark"; return 1; }
        done
    done
    # and nothing of it where it is not wanted, or where a sanitizer looks closer
    [ "$(make -C "$ROOT" -s -p -n CUDA=0 HARDEN=0 | sed -n 's/^HARD[A-Z]* :*= *//p' | xargs)" = 0 ]
}

# contents of the installed programs, without symbols
installed_bytes() { (cd "$1" && find . -type f -exec stat -c %s {} + | awk '{ n += $1 } END { print n }'); }

@test "an installed tree: small, every name works, uninstall leaves nothing of it and nothing else is touched" {
    flags=(-s -C "$ROOT" O="$BUILD" CUDA=0 MPI=0 -o all -o links DESTDIR="$PWD/d")
    mkdir -p d/opt/vp/bin d/opt/vp/share/man/man1
    touch d/opt/vp/bin/img-cat # separate programs, as older versions installed
    make "${flags[@]}" PREFIX=/opt/vp install-strip
    if [[ $(ldd "$BUILD/bin/ct-fdk") != *lib[at]san* ]]; then
        [ "$(installed_bytes d/opt/vp/bin)" -lt 8000000 ]
    fi
    [ "$(find d/opt/vp/bin -type f | wc -l)" -le 2 ]
    for file in share/man/man7/voxpipe.7 share/doc/voxpipe/{LICENSE,README.md,docs/performance.md,examples/python/voxpipe.py}; do
        [ -s "d/opt/vp/$file" ]
    done
    # pictures of the README are there
    grep -o '(examples/pictures/[^)]*' "$ROOT/README.md" | tr -d '(' | while read -r picture; do
        [ -s "d/opt/vp/share/doc/voxpipe/$picture" ] || { echo "no $picture"; return 1; }
    done
    for program in "$BUILD"/bin/*; do
        name=$(basename "$program")
        "d/opt/vp/bin/$name" --version | grep -q "^$name (voxpipe) " || { echo "$name is another one"; return 1; }
    done
    noise in.tif 20x20x3 f32
    bin=$PWD/d/opt/vp/bin
    img-gauss --sigma 1 in.tif | img-math 'a*2' >expected.tif
    "$bin/img-gauss" --sigma 1 in.tif | (cd "$bin" || exit 1; ./img-math 'a*2') >out.tif
    cmp out.tif expected.tif
    echo mine >d/opt/vp/share/man/man1/mine.1
    make "${flags[@]}" PREFIX=/opt/vp uninstall
    [ "$(find d ! -type d)" = d/opt/vp/share/man/man1/mine.1 ]
    rm d/opt/vp/share/man/man1/mine.1
    make "${flags[@]}" PREFIX=/opt/vp uninstall
    [ "$(find d)" = "d
d/opt" ]
}

@test "a program is the one that it is called by, also by links and under other names" {
    noise in.tif 20x20x3 f32
    ln -s "$BUILD/bin/img-info" mine
    ln -s mine again
    ok ./again --value mean in.tif
    [ "$output" = "$(img-info --value mean in.tif)" ]
    ok bash -c "exec -a img-info '$BUILD/bin/voxpipe' --value mean in.tif"
    ok bash -c "exec -a anything '$BUILD/bin/img-info' --value mean in.tif"
    mkdir elsewhere
    cp "$BUILD/bin/img-info" elsewhere # the file itself
    ok elsewhere/img-info --value mean in.tif
    mv elsewhere/img-info elsewhere/no-such
    fails 2 "no-such: error: expected the name of a program" elsewhere/no-such in.tif
}

@test "what is missing is named at once, with the way to get it" {
    [ -z "$(sh "$ROOT/packaging/missing.sh" "${CC:-gcc}" '' 2>&1)" ]
    run --separate-stderr sh "$ROOT/packaging/missing.sh" no-such-compiler ''
    [ "$output" = missing ]
    [[ "$stderr" == *"a C compiler: 'no-such-compiler' is not found"* && "$stderr" == *"To get it:"* ]]
    run --separate-stderr sh "$ROOT/packaging/missing.sh" "${CC:-gcc}" -nostdinc
    [[ "$stderr" == *"there is no zlib.h"* && "$stderr" == *"there is no tiffio.h"* ]]
    [ "$(wc -l <<<"$stderr")" -le 24 ] # one screen
    mkdir t
    cp -r "$ROOT/Makefile" "$ROOT/VERSION" "$ROOT/packaging" t
    run --separate-stderr make -C t CUDA=0 MPI=0 FFTW=0 CC=no-such-compiler
    [ "$status" -ne 0 ]
    [[ "$stderr" == *"voxpipe cannot be built yet"* ]]
    [[ "$output" != *" CC "* ]]
    run make -C t help
    [ "$status" -eq 0 ]
}

@test "CPPFLAGS and LDFLAGS are obeyed, and make other objects" {
    one=$(object CPPFLAGS=)
    [ "$one" = "$(object)" ]
    [ "$one" != "$(object CPPFLAGS=-DMINE)" ]
    make -n -C "$ROOT" O="$PWD/b" VERSION=x CUDA=0 CPPFLAGS=-DMINE | grep 'base/err\.c' | grep -q -- ' -DMINE '
}
