/* SPDX-License-Identifier: BSD-3-Clause */
/* A source whose samples are values: the scale that its metadata record is undone while it is read. */
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 << 10 };

struct values {
    struct vp_source s;
    struct vp_source *of;
    double scale[2];
};

enum vp_type vp_type_of_values(enum vp_type stored)
{
    return stored == VP_F64 || (!vp_type_is_float(stored) && vp_type_size(stored) >= 4) ? VP_F64 : VP_F32;
}

/* Several threads may come here: the count only grows. */
static void count(struct values *v)
{
    const uint64_t now = v->of->bytes;
    uint64_t was = v->s.bytes;
    while (was < now && !atomic_compare_exchange_weak(&v->s.bytes, &was, now))
        continue;
}

static int begin(struct vp_source *s, int64_t page, struct vp_err *err)
{
    struct values *v = (struct values *)s;
    const int rc = v->of->begin(v->of, page, err);
    count(v);
    return rc;
}

/* In pieces that stay in the cache between being read and being converted. */
static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct values *v = (struct values *)s;
    const enum vp_type stored = v->of->stack.type;
    const size_t nx = (size_t)s->stack.nx, row = nx * vp_type_size(stored);
    int64_t step = s->by_rows ? (int64_t)(PIECE_BYTES / row) : y1 - y0;
    step = step < 1 ? 1 : step < y1 - y0 ? step : y1 - y0;
    void *piece = vp_alloc_raw((size_t)step, row, "rows to convert", err);
    int rc = piece ? 0 : -1;
    for (int64_t y = y0; !rc && y < y1; y += step) {
        const int64_t n = step < y1 - y ? step : y1 - y;
        rc = v->of->rows(v->of, page, y, y + n, piece, err);
        if (!rc)
            vp_unscale((char *)buf + (size_t)(y - y0) * nx * vp_type_size(s->stack.type), s->stack.type, piece, stored,
                       n * (int64_t)nx, v->scale);
    }
    free(piece);
    count(v);
    return rc;
}

static void rest(struct vp_source *s)
{
    struct values *v = (struct values *)s;
    if (v->of->rest)
        v->of->rest(v->of);
}

static void close_values(struct vp_source *s)
{
    struct values *v = (struct values *)s;
    v->of->close(v->of);
    vp_stack_free(&s->stack);
    free(v);
}

int vp_source_values(struct vp_source **s, const double scale[2], struct vp_err *err)
{
    struct values *v = calloc(1, sizeof *v);
    if (!v || vp_stack_copy(&v->s.stack, &(*s)->stack)) {
        free(v);
        vp_fail(err, VP_ERESOURCE, "%s: not enough memory", (*s)->name);
        (*s)->close(*s);
        *s = NULL;
        return -1;
    }
    v->of = *s;
    memcpy(v->scale, scale, sizeof v->scale);
    v->s.seekable = v->of->seekable;
    v->s.by_rows = v->of->by_rows;
    v->s.channels = v->of->channels;
    v->s.lost = v->of->lost;
    v->s.need = v->of->need;
    const uint64_t samples = v->s.by_rows ? 0 : vp_page_bytes(&v->of->stack); /* of rows that are read at once */
    for (int whole = 0; whole < 2; whole++)
        v->s.decoding[whole] = v->of->decoding[whole] + samples;
    v->s.name = v->of->name;
    v->s.begin = begin;
    v->s.rows = rows;
    v->s.rest = rest;
    v->s.close = close_values;
    v->s.stack.type = vp_type_of_values(v->of->stack.type);
    vp_meta_set(&v->s.stack.meta, "scale", NULL);
    count(v);
    *s = &v->s;
    return 0;
}
