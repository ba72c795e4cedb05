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
    cmp b.tif c.tif
    cmp b.tif d.tif
    cmp b.tif e.tif
    # a number of pages that is not known until the end: the same if that comes soon, else a BigTIFF
    samples 20 10 7 | img-cat --raw-in 20x10:u16 - > unknown.tif
    cmp a.tif unknown.tif
    [ "$(head -c4 a.tif | od -An -tx1 | tr -d ' ')" = 49492a00 ]
    head -c 5000000 /dev/zero > long.raw
    img-cat --raw-in 1000x1000:u8 < long.raw -o a.tif
    cat long.raw | img-cat --raw-in 1000x1000:u8 > b.tif
    cat long.raw | img-cat --raw-in 1000x1000:u8 -o c.tif
    cat long.raw | img-cat --raw-in 1000x1000:u8 -m 3MB | cat > d.tif
    [ "$(head -c4 a.tif | od -An -tx1 | tr -d ' ')" = 49492a00 ]
    [ "$(head -c4 b.tif | od -An -tx1 | tr -d ' ')" = 49492b00 ]
    cmp b.tif c.tif
    cmp b.tif d.tif
    img-cmp a.tif b.tif
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
    head -c 6000000 /dev/zero | img-cat --raw-in 2000x1000:u8 - > b.tif
    for f in a.tif b.tif; do
        ok tiffinfo "$f"
        [ "$(grep -c 'Image Width: 20.* Image Length: 10' <<<"$output")" = 3 ]
        tiffcp "$f" copy.tif
        img-cmp "$f" copy.tif
    done
}

@test "a cut stack is an error that says where, from a file and from a pipe" {
    stack a.tif 20 10 4
    size=$(stat -c %s a.tif)
    head -c $((size - 5)) a.tif > cut.tif
    fails 1 "img-info: error: cut.tif: page 3: truncated: expected 400 bytes, got 395" img-info cut.tif
    fails 1 "img-info: error: standard input: page 3: truncated: expected 400 bytes, got 395" \
        sh -c 'cat cut.tif | img-info'
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
    printf 'GIF89a......' > a.gif
    fails 1 "a.gif: not a TIFF: starts with 'GIF89a" img-info a.gif
    printf 'P5 2 2 255\n....' | {
        run img-info
        [ "$status" -eq 1 ]
        [[ "$output" == *"standard input: not a TIFF: starts with 'P5 2 2 2'"* ]]
        [[ "$output" == *"--raw-in"* ]]
    }
}

@test "other formats are named with the way out, from files and pipes" {
    printf 'SIMPLE  =                    T' >a.fits
    printf '%128sDICM' '' >a.dcm
    while read -r file text; do
        fails 1 "$file: not a TIFF: starts with" img-info "$file"
        [[ $stderr == *"hint: $text"* ]] || { echo "$stderr"; return 1; }
        fails 1 "hint: $text" sh -c "cat $file | img-cat -o never.tif"
    done <<'EOT'
a.fits it is a FITS file; --raw-in
a.dcm it is a DICOM file
EOT
    [ ! -e never.tif ]
    # and as the hint says
    stack a.tif 20 10 7
    { printf 'SIMPLE%346s' ''; img-convert --raw-out a.tif; } >b.fits
    img-cat --raw-in 20x10x7:u16le,skip=352 b.fits | img-cmp -q - a.tif
    fails 1 "expected 6 pages" img-cat --raw-in 20x10x6:u16le,skip=352 b.fits -o never.tif
}

@test "a TIFF that is not in stream order: refused from a pipe, read from a file, with < and with --spool" {
    foreign a.tif 50 40 3 -c none -r 8
    ok img-info a.tif
    fails 1 "standard input: TIFF is not in stream order (page 0 data precedes its directory)" \
        sh -c 'cat a.tif | img-info'
    [[ "$stderr" == *"hint: give the file name instead, or use --spool"* ]]
    img-cmp a.tif - < a.tif
    mkdir spool
    cat a.tif | TMPDIR=spool img-cat --spool | img-cmp - a.tif
    [ -z "$(ls -A spool)" ]
}

