# Thresholds: given, of the histogram, of the neighbourhood; what is marked with what; chunks, pipes and types.
load helper

# pixels NXxNY[xN]:TYPE FILE PERL: a stack of the numbers that the Perl list gives
pixels() {
    local t=${1#*:} letter
    case $t in u8) letter=C ;; u16) letter='S<' ;; i16) letter='s<' ;; f32) letter='f<' ;; esac
    perl -e 'print pack("$ARGV[0]*", eval $ARGV[1])' -- "$letter" "$3" > pixels.raw
    img-cat --raw-in "${1%:*}:$t$([ "$t" = u8 ] || echo le)" pixels.raw -o "$2"
}

mask() { numbers "$1" C; }

@test "a threshold that is given: above, below, equal, the value of the mark" {
    pixels 5x1:u8 a.tif '9,10,11,0,255'
    ok img-threshold --at 10 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 255 0 255" ]
    [ "$(img-info --value type b.tif)" = u8 ]
    [ "$(img-info --value quantity b.tif)" = mask ]
    ok img-threshold --at 10 --below --value 1 a.tif -o b.tif
    [ "$(mask b.tif)" = "1 1 0 1 0" ]
    ok img-threshold --at 10.5 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 255 0 255" ]
    ok img-threshold --at -3 a.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 255 255 255" ]
    pixels 5x1:f32 a.tif '0.1, 0.2, 9**9**9, -9**9**9, -sin(9**9**9)'
    ok img-threshold --at 0.15 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 255 255 0 0" ]
    ok img-threshold --at 0.15 --below a.tif -o b.tif
    [ "$(mask b.tif)" = "255 0 0 255 0" ]
}

@test "thresholds are in the unit of the values" {
    pixels 4x1:f32 a.tif '-1,0,1,2'
    img-convert --type u16 --scale 100,500 a.tif -o b.tif
    ok img-threshold --at 0.5 b.tif -o c.tif
    [ "$(mask c.tif)" = "0 0 255 255" ]
    [ "$(img-info --value scale c.tif)" = "" ]
    ok img-threshold --local mean --2d --window 9 --offset -0.8 b.tif -o c.tif
    [ "$(mask c.tif)" = "0 0 0 255" ]
    ok img-threshold --local mean --2d --window 9 b.tif -o c.tif
    [ "$(mask c.tif)" = "0 0 255 255" ]
}

@test "local thresholds: the formulas, over the samples that exist" {
    pixels 6x1:u8 a.tif '10,20,30,200,30,20'
    # means of three, two at the ends: 15 20 83.3 86.7 83.3 25
    ok img-threshold --2d --local mean --window 3 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 255 0 0" ]
    ok img-threshold --2d --local mean --window 3,3,1 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 255 0 0" ]
    fails 2 "error: a ball of 200001 x 200001 x 1 voxels is too large" \
        img-threshold --2d --local mean --window 200001 --shape ball a.tif
    ok img-threshold --2d --local mean --window 3 --below a.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 255 0 255 255" ]
    ok img-threshold --2d --local mean --window 3 --offset 1 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 255 0 255 0 0" ]
    # 20 > 25 * 0.75, but 10 < 15 * 0.75
    ok img-threshold --2d --local bradley --k 0.25 --window 3 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 255 0 255 0 255" ]
    # deviations 5 8.2 82.6 80.1 82.6 5: m - s is 10 11.8 0.7 6.6 0.7 20
    ok img-threshold --2d --local niblack --k 1 --window 3 a.tif -o b.tif
    [ "$(mask b.tif)" = "0 255 255 255 255 0" ]
    # m (1 + k (s / r - 1)): 7.8 10.8 70 70.5 70 13.0
    ok img-threshold --2d --local sauvola --k 0.5 --r 120 --window 3 a.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 0 255 0 255" ]
    # r of u8 is 127.5, k 0.2
    ok img-threshold --2d --local sauvola --window 3 a.tif -o b.tif
    ok img-threshold --2d --local sauvola --window 3 --k 0.2 --r 127.5 a.tif -o c.tif
    ok img-cmp b.tif c.tif
}

