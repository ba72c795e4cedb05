# The promises that hold for every program: streams, messages, exit statuses, outputs.
# A new program needs a line in tests/programs, and nothing else here; it gets f32 samples, and u16 from a pipe.
load helper

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" LC_ALL=C
    cd "$BATS_FILE_TMPDIR" || exit 1
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 24 -o scan.geom
    ct-phantom -g scan.geom -o scan.tif
    ct-filter scan.tif -o filtered.tif
    ct-backproject filtered.tif -o vol.tif
    img-cat --region 0:7,0:5 --pages 0:1 vol.tif | img-math --raw-out '(1 + x) * (2 + y * y) + (x == 3)' |
        img-cat --raw-in 7x5:f32 -o kernel.tif # of no voxel size
    img-math '60000 * exp(-a)' --type u16 scan.tif -o counts.tif
}

# each FUNCTION: calls FUNCTION NAME INPUT ARGS... for every program, in a directory with the inputs. The call stands
# alone: in a condition only the last command of FUNCTION would count.
each() {
    local name input arguments
    cp "$BATS_FILE_TMPDIR"/* .
    while IFS='|' read -r name input arguments _; do
        name=${name// /} input=${input// /}
        echo "$name" # the last one is where a test failed
        # shellcheck disable=SC2086
        "$1" "$name" "$input" $arguments
    done <<<"$PROGRAMS"
}

# programs that read a stack from standard input / write a stack or image
reads_stack() { case $1 in ct-geom | ct-phantom | img-cmp | img-fit | img-psf | voxpipe) false ;; *) true ;; esac; }
writes_binary() { case $1 in ct-geom | ct-center | img-fit | img-info | img-cmp | voxpipe) false ;; *) true ;; esac; }
# exit status when the run fails: like diff(1), img-cmp keeps 1 for "different"
trouble() { if [ "$1" = img-cmp ]; then echo 2; else echo 1; fi; }
# run NAME on INPUT given as a file
with_file() {
    local name=$1 input=$2
    shift 2
    if [ "$input" = - ]; then "$name" "$@"; else "$name" "$@" "$input"; fi
}

@test "every program is in the table" {
    for program in "$BUILD"/bin/*; do
        grep -q "^$(basename "$program") *|" <<<"$PROGRAMS"
    done
}

@test "every program that works in chunks runs under random plans" {
    local chunked=0
    for program in "$BUILD"/bin/*; do
        name=$(basename "$program")
        [[ "$("$program" --help)" = *" --chunk "* ]] || continue
        chunked=$((chunked + 1))
        [ -f "$ROOT/tests/chunks/$name.bash" ] || { echo "$name has no tests/chunks/$name.bash"; return 1; }
        grep -qw "program = .$name" "$ROOT"/tests/plans/*.c || { echo "$name is no family of tests/plans"; return 1; }
    done
    [ "$chunked" -gt 0 ]
}

@test "--help: standard output, 0, at most 80 columns, no escapes" {
    f() {
        ok "$1" --help || return 1
        [[ "$output" == "Usage: $1"* ]] || { echo "$output" | head -n 3; return 1; }
        [ "$(wc -L <<<"$output")" -le 80 ] || { awk 'length > 80' <<<"$output"; return 1; }
        [[ "$output" != *$'\e'* ]]
        [[ "$output" == *xamples* && "$output" == *"xit status"* ]]
        "$1" -h | cmp - <(printf '%s\n' "$output")
    }
    each f
}

@test "--version: name and version" {
    f() { ok "$1" --version && [[ "$output" == "$1 (voxpipe) "* ]] && ok "$1" -V; }
    each f
}

@test "unknown option: 2, one line and the way to help, suggestion" {
    f() {
        fails 2 "$1: error: unknown option --verbos; did you mean --verbose?" "$1" --verbos
        [[ "$stderr" == *"Try '$1 --help'."* ]]
        fails 2 "$1: error:" "$1" -%
    }
    each f
}

@test "a missing file: 1 and its name" {
    f() { [ "$2" = - ] || fails "$(trouble "$1")" "nothere.tif: No such file" "$1" "${@:3}" nothere.tif; }
    each f
}

@test "the table's input works and says nothing on standard error" {
    f() { with_file "$@" >out 2>err && [ ! -s err ] && [ -s out ] || { cat err; return 1; }; }
    each f
}

@test "file name, < file, cat file | and <(cat file) give the same bytes" {
    f() {
        reads_stack "$1" || return 0
        "$1" "${@:3}" "$2" >a
        "$1" "${@:3}" <"$2" >b
        cat "$2" | "$1" "${@:3}" >c
        "$1" "${@:3}" - <"$2" >d
        "$1" "${@:3}" <(cat "$2") >e
        if [ "$1" = img-info ]; then sed -i 1d a b c d e; fi   # names its input
        cmp a b && cmp a c && cmp a d && cmp a e
    }
    each f
}

@test "a pipe that does not say how many pages it has gives what the file gives" {
    f() {
        reads_stack "$1" || return 0
        uncounted "$2" > in
        run ! cmp -s in "$2"
        "$1" "${@:3}" in -o a
        "$1" "${@:3}" - -o b < <(cat in)
        case $1 in
        img-info)
            sed -i 1d a b
            cmp a b
            ;;
        img-view | ct-center) cmp a b ;;
        *)
            ok img-cmp a b || return 1
            diff <(img-info a | tail -n +2) <(img-info b | tail -n +2)
            ;;
        esac
    }
    each f
}

@test "the output is not one of several inputs, whatever its name: 2, and nothing is touched" {
    f() {
        reads_stack "$1" || return 0
        local name
        rm -f one two soft hard new
        cp "$2" one
        cp "$2" two
        ln -s two soft
        ln two hard
        printf 'one\ntwo\n' > list
        for name in two ./two soft hard "$PWD/two"; do
            fails 2 "two: one of several inputs is the output, $name" "$1" "${@:3}" one two -o "$name" || return 1
        done
        fails 2 "soft: one of several inputs is the output, two" "$1" "${@:3}" one soft -o two || return 1
        fails 2 "new: one of several inputs is the output, new" "$1" "${@:3}" one new -o new || return 1
        fails 2 "standard input: one of several inputs is the output, two" "$1" "${@:3}" one - -o two < two || return 1
        fails 2 "two: one of several inputs is the output, standard output" \
            sh -c '"$@" 1<> two' sh "$1" "${@:3}" one two || return 1
        if [ "$1" != img-math ]; then
            fails 2 "two: one of several inputs is the output, two" "$1" "${@:3}" @list -o two || return 1
        fi
        fails 2 "two: one of several inputs is the output, two" "$1" "${@:3}" --plan one two -o two || return 1
        cmp "$2" two
        # a single one may be: it is read before it is replaced
        "$1" "${@:3}" two -o two
        "$1" "${@:3}" one -o new
        if [ "$1" != img-info ]; then cmp two new; fi   # names its input
    }
    each f
}

@test "several volumes are not joined in silence: 2, with the way out; --each-file works on each" {
    local volumes=0
    ct-phantom --volume 32x32x6 --voxel 2 -o "$BATS_FILE_TMPDIR/other.tif"
    f() {
        reads_stack "$1" || return 0
        local first=$2 second=other.tif
        if [ "$2" != vol.tif ]; then
            img-convert --set axes=x,y,z "$2" -o z.tif # as ImageJ says of views, too
            first=z.tif second=$2
        fi
        rm -rf d e x
        mkdir d e
        cp "$first" d/1.tif
        cp "$second" d/2.tif
        case $1 in
        img-math) ;; # each operand is a stack of its own
        ct-reduce | img-cat) "$1" "${@:3}" d -o joined.tif ;;
        *)
            fails 2 "1.tif: one of 2 files: expected one slice, got a volume of" "$1" "${@:3}" d -o x || return 1
            [[ "$stderr" == *"hint: --join makes them one stack, --each-file -o FOLDER works on each by itself"* ]]
            fails 2 "expected one slice, got a volume of" "$1" "${@:3}" - "$second" -o x < <(cat "$first") || return 1
            [ ! -e x ]
            run --separate-stderr "$1" "${@:3}" --join d -o x
            [[ "$stderr" != *"got a volume"* ]]
            volumes=$((volumes + 1))
            ;;
        esac
        ok "$1" "${@:3}" --each-file "$second" "$first" -o e || return 1
        for name in "$second" "$first"; do
            "$1" "${@:3}" "$name" -o alone
            cmp alone "e/${name%.tif}".* || return 1
        done
        [ "$(ls e | wc -l)" = 2 ]
    }
    each f
    [ "$volumes" -gt 15 ]
}

@test "single pages and views of a scan join as ever" {
    f() {
        reads_stack "$1" || return 0
        rm -rf d
        mkdir d
        local n
        if [ "$2" = vol.tif ]; then
            for n in 0 1 2; do img-cat --pages $n vol.tif -o d/$n.tif; done
            img-cat d -o all.tif
            [ "$1" != img-math ] || set -- "$@" @list
        else
            img-cat --pages :9 "$2" -o d/1.tif
            img-cat --pages 9: "$2" -o d/2.tif
            cp "$2" all.tif
            case $1 in ct-reduce | ct-normalize | ct-rings) ;; *) set -- "$@" -g scan.geom ;; esac
        fi
        ls d/* > list
        "$1" "${@:3}" all.tif -o want 2>/dev/null
        "$1" "${@:3}" d -o got
        case $1 in
        img-info) diff <(grep -v '^history' want | tail -n +2) <(grep -v '^history' got | tail -n +2) ;;
        img-view | ct-center) cmp want got ;;
        *) ok img-cmp want got ;;
        esac
    }
    each f
}

@test "--each-file: what is refused before any work" {
    ct-phantom --volume 8x8x3 -o a.tif
    mkdir d e
    cp a.tif d/a.tif
    cp a.tif b.tif
    ln -s "$PWD/b.tif" e/a.tif
    each_file() { img-gauss --sigma 1 --each-file "$@"; }
    fails 2 "a.tif and d/a.tif would both become e/a.tif" each_file a.tif d/a.tif -o e
    fails 2 "./a.tif, to be made of a.tif, is an input" each_file a.tif b.tif -o .
    fails 2 "e/a.tif, to be made of a.tif, is an input" each_file a.tif b.tif -o e
    fails 1 "missing: No such file or directory" each_file a.tif -o missing
    [[ "$stderr" == *"hint: make the folder first: mkdir missing"* ]]
    fails 1 "b.tif: Not a directory" each_file a.tif -o b.tif
    fails 1 "missing.tif: No such file" each_file a.tif missing.tif -o d
    fails 2 "expected names of files, got standard input" each_file a.tif - -o e
    fails 2 "expected names of files, got none" each_file -o e
    fails 2 "each result is a file of its own" each_file a.tif
    fails 2 "--kernel /dev/fd/" img-convolve -k <(cat a.tif) --each-file a.tif b.tif -o e
    fails 2 "--squares names one file for all results" img-sat --squares s.tif --each-file a.tif b.tif -o e
    cmp a.tif b.tif
    cmp a.tif d/a.tif
    # the names of what is written
    rm e/a.tif
    img-cat --raw-out a.tif -o c.raw
    ok img-convert --each-file --raw-in 8x8:f32 c.raw -o e
    ok img-convert --each-file --raw-out a.tif -o e
    ok img-info --each-file a.tif -o e
    ok img-info --json --each-file a.tif -o e
    ok img-view --each-file a.tif -o e
    [ "$(ls e | xargs)" = "a.json a.png a.raw a.txt c.tif" ]
    # text one after the other, plans of all; files before one that fails stay
    [ "$(img-info --each-file a.tif b.tif --value pages | xargs)" = "3 3" ]
    [ "$(img-gauss --sigma 1 --each-file --plan a.tif b.tif | grep ^file: | xargs)" = "file: a.tif file: b.tif" ]
    head -c 1000 a.tif > cut.tif
    fails 1 "cut.tif: page 1: truncated" each_file b.tif cut.tif a.tif -o e
    [ "$(ls e | xargs)" = "a.json a.png a.raw a.txt b.tif c.tif" ]
}

@test "-o FILE, > file and | cat hold the same pages" {
    f() {
        writes_binary "$1" || return 0
        with_file "$@" -o a.out
        with_file "$@" >b.out
        with_file "$@" | cat >c.out
        if [ "$1" = img-view ]; then
            cmp a.out b.out
            cmp a.out c.out
            return
        fi
        img-cmp -q a.out b.out
        img-cmp -q a.out c.out
        [ "$(img-info --value history a.out)" = "$(img-info --value history c.out)" ]
    }
    each f
}

@test "any number of threads and any memory limit that fits give the same bytes" {
    f() {
        with_file "$@" -j 1 >a
        with_file "$@" -j 2 >b
        with_file "$@" -j 5 --memory 2GiB >c
        cmp a b && cmp a c
    }
    each f
}

@test "twice gives the same bytes, and none of them names this machine" {
    f() {
        with_file "$@" >a
        sleep 0.01
        with_file "$@" >b
        cmp a b
        run ! grep -aqF "$PWD" a
    }
    each f
}

@test "-o into a folder that is named alone: 1, with the way out" {
    mkdir folder
    f() {
        [ "$1" != img-cmp ] || return 0 # prints
        fails 1 "folder/: Is a directory" with_file "$@" -o folder/ || return 1
        [[ "$stderr" == *"hint: name a file in it"* ]]
    }
    each f
    [ -z "$(ls -A folder)" ]
}

@test "a full disk: 1" {
    [ -w /dev/full ] || skip "no /dev/full"
    f() {
        run --separate-stderr bash -c '"$@" >/dev/full' sh with_file "$@"
        [ "$status" -eq "$(trouble "$1")" ] && [[ "$stderr" == *"No space left on device"* ]] || { echo "$1: $status $stderr"; return 1; }
    }
    export -f with_file
    each f
}

@test "a closed pipe ends the program silently with SIGPIPE" {
    f() {
        writes_binary "$1" || return 0
        # enough output that the pipe's buffer cannot swallow it
        local big=big.tif
        case $1 in
        ct-phantom) set -- ct-phantom - --volume 200x200x200 --radius 90 ;;
        ct-reduce | img-view) return 0 ;;
        img-cat) set -- img-cat $big ;; # all of it: a pipe holds a megabyte
        img-psf) set -- img-psf - --gaussian 20,20,20 --size 121 ;;
        ct-backproject | ct-fdk) set -- "$1" "$2" --volume 128x128x128 ;;
        ct-project) set -- "$1" "$2" -g big.geom ;;
        ct-iterate) set -- "$@" --volume 128x128x32 ;;
        *) set -- "$1" $big "${@:3}" ;;
        esac
        { status=0; with_file "$@" 2>err || status=$?; echo $status >status; } | head -c 1 >/dev/null
        [ "$(cat status)" -eq 141 ] && [ ! -s err ] || { echo "$1: $(cat status) $(cat err)"; return 1; }
    }
    ct-geom --sod 500 --sdd 1000 --detector 256x256 --pitch .5 --views 60 -o "$BATS_FILE_TMPDIR/big.geom"
    ct-phantom -g "$BATS_FILE_TMPDIR/big.geom" |
        img-math a -o "$BATS_FILE_TMPDIR/big.tif" # of no quantity, so that every program takes them
    each f
}

@test "binary output to a terminal is refused before work starts: 2" {
    needs_terminal
    f() {
        writes_binary "$1" || return 0
        local out
        out=$(script -qec "$(printf '%q ' "$1" "${@:3}" $([ "$2" = - ] || echo "$2")); echo status=\$?" /dev/null </dev/null)
        [[ "$out" == *"standard output is a terminal"* && "$out" == *"status=2"* ]] || { echo "$out"; return 1; }
    }
    each f
}

@test "binary output behind something in a file is refused before work starts: 2" {
    appended() { with_file "$@" >>out; }
    f() {
        writes_binary "$1" || return 0
        echo before >out
        fails 2 "standard output is a file that is not empty" appended "$@"
        [ "$(cat out)" = before ]
    }
    each f
    noise a.tif 4x3x2 u8
    fails 2 "standard output is a file that is not empty" sh -c '(echo before; exec img-cat a.tif) >out'
    # samples without a header, text, and new files
    img-cat --raw-out a.tif >>out
    img-info --value nx a.tif >>out
    [ "$(wc -c <out)" -eq 33 ]
    img-cat a.tif >>new
    cmp new <(img-cat a.tif)
}

@test "image input from a terminal is refused: 2" {
    needs_terminal
    f() {
        reads_stack "$1" || return 0
        local out
        out=$(script -qec "$(printf '%q ' "$1" "${@:3}") >x.out; echo status=\$?" /dev/null </dev/null)
        [[ "$out" == *"standard input is a terminal"* && "$out" == *"status=2"* ]] || { echo "$1: $out"; return 1; }
    }
    each f
}

@test "garbage, empty and cut input: 1, one line, and -o leaves nothing" {
    f() {
        reads_stack "$1" || return 0
        local size
        size=$(stat -c %s "$2")
        head -c 3000 /dev/zero | tr '\0' '*' >garbage.tif
        : >empty.tif
        head -c $((size - 700)) "$2" >cut.tif
        for bad in garbage.tif empty.tif cut.tif; do
            for how in file pipe; do
                rm -f result
                if [ $how = file ]; then
                    run --separate-stderr "$1" "${@:3}" "$bad" -o result
                else
                    run --separate-stderr bash -c 'cat "$1" | "${@:2}" -o result' sh "$bad" "$1" "${@:3}"
                fi
                [ "$status" -eq 1 ] && [ -z "$output" ] && [ ! -e result ] && [[ "${stderr_lines[0]}" == "$1: error: "* ]] \
                    && [ "${#stderr_lines[@]}" -le 2 ] || { echo "$1 $bad $how: status $status: $stderr"; return 1; }
            done
            [ -z "$(find . -name '*result*')" ]
        done
    }
    each f
}

@test "a cut pipe says which page, what was expected and what came" {
    f() {
        reads_stack "$1" || return 0
        run --separate-stderr bash -c 'head -c -700 "$1" | "${@:2}" >/dev/null' sh "$2" "$1" "${@:3}"
        [ "$status" -eq 1 ] && [[ "$stderr" == *"standard input: page "*"truncated: expected "*" bytes, got "* ]] \
            || { echo "$1: status $status: $stderr"; return 1; }
    }
    each f
}

@test "bytes after the last page: 1" {
    f() {
        reads_stack "$1" || return 0
        run --separate-stderr bash -c 'cat "$1" "$1" | "${@:2}" >/dev/null' sh "$2" "$1" "${@:3}"
        [ "$status" -eq 1 ] && [[ "$stderr" == *"trailing data"* ]] || { echo "$1: status $status: $stderr"; return 1; }
    }
    each f
}

@test "-o may be the input; the old file stays if the run fails" {
    f() {
        reads_stack "$1" && writes_binary "$1" || return 0
        [ "$1" != img-view ] || return 0
        cp "$2" same.tif
        with_file "$@" -o want.tif
        "$1" "${@:3}" same.tif -o same.tif
        img-cmp -q same.tif want.tif || return 1
        echo precious >kept
        run "$1" "${@:3}" -o kept garbage.tif
        [ "$status" -eq 1 ] && [ "$(cat kept)" = precious ]
    }
    head -c 3000 /dev/zero >"$BATS_FILE_TMPDIR/garbage.tif"
    each f
}

@test "an interrupted run leaves no file and dies of the signal" {
    f() {
        reads_stack "$1" && writes_binary "$1" || return 0
        rm -rf d; mkdir d
        # the input never ends, so the run cannot either
        { cat "$2"; exec sleep 60; } >fifo 3>&- &
        local feeder=$!
        mkfifo fifo 2>/dev/null || true
        "$1" "${@:3}" -o d/out <fifo 2>err &
        local pid=$!
        sleep 0.3
        kill -TERM $pid
        local status=0
        wait $pid || status=$?
        kill $feeder 2>/dev/null || true
        rm -f fifo
        [ $status -eq 143 ] && [ -z "$(ls -A d)" ] || { echo "$1: status $status, left: $(ls -A d)"; cat err; return 1; }
    }
    mkfifo fifo
    g() { mkfifo fifo 2>/dev/null || true; f "$@"; }
    each g
}

@test "a device that is not there: 3; a device that cannot be: 2" {
    f() {
        "$1" --help | grep -- --device || return 0
        run --separate-stderr with_file "$@" --device cuda:99
        [ "$status" -eq 3 ] && [ -z "$output" ] || { echo "$1: status $status: $stderr"; return 1; }
        run --separate-stderr with_file "$@" --device gpu
        [ "$status" -eq 2 ] && [ -z "$output" ] || { echo "$1: status $status: $stderr"; return 1; }
    }
    each f
}

@test "--plan says what would be done and makes nothing" {
    f() {
        "$1" --help | grep -- --plan || return 0
        rm -f never
        if [ "$1" = img-cmp ]; then set -- "$@" --plan; else set -- "$@" --plan -o never; fi
        ok with_file "$@"
        [ ! -e never ] || { echo "$1 wrote"; return 1; }
        case $1 in ct-geom | img-*) ;; *) [ -n "$output" ] || { echo "$1: empty plan"; return 1; } ;; esac
    }
    each f
}

@test "--plan needs no output, and plans one into a file" {
    ct-phantom --volume 600x500x3 -o big.tif
    # bands of rows: only into a file
    run img-gauss --sigma 1 --memory 900K big.tif -o out.tif
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    fails 3 "" img-gauss --sigma 1 --memory 900K big.tif -o -
    ok img-gauss --sigma 1 --memory 900K --plan big.tif -o out.tif
    local want=$output
    ok img-gauss --sigma 1 --memory 900K --plan big.tif
    [ "$output" = "$want" ]
    fails 3 "" img-gauss --sigma 1 --memory 900K --plan big.tif -o -
    ok img-gauss --sigma 1 --compress deflate --plan big.tif
    f() {
        "$1" --help | grep -q '^ *--compress' || return 0
        ok with_file "$@" --compress deflate --plan || return 1
        [ "$1" = img-psf ] || [ -n "$output" ]
        fails 2 "standard output cannot be compressed" with_file "$@" --compress deflate --plan -o -
    }
    each f
}

@test "a list without an end, and one that is no text, end in one line" {
    cp "$BATS_FILE_TMPDIR"/* .
    perl -e 'print "0:1 " x 1e6' > long
    printf '1 1 0:4\0\n' > zero
    for how in "ct-phantom -g scan.geom --phantom " "ct-geom --angles " "ct-geom " "ct-fdk scan.tif --model " "ct-fdk scan.tif -g " \
        "img-cat @" "img-sat vol.tif --boxes " "img-convolve vol.tif -k kernel.tif --positions " \
        "img-deconvolve vol.tif -k kernel.tif --positions " "img-psf --from vol.tif --positions "; do
        for list in /dev/zero zero long; do
            # shellcheck disable=SC2086
            run --separate-stderr timeout 60 $how$list
            [ "$status" -eq 1 ] || { echo "$how$list: $status $stderr"; return 1; }
            [ -z "$output" ] && [ "${#stderr_lines[@]}" -eq 1 ] || { echo "$how$list: $stderr"; return 1; }
        done
    done
    # no more lines than there is memory for
    fails 3 "standard input: the list of boxes may take" sh -c 'yes 0:1 0:1 | img-sat --boxes - vol.tif -m 4M'
    fails 3 "the names of the inputs may take" sh -c 'yes vol.tif | img-cat @/dev/stdin -m 4M'
    fails 3 "the list of stars may take" sh -c 'yes 1 1 | img-psf --from vol.tif --positions - -m 4M'
    fails 3 "the list of ellipsoids may take" sh -c 'yes 1 1 1 1 1 1 1 1 | ct-phantom -g scan.geom --phantom /dev/stdin -m 4M'
}

@test "--stats writes JSON" {
    f() {
        with_file "$@" --stats stats.json >/dev/null
        grep -q '"program": *"'"$1"'"' stats.json && grep -q '"peak_memory"' stats.json || { cat stats.json; return 1; }
        if command -v python3 >/dev/null; then python3 -m json.tool stats.json >/dev/null; fi
    }
    each f
}

@test "--stats over an input or the result is refused, whatever its name: 2, and nothing is touched" {
    stack() { ct-phantom --volume 8x8x2 -o "$1"; }
    stack v.tif
    cp v.tif a.tif
    ln -s a.tif soft.tif
    ln a.tif hard.tif
    echo a.tif > list
    mkdir folder
    stack folder/b.tif
    cp list list.before
    refused() { fails 2 "--stats: " "$@" && cmp a.tif v.tif && cmp folder/b.tif v.tif && [ ! -e g.tif ]; }
    for name in a.tif ./a.tif soft.tif hard.tif "$PWD/a.tif"; do
        refused img-gauss --sigma 1 a.tif --stats "$name" -o g.tif
        refused img-gauss --sigma 1 @list --stats "$name" -o g.tif
        refused sh -c "img-gauss --sigma 1 --stats $name -o g.tif < a.tif"
        refused img-cmp v.tif v.tif --mask a.tif --stats "$name"
    done
    refused img-gauss --sigma 1 @list --stats list -o g.tif
    refused img-gauss --sigma 1 folder --stats folder/../folder/b.tif -o g.tif
    cmp list list.before
    ln -s g.tif dangling.tif
    for name in g.tif ./g.tif folder/../g.tif dangling.tif "$PWD/g.tif"; do
        refused img-gauss --sigma 1 a.tif --stats "$name" -o g.tif
    done
    cp a.tif @a.tif # a name, not a list
    refused img-gauss --sigma 1 a.tif --stats @a.tif -o @a.tif
    img-gauss --sigma 1 a.tif --stats b.tif -o @b.tif
    rm b.tif @b.tif
    echo a.tif > masks
    refused img-cmp a.tif a.tif --mask @masks --stats ./a.tif
    refused img-info --statistics a.tif --mask @masks --stats ./a.tif
    refused img-gauss --sigma 1 a.tif --stats ./g.tif -o dangling.tif
    refused_to_stdout() { fails 2 "standard output already holds the result" img-gauss --sigma 1 a.tif --stats "$1"; }
    refused_to_stdout -
    refused_to_stdout /dev/stdout
    refused_to_stdout /dev/fd/1
    fails 2 "is the input or the output" sh -c "img-gauss --sigma 1 a.tif --stats ./s.tif > s.tif"
    fails 2 "is the input or the output" sh -c "img-info a.tif --stats s.txt > s.txt"
    [ ! -s s.tif ]
    [ ! -s s.txt ]
    # both to nowhere, or text and statistics through one descriptor
    img-gauss --sigma 1 a.tif --stats /dev/null -o /dev/null
    img-info a.tif --stats - > both.txt
    grep -q '^type' both.txt && grep -q '"program": "img-info"' both.txt
}

@test "--stats over a file that others wrote is refused before work starts: 2; over statistics or nothing it is not" {
    printf 'sod = 500\n' > mine.geom
    printf '{"volume": "kept"}\n' > mine.json
    ct-phantom --volume 8x8x2 -o mine.tif
    cp -r mine.* "$BATS_TEST_TMPDIR/.."
    f() {
        for name in mine.geom mine.json mine.tif; do
            fails 2 "--stats: $name exists and is not a statistics file" with_file "$@" --stats $name
            cmp $name ../$name
        done
        : > stats.json
        with_file "$@" --stats stats.json > a.out
        with_file "$@" --stats stats.json > a.out
        [ "$(grep -c '"program": "'"$1"'"' stats.json)" -eq 1 ]
    }
    each f
    [[ "$(img-info --stats mine.tif vol.tif 2>&1)" == *"hint: --statistics shows those of the samples"* ]]
    # links, and statistics that were laid out anew
    ln -s mine.tif link
    fails 2 "--stats: link exists" img-info vol.tif --stats link
    printf '{\n  "program": "img-info",\n  "seconds": 1\n}\n' > stats.json
    ok img-info vol.tif --stats stats.json
    [ "$(wc -l < stats.json)" -eq 1 ]
    mkfifo pipe
    (img-info vol.tif --stats pipe > a.out) 3>&- &
    grep -q '"program": "img-info"' pipe
}

@test "--stats that cannot be written: 1, and the message says that the result is complete" {
    [ -e /dev/full ] || skip "no /dev/full"
    ct-phantom --volume 8x8x2 -o v.tif
    fails 1 "the result is complete, but its statistics are not: /dev/full: No space left" \
        img-gauss --sigma 1 v.tif --stats /dev/full -o g.tif
    img-gauss --sigma 1 v.tif | cmp - g.tif
}

@test "no temporary files: runs with an unwritable TMPDIR" {
    f() { TMPDIR=/nonexistent with_file "$@" >/dev/null; }
    each f
}

@test "bad values of common options: 2" {
    f() {
        fails 2 "--threads" with_file "$@" --threads 0 && fails 2 "--threads" with_file "$@" --threads two \
            && fails 2 "--memory" with_file "$@" --memory 3px
    }
    each f
}

@test "bad values in the environment are named: 2" {
    f() { VOXPIPE_THREADS=many fails 2 VOXPIPE_THREADS with_file "$@"; }
    each f
}

@test "VOXPIPE_RATES: speeds by which --plan goes, with the same bytes; a bad file is named" {
    printf '# of a machine\nprocess = 50\nslab=1e-3 # s\n\nanother_name = 1\n' >rates.txt
    ct-phantom --volume 32x32x32 -o v.tif
    [[ "$(VOXPIPE_RATES=rates.txt img-gauss --sigma 1 --plan v.tif)" == *"about 50 s"* ]]
    [[ "$(img-gauss --sigma 1 --plan v.tif)" == *"about 0."* ]]
    img-gauss --sigma 1 v.tif -o a.tif
    VOXPIPE_RATES=rates.txt img-gauss --sigma 1 v.tif -o b.tif
    cmp a.tif b.tif
    for line in 'read' 'read = fast' 'read = 0' 'read = 1e308' 'read = -1' 'read = nan' 'read = inf' 'read = 1 2' '= 1'; do
        printf 'process = 1\n%s\n' "$line" >bad.txt
        VOXPIPE_RATES=bad.txt fails 2 'bad.txt:2: expected `name = number`, a number from 1e-30 to 1e30' img-gauss --sigma 1 v.tif
        [[ "$stderr" == *VOXPIPE_RATES* ]]
    done
    VOXPIPE_RATES=none.txt fails 1 "none.txt: No such file" img-gauss --sigma 1 v.tif
    [[ "$stderr" == *VOXPIPE_RATES* ]]
    VOXPIPE_RATES=- fails 2 "got standard input" img-gauss --sigma 1 - <v.tif
}

@test "--progress always shows a line at once, and clears it" {
    f() {
        case $1 in ct-geom | img-psf | img-view | voxpipe) return 0 ;; esac # nothing to wait for
        with_file "$@" --progress always >a.out 2>err
        [[ "$(tr '\r' '\n' <err)" == *"$1: "*" 0 "* && "$(tail -c 2 err)" == *$'\r' ]] || { cat -A err; return 1; }
        with_file "$@" --progress never >a.out 2>err
        [ ! -s err ] || { cat err; return 1; }
    }
    each f
}

@test "one program at a time draws on a terminal" {
    needs_terminal
    command -v flock >/dev/null || skip "no flock(1)"
    ct-phantom --volume 64x64x8 -o a.tif
    export draw='img-cat --progress always a.tif -o b.tif'
    script -qec 'sh -c "$draw"' alone </dev/null >/dev/null
    grep -F '(0 of 8 pages)' alone
    script -qec 'exec 9<>"$(tty)"; flock 9; sh -c "exec 9>&-; $draw"; flock -u 9; $draw --quiet' beside </dev/null >/dev/null
    [ "$(tr '\r' '\n' <beside | grep -cF '(0 of 8 pages)')" = 1 ]
}

@test "raw output holds the samples and nothing else" {
    f() {
        writes_binary "$1" && [ "$1" != img-view ] || return 0
        with_file "$@" -o a.tif
        with_file "$@" --raw-out >a.raw
        local w h n t
        w=$(img-info --value nx a.tif) h=$(img-info --value ny a.tif) n=$(img-info --value pages a.tif) t=$(img-info --value type a.tif)
        img-cmp -q a.tif --raw-in "${w}x${h}x${n}:${t}le" a.raw 2>/dev/null ||
            img-cat --raw-in "${w}x${h}x${n}:${t}le" a.raw | img-cmp -q a.tif -
    }
    each f
}

@test "a pipe of 40,000 pages goes through in the memory it is given" {
    needs_plain_memory
    # as f32 the pages are 123 MB; what a program needs for itself and for a view's geometry is allowed for
    f() {
        reads_stack "$1" || return 0
        case $1 in
        ct-backproject | ct-fdk | ct-project | ct-iterate) return 0 ;;   # hold a volume: --memory has its own test
        img-view) set -- "$@" --slice 3 ;;
        esac
        local peak
        cat pages.tif | "$1" "${@:3}" --memory 32MiB --stats stats.json >/dev/null 2>&1 || { echo "$1 failed"; return 1; }
        peak=$(sed -n 's/.*"peak_memory": *\([0-9]*\).*/\1/p' stats.json)
        [ "$peak" -gt 1000000 ] && [ "$peak" -le 70000000 ] || { echo "$1: took $peak bytes"; return 1; }
    }
    ct-geom --sod 500 --sdd 1000 --detector 32x24 --pitch 4 --views 40000 |
        ct-phantom -g - --noise 1e4 --counts --density 0 | img-math a --type u16 -o "$BATS_FILE_TMPDIR/pages.tif" # of no quantity
    each f
}

