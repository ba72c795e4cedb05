/* SPDX-License-Identifier: BSD-3-Clause */
#include "image/boxes.h"

#include "base/err.h"
#include "base/places.h"
#include "base/plain.h"
#include "base/size.h"
#include "base/text.h"
#include "image/report.h"
#include "stack/outfile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 8 };
static const char SEPARATORS[] = "\t, \r\n";

/* ---- the list ---- */

/* "3:7", or "3" where `alone`: 3:4. */
static bool parse_range(const char *text, int64_t *lo, int64_t *hi, bool alone)
{
    char *end;
    errno = 0;
    *lo = strtoll(text, &end, 10);
    if (end == text || errno || *lo == INT64_MAX)
        return false;
    *hi = *lo + 1;
    if (!*end)
        return alone;
    if (*end != ':')
        return false;
    const char *second = end + 1;
    *hi = strtoll(second, &end, 10);
    return end != second && !*end && !errno;
}

static int64_t fields_of(char *line, char *field[MAX_FIELDS + 1])
{
    int n = 0;
    char *rest = line;
    for (char *f; n <= MAX_FIELDS && (f = strtok_r(rest, SEPARATORS, &rest));)
        field[n++] = f;
    return n;
}

/* One line. 1: a box; 0: nothing; -1. */
static int parse_line(struct vp_box_wanted *box, char *line, int64_t number, bool volume, bool first, const int64_t size[3],
                      const char *path, struct vp_err *err)
{
    const int axes = volume ? 3 : 2;
    char *field[MAX_FIELDS + 1];
    int64_t n = fields_of(line, field), at = 0, lo, hi;
    if (n == 0 || field[0][0] == '#')
        return 0;
    bool words = first;
    for (int64_t i = 0; i < n && i <= MAX_FIELDS; i++)
        words = words && !strchr(field[i], ':');
    if (words && !parse_range(field[0], &lo, &hi, true))
        return 0;
    *box = (struct vp_box_wanted){.image = VP_EVERY, .hi = {1, 1, 1}};
    const bool named = !(strchr(field[0], ':') && parse_range(field[0], &lo, &hi, false));
    at = named;
    if (n - at != axes && n - at != axes + 1)
        goto wrong;
    for (int a = 0; a < axes; a++) {
        if (!parse_range(field[at + a], &box->lo[a], &box->hi[a], false))
            goto wrong;
        if (box->lo[a] < 0 || box->lo[a] >= box->hi[a] || (box->hi[a] > size[a] && size[a] < VP_UNKNOWN))
            return vp_fail(err, VP_ERUN, "%s: line %lld: %c %lld:%lld: expected a part of 0:%lld", path, (long long)number,
                           "xyz"[a], (long long)box->lo[a], (long long)box->hi[a], (long long)size[a]);
    }
    if (n - at == axes + 1) {
        if (!parse_range(field[at + axes], &box->image, &hi, true) || hi != box->image + 1 || box->image < 0)
            goto wrong;
    }
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    if (!(box->name = strdup(named ? field[0] : text)))
        return vp_fail(err, VP_ERESOURCE, "not enough memory for the list of boxes");
    return 1;
wrong:
    vp_fail(err, VP_ERUN, "%s: line %lld: expected [NAME] X0:X1 Y0:Y1%s [IMAGE]", path, (long long)number,
            volume ? " Z0:Z1" : "");
    return !volume && n - at > 2 && strchr(field[at + 2], ':') ? vp_hint(err, "with --3d a box has three ranges") : -1;
}

static int by_place(const void *a, const void *b)
{
    const struct vp_box_event *p = a, *q = b;
    if (p->at != q->at)
        return (p->at > q->at) - (p->at < q->at);
    return (p->box > q->box) - (p->box < q->box);
}

static int make_events(struct vp_boxes *b, struct vp_err *err)
{
    const int axis = b->volume ? 2 : 1;
    b->event = vp_alloc_raw((size_t)b->n * 2, sizeof *b->event, "the list of boxes", err);
    if (!b->event)
        return -1;
    for (int64_t i = 0; i < b->n; i++) {
        b->event[2 * i] = (struct vp_box_event){b->box[i].lo[axis], i, false};
        b->event[2 * i + 1] = (struct vp_box_event){b->box[i].hi[axis], i, true};
    }
    qsort(b->event, (size_t)b->n * 2, sizeof *b->event, by_place);
    return 0;
}

