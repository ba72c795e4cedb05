# Morphological reconstruction: by hand, by its own laws, and however the work is cut up. Against its definition it is
# held by tests/unit/morphrecon_test.c.
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

# becomes "NUMBERS" OPTION... STACK...: what u8 samples become
becomes() {
    local want=$1
    shift
    ok img-morphrecon -q "$@" -o out.tif
    [ "$(numbers out.tif C)" = "$want" ] || { echo "img-morphrecon $*: $(numbers out.tif C)"; return 1; }
}

# a volume that looks like an image, 40 x 30 x 20
volume() {
    perl -e 'srand 3; for $z (0 .. 19) { for $y (0 .. 29) { for $x (0 .. 39) {
        print pack("C", 100 + 60 * sin($x / 4 + $z / 5) * cos($y / 3) + rand 40) } } }' > volume.raw
    img-cat --raw-in 40x30x20:u8 volume.raw -o volume.tif
}

@test "a row, by hand" {
    bytes mask.tif 9x1x1:u8 C 5 7 6 9 2 8 8 1 4
    bytes marker.tif 9x1x1:u8 C 0 0 0 6 0 0 3 0 9
    becomes "5 6 6 6 2 3 3 1 4" marker.tif mask.tif
    bytes marker.tif 9x1x1:u8 C 9 9 7 9 9 9 9 9 9
    becomes "7 7 7 9 9 9 9 9 9" --by erosion marker.tif mask.tif
    becomes "5 6 6 7 2 6 6 1 2" --hmax 2 mask.tif
    becomes "0 1 0 2 0 2 2 0 2" --hdome 2 mask.tif
    becomes "7 7 7 9 4 8 8 3 4" --hmin 2 mask.tif
    becomes "0 1 0 1 0 1 1 0 1" --regional-max mask.tif
    becomes "1 0 1 0 1 0 0 1 0" --regional-min mask.tif
    becomes "5 6 6 6 2 2 2 1 1" --open 1,0 mask.tif
    becomes "7 7 7 9 8 8 8 4 4" --close 1,0 mask.tif
    becomes "5 6 6 6 2 2 2 1 1" --seed 2,0 mask.tif
    becomes "7 7 6 9 9 9 9 9 9" --seed 2,0 --by erosion mask.tif
    becomes "0 2 1 4 0 6 6 0 0" --clear-border mask.tif
}

@test "a hole is filled up to its lowest wall, and a diagonal wall is tight over faces only" {
    bytes a.tif 5x5x1:u8 C 0 0 9 0 0  0 9 1 9 0  7 1 0 1 9  0 9 1 9 0  0 0 9 0 0
    becomes "0 0 9 0 0 0 9 7 9 0 7 7 7 7 9 0 9 7 9 0 0 0 9 0 0" --fill-holes a.tif
    becomes "0 0 9 0 0 0 9 1 9 0 7 1 1 1 9 0 9 1 9 0 0 0 9 0 0" --fill-holes --connectivity 8 a.tif
}

@test "what touches the border is taken away, the rest stays" {
    bytes a.tif 6x5x1:u8 C 0 5 0 0 0 0  5 5 0 8 8 0  0 0 0 8 8 0  3 0 0 0 0 0  0 0 0 0 0 0
    becomes "0 0 0 0 0 0 0 0 0 8 8 0 0 0 0 8 8 0 0 0 0 0 0 0 0 0 0 0 0 0" --clear-border a.tif
}

@test "negative samples: a difference of i16 is u16, of i8 too" {
    bytes a.tif 5x1x1:i16le s -30000 -200 -30000 30000 -30000
    ok img-morphrecon --hdome 60000 a.tif -o out.tif
    [ "$(numbers out.tif S)" = "0 29800 0 60000 0" ] || numbers out.tif S
    ok img-morphrecon --hmax 100 a.tif -o out.tif
    [ "$(numbers out.tif s)" = "-30000 -300 -30000 29900 -30000" ]
    bytes a.tif 5x1x1:i8 c -120 -100 -128 120 -120
    ok img-morphrecon --hmax 10 a.tif -o out.tif
    [ "$(numbers out.tif c)" = "-120 -110 -128 110 -120" ]
}

