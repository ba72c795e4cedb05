# HDF5 as input and output, against h5py, and files of it in tests/data: scans with flats, darks and angles; paths;
# filters; refusals.
load helper

setup_file() {
    for PYTHON in python3 /usr/bin/python3; do
        if "$PYTHON" -c 'import h5py' 2>/dev/null; then break; fi
    done
    export PYTHON
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    [ -e "$BUILD/lib/voxpipe/voxpipe-hdf5.so" ] || skip "built without HDF5"
}

# py TEXT: runs it with what makes files
py() {
    "$PYTHON" -c 'import h5py' 2>/dev/null || skip "no h5py"
    "$PYTHON" -c "
import h5py, numpy as np
rng = np.random.default_rng(1)
TYPES = 'u1 u2 u4 u8 i1 i2 i4 i8 f4 f8'.split()
KEY = [2, 1, 1, 0, 0, 0, 1, 0, 0, 1, 3]
def frames(t, n=11):
    a = rng.integers(0, 120, (n, 6, 8)).astype(t)
    a[0, 0, 0] = np.nan if t[-2] == 'f' else np.iinfo(t).max
    return a
def nexus(name, a, links=True, unit='degree', angle=np.arange(11) * 15., **how):
    with h5py.File(name, 'w') as f:
        d, s = f.create_group('entry/instrument/detector'), f.create_group('entry/sample')
        d.create_dataset('data', data=a, **how)
        d['image_key'] = np.array(KEY, 'i4')
        s['rotation_angle'] = angle
        if unit: s['rotation_angle'].attrs['units'] = unit
        d['x_pixel_size'] = 6.5e-6
        d['x_pixel_size'].attrs['units'] = 'm'
        if links:
            g = f.create_group('entry/data')
            g['data'], g['image_key'], g['rotation_angle'] = d['data'], d['image_key'], s['rotation_angle']
def exchange(name, a, **how):
    with h5py.File(name, 'w') as f:
        g = f.create_group('exchange')
        g.create_dataset('data', data=a[3:9], **how)
        g['data_white'], g['data_dark'], g['theta'] = a[:2], a[2:3], np.linspace(0, 150, 6)
$1"
}

# same INPUT FILE: the samples, in the host's byte order, are the bytes of FILE
same() {
    img-convert --raw-out "$1" | cmp - "$2" || { echo "$1 differs from $2"; return 1; }
}

# frames FORMAT NUMBER...: x + 10 y + 100 NUMBER of 4 x 3 pixels, of each frame
frames() {
    perl -e 'my $f = shift; print pack($f, map { my $z = $_; map { my $y = $_; map { $_ + 10 * $y + 100 * $z } 0..3 } 0..2 } @ARGV)' "$@"
}

@test "small files of both layouts, without h5py" {
    N=$DATA/formats/nxtomo.h5 X=$DATA/formats/dxchange.h5
    # keys 1 0 0 2 0 1
    same "$N" <(frames 'v*' 1 2 4)
    same "$N:flats" <(frames 'v*' 0 5)
    same "$N:flats.1" <(frames 'v*' 5)
    same "$N:darks" <(frames 'v*' 3)
    same "$N:/entry/instrument/detector/data" <(frames 'v*' 0 1 2 3 4 5)
    [ "$(img-info --value nx,ny,pages,type,axes,quantity,voxel,unit "$N" | xargs)" = "4 3 3 u16 u v view counts 0.01 0.01 mm" ]
    [ "$(ct-geom "$N" | grep -E '^(beam|angles)' | sed 's/ *#.*//' | xargs)" = "beam = parallel angles = 0:45:3" ]
    same "$X" <(frames 'v*' 0 1 2)
    same "$X:flats" <(frames 'v*' 3 4)
    same "$X:darks" <(frames 'v*' 5)
    [ "$(ct-geom "$X" | grep -E '^(beam|angles)' | sed 's/ *#.*//' | xargs)" = "beam = parallel angles = 0:60:3" ]
    # their flats are darker than their darks
    fails 1 "all 12 pixels are dead" ct-normalize -q "$X"
}

