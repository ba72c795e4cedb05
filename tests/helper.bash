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
    if [[ $(ldd "$BUILD/bin/ct-fdk") == *libasan* ]]; then skip "built with the address sanitizer"; fi
}

# floats FILE NUMBER...: one page of f32
floats() {
    local file=$1
    shift
    perl -e 'print pack("f<*", @ARGV)' -- "$@" > floats.raw
    img-convert --raw-in $#x1:f32le floats.raw -o "$file"
}

# noise FILE WxHxD TYPE: random samples (always the same) of u8, u16, i16 or f32
noise() {
    local w h d
    IFS=x read -r w h d <<<"$2"
    perl -e '($n, $t) = @ARGV; $s = 1; sub r { $s = ($s * 1103515245 + 12345) % 2147483648; int($s / 65536) }
             print pack({u8 => "C*", u16 => "S<*", i16 => "s<*", f32 => "f<*"}->{$t}, map { $t eq "u8" ? r() % 256
             : $t eq "u16" ? 2 * r() : $t eq "i16" ? 2 * r() - 32768 : r() / 32768 } 1..$n)' \
        $((w * h * d)) "$3" > noise.raw
    img-convert --raw-in "${w}x$h:${3/8/8}$([ "$3" = u8 ] || echo le)" noise.raw -o "$1"
}

# numbers FILE LETTER: all samples, unpacked
numbers() {
    img-convert --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("$ARGV[0]*", <STDIN>)), "\n"' -- "$2"
}
