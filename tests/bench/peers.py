#!/usr/bin/env python3
"""Peers where they are installed: the ramp filter of 1024^2 projections with SciPy's FFT, for the ratio to the
figures that tests/bench prints in the same run; local operations of SciPy and OpenCV, and morphological reconstruction
of scikit-image and DIPlib, beside ours.
Argument: the build directory."""
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.fft as fft

n, views = 1024, 32
rows = np.random.default_rng(1).random((views, n, n), dtype=np.float32)
ramp = np.abs(fft.rfftfreq(2 * n)).astype(np.float32)
for workers in (1, 2):
    best = min(
        (lambda t: [fft.irfft(fft.rfft(p, 2 * n, workers=workers) * ramp, workers=workers)[:, :n] for p in rows]
         and time.perf_counter() - t)(time.perf_counter())
        for _ in range(3))
    print(f"scipy.fft ramp, 1024^2, {workers} worker(s): {views / best:.0f} projections/s")


# ---- local operations: the rows of tests/bench/local_bench that have a peer, measured in this same run ----

def best_of(work, rounds=3):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def local_peers():
    """name of the row -> (peer, what it does)"""
    from scipy import ndimage, signal

    random = np.random.default_rng(1)
    u16 = random.integers(0, 65536, (256, 256, 256), dtype=np.uint16)
    f32 = random.random((256, 256, 256), dtype=np.float32)

    def std(image, size):
        x = image.astype(np.float64)
        mean = ndimage.uniform_filter(x, size)
        square = ndimage.uniform_filter(x * x, size)
        return np.sqrt(np.maximum(square - mean * mean, 0))

    peers = {
        "min-3-u16": ("scipy minimum_filter", lambda: ndimage.minimum_filter(u16, 3)),
        "min-31-u16": ("scipy minimum_filter", lambda: ndimage.minimum_filter(u16, 31)),
        "min-31-f32": ("scipy minimum_filter", lambda: ndimage.minimum_filter(f32, 31)),
        "mean-9-f32": ("scipy uniform_filter", lambda: ndimage.uniform_filter(f32, 9)),
        "std-9-f32": ("scipy uniform_filter of x and x^2 in f64", lambda: std(f32, 9)),
        "std-9-u16": ("scipy uniform_filter of x and x^2 in f64", lambda: std(u16, 9)),
        "median-3-u16": ("scipy median_filter", lambda: ndimage.median_filter(u16, 3)),
        "median-3-f32": ("scipy median_filter", lambda: ndimage.median_filter(f32, 3)),
        "median-5-u16": ("scipy median_filter", lambda: ndimage.median_filter(u16[:128, :128, :128], 5)),
        "median-7-u16": ("scipy median_filter", lambda: ndimage.median_filter(u16[:96, :96, :96], 7)),
        "wiener-5-f32": ("scipy.signal.wiener", lambda: signal.wiener(f32, 5, 0.08)),
    }
    try:
        from skimage.filters import rank, threshold_sauvola
        from skimage.morphology import disk
        from skimage.restoration import denoise_nl_means
        wide = random.integers(0, 256, (1024, 4096), dtype=np.uint8)
        page = random.integers(0, 256, (4096, 4096), dtype=np.uint8)
        peers["sauvola-101-u8-2d"] = ("skimage threshold_sauvola", lambda: page > threshold_sauvola(page, 101))
        peers["entropy-disc-5-u8"] = ("skimage rank.entropy", lambda: rank.entropy(wide, disk(5)))
        peers["nlmeans-3-f32"] = ("skimage denoise_nl_means, fast", lambda: denoise_nl_means(
            f32[:32, :64, :64], 7, 3, 0.3, fast_mode=True))
    except ImportError:
        pass
    try:
        import cv2
    except ImportError:
        return peers
    page = random.integers(0, 256, (4096, 4096), dtype=np.uint8)
    kernel = np.ones((31, 31), np.uint8)
    page16 = random.integers(0, 65536, (4096, 4096), dtype=np.uint16)
    for name, size, image in (("median-3-u8-2d", 3, page), ("median-5-u8-2d", 5, page), ("median-5-u16-2d", 5, page16),
                              ("median-101-u8-2d", 101, page[:2048, :2048].copy())):
        peers[name] = (f"cv2.medianBlur, {cv2.getNumThreads()} threads", lambda i=image, k=size: cv2.medianBlur(i, k))
    peers["nlmeans-10-u8-2d"] = (f"cv2.fastNlMeansDenoising, {cv2.getNumThreads()} threads",
                                 lambda: cv2.fastNlMeansDenoising(page[:512, :512].copy(), None, 30, 7, 21))
    peers["min-31-u8-2d"] = (f"cv2.erode, {cv2.getNumThreads()} threads", lambda: cv2.erode(page, kernel))
    return peers


