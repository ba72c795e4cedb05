load helper

# stack FILE: 4x3, 2 pages of u8; the sample at x, y of page p is 100 p + 10 y + x
stack() {
    perl -e 'for $p (0..1) { for $y (0..2) { print pack("C*", map { 100 * $p + 10 * $y + $_ } 0..3) } }' > stack.raw
    img-convert --raw-in 4x3:u8 stack.raw -o "$1"
}

@test "axes, turns and flips by hand" {
    stack a.tif
    ok img-reslice --axes xz a.tif -o b.tif
    [ "$(numbers b.tif C)" = "0 1 2 3 100 101 102 103 10 11 12 13 110 111 112 113 20 21 22 23 120 121 122 123" ]
    img-reslice --axes yz a.tif | img-cat --pages 3 -o b.tif
    [ "$(numbers b.tif C)" = "3 13 23 103 113 123" ]
    img-reslice --axes zyx a.tif | img-cmp - <(img-reslice --axes zy a.tif)
    img-cat --pages 0 a.tif -o page.tif
    ok img-reslice --turn 90 page.tif -o b.tif # clockwise: the first column is the first row, from the bottom up
    [ "$(numbers b.tif C)" = "20 10 0 21 11 1 22 12 2 23 13 3" ]
    img-reslice --turn 180 page.tif | img-cmp - <(img-reslice --flip xy page.tif)
    img-reslice --turn 270 page.tif | img-reslice --turn 90 | img-cmp - page.tif
    img-reslice --flip x page.tif -o b.tif
    [ "$(numbers b.tif C)" = "3 2 1 0 13 12 11 10 23 22 21 20" ]
    img-reslice --flip z a.tif | img-cmp - <(img-cat --reverse a.tif)
    # --axes, then --turn, then --flip
    img-reslice --axes xz --turn 90 --flip y a.tif |
        img-cmp - <(img-reslice --axes xz a.tif | img-reslice --turn 90 | img-reslice --flip y)
}

@test "views to sinograms and back; both reconstruct alike" {
    ct-geom --sod 300 --sdd 500 --detector 40x24 --pitch 2 --views 36 --offset-u 1.5 -o g.geom
    ct-phantom -g g.geom -o views.tif
    ok img-reslice --sinograms views.tif -o s.tif
    ct-phantom -g g.geom --layout sinograms | img-cmp - s.tif
    [ "$(img-info --value axes s.tif)" = "u view v" ]
    ct-fdk views.tif -o want.tif
    ct-fdk --layout sinograms s.tif | img-cmp -q - want.tif
    ok img-reslice --views s.tif -o back.tif
    img-cmp back.tif views.tif
    [ "$(img-info --value axes back.tif)" = "u v view" ]
    fails 1 "the axes are u view v already" img-reslice --sinograms s.tif
    fails 1 "expected the axes u v view, got x y z" img-reslice --sinograms <(img-convert --set axes=x,y,z want.tif)
    # flipped views reconstruct in the same place
    for flip in x y z xyz; do
        ok img-reslice --flip $flip views.tif -o f.tif
        ct-fdk f.tif | img-cmp -q --max-rel-l2 1e-5 - want.tif
    done
    run -0 --separate-stderr img-reslice --turn 90 views.tif -o f.tif
    [[ "$stderr" == *"warning: views.tif: the scan geometry is left out: rows are not those of a detector" ]]
}

@test "voxel and origin follow" {
    ct-phantom --volume 8x6x4 --voxel 0.5 -o a.tif
    img-convert --set voxel=0.5,0.6,0.7 --set origin=1,2,3 a.tif -o b.tif
    ok img-reslice --axes yz b.tif -o c.tif
    [ "$(img-info --value voxel,origin c.tif | xargs)" = "0.6 0.7 0.5 2 3 1" ]
    run -0 --separate-stderr img-reslice --flip x b.tif -o c.tif
    [[ "$stderr" == *"warning: b.tif: the origin is left out: an axis is reversed" ]]
    ok img-reslice --flip xyz a.tif -o c.tif # lies about 0
    [ "$(img-info --value origin c.tif)" = "$(img-info --value origin a.tif)" ]
}

@test "channels and times are not mixed" {
    noise a.tif 12x10x24 u16
    img-convert --set axes=x,y,channel,z,time --set sizes=2,6,2 a.tif -o m.tif
    ok img-reslice --axes xz m.tif -o b.tif
    [ "$(img-info --value sizes b.tif)" = "2 10 2" ]
    img-cat --pages 13::2 m.tif | img-convert --set axes=x,y,z | img-reslice --axes xz | img-convert --raw-out |
        cmp - <(img-cat --pages 21::2 b.tif | img-convert --raw-out)
    img-convert --set axes=x,y,channel,time --set sizes=2,12 a.tif -o m.tif
    ok img-reslice --turn 90 m.tif -o b.tif
    fails 1 "pages along two axes: expected their sizes, and z among them" img-reslice --axes xz m.tif
    fails 2 "--2d: the pages of the result are along another axis" img-reslice --2d --axes xz a.tif
    # a kymograph
    img-convert --set axes=x,y,time a.tif | img-reslice --axes xz -o b.tif
    [ "$(img-info --value axes b.tif)" = "x time y" ]
}

