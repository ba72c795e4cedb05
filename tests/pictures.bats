# Pictures of img-view beyond slices: projections, colours, scale bars, animations, plots, terminals. picture.pl decodes
# them.
load helper

# decoded KIND: the picture on standard input, as picture.pl prints it
decoded() { perl "$ROOT/tests/picture.pl" "$@"; }

# column WIDTH COLUMN <decoded: the colours of a column, from the top
column() { tr ' ' '\n' | tail -n +2 | awk -v w="$1" -v c="$2" '(NR - 1) % w == c'; }

@test "projections are those of ct-reduce, along every axis, from files and pipes" {
    noise a.tif 30x20x12 f32
    img-math 'if(x+3*y==7*page,nan,a)' a.tif -o n.tif
    [ "$(img-info --value nan n.tif)" -gt 50 ]
    for op in max mean min; do
        for axis in z y x; do
            case $axis in z) axes=xy ;; y) axes=xz ;; x) axes=zy ;; esac
            img-reslice --axes $axes n.tif | ct-reduce --op $op --pages -o want.tif 2>/dev/null
            img-view -q --square want.tif -o want.png
            for j in 1 3; do
                img-view -q --square -j $j --project $op --axis $axis n.tif | cmp - want.png
                img-view -q --square -j $j --project $op --axis $axis <n.tif | cmp - want.png
            done
            uncounted n.tif | img-view -q --square --project $op --axis $axis | cmp - want.png
        done
    done
}

@test "projections: by definition, of one channel, in colour, three at a time" {
    # the sample at x, y of page z is 40 z + 5 y + x
    perl -e 'for $z (0..4) { for $y (0..5) { print pack("C*", map { 40 * $z + 5 * $y + $_ } 0..7) } }' >v.raw
    img-convert --raw-in 8x6:u8le v.raw -o v.tif
    ok img-view --ortho --project max --window 0,255 v.tif -o o.png
    [ "$(decoded png <o.png)" = "$(perl -e 'print "15x13"; for $r (0..12) { for $c (0..14) {
        $v = $r < 6 && $c < 8 ? 160 + 5 * $r + $c : $r < 6 && $c > 9 ? 40 * ($c - 10) + 5 * $r + 7
            : $r > 7 && $c < 8 ? 40 * ($r - 8) + 25 + $c : 0; printf " %02x%02x%02x", $v, $v, $v } } print "\n"')" ]
    img-view --project mean --axis x --window 0,255 v.tif | decoded png >got # the mean of x is 3.5: up
    [ "$(cut -d' ' -f 1-3 got)" = "5x6 040404 2c2c2c" ]
    noise a.tif 8x7x6 u8
    img-convert --set axes=x,y,channel,z --set sizes=3,2 --set 'channels=red green blue' a.tif -o c.tif
    img-view --project max --window 0,255 c.tif | decoded png >got
    for i in 0 1 2; do
        img-convert --channel $i c.tif | ct-reduce --op max --pages | img-view --window 0,255 -o $i.png
        decoded png <$i.png | tr ' ' '\n' | sed 1d | cut -c 1-2 >$i
        img-view --channel $i --project max --window 0,255 c.tif | cmp - $i.png
    done
    [ "$(paste -d '' 0 1 2)" = "$(tr ' ' '\n' <got | sed 1d)" ]
    fails 2 "--project and --slice cannot be combined: all slices are in a projection" img-view --project max --slice 2 v.tif
    fails 2 "--project and --montage cannot be combined" img-view --project max --montage 2 v.tif
    fails 2 "unknown option --mip; did you mean --project?" img-view --mip v.tif
    fails 3 "the slices need" img-view --project mean -m 900 v.tif
}

