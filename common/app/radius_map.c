/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/radius_map.h"

#include "app/image_run.h"
#include "app/open.h"
#include "app/tool.h"
#include "base/err.h"
#include "base/size.h"
#include "engine/pages.h"
#include "global/sat.h"
#include "local/radius_map.h"
#include "stack/paths.h"

#include <math.h>
#include <string.h>

const struct vp_opt vp_radius_map_options[] = {
    VP_FILE(struct vp_radius_map_given, file, "radius-map", 0, .metavar = "FILE", .group = "Neighbourhood",
            .help = "mean, sum, var and std over a box of another size for every voxel",
            .more = "The sample of FILE is the radius of the box around its voxel: 0 is the voxel alone, 1 is 3 x 3 "
                    "pixels or 3 x 3 x 3 voxels. FILE has as many pages as the input, or one page, which holds for all "
                    "of them; its samples, of any type, are whole numbers. The time does not depend on the radii, the "
                    "memory on the largest one (see RADIUS MAPS). It takes the place of --radius."),
    VP_OPT_END,
};

static const char *const STATS[] = {"mean", "sum", "var", "std"};
enum { N_STATS = sizeof STATS / sizeof *STATS };

static int stat_of(const struct vp_stat_params *stat)
{
    for (int i = 0; i < N_STATS; i++)
        if (!strcmp(stat->stat, STATS[i]))
            return i;
    return -1;
}

int vp_radius_map_check(const struct vp_radius_map_given *given, const struct vp_run *run,
                        const struct vp_stat_params *stat, struct vp_err *err)
{
    static const char *const apart[] = {"radius", "shape", "footprint", "center", "iterations", "physical"};

    if (!given->file)
        return strcmp(stat->stat, "sum") ? 0
               : vp_fail_hint(err, VP_EUSAGE, "the sum over boxes of one size is their mean times their voxels",
                              "--stat sum needs --radius-map");
    if (stat_of(stat) < 0)
        return vp_fail(err, VP_EUSAGE, "--radius-map needs --stat mean, sum, var or std, got %s", stat->stat);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (vp_given(run, apart[i]))
            return vp_fail(err, VP_EUSAGE, "--radius-map and --%s cannot be combined", apart[i]);
    return 0;
}

/* ---- the radii ---- */

struct radii {
    const struct vp_pages *pages;
    double most;
};

static int look_at(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    enum { BLOCK = 4096 };
    struct radii *const r = ctx;
    const struct vp_stack *s = vp_reader_stack(r->pages->reader);
    const int64_t all = n * r->pages->rows * s->nx;
    double v[BLOCK];

    (void)out;
    for (int64_t i = 0; i < all; i += BLOCK) {
        const int64_t some = vp_min64(BLOCK, all - i);
        vp_convert(v, VP_F64, (const char *)in + (size_t)i * vp_type_size(s->type), s->type, some, 1, 0);
        for (int64_t k = 0; k < some; k++) {
            const int64_t row = r->pages->row + (i + k) / s->nx;
            if (!(v[k] >= 0 && v[k] <= VP_RADIUS_MAX && v[k] == floor(v[k])))
                return vp_fail(err, VP_ERUN, "%s: page %lld, row %lld, column %lld: expected a radius of 0 to %g whole "
                               "voxels, got %.9g", vp_reader_name(r->pages->reader), (long long)(page + row / s->ny),
                               (long long)(row % s->ny), (long long)((i + k) % s->nx), VP_RADIUS_MAX, v[k]);
            r->most = fmax(r->most, v[k]);
        }
    }
    return n;
}

