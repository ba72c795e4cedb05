# ct-iterate: options, histories, checkpoints, weights, refusals, and what the methods reach on simulated scans. Their
# definitions are in tests/unit/iterate_test.c.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-geom --sod 500 --sdd 1000 --detector 40x24 --pitch 5 --views 33 -o scan.geom
    ct-phantom -g scan.geom --noise 1e5 -o scan.tif
    ct-geom --sod 400 --sdd 600 --detector 64x1 --pitch 1.5 --views 60 -o fan.geom
    printf '0 0 0 22 22 22 0 0.02\n' >ball.txt
    ct-phantom -g fan.geom --phantom ball.txt --samples 8 -o fan.tif
}

setup_inputs() { cp "$BATS_FILE_TMPDIR"/* .; }
METHODS="sirt os-sart cgls mlem osem fista-tv pdhg-tv"

# iterate ARGS...: without the noise of a few negative line integrals
positive() { img-math -q 'max(a, 0)' scan.tif -o p.tif; }

# middle FILE: mean of the middle of the ball
middle() { img-cat -q --region 24:40,24:40 "$1" | img-info --value mean -; }

@test "every method: the same bits for any number of threads, memory and pipe" {
    setup_inputs
    positive
    for m in $METHODS; do
        ok ct-iterate --method $m -n 3 -j 1 p.tif -o a.tif
        ok ct-iterate --method $m -n 3 -j 5 --memory 1GiB p.tif -o b.tif
        ok img-cmp -q a.tif b.tif
        # 9.5 MiB: lengths of rays are not kept
        cat p.tif | ct-iterate --method $m -n 3 -o b.tif
        ok img-cmp -q a.tif b.tif
        [ "$(img-info --value quantity a.tif)" = attenuation ]
        [ "$(img-info --value value-unit a.tif)" = 1/mm ]
    done
    img-cat p.tif -o s.tif
    ct-phantom -g scan.geom --noise 1e5 --layout sinograms | img-math -q 'max(a, 0)' -o s.tif
    ok ct-iterate --method os-sart --blocks 5 -n 2 --layout sinograms s.tif -o a.tif
    ok ct-iterate --method os-sart --blocks 5 -n 2 p.tif -o b.tif
    ok img-cmp -q a.tif b.tif
    cat s.tif | ct-iterate --method os-sart --blocks 5 -n 2 --layout sinograms -o b.tif
    ok img-cmp -q a.tif b.tif
}

@test "a fan: every method finds the ball within 1 %" {
    setup_inputs
    local options
    for m in $METHODS; do
        case $m in
        sirt) options="-n 60" ;;
        mlem) options="-n 40" ;;
        fista-tv) options="-n 40 --tv 0.001 --min 0" ;;
        pdhg-tv) options="-n 80 --tv 0.001 --min 0" ;;
        *) options= ;;
        esac
        # shellcheck disable=SC2086
        ok ct-iterate --method $m $options fan.tif -o a.tif
        near "$(middle a.tif)" 0.02 2e-4 || { echo $m; return 1; }
    done
    ok ct-iterate --method sirt -n 5 --min 0.004 --max 0.01 fan.tif -o a.tif
    near "$(img-info --value min a.tif)" 0.004 1e-9
    near "$(img-info --value max a.tif)" 0.01 1e-9
}

@test "an offset detector, a short scan, missing views and pixels need no weights but 0: the ball within 1 %" {
    setup_inputs
    for more in "--offset-u 20" "--arc 220" "--arc 180"; do
        # shellcheck disable=SC2086
        ct-geom fan.geom --views 60 $more | ct-phantom -g - --phantom ball.txt --samples 8 -o a.tif
        ok ct-iterate --volume 64x64x1 --voxel 1 -n 15 a.tif -o b.tif
        near "$(middle b.tif)" 0.02 2e-4 || { echo "$more"; return 1; }
    done
    # half of the views are wrong, and some pixels NaN
    img-math -q 'if(page % 2 == 1, 17, if(x == 30, nan, a))' fan.tif -o wrong.tif
    img-math -q 'page % 2 == 0' --type u8 wrong.tif -o weights.tif
    img-cat --pages 0 fan.tif | img-math -q 'x == 30' --type u8 -o dead.tif
    fails 1 "30 samples are NaN or infinite" ct-iterate --pixel-weights weights.tif wrong.tif -o b.tif
    for m in cgls sirt os-sart fista-tv pdhg-tv; do
        ok ct-iterate --method $m --pixel-weights weights.tif --dead dead.tif wrong.tif -o b.tif
        near "$(middle b.tif)" 0.02 2e-4 || { echo $m; return 1; }
    done
    # the same as without them
    img-cat --pages ::2 fan.tif -o half.tif
    ct-iterate -q --volume 64x64x1 --voxel 1 half.tif -o a.tif
    img-math -q 'if(page % 2 == 1, 17, a)' fan.tif -o wrong.tif
    ct-iterate -q --volume 64x64x1 --voxel 1 --pixel-weights weights.tif wrong.tif -o b.tif
    ok img-cmp -q --max-rel-l2 1e-4 a.tif b.tif
    # one page of weights is for all views
    img-cat --pages 0 fan.tif | img-math -q '1 + (x % 3)' -o one.tif
    img-math -q '1 + (x % 3)' fan.tif -o all.tif
    ok ct-iterate -n 4 --pixel-weights one.tif fan.tif -o a.tif
    ok ct-iterate -n 4 --pixel-weights all.tif fan.tif -o b.tif
    ok img-cmp a.tif b.tif
}

@test "the margin: rays through the ends leave no rims" {
    ct-geom --sod 60 --sdd 120 --detector 40x24 --pitch 2 --views 40 -o cone.geom
    printf '0 0 0 15 15 100 0 0.02\n' >rod.txt # taller than what is seen
    ct-phantom -g cone.geom --phantom rod.txt --samples 3 -o rod.tif
    ok ct-iterate -n 15 rod.tif -o with.tif
    ok ct-iterate -n 15 --margin 0 rod.tif -o without.tif
    at() { img-cat --pages "$2" --region 14:26,14:26 "$1" | img-info --value mean -; }
    for end in 2 21; do
        near "$(at with.tif $end)" 0.02 6e-4
        awk -v m="$(at without.tif $end)" 'BEGIN { exit !(m < 0.0175 || m > 0.0225) }'
    done
    near "$(at with.tif 0)" 0.02 6e-3
    awk -v m="$(at without.tif 0)" 'BEGIN { exit !(m > 0.04) }'
    [ "$(img-info --value pages with.tif)" = "$(img-info --value pages without.tif)" ]
    [ "$(img-info --value origin with.tif)" = "$(img-info --value origin without.tif)" ]
    [[ "$(ct-iterate --plan rod.tif)" == *"margin: "*"slices below"* ]]
}

@test "--history has a line for each iteration, --stats all of them; --stop ends the run" {
    setup_inputs
    ok ct-iterate -n 7 --history run.tsv --stats stats.json scan.tif -o a.tif
    [ "$(wc -l <run.tsv)" = 8 ]
    [ "$(head -n 1 run.tsv | tr '\t' ' ')" = "iteration seconds residual relative objective step min mean max change" ]
    # the residual of conjugate gradients falls
    awk 'NR > 2 && $3 > last { exit 1 } NR > 1 { last = $3 }' run.tsv
    grep -q '"iterations": 7' stats.json
    grep -q '"stopped_by": "iterations"' stats.json
    grep -q '"residuals": \[' stats.json
    # it is that of ct-project
    ct-iterate -n 7 --margin 0 --history run.tsv scan.tif -o a.tif
    ct-project --subtract scan.tif a.tif -o r.tif
    near "$(tail -n 1 run.tsv | cut -f 3)" "$(img-math -q a*a r.tif | img-info --value sum - | awk '{ print sqrt($1) }')" 1e-3
    ok ct-iterate -n 50 --stop residual:0.05 --history run.tsv scan.tif -o a.tif
    awk 'END { exit !($4 < 0.05 && $1 < 50) }' run.tsv
    ok ct-iterate -n 50 --stop change:1e-9 --stop gradient:0.02 --stats stats.json scan.tif -o a.tif
    grep -q '"stopped_by": "gradient"' stats.json
    ok ct-iterate --method fista-tv -n 2 --stats stats.json scan.tif -o a.tif
    norm=$(sed -n 's/.*"norm": *\([0-9.e+-]*\).*/\1/p' stats.json)
    ok ct-iterate --method fista-tv -n 2 --norm "$norm" scan.tif -o b.tif
    ok img-cmp -q --max-rel-l2 1e-5 a.tif b.tif
}

