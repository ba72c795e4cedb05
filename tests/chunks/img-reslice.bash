# Random turns of img-reslice for tests/chunks.bash. It has no option --device.
# shellcheck shell=bash
img-reslice-options() {
    DEVICES=-
    one_of 10 -30 45 90 -90 180 123.4 -250; OPTIONS=(--rotate "$R")
    if [ -z "$FLAT" ]; then any_of "" "--about z" "--about x" "--about y"; fi
    any_of "" "--method linear" "--method nearest" "--method cubic"
    any_of "" "--enlarge"
    any_of "" "--outside 3" "--outside edge"
}
