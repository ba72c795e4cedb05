/* SPDX-License-Identifier: BSD-3-Clause */
/* What is printed of boxes: columns with tabs between them, or JSON. */
#include "global/boxes_internal.h"

#include "base/err.h"
#include "base/plain.h"
#include "base/text.h"
#include "stack/outfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An integer in decimal digits. */
static void put_integer(FILE *text, __int128 v)
{
    char digits[44], *at = digits + 43;
    unsigned __int128 left = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
    for (*at = '\0'; left || !*at; left /= 10)
        *--at = (char)('0' + (int)(left % 10));
    fprintf(text, "%s%s", v < 0 ? "-" : "", at);
}

static void put_number(const struct vp_boxes *b, FILE *text, double v)
{
    char number[40];
    if (b->json)
        vp_json_number(text, v);
    else
        fputs(vp_format_number(number, v), text);
}

/* What comes before a value but the first. */
static void put_key(const struct vp_boxes *b, FILE *text, const char *key)
{
    fprintf(text, b->json ? ", \"%s\": " : "\t", key);
}

static void put_box(const struct vp_boxes *b, const struct vp_box_wanted *w, const struct vp_box_sums *s, int64_t image,
                    FILE *text)
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
        fputs(b->written ? ",\n {\"name\": " : "\n {\"name\": ", text);
        vp_json_string(text, w->name);
    } else {
        vp_put_plain(text, w->name);
    }
    put_key(b, text, "image");
    fprintf(text, "%lld", (long long)image);
    for (int a = 0; a < (b->volume ? 3 : 2); a++) {
        put_key(b, text, (const char *const[]){"x", "y", "z"}[a]);
        fprintf(text, b->json ? "[%lld, %lld]" : "%lld:%lld", (long long)w->lo[a], (long long)w->hi[a]);
    }
    put_key(b, text, "count");
    fprintf(text, "%llu", (unsigned long long)count);
    put_key(b, text, "sum");
    if (vp_type_is_float(b->type) || scaled)
        put_number(b, text, sum);
    else
        put_integer(text, vp_exact_integer(&s->sum));
    put_key(b, text, "mean");
    put_number(b, text, mean);
    put_key(b, text, "std");
    put_number(b, text, deviation);
    fputs(b->json ? "}" : "\n", text);
}

static int write_text(struct vp_boxes *b, FILE *text, struct vp_err *err)
{
    size_t n = 0;
    char *all = text ? vp_text_close(text, &n) : NULL;
    const int rc = all ? vp_outfile_write(b->out, all, n, err) : vp_fail(err, VP_ERESOURCE, "not enough memory");
    free(all);
    return rc;
}

int vp_boxes_print_head(struct vp_boxes *b, struct vp_err *err)
{
    const char *const head = b->json ? "[" : b->volume ? "name\timage\tx\ty\tz\tcount\tsum\tmean\tstd\n"
                                                       : "name\timage\tx\ty\tcount\tsum\tmean\tstd\n";
    return vp_outfile_write(b->out, head, strlen(head), err);
}

int vp_boxes_print(struct vp_boxes *b, int64_t image, struct vp_err *err)
{
    FILE *text = vp_text_open();
    for (int64_t i = 0; text && i < b->n; i++)
        if (b->box[i].image == VP_EVERY || b->box[i].image == image) {
            put_box(b, &b->box[i], &b->sums[image % b->inner * b->n + i], image, text);
            b->written++;
        }
    return write_text(b, text, err);
}

int vp_boxes_print_end(struct vp_boxes *b, struct vp_err *err)
{
    if (b->json && vp_outfile_write(b->out, "\n]\n", 3, err))
        return -1;
    const int rc = vp_outfile_close(b->out, err);
    b->out = NULL;
    return rc;
}
