/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction with pretended devices: how slabs, mirrored slabs, passes and devices are planned,
 * that buffers are as large as what is put there and no more than the memory allows, that a slot is not used again
 * before a device has copied it, that nothing is read on a device before it is there, and that the volume is that of
 * the CPU to the bit. The pretended back-projection works on what it finds in the device's memory when it is run: it
 * keeps the views that are packed there, and makes slices of them with the CPU's code when they are downloaded. */
#include "pretend.h"
#include "ranks.h"

#include "backproject_ref.h"
#include "ct/kernels.h"
#include "ct/ranked_work.h"
#include "ct/reconstruct.h"
#include "engine/rates.h"
#include "stack/reader.h"

#include <fcntl.h>
#include <stdatomic.h>

/* What the devices are like. */
static struct {
    _Atomic uint64_t memory;
    uint64_t limit;   /* what they have been allowed, 0: all */
    bool mirror, pairs, filters;
    bool in_parts;    /* slices have to be asked for as parts are ready */
    bool flat;        /* every slab takes all rows of the detector */
    double speed[8];  /* 0: all alike */
    double rate[8];   /* slices that each makes of a view in a second, by its own account; 0: it does not say */
    double clock[8];  /* of each device */
    uint64_t less[8]; /* memory that is taken, of each */
    atomic_int lost;  /* that many slabs find no memory, */
    int good;         /* after so many that do, */
    uint64_t after;   /* have this then, if not 0, */
    int slow;         /* and tell so after so many milliseconds */
    atomic_int full; /* the so-manieth allocation fails */
    atomic_int breaks, tears, spoils; /* the so-manieth upload, download, or run once it is done fails; 0: none does */
    uint64_t row;     /* bytes that each detector row of a slab takes */
    atomic_int made[8]; /* slices, of each */
    atomic_int wrong; /* what a device found that must not be */
} like;
static pthread_mutex_t like_lock = PTHREAD_MUTEX_INITIALIZER;

#define EXPECT(cond) do { if (!(cond)) { like.wrong++; \
    printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); } } while (0)

/* What the devices copy from and to. */
static struct {
    pthread_mutex_t lock;
    struct {
        char *p;
        size_t bytes;
    } of[512];
    int n; /* never as many */
    size_t held, most; /* bytes, now and at most */
} buffers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static char dir[] = "/tmp/voxpipe-reconstruct-XXXXXX";
static char scan_path[64], volume_path[64];

enum { PROCESS = 7 << 20 }; /* bytes of the memory that are for other things */
enum { NU = 20, NV = 16, NX = 12, NY = 10 };

struct scene {
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_grid grid;
    struct vp_filter *filter;
};
static const struct scene *scene; /* that the devices know */

static int one_in(atomic_int *count) /* the so-manieth */
{
    return *count > 0 && atomic_fetch_sub(count, 1) == 1;
}

/* ---- back-projection ---- */

enum { K = 4, MOST_PIECES = 128 };

/* Pieces of K slices; those of the mirrored half belong to the pieces of the lower one. */
struct vp_devbp {
    struct vp_bp_job p;
    struct vp_bp_plan plan;
    float *packed, *volume;
    struct vp_queue *queue;
    float *views;           /* that were run, whole */
    bool *have;
    int pieces, parts, part; /* parts of the last run; the one that was read last */
    struct {
        bool *seen;         /* views */
        int64_t n, made;    /* of them, and when its slices were made */
        int64_t last;       /* orbit */
    } piece[MOST_PIECES];
    struct vp_devbp *next;
};
static struct vp_devbp *all_open; /* of all devices */

static bool folded(const struct vp_bp_job *p)
{
    return p->mirrored || (like.mirror && p->z0 == 0 && p->z1 == p->grid->n[2]);
}

/* Slices [z0, end) and their mirror images, and [z0, z1) as they are stored */
static int64_t end_of(const struct vp_bp_job *p)
{
    return folded(p) && !p->mirrored ? (p->grid->n[2] + 1) / 2 : p->z1;
}

static int64_t upper_first(const struct vp_bp_job *p)
{
    return vp_max64(p->grid->n[2] - p->z1, p->z1);
}

static void rows_of(const struct vp_bp_job *p, int64_t *v0, int64_t *v1)
{
    const struct scene *s = scene;
    vp_backproject_rows(&(struct vp_projections){.views = s->views, .n_views = p->projections->n_views,
                                                 .nv = p->projections->nv}, &s->grid, p->z0, p->z1, p->mirrored, v0, v1);
    if (like.flat) {
        *v0 = 0;
        *v1 = p->projections->nv;
    }
}

static int devbp_plan(const struct vp_bp_job *p, struct vp_bp_plan *plan, struct vp_err *err)
{
    double P[12];
    memset(plan, 0, sizeof *plan);
    vp_view_on_grid(&scene->views[p->projections->n_views - 1], &scene->grid, P);
    for (int i = 0; i < 12; i++)
        EXPECT(fabs(p->P[12 * (p->projections->n_views - 1) + i] * scene->views[0].sod - P[i]) <= 1e-12 * fabs(P[i]));
    if (p->mirrored && !like.mirror)
        return vp_fail(err, VP_ERUN, "no mirror plane");
    snprintf(plan->kernel, sizeof plan->kernel, "pretended");
    const int64_t n_views = p->projections->n_views;
    const int64_t pairs = like.pairs && n_views % 2 == 0 && !p->single;
    plan->opposite = pairs ? n_views / 2 : 0;
    plan->mirror = like.mirror;
    rows_of(p, &plan->v0, &plan->v1);
    plan->z_step = K;
    plan->batch = vp_min64(16, pairs ? n_views / 2 : n_views);
    plan->slot = (uint64_t)((pairs ? 2 : 1) * vp_max64(plan->v1 - plan->v0, 1) * p->projections->nu) * sizeof(float);
    plan->fixed = 8 + like.row * (uint64_t)vp_max64(plan->v1 - plan->v0, 0);
    return 0;
}

static int64_t orbits_of(const struct vp_devbp *b)
{
    return b->plan.opposite ? b->plan.opposite : b->p.projections->n_views;
}

static int views_of(const struct vp_devbp *b)
{
    return b->plan.opposite ? 2 : 1;
}

static int devbp_open(struct vp_devbp **out, const struct vp_bp_job *p, void *packed, void *fixed,
                      struct vp_queue *queue, struct vp_err *err)
{
    int rc = 0;
    (void)fixed;
    *out = NULL;
    pthread_mutex_lock(&like_lock);
    if (like.lost > 0 && --like.good < 0) {
        like.lost--;
        like.memory = like.after ? like.after : like.memory;
        rc = vp_fail(err, VP_ERESOURCE, "memory is gone");
    }
    pthread_mutex_unlock(&like_lock);
    if (rc) {
        usleep(1000 * (useconds_t)like.slow);
        return rc;
    }
    like.made[p->device] += (int)(p->z1 - p->z0);
    struct vp_devbp *b = calloc(1, sizeof *b);
    *b = (struct vp_devbp){.p = *p, .packed = packed, .queue = queue};
    devbp_plan(p, &b->plan, err);
    b->views = calloc((size_t)(p->projections->n_views * p->projections->nu * p->projections->nv), sizeof *b->views);
    b->have = calloc((size_t)p->projections->n_views, sizeof *b->have);
    b->pieces = (int)((end_of(p) - p->z0 + K - 1) / K);
    for (int i = 0; i < b->pieces; i++) {
        b->piece[i].seen = calloc((size_t)p->projections->n_views, sizeof(bool));
        b->piece[i].last = -1;
    }
    pthread_mutex_lock(&like_lock);
    b->next = all_open;
    all_open = b;
    pthread_mutex_unlock(&like_lock);
    *out = b;
    return 0;
}