@test "rules for edges: what the first pixel is compared with" {
    pixels 6x1:u8 a.tif '10,20,30,200,30,20'
    # means of five around the first one: of 3 that exist 20; 30 20|10 20 30: 22; 20 10|10 20 30: 18; 10 10|10 20 30: 16
    while read -r edge below above; do
        ok img-threshold --2d --local mean --window 5,1 --edge "$edge" --offset "$below" a.tif -o b.tif
        [ "$(mask b.tif | cut -d ' ' -f 1)" = 0 ]
        ok img-threshold --2d --local mean --window 5,1 --edge "$edge" --offset "$above" a.tif -o b.tif
        [ "$(mask b.tif | cut -d ' ' -f 1)" = 255 ]
    done <<'END'
renormalize 9.9 10.1
nearest 5.9 6.1
mirror 7.9 8.1
wrap 11.9 12.1
zero 1.9 2.1
END
    # a zero is a value: stored as 50, v is 10 v - 500
    img-convert --type u16 --scale 0.1,50 a.tif -o b.tif
    ok img-threshold --2d --local mean --window 5,1 --edge zero --offset 2.1 b.tif -o c.tif
    [ "$(mask c.tif | cut -d ' ' -f 1)" = 255 ]
    ok img-threshold --2d --local bradley --k 0 --window 5,1 --edge zero b.tif -o b.tif
    ok img-threshold --2d --local mean --window 5,1 --edge zero a.tif -o c.tif
    ok img-cmp b.tif c.tif
    # a window that is larger than the image, twice mirrored; a line is its own mirror image along y
    ok img-threshold --2d --local niblack --window 31 --edge mirror a.tif -o b.tif
    ok img-threshold --2d --local niblack --window 31,1 --edge mirror a.tif -o c.tif
    ok img-cmp b.tif c.tif
    fails 2 "--edge needs --local, got --at" img-threshold --at 3 --edge mirror a.tif
    fails 2 "--edge" img-threshold --local mean --edge reflect a.tif
}

@test "thresholds of the histogram are told, and what is above them is marked" {
    pixels 10x1:u8 a.tif '1,2,2,3,2, 9,8,9,10,9'
    for how in otsu li isodata; do
        run --separate-stderr img-threshold --2d --$how -v a.tif -o b.tif
        [ "$status" -eq 0 ]
        grep -q "threshold [3-7]" <<<"$stderr"
        [ "$(mask b.tif)" = "0 0 0 0 0 255 255 255 255 255" ]
        ok img-threshold --2d --$how --below a.tif -o b.tif
        [ "$(mask b.tif)" = "255 255 255 255 255 0 0 0 0 0" ]
    done
    # a large peak with a tail
    pixels 20x1:u16 a.tif '(1000) x 14, 1001, 1002, 1003, 1007, 1008, 1015'
    for how in triangle yen; do
        ok img-threshold --2d --$how a.tif -o b.tif
        [[ "$(mask b.tif)" == "0 0 0 0 0 0 0 0 0 0 0 0 0 0 "*255 ]]
    done
    # a constant is not above itself
    pixels 4x1:i16 a.tif '-5,-5,-5,-5'
    for how in otsu triangle li yen isodata; do
        ok img-threshold --$how a.tif -o b.tif
        [ "$(mask b.tif)" = "0 0 0 0" ]
    done
}

@test "every image has a threshold of its own" {
    pixels 4x1x2:u8 a.tif '1,2,8,9, 100,110,190,200'
    ok img-threshold --2d --otsu a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 255 255 0 0 255 255" ]
    run --separate-stderr img-threshold --2d --otsu -v a.tif -o b.tif
    [[ "$stderr" == *"2 thresholds, from 2 to 110"* ]]
    img-convert --set axes=x,y,z a.tif -o v.tif
    ok img-threshold --otsu v.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 0 255 255 255 255" ]
    img-convert --set axes=x,y,channel a.tif -o c.tif
    ok img-threshold --otsu c.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 255 255 0 0 255 255" ]
}

