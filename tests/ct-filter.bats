# ct-filter: the command line around the filter; its arithmetic is tested in unit/filter_test.c.
load helper

# scan NAME ARGS...: NAME.geom with 16 columns, 4 rows, 12 views, and counts of it that look random
scan() {
    local name=$1
    shift
    ct-geom --sod 500 --sdd 1000 --detector 16x4 --pitch 2 --views 12 "$@" -o "$name.geom"
    awk 'BEGIN { srand(7); for (i = 0; i < 16 * 4 * 12; i++) printf "%c", 33 + int(90 * rand()) }' >"$name.raw"
}

# samples OPTION... : filtered samples of one view a line, as text
samples() { ct-filter --raw-out "$@" | od -An -v -tf4 -w32; }

@test "ct-filter: a delta becomes the taps of the band-limited ramp, scaled" {
    ct-geom --beam parallel --detector 8x1 --pitch 0.5 --views 4 --arc 180 -o p.geom
    printf '\0\0\0\001\0\0\0\0%s' "$(printf '0%.0s' {1..24})" >delta.raw
    samples -g p.geom --raw-in 8x1:u8 delta.raw >out.txt
    # pi/4 a view, 1 / 0.5 mm, times 1/4, -1/pi^2, 0, -1/(9 pi^2)
    read -r _ a b c d e f g < <(head -n 1 out.txt)
    near "$c" 0.39269908 1e-6
    near "$b" -0.15915494 1e-6
    near "$d" -0.15915494 1e-6
    near "$a" 0 1e-6
    near "$e" 0 1e-6
    near "$f" -0.01768388 1e-6
    near "$g" 0 1e-6
}

@test "ct-filter: files, redirection and pipes give the same bytes" {
    scan full
    img-convert --raw-in 16x4:u8 --type f32 full.raw -o in.tif
    ok ct-filter -g full.geom in.tif -o a.tif
    ct-filter -g full.geom <in.tif >b.tif
    cat in.tif | ct-filter -g full.geom - | cat >c.tif
    ok img-cmp a.tif b.tif
    ok img-cmp a.tif c.tif
}

@test "ct-filter: threads and memory do not change a bit" {
    scan short --arc 215
    ct-filter -j1 -g short.geom --raw-in 16x4:u8 --raw-out short.raw -o want
    for o in -j2 -j3 "-m 1MiB" "-j2 -m 200KiB"; do
        # shellcheck disable=SC2086
        ok ct-filter $o -g short.geom --raw-in 16x4:u8 --raw-out short.raw -o got
        cmp want got
    done
}

@test "ct-filter: sinograms give the same bits as views" {
    ct-geom --sod 500 --sdd 1000 --detector 16x1 --pitch 2 --views 12 --arc 215 -o s.geom
    awk 'BEGIN { srand(7); for (i = 0; i < 16 * 12; i++) printf "%c", 33 + int(90 * rand()) }' >s.raw
    ct-filter -g s.geom --raw-in 16x1:u8 --raw-out s.raw -o views
    ok ct-filter -g s.geom --layout sinograms --raw-in 16x12:u8 --raw-out s.raw -o sinogram
    cmp views sinogram
}

@test "ct-filter: the output says what it is, keeps its geometry, and is not filtered twice" {
    scan full
    ct-filter -g full.geom --raw-in 16x4:u8 full.raw -o q.tif
    ok img-info q.tif
    [[ $output == *"filtered projection"* ]]
    ct-geom q.tif -o back.geom
    diff full.geom back.geom
    fails 2 "ct-filter: error: q.tif: is filtered already" ct-filter q.tif
}

