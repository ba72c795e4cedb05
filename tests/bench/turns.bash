# Seconds of commands with the programs of two builds in turn, in the working directory: for pairs.sh and pipes.sh, which
# set BIN_A, BIN_B and `rounds`. The folder of these and of predictions.sh.
# shellcheck shell=bash disable=SC2154 # set there

# new_folder NAME: goes to a new folder, in memory if that is possible, which is removed at the end
new_folder() {
    local store=/dev/shm
    [ -d $store ] && [ -w $store ] || store=${TMPDIR:-/tmp}
    dir=$(mktemp -d "$store/voxpipe-$1.XXXXXX")
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 1' HUP INT TERM
    cd "$dir" || exit 1
}

model() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1; }

# once SET COMMAND: its seconds and those of the processors go to times.SET
once() {
    local bin=$BIN_A TIMEFORMAT='%R %U %S'
    [ "$1" = a ] || bin=$BIN_B
    rm -f out out.tif
    if ! { time PATH=$bin:$PATH bash -o pipefail -c "$2" >/dev/null 2>error; } 2>took; then
        echo "$(basename "$0"):$2 (build $1): $(head -n 1 error)" >&2
        exit 1
    fi
    awk '{ print $1, $2 + $3 }' took >>"times.$1"
}

# the middle and the smallest of a column
middle() {
    awk -v c="$2" '{ print $c }' "times.$1" | sort -n |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1] }'
}

# turns COMMAND: prints the middle and the smallest seconds of A and of B, then those of the processors
turns() {
    rm -f times.a times.b
    once a "$1" # what the first run pays for memory that was never used is no matter of the build
    rm -f times.a
    for ((i = 0; i < rounds; i++)); do
        once a "$1"
        once b "$1"
    done
    echo "$(middle a 1) $(middle b 1) $(middle a 2) $(middle b 2)"
}
