load helper

# samples W H PAGES: u16 samples that all differ a little, on standard output
samples() { perl -e 'print pack("S<*", map { ($_ * 7919) % 65521 } 0 .. $ARGV[0] * $ARGV[1] * $ARGV[2] - 1)' "$@"; }

# stack FILE W H PAGES
stack() { samples "$2" "$3" "$4" | img-cat --raw-in "$2x$3x$4:u16" -o "$1"; }

# foreign FILE W H PAGES [tiffcp options]: as other programs write it, data first
foreign() {
    command -v tiffcp >/dev/null || skip "tiffcp is not installed"
    stack ours.tif "$2" "$3" "$4"
    tiffcp "${@:5}" ours.tif "$1"
    rm ours.tif
}

@test "a pipe, > and -o get the same bytes" {
    stack a.tif 20 10 7
    img-cat a.tif > b.tif
    img-cat a.tif | cat > c.tif
    img-cat a.tif -o d.tif
    img-cat a.tif -o /dev/stdout | cat > e.tif
    cmp b.tif c.tif && cmp b.tif d.tif && cmp b.tif e.tif
    # a number of pages that is not known until the end makes a BigTIFF
    samples 20 10 7 | img-cat --raw-in 20x10:u16 - > big.tif
    [ "$(head -c4 a.tif | od -An -tx1 | tr -d ' ')" = 49492a00 ]
    [ "$(head -c4 big.tif | od -An -tx1 | tr -d ' ')" = 49492b00 ]
    img-cmp a.tif big.tif
}

@test "the output says the same twice: no dates, no versions" {
    stack a.tif 20 10 3
    img-cat a.tif -o b.tif
    img-cat a.tif -o c.tif
    img-cat a.tif -o d.tif
    cmp c.tif d.tif
}

@test "every reader of TIFF opens it" {
    command -v tiffinfo >/dev/null || skip "tiffinfo is not installed"
    stack a.tif 20 10 3
    samples 20 10 3 | img-cat --raw-in 20x10:u16 - > b.tif
    for f in a.tif b.tif; do
        ok tiffinfo "$f"
        [ "$(grep -c 'Image Width: 20 Image Length: 10' <<<"$output")" = 3 ]
        tiffcp "$f" copy.tif
        img-cmp "$f" copy.tif
    done
}

@test "a cut stack is an error that says where, from a file and from a pipe" {
    stack a.tif 20 10 4
    size=$(stat -c %s a.tif)
    head -c $((size - 5)) a.tif > cut.tif
    fails 1 "img-info: error: cut.tif: page 3: truncated: expected 400 bytes, got 395" img-info cut.tif
    fails 1 "img-info: error: standard input: page 3: truncated: expected 400 bytes, got 395" sh -c 'cat cut.tif | img-info'
    # a cut between two pages
    head -c $((size - 400 - 600)) a.tif > cut.tif
    fails 1 "truncated" img-info cut.tif
    fails 1 "truncated" sh -c 'cat cut.tif | img-info'
    # nothing at all
    : > empty.tif
    fails 1 "empty.tif: empty: expected a TIFF" img-info empty.tif
    fails 1 "standard input: empty: expected a TIFF" sh -c 'true | img-info'
    [[ "$stderr" == *"hint: the program that should have written it may have failed"* ]]
}

@test "a failure in front of a pipe is not taken for the end of the stack" {
    stack a.tif 20 10 50
    head -c 9000 a.tif > cut.tif
    run bash -c 'set -o pipefail; cat cut.tif | img-cat | img-cat | img-cat -o out.tif'
    [ "$status" -eq 1 ]
    [ ! -e out.tif ]
}

@test "two stacks joined with cat are refused, with the way out" {
    stack a.tif 20 10 2
    fails 1 "standard input: trailing data after page 1" sh -c 'cat a.tif a.tif | img-cat -o out.tif'
    [[ "$stderr" == *"hint: TIFF streams cannot be joined with cat(1), use img-cat"* ]]
}

@test "what is not a TIFF is named" {
    printf '\211PNG\r\n\032\n....' > a.png
    fails 1 "a.png: not a TIFF: starts with '\\x89PNG" img-info a.png
    printf 'P5 2 2 255\n....' | {
        run img-info
        [ "$status" -eq 1 ]
        [[ "$output" == *"standard input: not a TIFF: starts with 'P5 2 2 2'"* ]]
        [[ "$output" == *"--raw-in"* ]]
    }
}

