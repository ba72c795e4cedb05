# The Makefile.
load helper

# object VARIABLE=VALUE...: the names of an object of the plugin and of one of the programs
object() {
    env -u MAKEFLAGS -u MAKELEVEL make -n -C "$ROOT" O="$PWD/b" VERSION=x CUDA=1 NVCC=/bin/true "$@" |
        grep -o '[^ ]*/\(cuda/backproject\.cu\|base/err\)\.o' | sort -u
}

@test "objects of the plugin are built anew when targets or flags change, and only they" {
    object > plain
    [ "$(wc -l < plain)" -eq 2 ]
    for change in GPU_ARCH=-arch=sm_90 HOPPER_ARCH=-arch=sm_90a NVCCFLAGS=-G; do
        object "$change" > changed
        [ "$(sort plain changed | uniq -d | wc -l)" -eq 1 ]
        grep -qFx "$(grep err plain)" changed
    done
    object CFLAGS=-O0 > changed
    [ "$(sort plain changed | uniq -d | wc -l)" -eq 0 ]
}
