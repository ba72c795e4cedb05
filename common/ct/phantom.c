/* SPDX-License-Identifier: BSD-3-Clause */
/* Ellipsoid phantoms. A ray s + t d, seen from an ellipsoid's own frame (shifted, turned and scaled until
 * the ellipsoid is the unit sphere: S + t D), crosses it over 2 sqrt(|D|^2 - |S x D|^2) / |D|^2 in t:
 * Lagrange's identity saves the usual discriminant from cancelling. D and S x D are affine in the column
 * u, so along a detector row the radicand is a parabola, kept as k (h - x)(h + x) about its vertex; its
 * zeros are the columns where the shadow begins and ends, and nothing outside them is looked at.
 *
 * The Shepp-Logan head is that of Kak & Slaney, Principles of Computerized Tomographic Imaging (1988),
 * page 102, as corrected in the errata of the book (RTK and sl3d carry the same numbers); the high
 * contrast of its parts follows Toft, The Radon Transform (1996), table B.3, in the three-dimensional form of
 * Yu, Ye & Wang, Proc. SPIE 5535 (2004). Large Poisson means are sampled by transformed rejection: PTRS of
 * Hoermann, Insurance: Mathematics and Economics 12 (1993) 39-45. */
#include "ct/phantom.h"

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RADIANS (M_PI / 180)

/* Named phantoms, in units of the radius; densities relative to 1. */
static const struct vp_ellipsoid head[] = {
    {{0, 0, 0}, {0.69, 0.92, 0.9}, 0, 2},
    {{0, 0, 0}, {0.6624, 0.874, 0.88}, 0, -0.98},
    {{-0.22, 0, -0.25}, {0.41, 0.16, 0.21}, 108, -0.02},
    {{0.22, 0, -0.25}, {0.31, 0.11, 0.22}, 72, -0.02},
    {{0, 0.35, -0.25}, {0.21, 0.25, 0.5}, 0, 0.02},
    {{0, 0.1, -0.25}, {0.046, 0.046, 0.046}, 0, 0.02},
    {{-0.08, -0.65, -0.25}, {0.046, 0.023, 0.02}, 0, 0.01},
    {{0.06, -0.65, -0.25}, {0.046, 0.023, 0.02}, 90, 0.01},
    {{0.06, -0.105, 0.625}, {0.056, 0.04, 0.1}, 90, 0.02},
    {{0, 0.1, 0.625}, {0.056, 0.056, 0.1}, 0, -0.02},
};
#define N_HEAD (int)(sizeof head / sizeof *head)
static const double head_contrast[N_HEAD] = {1, -0.8, -0.2, -0.2, 0.2, 0.2, 0.1, 0.1, 0.2, -0.2};

static const struct vp_ellipsoid ball[] = {{{0, 0, 0}, {1, 1, 1}, 0, 1}};

static const struct vp_ellipsoid spheres[] = {
    {{0.05, 0, 0}, {0.2, 0.2, 0.2}, 0, 1},
    {{0.6, 0.1, 0}, {0.22, 0.22, 0.22}, 0, 0.5},
    {{-0.4, 0.45, 0.2}, {0.15, 0.15, 0.15}, 0, 1.5},
    {{0.1, -0.6, -0.35}, {0.2, 0.2, 0.2}, 0, 0.8},
    {{0.2, 0.35, 0.7}, {0.14, 0.14, 0.14}, 0, 2},
    {{-0.35, -0.3, -0.7}, {0.16, 0.16, 0.16}, 0, 1},
    {{-0.7, -0.1, 0.1}, {0.08, 0.08, 0.08}, 0, 3},
    {{0.45, -0.4, 0.45}, {0.1, 0.1, 0.1}, 0, 1.2},
};

/* One sphere towards each positive axis, each of another size and density, and a turned ellipsoid in the
 * negative octant: no flip, exchange of axes or turn maps it onto itself. */
