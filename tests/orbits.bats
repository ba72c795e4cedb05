# Scans that are not the plain circle: what --show says of them, and mu, in 1/mm, against analytic phantoms.
load helper

# mean VOLUME BOX: of voxels in COLUMNS,ROWS,PAGES, as img-cat cuts them
mean() {
    img-cat --region "${2%,*}" --pages "${2##*,}" "$1" | img-info --value mean
}

@test "a detector wholly off the plane of the orbit: the volume is where its rays are" {
    ct-geom --sod 708 --sdd 1139 --detector 192x36 --pitch 2.12 --offset-v 56.6 --views 90 -o g.geom
    ok ct-geom --show g.geom
    [[ "$output" == *"z from -98.3069 to -50.8666 mm: the detector does not see the plane of the orbit"* ]]
    [[ "$output" == *"x 36 voxels of 1.31779 mm"*"centred on z = -74.5868 mm"* ]]
    echo '0 0 0 30 30 1000 0 0.02' >rod.txt
    ct-phantom -g g.geom --phantom rod.txt | ct-fdk -o v.tif
    [ "$(img-info --value origin v.tif | awk '{ printf "%.3f", $3 }')" = -97.648 ]
    for z in 1 18 34; do
        near "$(mean v.tif 90:100,90:100,$z)" 0.02 0.0002
    done
    # what is asked for is obeyed, and a detector that sees the plane has its volume about it
    ct-geom --show --offset-v 10 g.geom | grep -q '^volume .* x 56 voxels'
    [ "$(ct-phantom -g g.geom | ct-fdk --volume 8x8x4 --voxel 1 --center 0,0,0 | img-info --value origin)" = "-3.5 -3.5 -1.5" ]
}

# helix TURNS OPTION...: a helix of so many turns, of a detector that sees 80 mm of the axis
helix() {
    ct-geom --sod 300 --sdd 450 --detector 80x40 --pitch 3 --views $((120 * $1)) --arc $((360 * $1)) "${@:2}"
}

rod='0 0 0 30 30 1000 0 0.02'

@test "a rod along a helix has its mu within 0.2 %, for pitches up to the detector's height, in all slices" {
    echo "$rod" >rod.txt
    for pitch in 6 25 40 -60 80; do
        helix 6 --pitch-z "$pitch" --offset-v 1.5 -o h.geom
        ct-phantom -g h.geom --phantom rod.txt -o s.tif
        ok ct-fdk --voxel 2,2,4 --volume 40 s.tif -o v.tif
        img-cat --region 13:27,13:27 v.tif >core.tif
        for what in min max; do near "$(img-info --value $what core.tif)" 0.02 0.0001; done
        near "$(img-info --value mean core.tif)" 0.02 0.00004
        near "$(img-cat --region 0:3,0:3 v.tif | img-info --value mean)" 0 0.0002
    done
    # of matrices the same, and with the detector to one side, sideways or upside down
    ct-geom --format matrices h.geom -o m.geom
    ct-fdk -g m.geom --voxel 2,2,4 --volume 40 s.tif -o m.tif
    ok img-cmp --max-rel-l2 1e-6 m.tif v.tif
    for options in '--detector 52x40 --offset-u -16' '--detector 40x80 --tilt 90' '--clockwise --pitch 3,-3'; do
        # shellcheck disable=SC2086
        helix 4 --pitch-z 50 $options 2>/dev/null | ct-phantom -g - --phantom rod.txt |
            ct-fdk --voxel 2,2,4 --volume 40x40x9 -o v.tif
        near "$(img-cat --region 13:27,13:27 v.tif | img-info --value mean)" 0.02 0.0001 || { echo "$options"; return 1; }
    done
}

@test "a ball off the axis of a helix: mu within 1 %, nothing beside it" {
    echo '45 20 5 12 12 12 0 0.03' >ball.txt
    for pitch in 20 40 60 80; do
        ct-geom --sod 300 --sdd 450 --detector 160x80 --pitch 1.5 --views 720 --arc 1440 --pitch-z $pitch |
            ct-phantom -g - --phantom ball.txt | ct-fdk -q --volume 40x40x41 --center 45,20,5 --voxel 1 -o v.tif
        near "$(mean v.tif 14:26,14:26,15:26)" 0.03 0.0003
        near "$(mean v.tif 0:6,14:26,15:26)" 0 0.0003
        near "$(mean v.tif 14:26,34:40,15:26)" 0 0.0003
    done
}

