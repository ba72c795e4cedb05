/* SPDX-License-Identifier: BSD-3-Clause */
/* Transforms of lines, built once for each instruction set. */
#include "base/fft.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <stddef.h>
#include <string.h>

struct cv { vf re, im; };

/* So many elements stay in the first-level cache from stage to stage. */
enum { NEAR = 40 * 1024 / (8 * LANES) };

INLINE struct cv add(struct cv a, struct cv b) { return (struct cv){a.re + b.re, a.im + b.im}; }
INLINE struct cv sub(struct cv a, struct cv b) { return (struct cv){a.re - b.re, a.im - b.im}; }
/* a + s b, a + i s b */
INLINE struct cv add_by(struct cv a, struct cv b, float s) { return (struct cv){a.re + b.re * s, a.im + b.im * s}; }
INLINE struct cv add_i_by(struct cv a, struct cv b, float s) { return (struct cv){a.re - b.im * s, a.im + b.re * s}; }
/* a + i b, or a - i b */
INLINE struct cv add_i(struct cv a, struct cv b, bool minus)
{
    return minus ? (struct cv){a.re + b.im, a.im - b.re} : (struct cv){a.re - b.im, a.im + b.re};
}
INLINE struct cv mul(struct cv a, struct cv b)
{
    return (struct cv){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* a (c + i s), or a (c - i s) */
INLINE struct cv turned(struct cv a, float c, float s, bool conj)
{
    return conj ? (struct cv){a.re * c + a.im * s, a.im * c - a.re * s}
                : (struct cv){a.re * c - a.im * s, a.im * c + a.re * s};
}

/* ---- small transforms: r numbers that lie `s` apart, roots exp(2 pi i / r), or their conjugates (`back`) ---- */

INLINE void dft2(struct cv *y, int s)
{
    const struct cv a = y[0], b = y[s];

    y[0] = add(a, b);
    y[s] = sub(a, b);
}

INLINE void dft3(struct cv *y, int s, bool back)
{
    const float h = back ? -0.866025403784438647f : 0.866025403784438647f;
    const struct cv sum = add(y[s], y[2 * s]), gap = sub(y[s], y[2 * s]), mid = add_by(y[0], sum, -0.5f);

    y[0] = add(y[0], sum);
    y[s] = add_i_by(mid, gap, h);
    y[2 * s] = add_i_by(mid, gap, -h);
}

INLINE void dft4(struct cv *y, int s, bool back)
{
    const struct cv a = add(y[0], y[2 * s]), b = sub(y[0], y[2 * s]);
    const struct cv c = add(y[s], y[3 * s]), d = sub(y[s], y[3 * s]);

    y[0] = add(a, c);
    y[s] = add_i(b, d, back);
    y[2 * s] = sub(a, c);
    y[3 * s] = add_i(b, d, !back);
}

INLINE void dft5(struct cv *y, int s, bool back)
{
    const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f;
    const float s1 = back ? -0.951056516295153572f : 0.951056516295153572f, ratio = 0.618033988749894848f;
    const struct cv p = add(y[s], y[4 * s]), q = add(y[2 * s], y[3 * s]);
    const struct cv d = sub(y[s], y[4 * s]), e = sub(y[2 * s], y[3 * s]);
    const struct cv m1 = add_by(add_by(y[0], p, c1), q, c2), m2 = add_by(add_by(y[0], p, c2), q, c1);
    /* both still to be multiplied by s1: sin(4 pi / 5) = ratio * sin(2 pi / 5) */
    const struct cv n1 = add_by(d, e, ratio), n2 = {d.re * ratio - e.re, d.im * ratio - e.im};

    y[0] = add(y[0], add(p, q));
    y[s] = add_i_by(m1, n1, s1);
    y[2 * s] = add_i_by(m2, n2, s1);
    y[3 * s] = add_i_by(m2, n2, -s1);
    y[4 * s] = add_i_by(m1, n1, -s1);
}

INLINE void dft7(struct cv *y, bool back)
{
    const float c1 = 0.623489801858733531f, c2 = -0.222520933956314404f, c3 = -0.900968867902419126f;
    const float s1 = back ? -0.781831482468029809f : 0.781831482468029809f;
    const float s2 = back ? -0.974927912181823607f : 0.974927912181823607f;
    const float s3 = back ? -0.433883739117558120f : 0.433883739117558120f;
    const struct cv p1 = add(y[1], y[6]), p2 = add(y[2], y[5]), p3 = add(y[3], y[4]);
    const struct cv d1 = sub(y[1], y[6]), d2 = sub(y[2], y[5]), d3 = sub(y[3], y[4]);
    const struct cv m1 = add_by(add_by(add_by(y[0], p1, c1), p2, c2), p3, c3);
    const struct cv m2 = add_by(add_by(add_by(y[0], p1, c2), p2, c3), p3, c1);
    const struct cv m3 = add_by(add_by(add_by(y[0], p1, c3), p2, c1), p3, c2);

    y[0] = add(y[0], add(add(p1, p2), p3));
    y[1] = add_i_by(add_i_by(add_i_by(m1, d1, s1), d2, s2), d3, s3);
    y[6] = add_i_by(add_i_by(add_i_by(m1, d1, -s1), d2, -s2), d3, -s3);
    y[2] = add_i_by(add_i_by(add_i_by(m2, d1, s2), d2, -s3), d3, -s1);
    y[5] = add_i_by(add_i_by(add_i_by(m2, d1, -s2), d2, s3), d3, s1);
    y[3] = add_i_by(add_i_by(add_i_by(m3, d1, s3), d2, -s1), d3, s2);
    y[4] = add_i_by(add_i_by(add_i_by(m3, d1, -s3), d2, s1), d3, -s2);
}

INLINE void dft8(struct cv *y, bool back)
{
    const float h = 0.707106781186547524f, hb = back ? -h : h;
    const struct cv a0 = add(y[0], y[4]), b0 = sub(y[0], y[4]), a1 = add(y[1], y[5]), b1 = sub(y[1], y[5]);
    const struct cv a2 = add(y[2], y[6]), b2 = sub(y[2], y[6]), a3 = add(y[3], y[7]), b3 = sub(y[3], y[7]);
    const struct cv p = add(a0, a2), q = sub(a0, a2), u = add(a1, a3), v = sub(a1, a3);
    const struct cv f = add_i(b0, b2, back), g = add_i(b0, b2, !back);
    /* b1 and b3 turned by one and three eighths are (sum +- gap) times h */
    const struct cv one = add_i(b1, b1, back);
    const struct cv three = back ? (struct cv){b3.im - b3.re, -b3.im - b3.re} : (struct cv){-b3.re - b3.im, b3.re - b3.im};
    const struct cv sum = add(one, three), gap = sub(one, three);

    y[0] = add(p, u);
    y[4] = sub(p, u);
    y[2] = add_i(q, v, back);
    y[6] = add_i(q, v, !back);
    y[1] = add_by(f, sum, h);
    y[5] = add_by(f, sum, -h);
    y[3] = add_i_by(g, gap, hb);
    y[7] = add_i_by(g, gap, -hb);
}

/* Two factors without a common divisor need no twiddles between them (Good 1958): index i b + j a of a b. */
INLINE void dft_good(struct cv *y, int a, int b, bool back)
{
    struct cv t[16];

#pragma GCC unroll 8
    for (int i = 0; i < a; i++)
#pragma GCC unroll 8
        for (int j = 0; j < b; j++)
            t[i * b + j] = y[(i * b + j * a) % (a * b)];
#pragma GCC unroll 8
    for (int i = 0; i < a; i++)
        b == 2 ? dft2(t + i * b, 1) : b == 4 ? dft4(t + i * b, 1, back) : dft5(t + i * b, 1, back);
#pragma GCC unroll 8
    for (int j = 0; j < b; j++)
        a == 3 ? dft3(t + j, b, back) : dft5(t + j, b, back);
#pragma GCC unroll 16
    for (int k = 0; k < a * b; k++)
        y[k] = t[k % a * b + k % b];
}

INLINE void dft9(struct cv *y, bool back)
{
    struct cv t[9];

#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        dft3(y + i, 3, back);
    y[4] = turned(y[4], 0.766044443118978035f, 0.642787609686539327f, back);
    y[5] = turned(y[5], 0.173648177666930349f, 0.984807753012208059f, back);
    y[7] = turned(y[7], 0.173648177666930349f, 0.984807753012208059f, back);
    y[8] = turned(y[8], -0.939692620785908384f, 0.342020143325668733f, back);
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        dft3(y + 3 * i, 1, back);
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        t[i] = y[i];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        y[i] = t[i % 3 * 3 + i / 3];
}

INLINE void dft16(struct cv *y, bool back)
{
    const float c = 0.923879532511286756f, s = 0.382683432365089772f, h = 0.707106781186547524f;
    const struct cv none = {{0}, {0}};
    struct cv t[16];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        dft4(y + i, 4, back);
    y[5] = turned(y[5], c, s, back);
    y[6] = turned(y[6], h, h, back);
    y[7] = turned(y[7], s, c, back);
    y[9] = turned(y[9], h, h, back);
    y[10] = add_i(none, y[10], back);
    y[11] = turned(y[11], -h, h, back);
    y[13] = turned(y[13], s, c, back);
    y[14] = turned(y[14], -h, h, back);
    y[15] = turned(y[15], -c, -s, back);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        dft4(y + 4 * i, 1, back);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        t[i] = y[i];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        y[i] = t[i % 4 * 4 + i / 4];
}

INLINE void dft(int r, bool back, struct cv *y)
{
    switch (r) {
    case 2: dft2(y, 1); break;
    case 3: dft3(y, 1, back); break;
    case 4: dft4(y, 1, back); break;
    case 5: dft5(y, 1, back); break;
    case 6: dft_good(y, 3, 2, back); break;
    case 7: dft7(y, back); break;
    case 8: dft8(y, back); break;
    case 9: dft9(y, back); break;
    case 10: dft_good(y, 5, 2, back); break;
    case 12: dft_good(y, 3, 4, back); break;
    case 15: dft_good(y, 3, 5, back); break;
    default: dft16(y, back);
    }
}

/* What is written once for all radices and compiled for each of them. */
#define FOR_RADIX(r, CALL) \
    switch (r) { \
    case 2: CALL(2); break; \
    case 3: CALL(3); break; \
    case 4: CALL(4); break; \
    case 5: CALL(5); break; \
    case 6: CALL(6); break; \
    case 7: CALL(7); break; \
    case 8: CALL(8); break; \
    case 9: CALL(9); break; \
    case 10: CALL(10); break; \
    case 12: CALL(12); break; \
    case 15: CALL(15); break; \
    default: CALL(16); \
    }

/* ---- stages ---- */

/* Memory that is wanted soon, asked for a little at a time while something is computed. */
struct soon { const char *at, *end; bool twice; };

INLINE void fetch(struct soon *s, int vectors)
{
    if (s->at >= s->end)
        return;
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++)
        __builtin_prefetch(s->at + 64 * i, 0, 2);
    s->at += 64 * vectors;
    if (!s->twice)
        return;
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++)
        __builtin_prefetch(s->at + 64 * i, 0, 2);
    s->at += 64 * vectors;
}