@test "every type, both byte orders, in one piece, in chunks, deflated: the bytes of h5py" {
    py "
for t in TYPES:
    for e in '<>':
        a = frames(e + t)
        a.astype('<' + t).tofile(t + e + '.raw')
        with h5py.File(t + e + '.h5', 'w') as f:
            f['plain'] = a
            f.create_dataset('chunks', data=a, chunks=(3, 4, 5))
            f.create_dataset('packed', data=a, chunks=(1, 6, 8), compression='gzip', shuffle=True, fletcher32=True)
            f['page'] = a[0]"
    for file in *.h5; do
        for set in plain chunks packed; do
            same "$file:/$set" "${file%.h5}.raw"
            [ "$(img-info --value type "$file:/$set")" = "$(tr 1248 '1248' <<<"${file:0:1}")$((8 * ${file:1:1}))" ]
        done
        head -c $((48 * ${file:1:1})) "${file%.h5}.raw" >page.raw
        same "$file:/page" page.raw
    done
    # short floats and booleans
    py "
a = frames('<f4').astype('<f2')
a[0, 0, 0] = 1.5
with h5py.File('a.h5', 'w') as f: f['half'], f['bool'] = a, a > 50
a.astype('<f4').tofile('half.raw')
(a > 50).tofile('bool.raw')"
    same a.h5:/half half.raw
    same a.h5:/bool bool.raw
}

@test "NXtomo: views, flats and darks by the key, angles and pixel size; ct-normalize and ct-fdk need nothing else" {
    py "
a = frames('<u2') + 200
a[0] = 100
nexus('a.h5', a)
nexus('b.h5', a, links=False, unit='rad', angle=np.radians(np.arange(11) * 15), chunks=(2, 6, 8), compression='gzip')
k = np.array(KEY)
for i, n in enumerate(['views', 'flats', 'darks']): a[k == i].tofile(n + '.raw')"
    for file in a.h5 b.h5; do
        same $file views.raw
        same $file:/entry views.raw
        same $file:flats flats.raw
        same $file:/entry:flats flats.raw
        same $file:darks darks.raw
        [ "$(img-info --value axes,quantity,voxel,unit $file | xargs)" = "u v view counts 0.0065 0.0065 mm" ]
        [ "$(ct-geom $file | grep -E '^(beam|detector|pitch)' | sed 's/ *#.*//' | xargs)" = \
            "beam = parallel detector = 8x6 pitch = 0.0065" ]
        [ "$(ct-geom $file | sed -n 's/^angles = \([^#]*\).*/\1/p' | xargs printf '%.9g ')" = "45 60 75 105 120 " ]
        ct-normalize -q $file -o own.tif
        ct-normalize -q --flat $file:flats.0 --flat $file:flats.1 --flat $file:flats.2 --flat-at=-0.5,2.5,4.5 \
            --dark $file:darks $file -o named.tif
        img-cmp -q own.tif named.tif
        ct-fdk -q $file -o v.tif
        ct-fdk -q named.tif | img-cmp -q - v.tif
    done
    img-convert --raw-out a.h5:flats.1 | cmp - <(tail -c +193 flats.raw | head -c 96)
    # options go first
    ct-normalize -q --i0 1000 --dark a.h5:darks a.h5 -o given.tif
    run ! img-cmp -q own.tif given.tif
    img-convert --raw-out a.h5 | img-convert --raw-in 8x6:u16le --set quantity=counts -o views.tif
    ct-normalize -q --i0 1000 --dark a.h5:darks views.tif | img-cmp -q - given.tif
}

@test "DXchange: data, data_white, data_dark, theta" {
    py "
a = frames('<u2') + 200
exchange('a.h5', a)
a[3:9].tofile('views.raw'); a[:2].tofile('white.raw'); a[2:3].tofile('dark.raw')"
    run --separate-stderr img-info -v a.h5
    [[ "$stderr" == *"its pixel size is not known: 1 mm is assumed; ct-geom --pitch changes it"* ]]
    [[ "$output" == *"geom.angles  0 30 60 90 120 150"* ]]
    img-convert -q --raw-out a.h5 | cmp - views.raw
    same a.h5:flats white.raw
    same a.h5:darks dark.raw
    ct-normalize -q a.h5 -o own.tif
    ct-normalize -q --flat a.h5:flats --dark a.h5:darks a.h5 | img-cmp -q - own.tif
}

