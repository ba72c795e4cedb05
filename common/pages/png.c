/* SPDX-License-Identifier: BSD-3-Clause */
/* PNG (ISO/IEC 15948): signature, IHDR, IDAT chunks of one zlib stream, IEND; each row is filtered by the rule of the
 * specification's section 12.8 (least sum of absolute differences). Animated PNG (PNG, third edition): acTL before the
 * frames, fcTL before each, and the data of all but the first in fdAT chunks, which are numbered along with fcTL. */
#include "pages/png.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/render.h"
#include "stack/outfile.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 1 << 16, N_FILTERS = 5 };

static void put_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Writes a chunk of n bytes lying at buf + 8; buf has room for 12 more than n. */
static int write_chunk(struct vp_outfile *f, const char *type, uint8_t *buf, size_t n, struct vp_err *err)
{
    put_be32(buf, (uint32_t)n);
    memcpy(buf + 4, type, 4);
    put_be32(buf + 8 + n, (uint32_t)crc32(0, buf + 4, (uInt)(n + 4)));
    return vp_outfile_write(f, buf, n + 12, err);
}

static uint8_t paeth(int a, int b, int c)
{
    const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);

    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Writes the row of n bytes, `pixel` of each, under filter type f into out (one byte of type, n of data); returns the
 * sum of absolute differences. */
static uint64_t filter_row(int f, const uint8_t *row, const uint8_t *up, int pixel, int64_t n, uint8_t *out)
{
    uint64_t sum = 0;

    *out++ = (uint8_t)f;
    for (int64_t i = 0; i < n; i++) {
        const int a = i < pixel ? 0 : row[i - pixel], b = up[i], c = i < pixel ? 0 : up[i - pixel];
        const int guess = f == 0 ? 0 : f == 1 ? a : f == 2 ? b : f == 3 ? (a + b) / 2 : paeth(a, b, c);
        out[i] = (uint8_t)(row[i] - guess);
        sum += (uint64_t)abs((int8_t)out[i]);
    }
    return sum;
}

struct png {
    struct vp_outfile *file;
    z_stream z;
    uint8_t *chunk;     /* CHUNK bytes of data with room for a chunk's frame */
    uint32_t *sequence; /* number of the next chunk; NULL: IDAT, which has none */
};

/* Deflates n bytes into IDAT or fdAT chunks; the last ones are flushed with `finish`. */
static int compress_bytes(struct png *p, const uint8_t *data, size_t n, bool finish, struct vp_err *err)
{
    const size_t number = p->sequence ? 4 : 0;
    int state;

    p->z.next_in = (Bytef *)data;
    p->z.avail_in = (uInt)n;
    do {
        state = deflate(&p->z, finish ? Z_FINISH : Z_NO_FLUSH);
        const size_t have = CHUNK - p->z.avail_out;
        if (have == CHUNK || (state == Z_STREAM_END && have)) {
            if (p->sequence)
                put_be32(p->chunk + 8, (*p->sequence)++);
            if (write_chunk(p->file, p->sequence ? "fdAT" : "IDAT", p->chunk, number + have, err) < 0)
                return -1;
            p->z.next_out = p->chunk + 8 + number;
            p->z.avail_out = CHUNK;
        }
    } while (finish ? state != Z_STREAM_END : p->z.avail_in > 0);
    return 0;
}

/* Writes the rows, each filtered by the rule that leaves least. `memory`: `line` bytes for two of them, zeros, and
 * for each trial. */
static int write_rows(struct png *p, const uint8_t *pixels, int colours, int64_t w, int64_t height, int zoom,
                      size_t line, uint8_t *memory, struct vp_err *err)
{
    uint8_t *const trial = memory + 2 * line;

    for (int64_t y = 0; y < height; y++) {
        uint8_t *row = memory + (y & 1) * (int64_t)line, *up = memory + (~y & 1) * (int64_t)line;
        for (int64_t x = 0; x < w * zoom; x++)
            memcpy(row + x * colours, pixels + (y / zoom * w + x / zoom) * colours, (size_t)colours);
        int best = 0;
        uint64_t least = UINT64_MAX;
        for (int k = 0; k < N_FILTERS; k++) {
            const uint64_t sum = filter_row(k, row, up, colours, w * zoom * colours, trial + (size_t)k * line);
            if (sum < least) {
                least = sum;
                best = k;
            }
        }
        if (compress_bytes(p, trial + (size_t)best * line, line, false, err) < 0)
            return -1;
    }
    return compress_bytes(p, NULL, 0, true, err);
}

