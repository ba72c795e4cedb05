/* SPDX-License-Identifier: BSD-3-Clause */
/* Sum, mean, smallest and largest of stacks; slabs joined. */
#include "pages/reduce.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "stack/set.h"
#include "stack/axes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_reduce_options[] = {
    VP_CHOICE(struct vp_reduce_params, op, "op", 0, "sum|mean|min|max", .def = "sum", .group = "Reduction",
              .help = "operation on the samples at the same place",
              .more = "- sum and mean are computed in double precision, in the order of the operands. The result is "
                      "f64 for f64 and for integers of 32 and 64 bits, and f32 for all other types.\n"
                      "- min and max keep the sample type and ignore NaN."),
    VP_FLAG(struct vp_reduce_params, pages, "pages", 0,
            .help = "reduce the pages of one stack",
            .more = "All operands are read as one stack: ct-reduce --op mean --pages flats/*.tif"),
    VP_STRING(struct vp_reduce_params, along, "along", 0, .metavar = "AXIS", .choices = "z|channel|time|view",
              .help = "reduce the pages along this axis (default: the first axis that is not channel)",
              .more = "One page is written for each combination of the other axes. For example, with axes x y "
                      "channel z time and --along z, the output has one page for each channel at each time. img-info "
                      "shows the axes. The result of reducing z is one slice as thick as all of them."),
    VP_FLAG(struct vp_reduce_params, join, "join", 0,
            .help = "join the slabs of a volume along z",
            .more = "Slabs are sorted by the origins in their metadata, and must fit without gap or overlap. Slabs "
                    "without origins are joined in the order given."),
    VP_OPT_END,
};

enum vp_type vp_reduce_type(int op, enum vp_type in)
{
    return op == VP_REDUCE_MIN || op == VP_REDUCE_MAX ? in : vp_type_of_values(in);
}

static bool adds(const struct vp_reduce *r)
{
    return r->op == VP_REDUCE_SUM || r->op == VP_REDUCE_MEAN;
}

static size_t held_size(const struct vp_reduce *r)
{
    return adds(r) ? sizeof(double) : vp_type_size(r->type);
}

static size_t result_bytes(const struct vp_reduce *r)
{
    return (size_t)r->n * vp_type_size(vp_reduce_type(r->op, r->type));
}

int vp_reduce_open(struct vp_reduce *r, int op, enum vp_type in, int64_t n, int threads, struct vp_err *err)
{
    *r = (struct vp_reduce){.op = op, .type = in, .n = n, .threads = threads > 0 ? threads : 1};
    r->held = vp_alloc((size_t)n, held_size(r), "the sums of a page", err);
    return r->held ? 0 : -1;
}

/* Reduces one part of a page; the number of NaN in it. A NaN is what differs from itself; no integer does. */
static int64_t add_part(const struct vp_reduce *r, const void *samples, int64_t i0, int64_t i1)
{
    int64_t nan = 0;

#define PART_OF(TYPE, T, H, STATEMENT) case VP_##TYPE: { const T *x = samples; H *y = r->held; \
    for (int64_t i = i0; i < i1; i++) { nan += x[i] != x[i]; STATEMENT; } break; }
#define ADD(TYPE, T) PART_OF(TYPE, T, double, y[i] += (double)x[i])
#define COPY(TYPE, T) PART_OF(TYPE, T, T, y[i] = x[i])
#define LEAST(TYPE, T) PART_OF(TYPE, T, T, y[i] = x[i] < y[i] || y[i] != y[i] ? x[i] : y[i])
#define MOST(TYPE, T) PART_OF(TYPE, T, T, y[i] = x[i] > y[i] || y[i] != y[i] ? x[i] : y[i])
#define EACH(DO) switch (r->type) { VP_EACH_TYPE(DO) default: break; }
    if (adds(r))
        EACH(ADD)
    else if (!r->added)
        EACH(COPY)
    else if (r->op == VP_REDUCE_MIN)
        EACH(LEAST)
    else
        EACH(MOST)
    return nan;
}

enum { PART = 1 << 16 };

