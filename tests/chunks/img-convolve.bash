# Random options of img-convolve for tests/chunks.bash.
# shellcheck shell=bash
img-convolve-options() {
    local w h d
    one_of 1 4 7 12 30; w=$R
    one_of 1 3 8 13 25; h=$R
    one_of 1 1 1 3 6; d=$R
    if [ -n "$FLAT" ] || [ "$D" = 1 ]; then d=1; fi
    if [ "$d" = 1 ]; then
        one_of "" "" "--grid 2x1" "--grid 2x3" "--grid 1x2"
        case $R in *2x3) d=6 ;; ?*) d=2 ;; esac
        if [ -n "$R" ]; then any_of "$R" "$R --weights source"; fi
    fi
    perl -e 'srand $ARGV[3]; print pack "f<*", map { rand } 1 .. $ARGV[0] * $ARGV[1] * $ARGV[2]' "$w" "$h" "$d" "$SEED" |
        img-convert --raw-in "${w}x$h:f32le" -o kernel.tif
    OPTIONS+=(-k kernel.tif)
    to_f64
    edge
    if [ "${OPTIONS[*]: -1}" != renormalize ]; then any_of "" "--crop full"; fi
    MEMORY="10M 20M 1G"
    if [ "$w" -le $W ] && [ "$h" -le $H ] && [ "$d" -le $D ]; then any_of "" "" "--crop valid"; fi
    any_of "" "--correlate" "--normalize" "--normalize --type same"
}
