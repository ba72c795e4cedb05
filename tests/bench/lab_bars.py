#!/usr/bin/env python3
"""What the programs before the reconstruction must show, as a table "row, bar, got": axis, roll, rings, phase, beam
hardening. Phantoms are made by ct-phantom; the scan of tests/data is real. Needs NumPy. Arguments: the build directory;
further scans with a known axis, as FILE=LO,HI (columns; with a geometry and line integrals or flats of their own, such as
tooth.h5=295.5,296) or, for fan beams, as SINOGRAM.tif:GEOMETRY=LO,HI. The exit status is 1 if a row misses its bar."""
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
DATA = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "data"))
SCANS = [(os.path.abspath(name.split(":")[0]), *[os.path.abspath(p) for p in name.split(":")[1:2]],
          *[float(v) for v in limits.split(",")])
         for name, limits in (a.rsplit("=", 1) for a in sys.argv[2:])]
missed = 0


def run(command, check=True):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], text=True, capture_output=True)
    if check and done.returncode:
        sys.exit(f"lab_bars.py: {command}\n{done.stderr}")
    return done.stdout


def load(name, *shape):
    raw = subprocess.run(["img-convert", "-q", "--type", "f32", "--raw-out", name], check=True, capture_output=True).stdout
    return np.frombuffer(raw, "<f4").reshape(*shape).astype(float)


def row(name, got, bar, text=None):
    global missed
    good = got <= bar
    missed += not good
    print(f"{name:58s} {bar:<8.4g} {text or f'{got:.4g}'}{'' if good else '   MISSED'}", flush=True)


def number(key, text):
    found = re.search(rf"^{key} = ([-+0-9.e]+)", text, re.M)
    return float(found.group(1)) if found else math.inf


# ---- phantoms: an ellipse of a given radius with others in it

def inclusions(seed, radius, height=60, number=25, density=0.01):
    r = np.random.default_rng(seed)
    out = [(0, 0, 0, radius, 0.9 * radius, 40 * height, r.uniform(0, 180), density)]
    for _ in range(number):
        a, b = r.uniform(0.02, 0.16, 2) * radius
        far, turn = 0.75 * radius * math.sqrt(r.uniform()), r.uniform(0, 2 * math.pi)
        out.append((far * math.cos(turn), far * math.sin(turn), r.uniform(-height / 2, height / 2), a, b, height / 3,
                    r.uniform(0, 180),
                    density * r.uniform(-0.8, 1.5)))
    return out


def write_phantom(name, ellipsoids):
    with open(name, "w") as f:
        for e in ellipsoids:
            print(*[f"{v:.6f}" for v in e], file=f)


# ---- the axis: 8 rows, spread over a detector of 64 rows

AXIS = {  # views, arc (one more view: inclusive), photons, radius, axis: column of 256 or None, more
    "180 degrees, inclusive": dict(views=181, arc=181), "180 degrees, exclusive": dict(views=180, arc=180),
    "360 degrees": dict(views=360, arc=360), "180 degrees, 200 photons": dict(views=181, arc=181, photons=200),
    "360 degrees, 200 photons": dict(views=360, arc=360, photons=200), "30 views over 180": dict(views=30, arc=180),
    "60 views over 360": dict(views=60, arc=360), "object twice as wide, 180": dict(views=181, arc=181, radius=190),
    "object twice as wide, 360": dict(views=360, arc=360, radius=190),
    "half acquisition, axis at column 40": dict(views=720, arc=360, radius=190, axis=40.37),
    "holder that leaves the field, 180": dict(views=181, arc=181, holder=True),
    "holder that leaves the field, 360": dict(views=360, arc=360, holder=True),
    "stripes": dict(views=181, arc=181, stripes=True), "rows that jitter by 0.5 pixel": dict(views=181, arc=181, jitter=0.5),
}


