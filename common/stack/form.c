/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of foreign images as samples of pages: any width to the type that holds it, palettes to their index or to
 * colours, white-is-zero to black-is-zero, the eight orientations to one. TIFF 6.0, sections 4, 5, 8, 16, 18. */
#include "stack/form.h"
#include "stack/axes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns the smallest type of at least `bits` bits; VP_N_TYPES if there is none. */
static enum vp_type holder(uint32_t format, uint32_t bits)
{
    static const enum vp_type types[4][4] = {
        [1] = {VP_U8, VP_U16, VP_U32, VP_U64},
        [2] = {VP_I8, VP_I16, VP_I32, VP_I64},
    };
    if (format == 3)
        return bits == 16 || bits == 24 || bits == 32 ? VP_F32 : bits == 64 ? VP_F64 : VP_N_TYPES;
    if (bits < 1 || (bits > 32 && bits != 64))
        return VP_N_TYPES;
    return types[format][bits <= 8 ? 0 : bits <= 16 ? 1 : bits <= 32 ? 2 : 3];
}

static void judge_colours(struct vp_form *f)
{
    const size_t n = sizeof f->problem;
    if (vp_form_mapped(f)) {
        if (f->samples != 1 || f->format != 1 || f->bits > 16)
            snprintf(f->problem, n, "a palette of %u samples of %u bits: expected one of at most 16", f->samples,
                     f->bits);
        f->channels = 3;
        f->wide_map = f->wide_map && !f->coarse_map;
        f->type = f->wide_map ? VP_U16 : VP_U8;
    } else if (f->photometric == PHOTO_YCBCR) {
        if (f->samples != 3 || f->bits != 8 || f->format != 1)
            snprintf(f->problem, n, "YCbCr of %u samples of %u bits: expected 3 of 8", f->samples, f->bits);
        else if (f->compression == CODEC_JPEG && f->planar == 2)
            snprintf(f->problem, n, "YCbCr as JPEG in planes");
        f->rgba = f->compression != CODEC_JPEG; /* as JPEG it comes out of the decoder as RGB */
    }
    if (*f->problem)
        f->hint = "convert it to RGB first, as with: tiff2rgba FILE OUT";
}

void vp_form_judge(struct vp_form *f)
{
    const size_t n = sizeof f->problem;
    if (f->format == 4) /* undefined: bytes as they are */
        f->format = 1;
    if (f->orientation < 1 || f->orientation > 8)
        f->orientation = 1;
    if (f->compression == CODEC_LOG || f->compression == CODEC_LOG24) { /* the decoder is set to floats */
        f->format = 3;
        f->bits = 32;
    }
    f->turned = f->orientation >= 5;
    f->channels = f->samples;
    if (f->photometric == PHOTO_NOT_SAID) { /* as libtiff guesses */
        const uint32_t c = f->compression;
        const bool fax = c == CODEC_RLE || c == CODEC_FAX3 || c == CODEC_FAX4 || c == CODEC_RLEW;
        f->photometric = fax ? PHOTO_WHITE_IS_ZERO : PHOTO_BLACK_IS_ZERO;
    }
    f->invert = f->photometric == PHOTO_WHITE_IS_ZERO && f->format != 3 && !f->shown_white;
    if (f->mixed) {
        snprintf(f->problem, n, "samples of different widths or formats in one pixel");
        f->hint = "convert it first to samples of one type";
    } else if (f->format < 1 || f->format > 3) {
        snprintf(f->problem, n, "samples of format %u%s: expected integers or floating-point numbers", f->format,
                 f->format == 5 || f->format == 6 ? " (complex numbers)" : "");
        f->hint = "write the real and the imaginary part as pages of their own first";
    } else if ((f->type = holder(f->format, f->bits)) == VP_N_TYPES) {
        if (f->format == 3)
            snprintf(f->problem, n, "floating-point samples of %u bits: expected 16, 24, 32 or 64", f->bits);
        else
            snprintf(f->problem, n, "samples of %u bits: expected 1 to 32, or 64", f->bits);
        f->hint = "convert it first to one of them";
    } else {
        judge_colours(f);
    }
    f->direct = !*f->problem && f->samples == 1 && f->channels == 1 && f->orientation == 1 &&
                f->bits == 8 * vp_type_size(f->type);
}

