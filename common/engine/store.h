/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of the boxes of an image between two passes, in memory up to a limit, beyond it in an unnamed file in
 * $TMPDIR. From any thread, each entry by one at a time. */
#pragma once

#include <stdint.h>

struct vp_err;
struct vp_store;

/* Opens a store of `count` empty entries, of which at most `memory` bytes are held in memory (0: no limit). 0 or -1. */
int vp_store_open(struct vp_store **s, int64_t count, uint64_t memory, struct vp_err *err);
int64_t vp_store_count(const struct vp_store *s);
/* Sets entry i to n bytes of data. 0 or -1. */
int vp_store_put(struct vp_store *s, int64_t i, const void *data, uint64_t n, struct vp_err *err);
/* Returns the bytes of entry i. */
uint64_t vp_store_bytes(const struct vp_store *s, int64_t i);
/* Copies entry i to `to`. 0 or -1. */
int vp_store_get(const struct vp_store *s, int64_t i, void *to, struct vp_err *err);
/* Copies n bytes from position `at` of entry i, or to it. 0 or -1. */
int vp_store_read(const struct vp_store *s, int64_t i, uint64_t at, void *to, uint64_t n, struct vp_err *err);
int vp_store_write(struct vp_store *s, int64_t i, uint64_t at, const void *from, uint64_t n, struct vp_err *err);
/* Returns entry i, to be read and written in place until it is set or cut; NULL if it is in the file or empty. */
void *vp_store_peek(struct vp_store *s, int64_t i);
/* Cuts entry i to its first n bytes. */
void vp_store_cut(struct vp_store *s, int64_t i, uint64_t n);
/* Opens another unnamed file, of `bytes` that are allocated, for data that exceeds the `room` in memory. Returns its
 * descriptor, which the caller closes, or -1. */
int vp_store_file(struct vp_store *s, uint64_t bytes, uint64_t room, struct vp_err *err);
/* Returns the bytes in files. */
uint64_t vp_store_spilled(const struct vp_store *s);
void vp_store_close(struct vp_store *s); /* NULL is fine */
