#!/bin/sh
# Writes what is generated from the option tables: a man page and three completions a program.
# docs.sh BIN DIR: programs from BIN, results into DIR/man and DIR/completions.
set -eu
bin=$1 dir=$2
mkdir -p "$dir/man" "$dir/completions/bash" "$dir/completions/zsh" "$dir/completions/fish"
for program in "$bin"/*; do
    name=$(basename "$program")
    "$program" --generate man >"$dir/man/$name.1"
    "$program" --generate bash >"$dir/completions/bash/$name"
    "$program" --generate zsh >"$dir/completions/zsh/_$name"
    "$program" --generate fish >"$dir/completions/fish/$name.fish"
done
