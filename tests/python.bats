# The module for Python, examples/python/voxpipe.py.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    for PYTHON in python3 /usr/bin/python3 none; do
        if "$PYTHON" -c 'import numpy' 2>/dev/null; then break; fi
    done
    [ "$PYTHON" != none ] || skip "no Python 3 with NumPy"
    mkdir tmp
    export TMPDIR=$PWD/tmp PYTHONPATH=$ROOT/examples/python PYTHONDONTWRITEBYTECODE=1 BIN=$BUILD/bin
}

# python: runs standard input; a warning, or a file, descriptor, thread or process that is left over, is a failure
python() {
    cat >checked.py <<'END'
import os, sys, threading, numpy as np, voxpipe as vp
source = sys.stdin.read()
sys.stdin.close()
vp.img_gauss
before = os.listdir("/proc/self/fd")
exec(compile(source, "script", "exec"))
assert os.listdir("/proc/self/fd") == before, os.listdir("/proc/self/fd")
assert threading.active_count() == 1, threading.enumerate()
assert os.listdir(os.environ["TMPDIR"]) == [], os.listdir(os.environ["TMPDIR"])
try:
    os.waitpid(-1, os.WNOHANG)
    raise AssertionError("a process was left over")
except ChildProcessError:
    pass
END
    ok timeout -k 5 120 "$PYTHON" -W error checked.py
}

@test "every program is a function with its help" {
    python <<'END'
assert sorted(vp.PROGRAMS) == sorted(name.replace("-", "_") for name in os.listdir(os.environ["BIN"]))
assert set(vp.PROGRAMS) < set(dir(vp)) and vp.img_gauss.__name__ == "img_gauss" and vp.img_gauss is vp.img_gauss
assert "--sigma" in vp.img_gauss.__doc__ and "--clear-border" in vp.img_morphrecon.__doc__
assert not hasattr(vp, "img_nothing")
END
}

@test "every sample type comes back, in two and three axes, in any order of bytes and of memory" {
    python <<'END'
rng = np.random.default_rng(1)
for name in "u1 u2 u4 u8 i1 i2 i4 i8 f4 f8 >i2 >u4 >f4 >f8 ?".split():
    for shape in (5, 7), (1, 5, 7), (3, 5, 7), (1, 1), (1, 1, 1), (2, 1, 3):
        a = rng.integers(0, 256, shape + (8,), np.uint8).view("u8")[..., 0].astype(name)
        for b in a, a.T, a[..., ::-1], np.asfortranarray(a), a[::2]:
            c = vp.img_cat(b)
            assert c.shape == b.shape and (c == b).all(), (name, b.shape, c.shape)
            assert c.dtype == (np.uint8 if name == "?" else b.dtype.newbyteorder("=")), (name, c.dtype)
a = np.array([[np.nan, np.inf, -0.0, 1e-310]])
assert vp.img_cat(a).tobytes() == a.tobytes()
assert (vp.img_cat([[1, 2], [3, 4]]) == [[1, 2], [3, 4]]).all()
END
}

@test "more axes come back, and the bytes of the samples are those that the programs read" {
    python <<'END'
a = vp.Stack(np.arange(2 * 3 * 4 * 5, dtype="f4").reshape(2, 3, 4, 5), axes="x y channel time")
b = vp.img_cat(a)
assert b.shape == a.shape and (b == a).all() and b.meta["axes"] == "x y channel time" and "sizes" not in b.meta
assert vp.img_cat(b, raw_out=True) == a.tobytes()
assert vp.img_info(b, json=True)["metadata"]["sizes"] == "3 2"
c = vp.img_cat(vp.Stack(np.zeros((1, 1, 4, 5), "u1"), axes="x y z time"))
assert c.shape == (1, 1, 4, 5)
END
}

@test "more pages than are counted, and BigTIFF" {
    python <<'END'
a = np.arange(70000 * 6, dtype="u4").reshape(70000, 2, 3)
assert (vp.img_cat(a) == a).all()
assert (vp.pipe(vp.img_cat(pages="1:"), vp.img_cat())(a) == a[1:]).all()
END
}

@test "metadata are kept: sizes, axes, origin, history, a geometry of matrices" {
    posed views=30 nu=16 nv=12 du=8 >posed.geom
    ct-phantom -g posed.geom -o posed.tif
    python <<'END'
meta = vp.img_info("posed.tif", json=True)["metadata"]
scan = vp.imread("posed.tif")
assert len(scan.meta["geom.matrix"]) == 30 and scan.meta["history"][1:] == ["img-cat"]
again = vp.img_cat(scan).meta
for key in meta.keys() - {"history"}:
    assert scan.meta[key] == meta[key] and again[key] == meta[key], key
vp.imwrite("again.tif", scan, compress="deflate")
volume = vp.ct_fdk(scan, volume=(8, 9, 10), voxel=(2, 2, 3))
assert volume.shape == (10, 9, 8) and volume.meta["voxel"] == "2 2 3" and volume.meta["quantity"] == "attenuation"
a = vp.Stack(np.zeros((3, 4, 5), "f4"), {"unit": "mm"}, voxel=(0.1, 0.2, 0.3), origin=(1, 2, 3), my_key="some text")
b = vp.img_gauss(a, physical=True, sigma=0.3).meta
assert (b["voxel"], b["unit"], b["origin"], b["my-key"]) == ("0.1 0.2 0.3", "mm", "1 2 3", "some text"), b
END
    img-cmp posed.tif again.tif
    diff <(ct-geom posed.tif) <(ct-geom again.tif)
}

