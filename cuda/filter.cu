/* SPDX-License-Identifier: BSD-3-Clause */
/* The ramp filter on a CUDA device: which transform (filter_rows.cuh), its tables, launches. */
#include "filter_rows.cuh"
#include "launch.cuh"

extern "C" {
#include "ct/filter.h"
#include "run/rates.h"
}

#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

namespace
{

struct method {
    int n, threads, rows, stages, radix[MAX_STAGES];
    size_t shared;
    void (*kernel)(row_args);
    double ns; /* a row */
};

template <int T, int B, int M, int... R> constexpr method make_method(double ns)
{
    using S = shape<T, B, M, R...>;
    return {S::N, T, B, S::stages, {R...}, S::shared, filter_rows<S>, ns};
}

/* The fastest radices that were measured, among those without bank conflicts; the first takes the factor 3, so that
 * strides stay powers of two. ns: rows of N samples with cosine and redundancy weights, device memory to device memory,
 * on an H100 SXM with 132 multiprocessors at 1.98 GHz (gpu_speed in run/rates.h). */
const method methods[] = {
    make_method<16, 4, 16, 8, 16>(0.614),     make_method<16, 4, 12, 16, 16>(1.01),
    make_method<16, 4, 8, 24, 16>(1.55),      make_method<16, 4, 8, 32, 16>(1.95),
    make_method<32, 2, 8, 24, 32>(3.26),      make_method<64, 1, 10, 16, 16, 4>(4.38),
    make_method<128, 1, 6, 12, 16, 8>(7.36),  make_method<128, 1, 5, 16, 16, 8>(9.36),
    make_method<256, 1, 3, 12, 16, 16>(16.9), make_method<256, 1, 2, 16, 16, 16>(21.7),
    make_method<256, 1, 2, 24, 16, 16>(34.3), make_method<256, 1, 2, 32, 16, 16>(51.5),
    make_method<512, 1, 1, 24, 32, 16>(86.0), make_method<512, 1, 1, 32, 32, 16>(140),
};

/* ---- the host ---- */

/* What lies where in the tables, in bytes. */
struct layout {
    int64_t left, need; /* column 0 in the transform; its least length */
    const method *how;
    size_t twiddle[MAX_STAGES], response, fall, scale, weight, fan, lens, bytes;
};

int choose(const vp_filter_tables &t, int device, layout *l, struct vp_devfilter_plan *plan, struct vp_err *err)
{
    int most = 0, processors = 0, khz = 0;
    if (vp_gpu_check(err, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "device")
        || vp_gpu_check(err, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "device")
        || vp_gpu_check(err, cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device), "device"))
        return -1;
    *l = {};
    l->left = vp_max64(t.pad, t.before);
    l->need = l->left + t.nu + vp_max64(t.pad, t.after);
    for (const method &m : methods)
        if (m.n >= l->need && m.shared <= (size_t)most && (!l->how || m.n < l->how->n))
            l->how = &m;
    if (!l->how)
        return vp_fail(err, VP_ERUN, "rows of %lld samples with their padding are too long for this device",
                       (long long)l->need);

    const method &how = *l->how;
    size_t at = 0;
    const auto take = [&](int64_t count, size_t size) {
        const size_t here = at;
        at += (size_t)vp_round_up(count * (int64_t)size, 256);
        return here;
    };
    l->twiddle[0] = take(how.n, sizeof(cx));
    for (int s = 1, length = how.n / how.radix[0]; s < how.stages - 1; length /= how.radix[s++])
        l->twiddle[s] = take(length, sizeof(cx));
    l->response = take(how.n, sizeof(float));
    l->fall = take(t.pad, sizeof(float));
    l->scale = take(t.views, sizeof(float));
    l->weight = take(t.weight ? t.views * t.n_weight : 0, sizeof(float));
    l->fan = take(t.fan ? t.views : 0, sizeof(vp_filter_fan));
    l->lens = take(t.lens ? t.views : 0, sizeof(struct lens));
    l->bytes = at;

    *plan = {};
    char radices[32];
    int n = 0;
    for (int s = 0; s < how.stages; s++)
        n += snprintf(radices + n, sizeof radices - n, "%s%d", s ? "x" : "", how.radix[s]);
    snprintf(plan->kernel, sizeof plan->kernel, "%s, complex fft length %d (%s), one pass", t.text, how.n, radices);
    plan->nu_out = t.before + t.nu + t.after;
    plan->bytes = at;
    plan->seconds = how.ns * 1e-9 / (double)t.nu * vp_rates.gpu_speed * 1e6 / ((double)processors * khz);
    return 0;
}

