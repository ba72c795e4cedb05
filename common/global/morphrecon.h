/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction: the largest image below a mask that grows out of a marker, each sample being the best
 * that any path of neighbours brings it: the maximum over all paths of the least mask on the way, the marker at the far
 * end included. The result is unique, so its bits depend on nothing but the two images and the neighbourhood.
 *
 * Samples are worked on as keys: unsigned numbers in the order of the samples, or for reconstruction by erosion in the
 * opposite order, so there is only reconstruction by dilation of unsigned keys, and marker <= mask everywhere.
 *
 * In memory: vp_morphrecon_fill(). Box by box: what a box looks like from outside is told by the keys of its shell (the
 * voxels at faces that other boxes touch) after a reconstruction inside, and by the best ways between them through
 * the box. A forest holds these, so an entry is no larger than the shell, whatever the image. One solve over all shells
 * raises their keys to those of the result, and a second reconstruction of every box, with its shell raised, is
 * exact. */
#ifndef VP_MORPHRECON_H
#define VP_MORPHRECON_H

#include "base/order.h"
#include "engine/op.h"

#include <string.h>

/* ---- keys ---- */

enum vp_key { VP_KEY_U8, VP_KEY_U16, VP_KEY_U32, VP_KEY_U64 };

/* Where the marker comes from. */
enum vp_morphrecon_marker {
    VP_MARKER_GIVEN,  /* input 0; the mask is input 1. All others have the mask as their only input */
    VP_MARKER_SHIFT,  /* the mask lowered by h: (for erosion: raised) */
    VP_MARKER_LESS,   /* the mask lowered by one key */
    VP_MARKER_BORDER, /* the mask at the image's edge, elsewhere the floor */
    VP_MARKER_SEED    /* the mask at one voxel, elsewhere the floor */
};

enum vp_morphrecon_result {
    VP_RECON_VALUE,      /* the reconstruction */
    VP_RECON_DIFFERENCE, /* how far it is from the mask (op->out is op->in, but u16 for i16) */
    VP_RECON_MARK        /* whether it is not the mask: 1 or 0 (op->out is u8) */
};

/* params of the kernel "morphrecon" */
struct vp_morphrecon_params {
    enum vp_type type;        /* of the samples: u8 u16 i16 f32 f64 */
    enum vp_key key;          /* u8 u16 u16 u32 u64 */
    int connectivity;         /* 4 8 (images of one plane, also of one row of many planes: x and z) 6 18 26 */
    bool erosion;
    enum vp_morphrecon_marker marker;
    enum vp_morphrecon_result result;
    double h;                 /* of VP_MARKER_SHIFT, in samples, 0 or more; of integers a whole number */
    uint64_t floor;           /* a key */
    int64_t seed[3];
    struct vp_morphrecon_told *told; /* of the whole run */
};

/* What is counted beside the work. */
struct vp_morphrecon_told {
    uint64_t clipped;         /* markers above the mask (for erosion: below): taken as the mask */
    uint64_t nan;             /* samples of mask or marker that are NaN */
};

static inline enum vp_key vp_key_of(enum vp_type type)
{
    return type == VP_U8 ? VP_KEY_U8 : type == VP_F32 ? VP_KEY_U32 : type == VP_F64 ? VP_KEY_U64 : VP_KEY_U16;
}

/* Return the key of a sample; floats in base/order.h, reversed for erosion: NaN is 0, nothing passes it and nothing
 * changes it. */
VP_ANYWHERE static inline uint8_t vp_key_u8(uint8_t v, bool erosion)
{
    return (uint8_t)(erosion ? ~v : v);
}

VP_ANYWHERE static inline uint16_t vp_key_u16(uint16_t v, bool erosion)
{
    return (uint16_t)(erosion ? ~v : v);
}

VP_ANYWHERE static inline uint16_t vp_key_i16(int16_t v, bool erosion)
{
    return vp_key_u16((uint16_t)((uint16_t)v ^ 0x8000), erosion);
}

VP_ANYWHERE static inline int16_t vp_i16_of_key(uint16_t k, bool erosion)
{
    return (int16_t)(uint16_t)(vp_key_u16(k, erosion) ^ 0x8000);
}

