#!/usr/bin/env python3
"""img-threshold beside scikit-image: the thresholds of histograms and the masks of images, to the pixel, the
exceptions counted; and the time of local thresholds. Arguments: the build directory, and TIFF images of one page
(without any: an image of noise on waves). Exceptions are of two kinds: where the window reaches over the edge of the
image, which scikit-image mirrors and img-threshold cuts off; and samples that are equal to their threshold, which
scikit-image's sums in float64 miss by some 1e-13, so that its mask is what the rounding says."""
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import tifffile
from skimage import filters

build = sys.argv[1] if len(sys.argv) > 1 else "build"
program = os.path.join(build, "bin", "img-threshold")
folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
out = os.path.join(folder.name, "out.tif")


def ours(path, *options):
    """The mask, and the threshold where one is told."""
    command = [program, "-v", "--2d", *options, path, "-o", out]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    told = re.search(r": threshold (\S+)", said.stderr)
    return tifffile.imread(out) > 0, float(told[1]) if told else None


def best_of(work, rounds=3):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


paths = sys.argv[2:]
random = np.random.default_rng(1)
if not paths:
    y, x = np.mgrid[0:700, 0:900]
    image = 128 + 60 * np.sin(x / 40) * np.cos(y / 60) + 25 * random.standard_normal(x.shape)
    paths = [os.path.join(folder.name, "waves.tif")]
    tifffile.imwrite(paths[0], np.clip(image, 0, 255).astype(np.uint8))

failed = 0
for path in paths:
    image = tifffile.imread(path)
    name = os.path.basename(path)
    for how in ("otsu", "triangle", "li", "yen", "isodata"):
        theirs = getattr(filters, "threshold_" + how)(image)
        mask, told = ours(path, "--" + how)
        same = abs(told - theirs) <= 1e-6 * abs(theirs) and np.array_equal(mask, image > theirs)
        failed += not same
        print(f"{name}: {how}: {told:g}, scikit-image {theirs:g}{'' if same else ': DIFFERENT'}")
    for how, window in ((h, w) for h in ("mean", "niblack", "sauvola") for w in (15, 101)):
        limit = {"mean": lambda: filters.threshold_local(image, window, "mean"),
                 "niblack": lambda: filters.threshold_niblack(image, window),
                 "sauvola": lambda: filters.threshold_sauvola(image, window)}[how]()
        mask, _ = ours(path, "--local", how, "--window", str(window))
        differ = mask != (image > limit)
        h = window // 2
        inside = differ[h:-h, h:-h]
        gap = np.abs(image - limit)[h:-h, h:-h][inside]
        far = int((gap > 1e-9 * max(1, image.max())).sum())
        failed += far > 0
        print(f"{name}: {how} {window}: of {inside.size} pixels away from the edge {int(inside.sum())} differ, {far} "
              f"of them farther than rounding from their threshold; at the edge {int(differ.sum() - inside.sum())} "
              f"of {differ.size - inside.size}", flush=True)

big = random.integers(0, 256, (4096, 4096), dtype=np.uint8)
path = os.path.join(folder.name, "big.tif")
tifffile.imwrite(path, big)
for how, work in (("sauvola", lambda: filters.threshold_sauvola(big, 101)),
                  ("niblack", lambda: filters.threshold_niblack(big, 101)),
                  ("mean", lambda: filters.threshold_local(big, 101, "mean"))):
    command = [program, "--device", "cpu", "--2d", "--local", how, "--window", "101", path, "-o", out]
    mine = best_of(lambda c=command: subprocess.run(c, check=True), 5)
    theirs = best_of(work)
    print(f"{how} 101, 4096^2 u8: scikit-image {1e3 * theirs:.0f} ms in memory, img-threshold {1e3 * mine:.1f} ms "
          f"from file to file: {theirs / mine:.1f} x", flush=True)
sys.exit(failed > 0)
