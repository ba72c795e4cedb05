/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/deconvolve.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where less than that of a kernel falls on data nothing is known. */
static const float LEAST = 1e-3f;
/* Of the largest sample: what a predicted one is at least, for rounding errors of transforms are not much less. */
static const float FLOOR = 1e-6f;

/* Volumes of floats on the frame. */
enum { DATA, X, Y, T, U, NORM, BEFORE, STEP, VOLUMES };

struct work {
    const struct vp_deconvolve_params *p;
    int64_t nx, rows, voxels;
    float *v[VOLUMES];
    double *sum;               /* of each row */
    void **plane[2];
    void *scratch;
    int threads;
};

static int volumes(const struct vp_deconvolve_params *p)
{
    return p->g.method == VP_LEAST_SQUARES || p->g.accelerate ? VOLUMES : NORM + 1;
}

static size_t take(size_t *at, uint64_t bytes)
{
    const size_t here = *at;

    *at += vp_round64((size_t)bytes);
    return here;
}

static uint64_t convolution_scratch(const struct vp_deconvolve_params *p, int threads)
{
    const struct vp_box all = {{0, 0, 0}, {p->frame[0], p->frame[1], p->frame[2]}};
    const uint64_t a = p->forward.scratch(&p->forward, &all, &all, threads);
    const uint64_t b = p->adjoint.scratch(&p->adjoint, &all, &all, threads);

    return a > b ? a : b;
}

static size_t lay_out(struct work *w, const struct vp_deconvolve_params *p, char *mem, int threads)
{
    size_t at = 0;

    *w = (struct work){.p = p, .nx = p->frame[0], .rows = p->frame[1] * p->frame[2], .threads = threads};
    w->voxels = w->nx * w->rows;
    for (int i = 0; i < volumes(p); i++) {
        const size_t here = take(&at, (uint64_t)w->voxels * sizeof(float));
        w->v[i] = mem ? (float *)(void *)(mem + here) : NULL;
    }
    const size_t sum = take(&at, (uint64_t)w->rows * sizeof(double));
    const size_t a = take(&at, (uint64_t)p->frame[2] * sizeof(void *)), b = take(&at, (uint64_t)p->frame[2] * sizeof(void *));
    const size_t scratch = take(&at, convolution_scratch(p, threads));
    if (mem) {
        w->sum = (double *)(void *)(mem + sum);
        w->plane[0] = (void **)(void *)(mem + a);
        w->plane[1] = (void **)(void *)(mem + b);
        w->scratch = mem + scratch;
    }
    return at;
}

/* ---- what is made of volumes, row by row ---- */

#define ROWS(w) _Pragma("omp parallel for num_threads((w)->threads) schedule(static)") \
                for (int64_t r = 0; r < (w)->rows; r++)

static double add_up(const struct work *w)
{
    double sum = 0;

    for (int64_t r = 0; r < w->rows; r++)
        sum += w->sum[r];
    return sum;
}

static double dot(struct work *w, const float *a, const float *b)
{
    ROWS(w) {
        double sum = 0;
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            sum += (double)a[i] * b[i];
        w->sum[r] = sum;
    }
    return add_up(w);
}

/* to = A from, or A' from */
static int apply(struct work *w, const struct vp_op *op, float *from, float *to, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_box all = {{0, 0, 0}, {p->frame[0], p->frame[1], p->frame[2]}};

    for (int64_t z = 0; z < p->frame[2]; z++) {
        w->plane[0][z] = from + z * w->nx * p->frame[1];
        w->plane[1][z] = to + z * w->nx * p->frame[1];
    }
    const struct vp_part in = {all, w->nx, w->plane[0]}, out = {all, w->nx, w->plane[1]};
    return op->run(op, &in, &out, w->scratch, w->threads, err);
}

static bool known(float v)
{
    return !isnan(v);
}

/* Mean of the data, its largest sample, and the root of the sum of its squares. */
static void look_at(struct work *w, double *mean, double *most, double *norm)
{
    const float *const d = w->v[DATA];
    double sum = 0, n = 0, squares = 0;

    *most = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        double of_row = 0, squares_of_row = 0;
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            if (known(d[i])) {
                of_row += d[i];
                squares_of_row += (double)d[i] * d[i];
                *most = fmax(*most, fabs((double)d[i]));
                n++;
            }
        sum += of_row;
        squares += squares_of_row;
    }
    *mean = n > 0 ? sum / n : 0;
    *norm = sqrt(squares);
}

