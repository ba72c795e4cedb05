# SPDX-License-Identifier: BSD-3-Clause
"""Naive float64 reference of operations on samples of which some are missing (tests/missing.bats).

    missing.py WHAT NXxNYxNZ[:TYPE] IN.raw MASK.raw|- OUT.raw [key=value]...
    missing.py compare TYPE GOT.raw OUT.raw FILL TOLERANCE

IN.raw: samples, NaN or masked by 0 where they are missing; OUT.raw: f64, NaN where there is no result."""
import sys

import numpy as np

STORED = {"u8": "u1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4", "f64": "<f8"}


def place(p, n, edge):
    """Positions that stand for p of an axis of n samples; -1: none; -2: a zero."""
    if edge == "mirror":
        p = p % (2 * n)
        return np.where(p < n, p, 2 * n - 1 - p)
    if edge == "wrap":
        return p % n
    if edge == "nearest":
        return np.clip(p, 0, n - 1)
    return np.where((p >= 0) & (p < n), p, -2 if edge == "zero" else -1)


def around(x, shape, start, offset, edge):
    """Values, present and absent samples at start + offset of every voxel of a result of a shape."""
    at = [place(np.arange(n) + s + o, m, edge) for n, s, o, m in zip(shape, start, offset, x.shape)]
    v = x[np.ix_(*[np.maximum(a, 0) for a in at])]
    none = np.broadcast_to(np.minimum.reduce([g for g in np.broadcast_arrays(*np.ix_(*at))]), v.shape)
    v = np.where(none == -2, 0., v)
    gone = np.isnan(v) & (none != -1)
    there = ~np.isnan(v) & (none != -1)
    return np.where(there, v, 0.), there, gone


def offsets(f):
    if f.get("shape") == "ball":
        r = [float(v) for v in f["radius"].split(",")][::-1]
        n = [int(v) for v in r]
        grid = np.meshgrid(*[np.arange(-k, k + 1) for k in n], indexing="ij")
        inside = sum((g / (q + 1e-6)) ** 2 for g, q in zip(grid, r)) <= 1
        return [tuple(g[inside][i] for g in grid) for i in range(inside.sum())]
    r = [int(v) for v in f["radius"].split(",")][::-1]
    return [(z, y, x) for z in range(-r[0], r[0] + 1) for y in range(-r[1], r[1] + 1) for x in range(-r[2], r[2] + 1)]


def finish(x, out, present, absent, f):
    """Holes: nothing there, too little of it, or kept."""
    cover = float(f.get("coverage", 0))
    hole = ~(present > 0) | (present < cover * (present + absent) * (1 - 1e-9))
    if "keep" in f:
        hole = hole | np.isnan(x)
    return np.where(hole, np.nan, out)


def window(what, x, f):
    edge = f.get("edge", "renormalize")
    all_ = [around(x, x.shape, (0, 0, 0), o, edge) for o in offsets(f)]
    v, p, a = (np.stack([t[i] for t in all_]) for i in range(3))
    n, gone = p.sum(0), a.sum(0)
    many = np.where(p, v, np.nan)
    with np.errstate(all="ignore"):
        mean = v.sum(0) / n
        dev = np.where(p, (v - mean) ** 2, 0).sum(0)
        var = dev / n
        if what == "min":
            out = np.fmin.reduce(many)
        elif what == "max":
            out = np.fmax.reduce(many)
        elif what == "rank":
            ordered = np.sort(many, 0)
            k = np.maximum(np.ceil(n * float(f["percent"]) / 100).astype(int) - 1, 0)
            out = np.take_along_axis(ordered, k[None], 0)[0]
        elif what == "mean":
            out = mean
        elif what in ("var", "std"):
            out = np.where(n > 1, dev / (n - 1), 0) if "sample" in f else var
            out = np.sqrt(out) if what == "std" else out
        elif what == "entropy":
            lo, hi, bins = float(f["lo"]), float(f["hi"]), int(f["bins"])
            bin_ = np.clip(np.floor((v - lo) * (bins / (hi - lo))), 0, bins - 1)
            out = np.zeros(x.shape)
            for b in range(bins):
                c = (p & (bin_ == b)).sum(0) / n
                out -= np.where(c > 0, c * np.log2(np.where(c > 0, c, 1)), 0)
        elif what == "wiener":
            s = float(f["noise"])
            out = np.where(np.isnan(x) | ~(var > s), mean, mean + (var - s) / var * (x - mean))
        else:  # above: the mean plus a multiple of the deviation
            t = mean + float(f.get("k", 0)) * np.sqrt(var) - float(f.get("offset", 0))
            out = np.where(x > t, 255., 0.)
            return np.nan_to_num(finish(x, np.where(np.isnan(x), 0, out), n, gone, f))
    return finish(x, out, n, gone, f)


def gauss(x, f):
    edge = f.get("edge", "renormalize")
    sigma = [float(v) for v in f["sigma"].split(",")][::-1]
    radius = [int(4 * s + .5) for s in sigma]
    out, weight, gone = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    for o in np.ndindex(*[2 * r + 1 for r in radius]):
        d = [i - r for i, r in zip(o, radius)]
        w = np.exp(-.5 * sum((k / s) ** 2 for k, s in zip(d, sigma) if s))
        v, p, a = around(x, x.shape, (0, 0, 0), d, edge)
        out, weight, gone = out + w * v, weight + w * p, gone + w * a
    with np.errstate(all="ignore"):
        out = out / weight
    return finish(x, x - out if "highpass" in f else out, weight, gone, f)


