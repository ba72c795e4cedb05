#!/usr/bin/env python3
"""Back-projection by ASTRA (BP3D_CUDA) at the sizes of iFDK's table 4, beside gpu_bench table4.

usage: astra_bench.py [REPEATS]

Needs the wheel of astra-toolbox with NumPy and SciPy, and libcudart.so.12. Projections and volume lie in the memory of
the GPU; what ASTRA takes includes its copy of the projections to an array of textures. Its weights are those of the
adjoint, not FDK's. GUPS = voxels x views / (seconds 2^30), the best of REPEATS, by the clock.
"""
import ctypes
import sys
import time

import astra
import numpy as np

cuda = ctypes.CDLL("libcudart.so.12")


def device_memory(nx, ny, nz):
    """Returns zeros on the device, as ASTRA links them, and their address."""
    at = ctypes.c_void_p()
    count = 4 * nx * ny * nz
    if cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(count)) or cuda.cudaMemset(at, 0, ctypes.c_size_t(count)):
        raise MemoryError(f"no {count} bytes on the device")
    return astra.pythonutils.GPULink(at.value, nx, ny, nz, 4 * nx), at


def measure(detector, views, n, repeats):
    pitch, voxel = 400 / detector, 400 / 1.5 / n
    angles = np.linspace(0, 2 * np.pi, views, endpoint=False)
    projections = astra.create_proj_geom("cone", pitch / voxel, pitch / voxel, detector, detector, angles,
                                         1000 / voxel, 500 / voxel)
    volume = astra.create_vol_geom(n, n, n)
    p, p_at = device_memory(detector, views, detector)
    v, v_at = device_memory(n, n, n)
    ids = astra.data3d.link("-sino", projections, p), astra.data3d.link("-vol", volume, v)
    config = astra.astra_dict("BP3D_CUDA")
    config["ProjectionDataId"], config["ReconstructionDataId"] = ids
    job = astra.algorithm.create(config)
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        astra.algorithm.run(job)
        cuda.cudaDeviceSynchronize()
        best = min(best, time.perf_counter() - start)
    astra.algorithm.delete(job)
    astra.data3d.delete(list(ids))
    cuda.cudaFree(p_at)
    cuda.cudaFree(v_at)
    size = f"{detector}^2 x {views} -> {n}^3"
    print(f"ASTRA {astra.__version__}  {size:24} {n**3 * views / best / 2**30:7.1f} GUPS ({best * 1e3:.1f} ms)", flush=True)


if __name__ == "__main__":
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for width in (512, 1024, 2048):
        for side in (128, 256, 512, 1024):
            measure(width, 1024, side, times)
