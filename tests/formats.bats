# NumPy, NRRD, MetaImage, NIfTI, EDF and PNG: files of their own programs, ours read by them, pipes, refusals.
load helper

setup_file() {
    for PYTHON in python3 /usr/bin/python3; do
        if "$PYTHON" -c 'import numpy' 2>/dev/null; then break; fi
    done
    export PYTHON
}

# needs MODULE: skips where Python does not have it
needs() {
    "$PYTHON" -c "import $1" 2>/dev/null || skip "no $1"
}

# samples FORMAT SHIFT...: x + 10 y + 100 z of 4 x 3 x 2, packed by perl
samples() {
    perl -e 'print pack($ARGV[0], map { my $z = $_; map { my $y = $_; map { $_ + 10 * $y + 100 * $z } 0..3 } 0..2 } 0..1)' "$1"
}

# from_both FILE: writes the samples to out.raw, and checks that a pipe gives the same
from_both() {
    img-convert -q --raw-out "$1" -o out.raw
    cat "$1" | img-convert -q --raw-out | cmp - out.raw
}

@test "small files of other programs, from file and pipe" {
    samples 'v*' >u16.raw
    samples 'f<*' >f32.raw
    F=$DATA/formats
    for file in be.npy gzip.nrrd zlib.mha two.edf; do
        echo "$file"
        from_both "$F/$file"
        cmp out.raw u16.raw
    done
    from_both "$F/be.nii.gz"
    cmp out.raw f32.raw
    for file in detached.mhd detached.nhdr; do
        img-convert --raw-out "$F/$file" | cmp - u16.raw
        fails 1 "its samples are in another file, 'detached.raw'" sh -c "cat $F/$file | img-info -"
    done
    for file in gzip.nrrd zlib.mha be.nii.gz detached.mhd detached.nhdr; do
        [ "$(img-info --value voxel,unit,origin "$F/$file" | xargs)" = "0.1 0.2 0.3 mm 1 2 3" ] || { echo "$file"; return 1; }
    done
    [ "$(img-info --value voxel,unit "$F/two.edf" | xargs)" = "0.1 0.2 mm" ]
    [ "$(img-info --value type "$F/be.npy")" = i16 ]
    # the scale of NIfTI: values are half of what is stored, less one
    [ "$(img-info --value scale "$F/be.nii.gz")" = "2 2" ]
    img-math 'a*2+2' "$F/be.nii.gz" | img-convert --raw-out | cmp - f32.raw
}

@test "PNG: grey of 2 and 16 bits, colours, a palette" {
    F=$DATA/formats
    from_both "$F/grey16.png"
    perl -e 'print pack("v*", map { my $y = $_; map { 100 * ($_ + 10 * $y + 100) } 0..3 } 0..2)' | cmp - out.raw
    from_both "$F/grey2.png"
    perl -e 'print pack("C*", map { my $y = $_; map { ($_ + 10 * $y) % 4 } 0..3 } 0..2)' >index.raw
    cmp index.raw out.raw
    from_both "$F/rgb.png"
    samples 'C*' >rgb.raw
    perl -e 'print pack("C*", map { my $y = $_; map { 255 - $_ - 10 * $y } 0..3 } 0..2)' >>rgb.raw
    cmp rgb.raw out.raw
    [ "$(img-info --value axes,channels "$F/rgb.png" | xargs)" = "x y channel red green blue" ]
    from_both "$F/palette.png"
    cmp index.raw out.raw
    img-convert --palette expand --raw-out "$F/palette.png" -o expanded.raw
    head -c 4 expanded.raw | cmp - <(printf '\0\377\0\1')
    # what img-view writes
    floats a.tif 0 1 2 3 4 5
    img-view -q a.tif -o a.png
    ok img-info a.png
    # many are a stack
    cp "$F/grey16.png" b.png
    [ "$(img-info --value pages "$F/grey16.png" b.png)" = 2 ]
}

