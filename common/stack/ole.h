/* OLE2 compound files, a small file system in a file ([MS-CFB]): streams by path (internal to stack/). */
#pragma once

#include "stack/source.h"

struct vp_ole;

/* Reads the tables of sectors and the directory of a file that can be read anywhere. `in` must stay. */
int vp_ole_open(struct vp_ole **o, struct vp_input *in, struct vp_err *err);
void vp_ole_close(struct vp_ole *o);
/* Finds a stream ("ImageInfo/Angles", in any case): its number and bytes; -1: there is none. */
int64_t vp_ole_find(const struct vp_ole *o, const char *path, uint64_t *bytes);
/* Reads n bytes of a stream from `at`, all of which it must have. Thread safe. */
int vp_ole_read(const struct vp_ole *o, int64_t stream, uint64_t at, void *to, size_t n, struct vp_err *err);
/* Returns the bytes of memory it takes. */
uint64_t vp_ole_need(const struct vp_ole *o);