static const struct vp_ellipsoid asymmetric[] = {
    {{0.6, 0, 0}, {0.25, 0.25, 0.25}, 0, 1},
    {{0, 0.65, 0}, {0.18, 0.18, 0.18}, 0, 1.5},
    {{0, 0, 0.72}, {0.16, 0.16, 0.16}, 0, 2},
    {{-0.35, -0.3, -0.4}, {0.3, 0.14, 0.2}, 30, 0.8},
};

static const struct {
    const char *name;
    const struct vp_ellipsoid *list;
    int n;
    const double *density;      /* instead of the list's */
} named[] = {
    {"shepp-logan", head, N_HEAD, NULL},
    {"shepp-logan-contrast", head, N_HEAD, head_contrast},
    {"spheres", spheres, sizeof spheres / sizeof *spheres, NULL},
    {"ball", ball, 1, NULL},
    {"asymmetric", asymmetric, sizeof asymmetric / sizeof *asymmetric, NULL},
};
#define N_NAMED (int)(sizeof named / sizeof *named)

static int find_named(const char *name)
{
    for (int i = 0; i < N_NAMED; i++)
        if (!strcmp(name, named[i].name))
            return i;
    return -1;
}

bool vp_phantom_named(const char *name)
{
    return find_named(name) >= 0;
}

/* Parses a line of a phantom file. Returns 1: an ellipsoid, 0: nothing on it, -1: error. */
static int parse_line(const char *text, const char *path, int64_t line, struct vp_ellipsoid *e,
                      struct vp_err *err)
{
    double v[8];
    int n = 0;

    for (const char *p = text;;) {
        char *end;
        p += strspn(p, " \t\r\n,;");
        if (!*p || *p == '#')
            break;
        const double x = strtod(p, &end);
        if (end == p || (*end && !strchr(" \t\r\n,;#", *end)) || !isfinite(x))
            return vp_fail(err, VP_ERUN, "%s: line %lld: '%.*s' is not a finite number", path,
                           (long long)line, (int)strcspn(p, " \t\r\n,;#"), p);
        if (n < 8)
            v[n] = x;
        n++;
        p = end;
    }
    if (!n)
        return 0;
    if (n != 8)
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected 8 numbers (x y z a b c phi density), got %d",
                       path, (long long)line, n);
    *e = (struct vp_ellipsoid){{v[0], v[1], v[2]}, {v[3], v[4], v[5]}, v[6], v[7]};
    for (int i = 0; i < 3; i++)
        if (!(e->axis[i] > 0))
            return vp_fail(err, VP_ERUN, "%s: line %lld: half axes must be positive, got %g", path,
                           (long long)line, e->axis[i]);
    return 1;
}

struct model {
    struct vp_ellipsoid *list;
    int64_t n, room;
};

static int take_line(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err)
{
    enum { MOST = 1 << 24 };
    struct model *const m = ctx;
    struct vp_ellipsoid e;
    const int rc = parse_line(line, name, number, &e, err);
    if (rc <= 0)
        return rc;
    if (m->n == MOST)
        return vp_fail(err, VP_ERESOURCE, "%s: line %lld: too many ellipsoids", name, (long long)number);
    struct vp_ellipsoid *const more = vp_grow(m->list, m->n, &m->room, sizeof *more, "the list of ellipsoids", name,
                                              err);
    if (!more)
        return -1;
    m->list = more;
    m->list[m->n++] = e;
    return 0;
}

static int load_file(struct vp_ellipsoid **list, int *n, const char *path, struct vp_err *err)
{
    struct model m = {0};
    int rc = vp_text_lines(path, take_line, &m, err);
    if (rc && access(path, F_OK))
        vp_hint(err, "named phantoms: shepp-logan, shepp-logan-contrast, spheres, ball, asymmetric");
    if (!rc && !m.n)
        rc = vp_fail(err, VP_ERUN, "%s: expected ellipsoids (x y z a b c phi density), got none", path);
    if (rc) {
        free(m.list);
        return -1;
    }
    *list = m.list;
    *n = (int)m.n;
    return 0;
}

