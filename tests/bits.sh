#!/bin/sh
# Compares the bits of two builds. Runs two thousand commands with both sets of programs and compares their outputs:
#     bits.sh BIN_A BIN_B [--device cpu|cuda[:0,1]] [--quick] [--only TEXT] [--jobs N] [--list]
# Stacks that differ are decoded by the programs of A: samples, size and type must be equal to the bit; a difference
# in the metadata or the layout alone is counted separately, with the keys. Commands that fail must end with the
# same status. Prints every command that differs (or that A should run and does not), and at the end
# "N commands, M differ, K headers differ"; status 0 if there is none but headers. Needs the programs and a shell with
# sed, cmp and diff, nothing else.
#
# --quick runs a seventh of them, --only those that contain TEXT, --jobs N at a time, --list only lists them.
# shellcheck disable=SC2086,SC2030,SC2031,SC2317 # options are split into words; PATH is set in subshells; functions are given
set -u

usage() { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }

if [ $# -lt 2 ] || [ ! -x "$1/img-cat" ] || [ ! -x "$2/img-cat" ]; then usage; fi
BIN_A=$(cd "$1" && pwd) BIN_B=$(cd "$2" && pwd)
DATA=$(cd "$(dirname "$0")/data" && pwd) TABLE=$(cd "$(dirname "$0")" && pwd)/programs
shift 2
device=cpu quick='' only='' list='' jobs=$(nproc)
[ "$jobs" -le 8 ] || jobs=8
while [ $# -gt 0 ]; do
    case $1 in
    --device) device=${2-}; shift ;;
    --jobs) jobs=${2-}; shift ;;
    --only) only=${2-}; shift ;;
    --quick) quick=1 ;;
    --list) list=1 ;;
    *) usage ;;
    esac
    shift
done
case $device in cpu | cuda | cuda:[0-9]*) ;; *) usage ;; esac
[ "$jobs" -gt 0 ] 2>/dev/null || usage

unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS
export LC_ALL=C TZ=UTC DATA OMP_WAIT_POLICY=passive
export VOXPIPE_DEVICE="$device" DEVICE="$device"
[ -d /dev/shm ] && [ -w /dev/shm ] && store=/dev/shm || store=${TMPDIR:-/tmp}
dir=$(mktemp -d "$store/voxpipe-bits.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

# ---- one command ----

count=0

# t COMMAND: must succeed; run by both, compared. In an empty folder; inputs in $IN (../in for both)
t() { try "$1" must; }

# perhaps COMMAND: may fail, but then with both and with the same status
perhaps() { try "$1" may; }

try() {
    count=$((count + 1))
    [ $((count % jobs)) -eq "$job" ] || return 0
    case $1 in *"$only"*) ;; *) return 0 ;; esac
    # a prime, so that the samples cut across the loops
    [ -z "$quick" ] || [ $((count / jobs % 7)) -eq 3 ] || return 0
    if [ -n "$list" ]; then
        printf '%s\n' "$1"
        return 0
    fi
    rm -rf "$here/a" "$here/b"
    mkdir "$here/a" "$here/b"
    (cd "$here/a" && PATH=$BIN_A:$PATH exec sh -c "$1" >stdout 2>../stderr.a </dev/null)
    status=$?
    (cd "$here/b" && PATH=$BIN_B:$PATH exec sh -c "$1" >stdout 2>../stderr.b </dev/null)
    other=$?
    echo >>"$here/commands"
    if [ $status -ne 0 ] && [ "$2" = must ]; then
        echo >>"$here/failed"
        printf 'fails: %s\n    status %s: %s\n' "$1" $status "$(head -n 1 "$here/stderr.a")"
    fi
    if [ $status -ne $other ]; then
        differs "$1" "status $status and $other: $(cat "$here"/stderr.[ab] | head -n 2 | tr '\n' ' ')"
    elif [ $status -eq 0 ]; then
        compare "$1"
    fi
}

differs() {
    echo >>"$here/differ"
    printf 'differs: %s\n    %s\n' "$1" "$2"
}

# compares both outputs: the same files with the same bytes, or stacks that differ in the header only
compare() {
    keys=
    ls "$here/a" >"$here/a.is"
    ls "$here/b" >"$here/b.is"
    if ! cmp -s "$here/a.is" "$here/b.is"; then
        differs "$1" "the files $(tr '\n' ' ' <"$here/a.is")and $(tr '\n' ' ' <"$here/b.is")"
        return
    fi
    for wrote in "$here"/a/*; do
        wrote=${wrote##*/}
        cmp -s "$here/a/$wrote" "$here/b/$wrote" && continue
        if ! described a "$wrote" || ! described b "$wrote"; then
            differs "$1" "$(cmp "$here/a/$wrote" "$here/b/$wrote" 2>&1 | sed "s|$here/||g")"
            return
        elif ! cmp -s "$here/a.is" "$here/b.is"; then
            differs "$1" "$wrote: $(tr '\n' ' ' <"$here/a.is")and $(tr '\n' ' ' <"$here/b.is")"
            return
        elif ! cmp -s "$here/a.raw" "$here/b.raw"; then
            differs "$1" "$wrote: $(cmp -l "$here/a.raw" "$here/b.raw" | wc -l) bytes of samples differ"
            return
        fi
        more=$(diff "$here/a.says" "$here/b.says" | sed -n 's/^[<>] *\([^ ]*\).*/ \1/p' | sort -u | tr -d '\n')
        keys=$keys${more:- layout}
    done
    [ -z "$keys" ] || {
        echo >>"$here/headers"
        printf 'header: %s\n   %s\n' "$1" "$keys"
    }
}

