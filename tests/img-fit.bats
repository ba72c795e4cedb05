# img-fit: factors by hand, masks, NaN, and what is refused.
load helper

@test "img-fit: exact sums give their factors, and a constant" {
    noise a.tif 20x10x4 f32
    img-math 'a*a + 0.01*x' a.tif -o b.tif
    img-math '2*a - 0.5*b + 3' a.tif b.tif -o t.tif
    ok img-fit --constant t.tif a.tif b.tif
    near "$(sed -n 1p <<<"$output" | cut -d' ' -f1)" 2 1e-5
    near "$(sed -n 2p <<<"$output" | cut -d' ' -f1)" -0.5 1e-5
    near "$(sed -n 3p <<<"$output" | cut -d' ' -f1)" 3 1e-5
    [[ "$output" == *"1 of the target explained, 800 samples"* ]]
    img-math "$(img-fit --constant --expression t.tif a.tif b.tif)" a.tif b.tif -o again.tif
    ok img-cmp --atol 1e-4 t.tif again.tif
}

@test "img-fit: the slope and the error of a line through points, by hand" {
    for f in 'y 1 2.5 3 4.5' 'x 1 2 3 4'; do
        # shellcheck disable=SC2086
        floats ${f%% *}.tif ${f#* }
    done
    # sum xy = 33, sum xx = 30: 1.1; residuals -0.1 0.3 -0.3 0.1: sqrt(0.2 / 3 / 30) = 0.04714
    ok img-fit y.tif x.tif
    near "$(head -n 1 <<<"$output" | cut -d' ' -f1)" 1.1 1e-7
    [[ "$output" == *"+- 0.047: x.tif"* ]]
    [[ "$output" == *"rms of the rest 0.2236,"* ]]
}

@test "img-fit: a mask, also of one page, and NaN; threads and pipes change nothing" {
    noise a.tif 20x10x4 f32
    img-math 'if(x < 5, 7, 3*a)' a.tif -o t.tif
    img-math 'x >= 5' a.tif --type u8 -o mask.tif
    img-cat --pages 0 mask.tif -o one.tif
    for m in mask one; do
        ok img-fit --mask $m.tif t.tif a.tif
        near "$(head -n 1 <<<"$output" | cut -d' ' -f1)" 3 1e-6
        [[ "$output" == *" 600 samples"* ]]
    done
    img-math 'if(x < 5, 0/0, 3*a)' a.tif -o nan.tif
    run --separate-stderr img-fit nan.tif a.tif
    [[ "$stderr" == *"200 samples are NaN or infinite and do not count"* && "$output" == "3 "* ]]
    img-fit -j 1 t.tif a.tif >one
    img-fit -j 3 - a.tif <t.tif | diff - one
    cat a.tif | img-fit t.tif - | head -n 1 | cut -d: -f1 | diff - <(head -n 1 one | cut -d: -f1)
}

@test "img-fit: what is refused" {
    noise a.tif 20x10x4 f32
    img-math '2*a' a.tif -o b.tif
    img-math '0*a' a.tif -o zero.tif
    img-cat --pages 0:2 a.tif -o short.tif
    fails 2 "expected a target and 1 to 16 stacks, got 1 operand" img-fit a.tif
    fails 1 "stack b is a combination of the stacks before it" img-fit a.tif a.tif b.tif
    fails 1 "stack a is 0 at all samples" img-fit a.tif zero.tif
    fails 1 "expected 1 samples or more, got 0" img-fit --mask zero.tif a.tif b.tif
    fails 1 "short.tif: expected 4 pages as of a.tif, got 2" img-fit a.tif short.tif
    fails 1 "expected pages of 20 x 10" img-fit a.tif <(img-cat --region 0:5,0:5 a.tif)
}
