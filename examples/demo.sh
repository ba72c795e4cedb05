#!/bin/sh
# The main job on real data: a fan of 721 X-ray views of an acrylic disc with holes becomes a slice.
# `make demo` runs it; the programs must be in PATH. Results go to the directory given (default: .).
set -eu
data=$(cd "$(dirname "$0")/../tests/data" && pwd)
out=${1:-.}
mkdir -p "$out"

ct-geom --show "$data/htc2022.geom"
echo
echo "ct-fdk -g htc2022.geom --layout sinograms htc2022_01a_sino.tif" \
    "--volume 512x512x1 --voxel 0.1483223173330444 -o slice.tif"
echo "img-view slice.tif -o slice.png"
ct-fdk -g "$data/htc2022.geom" --layout sinograms "$data/htc2022_01a_sino.tif" \
    --volume 512x512x1 --voxel 0.1483223173330444 -o "$out/slice.tif"
img-view "$out/slice.tif" -o "$out/slice.png"
echo
img-info --statistics "$out/slice.tif"
echo
echo "the picture: $out/slice.png     the slice, in 1/mm: $out/slice.tif"
