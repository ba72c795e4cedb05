# ct-normalize: what the unit tests cannot see: files, options, headers, layouts, messages.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 4 --views 12 -o scan.geom
}

value() { img-info --value "$1" "$2"; }
statistic() { img-info --statistics "$2" | awk -v k="$1" '$1 == k { print $2 }'; }

# floats FILE NUMBER...: a raw file of 32-bit floats
floats() {
    local file=$1
    shift
    perl -e 'print pack("f<*", @ARGV)' -- "$@" >"$file"
}
# numbers FILE: back again, on one line
numbers() { perl -e 'local $/; print join(" ", map { sprintf "%.6g", $_ } unpack("f<*", <STDIN>)), "\n"' <"$1"; }

@test "counts of a phantom become its line integrals again" {
    ct-phantom -g scan.geom -o p.tif
    ct-phantom -g scan.geom --counts --noise 1e12 -o counts.tif
    ok ct-normalize --i0 1e12 counts.tif -o q.tif
    ok img-cmp -q --atol 1e-4 p.tif q.tif
    [ "$(value quantity q.tif)" = "line integral" ]
    [ "$(value geom.sod q.tif)" = 500 ]
    [ "$(value axes q.tif)" = "u v view" ]
    # reconstructs without being told the geometry
    ct-filter q.tif | ok ct-backproject -q -o vol.tif
}

@test "flat and dark: averages of their pages; numbers by hand" {
    # 2 x 1 pixels. dark (10 + 30) / 2 = 20, 0; flats (220 + 20) / 2 = 120, 100
    floats dark.raw 10 0 30 0
    floats flat.raw 220 100 20 100
    floats in.raw 70 50 120 100
    ok ct-normalize --raw-in 2x1:f32le --flat flat.raw --dark dark.raw in.raw --raw-out -o out.raw
    [ "$(numbers out.raw)" = "0.693147 0.693147 0 0" ]
    ok ct-normalize --raw-in 2x1:f32le --flat flat.raw --dark dark.raw --no-log in.raw --raw-out -o out.raw
    [ "$(numbers out.raw)" = "0.5 0.5 1 1" ]
    # the same flats as a directory, a list, several darks
    mkdir flats
    for i in 0 1; do img-cat --raw-in 2x1:f32le --pages $i:$((i + 1)) flat.raw -o flats/f$i.tif; done
    printf 'flats/f0.tif\nflats/f1.tif\n' >list.txt
    img-cat --raw-in 2x1:f32le in.raw -o in.tif
    for i in 0 1; do img-cat --raw-in 2x1:f32le --pages $i:$((i + 1)) dark.raw -o d$i.tif; done
    ok ct-normalize --flat flats --dark d0.tif --dark d1.tif in.tif --raw-out -o a.raw
    ok ct-normalize --flat @list.txt --dark d0.tif --dark d1.tif in.tif --raw-out -o b.raw
    [ "$(numbers a.raw)" = "0.693147 0.693147 0 0" ]
    cmp a.raw b.raw
}

@test "several flats: interpolated over the views, or between the views given" {
    floats f0.raw 100
    floats f1.raw 200
    floats in.raw 100 100 100 100 100
    ok ct-normalize --raw-in 1x1:f32le --flat f0.raw --flat f1.raw --no-log in.raw --raw-out -o out.raw
    [ "$(numbers out.raw)" = "1 0.8 0.666667 0.571429 0.5" ]
    ok ct-normalize --raw-in 1x1:f32le --flat f0.raw --flat f1.raw --flat-at 1,3 --no-log in.raw --raw-out -o out.raw
    [ "$(numbers out.raw)" = "1 1 0.666667 0.5 0.5" ]
    fails 2 "--flat-at: expected 2 numbers, one for each --flat, got 1" \
        ct-normalize --raw-in 1x1:f32le --flat f0.raw --flat f1.raw --flat-at 1 in.raw
}

