/* SPDX-License-Identifier: BSD-3-Clause */
/* Picking pages and regions of a stack, and what that does to its metadata and geometry.
 *
 * The geometry follows the pixels: keeping columns first, first + step, ... of a detector moves the
 * principal point from c to (c - first) / step and makes the pitch step times as large; on matrices the
 * same is row' = (row - first * last row) / step. */
#include "image/select.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "geom/geom.h"
#include "image/report.h"
#include "stack/axes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_select_options[] = {
    VP_STRING(struct vp_select_params, pages, "pages", 'p', .metavar = "LIST", .group = "Selection",
              .help = "pages by number from 0: 7, 10:20, ::2, -1, or a list of these",
              .more = "As in Python: A:B is half open, A:B:STEP steps, a side that is left out is the end of "
                      "the stack, negative numbers count from the end, a negative step goes backwards, and of a range "
                      "that goes beyond the stack there is what the stack has; it must have some. A "
                      "list with commas gives the pages in its order, also repeatedly. On a pipe pages must "
                      "be in order, and if it does not say how many it has, those that are asked for must come."),
    VP_STRING(struct vp_select_params, region, "region", 'r', .metavar = "X0:X1,Y0:Y1",
              .help = "part of each page: columns X0 to X1-1, rows Y0 to Y1-1",
              .more = "Either side of a colon may be left out: 100:,:50 is all but the first 100 columns of "
                      "the first 50 rows. Negative numbers count from the end."),
    VP_OPT_END,
};

/* ---- parsing ---- */

/* "a:b:step" or "a" in [*at, end): which parts are there, and their values. */
struct slice { bool has_a, has_b, has_step, range; int64_t a, b, step; };

static bool parse_number(const char **at, bool *has, int64_t *out)
{
    char *end;

    *has = **at == '-' || (**at >= '0' && **at <= '9');
    if (!*has)
        return true;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (end == *at || errno)
        return false;
    *at = end;
    return true;
}

/* One slice, up to a comma or the end of the text. */
static bool parse_slice(const char **at, struct slice *s)
{
    *s = (struct slice){.step = 1};
    if (!parse_number(at, &s->has_a, &s->a))
        return false;
    if (**at == ':') {
        s->range = true;
        ++*at;
        if (!parse_number(at, &s->has_b, &s->b))
            return false;
        if (**at == ':') {
            ++*at;
            if (!parse_number(at, &s->has_step, &s->step) || s->step == 0)
                return false;
        }
    }
    return (s->range || s->has_a) && (**at == ',' || **at == '\0');
}

/* First element, step and count of a slice of n things; count -1 if n is -1 (unknown) and it goes to the
 * end. `clip`: a range is cut to what there is, as in Python. */
static int resolve(const struct slice *s, int64_t n, bool clip, const char *option, const char *text, const char *what,
                   const char *name, int64_t *first, int64_t *count, struct vp_err *err)
{
    const bool back = s->step < 0;
    int64_t a = s->a, b = s->b;

    if (n < 0) {
        if ((s->has_a && a < 0) || (s->has_b && b < 0) || (back && !s->has_a)) {
            vp_fail(err, VP_EUSAGE, "%s '%s': %s does not say how many %s it has", option, text, name, what);
            return vp_hint(err, "use --spool, or count from the start");
        }
    } else {
        a += s->has_a && a < 0 ? n : 0;
        b += s->has_b && b < 0 ? n : 0;
        if (clip && s->range) {
            const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
            a = a < low ? low : a > high ? high : a;
            b = b < low ? low : b > high ? high : b;
        } else if ((s->has_a && (a < 0 || a >= n)) || (s->has_b && (b < 0 || b > n)))
            return vp_fail(err, VP_EUSAGE, "%s '%s': %s has %lld %s, 0 to %lld", option, text, name,
                           (long long)n, what, (long long)n - 1);
    }
    if (!s->range) {
        *first = a;
        *count = 1;
        return 0;
    }
    if (!s->has_a)
        a = back ? n - 1 : 0;
    if (!s->has_b)
        b = back ? -1 : n;
    *first = a;
    if (!s->has_b && !back && n < 0) {
        *count = -1;
        return 0;
    }
    if (back ? b >= a : b <= a)
        return vp_fail(err, VP_EUSAGE, "%s '%s': selects no %s", option, text, what);
    /* unsigned, so that no step overflows */
    const uint64_t way = back ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    const uint64_t stride = back ? -(uint64_t)s->step : (uint64_t)s->step;
    *count = (int64_t)((way - 1) / stride) + 1;
    return 0;
}

