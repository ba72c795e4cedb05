/* SPDX-License-Identifier: BSD-3-Clause */
/* NIfTI-1 in one file (nifti.nimh.nih.gov/nifti-1), .nii and .nii.gz: a header of 348 bytes, extensions, samples along x,
 * y, z and time. */
#include "base/err.h"
#include "stack/axes.h"
#include "stack/samples.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 348, START = 352 };
/* Offsets in the header. */
enum { DIM = 40, DATATYPE = 70, BITPIX = 72, PIXDIM = 76, VOX_OFFSET = 108, SLOPE = 112, INTERCEPT = 116, UNITS = 123,
       QFORM = 252, SFORM = 254, QUATERN = 256, QOFFSET = 268, SROW = 280, MAGIC = 344 };

static const struct { int code; enum vp_type type; } types[] = {
    {2, VP_U8}, {4, VP_I16}, {8, VP_I32}, {16, VP_F32}, {64, VP_F64}, {256, VP_I8}, {512, VP_U16}, {768, VP_U32},
    {1024, VP_I64}, {1280, VP_U64}};

static uint32_t size_of_header(const unsigned char *h, bool *swap)
{
    *swap = h[0] == 0;
    return *swap ? (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3]
                 : h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
}

static bool is_gzip(const unsigned char *head)
{
    return head[0] == 0x1f && head[1] == 0x8b;
}

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD], first[4];
    bool swap;
    const int64_t n = vp_source_starts(in, head, VP_HEAD, err);
    (void)o;
    if (n < 4)
        return n < 0 ? -1 : 0;
    if (is_gzip(head))
        return vp_inflate_first(head, (size_t)n, first, sizeof first) == sizeof first
               && size_of_header(first, &swap) == HEADER;
    return size_of_header(head, &swap) == HEADER;
}

static int short_at(const unsigned char *h, int at, bool swap)
{
    return (int16_t)(swap ? h[at] << 8 | h[at + 1] : h[at + 1] << 8 | h[at]);
}

/* Reads a float, as the decimal number that it was made of. */
static double real_at(const unsigned char *h, int at, bool swap)
{
    uint32_t bits;
    float v;
    char text[32];
    memcpy(&bits, h + at, sizeof bits);
    bits = swap ? __builtin_bswap32(bits) : bits;
    memcpy(&v, &bits, sizeof v);
    snprintf(text, sizeof text, "%.7g", (double)v);
    const double near = strtod(text, NULL);
    return (float)near == v ? near : (double)v;
}

/* Sets size of voxels and origin. */
static int place(struct vp_source *s, const unsigned char *h, bool swap, struct vp_err *err)
{
    static const double mm[4] = {1, 1000, 1, 1e-3}; /* a unit of 0 is mm to all who read it */
    const double unit = mm[h[UNITS] & 3];
    double step[3][3] = {{0}}, origin[3];
    const bool rows = short_at(h, SFORM, swap) > 0, turn = !rows && short_at(h, QFORM, swap) > 0;
    bool turned = false;
    for (int i = 0; i < 3; i++) {
        step[i][i] = unit * real_at(h, PIXDIM + 4 + 4 * i, swap);
        origin[i] = unit * real_at(h, rows ? SROW + 16 * i + 12 : QOFFSET + 4 * i, swap);
        turned = turned || (turn && real_at(h, QUATERN + 4 * i, swap) != 0);
        for (int k = 0; k < 3 && rows; k++)
            step[k][i] = unit * real_at(h, SROW + 16 * i + 4 * k, swap);
    }
    if (turn && real_at(h, PIXDIM, swap) < 0)
        turned = true;
    if (turned) /* only that it is so matters here */
        step[0][0] = step[0][1] = step[0][0] / sqrt(2);
    return vp_samples_place(s, s->stack.pages > 1 || short_at(h, DIM, swap) >= 3 ? 3 : 2, step,
                            rows || turn ? origin : NULL, err);
}

