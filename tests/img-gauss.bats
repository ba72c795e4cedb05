load helper

@test "a delta becomes the Gaussian, its weights sum to one" {
    perl -e 'print pack("f<*", map { $_ == 10 + 21 * 10 + 441 * 10 ? 1 : 0 } 0..9260)' > d.raw
    img-convert --raw-in 21x21:f32le d.raw -o d.tif
    ok img-gauss --sigma 1.5,1,2 --edge zero d.tif -o g.tif
    numbers g.tif 'f<' | perl -ane '
        @s = (1.5, 1, 2);
        for $a (0..2) {
            $r = int(4 * $s[$a] + 0.5);
            $w[$a]{$_} = exp(-$_ ** 2 / 2 / $s[$a] ** 2), $m[$a] += $w[$a]{$_} for -$r..$r;
        }
        for $z (0..20) { for $y (0..20) { for $x (0..20) {
            $want = 1;
            $want *= ($w[$_]{($x, $y, $z)[$_] - 10} || 0) / $m[$_] for 0..2;
            $got = $F[$x + 21 * $y + 441 * $z];
            $sum += $got;
            die "$x $y $z: $got, not $want" if abs($got - $want) > 1e-8;
        } } }
        die "sum $sum" if abs($sum - 1) > 1e-6'
}

@test "one sigma or three, axes one by one, 0 leaves an axis alone" {
    noise a.tif 30x25x20 f32
    img-gauss --sigma 2 a.tif -o one.tif
    img-gauss --sigma 2,2,2 a.tif | img-cmp - one.tif
    img-gauss --sigma 2,0,0 a.tif | img-gauss --sigma 0,2,0 | img-gauss --sigma 0,0,2 | img-cmp - one.tif
    img-gauss --sigma 0 a.tif | img-cmp - a.tif
    img-gauss --2d --sigma 2 a.tif -o flat.tif
    img-gauss --sigma 2,2,0 a.tif | img-cmp - flat.tif
    img-gauss --2d --sigma 2,2 a.tif | img-cmp - flat.tif
    fails 2 "--sigma: expected one length or three, got 2" img-gauss --sigma 2,2 a.tif
    fails 2 "--sigma: 1 along z: the pages of this stack are single images" img-gauss --2d --sigma 2,2,1 a.tif
}

@test "--physical: in the unit of the voxel size" {
    ct-phantom --volume 24x20x16 --voxel 0.5 -o a.tif
    img-gauss --sigma 3 a.tif -o want.tif
    img-gauss --physical --sigma 1.5 a.tif | img-cmp - want.tif
    # slopes per mm are twice those per voxel
    img-gauss --sigma 3 --derivative 1,0,0 a.tif -o want.tif
    img-gauss --physical --sigma 1.5 --derivative 1,0,0 a.tif | img-cmp --scale 0.5 - want.tif
    noise b.tif 5x5x5 u8
    fails 1 "the size of a voxel is not in the metadata" img-gauss --physical b.tif
    [[ "$stderr" == *"hint: set it first: img-convert --set voxel=0.5,0.5,2mm"* ]]
    img-convert --set voxel=0.5,0.5,2mm b.tif | ok img-gauss --physical -
}

@test "types: same, or f32; rounded to the nearest" {
    for t in u8 u16 i16; do
        noise a.tif 40x30x12 $t
        ok img-gauss --sigma 1.3 a.tif -o same.tif
        [ "$(img-info --value type same.tif)" = $t ]
        ok img-gauss --sigma 1.3 --type f32 a.tif -o real.tif
        [ "$(img-info --value type real.tif)" = f32 ]
        img-convert --type $t real.tif | img-cmp - same.tif
        img-convert --type f32 a.tif | img-gauss --sigma 1.3 | img-cmp - real.tif
        img-gauss --iterations 3 a.tif -o same.tif
        img-gauss --iterations 3 --type f32 a.tif | img-convert --type $t | img-cmp - same.tif
    done
    img-convert --type i8 --scale 0.003,0 a.tif -o a8.tif
    ok img-gauss a8.tif -o b8.tif
    [ "$(img-info --value type b8.tif)" = i8 ]
    img-convert --type i16 a8.tif | img-gauss | img-cmp b8.tif -
    # what is clamped is not told, as with every other type
    noise a.tif 20x20x2 u8
    img-convert --type i8 --scale 1,-128 a.tif -o a8.tif
    for f in a.tif a8.tif; do ok img-gauss --highpass --sigma 5 --type same $f -o b.tif; done
    [ "$(img-info --value max b.tif)" = 127 ]
    img-convert --type u64 a8.tif -o a64.tif 2> /dev/null
    fails 1 "expected samples of u8, u16, u32, i8, i16, i32, f32 or f64, got u64" img-gauss a64.tif
}

