load helper

# pixels NXxNY[xN]:TYPE FILE PERL: a stack of the numbers that the Perl list gives
pixels() {
    local t=${1#*:} letter
    case $t in u8) letter=C ;; i8) letter=c ;; u16) letter='S<' ;; i16) letter='s<' ;; f32) letter='f<' ;; esac
    perl -e 'print pack("$ARGV[0]*", eval $ARGV[1])' -- "$letter" "$3" > pixels.raw
    img-cat --raw-in "${1%:*}:$t$([ "${t#?8}" ] && echo le)" pixels.raw -o "$2"
}

# numbers FILE LETTER: all samples, unpacked
numbers() {
    img-cat --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("$ARGV[0]*", <STDIN>)), "\n"' -- "$2"
}

# a volume with everything: noise, u16
noise() {
    pixels "${1:-23x19x17}:${2:-u16}" "${3:-a.tif}" '$s = 1; map { $s = ($s * 1103515245 + 12345) % 2147483648; ($s >> 8) % 251 } 1..'"${4:-7429}"
}

@test "median: the samples that exist, the lower one in the middle" {
    pixels 4x2:u8 a.tif '5,1,9,200, 3,8,2,7'
    ok img-local --radius 1 a.tif -o b.tif
    # windows: {5,1,3,8} {5,1,9,3,8,2} {1,9,200,8,2,7} {9,200,2,7}, the same for both rows
    [ "$(numbers b.tif C)" = "3 3 7 7 3 3 7 7" ]
    ok img-local --radius 9 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "5 5 5 5 5 5 5 5" ]
    ok img-local --radius 0 a.tif -o b.tif
    ok img-cmp b.tif a.tif
    # a line along y only
    ok img-local --radius 0,1 --2d a.tif -o b.tif
    [ "$(numbers b.tif C)" = "3 1 2 7 3 1 2 7" ]
}

@test "percentile: nearest rank; 0 and 100 are minimum and maximum" {
    noise
    ok img-local --stat percentile:0 --radius 2,1,1 a.tif -o p.tif
    ok img-local --stat min --radius 2,1,1 a.tif -o m.tif
    ok img-cmp p.tif m.tif
    ok img-local --stat percentile:100 --shape ball --radius 2 a.tif -o p.tif
    ok img-local --stat max --shape ball --radius 2 a.tif -o m.tif
    ok img-cmp p.tif m.tif
    ok img-local --stat percentile:50 a.tif -o p.tif
    ok img-local a.tif -o m.tif
    ok img-cmp p.tif m.tif
    pixels 10x1:i16 b.tif 'map { -10 * $_ } 1..10'
    ok img-local --stat percentile:25 --radius 10,0 --2d b.tif -o p.tif
    [ "$(numbers p.tif 's<' | cut -d' ' -f1)" = -80 ]
}

@test "median of f32: -0 before 0, NaN after everything" {
    pixels 3x1:f32 a.tif '9**9**9, -sin(9**9**9), 1'
    ok img-local --radius 1,0 --2d a.tif -o b.tif
    [ "$(numbers b.tif 'f<' | tr 'A-Z' 'a-z')" = "inf inf 1" ]
    pixels 3x1:f32 a.tif '0, "-0", 5'
    ok img-local --stat percentile:0 --radius 2,0 --2d a.tif -o b.tif
    [ "$(img-cat --raw-out b.tif | od -An -tx4 | xargs)" = "80000000 80000000 80000000" ]
}

@test "mean, std and var: formula, types, sample" {
    pixels 3x1:u8 a.tif '1,2,6'
    ok img-local --stat mean --radius 2,0 --2d a.tif -o b.tif
    [ "$(numbers b.tif C)" = "3 3 3" ]
    ok img-local --stat mean --type f32 --radius 1,0 --2d a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "1.5 3 4" ]
    ok img-local --stat var --radius 2,0 --2d a.tif -o b.tif
    near "$(numbers b.tif 'f<' | cut -d' ' -f2)" 4.6666667 1e-6
    ok img-local --stat var --sample --radius 2,0 --2d a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "7 7 7" ]
    [ "$(img-info --value quantity b.tif)" = "local variance" ]
    ok img-local --stat std --type same --sample --radius 2,0 --2d a.tif -o b.tif
    [ "$(numbers b.tif C)" = "3 3 3" ]
    # of one sample 0, if it is a number
    pixels 3x1:f32 a.tif '7, "nan", "inf"'
    for shape in box ball; do
        ok img-local --stat std --radius 0 --shape $shape --2d a.tif -o b.tif
        [ "$(numbers b.tif 'f<')" = "0 NaN NaN" ]
    done
}

