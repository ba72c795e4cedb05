/* SPDX-License-Identifier: BSD-3-Clause */
/* In memory: scans to and fro until nothing changes. */
#include "image/morphrecon_internal.h"

uint64_t vp_morphrecon_scratch(enum vp_key key, const int64_t size[3], int connectivity, int threads)
{
    (void)key, (void)size, (void)connectivity, (void)threads;
    return 0;
}

#define SCAN(K, name) \
static void name(void *const *marker, const void *const *mask, int64_t stride, const int64_t n[3], \
                 int64_t (*o)[3], int near) \
{ \
    for (bool changed = true; changed;) { \
        changed = false; \
        for (int way = 0; way < 2; way++) \
            for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) { \
                const int64_t p = way ? n[0] * n[1] * n[2] - 1 - i : i; \
                const int64_t x = p % n[0], y = p / n[0] % n[1], z = p / n[0] / n[1]; \
                K *const own = (K *)marker[z] + y * stride + x; \
                const K g = ((const K *)mask[z])[y * stride + x]; \
                K best = *own; \
                for (int k = way * near / 2; k < (way + 1) * near / 2; k++) { \
                    const int64_t a = x + o[k][0], b = y + o[k][1], c = z + o[k][2]; \
                    if (a < 0 || b < 0 || c < 0 || a >= n[0] || b >= n[1] || c >= n[2]) \
                        continue; \
                    const K v = ((K *)marker[c])[b * stride + a]; \
                    best = v > best ? v : best; \
                } \
                best = best < g ? best : g; \
                changed = changed || best != *own; \
                *own = best; \
            } \
    } \
}

SCAN(uint8_t, scan_u8)
SCAN(uint16_t, scan_u16)
SCAN(uint32_t, scan_u32)
SCAN(uint64_t, scan_u64)

int vp_morphrecon_fill(enum vp_key key, void *const *marker, const void *const *mask, int64_t stride,
                       const int64_t size[3], int connectivity, void *scratch, int threads, struct vp_err *err)
{
    int64_t offset[VP_MAX_NEIGHBOURS][3];
    const int near = vp_morphrecon_neighbours(connectivity, offset);
    (void)scratch, (void)threads, (void)err;
    (key == VP_KEY_U8 ? scan_u8 : key == VP_KEY_U16 ? scan_u16 : key == VP_KEY_U32 ? scan_u32 : scan_u64)(
        marker, mask, stride, size, offset, near);
    return 0;
}
