/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of iteration against their definitions in float64, with the matrix read off by unit vectors; bounds of the
 * norm; and that bits depend on neither threads nor ranks nor interruptions. */
#include "test.h"
#include "geometry.h"
#include "ranks.h"
#include "ct/iterate.h"
#include "ct/pair.h"

enum { NX = 10, NY = 9, NZ = 7, VOXELS = NX * NY * NZ, NU = 14, NV = 11, VIEW = NU * NV, VIEWS = 19, PIXELS = VIEWS * VIEW };

static const char SCAN[] = "beam = cone\nsod = 60\nsdd = 90\ndetector = 14x11\npitch = 1.5\nviews = 19\n";

static struct vp_view *views;
static const struct vp_grid grid = {.n = {NX, NY, NZ}, .voxel = {1.1, 1.1, 1.1}};
static double *A;               /* PIXELS x VOXELS */
static float y[PIXELS], pixels[VIEW];
static double W[PIXELS];

static int read_y(void *ctx, int64_t first, int n, int64_t v0, int64_t v1, float *to, struct vp_err *err)
{
    (void)ctx, (void)err, (void)v0, (void)v1;
    memcpy(to, y + first * VIEW, (size_t)n * VIEW * sizeof *to);
    return 0;
}

static struct vp_projections scan = {.n_views = VIEWS, .nu = NU, .nv = NV, .read = read_y};

static void set_up(void)
{
    struct vp_geom geom;
    struct vp_scan kind;
    struct vp_err err = VP_ERR_INIT;
    struct vp_pair *p;
    if (parse_geometry(&geom, SCAN, strlen(SCAN), "scan", &err) || vp_geom_views(&geom, &views, &kind, &err))
        CHECK_STR(err.msg, "");
    vp_geom_free(&geom);
    scan.views = views;
    CHECK_INT(vp_pair_open(&p, &scan, &grid, 1, "generic", &err), 0);
    A = calloc((size_t)PIXELS * VOXELS, sizeof *A);
    float *x = calloc(VOXELS, sizeof *x), *column = calloc(PIXELS, sizeof *column);
    for (int64_t j = 0; j < VOXELS; j++) {
        x[j] = 1;
        for (int64_t s = 0; s < VIEWS; s++)
            vp_pair_forward(p, x, &s, 1, column + s * VIEW);
        x[j] = 0;
        for (int64_t i = 0; i < PIXELS; i++)
            A[i * VOXELS + j] = (double)column[i];
    }
    unsigned seed = 3;
    for (int64_t j = 0; j < VOXELS; j++) {
        const double i = (double)(j % NX) - 4.5, k = (double)(j / NX % NY) - 4, l = (double)(j / NX / NY) - 3;
        x[j] = i * i + k * k + l * l < 9 ? 0.02f : 0.004f;
    }
    for (int64_t i = 0; i < PIXELS; i++) {
        double sum = 0;
        for (int64_t j = 0; j < VOXELS; j++)
            sum += A[i * VOXELS + j] * (double)x[j];
        seed = seed * 1664525u + 1013904223u;
        y[i] = (float)(sum * (1 + 0.02 * ((double)(seed >> 8) * 0x1p-24 - 0.5)));
    }
    for (int64_t i = 0; i < VIEW; i++)
        pixels[i] = i % 23 == 5 ? 0 : i % 3 ? 1 : 0.5f;
    for (int64_t s = 0; s < VIEWS; s++)
        y[s * VIEW + 5] = NAN; /* of weight 0 */
    vp_pair_close(p);
    free(x);
    free(column);
}

static void weigh(bool weighted)
{
    for (int64_t i = 0; i < PIXELS; i++)
        W[i] = weighted ? (double)pixels[i % VIEW] : i % VIEW == 5 ? 0 : 1;
}

/* ---- the definitions ---- */

static void project(const double *x, double *to)
{
    for (int64_t i = 0; i < PIXELS; i++) {
        to[i] = 0;
        for (int64_t j = 0; j < VOXELS; j++)
            to[i] += A[i * VOXELS + j] * x[j];
    }
}

/* to = A'r of views s % step == first. */
static void transpose(const double *r, int64_t first, int64_t step, double *to)
{
    memset(to, 0, VOXELS * sizeof *to);
    for (int64_t i = 0; i < PIXELS; i++)
        for (int64_t j = 0; j < VOXELS && i / VIEW % step == first; j++)
            to[j] += A[i * VOXELS + j] * r[i];
}

