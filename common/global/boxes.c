/* SPDX-License-Identifier: BSD-3-Clause */
/* At the first row of a box the running column sums are subtracted from it, after its last row they are added: no
 * addition rounds, so the difference is the sum over the box. Columns are in strips, one for a thread at a time. A sum
 * that two or three numbers in f64 cannot hold continues in the digits of `rest`, one for all columns between two edges
 * of boxes, one for each strip. */
#include "global/boxes.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"
#include "global/boxes_isa.h"
#include "engine/pages.h"
#include "stack/outfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = VP_BOXES_GROUP, STRIP = 512, ALONE = 1 << 14 /* minimum samples a thread */ };
static const int64_t MANY = INT64_C(1) << 27; /* additions, before digits are carried */

/* ---- results: columns separated by tabs, or JSON ---- */

/* Writes a text value of a box: a member, or a column after the first. */
static void put(struct vp_boxes *b, const char *key, const char *text)
{
    if (b->json)
        vp_json_print(&b->print, key, "%s", text);
    else
        fprintf(b->print.out, "\t%s", text);
}

static void put_integer(struct vp_boxes *b, const char *key, __int128 v)
{
    char digits[44], *at = digits + 43;
    unsigned __int128 left = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
    for (*at = '\0'; left || !*at; left /= 10)
        *--at = (char)('0' + (int)(left % 10));
    if (v < 0)
        *--at = '-';
    put(b, key, at);
}

static void put_number(struct vp_boxes *b, const char *key, double v)
{
    char number[40];
    put(b, key, b->json && !isfinite(v) ? "null" : vp_format_number(number, v));
}

static void put_box(struct vp_boxes *b, const struct vp_box_wanted *w, const struct vp_box_sums *s, int64_t image)
{
    uint64_t count = 1;
    for (int a = 0; a < 3; a++)
        count *= (uint64_t)(w->hi[a] - w->lo[a]);
    const bool odd = s->nan || s->inf[0] || s->inf[1], scaled = b->scale[0] != 0;
    const double gain = scaled ? b->scale[0] : 1;
    struct vp_exact of = s->sum;
    if (scaled)
        vp_exact_less(&of, count, b->scale[1]);
    const double strange = s->nan || (s->inf[0] && s->inf[1]) ? NAN : s->inf[0] ? INFINITY : -INFINITY;
    const double sum = odd ? strange : vp_exact_quotient(&of, 1, gain),
                 mean = odd ? strange : vp_exact_quotient(&of, count, gain);
    const double deviation = odd ? NAN : s->beyond ? INFINITY
                             : vp_exact_deviation(&s->sum, &s->squares, count) / fabs(gain);
    if (b->json) {
        vp_json_open(&b->print, NULL, '{');
        vp_json_string(&b->print, "name", w->name);
    } else {
        vp_put_plain(b->print.out, w->name);
    }
    put_integer(b, "image", image);
    for (int a = 0; a < (b->volume ? 3 : 2); a++) {
        char range[48];
        snprintf(range, sizeof range, b->json ? "[%lld, %lld]" : "%lld:%lld", (long long)w->lo[a], (long long)w->hi[a]);
        put(b, (const char *const[]){"x", "y", "z"}[a], range);
    }
    put_integer(b, "count", count);
    if (vp_type_is_float(b->type) || scaled)
        put_number(b, "sum", sum);
    else
        put_integer(b, "sum", vp_exact_integer(&s->sum));
    put_number(b, "mean", mean);
    put_number(b, "std", deviation);
    if (b->json)
        vp_json_close(&b->print, '}');
    else
        fputc('\n', b->print.out);
}

/* Opens the text that is written next. */
static int begin_text(struct vp_boxes *b, struct vp_err *err)
{
    b->print.out = vp_text_open();
    return b->print.out ? 0 : vp_fail(err, VP_ERESOURCE, "out of memory");
}

static int write_text(struct vp_boxes *b, struct vp_err *err)
{
    size_t n = 0;
    char *all = vp_text_close(b->print.out, &n);
    const int rc = all ? vp_outfile_write(b->out, all, n, err) : vp_fail(err, VP_ERESOURCE, "out of memory");
    free(all);
    return rc;
}

static int print_head(struct vp_boxes *b, struct vp_err *err)
{
    b->print = (struct vp_json){.lines = true};
    if (begin_text(b, err))
        return -1;
    if (b->json)
        vp_json_open(&b->print, NULL, '[');
    else
        fprintf(b->print.out, "name\timage\tx\ty%s\tcount\tsum\tmean\tstd\n", b->volume ? "\tz" : "");
    return write_text(b, err);
}

