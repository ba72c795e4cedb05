# Random options of img-gauss for tests/chunks.bash.
# shellcheck shell=bash
img-gauss-options() {
    edge
    one_of 1 3 8; lengths --sigma 0 "$R"
    one_of "" "" "--highpass" "--type f32" "--truncate 2.5" "--iterations 2" "--highpass --iterations 2" derivative
    case $R in
    derivative)
        OPTIONS=("${OPTIONS[@]:0:2}")
        lengths --sigma 1 4
        one_of 1,0,0 0,2,0 1,1,0 2,1,0
        OPTIONS+=(--derivative "$R") ;;
    *) any_of "$R" ;;
    esac
}
