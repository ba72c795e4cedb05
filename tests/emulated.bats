# The plugin's own kernels, run by the CPU (tests/emulate): what CUDA does, on machines without a GPU, too. Small
# images, for it is slow; speed is for cuda.bats and cuda-local.bats. Devices 0 and 1 schedule threads differently.
load helper
load missing

setup_file() {
    local why=''
    [ -e "${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/emulated/voxpipe-cuda.so" ] || why='built without CUDA'
    export WHY=$why
}

setup() {
    if [ -n "$WHY" ]; then skip "$WHY"; fi
    cd "$BATS_TEST_TMPDIR" || exit 1
    export VOXPIPE_PLUGINS=$BUILD/emulated
    unset VOXPIPE_DEVICE EMULATED_CAPABILITY EMULATED_DEVICES EMULATED_LOG
}

# same PROGRAM OPTION...: of image.tif on the CPU and on a device
same() {
    ok "$@" --device cpu image.tif -o cpu.tif
    ok "$@" --device cuda image.tif -o gpu.tif --stats stats.json
    grep -q '"device": "cuda"' stats.json
    ok img-cmp cpu.tif gpu.tif || { echo "with $*"; return 1; }
}

@test "what an emulated device refuses and finds out" {
    ok "$BUILD/emulated/emulate_test"
}

@test "random plans of every program on emulated devices: the bytes of one chunk on the CPU" {
    for EMULATED_CAPABILITY in 8 9; do
        export EMULATED_CAPABILITY
        VOXPIPE_DEVICES="cpu cuda:0 cuda" ok "$BUILD/unit/plans_test" 12 "$RANDOM"
    done
}

@test "every program that may work on a device, every type: as the CPU does it" {
    noise kernel.tif 9x7x1 u8
    f() {
        for type in u8 u16 i16 f32; do
            for device in cpu cuda; do ok "$1" "${@:3}" --device $device $type.tif -o $device.tif; done
            agree "$2" cuda.tif cpu.tif || { echo "with $* of $type"; return 1; }
        done
    }
    for type in u8 u16 i16 f32; do noise $type.tif 61x37x9 $type; done
    on_devices f
}

@test "images of several blocks: the CPU's bits" {
    for kind in 701x203x1:u8 701x203x1:f32 133x71x40:u16 133x71x40:f32 1300x9x3:i16; do
        noise noise.tif "${kind%:*}" "${kind#*:}"
        img-gauss --sigma 1 noise.tif -o image.tif
        same img-gauss --sigma 0.7
        same img-gauss --sigma 9 --edge mirror
        same img-log --sigma 2
        same img-local --stat median --radius 2
        same img-local --stat std --radius 4
        same img-local --stat entropy --radius 3
        same img-morph --op erode --radius 7
        same img-morph --op open --shape ball --radius 3
        same img-math 'if(a > 100, a * 1.5, x)'
        same img-wiener --radius 2
        same img-sat
        same img-sat --exclusive
        same img-morphrecon --fill-holes
        same img-morphrecon --hmax 10 --chunk 100
        same img-threshold --otsu
        same img-threshold --local niblack --window 25
    done
}