@test "arithmetic keeps the voxel size and not the quantity, slices keep nothing, copies keep all" {
    python <<'END'
import pickle
a = vp.ct_phantom(volume=(6, 5, 4), voxel=(1, 1, 2))()
assert a.meta["quantity"] == "attenuation" and type(a) is vp.Stack
place = {key: a.meta[key] for key in ("axes", "voxel", "unit", "origin", "history")}
for b in a * 2, 1 - a, np.exp(a), a > 0.01, a + a:
    assert type(b) is vp.Stack and b.meta == place, b.meta
for b in a.copy(), a.astype("f8"), pickle.loads(pickle.dumps(a)), vp.Stack(a):
    assert b.meta == a.meta and (b == a).all()
for b in a[0], a[::-1], a.T, a.mean(axis=0), a.reshape(5, 4, 6), np.add.accumulate(a):
    assert not getattr(b, "meta", None), b.meta
assert isinstance(a.sum(), np.floating) and isinstance(a.max(), np.floating)
b = a.copy()
b += 1
assert (b == a + 1).all()
assert vp.img_morph(vp.Stack(np.asarray(a) > 0, a.meta), op="open", radius=2, physical=True).meta["voxel"] == "1 1 2"
END
}

@test "a pipeline gives the shell's bits, and so does a pipeline from file to file" {
    ct-geom --sod 100 --sdd 350 --detector 64x42 --pitch 0.8 --views 120 -o scan.geom
    ct-phantom -g scan.geom --counts --noise 1e4 -o counts.tif
    img-cat --pages :2 counts.tif | img-math 'a * 0 + 10000' --type u16 -o flat.tif
    img-math 'a * 0' flat.tif -o dark.tif
    ct-normalize --flat flat.tif --dark dark.tif -g scan.geom counts.tif | ct-filter --window hann |
        ct-backproject --volume 32x32x16 -o shell.tif
    python <<'END'
counts, flat, dark = map(vp.imread, ("counts.tif", "flat.tif", "dark.tif"))
steps = vp.ct_filter(window="hann"), vp.ct_backproject(volume=(32, 32, 16))
plain = np.asarray(counts)
normalize = vp.ct_normalize(flat=[flat], dark=np.asarray(dark), g="scan.geom")
a = vp.pipe(normalize, *steps)(plain)
assert (a == vp.imread("shell.tif")).all() and a.any()
assert (vp.pipe(normalize, *steps)(counts) == a).all()
geometry = vp.ct_geom("scan.geom")
assert (vp.pipe(vp.ct_normalize(flat=flat, dark=dark, g=geometry.encode()), *steps)(plain) == a).all()
files = vp.pipe(vp.ct_normalize(flat="flat.tif", dark="dark.tif", g="scan.geom"), *steps)
assert files("counts.tif", output="python.tif") == "python.tif"
assert repr(normalize) == "ct-normalize --flat=ARRAY --dark=ARRAY -g scan.geom"
assert repr(files).endswith(" | ct-filter --window=hann | ct-backproject --volume=32x32x16")
END
    cmp shell.tif python.tif
}

@test "several inputs, options as tuples, lists, flags and short names, and other results than arrays" {
    noise a.tif 40x30x10 f32
    noise b.tif 40x30x10 u16
    img-math 'b - a' a.tif b.tif -o c.tif
    img-gauss --sigma 2,1 --2d a.tif >d.tif
    python <<'END'
import pathlib
a, b, c = map(vp.imread, ("a.tif", pathlib.Path("b.tif"), "c.tif"))
for result in vp.img_math("b - a", a, b), vp.img_math("b - a", a, "b.tif"), vp.img_math(a, b, e="b - a"), \
        vp.img_math("b - a", "-", b)(a), vp.pipe(vp.img_cat(), vp.img_math("b - a", "-", b))(a), \
        vp.img_math(expression="b - a")(a, b):
    assert (result == c).all()
same = vp.img_gauss(a, s=(2, 1), _2d=True)
assert (same == vp.imread("d.tif")).all()
assert (vp.img_gauss(a, sigma=np.array([2, 1.0]), _2d=np.bool_(True), highpass=False, truncate=None) == same).all()
assert (vp.img_gauss(a, sigma="2,1", _2d=True, chunk=(16, 16, 4), j=1) == same).all()
assert (vp.img_gauss("a.tif", sigma=(2, 1), _2d=True) == same).all()
m = np.asarray(a) > 0
mean = float(vp.img_info(a, mask=m, value="mean"))
assert abs(mean - np.asarray(a)[m].mean(dtype="f8")) < 1e-6
assert vp.img_view(a).startswith(b"\x89PNG") and vp.img_info(a).startswith("/dev/fd/")
kernel = vp.img_psf(gaussian=2)()
assert kernel.ndim == 2 and abs(kernel.sum() - 1) < 1e-5
assert vp.img_convolve(a, kernel=kernel, _2d=True).shape == a.shape
assert (vp.img_convert(vp.img_convert(a, type="u16", window=(0, 1)), unscale=True).dtype == np.float32)
assert vp.img_cat(a, b.astype("f4")).shape == (20, 30, 40)
assert vp.img_cmp(a, a, json=True)["same"] is True
END
}

