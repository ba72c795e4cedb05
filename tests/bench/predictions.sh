#!/bin/bash
# Are the times of --plan right, and does `auto` take the faster device? A table of commands, files in memory:
#     predictions.sh BIN [--device cuda] [--mib N] [--rounds N] [--only TEXT] [--processor]
# For each command and size: the seconds that --plan expects and those that it takes (the least of N rounds, from start to
# end), on the CPU and, with --device cuda, on GPUs; predicted / measured; the device of `auto`, and if it is the faster
# one. Sizes: N MiB (512) and an eighth. VOXPIPE_RATES names the rates of the machine (`rates model`), without which the
# table's are used. --processor: processor seconds over the number of processors, where others use the machine; on the CPU
# only. Prints figures and judges nothing.
set -eu -o pipefail

usage() { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }

if [ $# -lt 1 ] || [ ! -x "$1/img-cat" ]; then usage; fi
PATH=$(cd "$1" && pwd):$PATH
shift
device='' mib=512 rounds=2 only='' processor=0
while [ $# -gt 0 ]; do
    case $1 in
    --processor) processor=1; shift; continue ;;
    --device) device=${2-} ;;
    --mib) mib=${2-} ;;
    --rounds) rounds=${2-} ;;
    --only) only=${2-} ;;
    *) usage ;;
    esac
    shift 2 || usage
done
[[ $device =~ ^(cuda(:[0-9,]+)?)?$ && $mib =~ ^[1-9][0-9]*$ && $rounds =~ ^[1-9][0-9]*$ ]] || usage
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_DEVICE
export LC_ALL=C

# name | the type of its input | the command
cases="
math          | f32 | img-math 'a * 2 + 1'
gauss         | f32 | img-gauss --sigma 2
gauss 2-D     | f32 | img-gauss --sigma 2 --2d
gauss wide    | f32 | img-gauss --sigma 10
median        | f32 | img-local
median 5x5    | f32 | img-local --radius 2 --2d
std           | f32 | img-local --stat std
log           | f32 | img-log --sigma 2
erode         | f32 | img-morph --op erode --radius 3
convolve      | f32 | img-convolve --kernel kernel.tif
nlmeans 2-D   | f32 | img-nlmeans --h 10 --2d --search 3
sat           | u8  | img-sat
gauss of u8   | u8  | img-gauss --sigma 2
median of u8  | u8  | img-local
erode of u8   | u8  | img-morph --op erode --radius 3
h-maxima      | u8  | img-morphrecon --hmax 10
"
cases=$(grep -F -e "$only" <<<"$cases" | grep '|') || { echo "predictions.sh: no case with '$only'" >&2; exit 2; }

# shellcheck source=tests/bench/turns.bash
. "$(dirname "$0")/turns.bash"
new_folder predictions
for n in $((mib / 8)) "$mib"; do
    head -c $((n << 18)) /dev/urandom | img-convert --raw-in 512x512:u8 --type f32 -o "f32-$n.tif"
    head -c $((n << 18)) /dev/urandom | img-gauss --raw-in 512x512:u8 --sigma 2 -o "u8-$n.tif" # a quarter of the bytes
done
head -c 25 /dev/urandom | img-cat --raw-in 5x5:u8 -o kernel.tif

# The seconds of a command, or those of its processors over their number.
took() {
    rm -f out.tif # the memory of the one before is given back now
    local TIMEFORMAT='%R %U %S'
    { time eval "$1" 2>error; } 2>times || { cat error >&2; echo "predictions.sh: $1" >&2; exit 1; }
    awk -v busy="$processor" -v n="$(nproc)" '{ printf "%.3f\n", busy ? ($2 + $3) / n : $1 }' times
}
least() { for ((i = 0; i < rounds; i++)); do took "$1"; done | sort -n | head -1; }
expected() { eval "$1 --plan" | sed -n 's/^time: *about \([0-9.e+-]*\) s.*/\1/p'; }

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores; rates: ${VOXPIPE_RATES:-built in}"
printf '%-14s %5s   %-23s %-23s %s\n' "" MiB "CPU: plan, took, ratio" "GPU: plan, took, ratio" auto
while IFS='|' read -r name type command; do
    for n in $((mib / 8)) "$mib"; do
        run="$command ${type// /}-$n.tif -o out.tif --force"
        line=()
        for d in cpu $device; do
            plan=$(expected "$run --device $d") time=$(least "$run --device $d")
            line+=("${plan:-0}" "$time")
        done
        chosen=cpu
        if [ "$device" ]; then eval "$run --plan" | grep -q '^device:' && chosen=gpu; fi
        awk -v name="$name" -v n="$n" -v chosen="$chosen" '{
            printf "%-14s %5d   %-23s", name, n, sprintf("%7.3f %7.3f %5.2f", $1, $2, $1 / $2)
            if (NF < 4) { print ""; next }
            faster = $4 < $2 ? "gpu" : "cpu"; slow = $4 < $2 ? $2 : $4; quick = $4 < $2 ? $4 : $2
            printf " %-23s %s", sprintf("%7.3f %7.3f %5.2f", $3, $4, $3 / $4), chosen
            if (chosen != faster) printf ": the slower one, %.2f times the time", slow / quick
            print "" }' <<<"${line[*]}"
    done
done <<<"$cases"
