/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution against the sum that defines it in float64, for every method, edge and model of weights; pieces of an
 * image against the whole; transforms against theirs. */
#include "base/err.h"
#include "base/fft.h"
#include "base/fft64.h"
#include "local/convolve.h"
#include "local/convolve_internal.h"
#include "local/gauss.h"
#include "boxes.h"
#include "samples.h"
#include "test.h"

#include <complex.h>
#include <stdlib.h>

static const char *const ISAS[] = {"avx512", "avx2", "generic"};

static double uniform(void)
{
    return (double)random_bits() / 9007199254740992.0;
}

/* ---- the definition ---- */

struct setting {
    struct vp_convolve_given g;
    int64_t image[3];
    double node[2][8];
    double offset, huge;       /* added to all samples; if not 0, added to one of them, too */
    bool cancels;              /* samples of kernels add up to about 0 */
};

/* The weight of a node: a hat, 1 beyond the first and the last. */
static double hat(const double *node, int64_t n, int64_t i, double x)
{
    if (i > 0 && x < node[i])
        return fmax(0, (x - node[i - 1]) / (node[i] - node[i - 1]));
    if (i < n - 1 && x > node[i])
        return fmax(0, (node[i + 1] - x) / (node[i + 1] - node[i]));
    return 1;
}

/* The result at voxel at[] of the image, which may lie beyond it. */
static double naive(const struct setting *s, const double *v, const double *kernels, const int64_t at[3])
{
    const struct vp_convolve_given *g = &s->g;
    const int64_t *n = g->n, size = n[0] * n[1] * n[2];
    long double sum = 0, all = 0, in = 0;
    double w[2][8];
    int64_t k[3], q[3];

    for (int a = 0; a < 2; a++)
        for (int64_t i = 0; i < g->nodes[a]; i++)
            w[a][i] = hat(s->node[a], g->nodes[a], i, (double)at[a]);
    for (k[2] = 0; k[2] < n[2]; k[2]++)
        for (k[1] = 0; k[1] < n[1]; k[1]++)
            for (k[0] = 0; k[0] < n[0]; k[0]++) {
                int64_t from = 0, inside = 1, step = 1;
                long double weight = 0;
                for (int a = 0; a < 3; a++, step *= s->image[a - 1]) {
                    const int64_t off = k[a] - n[a] / 2;
                    q[a] = g->correlate ? at[a] + off : at[a] - off;
                    int64_t p = q[a];
                    if (p < 0 || p >= s->image[a]) {
                        inside = 0;
                        p = g->edge == VP_EDGE_RENORMALIZE ? -1 : vp_edge_from(g->edge, p, s->image[a]);
                    }
                    from = p < 0 || from < 0 ? -1 : from + p * step;
                }
                for (int64_t j = 0; j < g->nodes[1]; j++)
                    for (int64_t i = 0; i < g->nodes[0]; i++) {
                        const double *kernel = kernels + (j * g->nodes[0] + i) * size;
                        const double x = g->weights == VP_WEIGHTS_SOURCE
                                             ? hat(s->node[0], g->nodes[0], i, (double)q[0])
                                                   * hat(s->node[1], g->nodes[1], j, (double)q[1])
                                             : w[0][i] * w[1][j];
                        weight += x * kernel[(k[2] * n[1] + k[1]) * n[0] + k[0]];
                    }
                all += weight;
                in += inside ? weight : 0;
                sum += from < 0 ? 0 : weight * v[from];
            }
    return (double)(g->edge == VP_EDGE_RENORMALIZE ? sum * all / in : sum);
}

/* ---- random settings ---- */

/* The first voxel that there is a result of, and how many there are. */
static void size_of(const struct setting *s, int64_t first[3], int64_t n[3])
{
    for (int a = 0; a < 3; a++) {
        const int64_t over = s->g.n[a] - 1, before = s->g.correlate ? over - s->g.n[a] / 2 : s->g.n[a] / 2;
        const int crop = s->g.crop;
        first[a] = crop == VP_CROP_FULL ? -before : crop == VP_CROP_VALID ? over - before : 0;
        n[a] = s->image[a] + (crop == VP_CROP_FULL ? over : crop == VP_CROP_VALID ? -over : 0);
    }
}

