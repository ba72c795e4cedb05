# Shared by every .bats file: `load helper`.
bats_require_minimum_version 1.5.0

ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
BUILD=${VOXPIPE_BUILD:-$ROOT/build}
export PATH="$BUILD/bin:$PATH" LC_ALL=C TZ=UTC
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS NO_COLOR
# results are compared to the bit: on one backend. cuda.bats compares the other with it.
export VOXPIPE_DEVICE=cpu
DATA=$ROOT/tests/data

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
}

# ok COMMAND...: succeeds and says nothing on standard error
ok() {
    run --separate-stderr "$@"
    if [ "$status" -ne 0 ] || [ -n "$stderr" ]; then
        printf 'command: %s\nstatus: %s\nstdout: %s\nstderr: %s\n' "$*" "$status" "$output" "$stderr"
        return 1
    fi
}

# fails STATUS TEXT COMMAND...: exits with STATUS, standard output empty, standard error holds TEXT
fails() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr "$@"
    if [ "$status" -ne "$want" ] || [ -n "$output" ] || [[ "$stderr" != *"$text"* ]]; then
        printf 'command: %s\nexpected status %s, got %s\nexpected on stderr: %s\nstdout: %s\nstderr: %s\n' \
            "$*" "$want" "$status" "$text" "$output" "$stderr"
        return 1
    fi
}

# near A B TOL: |A - B| <= TOL
near() {
    awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; if (!(d <= t)) { printf "expected %s +- %s, got %s\n", b, t, a; exit 1 } }'
}

# skips a test of memory in a build whose sanitizer keeps shadows and freed blocks
needs_plain_memory() {
    if ldd "$BUILD/bin/ct-fdk" | grep -q libasan; then skip "built with the address sanitizer"; fi
}
