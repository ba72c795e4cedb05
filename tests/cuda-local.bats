# Local operations on the GPU: the same bits as on the CPU, however the image is cut. Skipped where there is no device.
load helper
load missing

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH"
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-phantom --volume 8x8x8 -o tiny.tif
    WHY=$(img-gauss --device cuda --sigma 1 tiny.tif --plan 2>&1 >/dev/null | sed -n 's/^img-gauss: error: //p')
    export WHY
}

needs_gpu() { if [ -n "$WHY" ]; then skip "$WHY"; fi; }

# same PROGRAM OPTION... FILE: CPU and GPU agree to the bit
same() {
    "$1" --device cpu "${@:2}" -o cpu.tif
    ok "$1" --device cuda "${@:2}" -o gpu.tif
    ok img-cmp gpu.tif cpu.tif || { echo "with $*"; return 1; }
}

@test "random plans of every program on one GPU and on all of them: the bytes of one chunk" {
    needs_gpu
    VOXPIPE_DEVICES="cpu cuda:0 cuda" ok "${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/unit/plans_test"
}

@test "every program of images, every type: as the CPU does it, on one GPU and on all" {
    needs_gpu
    noise kernel.tif 19x17x1 u8
    f() {
        for type in u8 u16 i16 f32; do
            for device in cpu cuda:0 cuda; do ok "$1" "${@:3}" --device $device $type.tif -o $device.tif; done
            for device in cuda:0 cuda; do
                agree "$2" $device.tif cpu.tif || { echo "with $* of $type, $device"; return 1; }
            done
        done
    }
    for type in u8 u16 i16 f32; do noise $type.tif 150x70x20 $type; done
    on_devices f
}

@test "several workers on one GPU start their kernels side by side: none is left out" {
    needs_gpu
    noise a.tif 64x64x64 f32
    for chunk in 8x64x3 64x16x2 16x16x4; do
        for ((i = 0; i < 3; i++)); do
            same img-morph --op erode --radius 15,30,24 --chunk $chunk a.tif # windows of unlike lengths, one kernel
            same img-gauss --sigma 7,10,5 --chunk $chunk a.tif
            same img-local --stat percentile:30 --radius 1,3,2 --chunk $chunk a.tif
        done
    done
}

@test "img-gauss: the CPU's bits for every type, radius and edge rule" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 150x70x40 $type
        for edge in renormalize nearest mirror zero wrap; do
            same img-gauss --sigma 1 --edge $edge a.tif       # x, y and z at once
            same img-gauss --sigma 2.5,3,0.7 --edge $edge a.tif
            same img-gauss --sigma 0,5,9 --edge $edge a.tif   # axes shorter than the kernel
        done
        same img-gauss --sigma 1.5 --highpass a.tif
        same img-gauss --2d --sigma 3 a.tif
        same img-gauss --sigma 3,0,0 a.tif
        same img-gauss --sigma 0,0,3 a.tif
    done
    same img-gauss --sigma 2 --derivative 0,1,2 a.tif
    same img-gauss --sigma 0.3 --derivative 1,1,1 a.tif # more at the edges than inside
    same img-gauss --sigma 0,2,5 --derivative 0,1,1 a.tif
    same img-gauss --sigma 1 --iterations 3 a.tif
}

@test "img-log: the CPU's bits" {
    needs_gpu
    for type in f32 u16; do
        noise a.tif 150x70x40 $type
        for edge in renormalize mirror zero wrap; do
            same img-log --sigma 1 --edge $edge a.tif
            same img-log --sigma 3,2,5 --edge $edge a.tif
        done
        same img-log --2d --sigma 2 a.tif
        same img-log --sigma 0,0,2 a.tif
    done
}

@test "boxes, pipes and planes that arrive late do not change a bit of the GPU's result" {
    needs_gpu
    noise a.tif 150x70x60 u16
    for sigma in 1 2.5 6; do
        img-gauss --device cuda --sigma $sigma a.tif -o want.tif
        for chunk in 150x70x1 150x70x7 37x70x60 150x11x9 64x64x64; do
            ok img-gauss --device cuda --sigma $sigma --chunk $chunk a.tif -o got.tif
            ok img-cmp got.tif want.tif || { echo "with --chunk $chunk"; return 1; }
        done
        img-cat a.tif | img-gauss --device cuda --sigma $sigma -o got.tif
        ok img-cmp got.tif want.tif
    done
}

# of sums in float64, whose order is another one
alike() {
    "$1" --device cpu "${@:2}" -o cpu.tif
    ok "$1" --device cuda "${@:2}" -o gpu.tif
    ok img-cmp --max-rel-l2 "${BOUND-1e-6}" gpu.tif cpu.tif || { echo "with $*"; return 1; }
}

