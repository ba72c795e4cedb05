#!/bin/sh
# A real scan to a slice, in one pipeline: a tooth at a synchrotron (Advanced Photon Source), 181 views of two detector
# rows in one HDF5 file (DXchange) with flats, darks and angles. The axis, 24 columns beside the middle of the detector, is
# found on the way. Arguments: the file, and a directory for tooth.png and tooth.tif (default: .). In place of the file, any
# scan in HDF5 of a parallel beam will do. The programs must be in PATH. Some seconds.
set -eu
file=${1:-tooth.h5} out=${2:-.}
if [ ! -e "$file" ]; then
    echo "tooth.sh: $file is not there. The file comes with TomoPy (1 MB, BSD licence):" >&2
    echo "  curl -LO https://github.com/tomopy/tomopy/raw/master/source/tomopy/data/tooth.h5" >&2
    exit 2
fi
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ct-normalize -q "$file" -o "$work/lines.tif" # -q: the file has no pixel size, so 1 mm is assumed
ct-center "$work/lines.tif" -o "$work/found.geom"
ct-rings -q "$work/lines.tif" | ct-fdk -g "$work/found.geom" -o "$out/tooth.tif" # -q: two rows are few
img-view "$out/tooth.tif" -o "$out/tooth.png"
echo "the picture: $out/tooth.png     the slices, in 1/mm: $out/tooth.tif"
