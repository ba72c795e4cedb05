/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeiss (Xradia) txrm, xrm and txm: an OLE2 file with a stream for each image, a flat field (reference), angles, distances
 * and the shift of each view. Names and meaning of the streams are those that tomopy's and CIL's readers agree on. */
#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/foreign.h"
#include "stack/ole.h"
#include "stack/samples.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FOLDER = 100, U8 = 3, U16 = 5, F32 = 10, CONE = 1 };

struct txrm {
    struct vp_ole *ole;
    int64_t *stream; /* number of the stream of each image */
};

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, 8, err);
    (void)o;
    return n < 0 ? -1 : n == 8 && !memcmp(head, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8);
}

/* Reads n numbers of 4 bytes, integers or floats as they are. False: the stream is not there, or too short. */
static bool words(const struct txrm *t, const char *path, int64_t n, void *to)
{
    uint64_t bytes;
    struct vp_err ignored = VP_ERR_INIT;
    const int64_t at = vp_ole_find(t->ole, path, &bytes);
    return at >= 0 && bytes >= (uint64_t)n * 4 && !vp_ole_read(t->ole, at, 0, to, (size_t)n * 4, &ignored);
}

static bool type_of(int code, enum vp_type *type)
{
    *type = code == U8 ? VP_U8 : code == F32 ? VP_F32 : VP_U16;
    return code == U8 || code == U16 || code == F32;
}

/* Finds the streams of the images. */
static int list_images(struct vp_source *s, struct txrm *t, struct vp_err *err)
{
    const int64_t n = s->stack.pages;
    const uint64_t page = vp_page_bytes(&s->stack);
    if (!page || (uint64_t)n > s->in.size / page)
        return vp_fail(err, VP_ERUN, "%s: expected %lld images of %llu bytes, got a file of %llu bytes", s->name, (long long)n,
                       (unsigned long long)page, (unsigned long long)s->in.size);
    if (!(t->stream = vp_alloc((size_t)n, sizeof *t->stream, "the list of images", err)))
        return -1;
    s->need += (uint64_t)n * sizeof *t->stream;
    for (int64_t i = 0; i < n; i++) {
        char path[64];
        uint64_t bytes = 0;
        snprintf(path, sizeof path, "ImageData%lld/Image%lld", (long long)(i / IN_FOLDER + 1), (long long)(i + 1));
        t->stream[i] = vp_ole_find(t->ole, path, &bytes);
        if (t->stream[i] < 0)
            return vp_fail(err, VP_ERUN, "%s: expected %lld images, got %lld: there is no %s", s->name, (long long)n,
                           (long long)i, path);
        if (bytes != page)
            return vp_fail(err, VP_ERUN, "%s: %s: expected %llu bytes, got %llu", s->name, path, (unsigned long long)page,
                           (unsigned long long)bytes);
    }
    return 0;
}

static int out_of_memory(const struct vp_source *s, struct vp_err *err)
{
    return vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name);
}

/* Adds the angles, and the shifts if there are some: the images are corrected by them, so the views lie on the other
 * side. */
static int add_views(struct vp_source *s, const float *angle, const float *x, const float *y, struct vp_err *err)
{
    struct vp_meta *const m = &s->stack.meta;
    const int64_t n = s->stack.pages;
    bool moved = false;
    int rc = 0;
    for (int64_t i = 0; i < n; i++)
        moved = moved || (x && y && (x[i] != 0 || y[i] != 0));
    for (int64_t i = 0; !rc && i < n; i++) {
        char text[80], number[2][32];
        if (!isfinite(angle[i]) || (moved && (!isfinite(x[i]) || !isfinite(y[i]))))
            return vp_fail(err, VP_ERUN, "%s: angle and shift of view %lld: expected numbers, got %g, %g %g", s->name,
                           (long long)i, (double)angle[i], (double)(moved ? x[i] : 0), (double)(moved ? y[i] : 0));
        rc = vp_meta_add(m, "geom.angles", vp_format_number(number[0], angle[i]));
        if (rc || !moved)
            continue;
        snprintf(text, sizeof text, "%s %s", vp_format_number(number[0], 0 - (double)x[i]),
                 vp_format_number(number[1], 0 - (double)y[i]));
        rc = vp_meta_add(m, "geom.shifts", text);
    }
    return rc ? out_of_memory(s, err) : 0;
}

