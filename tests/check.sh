#!/bin/sh
# Runs the unit tests in $1 and every tests/*.bats (or the files given after $1), as many at a time as
# there are processors, and ends with the line "N passed, N failed, N skipped". `make check` calls it.
# Tests of floating-point filters are repeated with smaller instruction sets, see VOXPIPE_ISA in voxpipe(7).
set -u
build=$1
shift
cd "$(dirname "$0")/.." || exit 1
export VOXPIPE_BUILD="$build"
log=$build/check
rm -rf "$log"
mkdir -p "$log"
again=''
if [ $# -eq 0 ]; then
    set -- tests/*.bats
    [ -n "${VOXPIPE_ISA-}" ] || again='ct-filter img-gauss img-log img-nlmeans'
fi
command -v bats >/dev/null 2>&1 || { echo "bats is missing: sh tests/run.sh installs it" >&2; exit 1; }

for test in "$build"/unit/*; do
    name=unit-$(basename "$test")
    if "$test" >"$log/$name.out" 2>&1; then
        echo "ok 1 $name" >"$log/$name.tap"
    else
        { echo "not ok 1 $name"; sed 's/^/# /' "$log/$name.out"; } >"$log/$name.tap"
    fi
done
{
    printf '%s\n' "$@"
    for name in $again; do printf '%s\n' "avx2 tests/$name.bats" "generic tests/$name.bats"; done
} | xargs -P "$(nproc)" -I{} sh -c '
    file=${1##* } set=${1% *} name=$(basename "$file" .bats)
    if [ "$set" != "$file" ]; then export VOXPIPE_ISA="$set"; name=$name-$set; fi
    bats -F tap "$file" >"$2/$name.tap" 2>&1 || true' sh {} "$log"

passed=0 failed=0 skipped=0
for tap in "$log"/*.tap; do
    name=$(basename "$tap" .tap)
    s=$(grep -c '^ok .* # skip' "$tap")
    p=$(($(grep -c '^ok ' "$tap") - s))
    f=$(grep -c '^not ok ' "$tap")
    # a file that reports fewer tests than planned has failed
    plan=$(sed -n 's/^1\.\.//p' "$tap" | head -n 1)
    [ -z "$plan" ] || [ "$plan" -eq $((p + f + s)) ] || f=$((f + plan - p - f - s))
    [ $((p + f + s)) -gt 0 ] || f=1
    printf '%-24s %3d passed' "$name" "$p"
    [ "$f" -eq 0 ] || printf ', %d failed' "$f"
    [ "$s" -eq 0 ] || printf ', %d skipped' "$s"
    printf '\n'
    [ "$f" -eq 0 ] || grep -v '^ok ' "$tap"
    grep '^ok .* # skip' "$tap" | sed 's/^ok [0-9]*/    skipped:/'
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped" | tee "$log/summary"
[ "$failed" -eq 0 ]