static void make_setting(struct setting *s, float *kernels, double *raw, double *exact)
{
    struct vp_convolve_given *g = &s->g;
    const int64_t n = g->n[0] * g->n[1] * g->n[2];

    for (int a = 0; a < 2; a++) {
        const double part = (double)s->image[a] / (double)g->nodes[a];
        for (int64_t i = 0; i < g->nodes[a]; i++)
            s->node[a][i] = ((double)i + 0.5 + (g->nodes[a] > 1 ? 0.6 * (uniform() - 0.5) : 0)) * part - 0.5;
        g->node[a] = s->node[a];
    }
    for (int64_t k = 0; k < g->nodes[0] * g->nodes[1]; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            raw[k * n + i] = (uniform() - (s->cancels ? 0.5 : 0)) * exp(-0.02 * (double)(i % 17)) / (double)n;
            raw[k * n + i] -= s->cancels && i == n - 1 ? sum + raw[k * n + i] : 0;
            kernels[k * n + i] = (float)raw[k * n + i];
            raw[k * n + i] = g->fft ? raw[k * n + i] : kernels[k * n + i];
            sum += raw[k * n + i];
        }
        for (int64_t i = 0; i < n; i++)
            exact[k * n + i] = raw[k * n + i] / (g->normalize ? sum : 1);
    }
    g->kernels = kernels;
    g->exact = raw;
}

/* Bound on the error of results: `by` for the contrast of the image, times the factor where an edge is
 * renormalised, and `share` of a result and of what a huge sample makes. */
struct bound { double by, edge, share, huge; };

static struct bound bound_of(const struct setting *s, const double *v, int64_t voxels, const double *kernels,
                             enum vp_type in, enum vp_type type)
{
    const int64_t n = s->g.n[0] * s->g.n[1] * s->g.n[2];
    double lo = INFINITY, hi = -INFINITY, most = 0, tap = 0;
    const bool grid = s->g.nodes[0] * s->g.nodes[1] > 1;
    const double digit = in == VP_F64 ? 1e-16 : 6e-8; /* of what offsets are multiplied with: weights in f64, sums at edges */
    struct bound b = {.share = (type == VP_F64 ? 1e-15 : 1.3e-7) * (s->huge != 0 ? 8 : 1)};

    for (int64_t i = 0; i < voxels; i++) {
        const bool huge = s->huge != 0 && i == voxels / 3;
        lo = fmin(lo, huge ? lo : v[i]);
        hi = fmax(hi, huge ? hi : v[i]);
    }
    for (int64_t k = 0; k < s->g.nodes[0] * s->g.nodes[1]; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += fabs(kernels[k * n + i]);
        for (int64_t i = 0; i < n; i++)
            tap = fmax(tap, fabs(kernels[k * n + i]));
        most = fmax(most, sum);
    }
    b.by = (in == VP_F64 ? 2e-14 : 5e-7) * (hi - lo) * most * (s->g.edge == VP_EDGE_RENORMALIZE ? 4 : 1);
    b.by += vp_type_is_float(type) ? 0 : 0.5; /* to integers */
    b.huge = grid ? 8 * digit * s->huge * tap : 0;
    b.by += in == VP_F64 && grid ? 8 * digit * fabs(s->offset) * most : 0;
    b.edge = b.by + ((in == VP_F64 || grid) && s->g.edge == VP_EDGE_ZERO ? 8 * digit * fabs(s->offset) * most : 0);
    return b;
}

static bool is_at_edge(const struct setting *s, const int64_t at[3])
{
    for (int a = 0; a < 3; a++)
        if (at[a] < s->g.n[a] || at[a] >= s->image[a] - s->g.n[a])
            return true;
    return false;
}

static double worst; /* in parts of the bound */

