/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat morphology: erosions, dilations and differences as stages of a chain. */
#include "local/morph.h"

#include "base/err.h"
#include "base/size.h"

#include <stdio.h>

/* Computes a - b, where a >= b; the difference of two i16 is a u16, of two i32 a u32. */
#define LESS(T, U) \
    for (int64_t i = 0; i < n; i++) \
        ((U *)out)[i] = (U)(((const T *)a)[i] - ((const T *)b)[i]);

static void less_row(enum vp_type type, const void *a, const void *b, void *restrict out, int64_t n)
{
    if (type == VP_U8)
        LESS(uint8_t, uint8_t)
    else if (type == VP_U16)
        LESS(uint16_t, uint16_t)
    else if (type == VP_I16)
        LESS(int16_t, uint16_t)
    else if (type == VP_U32 || type == VP_I32) /* modulo 2^32 */
        LESS(uint32_t, uint32_t)
    else if (type == VP_F64)
        LESS(double, double)
    else
        LESS(float, float)
}

static int subtract(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                    int threads, struct vp_err *err)
{
    const size_t size = vp_type_size(op->in), to = vp_type_size(op->out);
    const int64_t ny = vp_box_size(&out->box, 1), rows = ny * vp_box_size(&out->box, 2);

    (void)scratch;
    (void)err;
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t x = out->box.lo[0], y = out->box.lo[1] + i % ny, z = out->box.lo[2] + i / ny;
        less_row(op->in, vp_part_at(&in[0], size, x, y, z), vp_part_at(&in[1], size, x, y, z),
                 vp_part_at(out, to, x, y, z), vp_box_size(&out->box, 0));
    }
    return 0;
}

/* Appends a - b; each is a stage, or ~0 for the image. */
static int add_difference(struct vp_chain *chain, int a, int b, const int64_t image[3], enum vp_type type,
                          struct vp_err *err)
{
    struct vp_op op = {
        .kernel = "subtract", .image = {image[0], image[1], image[2]}, .inputs = 2, .from = {a, b}, .in = type,
        .out = type == VP_I16 ? VP_U16 : type == VP_I32 ? VP_U32 : type, .run = subtract, .cost = .1 * (double)vp_type_size(type),
    };

    snprintf(op.text, sizeof op.text, "difference");
    return vp_chain_add(chain, &op, err);
}

/* Appends erosions or dilations of `from`; *to receives the last stage. */
static int add_extrema(struct vp_chain *chain, bool max, int64_t times, int from, const struct vp_footprint *f,
                       const int64_t image[3], enum vp_type type, int *to, struct vp_err *err)
{
    for (int64_t i = 0; i < times; i++) {
        struct vp_op op;
        if (vp_extremum_local(&op, max, f, image, type, err))
            return -1;
        op.from[0] = from;
        if (vp_chain_add(chain, &op, err))
            return -1;
        from = chain->n - 1;
    }
    *to = from;
    return 0;
}

/* Appends all stages; `dilate` and `erode`: the footprints of maxima and of minima. */
static int add_stages(struct vp_chain *chain, enum vp_morph op, int64_t iterations, const struct vp_footprint *dilate,
                      const struct vp_footprint *erode, const int64_t image[3], enum vp_type type, struct vp_err *err)
{
    const bool max_first = op == VP_DILATE || op == VP_CLOSE || op == VP_BOTHAT;
    const int from = chain->n ? chain->n - 1 : ~0;
    int first, second;

    if (add_extrema(chain, max_first, iterations, from, max_first ? dilate : erode, image, type, &first, err))
        return -1;
    if (op == VP_ERODE || op == VP_DILATE)
        return 0;
    if (add_extrema(chain, !max_first, iterations, op == VP_GRADIENT ? from : first, max_first ? erode : dilate, image,
                    type, &second, err))
        return -1;
    if (op == VP_TOPHAT)
        return add_difference(chain, from, second, image, type, err);
    if (op == VP_BOTHAT)
        return add_difference(chain, second, from, image, type, err);
    return op == VP_GRADIENT ? add_difference(chain, second, first, image, type, err) : 0;
}

int vp_morph_chain(struct vp_chain *chain, enum vp_morph op, int64_t iterations, const struct vp_footprint *f,
                   const int64_t image[3], enum vp_type type, struct vp_err *err)
{
    struct vp_footprint large = *f, opposite;

    if (f->shape == VP_BOX && iterations > 1) {
        double radius[3];
        for (int a = 0; a < 3; a++) /* larger radii have the same effect */
            radius[a] = (double)vp_min64(f->reach[a] * iterations, vp_max64((int64_t)VP_RADIUS_MAX, image[a]));
        if (vp_footprint_init(&large, VP_BOX, radius, err))
            return -1;
        iterations = 1;
    }
    if (op == VP_GRADIENT && !vp_footprint_centered(f))
        return vp_fail_hint(err, VP_EUSAGE, "add the centre to it",
                            "gradient: expected a footprint that contains its centre: others make it negative");
    if (vp_footprint_reflect(&opposite, &large, err))
        return -1;
    const int rc = add_stages(chain, op, iterations, &opposite, &large, image, type, err);
    vp_footprint_free(&opposite);
    return rc;
}
