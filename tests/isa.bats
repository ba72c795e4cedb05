# Instruction sets: VOXPIPE_ISA caps what is used of the processor, and what voxpipe(7) promises of the bits.
load helper

# each_set: calls f NAME ARGS... for every line of `programs` with the results of the three sets in generic, avx2, avx512
each_set() {
    local name arguments set
    while read -r name arguments; do
        echo "$name $arguments"
        for set in generic avx2 avx512; do
            # shellcheck disable=SC2086
            VOXPIPE_ISA=$set "$name" $arguments -o $set
        done
        "$1" "$name"
    done <<<"$programs"
}

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    unset VOXPIPE_ISA
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-geom --sod 500 --sdd 1000 --detector 40x24 --pitch 2 --views 30 -o scan.geom
    ct-phantom -g scan.geom --noise 1e5 -o scan.tif
    ct-filter scan.tif -o filtered.tif
    ct-backproject filtered.tif -o vol.tif
    img-math '60000 * exp(-a)' --type u16 scan.tif -o counts.tif
    img-convert counts.tif --type u8 --scale 0.004,0 -o bytes.tif
    img-cat --region 0:17,0:15 --pages 0:1 vol.tif | img-math '1 + x * y' -o kernel.tif
}

# which SET: the set that a program says it uses
which() { VOXPIPE_ISA=$1 ct-filter -v "$BATS_FILE_TMPDIR/scan.tif" -o /dev/null 2>&1 | grep -o 'avx512\|avx2\|generic' | head -n 1; }

@test "the cap holds, and is only a cap" {
    [ "$(which generic)" = generic ]
    [[ "$(which avx2)" = @(generic|avx2) ]]
    [ "$(which avx512)" = "$(which '')" ]
    cd "$BATS_FILE_TMPDIR"
    VOXPIPE_ISA=mmx fails 2 "VOXPIPE_ISA: 'mmx': expected generic, avx2 or avx512" ct-filter scan.tif
}

@test "the same bits under every set" {
    cd "$BATS_FILE_TMPDIR"
    programs='ct-phantom -g scan.geom --noise 1e4
ct-normalize --i0 60000 counts.tif
ct-reduce --pages scan.tif
ct-reduce --op mean scan.tif scan.tif
img-convert --type u8 vol.tif
img-math -e exp(-a)*3+z-x/(y+1) vol.tif
img-gauss --sigma 2 --type same bytes.tif
img-local --stat median vol.tif
img-local --stat percentile:30 --radius 3 bytes.tif
img-local --stat mean --radius 2 vol.tif
img-local --stat std --radius 2 vol.tif
img-local --stat var --radius 2 bytes.tif
img-local --stat entropy bytes.tif
img-morph --op close --radius 2 vol.tif
img-wiener --noise 1e-7 vol.tif
img-sat vol.tif
img-sat --type u64 counts.tif
img-threshold --otsu vol.tif
img-threshold --local niblack --window 5 vol.tif
img-threshold --local sauvola --window 7 bytes.tif
img-view vol.tif'
    f() {
        cmp generic avx2
        cmp generic avx512
    }
    each_set f
}

@test "sums in another order: AVX2 and AVX-512 give the same bits, the generic code within 1e-6" {
    cd "$BATS_FILE_TMPDIR"
    programs='ct-filter scan.tif
img-gauss --sigma 2 vol.tif
img-log --sigma 2 vol.tif
img-convolve -k kernel.tif vol.tif
img-nlmeans --h 0.01 --search 2 vol.tif'
    f() {
        cmp avx2 avx512
        img-cmp --max-rel-l2 1e-6 generic avx2
    }
    each_set f
}

@test "back-projection: within 1e-6 under every set" {
    cd "$BATS_FILE_TMPDIR"
    programs='ct-backproject filtered.tif
ct-fdk scan.tif'
    f() {
        img-cmp --max-rel-l2 1e-6 generic avx2
        img-cmp --max-rel-l2 1e-6 avx512 avx2
    }
    each_set f
}
