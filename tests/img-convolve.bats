# img-convolve: its options and messages; that the sums are right is in unit/convolve_test.c.
load helper

# kernel FILE WxHxD EXPRESSION: a stack of that size made by img-math
kernel() {
    noise "$1.tif" "$2" u8
    img-math "$3" --type f32 "$1.tif" -o "$1"
    rm "$1.tif"
}

@test "kernels anywhere: near a grid's where they form one, the same bits for any chunk; restored by deconvolution" {
    ct-phantom --volume 200x160x1 -o image.tif
    for i in 1 2 3 4; do
        img-cat --region 0:15,0:15 image.tif | img-math "exp(-((x-7)^2 + (y-7)^2)/(2*$i+4))" -o k$i.tif
    done
    img-cat k1.tif k2.tif k3.tif k4.tif -o four.tif
    printf '49.5 39.5\n149.5 39.5\n49.5 119.5\n149.5 119.5\n' > at.txt
    img-convolve -k four.tif --grid 2x2 --normalize image.tif -o grid.tif
    img-convolve -k four.tif --positions at.txt --normalize image.tif -o same.tif
    ok img-cmp --atol 1e-6 grid.tif same.tif
    ok img-convolve -k four.tif --positions at.txt --between linear --normalize image.tif -o linear.tif
    ok img-cmp --max-rel-l2 0.02 grid.tif linear.tif
    printf '20 30\n180.5 11\n97.25 150\n60 88\n' > at.txt
    for how in "" "--between nearest" "--weights source" "--type same"; do
        read -ra options <<<"$how"
        img-convolve -k four.tif --positions at.txt --normalize "${options[@]}" image.tif --raw-out -o want.raw
        for small in "--chunk 50x40x1 -j 1" "--chunk 7x160x1 -j 3" "--memory 20M -j 2"; do
            read -ra limits <<<"$small"
            ok img-convolve -k four.tif --positions at.txt --normalize "${options[@]}" "${limits[@]}" image.tif --raw-out -o out.raw
            cmp want.raw out.raw
        done
    done
    # a constant stays one, within the hull and beyond
    img-math '0 * a + 7.3' image.tif -o flat.tif
    ok img-convolve -k four.tif --positions at.txt --normalize flat.tif -o out.tif
    ok img-cmp --atol 2e-6 flat.tif out.tif
    img-convolve -k four.tif --positions at.txt --normalize --edge mirror image.tif -o blurred.tif
    ok img-deconvolve -k four.tif --positions at.txt -n 30 blurred.tif -o sharp.tif
    ok img-deconvolve -k four.tif --positions at.txt -n 30 --chunk 64x64x1 blurred.tif -o out.tif
    ok img-cmp sharp.tif out.tif
    rms() { img-cmp "$1" image.tif | awk '/rms error/ { print $3 }'; }
    awk -v a="$(rms sharp.tif)" -v b="$(rms blurred.tif)" 'BEGIN { if (!(a < 0.8 * b)) { print a, b; exit 1 } }'
}

@test "a delta leaves the image as it is; beside the middle it moves it" {
    noise a.tif 60x50x3 u16
    kernel delta.tif 9x7x1 'x == 4 and y == 3'
    img-convert --type f32 a.tif -o want.tif
    ok img-convolve -k delta.tif --edge nearest a.tif -o b.tif
    ok img-cmp --atol 0.02 want.tif b.tif
    ok img-convolve -k delta.tif --type same a.tif -o same.tif
    ok img-cmp a.tif same.tif
    # out(x, y) = in(x - 2, y + 1)
    kernel moved.tif 9x7x1 'x == 6 and y == 2'
    ok img-convolve -k moved.tif --type same --edge zero a.tif -o moved.tif2
    img-cat --region 0:58,1:50 a.tif -o want.tif
    img-cat --region 2:60,0:49 moved.tif2 -o got.tif
    ok img-cmp --atol 0 want.tif got.tif
    # correlation moves it the other way
    ok img-convolve -k moved.tif --type same --edge zero --correlate a.tif -o moved.tif2
    img-cat --region 2:60,0:49 a.tif -o want.tif
    img-cat --region 0:58,1:50 moved.tif2 -o got.tif
    ok img-cmp --atol 0 want.tif got.tif
}