/* One block: its r parts of q elements each. `w` NULL: not turned. */
INLINE void forward_block(int r, struct cv *x, int64_t q, const float *w)
{
    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = i && w ? turned(x[j + i * q], w[2 * i - 2], w[2 * i - 1], false) : x[j + i * q];
        dft(r, false, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[j + i * q] = y[i];
    }
}

INLINE void back_block(int r, struct cv *x, int64_t q, const float *w, struct soon *soon)
{
    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
        if (soon)
            fetch(soon, r);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = x[j + i * q];
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[j + i * q] = i && w ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
    }
}

/* `blocks` of them; those of one element each are worth code of their own. */
INLINE void blocks_of(int r, bool back, struct cv *x, int64_t blocks, int64_t q, const float *w, struct soon *soon)
{
    if (!w) {
        back ? back_block(r, x, q, NULL, soon) : forward_block(r, x, q, NULL);
    } else if (q == 1) {
        for (int64_t b = 0; b < blocks; b++, x += r, w += 2 * (r - 1))
            back ? back_block(r, x, 1, w, soon) : forward_block(r, x, 1, w);
    } else {
        for (int64_t b = 0; b < blocks; b++, x += r * q, w += 2 * (r - 1))
            back ? back_block(r, x, q, w, soon) : forward_block(r, x, q, w);
    }
}

