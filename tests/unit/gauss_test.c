/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian, derivatives and Laplacian of Gaussian: against their definition in float64 with dense matrices, against
 * the documented order of operations to the bit, on polynomials, and in random boxes. */
#include "boxes.h"
#include "base/size.h"
#include "local/gauss.h"
#include "local/log.h"

#include <float.h>
#include <stdlib.h>

static const char *const isas[] = {"avx512", "avx2", "generic"};
static const enum vp_edge edges[] = {VP_EDGE_RENORMALIZE, VP_EDGE_NEAREST, VP_EDGE_MIRROR, VP_EDGE_ZERO, VP_EDGE_WRAP};

static uint64_t seed = 1;

static uint32_t any(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) * below >> 31);
}

static float uniform(void)
{
    return (float)any(1 << 24) / (1 << 24);
}

static size_t count(const int64_t size[3])
{
    return (size_t)(size[0] * size[1] * size[2]);
}

static float *noise(const int64_t size[3])
{
    float *const a = malloc(count(size) * sizeof *a);
    for (size_t i = 0; i < count(size); i++)
        a[i] = uniform();
    return a;
}

static struct vp_gauss_params gauss(double sx, double sy, double sz, enum vp_edge edge)
{
    return (struct vp_gauss_params){.sigma = {sx, sy, sz}, .truncate = 4, .spacing = {1, 1, 1}, .edge = edge,
                                    .iterations = 1};
}

static struct vp_log_params laplace(double sx, double sy, double sz, enum vp_edge edge)
{
    return (struct vp_log_params){.sigma = {sx, sy, sz}, .truncate = 4, .spacing = {1, 1, 1}, .edge = edge};
}

static void apply(const struct vp_chain *c, const void *in, void *out, int threads)
{
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_chain_apply(c, &in, out, threads, &err), 0);
}

static void run_gauss(const struct vp_gauss_params *p, const int64_t size[3], enum vp_type in_type,
                      enum vp_type out_type, const void *in, void *out)
{
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_gauss_chain(&c, p, size, in_type, out_type, &err), 0);
    apply(&c, in, out, 1);
    vp_chain_free(&c);
}

static void run_log(const struct vp_log_params *p, const int64_t size[3], const float *in, float *out)
{
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_log_chain(&c, p, size, VP_F32, &err), 0);
    apply(&c, in, out, 1);
    vp_chain_free(&c);
}

/* ---- the definition, naively ---- */

/* Solve m p = b, n <= 3, by elimination with pivots. */
static void solve(int n, long double m[3][4], long double *p)
{
    for (int i = 0; i < n; i++) {
        int best = i;
        for (int r = i; r < n; r++)
            best = fabsl(m[r][i]) > fabsl(m[best][i]) ? r : best;
        for (int c = 0; c < 4; c++) {
            const long double t = m[i][c];
            m[i][c] = m[best][c];
            m[best][c] = t;
        }
        for (int r = 0; r < n; r++) {
            const long double f = m[r][i] / m[i][i];
            for (int c = 0; r != i && c < 4; c++)
                m[r][c] -= f * m[i][c];
        }
    }
    for (int i = 0; i < n; i++)
        p[i] = m[i][3] / m[i][i];
}

/* Weights of x[i + j], -lo <= j <= hi, into w[lo + j]. */
static void weights(double sigma, int order, int lo, int hi, double *w)
{
    long double m[3][4] = {{0}}, p[3] = {0}, sum = 0;
    static const long double want[3][3] = {{1}, {0, 1}, {0, 0, 2}};

    for (int j = -lo; j <= hi; j++)
        sum += expl(-0.5L * j * j / sigma / sigma);
    if (lo + hi < order) {
        for (int j = -lo; j <= hi; j++)
            w[lo + j] = 0;
        return;
    }
    /* a first derivative between unlike sides has no second moment either, if there are samples for it */
    const int degree = order == 1 && lo != hi && lo + hi > 1 ? 2 : order;
    for (int r = 0; r <= degree; r++) {
        m[r][3] = want[order][r];
        for (int j = -lo; j <= hi; j++) {
            const long double g = expl(-0.5L * j * j / sigma / sigma) / sum;
            const long double d = order == 0 ? 0 : order == 1 ? j / (sigma * sigma)
                                : (long double)j * j / powl(sigma, 4) - 1 / (sigma * sigma);
            m[r][3] -= g * d * powl(j, r);
            for (int c = 0; c <= degree; c++)
                m[r][c] += g * powl(j, r + c);
        }
    }
    solve(degree + 1, m, p);
    for (int j = -lo; j <= hi; j++) {
        const long double g = expl(-0.5L * j * j / sigma / sigma) / sum;
        const long double d = order == 0 ? 0 : order == 1 ? j / (sigma * sigma)
                            : (long double)j * j / powl(sigma, 4) - 1 / (sigma * sigma);
        w[lo + j] = (double)(g * (d + p[0] + p[1] * j + p[2] * j * j));
    }
}

