# ct-center: the axis and the roll of scans with known ones, what is refused, and what is written.
load helper

# scan NAME ARGS...: a noisy scan and its geometry NAME.geom without offset and tilt
scan() {
    local name=$1
    shift
    ct-geom "$@" -o "$name.true"
    ct-geom --offset-u 0 --tilt 0 "$name.true" -o "$name.geom"
    ct-phantom -g "$name.true" --phantom spheres --noise 1e4 -o "$name.tif"
}

# found KEY ARGS...: a number of the report
found() { ct-center "${@:2}" | sed -n "s/^$1 = \([-0-9.]*\) .*/\1/p"; }

@test "ct-center: parallel, half a turn and a full one, offset to either side" {
    for o in 5.3 -31.6; do
        scan half --beam parallel --detector 120x8 --pitch 1 --views 120 --arc 180 --offset-u $o
        near "$(found offset-u -g half.geom half.tif)" $o 0.1
    done
    scan full --beam parallel --detector 120x8 --pitch 1 --views 361 --offset-u -36.2
    near "$(found offset-u -g full.geom full.tif)" -36.2 0.1
    # so little is seen twice that smooth objects are alike about several axes
    ct-geom --beam parallel --detector 96x8 --pitch 1 --views 360 --offset-u -34 -o little.geom
    ct-phantom -g little.geom --phantom spheres --radius 75 -o little.tif
    run --separate-stderr ct-center little.tif
    [[ "$stderr" =~ compared\ on\ [0-9]+\ columns,\ expected\ 40\ or\ more || "$stderr" == *"no axis stands out"* ]]
}

@test "ct-center: few views of half a turn are refined with centers of mass, unless the object leaves the detector" {
    scan few --beam parallel --detector 160x16 --pitch 1 --views 24 --arc 180 --offset-u 6.3
    ct-center -g few.geom few.tif > report
    grep -qx '# refined with the centers of mass of the views' report
    near "$(sed -n 's/^offset-u = \([-0-9.]*\) .*/\1/p' report)" 6.3 0.2 # two standard deviations
    # few photons: masses differ by more than the 3 % that an object may lose, but from view to view
    for seed in 1 2 3; do
        ct-phantom -g few.true --noise 60 --seed $seed -o faint.tif
        ct-center -g few.geom faint.tif > report
        grep -qx '# refined with the centers of mass of the views' report
        near "$(sed -n 's/^offset-u = \([-0-9.]*\) .*/\1/p' report)" 6.3 0.25
    done
    # on a full turn --pairs 4 is a choice, not all there is
    scan turn --beam parallel --detector 160x16 --pitch 1 --views 48 --offset-u 6.3
    ct-center --pairs 4 -g turn.geom turn.tif > report
    run -1 grep mass report
    near "$(sed -n 's/^offset-u = \([-0-9.]*\) .*/\1/p' report)" 6.3 0.2
    # the middle of the detector: the object reaches one end or both
    for cut in 40:144 24:120; do
        img-cat --region $cut,0:16 few.tif -o cut.tif
        ct-center cut.tif > report
        run -1 grep mass report
        near "$(sed -n 's/^offset-u.*at column \([0-9.]*\) .*/\1/p' report)" "$(awk "BEGIN { print 85.8 - ${cut%:*} }")" 0.5
    done
}

@test "ct-center: fan and cone beam" {
    scan fan --sod 300 --sdd 450 --detector 120x1 --pitch 1 --views 360 --offset-u 4.7
    near "$(found offset-u -g fan.geom fan.tif)" 4.7 0.1
    scan cone --sod 300 --sdd 450 --detector 100x60 --pitch 1 --views 300 --arc 300 --clockwise --offset-u -2.4
    near "$(found offset-u -g cone.geom cone.tif)" -2.4 0.1
    ct-geom --counterclockwise cone.geom -o wrong.geom
    fails 1 "opposite rays agree better if the scan turns the other way" ct-center -g wrong.geom cone.tif
    [[ "$stderr" == *"hint: ct-geom --clockwise corrects the geometry"* ]]
}

