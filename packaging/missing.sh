#!/bin/sh
# Names what this machine lacks to build the programs, and the command that installs it; prints nothing if all is there.
#     missing.sh CC FLAGS
# The Makefile calls it before the first file is compiled. Text goes to standard error, one word to standard output.
cc=$1 flags=$2
tmp=$(mktemp -d) || exit 0
trap 'rm -rf "$tmp"' EXIT
lacks= # names of packages: compiler, libc, tiff, zlib, openmp
why=

# compiles LINE...: the lines are a program that the compiler takes
compiles() {
    printf '%s\n' "$@" 'int main(void) { return 0; }' >"$tmp/a.c"
    # shellcheck disable=SC2086
    $cc -std=c11 -D_GNU_SOURCE $flags -fopenmp -o "$tmp/a" "$tmp/a.c" 2>"$tmp/log"
}

need() {
    lacks="$lacks $1"
    why="$why
  $2"
}

# shellcheck disable=SC2086
if ! set -- $cc || ! command -v "$1" >/dev/null 2>&1; then
    need compiler "a C compiler: '$cc' is not found (CC=clang takes another)"
elif printf '#include <stdio.h>\nint main(void) { return 0; }\n' >"$tmp/a.c" && ! $cc -o "$tmp/a" "$tmp/a.c" 2>"$tmp/log"; then
    need libc "the C library to compile with: $(head -n 1 "$tmp/log")"
else
    compiles '#include <omp.h>' || need openmp "OpenMP: $(grep -m 1 error "$tmp/log")"
    printf '#include <zlib.h>\n#include <stdio.h>\n' >"$tmp/a.c"
    # shellcheck disable=SC2086
    $cc $flags -E "$tmp/a.c" >/dev/null 2>&1 || need zlib "zlib: there is no zlib.h"
    printf '#include <tiffio.h>\n' >"$tmp/a.c"
    # shellcheck disable=SC2086
    $cc $flags -E "$tmp/a.c" >/dev/null 2>&1 || need tiff "libtiff 4: there is no tiffio.h"
fi
[ -n "$lacks" ] || exit 0

# words of the package manager for them
family=
[ ! -r /etc/os-release ] || family=$(sed -n 's/^ID\(_LIKE\)*=//p' /etc/os-release | tr -d '"' | tr '\n' ' ')
names() {
    for one in $lacks; do
        case $1:$one in
        apt:compiler) echo gcc ;; apt:libc) echo libc6-dev ;; apt:tiff) echo libtiff-dev ;; apt:zlib) echo zlib1g-dev ;;
        apt:openmp) echo libomp-dev ;;
        dnf:compiler | zypper:compiler | pacman:compiler | apk:compiler) echo gcc ;;
        dnf:libc | zypper:libc) echo glibc-devel ;; pacman:libc) echo glibc ;; apk:libc) echo musl-dev ;;
        dnf:tiff | zypper:tiff) echo libtiff-devel ;; pacman:tiff) echo libtiff ;; apk:tiff) echo tiff-dev ;;
        dnf:zlib | zypper:zlib) echo zlib-devel ;; pacman:zlib) echo zlib ;; apk:zlib) echo zlib-dev ;;
        *:openmp) echo libomp ;;
        esac
    done | tr '\n' ' ' | sed 's/ $//'
}
case " $family" in
*" debian "* | *" ubuntu "*) how="sudo apt-get install $(names apt)" ;;
*" fedora "* | *" rhel "* | *" centos "*) how="sudo dnf install $(names dnf)" ;;
*" arch "*) how="sudo pacman -S $(names pacman)" ;;
*suse*) how="sudo zypper install $(names zypper)" ;;
*" alpine "*) how="sudo apk add $(names apk)" ;;
*) how="install the packages for development of: $(names apt)" ;;
esac
cat >&2 <<TEXT
voxpipe cannot be built yet. Missing:$why

To get it:
  $how

Optional, found by itself: libfftw3-dev (f64 in img-convolve and img-deconvolve), nvcc (GPUs), mpicc (many hosts), libhdf5-dev (HDF5 files).
README.md has the list for other systems.
TEXT
echo missing
