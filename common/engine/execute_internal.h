/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine share: execute.c (all of it), window.c (reading), slabs.c (what is made next, writing),
 * cpu.c and execute_device.c (the work). */
#ifndef VP_EXECUTE_INTERNAL_H
#define VP_EXECUTE_INTERNAL_H

#include "base/err.h"
#include "base/size.h"
#include "engine/execute.h"
#include "engine/thread.h"

#include <pthread.h>

/* Rows of a band: of output, and of the input that these need. */
struct rows { int64_t y0, y1, ya, yb; };

struct slab {
    int64_t g0, g1;           /* planes of output */
    struct rows rows;
    int64_t taken, done, all; /* columns */
    int64_t pages;            /* of output, where pages go through a function, which may make fewer */
    char *out[2];             /* of each output */
};

/* A column of a slab: what one worker does in one go, as parts that follow each other along z. */
struct column {
    struct slab *slab;
    int64_t time, channel, ix, iy;
    int64_t z, z1;            /* of the image; z: where the next part starts */
};

/* A part under way on a device, with buffers of its own there. */
struct lane {
    void *in[VP_MAX_INPUTS], *out[2];
    void *state;              /* of the device: a total, then what was before; carried in turn in the first lane's */
    void *on_host;            /* the same on the host: a total, an entry or a report */
    uint64_t bytes;           /* of it, for the part that is made */
    struct vp_event *uploaded, *started, *worked, *downloaded;
    struct column column;     /* from this part on */
    struct slab *ends;        /* the part is the last one of a column of this slab; or NULL */
    struct vp_box box;        /* what in[] hold */
    struct vp_part made[2];
    int64_t number;           /* of two visits: which box it is */
    void **pointers;
};

struct stage {
    const struct vp_kernel *kernel;
    void *table;
    void *result;             /* NULL for the last stage, whose result is the lane's output */
    int64_t made[3];          /* the most voxels of its result */
};

/* What a worker has on its device (lanes.c), for parts of at most in[] -> out[] voxels. */
struct lanes {
    const struct vp_backend *backend;
    const struct vp_chain *chain;
    int device, n;
    int64_t in[3], out[3];
    void *memory, *scratch;
    uint64_t state;           /* bytes */
    struct stage *stage;
    struct vp_box *made;      /* of the part that is submitted: what each stage makes */
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
    int number;               /* of its kind */
    int64_t depth;            /* output planes of a part: the plan's, or fewer since the device's memory ran short */
    int lanes;
    int64_t slab;             /* next one to look at, where every worker has a column of its own */
    int64_t segment;          /* and which of its times */
    struct column before;     /* of the part submitted last: its input planes are on the device */
    struct column again[VP_MAX_LANES + 1]; /* to be done again, the last one first */
    int n_again;
    double work_s, device_s;
    uint64_t up, down;        /* bytes */
    int64_t parts;            /* so far; and in lanes of the device as it is open now: */
    int64_t submitted, applied, finished;
};

struct vp_engine {
    struct vp_execute *e;
    const struct vp_problem *p;
    const struct vp_plan *plan;
    int64_t nx, ny, inner;
    int64_t nz, total;        /* of the output in planes; VP_UNKNOWN before the end of a pipe */
    int64_t input_n[3], input_total; /* the same of the input */
    int64_t step;             /* planes: parts begin at multiples of it */
    const struct vp_op *scan; /* the operation that carries a value along z; or NULL */
    int stacks;
    int io_threads;           /* that read, and that write */
    int outputs;              /* of the operation: 1 or 2 */
    size_t in_size, out_size[2]; /* bytes of a sample in memory */
    bool flow;                /* a plane of the stream is a band of a page, of all channels and times one after another:
                                 inner is 1 here, and `total` counts them */
    struct rows rows;         /* of the band; flow: of its first one */
    int64_t across, along;    /* parts of a row of the band, of its height */
    char *input[VP_MAX_INPUTS];
    size_t page_in, page_out[2]; /* bytes of a page's rows of this band in memory */
    size_t slot;              /* bytes of a plane of one stack */
    struct slab *slab;        /* plan->slabs of them */
    struct carried *carried;  /* of each column of the band: a stream on the CPU, or segments on devices */
    bool goes_on;             /* such a stream */
    bool from_nothing;        /* pages that are made: nothing is read */
    bool by_device;          /* the window and the slabs are memory that the devices copy fast */
    struct vp_thread reader, writer;
    struct worker worker[VP_MAX_WORKERS];

    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t have;             /* planes of input read */
    int64_t next;             /* plane of output at which the next slab starts */
    int64_t made, done, written; /* slabs: made to be worked on, finished in a row, written */
    bool end, stop, pipe;
    bool settled;             /* the length is known */
    struct vp_err *err;       /* the first of all threads */
    double read_s, write_s;
    int64_t patience;         /* nanoseconds that a slab waits for more of a pipe */
};

