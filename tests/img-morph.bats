# Flat morphology: values by hand and by definition, at the edges too, however the work is cut up.
load helper

# bytes FILE WxHxD:TYPE LETTER NUMBER...: a stack of these samples
bytes() {
    local file=$1 spec=$2 letter=$3
    shift 3
    perl -e 'print pack("$ARGV[0]*", @ARGV[1..$#ARGV])' -- "$letter" "$@" > bytes.raw
    img-cat --raw-in "$spec" bytes.raw -o "$file"
}

# numbers FILE LETTER: all samples, unpacked
numbers() {
    img-cat --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("$ARGV[0]*", <STDIN>)), "\n"' -- "$2"
}

# a volume of noise, 37 x 23 x 19
noise() {
    perl -e 'srand 5; print pack("S<*", map { int rand 65536 } 1 .. 37 * 23 * 19)' > noise.raw
    img-cat --raw-in 37x23x19:u16le noise.raw -o noise.tif
}

# a volume of 0 with one voxel of 1 at (x, y, z)
delta() {
    perl -e '($x, $y, $z) = @ARGV; for $k (0 .. 10) { for $j (0 .. 12) { for $i (0 .. 14) {
        print pack("C", $i == $x && $j == $y && $k == $z) } } }' "$@" > delta.raw
    img-cat --raw-in 15x13x11:u8 delta.raw -o delta.tif
}

count() {
    img-cat --raw-out "$1" | perl -e 'undef $/; $n = () = <STDIN> =~ /\x01/g; print "$n\n"'
}

@test "a voxel grows into the neighbourhood, cut at the edge" {
    delta 7 6 5
    ok img-morph --op dilate --radius 2 delta.tif -o a.tif
    [ "$(count a.tif)" -eq 125 ]
    ok img-morph --op dilate --radius 3,1,0 delta.tif -o a.tif
    [ "$(count a.tif)" -eq 21 ]
    ok img-morph --op dilate --shape ball delta.tif -o a.tif
    [ "$(count a.tif)" -eq 7 ]
    ok img-morph --op dilate --shape ball --radius 1.5 delta.tif -o a.tif
    [ "$(count a.tif)" -eq 19 ]
    ok img-morph --op dilate --shape ball --radius 3 delta.tif -o a.tif
    [ "$(count a.tif)" -eq 123 ]
    ok img-morph --op dilate --radius 2 --2d delta.tif -o a.tif
    [ "$(count a.tif)" -eq 25 ]
    delta 0 0 0
    ok img-morph --op dilate --radius 2 delta.tif -o a.tif
    [ "$(count a.tif)" -eq 27 ]
    ok img-morph --op dilate --radius 100 delta.tif -o a.tif
    [ "$(count a.tif)" -eq $((15 * 13 * 11)) ]
}

@test "every operation on a row, by hand" {
    bytes a.tif 9x1x1:u8 C 5 5 9 5 5 5 1 5 7
    row() {
        ok img-morph --op "$1" a.tif -o b.tif
        [ "$(numbers b.tif C)" = "$2" ] || { echo "$1: $(numbers b.tif C)"; return 1; }
    }
    row erode    "5 5 5 5 5 1 1 1 5"
    row dilate   "5 9 9 9 5 5 5 7 7"
    row open     "5 5 5 5 5 5 1 5 5"
    row close    "5 5 9 5 5 5 5 5 7"
    row tophat   "0 0 4 0 0 0 0 0 2"
    row bothat   "0 0 0 0 0 0 4 0 0"
    row gradient "0 4 4 4 0 4 4 6 2"
}

# footprint FILE WxHxD NUMBER...: a neighbourhood
footprint() {
    local file=$1 size=$2
    shift 2
    bytes "$file" "$size:u8" C "$@"
}

@test "any footprint, by hand: erosions take it as it is, dilations its opposite" {
    bytes a.tif 9x1x1:u8 C 5 5 9 5 5 5 1 5 7
    footprint pair.tif 2x1x1 1 1
    row() {
        ok img-morph --op "$1" --footprint pair.tif "${@:3}" a.tif -o b.tif
        [ "$(numbers b.tif C)" = "$2" ] || { echo "$1: $(numbers b.tif C)"; return 1; }
    }
    row erode    "5 5 5 5 5 5 1 1 5"
    row dilate   "5 9 9 5 5 5 5 7 7"
    row open     "5 5 5 5 5 5 1 5 5"
    row close    "5 5 9 5 5 5 5 5 7"
    row tophat   "0 0 4 0 0 0 0 0 2"
    row bothat   "0 0 0 0 0 0 4 0 0"
    row gradient "0 4 4 0 0 0 4 6 2"
    row erode    "5 5 5 5 5 1 1 5 7" --center 0,0
    row dilate   "5 5 9 9 5 5 5 5 7" --center 0,0
    row erode    "5 5 5 5 5 5 1 1 1" --iterations 2
    # none of its samples is in the image
    footprint far.tif 3x1x1 1 0 0
    img-morph --op erode --footprint far.tif --center 2,0 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "255 255 5 5 9 5 5 5 1" ]
    img-morph --op dilate --footprint far.tif --center 2,0 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "9 5 5 5 1 5 7 0 0" ]
}

