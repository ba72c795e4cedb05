# ct-phantom: what the unit tests cannot see: options, headers, layouts, pipes.
load helper

SCAN="--sod 500 --sdd 1000 --detector 48x40 --pitch 4 --views 12"

value() { img-info --value "$1" "$2"; }

# statistic NAME FILE
statistic() { img-info --statistics "$2" | awk -v k="$1" '$1 == k { print $2 }'; }

@test "geometry by -g, by -g - and from standard input give the same pixels" {
    ct-geom $SCAN -o scan.geom
    ok ct-phantom -g scan.geom -o a.tif
    ct-geom scan.geom | ct-phantom -g - -o b.tif
    ct-geom scan.geom | ct-phantom -o c.tif
    ok img-cmp -q a.tif b.tif
    ok img-cmp -q a.tif c.tif
}

@test "the header says what the pages are, and carries the geometry" {
    ct-geom $SCAN -o scan.geom
    ok ct-phantom -g scan.geom -o a.tif
    [ "$(value quantity a.tif)" = "line integral" ]
    [ "$(value axes a.tif)" = "u v view" ]
    [ "$(value voxel a.tif)" = "4 4" ]
    [ "$(value unit a.tif)" = mm ]
    [ "$(value geom.sdd a.tif)" = 1000 ]
    ok ct-phantom -g scan.geom --counts --noise 100 -o b.tif
    [ "$(value quantity b.tif)" = counts ]
    ok ct-phantom --volume 8x8x8 -o c.tif
    [ "$(value quantity c.tif)" = attenuation ]
    [ "$(value value-unit c.tif)" = 1/mm ]
}

@test "ball: the largest line integral is its diameter times its density" {
    # parallel beam, odd detector: the middle ray passes through the centre
    ct-geom --beam parallel --detector 41x41 --pitch 1 --views 3 -o scan.geom
    ok ct-phantom -g scan.geom --phantom ball --radius 15 --density 0.03 -o a.tif
    near "$(statistic max a.tif)" 0.9 1e-7
    # and by default 90 % of the field of view: 20.5 mm
    ok ct-phantom -g scan.geom --phantom ball --density 0.03 -o b.tif
    near "$(statistic max b.tif)" "$(awk 'BEGIN { print 2 * 0.9 * 20.5 * 0.03 }')" 1e-6
    # the total of a view is the ball's mass over the pixel area, on average over the pixel
    ok ct-phantom -g scan.geom --phantom ball --radius 15 --density 0.03 --samples 8 -o c.tif
    near "$(statistic sum c.tif)" "$(awk 'BEGIN { print 3 * 0.03 * 4 / 3 * 3.14159265 * 15 ^ 3 }')" 1
}

@test "sinograms are the same pixels in another order, noise too" {
    ct-geom $SCAN -o scan.geom
    for noise in "" "--noise 1000"; do
        # shellcheck disable=SC2086
        ct-phantom -g scan.geom $noise --raw-out -o views.raw
        # shellcheck disable=SC2086
        ct-phantom -g scan.geom $noise --layout sinograms --raw-out -o sinograms.raw
        # page v, row k of one is page k, row v of the other; compare a few rows of 48 floats
        for row in "0 0" "39 11" "7 5" "20 1"; do
            set -- $row
            cmp <(tail -c +$((($2 * 40 + $1) * 192 + 1)) views.raw | head -c 192) \
                <(tail -c +$((($1 * 12 + $2) * 192 + 1)) sinograms.raw | head -c 192)
        done
    done
    ok ct-phantom -g scan.geom --layout sinograms -o s.tif
    [ "$(value axes s.tif)" = "u view v" ]
}

@test "threads and memory do not change a bit, with noise" {
    ct-geom $SCAN -o scan.geom
    ct-phantom -g scan.geom --noise 1e4 --samples 2 -j 1 --raw-out >a
    ct-phantom -g scan.geom --noise 1e4 --samples 2 -j 5 --raw-out >b
    ct-phantom -g scan.geom --noise 1e4 --samples 2 -j 2 -m 40KB --raw-out >c
    cmp a b
    cmp a c
    ct-phantom --volume 30x20x10 -j 1 --raw-out >a
    ct-phantom --volume 30x20x10 -j 3 --raw-out >b
    cmp a b
    fails 3 "the smallest portion, a page, takes 7.5 KiB: expected at most 4.9 KiB" ct-phantom -g scan.geom -m 5KB
}