@test "f32: bins over the range of the stack, or one that is given" {
    pixels 6x1:f32 a.tif '0.1,0.12,0.11,0.9,0.91,1.1'
    ok img-threshold --2d --otsu a.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 255 255 255" ]
    # two bins: from 0.6 on; their middles are 0.35 and 0.85
    run --separate-stderr img-threshold --2d --otsu --bins 2 -v a.tif -o b.tif
    grep -q 'threshold 0.35' <<<"$stderr"
    run --separate-stderr img-threshold --2d --otsu --bins 4 --range 0,2 -v a.tif -o b.tif
    grep -q 'threshold 0.25' <<<"$stderr"
    # from a pipe too, which is kept
    ok img-threshold --otsu a.tif -o b.tif
    for how in "" --spool "--2d" "--range=0.1,1.1"; do
        # shellcheck disable=SC2086
        img-cat a.tif | img-threshold $how --otsu > c.tif
        ok img-cmp b.tif c.tif
    done
    # what is not finite has no part in it
    pixels 8x1:f32 n.tif '0.1,0.12,0.11,0.9,0.91,1.1, 9**9**9, -sin(9**9**9)'
    ok img-threshold --2d --otsu n.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 255 255 255 255 0" ]
}

@test "hysteresis: weak ones that strong ones lead to" {
    pixels 8x3:u8 a.tif '9,6,6,0,6,6,0,0,  0,0,0,6,0,0,0,6,  0,0,0,0,0,0,0,9'
    ok img-threshold --hysteresis 5,8 a.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 255 0 255 255 0 0 0 0 0 255 0 0 0 255 0 0 0 0 0 0 0 255" ]
    ok img-threshold --hysteresis 5,8 --connectivity 4 a.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 255 0 0 0 0 0 0 0 0 0 0 0 0 255 0 0 0 0 0 0 0 255" ]
    ok img-threshold --at 8 --weak 3 --connectivity 4 a.tif -o c.tif
    ok img-cmp b.tif c.tif
    # dark ones: not above 1, and not above 4 where that leads to them
    pixels 6x1:u8 d.tif '1,4,5,4,4,0'
    ok img-threshold --hysteresis 1,4 --below d.tif -o b.tif
    [ "$(mask b.tif)" = "255 255 0 255 255 255" ]
    ok img-threshold --at 1 --weak 3 --below --value 1 d.tif -o b.tif
    [ "$(mask b.tif)" = "1 1 0 1 1 1" ]
    # with a threshold of the histogram, and a local one
    pixels 10x1:u8 e.tif '1,2,2,3,4, 9,8,9,10,9'
    ok img-threshold --otsu e.tif -o b.tif
    [ "$(mask b.tif)" = "0 0 0 0 0 255 255 255 255 255" ]
    t=$(img-threshold --otsu -v e.tif -o b.tif 2>&1 | sed -n 's/^img-threshold: threshold //p')
    ok img-threshold --otsu --weak 1.5 e.tif -o b.tif
    ok img-threshold --at "$t" --weak 1.5 e.tif -o c.tif
    ok img-cmp b.tif c.tif
    img-cat e.tif | img-threshold --otsu --weak 1.5 > c.tif
    ok img-cmp b.tif c.tif
    ok img-threshold --local mean --window 9 --weak 0.5 --offset -1 e.tif -o b.tif
    ok img-threshold --local mean --window 9 --offset -1 e.tif -o strong.tif
    ok img-threshold --local mean --window 9 --offset -0.5 e.tif -o weak.tif
    ok img-morphrecon strong.tif weak.tif -o want.tif
    ok img-cmp b.tif want.tif
    fails 2 "expected LOW,HIGH" img-threshold --hysteresis 8,5 a.tif
    fails 2 "--weak and --hysteresis cannot be combined" img-threshold --hysteresis 5,8 --weak 1 a.tif
    fails 2 "--connectivity needs" img-threshold --at 5 --connectivity 4 a.tif
    img-cat a.tif a.tif -o two.tif
    fails 2 "2 images have a threshold of their own each" img-threshold --2d --otsu --weak 1 two.tif
}

