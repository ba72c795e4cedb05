/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/mesh.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"
#include "ct/backproject.h"
#include "engine/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model's file ---- */

static double *field_of(struct vp_model *m, const char *key)
{
#define FIELD(name, what) if (!strcmp(key, #name)) return &m->name;
    VP_MODEL(FIELD)
#undef FIELD
    return NULL;
}

static int take_line(void *ctx, const char *path, int64_t number, char *line, struct vp_err *err)
{
    struct vp_model *const m = ctx;
    char key[64];
    double value;
    const int found = vp_text_number(line, key, &value);
    if (!found)
        return 0;
    if (found < 0)
        return vp_fail(err, VP_EUSAGE, "%s:%lld: expected `key = number`", path, (long long)number);
    if (!strncmp(key, "convolve_", 9)) /* for img-convolve, in the same file */
        return 0;
    double *const to = field_of(m, key);
    if (!to) {
#define NAME(name, what) " " #name
        return vp_fail_hint(err, VP_EUSAGE, "expected one of" VP_MODEL(NAME), "%s:%lld: '%s' is not a key of a model",
                            path, (long long)number, key);
#undef NAME
    }
    *to = value;
    return 0;
}

int vp_model_read(struct vp_model *m, const char *path, struct vp_err *err)
{
    int rc = vp_text_lines(path, take_line, m, err);
    if (!rc && (m->load <= 0 || m->filter <= 0 || m->exchange <= 0 || m->backproject <= 0 || m->reduce <= 0
                || m->store <= 0))
        rc = vp_fail(err, VP_EUSAGE, "%s: expected load, filter, exchange, backproject, reduce and store above 0",
                     path);
    return rc;
}

/* ---- who makes what ---- */

static int64_t units(const struct vp_mesh_problem *p, const struct vp_mesh *m, int64_t *lo, int64_t *hi)
{
    *lo = p->of->z0;
    *hi = m->half ? (p->of->grid->n[2] + 1) / 2 : p->of->z1;
    return (*hi - *lo + p->unit - 1) / p->unit;
}

bool vp_mesh_slab(const struct vp_mesh_problem *p, const struct vp_mesh *m, int row, int64_t *z0, int64_t *z1)
{
    int64_t lo, hi;
    const int64_t n = units(p, m, &lo, &hi);
    *z0 = vp_min64(lo + n * row / m->rows * p->unit, hi);
    *z1 = vp_min64(lo + n * (row + 1) / m->rows * p->unit, hi);
    return *z1 > *z0;
}

void vp_mesh_rows(const struct vp_mesh_problem *p, const struct vp_mesh *m, int row, int64_t *v0, int64_t *v1)
{
    const struct vp_reconstruct *r = p->of;
    int64_t z0, z1;
    vp_mesh_slab(p, m, row, &z0, &z1);
    vp_backproject_rows(&r->projections, r->grid, z0, z1, m->half, v0, v1);
}

/* ---- what it takes ---- */

static double over(double amount, double rate)
{
    return rate > 0 ? amount / rate : 0;
}

/* Returns the voxels updated a second, interpolated by the ratio of the detector's samples to the volume's. */
static double backprojects(const struct vp_model *m, const struct vp_reconstruct *r)
{
    const int64_t *n = r->grid->n;
    const double side = cbrt((double)n[0] * (double)n[1] * (double)n[2]);
    const double finer = log2(sqrt((double)r->in_nu * (double)r->projections.nv) / side);
    const double other = finer > 0 ? m->backproject_fine : m->backproject_coarse;
    return other > 0 ? m->backproject * pow(other / m->backproject, fmin(fabs(finer), 1)) : m->backproject;
}

