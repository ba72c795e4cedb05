/* Files of a known size whose pieces come in any order, from several threads (internal to stack/). */
#ifndef VP_RESERVED_H
#define VP_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;
struct vp_reserved;

/* fd: a regular file open for reading and writing, not closed here. name: for messages, kept by the caller. `ahead`:
 * all of it will be written from here, so its memory may be made in advance. */
int vp_reserved_open(struct vp_reserved **r, int fd, const char *name, uint64_t size, bool ahead, struct vp_err *err);
/* Two buffers (either may be empty) as one at a place. */
int vp_reserved_put(struct vp_reserved *r, uint64_t at, const void *a, size_t na, const void *b, size_t nb,
                    struct vp_err *err);
/* All that was put is in the file. NULL is allowed. */
void vp_reserved_close(struct vp_reserved *r);

#endif