def local_operations(build):
    bench = os.path.join(build, "bench", "local_bench")
    if not os.access(bench, os.X_OK):
        print(f"(no {bench}: no peers of local operations)")
        return
    for name, (peer, work) in local_peers().items():
        ours = subprocess.run([bench, name], capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
        theirs = best_of(work, 1 if name.startswith(("wiener", "median-3-u16", "median-3-f32", "entropy")) else 3)
        one, two = float(ours[1]) / 1e3, float(ours[3]) / 1e3
        print(f"{name}: {peer} {1e3 * theirs:.1f} ms; voxpipe {1e3 * one:.2f} ms with 1 thread: {theirs / one:.1f} x, "
              f"{1e3 * two:.2f} ms with 2: {theirs / two:.1f} x", flush=True)


local_operations(sys.argv[1] if len(sys.argv) > 1 else "build")


# ---- morphological reconstruction: the same images, written by tests/bench/morphrecon_bench ----

def reconstruction(build):
    bench = os.path.join(build, "bench", "morphrecon_bench")
    if not os.access(bench, os.X_OK):
        print(f"(no {bench}: no peers of reconstruction)")
        return
    try:
        from skimage.morphology import reconstruction as by_skimage
    except ImportError:
        by_skimage = None
    try:
        import diplib
    except ImportError:
        diplib = None
    from scipy.ndimage import generate_binary_structure
    for name in ("hmax-10-u8-8", "hmax-40-u8-4", "holes-u8-8", "holes-u8-4", "serpentine-u8-4", "hmax-10-u8-26",
                 "holes-u8-26"):
        with tempfile.TemporaryDirectory() as where:
            size, nx, ny, nz, connectivity = map(int, subprocess.run(
                [bench, "--write", where, name], capture_output=True, text=True, check=True).stdout.split())
            shape = (nz, ny, nx) if nz > 1 else (ny, nx)
            marker, mask = (np.fromfile(os.path.join(where, f), np.dtype(f"u{size}")).reshape(shape)
                            for f in ("marker", "mask"))
        ours = subprocess.run([bench, "--ours", name], capture_output=True, text=True,
                              check=True).stdout.splitlines()[-1].split()
        one, two = float(ours[1]) / 1e3, float(ours[3]) / 1e3
        reach = {4: 1, 8: 2, 6: 1, 18: 2, 26: 3}[connectivity]
        line = f"{name}: voxpipe {1e3 * one:.1f} ms with 1 thread, {1e3 * two:.1f} ms with 2"
        if by_skimage:
            footprint = generate_binary_structure(len(shape), reach)
            theirs = best_of(lambda: by_skimage(marker, mask, footprint=footprint), 1)
            line += f"; skimage reconstruction {theirs:.2f} s: {theirs / one:.0f} x, {theirs / two:.0f} x"
        if diplib:
            theirs = best_of(lambda: diplib.MorphologicalReconstruction(marker, mask, connectivity=reach), 2)
            line += f"; DIPlib {theirs:.2f} s: {theirs / one:.0f} x, {theirs / two:.0f} x"
        print(line, flush=True)


reconstruction(sys.argv[1] if len(sys.argv) > 1 else "build")


def seconds(work, rounds=3):
    """The best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def gaussian():
    import scipy.ndimage as ndimage
    volume = np.random.default_rng(1).random((256, 256, 256), dtype=np.float32)
    for sigma in (1, 3, 10):
        print(f"scipy.ndimage.gaussian_filter, 256^3 f32, sigma {sigma}: "
              f"{seconds(lambda: ndimage.gaussian_filter(volume, sigma)):.4f} s")
    print("scipy.ndimage.gaussian_laplace, 256^3 f32, sigma 3: "
          f"{seconds(lambda: ndimage.gaussian_laplace(volume, 3), 2):.4f} s")
    try:
        import cv2
    except ImportError:
        return
    image = np.random.default_rng(1).random((4096, 4096), dtype=np.float32)
    print("cv2.GaussianBlur, 4096^2 f32, sigma 3, 25 x 25 taps: "
          f"{seconds(lambda: cv2.GaussianBlur(image, (25, 25), 3), 5):.4f} s")


def tables():
    try:
        import cv2
    except ImportError:
        return
    random = np.random.default_rng(1)
    for name, image, depth, out in (
            ("u8 to s32", random.integers(0, 256, (8192, 8192), dtype=np.uint8), cv2.CV_32S, np.int32),
            ("f32 to f64", random.random((8192, 8192), dtype=np.float32), cv2.CV_64F, np.float64)):
        table = np.zeros((8193, 8193), out)
        print(f"cv2.integral, 8192^2 {name}: {seconds(lambda: cv2.integral(image, table, depth), 5):.4f} s")


gaussian()
tables()
