load helper

# bytes FILE NUMBER...: one page of u8
bytes() {
    local file=$1
    shift
    perl -e 'print pack("C*", @ARGV)' -- "$@" > bytes.raw
    img-convert --raw-in $#x1:u8le bytes.raw -o "$file"
}

# gives EXPRESSION NUMBER...: the samples 1 2 3 4 become these, in f64
gives() {
    ok img-math -e "$1" --type f64 abcd.tif -o e.tif || return 1
    shift
    [ "$(numbers e.tif 'd<')" = "$*" ] || { echo "expected $*, got $(numbers e.tif 'd<')"; return 1; }
}

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" VOXPIPE_DEVICE=cpu
    perl -e 'print pack("f<*", 1, 2, 3, 4)' |
        img-convert --raw-in 4x1:f32le - -o "$BATS_FILE_TMPDIR/abcd.tif"
    perl -e 'print pack("S<*", map { $_ * 37 % 5000 } 0 .. 12 * 10 * 18 - 1)' |
        img-convert --raw-in 12x10:u16le - -o "$BATS_FILE_TMPDIR/stack.tif"
}

@test "operators, their order and direction" {
    cp "$BATS_FILE_TMPDIR"/abcd.tif .
    gives 'a + 2 * 3' 7 8 9 10
    gives '(a + 2) * 3' 9 12 15 18
    gives '-a^2' -1 -4 -9 -16
    gives '2^3^a/2^2' 2 128 33554432 6.04462909807315e+23
    gives 'a - 1 - 1' -1 0 1 2
    gives '12 / a / 2' 6 3 2 1.5
    gives 'a % 3' 1 2 0 1
    gives '-a % 3' 2 1 0 2
    # a remainder has the sign of the divisor, also if it is 0
    gives '1 / (a % 2)' 1 Inf 1 Inf
    gives '1 / (-a % 2)' 1 Inf 1 Inf
    gives '1 / (a % -2)' -1 -Inf -1 -Inf
    gives '1 / (a % -1 + 0 * a)' Inf Inf Inf Inf
    gives '1 / (-6 % -3)' -Inf -Inf -Inf -Inf
    gives 'a > 2' 0 0 1 1
    gives 'a + 1 >= 3 and not a == 4' 0 1 1 0
    gives 'a < 2 or a > 3 and a > 100' 1 0 0 0
    gives 'a != 2 && !(a == 3)' 1 0 0 1
    gives 'a <= 1 || a >= 4' 1 0 0 1
}

@test "functions and constants" {
    cp "$BATS_FILE_TMPDIR"/abcd.tif .
    gives 'min(a, 2, 3)' 1 2 2 2
    gives 'max(a, 2.5)' 2.5 2.5 3 4
    gives 'clip(a, 2, 3)' 2 2 3 3
    gives 'abs(2 - a)' 1 0 1 2
    gives 'sqrt(a * a)' 1 2 3 4
    gives 'log(exp(a))' 1 2 3 4
    gives 'floor(a / 2) + 10 * ceil(a / 2)' 10 11 21 22
    gives 'round(a / 2)' 0 1 2 2
    gives 'if(a > 2, a, -1)' -1 -1 3 4
    gives 'isnan(if(a > 2, nan, a))' 0 0 1 1
    gives 'a / 0 == inf' 1 1 1 1
    gives 'floor(100 * pi)' 314 314 314 314
    gives 'max(nan, a) == max(nan, a)' 0 0 0 0
}

@test "position: column, row, slice and page" {
    cp "$BATS_FILE_TMPDIR"/stack.tif .
    ok img-math 'x + 100 * y + 10000 * z + 1000000 * page' --type u32 stack.tif -o p.tif
    perl -e 'for $z (0 .. 17) { for $y (0 .. 9) { print pack("L<*", map { $_ + 100 * $y + 1010000 * $z } 0 .. 11) } }' > want.raw
    img-math -e a --raw-out p.tif | cmp - want.raw
}

@test "several stacks, and one page for all" {
    floats a.tif 1 2 3
    floats b.tif 10 20 30
    img-cat a.tif b.tif -o ab.tif
    img-cat b.tif a.tif -o ba.tif
    ok img-math 'b - a' ab.tif ba.tif -o d.tif
    [ "$(numbers d.tif 'f<')" = "9 18 27 -9 -18 -27" ]
    ok img-math 'a + b * c' ab.tif a.tif ba.tif -o d.tif
    [ "$(numbers d.tif 'f<')" = "11 42 93 11 24 39" ]
    ok img-math 'a + b' a.tif ab.tif -o d.tif
    [ "$(numbers d.tif 'f<')" = "2 4 6 11 22 33" ]
    # of different types: computed in one that holds both
    bytes m.tif 0 255 1
    ok img-math 'if(b, a, 0) + b' ab.tif m.tif -o d.tif
    [ "$(numbers d.tif 'f<')" = "0 257 4 0 275 31" ]
    cat ba.tif | img-math 'b - a' ab.tif - | img-cmp -q - <(img-math 'b - a' ab.tif ba.tif)
}