@test "entropy: constants 0, four values 2 bits, one range for the whole stack" {
    pixels 4x1x2:u16 a.tif '7,7,7,7, 0,100,200,400'
    ok img-local --2d --stat entropy --radius 4,0 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 0 0 0 2 2 2 2" ]
    [ "$(img-info --value quantity b.tif)" = "local entropy (bits)" ]
    # two bins over 0..400: 200 is in the upper one, 400 in the last
    ok img-local --2d --stat entropy --bins 2 --radius 4,0 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 0 0 0 1 1 1 1" ]
    # values outside count for the first and the last bin
    ok img-local --2d --stat entropy --range 150,160 --radius 4,0 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 0 0 0 1 1 1 1" ]
    # its tables are for samples that there are
    ok img-local --2d --stat entropy --range 150,160 --radius 1000 -m 16M a.tif -o b.tif --stats stats.json
    [ "$(numbers b.tif 'f<')" = "0 0 0 0 1 1 1 1" ]
    took_at_most 24000000
}

@test "entropy from a pipe needs the range" {
    noise
    fails 2 "expected a file, got a pipe" sh -c 'cat a.tif | img-local --stat entropy'
    [[ "$stderr" == *"hint: give --range LO,HI, or --spool"* ]]
    ok img-local --stat entropy a.tif -o b.tif
    ok sh -c 'cat a.tif | img-local --spool --stat entropy -o c.tif'
    ok img-cmp b.tif c.tif
    ok sh -c 'cat a.tif | img-local --range 0,250 --stat entropy -o c.tif'
    ok img-cmp b.tif c.tif
    ok sh -c 'img-convert --type u8 a.tif | img-local --stat entropy -o c.tif'
}

@test "chunks, threads and pipes do not show" {
    noise
    img-convert --type f32 --scale 0.37,-40 a.tif -o f.tif
    for args in "--radius 1" "--radius 2,3,1" "--shape ball --radius 2.5" "--stat percentile:90 --radius 4,8,9" \
                "--stat entropy --range 0,250 --radius 2" "--stat mean --radius 3" "--stat std --shape ball --radius 3" \
                "--radius 1 --iterations 3" "--stat max --radius 5" "--2d --radius 2"; do
        for f in a.tif f.tif; do
            # shellcheck disable=SC2086
            {
                ok img-local $args -j 1 $f -o want.tif
                ok img-local $args -j 3 --chunk 7x5x4 $f -o got.tif
                ok img-cmp want.tif got.tif
                cat $f | img-local $args -m 16M > got.tif
                ok img-cmp want.tif got.tif
            }
        done
    done
}

@test "iterations are one after the other" {
    noise
    ok img-local --iterations 2 a.tif -o two.tif
    ok sh -c 'img-local a.tif | img-local -o one.tif'
    ok img-cmp two.tif one.tif
    # with f32 in between, rounded at the end
    ok img-local --stat mean --iterations 2 a.tif -o two.tif
    [ "$(img-info --value type two.tif)" = u16 ]
    ok sh -c 'img-local --stat mean --type f32 a.tif | img-local --stat mean -o one.tif'
    ok img-cmp --atol 0.501 two.tif one.tif
    fails 2 "entropy of an entropy" img-local --stat entropy --iterations 2 a.tif
}