static int parse_pages(struct vp_select *s, const char *text, const char *name, struct vp_err *err)
{
    const char *at = text;
    size_t room = 1;

    for (const char *c = text; *c; c++)
        room += *c == ',';
    s->span = vp_alloc(room, sizeof *s->span, "list of pages", err);
    if (!s->span)
        return -1;
    for (;;) {
        struct slice slice;
        struct vp_span *span = &s->span[s->n_spans];
        if (!parse_slice(&at, &slice))
            return vp_fail(err, VP_EUSAGE,
                           "--pages: expected numbers and ranges like 0,5,10:20,::2, got '%s'", text);
        span->step = slice.step;
        if (resolve(&slice, s->in_pages, true, "--pages", text, "pages", name, &span->first, &span->count, err) < 0)
            return -1;
        if (span->count == 1)
            span->step = 1;
        s->n_spans++;
        if (*at == '\0')
            return 0;
        at++;
    }
}

static int parse_region(struct vp_select *s, const char *text, const char *name, struct vp_err *err)
{
    struct slice x, y;
    const char *at = text;
    int64_t nx, ny;

    const bool good = parse_slice(&at, &x) && *at++ == ',' && parse_slice(&at, &y) && *at == '\0';
    if (!good || !x.range || !y.range || x.has_step || y.has_step)
        return vp_fail(err, VP_EUSAGE, "--region: expected X0:X1,Y0:Y1, got '%s'", text);
    if (resolve(&x, s->nx, false, "--region", text, "columns", name, &s->x0, &nx, err) < 0
        || resolve(&y, s->ny, false, "--region", text, "rows", name, &s->y0, &ny, err) < 0)
        return -1;
    s->x1 = s->x0 + nx;
    s->y1 = s->y0 + ny;
    return 0;
}

/* ---- geometry in the metadata ---- */

enum layout { NO_GEOMETRY, VIEWS, SINOGRAMS, MISFIT };

/* The geometry of a stack and how its pages lie in it; -1 malformed. */
static int geometry_of(const struct vp_stack *in, struct vp_geom *g, const char *name, struct vp_err *err)
{
    const char *axes = vp_meta_get(&in->meta, "axes");
    const int found = vp_geom_from_meta(g, &in->meta, name, err);

    if (found <= 0)
        return found;
    const bool views = in->nx == g->nu && in->ny == g->nv && (in->pages < 0 || in->pages == g->views);
    const bool sinos = in->nx == g->nu && in->ny == g->views && (in->pages < 0 || in->pages == g->nv);
    if (sinos && (!views || (axes && !strcmp(axes, "u view v"))))
        return SINOGRAMS;
    if (views)
        return VIEWS;
    vp_geom_free(g);
    return MISFIT;
}

static void pick_columns(struct vp_geom *g, int axis, int64_t first, int64_t step, int64_t count)
{
    int64_t *n = axis ? &g->nv : &g->nu;
    double *offset = axis ? &g->offset_v : &g->offset_u, *pitch = axis ? &g->dv : &g->du;
    const double center = (double)(*n - 1) / 2 + *offset;

    if (first == 0 && step == 1 && count == *n)
        return;
    *n = count;
    *offset = (center - (double)first) / (double)step - (double)(count - 1) / 2;
    *pitch *= (double)step;
    for (int64_t v = 0; g->matrix && v < g->views; v++) {
        double *row = g->matrix + v * 12 + axis * 4;
        const double *depth = g->matrix + v * 12 + 8;
        for (int c = 0; c < 4; c++)
            row[c] = (row[c] - (double)first * depth[c]) / (double)step;
    }
}

