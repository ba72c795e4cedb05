/* SPDX-License-Identifier: BSD-3-Clause */
/* Pretended devices for tests: device memory full of rubbish, and queues that run as late as the rules allow. Queued
 * work is executed when it is waited for, or at random before, so that code that forgets to wait reads rubbish. Kernels
 * are the operations' own CPU code, on copies. */
#pragma once

#include "base/err.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/device.h"
#include "engine/chain.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local uint64_t dice_state = 88172645463325252u;

static uint64_t next_of(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static uint64_t next_random(void)
{
    return next_of(&dice_state);
}

static inline int64_t dice(int64_t lo, int64_t hi) /* inclusive */
{
    return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1));
}

/* True once in n times. Independent of dice(), whose sequence must not depend on the timing of threads. */
static bool chance(unsigned n)
{
    static _Thread_local uint64_t own = 1442695040888963407u;
    return next_of(&own) % n == 0;
}

enum { PRETEND_DEVICES = 32 };

static struct {
    int open, refuse, most_open; /* open allocations; number of allocations to refuse; largest number of open ones */
    uint64_t last;               /* bytes of the last allocation */
    int64_t launched, fail_at;   /* number of launches, and of the one that fails */
    bool late;                   /* the launch succeeds but its work fails */
    int shortages;               /* number of random shortages of memory still to come */
    bool tables;                 /* kernels have a table that takes time to compute */
    bool no_tables;              /* computing it fails */
    int64_t widest;              /* largest pitch of all copies of several rows */
} pretend;
static pthread_mutex_t pretend_lock = PTHREAD_MUTEX_INITIALIZER;   /* protects `pretend` */
static pthread_mutex_t device_lock[PRETEND_DEVICES];               /* protect the queues and events of a device */
static pthread_once_t pretend_once = PTHREAD_ONCE_INIT;
/* Clock of a device, for tests in which downloads complete at a given time. */
static double (*pretend_clock)(int device);
static void (*pretend_before_down)(const struct vp_pitched *from, const int64_t n[3]);

struct vp_event {
    int device;
    int64_t marks, passed; /* records queued and executed */
    struct vp_queue *by;   /* queue of the last record */
    struct vp_err err;     /* error of the work before its record */
    double when;
};

struct task {
    enum { COPY, MARK, AFTER, LAUNCH, CALL } what;
    struct vp_pitched to, from;
    int64_t n[3];
    enum vp_way way;
    int (*call)(void *arg, struct vp_err *err);
    void *arg;
    struct vp_event *event;
    int64_t want;          /* record of the event to wait for */
    const struct vp_op *op;
    enum vp_pass pass;
    void *state;
    const uint64_t *table;
    bool fails;
    struct vp_area in[VP_MAX_INPUTS], out[2];
    struct task *next;
};

struct vp_queue {
    int device;
    struct task *first, *last;
    struct vp_err err;     /* error of work executed late */
};

static void make_locks(void)
{
    for (int i = 0; i < PRETEND_DEVICES; i++)
        pthread_mutex_init(&device_lock[i], NULL);
}

static void lock_device(int device)
{
    pthread_once(&pretend_once, make_locks);
    pthread_mutex_lock(&device_lock[device % PRETEND_DEVICES]);
}

static void unlock_device(int device)
{
    pthread_mutex_unlock(&device_lock[device % PRETEND_DEVICES]);
}

/* Contents of every kernel's table, followed by its complement, computed by the device. */
static const uint64_t PRETEND_TABLE = 0x5eed7ab1e;

/* ---- execution of queued work ---- */

static struct vp_part part_of_area(const struct vp_area *a, const struct vp_box *box, enum vp_type t, void ***planes)
{
    const size_t size = vp_type_size(t);
    struct vp_part p = {.box = *box, .stride = a->pitch, .plane = *planes};
    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        *(*planes)++ = (char *)a->data
                       + ((size_t)((z - a->box.lo[2]) * a->plane + (box->lo[1] - a->box.lo[1]) * a->pitch
                                   + box->lo[0] - a->box.lo[0])) * size;
    return p;
}

/* VP_APPLY of a test's operation that carries a value. */
static void (*pretend_apply)(const struct vp_op *op, const struct vp_area *out, const void *state);