/* Planes of output and planes of input are numbered through, each of their own. The time of a plane of output, where
 * the output of a time begins, and its input. */
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
/* The first plane of input after those that output up to plane g1 needs. */
int64_t vp_engine_needed(const struct vp_engine *r, int64_t g1);
/* The lowest plane of input that stays in the window while output from plane g on is to be made: what a stream has on
 * its devices, or its operation has kept of it, does not. */
int64_t vp_engine_kept(const struct vp_engine *r, int64_t g);
/* Rows of a band. */
struct rows vp_engine_rows(const struct vp_engine *r, int64_t band);
/* Column i of a slab. */
struct column vp_engine_column(const struct vp_engine *r, struct slab *s, int64_t i);
/* Where the pages of a slab are in the window (NULL if they are made) and in the output, one after the other. */
void *vp_engine_pages_in(const struct vp_engine *r, const struct slab *s);
void *vp_engine_pages_out(const struct vp_engine *r, const struct slab *s);
/* The reader's and the writer's thread, to the end of the band; ctx is the run. */
int vp_engine_read(void *ctx, struct vp_err *err);
int vp_engine_write(void *ctx, struct vp_err *err);
/* The next column, waited for. False: there is none, now (if not `block`) or ever. Under the lock. */
bool vp_engine_await(struct vp_engine *r, struct worker *w, bool block, struct column *c);
/* Under the lock. */
void vp_engine_column_done(struct vp_engine *r, struct slab *s);
/* Boxes and planes of the next part of a column, `depth` planes at most; `pointers` has room for them. out[] are
 * two. */
void vp_engine_next_part(const struct vp_engine *r, struct column *c, int64_t depth, struct vp_part *in, struct vp_part *out,
                      void **pointers);
/* Returns what is carried along a column. */
static inline struct carried *vp_engine_carried(const struct vp_engine *r, const struct column *c)
{
    return &r->carried[(c->channel * r->along + c->iy) * r->across + c->ix];
}
/* Of the boxes that are visited twice, the number of that one. */
int64_t vp_engine_box(const struct vp_engine *r, const struct column *c, const struct vp_box *box);
/* Room for the pointers of one part: where an axis must be whole the input is. */
void **vp_engine_pointers(const struct vp_engine *r, struct vp_err *err);

/* All slabs on the CPU, to the end of the band. */
int vp_engine_cpu(struct worker *w, struct vp_err *err);

/* Of w->number, for parts of w->depth planes and w->lanes of them. */
int vp_engine_open_device(struct worker *w, struct vp_err *err);
/* All columns that fall to this worker, to the end of the band. */
int vp_engine_device(struct worker *w, struct vp_err *err);
/* Buffers and queues; VP_ERESOURCE where device memory falls short. NULL is closed in any case; what is queued is
 * waited for. */
struct lanes *vp_lanes_open(const struct vp_backend *backend, int device, const struct vp_chain *chain, const int64_t in[3],
                            const int64_t out[3], int n, struct vp_err *err);
void vp_lanes_close(struct lanes *d);
/* Of the device's memory at `data`. */
struct vp_area vp_lanes_area(void *data, const struct vp_box *box, enum vp_type t);

#endif
