/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of the detector convolved with an even kernel, one row in each SIMD lane: their weights, the way into the
 * lanes and back. The transform is that of base/fft.h with the roots of x^n = i: a row of n samples has no second
 * half, so it is n real coefficients, and the plain convolution with taps up to n - 1 is the real part of what comes
 * back (a quarter turn away, what wraps around is in the imaginary part). As the kernel is even, its values at these
 * roots are real. */
#include "ct/filter_internal.h"

#include "base/isa.h"
#include "base/size.h"
#include "base/transpose.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct cv { vf re, im; };

INLINE vf load(const float *p, int64_t n)
{
    vf v = {0};

    if (n >= LANES)
        return *(const vf_u *)p;
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

/* Gathers weighted rows into lanes, into the real parts: samples of column c of all rows lie together. */
INLINE void gather_with(const struct vp_filter_job *job, struct cv *x, int n_rows, bool gain, bool gain2)
{
    const int64_t nu = job->filter->t.nu;
    for (int64_t c = 0; c < nu; c += LANES) {
        const int64_t n = vp_min64(nu - c, LANES);
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
                x[c + l].re = t[l];
        } else {
            for (int64_t l = 0; l < n; l++)
                x[c + l].re = t[l];
        }
    }
}

static void gather(const struct vp_filter_job *job, struct cv *x)
{
    const bool gain = job->gain[0], gain2 = job->gain2[0];

    if (job->rows == LANES && gain && !gain2)
        gather_with(job, x, LANES, true, false);
    else
        gather_with(job, x, job->rows, gain, gain2);
}

static void scatter(const struct vp_filter_job *job, const struct cv *x)
{
    const int64_t nu = job->filter->t.before + job->filter->t.nu + job->filter->t.after;
    for (int64_t c = 0; c < nu; c += LANES) {
        const int64_t n = vp_min64(nu - c, LANES);
        vf t[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            t[l] = l < n ? x[c + l].re : (vf){0};
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

static void clear(struct cv *x, const struct cv *end)
{
    for (; x < end; x++)
        x->re = (vf){0};
}

/* Extends the l-th row beyond its end: x[0], x[step], ... */
static void extend(const struct vp_row_end *end, int64_t n, struct cv *x, int step, int l)
{
    for (int64_t i = 1; i <= n && end->value != 0; i++) {
        const float out = (float)(int32_t)i, part = 1 - out * (2 * end->axis + out) * end->fall;
        if (!(part > 0))
            break;
        x[step * (i - 1)].re[l] = end->value * sqrtf(part);
    }
}

static void rows(const struct vp_filter_job *job, float *scratch)
{
    const struct vp_filter *f = job->filter;
    const struct vp_filter_method *method = job->method;
    struct cv *const x = (struct cv *)scratch, *const first = x + vp_max64(method->pad, f->before);
    struct cv *const last = first + f->t.nu - 1;

    clear(x, job->extended ? first : first - method->pad);
    gather(job, first);
    if (job->extended) {
        clear(last + 1, x + method->line.n);
        for (int l = 0; l < job->rows; l++) {
            extend(&job->end[l][0], method->pad, first - 1, -1, l);
            extend(&job->end[l][1], method->pad, last + 1, 1, l);
        }
    } else {
        for (int64_t i = 0; i < method->pad; i++) {
            first[-1 - i].re = first->re * f->t.fall[i];
            last[1 + i].re = last->re * f->t.fall[i];
        }
        clear(last + 1 + method->pad, x + method->line.n);
    }
    f->fft->weigh(&method->line, scratch, method->spectrum);
    scatter(job, first - f->t.before);
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