@test "--progress: the iteration, its residual, and the time that is left" {
    setup_inputs
    for m in os-sart cgls; do # of blocks: their weights are no progress; cgls: the gradient is renewed
        ct-iterate --method $m -n 17 --progress always scan.tif -o a.tif 2>err
        tr '\r' '\n' <err >lines
        grep -Eq "^ct-iterate: $m [0-9]+/17, residual 0\.[0-9e-]+ \([-+][0-9.]+ %\): +[0-9]+ %, [0-9]+ s left" lines
        awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^%/ && $(i - 1) > 100) exit 1 }' lines
    done
}

@test "--stop noise with weights leaves the state of a checkpoint alone" {
    setup_inputs
    img-cat --pages 0 scan.tif | img-math -q '1 + (x % 2)' -o weights.tif
    for m in cgls pdhg-tv; do
        ok ct-iterate --method $m -n 5 --pixel-weights weights.tif scan.tif -o whole.tif
        ok ct-iterate --method $m -n 3 --pixel-weights weights.tif --checkpoint state scan.tif -o part.tif
        ok ct-iterate --method $m -n 5 --pixel-weights weights.tif --stop noise:1e-9 --resume state scan.tif -o rest.tif
        ok img-cmp -q whole.tif rest.tif
    done
}

@test "--checkpoint and --resume: the bits of a run that was not interrupted" {
    setup_inputs
    positive
    for m in $METHODS; do
        ok ct-iterate --method $m -n 5 p.tif -o whole.tif
        ok ct-iterate --method $m -n 3 --checkpoint state --every 2 p.tif -o part.tif
        ok ct-iterate --method $m -n 5 --resume state p.tif -o rest.tif
        ok img-cmp -q whole.tif rest.tif
    done
    fails 2 "expected --method pdhg-tv, got cgls" ct-iterate --method cgls --resume state p.tif -o rest.tif
    fails 2 "made without --tv" ct-iterate --method pdhg-tv --tv 1 --resume state p.tif -o rest.tif
    fails 2 "made with --method pdhg-tv" ct-iterate --resume state p.tif -o rest.tif
    fails 2 "expected a checkpoint of version 1, got none" ct-iterate --resume scan.tif p.tif -o rest.tif
    head -c 10000 state >cut
    fails 1 "cut: " ct-iterate --method pdhg-tv --resume cut p.tif -o rest2.tif
    [ ! -e rest2.tif ]
    # a full disk ends no run
    if [ -w /dev/full ]; then
        ct-iterate --method sirt -n 2 --checkpoint /dev/full --every 1 p.tif -o a.tif 2>err
        grep -q "no checkpoint after iteration 1: " err
        ct-iterate --method sirt -n 2 p.tif -o b.tif
        ok img-cmp -q a.tif b.tif
    fi
}

