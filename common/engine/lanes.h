/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chain of operations takes of a device whose worker makes parts of at most in[] -> out[] voxels, with `lanes`
 * sets of buffers, so that the copies of one part overlap the work of another. */
#ifndef VP_LANES_H
#define VP_LANES_H

#include "device/device.h"
#include "engine/chain.h"

enum { VP_MAX_LANES = 4 };

/* Whether the kind has a kernel for the types and parameters of every stage; else why not. */
bool vp_lanes_have(const struct vp_backend *backend, const struct vp_chain *chain, char *why, size_t size);
/* The step and halo of the only stage as its kernel asks for them, or as they are; of a longer chain nothing
 * changes. */
void vp_lanes_demand(const struct vp_backend *backend, struct vp_chain *chain);
/* Device bytes of a worker. */
uint64_t vp_lanes_bytes(const struct vp_backend *backend, const struct vp_chain *chain, const int64_t in[3],
                        const int64_t out[3], int lanes);

#endif