@test "volumes that a device holds, also with more nodes than it has room for: the CPU's bits" {
    echo "slab = 1e-9" > rates # the image is small: passing parts on would cost more than it saves
    export VOXPIPE_RATES=rates
    noise image.tif 100x80x40 f32
    img-gauss --sigma 1.5 image.tif -o smooth.tif
    img-math 'a - 0.1' smooth.tif -o marker.tif
    img-math 'if(a > 0.9, 0 / 0, a * 100)' image.tif -o nan.tif
    img-math --type i16 'a * 30000 - 10000' smooth.tif -o i16.tif
    # pairs of voxels across the faces of tiles, each a node of its own
    img-math 'if((x % 16 == 0 or x % 16 == 15) and (y + z) % 2 == 0, 200, 50)' image.tif -o pairs.tif
    f() {
        ok img-morphrecon --device cuda "$@" --plan -o gpu.tif
        [[ "$output" == *"one: the device holds the image"* ]] || { echo "with $*: $output"; return 1; }
        ok_with_warnings img-morphrecon --device cpu "$@" -o cpu.tif
        local said=$output
        ok_with_warnings img-morphrecon --device cuda "$@" -o gpu.tif --stats stats.json
        [ "$output" = "$said" ] || { echo "with $*: $output, but $said"; return 1; }
        grep -q '"settle": ' stats.json
        cmp cpu.tif gpu.tif || { echo "with $*"; return 1; }
    }
    f --hmax 0.05 smooth.tif
    f --hmin 3 --connectivity 18 nan.tif
    f --fill-holes image.tif
    f --regional-max smooth.tif
    f --open 2 smooth.tif
    f --hmax 10 --connectivity 6 pairs.tif
    # the second allocation is that of the larger graph: without it all is read again, and nothing is held
    EMULATED_FULL=2 ok_with_warnings img-morphrecon -v --device cuda --hmax 10 --connectivity 6 pairs.tif -o again.tif \
        --stats stats.json
    [[ "$output" == *"the graph of the image has "*" on the device: planning smaller parts"* ]]
    grep -q '"bytes_up": 2560000,' stats.json
    run grep '"settle"' stats.json
    [ "$status" -eq 1 ]
    ok img-cmp cpu.tif again.tif
    f marker.tif smooth.tif
    noise u8.tif 140x130x60 u8
    f --hdome 3 u8.tif
}

@test "images that are higher than a grid of thread blocks: the CPU's bits" {
    noise image.tif 1x1060000x1 u8
    same img-morph --op dilate --shape ball --radius 1 --compress deflate --chunk 1x1060000x1
    same img-threshold --at 100 --compress deflate --chunk 1x1060000x1
    noise image.tif 1x530000x2 u8
    same img-local --stat median --radius 1,2,1 --chunk 1x530000x2
    same img-nlmeans --patch 1 --search 1 --sigma 1 --h 1 --chunk 1x530000x2
}

@test "tables of volumes, with squares: the CPU's bits" {
    for type in u8 i16 f32; do
        noise image.tif 133x71x20 $type
        same img-sat --3d
        for device in cpu cuda; do
            ok img-sat --3d --exclusive --squares $device.squares.tif --device $device image.tif -o $device.tif
        done
        ok img-cmp cpu.tif cuda.tif
        ok img-cmp cpu.squares.tif cuda.squares.tif
    done
    noise image.tif 1300x600x2 f32 # enough for a way that takes more shared memory than devices of capability 8 may have
    for EMULATED_CAPABILITY in 8 9; do
        export EMULATED_CAPABILITY
        same img-sat --3d
    done
}

