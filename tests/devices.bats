# Which device does the work: whole programs with pretended devices (tests/plugin), so on machines without one, too. That
# they give the same bytes under random plans is in chunks.bats.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    export VOXPIPE_PLUGINS=$BUILD/pretend
    unset VOXPIPE_DEVICE
    truncate -s 8G large.raw # 8 GiB that nobody reads
    noise small.tif 40x30x12 f32
    noise kernel.tif 19x17x1 u8
}

@test "every program that may work on a device is in the table, and only those" {
    grep -l VP_TOOL_CUDA "$ROOT"/tools/img-*.c | sed 's|.*/||; s|\.c$||' >may
    name() { echo "$1" >>table; }
    on_devices name >/dev/null
    diff may <(sort table)
}

@test "every program with work for a device gives the bytes of the CPU on one and on several" {
    f() {
        ok "$1" "${@:3}" --device cpu small.tif -o cpu.tif
        for device in cuda:0 cuda:1,2 cuda; do
            ok "$1" "${@:3}" --device $device small.tif -o device.tif --stats stats.json
            grep -q '"device": "cuda"' stats.json
            ok img-cmp cpu.tif device.tif
        done
    }
    on_devices f
    f img-morphrecon bits --hmax 0.3 --chunk 23x17x5 # visits every box twice
}

@test "auto takes all devices for work that is worth it, and none for little" {
    f() {
        case $1 in img-gauss | img-log | img-local | img-morph | img-nlmeans | img-convolve) ;; *) return 0 ;; esac
        ok "$1" "${@:3}" --raw-in 1024x1024:f32le large.raw -o out.tif --plan
        [[ "$output" =~ device:\ +3\ x\ pretended\ device\ 0 ]]
        ok "$1" "${@:3}" small.tif -o out.tif --plan
        [[ "$output" == *"threads: "* && "$output" != *"device: "* ]]
    }
    on_devices f
}

@test "no more of a device is taken than VOXPIPE_DEVICE_MEMORY allows" {
    ok img-gauss --sigma 2 --device cuda --raw-in 1024x1024:f32le large.raw -o out.tif --plan
    [[ "$output" == *" of 896.0 MiB"* ]]
    export VOXPIPE_DEVICE_MEMORY=80MiB
    ok img-gauss --sigma 2 --device cuda --raw-in 1024x1024:f32le large.raw -o out.tif --plan
    [[ "$output" == *" of 64.0 MiB"* ]]
    export VOXPIPE_DEVICE_MEMORY=much
    fails 2 "VOXPIPE_DEVICE_MEMORY: expected a size, got 'much'" img-gauss --sigma 2 --device cuda small.tif
}

@test "devices of a list are those of the list, in its order" {
    ok img-gauss --sigma 2 --device cuda:2 --raw-in 1024x1024:f32le large.raw -o out.tif --plan
    [[ "$output" == *"device:    1 x pretended device 2"* ]]
    ok img-gauss --sigma 2 --device cuda:1,0 --raw-in 1024x1024:f32le large.raw -o out.tif --plan
    [[ "$output" == *"device:    2 x pretended device 1"* ]]
}

@test "a device that is not there is asked for in vain; auto does without" {
    fails 3 "device cuda:3: no such CUDA device" img-gauss --sigma 2 --device cuda:3 small.tif
    fails 3 "device cuda:1,3: some of these CUDA devices do not exist" img-gauss --sigma 2 --device cuda:1,3 small.tif
    export VOXPIPE_PRETEND=0
    fails 3 "device cuda: there are 0 CUDA devices" img-gauss --sigma 2 --device cuda small.tif
    ok img-gauss --sigma 2 --raw-in 1024x1024:f32le large.raw -o out.tif --plan
    [[ "$output" != *"device: "* ]]
}

@test "a device without kernels for reconstruction is refused in one line, also where only a plan is wanted" {
    ct-geom --sod 400 --sdd 600 --detector 16x8 --pitch 10 --views 8 | ct-phantom -g - -o tiny.tif
    for how in "" --plan "--plan --ranks 2" "--filter-on gpu"; do
        # shellcheck disable=SC2086
        fails 3 "device cuda: its plugin has no kernels for back-projection" ct-fdk --device cuda $how tiny.tif
    done
    fails 3 "no kernels for back-projection" ct-backproject -q --device cuda tiny.tif
    for how in "" --plan; do
        # shellcheck disable=SC2086
        fails 3 "device cuda: its plugin has no kernels for the pair" ct-iterate --device cuda $how tiny.tif
    done
    ok ct-iterate --device auto -n 1 tiny.tif -o tiny-vol.tif
    fails 3 "device cuda: its plugin has no kernels for the pair" ct-project --device cuda -g tiny.tif tiny-vol.tif
}

@test "a pipe is read ahead while devices start: the bytes of a file, its errors, and no more of a pipe that is refused" {
    noise large.tif 1024x1024x12 f32
    ok img-gauss --sigma 1 --device cpu large.tif -o cpu.tif
    for memory in 200M 600M 4G; do # none, less than the file, all of it
        cat large.tif | img-gauss --sigma 1 --device cuda --memory $memory -o device.tif --stats stats.json
        grep -q '"device": "cuda"' stats.json
        ok img-cmp cpu.tif device.tif
        (cat large.tif; sleep 0.2) | img-gauss --sigma 1 --device cuda:0 --memory $memory | cmp - device.tif
        img-cat large.tif | img-math 'a + 2 * b' - cpu.tif --device cuda --memory $memory |
            img-cmp - <(img-math 'a + 2 * b' --device cpu large.tif cpu.tif)
    done
    head -c 30000000 large.tif >cut.tif
    fails 1 "truncated" img-gauss --sigma 1 --device cuda -o out.tif <cut.tif
    run bash -c 'cat cut.tif | img-gauss --sigma 1 --device cuda -o out.tif'
    [ "$status" = 1 ]
    [[ "$output" == *"standard input: page 7: truncated: expected 4194304 bytes, got "* ]]
    [ ! -e out.tif ]
    run bash -c 'img-cat large.tif | img-gauss --sigma 1 --device cuda --memory 4G --chunk 5000x5000 -o /none/out.tif'
    [ "$status" = 1 ]
    [[ "$output" == *"/none"* ]]
    fails 3 "device cuda:3" img-gauss --sigma 1 --device cuda:3 < <(cat large.tif)
    VOXPIPE_PRETEND=0 img-gauss --sigma 1 < <(cat large.tif) | img-cmp cpu.tif -
}
