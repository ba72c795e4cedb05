load helper

# stack FILE EXPRESSION: 8x5, 3 pages of f32, EXPRESSION of $_ for 0..119
stack() {
    perl -e "print pack('f<*', map { $2 } 0..119)" > stack.raw
    img-convert --raw-in 8x5:f32le stack.raw -o "$1"
}

# json TEXT: it is one JSON object
json() {
    perl -e '$_ = shift; my $v; $v = qr/\s*(?:"(?:[^"\\\x00-\x1f]|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?
        |true|false|null|\[(?:\s*\]|(??{$v})(?:,(??{$v}))*\s*\])|\{(?:\s*\}|\s*"[^"\\]*"\s*:(??{$v})(?:,\s*"[^"\\]*"\s*:(??{$v}))*\s*\}))\s*/x;
        exit(!/^\{/ || !/^$v$/)' "$1"
}

# differs COMMAND...: exit status 1 and silence on standard error
differs() {
    run --separate-stderr "$@"
    [ "$status" -eq 1 ] && [ -z "$stderr" ]
}

@test "identical: 0; different: 1; trouble: 2" {
    stack a.tif '$_'
    stack b.tif '$_ == 77 ? 79.5 : $_'
    ok img-cmp a.tif a.tif
    differs img-cmp a.tif b.tif
    [[ "$output" == *"differing        1"* ]]
    [[ "$output" == *"x 5, y 4, page 1: 77 instead of 79.5"* ]]
    fails 2 "missing.tif" img-cmp a.tif missing.tif
    fails 2 "expected two stacks" img-cmp a.tif
    fails 2 "standard input ('-') is given more than once" img-cmp - -
    fails 2 "--colour" img-cmp --colour a.tif b.tif
}

@test "-q prints nothing" {
    stack a.tif '$_'
    stack b.tif '$_ + 1'
    differs img-cmp -q a.tif b.tif
    [ -z "$output" ]
    ok img-cmp -q a.tif a.tif
    [ -z "$output" ]
}

@test "either side may be a pipe" {
    stack a.tif '$_'
    cat a.tif | ok img-cmp - a.tif
    cat a.tif | ok img-cmp a.tif -
    ok img-cmp <(cat a.tif) <(cat a.tif)
    ok img-cmp --pages 0,2 a.tif <(cat a.tif)
    fails 2 "pages out of order cannot be read from a pipe" img-cmp --pages 2,1 a.tif <(cat a.tif)
}

@test "another number of pages, or another size, is trouble" {
    stack a.tif '$_'
    img-cat --pages :2 a.tif -o two.tif
    img-cat --region :7,: a.tif -o narrow.tif
    fails 2 "pages" img-cmp a.tif two.tif
    fails 2 "pages" img-cmp two.tif a.tif
    fails 2 "pages" img-cmp <(cat two.tif) <(cat a.tif)
    fails 2 "pages" img-cmp <(cat a.tif) <(cat two.tif)
    fails 2 "narrow.tif: expected pages of 8 x 5, got 7 x 5" img-cmp a.tif narrow.tif
    head -c 900 a.tif > cut.tif
    fails 2 "truncated" sh -c 'cat cut.tif | img-cmp - a.tif'
}

@test "tolerances: each sample" {
    stack a.tif '$_ + 0.25'
    stack b.tif '$_'
    ok img-cmp --atol 0.25 a.tif b.tif
    differs img-cmp --atol 0.2 a.tif b.tif
    differs img-cmp --rtol 0.25 a.tif b.tif
    ok img-cmp --rtol 0.25 --atol 0.1875 --pages 0 --region 1:,: a.tif b.tif
    [[ "$output" == *"beyond tolerance 0"* ]]
}

@test "tolerances: the whole" {
    stack a.tif '$_ + 1'
    stack b.tif '$_'
    # the difference is 1 everywhere, so is its rms
    r=$(perl -e 'my $s = 0; $s += $_ ** 2 for 0..119; print 1 / sqrt($s / 120)')
    ok img-cmp --max-rel-l2 "$(perl -e "print $r * 1.0001")" a.tif b.tif
    differs img-cmp --max-rel-l2 "$(perl -e "print $r * 0.9999")" a.tif b.tif
    p=$(perl -e 'print 20 * log(119) / log(10)')
    ok img-cmp --min-psnr "$(perl -e "print $p - 0.001")" a.tif b.tif
    differs img-cmp --min-psnr "$(perl -e "print $p + 0.001")" a.tif b.tif
    ok img-cmp --min-psnr 59.999 --peak 1000 a.tif b.tif
    ok img-cmp --min-correlation 0.999999 a.tif b.tif
    stack c.tif '-$_'
    differs img-cmp --min-correlation 0 c.tif b.tif
    differs img-cmp --max-rel-l2 1 --atol 0.5 a.tif b.tif
}