# keeps COMMAND...: is refused with a number; with that much it runs, and takes no more beside itself
keeps() {
    local need limit peak
    run "$@" --memory 1KiB
    need=$(sed -n 's/.* \(takes\|need\) \([0-9.]*\) \([KM]\)iB.*/\2 \3/p' <<<"$output")
    [ "$status" -ge 2 ] && [ -n "$need" ] || { echo "$*: status $status: $output"; return 1; }
    limit=$(awk '{ printf "%d", ($1 + 0.06) * ($2 == "K" ? 1024 : 1048576) }' <<<"$need")
    # out of a small shell: the peak of a process counts what the one that started it holds
    run --separate-stderr sh -c '"$@"; exit $?' sh "$@" --memory "$limit" --stats stats.json
    [ "$status" -le 1 ] && [ -z "$stderr" ] || { echo "$* --memory $limit: status $status: $stderr"; return 1; }
    peak=$(sed -n 's/.*"peak_memory": *\([0-9]*\).*/\1/p' stats.json)
    # programs and libraries take 4 to 6 MB; a page that is not counted would be 8
    if [ "$peak" -le 4000000 ] || [ "$peak" -gt $((limit + 9000000)) ]; then
        echo "$*: took $peak bytes where $limit were allowed"
        return 1
    fi
}