static void devbp_close(struct vp_devbp *b)
{
    pthread_mutex_lock(&like_lock);
    for (struct vp_devbp **at = &all_open; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    pthread_mutex_unlock(&like_lock);
    for (int i = 0; i < b->pieces; i++)
        free(b->piece[i].seen);
    free(b->views);
    free(b->have);
    free(b);
}

struct pack {
    struct vp_devbp *b;
    int64_t first, n, v0, v1;
    const float *q[2];
};

/* Where a view lies in the slots: its rows v0 ... v1 of the plan. */
static float *packed(const struct vp_devbp *b, int64_t orbit, int half)
{
    const size_t floats = b->plan.slot / sizeof(float);
    return (float *)b->packed + (size_t)(orbit % b->p.slots) * floats
           + (size_t)half * floats / (size_t)views_of(b);
}

static int pack_late(void *arg, struct vp_err *err)
{
    const struct pack *k = arg;
    const struct vp_devbp *b = k->b;
    const int64_t nu = b->p.projections->nu, rows = vp_max64(b->plan.v1 - b->plan.v0, 0);
    (void)err;
    for (int64_t i = 0; i < k->n; i++)
        for (int h = 0; h < 2; h++)
            if (k->q[h])
                memcpy(packed(b, k->first + i, h), k->q[h] + (i * (k->v1 - k->v0) + b->plan.v0 - k->v0) * nu,
                       (size_t)(rows * nu) * sizeof(float));
    return 0;
}

static int devbp_pack(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                      const float *opposite, struct vp_err *err)
{
    (void)err;
    EXPECT(first >= 0 && n > 0 && first + n <= orbits_of(b) && n <= b->p.slots);
    EXPECT(b->plan.v0 >= b->plan.v1 || (v0 <= b->plan.v0 && v1 >= b->plan.v1));
    EXPECT(!opposite || views_of(b) == 2);
    return pretend_call(b->queue, pack_late, &(struct pack){b, first, n, v0, v1, {q, opposite}}, sizeof(struct pack));
}

struct run {
    struct vp_devbp *b;
    int64_t first, n;
    int from, to; /* pieces */
    bool set;
};

static int run_late(void *arg, struct vp_err *err)
{
    const struct run *r = arg;
    struct vp_devbp *b = r->b;
    const size_t row = (size_t)b->p.projections->nu * sizeof(float);
    const int64_t rows = vp_max64(b->plan.v1 - b->plan.v0, 0);
    if (one_in(&like.spoils))
        return vp_fail(err, VP_ERUN, "the device failed: it fell off the bus");
    for (int64_t o = r->first; o < r->first + r->n; o++)
        for (int h = 0; h < views_of(b); h++) {
            const int64_t view = o + h * orbits_of(b);
            float *to = b->views + (view * b->p.projections->nv + (rows ? b->plan.v0 : 0)) * b->p.projections->nu;
            if (!b->have[view])
                memcpy(to, packed(b, o, h), (size_t)rows * row);
            else /* it is still there */
                EXPECT(!memcmp(to, packed(b, o, h), (size_t)rows * row));
            b->have[view] = true;
            for (int i = r->from; i < r->to; i++) {
                EXPECT(!b->piece[i].seen[view]);
                b->piece[i].seen[view] = true;
            }
        }
    for (int i = r->from; i < r->to; i++) {
        EXPECT(r->set == (b->piece[i].n == 0));
        EXPECT(r->first > b->piece[i].last);
        b->piece[i].last = r->first + r->n - 1;
        b->piece[i].n += r->n;
    }
    if (like.rate[b->p.device] > 0)
        like.clock[b->p.device] += (double)(r->n * vp_min64(K * (r->to - r->from), end_of(&b->p) - b->p.z0))
                                   / like.rate[b->p.device];
    return 0;
}

static int devbp_run(struct vp_devbp *b, float *volume, int64_t first, int64_t n, int part, int parts, bool set,
                     struct vp_err *err)
{
    const struct run r = {b, first, n, b->pieces * part / parts, b->pieces * (part + 1) / parts, set};
    (void)err;
    b->parts = parts;
    b->volume = volume;
    EXPECT(n > 0 && n <= b->p.slots && part >= 0 && part < parts && parts <= b->pieces);
    return pretend_call(b->queue, run_late, &r, sizeof r);
}

static int devbp_parts(const struct vp_devbp *b, int most)
{
    return (int)vp_min64(vp_min64(most, b->pieces), dice(1, 7));
}

static int piece_of(const struct vp_devbp *b, int64_t z)
{
    const int64_t k = z >= end_of(&b->p) ? b->p.grid->n[2] - 1 - z : z;
    return (int)((k - b->p.z0) / K);
}

static int devbp_part_of(const struct vp_devbp *b, int64_t z, int parts)
{
    int part = 0;
    while (part < parts - 1 && piece_of(b, z) >= b->pieces * (part + 1) / parts)
        part++;
    return part;
}

static float *slice_of(const struct vp_devbp *b, int64_t z, int64_t *run)
{
    const struct vp_bp_job *p = &b->p;
    const int64_t page = p->grid->n[0] * p->grid->n[1], first = upper_first(p);
    float *volume = b->volume;
    if (z >= p->z0 && z < p->z1) {
        *run = p->z1 - z;
        return volume + (z - p->z0) * page;
    }
    *run = p->grid->n[2] - p->z0 - z;
    return p->mirrored && z >= first && *run > 0 ? volume + (p->z1 - p->z0 + z - first) * page : NULL;
}

/* Slices [z0, z1) of the views that a piece has seen. */
static void make_slices(struct vp_devbp *b, const bool *seen, int64_t z0, int64_t z1)
{
    const struct vp_bp_job *p = &b->p;
    struct vp_err err = VP_ERR_INIT;
    struct vp_backproject *bp;
    int64_t run;
    if (z0 >= z1)
        return;
    const struct vp_projections all = {.views = scene->views, .n_views = p->projections->n_views,
                                       .nu = p->projections->nu, .nv = p->projections->nv};
    const struct vp_bp_job job = {.projections = &all, .grid = &scene->grid, .z0 = z0, .z1 = z1, .threads = 1};
    EXPECT(!vp_backproject_open(&bp, &job, NULL, &err));
    float *voxels = backproject_begin(bp);
    for (int64_t k = 0; k < p->projections->n_views; k++)
        if (seen[k])
            EXPECT(!vp_backproject_add(bp, &(struct vp_batch){k, 1, 0, all.nv, b->views + k * all.nu * all.nv}, &err));
    vp_backproject_end(bp);
    for (int64_t z = z0; z < z1; z++)
        vp_tiles_get(vp_backproject_tiles(bp), voxels, z, 1, 1, slice_of(b, z, &run));
    vp_backproject_close(bp);
    free(voxels);
}

static void make_piece(struct vp_devbp *b, int i)
{
    const struct vp_bp_job *p = &b->p;
    const int64_t lo = p->z0 + K * i, hi = vp_min64(lo + K, end_of(p));
    if (b->piece[i].made == b->piece[i].n)
        return;
    b->piece[i].made = b->piece[i].n;
    make_slices(b, b->piece[i].seen, lo, hi);
    if (folded(p))
        make_slices(b, b->piece[i].seen, vp_max64(p->grid->n[2] - hi, end_of(p)), p->grid->n[2] - lo);
}

/* The slices that are downloaded are made of what was run until now. */
static void make_what_is_read(const struct vp_pitched *from, const int64_t n[3])
{
    const float *first = from->data, *last = (const float *)((const char *)from->data + n[0]) - 1;
    struct vp_devbp *b;
    int64_t run;
    pthread_mutex_lock(&like_lock);
    for (b = all_open; b; b = b->next) {
        const float *volume = b->volume;
        const uint64_t bytes = vp_slab_bytes(b->p.grid, b->p.z0, b->p.z1, b->p.mirrored);
        if (volume && first >= volume && first < volume + bytes / sizeof(float))
            break;
    }
    pthread_mutex_unlock(&like_lock);
    EXPECT(b);
    for (int64_t z = 0; b && z < b->p.grid->n[2]; z++) {
        const float *slice = slice_of(b, z, &run);
        if (slice && slice >= first && slice <= last) {
            const int part = devbp_part_of(b, z, b->parts);
            EXPECT(!like.in_parts || part >= b->part);
            b->part = part;
            make_piece(b, piece_of(b, z));
        }
    }
}

static const struct vp_backproject_kernels backproject = {
    .plan = devbp_plan, .open = devbp_open, .pack = devbp_pack, .run = devbp_run, .parts = devbp_parts,
    .part_of = devbp_part_of, .close = devbp_close,
};

/* ---- the filter ---- */

struct vp_devfilter {
    struct vp_filter *host;
    struct vp_queue *queue;
    const uint64_t *table;
};
static const uint64_t in_table = 0x5ca1ab1e;

static int devfilter_plan(const struct vp_filter *host, int device, struct vp_devfilter_plan *plan, struct vp_err *err)
{
    (void)host, (void)device;
    if (!like.filters)
        return vp_fail(err, VP_ERUN, "rows are too long");
    *plan = (struct vp_devfilter_plan){.kernel = "pretended", .nu_out = scene->geom.nu, .bytes = sizeof in_table};
    return 0;
}

static int devfilter_open(struct vp_devfilter **f, const struct vp_filter *host, int device, void *memory,
                          struct vp_queue *queue, struct vp_err *err)
{
    (void)device, (void)err;
    *f = malloc(sizeof **f);
    **f = (struct vp_devfilter){(struct vp_filter *)(uintptr_t)host, queue, memory};
    memcpy(memory, &in_table, sizeof in_table);
    return 0;
}

struct filtering {
    struct vp_devfilter *f;
    int64_t first, n, v0, v1;
    const float *in;
    float *out;
};

static int filter_late(void *arg, struct vp_err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct filtering *a = arg;
    (void)err;
    EXPECT(*a->f->table == in_table);
    pthread_mutex_lock(&lock);
    vp_filter_rows(a->f->host, a->first, a->n, a->v0, a->v1, a->in, a->out);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int devfilter_run(struct vp_devfilter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                         float *out, struct vp_err *err)
{
    (void)err;
    return pretend_call(f->queue, filter_late, &(struct filtering){f, first, n, v0, v1, in, out},
                        sizeof(struct filtering));
}

static void devfilter_close(struct vp_devfilter *f)
{
    free(f);
}

static const struct vp_filter_kernels filter = {.plan = devfilter_plan, .open = devfilter_open, .run = devfilter_run,
                                                .close = devfilter_close};

/* ---- the devices ---- */

static int device_info(int device, struct vp_device_info *info, struct vp_err *err)
{
    (void)err;
    *info = (struct vp_device_info){.total = like.memory, .free = like.memory - like.less[device],
                                    .speed = like.speed[device]};
    snprintf(info->name, sizeof info->name, "pretended device %d", device);
    return 0;
}

static uint64_t on_device[8];
static struct {
    void *p;
    uint64_t bytes;
} allocated[8][64];

static int device_alloc(int device, uint64_t bytes, void **p, struct vp_err *err)
{
    if (one_in(&like.full))
        return vp_fail(err, VP_ERESOURCE, "no room");
    const int rc = pretend_alloc(device, bytes, p, err);
    pthread_mutex_lock(&like_lock);
    for (int i = 0; i < 64 && !rc; i++)
        if (!allocated[device][i].p) {
            allocated[device][i].p = *p;
            allocated[device][i].bytes = bytes;
            on_device[device] += bytes;
            break;
        }
    EXPECT(!like.limit || on_device[device] <= like.limit);
    pthread_mutex_unlock(&like_lock);
    return rc;
}

static void device_release(int device, void *p)
{
    pthread_mutex_lock(&like_lock);
    for (int i = 0; i < 64; i++)
        if (allocated[device][i].p == p) {
            on_device[device] -= allocated[device][i].bytes;
            allocated[device][i].p = NULL;
        }
    pthread_mutex_unlock(&like_lock);
    pretend_release(device, p);
}

/* Are so many bytes from p on in one buffer? */
static bool held(const void *p, size_t bytes)
{
    bool found = false;
    pthread_mutex_lock(&buffers.lock);
    for (int i = 0; i < buffers.n; i++)
        found |= (const char *)p >= buffers.of[i].p && (const char *)p + bytes <= buffers.of[i].p + buffers.of[i].bytes;
    pthread_mutex_unlock(&buffers.lock);
    return found;
}

static int device_copy(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from,
                       const int64_t n[3], enum vp_way way, struct vp_err *err)
{
    const struct vp_pitched *host = way == VP_UP ? from : to;
    EXPECT(n[2] == 1 && held(host->data, (size_t)((n[1] - 1) * host->row + n[0])));
    if (one_in(way == VP_UP ? &like.breaks : &like.tears))
        return vp_fail(err, VP_ERUN, "the device failed: it fell off the bus");
    return pretend_copy(q, to, from, n, way, err);
}

static double device_clock(int device)
{
    return like.clock[device];
}

static void *host_alloc(size_t bytes)
{
    char *p = malloc(bytes);
    pthread_mutex_lock(&buffers.lock);
    buffers.of[buffers.n].p = p;
    buffers.of[buffers.n++].bytes = bytes;
    buffers.held += bytes;
    buffers.most = buffers.held > buffers.most ? buffers.held : buffers.most;
    pthread_mutex_unlock(&buffers.lock);
    return p;
}

static void host_free(void *p)
{
    int i = 0;
    pthread_mutex_lock(&buffers.lock);
    while (i < buffers.n && buffers.of[i].p != p)
        i++;
    CHECK(i < buffers.n);
    buffers.held -= buffers.of[i].bytes;
    buffers.of[i] = buffers.of[--buffers.n];
    pthread_mutex_unlock(&buffers.lock);
    free(p);
}

static struct vp_backend devices;

static const void *kernels_of(const char *name)
{
    return strcmp(name, "filter") ? (const void *)&backproject : (const void *)&filter;
}

static void make_devices(void)
{
    devices = pretended;
    devices.info = device_info;
    devices.alloc = device_alloc;
    devices.release = device_release;
    devices.copy = device_copy;
    devices.host_alloc = host_alloc;
    devices.host_free = host_free;
    devices.kernels = kernels_of;
    pretend_clock = device_clock;
    pretend_before_down = make_what_is_read;
}

/* ---- scans ---- */

static void write_pages(int64_t nx, int64_t ny, int64_t pages)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {nx, ny, pages, VP_F32, {0, NULL, NULL}};
    const struct vp_writer_options plain = {.compress = VP_COMPRESS_NONE};
    struct vp_writer *w;
    float *page = malloc((size_t)(nx * ny) * sizeof *page);
    uint32_t random = 1;
    CHECK(!vp_writer_open(&w, scan_path, &s, &plain, &err));
    for (int64_t k = 0; k < pages; k++) {
        for (int64_t i = 0; i < nx * ny; i++) {
            random = random * 1664525u + 1013904223u;
            page[i] = (float)(random >> 8) / 16777216.0f;
        }
        CHECK(!vp_writer_page(w, page, &err));
    }
    CHECK(!vp_writer_close(w, &err));
    free(page);
}

static void write_scan(int64_t views)
{
    write_pages(NU, NV, views);
}

static void make_scene(struct scene *s, int64_t views, int64_t slices, double offset_u)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_filter_params ramp = {.cutoff = 1};
    *s = (struct scene){.geom = {.beam = VP_CONE, .sod = 30, .sdd = 45, .nu = NU, .nv = NV, .du = 1.5, .dv = 1.5,
                                 .offset_u = offset_u, .views = views},
                        .grid = {.n = {NX, NY, slices}, .voxel = {1, 1, 1}}};
    s->geom.angle = malloc((size_t)views * sizeof *s->geom.angle);
    for (int64_t k = 0; k < views; k++)
        s->geom.angle[k] = 360.0 * (double)k / (double)views;
    CHECK(!vp_geom_views(&s->geom, &s->views, &s->scan, &err));
    CHECK(!vp_filter_open(&s->filter, &ramp, &s->geom, s->views, &s->scan, 1, &err));
    if (offset_u != 0) {
        vp_filter_widen(s->filter, &s->geom);
        free(s->views);
        CHECK(!vp_geom_views(&s->geom, &s->views, &s->scan, &err));
    }
    scene = s;
}

