/* SPDX-License-Identifier: BSD-3-Clause */
/* OME-XML in tag 270: the sizes, the order of the planes and the size of a voxel, out of the first Pixels element. */
#include "base/xml.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const struct vp_xml_tag *t, const char *name, double otherwise)
{
    char buf[64], *end;
    if (!vp_xml_attribute(t, name, buf, sizeof buf))
        return otherwise;
    const double v = strtod(buf, &end);
    return end != buf && !*end && isfinite(v) ? v : otherwise;
}

/* Returns the physical size along an axis in mm; 0 if it is not said. */
static double physical(const struct vp_xml_tag *t, char axis)
{
    char name[32], unit[32];
    snprintf(name, sizeof name, "PhysicalSize%c", axis);
    const double v = number(t, name, 0);
    snprintf(name, sizeof name, "PhysicalSize%cUnit", axis);
    if (!vp_xml_attribute(t, name, unit, sizeof unit))
        strcpy(unit, "um");
    if (!strncmp(unit, "&#", 2)) { /* the character of micro or Angstrom */
        const bool hex = (unit[2] | 0x20) == 'x';
        const unsigned long c = strtoul(unit + 2 + hex, NULL, hex ? 16 : 10);
        strcpy(unit, c == 0xb5 || c == 0x3bc ? "um" : c == 0xc5 || c == 0x212b ? "A" : "");
    }
    return v > 0 ? v * vp_unit_mm(unit) : 0;
}

struct ome {
    char order[8];       /* order of the axes after x and y: "ZCT" */
    double size[3];      /* in this order */
    int pixels;          /* elements seen: images */
    bool sized;          /* size[] is known */
    bool clear;          /* the pages are the planes of one image, in its order */
    bool apart;          /* planes are in several files */
    char file[128];      /* that planes are said to be in */
    double voxel[3];     /* in mm; 0: not said */
};

static double *size_of(struct ome *o, char axis)
{
    const char *at = memchr(o->order, axis, 3);
    return &o->size[at ? at - o->order : 0];
}

/* Reads <Pixels>: order and sizes. */
static void pixels(struct ome *o, const struct vp_xml_tag *t)
{
    char order[16] = "";
    vp_xml_attribute(t, "DimensionOrder", order, sizeof order);
    o->clear = strlen(order) == 5 && !memcmp(order, "XY", 2) && strchr(order, 'Z') && strchr(order, 'C') &&
               strchr(order, 'T');
    strcpy(o->order, o->clear ? order + 2 : "ZCT");
    o->sized = true;
    for (int i = 0; i < 3; i++) {
        char name[] = {'S', 'i', 'z', 'e', o->order[i], '\0'};
        o->size[i] = number(t, name, 0);
        o->sized = o->sized && o->size[i] >= 1 && o->size[i] < 1e9 && o->size[i] == floor(o->size[i]);
    }
    o->clear = o->clear && o->sized;
}

/* Reads <TiffData>: planes that begin at (FirstZ, FirstC, FirstT) lie in directories from IFD on. */
static void tiff_data(struct ome *o, const struct vp_xml_tag *t)
{
    double at = 0, stride = 1;
    for (int i = 0; i < 3; i++) {
        char name[] = {'F', 'i', 'r', 's', 't', o->order[i], '\0'};
        at += stride * number(t, name, 0);
        stride *= o->size[i];
    }
    o->clear = o->clear && at == number(t, "IFD", 0);
}

/* Reads the text; false if it is not OME-XML, or has no Pixels. */
static bool read_text(const char *text, struct ome *o)
{
    const char *at = text + strspn(text, " \t\r\n\xef\xbb\xbf");
    struct vp_xml_tag t;
    bool root = false;

    *o = (struct ome){.clear = false};
    if (*at != '<')
        return false;
    while (vp_xml_next(&at, &t)) {
        if (t.end || !t.stop)
            continue;
        if (!root && !vp_xml_is(&t, "OME"))
            return false;
        root = true;
        if (vp_xml_is(&t, "Pixels") && o->pixels++ == 0) {
            pixels(o, &t);
            for (int i = 0; i < 3; i++)
                o->voxel[i] = physical(&t, "XYZ"[i]);
        } else if (vp_xml_is(&t, "TiffData") && o->pixels == 1) {
            tiff_data(o, &t);
        } else if (vp_xml_is(&t, "Channel") && o->pixels == 1 && o->sized) { /* colours are samples of a page, not pages */
            const double samples = number(&t, "SamplesPerPixel", 1);
            double *const c = size_of(o, 'C');
            if (samples > 1 && *c >= samples)
                *c -= samples - 1;
        } else if (vp_xml_is(&t, "UUID")) {
            char file[sizeof o->file];
            if (vp_xml_attribute(&t, "FileName", file, sizeof file)) {
                o->apart = o->apart || (*o->file && strcmp(o->file, file));
                o->clear = o->clear && !o->apart;
                strcpy(o->file, file);
            }
        }
    }
    return root && o->pixels;
}

int vp_meta_ome(struct vp_meta *m, const char *text)
{
    const char *names[3];
    struct ome o;
    if (!read_text(text, &o))
        return 0;
    for (int i = 0; i < 3; i++)
        names[i] = o.order[i] == 'Z' ? "z" : o.order[i] == 'C' ? "channel" : "time";
    if (o.clear && o.pixels == 1 ? vp_meta_axes(m, names, o.size, 3, 0) : vp_axes_lose(m))
        return -1;
    return o.voxel[0] > 0 && o.voxel[1] > 0 && vp_meta_voxel(m, o.voxel[0], o.voxel[1], o.voxel[2]) ? -1 : 1;
}

int64_t vp_ome_images(const char *text, int64_t samples)
{
    struct ome o;
    if (!read_text(text, &o) || !o.sized || o.apart || o.pixels > 1)
        return 0;
    double n = o.size[0] * o.size[1] * o.size[2];
    if (fmod(*size_of(&o, 'C'), (double)samples) == 0) /* no Channel has said that they are samples of a page */
        n /= (double)samples;
    return n < 1e15 ? (int64_t)n : 0;
}