@test "stacks that do not fit each other" {
    floats a.tif 1 2 3
    floats b.tif 1 2
    img-cat a.tif a.tif -o aa.tif
    img-cat a.tif a.tif a.tif -o aaa.tif
    fails 1 "expected the same size" img-math 'a + b' a.tif b.tif
    fails 1 "expected equal numbers, or one page" img-math 'a + b' aa.tif aaa.tif
    fails 1 "has" sh -c 'cat aaa.tif | img-math "a + b" aa.tif -'
    fails 1 "has" sh -c 'cat aa.tif | img-math "a + b" aaa.tif -'
    fails 2 "standard input ('-') is given more than once" img-math 'a + b' - -
}

@test "the type of the result" {
    floats f.tif 1 2 3
    bytes b.tif 0 100 200
    of() { img-math "$1" "$2" | img-info --value type -; }
    [ "$(of 'a * 1.5' f.tif)" = f32 ]
    [ "$(of 'a' b.tif)" = u8 ]
    [ "$(of 'clip(a, 10, 20)' b.tif)" = u8 ]
    [ "$(of '255 - a' b.tif)" = u8 ]
    [ "$(of 'a > 100' b.tif)" = u8 ]
    [ "$(of 'a / 2' b.tif)" = f32 ]
    [ "$(of 'round(a / 2)' b.tif)" = u8 ]
    [ "$(of 'a - 1' b.tif)" = f32 ]
    [ "$(of 'a + a' b.tif)" = f32 ]
    [ "$(of 'a % 10' b.tif)" = u8 ]
    [ "$(img-math 'a * 2' --type u16 b.tif | img-info --value type -)" = u16 ]
    # conversion as img-convert does it, and said once
    run --separate-stderr img-math 'a * 1.5 - 10.5' --type u8 b.tif -o c.tif
    [ "$status" -eq 0 ]
    [ "$(numbers c.tif C)" = "0 140 255" ]
    [ "$stderr" = "img-math: warning: 2 samples do not fit u8: clamped, NaN to 0" ]
    img-convert --type i8 f.tif -o i.tif
    [ "$(of 'a' i.tif)" = i8 ]
    [ "$(numbers <(img-math 'a' i.tif) c)" = "1 2 3" ]
    run --separate-stderr img-math 'a * 60' --type i8 i.tif -o c.tif
    [ "$(numbers c.tif c)" = "60 120 127" ]
    [ "$stderr" = "img-math: warning: 1 samples do not fit i8: clamped, NaN to 0" ]
}

@test "types that no type holds alike are f64 if a type is asked for" {
    perl -e 'print pack("q<*", -9007199254740992, 5)' > i.raw
    img-convert --raw-in 2x1:i64le i.raw -o i.tif
    perl -e 'print pack("Q<*", 7, 18446744073709551615)' > u.raw
    img-convert --raw-in 2x1:u64le u.raw -o u.tif
    floats f.tif 0.5 -1
    ok img-math -t f64 'a + b' i.tif f.tif -o c.tif
    [ "$(numbers c.tif 'd<')" = "-9.00719925474099e+15 4" ]
    ok img-math -t f64 'a + b' f.tif i.tif -o c.tif
    [ "$(numbers c.tif 'd<')" = "-9.00719925474099e+15 4" ]
    ok img-math -t u8 'a < b' i.tif u.tif -o c.tif
    [ "$(numbers c.tif C)" = "1 1" ]
    ok img-math -t f64 'b - a' i.tif u.tif f.tif -o c.tif
    [ "$(numbers c.tif 'd<')" = "9.007199254741e+15 1.84467440737096e+19" ]
    fails 1 "no type holds both" img-math 'a + b' i.tif f.tif
    [[ "$stderr" == *"hint: with --type both are taken as f64"* ]]
}

@test "a copy is a copy: 64 bit integers and NaN survive" {
    perl -e 'print pack("Q<*", 9007199254740993, 18446744073709551615)' > q.raw
    img-math a --raw-in 2x1:u64le --raw-out q.raw | cmp - q.raw
    perl -e 'print pack("L<*", 0x7fc12345, 0xff800000)' > n.raw
    img-math a --raw-in 2x1:f32le --raw-out n.raw | cmp - n.raw
}

