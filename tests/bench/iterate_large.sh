#!/bin/bash
# ct-iterate with volumes that fit neither a card nor the memory, on one GPU or several, seconds of each command:
#     iterate_large.sh BIN [SIZE [DIR]]
# SIZE is the side of the volume (default 2048: 21 GB of views in DIR, by default /dev/shm; volumes of the scratch folder lie in
# $SCRATCH, by default /tmp, which must be on a disk). BIN has the programs, the plugins lie in ../lib/voxpipe; $GPUS is the
# number of cards, by default all; $WITHOUT names parts to leave out: bits, held, turn, wide.
#   bits: SIZE / 8, 2 iterations: held, in turn, in the scratch folder and on several cards give the same voxels
#   held: cgls, 2 iterations of SIZE^3 from SIZE / 2 views of SIZE^2, on one card within $CARD (default 75GiB), on all
#   turn: one iteration of the same within a quarter of that
#   wide: one iteration of SIZE x SIZE x SIZE / 4 from 1800 views of (2 SIZE)^2 within 16 GiB of host memory at 2048
# Volumes are thrown away. Exit status 1: two results that must have the same bits differ.
set -eu -o pipefail
. "$(dirname "$0")/gpus.bash"
gpus_begin "$@"
SCRATCH=${SCRATCH:-/tmp} CARD=${CARD:-75GiB}

part() { case ",${WITHOUT:-}," in *",$1,"*) return 1 ;; esac; echo "== $1: $2"; }

# geometry DETECTOR VIEWS: makes DETECTOR-VIEWS.geom; the object is 0.8 DETECTOR mm wide
geometry() { ct-geom --sod $((8 * $1)) --sdd $((10 * $1)) --detector "$1x$1" --pitch 1 --views "$2" -o "$1-$2.geom"; }

# scan DETECTOR VIEWS: makes DETECTOR.tif, projections of a phantom of coarse voxels
scan() {
    local coarse=$(($1 / 8 < 256 ? $1 / 8 : 256))
    geometry "$1" "$2"
    ct-phantom -g "$1-$2.geom" --volume "${coarse}x${coarse}x$coarse" --voxel "$(awk -v n="$1" -v c=$coarse \
        'BEGIN { print 0.8 * n / c }')" -o object.tif
    timed ct-project -g "$1-$2.geom" --device "$(first 1)" object.tif -o "$1.tif"
    rm object.tif
    echo "  the scan: $took s"
}

# iterate NAME OPTION...: prints seconds, what the plan says of the volumes, and the residuals
iterate() {
    local name=$1
    shift
    timed ct-iterate --method cgls --margin 0 --history history --stats stats.json "$@"
    echo "  $name: $took s; reading $(value read) s, projecting $(value project) s, back $(value back-project) s; kernels" \
        "$(value project_kernel_seconds) and $(value back_project_kernel_seconds) s"
    awk -F '\t' 'NR > 1 { printf "    iteration %s after %s s, residual %s\n", $1, $2, $4 }' history
}

bytes() { awk -v n="$1" -v per="$2" 'BEGIN { printf "%.0f", n ^ 3 * 4 * per }'; }

few=$((size / 8))
if part bits "$few^3 from $((few / 2)) views of $few^2"; then
    scan $few $((few / 2))
    common=(-n 2 --volume "${few}x${few}x$few" --voxel 0.8)
    iterate held "${common[@]}" --device "$(first 1)" -o held.tif $few.tif
    iterate turn "${common[@]}" --device "$(first 1)" --device-memory "$(bytes $few 1.7)" -o other.tif $few.tif
    same "in turn" held.tif other.tif
    iterate scratch "${common[@]}" --device "$(first 1)" --memory "$(bytes $few 2.5)" --scratch "$SCRATCH" -o other.tif $few.tif
    same "in the scratch folder" held.tif other.tif
    if [ "$all" -gt 1 ]; then
        iterate "$all cards" "${common[@]}" --device "$(first "$all")" -o other.tif $few.tif
        same "$all cards" held.tif other.tif
    fi
    rm -f held.tif other.tif $few.tif
fi
if part held "$size^3 from $((size / 2)) views of $size^2"; then
    [ -e "$size.tif" ] || scan "$size" $((size / 2))
    for n in "${numbers[@]}"; do
        iterate "$n within $CARD each" -n 2 --volume "${size}x${size}x$size" --voxel 0.8 --device "$(first "$n")" \
            --device-memory "$CARD" -o /dev/null "$size.tif"
    done
fi
if part turn "the same, in turn"; then
    [ -e "$size.tif" ] || scan "$size" $((size / 2))
    iterate "a quarter of it" -n 1 --volume "${size}x${size}x$size" --voxel 0.8 --device "$(first 1)" \
        --device-memory "$(bytes "$size" 0.6)" -o /dev/null "$size.tif"
fi
rm -f ./*.tif
if part wide "$size x $size x $((size / 4)) from 1800 views of $((2 * size))^2, a file of 225 views named 8 times"; then
    # views of an eighth of the turn, again and again: only the time is of interest
    geometry $((2 * size)) 225
    geometry $((2 * size)) 1800
    ct-phantom -g "$((2 * size))-225.geom" -o wide.tif
    iterate "within $(bytes "$size" 0.5) bytes of host memory" -n 1 -g "$((2 * size))-1800.geom" --volume \
        "${size}x${size}x$((size / 4))" --voxel 0.8 --device "$(first "$all")" --memory "$(bytes "$size" 0.5)" --scratch "$SCRATCH" \
        -o /dev/null wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif
fi
exit "$failed"
