/* SPDX-License-Identifier: BSD-3-Clause */
/* Grayscale morphological reconstruction (Vincent 1993): the limit of geodesic dilations of a marker under a mask,
 * equivalently at each voxel the maximum over all paths of neighbours of the minimum of the mask along the path and of
 * the marker at its far end. The limit is unique, so its bits depend only on the two images and the connectivity.
 *
 * Keys. Samples are mapped to unsigned keys in the order of the samples, or in the reverse order for reconstruction by
 * erosion. So there is only reconstruction by dilation of unsigned keys, with marker <= mask everywhere.
 *
 * In memory: vp_morphrecon_fill(). Box by box, in two passes: the first reconstructs each box alone and summarises it
 * by its shell (the voxels at faces shared with other boxes): their keys, and the maximin paths between them through
 * the box. A forest represents these paths, so an entry is at most proportional to the shell. One solve over all shells
 * raises their keys to those of the result; the second pass reconstructs each box with its shell raised, which is
 * exact. */
#pragma once

#include "base/order.h"
#include "engine/op.h"

#include <string.h>

/* ---- keys ---- */

enum vp_key { VP_KEY_U8, VP_KEY_U16, VP_KEY_U32, VP_KEY_U64 };

/* Source of the marker. */
enum vp_morphrecon_marker {
    VP_MARKER_GIVEN,  /* input 0; the mask is input 1. Other markers: the mask is the only input */
    VP_MARKER_SHIFT,  /* the mask lowered by h (erosion: raised) */
    VP_MARKER_LESS,   /* the mask lowered by one key */
    VP_MARKER_BORDER, /* the mask at the image's border, else `floor` */
    VP_MARKER_SEED    /* the mask at one voxel, else `floor` */
};

enum vp_morphrecon_result {
    VP_RECON_VALUE,      /* the reconstruction */
    VP_RECON_DIFFERENCE, /* its distance from the mask (op->out is op->in, but u16 for i16, u32 for i32) */
    VP_RECON_MARK        /* 1 where it differs from the mask, else 0 (op->out is u8) */
};

/* op->params of "morphrecon". */
struct vp_morphrecon_params {
    enum vp_type type;        /* sample type: u8 u16 i16 f32 f64, on the CPU u32 i32, too */
    enum vp_key key;          /* u8 u16 u16 u32 u64, u32 u32 */
    int connectivity;         /* 4, 8 (one plane, or one row of many planes: x and z), 6, 18, 26 */
    bool erosion;
    enum vp_morphrecon_marker marker;
    enum vp_morphrecon_result result;
    double h;                 /* VP_MARKER_SHIFT: in samples, >= 0; a whole number for integers */
    uint64_t floor;           /* a key */
    int64_t seed[3];
    struct vp_morphrecon_counts *counts; /* totals of the run, or NULL */
};

struct vp_morphrecon_counts {
    uint64_t clipped;         /* markers above the mask (erosion: below), clipped to it */
    uint64_t nan;             /* NaN samples of mask and marker */
};