@test "colour maps at their points; labels are never mixed" {
    perl -e 'print pack("C*", 0..255)' >a.raw
    img-convert --raw-in 256x1:u8le a.raw -o a.tif
    at() { img-view --window 0,255 --colormap "$1" a.tif | decoded png | tr ' ' '\n' | sed 1d | awk 'NR % 51 == 1' | xargs; }
    # entries 0, 51, 102, ... of matplotlib's tables, within 5 of 255; our points are every fifteenth
    near() { perl -e 'sub c { map { hex } $_[0] =~ /../g } @a = split / /, $ARGV[0]; @b = split / /, $ARGV[1];
        @a == 6 && @b == 6 or die; for $i (0..5) { @p = c($a[$i]); @q = c($b[$i]);
        abs($p[$_] - $q[$_]) <= 5 or die "$i: $a[$i] $b[$i]" for 0..2 }' "$1" "$2"; }
    near "$(at viridis)" "440154 414487 2a788e 22a884 7ad151 fde725"
    near "$(at magma)" "000004 3b0f70 8c2981 de4968 fe9f6d fcfdbf"
    near "$(at inferno)" "000004 420a68 932667 dd513a fca50a fcffa4"
    near "$(at plasma)" "0d0887 6a00a8 b12a90 e16462 fca636 f0f921"
    [ "$(img-view --window 0,255 --colormap viridis a.tif | decoded png | cut -d' ' -f 2,17,122,257)" = "440154 481769 23898e fde725" ]
    [ "$(at hot | cut -d' ' -f 1,6)" = "000000 ffffff" ]
    fails 2 "--colormap: 'jet' is not one of" img-view --colormap jet a.tif
    # voxels that are not cubes, and --fit: each pixel is a label
    perl -e 'print pack("C*", map { ($_ * 7 + int($_ / 20) * 3) % 5 } 0..599)' >l.raw
    img-convert --raw-in 20x30:u8le --set voxel=0.5,0.7,1mm l.raw -o l.tif
    img-view --colormap labels --square l.tif | decoded png | tr ' ' '\n' | sed 1d | sort -u >colours
    [ "$(wc -l <colours)" -eq 5 ] # 0 to 4
    for how in "" "--fit 13x13" "--square --fit 11x11" "--zoom 2"; do
        img-view --colormap labels $how l.tif | decoded png | tr ' ' '\n' | sed 1d | sort -u >got
        [ -z "$(comm -23 got colours)" ]
    done
    # the pixel nearest to the centre
    floats f.tif 1 2 3 4 5 6
    img-view --colormap labels f.tif | decoded png | cut -d' ' -f 3,6 >want
    img-view --colormap labels --fit 2x1 f.tif | decoded png | cut -d' ' -f 2,3 | cmp - want
}

# bar: "length in pixels, rows" of the white bar at the lower right of a black picture of width $1
bar() {
    decoded png | tr ' ' '\n' | sed 1d | awk -v w="$1" '{ if ($0 == "ffffff") { n[int((NR - 1) / w)]++ } }
        END { for (r in n) if (n[r] > most) most = n[r]; for (r in n) rows += n[r] == most; print most, rows }'
}

@test "a scale bar has its length in pixels, whatever the shape, zoom and fit" {
    ct-phantom --volume 300x200x10 --voxel 0.5 | img-math 'a*0' -o v.tif # 150 mm wide
    ok img-view --scale-bar auto --window 0,1 v.tif -o b.png
    [ "$(bar 300 <b.png)" = "40 2" ] # 20 mm; 45 are allowed
    [ "$(img-view --scale-bar 50 --window 0,1 v.tif | bar 300)" = "100 2" ]
    [ "$(img-view --scale-bar 12.5 --zoom 3 --window 0,1 v.tif | bar 900 | cut -d' ' -f 1)" = 75 ]
    [ "$(img-view --scale-bar 50 --fit 150x150 --window 0,1 v.tif | bar 150 | cut -d' ' -f 1)" = 50 ]
    [ "$(img-view --scale-bar 50 --project max --fit 150x150 --zoom 3 --window 0,1 v.tif | bar 450 | cut -d' ' -f 1)" = 150 ]
    # the finest voxel is a pixel
    img-convert --set voxel=2,0.5,0.25mm v.tif -o w.tif
    [ "$(img-view --scale-bar 100 --window 0,1 w.tif | bar 1200 | cut -d' ' -f 1)" = 200 ]
    [ "$(img-view --scale-bar 100 --square --window 0,1 w.tif | bar 300 | cut -d' ' -f 1)" = 50 ]
    # the picture beneath does not change, and a gray one stays gray
    img-view v.tif --window -1,1 | decoded png >plain
    img-view v.tif --window -1,1 --scale-bar auto -o s.png
    [ "$(perl -e 'undef $/; print unpack "x25C", <STDIN>' <s.png)" = 0 ]
    decoded png <s.png | tr ' ' '\n' >with
    tr ' ' '\n' <plain >without
    cmp <(sed -n 1,40000p with) <(sed -n 1,40000p without)
    # black around white, over white, too
    [ "$(img-view --scale-bar auto --window -2,-1 v.tif | decoded png | tr ' ' '\n' | sed 1d | sort -u | grep -c -e 000000 -e ffffff)" -eq 2 ]
}

@test "scale bars that cannot be drawn" {
    noise a.tif 300x200x2 u8
    fails 2 "--scale-bar: a.tif has no voxel size" img-view --scale-bar auto a.tif
    [[ "$stderr" == *"hint: img-convert --set voxel=0.5 records one, in mm"* ]]
    img-convert --set voxel=0.5 a.tif -o v.tif
    fails 2 "--scale-bar: 500 mm is too long for a picture of 150" img-view --scale-bar 500 v.tif
    fails 2 "--scale-bar: 10 µm is less than a pixel of the picture (0.5)" img-view --scale-bar 0.01 v.tif
    fails 2 "--scale-bar" img-view --scale-bar 0 v.tif
    fails 2 "--scale-bar" img-view --scale-bar some v.tif
    fails 2 "--scale-bar: expected a picture of" img-view --scale-bar auto --fit 20x20 v.tif
    [[ "$stderr" == *"hint: --zoom N enlarges the picture"* ]]
    img-convert --set voxel=0.5,0.5,1 a.tif -o w.tif
    fails 2 "--scale-bar: the slices have pixels of different size" img-view --ortho --square --scale-bar auto w.tif
    fails 2 "--histogram and --scale-bar cannot be combined" img-view --histogram log --scale-bar auto w.tif
    [ -z "$(find . -name '*.png')" ]
}

@test "an animation: its frames are the pictures of the pages, to the byte" {
    ct-phantom --volume 40x30x9 -o v.tif
    img-convert --set voxel=1 v.tif -o v.tif
    for what in "" "--colormap viridis --zoom 2" "--fit 20x20" "--scale-bar 10 --zoom 2"; do
        ok img-view --animate 12.5 --window 0,0.03 $what v.tif -o a.png
        [ "$(decoded frames f <a.png)" = "9 frames, 0.08 0.08 0.08 0.08 0.08 0.08 0.08 0.08 0.08 s, 0 repeats" ]
        for i in 0 4 8; do img-view --slice $i --window 0,0.03 $what v.tif | cmp - f$i.png; done
        cat v.tif | img-view --animate 12.5 --window 0,0.03 $what | cmp - a.png
        uncounted v.tif | img-view --animate 12.5 -j 1 --window 0,0.03 $what | cmp - a.png
    done
    [ "$(img-view --animate 0.5 v.tif | decoded frames f | cut -d' ' -f 3)" = 2 ]
    # the window of a series; chunks of more than 64 KiB; in colour
    noise n.tif 400x300x3 u8
    img-view n.tif -o 's%d.png'
    img-view --animate 1 n.tif | decoded frames f >/dev/null
    for i in 0 1 2; do cmp s$i.png f$i.png; done
    noise c.tif 9x8x6 u8
    img-convert --set axes=x,y,channel,z --set sizes=3,2 --set 'channels=red green blue' c.tif -o c.tif
    img-view --animate 1 --window 0,255 c.tif | decoded frames f >/dev/null
    img-view --slice 1 --window 0,255 c.tif | cmp - f1.png
    if command -v convert >/dev/null; then # PNG readers show the first
        img-view --slice 0 n.tif --window 0,255 -o one.png
        img-view --animate 5 --window 0,255 n.tif -o all.png
        [ "$(convert 'png:all.png[0]' rgb:- | cksum)" = "$(convert png:one.png rgb:- | cksum)" ]
    fi
    fails 2 "--animate writes one file: expected a name without %d, got x%d.png" img-view --animate 5 v.tif -o 'x%d.png'
    fails 2 "--animate: a series has all pages" img-view --animate 5 --slice 2 v.tif
    fails 2 "--animate: a series is of pages: expected --axis z" img-view --animate 5 --axis x v.tif
    fails 2 "--animate" img-view --animate 0 v.tif
    fails 2 "unknown option --fps; did you mean --animate?" img-view --fps 5 v.tif
    head -c 20000 v.tif >cut.tif
    fails 1 "truncated" sh -c 'cat cut.tif | img-view --animate 5 -o cut.png'
    [ ! -e cut.png ]
}

@test "a histogram: bars as high as their counts" {
    # 1 x 10, 3 x 20, 4 x 40: bins of one value; the plot's rows are in proportion
    perl -e 'print pack("C*", (1) x 10, (3) x 20, (4) x 40)' >a.raw
    img-convert --raw-in 10x7:u8le a.raw -o a.tif
    ok img-view --histogram linear a.tif -o h.png
    decoded png <h.png >got
    grep -q '^800x500 ' got
    high() { column 800 "$1" <got | awk '/4878a8/ { n++ } END { print n + 0 }'; } # whole pixels of bars
    for c in $(seq 60 770); do high $c; done >heights
    sort -n heights | uniq -c | awk '$1 > 100 { print $2 }' >levels # edges aside
    perl -e '@h = <STDIN>; @h == 4 or die "@h"; $h[0] == 0 or die; # of 2 there are none
        abs($h[2] - 2 * $h[1]) <= 2 && abs($h[3] - 4 * $h[1]) <= 4 && $h[3] > 300 or die "@h"' <levels
    # logarithmic: the steps from 10 to 20 and from 20 to 40 are equal
    ok img-view --histogram log a.tif -o h.png
    decoded png <h.png >got
    for c in $(seq 60 770); do high $c; done | sort -n | uniq -c | awk '$1 > 100 { print $2 }' >levels
    perl -e '@h = <STDIN>; abs($h[3] - $h[2] - ($h[2] - $h[1])) <= 2 && $h[1] > 50 or die "@h"' <levels
    # a pipe is the file, for any number of threads; of any type; a window; of another size
    noise v.tif 50x40x8 f32
    img-view --histogram log v.tif -o h.png
    img-view --histogram log -j 1 <v.tif | cmp - h.png
    uncounted v.tif | img-view --histogram log | cmp - h.png
    img-view --histogram linear --fit 300x200 --window 0,1 v.tif | decoded png | grep -q '^300x200 '
    img-math 'a*0+3' v.tif | img-view --histogram linear -o constant.png
    img-math 'a*0/0' v.tif -o nan.tif
    run --separate-stderr img-view --histogram log nan.tif -o nan.png
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"nan.tif: 16000 samples are NaN" ]]
    fails 3 "a plot of 800 x 500 pixels needs" img-view --histogram log -m 100k v.tif
    img-view --histogram log -m 1700k <v.tif | cmp - h.png # bands of few rows
    fails 2 "a plot needs 200 x 120 pixels, got 80 x 60" img-view --histogram log --fit 80x60 v.tif
    fails 2 "--histogram and --slice cannot be combined: it is of the whole stack" img-view --histogram log --slice 2 v.tif
    fails 2 "--histogram and --zoom cannot be combined" img-view --histogram log --zoom 2 v.tif
}

