# ct-project and ct-backproject --weight adjoint: options, headers, layouts, pipes, refusals. Values and transposes are
# those of tests/unit/pair_test.c.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 4 --views 37 -o scan.geom
    ct-phantom -g scan.geom --samples 3 -o scan.tif
    ct-phantom -g scan.geom --volume 48x48x40 --samples 3 -o vol.tif
}

setup_inputs() { cp "$BATS_FILE_TMPDIR"/* .; }
value() { img-info --value "$1" "$2"; }

# product A B: sum of A * B
product() { img-math -q a*b "$1" "$2" | img-info --value sum -; }

@test "the projections are those of the phantom, but for the voxels; the header is that of a scan" {
    setup_inputs
    ok ct-project -g scan.geom vol.tif -o p.tif
    img-cmp -q --max-rel-l2 0.03 p.tif scan.tif
    [ "$(value quantity p.tif)" = "line integral" ]
    [ "$(value axes p.tif)" = "u v view" ]
    [ "$(value voxel p.tif)" = "4 4" ]
    [ "$(value geom.sdd p.tif)" = 1000 ]
    [[ "$(img-info p.tif)" == *"ct-phantom --geometry scan.geom"*"ct-project --geometry scan.geom"* ]]
    # and so ct-fdk takes them
    ok ct-fdk p.tif -o fdk.tif
}

@test "the same bits for any number of threads, from a pipe, in any layout, for some views" {
    setup_inputs
    ok ct-project -g scan.geom -j 1 vol.tif -o a.tif
    for j in 2 5 40; do
        ok ct-project -g scan.geom -j $j vol.tif -o b.tif
        ok img-cmp -q a.tif b.tif
    done
    cat vol.tif | ct-project -g scan.geom -o b.tif
    ok img-cmp -q a.tif b.tif
    ok ct-project -g scan.geom --views 5:30 vol.tif -o b.tif
    img-cat --pages 5:30 a.tif -o c.tif
    ok img-cmp -q c.tif b.tif
    [ "$(ct-geom --show b.tif | grep -v '^#')" = "$(ct-geom --show c.tif | grep -v '^#')" ]
    ok ct-project -g scan.geom --layout sinograms vol.tif -o s.tif
    ct-project -g scan.geom --layout sinograms vol.tif | cat >t.tif
    ok img-cmp -q s.tif t.tif
    ct-fdk -q --layout sinograms s.tif -o x.tif
    ct-fdk -q a.tif -o y.tif
    ok img-cmp -q x.tif y.tif
}

@test "--subtract leaves the residual; noise is that of ct-phantom" {
    setup_inputs
    ct-project -g scan.geom vol.tif -o p.tif
    ok ct-project --subtract scan.tif vol.tif -o r.tif
    img-math -q a-b scan.tif p.tif -o want.tif
    ok img-cmp -q r.tif want.tif
    ok ct-project --subtract p.tif vol.tif -o zero.tif
    [ "$(img-info --value min,max zero.tif | xargs)" = "0 0" ]
    ok ct-project --subtract scan.tif --views 7:9 vol.tif -o r.tif
    img-cat --pages 7:9 want.tif | ok img-cmp -q - r.tif
    # an empty volume gives the counts of an empty scan
    img-math -q 'a*0' vol.tif -o empty.tif
    ok ct-project -g scan.geom --noise 1000 --seed 4 --counts empty.tif -o n.tif
    ct-phantom -g scan.geom --noise 1000 --seed 4 --counts --density 0 | ok img-cmp -q - n.tif
    [ "$(value quantity n.tif)" = counts ]
}

@test "the transpose: <Ax, y> = <x, A'y>, for slabs and views, too" {
    setup_inputs
    for scan in "" "--offset-u 9.5 --offset-v -3" "--tilt 3" "--beam parallel" "--lamino 40" "--pitch-z 60 --arc 720"; do
        options="--sod 500 --sdd 1000"
        [ "$scan" != "--beam parallel" ] || options=
        # shellcheck disable=SC2086
        ct-geom $options --detector 30x26 --pitch 4 --views 19 $scan -o g.geom
        noise noise.tif 30x26x19 f32
        img-convert --set axes=u,v,view noise.tif -o y.tif
        ct-backproject -q --weight adjoint -g g.geom --volume 30x28x22 --voxel 2.1,2,2.3 y.tif -o back.tif
        ct-phantom -g g.geom --phantom asymmetric --radius 20 --volume 30x28x22 --voxel 2.1,2,2.3 -o x.tif
        ct-project -q -g g.geom x.tif -o Ax.tif
        a=$(product Ax.tif y.tif) b=$(product x.tif back.tif)
        awk -v a="$a" -v b="$b" 'BEGIN { d = a / b - 1; exit !(a > 0 && d < 1e-6 && d > -1e-6) }' || { echo "$scan: $a $b"; return 1; }
        ct-backproject -q --weight adjoint -g g.geom --volume 30x28x22 --voxel 2.1,2,2.3 --slab 7:15 -j 3 y.tif -o slab.tif
        img-cat --pages 7:15 back.tif | ok img-cmp -q - slab.tif
    done
    img-cat y.tif | ok ct-backproject -q --weight adjoint -g g.geom --volume 30x28x22 --voxel 2.1,2,2.3 -o piped.tif
    ok img-cmp -q back.tif piped.tif
    ok ct-backproject --weight adjoint scan.tif -j 1 -o a.tif
    ok ct-backproject --weight adjoint scan.tif -j 5 -o b.tif
    ok img-cmp a.tif b.tif
}

@test "what is refused, and the way out" {
    setup_inputs
    fails 2 "the scan geometry is unknown" ct-project vol.tif
    [[ "$stderr" == *"hint: give -g FILE"* ]]
    fails 2 "--counts needs --noise I0" ct-project -g scan.geom --counts vol.tif
    fails 2 "--subtract and --noise cannot be combined" ct-project --subtract scan.tif --noise 10 vol.tif
    fails 2 "holds line integrals, not a volume" ct-project -g scan.geom scan.tif
    fails 2 "holds a reconstructed volume, not line integrals" ct-project --subtract vol.tif vol.tif
    fails 2 "--views 3:99: the scan has 37 views" ct-project -g scan.geom --views 3:99 vol.tif
    img-convert --set voxel= vol.tif -o bare.tif
    fails 2 "bare.tif: the voxel size is unknown" ct-project -g scan.geom bare.tif
    [[ "$stderr" == *"hint: img-convert --set voxel=0.1mm records it"* ]]
    img-convert --set axes=x,y,time vol.tif -o times.tif
    fails 2 "the pages are along time: expected slices of a volume" ct-project -g scan.geom times.tif
    img-convert --set value-unit=1/cm vol.tif -o cm.tif
    fails 2 "expected values in 1/mm, got 1/cm" ct-project -g scan.geom cm.tif
    img-math -q 'if(x == 3 and y == 4, nan, a)' vol.tif -o nan.tif
    fails 1 "nan.tif: 40 voxels are NaN or infinite" ct-project -g scan.geom nan.tif -o out.tif
    [ ! -e out.tif ]
    ct-geom scan.geom --curved -o curved.geom
    fails 2 "the detector is curved: expected a flat one" ct-project -g curved.geom vol.tif
    fails 3 "the volume and its projections take" ct-project -g scan.geom --memory 100K vol.tif
    fails 3 "the volume and its projections take" ct-backproject --weight adjoint --memory 300K scan.tif
    fails 2 "--weight adjoint and --subsets cannot be combined" ct-backproject --weight adjoint --subsets 2 scan.tif
    fails 2 "standard input is the image already" sh -c 'ct-project -g - <vol.tif'
}

@test "a scale of the volume is undone" {
    setup_inputs
    img-convert --type u16 --scale 30000,100 vol.tif -o scaled.tif
    img-convert --unscale scaled.tif -o values.tif
    ct-project -g scan.geom scaled.tif -o a.tif
    ct-project -g scan.geom values.tif -o b.tif
    ok img-cmp -q a.tif b.tif
}
