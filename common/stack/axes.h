/* The axes of a stack's pages, out of the metadata `axes` and `sizes`. */
#pragma once

#include "stack/stack.h"

enum { VP_AXES_MAX = 16, VP_AXIS_NAME = 32 };

/* The axes after the first two, fastest first. */
struct vp_axes {
    int n;                               /* 0: nothing is said of the pages */
    bool sized;                          /* size[] is known and agrees with the number of pages */
    char name[VP_AXES_MAX][VP_AXIS_NAME];
    int64_t size[VP_AXES_MAX];           /* -1: not known */
};

/* The name of a page axis of which nothing is known: such pages are no volume, and no views. */
#define VP_AXIS_PAGE "page"

void vp_axes_get(const struct vp_stack *s, struct vp_axes *a);
/* Says them in the metadata: sizes only where there is more than one. -1 if out of memory. */
int vp_axes_set(struct vp_meta *m, const struct vp_axes *a);
/* Records that the pages are no regular grid any more (or never were understood): x y page. */
int vp_axes_lose(struct vp_meta *m);
/* Returns the index of the axis along which pages are slices, or -1. */
int vp_axes_z(const struct vp_axes *a);

/* Returns the index of the axis of that name, or -1. */
int vp_axes_find(const struct vp_axes *a, const char *name);
/* Returns the pages from one index of axis i to the next, where the axes are sized (of the first: 1). */
int64_t vp_axes_stride(const struct vp_axes *a, int i);
/* Leaves axis i out. */
void vp_axes_drop(struct vp_axes *a, int i);

/* Adapts metadata of `images` images, each of which became `channels` pages: the first page axis is that of the
 * channels then. -1 if out of memory. */
int vp_axes_channels(struct vp_meta *m, int64_t channels, int64_t images);

/* Corrects axes where a foreign file said how many pages it has along its one page axis; now they are counted: sizes
 * goes, and where it was wrong the axis with it. -1 if out of memory. */
int vp_axes_settle(struct vp_stack *s);
