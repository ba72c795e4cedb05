/* SPDX-License-Identifier: BSD-3-Clause */
/* Deconvolution against its definition in float64, and what it promises: blur is taken away, edges do not ring, what is
 * not finite is left out, threads change nothing. */
#include "base/err.h"
#include "base/fft64.h"
#include "local/deconvolve.h"
#include "boxes.h"
#include "test.h"

#include <stdlib.h>

static double uniform(void)
{
    return (double)random_bits() / 9007199254740992.0;
}

/* ---- the definition: a matrix ---- */

struct system { int64_t voxels, frame[3], before[3]; double *a; /* [p][q]: what voxel q of the frame gives to p */ };

static double hat(const double *node, int64_t n, int64_t i, double x)
{
    if (i > 0 && x < node[i])
        return fmax(0, (x - node[i - 1]) / (node[i] - node[i - 1]));
    if (i < n - 1 && x > node[i])
        return fmax(0, (node[i + 1] - x) / (node[i + 1] - node[i]));
    return 1;
}

static struct system make_system(const struct vp_convolve_given *k, const int64_t image[3])
{
    struct system s = {.voxels = 1};
    const int64_t *n = k->n, size = n[0] * n[1] * n[2];
    double node[2][4];

    for (int a = 0; a < 3; a++) {
        s.before[a] = n[a] - 1 - n[a] / 2;
        s.frame[a] = image[a] + n[a] - 1;
        s.voxels *= s.frame[a];
    }
    for (int a = 0; a < 2; a++)
        for (int64_t i = 0; i < k->nodes[a]; i++)
            node[a][i] = ((double)i + 0.5) * (double)image[a] / (double)k->nodes[a] - 0.5 + (double)s.before[a];
    s.a = calloc((size_t)(s.voxels * s.voxels), sizeof *s.a);
    for (int64_t p = 0; p < s.voxels; p++)
        for (int64_t q = 0; q < s.voxels; q++) {
            int64_t i[3], at[3], from[3], rest[2] = {p, q};
            bool reached = true;
            for (int a = 0; a < 3; a++) {
                at[a] = rest[0] % s.frame[a];
                from[a] = rest[1] % s.frame[a];
                rest[0] /= s.frame[a];
                rest[1] /= s.frame[a];
                i[a] = at[a] - from[a] + n[a] / 2;
                reached = reached && i[a] >= 0 && i[a] < n[a];
            }
            const int64_t *w = k->weights == VP_WEIGHTS_SOURCE ? from : at;
            for (int64_t v = 0; v < k->nodes[1] && reached; v++)
                for (int64_t u = 0; u < k->nodes[0]; u++) {
                    const float *kernel = k->kernels + (v * k->nodes[0] + u) * size;
                    double sum = 0;
                    for (int64_t j = 0; j < size; j++)
                        sum += kernel[j];
                    s.a[p * s.voxels + q] += hat(node[0], k->nodes[0], u, (double)w[0])
                                             * hat(node[1], k->nodes[1], v, (double)w[1])
                                             * kernel[(i[2] * n[1] + i[1]) * n[0] + i[0]] / sum;
                }
        }
    return s;
}

static void times(const struct system *s, const double *x, double *y, bool adjoint)
{
    for (int64_t p = 0; p < s->voxels; p++) {
        y[p] = 0;
        for (int64_t q = 0; q < s->voxels; q++)
            y[p] += s->a[adjoint ? q * s->voxels + p : p * s->voxels + q] * x[q];
    }
}

/* Where voxel i of the image is in the frame. */
static int64_t place(const struct system *s, const int64_t image[3], int64_t i)
{
    const int64_t x = i % image[0] + s->before[0], y = i / image[0] % image[1] + s->before[1];

    return ((i / image[0] / image[1] + s->before[2]) * s->frame[1] + y) * s->frame[0] + x;
}

