/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights of nodes anywhere against their definition, and convolution with kernels there in float64. */
#include "base/err.h"
#include "base/size.h"
#include "local/convolve.h"
#include "local/nodes.h"
#include "apply.h"
#include "boxes.h"
#include "test.h"

#include <math.h>
#include <string.h>

static double uniform(void)
{
    return (double)random_bits() / 9007199254740992.0;
}

enum { MOST = 40, WIDE = 60, HIGH = 50, BEYOND = 12 };

static double weight(const struct vp_node_weights *w, int64_t node)
{
    double sum = 0;

    for (int i = 0; i < 3; i++)
        sum += w->node[i] == node ? w->weight[i] : 0;
    return sum;
}

static double squared(const double a[2], const double b[2])
{
    return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]);
}

/* Draws nodes: at random, a grid (all quarters of which lie on a circle), a circle, a line. */
static int64_t draw(int kind, double *x, double *y)
{
    const int64_t n = kind == 1 ? 36 : kind == 4 ? 1 : kind == 5 ? 2 : 3 + (int64_t)(random_bits() % (MOST - 3));

    for (int64_t i = 0; i < n; i++) {
        x[i] = round(uniform() * WIDE * 256) / 256;
        y[i] = round(uniform() * HIGH * 256) / 256;
        if (kind == 1) {
            x[i] = 5 + 9.5 * (double)(i % 6);
            y[i] = 3 + 8 * (double)(i / 6);
        } else if (kind == 2) {
            x[i] = round((30 + 20 * cos(6.28 * (double)i / (double)n)) * 256) / 256;
            y[i] = round((25 + 20 * sin(6.28 * (double)i / (double)n)) * 256) / 256;
        } else if (kind == 3) {
            x[i] = 2 + (double)i;
            y[i] = 4 + 0.5 * (double)i;
        }
    }
    return n;
}

/* True if a point lies in the hull of the nodes: in a triangle of some three of them. */
static bool in_hull(const double *x, const double *y, int64_t n, const double at[2])
{
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = a + 1; b < n; b++)
            for (int64_t c = b + 1; c < n; c++) {
                const double u = (x[b] - x[a]) * (at[1] - y[a]) - (y[b] - y[a]) * (at[0] - x[a]);
                const double v = (x[c] - x[b]) * (at[1] - y[b]) - (y[c] - y[b]) * (at[0] - x[b]);
                const double w = (x[a] - x[c]) * (at[1] - y[c]) - (y[a] - y[c]) * (at[0] - x[c]);
                if ((x[b] - x[a]) * (y[c] - y[a]) != (y[b] - y[a]) * (x[c] - x[a])
                    && ((u >= 0 && v >= 0 && w >= 0) || (u <= 0 && v <= 0 && w <= 0)))
                    return true;
            }
    return false;
}

/* Linear functions are reproduced in the hull, by the nodes of an empty circle; outside by those of its nearest point;
 * neighbours differ little. */
static void test_linear(int kind)
{
    static struct vp_node_weights row[HIGH + 2 * BEYOND][WIDE + 2 * BEYOND];
    double x[MOST], y[MOST], most = 0, off = 0, sums = 0, step = 0;
    struct vp_err err = VP_ERR_INIT;
    const int64_t n = draw(kind, x, y);
    struct vp_nodes *nodes = vp_nodes_make(x, y, n, false, &err);
    int wrong = 0, full = 0;

    CHECK_STR(err.msg, "");
    for (int64_t r = 0; r < HIGH + 2 * BEYOND; r++) {
        vp_nodes_row(nodes, -BEYOND, WIDE + 2 * BEYOND, r - BEYOND, row[r]);
        struct vp_node_weights part[7]; /* a box changes nothing */
        vp_nodes_row(nodes, 20, 7, r - BEYOND, part);
        for (int i = 0; i < 7; i++)
            for (int64_t k = 0; k < n; k++)
                wrong += weight(&part[i], k) != weight(&row[r][20 + BEYOND + i], k);
    }
    for (int64_t r = 0; r < HIGH + 2 * BEYOND; r += 3)
        for (int64_t c = 0; c < WIDE + 2 * BEYOND; c += 3) {
            const double at[2] = {(double)(c - BEYOND), (double)(r - BEYOND)};
            double sum = 0, to[2] = {0, 0};
            for (int64_t k = 0; k < n; k++) {
                const double w = weight(&row[r][c], k);
                sum += w;
                to[0] += w * x[k];
                to[1] += w * y[k];
            }
            sums = fmax(sums, fabs(sum - 1));
            const bool in = in_hull(x, y, n, at);
            full += in;
            if (in) {
                off = fmax(off, sqrt(squared(to, at)));
                continue;
            }
            /* the nearest point of a convex set: no node is nearer in the direction of the point */
            for (int64_t k = 0; k < n; k++)
                most = fmax(most, (x[k] - to[0]) * (at[0] - to[0]) + (y[k] - to[1]) * (at[1] - to[1]));
        }
    for (int64_t r = 0; r < HIGH + 2 * BEYOND && kind != 0; r++)
        for (int64_t c = 1; c < WIDE + 2 * BEYOND; c++)
            for (int64_t k = 0; k < n; k++)
                step = fmax(step, fabs(weight(&row[r][c], k) - weight(&row[r][c - 1], k)));
    CHECK_INT(wrong, 0);
    CHECK(sums < 1e-12);
    CHECK(off < 1e-9);
    CHECK(most < 1e-6);
    CHECK(kind > 2 || full > 50);
    if (kind == 1) /* 8 pixels from node to node at the least */
        CHECK(step <= 1.0 / 8 + 1e-9);
    /* of a triangle's nodes the circle is empty */
    for (int64_t r = 0; r < HIGH + 2 * BEYOND; r += 5)
        for (int64_t c = 0; c < WIDE + 2 * BEYOND; c += 5) {
            const struct vp_node_weights *w = &row[r][c];
            if (!(w->weight[0] > 0 && w->weight[1] > 0 && w->weight[2] > 0))
                continue;
            const double *px = x, *py = y;
            const double ax = px[w->node[0]], ay = py[w->node[0]], bx = px[w->node[1]] - ax, by = py[w->node[1]] - ay;
            const double cx = px[w->node[2]] - ax, cy = py[w->node[2]] - ay, d = 2 * (bx * cy - by * cx);
            const double middle[2] = {ax + (cy * (bx * bx + by * by) - by * (cx * cx + cy * cy)) / d,
                                      ay + (bx * (cx * cx + cy * cy) - cx * (bx * bx + by * by)) / d};
            const double radius = sqrt(squared(middle, (double[]){ax, ay}));
            for (int64_t k = 0; k < n; k++)
                wrong += sqrt(squared(middle, (double[]){x[k], y[k]})) < radius * (1 - 1e-9) - 1e-9;
        }
    CHECK_INT(wrong, 0);
    vp_nodes_free(nodes);
}

