/* Large arrays in unnamed files of a scratch folder, which are mapped into memory: written and read in place, part after
 * part, and gone with the process. From any thread. All but vp_spill_open() take other memory, too, and leave it as it is. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

/* Returns `bytes` of zeros in a file of `dir`, for which there is room on the disk; NULL and an error without a folder, or
 * room, or if its files are in memory themselves (VP_ERESOURCE). */
void *vp_spill_open(const char *dir, uint64_t bytes, const char *what, struct vp_err *err);
void vp_spill_close(void *p); /* frees what vp_alloc() gave */
/* True if p lies in such an array. */
bool vp_spill_holds(const void *p);
/* Brings a part into memory before it is read or, `written`, changed. False: it cannot be read, and must not be touched;
 * vp_spill_check() fails from then on. */
bool vp_spill_fetch(const void *p, uint64_t bytes, bool written);
/* Gives up the memory of a part, which stays in the file; the pages at its end that belong to the next part stay. */
void vp_spill_leave(const void *p, uint64_t bytes, bool written);
int vp_spill_check(struct vp_err *err);
