/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/volumes.h"

#include "base/err.h"
#include "base/size.h"
#include "base/spill.h"
#include "ct/quantity.h"
#include "stack/axes.h"
#include "stack/reader.h"

#include <string.h>

/* Rejects pages that are not the slices of one volume. */
static int check_axes(const struct vp_stack *s, const char *name, struct vp_err *err)
{
    struct vp_axes a;
    vp_axes_get(s, &a);
    for (int i = 0; i < a.n; i++)
        if (i != vp_axes_z(&a) && a.size[i] != 1)
            return vp_fail_hint(err, VP_EUSAGE, "if they are slices, img-convert --set axes=x,y,z says so",
                                "%s: the pages are along %s: expected slices of a volume", name, a.name[i]);
    const char *unit = vp_meta_get(&s->meta, "value-unit");
    if (unit && strcmp(unit, "1/mm"))
        return vp_fail_hint(err, VP_EUSAGE, "img-math converts values, --set value-unit=1/mm of img-convert names them",
                            "%s: expected values in 1/mm, got %s", name, unit);
    return 0;
}

int vp_volumes_grid(struct vp_reader *reader, uint64_t memory, struct vp_grid *grid, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);
    const char *const name = vp_reader_name(reader), *unit = vp_meta_get(&s->meta, "unit");
    double origin[3];
    if (vp_quantity_check(s, VP_NEED_VOLUME, name, err) || check_axes(s, name, err))
        return -1;
    if (!vp_meta_numbers(&s->meta, "voxel", 3, grid->voxel) || (unit && strcmp(unit, "mm")))
        return vp_fail_hint(err, VP_EUSAGE, "img-convert --set voxel=0.1mm records it", "%s: the voxel size is unknown", name);
    for (int a = 0; a < 3; a++)
        if (!(grid->voxel[a] > 0 && grid->voxel[a] < 1e9))
            return vp_fail(err, VP_EUSAGE, "%s: expected a voxel size above 0, got %g mm", name, grid->voxel[a]);
    if (s->pages < 0) {
        const int rc = vp_reader_keep(reader, memory, NULL, err);
        if (rc)
            return rc < 0 ? -1 : vp_fail_hint(err, VP_ERESOURCE, "give the file name instead, or allow more with --memory",
                                              "%s: the volume from a pipe takes more than %s", name, vp_bytes_text(memory).text);
        s = vp_reader_stack(reader);
    }
    grid->n[0] = s->nx;
    grid->n[1] = s->ny;
    grid->n[2] = s->pages;
    const bool placed = vp_meta_numbers(&s->meta, "origin", 3, origin);
    for (int a = 0; a < 3; a++)
        grid->center[a] = placed ? origin[a] + 0.5 * (double)(grid->n[a] - 1) * grid->voxel[a] : 0;
    return 0;
}

int vp_volumes_match(const struct vp_reader *reader, const char *option, const int64_t n[3], struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);
    if (s->nx == n[0] && s->ny == n[1] && (s->pages == n[2] || s->pages < 0))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "img-cat --region and --pages cut a volume, --volume chooses the size of the result",
                        "%s: %s: expected %lld x %lld x %lld, got %lld x %lld x %lld", option, vp_reader_name(reader),
                        (long long)n[0], (long long)n[1], (long long)n[2], (long long)s->nx, (long long)s->ny,
                        (long long)s->pages);
}

int vp_volumes_read(struct vp_reader *reader, int64_t slices, int threads, float *to, int64_t *bad, struct vp_err *err)
{
    enum { AT_ONCE = 64 };
    const struct vp_stack *s = vp_reader_stack(reader);
    for (int64_t z = 0, got; z < slices; z += got) {
        void *at[AT_ONCE];
        const int64_t n = vp_min64(AT_ONCE, slices - z);
        for (int64_t i = 0; i < n; i++)
            at[i] = to + (z + i) * s->nx * s->ny;
        got = vp_reader_read(reader, &(struct vp_wanted){VP_NEXT, n, .f32 = true, .bad = bad, .threads = threads}, at, err);
        if (got < 0)
            return -1;
        if (got == 0)
            return vp_fail(err, VP_ERUN, "%s: expected %lld slices, got %lld", vp_reader_name(reader), (long long)slices,
                           (long long)z);
        vp_spill_leave(at[0], (uint64_t)(got * s->nx * s->ny) * sizeof *to, true);
    }
    const int rc = vp_reader_skip(reader, 1, err);
    return rc <= 0 ? rc : vp_fail(err, VP_ERUN, "%s: expected %lld slices, got more", vp_reader_name(reader), (long long)slices);
}