@test "what --spool copies counts as memory where TMPDIR is in memory; without TMPDIR a disk is looked for" {
    [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || skip "no file system in memory"
    stack a.tif 500 400 20 # 8 MB
    spools() { cat a.tif | "$@" --spool -o b.tif; }
    TMPDIR=/dev/shm fails 3 "standard input takes 4.0 MiB in /dev/shm, which is in memory itself: expected at most 3.8 MiB" \
        spools img-cat -m 8M
    [[ "$stderr" == *"hint: set TMPDIR to a folder on a disk, or allow more --memory" ]]
    TMPDIR=/dev/shm ok spools img-cat -m 24M
    img-cmp -q a.tif b.tif
    # the rest of the memory is what pages may take
    TMPDIR=/dev/shm ok spools img-gauss --sigma 3 -m 24M --plan
    grep -q '^beside: *7.6 MiB' <<<"$output" || { echo "$output"; return 1; }
    ok spools img-gauss --sigma 3 -m 24M --plan
    [[ "$output" != *beside:* ]]
    unshare -rm mount -t tmpfs none /tmp 2>/dev/null || skip "no mounts of our own"
    [ "$(stat -f -c %T /var/tmp)" != tmpfs ] || skip "/var/tmp is in memory"
    run unshare -rm sh -c 'mount -t tmpfs none /tmp && unset TMPDIR && cat a.tif | img-cat --spool -m 8M | img-cmp -q - a.tif'
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
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
    [[ "$stderr" == *"standard input: its description cannot be read from a pipe and is left out"* ]]
    run img-info --value quantity b.tif
    [[ "$output" != counts ]]
    img-cmp a.tif b.tif
}

@test "colours, a scale and several files go together: axes and values" {
    colours one.tif 30 20 1
    img-cat one.tif one.tif -o two.tif
    img-convert --set scale=2,10 two.tif -o scaled.tif
    img-cat scaled.tif scaled.tif -o joined.tif
    [ "$(img-info --value axes,sizes,scale joined.tif | xargs)" = "x y channel z 3 4 2 10" ]
    # values of all channels of all files
    img-math a scaled.tif -o values.tif
    [ "$(img-info --value axes,sizes values.tif | xargs)" = "x y channel z 3 2" ]
    img-math 'a * 2 + 10' --type u8 values.tif -o again.tif
    ok img-cmp again.tif two.tif
    # a channel of them, and the luminance, undone
    img-convert --channel 1 --unscale joined.tif -o green.tif
    [ "$(img-info --value axes,pages green.tif | xargs)" = "x y z 4" ]
    img-cat --pages 1::3 values.tif -o want.tif
    img-cat --pages 0:2 green.tif -o got.tif
    ok img-cmp got.tif want.tif
    img-convert --channel luminance --unscale scaled.tif -o grey.tif
    img-convert --channel luminance --type f32 values.tif -o want.tif
    ok img-cmp --max-rel-l2 1e-6 grey.tif want.tif
    # channels that are not the first axis keep what is said of the slices
    img-convert --set axes=x,y,z,channel --set sizes=2,3 --set voxel=1,1,2mm --set channels='red green blue' two.tif -o slow.tif
    ok img-convert --channel luminance slow.tif -o grey.tif
    [ -z "$stderr" ]
    [ "$(img-info --value axes,pages,voxel grey.tif | xargs)" = "x y z 2 1 1 2" ]
}

@test "what a decoder takes is counted in --memory" {
    needs_plain_memory
    command -v tiffcp >/dev/null || skip "tiffcp is not installed"
    img-cat --raw-in 4096x4096:u16 -o a.tif < <(head -c $((4096 * 4096 * 2)) /dev/zero)
    tiffcp -c zip -t -w 4096 -l 2048 a.tif b.tif
    fails 3 "b.tif: the smallest portion, some rows, takes" img-convert --raw-out -m 30M b.tif
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
    fails 1 "standard input: page 3: truncated: expected 400 bytes, got 6" \
        sh -c 'cat h.raw | img-info --raw-in 20x10:u16'
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
    fails 2 "the pages of this stack are single images" img-gauss --sigma 1,1,1 --raw-in 240x200:u16 a.raw
    fails 2 "the pages of this stack are single images" sh -c "cat a.raw | img-gauss --sigma 1,1,1 --raw-in 240x200:u16"
    samples 240 200 3 > b.raw
    # a page is held for that within --memory, and not where two pipes may come from one program
    run --separate-stderr sh -c "head -c 960000 /dev/zero | img-gauss --sigma 1 -v --memory 8MB --raw-in 1200x100:u16 | cat > d.raw"
    [[ "$stderr" == *"beside:"*"234.4 KiB of those"* ]]
    mkfifo second
    head -c 800000 /dev/zero | timeout 20 tee >(exec cat > second) |
        timeout 20 img-math 'a - b' --raw-in 400x500:u8 - second > d.tif
    fails 1 "page 0: truncated: expected 96000 bytes, got 95999" \
        sh -c "head -c 95999 a.raw | img-gauss --sigma 1 --raw-in 240x200:u16 -o c.tif"
    fails 1 "page 1: truncated: expected 96000 bytes, got 1" \
        sh -c "head -c 96001 b.raw | img-gauss --sigma 1 --raw-in 240x200:u16 -o c.tif"
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

@test "-o keeps the permissions of what it replaces and gives no more" {
    stack a.tif 20 10 4
    # set-uid, set-gid and sticky bits were given to the old content
    cp a.tif out.tif
    chmod 7755 out.tif
    img-cat a.tif -o out.tif
    [ "$(stat -c %a out.tif)" = 755 ]
    # a new file has what the umask leaves
    (umask 027; img-cat a.tif -o new.tif)
    [ "$(stat -c %a new.tif)" = 640 ]
    # a folder that hands down permissions does not add them
    if command -v setfacl >/dev/null && mkdir acl && setfacl -d -m u:12345:rw acl 2>/dev/null; then
        cp a.tif acl/out.tif
        setfacl -b acl/out.tif
        chmod 660 acl/out.tif
        img-cat a.tif -o acl/out.tif
        [ "$(stat -c %a acl/out.tif)" = 660 ]
        run -1 grep 12345 <(getfacl -n acl/out.tif)
        setfacl -m u:54321:r,g::- acl/out.tif
        getfacl -n acl/out.tif > before
        img-cat a.tif -o acl/out.tif
        getfacl -n acl/out.tif | cmp - before
    fi
}

@test "-o never lets anybody see the new file who could not see the old one, not for a moment" {
    command -v strace >/dev/null && strace -o log true 2>/dev/null || skip "no strace that works"
    stack a.tif 20 10 4
    cp a.tif out.tif
    chmod 600 out.tif
    # strace keeps the leak sanitizer from its work
    ASAN_OPTIONS=detect_leaks=0 strace -f -o log -e trace=openat,open,chmod,fchmod img-cat a.tif -o out.tif
    grep -E 'voxpipe-.*O_CREAT.*, 0600' log
    run -1 grep -E 'voxpipe-.*O_CREAT.*, 0[0-7]*[1-7][0-7]?\)' <(sed 's/, 0600)//' log)
    [ "$(stat -c %a out.tif)" = 600 ]
}

@test "-o keeps owner and group where it may; where not, nobody gains by it" {
    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || skip "needs root and setpriv"
    stack a.tif 20 10 4
    cp a.tif out.tif
    chown 12345:12346 out.tif
    chmod 664 out.tif
    img-cat a.tif -o out.tif
    [ "$(stat -c %u:%g:%a out.tif)" = 12345:12346:664 ]
    # who is not root and not of that group cannot give it away
    mkdir others
    cp a.tif others/out.tif
    chown -R 777:778 others
    chown 777:12346 others/out.tif
    chmod 674 others/out.tif
    chmod 755 . "$BATS_RUN_TMPDIR" "$(dirname "$PWD")"
    setpriv --reuid 777 --regid 778 --clear-groups "$BUILD/bin/img-cat" - -o others/out.tif < a.tif ||
        skip "another user cannot get at the program"
    [ "$(stat -c %u:%g:%a others/out.tif)" = 777:778:644 ]
}

@test "-o does not follow a link that somebody else made where everybody may" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    stack a.tif 20 10 4
    mkdir -m 1777 open
    echo precious > kept
    ln -s "$PWD/kept" open/link.tif
    chown -h 12345 open/link.tif
    fails 1 "open/link.tif: " img-cat a.tif -o open/link.tif
    [ "$(cat kept)" = precious ]
    ln -s "$PWD/nothing" open/dangling.tif
    chown -h 12345 open/dangling.tif
    fails 1 "open/dangling.tif: " img-cat a.tif -o open/dangling.tif
    [ ! -e nothing ]
    # one's own link is followed, and so is any in a folder of one's own
    ln -s ../kept open/own.tif
    img-cat a.tif -o open/own.tif
    img-cmp a.tif kept
    ln -s kept link.tif
    chown -h 12345 link.tif
    img-cat --pages 0 a.tif -o link.tif
    [ "$(img-info --value pages kept)" = 1 ]
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

# described TEXT FILE [PAGES]: a TIFF of PAGES (8) pages of 4 x 3, as others write it; page p holds p
described() {
    perl -e '($text, $pages) = @ARGV; $text =~ s/\\n/\n/g; $text .= "\0";
        $out = "II*\0" . pack("V", 8 + length($text)) . $text;
        for $i (0 .. $pages - 1) {
            @tag = ([256,3,1,4], [257,3,1,3], [258,3,1,8], [259,3,1,1], [262,3,1,1], [273,4,1,0], [277,3,1,1], [278,3,1,3],
                    [279,4,1,12]);
            splice @tag, 5, 0, [270,2,length($text),8] unless $i;
            $end = length($out) + 2 + 12 * @tag + 4;
            $_->[0] == 273 and $_->[3] = $end for @tag;
            $out .= pack("v", scalar @tag) . join("", map { pack("vvVV", @$_) } @tag)
                  . pack("V", $i < $pages - 1 ? $end + 12 : 0) . chr($i) x 12;
        }
        print $out' "$1" "${3:-8}" > "$2"
}

ome() { echo "<?xml version=\"1.0\"?><OME><Image><Pixels DimensionOrder=\"$1\" SizeX=\"4\" SizeY=\"3\" SizeZ=\"$2\" SizeC=\"$3\" SizeT=\"$4\" PhysicalSizeX=\"0.5\" PhysicalSizeY=\"0.5\" PhysicalSizeZ=\"2\"/></Image></OME>"; }

@test "OME-XML, ImageJ and tifffile: channels, slices and times are told apart" {
    described "$(ome XYZCT 2 2 2)" z.tif
    [ "$(img-info --value axes,sizes,voxel,unit z.tif | xargs)" = "x y z channel time 2 2 2 0.0005 0.0005 0.002 mm" ]
    described "$(ome XYCZT 2 2 2)" c.tif
    [ "$(img-info --value axes,sizes c.tif | xargs)" = "x y channel z time 2 2 2" ]
    described 'ImageJ=1.53t\nimages=8\nchannels=2\nslices=2\nframes=2\nhyperstack=true\n' j.tif
    described '{"shape": [2, 2, 2, 3, 4], "axes": "TZCYX"}' t.tif
    # a mean along z: of each channel at each time
    for f in c j t; do
        img-local --stat mean --radius 0,0,1 --type f32 $f.tif | img-cat --region 0:1,0:1 -o m.tif
        [ "$(numbers m.tif 'f<')" = "1 2 1 2 5 6 5 6" ]
    done
    img-local --stat mean --radius 0,0,1 --type f32 z.tif | img-cat --region 0:1,0:1 -o m.tif
    [ "$(numbers m.tif 'f<')" = "0.5 0.5 2.5 2.5 4.5 4.5 6.5 6.5" ]
}

@test "axes that are not understood: nothing is filtered along them, until they are said" {
    described "$(ome XYZCT 3 2 1)" a.tif
    fails 1 "of unknown sizes: sizes 3 2, 8 pages" img-gauss --sigma 1 a.tif
    tiff_data() { echo "<TiffData IFD=\"0\" FirstZ=\"$2\" PlaneCount=\"8\"><UUID FileName=\"$1\">urn</UUID></TiffData>"; }
    described "$(ome XYZCT 24 1 1 | sed "s|/></Image>|>$(tiff_data b.tif 0)$(tiff_data c.tif 8)</Pixels></Image>|")" b.tif
    described '{"shape": [2, 4, 3, 4]}' c.tif
    described 'ImageJ=1.53t\nimages=8\nslices=5\n' d.tif
    described '{"shape": [8, 3, 4], "axes": "QYX"}' q.tif
    for f in b c d q; do
        [ "$(img-info --value axes $f.tif)" = "x y page" ]
        fails 1 "$f.tif: the meaning of its pages is unknown: the axes are x y page" img-gauss --sigma 1 $f.tif
        [[ "$stderr" == *"hint: with --2d every page is an image of its own; img-convert --set axes=x,y,z makes them a volume"* ]]
        fails 1 "the meaning of its pages is unknown" sh -c "img-local --radius 1,1,1 < $f.tif"
        ok img-gauss --2d --sigma 1 $f.tif -o flat.tif
        ok img-math 'a + 1' $f.tif -o math.tif
        ok img-convert --set axes=x,y,z $f.tif -o volume.tif
        ok img-gauss --sigma 1 volume.tif -o g.tif
    done
    described 'Some text' e.tif                                  # nothing is said: a volume, as ever
    ok img-gauss --sigma 1 e.tif -o g.tif
}

@test "the description begins as ImageJ's, our lines in it come back" {
    ct-phantom --volume 6x5x4 --voxel 0.25 -o v.tif
    [ "$(strings -n 1 v.tif | sed -n '/^ImageJ=/,/^# axes/p' | xargs)" = "ImageJ=1.11a images=1 slices=4 unit=um spacing=250 loop=false # voxpipe = 1 # axes = x y z" ]
    img-cat --set 'note=images=9 # \u00zz \' v.tif -o w.tif
    [ "$(img-info --value note w.tif)" = 'images=9 # \u00zz \' ]
    [ "$(cat w.tif | img-info --value voxel)" = "0.25 0.25 0.25" ]
    # files of before
    described 'voxpipe = 1\naxes = x y channel z\nsizes = 2 4\n' old.tif
    [ "$(img-info --value axes,sizes old.tif | xargs)" = "x y channel z 2 4" ]
}

@test "--compress: resolution tags, and what ImageJ reads" {
    command -v tiffinfo >/dev/null || skip "tiffinfo is not installed"
    ct-phantom --volume 6x5x4 --voxel 0.25 -o v.tif
    img-cat --compress deflate v.tif -o d.tif
    tiffinfo -0 d.tif > info
    [ "$(grep -c 'Resolution: 40, 40 pixels/cm' info)" = 1 ]
    run ! grep -i predictor info
    grep -q 'spacing=250' info
    img-convert --type u16 --scale 1000,0 v.tif --compress deflate -o d.tif
    run ! sh -c 'tiffinfo d.tif | grep -i predictor'
    ok img-cmp v.tif <(img-cat d.tif | img-convert --unscale) --atol 0.001
}

# made FILE KEY=VALUE...: a TIFF of `pages` (3) images of 4 x 3 (or w x h) samples of `bits` (8), each directory in front
# of what belongs to it; `one`: with a directory for the first only. text: tag 270 of the first; photo, format, comp,
# order (II or MM): as in tags; photo= alone leaves the tag out. palette: the name of one. uic2: the distance and the time between
# planes. rows: of a strip; none: a list of strips that have no bytes, gone: nor a place; bare: how long strips are is left
# out. Sample i of page p is p * 37 + 5 * i + 1
# (64 times that, if bits are more than 8).
made() {
    local file=$1
    shift
    perl -e '%o = (pages => 3, w => 4, h => 3, bits => 8, photo => 1, format => 1, comp => 1, order => "II", text => "", palette => "",
                 one => 0, uic2 => "", rows => 0, bare => 0, none => "", gone => "", map { split /=/, $_, 2 } @ARGV);
        $v = $o{order} eq "II" ? "<" : ">"; $rows = $o{rows} || $o{h}; $o{text} =~ s/\\n/\n/g;
        sub image { my $p = shift; my $m = $o{bits} > 8 ? 64 : 1;
                    pack($o{bits} > 8 ? "S$v*" : "C*", map { ($p * 37 + 5 * $_ + 1) * $m % 2 ** $o{bits} } 0 .. $o{w} * $o{h} - 1) }
        %c = (fire => sub { (257 * $_[1], $_[0] ? 257 * (255 - $_[1]) : 0)[$_[0] > 1 ? 0 : $_[0]] },
              grey => sub { 257 * $_[1] }, inverse => sub { 257 * (255 - $_[1]) });
        $out = "$o{order}" . pack("S${v}L$v", 42, 8);
        for $p (0 .. ($o{one} ? 0 : $o{pages} - 1)) {
            my ($data, @size, @at) = image($p);
            my $strip = $rows * $o{w} * $o{bits} / 8, $n = 0;
            my @strips = unpack("(a$strip)*", $data);
            $strips[$_] = "" for split /,/, "$o{none},$o{gone}" =~ s/^,|,$//gr;
            $data = join "", @strips;
            @tag = ([256,4,pack("L$v",$o{w})], [257,4,pack("L$v",$o{h})], [258,3,pack("S$v",$o{bits})], [259,3,pack("S$v",$o{comp})]);
            push @tag, [262,3,pack("S$v",$o{photo})] if $o{photo} ne "";
            push @tag, [270,2,"$o{text}\0"] if $o{text} ne "" && !$p;
            push @tag, [273,4,"\0" x (4 * @strips)], [277,3,pack("S$v",1)], [278,4,pack("L$v",$rows)],
                [279,4,pack("L$v*", map { $o{bare} ? 0 : length } @strips)];
            push @tag, [320,3,pack("S$v*", map { my $c = $_; map { $c{$o{palette}}->($c, $_) } 0 .. 255 } 0 .. 2)] if $o{palette};
            push @tag, [339,3,pack("S$v",$o{format})];
            push @tag, [33629,5,join("", map { pack("L$v*", $o{uic2} =~ /(\d+),/, 1, 2450000, 1000 + $_ * ($o{uic2} =~ /,(\d+)/)[0], 0, 0) } 1 .. $o{pages}),
                $o{pages}] if $o{uic2};
            $at = length($out) + 2 + 12 * @tag + 4; # of values, then of samples
            $place = $at; length($_->[2]) > 4 and $place += length($_->[2]) + (-length($_->[2]) & 1) for @tag;
            $end = $place + length($data);
            for (@strips) { push @at, (grep { $_ == $n } split /,/, $o{gone}) ? 0 : $place; $place += length; $n++ }
            $_->[0] == 273 and $_->[2] = pack("L$v*", @at) for @tag;
            $dir = pack("S$v", scalar @tag); $far = "";
            for (@tag) {
                my ($t, $y, $b, $k) = @$_;
                $dir .= pack("S${v}S${v}L$v", $t, $y, $k || length($b) / (0, 1, 1, 2, 4, 8)[$y]);
                if (length($b) > 4) { $dir .= pack("L$v", $at + length $far); $far .= $b . (length($b) & 1 ? "\0" : "") } else { $dir .= pack("a4", $b) }
            }
            $out .= $dir . pack("L$v", $o{one} || $p == $o{pages} - 1 ? 0 : $end) . $far . $data;
        }
        $out .= image($_) for $o{one} ? 1 .. $o{pages} - 1 : ();
        print $out' -- "$@" > "$file"
}

# wanted BITS [PAGE]...: what `numbers` gives of pages that were made as above, all three if none is said
wanted() {
    perl -e '$b = shift; @ARGV = 0 .. 2 if !@ARGV; $m = $b > 8 ? 64 : 1;
             print join(" ", map { my $p = $_; map { ($p * 37 + 5 * $_ + 1) * $m % 2 ** $b } 0 .. 11 } @ARGV), "\n"' "$@"
}

# everywhere FILE LETTER WANT: the samples of a file, through pipes, compressed, and read by a program that computes
everywhere() {
    local want=$3
    [ "$(numbers "$1" "$2")" = "$want" ]
    [ "$(numbers - "$2" < <(cat "$1"))" = "$want" ]
    ok img-cat --compress deflate "$1" -o packed.tif
    [ "$(numbers packed.tif "$2")" = "$want" ]
    cat "$1" | img-cat | img-cat -o through.tif
    [ "$(numbers through.tif "$2")" = "$want" ]
}

@test "a palette is a display table: its index is the sample, and it goes along where samples do" {
    made grey.tif palette=grey photo=3
    made inverse.tif palette=inverse photo=3
    made fire.tif palette=fire photo=3 order=MM
    for f in grey inverse fire; do
        everywhere $f.tif C "$(wanted 8)"
        [ "$(img-info --value pages,type $f.tif | xargs)" = "3 u8" ]
        ok img-math 'a + 1' $f.tif -o m.tif
        [ "$(numbers m.tif 'f<')" = "$(wanted 8 | perl -pe 's/(\d+)/$1+1/ge')" ]
        run -1 img-info --value palette m.tif
        for copy in packed.tif through.tif; do # of `everywhere`
            [ "$(img-info --value palette $copy 2>/dev/null)" = "$(img-info --value palette $f.tif 2>/dev/null)" ]
        done
    done
    run -1 img-info --value palette grey.tif
    [[ "$(img-info --value palette inverse.tif)" = "ffffff fefefe fdfdfd"*" 000000" ]]
    [[ "$(img-info --value palette fire.tif)" = "00ff00 01fe01 02fd02"* ]]
    img-info fire.tif | grep -x 'palette      256 colours'
    # the tag of a file that we write
    fires() { perl -e 'undef $/; print scalar(() = <> =~ /\x40\x01\x03\x00\x00\x03\x00\x00/g)' "$1"; }
    img-convert --pages 2 fire.tif -o two.tif
    [ "$(fires two.tif) $(fires through.tif)" = "1 3" ]
    fails 2 "--set palette: it comes with the images" img-cat --set palette=000000 fire.tif
    # not where samples become others, are wider, or have no header
    for how in "--window 0,100 --type u8" "--scale 2,0 --type u8" "--type u16" "--set palette="; do
        # shellcheck disable=SC2086
        img-convert -q $how fire.tif -o o.tif
        [ "$(fires o.tif)" = 0 ]
        run -1 img-info --value palette o.tif
    done
    for how in "img-gauss --sigma 1" "img-morph --op dilate" "img-threshold --otsu"; do
        $how fire.tif -o o.tif
        [ "$(fires o.tif)" = 0 ]
    done
}

@test "img-convert --palette expand: the colours" {
    made fire.tif palette=fire photo=3
    img-convert --palette expand fire.tif -o c.tif
    [ "$(img-info --value axes,sizes,channels c.tif | xargs)" = "x y channel z 3 3 red green blue" ]
    [ "$(img-convert --channel 0 c.tif | numbers - C)" = "$(wanted 8)" ]
    [ "$(img-convert --channel 1 c.tif | numbers - C)" = "$(wanted 8 | perl -pe 's/(\d+)/255-$1/ge')" ]
    [ "$(img-convert --channel 2 c.tif | numbers - C)" = "$(wanted 8)" ]
    fails 1 "page 0: colour TIFF cannot be read from a pipe" sh -c 'cat fire.tif | img-convert --palette expand'
    cat fire.tif | img-convert --spool --palette expand | img-cmp - c.tif
    [ "$(img-convert --channel luminance --palette expand fire.tif | img-info --value pages)" = 3 ]
}

@test "zero is white: samples are turned round, but for ImageJ, where that is a display table; CCITT without the tag is white" {
    made white.tif photo=0
    everywhere white.tif C "$(wanted 8 | perl -pe 's/(\d+)/255-$1/ge')"
    made imagej.tif photo=0 'text=ImageJ=1.53t\nimages=3\nslices=3\n'
    everywhere imagej.tif C "$(wanted 8)"
    img-cat --compress deflate imagej.tif -o packed.tif
    [ "$(numbers packed.tif C)" = "$(wanted 8)" ]
    # one row of white in Huffman's code: 00110101 is none, 1011 is 4 of them
    perl -e 'print pack("A2 v V v", "II", 42, 8, 7), map({ pack("v v V V", @$_) } [256, 4, 1, 4], [257, 4, 1, 1], [258, 3, 1, 1],
                 [259, 3, 1, $ARGV[0]], [273, 4, 1, 98], [277, 3, 1, 1], [279, 4, 1, 1]), pack("V C", 0, 0b10110000)' 2 > fax.tif
    [ "$(numbers fax.tif C)" = "1 1 1 1" ]
    [ "$(numbers - C < fax.tif)" = "1 1 1 1" ]
}

@test "ImageJ's order of axes is obeyed" {
    made zct.tif pages=12 'text=ImageJ=1.48v\nimages=12\nchannels=2\nslices=3\nframes=2\norder=zct\n'
    for f in zct.tif "-"; do
        [ "$(img-info --value axes,sizes $f < <(cat zct.tif) | xargs)" = "x y z channel time 3 2 2" ]
    done
    everywhere zct.tif C "$(wanted 8 0 1 2 3 4 5 6 7 8 9 10 11)"
    [ "$(img-info --value axes,sizes packed.tif | xargs)" = "x y z channel time 3 2 2" ]
    # a mean along z is of the slices of one channel
    img-local --stat mean --radius 0,0,1 --type f32 zct.tif | img-cat --region 0:1,0:1 -o m.tif
    [ "$(numbers m.tif 'f<')" = "19.5 38 56.5 130.5 149 167.5 113.5 $(perl -e 'print unpack("f", pack("f", 268 / 3))') 22.5 96.5 115 133.5" ]
    for order in xyCZT ctz; do
        made o.tif pages=12 "text=ImageJ=1.48v\nimages=12\nchannels=2\nslices=3\nframes=2\norder=$order\n"
        img-info --value axes o.tif
    done | xargs | grep -x 'x y channel z time x y channel time z'
    made bad.tif pages=12 'text=ImageJ=1.48v\nimages=12\nchannels=2\nslices=3\nframes=2\norder=zzt\n'
    [ "$(img-info --value axes bad.tif)" = "x y page" ]
}

@test "ImageJ's calibration by a straight line is a scale; by another function it is none that values can be had of" {
    made cal.tif bits=16 'text=ImageJ=1.53t\nimages=3\nslices=3\ncf=0\nc0=-32768\nc1=1\nvunit=gray value\n'
    want=$(wanted 16 | perl -pe 's/(\d+)/$1-32768/ge')
    everywhere cal.tif 'S<' "$(wanted 16)"
    for f in cal.tif packed.tif through.tif; do
        [ "$(img-info --value scale $f)" = "1 32768" ]
        img-math a $f -o m.tif
        [ "$(numbers m.tif 'f<')" = "$want" ]
    done
    cat cal.tif | img-math a -o m.tif
    [ "$(numbers m.tif 'f<')" = "$want" ]
    [ "$(img-info --value mean cal.tif)" = -28576 ]
    made hu.tif bits=16 'text=ImageJ=1.53t\nimages=3\ncf=0\nc0=-1024.5\nc1=0.25\nvunit=HU\n'
    [ "$(img-info --value scale,value-unit hu.tif | xargs)" = "4 4098 HU" ]
    [ "$(img-math a hu.tif | numbers - 'f<')" = "$(wanted 16 | perl -pe 's/(\d+)/$1*0.25-1024.5/ge')" ]
    # a pixel of ImageJ's is a signed sample + 32768
    made signed.tif bits=16 format=2 'text=ImageJ=1.53t\nimages=3\ncf=0\nc0=-32768\nc1=1\n'
    run -1 img-info --value scale signed.tif
    [ "$(img-math --type f32 a signed.tif | numbers - 'f<')" = "$(wanted 16)" ]
    # colours and f32 have none
    made not.tif 'text=ImageJ=1.53t\nimages=3\n'
    run -1 img-info --value scale not.tif
    for said in 'cf=7\nc0=1\nc1=2\nc2=3\nc3=4' 'cf=21' 'cf=0\nc0=1\nc1=2\nzeroclip=true' 'cf=0\nc0=1\nc1=0'; do
        made odd.tif bits=16 "text=ImageJ=1.53t\nimages=3\n$said\nvunit=OD\n"
        ok img-info odd.tif
        ok img-cat odd.tif odd.tif -o copy.tif
        for program in "img-math a" "img-gauss --sigma 1" "img-info --statistics" "img-convert --unscale" "img-convert --type u8 --window 0,9"; do
            # shellcheck disable=SC2086
            fails 1 "the scale in the metadata: expected a gain that is not 0 and an offset, got 'ImageJ's calibration cf=" $program copy.tif
        done
        [[ "$stderr" == *"hint: img-convert --set scale= takes the samples for values; ImageJ makes values of them as 32-bit images"* ]]
        img-convert --set scale= copy.tif -o plain.tif
        ok img-math a plain.tif -o m.tif
    done
}

@test "a stack with one directory is read whole: ImageJ's, MetaMorph's, NIH Image's" {
    for order in II MM; do
        made one.tif one=1 order=$order bits=16 'text=ImageJ=1.53t\nimages=3\nslices=3\n'
        everywhere one.tif 'S<' "$(wanted 16)"
        made stk.tif one=1 order=$order bits=16 uic2=2,0 rows=2
        everywhere stk.tif 'S<' "$(wanted 16)"
        [ "$(img-info --value axes,pages stk.tif | xargs)" = "x y z 3" ]
        [ "$(img-math --type f32 a stk.tif | numbers - 'f<')" = "$(wanted 16)" ]
    done
    made time.tif one=1 uic2=0,40
    [ "$(img-info --value axes time.tif)" = "x y time" ]
    made page.tif one=1 uic2=0,0
    [ "$(img-info --value axes page.tif)" = "x y page" ]
    [ "$(cat page.tif | img-info --value axes)" = "x y page" ]
    # NIH Image: two bytes in a header
    perl -e 'print pack("A2 v V v", "II", 42, 8, 7), map({ pack("v v V V", @$_) } [256, 4, 1, 4], [257, 4, 1, 1], [258, 3, 1, 8],
                 [262, 3, 1, 1], [273, 4, 1, 610], [279, 4, 1, 4], [43314, 3, 256, 98]), pack("V", 0), "\0" x 260, pack("v", 3),
                 "\0" x 250, "abcdefghijkl"' > nih.tif
    everywhere nih.tif C "$(echo {97..108})"
}

