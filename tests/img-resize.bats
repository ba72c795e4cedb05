load helper

@test "bins are means, added up exactly and rounded to the nearest even; the rest at the end is left out" {
    perl -e 'print pack("C*", 1, 2, 3, 4, 9,  2, 2, 4, 4, 9,  7, 7, 7, 7, 7)' > a.raw
    img-convert --raw-in 5x3:u8 a.raw -o a.tif
    ok img-resize --bin 2 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "2 4" ]
    img-resize --bin 2 --type f32 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "1.75 3.75" ]
    img-resize --bin 5,1 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "4 4 7" ]
    fails 1 "--bin: expected at least 4 voxels along y, got 3" img-resize --bin 4 a.tif
    # means of planes are those of img-reduce
    noise v.tif 9x7x6 u16
    img-resize --bin 1,1,6 --type f32 v.tif | img-cmp - <(ct-reduce --op mean --pages v.tif)
    img-resize --bin 3 v.tif -o want.tif
    img-resize --bin 3,1,1 --type f32 v.tif | img-resize --bin 1,3,1 | img-resize --bin 1,1,3 |
        img-convert --type u16 | img-cmp --atol 1 - want.tif
}

@test "area, linear, cubic and nearest by hand" {
    floats a.tif 0 4 8 100
    img-resize --size 2x1 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "2 54" ]
    img-resize --size 3x1 a.tif -o b.tif # voxels of 4/3 samples
    [ "$(numbers b.tif 'f<')" = "1 6 77" ]
    img-resize --size 8x1 --method linear a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 1 3 5 7 31 77 100" ]
    img-resize --size 8x1 --method nearest a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 0 4 4 8 8 100 100" ]
    img-resize --size 8x1 --method area a.tif | img-cmp - b.tif
    # at distances of 1/4 and 3/4: Keys' weights with a = -1/2
    floats a.tif 0 0 0 128 0 0 0
    img-resize --size 14x1 a.tif -o b.tif
    [ "$(numbers b.tif 'f<')" = "0 0 0 -3 -9 29 111 111 29 -9 -3 0 0 0" ]
    # three times the size keeps the samples themselves
    img-resize --size 21x1 a.tif | img-cat --region 10:11,0:1 -o b.tif
    [ "$(numbers b.tif 'f<')" = 128 ]
}

@test "a constant stays the same to the bit, a ramp a ramp" {
    noise n.tif 24x17x9 f32
    img-math '0*a+0.1' n.tif -o c.tif
    for how in "--bin 2" "--scale 0.37" "--scale 2.3" "--scale 1.9 --method linear" "--size 100x3x20 --method area"; do
        # shellcheck disable=SC2086
        img-resize $how c.tif -o d.tif
        [ "$(img-info --value min,max d.tif | xargs)" = "$(img-info --value min,max c.tif | xargs)" ]
    done
    img-math 'x+2*y' c.tif -o ramp.tif
    img-resize --scale 2,2,1 --method cubic ramp.tif | img-math '(x-0.5)/2+(y-0.5)-a' | img-cat --region 6:40,6:26 -o d.tif
    [ "$(img-info --value max d.tif | awk '{ print ($1 < 1e-5) }')" = 1 ]
    [ "$(img-info --value min d.tif | awk '{ print ($1 > -1e-5) }')" = 1 ]
}

@test "voxel and origin follow, so that the image keeps its place" {
    ct-phantom --volume 32x32x16 --voxel 0.5 -o a.tif
    [ "$(img-info --value origin a.tif)" = "-7.75 -7.75 -3.75" ]
    img-resize --bin 2 a.tif -o b.tif
    [ "$(img-info --value voxel b.tif)" = "1 1 1" ]
    [ "$(img-info --value origin b.tif)" = "-7.5 -7.5 -3.5" ]
    img-resize --scale 2,1,0.5 a.tif -o b.tif
    [ "$(img-info --value voxel,origin,pages b.tif | xargs)" = "0.25 0.5 1 -7.875 -7.75 -3.5 8" ]
    # exact voxels, in the middle: 32 of 0.5 are 16 mm, 27 of 0.6 are 16.2
    img-resize --voxel 0.6 a.tif -o b.tif
    [ "$(img-info --value voxel b.tif)" = "0.6 0.6 0.6" ]
    near "$(img-info --value origin b.tif | cut -d' ' -f1)" -7.8 1e-9
    noise n.tif 5x5x5 u8
    fails 1 "the size of a voxel is not in the metadata" img-resize --voxel 1 n.tif
}

