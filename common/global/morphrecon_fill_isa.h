/* Inner part of morphrecon_fill.c, private to it: a visit of one tile, built once for each instruction set.
 *
 * A tile whose samples are stable among themselves can change only through its faces. So what a tile shows its
 * neighbours, the samples at its faces, is kept beside the image, face by face and without gaps: a visit first looks
 * there whether anything would be raised at all. It is the only memory that visits at the same time share, so it is
 * read and written atomically; the image itself is touched by the one visit of the tile. */
#ifndef VP_MORPHRECON_FILL_ISA_H
#define VP_MORPHRECON_FILL_ISA_H

#include "global/morphrecon.h"

#include <stdint.h>

/* Faces: where x is least, where it is most, the same for y and z; the first two also of the mask. */
enum { VP_RECON_FACES = 6, VP_RECON_KEPT = 8 };

/* The state of a tile: a bit for each face behind which something has changed, and: */
enum {
    VP_RECON_WOKEN = 63,
    VP_RECON_FRESH = 64, /* never visited; its faces are 0 */
    VP_RECON_BUSY = 128  /* being visited */
};

struct vp_recon {
    void *const *marker;
    const void *const *mask;
    int64_t stride, size[3], tiles[3];
    int reach;                            /* neighbours differ in so many coordinates at most */
    char *faces;                          /* tile after tile */
    uint32_t face[VP_RECON_KEPT + 1];     /* where in the bytes of a tile a face begins; the last: all of them */
    uint8_t *state;                       /* of each tile */
};

/* What a visit comes to: a bit for each neighbour (dx + 1 + 3 (dy + 1) + 9 (dz + 1)) that may be raised now, and: */
enum { VP_RECON_STILL_FRESH = 1 << 27 };

struct vp_recon_kind {
    int tile[3]; /* samples along x, y, z; a row, and a column of x, are multiples of 64 bytes */
    size_t room; /* of one visitor, bytes; 0 at first */
    uint32_t (*visit)(const struct vp_recon *r, void *room, const int64_t tile[3], unsigned state);
};

struct vp_recon_isa {
    const char *name;
    struct vp_recon_kind kind[2][4]; /* images of one plane, others; by key */
};

extern const struct vp_recon_isa vp_recon_avx512, vp_recon_avx2, vp_recon_generic;

#endif