/* The sample that stands at p outside an axis of n: as numpy.pad's edge, symmetric and wrap say. */
static int outside(enum vp_edge edge, int p, int n)
{
    while (p < 0 || p >= n) {
        if (edge == VP_EDGE_ZERO)
            return -1;
        if (edge == VP_EDGE_NEAREST)
            p = p < 0 ? 0 : n - 1;
        else if (edge == VP_EDGE_WRAP)
            p += p < 0 ? n : -n;
        else
            p = p < 0 ? -p - 1 : 2 * n - 1 - p;
    }
    return p;
}

/* One axis of `a` (in place) filtered. */
static void filter_axis(double *a, const int64_t size[3], int axis, double sigma, int order, int radius,
                        enum vp_edge edge)
{
    const int n = (int)size[axis];
    const size_t step = axis == 0 ? 1 : axis == 1 ? (size_t)size[0] : (size_t)(size[0] * size[1]);
    double *const matrix = calloc((size_t)n * (size_t)n, sizeof *matrix);
    const bool clip = edge == VP_EDGE_RENORMALIZE;
    const int most = clip && order == 1 && radius == 1 ? 2 : radius; /* a quadratic needs three */
    double *const w = malloc((size_t)(2 * most + 1) * sizeof *w), *const line = malloc((size_t)n * sizeof *line);

    for (int i = 0, had = -1; i < n; i++) {
        const bool inside = !clip || (i >= radius && n - 1 - i >= radius);
        const int lo = inside ? radius : i < most ? i : most;
        const int hi = inside ? radius : n - 1 - i < most ? n - 1 - i : most;
        if (had != lo * (most + 1) + hi)
            weights(sigma, order, lo, hi, w);
        had = lo * (most + 1) + hi;
        for (int j = -lo; j <= hi; j++) {
            const int from = outside(edge, i + j, n);
            if (from >= 0)
                matrix[i * n + from] += w[lo + j];
        }
    }
    for (size_t at = 0; at < count(size); at++) {
        if (at / step % (size_t)n)
            continue;
        for (int i = 0; i < n; i++) {
            line[i] = 0;
            for (int k = 0; k < n; k++)
                line[i] += matrix[i * n + k] * a[at + (size_t)k * step];
        }
        for (int i = 0; i < n; i++)
            a[at + (size_t)i * step] = line[i];
    }
    free(matrix);
    free(w);
    free(line);
}

static int reach(double truncate, double sigma, int order)
{
    const int r = (int)(truncate * sigma + 0.5);
    return r < order ? order : r;
}

static double *reference(const float *in, const int64_t size[3], const double sigma[3], const int order[3],
                         int least, enum vp_edge edge)
{
    double *const a = malloc(count(size) * sizeof *a);

    for (size_t i = 0; i < count(size); i++)
        a[i] = in[i];
    for (int axis = 0; axis < 3; axis++)
        if (sigma[axis] > 0)
            filter_axis(a, size, axis, sigma[axis], order[axis],
                        reach(4, sigma[axis], least > order[axis] ? least : order[axis]), edge);
    return a;
}

static double difference(const float *got, const double *want, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(got[i] - want[i]);
        if (!(d <= worst))
            worst = d;
    }
    return worst;
}

