load helper

# volume FILE: 8x6, 5 pages of u8; the sample at x, y of page z is 40 z + 5 y + x
volume() {
    perl -e 'for $z (0..4) { for $y (0..5) { print pack("C*", map { 40 * $z + 5 * $y + $_ } 0..7) } }' > volume.raw
    img-convert --raw-in 8x6:u8le volume.raw -o "$1"
}

# pixels FILE: "WIDTHxHEIGHT p p p ..." of a PNG; gzip inflates (and misses its trailer)
pixels() {
    perl -e 'undef $/; $_ = <STDIN>; s/^\x89PNG\r\n\x1a\n// or die; my $z = "";
        while (length) { my ($n, $t) = unpack("Na4"); $z .= substr($_, 8, $n) if $t eq "IDAT"; $_ = substr($_, 12 + $n) }
        print "\x1f\x8b\x08", "\0" x 7, substr($z, 2)' < "$1" | { gzip -dc 2> gzip.log || true; } > inflated
    perl -e 'undef $/; my ($w, $h) = unpack("x16NN", <STDIN>); open(F, "inflated"); my @raw = unpack("C*", <F>); my @out;
        for $y (0 .. $h - 1) { my $f = shift @raw;
            for $x (0 .. $w - 1) {
                my ($a, $b, $c) = ($x ? $out[-1] : 0, $y ? $out[-$w] : 0, $x && $y ? $out[-$w - 1] : 0);
                my $p = $a + $b - $c; my ($pa, $pb, $pc) = (abs $p - $a, abs $p - $b, abs $p - $c);
                my @g = (0, $a, $b, int(($a + $b) / 2), $pa <= $pb && $pa <= $pc ? $a : $pb <= $pc ? $b : $c);
                push @out, (shift(@raw) + $g[$f]) % 256 } }
        print "${w}x$h @out\n"' < "$1"
}

# cut: what pixels should say of a cut, from the definition of the volume: w h expression of $c (column) and $r (row)
cut() {
    perl -e "print '$1x$2'; for \$r (0..$2-1) { for \$c (0..$1-1) { print ' ', $3 } } print qq(\n)"
}

@test "slices along z, y and x" {
    volume v.tif
    img-view --window 0,255 v.tif -o z.png
    [ "$(pixels z.png)" = "$(cut 8 6 '80 + 5 * $r + $c')" ]
    img-view --window 0,255 --slice -1 v.tif -o z.png
    [ "$(pixels z.png)" = "$(cut 8 6 '160 + 5 * $r + $c')" ]
    img-view --window 0,255 --axis y --slice 2 v.tif -o y.png
    [ "$(pixels y.png)" = "$(cut 8 5 '40 * $r + 10 + $c')" ]
    img-view --window 0,255 --axis x --slice 7 v.tif -o x.png
    [ "$(pixels x.png)" = "$(cut 5 6 '40 * $c + 5 * $r + 7')" ]
}

