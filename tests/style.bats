# The tests themselves: no assertion that cannot fail.
load helper

# bad LINE...: the check finds the test made of the lines
bad() {
    printf '%s\n' 'f() {' '    cmp a b' '    cmp a c' '}' '@test "x" {' "$@" '    true' '}' > bad.bats
    run perl "$ROOT/tests/style.pl" bad.bats
    [ "$status" -eq 1 ] || { echo "not found:" "$@"; return 1; }
    [[ "$output" == bad.bats:6:* ]] || { echo "$output"; return 1; }
}

@test "no assertion of the tests goes unheard" {
    cd "$ROOT"
    perl tests/style.pl tests/*.bats tests/*.bash tests/chunks/*.bash
}

@test "the check finds what it is for, and lets pass what can fail" {
    bad '    ! grep x y'
    bad '    cmp a b && cmp a c'
    bad '    cmp a b && ! cmp a c'
    bad '    [ "$(f "a; b")" = 1 ] && [[ "$x" == "(" ]]'
    bad '    cmp a b || true'
    bad '    cmp a b || echo different'
    bad '    trap take_down EXIT'
    bad '    f || return 1'
    bad '    if f; then echo same; fi'
    bad '    run cmp a b' '    ok cmp a b'
    sed 's/^TEST/@test/' > good.bats <<'END'
f() {
    cmp a b || return 1
    [ "$(cat x && ! cat y || true)" = '&& ! true' ] # f && cmp a b; ! no
}
TEST "x" {
    if f; then cmp a b; fi
    cmp a b || { echo different; return 1; }
    perl -e 'f() && ! g() ||
        ! true' <<EOF
! cmp a b
EOF
    run cmp a b
    [ "$status" -eq 1 ]
    cmp a b && cmp a c
}
END
    ok perl "$ROOT/tests/style.pl" good.bats
}

@test "includes point one way, and only programs see the settings of a run" {
    ok perl "$ROOT/tests/layers.pl" "$ROOT"
}

# bends FILE TEXT: the check finds the file where its line is TEXT
bends() {
    mkdir -p "house/${1%/*}"
    echo "$2" > "house/$1"
    run perl "$ROOT/tests/layers.pl" house
    rm "house/$1"
    [ "$status" -eq 1 ] || { echo "not found: $1: $2"; return 1; }
    [[ "$output" == *"$1:1:"* ]] || { echo "$output"; return 1; }
}

@test "the check of the rooms finds what it is for" {
    bends common/local/gauss.c '#include "app/open.h"'
    bends common/engine/plan.c '#include "local/gauss.h"'
    bends common/stack/reader.h 'struct vp_run;'
    bends common/pages/select.c 'int vp_select(const struct vp_run *run);'
    bends cuda/math.cu '#include "app/image.h"'
    bends tools/img-gauss.c '#include "device/device.h"'
    bends common/stack/paths.c 'qsort(path, n, sizeof *path, natural);'
    mkdir -p house/common/attic
    run perl "$ROOT/tests/layers.pl" house
    [ "$status" -eq 1 ]
    rmdir house/common/attic
    echo '#include "engine/op.h"' > house/common/local/gauss.c
    ok perl "$ROOT/tests/layers.pl" house
    rm house/common/local/gauss.c
}

# twice FILE FILE TEXT: the check finds the text in the second file because it is in the first one, too
twice() {
    mkdir -p "house/${1%/*}" "house/${2%/*}"
    printf '%s\n' "$3" > "house/$1"
    printf '\n%s\n' "$3" > "house/$2"
    run perl "$ROOT/tests/layers.pl" house
    rm "house/$1" "house/$2"
    [ "$status" -eq 1 ] || { echo "not found: $1 $2: $3"; return 1; }
    [[ "$output" == "$2:2:"*"also $1:1:"* ]] || { echo "$output"; return 1; }
}

@test "the check of the rooms finds names that are given twice" {
    twice common/base/a.h common/local/b.h 'struct vp_a {'
    twice common/base/a.h cuda/b.cuh 'enum vp_a {VP_A};'
    twice common/base/a.c cuda/b.cuh 'struct alignas(8) a {'
    twice common/base/a.c common/base/b.c 'static const struct a {'
    twice common/base/a.h common/local/b.h 'int vp_a(void);'
    twice common/base/a.h common/local/b.h 'static inline const char *vp_a(void)'
    twice common/base/a.h common/local/b.h '#define VP_A 1'
    mkdir -p house/tools
    for file in common/base/a.c common/local/b.c tools/c.c tools/d.c; do
        echo 'struct params {' > "house/$file"
    done
    ok perl "$ROOT/tests/layers.pl" house
}

@test "comments use the words of the field" {
    ok perl "$ROOT/tests/english.pl" "$ROOT"
}

# stumbles PATTERN COMMENT: the check finds the comment, by that pattern, and no other
stumbles() {
    printf '%s\n' 'static const char *const text = "/* what // was told so many";' "int x; $2" > house/cuda/a.cuh
    run perl "$ROOT/tests/english.pl" house cuda
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "cuda/a.cuh:2: $1: "* ]] || { echo "not found: $1: $2"; echo "$output"; return 1; }
    [ "$(grep -c '^cuda/' <<< "$output")" -eq 1 ]
}

@test "the check of the words finds what it is for" {
    mkdir -p house/cuda
    stumbles head '// Of a tile'
    stumbles head '/* what a tile holds */'
    stumbles 'so many' '// a tile of so many columns'
    stumbles behind '// the row behind it'
    stumbles tell '/* the tile tells its sum */'
    stumbles ask '// the kernel asks for memory'
    stumbles whoever '// whoever comes first'
    echo '// The sum of a tile, which is what the columns share' > house/cuda/a.cuh
    run perl "$ROOT/tests/english.pl" house
    [ "$status" -eq 0 ]
    printf '// What\n\n//\n%.0s' {1..900} > house/cuda/a.cuh
    run perl "$ROOT/tests/english.pl" house
    [ "$status" -eq 1 ]
    [[ "${lines[0]}" == 'cuda/a.cuh:1: head: '* ]]
    [[ "${lines[1]}" == 'cuda/a.cuh:4: head: '* ]]
}
