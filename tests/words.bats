# What people type out of habit from other programs is understood, or answered with the right word.
load helper

@test "an expression may begin with a minus sign; ** is a power; log10, log2 and pow are there" {
    floats a.tif 1 2 1000
    img-math '-log(a)' a.tif -o b.tif
    img-math -e '0-log(a)' a.tif | img-cmp - b.tif
    [ "$(img-info b.tif | sed -n 's/^history *//p' | tail -n 1)" = "img-math '-log(a)'" ]
    img-math '-(a+1)' a.tif | img-cmp - <(img-math '0-a-1' a.tif)
    img-math '-2*a' a.tif | img-cmp - <(img-math 'a*(0-2)' a.tif)
    img-math '-exp(-a)' a.tif | img-cmp - <(img-math '0-exp(0-a)' a.tif)
    img-math '-max(a,2)' a.tif | img-cmp - <(img-math '0-max(a,2)' a.tif)
    img-math 'a**2**0.5' a.tif | img-cmp - <(img-math 'a^2^0.5' a.tif)
    img-math -- '-pow(a,3)' a.tif | img-cmp - <(img-math -e '-a**3' a.tif)
    [ "$(img-math 'log10(a)' a.tif | numbers - 'f<')" = "0 0.30103000998497 3" ]
    [ "$(img-math 'log2(a)' a.tif | numbers - 'f<' | cut -d' ' -f 1-2)" = "0 1" ]
    fails 2 "expected an operator or the end, got '&'" img-math '(a>1) & (a<2)' a.tif
    [[ "$stderr" == *'hint: conditions are combined by `and` and `or`'* ]]
    fails 2 "expected an operator or the end, got '?'" img-math 'a>1 ? 2 : 3' a.tif
    [[ "$stderr" == *"hint: if(condition, value, other) chooses"* ]]
    fails 2 "expected an operator or the end, got '='" img-math 'a=1' a.tif
    fails 2 "unknown option -z" img-math -z a.tif
}

@test "sample types by the names of NumPy and C" {
    noise a.tif 8x7x3 u16
    for type in uint8=u8 uint16=u16 int16=i16 float32=f32 float=f32 double=f64 float64=f64; do
        img-convert --type "${type%=*}" a.tif -o b.tif
        [ "$(img-info --value type b.tif)" = "${type#*=}" ]
    done
    img-gauss --type float32 a.tif | img-cmp - <(img-gauss --type f32 a.tif)
    fails 2 "--type: 'uint12' is not one of" img-convert --type uint12 a.tif
    fails 2 "--type: 'float64' is not one of" img-gauss --type float64 a.tif
}

@test "words of other programs lead to ours" {
    noise a.tif 8x7x3 u8
    fails 2 "unknown option --crop; did you mean --region?" img-cat --crop 0:2,0:2 a.tif
    fails 2 "unknown option --slices; did you mean --pages?" img-cat --slices 0:2 a.tif
    fails 2 "unknown option --dtype; did you mean --type?" img-convert --dtype u16 a.tif
    fails 2 "unknown option --jobs; did you mean --threads?" img-cat --jobs=3 a.tif
    fails 2 "unknown option --threshold; did you mean --at?" img-threshold --threshold 3 a.tif
    fails 2 "--value: expected a whole number from 1 to 255 for what is marked, got 0.02" img-threshold --value 0.02 a.tif
    [[ "$stderr" == *"hint: --at V is the threshold"* ]]
    fails 2 "expected a threshold, got none (--value is what marked voxels become)" img-threshold --value 2 a.tif
    fails 2 "unknown option --zoom; did you mean --scale?" img-resize --zoom 2 a.tif
    [ "$(img-threshold --at 9 --value 7 a.tif | img-info --value max)" = 7 ]
}

@test "img-info --value may be repeated" {
    noise a.tif 8x7x3 u8
    [ "$(img-info --value mean --value max a.tif)" = "$(img-info --value mean,max a.tif)" ]
    [ "$(img-info --value nx --value ny,type --value pages a.tif | xargs)" = "8 7 u8 3" ]
    fails 2 "--value: expected names, such as mean,max" img-info --value mean --value '' a.tif
}

