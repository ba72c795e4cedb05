#!/bin/sh
# Builds the Debian package from the files of this tree that git knows, and checks it with lintian, whose warnings are
# failures:   sh packaging/deb.sh FOLDER     needs build-essential, debhelper, lintian and the Build-Depends of control
# FOLDER gets voxpipe_VERSION_ARCH.deb and what dpkg-buildpackage writes beside it. JOBS is the number of processes.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
tree=$out/voxpipe-$(cat VERSION)
rm -rf "$tree"
mkdir "$tree"
git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C "$tree"
mv "$tree/packaging/debian" "$tree/debian"
# under CC BY 4.0, whose whole text would have to be in the package
rm "$tree"/tests/data/htc2022* "$tree"/examples/pictures/htc2022_01a.png "$tree"/examples/pictures/hardening.png
[ "$(dpkg-parsechangelog -l "$tree/debian/changelog" -S Version)" = "$(cat VERSION)" ] || {
    echo "deb.sh: packaging/debian/changelog has another version than VERSION" >&2
    exit 1
}
cd "$tree"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(dpkg-parsechangelog -S Timestamp)}"
dpkg-buildpackage -us -uc -j"${JOBS:-$(nproc)}" >"$out/build.log" 2>&1 || {
    tail -n 40 "$out/build.log" >&2
    exit 1
}
cd "$out"
rm -rf "$tree"
lintian --fail-on error,warning --allow-root --tag-display-limit 0 ./*.changes
echo "lintian: no errors or warnings"
ls -l "$out"/*.deb