/* Prints the boxes of a finished image. */
static int print_image(struct vp_boxes *b, int64_t image, struct vp_err *err)
{
    if (begin_text(b, err))
        return -1;
    for (int64_t i = 0; i < b->n; i++)
        if (b->box[i].image == VP_EVERY || b->box[i].image == image)
            put_box(b, &b->box[i], &b->sums[image % b->inner * b->n + i], image);
    return write_text(b, err);
}

static int print_end(struct vp_boxes *b, struct vp_err *err)
{
    if (b->json) {
        if (begin_text(b, err))
            return -1;
        vp_json_close(&b->print, ']');
        fputc('\n', b->print.out);
        if (write_text(b, err))
            return -1;
    }
    const int rc = vp_outfile_close(b->out, err);
    b->out = NULL;
    return rc;
}

/* ---- sums ---- */

static int by_size(const void *a, const void *b)
{
    const int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

/* Collects the columns at which a box or a strip begins or ends, once each. */
static int make_edges(struct vp_boxes *b, struct vp_err *err)
{
    int64_t n = 0;
    b->edge = vp_alloc_raw((size_t)(2 * b->n + b->strips + 1), sizeof *b->edge, "the list of boxes", err);
    if (!b->edge)
        return -1;
    for (int64_t i = 0; i < b->n; i++) {
        b->edge[n++] = b->box[i].lo[0];
        b->edge[n++] = b->box[i].hi[0];
    }
    for (int64_t i = 0; i <= b->strips; i++)
        b->edge[n++] = vp_min64(i * b->strip_columns, b->size[0]);
    vp_sort(b->edge, (size_t)n, sizeof *b->edge, by_size);
    for (int64_t i = 0; i < n; i++)
        if (!i || b->edge[i] != b->edge[i - 1])
            b->edge[b->pieces++] = b->edge[i];
    b->pieces--; /* the last one begins nothing */
    b->rest = vp_alloc((size_t)(b->pieces + b->strips), sizeof *b->rest, "the list of boxes", err);
    return b->rest ? 0 : -1;
}

/* Returns the piece that contains column x. */
static int64_t piece_of(const struct vp_boxes *b, int64_t x)
{
    int64_t lo = 0, hi = b->pieces;
    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        *(b->edge[mid] <= x ? &lo : &hi) = mid;
    }
    return lo;
}

int vp_boxes_begin(struct vp_boxes *b, enum vp_type in, int64_t inner, int64_t images, int threads, struct vp_err *err)
{
    const int64_t groups = vp_div_up(b->size[0], GROUP);
    b->type = in;
    b->inner = inner;
    b->threads = threads;
    b->strip_columns = vp_min64(STRIP, vp_div_up(groups, threads) * GROUP);
    b->strips = vp_div_up(b->size[0], b->strip_columns);
    b->isa = VP_ISA_FIND(vp_boxes, NULL);
    b->sums = vp_alloc((size_t)(inner * b->n), sizeof *b->sums, "the sums of the boxes", err);
    b->columns = vp_alloc((size_t)groups, sizeof *b->columns, "the sums of columns", err);
    b->strip = vp_alloc((size_t)b->strips, sizeof *b->strip, "the list of boxes", err);
    if (!b->sums || !b->columns || !b->strip || make_edges(b, err))
        return -1;
    for (int64_t i = 0; i < b->n; i++)
        if (images < VP_UNKNOWN && b->box[i].image >= images)
            return vp_fail(err, VP_ERUN, "box %s: image %lld: expected 0 to %lld", b->box[i].name,
                           (long long)b->box[i].image, (long long)images - 1);
    return print_head(b, err);
}

/* Rows of a page, in one strip. */
struct piece_of_work {
    struct vp_boxes *b;
    int64_t image, z, x0, x1, y0, y1;
    const char *samples; /* samples of row y0, from column 0 on */
};

static void carry(struct vp_box_sums *s)
{
    vp_exact_carry(&s->sum);
    vp_exact_carry(&s->squares);
    s->carried = s->added;
}

/* Atomic: other threads add, too. */
static void join(struct vp_box_sums *to, struct vp_box_sums *from, int sign)
{
    if (from->carried != from->added)
        carry(from);
    vp_exact_join(&to->sum, &from->sum, sign);
    vp_exact_join(&to->squares, &from->squares, sign);
    if (from->nan || from->inf[0] || from->inf[1] || from->beyond) {
        __atomic_fetch_add(&to->nan, sign * from->nan, __ATOMIC_RELAXED);
        for (int k = 0; k < 2; k++)
            __atomic_fetch_add(&to->inf[k], sign * from->inf[k], __ATOMIC_RELAXED);
        __atomic_fetch_add(&to->beyond, sign * from->beyond, __ATOMIC_RELAXED);
    }
}

