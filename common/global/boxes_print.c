/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints results of boxes: columns separated by tabs, or JSON. */
#include "global/boxes_internal.h"

#include "base/err.h"
#include "base/text.h"
#include "stack/outfile.h"

#include <math.h>
#include <stdlib.h>

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

int vp_boxes_print_head(struct vp_boxes *b, struct vp_err *err)
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

int vp_boxes_print(struct vp_boxes *b, int64_t image, struct vp_err *err)
{
    if (begin_text(b, err))
        return -1;
    for (int64_t i = 0; i < b->n; i++)
        if (b->box[i].image == VP_EVERY || b->box[i].image == image)
            put_box(b, &b->box[i], &b->sums[image % b->inner * b->n + i], image);
    return write_text(b, err);
}

int vp_boxes_print_end(struct vp_boxes *b, struct vp_err *err)
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