@test "img-local: minimum, maximum, median, percentiles and entropy are the CPU's to the bit" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 150x70x20 $type
        for radius in 0 1 2,1,3 7,0,2 0,0,4 40 300; do
            same img-local --stat min --radius $radius a.tif
            same img-local --stat max --radius $radius a.tif
        done
        for radius in 0 1 1,1,0 2 3,1,0 0,5,1; do
            same img-local --stat median --radius $radius a.tif
            same img-local --stat percentile:80 --radius $radius a.tif
        done
        for stat in min max median percentile:10; do
            same img-local --stat $stat --shape ball --radius 2.5,3,1 a.tif
            same img-local --stat $stat --2d --radius 2 --iterations 2 a.tif
        done
        for bins in 16 256 40000; do
            same img-local --stat entropy --bins $bins --range 0,0.7 --radius 2,2,1 a.tif
            same img-local --stat entropy --bins $bins --range=-2000,30000 --shape ball --radius 3 a.tif
        done
    done
}

@test "img-local: medians and ranks of images by each method, at every edge: the CPU's bits" {
    needs_gpu
    for kind in 301x260x1:u8 600x1000x1:u16 70x500x3:i16 513x300x1:f32 13x200x1:u8 200x13x1:f32 64x65x64:u16; do
        noise a.tif "${kind%:*}" "${kind#*:}"
        for radius in 1 2 3 4 5 6 9,4 15 40 0,3; do
            same img-local --2d --stat median --radius $radius a.tif
            same img-local --2d --stat percentile:20 --radius $radius a.tif
        done
        same img-local --2d --stat median --radius 3 --chunk 100x111x1 a.tif
        same img-local --2d --stat median --shape ball --radius 12 a.tif
        if [[ $kind = *x1:* ]]; then continue; fi
        for radius in 1 2 3 4,2,1; do
            same img-local --stat median --radius $radius a.tif
            same img-local --stat percentile:70 --shape ball --radius $radius a.tif
        done
    done
}

@test "--footprint that is no box and no ball: the CPU's bits" {
    needs_gpu
    perl -e 'print pack("C*", map { $_ % 5 && $_ % 3 != 1 ? 1 : 0 } 1..63)' > set.raw
    img-cat --raw-in 7x9x1:u8 set.raw -o plane.tif
    img-cat --raw-in 7x3x3:u8 set.raw -o set.tif
    for type in u8 u16 i16 f32; do
        noise a.tif 150x70x20 $type
        for stat in median percentile:20 min max entropy; do
            if [ $stat = entropy ]; then set -- --range 0,200; else set --; fi
            same img-local --stat $stat "$@" --footprint set.tif a.tif
            same img-local --stat $stat "$@" --2d --footprint plane.tif a.tif
        done
        same img-morph --op open --footprint set.tif a.tif
        check=same
        if [ $type = f32 ]; then check=alike; fi
        $check img-local --stat std --footprint set.tif a.tif
        $check img-wiener --noise 9 --footprint set.tif a.tif
    done
}

@test "img-local and img-wiener: mean, variance, deviation: the same for integers, within 1e-6 for floats" {
    needs_gpu
    for type in u8 u16 i16 f32; do
        check=same
        if [ $type = f32 ]; then check=alike; fi
        noise a.tif 150x70x20 $type
        for radius in 0 1 3,2,5 30; do
            $check img-local --stat mean --radius $radius a.tif
            $check img-local --stat var --type same --radius $radius a.tif
            $check img-local --stat std --type same --sample --radius $radius a.tif
            $check img-wiener --noise 300 --radius $radius a.tif
            alike img-local --stat mean --type f32 --radius $radius a.tif
            alike img-local --stat std --radius $radius a.tif
        done
        $check img-local --stat std --type same --shape ball --radius 3 a.tif
        $check img-wiener --noise 0.05 --shape ball --radius 2 a.tif
    done
}

@test "img-threshold: masks are the CPU's to the bit; those of floats are but for voxels on their threshold" {
    needs_gpu
    for type in u8 u16 i16 f32; do
        noise a.tif 150x70x20 $type
        for how in "--otsu" "--triangle --2d" "--li --below" "--yen" "--isodata --value 1" "--at 0.3" "--at 77.5 --below"; do
            # shellcheck disable=SC2086
            same img-threshold $how a.tif
        done
        for how in "mean --window 7" "mean --2d --window 101 --offset -0.1" "niblack --2d --window 31 --below" \
            "niblack --window 9,5,3" "sauvola --2d --window 15 --r 50" "bradley --shape ball --window 5" \
            "niblack --window 299,3,1" "sauvola --2d --window 3,199 --r 0.2"; do
            img-threshold --device cpu --local $how a.tif -o cpu.tif
            ok img-threshold --device cuda --local $how a.tif -o gpu.tif
            if [ $type != f32 ]; then ok img-cmp gpu.tif cpu.tif || { echo "with $type $how"; return 1; }; fi
            ok img-cmp --max-rel-l2 1e-2 gpu.tif cpu.tif || { echo "with $type $how"; return 1; }
        done
    done
}

