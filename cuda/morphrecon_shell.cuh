/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchange between boxes (global/morphrecon.h): copies the shell of a box to its entry, and back. */
#pragma once

#include "footprint.cuh"
#include "global/morphrecon.h"
#include "morphrecon_solve.cuh"

namespace vp
{

template <class U> struct shell_job {
    recon_buffers<U> b;
    recon_shape s;
    struct vp_shell shell;
    enum vp_key key;
    uint32_t voxels;
    char *entry;
};

/* Position of a voxel: its tile; its index in row-major order within the tile (contraction), and in the order of
 * keys. */
struct shell_place {
    int64_t tile, plain, key;
};

/* Returns the shell index of voxel i of all faces and sets its place; -1 if its face is not part of the shell or it
 * belongs to an earlier face. */
template <class U, bool FLAT> __device__ int64_t shell_voxel(const shell_job<U> &j, int64_t i, shell_place &place)
{
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T;
    const int64_t *const n = j.shell.size, face[3] = {n[1] * n[2], n[0] * n[2], n[0] * n[1]};
    int64_t v[3];
    int a = 0, side = 0;
    for (; i >= face[a]; side ^= 1) {
        i -= face[a];
        a += side;
    }
    if (side ? !j.shell.hi[a] : !j.shell.lo[a])
        return -1;
    v[a] = side ? n[a] - 1 : 0;
    v[a == 0] = i % n[a == 0];
    v[a == 2 ? 1 : 2] = i / n[a == 0];
    for (int f = 0; f < a; f++)
        if (vp_shell_at(&j.shell, f, v[f]))
            return -1;
    if (side && j.shell.lo[a] && v[a] == 0)
        return -1;
    const int x = (int)(v[0] % T), y = (int)(v[1] % T), z = (int)(v[2] % DEPTH);
    place.tile = (v[2] / DEPTH * j.s.t[1] + v[1] / T) * j.s.t[0] + v[0] / T;
    place.plain = place.tile * (T * T * DEPTH) + (z * T + y) * T + x;
    place.key = place.tile * (T * T * DEPTH) + voxel_at<U, FLAT>(x, y, z);
    return vp_shell_index(&j.shell, v[0], v[1], v[2]);
}

template <class U> int64_t shell_faces(const shell_job<U> &j)
{
    const int64_t *const n = j.shell.size;
    return 2 * (n[1] * n[2] + n[0] * n[2] + n[0] * n[1]);
}

enum shell_step {
    SHELL_RAISE, /* raise values to those of the entry */
    SHELL_COUNT, /* store the best way out of the box in the nodes */
    SHELL_STORE  /* store values, masks and edges to nodes in the entry */
};

/* Performs one step for all voxels of the shell. */

template <class U, bool FLAT, enum shell_step STEP>
__global__ void __launch_bounds__(256) shell_kernel(shell_job<U> j, int64_t faces)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < faces; i += (int64_t)gridDim.x * blockDim.x) {
        shell_place place;
        const int64_t v = shell_voxel<U, FLAT>(j, i, place), p = place.key;
        if (v < 0)
            continue;
        U *const values = (U *)(j.entry + vp_entry_value());
        if (STEP == SHELL_RAISE) {
            j.b.value[p] = min(max(j.b.value[p], values[v]), j.b.mask[p]);
            continue;
        }
        const uint32_t in_tile = j.b.node[place.plain], node = in_tile == NO_NODE ? 0 : j.b.base[place.tile] + in_tile;
        if (STEP == SHELL_COUNT) {
            if (in_tile != NO_NODE)
                atomicMax(&j.b.beyond[node], (wide<U>)j.b.mask[p]);
            continue;
        }
        values[v] = j.b.value[p];
        ((U *)(j.entry + vp_entry_mask(j.key, j.voxels)))[v] = j.b.mask[p];
        if (in_tile != NO_NODE && j.b.number[node] != NO_NUMBER) {
            struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)j.entry;
            ((edge_of<U> *)(j.entry + vp_entry_edge(j.key, j.voxels)))[atomicAdd(&e->edges, 1u)] = {
                (uint32_t)v, j.voxels + j.b.number[node], (U)min((U)j.b.result[node], j.b.high[place.plain])};
        }
    }
}

/* Resets the counters for the second contraction of a launch. */
template <class U> __global__ void reset_kernel(recon_buffers<U> b, struct vp_morphrecon_entry *e)
{
    recon_control *const c = b.control;
    c->graph = {};
    c->grid = {};
    c->contract = 1;
    e->edges = 0;
}

template <class U> __global__ void __launch_bounds__(256) clear_kernel(recon_buffers<U> b)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        b.control->grid = {};
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < b.control->graph.nodes; i += gridDim.x * blockDim.x)
        b.beyond[i] = 0;
}

/* Stores the header of the entry, last. */
template <class U> __global__ void header_kernel(shell_job<U> j, bool summary)
{
    const recon_control *const c = j.b.control;
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)j.entry;
    e->clipped = c->clipped;
    e->nan = c->nan;
    e->voxels = j.voxels;
    e->nodes = j.voxels + (summary ? c->graph.kept : 0);
    if (!summary)
        e->edges = 0;
    e->bytes = summary ? vp_entry_edge(j.key, j.voxels) + e->edges * vp_entry_edge_size(j.key) : sizeof *e;
}

}