/* Keep views from[0..n). */
static int pick_views(struct vp_geom *g, const int64_t *from, int64_t n, struct vp_err *err)
{
    double *angle = vp_alloc((size_t)n, sizeof *angle, "angles", err);
    double *matrix = g->matrix && angle ? vp_alloc((size_t)n, 12 * sizeof *matrix, "matrices", err) : NULL;

    if (!angle || (g->matrix && !matrix)) {
        free(angle);
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        if (g->angle)
            angle[i] = g->angle[from[i]];
        if (matrix)
            memcpy(matrix + 12 * i, g->matrix + 12 * from[i], 12 * sizeof *matrix);
    }
    if (g->angle) {
        free(g->angle);
        g->angle = angle;
    } else {
        free(angle);
    }
    free(g->matrix);
    g->matrix = matrix;
    g->views = n;
    return 0;
}

static int select_geometry(const struct vp_select *s, enum layout layout, struct vp_geom *g,
                           struct vp_meta *meta, char *note, size_t size, struct vp_err *err)
{
    const bool views = layout == VIEWS, one_span = s->n_spans == 1 && s->span[0].step > 0;
    int64_t *from = NULL;
    int rc = -1;

    vp_meta_remove_prefix(meta, "geom.");
    if (layout == MISFIT || s->pages < 0 || (!views && !one_span)) {
        snprintf(note, size, "the scan geometry is left out: %s",
                 layout == MISFIT ? "it is not that of these pages"
                 : s->pages < 0 ? "the number of pages is not known" : "detector rows are not evenly spaced");
        return 0;
    }
    const int64_t n = views ? s->pages : s->y1 - s->y0;
    from = vp_alloc((size_t)n, sizeof *from, "list of views", err);
    if (!from)
        return -1;
    for (int64_t i = 0; i < n; i++)
        from[i] = views ? vp_select_page(s, i) : s->y0 + i;
    pick_columns(g, 0, s->x0, 1, s->x1 - s->x0);
    if (views)
        pick_columns(g, 1, s->y0, 1, s->y1 - s->y0);
    else
        pick_columns(g, 1, s->span[0].first, s->span[0].step, s->span[0].count);
    if (n != g->views || s->n_spans != 1 || from[0] != 0 || s->span[0].step != 1)
        if (pick_views(g, from, n, err) < 0)
            goto out;
    rc = vp_geom_to_meta(g, meta, err);
out:
    free(from);
    return rc;
}

/* ---- selection ---- */

static void reverse(struct vp_select *s)
{
    for (int i = 0, j = s->n_spans - 1; i < j; i++, j--) {
        const struct vp_span t = s->span[i];
        s->span[i] = s->span[j];
        s->span[j] = t;
    }
    for (int i = 0; i < s->n_spans; i++) {
        struct vp_span *p = &s->span[i];
        p->first += (p->count - 1) * p->step;
        p->step = p->count == 1 ? 1 : -p->step;
    }
}