/* Adds the geometry, if angles, distances and pixel size are there. */
static int read_geometry(struct vp_source *s, const struct txrm *t, float pixel, struct vp_err *err)
{
    const int64_t n = s->stack.pages;
    struct vp_meta *const m = &s->stack.meta;
    float *const v = vp_alloc((size_t)n, 3 * sizeof *v, "the angles", err), source = 0, detector = 0;
    int32_t beam = CONE;
    if (!v)
        return -1;
    const bool angles = words(t, "ImageInfo/Angles", n, v),
               moved = words(t, "Alignment/X-Shifts", n, v + n) && words(t, "Alignment/Y-Shifts", n, v + 2 * n),
               far = words(t, "ImageInfo/StoRADistance", 1, &source) && words(t, "ImageInfo/DtoRADistance", 1, &detector);
    (void)words(t, "ImageInfo/XrayGeometry", 1, &beam);
    const double sod = fabs((double)source), sdd = sod + fabs((double)detector);
    const bool cone = beam == CONE, known = !cone || (far && isfinite(sdd) && sod > 0 && sdd > sod);
    int rc = 0;
    if (angles && pixel > 0 && known) {
        /* the pixel size is that at the axis, in um */
        const double pitch = (double)pixel / 1000 * (cone ? sdd / sod : 1);
        rc = vp_meta_add(m, "geom.beam", cone ? "cone" : "parallel");
        if (!rc && cone)
            rc = vp_meta_setf(m, "geom.sod", "%.9g", sod) || vp_meta_setf(m, "geom.sdd", "%.9g", sdd);
        rc = rc || vp_meta_setf(m, "geom.detector", "%lldx%lld", (long long)s->stack.nx, (long long)s->stack.ny)
                     || vp_meta_setf(m, "geom.pitch", "%.9g", pitch)
                     || vp_meta_voxel(m, pitch, pitch, 0) ? out_of_memory(s, err) : 0;
        rc = rc ? rc : add_views(s, v, moved ? v + n : NULL, moved ? v + 2 * n : NULL, err);
    } else if (n > 1) {
        s->remark = "its geometry is left out: angles, pixel size and the distances of source and detector from the axis are "
                    "not all there";
    }
    free(v);
    return rc;
}

static int open_txrm(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct txrm *const t = s->own = vp_alloc(1, sizeof *t, s->name, err);
    int32_t nx = 0, ny = 0, n = 0, code = 0, mode = 0;
    float pixel = 0;
    uint64_t bytes;
    if (!t)
        return -1;
    if (!s->in.anywhere)
        return vp_fail_hint(err, VP_ERUN, "give the file name instead, or use --spool",
                            "%s: an OLE2 file cannot be read from a pipe", s->name);
    if (vp_ole_open(&t->ole, &s->in, err))
        return -1;
    s->need += vp_ole_need(t->ole);
    const bool image = words(t, "ImageInfo/ImageWidth", 1, &nx) && words(t, "ImageInfo/ImageHeight", 1, &ny);
    const int64_t reference = vp_ole_find(t->ole, "ReferenceData/Image", &bytes);
    const bool flats = o->part && !strcmp(o->part, "flats");
    if (!image || !words(t, "ImageInfo/DataType", 1, &code) || !words(t, "ImageInfo/NoOfImages", 1, &n))
        return vp_fail(err, VP_ERUN, "%s: expected a scan of Zeiss (ImageInfo), got another OLE2 file", s->name);
    if (o->part && !flats)
        return vp_fail(err, VP_ERUN, "%s: expected :flats after the file's name", s->name);
    if (flats && (reference < 0 || (words(t, "ReferenceData/DataType", 1, &code), 0)))
        return vp_fail(err, VP_ERUN, "%s: the scan has no such flats", s->name);
    enum vp_type type;
    if (!type_of(code, &type))
        return vp_fail(err, VP_ERUN, "%s: expected samples of DataType 3, 5 or 10, got %d", s->name, (int)code);
    if (vp_samples_stack(s, 3, (int64_t[]){nx, ny, flats ? 1 : n}, type, err))
        return -1;
    if (flats) {
        if (bytes != vp_page_bytes(&s->stack))
            return vp_fail(err, VP_ERUN, "%s: ReferenceData/Image: expected %zu bytes, got %llu", s->name,
                           vp_page_bytes(&s->stack), (unsigned long long)bytes);
        if (!(t->stream = vp_alloc(1, sizeof *t->stream, "the list of images", err)))
            return -1;
        *t->stream = reference;
    } else if (list_images(s, t, err))
        return -1;
    s->by_rows = false;
    (void)words(t, "ImageInfo/PixelSize", 1, &pixel);
    (void)words(t, "ImageInfo/AcquisitionMode", 1, &mode);
    if (mode != 0) /* a volume: slices, of pixels as they are */
        return pixel > 0 && vp_meta_voxel(&s->stack.meta, (double)pixel / 1000, (double)pixel / 1000, (double)pixel / 1000)
                   ? out_of_memory(s, err) : 0;
    if (vp_meta_set(&s->stack.meta, "axes", "u v view") || vp_meta_set(&s->stack.meta, "quantity", "counts"))
        return out_of_memory(s, err);
    s->fields.flats = !flats && reference >= 0;
    return flats ? 0 : read_geometry(s, t, pixel, err);
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    const struct txrm *const t = s->own;
    const size_t row = (size_t)s->stack.nx * vp_type_size(s->stack.type), n = (size_t)(y1 - y0) * row;
    if (vp_ole_read(t->ole, t->stream[page], (uint64_t)y0 * row, buf, n, err))
        return -1;
    if (s->in.read)
        *s->in.read += n;
    return 0;
}

static void close_txrm(struct vp_source *s)
{
    struct txrm *const t = s->own;
    if (!t)
        return;
    vp_ole_close(t->ole);
    free(t->stream);
    free(t);
}

const struct vp_format vp_txrm = {
    .name = "Zeiss txrm", .sniff = sniff, .open = open_txrm, .rows = rows, .close = close_txrm, .parts = true,
};