static void tell(const struct work *w, int64_t page, int64_t iteration, double residual, bool last)
{
    const struct vp_deconvolve_given *g = &w->p->g;

    if (g->tell)
        g->tell(g->ctx, page, iteration, residual, last);
}

/* ---- Richardson and Lucy ---- */

/* Unit vector of the gradient at a voxel: differences to the next one along each axis, none at the end. */
static void direction(const struct work *w, const float *v, const int64_t at[3], float least, float out[3])
{
    const int64_t *n = w->p->frame, step[3] = {1, n[0], n[0] * n[1]};
    const float *const here = v + (at[2] * n[1] + at[1]) * n[0] + at[0];
    float squares = least * least;

    for (int a = 0; a < 3; a++) {
        out[a] = at[a] + 1 < n[a] ? here[step[a]] - here[0] : 0;
        squares += out[a] * out[a];
    }
    for (int a = 0; a < 3; a++)
        out[a] /= sqrtf(squares);
}

/* div(grad v / |grad v|) */
static float curvature(const struct work *w, const float *v, const int64_t at[3], float least)
{
    float here[3], there[3], sum = 0;

    direction(w, v, at, least, here);
    for (int a = 0; a < 3; a++) {
        sum += here[a];
        if (at[a] == 0)
            continue;
        const int64_t before[3] = {at[0] - (a == 0), at[1] - (a == 1), at[2] - (a == 2)};
        direction(w, v, before, least, there);
        sum -= there[a];
    }
    return sum;
}

/* t = A y becomes the ratio of the data to it; returns the sum of squares of the difference. */
static double compare(struct work *w, double floor)
{
    const float *const d = w->v[DATA];
    float *const t = w->v[T];
    const float background = (float)w->p->g.background, least = (float)floor;

    ROWS(w) {
        double sum = 0;
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++) {
            const float made = t[i] + background;
            if (known(d[i]))
                sum += ((double)made - d[i]) * ((double)made - d[i]);
            t[i] = known(d[i]) && d[i] > 0 ? d[i] / (made > least ? made : least) : 0;
        }
        w->sum[r] = sum;
    }
    return add_up(w);
}

/* x from y and A' of the ratio */
static void update(struct work *w, double mean)
{
    const struct vp_deconvolve_params *p = w->p;
    const float *const y = w->v[p->g.accelerate ? Y : X], *const u = w->v[U], *const norm = w->v[NORM];
    const float tv = (float)p->g.tv, least = (float)(1e-4 * mean) + 1e-30f;
    float *const to = w->v[p->g.tv > 0 ? T : X];

    ROWS(w) {
        const int64_t row = r % p->frame[1], plane = r / p->frame[1];
        for (int64_t x = 0; x < w->nx; x++) {
            const int64_t i = r * w->nx + x;
            float v = norm[i] > LEAST && u[i] > 0 ? y[i] * (u[i] / norm[i]) : 0;
            if (tv > 0) {
                const float damp = 1 - tv * curvature(w, y, (const int64_t[]){x, row, plane}, least);
                v /= damp > 0.1f ? damp : 0.1f;
            }
            to[i] = v;
        }
    }
    if (to != w->v[X])
        memcpy(w->v[X], to, (size_t)w->voxels * sizeof *to);
}

/* y = a point ahead of x, and what x is goes to `before`. */
static void look_ahead(struct work *w, double alpha)
{
    float *const x = w->v[X], *const y = w->v[Y], *const before = w->v[BEFORE];
    const float a = (float)alpha;

    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++) {
            const float ahead = x[i] + a * (x[i] - before[i]);
            y[i] = ahead > 0 ? ahead : 0;
            before[i] = x[i];
        }
}