@test "which data set: one is taken, several are listed, a path names one" {
    py "
a = frames('<u2')
a.tofile('a.raw')
with h5py.File('one.h5', 'w') as f: f['deep/er/volume'] = a; f['deep/mean'] = a[0]; f['numbers'] = np.arange(5)
with h5py.File('two.h5', 'w') as f:
    f['x/volume'], f['mask'], f['four'], f['text'], f['complex'] = a, a, a[None], 'word', a * 1j
with h5py.File('none.h5', 'w') as f: f['numbers'] = np.arange(5)"
    same one.h5 a.raw
    same two.h5:/x/volume a.raw
    same two.h5:/x a.raw
    fails 1 "two.h5: expected one data set, got 3: /complex, /mask, /x/volume" img-info two.h5
    [[ "$stderr" == *"hint: name one, as in FILE.h5:/complex"* ]]
    fails 1 "none.h5: expected a data set of 3 axes or 2, got none" img-info none.h5
    fails 1 "two.h5:/four: /four: expected 3 axes (page, row, column) or 2, got 4" img-info two.h5:/four
    fails 1 "two.h5:/complex: /complex: expected integers or floats of at most 8 bytes, got compounds of 16 bytes" \
        img-info two.h5:/complex
    fails 1 "two.h5:/nothing: there is no data set or group /nothing" img-info two.h5:/nothing
    fails 1 "expected :/PATH, :flats, :flats.N or :darks after the file's name" img-info two.h5:text
    fails 1 "one.h5:flats: the scan has no such flats" img-info one.h5:flats
    img-convert one.h5 -o a.tif
    fails 1 "only files of several data sets have parts (HDF5, txrm)" img-info a.tif:/x
    # a file whose name has a colon is a file
    cp one.h5 'two.h5:odd'
    same two.h5:odd a.raw
}

@test "from a file, also on standard input, not from a pipe" {
    py "
a = frames('<u2')
a.tofile('a.raw')
with h5py.File('a.h5', 'w') as f: f['volume'] = a"
    fails 1 "standard input: HDF5 cannot be read from a pipe" sh -c 'cat a.h5 | img-info --statistics -'
    fails 1 "standard input: HDF5 cannot be read from a pipe" sh -c 'cat a.h5 | img-info --spool --statistics -'
    img-convert --raw-out <a.h5 | cmp - a.raw
}

@test "what is wrong with a scan is said with the name of the data set" {
    py "
a = frames('<u2')
def broken(name, work, **how):
    nexus(name, a, links=False, **how)
    with h5py.File(name, 'a') as f: work(f)
D = 'entry/instrument/detector/'
def key(n):
    def work(f):
        del f[D + 'image_key']
        f[D + 'image_key'] = np.zeros(n, 'i4')
    return work
broken('key.h5', key(10))
broken('nan.h5', lambda f: f['entry/sample/rotation_angle'].__setitem__(4, np.nan))
broken('none.h5', lambda f: None, unit=None, angle=np.radians(np.arange(11) * 15))
broken('degrees.h5', lambda f: None, unit=None)
def lab(f):
    f['entry/instrument/source/type'] = 'Metal Jet X-ray'
broken('lab.h5', lab)
def cone(f):
    lab(f)
    for p, v in (('source', -0.1), ('detector', 0.3)):
        f['entry/instrument/' + p + '/distance'] = v
        f['entry/instrument/' + p + '/distance'].attrs['units'] = 'm'
broken('cone.h5', cone)
def shorter(f):
    del f['entry/sample/rotation_angle']
    f['entry/sample/rotation_angle'] = np.arange(3.)
broken('short.h5', shorter)
nexus('two.h5', a)
with h5py.File('two.h5', 'a') as f: f.copy('entry', 'entry2')"
    fails 1 "/entry/instrument/detector/image_key: expected 11 numbers, got 10" img-info key.h5
    fails 1 "/entry/sample/rotation_angle: the angle of view 1: expected a number, got nan" img-info nan.h5
    fails 1 "/entry/sample/rotation_angle: expected 11 numbers, got 3" img-info short.h5
    fails 1 "two.h5: expected one data set, got 2: /entry/data, /entry2/data" img-info two.h5
    ok img-info two.h5:/entry2
    run --separate-stderr img-info none.h5
    [[ "$status" = 0 && "$stderr" == *"its angles are left out: they have no known unit"* ]]
    ok img-info degrees.h5
    run --separate-stderr img-info lab.h5
    [[ "$stderr" == *"its angles are left out: it is of an X-ray tube"* ]]
    [ "$(ct-geom cone.h5 | grep -E '^(beam|sod|sdd)' | sed 's/ *#.*//' | xargs)" = "beam = cone sod = 100 sdd = 400" ]
    head -c 2000 degrees.h5 >cut.h5
    fails 1 "cut.h5: not readable as HDF5" img-info cut.h5
    printf '\211HDF\r\n\032\n' >no.h5
    fails 1 "no.h5: not readable as HDF5" img-info no.h5
}