@test "ct-center: roll" {
    scan p --beam parallel --detector 96x96 --pitch 1 --views 90 --offset-u 5.3 --tilt -1.4
    ct-center --roll -g p.geom p.tif -o found.geom >report
    near "$(sed -n 's/^tilt = \([-0-9.]*\) .*/\1/p' report)" -1.4 0.15
    near "$(sed -n 's/^tilt = \([-0-9.]*\) .*/\1/p' found.geom)" -1.4 0.15
    near "$(sed -n 's/^offset-u = \([-0-9.]*\) .*/\1/p' found.geom)" 5.3 0.15
    scan c --sod 300 --sdd 450 --detector 96x64 --pitch 1 --views 180 --tilt 0.8
    near "$(found tilt --roll -g c.geom c.tif)" 0.8 0.15
    # noise must not drive the roll away from 0, where the samples lie on the pixels
    ct-geom --sod 300 --sdd 450 --detector 96x96 --pitch 1.6 --views 120 --offset-u 3.3 -o c.geom
    ct-phantom -g c.geom --phantom shepp-logan --noise 300 -o c.tif
    near "$(found tilt --roll -g c.geom c.tif)" 0 0.15
    fails 2 "--roll: expected 32 detector rows or more, got 1" ct-center --roll -g "$DATA/htc2022.geom" \
        --layout sinograms "$DATA/htc2022_01a_sino.tif"
}

@test "ct-center: a real fan beam scan" {
    near "$(found offset-u -g "$DATA/htc2022.geom" --layout sinograms "$DATA/htc2022_01a_sino.tif")" -0.16 0.1
}

@test "ct-center: counts, transmissions and line integrals, views and sinograms, files and pipes" {
    scan p --beam parallel --detector 120x8 --pitch 1 --views 90 --arc 180 --offset-u 5.3
    ct-center -g p.geom p.tif >want
    ct-phantom -g p.true --phantom spheres --noise 1e4 --counts -o counts.tif
    ct-normalize --no-log --i0 1e4 counts.tif -o transmission.tif
    img-convert --raw-out --type u16 counts.tif -o counts.raw
    near "$(found offset-u -g p.geom counts.tif)" 5.3 0.1
    near "$(found offset-u -g p.geom transmission.tif)" 5.3 0.1
    near "$(found offset-u -g p.geom --raw-in 120x8:u16le counts.raw)" 5.3 0.1
    ct-phantom -g p.true --phantom spheres --noise 1e4 --layout sinograms -o s.tif
    ct-center -g p.geom --layout sinograms s.tif | cmp - want
    ct-center -g p.geom <p.tif | cmp - want
    cat p.tif | ct-center -g p.geom -m 100MB -j 1 | cmp - want
    ct-center -g p.geom --spool <(cat p.tif) | cmp - want
    # views in another order
    img-cat --pages 45:90 p.tif -o b.tif
    img-cat --pages 0:45 p.tif -o a.tif
    ct-geom --arc 90 --start 90 --views 45 p.geom | sed -n 's/^angles = \([^#]*\).*/\1/p' >angles
    ct-geom --arc 90 --start 0 --views 45 p.geom | sed -n 's/^angles = \([^#]*\).*/\1/p' >>angles
    { sed '/^angles/d' p.geom; sed 's/^/angles = /' angles; } >turned.geom
    img-cat b.tif a.tif | img-convert --raw-out | ct-center -g turned.geom --raw-in 120x8:f32le >got
    near "$(sed -n 's/^offset-u = \([-0-9.]*\) .*/\1/p' got)" 5.3 0.1
}

