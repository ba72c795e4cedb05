#!/bin/sh
# run.sh DIR SECONDS [TARGET...]: every fuzz target in DIR/bin for so many seconds, one on each processor. What it finds lies
# in DIR/found/TARGET-*, new inputs in DIR/corpus; the last lines count the runs and what they reached of the code. The
# status is 1 if something was found, and if a target sees nothing: it dies at once, or all that is in its corpus reaches no
# more than an empty input does.
set -eu
dir=$1 seconds=$2
shift 2
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls *_fuzz.c | sed 's/_fuzz\.c//')
rm -rf "$dir/said"
mkdir -p "$dir/found" "$dir/said" "$dir/nothing"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive

printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} sh -c '
    dir=$1 seconds=$2 target=$3 log=$1/$3.log
    case $target in stream | file | both) corpus=tiff ;; *) corpus=$target ;; esac
    mkdir -p "$dir/corpus/$corpus"
    covered() { sed -n "s/^#[0-9]*[[:space:]]*[A-Z]*[[:space:]]*cov: \([0-9]*\).*/\1/p" "$1" | tail -n 1; }
    "$dir/bin/$target" -runs=0 "$dir/nothing" >"$log" 2>&1 || true
    empty=$(covered "$log")
    why=
    "$dir/bin/$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$dir/found/$target-" "$dir/corpus/$corpus" "tests/fuzz/corpus/$corpus" >"$log" 2>&1 ||
        why="found something: $log"
    runs=$(sed -n "s/^stat::number_of_executed_units: *//p" "$log") seen=$(covered "$log")
    [ -n "$why" ] || [ "${seen:-0}" -gt "$((${empty:-0} + 20))" ] || why="sees nothing: $log"
    printf "%-12s %10s runs, %6s places in the code (%s of an empty input) %s\n" \
        "$target" "${runs:-0}" "${seen:-0}" "${empty:-0}" "$why" >"$dir/said/$target"
    [ -z "$why" ]' sh "$dir" "$seconds" {} && status=0 || status=1
cat "$dir"/said/*
exit $status
