/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the kernels of the matched pair: arguments, and the length of rays. */
#pragma once

#include "backproject_column.cuh"
#include "ct/pair_device.h"

namespace vp
{

/* Returns the length of a pixel's ray in a layer. */
__device__ __forceinline__ float ray_length(const vp_pair_shape &s, const vp_pair_view &view, int64_t u, int64_t v)
{
    double ray[3];
    for (int a = 0; a < 3; a++)
        ray[a] = view.ray[0][a] * (double)u + view.ray[1][a] * (double)v + view.ray[2][a];
    const double along = fabs(ray[view.march]);
    const double size = sqrt(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
    return along > 1e-6 * size ? (float)(s.voxel[view.march] * size / along) : 0;
}

/* ---- projection by boxes of the volume (pair_project_hopper.cu) ---- */

/* A view that marches along planes p, with columns q across. Pixels are counted so that they grow with q: pixel e is
 * u = e or, turned, u = -1 - e. Depth of a column: w = wq q + wp p + w1. Edge of a pixel at a place q between columns:
 * e = (eq q + ep p + e1) / w. Row of voxel k: ((vq q + vp p + v1) + k / rows) / w. */
struct project_view {
    double eq, ep, e1, wq, wp, w1, vq, vp, v1;
    double rows;            /* 1 / (rows a voxel at w = 1) */
    int lo, hi;             /* pixels of the detector */
    int line;               /* first line of the view in `lines` */
    int turned;
};

struct project_args {
    project_view view[VP_PAIR_VIEWS];
    float *lines;           /* line after line, `pitch` floats apart, a line being the rows of one u; added to */
    int64_t pitch;
    double q0, dq;          /* block d meets columns q0 + d dq ... q0 + (d + 1) dq in the middle plane, */
    double middle;          /* its number */
    int views, group;       /* views that the warps of a block have room for: 1, 2, 4 or 8, */
    int sharing;            /* and those that it has */
    int plane0, planes;     /* planes of the launch */
    int across;             /* columns of a plane */
    int march;
    int nv;                 /* rows of the detector; */
    int row0, rows;         /* those from row0 to `rows` are projected: of the lower half, with mirrors; */
    int block_rows;         /* and those of a block */
    int box_q, box_z;       /* columns, voxels of a box */
    int columns;            /* columns that the pixels of a warp meet, at most */
    int stages;
};

constexpr int PROJECT_PIXELS = 8, PROJECT_WARPS = 8;
/* Returns the rows of a lane: with mirrors, M = 2, and with most scans without, it has the same number of sums. `high`: boxes
 * of such blocks do not fit; a lane has half of them. */
__host__ __device__ constexpr int project_rows(int M, bool high = false)
{
    return M == 1 && high ? 4 : 8 / M;
}
constexpr int BOX_FLOATS = 2; /* floats of an element of the volume's tensor map; boxes have up to 256 a side */
constexpr int PROJECT_PLANES = 64; /* planes of a launch, whose sums begin with 0 */
constexpr int PROJECT_COLUMNS = 32; /* columns that the pixels of a warp meet, at most */

/* Return the first pixel of block d, and the place q of the edge of pixel e in plane p. */
template <class View> __host__ __device__ inline int pixel_at(const View &v, double q, double p)
{
    const double e = floor((v.eq * q + v.ep * p + v.e1) / (v.wq * q + v.wp * p + v.w1) + 0.5);
    return (int)(e < v.lo ? v.lo : e > v.hi ? v.hi : e);
}
template <class View> __host__ __device__ inline double place_of_edge(const View &v, double e, double p)
{
    return (e * (v.wp * p + v.w1) - v.ep * p - v.e1) / (v.eq - e * v.wq);
}

/* Slack of a column's place, in columns: far above the rounding of places. */
constexpr double COLUMN_SLACK = 1e-6;

size_t project_tiled_shared(int M, const project_args &a);
cudaError_t launch_project_tiled(int M, const CUtensorMap &map, const project_args &a, int blocks_q, bool early,
                                 cudaStream_t stream);

/* ---- transpose by boxes of the views (pair_collect_hopper.cu) ---- */

/* A view of columns. u = (ux x + uy y + uc) / w, counted from the detector's edge, v = (vx x + vy y + vz k + vc) / w
 * likewise, with x, y from the centre of the grid. */
struct area_view {
    double ux, uy, uc, wx, wy, wc, vx, vy, vz, vc;
    float ua, wa;           /* change of u w and of w from edge to edge of a voxel, across */
};

using area_args = view_args<area_view>;

constexpr int COLLECT_K = 16; /* slices of a thread */

struct collect_kernel {
    column_set set;
    int R, Z;               /* 2: pairs of views half a turn apart; 2: mirrors */
    double s_lower, s_upper;
    int lo, hi, tile_x, tile_y, pitch, stages, lines;
};

bool collect_tiled(int R, int Z, column_set set, collect_kernel *k);
size_t collect_tiled_shared(const collect_kernel &k, int box_rows, int stages);
cudaError_t launch_collect_tiled(const collect_kernel &k, const CUtensorMap &map, const area_args &a, int processors,
                                 int stages, cudaStream_t stream);
/* Computes the largest extents in texels of the box of a tile. extent[2] is device memory and must be 0 before. */
cudaError_t launch_collect_extent(const collect_kernel &k, const area_args &a, int last_segment, int *extent,
                                  cudaStream_t stream);

} // namespace vp

/* ---- any matrices, and fans (pair_general.cu): functions of vp_pair_kernels ---- */

void vp_pair_plan_general(struct vp_pair_shape *s);
int vp_pair_lift_general(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t n, const float *slices,
                         float *x, struct vp_err *err);
int vp_pair_project_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *x, float *work, float *y,
                            struct vp_err *err);
int vp_pair_weigh_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines,
                          struct vp_err *err);
int vp_pair_collect_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *sum,
                            struct vp_err *err);

/* ---- with boxes (pair_boxes.cu): functions of vp_pair_kernels ---- */

/* Chooses them where they do: sets `projector`, `collector` and sizes, or leaves those of the portable kernels. */
int vp_pair_plan_boxes(int device, struct vp_pair_shape *s, struct vp_err *err);
int vp_pair_lift_boxes(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t n, const float *slices,
                       float *x, struct vp_err *err);
int vp_pair_project_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *x, float *work, float *y,
                          struct vp_err *err);
int vp_pair_weigh_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines, struct vp_err *err);
int vp_pair_collect_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *work, float *sum,
                          struct vp_err *err);