static int parse(struct vp_source *s, const unsigned char *h, bool swap, uint64_t *start, struct vp_err *err)
{
    int64_t size[3] = {1, 1, 1};
    const int axes = short_at(h, DIM, swap);
    if (memcmp(h + MAGIC, "n+1", 4)) {
        char magic[4];
        snprintf(magic, sizeof magic, "%.3s", (const char *)h + MAGIC);
        magic[strcspn(magic, "\n")] = '\0';
        return vp_fail(err, VP_ERUN, "%s: expected a NIfTI-1 file with its samples in it (n+1), got '%s'", s->name,
                       *magic ? magic : "Analyze");
    }
    if (axes < 1 || axes > 7)
        return vp_fail(err, VP_ERUN, "%s: expected 2 to 4 axes, got %d", s->name, axes);
    for (int i = 0; i < axes; i++) {
        const int n = short_at(h, DIM + 2 + 2 * i, swap);
        if (n < 1 || (i >= 4 && n > 1))
            return vp_fail(err, VP_ERUN, "%s: expected axes x, y, z and time, got length %d of axis %d", s->name, n, i + 1);
        if (i < 3)
            size[i] = n;
        else if (i == 3)
            size[2] *= n;
    }
    const int code = short_at(h, DATATYPE, swap), time = axes >= 4 ? short_at(h, DIM + 8, swap) : 1;
    size_t k = 0;
    while (k < sizeof types / sizeof *types && types[k].code != code)
        k++;
    if (k == sizeof types / sizeof *types)
        return vp_fail(err, VP_ERUN, "%s: expected integers or floats of at most 8 bytes, got NIfTI's datatype %d", s->name,
                       code);
    if (vp_samples_stack(s, 3, size, types[k].type, err))
        return -1;
    const double at = real_at(h, VOX_OFFSET, swap);
    if (!(at >= START && at < 1e9 && at == floor(at)))
        return vp_fail(err, VP_ERUN, "%s: vox_offset: expected 352 or more, got %g", s->name, at);
    *start = (uint64_t)at;
    struct vp_meta *const m = &s->stack.meta;
    const double slope = real_at(h, SLOPE, swap), intercept = real_at(h, INTERCEPT, swap);
    char number[2][32];
    int rc = 0;
    if (isfinite(slope) && isfinite(intercept) && slope != 0 && (slope != 1 || intercept != 0))
        rc = vp_meta_setf(m, "scale", "%s %s", vp_format_number(number[0], 1 / slope),
                          vp_format_number(number[1], 0 - intercept / slope));
    if (!rc && time > 1)
        rc = vp_axes_set(m, &(struct vp_axes){2, true, {"z", "time"}, {size[2] / time, time}});
    return rc ? vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name) : place(s, h, swap, err);
}

static int open_nifti(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char h[HEADER];
    size_t n;
    bool swap;
    uint64_t start = 0;
    char *const text = vp_samples_header(s, 0, &n, err);
    (void)o;
    if (!text)
        return -1;
    const bool packed = n >= 2 && is_gzip((const unsigned char *)text);
    const size_t got = packed ? vp_inflate_first(text, n, h, sizeof h) : n;
    if (!packed)
        memcpy(h, text, n < sizeof h ? n : sizeof h);
    free(text);
    if (got < sizeof h)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected a header of %d bytes, got %zu", s->name, HEADER, got);
    size_of_header(h, &swap);
    if (parse(s, h, swap, &start, err))
        return -1;
    if (packed && vp_samples_inflate(s, 0, start + vp_samples_bytes(&s->stack), err))
        return -1;
    return vp_samples_open(s, start, swap, err);
}

static void put_short(unsigned char *h, int at, int v)
{
    h[at] = (unsigned char)v;
    h[at + 1] = (unsigned char)(v >> 8);
}

static void put_real(unsigned char *h, int at, double v)
{
    const float f = (float)v;
    memcpy(h + at, &f, sizeof f);
}

static int head(const struct vp_stack *s, const char *name, FILE *to, struct vp_err *err)
{
    unsigned char h[START] = {HEADER & 255, HEADER >> 8};
    double v[3] = {1, 1, 1}, at[3] = {0}, scale[2];
    struct vp_axes a;
    vp_axes_get(s, &a);
    const int t = a.sized ? vp_axes_find(&a, "time") : -1;
    const int64_t times = a.n == 2 && t == 1 ? a.size[1] : 1, pages = s->pages < 0 ? 1 : s->pages;
    if (s->nx > INT16_MAX || s->ny > INT16_MAX || pages / times > INT16_MAX || times > INT16_MAX)
        return vp_fail(err, VP_ERUN, "%s: NIfTI-1 has axes of at most 32767 samples, got %lld x %lld x %lld", name,
                       (long long)s->nx, (long long)s->ny, (long long)pages);
    put_short(h, DIM, times > 1 ? 4 : 3);
    put_short(h, DIM + 2, (int)s->nx);
    put_short(h, DIM + 4, (int)s->ny);
    put_short(h, DIM + 6, (int)(pages / times));
    for (int i = 3; i < 7; i++)
        put_short(h, DIM + 2 + 2 * i, i == 3 ? (int)times : 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == s->type)
            put_short(h, DATATYPE, types[i].code);
    put_short(h, BITPIX, (int)(8 * vp_type_size(s->type)));
    const bool placed = vp_samples_placed(s, v, at);
    for (int i = 0; i < 4; i++)
        put_real(h, PIXDIM + 4 * i, i == 0 ? 1 : placed ? v[i - 1] : 1);
    put_real(h, VOX_OFFSET, START);
    const bool scaled = vp_meta_numbers(&s->meta, "scale", 2, scale) && scale[0] != 0;
    put_real(h, SLOPE, scaled ? 1 / scale[0] : 1);
    put_real(h, INTERCEPT, scaled ? -scale[1] / scale[0] : 0);
    h[UNITS] = placed ? 2 : 0;
    put_short(h, SFORM, placed);
    for (int i = 0; i < 3 && placed; i++) {
        put_real(h, SROW + 16 * i + 4 * i, v[i]);
        put_real(h, SROW + 16 * i + 12, at[i]);
    }
    memcpy(h + MAGIC, "n+1", 4);
    fwrite(h, 1, sizeof h, to);
    return 0;
}

const struct vp_format vp_nifti = {
    .name = "NIfTI", .sniff = sniff, .open = open_nifti, .begin = vp_samples_begin, .rows = vp_samples_rows,
    .close = vp_samples_close, .endings = " nii ", .head = head,
};