@test "a kernel that is a Gaussian does what img-gauss does, in images and volumes" {
    noise a.tif 70x60x20 f32
    for edge in renormalize nearest mirror zero wrap; do
        kernel g.tif 17x17x1 'exp(-((x - 8)^2 + (y - 8)^2) / 8)'
        ok img-convolve -k g.tif --normalize --edge $edge a.tif -o b.tif
        img-gauss --sigma 2,2,0 --edge $edge a.tif -o want.tif
        ok img-cmp --atol 3e-6 want.tif b.tif
        kernel g3.tif 9x9x9 'exp(-((x - 4)^2 + (y - 4)^2 + (z - 4)^2) / 2) + 0 * (x + y)'
        ok img-convolve -k g3.tif --normalize --edge $edge a.tif -o b.tif
        img-gauss --sigma 1 --edge $edge a.tif -o want.tif
        ok img-cmp --atol 3e-6 want.tif b.tif
    done
}

@test "a constant stays one up to the edges, with every method, to the bit" {
    noise n.tif 50x40x1 f32
    img-math 'a * 0 + 1234.567' n.tif -o c.tif
    kernel small.tif 3x4x1 'x + 1'
    kernel large.tif 31x28x1 'a + x'
    kernel grid.tif 21x18x6 'a + x * z'
    for k in "small.tif" "large.tif" "grid.tif --grid 3x2"; do
        read -ra options <<<"$k"
        for edge in renormalize nearest mirror wrap; do
            ok img-convolve -k "${options[@]}" --normalize --edge $edge c.tif -o b.tif
            ok img-cmp --atol 0 c.tif b.tif
        done
    done
}

@test "an offset does not blur what cancels; a huge sample changes nothing that it does not reach" {
    noise n.tif 300x200x2 u8
    img-math 'a + 0' --type f32 n.tif -o a.tif
    img-math 'a + 65536' --type f32 n.tif -o offset.tif
    img-math 'if(x == 150 and y == 100, 1e30, a)' --type f32 n.tif -o huge.tif
    kernel laplace.tif 3x3x1 '9 * (x == 1 and y == 1) - 1'
    kernel slope.tif 41x31x1 '(x - 20) * exp(-((x - 20)^2 + (y - 15)^2) / 90)'
    kernel deep.tif 9x7x2 '(x - 4) * (2 * z - 1) * exp(-(y - 3)^2)'
    img-cat slope.tif slope.tif -o grid.tif
    for k in laplace.tif slope.tif deep.tif "grid.tif --grid 2x1" "grid.tif --grid 2x1 --weights source"; do
        read -ra options <<<"$k"
        for edge in nearest mirror wrap; do
            ok img-convolve -k "${options[@]}" --edge $edge a.tif -o want.tif
            ok img-convolve -k "${options[@]}" --edge $edge offset.tif -o got.tif
            [[ "$k" == *source ]] || ok img-cmp --max-rel-l2 2e-6 want.tif got.tif
        done
        ok img-convolve -k "${options[@]}" --edge mirror a.tif -o want.tif
        ok img-convolve -k "${options[@]}" --edge mirror huge.tif -o got.tif
        for part in 0:130,0:200 171:300,0:200 0:300,0:85 0:300,116:200; do
            img-cat --region $part want.tif -o want-part.tif
            img-cat --region $part got.tif -o part.tif
            ok img-cmp --max-rel-l2 2e-6 want-part.tif part.tif
        done
    done
}

@test "a grid: where kernels stand, and what is between" {
    noise a.tif 64x32x1 f32
    kernel delta.tif 5x5x1 'x == 2 and y == 2'
    kernel twice.tif 5x5x1 '2 * (x == 2 and y == 2)'
    img-cat delta.tif twice.tif -o grid.tif
    # nodes in the middle of two halves: at 15.5 and 47.5
    ok img-convolve -k grid.tif --grid 2x1 a.tif -o b.tif
    img-math 'a * (1 + clip((x - 15.5) / 32, 0, 1))' a.tif -o want.tif
    ok img-cmp --atol 2e-6 want.tif b.tif
    printf '# where\n1 50 7\n0 10, 7 # first\n' > at.txt
    ok img-convolve -k grid.tif --positions at.txt a.tif -o b.tif
    ok img-convolve -k grid.tif --positions - a.tif -o piped.tif < at.txt
    ok img-cmp b.tif piped.tif
    fails 2 "standard input is the image already" img-convolve -k grid.tif --positions - < a.tif
    fails 2 "only one of --kernel and --positions" img-convolve -k - --positions - a.tif < grid.tif
    img-math 'a * (1 + clip((x - 10) / 40, 0, 1))' a.tif -o want.tif
    ok img-cmp --atol 2e-6 want.tif b.tif
    # down the image, from a pipe
    img-cat delta.tif twice.tif | ok img-convolve -k - --grid 1x2 a.tif -o b.tif
    img-math 'a * (1 + clip((y - 7.5) / 16, 0, 1))' a.tif -o want.tif
    ok img-cmp --atol 2e-6 want.tif b.tif
}

