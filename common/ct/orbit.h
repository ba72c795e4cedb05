/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetries of projection matrices that kernels rely on, on the CPU and on GPUs. Host only, no CUDA. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One view in which u and w do not depend on k and v does only through z / w. With x, y counted from the
 * centre of the grid: u = (ux x + uy y + uc) / w, v = cv + (vz k + vc) / w, w = wx x + wy y + wc. */
struct vp_column_view {
    double ux, uy, uc;
    double wx, wy, wc;
    double vz, vc, cv;
};

struct vp_orbit_shape {
    bool positive;       /* w > 1 / 1024 everywhere in the grid, in every view */
    bool level;          /* w does not depend on k */
    bool columns;        /* struct vp_column_view describes every view */
    bool flip_v;         /* rows have to be counted from the other end so that v grows with k (columns) */
    bool mirror;         /* v(k) + v(nz - 1 - k) = nv - 1 (columns) */
    bool opposite;       /* view o + n / 2 is view o of the grid turned by 180 degrees about z (columns) */
    double s_min, s_max; /* dv / dk over the grid and the views (columns) */
    double reach;        /* largest |u| or |v| at a corner of the grid, pixels (positive) */
    double step;         /* largest |du / dk| or |dv / dk| at a corner, pixels (positive) */
};

/* Coordinates that differ by less than this over the whole grid are the same, pixels. */
#define VP_ORBIT_SAME 1e-7
/* Nearer to the source plane than this part of sod nothing is back-projected. */
#define VP_ORBIT_NEAREST (1.0 / 1024)

/* Tests the matrices (voxel indices -> pixels). */
struct vp_orbit_shape vp_orbit_test(const double *P, int64_t n_views, int64_t nv, const int64_t n[3]);
/* Returns a view's column form, v counted from the other end of the detector if flip_v. */
struct vp_column_view vp_orbit_column(const double P[12], int64_t nv, const int64_t n[3], bool flip_v);
/* Sets [*v0, *v1), the rows with weight that slices [k0, k1] need in any view, clipped to the detector (columns;
 * counted from the other end if flip_v). */
void vp_orbit_rows(const double *P, int64_t n_views, int64_t nv, const int64_t n[3], bool flip_v, double k0,
                   double k1, int64_t *v0, int64_t *v1);

/* ---- one view: tests for kernels that accept voxels on the far side of the source, rows in a frame of each view's
 * own, and columns along which u and w are constant but v depends on x and y (ct/backproject.c). Scans with `columns`
 * and `mirror` pass them. ---- */

/* Returns the product of a row of a matrix and voxel (i, j, k, 1). */
static inline double vp_orbit_dot(const double row[4], double i, double j, double k)
{
    return row[0] * i + row[1] * j + row[2] * k + row[3];
}

struct vp_extent { double lo, hi; };
#define VP_EXTENT_NONE {INFINITY, -INFINITY}

/* Widens v and w by the rows and depths of slices [z0, z1). The extremes of v are at the corners if all of them is in
 * front of the source; else false. */
bool vp_orbit_box(const double P[12], const int64_t n[3], int64_t z0, int64_t z1, struct vp_extent *v,
                  struct vp_extent *w);
/* Returns the smallest depth in the grid, at least VP_ORBIT_NEAREST. */
double vp_orbit_nearest(const double P[12], const int64_t n[3]);
/* True if u and w do not depend on k, on a detector whose columns and rows add up to `pixels`. */
bool vp_orbit_upright(const double P[12], int64_t pixels, const int64_t n[3]);
/* True if b is a of the grid turned by 180 degrees about z, on a detector whose columns and rows add up to `pixels`. */
bool vp_orbit_opposed(const double a[12], const double b[12], int64_t pixels, const int64_t n[3]);
/* True if v(k) + v(nz - 1 - k) = sum. */
bool vp_orbit_mirrored(const double P[12], int64_t sum, const int64_t n[3]);

#ifdef __cplusplus
}
#endif
