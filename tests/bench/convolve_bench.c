/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution in memory, one run:
 *
 *     convolve_bench [image|grid|volume|f64|crossover|fftw] [THREADS]
 *     convolve_bench table [MOST]         grids of kernels with 1, 2, 4 ... MOST (or all) threads: speed-up, efficiency, and what
 *                                         is done in the time that as many processes take, each with an image of its own
 *     convolve_bench beside [THREADS]     only the last: a line for each size
 *     convolve_bench tile THREADS SIZE KERNEL NODES WIDE HIGH...     with these tiles; box THREADS WIDE HIGH DEEP...
 */
#include "../unit/apply.h"
#include "base/err.h"
#include "clock.h"
#include "base/size.h"
#include "local/convolve.h"
#include "local/convolve_internal.h"

#include <fftw3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct job { int64_t image[3], n[3], nodes; const char *method; int64_t tile[3]; enum vp_type type; /* f64; else f32 */ };

static float uniform(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (float)(s >> 40) / (1 << 24);
}

/* Seconds of the best of `times`; 0: there is no such way. `text` (160) gets what is done. */
static double measure(const struct job *j, int threads, int times, char text[1100], double *predicted)
{
    const int64_t voxels = j->image[0] * j->image[1] * j->image[2], nodes = j->nodes * j->nodes;
    const int64_t kernel = j->n[0] * j->n[1] * j->n[2] * nodes;
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    struct vp_op op;
    double best = 1e9;
    float *in = vp_alloc((size_t)voxels, sizeof *in, "", &err), *out = vp_alloc((size_t)voxels, sizeof *out, "", &err);
    float *k = vp_alloc((size_t)kernel, sizeof *k, "", &err);
    const bool wide = j->type == VP_F64;
    double *in64 = wide ? vp_alloc((size_t)voxels, sizeof *in64, "", &err) : NULL;
    double *out64 = wide ? vp_alloc((size_t)voxels, sizeof *out64, "", &err) : NULL, *k64 = vp_alloc((size_t)kernel, sizeof *k64, "", &err);
    const void *from = wide ? (void *)in64 : in;
    const enum vp_type type = wide ? VP_F64 : VP_F32;

    for (int64_t i = 0; i < voxels; i++) {
        in[i] = uniform();
        if (wide)
            in64[i] = in[i];
    }
    for (int64_t i = 0; i < kernel; i++)
        k64[i] = k[i] = j->method && !strcmp(j->method, "separable") ? 1 : uniform();
    struct vp_convolve_given g = {.n = {j->n[0], j->n[1], j->n[2]}, .nodes = {j->nodes, j->nodes}, .kernels = k,
                                  .exact = k64, .fft = &vp_fftw,
                                  .edge = VP_EDGE_ZERO, .method = j->method,
                                  .tile = {j->tile[0], j->tile[1], j->tile[2]}};
    if (!vp_convolve_local(&op, &g, j->image, type, type, &err)) {
        memcpy(text, op.text, 160);
        *predicted = op.cost;
        vp_chain_add(&c, &op, &err);
        for (int i = 0; i < times; i++) {
            const double t = bench_now(threads);
            if (j->nodes > 1) { /* spectra are part of it */
                struct vp_convolve_cpu *cpu = ((struct vp_convolve_params *)c.stage[0].params)->cpu;
                cpu->made = false;
                if (wide) {
                    free(cpu->exact->spectra);
                    cpu->exact->spectra = NULL;
                }
            }
            vp_chain_apply(&c, &from, wide ? (void *)out64 : out, threads, &err);
            const double s = bench_now(threads) - t;
            best = s < best ? s : best;
        }
        vp_chain_free(&c);
    } else {
        snprintf(text, 1100, "%s", err.msg);
        best = 0;
    }
    free(in);
    free(out);
    free(k);
    free(in64);
    free(out64);
    free(k64);
    return best;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The same job by FFTW's measured plans: overlap-save in square tiles, the best of some sizes. Milliseconds. */
static double with_fftw(int64_t n, int64_t k, int64_t tile)
{
    const int64_t half = tile / 2 + 1, out = tile - k + 1;
    struct vp_err err = VP_ERR_INIT;
    float *image = vp_alloc((size_t)(n * n), sizeof *image, "", &err), *to = vp_alloc((size_t)(n * n), sizeof *to, "", &err);
    float *part = vp_alloc((size_t)(tile * tile), sizeof *part, "", &err);
    fftwf_complex *f = vp_alloc((size_t)(tile * half), sizeof *f, "", &err), *h = vp_alloc((size_t)(tile * half), sizeof *h, "", &err);
    const fftwf_plan there = fftwf_plan_dft_r2c_2d((int)tile, (int)tile, part, f, FFTW_MEASURE);
    const fftwf_plan back = fftwf_plan_dft_c2r_2d((int)tile, (int)tile, f, part, FFTW_MEASURE);
    double best = 1e9;

    for (int64_t i = 0; i < n * n; i++)
        image[i] = uniform();
    memset(part, 0, (size_t)(tile * tile) * sizeof *part);
    for (int64_t i = 0; i < k * k; i++)
        part[i / k * tile + i % k] = uniform() / (float)(tile * tile);
    fftwf_execute(there);
    memcpy(h, f, (size_t)(tile * half) * sizeof *h);
    for (int trial = 0; trial < 3; trial++) {
        const double t = bench_now(1);
        for (int64_t y = 0; y < n; y += out)
            for (int64_t x = 0; x < n; x += out) {
                const int64_t top = y + k / 2 - (k - 1), left = x + k / 2 - (k - 1);
                for (int64_t r = 0; r < tile; r++) {
                    const int64_t a = vp_max64(-left, 0), b = vp_min64(tile, n - left);
                    memset(part + r * tile, 0, (size_t)tile * sizeof *part);
                    if (top + r >= 0 && top + r < n)
                        memcpy(part + r * tile + a, image + (top + r) * n + left + a, (size_t)(b - a) * sizeof *part);
                }
                fftwf_execute(there);
                for (int64_t i = 0; i < tile * half; i++) {
                    const float re = f[i][0] * h[i][0] - f[i][1] * h[i][1];
                    f[i][1] = f[i][0] * h[i][1] + f[i][1] * h[i][0];
                    f[i][0] = re;
                }
                fftwf_execute(back);
                for (int64_t r = 0; r < vp_min64(out, n - y); r++)
                    memcpy(to + (y + r) * n + x, part + (r + k - 1) * tile + k - 1, (size_t)vp_min64(out, n - x) * sizeof *to);
            }
        best = vp_min64((int64_t)((bench_now(1) - t) * 1e9), (int64_t)(best * 1e9)) * 1e-9;
    }
    fftwf_destroy_plan(there);
    fftwf_destroy_plan(back);
    free(image);
    free(to);
    free(part);
    free(f);
    free(h);
    return best * 1e3;
}

/* ---- more and more threads ---- */

enum { STEPS = 8 };

/* A grid of kernels, its operation, the image and the result. */
struct grid { struct vp_chain c; float *in, *out, *k; void *scratch; };

static void grid_open(struct grid *g, int64_t size, int64_t nodes, int threads)
{
    const int64_t image[3] = {size, size, 1}, kernels = 100 * 100 * nodes * nodes;
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;

    *g = (struct grid){.in = vp_alloc((size_t)(size * size), sizeof *g->in, "", &err),
                       .out = vp_alloc((size_t)(size * size), sizeof *g->out, "", &err),
                       .k = vp_alloc((size_t)kernels, sizeof *g->k, "", &err)};
    if (!g->in || !g->out || !g->k)
        exit(1);
    for (int64_t i = 0; i < size * size; i++)
        g->in[i] = uniform();
    for (int64_t i = 0; i < kernels; i++)
        g->k[i] = uniform();
    const struct vp_convolve_given given = {.n = {100, 100, 1}, .nodes = {nodes, nodes}, .kernels = g->k, .edge = VP_EDGE_ZERO};
    if (vp_convolve_local(&op, &given, image, VP_F32, VP_F32, &err) || vp_chain_add(&g->c, &op, &err)
        || !(g->scratch = vp_alloc_raw(1, vp_chain_bytes(&g->c, &(struct vp_box){{0}, {size, size, 1}}, threads), "", &err)))
        exit(1);
}

/* Seconds by the clock. */
static double grid_run(struct grid *g, int threads)
{
    const int64_t *n = g->c.stage[0].image;
    const struct vp_box box = {{0}, {n[0], n[1], n[2]}};
    const struct vp_part in = {box, n[0], (void **)&g->in}, out = {box, n[0], (void **)&g->out};
    struct vp_err err = VP_ERR_INIT;
    const double t = vp_now();

    ((struct vp_convolve_params *)g->c.stage[0].params)->cpu->made = false; /* spectra are part of it */
    if (vp_chain_run(&g->c, &in, &out, g->scratch, threads, &err))
        exit(1);
    return vp_now() - t;
}

static void grid_close(struct grid *g)
{
    vp_chain_free(&g->c);
    free(g->in);
    free(g->out);
    free(g->k);
    free(g->scratch);
}

/* ---- processes of one thread each, beside one another: what the processors can do if nothing had to be waited for
 * ---- */

enum { MOST_PROCESSES = 256 };

struct process { int in, out; };

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

/* For each byte that comes in: the median seconds of a run of an image of its own ('g'), or of transforms in the
 * first-level cache. */
static void serve(int in, int out, int64_t size, int64_t nodes, int runs)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_line_isa *isa = vp_line_isa(NULL);
    float *const x = vp_alloc(128 * 2 * 16, sizeof *x, "", &err);
    struct vp_line line;
    struct grid g;
    double time[32];
    char c;

    if (!x || vp_line_make(&line, 128, false, NULL, &err))
        _exit(1);
    grid_open(&g, size, nodes, 1);
    while (read(in, &c, 1) == 1) {
        for (int i = 0; i < runs; i++) {
            const double t = vp_now();
            for (int k = 0; k < 2000 && c != 'g'; k++)
                isa->forward(&line, x, 1);
            time[i] = c == 'g' ? grid_run(&g, 1) : vp_now() - t;
        }
        time[0] = median(time, runs);
        if (write(out, time, sizeof *time) != sizeof *time)
            break;
    }
    _exit(0);
}

