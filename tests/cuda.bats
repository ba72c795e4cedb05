# The GPU against the CPU. Skipped where there is no plugin or no device.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH"
    cd "$BATS_FILE_TMPDIR" || exit 1
    # what is missing, for the skipped tests to say
    ct-geom --sod 400 --sdd 600 --detector 16x8 --pitch 10 --views 8 | ct-phantom -g - -o tiny.tif
    WHY=$(ct-fdk --device cuda tiny.tif --plan 2>&1 >/dev/null | sed -n 's/^ct-fdk: error: //p')
    export WHY
}

needs_gpu() { if [ -n "$WHY" ]; then skip "$WHY"; fi; }

geometry=(--sod 400 --sdd 600 --detector 160x128 --pitch 1)
parallel='--beam parallel --detector 160x128 --pitch 1'

@test "a volume that stays on the devices is added to, set and added up as by the definition" {
    needs_gpu
    VOXPIPE_DEVICES=cuda ok "${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/unit/projector_test"
    VOXPIPE_DEVICES=cuda ok "${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/unit/pair_device_test"
}

@test "back-projection agrees with the CPU within 2e-6 for every kind of scan" {
    needs_gpu
    local scans=(
        '--views 240|160x150x140' '--views 241|161x150x139' '--views 240 --offset-v 5.5|128x128x128'
        '--views 240 --offset-u -30|128x128x96' '--views 210 --arc 220 --clockwise|128x128x96'
        '--views 240 --tilt 3|128x128x96' '--views 120|320x320x256' '--views 120|64x64x48' '--views 240|200x200x2'
        "$parallel --views 180 --arc 180|128x128x96"
        '--views 300 --arc 345|128x128x96' '--views 240 --tilt 2 --offset-u -30|128x128x96'
        '--views 240 --arc 220 --tilt -3|128x128x96' "$parallel --views 240 --tilt 2 --offset-u 30|128x128x96"
    )
    for scan in "${scans[@]}"; do
        local about=("${geometry[@]}")
        if [[ $scan = --beam* ]]; then about=(); fi
        # shellcheck disable=SC2086
        ct-geom "${about[@]}" ${scan%|*} | ct-phantom -g - --noise 1e5 -o scan.tif
        ct-fdk --device cpu --volume "${scan#*|}" scan.tif -o cpu.tif
        for on in cpu gpu; do
            ct-fdk --device cuda --filter-on $on --volume "${scan#*|}" scan.tif -o gpu.tif
            ok img-cmp --max-rel-l2 2e-6 gpu.tif cpu.tif || { echo "with $scan, filter on $on"; return 1; }
        done
    done
}

@test "a detector that faces anywhere: mu within 0.1 %, and as on the CPU" {
    needs_gpu
    echo "0 0 0 20 20 20 0 0.02" >ball.txt
    for pose in yaw=10 pitch=-10 'yaw=-10 pitch=10' 'yaw=5 pitch=5 tilt=3' 'sx=-10 sz=20 yaw=8' 'offset=-60 tilt=2 yaw=3'; do
        # shellcheck disable=SC2086
        posed $pose nu=240 nv=160 du=0.75 | ct-phantom -g - --phantom ball.txt --samples 2 -o scan.tif
        ct-fdk -q --device cpu --volume 32x32x8 --voxel 0.75 scan.tif -o cpu.tif
        for on in cpu gpu; do
            ct-fdk -q --device cuda --filter-on $on --volume 32x32x8 --voxel 0.75 scan.tif -o gpu.tif
            ok img-cmp --max-rel-l2 2e-6 gpu.tif cpu.tif || { echo "with $pose, filter on $on"; return 1; }
        done
        near "$(img-info --value mean gpu.tif)" 0.02 0.00002 || { echo "with $pose"; return 1; }
    done
}

