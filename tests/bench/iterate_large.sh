#!/bin/bash
# ct-iterate with volumes that fit neither a card nor the memory, on one GPU or several, seconds of each command:
#     iterate_large.sh BIN [SIZE [DIR]]
# SIZE is the side of the volume (default 2048: 21 GB of views in DIR, by default /dev/shm; volumes of the scratch folder lie in
# $SCRATCH, by default /tmp, which must be on a disk). BIN has the programs, the plugins lie in ../lib/voxpipe; $GPUS is the
# number of cards, by default all; $WITHOUT names parts to leave out: bits, held, turn, wide.
#   bits: SIZE / 4 x SIZE / 4 x 1040, 2 iterations: held, in turn (within $TURN volumes, default 2.8), in the scratch folder (within
#         $SPILL volumes, default 3.5) and on several cards give the same voxels
#   held: cgls, 2 iterations of SIZE^3 from SIZE / 2 views of SIZE^2, on one card within $CARD (default 75GiB), on all
#   turn: one iteration of the same within a quarter of that
#   wide: one iteration of SIZE x SIZE x SIZE / 4 from 1800 views of (2 SIZE)^2 within 16 GiB of host memory at 2048
# Volumes are thrown away. Exit status 1: a command failed, or two results that must have the same bits differ.
set -eu -o pipefail
. "$(dirname "$0")/gpus.bash"
gpus_begin "$@"
SCRATCH=${SCRATCH:-/tmp} CARD=${CARD:-75GiB}

part() { case ",${WITHOUT:-}," in *",$1,"*) return 1 ;; esac; echo "== $1: $2"; }

# geometry WxH VIEWS: makes WxH-VIEWS.geom; the object is 0.8 W mm wide
geometry() {
    local w=${1%x*}
    ct-geom --sod $((8 * w)) --sdd $((10 * w)) --detector "$1" --pitch 1 --views "$2" -o "$1-$2.geom"
}

# scan WxH VIEWS: makes WxH.tif, projections of a phantom of coarse voxels
scan() {
    local w=${1%x*} h=${1#*x} n
    n=$((w / 8 < 16 ? 16 : w / 8 < 256 ? w / 8 : 256))
    geometry "$1" "$2"
    ct-phantom -g "$1-$2.geom" --volume "${n}x${n}x$((n * h / w))" --voxel "$(awk -v w="$w" -v n=$n 'BEGIN { print 0.8 * w / n }')" \
        -o object.tif
    timed ct-project -g "$1-$2.geom" --device "$(first 1)" object.tif -o "$1.tif"
    rm object.tif
    echo "  the scan: $took s"
}

# iterate NAME OPTION...: prints seconds, what the plan says of the volumes, and the residuals
iterate() {
    local name=$1
    shift
    rm -f history other.tif
    if ! (timed ct-iterate --method cgls --margin 0 --history history --stats stats.json "$@" && echo "$took" >took); then
        failed=1
        return 0
    fi
    took=$(cat took)
    echo "  $name: $took s; reading $(value read) s, projecting $(value project) s, back $(value back-project) s; kernels" \
        "$(value project_kernel_seconds) and $(value back_project_kernel_seconds) s"
    awk -F '\t' 'NR > 1 { printf "    iteration %s after %s s, residual %s\n", $1, $2, $4 }' history
}

# bytes VOXELS N: bytes of N volumes of f32
bytes() { awk -v n="$1" -v per="$2" 'BEGIN { printf "%.0f", n * 4 * per }'; }

few=$((size / 4)) cube=$((size * size * size))
if part bits "$few x $few x 1040, three slabs, from $((few / 2)) views"; then
    scan "${few}x1300" $((few / 2))
    common=(-n 2 --volume "${few}x${few}x1040" --voxel 0.8) voxels=$((few * few * 1040))
    iterate held "${common[@]}" --device "$(first 1)" -o held.tif "${few}x1300.tif"
    iterate turn "${common[@]}" --device "$(first 1)" --device-memory "$(bytes $voxels "${TURN:-2.8}")" -o other.tif "${few}x1300.tif"
    [ ! -e other.tif ] || same "in turn" held.tif other.tif
    iterate scratch "${common[@]}" --device "$(first 1)" --memory "$(bytes $voxels "${SPILL:-3.5}")" --scratch "$SCRATCH" -o other.tif \
        "${few}x1300.tif"
    [ ! -e other.tif ] || same "in the scratch folder" held.tif other.tif
    if [ "$all" -gt 1 ]; then
        iterate "$all cards" "${common[@]}" --device "$(first "$all")" -o other.tif "${few}x1300.tif"
        [ ! -e other.tif ] || same "$all cards" held.tif other.tif
    fi
    rm -f held.tif other.tif "${few}x1300.tif"
fi
if part held "$size^3 from $((size / 2)) views of $size^2"; then
    [ -e "${size}x$size.tif" ] || scan "${size}x$size" $((size / 2))
    for n in "${numbers[@]}"; do
        iterate "$n within $CARD each" -n 2 --volume "${size}x${size}x$size" --voxel 0.8 --device "$(first "$n")" \
            --device-memory "$CARD" -o /dev/null "${size}x$size.tif"
    done
fi
if part turn "the same, in turn"; then
    [ -e "${size}x$size.tif" ] || scan "${size}x$size" $((size / 2))
    iterate "a quarter of it" -n 1 --volume "${size}x${size}x$size" --voxel 0.8 --device "$(first 1)" \
        --device-memory "$(bytes $cube 0.6)" -o /dev/null "${size}x$size.tif"
fi
rm -f ./*.tif
if part wide "$size x $size x $((size / 4)) from 1800 views of $((2 * size))^2, a file of 225 views named 8 times"; then
    # views of an eighth of the turn, again and again: only the time is of interest
    wide=$((2 * size))x$((2 * size))
    geometry $wide 225
    geometry $wide 1800
    ct-phantom -g $wide-225.geom -o wide.tif
    iterate "within $(bytes $cube 0.5) bytes of host memory" -n 1 -g $wide-1800.geom --volume \
        "${size}x${size}x$((size / 4))" --voxel 0.8 --device "$(first "$all")" --memory "$(bytes $cube 0.5)" --scratch "$SCRATCH" \
        -o /dev/null wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif wide.tif
fi
exit "$failed"
