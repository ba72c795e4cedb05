load helper

@test "integers: nearest, halves to even, clamped, and counted once" {
    floats a.tif -1.5 -0.5 0.49 0.5 1.5 2.5 254.5 255.5 256 1e30
    run --separate-stderr img-convert --type u8 a.tif -o b.tif
    [ "$status" -eq 0 ]
    [ "$(numbers b.tif C)" = "0 0 0 0 2 2 254 255 255 255" ]
    [ "$stderr" = "img-convert: warning: a.tif: 4 samples do not fit u8: clamped, NaN to 0" ]
    run --separate-stderr img-convert --type i8 a.tif -o b.tif
    [ "$status" -eq 0 ]
    [ "$(numbers b.tif c)" = "-2 0 0 0 2 2 127 127 127 127" ]
}

@test "NaN and infinities" {
    perl -e 'print pack("f<*", 9**9**9, -9**9**9, -sin(9**9**9), 7)' > x.raw
    run --separate-stderr img-convert --raw-in 4x1:f32le --type i16 x.raw -o y.tif
    [ "$status" -eq 0 ]
    [ "$(numbers y.tif 's<')" = "32767 -32768 0 7" ]
    [[ "$stderr" == *"3 samples"* ]]
}

@test "values survive the way through wider types" {
    perl -e 'print pack("S<*", map { $_ * 13 % 65536 } 0..4999)' > a.raw
    img-convert --raw-in 50x25:u16le a.raw -o a.tif
    for t in u32 u64 i32 i64 f32 f64; do
        ok img-convert --type $t a.tif -o b.tif
        [ "$(img-info --value type b.tif)" = $t ]
        ok img-cmp b.tif a.tif
        ok img-convert --type u16 b.tif -o c.tif
        ok img-cmp c.tif a.tif
    done
    # 2^53 + 1 is no double, but stays what it is
    perl -e 'print pack("Q<*", 9007199254740993)' > q.raw
    img-convert --raw-in 1x1:u64le --raw-out q.raw | cmp - q.raw
}

@test "--scale is recorded and undone" {
    floats a.tif 0 0.25 1 2
    ok img-convert --type u16 --scale 1000,5 a.tif -o b.tif
    [ "$(numbers b.tif 'S<')" = "5 255 1005 2005" ]
    [ "$(img-info --value scale b.tif)" = "1000 5" ]
    ok img-convert --scale 2,1 b.tif -o c.tif
    [ "$(img-info --value scale,type c.tif | xargs)" = "2000 11 f32" ]
    for f in b.tif c.tif; do
        ok img-convert --unscale "$f" -o d.tif
        ok img-cmp --atol 1e-7 d.tif a.tif
        run img-info --value scale d.tif
        [ "$status" -eq 1 ]
    done
    fails 1 "no scale is recorded" img-convert --unscale a.tif
}

@test "--window maps to the full range" {
    floats a.tif -1 0 0.5 1 2
    run --separate-stderr img-convert --type u8 --window 0,1 a.tif -o b.tif
    [ "$(numbers b.tif C)" = "0 0 128 255 255" ]
    [[ "$stderr" == *"2 samples"* ]]
    ok img-convert --type i16 --window -1,2 a.tif -o b.tif
    [ "$(numbers b.tif 's<')" = "-32768 -10923 0 10922 32767" ]
    ok img-convert --type f32 --window -1,2 a.tif -o b.tif
    [[ "$(numbers b.tif 'f<')" == "0 0.333333"*" 0.5 0.666666"*" 1" ]]
}

@test "--auto: one scale for all pages" {
    perl -e 'print pack("f<*", 0, 1, 2, 3, 10, 20)' > a.raw
    img-convert --raw-in 2x1:f32le a.raw -o a.tif
    ok img-convert --type u8 --auto a.tif -o b.tif
    [ "$(numbers b.tif C)" = "0 13 26 38 128 255" ]
    ok img-convert --unscale b.tif -o c.tif
    ok img-cmp --atol 0.04 c.tif a.tif
    fails 2 "expected a file, got a pipe" sh -c 'cat a.tif | img-convert --type u8 --auto'
    ok sh -c 'cat a.tif | img-convert --spool --type u8 --auto -o d.tif'
    ok img-cmp d.tif b.tif
    # only what is selected counts
    ok img-convert --type u8 --auto --pages 0:2 a.tif -o e.tif
    [ "$(numbers e.tif C)" = "0 85 170 255" ]
}

@test "the sums of a luminance count as memory" {
    needs_plain_memory
    head -c 18000000 /dev/zero > c.raw
    img-cat --raw-in 3000x2000:u8 --set axes=x,y,channel c.raw -o c.tif
    fails 3 "expected at most" img-convert --channel luminance -m 50M c.tif -o y.tif
    ok img-convert --channel luminance -m 80M c.tif -o y.tif --stats stats.json
    took_at_most 80000000
    for memory in 90M 150M 300M; do
        ok img-convert --channel luminance -m $memory c.tif -o z.tif
        ok img-cmp y.tif z.tif
    done
}