@test "slabs, passes, pipes and batches do not change a bit of the GPU's result" {
    needs_gpu
    export VOXPIPE_DEVICE=cuda:0
    for scan in "--views 240" "--views 241" "--views 240 --offset-v 5.5" "--views 240 --tilt 3"; do
        # shellcheck disable=SC2086
        ct-geom "${geometry[@]}" $scan | ct-phantom -g - -o scan.tif
        ct-fdk --volume 160x150x140 scan.tif -o all.tif
        ct-fdk -j 1 --volume 160x150x140 scan.tif -o one.tif
        ok img-cmp one.tif all.tif
        for memory in 12MiB 6MiB 3MiB; do
            ct-fdk --volume 160x150x140 --device-memory $memory scan.tif -o slabs.tif
            ok img-cmp slabs.tif all.tif
            # to a pipe the slices go in order
            ct-fdk --volume 160x150x140 --device-memory $memory scan.tif | cat >ordered.tif
            ok img-cmp ordered.tif all.tif
        done
        VOXPIPE_DEVICE=cuda ct-fdk --volume 160x150x140 scan.tif -o every.tif # GPU there is
        ok img-cmp every.tif all.tif
    done
    ct-geom "${geometry[@]}" --views 240 | ct-phantom -g - -o scan.tif
    ct-fdk --volume 160x150x140 scan.tif -o all.tif
    ct-fdk --volume 160x150x140 - <scan.tif >redirected.tif
    ok img-cmp redirected.tif all.tif
    # shellcheck disable=SC2002
    cat scan.tif | ct-fdk --volume 160x150x140 | cat >live.tif
    ok img-cmp live.tif all.tif
    ct-fdk --volume 160x150x140 --slab :33 scan.tif -o a.tif
    ct-fdk --volume 160x150x140 --slab 33:100 scan.tif -o b.tif
    ct-fdk --volume 160x150x140 --slab 100: scan.tif -o c.tif
    ct-reduce --device cpu --join a.tif b.tif c.tif -o joined.tif
    ok img-cmp joined.tif all.tif
    ct-fdk --filter-on cpu --volume 160x150x140 scan.tif -o fused.tif
    ct-filter --device cpu scan.tif | ct-backproject --volume 160x150x140 -o pipe.tif
    ok img-cmp pipe.tif fused.tif
}

@test "voxels as fine as the detector, to the corners of the field of view: tensor tiles hold them on every slab" {
    needs_gpu
    ct-geom --sod 400 --sdd 600 --detector 320x80 --pitch 0.5 --views 240 >geometry
    head -c $((320 * 80 * 240 * 2)) /dev/urandom | img-convert --raw-in 320x80:u16le --type f32 -o noise.tif
    local bp=(ct-backproject -q -g geometry --volume 320x320x75 --voxel 0.337333 noise.tif)
    "${bp[@]}" --device cuda:0 --plan >plan
    cat plan
    # devices that have them (see choose() in cuda/backproject.cu) plan them up to s = 1.23, and must to 1.25
    if "${bp[@]}" --voxel 0.333333 --device cuda:0 --plan | grep -q tiles; then
        grep -q "s 1, 16 slices a thread, tensor tiles" plan
    fi
    "${bp[@]}" --device cpu -o cpu.tif
    "${bp[@]}" --device cuda:0 -o gpu.tif
    ok img-cmp --max-rel-l2 2e-6 gpu.tif cpu.tif
    "${bp[@]}" --device cuda:0 --device-memory 12MiB -o parts.tif
    ok img-cmp parts.tif gpu.tif
    "${bp[@]}" --device cuda:0 --slab :33 -o a.tif
    "${bp[@]}" --device cuda:0 --slab 33: -o b.tif
    ct-reduce --device cpu --join a.tif b.tif -o joined.tif
    ok img-cmp joined.tif gpu.tif
}

@test "device memory: planned for, and refused where not even a slice fits: 3" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 60 | ct-phantom -g - -o scan.tif
    ct-fdk --device cuda:0 --volume 160x150x140 --device-memory 4MiB scan.tif --plan >plan
    grep -q '^passes: *[2-9] over' plan
    fails 3 "one slice at a time needs" ct-fdk --device cuda:0 --volume 160x150x140 --device-memory 100KiB scan.tif
    # no more than a pipe holds: nobody reads it
    head -c 60000 scan.tif | fails 3 "give the projections as files" \
        ct-fdk --device cuda:0 --volume 160x150x140 --device-memory 4MiB
}

@test "a device that is not there, a cut scan, an interrupted run: the status, and nothing is left" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 60 | ct-phantom -g - -o scan.tif
    mkdir out
    fails 3 "CUDA device" ct-fdk --device cuda:99 --volume 64x64x64 scan.tif -o out/vol.tif
    head -c 2000000 scan.tif >cut.tif
    fails 1 "truncated" ct-fdk --device cuda --volume 64x64x64 cut.tif -o out/vol.tif
    # shellcheck disable=SC2002
    cat cut.tif | fails 1 "truncated" ct-fdk --device cuda --volume 64x64x64 -o out/vol.tif
    mkfifo pipe
    ct-fdk --device cuda --volume 64x64x64 pipe -o out/vol.tif &
    local pid=$!
    exec 9>pipe
    head -c 1000000 scan.tif >&9
    sleep 2
    kill -TERM $pid
    exec 9>&-
    wait $pid || true
    [ "$(ls -A out)" = "" ]
}