/* Writes the chunks of one image. */
static int write_image(struct vp_outfile *f, const uint8_t *pixels, int colours, int64_t w, int64_t h, int zoom,
                       uint32_t *sequence, struct vp_err *err)
{
    const size_t line = (size_t)(w * zoom * colours) + 1, frame = 16;
    uint8_t *const memory = vp_alloc(1, CHUNK + frame + (2 + N_FILTERS) * line, "picture", err);
    if (!memory)
        return -1;
    struct png p = {.file = f, .chunk = memory, .sequence = sequence,
                    .z = {.next_out = memory + (sequence ? 12 : 8), .avail_out = CHUNK}};
    int rc = -1;
    if (deflateInit(&p.z, Z_DEFAULT_COMPRESSION) != Z_OK)
        vp_fail(err, VP_ERESOURCE, "zlib: out of memory");
    else
        rc = write_rows(&p, pixels, colours, w, h * zoom, zoom, line, memory + CHUNK + frame, err);
    deflateEnd(&p.z);
    free(memory);
    return rc;
}

/* Writes the signature and IHDR. */
static int write_head(struct vp_outfile *f, int colours, int64_t width, int64_t height, struct vp_err *err)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uint8_t head[25] = {0};

    if (width > VP_SIDE_MAX || height > VP_SIDE_MAX)
        return vp_fail(err, VP_ERESOURCE, "picture: expected sides of 1 to %d pixels, got %lld x %lld",
                       VP_SIDE_MAX, (long long)width, (long long)height);
    put_be32(head + 8, (uint32_t)width);
    put_be32(head + 12, (uint32_t)height);
    head[16] = 8; /* bits; gray, deflate, adaptive filters and no interlace are all 0 */
    head[17] = colours > 1 ? 2 : 0;
    return vp_outfile_write(f, signature, sizeof signature, err) || write_chunk(f, "IHDR", head, 13, err) ? -1 : 0;
}

static int write_end(struct vp_outfile *f, struct vp_err *err)
{
    return write_chunk(f, "IEND", (uint8_t[12]){0}, 0, err);
}

int vp_png_write(struct vp_outfile *f, const uint8_t *pixels, int colours, int64_t w, int64_t h, int zoom,
                 struct vp_err *err)
{
    return write_head(f, colours, w * zoom, h * zoom, err)
           || write_image(f, pixels, colours, w, h, zoom, NULL, err) || write_end(f, err) ? -1 : 0;
}

int vp_apng_open(const struct vp_apng *a, struct vp_err *err)
{
    uint8_t control[20] = {0}; /* plays: 0, for ever */

    if (a->frames < 1 || a->frames > INT32_MAX / 4)
        return vp_fail(err, VP_ERESOURCE, "animation: expected 1 to %d frames, got %lld", INT32_MAX / 4,
                       (long long)a->frames);
    put_be32(control + 8, (uint32_t)a->frames);
    return write_head(a->file, a->colours, a->w * a->zoom, a->h * a->zoom, err)
           || write_chunk(a->file, "acTL", control, 8, err) ? -1 : 0;
}

int vp_apng_add(struct vp_apng *a, const uint8_t *pixels, struct vp_err *err)
{
    uint8_t control[38] = {0}; /* the whole picture, which replaces the last one: offsets, disposal and blending are 0 */
    const bool slow = a->rate < 1; /* numerator and denominator have 16 bits */
    const unsigned over = slow ? (unsigned)lrint(1000 / a->rate) : 1000;
    const unsigned under = slow ? 1000 : (unsigned)lrint(fmin(65535, 1000 * a->rate));

    put_be32(control + 8, a->sequence++);
    put_be32(control + 12, (uint32_t)(a->w * a->zoom));
    put_be32(control + 16, (uint32_t)(a->h * a->zoom));
    put_be32(control + 28, (uint32_t)over << 16 | (uint32_t)under);
    if (write_chunk(a->file, "fcTL", control, 26, err))
        return -1;
    return write_image(a->file, pixels, a->colours, a->w, a->h, a->zoom, a->done++ ? &a->sequence : NULL, err);
}

int vp_apng_end(const struct vp_apng *a, struct vp_err *err)
{
    assert(a->done == a->frames);
    return write_end(a->file, err);
}