static double data(int64_t i)
{
    return W[i] > 0 ? (double)y[i] : 0;
}

static double Ax[PIXELS], r[PIXELS], one[PIXELS], g[VOXELS], c[VOXELS];

static void sart(double *x, int iterations, int64_t blocks, double relax, double min)
{
    static const int64_t order[4] = {0, 2, 1, 3};
    double ones[VOXELS];
    for (int64_t j = 0; j < VOXELS; j++)
        ones[j] = 1;
    project(ones, one);
    for (int k = 0; k < iterations; k++)
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t block = blocks == 1 ? 0 : order[b];
            project(x, Ax);
            for (int64_t i = 0; i < PIXELS; i++)
                r[i] = one[i] >= 1.1 ? W[i] * (data(i) - Ax[i]) / one[i] : 0;
            transpose(r, block, blocks, g);
            transpose(W, block, blocks, c);
            for (int64_t j = 0; j < VOXELS; j++)
                x[j] = c[j] > 0 ? fmax(x[j] + relax * g[j] / c[j], min) : x[j];
        }
}

static void em(double *x, int iterations)
{
    double total = 0, length = 0;
    for (int64_t j = 0; j < VOXELS; j++)
        x[j] = 1;
    project(x, one);
    for (int64_t i = 0; i < PIXELS; i++) {
        total += W[i] * data(i);
        length += W[i] * one[i];
    }
    for (int64_t j = 0; j < VOXELS; j++)
        x[j] = total / length;
    transpose(W, 0, 1, c);
    for (int k = 0; k < iterations; k++) {
        project(x, Ax);
        for (int64_t i = 0; i < PIXELS; i++)
            r[i] = Ax[i] > 0 ? W[i] * data(i) / Ax[i] : 0;
        transpose(r, 0, 1, g);
        for (int64_t j = 0; j < VOXELS; j++)
            x[j] = c[j] > 0 ? x[j] * g[j] / c[j] : x[j];
    }
}

/* Conjugate gradients with the residual of the projections, as textbooks have it. */
static void cg(double *x, int iterations, double *residual)
{
    static double q[PIXELS], p[VOXELS];
    double gamma = 0;
    for (int64_t i = 0; i < PIXELS; i++) {
        r[i] = sqrt(W[i]) * data(i);
        q[i] = sqrt(W[i]) * r[i];
    }
    transpose(q, 0, 1, g);
    memcpy(p, g, sizeof p);
    for (int64_t j = 0; j < VOXELS; j++)
        gamma += g[j] * g[j];
    for (int k = 0; k < iterations; k++) {
        double size = 0, next = 0, square = 0;
        project(p, q);
        for (int64_t i = 0; i < PIXELS; i++)
            size += W[i] * q[i] * q[i];
        const double alpha = gamma / size;
        for (int64_t j = 0; j < VOXELS; j++)
            x[j] += alpha * p[j];
        for (int64_t i = 0; i < PIXELS; i++) {
            r[i] -= alpha * sqrt(W[i]) * q[i];
            q[i] = sqrt(W[i]) * r[i];
            square += r[i] * r[i];
        }
        transpose(q, 0, 1, g);
        for (int64_t j = 0; j < VOXELS; j++)
            next += g[j] * g[j];
        for (int64_t j = 0; j < VOXELS; j++)
            p[j] = g[j] + next / gamma * p[j];
        gamma = next;
        residual[k] = sqrt(square);
    }
}

/* Adds the transposed differences of p to `to`, by factor. */
static void add_transposed_differences(double p[3][VOXELS], double factor, double *to)
{
    static const int64_t step[3] = {1, NX, NX * NY}, n[3] = {NX, NY, NZ};
    for (int64_t j = 0; j < VOXELS; j++)
        for (int a = 0; a < 3; a++)
            if (j / step[a] % n[a] < n[a] - 1) {
                to[j] -= factor * p[a][j];
                to[j + step[a]] += factor * p[a][j];
            }
}

