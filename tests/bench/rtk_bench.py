#!/usr/bin/env python3
"""The matched pair on the CPU beside RTK's Joseph pair, in one run.

usage: rtk_bench.py [SIZE [VIEWS [REPEATS]]]    256, 90, 1; the programs in PATH

A cone beam, SIZE^3 voxels, VIEWS views of SIZE x SIZE pixels over a turn. Forward and back with one thread, then with all.
Ours are whole commands, ct-project and ct-backproject --weight adjoint, from file to file, in the folder of TMPDIR; RTK's
are Update() of JosephForwardProjectionImageFilter and JosephBackProjectionImageFilter, whose arrays are in memory. 1 GUPS =
2^30 voxels x views a second; also of a second of CPU time, which other processes disturb less. The volume is a sum of
Gaussians, whose integrals along rays are exact in float64: the error is the L2 of 4 views, relative, against the ray through
the centre of a pixel, and against the mean of 4 x 4 rays of a pixel. Of <A x, y> / <x, A' y> - 1 the arrays are that
volume and random numbers. Skips without itk-rtk (pip install itk-rtk) or NumPy.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

try:
    import numpy as np
    import itk
    from itk import RTK as rtk
except ImportError as missing:
    print(f"rtk_bench: skipped: {missing}")
    sys.exit(0)

SOURCE, FAR = 1000.0, 1500.0
BLOBS = ((0, 0, 0, 45, 1.0), (25, -30, 12, 12, 1.0), (-40, 10, -25, 6, -0.5), (5, 45, 30, 4, 2.0), (-20, -35, 5, 3, 2.0))


def kernel_seconds(work, repeats):
    """Returns the least seconds of work() by the clock and of the CPU, children included."""
    def cpu():
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        start, before = time.perf_counter(), cpu()
        work()
        best = [min(best[0], time.perf_counter() - start), min(best[1], cpu() - before)]
    return best


def volume_of(n, voxel, axes):
    """Returns the volume, float32: axes[a] is the axis of the array, slowest first, along which x, y, z of a blob lie."""
    middle = (np.arange(n) - (n - 1) / 2) * voxel
    total = np.zeros((n, n, n), dtype=np.float32)
    for *center, sigma, height in BLOBS:
        lines = [None] * 3
        for a in range(3):
            lines[axes[a]] = np.exp(-((middle - center[a]) ** 2) / (2 * sigma**2))
        total += (height * lines[0][:, None, None] * lines[1][None, :, None] * lines[2][None, None, :]).astype(np.float32)
    return total


def integrals(source, pixels):
    """Returns the float64 integrals of the blobs along rays from the source through points."""
    ray = pixels - source
    ray /= np.linalg.norm(ray, axis=-1, keepdims=True)
    total = np.zeros(ray.shape[:-1])
    for *center, sigma, height in BLOBS:
        off = np.cross(ray, np.array(center) - source)
        total += height * sigma * np.sqrt(2 * np.pi) * np.exp(-(off**2).sum(axis=-1) / (2 * sigma**2))
    return total


def errors(got, place):
    """Returns the errors of views {number: array} whose pixel (u, v), which may be fractions, place(view, u, v) locates."""
    off, size = [0.0, 0.0], [0.0, 0.0]
    for view, image in got.items():
        v, u = np.meshgrid(np.arange(image.shape[0]), np.arange(image.shape[1]), indexing="ij")
        center = integrals(*place(view, u, v))
        mean = sum(integrals(*place(view, u + a, v + b)) for a in SUB for b in SUB) / len(SUB) ** 2
        for i, truth in enumerate((center, mean)):
            off[i] += ((image - truth) ** 2).sum()
            size[i] += (truth**2).sum()
    return [np.sqrt(a / b) for a, b in zip(off, size)]


SUB = (-0.375, -0.125, 0.125, 0.375)


def dot(a, b):
    return sum(float(np.dot(p.ravel().astype(np.float64), q.ravel())) for p, q in zip(a, b))


def report(name, updates, forward, back, error, ratio):
    print(f"{name:22} forward {updates / forward[0]:7.3f} GUPS ({updates / forward[1]:.3f} of CPU time), back "
          f"{updates / back[0]:7.3f} ({updates / back[1]:.3f})"
          + (f", error {error[0]:.1e} centre, {error[1]:.1e} mean, adjoint {ratio - 1:.1e}" if error else ""), flush=True)


def image_of(array, spacing):
    image = itk.image_from_array(array)
    image.SetSpacing(spacing)
    image.SetOrigin([-(n - 1) / 2 * s for n, s in zip(array.shape[::-1], spacing)])
    return image


def run_rtk(n, views, pitch, voxel, y, sample, repeats, threads):
    volume, flat = itk.Image[itk.F, 3], rtk.ThreeDCircularProjectionGeometry.New()
    for s in range(views):
        flat.AddProjection(SOURCE, FAR, 360.0 * s / views)
    itk.MultiThreaderBase.SetGlobalDefaultNumberOfThreads(threads)
    x = volume_of(n, voxel, (2, 1, 0))
    inputs = image_of(x, [voxel] * 3), image_of(np.zeros((views, n, n), np.float32), [pitch, pitch, 1])
    made = [None, None]

    def forward():
        f = rtk.JosephForwardProjectionImageFilter[volume, volume].New()
        f.SetGeometry(flat)
        f.SetInput(0, inputs[1])
        f.SetInput(1, inputs[0])
        f.SetNumberOfWorkUnits(threads)
        f.InPlaceOff()
        f.Update()
        made[0] = itk.array_from_image(f.GetOutput())

    def back():
        b = rtk.JosephBackProjectionImageFilter[volume, volume].New()
        b.SetGeometry(flat)
        b.SetInput(0, empty)
        b.SetInput(1, measured)
        b.SetNumberOfWorkUnits(threads)
        b.InPlaceOff()
        b.Update()
        made[1] = itk.array_from_image(b.GetOutput())

    def place(view, u, v):
        m = itk.array_from_matrix(flat.GetProjectionCoordinatesToFixedSystemMatrix(view))
        at = flat.GetSourcePosition(view)
        source = np.array([at[i] for i in range(3)])
        u, v = (u - (n - 1) / 2) * pitch, (v - (n - 1) / 2) * pitch
        points = np.stack([u, v, np.zeros_like(u), np.ones_like(u)], axis=-1) @ m.T
        return source, points[..., :3]

    empty, measured = image_of(np.zeros((n, n, n), np.float32), [voxel] * 3), image_of(y, [pitch, pitch, 1])
    seconds = kernel_seconds(forward, repeats), kernel_seconds(back, repeats)
    if not sample:
        return *seconds, None, None
    return *seconds, errors({s: made[0][s] for s in sample}, place), dot(made[0], y) / dot(x, made[1])


def write_mha(path, array, spacing):
    n = array.shape
    with open(path, "wb") as f:
        f.write((f"ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
                 f"Offset = {' '.join(str(-(k - 1) / 2 * spacing) for k in n[::-1])}\n"
                 f"ElementSpacing = {spacing} {spacing} {spacing}\nDimSize = {n[2]} {n[1]} {n[0]}\n"
                 f"ElementType = MET_FLOAT\nElementDataFile = LOCAL\n").encode())
        f.write(array.tobytes())


def run_ours(n, views, pitch, voxel, y, sample, repeats, threads, folder):
    x = volume_of(n, voxel, (2, 1, 0))
    write_mha(f"{folder}/x.mha", x, voxel)
    np.save(f"{folder}/y.npy", y)

    def command(*words):
        subprocess.run([*words[:1], "-q", "-j", str(threads), "--device", "cpu", *words[1:]], check=True, cwd=folder)

    subprocess.run(["ct-geom", "--sod", str(SOURCE), "--sdd", str(FAR), "--detector", f"{n}x{n}", "--pitch", str(pitch),
                    "--views", str(views), "-o", "g.geom"], check=True, cwd=folder)
    seconds = (kernel_seconds(lambda: command("ct-project", "-g", "g.geom", "x.mha", "-o", "p.npy"), repeats),
               kernel_seconds(lambda: command("ct-backproject", "-g", "g.geom", "--weight", "adjoint", "--volume",
                                              f"{n}x{n}x{n}", "--voxel", str(voxel), "y.npy", "-o", "b.npy"), repeats))
    if not sample:
        return *seconds, None, None
    forward, back = np.load(f"{folder}/p.npy"), np.load(f"{folder}/b.npy")

    def place(view, u, v):
        b = 2 * np.pi * view / views
        u, v = (u - (n - 1) / 2) * pitch, (v - (n - 1) / 2) * pitch
        across, along, up = [np.array(a) for a in ((np.cos(b), np.sin(b), 0), (np.sin(b), -np.cos(b), 0), (0, 0, 1.0))]
        source = -SOURCE * along
        return source, source + FAR * along + u[..., None] * across + v[..., None] * up

    return *seconds, errors({s: forward[s] for s in sample}, place), dot(forward, y) / dot(x, back)


def main():
    n, views, repeats = [int(a) for a in (sys.argv[1:] + ["256", "90", "1"][len(sys.argv) - 1:])]
    pitch, voxel = 400 / n, 2 * SOURCE * np.sin(np.arctan(200 / FAR)) / n
    y = np.random.default_rng(1).random((views, n, n), dtype=np.float32)
    updates, cores = n**3 * views / 2**30, len(os.sched_getaffinity(0))
    print(f"{n}^3 voxels, {views} views of {n}^2, RTK {version('itk-rtk')}")
    with tempfile.TemporaryDirectory() as folder:
        for threads in sorted({1, cores}):
            sample = [views * s // 9 for s in (0, 1, 3, 7)] if threads == 1 else []
            report(f"RTK Joseph, {threads} threads", updates, *run_rtk(n, views, pitch, voxel, y, sample, repeats, threads))
            report(f"voxpipe, {threads} threads", updates,
                   *run_ours(n, views, pitch, voxel, y, sample, repeats, threads, folder))


main()
