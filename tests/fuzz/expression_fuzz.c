/* SPDX-License-Identifier: BSD-3-Clause */
/* An expression: parsed or rejected. The first byte selects the number and type of the stacks. */
#include "fuzz.h"
#include "local/math.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16, VP_I32, VP_F32, VP_F64};
    struct vp_math *m = NULL;
    struct vp_err err = VP_ERR_INIT;

    if (n < 1)
        return 0;
    const int stacks = 1 + data[0] % 4;
    const enum vp_type type = types[data[0] / 4 % 6];
    char *const text = fuzz_text(data + 1, n - 1);
    if (vp_math_parse(&m, text, stacks, type, &err)) {
        MUST(err.code == VP_EUSAGE);
        fuzz_refused(&err);
    } else {
        const enum vp_type out = vp_math_type(m);
        MUST(out < VP_N_TYPES && m->n <= VP_MATH_LONGEST && m->places <= VP_MATH_PLACES);
        vp_math_free(m);
        fuzz_accepted();
    }
    free(text);
    return 0;
}
