/* SPDX-License-Identifier: BSD-3-Clause */
/* Grids of kernels, with weights of the output (convolve_grid.cu) and of the source (convolve_source.cu), as
 * convolve.cu calls them: the functions of struct vp_kernel, but that *bad is where the flag of samples that are not
 * finite lies. */
#ifndef VP_CONVOLVE_GRID_H
#define VP_CONVOLVE_GRID_H

#include "convolve.h"

#include <algorithm>
#include <vector>

namespace vp
{

/* How a grid is cut is asked for thousands of times while a plan is made: each thread keeps the last answer, with all
 * that it depends on. */
template <class Cut> class cut_kept {
    int64_t n[2], centre[2], image[2];
    std::vector<double> node[2];
    Cut cut;

    bool is_of(const vp_op *op) const
    {
        const vp_convolve_params *const p = params_of(op);
        for (int a = 0; a < 2; a++)
            if (n[a] != p->n[a] || centre[a] != p->centre[a] || image[a] != op->image[a]
                || (int64_t)node[a].size() != p->nodes[a] || !std::equal(node[a].begin(), node[a].end(), p->node[a]))
                return false;
        return true;
    }

  public:
    cut_kept() : n(), centre(), image(), cut() {}

    const Cut &of(const vp_op *op, Cut (*make)(const vp_op *op))
    {
        const vp_convolve_params *const p = params_of(op);
        if (is_of(op))
            return cut;
        cut = make(op);
        for (int a = 0; a < 2; a++) {
            n[a] = p->n[a];
            centre[a] = p->centre[a];
            image[a] = op->image[a];
            node[a].assign(p->node[a], p->node[a] + p->nodes[a]);
        }
        return cut;
    }
};

/* Outputs [lo, lo + n) of one cell, between two nodes (or at one), from samples that begin at `origin`. The weight of
 * the node on the right is middle at sample T / 2 of the tile, and grows by slope. */
struct grid_tile {
    int lo, n, origin, left, right;
    float middle, slope;
};

bool grid_fits(const vp_op *op);
uint64_t grid_table_bytes(const vp_op *op);
void grid_fill(const vp_op *op, void *table);
uint64_t grid_made_bytes(const vp_op *op);
int grid_make(const vp_op *op, void *table, vp_queue *queue, vp_err *err);
void grid_demand(const vp_op *op, int64_t step[3], int64_t halo[3]);
uint64_t grid_scratch(const vp_op *op, const int64_t out[3]);
int grid_launch(const vp_op *op, const vp_work *work, int **bad, vp_err *err);

bool source_fits(const vp_op *op);
uint64_t source_table_bytes(const vp_op *op);
void source_fill(const vp_op *op, void *table);
uint64_t source_made_bytes(const vp_op *op);
int source_make(const vp_op *op, void *table, vp_queue *queue, vp_err *err);
void source_demand(const vp_op *op, int64_t step[3], int64_t halo[3]);
uint64_t source_scratch(const vp_op *op, const int64_t in[3], const int64_t out[3]);
int source_launch(const vp_op *op, const vp_work *work, int **bad, vp_err *err);

}

#endif