@test "several flats on a pipe need to know how many views there are" {
    ct-phantom -g scan.geom --counts --noise 1e4 -o counts.tif
    img-cat --pages 0:1 counts.tif -o f0.tif
    img-cat --pages 1:2 counts.tif -o f1.tif
    ct-normalize --flat f0.tif --flat f1.tif counts.tif --raw-out -o a.raw
    # the metadata's geometry says it
    cat counts.tif | ok ct-normalize --flat f0.tif --flat f1.tif --raw-out -o b.raw
    cmp a.raw b.raw
    # without any, the number of pages of a pipe is unknown
    img-convert --raw-out counts.tif >counts.raw
    nameless() { cat counts.raw | ct-normalize --raw-in 48x40:f32le --flat f0.raw --flat f1.raw "$@"; }
    img-convert --raw-out f0.tif >f0.raw
    img-convert --raw-out f1.tif >f1.raw
    fails 2 "the number of views is unknown, so 2 flat sets cannot be spread over them" nameless
    [[ "$stderr" == *"hint: give their views with --flat-at, or the geometry"* ]]
    ok nameless --flat-at 0,11 --raw-out -o c.raw
    ok nameless -g scan.geom --raw-out -o d.raw
    cmp a.raw c.raw && cmp a.raw d.raw
}

@test "-g puts the geometry into the output, and is checked" {
    ct-phantom -g scan.geom --counts --noise 1e6 --raw-out -o counts.raw
    ok ct-normalize --raw-in 48x40:f32le --i0 1e6 -g scan.geom counts.raw -o p.tif
    [ "$(value geom.sdd p.tif)" = 1000 ]
    ct-geom scan.geom --views 13 -o wrong.geom
    fails 1 "counts.raw" ct-normalize --raw-in 48x40:f32le --i0 1e6 -g wrong.geom counts.raw
    [[ "$stderr" == *12* && "$stderr" == *13* ]]
    piped() { cat counts.raw | ct-normalize --raw-in 48x40:f32le --i0 1e6 -g wrong.geom -o never.tif; }
    fails 1 "13" piped
    [ ! -e never.tif ]
    # of sinograms a page is a detector row
    ct-phantom -g scan.geom --counts --noise 1e6 --layout sinograms --raw-out -o sinograms.raw
    rows() { head -c $((48 * 12 * 4 * $1)) sinograms.raw | ct-normalize --layout sinograms --raw-in 48x12:f32le --i0 1e6 \
        -g scan.geom -o never.tif; }
    fails 1 "expected the 40 detector rows of scan.geom, got 39" rows 39
    [ ! -e never.tif ]
    ok rows 40
}

@test "sinograms: flats and darks are sinograms too; the same numbers" {
    ct-phantom -g scan.geom --counts --noise 1e5 -o views.tif
    ct-phantom -g scan.geom --counts --noise 1e5 --layout sinograms -o sinograms.tif
    ct-phantom -g scan.geom --counts --noise 1e5 --density 0 --seed 2 -o flat.tif
    ct-phantom -g scan.geom --counts --noise 1e5 --density 0 --seed 2 --layout sinograms -o flat-s.tif
    ct-phantom -g scan.geom --counts --noise 100 --density 0 --seed 3 -o dark.tif
    ct-phantom -g scan.geom --counts --noise 100 --density 0 --seed 3 --layout sinograms -o dark-s.tif
    ct-normalize --flat flat.tif --dark dark.tif views.tif -o a.tif
    ok ct-normalize --layout sinograms --flat flat-s.tif --dark dark-s.tif sinograms.tif -o b.tif
    ct-filter a.tif | ct-backproject -o va.tif
    ct-filter --layout sinograms b.tif | ct-backproject --layout sinograms -o vb.tif
    ok img-cmp -q va.tif vb.tif
    # through a pipe, where the number of detector rows is unknown before the end
    cat sinograms.tif | ct-normalize --layout sinograms --flat flat-s.tif --dark dark-s.tif -o c.tif
    ok img-cmp -q b.tif c.tif
    # a detector row too few in the flats
    img-cat --pages 0:39 flat-s.tif -o short.tif
    fails 1 "short.tif is 48x39 pixels, the detector 48x40" \
        ct-normalize --layout sinograms --flat short.tif sinograms.tif
}

@test "threads and memory do not change a bit" {
    ct-phantom -g scan.geom --counts --noise 30 -o counts.tif
    floats mask.raw $(for i in $(seq 1920); do echo $((i % 97 == 0)); done)
    img-cat --raw-in 48x40:f32le mask.raw -o mask.tif
    all() { ct-normalize --i0 30 --zinger 1.3 --dead mask.tif --raw-out counts.tif "$@"; }
    ok all -j 1 -o a.raw
    ok all -j 5 -o b.raw
    ok all -j 3 -m 40KB -o c.raw
    cmp a.raw b.raw && cmp a.raw c.raw
}

