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

@test "rooms know each other in one direction, and only programs know what a program was told" {
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
}
