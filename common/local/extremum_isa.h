/* Inner part of extremum.c: rows of minima and maxima, built once for each instruction set. Private to extremum.c. */
#ifndef VP_EXTREMUM_ISA_H
#define VP_EXTREMUM_ISA_H

#include "local/window.h"

/* Functions of struct vp_window of that name. */
struct vp_extremum_rows {
    void (*across)(const struct vp_tile *t, const void *src, void *state);
    void (*combine)(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, double kb,
                    double unit);
    void (*load)(const struct vp_tile *t, const void *src);
    void (*grow)(const struct vp_tile *t, void *state, const void *smaller, int64_t h);
    void (*gather)(const struct vp_tile *t, void *dst, const void *const *row, int64_t n, bool first);
    void (*finish)(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times);
};

/* u8, u16, i16, f32 */
enum { VP_EXTREMUM_KINDS = 4 };

struct vp_extremum_isa {
    const char *name;
    struct vp_extremum_rows min[VP_EXTREMUM_KINDS], max[VP_EXTREMUM_KINDS];
};

/* Samples of one of the two rows in tile->rows, for n states of `size` bytes: they, the halo, and what the last
 * vector reads too much. */
static inline size_t vp_extremum_row(size_t size, int64_t n, int64_t halo)
{
    return vp_round64((size_t)n * size) / size + 2 * (size_t)halo + 64;
}

extern const struct vp_extremum_isa vp_extremum_avx512, vp_extremum_avx2, vp_extremum_generic;

#endif
