/* SPDX-License-Identifier: BSD-3-Clause */
/* Many pages at once, by several threads. */
#include "stack/reader.h"
#include "stack/share.h"
#include "stack/source.h"

struct bands {
    struct vp_reader *r;
    int64_t page, y0;
    void *const *raw;
    float *const *f32;
    bool count;
    _Atomic int64_t bad;
};

static int read_piece(void *ctx, int64_t i, int64_t y0, int64_t y1, struct vp_err *err)
{
    struct bands *b = ctx;
    const struct vp_stack *s = vp_reader_stack(b->r);
    const size_t skip = (size_t)y0 * (size_t)s->nx; /* samples */
    const int64_t page = b->page + i;
    y0 += b->y0;
    y1 += b->y0;
    if (b->raw)
        return vp_reader_rows(b->r, page, y0, y1, (char *)b->raw[i] + skip * vp_type_size(s->type), err);
    int64_t bad = 0;
    const int rc = vp_reader_rows_counted(b->r, page, y0, y1, b->f32[i] + skip, b->count ? &bad : NULL, err);
    if (bad)
        b->bad += bad;
    return rc;
}

int vp_reader_bands(struct vp_reader *r, int64_t page, int64_t n, int64_t y0, int64_t y1, void *const *raw,
                    float *const *f32, int64_t *bad, int threads, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(r);
    struct bands b = {r, page, y0, raw, f32, bad != NULL, 0};
    const int rc =
        vp_share_rows(n, y1 - y0, (size_t)s->nx * vp_type_size(s->type), threads, read_piece, &b, err);
    if (bad)
        *bad += b.bad;
    return rc;
}

/* The next n pages into raw or f32; how many there were. */
static int64_t next_pages(struct vp_reader *r, int64_t n, void *const *raw, float *const *f32, int64_t *bad,
                          int threads, struct vp_err *err)
{
    if (vp_reader_concurrent(r) && threads > 1) {
        const int64_t at = vp_reader_position(r), left = vp_reader_stack(r)->pages - at;
        n = n < left ? n : left;
        if (vp_reader_bands(r, at, n, 0, vp_reader_stack(r)->ny, raw, f32, bad, threads, err) ||
            vp_reader_seek(r, at + n, err))
            return -1;
        return n;
    }
    for (int64_t i = 0; i < n; i++) {
        const int rc = raw ? vp_reader_next(r, raw[i], err) : vp_reader_next_f32(r, f32[i], bad, err);
        if (rc <= 0)
            return rc < 0 ? -1 : i;
    }
    return n;
}

int64_t vp_reader_pages(struct vp_reader *r, int64_t n, void *const *pages, int threads, struct vp_err *err)
{
    return next_pages(r, n, pages, NULL, NULL, threads, err);
}

int64_t vp_reader_pages_f32(struct vp_reader *r, int64_t n, float *const *pages, int64_t *bad, int threads,
                            struct vp_err *err)
{
    return next_pages(r, n, NULL, pages, bad, threads, err);
}
