# Random options of img-math for tests/chunks.bash.
# shellcheck shell=bash
img-math-options() {
    READ=("${READ[@]:0:2}") # --2d means nothing to it
    one_of "a * 3 + x - y * z" "if(a > 100, page, sqrt(abs(a)))" "clip(a, 10, 90) / (1 + page)"
    OPTIONS+=(-e "$R")
    any_of "" "--type f32" "--type u8"
}
