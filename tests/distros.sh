#!/bin/sh
# Runs the README's two commands on bare machines: Debian 12 and 13, made with debootstrap. Needs root and
# debootstrap; takes about twenty minutes on two cores and 3 GB for each: sh tests/distros.sh [DIR [SUITE...]]
# DIR (build/distros) holds the systems and the output of the commands, SUITE.log. The last line of each suite is the
# count of its tests; the status is 1 if a command failed.
set -u
cd "$(dirname "$0")/.." || exit 1
dir=${1:-build/distros}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- bookworm trixie
[ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null || { echo "distros.sh needs root and debootstrap" >&2; exit 3; }
mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1
# the mirror and the proxy of this machine
mirror=$(sed -n 's/^\(URIs:\|deb\( \[[^]]*\]\)\?\) *\(http[^ ]*\/debian\)\/\?\( .*\)\?$/\3/p' /etc/apt/sources.list \
    /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)

# inside ROOT COMMAND: runs it on a machine with its own processes, mounts and terminals, all of which end with it
inside() {
    unshare --mount --pid --fork --kill-child sh -c '
        mount --bind "$1" "$1" && cd "$1" || exit
        mount -t proc proc proc
        mount -t sysfs -o ro sysfs sys
        mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts && mount --bind dev/pts/ptmx dev/ptmx
        pivot_root . . && umount -l . || exit
        cd /voxpipe || exit
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb http_proxy="$3" sh -c "$2"' sh "$1" "$2" "$proxy"
}

failed=0
for suite in "$@"; do
    root=$dir/$suite
    log=$root.log
    {
        rm -rf "$root" &&
            debootstrap --variant=minbase "$suite" "$root" "${mirror:-http://deb.debian.org/debian}" &&
            cp -L /etc/resolv.conf /etc/hosts "$root/etc/" &&
            mkdir "$root/voxpipe" &&
            git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C "$root/voxpipe" &&
            inside "$root" 'set -x; sh examples/quickstart.sh' && [ -s "$root/voxpipe/build/demo/slice.png" ] &&
            inside "$root" 'set -x; sh tests/run.sh'
    } >"$log" 2>&1 </dev/null || failed=1
    echo "$suite: $(tail -n 1 "$log")"
done
exit $failed
