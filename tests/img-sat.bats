# Summed area tables: the sums, borders, squares, types; streams that are larger than memory.
load helper

# sums WIDTH HEIGHT PAGES TYPE [3d] [squares]: the table of raw samples on standard input, as numbers, by perl
sums() {
    perl -e '($w, $h, $d, $t, @how) = @ARGV; $volume = grep /3d/, @how; $square = grep /squares/, @how; undef $/;
        binmode STDIN; @a = unpack("$t*", <STDIN>); for $z (0 .. $d - 1) { for $y (0 .. $h - 1) { $row = 0;
            for $x (0 .. $w - 1) { $i = ($z * $h + $y) * $w + $x; $v = $a[$i]; $row += $square ? $v * $v : $v;
                $f[$i] = $row + ($y ? $f[$i - $w] : 0);
                $s[$i] = $f[$i] + ($volume && $z ? $s[$i - $w * $h] : 0) } } }
        print "@s\n"' "$@"
}

# 37 x 23, 5 pages of bytes
bytes() {
    perl -e 'srand 4; print pack "C*", map { rand 256 } 1 .. 37 * 23 * 5' > bytes.raw
    img-convert --raw-in 37x23x5:u8 --set axes=x,y,z bytes.raw -o bytes.tif
}

@test "every page has its table, a volume one; squares come beside" {
    bytes
    ok img-sat bytes.tif --squares squares.tif -o table.tif
    img-info table.tif | grep -q "^type  *u32"
    img-info squares.tif | grep -q "^type  *u64"
    [ "$(numbers table.tif 'L<')" = "$(sums 37 23 5 C < bytes.raw)" ]
    [ "$(numbers squares.tif 'Q<')" = "$(sums 37 23 5 C squares < bytes.raw)" ]
    ok img-sat --3d bytes.tif --squares squares.tif -o table.tif
    [ "$(numbers table.tif 'L<')" = "$(sums 37 23 5 C 3d < bytes.raw)" ]
    [ "$(numbers squares.tif 'Q<')" = "$(sums 37 23 5 C 3d squares < bytes.raw)" ]
}

@test "with --exclusive the table begins with zeros" {
    bytes
    for how in "" --3d; do
        img-sat $how bytes.tif -o plain.tif
        ok img-sat $how --exclusive bytes.tif -o table.tif
        pages=$([ -n "$how" ] && echo 6 || echo 5)
        img-info table.tif | grep -q "38 x 24, $pages pages"
        img-cat --region 1:38,1:24 --pages $((pages - 5)): table.tif -o inner.tif
        img-cmp inner.tif plain.tif
        img-cat --region 0:1,0:24 table.tif -o column.tif
        [ "$(img-info --statistics --json column.tif | tr -d ' \n' | grep -o '"max":[0-9.]*' | head -n 1)" = '"max":0' ]
        img-cat --region 0:38,0:1 table.tif -o row.tif
        [ "$(img-info --statistics --json row.tif | tr -d ' \n' | grep -o '"max":[0-9.]*' | head -n 1)" = '"max":0' ]
    done
}

@test "channels and times are never mixed; the sizes of the axes count the zeros" {
    perl -e 'srand 2; print pack "S<*", map { rand 60000 } 1 .. 12 * 9 * 24' > a.raw
    img-convert --raw-in 12x9x24:u16le --set axes=x,y,channel,z,time --set sizes=2,4,3 a.raw -o a.tif
    ok img-sat --3d --exclusive a.tif -o table.tif
    img-info table.tif | grep -q "30 pages"
    img-info table.tif | grep -q "^sizes  *2 5 3"
    # the second channel at the second time
    img-cat --pages 9:16:2 a.tif --raw-out > one.raw
    img-cat --pages 13:20:2 --region 1:13,1:10 table.tif --raw-out | perl -e 'undef $/; binmode STDIN;
        print join(" ", unpack("L<*", <STDIN>)), "\n"' > got
    sums 12 9 4 'S<' 3d < one.raw | cmp - got
}