static void test_nearest(void)
{
    double x[MOST], y[MOST];
    struct vp_err err = VP_ERR_INIT;
    const int64_t n = draw(0, x, y);
    struct vp_nodes *nodes = vp_nodes_make(x, y, n, true, &err);
    struct vp_node_weights row[WIDE];
    int wrong = 0;

    for (int64_t r = -3; r < HIGH; r++) {
        vp_nodes_row(nodes, -2, WIDE, r, row);
        for (int64_t c = 0; c < WIDE; c++) {
            int64_t best = 0;
            for (int64_t k = 1; k < n; k++) {
                const double at[2] = {(double)(c - 2), (double)r};
                if (squared(at, (double[]){x[k], y[k]}) < squared(at, (double[]){x[best], y[best]}))
                    best = k;
            }
            wrong += weight(&row[c], best) != 1;
        }
    }
    CHECK_INT(wrong, 0);
    vp_nodes_free(nodes);
}

static void test_errors(void)
{
    struct vp_err err = VP_ERR_INIT;

    CHECK(!vp_nodes_make((double[]){1, 2, 1}, (double[]){3, 4, 3.0001}, 3, false, &err));
    CHECK_STR(err.msg, "kernels 0 and 2 have the same position");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_nodes_make((double[]){1, 2e9}, (double[]){3, 4}, 2, true, &err));
    CHECK(err.msg[0]);
}

/* ---- convolution ---- */

static void test_convolution(bool source, bool nearest, int64_t side)
{
    enum { NX = 150, NY = 130 };
    const int64_t image[3] = {NX, NY, 1}, samples = side * (side - 1), n = 9;
    static float in[NX * NY], out[NX * NY], again[NX * NY], kernels[9 * 31 * 30];
    static struct vp_node_weights weights[NX * NY];
    double x[9], y[9], off = 0, most = 0;
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    struct vp_op op;
    const void *from = in;

    for (int64_t i = 0; i < NX * NY; i++)
        in[i] = (float)uniform();
    for (int64_t i = 0; i < n * samples; i++)
        kernels[i] = (float)(uniform() / (double)samples);
    for (int64_t i = 0; i < n; i++) {
        x[i] = uniform() * NX;
        y[i] = uniform() * NY;
    }
    const struct vp_convolve_given g = {.n = {side, side - 1, 1}, .nodes = {n, 1}, .kernels = kernels, .node = {x, y},
                                        .between = nearest ? VP_BETWEEN_NEAREST : VP_BETWEEN_TRIANGLES,
                                        .weights = source ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT, .edge = VP_EDGE_ZERO};
    struct vp_nodes *nodes = vp_nodes_make(x, y, n, nearest, &err);
    for (int64_t r = 0; r < NY; r++)
        vp_nodes_row(nodes, 0, NX, r, weights + r * NX);
    CHECK_INT(vp_convolve_local(&op, &g, image, VP_F32, VP_F32, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    CHECK_INT(vp_chain_apply(&c, &from, out, 1, &err), 0);
    for (int threads = 2; threads < 4; threads++) {
        CHECK_INT(vp_chain_apply(&c, &from, again, threads, &err), 0);
        CHECK(!memcmp(out, again, sizeof out));
    }
    for (int64_t i = 0; i < NX * NY; i += 37) {
        double sum = 0;
        for (int64_t ky = 0; ky < side - 1; ky++)
            for (int64_t kx = 0; kx < side; kx++) {
                const int64_t px = i % NX - (kx - side / 2), py = i / NX - (ky - (side - 1) / 2);
                if (px < 0 || py < 0 || px >= NX || py >= NY)
                    continue;
                for (int64_t k = 0; k < n; k++)
                    sum += weight(&weights[source ? py * NX + px : i], k) * kernels[k * samples + ky * side + kx] * in[py * NX + px];
            }
        off = fmax(off, fabs(sum - out[i]));
        most = fmax(most, fabs(sum));
    }
    CHECK(off < 1e-6 * most);
    if (!(off < 1e-6 * most))
        printf("%g of the maximum: source %d nearest %d side %d\n", off / most, source, nearest, (int)side);
    vp_nodes_free(nodes);
    vp_chain_free(&c);
}

int main(void)
{
    for (int i = 0; i < 12; i++)
        test_linear(i % 6);
    test_nearest();
    test_errors();
    for (int i = 0; i < 8; i++)
        test_convolution(i & 1, i & 2, i & 4 ? 31 : 6);
    return test_done();
}