@test "a file that speaks of more images than it has is refused, in one line" {
    made few.tif 'text=ImageJ=1.53t\nimages=5\nslices=5\n'
    described "$(ome XYZCT 24 1 1)" ome.tif
    described '{"shape": [9, 3, 4], "axes": "ZYX"}' shaped.tif
    made stk.tif uic2=1,1 comp=1
    perl -pi -e 's/\x5d\x83\x05\0\x03\0/\x5d\x83\x05\0\x04\0/g' stk.tif # 4 planes, 3 directories
    # one directory, and what comes behind it cannot be as it is
    made one.tif pages=1 'text=ImageJ=1.53t\nimages=3\n'
    if command -v tiffcp >/dev/null; then tiffcp -c lzw one.tif packed.tif; fi
    for case in few.tif:5:3:description ome.tif:24:8:description shaped.tif:9:8:description "stk.tif:4:3:tag of MetaMorph" \
        packed.tif:3:1:description; do
        IFS=: read -r f said has by <<<"$case"
        [ -e "$f" ] || continue
        fails 1 "$f: expected $said images, as its $by says, its directories hold $has" img-cat "$f"
        [[ "$stderr" == *"hint: if those are all, take the tag out of the file: tiffset -u "* ]]
    done
    described '{"shape": [18, 6, 8], "axes": "ZYX"}' cropped.tif # of other images than these
    ok img-cat cropped.tif -o o.tif
    rm o.tif
    fails 1 "expected 5 images, as its description says, its directories hold 3" sh -c 'cat few.tif | img-cat -o o.tif'
    [ ! -e o.tif ]
    made cut.tif one=1 uic2=2,0
    truncate -s -3 cut.tif
    fails 1 "page 2: truncated: expected 12 bytes, got 9" img-info cut.tif
    fails 1 "page 2: truncated: expected 12 bytes, got 9" sh -c 'cat cut.tif | img-info'
}