@test "--flat-modes: flats whose pattern moves; as many threads as there are; a steady beam stays" {
    ct-phantom -g scan.geom --phantom ball --radius 30 -o true.tif
    # beam FILE N SIZE: N pages of a beam with a pattern of another amplitude in each
    beam() { perl -e 'srand(shift); my ($n, $size) = @ARGV; for my $k (0 .. $n - 1) { my $a = $size * cos(2.4 * $k);
        for my $i (0 .. 1919) { my $c = 1e5 * (1 + $a * sin(0.55 * int($i / 48)));
            print pack("f<", $c + sqrt($c) * sqrt(-2 * log(rand() + 1e-12)) * cos(6.2832 * rand())) } }' "$3" "$2" "$4" >raw
        img-cat --raw-in "48x40x$2:f32le" raw -o "$1"; }
    beam flat.tif 20 1 0.05
    beam open.tif 12 2 0.07
    img-math 'a*exp(-b)' open.tif true.tif -o counts.tif
    off() { ct-normalize --flat flat.tif "$@" counts.tif | img-math 'abs(a-b)' - true.tif | img-info --value mean -; }
    awk -v without="$(off)" -v with="$(off --flat-modes 3)" 'BEGIN { exit !(with < without / 5 && with < 0.005) }'
    run --separate-stderr ct-normalize -v --flat flat.tif --flat-modes 3 counts.tif -o a.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"1 of 19 components of the flats stand out of the noise"* ]]
    cat counts.tif | ct-normalize -j 3 -m 1MB --flat flat.tif --flat-modes 3 -o b.tif
    ok img-cmp -q a.tif b.tif
    # nothing moves: nothing is done
    beam steady.tif 20 3 0
    run --separate-stderr ct-normalize --flat steady.tif --flat-modes 3 counts.tif -o a.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"no component of the 20 flats stands out of the noise: their mean is used"* ]]
    ct-normalize --flat steady.tif counts.tif -o b.tif
    ok img-cmp -q a.tif b.tif
    fails 2 "--flat-modes: expected all flats in one --flat, got 2" \
        ct-normalize --flat flat.tif --flat flat.tif --flat-modes 3 counts.tif
    img-cat --pages 0:4 flat.tif -o few.tif
    fails 1 "--flat-modes: expected 5 flats or more, got 4" ct-normalize --flat few.tif --flat-modes 3 counts.tif
    fails 2 "--flat-modes and --layout sinograms cannot be combined" \
        ct-normalize --layout sinograms --flat flat.tif --flat-modes 3 counts.tif
    fails 2 "--flat-modes reads the flats twice" bash -c 'cat flat.tif | ct-normalize --flat - --flat-modes 3 counts.tif'
}

