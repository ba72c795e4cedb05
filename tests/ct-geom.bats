# ct-geom: geometries from options and files, what it writes and what it says.
load helper

htc=(--sod 410.66 --sdd 553.74 --detector 560x1 --pitch 0.2)

# value KEY FILE: the value of a line of a geometry file, without its comment
value() { sed -n "s/^$1 = \([^#]*[^# ]\) *\(#.*\)*\$/\1/p" "$2"; }

@test "makes a geometry from options, and reads it back to the same bytes" {
    ok ct-geom "${htc[@]}" --views 720 --offset-u 1.5mm --tilt -0.25 --clockwise -o a.geom
    [ "$(value sod a.geom)" = 410.66 ]
    [ "$(value detector a.geom)" = 560x1 ]
    [ "$(value offset-u a.geom)" = 7.5 ]
    [ "$(value tilt a.geom)" = -0.25 ]
    [ "$(value direction a.geom)" = clockwise ]
    [ "$(value angles a.geom)" = 0:0.5:720 ]
    ok ct-geom a.geom -o b.geom
    cmp a.geom b.geom
    ct-geom - <a.geom | cmp - a.geom
    ct-geom <(cat a.geom) | cmp - a.geom
}

@test "options override what the file says" {
    ct-geom "${htc[@]}" --views 720 -o a.geom
    ok ct-geom --sdd 600 --offset-u=-3 --views 360 --arc 180 --start 10 --clockwise a.geom -o b.geom
    [ "$(value sdd b.geom)" = 600 ]
    [ "$(value offset-u b.geom)" = -3 ]
    [ "$(value sod b.geom)" = 410.66 ]
    [ "$(value angles b.geom)" = 10:0.5:360 ]
    [ "$(value direction b.geom)" = clockwise ]
    ok ct-geom --counterclockwise b.geom -o c.geom
    [ "$(value direction c.geom)" = counterclockwise ]
    seq 0 2 358 >angles.txt
    ok ct-geom --angles angles.txt b.geom -o d.geom
    [ "$(value angles d.geom)" = 0:2:180 ]
    fails 2 "sod and sdd have no meaning in a parallel beam" \
        ct-geom --beam parallel --sod 3 --detector 4x4 --pitch 1 --views 9
    ok ct-geom --beam parallel b.geom -o e.geom
    run ! grep "^s[od]d" e.geom
}

@test "matrices: one a view, equal to the formula" {
    ct-geom "${htc[@]}" --angles <(seq 0 0.5 360) --clockwise --format matrices -o m.geom
    [ "$(grep -c '^matrix = ' m.geom)" = 721 ]
    grep '^matrix' m.geom | awk '
        { b = -0.5 * (NR - 1) * atan2(0, -1) / 180; s = sin(b); c = cos(b); f = 553.74 / 0.2; cu = 279.5
          split(f*c+cu*s " " f*s-cu*c " 0 " cu*410.66 " 0 0 " f " 0 " s " " (-c) " 0 410.66", want, " ")
          for (i = 1; i <= 12; i++) { d = $(i + 2) - want[i]; if (d < 0) d = -d; if (d > worst) worst = d } }
        END { exit !(worst < 0.5) }' # awk prints six digits: a wrong sign or term is far larger
    ok ct-geom --show m.geom
    [[ "$output" == *"circular orbit, untilted detector"* && "$output" == *"turns clockwise"* ]]
    ok ct-geom m.geom -o n.geom
    cmp m.geom n.geom
}

@test "rows of twelve numbers need the detector" {
    ct-geom "${htc[@]}" --views 9 --format matrices | sed -n 's/^matrix = //p' >rows.txt
    fails 1 "ct-geom: error: rows.txt: the geometry is not complete: it lacks detector" ct-geom rows.txt
    [[ "$stderr" == *"hint:"*"--detector WxH"* ]]
    ok ct-geom --detector 560x1 --pitch 0.2 rows.txt -o m.geom
    [ "$(grep -c '^matrix = ' m.geom)" = 9 ]
    [ "$(value sdd m.geom | cut -c1-6)" = 553.74 ]
    fails 1 "sod cannot be combined with matrices" ct-geom --detector 560x1 --sod 4 rows.txt
    fails 1 "tilt cannot be combined with matrices" ct-geom --detector 560x1 --tilt 4 rows.txt
}

@test "--show explains a fan beam scan" {
    ok ct-geom --show "${htc[@]}" --views 720
    for text in 'fan (a cone beam on one detector row)' 'magnification  1.34841' 'fan angle      11.5494 degrees' \
        'field of view  82.639 mm across' '558 x 558 x 1 voxels of 0.148322 mm' 'full, 360 degrees' 'counter-clockwise'; do
        [[ "$output" == *"$text"* ]] || { echo "not there: $text"; echo "$output"; return 1; }
    done
}