@test "the smallest portion that is accepted is kept to: what others hold is counted" {
    needs_plain_memory
    export raw=2048x2048:u16
    head -c 33554432 /dev/urandom > noise.raw              # four pages of 8 MiB that nothing compresses
    img-cat --raw-in $raw noise.raw -o plain.tif
    img-cat --raw-in 4194304x1:u16 noise.raw -o rows.tif   # a row is a strip
    img-cat --compress deflate rows.tif -o packed.tif
    mkdir many
    for i in 0 1 2 3 4 5; do img-cat --pages $((i % 4)) --compress deflate rows.tif -o many/$i.tif; done
    img-cat --compress deflate plain.tif -o strips.tif     # some rows are a strip
    keeps img-cmp plain.tif plain.tif
    keeps img-cmp --mask rows.tif packed.tif rows.tif
    keeps img-cat plain.tif -o out.tif
    keeps img-cat packed.tif -o out.tif
    keeps img-cat --pages 3,1 packed.tif -o out.tif
    keeps img-cat many -o out.tif
    keeps sh -c 'cat noise.raw | img-cat --raw-in $raw - -o out.tif "$@"' sh
    keeps sh -c 'cat noise.raw | img-convert --raw-in $raw --type u32 - -o out.tif "$@"' sh
    keeps img-convert --type u32 --compress zstd plain.tif -o out.tif
    keeps img-view plain.tif -o out.png
    keeps img-view strips.tif -o out.png
    keeps img-view --montage 3 --fit 1000x1000 plain.tif -o out.png
    keeps sh -c 'cat noise.raw | img-view --slice 1 --raw-in $raw - -o out.png "$@"' sh
    keeps img-info --percentiles 1,50 plain.tif
    keeps img-info --statistics --mask rows.tif packed.tif
    keeps img-math a+1 packed.tif -o out.tif
    keeps img-math a+b packed.tif rows.tif -o out.tif
    keeps sh -c 'cat noise.raw | img-math a+1 --raw-in $raw - -o out.tif "$@"' sh
    keeps img-gauss --2d --sigma 1 packed.tif -o out.tif
    keeps sh -c 'cat noise.raw | img-gauss --2d --sigma 1 --raw-in $raw - -o out.tif "$@"' sh
    keeps img-wiener --2d --noise 10 packed.tif -o out.tif
    keeps sh -c 'cat noise.raw | img-wiener --2d --noise 10 --raw-in $raw - -o out.tif "$@"' sh
    keeps sh -c 'cat noise.raw | ct-reduce --pages --raw-in $raw - -o out.tif "$@"' sh
}