static void naive(const struct system *s, const int64_t image[3], const float *data, const struct vp_deconvolve_given *g,
                  double *out)
{
    const int64_t n = s->voxels, m = image[0] * image[1] * image[2];
    double *d = malloc((size_t)n * sizeof *d), *x = malloc((size_t)n * sizeof *x), *t = malloc((size_t)n * sizeof *t);
    double *u = malloc((size_t)n * sizeof *u), *norm = malloc((size_t)n * sizeof *norm), mean = 0;

    for (int64_t i = 0; i < n; i++)
        d[i] = NAN;
    for (int64_t i = 0; i < m; i++) {
        d[place(s, image, i)] = data[i];
        mean += data[i] / (double)m;
    }
    for (int64_t i = 0; i < n; i++) {
        t[i] = !isnan(d[i]);
        x[i] = mean - g->background;
    }
    times(s, t, norm, true);
    for (int64_t k = 0; k < g->iterations; k++) {
        times(s, x, t, false);
        for (int64_t i = 0; i < n; i++)
            t[i] = isnan(d[i]) ? 0 : fmax(d[i], 0) / (t[i] + g->background);
        times(s, t, u, true);
        for (int64_t i = 0; i < n; i++)
            x[i] = norm[i] > 1e-3 ? x[i] * u[i] / norm[i] : x[i];
    }
    for (int64_t i = 0; i < m; i++)
        out[i] = x[place(s, image, i)];
    free(d);
    free(x);
    free(t);
    free(u);
    free(norm);
}

static int apply(const struct vp_deconvolve_given *g, const int64_t image[3], const void *in, enum vp_type type, void *out,
                 int threads)
{
    const enum vp_type result = type == VP_F64 ? VP_F64 : VP_F32;
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    struct vp_op op;
    const void *from = in;

    CHECK_INT(vp_deconvolve_local(&op, g, image, type, result, &err), 0);
    CHECK_STR(err.msg, "");
    if (err.code)
        return -1;
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    const int rc = vp_chain_apply(&c, &from, out, threads, &err);
    CHECK_STR(err.msg, "");
    vp_chain_free(&c);
    return rc;
}

static void test_definition(void)
{
    static const struct { int64_t image[3], n[3], nodes[2]; enum vp_weights weights; double background; } cases[] = {
        {{17, 14, 1}, {5, 4, 1}, {1, 1}, 0, 0},
        {{12, 15, 1}, {4, 7, 1}, {1, 1}, 0, 0.05},
        {{7, 6, 5}, {3, 4, 3}, {1, 1}, 0, 0},
        {{18, 12, 1}, {4, 5, 1}, {2, 2}, VP_WEIGHTS_OUTPUT, 0},
        {{16, 13, 1}, {5, 3, 1}, {3, 2}, VP_WEIGHTS_SOURCE, 0},
        {{4, 3, 1}, {7, 6, 1}, {1, 1}, 0, 0},
    };

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int64_t *n = cases[c].n, *image = cases[c].image, m = image[0] * image[1] * image[2];
        float kernels[6 * 64], data[300], out[300], again[300];
        double want[300], off = 0, most = 0;
        struct vp_deconvolve_given g = {.kernel = {.n = {n[0], n[1], n[2]}, .nodes = {cases[c].nodes[0], cases[c].nodes[1]},
                                                   .kernels = kernels, .weights = cases[c].weights},
                                        .iterations = 6, .background = cases[c].background};
        for (int i = 0; i < 6 * 64; i++)
            kernels[i] = (float)(0.2 + uniform());
        for (int64_t i = 0; i < m; i++)
            data[i] = (float)(0.5 + uniform());
        data[1] = -0.25f;
        struct system s = make_system(&g.kernel, image);
        naive(&s, image, data, &g, want);
        apply(&g, image, data, VP_F32, out, 1);
        for (int64_t i = 0; i < m; i++) {
            off = fmax(off, fabs(out[i] - want[i]));
            most = fmax(most, fabs(want[i]));
        }
        if (&vp_fftw) { /* in f64 */
            double exact[6 * 64], data64[300], out64[300], off64 = 0;
            for (int i = 0; i < 6 * 64; i++)
                exact[i] = kernels[i];
            for (int64_t i = 0; i < m; i++)
                data64[i] = data[i];
            g.kernel.exact = exact;
            g.kernel.fft = &vp_fftw;
            apply(&g, image, data64, VP_F64, out64, 2);
            for (int64_t i = 0; i < m; i++)
                off64 = fmax(off64, fabs(out64[i] - want[i]));
            CHECK(off64 < 1e-12 * most);
        }
        CHECK(off < 1e-5 * most);
        if (!(off < 1e-5 * most))
            printf("case %d: %g of the maximum\n", (int)c, off / most);
        for (int threads = 2; threads < 6; threads++) {
            apply(&g, image, data, VP_F32, again, threads);
            CHECK(!memcmp(out, again, (size_t)m * sizeof *out));
        }
        free(s.a);
    }
}