int vp_boxes_read(struct vp_boxes *b, const char *path, const int64_t size[3], bool volume, struct vp_err *err)
{
    *b = (struct vp_boxes){.volume = volume, .size = {size[0], size[1], size[2]}};
    FILE *f = vp_fopen(path, "re");
    if (!f)
        return vp_fail_errno(err, "%s", path);
    char *line = NULL;
    size_t room = 0;
    int64_t boxes = 0;
    int rc = 0;
    bool first = true;
    for (int64_t number = 1; rc >= 0 && getline(&line, &room, f) >= 0; number++) {
        if (b->n == boxes) {
            boxes = boxes ? 2 * boxes : 64;
            struct vp_box_wanted *more = realloc(b->box, (size_t)boxes * sizeof *more);
            if (!more) {
                rc = vp_fail(err, VP_ERESOURCE, "not enough memory for the list of boxes");
                break;
            }
            b->box = more;
        }
        const bool blank = strspn(line, SEPARATORS) == strlen(line) || *line == '#';
        rc = parse_line(&b->box[b->n], line, number, volume, first, size, path, err);
        first = first && blank;
        b->n += rc > 0;
    }
    if (rc >= 0 && ferror(f))
        rc = vp_fail_errno(err, "%s", path);
    free(line);
    fclose(f);
    if (rc >= 0 && !b->n)
        rc = vp_fail(err, VP_ERUN, "%s: no box: expected lines of [NAME] X0:X1 Y0:Y1%s [IMAGE]", path,
                     volume ? " Z0:Z1" : "");
    return rc < 0 || make_events(b, err) ? -1 : 0;
}

void vp_boxes_free(struct vp_boxes *b)
{
    for (int64_t i = 0; i < b->n; i++)
        free(b->box[i].name);
    free(b->box);
    free(b->event);
    free(b->next);
    free(b->sums);
    vp_outfile_abort(b->out);
    *b = (struct vp_boxes){0};
}

/* ---- results ---- */

enum vp_type vp_boxes_table(enum vp_type in)
{
    return vp_type_size(in) > 2 ? VP_F64 : in == VP_I8 || in == VP_I16 ? VP_I64 : VP_U64;
}

static int put_text(struct vp_boxes *b, FILE *text, struct vp_err *err)
{
    size_t n = 0;
    char *all = vp_text_close(text, &n);
    const int rc = all ? vp_outfile_write(b->out, all, n, err) : vp_fail(err, VP_ERESOURCE, "not enough memory");
    free(all);
    return rc;
}

int vp_boxes_begin(struct vp_boxes *b, enum vp_type in, int64_t inner, int64_t images, struct vp_err *err)
{
    b->floats = vp_boxes_table(in) == VP_F64;
    b->signs = in == VP_I8 || in == VP_I16;
    b->inner = inner;
    b->next = calloc((size_t)inner * 2, sizeof *b->next);
    b->sums = vp_alloc((size_t)(inner * b->n), sizeof *b->sums, "the sums of the boxes", err);
    if (!b->next)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    if (!b->sums)
        return -1;
    for (int64_t i = 0; i < b->n; i++)
        if (images < VP_UNKNOWN && b->box[i].image >= images)
            return vp_fail(err, VP_ERUN, "box %s: image %lld: expected 0 to %lld", b->box[i].name,
                           (long long)b->box[i].image, (long long)images - 1);
    FILE *text = vp_text_open();
    if (!text)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    fputs(b->json ? "[" : b->volume ? "name\timage\tx\ty\tz\tcount\tsum\tmean\tstd\n"
                                    : "name\timage\tx\ty\tcount\tsum\tmean\tstd\n", text);
    return put_text(b, text, err);
}

/* Sum, mean and standard deviation as they are printed. */
static void numbers_of(const struct vp_boxes *b, const struct vp_box_sums *w, double count, char sum[40], double *mean,
                       double *std)
{
    if (b->floats) {
        double s, q;
        memcpy(&s, &w->of[0], sizeof s);
        memcpy(&q, &w->of[1], sizeof q);
        *mean = s / count;
        *std = sqrt(fmax(0, q / count - *mean * *mean));
        vp_format_number(sum, s);
        return;
    }
    /* exact: n sum(v^2) - sum(v)^2 has less than 128 bits */
    const __int128 s = b->signs ? (__int128)(int64_t)w->of[0] : (__int128)w->of[0];
    const __int128 spread = (__int128)(uint64_t)count * (__int128)w->of[1] - s * s;
    *mean = (double)s / count;
    *std = sqrt((double)spread) / count;
    if (b->signs)
        snprintf(sum, 40, "%lld", (long long)w->of[0]);
    else
        snprintf(sum, 40, "%llu", (unsigned long long)w->of[0]);
}

