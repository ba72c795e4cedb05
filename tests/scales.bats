# A recorded scale changes no result: the table of tests/scales, over samples with a scale, the values that they stand for,
# and the same samples without it.
load helper

# default_rows: for each program of volumes that has no row in tests/scales, its arguments of tests/programs
default_rows() {
    local name input arguments
    while IFS='|' read -r name input arguments _; do
        if [[ $input != *vol.tif* ]] || grep -q "^${name// /} *|" "$ROOT/tests/scales"; then continue; fi
        echo "$name| v |$arguments| u8 u16 i16 | values | 0.52 steps"
    done <<<"$PROGRAMS"
}

SCALES=$(grep -v '^#' "$ROOT/tests/scales"; default_rows | sed 's/kernel[.]tif/{kernel}/')

# scaled NAME TYPE FILE...: NAME.TYPE.up.tif and .down.tif, of the values of FILE (f32), the values that they hold, and the
# samples of both without their scale
scaled() {
    local n=$1.$2 ends least most
    ends=$(img-info --value min,max "$3" | xargs)
    read -r least most <<<"$(perl -e '$ARGV[0] =~ /(.)(\d+)/; print $1 eq "u" ? "0 " . (2 ** $2 - 1) : -2 ** ($2 - 1) . " " . (2 ** ($2 - 1) - 1)' "$2")"
    # nine tenths of the type's range, by whole offsets: no value is 0 but by them
    read -r gain offset <<<"$(perl -e '($lo, $hi, $least, $most) = @ARGV; $r = $most - $least; $g = sprintf "%.5g", 0.9 * $r / ($hi - $lo);
        print "$g ", int($least + 0.05 * $r - $lo * $g)' -- $ends $least $most)"
    img-convert --type "$2" --scale "$gain,$offset" "$3" -o "$n.up.tif"
    img-convert --unscale "$n.up.tif" -o "$n.values.tif"
    img-convert --type "$2" --scale "-$gain,$(perl -e 'printf "%d", $ARGV[0] + $ARGV[1] - $ARGV[2]' -- "$least" "$most" "$offset")" \
        "$n.values.tif" -o "$n.down.tif"
    img-cmp -q <(img-convert --unscale "$n.down.tif") "$n.values.tif"
    img-convert --set scale= "$n.up.tif" -o "$n.plain.up.tif"
    img-convert --set scale= "$n.down.tif" | img-math -q -e "$least + $most - a" --type "$2" -o "$n.plain.down.tif"
}

setup_file() {
    export PATH="${VOXPIPE_BUILD:-$BATS_TEST_DIRNAME/../build}/bin:$PATH" VOXPIPE_DEVICE=cpu
    cd "$BATS_FILE_TMPDIR" || exit 1
    local f t
    ct-geom --sod 500 --sdd 1000 --detector 24x20 --pitch 4 --views 16 -o scan.geom
    ct-phantom -g scan.geom -o p.tif
    ct-phantom -g scan.geom --counts --noise 1e5 -o c.tif
    ct-filter p.tif -o q.tif
    # noise, so that no two results are equal by chance
    ct-phantom --volume 20x18x6 -o phantom.tif
    noise noise.tif 20x18x6 f32
    img-convert --set axes=x,y,z noise.tif | img-math -q 'a + 0.004 * b' phantom.tif - -o v.tif
    img-math -q 'a > 0.1' --type u8 noise.tif -o mask.tif
    ct-phantom -g scan.geom --counts --noise 1e5 --density 0 | img-cat --pages 0:2 -o flat.tif
    img-math -q 'a * 0 + 17' flat.tif -o dark.tif
    img-cat --pages 0 flat.tif | img-math 'x == 3' --type u8 -o dead.tif
    img-psf --gaussian 1,1,1 --size 3 -o kernel.tif
    printf '10 9 3\n' > stars.txt
    printf 'a 2:9 3:11\nb 12:20 0:18\nc 0:20 0:1\n' > boxes.txt
    for t in u8 i8 u16 i16 u32 i32; do scaled v "$t" v.tif; done
    for t in u8 u16 i16; do
        for f in p q c; do scaled "$f" "$t" "$f.tif"; done
    done
}

