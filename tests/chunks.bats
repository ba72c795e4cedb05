# Chunks are invisible: random plans for every program that works on neighbourhoods; chunks.bash makes them.
load helper

@test "img-gauss: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-gauss
}

@test "img-log: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-log
}

@test "img-local: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-local
}

@test "img-math: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-math
}

@test "img-morph: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-morph
}

@test "img-nlmeans: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-nlmeans
}

@test "img-threshold: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-threshold
}

@test "img-wiener: the bytes of one chunk under 208 plans" {
    ok bash "$BATS_TEST_DIRNAME/chunks.bash" img-wiener
}