def axis_case(name, views, arc, photons=1e5, radius=95, axis=None, holder=False, stripes=False, jitter=0):
    worst, where = 0, ""
    for seed in (1, 2, 3):
        column = (axis if axis else 128 + 7.37) + 0.13 * seed
        ellipsoids = inclusions(seed, radius, 64, 50)
        if holder:
            ellipsoids += [(150, 30, 0, 22, 22, 1e4, 0, 0.04), (-140, -90, 0, 12, 30, 1e4, 17, 0.04)]
        write_phantom("p.txt", ellipsoids)
        run(f"ct-geom --beam parallel --detector 256x8 --pitch 1,8 --views {views} --arc {arc} --offset-u {column - 127.5} "
            f"-o t.geom; ct-geom --offset-u 0 t.geom -o n.geom; "
            f"ct-phantom -g t.geom --phantom p.txt --samples 2 --noise {photons} --seed {seed} -o a.tif")
        r, moved = np.random.default_rng(seed), ""
        if stripes or jitter:
            s = load("a.tif", views, 8, 256)
            if stripes:
                s += r.normal(0, 0.03, (8, 256)) * (r.uniform(size=(8, 256)) < 0.3) + 0.3 * (r.uniform(size=(8, 256)) < 0.02)
            moves = r.normal(0, jitter, (views, 8)) if jitter else None
            for line, move in zip(s.reshape(-1, 256), moves.ravel()) if jitter else ():
                line[:] = np.interp(np.arange(256) + move, np.arange(256), line)
            if jitter:  # the one pair of opposite views has moved
                moved = f", which the jitter moved by {-(moves[0] + moves[-1]).mean() / 2:+.3f}"
            s.astype("<f4").tofile("a.raw")
            run("img-convert --raw-in 256x8:f32le --set axes=u,v,view a.raw -o a.tif")
        got = number("offset-u", run("ct-center -q -g n.geom a.tif", False)) + 127.5 - column
        if abs(got) >= worst:
            worst, where = abs(got), f"{got:+.3f} (seed {seed}{moved})"
    row(f"axis, {name}", worst, 0.2, where)


def roll_case(beam, scan, tilt):
    write_phantom("p.txt", inclusions(4, 60, 160, 60))
    run(f"ct-geom {scan} --detector 160x160 --pitch 1 --views 360 --arc 360 --offset-u 3.3 --tilt {tilt} -o t.geom; "
        "ct-geom --offset-u 0 --tilt 0 t.geom -o n.geom; "
        "ct-phantom -g t.geom --phantom p.txt --samples 2 --noise 1e5 -o a.tif")
    text = run("ct-center -q --roll -g n.geom a.tif", False)
    row(f"roll of {tilt} degrees, {beam} beam", abs(number("tilt", text) - tilt), 0.15, f"{number('tilt', text):.3f}")


# ---- rings, in slices: what is left of the rings, and what is done to a clean scan, in units of the rings

def rings_case(rough):
    nu, nv, views, middle = 256, 41, 360, 20
    r = np.random.default_rng(5)
    inside = [(*e[:2], e[2] / 6, *e[3:5], 40, *e[6:]) for e in inclusions(3, 100)[1:]]
    ellipsoids = inclusions(3, 100)[:1] + inside + [(0, 0, 0, 55, 55, 1e5, 0, 0.015), (0, 0, 0, 51, 51, 1e5, 0, -0.015)]
    if rough:
        for _ in range(700):
            x, y, z, size = *r.uniform(-85, 85, 2), r.uniform(-nv / 2, nv / 2), r.uniform(2, 7)
            if x * x + y * y < 80 ** 2:
                ellipsoids.append((x, y, z, size, size, size, 0, 0.01 * r.uniform(-1, 2)))
    write_phantom("p.txt", ellipsoids)
    run(f"ct-geom --beam parallel --detector {nu}x{nv} --pitch 1 --views {views} --arc 180 --offset-u 3.3 -o t.geom; "
        "ct-phantom -g t.geom --phantom p.txt --noise 1e5 -o clean.tif")
    spots = r.normal(0, 0.02, (nv, nu)) * (r.uniform(size=(nv, nu)) < 0.25)
    y, x = np.mgrid[:192, :192] - 95.5
    disc = np.hypot(x, y) * 1.2 < 105

    def slice_of(name):
        run(f"img-cat --region 0:{nu},{middle}:{middle + 1} {name} | ct-fdk --volume 192x192x1 --voxel 1.2 -o s.tif")
        return load("s.tif", 192, 192)[disc]

    def rms(v):
        return math.sqrt(np.mean(v * v))

    want = slice_of("clean.tif")
    run("ct-rings clean.tif -o r.tif")
    harm = rms(slice_of("r.tif") - want)
    kind = "rough" if rough else "smooth"
    for strength, left, most in ((1, 0.58 if rough else 0.12, 0.11 if rough else 0.02),
                                 (8, 0.16 if rough else 0.06, 0.01 if rough else 0.00)):
        with open("spots.raw", "wb") as f:
            f.write((strength * spots).astype("<f4").tobytes())
        run(f"img-convert --raw-in {nu}x{nv}:f32le spots.raw -o spots.tif; img-math 'a + b' clean.tif spots.tif -o a.tif; "
            "ct-rings a.tif -o r.tif")
        rings = rms(slice_of("a.tif") - want)
        row(f"rings of a {kind} object with a tube, {'8 x ' if strength > 1 else ''}left", rms(slice_of("r.tif") - want) / rings,
            left + 0.05)
        row(f"   and harm to the clean scan", harm / rings, most + 0.05)


