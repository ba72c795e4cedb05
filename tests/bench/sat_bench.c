/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables in memory: seconds and rates (input read once, table written once) with 1 and 2 threads, for each
 * instruction set, beside memcpy of as many bytes, and beside the three-pass algorithm: the sums of every band's
 * columns, their prefix sums from band to band, then each band from what is above it. That one reads the input
 * twice, so of the bandwidth B it can get (in + out) / (2 in + out); it is what a table cost before carries went
 * through one pass. All results are compared. Minima of several rounds that take the contenders in turn.
 * tests/bench/peers.py has OpenCV's. usage: sat_bench [SIZE [ROUNDS]] */
#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "base/stats.h"
#include "global/sat.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind { const char *name; enum vp_type in, out; bool squares, volume; } kinds[] = {
    {"u8 -> u32", VP_U8, VP_U32, false, false},          {"f32 -> f64", VP_F32, VP_F64, false, false},
    {"u8 -> u64", VP_U8, VP_U64, false, false},          {"u16 -> u64", VP_U16, VP_U64, false, false},
    {"f32 -> f32", VP_F32, VP_F32, false, false},        {"u8 -> u32, squares in u64", VP_U8, VP_U32, true, false},
    {"u8 -> u64, 3-D", VP_U8, VP_U64, false, true},      {"f32 -> f64, 3-D", VP_F32, VP_F64, false, true},
};
static const struct { const char *name, *isa; int threads; } contenders[] = {
    {"2 threads", NULL, 2}, {"1 thread", NULL, 1}, {"avx2, 2 threads", "avx2", 2}, {"generic, 2 threads", "generic", 2},
    {"three passes, 2 threads", NULL, -2}, {"memcpy, 2 threads", NULL, 0}, {"memcpy, 1 thread", NULL, 0},
};
enum { ALL = sizeof contenders / sizeof *contenders, BANDS = 64 };

/* ---- three passes, of images ---- */

