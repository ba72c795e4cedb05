#!/usr/bin/env python3
"""img-resize and img-reslice beside NumPy, SciPy, scikit-image and vips, as far as they are installed: values and
seconds of one core, the smallest of several rounds in turn.
Ours and vips (its command) read a file and write one, TIFF and .v, in FOLDER, which should be in memory (/dev/shm);
start and end of the program are in the figure. Functions of Python get an array and return one: no
file, no start. So the comparison favours them.
Arguments: the folder of the programs, [FOLDER [ROUNDS [PATTERN]]]. Run by hand; prints a table in Markdown."""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

PROGRAMS = os.path.abspath(sys.argv[1])
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
PATTERN = sys.argv[4] if len(sys.argv) > 4 else "."
FORMATS = {"u8": ("u1", "uchar"), "u16": ("<u2", "ushort"), "f32": ("<f4", "float")}
SIZE = 4096


def try_import(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        return None


ndimage, transform = try_import("scipy.ndimage"), try_import("skimage.transform")
VIPS = shutil.which("vips")


def seconds_of(work):
    """CPU seconds of work, of this process and of its children, and its result."""
    def used():
        return sum(sum(resource.getrusage(w)[:2]) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    start = used()
    result = work()
    return used() - start, result


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "VIPS_CONCURRENCY": "1", "OMP_NUM_THREADS": "1"})


def samples(kind, shape):
    random = np.random.default_rng(1)
    dtype = FORMATS[kind][0]
    a = random.random(shape, dtype=np.float32)
    for axis in range(len(shape)):                # not white noise, so that rounding is that of an image
        a = (a + np.roll(a, 1, axis)) / 2
    return a if dtype == "<f4" else (a * (255 if kind == "u8" else 65535)).astype(dtype)