int vp_phantom_load(struct vp_ellipsoid **list, int *n, const char *name_or_file, double radius,
                    double density, struct vp_err *err)
{
    const int which = find_named(name_or_file);

    *list = NULL;
    *n = 0;
    if (which < 0)
        return load_file(list, n, name_or_file, err);
    *list = vp_alloc((size_t)named[which].n, sizeof **list, "the phantom", err);
    if (!*list)
        return -1;
    *n = named[which].n;
    for (int i = 0; i < *n; i++) {
        struct vp_ellipsoid *e = &(*list)[i];
        *e = named[which].list[i];
        for (int j = 0; j < 3; j++) {
            e->center[j] *= radius;
            e->axis[j] *= radius;
        }
        e->density = density * (named[which].density ? named[which].density[i] : e->density);
    }
    return 0;
}

/* A vector, or a point; of three numbers in a row. */
struct vec { double x, y, z; };

static struct vec vec(const double a[3]) { return (struct vec){a[0], a[1], a[2]}; }
static struct vec over(struct vec a, double d) { return (struct vec){a.x / d, a.y / d, a.z / d}; }
/* Returns a + s b. */
static struct vec plus(struct vec a, double s, struct vec b)
{
    return (struct vec){a.x + s * b.x, a.y + s * b.y, a.z + s * b.z};
}