/* How far ahead to look next: the step that was made from y, on the one before, which it replaces. */
static double learn(struct work *w)
{
    const float *const x = w->v[X], *const y = w->v[Y];
    float *const step = w->v[STEP], *const t = w->v[T];

    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            t[i] = x[i] - y[i];
    const double both = dot(w, t, step), one = dot(w, step, step);
    memcpy(step, t, (size_t)w->voxels * sizeof *step);
    return one > 0 ? fmin(fmax(both / one, 0), 0.99) : 0;
}

static int richardson_lucy(struct work *w, int64_t page, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_deconvolve_given *g = &p->g;
    double mean, most, norm, residual = INFINITY, alpha = 0;
    int64_t k = 0;

    look_at(w, &mean, &most, &norm);
    const double floor = fmax(most * FLOOR, 1e-35);
    const float start = (float)fmax(mean - g->background, floor);
    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++) {
            w->v[T][i] = known(w->v[DATA][i]);
            w->v[X][i] = start;
            if (g->accelerate) {
                w->v[BEFORE][i] = start;
                w->v[STEP][i] = 0;
            }
        }
    if (apply(w, &p->adjoint, w->v[T], w->v[NORM], err))
        return -1;
    for (; k < g->iterations; k++) {
        if (g->accelerate)
            look_ahead(w, alpha);
        if (apply(w, &p->forward, w->v[g->accelerate ? Y : X], w->v[T], err))
            return -1;
        const double now = norm > 0 ? sqrt(compare(w, floor)) / norm : 0;
        if (k > 0)
            tell(w, page, k, now, false);
        if (k > 1 && residual - now < g->stop * residual && g->stop > 0)
            break;
        residual = now;
        if (apply(w, &p->adjoint, w->v[T], w->v[U], err))
            return -1;
        update(w, mean);
        if (g->accelerate)
            alpha = k > 0 ? learn(w) : (learn(w), 0);
    }
    if (apply(w, &p->forward, w->v[X], w->v[T], err))
        return -1;
    tell(w, page, k, norm > 0 ? sqrt(compare(w, floor)) / norm : 0, true);
    return 0;
}

/* ---- Wiener, by conjugate gradients ---- */

/* t where data are, else 0 */
static void mask(struct work *w, float *t)
{
    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            t[i] = known(w->v[DATA][i]) ? t[i] : 0;
}

/* a += s b */
static void add_to(struct work *w, float *a, const float *b, double s)
{
    const float f = (float)s;

    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            a[i] += f * b[i];
}

static int wiener(struct work *w, int64_t page, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_deconvolve_given *g = &p->g;
    float *const d = w->v[DATA], *const x = w->v[X], *const t = w->v[T], *const q = w->v[U], *const rest = w->v[NORM];
    float *const step = w->v[Y], *const left = w->v[STEP];
    double mean, most, norm, residual;
    int64_t k = 0;

    look_at(w, &mean, &most, &norm);
    mean -= g->background;
    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            x[i] = (float)mean;
    if (apply(w, &p->forward, x, t, err))
        return -1;
    /* left: of the data; rest = A' left - noise (x - mean): of the equations */
    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            left[i] = known(d[i]) ? d[i] - (float)g->background - t[i] : 0;
    if (apply(w, &p->adjoint, left, rest, err))
        return -1;
    memcpy(step, rest, (size_t)w->voxels * sizeof *step);
    double squares = dot(w, rest, rest);
    const double first = squares;
    residual = norm > 0 ? sqrt(dot(w, left, left)) / norm : 0;
    for (; k < g->iterations && squares > 1e-13 * first; k++) {
        if (apply(w, &p->forward, step, t, err))
            return -1;
        mask(w, t);
        if (apply(w, &p->adjoint, t, q, err))
            return -1;
        add_to(w, q, step, g->noise);
        const double along = dot(w, step, q), a = along > 0 ? squares / along : 0;
        add_to(w, x, step, a);
        add_to(w, rest, q, -a);
        add_to(w, left, t, -a);
        const double next = dot(w, rest, rest), b = squares > 0 ? next / squares : 0;
        squares = next;
        ROWS(w)
            for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
                step[i] = rest[i] + (float)b * step[i];
        const double now = norm > 0 ? sqrt(dot(w, left, left)) / norm : 0;
        tell(w, page, k + 1, now, false);
        const bool enough = k > 0 && residual - now < g->stop * residual && g->stop > 0;
        residual = now;
        if (enough) {
            k++;
            break;
        }
    }
    tell(w, page, k, residual, true);
    return 0;
}

