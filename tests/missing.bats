# Samples that do not exist: --missing and --mask of img-gauss, -local, -morph, -convolve, -wiener, -nlmeans and -threshold.
# The reference is tests/missing.py, by hand in float64, where Python has NumPy.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    # 17 x 13 x 5: a hole that no neighbourhood spans, and a third of the rest at random
    perl -e 'srand 3; for $z (0 .. 4) { for $y (0 .. 12) { for $x (0 .. 16) {
        $gone = rand() < .3 || ($x > 5 && $x < 14 && $y < 9);
        push @f, $gone ? "nan" : rand 100; push @m, $gone ? 0 : 255; push @u, int rand 65536 } } }
        sub put { open F, ">", shift; binmode F; print F @_; close F }
        put("f.raw", pack("f<*", @f)); put("m.raw", pack("C*", @m)); put("page.raw", pack("C*", @m[0 .. 220]));
        put("u16.raw", pack("S<*", @u)); put("i16.raw", pack("s<*", map { $_ - 32768 } @u));
        put("u8.raw", pack("C*", map { $_ >> 8 } @u)); put("whole.raw", pack("f<*", map { $_ / 700 - 20 } @u));
        put("k.raw", pack("f<*", map { $_ % 7 ? rand : 0 } 0 .. 59)); put("k2.raw", pack("f<*", map { rand } 1 .. 20))'
    img-cat --raw-in 17x13x5:f32le f.raw -o f.tif
    img-cat --raw-in 17x13x5:f32le whole.raw -o whole.tif
    img-cat --raw-in 17x13x5:u8 m.raw -o m.tif
    img-cat --raw-in 17x13x1:u8 page.raw -o page.tif
    img-cat --raw-in 17x13x5:u16le u16.raw -o u16.tif
    img-cat --raw-in 17x13x5:i16le i16.raw -o i16.tif
    img-cat --raw-in 17x13x5:u8 u8.raw -o u8.tif
    img-cat --raw-in 5x4x3:f32le k.raw -o k.tif
    img-cat --raw-in 5x4x1:f32le k2.raw -o k2.tif
}

# python3 with NumPy, or the test is skipped
needs_numpy() {
    for PYTHON in python3 /usr/bin/python3 none; do
        if "$PYTHON" -c 'import numpy' 2>/dev/null; then return 0; fi
    done
    skip "no Python 3 with NumPy"
}

# as_reference TYPE_IN TYPE_OUT MASK FILL WHAT 'KEY=VALUE...' COMMAND...: COMMAND gives what the reference does; f.raw is f32.
# Integers are equal, but for sums in f32 that lie half-way between two
as_reference() {
    local in=$1 out=$2 mask=$3 fill=$4 what=$5 keys=$6 near=2e-6 source=$1.raw
    shift 6
    [ "$in" != f32 ] || source=f.raw
    [ "$out" != f64 ] || near=1e-13
    [ "${out:0:1}" = f ] || near=$([[ $what = gauss || $what = convolve || $what = nlmeans ]] && echo 1 || echo 0)
    echo "$*: $what $keys"
    ok sh -c '"$@" --raw-out > got.raw' sh "$@"
    # shellcheck disable=SC2086
    "$PYTHON" "$ROOT/tests/missing.py" "$what" "17x13x5:$in" "$source" "$mask" want.raw $keys
    "$PYTHON" "$ROOT/tests/missing.py" compare "$out" got.raw want.raw "$fill" "$near"
}

# row: img-ARGS... over 1 NaN 4 8, as numbers
row() {
    "$@" row.tif -o out.tif
    numbers out.tif 'f<' | sed 's/[-+]*nan/nan/gi'
}