@test "filters: LZ4, bitshuffle, Blosc and others where they are installed, else named" {
    py "
a = frames('<u2')
a.tofile('a.raw')
FILTERS = (('lz4', 32004, (0,)), ('shuffle', 32008, (0, 2)), ('blosc', 32001, (0, 0, 0, 0, 5, 1, 0)), ('zstd', 32015, (3,)))
try:
    import hdf5plugin
    print(hdf5plugin.PLUGIN_PATH, file=open('folder', 'w'))
except ImportError:
    pass
for n, i, o in FILTERS:
    if h5py.h5z.filter_avail(i):
        with h5py.File(n + '.h5', 'w') as f:
            f.create_dataset('volume', data=a, chunks=(2, 6, 8), compression=i, compression_opts=o)"
    found=0
    [ ! -e folder ] || HDF5_PLUGIN_PATH=$(cat folder)
    [ ! -e folder ] || export HDF5_PLUGIN_PATH
    for one in "lz4 32004 LZ4" "shuffle 32008 bitshuffle" "blosc 32001 Blosc" "zstd 32015 Zstandard"; do
        read -r file id name <<<"$one"
        [ -e $file.h5 ] || continue
        found=1
        HDF5_PLUGIN_PATH=/nowhere fails 3 \
            "$file.h5: /volume: it is compressed by HDF5 filter $id ($name), which is not installed" img-info $file.h5
        same $file.h5 a.raw
    done
    [ $found = 1 ] || skip "no filters are installed"
}

@test "outputs: any program, every type, a page a chunk, metadata and all, whole or not at all" {
    ct-phantom --volume 20x16x12 -o a.tif
    ok img-convert a.tif -o a.h5
    img-cmp -q a.tif a.h5
    [ "$(img-info -v a.h5 2>/dev/null | grep -v history | tail -n +2)" = \
        "$(img-info -v a.tif 2>/dev/null | grep -v history | tail -n +2)" ]
    cat a.tif | img-convert -o b.h5 # the number of pages comes last
    img-cmp -q a.tif b.h5
    ok img-convert --compress deflate a.tif -o c.h5
    img-cmp -q a.tif c.h5
    [ "$(stat -c %s c.h5)" -lt "$(stat -c %s a.h5)" ]
    img-gauss --sigma 1 --device cpu a.h5 -o g.h5
    img-gauss --sigma 1 --device cpu a.tif | img-cmp -q - g.h5
    img-convert a.tif -o again.h5
    cmp a.h5 again.h5
    fails 2 "x.h5: HDF5 is written with --compress deflate, got zstd" img-convert --compress zstd a.tif -o x.h5
    mkfifo pipe.h5
    fails 2 "pipe.h5: HDF5 cannot be written to a pipe or device" sh -c 'cat pipe.h5 & img-convert a.tif -o pipe.h5; s=$?; kill %1; exit $s'
    head -c 9000 a.tif >cut.tif
    run ! img-convert cut.tif -o x.h5
    run ! sh -c 'head -c 9000 a.tif | img-convert -o x.h5'
    [ ! -e x.h5 ]
    [ -z "$(find . -name '.voxpipe*')" ]
    ok img-convert a.tif -o 's_%02d.h5'
    img-cat s_*.h5 | img-cmp -q - a.tif
    py "
for t, c in (('a', 'float32'),):
    with h5py.File('a.h5') as f:
        d = f['entry/data/data']
        assert d.shape == (12, 16, 20) and d.dtype == c and d.chunks == (1, 16, 20)
        assert list(d.attrs['element_size_um']) == [1000, 1000, 1000]
        d[:].tofile('h5py.raw')"
    img-convert --raw-out a.tif | cmp - h5py.raw
    for type in u8 u16 u32 u64 i8 i16 i32 i64 f64; do
        img-convert -q --type $type --scale 100,1 a.tif -o $type.tif
        img-convert $type.tif -o $type.h5
        img-cmp -q $type.tif $type.h5
        py "h5py.File('$type.h5')['entry/data/data'][:].tofile('h5py.raw')"
        img-convert --raw-out $type.tif | cmp - h5py.raw
    done
    fails 2 "the output is samples without a header" img-convert --raw-out a.tif -o x.h5
}

