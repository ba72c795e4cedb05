/* SPDX-License-Identifier: BSD-3-Clause */
/* Several stacks into one, page by page: sum, mean, smallest, largest; the pages of one stack into one page;
 * and slabs of a volume joined in the order of their place. A page or two is held, however long the
 * stacks. */
#pragma once

#include "base/opt.h"
#include "engine/pages.h"

enum vp_reduce_op { VP_REDUCE_SUM, VP_REDUCE_MEAN, VP_REDUCE_MIN, VP_REDUCE_MAX };

struct vp_reduce_params {
    int op;         /* --op */
    bool pages;     /* --pages: over the pages of one stack */
    const char *along; /* --along: that axis of them; NULL: the first that is not channels */
    bool join;      /* --join */
};
extern const struct vp_opt vp_reduce_options[];

/* Sample type of the result: min and max keep the type; sum and mean give f64 from f64 and from integers of
 * 32 and 64 bits, f32 from all others. */
enum vp_type vp_reduce_type(int op, enum vp_type in);

/* An accumulator of n samples. */
struct vp_reduce {
    int op;
    enum vp_type type;
    int64_t n;
    int threads;
    int64_t added, nan; /* calls; NaN samples that they have seen */
    void *held;         /* n doubles (sum, mean) or n of the type (min, max) */
};
int vp_reduce_open(struct vp_reduce *r, int op, enum vp_type in, int64_t n, int threads, struct vp_err *err);
/* Adds n samples of the input type. Sums are taken in double, in the order of the calls. min and max leave NaN out
 * (a sample that is NaN in every call stays so); it goes through sum and mean. */
void vp_reduce_add(struct vp_reduce *r, const void *samples);
/* Writes n samples of vp_reduce_type() to out (may be NULL) and goes back to the start. */
void vp_reduce_result(struct vp_reduce *r, void *out);
uint64_t vp_reduce_bytes(const struct vp_reduce *r);
void vp_reduce_close(struct vp_reduce *r);

/* Fills the header of n stacks reduced page by page: that of the first. An error if sizes, types or known numbers
 * of pages differ; `note` (of size bytes) is "" or says that they lie in different places. `out` is to be
 * freed. */
int vp_reduce_stack(struct vp_reader *const *readers, int n, int op, struct vp_stack *out, char *note,
                    size_t size, struct vp_err *err);
/* Reduces the stacks in lockstep, in their order within each page. pages->reader is the first, pages->writer takes the
 * result; both and the memory are set, the work is not. */
int vp_reduce_run(struct vp_reduce *r, struct vp_reader *const *readers, int n, struct vp_pages *pages,
                  struct vp_err *err);

/* An axis of a stack's pages: page i + stride * (k + count * o) is number k along it, and becomes page i + stride * o of
 * the result with the others. */
struct vp_along {
    int64_t stride, count; /* pages from one to the next; how many, or -1 where only the end of a pipe says it */
    int64_t sums;          /* accumulators that are needed: `stride` of a pipe, 1 of what can be read in any order */
    char name[32];         /* "" where nothing is said of the pages */
};
/* Finds the axis of that name, or (NULL) the first that is not channels, of the stack that `reader` has. -1: VP_ERUN,
 * there is none, or how many of each there are is not known. */
int vp_along_find(struct vp_along *a, const char *name, const struct vp_reader *reader, struct vp_err *err);
/* Turns the header `out` of the pages into that of the result: without the axis; the voxel of slices is as thick as
 * all of them and lies in their middle; what is said of channels or of views goes with them. count is known. */
int vp_along_stack(const struct vp_along *a, struct vp_stack *out, struct vp_err *err);
/* Reduces the pages of one stack along it, r[a->sums]. pages as above; pages->writer may be NULL where there is one
 * result, which vp_reduce_result() gives. */
int vp_along_run(const struct vp_along *a, struct vp_reduce *r, struct vp_reader *reader, struct vp_pages *pages,
                 struct vp_err *err);
/* Sorts slabs by the z of their origin (those without one stay in order) and make the header of the whole. An
 * error if they are not slabs of one volume: other sizes, types, voxels, or a gap or overlap in z. */
int vp_join_stack(struct vp_reader **readers, int n, struct vp_stack *out, struct vp_err *err);
/* Writes their pages one after the other. A slab whose length was not known is checked against the next when it
 * ends. */
int vp_join_run(struct vp_reader *const *readers, int n, struct vp_pages *pages, struct vp_err *err);