@test "convolution within 1e-6 of the CPU, with one kernel and a grid of them; deconvolution" {
    noise image.tif 150x130x1 f32
    noise kernel.tif 21x17x1 f32
    noise small.tif 3x5x1 u8
    noise kernels.tif 21x17x6 f32
    for options in '-k kernel.tif' '-k small.tif' '-k kernels.tif --grid 3x2'; do
        # shellcheck disable=SC2086
        for device in cpu cuda; do ok img-convolve $options --device $device image.tif -o $device.tif; done
        ok img-cmp --max-rel-l2 1e-6 cuda.tif cpu.tif || { echo "with $options"; return 1; }
    done
    # what cancels, on an offset; one huge sample, seen and not
    img-math 'a + 65536' image.tif -o offset.tif
    img-math 'if(x == 75 and y == 60, 1e30, a)' image.tif -o huge.tif
    img-math '(x - 10) * exp(-((x - 10)^2 + (y - 8)^2) / 30)' kernels.tif -o slopes.tif
    img-cat --pages 0:1 slopes.tif -o slope.tif
    for options in '-k slope.tif' '-k slopes.tif --grid 3x2' '-k slopes.tif --grid 3x2 --weights source'; do
        # shellcheck disable=SC2086
        for image in offset huge; do
            for device in cpu cuda; do ok img-convolve $options --edge mirror --device $device $image.tif -o $device.tif; done
            ok img-cmp --max-rel-l2 2e-6 cuda.tif cpu.tif || { echo "with $options of $image"; return 1; }
        done
        for device in cpu cuda; do img-cat --region 90:150,0:130 $device.tif -o $device-far.tif; done
        ok img-cmp --max-rel-l2 2e-6 cuda-far.tif cpu-far.tif || { echo "with $options, far"; return 1; }
    done
    img-math '0 * a + 7.3' image.tif -o flat.tif
    for options in '-k kernel.tif' '-k kernels.tif --grid 3x2'; do
        # shellcheck disable=SC2086
        ok img-convolve $options --normalize --device cuda flat.tif -o out.tif
        ok img-cmp --atol 0 flat.tif out.tif
    done
    ok img-deconvolve -k kernel.tif -n 3 --device cuda flat.tif -o out.tif
    ok img-cmp --atol 7e-6 flat.tif out.tif
    for device in cpu cuda; do ok img-deconvolve -k kernel.tif -n 3 --device $device image.tif -o $device.tif; done
    ok img-cmp --max-rel-l2 1e-5 cuda.tif cpu.tif
}

# near_cpu OPTION...: ct-fdk of scan.tif within 2e-6 of the CPU, with capability 9 the same bits with either schedule
near_cpu() {
    ok_with_warnings ct-fdk --device cpu "$@" scan.tif -o cpu.tif
    for on in 8:0 9:0 9:1; do
        EMULATED_CAPABILITY=${on%:*} ok_with_warnings ct-fdk --device "cuda:${on#*:}" "$@" scan.tif -o "$on.tif"
        ok img-cmp --max-rel-l2 2e-6 "$on.tif" cpu.tif || { echo "with $scan, $*, capability and device $on"; return 1; }
    done
    ok img-cmp 9:0.tif 9:1.tif || { echo "with $scan, $*, on one device and the other"; return 1; }
}

# ok_with_warnings COMMAND...: succeeds
ok_with_warnings() {
    run "$@"
    [ "$status" -eq 0 ] || { printf 'command: %s\nstatus: %s\n%s\n' "$*" "$status" "$output"; return 1; }
}

# launched NAME: of this kernel, EMULATED_LOG says so
launched() {
    grep -qF "$1" log || { printf '%s was not launched, but\n%s\n' "$1" "$(cut -c1-160 log | sort -u)"; return 1; }
}

@test "back-projection within 2e-6 of the CPU, with the filter on either, and the same bits for any slabs" {
    geometry=(--sod 400 --sdd 600 --detector 64x48 --pitch 2.5)
    for scan in '--views 48' '--views 49' '--views 48 --offset-v 5.5' '--views 48 --offset-u -12' \
        '--views 42 --arc 220' '--views 48 --tilt 3' '--views 80 --arc 1080 --pitch-z 60'; do
        # shellcheck disable=SC2086
        ct-geom "${geometry[@]}" $scan | ct-phantom -g - --noise 1e5 -o scan.tif
        ok ct-fdk --device cpu --volume 40x36x30 scan.tif -o cpu.tif
        for EMULATED_CAPABILITY in 8 9; do
            export EMULATED_CAPABILITY
            for on in cpu gpu; do
                ok ct-fdk --device cuda:0 --filter-on $on --volume 40x36x30 scan.tif -o gpu.tif
                ok img-cmp --max-rel-l2 2e-6 gpu.tif cpu.tif || { echo "with $scan, filter on $on"; return 1; }
            done
            ok ct-fdk --device cuda --volume 40x36x30 --device-memory 1300KiB scan.tif -o slabs.tif
            ok img-cmp slabs.tif gpu.tif || { echo "with $scan, capability $EMULATED_CAPABILITY"; return 1; }
        done
    done
}