@test "weights of the output and of the source" {
    # all light in one pixel, half way between two nodes: the source spreads it by the mean kernel
    noise n.tif 64x16x1 f32
    img-math 'x == 24 and y == 8' --type f32 n.tif -o point.tif
    kernel narrow.tif 1x1x1 1
    kernel delta.tif 9x1x1 'x == 4'
    kernel wide.tif 9x1x1 '1 / 9 + 0 * x'
    img-cat delta.tif wide.tif -o grid.tif
    printf '20 8\n28 8\n' > at.txt
    ok img-convolve -k grid.tif --positions at.txt --weights source --edge zero point.tif -o b.tif
    img-math '(y == 8) * (0.5 * (x == 24) + 0.5 / 9 * (abs(x - 24) < 4.5))' --type f32 n.tif -o want.tif
    ok img-cmp --atol 3e-7 want.tif b.tif
    ok img-convolve -k grid.tif --positions at.txt --edge zero point.tif -o b.tif
    img-math '(y == 8) * ((1 - clip((x - 20) / 8, 0, 1)) * (x == 24) + clip((x - 20) / 8, 0, 1) / 9 * (abs(x - 24) < 4.5))' \
        --type f32 n.tif -o want.tif
    ok img-cmp --atol 3e-7 want.tif b.tif
}

@test "--crop full and valid: sizes, places, metadata, from a pipe" {
    noise a.tif 40x30x12 f32
    img-convert --set 'voxel=0.5,0.5,2mm' --set 'origin=10,20,30' a.tif -o b.tif
    kernel delta.tif 6x5x3 'x == 3 and y == 2 and z == 1'
    kernel k.tif 6x5x3 'a'
    # around the image a delta makes nothing; sample 3, 2, 1 lies on the voxel
    ok img-convolve -k delta.tif --crop full b.tif -o full.tif
    [ "$(img-info --value nx,ny,pages full.tif | xargs)" = "45 34 14" ]
    [ "$(img-info --value origin full.tif)" = "8.5 19 28" ]
    img-cat --region 3:43,2:32 --pages 1:13 full.tif -o got.tif
    ok img-cmp --atol 1e-4 a.tif got.tif
    img-cat --region 0:3,0:34 --pages 0:1 full.tif | img-math 'abs(a) < 1e-4' -o none.tif
    [ "$(img-info --value min none.tif)" = 1 ]
    ok img-convolve -k k.tif --crop valid b.tif -o valid.tif
    [ "$(img-info --value nx,ny,pages valid.tif | xargs)" = "35 26 10" ]
    [ "$(img-info --value origin valid.tif)" = "11 21 32" ]
    # what is valid is in the middle of full, and of same whatever its edges are
    img-convolve -k k.tif --crop full b.tif -o full.tif
    img-cat --region 5:40,4:30 --pages 2:12 full.tif -o got.tif
    ok img-cmp --atol 1e-4 --rtol 1e-6 valid.tif got.tif
    img-convolve -k k.tif --edge mirror b.tif | img-cat --region 2:37,2:28 --pages 1:11 -o got.tif
    ok img-cmp --atol 1e-4 --rtol 1e-6 valid.tif got.tif
    for crop in full valid; do
        cat b.tif | img-convolve -k k.tif --crop $crop --chunk 7x9x3 > piped.tif
        ok img-cmp $crop.tif piped.tif
    done
    # channels and times keep theirs
    img-cat a.tif | img-convert --set axes='x y channel z time' --set sizes='2 3 2' -o five.tif
    ok img-convolve -k k.tif --crop full five.tif -o full.tif
    [ "$(img-info --value pages full.tif)" = 20 ]
    [ "$(img-info --value sizes full.tif)" = "2 5 2" ]
    ok img-convolve -k k.tif --crop valid five.tif -o valid.tif
    [ "$(img-info --value pages valid.tif)" = 4 ]
    ok img-convolve -k k.tif --crop full five.tif --plan
    [[ "$output" == *"45 x 34 x 5"* ]]
    # a sum of 0 needs no other rule where no edge is
    kernel laplace.tif 3x3x1 '9 * (x == 1 and y == 1) - 1'
    ok img-convolve -k laplace.tif --crop valid a.tif -o out.tif
    ok img-convolve -k laplace.tif --crop full a.tif -o out.tif
    kernel deep.tif 3x3x13 1
    fails 1 "--crop valid: a kernel of 13 samples along z, but the image has 12" \
        img-convolve -k deep.tif --crop valid a.tif
    cat a.tif | img-cat --raw-out - > a.raw
    fails 1 "has 12 pages: expected at least 13" \
        img-convolve -k deep.tif --crop valid --raw-in 40x30:f32le - < <(cat a.raw)
    fails 2 "--crop full --edge renormalize" img-convolve -k k.tif --crop full --edge renormalize a.tif
}

