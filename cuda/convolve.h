/* SPDX-License-Identifier: BSD-3-Clause */
/* What convolve.cu and its companions share on the host: how an operation's axes are cut, what lies where. */
#ifndef VP_CONVOLVE_CUDA_H
#define VP_CONVOLVE_CUDA_H

#include "convolve_pass.h"

extern "C" {
#include "local/convolve.h"
}

namespace vp
{

/* Device bytes, in pieces that begin at VP_ALIGN. */
struct pieces {
    char *base; /* NULL: only counted */
    uint64_t used;

    template <class T> T *take(uint64_t n)
    {
        char *const p = base ? base + used : nullptr;
        used += (uint64_t)vp_round_up((int64_t)(n * sizeof(T)), VP_ALIGN);
        return (T *)p;
    }
};

struct complex_value {
    float re, im;
};

inline const vp_convolve_params *params_of(const vp_op *op)
{
    return (const vp_convolve_params *)op->params;
}

inline bool is_deep(const vp_convolve_params *p)
{
    return p->n[2] > 1;
}

inline bool is_grid(const vp_convolve_params *p)
{
    return p->nodes[0] > 1 || p->nodes[1] > 1;
}

inline bool is_source(const vp_convolve_params *p)
{
    return is_grid(p) && p->weights == VP_WEIGHTS_SOURCE;
}

/* Along an axis, with tiles of so many outputs. */
convolve_axis axis_of(const vp_op *op, int axis, int valid);

/* W(T)^(k1 n2) at k1 * R2 + n2. */
void fill_twiddle(int T, int R1, int R2, complex_value *to);
/* Sums of the kernels' rows. */
void row_sums(const vp_convolve_params *p, float *to);

/* Bytes for `count` of what takes `one` (with its share of everything) when at most `most` bytes are worked on at a
 * time, but one at least: enough for any smaller part, too, where more fit at a time. */
inline uint64_t room_for(uint64_t one, uint64_t count, uint64_t most)
{
    const uint64_t all = one * count, some = all < most ? all : most;
    return (one > some ? one : some) + 16 * VP_ALIGN;
}

}

#endif