@test "strips and tiles without bytes are zeros, compressed or not" {
    for empty in none gone; do
        made s.tif rows=1 $empty=1
        want=$(wanted 8 | perl -ne '@v = split; print join(" ", map { $_ % 12 > 3 && $_ % 12 < 8 ? 0 : $v[$_] } 0 .. $#v)')
        [ "$(numbers s.tif C)" = "$want" ]
        [ "$(img-math 2*a s.tif | numbers - 'f<')" = "$(perl -pe 's/(\d+)/2*$1/ge' <<<"$want")" ]
        img-cat --compress deflate s.tif -o packed.tif
        [ "$(numbers packed.tif C)" = "$want" ]
        [ "$(img-cat --region :,1:3 s.tif | numbers - C)" = "$(perl -ne '@v = split; print join(" ", @v[4 .. 11, 16 .. 23, 28 .. 35])' <<<"$want")" ]
        fails 1 "sparse TIFF cannot be read from a pipe" sh -c 'cat s.tif | img-cat'
        cat s.tif | img-cat --spool | img-cmp - packed.tif
    done
    # where no strip says how long it is, that is left out
    made s.tif rows=1 bare=1
    [ "$(numbers s.tif C)" = "$(wanted 8)" ]
    # compressed, and all of it
    for comp in 5 8; do
        made z.tif pages=1 comp=$comp none=0
        [ "$(numbers z.tif C)" = "$(echo 0{,,,,,,,,,,,})" ]
        made z.tif pages=1 comp=$comp rows=1 gone=0,1,2
        [ "$(numbers z.tif C)" = "$(echo 0{,,,,,,,,,,,})" ]
    done
}

