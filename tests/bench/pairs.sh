#!/bin/bash
# How fast is one build beside another? Whole commands of both in turn, A B A B ..., files in memory:
#     pairs.sh BIN_A BIN_B [--device cpu|cuda[:0,1]] [--rounds N] [--only TEXT] [--scale N] [--list]
# For each case the medians of both, B / A of the medians and of the smallest times, and B / A of the processor time,
# which says more where others use the machine. At the end the geometric mean of the ratios and the largest. Data are
# made by A (3 GB in memory); --scale N makes them N times as long (with 1 a case takes 0.3 to 2 s on two cores).
# Prints figures and judges nothing.
set -eu -o pipefail

usage() { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }

if [ $# -lt 2 ] || [ ! -x "$1/img-cat" ] || [ ! -x "$2/img-cat" ]; then usage; fi
BIN_A=$(cd "$1" && pwd) BIN_B=$(cd "$2" && pwd) here=$(cd "$(dirname "$0")" && pwd)
shift 2
device=cpu rounds=5 only='' list='' scale=1
while [ $# -gt 0 ]; do
    case $1 in
    --device) device=${2-}; shift ;;
    --rounds) rounds=${2-}; shift ;;
    --only) only=${2-}; shift ;;
    --scale) scale=${2-}; shift ;;
    --list) list=1 ;;
    *) usage ;;
    esac
    shift
done
[[ $device =~ ^(cpu|cuda(:[0-9,]+)?)$ && $rounds =~ ^[1-9][0-9]*$ && $scale =~ ^[1-9][0-9]*$ ]] || usage
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS
export LC_ALL=C VOXPIPE_DEVICE="$device"

# name | the command; it reads volumes of 307 MB ($f32 $u16 $u8; $big has twice that, $few* fewer pages) and scans
# shellcheck disable=SC2016 # for the shell that runs it
cases='
img-cat, file to file            | img-cat $big -o out
img-cat, a region                | img-cat --region 100:400,50:400 $big -o out
img-cat, pipe to pipe            | cat $big | img-cat | cat >out
img-cat, deflate                 | img-cat --pages :40 --compress deflate $f32 -o out
img-convert f32 to u16           | img-convert --type u16 --scale 20000,5000 $big -o out
img-convert f32 to u8, auto      | img-convert --type u8 --auto $big -o out
img-convert u16 to f32, pipe     | cat $u16 | img-convert --type f32 | cat >out
img-info --statistics            | img-info --statistics --percentiles 1,50,99 $f32
img-math a * 2 + 1               | img-math "a * 2 + 1" $big -o out
img-math of two, if              | img-math "if(b > 0.4, a, sqrt(abs(a)))" $f32 $f32 -o out
img-math u16, pipe to pipe       | cat $u16 | img-math "a / 3" | cat >out
img-gauss sigma 1, f32           | img-gauss --sigma 1 $f32 -o out
img-gauss sigma 1, u8            | img-gauss --sigma 1 $u8 -o out
img-gauss sigma 3, f32           | img-gauss --sigma 3 $f32 -o out
img-gauss sigma 3, u16           | img-gauss --sigma 3 $u16 -o out
img-gauss sigma 10, f32          | img-gauss --sigma 10 $f32 -o out
img-gauss --2d sigma 2, u16      | img-gauss --2d --sigma 2 $u16 -o out
img-gauss derivative 1,0,0       | img-gauss --sigma 2 --derivative 1,0,0 $f32 -o out
img-gauss --iterations 2         | img-gauss --sigma 1.5 --iterations 2 $f32 -o out
img-gauss sigma 2, pipe to pipe  | cat $f32 | img-gauss --sigma 2 | cat >out
img-gauss sigma 2, 100 MB        | img-gauss --memory 100M --sigma 2 $f32 -o out
img-log sigma 2, f32             | img-log --sigma 2 $f32 -o out
img-log sigma 2, u16             | img-log --sigma 2 $u16 -o out
img-local median 3^3, f32        | img-local $f32 -o out
img-local median 3^3, u8         | img-local $u8 -o out
img-local median 7^3, u8         | img-local --radius 3 $few8 -o out
img-local percentile ball, u16   | img-local --stat percentile:20 --shape ball --radius 2 $few16 -o out
img-local mean 9^3, u16          | img-local --stat mean --radius 4 $u16 -o out
img-local std 5^3, f32           | img-local --stat std --radius 2 $f32 -o out
img-local std 5^3, u8            | img-local --stat std --radius 2 $u8 -o out
img-local entropy 5^3, u8        | img-local --stat entropy --radius 2 $few8 -o out
img-local max 7^3, f32           | img-local --stat max --radius 3 $f32 -o out
img-morph erode 31^3, u8         | img-morph --op erode --radius 15 $u8 -o out
img-morph open 5^3, f32          | img-morph --op open --radius 2 $f32 -o out
img-morph tophat ball, u16       | img-morph --op tophat --shape ball --radius 3 $u16 -o out
img-morph close, pipe to pipe    | cat $u8 | img-morph --op close --radius 2 | cat >out
img-morphrecon h-maxima, u8      | img-morphrecon --hmax 10 $u8 -o out
img-wiener 5^3, f32              | img-wiener --noise 0.002 --radius 2 $f32 -o out
img-wiener 3^3, u16, estimated   | img-wiener $u16 -o out
img-threshold sauvola 101^2, u8  | img-threshold --local sauvola --2d --window 101 $u8 -o out
img-threshold otsu, u16          | img-threshold --otsu $u16 -o out
img-nlmeans 3-D, f32             | img-nlmeans --h 0.1 --search 2 $few32 -o out
img-nlmeans --2d, f32            | img-nlmeans --2d --h 0.1 --search 5 --type f32 $few32 -o out
img-sat, u8                      | img-sat $u8 -o out
img-sat, 3-D, f32                | img-sat --3d $f32 -o out
ct-phantom, a scan               | ct-phantom -g $views --noise 1e4 -o out
ct-normalize                     | ct-normalize --flat $flat --dark $dark $counts -o out
ct-filter                        | ct-filter $scan -o out
ct-filter, pipe to pipe          | cat $scan | ct-filter --window hann | cat >out
ct-backproject 256^3             | ct-backproject --volume 256x256x256 $filtered -o out
ct-backproject 256^3, tilted     | ct-backproject --volume 256x256x128 $tilted -o out
ct-backproject, four slabs       | ct-backproject --volume 256x256x256 --memory 60M $filtered -o out
ct-fdk 256^3                     | ct-fdk --volume 256x256x256 $short -o out
ct-fdk from counts               | ct-fdk --flat $flat --dark $dark --views :192 --volume 256x256x128 $counts -o out
ct-fdk, pipe to pipe             | cat $short | ct-fdk --volume 256x256x192 | cat >out
ct-filter to ct-backproject      | ct-filter $short | ct-backproject --volume 256x256x192 -o out
ct-reduce sum of two             | ct-reduce $f32 $f32 -o out
ct-reduce mean of pages          | ct-reduce --pages --op mean $big -o out
cat, gauss, math and convert     | img-cat $f32 | img-gauss | img-math "a * 50" | img-convert --type u8 --scale 1,0 >out
'
cases=$(grep -F -e "$only" <<<"$cases" | grep '|') || { echo "pairs.sh: no case with '$only'" >&2; exit 2; }
if [ -n "$list" ]; then
    printf '%s\n' "$cases"
    exit