static const struct { int64_t size[3]; double sigma[3]; } shapes[] = {
    {{37, 29, 23}, {1, 1, 1}},   {{41, 1, 30}, {3, 3, 3}},    {{19, 300, 1}, {3, 10, 0}}, {{1, 1, 1}, {2, 2, 2}},
    {{2, 1, 3}, {3, 3, 3}},      {{5, 4, 3}, {10, 0.5, 3}},   {{300, 9, 1}, {10, 0, 0}},  {{17, 33, 25}, {0, 2.6, 0}},
    {{9, 8, 40}, {0, 0, 1.3}},   {{33, 18, 24}, {3, 1, 0.4}}, {{3, 2, 2}, {0.3, 0.3, 0.3}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void test_definition(void)
{
    static const int orders[][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 0, 0}, {0, 2, 1}, {1, 1, 1}};

    for (int s = 0; s < SHAPES; s++)
        for (int e = 0; e < 5; e++)
            for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
                const int64_t *const size = shapes[s].size;
                const double *const sigma = shapes[s].sigma;
                struct vp_gauss_params p = gauss(sigma[0], sigma[1], sigma[2], edges[e]);
                double gain = edges[e] == VP_EDGE_ZERO ? 1.6 : 1; /* 0 beside 1 in every line */
                bool fits = true;
                for (int a = 0; a < 3; a++) {
                    p.order[a] = orders[o][a];
                    fits &= !p.order[a] || sigma[a] > 0;
                    gain *= p.order[a] ? 4 / pow(sigma[a] < 1 ? sigma[a] : 1, p.order[a]) : 1;
                }
                if (!fits)
                    continue;
                float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);
                double *const want = reference(in, size, sigma, p.order, 0, edges[e]);
                run_gauss(&p, size, VP_F32, VP_F32, in, out);
                CHECK_NEAR(difference(out, want, count(size)), 0, 1.2e-7 * gain);
                if (o == 0) {
                    p.highpass = true;
                    run_gauss(&p, size, VP_F32, VP_F32, in, out);
                    for (size_t i = 0; i < count(size); i++)
                        want[i] = in[i] - want[i];
                    CHECK_NEAR(difference(out, want, count(size)), 0, 1.2e-7 * gain);
                }
                free(in);
                free(out);
                free(want);
            }
}

/* Renormalised edges: lines about as long as the support of one voxel, along each axis, of noise, of noise between huge
 * and steep ends, and of one sample that stands out anywhere. Errors in units of the range of the samples. */
static void test_edges(void)
{
    static const struct { double sigma, limit; } filters[] = {{0.4, 1.5e-7}, {1, 1.5e-7}, {3, 2e-7}, {10, 3e-7}};

    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
        const int radius = reach(4, filters[f].sigma, 0);
        const int lengths[] = {1, radius, radius + 1, 2 * radius - 1, 2 * radius, 2 * radius + 1, 4 * radius + 3};
        double worst = 0;
        for (int k = 0; k < 3 * 7 * 6; k++) {
            const int axis = k % 3, n = lengths[k / 3 % 7], kind = k / 21;
            int64_t size[3] = {3, 2, 2};
            double sigma[3] = {0};
            size[axis] = n;
            sigma[axis] = filters[f].sigma;
            const struct vp_gauss_params p = gauss(sigma[0], sigma[1], sigma[2], VP_EDGE_RENORMALIZE);
            float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);
            const size_t step = axis == 0 ? 1 : axis == 1 ? (size_t)size[0] : (size_t)(size[0] * size[1]);
            float lo = INFINITY, hi = -INFINITY;
            for (size_t i = 0; i < count(size); i++) {
                const int at = (int)(i / step) % n;
                if (kind == 1 || kind == 2) /* the first, the last, by far; what comes next is far on the other side */
                    in[i] += at == (kind == 1 ? 0 : n - 1) ? 1e6f : at == (kind == 1 ? 1 : n - 2) ? -1e6f : 0;
                if (kind == 3)
                    in[i] = at == 0 || at == n - 1 ? 3e5f * in[i] : 1e4f + in[i];
                if (kind > 3)
                    in[i] = (float)(((int)i * 7 + kind) % 5 == 0);
                lo = fminf(lo, in[i]);
                hi = fmaxf(hi, in[i]);
            }
            double *const want = reference(in, size, sigma, (const int[3]){0}, 0, VP_EDGE_RENORMALIZE);
            run_gauss(&p, size, VP_F32, VP_F32, in, out);
            worst = fmax(worst, difference(out, want, count(size)) / fmax(hi - lo, fabsf(lo) / 2));
            free(in);
            free(out);
            free(want);
        }
        CHECK_NEAR(worst, 0, filters[f].limit);
    }
}

