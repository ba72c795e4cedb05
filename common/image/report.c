/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and text as people and scripts read them. */
#include "image/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stack/stack.h"

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

int vp_report_numbers(struct vp_meta *m, const char *key, int n, const double *v)
{
    char text[4 * 32] = "", one[32];

    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", vp_format_number(one, v[i]));
    return vp_meta_set(m, key, text);
}

void vp_json_number(FILE *out, double v)
{
    char buf[32];

    fputs(isfinite(v) ? vp_format_number(buf, v) : "null", out);
}
