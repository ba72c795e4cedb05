# Random options of img-local for tests/chunks.bash.
# shellcheck shell=bash
img-local-options() {
    one_of mean std var min max median percentile:20 entropy
    OPTIONS+=(--stat "$R")
    case $R in
    mean | std | var) any_of "" "--type same" "--iterations 2" ;;
    min | max) any_of "" "--iterations 3" ;;
    entropy) if [ "$TYPE" != u8 ]; then any_of "--range 0,200" "--bins 20"; fi
        if [ "$R" = "--bins 20" ]; then SEEK=twice; fi ;;
    esac
    one_of box box ball set
    if [ "$R" = set ]; then footprint; return; fi
    OPTIONS+=(--shape "$R")
    one_of 1 2 4
    lengths --radius 0 "$R"
}