static void add_exactly(struct vp_box_sums *s, double x)
{
    vp_exact_add(&s->sum, x);
    if (++s->added % MANY == 0)
        carry(s);
}

/* Adds x y, which may need two numbers; or counts it as beyond f64. */
static void add_product(struct vp_box_sums *s, double x, double y)
{
    const double p = x * y;
    if (isfinite(p)) {
        vp_exact_add(&s->squares, p);
        vp_exact_add(&s->squares, fma(x, y, -p));
    } else {
        s->beyond++;
    }
}

static void add_sample(struct vp_box_sums *s, const void *sample, enum vp_type type)
{
    double x, low = 0;
    vp_convert(&x, VP_F64, sample, type, 1, 1, 0);
    if (type == VP_U64 || type == VP_I64) {
        int64_t v;
        memcpy(&v, sample, sizeof v);
        low = (double)(v & UINT32_MAX);
        x = (type == VP_I64 ? (double)(v >> 32) : (double)((uint64_t)v >> 32)) * 4294967296.0;
    }
    if (!isfinite(x)) {
        ++*(isnan(x) ? &s->nan : &s->inf[x < 0]);
        return;
    }
    add_exactly(s, x);
    add_product(s, x, x);
    if (low != 0) {
        add_exactly(s, low);
        add_product(s, 2 * x, low);
        add_product(s, low, low);
    }
}

/* Adds rows of a group whose numbers cannot hold them: the numbers and the samples go into digits. */
static void add_slowly(const struct piece_of_work *w, int64_t group, const char *samples, int rows)
{
    struct vp_boxes *b = w->b;
    struct vp_box_columns *c = &b->columns[group];
    const size_t size = vp_type_size(b->type);
    for (int64_t x = group * GROUP; x < vp_min64((group + 1) * GROUP, b->size[0]); x++) {
        const int64_t at[2] = {piece_of(b, x), b->pieces + x / b->strip_columns};
        for (int i = 0; i < 2; i++) {
            struct vp_box_sums *rest = b->rest[at[i]] ? b->rest[at[i]] : (b->rest[at[i]] = calloc(1, sizeof *rest));
            if (!rest) {
                __atomic_store_n(&b->failed, true, __ATOMIC_RELAXED);
                return;
            }
            for (int k = 0; k < VP_BOXES_SUM; k++)
                add_exactly(rest, c->sum[k][x % GROUP]);
            for (int k = 0; k < VP_BOXES_SQUARES; k++)
                vp_exact_add(&rest->squares, c->squares[k][x % GROUP]);
            for (int r = 0; r < rows; r++)
                add_sample(rest, samples + (size_t)(r * b->size[0] + x) * size, b->type);
        }
    }
    memset(c, 0, sizeof *c);
}

/* Adds rows of incomplete groups, or of a type that is converted. False: the samples do not fit f64. */
static bool add_group(const struct piece_of_work *w, int64_t group, const char *samples, int rows)
{
    const struct vp_boxes *b = w->b;
    const int64_t x = group * GROUP, n = vp_min64(GROUP, b->size[0] - x);
    const size_t size = vp_type_size(b->type);
    double spare[VP_BOXES_ROWS * GROUP] = {0};
    for (int r = 0; r < rows; r++) {
        const char *from = samples + (size_t)(r * b->size[0] + x) * size;
        vp_convert(spare + r * GROUP, VP_F64, from, b->type, n, 1, 0);
        for (int64_t i = 0; i < n && (b->type == VP_U64 || b->type == VP_I64); i++) {
            uint64_t v;
            memcpy(&v, from + (size_t)i * size, sizeof v);
            if ((b->type == VP_I64 && v >> 63 ? -v : v) > UINT64_C(1) << 53)
                return false;
        }
    }
    return b->isa->rows[VP_F64](spare, GROUP, rows, 0, 1, &w->b->columns[group]) == 1;
}