# described SET FILE: samples, type and size, and metadata of a stack; fails if it is none
described() {
    (cd "$here/$1" && PATH=$BIN_A && export PATH && img-cat --raw-out "$2" >"../$1.raw" \
        && img-info --value nx,ny,pages,type "$2" >"../$1.is" && img-info --json "$2" >"../$1.json") 2>/dev/null &&
        sed 's/\], \[/\n/g; s/"metadata"/\n/; s/[][{}",:]/ /g' "$here/$1.json" >"$here/$1.says"
}

# ---- the inputs, made by A ----

make_inputs() (
    PATH=$BIN_A:$PATH
    mkdir "$dir/in" && cd "$dir/in" || exit 1
    set -e
    scan="--sod 400 --sdd 600 --detector 80x60 --pitch 2"
    ct-geom $scan --views 48 -o full.geom
    ct-geom $scan --views 49 -o odd.geom
    ct-geom $scan --views 48 --arc 230 -o short.geom
    ct-geom $scan --views 45 --arc 235 --start 30 --clockwise -o turned.geom
    ct-geom $scan --views 48 --offset-u 12 -o wide.geom
    ct-geom $scan --views 48 --offset-v 5.5 -o raised.geom
    ct-geom $scan --views 48 --tilt 3 -o tilted.geom
    ct-geom $scan --views 48 --tilt 2 --offset-u 1.3 --format matrices -o matrix.geom
    ct-geom --sod 400 --sdd 600 --detector 160x1 --pitch 1 --views 90 -o fan.geom
    ct-geom --beam parallel --detector 80x60 --pitch 1.5 --views 60 --arc 180 -o parallel.geom
    for g in full odd short turned wide raised tilted matrix fan parallel; do
        ct-phantom --device cpu -g $g.geom --noise 1e4 -o $g.tif
    done
    fine="--sod 400 --sdd 600 --detector 200x160 --pitch 0.8 --views 64"
    ct-geom $fine | ct-phantom --device cpu -g - --noise 1e4 -o fine.tif
    ct-geom $fine --offset-v 7.5 --offset-u 3 | ct-phantom --device cpu -g - --noise 1e4 -o fine-raised.tif
    ct-geom $fine --tilt 2 | ct-phantom --device cpu -g - --noise 1e4 -o fine-tilted.tif
    ct-geom $fine --arc 235 --clockwise | ct-phantom --device cpu -g - --noise 1e4 -o fine-short.tif
    ct-phantom --device cpu -g full.geom --counts --noise 2e4 -o counts.tif
    ct-phantom --device cpu -g full.geom --counts --noise 2e4 --density 0 --seed 2 | img-cat --pages 0:5 -o flat.tif
    ct-phantom --device cpu -g full.geom --counts --noise 3e4 --density 0 --seed 3 | img-cat --pages 0:5 -o flat2.tif
    img-math --device cpu --type u16 'x % 3 + y % 2 + 20' flat.tif -o dark.tif
    img-math --device cpu --type u8 'x == 17 or (x == 30 and y > 20)' flat.tif | img-cat --pages 0 -o dead.tif
    img-convert --type u16 counts.tif -o counts16.tif
    ct-filter --device cpu full.tif -o filtered.tif
    img-convert --raw-out full.tif -o scan.raw

    # volumes: a phantom with noise, in every type
    ct-geom --sod 400 --sdd 600 --detector 75x41 --pitch 2 --views 24 |
        ct-phantom --device cpu -g - --noise 100 --raw-out | img-convert --raw-in 75x41:f32le -o f32.tif
    img-math --device cpu --type f64 'a * pi' f32.tif -o f64.tif
    for type in "u8 120 50" "u16 15000 9000" "u32 1e9 1e9" "u64 1e12 1e12" "i8 90 -70" "i16 20000 -10000" \
        "i32 1e9 -5e8" "i64 1e12 -5e11"; do
        set -- $type
        img-math --device cpu --type $1 "max(a, -0.5) * $2 + $3" f32.tif -o $1.tif
    done
    img-math --device cpu --type u16 'a * 20000 % 65536' f32.tif -o full16.tif
    ct-geom --sod 400 --sdd 600 --detector 200x150 --pitch 1 --views 40 |
        ct-phantom --device cpu -g - --noise 1000 --raw-out | img-convert --raw-in 200x150:f32le -o big.tif
    img-math --device cpu --type u16 'a * 4000 + 1000' big.tif -o big16.tif
    img-math --device cpu --type u8 'a * 30 + 20' big.tif -o big8.tif
    ct-geom --sod 400 --sdd 600 --detector 513x300 --pitch 0.5 --views 20 |
        ct-phantom --device cpu -g - --noise 1000 --raw-out | img-convert --raw-in 513x300:f32le -o wide-f32.tif
    img-math --device cpu --type u16 'a * 4000 + 1000' wide-f32.tif -o wide-u16.tif
    img-math --device cpu --type u8 'a * 30 + 20' wide-f32.tif -o wide-u8.tif
    img-math --device cpu 'if(a > 1.2, nan, if(a < -0.25, inf, a))' f32.tif -o nan.tif
    img-math --device cpu 'if(page == 3, 0, 7.25)' f32.tif -o flat-field.tif
    img-cat --pages 5 big.tif -o page.tif
    img-cat --region 3:4,0:60 big.tif -o line.tif
    img-cat --region 0:200,4:6 --pages 0:3 big.tif -o rows.tif
    img-math --device cpu --type u8 'a > 0.5' f32.tif -o mask.tif
    img-convert --raw-out f32.tif -o f32.raw
    img-convert --raw-out u16.tif -o u16.raw
    img-cat --compress deflate f32.tif -o deflate.tif
    img-cat --compress zstd u16.tif -o zstd.tif
    ct-phantom --device cpu --volume 50x40x30 --voxel 0.5,0.5,1.5 -o voxels.tif
    head -c 100000 f32.tif >cut.tif
    mkdir pages
    for p in 0 1 2 10 11; do img-cat --pages $p u16.tif -o pages/p$p.tif; done
    img-cat --region 3:10,2:8 page.tif | img-math --device cpu 'a + x * y' -o kernel.tif
    printf 'f32.tif\nnan.tif\n' >list.txt
    printf '0 0 0  20 30 10  0 0.02\n5 5 0  3 3 3  0 0.01\n' >two.txt
)

