# Random options of img-morphrecon for tests/chunks.bash.
# shellcheck shell=bash
img-morphrecon-options() {
    local x y z
    below "$W"; x=$R
    below "$H"; y=$R
    below "$D"; z=$R
    if [ -n "$FLAT" ]; then z=0; fi
    any_of --fill-holes --clear-border "--hmax 40" "--hmin 40" "--hdome 25" --regional-max --regional-min "--open 2" \
        "--close 1.5" "--seed $x,$y,$z" "--seed $x,$y,$z --by erosion"
    if [ "$D" -gt 1 ] && [ -z "$FLAT" ]; then any_of "" "" "--connectivity 6" "--connectivity 18"; fi
}