@test "by hand: 1 nan 4 8" {
    floats row.tif 1 nan 4 8
    [ "$(row img-local --missing nan --stat mean)" = "1 2.5 6 6" ]
    [ "$(row img-local --missing nan --stat max)" = "1 4 8 8" ]
    [ "$(row img-local --missing nan)" = "1 1 4 4" ] # the lower of two
    [ "$(row img-local --missing nan --stat var)" = "0 2.25 4 4" ]
    [ "$(row img-local --missing nan --stat mean --keep-missing)" = "1 nan 6 6" ]
    # 1 of 2, 2 of 3, 2 of 3, 2 of 2
    [ "$(row img-local --missing nan --stat mean --coverage 0.5)" = "1 2.5 6 6" ]
    [ "$(row img-local --missing nan --stat mean --coverage 0.6)" = "nan 2.5 6 6" ]
    [ "$(row img-local --missing nan --stat mean --coverage 0.67)" = "nan nan nan 6" ]
    [ "$(row img-local --missing nan --stat max --coverage 0.67)" = "nan nan nan 8" ]
    [ "$(row img-local --missing nan --stat mean --coverage 0.67 --fill=-1)" = "-1 -1 -1 6" ]
    [ "$(row img-local --missing nan --stat max --coverage 0.67 --fill=-1)" = "-1 -1 -1 8" ]
    # twice is the program twice: holes are filled in between
    [ "$(row img-local --missing nan --stat max -n 2)" = "4 8 8 8" ]
    [ "$(row img-local --missing nan --stat mean -n 2 --keep-missing)" = "1 nan 6 6" ]
    # 8 is no sample, too
    [ "$(row img-local --missing 8 --stat mean)" = "1 2.5 4 4" ]
    [ "$(row img-morph --missing nan --op erode)" = "1 1 4 4" ]
    [ "$(row img-morph --missing nan --op close)" = "1 1 4 8" ] # dilate: 1 4 8 8
    [ "$(row img-morph --missing nan --op tophat)" = "0 nan 0 4" ] # opening 1 1 4 4
    [ "$(row img-morph --missing nan --op gradient)" = "0 3 4 4" ]
    # mean and variance 1 0, 2.5 2.25, 6 4, 6 4
    [ "$(row img-wiener --missing nan --noise 2)" = "1 2.5 5 7" ]
    floats k.tif 1 2 1
    # 2/2 x 4, (1 + 4)/2 x 4, (8 + 8)/3 x 4, (4 + 16)/3 x 4, in f32
    [ "$(row img-convolve -k k.tif --missing nan)" = "4 10 21.3333339691162 26.6666660308838" ]
    ok img-threshold --missing nan --local mean --window 3 row.tif -o out.tif
    [ "$(numbers out.tif C)" = "0 0 0 255" ]
    ok img-threshold --missing nan --local mean --window 3 --below row.tif -o out.tif
    [ "$(numbers out.tif C)" = "255 0 255 0" ] # what is missing is never marked
    ok img-threshold --missing 4 --at 2 --below row.tif -o out.tif
    [ "$(numbers out.tif C)" = "255 0 0 0" ]
}

