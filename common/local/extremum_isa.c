/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of minima, and of maxima as minima of complements, whose order is the other way round. Floats are compared as
 * integers in the order of the values: exact, one order for -0 and +0, and NaN can be put where it never wins. */
#include "local/extremum.h"

#include "base/isa.h"
#include "base/order.h"
#include "local/window.h"

#include <string.h>

/* Bits inverted on load and store: maxima are minima of complements. */
INLINE int32_t flip_of(const struct vp_tile *t)
{
    return ((const struct vp_extremum_params *)t->w->op->params)->max ? -1 : 0;
}

/* no number has the key of a NaN with all bits set */
INLINE int32_t key_of(int32_t bits, int32_t flip)
{
    return (bits & INT32_MAX) > 0x7f800000 ? INT32_MAX : vp_order_i32(bits) ^ flip;
}

INLINE int32_t key_back(int32_t key, int32_t flip)
{
    return key == INT32_MAX ? VP_NAN_F32 : vp_order_i32(key ^ flip);
}

INLINE int64_t wide_key_of(int64_t bits, int64_t flip)
{
    return (bits & INT64_MAX) > (int64_t)0x7ff << 52 ? INT64_MAX : vp_order_i64(bits) ^ flip;
}

INLINE int64_t wide_key_back(int64_t key, int64_t flip)
{
    return key == INT64_MAX ? (int64_t)VP_NAN_F64 : vp_order_i64(key ^ flip);
}

#define FLIPPED(v, flip) (A)((v) ^ (flip))

#define A uint8_t
#define MOST UINT8_MAX
#define IN FLIPPED
#define OUT FLIPPED
#define NAME u8
#include "local/extremum_rows.inc"

#define A uint16_t
#define MOST UINT16_MAX
#define IN FLIPPED
#define OUT FLIPPED
#define NAME u16
#include "local/extremum_rows.inc"

#define A int16_t
#define MOST INT16_MAX
#define IN FLIPPED
#define OUT FLIPPED
#define NAME i16
#include "local/extremum_rows.inc"

#define A int32_t
#define MOST INT32_MAX
#define IN key_of
#define OUT key_back
#define NAME f32
#include "local/extremum_rows.inc"

#define A uint32_t
#define MOST UINT32_MAX
#define IN FLIPPED
#define OUT FLIPPED
#define NAME u32
#include "local/extremum_rows.inc"

#define A int32_t
#define MOST INT32_MAX
#define IN FLIPPED
#define OUT FLIPPED
#define NAME i32
#include "local/extremum_rows.inc"

#define A int64_t
#define MOST INT64_MAX
#define IN wide_key_of
#define OUT wide_key_back
#define NAME f64
#include "local/extremum_rows.inc"

#define ROWS(type) {NULL, across_##type, combine_##type, load_##type, grow_##type, gather_##type, finish_##type}

const struct vp_sweep_rows PASTE(vp_extremum_, VP_ISA)[VP_N_TYPES] = {
    [VP_U8] = ROWS(u8), [VP_U16] = ROWS(u16), [VP_I16] = ROWS(i16), [VP_F32] = ROWS(f32),
    [VP_U32] = ROWS(u32), [VP_I32] = ROWS(i32), [VP_F64] = ROWS(f64),
};