/* What a device needs at least to make so many slices, where all of them need all rows. */
static uint64_t room(const struct scene *s, int64_t slices)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_plan plan;
    const bool flat = like.flat;
    const struct vp_projections p = {.views = s->views, .n_views = s->geom.views, .nu = s->geom.nu, .nv = NV};
    const struct vp_bp_job job = {.projections = &p, .last = s->geom.views, .grid = &s->grid, .z1 = 1,
                                  .filter = like.filters ? s->filter : NULL,
                                  .in_nu = like.filters ? NU : s->geom.nu, .any_order = true, .device_memory = 1};
    like.flat = true;
    CHECK(!vp_projector_plan(&devices, &job, &plan, &err));
    like.flat = flat;
    return plan.device + (uint64_t)(slices - 1) * NX * NY * sizeof(float);
}

static void free_scene(struct scene *s)
{
    vp_filter_close(s->filter);
    vp_geom_free(&s->geom);
    free(s->views);
}

static struct vp_reconstruct_result result; /* of the last reconstruction, */
static int64_t at_once; /* and the views that its devices work on at once, at least */

/* How a reconstruction is asked for. */
struct ask {
    const struct vp_backend *backend;
    int n_devices;
    uint64_t device_memory;
    enum vp_filter_on filter_on;
    bool any_order;
    int64_t z0, z1; /* 0, 0: all */
    int subsets;
    uint64_t memory; /* 0: much */
    const char *sinograms; /* read from there, not from the scan, */
    const char *pipe;      /* or views from there */
    const struct vp_rates *rates;
};