@test "statistics are those of the samples that exist" {
    needs_numpy
    as_reference f32 f32 - 0 mean radius=1,2,1 img-local --stat mean --radius 1,2,1 --missing nan f.tif
    as_reference f32 f32 - 0 std "radius=1,2,1 sample" img-local --stat std --sample --radius 1,2,1 --missing nan f.tif
    as_reference f32 f32 - 0 var "radius=2,2,1 shape=ball coverage=0.4" img-local --stat var --shape ball --radius 2,2,1 --coverage 0.4 --missing nan f.tif
    as_reference f32 f32 - 0 rank "radius=2,1,0 percent=50" img-local --radius 2,1,0 --missing nan f.tif
    as_reference f32 f32 - 0 rank "radius=2,1,0 percent=80 coverage=0.5 keep" img-local --stat percentile:80 --coverage 0.5 --radius 2,1,0 --keep-missing --missing nan f.tif
    as_reference f32 f32 - 0 rank "radius=1,1,1 percent=50 times=3 coverage=0.4" img-local -n 3 --coverage 0.4 --missing nan f.tif
    as_reference f32 f32 - 0 min "radius=2,2,1 shape=ball" img-local --stat min --radius 2,2,1 --shape ball --missing nan f.tif
    as_reference f32 f32 - 0 max "radius=2,2,1 keep coverage=.3" img-local --stat max --radius 2,2,1 --keep-missing --coverage .3 --missing nan f.tif
    as_reference f32 f32 - 0 entropy "radius=2,2,1 lo=0 hi=100 bins=16" img-local --stat entropy --range 0,100 --bins 16 --radius 2,2,1 --missing nan f.tif
    as_reference f32 f32 - 0 wiener "radius=2,2,1 noise=500" img-wiener --noise 500 --radius 2,2,1 --missing nan f.tif
    for t in u8 u16 i16; do
        as_reference $t $t m.raw 7 mean radius=2,2,1 img-local --stat mean --radius 2,2,1 --mask m.tif --fill 7 $t.tif
        as_reference $t $t page.raw 7 rank "radius=2,2,1 percent=30 times=2" img-local --stat percentile:30 -n 2 --radius 2,2,1 --mask page.tif --fill 7 $t.tif
        as_reference $t $t m.raw 7 max "radius=1,1,1 coverage=.5" img-morph --op dilate --coverage .5 --mask m.tif --fill 7 $t.tif
        as_reference $t $t m.raw 7 wiener "radius=2,2,1 noise=2000" img-wiener --radius 2,2,1 --noise 2000 --mask m.tif --fill 7 $t.tif
        as_reference $t f32 m.raw 7 std "radius=2,1,1" img-local --stat std --radius 2,1,1 --mask m.tif $t.tif
    done
    as_reference u8 u8 - 77 rank "radius=1,1,0 percent=50 value=77" img-local --radius 1,1,0 --missing 77 u8.tif
    as_reference i16 i16 m.raw 0 max "radius=1,1,1 value=12" img-local --stat max --missing 12 --mask m.tif --fill 0 i16.tif
}

@test "samples of u32, i32 and f64" {
    needs_numpy
    perl -e 'srand 9; for (1 .. 1105) { push @u, int rand 4294967296; push @d, rand(1e6) + 1e9 }
        sub put { open F, ">", shift; binmode F; print F @_; close F }
        put("u32.raw", pack("L<*", @u)); put("i32.raw", pack("l<*", map { $_ - 2147483648 } @u)); put("f64.raw", pack("d<*", @d))'
    for t in u32 i32 f64; do img-cat --raw-in 17x13x5:${t}le $t.raw -o $t.tif; done
    for t in u32 i32 f64; do
        fill="--fill 7"
        if [ $t = f64 ]; then fill=""; fi
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 mean radius=2,2,1 img-local --stat mean --radius 2,2,1 --mask m.tif $fill $t.tif
        as_reference $t f64 m.raw 7 var "radius=2,1,1 sample" img-local --stat var --sample --radius 2,1,1 --type f64 --mask m.tif $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t page.raw 7 rank "radius=2,2,1 percent=30 times=2" img-local --stat percentile:30 -n 2 --radius 2,2,1 --mask page.tif $fill $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 max "radius=1,1,1 coverage=.5" img-morph --op dilate --coverage .5 --mask m.tif $fill $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 min "radius=2,1,1" img-local --stat min --radius 2,1,1 --mask m.tif $fill $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 wiener "radius=2,2,1 noise=2000" img-wiener --radius 2,2,1 --noise 2000 --mask m.tif $fill $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 gauss "sigma=1,.5,.5" img-gauss --sigma 1,.5,.5 --mask m.tif $fill $t.tif
        # shellcheck disable=SC2086
        as_reference $t $t m.raw 7 nlmeans "search=2,2,1 patch=1,1,0 h=2e8" img-nlmeans --search 2,2,1 --patch 1,1,0 --h 2e8 --mask m.tif $fill $t.tif
        as_reference $t u8 m.raw 0 above "radius=3,3,1 k=0.3" img-threshold --local niblack --k -0.3 --window 7,7,3 --mask m.tif $t.tif
    done
    if [[ "$(ldd "$(command -v img-convolve)")" == *libfftw3* ]]; then
        for t in u32 i32 f64; do
            as_reference $t f64 m.raw 7 convolve "kernel=k2.raw kshape=5x4x1 normalize" img-convolve -k k2.tif --normalize --mask m.tif $t.tif
        done
    fi
    as_reference i32 i32 - 12 max "radius=1,1,1 value=12" img-local --stat max --missing 12 i32.tif
    fails 2 "--missing 3.5: expected a value that u32 samples have" img-gauss --missing 3.5 u32.tif
    fails 2 "--fill 5e+09: expected a value that i32 samples have" img-gauss --mask m.tif --fill 5e9 i32.tif
    fails 2 "--missing nan: expected floats, got u32" img-nlmeans --h 3 --missing nan u32.tif
}