@test "subsets of views add up to all views within 1e-6" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 240 | ct-phantom -g - | ct-filter -o filtered.tif
    ct-backproject --device cuda --volume 64x64x64 filtered.tif -o all.tif
    ct-backproject --device cuda --volume 64x64x64 --views :100 filtered.tif -o a.tif
    ct-backproject --device cuda --volume 64x64x64 --views 100: filtered.tif -o b.tif
    ct-reduce a.tif b.tif -o sum.tif
    ok img-cmp --max-rel-l2 1e-6 sum.tif all.tif
}

@test "--subsets: GPUs that share the views agree with one within 1e-6, and with each other to the bit" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 240 | ct-phantom -g - -o scan.tif
    fails 3 "999 subsets of the views need a GPU each" \
        ct-fdk --device cuda --subsets 999 --volume 64x64x64 scan.tif -o vol.tif
    if ! ct-fdk --device cuda:0,1 --plan scan.tif >/dev/null 2>&1; then skip "there is one CUDA device"; fi
    for volume in 160x150x140 200x200x1; do
        ct-fdk --device cuda:0 --volume $volume scan.tif -o one.tif
        ct-fdk --device cuda:0,1 --subsets 2 --volume $volume scan.tif -o two.tif --stats stats.json
        grep -q '"subsets": 2' stats.json
        ok img-cmp --max-rel-l2 1e-6 two.tif one.tif
        ct-fdk --device cuda --subsets 2 --volume $volume --device-memory 8MiB scan.tif -o grid.tif
        ok img-cmp grid.tif two.tif
    done
    # no more than a pipe holds: nobody reads it
    head -c 60000 scan.tif | fails 2 "give the projections as files" ct-fdk --device cuda --subsets 2 --volume 64x64x64
}

@test "auto leaves a small scan on the CPU, and takes a GPU for a large one" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 240 | ct-phantom -g - -o scan.tif
    ct-fdk --device auto -j 2 --volume 32x32x32 scan.tif -o vol.tif --stats stats.json
    grep -q '"device": "cpu"' stats.json
    ct-fdk --device auto -j 2 --volume 256x256x256 scan.tif -o vol.tif --stats stats.json
    grep -q '"device": "cuda"' stats.json
}

# MiB that a new process finds free on the first GPU
free_memory() {
    ct-fdk --device cuda:0 --volume 8x8x8 --plan scan.tif |
        awk '/^device: / { m["KiB"] = 1 / 1024; m["MiB"] = 1; m["GiB"] = 1024; print int($(NF - 2) * m[$(NF - 1)]) }'
}

@test "memory that another process has taken: more passes, the same volume; else 3 with what was needed" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 16 | ct-phantom -g - -o scan.tif
    local free edge slices left
    free=$(free_memory)
    # a process that waits for its input holds a volume of all but 2 GiB
    mkfifo pipe
    edge=$(awk -v m="$free" 'BEGIN { print int(sqrt((m - 2048) * 1048576 / 4 / 1024)) }')
    ct-fdk --device cuda:0 --memory 8GiB --volume "${edge}x${edge}x1024" pipe -o /dev/null 2>holder &
    local pid=$!
    exec 9>pipe
    head -c 200000 scan.tif >&9
    for _ in $(seq 40); do
        sleep 0.25
        left=$(free_memory)
        if [ "$left" -lt $((free / 2)) ]; then break; fi
    done
    echo "free: $free MiB, then $left MiB"
    [ "$left" -lt $((free / 2)) ]
    # half as much again as is left
    slices=$((left * 3 / 2 / 4))
    ct-fdk --device cuda:0 --volume 1024x1024x$slices scan.tif --plan >plan
    cat plan
    grep -q '^passes: *[2-9] over' plan
    ct-fdk --device cuda:0 --volume 1024x1024x$slices scan.tif | cksum >small
    fails 3 "one slice at a time needs" ct-fdk --device cuda:0 --memory 24GiB --volume 30000x30000x1 scan.tif
    # shellcheck disable=SC2154
    [[ "$stderr" = *"the device has"* ]]
    kill -TERM $pid
    exec 9>&-
    wait $pid || true
    ct-fdk --device cuda:0 --volume 1024x1024x$slices scan.tif | cksum >large
    cmp small large
}

