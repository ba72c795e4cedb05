/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter of FDK (Feldkamp, Davis and Kress 1984), eq. numbers of Kak and Slaney, Principles of
 * Computerized Tomographic Imaging (1988), ch. 3.
 *
 * Kernel: the band-limited ramp sampled in space (eq. 61: 1/4, 0, -1/(pi n)^2 at unit pitch), so that its
 * mean is right, and transformed as such. Weights of rays that are measured twice: filter_weights.c.
 *
 * Cosine, for a detector that may face anywhere. In the plane of a fan, with the rays' angle g from the ray to the
 * axis at distance R, the source moving across that ray, and L the distance from the source to the point x,
 *     f(x) = 1/2 int db R / L^2 int dg' cos(g') p(g') h(sin(g - g'))       (Kak and Slaney, eq. 84 ff.)
 * On any line across the fan, t from the foot at distance D, sin(g - g') = D (t - t') / sqrt((D^2 + t^2)(D^2 + t'^2)),
 * and as h(a s) = h(s) / a^2,
 *     f(x) = 1/2 int db R (D^2 + t^2) / (D L^2) int dt' cos(g') p(t') h(t - t'):
 * the ramp may run along a detector that is not perpendicular to the ray to the axis, if cos(g') stays the angle from
 * that ray and R its length; D and L become depths along the normal. (Gullberg, Crawford and Tsui, IEEE Trans. Med.
 * Imaging 5 (1986) 23, eq. 18, is the case of a shifted source.) FDK takes the plane of every row for such a fan, and
 * a row of a detector that looks up or down lies nearer or farther than the foot of its normal. With S the source, e
 * the unit vector from it to the origin, r along the rows, z' across e and r, y the direction of the ray, of depth 1,
 * and m1, m2, m3 the rows of the matrix's left part M,
 *     weight = (|S| e.y / |y|) |det M| / |(m2 - v m3).z'|
 * before the ramp in pixels, and 1 / w^2 after it. Perpendicular to e this is sod fu times the cosine. A ball at the
 * origin comes out right for any matrices: its projection is round, so the direction of the rows does not matter. */
#include "ct/filter_internal.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "engine/rates.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS "ram-lak|shepp-logan|cosine|hamming|hann"
static const char *const window_name[] = {"ram-lak", "shepp-logan", "cosine", "hamming", "hann"};
static const char *const weights_name[] = {"auto", "no", "parker", "wang"};

const struct vp_opt vp_filter_options[] = {
    VP_CHOICE(struct vp_filter_params, window, "window", 0, WINDOWS, .def = "ram-lak", .group = "Filter",
              .help = "window applied to the ramp; from sharpest and noisiest to smoothest",
              .more = "With x the frequency divided by the cut-off:\n\n"
                      "- ram-lak: the ramp itself\n"
                      "- shepp-logan: times sin(pi x/2) / (pi x/2)\n"
                      "- cosine: times cos(pi x/2)\n"
                      "- hamming: times 0.54 + 0.46 cos(pi x)\n"
                      "- hann: times 0.5 + 0.5 cos(pi x)"),
    VP_REAL(struct vp_filter_params, cutoff, "cutoff", 0, .def = "1", .min = 0.001, .max = 1,
            .metavar = "FRACTION", .help = "cut-off, as a fraction of the detector's Nyquist frequency",
            .more = "Higher frequencies are removed. The window is scaled to end at the cut-off."),
    VP_CHOICE(struct vp_filter_params, redundancy, "weights", 0, "auto|none|parker|wang", .def = "auto",
              .help = "weights of rays that are measured twice",
              .more = "auto chooses by the scan:\n\n"
                      "- parker: cone or fan beam, less than a full turn\n"
                      "- wang: full turn with the detector offset to one side\n"
                      "- none: all other scans\n\n"
                      "If 20 to 120 degrees of such a full turn are missing, wang is applied ray by ray: a ray in a "
                      "gap is replaced by its opposite ray if that one is measured. If an arc is shorter than parker "
                      "needs (180 degrees plus the fan angle), smooth weights over the arc are used, with a warning. "
                      "Weights that do not suit the scan are an error. `none` is allowed for a short scan; all views "
                      "then have the same weight. See ct-geometry(5)."),
    VP_REAL(struct vp_filter_params, pad, "pad", 0, .def = "0", .min = 0, .max = 4, .choices = "auto",
            .metavar = "FRACTION|auto",
            .help = "extend truncated rows on both sides by this fraction of the detector's width",
            .more = "Use it if the object is wider than the detector. Rows then fall smoothly from their last value "
                    "to zero, which removes the bright rim from the reconstruction.\n\n"
                    "- auto extends each row by its own slope, as if the object were an ellipse around the axis, by "
                    "the detector's width at most. A row that ends below a tenth of its peak is left as it is, and "
                    "so is the side that wang weights complete. Rows are then filtered on the CPU.\n"
                    "- A number is for objects for which auto does not work. 0.2 to 0.5 is usual; larger numbers "
                    "make values too low."),
    VP_FLAG(struct vp_filter_params, keep_cosine, "no-cosine", 0,
            .help = "omit the cosine weight, for projections that are weighted already",
            .more = "This omits the whole weight of ct-geometry(5). It is more than a cosine if the detector is not "
                    "perpendicular to the ray through the axis."),
    VP_OPT_END,
};

void *vp_filter_take(struct vp_filter *f, int64_t count, size_t size, const char *what, struct vp_err *err)
{
    void *p = vp_alloc(count > 0 ? (size_t)count : 1, size, what, err);

    if (p)
        f->t.bytes += (size_t)count * size;
    return p;
}

/* ---- the transform and the kernel ---- */

/* Returns the number of samples of a window that a kernel is made of: results depend on it, a little. It is the length
 * of at least m, a product of 2, 3, 4 and 5, whose transform takes the least arithmetic; none takes less than 3.5 log2
 * an element. */
static int64_t samples_of_window(int64_t m)
{
    static const struct { int r; double cost; } stage[] = {{5, 13}, {3, 9.5}, {2, 5}, {4, 7}};
    double least = INFINITY;
    int64_t best = m;

    for (int64_t n = m; 3.5 * (double)n * log2((double)n) < least; n++) {
        int64_t rest = n;
        double cost = 0;
        for (int i = 0; i < 4; i++)
            for (const int64_t r = stage[i].r; rest % r == 0; rest /= r) {
                if (r == 2 && __builtin_ctzll((unsigned long long)rest) % 2 == 0)
                    break; /* fours do it */
                cost += stage[i].cost * (double)n;
            }
        if (rest == 1 && cost < least) {
            least = cost;
            best = n;
        }
    }
    return best;
}

static double window(int kind, double x)
{
    const double w = M_PI * x;

    if (x > 1 + 1e-12)
        return 0;
    switch (kind) {
    case VP_SHEPP_LOGAN: return w > 0 ? sin(w / 2) / (w / 2) : 1;
    case VP_COSINE: return cos(w / 2);
    case VP_HAMMING: return 0.54 + 0.46 * cos(w);
    case VP_HANN: return 0.5 * (1 + cos(w));
    default: return 1;
    }
}

/* Fills H(pi k / m), k = 0 ... m, of the ramp with taps up to m - 1, windowed. As all taps but the first are odd
 * ones, H(m - k) - 1/4 = 1/4 - H(k): a quarter of the sum is enough. */
static void make_kernel(double *h, int64_t m, const struct vp_filter_params *p, const double *cosine)
{
    #pragma omp parallel for schedule(static)
    for (int64_t k = 0; k <= m / 2; k++) {
        double sum = 0;
        for (int64_t n = 1; n < m; n += 2)
            sum += cosine[k * n % (2 * m)] / ((double)n * (double)n);
        h[k] = 0.25 - 2 / (M_PI * M_PI) * sum;
        h[m - k] = 0.25 + 2 / (M_PI * M_PI) * sum;
    }
    for (int64_t k = 0; k <= m; k++)
        h[k] *= window(p->window, (double)k / (double)m / p->cutoff);
}

int vp_filter_response(const struct vp_filter_tables *t, int64_t n, double *out, struct vp_err *err)
{
    const int64_t reach = vp_max64(t->pad, t->before) + t->nu + vp_max64(t->pad, t->after) - 1;
    const int64_t most = vp_max64(2 * t->m, n);
    double *const in = vp_alloc((size_t)most, 4 * sizeof *in, "the kernel", err), *const taps = in ? in + 2 * most : in;
    int rc = in ? 0 : -1;

    for (int64_t k = 0; !rc && k < 2 * t->m; k++)
        in[2 * k] = t->response[k <= t->m ? k : 2 * t->m - k];
    rc = rc || vp_dft(in, taps, 2 * t->m, err) ? -1 : 0;
    for (int64_t l = 0; !rc && l < n; l++) {
        const double tap = l > reach ? 0 : (l ? 2 : 1) * taps[2 * l] / (double)(2 * t->m);
        const double angle = -M_PI / 2 * (double)l / (double)n;
        in[2 * l] = tap * cos(angle);
        in[2 * l + 1] = tap * sin(angle);
    }
    rc = rc || vp_dft(in, taps, n, err) ? -1 : 0;
    for (int64_t k = 0; !rc && k < n; k++)
        out[k] = taps[2 * k] / (double)n;
    free(in);
    return rc;
}

/* Makes the transform and the spectrum that it is multiplied by. */
static int make_transform(struct vp_filter *f, struct vp_filter_method *method, const struct vp_filter_params *p,
                          struct vp_err *err)
{
    const int64_t need = f->t.nu + vp_max64(method->pad, f->before) + vp_max64(method->pad, f->after);
    const int64_t m = f->t.m = samples_of_window(need);
    double *at_roots = NULL, *cosine = vp_alloc_raw((size_t)(2 * m), sizeof *cosine, "the kernel", err);
    int rc = -1;

    free(f->t.response);
    f->t.response = vp_filter_take(f, m + 1, sizeof *f->t.response, "the kernel", err);
    if (!cosine || !f->t.response || vp_line_make_rows(&method->line, need, err))
        goto out;
    const int64_t n = method->line.n;
    method->spectrum = vp_filter_take(f, n, sizeof *method->spectrum, "the kernel", err);
    at_roots = vp_alloc_raw((size_t)n, sizeof *at_roots, "the kernel", err);
    if (!method->spectrum || !at_roots)
        goto out;
    for (int64_t k = 0; k < 2 * m; k++)
        cosine[k] = cos(M_PI * (double)k / (double)m);
    make_kernel(f->t.response, m, p, cosine);

    struct vp_filter_tables t = f->t;
    t.pad = method->pad;
    t.before = f->before;
    t.after = f->after;
    if (vp_filter_response(&t, n, at_roots, err))
        goto out;
    for (int64_t i = 0; i < n; i++)
        method->spectrum[i] = (float)at_roots[vp_line_root(&method->line, i)];
    rc = 0;
out:
    free(cosine);
    free(at_roots);
    return rc;
}

/* ---- the cosine ---- */

static double dot3(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* With the camera's rows r1, r2, r3 (unit), the ray to (u, v) is r3 + y with y in the plane across r3 such
 * that (r1 - cu r3) y = u - cu and (r2 - cv r3) y = v - cv; its cosine is 1 / sqrt(1 + |y|^2). head, lean, rise and
 * tip are the rest of the weight above, over sod fu. Fails where the detector is seen edge on. */
static int lens_of(const struct vp_view *view, int64_t nv, struct vp_filter_lens *lens)
{
    const double *P = view->P;
    const double cu = dot3(P, P + 8), cv = dot3(P + 4, P + 8);
    double uu = 0, uv = 0, vv = 0, source[3], y[3][3], ahead[3], normal[3], row = 0, turn = 0;

    for (int i = 0; i < 3; i++) {
        const double a = P[i] - cu * P[8 + i], b = P[4 + i] - cv * P[8 + i];
        uu += a * a;
        uv += a * b;
        vv += b * b;
    }
    const double det = uu * vv - uv * uv;

    vp_view_source(view, source);
    vp_view_rays(view, y);
    for (int i = 0; i < 3; i++) {
        ahead[i] = -dot3(source, y[i]);
        normal[i] = source[(i + 1) % 3] * y[0][(i + 2) % 3] - source[(i + 2) % 3] * y[0][(i + 1) % 3];
    }
    const double across = sqrt(dot3(normal, normal));
    for (int i = 0; i < 3; i++) {
        row += (P[4 + i] - cv * P[8 + i]) * normal[i] / across;
        turn -= P[8 + i] * normal[i] / across;
    }
    const double tip = turn / row, whole = view->sod * fabs(row) / sqrt(vv);
    const double nearest = fmin(1 - tip * cv, 1 + tip * ((double)(nv - 1) - cv));
    if (!(nearest * fabs(row) > 0.02 * sqrt(vv)))
        return -1;
    *lens = (struct vp_filter_lens){.center = cu, .cv = cv, .slope = -uv / vv, .f = sqrt(det / vv), .bend = 1 / vv,
                                    .head = (ahead[1] * cv + ahead[2]) / whole, .lean = ahead[0] / whole,
                                    .rise = ahead[1] / whole, .tip = tip};
    return 0;
}

static bool same_lens(const struct vp_filter_lens *a, const struct vp_filter_lens *b)
{
    return fabs(a->center - b->center) <= 1e-7 && fabs(a->cv - b->cv) <= 1e-7
           && fabs(a->slope - b->slope) <= 1e-10 && fabs(a->f - b->f) <= 1e-9 * b->f
           && fabs(a->bend - b->bend) <= 1e-9 * b->bend && fabs(a->head - b->head) <= 1e-9
           && fabs(a->lean - b->lean) * b->f <= 1e-9 && fabs(a->rise - b->rise) * b->f <= 1e-9
           && fabs(a->tip - b->tip) * b->f <= 1e-9;
}

static void cosine_row(const struct vp_filter *f, const struct vp_filter_lens *l, int64_t v, float *out)
{
    const double dv = (double)v - l->cv, depth = 1 + l->tip * dv;

    f->isa->cosine(out, f->t.nu, l->slope * dv - l->center, l->f, l->bend * dv * dv, (l->head + l->rise * dv) / depth,
                   l->lean / depth);
}

static int make_cosine(struct vp_filter *f, const struct vp_view *views, struct vp_err *err)
{
    f->t.lens = vp_filter_take(f, f->t.views, sizeof *f->t.lens, "the cosine weights", err);
    if (!f->t.lens)
        return -1;
    bool same = true;
    for (int64_t k = 0; k < f->t.views; k++) {
        if (lens_of(&views[k], f->t.nv, &f->t.lens[k]))
            return vp_fail(err, VP_ERUN, "view %lld: the detector is seen edge on from the source", (long long)k);
        same &= same_lens(&f->t.lens[k], &f->t.lens[0]);
    }
    if (!same)
        return 0;
    f->cosine = vp_filter_take(f, f->t.nu * f->t.nv, sizeof *f->cosine, "the cosine weights", err);
    if (!f->cosine)
        return -1;
    for (int64_t v = 0; v < f->t.nv; v++)
        cosine_row(f, &f->t.lens[0], v, f->cosine + v * f->t.nu);
    return 0;
}

/* ---- the filter ---- */

/* Makes the fall of padded rows and the views' weights. */
static int make_factors(struct vp_filter *f, const struct vp_view *views, const struct vp_scan *scan,
                        bool parallel, struct vp_err *err)
{
    double sum = 0, factor = 1;

    for (int64_t k = 0; k < f->t.views; k++)
        sum += views[k].weight;
    /* a full turn measures every ray twice; Wang's and Parker's weights of its two measurements sum to one */
    if (scan->kind == VP_SCAN_FULL && f->t.redundancy == VP_RED_NONE)
        factor = 0.5;
    if (scan->kind == VP_SCAN_SHORT && f->t.redundancy == VP_RED_NONE)
        factor = M_PI / sum;
    /* directions that are measured stand for those that are not */
    if (scan->kind == VP_SCAN_PARALLEL && scan->gaps)
        factor = M_PI / sum;
    f->t.scale = vp_filter_take(f, f->t.views, sizeof *f->t.scale, "the views' weights", err);
    f->t.fall = vp_filter_take(f, f->t.pad, sizeof *f->t.fall, "the padding", err);
    if (!f->t.scale || !f->t.fall)
        return -1;
    for (int64_t i = 0; i < f->t.pad; i++)
        f->t.fall[i] = (float)(0.5 * (1 + cos(M_PI * (double)(i + 1) / (double)(f->t.pad + 1))));
    for (int64_t k = 0; k < f->t.views; k++)
        f->t.scale[k] = (float)(views[k].weight * factor * fabs(views[k].fu) / (parallel ? 1 : views[k].sod));
    return 0;
}

static int64_t longest(const struct vp_filter *f)
{
    return vp_max64(f->plain.line.n, f->extended.line.n);
}

/* Makes the transforms, and the tables of --pad auto. */
static int make_methods(struct vp_filter *f, const struct vp_filter_params *p, const struct vp_view *views,
                     struct vp_err *err)
{
    f->center = vp_filter_take(f, f->t.views, sizeof *f->center, "the rows' ends", err);
    if (!f->center)
        return -1;
    for (int64_t k = 0; k < f->t.views; k++)
        f->center[k] = views[k].P[3] / views[k].P[11];
    f->plain.pad = f->t.pad;
    f->extended.pad = f->t.by_slope ? f->t.nu : 0;
    if (f->t.by_slope && make_transform(f, &f->extended, p, err))
        return -1;
    return make_transform(f, &f->plain, p, err);
}

/* Returns the views of a helix, each as if the origin were beside its source: the ray through the origin of the weights
 * is then the ray across the axis. malloc'd; NULL: out of memory. */
static struct vp_view *raised(const struct vp_geom *g, const struct vp_view *views, const struct vp_helix *h,
                              struct vp_err *err)
{
    struct vp_view *level = vp_alloc_raw((size_t)g->views, sizeof *level, "the views", err);
    for (int64_t k = 0; level && k < g->views; k++) {
        level[k] = views[k];
        vp_view_raise(&level[k], h->z0 + h->pitch * views[k].turn);
    }
    return level;
}

static int open_level(struct vp_filter **out, const struct vp_filter_params *p, const struct vp_geom *g,
                      const struct vp_view *views, const struct vp_scan *scan, int threads, struct vp_err *err)
{
    struct vp_filter *f = vp_alloc(1, sizeof *f, "the filter", err);
    const bool parallel = g->beam == VP_PARALLEL;

    *out = NULL;
    if (!f)
        return -1;
    vp_filter_use(f, NULL);
    f->t.nu = g->nu;
    f->t.nv = g->nv;
    f->t.views = g->views;
    f->threads = threads > 0 ? threads : 1;
    f->t.by_slope = p->pad < 0;
    const double pad = ceil((f->t.by_slope ? 1 : p->pad) * (double)f->t.nu);
    if ((double)f->t.nu + 2 * pad > 1 << 28) {
        vp_fail(err, VP_ERESOURCE, "rows of %.0f samples with their padding are too long",
                (double)f->t.nu + 2 * pad);
        goto fail;
    }
    f->t.pad = f->t.by_slope ? 0 : (int64_t)pad;
    if (vp_filter_resolve(f, p->redundancy, views, scan, err) || make_methods(f, p, views, err)
        || make_factors(f, views, scan, parallel, err)
        || (!parallel && !p->keep_cosine && make_cosine(f, views, err)) || vp_filter_make_weights(f, views, scan, err))
        goto fail;

    const int64_t rows = (f->t.lens && !f->cosine) + (f->t.fan && !f->folded);
    f->scratch_step = (size_t)(2 * longest(f) + rows * f->t.nu + 15) / 16 * 16 * VP_FILTER_LANES;
    f->scratch = vp_filter_take(f, (int64_t)f->scratch_step * f->threads, sizeof *f->scratch, "the filter's rows", err);
    if (!f->scratch)
        goto fail;
    snprintf(f->t.text, sizeof f->t.text, "ramp %s, cutoff %g, %s weights%s", window_name[p->window], p->cutoff,
             f->smooth ? "smooth short-scan" : weights_name[f->t.redundancy], f->by_ray ? " by ray" : "");
    snprintf(f->t.describe, sizeof f->t.describe, "%s, fft length %lld, %s", f->t.text,
             (long long)(2 * f->plain.line.n), f->isa->name);
    if (f->t.by_slope)
        snprintf(f->t.describe + strlen(f->t.describe), sizeof f->t.describe - strlen(f->t.describe),
                 "; truncated rows by their slope, %lld", (long long)(2 * f->extended.line.n));
    *out = f;
    return 0;
fail:
    vp_filter_close(f);
    return -1;
}

/* Opens the filter for the detector that turns with the source. */
static int open_turned(struct vp_filter **f, const struct vp_filter_params *p, const struct vp_geom *g,
                       const struct vp_view *views, const struct vp_scan *scan, int threads, struct vp_err *err)
{
    struct vp_geom turned;
    struct vp_view *as_turned = NULL;
    struct vp_scan then;
    double *to = NULL;
    int rc = vp_geom_turned(g, views, scan, &turned, &to, err);
    rc = rc || vp_geom_views(&turned, &as_turned, &then, err)
         || vp_filter_open(f, p, &turned, as_turned, &then, threads, err) ? -1 : 0;
    free(as_turned);
    if (rc) {
        vp_geom_free(&turned);
        free(to);
        return -1;
    }
    (*f)->turn = (struct vp_turn){.in_nu = g->nu, .in_nv = g->nv, .nu = turned.nu, .nv = turned.nv, .to = to};
    (*f)->turned = turned;
    (*f)->t.turns = true;
    if (scan->curved) {
        struct vp_view *copy = vp_filter_take(*f, g->views, sizeof *copy, "the views of a curved detector", err);
        (*f)->turn.curved = copy;
        if (!copy) {
            vp_filter_close(*f);
            *f = NULL;
            return -1;
        }
        memcpy(copy, views, (size_t)g->views * sizeof *copy);
    }
    (*f)->t.bytes += (size_t)g->views * 9 * sizeof *to;
    (*f)->turned_view = vp_filter_take(*f, turned.nu * turned.nv, sizeof(float), "a turned view", err);
    if ((*f)->turned_view)
        return 0;
    vp_filter_close(*f);
    *f = NULL;
    return -1;
}

int vp_filter_open(struct vp_filter **f, const struct vp_filter_params *p, const struct vp_geom *g,
                   const struct vp_view *views, const struct vp_scan *scan, int threads, struct vp_err *err)
{
    *f = NULL;
    if (vp_scan_check(scan, err))
        return -1;
    if (vp_scan_turned(scan) || scan->curved)
        return open_turned(f, p, g, views, scan, threads, err);
    if (scan->helix.pitch == 0)
        return open_level(f, p, g, views, scan, threads, err);
    struct vp_view *level = raised(g, views, &scan->helix, err);
    const int rc = level ? open_level(f, p, g, level, scan, threads, err) : -1;
    free(level);
    return rc;
}

const struct vp_filter_tables *vp_filter_tables(const struct vp_filter *f)
{
    return &f->t;
}

double vp_filter_seconds(const struct vp_filter *f, const struct vp_rates *rates)
{
    const struct vp_rates *r = rates ? rates : &vp_rates;
    const double sample = f->isa == &vp_filter_generic ? r->filter_generic
                          : f->isa->lanes == 16        ? r->filter_avx512
                                                       : r->filter_avx2;

    return sample * (double)longest(f) / (double)f->t.nu / f->threads;
}

int64_t vp_filter_widen(struct vp_filter *f, struct vp_geom *g)
{
    if (f->turned.matrix) {
        vp_geom_free(g);
        *g = f->turned;
        f->turned = (struct vp_geom){.matrix = NULL};
    }
    const double center = (double)(g->nu - 1) / 2 + g->offset_u;

    f->t.before = f->before;
    f->t.after = f->after;
    g->nu += f->before + f->after;
    g->offset_u = center + (double)f->before - (double)(g->nu - 1) / 2;
    for (int64_t k = 0; g->matrix && k < g->views; k++)
        for (int i = 0; i < 4; i++)
            g->matrix[12 * k + i] += (double)f->before * g->matrix[12 * k + 8 + i];
    return g->nu;
}

bool vp_filter_use(struct vp_filter *f, const char *isa)
{
    const struct vp_filter_isa *found = VP_ISA_FIND(vp_filter, isa);

    if (!found)
        return false;
    f->isa = found;
    f->fft = vp_line_isa(found->name);
    return true;
}

/* True if a row may break off at a side: at the one that Wang's weights complete it does so by design. */
static bool may_break_off(const struct vp_filter *f, int side)
{
    return !(side ? f->after : f->before);
}

/* Filters the rows of a job, the first of which is row number `at` of the work on n views, each with its axis at
 * `center`: those that end near zero as they are, the others with the extension that follows from their ends. */
static void rows_by_slope(const struct vp_filter_job *job, const double *center, int64_t at, int64_t n, float *scratch)
{
    const struct vp_filter *f = job->filter;
    struct vp_filter_job part[2] = {*job, *job};

    part[0].rows = part[1].rows = 0;
    part[1].method = &f->extended;
    part[1].extended = true;
    for (int i = 0; i < job->rows; i++) {
        struct vp_row_end end[2];
        vp_row_ends(job->in[i], f->t.nu, center[(at + i) % n], f->extended.pad, end);
        for (int side = 0; side < 2; side++) {
            const int64_t u = side ? f->t.nu - 1 : 0;
            end[side].value *= (job->gain[i] ? job->gain[i][u] : 1) * (job->gain2[i] ? job->gain2[i][u] : 1)
                               * job->scale[i] * (float)may_break_off(f, side);
        }
        struct vp_filter_job *const to = &part[end[0].value != 0 || end[1].value != 0];
        const int k = to->rows++;
        to->in[k] = job->in[i], to->out[k] = job->out[i];
        to->gain[k] = job->gain[i], to->gain2[k] = job->gain2[i];
        to->scale[k] = job->scale[i];
        memcpy(to->end[k], end, sizeof end);
    }
    for (int i = 0; i < 2; i++)
        if (part[i].rows)
            f->isa->rows(&part[i], scratch);
}

/* Filters rows [v0, v0 + nv) of views [first, first + n); view_step and row_step are the distances in memory, in rows,
 * from a view and from a row to the next. Neighbours in the order of the work are the same row of different views: they
 * share the row of cosines. */
static void filter(struct vp_filter *f, int64_t first, int64_t n, int64_t v0, int64_t nv, int64_t view_step,
                   int64_t row_step, const float *in, float *out)
{
    const int64_t nu_out = f->t.before + f->t.nu + f->t.after;
    const int64_t rows = n * nv, lanes = f->isa->lanes, blocks = (rows + lanes - 1) / lanes;

    assert(first >= 0 && first + n <= f->t.views && v0 >= 0 && v0 + nv <= f->t.nv);
    #pragma omp parallel num_threads(f->threads) if (blocks > 1)
    {
        float *const scratch = f->scratch + f->scratch_step * (size_t)omp_get_thread_num();
        float *const cosines = scratch + 2 * longest(f) * VP_FILTER_LANES;
        float *const weights = cosines + (f->t.lens && !f->cosine ? f->t.nu * VP_FILTER_LANES : 0);
        struct vp_filter_job job = {.filter = f, .method = &f->plain};

        #pragma omp for schedule(dynamic, 4)
        for (int64_t b = 0; b < blocks; b++) {
            job.rows = (int)(rows - b * lanes < lanes ? rows - b * lanes : lanes);
            for (int i = 0; i < job.rows; i++) {
                const int64_t row = b * lanes + i, v = v0 + row / n, k = row % n, view = first + k;
                job.in[i] = in + (k * view_step + (v - v0) * row_step) * f->t.nu;
                job.out[i] = out + (k * view_step + (v - v0) * row_step) * nu_out;
                job.scale[i] = f->t.scale[view];
                job.gain[i] = f->cosine ? f->cosine + v * f->t.nu : NULL;
                job.gain2[i] = f->folded || !f->t.weight ? NULL
                             : f->t.fan ? weights + i * f->t.nu : f->t.weight + view * f->t.nu;
                if (f->t.fan && !f->folded)
                    vp_filter_weight_row(f, view, v, 0, f->t.nu, weights + i * f->t.nu);
                if (f->t.lens && !f->cosine) {
                    cosine_row(f, &f->t.lens[view], v, cosines + i * f->t.nu);
                    job.gain[i] = cosines + i * f->t.nu;
                }
            }
            if (f->t.by_slope)
                rows_by_slope(&job, f->center + first, b * lanes, n, scratch);
            else
                f->isa->rows(&job, scratch);
        }
    }
}

void vp_filter_rows(struct vp_filter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                    float *out)
{
    if (!f->t.turns) {
        filter(f, first, n, v0, v1 - v0, v1 - v0, 1, in, out);
        return;
    }
    const int64_t whole = f->turn.in_nu * f->turn.in_nv, to = (v1 - v0) * (f->t.before + f->t.nu + f->t.after);
    for (int64_t k = 0; k < n; k++) {
        vp_turn_view(&f->turn, first + k, v0, v1, in + k * whole, f->turned_view, f->threads);
        filter(f, first + k, 1, v0, v1 - v0, v1 - v0, 1, f->turned_view, out + k * to);
    }
}

void vp_filter_sinograms(struct vp_filter *f, int64_t v, int64_t n, const float *in, float *out)
{
    assert(!f->t.turns);
    filter(f, 0, f->t.views, v, n, 1, f->t.views, in, out);
}

/* Samples the ends of rows: some 64 rows of some 128 views are enough. */
static void look(const struct vp_filter *f, int64_t view, int64_t v, const float *row, struct vp_truncation *seen)
{
    if (v % ((f->t.nv + 63) / 64) == 0 && view % ((f->t.views + 127) / 128) == 0)
        vp_truncation_look(seen, row, f->t.nu, f->center[view], may_break_off(f, 0), may_break_off(f, 1));
}

void vp_filter_look(const struct vp_filter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                    struct vp_truncation *seen)
{
    if (f->t.pad || f->t.by_slope || f->t.turns) /* rows that are turned have no ends of their own */
        return;
    for (int64_t k = 0; k < n; k++)
        for (int64_t v = v0; v < v1; v++)
            look(f, first + k, v, in + (k * (v1 - v0) + v - v0) * f->t.nu, seen);
}

void vp_filter_look_sinograms(const struct vp_filter *f, int64_t v, int64_t n, const float *in,
                              struct vp_truncation *seen)
{
    if (f->t.pad || f->t.by_slope)
        return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < f->t.views; k++)
            look(f, k, v + i, in + (i * f->t.views + k) * f->t.nu, seen);
}

bool vp_filter_truncated(const struct vp_truncation *seen, char *text, size_t size)
{
    const double part = vp_truncation_part(seen);

    if (!(part >= 0.05))
        return false;
    snprintf(text, size, "%.0f %% of the detector rows end far from zero: the object is wider than the detector, and "
             "values come out too high: see --pad auto", 100 * part);
    return true;
}

void vp_filter_close(struct vp_filter *f)
{
    if (!f)
        return;
    vp_line_free(&f->plain.line);
    vp_line_free(&f->extended.line);
    free(f->plain.spectrum);
    free(f->extended.spectrum);
    free(f->center);
    vp_geom_free(&f->turned);
    free(f->turn.to);
    free((void *)f->turn.curved);
    free(f->turned_view);
    free(f->t.fall);
    free(f->t.scale);
    free(f->t.weight);
    free(f->t.fan);
    free(f->cosine);
    free(f->t.lens);
    free(f->t.response);
    free(f->scratch);
    free(f);
}