static void forward_stage(int r, struct cv *x, int64_t blocks, int64_t q, const float *w)
{
#define CALL(R) blocks_of(R, false, x, blocks, q, w, NULL)
    FOR_RADIX(r, CALL)
#undef CALL
}

static void back_stage(int r, struct cv *x, int64_t blocks, int64_t q, const float *w)
{
#define CALL(R) blocks_of(R, true, x, blocks, q, w, NULL)
    FOR_RADIX(r, CALL)
#undef CALL
}

static void back_stage_fetching(int r, struct cv *x, int64_t blocks, int64_t q, const float *w, struct soon *soon)
{
#define CALL(R) blocks_of(R, true, x, blocks, q, w, soon)
    FOR_RADIX(r, CALL)
#undef CALL
}

/* Turns of stage s from block b on. */
INLINE const float *turns(const struct vp_line *l, int s, int64_t b)
{
    return l->turn[s] ? l->turn[s] + b * 2 * (l->radix[s] - 1) : NULL;
}

/* Stages s ... of block number b of stage s, which has len elements; depth first while it is large. */
static void down(const struct vp_line *l, int s, struct cv *x, int64_t b, int64_t len)
{
    int64_t blocks = 1;

    if (s < l->stages && len > NEAR) {
        const int r = l->radix[s];
        const int64_t q = len / r;
        forward_stage(r, x, 1, q, turns(l, s, b));
        for (int i = 0; i < r; i++)
            down(l, s + 1, x + i * q, b * r + i, q);
        return;
    }
    for (; s < l->stages; s++) {
        const int r = l->radix[s];
        forward_stage(r, x, blocks, len / blocks / r, turns(l, s, b));
        b *= r;
        blocks *= r;
    }
}