# ---- the commands ----

# each_program FUNCTION: calls FUNCTION NAME INPUT ARGUMENTS for every line of the table of programs that A has
each_program() {
    while IFS='|' read -r name input arguments more; do
        [ ! -x "$BIN_A/${name%% *}" ] || "$1" "${name%% *}" "$input" "$arguments"
    done <"$TABLE"
}

# from COMMAND FILE: from a file, redirected and from a pipe
from() {
    t "$1 $2 -o out.tif"
    t "$1 <$2 >out.tif"
    t "cat $2 | $1 | cat >out.tif"
}

# plans COMMAND FILE WxHxD...: with other plans: threads, memory, boxes
plans() {
    plans_command="$1 $2" plans_file=$2
    from "$1" "$2"
    t "$plans_command -j 1 -o out.tif"
    t "$plans_command -j 3 >out.tif"
    t "$plans_command --memory 40M -o out.tif"
    t "cat $2 | $1 --memory 50M -j 2 >out.tif"
    shift 2
    for chunk; do
        t "$plans_command --chunk $chunk -o out.tif"
    done
    t "cat $plans_file | ${plans_command% *} --chunk $chunk --raw-out -j 2 >out"
    t "$plans_command --plan >/dev/null"
}

# programs that take a volume, as in the table, for samples of every type
table_commands() {
    take() {
        case $1:$2 in img-cmp:*) return ;; *vol.tif*) ;; *) return ;; esac # has commands of its own
        what=$(echo "$3" | sed "s| \([a-z]*\.tif\)| $IN/\1|g; s/  */ /g")
        for type in u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 nan big wide-u16; do
            perhaps "$1$what$IN/$type.tif >out"
        done
    }
    each_program take
}

gauss_commands() {
    for type in u8 u16 i8 i16 f32; do
        for sigma in 0.4 1 1.8 3 8 0,3,1 3,0,0 0,0,3 2,4,0; do
            t "img-gauss --sigma $sigma $IN/$type.tif -o out.tif"
        done
        t "img-gauss --sigma 2 --highpass $IN/$type.tif -o out.tif"
        t "img-gauss --sigma 1.2 --type f32 $IN/$type.tif -o out.tif"
        t "img-gauss --2d --sigma 2 $IN/$type.tif -o out.tif"
        t "img-gauss --sigma 1.5 --derivative 1,0,0 $IN/$type.tif -o out.tif"
        t "img-log --sigma 1.5 $IN/$type.tif -o out.tif"
        t "img-convolve -k $IN/page.tif --normalize --edge nearest $IN/$type.tif -o out.tif"
        t "img-deconvolve -k $IN/page.tif -n 3 $IN/$type.tif -o out.tif"
        t "img-log --sigma 3,1,2 $IN/$type.tif -o out.tif"
    done
    for type in u32 i64 f64; do
        perhaps "img-gauss $IN/$type.tif -o out.tif"
        perhaps "img-log $IN/$type.tif -o out.tif"
    done
    for type in full16 nan flat-field page line rows big voxels; do
        t "img-gauss --sigma 1.3 $IN/$type.tif -o out.tif"
        t "img-log --sigma 1.3 $IN/$type.tif -o out.tif"
    done
    for edge in nearest mirror zero wrap; do
        t "img-gauss --edge $edge --sigma 2,9 $IN/page.tif -o out.tif"
        for type in f32 u16 line; do
            t "img-gauss --edge $edge --sigma 1 $IN/$type.tif -o out.tif"
            t "img-gauss --edge $edge --sigma 2,4,9 $IN/$type.tif -o out.tif"
            t "img-log --edge $edge --sigma 2 $IN/$type.tif -o out.tif"
        done
        t "img-gauss --edge $edge --derivative 0,1,0 --sigma 2 $IN/f32.tif -o out.tif"
    done
    for order in 0,1,2 2,0,0 0,0,1 1,1,1 0,2,0; do
        t "img-gauss --sigma 1 --derivative $order $IN/f32.tif -o out.tif"
        t "img-gauss --sigma 1.7 --derivative $order --type same $IN/i16.tif -o out.tif"
    done
    for n in 2 3 7; do
        t "img-gauss --iterations $n --sigma 1.1 $IN/f32.tif -o out.tif"
        t "img-gauss --iterations $n --sigma 0.7 --highpass $IN/u8.tif -o out.tif"
    done
    t "img-gauss --physical --sigma 2 $IN/voxels.tif -o out.tif"
    t "img-gauss --physical --sigma 1 --derivative 1,0,0 $IN/voxels.tif -o out.tif"
    t "img-log --physical --sigma 1 $IN/voxels.tif -o out.tif"
    t "img-log --scale-normalize --sigma 2 $IN/f32.tif -o out.tif"
    t "img-log --2d --sigma 2 $IN/big16.tif -o out.tif"
    t "img-gauss --truncate 2.5 --sigma 3 $IN/f32.tif -o out.tif"
    t "img-gauss --truncate 6 --sigma 2 $IN/f32.tif -o out.tif"
    t "img-gauss --sigma 40 $IN/u16.tif -o out.tif"
    t "img-gauss --2d --sigma 30 --highpass $IN/big.tif -o out.tif"
    t "img-gauss --sigma 2 $IN/full.tif -o out.tif"
    plans "img-gauss --sigma 1" $IN/big.tif 200x150x1 64x16x8 37x150x40
    plans "img-gauss --sigma 2.5" $IN/big16.tif 200x150x7 200x11x9 64x64x64
    plans "img-gauss --sigma 6" $IN/big8.tif 200x150x3 33x33x33
    plans "img-gauss --sigma 1.5 --iterations 2" $IN/big.tif 200x150x5 50x50x50
    plans "img-gauss --sigma 2 --derivative 1,0,1" $IN/big16.tif 200x150x4 64x20x11
    plans "img-gauss --2d --sigma 4" $IN/big.tif 64x64 200x40x3
    plans "img-log --sigma 2" $IN/big.tif 200x150x4 32x32x32
    plans "img-log --2d --sigma 1.5" $IN/big8.tif 64x64 200x40x3
}