int vp_select_make(struct vp_select *s, const struct vp_select_params *p, const struct vp_stack *in,
                   const char *name, bool seekable, struct vp_err *err)
{
    struct vp_geom g = {0};

    *s = (struct vp_select){.nx = in->nx, .ny = in->ny, .in_pages = in->pages, .x1 = in->nx, .y1 = in->ny};
    if (s->in_pages < 0 && (p->pages || p->reverse)) {
        const int layout = geometry_of(in, &g, name, err);
        if (layout < 0)
            return -1;
        if (layout == VIEWS || layout == SINOGRAMS)
            s->in_pages = layout == VIEWS ? g.views : g.nv;
        vp_geom_free(&g);
    }
    if (parse_pages(s, p->pages ? p->pages : ":", name, err) < 0
        || (p->region && parse_region(s, p->region, name, err) < 0))
        goto fail;
    if (p->reverse && s->span[s->n_spans - 1].count < 0) {
        vp_fail(err, VP_EUSAGE, "--reverse: %s does not say how many pages it has", name);
        goto spool;
    }
    if (p->reverse)
        reverse(s);
    s->increasing = true;
    int64_t after = -1;
    for (int i = 0; i < s->n_spans; i++) {
        struct vp_span *span = &s->span[i];
        span->at = s->pages;
        if (span->count < 0 && i + 1 < s->n_spans) {
            vp_fail(err, VP_EUSAGE, "--pages '%s': %s does not say how many pages it has", p->pages, name);
            goto spool;
        }
        s->increasing = s->increasing && span->step > 0 && span->first > after;
        s->pages = span->count < 0 ? -1 : s->pages + span->count;
        after = span->first + (span->count - 1) * span->step;
    }
    if (!s->increasing && !seekable) {
        vp_fail(err, VP_EUSAGE, "%s: pages out of order cannot be had from a pipe", name);
        goto spool;
    }
    return 0;
spool:
    vp_hint(err, "use --spool");
fail:
    vp_select_free(s);
    return -1;
}

void vp_select_free(struct vp_select *s)
{
    free(s->span);
    s->span = NULL;
}

static bool all_columns(const struct vp_select *s)
{
    return s->x0 == 0 && s->y0 == 0 && s->x1 == s->nx && s->y1 == s->ny;
}

static bool all_pages(const struct vp_select *s)
{
    return s->n_spans == 1 && s->span[0].first == 0 && s->span[0].step == 1
           && (s->span[0].count < 0 || s->span[0].count == s->in_pages);
}

bool vp_select_is_all(const struct vp_select *s)
{
    return all_columns(s) && all_pages(s);
}