@test "a voxel grows into the footprint itself; one page is for every slice" {
    delta 7 6 5
    footprint set.tif 4x3x2 1 1 1 1 1 0 0 0 1 0 0 0  0 0 0 0 0 0 0 0 0 0 0 1
    ok img-morph --op dilate --footprint set.tif delta.tif -o a.tif
    [ "$(count a.tif)" -eq 7 ]
    # the last sample is at + 1, + 1, 0 from the centre 2, 1, 1
    [ "$(img-cat --raw-out --region 8:9,7:8 --pages 5 a.tif | od -An -tu1 | xargs)" = 1 ]
    [ "$(img-cat --raw-out --region 6:7,5:6 --pages 5 a.tif | od -An -tu1 | xargs)" = 0 ]
    footprint set.tif 4x1x1 1 1 0 1
    ok img-morph --op dilate --footprint set.tif delta.tif -o a.tif
    [ "$(count a.tif)" -eq 3 ]
}

@test "a footprint that is a box or a ball is made as one" {
    noise
    footprint box.tif 5x3x1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
    img-morph --op open --footprint box.tif --plan noise.tif | grep "^operation: min, box 5 x 3 x 1"
    footprint ball.tif 3x3x3 0 0 0 0 1 0 0 0 0 0 1 0 1 1 1 0 1 0 0 0 0 0 1 0 0 0 0
    img-morph --op open --footprint ball.tif --plan noise.tif | grep "^operation: min, ball of radius 1 1 1, 7 voxels"
    ok img-morph --op open --footprint ball.tif noise.tif -o a.tif
    ok img-morph --op open --shape ball noise.tif -o b.tif
    img-cmp a.tif b.tif
    footprint even.tif 2x2x1 1 1 1 0
    img-morph --op open --footprint even.tif --plan noise.tif | grep "^operation: min, footprint 2 x 2 x 1, 3 voxels"
}

@test "chunks, threads, memory and pipes do not show with a footprint" {
    noise
    perl -e 'srand 2; print pack("C*", map { rand() < .4 } 1 .. 6 * 5 * 3)' > set.raw
    img-cat --raw-in 6x5x3:u8 set.raw -o set.tif
    for op in open close tophat bothat "erode --iterations 2" "dilate --center 0,4,1"; do
        # shellcheck disable=SC2086
        set -- --op $op --footprint set.tif noise.tif
        img-morph "$@" -j 1 -o want.tif
        for cut in 37x23x19 16x23x19 7x5x4 37x1x1 1x9x19 11x23x1; do
            ok img-morph "$@" --chunk $cut -o got.tif -j $((RANDOM % 4 + 1))
            cmp got.tif want.tif || { echo "$op in $cut"; return 1; }
        done
        ok img-morph "$@" --memory 2MiB -o got.tif
        cmp got.tif want.tif
        img-cat noise.tif | img-morph "${@:1:$#-1}" > got.tif
        img-cmp got.tif want.tif
    done
    # openings are nowhere above the image, closings nowhere below, and neither changes twice
    img-morph --op open --footprint set.tif noise.tif -o open.tif
    img-morph --op close --footprint set.tif noise.tif -o close.tif
    img-math 'a <= b and b <= c' --type u8 open.tif noise.tif close.tif -o law.tif
    [ "$(img-cat --raw-out law.tif | tr -d '\1' | wc -c)" -eq 0 ]
    img-morph --op open --footprint set.tif open.tif -o again.tif
    img-cmp again.tif open.tif
    img-morph --op close --footprint set.tif close.tif -o again.tif
    img-cmp again.tif close.tif
}

