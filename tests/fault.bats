# What fails in the middle: one place of every kind of call in every program. `make check-faults` tries them all.
load helper

@test "a system call or allocation that fails: a word, no leftover, never a wrong result" {
    [ -e "$BUILD/fault/fault.so" ]
    run perl "$ROOT/tests/fault/run.pl" "$BUILD" 1
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ "$output" =~ ^[0-9]{3,}" faults, 0 of them badly borne"$ ]]
}

@test "one of several ranks fails: all end, with a word and no leftover" {
    command -v mpirun >/dev/null || skip "no mpirun"
    [ -e "$BUILD/lib/voxpipe/voxpipe-mpi.so" ] || skip "built without MPI"
    run perl "$ROOT/tests/fault/run.pl" "$BUILD" 1 ranks
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ "$output" =~ ^[0-9]{2,}" faults, 0 of them badly borne"$ ]]
}

# broken COMMAND...: the n-th call of `call` is without memory
broken() { FAULT=$call:$n:12 LD_PRELOAD=$BUILD/fault/fault.so "$@" > got 2> err; }

@test "a report that memory cuts short is a failure, not a short report" {
    ct-phantom --volume 8x8x2 -o v.tif
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 24 -o scan.geom
    img-info v.tif > info
    ct-geom --show scan.geom > show
    failed=0
    for call in malloc realloc memalign; do
        for n in {1..45}; do
            if broken img-info v.tif; then cmp got info; else failed=$((failed + 1)); fi
            if broken ct-geom --show scan.geom; then cmp got show; else failed=$((failed + 1)); fi
        done
    done
    [ "$failed" -gt 20 ]
}

@test "a list that memory cuts short is a failure, not a short list" {
    ct-phantom --volume 24x20x1 -o v.tif
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 2 -o scan.geom
    img-psf --gaussian 1 --size 3 -o k.tif
    img-cat k.tif{,,,,,,,,,} -o kernels.tif
    # lines grow, and what holds them must
    for i in {1..10}; do
        long=$(printf './%.0s' $(seq $((2 ** i))))
        echo "${long}v.tif" >> files
        echo "$long 0:$i 0:4" >> boxes
        echo "0 0 $i 4 5 6 0 1 # $long" >> balls
        echo "$((2 * i)) 3 # $long" >> places
    done
    failed=0
    each() {
        local name
        for name in list boxes balls places; do
            local -n command=$name
            "$@"
        done
    }
    list=(img-cat @files)
    boxes=(img-sat --boxes boxes v.tif)
    balls=(ct-phantom -g scan.geom --phantom balls)
    places=(img-convolve -k kernels.tif --positions places v.tif)
    whole() { "${command[@]}" > "$name.whole"; }
    each whole
    part() {
        if broken "${command[@]}"; then cmp got "$name.whole"; else failed=$((failed + 1)); fi
    }
    for call in realloc memalign; do
        for n in {1..10}; do each part; done
    done
    [ "$failed" -gt 20 ]
}

@test "threads end without memory, too" {
    ct-phantom --volume 200x200x40 -o v.tif
    FAULT_COUNT=$PWD/count LD_PRELOAD=$BUILD/fault/fault.so img-info --statistics -j 6 v.tif > whole
    calls=$(sed -n 's/^malloc //p' count)
    call=malloc
    for ((n = calls - 25; n <= calls; n++)); do
        status=0
        broken img-info --statistics -j 6 v.tif || status=$?
        [ "$status" -le 3 ] || { echo "$n of $calls: $status $(cat err)"; return 1; }
        [ "$status" -ne 0 ] || cmp got whole
    done
}
