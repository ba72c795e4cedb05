#!/bin/bash
# The two large problems of iFDK (Chen et al. 2019) as ct-fdk plans them: 2048 x 2048 x 4096 views to 4096^3 and 8192^3 on
# 2, 8, 32 and 256 GPUs, beside the paper's table 5. Nothing is computed: only the model's figures are printed.
#
#     bash tests/bench/ifdk.sh [MODEL]
#
# MODEL: lines for ct-fdk --model. Without it: H100s of 80 GB by what is measured in docs/performance.md (kernels), and by
# assumption what was not measured (8 cards a host, 12.5 GB/s from other ranks, storage of 200 GB/s for all).
# Where the volume does not fit all cards, it is made in runs of --slab, whose seconds are added up.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# backproject for voxels as large as the detector's pixels at the axis, half (4096^3) and a quarter (8192^3) as large
common="upload = 40e9
download = 20e9
filter = 8e9
exchange = 12.5e9
load_all = 200e9
store_all = 200e9
host_ranks = 8
memory = 79e9
backproject = 2.87e12"
declare -A coarse=([4096]=3.48e12 [8192]=1.63e12)
declare -A paper=([4096,32]=70.2 [4096,64]=35.6 [4096,128]=18.9 [4096,256]=10.2 [8192,256]=101.3)

ct-geom --sod 500 --sdd 1000 --detector 2048x2048 --pitch 0.4 --views 4096 -o scan.geom
truncate -s $((2048 * 2048 * 4096 * 4)) scan.raw # a file of zeros that takes no room; only its size is read

# seconds N KEY: of the plan
seconds() { awk -v k="T_$1:" '$1 == k { print $2 }' plan; }

printf '%-8s %5s %8s %6s %10s %10s %10s %12s\n' volume GPUs grid runs T_compute T_store T_run "iFDK, V100"
for n in 4096 8192; do
    { echo "${common}"; echo "backproject_coarse = ${coarse[$n]}"; } > model
    [ $# = 0 ] || cat "$1" >> model
    for gpus in 2 8 32 256; do
        for ((runs = 1; runs <= 64; runs++)); do # equal slabs, the fewest that fit
            slices=$(((n + runs - 1) / runs))
            slab=(--slab "0:$slices")
            [ $runs != 1 ] || slab=()
            if ct-fdk -d cpu -g scan.geom --raw-in 2048x2048:f32le scan.raw --volume ${n}x${n}x$n --plan --ranks $gpus \
                --model model "${slab[@]}" > plan 2> error; then
                awk -v n=$n -v g=$gpus -v r=$runs -v c="$(seconds compute)" -v s="$(seconds store)" -v t="$(seconds run)" \
                    -v grid="$(awk '$1 == "grid:" { print $2 "x" ($3 == "slabs" || $3 == "slab" ? $5 : $9) }' plan)" \
                    -v p="${paper[$n,$gpus]:--}" \
                    'BEGIN { printf "%-8s %5d %8s %6d %10.1f %10.1f %10.1f %12s\n", n "^3", g, grid, r, r * c, r * s, r * t, p }'
                break
            fi
            grep -q 'no grid\|memory' error || { cat error >&2; exit 1; }
        done
    done
done