#define THREE_PASSES(IN, OUT, NAME)                                                                                    \
    static void NAME(const IN *in, OUT *out, int64_t nx, int64_t ny, int threads)                                      \
    {                                                                                                                  \
        OUT *const above = calloc((size_t)((BANDS + 1) * nx), sizeof *above);                                                   \
        _Pragma("omp parallel for num_threads(threads) schedule(dynamic)")                                             \
        for (int b = 0; b < BANDS; b++)                                                                                \
            for (int64_t y = ny * b / BANDS; y < ny * (b + 1) / BANDS; y++)                                            \
                for (int64_t x = 0; x < nx; x++)                                                                       \
                    above[(b + 1) * nx + x] += (OUT)in[y * nx + x];                                                            \
        for (int b = 1; b <= BANDS; b++) {                                                                             \
            OUT sum = 0;                                                                                               \
            for (int64_t x = 0; x < nx; x++) {                                                                         \
                sum += above[b * nx + x];                                                                                    \
                above[b * nx + x] = above[(b - 1) * nx + x] + sum;                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("omp parallel for num_threads(threads) schedule(dynamic)")                                             \
        for (int b = 0; b < BANDS; b++)                                                                                \
            for (int64_t y = ny * b / BANDS; y < ny * (b + 1) / BANDS; y++) {                                          \
                const OUT *up = y == ny * b / BANDS ? above + b * nx : out + (y - 1) * nx;                                   \
                OUT sum = 0;                                                                                           \
                for (int64_t x = 0; x < nx; x++) {                                                                     \
                    sum += (OUT)in[y * nx + x];                                                                        \
                    out[y * nx + x] = up[x] + sum;                                                                     \
                }                                                                                                      \
            }                                                                                                          \
        free(above);                                                                                                   \
    }
THREE_PASSES(uint8_t, uint32_t, three_u8)
THREE_PASSES(float, double, three_f32)

static void copy(char *to, const char *from, size_t n, int threads)
{
    #pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++)
        memcpy(to + n * (size_t)i / (size_t)threads, from + n * (size_t)i / (size_t)threads, n / (size_t)threads);
}

/* The largest difference of two tables, relative to the last sum. */
static double difference(const void *a, const void *b, enum vp_type t, size_t n)
{
    double worst = 0;
    if (!vp_type_is_float(t))
        return memcmp(a, b, n * vp_type_size(t)) ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const double p = t == VP_F32 ? ((const float *)a)[i] : ((const double *)a)[i];
        const double q = t == VP_F32 ? ((const float *)b)[i] : ((const double *)b)[i];
        worst = fmax(worst, fabs(p - q) / (t == VP_F32 ? ((const float *)a)[n - 1] : ((const double *)a)[n - 1]));
    }
    return worst;
}

static int bench(const struct kind *k, int64_t n, int rounds)
{
    const int64_t side = k->volume ? (int64_t)(cbrt((double)(n * n)) / 64) * 64 : n, nz = k->volume ? side : 1;
    const int64_t size[3] = {side, k->volume ? side : 1, side}, page = side * side;
    const size_t samples = (size_t)(page * nz), in_size = vp_type_size(k->in), out_size = vp_type_size(k->out);
    const size_t bytes = samples * (in_size + out_size + (k->squares ? 8 : 0));
    const struct vp_sat_request request = {.volume = k->volume, .squares = k->squares, .out = k->out};
    const struct vp_box whole = {{0}, {size[0], size[1], size[2]}};
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;
    double seconds[ALL];
    if (vp_sat_op(&op, &request, size, k->in, &err))
        return vp_fail(&err, VP_ERUN, "%s", err.msg);
    char *in = vp_alloc_raw(samples, in_size, "input", &err), *out = vp_alloc(samples, out_size, "table", &err);
    char *want = vp_alloc(samples, out_size, "table", &err), *twin = vp_alloc(samples, 8, "squares", &err);
    char *copies = vp_alloc(bytes / 2, 2, "copies", &err);
    void **planes = malloc(3 * (size_t)side * sizeof *planes);
    char *kept = vp_alloc((size_t)op.carry->state_bytes(&op, &whole, 2), 1, "what is carried", &err);
    void *scratch = vp_alloc((size_t)op.scratch(&op, &whole, &whole, 2), 1, "scratch", &err);
    if (!in || !out || !want || !twin || !planes || !kept || !scratch || !copies) {
        fprintf(stderr, "sat_bench: error: not enough memory\n");
        return -1;
    }
    for (size_t i = 0; i < samples; i++) {
        const uint32_t v = (uint32_t)i * 2654435761u;
        if (k->in == VP_F32)
            ((float *)in)[i] = (float)(v >> 8) / 16777216 * 1.37f;
        else
            memcpy(in + i * in_size, (const char *)&v + 4 - in_size, in_size);
    }
    for (int64_t z = 0; z < side; z++) {
        const size_t at = (size_t)(z * (k->volume ? page : side));
        planes[z] = in + at * in_size;
        planes[side + z] = out + at * out_size;
        planes[2 * side + z] = twin + at * 8;
    }
    const struct vp_part from = {whole, side, planes}, to[2] = {{whole, side, planes + side},
                                                                {whole, side, planes + 2 * side}};
    memset(copies, 1, bytes); /* or they are one page of zeros */
    for (int c = 0; c < ALL; c++)
        seconds[c] = INFINITY;
    double worst = 0;
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < ALL; c++) {
            const int threads = contenders[c].threads;
            const char *const isa = contenders[c].isa;
            vp_isa_limit(isa ? isa : "avx512");
            const bool three = threads < 0, here = !isa || !strcmp(vp_isa_name(), isa);
            if (!here || (three && !(k->out == VP_U32 && !k->squares) && !(k->out == VP_F64 && !k->volume)))
                continue;
            const double t = vp_now();
            if (!threads) {
                copy(copies, copies + bytes / 2, bytes / 2, c == ALL - 1 ? 1 : 2);
            } else if (three) {
                if (k->in == VP_U8)
                    three_u8((uint8_t *)in, (uint32_t *)out, side, side, -threads);
                else
                    three_f32((float *)in, (double *)out, side, side, -threads);
            } else {
                memset(kept, 0, (size_t)op.carry->state_bytes(&op, &whole, threads));
                op.carry->advance(&op, &from, to, scratch, kept, threads, &err);
            }
            seconds[c] = fmin(seconds[c], vp_now() - t);
            if (r == 0 && c == 0)
                memcpy(want, out, samples * out_size);
            else if (r == 0 && threads)
                worst = fmax(worst, difference(want, out, k->out, samples));
        }
    printf("%s, %lld x %lld x %lld; largest difference %.1e\n", k->name, (long long)side, (long long)side, (long long)nz,
           worst);
    for (int c = 0; c < ALL; c++)
        if (seconds[c] < INFINITY)
            printf("  %-24s %8.4f s %6.1f GB/s %6.2f of memcpy\n", contenders[c].name, seconds[c],
                   (double)bytes / seconds[c] * 1e-9, fmin(seconds[ALL - 1], seconds[ALL - 2]) / seconds[c]);
    free(in), free(out), free(want), free(twin), free(planes), free(kept), free(scratch), free(copies), free(op.params);
    return 0;
}

int main(int argc, char **argv)
{
    const int64_t n = argc > 1 ? atoll(argv[1]) : 8192;
    const int rounds = argc > 2 ? atoi(argv[2]) : 5, most = argc > 3 ? atoi(argv[3]) : 99;
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds) && i < most; i++)
        if (bench(&kinds[i], n, rounds))
            return 1;
    return 0;
}
