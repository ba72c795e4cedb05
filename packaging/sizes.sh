#!/bin/sh
# Prints the sizes of programs, stripped, and of the CUDA plugin by family of kernels, in MB:  sizes.sh [BUILD_FOLDER]
# A family is the part of cuda/FAMILY_....cu before the first underscore; code of all architectures is counted.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mb() { awk -v n="$1" -v name="$2" 'BEGIN { printf "%8.2f  %s\n", n / 1e6, name }'; }
for file in "$build"/bin/* "$build"/lib/voxpipe/*.so; do
    [ -f "$file" ] && [ ! -h "$file" ] || continue
    ${STRIP:-strip} -o "$copy/one" "$file"
    mb "$(stat -c %s "$copy/one")" "$(basename "$file")"
done
# of the newest build of the plugin
objects=$(ls -td "$build"/obj-*/*/cuda 2>/dev/null | head -n 1)
[ -n "$objects" ] || exit 0
for object in "$objects"/*.cu.o; do
    family=$(basename "$object" .cu.o)
    size -A "$object" | awk -v family="${family%%_*}" '$1 == ".nv_fatbin" { n += $2 } END { print family, n + 0 }'
done | awk '{ n[$1] += $2 } END { for (f in n) printf "%8.2f    %s\n", n[f] / 1e6, f }' | sort -rn
