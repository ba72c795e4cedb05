/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel from images of point sources: cut out, background subtracted, centred, averaged. */
#include "local/psf.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOBES = 5, TURNS = 60 };

static const char too_near[] = "too near to the edge";

/* ---- the list ---- */

/* Reads the numbers of a line. Returns how many, -1 if there is other text. */
static int numbers(char *line, double v[4])
{
    int n = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *at = line + strspn(line, " \t,"), *end; *at; at = end + strspn(end, " \t,"), n++) {
        if (n == 4)
            return -1;
        v[n] = strtod(at, &end);
        if (end == at || !isfinite(v[n]) || (*end && !strchr(" \t,", *end)))
            return -1;
    }
    return n;
}

struct star_list {
    struct vp_stars *s;
    int64_t room;
    int columns;
};

static int take_line(void *ctx, const char *path, int64_t number, char *line, struct vp_err *err)
{
    struct star_list *const l = ctx;
    struct vp_stars *const s = l->s;
    double v[4] = {0};
    const int n = numbers(line, v);

    if (n == 0 || (n < 0 && number == 1))
        return 0;
    if ((n != 2 && n != 3) || (l->columns && n != l->columns))
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected x y%s", path, (long long)number,
                       l->columns == 2 ? "" : l->columns == 3 ? " z" : ", or x y z");
    l->columns = n;
    struct vp_star *const grown = vp_grow(s->star, s->n, &l->room, sizeof *grown, "the list of stars", path, err);
    if (!grown)
        return -1;
    s->star = grown;
    s->star[s->n++] = (struct vp_star){.at = {v[0], v[1], v[2]}};
    return 0;
}

int vp_stars_read(struct vp_stars *s, const char *path, struct vp_err *err)
{
    struct star_list list = {.s = s};

    *s = (struct vp_stars){0};
    int rc = vp_text_lines(path, take_line, &list, err);
    if (!rc && !s->n)
        rc = vp_fail(err, VP_ERUN, "%s: expected a line x y, or x y z, for each star, got none",
                     vp_text_name(path));
    if (rc)
        vp_stars_free(s);
    return rc;
}

void vp_stars_free(struct vp_stars *s)
{
    for (int64_t i = 0; i < s->n; i++)
        free(s->star[i].cut);
    free(s->star);
    *s = (struct vp_stars){0};
}

/* ---- cut out ---- */

static int64_t margin_of(const struct vp_stars *s, int axis)
{
    return s->size[axis] > 1 ? VP_STAR_MARGIN : 0;
}

/* Returns the voxels of a cutout. */
static int64_t side(const struct vp_stars *s, int axis)
{
    return s->size[axis] + 2 * margin_of(s, axis);
}

static int64_t first(const struct vp_stars *s, const struct vp_star *star, int axis)
{
    return (int64_t)rint(star->at[axis]) - side(s, axis) / 2;
}

int vp_stars_open(struct vp_stars *s, const int64_t size[3], const int64_t image[3], uint64_t memory,
                  struct vp_err *err)
{
    memcpy(s->size, size, sizeof s->size);
    const uint64_t each = (uint64_t)(side(s, 0) * side(s, 1) * side(s, 2)) * sizeof(float);
    const uint64_t moved = (uint64_t)(size[0] * size[1] * size[2]) * sizeof(double);

    if (each + moved > memory / (uint64_t)s->n)
        return vp_fail(err, VP_ERESOURCE, "%lld stars of %lld x %lld x %lld voxels exceed the available memory",
                       (long long)s->n, (long long)side(s, 0), (long long)side(s, 1), (long long)side(s, 2));
    for (int64_t i = 0; i < s->n; i++) {
        struct vp_star *star = &s->star[i];
        for (int a = 0; a < 3; a++) {
            const bool inside = star->at[a] > -1e9 && star->at[a] < 1e15;
            if (!inside || first(s, star, a) < 0 || first(s, star, a) + side(s, a) > image[a])
                star->out = too_near;
        }
        if (!star->out && !(star->cut = vp_alloc(1, (size_t)each, "stars", err)))
            return -1;
    }
    s->bytes = (each + moved) * (uint64_t)s->n;
    return 0;
}