@test "--show tells short, offset and parallel scans and their weights" {
    ok ct-geom --show "${htc[@]}" --views 384 --arc 192
    [[ "$output" == *"short, 191.5 degrees"* && "$output" == *Parker* ]]
    ok ct-geom --show "${htc[@]}" --views 720 --offset-u 120
    [[ "$output" == *"offset detector"* && "$output" == *Wang* ]]
    ok ct-geom --show --beam parallel --detector 64x2 --pitch 0.01 --views 100 --arc 180
    [[ "$output" == *"parallel beam, 180 degrees"* && "$output" == *"64 x 64 x 2 voxels of 0.01 mm"* ]]
}

@test "--show warns of what looks wrong, on standard error, and succeeds" {
    run --separate-stderr ct-geom --show "${htc[@]}" --views 300 --arc 150 --offset-u 100
    [ "$status" = 0 ]
    [[ "$stderr" == *"warning: a short scan of 149.5 degrees"* && "$stderr" == *"warning: the detector is off centre"* ]]
    ok ct-geom --show -q "${htc[@]}" --views 300 --arc 150 --offset-u 100
    ok ct-geom "${htc[@]}" --views 300 --arc 150 --offset-u 100
}

@test "--show says from where to where the views go, whatever their order" {
    ct-geom "${htc[@]}" --views 90 --clockwise --format matrices -o m.geom
    ok ct-geom --show -q m.geom
    [[ "$output" == *"views          90, from 0 to -356 degrees, step 4"* ]]
    ct-geom "${htc[@]}" --views 90 --start 350 --format matrices -o m.geom
    ok ct-geom --show -q m.geom
    [[ "$output" == *"views          90, from 350 to 706 degrees, step 4"* ]]
    printf '%s\n' 0 90 180 270 45 135 225 315 >angles.txt
    ok ct-geom --show -q "${htc[@]}" --angles angles.txt
    [[ "$output" == *"views          8, between 0 and 315 degrees, not in order, step 45"* ]]
    seq 0 1 99 >angles.txt
    seq 100 2 300 >>angles.txt
    ok ct-geom --show -q "${htc[@]}" --angles angles.txt
    [[ "$output" == *"views          201, from 0 to 300 degrees, steps of 1 to 2"* ]]
}

@test "angles that were hardly meant are said where they are read" {
    run --separate-stderr ct-geom "${htc[@]}" --views 720 --arc 6.28
    [ "$status" = 0 ]
    [[ "$stderr" == *"warning: the views are within 6.271 degrees: are the angles in radians?"* ]]
    printf '%s\n' 0 0,5 1,25 1,5 >angles.txt
    run --separate-stderr ct-geom "${htc[@]}" --angles angles.txt
    [ "$status" = 0 ]
    [[ "$stderr" == *"warning: 0,5 was read as two angles"* ]]
    printf '0, 5, 10\n15,20,25\n' >angles.txt
    ok ct-geom "${htc[@]}" --angles angles.txt
    echo '0 to 345' >angles.txt
    fails 1 "line 1: 'to 345' is not an angle" ct-geom "${htc[@]}" --angles angles.txt
    [[ "$stderr" == *"hint: a range is start:step:count"* ]]
    seq 0 1 345 >angles.txt
    run --separate-stderr ct-geom --show "${htc[@]}" --angles angles.txt
    [[ "$stderr" == *"warning: the views cover 346 degrees, not a full turn"* ]]
    [[ "$output" == *"short, 345 degrees"* ]]
}

@test "distances may say their unit" {
    ok ct-geom --sod 410.66mm --sdd '553.74 mm' --detector 560x1 --pitch '0.2mm 0.2mm' --views 720 -o a.geom
    ct-geom "${htc[@]}" --views 720 | cmp - a.geom
    fails 2 "--sod: '50cm' is not a distance in mm" ct-geom --sod 50cm
}

@test "a geometry that cannot be computed with is refused" {
    local rest=(--detector 64x64 --views 9)
    fails 2 "the pitch is 1e-308 mm" ct-geom --sod 400 --sdd 600 --pitch 1e-308 "${rest[@]}"
    fails 2 "the pitch is 1e-40 mm" ct-geom --beam parallel --pitch '1 1e-40' "${rest[@]}"
    fails 2 "the pitch is 1e+195 mm" ct-geom --sod 1e200 --sdd 2e200 --pitch 1e195 "${rest[@]}"
    fails 2 "offset-u is 1e+300 pixels" ct-geom --sod 400 --sdd 600 --pitch 1 --offset-u 1e300 "${rest[@]}"
    echo '1e30 0 0 0  0 1e30 0 0  0 0 1 400' >rows.txt
    fails 1 "too large or too small to compute with" ct-geom --detector 64x64 rows.txt
}