/* The lowest key of a sample that is not NaN: -inf of floats (for erosion: +inf). */
VP_ANYWHERE static inline uint64_t vp_key_lowest(enum vp_key key)
{
    return key == VP_KEY_U32 ? VP_KEY_LOWEST_F32 : key == VP_KEY_U64 ? VP_KEY_LOWEST_F64 : 0;
}

/* What a marker is before it is cut to the mask's key g (so the caller takes the lesser of the two; what is cut off is
 * counted for VP_MARKER_GIVEN only):
 *   GIVEN   the key of the sample; NaN counts as the lowest
 *   SHIFT   integers: g - h, at least floor; floats: the key of v - h (erosion: v + h), computed in the type of v
 *   LESS    g - 1 if g is above vp_key_lowest(), else g
 *   BORDER  g if vp_morphrecon_at_border() (an axis of one voxel has no edge), else floor
 *   SEED    g at the seed, else floor
 * The result from key r and the mask's sample v of key g:
 *   VALUE       the sample of r
 *   DIFFERENCE  integers: g - r; floats: NaN if g is 0, 0 if r == g, else v - the sample
 *               of r (erosion: the sample of r - v), computed in the type
 *   MARK        r != g */
VP_ANYWHERE static inline bool vp_morphrecon_at_border(const int64_t image[3], int64_t x, int64_t y, int64_t z)
{
    return (image[0] > 1 && (x == 0 || x == image[0] - 1)) || (image[1] > 1 && (y == 0 || y == image[1] - 1))
           || (image[2] > 1 && (z == 0 || z == image[2] - 1));
}

/* ---- in memory ---- */

/* Reconstruction by dilation of keys: marker <= mask at every sample; on return marker holds the result.
 * size[0] x size[1] x size[2] samples, marker[z] and mask[z] are planes, rows are `stride` samples apart in both.
 * connectivity 4 or 8 (then size[2] is 1), 6, 18 or 26. `scratch` is vp_morphrecon_scratch() bytes, aligned to 64: at
 * most 4 bytes for a sample. The bits do not depend on the threads. */
uint64_t vp_morphrecon_scratch(enum vp_key key, const int64_t size[3], int connectivity, int threads);
int vp_morphrecon_fill(enum vp_key key, void *const *marker, const void *const *mask, int64_t stride,
                       const int64_t size[3], int connectivity, void *scratch, int threads, struct vp_err *err);

/* ---- the shell of a box ---- */

/* Which faces of a box other boxes touch; the image's own edges are none. */
struct vp_shell {
    int64_t size[3];
    bool lo[3], hi[3];
};

VP_ANYWHERE static inline struct vp_shell vp_shell_of(const struct vp_box *box, const int64_t image[3])
{
    struct vp_shell s;
    for (int a = 0; a < 3; a++) {
        s.size[a] = box->hi[a] - box->lo[a];
        s.lo[a] = box->lo[a] > 0;
        s.hi[a] = box->hi[a] < image[a];
    }
    return s;
}

/* Whether place i of an axis is at such a face; how many of the places before i are. */
VP_ANYWHERE static inline bool vp_shell_at(const struct vp_shell *s, int axis, int64_t i)
{
    return (s->lo[axis] && i == 0) || (s->hi[axis] && i == s->size[axis] - 1);
}

VP_ANYWHERE static inline int64_t vp_shell_before(const struct vp_shell *s, int axis, int64_t i)
{
    return (i > 0 && vp_shell_at(s, axis, 0)) + (i > 1 && i >= s->size[axis] && vp_shell_at(s, axis, s->size[axis] - 1));
}

/* Voxels of the shell are counted x fastest, then y, then z. Those in a row that is not at a face in y or z; in a plane
 * that is not at one in z; in all. */
VP_ANYWHERE static inline int64_t vp_shell_row(const struct vp_shell *s)
{
    return vp_shell_before(s, 0, s->size[0]);
}

VP_ANYWHERE static inline int64_t vp_shell_plane(const struct vp_shell *s)
{
    const int64_t full = vp_shell_before(s, 1, s->size[1]);
    return full * s->size[0] + (s->size[1] - full) * vp_shell_row(s);
}

