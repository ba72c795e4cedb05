/* Runs of local operations on image stacks, shared by the img-* programs: options, opening the inputs and interpreting
 * their axes here; plan, execution and output in image_run.h. A program makes the chain from its options between
 * vp_images_open and vp_images_end.
 * Axes: pages along z make a volume. Pages along channel, time or view are separate images and are never mixed;
 * whatever their order among the page axes (x y channel z time), each channel at each time is an image. A stack without
 * named axes is x y z. The meaning of an axis "page" is unknown: rejected, except with --2d and for operations on
 * single voxels. */
#pragma once

#include "base/opt.h"
#include "local/footprint.h"
#include "engine/chain.h"
#include "local/missing.h"

struct vp_run;
struct vp_reader;

struct vp_image_params {
    struct vp_size chunk;  /* --chunk WxHxD: size of output boxes, in place of the planner's choice */
    bool flat;             /* --2d: every page is an image */
    bool physical;         /* --physical: lengths are in the unit of the voxel size, not in voxels */
    /* Not an option: undo a recorded scale; otherwise it is carried if its gain is positive, and the program decides on
     * the scale of the result and uses `scale` below. */
    bool values;
    /* Not an option: undo the scale of floats, carry that of integers (VP_AS_STEPS). */
    bool steps;
    /* Not an option: several stacks without a common type are read as f64. */
    bool any_types;
    /* Not an option: the operation works on single voxels, whatever the pages are. */
    bool voxels;
};
extern const struct vp_opt vp_image_options[];
extern const struct vp_opt vp_image_without_lengths[]; /* without --physical, for programs without lengths */
extern const struct vp_opt vp_image_chunk[]; /* --chunk alone, for a struct vp_size; the table above contains it, too */

struct vp_images {
    int n;                                  /* number of stacks */
    struct vp_reader *reader[VP_MAX_INPUTS];
    struct vp_image_params params;
    /* Size of one image; size[2] is 1 for single pages, VP_UNKNOWN until the end of a pipe. */
    int64_t size[3];
    bool flat;         /* no z axis, or --2d */
    bool has_voxel;
    double voxel[3];   /* spacing along x y z; 1 if unknown */
    enum vp_type type; /* type of the operations' input: the stack's, i16 for i8, or see vp_images_as_f64 */
    struct vp_chain chain; /* operations of the program, which vp_images_end runs */
    /* Scale that is carried, to convert values in options (vp_scale_steps etc.); {1, 0}: none. */
    double scale[2];
    bool seekable;     /* can be read twice */
    struct vp_missing missing; /* samples that do not exist (vp_missing_open) */
    bool lines;        /* see vp_images_lines */
    int64_t corner[3]; /* position of the result's first voxel in the input; may be negative */
    int64_t pad[3];    /* columns, rows and planes of zeros before the output (vp_writer_pad) */
    const char *second; /* file of the second output, if the operation has one */
    /* In a chain that has two passes, called when all is solved and before the output is opened, so that what was
     * found is in its history. -1: it failed. NULL: there is nothing to say. */
    int (*solved)(void *ctx, struct vp_run *run, struct vp_err *err);
    /* Completes the header of a result whose voxels are not those of the input, sizes and axes set; NULL: they are, and
     * begin at `corner`. -1: it failed. */
    int (*header)(void *ctx, const struct vp_stack *in, struct vp_stack *out, struct vp_err *err);
    void *ctx;
    /* pages = inner * nz * outer; VP_UNKNOWN until the end of a pipe */
    int64_t inner, nz, outer;
    bool single[VP_MAX_INPUTS]; /* stacks of one page, used with every page of the others */
    int first;                  /* index of the stack whose axes and metadata are used */
    bool all_i8;                /* every stack is i8 */
    /* Bytes in the readers: a page read ahead to find the end, copies of pipes. */
    uint64_t held;
};

/* Opens run->parsed.operands: as one stack (stacks = 1), or each operand as a stack (stacks = the largest number of
 * them). Several stacks must agree in size; a stack of one page is used with every page of the others. `types` is a
 * mask of 1u << vp_type that the operation accepts; other types are an error, with a hint. */
int vp_images_open(struct vp_images *im, struct vp_run *run, const struct vp_image_params *p, int stacks,
                   unsigned types, struct vp_err *err);

/* Lets operations that compute in f64 read u32, i32 and f64 as f64, and, if `all`, every other type, too. Returns the
 * type of the stack: that of results of the same type. */
enum vp_type vp_images_as_f64(struct vp_images *im, bool all);

/* Makes the input seekable and its length known, for operations that need all pages before they make any: a pipe is
 * copied (up to a quarter of the memory limit, else to $TMPDIR; the plan says which). With `once` (the operation has a
 * version in one pass) single pages still stream, unless one is so large that it may not fit. */
int vp_images_keep(struct vp_images *im, struct vp_run *run, bool once, struct vp_err *err);

/* Converts one to three lengths of an option to voxels: one value is for all axes; three are x, y, z. For single pages
 * two are enough, and a third that is not 0 is an error. With --physical they are divided by the voxel size. */
int vp_image_lengths(const struct vp_images *im, const char *option, const struct vp_reals *given, double out[3],
                     struct vp_err *err);

/* Joins all pages, whatever their axes, into one image along z (size[2] is then their number), for operations on single
 * voxels. Page p is slice p / *inner % *nz; *nz may be VP_UNKNOWN. */
void vp_images_join(struct vp_images *im, int64_t *inner, int64_t *nz);

/* For operations that carry a value down the rows of single pages (--2d): a row becomes a plane of the engine, so
 * size[] is the width, 1 and the height, and `outer` counts pages. */
void vp_images_lines(struct vp_images *im);

void vp_images_close(struct vp_images *im);