static void add_rows(const struct piece_of_work *w, int64_t y, int64_t end)
{
    struct vp_boxes *b = w->b;
    const int64_t first = w->x0 / GROUP, last = vp_div_up(w->x1, GROUP);
    const int64_t whole = b->isa->rows[b->type] ? w->x1 / GROUP : 0;
    const size_t row = (size_t)b->size[0] * vp_type_size(b->type);
    for (; y < end; y += VP_BOXES_ROWS) {
        const int rows = (int)vp_min64(VP_BOXES_ROWS, end - y);
        const char *samples = w->samples + (size_t)(y - w->y0) * row;
        for (int64_t g = first; g < last; g++) {
            if (g < whole)
                g = b->isa->rows[b->type](samples, b->size[0], rows, g, whole, b->columns);
            if (g < whole || (g < last && !add_group(w, g, samples, rows)))
                add_slowly(w, g, samples, rows);
        }
    }
}

/* Adds (`sign` 1) or subtracts (-1) the column sums of the part of a box in the strip. */
static void join_columns(const struct piece_of_work *w, const struct vp_box_wanted *box, struct vp_box_sums *to,
                         int sign)
{
    const struct vp_boxes *b = w->b;
    const int64_t x0 = vp_max64(box->lo[0], w->x0), x1 = vp_min64(box->hi[0], w->x1);
    const int64_t stride = sizeof *b->columns / sizeof(double);
    int64_t g0 = vp_div_up(x0, GROUP), g1 = x1 / GROUP;
    struct vp_box_sums all = {.added = 1};
    double folded[2][VP_BOXES_SQUARES][GROUP] = {{{0}}};
    if (g1 - g0 < VP_BOXES_SQUARES)
        g0 = g1 = x1;
    for (int k = 0; k < VP_BOXES_SUM + VP_BOXES_SQUARES; k++) {
        const bool square = k >= VP_BOXES_SUM;
        struct vp_exact *sum = square ? &all.squares : &all.sum;
        const double *column = square ? b->columns->squares[k - VP_BOXES_SUM] : b->columns->sum[k];
        const bool fits = g0 < g1 && b->isa->fold(column + g0 * stride, stride, g1 - g0, folded[square]);
        for (int64_t x = x0; x < x1; x++) {
            if (fits && x == g0 * GROUP)
                x = g1 * GROUP;
            if (x < x1)
                vp_exact_add(sum, column[x / GROUP * stride + x % GROUP]);
        }
    }
    for (int i = 0; i < VP_BOXES_SQUARES * GROUP && g0 < g1; i++) {
        vp_exact_add(&all.sum, folded[0][i / GROUP][i % GROUP]);
        vp_exact_add(&all.squares, folded[1][i / GROUP][i % GROUP]);
    }
    join(to, &all, sign);
    const bool whole = x0 == w->x0 && x1 == w->x1;
    int64_t i = whole ? b->pieces + x0 / b->strip_columns : piece_of(b, x0);
    do
        if (b->rest[i])
            join(to, b->rest[i], sign);
    while (!whole && ++i < b->pieces && b->edge[i] < x1);
}

/* Resets a strip: no box is open. */
static void clear_strip(const struct piece_of_work *w)
{
    struct vp_boxes *b = w->b;
    memset(&b->columns[w->x0 / GROUP], 0, (size_t)vp_div_up(w->x1 - w->x0, GROUP) * sizeof *b->columns);
    struct vp_box_sums **rest = &b->rest[b->pieces + w->x0 / b->strip_columns];
    for (int64_t i = piece_of(b, w->x0); *rest && i < b->pieces && b->edge[i] < w->x1; i++) {
        free(b->rest[i]);
        b->rest[i] = NULL;
    }
    free(*rest);
    *rest = NULL;
}

static bool concerns(const struct piece_of_work *w, const struct vp_box_wanted *box)
{
    return box->lo[0] < w->x1 && box->hi[0] > w->x0 && box->lo[2] <= w->z && w->z < box->hi[2]
           && (box->image == VP_EVERY || box->image == w->image);
}

/* Rows y0 ... of a page: boxes that end or begin at one do so before it is added; below the last row all end. */
static void add_strip(const struct piece_of_work *w, struct vp_box_strip *s)
{
    struct vp_boxes *b = w->b;
    int64_t y = w->y0;
    if (y == 0)
        *s = (struct vp_box_strip){0};
    for (;; s->next++) {
        while (s->next < 2 * b->n && !concerns(w, &b->box[b->event[s->next].box]))
            s->next++;
        const struct vp_box_event *e = s->next < 2 * b->n ? &b->event[s->next] : NULL;
        const int64_t until = e ? vp_min64(e->at, w->y1) : w->y1;
        if (s->open)
            add_rows(w, y, until);
        y = until;
        if (!e || e->at > y || (y == w->y1 && y < b->size[1]))
            return;
        if (!e->ends && !s->open++)
            clear_strip(w);
        else
            join_columns(w, &b->box[e->box], &b->sums[w->image % b->inner * b->n + e->box], e->ends ? 1 : -1);
        s->open -= e->ends;
    }
}