/* Primal-dual hybrid gradients with the dual of the projections, as the paper has it: duals extrapolated. */
static void primal_dual(double *x, int iterations, double norm, double tv, double min)
{
    static const int64_t step[3] = {1, NX, NX * NY}, n[3] = {NX, NY, NZ};
    static double q[PIXELS], p[3][VOXELS], before[VOXELS], all[VOXELS];
    const double s = 0.1, tau = 0.8 / (s * norm), rate = 0.2 / (12 * tau);
    memset(q, 0, sizeof q);
    memset(p, 0, sizeof p);
    memset(all, 0, sizeof all);
    for (int k = 0; k <= iterations; k++) {
        for (int64_t j = 0; j < VOXELS && k; j++)
            x[j] = fmax(x[j] - tau * (2 * all[j] - before[j]), min);
        memcpy(before, all, sizeof before);
        project(x, Ax);
        for (int64_t i = 0; i < PIXELS; i++) {
            q[i] = (q[i] + s * sqrt(W[i]) * (Ax[i] - data(i))) / (1 + s);
            r[i] = sqrt(W[i]) * q[i];
        }
        for (int64_t j = 0; j < VOXELS; j++) {
            double size = 0;
            for (int a = 0; a < 3; a++) {
                p[a][j] += j / step[a] % n[a] < n[a] - 1 ? rate * (x[j + step[a]] - x[j]) : 0;
                size += p[a][j] * p[a][j];
            }
            for (int a = 0; a < 3; a++)
                p[a][j] *= fmin(1, tv / fmax(sqrt(size), 1e-300));
        }
        transpose(r, 0, 1, all);
        add_transposed_differences(p, 1, all);
    }
}

static double largest_eigenvalue(void)
{
    double x[VOXELS], size = 0;
    for (int64_t j = 0; j < VOXELS; j++)
        x[j] = 1;
    for (int k = 0; k < 100; k++) {
        project(x, Ax);
        for (int64_t i = 0; i < PIXELS; i++)
            Ax[i] *= W[i];
        transpose(Ax, 0, 1, g);
        size = 0;
        for (int64_t j = 0; j < VOXELS; j++)
            size += g[j] * g[j];
        size = sqrt(size);
        for (int64_t j = 0; j < VOXELS; j++)
            x[j] = g[j] / size;
    }
    return size;
}

/* Returns the sum that fista-tv and pdhg-tv minimise. */
static double objective(const float *x, double tv)
{
    double z[VOXELS], sum = 0;
    for (int64_t j = 0; j < VOXELS; j++)
        z[j] = (double)x[j];
    project(z, Ax);
    for (int64_t i = 0; i < PIXELS; i++)
        sum += W[i] * (data(i) - Ax[i]) * (data(i) - Ax[i]) / 2;
    for (int64_t j = 0; j < VOXELS; j++) {
        const double dx = j % NX < NX - 1 ? z[j + 1] - z[j] : 0, dy = j / NX % NY < NY - 1 ? z[j + NX] - z[j] : 0;
        const double dz = j / NX / NY < NZ - 1 ? z[j + NX * NY] - z[j] : 0;
        sum += tv * sqrt(dx * dx + dy * dy + dz * dz);
    }
    return sum;
}

/* ---- runs ---- */

enum { MOST = 200, LONG = 300 };

struct log {
    struct vp_iterate_line line[LONG + 1];
    int64_t save_at;
    struct vp_iterate_state saved;
    float *volume[VP_ITERATE_VOLUMES];
    bool go_on;
};

static int each(void *ctx, const struct vp_iterate_line *line, const struct vp_iterate_state *state, struct vp_err *err)
{
    struct log *l = ctx;
    (void)err;
    l->line[line->iteration] = *line;
    if (line->iteration == l->save_at) {
        l->saved = *state;
        for (int i = 0; i < state->volumes; i++) {
            l->volume[i] = malloc(VOXELS * sizeof(float));
            memcpy(l->volume[i], state->volume[i], VOXELS * sizeof(float));
        }
    }
    return 0;
}

static int go_on(void *ctx, struct vp_iterate_state *state, struct vp_err *err)
{
    struct log *l = ctx;
    (void)err;
    if (!l->go_on)
        return 0;
    CHECK_INT(state->volumes, l->saved.volumes);
    CHECK_INT(state->scalars, l->saved.scalars);
    for (int i = 0; i < state->volumes; i++)
        memcpy(state->volume[i], l->volume[i], VOXELS * sizeof(float));
    memcpy(state->scalar, l->saved.scalar, sizeof state->scalar);
    state->iteration = l->saved.iteration;
    return 1;
}

static void close_log(struct log *l)
{
    for (int i = 0; i < VP_ITERATE_VOLUMES; i++)
        free(l->volume[i]);
}

