# Random options of img-nlmeans for tests/chunks.bash.
# shellcheck shell=bash
img-nlmeans-options() {
    one_of 5 30; OPTIONS+=(--h "$R")
    lengths --search 0 2
    any_of "" "--patch 1" "--patch 2"
    any_of "" "--type f32" "--sigma 3"
}