@test "voxels a quarter, half and twice as large as the detector's pixels: the same bits for any slabs" {
    for scan in '--views 48' '--views 49' '--views 48 --offset-v 5.5'; do
        # shellcheck disable=SC2086
        ct-geom --sod 800 --sdd 1200 --detector 64x48 --pitch 2.5 $scan | ct-phantom -g - --noise 1e5 -o scan.tif
        for voxel in 0.42 0.83 3.33; do
            for EMULATED_CAPABILITY in 8 9; do
                export EMULATED_CAPABILITY
                ok ct-fdk --device cuda:0 --voxel $voxel --volume 40x36x30 scan.tif -o gpu.tif
                ok ct-fdk --device cuda --voxel $voxel --volume 40x36x30 --device-memory 1300KiB scan.tif -o slabs.tif
                ok img-cmp slabs.tif gpu.tif || { echo "with $scan, $voxel, $EMULATED_CAPABILITY"; return 1; }
                for slab in :7 7:21 21:; do
                    ok ct-fdk --device cuda:0 --voxel $voxel --volume 40x36x30 --slab $slab scan.tif -o ${slab/:/-}.tif
                done
                ok ct-reduce --device cpu --join ./-7.tif 7-21.tif 21-.tif -o joined.tif
                ok img-cmp joined.tif gpu.tif || { echo "with $scan, $voxel, $EMULATED_CAPABILITY"; return 1; }
            done
        done
    done
}

@test "helices in sections of one slice and of many, tilted too, and views that are turned on the host: as the CPU" {
    for scan in '--views 80 --arc 1080 --pitch-z 60' '--views 80 --arc 1080 --pitch-z -60 --tilt 2' \
        '--views 36 --lamino 30 --fixed-detector'; do
        # shellcheck disable=SC2086
        ct-geom --sod 400 --sdd 600 --detector 64x48 --pitch 2.5 $scan | ct-phantom -g - --noise 1e5 -o scan.tif
        near_cpu --volume 16x16x9 --voxel 4,4,8
        near_cpu --volume 16x16x20 --voxel 4,4,0.2
    done
    fails 3 "--filter-on gpu: the views have to be turned first" ct-fdk --device cuda --filter-on gpu scan.tif
}

@test "back-projection with every kernel of tensor tiles" {
    export EMULATED_LOG=$PWD/log
    # pixels a voxel up to what the kernels for about 0.25, 0.5, 1 and 2 allow, and 1.4; half turns (R = 2) and a mirror plane
    # (Z = 2), or not; batches of 8 and 1
    for scan in '18' '17' '18 --offset-v 5.5' '17 --offset-v 5.5'; do
        # shellcheck disable=SC2086
        ct-geom --sod 800 --sdd 1200 --detector 64x48 --pitch 2.5 --views $scan |
            ct-phantom -g - --noise 1e5 -o scan.tif
        for voxel in 0.25 0.62 1.07 1.94 3.68 2.33; do near_cpu --voxel $voxel --volume 40x36x30; done
    done
    for R in 1 2; do
        for Z in 1 2; do
            for set in 0 1 2 3 4; do
                launched "k_backproject_column_tiled<$R, $Z, 16, $(
                    case $R$Z in 22) echo 2, 8 ;; 11) echo 4, 6 ;; *) echo 3, 8 ;; esac
                ), vp::(anonymous namespace)::slices16<(vp::column_set)$set>"
            done
        done
    done
    # matrices, narrow and wide boxes, with and without a tilt along z
    for scan in 'tilt=3' 'yaw=4 pitch=3 tilt=2 offset=4 sx=3 sz=5'; do
        # shellcheck disable=SC2086
        posed nu=64 nv=48 du=2.5 views=17 $scan > scan.geom
        ct-phantom -g scan.geom --noise 1e5 -o scan.tif
        for voxel in 1.667 3.33; do near_cpu --voxel $voxel --volume 40x36x30; done
    done
    for pitch in 40 72; do
        for level in true false; do launched "k_backproject_matrix_tiled<$pitch, $level>"; done
    done
}

