/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/volume.h"

#include "base/err.h"
#include "base/size.h"
#include "device/device.h"

#include <assert.h>
#include <stdlib.h>

int vp_volume_open(struct vp_volume *v, const struct vp_backend *backend, const struct vp_bp_job *job, int n,
                   struct vp_err *err)
{
    int rc = 0;
    *v = (struct vp_volume){.backend = backend, .page = job->grid->n[0] * job->grid->n[1], .slabs = n,
                            .slab = vp_alloc((size_t)n, sizeof *v->slab, "the slabs", err)};
    if (!v->slab)
        return -1;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_open(&v->slab[i], backend, &job[i], &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        vp_volume_close(v);
    return rc;
}

void vp_volume_close(struct vp_volume *v)
{
    for (int i = 0; i < v->slabs && v->slab; i++)
        vp_slab_close(v->slab[i]);
    free(v->slab);
    *v = (struct vp_volume){.slabs = 0};
}

int vp_adjoint(const struct vp_projections *p, struct vp_volume *v, enum vp_weight weight, uint64_t *ticket,
               struct vp_err *err)
{
    assert(weight == VP_WEIGHT_FDK);
    for (int i = 0; i < v->slabs; i++) {
        ticket[i] = 0;
        if (vp_slab_wants(v->slab[i], p->first)
            && vp_slab_add(v->slab[i], p->first, p->n, p->v0, p->v1, p->samples, &ticket[i], err))
            return -1;
    }
    return 0;
}

int vp_volume_wait(struct vp_volume *v, const uint64_t *ticket, struct vp_err *err)
{
    for (int i = 0; i < v->slabs; i++)
        if (vp_slab_wait(v->slab[i], ticket[i], err))
            return -1;
    return 0;
}

int vp_adjoint_end(struct vp_volume *v, struct vp_err *err)
{
    for (int i = 0; i < v->slabs; i++)
        if (vp_slab_flush(v->slab[i], err))
            return -1;
    return 0;
}

/* Slices out, or, where there are some, `in`. */
static int copy(struct vp_volume *v, int64_t z, int64_t n, float *out, const float *in, struct vp_err *err)
{
    for (int64_t done = 0, run = 1; done < n; done += run, z += run, run = 1) {
        int i = 0;
        while (i < v->slabs && !vp_slab_has(v->slab[i], z))
            i++;
        if (i == v->slabs)
            return vp_fail(err, VP_ERUN, "slice %lld is not in the volume", (long long)z);
        while (done + run < n && vp_slab_has(v->slab[i], z + run))
            run++;
        if (in ? vp_slab_put(v->slab[i], z, run, in + done * v->page, err)
               : vp_slab_slices(v->slab[i], z, run, out + done * v->page, err))
            return -1;
    }
    return 0;
}

int vp_volume_get(struct vp_volume *v, int64_t z, int64_t n, float *slices, struct vp_err *err)
{
    return copy(v, z, n, slices, NULL, err);
}

int vp_volume_put(struct vp_volume *v, int64_t z, int64_t n, const float *slices, struct vp_err *err)
{
    return copy(v, z, n, NULL, slices, err);
}

int vp_volume_blend(struct vp_volume *y, float a, struct vp_volume *x, float b, struct vp_err *err)
{
    if (x && x->slabs != y->slabs)
        return vp_fail(err, VP_ERUN, "volumes of %d and %d slabs", y->slabs, x->slabs);
    for (int i = 0; i < y->slabs; i++)
        if (vp_slab_blend(y->slab[i], a, x ? x->slab[i] : NULL, b, err))
            return -1;
    return 0;
}
