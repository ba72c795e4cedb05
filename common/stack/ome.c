/* SPDX-License-Identifier: BSD-3-Clause */
/* OME-XML in tag 270: the sizes, the order of the planes and the size of a voxel, out of the first Pixels element. Not
 * an XML parser: tags and their attributes are looked at in passing, which is all that is wanted here. */
#include "base/size.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

struct tag {
    const char *name, *end; /* of the local name */
    const char *attributes, *stop;
};

/* The next start tag behind *at; false at the end. */
static bool next_tag(const char **at, struct tag *t)
{
    for (const char *p; (p = strchr(*at, '<'));) {
        const bool comment = !strncmp(p, "<!--", 4);
        const char *stop = comment ? strstr(p + 4, "-->") : strchr(p, '>');
        if (!stop)
            return false;
        *at = stop + (comment ? 3 : 1);
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
    const char *close;
    for (const char *p = t->attributes, *eq; (eq = memchr(p, '=', (size_t)(t->stop - p))); p = close + 1) {
        const char *open = eq + 1 + strspn(eq + 1, blanks);
        if (*open != '"' && *open != '\'')
            return false;
        close = memchr(open + 1, *open, (size_t)(t->stop - open - 1));
        if (!close)
            return false;
        p += strspn(p, blanks);
        if (!strncmp(p, name, n) && p + n + strspn(p + n, blanks) == eq) {
            snprintf(buf, size, "%.*s", (int)vp_min64(close - open, (int64_t)size) - 1, open + 1);
            return true;
        }
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

int vp_meta_ome(struct vp_meta *m, const char *text)
{
    const char *at = text + strspn(text, " \t\r\n\xef\xbb\xbf"), *names[3];
    struct ome o = {.clear = false};
    struct tag t;
    bool root = false;
    double x = 0, y = 0, z = 0;

    if (*at != '<')
        return 0;
    while (next_tag(&at, &t)) {
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
    for (int i = 0; i < 3; i++)
        names[i] = o.order[i] == 'Z' ? "z" : o.order[i] == 'C' ? "channel" : "time";
    if (o.clear && o.pixels == 1 ? vp_meta_axes(m, names, o.size, 3, 0) : vp_axes_lose(m))
        return -1;
    return x > 0 && y > 0 && vp_meta_voxel(m, x, y, z) ? -1 : 1;
}