int64_t vp_select_page(const struct vp_select *s, int64_t i)
{
    int lo = 0, hi = s->n_spans - 1;

    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (s->span[mid].at <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return s->span[lo].first + (i - s->span[lo].at) * s->span[lo].step;
}

/* ---- metadata ---- */

/* Positions along an axis that are kept: first, first + step, ... */
struct along {
    int64_t first, step, count;
    bool even;
};

/* The page axes of what is selected, if it is a grid: the same positions along one axis wherever one stands on the
 * others, as in every page of one channel. `kept` is filled then. False: it is none, or nobody knows. */
static bool select_grid(const struct vp_select *s, const struct vp_axes *axes, struct along *kept)
{
    int64_t count[VP_AXES_MAX], stride[VP_AXES_MAX], inner = 1, n = 1;

    if (!axes->sized || s->pages < 1)
        return false;
    for (int a = 0; a < axes->n; a++) {
        stride[a] = inner;
        inner *= axes->size[a];
    }
    if (s->in_pages >= 0 && inner != s->in_pages)
        return false;
    /* an axis goes on as long as those behind it stand still */
    for (int a = 0; a < axes->n; a++) {
        const int64_t step = stride[a] * axes->size[a], rest = vp_select_page(s, 0) / step;
        for (count[a] = 1; n * count[a] < s->pages && vp_select_page(s, n * count[a]) / step == rest; count[a]++)
            ;
        n *= count[a];
    }
    if (n != s->pages)
        return false;
    n = 1;
    for (int a = 0; a < axes->n; n *= count[a++]) {
        struct along *k = &kept[a];
        *k = (struct along){.first = vp_select_page(s, 0) / stride[a] % axes->size[a], .step = 1, .count = count[a],
                            .even = true};
        int64_t last = k->first;
        for (int64_t i = 1; i < count[a]; i++) {
            const int64_t at = vp_select_page(s, i * n) / stride[a] % axes->size[a];
            if (i == 1)
                k->step = at - last;
            k->even = k->even && at - last == k->step && k->step != 0;
            last = at;
        }
    }
    for (int64_t i = 0; i < s->pages; i++) {
        int64_t page = 0, span = 1;
        for (int a = 0; a < axes->n; span *= count[a++])
            page += stride[a] * (vp_select_page(s, i / span % count[a] * span) / stride[a] % axes->size[a]);
        if (page != vp_select_page(s, i))
            return false;
    }
    return true;
}

/* axes and sizes. *slices: pages are picked along z, those in *z. */
static int select_axes(const struct vp_select *s, const struct vp_stack *in, struct vp_meta *meta, bool *slices,
                       struct along *z, char *note, size_t size)
{
    struct vp_axes axes;
    struct along kept[VP_AXES_MAX];

    vp_axes_get(in, &axes);
    const int at = vp_axes_z(&axes);
    *slices = !all_pages(s) && (axes.n ? at >= 0 : !vp_meta_get(meta, "axes"));
    if (axes.n < 2) { /* also where it is not known how many pages there are */
        const struct vp_span *span = &s->span[0];
        *z = (struct along){span->first, span->step, span->count, s->n_spans == 1};
        return 0;
    }
    if (all_pages(s))
        return axes.sized ? vp_axes_set(meta, &axes) : 0;
    if (!select_grid(s, &axes, kept)) {
        snprintf(note, size, "the axes of the pages are left out: what is selected is no grid of them");
        *z = (struct along){.even = false};
        return vp_axes_lose(meta);
    }
    for (int a = 0; a < axes.n; a++)
        axes.size[a] = kept[a].count;
    *z = at >= 0 ? kept[at] : (struct along){.step = 1};
    return vp_axes_set(meta, &axes);
}

/* voxel and origin: shifted and, where every n-th slice is kept, stretched. */
static int select_frame(const struct vp_select *s, bool slices, const struct along *z, struct vp_meta *meta,
                        char *note, size_t size)
{
    double voxel[3], origin[3];

    if (!vp_meta_numbers(meta, "voxel", 3, voxel))
        return 0;
    const bool placed = vp_meta_numbers(meta, "origin", 3, origin);
    const double slice = voxel[2];
    if (slices && !z->even) {
        if (!note[0])
            snprintf(note, size, "voxel and origin along z are left out: the slices are not evenly spaced");
        return vp_report_numbers(meta, "voxel", 2, voxel) || vp_meta_set(meta, "origin", NULL) ? -1 : 0;
    }
    if (slices && z->step != 1) {
        voxel[2] *= (double)(z->step > 0 ? z->step : -z->step);
        if (vp_report_numbers(meta, "voxel", 3, voxel))
            return -1;
    }
    if (!placed)
        return 0;
    if (slices && z->step < 0) {
        snprintf(note, size, "the origin is left out: the order of the slices is reversed");
        return vp_meta_set(meta, "origin", NULL);
    }
    origin[0] += (double)s->x0 * voxel[0];
    origin[1] += (double)s->y0 * voxel[1];
    if (slices)
        origin[2] += (double)z->first * slice;
    return vp_report_numbers(meta, "origin", 3, origin);
}

int vp_select_stack(const struct vp_select *s, const struct vp_stack *in, struct vp_stack *out, char *note,
                    size_t n, struct vp_err *err)
{
    struct vp_geom g = {0};
    struct along z = {.even = false};
    bool slices;
    int rc = -1;

    note[0] = '\0';
    if (vp_stack_copy(out, in) < 0)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (vp_select_is_all(s))
        return 0;
    const int layout = geometry_of(in, &g, "metadata", err);
    if (layout < 0)
        goto out;
    out->nx = s->x1 - s->x0;
    out->ny = s->y1 - s->y0;
    out->pages = s->pages;
    if (select_axes(s, in, &out->meta, &slices, &z, note, n) < 0
        || select_frame(s, slices, &z, &out->meta, note, n) < 0) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    if (layout != NO_GEOMETRY && select_geometry(s, (enum layout)layout, &g, &out->meta, note, n, err) < 0)
        goto out;
    rc = 0;
out:
    vp_geom_free(&g);
    if (rc < 0)
        vp_stack_free(out);
    return rc;
}

/* ---- pages ---- */

/* Region of a page; dst may be src or lie before it. */
static void crop(const struct vp_select *s, void *dst, const void *src, size_t sample)
{
    const size_t row = (size_t)(s->x1 - s->x0) * sample, stride = (size_t)s->nx * sample;
    const char *from = (const char *)src + (size_t)s->y0 * stride + (size_t)s->x0 * sample;

    if (dst == (const void *)from && all_columns(s))
        return;
    if (row == stride) {
        memmove(dst, from, row * (size_t)(s->y1 - s->y0));
        return;
    }
    for (int64_t y = s->y0; y < s->y1; y++, from += stride, dst = (char *)dst + row)
        memmove(dst, from, row);
}

static int too_few(const char *name, int64_t wanted, int64_t have, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: page %lld is asked for, but there are only %lld pages", name,
                   (long long)wanted, (long long)have);
}