/* The mean of what n of them say. */
static double ask(const struct process *p, int n, char what)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        if (write(p[i].in, &what, 1) != 1)
            exit(1);
    for (int i = 0; i < n; i++) {
        double t;
        if (read(p[i].out, &t, sizeof t) != sizeof t)
            exit(1);
        sum += t;
    }
    return sum / n;
}

static void table(int most, bool last)
{
    enum { TURNS = 5 };

    for (int64_t size = 1024, nodes = 8; size <= 4096; size *= 2, nodes *= 2) {
        const int runs = size == 4096 ? 3 : size == 2048 ? 8 : 20, all = TURNS * runs;
        double time[STEPS][TURNS * 20], of_processes[STEPS][TURNS], clocks[STEPS][TURNS], alone = 0;
        struct process p[MOST_PROCESSES];
        struct grid g;
        int steps = 0;

        most = most < MOST_PROCESSES ? most : MOST_PROCESSES;
        for (int t = 1; t <= most && steps < STEPS; t *= 2)
            steps++;
        fflush(stdout);
        for (int i = 0; i < 1 << (steps - 1); i++) {
            int in[2], out[2];
            if (pipe(in) || pipe(out))
                exit(1);
            if (!fork()) {
                for (int k = 0; k < i; k++)
                    close(p[k].in);
                close(in[1]);
                serve(in[0], out[1], size, nodes, runs);
            }
            close(in[0]);
            close(out[1]);
            p[i] = (struct process){in[1], out[0]};
        }
        grid_open(&g, size, nodes, most);
        ask(p, 1 << (steps - 1), 'g');
        for (int turn = 0; turn < TURNS; turn++)
            for (int s = last ? steps - 1 : 0; s < steps; s++) {
                double *const t = time[s] + turn * runs;
                grid_run(&g, 1 << s);
                for (int r = 0; r < runs; r++)
                    t[r] = grid_run(&g, 1 << s);
                of_processes[s][turn] = ask(p, 1 << s, 'g') / (1 << s) / median(t, runs);
                clocks[s][turn] = ask(p, 1 << s, 'c');
            }
        grid_close(&g);
        for (int i = 0; i < 1 << (steps - 1); i++) {
            close(p[i].in);
            close(p[i].out);
        }
        while (wait(NULL) > 0)
            ;
        if (last) {
            const int s = steps - 1;
            printf("%lld^2, %d threads: %.2f ms, the median %.2f; %.1f %% of what %d processes do in turn (", (long long)size, 1 << s,
                   (qsort(time[s], (size_t)all, sizeof **time, by_value), time[s][0] * 1e3), median(time[s], all) * 1e3,
                   100 * median(of_processes[s], TURNS), 1 << s);
            for (int i = 0; i < TURNS; i++)
                printf("%s%.1f", i ? " " : "", 100 * of_processes[s][i]);
            printf(")\n");
            fflush(stdout);
            continue;
        }
        printf("%lld^2, %lld x %lld kernels of 100^2\n threads       ms   median   speed-up   efficiency   of medians"
               "   of so many processes in turn   of clocks\n", (long long)size, (long long)nodes, (long long)nodes);
        const double first = median(time[0], all), one = time[0][0];
        for (int s = 0; s < steps; s++) {
            const double middle = median(time[s], all), speed_up = one / time[s][0], clock = median(clocks[s], TURNS);
            alone = s ? alone : clock;
            printf("%8d %8.2f %8.2f %10.2f %10.1f %% %10.1f %% %28.1f %% %9.1f %%\n", 1 << s, time[s][0] * 1e3, middle * 1e3,
                   speed_up, 100 * speed_up / (1 << s), 100 * first / middle / (1 << s),
                   100 * median(of_processes[s], TURNS), 100 * alone / clock);
        }
        fflush(stdout);
    }
}