@test "windows: odd, per axis, in the unit of the voxel size; volumes and pages" {
    noise a.tif 23x19x7 u16
    ok img-threshold --local mean --window 5 a.tif -o b.tif
    ok img-threshold --local mean --window 5,5,5 a.tif -o c.tif
    ok img-cmp b.tif c.tif
    ok img-threshold --local mean --window 5,5,1 a.tif -o b.tif
    ok img-threshold --local mean --2d --window 5 a.tif -o c.tif
    ok img-cmp b.tif c.tif
    img-convert --set voxel=0.5,0.5,2mm a.tif -o v.tif
    ok img-threshold --local niblack --physical --window 2.5 v.tif -o b.tif
    ok img-threshold --local niblack --window 5,5,1 a.tif -o c.tif
    ok img-cmp b.tif c.tif
    # a mean as img-local makes it, and what is above it
    img-local --stat mean --type f32 --radius 2 a.tif -o mean.tif
    img-math 'if(a > b, 255, 0)' --type u8 a.tif mean.tif -o want.tif
    ok img-threshold --local mean --window 5 a.tif -o b.tif
    ok img-cmp b.tif want.tif
    img-local --stat mean --shape ball --type f32 --radius 2 a.tif -o mean.tif
    img-math 'if(a > b, 255, 0)' --type u8 a.tif mean.tif -o want.tif
    ok img-threshold --local mean --shape ball --window 5 a.tif -o b.tif
    ok img-cmp b.tif want.tif
}

@test "what does not go together, and what is missing, is answered with the way out" {
    noise a.tif 9x8x1 u16
    fails 2 "expected a threshold, got none" img-threshold a.tif
    [[ "$stderr" == *"hint: --at V, --hysteresis LOW,HIGH, --otsu"* ]]
    fails 2 "--local and --otsu cannot be combined" img-threshold --otsu --local mean a.tif
    fails 2 "--window needs --local, got --at" img-threshold --at 3 --window 5 a.tif
    fails 2 "--bins needs a threshold of the histogram, got --local" img-threshold --local mean --bins 9 a.tif
    fails 2 "expected an odd number of voxels, got 10" img-threshold --local mean --window 10 a.tif
    [[ "$stderr" == *"hint: as 11"* ]]
    fails 2 "--k needs --local niblack" img-threshold --local mean --k 1 a.tif
    fails 2 "--r needs --local sauvola, got niblack" img-threshold --local niblack --r 1 a.tif
    fails 2 "--range: expected LO,HI" img-threshold --otsu --range 3,3 a.tif
    noise f.tif 9x8x1 f32
    fails 2 "f32 needs --r" img-threshold --local sauvola f.tif
    img-convert --type f64 f.tif -o d.tif
    fails 2 "f64 needs --r" img-threshold --local sauvola d.tif
    img-convert --type i64 f.tif -o d.tif
    fails 1 "got i64" img-threshold --at 1 d.tif
    pixels 2x1:f32 n.tif '-sin(9**9**9), -sin(9**9**9)'
    fails 1 "no sample is finite" img-threshold --otsu n.tif
    truncate -s 4900000000 large.raw # nobody reads it
    fails 2 "--chunk: boxes of 70000 x 70000 x 1 are too large" \
        img-threshold --otsu --chunk 70000x70000x1 --compress deflate --raw-in 70000x70000:u8 large.raw -o x.tif --plan
}

