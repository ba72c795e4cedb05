#!/usr/bin/env python3
"""Filters beside their references: SciPy's generic filters, DIPlib, astropy and float64 sums, a line each; exits with 1
if one differs by more than it may. What is compared: any neighbourhood, sample types, boxes of another size for every
pixel, kernels at any positions, samples that do not exist, deconvolution larger than the memory.

usage: references.py [BUILD]

Needs NumPy and SciPy; DIPlib, astropy and scikit-image where they are installed (else their lines say so).
"""
import os
import sys
import tempfile
import warnings

import numpy as np
from scipy import ndimage, spatial

here = os.path.dirname(os.path.abspath(__file__))
build = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "build")
os.environ["VOXPIPE_BIN"] = os.path.join(os.path.abspath(build), "bin")
sys.path.insert(0, os.path.join(here, "..", "..", "examples", "python"))
import voxpipe as vp  # noqa: E402

random = np.random.default_rng(1)
folder = tempfile.TemporaryDirectory()
failed = 0


def optional(name):
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        print(f"{name}: not installed, its lines are left out")
        return None


dip = optional("diplib")
convolution = optional("astropy.convolution")
morphology = optional("skimage.morphology")


def compare(row, what, reference, got, right, allowed, where=None):
    """Prints the largest difference over the largest magnitude; allowed 0: the same numbers."""
    global failed
    got, right = np.asarray(got), np.asarray(right)
    if where is not None:
        got, right = got[where], right[where]
    got, right = got.astype(np.float64), right.astype(np.float64)
    both = np.isnan(got) & np.isnan(right)
    off = np.max(np.abs(np.where(both, 0, got - right)))
    off = off / max(np.max(np.abs(right[~both])), 1e-300) if allowed else off
    good = got.shape == right.shape and off <= allowed
    failed += not good
    print(f"| {row} | {what} | {reference} | {off:.1e} | {allowed:g} |{'' if good else ' DIFFERS'}", flush=True)


def there(function):
    """A function of the samples that exist (not NaN), for generic_filter."""
    return lambda v: function(v[~np.isnan(v)]) if not np.isnan(v).all() else np.nan


def generic(a, function, footprint):
    return ndimage.generic_filter(a.astype(np.float64), there(function), footprint=footprint, mode="constant",
                                  cval=np.nan)


