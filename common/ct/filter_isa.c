/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of the detector convolved with an even kernel by FFT, one row in each SIMD lane.
 *
 * As every lane is another row, all arithmetic is plain vector arithmetic without shuffles, the work for
 * the row does not depend on its neighbours (so neither do its bits), and any order of the frequencies
 * is as good as another: forward by decimation in frequency, in place, leaving them digit-reversed; back
 * by decimation in time from that very order (Gentleman & Sande 1966, Cooley & Tukey 1965). A real row
 * of 2 m samples is one complex row of m, even samples real, odd samples imaginary; the spectrum of the
 * real row is undone and redone around the multiplication, which touches only the frequencies k and m - k. */
#include "ct/filter_isa.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct cv { vf re, im; };

/* Sub-transforms of so many elements stay in the first-level cache through all their stages. */
enum { NEAR = 24 * 1024 / (8 * LANES) };

INLINE struct cv add(struct cv a, struct cv b) { return (struct cv){a.re + b.re, a.im + b.im}; }
INLINE struct cv sub(struct cv a, struct cv b) { return (struct cv){a.re - b.re, a.im - b.im}; }
/* a + i s b */
INLINE struct cv add_i(struct cv a, struct cv b, bool plus)
{
    return plus ? (struct cv){a.re - b.im, a.im + b.re} : (struct cv){a.re + b.im, a.im - b.re};
}
INLINE struct cv times(struct cv a, float s) { return (struct cv){a.re * s, a.im * s}; }
/* a w, or a times the conjugate of w */
INLINE struct cv turn(struct cv a, float wr, float wi, bool conj)
{
    return conj ? (struct cv){a.re * wr + a.im * wi, a.im * wr - a.re * wi}
                : (struct cv){a.re * wr - a.im * wi, a.im * wr + a.re * wi};
}

/* Transform of length r in place; `back` has the sign +. */
INLINE void dft(int r, bool back, struct cv *y)
{
    if (r == 2) {
        const struct cv a = y[0], b = y[1];
        y[0] = add(a, b);
        y[1] = sub(a, b);
    } else if (r == 3) {
        const float c = -0.5f, s = 0.866025403784438647f;
        const struct cv p = add(y[1], y[2]), d = times(sub(y[1], y[2]), s), m = add(y[0], times(p, c));
        y[0] = add(y[0], p);
        y[1] = add_i(m, d, back);
        y[2] = add_i(m, d, !back);
    } else if (r == 4) {
        const struct cv s = add(y[0], y[2]), t = sub(y[0], y[2]), u = add(y[1], y[3]), v = sub(y[1], y[3]);
        y[0] = add(s, u);
        y[1] = add_i(t, v, back);
        y[2] = sub(s, u);
        y[3] = add_i(t, v, !back);
    } else {
        const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f;
        const float s1 = 0.951056516295153572f, s2 = 0.587785252292473129f;
        const struct cv p = add(y[1], y[4]), q = add(y[2], y[3]), d = sub(y[1], y[4]), e = sub(y[2], y[3]);
        const struct cv m1 = add(y[0], add(times(p, c1), times(q, c2)));
        const struct cv m2 = add(y[0], add(times(p, c2), times(q, c1)));
        const struct cv n1 = add(times(d, s1), times(e, s2)), n2 = sub(times(d, s2), times(e, s1));
        y[0] = add(y[0], add(p, q));
        y[1] = add_i(m1, n1, back);
        y[2] = add_i(m2, n2, back);
        y[3] = add_i(m2, n2, !back);
        y[4] = add_i(m1, n1, !back);
    }
}

/* The same for r = 2 or 4 with the upper half of y zero. */
INLINE void dft_of_half(int r, bool back, struct cv *y)
{
    const struct cv a = y[0], b = y[1];

    if (r == 2) {
        y[1] = a;
        return;
    }
    y[0] = add(a, b);
    y[1] = add_i(a, b, back);
    y[2] = sub(a, b);
    y[3] = add_i(a, b, !back);
}