@test "pipes, threads, memory and compression change no bit; pages stream" {
    noise a.tif 50x40x30 f32
    img-cat --compress deflate a.tif -o z.tif
    for how in "--axes xz" "--axes yz" "--axes zy" "--axes yx" "--turn 90 --about x" "--flip z"; do
        # shellcheck disable=SC2086
        img-reslice $how -j 1 a.tif -o want.tif
        for m in 1M 2M 1G; do
            # shellcheck disable=SC2086
            img-reslice $how -m $m -j 2 a.tif | cmp - want.tif
            # shellcheck disable=SC2086
            uncounted a.tif | img-reslice $how -m $m -j 3 | img-cmp -q - want.tif
            # shellcheck disable=SC2086
            img-reslice $how -m ${m/1M/2M} z.tif | img-cmp -q - want.tif
        done
    done
    img-reslice --plan --axes yz -m 500K a.tif | grep -q "reads: *[2-9] of all of the input"
    img-reslice --plan --axes xz -m 500K a.tif | grep -q "reads: *1 of all of the input"
    img-cat a.tif | img-reslice --plan --axes xz | grep -q "spool:.*copied to memory"
    # an endless pipe of pages that stay pages
    set +o pipefail # the first two end by SIGPIPE
    (for ((i = 0; i < 400; i++)); do img-convert --raw-out a.tif; done) |
        img-reslice --flip x --raw-in 50x40:f32le --raw-out | head -c 240000 >got
    img-reslice --flip x --raw-out a.tif | cmp - got
}

@test "what is wrong is said in one line" {
    stack a.tif
    fails 2 "expected --axes, --sinograms, --views, --turn, --flip or --rotate, got none" img-reslice a.tif
    fails 2 "--axes: expected two of x, y and z, such as xz, got 'xx'" img-reslice --axes xx a.tif
    fails 2 "--axes: expected two of x, y and z, such as xz, got 'xw'" img-reslice --axes xw a.tif
    fails 2 "--flip: expected x, y, z or several of them, got 'xx'" img-reslice --flip xx a.tif
    fails 2 "expected one of --axes, --sinograms and --views, got 2" img-reslice --axes xz --views a.tif
}

@test "turns by any angle: the sense, quarter turns, the box, what is outside" {
    noise a.tif 21x16x9 f32
    for t in u8 i16 u64 f64; do
        img-convert --type $t --window 0,1 a.tif -o t.tif
        for about in x y z; do
            for turn in 90 180 270; do
                img-reslice --turn $turn --about $about --raw-out t.tif >want
                img-reslice --rotate $turn --about $about --enlarge --method cubic --raw-out t.tif | cmp - want
                img-reslice --rotate $((turn - 360)) --about $about --enlarge --raw-out t.tif | cmp - want
            done
            img-reslice --rotate 0 --about $about --raw-out t.tif | cmp - <(img-convert --raw-out t.tif)
        done
    done
    # a point right of the centre moves down, clockwise on the screen
    perl -e '@v = (0) x 289; $v[8 * 17 + 14] = 100; print pack("C*", @v)' |
        img-reslice --raw-in 17x17:u8 --rotate 30 --outside 7 -o b.tif
    [ "$(img-math 'if(x==13&&y==11,a,0)' b.tif | img-info --value max)" -ge 50 ]
    [ "$(img-cat --region 0:1,0:1 b.tif | img-info --value max)" = 7 ]
    img-reslice --rotate 45 --enlarge --outside edge t.tif -o e.tif
    img-info e.tif | grep -q "27 x 27, 9 pages"
    [ "$(img-math 'isnan(a)' e.tif | img-info --value max)" = 0 ]
    img-reslice --rotate 45 --outside nan t.tif | img-math 'isnan(a)' | img-info --value max | grep -qx 1
    # out and back
    ct-phantom --volume 40x40x40 -o p.tif
    img-gauss --sigma 2 p.tif -o s.tif
    for about in x y z; do
        img-reslice --rotate 25 --about $about --method cubic s.tif |
            img-reslice --rotate -25 --about $about --method cubic | img-cmp -q --max-rel-l2 0.02 - s.tif
    done
}