@test "a profile as a picture: the line is where the values are" {
    # a step from 0 to 1 in the middle, along x
    perl -e 'for (0..9) { print pack("f<*", (0) x 50, (1) x 50) }' >a.raw
    img-convert --raw-in 100x10:f32le a.raw -o a.tif
    ok img-view --profile 0,5,99,5 a.tif -o p.png
    decoded png <p.png >got
    row() { column 800 "$1" <got | awk 'substr($0, 1, 2) != substr($0, 5, 2) { s += NR; n++ } END { print int(s / n) }'; }
    low=$(row 150) high=$(row 700)
    [ "$low" -gt 400 ]
    [ "$high" -lt 100 ]
    [ "$(row 300)" -eq "$low" ]
    # the CSV of the same line, to any other name and to standard output
    img-view --profile 0,5,99,5 a.tif -o p.csv
    img-view --profile 0,5,99,5 a.tif | cmp - p.csv
    [ "$(wc -l <p.csv)" -eq 101 ]
    img-view --profile 0,5,99,5 --window 0,2 a.tif -o q.png
    decoded png <q.png >got
    [ "$(row 700)" -gt 200 ] # half of the height
    img-view --project max --axis z --profile 0,5,99,5 a.tif | cmp - p.csv
    img-math 'a/0' a.tif | img-view -q --profile 0,5,99,5 -o r.png # infinities and NaN leave gaps
    fails 2 "--profile and --scale-bar cannot be combined" img-view --profile 0,0,1,1 --scale-bar 3 a.tif
}

