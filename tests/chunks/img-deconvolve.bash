# Random options of img-deconvolve for tests/chunks.bash.
# shellcheck shell=bash
img-deconvolve-options() {
    local w h d=1
    one_of 1 4 7 12; w=$R
    one_of 1 3 8; h=$R
    if [ -z "$FLAT" ] && [ "$D" != 1 ]; then one_of 1 1 3; d=$R; fi
    if [ "$d" = 3 ]; then SEEK=all; fi
    perl -e 'srand $ARGV[3]; print pack "f<*", map { rand } 1 .. $ARGV[0] * $ARGV[1] * $ARGV[2]' "$w" "$h" "$d" "$SEED" |
        img-convert --raw-in "${w}x$h:f32le" -o kernel.tif
    OPTIONS+=(-k kernel.tif -n 2)
    to_f64
    case $TYPE in u32le | i32le | f64le) MEMORY="6M 20M 1G" ;; esac # in f64
    any_of "" "--accelerate" "--tv 0.01" "--method wiener"
}
