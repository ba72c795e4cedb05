/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker that runs a chain of operations on one device, for parts of at most in[] -> out[] voxels. It has `lanes`
 * sets of buffers, so that the copies of one part overlap the work of another. */
#ifndef VP_LANES_H
#define VP_LANES_H

#include "device/device.h"
#include "run/chain.h"

enum { VP_MAX_LANES = 4 };

struct vp_lanes;

/* Whether the kind has a kernel for the types and parameters of every stage; else why not. */
bool vp_lanes_have(const struct vp_kind *kind, const struct vp_chain *chain, char *why, size_t size);
/* The step and halo of the only stage as its kernel asks for them, or as they are; of a longer chain nothing
 * changes. */
void vp_lanes_demand(const struct vp_kind *kind, struct vp_chain *chain);
/* Device bytes of a worker. */
uint64_t vp_lanes_bytes(const struct vp_kind *kind, const struct vp_chain *chain, const int64_t in[3],
                        const int64_t out[3], int lanes);
/* VP_ERESOURCE where device memory falls short (the caller plans smaller parts). The chain must stay. */
int vp_lanes_open(struct vp_lanes **w, const struct vp_kind *kind, int device, const struct vp_chain *chain,
                  const int64_t in[3], const int64_t out[3], int lanes, struct vp_err *err);
/* `out` is two parts where the operation has a twin.
 * Queue: upload in[0 .. chain->stacks-1], all of one box, run all stages, download into `out`. Returns at once; the
 * host memory must stay until vp_lanes_wait. The first `carry` planes of in[] are the last ones of the part submitted
 * before this one (by whatever lane): they are taken from there, not uploaded (and the host need not have them any
 * more). carry may be all planes of in[]. */
int vp_lanes_submit(struct vp_lanes *w, int lane, const struct vp_part *in, const struct vp_part *out, int64_t carry,
                    struct vp_err *err);
/* _state is _submit of one box, but of what is made only the state is downloaded, for which _total waits. VP_LOCAL, for
 * operations that carry a value along z, of which several workers do segments: a part as if nothing had been before it;
 * _apply adds what was before (state bytes on the host, copied at once), and downloads the part. VP_SUMMARY, for
 * operations that visit every box twice: the entry of the box; _finish is _submit with it. */
int vp_lanes_state(struct vp_lanes *w, int lane, enum vp_visit visit, const struct vp_part *in,
                   const struct vp_box *box, struct vp_err *err);
const void *vp_lanes_total(struct vp_lanes *w, int lane, uint64_t *bytes, struct vp_err *err); /* NULL: an error */
int vp_lanes_apply(struct vp_lanes *w, int lane, const struct vp_part *out, const void *before, struct vp_err *err);
int vp_lanes_finish(struct vp_lanes *w, int lane, const struct vp_part *in, const struct vp_part *out,
                    const void *entry, struct vp_err *err);
int vp_lanes_wait(struct vp_lanes *w, int lane, struct vp_err *err);
/* Seconds that the device itself worked so far, and bytes over the bus. */
void vp_lanes_stats(const struct vp_lanes *w, double *seconds, uint64_t *up, uint64_t *down);
void vp_lanes_close(struct vp_lanes *w); /* waits; NULL is fine */

#endif