size_t vp_form_row_bytes(const struct vp_form *f, int64_t n)
{
    const uint64_t samples = f->planar == 2 ? 1 : f->samples;
    uint64_t bits;
    if (__builtin_mul_overflow((uint64_t)n, samples * f->bits, &bits) || bits > (uint64_t)INT64_MAX)
        return 0;
    return (size_t)(bits / 8 + (bits % 8 != 0));
}

/* --- samples of any width ---------------------------------------------------------------------------- */

/* Returns `n` bits from position `at` on, the most significant first. */
static uint64_t take_bits(const unsigned char *row, uint64_t at, unsigned n)
{
    uint64_t v = 0;
    while (n) {
        const unsigned off = (unsigned)(at & 7), m = n < 8 - off ? n : 8 - off;
        v = v << m | ((row[at >> 3] >> (8 - off - m)) & ((1u << m) - 1));
        at += m;
        n -= m;
    }
    return v;
}

/* Decodes a floating-point number of `e` bits of exponent and `m` of mantissa. */
static float small_float(uint32_t v, int e, int m)
{
    const uint32_t mantissa = v & ((1u << m) - 1), exponent = v >> m & ((1u << e) - 1), top = (1u << e) - 1;
    const int bias = (1 << (e - 1)) - 1;
    double x = exponent == top ? (mantissa ? NAN : INFINITY)
               : exponent      ? ldexp(1 + ldexp(mantissa, -m), (int)exponent - bias)
                               : ldexp(mantissa, 1 - bias - m);
    return (float)(v >> (e + m) & 1 ? -x : x);
}

static void put(void *out, ptrdiff_t i, enum vp_type type, uint64_t v)
{
    switch (vp_type_size(type)) {
    case 1: ((uint8_t *)out)[i] = (uint8_t)v; break;
    case 2: ((uint16_t *)out)[i] = (uint16_t)v; break;
    case 4: ((uint32_t *)out)[i] = (uint32_t)v; break;
    default: ((uint64_t *)out)[i] = v; break;
    }
}

/* Gathers whole samples of `size` bytes, `step` of them from one to the next. */
static void gather(void *out, ptrdiff_t stride, const unsigned char *row, int64_t step, int64_t n, size_t size)
{
    if (stride == 1 && step == 1) {
        memcpy(out, row, (size_t)n * size);
        return;
    }
#define LOOP(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        memcpy((T *)out + i * stride, (const T *)(const void *)row + i * step, sizeof(T))
    switch (size) {
    case 1: LOOP(uint8_t); break;
    case 2: LOOP(uint16_t); break;
    case 4: LOOP(uint32_t); break;
    default: LOOP(uint64_t); break;
    }
#undef LOOP
}

/* Returns the i-th of the samples in a row: its bits, in the low end. */
static uint64_t raw_sample(const struct vp_form *f, const unsigned char *row, int64_t i)
{
    if (f->bits == 16) {
        uint16_t v;
        memcpy(&v, row + 2 * i, sizeof v);
        return v;
    }
    if (f->bits == 24) { /* libtiff has put them into the host's order */
        const unsigned char *p = row + 3 * i;
        return (uint64_t)(p[0] | p[1] << 8 | (uint32_t)p[2] << 16);
    }
    return take_bits(row, (uint64_t)i * f->bits, f->bits);
}

