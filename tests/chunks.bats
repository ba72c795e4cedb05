# Chunks are invisible: random plans for every program that works on neighbourhoods (tests/chunks has its options);
# chunks.bash makes them, for the CPU and for pretended devices, one and several.
load helper

# plans PATTERN: 208 plans of each program whose name matches
plans() {
    local file name n=0
    for file in "$BATS_TEST_DIRNAME"/chunks/$1.bash; do
        name=$(basename "$file" .bash) n=$((n + 1))
        echo "$name" # the last one is where the test failed
        mkdir "$name"
        cd "$name"
        ok env VOXPIPE_PLUGINS="$BUILD/pretend" DEVICES="cpu cuda:0 cuda:0,1,2" bash "$BATS_TEST_DIRNAME/chunks.bash" "$name"
        cd ..
    done
    [ $n -gt 0 ]
}

@test "the bytes of one chunk under 208 plans, programs a to l" {
    plans 'img-[a-l]*'
}

@test "the bytes of one chunk under 208 plans, programs m to z" {
    plans 'img-[m-z]*'
}