void vp_reduce_add(struct vp_reduce *r, const void *samples)
{
    int64_t nan = 0;

    #pragma omp parallel for schedule(static) num_threads(r->threads) reduction(+ : nan) if (r->n > PART)
    for (int64_t i = 0; i < r->n; i += PART)
        nan += add_part(r, samples, i, i + PART < r->n ? i + PART : r->n);
    r->nan += nan;
    r->added++;
}

void vp_reduce_result(struct vp_reduce *r, void *out)
{
    if (out && adds(r)) {
        const double divisor = r->op == VP_REDUCE_MEAN && r->added ? (double)r->added : 1;
        const double *held = r->held;
        const bool wide = vp_reduce_type(r->op, r->type) == VP_F64;
        #pragma omp parallel for schedule(static) num_threads(r->threads) if (r->n > PART)
        for (int64_t i = 0; i < r->n; i++)
            if (wide)
                ((double *)out)[i] = held[i] / divisor;
            else
                ((float *)out)[i] = (float)(held[i] / divisor);
    } else if (out) {
        memcpy(out, r->held, (size_t)r->n * held_size(r));
    }
    r->added = 0;
    if (adds(r))
        memset(r->held, 0, (size_t)r->n * held_size(r));
}

uint64_t vp_reduce_bytes(const struct vp_reduce *r)
{
    return (uint64_t)r->n * held_size(r);
}

void vp_reduce_close(struct vp_reduce *r)
{
    free(r->held);
    r->held = NULL;
}

/* ---- stacks in lockstep ---- */

static int check_same(const struct vp_reader *first, const struct vp_reader *other, bool pages,
                      struct vp_err *err)
{
    const struct vp_stack *a = vp_reader_stack(first), *b = vp_reader_stack(other);

    if (a->nx != b->nx || a->ny != b->ny)
        return vp_fail(err, VP_ERUN, "%s: expected pages of %lldx%lld as in %s, got %lldx%lld", vp_reader_name(other),
                       (long long)a->nx, (long long)a->ny, vp_reader_name(first), (long long)b->nx, (long long)b->ny);
    if (a->type != b->type) {
        vp_fail(err, VP_ERUN, "%s: expected samples of %s as in %s, got %s", vp_reader_name(other),
                vp_type_name(a->type), vp_reader_name(first), vp_type_name(b->type));
        return vp_hint(err, "img-convert --type %s", vp_type_name(a->type));
    }
    if (pages && a->pages >= 0 && b->pages >= 0 && a->pages != b->pages)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages as in %s, got %lld", vp_reader_name(other),
                       (long long)a->pages, vp_reader_name(first), (long long)b->pages);
    return 0;
}

/* Slabs are copied as they are stored, and one scale is said of all. */
static int check_scale(const struct vp_reader *first, const struct vp_reader *other, struct vp_err *err)
{
    const struct vp_meta *const m = &vp_reader_stack(first)->meta, *const n = &vp_reader_stack(other)->meta;
    const char *const said = vp_meta_get(m, "scale"), *const here = vp_meta_get(n, "scale");
    double a[2], b[2];

    if (said && here && !strcmp(said, here))
        return 0;
    if (vp_scale_of(m, vp_reader_name(first), a, err) || vp_scale_of(n, vp_reader_name(other), b, err))
        return -1;
    if (a[0] == b[0] && a[1] == b[1])
        return 0;
    vp_fail(err, VP_ERUN, "%s: expected the scale %.9g %.9g as in %s, got %.9g %.9g", vp_reader_name(other), a[0], a[1],
            vp_reader_name(first), b[0], b[1]);
    return vp_hint(err, "undo it in each of them first: img-convert --unscale");
}

/* Reads the position of a volume; false if it has none. */
static bool place_of(const struct vp_reader *r, double origin[3], double voxel[3])
{
    const struct vp_meta *m = &vp_reader_stack(r)->meta;

    return vp_meta_numbers(m, "origin", 3, origin) && vp_meta_numbers(m, "voxel", 3, voxel) && voxel[2] > 0;
}