local_commands() {
    for type in u8 u16 i8 i16 f32; do
        for stat in mean median min max std var percentile:10 percentile:83.5; do
            t "img-local --stat $stat --radius 1 $IN/$type.tif -o out.tif"
            t "img-local --stat $stat --radius 4,2,3 $IN/$type.tif -o out.tif"
        done
        for stat in mean median max var; do
            t "img-local --stat $stat --shape ball --radius 2 $IN/$type.tif -o out.tif"
            t "img-local --stat $stat --2d --radius 3 $IN/$type.tif -o out.tif"
        done
        t "img-local --stat entropy --radius 2 $IN/$type.tif -o out.tif"
        t "img-local --stat std --radius 1 --type f32 $IN/$type.tif -o out.tif"
        for op in erode dilate open close tophat bothat gradient; do
            t "img-morph --op $op --radius 2 $IN/$type.tif -o out.tif"
        done
        t "img-morph --op erode --radius 15,7,0 $IN/$type.tif -o out.tif"
        t "img-morph --op close --shape ball --radius 3 $IN/$type.tif -o out.tif"
        for option in --fill-holes --clear-border --regional-max "--open 2" "--hmax 1"; do
            t "img-morphrecon $option $IN/$type.tif -o out.tif"
            t "img-morphrecon --2d $option $IN/$type.tif -o out.tif"
        done
        t "img-wiener --radius 1 $IN/$type.tif -o out.tif"
        case $type in # the noise
        f32) sigma=0.1 variance=0.01 ;;
        u8 | i8) sigma=10 variance=100 ;;
        *) sigma=1700 variance=3e6 ;;
        esac
        t "img-wiener --radius 2 --noise $variance --type f32 $IN/$type.tif -o out.tif"
        for how in "--otsu" "--at $sigma" "--local mean --window 5" "--local niblack --window 9,5,3" \
            "--local sauvola --r $sigma --2d --window 15" "--local bradley --shape ball --window 5 --below"; do
            t "img-threshold $how $IN/$type.tif -o out.tif"
        done
        t "img-nlmeans --h $sigma --search 2 $IN/$type.tif -o out.tif"
        t "img-nlmeans --2d --h $sigma --sigma $sigma --search 3 --type f32 $IN/$type.tif -o out.tif"
        t "img-sat --exclusive $IN/$type.tif -o out.tif"
        t "img-sat --3d $IN/$type.tif -o out.tif"
    done
    for type in u32 i64 f64; do
        for program in "img-local --stat max" "img-local --stat entropy" "img-morph --op open" img-wiener \
            "img-nlmeans --h 1"; do
            perhaps "$program $IN/$type.tif -o out.tif"
        done
    done
    for type in full16 nan flat-field page line rows voxels; do
        for stat in mean median max std entropy; do
            t "img-local --stat $stat --radius 2 $IN/$type.tif -o out.tif"
        done
        t "img-morph --op open --radius 2 $IN/$type.tif -o out.tif"
        t "img-wiener $IN/$type.tif -o out.tif"
        t "img-nlmeans --h 0.4 --search 2 $IN/$type.tif -o out.tif"
    done
    for radius in 0,0,2 7 2,0,0 0,5,0 12,12,1; do
        for stat in mean median min var; do
            t "img-local --stat $stat --radius $radius $IN/f32.tif -o out.tif"
            t "img-local --stat $stat --radius $radius $IN/u16.tif -o out.tif"
        done
    done
    for shape in box ball; do
        t "img-local --shape $shape --stat percentile:25 --radius 3,3,1 $IN/u8.tif -o out.tif"
        t "img-local --shape $shape --stat entropy --radius 2,3,1 --bins 20 --range 0,2 $IN/f32.tif -o out.tif"
        t "img-local --shape $shape --stat entropy --radius 3 --bins 1000 $IN/u16.tif -o out.tif"
        t "img-local --shape $shape --iterations 3 $IN/f32.tif -o out.tif"
        t "img-local --shape $shape --stat mean --iterations 4 --radius 2 $IN/u8.tif -o out.tif"
        t "img-morph --shape $shape --op dilate --iterations 4 --radius 2,1,1 $IN/u16.tif -o out.tif"
        t "img-morph --shape $shape --op gradient --2d --radius 6 $IN/big.tif -o out.tif"
        t "img-morph --shape $shape --op tophat --radius 8 $IN/f32.tif -o out.tif"
        t "img-wiener --shape $shape --2d --radius 4 $IN/big16.tif -o out.tif"
    done
    t "img-local --stat var --sample --radius 1 $IN/f32.tif -o out.tif"
    t "img-local --stat std --sample --radius 2,1,1 $IN/u8.tif -o out.tif"
    t "img-local --stat mean --physical --radius 1.5 $IN/voxels.tif -o out.tif"
    t "img-local --radius 2 $IN/full.tif -o out.tif"
    t "img-local --stat entropy --radius 1 <$IN/f32.tif >out.tif"
    t "cat $IN/f32.tif | img-local --stat entropy --radius 1 --range 0,2 >out.tif"
    t "cat $IN/f32.tif | img-local --stat entropy --radius 1 --spool >out.tif"
    t "cat $IN/f32.tif | img-wiener --spool >out.tif"
    t "img-nlmeans --h 0.4 --search 3,2,1 --patch 2,1,0 $IN/f32.tif -o out.tif"
    t "img-nlmeans --h 20 --sigma 10 --search 4,4,0 --patch 0 $IN/u8.tif -o out.tif"
    t "img-nlmeans --2d --h 0.3 $IN/page.tif -o out.tif"
    plans "img-local" $IN/big.tif 200x150x1 64x16x8
    plans "img-local --radius 3 --stat percentile:30" $IN/big8.tif 200x150x7 33x50x9
    plans "img-local --stat mean --radius 4" $IN/big16.tif 200x150x5 40x40x40
    plans "img-local --stat std --radius 2 --type f32" $IN/big8.tif 200x150x5 64x20x7
    plans "img-local --stat var --radius 5,1,0" $IN/big.tif 200x150x3 50x31x10
    plans "img-local --stat max --radius 6" $IN/big.tif 200x150x6 41x37x20
    plans "img-local --stat entropy --radius 2 --range 0,2 --bins 64" $IN/big.tif 200x150x6 41x37x20
    plans "img-morph --op erode --radius 15,30,12" $IN/big.tif 8x64x3 64x16x2
    plans "img-morph --op close --radius 3" $IN/big8.tif 200x150x9 30x30x30
    plans "img-morphrecon --hmax 20 --connectivity 18" $IN/big8.tif 200x150x9 30x30x30
    plans "img-morph --op tophat --shape ball --radius 4" $IN/big16.tif 200x150x9 30x30x30
    plans "img-wiener --radius 2 --noise 0.002" $IN/big.tif 200x150x9 64x64x10
    plans "img-wiener --2d --radius 3 --noise 0.002" $IN/page.tif 64x64 200x40
    for how in "--gaussian 2" "--gaussian 3,1 --angle 30 --samples 3" "--gaussian 1,1,2 --shift 0.3,0,0.5" \
        "--moffat 3 --size 31" "--airy 4 --obstruction 0.3" "--motion 7 --angle 20"; do
        t "img-psf $how -o out.tif"
    done
    plans "img-threshold --local niblack --window 7" $IN/big16.tif 200x150x5 40x40x40
    plans "img-threshold --otsu" $IN/big8.tif 200x150x5 64x20x7
    plans "img-nlmeans --h 0.3 --search 1 --patch 1" $IN/big.tif 200x150x9 64x64x10
}

