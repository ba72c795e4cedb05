/* SPDX-License-Identifier: BSD-3-Clause */
/* A TIFF on a disk, in any order and by libtiff where it is not plain: read or refused, and rows are those of the
 * page. So is one whose palettes are looked up and, of pages that are not alike, the last. */
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