@test "turns by any angle: voxels that are not cubes, origin, geometry, scale" {
    # a ball stays a ball
    noise n.tif 41x41x21 f32
    img-convert --set voxel=1,1,2 n.tif | img-math 'if((x-20)*(x-20)+(y-20)*(y-20)+4*(z-10)*(z-10)<144,1,0)' -o ball.tif
    for about in x y z; do
        img-reslice --rotate 37 --about $about ball.tif | img-cmp -q --max-rel-l2 0.25 - ball.tif
        img-convert --set voxel=1,1,1 ball.tif | img-reslice --rotate 90 --about $about -o c.tif
        [ $about = z ] || run -1 img-cmp -q --max-rel-l2 0.25 c.tif ball.tif
    done
    ct-phantom --volume 8x6x4 --voxel 0.5 -o a.tif
    ok img-reslice --rotate 90 --enlarge a.tif -o b.tif
    [ "$(img-info --value voxel,origin b.tif | xargs)" = "0.5 0.5 0.5 -1.25 -1.75 -0.75" ]
    ct-geom --sod 300 --sdd 500 --detector 40x24 --pitch 2 --views 36 | ct-phantom -g - -o views.tif
    run -0 --separate-stderr img-reslice --rotate 3 views.tif -o f.tif
    [[ "$stderr" == *"warning: the scan geometry is left out: rows are not those of a detector" ]]
    fails 2 "carries no scan geometry" ct-fdk f.tif
    fails 2 "--about x: the pages of this stack are single images: expected pages along z" \
        img-reslice --rotate 3 --about x views.tif
}

@test "turns by any angle: pipes, threads, memory and chunks change no bit" {
    noise a.tif 50x40x30 f32
    img-cat --compress deflate a.tif -o z.tif
    for how in "--about x" "--about y --method cubic" "--about z --enlarge --outside edge" "--about x --rotate 170"; do
        # shellcheck disable=SC2086
        img-reslice --rotate 33 $how -j 1 a.tif -o want.tif
        for m in 2M 1G; do
            # shellcheck disable=SC2086
            img-reslice --rotate 33 $how -m $m -j 2 a.tif | cmp - want.tif
            # shellcheck disable=SC2086
            uncounted a.tif | img-reslice --rotate 33 $how -m $m -j 3 | img-cmp -q - want.tif
            # shellcheck disable=SC2086
            img-reslice --rotate 33 $how -m $m --chunk 13x11x7 z.tif | img-cmp -q - want.tif
        done
    done
    # an endless pipe of pages
    set +o pipefail # the first two end by SIGPIPE
    (for ((i = 0; i < 400; i++)); do img-convert --raw-out a.tif; done) |
        img-reslice --rotate 10 --raw-in 50x40:f32le --raw-out | head -c 240000 >got
    img-reslice --rotate 10 --raw-out a.tif | cmp - got
}

@test "turns by any angle against SciPy" {
    python3 -c 'import numpy, scipy' 2>/dev/null || skip "no SciPy"
    noise a.tif 60x50x20 f32
    img-convert --raw-out a.tif >a.raw
    for about in x y z; do img-reslice --rotate 33 --about $about --raw-out a.tif >$about.raw; done
    python3 - <<'EOT'
import numpy as np, scipy.ndimage as nd
a = np.fromfile('a.raw', '<f4').reshape(20, 50, 60)
for about, axes, angle in ('x', (0, 1), -33), ('y', (0, 2), 33), ('z', (1, 2), -33): # SciPy: from the first axis on
    got = np.fromfile(about + '.raw', '<f4').reshape(a.shape)
    want = nd.rotate(a.astype(float), angle, axes=axes, reshape=False, order=1, cval=np.nan)
    inside = np.isfinite(want)
    assert inside.mean() > 0.3, about
    assert np.abs(got - want)[inside].max() < 1e-6, about
EOT
}

@test "turns by any angle: what is wrong is said in one line" {
    stack a.tif
    fails 2 "--rotate: expected one angle, got 2" img-reslice --rotate 1,2 a.tif
    fails 2 "--rotate and --axes cannot be combined" img-reslice --rotate 1 --axes xz a.tif
    fails 2 "--rotate and --flip cannot be combined" img-reslice --rotate 1 --flip x a.tif
    fails 2 "--method needs --rotate" img-reslice --turn 90 --method cubic a.tif
    fails 2 "--outside: expected a number or edge, got 'wrap'" img-reslice --rotate 1 --outside wrap a.tif
    fails 2 "--outside 300: expected a value in the range of u8 samples, 0 to 255" img-reslice --rotate 1 --outside 300 a.tif
    fails 2 "unknown option --angle; did you mean --rotate?" img-reslice --angle 1 a.tif
    img-convert --type u64 a.tif -o u.tif
    fails 2 "interpolation of u64 samples: expected at most 32 bits, or f64" img-reslice --rotate 1 u.tif
    ok img-reslice --rotate 1 --method nearest u.tif -o b.tif
}
