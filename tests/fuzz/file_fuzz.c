/* SPDX-License-Identifier: BSD-3-Clause */
/* A TIFF on a disk, in any order and by libtiff where it is not plain: read or refused, and rows are those of the
 * page. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_read(data, n, false, NULL);
    return 0;
}
