/* SPDX-License-Identifier: BSD-3-Clause */
/* Missing samples, rules of neighbourhoods (local/missing_window.c): extrema, ranks, entropy, moments.
 *
 * Overview: a thread goes over the spans of the footprint of its voxel, in their order, so that sums have the bits of
 *   the CPU. Ranks are found by halving the range of keys between the smallest and the largest one.
 * Global memory: neighbouring threads read neighbouring words, which come from the caches.
 * Mapping: a thread for each voxel. Registers: its sums or limits. Shared memory and synchronisation: none.
 * Cost: the samples of the footprint once to count; moments once or twice more; ranks once for each bit in which keys
 *   of the neighbourhood differ; entropy the square of their number.
 * Limits: entropies of at most ENTROPY_SAMPLES samples. */
#include "missing.cuh"

#include "base/order.h"
#include "local/entropy.h"
#include "local/moments.h"
#include "local/rank.h"

namespace vp
{

namespace
{

enum { THREADS = 256, ENTROPY_SAMPLES = 1024 };

/* Spans (dz, dy, x0, x1) of a footprint. */
struct spans {
    const int4 *at;
    int n;

    /* Calls f(word, index) for the samples around the one at `self`, in order. */
    template <class F> __device__ __forceinline__ void each(const missing_part &p, int64_t self, const F &f) const
    {
        for (int i = 0; i < n; i++) {
            const int4 s = __ldg(at + i);
            const uint32_t *const row = p.seen + self + (s.x * p.n[1] + s.y) * p.n[0];
            for (int x = s.z; x <= s.w; x++)
                f(row[x]);
        }
    }
};

/* Counts the samples of a voxel's footprint, and decides on it. */
__device__ __forceinline__ vp_missing_result count(const missing_part &p, const spans &s, int64_t self, int &present)
{
    int absent = 0, there = 0;
    s.each(p, self, [&](uint32_t w) {
        there += w < MISSING_OUTSIDE;
        absent += w == MISSING_ABSENT;
    });
    present = there;
    const uint32_t own = p.seen[self];
    return absent || own == MISSING_ABSENT ? missing_decide(p, own, there, absent) : VP_AS_IS;
}

/* The operation leaves out NaN itself. */
__global__ void __launch_bounds__(THREADS) extremum_kernel(missing_part p, spans s)
{
    missing_each(p, [&](int64_t, int64_t, int64_t, int64_t self, double &) {
        int n;
        return count(p, s, self, n) == VP_HOLE ? VP_HOLE : VP_AS_IS;
    });
}

__global__ void __launch_bounds__(THREADS) rank_kernel(missing_part p, spans s, int64_t millionths)
{
    missing_each(p, [&](int64_t, int64_t, int64_t, int64_t self, double &result) {
        int n;
        const vp_missing_result what = count(p, s, self, n);
        if (what != VP_MADE)
            return what;
        const int index = (int)vp_rank_index(millionths, n);
        uint32_t lo = ~0u, hi = 0;
        s.each(p, self, [&](uint32_t w) {
            if (w < MISSING_OUTSIDE) {
                lo = min(lo, w);
                hi = max(hi, w);
            }
        });
        while (lo < hi) {
            const uint32_t middle = lo + (hi - lo) / 2;
            int below = 0;
            s.each(p, self, [&](uint32_t w) { below += w <= middle; });
            if (below > index)
                hi = middle;
            else
                lo = middle + 1;
        }
        result = p.in_type == VP_F32 ? (double)__uint_as_float(vp_order_u32_bits(lo)) : (double)((int)lo - 32768);
        return what;
    });
}

/* Adds the step of each sample's bin after those of the same bin before it. */
__global__ void __launch_bounds__(THREADS)
entropy_kernel(missing_part p, spans s, const long long *step, const long long *t)
{
    missing_each(p, [&](int64_t, int64_t, int64_t, int64_t self, double &result) {
        int n, at = 0;
        const vp_missing_result what = count(p, s, self, n);
        long long sum = 0;
        if (what != VP_MADE)
            return what;
        s.each(p, self, [&](uint32_t w) {
            int before = 0, i = 0;
            if (w < MISSING_OUTSIDE) {
                s.each(p, self, [&](uint32_t v) { before += i++ < at && v == w; });
                sum += step[before];
            }
            at++;
        });
        result = (double)(float)((double)(t[n] - sum) / (4294967296.0 * (double)n));
        return what;
    });
}

/* ---- moments ---- */

struct moment_job {
    enum vp_moment moment;
    bool sample, spreads;
    double noise;
    struct vp_limit limit;
};

__device__ double moment(const moment_job &j, uint32_t self, double n, double sum, double deviations)
{
    const bool gone = self == MISSING_ABSENT;
    const double mean = sum / n, by = j.sample ? n - 1 : n, var = by > 0 ? deviations / by : 0;
    const double v = missing_float(self);

    switch (j.moment) {
    case VP_MEAN: return mean;
    case VP_VAR: return var;
    case VP_STD: return sqrt(var);
    case VP_ABOVE: return gone ? 0 : vp_limit_mark(&j.limit, j.spreads, n, sum, __dmul_rn(n, deviations), v);
    default: return gone || !(var > j.noise) ? mean : mean + __dmul_rn((var - j.noise) / var, v - mean);
    }
}

__global__ void __launch_bounds__(THREADS) moments_kernel(missing_part p, spans s, moment_job j)
{
    missing_each(p, [&](int64_t, int64_t, int64_t, int64_t self, double &result) {
        int n;
        const vp_missing_result what = count(p, s, self, n);
        double sum = 0, deviations = 0;
        if (what != VP_MADE)
            return what;
        s.each(p, self, [&](uint32_t w) { sum = sum + (double)missing_float(w); });
        const double mean = sum / n;
        if (j.spreads)
            s.each(p, self, [&](uint32_t w) {
                const double d = (double)missing_float(w) - mean;
                if (w < MISSING_OUTSIDE)
                    deviations = deviations + __dmul_rn(d, d);
            });
        result = moment(j, p.seen[self], n, sum, deviations);
        return what;
    });
}

/* ---- host ---- */

uint64_t spans_bytes(const vp_missing_params *m)
{
    return (uint64_t)vp_round_up(m->spans * (int64_t)sizeof(int4), VP_ALIGN);
}

void spans_fill(const vp_missing_params *m, void *to)
{
    static_assert(sizeof(struct vp_span) == sizeof(int4), "a span is four numbers");
    memcpy(to, m->span, (size_t)m->spans * sizeof(int4));
}

spans spans_of(const struct vp_op *op, const void *table)
{
    return {(const int4 *)table, (int)vp_params<vp_missing_params>(op)->spans};
}

template <class Params> const Params *stage(const struct vp_op *op)
{
    return (const Params *)vp_params<vp_missing_params>(op)->inner.params;
}

int launch_extremum(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table,
                    void *, struct vp_err *err)
{
    return vp_start_voxels(err, work, p.out.box, extremum_kernel, p, spans_of(op, table));
}

int launch_rank(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table, void *,
                struct vp_err *err)
{
    return vp_start_voxels(err, work, p.out.box, rank_kernel, p, spans_of(op, table),
                           stage<vp_rank_params>(op)->millionths);
}

int launch_moments(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table, void *,
                   struct vp_err *err)
{
    const vp_moments_params *const m = stage<vp_moments_params>(op);
    return vp_start_voxels(err, work, p.out.box, moments_kernel, p, spans_of(op, table),
                           moment_job{m->moment, m->sample, m->spreads, m->noise, m->limit});
}

/* Table of entropies: the spans, then step[] and t[], each with a number more than samples. */
uint64_t entropy_bytes(const vp_missing_params *m)
{
    return spans_bytes(m) + 2 * (uint64_t)(m->count + 1) * sizeof(int64_t);
}

void entropy_fill(const vp_missing_params *m, void *to)
{
    const vp_entropy_params *const p = (const vp_entropy_params *)m->inner.params;
    const int64_t n = vp_min64(p->n, m->count);
    int64_t *const step = (int64_t *)((char *)to + spans_bytes(m)), *const t = step + m->count + 1;
    spans_fill(m, to);
    memcpy(step, p->step, (size_t)(n + 1) * sizeof *step);
    memcpy(t, p->t, (size_t)(n + 1) * sizeof *t);
}

int launch_entropy(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table, void *,
                   struct vp_err *err)
{
    const vp_missing_params *const m = vp_params<vp_missing_params>(op);
    const long long *const step = (const long long *)((const char *)table + spans_bytes(m));
    return vp_start_voxels(err, work, p.out.box, entropy_kernel, p, spans_of(op, table), step, step + m->count + 1);
}

bool has_entropy(const vp_missing_params *m, char *why, size_t size)
{
    if (m->count <= ENTROPY_SAMPLES)
        return true;
    snprintf(why, size, "no kernel for missing samples and the entropy of more than %d", ENTROPY_SAMPLES);
    return false;
}

} // namespace

const missing_rule missing_rules_window[4] = {
    {{"min", "max"}, MISSING_KEY, spans_bytes, spans_fill, NULL, launch_extremum, NULL},
    {{"rank"}, MISSING_KEY, spans_bytes, spans_fill, NULL, launch_rank, NULL},
    {{"entropy"}, MISSING_BIN, entropy_bytes, entropy_fill, NULL, launch_entropy, has_entropy},
    {{"mean", "var", "std", "wiener", "above"}, MISSING_VALUE, spans_bytes, spans_fill, NULL, launch_moments, NULL},
};

}
