/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and text as people and scripts read them. */
#include "image/report.h"

#include <math.h>
#include <stdlib.h>

const char *vp_format_number(char *buf, double v)
{
    if (isnan(v))
        return snprintf(buf, 32, "nan"), buf;
    for (int digits = 15; digits <= 17; digits++) { /* %g drops trailing zeros */
        snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}

void vp_json_number(FILE *out, double v)
{
    char buf[32];

    fputs(isfinite(v) ? vp_format_number(buf, v) : "null", out);
}
