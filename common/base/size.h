/* Sizes: checked products, byte counts as text, memory, the number of cores. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;

static inline int64_t vp_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t vp_max64(int64_t a, int64_t b) { return a > b ? a : b; }
/* Returns a / by, rounded up. */
static inline int64_t vp_div_up(int64_t a, int64_t by) { return (a + by - 1) / by; }
/* Rounds up to whole cache lines. */
static inline size_t vp_round64(size_t bytes) { return (bytes + 63) / 64 * 64; }
/* Returns a place for `bytes` in a block of memory of which *used are taken, and increases these. Without a block NULL:
 * so one function lays a block out, and computes its size. */
static inline void *vp_place(void *block, size_t *used, size_t bytes)
{
    void *const at = block ? (char *)block + *used : NULL;

    *used += vp_round64(bytes);
    return at;
}

/* Computes *out = a * b (or a + b); false on overflow, *out then untouched. */
static inline bool vp_mul_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool vp_add_size(size_t *out, size_t a, size_t b)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Parses "64", "1.5GiB", "800M": K M G T are powers of 1000, KiB MiB GiB TiB of 1024, B or nothing is bytes. */
bool vp_parse_bytes(const char *text, uint64_t *out);

/* Returns "6.2 GiB", for the arguments of a call: vp_bytes_text(n).text lives until the call returns. */
struct vp_bytes_text { char text[16]; };
struct vp_bytes_text vp_bytes_text(uint64_t bytes);

/* Returns zeroed memory aligned to 64 bytes (2 MiB and advised to huge pages when large); free() it.
 * NULL and an error (VP_ERESOURCE, naming `what` and the bytes) if count * size overflows or
 * memory is short. */
void *vp_alloc(size_t count, size_t size, const char *what, struct vp_err *err);
/* Returns such memory, contents undefined. */
void *vp_alloc_raw(size_t count, size_t size, const char *what, struct vp_err *err);

/* Returns the array of n elements, with room for one more: `array` itself, or a larger one in its place. NULL and an
 * error (VP_ERESOURCE) without memory, or if it takes more than vp_memory_claim() grants; `array` is as it was then. */
void *vp_grow(void *array, int64_t n, int64_t *room, size_t size, const char *what, const char *name, struct vp_err *err);

/* Returns the bytes a process may reasonably take now: MemAvailable, limited by the cgroup. */
uint64_t vp_memory_available(void);

/* Limits the bytes that metadata of inputs may claim: descriptions, tables, views, decoders. Set once
 * from --memory, before any input is opened; without a limit until then. */
void vp_memory_limit(uint64_t bytes);
uint64_t vp_memory_most(void);
/* Refuses (VP_ERESOURCE) what takes more than half of it: "NAME: WHAT takes 3.1 GiB ...". */
int vp_memory_claim(uint64_t bytes, const char *what, const char *name, struct vp_err *err);

/* Returns the peak resident set of this process in bytes. */
uint64_t vp_memory_peak(void);

/* Returns the number of processors this process may run on (affinity and cgroup quota). */
int vp_cores(void);

/* Returns the seconds of a monotonic clock. */
double vp_now(void);