def convolve(x, f):
    edge, crop = f.get("edge", "renormalize"), f.get("crop", "same")
    n = [int(v) for v in f["kshape"].split("x")][::-1]
    k = np.fromfile(f["kernel"], "<f4").astype(float).reshape(n)
    centre = [(m - 1) - m // 2 if "correlate" in f else m // 2 for m in n]
    if "correlate" in f:
        k = k[::-1, ::-1, ::-1]
    more = {"same": [0] * 3, "full": [m - 1 for m in n], "valid": [1 - m for m in n]}[crop]
    start = {"same": [0] * 3, "full": [-c for c in centre], "valid": [m - 1 - c for m, c in zip(n, centre)]}[crop]
    shape = [a + b for a, b in zip(x.shape, more)]
    out, weight, gone = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for i in np.ndindex(*n):
        v, p, a = around(x, shape, start, [c - j for c, j in zip(centre, i)], edge)
        out, weight, gone = out + k[i] * v, weight + k[i] * p, gone + k[i] * a
    total = 1 if "normalize" in f else k.sum()
    with np.errstate(all="ignore"):
        out = out / weight * total
    own, there, _ = around(x, shape, start, (0, 0, 0), edge)
    return finish(np.where(there | (around(np.zeros(x.shape), shape, start, (0, 0, 0), edge)[1] == 0), own, np.nan), out,
                  weight, gone, f)


def nlmeans(x, f):
    search, patch = ([int(v) for v in f[k].split(",")][::-1] for k in ("search", "patch"))
    h, sigma = float(f["h"]), float(f.get("sigma", 0))
    out, weight, there, gone = (np.zeros(x.shape) for _ in range(4))
    for s in np.ndindex(*[2 * r + 1 for r in search]):
        s = [i - r for i, r in zip(s, search)]
        square, pairs = np.zeros(x.shape), np.zeros(x.shape)
        for o in np.ndindex(*[2 * r + 1 for r in patch]):
            o = [i - r for i, r in zip(o, patch)]
            v, p, _ = around(x, x.shape, (0, 0, 0), o, "renormalize")
            w, q, _ = around(x, x.shape, (0, 0, 0), [a + b for a, b in zip(o, s)], "renormalize")
            square, pairs = square + np.where(p & q, (v - w) ** 2, 0), pairs + (p & q)
        v, p, a = around(x, x.shape, (0, 0, 0), s, "renormalize")
        there, gone = there + p, gone + a
        with np.errstate(all="ignore"):
            w = np.where(p & (pairs > 0), np.exp(-np.maximum(square / pairs - 2 * sigma ** 2, 0) / h ** 2), 0)
        out, weight = out + w * v, weight + w
    with np.errstate(all="ignore"):
        out = out / weight
    return finish(x, np.where(weight > 0, out, np.nan), there, gone, f)


def compare(kind, got, want, fill, near):
    """Fails if results differ by more than `near`, floats relative to the largest, or in the places where there is none."""
    a = np.fromfile(got, STORED.get(kind, "<f4")).astype(float)
    b = np.fromfile(want, "<f8")
    if kind[0] != "f":
        least, most = np.iinfo(STORED[kind]).min, np.iinfo(STORED[kind]).max
        b = np.where(np.isnan(b), float(fill), np.clip(np.rint(b), least, most))
    assert a.shape == b.shape, f"expected {b.size} samples, got {a.size}"
    none, left = np.isnan(b), np.nan_to_num(np.abs(a - b))
    assert (np.isnan(a) == none).all(), f"{(np.isnan(a) != none).sum()} of {none.sum()} holes differ"
    unit = np.nanmax(np.abs(b)) if kind[0] == "f" else 1
    assert left.max() <= float(near) * unit, f"they differ by {left.max() / unit}"
    assert kind[0] == "f" or (left > 0).mean() < 1e-3, f"{(left > 0).sum()} integers differ"
    assert not none.all(), "nothing to compare"


def main():
    if sys.argv[1] == "compare":
        return compare(*sys.argv[2:])
    what, size, source, mask, to = sys.argv[1:6]
    f = dict((a.split("=") + [""])[:2] for a in sys.argv[6:])
    size, _, kind = size.partition(":")
    n = [int(v) for v in size.split("x")][::-1]
    x = np.fromfile(source, STORED.get(kind, "<f4")).astype(float).reshape(n)
    if mask != "-":
        m = np.fromfile(mask, "u1").reshape([-1] + n[1:])
        x = np.where(np.broadcast_to(m, x.shape) == 0, np.nan, x)
    if "value" in f:
        x = np.where(x == float(f["value"]), np.nan, x)
    for _ in range(int(f.get("times", 1))):
        x = {"gauss": lambda: gauss(x, f), "convolve": lambda: convolve(x, f), "nlmeans": lambda: nlmeans(x, f)}.get(
            what, lambda: window(what, x, f))()
    return x.astype("<f8").tofile(to)


main()
