/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/flatten.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/reduce.h"

#include <omp.h>
#include <stdlib.h>

struct vp_flatten {
    const struct vp_slices *s;
    int64_t nx, ny;
    struct vp_reduce *reduce; /* one for each cut */
    float *turned;            /* a page with columns as rows, and a row of results; NULL: no cut needs it */
};

/* Returns the operation of ct-reduce. */
static int op_of(enum vp_slices_project project)
{
    return project == VP_PROJECT_MAX ? VP_REDUCE_MAX : project == VP_PROJECT_MIN ? VP_REDUCE_MIN : VP_REDUCE_MEAN;
}

/* Returns the samples that a cut reduces at a time. */
static int64_t samples_of(const struct vp_slice *c, int64_t nx, int64_t ny)
{
    return c->axis == VP_CUT_Z ? nx * ny : c->axis == VP_CUT_Y ? nx : ny;
}

static bool turns(const struct vp_slices *s)
{
    bool any = false;

    for (int i = 0; i < s->n; i++)
        any = any || s->slice[i].axis == VP_CUT_X;
    return any;
}

uint64_t vp_flatten_bytes(const struct vp_slices *s, int64_t nx, int64_t ny)
{
    const double one = (double)nx * (double)ny;
    double sum = turns(s) ? (one + (double)ny) * sizeof(float) : 0;

    for (int i = 0; i < s->n; i++)
        sum += (s->slice[i].axis == VP_CUT_Z ? one : (double)(nx + ny)) * sizeof(double);
    return sum < 1e18 ? (uint64_t)sum : UINT64_MAX / 16;
}

int vp_flatten_open(struct vp_flatten **out, const struct vp_slices *s, int64_t nx, int64_t ny, struct vp_err *err)
{
    struct vp_flatten *const f = *out = calloc(1, sizeof *f);

    if (!f)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *f = (struct vp_flatten){.s = s, .nx = nx, .ny = ny};
    f->reduce = vp_alloc((size_t)s->n, sizeof *f->reduce, "projections", err);
    f->turned = f->reduce && turns(s) ? vp_alloc_raw((size_t)(nx + 1), (size_t)ny * sizeof(float), "page", err) : NULL;
    if (!f->reduce || (turns(s) && !f->turned))
        return -1;
    for (int i = 0; i < s->n; i++) {
        const bool page = s->slice[i].axis == VP_CUT_Z;
        if (vp_reduce_open(&f->reduce[i], op_of(s->project), VP_F32, samples_of(&s->slice[i], nx, ny),
                           page ? omp_get_max_threads() : 1, err))
            return -1;
    }
    return 0;
}

/* Fills f->turned: sample (x, y) of a page goes to x * ny + y. */
static void turn(struct vp_flatten *f, const float *page)
{
    enum { TILE = 32 };

    #pragma omp parallel for schedule(static)
    for (int64_t x0 = 0; x0 < f->nx; x0 += TILE)
        for (int64_t y = 0; y < f->ny; y++)
            for (int64_t x = x0; x < vp_min64(x0 + TILE, f->nx); x++)
                f->turned[x * f->ny + y] = page[y * f->nx + x];
}

void vp_flatten_add(struct vp_flatten *f, int64_t channel, int64_t k, const float *page)
{
    const int64_t nx = f->nx, ny = f->ny;
    bool turned = false;

    for (int i = 0; i < f->s->n; i++) {
        const struct vp_slice *c = &f->s->slice[i];
        struct vp_reduce *const r = &f->reduce[i];
        if (c->channel != channel)
            continue;
        if (c->axis == VP_CUT_Z) {
            vp_reduce_add(r, page);
        } else if (c->axis == VP_CUT_Y) {
            for (int64_t y = 0; y < ny; y++)
                vp_reduce_add(r, page + y * nx);
            vp_reduce_result(r, c->out.v + k * nx);
        } else {
            if (!turned)
                turn(f, page);
            turned = true;
            for (int64_t x = 0; x < nx; x++)
                vp_reduce_add(r, f->turned + x * ny);
            float *const column = f->turned + nx * ny;
            vp_reduce_result(r, column);
            for (int64_t y = 0; y < ny; y++)
                c->out.v[y * c->out.w + k] = column[y];
        }
    }
}

void vp_flatten_end(struct vp_flatten *f)
{
    for (int i = 0; i < f->s->n; i++)
        if (f->s->slice[i].axis == VP_CUT_Z && f->reduce[i].added)
            vp_reduce_result(&f->reduce[i], f->s->slice[i].out.v);
}

void vp_flatten_close(struct vp_flatten *f)
{
    if (!f)
        return;
    for (int i = 0; f->reduce && i < f->s->n; i++)
        vp_reduce_close(&f->reduce[i]);
    free(f->reduce);
    free(f->turned);
    free(f);
}
