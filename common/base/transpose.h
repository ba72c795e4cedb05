/* SPDX-License-Identifier: BSD-3-Clause */
/* For *_isa.c, after base/isa.h: LANES vectors transposed. */
#pragma once

/* Indices are written out: where they are computed, even in loops that unroll, GCC makes them anew at run time. */
#if LANES == 16
#define LO1(a, b) shuffle(a, b, (vi){0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29})
#define HI1(a, b) shuffle(a, b, (vi){2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31})
#define LO2(a, b) shuffle(a, b, (vi){0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29})
#define HI2(a, b) shuffle(a, b, (vi){2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31})
#define EVEN4(a, b) shuffle(a, b, (vi){0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27})
#define ODD4(a, b) shuffle(a, b, (vi){4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31})
#elif LANES == 8
#define LO1(a, b) shuffle(a, b, (vi){0, 8, 1, 9, 4, 12, 5, 13})
#define HI1(a, b) shuffle(a, b, (vi){2, 10, 3, 11, 6, 14, 7, 15})
#define LO2(a, b) shuffle(a, b, (vi){0, 1, 8, 9, 4, 5, 12, 13})
#define HI2(a, b) shuffle(a, b, (vi){2, 3, 10, 11, 6, 7, 14, 15})
#define EVEN4(a, b) shuffle(a, b, (vi){0, 1, 2, 3, 8, 9, 10, 11})
#define ODD4(a, b) shuffle(a, b, (vi){4, 5, 6, 7, 12, 13, 14, 15})
#else
#define LO1(a, b) shuffle(a, b, (vi){0, 4, 1, 5})
#define HI1(a, b) shuffle(a, b, (vi){2, 6, 3, 7})
#define LO2(a, b) shuffle(a, b, (vi){0, 1, 4, 5})
#define HI2(a, b) shuffle(a, b, (vi){2, 3, 6, 7})
#endif

/* Moves from[i step] lane l -> to[l step] lane i; `to` may be `from`. */
INLINE void transpose(const vf *from, vf *to, int step)
{
    vf u[LANES];

#pragma GCC unroll 4
    for (int g = 0; g < LANES / 4; g++) {
        const vf *const f = from + 4 * g * step;
        const vf a = f[0], b = f[step], c = f[2 * step], d = f[3 * step];
        const vf p = LO1(a, b), q = HI1(a, b), r = LO1(c, d), s = HI1(c, d);
        u[4 * g] = LO2(p, r);
        u[4 * g + 1] = HI2(p, r);
        u[4 * g + 2] = LO2(q, s);
        u[4 * g + 3] = HI2(q, s);
    }
    /* in quarter k of u[4 g + c] is column 4 k + c of rows 4 g ... 4 g + 3 */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
#if LANES == 16
        const vf e = EVEN4(u[c], u[4 + c]), o = ODD4(u[c], u[4 + c]);
        const vf f = EVEN4(u[8 + c], u[12 + c]), p = ODD4(u[8 + c], u[12 + c]);
        to[c * step] = EVEN4(e, f);
        to[(8 + c) * step] = ODD4(e, f);
        to[(4 + c) * step] = EVEN4(o, p);
        to[(12 + c) * step] = ODD4(o, p);
#elif LANES == 8
        to[c * step] = EVEN4(u[c], u[4 + c]);
        to[(4 + c) * step] = ODD4(u[c], u[4 + c]);
#else
        to[c * step] = u[c];
#endif
    }
}