@test "channels and times are not mixed, i8 stays i8" {
    # pages of 3 x 1, channel before z, as a TIFF that says so
    perl -e '$text = "voxpipe = 1\naxes = x y channel z\nsizes = 3 1 2 2\n\0";
        @page = ([-1,-2,-3], [10,20,30], [-4,-5,-6], [40,50,60]);
        $out = "II*\0" . pack("V", 8 + length($text) + 1) . $text . "\0";
        for $i (0..3) {
            @tag = ([256,3,1,3], [257,3,1,1], [258,3,1,8], [259,3,1,1], [262,3,1,1], [273,4,1,0], [277,3,1,1],
                    [278,3,1,1], [279,4,1,3], [339,3,1,2]);
            splice @tag, 5, 0, [270,2,length($text),8] unless $i;
            $end = length($out) + 2 + 12 * @tag + 4;
            $_->[0] == 273 and $_->[3] = $end for @tag;
            $out .= pack("v", scalar @tag) . join("", map { pack("vvVV", @$_) } @tag)
                  . pack("V", $i < 3 ? $end + 4 : 0) . pack("c3x", @{$page[$i]});
        }
        print $out' > c.tif
    [ "$(img-info --value axes,type c.tif | xargs)" = "x y channel z i8" ]
    ok img-local --radius 1,0,1 c.tif -o b.tif
    [ "$(numbers b.tif c)" = "-4 -4 -5 20 30 30 -4 -4 -5 20 30 30" ]
    [ "$(img-info --value axes,type b.tif | xargs)" = "x y channel z i8" ]
}

@test "the plan names what is done" {
    noise
    ok img-local --plan a.tif
    [[ "$output" == *"median, box 3 x 3 x 3"* ]]
    ok img-local --plan --stat entropy a.tif
    [[ "$output" == *"over the range of the stack"* ]]
}

@test "a recorded scale stays true: differences lose the offset, a variance squares the gain" {
    ct-phantom --volume 24x20x6 -o v.tif
    img-convert --type u16 --window -0.01,0.05 v.tif -o s.tif
    unscaled() { "$@" s.tif -o f.tif && img-convert --unscale f.tif -o got.tif; }
    # what the same makes of the values themselves; steps of 1e-6 in 16 bits
    for how in "img-local --stat std" "img-local --stat mean --type f32" "img-local --stat max" \
        "img-morph --op gradient" "img-morph --op tophat" "img-morph --op open" "img-gauss --sigma 1 --highpass" \
        "img-gauss --sigma 1 --type f32" "img-log --sigma 1" "img-gauss --sigma 1 --derivative 1,0,0"; do
        # shellcheck disable=SC2086
        unscaled $how
        # shellcheck disable=SC2086
        $how v.tif -o want.tif
        ok img-cmp --atol 3e-6 got.tif want.tif || { echo "$how"; return 1; }
    done
    unscaled img-local --stat var
    img-local --stat var v.tif -o want.tif
    ok img-cmp --atol 1e-7 got.tif want.tif
    for how in "img-local --stat entropy --range 0,9" "img-math 2*a"; do
        # shellcheck disable=SC2086
        $how s.tif -o f.tif
        run img-info --value scale f.tif
        [[ "$output" == *"no value 'scale'"* ]] || { echo "$how: $output"; return 1; }
    done
    img-convert --type u16 --scale=-100000,20000 v.tif -o s.tif # upside down
    # then larger is smaller: it is undone at once
    for how in "img-local --stat std" "img-morph --op gradient" "img-log --sigma 1" "img-morph --op erode" \
        "img-local --stat percentile:20" "img-morph --op tophat"; do
        # shellcheck disable=SC2086
        $how s.tif -o got.tif
        run img-info --value scale got.tif
        [ "$status" -eq 1 ]
        # shellcheck disable=SC2086
        $how v.tif -o want.tif
        ok img-cmp --atol 2e-5 got.tif want.tif || { echo "$how"; return 1; }
    done
}

