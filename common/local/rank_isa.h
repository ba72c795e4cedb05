/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine that runs the networks of rank_network.c, built once for each instruction set: its registers are long
 * vectors of samples side by side along x, its only instruction compares two of them. Private to rank.c. */
#ifndef VP_RANK_ISA_H
#define VP_RANK_ISA_H

#include <stdint.h>

enum vp_rank_key { VP_KEY_U8, VP_KEY_U16, VP_KEY_I16, VP_KEY_I32, VP_N_KEYS };

enum { VP_RANK_VECTORS = 12 }; /* of a register, at most */

/* A place: file << 24 | bytes from base[file]. */
enum { VP_RANK_FILE = 24, VP_RANK_OFFSET = (1 << VP_RANK_FILE) - 1 };

enum vp_rank_kind { VP_RANK_BOTH, VP_RANK_MIN, VP_RANK_MAX };

struct vp_rank_op {
    uint32_t kind;
    uint32_t a, b;   /* anywhere */
    uint32_t lo, hi; /* aligned to a vector; may overlap a or b where these begin no earlier */
};

/* Histograms of u8: 256 bins, and 16 of 16 bins each. */
struct vp_rank_column { uint16_t fine[256], coarse[16]; };

struct vp_rank_isa {
    const char *name;
    int bytes; /* of a vector */
    /* Each op: lo = min(a, b), hi = max(a, b), `vectors` long. */
    void (*run[VP_N_KEYS])(const struct vp_rank_op *op, int64_t n, char *const *base, int vectors);
    /* Floats as integers of the same order, -0 before +0; every NaN is one key after +infinity. */
    void (*to_keys)(int32_t *key, const float *x, int64_t n);
    void (*from_keys)(float *x, const int32_t *key, int64_t n);
    /* A row of u8 from the histograms of columns: the window of result i holds columns first + i - reach ...
     * first + i + reach of 0 ... columns - 1, and its result has the place rank[how many columns that are]. */
    void (*columns)(uint8_t *out, int64_t n, const struct vp_rank_column *column, int64_t columns, int64_t first,
                    int64_t reach, const int32_t *rank);
};

extern const struct vp_rank_isa vp_rank_avx512, vp_rank_avx2, vp_rank_generic;

/* One float, for the paths that go sample by sample. */
static inline int32_t vp_rank_key(float x)
{
    union { float f; int32_t i; } u = {.f = x};

    if (x != x)
        return 0x7fc00000;
    return u.i ^ (u.i >> 31 & 0x7fffffff);
}

static inline float vp_rank_float(int32_t key)
{
    union { int32_t i; float f; } u = {.i = key ^ (key >> 31 & 0x7fffffff)};

    return u.f;
}

#endif
