/* Texts that are printed into memory, and text of others (file names, metadata) shown to people and scripts: it may hold
 * any bytes, and none of them may drive a terminal. */
#ifndef VP_TEXT_H
#define VP_TEXT_H

#include <stdio.h>

/* As open_memstream(3), which forgets what did not fit and reports no error. NULL without memory. */
FILE *vp_text_open(void);
/* What was printed, malloc'd; its length goes to *n if that is not NULL. NULL if any of it was lost. */
char *vp_text_close(FILE *f, size_t *n);

/* Controls, those of C1 and bytes that are not UTF-8 as \x1b; all else as it is. */
void vp_put_plain(FILE *out, const char *text);
/* A JSON string: controls escaped; what is not UTF-8 becomes U+FFFD. NULL is "". */
void vp_json_string(FILE *out, const char *text);

#endif
