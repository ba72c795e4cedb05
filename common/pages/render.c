/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of slices. */
#include "pages/render.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/flatten.h"
#include "pages/statistics.h"
#include "stack/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- pictures ---- */

int vp_picture_new(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err)
{
    *p = (struct vp_picture){.w = w, .h = h};
    if (w < 1 || h < 1 || w > VP_SIDE_MAX || h > VP_SIDE_MAX)
        return vp_fail(err, VP_ERESOURCE, "picture: expected sides of 1 to %d pixels, got %lld x %lld",
                       VP_SIDE_MAX, (long long)w, (long long)h);
    p->v = vp_alloc_raw((size_t)(w * h), sizeof *p->v, "picture", err);
    if (!p->v)
        return -1;
    for (int64_t i = 0; i < w * h; i++)
        p->v[i] = NAN;
    return 0;
}

void vp_picture_free(struct vp_picture *p)
{
    free(p->v);
    *p = (struct vp_picture){0};
}

void vp_picture_put(struct vp_picture *dst, int64_t x, int64_t y, const struct vp_picture *src)
{
    for (int64_t r = 0; r < src->h; r++)
        memcpy(dst->v + (y + r) * dst->w + x, src->v + r * src->w, (size_t)src->w * sizeof *src->v);
}

/* New sample j of m is the weighted mean of old samples first ... last of n; `a` and `b` are the weights
 * of the first and the last, those between have weight 1, and `norm` divides. */
struct render_taps { int64_t first, last; double a, b, norm; };

static struct render_taps taps(int64_t j, int64_t n, int64_t m)
{
    const double ratio = (double)n / (double)m;

    if (m < n) {
        const double lo = (double)j * ratio, hi = (double)(j + 1) * ratio;
        const int64_t first = (int64_t)lo;
        int64_t last = (int64_t)ceil(hi) - 1;
        last = last < n ? last : n - 1;
        return (struct render_taps){first, last, (double)(first + 1) - lo, hi - (double)last, ratio};
    }
    const double at = ((double)j + 0.5) * ratio - 0.5;
    const double in = at < 0 ? 0 : at > (double)(n - 1) ? (double)(n - 1) : at;
    const int64_t first = (int64_t)in;
    const double t = in - (double)first;
    if (t == 0)
        return (struct render_taps){first, first, 1, 1, 1};
    return (struct render_taps){first, first + 1, 1 - t, t, 1};
}

static float tap_sum(const struct render_taps *t, const float *v, int64_t stride)
{
    double s = t->a * v[t->first * stride];

    if (t->first == t->last)
        return (float)(s / t->a);
    for (int64_t i = t->first + 1; i < t->last; i++)
        s += v[i * stride];
    s += t->b * v[t->last * stride];
    return (float)(s / t->norm);
}

int vp_picture_resize(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err)
{
    struct vp_picture wide = {0}, out = {0};

    if (w == p->w && h == p->h)
        return 0;
    if (vp_picture_new(&wide, w, p->h, err) < 0 || vp_picture_new(&out, w, h, err) < 0) {
        vp_picture_free(&wide);
        return -1;
    }
    #pragma omp parallel for schedule(static)
    for (int64_t x = 0; x < w; x++) {
        const struct render_taps t = taps(x, p->w, w);
        for (int64_t y = 0; y < p->h; y++)
            wide.v[y * w + x] = tap_sum(&t, p->v + y * p->w, 1);
    }
    #pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h; y++) {
        const struct render_taps t = taps(y, p->h, h);
        for (int64_t x = 0; x < w; x++)
            out.v[y * w + x] = tap_sum(&t, wide.v + x, w);
    }
    vp_picture_free(&wide);
    vp_picture_free(p);
    *p = out;
    return 0;
}

int vp_picture_pick(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err)
{
    struct vp_picture out = {0};

    if (w == p->w && h == p->h)
        return 0;
    if (vp_picture_new(&out, w, h, err))
        return -1;
    #pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            out.v[y * w + x] = p->v[(2 * y + 1) * p->h / (2 * h) * p->w + (2 * x + 1) * p->w / (2 * w)];
    vp_picture_free(p);
    *p = out;
    return 0;
}

int vp_picture_window(const struct vp_picture *p, int n, double lo_percent, double hi_percent, double *lo,
                      double *hi, struct vp_err *err)
{
    const double percent[2] = {lo_percent, hi_percent};
    struct vp_quantiles *q;

    if (vp_quantiles_open(&q, VP_F32, percent, 2, false, err) < 0)
        return -1;
    do
        for (int i = 0; i < n; i++)
            vp_quantiles_add(q, p[i].v, p[i].w * p[i].h);
    while (vp_quantiles_again(q));
    *lo = vp_quantiles_get(q, 0);
    *hi = vp_quantiles_get(q, 1);
    vp_quantiles_close(q);
    if (isnan(*lo))
        *lo = *hi = 0;
    /* a constant picture is mid gray */
    if (!(*hi > *lo)) {
        const double half = *lo == 0 ? 1 : fabs(*lo);
        *lo -= half;
        *hi += half;
    }
    return 0;
}