/* Sum over the axes of the nine passes. */
static void test_log(void)
{
    for (int s = 0; s < SHAPES; s++)
        for (int e = 0; e < 5; e++) {
            const int64_t *const size = shapes[s].size;
            const double *const sigma = shapes[s].sigma;
            const struct vp_log_params p = laplace(sigma[0], sigma[1], sigma[2], edges[e]);
            float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);
            double *const want = calloc(count(size), sizeof *want), gain = 0;
            for (int a = 0; a < 3; a++) {
                int order[3] = {0};
                if (sigma[a] == 0)
                    continue;
                gain += 1 / (sigma[a] * sigma[a]);
                order[a] = 2;
                double *const part = reference(in, size, sigma, order, 2, edges[e]);
                for (size_t i = 0; i < count(size); i++)
                    want[i] += part[i];
                free(part);
            }
            run_log(&p, size, in, out);
            CHECK_NEAR(difference(out, want, count(size)), 0, 3e-7 * (gain > 1 ? gain : 1));
            free(in);
            free(out);
            free(want);
        }
}

/* ---- the documented order of operations ---- */

static void by_the_book(float *a, const int64_t size[3], int axis, const struct vp_taps *t)
{
    const int64_t n = size[axis], r = t->radius;
    const size_t step = axis == 0 ? 1 : axis == 1 ? (size_t)size[0] : (size_t)(size[0] * size[1]);
    float *const x = malloc((size_t)(n + 2 * r) * sizeof *x), *const up = malloc((size_t)r * sizeof *up),
          *const down = malloc((size_t)r * sizeof *down);

    for (size_t at = 0; at < count(size); at++) {
        if (at / step % (size_t)n)
            continue;
        for (int64_t i = -r; i < n + r; i++) {
            const int64_t from = vp_edge_from(t->edge, i, n);
            x[r + i] = from < 0 ? 0 : a[at + (size_t)from * step];
        }
        for (int64_t i = 0; i < n; i++) {
            const float *const c = x + r + i;
            const int64_t hi = n - 1 - i, e = i < hi ? i : hi;
            const bool near = t->edge == VP_EDGE_RENORMALIZE && e < r;
            const bool own = near && (t->order > 0 || (i < r && hi < r));
            float acc = 0;
            if (own)
                vp_taps_edge(t, i, hi, up, down);
            for (int64_t k = r - 1; k >= 0; k--) {
                const float u = c[k + 1] - c[k], d = c[-k] - c[-k - 1];
                if (own) {
                    acc = fmaf(up[k], u, acc);
                    acc = fmaf(down[k], d, acc);
                } else {
                    acc = fmaf(t->t[k], t->order == 1 ? u + d : u - d, acc);
                }
            }
            float y = t->order == 0 ? c[0] + acc : acc;
            if (near && !own)
                y = fmaf(t->scale[e], fmaf(-t->t[e], x[e == i ? r : r + n - 1] - c[0], acc), c[0]);
            a[at + (size_t)i * step] = y;
        }
    }
    free(x);
    free(up);
    free(down);
}

static void test_bits(void)
{
    for (int k = 0; k < 60; k++) {
        const int64_t size[3] = {1 + any(70), 1 + any(60), 1 + any(30)};
        struct vp_gauss_params p = gauss(0.3 + 4 * uniform(), 0.3 + 4 * uniform(), 0.3 + 2 * uniform(), edges[k % 5]);
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);

        for (int a = 0; a < 3; a++)
            p.order[a] = k % 2 ? 0 : (int)any(3);
        CHECK_INT(vp_gauss_chain(&c, &p, size, VP_F32, VP_F32, &err), 0);
        const bool fused = use_isa(isas[k / 5 % 2]);
        apply(&c, in, out, 1);
        const struct vp_separable *const g = c.stage[0].params;
        for (int a = 0; a < 3; a++)
            if (g->taps[a][0].radius)
                by_the_book(in, size, a, &g->taps[a][0]);
        CHECK(!fused || !memcmp(in, out, count(size) * sizeof *out));
        vp_chain_free(&c);
        vp_isa_limit("avx512");
        free(in);
        free(out);
    }
}

