# A recorded scale: programs that compute with values undo it, the others carry it along. And what samples are, as
# `quantity` says it: nothing is taken for what it cannot be.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" VOXPIPE_DEVICE=cpu
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-geom --sod 500 --sdd 1000 --detector 24x20 --pitch 4 --views 16 -o scan.geom
    ct-phantom -g scan.geom -o p.tif
    ct-phantom -g scan.geom --counts --noise 1e5 -o counts.tif
    ct-phantom -g scan.geom --counts --noise 1e5 --density 0 | img-cat --pages 0:4 -o flat.tif
    ct-filter p.tif -o q.tif
    ct-phantom --volume 20x18x6 -o v.tif
    # each with a scale, as 16 bit, and what is behind it
    for f in p counts flat q v; do
        img-convert --type u16 --auto $f.tif -o $f.u16.tif
        img-convert --unscale $f.u16.tif -o $f.f32.tif
    done
    img-convert --type u16 --scale=-50000,60000 v.tif -o down.u16.tif
    img-convert --unscale down.u16.tif -o down.f32.tif
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    cp "$BATS_FILE_TMPDIR"/*.tif .
}

# undone PROGRAM OPTION... NAME: the same samples from NAME.u16.tif, whose scale is recorded, as from its values; and of
# a pipe; no scale is said of them
undone() {
    local name=${*: -1}
    set -- "${@:1:$#-1}"
    "$@" -q $name.f32.tif -o want.tif
    ok "$@" -q $name.u16.tif -o got.tif
    ok img-cmp got.tif want.tif || { echo "with $*"; return 1; }
    [ "$(img-info --value type got.tif)" = "$(img-info --value type want.tif)" ]
    run img-info --value scale got.tif
    [ "$status" -eq 1 ] || { echo "$*: $output"; return 1; }
    img-cat $name.u16.tif | "$@" -q --spool -o got.tif
    ok img-cmp got.tif want.tif
    case "$*" in
    *entropy) ;; # reads twice
    *)
        img-cat $name.u16.tif | "$@" -q -o got.tif
        ok img-cmp got.tif want.tif ;;
    esac
}

@test "reconstruction: every program takes values" {
    undone ct-filter p
    undone ct-backproject q
    undone ct-fdk p
    undone ct-normalize --i0 1e5 counts
    undone ct-normalize --i0 1e5 --no-log counts
    undone ct-fdk --i0 1e5 counts
    ct-normalize --flat flat.f32.tif counts.tif -o want.tif
    ok ct-normalize --flat flat.u16.tif counts.tif -o got.tif
    ok img-cmp got.tif want.tif
    ct-normalize --flat flat.tif --dark flat.f32.tif --zinger 2 -q counts.tif -o want.tif
    ok ct-normalize --flat flat.tif --dark flat.u16.tif --zinger 2 -q counts.tif -o got.tif
    ok img-cmp --nan-equal got.tif want.tif
    # a mask is dead where its value is not 0, whatever is stored for that
    img-math 'x == 3' --type f32 flat.tif | img-cat --pages 0 -o mask.tif
    img-convert --type u8 --scale 10,7 mask.tif -o mask8.tif
    ct-normalize --i0 1e5 --dead mask.tif counts.tif -o want.tif -q
    ok ct-normalize --i0 1e5 --dead mask8.tif counts.tif -o got.tif -q
    ok img-cmp got.tif want.tif
    # and the truth is what it is: half a step of 16 bits is 7e-6
    ct-fdk -q p.tif -o want.tif
    ct-fdk -q p.u16.tif | img-cmp --max-rel-l2 1e-4 - want.tif
}

@test "sinograms and files that are read in any order" {
    ct-phantom -g "$BATS_FILE_TMPDIR/scan.geom" --layout sinograms -o s.tif
    img-convert --type u16 --auto s.tif -o s.u16.tif
    img-convert --unscale s.u16.tif -o s.f32.tif
    undone ct-fdk --layout sinograms s
    undone ct-filter --layout sinograms s
    img-convert --compress deflate p.u16.tif -o z.tif
    ct-fdk p.u16.tif -o want.tif
    ok ct-fdk z.tif -o got.tif
    ok img-cmp got.tif want.tif
    ok ct-fdk -j 3 -m 13M p.u16.tif -o got.tif
    ok img-cmp got.tif want.tif
}

@test "ct-reduce: values are summed, whatever their scales, also over pages" {
    undone ct-reduce --pages p
    undone ct-reduce --op max --pages v
    undone ct-reduce --op max --pages down
    for op in sum mean min max; do
        ct-reduce --op $op v.f32.tif down.f32.tif v.tif -o want.tif
        ok ct-reduce --op $op v.u16.tif down.u16.tif v.tif -o got.tif
        ok img-cmp got.tif want.tif
    done
    ct-reduce --op mean --pages v.f32.tif down.f32.tif -o want.tif
    ok ct-reduce --op mean --pages v.u16.tif down.u16.tif -o got.tif
    ok img-cmp got.tif want.tif
    # 2 * 7 and 2 * -3 of the values 7 and -3
    floats a.tif 7 -3
    img-convert --type i16 --scale 100,1000 a.tif | ct-reduce - a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "14 -6" ]
    # slabs are copied
    ct-reduce --join v.u16.tif -o b.tif
    [ "$(img-info --value scale b.tif)" = "$(img-info --value scale v.u16.tif)" ]
    cp v.u16.tif low.tif
    fails 1 "low.tif: expected the scale" ct-reduce --join down.u16.tif low.tif
    [[ "$stderr" == *"hint:"*"--unscale"* ]]
    fails 1 "v.tif: expected samples of u16 as in v.u16.tif, got f32" ct-reduce --join v.u16.tif v.tif
}

@test "img-math, img-cmp, img-view and img-info look at values" {
    undone img-math 'if(a > 0.01, a, x)' v
    img-math 'a - b' v.f32.tif down.f32.tif -o want.tif
    ok img-math 'a - b' v.u16.tif down.u16.tif -o got.tif
    ok img-cmp got.tif want.tif
    ok img-cmp --atol 1e-6 v.u16.tif v.tif
    ok img-cmp v.u16.tif v.f32.tif
    for w in "" "--window 0,0.03"; do
        img-view $w v.f32.tif -o want.png
        ok img-view $w v.u16.tif -o got.png
        cmp got.png want.png
    done
    img-convert --type u8 --scale 10,7 <(img-math 'a > 0.01' --type f32 v.tif) -o mask.tif
    # percentiles are exact, from a pipe as well, and so is all else
    for what in --statistics "--percentiles 5,50" "--histogram 4 --range 0,0.03" "--statistics --mask mask.tif"; do
        img-info $what v.u16.tif | sed 1d >want.txt
        img-cat v.u16.tif | img-info $what | sed 1d | grep -v '^history.*img-cat' >got.txt
        grep -q '[0-9]' want.txt
        diff want.txt got.txt
    done
    # what is said of the file is said of the file
    [ "$(img-info --value type,bytes v.u16.tif | xargs)" = "u16 4320" ]
    ok img-info --value scale v.u16.tif
    ok img-info --statistics --json v.u16.tif
    [[ "$output" == *'"type": "u16"'*'"scale": "'* ]]
    ok img-info v.u16.tif
    [[ "$output" == *"u16, 4.2 KiB"*"scale "* ]]
}

@test "filters carry a scale; what their options say of values are values" {
    # a filtered stack is half a step of 16 bits from that of the values
    for how in "img-nlmeans --h 0.002 --sigma 0.001 --search 2" "img-wiener --noise 1e-6" "img-gauss" "img-local"; do
        $how v.f32.tif -o want.tif
        ok $how v.u16.tif -o got.tif
        [ "$(img-info --value type got.tif)" = u16 ]
        [ "$(img-info --value scale got.tif)" = "$(img-info --value scale v.u16.tif)" ]
        ok img-cmp --atol 1e-6 got.tif want.tif || { echo "$how"; return 1; }
    done
    said() { img-wiener -v "$1" -o out.tif 2>&1 | sed -n 's/.*noise variance //p'; }
    near "$(said v.u16.tif)" "$(said v.f32.tif)" 1e-10
    # what has no scale of its own: of values at once
    undone img-local --stat entropy --range 0,0.03 v
    undone img-local --stat entropy v
    undone img-local --stat var --iterations 2 v
    undone img-gauss --edge zero v
    undone img-log --edge zero v
    # larger stored is smaller: what asks for the larger gets it
    for how in "img-local --stat max" "img-morph --op open" "img-nlmeans --h 0.002 --search 2" "img-gauss"; do
        undone $how down
    done
}

@test "img-cat and img-convert carry it; files of other scales are not mixed" {
    ok img-cat --pages 1:3 v.u16.tif -o b.tif
    [ "$(img-info --value type,scale b.tif | xargs)" = "u16 $(img-info --value scale v.u16.tif)" ]
    ok img-convert --join --unscale v.u16.tif v.u16.tif -o b.tif
    fails 1 "as in the first input, got -50000 60000" img-cat v.u16.tif down.u16.tif -o c.tif
    [[ "$stderr" == *"hint:"*"--unscale"* ]]
    img-convert --type u16 v.u16.tif | img-math a --type u16 -o none.tif -q
    fails 1 "none.tif: expected the scale" img-cat v.u16.tif none.tif -o c.tif
    fails 1 "v.u16.tif: expected the scale" img-info --join --statistics none.tif v.u16.tif
    fails 1 "as in the first input" sh -c 'cat down.u16.tif | img-gauss --join v.u16.tif - -o c.tif'
    # a window is of values
    run --separate-stderr img-convert -v --type u8 --auto down.u16.tif -o got.tif
    [[ "$stderr" == *"window 0.0"*" to 0"* ]]
    img-convert --type u8 --window 0,0.03 v.f32.tif -o want.tif
    ok img-convert --type u8 --window 0,0.03 v.u16.tif -o got.tif
    img-convert --raw-out got.tif | cmp - <(img-convert --raw-out want.tif)
    near "$(img-info --value scale got.tif | cut -d' ' -f1)" 8500 1e-9
    ok img-convert --type u8 --window 0,0.03 down.u16.tif -o got.tif
    ok img-cmp --atol 6e-5 got.tif v.tif
}

@test "integers with a scale are counted as they are stored, files of different scales as values" {
    # gain -0.5, 0.25: what is stored is 2 4 6 8 and 10 11 12 13
    perl -e 'print pack("C*", 2, 4, 6, 8)' > a.raw
    perl -e 'print pack("C*", 10, 11, 12, 13)' > b.raw
    img-convert --raw-in 2x2:u8 --set scale=-0.5,2 a.raw -o a.tif
    img-convert --raw-in 2x2:u8 --set scale=0.25,10 b.raw -o b.tif
    [ "$(img-info --value min,max,mean,sum,median,p0,type a.tif | xargs)" = "-12 0 -6 -24 -6 -12 u8" ]
    [ "$(img-info --value min,max,mean,sum,median,p0,type a.tif b.tif | xargs)" = "-12 12 0 0 0 -12 u8" ]
    [ "$(img-info --value scale a.tif b.tif)" = "-0.5 2" ]
    ok img-threshold --2d --at -4 a.tif b.tif -o c.tif
    [ "$(numbers c.tif C)" = "255 0 0 0 255 255 255 255" ]
    # a value that is stored is not above itself, whatever the digits: 0.1 s
    perl -e 'print pack("C*", 0..255)' > c.raw
    img-convert --raw-in 16x16:u8 --set scale=10,0 c.raw -o c.tif
    for v in 0.1 0.3 0.7 1.1 2.3 5.7 13.9 25.4; do
        [ "$(img-threshold --at $v --value 1 c.tif | img-info --value sum)" = "$(perl -e 'printf "%d", 255.5 - 10 * $ARGV[0]' $v)" ]
    done
    # one scale for a stream of which the second part comes later
    fails 1 "standard input: expected the scale -0.5 2 as in the first input, got 0.25 10" \
        sh -c 'cat b.tif | img-threshold --2d --otsu a.tif - -o d.tif'
    # the mean of a box: once rounded, of integers, of what is larger than f64, of values
    perl -e 'print pack("Q<*", 656247381085762037, 924948642789419743, 72757217426062276)' > d.raw
    printf '0:3 0:1\n' > box.txt
    img-convert --raw-in 3x1:u64le d.raw -o d.tif
    mean() { img-sat --boxes box.txt "$1" | awk 'NR == 2 { print $7 }'; }
    [ "$(mean d.tif)" = 5.5131774710041466e+17 ]
    perl -e 'print pack("d<*", 1.5e308, 1.5e308, 1.5e308)' > e.raw
    img-convert --raw-in 3x1:f64le e.raw -o e.tif
    [ "$(mean e.tif)" = 1.5e+308 ]
    perl -e 'print pack("S<*", 3, 3, 4)' > f.raw
    img-convert --raw-in 3x1:u16le --set scale=10,3 f.raw -o f.tif
    [ "$(img-sat --boxes box.txt f.tif | awk 'NR == 2 { print $6, $7 }')" = "0.1 0.03333333333333333" ]
}

@test "values: 32 bit as f64, a scale that is none" {
    perl -e 'print pack("l<*", -2147483648, 1, 2147483647)' > a.raw
    img-convert --raw-in 3x1:i32 --type i32 a.raw -o a.tif
    img-convert --scale 3,1 a.tif | img-convert --unscale -o b.tif
    [ "$(img-info --value type b.tif)" = f64 ]
    [ "$(numbers b.tif 'd<')" = "-2147483648 1 2147483647" ]
    img-convert --type f64 --scale 3,1 a.tif | img-convert --type f64 --scale 0.5,0 | img-math '2 * a + 1' -o b.tif
    [ "$(numbers b.tif 'd<')" = "-4294967295 3 4294967295" ]
    for scale in "0 1" "x" "nan 1" "1"; do
        printf 'voxpipe = 1\nscale = %s\n' "$scale" > d.txt
        perl -e 'local $/; open F, "d.txt"; $d = <F> . "\0"; $n = length $d;
            print "II", pack("vV", 42, 8), pack("v", 8), map { pack("vvVV", @$_) } ([256, 4, 1, 1], [257, 4, 1, 1],
            [258, 3, 1, 8], [259, 3, 1, 1], [270, 2, $n, 200], [273, 4, 1, 199], [278, 4, 1, 1], [279, 4, 1, 1]);
            print pack("V", 0), "\0" x (199 - 8 - 2 - 96 - 4), "A", $d' > bad.tif
        fails 1 "bad.tif: the scale in the metadata: expected a gain that is not 0 and an offset" img-info --statistics bad.tif
        ok img-cat bad.tif -o c.tif
        fails 1 "the scale in the metadata: expected a gain that is not 0 and an offset, got '$scale'" \
            img-convert --unscale bad.tif
    done
}

@test "quantities: what cannot be line integrals is not taken for them" {
    ct-normalize --i0 1e5 --no-log counts.tif -o t.tif
    img-gauss --derivative 1,0,0 p.tif -o d.tif
    img-log --2d p.tif -o l.tif
    ct-fdk -q p.tif -o vol.tif
    for program in ct-filter ct-fdk; do
        fails 2 "t.tif: holds a transmission, not line integrals" $program t.tif
        [[ "$stderr" == *"hint: --i0 1"* ]]
        fails 2 "counts.tif: holds counts, not line integrals" $program counts.tif
        [[ "$stderr" == *"hint:"*"ct-normalize"* ]]
        fails 2 "d.tif: holds a derivative, not line integrals" $program d.tif
        fails 2 "l.tif: holds a Laplacian, not line integrals" $program l.tif
        fails 2 "q.tif: is filtered already" $program q.tif
        [[ "$stderr" == *"hint: ct-backproject"* ]]
        fails 2 "vol.tif: holds a reconstructed volume, not line integrals" \
            $program -g "$BATS_FILE_TMPDIR/scan.geom" vol.tif
    done
    for how in "--i0 1e5" "--flat flat.tif" "--i0 1"; do
        for program in ct-normalize ct-fdk; do
            fails 2 "p.tif: holds line integrals, not counts" $program $how p.tif
            fails 2 "q.tif: is filtered already, not counts" $program $how q.tif
            fails 2 "d.tif: holds a derivative, not counts" $program $how d.tif
        done
    done
    fails 2 "t.tif: holds a transmission, not counts" ct-normalize --i0 2 t.tif
    fails 2 "t.tif: holds a transmission, not counts" ct-fdk --flat flat.tif t.tif
    fails 2 "p.tif: holds line integrals, not counts" ct-normalize --flat p.tif counts.tif
    fails 2 "p.tif: holds line integrals, not counts" ct-normalize --i0 1e5 --dark p.tif counts.tif
    fails 2 "counts.tif: holds counts, not filtered" ct-backproject counts.tif
    fails 2 "vol.tif: holds a reconstructed volume" ct-backproject -g "$BATS_FILE_TMPDIR/scan.geom" vol.tif
    # the way out of a transmission
    ct-normalize --i0 1e5 counts.tif -o want.tif
    ok ct-normalize --i0 1 t.tif -o got.tif
    ok img-cmp --atol 1e-6 got.tif want.tif
    ct-fdk -q want.tif -o want.vol.tif
    ok ct-fdk -q --i0 1 t.tif -o got.vol.tif
    ok img-cmp --max-rel-l2 1e-5 got.vol.tif want.vol.tif
    # what may be: smoothed line integrals, a word that is not ours, nothing said
    ok sh -c 'img-gauss --2d p.tif | ct-fdk -q -o vol.tif'
    ok sh -c 'img-math "a + 0" p.tif | ct-fdk -q -o vol.tif'
}