@test "contradictions" {
    floats a.tif 1 2
    fails 2 "cannot be combined" img-convert --type u8 --auto --window 0,1 a.tif
    fails 2 "--type is missing" img-convert --auto a.tif
    perl -e 'print pack("d<*", -1.7e308, 1.7e308, 0, 1)' > far.raw
    fails 1 "far.raw: --auto: the range -1.7e+308 to 1.7e+308 is beyond f64" img-convert --raw-in 2x2:f64le --type u8 \
        --auto far.raw -o b.tif
    fails 2 "LO < HI" img-convert --type u8 --window 1,1 a.tif
    fails 2 "GAIN,OFFSET" img-convert --scale 0,1 a.tif
    fails 2 "--type" img-convert --type u12 a.tif
}

# colours FILE WxH NUMBER...: pages of one value each, as channels
colours() {
    local file=$1 size=$2
    shift 2
    perl -e '($s, @v) = @ARGV; ($w, $h) = split /x/, $s;
             $text = "voxpipe = 1\naxes = x y channel z\nsizes = 3 " . @v / 3 . "\nchannels = red green blue\n";
             $at = 8; print pack("A2 v V", "II", 42, $at); $size = $w * $h * 4;
             for $i (0 .. $#v) {
                 $data = $at + 2 + 9 * 12 + 4 + 200; $next = $i < $#v ? $data + $size : 0;
                 print pack("v", 9), map({ pack("v v V V", @$_) } [256, 4, 1, $w], [257, 4, 1, $h], [258, 3, 1, 32],
                     [259, 3, 1, 1], [270, 2, length($text), $data - 200], [273, 4, 1, $data], [278, 4, 1, $h],
                     [279, 4, 1, $size], [339, 3, 1, 3]), pack("V a200", $next, $text), pack("f<*", ($v[$i]) x ($w * $h));
                 $at = $next;
             }' -- "$size" "$@" > "$file"
}

@test "--channel picks one, and luminance weighs red, green and blue" {
    colours c.tif 5x4 1 2 3 10 20 30 0.5 -1 4
    img-convert --channel 2 c.tif -o blue.tif
    [ "$(numbers blue.tif f | tr ' ' '\n' | uniq | tr '\n' ' ')" = "3 30 4 " ]
    [ "$(img-info --value axes blue.tif)" = "x y z" ]
    run img-info --value channels blue.tif
    [[ "$output" != *red* ]]
    for batch in 1M 1G; do
        img-convert -m $batch --channel luminance c.tif -o y.tif
        read -r -a y <<<"$(numbers y.tif f | tr ' ' '\n' | uniq | tr '\n' ' ')"
        near "${y[0]}" 1.815 1e-6
        near "${y[1]}" 18.15 1e-5
        near "${y[2]}" 0.0185 1e-6
        [ "${#y[@]}" -eq 3 ]
    done
    cat c.tif | img-convert --channel luminance | img-cmp - y.tif
    img-convert --channel luminance --region 1:3,: c.tif | img-cmp - <(img-cat --region 1:3,: y.tif)
    ok img-convert --channel luminance --type u8 --auto c.tif -o y8.tif
    [ "$(numbers y8.tif C | tr ' ' '\n' | uniq | tr '\n' ' ')" = "25 255 0 " ]
    fails 2 "--channel 3: expected 0 to 2" img-convert --channel 3 c.tif
    fails 2 "'red' is not a channel: expected 0, 1, ... or luminance" img-convert --channel red c.tif
    fails 2 "--channel and --pages cannot be combined" img-convert --channel 1 --pages 0 c.tif
    fails 1 "no axis named channel" img-convert --channel 0 blue.tif
}

@test "compression loses nothing" {
    perl -e 'print pack("f<*", map { sin($_ / 50) } 0..19999)' > a.raw
    img-convert --raw-in 100x50:f32le a.raw -o a.tif
    for c in deflate zstd; do
        ok img-convert --compress $c a.tif -o c.tif
        ok img-cmp c.tif a.tif
        [ "$(stat -c %s c.tif)" -lt "$(stat -c %s a.tif)" ]
    done
    fails 2 "--compress" img-convert --compress deflate a.tif
}

@test "pipes equal files, threads and memory do not matter" {
    perl -e 'print pack("f<*", map { sin($_ / 50) } 0..199999)' > a.raw
    img-convert --raw-in 1000x50:f32le a.raw -o a.tif
    img-convert --type u16 --window -1,1 a.tif -o b.tif
    cat a.tif | img-convert -j 1 -m 2M --type u16 --window -1,1 > c.tif
    ok img-cmp b.tif c.tif
    img-convert -j 4 --type u16 --window -1,1 a.tif -o d.tif
    cmp d.tif c.tif
}


@test "samples that all become the same are no silent success" {
    floats a.tif 0.1 0.2 0.3
    run --separate-stderr img-convert --type u8 a.tif -o b.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"every sample became the same u8"* ]]
    floats c.tif 5 5 5
    ok img-convert --type u8 c.tif -o d.tif
}
