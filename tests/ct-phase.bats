# ct-phase: constants, waves of known transmission, parallel and cone beams, and the command line.
load helper

@test "ct-phase: a constant stays that constant, up to the edges" {
    ct-geom --beam parallel --detector 40x30 --pitch 1 --views 3 --arc 180 | ct-phantom -g - --density 0 |
        img-math 'a + 1.25' | img-convert --set "quantity=line integral" -o flat.tif
    ok ct-phase --length 5 flat.tif -o out.tif
    near "$(img-info --value min out.tif)" 1.25 3e-7
    near "$(img-info --value max out.tif)" 1.25 3e-7
    img-info out.tif | grep -q '^quantity.*line integral'
}

@test "ct-phase: a wave of the transmission is divided by 1 + l^2 k^2" {
    # 12 waves on 120 columns: k = 2 pi / 10, length 3
    perl -e 'for (1 .. 2 * 90) { print pack("f<*", map { 1 + 0.5 * cos($_ * 0.62831853071795865) } 0 .. 119) }' |
        img-convert --raw-in 120x90:f32 --set axes=u,v,view -o wave.tif
    ct-phase --transmission --length 3 wave.tif | img-math 'exp(-a)' | img-cat --region 36:84,30:60 --pages 0 -o out.tif
    # 0.5 / (1 + 9 k^2) = 0.109828
    near "$(img-info --value max out.tif)" 1.109828 2e-4
    near "$(img-info --value min out.tif)" 0.890172 2e-4
}

@test "ct-phase: line integrals and a transmission give the same; noise falls; thickness" {
    ct-geom --beam parallel --detector 120x90 --pitch 0.001 --views 2 --arc 180 -o p.geom
    ct-phantom -g p.geom --phantom ball --radius 0.03 --density 10 --noise 1000 -o lines.tif
    img-math 'exp(-a)' lines.tif | img-convert --set quantity=transmission -o transmission.tif
    opts=(--distance 50 --energy 20 --delta 5e-7 --beta 2e-9)
    ct-phase "${opts[@]}" lines.tif -o a.tif
    ct-phase "${opts[@]}" -g p.geom transmission.tif -o b.tif
    ok img-cmp --atol 1e-6 a.tif b.tif
    sd() { img-cat --region 0:24,0:14 --pages 0 "$1" | img-info --value std; }
    awk -v a="$(sd a.tif)" -v l="$(sd lines.tif)" 'BEGIN { exit !(a < l / 8) }'
    # divided by mu = 4 pi beta / wavelength = 0.40542 / mm
    ct-phase "${opts[@]}" --thickness lines.tif | img-math 'a * 0.4054162' -o c.tif
    ok img-cmp --atol 1e-5 a.tif c.tif
}

@test "ct-phase: a cone beam is a parallel beam of smaller pixels and distance" {
    ct-geom --sod 20 --sdd 100 --detector 64x48 --pitch 0.005 --views 4 -o c.geom
    ct-geom --beam parallel --detector 64x48 --pitch 0.001 --views 4 --arc 180 -o p.geom
    ct-phantom -g c.geom --radius 0.02 --density 5 --noise 1e3 -o c.tif
    ct-phase --energy 20 --delta-beta 100 c.tif -o a.tif
    ct-phase --energy 20 --delta-beta 100 --distance 16 -g p.geom c.tif -o b.tif
    ok img-cmp --atol 1e-6 a.tif b.tif
    ct-fdk a.tif -q -o vol.tif
}

@test "ct-phase: files, pipes and threads give the same bytes" {
    ct-geom --beam parallel --detector 60x50 --pitch 1 --views 12 --arc 180 | ct-phantom -g - --noise 1e4 -o s.tif
    ct-phase --length 4 s.tif -o want.tif
    ct-phase -j 1 -m 8MB --length 4 s.tif -o a.tif
    cmp want.tif a.tif
    cat s.tif | ct-phase --length 4 | cat >b.tif
    ok img-cmp want.tif b.tif
    ct-fdk b.tif -q -o vol.tif
}

@test "ct-phase: what is refused" {
    ct-geom --beam parallel --detector 20x10 --pitch 1 --views 4 --arc 180 -o p.geom
    ct-phantom -g p.geom -o s.tif
    fails 2 "is it in eV?" ct-phase --distance 50 --energy 20000 --delta-beta 100 s.tif
    [[ "$stderr" == *"hint: 20000 eV are 20 keV"* ]]
    fails 2 "expected --energy KEV, or --length PIXELS" ct-phase s.tif
    fails 2 "expected --distance MM" ct-phase --energy 20 --delta-beta 100 s.tif
    fails 2 "--beta needs --delta" ct-phase --distance 50 --energy 20 --beta 1e-9 s.tif
    fails 2 "--length and --energy cannot be combined" ct-phase --length 3 --energy 20 s.tif
    fails 2 "expected at most 120" ct-phase --length 300 s.tif
    ct-phantom -g p.geom --counts --noise 100 -o counts.tif
    fails 2 "holds counts" ct-phase --length 3 counts.tif
    ct-phantom -g p.geom --layout sinograms -o sino.tif
    fails 2 "pages are sinograms" ct-phase --length 3 sino.tif
    fails 2 "no scan geometry" ct-phase --distance 50 --energy 20 --delta-beta 9 --raw-in 20x10:f32 <(img-cat --raw-out s.tif)
    run --separate-stderr ct-phase --distance 1e7 --energy 0.1 --delta-beta 1e-3 s.tif -o out.tif
    [[ "$stderr" == *"the Fresnel number of a pixel is"* ]]
}

@test "ct-phase: a NaN spreads as far as the kernel, with a warning" {
    ct-geom --beam parallel --detector 240x200 --pitch 0.001 --views 3 --arc 180 -o scan.geom
    ct-phantom -g scan.geom --radius 0.04 --density 5 -o clean.tif
    img-math 'if(x == 30 and y == 20 and page == 1, 0 / 0, a)' clean.tif -o scan.tif
    ok ct-phase --length 0.3 clean.tif -o clean_out.tif
    for how in "" "-j 1"; do
        # shellcheck disable=SC2086
        run --separate-stderr ct-phase $how --length 0.3 scan.tif -o out.tif
        [ "$status" = 0 ]
        n=$(((30 + 72 + 1) * (20 + 72 + 1))) # the kernel has 145 x 145 samples
        [ "$(img-math --type u32 'isnan(a)' out.tif | img-info --value sum - | cut -d. -f1)" = $n ]
        [[ "$stderr" = "ct-phase: warning: scan.tif: $n samples of the result are NaN or infinite: one spreads over the kernel, 145 x 145 pixels" ]]
    done
    ok ct-phase -q --length 0.3 scan.tif -o out.tif
}
