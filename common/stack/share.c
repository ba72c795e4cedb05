/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages in pieces, for several threads. */
#include "base/err.h"
#include "stack/source.h"

/* A piece is large enough to forget the system call and small enough to share out evenly. */
enum { LARGE_PIECE = 2 << 20, SMALL_PIECE = 256 << 10, PIECES_A_THREAD = 4 };

int vp_share_rows(int64_t pages, int64_t height, size_t row, int threads,
                  int (*work)(void *ctx, int64_t page, int64_t y0, int64_t y1, struct vp_err *err), void *ctx,
                  struct vp_err *err)
{
    if (pages <= 0 || height <= 0)
        return 0;
    const double all = (double)row * (double)height * (double)pages; /* only to find a good size */
    const double even = threads > 1 ? all / PIECES_A_THREAD / threads : all;
    const size_t piece = even > LARGE_PIECE ? LARGE_PIECE : even < SMALL_PIECE ? SMALL_PIECE : (size_t)even;
    int64_t rows = (int64_t)(piece / row);
    rows = rows < 1 ? 1 : rows < height ? rows : height;
    const int64_t per_page = (height - 1) / rows + 1, pieces = pages * per_page;
    /* small pages are taken a few at a time */
    const int64_t some = per_page > 1 ? 1 : (int64_t)(piece / (row * (size_t)height)), chunk = some > 1 ? some : 1;
    const int64_t shares = (pieces - 1) / chunk + 1;
    const int n = threads < 1 ? 1 : shares < threads ? (int)shares : threads;
    _Atomic int64_t failed = INT64_MAX; /* the first piece, in order, that did */
#pragma omp parallel for num_threads(n) schedule(dynamic, chunk) if (n > 1)
    for (int64_t i = 0; i < pieces; i++) {
        struct vp_err why = VP_ERR_INIT;
        const int64_t page = i / per_page, y0 = i % per_page * rows, y1 = height - y0 < rows ? height : y0 + rows;
        if (i > failed || !work(ctx, page, y0, y1, &why))
            continue;
#pragma omp critical(vp_share_failed)
        if (i < failed) {
            failed = i;
            *err = why;
        }
    }
    return failed == INT64_MAX ? 0 : -1;
}