@test "units of length: ImageJ's of each axis, and OME's" {
    size() { described "<OME><Image><Pixels DimensionOrder=\"XYZCT\" SizeZ=\"8\" SizeC=\"1\" SizeT=\"1\" PhysicalSizeX=\"2\" PhysicalSizeXUnit=\"$1\" PhysicalSizeY=\"2\" PhysicalSizeYUnit=\"$1\"/></Image></OME>" u.tif
             img-info --value voxel u.tif; }
    while read -r unit mm; do
        [ "$(size "$unit")" = "$mm $mm" ] || { echo "$unit: $(size "$unit"), expected $mm"; false; }
    done <<-'END'
		Ym 2e+27
		Zm 2e+24
		Em 2e+21
		Pm 2e+18
		Tm 2e+15
		Gm 2e+12
		Mm 2e+09
		km 2000000
		hm 200000
		dam 20000
		m 2000
		dm 200
		cm 20
		mm 2
		um 0.002
		µm 0.002
		&#181;m 0.002
		&#xB5;m 0.002
		nm 2e-06
		pm 2e-09
		fm 2e-12
		am 2e-15
		zm 2e-18
		ym 2e-21
		Å 2e-07
		&#197; 2e-07
		thou 0.0508
		li 4.23333333
		in 50.8
		ft 609.6
		yd 1828.8
		mi 3218688
		ua 2.99195741e+14
		ly 1.89214609e+19
		pc 6.17135516e+19
		pt 0.705555556
	END
    run -1 size "reference frame"
    # ImageJ: 2 pixels a unit in x, 4 in y
    calibrated() {
        made u.tif pages=1 "text=ImageJ=1.53t\nspacing=3\n$1"
        perl -e 'undef $/; $_ = <>; $d = unpack("v", substr($_, 8, 2)); $end = length;
            $dir = substr($_, 10, 12 * $d); $dir =~ s/(.{12})/my $e = $1; unpack("v", $e) > 282 && !$done++ ? pack("v v V V" x 2, 282, 5, 1, $end, 283, 5, 1, $end + 8) . $e : $e/gse;
            print substr($_, 0, 4), pack("V", $end + 16), substr($_, 8), pack("V4", 2, 1, 4, 1), pack("v", $d + 2), $dir, pack("V", 0)' u.tif > v.tif
        img-info --value voxel v.tif
    }
    [ "$(calibrated 'unit=mm\n')" = "0.5 0.25 3" ]
    [ "$(calibrated 'unit=A\n')" = "5e-08 2.5e-08 3e-07" ]
    [ "$(calibrated 'unit=Angstrom\n')" = "5e-08 2.5e-08 3e-07" ]
    [ "$(calibrated 'unit=meter\n')" = "500 250 3000" ]
    [ "$(calibrated 'unit=micrometers\n')" = "0.0005 0.00025 0.003" ]
    [ "$(calibrated 'unit=mm\nyunit=cm\nzunit=inch\n')" = "0.5 2.5 76.2" ]
    [ "$(calibrated 'unit=mm\nzunit=frogs\n')" = "0.5 0.25" ]
    run -1 calibrated 'unit=mm\nyunit=frogs\n'
}