@test "Gaussians and kernels: weights of what exists, with every edge" {
    needs_numpy
    for e in renormalize nearest mirror zero wrap; do
        as_reference f32 f32 - 0 gauss "sigma=1,0.7,0.5 edge=$e" img-gauss --sigma 1,0.7,0.5 --edge $e --missing nan f.tif
        as_reference f32 f32 - 0 convolve "kernel=k.raw kshape=5x4x3 edge=$e" img-convolve -k k.tif --edge $e --missing nan f.tif
        [ $e = renormalize ] ||
            as_reference f32 f32 - 0 convolve "kernel=k.raw kshape=5x4x3 edge=$e crop=full keep" img-convolve -k k.tif --edge $e --crop full --keep-missing --missing nan f.tif
    done
    as_reference f32 f32 - 0 gauss "sigma=1,0.7,0.5 highpass coverage=.4" img-gauss --sigma 1,0.7,0.5 --highpass --coverage .4 --missing nan f.tif
    as_reference f32 f32 - 0 gauss "sigma=0,0.7,0.3 times=2 keep" img-gauss --sigma 0,0.7,0.3 -n 2 --keep-missing --missing nan f.tif
    as_reference f32 f32 - 0 convolve "kernel=k.raw kshape=5x4x3 edge=zero crop=valid correlate normalize keep" img-convolve -k k.tif --crop valid --correlate --normalize --keep-missing --missing nan f.tif
    as_reference f32 f32 - 0 convolve "kernel=k2.raw kshape=5x4x1 coverage=.5" img-convolve -k k2.tif --coverage .5 --missing nan f.tif
    for t in u8 u16 i16; do
        as_reference $t $t m.raw 9 gauss "sigma=1,.5,.5" img-gauss --sigma 1,.5,.5 --mask m.tif --fill 9 $t.tif
        as_reference $t $t m.raw 9 convolve "kernel=k2.raw kshape=5x4x1 normalize" img-convolve -k k2.tif --normalize --mask m.tif --type same --fill 9 $t.tif
    done
}

@test "non-local means: patches and candidates of what exists" {
    needs_numpy
    as_reference f32 f32 - 0 nlmeans "search=3,2,1 patch=1,1,1 h=30 sigma=5" img-nlmeans --search 3,2,1 --patch 1 --h 30 --sigma 5 --missing nan f.tif
    as_reference f32 f32 - 0 nlmeans "search=2,2,0 patch=1,2,0 h=30 coverage=.5 keep" img-nlmeans --search 2,2,0 --patch 1,2,0 --h 30 --coverage .5 --keep-missing --missing nan f.tif
    as_reference u16 u16 m.raw 3 nlmeans "search=2,2,1 patch=1,1,0 h=20000" img-nlmeans --search 2,2,1 --patch 1,1,0 --h 20000 --mask m.tif --fill 3 u16.tif
}

@test "local thresholds of what exists, with every edge" {
    needs_numpy
    for e in renormalize nearest mirror zero wrap; do
        as_reference i16 u8 m.raw 0 above "radius=3,3,1 k=0.3 edge=$e" img-threshold --local niblack --k -0.3 --window 7,7,3 --edge $e --mask m.tif i16.tif
        as_reference f32 u8 - 0 above "radius=1,3,1 offset=-1.5 edge=$e" img-threshold --local mean --offset -1.5 --window 3,7,3 --edge $e --missing nan f.tif
    done
    as_reference f32 u8 m.raw 0 above "radius=3,3,1 offset=1.5 coverage=.5" img-threshold --local mean --offset 1.5 --window 7,7,3 --mask m.tif --coverage .5 f.tif
}