@test "zingers of several pixels and across views; in any layout, cut anywhere, as many threads as there are" {
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 4 --views 120 -o scan.geom
    ct-phantom -g scan.geom --counts --noise 1e5 -o clean.tif
    # 120 views of 48 x 40: a spot of 2 x 2 pixels in view 0, one of 9 x 9 in view 5, one pixel in the last view
    spot() { perl -e 'my %on = map { $_ => 1 } @ARGV; print pack("f<", $on{$_} ? 3e5 : 0) for 0 .. 230399' "$@"; }
    local at=(); for y in 10 11; do for x in 20 21; do at+=($((y * 48 + x))); done; done
    local big=(); for y in $(seq 20 28); do for x in $(seq 5 13); do big+=($((5 * 1920 + y * 48 + x))); done; done
    spot "${at[@]}" "${big[@]}" $((119 * 1920 + 490)) >spots.raw
    img-cat --raw-in 48x40x120:f32le spots.raw -o spots.tif
    img-math 'a+b' clean.tif spots.tif -o counts.tif
    ct-normalize --i0 1e5 clean.tif -o want.tif
    off() { img-math 'abs(a-b)' "$1" want.tif | img-info --value max -; }
    ct-normalize --i0 1e5 --zinger 1.5 counts.tif -o small.tif
    awk -v e="$(off small.tif)" 'BEGIN { exit !(e > 0.5) }'
    # 5 x 5 takes the smaller spots, three views all of them
    ct-normalize --i0 1e5 --zinger 1.5 --zinger-size 5 counts.tif | img-cat --pages 0,119 -o two.tif
    img-cat --pages 0,119 want.tif -o want2.tif
    awk -v e="$(img-math 'abs(a-b)' two.tif want2.tif | img-info --value max -)" 'BEGIN { exit !(e < 0.3) }'
    run --separate-stderr ct-normalize -v --i0 1e5 --zinger-views 1.5 counts.tif -o across.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *" zingers ("* ]]
    awk -v e="$(off across.tif)" 'BEGIN { exit !(e < 0.3) }'
    # the same bits from a pipe, a page at a time, with three threads; with corrections after it
    cat counts.tif | ct-normalize --i0 1e5 --zinger-views 1.5 -m 200KB -j 3 -o b.tif
    ok img-cmp -q across.tif b.tif
    ct-normalize --i0 1e5 --zinger-views 1.5 --air 0:3 counts.tif -o a.tif
    ct-normalize --i0 1e5 --zinger-views 1.5 --no-log counts.tif -o t.tif
    ct-normalize --i0 1 --air 0:3 t.tif -o b.tif
    awk -v e="$(img-math 'abs(a-b)' a.tif b.tif | img-info --value max -)" 'BEGIN { exit !(e < 1e-5) }'
    # sinograms: a page for each row
    img-reslice --axes xz counts.tif -o sino.tif
    ct-normalize --layout sinograms --i0 1e5 --zinger-views 1.5 sino.tif -o s.tif
    img-reslice --axes xz across.tif -o want3.tif
    awk -v e="$(img-math 'abs(a-b)' s.tif want3.tif | img-info --value max -)" 'BEGIN { exit !(e == 0) }'
    # nothing to do: nothing is done; one and two views stay
    ct-normalize --i0 1e5 --zinger 2 --zinger-size 7 --zinger-views 2 clean.tif -o none.tif
    ok img-cmp -q want.tif none.tif
    for n in 1 2; do
        img-cat --pages 0:$n clean.tif | ct-normalize --i0 1e5 --zinger-views 1.5 -o few.tif
        [ "$(value pages few.tif)" -eq "$n" ]
    done
    fails 2 "--zinger-size: expected an odd number, got 4" ct-normalize --i0 1 --zinger 2 --zinger-size 4 counts.tif
    fails 2 "--zinger-size needs --zinger" ct-normalize --i0 1 --zinger-size 5 counts.tif
}

@test "zingers, dead pixels and the floor are repaired and reported" {
    # 5 x 3: one zinger, one dead pixel, one sample below zero
    floats in.raw 50 50 50 50 50  50 500 50 7 50  50 50 50 50 -3
    floats flat.raw 100 100 100 100 100  100 100 100 0 100  100 100 100 100 100
    run --separate-stderr ct-normalize -v --raw-in 5x3:f32le --flat flat.raw --zinger 2 in.raw --raw-out -o out.raw
    [ "$status" -eq 0 ]
    [ "$(numbers out.raw)" = "0.693147 0.693147 0.693147 0.693147 0.693147 0.693147 0.693147 0.693147 2.04562 0.693147 0.693147 0.693147 0.693147 0.693147 11.5129" ]
    [[ "$stderr" == *"warning: 1 of 15 pixels are dead, their flat not above the dark field"* ]]
    [[ "$stderr" == *"1 zingers (6.67 % of the samples) were replaced"* ]]
    [[ "$stderr" == *"warning: 1 samples (6.67 %) have a transmission below 1e-05 and were raised to it"* ]]
    run --separate-stderr ct-normalize --raw-in 5x3:f32le --i0 100 --floor 0.5 in.raw --raw-out -o out.raw
    [[ "$stderr" == "ct-normalize: warning: "* ]]
    [ "$(numbers out.raw | cut -d' ' -f9)" = 0.693147 ]
}

@test "NaN and infinity are filled in and reported once" {
    floats in.raw 50 nan 25 50 inf 100
    run --separate-stderr ct-normalize --raw-in 3x1:f32le --i0 100 --no-log in.raw --raw-out -o out.raw
    [ "$status" -eq 0 ]
    [ "$(numbers out.raw)" = "0.5 0.375 0.25 0.5 0.75 1" ]
    [ "$stderr" = "ct-normalize: warning: 2 samples are NaN or infinite; filled in from their neighbours" ]
}

