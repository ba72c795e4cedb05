# Zeiss' txrm: OLE2 files of a small writer (ole.pl).
load helper

# scan FILE [NAME=HEX...]: 3 views of 64 x 40 u16 (in sectors) and a reference; later streams replace earlier ones
scan() {
    perl -e '
        my ($root, $file, @more) = @ARGV;
        sub hex_of { unpack "H*", pack $_[0], @_[1 .. $#_] }
        my %s = ("ImageInfo/ImageWidth" => hex_of("V", 64), "ImageInfo/ImageHeight" => hex_of("V", 40),
            "ImageInfo/NoOfImages" => hex_of("V", 3), "ImageInfo/DataType" => hex_of("V", 5),
            "ImageInfo/PixelSize" => hex_of("f", 2), "ImageInfo/XrayGeometry" => hex_of("V", 1),
            "ImageInfo/Angles" => hex_of("f3", -90, 0, 90), "ImageInfo/StoRADistance" => hex_of("f3", (-10) x 3),
            "ImageInfo/DtoRADistance" => hex_of("f3", (30) x 3), "Alignment/X-Shifts" => hex_of("f3", 0, 1.5, -2),
            "Alignment/Y-Shifts" => hex_of("f3", 0, -0.25, 3), "ReferenceData/Image" => hex_of("v*", (60000) x 2560),
            map({ my $i = $_; ("ImageData1/Image$i" => hex_of("v*", map { $i * 10000 + $_ } 0 .. 2559)) } 1 .. 3));
        for (@more) { /=/ ? ($s{$`} = $'"'"') : delete $s{$_} }
        exec "perl", "$root/tests/ole.pl", $file, map { "$_=$s{$_}" } sort keys %s;' "$ROOT" "$@"
}

@test "views, reference, geometry with the shifts of each view" {
    scan a.txrm
    perl -e 'print pack "v*", map { my $i = $_; map { $i * 10000 + $_ } 0..2559 } 1..3' >want.raw
    img-convert --raw-out a.txrm | cmp - want.raw
    cat a.txrm | img-convert --spool --raw-out | cmp - want.raw
    img-convert --raw-out a.txrm:flats | cmp - <(perl -e 'print pack "v*", (60000) x 2560')
    [ "$(img-info --value nx,ny,pages,type,axes,quantity,voxel a.txrm | xargs)" = "64 40 3 u16 u v view counts 0.008 0.008" ]
    # the same as a geometry made by hand: a pixel of 2 um at the axis is one of 8 um on the detector
    printf '0 0\n-1.5 0.25\n2 -3\n' >shifts.txt
    printf '%s\n' -90 0 90 >angles.txt
    ct-geom --sod 10 --sdd 40 --detector 64x40 --pitch 0.008 --angles angles.txt --shifts shifts.txt -o want.geom 2>/dev/null
    ct-geom a.txrm -o got.geom 2>/dev/null
    grep '^matrix' want.geom >want
    [ "$(wc -l <want)" -eq 3 ]
    grep '^matrix' got.geom | cmp - want
    ct-normalize -q a.txrm -o own.tif
    ct-normalize -q --flat a.txrm:flats a.txrm | img-cmp -q - own.tif
    # images of few bytes are in the mini stream; types of 8 bits and floats
    scan b.txrm ImageInfo/ImageHeight=01000000 ImageInfo/DataType=0a000000 \
        "ImageData1/Image1=$(perl -e 'print unpack "H*", pack "f*", 0..63')" ImageInfo/NoOfImages=01000000 \
        Alignment/X-Shifts Alignment/Y-Shifts
    img-convert --raw-out b.txrm | cmp - <(perl -e 'print pack "f*", 0..63')
}

@test "what is wrong is refused by name" {
    scan a.txrm ImageData1/Image2
    fails 1 "expected 3 images, got 1: there is no ImageData1/Image2" img-info a.txrm
    scan a.txrm ImageData1/Image2=0000
    fails 1 "ImageData1/Image2: expected 5120 bytes, got 2" img-info a.txrm
    scan a.txrm ImageInfo/DataType=07000000
    fails 1 "expected samples of DataType 3, 5 or 10, got 7" img-info a.txrm
    scan a.txrm ImageInfo/ImageWidth
    fails 1 "expected a scan of Zeiss (ImageInfo), got another OLE2 file" img-info a.txrm
    scan a.txrm ReferenceData/Image
    fails 1 "the scan has no such flats" img-info a.txrm:flats
    scan a.txrm ImageInfo/StoRADistance
    run --separate-stderr img-info a.txrm
    [[ "$status" = 0 && "$stderr" == *"its geometry is left out"* ]]
    scan a.txrm
    fails 1 "an OLE2 file cannot be read from a pipe" sh -c 'cat a.txrm | img-info --statistics -'
    fails 1 "expected :flats after the file's name" img-info a.txrm:/x
    for n in 600 5000 9000; do
        head -c $n a.txrm >cut.txrm
        fails 1 "damaged or truncated" img-info cut.txrm
    done
}