@test "three orthogonal slices" {
    volume v.tif
    ok img-view --ortho --window 0,255 v.tif -o o.png
    [ "$(pixels o.png)" = "$(cut 15 13 '$c < 8 && $r < 6 ? 80 + 5 * $r + $c : $c > 9 && $r < 6 ? 40 * ($c - 10) + 5 * $r + 4
        : $c < 8 && $r > 7 ? 40 * ($r - 8) + 15 + $c : 0')" ]
    ok img-view --ortho --at 1,2,3 --window 0,255 v.tif -o o.png
    [ "$(pixels o.png)" = "$(cut 15 13 '$c < 8 && $r < 6 ? 120 + 5 * $r + $c : $c > 9 && $r < 6 ? 40 * ($c - 10) + 5 * $r + 1
        : $c < 8 && $r > 7 ? 40 * ($r - 8) + 10 + $c : 0')" ]
}

@test "a montage" {
    volume v.tif
    ok img-view --montage 2 --columns 1 --window 0,255 v.tif -o m.png
    [ "$(pixels m.png)" = "$(cut 8 14 '$r < 6 ? 40 + 5 * $r + $c : $r > 7 ? 120 + 5 * ($r - 8) + $c : 0')" ]
}

@test "pipes give the same bytes as files, also without a page count" {
    volume v.tif
    for what in "" "--slice 3" "--axis x" "--axis y" --ortho "--montage 3"; do
        img-view $what v.tif > file.png
        cat v.tif | img-view $what | cmp - file.png
        uncounted v.tif | img-view $what | cmp - file.png
        img-view -j 1 $what < v.tif | cmp - file.png
    done
}

@test "window: robust, given, inverted" {
    perl -e 'print pack("f<*", map { $_ == 500 ? 1e6 : $_ == 501 ? -sin(9**9**9) : $_ } 0..999)' > a.raw
    img-convert --raw-in 100x10:f32le a.raw -o a.tif
    run --separate-stderr img-view a.tif -o a.png
    [ "$status" -eq 0 ]
    [ "$stderr" = "img-view: warning: a.tif: 1 of the samples shown are NaN or infinite" ]
    # a profile, drawn
    ct-phantom --volume 8x8x6 | img-math 'if(x == 3, 0 / 0, a)' -o wall.tif
    run --separate-stderr img-view --profile 3,0,3,7 wall.tif -o profile.png
    [ "$stderr" = "img-view: warning: wall.tif: 8 of 8 points of the profile are NaN or infinite: gaps in the plot" ]
    ok img-view --profile 4,0,4,7 wall.tif -o profile.png
    # one warning for a series, whose window is from other slices
    ct-phantom --volume 8x8x6 | img-convert --set axes=x,y,channel,z --set sizes=8,8,2,3 -o channels.tif
    run --separate-stderr img-view channels.tif -o 'page%d.png'
    [ "$stderr" = "img-view: warning: channels.tif: channel 0 of 2 is shown: --channel N shows another" ]
    set -- $(pixels a.png)
    # the outlier and the last samples are white, the first and NaN black, the middle gray
    [ "$2 ${502} ${503} ${1001}" = "0 255 0 255" ]
    [ "${402}" -gt 95 ]
    [ "${402}" -lt 110 ]
    volume v.tif
    img-view --slice 0 --window 0,32 --invert v.tif -o i.png
    [ "$(pixels i.png)" = "$(cut 8 6 '255 - int((5 * $r + $c > 32 ? 32 : 5 * $r + $c) * 255 / 32 + 0.5)')" ]
}

@test "zoom and fit" {
    volume v.tif
    img-view --slice 0 --window 0,255 --zoom 3 v.tif -o z.png
    [ "$(pixels z.png)" = "$(cut 24 18 '5 * int($r / 3) + int($c / 3)')" ]
    # means of 2x2: 5 r + c + 3, at even r and c
    img-view --slice 0 --window 0,255 --fit 4x4 v.tif -o f.png
    [ "$(pixels f.png)" = "$(cut 4 3 '10 * $r + 2 * $c + 3')" ]
    img-view --slice 0 --window 0,255 --fit 400x400 v.tif | cmp - <(img-view --slice 0 --window 0,255 v.tif)
}

@test "voxels that are not cubes keep their shape" {
    ct-phantom --volume 16x12x10 --voxel 0.5,1,2 -o v.tif
    img-view --axis y v.tif -o y.png
    [[ "$(pixels y.png)" == 16x40\ * ]]
    img-view --axis y --square v.tif -o y.png
    [[ "$(pixels y.png)" == 16x10\ * ]]
    img-view v.tif -o z.png
    [[ "$(pixels z.png)" == 16x24\ * ]]
}

@test "what cannot be shown" {
    volume v.tif
    fails 2 "slice 5 is out of range: there are 5 along z" img-view --slice 5 v.tif
    fails 2 "slice -6 is out of range: there are 5 along z" img-view --slice -6 v.tif
    fails 2 "--at: expected whole numbers, got 1.5" img-view --ortho --at 1.5,0,0 v.tif
    fails 2 "--columns: needs --montage" img-view --columns 2 v.tif
    fails 2 "there are 8 along x" img-view --ortho --at 8,0,0 v.tif
    fails 2 "cannot be combined" img-view --ortho --slice 2 v.tif
    fails 2 "LO < HI" img-view --window 3,3 v.tif
    fails 2 "WxH" img-view --fit 5 v.tif
    head -c 250 v.tif > cut.tif
    fails 1 "truncated" sh -c 'cat cut.tif | img-view --slice 0'
}

# colours FILE IMAGES: 8x6 pages of u8, red, green and blue of one image after the other: 7 x + 10 image, 9 y, 3 (x + y)
colours() {
    perl -e 'for $n (0 .. $ARGV[0] - 1) { for $c (0 .. 2) { for $y (0 .. 5) {
        print pack("C*", map { (7 * $_ + 10 * $n, 9 * $y, 3 * ($_ + $y))[$c] } 0 .. 7) } } }' "$2" > colours.raw
    img-convert --raw-in 8x6:u8le --set axes=x,y,channel,z --set "sizes=3,$2" --set 'channels=red green blue' \
        colours.raw -o "$1"
}

