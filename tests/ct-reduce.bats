# ct-reduce: sums, means and extremes of stacks, and slabs joined.
load helper

# stack NAME BYTE...: NAME.tif, f32, pages of 2 x 1, from bytes
stack() {
    local name=$1
    shift
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' "$@")" >"$name.raw"
    img-convert --raw-in 2x1:u8 --type f32 "$name.raw" -o "$name.tif"
}

values() { img-convert --raw-out "$1" | od -An -v -tf4 -w64 | tr -s ' ' | sed 's/^ //'; }

@test "ct-reduce: sum, mean, min, max of three stacks" {
    stack a 1 2 3 4
    stack b 10 0 30 0
    stack c 100 1 2 7
    ct-reduce a.tif b.tif c.tif -o sum.tif
    [ "$(values sum.tif)" = "111 3 35 11" ]
    ct-reduce --op mean a.tif b.tif c.tif | values - >mean.txt
    [ "$(cat mean.txt)" = "37 1 11.666667 3.6666667" ]
    ct-reduce --op min a.tif b.tif c.tif -o min.tif
    [ "$(values min.tif)" = "1 0 2 0" ]
    ct-reduce --op max a.tif b.tif c.tif -o max.tif
    [ "$(values max.tif)" = "100 2 30 7" ]
}

@test "ct-reduce: operands may be pipes, one of them standard input" {
    stack a 1 2 3 4
    stack b 10 0 30 0
    ct-reduce a.tif b.tif -o want.tif
    ct-reduce <(cat a.tif) <(cat b.tif) -o got.tif
    ok img-cmp want.tif got.tif
    cat a.tif | ct-reduce - b.tif -o got.tif
    ok img-cmp want.tif got.tif
    fails 2 "standard input ('-') is given more than once" ct-reduce - -
}

@test "ct-reduce: sample types" {
    printf '\377\377\001\000' >a.raw
    img-convert --raw-in 2x1:u16 --type u16 a.raw -o a.tif
    ct-reduce a.tif a.tif a.tif -o sum.tif
    ok img-info sum.tif
    [[ $output == *f32* ]]
    [ "$(values sum.tif)" = "196605 3" ]
    ct-reduce --op max a.tif a.tif -o max.tif
    ok img-info max.tif
    [[ $output == *u16* ]]
    img-convert --type u32 a.tif -o w.tif
    ct-reduce w.tif w.tif -o sum.tif
    ok img-info sum.tif
    [[ $output == *f64* ]]
}

@test "ct-reduce: --pages makes one page of a stack, or of many files" {
    stack a 1 2 3 4 8 6
    ct-reduce --op mean --pages a.tif -o mean.tif
    [ "$(values mean.tif)" = "4 4" ]
    stack b 100 0
    ct-reduce --op max --pages a.tif b.tif -o max.tif
    [ "$(values max.tif)" = "100 6" ]
    ct-reduce --pages <a.tif | values - >sum.txt
    [ "$(cat sum.txt)" = "12 12" ]
}

@test "ct-reduce: NaN is reported; min and max leave it out" {
    printf '\0\0\300\177\0\0\200\077' >nan.raw
    printf '\0\0\0\100\0\0\0\100' >two.raw
    for n in nan two; do img-convert --raw-in 2x1:f32 --type f32 $n.raw -o $n.tif; done
    for op in min max sum; do
        run --separate-stderr ct-reduce --op $op nan.tif two.tif -o $op.tif
        [ "$status" -eq 0 ]
        [ "$stderr" = "ct-reduce: warning: 1 samples are NaN" ]
    done
    [ "$(values min.tif)" = "2 1" ]
    [ "$(values max.tif)" = "2 2" ]
    [ "$(values sum.tif)" = "nan 3" ]
}

@test "ct-reduce: stacks that do not agree" {
    stack a 1 2 3 4
    stack short 1 2
    img-convert --raw-in 1x2:u8 --type f32 a.raw -o turned.tif
    img-convert --raw-in 2x1:u8 --type u8 a.raw -o bytes.tif
    fails 1 "short.tif: expected 2 pages as in a.tif, got 1" ct-reduce a.tif short.tif
    fails 1 "turned.tif: expected pages of 2x1 as in a.tif, got 1x2" ct-reduce a.tif turned.tif
    fails 1 "bytes.tif: expected samples of f32 as in a.tif, got u8" ct-reduce a.tif bytes.tif
    run --separate-stderr ct-reduce a.tif <(cat short.tif) -o x.tif
    [ "$status" -eq 1 ]
    [ ! -e x.tif ]
    run --separate-stderr ct-reduce <(cat short.tif) <(cat a.tif) -o x.tif
    [ "$status" -eq 1 ]
    [ ! -e x.tif ]
}