static double dot(struct vec a, struct vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static struct vec cross(struct vec a, struct vec b)
{
    return (struct vec){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/* Returns the distance of the origin, mm, from the plane of the rays that hit a detector edge, positive inside. `row`
 * is 0 for columns and 1 for rows, `at` the edge in pixels, `sign` +1 where inside is at larger coordinates. */
static double edge_distance(const struct vp_view *view, int row, double at, double sign)
{
    double plane[4];

    for (int i = 0; i < 4; i++)
        plane[i] = sign * (view->P[4 * row + i] - at * view->P[8 + i]);
    return plane[3] / sqrt(dot(vec(plane), vec(plane)));
}

double vp_phantom_radius(const struct vp_view *views, int64_t n_views, const struct vp_scan *scan, int64_t nu,
                         int64_t nv)
{
    double radius = INFINITY;

    for (int64_t k = 0; k < n_views; k++) {
        const double left = edge_distance(&views[k], 0, -0.5, 1);
        const double right = edge_distance(&views[k], 0, (double)nu - 0.5, -1);
        const double low = edge_distance(&views[k], 1, -0.5, 1);
        const double high = edge_distance(&views[k], 1, (double)nv - 0.5, -1);
        radius = fmin(radius, scan->offset ? fmax(left, right) : fmin(left, right));
        if (scan->helix.pitch == 0 && 4 * (low + high) > left + right)
            radius = fmin(radius, fmin(low, high));
        /* the source must stay outside */
        if (views[k].sod > 0)
            radius = fmin(radius, views[k].sod);
    }
    if (scan->helix.pitch != 0)
        radius = fmin(radius, fmin(-scan->helix.z_lo, scan->helix.z_hi));
    return radius;
}

double vp_phantom_radius_in(const struct vp_grid *grid)
{
    double edge[3], longest = 0, radius = INFINITY;

    for (int i = 0; i < 3; i++) {
        edge[i] = (double)grid->n[i] * grid->voxel[i];
        longest = fmax(longest, edge[i]);
    }
    for (int i = 0; i < 3; i++)
        if (4 * edge[i] > longest)
            radius = fmin(radius, edge[i] / 2 - fabs(grid->center[i]));
    return radius;
}

/* All rays of a view: from p0 + u pu + v pv in direction d0 + u du + v dv. Cone: pu = pv = 0, the parameter t
 * along the ray is the depth. Parallel: du = dv = 0, unit direction. */
struct ray_bundle {
    struct vec p0, pu, pv, d0, du, dv;
    const double *P;
    bool cone;
};

static void rays_of_view(struct ray_bundle *r, const struct vp_view *view, enum vp_beam beam)
{
    const double *const P = view->P;
    const struct vec zero = {0, 0, 0}, a = vec(P), b = vec(P + 4), c = vec(P + 8), n = cross(a, b);

    *r = (struct ray_bundle){.P = P, .cone = beam == VP_CONE};
    if (r->cone) {
        /* the columns of the inverse of the left 3x3 block; the source is where all three rows vanish */
        const struct vec bc = cross(b, c);
        const double det = dot(a, bc);
        r->du = over(bc, det);
        r->dv = over(cross(c, a), det);
        r->d0 = over(n, det);
        r->p0 = plus(zero, -1, plus(plus(plus(zero, P[3], r->du), P[7], r->dv), P[11], r->d0));
        return;
    }
    const double n2 = dot(n, n);
    r->d0 = over(n, sqrt(n2));
    r->pu = over(cross(b, n), n2);
    r->pv = over(cross(n, a), n2);
    r->p0 = plus(zero, -1, plus(plus(zero, P[3], r->pu), P[7], r->pv));
}

/* Transforms into the frame of an ellipsoid, where it is the unit sphere. */
static struct vec to_sphere(const struct vp_ellipsoid *e, struct vec v)
{
    const double c = cos(e->phi * RADIANS), s = sin(e->phi * RADIANS);

    return (struct vec){(c * v.x + s * v.y) / e->axis[0], (c * v.y - s * v.x) / e->axis[1], v.z / e->axis[2]};
}

/* Columns accumulated at a time, on the stack. */
enum { BLOCK = 512 };

/* An ellipsoid as one detector row sees it; x is the column less u0. */
struct shadow {
    struct vec D, D1;       /* direction at x = 0, and its slope */
    struct vec S, S1;       /* the point on the ray, and its slope */
    double u0, h, k;        /* radicand k (h - x)(h + x) */
    bool plain;             /* the parabola is valid: all of the ellipsoid lies in front of the source */
};

static void row_shadow(struct shadow *w, const struct vp_ellipsoid *e, const struct ray_bundle *r, double v)
{
    const struct vec center = vec(e->center), third = vec(r->P + 8);

    w->S = to_sphere(e, plus(plus(r->p0, v, r->pv), -1, center));
    w->S1 = to_sphere(e, r->pu);
    w->D = to_sphere(e, plus(r->d0, v, r->dv));
    w->D1 = to_sphere(e, r->du);
    w->u0 = 0;
    w->plain = true;
    if (r->cone) {
        /* half the extent of the ellipsoid in depth: the norm of its axes along the third row */
        const double c = cos(e->phi * RADIANS), s = sin(e->phi * RADIANS);
        const double a0 = e->axis[0] * (c * third.x + s * third.y);
        const double a1 = e->axis[1] * (c * third.y - s * third.x);
        const double a2 = e->axis[2] * third.z, depth = dot(third, center) + r->P[11];
        w->plain = depth > sqrt(a0 * a0 + a1 * a1 + a2 * a2);
        if (!w->plain)
            return;
        w->u0 = (dot(vec(r->P), center) + r->P[3]) / depth;
    } else {
        w->u0 = dot(vec(r->P), center) + r->P[3];
    }
    /* Start at the image of the centre, then once more from the vertex found there: what is left of the
     * distance between vertex and reference is then too small to cost digits. */
    struct vec C;
    double shift = w->u0;
    for (int pass = 0; pass < 2; pass++) {
        w->D = plus(w->D, shift, w->D1);
        w->S = plus(w->S, shift, w->S1);
        C = cross(w->S, w->D);
        const struct vec C1 = plus(cross(w->S, w->D1), 1, cross(w->S1, w->D));
        w->k = dot(C1, C1) - dot(w->D1, w->D1);
        shift = (dot(w->D, w->D1) - dot(C, C1)) / w->k;
        if (!pass)
            w->u0 += shift;
    }
    const double top = (dot(w->D, w->D) - dot(C, C)) / w->k + shift * shift;
    w->h = top > 0 ? sqrt(top) : -1;
}

/* Sets [*lo, *hi], the integers within [from, to] and [0, n - 1]; lo > hi if there are none. */
static void clip(double from, double to, int n, int *lo, int *hi)
{
    const double first = ceil(from), last = floor(to);

    *lo = first > 0 ? first < n ? (int)first : n : 0;
    *hi = last < n - 1 ? last < 0 ? -1 : (int)last : n - 1;
}

/* Adds density * chord (in t) of the columns u + i, i in [0, n), to acc. */
static void add_row(double *restrict acc, const struct shadow *w, double u, int n, double density)
{
    if (w->h <= 0)
        return;
    int lo, hi;
    clip(w->u0 - w->h - u, w->u0 + w->h - u, n, &lo, &hi);
    const double h = w->h, k = w->k, shift = u - w->u0, twice = 2 * density;
    const struct vec D = w->D, E = w->D1;

    for (int i = lo; i <= hi; i++) {
        const double x = shift + i, q = k * ((h - x) * (h + x));
        const struct vec a = plus(D, x, E);
        acc[i] += twice * sqrt(q > 0 ? q : 0) / dot(a, a);
    }
}

/* Does the same if the source is inside the ellipsoid or beside it: ray by ray, the part in front of the source. */
static void add_row_near(double *acc, const struct shadow *w, double u, int n, double density)
{
    for (int i = 0; i < n; i++) {
        const struct vec D = plus(w->D, u + i, w->D1), C = cross(w->S, D);
        const double d2 = dot(D, D), q = d2 - dot(C, C), mid = -dot(w->S, D);
        if (!(q > 0))
            continue;
        const double from = mid - sqrt(q), to = mid + sqrt(q);
        if (to > 0)
            acc[i] += density * (to - (from > 0 ? from : 0)) / d2;
    }
}

/* Adds the line integrals of the columns u + i, i in [0, n), on detector row v to sum. */
static void add_rays(double *restrict sum, const struct vp_ellipsoid *list, int n_list, const struct ray_bundle *r,
                     double u, double v, int n)
{
    const struct vec d = plus(r->d0, v, r->dv);
    double acc[BLOCK] = {0};
    struct shadow w;

    for (int j = 0; j < n_list; j++) {
        row_shadow(&w, &list[j], r, v);
        (w.plain ? add_row : add_row_near)(acc, &w, u, n, list[j].density);
    }
    for (int i = 0; i < n; i++) {
        const struct vec at = plus(d, u + i, r->du);
        sum[i] += acc[i] * sqrt(dot(at, at));
    }
}

/* Returns the position of point i of the s points across a pixel, about its centre. */
static double sub_sample(int i, int s)
{
    return (i + 0.5) / s - 0.5;
}

/* Adds density to the points x0 + step i, i in [0, n), of a row of voxels that lie in the ellipsoid. */
static void add_voxels(double *sum, const struct vp_ellipsoid *e, double x0, double step, double y, double z,
                       int n)
{
    const struct vec s = to_sphere(e, plus((struct vec){x0, y, z}, -1, vec(e->center)));
    const struct vec d = to_sphere(e, (struct vec){step, 0, 0}), c = cross(s, d);
    const double d2 = dot(d, d), q = d2 - dot(c, c), mid = -dot(s, d) / d2;
    if (q < 0)
        return;
    const double half = sqrt(q) / d2;
    int lo, hi;
    clip(mid - half, mid + half, n, &lo, &hi);
    for (int i = lo; i <= hi; i++)
        sum[i] += e->density;
}

void vp_phantom_slice(const struct vp_ellipsoid *list, int n, const struct vp_grid *grid, int64_t k,
                      int samples, float *out)
{
    const int64_t nx = grid->n[0], ny = grid->n[1];
    const double *const step = grid->voxel;
    double origin[3];

    assert(samples > 0);
    for (int a = 0; a < 3; a++)
        origin[a] = grid->center[a] - (double)(grid->n[a] - 1) / 2 * step[a];
    #pragma omp parallel for schedule(dynamic, 4)
    for (int64_t j = 0; j < ny; j++)
        for (int64_t i = 0; i < nx; i += BLOCK) {
            const int count = (int)vp_min64(nx - i, BLOCK);
            double sum[BLOCK] = {0};
            for (int m = 0; m < samples * samples * samples; m++) {
                const double x = origin[0] + ((double)i + sub_sample(m % samples, samples)) * step[0];
                const double y =
                    origin[1] + ((double)j + sub_sample(m / samples % samples, samples)) * step[1];
                const double z =
                    origin[2] + ((double)k + sub_sample(m / samples / samples, samples)) * step[2];
                for (int e = 0; e < n; e++)
                    add_voxels(sum, &list[e], x, step[0], y, z, count);
            }
            for (int c = 0; c < count; c++)
                out[j * nx + i + c] = (float)(sum[c] / ((double)samples * samples * samples));
        }
}

/* The finaliser of splitmix64 (Steele, Lea & Flood, OOPSLA 2014): a bijection that scatters every bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the next number of a pixel's own splitmix64 stream, uniform in ]0, 1[. */
static double uniform(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return ((double)(mix(*state) >> 12) + 0.5) * 0x1p-52;
}

/* log(k!) for integers k >= 0: a table, then Stirling's series (next term below 1e-12 of the result). */
static double log_factorial(double k)
{
    static const double small[10] = {
        0, 0, 0.69314718055994530942, 1.7917594692280550008, 3.1780538303479456196, 4.7874917427820459943,
        6.5792512120101009951, 8.5251613610654143002, 10.604602902745250228, 12.801827480081469611};
    if (k < 10)
        return small[(int)k];
    const double x = k + 1, r = 1 / (x * x);
    return (x - 0.5) * log(x) - x + 0.91893853320467274178
           + (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r * (1.0 / 1680 - r / 1188)))) / x;
}

static double poisson(double mean, uint64_t *state)
{
    if (!(mean > 0))
        return 0;
    if (mean < 10) {
        /* the number of unit-rate arrivals before time `mean` */
        const double limit = exp(-mean);
        double k = 0;
        for (double product = uniform(state); product > limit; product *= uniform(state))
            k++;
        return k;
    }
    const double root = sqrt(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
    const double log_mean = log(mean);
    for (;;) {
        const double u = uniform(state) - 0.5, v = uniform(state), us = 0.5 - fabs(u);
        const double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= vr)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_mean - mean - log_factorial(k))
            return k;
    }
}

