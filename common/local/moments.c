/* SPDX-License-Identifier: BSD-3-Clause */
/* Mean, variance, standard deviation and Wiener's estimate as local operations: window.h walks the image, moments_isa.c
 * has the rows. */
#include "local/moments.h"

#include "base/err.h"
#include "base/isa.h"
#include "local/moments_isa.h"

#include <stdio.h>

static const char *const NAMES[] = {"mean", "var", "std", "wiener", "above"};

/* Returns the narrowest type that holds a sum of n numbers up to `top`. */
static enum vp_sums sums_of(const struct vp_moments_params *p, double n)
{
    const double top = p->in == VP_U8 ? 255 : p->in == VP_U16 ? 65535 : 32768;

    if (VP_TYPES_WIDE & 1u << p->in && p->spreads)
        return VP_SUM_SPREAD; /* squares of 32 bits would need sums of more than 64 */
    if (p->in == VP_U32 || p->in == VP_I32)
        return VP_SUM_U64;
    if (vp_type_is_float(p->in))
        return p->spreads ? VP_SUM_SPREAD : VP_SUM_F64;
    if (!p->spreads)
        return n * top < 0x1p31 ? VP_SUM_U32 : VP_SUM_U64;
    return n * top * top < 0x1p32 ? VP_SUM_U32 : n * top < 0x1p31 ? VP_SUM_U64 : VP_SUM_WIDE;
}

static size_t row_bytes(const struct vp_sweep *w, int64_t n)
{
    return vp_moments_kept(w, n) + (8 + 4 * (size_t)n) * sizeof(double);
}

static struct vp_sweep window_of(const struct vp_op *op)
{
    const struct vp_moments_params *p = op->params;
    const struct vp_sweep_rows (*const rows)[VP_SUM_N] = VP_ISA_FIND(vp_moments, NULL);
    const bool counted = p->sums == VP_SUM_SPREAD && p->f.shape != VP_BOX;

    return (struct vp_sweep){
        .op = op, .f = &p->f, .edge = p->edge, .size = vp_type_size(p->in), .out_size = vp_type_size(p->out),
        .lane_size = p->sums == VP_SUM_U32 ? 4 : 8, .counts = true, .row_bytes = row_bytes,
        .lanes = !p->spreads ? 1 : counted ? 3 : 2, .rows = &rows[p->in][p->sums],
    };
}

static uint64_t scratch_of(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_sweep w = window_of(op);

    (void)in;
    return vp_sweep_scratch(&w, out, threads);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err)
{
    const struct vp_sweep w = window_of(op);

    (void)err;
    vp_sweep_run(&w, in, out, scratch, threads);
    return 0;
}

static int make(struct vp_op *op, const struct vp_moments_params *want, const struct vp_footprint *f,
                const int64_t image[3], struct vp_err *err)
{
    const char *name = NAMES[want->moment];
    const enum vp_type in = want->in, out = want->out;
    char text[100], noise[40] = "";

    if (!((VP_MOMENTS_TYPES | VP_TYPES_WIDE) & 1u << in))
        return vp_fail(err, VP_EUSAGE, "%s: expected u8, u16, u32, i16, i32, f32 or f64, got %s", name, vp_type_name(in));
    if (want->moment != VP_ABOVE && out != in && !vp_type_is_float(in) && !vp_type_is_float(out))
        return vp_fail(err, VP_EUSAGE, "%s of %s: expected %s, f32 or f64 for the output, got %s", name, vp_type_name(in),
                       vp_type_name(in), vp_type_name(out));
    if (!((VP_MOMENTS_TYPES | VP_TYPES_WIDE) & 1u << out))
        return vp_fail(err, VP_EUSAGE, "%s: expected u8, u16, u32, i16, i32, f32 or f64 for the output, got %s", name,
                       vp_type_name(out));
    struct vp_moments_params *const p = vp_footprint_op(op, name, sizeof *p, f, image, in, out, err);
    if (!p)
        return -1;
    const struct vp_footprint own = p->f;
    *p = *want;
    p->f = own;
    for (int a = 0; a < 3; a++)
        if (p->edge == VP_EDGE_WRAP && f->reach[a])
            op->halo[a] = VP_UNKNOWN;
    op->scratch = scratch_of;
    op->run = run;
    op->cost = !p->spreads ? 2 + .06 * (double)f->spans
             : (VP_TYPES_WIDE | 1u << VP_F32) & 1u << in ? 6 + .5 * (double)f->spans : 5 + .15 * (double)f->spans;
    /* sums of squares are kept modulo 2^64 */
    const double n = p->edge ? (double)f->count : vp_footprint_most(f, op);
    if (!vp_type_is_float(in) && n >= (in == VP_U32 || in == VP_I32 ? 0x1p31 : 0x1p32)) {
        vp_footprint_op_free(p);
        return vp_fail(err, VP_EUSAGE, "%s: a neighbourhood of %.3g voxels is too large", name, n);
    }
    p->sums = sums_of(p, n);
    if (p->moment == VP_WIENER)
        snprintf(noise, sizeof noise, p->noise >= 0 ? ", noise %g" : ", noise to be estimated", p->noise);
    snprintf(op->text, sizeof op->text, "%s%s, %s%s%s%s, %s", name, p->sample ? " of a sample" : "",
             vp_footprint_text(f, text, sizeof text), p->edge ? ", " : "", p->edge ? vp_edge_name(p->edge) : "", noise,
             vp_isa_name());
    return 0;
}

int vp_moments_local(struct vp_op *op, enum vp_moment moment, bool sample, const struct vp_footprint *f,
                     const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err)
{
    const struct vp_moments_params p = {.moment = moment, .sample = sample, .in = in, .out = out,
                                         .spreads = moment != VP_MEAN};

    return make(op, &p, f, image, err);
}

int vp_moments_wiener(struct vp_op *op, double noise, const struct vp_footprint *f, const int64_t image[3],
                      enum vp_type in, enum vp_type out, struct vp_err *err)
{
    const struct vp_moments_params p = {.moment = VP_WIENER, .noise = noise, .in = in, .out = out, .spreads = true};

    return make(op, &p, f, image, err);
}

int vp_moments_above(struct vp_op *op, const struct vp_limit *limit, const struct vp_footprint *f, enum vp_edge edge,
                     const int64_t image[3], enum vp_type in, struct vp_err *err)
{
    const struct vp_moments_params p = {.moment = VP_ABOVE, .in = in, .out = VP_U8, .limit = *limit, .edge = edge,
                                         .spreads = limit->std != 0 || limit->both != 0};

    return make(op, &p, f, image, err);
}
