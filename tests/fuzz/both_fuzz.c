/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever can be read from a pipe reads the same from a disk. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct fuzz_stack a = fuzz_read(data, n, true, NULL);
    if (a.rc)
        return 0;
    const struct fuzz_stack b = fuzz_read(data, n, false, NULL);
    if (b.rc < 0)
        fprintf(stderr, "on a disk: %s\n", b.err.msg);
    MUST(b.rc == 0);
    MUST(a.nx == b.nx && a.ny == b.ny && a.type == b.type && a.pages == b.pages && a.sum == b.sum);
    return 0;
}
