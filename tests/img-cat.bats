load helper

@test "a folder that holds the output is not read: a second run would take in the result of the first" {
    mkdir scan
    for i in 1 2 3; do ct-phantom --volume 8x8x1 --phantom ball --density 0.0$i -o scan/$i.tif; done
    img-cat scan/ -o scan/all.tif
    [ "$(img-info --value pages scan/all.tif)" = 3 ]
    cp scan/all.tif before.tif
    fails 2 "scan/: the folder that is read holds the output, scan/all.tif" img-cat scan/ -o scan/all.tif
    [[ "$stderr" == *"hint: write it elsewhere"* ]]
    ln -s scan/all.tif link.tif
    fails 2 "holds the output" img-cat scan -o link.tif
    echo "$PWD/scan" >list
    fails 2 "holds the output" img-cat @list -o scan/all.tif
    cmp before.tif scan/all.tif
    # a file that is named may be written over
    img-cat scan/[123].tif -o scan/all.tif
    img-cat scan/1.tif scan/2.tif -o scan/1.tif
    [ "$(img-info --value pages scan/all.tif scan/1.tif)" = 5 ]
    # and where nothing is written, all of it is read
    [ "$(img-info --value pages scan)" = 7 ]
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
    img-cat --reverse a.tif | img-cmp - pipe.tif
}

@test "joining" {
    stack a.tif
    img-cat --pages :3 a.tif -o 1.tif
    img-cat --pages 3: a.tif -o 2.tif
    img-cat 1.tif 2.tif | img-cmp - a.tif
    cat 2.tif | img-cat 1.tif - | img-cmp - a.tif
    mkdir d && cp 1.tif d/s1.tif && cp 2.tif d/s10.tif
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
    fails 2 "a.tif has 7 pages" img-cat --pages 3:8 a.tif
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
}
