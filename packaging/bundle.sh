#!/bin/sh
# Makes the folder of `make bundle`: programs, plugins, the libraries that they load, stripped, and the notices that
# their licences require.   bundle.sh FOLDER PROGRAMS [PLUGIN...]     with CC and STRIP in the environment
# The C library and the loader are those of the machine, and so is libhdf5, which loads some thirty libraries.
set -eu
out=$1 programs=$2
shift 2
plugin='' hdf5=''
for file; do
    case $file in *-hdf5.so) hdf5=$file ;; *) plugin=$file ;; esac
done
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
lib=$out/lib/voxpipe notices=$out/licenses
if [ -e "$out" ] && [ ! -e "$notices/README" ]; then
    echo "bundle: $out is there already, and is no bundle: name a new folder, as make bundle BUNDLE=..." >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out/bin" "$lib" "$notices"
cp -P "$programs"/* "$out/bin"
[ $# -eq 0 ] || cp "$@" "$lib"

cat >"$notices/README" <<EOF
voxpipe is under the BSD 3-Clause licence (../LICENSE). This folder holds programs and libraries of others with it.
Their notices are beside this file; pass them on with the rest.

EOF

# of FILE: prints the file with the terms of its package
notice_of() {
    real=$(readlink -f "$1")
    for path in "$1" "$real" "${real#/usr}" "/usr$real"; do
        if package=$(dpkg -S "$path" 2>/dev/null | sed -n '1s/:.*//p') && [ -n "$package" ]; then
            set -- "/usr/share/doc/$package/copyright"
        elif package=$(rpm -qf --qf '%{NAME}' "$path" 2>/dev/null); then
            set -- "/usr/share/licenses/$package"/*
        else
            continue
        fi
        [ -e "$1" ] && printf '%s\n' "$@"
        return 0
    done
}

# NAME FILE: records the terms of FILE
note() {
    notice_of "$2" >"$notices/list"
    if [ -s "$notices/list" ]; then
        : >"$notices/$1.txt"
        while read -r terms; do cat "$terms" >>"$notices/$1.txt"; done <"$notices/list"
        echo "$1: $1.txt" >>"$notices/README"
    else
        echo "$1: no notice was found where it was built: add it before this is passed on" >>"$notices/README"
        echo "bundle: no notice found for $2: add it before the folder is passed on" >&2
    fi
    rm "$notices/list"
}

# shellcheck disable=SC2086
ldd "$programs"/* $plugin | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libmvec|libdl|libpthread|librt|ld-linux[^/]*)\.so' >"$out/libraries"
while read -r file; do
    name=$(basename "$file")
    case $name in
    libjbig.so*)
        ${CC:-cc} -O2 -shared -fPIC -s -Wl,-soname,"$name" -o "$lib/$name" "$here/nojbig.c"
        echo "$name: ours; it refuses files compressed with JBIG, for libjbig is under the GNU GPL" >>"$notices/README" ;;
    *)
        cp -L "$file" "$lib"
        note "$name" "$file" ;;
    esac
done <"$out/libraries"
rm "$out/libraries"
runtime=$(${CC:-cc} -print-file-name=libgomp.a)
case $runtime in /*) note libgomp-in-the-programs "$runtime" ;; esac
if [ -e "$lib/libfftw3.so.3" ]; then
    echo "img-convolve and img-deconvolve are linked with FFTW here, and so under the GNU GPL: pass them on under its terms" >>"$notices/README"
fi
if [ -n "$hdf5" ]; then
    needs=$(objdump -p "$hdf5" | awk '$1 == "NEEDED" && $2 ~ /hdf5/ { print $2 }')
    echo "voxpipe-hdf5.so opens the $needs of the machine, or one in a folder of LD_LIBRARY_PATH" >>"$notices/README"
fi
[ -z "$plugin" ] || echo "voxpipe-cuda.so holds NVIDIA's CUDA runtime: its terms are those of the CUDA toolkit (EULA)" >>"$notices/README"

for file in "$out"/bin/* "$lib"/*; do
    [ ! -h "$file" ] || continue # a name
    chmod 755 "$file"
    ${STRIP:-strip} --strip-unneeded "$file"
done
# the newest version of a symbol that is needed
glibc=$(for file in "$out"/bin/* "$lib"/*; do objdump -T "$file"; done | grep -o 'GLIBC_2[0-9.]*' | sort -uV | tail -n 1)
echo "programs and libraries need glibc ${glibc#GLIBC_} or newer" >>"$notices/README"
echo "bundle: needs glibc ${glibc#GLIBC_} or newer: for older machines make it on one of them"
${MAKE:-make} -s -C "$root" install-data DESTDIR= PREFIX="$(cd "$out" && pwd)"
cp "$root/LICENSE" "$root/README.md" "$out"