@test "a full disk and a limit on files: one short line, and nothing is left" {
    ct-phantom --volume 64x64x64 -o a.tif
    img-math '(x * 7919 + y * 104729 + z * 1299709) % 65521' a.tif -o noise.tif
    fails 1 "x.h5: cannot be written: File too large" bash -c 'trap "" XFSZ; ulimit -f 100; exec img-cat a.tif -o x.h5'
    [ "${stderr##*: }" = "File too large" ]
    [ ! -e x.h5 ]
    unshare -rm mount -t tmpfs none /mnt 2>/dev/null || skip "no file system can be mounted here"
    mkdir small
    for how in none deflate; do
        fails 1 "x.h5: cannot be written: No space left on device" unshare -rm bash -c 'mount -t tmpfs -o size=300k none small
            img-cat --compress '$how' noise.tif -o small/x.h5; status=$?; [ -z "$(ls -A small)" ] && exit $status'
        [ "${stderr##*: }" = "No space left on device" ]
    done
}

# A scan of 10 views of u16, 3 flats, 2 darks; offset-u only in our own metadata.
make_scan() {
    ct-geom --beam parallel --detector 12x8 --pitch 0.01 --views 10 --arc 180 --offset-u 1.5 -o scan.geom
    ct-phantom -g scan.geom --counts --noise 1000 | img-convert -q --type u16 -o views.tif
    ct-phantom -g scan.geom --counts --noise 1000 --density 0 --seed 2 | img-convert -q --type u16 --pages :3 -o flats.tif
    img-math -q --type u16 'a * 0 + 7 + page' flats.tif | img-cat --pages :2 -o darks.tif
}

@test "a scan with flats and darks is written as NXtomo, which needs no other file" {
    make_scan
    ok img-convert --flat flats.tif --dark darks.tif views.tif -o scan.h5
    img-convert --compress deflate scan.h5 -o views.h5 2>warned # not all of it
    grep -q "scan.h5: its flats and darks are left out: --flat scan.h5:flats" warned
    ok img-convert --flat scan.h5:flats.0 --dark scan.h5:darks scan.h5 -o again.h5
    img-cmp -q again.h5:flats flats.tif
    img-cmp -q scan.h5 views.tif
    img-cmp -q scan.h5:flats flats.tif
    img-cmp -q scan.h5:darks darks.tif
    [ "$(img-info --value geom.offset-u,quantity scan.h5 | xargs)" = "1.5 counts" ]
    ct-normalize -q --flat flats.tif --dark darks.tif views.tif -o p.tif
    ct-normalize -q scan.h5 | img-cmp -q - p.tif
    cat views.tif | img-convert --flat flats.tif --dark darks.tif -o piped.h5
    cmp scan.h5 piped.h5
    # several files, a region, another type, compressed; a geometry for files that bring none
    img-cat --pages 0 flats.tif -o one.tif
    img-convert --set axes= views.tif --raw-out -o views.raw
    img-convert --raw-in 12x8:u16le views.raw -o plain.tif
    ok img-convert -g scan.geom --flat one.tif --flat flats.tif plain.tif --type f32 --compress deflate -o more.h5
    [ "$(img-info --value pages,type,quantity more.h5 | xargs)" = "10 f32 counts" ]
    [ "$(img-info --value pages more.h5:flats)" = 4 ]
    # the same without our metadata: what others read
    py "
f = h5py.File('scan.h5', 'a')
del f['entry/voxpipe']
e = f['entry']
assert e['definition'][()] in (b'NXtomo', 'NXtomo') and e.attrs['NX_class'] in (b'NXentry', 'NXentry')
d = e['instrument/detector']
assert list(d['image_key']) == [0] * 10 + [1] * 3 + [2] * 2 and d['image_key'].dtype == 'i4'
assert np.allclose(e['sample/rotation_angle'], list(range(0, 180, 18)) + [162] * 5)
assert e['data/data'] == d['data'] and d['data'].shape == (15, 8, 12)
assert d['x_pixel_size'][()] == 0.01 and d['x_pixel_size'].attrs['units'] in (b'mm', 'mm')"
    ct-normalize -q scan.h5 | img-cmp -q - p.tif
    [ "$(ct-geom scan.h5 | grep -E '^(beam|angles|pitch)' | sed 's/ *#.*//' | xargs)" = \
        "beam = parallel pitch = 0.01 angles = 0:18:10" ]
    # a cone beam, whose angles go backwards
    ct-geom --sod 100 --sdd 300 --detector 12x8 --pitch 2,3 --views 6 --clockwise --start 10 -o cone.geom
    ct-phantom -g cone.geom --counts --noise 1000 -o cone.h5
    ct-phantom -g cone.geom -o cone.tif
    ct-fdk -q cone.tif -o want.tif
    py "
f = h5py.File('cone.h5', 'a')
del f['entry/voxpipe']"
    ct-geom cone.h5 -o back.geom
    ct-fdk -q -g back.geom cone.tif | img-cmp -q --rtol 1e-6 --atol 1e-9 - want.tif
}

