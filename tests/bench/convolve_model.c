/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of img-convolve --plan beside what is measured.
 *
 *     convolve_model [TIMES [THREADS]]    a table: milliseconds measured and modelled with 1 and THREADS threads
 *     convolve_model rates                the speed of this machine, as img-convolve --model reads it
 *     convolve_model raw [TIMES]          amounts of each kind of work, and seconds: to fit the table of rates
 *
 * A time is the least of TIMES rounds over all rows, spectra included; of one thread it is the processor's. Images and
 * kernels are in memory. The speed of the machine is that of two other jobs, which run before each row. */
#include "../unit/apply.h"
#include "base/err.h"
#include "clock.h"
#include "base/isa.h"
#include "engine/rates.h"
#include "local/convolve.h"
#include "local/convolve_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job { int64_t image, kernel, nodes; bool anywhere; enum vp_weights weights; };

static const struct job VECTOR = {1024, 47, 4, false, VP_WEIGHTS_OUTPUT}, SCALAR = {512, 7, 3, true, VP_WEIGHTS_OUTPUT};
static const struct job JOBS[] = {
    {1024, 33, 1, false, VP_WEIGHTS_OUTPUT},  {2048, 65, 1, false, VP_WEIGHTS_OUTPUT},
    {4096, 129, 1, false, VP_WEIGHTS_OUTPUT}, {512, 9, 2, false, VP_WEIGHTS_OUTPUT},
    {1024, 33, 2, false, VP_WEIGHTS_OUTPUT},  {2048, 65, 2, false, VP_WEIGHTS_OUTPUT},
    {4096, 129, 2, false, VP_WEIGHTS_OUTPUT}, {512, 33, 4, false, VP_WEIGHTS_OUTPUT},
    {1024, 9, 4, false, VP_WEIGHTS_OUTPUT},   {2048, 33, 4, false, VP_WEIGHTS_OUTPUT},
    {4096, 65, 4, false, VP_WEIGHTS_OUTPUT},  {512, 17, 8, false, VP_WEIGHTS_OUTPUT},
    {1024, 101, 8, false, VP_WEIGHTS_OUTPUT}, {2048, 129, 8, false, VP_WEIGHTS_OUTPUT},
    {4096, 65, 8, false, VP_WEIGHTS_OUTPUT},  {512, 9, 3, true, VP_WEIGHTS_OUTPUT},
    {1024, 33, 4, true, VP_WEIGHTS_OUTPUT},   {2048, 65, 4, true, VP_WEIGHTS_OUTPUT},
    {2048, 129, 6, true, VP_WEIGHTS_OUTPUT},  {1024, 33, 4, false, VP_WEIGHTS_SOURCE},
    {1024, 33, 4, true, VP_WEIGHTS_SOURCE},
};
enum { JOB_COUNT = sizeof JOBS / sizeof *JOBS };

static double uniform(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (double)(s >> 11) / 9007199254740992.0;
}

static void check(int rc, const struct vp_err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "convolve_model: error: %s\n", err->msg);
    exit(1);
}

/* Kernels and nodes of a job; those anywhere are the nodes of a grid, moved. */
struct input { float *image, *result, *kernels; double *at[2]; };

static void make_input(struct input *in, const struct job *j)
{
    const size_t voxels = (size_t)(j->image * j->image), nodes = (size_t)(j->nodes * j->nodes);
    const size_t samples = nodes * (size_t)(j->kernel * j->kernel);
    struct vp_err err = VP_ERR_INIT;

    in->image = vp_alloc(voxels, sizeof *in->image, "an image", &err);
    in->result = vp_alloc(voxels, sizeof *in->result, "an image", &err);
    in->kernels = vp_alloc(samples, sizeof *in->kernels, "kernels", &err);
    for (int a = 0; a < 2; a++)
        in->at[a] = vp_alloc(nodes, sizeof *in->at[a], "nodes", &err);
    check(err.code, &err);
    for (size_t i = 0; i < voxels; i++)
        in->image[i] = (float)uniform();
    for (size_t i = 0; i < samples; i++)
        in->kernels[i] = (float)uniform();
    for (size_t n = 0; n < nodes; n++)
        for (int a = 0; a < 2; a++) {
            const size_t place = a ? n / (size_t)j->nodes : n % (size_t)j->nodes;
            in->at[a][n] = ((double)place + 0.2 + 0.6 * uniform()) * (double)j->image / (double)j->nodes;
        }
}