@test "a constant stays what it is, to the bit, under every edge rule but zero" {
    for value in 0.1 -7.3 65535 1e-20; do
        perl -e 'print pack("f<*", ($ARGV[0]) x (17 * 9 * 8))' -- "$value" > c.raw
        img-convert --raw-in 17x9:f32le c.raw -o c.tif
        for e in renormalize nearest mirror wrap; do
            img-gauss --sigma 3,1,0.6 --edge $e c.tif | img-cmp - c.tif
            [ "$(img-gauss --sigma 2 --edge $e --highpass c.tif | img-convert --raw-out - | tr -d '\0' | wc -c)" -eq 0 ]
        done
    done
    img-gauss --sigma 3 --edge zero c.tif -o z.tif
    run img-cmp -q z.tif c.tif
    [ "$status" -eq 1 ]
}

@test "--derivative: the slope of a ramp up to the edges; --highpass: the rest" {
    perl -e 'for $z (0..9) { for $y (0..14) { print pack("S<*", map { 7 + 3 * $_ + 5 * $y + 11 * $z } 0..19) } }' \
        > r.raw
    img-convert --raw-in 20x15:u16le r.raw -o r.tif
    for d in 1,0,0:3 0,1,0:5 0,0,1:11 2,0,0:0 1,1,0:0; do
        ok img-gauss --sigma 2 --derivative "${d%:*}" r.tif -o d.tif
        [ "$(img-info --value type,quantity d.tif | xargs)" = "f32 derivative" ]
        perl -e 'print pack("f<*", ($ARGV[0]) x 3000)' "${d#*:}" > want.raw
        img-convert --raw-in 20x15:f32le want.raw | img-cmp --atol 3e-5 d.tif -
    done
    # of a quadratic too: x^2 + 3y^2 - z^2, also where the kernel is as small as can be, and the image
    perl -e 'for $z (0..9) { for $y (0..14) { print pack("f<*", map { $_ * $_ + 3 * $y * $y - $z * $z } 0..19) } }' > q.raw
    img-convert --raw-in 20x15:f32le q.raw -o q.tif
    img-cat --region 5:8,:3 --pages 4:7 q.tif -o q3.tif
    for s in 0.3 2 7; do
        for d in 1,0,0:2*x 0,1,0:6*y 0,0,1:-2*z 2,0,0:2 0,2,0:6 1,1,0:0; do
            img-gauss --sigma $s --derivative "${d%:*}" q.tif -o d.tif
            img-math -e "${d#*:}" --type f32 q.tif | img-cmp --atol 2e-3 d.tif - || { echo "sigma $s, $d"; return 1; }
        done
        img-gauss --sigma $s --derivative 1,0,0 q3.tif -o d.tif
        img-math '2 * (x + 5)' --type f32 q3.tif | img-cmp --atol 1e-4 d.tif -
    done
    noise a.tif 30x20x10 u16
    ok img-gauss --sigma 2 --highpass a.tif -o high.tif
    [ "$(img-info --value type high.tif)" = f32 ]
    img-gauss --sigma 2 --type f32 a.tif -o low.tif
    paste <(numbers high.tif 'f<' | tr ' ' '\n') <(numbers low.tif 'f<' | tr ' ' '\n') \
        <(numbers a.tif 'S<' | tr ' ' '\n') |
        awk '{ d = $1 + $2 - $3; if (d > 0.01 || d < -0.01) { print "line " NR ": " $0; exit 1 } }'
}