void vp_stars_page(struct vp_stars *s, const float *page, int64_t nx, int64_t z)
{
    const int64_t w = side(s, 0), h = side(s, 1);

    for (int64_t i = 0; i < s->n; i++) {
        const struct vp_star *star = &s->star[i];
        const int64_t dz = star->out ? -1 : z - first(s, star, 2);
        if (dz < 0 || dz >= side(s, 2))
            continue;
        for (int64_t y = 0; y < h; y++)
            memcpy(star->cut + (dz * h + y) * w, page + (first(s, star, 1) + y) * nx + first(s, star, 0),
                   (size_t)w * sizeof *page);
    }
}

void vp_stars_end(struct vp_stars *s, int64_t pages)
{
    for (int64_t i = 0; i < s->n; i++)
        if (!s->star[i].out && first(s, &s->star[i], 2) + side(s, 2) > pages)
            s->star[i].out = too_near;
}

/* ---- one star ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    vp_sort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Subtracts the median of the margin. False: some sample is not finite. */
static bool remove_background(const struct vp_stars *s, float *cut, double *work)
{
    const int64_t w = side(s, 0), h = side(s, 1), all = w * h * side(s, 2);
    int64_t n = 0;

    for (int64_t i = 0; i < all; i++) {
        const int64_t at[3] = {i % w, i / w % h, i / w / h};
        bool outside = false;
        if (!isfinite(cut[i]))
            return false;
        for (int a = 0; a < 3; a++)
            outside = outside || at[a] < margin_of(s, a) || at[a] >= side(s, a) - margin_of(s, a);
        if (outside)
            work[n++] = (double)cut[i];
    }
    const double level = n ? median(work, n) : 0;
    for (int64_t i = 0; i < all; i++)
        cut[i] = (float)((double)cut[i] - level);
    return true;
}

/* Finds the centre: the fixed point of the centre of mass under a Gaussian window centred on it (SExtractor's windowed
 * position), starting from `c`, in voxels of the cutout. False: it does not converge. */
static bool centre(const struct vp_stars *s, const float *cut, double c[3])
{
    const double start[3] = {c[0], c[1], c[2]};
    double width[3], step = 1;

    for (int a = 0; a < 3; a++)
        width[a] = fmax((double)(s->size[a] / 2) / 3, 1);
    for (int turn = 0; turn < TURNS && step > 1e-9; turn++) {
        double sum = 0, moment[3] = {0};
        for (int64_t k = 0; k < side(s, 2); k++)
            for (int64_t j = 0; j < side(s, 1); j++)
                for (int64_t i = 0; i < side(s, 0); i++) {
                    const double d[3] = {(double)i - c[0], (double)j - c[1], (double)k - c[2]};
                    double q = 0;
                    for (int a = 0; a < 3; a++)
                        q += d[a] / width[a] * (d[a] / width[a]);
                    const double v = exp(-q / 2) * (double)cut[(k * side(s, 1) + j) * side(s, 0) + i];
                    sum += v;
                    for (int a = 0; a < 3; a++)
                        moment[a] += v * d[a];
                }
        if (!(sum > 0))
            return false;
        step = 0;
        for (int a = 0; a < 3; a++) {
            const double move = s->size[a] > 1 ? 2 * moment[a] / sum : 0;
            c[a] += move;
            step = fmax(step, fabs(move));
            if (!(fabs(c[a] - start[a]) <= fmax(2, (double)s->size[a] / 8)))
                return false;
        }
    }
    return true;
}

static double lanczos(double x)
{
    const double p = M_PI * x;

    return fabs(x) < 1e-9 ? 1 : fabs(x) >= LOBES ? 0 : LOBES * sin(p) * sin(p / LOBES) / (p * p);
}

