# Random options of img-morph for tests/chunks.bash.
# shellcheck shell=bash
img-morph-options() {
    one_of erode dilate open close tophat bothat gradient; OPTIONS+=(--op "$R")
    window
    any_of "" "" "--iterations 2" "--iterations 3"
}
