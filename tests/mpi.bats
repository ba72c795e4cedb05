# ct-fdk as a grid of MPI ranks: bits, files, failures, hosts, launchers.
load helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    # what an MPI of a container or of root asks for
    # hash: the launcher of Open MPI 4 has its data where a process that is killed may hold a lock
    export PMIX_MCA_gds=hash OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 2 --views 60 | ct-phantom -g - -o scan.tif
    ct-fdk scan.tif --volume 40x36x33 -o one.tif
    # long enough to be killed in
    ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 120 | ct-phantom -g - -o long.tif
}

# ranks N COMMAND...: as N ranks; ends by itself, or is killed
ranks() {
    local n=$1
    shift
    timeout -k 5 60 mpirun --quiet --oversubscribe -n "$n" "$@" < /dev/null
}

setup() {
    mkdir -p "$BATS_TEST_TMPDIR/work"
    cd "$BATS_TEST_TMPDIR/work" || exit 1
    set -o pipefail
    command -v mpirun >/dev/null || skip "no mpirun"
    [ -e "$BUILD/lib/voxpipe/voxpipe-mpi.so" ] || skip "built without MPI"
    F=$BATS_FILE_TMPDIR
    fdk=(ct-fdk "$F/scan.tif" --volume 40x36x33)
}

# clean: no file is left but those named
clean() {
    run ls -A
    [ "$output" = "$*" ] || { echo "left: $output"; return 1; }
}

# close_to A B: the relative L2 difference is below 2e-6
close_to() {
    img-cmp "$1" "$2" > difference || [ $? -eq 1 ]
    awk '/relative L2/ { good = $3 < 2e-6 } END { exit !good }' difference
}

@test "slabs: the file of one process to the bit, by 1, 2, 3, 4, 6 and 8 ranks" {
    for n in 1 2 3 4 6 8; do
        ok ranks $n "${fdk[@]}" -o many.tif
        cmp "$F/one.tif" many.tif
    done
    for n in 2 5; do
        ok ranks $n "${fdk[@]}" --grid ${n}x1 --gather yes -o many.tif
        cmp "$F/one.tif" many.tif
    done
    clean many.tif
}

