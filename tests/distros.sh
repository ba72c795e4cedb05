#!/bin/sh
# Runs the README's two commands on bare machines: Debian 12 and 13, made with debootstrap; then makes the package,
# and on a second bare machine installs, runs and removes it. Needs root and debootstrap; takes about half an hour on
# two cores and 4 GB for each: [PARTS='commands package'] sh tests/distros.sh [DIR [SUITE...]]
# DIR (build/distros) holds the systems, the packages and the output of the commands, SUITE.log and SUITE-package.log.
# The last line of each suite is the count of its tests, or "package: ..."; the status is 1 if a command failed.
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

# bare SUITE ROOT: makes a machine with an empty folder /voxpipe
bare() {
    rm -rf "$2" &&
        debootstrap --variant=minbase "$1" "$2" "${mirror:-http://deb.debian.org/debian}" &&
        cp -L /etc/resolv.conf /etc/hosts "$2/etc/" &&
        mkdir "$2/voxpipe"
}

# tree ROOT: copies this tree there
tree() {
    git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C "$1/voxpipe"
}

commands() {
    bare "$1" "$dir/$1" && tree "$dir/$1" &&
        inside "$dir/$1" 'set -x; sh examples/quickstart.sh' && [ -s "$dir/$1/voxpipe/build/demo/slice.png" ] &&
        inside "$dir/$1" 'set -x; sh tests/run.sh'
}

# Makes the package where everything for it is, and uses it where nothing is; what it installs is gone afterwards.
package() {
    bare "$1" "$dir/$1-maker" && tree "$dir/$1-maker" &&
        inside "$dir/$1-maker" 'set -ex; export DEBIAN_FRONTEND=noninteractive
            apt-get install -y --no-install-recommends git build-essential debhelper lintian libfftw3-dev \
                libtiff-dev zlib1g-dev
            git init -q . && git add -A
            sh packaging/deb.sh /package' &&
        bare "$1" "$dir/$1-user" && cp "$dir/$1-maker"/package/voxpipe_*.deb "$dir/$1-user/voxpipe" &&
        inside "$dir/$1-user" 'set -ex; export DEBIAN_FRONTEND=noninteractive
            found() { find / -xdev -name "*voxpipe*" -o -xdev -name "ct-fdk*" | grep -v -e "^/voxpipe" -e "^/var/"; }
            if found; then exit 1; fi
            apt-get install -y --no-install-recommends ./voxpipe_*.deb
            found
            voxpipe doctor
            ct-geom --sod 100 --sdd 200 --detector 96x64 --pitch 1 --views 90 -o scan.geom
            ct-phantom -g scan.geom | ct-fdk -g scan.geom -o volume.tif
            img-view volume.tif -o volume.png && [ -s volume.png ]
            apt-get purge -y voxpipe
            if found; then exit 1; fi
            echo "package: built, lintian has nothing to say, installed, used and removed"'
}

failed=0
for suite in "$@"; do
    for part in ${PARTS:-commands package}; do
        log=$dir/$suite.log
        [ "$part" = commands ] || log=$dir/$suite-$part.log
        $part "$suite" >"$log" 2>&1 </dev/null || failed=1
        echo "$suite: $(tail -n 1 "$log")"
    done
done
exit $failed
