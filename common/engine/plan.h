/* The planner: turns a chain of local operations, the size of the images, memory and devices into a list of boxes that
 * the executor (execute.h) runs.
 *
 * Pages are read once, in order. Those with the same z (one of each channel) are a plane of the stream; image t
 * follows image t - 1. The host holds a window of planes. Output leaves it in slabs of planes, which are cut into
 * parts along x, y and z. Where the memory does not hold the planes of the halo, the rows of all planes are cut into
 * bands, and each band is a stream of its own. Where pages are independent, the bands of a page may follow each other
 * as planes of one stream: rows are read once, in order, and the rows that two bands share stay in the window.
 *
 * The CPU works on a part in place, in the window. On a device parts are copied; those of one column follow each other
 * along z, and the planes that two of them share stay on the device. With a worker for every column (`stream`) they
 * stay from slab to slab, so that every plane is copied once. On the CPU a stream means that the operation keeps
 * intermediate results of the planes from slab to slab (keeps() in op.h), so that no slab computes them again. */
#pragma once

#include "engine/lanes.h"
#include "engine/rates.h"

enum { VP_MAX_DEVICES = 16, VP_MAX_WORKERS = 16 };

struct vp_problem {
    const struct vp_chain *chain;
    int64_t image[3];              /* image[2] VP_UNKNOWN: to the end of a pipe */
    int64_t inner;                 /* images whose pages alternate inside z (channels) */
    int64_t outer;                 /* images in sequence (times, pages that stand alone); or VP_UNKNOWN */
    bool lines;                    /* a plane of the stream is a row of a page: image[] is its width, 1, its height;
                                      inner is 1, and `outer` is the number of pages */
    bool single[VP_MAX_INPUTS];    /* stack k is one page, used with every page of the others */
    uint64_t stored_in, stored_out;/* bytes of a voxel of all inputs, and of the output, in their files */
    int64_t chunk[3];              /* output box of a part; 0: free */
    int threads;
    uint64_t memory;               /* bytes of the host that a plan may take */
    uint64_t beside, over;         /* bytes committed elsewhere, and their shortfall; for messages */
    bool once;                     /* the input can be read once only */
    bool held;                     /* the entries of a first pass stay in memory: there is no disk for them */
    bool rows;                     /* rows of pages can be read and written in any order: bands are possible */
    bool flow;                     /* the number of pages is known and their rows can be read and written in order:
                                      bands that follow each other are possible where pages are independent */
    const struct vp_backend *backend;    /* NULL: the CPU */
    bool parted;                   /* no device may hold a whole image between passes */
    int devices;
    uint64_t free[VP_MAX_DEVICES]; /* bytes that a plan may take on each device */
    const struct vp_rates *rates;  /* NULL: vp_rates */
};

struct vp_plan {
    bool device, stream;
    bool twice;                    /* two passes over every part */
    bool offset;                   /* device: segments of a value carried along z are made side by side */
    bool flow;                     /* bands follow each other: planes of the stream, below, are bands, one to a slab */
    int64_t bands, band;           /* number of bands, and output rows of one (the last may have fewer) */
    int64_t slab;                  /* output planes of a slab */
    int64_t window;                /* planes of input in memory */
    int slabs;                     /* slabs of output in memory */
    int64_t part[3], parts[3];     /* output box of a part; number of parts in a page row, a band, a slab */
    int64_t in[3];                 /* largest input box of a part */
    int64_t depth[VP_MAX_DEVICES]; /* device: planes of a part on each, part[2] or fewer; 0: unused */
    int workers, lanes;            /* device: workers, sets of buffers of each */
    int together;                  /* CPU: parts worked on at once, by one thread each; 1: by all threads in turn */
    uint64_t input, output, scratch; /* bytes of the window, of the slabs, of all workspace */
    uint64_t kept;                 /* part of scratch: bytes that a stream on the CPU keeps from slab to slab */
    uint64_t held;                 /* bytes in which a device holds the image: its planes go up as they come, and leave
                                      once all are there; 0: no */
    uint64_t entries;              /* two passes: bytes in memory for the entries of the first; the rest is in a file */
    uint64_t host, on_device;      /* bytes in total on the host; on the fullest device */
    double read;                   /* voxels read of the input, in all passes / voxels */
    double copied;                 /* voxels copied to devices / voxels */
    double seconds;                /* rough estimate of the run; of some length where the length is unknown */
    const char *limit;             /* limit without which a cheaper plan would fit: "memory", "device memory", "" */
};

/* Makes the plan of a problem: the cheapest of the planner's candidates within the limits. A pure function, from any
 * thread. 0, or -1: VP_ERESOURCE, no plan is within the limits; VP_EUSAGE, chunk[] is too large for the operation. */
int vp_plan_make(struct vp_plan *plan, const struct vp_problem *p, struct vp_err *err);

/* Returns the seconds that a command is expected to take with this plan, from its start to its end, its files in memory.
 * 0: the length of the input is unknown, or there is no memory. Unlike plan->seconds, which ranks plans, it has the
 * start of a program and of devices, and nothing that a choice should avoid. */
double vp_plan_time(const struct vp_problem *p, const struct vp_plan *plan);
