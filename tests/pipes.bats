# Pipes get the pages of buffers instead of copies (stack/given.h): the same bytes for all readers, however late.
load helper

# with fewer threads no page is given
setup() { export VOXPIPE_THREADS=4; }

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    cd "$BATS_FILE_TMPDIR" || exit 1
    # large pages, pages of an odd size, small ones, and one; bytes, so that as numbers there is no NaN
    head -c 25165824 /dev/urandom > noise
    img-convert --raw-in 1024x1024:u8 --type f32 noise --pages :11 -o large.tif
    head -c $((997 * 1003 * 13)) noise | img-convert --raw-in 997x1003:u8 --type f32 -o odd.tif
    head -c $((61 * 67 * 2000)) noise | img-convert --raw-in 61x67:u8 --type f32 -o small.tif
    img-cat --raw-in 4096x6144:u8 noise -o one.tif
    ct-geom --sod 400 --sdd 600 --detector 96x80 --pitch 2 --views 40 | ct-phantom -g - -o scan.tif
    stacks='large odd small one'
    for stack in $stacks; do img-gauss --2d "$stack.tif" -o "$stack.gauss.tif"; done
}

stacks='large odd small one'

# gives COMMAND...: true if pages are given to the pipe that it writes to
gives() {
    strace -f -qq -e trace=vmsplice -o calls "$@" | cat > piped
    grep -q 'vmsplice.* = [1-9]' calls
}

@test "a pipe gets pages, and a file does not" {
    command -v strace >/dev/null && strace -qq true 2>/dev/null || skip "no strace, or it may not trace"
    grep -q '\[\(always\|madvise\)\]' /sys/kernel/mm/transparent_hugepage/enabled || skip "no huge pages"
    cd "$BATS_FILE_TMPDIR"
    for stack in large odd; do
        gives img-cat $stack.tif
        img-cat $stack.tif | cat | cmp piped -
        gives img-gauss --sigma 2 $stack.tif
        img-gauss --sigma 2 $stack.tif -o want.tif
        img-cmp -q piped want.tif
    done
    gives ct-fdk --volume 256x256x128 scan.tif
    run -1 gives img-cat -j 3 large.tif # too few threads to gain by it
    strace -f -qq -e trace=vmsplice -o calls img-cat large.tif -o out.tif
    strace -f -qq -e trace=vmsplice -o more img-cat large.tif > out.tif
    [ ! -s calls ]
    [ ! -s more ]
}

@test "a pipe gets what pretended devices make, in memory of theirs or in ours" {
    cd "$BATS_FILE_TMPDIR"
    export VOXPIPE_PLUGINS=$BUILD/pretend
    for stack in large odd; do
        img-gauss --sigma 2 $stack.tif -o want.tif
        for options in '-j 2' '-j 8' '-j 8 --memory 300MiB'; do
            # shellcheck disable=SC2086
            img-gauss --device cuda $options --sigma 2 $stack.tif | cat > piped
            img-cmp -q piped want.tif
        done
    done
}

@test "memory is not given away where little of it is allowed" {
    command -v strace >/dev/null && strace -qq true 2>/dev/null || skip "no strace, or it may not trace"
    cd "$BATS_FILE_TMPDIR"
    run -1 gives img-cat --memory 60MiB large.tif
    img-cat large.tif | cat | cmp piped -
    run -1 gives img-gauss --2d --memory 60MiB large.tif
}

@test "a pipe, a file and > get the same bytes, of large, odd and small pages, with any threads and memory" {
    cd "$BATS_FILE_TMPDIR"
    for stack in $stacks; do
        img-cat $stack.tif -o cat.tif
        for options in '-j 1' '-j 5' '--memory 100MiB'; do
            # shellcheck disable=SC2086
            img-cat $options $stack.tif | cmp - cat.tif
            # shellcheck disable=SC2086
            img-cat $stack.tif | img-gauss --2d $options | img-cat | img-cmp -q - $stack.gauss.tif
        done
        img-cat --raw-out $stack.tif -o cat.raw
        img-cat --raw-out $stack.tif | cat | cmp - cat.raw
    done
    # of unknown length: pages are held back
    for layout in 1024x1024:f32 997x1003:f32; do
        stack=large
        [ "$layout" = 1024x1024:f32 ] || stack=odd
        img-cat --raw-out $stack.tif | img-cat --raw-in "$layout" | img-cmp -q - $stack.tif
        img-cat --raw-out $stack.tif | img-cat --raw-in "$layout" | cat > piped
        img-cat --raw-out $stack.tif | img-cat --raw-in "$layout" > file
        cmp piped file
    done
    ct-fdk --volume 200x190x100 scan.tif -o want.tif
    ct-fdk --volume 200x190x100 scan.tif > file.tif
    cat scan.tif | ct-fdk --volume 200x190x100 | cat > got.tif
    img-cat --raw-out want.tif -o want.raw
    img-cat --raw-out file.tif | cmp - want.raw
    img-cat --raw-out got.tif | cmp - want.raw
}

