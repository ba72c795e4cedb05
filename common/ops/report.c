/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and text as people and scripts read them. */
#include "ops/report.h"

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

/* Bytes of the UTF-8 sequence at s; 0 if it is not one. */
static int utf8_length(const unsigned char *s)
{
    const int more = s[0] < 0x80 ? 0 : s[0] >= 0xc2 && s[0] < 0xe0 ? 1 : (s[0] & 0xf0) == 0xe0 ? 2
                     : s[0] >= 0xf0 && s[0] < 0xf5 ? 3 : -1;

    for (int i = 1; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return more + 1;
}

void vp_json_string(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', out);
    while (*s) {
        const int n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || n == 0)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    fputc('"', out);
}