/* One setting against the definition with every instruction set, and in random boxes. */
static void compare(struct setting *s, enum vp_type in, enum vp_type type, int boxes)
{
    int64_t n[3], first[3];
    size_of(s, first, n);
    const int64_t voxels = s->image[0] * s->image[1] * s->image[2], results = n[0] * n[1] * n[2];
    const int64_t kernel = s->g.n[0] * s->g.n[1] * s->g.n[2] * s->g.nodes[0] * s->g.nodes[1];
    float *kernels = malloc((size_t)kernel * sizeof *kernels);
    double *raw = malloc((size_t)kernel * sizeof *raw);
    double *exact = malloc((size_t)kernel * sizeof *exact), *v = malloc((size_t)voxels * sizeof *v);
    char *image = malloc((size_t)voxels * vp_type_size(in)), *out = malloc((size_t)results * vp_type_size(type));
    double *want = malloc((size_t)results * sizeof *want), *most = malloc((size_t)results * sizeof *most);
    const void *from = image;

    s->g.fft = in == VP_F64 ? &vp_fftw : NULL;
    make_setting(s, kernels, raw, exact);
    for (int64_t i = 0; i < voxels; i++) {
        const int r = (int)(random_bits() % 200);
        switch (in) {
        case VP_U8: ((uint8_t *)image)[i] = (uint8_t)r; break;
        case VP_U16: ((uint16_t *)(void *)image)[i] = (uint16_t)(r + 3000); break;
        case VP_I16: ((int16_t *)(void *)image)[i] = (int16_t)(r - 100); break;
        case VP_F64: ((double *)(void *)image)[i] = uniform() + s->offset; break;
        default: ((float *)(void *)image)[i] = (float)(uniform() + s->offset);
        }
        if (s->huge != 0 && i == voxels / 3)
            in == VP_F64 ? (void)(((double *)(void *)image)[i] += s->huge) : (void)(((float *)(void *)image)[i] += (float)s->huge);
        v[i] = sample(image, in, i);
    }
    const struct bound bound = bound_of(s, v, voxels, exact, in, type);
    for (int64_t i = 0; i < results; i++) {
        const int64_t at[3] = {first[0] + i % n[0], first[1] + i / n[0] % n[1], first[2] + i / n[0] / n[1]};
        want[i] = naive(s, v, exact, at);
        most[i] = fabs(want[i]) > 10 * (fabs(s->offset) + 300) && s->huge != 0 ? bound.huge : 0; /* it reaches there */
        most[i] += (is_at_edge(s, at) ? bound.edge : bound.by) + bound.share * fabs(want[i]);
    }
    for (size_t k = 0; k < sizeof ISAS / sizeof *ISAS; k++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_chain c = {0};
        struct vp_op op;
        CHECK(k < 2 || use_isa(ISAS[k]));
        if (!use_isa(ISAS[k]))
            continue;
        CHECK_INT(vp_convolve_local(&op, &s->g, s->image, in, type, &err), 0);
        CHECK_STR(err.msg, "");
        if (err.code)
            break;
        CHECK(!memcmp(op.image, n, sizeof n) && !memcmp(((struct vp_convolve_params *)op.params)->first, first, sizeof first));
        if (k == 2 && s->g.nodes[1] > 2) { /* spectra of few rows of nodes at a time, as of a large grid */
            struct vp_convolve_cpu *cpu = ((struct vp_convolve_params *)op.params)->cpu;
            cpu->keeps = cpu->tiles != VP_CELLS;
            if (cpu->exact)
                cpu->exact->keeps = false;
        }
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &from, out, 2, &err), 0);
        CHECK_STR(err.msg, "");
        double off = 0;
        for (int64_t i = 0; i < results; i++)
            off = fmax(off, fabs(sample(out, type, i) - want[i]) / most[i]);
        CHECK(off <= 1);
        if (!(off <= 1))
            printf("%s: %g times the bound, offset %g%s, %lld x %lld x %lld results\n", c.stage[0].text, off, s->offset, s->huge != 0 ? ", huge" : "", (long long)n[0],
                   (long long)n[1], (long long)n[2]);
        worst = fmax(worst, off);
        if (boxes && k != 1)
            check_boxes(&c.stage[0], image, out, boxes);
        vp_chain_free(&c);
    }
    vp_isa_limit("avx512");
    free(kernels);
    free(raw);
    free(exact);
    free(v);
    free(want);
    free(most);
    free(image);
    free(out);
}

static const enum vp_edge EDGES[] = {VP_EDGE_RENORMALIZE, VP_EDGE_NEAREST, VP_EDGE_MIRROR, VP_EDGE_ZERO, VP_EDGE_WRAP};
static const enum vp_type IN[] = {VP_F32, VP_U8, VP_U16, VP_I16};

static void test_images(void)
{
    static const char *const methods[] = {"fft", "direct", NULL};

    for (int i = 0; i < 60; i++) {
        struct setting s = {.image = {random_in(1, 90), random_in(1, 60), i % 5 ? 1 : 2},
                            .g = {.n = {random_in(1, 40), random_in(1, 40), 1}, .nodes = {1, 1}}};
        const enum vp_type in = IN[i / 3 % 4];
        s.g.edge = EDGES[i % 5];
        s.g.method = methods[i % 3];
        s.g.correlate = i / 2 % 2;
        s.g.normalize = i / 4 % 2;
        compare(&s, in, i / 7 % 2 ? VP_F32 : in, i % 4 == 0);
    }
}

static void test_grids(void)
{
    for (int i = 0; i < 40; i++) {
        struct setting s = {.image = {random_in(8, 90), random_in(8, 60), i % 7 ? 1 : 2},
                            .g = {.n = {random_in(1, 24), random_in(1, 24), 1},
                                  .nodes = {random_in(1, 4), random_in(1, 4)}}};
        s.g.edge = EDGES[i % 5];
        s.g.weights = i / 5 % 2 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT;
        s.g.correlate = i / 3 % 2;
        compare(&s, i % 6 ? VP_F32 : VP_U16, VP_F32, i % 4 == 0);
    }
}

static void test_volumes(void)
{
    for (int i = 0; i < 16; i++) {
        struct setting s = {.image = {random_in(1, 24), random_in(1, 20), random_in(1, 14)},
                            .g = {.n = {random_in(1, 9), random_in(1, 9), random_in(2, 9)}, .nodes = {1, 1}}};
        s.g.edge = EDGES[i % 5];
        s.g.method = i % 2 ? "fft" : "direct";
        s.g.correlate = i / 3 % 2;
        compare(&s, i % 3 ? VP_F32 : VP_U8, VP_F32, i % 4 == 0);
    }
}