# many ARGS...: calls each with a command of every program, over f32 with holes and over integers
many() {
    local command
    for command in "img-gauss --sigma 1.3 --missing nan f.tif" "img-gauss --sigma 1.3 --edge wrap -n 2 --mask m.tif f.tif" \
        "img-gauss --2d --sigma 2,1 --highpass --mask page.tif u8.tif" "img-local --radius 2 --mask page.tif --fill 0 u16.tif" \
        "img-local --stat std --radius 2,1,1 -n 2 --missing nan f.tif" "img-local --stat entropy --missing nan f.tif" \
        "img-local --stat mean --shape ball --radius 2.5 --missing 5 u8.tif" \
        "img-morph --op open -r 2 --shape ball -n 2 --missing nan --keep-missing f.tif" \
        "img-morph --op tophat -r 2 --mask m.tif --fill 0 i16.tif" "img-convolve -k k.tif --missing nan f.tif" \
        "img-convolve -k k.tif --crop full --edge mirror --mask m.tif whole.tif" "img-wiener --missing nan f.tif" \
        "img-nlmeans --h 40 --search 2 --missing nan f.tif" "img-nlmeans --2d --h 4000 --search 3 --mask m.tif --fill 1 u16.tif" \
        "img-threshold --otsu --mask m.tif u16.tif" "img-threshold --li --weak 3 --missing nan f.tif" \
        "img-threshold --local sauvola --weak 300 --window 5 --edge mirror --mask m.tif u16.tif" \
        "img-threshold --hysteresis 20,50 --missing nan f.tif"; do
        "$@" "$command"
    done
}

# one_way COMMAND: the same bits in every chunk, thread and pipe
one_way() {
    local command=$1 cut how input=${1##* }
    echo "$command"
    $command -q -j 1 --chunk 17x13x5 --raw-out > want.raw
    [ -s want.raw ]
    for cut in 17x13x1 9x13x5 5x4x3 1x13x2; do
        for how in "-j 1" "-j 3"; do
            $command -q $how --chunk $cut --raw-out > got.raw
            cmp got.raw want.raw
        done
    done
    $command -q -m 4M --raw-out > got.raw
    cmp got.raw want.raw
    case $command in img-wiener* | *entropy* | *--li*) return 0 ;; esac # these read it twice
    img-cat "$input" | ${command% *} -q --raw-out > got.raw
    cmp got.raw want.raw
    # the mask from a pipe, too
    if [[ $command = *--mask* ]]; then
        command=$(sed -E 's/(page|m)\.tif/<(img-cat &)/' <<<"$command")
        eval "$command -q --raw-out" > got.raw
        cmp got.raw want.raw
    fi
}

@test "chunks, threads and pipes change no bit" {
    many one_way
}

# complete COMMAND: with nothing missing, the bits of the command without the option
complete() {
    local command=$1
    echo "$command"
    $command --raw-out > want.raw
    $command --missing 99999.5 --fill 0 --raw-out > got.raw 2> said || $command --missing 250 --fill 0 --raw-out > got.raw
    cmp got.raw want.raw
    $command --mask ones.tif --fill 0 --coverage 1 --raw-out > got.raw
    cmp got.raw want.raw
}

@test "nothing missing: the same bits as without the option" {
    img-math 'a * 0 + 1' --type u8 m.tif -o ones.tif
    # 250 is no sample of these
    for t in u8 u16 i16; do img-math 'a - (a == 250)' --type $t $t.tif -o n.$t.tif; done
    cp whole.tif n.f32.tif
    for t in u8 u16 i16 f32; do
        for command in "img-gauss --sigma 1" "img-gauss --sigma 2 --type f32 -n 2 --edge mirror" "img-local" "img-local --stat mean -r 2" \
            "img-local --stat var -r 2 -n 2" "img-local --stat min -r 3" "img-local --stat percentile:11 -n 2 -r 1,2,1" \
            "img-local --stat entropy --range 0,250" "img-morph --op open" "img-morph --op gradient --shape ball -r 2" \
            "img-morph --op bothat -n 2" "img-convolve -k k.tif" "img-convolve -k k2.tif --normalize --type same --edge wrap" \
            "img-convolve -k k.tif --crop valid" "img-wiener --noise 99" "img-wiener" "img-nlmeans --h 20 --search 2"; do
            complete "$command n.$t.tif"
        done
    done
    for command in "img-threshold --at 30" "img-threshold --otsu" "img-threshold --triangle" "img-threshold --li --2d" \
        "img-threshold --yen" "img-threshold --isodata --below" "img-threshold --local bradley --window 5" \
        "img-threshold --local niblack --window 5 --edge nearest --weak 5" "img-threshold --otsu --weak 10" "img-threshold --hysteresis 20,60"; do
        for t in u8 u16 i16 f32; do
            echo "$command $t"
            $command n.$t.tif --raw-out > want.raw
            $command n.$t.tif --mask ones.tif --raw-out > got.raw
            cmp got.raw want.raw
        done
    done
}

