# Every example of every program, and the README's pipelines, run as they are printed.
load helper

@test "the examples of --help and the man pages run when pasted, in order" {
    "$BUILD/docs/generate" . examples
    for program in "$BUILD"/bin/*; do
        name=$(basename "$program")
        mkdir "$name"
        mv "examples/$name.sh" .
        [ -s "$name.sh" ] || { echo "$name has no examples"; return 1; }
        (cd "$name" && bash -euo pipefail "../$name.sh" >../out 2>../err </dev/null) || { echo "in $name.sh:"; cat "$name.sh" out err; return 1; }
        [ ! -s err ] || { echo "in $name.sh:"; cat "$name.sh" err; return 1; }
    done
}

@test "the examples of the other man pages run" {
    for page in voxpipe.7 ct-geometry.5; do
        # what is set off in EXAMPLES, on a smaller detector
        sed -n '/^\.SH EXAMPLES/,/^\.SH/p' "$ROOT/man/$page" | sed -n '/^\.nf/,/^\.fi/{/^\./d;s/^ *//;s/\\e/\\/g;s/\\-/-/g;p}' >commands
        sed -i 's/256x256/64x64/; s/512x384/64x48/; s/--pitch 1 /--pitch 4 /; s/--pitch 0.2/--pitch 1.6/' commands
        grep -q '^ct-phantom' commands
        bash -euo pipefail commands
    done
    [ -s vol16.tif ]
}

@test "the README's commands on simulated data run" {
    # indented blocks that start from ct-geom and need no scanner
    awk '/^    ct-geom .*256x256/,/^$/' "$ROOT/README.md" | sed 's/^    //' >readme.sh
    grep -q ct-fdk readme.sh
    sed -i 's/256x256/64x64/; s/--pitch 1/--pitch 4/; s/--views 360/--views 60/' readme.sh
    bash -euo pipefail readme.sh
    [ "$(head -c 8 head.png | od -An -tx1)" = " 89 50 4e 47 0d 0a 1a 0a" ]
}

@test "the demo makes the picture" {
    sh "$ROOT/examples/demo.sh" demo >out
    [ -s demo/slice.png ] && grep -q "the picture: demo/slice.png" out
}