# rgb: "WIDTHxHEIGHT r g b r g b ..." of a PNG of three bytes a pixel
rgb() {
    perl -e 'undef $/; $_ = <STDIN>; s/^\x89PNG\r\n\x1a\n// or die; my $z = ""; my ($w, $h, $d, $t) = unpack("x8NNCC", $_);
        die "depth $d, colour type $t" unless $d == 8 && $t == 2;
        while (length) { my ($n, $t) = unpack("Na4"); $z .= substr($_, 8, $n) if $t eq "IDAT"; $_ = substr($_, 12 + $n) }
        open(F, "|-", "gzip -dc > inflated 2> gzip.log"); print F "\x1f\x8b\x08", "\0" x 7, substr($z, 2); close(F);
        open(F, "inflated"); my @raw = unpack("C*", <F>); my ($p, @up, @out) = 3; @up = (0) x (3 * $w);
        for $y (0 .. $h - 1) { my $f = shift @raw; my @row;
            for $x (0 .. 3 * $w - 1) {
                my ($a, $b, $c) = ($x < $p ? 0 : $row[$x - $p], $up[$x], $x < $p ? 0 : $up[$x - $p]);
                my $g = $a + $b - $c; my ($pa, $pb, $pc) = (abs $g - $a, abs $g - $b, abs $g - $c);
                my @g = (0, $a, $b, int(($a + $b) / 2), $pa <= $pb && $pa <= $pc ? $a : $pb <= $pc ? $b : $c);
                push @row, (shift(@raw) + $g[$f]) % 256 }
            @up = @row; push @out, @row }
        print "${w}x$h @out\n"' < "$1"
}

@test "red, green and blue are shown in colour, from files and from pipes" {
    colours c.tif 4
    want() { cut "$1" "$2" "join(' ', $3)"; }
    ok img-view --window 0,255 c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 8 6 '7 * $c + 20, 9 * $r, 3 * ($c + $r)')" ]
    ok img-view --window 0,255 --slice -1 c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 8 6 '7 * $c + 30, 9 * $r, 3 * ($c + $r)')" ]
    ok img-view --window 0,255 --axis x --slice 5 c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 4 6 '35 + 10 * $c, 9 * $r, 3 * (5 + $r)')" ]
    ok img-view --window 0,255 --montage 2 --columns 1 --invert c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 8 14 '$r == 6 || $r == 7 ? (0, 0, 0) : $r < 6 ? (245 - 7 * $c, 255 - 9 * $r, 255 - 3 * ($c + $r))
        : (225 - 7 * $c, 255 - 9 * ($r - 8), 255 - 3 * ($c + $r - 8))')" ]
    ok img-view --window 0,255 --zoom 2 --slice 0 c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 16 12 '7 * int($c / 2), 9 * int($r / 2), 3 * (int($c / 2) + int($r / 2))')" ]
    # one window for all three
    ok img-view --percentile 0,100 --slice 0 c.tif -o c.png
    [ "$(rgb c.png)" = "$(want 8 6 'map { int($_ / 49 * 255 + 0.5) } 7 * $c, 9 * $r, 3 * ($c + $r)')" ]
    for what in "" "--slice 3" "--axis x" "--axis y" --ortho "--montage 3" "--channel 1" "--fit 4x3"; do
        img-view $what c.tif > file.png
        cat c.tif | img-view $what | cmp - file.png
        uncounted c.tif | img-view $what | cmp - file.png
    done
    # channels behind the slices
    for i in 0 1 2; do img-convert --channel $i c.tif -o $i.tif; done
    img-cat 0.tif 1.tif 2.tif | img-convert --set axes=x,y,z,channel --set sizes=4,3 \
        --set 'channels=red green blue' -o planes.tif
    img-view --ortho c.tif > file.png
    img-view --ortho planes.tif | cmp - file.png
    cat planes.tif | img-view --ortho | cmp - file.png
}