static int run_on_areas(const struct task *t, struct vp_err *err)
{
    const struct vp_op *op = t->op;
    const struct vp_area *in = t->in, *out = t->out;
    if (t->fails)
        return vp_fail(err, VP_ERUN, "a pretended device fell off the bus");
    if (t->table && (t->table[0] != PRETEND_TABLE || t->table[1] != ~PRETEND_TABLE))
        return vp_fail(err, VP_ERUN, "a kernel was launched before its table was there");
    if (t->pass == VP_APPLY) {
        pretend_apply(op, out, t->state);
        return 0;
    }
    struct vp_part given[VP_MAX_INPUTS], to[2];
    const struct vp_box box = vp_op_region(op, &out->box);
    const int64_t depth = vp_box_size(&box, 2) * op->inputs + 2 * vp_box_size(&out->box, 2);
    void **planes = malloc((size_t)depth * sizeof *planes), **p = planes;
    for (int i = 0; i < op->inputs; i++)
        given[i] = part_of_area(&in[i], &box, op->in, &p);
    to[0] = part_of_area(out, &out->box, op->out, &p);
    if (op->second)
        to[1] = part_of_area(&out[1], &out->box, *op->second, &p);
    const uint64_t bytes = op->scratch ? op->scratch(op, &box, &out->box, 1) : 0;
    void *scratch = vp_alloc_raw(1, bytes ? (size_t)bytes : 1, "scratch", err);
    if (t->pass == VP_MAKE && op->report) /* run() has added it */
        memset(t->state, 0, (size_t)op->report->bytes);
    if (vp_op_scans(op) && (t->pass == VP_LOCAL || out->box.lo[2] == 0))
        memset(t->state, 0, (size_t)op->carry->state_bytes(op, &out->box, 1));
    const int rc = !scratch ? -1
                   : t->pass == VP_SUMMARY ? op->two_pass->summarize(op, given, &out->box, t->state, scratch, 1, err)
                   : t->pass == VP_FINISH  ? op->two_pass->finish(op, given, to, t->state, scratch, 1, err)
                   : vp_op_scans(op) ? op->carry->advance(op, given, to, scratch, t->state, 1, err)
                                 : op->run(op, given, to, scratch, 1, err);
    free(scratch);
    free(planes);
    return rc;
}

static void complete(struct vp_event *e, int64_t want);

/* Executes the first entry of a queue. The device must be locked. */
static void step(struct vp_queue *q)
{
    struct task *t = q->first;
    struct vp_err err = VP_ERR_INIT;

    if (t->what == AFTER) {
        complete(t->event, t->want);
        vp_err_keep(&q->err, &t->event->err); /* a wait for failed work fails */
    }
    q->first = t->next;
    if (!q->first)
        q->last = NULL;
    if (t->what == COPY) {
        if (t->way == VP_DOWN && pretend_before_down)
            pretend_before_down(&t->from, t->n);
        for (int64_t z = 0; z < t->n[2]; z++)
            for (int64_t y = 0; y < t->n[1]; y++)
                memmove((char *)t->to.data + z * t->to.plane + y * t->to.row,
                        (const char *)t->from.data + z * t->from.plane + y * t->from.row, (size_t)t->n[0]);
    } else if (t->what == MARK) {
        t->event->passed++;
        t->event->err = q->err;
        t->event->when = pretend_clock ? pretend_clock(q->device) : vp_now();
    } else if (t->what == CALL) {
        if (t->call(t->arg, &err))
            vp_err_keep(&q->err, &err);
        free(t->arg);
    } else if (t->what == LAUNCH && run_on_areas(t, &err)) {
        vp_err_keep(&q->err, &err);
    }
    free(t);
}

static void complete(struct vp_event *e, int64_t want)
{
    while (e->passed < want)
        step(e->by);
}

static int append(struct vp_queue *q, const struct task *task)
{
    struct task *t = malloc(sizeof *t);
    *t = *task;
    t->next = NULL;
    lock_device(q->device);
    if (t->what == AFTER)
        t->want = t->event->marks;
    if (t->what == MARK) {
        t->event->marks++;
        t->event->by = q;
    }
    if (q->last)
        q->last->next = t;
    else
        q->first = t;
    q->last = t;
    while (q->first && chance(4))
        step(q);
    unlock_device(q->device);
    return 0;
}