@test "a TIFF that is not in stream order: refused from a pipe, read from a file, with < and with --spool" {
    foreign a.tif 50 40 3 -c none -r 8
    ok img-info a.tif
    fails 1 "standard input: TIFF is not in stream order (page 0 data precedes its directory)" sh -c 'cat a.tif | img-info'
    [[ "$stderr" == *"hint: give the file name instead, or use --spool"* ]]
    img-cmp a.tif - < a.tif
    mkdir spool
    cat a.tif | TMPDIR=spool img-cat --spool | img-cmp - a.tif
    [ -z "$(ls -A spool)" ]
}

@test "compressed, tiled and big-endian files" {
    stack whole.tif 50 40 3
    for options in "-c lzw:2" "-c zip:2 -r 7" "-c none -B" "-c none -t -w 16 -l 16" "-c zip -t -w 32 -l 16 -B" "-8 -c packbits -B"; do
        # shellcheck disable=SC2086
        foreign a.tif 50 40 3 $options
        ok img-cmp a.tif whole.tif
        ok img-cat --region 13:14,7:30 a.tif -o x.tif
        img-cat --region 13:14,7:30 whole.tif | img-cmp - x.tif
    done
}

# colours FILE W H IMAGES: red, green and blue of a pixel side by side, each directory in front of its samples
colours() {
    perl -e '($w, $h, $n) = @ARGV; $at = 8; print pack("A2 v V", "II", 42, $at);
             for $i (1 .. $n) {
                 $data = $at + 2 + 9 * 12 + 4 + 8;
                 $next = $i < $n ? $data + 3 * $w * $h : 0;
                 print pack("v", 9), map({ pack("v v V V", @$_) } [256, 4, 1, $w], [257, 4, 1, $h], [258, 3, 3, $data - 8],
                     [259, 3, 1, 1], [262, 3, 1, 2], [273, 4, 1, $data], [277, 3, 1, 3], [278, 4, 1, $h],
                     [279, 4, 1, 3 * $w * $h]), pack("V v4", $next, 8, 8, 8, 0),
                     pack("C*", map { my $p = $_; map { ($p * (3 + 4 * $_) + 50 * $_ + 9 * $i) % 251 } 0 .. 2 } 0 .. $w * $h - 1);
                 $at = $next;
             }' "$2" "$3" "$4" > "$1"
}

# channel FILE W H IMAGES C: what channel C of it must be
channel() {
    perl -e '($w, $h, $n, $c) = @ARGV;
             for $i (1 .. $n) { print pack("C*", map { ($_ * (3 + 4 * $c) + 50 * $c + 9 * $i) % 251 } 0 .. $w * $h - 1) }' \
        "$2" "$3" "$4" "$5" | img-cat --raw-in "$2x$3x$4:u8" -o "$1"
}

@test "colour images: channels are pages, the same from a file, with < and with --spool; a pipe says the way out" {
    colours rgb.tif 30 20 2
    [ "$(img-info --value axes rgb.tif)" = "x y channel z" ]
    [ "$(img-info --value sizes rgb.tif)" = "3 2" ]
    [ "$(img-info --value channels rgb.tif)" = "red green blue" ]
    for c in 0 1 2; do
        channel want.tif 30 20 2 "$c"
        ok img-convert --channel "$c" rgb.tif -o one.tif
        img-cmp one.tif want.tif
        [ "$(img-info --value axes one.tif)" = "x y z" ]
        img-cat --pages "$c::3" rgb.tif | img-cmp - want.tif
    done
    img-cat rgb.tif > all.tif
    img-cat < rgb.tif > b.tif
    img-cat --spool < <(cat rgb.tif) > c.tif
    img-cmp all.tif b.tif
    img-cmp all.tif c.tif
    fails 1 "page 0: colour TIFF cannot be read from a pipe" sh -c 'cat rgb.tif | img-cat'
    [[ "$stderr" == *"hint: give the file name instead, or use --spool"* ]]
    # a stack of files, each with its channels
    colours one.tif 30 20 1
    img-cat one.tif one.tif one.tif -o three.tif
    [ "$(img-info --value sizes three.tif)" = "3 3" ]
    stack grey.tif 30 20 1
    fails 1 "expected pages of 30x20 u8" img-cat one.tif grey.tif
    img-convert --type u8 grey.tif -o grey8.tif
    fails 1 "expected images of 3 channels as in one.tif, got 1" img-cat one.tif grey8.tif
}

