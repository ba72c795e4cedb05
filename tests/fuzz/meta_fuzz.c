/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of tag 270, ours or another program's: the parsed metadata reads back the same from our own lines. */
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vp_meta a = {0}, b = {0};
    char *const text = fuzz_text(data, n);

    if (!vp_meta_parse(&a, text, n, NULL)) {
        char *const one = vp_meta_format(&a, "");
        MUST(one && !vp_meta_parse(&b, one, strlen(one), NULL));
        char *const two = vp_meta_format(&b, "");
        MUST(two && !strcmp(one, two) && a.n == b.n);
        double numbers[3];
        if (a.n > 0)
            fuzz_accepted();
        vp_meta_numbers(&a, "voxel", 3, numbers);
        free(one);
        free(two);
    }
    vp_meta_free(&a);
    vp_meta_free(&b);
    free(text);
    return 0;
}