@test "types: 32 bits where no sum can leave them, 64 otherwise; on request modulo 2^32" {
    head -c 600000 /dev/zero | tr '\0' '\377' > ff.raw
    ok img-sat --raw-in 1000x300:u16le ff.raw -o table.tif
    img-info table.tif | grep -q "^type  *u64" # 300000 x 65535 is more than 2^32
    img-sat --raw-in 1000x300:u16le --type u32 ff.raw -o wrapped.tif
    [ "$(img-cat --region 999:1000,299:300 wrapped.tif --raw-out | od -An -tu4 | tr -d ' ')" = $((300000 * 65535 % 4294967296)) ]
    # a box of the wrapped table: 200 x 100 samples
    corner() { img-cat --region $1:$(($1 + 1)),$2:$(($2 + 1)) wrapped.tif --raw-out | od -An -tu4 | tr -d ' '; }
    [ $((($(corner 899 199) - $(corner 699 199) - $(corner 899 99) + $(corner 699 99)) & 4294967295)) = $((20000 * 65535)) ]
    ok img-sat --raw-in 100x10:i8 --type auto ff.raw -o table.tif
    img-info table.tif | grep -q "^type  *i32"
    [ "$(img-cat --region 99:100,9:10 --pages 0 table.tif --raw-out | od -An -td4 | tr -d ' ')" = -1000 ]
    fails 2 "--type u32: there is no such table of f32 samples" img-sat --type u32 --raw-in 10x10:f32le ff.raw
    [[ "$stderr" == *"hint: f64"* ]]
    fails 2 "--type i32: there is no such table of u8 samples" img-sat --type i32 --raw-in 10x10:u8 ff.raw
}

@test "a recorded scale is undone first" {
    ct-phantom --volume 20x18x1 -o vol.tif
    img-convert --auto --type u16 vol.tif -o stored.tif
    img-sat vol.tif -o want.tif
    ok img-sat stored.tif -o got.tif
    img-info got.tif | grep -q "^type  *f64"
    img-cmp --max-rel-l2 1e-4 got.tif want.tif
}

@test "a page that is larger than memory goes through as a stream, and its bytes are the same" {
    # 30000 x 2000 in 24 MiB: the page is 57 MiB, its table 458
    perl -e 'srand 3; $row = pack "C*", map { rand 256 } 1 .. 30000; print substr($row, $_ * 7) . substr($row, 0, $_ * 7) for 0 .. 1999' > large.raw
    img-sat --raw-in 30000x2000x1:u8 --type u64 large.raw --raw-out | cksum > want
    ok bash -c 'cat large.raw | img-sat --raw-in 30000x2000x1:u8 --type u64 -m 24M --stats stats.json --raw-out | cksum > got'
    cmp got want
    img-sat --raw-in 30000x2000:u8 --type u64 -m 24M large.raw -o table.tif
    img-cat --raw-out table.tif | cksum | cmp - want
    run -1 --separate-stderr bash -c 'set -o pipefail; head -c 50000000 large.raw | img-sat --raw-in 30000x2000x1:u8 -m 24M > cut.tif'
    [[ "$stderr" == *"error: standard input"* ]]
}

@test "the bytes do not depend on threads, memory, pipes or compression; f32 is the table in f64, rounded" {
    noise a.tif 400x300x3 f32
    for how in "" --3d --exclusive "--type f32"; do
        img-sat $how -j 1 a.tif -o want.tif
        for j in 2 3 7; do
            ok img-sat $how -j $j -m 4M a.tif -o got.tif
            cmp got.tif want.tif
        done
        cat a.tif | img-sat $how > got.tif
        cmp got.tif want.tif
        ok img-sat $how --compress deflate a.tif -o got.tif
        img-cmp got.tif want.tif
    done
    img-sat a.tif | img-convert --type f32 > want.tif
    img-sat --type f32 a.tif | img-cmp - want.tif
}

