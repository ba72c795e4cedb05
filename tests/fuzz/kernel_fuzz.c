/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel, or a grid of them, of any size over an image of any size, with any edge rule and any crop: boxes give the
 * bits of the whole, and the whole is the weighted sum of direct sums with one kernel each. */
#include "../unit/boxes.h"
#include "fuzz.h"
#include "local/convolve.h"

#include <math.h>

enum { HEAD = 18, MOST_KERNEL = 9 * 7 * 5, MOST_NODES = 3, MOST_IMAGE = 24 * 16 * 3, MOST_RESULT = 32 * 22 * 7 };

struct setting {
    struct vp_convolve_given g;
    int64_t size[3];
    enum vp_type in, out;
    double node[2][MOST_NODES];
    float kernels[MOST_NODES * MOST_NODES * MOST_KERNEL];
    int8_t sample[MOST_IMAGE];
    char image[MOST_IMAGE * sizeof(float)];
};

/* Hat function, 1 outside the first and the last node. */
static double weight(const double *node, int64_t n, int64_t i, double x)
{
    return i > 0 && x < node[i]       ? fmax(0, (x - node[i - 1]) / (node[i] - node[i - 1]))
           : i < n - 1 && x > node[i] ? fmax(0, (node[i + 1] - x) / (node[i + 1] - node[i]))
                                      : 1;
}

static void decode(struct setting *s, const uint8_t *b, size_t n)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16, VP_F32};
    struct vp_convolve_given *const g = &s->g;
    const uint8_t *rest = b + HEAD;
    const size_t left = n - HEAD;

    *g = (struct vp_convolve_given){.n = {1 + b[0] % 9, 1 + b[1] % 7, 1 + b[2] % 5},
                                    .nodes = {1 + b[3] % MOST_NODES, 1 + b[4] % MOST_NODES},
                                    .kernels = s->kernels, .edge = (enum vp_edge)(b[5] % 5),
                                    .crop = (enum vp_crop)(b[6] % 3), .weights = (enum vp_weights)(b[7] & 1),
                                    .correlate = b[7] & 2, .normalize = b[7] & 4, .positive = b[7] & 8};
    s->size[0] = 1 + b[8] % 24;
    s->size[1] = 1 + b[9] % 16;
    s->size[2] = 1 + b[10] % 3;
    s->in = types[b[11] % 4];
    s->out = b[11] & 4 ? VP_F32 : s->in;
    for (int a = 0; a < 2; a++) {
        for (int64_t i = 0; i < g->nodes[a]; i++)
            s->node[a][i] = b[7] & 16 ? (double)(int8_t)b[12 + 3 * a + i] / 3
                                      : ((double)i + 0.5) * (double)s->size[a] / (double)g->nodes[a] - 0.5;
        g->node[a] = b[7] & 16 ? s->node[a] : NULL;
    }
    const int64_t samples = g->n[0] * g->n[1] * g->n[2] * g->nodes[0] * g->nodes[1];
    for (int64_t i = 0; i < samples; i++)
        s->kernels[i] = left ? (float)(int8_t)rest[(size_t)i % left] / 16 : 1;
    for (int64_t i = 0; i < s->size[0] * s->size[1] * s->size[2]; i++)
        s->sample[i] = left
            ? (int8_t)(rest[(size_t)(i * 7 + 3) % left] & (s->in == VP_U8 || s->in == VP_U16 ? 0x7f : 0xff)) : 1;
    vp_convert(s->image, s->in, s->sample, VP_I8, s->size[0] * s->size[1] * s->size[2], 1, 0);
}

static int apply(struct vp_op *op, const struct vp_convolve_given *g, const struct setting *s, float *result)
{
    struct vp_err err = VP_ERR_INIT;

    if (vp_convolve_local(op, g, s->size, s->in, VP_F32, &err))
        return fuzz_refused(&err);
    MUST(op->image[0] * op->image[1] * op->image[2] <= MOST_RESULT);
    MUST(!local_whole(op, s->image, result, 1));
    return 0;
}

/* Compares results of `op` with direct sums, one kernel each, in f64. */
static void check_sum(const struct setting *s, const struct vp_op *op, const float *got)
{
    const struct vp_convolve_params *const p = op->params;
    const int64_t *const n = op->image, all = n[0] * n[1] * n[2], kernel = s->g.n[0] * s->g.n[1] * s->g.n[2];
    static double sum[MOST_RESULT];
    static float one[MOST_RESULT];
    double most = 0;

    memset(sum, 0, sizeof sum);
    for (int64_t k = 0; k < s->g.nodes[0] * s->g.nodes[1]; k++) {
        struct vp_convolve_given g = s->g;
        struct vp_op direct;
        double taps = 0;
        g.kernels += k * kernel;
        g.nodes[0] = g.nodes[1] = 1;
        g.node[0] = g.node[1] = NULL;
        g.method = "direct";
        if (apply(&direct, &g, s, one))
            return;
        MUST(!memcmp(direct.image, n, sizeof direct.image));
        const struct vp_convolve_params *const d = direct.params;
        for (int64_t i = 0; i < kernel; i++)
            taps += fabs((double)d->kernels[i]);
        most = fmax(most, 128 * taps);
        for (int64_t i = 0; i < all; i++) {
            const double x = (double)(i % n[0] + p->first[0]), y = (double)(i / n[0] % n[1] + p->first[1]);
            const double w = weight(s->node[0], s->g.nodes[0], k % s->g.nodes[0], x)
                             * weight(s->node[1], s->g.nodes[1], k / s->g.nodes[0], y);
            sum[i] += w * (double)one[i];
        }
        direct.free(direct.params);
    }
    for (int64_t i = 0; i < all; i++)
        MUST(fabs((double)got[i] - sum[i]) <= 2e-6 * most);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct setting s;
    static float result[MOST_RESULT];
    struct vp_op op, same;
    struct vp_err err = VP_ERR_INIT;

    if (n < HEAD)
        return 0;
    decode(&s, data, n);
    random_state = 88172645463325252u;
    if (apply(&op, &s.g, &s, result))
        return 0;
    const bool one = s.g.nodes[0] * s.g.nodes[1] == 1;
    if (one || (s.g.weights == VP_WEIGHTS_OUTPUT && (s.g.edge != VP_EDGE_RENORMALIZE || s.g.crop == VP_CROP_VALID)))
        check_sum(&s, &op, result);
    op.free(op.params);
    MUST(!vp_convolve_local(&same, &s.g, s.size, s.in, s.out, &err));
    MUST(!local_whole(&same, s.image, result, 2));
    check_boxes(&same, s.image, result, 1);
    MUST(!test_failures);
    same.free(same.params);
    fuzz_accepted();
    return 0;
}
