# A file for each page: -o 'slice_%04d.tif'.
load helper

@test "a file a page, which read back as the stack that they are" {
    noise a.tif 30x20x12 u16
    img-convert --set voxel=0.5,0.5,2mm --set axes=x,y,z a.tif -o v.tif
    ok img-cat v.tif -o 'slice_%04d.tif'
    [ "$(ls slice_*)" = "$(for i in 00 01 02 03 04 05 06 07 08 09 10 11; do echo slice_00$i.tif; done)" ]
    img-cat slice_*.tif | img-cmp - v.tif
    mkdir d
    img-cat v.tif -o d/%d.tif # in natural order
    [ -f d/11.tif ]
    img-cat d | img-cmp - v.tif
    for key in voxel unit axes; do
        [ "$(img-cat d | img-info --value $key)" = "$(img-info --value $key v.tif)" ]
    done
    img-info --value pages d/7.tif | grep -qx 1
    img-cat --pages 7 v.tif | img-convert --raw-out | cmp - <(img-convert --raw-out d/7.tif)
    # any program; compressed; of unknown length; samples without a header
    mkdir e f g
    img-gauss v.tif -o 'e/g%02d.tif' --compress deflate
    img-gauss v.tif | img-cmp - e
    uncounted v.tif | img-cat -o 'f/%03d.tif'
    img-cat f | img-cmp - v.tif
    img-cat --raw-out v.tif -o 'g/%03d.raw'
    cat g/*.raw | cmp - <(img-cat --raw-out v.tif)
    [ "$(find . -name '.voxpipe*')" = "" ]
}

@test "axes, palettes and the scan geometry come back, too" {
    noise a.tif 12x10x24 u8
    img-convert --set axes=x,y,channel,z,time --set sizes=2,6,2 a.tif -o m.tif
    mkdir d
    img-cat m.tif -o 'd/%02d.tif'
    img-cat d -o back.tif
    img-cmp m.tif back.tif
    [ "$(img-info --value sizes back.tif)" = "2 6 2" ]
    ct-geom --sod 300 --sdd 500 --detector 40x24 --pitch 2 --views 12 | ct-phantom -g - -o scan.tif
    mkdir s
    img-cat scan.tif -o 's/%02d.tif'
    ct-fdk scan.tif -o want.tif
    ct-fdk s -o got.tif
    img-cmp got.tif want.tif
    ct-fdk scan.tif -o 's2_%02d.tif'
    img-cat s2_*.tif | img-cmp - want.tif
}

@test "all files or none; a percent sign alone is a name" {
    noise a.tif 30x20x6 u16
    mkdir -p d/s03.tif
    fails 1 "s03.tif" img-cat a.tif -o 'd/s%02d.tif'
    [ "$(find d)" = "d
d/s03.tif" ]
    head -c 5000 a.tif >cut.tif
    fails 1 "truncated" sh -c 'cat cut.tif | img-cat -o "x%d.tif"'
    [ -z "$(find . -name 'x*')" ]
    img-cat a.tif -o '50%.tif'
    img-cmp a.tif '50%.tif'
    img-cat a.tif -o 'a%s.tif'
    [ -f 'a%s.tif' ]
    fails 1 "%d/" img-cat a.tif -o '%d/%d.tif' # of the name alone, not of folders
}

@test "img-view of all pages: numbered pictures with one window" {
    ct-phantom --volume 20x16x12 -o v.tif
    ok img-view --window 0,0.02 v.tif -o 'p%02d.png'
    [ "$(find . -name 'p*.png' | wc -l)" -eq 12 ]
    for i in 0 5 11; do
        img-view --window 0,0.02 --slice $i v.tif | cmp - "$(printf 'p%02d.png' $i)"
    done
    img-cat v.tif | img-view --window 0,0.02 -o 'q%d.png'
    cmp q11.png p11.png
    # one window for all, of pages that are evenly spaced
    img-view -v v.tif -o 'w%d.png' 2>note
    window=$(sed -n 's/.*window \(.*\) to \(.*\)/\1,\2/p' note)
    img-view --window "$window" --slice 3 v.tif | cmp - w3.png
    fails 2 "a series has all pages: expected none of --slice, --ortho, --montage and --project" img-view --slice 1 v.tif -o 'x%d.png'
    fails 2 "a series is of pages: expected --axis z" img-view --axis y v.tif -o 'x%d.png'
    mkdir -p y3.png
    fails 1 "y3.png" img-view v.tif -o 'y%d.png'
    [ "$(ls -d y*)" = y3.png ]
    # each channel's pages, in colour where they are red, green and blue
    noise a.tif 8x7x6 u8
    img-convert --set axes=x,y,channel,z --set sizes=3,2 a.tif -o c.tif
    img-view -q --channel 1 --window 0,255 c.tif -o 'c%d.png'
    [ "$(ls c?.png | wc -l)" -eq 2 ]
    img-view --channel 1 --slice 1 --window 0,255 c.tif | cmp - c1.png
}