/* Read a pipe to its end, so that a cut stream is seen and the program before it ends well. */
static int drain(struct vp_reader *r, int64_t *count, struct vp_err *err)
{
    int got;

    while ((got = vp_reader_skip(r, 1, err)) > 0)
        ++*count;
    return got;
}

/* Where selected pages come from. */
struct picker {
    const struct vp_select *s;
    struct vp_reader *reader;
    size_t sample;              /* bytes */
    void *page;                 /* what a region is cut out of; NULL: whole rows are wanted */
    int64_t strip;              /* rows of it, where rows are asked for */
};

/* Page `at` of the input, which lies behind the last one if it is a pipe. 1, 0: it is not there, -1. */
static int read_page(const struct picker *k, int64_t at, void *to, struct vp_err *err)
{
    struct vp_reader *const r = k->reader;
    int got = vp_reader_seekable(r) ? 1 - 2 * (vp_reader_seek(r, at, err) < 0)
                                    : vp_reader_skip(r, at - vp_reader_position(r), err);
    if (got > 0)
        got = vp_reader_next(r, to, err);
    return got;
}

/* Selected pages [i, i + n), their regions to to[]. */
static int64_t read_selected(void *source, int64_t i, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    const struct picker *const k = source;
    const struct vp_select *const s = k->s;
    struct vp_reader *const r = k->reader;
    struct vp_wanted w = {.y0 = s->y0, .y1 = s->y1, .threads = threads};

    for (int64_t done = 0; done < n;) {
        const int64_t at = vp_select_page(s, i + done);
        int64_t m = 1; /* that follow each other */
        if (vp_reader_concurrent(r) && all_columns(s)) {
            while (done + m < n && vp_select_page(s, i + done + m) == at + m)
                m++;
            w.page = at;
            w.n = m;
            if (vp_reader_read(r, &w, to + done, err) < 0)
                return -1;
        } else {
            const int got = read_page(k, at, k->page ? k->page : to[done], err);
            if (got < 0)
                return -1;
            if (got == 0)
                return s->pages < 0 ? done : too_few(vp_reader_name(r), at, vp_reader_position(r), err);
            if (k->page)
                crop(s, to[done], k->page, k->sample);
        }
        done += m;
    }
    return n;
}

/* Rows [y0, y1) of the region of selected page i, through a strip of the page. A pipe gives the others, too: those
 * above the region with its first rows, those below with the last. */
static int read_rows(void *source, int64_t i, int64_t y0, int64_t y1, void *to, int threads, struct vp_err *err)
{
    const struct picker *const k = source;
    const struct vp_select *const s = k->s;
    struct vp_reader *const r = k->reader;
    const bool pipe = !vp_reader_seekable(r);
    const int64_t at = vp_select_page(s, i), first = s->y0 + y0, end = s->y0 + y1;
    const int64_t from = pipe && y0 == 0 ? 0 : first, last = pipe && end == s->y1 ? s->ny : end;
    const size_t row = (size_t)(s->x1 - s->x0) * k->sample, stride = (size_t)s->nx * k->sample;

    if (pipe && y0 == 0 && vp_reader_skip(r, at - vp_reader_position(r), err) < 0)
        return -1;
    for (int64_t y = from, n; y < last; y += n) {
        n = vp_min64(k->strip, last - y);
        const int64_t got = pipe ? vp_reader_lines(r, n, k->page, threads, err)
                                 : n * vp_reader_read(r, &(struct vp_wanted){at, 1, y, y + n, .threads = threads},
                                                      &(void *){k->page}, err);
        if (got < n)
            return got < 0 ? -1 : s->pages < 0 ? 0 : too_few(vp_reader_name(r), at, vp_reader_position(r), err);
        for (int64_t z = vp_max64(y, first); z < vp_min64(y + n, end); z++)
            memcpy((char *)to + (size_t)(z - first) * row,
                   (const char *)k->page + (size_t)(z - y) * stride + (size_t)s->x0 * k->sample, row);
    }
    return 1;
}