@test "a missing sample changes nothing beyond its reach" {
    noise a.tif 60x40x1 f32
    img-math 'a + 0 / (x != 20 or y != 18)' -q a.tif -o hole.tif
    for c in "img-gauss --sigma 1.5" "img-local -r 6" "img-local --stat std -r 6" "img-nlmeans --h 0.5 --search 4 --patch 2" \
        "img-convolve -k k2.tif" "img-wiener --noise 0.1 -r 6"; do
        $c a.tif -o want.tif
        $c --missing nan hole.tif -o got.tif
        for part in 0:14,0:40 27:60,0:40 0:60,0:12 0:60,25:40; do
            ok img-cmp <(img-cat --region $part got.tif) <(img-cat --region $part want.tif)
        done
        [ "$(img-info --value nan got.tif)" = 0 ]
        run img-cmp got.tif want.tif
        [ "$status" -eq 1 ]
    done
}

@test "a constant stays that constant around any holes" {
    for v in 0.1 60000.123 0.000007; do
        img-math "a * 0 + $v" -q f.tif -o c.tif # NaN stays
        for c in "img-gauss --sigma 2" "img-convolve -k k.tif --normalize" "img-local --stat mean -r 6" "img-nlmeans --h 1 --search 7"; do
            echo "$c $v"
            $c --missing nan c.tif -o got.tif
            img-math -q "abs(a - $v) / $v" got.tif -o off.tif
            awk -v most="$(img-info --value max off.tif)" 'BEGIN { exit !(most <= 1.2e-7) }'
            [ "$(img-info --value nan got.tif)" -lt 300 ] # of more than 500
        done
    done
}

@test "an opening is nowhere above the image, and does not change its own result" {
    for shape in "-r 1" "--shape ball -r 2 -n 2"; do
        ok img-morph --op open $shape --missing nan --keep-missing f.tif -o open.tif
        [ "$(img-math 'b > a' f.tif open.tif | img-info --value max)" = 0 ]
        ok img-morph --op open $shape --missing nan --keep-missing open.tif -o again.tif
        cmp <(img-cat --raw-out again.tif) <(img-cat --raw-out open.tif)
        ok img-morph --op close $shape --mask m.tif --fill 0 --keep-missing u16.tif -o close.tif
        [ "$(img-math 'b < a and c' --type u8 u16.tif close.tif m.tif | img-info --value max)" = 0 ]
    done
}

