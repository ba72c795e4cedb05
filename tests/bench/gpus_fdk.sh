#!/bin/bash
# FDK and cgls on 1, 2, 4 ... GPUs of one host, as one process and as ranks, beside what the plan expects:
#     gpus_fdk.sh BIN [SIZE [DIR]]
# SIZE^2 detectors (default 2048), files in DIR (default /dev/shm: 64 GiB of views and one volume of 256 GiB at most).
# BIN has the programs, the plugins lie in ../lib/voxpipe; $GPUS is the number of cards, by default all; $MODEL the program
# of `make model`, by default ../bench/model; $WITHOUT names parts to leave out: efficiency, ranks, store, huge, cgls.
#   efficiency: SIZE views to SIZE^3, thrown away, on 1, 2, 4 ... cards by one process
#   ranks:      2 SIZE views to (2 SIZE)^3, thrown away, by one process, and by as many ranks as cards in every grid; the
#               seconds that --plan --ranks expects of each
#   store:      the same volume by one process and by ranks into a file
#   huge:       the same views to (4 SIZE)^3 by ranks, thrown away: the first slabs that fit the cards, and the runs it takes
#   cgls:       three iterations, SIZE / 2 views to (SIZE / 2)^3, on 1, 2, 4 ... cards
# Exit status 1: two results that must have the same bits differ.
set -eu -o pipefail
. "$(dirname "$0")/gpus.bash"
MODEL=${MODEL:-$(cd "$(dirname "${1:-.}")" && pwd)/bench/model}
gpus_begin "$@"

part() { case ",${WITHOUT:-}," in *",$1,"*) return 1 ;; esac; echo "== $1: $2"; }

# scan DETECTOR VIEWS: DETECTOR.raw, DETECTOR.geom; the views of an eighth of the turn again and again: only speed and bits
scan() {
    local few=$(($2 / 8))
    [ ! -e "$1-$2.raw" ] || return 0
    ct-geom --sod 500 --sdd 1000 --detector "$1x$1" --pitch "$(awk -v n="$1" 'BEGIN { print 819.2 / n }')" --views "$2" \
        -o "$1-$2.geom"
    ct-geom --sod 500 --sdd 1000 --detector "$1x$1" --pitch "$(awk -v n="$1" 'BEGIN { print 819.2 / n }')" --views $few |
        ct-phantom -g - | img-cat --raw-out -o few.raw
    for ((i = 0; i < 8; i++)); do cat few.raw; done >"$1-$2.raw"
    rm few.raw
}

# fdk DETECTOR VIEWS VOLUME OPTION...: by one process
fdk() {
    local d=$1 v=$2 n=$3
    shift 3
    timed ct-fdk -g "$d-$v.geom" --raw-in "${d}x$d:f32le" "$d-$v.raw" --volume "${n}x${n}x$n" --stats stats.json "$@"
}

# ranks N DETECTOR VIEWS VOLUME OPTION...: by N ranks
ranks() {
    local n=$1
    shift
    timed mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$n" ct-fdk -g "$1-$2.geom" \
        --raw-in "$1x$1:f32le" "$1-$2.raw" --volume "$3x$3x$3" --stats stats.json --device cuda "${@:4}"
}

# expected N DETECTOR VIEWS VOLUME OPTION...: seconds of the plan for N ranks, by the model of N ranks
expected() {
    local n=$1
    shift
    [ -s "model.$n" ] || { echo "- -"; return; }
    ct-fdk -d cpu -g "$1-$2.geom" --raw-in "$1x$1:f32le" "$1-$2.raw" --volume "$3x$3x$3" --plan --ranks "$n" \
        --model "model.$n" "${@:4}" 2>/dev/null | awk '$1 == "T_compute:" { c = $2 } $1 == "T_run:" { r = $2 }
            END { if (r) printf "%s %s\n", c, r; else print "- -" }'
}

