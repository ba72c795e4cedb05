/* SPDX-License-Identifier: BSD-3-Clause */
/* Non-local means by tiles. For one offset between voxel and candidate after the other, the squared differences of the
 * tile and its patches are summed along y, z and x, for each patch from the lowest offset up: not running sums, whose
 * rounding would depend on their start. */
#include "local/nlmeans.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/nlmeans_isa.h"
#include "engine/chain.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = VP_NLMEANS_LANES };

/* Maximum output voxels of a tile along each axis. */
static const int64_t SIDE_2D[3] = {128, 16, 1}, SIDE_3D[3] = {64, 16, 8};

static const int64_t *side_of(const struct vp_nlmeans_params *p)
{
    return p->patch[2] || p->search[2] ? SIDE_3D : SIDE_2D;
}

static int64_t whole(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* Memory of a thread: rows of floats. */
struct nlmeans_work {
    const struct vp_nlmeans_params *p;
    const struct vp_nlmeans_isa *isa;
    const int64_t *image;
    struct vp_box tile;
    struct vp_box seen;      /* tile grown by search + patch, not clipped */
    int64_t seen_row, row;   /* floats of a row of `seen`; of other rows */
    float *v;                /* samples of `seen`; 0 outside the image */
    float *d, *along_y;      /* tile grown by patch: squared differences; tile grown by patch in x and z */
    float *sum;
    float *rx;               /* for every offset along x and every voxel: 1 / pairs along x */
    float *total, *value;    /* sums of the tile */
    const float **list;
    bool *valid;             /* rows of d */
};

/* Fills the pointers into `mem` (NULL: only counts). Returns the bytes. */
static size_t workspace_layout(struct nlmeans_work *w, const struct vp_nlmeans_params *p, void *mem)
{
    const int64_t *side = side_of(p), *patch = p->patch;
    int64_t seen[3], grown[3];
    size_t bytes = 0;

    for (int a = 0; a < 3; a++) {
        grown[a] = side[a] + 2 * patch[a];
        seen[a] = grown[a] + 2 * p->search[a];
    }
    w->seen_row = whole(seen[0]) + LANES;
    w->row = whole(grown[0]) + LANES;
    const size_t row = (size_t)w->row * sizeof(float), tile = (size_t)(side[1] * side[2]) * row;
    w->v = vp_place(mem, &bytes, (size_t)(w->seen_row * seen[1] * seen[2]) * sizeof *w->v);
    w->d = vp_place(mem, &bytes, (size_t)(grown[1] * grown[2]) * row);
    w->along_y = vp_place(mem, &bytes, (size_t)(side[1] * grown[2]) * row);
    w->sum = vp_place(mem, &bytes, row);
    w->rx = vp_place(mem, &bytes, (size_t)(2 * p->search[0] + 1) * row);
    w->total = vp_place(mem, &bytes, tile);
    w->value = vp_place(mem, &bytes, tile);
    w->list = vp_place(mem, &bytes, (size_t)vp_max64(grown[1], grown[2]) * sizeof *w->list);
    w->valid = vp_place(mem, &bytes, (size_t)(grown[1] * grown[2]) * sizeof *w->valid);
    if (mem)
        memset(mem, 0, bytes); /* ends of rows are read, but not used */
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct nlmeans_work w;

    (void)in;
    (void)out;
    return workspace_layout(&w, op->params, NULL) * (uint64_t)threads;
}

static float *seen_at(const struct nlmeans_work *w, int64_t x, int64_t y, int64_t z)
{
    return w->v + ((z - w->seen.lo[2]) * (w->seen.hi[1] - w->seen.lo[1]) + y - w->seen.lo[1]) * w->seen_row
           + x - w->seen.lo[0];
}

static void load_tile(struct nlmeans_work *w, const struct vp_part *in)
{
    int64_t lo[3], hi[3];

    for (int a = 0; a < 3; a++) {
        const int64_t reach = w->p->search[a] + w->p->patch[a];
        w->seen.lo[a] = w->tile.lo[a] - reach;
        w->seen.hi[a] = w->tile.hi[a] + reach;
        lo[a] = vp_max64(w->seen.lo[a], 0);
        hi[a] = vp_min64(w->seen.hi[a], w->image[a]);
    }
    memset(w->v, 0, (size_t)(w->seen_row * vp_box_size(&w->seen, 1) * vp_box_size(&w->seen, 2)) * sizeof *w->v);
    for (int64_t z = lo[2]; z < hi[2]; z++)
        for (int64_t y = lo[1]; y < hi[1]; y++)
            vp_convert(seen_at(w, lo[0], y, z), VP_F32, vp_part_at(in, vp_type_size(w->p->in), lo[0], y, z), w->p->in,
                       hi[0] - lo[0], 1, 0);
}

/* Returns the number of offsets -patch ... patch from `at` for which both samples of a pair `shift` apart are inside. */
static int64_t pairs(int64_t at, int64_t shift, int64_t patch, int64_t n)
{
    const int64_t lo = vp_max64(vp_max64(-patch, -at), -at - shift);
    const int64_t hi = vp_min64(vp_min64(patch, n - 1 - at), n - 1 - at - shift);

    return hi - lo + 1;
}

static bool exists(int64_t at, int64_t shift, int64_t n)
{
    return at >= 0 && at < n && at + shift >= 0 && at + shift < n;
}

/* Computes squared differences of the tile grown by the patch, for one offset; 0 where one of the two is outside. */
static void make_differences(struct nlmeans_work *w, const int64_t s[3])
{
    const struct vp_nlmeans_params *p = w->p;
    const struct vp_box *t = &w->tile;
    const int64_t x0 = t->lo[0] - p->patch[0], n = vp_box_size(t, 0) + 2 * p->patch[0];
    const int64_t from = vp_max64(vp_max64(0, -s[0]) - x0, 0);
    const int64_t to = vp_min64(vp_min64(w->image[0], w->image[0] - s[0]) - x0, n);
    int64_t r = 0;

    for (int64_t z = t->lo[2] - p->patch[2]; z < t->hi[2] + p->patch[2]; z++)
        for (int64_t y = t->lo[1] - p->patch[1]; y < t->hi[1] + p->patch[1]; y++, r++) {
            float *d = w->d + r * w->row;
            w->valid[r] = exists(y, s[1], w->image[1]) && exists(z, s[2], w->image[2]) && from < to;
            if (!w->valid[r])
                continue;
            w->isa->difference(d, seen_at(w, x0, y, z), seen_at(w, x0 + s[0], y + s[1], z + s[2]), whole(n));
            memset(d, 0, (size_t)from * sizeof *d);
            memset(d + to, 0, (size_t)(n - to) * sizeof *d);
        }
}

/* Sums along y: for the tile's rows in every plane of the tile grown by the patch. */
static void sum_along_y(struct nlmeans_work *w)
{
    const struct vp_nlmeans_params *p = w->p;
    const int64_t ny = vp_box_size(&w->tile, 1), rows = ny + 2 * p->patch[1];
    const int64_t planes = vp_box_size(&w->tile, 2) + 2 * p->patch[2];
    const int64_t n = whole(vp_box_size(&w->tile, 0) + 2 * p->patch[0]);

    for (int64_t z = 0; z < planes; z++)
        for (int64_t y = 0; y < ny; y++) {
            int64_t k = 0;
            for (int64_t i = 0; i <= 2 * p->patch[1]; i++)
                if (w->valid[z * rows + y + i])
                    w->list[k++] = w->d + (z * rows + y + i) * w->row;
            if (k)
                w->isa->add_rows(w->along_y + (z * ny + y) * w->row, w->list, k, n);
        }
}

/* Adds the candidates at one offset to a row of the tile. */
static void add_candidates(struct nlmeans_work *w, const int64_t s[3], int64_t y, int64_t z, int64_t from, int64_t to)
{
    const struct vp_nlmeans_params *p = w->p;
    const struct vp_box *t = &w->tile;
    const int64_t ny = vp_box_size(t, 1), n = vp_box_size(t, 0), row = (z - t->lo[2]) * ny + y - t->lo[1];
    const float *sum = w->along_y + row * w->row;
    const float *rx = w->rx + (s[0] + p->search[0]) * w->row;
    float *total = w->total + row * w->row, *value = w->value + row * w->row;
    float kept[2][LANES];
    int64_t k = 0;

    if (p->patch[2]) {
        for (int64_t i = -p->patch[2]; i <= p->patch[2]; i++)
            if (exists(z + i, s[2], w->image[2]))
                w->list[k++] = w->along_y + (row + (i + p->patch[2]) * ny) * w->row;
        w->isa->add_rows(w->sum, w->list, k, whole(n + 2 * p->patch[0]));
        sum = w->sum;
    }
    const float rate = 1.0f / (float)pairs(y, s[1], p->patch[1], w->image[1])
                     * (1.0f / (float)pairs(z, s[2], p->patch[2], w->image[2]));
    /* voxels beyond `to` have no candidate: whole vectors would touch them */
    memcpy(kept[0], total + to, sizeof kept[0]);
    memcpy(kept[1], value + to, sizeof kept[1]);
    w->isa->weigh(total + from, value + from, sum + from, 2 * p->patch[0] + 1, rx + from, rate,
                  (float)(2 * p->sigma * p->sigma), (float)(1 / (p->h * p->h)), seen_at(w, t->lo[0] + from, y, z),
                  seen_at(w, t->lo[0] + from + s[0], y + s[1], z + s[2]), whole(to - from));
    memcpy(total + to, kept[0], sizeof kept[0]);
    memcpy(value + to, kept[1], sizeof kept[1]);
}

static void one_offset(struct nlmeans_work *w, const int64_t s[3])
{
    const struct vp_box *t = &w->tile;
    const int64_t from = vp_max64(-s[0] - t->lo[0], 0);
    const int64_t to = vp_min64(w->image[0] - s[0] - t->lo[0], vp_box_size(t, 0));

    if (from >= to)
        return;
    make_differences(w, s);
    sum_along_y(w);
    for (int64_t z = t->lo[2]; z < t->hi[2]; z++)
        for (int64_t y = t->lo[1]; y < t->hi[1]; y++)
            if (exists(y, s[1], w->image[1]) && exists(z, s[2], w->image[2]))
                add_candidates(w, s, y, z, from, to);
}

static void one_tile(struct nlmeans_work *w, const struct vp_part *in, const struct vp_part *out)
{
    const struct vp_nlmeans_params *p = w->p;
    const struct vp_box *t = &w->tile;
    const int64_t n = vp_box_size(t, 0), rows = vp_box_size(t, 1) * vp_box_size(t, 2);
    int64_t s[3], r = 0;

    load_tile(w, in);
    for (s[0] = -p->search[0]; s[0] <= p->search[0]; s[0]++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t count = pairs(t->lo[0] + i, s[0], p->patch[0], w->image[0]);
            w->rx[(s[0] + p->search[0]) * w->row + i] = count > 0 ? 1.0f / (float)count : 0;
        }
    memset(w->total, 0, (size_t)(rows * w->row) * sizeof *w->total);
    memset(w->value, 0, (size_t)(rows * w->row) * sizeof *w->value);
    for (s[2] = -p->search[2]; s[2] <= p->search[2]; s[2]++)
        for (s[1] = -p->search[1]; s[1] <= p->search[1]; s[1]++)
            for (s[0] = -p->search[0]; s[0] <= p->search[0]; s[0]++)
                one_offset(w, s);
    for (int64_t z = t->lo[2]; z < t->hi[2]; z++)
        for (int64_t y = t->lo[1]; y < t->hi[1]; y++, r++) {
            const float *here = seen_at(w, t->lo[0], y, z), *total = w->total + r * w->row;
            float *value = w->value + r * w->row;
            for (int64_t i = 0; i < n; i++)
                value[i] = here[i] + value[i] / total[i];
            vp_convert(vp_part_at(out, vp_type_size(p->out), t->lo[0], y, z), p->out, value, VP_F32, n, 1, 0);
        }
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_nlmeans_params *p = op->params;
    const int64_t *side = side_of(p), n = vp_box_tiles(&out->box, side);

    (void)err;
    #pragma omp parallel num_threads(threads)
    {
        struct nlmeans_work w = {.p = p, .isa = VP_ISA_FIND(vp_nlmeans, NULL), .image = op->image};
        const size_t bytes = workspace_layout(&w, p, NULL);
        workspace_layout(&w, p, (char *)mem + (size_t)omp_get_thread_num() * bytes);
        #pragma omp for schedule(dynamic)
        for (int64_t u = 0; u < n; u++) {
            w.tile = vp_box_tile(&out->box, side, u);
            one_tile(&w, in, out);
        }
    }
    return 0;
}

/* ---- make ---- */

int vp_nlmeans_local(struct vp_op *op, double h, double sigma, const int64_t search[3], const int64_t patch[3],
                     const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err)
{
    double offsets = 1;

    *op = (struct vp_op){0};
    if (!(VP_NLMEANS_TYPES & 1u << in) || (out != in && out != VP_F32))
        return vp_fail(err, VP_EUSAGE, "non-local means takes u8, u16, i16 and f32 to the same or f32, not %s to %s",
                       vp_type_name(in), vp_type_name(out));
    if (!(h > 0 && isfinite(h) && isfinite((float)(1 / (h * h))) && (float)(1 / (h * h)) > 0))
        return vp_fail(err, VP_EUSAGE, "--h: expected 6e-20 to 3e22, got %g", h);
    if (!(sigma >= 0 && isfinite((float)(2 * sigma * sigma))))
        return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 to 1e19, got %g", sigma);
    for (int a = 0; a < 3; a++) {
        if (search[a] < 0 || search[a] > VP_NLMEANS_RADIUS || patch[a] < 0 || patch[a] > VP_NLMEANS_RADIUS)
            return vp_fail(err, VP_EUSAGE, "--search, --patch: expected 0 to %d voxels", VP_NLMEANS_RADIUS);
        offsets *= 2 * (double)search[a] + 1;
    }
    struct vp_nlmeans_params *p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = (struct vp_nlmeans_params){.h = h, .sigma = sigma, .in = in, .out = out};
    memcpy(p->search, search, sizeof p->search);
    memcpy(p->patch, patch, sizeof p->patch);
    *op = (struct vp_op){.kernel = "nlmeans", .inputs = 1, .from = {~0}, .in = in, .out = out, .params = p,
                            .free = free, .cost = offsets * (patch[2] || search[2] ? 2 : 1), .scratch = scratch,
                            .run = run};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->halo[a] = vp_min64(search[a] + patch[a], image[a] - 1);
    }
    snprintf(op->text, sizeof op->text,
             "non-local means, h %g, sigma %g, search %lld %lld %lld, patch %lld %lld %lld, %s", h, sigma,
             (long long)search[0], (long long)search[1], (long long)search[2],
             (long long)patch[0], (long long)patch[1], (long long)patch[2], vp_isa_name());
    return 0;
}