@test "subsets of the views: agree within rounding, the same bits in every run" {
    for grid in 1x2 2x2 3x2 1x3 2x4; do
        ok ranks $((${grid%x*} * ${grid#*x})) "${fdk[@]}" --grid $grid -o many.tif
        close_to "$F/one.tif" many.tif
        ok ranks $((${grid%x*} * ${grid#*x})) "${fdk[@]}" --grid $grid --gather yes -o again.tif
        cmp many.tif again.tif
    done
    # the grid of slabs changes nothing, only the number of subsets does
    ok ranks 2 "${fdk[@]}" --grid 1x2 -o two.tif
    ok ranks 6 "${fdk[@]}" --grid 3x2 -o many.tif
    cmp two.tif many.tif
}

@test "counts, sinograms, a detector beside the axis, a slab, few views: as one process" {
    ct-phantom -g "$F/scan.tif" --noise 60000 --counts -o counts.tif
    ct-fdk --i0 60000 counts.tif --volume 20x20x18 -o one.tif
    ok ranks 3 ct-fdk --i0 60000 counts.tif --volume 20x20x18 --gather yes -o many.tif
    cmp one.tif many.tif
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 2 --views 60 --offset-u 12 | ct-phantom -g - -o offset.tif
    ct-fdk offset.tif --volume 20x20x18 -o one.tif
    for gather in yes no; do
        ok ranks 3 ct-fdk offset.tif --volume 20x20x18 --gather $gather -o many.tif
        cmp one.tif many.tif
    done
    ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 -o one.tif
    ok ranks 4 ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --gather yes -o many.tif
    cmp one.tif many.tif
    ok ranks 2 ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --raw-out -o many.raw
    ct-fdk "$F/scan.tif" --volume 20x20x18 --slab 3:11 --views 5:50 --raw-out -o one.raw
    cmp one.raw many.raw
}

@test "a file for each slab, that together are the volume" {
    ok ranks 6 "${fdk[@]}" --grid 3x2 --slab-files -o slab.tif
    clean "slab-0.tif
slab-1.tif
slab-2.tif"
    ok ranks 2 "${fdk[@]}" --grid 1x2 -o two.tif
    img-cat slab-?.tif -o all.tif
    ok img-cmp all.tif two.tif
    # each knows where it is
    [[ "$(img-info slab-1.tif)" == *"-5"* ]]
}

@test "what is wrong for all is said once, and nothing is left" {
    fails 1 "nowhere.tif: No such file" ranks 3 ct-fdk nowhere.tif -o many.tif
    [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    fails 2 "unknown option --bad" ranks 3 "${fdk[@]}" --bad -o many.tif
    [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    fails 2 "--grid: expected RxC, with R times C the number of ranks, 3" ranks 3 "${fdk[@]}" --grid 2x2 -o many.tif
    fails 2 "standard input: ranks read what each of them needs" ranks 2 ct-fdk -o many.tif
    fails 2 "ranks write the volume side by side" ranks 2 "${fdk[@]}" --force
    fails 2 "--compress: ranks write the pages in any order" ranks 2 "${fdk[@]}" --compress deflate -o many.tif
    fails 2 "ranks write a regular file" ranks 2 "${fdk[@]}" -o /dev/full
    fails 2 "40 ranks are more than there is work for" ranks 40 ct-fdk "$F/scan.tif" --volume 9x9x3 --views 0:8 -o many.tif
    fails 3 "does not find room in its memory" ranks 2 "${fdk[@]}" --memory 1M -o many.tif
    fails 1 "No such file or directory" ranks 2 "${fdk[@]}" -o nowhere/many.tif
    clean
}

@test "what is wrong for one rank ends all of them" {
    head -c 200000 "$F/scan.tif" > cut.tif
    for gather in yes no; do
        fails 1 "cut.tif: page" ranks 3 ct-fdk cut.tif --volume 40x36x33 --gather $gather -o many.tif
        [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
    done
    echo old > many.tif
    fails 1 "cut.tif: page" ranks 4 ct-fdk cut.tif --volume 40x36x33 --grid 2x2 --gather yes -o many.tif
    [ "$(cat many.tif)" = old ]
    clean "cut.tif
many.tif"
}

@test "a full disk ends all ranks with one message" {
    mkdir small
    mount -t tmpfs -o size=100k none small 2>/dev/null || skip "no file system can be mounted"
    for grid in 3x1 1x3; do
        run --separate-stderr ranks 3 "${fdk[@]}" --grid $grid -o small/many.tif
        left=$(ls -A small)
        [ "$status" -eq 1 ] || break
    done
    umount small
    [ "$status" -eq 1 ] && [ -z "$left" ]
    [[ "$stderr" == *"many.tif: No space left on device"* ]]
    [ "$(grep -c "ct-fdk: error" <<<"$stderr")" -eq 1 ]
}

@test "a rank that is killed at any moment ends all of them, and leaves nothing" {
    for i in 1 2 3 4 5 6 7 8 9 10; do
        grid=$([ $((i % 2)) -eq 0 ] && echo 3x1 || echo 1x3)
        mpirun --quiet --oversubscribe -n 3 ct-fdk "$F/long.tif" --volume 256x256x256 --grid $grid --gather yes \
            -o many.tif < /dev/null > said 2>&1 3>&- &
        launcher=$!
        sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
        victims=()
        for wait in 1 2 3 4 5 6 7 8 9 10; do
            mapfile -t victims < <(pgrep -P $launcher ct-fdk)
            [ ${#victims[@]} -eq 0 ] || break
            sleep 0.1
        done
        kill -9 "${victims[$((RANDOM % ${#victims[@]}))]}"
        begun=$SECONDS
        status=0
        wait $launcher || status=$?
        [ $((SECONDS - begun)) -le 10 ] || { echo "took $((SECONDS - begun)) s"; return 1; }
        [ "$status" -ne 0 ] || { echo "status 0 at $i"; return 1; }
        clean said || return 1
    done
}

@test "the plan of ranks, with a model, and without a launcher" {
    printf '%s\n' '# made up' 'load = 1e9' 'filter = 1e9' 'exchange = 1e9' 'backproject = 1e10' 'reduce = 2e9' 'store = 1e9' \
        'host_ranks = 4' 'memory = 4e9' > model
    ok ct-fdk -g "$F/scan.tif" --raw-in 48x40:f32le --plan --ranks 16 --model model "$F/one.tif" || true
    ok ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --model model
    for key in T_load T_filter T_allgather T_bp T_reduce T_store; do grep -q "^$key: " <<<"$output"; done
    # 2^30 voxels by 60 views on 16 ranks of 1e10: the planner's numbers are the formula's
    bp=$(awk '/^T_bp:/ { print $2 }' <<<"$output")
    near "$bp" 0.4027 0.02
    store=$(awk '/^T_store:/ { print $2 }' <<<"$output")
    near "$store" 1.0737 0.01
    grep -q '^grid: *16 slabs x 1 subset' <<<"$output"
    ok ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --grid 4x4 --model model
    grep -q '^grid: *4 slabs x 4 subsets' <<<"$output"
    # a slab of 1 GiB at most
    sed -i 's/memory = .*/memory = 1.1e9/' model
    fails 3 "does not find room" ct-fdk "$F/scan.tif" --volume 1024x1024x1024 --plan --ranks 16 --grid 2x8 --model model
    echo 'speed = 1' >> model
    fails 2 "model:10: 'speed' is no part of a model" ct-fdk "$F/scan.tif" --plan --ranks 16 --model model
    ok ranks 2 "${fdk[@]}" --plan
    [ "$(grep -c '^grid:' <<<"$output")" -eq 1 ]
    fails 2 "--ranks 4 without --plan" "${fdk[@]}" --ranks 4 -o many.tif
    fails 2 "--grid: this process works alone" "${fdk[@]}" --grid 2x1 -o many.tif
}

@test "ranks that cannot work together say so, and do not all write one file" {
    mkdir plugins
    VOXPIPE_PLUGINS=$PWD/plugins fails 3 "this is rank 1 of 2, which cannot work together: no voxpipe-mpi.so" \
        ranks 2 "${fdk[@]}" -o many.tif
    printf 'not a library' > plugins/voxpipe-mpi.so
    VOXPIPE_PLUGINS=$PWD/plugins fails 3 "cannot work together" ranks 2 "${fdk[@]}" -o many.tif
    [ ! -e many.tif ]
    # a launcher of another kind: each would be a world of its own
    PMI_SIZE=2 PMI_RANK=0 fails 3 "has started 2 ranks, of which" "${fdk[@]}" -o many.tif
    # alone on purpose, and a batch script of Slurm
    ok ranks 2 sh -c 'ct-fdk "$1" --volume 40x36x33 --ranks 1 -o "alone$OMPI_COMM_WORLD_RANK.tif"' sh "$F/scan.tif"
    cmp alone0.tif "$F/one.tif"
    cmp alone1.tif "$F/one.tif"
    SLURM_NTASKS=2 SLURM_PROCID=0 ok "${fdk[@]}" -o batch.tif
    cmp batch.tif "$F/one.tif"
}

@test "statistics are of all ranks, in one file" {
    ok ranks 4 "${fdk[@]}" --grid 2x2 --gather yes --stats s.json -o many.tif
    for key in '"ranks": 4' '"grid": "2x2"' '"gather": "yes"' '"T_compute": ' '"T_reduce": ' '"T_run_expected": '; do
        grep -qF "$key" s.json
    done
    # half of each view's rows, and some more, go to the other rank of the column
    sent=$(grep -o '"bytes_of_views_sent": [0-9]*' s.json | grep -o '[0-9]*$')
    [ "$sent" -lt $((60 * 48 * 40 * 4)) ]
    [ "$sent" -gt $((60 * 48 * 20 * 4)) ]
}