@test "NaN and infinities" {
    stack a.tif '$_ == 9 ? -sin(9**9**9) : $_'
    stack b.tif '$_ == 9 ? 9**9**9 : $_'
    stack c.tif '$_'
    differs img-cmp a.tif a.tif
    ok img-cmp --nan-equal a.tif a.tif
    ok img-cmp b.tif b.tif
    differs img-cmp --nan-equal --atol 1e30 a.tif b.tif
    differs img-cmp --max-rel-l2 1e30 b.tif c.tif
    [[ "$output" == *"NaN or infinite  1"* ]]
}

@test "types are compared by value, --scale brings A to B's unit" {
    stack a.tif '$_'
    img-convert --type u8 a.tif -o a8.tif
    ok img-cmp a8.tif a.tif
    stack b.tif '$_ * 0.5'
    ok img-cmp --scale 0.5 a8.tif b.tif
    differs img-cmp a8.tif b.tif
}

@test "64-bit integers are compared exactly" {
    perl -e 'print pack("Q<*", 18446744073709551615, 18446744073709551614)' > a.raw
    perl -e 'print pack("Q<*", 18446744073709551615, 18446744073709551615)' > b.raw
    differs img-cmp --raw-in 2x1:u64le a.raw b.raw
    ok img-cmp --raw-in 2x1:u64le a.raw a.raw
}

@test "masks and regions" {
    stack a.tif '$_'
    stack b.tif '$_ % 40 == 13 ? -1 : $_'
    perl -e 'print pack("C*", map { $_ != 13 } 0..39)' > m.raw
    img-convert --raw-in 8x5:u8le m.raw -o m.tif
    differs img-cmp a.tif b.tif
    ok img-cmp --mask m.tif a.tif b.tif
    [[ "$output" == *"samples          117"* ]]
    ok img-cmp --region 0:5,: a.tif b.tif
    differs img-cmp --region 5:,1: --pages 2 a.tif b.tif
    [[ "$output" == *"x 5, y 1, page 2"* ]]
}

@test "JSON is JSON" {
    stack a.tif '$_'
    stack b.tif '$_ + 1'
    differs img-cmp --json a.tif b.tif
    json "$output"
    [[ "$output" == *'"same": false'*'"max": 1, "at": {"x": 0, "y": 0, "page": 0}}' ]]
    ok img-cmp --json a.tif a.tif
    json "$output"
    [[ "$output" == *'"same": true'*'"psnr": null'* ]]
}

@test "a mask that selects nothing is trouble, not agreement" {
    ct-phantom --phantom ball --volume 8x8x1 --voxel 1 -o a.tif
    img-convert --type u8 --scale 0.001,0 a.tif -o none.tif
    fails 2 "none.tif: the mask selects no sample" img-cmp --mask none.tif a.tif a.tif
}

@test "pages larger than the memory are compared row by row, from files and pipes" {
    tall a.tif 2
    img-math 'a + (x + 2 * y) % 7 * 0.01 + 5 * (page == 1 and y == 2801 and x == 77)' a.tif -o b.tif
    for region in :,: 4:1404,100:2999; do
        set -- --region "$region"
        run img-cmp -m 900M "$@" a.tif b.tif
        [ "$status" -eq 1 ]
        want=$output
        [[ "$want" == *"page 1: "* ]]
        run img-cmp -m 12M "$@" --stats stats.json a.tif b.tif
        [ "$output" = "$want" ]
        took_at_most 21000000
        run sh -c 'cat b.tif | img-cmp -m 12M --stats stats.json "$@" a.tif -' sh "$@"
        [ "$output" = "$want" ]
        took_at_most 21000000
    done
    img-cat --pages 0 b.tif -o short.tif
    fails 2 "expected 2 pages, got 1" img-cmp -m 12M a.tif short.tif
    head -c 30000000 b.tif > cut.tif
    fails 2 "page 1: truncated" sh -c 'cat cut.tif | img-cmp -q -m 12M a.tif -'
}
