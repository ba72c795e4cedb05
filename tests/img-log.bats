load helper

# voxels FILE WxHxD EXPRESSION: f32 samples, EXPRESSION of $x, $y, $z in Perl
voxels() {
    local w h d
    IFS=x read -r w h d <<<"$2"
    perl -e '($w, $h, $d, $e) = @ARGV; $f = eval "sub { (\$x, \$y, \$z) = \@_; $e }";
             for $z (0..$d - 1) { for $y (0..$h - 1) { print pack("f<*", map { $f->($_, $y, $z) } 0..$w - 1) } }' \
        "$w" "$h" "$d" "$3" > v.raw
    img-convert --raw-in "${w}x$h:f32le" v.raw -o "$1"
}

NOISE='$r = sin(12.9898 * $x + 78.233 * $y + 37.719 * $z) * 43758.5453; $r - int($r)'

@test "constants give exactly 0, ramps 0, quadratics their curvature, edges included" {
    voxels c.tif 25x20x15 '0.1'
    [ "$(img-log --sigma 2 c.tif | img-convert --raw-out - | tr -d '\0' | wc -c)" -eq 0 ]
    voxels r.tif 25x20x15 '7 * $x - 3 * $y + 2 * $z'
    voxels q.tif 25x20x15 '$x * $x - 3 * $y * $y + 4 * $z * $z + $x * $y - 2 * $y * $z + 5 * $x'
    voxels zero.tif 25x20x15 0
    voxels four.tif 25x20x15 4
    for s in 0.5 1 2,3,1 6; do
        img-log --sigma $s r.tif | img-cmp --atol 1e-4 - zero.tif
        img-log --sigma $s q.tif | img-cmp --atol 2e-3 - four.tif
    done
    # in a page z does not count; the page itself is x^2 - 3 y^2 and terms without curvature
    voxels page.tif 25x20x15 -4
    img-log --2d --sigma 2 q.tif | img-cmp --atol 2e-3 - page.tif
    img-log --sigma 2,2,0 q.tif | img-cmp --atol 2e-3 - page.tif
    voxels depth.tif 25x20x15 8
    img-log --sigma 0,0,2 q.tif | img-cmp --atol 2e-3 - depth.tif
}

@test "the sum of second derivatives of the Gaussian" {
    voxels a.tif 30x25x20 "$NOISE"
    img-log --sigma 1.5,1,2 --edge mirror a.tif -o log.tif
    for d in 2,0,0 0,2,0 0,0,2; do
        img-gauss --sigma 1.5,1,2 --edge mirror --derivative $d a.tif -o "$d.tif"
    done
    ct-reduce 2,0,0.tif 0,2,0.tif 0,0,2.tif -o sum.tif
    img-cmp --atol 1e-6 log.tif sum.tif
}

@test "units: --physical per mm^2, --scale-normalize without unit" {
    ct-phantom --volume 30x24x20 --voxel 0.5 -o a.tif
    img-log --sigma 2 a.tif -o log.tif
    [ "$(img-info --value type,quantity log.tif | xargs)" = "f32 Laplacian of Gaussian" ]
    img-log --physical --sigma 1 a.tif | img-cmp --scale 0.25 - log.tif
    img-log --sigma 2 --scale-normalize a.tif -o norm.tif
    img-log --physical --sigma 1 --scale-normalize a.tif | img-cmp - norm.tif
    img-cmp --scale 0.25 norm.tif log.tif
}

@test "a ball is answered most strongly at sigma = r / sqrt(3)" {
    voxels ball.tif 41x41x41 '($x - 20) ** 2 + ($y - 20) ** 2 + ($z - 20) ** 2 <= 50 ? 1 : 0'
    best=$(for s in 2.5 3.3 4.1 5.1 6.3; do
        img-log --scale-normalize --sigma $s ball.tif | img-cat --pages 20 --region 20:21,20:21 |
            img-convert --raw-out - | perl -e "print unpack('f<', <STDIN>), qq( $s\n)"
    done | sort -g | head -n 1)
    [ "${best#* }" = 4.1 ]
}

@test "chunks, memory, threads and pipes: the same bits, with every edge rule" {
    voxels a.tif 61x47x29 "$NOISE"
    for e in renormalize nearest mirror zero wrap; do
        img-log --edge $e --sigma 2.5,1,2 -j 1 a.tif -o want.tif
        for how in "--chunk 17x11x5" "--chunk 61x47x1" "--chunk 8x47x29 -j 3" "-m 3M"; do
            # shellcheck disable=SC2086
            img-log --edge $e --sigma 2.5,1,2 $how a.tif | img-cmp - want.tif
        done
        [ $e = wrap ] || cat a.tif | img-log --edge $e --sigma 2.5,1,2 --chunk 20x20x4 | img-cmp - want.tif
    done
}

@test "types and small images" {
    voxels a.tif 20x15x10 'int(100 + 90 * sin($x * $y + $z))'
    img-log --sigma 1.5 a.tif -o want.tif
    for t in u8 u16 i16; do
        img-convert --type $t a.tif | img-log --sigma 1.5 | img-cmp - want.tif
    done
    img-convert --type u64 a.tif -o u64.tif
    fails 1 "expected samples of" img-log u64.tif
    for size in 1x1x1 2x1x2 1x3x1 3x3x3; do
        voxels s.tif $size '$x + 10 * $y + 100 * $z'
        ok img-log --sigma 4 s.tif -o l.tif
        voxels zero.tif $size 0
        img-cmp --atol 1e-4 l.tif zero.tif
    done
    # too short along x for a curvature, not along y
    voxels s.tif 2x5x1 '$x * 50 + $y * $y'
    voxels want.tif 2x5x1 2
    img-log --2d --sigma 1 s.tif | img-cmp --atol 1e-4 - want.tif
}

@test "nonsense is refused" {
    voxels a.tif 5x5x5 1
    fails 2 "--sigma: expected more than 0 along one axis at least" img-log --sigma 0 a.tif
    fails 2 "--sigma: expected 0 or at least 0.25 voxels along x, got 0.1" img-log --sigma 0.1 a.tif
    fails 2 "--sigma" img-log --sigma=-2 a.tif
    fails 2 "the limit is 2048" img-log --sigma 600 a.tif
    fails 2 "--truncate" img-log --truncate 0 a.tif
    fails 2 "--edge" img-log --edge constant a.tif
    fails 1 "the size of a voxel is not in the metadata" img-log --physical a.tif
    # taps at the edges, each of its own: three tables of 61 MiB
    fails 3 "MiB: expected at most 38.1 MiB" img-log --sigma 500 -m 40M a.tif
}