/* Plan and run; the volume (malloc'd) or NULL with the reason in err. */
static float *reconstruct(struct scene *s, const struct ask *a, struct vp_reconstruct_plan *r, struct vp_err *err)
{
    static const int numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char *const path = a->sinograms ? a->sinograms : a->pipe ? a->pipe : scan_path;
    const struct vp_reader_options plain = {0};
    const struct vp_writer_options stream = {.compress = VP_COMPRESS_NONE};
    const int64_t z1 = a->z1 ? a->z1 : s->grid.n[2];
    struct vp_stack out = {NX, NY, z1 - a->z0, VP_F32, {0, NULL, NULL}};
    struct vp_reader *reader = NULL;
    struct vp_views *source = NULL;
    struct vp_writer *w = NULL;
    float *volume = NULL;

    *r = (struct vp_reconstruct_plan){.of = NULL};
    like.limit = a->device_memory;
    if (vp_reader_open(&reader, &path, 1, &plain, err) || vp_views_open(&source, reader, a->sinograms, 0, err))
        goto out;
    const struct vp_reconstruct job = {.projections = {.views = s->views, .n_views = s->geom.views, .nu = s->geom.nu,
                                                       .nv = NV, .source = source},
                                       .last = s->geom.views, .in_nu = NU,
                                       .filter = s->filter, .filter_on = a->filter_on, .grid = &s->grid, .z0 = a->z0,
                                       .z1 = z1, .memory = a->memory ? a->memory : 1 << 30,
                                       .device_memory = a->device_memory, .threads = 1, .any_order = a->any_order,
                                       .backend = a->backend, .devices = numbers, .n_devices = a->n_devices,
                                       .want_subsets = a->subsets, .rates = a->rates};
    if (vp_reconstruct_plan(r, &job, NULL, err) || vp_writer_open(&w, volume_path, &out, &stream, err))
        goto out;
    at_once = INT64_MAX;
    for (int i = 0; i < r->parts; i++)
        at_once = vp_min64(at_once, r->part[i].plan.batch);
    like.in_parts = a->any_order && r->resident && !like.lost;
    struct vp_volume file = {.grid = &s->grid, .threads = 1, .z0 = a->z0, .writer = w};
    if (vp_reconstruct_run(r, &file, &result, err)) {
        vp_writer_abort(w);
        goto out;
    }
    if (vp_writer_close(w, err))
        goto out;
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    source = NULL;
    reader = NULL;
    const char *const made = volume_path;
    if (vp_reader_open(&reader, &made, 1, &plain, err))
        goto out;
    volume = malloc((size_t)(NX * NY * (z1 - a->z0)) * sizeof *volume);
    for (int64_t z = 0; z < z1 - a->z0; z++)
        CHECK_INT(vp_reader_next_f32(reader, volume + z * NX * NY, err), 1);
out:
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    return volume;
}

static void check_same(struct scene *s, const struct ask *a, const float *want, struct vp_reconstruct_plan *r)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t n = (a->z1 ? a->z1 : s->grid.n[2]) - a->z0;
    const uint64_t memory = a->memory ? a->memory : 1 << 30;
    buffers.most = 0;
    float *got = reconstruct(s, a, r, &err);
    CHECK_STR(err.msg, "");
    CHECK(buffers.most + PROCESS <= memory && r->bytes <= memory);
    CHECK(got && !memcmp(got, want, (size_t)(NX * NY * n) * sizeof *got));
    CHECK_INT(pretend.open, 0);
    CHECK_INT(buffers.n, 0);
    CHECK_INT(like.wrong, 0);
    free(got);
}

/* The volume that all devices have to make. */
static float *by_cpu(struct scene *s)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan r;
    float *volume = reconstruct(s, &(struct ask){.backend = &vp_cpu, .n_devices = 1}, &r, &err);
    CHECK_STR(err.msg, "");
    return volume;
}

/* A scan of 24 views, devices that can do everything, and the volume. */
static float *begin(struct scene *s, int64_t slices, uint64_t memory)
{
    write_scan(24);
    make_scene(s, 24, slices, 0);
    like.memory = memory;
    like.mirror = like.pairs = like.filters = true;
    return by_cpu(s);
}

/* ---- tests ---- */

/* Kernels that take longer than to bring them their views. */
static void be_slow(bool slow)
{
    for (int i = 0; i < 8; i++)
        like.speed[i] = slow ? 0.01 : 0;
}

static void same_bits_whatever_the_devices(void)
{
    static const int64_t slices[] = {1, 2, 7, 16, 33};
    for (int views = 24; views <= 25; views++) {
        write_scan(views);
        for (int i = 0; i < 5; i++) {
            struct scene s;
            struct vp_reconstruct_plan r;
            make_scene(&s, views, slices[i], 0);
            float *want = by_cpu(&s);
            CHECK(want);
            for (int way = 0; way < 64; way++) {
                like.memory = 1 << 30;
                like.mirror = way & 1;
                like.pairs = way & 2 && views % 2 == 0;
                like.filters = true;
                struct ask a = {.backend = &devices, .n_devices = 1 + way % 5, .any_order = way & 4,
                                .filter_on = way & 8 ? VP_FILTER_ON_GPU : VP_FILTER_ON_CPU,
                                .device_memory = way & 16 ? room(&s, 5) : 0};
                be_slow(way & 32);
                check_same(&s, &a, want, &r);
                CHECK(way & 16 || r.resident == ((way & 32) != 0));
                CHECK_INT(r.filter_device, (way & 8) != 0);
                CHECK(r.used <= a.n_devices && (r.passes == 1 || way & 16));
            }
            be_slow(false);
            free(want);
            free_scene(&s);
        }
    }
}

/* Views stay on the device where that pays and there is room for them; slices are then asked for as they are ready, or
 * in order where the output wants that. */
static void slices_that_leave_early(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    float *want = begin(&s, 40, 1 << 30);
    be_slow(true);
    for (int way = 0; way < 16; way++) {
        struct ask a = {.backend = &devices, .n_devices = 1 + way % 4, .any_order = way & 4};
        bool stayed = true;
        uint64_t least = UINT64_MAX;
        like.pairs = way & 8;
        check_same(&s, &a, want, &r);
        CHECK(r.resident && r.passes == 1);
        for (a.device_memory = r.device_bytes; a.device_memory > room(&s, 4); a.device_memory -= a.device_memory / 16) {
            be_slow(false);
            check_same(&s, &a, want, &r);
            CHECK(!r.resident);
            const int64_t before = at_once;
            be_slow(true);
            check_same(&s, &a, want, &r);
            CHECK(!r.resident || stayed); /* less memory, and they stay again? */
            CHECK(!r.resident || at_once >= before); /* runs are not shorter for it */
            CHECK((!r.resident || r.passes == 1) && r.device_bytes <= a.device_memory);
            if (stayed && !r.resident)
                least = a.device_memory;
            stayed = r.resident;
        }
        CHECK(least < 1 << 30);
        /* room for them that has gone when a device is opened: the whole volume in one pass all the same */
        a.device_memory = 0;
        like.after = least;
        like.lost = 1;
        check_same(&s, &a, want, &r);
        CHECK(r.resident && !like.lost);
        CHECK_INT(result.passes, 1);
        like.memory = 1 << 30;
        like.after = 0;
    }
    be_slow(false);
    struct ask a = {.backend = &devices, .n_devices = 1, .any_order = true};
    check_same(&s, &a, want, &r);
    CHECK(!r.resident);
    free(want);
    free_scene(&s);
    /* nor where their memory costs more time than it saves */
    struct vp_rates rates = vp_rates;
    int dear = 0;
    write_scan(64);
    make_scene(&s, 64, 12, 0);
    want = by_cpu(&s);
    be_slow(true);
    like.pairs = false;
    rates.device_alloc = 1;
    for (a.device_memory = room(&s, 12); a.device_memory < room(&s, 12) + 200000; a.device_memory += 10000) {
        a.rates = NULL;
        check_same(&s, &a, want, &r);
        const bool stays = r.resident;
        a.rates = &rates;
        check_same(&s, &a, want, &r);
        dear += stays && !r.resident;
        CHECK(stays || !r.resident);
    }
    CHECK(dear > 0);
    be_slow(false);
    free(want);
    free_scene(&s);
}