static int open_map(struct vp_images *im, struct vp_run *run, const char *path, int64_t *reach, struct vp_err *err)
{
    const struct vp_stack *a = vp_reader_stack(im->reader[0]);
    uint64_t held = 0;

    if (vp_list_apart(run, "radius-map", path, err) || vp_path_apart(path, run->common.output, err)
        || vp_open_mask(run, path, &im->reader[1], err))
        return -1;
    im->n = 2;
    struct vp_reader *const r = im->reader[1];
    const struct vp_stack *b = vp_reader_stack(r);
    if (a->nx != b->nx || a->ny != b->ny)
        return vp_fail(err, VP_ERUN, "%s has pages of %lldx%lld, the radii %s of %lldx%lld: expected the same size",
                       vp_reader_name(im->reader[0]), (long long)a->nx, (long long)a->ny, vp_reader_name(r),
                       (long long)b->nx, (long long)b->ny);
    if (!vp_reader_seekable(r) && vp_reader_keep(r, run->common.memory / 4, &held, err))
        return -1;
    im->held += held;
    if (b->pages > 0 && a->pages > 0 && b->pages != 1 && b->pages != a->pages)
        return vp_fail(err, VP_ERUN,
                       "%s has %lld pages, the radii %s %lld: expected equal numbers, or radii of one page",
                       vp_reader_name(im->reader[0]), (long long)a->pages, vp_reader_name(r), (long long)b->pages);
    im->single[1] = b->pages == 1 && a->pages != 1;
    struct radii radii = {.most = 0};
    struct vp_pages pages = {.reader = r, .height = b->ny, .memory = run->common.memory, .stats = run->stats,
                             .progress = run->progress, .stage = "radii", .work = look_at, .ctx = &radii};
    radii.pages = &pages;
    if (vp_pages_run(&pages, err) || vp_reader_seek(r, 0, err))
        return -1;
    *reach = (int64_t)radii.most;
    return 0;
}

/* ---- the chain ---- */

static enum vp_type type_of(const struct vp_radius_map *p, const struct vp_stat_params *stat,
                            const struct vp_images *im)
{
    enum { AUTO, SAME, F32, F64 };
    double most = 1;

    for (int a = 0; a < (p->volume ? 3 : 2); a++)
        most *= fmin(2 * (double)p->reach + 1, (double)im->size[a]);
    if (stat->type == F32 || stat->type == F64)
        return stat->type == F32 ? VP_F32 : VP_F64;
    if (stat->type == SAME || p->stat == VP_RADIUS_MEAN)
        return p->from;
    return p->stat == VP_RADIUS_SUM ? vp_sat_type(p->from, most) : vp_type_of_values(p->from);
}

int vp_radius_map_chain(struct vp_images *im, struct vp_run *run, const struct vp_radius_map_given *given,
                        const struct vp_stat_params *stat, struct vp_result *result, struct vp_err *err)
{
    struct vp_radius_map p = {.stat = (enum vp_radius_stat)stat_of(stat), .sample = stat->sample, .volume = !im->flat,
                              .from = im->all_i8 ? VP_I8 : im->type, .whole = !vp_type_is_float(im->type)};
    double range[2] = {0, 0};
    struct vp_op op;

    if (!p.whole) {
        vp_report_plan(run, "passes", "2, the first for the range of the samples");
        if (vp_images_keep(im, run, false, err) || vp_images_range(im, run, range, err))
            return -1;
    }
    p.lo = range[0];
    p.hi = range[1];
    if (open_map(im, run, given->file, &p.reach, err))
        return -1;
    *result = p.stat == VP_RADIUS_STD   ? (struct vp_result){VP_SPREADS, "local standard deviation"}
              : p.stat == VP_RADIUS_VAR ? (struct vp_result){VP_SQUARES, "local variance"}
              : p.stat == VP_RADIUS_SUM ? (struct vp_result){VP_VALUES, "local sum"}
                                        : (struct vp_result){VP_VALUES, NULL};
    const enum vp_type out = type_of(&p, stat, im);
    im->type = vp_type_of_values(p.from); /* holds the radii, too */
    return vp_radius_map_local(&op, &p, im->size, im->type, out, err) || vp_chain_add(&im->chain, &op, err) ? -1 : 0;
}