int vp_reduce_stack(struct vp_reader *const *readers, int n, int op, struct vp_stack *out, char *note,
                    size_t size, struct vp_err *err)
{
    double origin[3], voxel[3], other[3], other_voxel[3];
    const bool placed = place_of(readers[0], origin, voxel);

    note[0] = '\0';
    for (int i = 1; i < n; i++) {
        if (check_same(readers[0], readers[i], true, err))
            return -1;
        if (!placed || note[0] || !place_of(readers[i], other, other_voxel))
            continue;
        for (int k = 0; k < 3; k++)
            if (fabs(other[k] - origin[k]) > 1e-3 * fabs(voxel[k])
                || fabs(other_voxel[k] - voxel[k]) > 1e-6 * fabs(voxel[k]))
                snprintf(note, size, "%s: its position differs from that of %s (origin or voxel)",
                         vp_reader_name(readers[i]), vp_reader_name(readers[0]));
    }
    if (vp_stack_copy(out, vp_reader_stack(readers[0])))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 1; out->pages < 0 && i < n; i++)
        out->pages = vp_reader_stack(readers[i])->pages;
    out->type = vp_reduce_type(op, out->type);
    return 0;
}

struct lockstep {
    struct vp_reduce *reduce;
    struct vp_reader *const *readers;
    int n;
    void *page;           /* page of the others */
    struct vp_along along; /* reduce[i % sums] has the sums of page i */
};

static int add_others(const struct lockstep *l, int64_t page, struct vp_err *err)
{
    for (int i = 1; i < l->n; i++) {
        const int got = vp_reader_next(l->readers[i], l->page, err);
        if (got < 0)
            return -1;
        if (!got)
            return vp_fail(err, VP_ERUN, "%s: expected more pages as in %s, got %lld",
                           vp_reader_name(l->readers[i]), vp_reader_name(l->readers[0]), (long long)page);
        vp_reduce_add(l->reduce, l->page);
    }
    return 0;
}

static int reduce_batch(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    const struct lockstep *l = ctx;
    const size_t bytes = result_bytes(l->reduce);
    int made = 0;

    for (int k = 0; k < n; k++) {
        struct vp_reduce *r = &l->reduce[(page + k) % l->along.sums];
        vp_reduce_add(r, (const char *)in + (size_t)(k * r->n) * vp_type_size(r->type));
        if (add_others(l, page + k, err))
            return -1;
        if (out && (page + k) / l->along.sums % l->along.count == l->along.count - 1)
            vp_reduce_result(r, (char *)out + (size_t)made++ * bytes);
    }
    return out ? made : n;
}

static int run_lockstep(struct lockstep *l, struct vp_pages *pages, struct vp_err *err)
{
    pages->as_f32 = false;
    pages->out_bytes = result_bytes(l->reduce);
    pages->work = reduce_batch;
    pages->ctx = l;
    return vp_pages_run(pages, err);
}

int vp_reduce_run(struct vp_reduce *r, struct vp_reader *const *readers, int n, struct vp_pages *pages,
                  struct vp_err *err)
{
    struct lockstep l = {.reduce = r, .readers = readers, .n = n, .along = {.count = 1, .sums = 1}};

    l.page = vp_alloc_raw((size_t)r->n, vp_type_size(r->type), "a page", err);
    if (!l.page)
        return -1;
    int rc = run_lockstep(&l, pages, err);
    for (int i = 1; i < n && !rc; i++) {
        rc = vp_reader_next(readers[i], l.page, err);
        if (rc > 0)
            rc = vp_fail(err, VP_ERUN, "%s: expected %lld pages as in %s, got more", vp_reader_name(readers[i]),
                         (long long)pages->done, vp_reader_name(readers[0]));
    }
    free(l.page);
    return rc;
}

/* ---- the pages of one stack ---- */

static bool is_channels(const char *name)
{
    return !strcmp(name, "channel") || !strcmp(name, "sample"); /* see vp_axes_channels */
}

static int no_axis(const char *name, const struct vp_reader *reader, struct vp_err *err)
{
    const char *axes = vp_meta_get(&vp_reader_stack(reader)->meta, "axes");

    return vp_fail(err, VP_ERUN, "%s: --along: expected an axis %s, got the axes %s", vp_reader_name(reader), name,
                   axes ? axes : "x y z by default");
}

