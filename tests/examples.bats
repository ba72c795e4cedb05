# Every example of every program, and the README's pipelines, run as they are printed.
load helper

@test "the examples of --help and the man pages run when pasted, in order" {
    "$BUILD/docs/generate" . examples
    for program in "$BUILD"/bin/*; do
        name=$(basename "$program")
        mkdir "$name"
        mv "examples/$name.sh" .
        [ -s "$name.sh" ] || { echo "$name has no examples"; return 1; }
        (cd "$name" && bash -euo pipefail "../$name.sh" >../out 2>../err </dev/null) || { echo "in $name.sh:"; cat "$name.sh" out err; return 1; }
        [ ! -s err ] || { echo "in $name.sh:"; cat "$name.sh" err; return 1; }
    done
}

@test "the examples of the other man pages run" {
    for page in voxpipe.7 ct-geometry.5; do
        # what is set off in EXAMPLES, on a smaller detector
        sed -n '/^\.SH EXAMPLES/,/^\.SH/p' "$ROOT/man/$page" | sed -n '/^\.nf/,/^\.fi/{/^\./d;s/^ *//;s/\\e/\\/g;s/\\-/-/g;p}' >commands
        sed -i 's/256x256/64x64/; s/512x384/64x48/; s/--pitch 1 /--pitch 4 /; s/--pitch 0.2/--pitch 1.6/' commands
        grep -q '^ct-phantom' commands
        bash -euo pipefail commands
    done
    [ -s vol16.tif ]
}

@test "every command of the README runs, but for those that install" {
    # what the lines read: a scan of 20 views in counts, its flat and dark fields, two logs, a photo
    mkdir flats darks scan
    ct-geom --sod 100 --sdd 350 --detector 64x42 --pitch 0.8 --views 20 -o small.geom
    ct-phantom -g small.geom --noise 1e4 --counts -o scan/views.tif
    img-cat --pages :2 scan/views.tif | img-math 'a * 0 + 10000' -o flats/flat.tif
    img-math 'a * 0' flats/flat.tif -o darks/dark.tif
    printf '%s\n' '[XTekCT]' SrcToObject=100 SrcToDetector=350 DetectorPixelsX=64 DetectorPixelsY=42 DetectorPixelSizeX=0.8 \
        DetectorPixelSizeY=0.8 Projections=20 InitialAngle=0 AngularStep=18 >scan.xtekct
    printf '%s\n' '[System]' '[Acquisition]' 'Number of Files=20' 'Number of Rows=42' 'Number of Columns=64' \
        'Image Pixel Size (um)=10.0' 'Camera Pixel Size (um)=35' 'Object to Source (mm)=100' 'Camera to Source (mm)=350' \
        'Rotation Step (deg)=18' 'Use 360 Rotation=YES' >scan.log
    img-cat --pages 0 scan/views.tif | img-convert --type f32 -o photo.tif
    cp "$ROOT"/tests/data/htc2022.geom "$ROOT"/tests/data/htc2022_01a_sino.tif .
    awk '/^    / { if (!block++) print ""; print; next } { block = 0 }' "$ROOT/README.md" | sed 's/^    //' >blocks
    awk -v RS= '!/^(sh|sudo|make) / { print }' blocks >readme.sh
    for name in ct-fdk ct-geom ct-normalize ct-phantom img-view img-threshold img-nlmeans img-deconvolve; do
        grep -q "$name" readme.sh || { echo "no line with $name"; return 1; }
    done
    # the scan as one file; the axis of this one is known
    if [ -e "$BUILD/lib/voxpipe/voxpipe-hdf5.so" ]; then
        img-convert --flat flats --dark darks scan/views.tif -o scan.h5
    else
        sed -i '/scan\.h5/d; /lines\.tif/d' readme.sh
    fi
    # smaller ones
    sed -i 's/2004x1335 --pitch 0.025 --views 1800/64x42 --pitch 0.8 --views 20/; s/256x256/64x64/; s/--pitch 1 /--pitch 4 /
        s/--views 360/--views 60/' readme.sh
    bash -euo pipefail readme.sh 2>err || { cat readme.sh err; return 1; }
    [ "$(head -c 8 head.png | od -An -tx1)" = " 89 50 4e 47 0d 0a 1a 0a" ]
    if [ -e scan.h5 ]; then near "$(sed -n 's/^offset-u = \([^ ]*\).*/\1/p' found.geom)" 0 0.2; fi
    for file in pores.tif smooth.tif sharp.tif slice.png; do [ -s "$file" ]; done
    ct-normalize -g scan.geom --flat flats/ --dark darks/ scan/ | ct-filter | ct-backproject -o again.tif
    img-cmp vol.tif again.tif
}

