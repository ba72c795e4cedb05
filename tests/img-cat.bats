load helper

@test "a folder that holds the output is not read: a second run would take in the result of the first" {
    mkdir scan
    for i in 1 2 3; do ct-phantom --volume 8x8x1 --phantom ball --density 0.0$i -o scan/$i.tif; done
    img-cat scan/ -o scan/all.tif
    [ "$(img-info --value pages scan/all.tif)" = 3 ]
    cp scan/all.tif before.tif
    fails 2 "scan/: the input folder contains the output, scan/all.tif" img-cat scan/ -o scan/all.tif
    [[ "$stderr" == *"hint: write it elsewhere"* ]]
    ln -s scan/all.tif link.tif
    fails 2 "contains the output" img-cat scan -o link.tif
    echo "$PWD/scan" >list
    fails 2 "contains the output" img-cat @list -o scan/all.tif
    cmp before.tif scan/all.tif
    # named inputs are those that are meant
    img-cat scan/[123].tif -o scan/all.tif
    # and where nothing is written, all of it is read
    [ "$(img-info --join --value pages scan)" = 6 ]
}

# stack FILE: 6x4, 7 pages of u16; the sample at x, y of page p is 100 p + 10 y + x
stack() {
    perl -e 'for $p (0..6) { for $y (0..3) { print pack("S<*", map { 100 * $p + 10 * $y + $_ } 0..5) } }' > stack.raw
    img-convert --raw-in 6x4:u16le stack.raw -o "$1"
}

# samples FILE: all of them, in words
samples() {
    img-convert --raw-out "$1" | perl -e 'undef $/; print join(" ", unpack("S<*", <STDIN>)), "\n"'
}

@test "pages: lists, ranges, steps, from the end, backwards, repeated" {
    stack a.tif
    img-cat --region 0:1,0:1 a.tif -o dots.tif
    [ "$(samples dots.tif)" = "0 100 200 300 400 500 600" ]
    img-cat --pages 5,0:2,-1,::-3,5 dots.tif -o b.tif
    [ "$(samples b.tif)" = "500 0 100 600 600 300 0 500" ]
    # as in Python, a range is cut to what there is
    img-cat --pages 0:100 dots.tif | cmp - <(img-cat --pages 0:100 <dots.tif)
    [ "$(img-cat --pages 0:100 dots.tif | samples -)" = "0 100 200 300 400 500 600" ]
    [ "$(cat dots.tif | img-cat --pages 5:100,-100:2 --spool | samples -)" = "500 600 0 100" ]
    [ "$(cat dots.tif | img-cat --pages 5:100 | samples -)" = "500 600" ]
    [ "$(img-cat --pages 100:4:-1 dots.tif | samples -)" = "600 500" ]
    img-cat --reverse --pages 1:4 dots.tif -o b.tif
    [ "$(samples b.tif)" = "300 200 100" ]
    img-cat --reverse dots.tif -o b.tif
    [ "$(samples b.tif)" = "600 500 400 300 200 100 0" ]
}

@test "regions" {
    stack a.tif
    img-cat --region 2:4,1:3 --pages 1:3 a.tif -o b.tif
    [ "$(samples b.tif)" = "112 113 122 123 212 213 222 223" ]
    img-cat --region -1:,-1: --pages 6 a.tif -o b.tif
    [ "$(samples b.tif)" = "635" ]
}

@test "a pipe gives what a file gives" {
    stack a.tif
    for part in "--pages 1:6:2" "--pages 0,3,6" "--pages 2 --region 1:5,:2" "--region 1:5,:2" ""; do
        img-cat $part a.tif -o file.tif
        cat a.tif | img-cat $part > pipe.tif
        ok img-cmp file.tif pipe.tif
        cat a.tif | img-cat --spool $part -o pipe.tif
        cmp file.tif pipe.tif
    done
    cat a.tif | img-cat --spool --pages ::-1 -o pipe.tif
    [ "$(img-cat --raw-out a.tif | img-cat --raw-in 6x4:u16le --pages 1::9223372036854775807 | img-info --value pages)" = 1 ]
    img-cat --reverse a.tif | img-cmp - pipe.tif
}

@test "joining" {
    stack a.tif
    img-cat --pages :3 a.tif -o 1.tif
    img-cat --pages 3: a.tif -o 2.tif
    img-cat 1.tif 2.tif | img-cmp - a.tif
    cat 2.tif | img-cat 1.tif - | img-cmp - a.tif
    mkdir d
    cp 1.tif d/s1.tif
    cp 2.tif d/s10.tif
    img-cat d | img-cmp - a.tif
}

