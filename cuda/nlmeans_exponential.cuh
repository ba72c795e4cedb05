/* SPDX-License-Identifier: BSD-3-Clause */
/* The exponential of weights of non-local means, as in local/nlmeans_isa.c with fused multiply-adds. */
#pragma once

namespace vp
{

/* Returns exp(a), a <= 0. */
__device__ __forceinline__ float nlmeans_exponential(float a)
{
    const float round = 0x1.8p23f;
    const float shifted = fmaf(a, 0x1.715476p0f, round), k = __fsub_rn(shifted, round);
    const float r = fmaf(-k, 0x1.7f7d1cp-20f, fmaf(-k, 0x1.62e4p-1f, a));
    float e = fmaf(r, 1.0f / 5040, 1.0f / 720);
    e = fmaf(e, r, 1.0f / 120);
    e = fmaf(e, r, 1.0f / 24);
    e = fmaf(e, r, 1.0f / 6);
    e = fmaf(e, r, 0.5f);
    e = fmaf(e, r, 1.0f);
    e = fmaf(e, r, 1.0f);
    /* times 2^k, which is exact and preserves NaN; the shift leaves nothing of `round` */
    e = __fmul_rn(e, __int_as_float((__float_as_int(shifted) << 23) + 0x3f800000));
    return a < -87.0f ? 0.0f : e;
}

}