int vp_along_find(struct vp_along *a, const char *name, const struct vp_reader *reader, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(reader);
    struct vp_axes axes;
    int which = 0;

    vp_axes_get(in, &axes);
    *a = (struct vp_along){.stride = 1, .count = in->pages, .sums = 1};
    if (axes.n == 0) /* slices */
        return name && strcmp(name, "z") ? no_axis(name, reader, err) : 0;
    if (name)
        which = vp_axes_find(&axes, name);
    else
        while (which < axes.n && is_channels(axes.name[which]))
            which++;
    if (which < 0)
        return no_axis(name, reader, err);
    if (which == axes.n)
        return vp_fail_hint(err, VP_ERUN, "--along channel reduces over them", "%s: all pages are channels",
                            vp_reader_name(reader));
    if (axes.n > 1 && !axes.sized)
        return vp_fail_hint(err, VP_ERUN, "img-convert --set sizes=... gives them",
                            "%s: the number of pages along each of the axes %s is unknown",
                            vp_reader_name(reader), vp_meta_get(&in->meta, "axes"));
    strcpy(a->name, axes.name[which]);
    a->stride = vp_axes_stride(&axes, which);
    a->count = axes.size[which];
    a->sums = vp_reader_seekable(reader) ? 1 : a->stride;
    return 0;
}

/* Slices become one. */
static int thicken(const struct vp_along *a, struct vp_meta *m)
{
    double voxel[3], origin[3];

    if (!vp_meta_numbers(m, "voxel", 3, voxel))
        return vp_meta_set(m, "origin", NULL);
    if (vp_meta_numbers(m, "origin", 3, origin)) {
        origin[2] += voxel[2] * (double)(a->count - 1) / 2;
        if (vp_set_numbers(m, "origin", 3, origin))
            return -1;
    }
    voxel[2] *= (double)a->count;
    return vp_set_numbers(m, "voxel", 3, voxel);
}

