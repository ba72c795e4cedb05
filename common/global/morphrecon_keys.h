/* SPDX-License-Identifier: BSD-3-Clause */
/* The code of one file for every kind of key: with EACH_KEY the name of a header that is written for keys K, of enum
 * vp_key KEY, and edges EDGE, and gives each of its functions a name of its own by NAME(), and undefines these three.
 * No guard: it is included where the code shall stand. */
#define EDGE struct vp_morphrecon_edge32
#define K uint8_t
#define KEY VP_KEY_U8
#define NAME(name) name##_u8
#include EACH_KEY
#define K uint16_t
#define KEY VP_KEY_U16
#define NAME(name) name##_u16
#include EACH_KEY
#define K uint32_t
#define KEY VP_KEY_U32
#define NAME(name) name##_u32
#include EACH_KEY
#undef EDGE
#define EDGE struct vp_morphrecon_edge64
#define K uint64_t
#define KEY VP_KEY_U64
#define NAME(name) name##_u64
#include EACH_KEY
#undef EDGE
#undef EACH_KEY