@test "volumes that stay on their devices: the definition" {
    for EMULATED_CAPABILITY in 8 9; do
        export EMULATED_CAPABILITY
        VOXPIPE_DEVICES=cuda ok "$BUILD/unit/projector_test"
        VOXPIPE_DEVICES=cuda:0 ok "$BUILD/unit/pair_device_test"
        VOXPIPE_DEVICES=cuda:1 ok "$BUILD/unit/pair_device_test"
        VOXPIPE_DEVICES=cuda ok "$BUILD/unit/pair_device_test"
    done
}

@test "projection, its transpose and iterations: near the CPU" {
    ct-geom --sod 60 --sdd 120 --detector 30x24 --pitch 2 --views 20 --offset-u 2 -o scan.geom
    ct-phantom -g scan.geom --phantom asymmetric | img-math -q 'max(a, 0) + 0.01' -o p.tif
    for device in cpu cuda:0 cuda:1; do
        ct-iterate -n 1 --margin 0 --device $device p.tif --stats stats.json -o v.tif
        grep -q "\"device\": \"${device%:*}\"" stats.json
        ct-iterate -n 5 --device $device p.tif -o cgls.$device.tif
        ct-iterate -n 3 --method os-sart --device $device p.tif -o sart.$device.tif
        ct-iterate -n 3 --method fista-tv --device $device p.tif -o tv.$device.tif
        ct-iterate -n 3 --method mlem --device $device p.tif -o em.$device.tif
        ct-backproject -q --weight adjoint --device $device --slab 3:11 p.tif -o back.$device.tif
        ct-project -g scan.geom --device $device back.cpu.tif -o project.$device.tif
    done
    for device in cuda:0 cuda:1; do
        for f in cgls sart tv em; do ok img-cmp -q --max-rel-l2 2e-5 $f.cpu.tif $f.$device.tif; done
        for f in back project; do ok img-cmp -q --max-rel-l2 2e-6 $f.cpu.tif $f.$device.tif; done
    done
    ct-geom scan.geom --tilt 3 -o tilted.geom
    ct-geom --sod 60 --sdd 120 --detector 50x1 --pitch 1.2 --views 20 -o fan.geom
    for kind in tilted fan; do
        ct-phantom -g $kind.geom --phantom asymmetric -o p.tif
        for device in cpu cuda; do
            ct-iterate -n 3 --device $device p.tif --stats stats.json -o cgls.$device.tif
            grep -q "\"device\": \"$device\"" stats.json
            ct-backproject -q --weight adjoint --device $device p.tif -o back.$device.tif
            ct-project -g $kind.geom --device $device cgls.cpu.tif -o project.$device.tif
        done
        ok img-cmp -q --max-rel-l2 2e-5 cgls.cpu.tif cgls.cuda.tif
        for f in back project; do ok img-cmp -q --max-rel-l2 2e-6 $f.cpu.tif $f.cuda.tif; done
    done
}