@test "values, not what is stored; channels apart" {
    noise a.tif 30x20x4 u8
    img-convert --scale 0.5,10 a.tif -o scaled.tif
    kernel k.tif 3x3x1 1
    ok img-convolve -k k.tif --edge nearest scaled.tif -o b.tif
    img-math 'a' --type f32 scaled.tif -o values.tif
    ok img-convolve -k k.tif --edge nearest values.tif -o want.tif
    ok img-cmp --atol 1e-3 want.tif b.tif
    ok img-info --value type b.tif
    [ "$output" = f32 ]
}

@test "f64 in f64: digits, types, grids, the same bytes in any way" {
    [[ "$(ldd "$(command -v img-convolve)")" == *libfftw3* ]] || skip "built without FFTW"
    noise n.tif 90x70x3 u16
    img-math 'a / 7 + 1e9' --type f64 n.tif -o a.tif
    kernel k.tif 23x16x1 'a'
    kernel delta.tif 9x7x1 'x == 4 and y == 3'
    ok img-convolve -k delta.tif --edge nearest a.tif -o b.tif
    [ "$(img-info --value type b.tif)" = f64 ]
    ok img-cmp --atol 2e-6 a.tif b.tif
    # a constant stays one, to digits that f32 has not
    img-math '1234567890.125 + 0 * a' --type f64 n.tif -o c.tif
    kernel grid.tif 21x18x6 'a + x * z'
    for how in "k.tif" "grid.tif --grid 3x2" "grid.tif --grid 3x2 --weights source"; do
        read -ra options <<<"$how"
        ok img-convolve -k "${options[@]}" --normalize c.tif -o b.tif
        [[ "$how" == *source ]] || ok img-cmp --atol 1e-5 c.tif b.tif
        img-convolve -k "${options[@]}" --normalize -j 1 a.tif -o one.tif
        cat a.tif | img-convolve -k "${options[@]}" --normalize -j 3 --chunk 50x20x2 > many.tif
        ok img-cmp one.tif many.tif
        # f32 is that, rounded
        img-convolve -k "${options[@]}" --normalize --type f32 a.tif -o f32.tif
        img-convert --type f32 one.tif -o want.tif
        ok img-cmp want.tif f32.tif
    done
    ok img-convolve -k k.tif --plan a.tif
    [[ "$output" == *"f64 to f64"*"in f64"* ]]
}