void vp_picture_gray(const struct vp_picture *p, double lo, double hi, bool invert, uint8_t *dst, int step)
{
    const double gain = 255 / (hi - lo);

    for (int64_t i = 0; i < p->w * p->h; i++) {
        const double g = floor((p->v[i] - lo) * gain + 0.5);
        const uint8_t u = g >= 255 ? 255 : g > 0 ? (uint8_t)g : 0;
        dst[i * step] = isnan(p->v[i]) ? 0 : invert ? 255 - u : u;
    }
}

/* ---- slices ---- */

static int check_slices(const struct vp_slices *s, const struct vp_reader *r, bool *columns,
                        struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);

    *columns = false;
    for (int i = 0; i < s->n; i++) {
        const struct vp_slice *c = &s->slice[i];
        const int64_t end = c->axis == VP_CUT_Z ? s->pages : c->axis == VP_CUT_Y ? in->ny : in->nx;
        *columns = *columns || c->axis == VP_CUT_X;
        if (!s->project && (c->at < 0 || (end >= 0 && c->at >= end)))
            return vp_fail(err, VP_EUSAGE, "%s: slice %lld is out of range: there are %lld along %c",
                           vp_reader_name(r), (long long)c->at, (long long)end, "zyx"[c->axis]);
        if (s->pages < 0 && c->axis != VP_CUT_Z)
            return vp_fail(err, VP_ERUN, "%s: the number of pages is unknown", vp_reader_name(r));
    }
    return 0;
}

/* Returns the bytes of pictures of w x h; what is too large for a picture is refused elsewhere. */
static uint64_t picture_bytes(double w, double h)
{
    return w * h < 1e18 ? (uint64_t)(w * h) * sizeof(float) : UINT64_MAX / 16;
}

/* Resizes in both directions of vp_picture_resize() at once: what it makes across, and the result. */
static uint64_t resize_bytes(const int64_t from[2], const int64_t to[2])
{
    const bool same = from[0] == to[0] && from[1] == to[1];

    return same ? 0 : picture_bytes((double)to[0], (double)from[1]) + picture_bytes((double)to[0], (double)to[1]);
}

int vp_slices_fit(const struct vp_slices *s, struct vp_reader *r, const int64_t picture[2], const int64_t fitted[2],
                  bool measured, uint64_t memory, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);
    const uint64_t page = picture_bytes((double)in->nx, (double)in->ny);
    const uint64_t gray = picture_bytes((double)fitted[0], (double)fitted[1]) / sizeof(float);
    bool columns = false;
    uint64_t cut = 0, shaped = 0, stretch = 0, need;

    for (int i = 0; i < s->n; i++) {
        const struct vp_slice *c = &s->slice[i];
        columns = columns || c->axis == VP_CUT_X;
        const uint64_t more = resize_bytes((const int64_t[]){c->out.w, c->out.h}, c->shape);
        cut += picture_bytes((double)c->out.w, (double)c->out.h);
        shaped += picture_bytes((double)c->shape[0], (double)c->shape[1]);
        stretch = more > stretch ? more : stretch;
    }
    const uint64_t colours = (uint64_t)s->colours, composed = colours * picture_bytes((double)picture[0], (double)picture[1]);
    const uint64_t whole = s->n > s->colours ? composed : shaped;
    const bool forward = !vp_reader_seekable(r) || columns || s->project;
    /* one after the other: reading, stretching, putting together, measuring, fitting, writing */
    const uint64_t open = s->held + vp_reader_holds(r, false); /* to the end */
    need = cut + (forward ? page : 0) + (s->project ? vp_flatten_bytes(s, in->nx, in->ny) : 0);
    const uint64_t steps[] = {
        (cut > shaped ? cut : shaped) + stretch,
        s->n > s->colours ? shaped + whole : whole,
        whole + (measured ? vp_quantiles_bytes(VP_F32, 2, false) : 0),
        whole + resize_bytes(picture, fitted),
        colours * (sizeof(float) * gray + gray),
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        need = steps[i] > need ? steps[i] : need;
    need += open;
    if (!memory || need <= memory)
        return 0;
    vp_fail(err, VP_ERESOURCE, "the slices need %s, the memory limit is %s", vp_bytes_text(need).text,
            vp_bytes_text(memory).text);
    return vp_hint(err, "allow more with --memory");
}

