/* Sweep of a neighbourhood over an image, for operations whose state of parts can be combined: a minimum, a sum, a sum
 * with squared deviations. Private to extremum.c and moments.c.
 *
 * The state of a voxel is one number, or several in lanes of their own; a row of states is the unit of work. A box is
 * walked in three separable passes, along y and z by van Herk's (1992) and Gil and Werman's (1993) method: the axis is
 * cut in blocks as long as the window, so a window is the end of one block and the start of the next, both accumulated
 * once: three combinations a voxel for any radius, of disjoint parts, without subtraction. Blocks start at the image's
 * first voxel, so the parts combined and their order depend on the position in the image alone. With an edge rule that
 * defines samples outside, the image is extended by these on every side, and no window is clipped. A ball is the sum of
 * its spans along x: each row is accumulated once for every length of span, one plane gives the discs for every |dz|,
 * and each disc goes to the planes dz above and below. A set of offsets is the sum of its spans along x, each merged of
 * rows for 1, 2, 4 ... samples (window_set.c). */
#pragma once

#include "base/size.h"
#include "local/footprint.h"

struct vp_sweep;

/* Box of the output, made by one thread, in coordinates of the extended image. */
struct vp_tile {
    const struct vp_sweep *w;
    struct vp_box out, in;   /* `in`: out grown by the halo, clipped to the image */
    int64_t n;               /* voxels of a row of `out` */
    size_t lane;             /* bytes from one lane of a row to the next, a multiple of 64 */
    void *rows;              /* rows private to the operation: `row_bytes` */
    const int32_t *count;    /* samples along x under the window (box), or in the neighbourhood (others, in finish) */
};

/* Row functions of an operation, built once for each instruction set. */
struct vp_sweep_rows {
    /* Prepares tile->rows; may be NULL. */
    void (*begin)(struct vp_tile *t);
    /* Box. states = window along x; src: input sample (in.lo[0], y, z). */
    void (*across)(const struct vp_tile *t, const void *src, void *state);
    /* dst = a and b: ka and kb are the numbers of rows (or planes) in them, `unit` the rows in each of those (1 along
     * y). dst may be a. */
    void (*combine)(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, double kb,
                    double unit);
    /* Ball and set (whose states are all of half width 0). Take in an input row; make states of half width h from those
     * of h - 1 (h = 0: the samples themselves); and merge `n` rows in order (into dst unless `first`). */
    void (*load)(const struct vp_tile *t, const void *src);
    void (*grow)(const struct vp_tile *t, void *state, const void *smaller, int64_t h);
    void (*gather)(const struct vp_tile *t, void *dst, const void *const *row, int64_t n, bool first);
    /* Makes a row of the output from its states; `times` rows have `count` samples each; src: the input's row. */
    void (*finish)(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times);
};

struct vp_sweep {
    const struct vp_op *op;  /* image, halo */
    bool idempotent;         /* a sample may be merged twice */
    enum vp_edge edge;       /* VP_EDGE_RENORMALIZE: windows are cut */
    const struct vp_footprint *f;
    size_t size;                /* bytes of an input sample */
    size_t out_size;
    size_t lane_size;           /* bytes of a number of the state */
    int lanes;
    bool counts;                /* tile->count is wanted */
    /* Returns the bytes of tile->rows for rows of n output voxels. */
    size_t (*row_bytes)(const struct vp_sweep *w, int64_t n);
    const struct vp_sweep_rows *rows;
};

/* Returns the numbers of a row of tile->rows, for n states of `size` bytes: with the halo and the padding of a vector. */
static inline size_t vp_sweep_row(size_t size, int64_t n, int64_t halo)
{
    return vp_round64((size_t)n * size) / size + 2 * (size_t)halo + 64;
}

/* Returns the samples outside the image at the start of a row with its halo. */
static inline int64_t vp_sweep_left(const struct vp_tile *t)
{
    return t->w->op->halo[0] - (t->out.lo[0] - t->in.lo[0]);
}

/* Counts the samples of the neighbourhoods along row (y, z) of a tile of balls or sets, unless they are those of the row
 * counted before; counted[4] is that, at first {INT64_MIN}. */
void vp_sweep_count(const struct vp_tile *t, int64_t counted[4], int32_t *count, int64_t y, int64_t z);

uint64_t vp_sweep_scratch(const struct vp_sweep *w, const struct vp_box *out, int threads);
void vp_sweep_run(const struct vp_sweep *w, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   int threads);

/* As these, for sets of offsets (window_set.c). There is no edge rule but VP_EDGE_RENORMALIZE. */
uint64_t vp_sweep_set_scratch(const struct vp_sweep *w, const struct vp_box *out, int threads);
void vp_sweep_set_run(const struct vp_sweep *w, const struct vp_part *in, const struct vp_part *out, void *scratch,
                      int threads);

extern const struct vp_sweep_rows vp_extremum_avx512[VP_N_TYPES], vp_extremum_avx2[VP_N_TYPES],
    vp_extremum_generic[VP_N_TYPES];
