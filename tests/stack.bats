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

@test "other formats are named with the way out, from files and pipes" {
    printf 'SIMPLE  =                    T' >a.fits
    printf '%128sDICM' '' >a.dcm
    printf '\320\317\021\340\241\261\032\341....' >a.txrm
    printf 'ObjectType = Image\nNDims = 3\n' >a.mha
    printf '{\nHeaderID = EH:000001' >a.edf
    printf '\223NUMPY\001\000v\000' >a.npy
    printf '\211HDF\r\n\032\n' >a.h5
    printf '\134\001\000\000........' >a.nii
    printf 'NRRD0004\n' >a.nrrd
    while read -r file text; do
        fails 1 "$file: not a TIFF: starts with" img-info "$file"
        [[ $stderr == *"hint: $text"* ]] || { echo "$stderr"; return 1; }
        fails 1 "hint: $text" sh -c "cat $file | img-cat -o never.tif"
    done <<'EOT'
a.fits it is a FITS file; --raw-in
a.dcm it is a DICOM file
a.txrm it is an OLE2 file
a.mha it is a MetaImage header; --raw-in
a.edf if it is an EDF file, --raw-in
a.npy it is a NumPy file; --raw-in
a.h5 it is an HDF5 file
a.nii it is a NIfTI file; --raw-in
a.nrrd it is a NRRD file; --raw-in
EOT
    [ ! -e never.tif ]
    # and as the hint says
    stack a.tif 20 10 7
    { printf '\134\001\000\000%348s' ''; img-convert --raw-out a.tif; } >a.nii
    img-cat --raw-in 20x10x7:u16le,skip=352 a.nii | img-cmp -q - a.tif
    fails 1 "expected 6 pages" img-cat --raw-in 20x10x6:u16le,skip=352 a.nii -o never.tif
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
    [[ "$stderr" == *"standard input: its description lies far behind the samples and is left out"* ]]
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
    [[ "$stderr" == *"beside:"*"234.4 KiB of those"* ]]
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
    described "$(ome XYZCT 3 2 2)" a.tif
    fails 1 "how many of each is not known: sizes 3 2 2, 8 pages" img-gauss --sigma 1 a.tif
    described "$(ome XYZCT 24 1 1)" b.tif                       # the others are in other files
    described '{"shape": [2, 4, 3, 4]}' c.tif
    described 'ImageJ=1.53t\nimages=8\nslices=5\n' d.tif
    described '{"shape": [8, 3, 4], "axes": "QYX"}' q.tif
    for f in b c d q; do
        [ "$(img-info --value axes $f.tif)" = "x y page" ]
        fails 1 "$f.tif: what its pages are is not known: the axes are x y page" img-gauss --sigma 1 $f.tif
        [[ "$stderr" == *"hint: with --2d every page is an image of its own; img-convert --set axes=x,y,z makes them a volume"* ]]
        fails 1 "what its pages are is not known" sh -c "img-local --radius 1,1,1 < $f.tif"
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