@test "--initial and --mask" {
    setup_inputs
    ct-fdk -q fan.tif --volume 64x64x1 --voxel 1 -o fdk.tif
    ok ct-iterate --volume 64x64x1 --voxel 1 --initial fdk.tif -n 2 fan.tif -o a.tif
    near "$(middle a.tif)" 0.02 2e-4
    ok ct-iterate --volume 64x64x1 --voxel 1 --initial fdk -n 2 fan.tif -o b.tif
    ok img-cmp -q a.tif b.tif
    ok ct-iterate --volume 64x64x1 --voxel 1 --initial zero -n 2 fan.tif -o a.tif
    ok ct-iterate --volume 64x64x1 --voxel 1 -n 2 fan.tif -o b.tif
    ok img-cmp -q a.tif b.tif
    fails 2 "--initial fdk: the projections come from a pipe" sh -c 'ct-iterate --initial fdk <fan.tif'
    fails 2 "--initial fdk and --method mlem cannot be combined" ct-iterate --method mlem --initial fdk fan.tif
    img-math -q '(x - 31.5)^2 + (y - 31.5)^2 < 24^2' --type u8 fdk.tif -o mask.tif
    for m in $METHODS; do
        img-math -q 'max(a, 0) + 0.001' fdk.tif -o start.tif
        ok ct-iterate --method $m --volume 64x64x1 --voxel 1 --mask mask.tif --initial start.tif -n 2 fan.tif -o a.tif
        img-math -q '(a - b) * (c == 0)' a.tif start.tif mask.tif | img-info --value min,max - >out
        [ "$(xargs <out)" = "0 0" ] || { echo "$m: $(cat out)"; return 1; }
        ok ct-iterate --method $m --volume 64x64x1 --voxel 1 --mask mask.tif -n 20 fan.tif -o a.tif
        near "$(middle a.tif)" 0.02 6e-4 || { echo $m; return 1; }
    done
}

@test "an object that is larger than the volume is warned of, in cone and parallel beam; --preview" {
    for beam in "--sod 300 --sdd 450" "--beam parallel --arc 180"; do
        # shellcheck disable=SC2086
        ct-geom $beam --detector 40x30 --pitch 1.5 --views 24 -o w.geom
        ct-phantom -g w.geom --phantom ball -o w.tif
        run --separate-stderr ct-iterate -n 2 --preview look.png w.tif -o out.tif
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        [ "$(head -c 8 look.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ]
        for method in cgls sirt osem fista-tv pdhg-tv; do
            run --separate-stderr ct-iterate --method "$method" -n 2 --volume 12x12x30 --voxel 1 w.tif -o out.tif
            [ "$status" -eq 0 ]
            [[ "$stderr" == *"warning: "*" % of what was measured is on rays that miss the volume"* ]]
        done
    done
    # no place for a picture is no reason to stop
    run --separate-stderr ct-iterate -n 1 --preview no/look.png w.tif -o out.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"warning: no picture after iteration 1: "* ]]
}