@test "ct-reduce: what does not go together" {
    stack a 1 2 3 4
    fails 2 "expected two or more stacks" ct-reduce a.tif
    fails 2 "--pages and --join cannot be combined" ct-reduce --pages --join a.tif
    fails 2 "--op and --join cannot be combined" ct-reduce --op max --join a.tif a.tif
}

# a volume of 2 x 1 x 6 with an origin, made by the geometry's own tools
volume() {
    ct-geom --sod 500 --sdd 1000 --detector 8x8 --pitch 4 --views 8 -o s.geom
    awk 'BEGIN { for (i = 0; i < 512; i++) printf "%c", 33 + i % 77 }' >s.raw
    ct-filter -g s.geom --raw-in 8x8:u8 s.raw -o q.tif
    ct-backproject q.tif -o vol.tif
}

@test "ct-reduce: --join puts slabs in their place, whatever their order" {
    volume
    ct-backproject --slab 0:3 q.tif -o low.tif
    ct-backproject --slab 3:4 q.tif -o mid.tif
    ct-backproject --slab 4: q.tif -o high.tif
    ok ct-reduce --join high.tif low.tif mid.tif -o joined.tif
    ok img-cmp joined.tif vol.tif
    img-info joined.tif | grep origin >a
    img-info vol.tif | grep origin >b
    diff a b
    ct-reduce --join <(cat mid.tif) <(cat high.tif) <(cat low.tif) -o joined.tif
    ok img-cmp joined.tif vol.tif
    fails 1 "gap of 1 slices" ct-reduce --join low.tif high.tif
    fails 1 "overlap of 1 slices" ct-reduce --join low.tif mid.tif mid.tif high.tif
}

@test "ct-reduce: volumes of disjoint views add up to the volume of all" {
    volume
    ct-backproject --views :5 q.tif -o a.tif
    ct-backproject --views 5: q.tif -o b.tif
    ok ct-reduce a.tif b.tif -o sum.tif
    ok img-cmp --rtol 1e-6 --atol 1e-6 sum.tif vol.tif
}

@test "ct-reduce: a warning where volumes lie elsewhere" {
    volume
    ct-backproject --center 0,0,9 q.tif -o there.tif
    run --separate-stderr ct-reduce vol.tif there.tif -o x.tif
    [ "$status" -eq 0 ]
    [ "$stderr" = "ct-reduce: warning: there.tif: its position differs from that of vol.tif (origin or voxel)" ]
}

@test "ct-reduce: thread counts do not change a bit" {
    awk 'BEGIN { srand(3); for (i = 0; i < 300 * 500 * 2; i++) printf "%c", 33 + int(90 * rand()) }' >big.raw
    img-convert --raw-in 300x500:u8 --type f32 big.raw -o a.tif
    for op in sum mean min max; do
        ct-reduce -j1 --op $op a.tif a.tif a.tif -o want.tif
        ok ct-reduce -j3 --op $op a.tif a.tif a.tif -o got.tif
        ok img-cmp want.tif got.tif
    done
}

# hyper FILE: 4 x 3 pixels, 2 channels, 3 slices, 4 times; the sample at i of channel c, slice z, time t is
# 1000 c + 100 z + 10 t + i, and 7 is an outlier
hyper() {
    perl -e 'for $t (0 .. 3) { for $z (0 .. 2) { for $c (0, 1) {
        print pack("f<*", map { 1000 * $c + 100 * $z + 10 * $t + $_ } 0 .. 11) } } }' > hyper.raw
    img-convert --raw-in 4x3:f32le --set axes=x,y,channel,z,time --set sizes=2,3,4 --set voxel=1,1,2mm \
        --set origin=5,6,7 hyper.raw -o "$1"
}

# along EXPRESSION RANGE RANGE: samples of one page for each pair of numbers, $a fastest
along() {
    perl -e 'for $b (eval $ARGV[2]) { for $a (eval $ARGV[1]) { push @v, map { $i = $_; eval $ARGV[0] } 0 .. 11 } } print "@v\n"' -- "$@"
}