@test "any footprint: a ring, its samples that exist; none is NaN, or 0 of integers" {
    perl -e 'print pack("f<*", 1 .. 6)' > row.raw
    img-cat --raw-in 6x1x1:f32le row.raw -o row.tif
    perl -e 'print pack("C*", 1, 0, 1)' > set.raw
    img-cat --raw-in 3x1x1:u8 set.raw -o set.tif
    numbers() { img-cat --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("f<*", <STDIN>)), "\n"'; }
    becomes() {
        ok img-local --stat "$1" --footprint set.tif "${@:3}" row.tif -o out.tif
        [ "$(numbers out.tif)" = "$2" ] || { echo "$1: $(numbers out.tif)"; return 1; }
    }
    becomes mean   "2 2 3 4 5 5"
    becomes median "2 1 2 3 4 5"
    becomes max    "2 3 4 5 6 5"
    becomes var    "0 1 1 1 1 0"
    becomes var    "0 2 2 2 2 0" --sample
    becomes "percentile:100" "2 3 4 5 6 5"
    perl -e 'print pack("C*", 1, 0, 0)' > set.raw
    img-cat --raw-in 3x1x1:u8 set.raw -o set.tif
    for stat in mean median min max std "entropy --range 0,9"; do
        # shellcheck disable=SC2086
        ok img-local --stat $stat --footprint set.tif --center 2,0 row.tif -o out.tif
        [[ "$(numbers out.tif | tr 'A-Z' 'a-z' | tr -d -)" = nan\ nan\ [01]* ]] || { numbers out.tif; return 1; }
    done
    img-convert --type u8 row.tif -o bytes.tif
    for stat in mean median; do
        ok img-local --stat $stat --footprint set.tif --center 2,0 bytes.tif -o out.tif
        [ "$(img-cat --raw-out out.tif | od -An -tu1 | xargs)" = "0 0 1 2 3 4" ]
    done
}

@test "chunks, threads and pipes do not show with a footprint" {
    noise
    perl -e 'srand 4; print pack("C*", map { rand() < .4 } 1 .. 7 * 4 * 2)' > set.raw
    img-cat --raw-in 7x4x2:u8 set.raw -o set.tif
    for stat in mean std var median percentile:20 min max "entropy --range 0,60000"; do
        # shellcheck disable=SC2086
        set -- --stat $stat --footprint set.tif a.tif
        img-local "$@" -j 1 -o want.tif
        for cut in 16x23x19 7x5x4 37x1x1 1x9x19 11x23x1; do
            ok img-local "$@" --chunk $cut -o got.tif -j $((RANDOM % 4 + 1))
            cmp got.tif want.tif || { echo "$stat in $cut"; return 1; }
        done
        img-cat a.tif | img-local "${@:1:$#-1}" > got.tif
        img-cmp got.tif want.tif
    done
}

@test "contradictions" {
    noise
    fails 2 "--stat: expected mean" img-local --stat mode a.tif
    fails 2 "percentile:0 to percentile:100" img-local --stat percentile:101 a.tif
    fails 2 "percentile:0 to percentile:100" img-local --stat percentile:x a.tif
    fails 2 "--type needs --stat" img-local --type f32 a.tif
    fails 2 "--sample needs --stat" img-local --sample a.tif
    fails 2 "--range needs --stat" img-local --range 0,1 a.tif
    fails 2 "LO < HI" img-local --stat entropy --range 1,1 a.tif
    fails 2 "--bins" img-local --stat entropy --bins 0 a.tif
    fails 2 "--bins needs --stat entropy, got median" img-local --bins 4 a.tif
    img-convert --type i64 a.tif -o d.tif
    fails 1 "expected samples of u8, u16, u32, i8, i16, i32, f32 or f64, got i64" img-local d.tif
}

@test "--radius-map: boxes of one size are those of --radius" {
    noise 41x37x5 u16 u16.tif 7585
    noise 41x37x5 f32 f32.tif 7585
    local t stat
    for t in u16 f32; do
        img-convert --set axes=x,y,z $t.tif -o v.tif --force
        img-math -q '3' --type u8 v.tif -o three.tif --force
        for stat in mean std var; do
            ok img-local --stat $stat --radius 3 --type f64 v.tif -o want.tif --force
            ok img-local --stat $stat --radius-map three.tif --type f64 v.tif -o got.tif --force
            ok img-cmp --max-rel-l2 1e-13 want.tif got.tif
        done
        ok img-local --2d --stat mean --radius 3 v.tif -o want.tif --force
        ok img-local --2d --stat mean --radius-map three.tif v.tif -o got.tif --force
        ok img-cmp --max-rel-l2 1e-7 want.tif got.tif
    done
}