/* One stage over `blocks` transforms of r q elements. With `half` the upper half is zero on the way there,
 * and not needed on the way back. tw is NULL where all twiddles are 1. */
INLINE void stage(int r, bool back, bool half, struct cv *x, int64_t blocks, int64_t q, const float *tw)
{
    const int in = half && !back ? r / 2 : r, out = half && back ? r / 2 : r;

    for (int64_t b = 0; b < blocks; b++, x += r * q) {
        const float *w = tw;
        for (int64_t j = 0; j < q; j++) {
            struct cv y[5];
            for (int i = 0; i < in; i++)
                y[i] = back && i > 0 && tw ? turn(x[j + i * q], w[2 * i - 2], w[2 * i - 1], true)
                                           : x[j + i * q];
            if (half && !back)
                dft_of_half(r, back, y);
            else
                dft(r, back, y);
            for (int i = 0; i < out; i++)
                x[j + i * q] = !back && i > 0 && tw ? turn(y[i], w[2 * i - 2], w[2 * i - 1], false) : y[i];
            if (tw)
                w += 2 * (r - 1);
        }
    }
}

INLINE void any_stage(int r, bool back, bool half, struct cv *x, int64_t blocks, int64_t q, const float *tw)
{
    switch (r) {
    case 2: half ? stage(2, back, true, x, blocks, q, tw) : stage(2, back, false, x, blocks, q, tw); break;
    case 3: stage(3, back, false, x, blocks, q, tw); break;
    case 5: stage(5, back, false, x, blocks, q, tw); break;
    default:
        if (half)
            stage(4, back, true, x, blocks, q, tw);
        else if (q > 1)
            stage(4, back, false, x, blocks, q, tw);
        else
            stage(4, back, false, x, blocks, 1, NULL);
    }
}

static void run_stage(const struct vp_fft *f, int s, bool back, bool half, struct cv *x, int64_t blocks,
                      int64_t q)
{
    const bool prune = half && s == 0;

    if (back)
        any_stage(f->radix[s], true, prune, x, blocks, q, f->twiddle[s]);
    else
        any_stage(f->radix[s], false, prune, x, blocks, q, f->twiddle[s]);
}

/* Depth first while a transform is larger than the cache. */
static void transform(const struct vp_fft *f, int s, bool back, bool half, struct cv *x, int64_t len)
{
    if (len <= NEAR) {
        int64_t length[VP_FFT_STAGES];
        for (int t = s; t < f->stages; t++)
            length[t] = t == s ? len : length[t - 1] / f->radix[t - 1];
        for (int i = s; i < f->stages; i++) {
            const int t = back ? f->stages - 1 - (i - s) : i;
            run_stage(f, t, back, half, x, len / length[t], length[t] / f->radix[t]);
        }
        return;
    }
    const int r = f->radix[s];
    const int64_t q = len / r;
    if (!back)
        run_stage(f, s, false, half, x, 1, q);
    if (s + 1 < f->stages)
        for (int i = 0; i < r; i++)
            transform(f, s + 1, back, half, x + i * q, q);
    if (back)
        run_stage(f, s, true, half, x, 1, q);
}

/* e and o are twice the spectra of the even and the odd samples; with s = exp(-pi i k / m) the real row has
 * e + s o at k and e - s o at m + k, where the kernel has the value it has at m - k. */
static void multiply(const struct vp_fft *f, struct cv *x)
{
    const float *w = f->coef;

    for (int64_t p = 0; p < f->pairs; p++, w += 4) {
        struct cv *const xk = x + f->place[2 * p], *const xm = x + f->place[2 * p + 1];
        const struct cv zk = *xk, zm = *xm;
        const struct cv e = {zk.re + zm.re, zk.im - zm.im}, o = {zk.im + zm.im, zm.re - zk.re};
        const struct cv t = turn(o, w[0], w[1], false);
        const struct cv lo = times(add(e, t), w[2]), hi = times(sub(e, t), w[3]);
        const struct cv e2 = add(lo, hi), o2 = turn(sub(lo, hi), w[0], w[1], true);
        *xk = (struct cv){e2.re - o2.im, e2.im + o2.re};
        *xm = (struct cv){e2.re + o2.im, o2.re - e2.im};
    }
}