static inline enum vp_key vp_key_of(enum vp_type type)
{
    return type == VP_U8 ? VP_KEY_U8 : type == VP_F64 ? VP_KEY_U64
           : type == VP_F32 || type == VP_U32 || type == VP_I32 ? VP_KEY_U32 : VP_KEY_U16;
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

VP_ANYWHERE static inline uint32_t vp_key_u32(uint32_t v, bool erosion)
{
    return erosion ? ~v : v;
}

VP_ANYWHERE static inline uint32_t vp_key_i32(int32_t v, bool erosion)
{
    return vp_key_u32((uint32_t)v ^ 0x80000000u, erosion);
}

VP_ANYWHERE static inline int32_t vp_i32_of_key(uint32_t k, bool erosion)
{
    return (int32_t)(vp_key_u32(k, erosion) ^ 0x80000000u);
}

/* Returns the lowest key of a sample that is not NaN: that of -inf for floats (erosion: +inf). `key`: not that of u32 or
 * i32. */
VP_ANYWHERE static inline uint64_t vp_key_lowest(enum vp_key key)
{
    return key == VP_KEY_U32 ? VP_KEY_LOWEST_F32 : key == VP_KEY_U64 ? VP_KEY_LOWEST_F64 : 0;
}

/* Does the same for any type. */
static inline uint64_t vp_key_lowest_of(enum vp_type type)
{
    return vp_type_is_float(type) ? vp_key_lowest(vp_key_of(type)) : 0;
}

/* True if the voxel is at the image's border. An axis of one voxel has none.
 *
 * Marker key of a voxel with mask key g, to be clipped to g by the caller (clipped ones are counted for VP_MARKER_GIVEN
 * only):
 *   GIVEN   the key of the sample; the lowest for NaN
 *   SHIFT   integers: g - h, at least floor; floats: the key of v - h (erosion: v + h), computed in the type of v
 *   LESS    g - 1 if g is above vp_key_lowest(), else g
 *   BORDER  g if vp_morphrecon_at_border(), else floor
 *   SEED    g at the seed, else floor
 * Result from the reconstructed key r and the mask's sample v of key g:
 *   VALUE       the sample of r
 *   DIFFERENCE  integers: g - r; floats: NaN if g is 0, 0 if r == g, else v minus the sample
 *               of r (erosion: the sample of r minus v), computed in the type
 *   MARK        r != g */
VP_ANYWHERE static inline bool vp_morphrecon_at_border(const int64_t image[3], int64_t x, int64_t y, int64_t z)
{
    return (image[0] > 1 && (x == 0 || x == image[0] - 1)) || (image[1] > 1 && (y == 0 || y == image[1] - 1))
           || (image[2] > 1 && (z == 0 || z == image[2] - 1));
}

/* ---- in memory ---- */

/* Reconstructs by dilation, in place: marker[z] and mask[z] are planes of size[0] x size[1] keys, z < size[2], rows
 * `stride` keys apart in both; marker <= mask everywhere on entry, marker is the result on return. connectivity 4 or 8
 * (size[2] is 1), 6, 18 or 26. `scratch`: vp_morphrecon_scratch() bytes, aligned to 64, at most 4 bytes a key. The
 * result does not depend on the threads. */
uint64_t vp_morphrecon_scratch(enum vp_key key, const int64_t size[3], int connectivity, int threads);
int vp_morphrecon_fill(enum vp_key key, void *const *marker, const void *const *mask, int64_t stride,
                       const int64_t size[3], int connectivity, void *scratch, int threads, struct vp_err *err);

/* ---- the shell of a box ---- */

/* Shell of a box: its voxels at faces shared with other boxes. The image's border is not shared. */
struct vp_shell {
    int64_t size[3];    /* voxels of the box */
    bool lo[3], hi[3];  /* shared faces */
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

/* True if index i of an axis is at a shared face. */
VP_ANYWHERE static inline bool vp_shell_at(const struct vp_shell *s, int axis, int64_t i)
{
    return (s->lo[axis] && i == 0) || (s->hi[axis] && i == s->size[axis] - 1);
}

/* Returns the number of indices below i that are at a shared face. */
VP_ANYWHERE static inline int64_t vp_shell_before(const struct vp_shell *s, int axis, int64_t i)
{
    return (i > 0 && vp_shell_at(s, axis, 0)) + (i > 1 && i >= s->size[axis] && vp_shell_at(s, axis, s->size[axis] - 1));
}

/* Voxels of the shell are numbered x fastest, then y, then z. Returns the voxels of the shell in a row that is not at a
 * shared face in y or z; ... */
VP_ANYWHERE static inline int64_t vp_shell_row(const struct vp_shell *s)
{
    return vp_shell_before(s, 0, s->size[0]);
}

/* ... in a plane that is not at a shared face in z; ... */
VP_ANYWHERE static inline int64_t vp_shell_plane(const struct vp_shell *s)
{
    const int64_t full = vp_shell_before(s, 1, s->size[1]);
    return full * s->size[0] + (s->size[1] - full) * vp_shell_row(s);
}

/* ... in all. */
VP_ANYWHERE static inline int64_t vp_shell_voxels(const struct vp_shell *s)
{
    const int64_t full = vp_shell_before(s, 2, s->size[2]);
    return full * s->size[0] * s->size[1] + (s->size[2] - full) * vp_shell_plane(s);
}

/* Returns the number of voxel x, y, z of the box, or -1 if it is not in the shell. */
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

/* ---- the entry of a box: made by summarize(), or by a device in work->state of VP_SUMMARY ----
 *
 * A header, then value[voxels] and mask[voxels] (keys; each array begins at a multiple of 8 bytes), then `edges` edges
 * (12 bytes; 16 with 64-bit keys).
 *
 * value: the reconstruction of the box alone. mask: of the same voxels. Edge (a, b, cap): a path through the box joins
 * nodes a and b whose minimum of the mask, both ends included, is at least `cap`. Together the edges give the maximin
 * path between any two voxels of the shell, as far as it can raise one of them (a path through a voxel whose value is
 * its mask carries no more than that voxel itself, and is left out). Nodes below `voxels` are voxels of the shell;
 * nodes up to `nodes` are auxiliary, with initial key 0. So an entry is not unique, but the solution is. */
struct vp_morphrecon_entry {
    uint64_t bytes;           /* bytes of the entry, to the last edge */
    uint64_t clipped, nan;    /* counts of the box */
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

/* Returns the maximum bytes of an entry: there are at most two edges a voxel. */
VP_ANYWHERE static inline uint64_t vp_entry_bytes(enum vp_key key, uint64_t voxels)
{
    return vp_entry_edge(key, voxels) + 2 * voxels * vp_entry_edge_size(key);
}

/* The entry passed to finish() ends before mask: the header (bytes, voxels) and value[], that of the result. */

/* ---- the operation ---- */

/* Fills *op for an image of image[] voxels; op->free releases its params. It uses run() if the image fits in one box,
 * else the two passes. VP_EUSAGE: connectivity, type or h do not fit; VP_ERESOURCE: out of memory. */
int vp_morphrecon_op(struct vp_op *op, const struct vp_morphrecon_params *p, const int64_t image[3],
                     struct vp_err *err);
