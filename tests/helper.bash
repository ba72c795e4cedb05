# Shared by every .bats file: `load helper`.
bats_require_minimum_version 1.5.0

ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
BUILD=${VOXPIPE_BUILD:-$ROOT/build}
export PATH="$BUILD/bin:$PATH" LC_ALL=C TZ=UTC
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS NO_COLOR
# results are compared to the bit: on one backend. cuda.bats compares the other with it.
export VOXPIPE_DEVICE=cpu
DATA=$ROOT/tests/data
# the table of all programs: name | input | arguments | device
PROGRAMS=$(grep -v '^#' "$ROOT/tests/programs")

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

# on_devices FUNCTION: calls FUNCTION NAME AGREE ARGS... for every program of images that may work on a device
on_devices() {
    local name arguments agree
    while IFS='|' read -r name _ arguments agree; do
        name=${name// /} agree=${agree// /}
        [[ $name = img-* && $agree ]] || continue
        echo "$name" # the last one is where a test failed
        # shellcheck disable=SC2086
        "$1" "$name" "$agree" $arguments
    done <<<"$PROGRAMS"
}

# agree AGREE A B: two stacks do, to the `bits` or within a relative difference
agree() {
    if [ "$1" = bits ]; then ok img-cmp "$2" "$3"; else ok img-cmp --max-rel-l2 "$1" "$2" "$3"; fi
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

# skips a test that needs a terminal of its own, where script(1) cannot make one
needs_terminal() {
    command -v script >/dev/null || skip "no script(1)"
    [ "$(script -qec 'echo works' /dev/null </dev/null 2>/dev/null | tr -d '\r')" = works ] || skip "no pseudo-terminal"
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

# uncounted FILE: to standard output, the same stream without the number of pages (tag 297)
uncounted() {
    perl -0777 -pe 's/(\x29\x01\x03\0\x02\0\0\0(?:\0\0\0\0)?..)../$1\0\0/gs' "$1"
}

# tall FILE PAGES: pages of 1500 x 3000 f32 (18 MB), no two halves of them alike
tall() {
    local i
    noise half.tif 1500x1500x1 f32
    for ((i = 1; i <= 2 * $2; i++)); do img-math --raw-out "a * $i" half.tif; done > tall.raw
    img-convert --raw-in "1500x3000x$2:f32le" tall.raw -o "$1"
}

# took_at_most BYTES: of memory, what wrote stats.json
took_at_most() {
    local peak
    peak=$(sed -n 's/.*"peak_memory": *\([0-9]*\).*/\1/p' stats.json)
    [ "$peak" -gt 1000000 ] && [ "$peak" -le "$1" ] || { echo "took $peak bytes, expected at most $1"; return 1; }
}

# numbers FILE LETTER: all samples, unpacked
numbers() {
    img-convert --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("$ARGV[0]*", <STDIN>)), "\n"' -- "$2"
}

# posed [NAME=NUMBER]...: a geometry of matrices, sod 400, sdd 600, whose detector is turned about z by yaw, about its
# rows by pitch and in its plane by tilt (degrees), shifted by offset (columns), the source moved along the orbit (sx)
# and along z (sz) by mm
posed() {
    local set=(yaw=0 pitch=0 tilt=0 offset=0 sx=0 sz=0 nu=160 nv=128 du=1 views=240 "$@") v=() s
    for s in "${set[@]}"; do v+=(-v "$s"); done
    awk "${v[@]}" '
        # a turned about the unit vector k by t degrees
        function turn(a, k, t,    c, s, d, i, r) {
            t *= atan2(0, -1) / 180; c = cos(t); s = sin(t); d = a[1] * k[1] + a[2] * k[2] + a[3] * k[3]
            r[1] = a[1] * c + (k[2] * a[3] - k[3] * a[2]) * s + k[1] * d * (1 - c)
            r[2] = a[2] * c + (k[3] * a[1] - k[1] * a[3]) * s + k[2] * d * (1 - c)
            r[3] = a[3] * c + (k[1] * a[2] - k[2] * a[1]) * s + k[3] * d * (1 - c)
            for (i = 1; i <= 3; i++) a[i] = r[i]
        }
        function row(f, e, c, n, S,    i, m, text, last) {
            for (i = 1; i <= 3; i++) { m = f * e[i] + c * n[i]; last -= m * S[i]; text = text sprintf(" %.17g", m) }
            return text sprintf(" %.17g", last)
        }
        BEGIN {
            print "detector = " nu "x" nv
            for (k = 0; k < views; k++) {
                b = 2 * atan2(0, -1) * k / views; z[1] = z[2] = 0; z[3] = 1
                e[1] = cos(b); e[2] = sin(b); e[3] = 0; n[1] = sin(b); n[2] = -cos(b); n[3] = 0
                h[1] = 0; h[2] = 0; h[3] = 1
                for (i = 1; i <= 3; i++) { S[i] = -400 * n[i] + sx * e[i] + sz * z[i]; m[i] = 200 * n[i] - S[i] }
                turn(e, z, yaw); turn(n, z, yaw); turn(h, e, pitch); turn(n, e, pitch); turn(e, n, tilt); turn(h, n, tilt)
                D = p = q = 0
                for (i = 1; i <= 3; i++) { D += m[i] * n[i]; p += m[i] * e[i]; q += m[i] * h[i] }
                print "matrix =" row(D / du, e, (nu - 1) / 2 + offset - p / du, n, S) \
                    row(D / du, h, (nv - 1) / 2 - q / du, n, S) row(0, e, 1, n, S)
            }
        }'
}