@test "usage errors" {
    ct-phantom -g scan.geom --counts --noise 30 -o counts.tif
    fails 2 "neither --flat nor --i0 is given" ct-normalize counts.tif
    fails 2 "--flat and --i0 cannot be combined" ct-normalize --flat counts.tif --i0 5 counts.tif
    fails 2 "--floor" ct-normalize --i0 5 --floor 0 counts.tif
    fails 1 "nothere.tif: No such file" ct-normalize --flat nothere.tif counts.tif
    ct-geom scan.geom --detector 48x30 -o other.geom
    ct-phantom -g other.geom --counts --noise 30 -o other.tif
    fails 1 "other.tif is 48x30 pixels, the detector 48x40" ct-normalize --flat other.tif counts.tif
    fails 1 "other.tif is 48x30 pixels, the detector 48x40" ct-normalize --i0 5 --dead other.tif counts.tif
    floats zero.raw $(for i in $(seq 1920); do echo 0; done)
    img-cat --raw-in 48x40:f32le zero.raw -o zero.tif
    fails 1 "all 1920 pixels are dead" ct-normalize --flat zero.tif counts.tif -o never.tif
    [ ! -e never.tif ]
}

@test "a long pipe in memory that does not grow" {
    needs_plain_memory
    peak() { ct-normalize --raw-in 64x64:u16le --i0 1000 --stats stats.json -o /dev/null && sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' stats.json; }
    short=$(head -c $((8192 * 5000)) /dev/zero | peak 2>/dev/null)
    long=$(head -c $((8192 * 20000)) /dev/zero | peak 2>/dev/null)
    [ "$long" -lt $((short + 4000000)) ]
}

@test "ct-fdk: counts are refused or warned of, and no option of normalisation is passed over" {
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 24 -o scan.geom
    ct-phantom -g scan.geom --noise 1e5 --counts -o counts.tif
    fails 2 "counts.tif: holds counts, not line integrals" ct-fdk counts.tif -o vol.tif
    fails 2 "neither --flat nor --i0 is given" ct-fdk --zinger 2 counts.tif -o vol.tif
    fails 2 "--no-log" ct-fdk --i0 1e5 --no-log counts.tif -o vol.tif
    ct-phantom -g scan.geom | img-convert --type u16 --raw-out >bare.raw
    run --separate-stderr ct-fdk -g scan.geom --raw-in 32x24:u16le bare.raw -o vol.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"u16 samples look like counts"* ]]
    fails 2 "is the input or the output" ct-fdk --i0 1e5 counts.tif --stats vol.tif -o vol.tif
}

@test "rings: what stays of the gain of pixels is taken away by ct-rings, and a clean scan stays" {
    ct-geom --sod 500 --sdd 1000 --detector 128x24 --pitch 2 --views 120 -o scan.geom
    ct-phantom -g scan.geom --radius 55 --counts --noise 1e6 -o counts.tif
    ct-normalize --i0 1e6 counts.tif -o good.tif
    # the gain of each pixel is off by up to 3 %
    img-math 'a * (0.97 + 0.006 * ((7 * x * x + 13 * y) % 11))' counts.tif | ct-normalize --i0 1e6 -o rings.tif
    for f in good rings; do
        ct-rings $f.tif | ct-fdk -o clean-$f.tif
        ct-fdk $f.tif -o $f-vol.tif
    done
    run -1 img-cmp -q --max-rel-l2 0.07 rings-vol.tif good-vol.tif
    img-cmp -q --max-rel-l2 0.045 clean-rings.tif good-vol.tif
    img-cmp -q --max-rel-l2 0.002 clean-good.tif good-vol.tif
}