@test "kitty, sixels and half blocks are the pixels of the PNG" {
    ct-phantom --volume 61x47x5 -o v.tif
    noise c.tif 31x22x3 u8
    img-convert --set axes=x,y,channel --set 'channels=red green blue' c.tif -o c.tif
    for what in "v.tif" "--colormap viridis --window 0,0.03 v.tif" "--zoom 2 --fit 40x33 v.tif" "c.tif"; do
        [[ $what = *fit* ]] || what="--fit 70x50 $what"
        img-view $what | decoded png >want
        img-view --terminal kitty $what | decoded kitty | cmp - want
        img-view --terminal blocks $what | decoded blocks | cmp - want
        img-view --terminal sixel $what | decoded sixel >got
        [ "$(cut -d' ' -f 1 got)" = "$(cut -d' ' -f 1 want)" ]
        # sixels have a hundred levels: within 2 of 255; with more than 256 colours 6 x 7 x 6: within a level
        [[ $what = *c.tif ]] && within=51 || within=2
        perl -e 'open A, $ARGV[0]; open B, $ARGV[1]; @a = split " ", <A>; @b = split " ", <B>; @a == @b or die;
            for $i (1 .. $#a) { @p = map { hex } $a[$i] =~ /../g; @q = map { hex } $b[$i] =~ /../g; @p == 3 && @q == 3 or die;
                for (0..2) { abs($p[$_] - $q[$_]) <= $ARGV[2] or die "$i: $a[$i] $b[$i]"; $sum += $p[$_] - $q[$_] } }
            abs($sum) / 3 / $#a <= ($ARGV[2] > 2 ? 8 : 1) or die "mean ", $sum / 3 / $#a' got want $within
    done
    # by hand from the specification: two columns of seven rows, black and white
    perl -e 'print pack("C*", map { (255, 0) } 1..7)' >s.raw
    img-convert --raw-in 2x7:u8le s.raw -o s.tif
    img-view --terminal sixel --zoom 1 --window 0,255 s.tif >got
    printf '\033P0;1;0q"1;1;2;7#0;2;100;100;100#1;2;0;0;0#0~$#1?~-#0@$#1?@\033\\\n' | cmp - got
    printf '\033[38;2;255;255;255m\033[48;2;255;255;255m\342\226\200\033[38;2;0;0;0m\033[48;2;0;0;0m\342\226\200\033[0m\n' >want
    img-view --terminal blocks --zoom 1 --window 0,255 s.tif | head -n 1 | cmp - want
    # 80 x 24 characters where there is no terminal; small pictures grow
    [ "$(img-view --terminal blocks v.tif | decoded blocks | cut -d' ' -f 1)" = 57x44 ]
    [ "$(img-view --terminal kitty v.tif | decoded kitty | cut -d' ' -f 1)" = 427x329 ]
    [ "$(img-view --terminal kitty --histogram log v.tif | decoded kitty | cut -d' ' -f 1)" = 640x352 ]
    [ "$(img-view --terminal sixel --profile 0,3,60,3 v.tif | decoded sixel | cut -d' ' -f 1)" = 640x352 ]
    img-view -j 1 --terminal sixel v.tif | cmp - <(img-view -j 3 --terminal sixel v.tif)
}