@test "what is wrong is said in a line, with the way out" {
    noise a.tif 20x20x3 f32
    noise f64.tif 20x20x1 f32
    img-convert --type f64 f64.tif -o d.tif
    kernel k.tif 3x3x1 1
    kernel stack.tif 3x3x6 1
    kernel laplace.tif 3x3x1 '9 * (x == 1 and y == 1) - 1'
    fails 2 "--kernel is missing" img-convolve a.tif
    fails 1 "nothere.tif" img-convolve -k nothere.tif a.tif
    fails 1 "6 pages: --grid 2x2 expects a kernel on each of 4" img-convolve -k stack.tif --grid 2x2 a.tif
    fails 1 "expects a kernel on each of 1.6e+19" img-convolve -k stack.tif --grid 4000000000x4000000000 a.tif
    fails 1 "6 pages are a kernel for volumes" img-convolve --2d -k stack.tif a.tif
    fails 2 "kernel 0 add up to 0" img-convolve -k laplace.tif a.tif
    [[ "$stderr" == *"hint: "*"--edge nearest"* ]]
    ok img-convolve -k laplace.tif --edge nearest a.tif -o out.tif
    fails 1 "kernel 0 cannot be normalized: its samples add up to 0" \
        img-convolve -k laplace.tif --normalize --edge zero a.tif
    kernel large.tif 3x1x1 'if(x == 2, 0.001, 1e38 * (1 - 2 * x))'
    fails 1 "sample 0 is 1e+41 when the kernel is normalized" img-convolve -k large.tif --normalize --edge zero a.tif
    img-convert --type u64 f64.tif -o u64.tif
    fails 1 "expected samples of u8, u16, u32, i8, i16, i32, f32 or f64, got u64" img-convolve -k k.tif u64.tif
    [[ "$(ldd "$(command -v img-convolve)")" == *libfftw3* ]] ||
        fails 1 "but this program was built without FFTW" img-convolve -k k.tif d.tif
    printf '1 1\n2 2\n3 3\n4 4\n5 5\n6 6\n' > at.txt
    fails 2 "form no rectangular grid: expected --crop same" \
        img-convolve -k stack.tif --positions at.txt --crop full a.tif
    fails 2 "form no rectangular grid: expected --edge zero" \
        img-convolve -k stack.tif --positions at.txt --weights source --edge mirror a.tif
    fails 2 "--between needs --positions" img-convolve -k stack.tif --grid 2x3 --between nearest a.tif
    printf '1 1\n2 2\n3 3\n4 4\n5 5\n2 2.0001\n' > at.txt
    fails 1 "kernels 1 and 5 have the same position" img-convolve -k stack.tif --positions at.txt a.tif
    printf '1 1\n2 x\n' > at.txt
    fails 1 "at.txt: line 2: expected x y" img-convolve -k stack.tif --positions at.txt a.tif
    printf '1 1\n2 1\n' > at.txt
    fails 1 "at.txt: 2 positions, but 6 kernels" img-convolve -k stack.tif --positions at.txt a.tif
    printf '0 1 1\n0 2 1\n' > at.txt
    fails 1 "at.txt: line 2: expected a page" img-convolve -k stack.tif --positions at.txt a.tif
    fails 2 "expected one of them" img-convolve -k stack.tif --positions at.txt --grid 2x3 a.tif
    img-math 'if(x == 1, nan, a)' k.tif -o nan.tif
    fails 1 "is not finite" img-convolve -k nan.tif a.tif
}

@test "--plan shows the method; memory is kept, whatever the image" {
    noise a.tif 100x80x1 f32
    kernel k.tif 5x5x1 'a'
    kernel big.tif 60x50x1 'a'
    noise volume.tif 30x20x10 f32
    kernel product.tif 5x4x5 '(1 + x) * (2 + y) * (3 + z)'
    ok img-convolve -k k.tif a.tif --plan
    [[ "$output" == *"5 x 5 x 1, renormalised, direct"* ]]
    ok img-convolve -k product.tif volume.tif --plan
    [[ "$output" == *separable* ]]
    ok img-convolve -k big.tif a.tif --plan
    [[ "$output" == *"of transforms"* ]]
    truncate -s 6400000000 large.raw # that nobody reads
    ok img-convolve -k big.tif --raw-in 40000x40000:f32le --memory 500M large.raw -o out.tif --plan
    [[ "$output" == *"bands: "* ]]
}