static void slabs_of_the_plan(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan r;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 32, 0);
    like.memory = 1 << 30;
    like.mirror = like.pairs = like.filters = true;
    like.flat = true;
    struct ask a = {.backend = &devices, .n_devices = 3, .any_order = true};
    free(reconstruct(&s, &a, &r, &err)); /* 16 slices of a half in steps of 4: two devices of 8 or three of 8, 8, 0 */
    CHECK_INT(r.passes, 1);
    CHECK_INT(r.used, 2);
    CHECK_INT(r.slab, 8);
    CHECK(r.mirrored);
    a.n_devices = 1;
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 32 && r.passes == 1);
    a.device_memory = room(&s, 10); /* 4 pairs of slices are the most, in steps of 4 */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(r.mirrored && r.slab == 4 && r.passes == 4);
    a.device_memory = room(&s, 1); /* room for a slice, but for no pair */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 1 && r.passes == 32);
    a.device_memory = room(&s, 10);
    a.any_order = false; /* to a pipe: slices in order, so 8 of them */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 8 && r.passes == 4);
    a.z0 = 3;
    a.z1 = 20;
    a.device_memory = 0;
    a.n_devices = 4;
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.passes == 1 && r.slab * r.used >= 17);
    CHECK_STR(err.msg, "");
    like.flat = false;
    free_scene(&s);
}

/* The views of the scan that was written. */
static struct vp_views *open_scan(struct vp_reader **reader)
{
    const char *const path = scan_path;
    const struct vp_reader_options plain = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_views *views = NULL;
    CHECK(!vp_reader_open(reader, &path, 1, &plain, &err) && !vp_views_open(&views, *reader, false, 0, &err));
    return views;
}

static bool same_plan(const struct vp_reconstruct_plan *a, const struct vp_reconstruct_plan *b)
{
    bool same = a->made == b->made && a->passes == b->passes && a->batch == b->batch && a->used == b->used
                && a->subsets == b->subsets && a->mirrored == b->mirrored && a->slab == b->slab && a->unit == b->unit
                && a->out_slots == b->out_slots && a->group == b->group && a->bytes == b->bytes
                && a->device_bytes == b->device_bytes && a->parts == b->parts;
    for (int i = 0; i < a->parts && same; i++)
        same = a->part[i].job.device == b->part[i].job.device && a->part[i].job.z0 == b->part[i].job.z0
               && a->part[i].job.z1 == b->part[i].job.z1 && a->part[i].plan.device == b->part[i].plan.device;
    return same;
}

/* What is asked for and what the devices say make a plan, and nothing else: neither how often it is made, nor what was
 * planned before. Plans of all passes together make every slice once. */
static void plans_that_are_made_twice(void)
{
    static const int numbers[] = {0, 1, 2};
    static const double took[] = {3, 1, 2};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *reader = NULL;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 61, 0);
    like.memory = 1 << 30;
    like.pairs = like.filters = true;
    struct vp_views *const source = open_scan(&reader);
    for (int way = 0; way < 32; way++) {
        like.mirror = way & 1;
        const struct vp_reconstruct r = {.projections = {.views = s.views, .n_views = 24, .nu = NU, .nv = NV,
                                                         .source = source},
        .last = 24, .in_nu = NU, .filter = s.filter, .grid = &s.grid, .z1 = 61,
                                         .memory = 1 << 30, .device_memory = room(&s, 3 + way), .threads = 1,
                                         .any_order = way & 2, .backend = &devices, .devices = numbers,
                                         .n_devices = 1 + way % 3};
        struct vp_reconstruct_plan now, next, again;
        char made[61] = {0};
        CHECK(!vp_reconstruct_plan(&now, &r, NULL, &err));
        for (;;) {
            for (int i = 0; i < now.parts; i++)
                for (int64_t z = now.part[i].job.z0; z < now.part[i].job.z1; z++) {
                    made[z]++;
                    made[60 - z] += now.mirrored && z != 30;
                }
            const struct vp_reconstruct_done done = {.plan = &now, .made = now.part[now.parts - 1].job.z1,
                                                     .took = way & 4 ? took : NULL, .shortage = way & 8};
            if (done.made >= (now.mirrored ? 31 : 61))
                break;
            CHECK(!vp_reconstruct_plan(&next, &r, &done, &err) && !vp_reconstruct_plan(&again, &r, &done, &err));
            CHECK(same_plan(&next, &again));
            now = next;
        }
        for (int z = 0; z < 61; z++)
            CHECK_INT(made[z], 1);
        CHECK(!vp_reconstruct_plan(&next, &r, NULL, &err) && !vp_reconstruct_plan(&again, &r, NULL, &err));
        CHECK(same_plan(&next, &again));
    }
    CHECK_STR(err.msg, "");
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    free_scene(&s);
}

static void memory_that_goes_away(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan r;
    struct scene s;
    struct ask a;
    float *want = begin(&s, 16, 1 << 30);
    a = (struct ask){.backend = &devices, .n_devices = 2, .any_order = true};
    int found = 0;
    like.lost = 1; /* planned again */
    check_same(&s, &a, want, &r);
    for (int good = 1; good < 8; good++) { /* in a later pass, or on the second device */
        struct ask small = a;
        small.device_memory = room(&s, good % 2 ? 2 : 4);
        small.any_order = good % 3;
        like.lost = 1;
        like.good = good;
        check_same(&s, &small, want, &r);
        found += like.lost == 0;
        like.lost = 0;
    }
    CHECK(found >= 3);
    for (int n = 1; n < 16; n++) { /* in the middle of a slab */
        a.filter_on = n % 2 ? VP_FILTER_ON_GPU : VP_FILTER_ON_CPU;
        like.full = n;
        check_same(&s, &a, want, &r);
    }
    CHECK(like.full > 0);
    like.full = 0;
    like.good = 0;
    like.lost = 100;
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK_INT(pretend.open, 0);
    like.lost = 0;
    err = (struct vp_err)VP_ERR_INIT;
    a.device_memory = NX * NY; /* a quarter of a slice */
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "the device has"));
    free(want);
    free_scene(&s);
}

/* Slabs of a later pass that are planned anew: what is read into and copied from is large enough for the passes after
 * that one, and all of it within the memory. */
static void memory_that_goes_away_later(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    int found = 0;
    like.flat = true;
    float *want = begin(&s, 12, 1 << 30);
    for (int way = 0; way < 48; way++) {
        struct ask a = {.backend = &devices, .n_devices = 1 + way % 2, .any_order = way & 4, .z0 = way & 8 ? 6 : 0,
                        .z1 = 12, .device_memory = room(&s, 1 + way / 16),
                        .memory = PROCESS + 65536 * (1 + (uint64_t)way % 7)};
        like.good = 1 + way % 5;
        like.lost = 1;
        check_same(&s, &a, want + a.z0 * NX * NY, &r);
        found += like.lost == 0;
        like.lost = 0;
    }
    CHECK(found >= 24);
    like.flat = false;
    free(want);
    free_scene(&s);
    /* slices that wait for the writer keep their memory, though thinner slabs alone would leave room for more views */
    write_scan(400);
    make_scene(&s, 400, 320, 0);
    want = by_cpu(&s);
    for (uint64_t kib = 550; kib < 750; kib += 100) {
        struct ask a = {.backend = &devices, .n_devices = 1, .memory = PROCESS + (kib << 10)};
        like.memory = room(&s, 200);
        like.after = room(&s, 5);
        like.good = 1;
        like.lost = 1;
        check_same(&s, &a, want, &r);
        CHECK(!like.lost && result.passes > 10);
    }
    like.after = 0;
    free(want);
    free_scene(&s);
}

/* A slab of a later pass that sees more rows, and takes more than the device may use: a thinner one. */
static void slabs_that_take_more(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    like.row = 1000;
    float *want = begin(&s, 12, 1 << 30);
    for (uint64_t bytes = room(&s, 1); bytes < room(&s, 8); bytes += 500) {
        struct ask a = {.backend = &devices, .n_devices = 1, .z0 = 6, .z1 = 12, .device_memory = bytes};
        check_same(&s, &a, want + a.z0 * NX * NY, &r);
    }
    like.row = 0;
    free(want);
    free_scene(&s);
}