@test "ct-filter: weights that are wrong for the scan are refused" {
    scan full
    scan short --arc 215
    fails 2 "--weights parker: expected a short scan, got a full turn" \
        ct-filter --weights parker -g full.geom --raw-in 16x4:u8 full.raw
    fails 2 "--weights wang: expected a full turn" ct-filter --weights wang -g short.geom --raw-in 16x4:u8 short.raw
    fails 2 "--weights" ct-filter --weights perker -g short.geom --raw-in 16x4:u8 short.raw
    fails 2 "--cutoff" ct-filter --cutoff 1.5 -g short.geom --raw-in 16x4:u8 short.raw
}

@test "ct-filter: an arc that is too short is filtered with a warning" {
    scan arc --arc 150
    run --separate-stderr ct-filter -g arc.geom --raw-in 16x4:u8 arc.raw -o q.tif
    [ "$status" -eq 0 ]
    [[ $stderr == *"warning:"*"shorter than 180 and the fan"* ]]
}

@test "ct-filter: an offset detector is completed, geometry included" {
    scan off --offset-u 4
    ok ct-filter -g off.geom --raw-in 16x4:u8 off.raw -o q.tif
    ct-geom q.tif -o wide.geom
    grep -q "detector = 24x4" wide.geom || grep -q "detector = 24 4" wide.geom
    ok ct-filter --plan -g off.geom --raw-in 16x4:u8 off.raw
    [[ $output == *"wang weights"* && $output == *"24 columns"* ]]
}

@test "ct-filter: samples that are not finite are reported and count as 0" {
    ct-geom --beam parallel --detector 4x1 --pitch 1 --views 1 -o one.geom
    printf '\0\0\200\077\0\0\300\177\0\0\0\100\0\0\200\177' >nan.raw
    printf '\0\0\200\077\0\0\0\0\0\0\0\100\0\0\0\0' >zero.raw
    run --separate-stderr ct-filter -g one.geom --raw-in 4x1:f32 --raw-out nan.raw -o a
    [ "$status" -eq 0 ]
    [ "$stderr" = "ct-filter: warning: nan.raw: 2 samples are NaN or infinite, taken as 0" ]
    ok ct-filter -g one.geom --raw-in 4x1:f32 --raw-out zero.raw -o b
    cmp a b
}

@test "ct-filter: more or fewer views than the geometry has" {
    scan full
    img-convert --raw-in 16x4:u8 --type f32 full.raw -o in.tif
    fails 1 "in.tif" ct-filter -g full.geom in.tif in.tif -o many.tif
    [ ! -e many.tif ]
    # a raw pipe does not say how long it is
    head -c 704 full.raw | fails 1 "expected 12 pages, got 11" \
        ct-filter -g full.geom --raw-in 16x4:u8 -o few.tif
    [ ! -e few.tif ]
    cat full.raw full.raw | fails 1 "more pages than the 12 of its geometry" \
        ct-filter -g full.geom --raw-in 16x4:u8 -o many.tif
    [ ! -e many.tif ]
}

@test "ct-filter: no geometry" {
    scan full
    img-convert --raw-in 16x4:u8 --type f32 full.raw -o in.tif
    fails 2 "in.tif carries no scan geometry" ct-filter in.tif
}

@test "ct-filter: --plan says what would be done and touches nothing" {
    scan full
    ok ct-filter --plan --window hann --cutoff 0.5 -g full.geom --raw-in 16x4:u8 full.raw -o q.tif
    [[ $output == *"ramp hann, cutoff 0.5, no weights, fft length 32"* ]]
    [ ! -e q.tif ]
    fails 3 "the filter's tables need" ct-filter --plan -m 10 -g full.geom --raw-in 16x4:u8 full.raw -o q.tif
}

@test "ct-filter: a window and a cut-off take noise away" {
    scan full
    variance() {
        samples -g full.geom --raw-in 16x4:u8 "$@" full.raw |
            awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { print s }'
    }
    [ "$(awk -v a="$(variance)" -v b="$(variance --window hann)" -v c="$(variance --window hann --cutoff 0.5)" \
        'BEGIN { print (a > 2 * b && b > 2 * c) }')" = 1 ]
}
