/* SPDX-License-Identifier: BSD-3-Clause */
/* The ramp filter on a CUDA device: choice of the transform (filter_rows.cuh), its tables, launches. */
#include "filter_rows.cuh"
#include "launch.cuh"
#include "engine/rates.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

namespace
{

struct filter_method {
    int n, threads, rows, stages, radix[MAX_STAGES];
    size_t shared;
    void (*kernel)(row_args);
    double ns; /* a row */
};

template <int T, int B, int M, int... R> constexpr filter_method make_method(double ns)
{
    using S = filter_shape<T, B, M, R...>;
    return {S::N, T, B, S::stages, {R...}, S::shared, filter_rows<S>, ns};
}

/* The fastest radices as measured, among those without bank conflicts; the first radix takes the factor 3, so that
 * strides stay powers of two. ns: nanoseconds for a row of N samples with cosine and redundancy weights, device memory
 * to device memory, on an H100 SXM with 132 multiprocessors at 1.98 GHz (gpu_speed in engine/rates.h). */
const filter_method methods[] = {
    make_method<16, 4, 16, 8, 16>(0.614),     make_method<16, 4, 12, 16, 16>(1.01),
    make_method<16, 4, 8, 24, 16>(1.55),      make_method<16, 4, 8, 32, 16>(1.95),
    make_method<32, 2, 8, 24, 32>(3.26),      make_method<64, 1, 10, 16, 16, 4>(4.38),
    make_method<128, 1, 6, 12, 16, 8>(7.36),  make_method<128, 1, 5, 16, 16, 8>(9.36),
    make_method<256, 1, 3, 12, 16, 16>(16.9), make_method<256, 1, 2, 16, 16, 16>(21.7),
    make_method<256, 1, 2, 24, 16, 16>(34.3), make_method<256, 1, 2, 32, 16, 16>(51.5),
    make_method<512, 1, 1, 24, 32, 16>(86.0), make_method<512, 1, 1, 32, 32, 16>(140),
};

/* ---- the host ---- */

/* The chosen method, its arguments except for the rows, and the bytes of its tables. */
struct layout {
    const filter_method *how;
    row_args a;
    size_t bytes;
};

/* Chooses the shortest transform that holds a row with its padding, lays out its tables in `memory` (NULL: only sizes)
 * and fills *plan. Returns 0 or -1. */
int choose(const struct vp_filter_tables &t, int device, char *memory, layout *l, struct vp_devfilter_plan *plan,
           struct vp_err *err)
{
    int most = 0, processors = 0, khz = 0;
    if (vp_gpu_check(err, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "device")
        || vp_gpu_check(err, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "device")
        || vp_gpu_check(err, cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device), "device"))
        return -1;
    *l = {};
    const int64_t left = vp_max64(t.pad, t.before), need = left + t.nu + vp_max64(t.pad, t.after);
    for (const filter_method &m : methods)
        if (m.n >= need && m.shared <= (size_t)most && (!l->how || m.n < l->how->n))
            l->how = &m;
    if (!l->how)
        return vp_fail(err, VP_ERUN, "rows of %lld samples with their padding are too long for this device",
                       (long long)need);

    const filter_method &how = *l->how;
    row_args &a = l->a;
    vp_arena all = {memory, 0};
    all.take(a.twiddle[0], how.n);
    for (int s = 1, length = how.n / how.radix[0]; s < how.stages - 1; length /= how.radix[s++])
        all.take(a.twiddle[s], length);
    all.take(a.response, how.n);
    all.take(a.fall, t.pad);
    all.take(a.scale, t.views);
    all.take(a.weight, t.weight ? t.views * t.n_weight : 0);
    all.take(a.fan, t.fan ? t.views : 0);
    all.take(a.lens, t.lens ? t.views : 0);
    l->bytes = all.used;
    a.nu = (int)t.nu, a.nu_out = (int)(t.before + t.nu + t.after);
    a.left = (int)left, a.left_out = (int)(left - t.before);
    a.pad = (int)t.pad, a.n_weight = (int)t.n_weight;

    *plan = {};
    char radices[32];
    int n = 0;
    for (int s = 0; s < how.stages; s++)
        n += snprintf(radices + n, sizeof radices - n, "%s%d", s ? "x" : "", how.radix[s]);
    snprintf(plan->kernel, sizeof plan->kernel, "%s, complex fft length %d (%s), one pass", t.text, how.n, radices);
    plan->nu_out = a.nu_out;
    plan->bytes = l->bytes;
    plan->seconds = how.ns * 1e-9 / (double)t.nu * vp_rates.gpu_speed * 1e6 / ((double)processors * khz);
    return 0;
}

/* Fills all[] with the tables that are to be copied to `memory`. Returns 0 or -1. */
int make_tables(const struct vp_filter_tables &t, const layout &l, const char *memory, std::vector<char> &all,
                struct vp_err *err)
{
    const filter_method &how = *l.how;
    all.resize(l.bytes);
    const auto at = [&](auto *table) {
        return (std::remove_const_t<std::remove_pointer_t<decltype(table)>> *)(all.data() + ((char *)table - memory));
    };
    const auto copy = [&](auto *table, const auto *from, int64_t count) {
        if (table)
            memcpy(at(table), from, (size_t)count * sizeof *table);
    };
    const auto root = [](double k, double n) { return cx{(float)cos(2 * PI * k / n), (float)-sin(2 * PI * k / n)}; };