@test "slabs that travel between host and devices: the bits of those that are held, resumed or not" {
    ct-geom --sod 3000 --sdd 3100 --detector 6x540 --pitch 1 --views 20 -o scan.geom
    printf '0 0 0 3 3 400 0 0.02\n' >rod.txt
    ct-phantom -g scan.geom --phantom rod.txt -o p.tif
    it() { ok ct-iterate --volume 4x4x520 --voxel 1 --margin 0 "$@" p.tif; }
    [[ "$(ct-iterate --volume 4x4x520 --voxel 1 --margin 0 --device cuda:0 --plan p.tif)" == *"2 slabs, all held: "* ]]
    [[ "$(ct-iterate --volume 4x4x520 --voxel 1 --margin 0 --device cuda:0 --device-memory 700K --plan p.tif)" == *"2 slabs, in turn, from host memory: "* ]]
    it -n 2 --device cuda:0 -o held.tif
    it -n 2 --device cuda --device-memory 700K -o turn.tif
    ok img-cmp -q held.tif turn.tif
    it -n 1 --device cuda:0 --checkpoint state --every 1 -o part.tif
    it -n 2 --device cuda:0 --device-memory 700K --resume state -o rest.tif
    ok img-cmp -q held.tif rest.tif
    fails 3 "a slab of 512 of 520 slices takes" ct-iterate --volume 4x4x520 --voxel 1 --margin 0 --device cuda:0 --device-memory 600K p.tif -o no.tif
    [ ! -e no.tif ]
}

@test "volumes in a scratch folder: the bits of those in memory, and nothing left there" {
    mkdir scratch
    ct-geom --sod 3000 --sdd 3100 --detector 20x540 --pitch 1 --views 20 -o scan.geom
    printf '0 0 0 8 8 400 0 0.02\n' >rod.txt
    ct-phantom -g scan.geom --phantom rod.txt | img-math -q 'max(a, 0)' -o p.tif
    it() { ct-iterate --volume 16x16x520 --voxel 1 --margin 0 -n 2 --device cuda:0 "$@" p.tif; }
    ok it -o cgls.tif
    local volumes memory
    while read -r memory volumes; do
        [[ "$(it --memory $memory --scratch scratch --plan)" == *"$volumes in scratch, "* ]] || { it --memory $memory --scratch scratch --plan; return 1; }
        ok it --memory $memory --scratch scratch -o a.tif
        ok img-cmp -q cgls.tif a.tif
        [ -z "$(ls -A scratch)" ]
    done <<<"6.4M 1 volume
5.7M 3 volumes"
    ok it --method sirt --views 0:4 -n 1 -o a.tif
    ok it --method sirt --views 0:4 -n 1 --memory 6.4M --scratch scratch -o b.tif
    ok img-cmp -q a.tif b.tif
    fails 1 "nowhere: No such file" it --memory 5.7M --scratch nowhere -o no.tif
    fails 3 "/dev/shm: expected a folder on a disk" it --memory 5.7M --scratch /dev/shm -o no.tif
    fails 3 "keep volumes on a disk with --scratch" it --memory 5.7M -o no.tif
    [ ! -e no.tif ]
}

@test "samples of 32-bit integers and f64: the CPU, or a refusal in one line" {
    local program type
    noise image.tif 20x12x1 u8
    for type in u32 i32 f64; do img-convert --type $type image.tif -o $type.tif; done
    img-math '2' --type u8 image.tif -o radii.tif
    for program in "img-gauss" "img-log" "img-local --stat median" "img-local --stat mean" "img-local --stat entropy --range 0,255" \
        "img-morph --op open" "img-morph --op tophat" "img-wiener --noise 9" "img-nlmeans --h 9 --search 1" "img-threshold --at 9" \
        "img-threshold --local mean" "img-local --stat mean --radius-map radii.tif"; do
        for type in u32 i32 f64; do
            # shellcheck disable=SC2086
            fails 3 "kernel" $program --device cuda $type.tif
            [ "${stderr_lines[1]-}" = "" ] || [[ "${stderr_lines[1]}" == *hint* ]]
            # shellcheck disable=SC2086
            ok $program --device auto $type.tif -o a.tif --stats stats.json
            grep -q '"device": "cpu"' stats.json
        done
    done
}

