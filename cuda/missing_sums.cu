/* SPDX-License-Identifier: BSD-3-Clause */
/* Missing samples, rules of weighted sums (local/missing_sums.c): Gaussians, kernels, non-local means. Sums have the
 * CPU's order and are not fused, so they have its bits.
 *
 * Overview: Gaussians take three passes over sums of weight times sample, of the weights of present samples and of
 *   those of absent ones. For kernels and non-local means a thread goes over all samples that its voxel needs.
 * Mapping: a thread for each voxel. Registers: its sums. Shared memory and synchronisation: none.
 * Global memory: Gaussians 24 bytes for each voxel of a pass along x and of one along y; the others what is seen.
 * Cost: three multiplications and additions in float64 for each weight; of non-local means three of each for a pair. */
#include "missing.cuh"

#include "local/convolve.h"
#include "local/nlmeans.h"
#include "local/separable.h"
#include "nlmeans_exponential.cuh"

namespace vp
{

namespace
{

enum { THREADS = 256 };

__device__ __forceinline__ double there(uint32_t word) { return word < MISSING_OUTSIDE ? 1 : 0; }
__device__ __forceinline__ double gone(uint32_t word) { return word == MISSING_ABSENT ? 1 : 0; }

/* ---- Gaussians ---- */

/* Sums of weight x sample, of the weights of present samples, and of those of absent ones. */
enum { VALUE, WEIGHT, GONE, SUMS };

struct gauss_job {
    const double *bell[3]; /* weights at 0 ... R */
    int radius[3];
    double *x, *y;         /* SUMS for each voxel of the pass along x, and along y, one kind after the other */
    bool highpass;
};

/* Adds samples `step` apart, given as a function of the place. */
template <class Load>
__device__ __forceinline__ void add_taps(const double *bell, int radius, double sum[SUMS], const Load &load)
{
    for (int i = 0; i < SUMS; i++)
        sum[i] = 0;
    for (int k = -radius; k <= radius; k++) {
        const double w = radius ? __ldg(bell + (k < 0 ? -k : k)) : 1;
        double v[SUMS];
        load(k + radius, v);
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] + __dmul_rn(w, v[i]);
    }
}

__global__ void __launch_bounds__(THREADS) gauss_x_kernel(missing_part p, gauss_job g, vp_box all)
{
    const int64_t plane = p.made[0] * p.n[1] * p.n[2];
    vp_each_voxel(all, [&](int64_t x, int64_t y, int64_t z) {
        const int64_t row = z * p.n[1] + y;
        const uint32_t *const from = p.seen + row * p.n[0] + x;
        double sum[SUMS];
        add_taps(g.bell[0], g.radius[0], sum, [=](int k, double v[SUMS]) {
            const uint32_t w = from[k];
            v[VALUE] = missing_float(w);
            v[WEIGHT] = there(w);
            v[GONE] = gone(w);
        });
        for (int i = 0; i < SUMS; i++)
            g.x[i * plane + row * p.made[0] + x] = sum[i];
    });
}

/* Loads sums of the pass before. */
__device__ __forceinline__ void load_sums(const double *from, int64_t plane, double v[SUMS])
{
    for (int i = 0; i < SUMS; i++)
        v[i] = from[i * plane];
}

__global__ void __launch_bounds__(THREADS) gauss_y_kernel(missing_part p, gauss_job g, vp_box all)
{
    const int64_t plane = p.made[0] * p.n[1] * p.n[2], made = p.made[0] * p.made[1] * p.n[2];
    vp_each_voxel(all, [&](int64_t x, int64_t y, int64_t z) {
        const double *const from = g.x + (z * p.n[1] + y) * p.made[0] + x;
        double sum[SUMS];
        add_taps(g.bell[1], g.radius[1], sum,
                 [=](int k, double v[SUMS]) { load_sums(from + k * p.made[0], plane, v); });
        for (int i = 0; i < SUMS; i++)
            g.y[i * made + (z * p.made[1] + y) * p.made[0] + x] = sum[i];
    });
}

__global__ void __launch_bounds__(THREADS) gauss_z_kernel(missing_part p, gauss_job g)
{
    const int64_t plane = p.made[0] * p.made[1], all = plane * p.n[2];
    missing_each(p, [&](int64_t x, int64_t y, int64_t z, int64_t self, double &result) {
        const double *const from = g.y + z * plane + y * p.made[0] + x;
        double sum[SUMS];
        add_taps(g.bell[2], g.radius[2], sum, [=](int k, double v[SUMS]) { load_sums(from + k * plane, all, v); });
        const uint32_t own = p.seen[self];
        result = sum[VALUE] / sum[WEIGHT];
        if (g.highpass)
            result = (double)missing_float(own) - result;
        return g.highpass && own == MISSING_ABSENT ? VP_HOLE : missing_decide(p, own, sum[WEIGHT], sum[GONE]);
    });
}

/* ---- any kernel ---- */

struct kernel_job {
    const double *weights; /* [z][y][x] */
    int n[3], centre[3];
    int64_t self[3];       /* offset of the sample at the place of the result */
    double total;          /* factor of the weighted mean */
};

__global__ void __launch_bounds__(THREADS) convolve_kernel(missing_part p, kernel_job j)
{
    missing_each(p, [&](int64_t x, int64_t y, int64_t z, int64_t at, double &result) {
        double value = 0, weight = 0, absent = 0;
        const double *k = j.weights;
        for (int kz = 0; kz < j.n[2]; kz++)
            for (int ky = 0; ky < j.n[1]; ky++) {
                const uint32_t *const row =
                    p.seen + at + ((int64_t)(j.centre[2] - kz) * p.n[1] + j.centre[1] - ky) * p.n[0] + j.centre[0];
                for (int kx = 0; kx < j.n[0]; kx++, k++) {
                    const double w = __ldg(k);
                    const uint32_t v = row[-kx];
                    if (!(w > 0))
                        continue;
                    value = value + __dmul_rn(w, missing_float(v));
                    weight = weight + __dmul_rn(w, there(v));
                    absent = absent + __dmul_rn(w, gone(v));
                }
            }
        result = __dmul_rn(value / weight, j.total);
        return missing_decide(p, p.seen[at + (j.self[2] * p.n[1] + j.self[1]) * p.n[0] + j.self[0]], weight, absent);
    });
}

/* ---- non-local means ---- */

struct means_job {
    int search[3], patch[3];
    double noise, strength;
};

/* Returns the exponent of the weight of the pair of patches around samples a and b. */
__device__ __forceinline__ float power_of(const missing_part &p, const means_job &j, int64_t a, int64_t b)
{
    double square = 0, pairs = 0;
    for (int ox = -j.patch[0]; ox <= j.patch[0]; ox++) {
        double square_z = 0, pairs_z = 0;
        for (int oz = -j.patch[2]; oz <= j.patch[2]; oz++) {
            double square_y = 0, pairs_y = 0;
            for (int oy = -j.patch[1]; oy <= j.patch[1]; oy++) {
                const int64_t to = (oz * p.n[1] + oy) * p.n[0] + ox;
                const uint32_t v = p.seen[a + to], w = p.seen[b + to];
                const double both = there(v) * there(w), d = (double)missing_float(v) - (double)missing_float(w);
                square_y = square_y + __dmul_rn(__dmul_rn(both, d), d);
                pairs_y += both;
            }
            square_z = square_z + square_y;
            pairs_z += pairs_y;
        }
        square = square + square_z;
        pairs += pairs_z;
    }
    const double d2 = square / pairs, e = __dmul_rn(j.noise - d2, j.strength);
    return pairs > 0 && e > -87 ? (float)(e < 0 ? e : 0) : -1e9f;
}

__global__ void __launch_bounds__(THREADS) means_kernel(missing_part p, means_job j)
{
    missing_each(p, [&](int64_t, int64_t, int64_t, int64_t at, double &result) {
        double total = 0, value = 0;
        int found = 0, absent = 0;
        for (int dz = -j.search[2]; dz <= j.search[2]; dz++)
            for (int dy = -j.search[1]; dy <= j.search[1]; dy++)
                for (int dx = -j.search[0]; dx <= j.search[0]; dx++) {
                    const int64_t other = at + (dz * p.n[1] + dy) * p.n[0] + dx;
                    const uint32_t w = p.seen[other];
                    absent += w == MISSING_ABSENT;
                    if (w >= MISSING_OUTSIDE)
                        continue;
                    found++;
                    const double weight = nlmeans_exponential(power_of(p, j, at, other));
                    total = total + weight;
                    value = value + __dmul_rn(weight, missing_float(w));
                }
        result = value / total;
        return total > 0 ? missing_decide(p, p.seen[at], found, absent) : VP_HOLE;
    });
}

/* ---- host ---- */

template <class Params> const Params *stage(const vp_missing_params *m)
{
    return (const Params *)m->inner.params;
}

uint64_t gauss_table(const vp_missing_params *m)
{
    uint64_t n = 0;
    for (int a = 0; a < 3; a++)
        n += (uint64_t)stage<vp_separable>(m)->taps[a][0].radius + 1;
    return n * sizeof(double);
}

void gauss_fill(const vp_missing_params *m, void *to)
{
    double *at = (double *)to;
    for (int a = 0; a < 3; a++) {
        const struct vp_taps *const t = &stage<vp_separable>(m)->taps[a][0];
        if (t->radius)
            memcpy(at, t->bell, ((size_t)t->radius + 1) * sizeof *at);
        at += t->radius + 1;
    }
}

uint64_t gauss_scratch(const vp_missing_params *, const int64_t seen[3], const int64_t made[3])
{
    return (uint64_t)(made[0] * (seen[1] + made[1]) * seen[2]) * SUMS * sizeof(double);
}

int gauss_launch(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table,
                 void *scratch, struct vp_err *err)
{
    const vp_separable *const s = stage<vp_separable>(vp_params<vp_missing_params>(op));
    const vp_box along_x = {{0, 0, 0}, {p.made[0], p.n[1], p.n[2]}};
    const vp_box along_y = {{0, 0, 0}, {p.made[0], p.made[1], p.n[2]}};
    gauss_job g = {};
    const double *at = (const double *)table;
    for (int a = 0; a < 3; a++) {
        g.bell[a] = at;
        g.radius[a] = s->taps[a][0].radius;
        at += g.radius[a] + 1;
    }
    g.x = (double *)scratch;
    g.y = g.x + SUMS * p.made[0] * p.n[1] * p.n[2];
    g.highpass = s->highpass;
    return vp_start_voxels(err, work, along_x, gauss_x_kernel, p, g, along_x) ||
           vp_start_voxels(err, work, along_y, gauss_y_kernel, p, g, along_y) ||
           vp_start_voxels(err, work, p.out.box, gauss_z_kernel, p, g) ? -1 : 0;
}

int64_t samples(const vp_convolve_params *p)
{
    return p->n[0] * p->n[1] * p->n[2];
}

uint64_t kernel_table(const vp_missing_params *m)
{
    return (uint64_t)samples(stage<vp_convolve_params>(m)) * sizeof(double);
}

void kernel_fill(const vp_missing_params *m, void *to)
{
    const vp_convolve_params *const p = stage<vp_convolve_params>(m);
    for (int64_t i = 0; i < samples(p); i++)
        ((double *)to)[i] = p->exact ? p->exact[i] : p->kernels[i];
}

int kernel_launch(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *table, void *,
                  struct vp_err *err)
{
    const vp_convolve_params *const c = stage<vp_convolve_params>(vp_params<vp_missing_params>(op));
    kernel_job j = {};
    j.weights = (const double *)table;
    for (int a = 0; a < 3; a++) {
        j.n[a] = (int)c->n[a];
        j.centre[a] = (int)c->centre[a];
        j.self[a] = c->first[a] + c->pad_lo[a];
    }
    for (int64_t i = 0; i < samples(c); i++)
        j.total += c->exact ? c->exact[i] : c->kernels[i];
    if (c->total)
        j.total = c->total[0];
    return vp_start_voxels(err, work, p.out.box, convolve_kernel, p, j);
}

int means_launch(const missing_part &p, const struct vp_op *op, const struct vp_work *work, const void *, void *,
                 struct vp_err *err)
{
    const vp_nlmeans_params *const n = stage<vp_nlmeans_params>(vp_params<vp_missing_params>(op));
    means_job j = {};
    for (int a = 0; a < 3; a++) {
        j.search[a] = (int)n->search[a];
        j.patch[a] = (int)n->patch[a];
    }
    j.noise = 2 * n->sigma * n->sigma;
    j.strength = 1 / (n->h * n->h);
    return vp_start_voxels(err, work, p.out.box, means_kernel, p, j);
}

} // namespace

const missing_rule missing_rules_sums[3] = {
    {{"gauss"}, MISSING_VALUE, gauss_table, gauss_fill, gauss_scratch, gauss_launch, NULL},
    {{"convolve"}, MISSING_VALUE, kernel_table, kernel_fill, NULL, kernel_launch, NULL},
    {{"nlmeans"}, MISSING_VALUE, NULL, NULL, NULL, means_launch, NULL},
};

}