    /* factors of the first stage, times exp(-2 pi i j / (4 N)) of the right-angle convolution */
    cx *w = at(l.a.twiddle[0]);
    const int64_t r0 = how.radix[0], q0 = how.n / r0;
    for (int64_t i = 0; i < r0; i++)
        for (int64_t j = 0; j < q0; j++)
            *w++ = root((double)(j * (4 * i + 1)), 4.0 * how.n);
    int64_t length = q0;
    for (int s = 1; s < how.stages - 1; s++) {
        const int64_t r = how.radix[s], q = length / r;
        w = at(l.a.twiddle[s]);
        for (int64_t i = 1; i < r; i++)
            for (int64_t j = 0; j < q; j++)
                *w++ = root((double)(i * j), (double)length);
        length = q;
    }

    /* frequency k is at its digit-reversed position; the last digit is the output of the last butterfly */
    std::vector<double> response(how.n);
    if (vp_filter_response(&t, how.n, response.data(), err))
        return -1;
    float *const h = at(l.a.response);
    const int64_t rl = how.radix[how.stages - 1];
    for (int64_t k = 0; k < how.n; k++) {
        int64_t place = 0, rest = k, len = how.n;
        for (int s = 0; s < how.stages; s++) {
            len /= how.radix[s];
            place += rest % how.radix[s] * len;
            rest /= how.radix[s];
        }
        h[place % rl * (how.n / rl) + place / rl] = (float)response[k];
    }

    copy(l.a.scale, t.scale, t.views);
    copy(l.a.fall, t.fall, t.pad);
    copy(l.a.weight, t.weight, t.views * t.n_weight);
    copy(l.a.fan, t.fan, t.views);
    for (int64_t k = 0; t.lens && k < t.views; k++) {
        const vp_filter_lens &from = t.lens[k];
        at(l.a.lens)[k] = {(float)from.center, (float)from.cv, (float)from.slope, (float)(1 / from.f), (float)from.bend,
                           (float)from.head, (float)from.lean, (float)from.rise, (float)from.tip};
    }
    return 0;
}

} // namespace

struct vp_devfilter {
    layout l;
    int device;
    cudaStream_t stream;
};

namespace
{

int plan(const struct vp_filter *host, int device, struct vp_devfilter_plan *plan, struct vp_err *err)
{
    layout l;
    return choose(*vp_filter_tables(host), device, nullptr, &l, plan, err);
}

int open_filter(vp_devfilter *f, const struct vp_filter_tables &t, char *memory, struct vp_err *err)
{
    struct vp_devfilter_plan plan;
    std::vector<char> tables;
    if (vp_gpu_check(err, cudaSetDevice(f->device), "device") || choose(t, f->device, memory, &f->l, &plan, err)
        || vp_gpu_check(err, cudaFuncSetAttribute(f->l.how->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  (int)f->l.how->shared), "filter")
        || make_tables(t, f->l, memory, tables, err))
        return -1;
    cudaError_t e = cudaMemcpyAsync(memory, tables.data(), tables.size(), cudaMemcpyHostToDevice, f->stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(f->stream);
    return vp_gpu_check(err, e, "the filter's tables");
}

int open(struct vp_devfilter **out, const struct vp_filter *host, int device, void *memory, struct vp_queue *queue,
         struct vp_err *err)
{
    int rc = -1;
    *out = new (std::nothrow) vp_devfilter();
    try {
        if (*out) {
            (*out)->device = device;
            (*out)->stream = queue->stream;
            rc = open_filter(*out, *vp_filter_tables(host), (char *)memory, err);
        }
    } catch (const std::bad_alloc &) {
    }
    if (!rc)
        return 0;
    delete *out;
    *out = nullptr;
    return vp_fail(err, VP_ERUN, "out of memory"); /* unless another error is recorded */
}

int run(struct vp_devfilter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in, float *out,
        struct vp_err *err)
{
    const layout &l = f->l;
    const int64_t rows = n * (v1 - v0), blocks = vp_div_up(rows, l.how->rows);
    if (!rows)
        return 0;
    if (rows > INT32_MAX)
        return vp_fail(err, VP_ERUN, "%lld rows at once", (long long)rows);

    row_args a = l.a;
    a.in = in, a.out = out;
    a.rows = rows;
    a.rows_per_view = (int)(v1 - v0), a.v0 = (int)v0;
    a.scale += first;
    a.weight += a.weight ? first * a.n_weight : 0;
    a.fan += a.fan ? first : 0;
    a.lens += a.lens ? first : 0;
    if (vp_gpu_check(err, cudaSetDevice(f->device), "device"))
        return -1;
    return vp_gpu_check(err, vp_launch(f->stream, l.how->kernel, dim3((unsigned)blocks),
                                       dim3(l.how->threads * l.how->rows), l.how->shared, a), "filter");
}

void close(struct vp_devfilter *f)
{
    delete f;
}

} // namespace

const struct vp_filter_kernels vp_gpu_filter = {plan, open, run, close};