@test "thresholds, ranges and noise are those of the samples that exist" {
    # one half is masked: the other half alone
    noise a.tif 40x20x1 u16
    img-math '(x < 20) * (a / 3) + (x >= 20) * a' --type u16 a.tif -o two.tif
    img-math 'x < 20' --type u8 a.tif -o left.tif
    img-cat --region 0:20,0:20 two.tif -o half.tif
    for t in u16 f32; do
        img-convert --type $t two.tif -o in.tif
        img-convert --type $t half.tif -o part.tif
        for m in otsu triangle li yen isodata; do
            run --separate-stderr img-threshold -v --$m part.tif -o want.tif
            want=$(grep -o 'threshold [0-9.]*' <<<"$stderr")
            run --separate-stderr img-threshold -v --$m --mask left.tif in.tif -o got.tif
            echo "$t $m $want $stderr"
            [[ $stderr = *"$want"* && $want ]]
            img-cmp <(img-cat --region 0:20,0:20 got.tif) want.tif
            [ "$(img-cat --region 20:40,0:20 got.tif | img-info --value max)" = 0 ]
        done
        img-local --stat entropy part.tif -o want.tif
        img-local --stat entropy --mask left.tif --keep-missing in.tif -o got.tif
        img-cmp <(img-cat --region 0:20,0:20 got.tif) want.tif
        run --separate-stderr img-wiener -v part.tif -o want.tif
        want=$(sed -n 's/.*noise variance \([^,]*\),.*/\1/p' <<<"$stderr")
        run --separate-stderr img-wiener -v --mask left.tif --keep-missing --fill 0 in.tif -o got.tif
        near "$(sed -n 's/.*noise variance \([^,]*\),.*/\1/p' <<<"$stderr")" "$want" "$(awk -v n="$want" 'BEGIN { print n * 1e-6 }')"
        [ "$want" != 0 ]
    done
}

@test "nothing at all: holes, and no threshold" {
    img-math 'a * 0' --type u8 m.tif -o none.tif
    for c in "img-gauss --sigma 2" "img-local" "img-local --stat mean" "img-local --stat entropy --range 0,1" "img-morph --op close" \
        "img-convolve -k k.tif" "img-wiener --noise 1" "img-nlmeans --h 1 --search 2"; do
        ok $c --mask none.tif whole.tif -o out.tif
        [ "$(img-info --value nan out.tif)" = 1105 ] || { echo "$c"; return 1; }
    done
    ok img-morph --op erode --mask none.tif --fill 17 u8.tif -o out.tif
    [ "$(img-info --value min,max out.tif | xargs)" = "17 17" ]
    ok img-threshold --otsu --mask none.tif u8.tif -o out.tif
    [ "$(img-info --value max out.tif)" = 0 ]
    ok img-threshold --local mean --below --mask none.tif u8.tif -o out.tif
    [ "$(img-info --value max out.tif)" = 0 ]
    fails 1 "no sample that exists is finite" img-local --stat entropy --mask none.tif whole.tif
}

@test "VALUE and --fill are values where a scale is recorded" {
    floats row.tif 1 2 4 8
    img-convert --type u8 --scale 10,5 row.tif -o scaled.tif # 15 25 45 85
    ok img-local --stat max --missing 8 --fill 3 --coverage 0.6 scaled.tif -o out.tif
    [ "$(numbers out.tif C)" = "25 45 45 35" ] # 1 of 2
    fails 2 "--missing 8.01: expected a value that u8 samples have" img-local --missing 8.01 scaled.tif
    fails 2 "--fill 30: expected a value that u8 samples have" img-local --missing 8 --fill 30 scaled.tif
    floats k.tif 1 1 1
    ok img-convolve -k k.tif --missing 8 scaled.tif -o out.tif # which undoes it
    [ "$(numbers out.tif 'f<')" = "$(perl -e 'print join " ", map { unpack "f<", pack "f<", $_ } 4.5, 7, 9, 12')" ] || { numbers out.tif 'f<'; return 1; }
}