class Case:
    """An operation: our words, and the peers' ways to do it."""

    def __init__(self, name, kind, shape, ours, python=(), vips=None, edge=0, near=None):
        self.name, self.kind, self.shape, self.ours = name, kind, shape, ours
        self.python, self.vips, self.edge, self.near = python, vips, edge, near or {}

    def measure(self):
        a = samples(self.kind, self.shape)
        size = f"{a.shape[-1]}x{a.shape[-2]}"
        a.tofile("in.raw")
        layout = f"{size}:{self.kind}{'le' if self.kind != 'u8' else ''}"
        run(f"{PROGRAMS}/img-convert", "--raw-in", layout, "in.raw", "-o", "in.tif", "--force")
        ways = {"voxpipe": lambda: run(f"{PROGRAMS}/{self.ours[0]}", "-j", "1", *self.ours[1:], "in.tif", "-o", "out.tif",
                                       "--force")}
        if VIPS and self.vips:
            run(VIPS, "rawload", "in.raw", "in.v", str(a.shape[-1]), str(a.size // a.shape[-1]), "1", "--format",
                FORMATS[self.kind][1])
            run(VIPS, "copy", "in.v", "given.v", "--interpretation", "b-w")
            ways["vips"] = lambda: run(VIPS, *[w.replace("IN", "given.v").replace("OUT", "out.v") for w in self.vips])
        for name, module, work in self.python:
            if module:
                ways[name] = lambda work=work: work(a)
        best, results = {}, {}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                if best.get(name, 0) > 3:
                    continue              # once is enough
                seconds, results[name] = seconds_of(way)
                best[name] = min(best.get(name, np.inf), seconds)
        return best, self.compare(results)

    def compare(self, results):
        """Largest relative difference from ours, at least `edge` voxels from the edge."""
        run(f"{PROGRAMS}/img-convert", "--raw-out", "out.tif", "-o", "out.raw", "--force")
        info = subprocess.run([f"{PROGRAMS}/img-info", "out.tif"], check=True, capture_output=True, text=True).stdout
        nx, ny = map(int, re.search(r"(\d+) x (\d+)", info).groups())
        ours = np.fromfile("out.raw", FORMATS[self.kind][0]).reshape(-1, ny, nx).astype(float)
        if "vips" in results:
            run(VIPS, "rawsave", "out.v", "vips.raw")
            theirs = np.fromfile("vips.raw", FORMATS[self.kind][0])
            results["vips"] = theirs.reshape(ours.shape) if theirs.size == ours.size else None
        differ = {}
        for name, theirs in results.items():
            if name == "voxpipe":
                continue
            if theirs is None or theirs.size != ours.size:
                differ[name] = "other grid"
                continue
            inner = (slice(None), *(slice(self.edge, n - self.edge) for n in ours.shape[1:]))
            d = np.abs(np.asarray(theirs, float).reshape(ours.shape)[inner] - ours[inner])
            differ[name] = f"{np.median(d) / max(1, ours.max()):.0e} / {d.max() / max(1, ours.max()):.0e}"
        return differ


def zoom(order, factor):
    return lambda a: ndimage.zoom(a, factor, order=order, grid_mode=True, mode="nearest", prefilter=False)


def resized(order, factor, smooth):
    return lambda a: transform.resize(a, tuple(round(n * factor) for n in a.shape), order=order, anti_aliasing=smooth,
                                      preserve_range=True)


def cases():
    plane, volume = (SIZE, SIZE), (128, 512, 512)
    for kind in "u8", "u16", "f32":
        for n in 2, 4:
            yield Case(f"bins of {n} x {n}", kind, plane, ["img-resize", "--2d", "--bin", str(n)],
                       [("NumPy", np, lambda a, n=n: a.reshape(SIZE // n, n, SIZE // n, n).mean((1, 3))),
                        ("scikit-image", transform, lambda a, n=n: transform.downscale_local_mean(a, (n, n)))],
                       ["shrink", "IN", "OUT", str(n), str(n)])
    yield Case("bins of 2 x 2 x 2, 512 x 512 x 128", "u16", volume, ["img-resize", "--bin", "2"],
               [("NumPy", np, lambda a: a.reshape(64, 2, 256, 2, 256, 2).mean((1, 3, 5))),
                ("scikit-image", transform, lambda a: transform.downscale_local_mean(a, (2, 2, 2)))])
    for kind in "u8", "f32":
        for method, order in ("area", None), ("linear", 1), ("cubic", 3):
            yield Case(f"{method}, 4096 to 1638 (0.4)", kind, plane, ["img-resize", "--2d", "--scale", "0.4", "--method", method],
                       [] if order is None else
                       [("SciPy, without smoothing", ndimage, zoom(order, 1638 / SIZE)),
                        ("scikit-image, smoothed", transform, resized(order, 1638 / SIZE, True))],
                       ["resize", "IN", "OUT", str(1638 / SIZE), "--kernel", method if order else "linear"], 8)
        for method, order in ("linear", 1), ("cubic", 3):
            yield Case(f"{method}, 2048 to 4096", kind, (2048, 2048), ["img-resize", "--2d", "--scale", "2", "--method", method],
                       [("SciPy", ndimage, zoom(order, 2)), ("scikit-image", transform, resized(order, 2, False))],
                       ["resize", "IN", "OUT", "2", "--kernel", method], 8)
    for kind in "u8", "f32":
        for method, order, name in ("nearest", 0, "nearest"), ("linear", 1, "bilinear"), ("cubic", 3, "bicubic"):
            for whole in False, True:
                yield Case(f"turn by 30 degrees, {method}" + (", whole" if whole else ""), kind, plane,
                           ["img-reslice", "--2d", "--rotate", "30", "--method", method] + ["--enlarge"] * whole,
                           [] if whole else
                           [("SciPy", ndimage,
                             lambda a, o=order: ndimage.rotate(a, -30, order=o, reshape=False, prefilter=False)),
                            ("scikit-image", transform,
                             lambda a, o=order: transform.rotate(a, -30, order=o, preserve_range=True))],
                           None if not whole else
                           ["similarity", "IN", "OUT", "--angle", "30", "--interpolate", name])
    for about, axes in ("x", (0, 1)), ("y", (0, 2)):
        yield Case(f"turn by 10 degrees about {about}, linear, 512 x 512 x 128", "f32", volume,
                   ["img-reslice", "--rotate", "10", "--about", about],
                   [("SciPy", ndimage, lambda a, x=axes, s=-10 if about == "x" else 10:
                     ndimage.rotate(a, s, axes=x, order=1, reshape=False))])
    for kind in "u8", "f32":
        yield Case("turn by 90 degrees", kind, plane, ["img-reslice", "--2d", "--turn", "90"],
                   [("NumPy, a copy", np, lambda a: np.ascontiguousarray(np.rot90(a, -1)))], ["rot", "IN", "OUT", "d90"])
    for axes, order in ("xz", (1, 0, 2)), ("yz", (2, 0, 1)):
        yield Case(f"{axes}, 512 x 512 x 128", "u16", volume, ["img-reslice", "--axes", axes],
                   [("NumPy, a copy", np, lambda a, o=order: np.ascontiguousarray(a.transpose(o)))])


def main():
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        os.chdir(folder)
        print("| operation | samples | voxpipe, ms | peers, ms of one core (x), median / largest difference |\n|---|---|---|---|",
              flush=True)
        for case in cases():
            if not re.search(PATTERN, case.name):
                continue
            best, differ = case.measure()
            ours = best.pop("voxpipe")
            print(f"| {case.name} | {case.kind} | {ours * 1e3:.0f} | "
                  + "; ".join(f"{name} {t * 1e3:.0f} ({t / ours:.1f} x), {differ[name]}" for name, t in best.items()) + " |",
                  flush=True)
        os.chdir("/")


main()