# made IN OUT ARGS...: the run of $name over IN, as OUT; what is printed goes there too
made() {
    local in=$BATS_FILE_TMPDIR/$1 out=$2 word words=() last=1
    shift 2
    for word in "$@"; do
        case $word in
        {in}) words+=("$in") last= ;;
        {stars} | {boxes}) words+=("$BATS_FILE_TMPDIR/${word:1:-1}.txt") ;;
        {scan}) words+=("$BATS_FILE_TMPDIR/scan.geom") ;;
        {*}) words+=("$BATS_FILE_TMPDIR/${word:1:-1}.tif") ;;
        *) words+=("$word") ;;
        esac
    done
    "$name" "${words[@]}" ${last:+"$in"} > "$out" 2> "$out.err"
}

# same_text FILE FILE N: the same words and, to N of the largest, the same numbers; but for what is said of the file
same_text() {
    perl -e '($a, $b, $near) = @ARGV; sub words { open F, $_[0]; map { s/\S+\.tif//g; split } grep { !/^(\S+\.tif|type|scale|quantity|history) ?/ } <F> }
        @a = words($a); @b = words($b); $n = qr/^-?[\d.]+(e[-+]\d+)?$/; $most = 0;
        for (@a) { $most = abs if /$n/ && abs > $most } $bad = @a != @b || !@a;
        for (0..$#a) { $bad ||= $a[$_] =~ $n && $b[$_] =~ $n ? abs($a[$_] - $b[$_]) > $near * $most : $a[$_] ne $b[$_] }
        die "@a\n@b\n" if $bad' "$1" "$2" "$3"
}

# rows PATTERN: those of programs whose names match
rows() {
    local name input arguments types against near type turn got want
    while IFS='|' read -r name input arguments types against near; do
        name=${name// /} input=${input// /} against=${against// /}
        [[ $name = $1 ]] || continue
        for type in $types; do
            for turn in up down; do
                echo "$name $arguments, $type, $turn against $against:$near"
                want=$input.$type.$against.tif
                [ "$against" = values ] || want=$input.$type.plain.$turn.tif
                # shellcheck disable=SC2086
                made "$want" want $arguments
                # shellcheck disable=SC2086
                made "$input.$type.$turn.tif" got $arguments
                case $near in
                *text*) same_text got want "${near##* }" ;;
                *bytes*) cmp got want ;;
                *bits*) ok img-cmp got want ;;
                *) ok img-cmp --atol "$(awk -v n="${near% *}" -v g="$(img-info --value scale "$BATS_FILE_TMPDIR/$input.$type.up.tif")" \
                    'BEGIN { split(g, s, " "); print n / s[1] }')" got want ;;
                esac
            done
        done
    done <<<"$SCALES"
}

@test "a recorded scale changes no reconstruction" {
    rows 'ct-*'
}

@test "a recorded scale changes no image, programs a to l" {
    rows 'img-[a-l]*'
}

@test "a recorded scale changes no image, programs m to r" {
    rows 'img-[m-r]*'
}

@test "a recorded scale changes no image, programs s to z" {
    rows 'img-[s-z]*'
}

@test "every program that reads a stack has a row, and every row is a program's" {
    local name input
    while IFS='|' read -r name input _; do
        [[ $input = *-* ]] || grep -q "^${name// /} *|" <<<"$SCALES" || { echo "${name// /} is missing"; return 1; }
    done <<<"$PROGRAMS"
    # and is there under its own name
    while IFS='|' read -r name _; do grep -q "^${name// /} *|" "$ROOT/tests/programs"; done <<<"$SCALES"
}
