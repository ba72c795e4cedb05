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
    fails 2 "expected --axes, --sinograms, --views, --turn or --flip, got none" img-reslice a.tif
    fails 2 "--axes: expected two of x, y and z, such as xz, got 'xx'" img-reslice --axes xx a.tif
    fails 2 "--axes: expected two of x, y and z, such as xz, got 'xw'" img-reslice --axes xw a.tif
    fails 2 "--flip: expected x, y, z or several of them, got 'xx'" img-reslice --flip xx a.tif
    fails 2 "expected one of --axes, --sinograms and --views, got 2" img-reslice --axes xz --views a.tif
}