/* ---- boxes ---- */

static void test_boxes(void)
{
    int columns = 0;

    for (int k = 0; k < 45; k++) {
        const int64_t size[3] = {1 + any(k % 9 ? 90 : 700), 1 + any(60), 1 + any(k % 3 ? 24 : 3)};
        const enum vp_edge edge = edges[k / 3 % 5];
        struct vp_gauss_params p = gauss(3 * uniform(), 3 * uniform(), 2 * uniform(), edge);
        const struct vp_log_params q = laplace(0.3 + 2 * uniform(), 0.3 + 2 * uniform(), 0.3 + uniform(), edge);
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;

        if (!use_isa(isas[k % 3]))
            continue;
        p.highpass = k % 4 == 1;
        p.iterations = k % 4 == 2 || k % 8 == 1 ? 2 : 1;
        if (k % 4 == 3)
            CHECK_INT(vp_log_chain(&c, &q, size, VP_F32, &err), 0);
        else
            CHECK_INT(vp_gauss_chain(&c, &p, size, VP_F32, VP_F32, &err), 0);
        float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);
        for (int i = 0; i < c.n; i++) {
            local_whole(&c.stage[i], in, out, 1);
            check_boxes(&c.stage[i], in, out, 1);
            if (c.stage[i].carry->state_bytes(&c.stage[i], &(struct vp_box){{0}, {size[0], size[1], 1}}, 1)) {
                check_columns(&c.stage[i], in, out, 2);
                columns++;
            }
            memcpy(in, out, count(size) * sizeof *in);
        }
        free(in);
        free(out);
        vp_chain_free(&c);
    }
    CHECK(columns > 10); /* of 67: not if wrapped, nor high-pass, nor without z */
    vp_isa_limit("avx512");
}

/* Images that are worked on in several tiles, of columns and of rows. */
static void test_tiles(void)
{
    static const struct { int64_t size[3]; double sigma[3]; } images[] = {{{700, 150, 12}, {1.5, 1, 1}},
                                                                          {{90, 500, 30}, {1, 3, 4}}};

    for (int k = 0; k < 4; k++) {
        const int64_t *const size = images[k % 2].size;
        const double *const s = images[k % 2].sigma;
        const struct vp_gauss_params p = gauss(s[0], s[1], s[2], k < 2 ? VP_EDGE_RENORMALIZE : VP_EDGE_WRAP);
        const struct vp_log_params q = laplace(s[0], s[1], s[2], VP_EDGE_RENORMALIZE);
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        float *const in = noise(size), *const out = malloc(count(size) * sizeof *out);

        if (k < 3)
            CHECK_INT(vp_gauss_chain(&c, &p, size, VP_F32, VP_F32, &err), 0);
        else
            CHECK_INT(vp_log_chain(&c, &q, size, VP_F32, &err), 0);
        check_tiles(&c.stage[0], in, out);
        if (k % 3 == 0 || k == 1)
            check_columns(&c.stage[0], in, out, 3);
        vp_chain_free(&c);
        free(in);
        free(out);
    }
}

/* ---- what must come out exactly ---- */