/* Results that are larger and smaller than the image: of images and volumes, one kernel and grids, every edge. */
static void test_crop(void)
{
    for (int i = 0; i < 48; i++) {
        const int kind = i / 4 % 4;
        const bool deep = kind == 1, grid = kind > 1;
        struct setting s = {.image = {random_in(12, 60), random_in(12, 40), deep ? random_in(5, 9) : 1 + i % 2},
                            .g = {.n = {random_in(1, 12), random_in(1, 12), deep ? random_in(2, 5) : 1}, .nodes = {1, 1},
                                  .crop = i % 2 ? VP_CROP_VALID : VP_CROP_FULL, .edge = EDGES[1 + i % 8 / 2]}};
        if (i % 7 == 0 && s.g.crop == VP_CROP_FULL) /* larger than the image */
            s.g.n[i % 2] = 70;
        if (i % 7 == 1 && s.g.crop == VP_CROP_VALID) /* as large as that */
            s.g.n[1] = s.image[1];
        s.g.weights = kind == 3 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT;
        s.g.nodes[0] = grid ? random_in(1, 3) : 1;
        s.g.nodes[1] = grid ? random_in(1, 3) : 1;
        s.g.correlate = i / 2 % 3 == 0;
        s.g.method = grid ? NULL : i % 3 ? "fft" : "direct";
        compare(&s, i % 5 ? VP_F32 : VP_U16, VP_F32, 1);
    }
}

/* Offsets, kernels that cancel, a sample that is far from all others: every method, edge, crop and model of weights. */
static void test_offsets(void)
{
    static const double offsets[] = {0, 1, 1e3, 1e5}, huge[] = {1e8, 3e38, 1e30};
    static const char *const methods[] = {"fft", "direct", "fft", NULL};

    for (int i = 0; i < 144; i++) {
        const int kind = i / 4 % 6;
        const bool deep = kind == 1, grid = kind > 3;
        struct setting s = {.image = {random_in(12, 60), random_in(12, 40), deep ? random_in(5, 9) : 1},
                            .g = {.n = {random_in(1, 14), random_in(1, 14), deep ? random_in(2, 5) : 1}, .nodes = {1, 1},
                                  .edge = EDGES[i % 5], .crop = i % 11 == 5 ? VP_CROP_VALID : VP_CROP_SAME},
                            .offset = offsets[i % 4], .cancels = i / 24 % 2, .huge = i % 3 ? 0 : huge[i / 3 % 3]};
        enum vp_type in = i / 24 % 3 == 2 && &vp_fftw ? VP_F64 : VP_F32;
        if (s.cancels && s.g.edge == VP_EDGE_RENORMALIZE)
            s.g.edge = VP_EDGE_ZERO;
        if (i % 11 == 7)
            s.g.crop = s.g.edge == VP_EDGE_RENORMALIZE ? VP_CROP_SAME : VP_CROP_FULL;
        if (s.g.crop == VP_CROP_VALID)
            for (int a = 0; a < 2; a++)
                s.g.n[a] = s.g.n[a] > s.image[a] ? s.image[a] : s.g.n[a];
        s.g.weights = kind == 5 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT;
        s.g.nodes[0] = grid ? random_in(1, 3) : 1;
        s.g.nodes[1] = grid ? random_in(1, 3) : 1;
        s.g.method = grid ? NULL : methods[i % 4];
        s.g.normalize = !s.cancels;
        compare(&s, in, in, i % 5 == 0);
    }
}

