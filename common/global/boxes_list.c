/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of boxes. */
#include "global/boxes.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 8 };
static const char SEPARATORS[] = "\t, \r\n";

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

struct list {
    struct vp_boxes *b;
    int64_t room;
    bool begun;                 /* a line that is not empty was read */
};

/* Reads one line: a box, or no box. */
static int take_line(void *ctx, const char *path, int64_t number, char *line, struct vp_err *err)
{
    struct list *const l = ctx;
    struct vp_boxes *const b = l->b;
    const int axes = b->volume ? 3 : 2;
    char *field[MAX_FIELDS + 1];
    int64_t n = fields_of(line, field), at = 0, lo, hi;
    if (n == 0 || field[0][0] == '#')
        return 0;
    bool words = !l->begun; /* "name x0:x1 y0:y1" is, "a 0-5 0-5" is a mistake */
    for (int64_t i = 0; i < n && i <= MAX_FIELDS; i++)
        words = words && (isalpha((unsigned char)*field[i]) || *field[i] & 0x80);
    l->begun = true;
    if (words)
        return 0;
    struct vp_box_wanted *const more = vp_grow(b->box, b->n, &l->room, sizeof *more, "the list of boxes", path, err);
    if (!more)
        return -1;
    b->box = more;
    struct vp_box_wanted *const box = &b->box[b->n];
    *box = (struct vp_box_wanted){.image = VP_EVERY, .hi = {1, 1, 1}};
    const bool named = !(strchr(field[0], ':') && parse_range(field[0], &lo, &hi, false));
    at = named;
    if (n - at != axes && n - at != axes + 1)
        goto wrong;
    for (int a = 0; a < axes; a++) {
        if (!parse_range(field[at + a], &box->lo[a], &box->hi[a], false))
            goto wrong;
        if (box->lo[a] < 0 || box->lo[a] >= box->hi[a] || (box->hi[a] > b->size[a] && b->size[a] < VP_UNKNOWN))
            return vp_fail(err, VP_ERUN, "%s: line %lld: %c %lld:%lld: expected a part of 0:%lld", path,
                           (long long)number, "xyz"[a], (long long)box->lo[a], (long long)box->hi[a],
                           (long long)b->size[a]);
    }
    if (n - at == axes + 1) {
        if (!parse_range(field[at + axes], &box->image, &hi, true) || hi != box->image + 1 || box->image < 0)
            goto wrong;
    }
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    if (!(box->name = strdup(named ? field[0] : text)))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the list of boxes");
    b->n++;
    return 0;
wrong:
    vp_fail(err, VP_ERUN, "%s: line %lld: expected [NAME] X0:X1 Y0:Y1%s [IMAGE]", path, (long long)number,
            b->volume ? " Z0:Z1" : "");
    return b->volume || n - at < 3 || !strchr(field[at + 2], ':') ? -1
                                                                  : vp_hint(err, "with --3d a box has three ranges");
}

/* Orders boxes that end at a row before those that begin there. */
static int by_place(const void *a, const void *b)
{
    const struct vp_box_event *p = a, *q = b;
    return p->at != q->at         ? (p->at > q->at) - (p->at < q->at)
           : p->ends != q->ends ? q->ends - p->ends
                                : (p->box > q->box) - (p->box < q->box);
}

static int make_events(struct vp_boxes *b, struct vp_err *err)
{
    b->event = vp_alloc_raw((size_t)b->n * 2, sizeof *b->event, "the list of boxes", err);
    if (!b->event)
        return -1;
    for (int64_t i = 0; i < b->n; i++) {
        b->event[2 * i] = (struct vp_box_event){b->box[i].lo[1], i, false};
        b->event[2 * i + 1] = (struct vp_box_event){b->box[i].hi[1], i, true};
    }
    vp_sort(b->event, (size_t)b->n * 2, sizeof *b->event, by_place);
    return 0;
}

int vp_boxes_read(struct vp_boxes *b, const char *path, const int64_t size[3], bool volume, struct vp_err *err)
{
    struct list list = {.b = b};
    *b = (struct vp_boxes){.volume = volume, .size = {size[0], size[1], size[2]}};
    if (vp_text_lines(path, take_line, &list, err))
        return -1;
    if (!b->n)
        return vp_fail(err, VP_ERUN, "%s: no box: expected lines of [NAME] X0:X1 Y0:Y1%s [IMAGE]",
                       vp_text_name(path), volume ? " Z0:Z1" : "");
    return make_events(b, err);
}
