/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the engine: execute.c (a run), window.c (reading), slabs.c (scheduling, writing), cpu.c and
 * execute_device.c (the work). */
#pragma once

#include "base/err.h"
#include "base/size.h"
#include "engine/execute.h"
#include "engine/thread.h"

#include <pthread.h>

/* Rows of a band: of output, and of the input that these need. */
struct band_rows { int64_t y0, y1, ya, yb; };

struct out_slab {
    int64_t g0, g1;           /* output planes */
    struct band_rows rows;
    int64_t taken, done, all; /* columns */
    int64_t pages;            /* output pages, where pages go through a function, which may make fewer */
    char *out[2];             /* samples of each output */
};

/* A column of a slab: one worker makes it, as parts that follow each other along z. */
struct column {
    struct out_slab *slab;
    int64_t time, channel, ix, iy;
    int64_t z, z1;            /* planes of the image; the next part starts at z */
};

/* A part in flight on a device, with buffers of its own there. */
struct lane {
    void *in[VP_MAX_INPUTS], *out[2];
    void *state;              /* on the device: an aggregate, then its prefix; in turn they are carried in lane 0 */
    void *on_host;            /* its copy on the host: an aggregate, an entry or a report */
    uint64_t bytes;           /* its bytes for the part that is made */
    struct vp_event *uploaded, *started, *worked, *downloaded;
    struct column column;     /* the rest of it, from this part on */
    struct out_slab *ends;        /* slab whose column ends with this part, or NULL */
    struct vp_box box;        /* input box in in[] */
    struct vp_part made[2];
    int64_t number;           /* number of the box, with two passes */
    void **pointers;
};

struct device_stage {
    const struct vp_kernel *kernel;
    void *table;
    void *result;             /* buffer; NULL for the last stage, whose result is the lane's output */
    int64_t made[3];          /* largest size of its result, in voxels */
};

/* Buffers and queues of a worker on its device (lanes.c), for parts of at most in[] -> out[] voxels. */
struct lanes {
    const struct vp_backend *backend;
    const struct vp_chain *chain;
    int device, n;
    int64_t in[3], out[3];
    void *memory, *scratch;
    void *image;              /* scratch in which the last stage holds its image, or NULL */
    uint64_t held, state;     /* bytes of that, and of a lane's state */
    struct device_stage *stage;
    struct vp_box *made;      /* box that each stage makes of the part that is submitted */
    struct lane lane[VP_MAX_LANES];
    struct vp_queue *up, *work, *down;
};

struct vp_engine;

/* State of a column that is carried between parts, or the aggregate of all segments before plane g of the stream. */
struct carried { int64_t g; void *value; };

struct worker {
    struct vp_engine *r;
    struct vp_thread thread;
    int index;
    struct lanes *device;     /* NULL: the CPU */
    int number;               /* device number */
    int64_t depth;            /* output planes of a part: the plan's, or fewer after the device ran short of memory */
    int lanes;
    int64_t slab;             /* next slab, where every worker has a column of its own */
    int64_t segment;          /* and the time within it */
    struct column before;     /* column of the part submitted last, whose input planes are on the device */
    struct column again[VP_MAX_LANES + 1]; /* columns to be done again, the last one first */
    int n_again;
    double work_s, device_s;
    uint64_t up, down;        /* bytes */
    int64_t parts;            /* parts so far; and since the device was opened: */
    int64_t submitted, applied, finished;
};

struct vp_engine {
    struct vp_execute *e;
    const struct vp_problem *p;
    const struct vp_plan *plan;
    int64_t nx, ny, inner;
    int64_t nz, total;        /* planes of output of an image and of all; VP_UNKNOWN before the end of a pipe */
    int64_t input_n[3], input_total; /* size of an input image, input planes of all */
    int64_t step;             /* multiple of planes at which parts begin */
    const struct vp_op *scan; /* the operation that carries a value along z, or NULL */
    int stacks;
    int io_threads;           /* threads that read, and that write */
    int outputs;              /* outputs of the operation: 1 or 2 */
    size_t in_size, out_size[2]; /* bytes of a sample in memory */
    bool flow;                /* planes of the stream are bands of pages, of all channels and times one after another:
                                 inner is 1 here, and `total` counts bands */
    struct band_rows rows;         /* rows of the band; flow: of a page's first band */
    int64_t across, along;    /* parts across and down the band */
    char *input[VP_MAX_INPUTS];
    size_t page_in, page_out[2]; /* bytes of a page's rows of this band in memory */
    size_t slot;              /* bytes of a plane of one stack */
    struct out_slab *slab;        /* ring of plan->slabs */
    struct carried *carried;  /* state of each column of the band: a stream on the CPU, or segments on devices */
    bool goes_on;             /* parts continue from the state of the part before: a stream on the CPU */
    bool from_nothing;        /* nothing is read: pages are made */
    bool by_device;          /* the window and the slabs are pinned memory of the devices */
    struct vp_thread reader, writer;
    struct worker worker[VP_MAX_WORKERS];

    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t have;             /* planes of input read */
    int64_t next;             /* output plane at which the next slab starts */
    int64_t made, done, written; /* slabs: opened for work, finished in order, written */
    bool end, stop, pipe;
    bool settled;             /* the length is known */
    struct vp_err *err;       /* the first of all threads */
    double read_s, write_s;
    int64_t patience;         /* timeout in nanoseconds of a slab that waits for more of a pipe */
};

