/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with one kernel, or with a grid of kernels that vary over the image: operation "convolve".
 *
 *     out(p) = sum over k of K[k] in(p - (k - centre))
 *
 * A grid has nodes along x and y; the up to four nodes around a voxel have bilinear weights (hats: linear between two
 * nodes, 1 outside the first and the last). With VP_WEIGHTS_OUTPUT they are weights of the output voxel, out = sum of
 * W_ij (K_ij * in); with VP_WEIGHTS_SOURCE of the input voxel, out = sum of K_ij * (W_ij in), the model of an
 * instrument that blurs point sources.
 *
 * Edges. Samples outside the image follow the rule of enum vp_edge, with weights (of the source) by their position
 * outside. VP_EDGE_RENORMALIZE takes them as 0 and multiplies the sum by S / S_inside, with S the sum of all weights of
 * the voxel, and S_inside that of samples inside the image.
 *
 * A constant is subtracted from the samples of each tile, and added again times the sum of the weights: rounding errors
 * scale with the contrast in the tile, and constants are reproduced where weights sum to 1 or are renormalised. Tiles
 * with samples far above the others are summed directly, so that these affect only voxels within the kernel's reach.
 *
 * A sample that is NaN or infinite makes NaN of every voxel whose kernel (the box of its samples) reaches it, and
 * changes no other. */
#pragma once

#include "engine/op.h"

struct vp_fft64;

enum vp_weights { VP_WEIGHTS_OUTPUT, VP_WEIGHTS_SOURCE };
/* Extent of the result: the image; all voxels that a kernel's sample reaches; voxels whose kernel lies in the image.
 * Weights of a grid extend outside the image as those of the outermost nodes. */
enum vp_crop { VP_CROP_SAME, VP_CROP_FULL, VP_CROP_VALID };

/* Nodes: those of a rectangular grid; or anywhere, one for each kernel, and then the nearest, or linear in triangles
 * (local/nodes.h). Nodes anywhere are operation "convolve-anywhere", for images and on the CPU only: each kernel goes
 * over the tiles in which it has weights, as by itself with its own edge, and the results are added up; with weights of
 * the source it goes over the weighted samples, with zeros beyond the edge. */
enum vp_among { VP_BETWEEN_GRID, VP_BETWEEN_TRIANGLES, VP_BETWEEN_NEAREST };

#define VP_CONVOLVE_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* op->params: everything that a result depends on, for every device. One input: u8 u16 i16 f32, and on the CPU f64,
 * computed in f64 throughout (to f64, f32, u32 or i32); the result has the same type (rounded to nearest even, clamped)
 * or f32. op->halo[a] is at least vp_max64(centre, n - 1 - centre) (more, and op->step, are for the CPU's tiles: a
 * device's kernel states its own, vp_kernel.demand); it is VP_UNKNOWN for the edge rule wrap. */
struct vp_convolve_params {
    int64_t n[3];              /* samples of a kernel along x, y, z; z is 1 for kernels of images */
    int64_t centre[3];         /* the sample on the result's voxel (VP_CROP_VALID: the last one) */
    int64_t nodes[2];          /* along x, y; 1, 1: one kernel */
    const float *kernels;      /* [node down][node across][z][y][x], as they are to be used; */
    const double *exact;       /* the same for f64, instead */
    /* Along x and y (a = 0, 1), for voxels 0 ... op->image[a] - 1: cell c, of nodes[a] + 1, is from start[a][c] on
     * (start[a][nodes[a] + 1] is op->image[a]; cells may be empty) and lies between nodes c - 1 and c. The weight of
     * node c is after[a][p], that of node c - 1 is 1 - after[a][p]: 1 in cell 0, 0 in the last. */
    const int64_t *start[2];
    const float *after[2];
    const double *node[2];     /* positions of the nodes, ascending: after = (p - node[c - 1]) / (node[c] - node[c - 1]) */
    enum vp_weights weights;
    enum vp_edge edge;
    /* Voxels of the result before the input's first and after its last one, negative where the input has more. In the
     * result's coordinates samples exist at pad_lo[a] <= p < op->image[a] - pad_hi[a]: the image of the edge rules. The
     * first result is at its voxel first[a]. */
    enum vp_crop crop;
    int64_t pad_lo[3], pad_hi[3];
    int64_t first[3];
    /* VP_EDGE_RENORMALIZE, and VP_EDGE_ZERO unless the result is valid, else NULL: for each node n[2] + 1 by n[1] + 1
     * by n[0] + 1 sums, of all its kernel's samples with lesser indices along each axis: S_inside of a node from eight
     * of them. */
    const double *sums;
    const double *total;       /* sum of each kernel; exactly 1 if it is normalised */
    const double *plane;       /* sums of the planes of a single kernel */
    enum vp_type in, out;
    struct vp_convolve_cpu *cpu; /* private to the CPU: method, tiles, spectra */
};

/* True if the edge is wrapped along an axis, so that every result needs all of it. */
static inline bool vp_convolve_wraps(const struct vp_convolve_params *p, int axis)
{
    return p->edge == VP_EDGE_WRAP && p->n[axis] > 1;
}

/* Request. */
struct vp_convolve_given {
    int64_t n[3], nodes[2];
    const float *kernels;      /* copied; */
    const double *exact;       /* f64: these */
    const struct vp_fft64 *fft; /* transforms for f64; NULL: f64 is refused */
    const double *node[2];     /* NULL: the centres of nodes[a] equal parts of the image; anywhere: x and y of each of
                                  nodes[0] kernels, nodes[1] is 1 */
    enum vp_among between;
    bool apart;                /* tiles of transforms share nothing: a box may be a single tile */
    bool positive;             /* samples of kernels below 0 count as 0 */
    bool correlate, normalize; /* in(p + (k - centre)) instead; each kernel divided by its sum */
    enum vp_weights weights;
    enum vp_edge edge;
    enum vp_crop crop;
    const char *method;        /* NULL: the cheapest by a table of costs; "direct", "separable", "fft" */
    int64_t tile[3];           /* transform lengths along x, y, z, each a fast length (along y, for volumes along z,
                                  twice one); 0: chosen by the table of costs */
};

/* Fills *op for images of size[] voxels (size[2] may be VP_UNKNOWN); op->free releases its params. A kernel of images
 * is applied to every page of a volume. VP_EUSAGE: kernels, nodes, crop or method do not fit; VP_ERESOURCE: out of
 * memory. */
int vp_convolve_local(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in,
                      enum vp_type out, struct vp_err *err);

/* Checks that samples of `in` can be convolved to `out`; f64 needs transforms. `what`: their name in messages.
 * VP_EUSAGE. */
int vp_convolve_types(const char *what, enum vp_type in, enum vp_type out, const struct vp_fft64 *fft,
                      struct vp_err *err);