@test "img-morph: every operation, the CPU's bits" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 150x70x20 $type
        for op in erode dilate open close tophat bothat gradient; do
            same img-morph --op $op --radius 3,2,1 a.tif
            same img-morph --op $op --shape ball --radius 2 --iterations 2 a.tif
        done
    done
}

@test "img-morphrecon: everything it makes, the CPU's bits, in one visit and in two" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 150x70x20 $type
        h=3000
        if [ $type = f32 ]; then h=0.3; elif [ $type = u8 ]; then h=30; fi
        for option in --fill-holes --clear-border "--hmax $h" "--hmin $h" "--hdome $h" --regional-max --regional-min \
            "--open 2" "--close 2"; do
            read -ra words <<<"$option"
            same img-morphrecon "${words[@]}" a.tif
            same img-morphrecon "${words[@]}" --chunk 61x33x9 --connectivity 18 a.tif
            same img-morphrecon "${words[@]}" --2d a.tif
            same img-morphrecon "${words[@]}" --2d --chunk 41x50 --connectivity 4 a.tif
        done
        same img-morphrecon --seed 75,35,10 --chunk 61x33x9 a.tif
        same img-morphrecon --2d --seed 75,35 --by erosion a.tif
    done
}

@test "img-nlmeans: the CPU's bits" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 70x40x12 $type
        h=3000
        if [ $type = f32 ]; then h=0.3; elif [ $type = u8 ]; then h=30; fi
        same img-nlmeans --h $h --search 2 a.tif
        same img-nlmeans --h $h --sigma $h --search 3,2,1 --patch 1,2,0 a.tif
        same img-nlmeans --h $h --search 1 --patch 2 --type f32 a.tif
        for patch in 0 1 2 3 5 7; do
            same img-nlmeans --2d --h $h --search 4 --patch $patch a.tif
        done
    done
}

@test "img-convolve: the CPU's results within 1e-6, of noise around 0 within 2e-6" {
    needs_gpu
    noise kernel.tif 21x18x1 u8
    noise kernels.tif 13x11x6 u8
    noise deep.tif 5x6x7 u8
    for type in f32 u8 u16 i16; do
        noise a.tif 150x170x20 $type
        local BOUND=1e-6
        # what is promised is a part of the contrast, to which smoothed noise around 0 is small
        if [ $type = i16 ]; then BOUND=2e-6; fi
        for edge in renormalize nearest mirror zero wrap; do
            alike img-convolve -k kernel.tif --normalize --edge $edge a.tif
            alike img-convolve -k kernels.tif --grid 3x2 --normalize --edge $edge a.tif
            alike img-convolve -k kernels.tif --grid 3x2 --weights source --normalize --edge $edge a.tif
            alike img-convolve -k deep.tif --correlate --edge $edge a.tif
            alike img-convolve -k deep.tif --crop valid a.tif
            if [ $edge = renormalize ]; then continue; fi
            for k in kernel.tif deep.tif "kernels.tif --grid 3x2" "kernels.tif --grid 3x2 --weights source"; do
                # shellcheck disable=SC2086
                alike img-convolve -k $k --crop full --edge $edge a.tif
            done
        done
    done
}

@test "img-convolve: offsets, huge samples and constants as on the CPU" {
    needs_gpu
    noise a.tif 700x2300x2 f32
    noise kernels.tif 41x31x6 f32
    img-math '(x - 20) * exp(-((x - 20)^2 + (y - 15)^2) / 60)' kernels.tif -o slopes.tif
    img-cat --pages 0:1 slopes.tif -o slope.tif
    img-math 'a + 65536' a.tif -o offset.tif
    img-math 'if(x == 300 and y == 1030, 1e30, a)' a.tif -o huge.tif
    img-math '0 * a + 7.3' a.tif -o flat.tif
    for options in '-k slope.tif' '-k slopes.tif --grid 3x2' '-k slopes.tif --grid 3x2 --weights source'; do
        for image in offset huge; do
            # shellcheck disable=SC2086
            for device in cpu cuda; do ok img-convolve $options --edge mirror --device $device $image.tif -o $device.tif; done
            ok img-cmp --max-rel-l2 2e-6 cuda.tif cpu.tif
        done
        for device in cpu cuda; do img-cat --region 0:700,1050:1300 $device.tif -o $device-far.tif; done
        ok img-cmp --max-rel-l2 2e-6 cuda-far.tif cpu-far.tif
    done
    for options in '-k kernels.tif --grid 3x2' '-k kernels.tif --grid 2x3 --edge wrap'; do
        # shellcheck disable=SC2086
        ok img-convolve $options --normalize --device cuda flat.tif -o out.tif
        ok img-cmp --atol 0 flat.tif out.tif
    done
}