/* Into a pipe: the second half when a device was found to have lost its memory. Not NULL if all went well. */
static void *feed(void *fd)
{
    char bytes[1 << 16];
    const int to = *(int *)fd;
    FILE *f = fopen(scan_path, "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    bool good = n > 0 && n < sizeof bytes && !fclose(f) && write(to, bytes, n / 2) == (ssize_t)(n / 2);
    for (int i = 0; like.lost && i < 5000; i++)
        usleep(1000);
    usleep(20000);
    good = good && write(to, bytes + n / 2, n - n / 2) == (ssize_t)(n - n / 2);
    close(to);
    return good ? fd : NULL;
}

/* Sinograms from a pipe are held, and read while the devices allocate: to plan anew must not lose them. */
static void memory_that_goes_away_while_a_pipe_is_read(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan r;
    struct scene s;
    pthread_t feeder;
    char path[32];
    int fd[2];
    write_pages(NU, 24, NV);
    make_scene(&s, 24, 12, 0);
    like.memory = 1 << 30;
    like.mirror = like.pairs = like.filters = true;
    struct ask a = {.backend = &vp_cpu, .n_devices = 1, .sinograms = scan_path};
    float *want = reconstruct(&s, &a, &r, &err);
    CHECK(want && !pipe2(fd, O_CLOEXEC));
    snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
    a = (struct ask){.backend = &devices, .n_devices = 1, .sinograms = path};
    like.good = 0;
    like.lost = 1;
    like.slow = 20; /* the reader is at work by then */
    CHECK(!pthread_create(&feeder, NULL, feed, &fd[1]));
    check_same(&s, &a, want, &r);
    void *fed = NULL;
    CHECK(!pthread_join(feeder, &fed) && fed);
    close(fd[0]);
    like.slow = 0;
    free(want);
    free_scene(&s);
}

/* Views that come one after the other: pairs wait on the device for their partners, or go alone. */
static void views_from_a_pipe(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    pthread_t feeder;
    char path[32];
    int fd[2];
    float *want = begin(&s, 16, 1 << 30);
    for (int way = 0; way < 6; way++) {
        struct ask a = {.backend = &devices, .n_devices = 1 + way % 2, .pipe = path,
                        .device_memory = way < 4 ? 0 : room(&s, 16)};
        void *fed = NULL;
        like.filters = way % 3;
        CHECK(!pipe2(fd, O_CLOEXEC));
        snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
        CHECK(!pthread_create(&feeder, NULL, feed, &fd[1]));
        check_same(&s, &a, want, &r);
        CHECK(!pthread_join(feeder, &fed) && fed);
        close(fd[0]);
    }
    free(want);
    free_scene(&s);
}

/* On the CPU, whose slab in the middle of the volume takes more than the first: what is enough memory stays enough. */
static void more_memory_is_never_too_little(void)
{
    static const int numbers[] = {0};
    struct vp_reader *reader = NULL;
    struct scene s;
    int64_t passes = 0;
    write_scan(24);
    make_scene(&s, 24, 200, 0);
    s.grid.n[0] = s.grid.n[1] = 200;
    s.grid.voxel[0] = s.grid.voxel[1] = s.grid.voxel[2] = 0.06;
    struct vp_views *const source = open_scan(&reader);
    for (uint64_t mib = 8; mib < 80; mib++) {
        struct vp_reconstruct_plan p;
        struct vp_reconstruct r = {.projections = {.views = s.views, .n_views = 24, .nu = NU, .nv = NV,
                                                   .source = source},
        .last = 24, .in_nu = NU, .grid = &s.grid, .z1 = 200, .memory = mib << 20, .threads = 2,
                                   .backend = &vp_cpu, .devices = numbers, .n_devices = 1};
        struct vp_err why = VP_ERR_INIT;
        if (!vp_reconstruct_plan(&p, &r, NULL, &why)) {
            CHECK(!passes || p.passes <= passes);
            passes = p.passes;
        } else {
            CHECK_INT(passes, 0);
        }
    }
    CHECK_INT(passes, 1);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    free_scene(&s);
}

/* Relative L2 of the difference. */
static double apart(const float *a, const float *b, int64_t n)
{
    double d = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        sum += (double)b[i] * b[i];
    }
    return sqrt(d / sum);
}

/* Subsets of the views, whose volumes are added: the same bits for one number of subsets, whatever the slabs, and close
 * to those of all views together. */
static void subsets_of_views(void)
{
    static const int64_t slices[] = {1, 7, 16};
    like.memory = 1 << 30;
    like.mirror = like.filters = true;
    for (int views = 24; views <= 25; views++) {
        write_scan(views);
        like.pairs = views == 24;
        for (int i = 0; i < 3; i++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_reconstruct_plan r;
            struct scene s;
            const int64_t n = NX * NY * slices[i];
            make_scene(&s, views, slices[i], 0);
            float *all = by_cpu(&s);
            for (int subsets = 2; subsets <= 4; subsets++) {
                struct ask a = {.backend = &devices, .n_devices = subsets, .any_order = true, .subsets = subsets,
                                .filter_on = VP_FILTER_ON_GPU};
                float *want = reconstruct(&s, &a, &r, &err);
                CHECK_STR(err.msg, "");
                CHECK_INT(r.subsets, subsets);
                CHECK_INT(r.used, subsets);
                CHECK(want && apart(want, all, n) < 3e-7 && memcmp(want, all, (size_t)n * sizeof *want));
                for (a.n_devices = subsets; a.n_devices <= 8; a.n_devices += 2) {
                    a.any_order = a.n_devices % 4;
                    a.device_memory = a.n_devices % 3 ? 0 : room(&s, 3);
                    check_same(&s, &a, want, &r);
                    CHECK(r.used % subsets == 0 && (r.passes == 1 || a.device_memory));
                }
                free(want);
            }
            free(all);
            free_scene(&s);
        }
    }
}

static void subsets_only_where_they_pay(void)
{
    static const int numbers[] = {0, 1, 2, 3};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *reader = NULL;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 1, 0);
    like.memory = (uint64_t)1 << 31;
    like.mirror = like.filters = like.pairs = true;
    struct vp_views *const source = open_scan(&reader);
    for (int slow = 0; slow < 2; slow++)
        for (int64_t slices = 1; slices <= 64; slices *= 64) {
            for (int i = 0; i < 4; i++)
                like.speed[i] = slow ? 0.1 : 0;
            s.grid.n[0] = s.grid.n[1] = slices == 1 ? 16384 : 2048;
            s.grid.n[2] = slices;
            struct vp_reconstruct_plan p;
            struct vp_reconstruct r = {.projections = {.views = s.views, .n_views = 24, .nu = NU, .nv = NV,
                                                       .source = source},
                                       .last = 24, .in_nu = NU, .grid = &s.grid, .z1 = slices, .memory = (uint64_t)1 << 36,
                                       .threads = 1, .backend = &devices, .devices = numbers, .n_devices = 4};
            CHECK(!vp_reconstruct_plan(&p, &r, NULL, &err));
            CHECK_STR(err.msg, "");
            /* one slice is too thin to be cut; 64 give every device a slab; and what is done at once needs nothing */
            CHECK_INT(p.subsets, slow && slices == 1 ? 4 : 1);
            CHECK_INT(p.used, slices == 1 && !slow ? 1 : 4);
            r.last = 3; /* too few views */
            CHECK(!vp_reconstruct_plan(&p, &r, NULL, &err));
            CHECK_INT(p.subsets, 1);
        }
    struct vp_reconstruct_plan r;
    struct ask a = {.backend = &devices, .n_devices = 2, .subsets = 3};
    free_scene(&s);
    make_scene(&s, 24, 1, 0);
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK_STR(err.msg, "3 subsets of the views need a GPU each, there are 2");
    memset(like.speed, 0, sizeof like.speed);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    free_scene(&s);
}

static void shares(void)
{
    struct vp_device_group even[4] = {{.speed = 2, .most = 100}, {.speed = 2, .most = 100}, {.speed = 2, .most = 100},
                              {.speed = 2, .most = 100}};
    CHECK_INT(vp_device_groups_share(even, 4, 100, 8), 0); /* 13 units */
    CHECK(even[0].depth == 32 && even[1].depth == 32 && even[2].depth == 32 && even[3].depth == 8);
    CHECK_INT(vp_device_groups_share(even, 4, 5, 8), 0);
    CHECK(even[0].depth == 8 && even[1].depth == 0 && even[3].depth == 0);
    struct vp_device_group odd[3] = {{.speed = 1, .most = 1000}, {.speed = 3, .most = 1000},
                                     {.speed = 2, .most = 1000}};
    CHECK_INT(vp_device_groups_share(odd, 3, 96, 16), 0);
    CHECK(odd[0].depth == 16 && odd[1].depth == 48 && odd[2].depth == 32);
    odd[1].most = 20;
    CHECK_INT(vp_device_groups_share(odd, 3, 96, 16), 0);
    CHECK(odd[0].depth == 32 && odd[1].depth == 16 && odd[2].depth == 48);
    odd[0].most = odd[2].most = 20;
    CHECK_INT(vp_device_groups_share(odd, 3, 96, 16), 3);
    CHECK(odd[0].depth == 16 && odd[1].depth == 16 && odd[2].depth == 16);
    odd[0].most = 0;
    CHECK_INT(vp_device_groups_share(odd, 3, 16, 16), 0);
    CHECK(odd[0].depth == 0 && odd[1].depth + odd[2].depth == 16);
    /* against every way to cut: none is done earlier */
    for (int k = 0; k < 500; k++) {
        struct vp_device_group c[3];
        const int64_t slices = 1 + k * 7 % 41, unit = 1 + k % 3;
        int64_t room = 0;
        for (int i = 0; i < 3; i++) {
            c[i] = (struct vp_device_group){.speed = 1 + (k * 5 + i * 11) % 7, .most = (k * 13 + i * 17) % 40};
            room += c[i].most >= slices ? (slices + unit - 1) / unit : c[i].most / unit;
        }
        const int64_t steps = (slices + unit - 1) / unit, left = vp_device_groups_share(c, 3, slices, unit);
        CHECK_INT(left, steps > room ? steps - room : 0);
        double time = 0, best = 1e9;
        for (int i = 0; i < 3; i++) {
            CHECK(c[i].depth % unit == 0 && (c[i].depth <= c[i].most || c[i].most >= slices));
            time = fmax(time, (double)(c[i].depth / unit) / c[i].speed);
        }
        for (int64_t a = 0; a <= steps; a++)
            for (int64_t b = 0; a + b <= steps; b++) {
                const int64_t n[3] = {a, b, steps - left - a - b};
                double t = n[2] < 0 ? 1e9 : 0;
                for (int i = 0; i < 3; i++) {
                    const int64_t most = c[i].most >= slices ? steps : c[i].most / unit;
                    t = n[i] > most ? 1e9 : fmax(t, (double)n[i] / c[i].speed);
                }
                best = fmin(best, t);
            }
        CHECK_NEAR(time, best, 1e-9);
    }
}