/* ---- the table ---- */

static bool runs_short(void)
{
    pthread_mutex_lock(&pretend_lock);
    const bool yes = pretend.shortages > 0 && chance(10);
    pretend.shortages -= yes;
    pthread_mutex_unlock(&pretend_lock);
    return yes;
}

static int pretend_count(void)
{
    return PRETEND_DEVICES;
}

static int pretend_info(int device, struct vp_device_info *info, struct vp_err *err)
{
    (void)err;
    *info = (struct vp_device_info){.free = 1 << 30, .total = 1 << 30, .speed = 1};
    snprintf(info->name, sizeof info->name, "pretended device %d", device);
    return 0;
}

static int pretend_alloc(int device, uint64_t bytes, void **p, struct vp_err *err)
{
    pthread_mutex_lock(&pretend_lock);
    const bool full = pretend.refuse > 0 && pretend.refuse-- > 0;
    pretend.last = bytes;
    if (!full && ++pretend.open > pretend.most_open)
        pretend.most_open = pretend.open;
    pthread_mutex_unlock(&pretend_lock);
    *p = NULL;
    if (full)
        return vp_fail(err, VP_ERESOURCE, "pretended device %d: out of memory", device);
    *p = aligned_alloc(VP_ALIGN, (size_t)(bytes + VP_ALIGN - 1) / VP_ALIGN * VP_ALIGN);
    memset(*p, 0xA5, (size_t)bytes);
    return 0;
}

static void pretend_release(int device, void *p)
{
    (void)device;
    free(p);
    pthread_mutex_lock(&pretend_lock);
    pretend.open--;
    pthread_mutex_unlock(&pretend_lock);
}

static void *pretend_host_alloc(size_t n)
{
    char *p = chance(10) ? NULL : malloc(n + 64);
    return p ? p + 64 : NULL; /* makes free() of it crash */
}

static void pretend_host_free(void *p)
{
    free((char *)p - 64);
}

static int pretend_queue_create(int device, struct vp_queue **q, struct vp_err *err)
{
    (void)err;
    *q = calloc(1, sizeof **q);
    (*q)->device = device;
    return 0;
}

static void pretend_queue_destroy(struct vp_queue *q)
{
    if (!q)
        return;
    lock_device(q->device);
    while (q->first)
        step(q);
    unlock_device(q->device);
    free(q);
}

static int pretend_event_create(int device, bool quiet, struct vp_event **e, struct vp_err *err)
{
    (void)quiet, (void)err;
    *e = calloc(1, sizeof **e);
    (*e)->device = device;
    return 0;
}

static void pretend_event_destroy(struct vp_event *e)
{
    free(e);
}

static int pretend_copy(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from,
                        const int64_t n[3], enum vp_way way, struct vp_err *err)
{
    if (way == VP_UP && runs_short())
        return vp_fail(err, VP_ERESOURCE, "pretended device %d has no memory left", q->device);
    pthread_mutex_lock(&pretend_lock);
    if (n[1] > 1)
        pretend.widest = vp_max64(pretend.widest, vp_max64(to->row, from->row));
    pthread_mutex_unlock(&pretend_lock);
    return append(q, &(struct task){.what = COPY, .to = *to, .from = *from, .n = {n[0], n[1], n[2]},
                                  .way = way});
}

/* Queues a call with a copy of `arg`. */
static inline int pretend_call(struct vp_queue *q, int (*call)(void *arg, struct vp_err *err), const void *arg,
                               size_t size)
{
    struct task t = {.what = CALL, .call = call, .arg = malloc(size)};
    memcpy(t.arg, arg, size);
    return append(q, &t);
}

static int pretend_event_record(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    (void)err;
    return append(q, &(struct task){.what = MARK, .event = e});
}

static int pretend_queue_wait(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    (void)err;
    return append(q, &(struct task){.what = AFTER, .event = e});
}

static int pretend_event_synchronize(struct vp_event *e, struct vp_err *err)
{
    int rc = 0;
    if (chance(2))
        usleep(25);
    if (runs_short())
        return vp_fail(err, VP_ERESOURCE, "pretended device %d has no memory left", e->device);
    lock_device(e->device);
    complete(e, e->marks);
    if (e->by && e->by->err.code) {
        if (err)
            vp_err_keep(err, &e->by->err);
        rc = -1;
    }
    unlock_device(e->device);
    return rc;
}

