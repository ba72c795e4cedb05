/* Text and numbers as people and scripts read them. Text of others (file names, metadata) may hold any bytes; none of
 * them may drive a terminal. */
#ifndef VP_PLAIN_H
#define VP_PLAIN_H

#include <stdio.h>

/* Writes text with controls, those of C1, of lines and of the direction of writing, and bytes that are not UTF-8, as
 * \x1b; all else as it is. */
void vp_put_plain(FILE *out, const char *text);
/* Writes the characters of a JSON string: controls and quotes escaped; what is not UTF-8 becomes U+FFFD. */
void vp_put_escaped(FILE *out, const char *text);

/* Formats a short decimal (15 to 17 digits) that reads back as the same double, "nan", "inf" or "-inf"; buf of at
 * least 32 bytes; returns buf. */
const char *vp_format_number(char *buf, double v);

#endif