@test "a view without a usable sample is named, by every program that reads views" {
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 24 -o scan.geom
    ct-phantom -g scan.geom --noise 1e4 --counts | img-math "if(page == 7, 0, a)" - --type u32 |
        img-convert --set quantity=counts -o black.tif
    ct-phantom -g scan.geom | img-math 'if(page == 3 or page == 20, nan, a)' - -o nan.tif
    names() {
        run --separate-stderr "${@:2}"
        [ "$status" -eq 0 ] && [[ "$stderr" == *"warning: $1"* ]] || { echo "$*: $status $stderr"; return 1; }
    }
    names 'view 7 has no usable sample' ct-normalize --i0 1e4 black.tif -o p.tif
    names 'view 7 has no usable sample' ct-normalize --i0 1e4 --zinger 3 black.tif -o p.tif
    names 'view 7 has no usable sample' ct-fdk -g scan.geom --i0 1e4 black.tif --volume 8x8x8 -o vol.tif
    names 'view 7 has no usable sample' ct-fdk -g scan.geom --i0 1e4 -m 16M black.tif --views 4:20 --volume 8x8x8 -o vol.tif
    names '2 views have no usable sample, the first is view 3:' ct-fdk -g scan.geom nan.tif --volume 8x8x8 -o vol.tif
    names '2 views have no usable sample, the first is view 3:' ct-filter -g scan.geom nan.tif -o filtered.tif
    names '2 views have no usable sample, the first is view 3:' ct-normalize --i0 1 --no-log nan.tif -o t.tif
    names 'detector row 7 has no usable sample' ct-normalize --layout sinograms --i0 1e4 black.tif -o p.tif
    # and none where there is none
    ct-phantom -g scan.geom | ok ct-filter - -o filtered.tif
}

@test "images of several channels are no views" {
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 3 -o scan.geom
    ct-phantom -g scan.geom --noise 1e5 --counts -o counts.tif
    img-convert --set axes=x,y,channel counts.tif -o rgb.tif
    fails 2 "rgb.tif: the pages are channels" ct-normalize --i0 1e5 rgb.tif -o p.tif
    [[ "$stderr" == *"img-convert --channel luminance"* ]]
    fails 2 "rgb.tif: the pages are channels" ct-normalize --flat rgb.tif counts.tif -o p.tif
    fails 2 "rgb.tif: the pages are channels" ct-fdk -g scan.geom --i0 1e5 rgb.tif -o p.tif
    fails 2 "rgb.tif: the pages are channels" ct-filter -g scan.geom rgb.tif -o p.tif
    fails 2 "rgb.tif: the pages are channels" ct-backproject -g scan.geom rgb.tif -o p.tif
}

# drifting NAME WEIGHT: counts of a clean scan, times WEIGHT, an expression of page (view) and x (column)
drifting() {
    ct-geom --sod 500 --sdd 1000 --detector 64x16 --pitch 2 --views 20 -o d.geom
    ct-phantom -g d.geom --radius 18 -o lines.tif
    img-math "10000 * exp(-a) * ($2)" lines.tif -o "$1"
}

@test "--air: a beam that drifts is scaled back, with two regions also one that tilts; a clean scan stays" {
    drifting drift.tif '1 + 0.01 * page'
    ct-normalize --i0 1e4 --air 0:6 -v drift.tif -o got.tif 2>log
    grep -q -- "--air: mean transmissions from 1 to 1.19 became 1" log
    ok img-cmp --atol 2e-6 got.tif lines.tif
    ct-normalize --i0 1e4 --air 58:64,4:12 drift.tif -o got.tif
    ok img-cmp --atol 2e-6 got.tif lines.tif
    drifting tilt.tif '1 + 0.01 * page + 0.001 * x * page'
    ct-normalize --i0 1e4 --air 58:64 --air 0:6 tilt.tif -o got.tif
    ok img-cmp --atol 2e-6 got.tif lines.tif
    ct-normalize --i0 1e4 --no-log --air 0:6 --air 58:64 tilt.tif | img-math -e '-log(a)' -o got.tif
    ok img-cmp --atol 2e-6 got.tif lines.tif
    drifting clean.tif 1
    ct-normalize --i0 1e4 --air 0:6 --air 58:64 clean.tif -o got.tif
    ct-normalize --i0 1e4 clean.tif -o want.tif
    ok img-cmp --atol 1e-6 got.tif want.tif
    ct-normalize --i0 1e4 -j 1 --air 0:6 --air 58:64 tilt.tif -o a.tif
    ct-normalize --i0 1e4 -j 3 -m 3MB --air 0:6 --air 58:64 - <tilt.tif -o b.tif
    cmp a.tif b.tif
    fails 2 "--air: expected C0:C1 or C0:C1,R0:R1, columns and rows, got '6'" ct-normalize --i0 1e4 --air 6 tilt.tif
    fails 2 "--air 60:70: expected a region of the 64 x 16 pixels" ct-normalize --i0 1e4 --air 60:70 tilt.tif
    fails 2 "the columns of both regions overlap" ct-normalize --i0 1e4 --air 0:6 --air 5:9 tilt.tif
    fails 2 "--air and --monitor cannot be combined" ct-normalize --i0 1e4 --air 0:6 --monitor m tilt.tif
    fails 2 "--air and --layout sinograms cannot be combined" ct-normalize --i0 1e4 --air 0:6 --layout sinograms tilt.tif
    img-math 'a * 0' clean.tif -o dark.tif
    fails 1 "expected open beam" ct-normalize --i0 1e4 --no-log --air 0:6 dark.tif -o x.tif
    [ ! -e x.tif ]
}

