/* SPDX-License-Identifier: BSD-3-Clause */
/* A TIFF in a pipe, as another program may send it: read or rejected. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_read(data, n, true, NULL);
    return 0;
}