/* Output planes and input planes are numbered through, each on their own. Returns the time of an output plane; and the
 * first output plane and the first input plane of a time. */
static inline int64_t vp_engine_time(const struct vp_engine *r, int64_t g)
{
    return r->nz >= VP_UNKNOWN ? 0 : g / r->nz;
}
static inline int64_t vp_engine_start(const struct vp_engine *r, int64_t time)
{
    return r->nz >= VP_UNKNOWN ? 0 : time * r->nz;
}
static inline int64_t vp_engine_input_start(const struct vp_engine *r, int64_t time)
{
    return r->nz >= VP_UNKNOWN ? 0 : time * r->input_n[2];
}
/* Returns the input box that `out` needs; pages need themselves. */
static inline struct vp_box vp_engine_region(const struct vp_engine *r, const struct vp_box *out)
{
    return r->e->chain ? vp_chain_region(r->e->chain, out) : *out;
}
/* Returns the end of the input planes that the output before plane g1 needs. */
int64_t vp_engine_needed(const struct vp_engine *r, int64_t g1);
/* Returns the lowest input plane that the output from plane g on needs in the window: a stream has earlier planes on
 * its devices or in its state. */
int64_t vp_engine_kept(const struct vp_engine *r, int64_t g);
/* Returns the rows of a band. */
struct band_rows vp_engine_rows(const struct vp_engine *r, int64_t band);
/* Returns column i of a slab. */
struct column vp_engine_column(const struct vp_engine *r, struct out_slab *s, int64_t i);
/* Returns the address of the pages of a slab in the window (NULL if they are made) and in the output. */
void *vp_engine_pages_in(const struct vp_engine *r, const struct out_slab *s);
void *vp_engine_pages_out(const struct vp_engine *r, const struct out_slab *s);
/* Threads of the reader and of the writer, to the end of the band; ctx is the engine. 0 or -1. */
int vp_engine_read(void *ctx, struct vp_err *err);
int vp_engine_write(void *ctx, struct vp_err *err);
/* Waits for the next column, if `block`. False: there is none. Under the lock. */
bool vp_engine_await(struct vp_engine *r, struct worker *w, bool block, struct column *c);
/* Counts a finished column. Under the lock. */
void vp_engine_column_done(struct vp_engine *r, struct out_slab *s);
/* Fills the boxes and planes of the next part of a column, `depth` planes at most, and moves c->z on. `pointers` is
 * vp_engine_pointers'; out[] has a part for each output. */
void vp_engine_next_part(const struct vp_engine *r, struct column *c, int64_t depth, struct vp_part *in,
                         struct vp_part *out, void **pointers);
/* Returns what is carried along a column. */
static inline struct carried *vp_engine_carried(const struct vp_engine *r, const struct column *c)
{
    return &r->carried[(c->channel * r->along + c->iy) * r->across + c->ix];
}
/* Returns the number of a box, with two passes. */
int64_t vp_engine_box(const struct vp_engine *r, const struct column *c, const struct vp_box *box);
/* Allocates the plane pointers of one part; NULL with an error. The caller frees them. */
void **vp_engine_pointers(const struct vp_engine *r, struct vp_err *err);

/* Makes all slabs on the CPU, to the end of the band. */
int vp_engine_cpu(struct worker *w, struct vp_err *err);

/* Opens device w->number for parts of w->depth planes in w->lanes lanes. */
int vp_engine_open_device(struct worker *w, struct vp_err *err);
/* Makes the columns of this worker, to the end of the band. */
int vp_engine_device(struct worker *w, struct vp_err *err);
/* Opens buffers and queues; NULL with an error, VP_ERESOURCE if device memory runs short. Closing waits for the queues;
 * NULL is allowed. */
struct lanes *vp_lanes_open(const struct vp_backend *backend, int device, const struct vp_chain *chain,
                            const int64_t in[3], const int64_t out[3], int n, bool held, struct vp_err *err);
void vp_lanes_close(struct lanes *d);
/* Returns the area of a box in device memory at `data`. */
struct vp_area vp_lanes_area(void *data, const struct vp_box *box, enum vp_type t);