/* The way back of the same. */
static void up(const struct vp_line *l, int s, struct cv *x, int64_t b, int64_t len)
{
    if (s < l->stages && len > NEAR) {
        const int r = l->radix[s];
        const int64_t q = len / r;
        for (int i = 0; i < r; i++)
            up(l, s + 1, x + i * q, b * r + i, q);
        back_stage(r, x, 1, q, turns(l, s, b));
        return;
    }
    int64_t blocks = 1;
    for (int t = s; t < l->stages; t++)
        blocks *= l->radix[t];
    for (int t = l->stages - 1; t >= s; t--) {
        const int r = l->radix[t];
        blocks /= r;
        back_stage(r, x, blocks, len / blocks / r, turns(l, t, b * blocks));
    }
}

/* Stages s ... of a whole line, or of `inner` side by side. */
static void stages_down(const struct vp_line *l, int s, struct cv *x, int64_t inner)
{
    for (int64_t blocks = s ? l->radix[0] : 1; s < l->stages; blocks *= l->radix[s++])
        forward_stage(l->radix[s], x, blocks, l->n / blocks / l->radix[s] * inner, l->turn[s]);
}

static void stages_up(const struct vp_line *l, int s, struct cv *x, int64_t inner)
{
    int64_t blocks = l->n;
    for (int t = l->stages - 1; t >= s; t--) {
        blocks /= l->radix[t];
        back_stage(l->radix[t], x, blocks, l->n / blocks / l->radix[t] * inner, l->turn[t]);
    }
}

static void forward(const struct vp_line *l, float *x_, int64_t inner)
{
    struct cv *const x = (struct cv *)x_;

    if (inner == 1)
        down(l, 0, x, 0, l->n);
    else
        stages_down(l, 0, x, inner);
}

static void back(const struct vp_line *l, float *x_, int64_t inner)
{
    struct cv *const x = (struct cv *)x_;

    if (inner == 1)
        up(l, 0, x, 0, l->n);
    else
        stages_up(l, 0, x, inner);
}

/* ---- the middle: a product where the last stage ends and the first one back begins ---- */

/* Floats of a factor. */
INLINE int factor(bool real) { return real ? 1 : 2 * LANES; }

/* Times complex factors, or real ones. */
INLINE void middle_of(int r, bool real, struct cv *x, const float *k, int64_t blocks, const float *w)
{
    for (int64_t b = 0; b < blocks; b++, x += r, k += r * factor(real)) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = i && w ? turned(x[i], w[2 * i - 2], w[2 * i - 1], false) : x[i];
        dft(r, false, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = real ? (struct cv){y[i].re * k[i], y[i].im * k[i]} : mul(y[i], ((const struct cv *)k)[i]);
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[i] = i && w ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
        if (w)
            w += 2 * (r - 1);
    }
}

static void middle(int r, bool real, struct cv *x, const float *k, int64_t blocks, const float *w)
{
#define CALL(R) real ? middle_of(R, true, x, k, blocks, w) : middle_of(R, false, x, k, blocks, w)
    FOR_RADIX(r, CALL)
#undef CALL
}

