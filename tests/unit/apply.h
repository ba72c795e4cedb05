/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs operations on whole images at once, as the reference for parts; for benchmarks, too. */
#pragma once

#include "base/size.h"
#include "engine/chain.h"

#include <stdlib.h>

/* Runs a chain on the CPU for a whole image in plain memory (z, y, x order), with buffers of its own. */
static inline int vp_chain_apply(const struct vp_chain *c, const void *const *in, void *out, int threads,
                                 struct vp_err *err)
{
    const struct vp_op *last = &c->stage[c->n - 1];
    const struct vp_box made = {{0, 0, 0}, {last->image[0], last->image[1], last->image[2]}};
    const struct vp_box given = {{0, 0, 0}, {vp_op_input(last, 0), vp_op_input(last, 1), vp_op_input(last, 2)}};
    const size_t most = (size_t)vp_max64(vp_box_size(&given, 2), vp_box_size(&made, 2));
    void **const planes = vp_alloc_raw((size_t)c->stacks + 1, most * sizeof *planes, "pointers to planes", err);
    void *const scratch = vp_alloc_raw(1, vp_chain_bytes(c, &made, threads), "buffers between operations", err);
    void *const kept = vp_alloc(1, vp_op_scans(last) ? vp_chain_state_bytes(c, &made, threads) : 0, "a state", err);
    struct vp_part part[VP_MAX_INPUTS + 1];
    int rc = -1;

    for (int k = 0; planes && k <= c->stacks; k++) {
        const struct vp_box *box = k < c->stacks ? &given : &made;
        const int64_t nx = vp_box_size(box, 0), ny = vp_box_size(box, 1);
        const size_t page = (size_t)(nx * ny) * vp_type_size(k < c->stacks ? c->stage[0].in : last->out);
        char *const base = k < c->stacks ? (char *)(uintptr_t)in[k] : out;
        part[k] = (struct vp_part){*box, nx, planes + (size_t)k * most};
        for (int64_t z = 0; z < vp_box_size(box, 2); z++)
            planes[(size_t)k * most + (size_t)z] = base + (size_t)z * page;
    }
    if (planes && scratch && kept)
        rc = vp_op_scans(last) ? vp_chain_advance(c, part, &part[c->stacks], scratch, kept, threads, err)
                             : vp_chain_run(c, part, &part[c->stacks], scratch, threads, err);
    free(kept);
    free(scratch);
    free(planes);
    return rc;
}

/* Applies a chain to a constant, f64 or else f32. Returns the number of voxels whose bits are others, or -1. */
static inline int64_t vp_chain_changes(const struct vp_chain *c, bool f64, int64_t samples, int64_t voxels,
                                       struct vp_err *err)
{
    double *const in = vp_alloc_raw((size_t)samples, sizeof *in, "samples", err);
    double *const out = vp_alloc_raw((size_t)voxels, sizeof *out, "voxels", err);
    int64_t others = -1;
    for (int64_t i = 0; in && i < samples; i++)
        if (f64)
            in[i] = 0.1;
        else
            ((float *)in)[i] = 0.1f;
    if (in && out && !vp_chain_apply(c, (const void *[]){in}, out, 1, err)) {
        others = 0;
        for (int64_t i = 0; i < voxels; i++)
            others += f64 ? out[i] != 0.1 : ((float *)out)[i] != 0.1f;
    }
    free(in);
    free(out);
    return others;
}