static void free_input(struct input *in)
{
    free(in->image);
    free(in->result);
    free(in->kernels);
    free(in->at[0]);
    free(in->at[1]);
}

static void make(struct vp_op *op, const struct job *j, const struct input *in)
{
    const int64_t size[3] = {j->image, j->image, 1}, all = j->nodes * j->nodes;
    struct vp_err err = VP_ERR_INIT;
    struct vp_convolve_given g = {.n = {j->kernel, j->kernel, 1}, .nodes = {j->nodes, j->nodes}, .kernels = in->kernels,
                                  .weights = j->weights, .normalize = true,
                                  .edge = j->anywhere && j->weights ? VP_EDGE_ZERO : VP_EDGE_RENORMALIZE};
    if (j->anywhere) {
        g.nodes[0] = all;
        g.nodes[1] = 1;
        g.between = VP_BETWEEN_TRIANGLES;
        g.node[0] = in->at[0];
        g.node[1] = in->at[1];
    }
    check(vp_convolve_local(op, &g, size, VP_F32, VP_F32, &err), &err);
}

/* Lowers *best to the seconds of one run; the operation is made anew, so that spectra are, too. */
static void measure(double *best, const struct job *j, struct input *in, int threads)
{
    const void *from = in->image;
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    struct vp_op op;

    make(&op, j, in);
    check(vp_chain_add(&c, &op, &err), &err);
    const double start = bench_now(threads);
    check(vp_chain_apply(&c, &from, in->result, threads, &err), &err);
    *best = fmin(*best, bench_now(threads) - start);
    vp_chain_free(&c);
}

static void lay_out(struct vp_convolve_layout *l, const struct job *j, const struct input *in)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;

    make(&op, j, in);
    check(vp_convolve_layout_make(l, &op, 1, &err), &err);
    op.free(op.params);
}

static double seconds_at(const struct vp_convolve_layout *l, double vector, double scalar)
{
    const struct vp_convolve_speed speed = {vector, scalar};
    struct vp_convolve_times t;

    vp_convolve_predict(&t, l, &vp_rates, &speed, 1);
    return t.compute + t.spectra;
}

/* Jobs that measure the speed of a machine, one of transforms and one of plain code, and their least seconds. */
static const struct job *const PROBES[2] = {&VECTOR, &SCALAR};
static struct input probes[2];
static double probed[2];

static void probe(void)
{
    for (int i = 0; i < 2; i++) {
        if (!probes[i].image)
            make_input(&probes[i], PROBES[i]);
        measure(&probed[i], PROBES[i], &probes[i], 1);
    }
}

/* Two equations, of the probes. */
static void solve(struct vp_convolve_speed *speed)
{
    double m[2][2];

    for (int i = 0; i < 2; i++) {
        struct vp_convolve_layout l;
        lay_out(&l, PROBES[i], &probes[i]);
        m[i][0] = seconds_at(&l, 1, 0);
        m[i][1] = seconds_at(&l, 0, 1);
        vp_convolve_layout_free(&l);
    }
    const double det = m[0][0] * m[1][1] - m[0][1] * m[1][0];
    speed->vector = (probed[0] * m[1][1] - probed[1] * m[0][1]) / det;
    speed->scalar = (m[0][0] * probed[1] - m[1][0] * probed[0]) / det;
}