VP_ANYWHERE static inline int64_t vp_shell_voxels(const struct vp_shell *s)
{
    const int64_t full = vp_shell_before(s, 2, s->size[2]);
    return full * s->size[0] * s->size[1] + (s->size[2] - full) * vp_shell_plane(s);
}

/* The number of the voxel at x, y, z of the box; -1 if it is not of the shell. */
VP_ANYWHERE static inline int64_t vp_shell_index(const struct vp_shell *s, int64_t x, int64_t y, int64_t z)
{
    const bool in_z = vp_shell_at(s, 2, z), in_y = vp_shell_at(s, 1, y);
    if (!in_z && !in_y && !vp_shell_at(s, 0, x))
        return -1;
    const int64_t zs = vp_shell_before(s, 2, z), ys = vp_shell_before(s, 1, y);
    int64_t i = zs * s->size[0] * s->size[1] + (z - zs) * vp_shell_plane(s);
    i += in_z ? y * s->size[0] : ys * s->size[0] + (y - ys) * vp_shell_row(s);
    return i + (in_z || in_y ? x : vp_shell_before(s, 0, x));
}

/* ---- the entry of a box: what summarize() makes, and what a device leaves in work->state of VP_SUMMARY ----
 *
 * A header, then value[voxels] and mask[voxels] (keys of the params' width, each array begins at a multiple of 8
 * bytes), then edges (12 bytes, with 64 bit keys 16), as many as `edges` says.
 *
 * value: the reconstruction inside the box. mask: of the same voxels. An edge says: there is a way through the box
 * between nodes a and b whose least mask, both ends included, is `cap` or more, and taken together the edges say so
 * of the best way between any two voxels of the shell, as far as it can raise one of them (a way over a voxel whose
 * value is its mask brings nothing that this voxel does not bring: it need not be told). Nodes below `voxels` are
 * those of the shell, further ones up to `nodes` are inner ones that the box makes up, of which nothing else is known
 * (they begin with key 0). So an entry is not unique, but what is solved from it is. */
struct vp_morphrecon_entry {
    uint64_t bytes;           /* of all of it, to the last edge */
    uint64_t clipped, nan;    /* of the box, as in vp_morphrecon_told */
    uint32_t voxels, nodes, edges, unused[7];
};

struct vp_morphrecon_edge32 { uint32_t a, b, cap; };
struct vp_morphrecon_edge64 { uint32_t a, b; uint64_t cap; };

VP_ANYWHERE static inline uint64_t vp_key_size(enum vp_key key)
{
    return (uint64_t)1 << key;
}

VP_ANYWHERE static inline uint64_t vp_entry_value(void)
{
    return sizeof(struct vp_morphrecon_entry);
}

VP_ANYWHERE static inline uint64_t vp_entry_mask(enum vp_key key, uint64_t voxels)
{
    return vp_entry_value() + (voxels * vp_key_size(key) + 7) / 8 * 8;
}

VP_ANYWHERE static inline uint64_t vp_entry_edge(enum vp_key key, uint64_t voxels)
{
    return vp_entry_mask(key, voxels) + (voxels * vp_key_size(key) + 7) / 8 * 8;
}

VP_ANYWHERE static inline uint64_t vp_entry_edge_size(enum vp_key key)
{
    return key == VP_KEY_U64 ? sizeof(struct vp_morphrecon_edge64) : sizeof(struct vp_morphrecon_edge32);
}

/* The most bytes: there are at most two edges for a voxel. */
VP_ANYWHERE static inline uint64_t vp_entry_bytes(enum vp_key key, uint64_t voxels)
{
    return vp_entry_edge(key, voxels) + 2 * voxels * vp_entry_edge_size(key);
}

/* What finish() is given is the same up to mask: the header (bytes, voxels) and value[], now that of the result. */

/* ---- the operation ---- */

/* In one visit of an image that is one box (run: the whole of it, and op->summarize stays for others), or in two. */
int vp_morphrecon_op(struct vp_op *op, const struct vp_morphrecon_params *p, const int64_t image[3],
                     struct vp_err *err);

#endif