# unlike FILE: pages of 4 x 2 (page 0 of the stack), 2 x 1 in three colours (1 to 3), 3 x 2 (4), complex numbers (5), 3 x 2 (6)
unlike() {
    perl -e '@dir = ([4, 2, [8], 1, 1, "abcdefgh"], [2, 1, [8, 8, 8], 2, 1, "rgbRGB"], [3, 2, [8], 1, 1, "ABCDEF"], [3, 2, [64], 1, 6, "x" x 48],
                     [3, 2, [8], 1, 1, "GHIJKL"]);
             $out = pack("A2 v V", "II", 42, 8);
             for (@dir) {
                 my ($w, $h, $bits, $photo, $format, $data) = @$_;
                 $at = length($out) + 2 + 9 * 12 + 4;
                 $far = @$bits > 2 ? pack("v*", @$bits, 0) : "";
                 $next = ++$n < @dir ? $at + length($far) + length($data) : 0;
                 $out .= pack("v", 9) . join("", map { pack("v v V V", @$_) } [256, 4, 1, $w], [257, 4, 1, $h],
                     [258, 3, scalar @$bits, $far ? $at : $bits->[0]], [262, 3, 1, $photo], [273, 4, 1, $at + length $far],
                     [277, 3, 1, scalar @$bits], [278, 4, 1, $h], [279, 4, 1, length $data], [339, 3, 1, $format])
                     . pack("V", $next) . $far . $data;
             }
             print $out' > "$1"
}

