# Wiener's filter: the formula, the estimate of the noise, and chunks that do not show.
load helper

# a step with noise, 29 x 21 x 17 f32
step() {
    perl -e 'srand 9; for $z (0 .. 16) { for $y (0 .. 20) { for $x (0 .. 28) {
        print pack("f<", ($x > 14 ? 100 : 20) + rand) } } }' > step.raw
    img-cat --raw-in 29x21x17:f32le step.raw -o step.tif
}

numbers() {
    img-cat --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("f<*", <STDIN>)), "\n"'
}

# reference RX,RY,RZ NOISE FILE: the formula over step.raw; with NOISE = mean, the mean of the local variances
reference() {
    perl -e '($r, $noise) = @ARGV; @r = split /,/, $r; undef $/; open F, "<:raw", "step.raw"; @a = unpack("f<*", <F>);
        @n = (29, 21, 17); sub lo { $_[0] < 0 ? 0 : $_[0] } sub hi { $_[0] > $_[1] - 1 ? $_[1] - 1 : $_[0] }
        for $z (0 .. 16) { for $y (0 .. 20) { for $x (0 .. 28) { @w = ();
            for $k (lo($z - $r[2]) .. hi($z + $r[2], 17)) { for $j (lo($y - $r[1]) .. hi($y + $r[1], 21)) {
                $o = ($k * 21 + $j) * 29; push @w, @a[$o + lo($x - $r[0]) .. $o + hi($x + $r[0], 29)] } }
            $m = 0; $m += $_ for @w; $m /= @w; $v = 0; $v += ($_ - $m) ** 2 for @w; $v /= @w;
            push @m, $m; push @v, $v; $sum += $v } } }
        $noise = $sum / @v if $noise eq "mean"; print STDERR "$noise\n";
        for $i (0 .. $#a) { $o = $v[$i] <= $noise ? $m[$i] : $m[$i] + ($v[$i] - $noise) / $v[$i] * ($a[$i] - $m[$i]);
            print pack("f<", $o) }' "$1" "$2" > reference.raw
    img-cat --raw-in 29x21x17:f32le reference.raw -o "$3"
}

@test "the formula, with the noise given" {
    step
    reference 1,1,1 0.08 want.tif
    ok img-wiener --noise 0.08 step.tif -o got.tif
    img-cmp --atol 2e-5 got.tif want.tif
    reference 3,0,2 0.1 want.tif
    ok img-wiener --noise 0.1 --radius 3,0,2 step.tif -o got.tif
    img-cmp --atol 2e-5 got.tif want.tif
}

@test "any footprint: that of a box is a box, and a cross follows the formula" {
    step
    perl -e 'print pack("C*", (1) x 21)' > box.raw
    img-cat --raw-in 7x3x1:u8 box.raw -o box.tif
    ok img-wiener --noise 0.1 --footprint box.tif step.tif -o got.tif
    ok img-wiener --noise 0.1 --radius 3,1,0 step.tif -o want.tif
    img-cmp got.tif want.tif
    # 0 1 / 1 1 of a row of 1 2 4 8: the left neighbour, itself; v = 1/4, 1, 4
    perl -e 'print pack("f<*", 1, 2, 4, 8)' > row.raw
    img-cat --raw-in 4x1x1:f32le row.raw -o row.tif
    perl -e 'print pack("C*", 1, 1)' > pair.raw
    img-cat --raw-in 2x1x1:u8 pair.raw -o pair.tif
    ok img-wiener --noise 0.5 --footprint pair.tif row.tif -o out.tif
    [ "$(numbers out.tif)" = "1 1.5 3.5 7.75" ] || { numbers out.tif; return 1; }
    # the noise is estimated over the same neighbourhood: (0 + 1/4 + 1 + 4) / 4
    run --separate-stderr img-wiener -v --footprint pair.tif row.tif -o out.tif
    [[ "$stderr" == *"noise variance 1.3125"* ]]
}

