# Random options of img-resize for tests/chunks.bash. It has no option --device.
# shellcheck shell=bash
img-resize-options() {
    local size
    DEVICES=-
    one_of 1 2; size=$R
    one_of bin scale size
    case $R in
    bin) one_of 1 1 2 3; any_of "--bin $((R < W ? R : W)),$((size < H ? size : H)),1" "--bin 1,1,$([ "$FLAT" ] && echo 1 || echo $((size < D ? size : D)))" ;;
    scale)
        any_of "--scale 0.43" "--scale 1.7" "--scale 0.6,2,1" "--scale 1,1,0.7"
        if [[ ${OPTIONS[1]} = *,0.7 && (-n $FLAT || $D = 1) ]]; then OPTIONS=(--scale 0.9,0.4); fi
        any_of "" "--method linear" "--method cubic" "--method area" "--method nearest" ;;
    size) any_of "--size $((W * 3 / 2))x$((H / 2 + 1))" "--size $((W / 3 + 1))x$H"
        any_of "" "--method linear" "--method nearest" "--method cubic" ;;
    esac
    any_of "" "--type f32"
}
