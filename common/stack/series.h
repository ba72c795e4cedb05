/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack as numbered files, one page each: "slice_%04d.tif". */
#pragma once

#include "stack/writer.h"

/* A name with the place of a number: before, digits, after. */
struct vp_series { int before, digits, after; };

/* Parses a name with one "%d" or "%04d" after the last slash. False: it is a name like any other. */
bool vp_series_parse(struct vp_series *s, const char *name);
/* Writes the name of page i into `to`; async-signal-safe. False: it is too long. */
bool vp_series_name(const struct vp_series *s, const char *name, int64_t i, char *to, size_t size);

/* Begin and end a series whose files are written one by one: after vp_series_made(n) the first n may exist. A signal
 * before the end, and an end with `failed`, removes them. One series at a time. VP_ERUN: the name is too long. */
int vp_series_begin(const struct vp_series *s, const char *name, struct vp_err *err);
void vp_series_made(int64_t n);
void vp_series_end(bool failed);

/* Writes pages of `stack`, which lie in the file `fd` at `place(ctx, page)`, each into its file. The header of the
 * first is that of the stack; the others are images of their own, without what is true of the whole alone. After a
 * failure or a signal none of the files is left. */
int vp_series_write(const struct vp_series *s, const char *name, const struct vp_stack *stack, int fd,
                    uint64_t (*place)(const void *ctx, int64_t page), const void *ctx,
                    const struct vp_writer_options *o, struct vp_err *err);

/* Removes the files of a series that is not complete; async-signal-safe. */
void vp_series_unlink(void);