@test "of other channels one is shown in gray, and that is said; --channel chooses" {
    colours c.tif 4
    img-convert --set 'channels=DAPI GFP RFP' c.tif -o d.tif
    run --separate-stderr img-view --window 0,255 d.tif -o d.png
    [ "$status" -eq 0 ]
    [ "$stderr" = "img-view: warning: d.tif: channel 0 (DAPI) of 3 is shown: --channel N shows another" ]
    [ "$(pixels d.png)" = "$(cut 8 6 '7 * $c + 20')" ]
    for file in c.tif d.tif; do
        ok img-view --window 0,255 --channel 1 $file -o d.png
        [ "$(pixels d.png)" = "$(cut 8 6 '9 * $r')" ]
    done
    fails 2 "--channel 3: expected 0 to 2" img-view --channel 3 d.tif
    fails 2 "slice 4 is out of range: there are 4 along z" img-view --slice 4 d.tif -q
    volume v.tif
    fails 2 "--channel: the stack has no axis of channels" img-view --channel 0 v.tif
}

@test "colour maps: their ends and middle, NaN black, labels apart" {
    pixel() { rgb "$1" | command cut -d" " -f $((3 * $2 + 2))-$((3 * $2 + 4)); } # the n-th
    floats a.tif -1 0 0.5 1 7
    img-math 'if(a==7,nan,a)' a.tif -o a.tif
    img-view -q --colormap viridis --window 0,1 a.tif -o v.png
    [ "$(rgb v.png)" = "5x1 68 1 84 68 1 84 33 144 140 253 231 37 0 0 0" ]
    img-view -q --colormap hot --window 0,1 a.tif -o v.png
    [ "$(pixel v.png 0)" = "0 0 0" ]
    [ "$(pixel v.png 3)" = "255 255 255" ]
    img-view -q --colormap blue-red --window -1,1 a.tif -o v.png
    [ "$(pixel v.png 1)" = "247 246 246" ]
    img-view -q --colormap viridis --invert --window 0,1 a.tif -o v.png
    [ "$(pixel v.png 0) $(pixel v.png 3)" = "253 231 37 68 1 84" ]
    # gray is gray, as without
    img-view -q --colormap gray --window 0,1 a.tif | cmp - <(img-view -q --window 0,1 a.tif)
    floats l.tif 0 1 2 3 4 5 6 7 8 9 10 11 12
    img-view --colormap labels l.tif -o v.png
    [ "$(rgb v.png | command cut -d' ' -f 2- | xargs -n 3 | sort -u | wc -l)" -eq 13 ]
    [ "$(pixel v.png 0)" = "0 0 0" ]
}

@test "--profile: values along a line, as CSV" {
    perl -e 'for $p (0..2) { for $y (0..4) { print pack("f<*", map { 100 * $p + 10 * $y + $_ } 0..5) } }' >v.raw
    img-convert --raw-in 6x5:f32le v.raw -o v.tif
    ok img-view --profile 0,2,5,2 v.tif
    [ "$output" = "distance,x,y,value
0,0,2,120
1,1,2,121
2,2,2,122
3,3,2,123
4,4,2,124
5,5,2,125" ]
    # bilinear, in the unit of the voxel; of another slice
    img-convert --set voxel=0.5,0.5,2mm v.tif -o w.tif
    img-view --slice 2 --profile 1,0.5,4,4 w.tif -o line.csv
    [ "$(head -n 2 line.csv | tail -n 1)" = "0,1,0.5,206" ]
    [ "$(tail -n 1 line.csv)" = "2.30488611,4,4,244" ]
    [ "$(img-view --axis y --slice 1 --profile 0,0,0,2 w.tif | tail -n 1)" = "4,0,2,210" ]
    cat v.tif | img-view --profile 0,0,0,0 | tail -n 1 | grep -qx "0,0,0,100"
    fails 2 "--profile: expected positions from 0,0 to 5,4, got 6,0" img-view --profile 0,0,6,0 v.tif
    fails 2 "--profile: expected X0,Y0,X1,Y1, got 3 numbers" img-view --profile 0,0,6 v.tif
    fails 2 "--profile: expected one slice" img-view --montage 2 --profile 0,0,1,1 v.tif
}
