#!/bin/sh
# Draws the strip of pictures of the README into the directory given (default: .): a simulated scan of an ellipsoid with
# 90 pores, from counts to a mask. The programs must be in PATH. About a minute on two cores.
set -eu
out=${1:-.}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk 'BEGIN {
    srand(5)
    print "0 0 0  20 17 24  0 0.03"
    while (n < 90) {
        x = 36 * rand() - 18; y = 36 * rand() - 18; z = 36 * rand() - 18; r = 0.8 + 1.8 * rand()
        ok = (x / 17.5) ^ 2 + (y / 14.5) ^ 2 + (z / 21) ^ 2 < 0.72
        for (i = 0; i < n && ok; i++)
            ok = (x - px[i]) ^ 2 + (y - py[i]) ^ 2 + (z - pz[i]) ^ 2 > (r + pr[i] + 0.4) ^ 2
        if (!ok) continue
        px[n] = x; py[n] = y; pz[n] = z; pr[n++] = r
        printf "%.2f %.2f %.2f  %.2f %.2f %.2f  %d -0.03\n", x, y, z, r, r * (0.6 + 0.4 * rand()), r * (0.6 + 0.4 * rand()), 180 * rand()
    }
}' >"$work/sample.txt"
ct-geom --sod 200 --sdd 800 --detector 400x400 --pitch 0.6 --views 600 -o "$work/scan.geom"
ct-phantom -g "$work/scan.geom" --phantom "$work/sample.txt" --noise 20000 --counts -o "$work/counts.tif"
ct-normalize --i0 20000 "$work/counts.tif" -o "$work/lines.tif"
ct-filter "$work/lines.tif" -o "$work/filtered.tif"
ct-backproject --volume 300x300x300 "$work/filtered.tif" -o "$work/vol.tif"
img-threshold --otsu --below "$work/vol.tif" | img-morphrecon --clear-border - -o "$work/pores.tif"
img-view --slice 0 --fit 300x300 "$work/counts.tif" -o "$out/pores-1-counts.png"
img-view --slice 0 --fit 300x300 "$work/lines.tif" -o "$out/pores-2-lines.png"
img-view --slice 0 --fit 300x300 "$work/filtered.tif" -o "$out/pores-3-filtered.png"
img-view --window 0,0.04 "$work/vol.tif" -o "$out/pores-4-slice.png"
img-view "$work/pores.tif" -o "$out/pores-5-mask.png"