static void show_raw(const struct job *j, const struct vp_convolve_layout *l, double seconds)
{
    double of[VP_WORK_KINDS] = {0};

    for (int64_t i = -l->spectra; i < l->n; i++) {
        const struct vp_convolve_amounts w = vp_convolve_work_of(l, i < 0 ? NULL : &l->tiles[i]);
        for (int k = 0; k < VP_WORK_KINDS; k++)
            of[k] += w.of[k];
    }
    printf("%lld %lld %lld%s%s", (long long)j->image, (long long)j->kernel, (long long)j->nodes, j->anywhere ? "a" : "",
           j->weights ? "s" : "");
    for (int k = 0; k < VP_WORK_KINDS; k++)
        printf(" %.4g", of[k]);
    printf(" %.6f\n", seconds);
}

static void show_row(const struct job *j, const struct vp_convolve_layout *l, const double measured[2], int threads,
                     const struct vp_convolve_speed *speed)
{
    struct vp_convolve_times t[2];

    vp_convolve_predict(&t[0], l, &vp_rates, speed, 1);
    vp_convolve_predict(&t[1], l, &vp_rates, speed, threads);
    printf("| %lld^2 | %lld^2 | ", (long long)j->image, (long long)j->kernel);
    if (j->anywhere)
        printf("%lld anywhere", (long long)(j->nodes * j->nodes));
    else
        printf("%lld x %lld", (long long)j->nodes, (long long)j->nodes);
    printf("%s | ", j->weights ? ", source" : "");
    for (int i = 0; i < 2; i++)
        printf("%.1f | %.1f | %.2f | ", 1e3 * measured[i], 1e3 * t[i].seconds, t[i].seconds / measured[i]);
    printf("%.0f | %.0f | %.2f |\n", 100 * measured[0] / measured[1] / threads, 100 * t[1].efficiency, t[1].balance);
}

int main(int argc, char **argv)
{
    const bool raw = argc > 1 && !strcmp(argv[1], "raw");
    const int times = argc > 1 + raw ? atoi(argv[1 + raw]) : 5, threads = !raw && argc > 2 ? atoi(argv[2]) : 2;
    struct vp_convolve_speed speed;

    if (argc > 1 && !strcmp(argv[1], "rates")) {
        probed[0] = probed[1] = INFINITY;
        for (int i = 0; i < 9; i++)
            probe();
        solve(&speed);
        printf("%-18s = %-12.4g # time of transforms over that of the built-in table (img-convolve)\n"
               "%-18s = %-12.4g # the same of plain code\n", "convolve_vector", speed.vector, "convolve_scalar",
               speed.scalar);
        return 0;
    }
    if (!raw)
        printf("| image | kernel | kernels | measured, 1 thread | model | ratio | measured, %d threads | model | ratio "
               "| efficiency, %% | model | balance |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
               threads);
    static struct input in[JOB_COUNT];
    static double measured[JOB_COUNT][2];
    probed[0] = probed[1] = INFINITY;
    for (int k = 0; k < times; k++) /* in turn, since others change the speed of the cores */
        for (int i = 0; i < JOB_COUNT; i++) {
            if (k == 0) {
                make_input(&in[i], &JOBS[i]);
                measured[i][0] = measured[i][1] = INFINITY;
            }
            probe();
            for (int t = 0; t < (raw ? 1 : 2); t++)
                measure(&measured[i][t], &JOBS[i], &in[i], t ? threads : 1);
        }
    solve(&speed);
    for (int i = 0; i < JOB_COUNT; i++) {
        struct vp_convolve_layout l;
        lay_out(&l, &JOBS[i], &in[i]);
        if (raw)
            show_raw(&JOBS[i], &l, measured[i][0]);
        else
            show_row(&JOBS[i], &l, measured[i], threads, &speed);
        vp_convolve_layout_free(&l);
        free_input(&in[i]);
    }
    if (!raw)
        printf("\nspeed of this machine: convolve_vector %.3g, convolve_scalar %.3g\n", speed.vector, speed.scalar);
    return 0;
}
