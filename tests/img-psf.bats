# Kernels: by formula, from stars and beads; sizes, metadata, what does not go together.
load helper

samples() { numbers "$1" 'f<'; }

# stars FILE: 120 x 90 pixels, three spots of sigma 2 and 1.5 on a ground of 50; where they are in stars.txt
stars() {
    perl -e '@s = ([30.25, 30.5, 900], [80.6, 35.1, 500], [55, 62.75, 700]);
        for $y (0 .. 89) { for $x (0 .. 119) { $v = 50;
            $v += $_->[2] * exp(-(($x - $_->[0]) ** 2 / 4 + ($y - $_->[1]) ** 2 / 2.25) / 2) for @s;
            push @v, $v } } print pack("f<*", @v)' > stars.raw
    img-cat --raw-in 120x90:f32le stars.raw -o "$1"
    printf 'x y\n30 31 # the bright one\n81,35\n55\t63\n' > stars.txt
}

@test "a Gaussian sums to one, is odd, and says what it is" {
    ok img-psf --gaussian 1.5 -o g.tif
    [ "$(img-info --value nx g.tif) $(img-info --value ny g.tif) $(img-info --value pages g.tif)" = "13 13 1" ]
    [ "$(img-info --value quantity g.tif)" = "point spread function" ]
    [ "$(img-info --value axes g.tif)" = "x y" ]
    samples g.tif | perl -ane '$s += $_ for @F; exit !(abs($s - 1) < 1e-6 && $F[84] > $F[83] && $F[83] == $F[85])'
    ok img-psf --gaussian 1,1,2 -o g.tif
    [ "$(img-info --value nx g.tif) $(img-info --value pages g.tif)" = "9 17" ]
    [ "$(img-info --value axes g.tif)" = "x y z" ]
    ok img-psf --gaussian 1,1,2 --size 5x7x3 -o g.tif
    [ "$(img-info --value nx g.tif) $(img-info --value ny g.tif) $(img-info --value pages g.tif)" = "5 7 3" ]
    # as img-gauss sees a point
    img-math 'if(x == 20 and y == 20, 1, 0)' --type f32 --raw-in 41x41:u8 <(head -c 1681 /dev/zero) -o point.tif
    img-gauss --2d --sigma 2 point.tif -o blurred.tif
    ok img-psf --gaussian 2 --size 41 -o g.tif
    ok img-cmp --atol 2e-5 g.tif blurred.tif
}

@test "Moffat, Airy, motion: half widths, dark rings, lengths" {
    ok img-psf --moffat 4 --beta 2.5 --size 9 -o m.tif
    samples m.tif | perl -ane 'exit !(abs($F[42] / $F[40] - 0.5) < 1e-6 && abs($F[22] / $F[40] - 0.5) < 1e-6)'
    ok img-psf --airy 3 --size 7 -o a.tif
    samples a.tif | perl -ane 'exit !($F[27] / $F[24] < 1e-9 && $F[26] / $F[24] > 1e-3)'
    ok img-psf --motion 4 -o n.tif
    [ "$(samples n.tif)" = "0.125 0.25 0.25 0.25 0.125" ]
    ok img-psf --motion 4 --angle 90 --raw-out -o n.raw
    cmp n.raw <(img-cat --raw-out n.tif)
    ok img-psf --gaussian 3 --shift 1,0 --size 3 -o s.tif
    samples s.tif | perl -ane 'exit !($F[5] > $F[4] && $F[4] > $F[3] && $F[1] == $F[7])'
}

@test "stars between the pixels give the kernel again" {
    stars sky.tif
    ok img-psf --from sky.tif --positions stars.txt --size 15 -o got.tif
    ok img-psf --gaussian 2,1.5 --size 15 -o want.tif
    ok img-cmp --atol 5e-4 got.tif want.tif
    run --separate-stderr img-psf --from sky.tif --positions stars.txt --size 15 -v -o got.tif
    [[ "$stderr" == *"star 0: centre 30.250 30.500 0.000"*"star 2: centre 55.000 62.750"* ]]
    # a scale is undone, the size of a pixel goes along
    img-convert --set voxel=0.2,0.2um sky.tif | img-convert --type u16 --scale 30,100 -o sky16.tif
    ok img-psf --from sky16.tif --positions stars.txt --size 15 -o got.tif
    ok img-cmp --atol 5e-4 got.tif want.tif
    [ "$(img-info --value voxel got.tif)" = "$(img-info --value voxel sky16.tif)" ]
    # one at the edge is left out, and that is said
    echo 2 40 >> stars.txt
    run --separate-stderr img-psf --from sky.tif --positions stars.txt --size 15 -o got.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"1 of 4 stars left out"* ]]
    ok img-cmp --atol 5e-4 got.tif want.tif
    echo 2 40 > stars.txt
    seq 200 | sed 's/.*/30 31/' > many.txt
    fails 3 "200 stars of 53 x 53 x 1 voxels exceed the available memory" \
        img-psf --from sky.tif --positions many.txt --size 41 -m 4500K
    fails 3 "expected at most" img-psf --from sky.tif --positions many.txt --size 41 -m 4945K
    ok img-psf --from sky.tif --positions many.txt --size 41 -m 6M -o got.tif
    fails 1 "none of the 1 stars can be used; the first one: too near to the edge" \
        img-psf --from sky.tif --positions stars.txt --size 15
}