@test "slow readers, tee, and readers that pass pages on, get the right bytes" {
    cd "$BATS_FILE_TMPDIR"
    splices=$(command -v python3 >/dev/null && python3 -c 'import os; print(os.splice and 1)' 2>/dev/null) || splices=''
    for stack in large odd; do
        img-cat --raw-out $stack.tif -o want.raw
        img-cat --raw-out $stack.tif | { sleep 0.3; dd bs=300001 iflag=fullblock status=none; } | cmp - want.raw
        img-cat --raw-out $stack.tif | tee copy | cmp - want.raw
        cmp copy want.raw
        [ "$splices" ] || continue
        img-cat --raw-out $stack.tif | python3 -c 'import os
while os.splice(0, 1, 1 << 20): pass' | { sleep 0.3; cat; } | cmp - want.raw
    done
}

@test "a reader that leaves early ends all of them by SIGPIPE, silently" {
    cd "$BATS_FILE_TMPDIR"
    for bytes in 1 100000 9000000; do
        # shellcheck disable=SC2016
        run --separate-stderr bash -c 'img-cat large.tif large.tif | img-gauss --2d | head -c $1 | wc -c
            echo "${PIPESTATUS[*]}"' sh "$bytes"
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [ "${lines[0]}" -eq $bytes ]
        [ "${lines[1]}" = "141 141 0 0" ]
        # ignored by the parent: the same
        # shellcheck disable=SC2016
        run --separate-stderr bash -c 'trap "" PIPE; { img-cat large.tif; echo $? > status; } | head -c $1 | wc -c' \
            sh "$bytes"
        [ "$output" -eq $bytes ]
        [ -z "$stderr" ]
        [ "$(cat status)" -eq 141 ]
    done
}

@test "a system that refuses to take pages is written to" {
    [ -e "$BUILD/fault/fault.so" ]
    cd "$BATS_FILE_TMPDIR"
    img-cat odd.tif -o want.tif
    for errno in 1 4 22 38; do # a filter of system calls, a signal, no such pipe, no such call
        for n in 1 2 7; do
            FAULT=vmsplice:$n:$errno LD_PRELOAD=$BUILD/fault/fault.so img-cat odd.tif | cmp - want.tif
        done
    done
}

@test "a pipe that is cut or fails within pages is an error, wherever its reads end" {
    [ -e "$BUILD/fault/fault.so" ]
    cd "$BATS_FILE_TMPDIR"
    cat odd.tif | img-cat -o want.tif
    for n in 1 3 8; do
        for how in 4 short; do
            cat odd.tif | FAULT=readv:$n:$how LD_PRELOAD=$BUILD/fault/fault.so img-cat | cmp - want.tif
            cat odd.tif | FAULT=splice:$n:$how LD_PRELOAD=$BUILD/fault/fault.so img-cat | cmp - want.tif
        done
        for how in 5 end; do
            # shellcheck disable=SC2016
            run bash -c 'cat odd.tif | FAULT=readv:$1:$2 LD_PRELOAD=$3 img-cat 2>err >/dev/null' sh "$n" "$how" \
                "$BUILD/fault/fault.so"
            [ "$status" -eq 1 ]
            grep -q '^img-cat: error: standard input' err
        done
        cat odd.tif | FAULT=splice:$n:22 LD_PRELOAD=$BUILD/fault/fault.so img-cat | cmp - want.tif # read directly
        # shellcheck disable=SC2016
        run bash -c 'cat odd.tif | FAULT=splice:$1:end LD_PRELOAD=$2 img-cat 2>err >/dev/null' sh "$n" "$BUILD/fault/fault.so"
        [ "$status" -eq 1 ]
        grep -q '^img-cat: error: standard input.*truncated' err
    done
}