math_commands() {
    for type in u8 u16 u32 u64 i8 i16 i32 i64 f32 f64; do
        t "img-math a $IN/$type.tif -o out.tif"
        t "img-math 'a * 1.5 + 2' $IN/$type.tif -o out.tif"
        t "img-math --type $type 'a * 100 - 3000' $IN/f32.tif -o out.tif"
        perhaps "img-math --type f32 'if(a > b, a - b, nan)' $IN/$type.tif $IN/f32.tif -o out.tif"
        t "img-convert --type $type $IN/f32.tif -o out.tif"
        t "img-convert --type $type --auto $IN/f64.tif -o out.tif"
        t "img-convert --type $type --window -10,200 $IN/i16.tif -o out.tif"
        t "img-convert --type $type $IN/i32.tif -o out.tif"
        t "img-convert --type f32 --scale 0.5,-3 $IN/$type.tif -o out.tif"
        t "img-convert --type $type --raw-out $IN/full16.tif >out"
    done
    for e in 'a + b' 'a - b' 'a / b' 'a * b' 'a % 3' 'a ^ 2' 'b ^ 0.5' 'sqrt(a) + exp(-b)' 'log(a)' 'abs(a - 2)' \
        'floor(a) + ceil(b) + round(a * 10)' 'min(a, b, 2)' 'max(a, b, 1)' 'clip(a, 0.5, 2)' 'if(b > 70, a, 0)' \
        'isnan(a)' 'a > 1 and b < 80' 'not a or b == 3' 'x + 10 * y + 100 * z' 'page' 'a != b' 'a <= b' '(-a)' 'a % b' \
        'if(isnan(a) or abs(a) == inf, 0, a)' 'pi * a ^ 3 / (1 + b ^ 2)'; do
        t "img-math '$e' $IN/f32.tif $IN/u8.tif -o out.tif"
        t "img-math '$e' $IN/nan.tif $IN/i16.tif -o out.tif"
    done
    t "img-math 'a + b + c + d' $IN/u8.tif $IN/u16.tif $IN/i8.tif $IN/f64.tif -o out.tif"
    t "img-math -e 'a - b' $IN/i64.tif $IN/i32.tif -o out.tif"
    t "img-math 'a - b' $IN/big.tif $IN/page.tif -o out.tif"
    t "img-math 'a - b' $IN/f32.tif - <$IN/u8.tif >out.tif"
    t "cat $IN/f32.tif | img-math 'a - b' - $IN/u8.tif >out.tif"
    t "img-math 'a * 2' $IN/full.tif -o out.tif"
    plans "img-math 'if(a > 1, a, x * y)'" $IN/big.tif 200x150x1 64x16x8
    plans "img-math --type u8 'a / 20 + z'" $IN/big16.tif 200x150x9 50x50x10
}

