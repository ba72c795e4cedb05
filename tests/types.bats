# Every program of images with samples of every type: taken or refused by name, the type of the result, and the values,
# which are those that f64 gives; the table is tests/types.
load helper

ALL='u8 u16 u32 u64 i8 i16 i32 i64 f32 f64'
ROWS=$(grep -v '^#' "$ROOT/tests/types")

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" VOXPIPE_DEVICE=cpu
    cd "$BATS_FILE_TMPDIR" || exit 1
    local t
    noise noise.tif 14x12x5 u16
    img-convert --set axes=x,y,z --set voxel=0.5mm noise.tif | img-math -q 'a % 101' --type u8 -o u8.tif
    for t in $ALL; do [ "$t" = u8 ] || img-convert --type "$t" u8.tif -o "$t.tif"; done
    img-math -q 'a % 4 + (x == 3) * 20' --type u8 u8.tif -o radii.tif
    img-psf --gaussian 1,1,1 --size 3 -o kernel.tif
    img-cat --region 0:2,0:2 --pages 0 u8.tif | img-math -q 'x + y > 0' --type u8 -o corner.tif
    ct-geom --sod 500 --sdd 1000 --detector 24x20 --pitch 4 --views 4 -o scan.geom
}

setup() { cd "$BATS_FILE_TMPDIR" || exit 1; }

# result TYPE HOW: the type of a result
result() {
    case $2 in
    same) echo "$1" ;;
    values) case $1 in u32 | i32 | ?64) echo f64 ;; *) echo f32 ;; esac ;;
    steps) case $1 in i8) echo u16 ;; *) echo "${1/i/u}" ;; esac ;;
    *) echo "$2" ;;
    esac
}

# rows PATTERN: the rows of the programs whose names match
rows() {
    local name arguments refused how near t want
    while IFS='|' read -r name arguments refused how near; do
        name=${name// /} refused=" $refused " how=${how// /} near=${near// /}
        [[ $name == $1 ]] || continue
        for t in $ALL; do
            # shellcheck disable=SC2206
            local command=($name $arguments $t.tif)
            echo "${command[*]}" # the last one is where a test failed
            if [[ $refused == *" $t "* ]]; then
                fails 1 ", got $t" "${command[@]}"
                [[ "$stderr" == *"$t.tif: expected samples of"*"hint: convert first: img-convert --type "* ]]
                continue
            fi
            if [ -z "$how" ]; then
                ok "${command[@]}"
                continue
            fi
            ok "${command[@]}" -o got.tif --force
            want=$(result "$t" "$how")
            [ "$(img-info --value type got.tif)" = "$want" ]
            # shellcheck disable=SC2086
            ok $name $arguments f64.tif -o f64-result.tif --force
            img-convert --type "$want" f64-result.tif -o want.tif --force
            if [ "$near" = bits ]; then ok img-cmp want.tif got.tif; else ok img-cmp --atol "$near" want.tif got.tif; fi
        done
    done <<<"$ROWS"
}

@test "every program of volumes has a row" {
    local name input
    while IFS='|' read -r name input _; do
        [[ $input != *vol.tif* ]] || grep -q "^${name// /} *|" "$ROOT/tests/types" || { echo "no row: $name"; return 1; }
    done <<<"$PROGRAMS"
}

@test "every type of sample: Gaussians, convolution, noise filters" { rows 'img-[gdwn]*'; rows img-log; rows img-convolve; }
@test "every type of sample: local statistics" { rows img-local; }
@test "every type of sample: morphology, thresholds" { rows 'img-[mt]*'; }
@test "every type of sample: the other programs" { rows 'img-[sriv]*'; rows 'img-f*'; rows 'img-c[aom][tnp]*'; rows 'ct-*'; }

@test "integers of 32 bits keep every bit, f64 keeps its digits" {
    perl -e 'srand 3; print pack "L<*", map { 4294967295 - int rand 1000 } 1 .. 1200' > a.raw
    img-convert --raw-in 20x20x3:u32le a.raw --set axes=x,y,z -o a.tif --force
    img-math -q 'a - 4294966000' --type f64 a.tif -o near.tif --force
    local options
    for options in "img-local --stat median" "img-local --stat min" "img-local --stat mean" "img-morph --op open" \
        "img-morphrecon --hmax 30" "img-morphrecon --fill-holes" "img-gauss --sigma 2"; do
        ok $options a.tif -o got.tif --force
        ok $options near.tif -o f.tif --force
        img-math -q 'a + 4294966000' --type u32 f.tif -o want.tif --force
        ok img-cmp want.tif got.tif
    done
    ok img-local --stat std a.tif -o got.tif --force
    ok img-local --stat std near.tif -o want.tif --force
    ok img-cmp --atol 1e-9 want.tif got.tif
    ok img-threshold --otsu a.tif -o got.tif --force
    ok img-threshold --otsu --range=200.5,1400.5 --bins 1200 near.tif -o want.tif --force
    img-math -q 'a > 4294967000' --type u8 a.tif -o mask.tif --force
    ok img-threshold --at 4294967000 --value 1 a.tif -o got.tif --force
    ok img-cmp mask.tif got.tif
}
