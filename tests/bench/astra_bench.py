#!/usr/bin/env python3
"""ASTRA on one GPU: back-projection at the sizes of iFDK's table 4, beside gpu_bench table4; or its pair of projections.

usage: astra_bench.py [REPEATS]
       astra_bench.py pair [REPEATS]   FP3D_CUDA and BP3D_CUDA of 1024^3, 512 views of 1024^2, beside gpu_pair_bench

Needs the wheel of astra-toolbox with NumPy and SciPy, and libcudart.so.12. Projections and volume lie in the memory of
the GPU, and are random; the time of ASTRA includes its copy to an array of textures. Its weights are those of the
adjoint, not FDK's. GUPS = voxels x views / (seconds 2^30), the best of REPEATS, by the clock. The error is that of 64
voxels to float64 sums of bilinear samples over depth^2, whose constant factor is fitted; of the pair the ratio of
<A x, y> to <x, A' y> as well.
"""
import ctypes
import sys
import time

import astra
import numpy as np

cuda = ctypes.CDLL("libcudart.so.12")
SOURCE, AXIS_TO_DETECTOR = 1000, 500
BLOCK = np.random.default_rng(1).random(2**24 - 3, dtype=np.float32)  # every array repeats it


def must(code, what):
    if code:
        raise SystemExit(f"astra_bench: {what}: CUDA error {code}")


class DeviceArray:
    """nz planes of ny by nx floats on the device; the random block again and again, or zeros."""

    def __init__(self, nx, ny, nz, random):
        self.count = nx * ny * nz
        at = ctypes.c_void_p()
        must(cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(4 * self.count)), f"{4 * self.count} bytes")
        self.at = at.value
        self.link = astra.pythonutils.GPULink(self.at, nx, ny, nz, 4 * nx)
        if not random:
            must(cuda.cudaMemset(at, 0, ctypes.c_size_t(4 * self.count)), "zeros")
            return
        for first, n in self.parts():
            self.copy(self.at + 4 * first, BLOCK.ctypes.data, n, 1)

    def copy(self, to, source, n, way):
        must(cuda.cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(4 * n), way), "copy")

    def parts(self):
        return [(first, min(BLOCK.size, self.count - first)) for first in range(0, self.count, BLOCK.size)]

    def part(self, first, n):
        """Returns n values from the device, from the first on."""
        here = np.empty(n, dtype=np.float32)
        self.copy(here.ctypes.data, self.at + 4 * first, n, 2)
        return here

    def dot_random(self):
        """Returns the float64 sum of products with a random array of the same size."""
        return sum(float(np.dot(self.part(first, n).astype(np.float64), BLOCK[:n])) for first, n in self.parts())

    def free(self):
        must(cuda.cudaFree(ctypes.c_void_p(self.at)), "free")


class Scan:
    def __init__(self, detector, views, n):
        self.pixel, voxel = 400 / detector, 400 / 1.5 / n
        self.detector, self.views, self.n = detector, views, n
        self.source, self.far = SOURCE / voxel, (SOURCE + AXIS_TO_DETECTOR) / voxel
        self.pixel /= voxel
        self.angles = np.linspace(0, 2 * np.pi, views, endpoint=False)
        self.projections = astra.create_proj_geom("cone", self.pixel, self.pixel, detector, detector, self.angles,
                                                  self.source, self.far - self.source)
        self.volume = astra.create_vol_geom(n, n, n)

    def sums(self, i, j, k, down=1):
        """Returns the float64 sums over all views for voxels (i, j, k), of projections that repeat the block."""
        middle, d = (self.n - 1) / 2, self.detector
        sin, cos = np.sin(self.angles)[:, None], np.cos(self.angles)[:, None]
        x, y, z = i - middle, down * (j - middle), k - middle
        depth = self.source - sin * x + cos * y
        u = (cos * x + sin * y) * self.far / depth / self.pixel + (d - 1) / 2
        v = z * self.far / depth / self.pixel + (d - 1) / 2
        u0, v0 = np.floor(u).astype(np.int64), np.floor(v).astype(np.int64)
        view = np.arange(self.views, dtype=np.int64)[:, None]
        total = np.zeros(depth.shape)
        for b in (0, 1):
            for a in (0, 1):
                inside = (u0 + a >= 0) & (u0 + a < d) & (v0 + b >= 0) & (v0 + b < d)
                at = ((v0 + b) * self.views + view) * d + u0 + a
                weight = np.abs(1 - a - (u - u0)) * np.abs(1 - b - (v - v0)) * inside
                total += weight * BLOCK[at % BLOCK.size]
        return (total / depth**2).sum(axis=0)