@test "img-deconvolve: the CPU's results within 1e-5" {
    needs_gpu
    noise kernel.tif 11x8x1 u8
    noise a.tif 150x70x3 u8
    for device in cpu cuda; do
        img-deconvolve --device $device -k kernel.tif -n 10 a.tif -o $device.tif
    done
    ok img-cmp --max-rel-l2 1e-5 cuda.tif cpu.tif
}

@test "img-math: the CPU's bits, and the same samples counted that do not fit" {
    needs_gpu
    for type in f32 u8 u16 i16; do
        noise a.tif 150x70x20 $type
        img-math 'if(x % 3 == 0, 0, a)' a.tif -o b.tif
        for expression in '(a - b) / (abs(a) + abs(b) + 1)' 'min(a, b, 7) + max(x, y, z)' \
            'a % 7.5 - floor(b / 3)' 'sqrt(abs(a)) * 0.1' \
            'a' 'clip(a * 2, 10, 99)' 'not (a == b) or isnan(a / b)' '17'; do
            same img-math -e "$expression" a.tif b.tif
            same img-math -e "$expression" --type f64 a.tif b.tif
        done
        # the sign of a remainder that is 0 too
        for device in cpu cuda; do
            img-math --device $device -e '(a - b) % (-3) + (b - a) % -7' --raw-out a.tif b.tif -o $device.raw
            img-math --device $device -e '1 / ((a - b) % (-3))' --type f64 --raw-out a.tif b.tif >> $device.raw
        done
        cmp cuda.raw cpu.raw
        alike img-math -e 'exp(-abs(a) / 1000) + log(abs(b) + 1) + abs(a) ^ 0.3' --type f64 a.tif b.tif
        for device in cpu cuda; do
            img-math --device $device -e 'a * 3 - 100' --type u8 a.tif -o $device.tif 2>$device.log
        done
        ok img-cmp cuda.tif cpu.tif
        cmp cuda.log cpu.log
    done
}

@test "img-sat: the CPU's bits, for images, volumes, squares and borders, on one GPU and on all" {
    needs_gpu
    for type in u8 u16 i16 f32; do
        noise a.tif 1013x470x9 $type
        for how in "" --3d "--squares squares.tif" "--exclusive --type $([ $type = f32 ] && echo f32 || echo auto)"; do
            read -ra options <<<"$how"
            same img-sat "${options[@]}" a.tif
            ok img-sat --device cuda:0 "${options[@]}" a.tif -o gpu.tif
            ok img-cmp gpu.tif cpu.tif
        done
    done
}

@test "windows: boxes do not change a bit of the GPU's result" {
    needs_gpu
    noise a.tif 150x70x30 f32
    noise kernel.tif 21x18x1 u8
    for program in 'img-local --stat min --radius 9,4,5' 'img-local --radius 2' 'img-local --radius 1' \
        'img-local --stat std --radius 3' 'img-local --stat entropy --range 0,1 --shape ball --radius 2' \
        'img-morph --op tophat --radius 2,5,3' 'img-wiener --noise 0.1 --radius 2' \
        'img-nlmeans --h 0.3 --search 2 --patch 1' 'img-threshold --otsu' \
        'img-threshold --local niblack --window 7,5,3' 'img-threshold --local mean --window 31,9,1' \
        'img-math a*x+y-z' 'img-convolve -k kernel.tif' 'img-convolve -k kernel.tif --correlate --edge mirror'; do
        read -ra command <<<"$program"
        "${command[@]}" --device cuda a.tif -o want.tif
        for chunk in 150x70x1 150x70x7 37x70x30 61x11x9; do
            ok "${command[@]}" --device cuda --chunk "$chunk" a.tif -o got.tif
            ok img-cmp got.tif want.tif || { echo "with $program --chunk $chunk"; return 1; }
        done
    done
}

@test "missing samples: the CPU's bits, in random commands and chunks" {
    needs_gpu
    missing_images 150x70x20
    missing_agree 80 "$RANDOM"
}

@test "boxes of a map of radii: the CPU's bits" {
    needs_gpu
    missing_images 150x70x20
    radii_agree
}