@test "the output may be the input" {
    stack a.tif
    cp a.tif b.tif
    ok img-cat --pages ::-1 a.tif -o a.tif
    img-cat --reverse a.tif | img-cmp - b.tif
}

@test "impossible selections are refused before anything is written" {
    stack a.tif
    fails 2 "a.tif has 7 pages, 0 to 6" img-cat --pages 7 a.tif
    fails 2 "a.tif has 7 pages" img-cat --pages=-8 a.tif
    fails 2 "selects no pages" img-cat --pages 7:8 a.tif
    fails 2 "selects no pages" img-cat --pages 3:3 a.tif
    fails 2 "expected numbers and ranges" img-cat --pages 1-3 a.tif
    fails 2 "6 columns" img-cat --region 0:7,: a.tif
    fails 2 "expected X0:X1,Y0:Y1" img-cat --region 3x3 a.tif
    fails 2 "out of order" sh -c 'cat a.tif | img-cat --pages 3,1'
    [[ "$stderr" == *"hint: use --spool"* ]]
}

@test "a pipe that ends too early, or is cut behind the pages that are wanted" {
    stack a.tif
    head -c 900 a.tif > cut.tif
    fails_() { run --separate-stderr "$@"; [ "$status" -eq 1 ] && [[ "$stderr" == *truncated* ]]; }
    fails_ sh -c 'cat cut.tif | img-cat --pages 0 -o x.tif'
    [ ! -e x.tif ]
}

@test "the program before it in a pipe is read to the end" {
    stack a.tif
    for i in 1 2 3 4 5 6 7 8; do img-cat a.tif a.tif a.tif a.tif -o b.tif; mv b.tif a.tif; done
    img-cat a.tif | img-cat --pages 0 -o one.tif
    [ "${PIPESTATUS[*]}" = "0 0" ]
}

@test "threads and memory do not change a byte" {
    stack a.tif
    img-cat -j 1 -m 1M --pages 1: --region 1:,: a.tif > 1.tif
    img-cat -j 4 --pages 1: --region 1:,: a.tif > 2.tif
    cmp 1.tif 2.tif
}

@test "origin and voxel follow" {
    ct-phantom --volume 16x12x10 --voxel 0.5,1,2 -o v.tif
    img-cat --pages 2::3 --region 4:,2:8 v.tif -o w.tif
    read -r x y z <<< "$(img-info --value origin v.tif)"
    read -r a b c <<< "$(img-info --value origin w.tif)"
    near "$a" "$(perl -e "print $x + 2")" 1e-12
    near "$b" "$(perl -e "print $y + 2")" 1e-12
    near "$c" "$(perl -e "print $z + 4")" 1e-12
    [ "$(img-info --value voxel w.tif)" = "0.5 1 6" ]
    # as short as they were
    img-convert --set voxel=0.1,0.1,0.7mm --set origin=0.3,0,0 --set scale=0.1,0.3 v.tif -o d.tif
    img-cat --pages ::-1 d.tif -o w.tif
    [ "$(img-info --value voxel,scale w.tif | xargs)" = "0.1 0.1 0.7 0.1 0.3" ]
    img-cat --region 1:,: d.tif -o w.tif
    [ "$(img-info --value origin w.tif)" = "0.4 0 0" ]
    img-local --stat std d.tif -o w.tif
    [ "$(img-info --value scale w.tif)" = "0.1 0" ]
    [ "$(img-convert -t f64 --scale 0.1,0.2 v.tif | img-info --value scale -)" = "0.1 0.2" ]
}

@test "a cropped and thinned scan is the scan of the cropped detector" {
    ct-geom --sod 500 --sdd 900 --detector 40x30 --pitch 2 --views 12 -o whole.geom
    ct-phantom -g whole.geom --phantom asymmetric --radius 20 -o whole.tif
    img-cat --pages 1::3 --region 5:37,3:25 whole.tif -o part.tif
    # the phantom again, with the geometry that came out
    img-info -v part.tif | sed -n 's/^geom\.//p' | sed 's/ \+/ = /' > part.geom
    ct-phantom -g part.geom --phantom asymmetric --radius 20 -o again.tif
    img-cmp --atol 1e-5 part.tif again.tif
}


