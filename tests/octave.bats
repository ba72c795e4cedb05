# The function for Octave and MATLAB, examples/octave/voxpipe.m.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    command -v octave-cli >/dev/null || skip "no octave-cli"
    mkdir tmp
    export TMPDIR=$PWD/tmp
}

# octave: runs standard input; a warning, or a file that is left over, is a failure
octave() {
    cat >script.m
    ok timeout -k 5 120 octave-cli --norc --no-history --path "$ROOT/examples/octave" script.m
    [ -z "$(ls tmp)" ]
}

@test "every sample type comes back, in two to five axes" {
    octave <<'END'
types = {'uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32', 'int64', 'single', 'double'};
for i = 1:numel(types)
    for shape = {[5 7], [5 7 3], [1 1], [4 1 2], [1 6]}
        a = cast(floor(rand(shape{1}) * 100), types{i});
        b = voxpipe('img-cat', a);
        assert(strcmp(class(b), types{i}) && isequal(a, b));
    end
end
a = single(rand(4, 5, 3, 2, 2));
[b, meta] = voxpipe('img-cat', {a, 'axes = x y channel z time'});
assert(isequal(a, b));
[b, meta] = voxpipe('img-cat {1}', {b, meta});
assert(isequal(a, b) && ~isempty(strfind(meta, "axes = x y channel z time\n")) && isempty(strfind(meta, 'sizes')));
b = voxpipe('img-cat', {a(:, :, :, :, 1), 'axes = x y channel z time'});
assert(isequal(a(:, :, :, :, 1), b));
assert(isequal(voxpipe('img-math "x" --type f32', a(:, :, 1)), repmat(single(0:4), 4, 1)));
assert(strcmp(class(voxpipe('img-morph --op dilate', a(:, :, 1) > 0.5)), 'uint8'));
END
}

@test "metadata are kept: a geometry of matrices, voxel size, history" {
    posed views=30 nu=16 nv=12 du=8 >posed.geom
    ct-phantom -g posed.geom -o posed.tif
    octave <<'END'
[scan, meta] = voxpipe('img-cat posed.tif');
assert(isequal(size(scan), [12 16 30]) && numel(strfind(meta, 'geom.matrix = ')) == 30);
voxpipe('img-cat -o again.tif', {scan, meta});
[b, meta] = voxpipe('img-gauss --physical --sigma 0.3', {single(zeros(4, 5, 3)), "voxel = 0.1 0.2 0.3\nunit = mm"});
assert(~isempty(strfind(meta, "voxel = 0.1 0.2 0.3\nunit = mm\n")));
END
    ok img-cmp posed.tif again.tif
    diff <(ct-geom posed.tif) <(ct-geom again.tif)
}

@test "several inputs, a pipeline with the shell's bits, text, a file" {
    ct-geom --sod 100 --sdd 350 --detector 64x42 --pitch 0.8 --views 120 -o scan.geom
    ct-phantom -g scan.geom --counts --noise 1e4 -o counts.tif
    img-cat --pages :2 counts.tif | img-math 'a * 0 + 10000' --type u16 -o flat.tif
    ct-normalize -g scan.geom --flat flat.tif counts.tif | ct-filter | ct-backproject --volume 32x32x16 -o shell.tif
    octave <<'END'
counts = voxpipe('img-cat counts.tif');
flat = voxpipe('img-cat flat.tif');
volume = voxpipe(['ct-normalize -g scan.geom --flat {2} {1} | ct-filter | ' ...
                  'ct-backproject --volume 32x32x16'], counts, flat);
assert(isequal(volume, voxpipe('img-cat shell.tif')) && any(volume(:)));
difference = voxpipe('img-math "a - b" {1} {2}', volume, volume);
assert(isequal(difference, zeros(size(volume), 'single')));
assert(~isempty(strfind(voxpipe('img-info', volume), '32 x 32, 16 pages')));
assert(isempty(voxpipe('img-gauss --sigma 1 -o smooth.tif', volume)));
assert(isequal(voxpipe('img-cat smooth.tif'), voxpipe('img-gauss --sigma 1', volume)));
END
}

@test "a failure is an error with the program's line, and a warning a warning" {
    octave <<'END'
1; % a script
function check(message, varargin)
    try
        voxpipe(varargin{:});
    catch e
        assert(any(strcmp(e.identifier, {'voxpipe:run', 'voxpipe:usage'})));
        assert(~isempty(strfind(e.message, message)), e.message);
        return
    end
    error('no error');
end
a = single(ones(4, 5));
check('img-gauss: error: unknown option --sigm; did you mean --sigma?', 'img-gauss --sigm 2', a);
check('img-cat: error: --pages', 'img-cat --pages 99 | img-gauss', a);
check(sprintf('voxpipe: exit status 1\nsamples          20'), 'img-cmp {1} {2}', a, 2 * a);
check('{2} is not in the command', 'img-cat {1}', a, a);
check('expected an array of real numbers', 'img-cat', a * i);
check('an array of 4 axes', 'img-cat', ones(2, 2, 2, 2));
check('an array of 2 axes with 1 names', 'img-cat', {a, 'axes = x'});
warning('error', 'voxpipe:run');
check('img-convert: warning: ', 'img-convert --type u8', 1e9);
END
}