void vp_form_row(const struct vp_form *f, const unsigned char *row, int64_t channel, const uint16_t *const map[3],
                 int64_t n, void *out, ptrdiff_t stride)
{
    const size_t size = vp_type_size(f->type);
    const uint16_t *const colour = vp_form_mapped(f) ? map[channel] : NULL;
    const int64_t step = f->rgba ? 4 : f->planar == 2 ? 1 : f->samples;
    const int64_t first = colour || (f->planar == 2 && !f->rgba) ? 0 : channel;
    if (!colour && f->bits == 8 * size) {
        gather(out, stride, row + (size_t)first * size, step, n, size);
        if (f->invert)
            for (int64_t i = 0; i < n; i++)
                vp_form_invert((char *)out + i * stride * (ptrdiff_t)size, f->type, 1);
        return;
    }
    const uint64_t sign = f->format == 2 ? (uint64_t)1 << (f->bits - 1) : 0,
                   most = ((uint64_t)1 << f->bits) - 1; /* bits < 32 here */
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = raw_sample(f, row, first + i * step);
        if (f->format == 3) {
            ((float *)out)[i * stride] = f->bits == 16 ? small_float((uint32_t)v, 5, 10)
                                                       : small_float((uint32_t)v, 7, 16);
            continue;
        }
        v = colour ? (uint64_t)colour[v] >> (f->wide_map || f->coarse_map ? 0 : 8) : f->invert ? most - v : v;
        put(out, i * stride, f->type, (v ^ sign) - sign);
    }
}

void vp_form_invert(void *buf, enum vp_type type, size_t n)
{
    unsigned char *p = buf;
    n *= vp_type_size(type);
    for (size_t i = 0; i < n; i++) /* most - v, and for signed ones most + least - v */
        p[i] = (unsigned char)~p[i];
}

void vp_form_place(const struct vp_form *f, int64_t rows, ptrdiff_t *origin, ptrdiff_t *dx, ptrdiff_t *dy)
{
    const ptrdiff_t w = vp_form_nx(f), last = (rows - 1) * w;
    const bool columns_back = f->orientation == 2 || f->orientation == 3 || f->orientation == 7 || f->orientation == 8,
               rows_back = f->orientation == 3 || f->orientation == 4 || f->orientation == 6 || f->orientation == 7;
    const ptrdiff_t x = f->turned ? w : 1, y = f->turned ? 1 : w;
    *dx = columns_back ? -x : x;
    *dy = rows_back ? -y : y;
    *origin = (columns_back ? (f->turned ? last : w - 1) : 0) + (rows_back ? (f->turned ? w - 1 : last) : 0);
}

/* --- metadata ---------------------------------------------------------------------------------------- */

static const char *channel_name(const struct vp_form *f, int64_t i)
{
    static const struct { uint32_t photometric; int n; const char *name[4]; } known[] = {
        {PHOTO_WHITE_IS_ZERO, 1, {"grey"}},
        {PHOTO_BLACK_IS_ZERO, 1, {"grey"}},
        {PHOTO_RGB, 3, {"red", "green", "blue"}},
        {PHOTO_PALETTE, 1, {"index"}},
        {PHOTO_YCBCR, 3, {"red", "green", "blue"}},
        {PHOTO_CMYK, 4, {"cyan", "magenta", "yellow", "black"}},
        {PHOTO_LAB, 3, {"L", "a", "b"}},
        {PHOTO_LOGLUV, 3, {"X", "Y", "Z"}},
    };
    const uint32_t photometric = vp_form_mapped(f) ? PHOTO_RGB : f->photometric;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k].photometric == photometric && i <= known[k].n)
            return i < known[k].n ? known[k].name[i] : f->extra == 1 || f->extra == 2 ? "alpha" : "extra";
    return "extra";
}

int vp_form_axes(struct vp_meta *m, const struct vp_form *f, int64_t images)
{
    enum { MOST = 16 };
    char names[16 * MOST] = "";
    for (int64_t i = 0; i < f->channels && f->channels <= MOST; i++)
        strcat(strcat(names, i ? " " : ""), channel_name(f, i));
    return (*names && vp_meta_set(m, "channels", names)) || vp_axes_channels(m, f->channels, images) ? -1 : 0;
}