static void unequal_devices(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    struct ask a;
    float *want = begin(&s, 32, 1 << 20);
    for (int way = 0; way < 64; way++) {
        for (int i = 0; i < 3; i++) {
            like.speed[i] = 1 + way * (i + 1) % 5;
            like.rate[i] = way & 16 ? 1 + way * (i + 2) % 7 : 0;
            like.less[i] = way & 8 ? like.memory - room(&s, 4 + (way * (i + 2)) % 13) : 0;
        }
        a = (struct ask){.backend = &devices, .n_devices = 3, .any_order = way & 1};
        check_same(&s, &a, want, &r);
    }
    memset(like.speed, 0, sizeof like.speed);
    memset(like.rate, 0, sizeof like.rate);
    /* one has little memory left: from a pipe too, the others make up for it */
    memset(like.less, 0, sizeof like.less);
    like.less[1] = like.memory - room(&s, 5);
    check_same(&s, &a, want, &r);
    CHECK_INT(r.passes, 1);
    memset(like.less, 0, sizeof like.less);
    free(want);
    free_scene(&s);
}

/* Devices that are not what they say: the second pass of two is shared out by what they did in the first. */
static void shares_of_what_was_measured(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 40, 0);
    like.mirror = like.pairs = false;
    like.filters = like.flat = true;
    like.memory = room(&s, 12);
    struct ask a;
    float *want = by_cpu(&s);
    for (int fast = -1; fast < 3; fast++) {
        for (int i = 0; i < 3; i++) {
            like.rate[i] = fast < 0 ? 0 : i == fast ? 8 : 2;
            like.made[i] = 0;
        }
        a = (struct ask){.backend = &devices, .n_devices = 3};
        check_same(&s, &a, want, &r);
        CHECK_INT(r.passes, 2);
        /* 8, 8 and 4; then the same, or 12 for the fast one and 4 for the others */
        for (int i = 0; i < 3; i++)
            CHECK_INT(like.made[i], (i < 2 ? 8 : 4) + (fast < 0 ? (i < 2 ? 8 : 4) : i == fast ? 12 : 4));
    }
    memset(like.rate, 0, sizeof like.rate);
    like.flat = false;
    free(want);
    free_scene(&s);
}

/* A device that fails in the middle: one error, everything closed, nobody left waiting. */
static void device_that_breaks(void)
{
    struct vp_reconstruct_plan r;
    struct scene s;
    write_scan(240);
    make_scene(&s, 240, 16, 0);
    like.memory = 1 << 30;
    like.mirror = like.pairs = like.filters = true;
    for (int n = 1; n < 60; n += 1 + n / 4) {
        struct vp_err err = VP_ERR_INIT;
        struct ask a = {.backend = &devices, .n_devices = 1 + n % 3, .any_order = true,
                        .device_memory = n % 2 ? 0 : room(&s, 6)};
        a.subsets = n % 5 == 0 && a.n_devices > 1 ? 2 : 0;
        like.breaks = n % 2 ? 1 + n % 29 : 0;
        like.tears = n % 4 == 0 ? 1 + n % 3 : 0;
        like.spoils = n % 4 == 2 ? 1 + n % 5 : 0;
        CHECK(!reconstruct(&s, &a, &r, &err));
        CHECK_STR(err.msg, "the device failed: it fell off the bus");
        CHECK_INT(err.code, VP_ERUN);
        CHECK_INT(pretend.open, 0);
    }
    like.breaks = like.tears = like.spoils = 0;
    free_scene(&s);
}

static void rows_that_a_device_cannot_filter(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan r;
    struct scene s;
    write_scan(24);
    like.memory = 1 << 30;
    like.mirror = like.pairs = true;
    make_scene(&s, 24, 16, 6); /* wider when filtered */
    struct ask a;
    float *want = by_cpu(&s);
    for (int filters = 0; filters < 2; filters++) {
        like.filters = filters;
        a = (struct ask){.backend = &devices, .n_devices = 2, .filter_on = VP_FILTER_ON_AUTO};
        check_same(&s, &a, want, &r);
        CHECK_INT(r.filter_device, filters);
    }
    like.filters = false;
    a.filter_on = VP_FILTER_ON_GPU;
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_STR(err.msg, "rows are too long");
    free(want);
    free_scene(&s);
}

/* ---- several processes ---- */

struct grid_run {
    struct scene *scene;
    const struct vp_backend *backend;
    struct vp_mesh mesh;
    enum vp_filter_on filter_on;
    int64_t pair;
    struct vp_writer *writer;
    bool may_fail;
    atomic_int failed, shortages; /* ranks */
    float *left[RANKS_MOST][3];   /* what their messages may still need then */
};

/* One rank of a grid, as app/ranked.c has it work. */
static void be_rank(struct vp_ranks *ranks, void *arg)
{
    struct grid_run *g = arg;
    const struct scene *s = g->scene;
    const struct vp_mesh *m = &g->mesh;
    const char *const path = scan_path;
    const int row = ranks->rank % m->rows, device[] = {ranks->rank};
    struct vp_reader *reader;
    struct vp_views *source;
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct_plan p;
    struct vp_reconstruct_result done;
    struct vp_reconstruct job, whole;
    struct vp_sharing sharing;
    struct vp_adding adding;
    struct vp_filter *own; /* has memory of its own to work in */
    int64_t rows[8][2], mine[2], all[RANKS_MOST][2];

    CHECK(!vp_filter_open(&own, &(struct vp_filter_params){.cutoff = 1}, &s->geom, s->views, &s->scan, 1, &err));
    CHECK(!vp_reader_open(&reader, &path, 1, &(struct vp_reader_options){0}, &err));
    CHECK(!vp_views_open(&source, reader, false, 0, &err));
    struct vp_volume sum = {.grid = &s->grid, .put = vp_adding_put, .ctx = &adding, .any_order = m->columns == 1};
    job = whole = (struct vp_reconstruct){
        .projections = {.views = s->views, .n_views = s->geom.views, .nu = s->geom.nu, .nv = NV, .source = source},
        .last = s->geom.views, .in_nu = NU, .filter = own, .filter_on = g->filter_on, .grid = &s->grid, .z1 = s->grid.n[2], .memory = 1 << 30,
        .threads = 1, .backend = g->backend, .devices = device, .n_devices = 1, .want_subsets = 1};
    const struct vp_mesh_problem problem = {.of = &whole, .sample_bytes = 4, .ranks = ranks->size, .hosts = 1,
                                            .unit = m->half ? K : 1, .mirror = m->half, .pair = g->pair};
    job.ranks = ranks;
    job.half = m->half;
    job.column = ranks->rank / m->rows;
    job.columns = m->columns;
    job.projections.read = m->gather ? vp_sharing_read : NULL;
    job.projections.ctx = &sharing;
    CHECK(vp_mesh_slab(&problem, m, row, &job.z0, &job.z1));
    if (vp_reconstruct_plan(&p, &job, NULL, &err)) {
        CHECK_STR(err.msg, "");
        return;
    }
    CHECK_INT(p.passes, 1);
    mine[0] = NV;
    mine[1] = 0;
    for (int i = 0; i < p.parts; i++) {
        mine[0] = vp_min64(mine[0], p.part[i].plan.v0);
        mine[1] = vp_max64(mine[1], p.part[i].plan.v1);
    }
    CHECK(!vp_ranks_gather(ranks, mine, sizeof mine, all, &err));
    for (int i = 0; i < m->rows; i++)
        memcpy(rows[i], all[job.column * m->rows + i], sizeof rows[i]);
    sharing = (struct vp_sharing){.ranks = ranks, .of = &job, .filter = !p.filter_device,
                                  .first = job.column * m->rows, .n = m->rows, .it = row,
                                  .rows = (const int64_t (*)[2])rows};
    adding = (struct vp_adding){.ranks = ranks, .of = &job, .row = row, .rows = m->rows, .columns = m->columns,
                                .it = job.column, .writer = g->writer, .group = p.group};
    int rc = vp_reconstruct_run(&p, &sum, &done, &err);
    if (!rc && m->gather)
        rc = vp_sharing_finish(&sharing, &err);
    if (rc)
        vp_ranks_stop(ranks);
    if (!g->may_fail)
        CHECK_STR(err.msg, "");
    g->failed += rc != 0;
    g->shortages += err.code == VP_ERESOURCE;
    if (m->gather)
        CHECK_INT(sharing.bad, 0);
    vp_sharing_free(&sharing, !rc);
    vp_adding_free(&adding, !rc);
    float *const left[] = {sharing.own[0], sharing.own[1], adding.partial};
    memcpy(g->left[ranks->rank], left, rc ? sizeof left : 0);
    vp_filter_close(own);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
}