@test "footprints that are refused" {
    noise
    footprint none.tif 3x1x1 0 0 0
    fails 1 "all samples are 0" img-morph --op erode --footprint none.tif noise.tif
    perl -e 'print pack("f<*", 1, -sin(9**9**9), 1)' > nan.raw
    img-cat --raw-in 3x1x1:f32le nan.raw -o nan.tif
    fails 1 "page 0: sample 1,0 is NaN" img-morph --op erode --footprint nan.tif noise.tif
    head -c 1080000 /dev/zero > zero.raw
    img-cat --raw-in 1200x900x1:u8 zero.raw -o large.tif
    fails 1 "1200 x 900 x 1 samples: expected at most 1048576" img-morph --op erode --footprint large.tif noise.tif
    footprint deep.tif 2x1x3 1 1 0 1 1 0
    fails 1 "3 pages are a footprint for volumes" img-morph --op erode --2d --footprint deep.tif noise.tif
    fails 2 "--footprint and --radius cannot be combined" img-morph --op erode --footprint deep.tif --radius 2 noise.tif
    fails 2 "--footprint and --shape cannot be combined" img-morph --op erode --footprint deep.tif --shape ball noise.tif
    fails 2 "--center needs --footprint" img-morph --op erode --center 1,1 noise.tif
    fails 2 "--center: 2 along x: expected a whole number of 0 to 1" \
        img-morph --op erode --footprint deep.tif --center 2,0 noise.tif
    fails 2 "--center: 0.5 along x" img-morph --op erode --footprint deep.tif --center 0.5,0 noise.tif
    fails 2 "--center: expected X,Y or X,Y,Z, got 1 number" img-morph --op erode --footprint deep.tif --center 1 noise.tif
    footprint hollow.tif 3x1x1 1 0 1
    fails 2 "expected a footprint that contains its centre" img-morph --op gradient --footprint hollow.tif noise.tif
    fails 1 "missing.tif: No such file" img-morph --op erode --footprint missing.tif noise.tif
}

@test "negative values, and differences wider than i16 and i8" {
    bytes a.tif 3x1x1:i16le 's<' -32768 32767 -5
    ok img-morph --op gradient a.tif -o b.tif
    [ "$(img-info --value type b.tif)" = u16 ]
    [ "$(numbers b.tif 'S<')" = "65535 65535 32772" ]
    ok img-morph --op erode a.tif -o b.tif
    [ "$(img-info --value type b.tif)" = i16 ]
    [ "$(numbers b.tif 's<')" = "-32768 -32768 -5" ]
    bytes a.tif 3x1x1:i8 c -128 127 -5
    ok img-morph --op gradient a.tif -o b.tif
    [ "$(numbers b.tif 'S<')" = "255 255 132" ]
    ok img-morph --op dilate a.tif -o b.tif
    [ "$(img-info --value type b.tif)" = i8 ]
    [ "$(numbers b.tif c)" = "127 127 127" ]
}

@test "NaN is left out, infinity is a value" {
    perl -e 'print pack("f<*", -sin(9**9**9), 3, -sin(9**9**9), -sin(9**9**9), -sin(9**9**9), 9**9**9, -2)' > a.raw
    ok img-morph --raw-in 7x1x1:f32le --op erode a.raw -o b.tif
    [ "$(numbers b.tif 'f<' | tr 'A-Z' 'a-z' | sed 's/-nan/nan/g')" = "3 3 3 nan inf -2 -2" ]
}

@test "chunks, threads, memory and pipes do not show" {
    noise
    for how in "open --radius 3" "close --shape ball --radius 4,2.5,3" "gradient --iterations 2 --shape ball" \
        "tophat --radius 40,1,2" "bothat --iterations 3 --radius 1,2,1"; do
        # shellcheck disable=SC2086
        set -- --op $how noise.tif
        img-morph "$@" -j 1 -o want.tif
        for cut in 37x23x19 16x23x19 7x5x4 37x1x1 1x9x19 11x23x1; do
            ok img-morph "$@" --chunk $cut -o got.tif -j $((RANDOM % 4 + 1))
            cmp got.tif want.tif || { echo "$how in $cut"; return 1; }
        done
        ok img-morph "$@" --memory 2MiB -o got.tif
        cmp got.tif want.tif
        img-cat noise.tif | img-morph "${@:1:$#-1}" > got.tif
        img-cmp got.tif want.tif
    done
}

@test "opening and closing keep their order and do not change twice" {
    noise
    for shape in box ball; do
        ok img-morph --op open --shape $shape --radius 2 noise.tif -o open.tif
        ok img-morph --op close --shape $shape --radius 2 noise.tif -o close.tif
        img-morph --op open --shape $shape --radius 2 open.tif -o again.tif
        img-cmp again.tif open.tif
        img-morph --op close --shape $shape --radius 2 close.tif -o again.tif
        img-cmp again.tif close.tif
        # erosion and dilation are dual: of the negative, opening is closing
        img-convert --raw-out --scale -1,65535 --type u16 noise.tif > negative.raw
        img-morph --raw-in 37x23x19:u16le --op close --shape $shape --radius 2 negative.raw --raw-out > a.raw
        img-convert --raw-out --scale -1,65535 --type u16 open.tif | cmp - a.raw
    done
}

