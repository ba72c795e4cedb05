#!/bin/sh
# Few views of real data: 36 and 90 of 720 views of an acrylic disc with holes, by filtered back-projection and by four
# iterative methods. Prints the error of each slice against the reconstruction of all views, and draws them all into
# few-views.png in the directory given (default: .): above 36 views, below 90, from left to right fdk, sirt, cgls,
# fista-tv and pdhg-tv. The programs must be in PATH. About two minutes on two cores.
set -eu
data=$(cd "$(dirname "$0")/../tests/data" && pwd)
out=${1:-.}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
size="--volume 512x512x1 --voxel 0.1483223173330444"

# The reference is in 1/pixel; errors are those within a disc of 248 pixels.
disc='(x - 255.5)^2 + (y - 255.5)^2'
img-math -q "a / 0.1483223173330444 * ($disc < 248^2)" "$data/htc2022_01a_reference.tif" -o "$work/all.tif"
img-math -q "$disc < 254^2" --type u8 "$data/htc2022_01a_reference.tif" -o "$work/mask.tif"
square() { img-math -q 'a*a' "$1" | img-info --value sum -; }

slices=
printf 'views\tmethod\titerations\terror\n'
for views in 36 90; do
    img-convert --raw-out "$data/htc2022_01a_sino.tif" |
        img-cat --raw-in 560x1x721:f32le --pages "0:720:$((720 / views))" - -o "$work/scan.tif"
    ct-geom --sod 410.66 --sdd 553.74 --detector 560x1 --pitch 0.2 --clockwise --views "$views" -o "$work/scan.geom"
    for method in fdk sirt cgls fista-tv pdhg-tv; do
        slice="$work/$views-$method.tif" n=1
        slices="$slices $slice"
        # shellcheck disable=SC2086
        case $method in
        fdk) ct-fdk -q -g "$work/scan.geom" $size "$work/scan.tif" -o "$slice" ;;
        sirt) n=100 && set -- --min 0 ;;
        cgls) n=10 && set -- ;;
        fista-tv) n=60 && set -- --min 0 --tv 0.01 ;;
        pdhg-tv) n=100 && set -- --min 0 --tv 0.01 ;;
        esac
        # shellcheck disable=SC2086
        test $method = fdk || ct-iterate -q -g "$work/scan.geom" $size --mask "$work/mask.tif" --method $method -n $n "$@" \
            "$work/scan.tif" -o "$slice"
        img-math -q "a * ($disc < 248^2) - b" "$slice" "$work/all.tif" -o "$work/off.tif"
        printf '%s\t%s\t%s\t%s\n' "$views" "$method" "$n" "$(echo "$(square "$work/off.tif") $(square "$work/all.tif")" |
            awk '{ printf "%.3f", sqrt($1 / $2) }')"
    done
done
# shellcheck disable=SC2086
img-cat $slices -o "$work/slices.tif"
img-view -q --montage 10 --columns 5 --window 0,0.06 --fit 1200x1200 "$work/slices.tif" -o "$out/few-views.png"
echo "the picture: $out/few-views.png"
