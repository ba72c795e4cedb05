/* SPDX-License-Identifier: BSD-3-Clause */
/* OME-XML in tag 270: the sizes, the order of the planes and the size of a voxel, out of the first Pixels element. Not
 * an XML parser: tags and their attributes are looked at in passing, which is all that is wanted here. */
#include "stack/axes.h"
#include "stack/foreign.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tag {
    const char *name, *end; /* of the local name */
    const char *attributes, *stop;
};

/* The next start tag behind *at; false at the end. */
static bool next_tag(const char **at, const char *end, struct tag *t)
{
    for (const char *p; (p = memchr(*at, '<', (size_t)(end - *at)));) {
        static const char comment[] = "<!--";
        if (end - p > 4 && !memcmp(p, comment, 4)) {
            const char *close = memmem(p + 4, (size_t)(end - p - 4), "-->", 3);
            if (!close)
                return false;
            *at = close + 3;
            continue;
        }
        const char *stop = memchr(p, '>', (size_t)(end - p));
        if (!stop)
            return false;
        *at = stop + 1;
        if (p[1] == '/' || p[1] == '?' || p[1] == '!')
            continue;
        t->name = p + 1;
        for (t->end = t->name; t->end < stop && !strchr(" \t\r\n/", *t->end); t->end++)
            if (*t->end == ':') /* <ome:Pixels */
                t->name = t->end + 1;
        t->attributes = t->end;
        t->stop = stop;
        return true;
    }
    return false;
}

static bool is(const struct tag *t, const char *name)
{
    return (size_t)(t->end - t->name) == strlen(name) && !memcmp(t->name, name, strlen(name));
}

/* The value of an attribute into buf, as it is written; false if there is none. */
static bool attribute(const struct tag *t, const char *name, char *buf, size_t size)
{
    const size_t n = strlen(name);
    for (const char *p = t->attributes; p < t->stop;) {
        const char *eq = memchr(p, '=', (size_t)(t->stop - p));
        const char *open = eq ? eq + 1 : t->stop;
        while (open < t->stop && strchr(" \t\r\n", *open))
            open++;
        if (open == t->stop || (*open != '"' && *open != '\''))
            return false;
        const char *close = memchr(open + 1, *open, (size_t)(t->stop - open - 1));
        if (!close)
            return false;
        while (p < eq && strchr(" \t\r\n", *p))
            p++;
        const char *stop = eq;
        while (stop > p && strchr(" \t\r\n", stop[-1]))
            stop--;
        if ((size_t)(stop - p) == n && !memcmp(p, name, n)) {
            snprintf(buf, size, "%.*s", (int)((size_t)(close - open) < size ? (size_t)(close - open) - 1 : size - 1),
                     open + 1);
            return true;
        }
        p = close + 1;
    }
    return false;
}

static double number(const struct tag *t, const char *name, double otherwise)
{
    char buf[64], *end;
    if (!attribute(t, name, buf, sizeof buf))
        return otherwise;
    const double v = strtod(buf, &end);
    return end != buf && !*end && isfinite(v) ? v : otherwise;
}

/* Physical size along an axis in mm; 0 if it is not said. */
static double physical(const struct tag *t, char axis)
{
    char name[32], unit[32];
    snprintf(name, sizeof name, "PhysicalSize%c", axis);
    const double v = number(t, name, 0);
    snprintf(name, sizeof name, "PhysicalSize%cUnit", axis);
    if (!attribute(t, name, unit, sizeof unit))
        strcpy(unit, "um");
    if (!strncasecmp(unit, "&#181;", 6) || !strncasecmp(unit, "&#xb5;", 6) || !strncasecmp(unit, "&#956;", 6) ||
        !strncasecmp(unit, "&#x3bc;", 7))
        strcpy(unit, "um");
    return v > 0 ? v * vp_unit_mm(unit) : 0;
}

