/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of minima and maxima. f32 is compared as integers in the order of the values: exact, one order for -0 and +0,
 * and NaN can be put where it never wins. */
#include "local/extremum_isa.h"

#include "base/isa.h"

#include <string.h>

/* The key of a float: negative ones have their magnitude's bits turned over. It is its own inverse. */
INLINE int32_t turned(int32_t bits)
{
    return bits ^ (bits >> 31 & INT32_MAX);
}

INLINE int32_t key_of(int32_t bits, int32_t nan)
{
    return (bits & INT32_MAX) > 0x7f800000 ? nan : turned(bits);
}

INLINE int32_t key_back(int32_t key, int32_t nan)
{
    return key == nan ? 0x7fc00000 : turned(key);
}

#define SAME(v, nan) (v)

#define T uint8_t
#define LEAST 0
#define MOST UINT8_MAX
#define IN SAME
#define OUT SAME
#define NAME u8
#include "local/extremum_rows.h"

#define T uint16_t
#define LEAST 0
#define MOST UINT16_MAX
#define IN SAME
#define OUT SAME
#define NAME u16
#include "local/extremum_rows.h"

#define T int16_t
#define LEAST INT16_MIN
#define MOST INT16_MAX
#define IN SAME
#define OUT SAME
#define NAME i16
#include "local/extremum_rows.h"

/* no number has the key of a NaN with all bits set */
#define T int32_t
#define LEAST INT32_MIN
#define MOST INT32_MAX
#define IN key_of
#define OUT key_back
#define NAME f32
#include "local/extremum_rows.h"

#define ROWS(op, type) {PASTE(across_##op, type), PASTE(combine_##op, type), PASTE(load_##op, type), \
                        PASTE(grow_##op, type), PASTE(gather_##op, type), PASTE(finish_##op, type)}

const struct vp_extremum_isa PASTE(vp_extremum_, VP_ISA) = {
    TEXT(VP_ISA),
    {ROWS(min_, u8), ROWS(min_, u16), ROWS(min_, i16), ROWS(min_, f32)},
    {ROWS(max_, u8), ROWS(max_, u16), ROWS(max_, i16), ROWS(max_, f32)},
};
