#!/bin/bash
# How fast do pipes carry samples? Pipelines of two builds in turn, A B A B ..., beside `cat | cat` of the same bytes:
#     pipes.sh BIN_A BIN_B [--device cpu|cuda[:0,1]] [--rounds N] [--only TEXT] [--size N] [--scan N]
# For each pipeline the smallest and the middle time of both, the gigabytes per second that leave its first program
# (at the smallest time), A / B of the smallest times, and B / A of the processor time of all its programs, which says
# more where others use the machine. --size N: stacks of N MiB (1024). --scan N: also a scan of N views of N x N, made
# into N^3 voxels (1024 takes 9 GB of memory, and minutes without a GPU). Prints figures and judges nothing.
set -eu -o pipefail

usage() { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }

if [ $# -lt 2 ] || [ ! -x "$1/img-cat" ] || [ ! -x "$2/img-cat" ]; then usage; fi
BIN_A=$(cd "$1" && pwd) BIN_B=$(cd "$2" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift 2
device=cpu rounds=5 only='' size=1024 scan=0
while [ $# -gt 0 ]; do
    case $1 in
    --device) device=${2-}; shift ;;
    --rounds) rounds=${2-}; shift ;;
    --only) only=${2-}; shift ;;
    --size) size=${2-}; shift ;;
    --scan) scan=${2-}; shift ;;
    *) usage ;;
    esac
    shift
done
[[ $device =~ ^(cpu|cuda(:[0-9,]+)?)$ && $rounds =~ ^[1-9][0-9]*$ && $size =~ ^[1-9][0-9]*$ && $scan =~ ^[0-9]+$ ]] ||
    usage
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS
export LC_ALL=C VOXPIPE_DEVICE="$device"

# name | the file whose bytes leave the first program | the pipeline
cases='
cat, cat                  | big.tif  | cat big.tif | cat >/dev/null
img-cat, cat              | big.tif  | img-cat big.tif | cat >/dev/null
img-cat, cat: odd pages   | odd.tif  | img-cat odd.tif | cat >/dev/null
img-cat, cat: small pages | tiny.tif | img-cat tiny.tif | cat >/dev/null
img-cat, img-cat          | big.tif  | img-cat big.tif | img-cat >/dev/null
cat, img-cat, cat         | big.tif  | cat big.tif | img-cat | cat >/dev/null
img-math, cat             | big.tif  | img-math "a + 1" big.tif | cat >/dev/null
cat, gauss, cat           | big.tif  | img-cat big.tif | img-gauss | img-cat >/dev/null
cat, gauss 2-D, cat       | big.tif  | img-cat big.tif | img-gauss --2d | img-cat >/dev/null
cat, math, convert, cat   | big.tif  | img-cat big.tif | img-math "a * 50" | img-convert --type u16 | img-cat >/dev/null
img-cat, tee, cat         | big.tif  | img-cat big.tif | tee /dev/null | cat >/dev/null
'
[ "$scan" = 0 ] || cases+="
cat, cat: the scan        | scan.tif | cat scan.tif | cat >/dev/null
fdk: file to file         | scan.tif | ct-fdk scan.tif -o out.tif
cat, fdk, cat             | scan.tif | cat scan.tif | ct-fdk | cat >/dev/null
fdk, cat                  | scan.tif | ct-fdk scan.tif | cat >/dev/null
cat, fdk                  | scan.tif | cat scan.tif | ct-fdk -o out.tif
"
cases=$(grep -F -e "$only" <<<"$cases" | grep '|') || { echo "pipes.sh: no case with '$only'" >&2; exit 2; }

# shellcheck source=tests/bench/turns.bash
. "$here/turns.bash"
new_folder pipes
(
    PATH=$BIN_A:$PATH VOXPIPE_DEVICE=cpu
    # bytes N: N random bytes, which as samples are no NaN
    bytes() { head -c "$1" /dev/urandom; }
    bytes $((size << 18)) | img-convert --raw-in 1024x1024:u8 --type f32 -o big.tif
    # shellcheck disable=SC2017 # whole pages
    bytes $(((size << 18) / (994 * 1002) * 994 * 1002)) | img-convert --raw-in 994x1002:u8 --type f32 -o odd.tif
    bytes $((size << 20)) | img-cat --raw-in 128x128:u8 -o tiny.tif
    [ "$scan" = 0 ] || ct-geom --sod "$scan" --sdd "$((scan * 3 / 2))" --detector "${scan}x$scan" --pitch 1 \
        --views "$scan" -o scan.geom
    [ "$scan" = 0 ] || VOXPIPE_DEVICE=$device ct-phantom -g scan.geom -o scan.tif
)

echo "machine: $(model), $(nproc) cores; huge pages: $(cat /sys/kernel/mm/transparent_hugepage/enabled); device $device;" \
    "$rounds rounds"
printf '%-26s %15s %15s %7s %7s %7s %9s\n' "" "A: least, middle" "B: least, middle" "A, GB/s" "B, GB/s" "A / B" "processor"
while IFS='|' read -r name file command; do
    took=$(turns "$command") || exit 1
    echo "$name|$took $(stat -c %s "${file// /}")" |
        awk -F'|' '{ split($2, v, " "); g = v[9] * 1e-9
            printf "%-26s %7.3f %7.3f %7.3f %7.3f %8.2f %7.2f %7.2f %9.2f\n", $1, v[2], v[1], v[4], v[3], g / v[2],
                g / v[4], v[2] / v[4], (v[6] > 0 ? v[8] / v[6] : 1) }'
done <<<"$cases"
