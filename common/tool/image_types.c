/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/image_internal.h"
#include "stack/reader.h"
#include "tool/tool.h"

#include <stdio.h>

static bool is_signed(enum vp_type t)
{
    return t >= VP_I8 && t <= VP_I64;
}

/* The smallest type that holds the values of both; false if there is none, and f64 is the next best. */
static bool common_type(enum vp_type a, enum vp_type b, enum vp_type *out)
{
    const size_t na = vp_type_size(a), nb = vp_type_size(b), wide = na > nb ? na : nb;
    if (a == b) {
        *out = a;
    } else if (vp_type_is_float(a) || vp_type_is_float(b)) {
        const bool large = (!vp_type_is_float(a) && na > 4) || (!vp_type_is_float(b) && nb > 4);
        const bool narrow = (vp_type_is_float(a) ? na == 4 : na <= 2) && (vp_type_is_float(b) ? nb == 4 : nb <= 2);
        *out = narrow ? VP_F32 : VP_F64;
        return !large;
    } else if (is_signed(a) == is_signed(b)) {
        *out = na > nb ? a : b;
    } else {
        const size_t of_unsigned = is_signed(a) ? nb : na, n = of_unsigned < wide ? wide : 2 * of_unsigned;
        *out = n == 2 ? VP_I16 : n == 4 ? VP_I32 : n == 8 ? VP_I64 : VP_F64;
        return n <= 8;
    }
    return true;
}

/* "u8, u16 or f32" */
static void list_types(unsigned types, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < VP_N_TYPES && n < size; t++) {
        if (!(types & 1u << t))
            continue;
        types &= ~(1u << t);
        n += (size_t)snprintf(text + n, size - n, "%s%s", n == 0 ? "" : types ? ", " : " or ",
                              vp_type_name((enum vp_type)t));
    }
}

int vp_images_type(struct vp_images *im, const struct vp_run *run, unsigned types, struct vp_err *err)
{
    im->all_i8 = true;
    for (int k = 0; k < im->n; k++) {
        const enum vp_type t = vp_reader_stack(im->reader[k])->type;
        im->all_i8 = im->all_i8 && t == VP_I8;
        if (k == 0) {
            im->type = t;
        } else if (!common_type(im->type, t, &im->type) && !im->params.any_types) {
            return vp_fail_hint(err, VP_ERUN,
                                "with --type both are taken as f64, or convert one of them: img-convert --type f64",
                                "%s has %s samples and %s %s: no type holds both", vp_reader_name(im->reader[0]),
                                vp_type_name(vp_reader_stack(im->reader[0])->type), vp_reader_name(im->reader[k]),
                                vp_type_name(t));
        }
    }
    if (types & 1u << im->type)
        return 0;
    if (im->type == VP_I8 && types & 1u << VP_I16) {
        im->type = VP_I16;
        return 0;
    }
    im->all_i8 = false;
    char list[80];
    list_types(types | (types & 1u << VP_I16 ? 1u << VP_I8 : 0), list, sizeof list);
    vp_fail(err, VP_ERUN, "%s: expected samples of %s, got %s", vp_reader_name(im->reader[0]), list,
            vp_type_name(im->type));
    return vp_hint(err, "convert first: img-convert --type %s | %s",
                   types & 1u << VP_F32 ? "f32" : types & 1u << VP_F64 ? "f64" : "u16", run->tool->name);
}
