#!/bin/sh
# `make bench`: the programs built in $1 measured in one run: kernels first, then whole commands in
# memory-backed storage, then peers where they are installed. Prints figures and ratios; judges nothing.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
[ -d /dev/shm ] && [ -w /dev/shm ] && store=/dev/shm || store=${TMPDIR:-/tmp}
dir=$(mktemp -d "$store/voxpipe-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores; files in $store"
for program in "$build"/bench/*; do
    echo
    echo "== $(basename "$program")"
    "$program"
done

echo
echo "== convolution with grids of kernels, with more and more threads"
"$build"/bench/convolve_bench table

echo
echo "== ct-fdk, file to file: 512^2 x 512 views to 512^3, $(nproc) cores"
ct-geom --sod 1000 --sdd 1500 --detector 512x512 --pitch 0.78125 --views 512 -o "$dir/scan.geom"
ct-phantom -g "$dir/scan.geom" -o "$dir/scan.tif"
for i in 1 2 3; do
    rm -f "$dir/vol.tif"
    ct-fdk "$dir/scan.tif" --volume 512x512x512 -o "$dir/vol.tif" --stats "$dir/stats.json"
    tr -d '\n' <"$dir/stats.json"; echo
done
echo
echo "== the same as a pipeline of three programs"
start=$(date +%s.%N)
ct-filter "$dir/scan.tif" | ct-backproject --volume 512x512x512 -o "$dir/vol2.tif"
end=$(date +%s.%N)
awk -v a="$start" -v b="$end" 'BEGIN { printf "%.2f s\n", b - a }'
img-cmp "$dir/vol.tif" "$dir/vol2.tif"

# What a GPU does from process start to exit, file to file and pipe to pipe, in memory-backed storage. The first of three
# runs also pays for memory that was never used before.
if why=$(ct-fdk --device cuda --plan "$dir/scan.tif" 2>&1 >/dev/null); then
    for n in 512 1024; do
        echo
        echo "== ct-fdk --device cuda: $n^2 x 1024 views to $n^3"
        rm -f "$dir"/*.tif
        ct-geom --sod 1000 --sdd 1500 --detector ${n}x$n --pitch "$(awk -v n=$n 'BEGIN { print 400 / n }')" \
            --views 1024 | ct-phantom -g - -o "$dir/scan.tif"
        for where in gpu gpu gpu cpu; do
            rm -f "$dir/vol.tif"
            start=$(date +%s.%N)
            ct-fdk --device cuda --filter-on $where --volume ${n}x${n}x$n "$dir/scan.tif" -o "$dir/vol.tif" \
                --stats "$dir/stats.json"
            end=$(date +%s.%N)
            awk -v a="$start" -v b="$end" -v w=$where 'BEGIN { printf "%.3f s, filtered on the %s: ", b - a, w }'
            tr -d '\n' <"$dir/stats.json"; echo
        done
        start=$(date +%s.%N)
        cat "$dir/scan.tif" | ct-fdk --device cuda --volume ${n}x${n}x$n | cat >/dev/null
        end=$(date +%s.%N)
        cat "$dir/scan.tif" | cat >/dev/null
        copied=$(date +%s.%N)
        awk -v a="$start" -v b="$end" -v c="$copied" \
            'BEGIN { printf "%.3f s from pipe to pipe (cat of the input alone: %.3f s)\n", b - a, c - b }'
    done
    echo
    echo "== local filters, --device cuda: 1024^3 f32, file to file; beside them copies of the file, which bound them"
    rm -f "$dir"/*.tif
    ct-phantom --volume 1024x1024x1024 -o "$dir/in.tif"
    for filter in "cp -T" img-cat "img-gauss --sigma 1" "img-gauss --sigma 3" "img-local --stat median --radius 1" \
        "img-morph --op erode --radius 15"; do
        for i in 1 2 3; do
            rm -f "$dir/out.tif"
            case $filter in
            cp*) set -- "$dir/in.tif" "$dir/out.tif" ;;
            img-cat) set -- "$dir/in.tif" -o "$dir/out.tif" ;;
            *) set -- --device cuda "$dir/in.tif" -o "$dir/out.tif" ;;
            esac
            start=$(date +%s.%N)
            $filter "$@"
            end=$(date +%s.%N)
            awk -v a="$start" -v b="$end" -v n="$filter" 'BEGIN { printf "%-36s %.3f s\n", n, b - a }'
        done
    done
else
    echo
    echo "(no end to end on a GPU: $(echo "$why" | sed -n 's/.*error: //p'))"
fi

if python3 -c 'import scipy' 2>/dev/null; then
    echo
    echo "== peers in Python"
    python3 "$here/peers.py" "$build"
    if python3 -c 'import algotom' 2>/dev/null; then python3 "$here/lab.py" "$build"; fi
    if python3 -c 'import skimage, tifffile' 2>/dev/null; then python3 "$here/thresholds.py" "$build"; fi
else
    echo
    echo "(no SciPy here: no peers to compare with)"
fi
