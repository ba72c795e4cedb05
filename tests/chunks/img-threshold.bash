# Random options of img-threshold for tests/chunks.bash.
# shellcheck shell=bash
img-threshold-options() {
    local how
    one_of otsu triangle li yen isodata at at mean niblack niblack sauvola bradley; how=$R
    any_of "" "" --below "--value 1"
    case $how in
    at) any_of "--at 3.5" "--at 90" "--at=-7" "--hysteresis 20,90" "--at 60 --weak 40" ;;
    otsu | triangle | li | yen | isodata)
        OPTIONS+=(--$how)
        if [ "$TYPE" = f32le ]; then any_of "" "--bins 1000" "--range=-5,9"; fi ;;
    *)
        OPTIONS+=(--local $how)
        one_of 1 3 5 9 41; OPTIONS+=(--window "$R")
        one_of "" "" "--shape ball"
        if [ -n "$R" ] && [ "${OPTIONS[*]: -1}" -lt 9 ]; then any_of "$R"; fi
        any_of "" "--offset -2"
        any_of "" "" "--weak 3"
        if [ $how = sauvola ]; then any_of "--r 9" "--r 70 --k 0.5"; fi ;;
    esac
}
