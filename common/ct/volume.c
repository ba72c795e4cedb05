/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/volume.h"

#include "base/err.h"
#include "base/size.h"
#include "device/device.h"
#include "stack/writer.h"

#include <stdlib.h>

uint64_t vp_slab_bytes(const struct vp_grid *grid, int64_t z0, int64_t z1, bool mirrored)
{
    const int64_t nz = grid->n[2], more = mirrored ? vp_max64(nz - z0 - vp_max64(nz - z1, z1), 0) : 0;
    return (uint64_t)(grid->n[0] * grid->n[1] * (z1 - z0 + more)) * sizeof(float);
}

/* Allocates slab i on its device, or in host memory. */
static int open_slab(struct vp_volume *v, int i, const struct vp_bp_part *part, struct vp_err *err)
{
    const struct vp_bp_job *job = &part->job;
    const struct vp_backend *k = v->backend;
    struct vp_slab *s = &v->slab[i];
    void *voxels = NULL;
    *s = (struct vp_slab){.z0 = job->z0, .z1 = job->z1, .mirrored = job->mirrored, .device = job->device};
    if (k->on_host) {
        if (vp_tiles_open(&s->tiles, v->grid->n, s->z0, s->z1, part->plan.layout, err))
            return -1;
        s->voxels = vp_alloc_raw((size_t)vp_tiles_floats(&s->tiles), sizeof(float), "the volume", err);
        return s->voxels ? 0 : -1;
    }
    const int rc = k->queue_create(s->device, &s->down, err) || k->event_create(s->device, true, &s->copied, err)
                   || k->alloc(s->device, vp_slab_bytes(v->grid, s->z0, s->z1, s->mirrored), &voxels, err) ? -1 : 0;
    s->voxels = voxels;
    return rc && err->code == VP_ERESOURCE ? vp_bp_shortage(job, &part->plan, err) : rc;
}

int vp_volume_open(struct vp_volume *v, const struct vp_backend *backend, const struct vp_bp_part *part, int n,
                   struct vp_err *err)
{
    int rc = 0;
    *v = (struct vp_volume){.grid = part->job.grid, .threads = part->job.threads, .backend = backend, .slabs = n,
                            .slab = vp_alloc((size_t)n, sizeof *v->slab, "the slabs", err)};
    if (!v->slab)
        return -1;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        struct vp_err why = VP_ERR_INIT;
        if (open_slab(v, i, &part[i], &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        vp_volume_close(v);
    return rc;
}

void vp_volume_close(struct vp_volume *v)
{
    const struct vp_backend *k = v->backend;
    for (struct vp_slab *s = v->slab; s && s < v->slab + v->slabs; s++) {
        if (k->on_host) {
            vp_tiles_close(&s->tiles);
            free(s->voxels);
            continue;
        }
        k->queue_destroy(s->down); /* waits */
        k->event_destroy(s->copied);
        if (s->voxels)
            k->release(s->device, s->voxels);
    }
    free(v->slab);
    v->slab = NULL;
    v->slabs = 0;
}

/* Returns the address of slice z in a slab on a device, and the number of slices from it on, itself included, that lie
 * one after the other. NULL: the slab does not have it. */
static float *slice_address(const struct vp_volume *v, const struct vp_slab *s, int64_t z, int64_t *run)
{
    const int64_t nz = v->grid->n[2], page = v->grid->n[0] * v->grid->n[1], upper = vp_max64(nz - s->z1, s->z1);
    if (z >= s->z0 && z < s->z1) {
        *run = s->z1 - z;
        return s->voxels + (z - s->z0) * page;
    }
    *run = nz - s->z0 - z;
    return s->mirrored && z >= upper && *run > 0 ? s->voxels + (s->z1 - s->z0 + z - upper) * page : NULL;
}

/* Queues the copies of slices from a device. */
static int download(struct vp_volume *v, struct vp_slab *s, int64_t z, int64_t n, float *slices, struct vp_err *err)
{
    const int64_t page = v->grid->n[0] * v->grid->n[1];
    for (int64_t k; n > 0; slices += k * page, z += k, n -= k) {
        float *const at = slice_address(v, s, z, &k);
        if (!at)
            return vp_fail(err, VP_ERUN, "slice %lld is not in the slab", (long long)z);
        k = vp_min64(k, n);
        const int64_t bytes = k * page * (int64_t)sizeof(float);
        const struct vp_pitched to = {slices, bytes, bytes}, from = {at, bytes, bytes};
        if (v->backend->copy(s->down, &to, &from, (const int64_t[3]){bytes, 1, 1}, VP_DOWN, err))
            return -1;
        s->downloaded += (uint64_t)bytes;
    }
    return 0;
}

int vp_volume_get(struct vp_volume *v, int i, int64_t z, int64_t n, struct vp_event *after, float *slices,
                  struct vp_err *err)
{
    const struct vp_backend *k = v->backend;
    struct vp_slab *s = &v->slab[i];
    if (k->on_host) {
        vp_tiles_get(&s->tiles, s->voxels, z, n, v->threads, slices);
        return 0;
    }
    if (after && k->queue_wait(s->down, after, err))
        return -1;
    const int rc = download(v, s, z, n, slices, err);
    /* copies that were queued before an error write to `slices`, too */
    return k->event_record(s->down, s->copied, err) || k->event_synchronize(s->copied, err) || rc ? -1 : 0;
}

int vp_volume_put(struct vp_volume *v, int64_t z, int64_t n, float *slices, struct vp_err *err)
{
    if (v->put)
        return v->put(v->ctx, z, n, slices, err);
    return v->any_order ? vp_writer_bands(v->writer, z - v->z0, n, 0, v->grid->n[1], slices, v->threads, err)
           : v->gives   ? vp_writer_give_pages(v->writer, n, slices, v->threads, err)
                        : vp_writer_pages(v->writer, n, slices, v->threads, err);
}
