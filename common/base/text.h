/* A text that is printed into memory (open_memstream(3) forgets what did not fit: it reports no error), and one that is
 * read by lines. */
#ifndef VP_TEXT_H
#define VP_TEXT_H

#include <stdint.h>
#include <stdio.h>

struct vp_err;

/* Returns NULL without memory. */
FILE *vp_text_open(void);
/* Returns what was printed, malloc'd; its length goes to *n if that is not NULL. NULL if any of it was lost. */
char *vp_text_close(FILE *f, size_t *n);

/* Returns the name of a file for messages; "-" is standard input. */
const char *vp_text_name(const char *path);
/* Calls take() for each line of a file ("-": standard input), without its end, until one returns anything but 0.
 * Returns that, or -1: the file cannot be read (a lack of memory is no end), holds a byte of zero, a line beyond 1 MiB
 * or more than 1 GiB in all. `name`: that of the file, for messages. */
int vp_text_lines(const char *path,
                  int (*take)(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err), void *ctx,
                  struct vp_err *err);

#endif