/* ---- the operation ---- */

static float sample(enum vp_type type, const void *row, int64_t i)
{
    switch (type) {
    case VP_U8: return ((const uint8_t *)row)[i];
    case VP_U16: return ((const uint16_t *)row)[i];
    case VP_I16: return ((const int16_t *)row)[i];
    default: return ((const float *)row)[i];
    }
}

static void put(enum vp_type type, void *row, int64_t i, float v)
{
    if (type == VP_F32) {
        ((float *)row)[i] = v;
        return;
    }
    const float lo = (float)vp_type_min(type), hi = (float)vp_type_max(type);
    const float f = rintf(v < lo ? lo : v > hi ? hi : v);
    if (type == VP_U8)
        ((uint8_t *)row)[i] = (uint8_t)f;
    else if (type == VP_U16)
        ((uint16_t *)row)[i] = (uint16_t)f;
    else
        ((int16_t *)row)[i] = (int16_t)f;
}

/* Row y of plane z of the image in the frame. */
static float *row_of(const struct work *w, int volume, int64_t y, int64_t z)
{
    const struct vp_deconvolve_params *p = w->p;

    return w->v[volume] + ((z + p->before[2]) * p->frame[1] + y + p->before[1]) * w->nx + p->before[0];
}

/* Planes z0 ... z1 - 1 of the box as one image. */
static int solve(struct work *w, const struct vp_part *in, const struct vp_part *out, int64_t z0, int64_t z1,
                 struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const int64_t nx = vp_box_size(&out->box, 0), ny = vp_box_size(&out->box, 1);

    ROWS(w)
        for (int64_t i = r * w->nx; i < (r + 1) * w->nx; i++)
            w->v[DATA][i] = NAN;
    for (int64_t z = z0; z < z1; z++)
        for (int64_t y = 0; y < ny; y++) {
            float *const to = row_of(w, DATA, y, z - z0);
            for (int64_t x = 0; x < nx; x++) {
                const float v = sample(p->in, in->plane[z - in->box.lo[2]], y * in->stride + x);
                to[x] = isfinite(v) ? v : NAN;
            }
        }
    if (p->g.method == VP_LEAST_SQUARES ? wiener(w, z0, err) : richardson_lucy(w, z0, err))
        return -1;
    for (int64_t z = z0; z < z1; z++)
        for (int64_t y = 0; y < ny; y++) {
            const float *const from = row_of(w, X, y, z - z0);
            for (int64_t x = 0; x < nx; x++)
                put(p->out, out->plane[z - out->box.lo[2]], y * out->stride + x, from[x]);
        }
    return 0;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_deconvolve_params *p = op->params;
    struct work w;

    lay_out(&w, p, mem, threads);
    if (op->whole[2])
        return solve(&w, in, out, out->box.lo[2], out->box.hi[2], err);
    for (int64_t z = out->box.lo[2]; z < out->box.hi[2]; z++)
        if (solve(&w, in, out, z, z + 1, err))
            return -1;
    return 0;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct work w;

    (void)in;
    (void)out;
    return lay_out(&w, op->params, NULL, threads);
}

static void release(void *params)
{
    struct vp_deconvolve_params *p = params;

    if (p->forward.free)
        p->forward.free(p->forward.params);
    if (p->adjoint.free)
        p->adjoint.free(p->adjoint.params);
    free(p);
}

/* A kernel of samples that are not negative, where the method needs that. */
static float *clean(const struct vp_deconvolve_given *g, struct vp_err *err)
{
    const int64_t n = g->kernel.n[0] * g->kernel.n[1] * g->kernel.n[2] * g->kernel.nodes[0] * g->kernel.nodes[1];
    float *k = vp_alloc_raw((size_t)n, sizeof *k, "the kernels", err);

    for (int64_t i = 0; k && i < n; i++)
        k[i] = g->method == VP_RICHARDSON_LUCY && g->kernel.kernels[i] < 0 ? 0 : g->kernel.kernels[i];
    return k;
}