@test "raw HDF5 to a slice: simulated, and of any scan" {
    [ -e "$BUILD/lib/voxpipe/voxpipe-hdf5.so" ] || skip "built without HDF5"
    sh "$ROOT/examples/from-hdf5.sh" made >out 2>err || { cat out err; return 1; }
    [ ! -s err ] || { cat err; return 1; }
    # the axis was put at 7.3 pixels; the numbers are errors against the phantom
    near "$(sed -n 's/^offset-u = \([^ ]*\).*/\1/p' out)" 7.3 0.15
    awk '$1 == "slice" { a = $2 } $1 == "without-rings" { b = $2 } $1 == "without-center" { c = $2 }
        END { if (!(a > 0 && a < 0.2 && b > 1.7 * a && c > 5 * a)) { print a, b, c; exit 1 } }' out
    grep -q "the picture: made/from-hdf5.png" out
    [ -s made/from-hdf5.png ]
    # the other one is for a file that is fetched; it takes any
    sh "$ROOT/examples/tooth.sh" made/scan.h5 tooth >out 2>err || { cat out err; return 1; }
    [ ! -s err ] || { cat err; return 1; }
    ct-rings -q made/lines.tif | ct-fdk -g made/found.geom | img-cmp -q - tooth/tooth.tif
    [ -s tooth/tooth.png ]
    fails 2 "tooth.sh: nothing.h5 is not there" sh "$ROOT/examples/tooth.sh" nothing.h5 tooth
    # TOOTH: the name of the real one
    [ -n "${TOOTH-}" ] || return 0
    sh "$ROOT/examples/tooth.sh" "$TOOTH" real >out
    near "$(sed -n 's/^# .*column \([0-9.]*\) of 640.*/\1/p; s/^offset-u.*column \([0-9.]*\) of 640.*/\1/p' out | head -n 1)" 295.75 0.25
}

@test "the demo makes the picture" {
    sh "$ROOT/examples/demo.sh" demo >out
    [ -s demo/slice.png ] && grep -q "the picture: demo/slice.png" out
}

@test "every task of voxpipe(7) runs, and every program has one" {
    sed -n '/^\.SH TASKS/,/^\.SH STACKS/p' "$ROOT/man/voxpipe.7" |
        sed -n "/^\.nf/,/^\.fi/{/^\./d;s/^.\{24\}//;s/\\\\e/\\\\/g;s/\\\\-/-/g;s/\\\\(aq/'/g;p}" >tasks
    for program in "$BUILD"/bin/*; do
        grep -qw -e "$(basename "$program")" tasks || { echo "no task for $(basename "$program")"; return 1; }
    done
    # what they read
    ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 4 --views 60 | ct-phantom -g - -o scan.tif
    ct-phantom -g scan.tif --noise 60000 --counts -o counts.tif
    ct-fdk scan.tif -o vol.tif
    cp vol.tif copy.tif
    img-threshold --at 0.01 vol.tif -o mask.tif
    for part in 0 1; do
        ct-fdk --slab $((32 * part)):$((32 * part + 32)) scan.tif -o s$part.tif
        ct-fdk --views $((30 * part)):$((30 * part + 30)) scan.tif -o half$((part + 1)).tif
    done
    echo "0:9 0:9 3" >boxes.txt
    mkdir slices
    head -c 192 /dev/zero | img-convert --raw-in 8x8x3:u8le --set axes=x,y,channel -o rgb.tif
    bash -euo pipefail tasks >out 2>err || { cat err; return 1; }
    [ ! -s err ] || { cat err; return 1; }
}
