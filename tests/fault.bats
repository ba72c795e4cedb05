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

@test "a report that memory cuts short is a failure, not a short report" {
    ct-phantom --volume 8x8x2 -o v.tif
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 24 -o scan.geom
    img-info v.tif > info
    ct-geom --show scan.geom > show
    broken() { FAULT=$call:$n:12 LD_PRELOAD=$BUILD/fault/fault.so "$@" > got 2> err; }
    failed=0
    for call in malloc realloc memalign; do
        for n in {1..45}; do
            if broken img-info v.tif; then cmp got info; else failed=$((failed + 1)); fi
            if broken ct-geom --show scan.geom; then cmp got show; else failed=$((failed + 1)); fi
        done
    done
    [ "$failed" -gt 20 ]
}