static void show(const struct job *j, int threads, int times)
{
    char text[1100] = "";
    double predicted = 0;
    const double s = measure(j, threads, times, text, &predicted);
    const double ns = s / ((double)j->image[0] * (double)j->image[1] * (double)j->image[2]) * 1e9;

    printf("%9.2f ms %7.3f ns/voxel (predicted %.2f)  %s\n", s * 1e3, ns, predicted, text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "image";
    const int threads = argc > 2 ? atoi(argv[2]) : 1;

    if (!strcmp(what, "image")) {
        show(&(struct job){{4096, 4096, 1}, {101, 101, 1}, 1, NULL, {0}, VP_F32}, threads, 5);
    } else if (!strcmp(what, "fftw")) {
        for (int64_t tile = 256; tile <= 1024; tile += tile < 512 ? 64 : 256)
            printf("%9.2f ms FFTW, measured plans of %lld x %lld\n", with_fftw(4096, 101, tile), (long long)tile, (long long)tile);
    } else if (!strcmp(what, "f64")) {
        show(&(struct job){{4096, 4096, 1}, {101, 101, 1}, 1, NULL, {0}, VP_F64}, threads, 3);
        show(&(struct job){{1024, 1024, 1}, {100, 100, 1}, 8, NULL, {0}, VP_F64}, threads, 3);
        show(&(struct job){{256, 256, 256}, {31, 31, 31}, 1, NULL, {0}, VP_F64}, threads, 2);
        for (int64_t n = 3; n <= 21; n += 6) {
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "direct", {0}, VP_F64}, threads, 3);
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "separable", {0}, VP_F64}, threads, 3);
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "fft", {0}, VP_F64}, threads, 3);
        }
    } else if (!strcmp(what, "grid")) {
        show(&(struct job){{1024, 1024, 1}, {100, 100, 1}, 8, NULL, {0}, VP_F32}, threads, 5);
        show(&(struct job){{4096, 4096, 1}, {100, 100, 1}, 32, NULL, {0}, VP_F32}, threads, 3);
    } else if (!strcmp(what, "volume")) {
        show(&(struct job){{256, 256, 256}, {31, 31, 31}, 1, NULL, {0}, VP_F32}, threads, 3);
    } else if (!strcmp(what, "beside")) {
        table(argc > 2 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN), true);
    } else if (!strcmp(what, "table")) {
        table(argc > 2 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN), false);
    } else if (!strcmp(what, "crossover")) {
        for (int64_t n = 3; n <= 21; n += 2) {
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "direct", {0}, VP_F32}, threads, 3);
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "separable", {0}, VP_F32}, threads, 3);
            show(&(struct job){{2048, 2048, 1}, {n, n, 1}, 1, "fft", {0}, VP_F32}, threads, 3);
        }
    } else if (!strcmp(what, "tile")) {
        struct job j = {{atoi(argv[3]), atoi(argv[3]), 1}, {atoi(argv[4]), atoi(argv[4]), 1}, atoi(argv[5]), "fft", {0}, VP_F32};
        for (int i = 6; i + 1 < argc; i += 2) {
            j.tile[0] = atoi(argv[i]);
            j.tile[1] = atoi(argv[i + 1]);
            show(&j, threads, 3);
        }
    } else if (!strcmp(what, "box")) {
        struct job j = {{256, 256, 256}, {31, 31, 31}, 1, "fft", {0}, VP_F32};
        for (int i = 3; i + 2 < argc; i += 3) {
            for (int a = 0; a < 3; a++)
                j.tile[a] = atoi(argv[i + a]);
            show(&j, threads, 2);
        }
    }
    return 0;
}