@test "laws: opening is below and closing above, domes are what h-maxima take away, upside down is the other way" {
    volume
    ok img-morphrecon --open 2 volume.tif -o open.tif
    ok img-morphrecon --close 2 volume.tif -o close.tif
    img-math 'a <= b and b <= c' --type u8 open.tif volume.tif close.tif -o law.tif
    img-math '1 + 0 * a' --type u8 law.tif -o ones.tif
    ok img-cmp law.tif ones.tif
    ok img-morphrecon --open 2 open.tif -o again.tif
    ok img-cmp again.tif open.tif
    ok img-morphrecon --hmax 25 volume.tif -o hmax.tif
    ok img-morphrecon --hdome 25 volume.tif -o dome.tif
    img-math 'a - b' volume.tif hmax.tif --type u8 -o want.tif
    ok img-cmp dome.tif want.tif
    img-math '255 - a' --type u8 volume.tif -o down.tif
    img-math '255 - a' --type u8 hmax.tif -o want.tif
    ok img-morphrecon --hmin 25 down.tif -o hmin.tif
    ok img-cmp hmin.tif want.tif
    img-math 'clip(a - 25, 0, 255)' --type u8 volume.tif -o marker.tif
    ok img-morphrecon marker.tif volume.tif -o recon.tif
    ok img-cmp recon.tif hmax.tif
}

@test "chunks, memory, threads, pipes and --2d: the same bytes" {
    volume
    for option in "--fill-holes" "--hmax 30 --connectivity 18" "--open 1.5 --connectivity 6" "--clear-border --2d"; do
        read -ra words <<<"$option"
        img-morphrecon "${words[@]}" volume.tif -o want.tif
        for how in "--chunk 7x9x5" "--chunk 40x30x3 -j 3" "--chunk 13 -j 1" "-m 2500K"; do
            read -ra more <<<"$how"
            ok img-morphrecon "${words[@]}" "${more[@]}" volume.tif -o got.tif
            ok img-cmp got.tif want.tif
        done
        img-cat volume.tif | img-morphrecon "${words[@]}" > got.tif
        ok img-cmp got.tif want.tif
        img-cat volume.tif | img-morphrecon "${words[@]}" -m 2500K | img-cmp - want.tif
    done
}

@test "a page larger than memory comes in bands, also into a pipe" {
    perl -e 'srand 4; for $y (0 .. 899) { for $x (0 .. 699) {
        print pack("C", 100 + 80 * sin($x / 40) * cos($y / 30 + $x / 90) + rand 20) } }' > page.raw
    img-cat --raw-in 700x900:u8 page.raw -o page.tif
    for option in "--fill-holes" "--hmax 30" "--clear-border --connectivity 4" "--seed 350,20"; do
        read -ra words <<<"$option"
        img-morphrecon "${words[@]}" page.tif -o want.tif
        ok img-morphrecon "${words[@]}" -m 1M page.tif -o got.tif --plan
        [[ "$output" == *"passes:"*"two:"*"bands:"*" rows a page"* ]]
        ok img-morphrecon "${words[@]}" -m 1M page.tif -o got.tif
        ok img-cmp got.tif want.tif
        img-morphrecon "${words[@]}" -m 1M page.tif > got.tif
        ok img-cmp got.tif want.tif
        img-cat page.tif | img-morphrecon "${words[@]}" -m 1M > got.tif
        ok img-cmp got.tif want.tif
    done
    img-morphrecon --open 3 page.tif -o want.tif
    ok img-morphrecon --open 3 -m 1500K page.tif -o got.tif
    ok img-cmp got.tif want.tif
}

@test "a full disk is told where the boxes' shells need it" {
    needs_plain_memory # nothing else is preloaded
    noise big.tif 160x120x40 u8
    mkdir small
    # the first bytes that do not fit in memory, some later ones, and room for the graph
    for fault in pwritev:1 pwritev:9 fallocate:1 fallocate:3; do
        TMPDIR=small FAULT=$fault:28 LD_PRELOAD=$BUILD/fault/fault.so fails 1 "img-morphrecon: error: small: " img-morphrecon \
            --hmax 30 --connectivity 6 --chunk 9x9x9 -m 2M big.tif -o got.tif
        [[ "$stderr" == *"No space left on device"* ]] || { echo "$fault: $stderr"; return 1; }
        [ ! -e got.tif ]
    done
}