@test "threads that cannot be had: 3, in one line with the way out, and no output is left" {
    needs_plain_memory
    mkdir out
    ct-phantom --volume 64x64x32 -o a.tif
    local status3=3
    # the runtime of OpenMP ends the program itself where it is not linked statically
    if [[ $(ldd "$BUILD/bin/img-gauss") == *libgomp* || $(ldd "$BUILD/bin/img-gauss") == *libomp* ]]; then status3=1; fi
    run --separate-stderr bash -c 'ulimit -v 200000; exec img-gauss --sigma 2 -j 64 a.tif -o out/o.tif'
    [ "$status" -eq "$status3" ]
    [ -z "$(ls -A out)" ]
    [ "$status3" -eq 1 ] || [[ "${stderr_lines[0]}" == "img-gauss: error: "*"hread"* && "${stderr_lines[1]}" == "img-gauss: hint: "* ]]
    [ "$status3" -eq 1 ] || [ "${#stderr_lines[@]}" -eq 2 ]
    [ "$status3" -eq 1 ] || OMP_NUM_THREADS=many fails 1 "img-info: warning: OpenMP: Invalid value" img-info nothere.tif
}

@test "a reason is not pushed out of its message by a long name" {
    local part long
    part=$(printf 'x%.0s' {1..250})
    long=$part/$part/$part/$part/$part/$part.tif
    f() {
        [ "$2" = - ] || fails "$(trouble "$1")" "xxx.tif: No such file or directory" "$1" "${@:3}" "$long"
        case $1 in img-info | img-cmp) return 0 ;; esac
        fails "$(trouble "$1")" ": No such file or directory" with_file "$@" -o "${long%.tif}"
        [[ "$stderr" == "$1: error: xxx"*" ... xxx"* ]]
    }
    each f
    # and characters are not cut into halves
    part=$(printf '\303\244%.0s' {1..120})
    for more in '' y yy; do
        run --separate-stderr img-cat "$more$part/$part/$part/$part/$part/$part.tif"
        iconv -f UTF-8 -t UTF-8 <<<"$stderr" >valid
    done
}

