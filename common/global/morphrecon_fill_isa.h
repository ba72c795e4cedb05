/* Visit of one tile, built once for each instruction set; private to morphrecon_fill.c.
 *
 * A stable tile changes only through its faces. So the samples at its faces are kept apart from the image, face by face
 * and packed: a visit first checks there if any sample would be raised. They are the only memory shared by concurrent
 * visits, so they are read and written atomically; the samples of a tile are accessed by its one visit only. */
#pragma once

#include "global/morphrecon.h"

#include <stdint.h>

/* Faces: lowest x, highest x, the same for y and z; the first two also of the mask. */
enum { VP_RECON_FACES = 6, VP_RECON_KEPT = 8 };

/* State of a tile: a bit for each face across which a neighbour has changed, and: */
enum {
    VP_RECON_WOKEN = 63,
    VP_RECON_FRESH = 64, /* not yet visited; its faces are 0 */
    VP_RECON_BUSY = 128  /* being visited */
};

struct vp_recon {
    void *const *marker;
    const void *const *mask;
    int64_t stride, size[3], tiles[3];
    int reach;                            /* maximum number of coordinates in which neighbours differ */
    char *faces;                          /* tile after tile */
    uint32_t face[VP_RECON_KEPT + 1];     /* offset of each face in the bytes of a tile; the last: their sum */
    uint8_t *state;                       /* one for each tile */
};

/* Result of a visit: a bit for each neighbouring tile (dx + 1 + 3 (dy + 1) + 9 (dz + 1)) that may be raised, and: */
enum { VP_RECON_STILL_FRESH = 1 << 27 };

struct vp_recon_kind {
    int tile[3]; /* samples along x, y, z; a row, and a column of the transposed tile, are multiples of 64 bytes */
    size_t room; /* bytes of a thread's workspace, initially 0 */
    uint32_t (*visit)(const struct vp_recon *r, void *room, const int64_t tile[3], unsigned state);
};

struct vp_recon_isa {
    const char *name;
    struct vp_recon_kind kind[2][4]; /* images of one plane, others; by key */
};

extern const struct vp_recon_isa vp_recon_avx512, vp_recon_avx2, vp_recon_generic;