static float *by_ranks(struct grid_run *g)
{
    const struct vp_writer_options plain = {.compress = VP_COMPRESS_NONE};
    struct vp_stack out = {NX, NY, g->scene->grid.n[2], VP_F32, {0, NULL, NULL}};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *reader;
    const char *const made = volume_path;
    CHECK(!vp_writer_open(&g->writer, volume_path, &out, &plain, &err));
    ranks_run(g->mesh.rows * g->mesh.columns, 2, be_rank, g, false);
    CHECK(!g->failed && !vp_writer_close(g->writer, &err));
    CHECK_STR(err.msg, "");
    float *volume = malloc((size_t)(NX * NY * out.pages) * sizeof *volume);
    CHECK(!vp_reader_open(&reader, &made, 1, &(struct vp_reader_options){0}, &err));
    for (int64_t z = 0; z < out.pages; z++)
        CHECK_INT(vp_reader_next_f32(reader, volume + z * NX * NY, &err), 1);
    vp_reader_close(reader, NULL);
    return volume;
}

/* Where only slabs are split the bits of one process; the bits of as many subsets in one process where views are, too;
 * whether views are shared or each rank reads what it needs; with mirrored slabs and without. */
static void grids_of_ranks(void)
{
    static const int grid[][2] = {{2, 1}, {3, 1}, {5, 1}, {1, 2}, {2, 2}, {3, 2}, {2, 3}, {1, 4}};
    struct scene s;
    struct vp_reconstruct_plan r;
    struct vp_err err = VP_ERR_INIT;
    uint64_t shared = 0, whole = 0;
    float *one = begin(&s, 40, 1 << 30), *subsets[5] = {NULL};
    for (int c = 2; c <= 4; c++)
        subsets[c] = reconstruct(&s, &(struct ask){.backend = &devices, .n_devices = c, .any_order = true,
                                                   .subsets = c}, &r, &err);
    CHECK_STR(err.msg, "");
    for (size_t i = 0; i < sizeof grid / sizeof *grid; i++)
        for (int way = 0; way < 16; way++) {
            struct grid_run g = {.scene = &s, .backend = way & 1 ? &devices : &vp_cpu,
                                 .mesh = {.rows = grid[i][0], .columns = grid[i][1], .half = way & 2 && way & 1,
                                          .gather = way & 4 && grid[i][0] > 1},
                                 .filter_on = way & 8 && way & 1 ? VP_FILTER_ON_GPU : VP_FILTER_ON_CPU,
                                 .pair = way & 1 ? 12 : 0};
            be_slow(way & 8); /* all views stay where they are */
            float *got = by_ranks(&g), *again = by_ranks(&g);
            const float *want = grid[i][1] == 1 ? one : subsets[grid[i][1]];
            const size_t bytes = (size_t)(NX * NY * 40) * sizeof *got;
            CHECK(!memcmp(got, again, bytes));
            if (grid[i][1] == 1 || way & 1)
                CHECK(!memcmp(got, want, bytes));
            for (int64_t k = 0; k < NX * NY * 40; k++)
                if (fabsf(got[k] - want[k]) > 2e-5f) {
                    CHECK(fabsf(got[k] - want[k]) <= 2e-5f);
                    break;
                }
            if (grid[i][0] == 5 && way == 4) {
                shared = ranks_world.bytes[VP_LANE_VIEWS];
                whole = (uint64_t)24 * NU * NV * sizeof(float) * 4; /* to every rank what it has not read */
            }
            free(got);
            free(again);
        }
    CHECK(shared > 0 && shared < whole); /* ranks take the rows that their slabs need */
    CHECK_INT(like.wrong, 0);
    CHECK_INT(buffers.n, 0);
    be_slow(false);
    for (int c = 2; c <= 4; c++)
        free(subsets[c]);
    free(one);
    free_scene(&s);
}

/* Ranks that all have to fail. What they gave up to wait for may still come: their buffers are there, so many. */
static int fail_by_ranks(struct grid_run *g)
{
    const struct vp_writer_options plain = {.compress = VP_COMPRESS_NONE};
    struct vp_stack out = {NX, NY, g->scene->grid.n[2], VP_F32, {0, NULL, NULL}};
    struct vp_err err = VP_ERR_INIT;
    g->may_fail = true;
    CHECK(!vp_writer_open(&g->writer, volume_path, &out, &plain, &err));
    ranks_run(g->mesh.rows * g->mesh.columns, 2, be_rank, g, true);
    vp_writer_abort(g->writer);
    const int kept = buffers.n;
    for (int i = 0; i < RANKS_MOST; i++)
        for (int k = 0; k < 3; k++)
            free(g->left[i][k]);
    while (buffers.n > 0)
        host_free(buffers.of[0].p);
    CHECK_INT(like.wrong, 0);
    CHECK_INT(pretend.open, 0);
    return kept;
}

/* A device that has lost its memory: what ranks have agreed on does not change, so where one waits for another all
 * fail; where each makes its slab by itself, it makes it in more passes. */
static void memory_that_goes_away_from_a_rank(void)
{
    struct scene s;
    float *want = begin(&s, 40, 1 << 30);
    const uint64_t few = room(&s, 3);
    int kept = 0;
    for (int way = 0; way < 8; way++) {
        const bool subsets = way & 1, gather = way & 2;
        struct grid_run g = {.scene = &s, .backend = &devices, .pair = 12, .filter_on = VP_FILTER_ON_CPU,
                             .mesh = {.rows = subsets ? 1 : 2, .columns = subsets ? 2 : 1, .half = way & 4,
                                      .gather = gather && !subsets}};
        like.memory = 1 << 30;
        like.after = few;
        like.lost = 1;
        if (subsets || gather) {
            kept += fail_by_ranks(&g);
            /* who had all views of the other before that failed makes its own slab: it hears of it when they agree */
            CHECK(g.failed == 2 || (!subsets && g.failed == 1));
            CHECK(g.shortages >= 1); /* who looks late finds what is left, too */
        } else {
            float *got = by_ranks(&g);
            CHECK(!memcmp(got, want, (size_t)(NX * NY * 40) * sizeof *got));
            free(got);
        }
        CHECK_INT(like.lost, 0);
    }
    CHECK(kept > 0); /* of one way it may be none, when both fail before they have any */
    like.after = 0;
    free(want);
    free_scene(&s);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    make_devices();
    snprintf(scan_path, sizeof scan_path, "%s/scan.tif", dir);
    snprintf(volume_path, sizeof volume_path, "%s/volume.tif", dir);
    same_bits_whatever_the_devices();
    slices_that_leave_early();
    slabs_of_the_plan();
    plans_that_are_made_twice();
    memory_that_goes_away();
    memory_that_goes_away_later();
    memory_that_goes_away_while_a_pipe_is_read();
    views_from_a_pipe();
    slabs_that_take_more();
    more_memory_is_never_too_little();
    rows_that_a_device_cannot_filter();
    shares();
    unequal_devices();
    shares_of_what_was_measured();
    subsets_of_views();
    subsets_only_where_they_pay();
    device_that_breaks();
    grids_of_ranks();
    memory_that_goes_away_from_a_rank();
    unlink(scan_path);
    unlink(volume_path);
    rmdir(dir);
    return test_done();
}