@test "--terminal: auto by the environment, in a terminal only" {
    noise v.tif 30x20x2 u8
    fails 2 "--terminal auto: standard output is not a terminal" img-view --terminal auto v.tif
    [[ "$stderr" == *"hint: --terminal kitty, sixel or blocks writes to files and pipes, too"* ]]
    fails 2 "--terminal auto: standard output is not a terminal" img-view --terminal auto v.tif -o x
    fails 2 "x.png: --terminal writes text with escape sequences" img-view --terminal sixel v.tif -o x.png
    fails 2 "--terminal and --animate cannot be combined" img-view --terminal sixel --animate 3 v.tif
    fails 2 "a series and --terminal cannot be combined" img-view --terminal sixel v.tif -o 'x%d'
    fails 2 "a plot needs 200 x 120 pixels, got 80 x 44" img-view --terminal blocks --histogram log v.tif
    [ "$(find . -name 'x*')" = "" ]
    img-view --terminal blocks v.tif -o text
    img-view --terminal blocks v.tif | cmp - text
    script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "no script(1) that makes a terminal"
    shows() { # ENVIRONMENT KIND
        env -u TMUX -u KITTY_WINDOW_ID -u KONSOLE_VERSION -u WT_SESSION -u TERM_PROGRAM TERM=xterm-256color $1 \
            script -qec 'img-view --terminal auto --window 0,255 v.tif' /dev/null </dev/null | tr -d '\r' >shown
        head -c 6 shown >begin
        case $2 in
            kitty) printf '\033_Ga=T' ;;
            sixel) printf '\033P0;1;' ;;
            blocks) printf '\033[38;2' ;;
        esac | cmp - begin
    }
    shows "A=b" blocks
    shows "TERM=xterm-kitty" kitty
    shows "KITTY_WINDOW_ID=1" kitty
    shows "TERM_PROGRAM=WezTerm" kitty
    shows "TERM=foot" sixel
    shows "TERM=mlterm-256color" sixel
    shows "TERM_PROGRAM=iTerm.app" sixel
    shows "TERM=tmux-256color KITTY_WINDOW_ID=1" blocks
    shows "TERM=xterm-kitty TMUX=/tmp/x" blocks
}

@test "plots of numbers that f64 can hardly tell apart, and of a range that it cannot hold" {
    ct-phantom --volume 4x4x2 -o near.tif
    img-math 'a * 0 + z * 16 + 1e17' --type f64 near.tif -o far.tif
    timeout 20 img-view --histogram log far.tif -o h.png
    img-math 'a * 0 + (z * 2 - 1) * 1.5e308' --type f64 far.tif -o wide.tif
    fails 1 "their difference is beyond f64" img-view --histogram linear wide.tif -o no.png
    for look in "--colormap viridis" --invert "--percentile 1,99" --square "--zoom 2"; do
        fails 2 "cannot be combined" img-view --histogram log $look far.tif -o no.png
    done
    [ ! -e no.png ]
}
