# What fails in the middle: one place of every kind of call in every program. `make check-faults` tries them all.
load helper

@test "a system call or allocation that fails: a word, no leftover, never a wrong result" {
    [ -e "$BUILD/fault/fault.so" ]
    run perl "$ROOT/tests/fault/run.pl" "$BUILD" 1
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ "$output" =~ ^[0-9]{3,}" faults, 0 of them badly borne"$ ]]
}