stack_commands() {
    for part in '--pages 3' '--pages 2:9' '--pages ::2' '--pages -1' '--pages 5,1,5' '--pages ::-1' '--reverse' \
        '--region 3:40,5:30' '--region 10:11,0:41 --pages 1:3' '--pages 4: --reverse'; do
        from "img-cat $part" $IN/f32.tif
        t "img-cat $part $IN/u8.tif $IN/u8.tif >out.tif"
        perhaps "img-convert $part --type u16 --auto $IN/f32.tif -o out.tif"
        t "img-cat $part --raw-in 75x41:u16le $IN/u16.raw -o out.tif"
    done
    for f in f32 u16 deflate zstd nan voxels full page rows; do
        t "img-cat $IN/$f.tif >out.tif"
        t "img-cat --raw-out $IN/$f.tif >out"
        t "img-cat --compress deflate $IN/$f.tif -o out.tif"
        t "img-cat --compress zstd -j 1 $IN/$f.tif -o out.tif"
        t "img-cat $IN/$f.tif $IN/$f.tif $IN/$f.tif -o out.tif"
        t "img-info $IN/$f.tif"
        t "img-info -v --json --statistics $IN/$f.tif"
        t "img-info --histogram 20 --percentiles 1,50,99 <$IN/$f.tif"
        perhaps "cat $IN/$f.tif | img-info --value mean,min,max,std,sum,nx,type"
        t "img-cmp $IN/$f.tif $IN/$f.tif; echo \$?"
        t "img-view $IN/$f.tif -o out.png"
        t "img-view --montage 4 --zoom 2 --invert <$IN/$f.tif >out.png"
    done
    t "img-info --mask $IN/mask.tif --statistics --region 3:70,4:30 $IN/f32.tif"
    t "img-info --statistics --join $IN/u16.tif $IN/u16.tif"
    t "img-info --statistics --raw-in 75x41:f32le,skip=12300 $IN/f32.raw"
    for f in u8 i16 f64 nan deflate; do
        t "img-cmp $IN/$f.tif $IN/f32.tif; echo \$?"
        t "img-cmp --json --nan-equal --scale 0.02 <$IN/$f.tif - $IN/f32.tif; echo \$?"
        t "img-cmp --mask $IN/mask.tif --atol 0.5 --max-rel-l2 0.1 $IN/$f.tif $IN/f32.tif; echo \$?"
        t "img-convert --type u16 $IN/$f.tif | img-convert --type f32 | img-convert --type u8 --window 0,3 -o out.tif"
        t "cat $IN/$f.tif | img-convert --type u16 --auto --spool >out.tif"
    done
    t "img-cat $IN/pages -o out.tif"
    t "cd $IN && img-cat @list.txt"
    t "img-cat --region 5:60,5:30 $IN/pages/p0.tif $IN/pages/p10.tif >out.tif"
    t "img-cat $DATA/htc2022_01a_seg.tif >out.tif"
    t "cat $DATA/htc2022_01a_reference.tif | img-cat --spool --region 100:300,50:400 >out.tif"
    t "img-convert --type u8 --auto $DATA/htc2022_01a_reference.tif -o out.tif"
    t "img-gauss --sigma 2 $DATA/htc2022_01a_reference.tif -o out.tif"
    t "img-local --radius 2 $DATA/htc2022_01a_reference.tif --compress deflate -o out.tif"
    t "img-morph --op open --radius 4 $DATA/htc2022_01a_seg.tif -o out.tif"
    t "img-convert --type u16 --auto $IN/f32.tif | img-convert --unscale -o out.tif"
    t "img-convert --type u16 --auto $IN/f32.tif | img-convert --type u8 --scale 0.001,2 -o out.tif"
    for axis in x y z; do
        t "img-view --axis $axis $IN/voxels.tif -o out.png"
        t "cat $IN/big16.tif | img-view --axis $axis --slice 7 --fit 90x90 >out.png"
        t "img-view --axis $axis --montage 6 --columns 2 --window 0,3 --square $IN/f32.tif -o out.png"
    done
    t "img-view --ortho --at 10,20,5 $IN/voxels.tif -o out.png"
    t "img-view --ortho --percentile 5,95 <$IN/f32.tif -o out.png"
    for op in sum mean min max; do
        for type in u8 u16 i16 i32 f32 f64; do
            t "ct-reduce --op $op $IN/$type.tif $IN/$type.tif -o out.tif"
            t "ct-reduce --op $op --pages $IN/$type.tif -o out.tif"
        done
        t "ct-reduce --op $op $IN/f32.tif $IN/nan.tif $IN/flat-field.tif -o out.tif"
        t "cat $IN/big16.tif | ct-reduce --op $op --pages - >out.tif"
        t "ct-reduce --op $op -j 1 --memory 30M $IN/big.tif - <$IN/big.tif >out.tif"
    done
    # failures must be the same
    for f in cut missing list; do
        for program in img-cat img-gauss img-local img-info "img-math a" img-convert ct-filter ct-fdk \
            "ct-reduce --pages" img-view img-wiener "img-nlmeans --h 1" "img-morph --op erode" img-log \
            "img-threshold --otsu"; do
            perhaps "$program $IN/$f.tif >out"
        done
        perhaps "cat $IN/$f.tif | img-gauss | img-cat >out"
    done
    refuse() {
        perhaps "$1"
        perhaps "$1 --nonsense $IN/f32.tif"
        perhaps "$1 --memory lots $IN/f32.tif"
        t "$1 --version >/dev/null"
        perhaps "$1 --device $DEVICE --help >/dev/null"
    }
    each_program refuse
    perhaps "img-gauss --sigma -1 $IN/f32.tif"
    perhaps "img-gauss --sigma 4 --chunk 0x1x1 $IN/f32.tif"
    perhaps "img-cat --region 0:500,0:2 $IN/f32.tif"
    perhaps "img-cat $IN/f32.tif $IN/u16.tif"
    perhaps "img-math 'a +' $IN/f32.tif"
    perhaps "img-math 'a + b' $IN/f32.tif $IN/big.tif"
    perhaps "img-gauss --memory 10K $IN/big.tif"
    perhaps "ct-fdk --memory 10K $IN/full.tif"
    perhaps "img-cat --raw-in 70x41:u16le $IN/u16.raw"
    perhaps "img-gauss $IN/f32.tif >/dev/full"
    perhaps "ct-fdk $IN/full.tif >/dev/full"
}

