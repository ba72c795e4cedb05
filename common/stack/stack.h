/* A stack: equally sized pages of one sample type, and their meaning as text.
 *
 * Index order everywhere: x (or detector u) fastest, then y (detector v), then the page (z, view,
 * channel, time). Sample i of a page is at [y * nx + x]. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;

/* Calls DO(TYPE, C) for each sample type VP_TYPE and its type in C: the cases of a switch. */
#define VP_EACH_TYPE(DO) \
    DO(U8, uint8_t) DO(U16, uint16_t) DO(U32, uint32_t) DO(U64, uint64_t) \
    DO(I8, int8_t) DO(I16, int16_t) DO(I32, int32_t) DO(I64, int64_t) DO(F32, float) DO(F64, double)
enum vp_type { VP_U8, VP_U16, VP_U32, VP_U64, VP_I8, VP_I16, VP_I32, VP_I64, VP_F32, VP_F64, VP_N_TYPES };

size_t vp_type_size(enum vp_type t);          /* bytes */
const char *vp_type_name(enum vp_type t);     /* "u16" */
bool vp_type_parse(const char *name, enum vp_type *out); /* "u16", "uint16", "float32", ... */
bool vp_type_is_float(enum vp_type t);
/* Return the smallest and largest value of the type as double (floats: +-infinity). */
double vp_type_min(enum vp_type t);
double vp_type_max(enum vp_type t);
/* Returns the type of the values of stored samples of a type, and of their sums: f64 for f64 and integers of 32 and
 * 64 bits, else f32. */
enum vp_type vp_type_of_values(enum vp_type stored);
/* Types that image filters take on the CPU beside those of their kernels for devices. */
#define VP_TYPES_WIDE (1u << VP_U32 | 1u << VP_I32 | 1u << VP_F64)

/* Computes dst[i] = src[i] * gain + offset, computed in double. With gain = 1 and offset = 0 equal types are copied
 * untouched, and 64-bit integers of one type become those of the other without a rounding. To integers:
 * rounded to nearest even and clamped to the range; NaN becomes 0. Returns the number of samples that were
 * clamped or NaN. Threads: none; call it on parts. */
int64_t vp_convert(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type,
                   int64_t n, double gain, double offset);

/* A scale is {gain, offset}, the gain not 0: stored = value * gain + offset. These alone bring what an option says of
 * values to samples, and what was found in samples to values: the value of a sample, exactly 0 where the offset is stored;
 * the sample of a value, not rounded; how far apart samples are whose values differ by `difference`, whatever the gain's
 * sign; and, of a gain above 0, the largest whole number whose value is not above `value`. */
double vp_scale_value(const double scale[2], double stored);
double vp_scale_stored(const double scale[2], double value);
double vp_scale_steps(const double scale[2], double difference);
double vp_scale_floor(const double scale[2], double value);

/* Computes the values of samples stored with a scale: dst[i] = (src[i] - scale[1]) / scale[0], which is exactly 0
 * where 0 was stored exactly. Else as vp_convert. */
int64_t vp_unscale(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n,
                   const double scale[2]);

/* Metadata: ordered `key = value` lines. Keys are [a-z0-9._-]+, values one line, no leading or
 * trailing blanks. Known keys:
 *   axes     "x y z", "u v view", "u view v" (sinograms), "x y channel z time", ... fastest first
 *   sizes    "3 40 20": lengths of the axes after the second, only if the page axis is more than one axis
 *   voxel    "0.1 0.1 0.1": spacing along the axes x y z (or u v)
 *   unit     "mm" or "pixel": of `voxel`
 *   origin   "-25.55 -25.55 -25.55": centre of the first voxel
 *   quantity "counts", "line integral", "filtered projection", "attenuation"
 *   value-unit "1/mm"
 *   scale    "gain offset": stored = value * gain + offset (img-convert)
 *   palette  "000000 ff0000 ...": colours in which the samples of a u8 stack are shown; in a file it is tag 320
 *   geom.*   the scan geometry, one line for each line of a geometry file (see ct-geometry(5))
 *   history  a program with its options; repeated, oldest first
 *   description  what a foreign file said in its ImageDescription
 */
struct vp_meta { int n; char **key; char **value; };

const char *vp_meta_get(const struct vp_meta *m, const char *key);       /* first value or NULL */
/* Replaces all lines of `key` by one (in place of the first); NULL removes. -1 if out of memory or malformed.
 */
int vp_meta_set(struct vp_meta *m, const char *key, const char *value);
int vp_meta_setf(struct vp_meta *m, const char *key, const char *fmt,
                 ...) __attribute__((format(printf, 3, 4)));
int vp_meta_add(struct vp_meta *m, const char *key, const char *value);  /* append, even if the key exists */
void vp_meta_remove_prefix(struct vp_meta *m, const char *prefix);       /* "geom." */
/* Copies; dst is overwritten (freed first) */
int vp_meta_copy(struct vp_meta *dst, const struct vp_meta *src);
void vp_meta_free(struct vp_meta *m);
/* Parses n numbers of a value ("0.1 0.1 0.1"); false if absent or not exactly n numbers. */
bool vp_meta_numbers(const struct vp_meta *m, const char *key, int n, double *out);
/* Returns the lines, each with `mark` before it and ended by \n; malloc'd. The first is always "voxpipe = 1". */
char *vp_meta_format(const struct vp_meta *m, const char *mark);
/* In the text of tag 270, which begins as ImageJ's does, our lines are comments. */
#define VP_META_MARK "# "

/* Tags of a page that a foreign text in tag 270 is about: 282, 283 and 296 (samples per unit, 0 if absent), and what
 * its samples are. */
struct vp_page_tags { double x, y; uint32_t unit; enum vp_type type; int64_t nx, ny, samples; };
/* Reads the text of tag 270. A foreign text becomes `description` (and voxel, unit, axes, sizes and scale where
 * it is ImageJ's, OME-XML or tifffile's). t: may be NULL. */
int vp_meta_parse(struct vp_meta *m, const char *text, size_t len, const struct vp_page_tags *t);

struct vp_stack {
    int64_t nx, ny;       /* > 0 */
    int64_t pages;        /* > 0, or -1: unknown until the end (a pipe of unknown length) */
    enum vp_type type;
    struct vp_meta meta;
};

/* Returns the bytes of a page; checked: 0 if it does not fit size_t. */
size_t vp_page_bytes(const struct vp_stack *s);
int vp_stack_copy(struct vp_stack *dst, const struct vp_stack *src);
void vp_stack_free(struct vp_stack *s);      /* frees the metadata */
