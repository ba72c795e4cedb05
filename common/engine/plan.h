/* The planner: from a chain of local operations, the size of the images, memory and devices to a list of boxes that
 * the executor (execute.h) runs.
 *
 * Pages are read once, in order. Those with the same z (one of each channel) are a plane of the stream; image t follows
 * image t - 1. The host holds a window of planes, and output leaves it in slabs of planes, which are cut into parts
 * along x, y and z. Where not even the halo's planes fit the memory, the rows of all planes are cut into bands, and
 * each band is a stream of its own; or, where no page looks at another, the bands of a page follow each other, as
 * planes of one stream: rows are read once, in their order, and those that two bands share stay in the window.
 *
 * On the CPU a part is worked on where it lies in the window. On a device parts are copied; those of one column follow
 * each other along z, and the planes that two of them share stay on the device. If there is a worker for every column
 * (`stream`), they stay from slab to slab, so that every plane is copied once. On the CPU a stream means that the
 * operation keeps what it has made of the planes (keeps() in op.h), if it can: then no slab does it again. */
#ifndef VP_PLAN_H
#define VP_PLAN_H

#include "engine/lanes.h"
#include "engine/rates.h"

enum { VP_MAX_DEVICES = 16, VP_MAX_WORKERS = 16 };

struct vp_problem {
    const struct vp_chain *chain;
    int64_t image[3];              /* image[2] VP_UNKNOWN: to the end of a pipe */
    int64_t inner;                 /* images whose pages alternate inside z (channels) */
    int64_t outer;                 /* images after one another (times, pages that stand alone); or VP_UNKNOWN */
    bool lines;                    /* a plane of the stream is a row of a page: image[] is its width, 1, its height; inner
                                      is 1, and `outer` counts pages */
    bool single[VP_MAX_INPUTS];    /* stack k is one page that goes with every page of the others */
    uint64_t stored_in, stored_out;/* bytes of a voxel of all inputs, and of the output, as they are stored */
    int64_t chunk[3];              /* output box of a part; 0: to be chosen */
    int threads;
    uint64_t memory;               /* of the host */
    uint64_t beside, over;         /* what else is taken of it, for messages: `memory` is the rest; and how much more
                                      that is than there is */
    bool once;                     /* the input can be read once only */
    bool held;                     /* all that a first visit finds stays in memory: there is nowhere else */
    bool rows;                     /* rows of pages can be read and written in any order, so there may be bands */
    bool flow;                     /* how many pages there are is known, and rows of them are read and written in their
                                      order: where no page looks at another there may be bands that follow each other */
    const struct vp_backend *backend;    /* of device; NULL: the CPU */
    int devices;
    uint64_t free[VP_MAX_DEVICES]; /* bytes that may be taken on each */
    const struct vp_rates *rates;  /* NULL: vp_rates */
};

struct vp_plan {
    bool device, stream;
    bool twice;                    /* every part is visited twice; else once, also by what could visit them twice */
    bool offset;                   /* device: a value is carried along z, and segments of it are made side by side */
    bool flow;                     /* bands follow each other: a plane of the stream is a band of a page, in what is said
                                      of slabs and the window below, and slabs are one of them */
    int64_t bands, band;           /* how many, and output rows of one (the last may have fewer) */
    int64_t slab;                  /* output planes of a slab */
    int64_t window;                /* planes of input in memory */
    int slabs;                     /* of output in memory */
    int64_t part[3], parts[3];     /* output box of a part; how many in a page row, a band, a slab */
    int64_t in[3];                 /* the largest input box of a part */
    int64_t depth[VP_MAX_DEVICES]; /* device: planes of a part on each, part[2] or fewer; 0: it is not used */
    int workers, lanes;            /* device: workers, sets of buffers of each */
    int together;                  /* CPU: parts worked on at once, by one thread each; 1: by all threads in turn */
    uint64_t input, output, scratch; /* bytes of the window, the slabs, and beside them */
    uint64_t kept;                 /* of these, what a stream on the CPU keeps from slab to slab */
    uint64_t entries;              /* of two visits: memory for what the first finds; beyond it there is a file */
    uint64_t host, on_device;      /* all of it on the host; on the fullest device */
    double read;                   /* voxels read of the input, in all visits / voxels */
    double copied;                 /* voxels copied to devices / voxels */
    double seconds;                /* what the choice minimises: a rough estimate of the run, per voxel when the
                                      length is not known */
    const char *limit;             /* what kept it from a cheaper plan: "memory", "device memory", "" */
};

/* 0, or -1 with VP_ERESOURCE: nothing fits. A pure function of the problem, from any thread. */
int vp_plan_make(struct vp_plan *plan, const struct vp_problem *p, struct vp_err *err);

#endif