# larger than a tile of any kernel
large_commands() {
    for type in f32 u16 u8; do
        for command in "img-gauss --sigma 1" "img-gauss --sigma 2" "img-gauss --sigma 3,3,1" \
            "img-gauss --sigma 10" "img-gauss --2d --sigma 1.5" "img-log --sigma 1" "img-log --sigma 3" "img-local" \
            "img-local --radius 2,2,0" "img-local --stat mean --radius 3" "img-local --stat std --radius 2" \
            "img-morph --op erode --radius 15" "img-morph --op open --radius 2,3,1" \
            "img-wiener --radius 2 --noise 0.01" "img-threshold --local niblack --2d --window 31" "img-math 'a * 2 + x'" \
            "img-local --stat entropy --range 0,2 --bins 40 --2d" "img-local --stat max --shape ball --radius 4"; do
            t "$command $IN/wide-$type.tif -o out.tif"
        done
    done
    for scan in fine fine-raised fine-tilted fine-short; do
        for volume in 160x150x140 128x128x128 256x200x2 64x64x48 100x100x200; do
            t "ct-fdk --volume $volume $IN/$scan.tif -o out.tif"
        done
        t "ct-filter $IN/$scan.tif | ct-backproject --memory 60M --volume 160x160x80 >out.tif"
        t "ct-fdk --memory 80M --device-memory 12M --volume 160x160x160 $IN/$scan.tif -o out.tif"
    done
}