@test "a failure raises the program's line, its status and its hint" {
    python <<'END'
def error(function, *inputs, **options):
    try:
        function(*inputs, **options)
    except vp.VoxpipeError as e:
        return str(e), e.program, e.status
    raise AssertionError("no error")

a = np.zeros((5, 6), np.float32)
line = "img-gauss: error: unknown option --sigm; did you mean --sigma?"
assert error(vp.img_gauss, a, sigm=2) == (line, "img-gauss", 2)
text, _, status = error(vp.img_gauss, "nothere.tif")
assert text == "img-gauss: error: nothere.tif: No such file or directory" and status == 1, text
text, _, status = error(vp.img_convert, a, auto=True, type="u8")
assert "\nimg-convert: hint: " in text and "--spool" in text, text
assert vp.img_convert(a + 1, auto=True, type="u8", spool=True).dtype == np.uint8
assert error(vp.img_gauss, np.zeros((64, 64, 64), "f4"), memory="1")[2] == 3
# the first program that fails is the one to blame, and not one that was cut off
assert error(vp.pipe(vp.img_cat(pages="9"), vp.img_gauss()), a)[1] == "img-cat"
big = np.zeros((400, 200, 200), np.float32)
assert error(vp.pipe(vp.img_gauss(_2d=True), vp.img_gauss(_2d=True), vp.img_cat(pages="-9:x")), big)[1:] == ("img-cat", 2)
text, program, status = error(vp.img_cmp, a, a + 1)
assert (program, status) == ("img-cmp", 1) and "differing        30" in text
for wrong, kind in ((a.astype(complex), TypeError), (a.astype("f2"), TypeError), (a[0], ValueError), (a[:0], ValueError),
                    (np.ma.masked_less(a, 1), TypeError), (np.zeros((2, 2, 2, 2)), ValueError), ("text", vp.VoxpipeError),
                    (vp.Stack(a, axes="x y z"), ValueError), (vp.Stack(a, key="a\nb"), ValueError)):
    try:
        vp.img_cat(a, wrong)
    except kind as e:
        assert "img-cat" in str(e) or "array" in str(e) or "metadata" in str(e), e
    else:
        raise AssertionError(wrong)
os.environ["PATH"] = os.environ["VOXPIPE_BIN"] = "/nowhere"
vp.__file__ = "/nowhere/voxpipe.py"
try:
    vp.img_gauss(a)
    raise AssertionError("found a program")
except FileNotFoundError as e:
    assert str(e) == "img-gauss: not found; add its folder to PATH or name it in VOXPIPE_BIN"
END
}

@test "a warning is a warning, at the line of the caller, and -v goes to standard error" {
    python <<'END'
import contextlib, io, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert (vp.img_convert(np.array([[1e9, 2.5]]), type="u8") == [[255, 2]]).all()
assert len(caught) == 1 and caught[0].category is vp.VoxpipeWarning and caught[0].filename == "script", caught
assert "img-convert: warning: " in str(caught[0].message) and "do not fit u8" in str(caught[0].message)
with contextlib.redirect_stderr(io.StringIO()) as said:
    vp.img_gauss(np.zeros((5, 5), np.float32), v=True)
assert said.getvalue().startswith("img-gauss: "), said.getvalue()
END
}

@test "arrays larger than any pipe, three at once, through programs that stop early" {
    python <<'END'
a = np.arange(64 * 500 * 500, dtype="f4").reshape(64, 500, 500)
assert (vp.img_math("a + b + c", a, a, a) == 3 * a).all()
assert (vp.pipe(vp.img_cat(), vp.img_cat(pages=":2"))(a) == a[:2]).all()
assert (vp.pipe(vp.img_math("a - b", "-", a), vp.img_cat(pages="0"))(2 * a) == a[0]).all()
try:
    vp.img_math("a +", a, a)
    raise AssertionError("no error")
except vp.VoxpipeError as e:
    assert e.status == 2
END
}

@test "an interrupt ends the programs" {
    mkfifo never
    python <<'END'
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
vp.subprocess.Popen.kill = None  # they end by SIGTERM
running = vp.pipe(vp.img_cat("-", "never"), vp.img_gauss())
timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    running(np.zeros((5, 5), np.float32), output="x.tif")
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    pass
timer.join()
assert not os.path.exists("x.tif")
END
}

@test "the Python of the READMEs runs" {
    ct-phantom --volume 64x64x40 -o vol.tif
    for readme in README.md examples/python/README.md; do
        sed -n '/^```python/,/^```/{/^```/d;p}' "$ROOT/$readme" >snippets.py
        grep -q "vp.pipe" snippets.py
        python <snippets.py
    done
}
