/* SPDX-License-Identifier: BSD-3-Clause */
/* PNG (ISO/IEC 15948), not interlaced: a page of grey, or one for each sample of a pixel; of a palette the index. An image
 * is inflated as a whole when its rows are needed. */
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "stack/samples.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIGNATURE = 8, CHUNK = 12, IHDR_BYTES = 13, GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6,
       MOST_EXPANSION = 1032 };

struct png {
    unsigned char *file; /* all of it */
    size_t bytes;
    int depth;            /* bits of a sample as stored */
    size_t row;           /* bytes of a row as stored, without its filter */
    unsigned char *pixels; /* inflated, rows with their filters undone; NULL: not yet */
    unsigned char colours[3 * VP_PALETTE];
    bool expand;          /* the palette is looked up */
    pthread_mutex_t lock; /* protects `pixels` */
};

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, SIGNATURE, err);
    (void)o;
    return n < 0 ? -1 : n == SIGNATURE && !memcmp(head, "\x89PNG\r\n\x1a\n", SIGNATURE);
}

static uint32_t number(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads all of the input. */
static int slurp(struct vp_source *s, struct png *p, struct vp_err *err)
{
    enum { BLOCK = 1 << 16 };
    int64_t room = 0, n = 0, got = 1;
    if (s->in.anywhere && vp_memory_claim(s->in.size, "reading it", s->name, err))
        return -1;
    for (; got > 0; n += got) {
        if (n + BLOCK > room) {
            room = s->in.anywhere ? (int64_t)s->in.size + BLOCK : 2 * room + 2 * BLOCK;
            unsigned char *const more = vp_memory_claim((uint64_t)room, "reading it", s->name, err)
                                            ? NULL : realloc(p->file, (size_t)room);
            if (!more)
                return err->code ? -1 : vp_fail(err, VP_ERESOURCE, "%s: out of memory", s->name);
            p->file = more;
        }
        got = s->in.anywhere ? vp_input_at(&s->in, (uint64_t)n, p->file + n, (size_t)(room - n), err)
                             : vp_input_read(&s->in, p->file + n, BLOCK, err);
        if (got < 0)
            return -1;
    }
    p->bytes = (size_t)n;
    s->need += p->bytes;
    return 0;
}

/* Finds the next chunk at or after *at: 1, its data and length; 0: IEND; -1. */
static int chunk(struct vp_source *s, const struct png *p, size_t *at, const unsigned char **data, uint32_t *n,
                 struct vp_err *err)
{
    if (p->bytes < *at + CHUNK)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected a chunk at %zu, got %zu bytes", s->name, *at, p->bytes);
    *n = number(p->file + *at);
    *data = p->file + *at + 8;
    if (*n > p->bytes - *at - CHUNK)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected a chunk of %u bytes at %zu, got %zu", s->name, *n, *at,
                       p->bytes - *at - CHUNK);
    *at += CHUNK + *n;
    return memcmp(*data - 4, "IEND", 4) != 0;
}

/* Reads the colours of a palette. */
static int read_palette(struct vp_source *s, struct png *p, bool colours, struct vp_err *err)
{
    size_t at = SIGNATURE;
    const unsigned char *data = NULL;
    uint32_t n = 0;
    uint16_t map[3 * VP_PALETTE] = {0};
    int rc;
    while ((rc = chunk(s, p, &at, &data, &n, err)) == 1 && memcmp(data - 4, "PLTE", 4))
        ;
    if (rc < 1 || n > sizeof p->colours || n % 3)
        return rc < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: expected a palette of at most 256 colours", s->name);
    memcpy(p->colours, data, n);
    const int64_t entries = INT64_C(1) << p->depth;
    for (int64_t i = 0; i < 3 * entries; i++)
        map[i % 3 * entries + i / 3] = (uint16_t)(257 * p->colours[i]);
    p->expand = colours;
    if (colours)
        s->channels = 3;
    else if (vp_meta_palette(&s->stack.meta, map, entries))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name);
    return 0;
}

static int open_png(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    static const int samples[] = {[GREY] = 1, 0, [RGB] = 3, [PALETTE] = 1, [GREY_ALPHA] = 2, 0, [RGB_ALPHA] = 4};
    struct png *const p = s->own = vp_alloc(1, sizeof *p, s->name, err);
    if (!p)
        return -1;
    pthread_mutex_init(&p->lock, NULL);
    if (slurp(s, p, err))
        return -1;
    const unsigned char *const h = p->file + SIGNATURE + 8;
    if (p->bytes < SIGNATURE + CHUNK + IHDR_BYTES || memcmp(h - 4, "IHDR", 4))
        return vp_fail(err, VP_ERUN, "%s: truncated: expected the header of a PNG, got %zu bytes", s->name, p->bytes);
    const int depth = h[8], colour = h[9];
    const bool known = colour <= RGB_ALPHA && samples[colour], small = depth == 1 || depth == 2 || depth == 4;
    if (!known || h[10] || h[11] || !(depth == 8 || (small && (colour == GREY || colour == PALETTE))
                                      || (depth == 16 && colour != PALETTE)))
        return vp_fail(err, VP_ERUN, "%s: expected a PNG of 1 to 16 bits, got %d bits of colour type %d", s->name, depth,
                       colour);
    if (h[12])
        return vp_fail(err, VP_ERUN, "%s: expected rows in order, got an interlaced PNG", s->name);
    p->depth = depth;
    s->channels = samples[colour];
    if (vp_samples_stack(s, 2, (int64_t[]){number(h), number(h + 4)}, depth == 16 ? VP_U16 : VP_U8, err)
        || (colour == PALETTE && read_palette(s, p, o->colours, err)))
        return -1;
    p->row = ((size_t)s->stack.nx * (size_t)(depth * samples[colour]) + 7) / 8;
    size_t all;
    if (!vp_mul_size(&all, p->row + 1, (size_t)s->stack.ny) || all / MOST_EXPANSION > p->bytes)
        return vp_fail(err, VP_ERUN, "%s: %zu bytes of a PNG cannot hold %lldx%lld pixels", s->name, p->bytes,
                       (long long)s->stack.nx, (long long)s->stack.ny);
    static const char *const names[] = {"", "grey alpha", "red green blue", "red green blue alpha"};
    s->stack.pages = s->channels;
    s->seekable = true;
    s->by_rows = false;
    s->decoding[0] = s->decoding[1] = all;
    if (s->channels > 1 && (vp_axes_channels(&s->stack.meta, s->channels, 1)
                            || vp_meta_set(&s->stack.meta, "channels", names[s->channels - 1])))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name);
    return 0;
}