@test "a helix in pieces: the same bits, and those of ct-filter and ct-backproject" {
    helix 4 --pitch-z 70 | ct-phantom -g - --noise 1e5 -o s.tif
    for voxel in 4,4,7 4,4,1 4,4,0.13; do
        grid=(--voxel "$voxel" --volume 30x30x37 -q)
        ct-fdk "${grid[@]}" s.tif -o v.tif
        ct-fdk "${grid[@]}" -j 1 - <s.tif | cmp - v.tif
        ct-filter s.tif | ct-backproject "${grid[@]}" | img-cmp - v.tif
        for slab in 0:13 13:14 14:37; do ct-fdk "${grid[@]}" --slab $slab -j 3 s.tif -o $slab.tif; done
        ct-reduce --join 0:13.tif 13:14.tif 14:37.tif -o joined.tif
        ok img-cmp joined.tif v.tif
    done
    ct-fdk "${grid[@]}" --volume 200x200x200 s.tif -o v.tif
    ct-fdk "${grid[@]}" --volume 200x200x200 --memory 30MiB --stats stats.json s.tif -o w.tif
    grep -q '"passes": [2-9]' stats.json
    ok img-cmp w.tif v.tif
}

@test "--show explains a helix; what is no helix, or too steep, is refused in one line" {
    ok ct-geom --show --sod 300 --sdd 450 --detector 160x80 --pitch 1.5 --views 1800 --arc 3600 --pitch-z 40
    [[ "$output" == *"scan           helix, 10 turns of 40 mm; the detector sees 80 mm of the axis"* ]]
    [[ "$output" == *"z from -177.5 to 177.5 mm: there all directions are measured"* ]]
    helix 4 --pitch-z 40 | ct-phantom -g - -o s.tif
    run --separate-stderr ct-fdk --volume 8x8x50 --voxel 4 s.tif -o v.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == "ct-fdk: warning: slices lie at z from -98 to 98 mm, the helix measures -57.5 to 57.5: beyond that values are too low" ]]
    helix 4 --pitch-z 170 -o h.geom
    ct-phantom -g h.geom -o s.tif
    fails 1 "the helix moves 170 mm per turn, the detector sees 80 mm of the axis: expected at most twice that" \
        ct-fdk s.tif
    [ "$(wc -l <<<"$stderr")" -eq 2 ] # and a hint
    # a way that rises twice as fast in its second half
    helix 4 --pitch-z 30 --format matrices | grep ^matrix >slow
    helix 4 --pitch-z 60 --format matrices | awk '!/^matrix/ || ++n > 240' | { grep ^matrix >fast; cat slow - fast; } |
        sed -n 's/^matrix = //p' | sed '241,480d' >rows.txt
    ct-geom --detector 80x40 --pitch 3 rows.txt -o uneven.geom
    fails 1 "along z, and the detector sees 80 mm of the axis: expected a circle, or a helix of even pitch" \
        ct-filter -g uneven.geom s.tif
    fails 2 "pitch-z and lamino cannot be combined" helix 4 --pitch-z 3 --lamino 4
    fails 2 "a fixed detector lies across the axis, and is seen edge on with lamino 0" helix 4 --fixed-detector
}

# board OPTION...: laminography, 45 degrees
board() {
    ct-geom --sod 300 --sdd 450 --detector 120x120 --pitch 2 --views 180 --lamino 45 "$@"
}

