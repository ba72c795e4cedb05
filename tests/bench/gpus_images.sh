#!/bin/bash
# Filters of a stack on 1, 2, 4 ... GPUs of one host, from file to file, beside a copy:
#     gpus_images.sh BIN [SIZE [DIR]]
# The stack has SIZE^3 samples of u8 (default 2048: 8 GiB; three files of it in DIR, by default /dev/shm). BIN has the
# programs, the plugins lie in ../lib/voxpipe; $GPUS is the number of cards, by default all.
# For each command: seconds of the second run, beside img-cat's, and if the bits are those of one card.
# Exit status 1: they are not.
set -eu -o pipefail
. "$(dirname "$0")/gpus.bash"
gpus_begin "$@"

# smoothed noise, the same every 64 pages
few=64
[ "$size" -ge 64 ] || few=$size
head -c $((size * size * few)) /dev/urandom | img-cat --raw-in "${size}x$size:u8" - -o raw.tif
img-gauss --device cpu --sigma 1.5 --type f32 raw.tif -o smooth.tif
img-math --device cpu --type u8 'clip((a - 127.5) * 8 + 127.5, 0, 255)' smooth.tif -o part.tif
# shellcheck disable=SC2046 # a name for each
img-cat $(yes part.tif | head -n $((size / few))) -o stack.tif
rm raw.tif smooth.tif part.tif
for _ in 1 2; do rm -f out.tif; timed img-cat stack.tif -o out.tif; done
rm -f out.tif
echo "== img-cat of $size^3 u8: $took s"

img-psf --gaussian 4,4,4 --size 31x31x31 -o kernel.tif

# row COMMAND...: reads stack.tif
row() {
    local one='' n
    echo "== $*"
    for n in "${numbers[@]}"; do
        rm -f "out.$n"
        timed "$@" --device "$(first "$n")" stack.tif -o "out.$n"
        rm -f "out.$n"
        timed "$@" --device "$(first "$n")" stack.tif -o "out.$n"
        : "${one:=$took}"
        echo "  $n: $took s, $(ratio "$took" "$one") of one card"
        [ "$n" = 1 ] || { same "on 1 and $n" out.1 "out.$n"; rm "out.$n"; }
    done
    rm -f out.1
}
row img-gauss --sigma 2
row img-local --stat median --radius 2
row img-convolve --kernel kernel.tif
row img-morphrecon --hmax 10
exit "$failed"