@test "a description behind the samples: kept on a pipe, or said to be left out" {
    perl -e 'print pack("A2 v V v", "II", 42, 8, 6),
                 map({ pack("v v V V", @$_) } [256, 4, 1, 400], [257, 4, 1, 250], [258, 3, 1, 8], [270, 2, 29, 100086],
                     [273, 4, 1, 86], [279, 4, 1, 100000]), pack("V", 0), "x" x 100000, "voxpipe = 1\nquantity = counts"' > a.tif
    [ "$(cat a.tif | img-info --value quantity)" = counts ]
    run --separate-stderr sh -c 'cat a.tif | img-cat -m 1M > b.tif'
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"standard input: its description lies far behind the samples and is left out"* ]]
    run img-info --value quantity b.tif
    [[ "$output" != counts ]]
    img-cmp a.tif b.tif
}

@test "what a decoder takes is counted in --memory" {
    needs_plain_memory
    command -v tiffcp >/dev/null || skip "tiffcp is not installed"
    img-cat --raw-in 4096x4096:u16 -o a.tif < <(head -c $((4096 * 4096 * 2)) /dev/zero)
    tiffcp -c zip -t -w 4096 -l 2048 a.tif b.tif
    fails 3 "b.tif: decoding a page may take" img-convert --raw-out -m 40M b.tif
    ok img-convert -m 200M --stats s.json b.tif -o c.tif
    img-cmp c.tif a.tif
    [ "$(grep -o '"peak_memory[a-z_]*": *[0-9]*' s.json | grep -o '[0-9]*$')" -lt 200000000 ]
}

@test "--compress: the same samples in fewer bytes, only into a file" {
    perl -e 'print pack("f<*", map { int($_ / 100) } 0 .. 64 * 64 * 5 - 1)' | img-cat --raw-in 64x64:f32 - -o a.tif
    for method in deflate zstd; do
        ok img-cat --compress "$method" a.tif -o b.tif
        img-cmp a.tif b.tif
        [ "$(stat -c %s b.tif)" -lt $(($(stat -c %s a.tif) / 2)) ]
    done
    fails 2 "cannot be compressed" img-cat --compress deflate a.tif
    fails 2 "compressed TIFF cannot be written to a pipe or device" img-cat --compress deflate a.tif -o /dev/null
}

@test "many files, directories and lists are one stack, in order" {
    stack a.tif 20 10 12
    mkdir scan
    for i in 0 1 2 3 4 5 6 7 8 9 10 11; do img-cat --pages $i a.tif -o "scan/img$i.tif"; done
    touch scan/readme.txt
    img-cat scan | img-cmp - a.tif
    img-cat scan/img[0-9].tif scan/img10.tif scan/img11.tif | img-cmp - a.tif
    for i in 0 1 2 3 4 5 6 7 8 9 10 11; do echo "scan/img$i.tif"; done > list.txt
    img-cat @list.txt | img-cmp - a.tif
    img-cat scan/img0.tif <(img-cat --pages 1:11 a.tif) scan/img11.tif | img-cmp - a.tif
    stack odd.tif 20 9 1
    fails 1 "odd.tif: expected pages of 20x10 u16 as in scan/img0.tif, got 20x9 u16" img-info scan/img0.tif odd.tif
    mkdir none
    fails 1 "none: a directory without .tif files" img-info none
    fails 2 "standard input ('-') is given more than once" img-info - -
}

@test "raw samples: the size must match to the byte" {
    samples 20 10 3 > a.raw
    stack a.tif 20 10 3
    img-cat --raw-in 20x10:u16le a.raw | img-cmp - a.tif
    img-cat --raw-out a.tif | cmp - a.raw
    { printf 'header'; cat a.raw; } > h.raw
    img-cat --raw-in 20x10:u16,skip=6 h.raw | img-cmp - a.tif
    cat h.raw | img-cat --raw-in 20x10x3:u16,skip=6 | img-cmp - a.tif
    perl -e 'undef $/; print pack("S>*", unpack("S<*", <STDIN>))' < a.raw > be.raw
    img-cat --raw-in 20x10:u16be be.raw | img-cmp - a.tif
    fails 1 "h.raw: expected a multiple of 400 bytes (a page of 20x10 u16), got 1206" img-info --raw-in 20x10:u16 h.raw
    fails 1 "a.raw: expected 4 pages of 400 bytes, got 1200 bytes" img-info --raw-in 20x10x4:u16 a.raw
    fails 1 "standard input: page 3: truncated: expected 400 bytes, got 6" sh -c 'cat h.raw | img-info --raw-in 20x10:u16'
    fails 2 "raw layout '20x10:u12'" img-info --raw-in 20x10:u12 a.raw
}

