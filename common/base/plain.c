/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of unknown origin, made harmless; numbers. */
#include "base/plain.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Returns the length of the well-formed UTF-8 sequence at s, 0 if there is none. */
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

/* Returns the character of a sequence of that length. */
static int decode(const unsigned char *s, int length)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    int c = s[0] & first[length];
    for (int i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

/* Finds what does something else than to stand where it is: C0, DEL, C1; ends of lines and paragraphs; and what changes
 * the direction of others (UAX #9, 2), by which a name may look like another. */
static bool is_control(int c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e)
           || (c >= 0x2066 && c <= 0x2069);
}

static void put(FILE *out, const char *text, bool json)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s), c = decode(s, n), bytes = n ? n : 1;
        if (n && !is_control(c)) {
            if (json && (*s == '"' || *s == '\\'))
                putc('\\', out);
            fwrite(s, 1, (size_t)n, out);
        } else if (!json) {
            for (int i = 0; i < bytes; i++)
                fprintf(out, "\\x%02x", s[i]);
        } else if (!n) {
            fputs("\\ufffd", out);
        } else if (c == '\n' || c == '\t') {
            fputs(c == '\n' ? "\\n" : "\\t", out);
        } else {
            fprintf(out, "\\u%04x", (unsigned)c);
        }
        s += bytes;
    }
}

void vp_put_plain(FILE *out, const char *text)
{
    put(out, text, false);
}

void vp_put_escaped(FILE *out, const char *text)
{
    put(out, text, true);
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
