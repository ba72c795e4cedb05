# img-deconvolve: its options and messages; that results are right is in unit/deconvolve_test.c.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-phantom --volume 64x48x2 -o sharp.tif
    img-cat --region 0:9,0:7 --pages 0:1 sharp.tif | img-math 'exp(-((x-4)^2 + (y-3)^2)/4)' -o kernel.tif
    img-convolve -k kernel.tif --normalize --edge mirror sharp.tif -o blurred.tif
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    cp "$BATS_FILE_TMPDIR"/* .
}

# apart A: the rms of what A differs from the sharp image
apart() {
    run img-cmp "$1" sharp.tif
    awk '/rms error/ { print $3 }' <<<"$output"
}

@test "every method comes nearer to what was blurred, page by page" {
    near=$(apart blurred.tif)
    for how in "" "--accelerate" "--tv 0.002" "--method wiener --noise 1e-4" "--type same"; do
        read -ra options <<<"$how"
        ok img-deconvolve -k kernel.tif "${options[@]}" blurred.tif -o out.tif
        awk -v a="$(apart out.tif)" -v b="$near" 'BEGIN { if (!(a < 0.85 * b)) { print a, b; exit 1 } }'
    done
    # pages stand alone, whatever comes with them, from a pipe too
    img-deconvolve -k kernel.tif --accelerate blurred.tif -o both.tif
    img-cat --pages 1:2 blurred.tif | img-deconvolve -k kernel.tif --accelerate | cat > one.tif
    img-cat --pages 1:2 both.tif -o want.tif
    ok img-cmp want.tif one.tif
}

@test "iterations and residual: told with -v, kept by --stats, and where to stop" {
    img-deconvolve -k kernel.tif -n 5 -v blurred.tif -o out.tif 2>log --stats stats.json
    grep -q 'page 1: ended after 5 iterations: residual 0.0' log
    [ "$(grep -c 'page 0: [1-4] iterations: residual' log)" = 4 ]
    grep -q '"iterations": 5' stats.json
    grep -q '"residual": 0.0' stats.json
    img-deconvolve -k kernel.tif -n 1000 --stop 0.2 blurred.tif -o out.tif --stats stats.json
    n=$(grep -o '"iterations": [0-9]*' stats.json | grep -o '[0-9]*$')
    [ "$n" -gt 2 ]
    [ "$n" -lt 100 ]
}

@test "a grid of the same kernel is that kernel; a volume has a kernel of its own" {
    img-cat kernel.tif kernel.tif kernel.tif kernel.tif -o grid.tif
    img-deconvolve -k kernel.tif -n 10 blurred.tif -o want.tif
    for weights in output source; do
        ok img-deconvolve -k grid.tif --grid 2x2 --weights $weights -n 10 blurred.tif -o out.tif
        ok img-cmp --atol 1e-6 want.tif out.tif
    done
    ct-phantom --volume 24x24x16 -o sharp.tif
    noise k.tif 5x5x5 u8
    img-math 'exp(-((x-2)^2 + (y-2)^2 + (z-2)^2)/2)' k.tif --type f32 -o deep.tif
    img-convolve -k deep.tif --normalize --edge mirror sharp.tif -o blurred.tif
    ok img-deconvolve -k deep.tif --accelerate blurred.tif -o out.tif
    awk -v a="$(apart out.tif)" -v b="$(apart blurred.tif)" 'BEGIN { if (!(a < 0.6 * b)) { print a, b; exit 1 } }'
}

# residual NAME: of NAME.json
residual() { grep -o '"residual": [0-9.e-]*' "$1.json" | grep -o '[0-9.e-]*$'; }

@test "f64 in f64: nearer to what was blurred than f32 can be" {
    [[ "$(ldd "$(command -v img-deconvolve)")" == *libfftw3* ]] || skip "built without FFTW"
    img-convert --type f64 sharp.tif -o wide.tif
    img-convolve -k kernel.tif --normalize --edge mirror wide.tif -o blurred64.tif
    ok img-deconvolve -k kernel.tif -n 20 blurred64.tif -o out.tif
    [ "$(img-info --value type out.tif)" = f64 ]
    img-deconvolve -k kernel.tif -n 20 blurred.tif -o f32.tif
    ok img-cmp --max-rel-l2 1e-4 out.tif f32.tif
    # the least squares: what is left goes on to fall where f32 ends
    for in in blurred blurred64; do
        img-deconvolve -k kernel.tif --method wiener --noise 0 -n 300 $in.tif -o out.tif --stats $in.json
    done
    awk -v a="$(residual blurred)" -v b="$(residual blurred64)" 'BEGIN { if (!(b < 0.999 * a)) { print a, b; exit 1 } }'
}

@test "what is wrong is said in a line" {
    fails 2 "--kernel is missing" img-deconvolve blurred.tif
    fails 2 "--iterations" img-deconvolve -k kernel.tif -n 0 blurred.tif
    fails 2 "--tv needs --method richardson-lucy" img-deconvolve -k kernel.tif --method wiener --tv 0.1 blurred.tif
    fails 2 "--accelerate needs --method" img-deconvolve -k kernel.tif --method wiener --accelerate blurred.tif
    fails 2 "--noise needs --method wiener" img-deconvolve -k kernel.tif --noise 0.1 blurred.tif
    fails 2 "unknown option --physical" img-deconvolve -k kernel.tif --physical blurred.tif
    fails 1 "kernel 0 cannot be normalized: its samples add up to 0" \
        img-deconvolve -k <(img-math 'a * 0' kernel.tif) blurred.tif
    img-cat kernel.tif kernel.tif -o deep.tif
    fails 2 "deconvolve needs all of them" img-deconvolve -k deep.tif --raw-in 20x20:u8 - </dev/zero
    fails 3 "the smallest portion takes" img-deconvolve -k kernel.tif --memory 200K blurred.tif
}

@test "an image larger than the memory: out of a file, the same bits for any memory, threads and chunks" {
    ct-phantom --volume 300x240x2 -o sharp.tif
    img-convolve -k kernel.tif --normalize --edge mirror sharp.tif -o blurred.tif
    noise k.tif 3x5x5 u8
    img-math '1 + a' k.tif --type f32 -o deep.tif
    img-cat kernel.tif kernel.tif kernel.tif kernel.tif -o grid.tif
    noise solid.tif 70x60x40 u8
    for how in "-k kernel.tif" "-k kernel.tif --accelerate --stop 0.01" "-k kernel.tif --tv 0.01 --type same" \
               "-k kernel.tif --method wiener" "-k grid.tif --grid 2x2 --weights source" \
               "-k deep.tif --accelerate --tv 0.01" "-k deep.tif --method wiener --type same"; do
        in=blurred.tif
        [[ "$how" != *deep* ]] || in=solid.tif
        read -ra options <<<"$how"
        img-deconvolve -d cpu -n 3 "${options[@]}" $in --raw-out -o want.raw --stats want.json
        [[ "$(cat want.json)" != *'"visits"'* ]]
        for small in "--chunk 64x50x20 -j 1" "--chunk 300x7x1 -j 3"; do
            read -ra limits <<<"$small"
            ok img-deconvolve -d cpu -n 3 "${options[@]}" "${limits[@]}" $in --raw-out -o out.raw --stats out.json
            cmp want.raw out.raw
            grep -q '"visits": 2' out.json
        done
        [ "$(residual want)" = "$(residual out)" ]
    done
    ct-phantom --volume 700x600x1 -o blurred.tif
    img-deconvolve -d cpu -k kernel.tif -n 3 blurred.tif --raw-out -o want.raw
    ok img-deconvolve -d cpu -j 1 -k kernel.tif -n 3 --memory 6M blurred.tif --raw-out -o out.raw --stats out.json
    cmp want.raw out.raw
    grep -q '"bytes_spilled": [1-9]' out.json
    # a pipe is read once
    fails 3 "hint: allow more with --memory, or give a file (or --spool)" \
        img-deconvolve -d cpu -j 1 -k kernel.tif -n 3 --memory 6M <(cat blurred.tif)
}

@test "a constant stays one, also of more images than one; an image of NaN becomes NaN" {
    img-math '0 * a + 7.3' blurred.tif -o flat.tif
    for how in "" "--accelerate" "--tv 0.002"; do
        read -ra options <<<"$how"
        ok img-deconvolve -k kernel.tif -n 50 "${options[@]}" flat.tif -o out.tif
        ok img-cmp --atol 7.3e-6 flat.tif out.tif
    done
    img-math 'if(z == 0, nan, a)' blurred.tif -o holes.tif
    for method in richardson-lucy wiener; do
        ok img-deconvolve -k kernel.tif --method $method -n 5 holes.tif -o out.tif
        img-math 'a == a' out.tif -o known.tif
        img-math 'z == 1' --type f32 out.tif -o want.tif
        ok img-cmp want.tif known.tif
    done
}
