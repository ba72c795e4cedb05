/* Text of others (file names, metadata) shown to people and scripts. It may hold any bytes; none of them may drive a
 * terminal. */
#ifndef VP_PLAIN_H
#define VP_PLAIN_H

#include <stdio.h>

/* Controls, those of C1 and bytes that are not UTF-8 as \x1b; all else as it is. */
void vp_put_plain(FILE *out, const char *text);
/* A JSON string: controls escaped; what is not UTF-8 becomes U+FFFD. NULL is "". */
void vp_json_string(FILE *out, const char *text);

#endif