static void print_box(struct vp_boxes *b, const struct vp_box_wanted *w, const struct vp_box_sums *sums, int64_t image,
                      FILE *text)
{
    double count = 1, mean, std;
    char sum[40], number[40];
    for (int a = 0; a < 3; a++)
        count *= (double)(w->hi[a] - w->lo[a]);
    numbers_of(b, sums, count, sum, &mean, &std);
    if (b->json) {
        fputs(b->written ? ",\n {\"name\": " : "\n {\"name\": ", text);
        vp_json_string(text, w->name);
        fprintf(text, ", \"image\": %lld", (long long)image);
        for (int a = 0; a < (b->volume ? 3 : 2); a++)
            fprintf(text, ", \"%c\": [%lld, %lld]", "xyz"[a], (long long)w->lo[a], (long long)w->hi[a]);
        fprintf(text, ", \"count\": %.0f, \"sum\": ", count);
        if (b->floats)
            vp_json_number(text, strtod(sum, NULL));
        else
            fputs(sum, text);
        fputs(", \"mean\": ", text);
        vp_json_number(text, mean);
        fputs(", \"std\": ", text);
        vp_json_number(text, std);
        fputs("}", text);
        return;
    }
    vp_put_plain(text, w->name);
    fprintf(text, "\t%lld", (long long)image);
    for (int a = 0; a < (b->volume ? 3 : 2); a++)
        fprintf(text, "\t%lld:%lld", (long long)w->lo[a], (long long)w->hi[a]);
    fprintf(text, "\t%.0f\t%s", count, sum);
    fprintf(text, "\t%s", vp_format_number(number, mean));
    fprintf(text, "\t%s\n", vp_format_number(number, std));
}

/* An image has gone by. */
static int print_image(struct vp_boxes *b, int64_t image, struct vp_err *err)
{
    FILE *text = vp_text_open();
    if (!text)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    for (int64_t i = 0; i < b->n; i++)
        if (b->box[i].image == VP_EVERY || b->box[i].image == image) {
            print_box(b, &b->box[i], &b->sums[image % b->inner * b->n + i], image, text);
            b->written++;
        }
    return put_text(b, text, err);
}

/* ---- corners ---- */

/* The entry (x, y) of a plane of the table, or its row. */
static double float_at(const struct vp_boxes *b, const double *t, int64_t x, int64_t y)
{
    return t[y * (b->size[0] + 1) + x];
}

static void take_corners(const struct vp_boxes *b, const struct vp_box_wanted *w, uint64_t *to, const void *samples,
                         bool ends)
{
    const int64_t wide = b->size[0] + 1;
    if (b->floats) {
        double sum, here;
        memcpy(&sum, to, sizeof sum);
        if (b->volume)
            here = (float_at(b, samples, w->hi[0], w->hi[1]) - float_at(b, samples, w->hi[0], w->lo[1]))
                   - (float_at(b, samples, w->lo[0], w->hi[1]) - float_at(b, samples, w->lo[0], w->lo[1]));
        else
            here = ((const double *)samples)[w->hi[0]] - ((const double *)samples)[w->lo[0]];
        sum = ends ? here - sum : here; /* it begins first */
        memcpy(to, &sum, sizeof sum);
        return;
    }
    const uint64_t *t = samples;
    uint64_t here = t[w->hi[0]] - t[w->lo[0]];
    if (b->volume)
        here = (t[w->hi[1] * wide + w->hi[0]] - t[w->lo[1] * wide + w->hi[0]])
               - (t[w->hi[1] * wide + w->lo[0]] - t[w->lo[1] * wide + w->lo[0]]);
    *to = ends ? here - *to : here;
}

static int take_plane(struct vp_boxes *b, int which, int64_t plane, const void *samples, struct vp_err *err)
{
    const int64_t along = b->size[b->volume ? 2 : 1], channel = plane % b->inner, g = plane / b->inner;
    const bool endless = along >= VP_UNKNOWN;
    const int64_t time = endless ? 0 : g / (along + 1), at = endless ? g : g % (along + 1);
    int64_t *next = &b->next[which * b->inner + channel];
    if (at == 0)
        *next = 0;
    for (; *next < 2 * b->n && b->event[*next].at == at; ++*next) {
        const struct vp_box_event *e = &b->event[*next];
        take_corners(b, &b->box[e->box], &b->sums[channel * b->n + e->box].of[which], samples, e->ends);
    }
    return which && at == along ? print_image(b, time * b->inner + channel, err) : 0;
}

int vp_boxes_sums(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    (void)n;
    return take_plane(ctx, 0, page, samples, err);
}

int vp_boxes_squares(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    (void)n;
    return take_plane(ctx, 1, page, samples, err);
}

int vp_boxes_end(struct vp_boxes *b, struct vp_err *err)
{
    for (int64_t c = 0; c < b->inner && b->size[2] >= VP_UNKNOWN; c++) {
        const int64_t next = b->next[b->inner + c];
        if (next < 2 * b->n) {
            const struct vp_box_wanted *w = &b->box[b->event[next].box];
            return vp_fail(err, VP_ERUN, "box %s: z %lld:%lld: the stack has ended before", w->name, (long long)w->lo[2],
                           (long long)w->hi[2]);
        }
        if (print_image(b, c, err))
            return -1;
    }
    if (b->json && vp_outfile_write(b->out, "\n]\n", 3, err))
        return -1;
    const int rc = vp_outfile_close(b->out, err);
    b->out = NULL;
    return rc;
}