@test "inputs that say different things are joined with a warning" {
    ct-geom --sod 500 --sdd 900 --detector 20x10 --pitch 2 --views 4 | ct-phantom -g - -o a.tif
    ct-geom --sod 600 --sdd 900 --detector 20x10 --pitch 2 --views 4 | ct-phantom -g - -o b.tif
    ok img-cat a.tif a.tif -o c.tif
    run --separate-stderr img-cat a.tif b.tif -o c.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"the inputs differ in scan geometry: the first one's is kept"* ]]
    # lists of angles and of matrices are many lines
    seq 0 17.5 350 | awk '{ print $1 + sin($1) }' >angles.txt
    ct-geom --sod 500 --sdd 900 --detector 20x10 --pitch 2 --angles angles.txt -o list.geom
    ct-geom --format matrices list.geom -o matrices.geom
    for form in list matrices; do
        ct-phantom -g $form.geom -o $form.tif
        run --separate-stderr img-cat $form.tif $form.tif -o c.tif
        [ "$status" -eq 0 ]
        [ -z "$stderr" ]
        # the same but for the last view
        sed '$s/[0-9]$/7/' $form.geom | ct-phantom -g - -o other.tif
        run --separate-stderr img-cat $form.tif other.tif -o c.tif
        [ "$status" -eq 0 ]
        [[ "$stderr" == *"the inputs differ in scan geometry"* ]]
    done
}

@test "hyperstacks: axes and sizes are those of what is picked" {
    noise plain.tif 6x4x24 u16
    img-cat --set axes=x,y,channel,z,time --set sizes=2,4,3 --set voxel=1,1,2mm --set origin=0,0,-3 plain.tif -o h.tif
    about() { img-info --value axes,sizes,voxel,origin "$1" | xargs; }
    img-cat --region 1:5,: h.tif -o r.tif
    [ "$(about r.tif)" = "x y channel z time 2 4 3 1 1 2 1 0 -3" ]
    img-cat --pages 1::2 h.tif -o c.tif
    [ "$(about c.tif)" = "x y channel z time 1 4 3 1 1 2 0 0 -3" ]
    img-cat --pages 8:16 h.tif -o t.tif
    [ "$(about t.tif)" = "x y channel z time 2 4 1 1 1 2 0 0 -3" ]
    # a channel filtered alone is that channel of what is filtered together
    img-gauss --sigma 1 h.tif | img-cat --pages 1::2 | img-cmp - <(img-gauss --sigma 1 c.tif)
    img-cat --region 1:5,: h.tif | img-cmp - r.tif
    # no grid: not filtered along what was z
    run --separate-stderr img-cat --pages ::3 h.tif -o x.tif
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"the axes of the pages are left out: the selection is not a grid of them"* ]]
    [ "$(img-info --value axes x.tif)" = "x y page" ]
    fails 1 "the meaning of its pages is unknown" img-gauss --sigma 1 x.tif
    # the other way round, and joined
    img-cat --reverse h.tif -o b.tif
    [ "$(img-info --value axes,sizes b.tif | xargs)" = "x y channel z time 2 4 3" ]
    img-cat t.tif h.tif -o j.tif
    [ "$(img-info --value axes,sizes j.tif | xargs)" = "x y channel z time 2 4 4" ]
    img-cat c.tif h.tif -o j.tif
    fails 1 "of unknown sizes" img-gauss --sigma 1 j.tif
}