@test "laminography, the detector turning or fixed: a ball has its mu, and nothing tells one side of it from the other" {
    echo '20 0 0 4 4 4 0 0.03' >ball.txt
    for detector in '' --fixed-detector; do
        # shellcheck disable=SC2086
        board $detector -o b$detector.geom
        ct-phantom -g b$detector.geom --phantom ball.txt -o s$detector.tif
        ct-fdk --volume 64x64x5 --voxel 0.5 --center 20,0,0 s$detector.tif -o v$detector.tif
        near "$(mean v$detector.tif 29:35,29:35,1:4)" 0.03 0.0005
        left=$(mean v$detector.tif 18:22,31:33,2) above=$(mean v$detector.tif 31:33,18:22,2)
        near "$(mean v$detector.tif 42:46,31:33,2)" "$left" 0.0006
        near "$above" "$left" 0.0006
        near "$(mean v$detector.tif 31:33,42:46,2)" "$above" 0.0006
    done
    ok img-cmp --max-rel-l2 0.1 v--fixed-detector.tif v.tif
    ct-filter s--fixed-detector.tif | ct-backproject --volume 64x64x5 --voxel 0.5 --center 20,0,0 -o w.tif
    ok img-cmp w.tif v--fixed-detector.tif
    fails 2 "--layout sinograms: the detector's rows do not follow the source" ct-filter --layout sinograms \
        -g b--fixed-detector.geom <(img-convert --raw-out s--fixed-detector.tif | img-convert --raw-in 120x180x120:f32)
}

@test "laminography: default volume, --show, and objects without end are 1 / cos too high" {
    ok ct-geom --show <(board --fixed-detector)
    [[ "$output" == *"the source is 45 degrees above the plane z = 0"* ]]
    [[ "$output" == *"deviate by up to 90 degrees from the source path: views are turned before they are filtered"* ]]
    [[ "$output" == *"field of view  160 mm across, 152.962 mm high at the axis"* ]]
    for degrees in 30 60; do
        echo '0 0 0 20 20 4000 0 0.02' >rod.txt
        ct-geom --sod 2000 --sdd 3000 --detector 100x100 --pitch 3 --views 120 --lamino $degrees |
            ct-phantom -g - --phantom rod.txt | ct-fdk --volume 5x5x5 --voxel 1 -o v.tif
        near "$(img-info --value mean v.tif)" "$(awk -v a=$degrees 'BEGIN { print 0.02 / cos(a * atan2(0, -1) / 180) }')" 0.0001
    done
}

@test "a detector that is mounted askew: views are turned, a ball has its mu" {
    printf '0 0 0 40 40 30 0 0.005\n15 -9 6 10 10 10 0 0.015\n' >body.txt
    for tilt in 10.5 30 -135; do
        ct-geom --sod 400 --sdd 600 --detector 160x160 --pitch 1 --views 180 --tilt=$tilt |
            ct-phantom -g - --phantom body.txt | ct-fdk --voxel 1 --volume 80x80x60 -o v.tif
        near "$(mean v.tif 50:59,26:35,31:40)" 0.02 0.00004
        near "$(mean v.tif 30:34,40:44,28:32)" 0.005 0.00003
    done
    # sideways: to the bit
    ct-geom --sod 400 --sdd 600 --detector 80x64 --pitch 2 --views 60 -o a.geom
    ct-geom --detector 64x80 --tilt 90 a.geom -o b.geom
    for g in a b; do ct-phantom -g $g.geom --phantom body.txt | ct-fdk --voxel 2 --volume 40x40x30 -o $g.tif; done
    ok img-cmp --max-rel-l2 1e-6 a.tif b.tif
}

# voxels CASE GEOMETRY...: relative error and mean of an object on a flat and on a curved detector
curved_case() {
    local volume=$1 shape
    shift
    ct-phantom --phantom balls.txt $volume --samples 4 -o truth.tif
    for shape in flat curved; do
        # shellcheck disable=SC2046
        ct-geom "$@" $([ $shape = flat ] || echo --curved) -o $shape.geom
        ct-phantom -g $shape.geom --phantom balls.txt --samples 2 -o scan.tif
        # shellcheck disable=SC2086
        ct-fdk -q scan.tif $volume -o $shape.tif
    done
    near "$(img-info --value mean curved.tif)" "$(img-info --value mean flat.tif)" 1e-6
    near "$(img-info --value mean curved.tif)" "$(img-info --value mean truth.tif)" "$(awk -v m="$(img-info --value mean truth.tif)" 'BEGIN { print m / 100 }')"
}

