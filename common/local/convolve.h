/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with one kernel, or with a grid of kernels that change over the image: kernel "convolve" of engine/op.h.
 *
 *     out(p) = sum over k of K[k] in(p - (k - centre))
 *
 * A grid has nodes across and down; a voxel has the weights of the up to four nodes around it, which are products of
 * one along x and one along y (hats: linear between two nodes, 1 beyond the first and the last). With
 * VP_WEIGHTS_OUTPUT they are those of the output voxel, out = sum of W_ij (K_ij * in); with VP_WEIGHTS_SOURCE those
 * of the input voxel, out = sum of K_ij * (W_ij in), which is what an instrument does to points of light.
 *
 * Edges. Samples outside the image are made by the rule of enum vp_edge, with weights (of the source) by their place
 * outside. VP_EDGE_RENORMALIZE takes them as 0 and multiplies the sum by S / S_inside, where S adds up all weights
 * that the voxel has, and S_inside those of samples that exist (as the same sum of images of ones does).
 *
 * A constant is taken off the samples of each tile and added again, times the sum of the weights: rounding errors are
 * those of the contrast in the tile, and a constant comes out as one where weights add up to 1 or are renormalised.
 * Samples that stand out of a tile by far are summed up directly, so they change no voxel that they do not reach.
 *
 * A sample that is NaN or infinite makes NaN of every voxel whose kernel (the box of its samples) reaches it, and
 * changes no other. */
#ifndef VP_CONVOLVE_H
#define VP_CONVOLVE_H

#include "engine/op.h"

struct vp_fft64;

enum vp_weights { VP_WEIGHTS_OUTPUT, VP_WEIGHTS_SOURCE };
/* Which voxels there are results for: those of the image, all that a kernel's sample reaches, those whose kernel
 * lies in the image. Weights of a grid go on beyond the image: those of the outermost nodes. */
enum vp_crop { VP_CROP_SAME, VP_CROP_FULL, VP_CROP_VALID };

#define VP_CONVOLVE_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* op->params: all that a result depends on, for every device. One input, u8 u16 i16 f32, and on the CPU f64, for
 * which all is done in f64; the result is the same (rounded to nearest even, clamped) or f32. op->halo[a] is
 * vp_max64(centre, n - 1 - centre) at least (more, and op->step, are for the CPU's tiles: a device's kernel states
 * its own, vp_kernel.demand); it is VP_UNKNOWN where the edge is wrapped. */
struct vp_convolve_params {
    int64_t n[3];              /* samples of a kernel along x, y, z; z is 1 for those of images */
    int64_t centre[3];         /* the one that lies on the voxel of the same number (VP_CROP_VALID: the last one) */
    int64_t nodes[2];          /* across, down; 1, 1: one kernel */
    const float *kernels;      /* [node down][node across][z][y][x], as they are to be used; */
    const double *exact;       /* of f64 these instead */
    /* Along x and y (a = 0, 1), for voxels 0 ... op->image[a] - 1: cell c, of nodes[a] + 1, is from start[a][c] on
     * (start[a][nodes[a] + 1] is op->image[a]; cells may be empty) and lies between nodes c - 1 and c. The weight of
     * node c is after[a][p], that of node c - 1 is 1 - after[a][p]: 1 in cell 0, 0 in the last. */
    const int64_t *start[2];
    const float *after[2];
    const double *node[2];     /* where the nodes are, ascending: after = (p - node[c - 1]) / (node[c] - node[c - 1]) */
    enum vp_weights weights;
    enum vp_edge edge;
    /* Voxels of the result before the input's first and after its last one; below 0: the input has so many more. In the
     * result's coordinates samples are at pad_lo[a] <= p < op->image[a] - pad_hi[a]: that is the image of the rules for
     * edges. The first result is that of voxel first[a] of it. */
    enum vp_crop crop;
    int64_t pad_lo[3], pad_hi[3];
    int64_t first[3];
    /* VP_EDGE_RENORMALIZE, and VP_EDGE_ZERO unless the result is valid, else NULL: for each node n[2] + 1 by n[1] +
     * 1 by n[0] + 1 sums, of all its kernel's samples with lesser indices along each axis: S_inside of a node from
     * eight of them. */
    const double *sums;
    const double *total;       /* sum of each kernel; 1 where it was divided by that, for all digits */
    enum vp_type in, out;
    struct vp_convolve_cpu *cpu; /* the CPU's own: method, tiles, spectra */
};

/* True if the edge is wrapped along an axis, so that every result needs all of it. */
static inline bool vp_convolve_wraps(const struct vp_convolve_params *p, int axis)
{
    return p->edge == VP_EDGE_WRAP && p->n[axis] > 1;
}

/* What to make of it. */
struct vp_convolve_given {
    int64_t n[3], nodes[2];
    const float *kernels;      /* copied; */
    const double *exact;       /* of f64 these */
    const struct vp_fft64 *fft; /* of f64: the program's transforms; NULL: it has none, and f64 is refused */
    const double *node[2];     /* or NULL: the middles of nodes[a] equal parts of the image */
    bool positive;             /* samples of kernels below 0 count as 0 */
    bool correlate, normalize; /* in(p + (k - centre)) instead; each kernel divided by its sum */
    enum vp_weights weights;
    enum vp_edge edge;
    enum vp_crop crop;
    const char *method;        /* NULL: the cheapest by a table of costs; "direct", "separable", "fft" */
    int64_t tile[3];           /* of transforms along x, y, z, each a quick length (that along y, of volumes that along z,
                                  twice one); 0: chosen by that table */
};

/* An operation on images of size[] voxels (size[2] may be VP_UNKNOWN). A kernel of images is used on every page of a
 * volume. */
int vp_convolve_local(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in,
                      enum vp_type out, struct vp_err *err);

/* Whether there is work from samples of `in` to `out`, for messages called `what`; f64 takes transforms. */
int vp_convolve_types(const char *what, enum vp_type in, enum vp_type out, const struct vp_fft64 *fft, struct vp_err *err);

#endif
