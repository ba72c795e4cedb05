# The script that compares two builds to the bit sees what differs, and nothing else.
load helper

@test "bits.sh: two builds agree, or differ in samples, in headers, in text, in their status" {
    ok sh "$ROOT/tests/bits.sh" "$BUILD/bin" "$BUILD/bin" --only "img-log --sigma 1.5 ../in"
    [ "${lines[-1]}" = "5 commands, 0 differ, 0 headers differ" ]

    # another build, made of wrappers: other options give other samples, or the same with another history
    mkdir other
    for program in "$BUILD"/bin/*; do ln -s "$program" other; done
    wrap() {
        rm "other/$1"
        printf '#!/bin/sh\n"%s" %s\n' "$BUILD/bin/$1" "$2" >"other/$1"
        chmod +x "other/$1"
    }
    wrap img-log '--truncate 2 "$@"'
    fails_with "5 commands, 5 differ, 0 headers differ" "out.tif: * bytes of samples differ" "img-log --sigma 1.5 ../in"
    wrap img-log '--edge renormalize "$@"'
    run sh "$ROOT/tests/bits.sh" "$BUILD/bin" other --only "img-log --sigma 1.5 ../in"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "5 commands, 0 differ, 5 headers differ" ]
    [[ "$output" = *"    history"* ]]
    wrap img-log '"$@" && exit 4'
    fails_with "5 commands, 5 differ, 0 headers differ" "    status 0 and 4: " "img-log --sigma 1.5 ../in"
    wrap img-cmp '"$@" | sed s/samples/sample/'
    fails_with "14 commands, 14 differ, 0 headers differ" "stdout *differ*" "img-cmp ../in/"
    wrap img-view '--zoom 2 "$@"'
    fails_with "3 commands, 3 differ, 0 headers differ" "out.png: 90 40 1 u8 and 180 80 1 u8" "img-view --axis x"
    # what A should do and does not is no agreement
    run sh "$ROOT/tests/bits.sh" other other --only "img-log --sigma 1.5 ../in"
    [ "$status" -eq 1 ]
    [ "${lines[-1]}" = "5 commands, 0 differ, 0 headers differ" ]
    [[ "$output" = *"fails: img-log"* ]]
}

# fails_with LAST TEXT COMMANDS: these commands differ, as told in a line with TEXT (a pattern)
fails_with() {
    run sh "$ROOT/tests/bits.sh" "$BUILD/bin" other --only "$3"
    echo "$output"
    [ "$status" -eq 1 ] || return 1
    [ "${lines[-1]}" = "$1" ] || return 1
    # shellcheck disable=SC2053
    [[ $output = *$2* ]]
}
