#!/bin/bash
# Random images and parameters of a program that works on neighbourhoods, each under random plans (--chunk, --threads,
# --memory, from a file or a pipe), which must give the bytes of one chunk by one thread:
#     chunks.bash PROGRAM
# in an empty folder, the program on the PATH; chunks/PROGRAM.bash has its options. SEED=8 gives others than SEED=7; with DEVICES="cpu cuda:0 cuda:0,1" each
# plan has one of these, and must give the bytes of the first. A script of its own, because in a test of bats each
# command of the shell takes several times as long.
set -eu
DEVICES=${DEVICES:-${VOXPIPE_DEVICE:-cpu}}
TYPES=${TYPES:-u8 u16le i16le f32le f32le i8 u32le i32le f64le} # real devices do not take the last three
export VOXPIPE_DEVICE=${DEVICES%% *}

# processes that share few cores must not wait for their threads in a loop
export OMP_WAIT_POLICY=passive
SEED=${SEED:-7}

# below N: R is a random number in [0, N), always the same ones
below() {
    SEED=$(((SEED * 1103515245 + 12345) & 0x7fffffff))
    R=$(((SEED >> 8) % $1))
}

# one_of WORD...: R is one of them
one_of() {
    below $#
    R=${*:R + 1:1}
}

# any_of TEXT...: the words of one of them become options; R is the text
any_of() {
    local words
    one_of "$@"
    read -ra words <<< "$R"
    OPTIONS+=("${words[@]}")
}

# between LO HI: R in tenths, such as 1.7
between() {
    below $(($2 * 10 - $1 * 10 + 1))
    R=$(((R + $1 * 10) / 10)).$((R % 10))
}

# samples that look like an image (blocks of grey with noise), so that differences and ties both occur
samples() {
    perl -e 'srand 5; @v = map { ($_ / 7 + $_ / 400) % 5 * 40 + rand 50 } 1 .. 40000; open F, ">f32le"; binmode F;
        print F pack("f<*", map { $_ / 7 - 12 } @v); open F, ">int"; binmode F; print F pack("C*", @v) x 12'
    for t in u8 i8 u16le i16le u32le i32le; do cp int "$t"; done
    perl -e 'srand 6; open F, ">f64le"; binmode F; print F pack "d<*", map { ($_ / 7 + $_ / 400) % 5 * 6 - 12 + rand 7 } 1 .. 40000'
}

# image: a random stack in $IN; what reads it in READ, its size in W H D, FLAT if its pages stand alone
image() {
    local pages
    # shellcheck disable=SC2086
    one_of $TYPES
    TYPE=$R
    one_of 40 40 60 9 3 1; below "$R"; W=$((R + 1))
    one_of 32 32 20 9 3 1; below "$R"; H=$((R + 1))
    one_of 20 20 12 6 2 1; below "$R"; D=$((R + 1))
    IN=image.raw
    READ=(--raw-in "${W}x$H:$TYPE")
    head -c $((W * H * D * $(wide "$TYPE"))) "$TYPE" > image.raw
    FLAT=
    below 4
    if [ $D = 1 ]; then R=0; fi
    case $R in
    0) READ+=(--2d) FLAT=1 ;;
    1) # channels inside z, times outside
        one_of 1 2 3; channels=$R
        one_of 1 2; times=$R
        pages=$((D * channels * times))
        one_of u8 u16le; TYPE=$R
        head -c $((W * H * pages * $(wide "$TYPE"))) "$TYPE" > image.raw
        tiff "x y channel z time" "$W $H $channels $D $times" $(($(wide "$TYPE") * 8)) $pages
        IN=image.tif READ=() ;;
    esac
}

wide() {
    case $1 in u8 | i8) echo 1 ;; *32le) echo 4 ;; f64le) echo 8 ;; *) echo 2 ;; esac
}

# tiff AXES SIZES BITS PAGES: image.raw with these axes as image.tif
tiff() {
    perl -e '($axes, $sizes, $bits, $pages) = @ARGV; ($w, $h) = split / /, $sizes; undef $/; open F, "image.raw";
        binmode F; $all = <F>; $page = length($all) / $pages; $text = "voxpipe = 1\naxes = $axes\nsizes = $sizes\n\0";
        sub tag { pack "vvVV", @_ }
        print pack("a2vV", "II", 42, 8);
        for $p (0 .. $pages - 1) {
            $at = ($o += $p ? 0 : 8) + 2 + 12 * 9 + 4; $end = $at + length($text) + $page; $end += $end % 2 if $p + 1 < $pages;
            $ifd = pack("v", 9) . tag(256, 4, 1, $w) . tag(257, 4, 1, $h) . tag(258, 3, 1, $bits) . tag(259, 3, 1, 1)
                . tag(262, 3, 1, 1) . tag(270, 2, length $text, $at) . tag(273, 4, 1, $at + length $text)
                . tag(278, 4, 1, $h) . tag(279, 4, 1, $page) . pack("V", $p + 1 < $pages ? $end : 0);
            print substr($ifd . $text . substr($all, $p * $page, $page) . "\0", 0, $end - $o); $o = $end
        }' "$@" > image.tif
}

