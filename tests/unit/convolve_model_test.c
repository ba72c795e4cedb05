/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of convolution for --plan: amounts, seconds and balance against figures worked out by hand, and the tiles
 * of real operations against the image. */
#include "base/err.h"
#include "base/fft.h"
#include "base/size.h"
#include "engine/rates.h"
#include "local/convolve.h"
#include "local/convolve_model.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static const struct vp_convolve_speed ONE = {1, 1};

/* One second for each kernel of a result that is summed directly; nothing else costs. */
static const struct vp_rates SECONDS = {.convolve_sum = 1e9, .part = 0.5};

/* Predicts for tiles of one result and kernels[] kernels, which are taken whole. */
static struct vp_convolve_times predict(const int *kernels, int n, double planes, int threads)
{
    struct vp_convolve_tile tiles[16];
    struct vp_convolve_times t;
    const struct vp_convolve_layout l = {.kernel = {1, 1}, .tile = {1, 1}, .cells = 1, .n = n, .tiles = tiles,
                                         .planes = planes, .anywhere = true, .sum = 1};
    for (int i = 0; i < n; i++)
        tiles[i] = (struct vp_convolve_tile){.n = {1, 1}, .kernels = kernels[i], .rows = 1};
    vp_convolve_predict(&t, &l, &SECONDS, &ONE, threads);
    return t;
}

static void test_balance(void)
{
    struct vp_convolve_times t = predict((const int[]){1, 1, 1, 1}, 4, 1, 2);
    CHECK_NEAR(t.balance, 1, 1e-12);
    CHECK_NEAR(t.compute, 4, 1e-12);
    CHECK_NEAR(t.seconds, 2.5, 1e-12);
    CHECK_NEAR(t.efficiency, 4.5 / 5, 1e-12);
    t = predict((const int[]){1, 1, 1}, 3, 1, 2); /* shares 2 and 1, mean 1.5 */
    CHECK_NEAR(t.balance, 2 / 1.5, 1e-12);
    CHECK_NEAR(t.seconds, 2.5, 1e-12);
    t = predict((const int[]){3, 1, 1, 1}, 4, 1, 2); /* 3 and 1 + 1 + 1 */
    CHECK_NEAR(t.balance, 1, 1e-12);
    t = predict((const int[]){1, 1, 3}, 3, 1, 2); /* 1 + 3 and 1, mean 2.5 */
    CHECK_NEAR(t.balance, 1.6, 1e-12);
    t = predict((const int[]){2, 5, 3, 4}, 4, 1, 3); /* 2 + 4, 5, 3: mean 14 / 3 */
    CHECK_NEAR(t.balance, 6 / (14 / 3.0), 1e-12);
    CHECK_NEAR(t.kernels, 3.5, 1e-12);
    t = predict((const int[]){1, 1, 1}, 3, 1, 8); /* five have nothing to do */
    CHECK_NEAR(t.balance, 8 / 3.0, 1e-12);
    CHECK_NEAR(t.seconds, 1.5, 1e-12);
    CHECK_NEAR(t.efficiency, 3.5 / (8 * 1.5), 1e-12);
    t = predict((const int[]){1, 1, 1}, 3, 2, 2); /* the other thread begins the second page */
    CHECK_NEAR(t.balance, 1, 1e-12);
    CHECK_NEAR(t.seconds, 3.5, 1e-12);
    t = predict((const int[]){1, 1, 1}, 3, 1, 1);
    CHECK_NEAR(t.balance, 1, 0);
    CHECK_NEAR(t.efficiency, 1, 1e-12);
}