@test "mistakes are pointed at" {
    floats a.tif 1 2
    fails 2 "expression: position 4: expected a value, got the end" img-math 'a +' a.tif
    fails 2 "position 3: expected an operator or the end, got 'b'" img-math 'a b' a.tif
    fails 2 "position 5: expected a value, got '*'" img-math 'a + * 2' a.tif
    fails 2 "position 5: expected a value, got 'é'" img-math 'a + é' a.tif
    fails 2 "position 7: expected a number, a stack (a), x" img-math '1 + 2*foo(a)' a.tif
    fails 2 "hint: the expression comes first: img-math 'a * 2' a.tif" img-math a.tif a.tif
    fails 2 "position 1: b is stack 2, but there is 1" img-math b a.tif
    fails 2 "position 5: clip takes 3 values, got 2" img-math '1 + clip(a, 2)' a.tif
    fails 2 "position 3: expected ')', got the end" img-math '(a' a.tif
    fails 2 "position 2: expected an operator, got 'x'" img-math '2x' a.tif
    fails 2 "position 6: expected an operator, got 'x10'" img-math 'a + 0x10' a.tif
    fails 2 "position 2: expected an operator, got 'X1p3'" img-math '0X1p3' a.tif
    fails 2 "position 5: 1e400 is larger than any number" img-math 'a + 1e400' a.tif
    fails 2 "nested too deeply" img-math "$(printf '(%.0s' {1..300})a" a.tif
    fails 2 "too long" img-math "a$(printf '+a%.0s' {1..2000})" a.tif
    fails 2 "expected an expression" img-math
    fails 2 "at most 8 stacks" img-math a a.tif a.tif a.tif a.tif a.tif a.tif a.tif a.tif a.tif
}

@test "the expression is in the history" {
    floats a.tif 1 2
    img-math "a * 2 > 'x" a.tif -o b.tif 2>/dev/null || img-math "a * 2" a.tif -o b.tif
    [[ "$(img-info b.tif)" == *"img-math 'a * 2'" ]]
    img-math -e 'a + 1' --type f64 a.tif -o b.tif
    [[ "$(img-info b.tif)" == *"img-math --expression 'a + 1' --type f64" ]]
}

@test "chunks, memory, threads, bands and pipes do not matter" {
    cp "$BATS_FILE_TMPDIR"/stack.tif .
    e='a * 3 + x - y * z + page % 5 + if(a > 100, b, 7)'
    img-math "$e" stack.tif stack.tif -o want.tif
    img-math "$e" -j 1 --chunk 5x3x2 stack.tif stack.tif -o got.tif
    cmp got.tif want.tif
    img-math "$e" -j 3 --chunk 7 stack.tif stack.tif -o got.tif
    cmp got.tif want.tif
    cat stack.tif | img-math "$e" - stack.tif | img-cmp -q - want.tif
    img-math "$e" -j 2 --memory 400kB stack.tif stack.tif -o got.tif
    cmp got.tif want.tif
    fails 3 "the smallest portion takes" img-math "$e" --memory 1kB stack.tif stack.tif
    # pages of 4 MB in 600 kB: only rows of them at a time, which a pipe cannot give
    head -c 16000000 /dev/zero | img-math 'x * y % 251 + page' --raw-in 2000x1000:u16le --type u16 - -o pages.tif
    img-math 'a * 2' --type u16 pages.tif -o want.tif
    ok img-math 'a * 2' --type u16 -j 1 --memory 600kB pages.tif -o got.tif
    cmp got.tif want.tif
    img-math --plan 'a * 2' --type u16 -j 1 --memory 600kB pages.tif -o got.tif | grep '^bands:'
    fails 3 "--spool" sh -c "cat pages.tif | img-math 'a * 2' --type u16 --memory 600kB"
}

@test "a pipe that is longer or shorter than the file beside it is an error, however long it goes on" {
    img-cat --pages 0:17 "$BATS_FILE_TMPDIR/stack.tif" -o short.tif
    img-convert --raw-out "$BATS_FILE_TMPDIR/stack.tif" -o long.raw
    img-convert --raw-out short.tif -o short.raw
    local raw="--raw-in 12x10:u16le"
    for n in 4320 4319 4081; do # a page more, and parts of it
        fails 1 "standard input has more pages than the 17 of short.raw" \
            sh -c "head -c $n long.raw | img-math 'a - b' $raw - short.raw -o d.tif"
        fails 1 "standard input has more pages than the 17 of short.raw" \
            sh -c "head -c $n long.raw | img-math 'a - b' $raw short.raw - -o d.tif"
    done
    # of a short stream the length is known
    fails 1 "standard input has 18 pages, short.tif 17: expected equal numbers, or one page" \
        sh -c "cat long.raw | img-convert $raw | img-math 'a - b' - short.tif -o d.tif"
    fails 1 "standard input has more pages than the 17 of short.raw" \
        timeout 20 sh -c "yes | img-math 'a - b' $raw - short.raw -o d.tif"
    fails 1 "long.raw has more pages than standard input" \
        sh -c "cat short.raw | img-math 'a - b' $raw - long.raw -o d.tif"
    [ ! -e d.tif ]
    cat short.raw | img-math 'a - b' $raw - short.raw -o d.tif
    img-math 'a - b' short.tif short.tif | img-cmp -q - d.tif
}