@test "--pages picks pages that are alike out of a file whose pages are not" {
    unlike u.tif
    raw() { img-convert --raw-out "$@"; }
    fails 1 "u.tif: page 1: expected 4x2 u8, 1 channels as page 0, got 2x1 u8, 3 channels" img-info u.tif
    [[ "$stderr" == *"hint: pick pages that are alike, as in: img-cat --pages 0 FILE"* ]]
    [ "$(raw --pages 0 u.tif)" = abcdefgh ]
    [ "$(raw --pages 4 u.tif)" = ABCDEF ]
    [ "$(raw --pages -1,4,-1 u.tif)" = GHIJKLABCDEFGHIJKL ]
    [ "$(raw --pages 1:4 u.tif)" = rRgGbB ]
    [ "$(raw --pages 3,2 u.tif)" = bBgG ]
    [ "$(raw --pages 4::2 --region 0:1,: u.tif)" = ADGJ ]
    [ "$(img-cat --reverse --pages 4,6 u.tif | raw)" = GHIJKLABCDEF ]
    # the axes are those of what is picked
    [ "$(img-cat --pages 1:4 u.tif | img-info --value axes,channels | xargs)" = "x y channel red green blue" ]
    [ "$(img-info --pages 6 --value mean u.tif)" = 73.5 ]
    img-cat --pages 4,6 --compress deflate u.tif -o packed.tif
    [ "$(raw packed.tif)" = ABCDEFGHIJKL ]
    [ "$(img-cat --pages 4,6 u.tif | img-math 'a + 1' --type u8 | raw)" = BCDEFGHIJKLM ]
    cat u.tif | img-cat --spool --pages 4,6 | img-cmp - packed.tif
    # what is picked must be alike, be there, and can be read
    fails 1 "u.tif: page 2: expected 4x2 u8 as page 0, got 3x2 u8" img-cat --pages 0,4 u.tif
    fails 1 "u.tif: page 2: expected 2x1 u8, 3 channels as page 1, got 3x2 u8, 1 channels" img-cat --pages 3:5 u.tif
    fails 1 "u.tif: page 3: samples of format 6 (complex numbers)" img-cat --pages 5 u.tif
    fails 2 "--pages '9': u.tif has 7 pages, 0 to 6" img-cat --pages 9 u.tif
    fails 1 "page 1: expected 4x2 u8, 1 channels as page 0, got 2x1" sh -c 'cat u.tif | img-cat --pages 4 -o o.tif'
    [[ "$stderr" == *"hint: give the file name instead, or use --spool, and pick pages that are alike with --pages"* ]]
    truncate -s -1 u.tif
    [ "$(raw --pages 4 u.tif)" = ABCDEF ]
    fails 1 "u.tif: page 4: truncated: expected 6 bytes, got 5" img-cat --pages 6 u.tif
}
