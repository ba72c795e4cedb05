/* SPDX-License-Identifier: BSD-3-Clause */
/* A TIFF on a disk, in any order and by libtiff unless it is plain: read or rejected, and rows equal those of the page.
 * The same with palettes resolved, and of the last page if pages differ. */
#include "fuzz.h"
#include "stack/reader.h"

static int pick_last(void *ctx, const char *name, const int64_t *first, int64_t images, bool *keep, struct vp_err *err)
{
    (void)ctx;
    (void)name;
    (void)err;
    MUST(images > 0 && first[images] >= images);
    keep[images - 1] = true;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_read(data, n, false, NULL);
    fuzz_read_as(data, n, false, &(struct vp_reader_options){.colours = true, .pick = pick_last});
    return 0;
}
