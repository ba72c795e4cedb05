/* SPDX-License-Identifier: BSD-3-Clause */
/* What one visit to all boxes of an image leaves for the next: an entry for each box, in memory up to a limit, beyond
 * it in a file without a name in $TMPDIR. From any thread, each entry by one at a time. */
#ifndef VP_STORE_H
#define VP_STORE_H

#include <stdint.h>

struct vp_err;
struct vp_store;

/* `count` entries, all empty; at most `memory` bytes of them are held (0: no limit). */
int vp_store_open(struct vp_store **s, int64_t count, uint64_t memory, struct vp_err *err);
int64_t vp_store_count(const struct vp_store *s);
/* Entry i becomes n bytes of data. */
int vp_store_put(struct vp_store *s, int64_t i, const void *data, uint64_t n, struct vp_err *err);
/* Bytes of entry i. */
uint64_t vp_store_bytes(const struct vp_store *s, int64_t i);
/* Entry i, all of it, into `to`. */
int vp_store_get(const struct vp_store *s, int64_t i, void *to, struct vp_err *err);
/* The descriptor of another such file, of `bytes` that are there whatever else fills the disk, for who has to keep more
 * than the `room` that memory has; the caller's to close. -1 with an error. */
int vp_store_file(struct vp_store *s, uint64_t bytes, uint64_t room, struct vp_err *err);
/* Bytes that went to files. */
uint64_t vp_store_spilled(const struct vp_store *s);
void vp_store_close(struct vp_store *s); /* NULL is fine */

#endif