@test "one raw page is an image and several are a volume, from a file and from a pipe" {
    for size in 20x10x1 20x10x2 240x200x1 240x200x2; do # less and more than a pipe is read by at once
        IFS=x read -r nx ny pages <<<"$size"
        samples "$nx" "$ny" "$pages" > a.raw
        for program in "img-nlmeans --h 3000 --search 3" "img-gauss --sigma 1.5" "img-local --stat max --radius 2"; do
            $program --raw-in "${nx}x$ny:u16" a.raw -o want.tif
            { head -c 7; sleep 0.05; cat; } < a.raw | $program --raw-in "${nx}x$ny:u16" | img-cmp -q - want.tif
        done
    done
    samples 240 200 1 > a.raw
    img-gauss --sigma 1.5 --raw-in 240x200:u16 a.raw | cmp - <(cat a.raw | img-gauss --sigma 1.5 --raw-in 240x200:u16)
    fails 2 "the pages of this stack stand alone" img-gauss --sigma 1,1,1 --raw-in 240x200:u16 a.raw
    fails 2 "the pages of this stack stand alone" sh -c "cat a.raw | img-gauss --sigma 1,1,1 --raw-in 240x200:u16"
    samples 240 200 3 > b.raw
    # a page is held for that within --memory, and not where two pipes may come from one program
    run --separate-stderr sh -c "head -c 960000 /dev/zero | img-gauss --sigma 1 -v --memory 8MB --raw-in 1200x100:u16 | cat > d.raw"
    [[ "$stderr" == *"of 7.4 MiB"* ]] # 240 kB less
    mkfifo second
    head -c 800000 /dev/zero | timeout 20 tee >(exec cat > second) |
        timeout 20 img-math 'a - b' --raw-in 400x500:u8 - second > d.tif
    fails 1 "page 0: truncated: expected 96000 bytes, got 95999" sh -c "head -c 95999 a.raw | img-gauss --sigma 1 --raw-in 240x200:u16 -o c.tif"
    fails 1 "page 1: truncated: expected 96000 bytes, got 1" sh -c "head -c 96001 b.raw | img-gauss --sigma 1 --raw-in 240x200:u16 -o c.tif"
}

@test "-o is atomic: the old file stays until the new one is whole" {
    stack a.tif 20 10 4
    stack old.tif 5 5 1
    cp old.tif out.tif
    chmod 640 out.tif
    size=$(stat -c %s a.tif)
    head -c $((size - 5)) a.tif > cut.tif
    run sh -c 'cat cut.tif | img-cat -o out.tif'
    [ "$status" -eq 1 ]
    cmp old.tif out.tif
    img-cat a.tif -o out.tif
    img-cmp a.tif out.tif
    [ "$(stat -c %a out.tif)" = 640 ]
    # through a symbolic link into what it names
    mkdir store
    cp old.tif store/real.tif
    ln -s store/real.tif link.tif
    img-cat a.tif -o link.tif
    [ -L link.tif ]
    img-cmp a.tif store/real.tif
    # onto its own input
    img-cat --pages ::-1 a.tif -o a.tif
    img-cat --pages ::-1 a.tif | img-cmp - out.tif
    [ -z "$(ls -A . store | grep voxpipe)" ]
}

@test "a full disk is an error" {
    stack a.tif 200 100 4
    fails 1 "standard output: No space left on device" sh -c 'img-cat a.tif > /dev/full'
    fails 1 "/dev/full: No space left on device" img-cat a.tif -o /dev/full
}

@test "a file system in memory that gets full is an error, and so is a limit on files; nothing is left" {
    # pages are copied through a mapping there: no room must not be a crash
    unshare -rm mount -t tmpfs none /mnt 2>/dev/null || skip "no file system can be mounted here"
    head -c 25165824 /dev/zero | img-cat --raw-in 1024x1024x6:f32 -o a.tif
    mkdir small
    run unshare -rm bash -c 'mount -t tmpfs -o size=40m none small && cp a.tif small && cd small
        for k in {1..10}; do img-convert -j 8 --type f64 a.tif -o b.tif; echo $?; ls -A; done
        ulimit -f 1000; img-convert -j 4 --type f64 a.tif -o b.tif; echo $?; ls -A'
    [ "$(grep -c 'img-convert: error: b.tif: No space left on device' <<<"$output")" = 10 ]
    [ "$(grep -c 'img-convert: error: b.tif: File too large' <<<"$output")" = 1 ]
    [ "$(grep -cx 1 <<<"$output")" = 11 ]
    [ "$(grep -cx a.tif <<<"$output")" = 11 ]
    [ "$(wc -l <<<"$output")" = 33 ]
}

