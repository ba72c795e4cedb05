#!/bin/sh
# run.sh DIR SECONDS [TARGET...]: every fuzz target in DIR/bin for its share of the time. What it finds lies in
# DIR/found/TARGET-*, new inputs in DIR/corpus; the last lines count the runs.
set -eu
dir=$1 seconds=$2
shift 2
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls *_fuzz.c | sed 's/_fuzz\.c//')
mkdir -p "$dir/found"
status=0
: >"$dir/runs"
for target in "$@"; do
    case $target in stream | file | both) corpus=tiff ;; *) corpus=$target ;; esac
    mkdir -p "$dir/corpus/$corpus"
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 OMP_NUM_THREADS=2 "$dir/bin/$target" \
        -max_total_time=$((seconds / $# + 1)) -max_len=4096 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$dir/found/$target-" "$dir/corpus/$corpus" "tests/fuzz/corpus/$corpus" >"$dir/$target.log" 2>&1 ||
        { status=1; echo "$target: found something: $dir/$target.log"; }
    printf '%-12s %s runs\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$target.log")" >>"$dir/runs"
done
cat "$dir/runs"
exit $status
