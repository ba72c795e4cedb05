/* Work on pages that several threads share (internal to stack/). */
#ifndef VP_SHARE_H
#define VP_SHARE_H

#include <stddef.h>
#include <stdint.h>

struct vp_err;

/* Call work(ctx, page, y0, y1) for all rows [0, height) of `pages` pages, in pieces that keep every thread busy
 * but do not cross pages; row: bytes of a row. After a failure no more is started than what comes before it;
 * the error of the first piece in order is the one that is kept. 0 or -1. */
int vp_share_rows(int64_t pages, int64_t height, size_t row, int threads,
                  int (*work)(void *ctx, int64_t page, int64_t y0, int64_t y1, struct vp_err *err), void *ctx,
                  struct vp_err *err);

#endif