/* Interpolates the kernel's voxels around c. False: their sum is not above 0. */
static bool move(const struct vp_stars *s, const float *cut, const double c[3], double *to)
{
    double weight[3][2 * LOBES], sum = 0;
    int64_t base[3];
    int taps[3];

    for (int a = 0; a < 3; a++) {
        const double from = c[a] - (double)(s->size[a] / 2), part = from - floor(from);
        double all = 0;
        taps[a] = s->size[a] > 1 ? 2 * LOBES : 1;
        base[a] = (int64_t)floor(from) - (taps[a] > 1 ? LOBES - 1 : 0);
        for (int t = 0; t < taps[a]; t++)
            all += weight[a][t] = taps[a] > 1 ? lanczos((double)(t - LOBES + 1) - part) : 1;
        for (int t = 0; t < taps[a]; t++)
            weight[a][t] /= all;
    }
    for (int64_t k = 0; k < s->size[2]; k++)
        for (int64_t j = 0; j < s->size[1]; j++)
            for (int64_t i = 0; i < s->size[0]; i++) {
                double v = 0;
                for (int z = 0; z < taps[2]; z++)
                    for (int y = 0; y < taps[1]; y++) {
                        const int64_t pz = vp_max64(0, vp_min64(side(s, 2) - 1, base[2] + k + z));
                        const int64_t py = vp_max64(0, vp_min64(side(s, 1) - 1, base[1] + j + y));
                        const float *row = cut + (pz * side(s, 1) + py) * side(s, 0);
                        double line = 0;
                        for (int x = 0; x < taps[0]; x++)
                            line += weight[0][x]
                                  * (double)row[vp_max64(0, vp_min64(side(s, 0) - 1, base[0] + i + x))];
                        v += weight[2][z] * weight[1][y] * line;
                    }
                *to++ = v;
                sum += v;
            }
    return sum > 0;
}

/* ---- all of them ---- */

/* Returns the weighted mean of v without values more than three sigma from the median (sigma from the median absolute
 * deviation). */
static double robust_mean(const double *v, const double *weight, int64_t n, double *work)
{
    double sum = 0, all = 0;

    memcpy(work, v, (size_t)n * sizeof *v);
    const double middle = median(work, n);
    for (int64_t i = 0; i < n; i++)
        work[i] = fabs(v[i] - middle);
    const double far = n < 4 ? INFINITY : 3 * 1.4826 * median(work, n);
    for (int64_t i = 0; i < n; i++)
        if (fabs(v[i] - middle) <= far) {
            sum += weight[i] * v[i];
            all += weight[i];
        }
    return sum / all;
}

/* Makes a star's kernel and its sum. False: the star is excluded. */
static bool make(const struct vp_stars *s, struct vp_star *star, bool given, double *to, double *flux, double *work)
{
    const int64_t voxels = s->size[0] * s->size[1] * s->size[2];
    double c[3];

    if (star->out)
        return false;
    for (int a = 0; a < 3; a++)
        c[a] = s->size[a] > 1 ? star->at[a] - (double)first(s, star, a) : 0;
    if (!remove_background(s, star->cut, work)) {
        star->out = "not a number";
        return false;
    }
    if ((!given && !centre(s, star->cut, c)) || !move(s, star->cut, c, to)) {
        star->out = "nothing bright there";
        return false;
    }
    *flux = 0;
    for (int64_t i = 0; i < voxels; i++)
        *flux += to[i];
    for (int64_t i = 0; i < voxels; i++)
        to[i] /= *flux;
    for (int a = 0; a < 3; a++)
        star->at[a] = s->size[a] > 1 ? (double)first(s, star, a) + c[a] : star->at[a];
    return true;
}

int vp_stars_average(struct vp_stars *s, bool given, bool negative, float *kernel, struct vp_err *err)
{
    const int64_t voxels = s->size[0] * s->size[1] * s->size[2], cut = side(s, 0) * side(s, 1) * side(s, 2);
    double *const all = vp_alloc((size_t)(s->n * (voxels + 2) + vp_max64(cut, s->n)), sizeof *all, "stars", err);
    if (!all)
        return -1;
    double *const flux = all + s->n * voxels, *const v = flux + s->n, *const work = v + s->n, sum = 0;

    s->used = 0;
    for (int64_t i = 0; i < s->n; i++)
        s->used += make(s, &s->star[i], given, all + s->used * voxels, &flux[s->used], work);
    const int rc = s->used ? 0 : vp_fail(err, VP_ERUN, "none of the %lld stars can be used; the first one: %s",
                                         (long long)s->n, s->star[0].out);
    for (int64_t k = 0; k < voxels && !rc; k++) {
        for (int64_t i = 0; i < s->used; i++)
            v[i] = all[i * voxels + k];
        const double mean = robust_mean(v, flux, s->used, work);
        all[k] = mean < 0 && !negative ? 0 : mean; /* the first star's memory is free again */
        sum += all[k];
    }
    for (int64_t k = 0; k < voxels && !rc; k++)
        kernel[k] = (float)(all[k] / sum);
    free(all);
    return rc;
}