@test "chunks, threads, memory and pipes do not show" {
    noise a.tif 37x29x17 u16
    noise f.tif 37x29x17 f32
    for args in "--at 0.4" "--otsu" "--triangle --2d" "--local mean --window 7" "--local niblack --window 5,9,3" \
                "--local sauvola --r 0.3 --window 9 --2d" "--local bradley --shape ball --window 7" \
                "--local niblack --edge mirror --window 9,5,41" "--local mean --edge nearest --shape ball --window 5" \
                "--local mean --edge zero --window 9 --weak 0.1" "--local niblack --2d --edge wrap --window 11" \
                "--hysteresis 0.5,0.9" "--local mean --window 9 --weak 0.1" "--li --weak 0.1"; do
        for f in a.tif f.tif; do
            # shellcheck disable=SC2086
            {
                ok img-threshold $args -j 1 $f -o want.tif
                ok img-threshold $args -j 3 --chunk 7x5x4 $f -o got.tif
                ok img-cmp want.tif got.tif
                cat $f | img-threshold $args -m 16M > got.tif
                ok img-cmp want.tif got.tif
            }
        done
    done
    ok img-threshold --local sauvola --window 9 a.tif -o want.tif
    cat a.tif | img-threshold --local sauvola --window 9 > got.tif
    ok img-cmp want.tif got.tif
}

@test "thresholds that are found: in the history, in --stats, to be given back" {
    pixels 4x1x3:u8 a.tif '1,2,8,9, 100,110,190,200, 7,7,7,7'
    img-convert --set scale=3,0.1 a.tif -o b.tif
    ok img-threshold --2d --otsu --stats s.json b.tif -o m.tif
    local found
    found=$(img-info m.tif | sed -n 's/^history *img-threshold --otsu --2d # thresholds //p; s/^history *img-threshold --2d --otsu # thresholds //p')
    [ "$(wc -w <<<"$found")" = 3 ]
    grep -qF "\"thresholds\": [${found// /, }]" s.json
    near "${found%% *}" "$(perl -e 'print 1.9 / 3')" 1e-15
    local k=0 v
    for v in $found; do
        img-cat --pages $k b.tif | img-threshold --2d --at "$v" | img-cmp - <(img-cat --pages $k m.tif)
        k=$((k + 1))
    done
    # of a volume, of floats, below, from a pipe, of what is written to standard output, and with --weak
    local how
    for how in otsu triangle li yen isodata; do
        ct-phantom --volume 20x20x5 -o v.tif
        img-convert --type u16 --auto v.tif -o w.tif
        img-convert --type i16 --scale=-300000,123 v.tif -o i.tif
        for f in v w i; do
            img-cat $f.tif | img-threshold --$how --below > m.tif
            v=$(img-info m.tif | sed -n "s/^history *img-threshold --$how --below # threshold //p")
            ok img-threshold --at "$v" --below $f.tif -o n.tif
            ok img-cmp m.tif n.tif
        done
    done
    ok img-threshold --otsu --weak 0.003 w.tif -o m.tif
    v=$(img-info m.tif | sed -n 's/^history *img-threshold --otsu --weak 0.003 # threshold //p')
    ok img-threshold --hysteresis "$(perl -e 'printf "%.17g,%.17g", $ARGV[0] - 0.003, $ARGV[0]' "$v")" w.tif -o n.tif
    ok img-cmp m.tif n.tif
    # where nothing is finite there is none
    pixels 2x1x2:f32 n.tif '1,2,-sin(9**9**9),-sin(9**9**9)'
    ok img-threshold --2d --otsu --range 0,3 --stats s.json n.tif -o m.tif
    [[ "$(img-info m.tif)" == *"# thresholds 1."*" nan"* ]]
    grep -q '"thresholds": \[1[.0-9]*, null\]' s.json
}

@test "--plan prints what it knows of a threshold" {
    ct-phantom --volume 20x20x5 -o v.tif
    ok img-threshold --otsu --plan v.tif
    [[ "$output" == *"above that of otsu, 256 bins over the range of the stack"* ]]
    ok img-threshold --otsu --bins 9 --range 0,0.02 --plan v.tif
    [[ "$output" == *"above that of otsu, 9 bins over 0 to 0.02"* ]]
    ok img-threshold --otsu --weak 0.001 --below --plan v.tif
    [[ "$output" == *"up to that of otsu, 256 bins over the range of the stack"*"up to that one plus 0.001"* ]]
    img-convert --type u8 --window 0,0.05 v.tif -o w.tif
    ok img-threshold --at 0.0123 --plan w.tif
    [[ "$output" == *"threshold, above 0.0123"* ]]
}