@test "Nikon .xtekct" {
    printf '%s\r\n' '[XTekCT]' Name=x SrcToObject=76.7511959075928 SrcToDetector=1127.464 DetectorPixelsX=1500 \
        DetectorPixelsY=2000 DetectorPixelSizeX=0.2 DetectorPixelSizeY=0.2 CentreOfRotationTop=1.0 \
        CentreOfRotationBottom=1.0 Projections=3142 InitialAngle=3.365 AngularStep=0.11457670273711 >a.xtekct
    ok ct-geom a.xtekct -o a.geom
    [ "$(value offset-u a.geom)" = 5 ]
    [ "$(value pitch a.geom)" = '0.2 -0.2' ]
    [ "$(value angles a.geom)" = 3.365:0.11457670273711:3142 ]
    ok ct-geom --show a.xtekct
    [[ "$output" == *"voxels of 0.0136148 mm"* && "$output" == *"first row is on top"* ]]
}

@test "RTK XML, with the detector from options" {
    cat >rtk.xml <<'XML'
<?xml version="1.0"?>
<!DOCTYPE RTKGEOMETRY>
<RTKThreeDCircularGeometry version="3">
  <SourceToIsocenterDistance>1000</SourceToIsocenterDistance>
  <SourceToDetectorDistance>1536</SourceToDetectorDistance>
  <Projection><GantryAngle>0</GantryAngle></Projection>
  <Projection><GantryAngle>90</GantryAngle></Projection>
</RTKThreeDCircularGeometry>
XML
    fails 1 "rtk.xml: the geometry is not complete: it lacks detector, pitch" ct-geom rtk.xml
    ok ct-geom --detector 11x7 --pitch 0.5 rtk.xml -o m.geom
    # u = 5 + 3072 x / w, v = 3 - 3072 z / w, w = 1000 - y
    [ "$(value matrix m.geom | head -n 1)" = '3072 -5 0 5000 0 -3 -3072 3000 0 -1 0 1000' ]
}

@test "nonsense: one clear line" {
    echo 'sodd = 3' >a.geom
    fails 1 "ct-geom: error: a.geom: line 1: unknown key 'sodd'" ct-geom a.geom
    [[ "$stderr" == *"did you mean 'sod'?"* ]]
    fails 2 "--sod: '3px' is not a distance in mm" ct-geom --sod 3px
    fails 2 "--detector: '560' is not a detector size WxH" ct-geom --detector 560
    fails 2 "sdd is 300 mm: expected more than sod, 400 mm" \
        ct-geom --sod 400 --sdd 300 --detector 4x4 --pitch 1 --views 9
    fails 2 "it lacks sdd, detector, pitch, views (or angles)" ct-geom --sod 400
    fails 2 "no geometry" ct-geom
    fails 2 "expected one geometry, got 2 files" ct-geom a.geom a.geom
    fails 2 "cannot be combined" ct-geom "${htc[@]}" --views 9 --clockwise --counterclockwise
    fails 1 "missing.geom: No such file or directory" ct-geom missing.geom
    head -c 4096 /dev/urandom | tr -d '\n' >garbage.geom
    printf '\0' >>garbage.geom
    fails 1 "garbage.geom: expected the text of a geometry, got a byte of zero" ct-geom garbage.geom
    : >empty.geom
    fails 1 "empty.geom: empty" ct-geom empty.geom
    fails 1 "." ct-geom .
    echo 'zero' >angles.txt
    fails 1 "angles.txt: line 1: 'zero' is not an angle" ct-geom "${htc[@]}" --angles angles.txt
}

@test "nothing is left behind when it fails" {
    fails 2 "lacks" ct-geom --sod 4 -o out.geom
    [ -z "$(ls -A | grep -v "^separate-stderr")" ]
}

@test "--views alone keeps the arc and the start of the file" {
    ct-geom "${htc[@]}" --views 140 --arc 205 --start 10 -o a.geom
    ct-geom "${htc[@]}" --views 70 --arc 205 --start 10 -o want.geom
    ct-geom --views 70 a.geom -o b.geom
    cmp b.geom want.geom
    # a list whose last view repeats the first is one turn
    ct-geom "${htc[@]}" --views 5 -o c.geom
    sed -i 's/^angles.*/angles = 0:90:5/' c.geom
    ct-geom --views 8 c.geom | grep '^angles = 0:45:8 '
}

skyscan() {
    printf '%s\n' '[System]' 'Scanner=SkyScan1272' '[Acquisition]' 'Number Of Files=  60' 'Number Of Rows=  24' \
        'Number Of Columns= 64' 'Camera to Source (mm)=300' 'Object to Source (mm)=200' 'Image Pixel Size (um)=200' \
        'Rotation Step (deg)=6' 'Rotation Direction=CC' "$@"
}

