/* Inner part of moments.c: rows of sums, built once for each instruction set. Private to moments.c. */
#ifndef VP_MOMENTS_ISA_H
#define VP_MOMENTS_ISA_H

#include "local/moments.h"
#include "local/window.h"

/* What the state is made of. Integers: sum, sum of squares (one lane if only the mean is wanted), modulo 2^32 or
 * 2^64, where they do not overflow in the end. Floats: sum; or sum, squared deviations (box: times the samples along x)
 * and, for a ball, samples. */
enum vp_sums { VP_SUM_U32, VP_SUM_U64, VP_SUM_WIDE, VP_SUM_F64, VP_SUM_SPREAD, VP_SUM_N };

/* Functions of struct vp_window of that name. */
struct vp_moments_isa {
    const char *name;
    /* in: u8, u16, i16, f32 */
    void (*across[4][VP_SUM_N])(const struct vp_tile *t, const void *src, void *state);
    void (*load[4][VP_SUM_N])(const struct vp_tile *t, const void *src);
    void (*combine[VP_SUM_N])(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, double kb,
                              double unit);
    void (*grow[VP_SUM_N])(const struct vp_tile *t, void *state, const void *smaller, int64_t h);
    void (*gather[VP_SUM_N])(const struct vp_tile *t, void *dst, const void *const *row, int64_t n, bool first);
    void (*begin)(struct vp_tile *t);
    void (*finish)(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times);
};

/* window->ctx */
struct vp_moments_ctx { const struct vp_moments_params *p; enum vp_sums sums; };

/* Numbers in a row of tile->rows, for n states: they, the halo, and what the last vector reads too much. */
static inline size_t vp_moments_row(size_t size, int64_t n, int64_t halo)
{
    return vp_round64((size_t)n * size) / size + 2 * (size_t)halo + 64;
}

/* Merges that make a window of w samples: doublings, and those of the lengths that w is the sum of. */
static inline int vp_moments_steps(int64_t w)
{
    int steps = 0;

    for (int64_t length = 2; length <= w; length *= 2)
        steps += 1 + ((w & length) != 0);
    return steps;
}

/* Where in tile->rows, for rows of n voxels, the counts of a row are kept (8 + 4 n numbers): behind the other rows. */
static inline size_t vp_moments_kept(const struct vp_window *w, int64_t n)
{
    const int64_t r = w->op->halo[0];
    const bool spread = ((const struct vp_moments_ctx *)w->ctx)->sums == VP_SUM_SPREAD;
    const int rows = !spread ? w->lanes : w->f->shape == VP_BALL ? 2 : 2 + 3 * vp_moments_steps(2 * r + 1);

    return vp_round64(vp_moments_row(w->lane_size, n, r) * w->lane_size * (size_t)rows);
}

extern const struct vp_moments_isa vp_moments_avx512, vp_moments_avx2, vp_moments_generic;

#endif