@test "ct-center: the geometry that it writes is the input's with the result, and reconstructs" {
    scan p --beam parallel --detector 64x16 --pitch 1 --views 90 --arc 180 --offset-u 3.4
    run -0 ct-center -g p.geom p.tif -o found.geom
    grep -q "^offset-u = " <<<"$output"
    [ "$(head -n 1 found.geom)" = "$(head -n 1 p.geom)" ]
    diff <(grep -v '^#\|^offset-u' found.geom) <(grep -v '^#\|^offset-u' p.geom)
    ct-center -g p.geom p.tif -o - | cmp - found.geom
    ct-fdk -g found.geom p.tif -o vol.tif
    ct-fdk -g p.true p.tif -o want.tif
    ok img-cmp --max-rel-l2 0.05 vol.tif want.tif
}

@test "ct-center: trial slices" {
    scan p --beam parallel --detector 96x8 --pitch 1 --views 90 --arc 180 --offset-u 3.4
    ct-center -g p.geom p.tif --try sheet.png --trials 5,2 >report
    [ "$(head -c 8 sheet.png | od -An -tx1)" = " 89 50 4e 47 0d 0a 1a 0a" ]
    near "$(sed -n 's/^# entropy.* offset-u \([-0-9.]*\).*/\1/p' report)" 3.4 2.5
    # no opposite rays: a picture to look at, and no result
    img-cat --pages :60 p.tif | img-convert --raw-out -o short.raw
    ct-geom --views 60 --arc 120 p.geom -o short.geom
    fails 1 "no two views are half a turn apart" ct-center -g short.geom --raw-in 96x8:f32le short.raw
    rm sheet.png
    fails 1 "no two views are half a turn apart" ct-center -g short.geom --raw-in 96x8:f32le short.raw --try sheet.png
    [[ "$stderr" == *"hint: look at sheet.png"* ]]
    [ -s sheet.png ]
}

@test "ct-center: no result where there is none, and nonsense on the command line" {
    ct-geom --beam parallel --detector 100x4 --pitch 1 --views 90 -o e.geom
    ct-phantom -g e.geom --density 0 --noise 1e3 -o noise.tif
    fails 1 "no axis stands out" ct-center noise.tif
    fails 1 "expected 20 or more" ct-center --least 20 noise.tif
    ct-center --least 0 noise.tif 2>warned | grep -q "^offset-u = "
    # views that do not belong together: a turn of 60 degrees that claims to be half a turn
    printf '0\n60\n' >angles.txt
    ct-geom --beam parallel --detector 400x8 --pitch 1 --angles angles.txt -o true.geom 2>err
    ct-geom --beam parallel --detector 400x8 --pitch 1 --views 2 --arc 360 -o two.geom
    ct-phantom -g true.geom --phantom shepp-logan-contrast --radius 150 | img-convert -g two.geom -o both.tif
    fails 1 "as high as the best, of column 186.5, expected less than 0.7" ct-center both.tif
    ct-phantom -g e.geom --density 0 -o empty.tif
    fails 1 "rows and their opposites are constant" ct-center empty.tif -o x
    [ ! -e x ]
    ct-phantom -g e.geom -o a.tif
    fails 1 "is the end of the range" ct-center --search 0,20 a.tif
    fails 2 "--search: expected LO,HI with LO < HI" ct-center --search 5,3 a.tif
    fails 2 "--search: expected a range of 2 pixels or more" ct-center --search 300,400 a.tif
    fails 2 "--rows: expected rows of 0:4" ct-center --rows 4:8 a.tif
    fails 2 "--trials: expected N,STEP" ct-center --trials 2 a.tif
    fails 3 "the memory limit is" ct-center -m 10KB a.tif
    ct-geom --format matrices e.geom -o e.matrices
    fails 2 "the geometry is made of matrices" ct-center -g e.matrices --raw-in 100x4:f32 <(img-cat --raw-out a.tif)
    ct-geom --sod 300 --sdd 450 --detector 32x24 --pitch 4 --views 90 --arc 720 --pitch-z 20 | ct-phantom -g - -o h.tif
    fails 2 "no ray has an opposite one" ct-center h.tif
    ct-filter a.tif -o q.tif
    fails 2 "is filtered already" ct-center q.tif
}