@test "a scan that cannot be written whole is refused" {
    make_scan
    fails 2 "--flat and --dark need the name of one HDF5 file: -o FILE.h5" img-convert --flat flats.tif views.tif -o x.tif
    fails 2 "--flat and --dark need the name of one HDF5 file" img-convert --dark darks.tif views.tif
    fails 2 "--flat and --dark need the name of one HDF5 file" img-convert --flat flats.tif views.tif -o 'x_%d.h5'
    fails 2 "cannot be combined with --channel, --palette, --pages and --region" img-convert --pages 1 --flat flats.tif views.tif -o x.h5
    fails 2 "need counts without a scale" img-convert --scale 2,100 --flat flats.tif --dark darks.tif views.tif -o x.h5
    [ ! -e x.h5 ]
    fails 1 "nothing.tif: No such file" img-convert --flat nothing.tif views.tif -o x.h5
    # files of flats are read twice: refused before anything is taken from a pipe, except in a list
    mkfifo pipe
    echo pipe >list
    fails 2 "--flat -: read twice: expected a file, got a pipe" img-convert --flat - views.tif -o x.h5 <flats.tif
    fails 2 "--dark pipe: read twice: expected a file, got a pipe" img-convert --flat flats.tif --dark pipe views.tif -o x.h5
    cat flats.tif >pipe &
    fails 2 "--flat pipe: read twice: expected a file, got a pipe" img-convert --flat @list views.tif -o x.h5
    wait
    img-convert --type f32 flats.tif -o floats.tif
    fails 1 "floats.tif: expected pages of 12x8 u16 as in views.tif, got 12x8 f32" \
        img-convert --flat floats.tif views.tif -o x.h5
    img-cat --raw-out views.tif -o views.raw
    img-convert --raw-in 12x8:u16le views.raw -o plain.tif
    fails 2 "--flat and --dark need a scan geometry" img-convert --flat flats.tif plain.tif -o x.h5
    ct-geom --views 9 scan.geom -o other.geom
    fails 1 "expected 9 views of 12x8 as in the scan geometry, got 10 of 12x8" \
        img-convert -g other.geom --flat flats.tif views.tif -o x.h5
    img-cat --raw-out flats.tif -o flats.raw
    fails 1 "x.h5: expected 9 views as in the scan geometry, got 10" sh -c \
        'cat views.raw | img-convert --raw-in 12x8:u16le -g other.geom --flat flats.raw -o x.h5'
    ct-normalize -q --i0 1000 views.tif -o lines.tif
    fails 2 "holds line integrals, not counts" img-convert --flat lines.tif views.tif -o x.h5
    fails 1 "expected pages of 12x8 f32 as in lines.tif, got 12x8 u16" img-convert --flat flats.tif lines.tif -o x.h5
    ct-phantom -g scan.geom --layout sinograms --counts --noise 1000 -o sinograms.tif
    fails 1 "expected 10 views of 12x8 as in the scan geometry, got 8 of 12x10" img-convert --flat sinograms.tif sinograms.tif -o x.h5
    [ ! -e x.h5 ]
}

@test "without the plugin it is said what is missing" {
    mkdir empty
    printf '\211HDF\r\n\032\n' >a.h5
    ct-phantom --volume 4x4x4 -o a.tif
    export VOXPIPE_PLUGINS="$PWD/empty"
    fails 3 "a.h5: HDF5 needs a plugin: no voxpipe-hdf5.so in $PWD/empty" img-info a.h5
    fails 3 "x.h5: HDF5 needs a plugin" img-convert a.tif -o x.h5
    [ ! -e x.h5 ]
    voxpipe doctor | grep -q "^HDF5  *none: .*; with hdf5.h (libhdf5-dev) make builds it"
    unset VOXPIPE_PLUGINS
    voxpipe doctor | grep -q "^HDF5  *[0-9.]*: .h5 files are read and written"
}