/* Rows that such a strip has. */
static int64_t strip_of(const struct vp_stack *s)
{
    enum { STRIP = 1 << 20 };
    return vp_min64(s->ny, STRIP * s->ny / (int64_t)vp_page_bytes(s) + 1);
}

int vp_select_run(const struct vp_select *s, struct vp_pages *p, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(p->reader);
    const bool whole = all_columns(s);
    struct picker k = {.s = s, .reader = p->reader, .sample = vp_type_size(in->type), .strip = strip_of(in)};
    size_t page = (size_t)(s->nx * s->ny) * k.sample;
    int64_t more = 0;
    int rc = -1;

    p->in_bytes = (size_t)((s->x1 - s->x0) * (s->y1 - s->y0)) * k.sample;
    if (!p->work) {
        p->out_bytes = p->in_bytes;
        p->in_place = true;
    }
    const bool rows = vp_pages_by_rows(p);
    if (rows)
        page = (size_t)(s->nx * k.strip) * k.sample;
    const bool cut = !vp_select_is_all(s) && (rows || !whole); /* out of k.page */
    if (!vp_select_is_all(s)) {
        p->read = read_selected;
        p->read_rows = read_rows;
        p->source = &k;
        p->count = s->pages < 0 ? 0 : s->pages;
        p->beside += cut ? page : 0;
    }
    if (vp_pages_fit(p, err) || (cut && !(k.page = vp_alloc_raw(1, page, "page", err))))
        goto out;
    rc = vp_pages_run(p, err);
    /* all of a pipe is checked */
    if (!rc && !all_pages(s) && !vp_reader_seekable(p->reader))
        rc = drain(p->reader, &more, err);
out:
    free(k.page);
    return rc;
}

/* ---- a second stack ---- */

int vp_beside_open(struct vp_beside *b, struct vp_reader *reader, const struct vp_stack *in, bool repeat,
                   struct vp_err *err)
{
    const struct vp_stack *own = vp_reader_stack(reader);
    const char *name = vp_reader_name(reader);

    *b = (struct vp_beside){.reader = reader, .repeat = repeat, .single = repeat && own->pages == 1,
                            .at = -1};
    if (own->nx != in->nx || own->ny != in->ny)
        return vp_fail(err, VP_ERUN, "%s: expected pages of %lld x %lld, got %lld x %lld", name,
                       (long long)in->nx, (long long)in->ny, (long long)own->nx, (long long)own->ny);
    if (own->pages >= 0 && in->pages >= 0 && own->pages != in->pages && !b->single)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", name, (long long)in->pages,
                       (long long)own->pages);
    return 0;
}

uint64_t vp_beside_bytes(const struct vp_beside *b, const struct vp_select *s)
{
    const uint64_t page = vp_page_bytes(vp_reader_stack(b->reader));
    return vp_reader_holds(b->reader, true) + page + (all_columns(s) ? 0 : page);
}

/* Pages are had when the first one is asked for: then it is known that there is room. A region is cut out of a copy,
 * for the page may be asked for again. */
static int beside_pages(struct vp_beside *b, const struct vp_select *s, struct vp_err *err)
{
    const size_t bytes = vp_page_bytes(vp_reader_stack(b->reader));

    if (!b->page && !(b->page = vp_alloc_raw(1, bytes, "page", err)))
        return -1;
    if (!b->part && !all_columns(s) && !(b->part = vp_alloc_raw(1, bytes, "page", err)))
        return -1;
    return 0;
}