struct ome {
    char order[8];       /* of the axes behind x and y: "ZCT" */
    double size[3];      /* in this order */
    int pixels;          /* elements seen: images */
    bool clear;          /* the pages are the planes of one image, in its order */
    char file[128];      /* that planes are said to be in */
};

static double *size_of(struct ome *o, char axis)
{
    const char *at = memchr(o->order, axis, 3);
    return &o->size[at ? at - o->order : 0];
}

/* <Pixels>: order and sizes. */
static void pixels(struct ome *o, const struct tag *t)
{
    char order[16] = "";
    attribute(t, "DimensionOrder", order, sizeof order);
    o->clear = strlen(order) == 5 && !memcmp(order, "XY", 2) && strchr(order, 'Z') && strchr(order, 'C') &&
               strchr(order, 'T');
    strcpy(o->order, o->clear ? order + 2 : "ZCT");
    for (int i = 0; i < 3; i++) {
        char name[] = {'S', 'i', 'z', 'e', o->order[i], '\0'};
        o->size[i] = number(t, name, 0);
        o->clear = o->clear && o->size[i] >= 1 && o->size[i] < 1e9 && o->size[i] == floor(o->size[i]);
    }
}

/* <TiffData>: planes that begin at (FirstZ, FirstC, FirstT) lie in directories from IFD on. */
static void tiff_data(struct ome *o, const struct tag *t)
{
    double at = 0, stride = 1;
    for (int i = 0; i < 3; i++) {
        char name[] = {'F', 'i', 'r', 's', 't', o->order[i], '\0'};
        at += stride * number(t, name, 0);
        stride *= o->size[i];
    }
    o->clear = o->clear && at == number(t, "IFD", 0);
}

int vp_meta_ome(struct vp_meta *m, const char *text, size_t len)
{
    static const char *const names[] = {"z", "channel", "time"};
    const char *at = text, *end = text + len;
    struct ome o = {.clear = false};
    struct tag t;
    bool root = false;
    double x = 0, y = 0, z = 0;

    while (at < end && strchr(" \t\r\n\xef\xbb\xbf", *at))
        at++;
    if (at == end || *at != '<')
        return 0;
    while (next_tag(&at, end, &t)) {
        if (!root && !is(&t, "OME"))
            return 0;
        root = true;
        if (is(&t, "Pixels") && o.pixels++ == 0) {
            pixels(&o, &t);
            x = physical(&t, 'X');
            y = physical(&t, 'Y');
            z = physical(&t, 'Z');
        } else if (is(&t, "TiffData") && o.pixels == 1) {
            tiff_data(&o, &t);
        } else if (is(&t, "Channel") && o.pixels == 1 && o.clear) { /* colours are samples of a page, not pages */
            const double samples = number(&t, "SamplesPerPixel", 1);
            double *const c = size_of(&o, 'C');
            if (samples > 1 && *c >= samples)
                *c -= samples - 1;
        } else if (is(&t, "UUID")) {
            char file[sizeof o.file];
            if (attribute(&t, "FileName", file, sizeof file)) {
                o.clear = o.clear && (!*o.file || !strcmp(o.file, file));
                strcpy(o.file, file);
            }
        }
    }
    if (!root || !o.pixels)
        return 0;
    struct vp_axes a = {.sized = true};
    for (int i = 0; i < 3 && o.clear; i++)
        if (o.size[i] > 1) {
            strcpy(a.name[a.n], names[o.order[i] == 'Z' ? 0 : o.order[i] == 'C' ? 1 : 2]);
            a.size[a.n++] = (int64_t)o.size[i];
        }
    if (o.clear && o.pixels == 1 ? vp_axes_set(m, &a) : vp_axes_lose(m))
        return -1;
    /* of one axis to be compared with the pages, when these are counted */
    if (o.clear && o.pixels == 1 && a.n == 1 && vp_meta_setf(m, "sizes", "%lld", (long long)a.size[0]))
        return -1;
    return x > 0 && y > 0 && vp_meta_voxel(m, x, y, z) ? -1 : 1;
}