fi

# shellcheck source=tests/bench/turns.bash
. "$here/turns.bash"
new_folder pairs

# ---- the data ----

export f32=f32.tif u16=u16.tif u8=u8.tif big=big.tif few32=few32.tif few16=few16.tif few8=few8.tif
export scan=scan.tif views=short.geom short=short.tif filtered=filtered.tif tilted=tilted.tif counts=counts.tif \
    flat=flat.tif dark=dark.tif
(
    PATH=$BIN_A:$PATH VOXPIPE_DEVICE=cpu
    # again N OUT IN: IN N times
    again() {
        local in=()
        for ((i = 0; i < $1; i++)); do in+=("$3"); done
        img-cat "${in[@]}" -o "$2"
    }
    # a noisy scan, whose views are taken for the slices of a volume
    ct-geom --sod 400 --sdd 600 --detector 480x400 --pitch 0.5 --views 80 |
        ct-phantom -g - --noise 2000 --raw-out | img-convert --raw-in 480x400:f32le -o page.tif
    again $((5 * scale)) f32.tif page.tif
    again 2 big.tif f32.tif
    img-cat --pages ::2 page.tif -o few32.tif
    img-math --type u16 'a * 20000 + 5000' page.tif -o page16.tif
    again $((10 * scale)) u16.tif page16.tif
    again $((2 * scale)) few16.tif page16.tif
    img-math --type u8 'a * 80 + 20' page.tif -o page8.tif
    again $((20 * scale)) u8.tif page8.tif
    again $((2 * scale)) few8.tif page8.tif
    if [[ $cases = *ct-* ]]; then
        orbit=(--sod 400 --sdd 600 --detector 384x320 --pitch 0.7)
        ct-geom "${orbit[@]}" --views $((720 * scale)) | ct-phantom -g - --noise 1e5 -o scan.tif
        ct-geom "${orbit[@]}" --views $((128 * scale)) -o short.geom
        ct-geom "${orbit[@]}" --views 128 --tilt 2 | ct-phantom -g - --noise 1e5 | ct-filter -o tilted.tif
        ct-geom "${orbit[@]}" --views 10 | ct-phantom -g - --counts --noise 4e4 --density 0 |
            img-convert --type u16 -o flat.tif
        ct-phantom -g short.geom --noise 1e5 -o short.tif
        ct-filter short.tif -o filtered.tif
        img-math --type u16 '4e4 * exp(-a) + 12' scan.tif -o counts.tif
        img-math --type u16 '(x + y) % 5 + 10' flat.tif -o dark.tif
    fi
)

# ---- the runs ----

echo "machine: $(model), $(nproc) cores; device $device; $rounds rounds"
printf '%-32s %8s %8s   %7s %9s %10s\n' "" "A, s" "B, s" "B / A" "smallest" "processor"
while IFS='|' read -r name command; do
    lacks=$(grep -oE '(ct|img)-[a-z]+' <<<"$command" | while read -r program; do
        [ -x "$BIN_A/$program" ] && [ -x "$BIN_B/$program" ] || echo "$program"
    done)
    if [ -n "$lacks" ]; then
        echo "$name: left out, for one build has no $lacks" >&2
        continue
    fi
    took=$(turns "$command") || exit 1
    echo "$name|$took" |
        awk -F'|' '{ split($2, v, " "); r = v[3] / v[1]; c = v[5] > 0 ? v[7] / v[5] : 1
            printf "%-32s %8.3f %8.3f   %7.3f %9.3f %10.3f\n", $1, v[1], v[3], r, v[4] / v[2], c }'
done <<<"$cases" | tee table
rm -f out
awk '{ r = $(NF - 2); l += log(r); m += log($(NF - 1)); c += log($NF); if (r > w) { w = r; line = $0 } }
    END { printf "\n%d cases: B / A %.3f in the (geometric) mean, %.3f of the smallest times, %.3f of processor time\n",
              NR, exp(l / NR), exp(m / NR), exp(c / NR)
          print "largest:", line }' table