static void test_constants(void)
{
    static const float values[] = {0, 0.1f, -7.3f, 1e-30f, 1e37f, 16777215, 1.0f / 3, 3.4e-41f, 65535};

    for (int s = 0; s < SHAPES; s++)
        for (int e = 0; e < 5; e++)
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                const int64_t *const size = shapes[s].size;
                const double *const sigma = shapes[s].sigma;
                struct vp_gauss_params p = gauss(sigma[0], sigma[1], sigma[2], edges[e]);
                const struct vp_log_params q = laplace(sigma[0], sigma[1], sigma[2], edges[e]);
                float *const in = malloc(count(size) * sizeof *in), *const out = malloc(count(size) * sizeof *out);
                int wrong = 0;
                if (edges[e] == VP_EDGE_ZERO)
                    goto next;
                for (size_t i = 0; i < count(size); i++)
                    in[i] = values[v];
                run_gauss(&p, size, VP_F32, VP_F32, in, out);
                for (size_t i = 0; i < count(size); i++)
                    wrong += out[i] != values[v];
                run_log(&q, size, in, out);
                for (size_t i = 0; i < count(size); i++)
                    wrong += out[i] != 0;
                for (int a = 0; a < 3; a++)
                    p.order[a] = sigma[a] > 0 && (a == s % 3 || a == (int)v % 3);
                if (p.order[0] || p.order[1] || p.order[2]) {
                    run_gauss(&p, size, VP_F32, VP_F32, in, out);
                    for (size_t i = 0; i < count(size); i++)
                        wrong += out[i] != 0;
                }
                CHECK_INT(wrong, 0);
            next:
                free(in);
                free(out);
            }
}

/* c0 + sum of c[k] over x y z, and x^2 y^2 z^2 xy yz zx: whole numbers, so that samples are exact. */
static void polynomial(float *a, const int64_t size[3], const int c[10])
{
    for (int64_t z = 0; z < size[2]; z++)
        for (int64_t y = 0; y < size[1]; y++)
            for (int64_t x = 0; x < size[0]; x++)
                *a++ = (float)(c[0] + c[1] * x + c[2] * y + c[3] * z + c[4] * x * x + c[5] * y * y + c[6] * z * z
                               + c[7] * x * y + c[8] * y * z + c[9] * z * x);
}

/* What rounding the largest sample to f32 may do, times the sum of the weights' sizes. */
static double rounding(const float *a, size_t n, double gain)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i]));
    return FLT_EPSILON / 2 * most * gain;
}

static void test_polynomials(void)
{
    static const int64_t sizes[][3] = {{40, 37, 33}, {9, 40, 3}, {3, 3, 3}, {120, 5, 4}};
    static const double sigmas[][3] = {{1, 1, 1}, {3, 2, 0.7}, {10, 3, 1}, {0.25, 0.3, 0.5}};
    static const int ramp[10] = {100, 3, -2, 5}, square[10] = {7, -1, 2, 0, 2, -1, 3, 1, -2, 1};
    static const int apart[10] = {7, -1, 2, 0, 2, -1, 3}; /* for smoothing moves the products at the edges */

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t g = 0; g < sizeof sigmas / sizeof *sigmas; g++) {
            const int64_t *const size = sizes[s];
            const double *const sigma = sigmas[g];
            const size_t n = count(size);
            float *const in = malloc(n * sizeof *in), *const out = malloc(n * sizeof *out);
            double *const want = malloc(n * sizeof *want);
            struct vp_gauss_params p = gauss(sigma[0], sigma[1], sigma[2], VP_EDGE_RENORMALIZE);
            struct vp_log_params q = laplace(sigma[0], sigma[1], sigma[2], VP_EDGE_RENORMALIZE);

            for (int a = 0; a < 3; a++) {
                polynomial(in, size, ramp);
                memset(p.order, 0, sizeof p.order);
                p.order[a] = 1;
                p.spacing[a] = 0.5;
                run_gauss(&p, size, VP_F32, VP_F32, in, out);
                for (size_t i = 0; i < n; i++)
                    want[i] = 2 * ramp[1 + a];
                CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 4));
                polynomial(in, size, apart);
                run_gauss(&p, size, VP_F32, VP_F32, in, out);
                for (size_t i = 0; i < n; i++) {
                    const size_t at[3] = {i % (size_t)size[0], i / (size_t)size[0] % (size_t)size[1],
                                          i / (size_t)(size[0] * size[1])};
                    want[i] = 2 * (apart[1 + a] + 2 * apart[4 + a] * (double)at[a]);
                }
                CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 8));
                polynomial(in, size, square);
                p.order[a] = 2;
                run_gauss(&p, size, VP_F32, VP_F32, in, out);
                for (size_t i = 0; i < n; i++)
                    want[i] = 8 * square[4 + a];
                CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 16));
                p.spacing[a] = 1;
            }
            polynomial(in, size, ramp);
            run_log(&q, size, in, out);
            for (size_t i = 0; i < n; i++)
                want[i] = 0;
            CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 12));
            polynomial(in, size, square);
            run_log(&q, size, in, out);
            for (size_t i = 0; i < n; i++)
                want[i] = 2 * (square[4] + square[5] + square[6]);
            CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 12));
            q.normalize = true;
            run_log(&q, size, in, out);
            for (size_t i = 0; i < n; i++) {
                want[i] = 0;
                for (int a = 0; a < 3; a++)
                    want[i] += 2 * square[4 + a] * sigma[a] * sigma[a];
            }
            CHECK_NEAR(difference(out, want, n), 0, rounding(in, n, 12) * fmax(1, sigma[0] * sigma[0]));
            free(in);
            free(out);
            free(want);
        }
    /* inside, ramps of whole numbers go through without any error */
    const int64_t size[3] = {90, 80, 70};
    const struct vp_gauss_params p = gauss(3, 2, 1.5, VP_EDGE_NEAREST);
    float *const in = malloc(count(size) * sizeof *in), *const out = malloc(count(size) * sizeof *out);
    int wrong = 0;
    polynomial(in, size, ramp);
    run_gauss(&p, size, VP_F32, VP_F32, in, out);
    for (int64_t z = 6; z < 64; z++)
        for (int64_t y = 8; y < 72; y++)
            for (int64_t x = 12; x < 78; x++)
                wrong += out[(z * 80 + y) * 90 + x] != in[(z * 80 + y) * 90 + x];
    CHECK_INT(wrong, 0);
    free(in);
    free(out);
}