@test "--monitor: a number for each view, in both layouts" {
    drifting drift.tif '1 + 0.01 * page'
    { echo "# beam of each view"; for i in {0..19}; do awk -v i="$i" 'BEGIN { print 1 + 0.01 * i }'; done; } >monitor.txt
    ct-normalize --i0 1e4 --monitor monitor.txt drift.tif -o got.tif
    ok img-cmp --atol 2e-6 got.tif lines.tif
    img-cat --raw-out drift.tif | perl -e 'local $/; my $x = <>; for my $v (0 .. 15) { for my $k (0 .. 19) { print substr($x, ($k * 16 + $v) * 256, 256) } }' >s.raw
    img-cat --raw-out got.tif | perl -e 'local $/; my $x = <>; for my $v (0 .. 15) { for my $k (0 .. 19) { print substr($x, ($k * 16 + $v) * 256, 256) } }' >want.raw
    ct-normalize --i0 1e4 --monitor monitor.txt --layout sinograms --raw-in 64x20:f32 --raw-out s.raw | cmp - want.raw
    head -n 5 monitor.txt >short.txt
    fails 1 "short.txt: expected a number for each of 20 views, got 4" ct-normalize --i0 1e4 --monitor short.txt drift.tif
    fails 1 "expected a number for each of 20 views, got 4" sh -c 'cat drift.tif | ct-normalize --i0 1e4 --monitor short.txt -o x.tif'
    echo "1 two" >bad.txt
    fails 1 "bad.txt: line 1: expected a number, got 'two'" ct-normalize --i0 1e4 --monitor bad.txt drift.tif
    echo "1 -1" >bad.txt
    fails 1 "bad.txt: number 2: expected more than 0, got -1" ct-normalize --i0 1e4 --monitor bad.txt drift.tif
}

@test "--curve: lines between pairs of line integrals, and beyond them" {
    floats p.raw -0.5 0 0.25 0.5 1 1.5 4
    img-math --raw-in 7x1:f32 '1e4 * exp(-a)' p.raw -o counts.tif
    printf '0 0 # air\n0.5 0.6\n1, 1.4\n' >curve.txt
    ct-normalize --i0 1e4 --curve curve.txt counts.tif -o got.tif
    floats want.raw -0.6 0 0.3 0.6 1.4 2.2 6.2
    img-cat --raw-in 7x1:f32 want.raw -o want.tif
    ok img-cmp --atol 2e-6 got.tif want.tif
    printf '0 0\n1 1\n' >same.txt # changes nothing
    ct-normalize --i0 1e4 --curve same.txt counts.tif -o got.tif
    ct-normalize --i0 1e4 counts.tif -o want.tif
    ok img-cmp got.tif want.tif
    fails 2 "--curve and --no-log cannot be combined" ct-normalize --i0 1e4 --no-log --curve same.txt counts.tif
    printf '0 0\n1 1\n0.5 2\n' >bad.txt
    fails 1 "bad.txt: pair 3: expected both numbers to increase" ct-normalize --i0 1e4 --curve bad.txt counts.tif
    printf '0 0 1\n' >bad.txt
    fails 1 "bad.txt: line 1: expected 2 numbers, got 3" ct-normalize --i0 1e4 --curve bad.txt counts.tif
    fails 1 "nothere.txt: No such file" ct-normalize --i0 1e4 --curve nothere.txt counts.tif
}
