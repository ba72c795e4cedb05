/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading pages, and rows of them, by several threads where that can be. */
#include "stack/reader.h"
#include "stack/source.h"

struct piece {
    struct vp_reader *r;
    const struct vp_wanted *w;
    void *const *to;
    int64_t page, y0;
    size_t row; /* bytes of a row in `to` */
    _Atomic int64_t bad;
};

static int read_piece(void *ctx, int64_t i, int64_t y0, int64_t y1, struct vp_err *err)
{
    struct piece *p = ctx;
    int64_t bad = 0;
    const int rc = vp_reader_rows(p->r, p->page + i, p->y0 + y0, p->y0 + y1, p->w->f32,
                                  (char *)p->to[i] + (size_t)y0 * p->row, p->w->bad ? &bad : NULL, err);
    if (bad)
        p->bad += bad;
    return rc;
}

/* Rows [y0, y1) of n pages that are there. */
static int read_rows(struct vp_reader *r, const struct vp_wanted *w, int64_t page, int64_t n, int64_t y0, int64_t y1,
                     void *const *to, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(r);
    const size_t nx = (size_t)s->nx;
    struct piece p = {r, w, to, page, y0, nx * (w->f32 ? sizeof(float) : vp_type_size(s->type)), 0};
    if (!vp_reader_concurrent(r) || w->threads < 2) {
        int rc = 0;
        for (int64_t i = 0; !rc && i < n; i++)
            rc = vp_reader_rows(r, page + i, y0, y1, w->f32, to[i], w->bad, err);
        return rc;
    }
    const int rc = vp_share_rows(n, y1 - y0, nx * vp_type_size(s->type), w->threads, read_piece, &p, err);
    if (w->bad)
        *w->bad += p.bad;
    return rc;
}

int64_t vp_reader_read(struct vp_reader *r, const struct vp_wanted *w, void *const *to, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(r);
    const int64_t y1 = w->y1 ? w->y1 : s->ny;
    int64_t n = w->n;
    if (w->page != VP_NEXT)
        return read_rows(r, w, w->page, n, w->y0, y1, to, err) ? -1 : n;
    if (vp_reader_concurrent(r) && w->threads > 1) {
        const int64_t at = vp_reader_position(r), left = s->pages - at;
        n = n < left ? n : left;
        return read_rows(r, w, at, n, 0, s->ny, to, err) || vp_reader_seek(r, at + n, err) ? -1 : n;
    }
    for (int64_t i = 0; i < n; i++) {
        const int rc = vp_reader_step(r, w->f32, to[i], w->bad, err);
        if (rc <= 0)
            return rc < 0 ? -1 : i;
    }
    return n;
}