@test "outputs are read back with size, origin and, in NRRD, all metadata; pipes and files give the same bytes" {
    ct-phantom --volume 20x16x12 --voxel 0.25 -o a.tif
    for ending in npy nrrd mha nii; do
        ok img-convert a.tif -o a.$ending
        img-cmp -q a.tif a.$ending
        cat a.$ending | img-cmp -q - a.tif
        cat a.tif | img-convert -o b.$ending # their number comes last
        cmp a.$ending b.$ending || [ $ending = nrrd ]
        img-cmp -q a.tif b.$ending
        [ $ending = npy ] || [ "$(img-info --value voxel,unit,origin a.$ending | xargs)" = \
            "$(img-info --value voxel,unit,origin a.tif | xargs)" ]
        fails 2 "x.$ending: " img-convert --compress deflate a.tif -o x.$ending
        head -c 9000 a.tif >cut.tif
        run ! img-convert cut.tif -o x.$ending
        run ! sh -c "head -c 9000 a.tif | img-convert -o x.$ending"
        [ ! -e x.$ending ]
        mkfifo pipe.$ending
        fails 2 "begins with the number of pages, which is not known" \
            sh -c "cat pipe.$ending >pipe.out & img-convert --raw-out a.tif | img-convert --raw-in 20x16:f32 -o pipe.$ending"
        img-gauss --sigma 1 a.tif -o g.$ending # in any order, by several threads
        img-gauss --sigma 1 a.tif | img-cmp -q - g.$ending
    done
    [ "$(img-info -v a.nrrd 2>/dev/null | grep -v history | tail -n +2)" = \
        "$(img-info -v a.tif 2>/dev/null | grep -v history | tail -n +2)" ]
    img-convert -q --type u16 --scale 100,3 a.tif -o s.nii
    [ "$(img-info --value scale s.nii)" != "" ]
    img-cmp -q --atol 0.006 a.tif s.nii
}

@test "every type and byte order, against NumPy, SimpleITK and nibabel" {
    needs SimpleITK
    needs nibabel
    "$PYTHON" -c "
import numpy as np, nibabel as nib, SimpleITK as sitk
a = np.random.default_rng(2).integers(0, 120, (5, 6, 8))
for t in 'u1 u2 u4 u8 i1 i2 i4 i8 f4 f8'.split():
    a.astype('<' + t).tofile(t + '.raw')
    for e in '<>':
        np.save(t + '_' + 'lb'[e == '>'] + '.npy', a.astype(e + t))
        h = nib.Nifti1Header(endianness=e)
        h.set_data_dtype(e + t)
        nib.Nifti1Image(a.astype(t).T, None, h).to_filename(t + '_' + 'lb'[e == '>'] + '.nii')
    im = sitk.GetImageFromArray(a.astype(t))
    for x in ('nrrd', 'mha', 'nii.gz', 'mhd', 'nhdr'):
        for c in (0, 1):
            sitk.WriteImage(im, f'{t}_{c}.{x}', bool(c))"
    for file in *.npy *.nii *.nrrd *.mha *.mhd *.nhdr *.nii.gz; do
        img-convert -q --raw-out "$file" | cmp - "${file:0:2}.raw" || { echo "$file"; return 1; }
    done
    for type in u1 u2 u4 u8 i1 i2 i4 i8 f4 f8; do
        img-convert --raw-in "8x6:${type:0:1}$((8 * ${type:1:1}))" --set axes=x,y,z --set voxel=0.1,0.2,0.3mm $type.raw \
            -o $type.tif
        for ending in npy nrrd mha nii; do img-convert $type.tif -o "our_$type.$ending"; done
    done
    "$PYTHON" -c "
import numpy as np, nibabel as nib, SimpleITK as sitk
for t in 'u1 u2 u4 u8 i1 i2 i4 i8 f4 f8'.split():
    want = np.fromfile(t + '.raw', '<' + t).reshape(5, 6, 8)
    def same(b): assert b.dtype == want.dtype and b.shape == want.shape and (b == want).all(), t
    same(np.load(f'our_{t}.npy'))
    same(np.asarray(nib.load(f'our_{t}.nii').dataobj).T)
    assert np.allclose(nib.load(f'our_{t}.nii').affine, np.diag([.1, .2, .3, 1]))
    for x in ('nrrd', 'mha', 'nii'):
        im = sitk.ReadImage(f'our_{t}.{x}')
        same(sitk.GetArrayFromImage(im))
        assert np.allclose(im.GetSpacing(), (.1, .2, .3)), (x, im.GetSpacing())"
}