/* ---- types ---- */

static void test_integers(void)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16};
    static const double lo[] = {0, 0, -32768}, hi[] = {255, 65535, 32767};
    const int64_t size[3] = {45, 31, 20};
    const size_t n = count(size);

    for (int k = 0; k < 9; k++) {
        const int t = k % 3;
        struct vp_gauss_params p = gauss(1.5, 2, 1, VP_EDGE_RENORMALIZE);
        float *const in = noise(size), *const real = malloc(n * sizeof *real);
        void *const raw = malloc(n * 4), *const out = malloc(n * 4);
        int wrong = 0;

        for (size_t i = 0; i < n; i++)
            in[i] = (float)rint(lo[t] + in[i] * (hi[t] - lo[t]));
        vp_convert(raw, types[t], in, VP_F32, (int64_t)n, 1, 0);
        double *const want = reference(in, size, p.sigma, (const int[3]){0}, 0, p.edge);
        if (!use_isa(isas[k / 3]))
            vp_isa_limit("avx512");
        run_gauss(&p, size, types[t], VP_F32, raw, real);
        CHECK_NEAR(difference(real, want, n), 0, 1.2e-7 * (hi[t] - lo[t]));
        run_gauss(&p, size, types[t], types[t], raw, out);
        vp_convert(real, VP_F32, out, types[t], (int64_t)n, 1, 0);
        for (size_t i = 0; i < n; i++)
            wrong += fabs(real[i] - want[i]) > 0.5 + 1.2e-7 * (hi[t] - lo[t]);
        CHECK_INT(wrong, 0);
        /* a high-pass leaves the range of the type at both ends: nearest, clamped */
        p.highpass = true;
        run_gauss(&p, size, types[t], types[t], raw, out);
        vp_convert(real, VP_F32, out, types[t], (int64_t)n, 1, 0);
        for (size_t i = 0; i < n; i++)
            wrong += fabs(real[i] - fmin(hi[t], fmax(lo[t], in[i] - want[i]))) > 0.5 + 1.2e-7 * (hi[t] - lo[t]);
        CHECK_INT(wrong, 0);
        vp_isa_limit("avx512");
        free(in);
        free(real);
        free(raw);
        free(out);
        free(want);
    }
}

