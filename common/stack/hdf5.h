/* HDF5 files as sources, and as outputs (hdf5_out.c). What they mean is decided in common/stack/hdf5*.c; the plugin
 * voxpipe-hdf5.so, which is linked with libhdf5 and opened where both are, answers questions about one file by this
 * table. */
#pragma once

#include "stack/stack.h"

enum { VP_H5_RANK = 8, VP_H5_PATH = 512 };
/* The values of NXtomo's image_key. */
enum { VP_H5_VIEW, VP_H5_FLAT, VP_H5_DARK };

struct vp_h5_file;
struct vp_h5_data;
struct vp_h5_out;

/* A data set. */
struct vp_h5_set {
    int rank;                  /* number of axes; 0: a single number; -1: more than VP_H5_RANK */
    int64_t size[VP_H5_RANK];  /* length of each axis, slowest first */
    int64_t chunk[VP_H5_RANK]; /* the same of a chunk; 0: stored in one piece */
    enum vp_type type;
    char other[64];            /* name of a type that is none of ours, or "" */
    char lacks[96];            /* filter that is needed and not installed, or "" */
    uint64_t at;               /* byte of the file at which the samples lie as they are; 0: they must be decoded */
    bool swap;                 /* in the other byte order */
};

/* Functions return 0, or -1 with an error that begins with the file's name; paths are absolute. Calls may come from any
 * thread: the plugin lets one into the library at a time. */
struct vp_h5_plugin {
    uint64_t build; /* must be first */
    char version[32];
    /* Opens a file for reading; name: for messages, must live as long. */
    int (*open)(struct vp_h5_file **f, const char *path, const char *name, struct vp_err *err);
    void (*close)(struct vp_h5_file *f);
    /* Calls take() for each data set, each once, in the order of the names, until it returns anything but 0. */
    int (*each)(struct vp_h5_file *f, int (*take)(void *ctx, const char *path, const struct vp_h5_set *s), void *ctx,
                struct vp_err *err);
    /* Describes the data set at a path: 1; 0: there is none. */
    int (*find)(struct vp_h5_file *f, const char *path, struct vp_h5_set *s);
    /* True if there is a group of that path. */
    bool (*group)(struct vp_h5_file *f, const char *path);
    /* Reads all n numbers of a data set, or of an attribute of the object, as doubles. */
    int (*numbers)(struct vp_h5_file *f, const char *path, const char *attribute, int64_t n, double *to,
                   struct vp_err *err);
    /* Reads a text: that of an attribute of the object, or (attribute NULL) of a data set of one text. False: there is
     * none, or it does not fit. */
    bool (*text)(struct vp_h5_file *f, const char *path, const char *attribute, char *to, size_t size);
    /* Opens a data set to read images of its last two axes, with a cache of `cache` bytes for decoded chunks. */
    int (*data)(struct vp_h5_file *f, const char *path, size_t cache, struct vp_h5_data **d, struct vp_err *err);
    int (*rows)(struct vp_h5_data *d, int64_t image, int64_t y0, int64_t y1, void *to, struct vp_err *err);
    void (*close_data)(struct vp_h5_data *d);

    /* Makes a file with one data set of pages of ny x nx, a chunk each; deflate: compressed. */
    int (*create)(struct vp_h5_out **o, const char *path, const char *name, const struct vp_stack *s, bool deflate,
                  struct vp_err *err);
    int (*page)(struct vp_h5_out *o, int64_t page, const void *samples, struct vp_err *err);
    /* Adds n numbers as an attribute of the data set of pages. */
    int (*label)(struct vp_h5_out *o, const char *attribute, int n, const double *v, struct vp_err *err);
    /* Add at a path, whose group exists: a group of a NeXus class; a data set of one text; one of n numbers (0: one
     * number, without an axis), as integers or with a unit (NULL: none); another name of what is at `to`. */
    int (*add_group)(struct vp_h5_out *o, const char *path, const char *class, struct vp_err *err);
    int (*add_text)(struct vp_h5_out *o, const char *path, const char *text, struct vp_err *err);
    int (*add_numbers)(struct vp_h5_out *o, const char *path, const char *unit, bool integers, int64_t n, const double *v,
                       struct vp_err *err);
    int (*add_link)(struct vp_h5_out *o, const char *path, const char *to, struct vp_err *err);
    /* Completes the file, or (err NULL) only closes it; frees o. */
    int (*finish)(struct vp_h5_out *o, struct vp_err *err);
};

#define VP_H5_PLUGIN "voxpipe-hdf5.so"
/* The data sets of our own files: pages, and the lines of the metadata. */
#define VP_H5_GROUP "/entry/data"
#define VP_H5_OUTPUT VP_H5_GROUP "/data"
#define VP_H5_NOTE "/entry/voxpipe"

/* Returns the plugin, opened at the first call; NULL with the reason. */
const struct vp_h5_plugin *vp_h5_open(char *why, size_t size);
/* Replaces it: for tests. */
void vp_h5_use(const struct vp_h5_plugin *plugin);