@test "chunks, memory, threads and pipes: the same bits, with every edge rule" {
    noise a.tif 61x47x29 f32
    for e in renormalize nearest mirror zero wrap; do
        img-gauss --edge $e --sigma 2.5,1,2 -j 1 a.tif -o want.tif
        for how in "--chunk 17x11x5" "--chunk 61x47x1" "--chunk 8x47x29 -j 3" "-m 3M"; do
            # shellcheck disable=SC2086
            img-gauss --edge $e --sigma 2.5,1,2 $how a.tif | img-cmp - want.tif
        done
        [ $e = wrap ] || cat a.tif | img-gauss --edge $e --sigma 2.5,1,2 --chunk 20x20x4 | img-cmp - want.tif
    done
    # a pipe that ends sooner than the first slices, 14 pages seen, can know
    noise b.tif 30x20x18 f32
    img-convert --raw-out b.tif > b.raw
    img-gauss --sigma 3 --raw-out b.tif > want.raw
    { head -c 33600 b.raw; sleep 0.2; tail -c +33601 b.raw; } |
        img-gauss --sigma 3 --raw-in 30x20:f32le --raw-out --chunk 30x20x1 | cmp - want.raw
    img-gauss --edge wrap --2d --sigma 3 a.tif -o want.tif
    cat a.tif | img-gauss --edge wrap --2d --sigma 3 --chunk 16x16x2 | img-cmp - want.tif
    img-gauss --iterations 3 --sigma 1 a.tif -o want.tif
    img-gauss a.tif | img-gauss | img-gauss | img-cmp - want.tif
    img-gauss --iterations 3 --sigma 1 --chunk 13x12x3 a.tif | img-cmp - want.tif
    for what in --highpass "--derivative 1,0,1"; do
        # shellcheck disable=SC2086
        img-gauss $what a.tif | img-gauss $what -o want.tif
        # shellcheck disable=SC2086
        img-gauss $what --iterations 2 --chunk 13x12x3 a.tif | img-cmp - want.tif
    done
}

@test "edge rules are SciPy's under other names: a line by hand" {
    perl -e 'print pack("f<*", 1, 2, 4, 8)' > l.raw
    img-convert --raw-in 4x1:f32le l.raw -o l.tif
    # radius 5, further than the line is long
    for e in renormalize nearest mirror zero wrap; do
        img-gauss --2d --sigma 1.2,0 --edge $e l.tif -o g.tif
        numbers g.tif 'f<' | perl -ane '
            BEGIN { $e = shift @ARGV }
            @x = (1, 2, 4, 8);
            for $i (0..3) {
                ($sum, $mass) = (0, 0);
                for $j (-5..5) {
                    $w = exp(-$j * $j / 2.88), $p = $i + $j, $in = $p >= 0 && $p < 4;
                    $q = $e eq "nearest" ? ($p < 0 ? 0 : $p > 3 ? 3 : $p) : $e eq "wrap" ? $p % 4
                       : $e eq "mirror" ? ($p % 8 < 4 ? $p % 8 : 7 - $p % 8) : $in ? $p : -1;
                    $mass += $w if $q >= 0 || $e eq "zero";
                    $sum += $w * $x[$q] if $q >= 0;
                }
                die "$e $i: $F[$i], not " . $sum / $mass if abs($F[$i] - $sum / $mass) > 1e-6;
            }' $e
    done
}

@test "images smaller than the filter, down to one voxel" {
    for size in 1x1x1 2x1x1 1x3x1 1x1x5 4x3x2; do
        noise a.tif $size u16
        for e in renormalize nearest mirror zero wrap; do
            ok img-gauss --sigma 9 --edge $e a.tif -o b.tif
        done
        [ $size != 1x1x1 ] || { img-gauss --sigma 9 a.tif | img-cmp - a.tif; }
    done
    noise a.tif 4x3x2 f32
    ok img-gauss --sigma 3 --derivative 2,1,0 a.tif -o b.tif
    [ "$(img-info --value pages b.tif)" -eq 2 ]
}

