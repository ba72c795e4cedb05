#!/bin/sh
# Installs what a Debian or Ubuntu machine lacks to build voxpipe; with `test`, to test it.
# Says what it installs; does nothing where nothing is missing. Needs root or sudo only if it installs.
set -eu

want="gcc libc6-dev make libtiff-dev zlib1g-dev libfftw3-dev"
[ "${1:-build}" != test ] || want="$want bats libtiff-tools mandoc libopenmpi-dev openmpi-bin procps iproute2 python3-numpy \
    libhdf5-dev python3-h5py hdf5-filter-plugin hdf5-filter-plugin-blosc-serial"

missing=
for package in $want; do
    status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    # not a Debian: trust what is there if it builds, and say what is needed if it does not
    echo "this machine has no apt-get; voxpipe needs: gcc make libtiff zlib (FFTW for f64, bats for the tests)" >&2
    exit 0
fi
run=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "missing:$missing; install them as root: apt-get install$missing" >&2
        exit 1
    fi
    run=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
    $run apt-get update -qq
    $run apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