static bool pretend_event_query(struct vp_event *e)
{
    lock_device(e->device);
    const bool yes = e->passed == e->marks;
    unlock_device(e->device);
    return yes;
}

static double pretend_event_elapsed(struct vp_event *from, struct vp_event *to)
{
    return from->passed && to->passed ? to->when - from->when : 0;
}

static bool pretend_has(const struct vp_op *op, char *why, size_t size)
{
    (void)op, (void)why, (void)size;
    return true;
}

static int pretend_launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    struct task t = {.what = LAUNCH, .op = op, .out = {work->out[0]}, .pass = work->pass, .state = work->state,
                     .table = work->table};
    pthread_mutex_lock(&pretend_lock);
    t.fails = pretend.launched++ == pretend.fail_at;
    const bool late = pretend.late;
    pthread_mutex_unlock(&pretend_lock);
    if (t.fails && !late)
        return vp_fail(err, VP_ERUN, "pretended device %d fell off the bus", work->queue->device);
    if (op->second)
        t.out[1] = work->out[1];
    if (work->in)
        memcpy(t.in, work->in, (size_t)op->inputs * sizeof *work->in);
    return append(work->queue, &t);
}

static uint64_t pretend_state(const struct vp_op *op, const int64_t out[3])
{
    struct vp_op inside = *op; /* part of a larger image: both cut ends may be edges */
    struct vp_box box = {.hi = {out[0], out[1], out[2]}};
    if (vp_op_scans(op))
        return op->carry->state_bytes(op, &box, 1);
    for (int a = 0; a < 3; a++)
        if (out[a] < op->image[a]) {
            box.lo[a] = 1;
            box.hi[a] = out[a] + 1;
            inside.image[a] = out[a] + 2;
        }
    const uint64_t bytes = op->two_pass ? op->two_pass->summary(&inside, &box) : 0;
    return op->report && op->report->bytes > bytes ? op->report->bytes : bytes;
}

static uint64_t pretend_number(const struct vp_op *op)
{
    (void)op;
    return sizeof PRETEND_TABLE;
}

static void pretend_fill(const struct vp_op *op, void *table)
{
    (void)op;
    memcpy(table, &PRETEND_TABLE, sizeof PRETEND_TABLE);
}

static int make_late(void *arg, struct vp_err *err)
{
    uint64_t *table;
    (void)err;
    memcpy(&table, arg, sizeof table);
    table[1] = ~table[0];
    return 0;
}

static int pretend_make(const struct vp_op *op, void *table, struct vp_queue *queue, struct vp_err *err)
{
    (void)op;
    if (pretend.no_tables)
        return vp_fail(err, VP_ERUN, "a pretended device cannot make a table");
    return pretend_call(queue, make_late, &table, sizeof table);
}

static const struct vp_kernel *pretend_kernel(const char *name)
{
    static const struct vp_kernel any = {.name = "any", .has = pretend_has, .state = pretend_state,
                                         .launch = pretend_launch},
                                  with_table = {.name = "any", .has = pretend_has, .state = pretend_state,
                                                .table = pretend_number, .fill = pretend_fill, .made = pretend_number,
                                                .make = pretend_make, .launch = pretend_launch};
    (void)name;
    return pretend.tables ? &with_table : &any;
}

/* Tests of reconstruction have their own. */
static const void *pretend_kernels(const char *name)
{
    (void)name;
    return NULL;
}

static const struct vp_backend pretended = {
    .name = "pretended", .count = pretend_count, .info = pretend_info, .alloc = pretend_alloc,
    .release = pretend_release, .host_alloc = pretend_host_alloc, .host_free = pretend_host_free,
    .queue_create = pretend_queue_create, .queue_destroy = pretend_queue_destroy,
    .event_create = pretend_event_create, .event_destroy = pretend_event_destroy,
    .copy = pretend_copy, .event_record = pretend_event_record, .queue_wait = pretend_queue_wait,
    .event_synchronize = pretend_event_synchronize, .event_query = pretend_event_query,
    .event_elapsed = pretend_event_elapsed, .kernel = pretend_kernel,
    .kernels = pretend_kernels,
};