INLINE vf load(const float *p, int64_t n)
{
    vf v = {0};

    if (n >= LANES)
        return *(const vf_u *)p;
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

/* Weighted rows into lanes: x[c] of all rows lie together. */
INLINE void gather_with(const struct vp_fft_job *job, vf *x, int n_rows, bool gain, bool gain2)
{
    for (int64_t c = 0; c < job->nu; c += LANES) {
        const int64_t n = job->nu - c < LANES ? job->nu - c : LANES;
        vf t[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++) {
            if (l >= n_rows) {
                t[l] = (vf){0};
                continue;
            }
            vf v = load(job->in[l] + c, n);
            v = (vf)((vi)v & (v - v == 0));
            if (gain)
                v *= load(job->gain[l] + c, n);
            if (gain2)
                v *= load(job->gain2[l] + c, n);
            t[l] = v * job->scale[l];
        }
        transpose(t, t, 1);
        if (n == LANES) {
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++)
                x[c + l] = t[l];
        } else {
            memcpy(x + c, t, (size_t)n * sizeof *x);
        }
    }
}

static void gather(const struct vp_fft_job *job, vf *x)
{
    const bool gain = job->gain[0], gain2 = job->gain2[0];

    if (job->rows == LANES && gain && !gain2)
        gather_with(job, x, LANES, true, false);
    else
        gather_with(job, x, job->rows, gain, gain2);
}

static void scatter(const struct vp_fft_job *job, const vf *x)
{
    for (int64_t c = 0; c < job->nu_out; c += LANES) {
        const int64_t n = job->nu_out - c < LANES ? job->nu_out - c : LANES;
        vf t[LANES];
        if (n == LANES) {
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++)
                t[l] = x[c + l];
        } else {
            memset(t, 0, sizeof t);
            memcpy(t, x + c, (size_t)n * sizeof *x);
        }
        transpose(t, t, 1);
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++) {
            if (l >= job->rows)
                break;
            if (n == LANES)
                *(vf_u *)(job->out[l] + c) = t[l];
            else
                memcpy(job->out[l] + c, &t[l], (size_t)n * sizeof *job->out[l]);
        }
    }
}

static void rows(const struct vp_fft_job *job, float *scratch)
{
    const struct vp_fft *f = job->fft;
    vf *const x = (vf *)scratch, *const first = x + job->left, *const last = first + job->nu - 1;

    memset(x, 0, (size_t)(job->left - job->pad) * sizeof *x);
    gather(job, first);
    for (int64_t i = 0; i < job->pad; i++) {
        first[-1 - i] = first[0] * job->fall[i];
        last[1 + i] = last[0] * job->fall[i];
    }
    const int64_t used = job->left + job->nu + job->pad;
    const bool half = used <= f->m && f->stages > 0 && f->radix[0] % 2 == 0;
    memset(x + used, 0, (size_t)((half ? f->m : 2 * f->m) - used) * sizeof *x);
    transform(f, 0, false, half, (struct cv *)x, f->m);
    multiply(f, (struct cv *)x);
    transform(f, 0, true, half, (struct cv *)x, f->m);
    scatter(job, first - job->before);
}

static void cosine(float *out, int64_t n, double u0, double f, double t, double head, double lean)
{
    const float start = (float)(u0 / f), step = (float)(1 / f), one = (float)(1 + t);
    const float first = (float)head, more = (float)lean;

    for (int64_t i = 0; i < n; i++) {
        const float a = start + (float)(int32_t)i * step;
        out[i] = (first + (float)(int32_t)i * more) / sqrtf(one + a * a);
    }
}

const struct vp_filter_isa PASTE(vp_filter_, VP_ISA) = {TEXT(VP_ISA), LANES, rows, cosine};