void vp_phantom_noise(float *p, int64_t n, double i0, bool counts, uint64_t seed, int64_t view, int64_t first)
{
    const uint64_t key = mix(mix(seed + 0x9e3779b97f4a7c15u) + (uint64_t)view * 0xd1342543de82ef95u);

    for (int64_t i = 0; i < n; i++) {
        uint64_t state = mix(key ^ mix((uint64_t)(first + i) + 0x2545f4914f6cdd1du));
        const double photons = poisson(i0 * exp(-(double)p[i]), &state);
        p[i] = (float)(counts ? photons : -log(fmax(photons, 1) / i0));
    }
}

void vp_phantom_block(const struct vp_phantom_scan *s, int64_t page, int64_t r0, int64_t r1, float *out)
{
    const int m = s->samples;
    struct ray_bundle rays;

    assert(m > 0);
    for (int64_t r = r0; r < r1; r++, out += s->nu) {
        const int64_t view = s->sinograms ? r : page, v = s->sinograms ? page : r;
        rays_of_view(&rays, &s->views[view], s->beam);
        for (int64_t u = 0; u < s->nu; u += BLOCK) {
            const int count = (int)vp_min64(s->nu - u, BLOCK);
            double sum[BLOCK] = {0};
            for (int i = 0; i < m * m && s->curved; i++)
                for (int k = 0; k < count; k++) {
                    double at = (double)(u + k) + sub_sample(i % m, m), row = (double)v + sub_sample(i / m, m);
                    vp_view_flatten(&s->views[view], &at, &row);
                    add_rays(sum + k, s->list, s->n, &rays, at, row, 1);
                }
            for (int i = 0; i < m * m && !s->curved; i++)
                add_rays(sum, s->list, s->n, &rays, (double)u + sub_sample(i % m, m), (double)v + sub_sample(i / m, m),
                         count);
            for (int i = 0; i < count; i++)
                out[u + i] = (float)(sum[i] / ((double)m * m));
        }
        if (s->i0 > 0)
            vp_phantom_noise(out, s->nu, s->i0, s->counts, s->seed, view, v * s->nu);
    }
}