/* A tile of 96 x 64 samples, 60 x 30 results, kernels of 37 x 33: 4 kernels in 2 rows of a grid. */
static void test_amounts(void)
{
    struct vp_convolve_tile tile = {.n = {60, 30}, .kernels = 4, .rows = 2, .ones = 1, .edge = 7};
    struct vp_convolve_layout l = {.kernel = {37, 33}, .tile = {96, 64}, .cells = 4, .n = 1, .tiles = &tile,
                                   .planes = 1, .spectra = 4};
    const double column = 32 * vp_line_cost(32) / 32, row = 96 * vp_line_cost(96) / 2; /* 2 groups of rows */
    struct vp_convolve_amounts w = vp_convolve_work_of(&l, &tile);
    struct vp_convolve_times t;

    CHECK(column > 0 && row > 0);
    CHECK_NEAR(w.of[VP_WORK_LINE], 96 * column + 2 * 5 * row + 2 * 60 * column, 1e-6);
    CHECK_NEAR(w.of[VP_WORK_MOVE], 2 * (96 + 2 * 60), 0);
    CHECK_NEAR(w.of[VP_WORK_PRODUCT], 2 * 4 * 96, 0);
    CHECK_NEAR(w.of[VP_WORK_LOAD], 96 * 64, 0);
    CHECK_NEAR(w.of[VP_WORK_STORE], 60 * 30, 0);
    CHECK_NEAR(w.of[VP_WORK_EDGE], 7, 0);
    w = vp_convolve_work_of(&l, NULL);
    CHECK_NEAR(w.of[VP_WORK_LINE], 37 * column + 2 * row, 1e-6);
    CHECK_NEAR(w.of[VP_WORK_MOVE], 2 * 37, 0);

    const struct vp_rates loads = {.convolve_load = 1}; /* only loading counts: 96 64 s, and the border 96 64 - 60 30 */
    vp_convolve_predict(&t, &l, &loads, &ONE, 1);
    const double lines = 1e-9 * (96 * column + 10 * row + 120 * column), spectra = 4e-9 * (37 * column + 2 * row);
    CHECK_NEAR(t.compute, 6144 + lines, 1e-9);
    CHECK_NEAR(t.spectra, spectra, 1e-12);
    CHECK_NEAR(t.communication, 6144 - 1800, 1e-9);
    CHECK_NEAR(t.border, 6144 / 1800.0 - 1, 1e-12);
    const struct vp_convolve_speed slow = {2, 3};
    vp_convolve_predict(&t, &l, &loads, &slow, 1);
    CHECK_NEAR(t.compute, 2 * (6144 + lines), 1e-9);

    l.strips = true; /* one kernel: columns are shared */
    tile.kernels = tile.rows = 1;
    w = vp_convolve_work_of(&l, &tile);
    CHECK_NEAR(w.of[VP_WORK_LINE], 60 * column + 2 * 2 * row + 60 * column, 1e-6);
    CHECK_NEAR(w.of[VP_WORK_LOAD], 60 * 64, 0);
    CHECK_NEAR(w.of[VP_WORK_PRODUCT], 0, 0);
    l.strips = false;
    l.source = true; /* four kernels there, one way back */
    tile.kernels = 4;
    tile.rows = 2;
    w = vp_convolve_work_of(&l, &tile);
    CHECK_NEAR(w.of[VP_WORK_LINE], 2 * 96 * column + 2 * 5 * row + 60 * column, 1e-6);
    CHECK_NEAR(w.of[VP_WORK_LOAD], 2 * 96 * 64, 0);
    CHECK_NEAR(w.of[VP_WORK_ONES], 4 * 60 * (33 + 30), 0);
    l.source = false;
    l.anywhere = true; /* four times the work of one, and the sum */
    tile.rows = 1;
    w = vp_convolve_work_of(&l, &tile);
    CHECK_NEAR(w.of[VP_WORK_LINE], 4 * (96 * column + 2 * 2 * row + 60 * column), 1e-6);
    CHECK_NEAR(w.of[VP_WORK_STORE], 4 * 1800, 0);
    CHECK_NEAR(w.of[VP_WORK_MIX], 4 * 1800, 0);
    CHECK_NEAR(w.of[VP_WORK_WEIGHT], 1800, 0);
    l.source = true; /* samples are weighted, too */
    w = vp_convolve_work_of(&l, &tile);
    CHECK_NEAR(w.of[VP_WORK_LINE], 4 * (96 * column + 2 * 2 * row + 60 * column), 1e-6);
    CHECK_NEAR(w.of[VP_WORK_MIX], 4 * (1800 + 6144), 0);
    CHECK_NEAR(w.of[VP_WORK_WEIGHT], 6144, 0);
}

/* In a grid idle threads take a part of the last tile: nothing near a tile is waited for. */
static void test_shared(void)
{
    struct vp_convolve_tile tile = {.n = {60, 30}, .kernels = 4, .rows = 2};
    struct vp_convolve_layout l = {.kernel = {37, 33}, .tile = {96, 64}, .cells = 4, .n = 1, .tiles = &tile,
                                   .planes = 1, .spectra = 4};
    struct vp_convolve_times one, two;

    vp_convolve_predict(&one, &l, &vp_rates, &ONE, 1);
    vp_convolve_predict(&two, &l, &vp_rates, &ONE, 2);
    CHECK(two.seconds < one.seconds && two.efficiency < 1 && two.balance <= 2);
    CHECK_NEAR(one.efficiency, 1, 1e-12);
}