@test "empty names are said to be that: 2" {
    f() {
        [ "$2" = - ] || fails 2 " is empty: expected " "$1" "${@:3}" ''
        fails 2 "--stats: the file name is empty" with_file "$@" --stats ''
    }
    each f
    fails 2 "operand 2 is empty: expected A B" img-cmp vol.tif ''
}

@test "any number of bytes is a limit, up to the last one" {
    f() { with_file "$@" --memory 18446744073709551615 >a && with_file "$@" >b && cmp a b; }
    each f
}

@test "a name that promises another kind of file is refused, with the way out" {
    noise a.tif 4x3x2 f32
    fails 2 "x.png: the output is TIFF" img-gauss --sigma 1 a.tif -o x.png
    [[ "$stderr" == *"hint: give a name that ends in .tif; img-view makes pictures of it"* ]]
    fails 2 "d/x.JPG: the output is TIFF" img-cat missing.tif -o d/x.JPG
    fails 2 "x.raw: the output is TIFF" img-convert a.tif -o x.raw
    [[ "$stderr" == *"hint: add --raw-out"* ]]
    fails 2 "x.tif: the output is samples without a header" img-convert --raw-out a.tif -o x.tif
    fails 2 "x.dcm: the output is TIFF" ct-phantom --volume 4x4x4 -o x.dcm
    fails 2 "x.tiff: the output is a PNG" img-view a.tif -o x.tiff
    run ! ls x.*
    for f in x x.TIFF x.data x.tif.new .png png x.d/y; do
        mkdir -p x.d
        ok img-cat a.tif -o $f
        [ -e $f ]
        rm -rf x.d $f
    done
    ok img-view a.tif -o x.PNG
    ok img-convert --raw-out a.tif -o x.raw
}