/* Ends a page, and the image if it is its last. */
static int end_page(struct vp_boxes *b, int64_t page, int64_t image, struct vp_err *err)
{
    if (b->failed)
        return vp_fail(err, VP_ERESOURCE, "out of memory: the sums of the boxes");
    for (int64_t i = 0; i < b->inner * b->n && page % 1024 == 1023; i++)
        carry(&b->sums[i]);
    b->planes = page / b->inner + 1;
    return b->size[2] < VP_UNKNOWN && b->planes % b->size[2] == 0 ? print_image(b, image, err) : 0;
}

int vp_boxes_rows(struct vp_boxes *b, int64_t row, int64_t n, const void *samples, struct vp_err *err)
{
    const int64_t high = b->size[1], deep = b->size[2];
    const size_t bytes = (size_t)b->size[0] * vp_type_size(b->type);
    for (int64_t end = row + n, page, m; row < end; row += m, samples = (const char *)samples + (size_t)m * bytes) {
        page = row / high;
        m = vp_min64(end, (page + 1) * high) - row;
        const int64_t plane = page / b->inner, time = deep < VP_UNKNOWN ? plane / deep : 0;
        const struct piece_of_work all = {.b = b, .image = time * b->inner + page % b->inner, .z = plane - time * deep,
                                          .y0 = row % high, .y1 = row % high + m, .samples = samples};
        if (all.y0 == 0 && all.z == 0)
            memset(&b->sums[page % b->inner * b->n], 0, (size_t)b->n * sizeof *b->sums);
        #pragma omp parallel for schedule(dynamic) num_threads(b->threads) if (b->strips > 1 && m * b->size[0] > ALONE)
        for (int64_t i = 0; i < b->strips; i++) {
            struct piece_of_work w = all;
            w.x0 = i * b->strip_columns;
            w.x1 = vp_min64(w.x0 + b->strip_columns, b->size[0]);
            add_strip(&w, &b->strip[i]);
        }
        if (all.y1 == high && end_page(b, page, all.image, err))
            return -1;
    }
    return 0;
}

int vp_boxes_end(struct vp_boxes *b, struct vp_err *err)
{
    const bool endless = b->size[2] >= VP_UNKNOWN;
    const int64_t images = endless ? b->inner : b->planes / b->size[2] * b->inner;
    for (int64_t i = 0; i < b->n; i++) {
        if (endless && b->box[i].hi[2] > b->planes)
            return vp_fail(err, VP_ERUN, "box %s: z %lld:%lld: the stack ends before it", b->box[i].name,
                           (long long)b->box[i].lo[2], (long long)b->box[i].hi[2]);
        if (b->box[i].image >= images)
            return vp_fail(err, VP_ERUN, "box %s: image %lld: the stack ends before it", b->box[i].name,
                           (long long)b->box[i].image);
    }
    for (int64_t c = 0; c < b->inner && endless; c++)
        if (print_image(b, c, err))
            return -1;
    return print_end(b, err);
}

/* ---- a stack ---- */

static int add_batch(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct vp_boxes *b = ctx;
    (void)out;
    return vp_boxes_rows(b, page * b->size[1] + b->pages->row, n * b->pages->rows, in, err) ? -1 : n;
}

void vp_boxes_pages(struct vp_boxes *b, int64_t inner, struct vp_pages *pages)
{
    const struct vp_stack *s = vp_reader_stack(pages->reader);
    b->pages = pages;
    pages->height = s->ny;
    pages->beside = (uint64_t)(inner * b->n) * sizeof *b->sums + (uint64_t)(s->nx + GROUP) * sizeof *b->columns / GROUP;
    pages->work = add_batch;
    pages->ctx = b;
}

void vp_boxes_free(struct vp_boxes *b)
{
    for (int64_t i = 0; i < b->n; i++)
        free(b->box[i].name);
    free(b->box);
    for (int64_t i = 0; b->rest && i < b->pieces + b->strips; i++)
        free(b->rest[i]);
    free(b->rest);
    free(b->edge);
    free(b->strip);
    free(b->columns);
    free(b->event);
    free(b->sums);
    vp_outfile_abort(b->out);
    *b = (struct vp_boxes){0};
}