@test "--set: what a file does not say" {
    stack a.tif
    ok img-cat --set voxel=0.5,0.5,2um --set quantity=counts --set note=mine a.tif -o b.tif
    [ "$(img-info --value voxel,unit,quantity,note b.tif | xargs)" = "0.0005 0.0005 0.002 mm counts mine" ]
    [ "$(img-info --value history b.tif | xargs)" = "img-convert" ]
    ok img-cat --set note= --set 'voxel=3 mm, 4 mm' --set scale=2,1 --set unit=pixel b.tif -o c.tif
    [ "$(img-info --value voxel,unit,scale c.tif | xargs)" = "3 4 pixel 2 1" ]
    fails 1 "no value 'note'" img-info --value note c.tif
    ok img-cat --set axes=x,y,z --set voxel=2mm a.tif -o v.tif
    ok img-gauss --physical --sigma 2 v.tif -o g.tif
    ok img-cmp g.tif <(img-gauss --sigma 1 a.tif)
    ok img-cat --set axes=x,y,channel --set sizes=7 a.tif -o c.tif
    [ "$(img-info --value axes c.tif)" = "x y channel" ]
    fails 2 "--set: axes x y channel z and sizes not given are not those of 7 pages" \
        img-cat --set axes=x,y,channel,z a.tif
    fails 2 "--set: axes x y z and sizes 8 are not those of 7 pages" img-cat --set axes=x,y,z --set sizes=8 a.tif
    fails 2 "'x y' has no axis for the 7 pages" img-cat --set axes=x,y a.tif
    fails 2 "z is named twice" img-cat --set axes=x,y,z,z --set sizes=7,1 a.tif
    fails 2 "--set axes: expected names" img-cat --set axes=x,y,Z a.tif
    fails 2 "--set voxel: expected one to three lengths" img-cat --set voxel=1,2,3,4 a.tif
    fails 2 "--set voxel: expected one to three lengths" img-cat --set voxel=1,0 a.tif
    fails 2 "--set voxel: expected one to three lengths" img-cat --set voxel=1px a.tif
    fails 2 "--set voxel: expected one to three lengths" img-cat --set voxel=1e308m a.tif
    fails 2 "--set voxel: expected one to three lengths" img-cat --set voxel=1mm,2um a.tif
    fails 2 "--set unit: expected mm or pixel" img-cat --set unit=um a.tif
    fails 2 "--set scale: expected GAIN,OFFSET" img-cat --set scale=0,1 a.tif
    fails 2 "--set origin: expected three coordinates" img-cat --set origin=1,2 a.tif
    fails 2 "--set history: it is written by the programs" img-cat --set history=x a.tif
    fails 2 "--set geom.sod: it is written by the programs" img-cat --set geom.sod=1 a.tif
    fails 2 "--set: expected KEY=VALUE" img-cat --set Voxel=1 a.tif
    fails 2 "--set: expected KEY=VALUE" img-cat --set voxel a.tif
    fails 2 "one line without control characters" img-cat --set "note=$(printf 'a\033b')" a.tif
}

@test "pages larger than the memory go through as rows, from files and pipes" {
    tall a.tif 2
    img-cat -m 900M a.tif >want.tif
    cat a.tif | img-cat -m 9M --stats stats.json | cmp - want.tif
    took_at_most 17000000
    img-cat -m 9M --stats stats.json a.tif | cmp - want.tif
    took_at_most 17000000
    img-cat --raw-out want.tif | cmp - tall.raw
    # part of them; all of a pipe is read
    perl -e 'undef $/; binmode STDIN; $a = <STDIN>; for $p (1, 0) { for $y (100 .. 2499) {
        print substr($a, (($p * 3000 + $y) * 1500 + 7) * 4, 4 * 1200) } }' \
        < tall.raw > want.raw
    img-cat -m 9M --region 7:1207,100:2500 --pages 1,0 --raw-out --stats stats.json a.tif | cmp - want.raw
    took_at_most 17000000
    tail -c $((1200 * 2400 * 4)) want.raw > first.raw
    cat a.tif | img-cat -m 9M --region 7:1207,100:2500 --pages 0 --raw-out --stats stats.json | cmp - first.raw
    took_at_most 17000000
    head -c $((1200 * 2400 * 4)) want.raw > last.raw
    cat a.tif | img-cat -m 9M --region 7:1207,100:2500 --pages -1 --raw-out | cmp - last.raw
    head -c 30000000 a.tif > cut.tif
    fails 1 "page 1: truncated" sh -c 'cat cut.tif | img-cat -m 9M --pages 0 >got.tif'
    fails 1 "page 1: truncated" sh -c 'cat cut.tif | img-cat -m 9M --region :,:10 >got.tif'
    # other programs that go page by page
    img-convert -m 900M --type u16 --scale 100,7 a.tif -o want.tif
    cat a.tif | img-convert -m 9M --type u16 --scale 100,7 --stats stats.json >got.tif
    took_at_most 17000000
    cmp got.tif want.tif
    img-convert -m 9M --type u16 --auto a.tif >got.tif
    img-convert -m 900M --type u16 --auto a.tif | cmp - got.tif
    img-info --statistics --histogram 9 --percentiles 3,50 -m 900M a.tif > want.txt
    img-info --statistics --histogram 9 --percentiles 3,50 -m 30M a.tif | cmp - want.txt
    values=$(img-info --value min,mean,std,sum -m 900M --region :,5:2900 a.tif)
    [ "$(cat a.tif | img-info --value min,mean,std,sum -m 9M --region :,5:2900 --stats stats.json)" = "$values" ]
    took_at_most 17000000
    # who must hold back a page, and who compresses it, needs it whole
    fails 3 "the smallest portion, a page, takes" sh -c 'img-cat -m 9M --compress deflate a.tif -o got.tif'
    fails 3 "the smallest portion, a page, takes" sh -c 'cat tall.raw | img-cat --raw-in 1500x3000:f32le -m 9M >got.tif'
}
