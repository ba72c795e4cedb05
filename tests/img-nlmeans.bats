load helper

# noisy FILE [WxHxD]: a step from 0 to 100 along x with noise of standard deviation 10
noisy() {
    perl -e '($n, $w) = @ARGV; srand 1; print pack("f<*", map { my $s = 0; $s += rand() for 1..12; ($_ % $w < $w / 2 ? 0 : 100) + 10 * ($s - 6) } 0..$n-1)' \
        -- $(($(echo "${2:-40x24x6}" | tr x '*'))) "$(echo "${2:-40x24x6}" | cut -dx -f1)" > noisy.raw
    img-cat --raw-in "${2:-40x24x6}:f32le" noisy.raw -o "$1"
}

# flat FILE: standard deviation of the left third
flat() {
    img-cat --region 0:12,0:24 "$1" | img-info --statistics --value std -
}

@test "noise goes, the step stays" {
    noisy a.tif
    ok img-nlmeans --h 15 --search 3 a.tif -o b.tif
    near "$(flat a.tif)" 10 1
    near "$(flat b.tif)" 0 3
    # the mean of each side is where it was
    near "$(img-cat --region 0:18,0:24 b.tif | img-info --statistics --value mean -)" 0 1.5
    near "$(img-cat --region 22:40,0:24 b.tif | img-info --statistics --value mean -)" 100 1.5
    # noise that is known does not count
    ok img-nlmeans --h 7 --sigma 10 --search 3 a.tif -o c.tif
    near "$(flat c.tif)" 0 3
}

@test "weak filters and single voxels change nothing, constants stay" {
    noisy a.tif
    ok img-nlmeans --h 1e-3 a.tif -o b.tif
    ok img-cmp a.tif b.tif
    ok img-nlmeans --h 50 --search 0 a.tif -o b.tif
    ok img-cmp a.tif b.tif
    perl -e 'print pack("f<*", (0.1) x 600)' > c.raw
    img-cat --raw-in 30x20:f32le c.raw -o c.tif
    ok img-nlmeans --h 3 c.tif -o d.tif
    ok img-cmp c.tif d.tif
}

@test "the formula, by hand" {
    # patch of one voxel, search of one: weights exp(-(difference / h)^2)
    perl -e 'print pack("f<*", 0, 1, 3)' > a.raw
    img-cat --raw-in 3x1:f32le a.raw -o a.tif
    ok img-nlmeans --2d --h 2 --search 1,0 --patch 0 a.tif -o b.tif
    img-cat --raw-out b.tif | perl -e 'undef $/; @g = unpack("f<*", <STDIN>);
        $p = exp(-0.25); $q = exp(-1); @w = ($p / (1 + $p), (1 + 3 * $q) / (1 + $p + $q), (3 + $q) / (1 + $q));
        for (0..2) { exit 1 if abs($g[$_] - $w[$_]) > 1e-6 }'
}

@test "chunks, threads and pipes do not show" {
    noisy a.tif
    img-convert --type u8 --scale 1,50 -q a.tif -o u.tif
    for args in "--h 20 --search 2" "--h 15 --sigma 5 --search 3,2,1 --patch 1,2,0" "--2d --h 20 --search 4"; do
        for f in a.tif u.tif; do
            # shellcheck disable=SC2086
            {
                ok img-nlmeans $args -j 1 $f -o want.tif
                ok img-nlmeans $args -j 3 --chunk 13x7x2 $f -o got.tif
                ok img-cmp want.tif got.tif
                cat $f | img-nlmeans $args -m 16M > got.tif
                ok img-cmp want.tif got.tif
            }
        done
    done
    [ "$(img-info --value type want.tif)" = u8 ]
    ok img-nlmeans --type f32 --h 20 --search 2 u.tif -o f.tif
    [ "$(img-info --value type f.tif)" = f32 ]
}

@test "--2d is page by page" {
    noisy a.tif
    ok img-nlmeans --2d --h 20 --search 3 a.tif -o all.tif
    img-cat --pages 2:3 a.tif | img-nlmeans --2d --h 20 --search 3 -o one.tif
    ok sh -c 'img-cat --pages 2:3 all.tif | img-cmp - one.tif'
}

@test "contradictions" {
    noisy a.tif
    fails 2 "--h is missing" img-nlmeans a.tif
    fails 2 "--h" img-nlmeans --h 0 a.tif
    fails 2 "--h" img-nlmeans --h -1 a.tif
    fails 2 "--h: expected 6e-20 to 3e22, got 1e-30" img-nlmeans --h 1e-30 a.tif
    fails 2 "--sigma: expected 0 to 1e19, got 1e+20" img-nlmeans --h 1 --sigma 1e20 a.tif
    for h in 6e-20 3e22; do ok img-nlmeans --h $h --sigma 1e19 --search 1 a.tif -o b.tif; done
    fails 2 "--search" img-nlmeans --h 1 --search 65 a.tif
    fails 2 "--sigma" img-nlmeans --h 1 --sigma -1 a.tif
    img-convert --type u64 a.tif -o d.tif
    fails 1 "expected samples of u8, u16, u32, i8, i16, i32, f32 or f64, got u64" img-nlmeans --h 1 d.tif
}
