/* One channel of a stack with an axis `channel`, or the luminance of its colours: which pages, and what the rest of
 * the metadata is then. */
#pragma once

#include "pages/select.h"

/* True if the first three channels are red, green and blue, as the metadata name them; false where they do not. */
bool vp_channels_are_colours(const struct vp_meta *m);

/* Writes the name that the metadata give channel k, as " (cyan)"; "" if there is none. */
enum { VP_CHANNEL_NAME = 40 };
void vp_channel_name(const struct vp_meta *m, int64_t k, char name[VP_CHANNEL_NAME]);

struct vp_axes;
/* Returns the index of the axis of colours, or else of channels; -1 if there is neither. */
int vp_channels_axis(const struct vp_axes *axes);

struct vp_channel {
    bool luminance;      /* three pages become one, each with its weight */
    int64_t count;       /* channels of the stack */
    char *pages;         /* the pages it wants, as --pages has them, in the order in which they are used; malloc'd */
    double *sum;         /* pages on their way; malloc'd */
    size_t room;         /* bytes of it */
    int64_t done, whole; /* pages added; sums that were whole after the last batch */
};

/* Do vp_select_make and vp_select_stack for the pages of a channel: `text` is "0", "1", ... or "luminance", or NULL for
 * what `p` selects and no more. */
int vp_channel_select(struct vp_channel *c, const char *text, struct vp_select *select,
                      const struct vp_select_params *p, const struct vp_stack *in, const char *name, bool seekable,
                      struct vp_stack *out, char *note, size_t n, struct vp_err *err);
/* Returns the pages of f64 that are on their way, at most, where up to n pages come at a time. */
static inline int64_t vp_channel_sums(int64_t n)
{
    return (n + 4) / 3;
}

/* Makes *n selected pages of `samples` each, at *in in *type, become those of the luminance in f64 that are whole by
 * now; of other channels they stay what they are. */
int vp_channel_mix(struct vp_channel *c, int64_t samples, void **in, int *n, enum vp_type *type, struct vp_err *err);
void vp_channel_free(struct vp_channel *c);