struct told { int64_t iterations; double first, residual; int ended; };

static void tell(void *ctx, int64_t page, int64_t iteration, double residual, bool last)
{
    struct told *t = ctx;

    CHECK_INT(page, 0);
    if (iteration == 1 && !last)
        t->first = residual;
    t->iterations = iteration;
    t->residual = residual;
    t->ended += last;
}

/* Points on a floor, blurred: every way brings them nearer to what they were; acceleration and stopping do what they
 * say. */
static void test_points(void)
{
    enum { N = 64 };
    const int64_t image[3] = {N, N, 1};
    static float truth[N * N], blurred[N * N], out[N * N], k[11 * 9];
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    struct vp_op op;
    const void *from = truth;
    double before = 0, plain = 0, quick = 0;

    for (int i = 0; i < 99; i++)
        k[i] = expf(-0.3f * (float)((i % 11 - 5) * (i % 11 - 5) + (i / 11 - 4) * (i / 11 - 4)));
    for (int i = 0; i < N * N; i++)
        truth[i] = 1 + (random_bits() % 100 == 0 ? 50 : 0);
    const struct vp_convolve_given blur = {.n = {11, 9, 1}, .nodes = {1, 1}, .kernels = k, .normalize = true,
                                           .edge = VP_EDGE_MIRROR};
    CHECK_INT(vp_convolve_local(&op, &blur, image, VP_F32, VP_F32, &err), 0);
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    CHECK_INT(vp_chain_apply(&c, &from, blurred, 1, &err), 0);
    vp_chain_free(&c);
    for (int way = 0; way < 6; way++) {
        struct told told = {0};
        struct vp_deconvolve_given g = {.kernel = blur, .iterations = way == 3 ? 500 : 40, .tell = tell, .ctx = &told,
                                        .accelerate = way == 1 || way == 3, .tv = way == 2 ? 0.002 : 0,
                                        .stop = way == 3 ? 0.02 : way == 5 ? 0.2 : 0, .noise = 1e-4,
                                        .method = way > 3 ? VP_LEAST_SQUARES : VP_RICHARDSON_LUCY};
        double off = 0;
        apply(&g, image, blurred, VP_F32, out, 2);
        before = 0;
        for (int i = 0; i < N * N; i++) {
            before += (blurred[i] - truth[i]) * (blurred[i] - truth[i]);
            off += (out[i] - truth[i]) * (out[i] - truth[i]);
        }
        CHECK(off < (way == 5 ? 1 : 0.8) * before);
        CHECK_INT(told.ended, 1);
        CHECK(told.residual < told.first || way > 3);
        if (way == 0 || way == 1 || way == 2)
            CHECK_INT(told.iterations, 40);
        if (way == 3 || way == 5)
            CHECK(told.iterations > 0 && told.iterations < (way == 3 ? 500 : 40));
        if (way == 0)
            plain = off;
        if (way == 1)
            quick = off;
    }
    CHECK(quick < plain);
}

/* A constant is one, up to the edges; so it is where samples are missing, and beside something bright beyond an
 * edge. */
static void test_edges(void)
{
    enum { NX = 50, NY = 40 };
    const int64_t image[3] = {NX, NY, 1};
    static float in[NX * NY], out[NX * NY], k[9 * 9];

    for (int i = 0; i < 81; i++)
        k[i] = expf(-0.08f * (float)((i % 9 - 4) * (i % 9 - 4) + (i / 9 - 4) * (i / 9 - 4)));
    for (int way = 0; way < 3; way++) {
        struct vp_deconvolve_given g = {.kernel = {.n = {9, 9, 1}, .nodes = {1, 1}, .kernels = k}, .iterations = 30,
                                        .method = way == 2 ? VP_LEAST_SQUARES : VP_RICHARDSON_LUCY, .accelerate = way == 1,
                                        .noise = 1e-3};
        double off = 0;
        for (int i = 0; i < NX * NY; i++)
            in[i] = 7;
        in[20 * NX + 30] = NAN;
        in[21 * NX + 30] = INFINITY;
        apply(&g, image, in, VP_F32, out, 1);
        for (int i = 0; i < NX * NY; i++)
            off = fmax(off, fabs(out[i] - 7));
        CHECK_NEAR(off, 0, 2e-4);
        if (way == 2)
            continue;
        /* the light of a lamp two pixels outside falls in: what is inside must stay dark behind its reach */
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++)
                in[y * NX + x] = 1 + (x <= 2 && abs(y - 20) <= 4 ? 1000 * k[(y - 20 + 4) * 9 + x + 2 + 4] : 0);
        apply(&g, image, in, VP_F32, out, 1);
        off = 0;
        for (int y = 0; y < NY; y++)
            for (int x = 12; x < NX; x++)
                off = fmax(off, fabs(out[y * NX + x] - 1));
        CHECK_NEAR(off, 0, 3); /* of 700 at the edge */
    }
}