INLINE void product_of(int r, const struct cv *x, const struct cv *k, struct cv *to, int64_t blocks, const float *w)
{
    for (int64_t b = 0; b < blocks; b++, x += r, k += r, to += r) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = mul(x[i], k[i]);
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            to[i] = i && w ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
        if (w)
            w += 2 * (r - 1);
    }
}

static void first_back(int r, const struct cv *x, const struct cv *k, struct cv *to, int64_t blocks, const float *w)
{
#define CALL(R) product_of(R, x, k, to, blocks, w)
    FOR_RADIX(r, CALL)
#undef CALL
}

/* Stages from `s` on of `blocks` blocks, of len elements together, the first of which is number b, and back; depth
 * first while they are large. */
static void there_and_back(const struct vp_line *l, int s, bool real, struct cv *x, const float *k, int64_t b,
                           int64_t blocks, int64_t len)
{
    const int last = l->stages - 1;
    const int from = s;

    if (s < last && len > NEAR) { /* one block */
        const int r = l->radix[s];
        const int64_t q = len / r;
        forward_stage(r, x, 1, q, turns(l, s, b));
        for (int i = 0; i < r; i++)
            there_and_back(l, s + 1, real, x + i * q, k + i * q * factor(real), b * r + i, 1, q);
        back_stage(r, x, 1, q, turns(l, s, b));
        return;
    }
    for (; s < last; s++) {
        forward_stage(l->radix[s], x, blocks, len / blocks / l->radix[s], turns(l, s, b));
        b *= l->radix[s];
        blocks *= l->radix[s];
    }
    middle(l->radix[s], real, x, k, blocks, turns(l, s, b));
    while (s-- > from) {
        b /= l->radix[s];
        blocks /= l->radix[s];
        back_stage(l->radix[s], x, blocks, len / blocks / l->radix[s], turns(l, s, b));
    }
}

static void convolve(const struct vp_line *l, float *x, const float *k)
{
    there_and_back(l, 0, false, (struct cv *)x, k, 0, 1, l->n);
}

/* ---- real rows, times real factors ---- */

/* The first stage: there are no imaginary parts yet. */
INLINE void real_block(int r, struct cv *x, int64_t q, const float *w)
{
    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++) {
            const vf v = x[j + i * q].re;
            y[i] = i ? (struct cv){v * w[2 * i - 2], v * w[2 * i - 1]} : (struct cv){v, {0}};
        }
        dft(r, false, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[j + i * q] = y[i];
    }
}

/* The last stage back: there are none any more. */
INLINE void real_block_back(int r, struct cv *x, int64_t q, const float *w)
{
    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = x[j + i * q];
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[j + i * q].re = i ? y[i].re * w[2 * i - 2] + y[i].im * w[2 * i - 1] : y[i].re;
    }
}

static void real_stage(int r, struct cv *x, int64_t q, const float *w)
{
#define CALL(R) real_block(R, x, q, w)
    FOR_RADIX(r, CALL)
#undef CALL
}

static void real_stage_back(int r, struct cv *x, int64_t q, const float *w)
{
#define CALL(R) real_block_back(R, x, q, w)
    FOR_RADIX(r, CALL)
#undef CALL
}

static void weigh(const struct vp_line *l, float *x_, const float *k)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const int64_t q = l->n / r;

    if (l->stages == 1) {
        for (int64_t i = 0; i < l->n; i++)
            x[i].im = (vf){0};
        middle(r, true, x, k, 1, l->turn[0]);
        return;
    }
    real_stage(r, x, q, l->turn[0]);
    if (l->n > NEAR) {
        for (int i = 0; i < r; i++)
            there_and_back(l, 1, true, x + i * q, k + i * q, i, 1, q);
    } else {
        there_and_back(l, 1, true, x, k, 0, r, l->n);
    }
    real_stage_back(r, x, q, l->turn[0]);
}

static void product_back(const struct vp_line *l, const float *x, const float *k, float *to, const float *next)
{
    const int last = l->stages - 1;
    int64_t blocks = l->n / l->radix[last];
    struct cv *const y = (struct cv *)to;
    struct soon soon = {(const char *)next, next ? (const char *)(next + l->n * 2 * LANES) : NULL, last == 1};

    first_back(l->radix[last], (const struct cv *)x, (const struct cv *)k, y, blocks, l->turn[last]);
    for (int s = last - 1; s >= 0; s--) {
        blocks /= l->radix[s];
        back_stage_fetching(l->radix[s], y, blocks, l->n / blocks / l->radix[s], l->turn[s], &soon);
    }
}

