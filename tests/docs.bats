# The committed man pages and completions are those of the option tables, and well formed.
load helper

@test "man pages and completions are up to date (make docs)" {
    "$BUILD/docs/generate" .
    for f in man/*.1 completions/*/*; do
        cmp "$f" "$ROOT/$f" || { diff "$ROOT/$f" "$f" | head -n 20; return 1; }
    done
    # and none is left of a program that is gone
    for f in "$ROOT"/man/*.1 "$ROOT"/completions/*/*; do
        [ -e "${f#"$ROOT"/}" ] || { echo "left over: $f"; return 1; }
    done
}

@test "man pages are clean (mandoc)" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    run mandoc -T lint -W warning "$ROOT"/man/*.[157]
    [ -z "$output" ] || { echo "$output"; return 1; }
}

@test "completions are valid shell" {
    for f in "$ROOT"/completions/bash/*; do bash -n "$f"; done
    if command -v zsh >/dev/null; then for f in "$ROOT"/completions/zsh/*; do zsh -n "$f"; done; fi
    if command -v fish >/dev/null; then for f in "$ROOT"/completions/fish/*; do fish -n "$f"; done; fi
}

@test "every program in the README's table, and every one there exists" {
    for program in "$BUILD"/bin/*; do
        grep -q "^| \[*\`*$(basename "$program")" "$ROOT/README.md" || { echo "not in README.md: $program"; return 1; }
    done
    sed -n 's/^| `\([a-z-]*\)`.*/\1/p' "$ROOT/README.md" | while read -r name; do
        [ -x "$BUILD/bin/$name" ] || { echo "in README.md but not built: $name"; return 1; }
    done
}