@test "what is sorted and spilled keeps to --memory, wherever TMPDIR is" {
    needs_plain_memory
    noise f.tif 100x80x60 f32
    # of few exponents, and all may rise: 15 MB of edges, of which nearly all have the same upper digits
    img-math '1 + a / 200' f.tif -o flat.tif
    two=(img-morphrecon --hmax 0.02 flat.tif -o got.tif --chunk 8 --stats stats.json)
    img-morphrecon --hmax 0.02 flat.tif -o want.tif
    ok "${two[@]}" -m 3M
    cmp got.tif want.tif
    spilled=$(sed -n 's/.*"bytes_spilled": *\([0-9]*\).*/\1/p' stats.json)
    [ "$spilled" -gt 20000000 ]
    took_at_most $((3000000 + 8000000 + spilled)) # files that are mapped count until the system wants their memory
    [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || skip "no file system in memory"
    export TMPDIR=/dev/shm
    rm got.tif
    for more in "" --plan; do
        fails 3 "takes" "${two[@]}" -m 3M $more
        [[ "$stderr" == *"hint: /dev/shm is in memory itself: set TMPDIR to a folder on a disk"* ]] || { echo "$stderr"; return 1; }
        [ ! -e got.tif ]
    done
    # what is found fits, the graph does not
    fails 3 "the summary of the boxes takes" "${two[@]}" -m 32M
    [[ "$stderr" == *" in /dev/shm, which is in memory itself: expected at most "* ]]
    [ ! -e got.tif ]
    ok "${two[@]}" -m 64M
    cmp got.tif want.tif
    took_at_most 72000000
    grep -q '"bytes_spilled": 0[,}]' stats.json
}

@test "a page of a pipe that is larger than --memory: copied by rows during the first pass" {
    needs_plain_memory
    noise page.tif 3000x5000x1 u8
    img-morphrecon --hmax 20 page.tif -o want.tif
    bytes=$(stat -c %s page.tif)
    ok bash -c 'cat page.tif | img-morphrecon --hmax 20 -m 10M --stats stats.json -o got.tif'
    cmp got.tif want.tif
    took_at_most 14000000
    grep -q '"visits": 2,' stats.json
    grep -q "\"bytes_read\": $bytes," stats.json
    rm got.tif
    fails 1 "standard input: page 0: truncated: expected 15000000 bytes" \
        bash -c 'head -c 9000000 page.tif | img-morphrecon --hmax 20 -m 10M -o got.tif'
    fails 1 "trailing data after page 0" \
        bash -c '{ cat page.tif; echo; } | img-morphrecon --hmax 20 -m 10M -o got.tif'
    mkdir small
    fails 1 "small: No space left on device" bash -c "cat page.tif | TMPDIR=small FAULT=pwritev:5:28 \
        LD_PRELOAD='$BUILD/fault/fault.so' img-morphrecon --hmax 20 -m 10M -o got.tif"
    [ ! -e got.tif ]
}

@test "two stacks in two visits, one of them a pipe; what is above the mask is counted once" {
    volume
    img-math 'if((x + y + z) % 7 == 0, a + 5, a - 30)' --type i16 volume.tif -o marker.tif
    img-convert --type i16 volume.tif -o mask.tif
    above=$(img-math 'a > b' --type u8 marker.tif mask.tif | img-cat --raw-out | tr -dc '\001' | wc -c)
    [ "$above" -gt 1000 ]
    run --separate-stderr img-morphrecon marker.tif mask.tif -o want.tif --stats stats.json
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"warning: $above samples of the marker are above the mask"* ]] || { echo "$stderr"; return 1; }
    grep -q "\"clipped\": $above[,}]" stats.json
    run --separate-stderr img-morphrecon --chunk 17x11x6 marker.tif mask.tif -o got.tif --stats stats.json
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"warning: $above samples"* ]]
    grep -q '"visits": 2' stats.json
    grep -q "\"bytes_read\": $((4 * 40 * 30 * 20 * 2))[,}]" stats.json # both stacks, twice
    ok img-cmp got.tif want.tif
    img-cat marker.tif | img-morphrecon -q --chunk 17x11x6 - mask.tif > got.tif
    ok img-cmp got.tif want.tif
    img-cat mask.tif | img-morphrecon -q marker.tif - > got.tif
    ok img-cmp got.tif want.tif
}

@test "--plan: one visit or two, and where a pipe goes" {
    volume
    ok img-morphrecon --hmax 3 --plan volume.tif
    [[ "$output" == *"passes:"*"one: every image is one chunk"* && "$output" != *spool* ]]
    ok img-morphrecon --hmax 3 --plan --chunk 20 volume.tif
    [[ "$output" == *"passes:"*"two: "* && "$output" == *"read 2.000 times"* ]]
    ok img-morphrecon --hmax 3 --plan --chunk 20x10x7 volume.tif -o out.tif
    [[ "$output" == *"chunks:    20 x 10 x 7, "* ]]
    run bash -c 'img-cat volume.tif | img-morphrecon --hmax 3 --plan'
    [[ "$output" == *"spool:"*"copied to memory"* ]]
    run bash -c 'img-cat volume.tif | img-morphrecon --hmax 3 --plan -m 64K'
    [[ "$output" == *"spool:"*'copied to $TMPDIR'* || "$output" == *"takes"* ]]
}