@test "seed: the same gives the same, another another" {
    ct-geom $SCAN -o scan.geom
    ct-phantom -g scan.geom --noise 1e4 --raw-out >a
    ct-phantom -g scan.geom --noise 1e4 --seed 1 --raw-out >b
    ct-phantom -g scan.geom --noise 1e4 --seed 2 --raw-out >c
    cmp a b
    run cmp -s a c
    [ "$status" -eq 1 ]
}

@test "counts: their mean without an object is the number of photons, and so is their variance" {
    ct-geom $SCAN -o scan.geom
    ok ct-phantom -g scan.geom --density 0 --noise 2500 --counts -o a.tif
    near "$(statistic mean a.tif)" 2500 2
    near "$(statistic std a.tif)" 50 1.5
}

@test "volume: voxels of the ball add up to its mass; slab and centre select" {
    ok ct-phantom --volume 60x60x60 --voxel 0.5 --phantom ball --radius 12 --density 0.5 --samples 2 -o a.tif
    near "$(statistic sum a.tif)" "$(awk 'BEGIN { print 0.5 * 4 / 3 * 3.14159265 * 12 ^ 3 / 0.125 }')" 60
    near "$(statistic max a.tif)" 0.5 0
    ok ct-phantom --volume 60x60x60 --voxel 0.5 --phantom ball --radius 12 --density 0.5 --samples 2 --slab 20:23 -o b.tif
    img-cat --pages 20:23 a.tif -o c.tif
    ok img-cmp -q b.tif c.tif
    # the geometry's volume if there is one
    ct-geom $SCAN -o scan.geom
    ok ct-phantom -g scan.geom --voxel 4 -o d.tif
    [ "$(img-info d.tif | awk '$1 == "size" { print $2 }')" = "$(ct-phantom -g scan.geom | ct-filter | ct-backproject --voxel 4 --plan | sed -n 's/^volume: *\([0-9]*\) x.*/\1/p')" ]
}

@test "a file of ellipsoids, and what is wrong with it" {
    ct-geom --beam parallel --detector 41x41 --pitch 1 --views 3 -o scan.geom
    printf '# a ball\n0 0 0  15 15 15  0  0.03\n' >ball.txt
    ok ct-phantom -g scan.geom --phantom ball.txt -o a.tif
    ok ct-phantom -g scan.geom --phantom ball --radius 15 --density 0.03 -o b.tif
    ok img-cmp -q a.tif b.tif
    printf '0 0 0  15 15 15  0\n' >short.txt
    fails 1 "short.txt: line 1: expected 8 numbers (x y z a b c phi density), got 7" \
        ct-phantom -g scan.geom --phantom short.txt
    fails 1 "head: No such file" ct-phantom -g scan.geom --phantom head
    [[ "$stderr" == *"hint: named phantoms: shepp-logan,"* ]]
}

@test "impossible combinations are usage errors" {
    ct-geom $SCAN -o scan.geom
    fails 2 "--counts needs --noise" ct-phantom -g scan.geom --counts
    fails 2 "--volume cannot be combined with" ct-phantom --volume 8x8x8 --noise 100
    fails 2 "--center and --slab need --volume" ct-phantom -g scan.geom --slab 0:2
    fails 2 "unknown without a geometry" ct-phantom --volume 8x8
    fails 2 "--samples" ct-phantom -g scan.geom --samples 0
    fails 1 "nothere.geom: No such file" ct-phantom -g nothere.geom
}

@test "--plan says the radius and touches nothing" {
    ct-geom --beam parallel --detector 40x40 --pitch 1 --views 3 -o scan.geom
    ok ct-phantom -g scan.geom --plan -o never.tif
    [[ "$output" == *"radius: "*"18 mm"* ]]
    fails 3 "the smallest portion, a page, takes 6.2 KiB" ct-phantom -g scan.geom --plan -m 1000
    [ ! -e never.tif ]
}

@test "a few rows show slices of a larger object; an offset detector sees one side" {
    ct-geom --beam parallel --detector 40x2 --pitch 1 --views 3 -o scan.geom
    ok ct-phantom -g scan.geom --plan
    [[ "$output" == *"18 mm"* ]]
    ct-geom --sod 1e6 --sdd 2e6 --detector 40x40 --pitch 2 --views 30 --offset-u -10 -o offset.geom
    ok ct-phantom -g offset.geom --plan
    near "$(sed -n 's/^radius: *\([0-9.]*\) mm/\1/p' <<<"$output")" 18 0.01
}