@test "a stack that is too small is refused before work starts: 3, in one line" {
    f() {
        run --separate-stderr bash -c 'ulimit -s 256 && exec "$@"' sh "$1" "${@:3}" $([ "$2" = - ] || echo "$2")
        [ "$status" -eq "$([ "$1" = img-cmp ] && echo 2 || echo 3)" ] || { echo "$1: $status"; return 1; }
        [[ "$stderr" == "$1: error: the stack may take 256.0 KiB: expected at least 1.0 MiB"*"hint: ulimit -s "* ]]
        [ -z "$output" ]
    }
    each f
    ok bash -c 'ulimit -s 1024 && exec img-gauss --sigma 2 vol.tif -o out.tif'
}

@test "names and metadata cannot drive a terminal" {
    # escape, C1 as UTF-8 and as a byte, é
    # ... and what turns the direction of writing around: U+202E, U+2066; and U+2028, which ends a line
    local evil=$'e\033[31m\302\233m\233\342\200\256\342\201\246\342\200\250\303\251'
    noise a.tif 4x3x2 u8
    perl -pe 's/# history = img-convert/# history = a\033b\302\2332J\233cde/' a.tif > "$evil.tif"
    clean() { perl -e 'undef $/; $_ = <STDIN>; s/\303\251//g; exit(/[^\x20-\x7e\n]/ ? 1 : 0)'; }
    img-info "$evil.tif" > info
    clean < info
    [[ $(cat info) == *$'e\\x1b[31m\\xc2\\x9bm\\x9b\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xe2\\x80\\xa8\303\251.tif'* ]]
    [[ $(cat info) == *$'history      a\\x1bb\\xc2\\x9b2J\\x9bc'* ]]
    [ "$(img-info --value history "$evil.tif")" = 'a\x1bb\xc2\x9b2J\x9bcde' ]
    img-info --json "$evil.tif" > json
    clean < json
    [[ $(cat json) == *'a\u001bb\u009b2J\ufffdc'* ]]
    img-cat -v "$evil.tif" -o b.tif 2> err
    [[ $(cat err) == *'e\x1b[31m\xc2\x9bm\x9b'* ]]
    clean < err
    img-cat --plan "$evil.tif" > plan
    [[ $(cat plan) == *'e\x1b[31m\xc2\x9bm\x9b'* ]]
    clean < plan
    run --separate-stderr img-cat "$evil" -o b.tif
    [ "$status" -eq 1 ]
    [[ "$stderr" == *'e\x1b[31m\xc2\x9bm\x9b'* ]]
    # kept where it is not shown
    img-cat "$evil.tif" -o b.tif
    grep -qaF $'a\033b\302\2332J\233cde' b.tif
}
