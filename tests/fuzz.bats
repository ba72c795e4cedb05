# What fuzzing found worth keeping: the inputs in tests/fuzz/corpus. `make fuzz` looks for more.
load helper

@test "every fuzz target bears its corpus" {
    for source in "$ROOT"/tests/fuzz/*_fuzz.c; do
        target=$(basename "$source" _fuzz.c)
        case $target in stream | file | both) corpus=tiff ;; *) corpus=$target ;; esac
        run "$BUILD/replay/$target" "$ROOT/tests/fuzz/corpus/$corpus"
        [ "$status" -eq 0 ] || { echo "$target: ${output: -1000}"; return 1; }
        [[ "$output" =~ [1-9][0-9]*" inputs"$ ]]
    done
}
