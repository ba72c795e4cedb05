/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights of nodes that lie anywhere in the plane, for kernels that vary over an image.
 *
 * Nearest: the nearest node has weight 1, of several the first. Linear: barycentric weights in the triangles of a
 * Delaunay triangulation (Lawson 1977: flips of edges); outside their hull, those of the nearest point of the hull. So
 * they are continuous in the whole plane, and sum to 1. Nodes on one line are triangulated by the segments between them.
 *
 * Positions are rounded to 1/256 pixel, so that the triangulation is exact: of nodes on a circle (as in grids) one is
 * taken that depends on the positions alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;
struct vp_nodes;

/* Nodes and weights of a pixel; a weight of 0: no node. */
struct vp_node_weights { int32_t node[3]; double weight[3]; };

/* Makes the weights of n nodes at (x[i], y[i]). NULL with VP_ERUN (two nodes at one place, or farther than 2^20 from 0) or
 * VP_ERESOURCE. */
struct vp_nodes *vp_nodes_make(const double *x, const double *y, int64_t n, bool nearest, struct vp_err *err);
void vp_nodes_free(struct vp_nodes *nodes); /* NULL is fine */
/* Fills the weights of pixels x ... x + n - 1 of row y. From any thread. */
void vp_nodes_row(const struct vp_nodes *nodes, int64_t x, int64_t n, int64_t y, struct vp_node_weights *to);