ct_commands() {
    for g in full odd short turned wide raised tilted matrix fan parallel; do
        t "ct-geom $IN/$g.geom"
        t "ct-geom --show $IN/$g.tif"
        t "ct-geom --format matrices $IN/$g.geom"
        t "ct-phantom -g $IN/$g.geom -o out.tif"
        t "ct-phantom -g $IN/$g.geom --volume 30x30x20 --samples 2 >out.tif"
        t "ct-phantom -g $IN/$g.geom --layout sinograms --noise 1e3 --seed 7 >out.tif"
        t "ct-filter $IN/$g.tif -o out.tif"
        t "ct-filter --window hann --cutoff 0.8 --pad 0.3 <$IN/$g.tif >out.tif"
        t "cat $IN/$g.tif | ct-filter --window hamming --weights none -j 1 >out.tif"
        t "ct-filter $IN/$g.tif | ct-backproject -o out.tif"
        t "ct-filter $IN/$g.tif | ct-backproject --volume 65x40x31 --center 3,-2,1 --voxel 1.1,1,1.3 >out.tif"
        from "ct-fdk" $IN/$g.tif
        t "ct-fdk --volume 33x47x20 $IN/$g.tif -o out.tif"
        t "ct-fdk --volume 64x64x64 --voxel 0.4 --window cosine $IN/$g.tif -o out.tif"
        t "ct-fdk --volume 40x40x1 -j 1 $IN/$g.tif -o out.tif"
        t "ct-fdk --slab 3:17 --volume 40x40x30 $IN/$g.tif -o out.tif"
        t "ct-fdk --views 3:30 $IN/$g.tif -o out.tif"
        t "ct-fdk --memory 30M --volume 120x120x90 $IN/$g.tif -o out.tif"
        t "ct-fdk --memory 40M $IN/$g.tif | cat >out.tif"
        perhaps "ct-fdk --subsets 2 --volume 50x50x30 $IN/$g.tif -o out.tif"
        t "ct-fdk --filter-on cpu $IN/$g.tif -o out.tif"
        perhaps "ct-fdk --filter-on gpu $IN/$g.tif -o out.tif"
        t "ct-fdk --plan $IN/$g.tif >/dev/null"
    done
    for window in ram-lak shepp-logan cosine hamming hann; do
        t "ct-filter --window $window --cutoff 0.5 $IN/full.tif -o out.tif"
        t "ct-fdk --window $window --pad 1 $IN/wide.tif -o out.tif"
    done
    for weights in auto none parker wang; do
        for g in full short turned wide; do
            perhaps "ct-filter --weights $weights $IN/$g.tif -o out.tif"
            perhaps "ct-fdk --weights $weights --volume 30x30x20 $IN/$g.tif -o out.tif"
        done
    done
    t "ct-filter --no-cosine $IN/full.tif -o out.tif"
    t "ct-fdk --no-cosine --raw-out $IN/full.tif >out"
    t "ct-filter --raw-in 80x60:f32le -g $IN/full.geom $IN/scan.raw -o out.tif"
    t "cat $IN/scan.raw | ct-fdk --raw-in 80x60:f32le -g $IN/full.geom >out.tif"
    measured="--layout sinograms -g $DATA/htc2022.geom $DATA/htc2022_01a_sino.tif"
    t "ct-fdk $measured --volume 200x200x1 --voxel 0.35 -o out.tif"
    t "ct-filter $measured -o out.tif"
    sinograms="ct-phantom -g $IN/full.geom --layout sinograms"
    t "$sinograms | ct-fdk --layout sinograms -o out.tif"
    t "$sinograms | ct-filter --layout sinograms | ct-backproject --layout sinograms >out.tif"
    t "$sinograms --raw-out | ct-fdk --layout sinograms --raw-in 80x48:f32le -g $IN/full.geom >out.tif"

    # back-projection by itself: plans, parts, memory
    from "ct-backproject" $IN/filtered.tif
    for volume in 64x64x64 63x64x65 128x16x40 20x20x2 16x16x300 96x96x96 200x200x3; do
        t "ct-backproject --volume $volume $IN/filtered.tif -o out.tif"
        t "cat $IN/filtered.tif | ct-backproject --volume $volume --memory 60M >out.tif"
        t "ct-backproject --volume $volume --device-memory 8M $IN/filtered.tif -o out.tif"
        t "ct-backproject --volume $volume --memory 40M -j 3 $IN/filtered.tif >out.tif"
        perhaps "ct-backproject --volume $volume --subsets 2 $IN/filtered.tif -o out.tif"
    done
    for views in 0:1 :7 5: 11:30 47:48; do
        t "ct-backproject --views $views --volume 40x40x40 $IN/filtered.tif -o out.tif"
        t "cat $IN/filtered.tif | ct-backproject --views $views --volume 40x40x40 >out.tif"
    done
    for slab in 0:10 10:11 20: ; do
        t "ct-backproject --slab $slab --volume 40x40x40 $IN/filtered.tif -o out.tif"
        t "ct-fdk --slab $slab --volume 40x40x40 $IN/full.tif -o out.tif"
    done
    part="ct-backproject --volume 40x40x40 $IN/filtered.tif"
    t "$part --views :24 -o a.tif && $part --views 24: -o b.tif && ct-reduce a.tif b.tif -o out.tif"
    t "$part --slab :20 -o a.tif && $part --slab 20: -o b.tif && ct-reduce --join a.tif b.tif -o out.tif"
    t "img-cat --pages ::2 $IN/full.tif | ct-fdk >out.tif"
    t "img-cat --pages 0:40 $IN/full.tif | ct-filter | ct-backproject >out.tif"
    t "img-convert --type u16 --auto $IN/full.tif | ct-fdk >out.tif"
    t "img-convert --type u16 --auto $IN/full.tif | img-convert --unscale | ct-fdk >out.tif"
    perhaps "ct-backproject $IN/full.tif -o out.tif"
    perhaps "ct-fdk $IN/filtered.tif -o out.tif"

    # normalisation, alone and fused
    for o in "--flat $IN/flat.tif" "--flat $IN/flat.tif --dark $IN/dark.tif" "--i0 20000" "--i0 20000 --zinger 1.5" \
        "--flat $IN/flat.tif --flat $IN/flat2.tif" "--flat $IN/flat.tif --flat $IN/flat2.tif --flat-at 5,40" \
        "--flat $IN/flat.tif --dead $IN/dead.tif" "--i0 20000 --floor 0.5" \
        "--flat $IN/flat.tif --dark $IN/dark.tif --dead $IN/dead.tif --zinger 1.2"; do
        for f in counts counts16; do
            t "ct-normalize $o $IN/$f.tif -o out.tif"
            t "cat $IN/$f.tif | ct-normalize $o -j 1 >out.tif"
            t "ct-normalize --no-log $o <$IN/$f.tif >out.tif"
            t "ct-normalize $o $IN/$f.tif | ct-filter | ct-backproject >out.tif"
            t "ct-fdk $o $IN/$f.tif -o out.tif"
            t "cat $IN/$f.tif | ct-fdk $o --filter-on cpu --volume 60x50x40 >out.tif"
        done
    done
    perhaps "ct-normalize $IN/counts.tif"
    perhaps "ct-fdk $IN/counts.tif"

    # phantoms
    for phantom in shepp-logan spheres $IN/two.txt; do
        t "ct-phantom --phantom $phantom -g $IN/full.geom -o out.tif"
        t "ct-phantom --phantom $phantom --radius 30 --density 0.1 -g $IN/tilted.geom --samples 2 >out.tif"
        t "ct-phantom --phantom $phantom -g $IN/full.geom --counts --noise 1e4 --seed 9 -j 1 >out.tif"
        t "ct-phantom --phantom $phantom --volume 50x40x30 -o out.tif"
        t "ct-phantom --phantom $phantom --volume 50x40x30 --slab 4:9 --samples 3 --voxel 1,2,3 --memory 30M >out.tif"
    done
    t "ct-phantom --volume 40x40x40 | img-gauss --sigma 1.5 | img-local | img-convert --type u8 --auto --spool >out.tif"
    t "ct-geom $IN/full.geom --offset-u 3 --clockwise | ct-phantom -g - | ct-fdk | img-view -o out.png"
    for program in img-gauss img-log "img-local --stat max" "img-morph --op open" "img-nlmeans --h 1 --search 1" \
        img-wiener "img-math a+1" "img-local --stat std --radius 3" "img-local --radius 3" \
        "img-threshold --local mean --window 9"; do
        t "$program --device $DEVICE $IN/big.tif -o out.tif"
    done
    t "ct-filter $IN/full.tif | ct-backproject --device $DEVICE -o out.tif"
    t "ct-fdk --device $DEVICE $IN/full.tif -o out.tif"
    t "ct-fdk $IN/full.tif | img-gauss | img-math 'a * 1000' | img-morph --op open | img-cat --pages 3:9 >out.tif"
    t "ct-fdk $IN/full.tif | img-log --sigma 1.5 | img-info --statistics"
    t "ct-fdk $IN/full.tif | img-nlmeans --h 0.002 --search 2 | img-wiener --noise 1e-6 --radius 1 >out.tif"
}

# ---- all of it ----

# this job's share of the commands, its results in files
work() {
    job=$1 here=$dir/$1 IN=../in
    mkdir "$here"
    touch "$here/commands" "$here/differ" "$here/headers" "$here/failed"
    ln -s "$dir/in" "$here/in"
    export IN
    table_commands
    gauss_commands
    local_commands
    math_commands
    stack_commands
    large_commands
    ct_commands
}

if [ -n "$list" ]; then
    job=0 jobs=1 IN=../in
    table_commands; gauss_commands; local_commands; math_commands; stack_commands; large_commands; ct_commands
    exit
fi
if ! make_inputs >"$dir/log" 2>&1; then
    cat "$dir/log" >&2
    echo "bits.sh: the inputs could not be made with $BIN_A" >&2
    exit 1
fi
n=0
while [ $n -lt "$jobs" ]; do
    work $n &
    n=$((n + 1))
done
wait
lines() { cat "$dir"/[0-9]*/"$1" | wc -l | tr -d ' '; }
echo "$(lines commands) commands, $(lines differ) differ, $(lines headers) headers differ"
[ "$(lines differ)" -eq 0 ] && [ "$(lines failed)" -eq 0 ]