@test "squares need a file of their own" {
    bytes
    fails 2 "--squares -: the table of squares needs a file of its own" img-sat --squares - bytes.tif -o table.tif
    fails 2 "--squares t.tif: the table of squares needs a file of its own" img-sat --squares t.tif bytes.tif -o t.tif
    [ ! -e t.tif ]
    # whatever it is called
    ln -s t.tif link.tif
    for name in ./t.tif link.tif; do
        fails 2 "the table of squares needs a file of its own" img-sat --squares $name bytes.tif -o t.tif
        [ ! -e t.tif ]
    done
    run -2 img-sat --squares /dev/stdout bytes.tif >out
    # neither of them is there if the input is wrong at its end
    cp bytes.tif long.tif
    echo more >>long.tif
    fails 1 "trailing data" sh -c 'cat long.tif | img-sat --squares squares.tif -o t.tif'
    [ ! -e t.tif ]
    [ ! -e squares.tif ]
    fails 1 "no/squares.tif" img-sat --squares no/squares.tif bytes.tif -o t.tif
    [ ! -e t.tif ]
}

@test "--3d needs slices" {
    perl -e 'print pack "C*", 1 .. 24' > a.raw
    img-convert --raw-in 3x2x4:u8 --set axes=x,y,time a.raw -o a.tif
    fails 2 "--3d: a.tif: its pages are not slices" img-sat --3d a.tif -o t.tif
    ok img-sat a.tif -o t.tif
    [ "$(numbers t.tif 'L<')" = "$(sums 3 2 4 C < a.raw)" ]
}

# measured BOXES FILE [3d]: what --boxes prints but for the last digits of mean and deviation, by perl from u16 samples
measured() {
    img-cat --raw-out "$2" | perl -e '($list, $volume) = @ARGV; undef $/; binmode STDIN; @a = unpack("S<*", <STDIN>);
        open F, $list; $/ = "\n"; @b = map { [split] } <F>; ($w, $h, $d) = (31, 22, 5);
        for $image (0 .. ($volume ? 0 : $d - 1)) { for (@b) { ($name, @r) = @$_; @r = map { [split /:/] } @r;
            ($n, $s, $q) = (0, 0, 0);
            for $z ($volume ? $r[2][0] .. $r[2][1] - 1 : $image) { for $y ($r[1][0] .. $r[1][1] - 1) {
                for $x ($r[0][0] .. $r[0][1] - 1) { $v = $a[($z * $h + $y) * $w + $x]; $n++; $s += $v; $q += $v * $v } } }
            printf "%s %d %d %d %.9g %.6g\n", $name, $image, $n, $s, $s / $n, sqrt($q / $n - ($s / $n) ** 2) } }' "$1" "$3"
}

# printed FILE ARGUMENT...: the same of what img-sat prints
printed() {
    img-sat --boxes "$@" | perl -ne 'next if $. == 1; chomp; @f = split /\t/;
        printf "%s %d %d %d %.9g %.6g\n", @f[0, 1, -4, -3, -2, -1]'
}

@test "boxes are text: on a terminal, in files of any name, and only of an input that ends well" {
    bytes
    echo '0:4 0:5 0' >boxes.txt
    img-sat --boxes boxes.txt bytes.tif >want
    for name in out.txt out.csv out; do
        ok img-sat --boxes boxes.txt bytes.tif -o $name
        cmp want $name
        rm $name
    done
    cp bytes.tif long.tif
    echo more >>long.tif
    fails 1 "trailing data" sh -c 'cat long.tif | img-sat --boxes boxes.txt -o out.txt'
    [ ! -e out.txt ]
}

@test "boxes are printed to a terminal" {
    noise bytes.tif 9x7x2 u8
    echo '0:4 0:5 0' >boxes.txt
    img-sat --boxes boxes.txt bytes.tif >want
    needs_terminal
    script -qec "img-sat --boxes boxes.txt bytes.tif; echo status=\$?" /dev/null </dev/null | tr -d '\r' >out
    cmp out <(cat want; echo status=0)
}

@test "boxes of every page, and of a volume, in one pass of a file or a pipe" {
    noise a.tif 31x22x5 u16
    perl -e 'srand 8; sub r { ($n) = @_; $a = int rand $n; $b = $a + 1 + int rand($n - $a); "$a:$b" }
        print "b$_ " . r(31) . " " . r(22) . "\n" for 1 .. 200' > boxes
    printed boxes a.tif > got
    measured boxes a.tif | cmp - got
    cat a.tif | printed boxes -m 3M -j 1 | cmp - got
    printed - a.tif < boxes | cmp - got
    perl -pe 's/$/" " . ($. % 4) . ":5"/e' boxes > boxes3
    printed boxes3 --3d a.tif > got
    measured boxes3 a.tif 3d | cmp - got
    cat a.tif | printed boxes3 --3d | cmp - got
}

