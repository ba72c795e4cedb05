/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/pyramid.h"
#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/axes.h"
#include "stack/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vp_pyramid {
    enum vp_type type;
    int64_t nx, ny;      /* size of a page */
    int64_t w, h, count; /* size of the level; samples of a bin */
    double *sums;        /* sums of the bins: exact for integers of 32 bits up to bins of 1024 x 1024 */
    double *row;         /* two rows of a page */
    char *level;
};

int vp_pyramid_levels(int64_t nx, int64_t ny)
{
    int levels = 0;
    for (int64_t n = nx > ny ? nx : ny; n > VP_PYRAMID_TILE && (nx >> (levels + 1)) && (ny >> (levels + 1)); n /= 2)
        levels++;
    return levels < VP_PYRAMID_MAX ? levels : VP_PYRAMID_MAX;
}

uint64_t vp_pyramid_holds(const struct vp_stack *s)
{
    const uint64_t quarter = (uint64_t)(s->nx / 2) * (uint64_t)(s->ny / 2);
    return vp_pyramid_levels(s->nx, s->ny) ? quarter * (sizeof(double) + vp_type_size(s->type))
                                                 + 2 * (uint64_t)s->nx * sizeof(double) : 0;
}

int vp_pyramid_open(struct vp_pyramid **out, const struct vp_stack *s, struct vp_err *err)
{
    struct vp_pyramid *p = vp_alloc(1, sizeof *p, "the levels of a page", err);
    if (!p)
        return -1;
    *p = (struct vp_pyramid){.type = s->type, .nx = s->nx, .ny = s->ny};
    const size_t w = (size_t)(s->nx / 2), h = (size_t)(s->ny / 2);
    p->sums = vp_alloc_raw(w * h, sizeof *p->sums, "the levels of a page", err);
    p->row = vp_alloc_raw(2 * (size_t)s->nx, sizeof *p->row, "the levels of a page", err);
    p->level = vp_alloc_raw(w * h, vp_type_size(s->type), "the levels of a page", err);
    if (!p->sums || !p->row || !p->level) {
        vp_pyramid_close(p);
        return -1;
    }
    *out = p;
    return 0;
}

const void *vp_pyramid_next(struct vp_pyramid *p, const void *page, int64_t size[2])
{
    const size_t bytes = vp_type_size(p->type);
    const int64_t w = page ? p->nx : p->w, h = page ? p->ny : p->h, m = w / 2;
    p->count = page ? 4 : 4 * p->count;
    for (int64_t y = 0; y < h / 2; y++) {
        const double *a = p->sums + 2 * y * w, *b = a + w;
        if (page) {
            vp_convert(p->row, VP_F64, (const char *)page + 2 * (size_t)(y * w) * bytes, p->type, 2 * w, 1, 0);
            a = p->row;
            b = a + w;
        }
        double *const to = p->sums + y * m; /* in place: no row is needed once it is overwritten */
        for (int64_t x = 0; x < m; x++)
            to[x] = (a[2 * x] + b[2 * x]) + (a[2 * x + 1] + b[2 * x + 1]);
        vp_convert(p->level + (size_t)(y * m) * bytes, p->type, to, VP_F64, m, 1.0 / (double)p->count, 0);
    }
    size[0] = p->w = m;
    size[1] = p->h = h / 2;
    return p->level;
}

void vp_pyramid_close(struct vp_pyramid *p)
{
    if (!p)
        return;
    free(p->sums);
    free(p->row);
    free(p->level);
    free(p);
}

/* ---- OME-XML ---- */

/* Fills size[] along Z, C and T, and their order in the file as letters. False if the stack has other axes. */
static bool dimensions(const struct vp_stack *s, int64_t size[3], char order[4])
{
    static const char *const names[] = {"z", "channel", "time"};
    struct vp_axes axes;
    int n = 0;
    vp_axes_get(s, &axes);
    size[0] = size[1] = size[2] = 1;
    for (int i = 0; i < axes.n; i++) {
        int k = 0;
        while (k < 3 && strcmp(axes.name[i], names[k]) && !(k == 1 && !strcmp(axes.name[i], "sample")))
            k++;
        if (k == 3 || memchr(order, "ZCT"[k], (size_t)n) || (!axes.sized && axes.n > 1))
            return false;
        size[k] = axes.sized ? axes.size[i] : s->pages;
        order[n++] = "ZCT"[k];
    }
    if (!axes.n)
        size[0] = s->pages;
    for (int k = 0; k < 3; k++)
        if (!memchr(order, "ZCT"[k], (size_t)n))
            order[n++] = "ZCT"[k];
    order[3] = '\0';
    return size[0] * size[1] * size[2] == s->pages;
}

char *vp_pyramid_text(const struct vp_stack *s, struct vp_err *err)
{
    static const char *const types[VP_N_TYPES] = {
        [VP_U8] = "uint8", [VP_U16] = "uint16", [VP_U32] = "uint32", [VP_I8] = "int8", [VP_I16] = "int16",
        [VP_I32] = "int32", [VP_F32] = "float", [VP_F64] = "double",
    };
    const char *const axes = vp_meta_get(&s->meta, "axes");
    int64_t size[3];
    char order[4] = "";
    double mm[3];
    size_t n;
    if (!types[s->type])
        vp_fail(err, VP_EUSAGE, "--pyramid: expected integers of at most 32 bits, or floats, got %s",
                vp_type_name(s->type));
    else if (vp_meta_get(&s->meta, "scale"))
        vp_fail_hint(err, VP_EUSAGE, "img-convert --type f32 undoes it",
                     "--pyramid: the samples have a recorded scale, which OME-TIFF cannot hold");
    else if (s->pages < 0)
        vp_fail(err, VP_EUSAGE, "--pyramid: the number of pages is not known");
    else if (!dimensions(s, size, order))
        vp_fail_hint(err, VP_EUSAGE, "img-convert --set axes=x,y,z says what they are",
                     "--pyramid: OME-TIFF has the axes z, channel and time; expected these, got %s",
                     axes ? axes : "none");
    if (err->code)
        return NULL;
    FILE *const f = vp_text_open();
    if (!f) {
        vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
        return NULL;
    }
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" "
               "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
               "xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 "
               "http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\" Creator=\"voxpipe\"><Image ID=\"Image:0\">"
               "<Pixels ID=\"Pixels:0\" DimensionOrder=\"XY%s\" Type=\"%s\" BigEndian=\"false\" SizeX=\"%lld\" SizeY=\"%lld\" "
               "SizeZ=\"%lld\" SizeC=\"%lld\" SizeT=\"%lld\"", order, types[s->type], (long long)s->nx, (long long)s->ny,
            (long long)size[0], (long long)size[1], (long long)size[2]);
    const bool three = vp_meta_numbers(&s->meta, "voxel", 3, mm);
    if (vp_voxel_mm(&s->meta, mm)) /* checks the unit, and reads two of them */
        for (int i = 0; i < 2 + three; i++)
            fprintf(f, " PhysicalSize%c=\"%.9g\" PhysicalSize%cUnit=\"mm\"", 'X' + i, mm[i], 'X' + i);
    fprintf(f, ">");
    for (int64_t c = 0; c < size[1]; c++)
        fprintf(f, "<Channel ID=\"Channel:0:%lld\" SamplesPerPixel=\"1\"/>", (long long)c);
    fprintf(f, "<TiffData/></Pixels></Image></OME>");
    char *const text = vp_text_close(f, &n);
    if (!text)
        vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    return text;
}
