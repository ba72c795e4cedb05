/* JSON, written from front to end. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum { VP_JSON_DEEPEST = 8 };

/* A writer of one text: begins as {.out = FILE}. Each function below writes one value: a member of the open object if
 * `key` is given, else an element of the open array, or the whole text. Errors are those of `out` (ferror). */
struct vp_json {
    FILE *out;
    bool lines;                     /* elements of the outermost array begin on lines of their own */
    int depth;                      /* open objects and arrays */
    bool some[VP_JSON_DEEPEST + 1]; /* has a value at each depth: a comma precedes the next */
};

/* Opens an object ('{') or an array ('['), up to VP_JSON_DEEPEST at a time. */
void vp_json_open(struct vp_json *j, const char *key, char bracket);
/* Closes the innermost one ('}' or ']'). */
void vp_json_close(struct vp_json *j, char bracket);

/* Escapes controls; what is not UTF-8 becomes U+FFFD. NULL is "". */
void vp_json_string(struct vp_json *j, const char *key, const char *text);
/* Writes 15 to 17 digits; null if v is not finite. */
void vp_json_number(struct vp_json *j, const char *key, double v);
/* Writes what printf makes of the format, which must be JSON: an integer, true, a value made elsewhere. */
void vp_json_print(struct vp_json *j, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