/* A product is convolved with axis by axis, where planes have constants of their own. */
static void test_offset_separable(void)
{
    enum { N = 40 * 30 * 20 };
    static float in[N], out[N], level[N];
    float k[105];
    const int64_t image[3] = {40, 30, 20};
    const void *from = in;

    for (int i = 0; i < 105; i++) /* along x and z it cancels, or only along x */
        k[i] = (float)((i % 7 - 3) * (2 - i / 7 % 5 * 0.25) * (i / 35 - 1.0));
    for (int e = 0; e < 5; e++)
        for (int way = 0; way < 2; way++) {
            struct vp_convolve_given g = {.n = {7, 5, 3}, .nodes = {1, 1}, .kernels = k, .method = "separable",
                                          .edge = e ? EDGES[e] : VP_EDGE_ZERO};
            struct vp_err err = VP_ERR_INIT;
            double off = 0;
            for (int i = 0; i < 105; i++)
                k[i] = (float)((i % 7 - 3) * (2 - i / 7 % 5 * 0.25) * (way ? 1 : i / 35 - 1.0));
            for (int i = 0; i < N; i++) {
                level[i] = (float)(1e5 + 1000 * (way ? i / 1200 % 3 : 0));
                in[i] = level[i] + (float)(random_bits() % 128) / 128;
            }
            for (int pass = 0; pass < 2; pass++) {
                struct vp_chain c = {0};
                struct vp_op op;
                static double exact[N];
                CHECK_INT(vp_convolve_local(&op, &g, image, VP_F32, VP_F32, &err), 0);
                CHECK_INT(vp_chain_add(&c, &op, &err), 0);
                CHECK_INT(vp_chain_apply(&c, &from, out, 2, &err), 0);
                for (int i = 0; i < N && !pass; i++) {
                    const struct setting s = {.g = g, .image = {40, 30, 20}};
                    static double v[N], wide[105];
                    for (int n = 0; n < N && !i; n++)
                        v[n] = in[n];
                    for (int n = 0; n < 105 && !i; n++)
                        wide[n] = k[n];
                    exact[i] = naive(&s, v, wide, (const int64_t[]){i % 40, i / 40 % 30, i / 1200});
                }
                for (int i = 0; i < N; i++) /* the sum of magnitudes is about 200, and so is the contrast of a plane's part */
                    off = fmax(off, fabs(out[i] - exact[i]) - 1.3e-7 * fabs(exact[i]));
                if (!pass)
                    check_boxes(&c.stage[0], in, out, 2);
                vp_chain_free(&c);
            }
            CHECK(off <= 5e-7 * 270 * (way ? 2000 : 1));
        }
}

/* A constant comes out to the bit: kernels that were normalized, every edge but zeros, every method. */
static void test_constants(void)
{
    static const char *const methods[] = {"fft", "direct", "separable"};
    enum { N = 90 * 70 * 6 };
    static float k[6 * 13 * 11], f[N], f_out[N];
    static double k64[6 * 13 * 11], d[N], d_out[N];

    for (int i = 0; i < 30; i++) {
        const int kind = i / 5 % 6; /* images by each method, a volume, a grid; */
        const bool wide = i % 2 && &vp_fftw; /* in f64 */
        const int64_t image[3] = {90, 70, kind == 3 ? 6 : 1};
        struct vp_convolve_given g = {.n = {13, 11, kind == 3 ? 3 : 1}, .nodes = {kind > 3 ? 3 : 1, kind > 3 ? 2 : 1},
                                      .kernels = k, .exact = k64, .normalize = true, .fft = wide ? &vp_fftw : NULL,
                                      .edge = EDGES[i % 5] == VP_EDGE_ZERO ? VP_EDGE_RENORMALIZE : EDGES[i % 5],
                                      .method = kind < 3 ? methods[kind] : NULL};
        const void *from = wide ? (void *)d : f;
        struct vp_err err = VP_ERR_INIT;
        struct vp_chain c = {0};
        struct vp_op op;
        int wrong = 0;
        for (int n = 0; n < 6 * 13 * 11; n++)
            k64[n] = k[n] = kind == 2 ? (float)((n % 13 + 1) * (n / 13 + 2)) : (float)uniform();
        for (int n = 0; n < N; n++) {
            f[n] = 1234.567f;
            d[n] = 1234.567890123;
        }
        CHECK_INT(vp_convolve_local(&op, &g, image, wide ? VP_F64 : VP_F32, wide ? VP_F64 : VP_F32, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &from, wide ? (void *)d_out : f_out, 2, &err), 0);
        for (int64_t n = 0; n < image[0] * image[1] * image[2]; n++)
            wrong += wide ? d_out[n] != d[n] : f_out[n] != f[n];
        CHECK_INT(wrong, 0);
        if (wrong)
            printf("%s\n", c.stage[0].text);
        vp_chain_free(&c);
    }
}

/* Kernels larger than the image, than a tile. */
static void test_large(void)
{
    struct setting far = {.image = {30, 20, 1}, .g = {.n = {2300, 3, 1}, .nodes = {1, 1}, .edge = VP_EDGE_MIRROR, .method = "fft"}};
    struct setting tall = {.image = {20, 25, 1}, .g = {.n = {2, 2500, 1}, .nodes = {1, 1}, .edge = VP_EDGE_WRAP, .method = "fft"}};
    struct setting deep = {.image = {9, 8, 20}, .g = {.n = {3, 2, 150}, .nodes = {1, 1}, .edge = VP_EDGE_NEAREST, .method = "fft"}};

    compare(&far, VP_F32, VP_F32, 1);
    compare(&tall, VP_F32, VP_F32, 1);
    compare(&deep, VP_F32, VP_F32, 1);
}

