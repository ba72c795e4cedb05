#!/bin/bash
# Morphological reconstruction from file to file, on a GPU, on the CPU and beside a copy of the same stack:
#     morphrecon_gpu.sh BIN [SIZE [DIR]]
# BIN has the programs, with the plugin in ../lib/voxpipe. The stacks are SIZE^3 of u8 (default 2048: 25 GB in DIR, which
# is /dev/shm), SIZE/2 x SIZE/2 x SIZE/4 of f32, and SIZE/4 ^3 of u8, of smoothed noise. For each it prints the seconds of
# img-cat, of --device cuda (each run), of --device cpu and of auto, what the planner expected, and what the stages took.
# Exit status 1: a result of the GPU has other bits than the CPU's.
set -eu -o pipefail

if [ $# -lt 1 ] || [ ! -x "$1/img-morphrecon" ]; then sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; fi
PATH=$(cd "$1" && pwd):$PATH size=${2:-2048} dir=${3:-/dev/shm} failed=0
unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_PLUGINS VOXPIPE_DEVICE VOXPIPE_DEVICE_MEMORY
export LC_ALL=C
dir=$(mktemp -d "$dir/voxpipe-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
cd "$dir"

# seconds COMMAND...: prints what it takes
seconds() {
    local start end
    start=$(date +%s.%N)
    "$@"
    end=$(date +%s.%N)
    awk -v a="$start" -v b="$end" 'BEGIN { printf "%.2f", b - a }'
}

# stages FILE: the stages of a run, from its statistics
stages() { tr -d '\n' <"$1" | grep -o '"stages": {[^}]*}' | tr -d '"{}' | sed 's/^stages: //; s/\(\.[0-9][0-9]\)[0-9]*/\1/g'; }

# row NAME INPUT RUNS OPTION...: one command on every device
row() {
    local name=$1 in=$2 runs=$3
    shift 3
    echo "== $name: img-morphrecon $*"
    printf '  img-cat  '
    for i in 1 2; do rm -f copy.tif; printf ' %s' "$(seconds img-cat "$in" -o copy.tif)"; done
    rm -f copy.tif
    echo
    img-morphrecon --device cuda "$@" "$in" -o gpu.tif --plan | sed -n 's/^\(passes\|chunks\|device\|limit\):/  plan     \1:/p'
    printf '  cuda     '
    for i in $(seq "$runs"); do
        rm -f gpu.tif
        printf ' %s' "$(seconds img-morphrecon --device cuda "$@" "$in" -o gpu.tif --stats stats.json)"
    done
    echo
    echo "            $(stages stats.json)"
    if [ -n "${cut:-}" ]; then
        rm -f cut.tif
        echo "  cuda      $(VOXPIPE_DEVICE_MEMORY=$cut seconds img-morphrecon --device cuda "$@" "$in" -o cut.tif \
            --stats stats.json) within $cut of the device's memory"
        echo "            $(stages stats.json)"
        cmp -s gpu.tif cut.tif || { echo "  DIFFERENT bits within $cut"; failed=1; }
        rm -f cut.tif
    fi
    rm -f cpu.tif
    echo "  cpu       $(seconds img-morphrecon --device cpu "$@" "$in" -o cpu.tif --stats stats.json)"
    echo "            $(stages stats.json)"
    cmp gpu.tif cpu.tif && echo "  same bits" || { echo "  DIFFERENT bits"; failed=1; }
    rm -f cpu.tif
    if [ -z "${cut:-}" ]; then
        rm -f auto.tif
        echo "  auto      $(seconds img-morphrecon "$@" "$in" -o auto.tif --stats stats.json) on" \
            "$(grep -o '"device": "[a-z]*"' stats.json)"
    fi
    rm -f gpu.tif auto.tif
}

# noise WIDTH HEIGHT PAGES FILE: smoothed noise of u8, the same every 64 pages
noise() {
    local all
    head -c "$(($1 * $2 * 64))" /dev/urandom | img-cat --raw-in "$1x$2:u8" - -o raw.tif
    img-gauss --device cpu --sigma 1.5 --type f32 raw.tif -o smooth.tif
    img-math --type u8 'clip((a - 127.5) * 8 + 127.5, 0, 255)' smooth.tif -o part.tif
    all=$(($3 / 64))
    # shellcheck disable=SC2046 # a name for each
    img-cat $(yes part.tif | head -n "$all") -o "$4"
    rm -f raw.tif smooth.tif part.tif
}

echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores; files in $dir"
nvidia-smi --query-gpu=name,memory.total,memory.free --format=csv,noheader 2>/dev/null || true
noise $((size / 4)) $((size / 4)) $((size / 4)) small.tif
row "$((size / 4))^3 u8" small.tif 3 --hmax 10
row "$((size / 4))^3 u8" small.tif 2 --fill-holes
rm -f small.tif
noise $((size / 2)) $((size / 2)) $((size / 4)) middle8.tif
img-math --type f32 'a * 1.7 + x * 0.001' middle8.tif -o middle.tif
rm -f middle8.tif
row "$((size / 2)) x $((size / 2)) x $((size / 4)) f32" middle.tif 3 --hmax 20
rm -f middle.tif
noise "$size" "$size" "$size" large.tif
cut=8GiB row "$size^3 u8" large.tif 2 --hmax 10
exit "$failed"
