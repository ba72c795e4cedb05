#!/usr/bin/env python3
"""Peers of ct-filter where they are installed: the ramp filter of 1024^2 projections with SciPy's FFT,
for the ratio to the figures that tests/bench prints in the same run."""
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