@test "--plan models work, borders and threads; --model brings the speed of a machine" {
    noise a.tif 400x300x1 f32
    noise kernels.tif 15x15x4 u8
    ok img-convolve -k kernels.tif --grid 2x2 a.tif --plan -j 3
    [[ "$output" == *"tiles a page, "*" kernels each; "*" operations a kernel and page"* ]]
    [[ "$output" == *"samples a result are loaded again"* ]]
    [[ "$output" == *"1 thread: "*" s, efficiency 100 %, largest share 1.00 of the mean"* ]]
    [[ "$output" == *"2 threads: "* && "$output" == *"3 threads: "* && "$output" != *"4 threads: "* ]]
    printf 'load = 1e9\nconvolve_vector = 30 # slow\nconvolve_scalar = 30\n' > slow.txt
    printf 'convolve_vector = 60\nconvolve_scalar = 60\n' > slower.txt
    seconds() { img-convolve -k kernels.tif --grid 2x2 a.tif --plan -j 1 --model "$1" | sed -n 's/.*1 thread: \([^ ]*\) s.*/\1/p'; }
    awk -v a="$(seconds slow.txt)" -v b="$(seconds slower.txt)" 'BEGIN { exit !(a > 0 && b / a > 1.9 && b / a < 2.1) }'
    printf '10 20\n300 40\n200 250\n50 280\n' > places.txt
    ok img-convolve -k kernels.tif --positions places.txt --between nearest a.tif --plan -j 2
    [[ "$output" == *"2 threads: "* ]]
    ok img-convolve -k kernels.tif --grid 2x2 - --plan -j 1 < a.tif
    [[ "$output" == *"1 thread: "* ]]
    printf 'convolve_vector = 3\n' > half.txt
    fails 2 "half.txt: expected convolve_vector and convolve_scalar above 0" \
        img-convolve -k kernels.tif --grid 2x2 a.tif --plan --model half.txt
    printf 'convolve_vector 3\n' > odd.txt
    fails 2 "odd.txt:1: expected \`key = number\`" img-convolve -k kernels.tif --grid 2x2 a.tif --plan --model odd.txt
    fails 1 "none.txt: No such file" img-convolve -k kernels.tif --grid 2x2 a.tif --plan --model none.txt
    fails 2 "--model needs --plan" img-convolve -k kernels.tif --grid 2x2 a.tif --model half.txt -o b.tif
    noise volume.tif 30x20x10 f32
    noise cube.tif 3x3x3 f32
    ok img-convolve -k cube.tif volume.tif --plan
    [[ "$output" != *"operations a kernel"* ]]
}

@test "a kernel with other voxels than the image's: a warning; units count, rounding does not" {
    local says="expected voxels of 0.1 x 0.1 mm, as in a.tif, got"
    ct-phantom --volume 12x10x5 --voxel 0.1,0.1,0.3 -o a.tif
    img-psf --gaussian 1 -o k.tif
    with() { img-convert --set "voxel=$2" "$1" -o "$3"; }
    warns() {
        run --separate-stderr "${@:2}" -o out.tif
        [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
        [ "$stderr" = "$2: warning: $1" ] || { echo "$stderr"; return 1; }
    }
    with k.tif 0.2,0.1mm wide.tif
    warns "wide.tif: $says 0.2 x 0.1 mm" img-convolve -k wide.tif a.tif
    warns "wide.tif: $says 0.2 x 0.1 mm" img-deconvolve -n 2 -k wide.tif a.tif
    warns "wide.tif: $says 0.2 x 0.1 mm" img-convolve --2d --grid 1 -k wide.tif a.tif
    ok img-convolve -q -k wide.tif a.tif -o out.tif
    for same in 0.1,0.1mm 100,100um 100.02,99.98um 0.1,0.1,7mm; do
        with k.tif $same same.tif
        ok img-convolve -k same.tif a.tif -o out.tif
    done
    # not known: of the kernel, or of the image
    ok img-convolve -k k.tif a.tif -o out.tif
    img-convert --set voxel=1,1,1 --set unit=pixel a.tif -o pixels.tif
    ok img-convolve -k wide.tif pixels.tif -o out.tif
    # of a kernel of volumes z counts, too
    img-psf --gaussian 1,1,1 --size 3x3x3 -o v.tif
    with v.tif 0.1,0.1,0.3mm same.tif
    ok img-convolve -k same.tif a.tif -o out.tif
    with v.tif 0.1,0.1,0.1mm cubes.tif
    warns "cubes.tif: expected voxels of 0.1 x 0.1 x 0.3 mm, as in a.tif, got 0.1 x 0.1 x 0.1 mm" \
        img-convolve -k cubes.tif a.tif
    # in a unit that only other programs write
    perl -pe 's/# unit = mm/# unit = um/' wide.tif > um.tif
    warns "um.tif: $says 0.0002 x 0.0001 mm" img-convolve -k um.tif a.tif
}
