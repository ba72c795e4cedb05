#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Convolution beside SciPy, OpenCV and a recipe in NumPy: convolve_peers.py CONVOLVE_BENCH [image|grid|volume|f64]...

One thread each, in one run, alternating; seconds of the processor, so that what else runs counts little. Of several times
the least. The recipe convolves with each kernel of a grid the part that its weights reach, and adds up."""
import os
import subprocess
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from scipy import fft, signal

try:
    import cv2
    cv2.setNumThreads(1)
except ImportError:
    cv2 = None


def least(f, times):
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        f()
        best = min(best, time.process_time() - start)
    return best


def ours(bench, what):
    """Seconds of each line that the benchmark prints."""
    out = subprocess.run([bench, what, "1"], capture_output=True, text=True, check=True).stdout
    print(out, end="")
    return [float(line.split()[0]) / 1e3 for line in out.splitlines()]


def show(name, seconds, reference):
    print(f"{name:40s} {seconds * 1e3:9.1f} ms  {seconds / reference:6.2f} x", flush=True)


def recipe(image, kernels):
    """The sum over nodes, each by FFT over the part of the image that it has a weight in."""
    size, nodes, n = image.shape[0], kernels.shape[0], kernels.shape[2]
    centres = (np.arange(nodes) + 0.5) * size / nodes - 0.5
    x = np.arange(size)
    weights = np.array([np.interp(x, centres, np.eye(nodes)[i]) for i in range(nodes)], np.float32)
    spans = [(w.nonzero()[0][0], w.nonzero()[0][-1] + 1) for w in weights]
    out = np.zeros_like(image)
    reach = (n - 1 - n // 2, n // 2)
    for i, (y0, y1) in enumerate(spans):
        for j, (x0, x1) in enumerate(spans):
            top, left = max(0, y0 - reach[0]), max(0, x0 - reach[0])
            part = image[top:min(size, y1 + reach[1]), left:min(size, x1 + reach[1])]
            shape = [fft.next_fast_len(s + n - 1, True) for s in part.shape]
            s = fft.irfft2(fft.rfft2(part, shape) * fft.rfft2(kernels[i, j], shape), shape)
            oy, ox = y0 - top + n // 2, x0 - left + n // 2
            out[y0:y1, x0:x1] += weights[i, y0:y1, None] * weights[j, None, x0:x1] * s[oy:oy + y1 - y0, ox:ox + x1 - x0]
    return out


def main():
    bench, wanted = sys.argv[1], sys.argv[2:] or ["image", "grid", "volume"]
    rng = np.random.default_rng(1)
    if "image" in wanted:
        image = rng.random((4096, 4096), np.float32)
        kernel = rng.random((101, 101), np.float32)
        mine = min(ours(bench, "image") + ours(bench, "image"))
        print("4096^2 with one kernel of 101^2")
        show("scipy.signal.fftconvolve", least(lambda: signal.fftconvolve(image, kernel, "same"), 3), mine)
        show("scipy.signal.oaconvolve", least(lambda: signal.oaconvolve(image, kernel, "same"), 3), mine)
        if cv2:
            show("cv2.filter2D", least(lambda: cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_CONSTANT), 3), mine)
    if "grid" in wanted:
        first, second = np.minimum(ours(bench, "grid"), ours(bench, "grid"))
        for size, nodes, mine, times in ((1024, 8, first, 3), (4096, 32, second, 1)):
            image = rng.random((size, size), np.float32)
            kernels = rng.random((nodes, nodes, 100, 100), np.float32)
            print(f"{size}^2 with {nodes} x {nodes} kernels of 100^2")
            show("NumPy, kernel by kernel", least(lambda: recipe(image, kernels), times), mine)
    if "volume" in wanted:
        volume = rng.random((256, 256, 256), np.float32)
        kernel = rng.random((31, 31, 31), np.float32)
        mine = min(ours(bench, "volume") + ours(bench, "volume"))
        print("256^3 with one kernel of 31^3")
        show("scipy.signal.fftconvolve", least(lambda: signal.fftconvolve(volume, kernel, "same"), 2), mine)
        show("scipy.signal.oaconvolve", least(lambda: signal.oaconvolve(volume, kernel, "same"), 1), mine)
    if "f64" in wanted:
        mine = np.minimum(ours(bench, "f64"), ours(bench, "f64"))
        for size, kernel, of in (((4096, 4096), (101, 101), mine[0]), ((256, 256, 256), (31, 31, 31), mine[2])):
            image, kernel = rng.random(size), rng.random(kernel)
            print("f64:", "x".join(map(str, size)), "with one kernel of", "x".join(map(str, kernel.shape)))
            show("scipy.signal.fftconvolve", least(lambda: signal.fftconvolve(image, kernel, "same"), 2), of)
            show("scipy.signal.oaconvolve", least(lambda: signal.oaconvolve(image, kernel, "same"), 1), of)


main()