@test "-o in a file system in memory: the bytes of a pipe, and as atomic as elsewhere" {
    [ -w /dev/shm ] || skip "no /dev/shm"
    dir=$(mktemp -d /dev/shm/voxpipe-XXXXXX)
    samples 400 300 9 > a.raw
    img-convert -j 4 --raw-in 400x300x9:u16 --type f32 --scale 0.5,1 a.raw -o "$dir/a.tif"
    img-convert -j 1 --raw-in 400x300x9:u16 --type f32 --scale 0.5,1 a.raw | cmp - "$dir/a.tif"
    # over an old file, which stays if the new one fails
    head -c 100000 a.raw > cut.raw
    fails 1 "cut.raw" img-convert --raw-in 400x300x9:u16 cut.raw -o "$dir/a.tif"
    fails 1 "standard input" sh -c "img-convert --raw-in 400x300x9:u16 - -o $dir/a.tif < /dev/null"
    img-convert -j 1 --raw-in 400x300x9:u16 --type f32 --scale 0.5,1 a.raw | cmp - "$dir/a.tif"
    [ "$(ls -A "$dir")" = a.tif ]
    rm -r "$dir"
}

@test "a plan that fails: old files stay, a pipe gets nothing, and nobody waits for its reader" {
    stack a.tif 40 30 5
    cp a.tif old.tif
    refused() { fails 3 "the smallest portion takes" img-gauss --sigma 2 --memory 1k a.tif -o "$@"; }
    refused old.tif
    refused /dev/stdout
    refused -
    mkfifo fifo
    fails 3 "the smallest portion takes" timeout 10 img-gauss --sigma 2 --memory 1k a.tif -o fifo
    refused /dev/fd/5 5<> old.tif
    cmp a.tif old.tif
    [ -z "$(ls -A | grep voxpipe)" ]
}

@test "a file in memory counts as little as any other: huge pages made ahead stay within a few" {
    needs_plain_memory
    [ -w /dev/shm ] || skip "no /dev/shm"
    dir=$(mktemp -d /dev/shm/voxpipe-XXXXXX)
    head -c 100000000 /dev/zero | img-cat --raw-in 1000x1000x25:f32 -o a.tif
    img-gauss -j 1 --sigma 2 --memory 6M a.tif --stats s.json -o "$dir/a.tif"
    rm -r "$dir"
    peak=$(perl -ne 'print $1 if /"peak_memory": *(\d+)/' s.json)
    echo "$peak bytes"
    [ "$peak" -gt 0 ] && [ "$peak" -lt 30000000 ]
}

@test "no temporary files, except where --spool asks for one" {
    stack a.tif 20 10 4
    export TMPDIR=$PWD/nowhere
    cat a.tif | img-cat | img-cat -o b.tif
    img-cmp a.tif b.tif
    fails 1 "standard input: cannot be copied to $TMPDIR" sh -c 'cat a.tif | img-cat --spool -o c.tif'
}

@test "metadata travel, and the history grows by one line a program" {
    stack a.tif 20 10 4
    img-cat a.tif | img-cat --pages 1:3 -o b.tif
    [ "$(img-info b.tif | sed -n 's/^history *//p')" = $'img-cat\nimg-cat\nimg-cat --pages 1:3' ]
}

@test "memory does not grow with the number of pages" {
    needs_plain_memory
    peak() { img-cat --stats s.json > /dev/null && perl -ne 'print $1 if /"peak_memory": *(\d+)/' s.json; }
    small=$(perl -e 'print "\0" x 8192 for 1 .. 6000' | img-cat --raw-in 64x64:u16 - | peak)
    large=$(perl -e 'print "\0" x 8192 for 1 .. 60000' | img-cat --raw-in 64x64:u16 - | peak)
    echo "6000 pages: $small bytes, 60000 pages: $large bytes"
    [ "$small" -gt 0 ]
    [ $((large * 10)) -le $((small * 11)) ]
}
