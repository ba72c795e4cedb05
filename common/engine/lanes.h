/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of a chain of operations whose worker makes parts of at most in[] -> out[] voxels, with `lanes` sets of
 * buffers, so that the copies of one part overlap the work of another. */
#pragma once

#include "device/device.h"
#include "engine/chain.h"

enum { VP_MAX_LANES = 4 };

/* True if the backend has a kernel for the types and parameters of every stage; else fills `why`. */
bool vp_lanes_have(const struct vp_backend *backend, const struct vp_chain *chain, char *why, size_t size);
/* Sets the step and halo of a chain's only stage to those that its kernel demands; a longer chain stays as it is. */
void vp_lanes_demand(const struct vp_backend *backend, struct vp_chain *chain);
/* True if the kernel of the last stage has two passes. */
bool vp_lanes_twice(const struct vp_backend *backend, const struct vp_chain *chain);
/* Returns the bytes in which the kernel of the last stage holds its image, 0 if it cannot, and sets the multiple of
 * planes at which parts begin. */
uint64_t vp_lanes_hold(const struct vp_backend *backend, const struct vp_chain *chain, int64_t *step);
/* Returns the device bytes of a worker; `held`: the last stage holds its image. */
uint64_t vp_lanes_bytes(const struct vp_backend *backend, const struct vp_chain *chain, const int64_t in[3],
                        const int64_t out[3], int lanes, bool held);
