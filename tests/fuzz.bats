# What fuzzing found worth keeping: the inputs in tests/fuzz/corpus. `make fuzz` looks for more.
load helper

export OMP_WAIT_POLICY=passive # small work, done often

@test "every fuzz target bears its corpus and mutants of it, and takes some of them" {
    for source in "$ROOT"/tests/fuzz/*_fuzz.c; do
        target=$(basename "$source" _fuzz.c)
        case $target in stream | file | both) corpus=tiff ;; *) corpus=$target ;; esac
        run "$BUILD/replay/$target" 20 "$ROOT/tests/fuzz/corpus/$corpus"
        [ "$status" -eq 0 ] || { echo "$target: ${output: -1000}"; return 1; }
        [[ "$output" =~ [1-9][0-9]*" inputs, "[1-9][0-9]*" taken"$ ]] || { echo "$target: ${output: -200}"; return 1; }
    done
}

# what `make fuzz` has built, with the sanitizers of clang: it finds what the corpus alone does not show
@test "fuzz targets live, and reach more of the code than an empty input does" {
    [ -x "$BUILD/fuzz/bin/meta" ] || skip "make fuzz has not been run here"
    run sh "$ROOT/tests/fuzz/run.sh" "$BUILD/fuzz" 1
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ "${#lines[@]}" -eq "$(ls "$ROOT"/tests/fuzz/*_fuzz.c | wc -l)" ]
}
