/* Shared by hdf5.c and hdf5_scan.c. */
#pragma once

#include "stack/hdf5.h"
#include "stack/source.h"

/* The data set that is read, and which of its images are the pages. */
struct vp_h5_choice {
    char path[VP_H5_PATH];
    struct vp_h5_set set;
    int64_t *frame; /* image of each page; NULL: all in order */
    int64_t frames;
};

/* Chooses the data set that `part` names (NULL: the one that the file leaves no doubt about), and fills the metadata,
 * fields and remark of the source with what the file says of it. */
int vp_h5_choose(struct vp_source *s, const struct vp_h5_plugin *lib, struct vp_h5_file *f, const char *part,
                 struct vp_h5_choice *c, struct vp_err *err);
/* Checks that the samples of the data set can be pages. */
int vp_h5_check(const char *name, const char *path, const struct vp_h5_set *set, struct vp_err *err);
