/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum as a local operation: see window.h for the way, extremum_isa.c for the rows. */
#include "local/extremum.h"

#include "base/err.h"
#include "base/isa.h"
#include "local/extremum_isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int kind_of(enum vp_type type)
{
    return type == VP_U8 ? 0 : type == VP_U16 ? 1 : type == VP_I16 ? 2 : type == VP_F32 ? 3 : -1;
}

static size_t row_bytes(const struct vp_window *w, int64_t n)
{
    return 2 * vp_extremum_row(w->size, n, w->op->halo[0]) * w->size;
}

static struct vp_window window_of(const struct vp_op *op)
{
    const struct vp_extremum_params *p = op->params;
    const struct vp_extremum_rows *rows = &(p->max ? p->isa->max : p->isa->min)[kind_of(p->type)];
    const size_t size = vp_type_size(p->type);

    return (struct vp_window){
        .op = op, .f = &p->f, .size = size, .out_size = size, .lane_size = size, .lanes = 1, .row_bytes = row_bytes,
        .across = rows->across, .combine = rows->combine, .load = rows->load, .grow = rows->grow,
        .gather = rows->gather, .finish = rows->finish,
    };
}

static uint64_t scratch_of(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_window w = window_of(op);

    return vp_window_scratch(&w, in, out, threads);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err)
{
    const struct vp_window w = window_of(op);

    (void)err;
    vp_window_run(&w, in, out, scratch, threads);
    return 0;
}

static void free_params(void *params)
{
    struct vp_extremum_params *p = params;

    vp_footprint_free(&p->f);
    free(p);
}

static void describe(struct vp_op *op)
{
    const struct vp_extremum_params *p = op->params;
    char text[100];

    snprintf(op->text, sizeof op->text, "%s, %s, %s", op->kernel, vp_footprint_text(&p->f, text, sizeof text),
             p->isa->name);
}

int vp_extremum_local(struct vp_op *op, bool max, const struct vp_footprint *f, const int64_t image[3],
                      enum vp_type type, struct vp_err *err)
{
    if (kind_of(type) < 0)
        return vp_fail(err, VP_EUSAGE, "minimum and maximum: expected u8, u16, i16 or f32, got %s", vp_type_name(type));
    struct vp_extremum_params *p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = (struct vp_extremum_params){.max = max, .type = type, .isa = VP_ISA_FIND(vp_extremum, NULL)};
    if (vp_footprint_copy(&p->f, f, err)) {
        free(p);
        return -1;
    }
    *op = (struct vp_op){
        .kernel = max ? "max" : "min", .image = {image[0], image[1], image[2]}, .inputs = 1, .from = {~0},
        .in = type, .out = type, .params = p, .free = free_params, .scratch = scratch_of, .run = run,
        .cost = (type == VP_F32 ? 1.3 : .7) + .0095 * (double)vp_type_size(type) * (double)f->spans,
    };
    vp_footprint_halo(f, image, op->halo);
    describe(op);
    return 0;
}

bool vp_extremum_use(struct vp_op *op, const char *isa)
{
    struct vp_extremum_params *p = op->params;
    const struct vp_extremum_isa *found = VP_ISA_FIND(vp_extremum, isa);

    if (!found)
        return false;
    p->isa = found;
    describe(op);
    return true;
}