@test "curved detectors: a fan and cones as exact as on flat ones, in full and short scans, offset, helices" {
    printf '8 -6 3 12 9 8 20 0.02\n-12 10 -5 6 6 7 0 0.01\n' >balls.txt
    local cone=(--sod 300 --sdd 450 --detector 160x110 --pitch 1)
    curved_case '--volume 64x64x40 --voxel 1' "${cone[@]}" --views 360
    ok img-cmp -q --max-rel-l2 0.04 curved.tif truth.tif
    curved_case '--volume 64x64x40 --voxel 1' "${cone[@]}" --views 240 --arc 240
    curved_case '--volume 64x64x40 --voxel 1' --sod 300 --sdd 450 --detector 100x110 --pitch '1 -1' --offset-u 30 --views 360
    # of a fan within 0.2 %
    printf '10 -6 0 30 20 500 20 0.02\n-15 12 0 8 8 500 0 0.01\n60 40 0 12 12 500 0 0.02\n' >balls.txt
    curved_case '--volume 140x140x1 --voxel 1' --sod 300 --sdd 450 --detector 320x1 --pitch 1 --views 360
    near "$(img-info --value mean curved.tif)" "$(img-info --value mean truth.tif)" "$(awk -v m="$(img-info --value mean truth.tif)" 'BEGIN { print m / 500 }')"
    # taken for flat, it is far off
    ct-phantom -g curved.geom --phantom balls.txt -o scan.tif
    sed '/^detector-shape/d' curved.geom >wrong.geom
    ct-fdk -q -g wrong.geom scan.tif --volume 140x140x1 --voxel 1 -o wrong.tif
    ok img-cmp -q --max-rel-l2 0.045 curved.tif truth.tif
    run -1 img-cmp -q --max-rel-l2 0.09 wrong.tif truth.tif

    # two programs do what one does; threads and slabs change nothing
    ct-fdk -q scan.tif --volume 140x140x1 --voxel 1 -o one.tif
    ct-filter scan.tif | ct-backproject -q -j 1 --volume 140x140x1 --voxel 1 | img-cmp -q - one.tif
    fails 2 "the detector is curved" ct-backproject scan.tif -o never.tif
    fails 1 "no meaning in a parallel beam" \
        ct-phantom -g <(sed 's/^beam.*/beam = parallel/; /^sod/d; /^sdd/d' curved.geom) -o never.tif
    ok ct-geom --show curved.geom
    [[ "$output" == *"curved about the source: columns at equal angles of 0.127324 degrees"* ]]
    # the geometry travels, and as matrices
    ct-geom --format matrices curved.geom -o matrices.geom
    grep -q '^detector-shape = curved' matrices.geom
    ct-fdk -q -g matrices.geom scan.tif --volume 140x140x1 --voxel 1 | img-cmp -q --max-rel-l2 1e-6 - one.tif
    img-cat --region 4:316,0:1 scan.tif | ct-fdk -q --volume 140x140x1 --voxel 1 | img-cmp -q --max-rel-l2 0.045 - truth.tif
}

@test "RTK's cylindrical detectors about the source are curved, others are refused" {
    rtk() {
        echo '<?xml version="1.0"?><!DOCTYPE RTKGEOMETRY><RTKThreeDCircularGeometry version="3">'
        echo "<SourceToIsocenterDistance>300</SourceToIsocenterDistance><SourceToDetectorDistance>450</SourceToDetectorDistance>"
        echo "<RadiusCylindricalDetector>$1</RadiusCylindricalDetector>"
        for a in 0 90 180 270; do echo "<Projection><GantryAngle>$a</GantryAngle></Projection>"; done
        echo '</RTKThreeDCircularGeometry>'
    }
    rtk 450 >round.xml
    ok ct-geom --detector 160x110 --pitch 1 round.xml -o round.geom
    grep -q '^detector-shape = curved' round.geom
    rtk 500 >other.xml
    fails 1 "a cylinder of radius 500 mm: expected 450 mm, about the source" \
        ct-geom --detector 160x110 --pitch 1 other.xml
}