@test "a binned scan reconstructs in the same place: the geometry follows" {
    ct-geom --sod 300 --sdd 500 --detector 96x64 --pitch 1 --views 120 --offset-u 3.5 --offset-v -2 -o g.geom
    ct-geom --sod 300 --sdd 500 --detector 48x32 --pitch 2 --views 120 --offset-u 1.75 --offset-v -1 -o half.geom
    ct-geom --sod 300 --sdd 500 --detector 144x96 --pitch 0.6666666666666666 --views 120 --offset-u 5.25 --offset-v -3 \
        -o more.geom
    for matrices in "" "--format matrices"; do
        # shellcheck disable=SC2086
        ct-geom g.geom $matrices -o m.geom
        ct-phantom -g m.geom --phantom ball -o p.tif
        ct-fdk p.tif --volume 32x32x32 --voxel 1.2 -o want.tif
        ok img-resize --bin 2 p.tif -o b.tif
        ct-fdk b.tif --volume 32x32x32 --voxel 1.2 -o got.tif
        ct-fdk -g half.geom b.tif --volume 32x32x32 --voxel 1.2 | img-cmp -q --max-rel-l2 1e-6 - got.tif
        img-cmp -q --max-rel-l2 0.09 got.tif want.tif # with an axis half a pixel beside it is 0.12
        ok img-resize --scale 1.5 p.tif -o b.tif
        ct-fdk -g more.geom b.tif --volume 32x32x32 --voxel 1.2 -o got.tif
        ct-fdk b.tif --volume 32x32x32 --voxel 1.2 | img-cmp -q --max-rel-l2 1e-6 - got.tif
    done
    [ "$(img-info --value geom.detector b.tif)" = 144x96 ]
    # of sinograms columns alone; views that are merged have no angle
    perl -e 'print pack("f<*", (1) x (96 * 120 * 4))' > s.raw
    ct-geom --sod 300 --sdd 500 --detector 96x4 --pitch 1 --views 120 -o s.geom
    ct-phantom -g s.geom -o v.tif
    img-convert --raw-in 96x120:f32le s.raw | img-convert --set axes=u,view,v -o s.tif
    ok img-resize --2d --bin 2 s.tif -o b.tif
    run -0 --separate-stderr img-resize --bin 1,1,2 <(img-convert --set axes=x,y,z v.tif) -o b.tif
    [[ "$stderr" == *"the scan geometry is left out: views are merged"* ]]
}

@test "channels and times are not mixed; --2d" {
    noise a.tif 12x10x24 u16
    img-convert --set axes=x,y,channel,z,time --set sizes=2,6,2 a.tif -o m.tif
    ok img-resize --bin 2 m.tif -o b.tif
    [ "$(img-info --value sizes b.tif)" = "2 3 2" ]
    # channel 1 at time 1: pages 13, 15, ... 23
    img-cat --pages 13::2 a.tif | img-resize --bin 2 | img-convert --raw-out | cmp - <(img-cat --pages 7::2 b.tif | img-convert --raw-out)
    img-resize --2d --bin 2 a.tif | img-cmp - <(img-resize --bin 2,2,1 a.tif)
    fails 2 "single images" img-resize --2d --size 5x5x5 a.tif
}

@test "pipes give what files give; one of unknown length is copied if planes are resampled" {
    noise a.tif 20x16x11 f32
    for how in "--bin 2" "--scale 0.7" "--size 30x20" "--size 9x9x30"; do
        # shellcheck disable=SC2086
        img-resize $how a.tif -o want.tif
        # shellcheck disable=SC2086
        uncounted a.tif | img-resize $how | img-cmp - want.tif
    done
    uncounted a.tif | img-resize --plan --scale 0.7 | grep -q "spool.*copied to memory"
    run -0 --separate-stderr sh -c 'img-resize --plan --bin 2 <a.tif'
    [[ "$output" != *spool* ]]
}

@test "labels: nearest takes any type and makes no new values" {
    perl -e 'print pack("Q<*", 1, 1152921504606846977, 3, 9223372036854775809)' > a.raw
    img-convert --raw-in 2x2:u64le a.raw -o a.tif
    ok img-resize --scale 2 --method nearest a.tif -o b.tif
    [ "$(numbers b.tif 'Q<')" = "1 1 1152921504606846977 1152921504606846977 1 1 1152921504606846977 1152921504606846977 3 3 9223372036854775809 9223372036854775809 3 3 9223372036854775809 9223372036854775809" ]
    fails 2 "expected at most 32 bits, or f64" img-resize --scale 2 a.tif
    [[ "$stderr" == *"hint: --method nearest does"* ]]
}