@test "what cannot be is refused, in one line" {
    one_page=$(img-cat --pages 0:2 m.tif -o three.tif && echo page.tif)
    [ "$one_page" ]
    img-cat --region 0:9,0:9 m.tif -o small.tif
    while IFS='|' read -r command integers; do
        for bad in "2|--coverage needs --missing or --mask|--coverage 0.5 whole.tif" \
            "2|--missing: expected nan or a number, got 'none'|--missing none whole.tif" \
            "2|--missing: expected nan or a number, got '7x'|--missing 7x whole.tif" \
            "2|--missing nan: expected floats, got u8|--missing nan u8.tif" \
            "2|--missing 256: expected a value that u8 samples have|--missing 256 u8.tif" \
            "2|--missing 3.5: expected a value that u16 samples have|--missing 3.5 u16.tif" \
            "1|expected a mask of u8, got u16|--mask u16.tif whole.tif" \
            "1|expected the same size|--mask small.tif whole.tif" \
            "1|expected equal numbers, or a mask of one page|--mask three.tif whole.tif" \
            "1|absent.tif: No such file|--mask absent.tif whole.tif"; do
            IFS='|' read -r status text args <<<"$bad"
            if [[ $command = *threshold* && $args = --coverage* ]]; then continue; fi
            echo "$command $args"
            # shellcheck disable=SC2086
            run --separate-stderr $command $args
            [ "$status" -eq "${bad%%|*}" ] && [ ! "$output" ] && [[ $stderr = *"$text"* ]] || { echo "$status $stderr"; return 1; }
            [ "$(grep -c error: <<<"$stderr")" = 1 ]
        done
        [ "$integers" ] || continue
        fails 2 "expected --fill VALUE" $command --mask m.tif u8.tif
        fails 2 "--fill 256: expected a value that u8 samples have" $command --mask m.tif --fill 256 u8.tif
        fails 2 "--fill needs --missing or --mask" $command --fill 3 u8.tif
        fails 2 "--keep-missing needs --missing or --mask" $command --keep-missing u8.tif
    done <<'END'
img-gauss|yes
img-local --stat mean|yes
img-local|yes
img-local --stat min|yes
img-local --stat std --type same|yes
img-morph --op close|yes
img-convolve -k k.tif --type same|yes
img-wiener --noise 3|yes
img-nlmeans --h 3 --search 1|yes
img-threshold --at 3|
img-threshold --otsu|
img-threshold --local mean|
END
    fails 2 "expected --fill VALUE for where nothing is there" img-morph --op tophat --missing 3 i16.tif # u16
    fails 2 "--derivative: the slope of missing samples is not defined" img-gauss --derivative 1,0,0 --missing nan f.tif
    fails 2 "--coverage needs --local, got --otsu" img-threshold --otsu --coverage 0.5 --missing nan f.tif
    img-math 'a - 0.5' -q k.tif -o signed.tif
    fails 2 "expected weights of 0 or more" img-convolve -k signed.tif --edge zero --missing nan f.tif
    img-cat k2.tif k2.tif -o grid.tif
    fails 2 "a grid of kernels with missing samples: expected one kernel" img-convolve -k grid.tif --grid 2x1 --missing nan f.tif
    img-cat --pages 0 f.tif -o one.tif
    fails 1 "expected equal numbers, or a mask of one page" img-gauss --mask m.tif one.tif
    fails 2 "standard input is the image already" sh -c 'cat m.tif | img-gauss --mask - -'
    fails 2 "m.tif" img-gauss --mask m.tif f.tif -o m.tif
    img-cat --pages 0:3 m.tif -o four.tif
    fails 1 "pages" sh -c 'cat four.tif | img-gauss --mask /dev/stdin f.tif'
}

@test "a device gives the bits of the CPU, and so does auto; what a device cannot do is refused" {
    [ -e "$BUILD/emulated/voxpipe-cuda.so" ] || skip "built without CUDA"
    export VOXPIPE_PLUGINS=$BUILD/emulated
    img-gauss --missing nan f.tif --raw-out > want.raw
    img-gauss --missing nan --device cuda f.tif --raw-out --stats stats.json > got.raw
    grep -q '"device": "cuda' stats.json
    cmp got.raw want.raw
    VOXPIPE_DEVICE=auto img-gauss --missing nan f.tif --raw-out > got.raw
    cmp got.raw want.raw
    img-convert --type f64 whole.tif -o f64.tif
    for c in "img-gauss" "img-local --stat mean" "img-morph --op open" "img-wiener --noise 3" "img-nlmeans --h 3 --search 1" \
        "img-threshold --at 3" "img-threshold --otsu"; do
        fails 3 "no kernel for f64" $c --device cuda:0 --missing 2 f64.tif
    done
    fails 3 "missing: no kernel for missing samples and the entropy of more than 1024" img-local --stat entropy --radius 16,12,2 \
        --device cuda:0 --missing nan f.tif
    fails 3 "missing: no kernel for voxels beyond the edge" img-threshold --local mean --edge mirror --window 3 \
        --device cuda:0 --missing nan f.tif
}