@test "NaN: nothing passes it, it stays, and it is said" {
    bytes mask.tif 6x1x1:f32le f 1 2 nan 4 5 inf
    bytes marker.tif 6x1x1:f32le f 1 nan 0 0 3 -inf
    run --separate-stderr img-morphrecon marker.tif mask.tif -o out.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"2 samples are NaN"* ]]
    [ "$(numbers out.tif f)" = "1 1 NaN 3 3 3" ] || { numbers out.tif f; return 1; }
}

@test "--open and --close by any footprint" {
    bytes mask.tif 9x1x1:u8 C 5 7 6 9 2 8 8 1 4
    bytes pair.tif 2x1x1:u8 C 1 1
    # eroded 5 5 6 6 2 2 8 1 1, dilated 7 7 9 9 8 8 8 4 4
    becomes "5 6 6 6 2 8 8 1 1" --open 0 --footprint pair.tif mask.tif
    becomes "7 7 7 9 8 8 8 4 4" --close 0 --footprint pair.tif mask.tif
    volume
    bytes ball.tif 3x3x3:u8 C 0 0 0 0 1 0 0 0 0 0 1 0 1 1 1 0 1 0 0 0 0 0 1 0 0 0 0
    ok img-morphrecon --open 0 --footprint ball.tif volume.tif -o a.tif
    ok img-morphrecon --open 1 volume.tif -o b.tif
    ok img-cmp a.tif b.tif
    bytes set.tif 4x2x2:u8 C 1 1 0 1 0 1 0 0 0 1 1 0 1 0 1 1
    for option in open close; do
        ok img-morphrecon --$option 0 --footprint set.tif volume.tif -o want.tif
        for how in "-j 1 --chunk 40x30x20" "-j 3 --chunk 13x9x7" "-m 2M"; do
            # shellcheck disable=SC2086
            ok img-morphrecon --$option 0 --footprint set.tif $how volume.tif -o got.tif
            ok img-cmp got.tif want.tif
        done
    done
    ok img-morphrecon --open 0 --footprint set.tif volume.tif -o open.tif
    ok img-morphrecon --close 0 --footprint set.tif volume.tif -o close.tif
    img-math 'a <= b and b <= c' --type u8 open.tif volume.tif close.tif -o law.tif
    [ "$(img-cat --raw-out law.tif | tr -d '\1' | wc -c)" -eq 0 ]
}

@test "what does not fit is refused, with both named" {
    volume
    img-convert --type u16 volume.tif -o wide.tif
    img-cat --pages 0:7 volume.tif -o short.tif
    img-cat --region 0:39,0:30 volume.tif -o narrow.tif
    refused() {
        local want=$1 code=$2
        shift 2
        run --separate-stderr img-morphrecon "$@" -o out.tif
        [ "$status" -eq "$code" ] && [[ "$stderr" == *"$want"* ]] || { echo "$*: $status: $stderr"; return 1; }
        [ ! -e out.tif ]
    }
    refused "wide.tif has u16 samples, volume.tif has u8: expected the same type" 1 wide.tif volume.tif
    refused "short.tif has 7 pages, volume.tif 20" 1 short.tif volume.tif
    refused "narrow.tif has pages of 39x30, volume.tif of 40x30" 1 narrow.tif volume.tif
    refused "expected MARKER and MASK, got 1 stack" 2 volume.tif
    refused "--hmax and --open: expected one of them" 2 --hmax 3 --open 2 volume.tif
    refused "--by and --hmax cannot be combined" 2 --hmax 3 --by erosion volume.tif
    refused "--connectivity 8: volumes have 6, 18 or 26 neighbours per voxel" 2 --hmax 3 --connectivity 8 volume.tif
    refused "single images have 4 or 8" 2 --2d --hmax 3 --connectivity 6 volume.tif
    refused "expected a height of whole steps, got 2.5" 2 --hmax 2.5 volume.tif
    refused "error: a ball of 2000001 x 2000001 x 2000001 voxels is too large" 2 --open 1e6 volume.tif
    refused "--seed: 40 along x: expected 0 to 39" 2 --seed 40,0,0 volume.tif
    refused "--seed: expected x, y and z, got 2 numbers" 2 --seed 4,0 volume.tif
    bytes pair.tif 3x1x1:u8 C 1 0 1
    refused "--footprint needs --open 0 or --close 0" 2 --hmax 3 --footprint pair.tif volume.tif
    refused "--footprint and --open 2 cannot be combined" 2 --open 2 --footprint pair.tif volume.tif
    refused "expected a footprint that contains its centre" 2 --open 0 --footprint pair.tif volume.tif
    img-convert --type u64 volume.tif -o u64.tif
    refused "expected samples of" 1 --open 2 u64.tif
    refused "expected samples of" 1 --hmax 2 u64.tif
}