@test "what cannot be known is left out with a warning, what cannot be read is refused by name" {
    printf 'NRRD0004\ntype: short\ndimension: 2\nsizes: 2 1\nencoding: raw\nendian: little\nspacings: 1 2\n\nabcd' >a.nrrd
    run --separate-stderr img-info a.nrrd
    [[ "$status" = 0 && "$stderr" == *"its spacing is left out: it has no unit of length"* && "$output" != *voxel* ]]
    sed 's/spacings.*/&\nunits: "um" "um"/' a.nrrd >b.nrrd
    [ "$(img-info --value voxel b.nrrd)" = "0.001 0.002" ]
    sed 's/spacings.*/space dimension: 2\nspace directions: (0,1) (1,0)\nunits: "mm" "mm"/' a.nrrd >c.nrrd
    run --separate-stderr img-info c.nrrd
    [[ "$stderr" == *"its orientation is left out"* ]]
    # each row: a word of the header, another in its place, the refusal
    while IFS='|' read -r from to why; do
        sed "s/$from/$to/" a.nrrd >x.nrrd
        fails 1 "x.nrrd: $why" img-info x.nrrd
    done <<'EOT'
short|block|expected samples that are integers or floats, got type block
dimension: 2|dimension: 4|expected 2 or 3 axes, got dimension 4
raw|bzip2|expected encoding raw or gzip, got bzip2
raw|gzip|its compressed data are damaged
sizes: 2 1|sizes: 2 2|expected 1 pages of 8 bytes after those skipped, got 4 bytes
sizes: 2 1|sizes: 2 0|expected axes of at least 1 sample, got 0
sizes: 2 1|sizes: 2|expected 2 numbers in sizes
spacings: 1 2|kinds: RGB-color domain|expected axes of space, got one of kind RGB-color
spacings: 1 2|data file: LIST|expected one data file, got several: LIST
spacings: 1 2|data file: none.raw|its samples, none.raw: No such file
EOT
    fails 1 "a.npy: its array is in Fortran's order" sh -c "printf '\223NUMPY\1\0\100\0%-63s\nab' \
        \"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2)}\" >a.npy; img-info a.npy"
    fails 1 "c.npy: expected integers or floats of 4 or 8 bytes, got '<c8'" sh -c "printf '\223NUMPY\1\0\100\0%-63s\nab' \
        \"{'descr': '<c8', 'fortran_order': False, 'shape': (1, 2)}\" >c.npy; img-info c.npy"
    fails 1 "d.npy: expected 2 or 3 axes, got 4" sh -c "printf '\223NUMPY\1\0\120\0%-79s\nab' \
        \"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 2)}\" >d.npy; img-info d.npy"
    printf 'ObjectType = Image\nNDims = 2\nDimSize = 2 1\nElementType = MET_UCHAR\nElementDataFile = LOCAL\nab' >a.mha
    ok img-info a.mha
    sed 's/NDims = 2/&\nElementNumberOfChannels = 3/' a.mha >b.mha
    fails 1 "b.mha: expected one sample a voxel, got ElementNumberOfChannels 3" img-info b.mha
    fails 1 "c.mha: expected an ElementType of integers or floats, got 'MET_OTHER'" sh -c 'sed s/UCHAR/OTHER/ a.mha >c.mha; img-info c.mha'
    F=$DATA/formats
    for file in be.npy gzip.nrrd zlib.mha be.nii.gz two.edf grey16.png; do
        size=$(stat -c %s "$F/$file")
        head -c $((size - 14)) "$F/$file" >"cut-$file"
        run ! img-convert "cut-$file" -o never.tif
        run ! sh -c "cat cut-$file | img-convert -o never.tif"
        [ ! -e never.tif ]
    done
    for file in be.npy two.edf; do
        { cat "$F/$file"; printf 'more than that'; } >"long-$file"
        run ! img-convert "long-$file" -o never.tif
        run ! sh -c "cat long-$file | img-convert -o never.tif"
    done
    sed 's/UnsignedShort/Complex/' "$F/two.edf" >b.edf
    fails 1 "b.edf: expected a DataType of integers or floats, got 'Complex'" img-info b.edf
}
