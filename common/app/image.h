/* What the programs that run local operations on image stacks share: options, opening the inputs and seeing their
 * axes, here; plan, execution and output in image_run.h. An img-* program makes a vp_chain out of its options between
 * vp_images_open and vp_images_run.
 *
 * Axes: pages along z make a volume. Pages along channel, time or view stand side by side and are never mixed;
 * whatever their order among the page axes (x y channel z time), each channel at each time is an image of its own.
 * A stack that names no axes is x y z; of one whose pages are x y page nobody knows more than that: refused but for
 * --2d and operations on single voxels. */
#ifndef VP_IMAGE_H
#define VP_IMAGE_H

#include "base/opt.h"
#include "local/footprint.h"
#include "engine/chain.h"

struct vp_run;
struct vp_reader;

struct vp_image_params {
    struct vp_size chunk;  /* --chunk WxHxD: the size of output boxes, instead of the planner's choice */
    bool flat;             /* --2d: every page is an image of its own */
    bool physical;         /* --physical: lengths are in the unit of the voxel size, not in voxels */
    bool values;           /* no option: a recorded scale is undone; otherwise it is carried where its gain is positive,
                            * and the program sees to what it says of the result and to `scale` below */
    bool steps;            /* no option: that of floats is undone, that of integers carried (VP_AS_STEPS) */
    bool any_types;        /* no option: several stacks whose samples no type holds alike are taken as f64 */
    bool voxels;           /* no option: the operation looks at single voxels, whatever the pages are */
};
extern const struct vp_opt vp_image_options[];
extern const struct vp_opt vp_image_without_lengths[]; /* of programs whose options name none: no --physical */
extern const struct vp_opt vp_image_chunk[]; /* of struct vp_size: --chunk alone, which is in the table above, too */

struct vp_images {
    int n;                                  /* stacks */
    struct vp_reader *reader[VP_MAX_INPUTS];
    struct vp_image_params params;
    int64_t size[3];   /* of one image; size[2] is 1 where pages stand alone, VP_UNKNOWN before the end of a pipe */
    bool flat;         /* no z axis, or --2d */
    bool has_voxel;
    double voxel[3];   /* spacing along x y z; 1 if not known */
    enum vp_type type; /* what operations get: the stack's own type, or i16 for i8 */
    double scale[2];   /* that is carried, for what options say of values (vp_scale_steps and so on); {1, 0}: none */
    bool seekable;     /* can be read twice */
    bool lines;        /* see vp_images_lines */
    int64_t corner[3]; /* where the result's first voxel is in the input; below 0: before that */
    int64_t pad[3];    /* columns, rows and planes of zeros before the output (vp_writer_pad) */
    const char *second; /* file of the second output, where the operation has one */
    /* In a chain that has two passes, called when all is solved and before the output is opened, so that what was
     * found is in its history. -1: it failed. NULL: there is nothing to say. */
    int (*solved)(void *ctx, struct vp_run *run, struct vp_err *err);
    void *ctx;
    /* pages = inner * nz * outer; VP_UNKNOWN where the end of a pipe tells */
    int64_t inner, nz, outer;
    bool single[VP_MAX_INPUTS]; /* stacks that are one page for all pages of the others */
    int first;                  /* the stack whose axes and metadata count */
    bool all_i8;                /* every stack is */
    uint64_t held;              /* bytes that the readers hold (a page, to see whether another follows; copies of pipes) */
};

/* Open run->parsed.operands: as one stack (stacks = 1, as everywhere), or each operand as a stack of its own (stacks =
 * how many at most). Several stacks must agree in size; a stack of one page goes with every page of the others.
 * `types` is a mask of 1u << vp_type that the operation takes; another type is refused with the way out. */
int vp_images_open(struct vp_images *im, struct vp_run *run, const struct vp_image_params *p, int stacks,
                   unsigned types, struct vp_err *err);

/* For operations that must know all pages before they make any: what comes from a pipe is copied (to memory, as far
 * as a quarter of it goes, else to $TMPDIR; the plan says where), so that it can be read again and its length is
 * known. Of an operation that can visit an image once (`once`), pages that stand alone go on coming one by one, but
 * where one is so large that it may not fit. */
int vp_images_keep(struct vp_images *im, struct vp_run *run, bool once, struct vp_err *err);

/* One to three lengths of an option, in voxels: one value is for all axes; three are x, y, z; where pages stand alone
 * two are enough, and a third that is not 0 is refused. With --physical they are divided by the voxel size. */
int vp_image_lengths(const struct vp_images *im, const char *option, const struct vp_reals *given, double out[3],
                     struct vp_err *err);

/* The neighbourhood of a voxel as programs take it, with such lengths. -1: VP_EUSAGE. */
struct vp_footprint_params { struct vp_reals radius; int shape; };
extern const struct vp_opt vp_footprint_options[];
int vp_footprint_make(struct vp_footprint *f, const struct vp_footprint_params *p, const struct vp_images *im,
                      struct vp_err *err);

/* For operations that look at single voxels: make all pages, whatever their axes, one image along z (size[2] is then
 * their number). Page p is slice p / *inner % *nz; *nz may be VP_UNKNOWN. */
void vp_images_join(struct vp_images *im, int64_t *inner, int64_t *nz);

/* For operations that carry a value down the rows of pages that stand alone (--2d): a row is a plane of the engine, so
 * size[] is the width, 1 and the height, and `outer` counts pages. */
void vp_images_lines(struct vp_images *im);

void vp_images_close(struct vp_images *im);

#endif