@test "what is wrong is said in one line" {
    noise a.tif 5x4x3 u8
    fails 2 "expected one of --bin, --scale, --size and --voxel, got 0" img-resize a.tif
    fails 2 "expected one of --bin, --scale, --size and --voxel, got 2" img-resize --bin 2 --scale 2 a.tif
    fails 2 "--bin: expected whole numbers, got 1.5" img-resize --bin 1.5 a.tif
    [[ "$stderr" == *"hint: --scale takes fractions"* ]]
    fails 2 "--size: expected WxH or WxHxD, got one number" img-resize --size 5 a.tif
    fails 2 "--bin and --method cannot be combined" img-resize --bin 2 --method linear a.tif
}

# level FILE K: page 0 in the K-th smaller size: a copy that begins with the directory that tag 330 names, which is no
# longer marked as another page in small
level() {
    local offset
    offset=$(tiffdump "$1" | sed -n '/SubIFD/{s/.*<\(.*\)>.*/\1/p;q}' | cut -d' ' -f"$2")
    perl -0777 -pe 'BEGIN { $at = hex shift } substr($_, 4, 4) = pack("V", $at);
        substr($_, $at) =~ s/\xfe\0\x04\0\x01\0\0\0\K\x01/\0/' "$offset" "$1"
}

@test "--pyramid: the page as it was, and each level is the mean of its bins, of every type" {
    command -v tiffdump >/dev/null || skip "no tiffdump"
    for type in u8 i16 u16 f32; do
        noise a.tif 1337x1100x2 $type
        ok img-resize --pyramid a.tif -o p.ome.tif
        ok img-cmp a.tif p.ome.tif
        for k in 1 2; do
            level p.ome.tif $k >level.tif
            img-cat --pages 0 a.tif | img-resize --2d --bin $((2 ** k)) -o want.tif
            ok img-cmp level.tif want.tif
        done
        # until one fits a tile: none is smaller
        [ "$(tiffdump p.ome.tif | grep -c "SubIFD.* 2<")" -eq 2 ]
    done
    # small images have one size
    noise a.tif 40x30x2 u8
    ok img-resize --pyramid a.tif -o p.ome.tif
    [ "$(tiffdump p.ome.tif | grep -c SubIFD)" -eq 0 ]
    ok img-cmp a.tif p.ome.tif
}

@test "--pyramid: the same bytes from pipes, for threads and memory; after another size; axes and voxels stay" {
    noise a.tif 700x600x6 u16
    img-convert --set axes=x,y,z,channel --set sizes=3,2 --set voxel=0.5,0.5,2mm a.tif -o b.tif
    ok img-resize --pyramid b.tif -o p.ome.tif
    img-info p.ome.tif >info
    grep -q '^axes  *x y z channel' info
    grep -q '^voxel  *0.5 0.5 2$' info
    uncounted b.tif | img-resize --pyramid -j 1 -o q.ome.tif
    cmp p.ome.tif q.ome.tif
    img-resize --pyramid -m 20M -j 3 --compress deflate b.tif -o q.ome.tif
    cmp p.ome.tif q.ome.tif
    img-resize --bin 1,1,3 --pyramid b.tif -o p.ome.tif
    img-resize --bin 1,1,3 b.tif | img-resize --pyramid -o q.ome.tif
    cmp p.ome.tif q.ome.tif
}

@test "--pyramid: what OME-TIFF cannot hold is refused, and no file is left" {
    noise a.tif 40x30x2 u16
    fails 2 "--pyramid: standard output cannot be one" img-resize --pyramid a.tif
    fails 2 "--pyramid and --raw-out cannot be combined" img-resize --pyramid --raw-out a.tif -o p.raw
    img-convert --set scale=100,3 a.tif -o s.tif
    fails 2 "--pyramid: the samples have a recorded scale" img-resize --pyramid s.tif -o p.tif
    img-convert --set axes=x,y,view a.tif -o s.tif
    fails 2 "OME-TIFF has the axes z, channel and time; expected these, got x y view" img-resize --pyramid s.tif -o p.tif
    img-convert --type u64 a.tif -o s.tif
    fails 2 "expected" img-resize --pyramid s.tif -o p.tif
    fails 2 "--pyramid: expected the name of one file" img-resize --pyramid a.tif -o 'p_%02d.tif'
    fails 2 "--pyramid: expected the name of a TIFF file" img-resize --pyramid a.tif -o p.nrrd
    [ "$(find . -name 'p*' | wc -l)" -eq 0 ]
}

@test "--pyramid: tifffile reads the levels" {
    python3 -c 'import tifffile' 2>/dev/null || skip "no tifffile"
    noise a.tif 1337x1100x2 u16
    img-resize --pyramid a.tif -o p.ome.tif
    [ "$(python3 -c 'import tifffile
s = tifffile.TiffFile("p.ome.tif").series[0]
print(s.kind, s.axes, [level.shape for level in s.levels])')" = "ome ZYX [(2, 1100, 1337), (2, 550, 668), (2, 275, 334)]" ]
}
