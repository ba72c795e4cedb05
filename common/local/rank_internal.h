/* Private to rank.c, its networks (rank_network.c), the machine that runs them (rank_isa.c, built once for each
 * instruction set) and the moving histogram (rank_moving.c). */
#pragma once

#include "base/order.h"
#include "local/rank.h"

/* ---- keys: integers in the order of the samples, of floats signed keys; of u32 they are signed, too ---- */

static inline int32_t vp_rank_key_u32(uint32_t v)
{
    return (int32_t)(v ^ 0x80000000u);
}

/* True if keys are not the samples themselves, or too many for a bin each. */
static inline bool vp_rank_is_sorted(enum vp_type type)
{
    return type == VP_F32 || VP_TYPES_WIDE & 1u << type;
}

/* Returns the key of the result if there is no sample. */
static inline int64_t vp_rank_none(enum vp_type type)
{
    return type == VP_F32 ? VP_NAN_F32 : type == VP_F64 ? (int64_t)VP_NAN_F64 : type == VP_U32 ? vp_rank_key_u32(0) : 0;
}

/* Stores the sample of a key. */
static inline void vp_rank_put(void *to, int64_t key, enum vp_type type)
{
    switch ((int)type) {
    case VP_U8: *(uint8_t *)to = (uint8_t)key; break;
    case VP_U16: *(uint16_t *)to = (uint16_t)key; break;
    case VP_I16: *(int16_t *)to = (int16_t)key; break;
    case VP_U32: *(uint32_t *)to = (uint32_t)key ^ 0x80000000u; break;
    case VP_I32: *(int32_t *)to = (int32_t)key; break;
    case VP_F64: *(double *)to = vp_f64_of_signed_key(key); break;
    default: *(float *)to = vp_f32_of_signed_key((int32_t)key);
    }
}

/* ---- the machine: its registers are long vectors of samples side by side along x, its only instruction compares two
 * of them ---- */

enum { VP_RANK_VECTORS = 12 }; /* maximum bytes of a register */

/* Operand: file << 24 | bytes from base[file]. */
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
    int bytes; /* bytes of a vector */
    /* Runs the ops: lo = min(a, b), hi = max(a, b), `vectors` long, of keys of that type. */
    void (*run[VP_N_TYPES])(const struct vp_rank_op *op, int64_t n, char *const *base, int vectors);
    /* Convert samples to keys and back; NULL: they are their keys. */
    void (*to_keys[VP_N_TYPES])(void *key, const void *x, int64_t n);
    void (*from_keys[VP_N_TYPES])(void *x, const void *key, int64_t n);
    /* Makes a row of u8 from the histograms of columns: the window of result i is columns first + i - reach ...
     * first + i + reach, clipped to 0 ... columns - 1, and its result has rank[number of these columns]. */
    void (*columns)(uint8_t *out, int64_t n, const struct vp_rank_column *column, int64_t columns, int64_t first,
                    int64_t reach, const int32_t *rank);
};

extern const struct vp_rank_isa vp_rank_avx512, vp_rank_avx2, vp_rank_generic;

/* ---- selection networks: programs that leave the k-th smallest sample of a window in a register ---- */

/* Operands are in registers, not yet in bytes: file << 24 | register, and an operand may begin dx samples after its
 * register. */
struct vp_rank_place { int32_t file, reg, dx; };
struct vp_rank_step {
    enum vp_rank_kind kind;
    struct vp_rank_place a, b, lo, hi;
};

struct vp_rank_program {
    int64_t n, cost;           /* steps; minima and maxima */
    struct vp_rank_step *step;
    int registers;             /* registers of file 0, the program's own */
};

/* Makes the program of a row of a box: its depth input rows (file 0, registers 0 ... depth - 1) sorted along z and then
 * merged along x: width * depth sorted registers of file 1. Register element i then stands for the window that begins
 * at i. */
int vp_rank_slab(struct vp_rank_program *p, int width, int depth);

/* Makes the program of a box from height + tile - 1 slabs (files 1, 2, ...; `slab` sorted registers each): the rank-th
 * smallest (from 0) of slabs j ... j + height - 1 into register j of file height + tile, for j < tile <= height. */
int vp_rank_join(struct vp_rank_program *p, int slab, int height, int tile, int64_t rank);

/* Makes the program of a ball or a set: its spans are the registers of file 0, which begin its reach before the voxel;
 * the rank-th smallest of all samples into register 0 of file 1. */
int vp_rank_rows(struct vp_rank_program *p, const struct vp_footprint *ball, int64_t rank);

void vp_rank_program_free(struct vp_rank_program *p);

/* ---- the moving histogram, for any window ---- */

/* Returns the bytes of a thread. */
uint64_t vp_rank_moving_bytes(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out);
/* Fills `box` of `out`; mem is `threads` times that, aligned to 64 bytes. */
void vp_rank_moving_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                        const struct vp_box *box, char *mem, int threads);
