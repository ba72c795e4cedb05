# One, two, four ... GPUs of a host: functions of gpus_fdk.sh and gpus_images.sh, which begin with `gpus_begin "$@"`.
# shellcheck shell=bash

# gpus_begin BIN [SIZE [DIR]]: sets size, dir and the numbers of GPUs to try; goes to a new folder in DIR
gpus_begin() {
    if [ $# -lt 1 ] || [ ! -x "$1/img-cat" ]; then sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; fi
    PATH=$(cd "$1" && pwd):$PATH
    size=${2:-2048} all=${GPUS:-$(nvidia-smi --list-gpus | wc -l)} failed=0
    unset VOXPIPE_MEMORY VOXPIPE_THREADS VOXPIPE_DEVICE VOXPIPE_DEVICE_MEMORY
    export LC_ALL=C
    dir=$(mktemp -d "${3:-/dev/shm}/voxpipe-bench.XXXXXX")
    trap 'rm -rf "$dir"' EXIT INT TERM
    cd "$dir" || exit 1
    numbers=()
    for ((n = 1; n < all; n *= 2)); do numbers+=("$n"); done
    numbers+=("$all")
    echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores; files in $dir"
    { nvidia-smi --query-gpu=name,memory.total --format=csv,noheader || echo 'no nvidia-smi'; } 2>/dev/null | sort | uniq -c
}

# first N: the device string of the first N GPUs
first() { echo "cuda:$(seq -s, 0 $(($1 - 1)))"; }

# timed COMMAND...: its seconds, in `took`; what it prints on stderr is shown if it fails, and ends all
timed() {
    local start
    start=$(date +%s.%N)
    "$@" 2>error || { echo "$*: $(head -n 3 error)" >&2; exit 1; }
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
}

# value KEY: the number KEY of stats.json, which --stats wrote
value() { tr -d '\n' <stats.json | sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p"; }

# ratio A B: A / B with two decimals
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else print "-" }'; }

# same NAME A B: reports files that differ
same() {
    if cmp "$2" "$3"; then echo "  $1: the same bits"; else echo "  $1: DIFFERENT bits"; failed=1; fi
}
