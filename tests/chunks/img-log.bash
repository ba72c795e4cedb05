# Random options of img-log for tests/chunks.bash.
# shellcheck shell=bash
img-log-options() {
    edge
    one_of 2 4 8; lengths --sigma 1 "$R"
    any_of "" "--scale-normalize" "--truncate 2.5"
}