static struct vp_iterate run(enum vp_iterate_method method, int64_t iterations, bool weighted, int threads, float *x,
                             struct log *log)
{
    static float dead[VIEW];
    struct vp_err err = VP_ERR_INIT;
    for (int64_t i = 0; i < VIEW; i++)
        dead[i] = i != 5;
    struct vp_iterate job = {.scan = &scan, .grid = &grid, .last = VIEWS, .method = method, .iterations = iterations,
                             .blocks = 4, .relax = 0.9, .min = -INFINITY, .max = INFINITY, .tv = 0.05, .x = x,
                             .pixels = weighted ? pixels : dead, .threads = threads,
                             .memory = threads > 1 ? UINT64_MAX : 0, .each = each, .resume = go_on, .ctx = log};
    memset(x, 0, VOXELS * sizeof *x);
    if (method == VP_SIRT || method == VP_FISTA_TV || method == VP_PDHG_TV)
        job.min = 0;
    if (vp_iterate_run(&job, &err))
        CHECK_STR(err.msg, "");
    return job;
}

static double error_of(const float *got, const double *want)
{
    double e = 0, q = 0;
    for (int64_t j = 0; j < VOXELS; j++) {
        e += (got[j] - want[j]) * (got[j] - want[j]);
        q += want[j] * want[j];
    }
    return sqrt(e / q);
}

static void test_definitions(bool weighted)
{
    static struct log log;
    float x[VOXELS];
    double want[VOXELS] = {0}, residual[8];
    weigh(weighted);
    sart(want, 6, 1, 0.9, 0);
    CHECK_INT(run(VP_SIRT, 6, weighted, 2, x, &log).done, 6);
    CHECK(error_of(x, want) <= 2e-6);
    for (int k = 2; k <= 6; k++)
        CHECK(log.line[k].residual <= log.line[k - 1].residual * (1 + 1e-6));
    memset(want, 0, sizeof want);
    sart(want, 3, 4, 0.9, -INFINITY);
    run(VP_OS_SART, 3, weighted, 2, x, &log);
    CHECK(error_of(x, want) <= 2e-6);
    em(want, 6);
    run(VP_MLEM, 6, weighted, 2, x, &log);
    CHECK(error_of(x, want) <= 2e-6);
    for (int k = 2; k <= 6; k++)
        CHECK(log.line[k].objective <= log.line[k - 1].objective + 1e-6 * fabs(log.line[k].objective));
    memset(want, 0, sizeof want);
    cg(want, 8, residual);
    run(VP_CGLS, 8, weighted, 2, x, &log);
    CHECK(error_of(x, want) <= 1e-4);
    for (int k = 0; k < 8; k++)
        CHECK_NEAR(log.line[k + 1].residual, residual[k], 1e-4 * residual[k]);
    run(VP_CGLS, 40, weighted, 2, x, &log); /* renewed twice */
    for (int k = 2; k <= 40; k++)
        CHECK(log.line[k].residual <= log.line[k - 1].residual * (1 + 1e-6));
}

static void test_total_variation(void)
{
    static struct log log;
    float x[VOXELS], other[VOXELS];
    weigh(true);
    const double norm = largest_eigenvalue();
    const struct vp_iterate job = run(VP_FISTA_TV, MOST, true, 2, x, &log);
    CHECK(job.norm >= norm);
    if (job.norm > 1.05 * norm)
        printf("norm %.6g, bound %.6g\n", norm, job.norm);
    CHECK(job.norm <= 1.05 * norm);
    CHECK(job.least_norm <= norm * (1 + 1e-6));
    const double least = objective(x, 0.05);
    CHECK(least < objective(x, 0.05) * (1 + 1e-12) && least <= log.line[5].objective);
    CHECK_NEAR(log.line[MOST].objective, least, 1e-3 * least);
    unsigned seed = 9;
    for (int t = 0; t < 50; t++) { /* no neighbour is better: single voxels, and all of them */
        memcpy(other, x, sizeof other);
        for (int64_t j = 0; j < VOXELS; j++) {
            seed = seed * 1664525u + 1013904223u;
            if (t % 2 || j == (int64_t)(seed >> 8) % VOXELS)
                other[j] = fmaxf(0, x[j] + 0.001f * ((float)(seed >> 8) * 0x1p-24f - 0.5f));
        }
        CHECK(objective(other, 0.05) >= least * (1 - 1e-4));
    }
    for (int64_t j = 0; j < VOXELS; j++)
        CHECK(x[j] >= 0);
    /* pdhg-tv has the same minimum, and its line is that of the volume after the iteration */
    for (int k = 1; k <= 3; k++) {
        const struct vp_iterate other_job = run(VP_PDHG_TV, k == 3 ? LONG : 10 * k, true, 2, other, &log);
        CHECK(other_job.norm == job.norm);
        CHECK_NEAR(log.line[other_job.done].objective, objective(other, 0.05), 1e-5 * least);
    }
    CHECK_NEAR(objective(other, 0.05), least, 0.01 * least);
    CHECK(log.line[LONG].change < 1e-3);
}