/* The tiles of real operations cover the image once, with the kernels of their cells. */
static void test_layout(int64_t nodes, int64_t side, bool anywhere, enum vp_weights weights)
{
    enum { NX = 300, NY = 260 };
    const int64_t size[3] = {NX, NY, 1}, all = nodes * nodes;
    struct vp_err err = VP_ERR_INIT;
    double x[16], y[16];
    float *const k = vp_alloc((size_t)(all * side * side), sizeof *k, "kernels", &err);
    struct vp_convolve_given g = {.n = {side, side, 1}, .nodes = {nodes, nodes}, .kernels = k, .weights = weights,
                                  .edge = VP_EDGE_ZERO};
    struct vp_convolve_layout l;
    struct vp_op op;
    double results = 0;

    for (int64_t i = 0; i < all * side * side; i++)
        k[i] = (float)((i * 7919) % 101) + 1;
    for (int64_t i = 0; i < all; i++) {
        x[i] = ((double)(i % nodes) + 0.3 + 0.1 * (double)(i % 3)) * NX / (double)nodes;
        y[i] = ((double)(i / nodes) + 0.4) * NY / (double)nodes;
    }
    if (anywhere) {
        g.nodes[0] = all;
        g.nodes[1] = 1;
        g.between = VP_BETWEEN_NEAREST;
        g.node[0] = x;
        g.node[1] = y;
    }
    CHECK_INT(vp_convolve_local(&op, &g, size, VP_F32, VP_F32, &err), 0);
    CHECK_INT(vp_convolve_layout_make(&l, &op, 3, &err), 0);
    for (int64_t i = 0; i < l.n; i++) {
        const struct vp_convolve_tile *const t = &l.tiles[i];
        results += (double)t->n[0] * t->n[1];
        CHECK(t->kernels >= 1 && t->kernels <= all && t->rows >= 1 && t->rows <= t->kernels);
        CHECK(t->n[0] <= l.tile[0] - side + 1 && t->n[1] <= l.tile[1] - side + 1);
        CHECK(weights == VP_WEIGHTS_SOURCE || anywhere || t->kernels <= 4);
    }
    CHECK_NEAR(results, NX * NY, 0);
    CHECK_INT(l.cells, all);
    CHECK(l.tiles[0].kernels == 1 || weights == VP_WEIGHTS_SOURCE || anywhere); /* before the first node */
    struct vp_convolve_times t[2];
    vp_convolve_predict(&t[0], &l, &vp_rates, &ONE, 1);
    vp_convolve_predict(&t[1], &l, &vp_rates, &ONE, 4);
    CHECK(t[0].seconds > t[1].seconds && t[1].balance >= 1 && t[1].efficiency <= 1 && t[0].operations > 0);
    l.planes = 6;
    vp_convolve_predict(&t[1], &l, &vp_rates, &ONE, 1);
    CHECK_NEAR(t[1].compute, 2 * t[0].compute, 1e-12);
    CHECK_NEAR(t[1].spectra, t[0].spectra, 0);
    vp_convolve_layout_free(&l);
    op.free(op.params);
    free(k);
}

static int speed_of(const char *text, struct vp_convolve_speed *s)
{
    char path[] = "/tmp/convolve_model_test.XXXXXX";
    struct vp_err err = VP_ERR_INIT;
    const int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    const int rc = vp_convolve_speed_read(s, path, &err);
    close(fd);
    unlink(path);
    return rc;
}

static void test_speed(void)
{
    struct vp_convolve_speed s;

    CHECK_INT(speed_of("# here\nload = 3e9 # ct-fdk\nconvolve_vector = 1.5\n\nconvolve_scalar = 2 # plain\n", &s), 0);
    CHECK_NEAR(s.vector, 1.5, 0);
    CHECK_NEAR(s.scalar, 2, 0);
    CHECK_INT(speed_of("convolve_vector = 1.5\n", &s), -1);
    CHECK_INT(speed_of("convolve_vector = 1.5\nconvolve_scalar = 0\n", &s), -1);
    CHECK_INT(speed_of("convolve_vector = fast\nconvolve_scalar = 1\n", &s), -1);
    CHECK_INT(speed_of("convolve_vector 1.5\nconvolve_scalar = 1\n", &s), -1);
    vp_convolve_speed(&s, &vp_rates, "avx2");
    CHECK_NEAR(s.vector, vp_rates.convolve_avx2, 0);
    vp_convolve_speed(&s, &vp_rates, "generic");
    CHECK_NEAR(s.vector, vp_rates.convolve_generic, 0);
}

int main(void)
{
    test_balance();
    test_amounts();
    test_shared();
    test_layout(1, 33, false, VP_WEIGHTS_OUTPUT);
    test_layout(2, 9, false, VP_WEIGHTS_OUTPUT);
    test_layout(4, 33, false, VP_WEIGHTS_OUTPUT);
    test_layout(3, 21, false, VP_WEIGHTS_SOURCE);
    test_layout(4, 17, true, VP_WEIGHTS_OUTPUT);
    test_layout(3, 5, true, VP_WEIGHTS_OUTPUT);
    test_layout(3, 17, true, VP_WEIGHTS_SOURCE);
    test_speed();
    return test_done();
}
