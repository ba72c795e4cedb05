/* SPDX-License-Identifier: BSD-3-Clause */
/* Edge rules: values of samples outside the image, the same on the CPU and in kernels. */
#pragma once

#include "device/kernel.h"

#include <stdint.h>

enum vp_edge {
    VP_EDGE_RENORMALIZE, /* no samples outside, weights scaled to sum to one: normalised convolution */
    VP_EDGE_NEAREST,     /* a a a | a b c */
    VP_EDGE_MIRROR,      /* c b a | a b c */
    VP_EDGE_ZERO,
    VP_EDGE_WRAP         /* a b c | a b c: the halo is VP_UNKNOWN */
};
#define VP_EDGE_CHOICES "renormalize|nearest|mirror|zero|wrap"

/* Defines a function that returns the position (0 ... n - 1) of the sample that stands for position p, inside or
 * outside, of an axis of n samples; or -1: the sample is 0. Renormalising takes the nearest sample. */
#define VP_EDGE_RULE(name, integer) \
    VP_ANYWHERE static inline integer name(int edge, integer p, integer n) \
    { \
        if (p >= 0 && p < n) \
            return p; \
        switch (edge) { \
        case VP_EDGE_ZERO: return -1; \
        case VP_EDGE_MIRROR: { \
            const integer q = p % (2 * n), r = q < 0 ? q + 2 * n : q; \
            return r < n ? r : 2 * n - 1 - r; \
        } \
        case VP_EDGE_WRAP: { \
            const integer q = p % n; \
            return q < 0 ? q + n : q; \
        } \
        default: return p < 0 ? 0 : n - 1; \
        } \
    }

VP_EDGE_RULE(vp_edge_from, int64_t)
VP_EDGE_RULE(vp_edge_from32, int32_t) /* for kernels, where 64-bit division is slow; 2 n < 2^31 */

/* Returns the rule's name for --plan. */
static inline const char *vp_edge_name(enum vp_edge edge)
{
    static const char *const names[] = {"renormalised", "nearest", "mirrored", "zero", "wrapped"};
    return names[edge];
}
