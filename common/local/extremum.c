/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum as a local operation: window.h walks the image, extremum_isa.c has the rows. */
#include "local/extremum.h"

#include "base/err.h"
#include "base/isa.h"
#include "local/window.h"

#include <stdio.h>

static size_t row_bytes(const struct vp_sweep *w, int64_t n)
{
    return 2 * vp_sweep_row(w->size, n, w->op->halo[0]) * w->size;
}

static struct vp_sweep window_of(const struct vp_op *op)
{
    const struct vp_extremum_params *p = op->params;
    const struct vp_sweep_rows *rows = VP_ISA_FIND(vp_extremum, NULL);
    const size_t size = vp_type_size(p->type);

    return (struct vp_sweep){.op = op, .idempotent = true, .f = &p->f, .size = size, .out_size = size,
                              .lane_size = size, .lanes = 1, .row_bytes = row_bytes, .rows = &rows[p->type]};
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

int vp_extremum_local(struct vp_op *op, bool max, const struct vp_footprint *f, const int64_t image[3],
                      enum vp_type type, struct vp_err *err)
{
    char text[100];

    if (!((VP_EXTREMUM_TYPES | VP_TYPES_WIDE) & 1u << type))
        return vp_fail(err, VP_EUSAGE, "minimum and maximum: expected u8, u16, u32, i16, i32, f32 or f64, got %s",
                       vp_type_name(type));
    struct vp_extremum_params *const p = vp_footprint_op(op, max ? "max" : "min", sizeof *p, f, image, type, type, err);
    if (!p)
        return -1;
    p->max = max;
    p->type = type;
    op->scratch = scratch_of;
    op->run = run;
    op->cost = (vp_type_is_float(type) ? 1.3 : .7)
             + (f->shape == VP_OFFSETS ? .02 : .0095) * (double)vp_type_size(type) * (double)f->spans;
    snprintf(op->text, sizeof op->text, "%s, %s, %s", op->kernel, vp_footprint_text(f, text, sizeof text),
             vp_isa_name());
    return 0;
}
