# Missing samples and maps of radii on a device: random commands, which must give the CPU's bits. Loaded by emulated.bats
# and cuda-local.bats.
# shellcheck shell=bash

# missing_images WxHxD: u8, u16, i16 and f32.tif; nan.tif, f32 with holes; masks m.tif, page.tif (of one page) and
# lattice.tif, of which no three neighbours along x all exist; kernels k.tif and flat.tif; radii.tif
missing_images() {
    local type size=$1
    for type in u8 u16 i16 f32; do noise $type.tif "$size" $type; done
    img-math '(a < 190) and not (x > 5 and x < 14 and y < 9)' --type u8 u8.tif -o m.tif
    img-cat --pages 0 m.tif -o page.tif
    img-math '(x + y + 2 * z) % 3 != 0' --type u8 u8.tif -o lattice.tif
    img-math -q 'if(b, a, 0 / 0)' f32.tif m.tif -o nan.tif
    img-math '(x * 7 + y * 3 + z * 5) % 8' --type u8 u8.tif -o radii.tif
    noise k.tif 5x4x3 f32
    noise flat.tif 5x3x1 u8
    img-math -q 'a * 1e7 + if(x == 11 and y == 2, 1 / 0, if(x == 20 and y == 5, 0 / 0, 1e9))' f32.tif -o odd.tif
}

# missing_commands N SEED: N lines "bits COMMAND" or "near COMMAND". Sums in f32 and kernels are within 1e-6 of the CPU where
# the stage itself makes them; on the lattice nothing is left to it.
missing_commands() {
    perl -e '
        ($n, $seed) = @ARGV; srand $seed;
        sub one { $_[int rand @_] }
        sub radius { one(1, 2, "3,1,0", "1,2,1", "2,2,1 --shape ball", "3.5,2.5,1 --shape ball", "0,4,0") }
        for (1 .. $n) {
            $t = one(qw(u8 u16 i16 f32 f32)); $mask = one("--mask m.tif", "--mask page.tif", "--mask lattice.tif");
            $edge = one(qw(renormalize nearest mirror zero wrap)); $whole = $t ne "f32";
            $rest = one("", "", "--keep-missing ") . one("", "--coverage 0.4 "); $fill = "--fill " . one(0, 7, 77);
            $what = int rand 10; $lattice = 0;
            if ($what == 0) {
                $c = "img-gauss --edge $edge --sigma " . one(1, "2.5,1,0.5", "0,0.7,2") . one("", " --highpass --type f32", " -n 2", " --type f32");
            } elsif ($what == 1) {
                $c = "img-local --stat " . one("median", "percentile:20") . " --radius " . radius() . one("", " -n 2");
            } elsif ($what == 2) {
                $c = "img-local --stat " . one("min", "max") . " --radius " . radius() . one("", " -n 2");
            } elsif ($what == 3) {
                $c = "img-local --stat entropy --bins 20 --range 0,200 --radius " . one(1, "2,2,0", "3,1,1");
                $fill =~ s/7+/0/;
            } elsif ($what == 4) {
                $c = "img-local --radius " . radius() . " --stat " . ($whole ? one("mean", "std --type same", "var --sample --type same")
                    : one("mean", "std", "var --sample"));
                $lattice = !$whole;
            } elsif ($what == 5) {
                $c = "img-morph --op " . one(qw(erode dilate open close tophat bothat gradient)) . " -r " . radius();
            } elsif ($what == 6) {
                $c = "img-wiener --noise 300 --radius " . one(1, "2,1,1"); $lattice = !$whole;
            } elsif ($what == 7) {
                $c = "img-nlmeans --search " . one(1, "3,2,1") . " --patch " . one(1, "1,0,1") . " --sigma 2 --h " . one(0.3, 30, 3000);
            } elsif ($what == 8) {
                $c = "img-threshold " . ($whole ? "--local " . one("niblack", "mean", "sauvola") . " --window 5,5,3" : "--otsu");
                $rest = $fill = ""; $t = "f32" if rand() < 0.1 && $c =~ /otsu/;
            } else {
                $c = "img-convolve --type " . one("same", "f32") . " -k " . one("k.tif", "flat.tif --crop valid", "flat.tif --correlate") . ($edge eq "wrap" ? "" : " --edge $edge");
                $lattice = 1;
            }
            $lattice = 1 if $c =~ /--radius 0/ && !$whole;
            if ($lattice && $c =~ /0,4,0/) { $c =~ s/0,4,0/1,4,0/ }
            $near = $lattice && rand() < 0.4; # what the stage itself makes is compared, too
            $mask = "--mask lattice.tif" if $lattice && !$near;
            # results of floats may stay NaN
            $fill = "" if rand() < 0.6 && ($what == 3 || $c =~ /--type f32/ || ($t eq "f32" && $c !~ /img-threshold/));
            if ($t eq "f32" && (!$lattice || $near) && rand() < 0.6) { $t = "nan"; $mask = one("--missing nan", "--missing nan", $mask) }
            $chunk = one("", "", " --chunk 17x13x3", " --chunk 64x9x2", " --chunk 29x64x1");
            print $near ? "near" : "bits", " $c $mask $rest$fill$chunk $t.tif\n";
        }' "$1" "$2"
}

# missing_agree N SEED: they give the bits of the CPU, or what is near them and NaN in the same places
missing_agree() {
    local how command
    missing_commands "$1" "$2" > commands
    [ "$(wc -l < commands)" -eq "$1" ]
    grep -q "^near" commands
    grep "^bits" commands | grep -vq -e --fill
    while read -r how command; do
        echo "seed $2: $how $command"
        # shellcheck disable=SC2086
        device_agrees "$how" $command
    done < commands
}

# device_agrees bits|near COMMAND...: on a device and on the CPU
device_agrees() {
    local how=$1
    shift
    ok "$@" -q --device cpu -o cpu.tif
    ok "$@" -q --device cuda -o gpu.tif --stats stats.json
    grep -q '"device": "cuda' stats.json
    if [ "$how" = near ]; then
        img-cmp -q --nan-equal --max-rel-l2 1e-6 cpu.tif gpu.tif || { echo "with $*"; return 1; }
        return
    fi
    img-cat --raw-out cpu.tif -o cpu.raw
    img-cat --raw-out gpu.tif -o gpu.raw
    cmp cpu.raw gpu.raw || { echo "with $*"; return 1; }
}

# radii_agree: boxes of a map of radii, of every type and statistic
radii_agree() {
    local type stat how
    for type in u8 u16 i16 f32 odd; do
        for stat in mean sum var "std --sample" "sum --type f64" "var --type same"; do
            for how in "" "--2d" "--chunk 17x11x3"; do
                # shellcheck disable=SC2086
                device_agrees bits img-local --stat $stat --radius-map radii.tif $how $type.tif
            done
        done
    done
}
