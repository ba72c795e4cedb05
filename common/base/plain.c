/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of unknown origin, made harmless; numbers. */
#include "base/plain.h"

#include <math.h>
#include <stdlib.h>

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none. */
static int utf8_length(const unsigned char *s)
{
    const int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90)
        || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* The control character at s, or -1; C1 is U+0080 to U+009F. */
static int control(const unsigned char *s, int length)
{
    return length == 1 && (*s < 0x20 || *s == 0x7f) ? *s : length == 2 && *s == 0xc2 && s[1] < 0xa0 ? s[1] : -1;
}

void vp_put_plain(FILE *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s);
        if (!n || control(s, n) >= 0)
            for (int i = 0; i < (n ? n : 1); i++)
                fprintf(out, "\\x%02x", s[i]);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
}

void vp_json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *s = (const unsigned char *)(text ? text : ""); *s;) {
        const int n = utf8_length(s), c = control(s, n);
        if (!n)
            fputs("\\ufffd", out);
        else if (c == '\n' || c == '\t')
            fputs(c == '\n' ? "\\n" : "\\t", out);
        else if (c >= 0)
            fprintf(out, "\\u%04x", (unsigned)c);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n ? n : 1;
    }
    putc('"', out);
}

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