/* All in f64, where there are transforms: every method, edge, model of weights and crop. */
static void test_f64(void)
{
    static const char *const methods[] = {"fft", "direct", NULL};
    if (!&vp_fftw) {
        printf("built without FFTW: nothing in f64\n");
        return;
    }
    for (int i = 0; i < 60; i++) {
        const int kind = i / 5 % 4;
        const bool deep = kind == 1, grid = kind > 1;
        struct setting s = {.image = {random_in(12, 60), random_in(12, 40), deep ? random_in(5, 9) : 1},
                            .g = {.n = {random_in(1, 14), random_in(1, 14), deep ? random_in(2, 5) : 1}, .nodes = {1, 1},
                                  .edge = EDGES[i % 5], .crop = (enum vp_crop)(i / 20 % 3)}};
        if (s.g.crop == VP_CROP_VALID)
            for (int a = 0; a < 2; a++)
                s.g.n[a] = s.g.n[a] > s.image[a] ? s.image[a] : s.g.n[a];
        if (s.g.crop == VP_CROP_FULL && s.g.edge == VP_EDGE_RENORMALIZE)
            s.g.crop = VP_CROP_SAME;
        s.g.weights = kind == 3 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT;
        s.g.nodes[0] = grid ? random_in(1, 4) : 1;
        s.g.nodes[1] = grid ? random_in(1, 3) : 1;
        s.g.correlate = i / 2 % 3 == 0;
        s.g.normalize = i % 4 == 0;
        s.g.method = grid ? NULL : methods[i % 3];
        compare(&s, VP_F64, i % 9 ? VP_F64 : VP_F32, i % 7 == 0);
    }
    struct setting far = {.image = {30, 20, 1}, .g = {.n = {2300, 3, 1}, .nodes = {1, 1}, .edge = VP_EDGE_MIRROR, .method = "fft"}};
    compare(&far, VP_F64, VP_F64, 1);
}

/* What is too large for the definition: in f32 against the same in f64. */
static void test_oracle(void)
{
    const int64_t image[3] = {900, 700, 1}, voxels = 900 * 700;
    float *in = malloc((size_t)voxels * sizeof *in), *out = malloc((size_t)voxels * sizeof *out), *k;
    double *in64 = malloc((size_t)voxels * sizeof *in64), *out64 = malloc((size_t)voxels * sizeof *out64), *k64;
    const void *from = in, *from64 = in64;

    for (int64_t i = 0; i < voxels; i++)
        in64[i] = in[i] = (float)(uniform() + (double)(i % 900) / 300);
    for (int grid = 0; grid < 3 && &vp_fftw; grid++) {
        struct vp_convolve_given g = {.n = {101, 80, 1}, .nodes = {grid ? 6 : 1, grid ? 5 : 1}, .edge = VP_EDGE_MIRROR,
                                      .weights = grid > 1 ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT, .fft = &vp_fftw};
        const int64_t n = g.n[0] * g.n[1] * g.nodes[0] * g.nodes[1];
        double off = 0, most = 0;
        k = malloc((size_t)n * sizeof *k);
        k64 = malloc((size_t)n * sizeof *k64);
        for (int64_t i = 0; i < n; i++)
            k64[i] = k[i] = (float)uniform();
        g.kernels = k;
        g.exact = k64;
        for (int wide = 0; wide < 2; wide++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_chain c = {0};
            struct vp_op op;
            const enum vp_type type = wide ? VP_F64 : VP_F32;
            CHECK_INT(vp_convolve_local(&op, &g, image, type, type, &err), 0);
            CHECK_INT(vp_chain_add(&c, &op, &err), 0);
            CHECK_INT(vp_chain_apply(&c, wide ? &from64 : &from, wide ? (void *)out64 : out, 2, &err), 0);
            vp_chain_free(&c);
        }
        for (int64_t i = 0; i < voxels; i++) {
            off = fmax(off, fabs(out[i] - out64[i]));
            most = fmax(most, fabs(out64[i]));
        }
        CHECK(off <= 5e-7 * most && off > 0);
        free(k);
        free(k64);
    }
    free(in);
    free(out);
    free(in64);
    free(out64);
}

