/* SPDX-License-Identifier: BSD-3-Clause */
/* Sample types and the header of a stack. */
#include "base/size.h"
#include "stack/stack.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name, *alias;
    size_t size;
    double min, max;
} type_table[VP_N_TYPES] = {
    [VP_U8] = {"u8", "uint8", 1, 0, 255},
    [VP_U16] = {"u16", "uint16", 2, 0, 65535},
    [VP_U32] = {"u32", "uint32", 4, 0, 4294967295.0},
    [VP_U64] = {"u64", "uint64", 8, 0, 18446744073709551615.0},
    [VP_I8] = {"i8", "int8", 1, -128, 127},
    [VP_I16] = {"i16", "int16", 2, -32768, 32767},
    [VP_I32] = {"i32", "int32", 4, -2147483648.0, 2147483647.0},
    [VP_I64] = {"i64", "int64", 8, -9223372036854775808.0, 9223372036854775807.0},
    [VP_F32] = {"f32", "float32", 4, -INFINITY, INFINITY},
    [VP_F64] = {"f64", "float64", 8, -INFINITY, INFINITY},
};

size_t vp_type_size(enum vp_type t)
{
    return type_table[t].size;
}

const char *vp_type_name(enum vp_type t)
{
    return type_table[t].name;
}

bool vp_type_parse(const char *name, enum vp_type *out)
{
    for (int t = 0; t < VP_N_TYPES; t++) {
        if (!strcmp(name, type_table[t].name) || !strcmp(name, type_table[t].alias)) {
            *out = (enum vp_type)t;
            return true;
        }
    }
    return false;
}

bool vp_type_is_float(enum vp_type t)
{
    return t == VP_F32 || t == VP_F64;
}

double vp_type_min(enum vp_type t)
{
    return type_table[t].min;
}

double vp_type_max(enum vp_type t)
{
    return type_table[t].max;
}

enum vp_type vp_type_of_values(enum vp_type stored)
{
    return stored == VP_F64 || (!vp_type_is_float(stored) && vp_type_size(stored) >= 4) ? VP_F64 : VP_F32;
}

size_t vp_page_bytes(const struct vp_stack *s)
{
    size_t n;
    if (s->nx <= 0 || s->ny <= 0 || !vp_mul_size(&n, (size_t)s->nx, (size_t)s->ny) ||
        !vp_mul_size(&n, n, vp_type_size(s->type)) || n > PTRDIFF_MAX)
        return 0;
    return n;
}

int vp_stack_copy(struct vp_stack *dst, const struct vp_stack *src)
{
    struct vp_meta meta = {0, NULL, NULL};
    if (vp_meta_copy(&meta, &src->meta))
        return -1;
    *dst = *src;
    dst->meta = meta;
    return 0;
}

void vp_stack_free(struct vp_stack *s)
{
    vp_meta_free(&s->meta);
}
