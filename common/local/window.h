/* How operations over a neighbourhood walk through an image when what they know of a part of it can be combined: a
 * minimum, a sum, a sum with its squared deviations. Private to extremum.c and moments.c.
 *
 * The state of a voxel is one number, or several in lanes of their own; a row of states is the unit of work. A box is
 * walked in three separable passes, along y and z by van Herk's (1992) and Gil and Werman's (1993) method: the axis
 * is cut in blocks as long as the window, so a window is the end of one block and the start of the next, both
 * accumulated once: three combinations a voxel whatever the radius, of disjoint parts, nothing is ever taken away
 * again. Blocks start at the image's first voxel, so which parts are combined in which order depends on the place in
 * the image alone. Under a rule that makes samples up beyond the edges, the image is one that has these on every side,
 * and no window is cut. A ball is the sum of its spans along x: each row is accumulated once for every length of
 * span, one plane gives the discs for every |dz|, and each disc goes to the planes dz above and below. */
#ifndef VP_WINDOW_H
#define VP_WINDOW_H

#include "base/size.h"
#include "local/footprint.h"

struct vp_window;

/* A box of the output, worked on by one thread. Places are those of the image with what its edges are made of. */
struct vp_tile {
    const struct vp_window *w;
    struct vp_box out, in;   /* `in`: out grown by the halo, clipped to the image */
    int64_t n;               /* voxels of a row of `out` */
    size_t lane;             /* bytes from one lane of a row to the next, a multiple of 64 */
    void *rows;              /* the operation's own rows: `row_bytes` */
    const int32_t *count;    /* samples along x under the window (box), or in the neighbourhood (ball, in finish) */
};

/* What an operation does with rows: built once for each instruction set. */
struct vp_window_rows {
    /* Prepare what the functions need in tile->rows; may be NULL. */
    void (*begin)(struct vp_tile *t);
    /* Box. states = window along x; src: input sample (in.lo[0], y, z). */
    void (*across)(const struct vp_tile *t, const void *src, void *state);
    /* dst = a and b: ka and kb are the numbers of rows (or planes) in them, `unit` the rows in each of those (1 along
     * y). dst may be a. */
    void (*combine)(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, double kb,
                    double unit);
    /* Ball. Take an input row in; states of half width h from those of h - 1 (h = 0: the samples themselves); and all
     * `n` rows in order (added to dst unless `first`). */
    void (*load)(const struct vp_tile *t, const void *src);
    void (*grow)(const struct vp_tile *t, void *state, const void *smaller, int64_t h);
    void (*gather)(const struct vp_tile *t, void *dst, const void *const *row, int64_t n, bool first);
    /* Row of the output from its states; `times` rows have `count` samples each; src: the input's row. */
    void (*finish)(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times);
};

struct vp_window {
    const struct vp_op *op;  /* image, halo */
    enum vp_edge edge;       /* VP_EDGE_RENORMALIZE: windows are cut */
    const struct vp_footprint *f;
    size_t size;                /* bytes of an input sample */
    size_t out_size;
    size_t lane_size;           /* bytes of a number of the state */
    int lanes;
    bool counts;                /* tile->count is wanted */
    /* Bytes that the functions need in tile->rows for rows of n output voxels. */
    size_t (*row_bytes)(const struct vp_window *w, int64_t n);
    const struct vp_window_rows *rows;
};

/* Numbers in a row of tile->rows, for n states of `size` bytes: they, the halo, what the last vector reads too much. */
static inline size_t vp_window_row(size_t size, int64_t n, int64_t halo)
{
    return vp_round64((size_t)n * size) / size + 2 * (size_t)halo + 64;
}

/* Of a row with the halo on both sides, so many samples come before those that exist. */
static inline int64_t vp_window_left(const struct vp_tile *t)
{
    return t->w->op->halo[0] - (t->out.lo[0] - t->in.lo[0]);
}

uint64_t vp_window_scratch(const struct vp_window *w, const struct vp_box *out, int threads);
void vp_window_run(const struct vp_window *w, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   int threads);

extern const struct vp_window_rows vp_extremum_avx512[VP_N_TYPES], vp_extremum_avx2[VP_N_TYPES],
    vp_extremum_generic[VP_N_TYPES];

#endif