/* The same in f64: a product to the last digits, and one that was rounded to f32. */
static void test_separable_f64(const struct vp_convolve_given *given, const int64_t image[3])
{
    static double k[105], in[40 * 30 * 20], out[2][40 * 30 * 20];
    struct vp_convolve_given g = *given;
    struct vp_err err = VP_ERR_INIT;
    const void *from = in;
    struct vp_op op;
    double off = 0, most = 0;

    g.exact = k;
    g.fft = &vp_fftw;
    for (int i = 0; i < 105; i++)
        k[i] = (1 + i % 7 * 0.3) * (2 - i / 7 % 5 * 0.7) * (0.5 + i / 35);
    for (int i = 0; i < 40 * 30 * 20; i++)
        in[i] = uniform();
    for (int way = 0; way < 2; way++) {
        struct vp_chain c = {0};
        g.method = way ? "direct" : "separable";
        CHECK_INT(vp_convolve_local(&op, &g, image, VP_F64, VP_F64, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &from, out[way], 2, &err), 0);
        check_boxes(&c.stage[0], in, out[way], 2);
        vp_chain_free(&c);
    }
    for (int i = 0; i < 40 * 30 * 20; i++) {
        off = fmax(off, fabs(out[0][i] - out[1][i]));
        most = fmax(most, fabs(out[1][i]));
    }
    CHECK(off <= 1e-14 * most && off > 0);
    k[3] = (float)k[3];
    g.method = "separable";
    CHECK_INT(vp_convolve_local(&op, &g, image, VP_F64, VP_F64, &err), -1);
}

/* Products are found, and what is none is not. */
static void test_separable(void)
{
    float k[3 * 5 * 7];
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;
    const int64_t image[3] = {40, 30, 20};
    struct vp_convolve_given g = {.n = {7, 5, 3}, .nodes = {1, 1}, .kernels = k, .method = "separable"};
    static float in[40 * 30 * 20], out[40 * 30 * 20], direct[40 * 30 * 20];
    const void *from = in;

    for (int i = 0; i < 105; i++)
        k[i] = (float)((1 + i % 7 * 0.3) * (2 - i / 7 % 5 * 0.7) * (0.5 + i / 35));
    for (int i = 0; i < 40 * 30 * 20; i++)
        in[i] = (float)uniform();
    for (int way = 0; way < 2; way++) {
        struct vp_chain c = {0};
        g.edge = VP_EDGE_NEAREST;
        g.method = way ? "direct" : "separable";
        CHECK_INT(vp_convolve_local(&op, &g, image, VP_F32, VP_F32, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &from, way ? direct : out, 2, &err), 0);
        check_boxes(&c.stage[0], in, way ? direct : out, 2);
        vp_chain_free(&c);
    }
    double off = 0, most = 0;
    for (int i = 0; i < 40 * 30 * 20; i++) {
        off = fmax(off, fabs((double)out[i] - direct[i]));
        most = fmax(most, fabs((double)direct[i]));
    }
    CHECK(off < 1e-6 * most && off > 0);
    if (&vp_fftw)
        test_separable_f64(&g, image);
    k[3] += 1e-4f;
    g.method = "separable";
    CHECK_INT(vp_convolve_local(&op, &g, image, VP_F32, VP_F32, &err), -1);
}