@test "what is refused, and the way out" {
    setup_inputs
    it() { fails 2 "$1" ct-iterate "${@:2}" scan.tif -o out.tif; }
    it "--min and --method cgls cannot be combined" --min 0
    it "--tv and --method sirt cannot be combined" --method sirt --tv 1
    it "--blocks and --method mlem cannot be combined" --method mlem --blocks 4
    it "--min 2 is above --max 1" --method sirt --min 2 --max 1
    it "--relax" --method sirt --relax 2
    it "--tv" --method fista-tv --tv -1
    it "--stop: expected residual:T, noise:T, change:T or gradient:T, got 'never'" --stop never
    it "--stop residual: expected a number above 0, got 'x'" --stop residual:x
    it "--stop gradient needs --method cgls" --method sirt --stop gradient:0.1
    it "--relax and --method pdhg-tv cannot be combined" --method pdhg-tv --relax 1
    it "--every needs --checkpoint FILE" --every 3
    it "--slab: rays pass other slices as well" --slab 2:4
    it "--views 3:99: the scan has 33 views" --views 3:99
    ct-phantom --volume 8x9x3 -o small.tif
    it "--initial: small.tif: expected 40 x 40 x 24, got 8 x 9 x 3" --initial small.tif
    it "--mask: small.tif: expected 40 x 40 x 24, got 8 x 9 x 3" --mask small.tif
    it "--pixel-weights: small.tif: expected 40 x 24 x 33, got 8 x 9 x 3" --pixel-weights small.tif
    it "--dead: small.tif: expected 40 x 24 x 1, got 8 x 9 x 3" --dead small.tif
    img-math -q 'if(x == 3, -1, a)' scan.tif -o minus.tif
    fails 1 "samples are negative: mlem expects none" ct-iterate --method mlem minus.tif -o out.tif
    img-math -q 'a * 0' scan.tif -o zero.tif
    fails 1 "the weights of all pixels are 0" ct-iterate --pixel-weights zero.tif scan.tif -o out.tif
    img-math -q 'a - 1' scan.tif -o negative.tif
    fails 1 "weights are negative, NaN or infinite" ct-iterate --pixel-weights negative.tif scan.tif -o out.tif
    fails 1 "no ray meets the volume" ct-iterate --method sirt --center 0,0,900 --volume 8x8x8 --voxel 1 --margin 0 scan.tif -o out.tif
    fails 3 "cgls of 40 x 40 x " ct-iterate --memory 500K scan.tif -o out.tif
    ct-fdk -q scan.tif -o vol.tif
    fails 2 "holds a reconstructed volume, not line integrals" ct-iterate vol.tif -o out.tif
    [ ! -e out.tif ]
}

@test "36 of 720 measured views: as near to the reconstruction of all as was measured when the methods were chosen" {
    img-convert --raw-out "$DATA/htc2022_01a_sino.tif" | img-cat --raw-in 560x1x721:f32le --pages 0:720:20 - -o few.tif
    ct-geom --sod 410.66 --sdd 553.74 --detector 560x1 --pitch 0.2 --clockwise --views 36 -o few.geom
    img-math -q '(x - 255.5)^2 + (y - 255.5)^2 < 254^2' --type u8 "$DATA/htc2022_01a_reference.tif" -o mask.tif
    # error of a slice in the disc
    error() {
        img-math -q '(a - b / 0.1483223173330444) * ((x - 255.5)^2 + (y - 255.5)^2 < 248^2)' "$1" "$DATA/htc2022_01a_reference.tif" -o d.tif
        img-math -q 'a / 0.1483223173330444 * ((x - 255.5)^2 + (y - 255.5)^2 < 248^2)' "$DATA/htc2022_01a_reference.tif" -o r.tif
        echo "$(img-math -q a*a d.tif | img-info --value sum -) $(img-math -q a*a r.tif | img-info --value sum -)" | awk '{ print sqrt($1 / $2) }'
    }
    below() { awk -v e="$1" -v most="$2" 'BEGIN { exit !(e > 0.02 && e <= most) }' || { echo "expected at most $2, got $1"; return 1; }; }
    few() { ok ct-iterate -g few.geom --volume 512x512x1 --voxel 0.1483223173330444 --mask mask.tif "$@" few.tif -o slice.tif; }
    few --method cgls -n 10
    below "$(error slice.tif)" 0.091
    few --method sirt -n 100 --min 0
    below "$(error slice.tif)" 0.073
    few --method fista-tv -n 60 --min 0 --tv 0.01
    below "$(error slice.tif)" 0.058
    few --method pdhg-tv -n 80 --min 0 --tv 0.01
    below "$(error slice.tif)" 0.058
}