int vp_slices_count(struct vp_slices *s, struct vp_reader *r, uint64_t memory, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);
    const bool known = in->pages >= 0;
    const int rc = known ? 0 : vp_reader_keep(r, memory ? memory : UINT64_MAX, NULL, err);

    s->pages = in->pages;
    s->held = known || rc ? 0 : (uint64_t)in->pages * vp_page_bytes(in);
    if (rc <= 0)
        return rc;
    vp_fail(err, VP_ERESOURCE, "the slices need more than the memory limit, %s", vp_bytes_text(memory).text);
    return vp_hint(err, "the number of pages of a pipe is unknown: use --slice N along z, or --spool");
}

void vp_slices_free(struct vp_slices *s)
{
    for (int i = 0; s->slice && i < s->n; i++)
        vp_picture_free(&s->slice[i].out);
    free(s->slice);
    *s = (struct vp_slices){0};
}

/* Adds page k of a channel to all cuts; returns how many of them wanted it whole. */
static int64_t place_page(const struct vp_slices *s, int64_t channel, int64_t k, const float *page, int64_t nx,
                          int64_t ny)
{
    int64_t whole = 0;

    for (int i = 0; i < s->n; i++) {
        const struct vp_slice *c = &s->slice[i];
        const struct vp_picture *out = &c->out;
        if (c->channel != channel)
            continue;
        if (c->axis == VP_CUT_Y) {
            memcpy(out->v + k * nx, page + c->at * nx, (size_t)nx * sizeof *page);
        } else if (c->axis == VP_CUT_X) {
            for (int64_t y = 0; y < ny; y++)
                out->v[y * out->w + k] = page[y * nx + c->at];
        } else if (c->at == k) {
            memcpy(out->v, page, (size_t)(nx * ny) * sizeof *page);
            whole++;
        }
    }
    return whole;
}

static int read_forward(const struct vp_slices *s, struct vp_reader *r, struct vp_flatten *flat, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);
    const int64_t block = s->stride * s->count;
    int64_t at = 0, wanted = 0;
    int got;
    float *page = vp_alloc_raw((size_t)(in->nx * in->ny), sizeof *page, "page", err);

    if (!page)
        return -1;
    for (int i = 0; i < s->n && !flat; i++)
        wanted += s->slice[i].axis == VP_CUT_Z;
    for (; (got = vp_reader_next_f32(r, page, err)) > 0; at++) {
        const int64_t channel = at % block / s->stride, k = at / block * s->stride + at % s->stride;
        if (flat)
            vp_flatten_add(flat, channel, k, page);
        else
            wanted -= place_page(s, channel, k, page, in->nx, in->ny);
    }
    free(page);
    if (got < 0)
        return -1;
    if (wanted > 0 || (s->pages >= 0 && at != s->pages * s->count))
        return vp_fail(err, VP_ERUN, "%s: a slice is out of range: there are %lld pages",
                       vp_reader_name(r), (long long)at);
    if (flat)
        vp_flatten_end(flat);
    return 0;
}

static int read_parts(const struct vp_slices *s, struct vp_reader *r, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);

    for (int i = 0; i < s->n; i++) {
        const struct vp_slice *c = &s->slice[i];
        const bool page = c->axis == VP_CUT_Z; /* else a row of every one */
        struct vp_wanted w = {.n = 1, .y0 = page ? 0 : c->at, .y1 = page ? 0 : c->at + 1, .f32 = true};
        for (int64_t k = 0; k < (page ? 1 : s->pages); k++) {
            void *to = c->out.v + k * in->nx;
            const int64_t of_channel = page ? c->at : k;
            w.page = of_channel % s->stride + s->stride * (c->channel + s->count * (of_channel / s->stride));
            if (vp_reader_read(r, &w, &to, err) < 0)
                return -1;
        }
    }
    return 0;
}

int vp_slices_read(struct vp_slices *s, struct vp_reader *r, int64_t *bad, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(r);
    const bool seekable = vp_reader_seekable(r);
    struct vp_flatten *flat = NULL;
    bool columns;

    if (check_slices(s, r, &columns, err) < 0)
        return -1;
    for (int i = 0; i < s->n; i++) {
        struct vp_picture *out = &s->slice[i].out;
        if (vp_picture_new(out, out->w, out->h, err) < 0)
            return -1;
    }
    int rc = s->project ? vp_flatten_open(&flat, s, in->nx, in->ny, err) : 0;
    if (!rc)
        rc = seekable && !columns && !flat ? read_parts(s, r, err) : read_forward(s, r, flat, err);
    vp_flatten_close(flat);
    if (rc)
        return -1;
    for (int i = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->slice[i].out.w * s->slice[i].out.h; k++)
            *bad += !isfinite(s->slice[i].out.v[k]);
    return 0;
}