@test "a SkyScan log: what it says is used, refused until the rest is given, or warned of" {
    skyscan >plain.log
    ok ct-geom plain.log -o plain.geom
    grep -q '^offset-u = 0 ' plain.geom
    skyscan '[Reconstruction]' 'Postalignment=-7.50' >aligned.log
    run --separate-stderr ct-geom aligned.log -o aligned.geom
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"Postalignment=-7.5 is taken as offset-u 7.5: if edges come out doubled, try --offset-u -7.5" ]]
    grep -q '^offset-u = 7.5 ' aligned.geom
    # and not a word where an option says it
    ok ct-geom --offset-u -7.5 aligned.log -o other.geom
    grep -q '^offset-u = -7.5 ' other.geom

    skyscan 'Image Rotation=0.05700' 'Camera X/Y Ratio=0.9851' 'Number Of Horizontal Offset Positions=2' >odd.log
    run --separate-stderr ct-geom odd.log -o odd.geom
    [ "$status" -eq 0 ]
    for text in 'Image Rotation=0.057 is not used' 'Camera X/Y Ratio=0.9851 is not used' '2 horizontal positions'; do
        [[ "$stderr" == *"$text"* ]] || { echo "$text"; return 1; }
    done
    skyscan 'Random Movement=OFF' 'Scanning Trajectory=ROUND' >still.log
    ok ct-geom still.log -o still.geom
    cmp plain.geom still.geom

    skyscan 'Random Movement=ON (20)' >moved.log
    fails 1 "Random Movement=ON: every view is shifted" ct-geom moved.log -o never.geom
    [[ "$stderr" == *"--shifts FILE"* ]]
    fails 1 "Random Movement=ON" ct-phantom -g moved.log -o never.tif
    ok ct-geom --shifts none moved.log -o none.geom
    cmp plain.geom none.geom
    skyscan 'Scanning Trajectory=SPIRAL' >spiral.log
    fails 1 "Scanning Trajectory=SPIRAL: the source moves along the axis" ct-geom spiral.log -o never.geom
    [[ "$stderr" == *"--pitch-z MM"* ]]
    ok ct-geom --pitch-z 3 spiral.log -o spiral.geom
    grep -q '^pitch-z = 3 ' spiral.geom
    [ ! -e never.geom ]
}

@test "shifts of single views: as of the detector, and a scan with them is reconstructed as one without" {
    ct-geom --sod 200 --sdd 300 --detector 96x48 --pitch 0.5 --views 90 -o still.geom
    for _ in $(seq 90); do echo '3 -2'; done >same.txt
    ct-geom --shifts same.txt still.geom -o same.geom
    ct-geom --format matrices --offset-u 3 --offset-v -2 still.geom -o offset.geom
    # but for rounding
    matrices() { awk '/^matrix/ { for (i = 3; i <= NF; i++) printf "%.9g ", $i + 0; print "" }' "$@"; }
    cmp <(matrices same.geom) <(matrices offset.geom)
    # of a file, of an option over it, and of matrices
    { cat still.geom; sed 's/^/shifts = /' same.txt; } | ct-geom - | cmp - same.geom
    ct-geom --format matrices still.geom | ct-geom --shifts same.txt - | cmp <(matrices same.geom) <(matrices -)

    # an ellipsoid near the axis, seen with shifts up to 5 pixels in a disorder
    echo '3 -2 1 8 6 5 20 0.02' >o.txt
    awk 'BEGIN { for (k = 0; k < 90; k++) print 5 * sin(k * k), 5 * cos(3 * k * k) }' >shifts.txt
    ct-geom --shifts shifts.txt still.geom -o moved.geom
    ct-phantom -g still.geom --phantom o.txt --samples 2 | ct-fdk --volume 64x64x24 --voxel 0.333333 -o still.tif
    ct-phantom -g moved.geom --phantom o.txt --samples 2 -o moved.tif
    ct-fdk moved.tif --volume 64x64x24 --voxel 0.333333 -o vol.tif
    ok img-cmp -q --max-rel-l2 0.04 vol.tif still.tif
    # which matters: passed over they spoil it
    ct-fdk -g still.geom moved.tif --volume 64x64x24 --voxel 0.333333 -o wrong.tif
    run -1 img-cmp -q --max-rel-l2 0.2 wrong.tif still.tif

    head -n 89 shifts.txt >few.txt
    fails 1 "expected the shifts of 90 views, got 178 numbers" ct-geom --shifts few.txt still.geom -o never.geom
    sed 's/ .*//' shifts.txt >one.txt
    fails 1 "one.txt: line 1: expected the 2 shifts of a view" ct-geom --shifts one.txt still.geom -o never.geom
    echo 'a b' >words.txt
    fails 1 "words.txt: line 1: 'a b' is not a number" ct-geom --shifts words.txt still.geom -o never.geom
    [ ! -e never.geom ]
}