@test "an interrupt at any time: 130, and nothing is left" {
    needs_gpu
    ct-geom "${geometry[@]}" --views 240 | ct-phantom -g - -o scan.tif
    mkdir out
    local delay ended=0
    for delay in 0.05 0.2 0.4 0.6 0.8 1 1.3; do
        set -m # or the shell would have it ignore interrupts
        ct-fdk --device cuda --volume 1024x1024x512 scan.tif -o out/vol.tif &
        local pid=$!
        set +m
        sleep $delay
        kill -INT $pid || true
        status=0
        wait $pid || status=$?
        echo "after $delay s: $status"
        if [ $status -eq 0 ]; then
            rm out/vol.tif
        else
            [ $status -eq 130 ]
            ended=$((ended + 1))
        fi
        [ "$(ls -A out)" = "" ]
    done
    [ $ended -gt 0 ]
}

@test "--filter-on gpu and --subsets need GPUs: 3" {
    ct-geom "${geometry[@]}" --views 80 | ct-phantom -g - -o scan.tif
    fails 3 "the back-projection is on the CPU" ct-fdk --device cpu --filter-on gpu --volume 8x8x8 scan.tif
    fails 3 "2 subsets of the views need a GPU each, there are 0" \
        ct-fdk --device cpu --subsets 2 --volume 8x8x8 scan.tif
    ok ct-fdk --device cpu --filter-on cpu --subsets 1 --volume 8x8x8 scan.tif -o vol.tif
}

@test "a plugin of another build is refused: 3" {
    mkdir plugins
    echo "not a library" >plugins/voxpipe-cuda.so
    ct-geom "${geometry[@]}" --views 80 | ct-phantom -g - -o scan.tif
    VOXPIPE_PLUGINS=$PWD/plugins fails 3 "voxpipe-cuda.so" ct-fdk --device cuda --volume 8x8x8 scan.tif
    VOXPIPE_PLUGINS=$PWD/nowhere fails 3 "no voxpipe-cuda.so in $PWD/nowhere" \
        ct-fdk --device cuda --volume 8x8x8 scan.tif
    # auto does without
    VOXPIPE_PLUGINS=$PWD/plugins ok ct-fdk --device auto --volume 8x8x8 scan.tif -o vol.tif
}

@test "a plugin that others may write, or their own, is not loaded, and it is said" {
    ct-geom "${geometry[@]}" --views 80 | ct-phantom -g - -o scan.tif
    fdk() { "${program:-ct-fdk}" --device "$1" --volume 8x8x8 scan.tif -o vol.tif; }
    mkdir -p copy/bin copy/lib/voxpipe
    chmod 755 copy copy/lib copy/lib/voxpipe
    echo "not a library" >copy/lib/voxpipe/voxpipe-cuda.so
    cp "$BUILD/bin/ct-fdk" copy/bin
    program=copy/bin/ct-fdk
    # one's own is tried
    fails 3 "device cuda: $PWD/copy/bin/../lib/voxpipe/voxpipe-cuda.so: " fdk cuda
    for open in copy/lib/voxpipe copy/lib/voxpipe/voxpipe-cuda.so copy; do
        chmod o+w $open
        fails 3 "device cuda: voxpipe-cuda.so is not loaded: others than its owner may write $PWD/$open" fdk cuda
        [ "$open" = copy ] || { chmod +t $open; fails 3 "others than its owner may write" fdk cuda; chmod -t $open; }
        chmod o-w $open
    done
    chmod 1777 copy # as /tmp is
    fails 3 "copy/bin/../lib/voxpipe/voxpipe-cuda.so: " fdk cuda
    chmod 775 copy/lib/voxpipe
    if [ "$(id -u)" -eq 0 ]; then
        chgrp 12345 copy/lib/voxpipe
        fails 3 "others than its owner may write $PWD/copy/lib/voxpipe" fdk cuda
        chmod 755 copy/lib/voxpipe
        chown 12345 copy/lib/voxpipe
        fails 3 "$PWD/copy/lib/voxpipe belongs to another user" fdk cuda
        # named, it is the choice of who named it
        VOXPIPE_PLUGINS=copy/lib/voxpipe fails 3 "copy/lib/voxpipe/voxpipe-cuda.so: " fdk cuda
    fi
    chmod 777 copy/lib/voxpipe
    VOXPIPE_PLUGINS=copy/lib/voxpipe fails 3 "is not loaded: others than its owner may write" fdk cuda
    # auto does without, and says so where it looked for a device
    run --separate-stderr copy/bin/ct-fdk --device auto --subsets 2 --volume 8x8x8 scan.tif -o vol.tif
    [[ "$stderr" == *"warning: on the CPU: voxpipe-cuda.so is not loaded: others"* ]]
}