int vp_beside_page(struct vp_beside *b, const struct vp_select *s, int64_t i, const void **page,
                   struct vp_err *err)
{
    const enum vp_type type = vp_reader_stack(b->reader)->type;
    const int64_t want = b->single ? 0 : vp_select_page(s, i);

    if (beside_pages(b, s, err))
        return -1;
    *page = b->part ? b->part : b->page;
    if (b->at == want)
        return 0;
    if (want != b->next && vp_reader_seekable(b->reader)) {
        if (vp_reader_seek(b->reader, want, err) < 0)
            return -1;
        b->next = want;
    }
    while (b->next <= want) {
        const int got = vp_reader_next(b->reader, b->page, err);
        if (got < 0)
            return -1;
        if (got == 0 && b->repeat && b->next == 1) {
            b->single = true; /* a pipe that did not say so */
            return 0;
        }
        if (got == 0)
            return too_few(vp_reader_name(b->reader), want, b->next, err);
        b->next++;
    }
    b->at = want;
    if (b->part)
        crop(s, b->part, b->page, vp_type_size(type));
    return 0;
}

int vp_beside_rows(struct vp_beside *b, const struct vp_select *s, int64_t i, int64_t y0, int64_t n, const void **rows,
                   struct vp_err *err)
{
    const struct vp_stack *own = vp_reader_stack(b->reader);
    struct picker k = {.s = s, .reader = b->reader, .sample = vp_type_size(own->type), .strip = strip_of(own)};
    const size_t strip = (size_t)(own->nx * k.strip) * k.sample;

    if (!b->page && !(b->page = vp_alloc_raw(1, strip, "rows", err)))
        return -1;
    if (n > b->rows) {
        free(b->part);
        b->rows = 0;
        if (!(b->part = vp_alloc_raw((size_t)n, (size_t)(s->x1 - s->x0) * k.sample, "rows", err)))
            return -1;
        b->rows = n;
    }
    k.page = b->page;
    *rows = b->part;
    const int got = read_rows(&k, i, y0, y0 + n, b->part, 1, err);
    if (got <= 0)
        return got < 0 ? -1 : too_few(vp_reader_name(b->reader), vp_select_page(s, i), b->next, err);
    b->next = vp_max64(b->next, vp_select_page(s, i) + (s->y0 + y0 + n == s->y1));
    return 0;
}

int vp_beside_finish(struct vp_beside *b, int64_t pages, struct vp_err *err)
{
    if (!vp_reader_seekable(b->reader) && drain(b->reader, &b->next, err) < 0)
        return -1;
    const int64_t have = vp_reader_seekable(b->reader) ? vp_reader_stack(b->reader)->pages : b->next;
    if (pages >= 0 && have != pages && !b->single)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", vp_reader_name(b->reader),
                       (long long)pages, (long long)have);
    return 0;
}

void vp_beside_close(struct vp_beside *b)
{
    free(b->page);
    free(b->part);
    *b = (struct vp_beside){0};
}

int64_t vp_keep_masked(void *samples, enum vp_type type, const void *mask, enum vp_type mask_type, int64_t n)
{
    enum { BLOCK = 4096 };
    const size_t size = vp_type_size(type), mask_size = vp_type_size(mask_type);
    double m[BLOCK];
    int64_t kept = 0;

    for (int64_t start = 0; start < n; start += BLOCK) {
        const int len = (int)(n - start < BLOCK ? n - start : BLOCK);
        vp_convert(m, VP_F64, (const char *)mask + (size_t)start * mask_size, mask_type, len, 1, 0);
        #define KEEP(T) do { T *x = samples; for (int i = 0; i < len; i++) \
            if (m[i] < 0 || m[i] > 0) x[kept++] = x[start + i]; } while (0)
        switch (size) {
        case 1: KEEP(uint8_t); break;
        case 2: KEEP(uint16_t); break;
        case 4: KEEP(uint32_t); break;
        default: KEEP(uint64_t); break;
        }
        #undef KEEP
    }
    return kept;
}
