#!/bin/sh
# Beam hardening, corrected from the scan itself: an acrylic disc with holes (tests/data) looks denser at its rim than inside.
# A slice is linear in the line integrals p, so that of p + c p^2 is the slice of p plus c times the slice of p^2. The factor
# c is the one that makes the material flat: a least squares fit to 1 in the material and 0 in air. Prints the mean of the
# material in rings, before and after, and draws both slices into hardening.png in the directory given (default: .). The
# programs must be in PATH. Some seconds.
set -eu
data=$(cd "$(dirname "$0")/../tests/data" && pwd)
out=${1:-.}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scan=$data/htc2022_01a_sino.tif
slice() { ct-fdk -q -g "$data/htc2022.geom" --layout sinograms --volume 256x256x1 --voxel 0.2966446346660888 "$@"; }

slice "$scan" -o "$work/p.tif"
img-math 'a * a' "$scan" | slice - -o "$work/pp.tif"
# the material, and all but its surface
img-threshold --otsu "$work/p.tif" -o "$work/material.tif"
img-morph --op erode -r 3 "$work/material.tif" -o "$work/inside.tif"
img-morph --op dilate -r 3 "$work/material.tif" | img-math 'b > 0 || a == 0' - "$work/inside.tif" --type u8 -o "$work/sure.tif"
img-math --type f32 'a > 0' "$work/material.tif" -o "$work/goal.tif"
fit=$(img-fit --expression --mask "$work/sure.tif" "$work/goal.tif" "$work/p.tif" "$work/pp.tif")
echo "1 in the material is $fit, a the slice of p, b that of p^2"
img-math "$fit" "$work/p.tif" "$work/pp.tif" -o "$work/flat.tif"

# means of rings of 5 mm, in units of the whole
mean() { # FILE CONDITION
    img-math --type f64 "if(b > 0 && $2, a, 0)" "$1" "$work/inside.tif" | img-info --value sum - >"$work/sum"
    img-math --type f64 "if(b > 0 && $2, 1, 0)" "$1" "$work/inside.tif" | img-info --value sum - >"$work/count"
    paste "$work/sum" "$work/count" | awk '{ print $1 / $2 }'
}
r='0.2966446346660888 * sqrt((x - 127.5)^2 + (y - 127.5)^2)'
printf 'ring, mm\tbefore\tafter\n'
all=$(mean "$work/p.tif" 1) all_flat=$(mean "$work/flat.tif" 1)
for from in 0 5 10 15 20 25 30; do
    ring="$r >= $from && $r < $((from + 5))"
    printf '%s to %s\t%s\n' "$from" $((from + 5)) "$(echo "$(mean "$work/p.tif" "$ring") $all $(mean "$work/flat.tif" "$ring") $all_flat" |
        awk '{ printf "%.3f\t%.3f", $1 / $2, $3 / $4 }')"
done
img-math "a / $all" "$work/p.tif" -o "$work/before.tif"
img-math "a / $all_flat" "$work/flat.tif" | img-cat "$work/before.tif" - -o "$work/both.tif"
img-view -q --montage 2 --window 0.7,1.2 "$work/both.tif" -o "$out/hardening.png"
echo "the picture: $out/hardening.png"
