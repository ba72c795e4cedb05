#!/bin/sh
# tsan.sh BUILD: the unit tests and every program on several threads, built with clang's thread sanitizer. Archer
# reports OpenMP's synchronization to it.
set -u
build=$1
cd "$(dirname "$0")/.." || exit 1
archer=$(ls /usr/lib/llvm-*/lib/libarcher.so 2>/dev/null | tail -n 1)
[ -n "$archer" ] || { echo "libarcher.so is missing: apt-get install libomp-dev" >&2; exit 1; }
export OMP_TOOL_LIBRARIES="$archer" OMP_NUM_THREADS=4 VOXPIPE_BUILD="$build"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66 allocator_may_return_null=1"
failed=0
mkdir -p "$build/log"
for test in "$build"/unit/*; do
    log=$build/log/$(basename "$test")
    status=0
    "$test" >"$log" 2>&1 || status=$?
    # 1: a check that fails because of the sanitizer's own memory, such as a peak
    if [ "$status" -gt 1 ] || grep -q ThreadSanitizer "$log"; then
        failed=1
        echo "$test: status $status"
        grep -A 12 'ThreadSanitizer' "$log" | head -n 40
    fi
done
bats -f 'any number of threads|hold the same pages|give the same bytes' tests/common.bats || failed=1
exit $failed