@test "boxes: names, pages, separators, words in the first line; JSON" {
    noise a.tif 31x22x5 f32
    printf 'what\tx\ty\n\n# a comment\nleft, 0:4,2:5\n7:8\t9:11\t3\r\n' > boxes
    ok img-sat --boxes boxes a.tif
    [ "${lines[0]}" = $'name\timage\tx\ty\tcount\tsum\tmean\tstd' ]
    [ "${#lines[@]}" = 7 ]
    [[ "${lines[1]}" == $'left\t0\t0:4\t2:5\t12\t'* ]]
    [[ "${lines[5]}" == $'5\t3\t7:8\t9:11\t2\t'* ]]
    ok img-sat --boxes boxes --json a.tif
    perl -MJSON::PP -e 'undef $/; $j = decode_json(<STDIN>); exit !(@$j == 6 && $j->[4]{name} eq "5" && $j->[4]{image} == 3
        && $j->[4]{y}[1] == 11 && $j->[4]{count} == 2)' <<<"$output"
    fails 1 "line 1: x 3:32: expected a part of 0:31" img-sat --boxes <(echo 3:32 1:2) a.tif
    fails 1 "line 2: expected [NAME] X0:X1 Y0:Y1 [IMAGE]" img-sat --boxes <(printf 'a 1:2 3:4\nb 1:2\n') a.tif
    fails 1 "line 1: expected [NAME] X0:X1 Y0:Y1 [IMAGE]" img-sat --boxes <(printf 'a 1-2 3-4\nb 1:2 3:4\n') a.tif
    ok img-sat --boxes <(printf 'name,x0:x1,y0:y1,page\nb,1:2,3:4,0\n') a.tif
    [ "${#lines[@]}" = 2 ]
    fails 1 "box a: image 5: expected 0 to 4" img-sat --boxes <(echo a 1:2 3:4 5) a.tif
    printf 'a 1:2 3:4 5\n' > boxes
    img-cat --raw-out a.tif > a.raw
    run --separate-stderr sh -c 'cat a.raw | img-sat --raw-in 31x22:f32le --boxes boxes -'
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"box a: image 5: the stack ends before it"* ]]
    fails 1 "no box" img-sat --boxes /dev/null a.tif
    fails 1 "standard input: no box" sh -c 'img-sat --boxes - a.tif < /dev/null'
    fails 1 "standard input: line 1: expected" sh -c 'echo 1 | img-sat --boxes - a.tif'
    fails 2 "standard input is the image already" sh -c 'img-sat --boxes - < a.tif'
    fails 2 "standard input is the image already" sh -c 'img-sat --boxes - - < a.tif'
    fails 1 "nothing" img-sat --boxes nothing a.tif
    fails 2 "--boxes prints numbers" img-sat --boxes boxes --exclusive a.tif
    fails 2 "--json needs --boxes" img-sat --json a.tif -o b.tif
}

# exactly LIST FILE W: sum of each box of an image in f64, with digits that are not rounded before the last
exactly() {
    img-convert --type f64 --raw-out "$2" | perl -MMath::BigFloat -e '($list, $w) = @ARGV; undef $/; @a = unpack("d<*", <STDIN>);
        open F, $list; $/ = "\n"; while (<F>) { ($name, $x, $y) = split; ($x0, $x1) = split /:/, $x; ($y0, $y1) = split /:/, $y;
            $s = Math::BigFloat->bzero; for $r ($y0 .. $y1 - 1) { $s += Math::BigFloat->new(sprintf "%.60e", $a[$r * $w + $_])
                for $x0 .. $x1 - 1 } printf "%s %.15g\n", $name, $s->numify }' "$1" "$3"
}