# plan: random options in HOW, and in FROM the way that the input takes
plan() {
    local w h d
    HOW=(-q)
    below 3
    if [ "$R" -gt 0 ]; then
        below "$W"; w=$((R + 1))
        below "$H"; h=$((R + 1))
        below "$D"; d=$((R + 1))
        HOW+=(--chunk "${w}x${h}x$d")
    fi
    one_of 1 1 2 3; HOW+=(-j "$R")
    # shellcheck disable=SC2086
    one_of $MEMORY; HOW+=(-m "$R")
    one_of file "standard input" pipe; FROM=$R
    # shellcheck disable=SC2086
    one_of $DEVICES; [ "$R" = - ] || HOW+=(--device "$R")
}

# some_plans PROGRAM CASES: random images and options, 8 plans of each. PROGRAM-options (chunks/PROGRAM.bash) sets OPTIONS, and
# SEEK if a pipe cannot give what they need, and MEMORY where it takes more.
some_plans() {
    local program=$1 cases=$2 case try
    samples
    for ((case = 0; case < cases; case++)); do
        image
        OPTIONS=() SEEK= MEMORY="2500K 4M 20M 1G"
        "$program-options"
        "$program" "${OPTIONS[@]}" "${READ[@]}" --raw-out -q -j 1 -m 1G --chunk "${W}x${H}x$D" $IN > want
        [ -s want ]
        for ((try = 0; try < 8; try++)); do
            plan
            set -- "$program" "${OPTIONS[@]}" "${READ[@]}" --raw-out "${HOW[@]}"
            case $SEEK$FROM in
            "standard input") "$@" < $IN > got ;;
            pipe) cat $IN | "$@" > got ;;
            *) "$@" $IN > got ;;
            esac
            cmp got want || { echo "$* from a $FROM, $PWD/$IN of ${W}x${H}x$D $TYPE"; return 1; }
        done
    done
}

# plans PROGRAM: 208 of them, in two halves at the same time
plans() {
    local half pids=()
    for half in 1 2; do
        (mkdir $half && cd $half && SEED=$((SEED * 2 + half)) && some_plans "$1" 13) &
        pids+=($!)
    done
    wait "${pids[0]}" && wait "${pids[1]}"
}

# lengths NAME LO HI: an option with one length or one for each axis
lengths() {
    local x y z
    between "$2" "$3"; x=$R
    between "$2" "$3"; y=$R
    between "$2" "$3"; z=$R
    if [ -n "$FLAT" ]; then z=0; fi
    one_of "$x" "$x,$y,$z"
    OPTIONS+=("$1" "$R")
}

edge() {
    one_of renormalize renormalize nearest mirror zero wrap
    OPTIONS+=(--edge "$R")
    if [ "$R" = wrap ]; then SEEK=all; fi
}

window() {
    one_of box box ball set
    if [ "$R" = set ]; then footprint; return; fi
    OPTIONS+=(--shape "$R")
    one_of 1 2 4 20
    lengths --radius 0 "$R"
}

# footprint: a random one with its centre, in set.tif
footprint() {
    local w h d
    one_of 1 2 3 7; w=$R
    one_of 1 2 5; h=$R
    one_of 1 2 3; d=$R
    if [ -n "$FLAT" ] || [ "$D" = 1 ]; then d=1; fi
    below 1000
    perl -e '($s, $w, $h, $d) = @ARGV; srand $s; @v = map { int rand 2 } 1 .. $w * $h * $d;
        $v[(int($d / 2) * $h + int($h / 2)) * $w + int($w / 2)] = 1; print pack("C*", @v)' "$R" $w $h $d > set.raw
    img-cat -q --raw-in "${w}x${h}x$d:u8" set.raw -o set.tif
    OPTIONS+=(--footprint set.tif)
}

# samples of f32 become f64, sometimes, where there is FFTW
to_f64() {
    below 2
    if [ "$TYPE$R" = f32le0 ] && [[ "$(ldd "$(command -v img-convolve)")" == *libfftw3* ]]; then
        img-convert --raw-in "${W}x$H:f32le" --type f64 --raw-out image.raw > f64.raw
        TYPE=f64le READ=(--raw-in "${W}x$H:f64le" "${READ[@]:2}")
        mv f64.raw image.raw
    fi
}

# PROGRAM-options sets OPTIONS, READ, SEEK and MEMORY (see some_plans)
# shellcheck source=/dev/null
source "${BASH_SOURCE[0]%/*}/chunks/$1.bash"
plans "$1"