/* Undoes the filter of a row of n bytes, whose pixels have `step` bytes (at least 1). */
static bool undo_filter(unsigned char *row, const unsigned char *above, size_t n, size_t step, int filter)
{
    for (size_t i = 0; i < n; i++) {
        const int a = i >= step ? row[i - step] : 0, b = above ? above[i] : 0, c = above && i >= step ? above[i - step] : 0;
        const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
        const int guess[] = {0, a, b, (a + b) / 2, pa <= pb && pa <= pc ? a : pb <= pc ? b : c};
        row[i] = (unsigned char)(row[i] + guess[filter]);
    }
    return true;
}

/* Inflates all data chunks, and undoes the filters. */
static int decode(struct vp_source *s, struct png *p, struct vp_err *err)
{
    const size_t line = p->row + 1, all = line * (size_t)s->stack.ny;
    const int stored = p->expand ? 1 : (int)s->channels;
    const size_t step = (size_t)(p->depth * stored) < 8 ? 1 : (size_t)(p->depth * stored) / 8;
    size_t at = SIGNATURE, done = 0;
    const unsigned char *data = NULL;
    uint32_t n = 0;
    z_stream z = {0};
    unsigned char *const pixels = vp_alloc_raw(all, 1, "a PNG", err);
    if (!pixels)
        return -1;
    int rc = inflateInit(&z) == Z_OK ? 1 : vp_fail(err, VP_ERESOURCE, "%s: out of memory", s->name), state = Z_OK;
    while (rc == 1 && (rc = chunk(s, p, &at, &data, &n, err)) == 1) {
        if (memcmp(data - 4, "IDAT", 4))
            continue;
        if (crc32(crc32(0, NULL, 0), data - 4, n + 4) != number(data + n))
            rc = vp_fail(err, VP_ERUN, "%s: a chunk of its samples is damaged: its checksum is another", s->name);
        z.next_in = (unsigned char *)data;
        z.avail_in = n;
        while (rc == 1 && z.avail_in && done < all && state == Z_OK) {
            const size_t most = all - done < 1u << 30 ? all - done : 1u << 30;
            z.next_out = pixels + done;
            z.avail_out = (unsigned)most;
            state = inflate(&z, Z_NO_FLUSH);
            done += most - z.avail_out;
            if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
                rc = vp_fail(err, VP_ERUN, "%s: its samples are damaged: %s", s->name, z.msg ? z.msg : "no zlib stream");
        }
    }
    inflateEnd(&z);
    if (!rc && done < all)
        rc = vp_fail(err, VP_ERUN, "%s: truncated: expected %zu bytes, inflated, got %zu", s->name, all, done);
    for (int64_t y = 0; !rc && y < s->stack.ny; y++) {
        unsigned char *const row = pixels + (size_t)y * line;
        if (*row > 4)
            rc = vp_fail(err, VP_ERUN, "%s: row %lld: expected a filter of 0 to 4, got %d", s->name, (long long)y, *row);
        else if (*row)
            undo_filter(row + 1, y ? row + 1 - line : NULL, p->row, step, *row);
    }
    if (rc)
        free(pixels);
    else
        p->pixels = pixels;
    return rc;
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct png *const p = s->own;
    const int64_t nx = s->stack.nx, stored = p->expand ? 1 : s->channels;
    unsigned char *to = buf;
    pthread_mutex_lock(&p->lock);
    const int rc = p->pixels ? 0 : decode(s, p, err);
    for (int64_t y = y0; !rc && y < y1; y++) {
        const unsigned char *const row = p->pixels + (size_t)y * (p->row + 1) + 1;
        for (int64_t x = 0; x < nx; x++) {
            const int64_t i = p->expand ? x : x * stored + page;
            if (p->depth == 16) {
                const uint16_t v = (uint16_t)(row[2 * i] << 8 | row[2 * i + 1]);
                memcpy(to, &v, sizeof v);
                to += sizeof v;
                continue;
            }
            const int per = 8 / p->depth, shift = 8 - p->depth * (int)(i % per + 1);
            const int v = row[i / per] >> shift & ((1 << p->depth) - 1);
            *to++ = p->expand ? p->colours[3 * v + page] : (unsigned char)v;
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (!rc && s->in.read)
        *s->in.read += (uint64_t)(y1 - y0) * (uint64_t)nx * vp_type_size(s->stack.type);
    return rc;
}

static void rest(struct vp_source *s)
{
    struct png *const p = s->own;
    pthread_mutex_lock(&p->lock);
    free(p->pixels);
    p->pixels = NULL;
    pthread_mutex_unlock(&p->lock);
}

static void close_png(struct vp_source *s)
{
    struct png *const p = s->own;
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->pixels);
    free(p->file);
    free(p);
}

const struct vp_format vp_png = {
    .name = "PNG", .sniff = sniff, .open = open_png, .rows = rows, .rest = rest, .close = close_png,
};
