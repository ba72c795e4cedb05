# ct-rings: rings go, a clean scan stays; maps in files; bits; the command line.
load helper

# scans of views: clean.tif, and scan.tif with pixels that are off by 2 %
make() {
    ct-geom --sod 500 --sdd 1000 --detector 48x40 --pitch 2 --views 96 "$@" -o scan.geom
    ct-phantom -g scan.geom --radius 150 --density 0.005 --noise 1e5 -o clean.tif
    ct-phantom -g scan.geom --noise 2500 --density 0 --seed 3 | img-cat --pages 0 -o off.tif
    img-math 'a * (abs(a) > 0.026)' off.tif -o few.tif
    mv few.tif off.tif
    img-math 'a + b' clean.tif off.tif -o scan.tif
}

# rms A [B]: of the samples, or of a difference
rms() { img-math 'a*a' "$@" | img-info --value mean | awk '{ print sqrt($1) }'; }
rms2() { img-math '(a - b) * (a - b)' "$1" "$2" | img-info --value mean | awk '{ print sqrt($1) }'; }

@test "ct-rings: the error of pixels goes, a clean scan stays, and the report says so" {
    make
    img-convert --set "quantity=line integral" scan.tif -o scan2.tif
    ct-rings -v scan2.tif -o out.tif 2>log
    grep -q "taken away: 0.0" log
    grep -q "odd and even blocks agree to \(0.9\|1.00\)" log
    awk -v left="$(rms2 out.tif clean.tif)" -v was="$(rms off.tif)" 'BEGIN { exit !(left < 0.35 * was) }'
    ct-rings -v clean.tif -o same.tif 2>log
    awk -v harm="$(rms2 same.tif clean.tif)" -v was="$(rms off.tif)" 'BEGIN { exit !(harm < 0.05 * was) }'
    img-info out.tif | grep -q '^quantity.*line integral'
    ct-fdk out.tif -o vol.tif
}

@test "ct-rings: --map and --apply give what one run gives, also through pipes and from sinograms" {
    make
    ct-rings --map map.tif scan.tif -o want.tif
    [ "$(img-info --value pages map.tif)" = 1 ]
    ok ct-rings --apply map.tif scan.tif -o got.tif
    ok img-cmp want.tif got.tif
    cat scan.tif | ct-rings --apply map.tif | cat >piped.tif
    ok img-cmp want.tif piped.tif
    cat scan.tif | ct-rings | cat >piped.tif
    ok img-cmp want.tif piped.tif
    ct-rings -j 1 -m 20MB scan.tif -o one.tif
    cmp want.tif one.tif
    # another layout
    for f in scan want; do
        img-cat --raw-out $f.tif | perl -e 'local $/; my $x = <>; for my $v (0 .. 39) { for my $k (0 .. 95) { print substr($x, ($k * 40 + $v) * 192, 192) } }' >$f.raw
    done
    ct-rings --layout sinograms --raw-in 48x96:f32 --raw-out scan.raw -o got.raw
    cmp want.raw got.raw
    ct-rings --layout sinograms --apply map.tif --raw-in 48x96:f32 --raw-out scan.raw | cmp - want.raw
}

@test "ct-rings: --drift follows pixels that change" {
    make
    img-math 'a + (2 * z - 1) * (x == 20 && y == 20)' scan.tif -o changes.tif
    ct-rings --drift --map maps.tif changes.tif -o out.tif
    [ "$(img-info --value pages maps.tif)" = 12 ]
    ok ct-rings --apply maps.tif changes.tif -o got.tif
    ok img-cmp out.tif got.tif
}

@test "ct-rings: --sort takes stripes of a part of the views" {
    make
    ct-phantom -g scan.geom --layout sinograms -o s.tif
    img-math 'a + 0.3 * (x == 20 && y < 60)' s.tif -o bad.tif
    ok ct-rings --sort 5 --layout sinograms bad.tif -o out.tif
    awk -v left="$(rms2 out.tif s.tif)" -v was="$(rms2 bad.tif s.tif)" 'BEGIN { exit !(left < 0.7 * was) }'
    ct-rings -j 1 --sort 5 --layout sinograms - <bad.tif | cmp - <(ct-rings -j 3 --sort 5 --layout sinograms bad.tif)
}

@test "ct-rings: few rows, NaN, and what is refused" {
    ct-geom --beam parallel --detector 40x20 --pitch 1 --views 2 | ct-phantom -g - -o two.tif
    fails 1 "two.tif: expected 3 views or more, got 2" ct-rings two.tif
    fails 1 "expected 3 views or more, got 2" ct-rings --layout sinograms <(img-reslice --sinograms two.tif)
    make
    img-cat --region :,0:2 scan.tif -o thin.tif
    run --separate-stderr ct-rings thin.tif -o thin2.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"2 detector rows: walls about the axis cannot be distinguished from rings"* ]]
    img-math 'if(x == 3 && y == 3, 0/0, a)' scan.tif -o nan.tif
    run --separate-stderr ct-rings nan.tif -o out.tif
    [[ "$stderr" == *"96 samples are NaN or infinite"* ]]
    ct-rings --map map.tif scan.tif -o /dev/null
    fails 2 "--apply and --blocks cannot be combined" ct-rings --apply map.tif --blocks 3 scan.tif
    fails 2 "--apply and --map cannot be combined" ct-rings --apply map.tif --map m.tif scan.tif
    fails 2 "--sort and --drift cannot be combined" ct-rings --sort 7 --drift scan.tif
    fails 2 "--sort needs --layout sinograms" ct-rings --sort 7 scan.tif
    fails 2 "--sort: expected an odd number, got 8" ct-rings --sort 8 --layout sinograms scan.tif
    fails 2 "--size: expected COLUMNSxROWS, odd" ct-rings --size 8x9 scan.tif
    fails 2 "holds line integral, not a map of rings" ct-rings --apply clean.tif scan.tif
    fails 1 "expected a map of 48 x 40 pixels, got 47 x 40" ct-rings --apply <(img-cat --region 0:47,: map.tif) scan.tif
    img-math '60000 * exp(-a)' --type u16 scan.tif | img-convert --set quantity=counts -o counts.tif
    fails 2 "holds counts, not line integrals" ct-rings counts.tif -o x.tif
    fails 3 "the map needs" ct-rings -m 60KB scan.tif -o x.tif
    [ ! -e x.tif ]
}