void vp_mesh_times(struct vp_mesh_times *t, const struct vp_mesh_problem *p, const struct vp_model *model,
                   const struct vp_mesh *m)
{
    const struct vp_reconstruct *r = p->of;
    const double plane = (double)r->grid->n[0] * (double)r->grid->n[1], volume = plane * (double)(r->z1 - r->z0);
    const double views = (double)(r->last - r->first), mine = views / m->columns, row = (double)r->in_nu;
    const double hosts = model->host_ranks > 0 ? ceil(p->ranks / model->host_ranks) : p->hosts;
    const double a_host = p->ranks / hosts;
    double most = 0, all = 0, slices = 0; /* detector rows of a slab, and of all together; slices of the largest */

    for (int i = 0; i < m->rows; i++) {
        int64_t v0, v1, z0, z1;
        vp_mesh_slab(p, m, i, &z0, &z1);
        vp_mesh_rows(p, m, i, &v0, &v1);
        const double rows = (double)vp_max64(v1 - v0, 1);
        most = fmax(most, rows);
        all += rows;
        slices = fmax(slices, (double)((z1 - z0 + p->unit - 1) / p->unit * p->unit * (m->half ? 2 : 1)));
    }
    const double stored = row * p->sample_bytes, wanted = mine * row * most; /* bytes of a row; samples of a rank */
    memset(t, 0, sizeof *t);
    if (m->gather) {
        const double once = views * stored * (double)r->projections.nv;
        t->load = fmax(over(once / hosts, model->load), over(once, model->load_all));
        t->gather = over(wanted * sizeof(float) * (m->rows - 1) / m->rows, model->exchange);
    } else {
        /* data that several ranks of a host read is cached: storage delivers it once */
        const double each = mine * stored * all / m->rows, once = views * stored * (double)r->projections.nv;
        t->load = fmax(over(each * a_host, model->load), over(fmin(each * p->ranks, once * hosts), model->load_all));
    }
    t->filter = over(m->gather && !p->filter_device ? views / p->ranks * row * (double)r->projections.nv : wanted,
                     model->filter);
    t->upload = over(wanted * sizeof(float), model->upload);
    t->backproject = over(slices * plane * mine, backprojects(model, r));
    const bool apart = !p->on_host && !p->filter_device;
    const double work = apart ? fmax(t->filter, t->backproject) : t->filter + t->backproject;
    t->compute = fmax(fmax(t->load, t->gather), fmax(t->upload, work));
    const double slab = slices * plane * sizeof(float);
    t->download = over(slab, model->download);
    t->reduce = m->columns > 1 ? over(slab * (m->columns - 1) / m->columns, model->reduce) : 0;
    const double bytes = p->discards ? 0 : volume * sizeof(float);
    t->store = fmax(over(bytes / hosts, model->store), over(bytes, model->store_all));
    /* slices are fetched while those before are added and written; those of a slab in parts begin when the views are
     * there and the first part is made, and the last part leaves when all is made */
    const double leave = fmax(t->download, t->reduce + t->store), parts = fmax(m->parts, 1);
    const double feed = parts > 1 ? fmax(fmax(t->load, t->gather), fmax(t->upload, t->filter)) : t->compute;
    t->run = model->start + fmax(t->compute + leave / parts, feed + (parts > 1 ? t->compute / parts : 0) + leave);
}

/* ---- the choice ---- */

static int by_price(const void *a, const void *b)
{
    const struct vp_mesh *x = a, *y = b;
    if (x->price != y->price)
        return x->price < y->price ? -1 : 1;
    return x->columns - y->columns;
}

struct vp_mesh *vp_mesh_choices(const struct vp_mesh_problem *p, const struct vp_model *model, int gather,
                                bool slabs_apart, int *n)
{
    /* subsets cost the promise of equal bits */
    const struct vp_rates *rates = p->of->rates ? p->of->rates : &vp_rates;
    const int64_t views = p->pair > 0 ? p->pair : p->of->last - p->of->first;
    struct vp_mesh *all = calloc((size_t)p->ranks, sizeof *all);
    int64_t lo, hi;
    *n = 0;
    for (int rows = 1; all && rows <= p->ranks; rows++) {
        struct vp_mesh m = {.rows = rows, .columns = p->ranks / rows, .half = p->mirror && rows > 1 && !slabs_apart};
        struct vp_mesh_times t, shared;
        if (p->ranks % rows || units(p, &m, &lo, &hi) < rows || views < m.columns)
            continue;
        m.gather = gather == 1 && rows > 1;
        vp_mesh_times(&t, p, model, &m);
        if (gather < 0 && rows > 1) {
            m.gather = true;
            vp_mesh_times(&shared, p, model, &m);
            m.gather = shared.run < t.run;
            t = m.gather ? shared : t;
        }
        m.price = m.columns > 1 ? t.run / (1 - rates->subsets_part) + rates->subsets_save : t.run;
        all[(*n)++] = m;
    }
    if (*n > 0) {
        vp_sort(all, (size_t)*n, sizeof *all, by_price);
        return all;
    }
    free(all);
    return NULL;
}