static int make(struct vp_deconvolve_params *p, const struct vp_deconvolve_given *g, struct vp_err *err)
{
    struct vp_convolve_given k = g->kernel;
    float *const cleaned = clean(g, err);
    int rc = -1;

    k.kernels = cleaned;
    k.edge = VP_EDGE_ZERO;
    k.crop = VP_CROP_SAME; /* the frame is larger already */
    k.normalize = true;
    k.method = NULL;
    double *node[2] = {NULL, NULL};
    for (int a = 0; a < 2 && cleaned; a++) { /* the image's, in the frame */
        node[a] = vp_alloc_raw((size_t)k.nodes[a], sizeof *node[a], "nodes", err);
        const double size = (double)(p->frame[a] - (k.n[a] - 1));
        for (int64_t i = 0; node[a] && i < k.nodes[a]; i++)
            node[a][i] = (double)p->before[a] + (g->kernel.node[a] ? g->kernel.node[a][i]
                                                 : ((double)i + 0.5) * size / (double)k.nodes[a] - 0.5);
        k.node[a] = node[a];
    }
    if (cleaned && node[0] && node[1]) {
        rc = vp_convolve_local(&p->forward, &k, p->frame, VP_F32, VP_F32, err);
        k.correlate = true;
        k.weights = k.weights == VP_WEIGHTS_SOURCE ? VP_WEIGHTS_OUTPUT : VP_WEIGHTS_SOURCE;
        rc = rc || vp_convolve_local(&p->adjoint, &k, p->frame, VP_F32, VP_F32, err) ? -1 : 0;
    }
    free(cleaned);
    free(node[0]);
    free(node[1]);
    return rc;
}

static int check(const struct vp_deconvolve_given *g, enum vp_type in, enum vp_type out, struct vp_err *err)
{
    if (!(VP_CONVOLVE_TYPES & 1u << in) || (out != in && out != VP_F32))
        return vp_fail(err, VP_EUSAGE, "deconvolution takes u8, u16, i16 and f32 to the same or f32, not %s to %s",
                       vp_type_name(in), vp_type_name(out));
    if (g->iterations < 1 || !(g->stop >= 0) || !(g->tv >= 0 && g->tv < 1) || !isfinite(g->background)
        || !(g->noise >= 0 && isfinite(g->noise)))
        return vp_fail(err, VP_EUSAGE, "expected at least an iteration, --tv below 1, and nothing negative");
    return 0;
}

int vp_deconvolve_local(struct vp_op *op, const struct vp_deconvolve_given *g, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err)
{
    struct vp_deconvolve_params *p;
    const int64_t *n = g->kernel.n;

    *op = (struct vp_op){0};
    if (check(g, in, out, err))
        return -1;
    p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    *p = (struct vp_deconvolve_params){.g = *g, .in = in, .out = out};
    p->g.kernel = (struct vp_convolve_given){0};
    *op = (struct vp_op){.kernel = "deconvolve", .inputs = 1, .from = {~0}, .in = in, .out = out, .params = p,
                         .free = release, .scratch = scratch, .run = run};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->whole[a] = a < 2 || n[2] > 1;
        op->step[a] = op->whole[a] ? image[a] : 1; /* all results at once, too */
        p->before[a] = n[a] - 1 - n[a] / 2;
        p->frame[a] = a == 2 && n[2] == 1 ? 1 : vp_min64(image[a] + n[a] - 1, VP_UNKNOWN);
    }
    if (make(p, g, err)) {
        release(p);
        *op = (struct vp_op){0};
        return -1;
    }
    op->holds = p->forward.holds + p->adjoint.holds;
    op->cost = (p->forward.cost + p->adjoint.cost + 4) * (double)g->iterations;
    snprintf(op->text, sizeof op->text, "%s, at most %lld iterations%s%s, kernel %lld x %lld x %lld%s",
             g->method == VP_LEAST_SQUARES ? "Wiener deconvolution" : "Richardson-Lucy deconvolution", (long long)g->iterations,
             g->accelerate ? ", accelerated" : "", g->tv > 0 ? ", damped" : "", (long long)n[0], (long long)n[1],
             (long long)n[2], g->kernel.nodes[0] * g->kernel.nodes[1] > 1 ? " (a grid)" : "");
    return 0;
}