int make_tables(const vp_filter_tables &t, const layout &l, std::vector<char> &all, struct vp_err *err)
{
    const method &how = *l.how;
    all.resize(l.bytes);
    const auto root = [](double k, double n) { return cx{(float)cos(2 * PI * k / n), (float)-sin(2 * PI * k / n)}; };

    /* the first stage's factors also turn element j of N by j / (4 N) */
    cx *w = (cx *)(all.data() + l.twiddle[0]);
    const int64_t r0 = how.radix[0], q0 = how.n / r0;
    for (int64_t i = 0; i < r0; i++)
        for (int64_t j = 0; j < q0; j++)
            *w++ = root((double)(j * (4 * i + 1)), 4.0 * how.n);
    int64_t length = q0;
    for (int s = 1; s < how.stages - 1; s++) {
        const int64_t r = how.radix[s], q = length / r;
        w = (cx *)(all.data() + l.twiddle[s]);
        for (int64_t i = 1; i < r; i++)
            for (int64_t j = 0; j < q; j++)
                *w++ = root((double)(i * j), (double)length);
        length = q;
    }

    /* frequency k lies where its digits, reversed, say; the last digit is the output of the last butterfly */
    std::vector<double> response(how.n);
    if (vp_filter_response(&t, how.n, response.data(), err))
        return -1;
    float *const h = (float *)(all.data() + l.response);
    const int64_t rl = how.radix[how.stages - 1];
    for (int64_t k = 0; k < how.n; k++) {
        int64_t at = 0, rest = k, len = how.n;
        for (int s = 0; s < how.stages; s++) {
            len /= how.radix[s];
            at += rest % how.radix[s] * len;
            rest /= how.radix[s];
        }
        h[at % rl * (how.n / rl) + at / rl] = (float)response[k];
    }

    memcpy(all.data() + l.scale, t.scale, (size_t)t.views * sizeof(float));
    if (t.pad)
        memcpy(all.data() + l.fall, t.fall, (size_t)t.pad * sizeof(float));
    if (t.weight)
        memcpy(all.data() + l.weight, t.weight, (size_t)(t.views * t.n_weight) * sizeof(float));
    if (t.fan)
        memcpy(all.data() + l.fan, t.fan, (size_t)t.views * sizeof(vp_filter_fan));
    for (int64_t k = 0; t.lens && k < t.views; k++) {
        const vp_filter_lens &from = t.lens[k];
        ((struct lens *)(all.data() + l.lens))[k] = {(float)from.center, (float)from.cv, (float)from.slope,
                                                     (float)(1 / from.f), (float)from.bend, (float)from.head,
                                                     (float)from.lean, (float)from.rise, (float)from.tip};
    }
    return 0;
}

} // namespace

struct vp_devfilter {
    struct vp_devfilter_plan plan;
    vp_filter_tables t; /* numbers only: the pointers are the host's */
    layout l;
    int device;
    cudaStream_t stream;
    char *tables;
};

namespace
{

int plan(const struct vp_filter *host, int device, struct vp_devfilter_plan *plan, struct vp_err *err)
{
    vp_filter_tables t;
    layout l;
    vp_filter_get_tables(host, &t);
    return choose(t, device, &l, plan, err);
}

int open_filter(vp_devfilter *f, const struct vp_filter *host, int device, struct vp_err *err)
{
    vp_filter_get_tables(host, &f->t);
    f->device = device;
    if (vp_gpu_check(err, cudaSetDevice(device), "device") || choose(f->t, device, &f->l, &f->plan, err) ||
        vp_gpu_check(err, cudaFuncSetAttribute(f->l.how->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               (int)f->l.how->shared), "filter"))
        return -1;
    std::vector<char> tables;
    if (make_tables(f->t, f->l, tables, err))
        return -1;
    cudaError_t e = cudaMemcpyAsync(f->tables, tables.data(), tables.size(), cudaMemcpyHostToDevice, f->stream);
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
            (*out)->stream = queue->stream;
            (*out)->tables = (char *)memory;
            rc = open_filter(*out, host, device, err);
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
    const vp_filter_tables &t = f->t;
    const layout &l = f->l;
    if (first < 0 || n < 0 || first + n > t.views || v0 < 0 || v1 < v0 || v1 > t.nv)
        return vp_fail(err, VP_ERUN, "views [%lld, %lld), rows [%lld, %lld) are not in the scan", (long long)first,
                    (long long)(first + n), (long long)v0, (long long)v1);
    const int64_t rows = n * (v1 - v0), blocks = (rows + l.how->rows - 1) / l.how->rows;
    if (!rows)
        return 0;
    if (rows > INT32_MAX)
        return vp_fail(err, VP_ERUN, "%lld rows at once", (long long)rows);

    row_args a = {};
    a.in = in, a.out = out;
    a.rows = rows;
    a.rows_per_view = (int)(v1 - v0), a.v0 = (int)v0;
    a.nu = (int)t.nu, a.nu_out = (int)f->plan.nu_out;
    a.left = (int)l.left, a.left_out = (int)(l.left - t.before);
    a.pad = (int)t.pad;
    a.fall = (const float *)(f->tables + l.fall);
    a.scale = (const float *)(f->tables + l.scale) + first;
    a.weight = t.weight ? (const float *)(f->tables + l.weight) + first * t.n_weight : nullptr;
    a.n_weight = (int)t.n_weight;
    a.fan = t.fan ? (const struct vp_filter_fan *)(f->tables + l.fan) + first : nullptr;
    a.lens = t.lens ? (const struct lens *)(f->tables + l.lens) + first : nullptr;
    for (int s = 0; s < MAX_STAGES; s++)
        a.twiddle[s] = (const cx *)(f->tables + l.twiddle[s]);
    a.response = (const float *)(f->tables + l.response);
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