@test "a letter means one thing in all programs; the old letters are answered with the names" {
    noise a.tif 8x7x3 u8
    fails 2 "unknown option -s; did you mean --squares?" img-sat -s b.tif a.tif
    img-gauss -s 2 a.tif | img-cmp - <(img-gauss --sigma 2 a.tif)
    fails 2 "unknown option -s; did you mean --statistics?" img-info -s a.tif
    fails 2 "unknown option -s; did you mean --slice?" img-view -s 1 a.tif
    fails 2 "unknown option -s; did you mean --stat?" img-local -s mean a.tif
    fails 2 "unknown option -s; did you mean --show?" ct-geom -s
    fails 2 "unknown option -g; did you mean --gaussian?" img-psf -g 2
    fails 2 "unknown option -r; did you mean --region?" img-cat -r 0:2,0:2 a.tif
    fails 2 "unknown option -a; did you mean --axis?" img-view -a y a.tif
    fails 2 "unknown option -p; did you mean --phantom?" ct-phantom -p ball
    fails 2 "unknown option -z; did you mean --distance?" ct-phase -z 50 a.tif
    fails 2 "unknown option -e; did you mean --energy?" ct-phase -e 20 a.tif
    fails 2 "unknown option -w; did you mean --window?" img-threshold -l mean -w 5 a.tif
    fails 2 "unknown option -k; did you mean --k?" img-threshold -l niblack -k 0.2 a.tif
    fails 2 "unknown option -r; did you mean --r?" img-threshold -l sauvola -r 9 a.tif
    img-local --stat mean -r 2 a.tif | img-cmp - <(img-local --stat mean --radius 2 a.tif)
    for program in "$BUILD"/bin/*; do # in the options of --help
        "$program" --help | sed -n 's/^ *-\([a-zA-Z0-9]\), --\([a-z0-9-]*\).*/\1 \2/p'
    done | sort -u >letters
    [ "$(wc -l <letters)" -gt 20 ]
    [ "$(cut -d" " -f 1 letters | uniq -d)" = "" ] || { cat letters; return 1; }
}

@test "img-log says in its first line that it is no logarithm" {
    img-log --help | sed -n 1,4p | tr '\n' ' ' | grep -q "no logarithm: img-math 'log(a)'"
}

@test "voxpipe lists every program, shows manuals, suggests names" {
    ok voxpipe
    for program in "$BUILD"/bin/*; do
        grep -q "^  $(basename "$program") " <<<"$output" || { echo "not listed: $program"; return 1; }
    done
    [ "$(grep -c '^  [a-z]' <<<"$output")" -eq "$(find "$BUILD/bin" -type f -o -type l | wc -l)" ]
    fails 2 "no program is named 'gaus'" voxpipe gaus
    [[ "$stderr" == *"hint: did you mean img-gauss?"* ]]
    fails 2 "no program is named 'xyzzy'" voxpipe xyzzy
    mkdir bin
    printf '#!/bin/sh\necho "man $*"\n' >bin/man
    chmod +x bin/man
    ok env PATH="$PWD/bin:$PATH" voxpipe img-gauss
    [[ "$output" == "man -l "*"/man/img-gauss.1" || "$output" = "man img-gauss" ]]
}

@test "voxpipe doctor reports the machine, and what is missing with the way to get it" {
    ok voxpipe doctor
    for word in voxpipe processor memory scratch GPU MPI HDF5 libtiff FFTW; do
        grep -q "^$word " <<<"$output" || { echo "no line of $word: $output"; return 1; }
    done
    grep -q "^processor .* cores, instruction set $(VOXPIPE_ISA='' voxpipe doctor | sed -n 's/.*instruction set \([a-z0-9]*\).*/\1/p')" <<<"$output"
    VOXPIPE_ISA=generic voxpipe doctor | grep -q "instruction set generic (AVX2 or AVX-512 would be faster)"
    # pretended devices, and none
    VOXPIPE_PLUGINS="$BUILD/pretend" voxpipe doctor | grep -q "^GPU .*:0: "
    mkdir empty
    VOXPIPE_PLUGINS="$PWD/empty" voxpipe doctor >out
    grep -q "^GPU  *none: " out
    grep -q "to have the plugin install the CUDA toolkit (nvcc) and run make again" out
    grep -q "^set  *VOXPIPE_PLUGINS=$PWD/empty" out
    TMPDIR=/nowhere voxpipe doctor | grep -q "^scratch  */nowhere: cannot be used: set TMPDIR to a folder"
}
