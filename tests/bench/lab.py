#!/usr/bin/env python3
"""From the scanner to the projections, beside algotom where it is installed: the axis, rings, zingers, phase. Ours are
whole commands from file to file; algotom's are the calls alone, on arrays in memory. Argument: the build directory."""
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

try:
    import algotom.prep.calculation as calculation
    import algotom.prep.filtering as filtering
    import algotom.prep.removal as removal
except ImportError:
    sys.exit("lab.py: algotom is not installed: pip install algotom")

BIN = os.path.join(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build"), "bin")
NU, NV, VIEWS, AXIS = 512, 32, 361, 7.3


def run(command):
    start = time.perf_counter()
    done = subprocess.run(command, shell=True, check=True, text=True, capture_output=True)
    return time.perf_counter() - start, done.stdout


def best(work, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def row(name, ours, theirs, note=""):
    print(f"{name:34s} {ours:9.3f} s  algotom {theirs:9.3f} s  {theirs / ours:8.1f} x  {note}")


def main():
    os.environ["PATH"] = BIN + ":" + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(f"ct-geom --beam parallel --detector {NU}x{NV} --pitch 1 --views {VIEWS} --arc 180 "
            f"--offset-u {AXIS} -o scan.geom")
        run("ct-phantom -g scan.geom --phantom shepp-logan --noise 1e4 -o p.tif; img-reslice --axes xz p.tif -o s.tif")
        run("ct-phantom -g scan.geom --phantom shepp-logan --noise 1e4 --counts -o counts.tif")
        views = np.frombuffer(subprocess.run("img-cat --raw-out p.tif", shell=True, capture_output=True).stdout,
                              "<f4").reshape(VIEWS, NV, NU)
        sinogram = np.ascontiguousarray(views[:, NV // 2, :])
        middle = (NU - 1) / 2
        # the axis: ours of the whole scan, unasked; Vo's of one sinogram within 30 columns of the middle
        ours = min((run("ct-center -g scan.geom p.tif") for _ in range(3)), key=lambda r: r[0])
        found = [float(line.split()[2]) for line in ours[1].splitlines() if line.startswith("offset-u")][0]
        theirs, centre = best(lambda: calculation.find_center_vo(sinogram, middle - 30, middle + 30), 1)
        row("axis of the scan / one sinogram", ours[0], theirs,
            f"errors {abs(found - AXIS):.2f} / {abs(centre - middle - AXIS):.2f} pixels")
        # rings: all rows
        ours = min(run("ct-rings p.tif -o r.tif")[0] for _ in range(3))
        for name in ("remove_stripe_based_sorting", "remove_all_stripe"):
            theirs, _ = best(lambda: [getattr(removal, name)(views[:, v, :]) for v in range(NV)], 1)
            row(f"rings / {name[7:]}", ours, theirs, f"{NV} rows")
        ours = min(run("ct-rings --sort 7 --layout sinograms s.tif -o r.tif")[0] for _ in range(3))
        theirs, _ = best(lambda: [removal.remove_stripe_based_sorting(views[:, v, :], 7) for v in range(NV)], 1)
        row("rings --sort 7 / the same", ours, theirs, f"{NV} rows")
        # zingers
        ours = min(run("ct-normalize --i0 1e4 --zinger 1.5 counts.tif -o z.tif")[0] for _ in range(3))
        theirs, _ = best(lambda: [removal.remove_zinger(views[:, v, :], 0.08) for v in range(NV)], 1)
        row("normalize --zinger / remove_zinger", ours, theirs, f"{VIEWS} views; theirs without flats and log")
        # phase: of all views
        ours = min(run("ct-phase --length 4 p.tif -o f.tif")[0] for _ in range(3))
        theirs, _ = best(lambda: [filtering.fresnel_filter(view, 100, dim=2) for view in np.exp(-views)], 1)
        row("phase / fresnel_filter", ours, theirs, f"{VIEWS} views")


main()