static void product(float *y_, const float *x_, const float *k_, int64_t n, bool more)
{
    struct cv *const y = (struct cv *)y_;
    const struct cv *const x = (const struct cv *)x_, *const k = (const struct cv *)k_;

    for (int64_t i = 0; i < n; i++)
        y[i] = more ? add(y[i], mul(x[i], k[i])) : mul(x[i], k[i]);
}

/* ---- real columns ---- */

INLINE void load_block(int r, const float *from, int64_t pitch, vf less, struct cv *x, int64_t q, const float *w)
{
    const int64_t half = r * q * pitch;

    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++) {
            const float *const at = from + (j + i * q) * pitch;
            y[i] = (struct cv){*(const vf_u *)at - less, *(const vf_u *)(at + half) - less};
            if (i)
                y[i] = turned(y[i], w[2 * i - 2], w[2 * i - 1], false);
        }
        dft(r, false, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            x[j + i * q] = y[i];
    }
}

static void columns(const struct vp_line *l, const float *from, int64_t pitch, const float *less, float *x_)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const int64_t q = l->n / r;

#define CALL(R) load_block(R, from, pitch, *(const vf_u *)less, x, q, l->turn[0])
    FOR_RADIX(r, CALL)
#undef CALL
    if (l->n > NEAR) {
        for (int i = 0; i < r; i++)
            down(l, 1, x + i * q, i, q);
    } else {
        stages_down(l, 1, x, 1);
    }
}

INLINE void store_block(int r, const struct cv *x, float *to, int64_t pitch, int64_t q, const float *w, int64_t lo,
                        int64_t hi)
{
    const int64_t half = r * q;

    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = x[j + i * q];
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++) {
            const struct cv z = i ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
            const int64_t row = j + i * q;
            if (row >= lo && row < hi)
                *(vf_u *)(to + row * pitch) = z.re;
            if (row + half >= lo && row + half < hi)
                *(vf_u *)(to + (row + half) * pitch) = z.im;
        }
    }
}

static void columns_back(const struct vp_line *l, float *x_, float *to, int64_t pitch, int64_t lo, int64_t hi)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const int64_t q = l->n / r;

    if (l->n > NEAR) {
        for (int i = 0; i < r; i++)
            up(l, 1, x + i * q, i, q);
    } else {
        stages_up(l, 1, x, 1);
    }
#define CALL(R) store_block(R, x, to, pitch, q, l->turn[0], lo, hi)
    FOR_RADIX(r, CALL)
#undef CALL
}

/* ---- columns to rows and back ---- */

static void gather(float *x_, const float *const *from, int64_t at, int64_t blocks)
{
    struct cv *x = (struct cv *)x_;

    for (int64_t b = 0; b < blocks; b++, x += LANES) {
        const struct cv *const f = (const struct cv *)from[b] + at;
        transpose(&f->re, &x->re, 2);
        transpose(&f->im, &x->im, 2);
    }
}

static void scatter(const float *x_, float *const *to, int64_t at, int64_t blocks)
{
    const struct cv *x = (const struct cv *)x_;

    for (int64_t b = 0; b < blocks; b++, x += LANES) {
        struct cv *const t = (struct cv *)to[b] + at;
        transpose(&x->re, &t->re, 2);
        transpose(&x->im, &t->im, 2);
    }
}

static void scatter_sum(const float *x_, const float *y_, const float *u, const float *v, float *const *to, int64_t at,
                        int64_t blocks)
{
    const struct cv *x = (const struct cv *)x_, *y = (const struct cv *)y_;

    for (int64_t b = 0; b < blocks; b++, x += LANES, y += LANES, u += LANES, v += LANES) {
        struct cv *const t = (struct cv *)to[b] + at;
        struct cv s[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            s[l] = (struct cv){x[l].re * u[l] + y[l].re * v[l], x[l].im * u[l] + y[l].im * v[l]};
        transpose(&s->re, &t->re, 2);
        transpose(&s->im, &t->im, 2);
    }
}

extern const struct vp_line_isa PASTE(vp_line_, VP_ISA);
const struct vp_line_isa PASTE(vp_line_, VP_ISA) = {TEXT(VP_ISA), LANES, forward, back, columns, columns_back, gather,
                                                    scatter, scatter_sum, convolve, weigh, product_back, product};
