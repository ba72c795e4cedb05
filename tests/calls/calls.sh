#!/bin/sh
# Shows the functions that a page goes through in img-gauss, a projection in ct-fdk and a kernel in a grid of
# img-convolve, file by file: calls.sh [SOURCES [BUILD]]. Builds the programs of SOURCES (default: this tree) anew in
# BUILD (default: build/calls), with the calls counted (some minutes). Samples are bare where a program takes them, so
# that no parser of a format is on the path.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "${1:-$here/../..}" && pwd)
build=${2:-$sources/build/calls}
mkdir -p "$build"
build=$(cd "$build" && pwd)
cd "$build"
${CC:-cc} -O1 -c "$here/trace.c" -o trace.o
make -s -C "$sources" CUDA=0 MPI=0 FFTW=0 HARDEN=0 O="$build/o" CFLAGS='-O0 -g1 -fno-pie -finstrument-functions' \
    LDFLAGS="$build/trace.o -no-pie" "$build/o/bin/img-gauss" "$build/o/bin/ct-fdk" "$build/o/bin/img-convolve" \
    "$build/o/bin/ct-geom" "$build/o/bin/ct-phantom" "$build/o/bin/img-cat"
PATH=$build/o/bin:$PATH
export OMP_NUM_THREADS=1 VOXPIPE_DEVICE=cpu

# trace NAME PROGRAM OPTIONS...: one run, its table of calls in NAME
trace() {
    name=$1
    shift
    CALLS_OUT=$name "$@" </dev/null >/dev/null
}
head -c $((96 * 128 * 4 * 64)) /dev/zero | tr '\0' '=' >pages # numbers
head -c $((96 * 128 * 4 * 16)) pages >fewer
for pages in 16 64; do
    [ $pages = 16 ] && file=fewer || file=pages
    trace gauss$pages img-gauss -s 2 -j1 --chunk 96x128x8 --raw-in 96x128x$pages:f32 --raw-out --force $file
    views=$((pages * 3 / 2))
    ct-geom --sod 500 --sdd 800 --detector 64x48 --pitch 1 --views $views | ct-phantom -o views$views.tif
    trace fdk$pages ct-fdk -j1 --volume 32x32x32 views$views.tif
done
head -c $((512 * 512)) o/bin/img-cat >image # any bytes
for side in 2 4; do
    head -c $((31 * 31 * side * side)) image >kernels
    img-cat --raw-in 31x31x$((side * side)):u8 kernels -o kernels$side.tif
    trace convolve$side img-convolve -j1 -k kernels$side.tif --grid ${side}x$side --raw-in 512x512:u8 --raw-out --force \
        image
done
for each in 'img-gauss gauss16 gauss64' 'ct-fdk fdk16 fdk64' 'img-convolve convolve2 convolve4'; do
    # shellcheck disable=SC2086 # three words
    set -- $each
    echo "$1:"
    perl "$here/calls.pl" "o/bin/$1" "$2" "$3"
done
