#!/bin/sh
# From a raw scan to a slice: one HDF5 file (NXtomo) of 16-bit counts with flats, darks and angles, whose axis nobody knows
# and whose pixels are a few percent off. The scan is simulated, so that the last lines can compare with the truth. Writes
# from-hdf5.png, and what leads to it, to the directory given (default: .). The programs must be in PATH. Some seconds.
set -eu
out=${1:-.}
mkdir -p "$out"
cd "$out"
voxpipe doctor | grep -q '^HDF5.*read and written' || { echo "from-hdf5.sh: built without HDF5 (libhdf5-dev)" >&2; exit 3; }

# The scanner: 20,000 photons a pixel, an uneven beam, and a seventh of the pixels whose response has changed by 4 % since
# the flats were taken.
ct-geom --beam parallel --detector 192x24 --pitch 0.01 --views 240 --arc 180 --offset-u 7.3 -o truth.geom
ct-geom --offset-u 0 truth.geom -o nominal.geom
phantom="--phantom shepp-logan-contrast --radius 0.8 --density 1"
beam='(1 - 0.3 * ((x - 80) / 192)^2)'
place='(0.6180339 * x * x + 1.4142136 * y * (x + y))' # the fraction of this is as good as random
changed="(1 - 0.04 * ($place - floor($place) < 1 / 7))"
scan() { ct-phantom -g truth.geom $phantom --samples 2 --counts --noise 2e4 "$@"; }
scan | img-math "100 + a * $beam * $changed" | img-convert --type u16 -o views.tif
scan --density 0 --seed 2 | img-math "100 + a * $beam" | img-convert --type u16 --pages :20 -o flats.tif
img-math 'a * 0 + 100' flats.tif | img-convert --type u16 -o darks.tif
img-convert -g nominal.geom --flat flats.tif --dark darks.tif views.tif -o scan.h5

# From here on scan.h5 is all there is.
ct-normalize scan.h5 -o lines.tif
ct-center lines.tif -o found.geom
ct-rings lines.tif | ct-fdk -g found.geom -o volume.tif
img-view --slice 12 --window 0,1.2 volume.tif -o from-hdf5.png

# How far the middle slice is from the truth, and how far it would be without ct-rings, and without ct-center, too.
slice="--pages 12 --region 16:176,16:176"
grid="--volume 192x192x24 --voxel 0.01"
ct-phantom -g truth.geom $phantom $grid --samples 3 | img-cat $slice -o true.tif
ct-rings lines.tif | ct-fdk -g found.geom $grid | img-cat $slice -o slice.tif
ct-fdk -g found.geom $grid lines.tif | img-cat $slice -o without-rings.tif
ct-fdk $grid lines.tif | img-cat $slice -o without-center.tif
for name in slice without-rings without-center; do
    printf '%s\t%s\n' "$name" "$(img-cmp "$name.tif" true.tif | awk '/relative/ { print $3 }')"
done
echo "the picture: $out/from-hdf5.png"