int vp_along_stack(const struct vp_along *a, struct vp_stack *out, struct vp_err *err)
{
    struct vp_axes axes;
    const bool slices = !*a->name || !strcmp(a->name, "z"), channels = is_channels(a->name);

    vp_axes_get(out, &axes);
    if (*a->name)
        vp_axes_drop(&axes, vp_axes_find(&axes, a->name));
    int rc = vp_axes_set(&out->meta, &axes);
    if (slices)
        rc = rc || thicken(a, &out->meta);
    if (channels)
        rc = rc || vp_meta_set(&out->meta, "channels", NULL);
    else if (strcmp(a->name, "time"))
        vp_meta_remove_prefix(&out->meta, "geom.");
    if (out->pages > 0)
        out->pages /= a->count;
    return rc ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

struct turned { const struct vp_along *along; struct vp_reader *reader; };

/* Reads pages in the order in which one sum after the other becomes whole. */
static int64_t read_turned(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    const struct turned *t = source;
    const struct vp_along *a = t->along;

    for (int64_t k = 0; k < n; k++) {
        const int64_t result = (page + k) / a->count, i = result % a->stride, o = result / a->stride;
        const struct vp_wanted w = {.page = i + a->stride * ((page + k) % a->count + a->count * o), .n = 1,
                                    .threads = threads};
        if (vp_reader_read(t->reader, &w, &to[k], err) < 0)
            return -1;
    }
    return n;
}

int vp_along_run(const struct vp_along *a, struct vp_reduce *r, struct vp_reader *reader, struct vp_pages *pages,
                 struct vp_err *err)
{
    struct lockstep l = {.reduce = r, .readers = &reader, .n = 1, .along = *a};
    struct turned t = {a, reader};

    if (a->stride > 1 && a->sums == 1) {
        pages->read = read_turned;
        pages->source = &t;
        pages->count = vp_reader_stack(reader)->pages;
    }
    if (run_lockstep(&l, pages, err))
        return -1;
    if (a->count < 0 || pages->done % (a->stride * a->count) == 0)
        return 0;
    return vp_fail(err, VP_ERUN, "%s: expected a multiple of %lld pages, by its axes, got %lld", vp_reader_name(reader),
                   (long long)(a->stride * a->count), (long long)pages->done);
}

/* ---- slabs ---- */

struct reduce_slab { struct vp_reader *reader; int at; double z; };

static int by_z(const void *pa, const void *pb)
{
    const struct reduce_slab *a = pa, *b = pb;

    return a->z != b->z ? (a->z > b->z) - (a->z < b->z) : a->at - b->at;
}

/* Checks that slab `next` begins where `slab` of `pages` pages ends. */
static int check_fit(const struct vp_reader *slab, int64_t pages, const struct vp_reader *next,
                     struct vp_err *err)
{
    double o[3], v[3], on[3], vn[3];

    if (!place_of(slab, o, v) || !place_of(next, on, vn))
        return 0;
    for (int k = 0; k < 3; k++)
        if (fabs(vn[k] - v[k]) > 1e-6 * fabs(v[k]))
            return vp_fail(err, VP_ERUN, "%s: expected voxels of %g x %g x %g as in %s, got %g x %g x %g",
                           vp_reader_name(next), v[0], v[1], v[2], vp_reader_name(slab), vn[0], vn[1], vn[2]);
    for (int k = 0; k < 2; k++)
        if (fabs(on[k] - o[k]) > 1e-3 * fabs(v[k]))
            return vp_fail(err, VP_ERUN, "%s: expected the origin %c = %g as in %s, got %g", vp_reader_name(next),
                           "xy"[k], o[k], vp_reader_name(slab), on[k]);
    const double expected = o[2] + (double)pages * v[2], off = (on[2] - expected) / v[2];
    if (fabs(off) > 0.01)
        return vp_fail(err, VP_ERUN, "%s: expected the origin z = %.9g at the end of %s, got %.9g: %s of %.6g slices",
                       vp_reader_name(next), expected, vp_reader_name(slab), on[2], off > 0 ? "gap" : "overlap",
                       fabs(off));
    return 0;
}

int vp_join_stack(struct vp_reader **readers, int n, struct vp_stack *out, struct vp_err *err)
{
    struct reduce_slab *slabs = calloc((size_t)n, sizeof *slabs);
    double origin[3], voxel[3];
    bool placed = true, known = true;
    int64_t pages = 0;
    int rc = -1;

    if (!slabs)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; i < n; i++) {
        placed &= place_of(readers[i], origin, voxel);
        slabs[i] = (struct reduce_slab){readers[i], i, placed ? origin[2] : 0};
        if (i && (check_same(readers[0], readers[i], false, err) || check_scale(readers[0], readers[i], err)))
            goto out;
    }
    if (placed)
        vp_sort(slabs, (size_t)n, sizeof *slabs, by_z);
    for (int i = 0; i < n; i++) {
        const int64_t here = vp_reader_stack(slabs[i].reader)->pages;
        readers[i] = slabs[i].reader;
        known &= here >= 0;
        pages += here;
        if (placed && here >= 0 && i + 1 < n && check_fit(slabs[i].reader, here, slabs[i + 1].reader, err))
            goto out;
    }
    if (vp_stack_copy(out, vp_reader_stack(readers[0]))) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    out->pages = known ? pages : -1;
    vp_meta_set(&out->meta, "sizes", NULL);
    rc = 0;
out:
    free(slabs);
    return rc;
}

int vp_join_run(struct vp_reader *const *readers, int n, struct vp_pages *pages, struct vp_err *err)
{
    int64_t done = 0;

    pages->as_f32 = false;
    pages->out_bytes = vp_page_bytes(vp_reader_stack(readers[0]));
    pages->in_place = true;
    for (int i = 0; i < n; i++) {
        pages->reader = readers[i];
        if (vp_pages_run(pages, err) || (i + 1 < n && check_fit(readers[i], pages->done, readers[i + 1], err)))
            return -1;
        done += pages->done;
    }
    pages->done = done;
    return 0;
}
