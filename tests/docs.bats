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

@test "a man page with a table names tbl in its first line, and no other does" {
    for page in "$ROOT"/man/*.[157]; do
        [ "$(grep -c '^\.TS' "$page" | sed 's/[1-9].*/1/')" = "$(head -n 1 "$page" | grep -c "^'.. t\$")" ] || { echo "$page"; return 1; }
    done
}

@test "docs/manual is made of the man pages (make docs), and its links lead somewhere" {
    perl "$ROOT/docs/markdown.pl" "$ROOT/man" manual
    diff -r manual "$ROOT/docs/manual"
    for page in "$ROOT"/man/*.[157]; do [ -s "manual/$(basename "$page").md" ]; done
    grep -ohE '\]\([^)]+\)' manual/*.md | tr -d '])(' | sed 's/#.*//' | sort -u >links
    [ "$(wc -l <links)" -gt 30 ]
    while read -r link; do [ -s "manual/$link" ] || { echo "no such page: $link"; return 1; }; done <links
    grep -q '^## TASKS' manual/voxpipe.7.md
    # an unknown request is an error, no text that goes missing
    mkdir bad
    printf '.TH "X" "1"\n.SH NAME\nx \\- y\n.UNKNOWN z\n' >bad/x.1
    fails 1 "unknown request .UNKNOWN" perl "$ROOT/docs/markdown.pl" bad out
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

@test "every program in the lists of voxpipe(7) and voxpipe-stack(5), and what pages refer to exists" {
    sed -n '/^\.SS Programs/,/^\.SH/s/^\.BR \(.*\) (1)/\1/p' "$ROOT/man/voxpipe.7" | tr -d '\\' >listed
    sed -n '/^\.SH SCALES/,/^\.SH/p' "$ROOT/man/voxpipe-stack.5" | tr -d '\\' >scales
    for program in "$BUILD"/bin/*; do
        name=$(basename "$program")
        grep -qx "$name" listed || { echo "not in voxpipe(7): $name"; return 1; }
        grep -qw -e "$name" scales || { echo "not in SCALES of voxpipe-stack(5): $name"; return 1; }
    done
    [ "$(wc -l <listed)" -eq "$(find "$BUILD/bin" -type f -o -type l | wc -l)" ]
    sed -n 's/^\.BR \([^ ]*\) (\([157]\)).*/\1.\2/p' "$ROOT"/man/*.[157] | tr -d '\\' | sort -u | while read -r page; do
        [ "$page" = diff.1 ] || [ "$page" = cat.1 ] || [ -e "$ROOT/man/$page" ] || { echo "no such page: $page"; return 1; }
    done
}

@test "what ARCHITECTURE.md names is there" {
    cd "$ROOT"
    grep -oE '\bvp_[a-z0-9_]+' ARCHITECTURE.md | sort -u | while read -r name; do
        grep -rqw -e "$name" common cuda || { echo "no such name: $name"; return 1; }
    done
    grep -oE '\b[a-z]+(/[a-z0-9_]+)+\.(c|h|cu|cuh|pl|sh)\b' ARCHITECTURE.md | sort -u | while read -r file; do
        [ -e "$file" ] || [ -e "common/$file" ] || { echo "no such file: $file"; return 1; }
    done
}

@test "--help tells the operators and the phantoms" {
    for word in 'Operators, those that bind most first' 'clip(value, low, high)' 'pi, inf and nan'; do
        grep -qF "$word" <(img-math --help | tr '\n' ' ' | tr -s ' ')
    done
    ct-phantom --help >help
    for name in shepp-logan: shepp-logan-contrast: spheres: ball: asymmetric:; do grep -q "^  $name" help; done
    # where it all comes from is for the man page
    run -1 grep -i references <(ct-filter --help)
}

@test "zsh completes what is listed" {
    # a bare colon would end the list of words
    run -1 grep -nE ":\([^()]*[^\\\\]:[^()]*\)'" "$ROOT"/completions/zsh/*
    command -v zsh >/dev/null || skip "no zsh"
    cat >complete.zsh <<'EOF'
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; echo ready"
while zpty -r z line && [[ $line != ready* ]]; do :; done
# to the end: the first X may be the terminal's own echo of what came before the line editor was there
zpty -w -n z $'img-local --stat=perc\tX\nexit\n'
while zpty -r z line; do print -r -- $line; done
EOF
    timeout 30 zsh -f complete.zsh "$ROOT/completions/zsh" >out
    grep -F -- '--stat=percentile:' out
}