@test "heights are values: to the nearest step, at least one" {
    ct-phantom --volume 20x20x5 -o v.tif
    img-convert --type u8 --window 0,0.05 v.tif -o w.tif
    img-convert --unscale w.tif -o u.tif
    for how in hmax hmin hdome; do
        img-morphrecon --$how 0.002 u.tif -o want.tif
        ok img-morphrecon --$how 0.002 w.tif -o got.tif
        ok img-cmp --atol 1e-4 got.tif want.tif
    done
    run --separate-stderr img-morphrecon -v --hmax 0.002 w.tif -o got.tif
    [[ "$stderr" == *"--hmax 0.002: 10 steps of 0.000196078431"* ]]
    fails 2 "--hmin 9.8e-05: less than half a step of the samples, which is 0.0001961" \
        img-morphrecon --hmin 9.8e-5 w.tif
    ok img-morphrecon --hmin 9.81e-5 w.tif -o got.tif
}

@test "--hdome is the image less its --hmax, at the ends of every type" {
    local t v least
    # an H larger than the image, a maximum at either end of the range, and one between
    while read -r t v least; do
        perl -e '$v = shift; print pack("$v*", map { $_ + $ARGV[0] } 0, 0, 5, 0, 0, 3, 3, 8, 3, 3, 0, 2, 20, 2, 0)' "$v" "$least" > a.raw
        img-convert --raw-in "5x3:$t" a.raw -o a.tif
        for h in 3 30 120; do
            ok img-morphrecon --2d --hmax $h a.tif -o hmax.tif
            ok img-morphrecon --2d --hdome $h a.tif -o dome.tif
            img-math a-b --type f64 a.tif hmax.tif -o want.tif
            ok img-cmp dome.tif want.tif || { echo "$t, $h"; return 1; }
        done
        [ "$(img-convert --type i32 --raw-out dome.tif | perl -e 'undef $/; print join(" ", unpack("l<*", <>))')" = \
            "0 0 5 0 0 3 3 8 3 3 0 2 20 2 0" ]
    done <<'END'
u8 C 0
i8 c -128
u16le S< 0
i16le s< -32768
END
    # and differences of more than half of the range
    perl -e 'print pack("s<*", -32768, 32767, -32768, 0)' > a.raw
    img-convert --raw-in 4x1:i16le a.raw -o a.tif
    ok img-morphrecon --2d --hdome 40000 a.tif -o dome.tif
    [ "$(numbers dome.tif 'S<')" = "0 40000 0 32768" ]
    perl -e 'print pack("c*", -128, 127, -128, 0)' > a.raw
    img-convert --raw-in 4x1:i8 a.raw -o a.tif
    ok img-morphrecon --2d --hdome 200 a.tif -o dome.tif
    [ "$(numbers dome.tif 'S<')" = "0 200 0 128" ]
}

@test "an axis of one voxel has no border" {
    # a column of a volume, a row, a page of a stack and a volume of one page: the ends of the axes that there are
    perl -e 'print pack("C*", 9, 1, 9, 2, 9, 3, 9)' > a.raw
    local size axes
    while read -r size axes; do
        img-convert --raw-in "$size:u8" --set axes="$axes" a.raw -o a.tif
        ok img-morphrecon --fill-holes a.tif -o b.tif
        [ "$(numbers b.tif C)" = "9 9 9 9 9 9 9" ]
        ok img-morphrecon --clear-border a.tif -o b.tif
        [ "$(numbers b.tif C)" = "0 0 7 0 6 0 0" ] || { echo "$size: $(numbers b.tif C)"; return 1; }
    done <<'END'
7x1x1 x,y
1x7x1 x,y
1x1x7 x,y,z
7x1x1 x,y,z
1x7x1 x,y,z
END
    # with --2d a page of one voxel has no border at all: nothing leads out of it, and nothing touches it
    img-convert --raw-in 1x1x7:u8 a.raw -o a.tif
    ok img-morphrecon --2d --clear-border a.tif -o b.tif
    ok img-cmp b.tif a.tif
}