@test "--radius-map: every box is that of img-sat --boxes, to the digit, whatever the chunks" {
    local t x y r
    for t in u8 u16 f32; do
        noise 61x53x1 $t in.tif 3233
        if [ $t = f32 ]; then img-math -q '(a - 90.4) * 10 ** (x % 9 - 4)' in.tif -o v.tif --force; else img-cat in.tif -o v.tif --force; fi
        img-math -q 'floor((x * 7 + y * 13) % 11) * (1 + (x == 20) * 9)' --type u16 in.tif -o radii.tif --force
        ok img-local --stat sum --radius-map radii.tif v.tif -o sum.tif --force
        ok img-local --stat sum --radius-map radii.tif -j 3 --chunk 17x9x1 v.tif -o cut.tif --force
        ok img-cmp sum.tif cut.tif
        img-cat v.tif | img-local --stat sum --radius-map radii.tif -m 8M -o cut.tif --force
        ok img-cmp sum.tif cut.tif
        perl -e 'for $i (0 .. 39) { ($x, $y) = (($i * 17) % 61, ($i * 29) % 53); $r = ($x * 7 + $y * 13) % 11 * ($x == 20 ? 10 : 1);
            sub lo { $_[0] < 0 ? 0 : $_[0] } sub hi { $_[0] > $_[1] ? $_[1] : $_[0] }
            printf "b%d-%d %d:%d %d:%d\n", $x, $y, lo($x - $r), hi($x + $r + 1, 61), lo($y - $r), hi($y + $r + 1, 53) }' > boxes.txt
        ok img-sat --boxes boxes.txt v.tif -o boxes.out --force
        img-convert --type f64 sum.tif | img-cat --raw-out > sum.raw
        perl -e 'open F, "sum.raw"; binmode F; undef $/; @s = unpack "d<*", <F>; $/ = "\n"; open B, "boxes.out"; $n = 0;
            @head = split /[,\t]/, <B>; chomp @head; ($at) = grep { $head[$_] eq "sum" } 0 .. $#head; defined $at or die "@head";
            while (<B>) { chomp; @f = split /[,\t]/; $f[0] =~ /b(\d+)-(\d+)/ or next; $n++;
                $f[$at] == $s[$2 * 61 + $1] or die "$_: $s[$2 * 61 + $1]\n" } $n == 40 or die "$n boxes"' || return 1
    done
}

@test "--radius-map: NaN, infinity, contradictions" {
    pixels 5x1:f32 n.tif '9**9**9, 1, 2, 3, -sin(9**9**9)'
    pixels 5x1:f32 r.tif '0, 0, 2, 1, 1'
    ok img-local --2d --stat mean --radius-map r.tif n.tif -o out.tif
    [ "$(img-cat --raw-out out.tif | perl -e 'undef $/; print join " ", map { lc } unpack "f<*", <>')" = "inf 1 nan nan nan" ]
    pixels 5x1:f32 half.tif '0, 0, 2.5, 1, 1'
    fails 1 "half.tif: page 0, row 0, column 2: expected a radius of 0 to 1e+06 whole voxels, got 2.5" \
        img-local --2d --stat mean --radius-map half.tif n.tif
    pixels 5x1:f32 less.tif '0, -1, 2, 1, 1'
    fails 1 "column 1: expected a radius of 0 to 1e+06 whole voxels, got -1" img-local --2d --stat mean --radius-map less.tif n.tif
    fails 1 "column 0: expected a radius" img-local --2d --stat mean --radius-map n.tif n.tif
    pixels 4x1:f32 small.tif '0, 0, 2, 1'
    fails 1 "n.tif has pages of 5x1, the radii small.tif of 4x1: expected the same size" \
        img-local --2d --stat mean --radius-map small.tif n.tif
    noise 5x1x3 u8 three.tif 15
    fails 1 "n.tif has 1 pages, the radii three.tif 3" img-local --2d --stat mean --radius-map three.tif n.tif
    fails 2 "--radius-map needs --stat mean, sum, var or std, got median" img-local --radius-map r.tif n.tif
    fails 2 "--stat sum needs --radius-map" img-local --stat sum n.tif
    fails 2 "--radius-map and --radius cannot be combined" img-local --stat mean --radius 2 --radius-map r.tif n.tif
}