@test "boxes of floats are exact: beside values that are far larger, of values that cancel, of small differences" {
    # columns of 1e30 and -1e30 around some of about 1e-6, rows that cancel but for 2^-40
    perl -e 'srand 4; for $y (0 .. 29) { print pack "f<*", map { $_ < 10 ? 1e30 * (rand() - 0.5) : $_ < 20 ? 1e-6 * rand()
        : ($_ % 2 ? -1 : 1) * (1 + $y) + ($_ == 21 ? 2 ** -20 : 0) } 0 .. 29 }' > wide.raw
    img-convert --raw-in 30x30:f32le wide.raw -o wide.tif
    perl -e 'srand 5; sub r { ($n) = @_; $a = int rand $n; $b = $a + 1 + int rand($n - $a); "$a:$b" }
        print "b$_ " . r(30) . " " . r(30) . "\n" for 1 .. 60' > boxes
    printf 'small 10:20 3:5\ncancel 20:30 0:30\none 12:13 29:30\n' >> boxes
    ok img-sat --boxes boxes wide.tif
    awk 'NR > 1 { printf "%s %.15g\n", $1, $6 }' <<<"$output" > got
    exactly boxes wide.tif 30 > want
    [ "$(wc -l < want)" = 63 ]
    cmp got want
    # a mean of 1e6, of which f32 has 16 to the unit
    perl -e 'print pack "f<*", map { 1e6 + ($_ % 2 ? 0.125 : -0.125) } 1 .. 900' > offset.raw
    ok img-sat --boxes <(echo 0:30 0:30) --raw-in 30x30:f32le offset.raw
    [[ "${lines[1]}" == *$'\t900\t900000000\t1000000\t0.125' ]]
}

@test "boxes: NaN and infinities show where they are; 64-bit integers are whole; what a pipe lacks is said" {
    perl -e '@a = (1) x 100; $a[11] = "nan"; $a[15] = "inf"; $a[55] = "-inf"; print pack "f<*", @a' > odd.raw
    printf 'nan 0:3 0:3\ninf 4:9 1:3\nboth 4:9 1:9\nclean 0:10 6:10\nless 2:5 1:10\n' > boxes
    ok img-sat --boxes boxes --raw-in 10x10:f32le odd.raw
    [ "$(awk 'NR > 1 { print $1, $6, $7, $8 }' <<<"$output")" = "nan nan nan nan
inf inf inf nan
both nan nan nan
clean 40 1 0
less 27 1 0" ]
    perl -e 'print pack "Q<*", map { 18446744073709551615 - $_ } 0 .. 99' > large.raw
    ok img-sat --boxes <(echo 0:10 0:10) --raw-in 10x10:u64le large.raw
    [[ "${lines[1]}" == *$'\t100\t1844674407370955156550\t'* ]]
    noise a.tif 31x22x5 f32
    run -1 --separate-stderr bash -c 'cat a.tif | img-sat --3d --boxes <(echo 1:2 1:2 3:8)'
    [[ "$stderr" == *"z 3:8: "* ]]
    fails 3 "device cuda: img-sat works on the CPU only" img-sat --boxes boxes --device cuda a.tif
}

@test "the type of a volume's table does not depend on whether a pipe says how many planes it has" {
    noise v.tif 20x10x5 u8
    img-sat --3d v.tif -o table.tif
    [ "$(img-info --value type table.tif)" = u32 ]
    fails 1 "standard input: the number of planes is unknown" img-sat --3d -o got.tif < <(uncounted v.tif)
    [[ "$stderr" == *"hint: --type u64 is enough for any number of them"* ]]
    ok img-sat --3d --type u32 -o got.tif < <(uncounted v.tif)
    ok img-cmp got.tif table.tif
    # one plane alone may need 64 bits, and floats have one type
    img-convert --type u32 v.tif -o w.tif
    ok img-sat --3d -o got.tif < <(uncounted w.tif)
    [ "$(img-info --value type got.tif)" = u64 ]
    img-convert --type f32 v.tif -o f.tif
    ok img-sat --3d -o got.tif < <(uncounted f.tif)
    [ "$(img-info --value type got.tif)" = f64 ]
}
