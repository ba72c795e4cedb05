/* Formats that are a header before plain samples (internal to stack/): what they share. */
#pragma once

#include "stack/source.h"

/* Makes the source one of samples after `skip` bytes, in the other byte order if `swap`; s->stack holds size, type and
 * number of pages. The other three are the functions of its format. */
int vp_samples_open(struct vp_source *s, uint64_t skip, bool swap, struct vp_err *err);
int vp_samples_begin(struct vp_source *s, int64_t page, struct vp_err *err);
int vp_samples_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err);
void vp_samples_close(struct vp_source *s);

/* Copies the bytes of a header at `at` (from a pipe: peeks at them), VP_HEADER_MOST at most, with a 0 after the last;
 * *n is their number. malloc'd; NULL after an error. */
enum { VP_HEADER_MOST = 1 << 16 };
char *vp_samples_header(struct vp_source *s, uint64_t at, size_t *n, struct vp_err *err);

/* Replaces the input by what is at `at`, inflated (zlib or gzip): to be `bytes` long. */
int vp_samples_inflate(struct vp_source *s, uint64_t at, uint64_t bytes, struct vp_err *err);
/* Inflates the first n bytes of a gzip file, of which m are given; returns how many there are. */
size_t vp_inflate_first(const void *from, size_t m, void *to, size_t n);

/* Replaces the input by the file that a header names, seen from the folder of the header. */
int vp_samples_elsewhere(struct vp_source *s, const char *file, struct vp_err *err);

/* Sets size, number of pages and type, and checks them: two axes or three. */
int vp_samples_stack(struct vp_source *s, int axes, const int64_t *size, enum vp_type type, struct vp_err *err);
/* Multiplies; saturates, so that a comparison with a size of a file fails. */
uint64_t vp_samples_bytes(const struct vp_stack *s);

/* Sets voxel and origin out of a matrix whose columns are the steps along x, y and z in mm, each of `axes` numbers; an
 * orientation that is not along the axes is left out with a remark. origin: or NULL. */
int vp_samples_place(struct vp_source *s, int axes, double step[3][3], const double *origin, struct vp_err *err);
/* The reverse, for outputs: size of voxels and origin in mm; false if not known. */
bool vp_samples_placed(const struct vp_stack *s, double voxel[3], double origin[3]);

/* Finds the type that a format calls `name`; false if it is none of ours. */
struct vp_type_word { const char *name; enum vp_type type; };
bool vp_type_of_word(const struct vp_type_word *words, size_t n, const char *name, enum vp_type *type);
