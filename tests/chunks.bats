# Chunks are invisible: random plans for every program that works on neighbourhoods; chunks.bash makes them, for the CPU
# and for pretended devices, one and several.
load helper

plans() { ok env VOXPIPE_PLUGINS="$BUILD/pretend" DEVICES="cpu cuda:0 cuda:0,1,2" bash "$BATS_TEST_DIRNAME/chunks.bash" "$1"; }

@test "img-gauss: the bytes of one chunk under 208 plans" {
    plans img-gauss
}

@test "img-log: the bytes of one chunk under 208 plans" {
    plans img-log
}

@test "img-convolve: the bytes of one chunk under 208 plans" {
    plans img-convolve
}

@test "img-local: the bytes of one chunk under 208 plans" {
    plans img-local
}

@test "img-math: the bytes of one chunk under 208 plans" {
    plans img-math
}

@test "img-morph: the bytes of one chunk under 208 plans" {
    plans img-morph
}

@test "img-morphrecon: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-morphrecon
}

@test "img-nlmeans: the bytes of one chunk under 208 plans" {
    plans img-nlmeans
}

@test "img-threshold: the bytes of one chunk under 208 plans" {
    plans img-threshold
}

@test "img-wiener: the bytes of one chunk under 208 plans" {
    plans img-wiener
}