@test "ct-reduce: --along one axis makes a page for each of the others, from a file and from a pipe" {
    hyper h.tif
    local axis op
    for op in sum mean min max; do
        # the factor of what is added up, and the number along the axis that counts
        local f='1' of='$n'
        case $op in sum) f='$n' of='($n - 1) / 2' ;; mean) of='($n - 1) / 2' ;; min) of='0' ;; max) of='($n - 1)' ;; esac
        want() { along "\$n = $1; my \$v = $of; $f * ($2)" "$3" "$4"; }
        for axis in "" "--along z" "--pages --along time" "--along channel"; do
            read -ra words <<<"${axis:---pages}"
            ok ct-reduce --op $op "${words[@]}" h.tif -o got.tif
            case $axis in
            *time) want 4 '1000 * $a + 100 * $b + 10 * $v + $i' '0, 1' '0 .. 2' > want ;;
            *channel) want 2 '1000 * $v + 100 * $a + 10 * $b + $i' '0 .. 2' '0 .. 3' > want ;;
            *) want 3 '1000 * $a + 100 * $v + 10 * $b + $i' '0, 1' '0 .. 3' > want ;;
            esac
            numbers got.tif 'f<' | diff - want
            uncounted h.tif | ct-reduce --op $op -j 3 "${words[@]}" | cmp - <(ct-reduce --op $op -j 1 "${words[@]}" h.tif)
        done
    done
    labels() { ct-reduce "$@" -o o.tif && img-info --value axes,sizes,voxel,origin o.tif | paste -sd '|'; }
    [ "$(labels --pages h.tif)" = "x y channel time|2 4|1 1 6|5 6 9" ]
    [ "$(labels --along time h.tif)" = "x y channel z|2 3|1 1 2|5 6 7" ]
    [ "$(labels --along channel h.tif)" = "x y z time|3 4|1 1 2|5 6 7" ]
    ok ct-reduce --plan --pages h.tif
    [[ "$output" == *"sum of 3 along z"*"8 pages"* ]]
    # sums of all slices of a time are held of a pipe, of a file one
    fails 3 "" sh -c 'cat h.tif | ct-reduce --along time --memory 600 - -o x.tif'
    ok ct-reduce --along time --memory 600 h.tif -o o.tif
}

@test "ct-reduce: axes that are not there, or not counted" {
    hyper h.tif
    fails 1 "h.tif: --along: expected an axis view, got the axes x y channel z time" ct-reduce --along view h.tif
    stack a 1 2 3 4
    fails 1 "a.tif: --along: expected an axis time, got the axes x y z by default" \
        ct-reduce --along time a.tif
    ok ct-reduce --along z a.tif -o sum.tif
    [ "$(values sum.tif)" = "4 6" ]
    [ "$(img-info --value axes sum.tif)" = "x y" ]
    img-cat --pages 0:2 h.tif -o c.tif
    [ "$(img-info --value axes c.tif)" = "x y channel" ] || img-convert --set axes=x,y,channel c.tif -o c.tif
    fails 1 "c.tif: all pages are channels" ct-reduce --pages c.tif
    [[ "$stderr" == *"hint: --along channel"* ]]
    ok ct-reduce --along channel c.tif -o o.tif
    [ "$(img-info --value axes,pages o.tif | xargs)" = "x y 1" ]
    fails 2 "--along and --join cannot be combined" ct-reduce --along z --join a.tif
    # a pipe that does not say how many pages it has, and ends within a group
    uncounted h.tif | perl -pe 's/sizes = 2 3 4/sizes = 2 3 5/' > five.tif
    rm o.tif
    fails 1 "standard input: expected a multiple of 30 pages, by its axes, got 24" \
        sh -c 'cat five.tif | ct-reduce --along time -o o.tif'
    [ ! -e o.tif ]
}

@test "ct-reduce: the geometry goes with the views, and stays with the channels" {
    ct-geom --sod 500 --sdd 1000 --detector 8x8 --pitch 4 --views 6 | ct-phantom -g - -o s.tif
    ct-reduce --op mean --pages s.tif -o m.tif
    [ "$(img-info --value axes m.tif)" = "u v" ]
    run ! grep -aq geom.sod m.tif
    img-convert --set axes=u,v,channel,view --set sizes=2,3 s.tif -o c.tif
    ct-reduce --along channel c.tif -o m.tif
    grep -aq geom.sod m.tif
    [ "$(img-info --value axes m.tif)" = "u v view" ]
}