/* A constant stays one, up to the edges and however long; where nothing is known, nothing is made up. */
static void test_constant(void)
{
    enum { N = 50 * 40 * 6 };
    static float k[4 * 21 * 17 * 3], in[N], out[N];
    static double k64[4 * 21 * 17 * 3], in64[N], out64[N];

    for (int i = 0; i < 12; i++) {
        const int kind = i % 4; /* images, volumes, grids with weights of the output and of the source */
        const bool wide = i == 4 && &vp_fftw;
        const int64_t image[3] = {50, 40, kind == 1 ? 6 : 1}, voxels = image[0] * image[1] * image[2];
        struct vp_deconvolve_given g = {.kernel = {.n = {21, 17, kind == 1 ? 3 : 1}, .nodes = {kind > 1 ? 2 : 1, kind > 1 ? 2 : 1},
                                                   .kernels = k, .exact = k64, .fft = wide ? &vp_fftw : NULL,
                                                   .weights = kind == 3 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT},
                                        .iterations = kind > 1 ? 6 : 20, .accelerate = i / 4 == 1, .tv = i / 4 == 2 ? 0.002 : 0};
        double off = 0;
        for (int n = 0; n < 4 * 21 * 17 * 3; n++) {
            const double x = n % 21 - 10, y = n / 21 % 17 - 8, z = n / 21 / 17 % 3 - 1;
            k64[n] = k[n] = (float)exp(-(x * x / 12 + y * y / 9 + (kind == 1 ? z * z : 0)));
        }
        for (int n = 0; n < N; n++)
            in64[n] = in[n] = 7.3f;
        apply(&g, image, wide ? (void *)in64 : in, wide ? VP_F64 : VP_F32, wide ? (void *)out64 : out, 2);
        for (int64_t n = 0; n < voxels; n++)
            off = fmax(off, fabs((wide ? out64[n] : out[n]) - in64[n]));
        CHECK(off <= 1e-6 * 7.3);
        if (!(off <= 1e-6 * 7.3))
            printf("case %d: %g\n", i, off / 7.3);
        for (int n = 0; n < N; n++)
            in64[n] = in[n] = n % 2 ? NAN : INFINITY;
        g.iterations = 1;
        for (int method = 0; method < 2; method++) {
            int known = 0;
            g.method = method ? VP_LEAST_SQUARES : VP_RICHARDSON_LUCY;
            apply(&g, image, wide ? (void *)in64 : in, wide ? VP_F64 : VP_F32, wide ? (void *)out64 : out, 2);
            for (int64_t n = 0; n < voxels; n++)
                known += !isnan(wide ? out64[n] : out[n]);
            CHECK_INT(known, 0);
        }
    }
}

static void test_errors(void)
{
    const int64_t image[3] = {20, 20, 1};
    const float k[27] = {1}, zero[27] = {0};
    struct vp_op op;

    for (int i = 0; i < 4; i++) {
        struct vp_deconvolve_given g = {.kernel = {.n = {3, 3, 1}, .nodes = {1, 1}, .kernels = i == 1 ? zero : k},
                                        .iterations = i == 0 ? 0 : 3, .tv = i == 2 ? 1 : 0};
        struct vp_err err = VP_ERR_INIT;
        CHECK_INT(vp_deconvolve_local(&op, &g, image, i == 3 ? VP_F64 : VP_F32, VP_F32, &err), -1);
        CHECK(err.msg[0]);
    }
}

int main(void)
{
    test_definition();
    test_points();
    test_edges();
    test_constant();
    test_errors();
    return test_done();
}