def job_of(what, scan, p, v):
    ids = astra.data3d.link("-sino", scan.projections, p.link), astra.data3d.link("-vol", scan.volume, v.link)
    config = astra.astra_dict(what)
    config["ProjectionDataId"], config["VolumeDataId" if what[0] == "F" else "ReconstructionDataId"] = ids
    return astra.algorithm.create(config), ids


def seconds_of(what, scan, p, v, repeats):
    """Returns the best time of `what`, a run beforehand left out."""
    job, ids = job_of(what, scan, p, v)
    best = float("inf")
    for turn in range(repeats + 1):
        start = time.perf_counter()
        astra.algorithm.run(job)
        must(cuda.cudaDeviceSynchronize(), what)
        if turn:
            best = min(best, time.perf_counter() - start)
    astra.algorithm.delete(job)
    astra.data3d.delete(list(ids))
    return best


def error_of(scan, v):
    i, j, k = np.random.default_rng(2).integers(0, scan.n, (3, 64))
    got = np.array([v.part(int((c * scan.n + b) * scan.n + a), 1)[0] for a, b, c in zip(i, j, k)], dtype=np.float64)
    errors = []
    for down in (1, -1):  # rows of slices go either way, by version
        right = scan.sums(i, j, k, down)
        right *= got @ right / (right @ right)
        errors.append(np.linalg.norm(got - right) / np.linalg.norm(right))
    return min(errors)


def report(name, scan, seconds, check):
    size = f"{scan.detector}^2 x {scan.views} -> {scan.n}^3"
    gups = scan.n**3 * scan.views / seconds / 2**30
    print(f"{name:20} {size:24} {gups:7.1f} GUPS ({seconds * 1e3:.1f} ms), {check}", flush=True)


def back(detector, views, n, repeats):
    scan = Scan(detector, views, n)
    p, v = DeviceArray(detector, views, detector, True), DeviceArray(n, n, n, False)
    seconds = seconds_of("BP3D_CUDA", scan, p, v, repeats)
    report(f"ASTRA {astra.__version__}", scan, seconds, f"error {error_of(scan, v):.1e}")
    p.free()
    v.free()


def pair(detector, views, n, repeats):
    scan = Scan(detector, views, n)
    x, ax = DeviceArray(n, n, n, True), DeviceArray(detector, views, detector, False)
    forward = seconds_of("FP3D_CUDA", scan, ax, x, repeats)
    left = ax.dot_random()
    x.free()
    ax.free()
    y, aty = DeviceArray(detector, views, detector, True), DeviceArray(n, n, n, False)
    backward = seconds_of("BP3D_CUDA", scan, y, aty, repeats)
    ratio = left / aty.dot_random()
    report("ASTRA FP3D_CUDA", scan, forward, f"<A x, y> / <x, A' y> = {ratio:.6f}")
    report("ASTRA BP3D_CUDA", scan, backward, f"error {error_of(scan, aty):.1e}")
    y.free()
    aty.free()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "pair"]
    times = int(words[0]) if words else 3
    if "pair" in sys.argv[1:]:
        pair(1024, 512, 1024, times)
    else:
        for width in (512, 1024, 2048):
            for side in (128, 256, 512, 1024):
                back(width, 1024, side, times)