static void test_primal_dual(bool weighted)
{
    static struct log log;
    float x[VOXELS];
    double want[VOXELS] = {0};
    weigh(weighted);
    const struct vp_iterate job = run(VP_PDHG_TV, 12, weighted, 2, x, &log);
    primal_dual(want, 12, job.norm, 0.05, 0);
    if (error_of(x, want) > 2e-6)
        printf("pdhg-tv: error %g\n", error_of(x, want));
    CHECK(error_of(x, want) <= 2e-6);
    CHECK_NEAR(log.line[12].step, 0.8 / (0.1 * job.norm), 1e-9 * log.line[12].step);
}

static void test_bits(enum vp_iterate_method method)
{
    float x[VOXELS], again[VOXELS];
    static struct log log;
    log = (struct log){.save_at = 3};
    run(method, 20, true, 1, x, &log);
    static struct log second;
    second = log;
    second.save_at = 0;
    run(method, 20, true, 3, again, &(struct log){0});
    CHECK(!memcmp(x, again, sizeof x));
    second.go_on = true;
    run(method, 20, true, 2, again, &second);
    if (memcmp(x, again, sizeof x))
        printf("%s: other bits after an interruption\n", vp_iterate_name(method));
    CHECK(!memcmp(x, again, sizeof x));
    close_log(&log);
}

/* A run on ranks, from a state or from the beginning. */
struct rank_run {
    enum vp_iterate_method method;
    const struct log *from;
    const float *want;          /* NULL: it fails on rank 1 */
    struct log after[RANKS_MOST];
};

static int each_rank(void *ctx, const struct vp_iterate_line *line, const struct vp_iterate_state *state, struct vp_err *err)
{
    struct log *l = ctx;
    each(ctx, line, state, err);
    return line->iteration == 2 && l->save_at < 0 ? vp_fail(err, VP_ERUN, "the disk is full") : 0;
}

/* Conjugate gradients are renewed after 16. */
static int64_t iterations_of(enum vp_iterate_method method)
{
    return method == VP_CGLS ? 18 : 5;
}

static void iterates(struct vp_ranks *ranks, void *arg)
{
    struct rank_run *const of = arg;
    struct log log = {.save_at = of->want ? 3 : ranks->rank == 1 ? -1 : 0};
    struct vp_err err = VP_ERR_INIT;
    float *const x = calloc(VOXELS, sizeof *x);
    struct vp_iterate job = {.scan = &scan, .grid = &grid, .last = VIEWS, .method = of->method, .iterations = iterations_of(of->method), .blocks = 4,
                             .relax = 0.9, .min = -INFINITY,
                             .max = INFINITY, .tv = 0.05, .x = x, .pixels = pixels, .threads = ranks->rank == 1 ? 2 : 1,
                             .memory = ranks->rank == 0 ? UINT64_MAX : ranks->size % 2 ? 0 : UINT64_MAX, .each = each_rank,
                             .resume = go_on, .ctx = &log, .share = {ranks, ranks->rank, ranks->size}};
    if (of->method == VP_SIRT || of->method == VP_FISTA_TV || of->method == VP_PDHG_TV)
        job.min = 0;
    if (of->from) {
        log = *of->from;
        log.go_on = true;
    }
    int rc = vp_iterate_run(&job, &err);
    if (rc)
        vp_ranks_stop(ranks);
    rc = vp_ranks_agree(ranks, rc, NULL, 0, NULL, &err);
    CHECK_INT(rc, of->want ? 0 : -1);
    CHECK_STR(err.msg, of->want ? "" : "rank 1 (host0): the disk is full");
    if (of->want) {
        CHECK(!vp_share_all(&job.share, x, NZ, 1, NX * NY * sizeof *x, &err));
        if (memcmp(x, of->want, VOXELS * sizeof *x))
            printf("%s: other bits on %d ranks\n", vp_iterate_name(of->method), ranks->size);
        CHECK(!memcmp(x, of->want, VOXELS * sizeof *x));
        for (int i = 0; i < log.saved.volumes && !of->from; i++)
            CHECK(!vp_share_all(&job.share, log.volume[i], NZ, 1, NX * NY * sizeof *x, &err));
        free(x);
    } /* else messages may still arrive */
    of->after[ranks->rank] = log;
}