# factors FORMULA OF i, N: N bare samples of f32
factors() { perl -e 'for $i (0 .. $ARGV[1] - 1) { print pack "f<", eval $ARGV[0] }' "$1" "$2"; }

@test "a page of one sample, row or column goes with every sample, whatever the chunks and from pipes, too" {
    cp "$BATS_FILE_TMPDIR"/stack.tif .
    # of 12 x 10 x 18: a factor for each page, a row for each, a column for each, and one of each for all
    factors '1 + $i / 8' 18 >page.raw
    factors '1 + $i / 8' 216 >row.raw
    factors '1 + $i / 8' 180 >column.raw
    local kinds=("page|1x1|1 + z / 8" "row|12x1|1 + (x + 12 * z) / 8" "column|1x10|1 + (y + 10 * z) / 8")
    for kind in "${kinds[@]}"; do
        local name size formula
        IFS='|' read -r name size formula <<<"$kind"
        img-cat --raw-in "$size:f32" "$name.raw" -o "$name.tif"
        img-cat --pages 3 "$name.tif" -o one.tif
        img-math "a * ($formula)" stack.tif -o want.tif
        for how in '' '--chunk 5x3x4' '-j 3 -m 2M'; do
            # shellcheck disable=SC2086
            ok img-math $how 'a * b' stack.tif "$name.tif" -o got.tif
            ok img-cmp -q got.tif want.tif || { echo "$name $how"; return 1; }
        done
        # the metadata is that of the stack of full size
        ok img-math 'b * a' "$name.tif" stack.tif -o got.tif
        ok img-cmp -q got.tif want.tif
        [ "$(img-info --value axes got.tif)" = "$(img-info --value axes stack.tif)" ]
        img-math 'a * b' stack.tif - <"$name.tif" | img-cmp -q - want.tif
        img-math 'a * b' --chunk 12x4x1 - "$name.tif" <stack.tif | img-cmp -q - want.tif
        img-math 'a * b' stack.tif one.tif -o got.tif
        img-math "a * (${formula//z/3})" stack.tif | img-cmp -q - got.tif
        # a single page of full size goes with all of them
        img-cat --pages 5 stack.tif | img-math 'a * b' - "$name.tif" -o got.tif
        [ "$(img-info --value pages got.tif)" = 18 ]
        [ "$(img-info --value nx got.tif)" = 12 ]
    done
    # recorded scales are undone
    img-convert --type u16 --window 0,4 page.tif -o scaled.tif
    img-math 'a * b' stack.tif scaled.tif | img-cmp -q --rtol 1e-4 - <(img-math 'a * (1 + z / 8)' stack.tif)
    # other sizes, and other numbers of pages
    img-cat --region 0:2,0:1 stack.tif -o two.tif
    fails 1 "expected the same size" img-math 'a * b' stack.tif two.tif -o never.tif
    img-cat --pages 0:17 page.tif -o few.tif
    fails 1 "expected equal numbers, or one page" img-math 'a * b' stack.tif few.tif -o never.tif
    fails 1 "expected equal numbers, or one page" sh -c "cat few.tif | img-math 'a * b' stack.tif - -o never.tif"
    [ ! -e never.tif ]
}

@test "--plan and --stats" {
    cp "$BATS_FILE_TMPDIR"/stack.tif .
    ok img-math --plan 'a * 2' stack.tif -o never.tif
    [ ! -e never.tif ]
    [[ "$output" == *"image:"*"12 x 10 x 18, u16 to f32"* && "$output" == *"operation:"*"math, 1 step"* && "$output" == *"limit:"* ]]
    img-math 'a * 2' stack.tif --stats s.json -o b.tif
    grep -q '"voxels": 2160' s.json && grep -q '"compute"' s.json
}

@test "what the samples stood for is not claimed of the result: the logarithm of counts can be reconstructed" {
    ct-geom --sod 400 --sdd 600 --detector 32x8 --pitch 5 --views 60 | ct-phantom --counts --noise 1e6 -g - -o counts.tif
    fails 2 "holds counts" ct-fdk --volume 4x4x4 counts.tif
    ok img-math -e '-log(a / 1e6)' counts.tif -o lines.tif
    [ "$(img-info --value quantity lines.tif)" = "" ]
    [ "$(img-info --value value-unit lines.tif)" = "" ]
    ct-fdk -q --volume 4x4x4 lines.tif -o vol.tif
}