/* What is not a number reaches all outputs within the radius and no other, at the edges too. */
static void test_not_finite(void)
{
    static const int places[][2] = {{20, 20}, {0, 0}, {1, 39}, {39, 3}, {5, 0}, {38, 38}};
    static const double sigmas[] = {1, 2.5, 5, 9}; /* with radius 20 the edges just meet, with 36 both are near */
    const int64_t size[3] = {40, 40, 1};
    float *const in = noise(size), *const out = malloc(count(size) * sizeof *out),
          *const sane = malloc(count(size) * sizeof *sane);
    uint8_t *const small = malloc(count(size));

    for (int k = 0; k < 6 * 4 * 3 * 2; k++) {
        static const float odd[] = {NAN, INFINITY, -INFINITY};
        const int px = places[k % 6][0], py = places[k % 6][1];
        const double sigma = sigmas[k / 6 % 4];
        const int r = reach(4, sigma, 0);
        const struct vp_gauss_params p = gauss(sigma, sigma, 0, VP_EDGE_RENORMALIZE);
        const float was = in[py * 40 + px];
        int wrong = 0;
        use_isa(isas[k % 3]);
        run_gauss(&p, size, VP_F32, VP_F32, in, sane);
        in[py * 40 + px] = odd[k / 24 % 3];
        run_gauss(&p, size, VP_F32, VP_F32, in, out);
        run_gauss(&p, size, VP_F32, VP_U8, in, small);
        vp_isa_limit("avx512");
        in[py * 40 + px] = was;
        for (int y = 0; y < 40; y++)
            for (int x = 0; x < 40; x++) {
                const bool near = abs(x - px) <= r && abs(y - py) <= r;
                const float got = out[y * 40 + x];
                wrong += near ? isfinite(got) : memcmp(&got, &sane[y * 40 + x], sizeof got) != 0;
                wrong += isnan(got) && small[y * 40 + x] != 0;
            }
        CHECK_INT(wrong, 0);
    }
    free(in);
    free(out);
    free(sane);
    free(small);
}

/* ---- refusals ---- */

static void refused(const struct vp_gauss_params *p, const char *why)
{
    const int64_t size[3] = {10, 10, 10};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_gauss_chain(&c, p, size, VP_U8, VP_U8, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    if (!strstr(err.msg, why))
        CHECK_STR(err.msg, why);
    vp_chain_free(&c);
}

static void test_refusals(void)
{
    struct vp_gauss_params p = gauss(-1, 1, 1, VP_EDGE_NEAREST);
    refused(&p, "--sigma: expected 0 or more along x");
    p = gauss(1, NAN, 1, VP_EDGE_NEAREST);
    refused(&p, "along y");
    p = gauss(1, 1, 1000, VP_EDGE_NEAREST);
    refused(&p, "the limit is 2048");
    p = gauss(1, 1, 0, VP_EDGE_NEAREST);
    p.order[2] = 1;
    refused(&p, "--derivative: expected a --sigma of at least 0.25 voxels along z");
    p.order[2] = 0;
    p.order[0] = 3;
    refused(&p, "expected 0, 1 or 2 along x");
    p.order[0] = 1;
    p.highpass = true;
    refused(&p, "cannot be combined");
    p.highpass = false;
    p.iterations = 0;
    refused(&p, "--iterations");
    p = gauss(1, 1, 1, VP_EDGE_NEAREST);
    p.truncate = 0;
    refused(&p, "--truncate");
    const int64_t size[3] = {10, 10, 10};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    const struct vp_log_params nothing = laplace(0, 0, 0, VP_EDGE_NEAREST), thin = laplace(1, 0.2, 1, VP_EDGE_ZERO);
    CHECK_INT(vp_log_chain(&c, &nothing, size, VP_U8, &err), -1);
    CHECK_STR(err.msg, "--sigma: expected more than 0 along one axis at least");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_log_chain(&c, &thin, size, VP_U8, &err), -1);
    CHECK_STR(err.msg, "--sigma: expected 0 or at least 0.25 voxels along y, got 0.2");
}

int main(void)
{
    test_definition();
    test_edges();
    test_log();
    test_bits();
    test_boxes();
    test_tiles();
    test_constants();
    test_polynomials();
    test_integers();
    test_not_finite();
    test_refusals();
    return test_done();
}