static void test_ranks(enum vp_iterate_method method)
{
    static const int sizes[] = {NZ + 2, 4};
    float x[VOXELS];
    struct log log = {0};
    const int64_t last = iterations_of(method);
    run(method, last, true, 1, x, &log);
    struct rank_run first = {.method = method, .want = x};
    ranks_run(3, 2, iterates, &first, false);
    for (int i = 0; i < 2; i++) { /* and from the third iteration of three ranks */
        struct rank_run again = {.method = method, .want = x, .from = i % 2 ? &first.after[1] : NULL};
        ranks_run(sizes[i], 2, iterates, &again, false);
        for (int k = 0; k < sizes[i] && !again.from; k++) {
            CHECK(!memcmp(&again.after[k].line[last].residual, &log.line[last].residual, sizeof(double)));
            CHECK(!memcmp(&again.after[k].line[last].mean, &log.line[last].mean, sizeof(double)));
            close_log(&again.after[k]);
        }
    }
    for (int k = 0; k < 3; k++)
        close_log(&first.after[k]);
    struct rank_run fails = {.method = method};
    ranks_run(3, 3, iterates, &fails, true);
}

static int end(enum vp_iterate_method method, struct vp_iterate_stop stop, const float *mask, const char **by)
{
    float x[VOXELS] = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_iterate job = {.scan = &scan, .grid = &grid, .last = VIEWS, .method = method, .iterations = 100, .blocks = 1,
                             .relax = 1, .min = -INFINITY, .max = INFINITY, .x = x, .pixels = pixels, .threads = 2,
                             .memory = UINT64_MAX, .stop = stop, .mask = mask};
    const int rc = vp_iterate_run(&job, &err);
    for (int64_t j = 0; j < VOXELS && mask; j++)
        CHECK(mask[j] != 0 || x[j] == 0);
    *by = rc ? err.msg[0] ? "failed" : "?" : job.stopped_by;
    return (int)job.done;
}

static void test_ends(void)
{
    const char *by;
    float mask[VOXELS], none[VOXELS] = {0};
    for (int64_t j = 0; j < VOXELS; j++)
        mask[j] = j % 3 != 0;
    CHECK(end(VP_CGLS, (struct vp_iterate_stop){.residual = 0.05}, NULL, &by) < 30);
    CHECK_STR(by, "residual");
    CHECK(end(VP_SIRT, (struct vp_iterate_stop){.change = 0.01}, NULL, &by) < 100);
    CHECK_STR(by, "change");
    CHECK(end(VP_CGLS, (struct vp_iterate_stop){.gradient = 0.01}, mask, &by) < 100);
    CHECK_STR(by, "gradient");
    CHECK(end(VP_SIRT, (struct vp_iterate_stop){.noise = 0.01}, mask, &by) <= 100);
    CHECK_INT(end(VP_SIRT, (struct vp_iterate_stop){0}, mask, &by), 100);
    CHECK_STR(by, "iterations");
    for (int method = VP_SIRT; method < VP_METHODS; method++) {
        end((enum vp_iterate_method)method, (struct vp_iterate_stop){0}, none, &by);
        CHECK_STR(by, method == VP_CGLS ? "convergence" : "failed");
    }
    y[17] = NAN;
    end(VP_CGLS, (struct vp_iterate_stop){0}, NULL, &by);
    CHECK_STR(by, "failed");
    y[17] = -1;
    end(VP_MLEM, (struct vp_iterate_stop){0}, NULL, &by);
    CHECK_STR(by, "failed");
}

int main(void)
{
    set_up();
    test_definitions(false);
    test_definitions(true);
    test_total_variation();
    test_primal_dual(false);
    test_primal_dual(true);
    for (int method = VP_SIRT; method < VP_METHODS; method++)
        test_bits((enum vp_iterate_method)method);
    for (int method = VP_SIRT; method < VP_METHODS; method++)
        test_ranks((enum vp_iterate_method)method);
    test_ends();
    free(A);
    free(views);
    return test_done();
}