@test "beads in a volume, from a folder of slices too" {
    perl -e 'for $z (0 .. 30) { for $y (0 .. 29) { for $x (0 .. 31) {
        push @v, 7 + 100 * exp(-(($x - 15.3) ** 2 / 1.69 + ($y - 14.8) ** 2 / 1.69 + ($z - 15.5) ** 2 / 4) / 2) } } }
        print pack("f<*", @v)' > beads.raw
    img-cat --raw-in 32x30:f32le beads.raw -o beads.tif
    echo 15 15 15 > beads.txt
    ok img-psf --from beads.tif --positions beads.txt --size 11x11x15 -o got.tif
    ok img-psf --gaussian 1.3,1.3,2 --size 11x11x15 -o want.tif
    ok img-cmp --atol 5e-4 got.tif want.tif
    mkdir slices
    for z in $(seq 10 39); do img-cat --pages $((z - 10)) beads.tif -o slices/$z.tif; done
    ok img-psf --from slices --positions beads.txt --size 11x11x15 -o again.tif
    ok img-cmp again.tif got.tif
    # beads near the last plane are left out, also where a pipe does not say which one that is
    printf '15 15 15\n15 15 22\n' > two.txt
    local warning="img-psf: warning: 1 of 2 stars left out (-v shows why)" from
    for from in beads.tif <(uncounted beads.tif); do
        run --separate-stderr img-psf --from "$from" --positions two.txt --size 11x11x15 -o again.tif
        [ "$status" -eq 0 ]
        [ "$stderr" = "$warning" ]
        ok img-cmp again.tif got.tif
    done
    echo 15 15 22 > two.txt
    fails 1 "none of the 1 stars can be used; the first one: too near to the edge" \
        img-psf --from <(uncounted beads.tif) --positions two.txt --size 11x11x15
}

@test "what is missing or does not go together" {
    fails 2 "expected a kernel, got none" img-psf
    fails 2 "--gaussian and --airy cannot be combined" img-psf --airy 3 --gaussian 2
    fails 2 "--beta needs --moffat, got --gaussian" img-psf --gaussian 2 --beta 3
    fails 2 "--size: expected odd numbers, got 8" img-psf --gaussian 2 --size 8
    [[ "$stderr" == *"hint: as 9"* ]]
    fails 2 "it is 0 at the centres of all pixels" img-psf --gaussian 0.01 --shift 0.5,0.5
    [[ "$stderr" == *"hint: --samples N"* ]]
    fails 2 "the kernel is one of images" img-psf --moffat 2 --size 9x9x3
    fails 2 "expected one to 2 numbers, got 3" img-psf --moffat 2,2,2
    fails 2 "--from: --positions is missing" img-psf --from x.tif
    fails 2 "--positions needs --from" img-psf --gaussian 1 --positions x
    fails 2 "--angle needs a formula" img-psf --from x.tif --angle 3
    stars sky.tif
    echo 1 > bad.txt
    fails 1 "bad.txt: line 1: expected x y, or x y z" img-psf --from sky.tif --positions bad.txt
    fails 1 "none.txt" img-psf --from sky.tif --positions none.txt
    fails 1 "standard input: line 1: expected x y, or x y z" sh -c 'img-psf --from sky.tif --positions - < bad.txt'
    cp sky.tif long.tif
    echo more >>long.tif
    fails 1 "trailing data" sh -c 'cat long.tif | img-psf --from - --positions stars.txt -o out.tif'
    [ ! -e out.tif ]
    fails 2 "only one of" sh -c 'img-psf --from - --positions - < bad.txt'
    fails 2 "--size: expected at most 1000001 voxels" img-psf --gaussian 2 --size 9223372036854775807
    for zero in "--gaussian 0 --shift 0.5,0" "--gaussian 0 --samples 2" "--motion 5 --shift 100,0 --size 3"; do
        # shellcheck disable=SC2086
        fails 2 "it is 0 at the centres of all pixels" img-psf $zero -o zero.tif
        [ ! -e zero.tif ]
    done
    fails 3 "exceeds the available memory" img-psf --gaussian 900 -m 20M
    fails 3 "exceeds the available memory" img-psf --gaussian 900 -m 20M --plan
    ok img-psf --gaussian 2 --plan
    [[ "$output" == *"17 x 17 x 1"* ]]
}