# grids N: every grid of N ranks with 1, 2, 4 and 8 subsets
grids() { for ((c = 1; c <= $1 && c <= 8; c *= 2)); do [ $(($1 % c)) != 0 ] || echo "$(($1 / c))x$c"; done; }

if part efficiency "$size^2 x $size -> $size^3, thrown away"; then
    scan "$size" "$size"
    fdk "$size" "$size" "$size" --device "$(first 1)" -o /dev/null # memory that was never used before
    one=
    for n in "${numbers[@]}"; do
        fdk "$size" "$size" "$size" --device "$(first "$n")" -o /dev/null
        now=$(value compute_seconds)
        : "${one:=$now}"
        echo "  $n: $took s, computing $now s, efficiency $(awk -v a="$one" -v b="$now" -v n="$n" 'BEGIN { printf "%.2f", a / b / n }')"
    done
    small=$((size / 4))
    scan $small $small
    for n in "${numbers[@]}"; do
        fdk $small $small $small --device "$(first "$n")" -o "bits.$n"
        [ "$n" = 1 ] || same "$small^3 on 1 and $n" bits.1 "bits.$n"
    done
    rm -f bits.* "$small-$small.raw"
fi

views=$((2 * size)) large=$((2 * size))
if part ranks "$size^2 x $views -> $large^3, thrown away"; then
    rm -f "$size-$size.raw"
    scan "$size" "$views"
    if [ -x "$MODEL" ]; then
        mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$all" "$MODEL" cuda "$dir" >"model.$all"
        sed 's/^/  model  /' "model.$all"
    else
        echo "  no model: $MODEL is not there"
    fi
    fdk "$size" "$views" "$large" --device "$(first "$all")" -o /dev/null
    echo "  one process with $all: $took s, computing $(value compute_seconds) s"
    for grid in $(grids "$all"); do
        ranks "$all" "$size" "$views" "$large" --grid "$grid" -o /dev/null
        read -r c r <<<"$(expected "$all" "$size" "$views" "$large" --grid "$grid")"
        echo "  $grid: $took s, computing $(value compute_seconds) s; expected: computing $c s, with a volume stored $r s"
    done
fi
if part store "$size^2 x $views -> $large^3, to a file"; then
    scan "$size" "$views"
    for i in 1 2; do
        fdk "$size" "$views" "$large" --device "$(first "$all")" -o volume.raw --raw-out
        echo "  one process with $all, run $i: $took s, computing $(value compute_seconds) s"
    done
    rm -f volume.raw
    ranks "$all" "$size" "$views" "$large" -o volume.tif
    echo "  $all ranks: $took s"
    rm -f volume.tif
fi
if part huge "$size^2 x $views -> $((4 * size))^3, thrown away"; then
    scan "$size" "$views"
    for ((runs = 1; runs <= 64; runs *= 2)); do
        slices=$((4 * size / runs))
        ct-fdk -d cuda -g "$size-$views.geom" --raw-in "${size}x$size:f32le" "$size-$views.raw" --plan --ranks "$all" \
            --volume $((4 * size))x$((4 * size))x$((4 * size)) --slab "0:$slices" >/dev/null 2>&1 || continue
        ranks "$all" "$size" "$views" $((4 * size)) --slab "0:$slices" -o /dev/null
        echo "  $slices slices by $all ranks: $took s, computing $(value compute_seconds) s; the volume takes $runs such runs"
        break
    done
fi
half=$((size / 2))
if part cgls "three iterations, $half^2 x $half -> $half^3"; then
    rm -f ./*.raw
    scan $half $half
    for n in "${numbers[@]}"; do
        timed ct-iterate --method cgls --iterations 3 -g "$half-$half.geom" --raw-in "${half}x$half:f32le" \
            "$half-$half.raw" --volume "${half}x${half}x$half" --device "$(first "$n")" -o "cgls.$n"
        echo "  $n: $took s"
        [ "$n" = 1 ] || { same "on 1 and $n" cgls.1 "cgls.$n"; rm "cgls.$n"; }
    done
fi
exit "$failed"