/* What is not finite makes NaN where the kernel reaches it, and nothing elsewhere. */
static void test_nan(void)
{
    static const char *const methods[] = {"fft", "direct"};
    const int64_t image[3] = {300, 200, 1};
    static float k[6 * 9], in[300 * 200], out[300 * 200], clean[300 * 200];
    const void *from = in;

    for (int i = 0; i < 54; i++)
        k[i] = (float)uniform();
    for (int w = 0; w < 2; w++) {
        struct vp_convolve_given g = {.n = {6, 9, 1}, .nodes = {1, 1}, .kernels = k, .method = methods[w],
                                      .edge = VP_EDGE_ZERO};
        struct vp_err err = VP_ERR_INIT;
        struct vp_chain c = {0};
        struct vp_op op;
        int wrong = 0;
        CHECK_INT(vp_convolve_local(&op, &g, image, VP_F32, VP_F32, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        for (int i = 0; i < 300 * 200; i++)
            in[i] = (float)uniform();
        in[0] = in[120 * 300 + 170] = in[199 * 300 + 299] = 0;
        CHECK_INT(vp_chain_apply(&c, &from, clean, 2, &err), 0);
        in[0] = NAN;
        in[120 * 300 + 170] = INFINITY;
        in[199 * 300 + 299] = -INFINITY;
        CHECK_INT(vp_chain_apply(&c, &from, out, 2, &err), 0);
        for (int y = 0; y < 200; y++)
            for (int x = 0; x < 300; x++) {
                /* out(p) takes in(p - k + centre), k = 0 ... n - 1: centre is 3, 4 */
                const bool first = x <= 2 && y <= 4;
                const bool second = x - 170 <= 2 && x - 170 >= -3 && y - 120 <= 4 && y - 120 >= -4;
                const bool third = x >= 296 && y >= 195;
                const float f = out[y * 300 + x];
                wrong += first || second || third ? !isnan(f) : !(fabsf(f - clean[y * 300 + x]) <= 2e-5f);
            }
        CHECK_INT(wrong, 0);
        check_boxes(&c.stage[0], in, out, 2);
        vp_chain_free(&c);
    }
}

/* ---- transforms ---- */

/* How far a delta at d, weighed as the kernel that is 1/2 at e and at -e would weigh it (1 if that is one place), is
 * off. */
static double weighed(const struct vp_line_isa *isa, const struct vp_line *l, float *x, float *k, int64_t d, int64_t e)
{
    const int64_t n = l->n, w = isa->lanes;
    double off = 0;

    for (int64_t i = 0; i < n; i++) {
        k[i] = (float)(cos(2 * M_PI * (double)e * ((double)vp_line_root(l, i) + 0.25) / (double)n) / (double)n);
        for (int64_t j = 0; j < 2 * w; j++)
            x[i * 2 * w + j] = j < w ? (float)(i == d) : NAN; /* imaginary parts are not read */
    }
    isa->weigh(l, x, k);
    for (int64_t i = 0; i < n; i++)
        off = fmax(off, fabs(x[i * 2 * w] - 0.5 * ((i == d + e) + (i == d - e))));
    return off;
}

/* A transform evaluates at the roots, in whatever order, and the way back gives what was there times n; any two
 * values of the product of two transforms are those of a cyclic convolution. */
static void test_lines(void)
{
    struct vp_err err = VP_ERR_INIT;
    enum { LONGEST = 1200 };
    float *x = NULL, *k = NULL;

    CHECK(!posix_memalign((void **)&x, 64, LONGEST * 32 * sizeof *x) && !posix_memalign((void **)&k, 64, LONGEST * 32 * sizeof *k));
    for (int64_t n = 2; n <= LONGEST; n += n < 130 ? 1 : n / 8)
        for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++)
            for (int cyclic = 0; cyclic < 2; cyclic++) {
                const struct vp_line_isa *isa = vp_line_isa(ISAS[i]);
                struct vp_line l;
                int64_t rest = n;
                for (int p = 2; p <= 7; p++)
                    while (rest % p == 0)
                        rest /= p;
                if (!isa)
                    continue;
                CHECK_INT(vp_line_make(&l, n, cyclic, NULL, &err), rest > 1 ? -1 : 0);
                if (rest > 1) {
                    err = (struct vp_err)VP_ERR_INIT;
                    continue;
                }
                /* lane 0: a delta at d times another at e is one at d + e, or its turn */
                const int64_t d = random_in(0, n - 1), e = random_in(0, n - 1), w = isa->lanes, at = (d + e) % n;
                memset(x, 0, (size_t)(n * 2 * w) * sizeof *x);
                memset(k, 0, (size_t)(n * 2 * w) * sizeof *k);
                x[d * 2 * w] = 1;
                k[e * 2 * w] = 1 / (float)n;
                isa->forward(&l, k, 1);
                isa->convolve(&l, x, k);
                double off = 0;
                for (int64_t j = 0; j < n; j++) {
                    /* x^n = 1, or i */
                    const bool turned = !cyclic && d + e >= n;
                    off = fmax(off, fabs(x[j * 2 * w] - (j == at && !turned)));
                    off = fmax(off, fabs(x[j * 2 * w + w] - (j == at && turned)));
                }
                CHECK_NEAR(off, 0, 2e-6);
                off = cyclic ? 0 : weighed(isa, &l, x, k, d, e);
                CHECK_NEAR(off, 0, 2e-6);
                vp_line_free(&l);
            }
    free(x);
    free(k);
}

static void test_errors(void)
{
    const int64_t image[3] = {20, 20, 1};
    const float k[9] = {-1, -1, -1, -1, 8, -1, -1, -1, -1}, bad[1] = {NAN};
    struct vp_op op;

    for (int i = 0; i < 6; i++) {
        struct vp_convolve_given g = {.n = {3, 3, 1}, .nodes = {1, 1}, .kernels = k, .edge = VP_EDGE_ZERO};
        struct vp_err err = VP_ERR_INIT;
        g.edge = i == 0 || i == 5 ? VP_EDGE_RENORMALIZE : VP_EDGE_ZERO;
        g.crop = i == 5 ? VP_CROP_FULL : VP_CROP_SAME;
        g.normalize = i == 1;
        if (i == 2) {
            g.kernels = bad;
            g.n[0] = g.n[1] = 1;
        }
        if (i == 3) {
            g.crop = VP_CROP_VALID;
            g.n[0] = 21;
            g.n[1] = 1;
        }
        CHECK_INT(vp_convolve_local(&op, &g, image, i == 4 ? VP_F64 : VP_F32, VP_F32, &err), -1); /* f64 without transforms */
        CHECK(err.msg[0]);
    }
}

int main(void)
{
    test_lines();
    test_images();
    test_grids();
    test_volumes();
    test_crop();
    test_offsets();
    test_offset_separable();
    test_constants();
    test_large();
    test_f64();
    test_oracle();
    test_separable();
    test_nan();
    test_errors();
    printf("%.2g of the bound\n", worst);
    return test_done();
}