@test "a footprint that is no box and no ball: the CPU's bits, also where no sample of it exists" {
    perl -e 'print pack("C*", map { $_ % 5 && $_ % 3 != 1 ? 1 : 0 } 1..63)' > set.raw
    img-cat --raw-in 7x9x1:u8 set.raw -o plane.tif
    img-cat --raw-in 7x3x3:u8 set.raw -o set.tif
    for kind in 45x37x1:u8 70x40x3:u16 40x9x12:f32 5x3x1:i16; do
        noise noise.tif "${kind%:*}" "${kind#*:}"
        img-cat noise.tif -o image.tif
        for set in "--2d --footprint plane.tif" "--2d --footprint plane.tif --center 6,0" "--footprint set.tif"; do
            if [[ $set != --2d* && $kind = *x1:* ]]; then continue; fi
            # shellcheck disable=SC2086
            for stat in median percentile:20 min max entropy; do
                if [ $stat = entropy ]; then set -- --range 0,200; else set --; fi
                ok img-local --stat $stat "$@" $set --device cpu image.tif -o cpu.tif
                ok img-local --stat $stat "$@" $set --device cuda image.tif -o gpu.tif
                ok img-cmp --nan-equal cpu.tif gpu.tif || { echo "with $kind $stat $set"; return 1; }
            done
            if [[ $kind = *f32 ]]; then continue; fi
            # shellcheck disable=SC2086
            same img-local --stat std --type same $set
            # shellcheck disable=SC2086
            same img-wiener --noise 9 $set
            # shellcheck disable=SC2086
            same img-morph --op open $set
        done
    done
}

@test "medians and ranks of boxes by each method, images narrower than a block and a window: the CPU's bits" {
    for kind in 45x149x1:u8 67x100x2:i16 9x120x1:u16 70x79x1:f32 150x7x1:u8 33x20x11:u16; do
        noise noise.tif "${kind%:*}" "${kind#*:}"
        img-cat noise.tif -o image.tif
        for radius in 2 3 4 5; do same img-local --2d --stat median --radius $radius; done
        same img-local --2d --stat percentile:90 --radius 2
        same img-local --2d --stat median --radius 9,4
        same img-local --2d --stat median --radius 4 --chunk 40x75x1
        same img-local --2d --stat percentile:3 --radius 6 --shape ball
        if [[ $kind = *x11:* ]]; then same img-local --stat median --radius 2,3,1; fi
    done
}

@test "axes whose positions kernels cannot count are refused" {
    truncate -s 1100000000 long.raw
    noise kernel.tif 3x3x1 f32
    for command in 'img-gauss --sigma 1' 'img-convolve -k kernel.tif'; do
        # shellcheck disable=SC2086
        run -3 $command --device cuda --raw-in 1100000000x1:u8 long.raw --plan
        [[ "$output" == *'1100000000 voxels along one axis is too large'* ]]
    done
}

@test "a capability that is not emulated is refused" {
    noise image.tif 8x8x1 u8
    EMULATED_CAPABILITY=7 run -134 img-gauss --sigma 1 --device cuda image.tif -o gpu.tif
    [[ "$output" == *"EMULATED_CAPABILITY is 8 or 9, not '7'"* ]]
}

@test "img-convolve: noise around 0 is not worse for the constant that is taken off" {
    noise a.tif 150x170x20 i16
    noise kernel.tif 21x18x1 u8
    img-convert --type f64 a.tif -o exact.tif
    for edge in renormalize zero wrap; do
        options=(-k kernel.tif --normalize --edge $edge)
        img-convolve "${options[@]}" --device cpu exact.tif -o want.tif
        ok img-convolve "${options[@]}" --device cuda --type f32 a.tif -o got.tif
        ok img-cmp --max-rel-l2 8e-7 got.tif want.tif
    done
}

@test "missing samples: the CPU's bits, in random commands and chunks" {
    missing_images 45x33x6
    missing_agree 60 "$RANDOM"
}

@test "boxes of a map of radii: the CPU's bits" {
    missing_images 45x33x6
    radii_agree
}
