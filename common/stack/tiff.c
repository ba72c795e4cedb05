/* SPDX-License-Identifier: BSD-3-Clause */
/* TIFF directories, classic and Big, both byte orders, from anything that can fetch bytes. TIFF 6.0 (1992),
 * BigTIFF (2007). What a file claims is checked before memory is taken for it. */
#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "stack/source.h"
#include "stack/tiff.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 4096, MAX_FAR = 16, MAX_STRIPS = 1 << 22, MAX_TEXT = 64 << 20 };

/* Memory for metadata: a program holds several copies at a time, each line two small blocks of the heap. */
enum { COPIES = 6, LINE_COST = 100 };

struct entry {
    uint16_t tag, type;
    uint64_t count;
    uint64_t offset; /* offset of the values, if they do not fit the entry */
    const unsigned char *raw; /* the value field */
    bool far; /* the values lie at offset */
};

int vp_page_fail(const char *name, int64_t page, struct vp_err *err, const char *fmt, ...)
{
    char text[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    vp_format_line(text, sizeof text, fmt, ap);
    va_end(ap);
    return vp_fail(err, VP_ERUN, "%s: page %lld: %s", name, (long long)page, text);
}

static uint64_t get(const struct vp_tiff *t, const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * (t->swap ? bytes - 1 - i : i);
    return v;
}

static int type_bytes(unsigned type)
{
    static const unsigned char size[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};
    return type < sizeof size ? size[type] : 0;
}

int vp_tiff_disorder(const struct vp_tiff *t, bool directory, struct vp_err *err)
{
    vp_fail(err, VP_ERUN, directory ? "%s: TIFF is not in stream order (the directory of page %lld precedes other data)"
                                    : "%s: TIFF is not in stream order (page %lld data precedes its directory)",
            t->in->name, (long long)t->page);
    return vp_hint(err, "give the file name instead, or use --spool");
}

/* Fails: the input ends before byte `end`. */
static int cut(const struct vp_tiff *t, uint64_t end, struct vp_err *err)
{
    const unsigned long long got = t->in->anywhere ? t->in->size : t->in->position;
    if (!got)
        return vp_fail(err, VP_ERUN, "%s: empty: expected a TIFF", t->in->name),
               vp_hint(err, "the program that should have written it may have failed");
    if (t->page < 0)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected a TIFF header, got %llu bytes", t->in->name, got);
    if (end <= got)
        return vp_tiff_fail(t, err, "truncated while it is read");
    return vp_tiff_fail(t, err, "truncated: expected its directory up to byte %llu, got %llu bytes",
                        (unsigned long long)end, got);
}

/* Peeks at what follows the samples that come next, if it is not far. */
static int look_ahead(struct vp_tiff *t, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    enum { FAR = 16 << 20 };
    const uint64_t most = vp_memory_most() / 16 < FAR ? vp_memory_most() / 16 : FAR, from = t->in->position;
    if (offset < from || offset - from > most || n > most - (offset - from))
        return 1;
    const size_t want = (size_t)(offset - from) + n;
    const unsigned char *start;
    const int64_t got = vp_input_peek(t->in, &start, want, err);
    if (got < 0)
        return -1;
    if ((size_t)got < want) /* cut: reported with the samples */
        return 1;
    memcpy(buf, start + want - n, n);
    t->need = want > t->need ? want : t->need;
    return 0;
}

/* Reads n bytes of a directory: 0; 1 if they lie before the position of a pipe, or too far ahead of it; -1. */
static int fetch(struct vp_tiff *t, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    if (t->ahead)
        return look_ahead(t, offset, buf, n, err);
    if (!t->in->anywhere && offset < t->in->position) {
        if (!t->front || offset < t->front_at || offset > t->front_end || n > t->front_end - offset)
            return 1;
        memcpy(buf, t->front + (offset - t->front_at), n);
        return 0;
    }
    const int64_t got = vp_input_at(t->in, offset, buf, n, err);
    return got < 0 ? -1 : (size_t)got < n ? cut(t, offset + n, err) : 0;
}

int vp_tiff_header(struct vp_tiff *t, uint64_t *first, struct vp_err *err)
{
    unsigned char h[16];
    const int64_t n = vp_input_at(t->in, 0, h, 8, err);
    if (n < 0)
        return -1;
    if (n < 8)
        return cut(t, 8, err);
    t->swap = !memcmp(h, "MM", 2);
    t->big = get(t, h + 2, 2) == VERSION_BIG;
    if (t->big && get(t, h + 4, 2) != 8)
        return vp_fail(err, VP_ERUN, "%s: BigTIFF with offsets of %d bytes: expected 8", t->in->name,
                       (int)get(t, h + 4, 2));
    if (t->big && fetch(t, 8, h + 8, 8, err))
        return -1;
    *first = t->big ? get(t, h + 8, 8) : get(t, h + 4, 4);
    return *first ? 0 : vp_fail(err, VP_ERUN, "%s: a TIFF without pages", t->in->name);
}

int vp_tiff_keep_front(struct vp_tiff *t, uint64_t first, struct vp_err *err)
{
    enum { LITTLE = 1 << 20 };
    const uint64_t at = t->in->position;
    if (first <= at || first - at > LITTLE)
        return 0;
    const size_t n = (size_t)(first - at);
    t->front = vp_alloc_raw(1, n, "data before the first directory", err);
    const int64_t got = t->front ? vp_input_at(t->in, at, t->front, n, err) : -1;
    t->front_at = at;
    t->front_end = at + (uint64_t)(got > 0 ? got : 0);
    return got < 0 ? -1 : 0;
}

/* Returns whole numbers; other types give 0. */
static uint64_t number(const struct vp_tiff *t, unsigned type, const unsigned char *p)
{
    static const uint32_t whole = 1u << FIELD_BYTE | 1u << FIELD_SHORT | 1u << FIELD_LONG | 1u << FIELD_IFD |
                                  1u << FIELD_LONG8 | 1u << FIELD_IFD8;
    return whole >> type & 1 ? get(t, p, type_bytes(type)) : 0;
}

/* Returns the i-th value of an entry that is held in the directory itself. */
static uint64_t value(const struct vp_tiff *t, const struct entry *e, uint64_t i)
{
    return i < e->count && !e->far ? number(t, e->type, e->raw + i * (uint64_t)type_bytes(e->type)) : 0;
}

/* Reads the first n bytes of an entry's values, wherever they are. */
static int bytes_of(struct vp_tiff *t, const struct entry *e, void *buf, size_t n, struct vp_err *err)
{
    return e->far ? fetch(t, e->offset, buf, n, err) : (memcpy(buf, e->raw, n), 0);
}

/* Reads an array to the end of `out`, and spread from there. A directory that repeats the tag may have fewer: the
 * rest is 0. */
static int array(struct vp_tiff *t, const struct entry *e, int64_t n, uint64_t *out, struct vp_err *err)
{
    const size_t size = (size_t)type_bytes(e->type);
    const int64_t have = (uint64_t)n < e->count ? n : (int64_t)e->count;
    unsigned char *const raw = (unsigned char *)out + (size_t)have * (sizeof *out - size);
    const int rc = bytes_of(t, e, raw, (size_t)have * size, err);
    for (int64_t i = 0; !rc && i < have; i++)
        out[i] = number(t, e->type, raw + (size_t)i * size);
    if (!rc)
        memset(out + have, 0, (size_t)(n - have) * sizeof *out);
    return rc;
}

static int text(struct vp_tiff *t, const struct entry *e, struct vp_ifd *ifd, struct vp_err *err)
{
    if (ifd->text) /* a directory that repeats the tag: the first holds */
        return 0;
    if (e->count > MAX_TEXT)
        return vp_tiff_fail(t, err, "an image description of %llu bytes: expected at most %d",
                            (unsigned long long)e->count, MAX_TEXT);
    if (vp_memory_claim(COPIES * e->count, "its description", t->in->name, err))
        return -1;
    const size_t n = (size_t)e->count;
    char *buf = vp_alloc_raw(n + 1, 1, "an image description", err);
    const int rc = buf ? bytes_of(t, e, buf, n, err) : -1;
    if (rc) {
        free(buf);
        return rc;
    }
    buf[n] = '\0';
    ifd->text = buf;
    ifd->text_cost = COPIES * strlen(buf);
    for (const char *line = buf; (line = strchr(line, '\n')); line++)
        ifd->text_cost += COPIES * LINE_COST;
    return vp_memory_claim(ifd->text_cost, "its metadata", t->in->name, err);
}

static int rational(struct vp_tiff *t, const struct entry *e, double *out, struct vp_err *err)
{
    unsigned char b[8];
    if (e->type != FIELD_RATIONAL || e->count != 1)
        return 0;
    const int rc = bytes_of(t, e, b, sizeof b, err);
    if (rc)
        return rc;
    const double den = (double)get(t, b + 4, 4);
    *out = den > 0 ? (double)get(t, b, 4) / den : 0;
    return 0;
}

enum form_kind {
    NEAR, /* a number in the directory itself, or of no interest */
    OFFSETS, SIZES, /* places of the samples */
    LIST, /* one value a sample of a pixel, or the colours of a palette that is looked up */
    MEANING /* metadata: may be absent */
};

static enum form_kind kind_of(const struct vp_tiff *t, uint16_t tag)
{
    switch (tag) {
    case TAG_STRIP_OFFSETS:
    case TAG_TILE_OFFSETS: return OFFSETS;
    case TAG_STRIP_BYTE_COUNTS:
    case TAG_TILE_BYTE_COUNTS: return SIZES;
    case TAG_BITS_PER_SAMPLE:
    case TAG_SAMPLE_FORMAT: return LIST;
    case TAG_COLOR_MAP: return t->colours ? LIST : MEANING;
    case TAG_UIC2:
    case TAG_NIH_IMAGE:
    case TAG_IMAGE_DESCRIPTION:
    case TAG_X_RESOLUTION:
    case TAG_Y_RESOLUTION: return MEANING;
    default: return NEAR;
    }
}

static int by_offset(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->offset != y->offset ? (x->offset > y->offset) - (x->offset < y->offset) : (x->raw > y->raw) - (x->raw < y->raw);
}

/* Takes values in the directory itself. */
static void near_values(const struct vp_tiff *t, const struct entry *e, struct vp_ifd *f)
{
    const uint64_t v = value(t, e, 0);
    const uint32_t v32 = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    switch (e->tag) {
    case TAG_NEW_SUBFILE_TYPE: f->minor = f->minor || (v & 5); break; /* reduced, or a mask */
    case TAG_SUBFILE_TYPE: f->minor = f->minor || v == 2; break;
    case TAG_IMAGE_WIDTH: f->form.nx = v > INT64_MAX ? -1 : (int64_t)v; break;
    case TAG_IMAGE_LENGTH: f->form.ny = v > INT64_MAX ? -1 : (int64_t)v; break;
    case TAG_COMPRESSION: f->form.compression = v32; break;
    case TAG_PHOTOMETRIC: f->form.photometric = v32; break;
    case TAG_FILL_ORDER: f->fill_order = v32; break;
    case TAG_ORIENTATION: f->form.orientation = v32; break;
    case TAG_SAMPLES_PER_PIXEL: f->form.samples = v32; break;
    case TAG_PLANAR: f->form.planar = v32; break;
    case TAG_EXTRA_SAMPLES: f->form.extra = v32; break;
    case TAG_ROWS_PER_STRIP: f->rows_per_strip = v > INT64_MAX ? INT64_MAX : (int64_t)v; break;
    case TAG_RESOLUTION_UNIT: f->resolution_unit = v32; break;
    case TAG_PAGE_NUMBER:
        f->page_number = v32;
        f->page_total = (uint32_t)value(t, e, 1);
        break;
    case TAG_TILE_WIDTH:
        f->tiled = true;
        f->tile_nx = v > INT32_MAX ? 0 : (int64_t)v;
        break;
    case TAG_TILE_LENGTH: f->tile_ny = v > INT32_MAX ? 0 : (int64_t)v; break;
    default: break;
    }
}

static int list(struct vp_tiff *t, const struct entry *e, struct vp_ifd *f, struct vp_err *err)
{
    enum { MOST = 3 << 16 };
    struct vp_form *form = &f->form;
    const int64_t n = e->count < MOST ? (int64_t)e->count : MOST;
    uint64_t few[4], *v = n <= 4 ? few : vp_alloc_raw((size_t)n, sizeof *v, "values of a directory", err);
    const int rc = v ? array(t, e, n, v, err) : -1;
    if (!rc && e->tag == TAG_COLOR_MAP) {
        form->coarse_map = true;
        form->wide_map = false;
        for (int64_t i = 0; i < n; i++)
            vp_form_colour(form, v[i]);
        if (!t->colours && !f->palette && form->bits <= 8 && n == 3 << form->bits)
            f->palette = vp_alloc_raw((size_t)n, sizeof *f->palette, "a palette", err);
        for (int64_t i = 0; f->palette && i < 3 << form->bits; i++)
            f->palette[i] = (uint16_t)v[i];
    } else if (!rc) {
        uint32_t *to = e->tag == TAG_BITS_PER_SAMPLE ? &form->bits : &form->format;
        *to = v[0] > UINT32_MAX ? UINT32_MAX : (uint32_t)v[0];
        for (int64_t i = 1; i < n && i < (int64_t)form->samples; i++)
            form->mixed = form->mixed || v[i] != v[0];
    }
    if (v != few)
        free(v);
    return rc;
}

/* Reads the numbers of MetaMorph's planes. By its type it is one fraction a plane, but there are three. */
static int metamorph(struct vp_tiff *t, const struct entry *e, struct vp_ifd *f, struct vp_err *err)
{
    enum { MAX_PLANES = 1 << 20 };
    const size_t n = (size_t)f->planes * VP_UIC2_NUMBERS;
    if (f->planes > MAX_PLANES)
        return vp_tiff_fail(t, err, "a stack of %lld planes: expected at most %d", (long long)f->planes, MAX_PLANES);
    if (f->uic2 || !n || e->type != FIELD_RATIONAL || !e->far || (t->in->anywhere && 4 * n > t->in->size))
        return 0;
    if (vp_memory_claim(4 * n, "its table of planes", t->in->name, err))
        return -1;
    uint32_t *const v = vp_alloc_raw(n, sizeof *v, "a table of planes", err);
    const int rc = v ? fetch(t, e->offset, v, 4 * n, err) : -1;
    for (size_t i = 0; !rc && i < n; i++)
        v[i] = t->swap ? __builtin_bswap32(v[i]) : v[i];
    f->uic2 = rc ? NULL : v;
    if (rc)
        free(v);
    return rc;
}

/* Reads how many planes NIH Image's header counts; they follow one directory. */
static int nih_image(struct vp_tiff *t, const struct entry *e, struct vp_ifd *f, struct vp_err *err)
{
    enum { AT = 260 };
    unsigned char n[2];
    if (f->planes || !e->far || e->count * (uint64_t)type_bytes(e->type) < AT + sizeof n)
        return 0;
    const int rc = fetch(t, e->offset + AT, n, sizeof n, err);
    f->planes = rc ? 0 : (int64_t)get(t, n, sizeof n);
    f->announcer = TAG_NIH_IMAGE;
    return rc;
}

static int meaning(struct vp_tiff *t, const struct entry *e, struct vp_ifd *f, struct vp_err *err)
{
    switch (e->tag) {
    case TAG_IMAGE_DESCRIPTION: return text(t, e, f, err);
    case TAG_COLOR_MAP: return list(t, e, f, err);
    case TAG_UIC2: return metamorph(t, e, f, err);
    case TAG_NIH_IMAGE: return nih_image(t, e, f, err);
    default: return rational(t, e, e->tag == TAG_X_RESOLUTION ? &f->xres : &f->yres, err);
    }
}

/* Returns the name of what is missing without a tag. */
static const char *lost_of(uint16_t tag)
{
    return tag == TAG_IMAGE_DESCRIPTION ? "description" : tag == TAG_COLOR_MAP ? "palette"
           : tag == TAG_UIC2 || tag == TAG_NIH_IMAGE ? "table of planes" : "resolution";
}

/* True of tags that say how many images there are, or what their samples are. */
static bool needed(uint16_t tag)
{
    return tag == TAG_IMAGE_DESCRIPTION || tag == TAG_NIH_IMAGE;
}

/* Reads the values elsewhere in the file, in the order in which they lie there. Those after the samples of a stream
 * are peeked at once the place of the samples is known. */
static int far_values(struct vp_tiff *t, struct vp_ifd *f, const struct entry *e, int n, struct vp_err *err)
{
    bool behind[MAX_FAR] = {false};
    uint64_t placed = UINT64_MAX; /* start of the samples, as far as is known */
    for (int i = 0; i < n; i++) {
        const enum form_kind kind = kind_of(t, e[i].tag);
        int rc = 0;
        if (kind == OFFSETS || kind == SIZES) {
            rc = array(t, &e[i], f->n_strips, kind == OFFSETS ? f->offset : f->count, err);
            placed = kind == OFFSETS ? f->offset[0] : placed;
        } else if (kind == LIST) {
            rc = list(t, &e[i], f, err);
        } else if (!t->in->anywhere && e[i].far && e[i].offset > placed) {
            behind[i] = true;
        } else if ((rc = meaning(t, &e[i], f, err)) == 1 && !needed(e[i].tag)) {
            /* before the position: perhaps the two resolutions are one value */
            f->xres = f->xres > 0 ? f->xres : f->yres;
            f->yres = f->yres > 0 ? f->yres : f->xres;
            const bool there = e[i].tag == TAG_X_RESOLUTION || e[i].tag == TAG_Y_RESOLUTION ? f->xres > 0 : false;
            f->lost = f->lost || there ? f->lost : lost_of(e[i].tag);
            rc = 0;
        }
        if (rc)
            return rc;
    }
    for (int i = 0; i < n; i++) {
        t->ahead = true;
        const int rc = behind[i] ? meaning(t, &e[i], f, err) : 0;
        t->ahead = false;
        if (rc < 0 || (rc && e[i].tag == TAG_NIH_IMAGE))
            return rc;
        if (rc && (!f->lost || e[i].tag == TAG_IMAGE_DESCRIPTION))
            f->lost = lost_of(e[i].tag);
    }
    return 0;
}

/* Finds strips without bytes. Where no strip has any, all have a place and none needs a decoder, only their lengths
 * are unknown. */
static void find_sparse(struct vp_ifd *f)
{
    bool some = false, placed = true, empty = false;
    for (int64_t i = 0; i < f->n_strips; i++) {
        some = some || f->count[i];
        placed = placed && f->offset[i];
        empty = empty || !f->count[i] || !f->offset[i];
    }
    f->sparse = empty && (some || !placed || f->tiled || f->form.compression != CODEC_NONE);
}

static int strip_arrays(const struct vp_tiff *t, struct vp_ifd *f, uint64_t n_offsets, uint64_t n_counts,
                        struct vp_err *err)
{
    uint64_t n = n_offsets;
    if (!f->tiled) {
        if (f->rows_per_strip == 0)
            return vp_tiff_fail(t, err, "strips of 0 rows");
        f->rows_per_strip = vp_min64(f->rows_per_strip, f->form.ny);
        n = (uint64_t)((f->form.ny - 1) / f->rows_per_strip + 1);
        if (f->form.planar == 2 && !vp_mul_size(&n, n, f->form.samples))
            n = UINT64_MAX;
    }
    if (n_offsets == 0 || n_offsets < n || n > MAX_STRIPS || (n_counts && n_counts < n))
        return vp_tiff_fail(t, err, "a strip table of %llu offsets and %llu sizes: expected %llu of each",
                            (unsigned long long)n_offsets, (unsigned long long)n_counts, (unsigned long long)n);
    if (vp_memory_claim(2 * n * sizeof *f->offset, "its strip table", t->in->name, err))
        return -1;
    f->offset = vp_alloc(n, sizeof *f->offset, "a strip table", err);
    f->count = vp_alloc(n, sizeof *f->count, "a strip table", err);
    f->n_strips = (int64_t)n;
    return f->offset && f->count ? 0 : -1;
}

/* Limits time to be linear in the size of the file, whatever its directories share. */
static int spend(struct vp_tiff *t, uint64_t bytes, struct vp_err *err)
{
    t->spent = bytes < UINT64_MAX - t->spent ? t->spent + bytes : UINT64_MAX;
    if (!t->allowed || t->spent <= t->allowed)
        return 0;
    return vp_tiff_fail(t, err, "the directories so far say more than %llu bytes: they share what they say, more than "
                                "the file's size explains", (unsigned long long)t->allowed);
}

static int parse(struct vp_tiff *t, const unsigned char *raw, int n, bool want_text, struct vp_ifd *f,
                 struct vp_err *err)
{
    const int size = t->big ? 20 : 12, word = t->big ? 8 : 4;
    struct entry far[MAX_FAR];
    uint64_t n_offsets = 0, n_counts = 0, tables = 0;
    int n_far = 0;
    bool said_samples = false;
    f->form = (struct vp_form){.bits = 1, .samples = 0, .format = 1, .photometric = PHOTO_NOT_SAID, .planar = 1,
                               .orientation = 1, .compression = 1, .colours = t->colours,
                               .shown_white = t->shown_white};
    f->rows_per_strip = INT64_MAX;
    f->fill_order = 1;
    f->resolution_unit = 2;
    for (int i = 0; i < n; i++, raw += size) {
        struct entry e = {.tag = (uint16_t)get(t, raw, 2),
                          .type = (uint16_t)get(t, raw + 2, 2),
                          .count = get(t, raw + 4, word),
                          .raw = raw + 4 + word};
        size_t bytes;
        if (!type_bytes(e.type) || e.count == 0)
            continue;
        if (!vp_mul_size(&bytes, e.count, (size_t)type_bytes(e.type)) || bytes > (size_t)INT64_MAX)
            return vp_tiff_fail(t, err, "tag %u claims %llu values", e.tag, (unsigned long long)e.count);
        e.far = bytes > (size_t)word;
        if (e.far) {
            e.offset = get(t, e.raw, word);
            if (e.offset > INT64_MAX)
                return vp_tiff_fail(t, err, "tag %u lies at byte %llu", e.tag, (unsigned long long)e.offset);
            if (e.offset + bytes > f->end)
                f->end = e.offset + bytes;
        }
        const enum form_kind kind = kind_of(t, e.tag);
        if (e.tag == TAG_UIC2 && e.count < INT64_MAX / 64) {
            f->planes = (int64_t)e.count;
            f->announcer = TAG_UIC2;
            bytes *= 3;
            f->end = e.far && e.offset + bytes > f->end ? e.offset + bytes : f->end;
        }
        n_offsets = kind == OFFSETS ? e.count : n_offsets;
        n_counts = kind == SIZES ? e.count : n_counts;
        said_samples = said_samples || e.tag == TAG_SAMPLES_PER_PIXEL;
        if (kind != NEAR && (want_text || kind != MEANING)) {
            tables += bytes;
            if (n_far == MAX_FAR)
                return vp_tiff_fail(t, err, "its directory repeats tag %u", e.tag);
            far[n_far++] = e;
        } else {
            near_values(t, &e, f);
        }
    }
    if (f->form.nx <= 0 || f->form.ny <= 0)
        return vp_tiff_fail(t, err, "expected a width and a height, got %lldx%lld", (long long)f->form.nx,
                            (long long)f->form.ny);
    struct vp_form *form = &f->form; /* as libtiff has it: the first JPEG in TIFF did without a count */
    if (!said_samples)
        form->samples = form->compression == CODEC_OLD_JPEG && form->photometric == PHOTO_YCBCR ? 3 : 1;
    if (form->samples == 0)
        return vp_tiff_fail(t, err, "pixels of 0 samples");
    if (spend(t, tables, err) || strip_arrays(t, f, n_offsets, n_counts, err))
        return -1;
    vp_sort(far, (size_t)n_far, sizeof *far, by_offset);
    const int rc = far_values(t, f, far, n_far, err);
    t->shown_white = t->shown_white || (f->text && vp_is_imagej(f->text));
    form->shown_white = t->shown_white;
    vp_form_judge(form);
    find_sparse(f);
    return rc;
}

int vp_tiff_ifd(struct vp_tiff *t, uint64_t offset, bool want_text, struct vp_ifd *f, struct vp_err *err)
{
    unsigned char raw[MAX_ENTRIES * 20 + 8];
    const size_t count_size = t->big ? 8 : 2, entry_size = t->big ? 20 : 12, word = t->big ? 8 : 4;
    *f = (struct vp_ifd){0};
    if (offset > INT64_MAX)
        return vp_tiff_fail(t, err, "its directory lies at byte %llu", (unsigned long long)offset);
    int rc = fetch(t, offset, raw, count_size, err);
    const uint64_t n = rc ? 1 : get(t, raw, (int)count_size);
    if (n == 0 || n > MAX_ENTRIES)
        return vp_tiff_fail(t, err, "a directory of %llu entries: expected 1 to %d", (unsigned long long)n,
                            MAX_ENTRIES);
    const size_t size = (size_t)n * entry_size;
    if (!rc)
        rc = spend(t, size, err) ? -1 : fetch(t, offset + count_size, raw, size + word, err);
    if (!rc) {
        f->next = get(t, raw + size, (int)word);
        f->end = offset + count_size + size + word;
        rc = parse(t, raw, (int)n, want_text, f, err);
    }
    return rc == 1 ? vp_tiff_disorder(t, true, err) : rc;
}

void vp_ifd_free(struct vp_ifd *f)
{
    free(f->offset);
    free(f->count);
    free(f->text);
    free(f->palette);
    free(f->uic2);
    f->offset = f->count = NULL;
    f->text = NULL;
    f->palette = NULL;
    f->uic2 = NULL;
}

bool vp_ifd_plain(const struct vp_ifd *f)
{
    return !f->tiled && !f->sparse && f->form.compression == CODEC_NONE && f->fill_order == 1 && f->form.direct;
}

int vp_ifd_check_strips(const struct vp_tiff *t, const struct vp_ifd *f, struct vp_err *err)
{
    const size_t row = (size_t)f->form.nx * vp_type_size(f->form.type);
    for (int64_t i = 0; i < f->n_strips; i++) {
        const uint64_t want = (uint64_t)vp_min64(f->rows_per_strip, f->form.ny - i * f->rows_per_strip) * row;
        if (f->count[i] == 0)
            f->count[i] = want; /* left out by some writers */
        if (f->count[i] < want)
            return vp_tiff_fail(t, err, "strip %lld: expected %llu bytes, its directory says %llu", (long long)i,
                                (unsigned long long)want, (unsigned long long)f->count[i]);
        if (f->offset[i] > INT64_MAX / 2 || f->offset[i] == 0)
            return vp_tiff_fail(t, err, "strip %lld lies at byte %llu", (long long)i, (unsigned long long)f->offset[i]);
        f->count[i] = want;
    }
    return 0;
}

/* Reports why no page can be made of it: 0 if one can. */
static int problem(const struct vp_tiff *t, const struct vp_ifd *f, struct vp_err *err)
{
    if (!*f->form.problem)
        return 0;
    vp_tiff_fail(t, err, "%s", f->form.problem);
    return vp_hint(err, "%s", f->form.hint);
}

/* Sets what other tags than the text say. */
static int other_meaning(struct vp_ifd *f, struct vp_stack *s)
{
    const struct vp_form *form = &f->form;
    if (f->planes > 1 && f->announcer == TAG_UIC2 && !vp_meta_get(&s->meta, "axes") &&
        (f->uic2 ? vp_meta_metamorph(&s->meta, f->uic2, f->planes) : vp_axes_lose(&s->meta)))
        return -1;
    f->announcer = f->images > f->planes ? TAG_IMAGE_DESCRIPTION : f->announcer;
    f->images = vp_max64(f->images, f->planes);
    if (vp_form_mapped(form)) /* a scale would be that of the index */
        vp_meta_set(&s->meta, "scale", NULL);
    return f->palette && form->photometric == PHOTO_PALETTE && form->samples == 1 && form->type == VP_U8
           ? vp_meta_palette(&s->meta, f->palette, (int64_t)1 << form->bits) : 0;
}

int vp_ifd_stack(const struct vp_tiff *t, struct vp_ifd *f, struct vp_stack *s, struct vp_err *err)
{
    const struct vp_form *form = &f->form;
    if (problem(t, f, err))
        return -1;
    *s = (struct vp_stack){.nx = vp_form_nx(form), .ny = vp_form_ny(form), .pages = -1, .type = form->type};
    if (!vp_page_bytes(s))
        return vp_tiff_fail(t, err, "a page of %lldx%lld %s is too large", (long long)s->nx, (long long)s->ny,
                            vp_type_name(s->type));
    const double xres = form->turned ? f->yres : f->xres, yres = form->turned ? f->xres : f->yres;
    const struct vp_page_tags tags = {xres, yres, f->resolution_unit, form->type, form->nx, form->ny, form->samples};
    int rc = f->text ? vp_meta_parse(&s->meta, f->text, strlen(f->text), &tags) : 0;
    f->images = f->text ? vp_foreign_images(f->text, &tags) : 0;
    rc = rc || other_meaning(f, s) ? -1 : 0;
    /* Inches are what image programs write when they know nothing. */
    if (!rc && f->resolution_unit == RESOLUTION_CM && xres > 0 && yres > 0 &&
        !vp_meta_get(&s->meta, "voxel") && !vp_meta_get(&s->meta, "unit"))
        rc = vp_meta_voxel(&s->meta, 10 / xres, 10 / yres, 0);
    return rc ? vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", t->in->name) : 0;
}

int vp_ifd_check_page(const struct vp_tiff *t, const struct vp_ifd *f, const struct vp_stack *s, int64_t channels,
                      struct vp_err *err)
{
    const struct vp_form *form = &f->form;
    if (problem(t, f, err))
        return -1;
    char now[40] = "", first[40] = "";
    if (form->channels != channels) {
        snprintf(first, sizeof first, ", %lld channels", (long long)channels);
        snprintf(now, sizeof now, ", %lld channels", (long long)form->channels);
    }
    if (vp_form_nx(form) == s->nx && vp_form_ny(form) == s->ny && form->type == s->type && !*now)
        return 0;
    vp_tiff_fail(t, err, "expected %lldx%lld %s%s as page %lld, got %lldx%lld %s%s", (long long)s->nx, (long long)s->ny,
                 vp_type_name(s->type), first, (long long)t->first, (long long)vp_form_nx(form),
                 (long long)vp_form_ny(form), vp_type_name(form->type), now);
    return vp_hint(err, t->in->anywhere ? "pick pages that are alike, as in: img-cat --pages 0 FILE"
                        : "give the file name instead, or use --spool, and pick pages that are alike with --pages");
}
