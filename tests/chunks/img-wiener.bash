# Random options of img-wiener for tests/chunks.bash.
# shellcheck shell=bash
img-wiener-options() {
    window
    one_of "--noise 30" "--noise 0" "--noise 500 --type f32" estimated
    if [ "$R" = estimated ]; then SEEK=twice; else any_of "$R"; fi
}