@test "iterations of a box are a larger box" {
    noise
    for op in erode dilate open close tophat bothat gradient; do
        img-morph --op $op --iterations 3 --radius 2,1,0 noise.tif --raw-out > a.raw
        img-morph --op $op --radius 6,3,0 noise.tif --raw-out | cmp - a.raw
    done
    img-morph --op open --iterations 100 --radius 1e6 noise.tif --raw-out > a.raw
    img-morph --op open --radius 50 noise.tif --raw-out | cmp - a.raw
    delta 7 6 5
    ok img-morph --op dilate --iterations 2 --shape ball delta.tif -o a.tif
    [ "$(count a.tif)" -eq 25 ]
}

@test "--2d is every page by itself; channels and times are never mixed" {
    noise
    img-morph --2d --op erode --radius 2 noise.tif --raw-out > a.raw
    for i in $(seq 0 18); do
        img-cat --pages "$i" noise.tif | img-morph --op erode --radius 2 --raw-out
    done | cmp - a.raw
    # pages of 3 x 1, channel before z, as a TIFF that says so
    perl -e '$text = "voxpipe = 1\naxes = x y channel z\nsizes = 3 1 2 2\n\0"; $o = 8;
        sub tag { pack "vvVV", @_ } print pack("a2vV", "II", 42, 8);
        for $p (0 .. 3) { $n = 9; $at = $o + 2 + 12 * $n + 4; $len = length $text;
            print pack("v", $n), tag(256, 4, 1, 3), tag(257, 4, 1, 1), tag(258, 3, 1, 8), tag(259, 3, 1, 1),
                tag(262, 3, 1, 1), tag(270, 2, $len, $at), tag(273, 4, 1, $at + $len), tag(278, 4, 1, 1),
                tag(279, 4, 1, 3), pack("V", $p < 3 ? $at + $len + 3 : 0), $text, pack("C3", 10 * ($p + 1), 1, 5);
            $o = $at + $len + 3 }' > c.tif
    [ "$(img-info --value axes c.tif)" = "x y channel z" ]
    ok img-morph --op dilate c.tif -o d.tif
    [ "$(numbers d.tif C)" = "30 30 5 40 40 5 30 30 5 40 40 5" ]
    [ "$(img-info --value axes d.tif)" = "x y channel z" ]
    # sizes that leave out a page
    perl -pe 's/3 1 2 2/3 1 1 3/' c.tif > e.tif
    fails 1 "4 pages" img-morph --op dilate e.tif -o f.tif
    fails 1 "standard input has more pages than the 3 of its sizes" sh -c "cat e.tif | img-morph --op dilate -o f.tif"
}

@test "--physical, and metadata that stay" {
    ct-phantom --volume 24x20x16 --voxel 0.5 -o vol.tif
    ok img-morph --physical --op close --radius 1 vol.tif -o a.tif
    ok img-morph --op close --radius 2 vol.tif -o b.tif
    img-cmp a.tif b.tif
    for key in voxel unit origin quantity; do
        [ "$(img-info --value $key a.tif)" = "$(img-info --value $key vol.tif)" ]
    done
    img-info a.tif | grep "^history *img-morph --physical --op close --radius 1$"
    img-morph --op erode --shape ball --plan vol.tif | grep "^operation: min, ball of radius 1 1 1, 7 voxels"
}

@test "wrong commands and input say what is wrong" {
    noise
    fails 2 "expected an operation, got none" img-morph noise.tif
    fails 2 "--op" img-morph --op melt noise.tif
    fails 2 "--radius" img-morph --op erode --radius -1 noise.tif
    fails 2 "--radius" img-morph --op erode --radius 1,2 noise.tif
    fails 2 "--shape" img-morph --op erode --shape star noise.tif
    fails 2 "--iterations" img-morph --op erode --iterations 0 noise.tif
    fails 2 "too large" img-morph --op erode --shape ball --radius 2000 noise.tif
    img-convert --type i64 noise.tif -o i64.tif
    run --separate-stderr img-morph --op erode i64.tif
    [ "$status" -ne 0 ] && [[ "$stderr" == *"got i64"* && "$stderr" == *hint* ]]
}