# ---- phase: a sphere, propagated exactly

def phase_cases():
    over, n, radius, pixel = 4, 1024, 90e-6, 1e-6
    length, delta, ratio = 12.39841984 / 20 * 1e-10, 5e-7, 500.0
    k, h, m = 2 * math.pi / length, pixel / over, n // over
    x = (np.arange(n) - (n - 1) / 2) * h
    thick = 2 * np.sqrt(np.clip(radius ** 2 - x[:, None] ** 2 - x[None] ** 2, 0, None))
    wave = np.fft.fft2(np.exp(-(delta / ratio + 1j * delta) * k * thick))
    f = np.fft.fftfreq(n, h)

    def binned(a):
        return a.reshape(m, over, m, over).mean((1, 3))

    truth = binned(thick)
    c = (np.arange(m) - (m - 1) / 2) * pixel
    far = np.hypot(c[:, None], c[None])
    inside, rim = far < radius - 4 * pixel, abs(far - radius) <= 4 * pixel
    run(f"ct-geom --beam parallel --detector {m}x{m} --pitch {pixel * 1e3} --views 1 --arc 180 -o one.geom")
    wide = np.fft.fftfreq(2 * m, pixel)
    for z in (0.02, 0.05, 0.2, 0.5):
        spread = np.exp(-1j * math.pi * length * z * (f[:, None] ** 2 + f[None] ** 2))
        image = binned(abs(np.fft.ifft2(wave * spread)) ** 2)
        image.astype("<f4").tofile("i.raw")
        run(f"img-convert --raw-in {m}x{m}:f32le --set axes=u,v,view --set quantity=transmission i.raw -o i.tif; "
            f"ct-phase -q -g one.geom --distance {z * 1e3} --energy 20 --delta {delta} --beta {delta / ratio} --thickness "
            "i.tif -o t.tif")
        # Paganin's filter in float64, on a page of twice the size
        mu = 2 * k * delta / ratio
        pages = np.fft.fft2(np.pad(image, m // 2, mode="edge"))
        pages /= 1 + z * delta / mu * (2 * math.pi) ** 2 * (wide[:, None] ** 2 + wide[None] ** 2)
        best = -np.log(np.fft.ifft2(pages).real[m // 2:m // 2 + m, m // 2:m // 2 + m]) / mu
        got = load("t.tif", m, m) * 1e-3
        for name, where in (("inside", inside), ("at the rim", rim)):
            error, least = (math.sqrt(np.mean(((v - truth)[where] / (2 * radius)) ** 2)) for v in (got, best))
            row(f"phase, px^2/(lambda z) = {pixel ** 2 / length / z:.2g}, {name}; bar: float64", error, least + 1e-5)


# ---- real scans

def cupping():
    text = run(f"sh {DATA}/../../examples/hardening.sh .")
    means = np.array([line.split("\t")[1:] for line in text.splitlines() if line[:1].isdigit() and "\t" in line], float)
    before, after = 100 * (means.max(0) - means.min(0))
    row(f"cupping of an acrylic disc, percent (as it is: {before:.0f})", after, 6, f"{after:.1f}")


def real_axis(file, *rest):
    *geometry, lo, hi = rest
    sinogram = f"-g {geometry[0]} --layout sinograms" if geometry else ""
    source = f"ct-center -q {sinogram} {file}" if geometry else f"ct-normalize -q {file} | ct-center -q"
    found = re.search(r"at column ([0-9.]+)", run(source, False))
    column = float(found.group(1)) if found else math.inf
    row(f"axis of {os.path.basename(file)}, column {lo:g} to {hi:g}", max(lo - column, column - hi, 0), 1e-9, f"{column:.2f}")


def main():
    os.environ["PATH"] = os.path.join(BUILD, "bin") + ":" + os.environ["PATH"]
    print(f"{'row':58s} {'bar':8s} got")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for scan in SCANS + [(f"{DATA}/htc2022_01a_sino.tif", f"{DATA}/htc2022.geom", 279.24, 279.44)]:
            real_axis(*scan)
        for name, case in AXIS.items():
            axis_case(name, **case)
        for tilt in (0, 0.5, 2):
            roll_case("parallel", "--beam parallel", tilt)
            roll_case("cone", "--sod 400 --sdd 600", tilt)
        rings_case(False)
        rings_case(True)
        phase_cases()
        cupping()
    print(f"{missed} rows miss their bar")
    sys.exit(missed > 0)


main()