@test "nonsense is refused" {
    noise a.tif 5x5x5 u8
    fails 2 "--sigma" img-gauss --sigma=-1 a.tif
    fails 2 "--sigma" img-gauss --sigma nan a.tif
    fails 2 "--sigma" img-gauss --sigma 1,2,3,4 a.tif
    fails 2 "the limit is 2048" img-gauss --sigma 1e5 a.tif
    fails 2 "--truncate" img-gauss --truncate 0 a.tif
    fails 2 "--edge" img-gauss --edge reflect a.tif
    fails 2 "--derivative" img-gauss --derivative 3,0,0 a.tif
    fails 2 "expected 0, 1 or 2, got 0.5" img-gauss --derivative 0.5,0,0 a.tif
    fails 2 "an order for each of x, y and z, got 1" img-gauss --derivative 1 a.tif
    fails 2 "1 along z: the pages of this stack are single images" img-gauss --2d --derivative 0,0,1 a.tif
    fails 2 "expected a --sigma of at least 0.25 voxels along y" img-gauss --sigma 1,0,1 --derivative 0,1,0 a.tif
    fails 2 "cannot be combined" img-gauss --highpass --derivative 1,0,0 a.tif
    fails 2 "--iterations" img-gauss --iterations 0 a.tif
}

@test "--plan says what is done" {
    noise a.tif 40x30x20 u8
    ok img-gauss --sigma 3,3,1 --plan a.tif
    [[ "$output" == *"gauss sigma 3 3 1, 25 x 25 x 9 taps, renormalised"* ]]
    [[ "$output" == *"halo:      12 x 12 x 4"* ]]
    ok img-gauss --iterations 3 --plan a.tif
    [[ "$output" == *"halo:      12 x 12 x 12"* ]]
}

@test "the plan of a volume of 256 GiB, 25 voxels of halo and 8 GiB of memory reads hardly anything twice" {
    truncate -s 256G volume.raw # a hole
    read=$(img-gauss --sigma 6.25 --memory 8GiB --raw-in 4096x4096x4096:f32 volume.raw -o out.tif -j 2 --plan |
        sed -n 's/^volume:.*read \([0-9.]*\) times.*/\1/p')
    awk -v r="$read" 'BEGIN { exit !(r >= 1 && r <= 1.03) }'
}

@test "too little memory: one number that says what would do, whatever the chunk" {
    noise a.tif 60x50x20 u16
    for chunk in "" "--chunk 60x50x7" "--chunk 60x50x1000"; do
        # shellcheck disable=SC2086
        run --separate-stderr img-gauss --sigma 2 --memory 20KiB $chunk a.tif -o b.tif
        [ "$status" -eq 3 ]
        need=$(sed -n 's/.*smallest portion takes \([0-9.]*\) \([KM]iB\):.*/\1 \2/p' <<<"$stderr")
        bytes=$(awk '{ printf "%d", ($1 + 0.06) * ($2 == "KiB" ? 1024 : 1048576) }' <<<"$need")
        # shellcheck disable=SC2086
        img-gauss --sigma 2 --memory "$bytes" $chunk a.tif -o b.tif
    done
}

@test "pages that do not look at each other come and go in bands where memory is short, through pipes, too" {
    tall a.tif 1
    img-gauss --sigma 2 a.tif -o want.tif
    img-gauss -m 16M --sigma 2 a.tif | cmp - want.tif
    cat a.tif | img-gauss -m 16M --sigma 2 --stats stats.json | cmp - want.tif
    took_at_most 24000000
    img-gauss -m 16M --sigma 2 --raw-out a.tif >got.raw
    img-gauss --sigma 2 --raw-out a.tif -o want.raw
    cmp got.raw want.raw
    tall b.tif 3
    img-gauss --2d --sigma 2 b.tif -o want.tif
    img-gauss --2d -m 16M --sigma 2 b.tif | cmp - want.tif
    cat b.tif | img-gauss --2d -m 16M --sigma 2 | cmp - want.tif
    cat b.tif | img-gauss --2d -m 16M --sigma 2 -o got.tif
    cmp got.tif want.tif
    img-convert --compress deflate b.tif -o packed.tif
    img-gauss --2d -m 16M --sigma 2 packed.tif >got.tif
    img-cmp got.tif want.tif
    # planes that look at each other, and a page of which nobody knows whether another follows it, must be whole
    fails 3 "the smallest portion takes" sh -c 'cat b.tif | img-gauss -m 16M --sigma 2 >got.tif'
    fails 3 "the smallest portion takes" sh -c 'img-convert --raw-out b.tif |
        img-gauss --raw-in 1500x3000:f32le --2d -m 16M --sigma 2 >got.tif'
}