def lower_median(v):
    return np.sort(v)[(v.size - 1) // 2]


def rank(percent):
    return lambda v: np.sort(v)[max(int(np.ceil(percent / 100 * v.size)), 1) - 1]


def inside(shape, margin):
    return tuple(slice(m, n - m) for n, m in zip(shape, margin))


print("| row | what | reference | difference | allowed |\n|---|---|---|---|---|")

# ---- any neighbourhood ----

image = random.integers(0, 60000, (53, 61)).astype(np.uint16)
volume = random.normal(100, 20, (11, 17, 19)).astype(np.float32)
odd = random.random((7, 5)) < 0.5
odd[3, 2] = True
even = random.random((4, 6)) < 0.6
even[2, 3] = True
cube = random.random((3, 4, 5)) < 0.4
cube[1, 2, 2] = True
for name, a, footprint in (("2-D, 7 x 5, u16", image, odd), ("2-D, even, 4 x 6, u16", image, even),
                           ("3-D, 3 x 4 x 5, f32", volume, cube)):
    f = footprint.astype(np.uint8)
    run = lambda s, **more: vp.img_local(a, stat=s, footprint=f, **more)  # noqa: E731
    compare("neighbourhoods", f"median, {name}", "SciPy generic_filter", run("median"),
            generic(a, lower_median, footprint), 0)
    compare("neighbourhoods", f"percentile:30, {name}", "SciPy generic_filter", run("percentile:30"),
            generic(a, rank(30), footprint), 0)
    compare("neighbourhoods", f"mean, {name}", "SciPy generic_filter", run("mean", type="f32"),
            generic(a, np.mean, footprint), 1e-7)
    compare("neighbourhoods", f"std, {name}", "SciPy generic_filter", run("std"), generic(a, np.std, footprint), 2e-7)
    flat = dict(footprint=footprint, mode="constant")
    compare("neighbourhoods", f"erosion, {name}", "SciPy grey_erosion", vp.img_morph(a, op="erode", footprint=f),
            ndimage.grey_erosion(a, **flat, cval=a.max()), 0)
    compare("neighbourhoods", f"dilation, {name}", "SciPy grey_dilation", vp.img_morph(a, op="dilate", footprint=f),
            ndimage.grey_dilation(a, **flat, cval=a.min()), 0)
    noise = 0.5 * float(np.var(a))
    m, v = generic(a, np.mean, footprint), generic(a, np.var, footprint)
    compare("neighbourhoods", f"wiener, {name}", "its formula, generic_filter",
            vp.img_wiener(a.astype(np.float32), noise=noise, footprint=f),
            np.where(v <= noise, m, m + (v - noise) / np.maximum(v, 1e-30) * (a - m)), 3e-7)
if morphology:
    eroded = ndimage.grey_erosion(image, footprint=odd, mode="constant", cval=image.max())
    got = vp.img_morphrecon(image, open=0, footprint=odd.astype(np.uint8), connectivity=8)
    compare("neighbourhoods", "opening by reconstruction, 7 x 5, u16", "scikit-image, of SciPy's erosion", got,
            morphology.reconstruction(eroded, image), 0)
if dip:
    middle = inside(image.shape, (3, 2))
    compare("neighbourhoods", "median, 7 x 5, u16, inside", "DIPlib RankFilter",
            vp.img_local(image, stat="median", footprint=odd.astype(np.uint8)),
            np.asarray(dip.RankFilter(dip.Image(image), dip.SE(dip.Image(odd)), (int(odd.sum()) + 1) // 2)), 0, middle)
    compare("neighbourhoods", "erosion, 7 x 5, u16, inside", "DIPlib Erosion",
            vp.img_morph(image, op="erode", footprint=odd.astype(np.uint8)),
            np.asarray(dip.Erosion(dip.Image(image), dip.SE(dip.Image(odd)))), 0, middle)

# ---- sample types ----

for kind in (np.uint32, np.int32, np.float64):
    a = (random.normal(0, 1, (40, 44)) * 1e8 + 1e9).astype(kind)
    name = np.dtype(kind).name
    f = np.ones((3, 5), bool)
    compare("types", f"median, {name}", "SciPy generic_filter",
            vp.img_local(a, stat="median", radius=(2, 1, 0)), generic(a, lower_median, f), 0)
    compare("types", f"erosion, {name}", "SciPy grey_erosion", vp.img_morph(a, op="erode", radius=(2, 1, 0)),
            ndimage.grey_erosion(a, footprint=f, mode="nearest"), 0)
    x = np.arange(-12, 13)
    g = np.exp(-x**2 / 18)
    d = a.astype(np.float64)

    def one(values):
        return ndimage.convolve1d(ndimage.convolve1d(values, g, 0, mode="constant"), g, 1, mode="constant")

    compare("types", f"gauss 3, {name}", "float64, renormalised",
            vp.img_gauss(a, sigma=3, truncate=4, type="f64", _2d=True),
            one(d - 1e9) / one(np.ones_like(d)) + 1e9, 1e-14)
    k = random.random((15, 13))
    compare("types", f"convolve 15 x 13, {name}", "SciPy convolve", vp.img_convolve(a, kernel=k, edge="zero"),
            ndimage.convolve(d, k, mode="constant"), 2e-13)

# ---- a box of another size for every pixel ----

radii = random.integers(0, 9, image.shape).astype(np.uint8)
pixels = [(y, x) for y in range(image.shape[0]) for x in range(image.shape[1])]
boxes = [image[max(y - r, 0):y + r + 1, max(x - r, 0):x + r + 1].astype(np.float64)
         for (y, x), r in zip(pixels, radii.ravel().tolist())]
for stat, function in (("sum", np.sum), ("mean", np.mean), ("std", np.std)):
    right = np.array([function(box) for box in boxes]).reshape(image.shape)
    compare("radius maps", f"{stat}, radii 0 to 8, u16", "float64, box by box",
            vp.img_local(image, stat=stat, radius_map=radii, type="auto" if stat == "sum" else "f32"),
            right, 0 if stat == "sum" else 2e-7)

# ---- kernels at any positions ----

places = random.random((9, 2)) * (61, 53)
places = np.round(places * 256) / 256
kernels = random.random((9, 9, 11)).astype(np.float32)
smooth = random.random((53, 61)).astype(np.float32)
each = np.array([ndimage.convolve(smooth.astype(np.float64), k.astype(np.float64), mode="constant") for k in kernels])
grid = np.stack(np.meshgrid(np.arange(61), np.arange(53)), -1).reshape(-1, 2).astype(float)
listed = os.path.join(folder.name, "places.txt")
with open(listed, "w") as f:
    f.writelines(f"{x!r} {y!r}\n" for x, y in places.tolist())
nearest = spatial.cKDTree(places).query(grid)[1]
compare("positions", "the nearest of 9 kernels of 11 x 9", "SciPy cKDTree and convolve",
        vp.img_convolve(smooth, kernel=kernels, positions=listed, between="nearest", edge="zero"),
        each.reshape(9, -1)[nearest, np.arange(len(grid))].reshape(53, 61), 5e-7)
mesh = spatial.Delaunay(places)
simplex = mesh.find_simplex(grid)
hull = simplex >= 0
affine = mesh.transform[simplex[hull]]
b = np.einsum("nij,nj->ni", affine[:, :2], grid[hull] - affine[:, 2])
weights = np.zeros((len(grid), 9))
corner = mesh.simplices[simplex[hull]]
weights[np.flatnonzero(hull)[:, None], corner] = np.concatenate([b, 1 - b.sum(1, keepdims=True)], 1)
compare("positions", "linear in triangles, inside their hull", "SciPy Delaunay and convolve",
        vp.img_convolve(smooth, kernel=kernels, positions=listed, between="linear", edge="zero"),
        (weights.T.reshape(9, 53, 61) * each).sum(0), 5e-7, hull.reshape(53, 61))

# ---- samples that do not exist ----

holes = random.normal(100, 20, (47, 51)).astype(np.float32)
holes[random.random(holes.shape) < 0.2] = np.nan
holes[10:16, 20:29] = np.nan
five = np.ones((5, 5), bool)
for stat, function in (("median", lower_median), ("mean", np.mean), ("std", np.std)):
    compare("missing samples", f"{stat} 5 x 5, NaN left out", "SciPy generic_filter",
            vp.img_local(holes, stat=stat, radius=2, missing="nan", _2d=True),
            generic(holes, function, five), 0 if stat == "median" else 3e-7)
compare("missing samples", "erosion 5 x 5, NaN left out", "SciPy generic_filter",
        vp.img_morph(holes, op="erode", radius=2, missing="nan", _2d=True),
        generic(holes, np.min, five), 0)
if convolution:
    k = random.random((7, 9))
    k /= k.sum()
    middle = inside(holes.shape, (3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = convolution.convolve(holes.astype(np.float64), k, boundary="extend", nan_treatment="interpolate",
                                     normalize_kernel=True)
    compare("missing samples", "convolve 7 x 9, NaN left out, inside", "astropy convolve",
            vp.img_convolve(holes, kernel=k, missing="nan"), right, 5e-7, middle)
    g = convolution.Gaussian2DKernel(2, x_size=17, y_size=17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = convolution.convolve(holes.astype(np.float64), g, boundary="extend", nan_treatment="interpolate")
    compare("missing samples", "gauss 2, NaN left out, inside", "astropy convolve",
            vp.img_gauss(holes, sigma=2, truncate=4, missing="nan", _2d=True), right, 5e-7, inside(holes.shape, (8, 8)))

# ---- deconvolution of images larger than the memory ----

blurred = ndimage.gaussian_filter(random.random((160, 180)) ** 8, 2).astype(np.float32)
y, x = np.mgrid[-8:9, -8:9]
psf = np.exp(-(x**2 + y**2) / 8).astype(np.float32)
options = dict(kernel=psf, iterations=8)
whole = vp.img_deconvolve(blurred, **options)
stored = os.path.join(folder.name, "blurred.npy")
np.save(stored, blurred)
compare("memory", "Richardson-Lucy, 8 iterations, in boxes of 64 x 48", "the whole image",
        vp.img_deconvolve(stored, chunk=(64, 48, 1), **options), whole, 0)

print(f"{failed} differ")
sys.exit(failed > 0)
