/* A text that is printed into memory (open_memstream(3) forgets what did not fit: it reports no error), and one that is
 * read by lines. Text and numbers as people and scripts read them: text of others (file names, metadata) may hold any
 * bytes; none of them may drive a terminal. */
#pragma once

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

/* Splits a line `key = number # comment`, which it may change. 1, 0 for a line of neither, -1 for another line, or a number that
 * is negative or not finite. */
int vp_text_number(char *line, char key[64], double *number);

/* Writes text with controls, those of C1, of lines and of the direction of writing, and bytes that are not UTF-8, as
 * \x1b; all else as it is. */
void vp_put_plain(FILE *out, const char *text);
/* Writes the characters of a JSON string: controls and quotes escaped; what is not UTF-8 becomes U+FFFD. */
void vp_put_escaped(FILE *out, const char *text);

/* Formats a short decimal (15 to 17 digits) that reads back as the same double, "nan", "inf" or "-inf"; buf of at
 * least 32 bytes; returns buf. */
const char *vp_format_number(char *buf, double v);
