/* A text that is printed into memory. open_memstream(3) forgets what did not fit: it reports no error. */
#ifndef VP_TEXT_H
#define VP_TEXT_H

#include <stdio.h>

/* NULL without memory. */
FILE *vp_text_open(void);
/* What was printed, malloc'd; its length goes to *n if that is not NULL. NULL if any of it was lost. */
char *vp_text_close(FILE *f, size_t *n);

#endif
