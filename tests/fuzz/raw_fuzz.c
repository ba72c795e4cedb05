/* SPDX-License-Identifier: BSD-3-Clause */
/* A raw specification (the first line) over bytes (the rest): the same from pipe and disk. */
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, '\n', n) : NULL;
    const size_t length = end ? (size_t)(end - data) : n, skip = end ? length + 1 : n;
    char *const spec = fuzz_text(data, length);
    const struct fuzz_stack a = fuzz_read(data + skip, n - skip, true, spec);
    const struct fuzz_stack b = fuzz_read(data + skip, n - skip, false, spec);

    free(spec);
    if (a.rc == 0 && b.rc == 0)
        MUST(a.nx == b.nx && a.ny == b.ny && a.type == b.type && a.pages == b.pages && a.sum == b.sum);
    if (b.rc == 0 && n - skip <= 1 << 16)
        MUST(a.rc == 0);
    return 0;
}