@test "noise that is not given is the mean of the local variances of the whole stack" {
    step
    noise=$(reference 2,2,2 mean want.tif 2>&1)
    run --separate-stderr img-wiener -v --radius 2 step.tif -o got.tif
    [ "$status" -eq 0 ]
    said=$(sed -n 's/^img-wiener: noise variance //p' <<<"$stderr")
    near "$said" "$noise" "$(awk -v n="$noise" 'BEGIN { print n * 1e-6 }')"
    img-cmp --atol 1e-4 got.tif want.tif
    # never of a chunk
    for cut in 29x21x17 10x21x17 5x4x3 29x21x1; do
        ok img-wiener --radius 2 --chunk $cut -j 3 step.tif -o cut.tif
        img-cmp cut.tif got.tif
    done
}

@test "noise of any size is found: variances may be too small or too large for f32" {
    for scale in 1e-30 1e25; do
        perl -e 'srand 4; print pack("f<*", map { $ARGV[0] * rand } 1 .. 400)' $scale > tiny.raw
        run --separate-stderr img-wiener -v --radius 1 --raw-in 20x20:f32le tiny.raw --raw-out
        said=$(sed -n 's/^img-wiener: noise variance //p' <<<"$stderr")
        awk -v v="$said" -v s=$scale 'BEGIN { v /= s; v /= s; exit !(v > 0.06 && v < 0.09) }' # 1/12 and less: the mean moves along
    done
}

@test "noise is twice the pass: a pipe is refused with the way out" {
    step
    run --separate-stderr bash -c 'cat step.tif | img-wiener'
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"got a pipe"*"--spool"* ]]
    ok img-wiener step.tif -o want.tif
    cat step.tif | img-wiener --spool -o got.tif
    img-cmp got.tif want.tif
    img-wiener --plan step.tif | grep "^passes: *2"
    img-wiener --plan --noise 1 step.tif > plan
    run ! grep -q passes plan
}

@test "chunks, threads, memory and pipes do not show" {
    step
    for how in "" "--radius 4,1,2" "--shape ball --radius 2.5" "--2d --radius 3"; do
        # shellcheck disable=SC2086
        set -- --noise 0.09 $how step.tif
        img-wiener "$@" -j 1 -o want.tif
        for cut in 29x21x17 16x21x17 7x5x4 29x1x1 1x9x17; do
            ok img-wiener "$@" --chunk $cut -o got.tif -j $((RANDOM % 4 + 1))
            cmp got.tif want.tif || { echo "$how in $cut"; return 1; }
        done
        img-cat step.tif | img-wiener "${@:1:$#-1}" > got.tif
        img-cmp got.tif want.tif
    done
}

@test "constants stay, no noise changes nothing, all noise is the mean" {
    perl -e 'print pack("f<*", (1e6 + 0.25) x 600)' > c.raw
    ok img-wiener --raw-in 10x12x5:f32le --noise 0.1 c.raw --raw-out -o d.raw
    cmp c.raw d.raw
    ok img-wiener --raw-in 10x12x5:f32le c.raw --raw-out -o d.raw
    cmp c.raw d.raw
    step
    ok img-wiener --noise 0 step.tif -o got.tif
    img-cmp --atol 1e-5 got.tif step.tif
}

@test "integers are rounded; --type f32 keeps fractions" {
    perl -e 'print pack("S<*", 10, 20, 31)' > a.raw
    ok img-wiener --raw-in 3x1x1:u16le --noise 1e9 --raw-out a.raw -o b.raw
    [ "$(od -An -tu2 b.raw | xargs)" = "15 20 26" ]   # halves to even: 25.5
    ok img-wiener --raw-in 3x1x1:u16le --noise 1e9 --type f32 a.raw -o b.tif
    [ "$(img-info --value type b.tif)" = f32 ]
    read -r a b c <<<"$(numbers b.tif)"
    near "$a" 15 0 && near "$b" 20.3333333 1e-6 && near "$c" 25.5 0
}

@test "wrong commands say what is wrong" {
    step
    fails 2 "--noise" img-wiener --noise -1 step.tif
    fails 2 "--noise" img-wiener --noise nan step.tif
    fails 2 "--radius" img-wiener --radius a step.tif
}

@test "--sigma is the square root of --noise" {
    noise a.tif 20x16x5 f32
    img-wiener --noise 0.0625 a.tif -o variance.tif
    img-wiener --sigma 0.25 a.tif | img-cmp -q - variance.tif
    run -1 img-cmp -q a.tif variance.tif
    fails 2 "--noise and --sigma cannot be combined" img-wiener --sigma 0.25 --noise 0.0625 a.tif
}
