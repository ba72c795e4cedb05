/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages through a function: reader thread -> ring of slots -> the caller's work -> writer thread.
 *
 * Batch b lives in slot b % slots. Three counters say how far each party is; all waiting is on one condition.
 * A reader that waits for a pipe must neither hold up pages that already came nor keep a failed run alive:
 * after a short wait the work takes a batch that is not full yet, and a wake-up pipe ends reads when the run
 * stops. */
#include "stack/flow.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "stack/source.h"
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 3, BATCH_BYTES = 8 << 20, PATIENCE_NS = 10 * 1000 * 1000 };

/* Pages up to this size are given out one a core: work on one alone has too little to share. */
enum { SMALL_PAGE = 4 << 20 };

struct slot {
    char *in, *out;
    int64_t page; /* of the input, of the first in the batch */
    int n, n_out;
};

struct ring {
    struct vp_flow *f;
    struct slot slot[SLOTS];
    int slots, batch, threads;
    size_t in_bytes;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t filled, worked, written; /* batches */
    int arrived; /* pages so far in batch `filled` */
    bool end, stop;
    int wake[2];
    struct vp_err err; /* the first error of any thread */
    double read_s, work_s, write_s;
};

static void stop(struct ring *r, const struct vp_err *err)
{
    pthread_mutex_lock(&r->lock);
    if (!r->stop)
        r->err = *err;
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    (void)!write(r->wake[1], "", 1);
}

/* Wait until batch b may be filled; false if the run stops. */
static bool wait_free(struct ring *r, int64_t b)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stop && b - r->written >= r->slots)
        pthread_cond_wait(&r->moved, &r->lock);
    const bool go = !r->stop;
    pthread_mutex_unlock(&r->lock);
    return go;
}

static int read_pages(struct ring *r, struct vp_err *err)
{
    struct vp_flow *f = r->f;
    const int64_t total = vp_reader_stack(f->reader)->pages;
    const int64_t last = f->last >= 0 ? f->last : total;
    int64_t b = 0;
    int n = 0; /* pages in batch b */
    bool go = wait_free(r, 0);
    for (int64_t page = f->first; go && (last < 0 || page < last); page++) {
        const double t = vp_now();
        char *to = r->slot[b % r->slots].in + (size_t)n * r->in_bytes;
        const int rc = f->as_f32 ? vp_reader_next_f32(f->reader, (float *)to, &f->bad, err)
                                 : vp_reader_next(f->reader, to, err);
        r->read_s += vp_now() - t;
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;

        pthread_mutex_lock(&r->lock);
        const bool taken = r->filled > b; /* the work took the batch while this page came */
        if (!taken) {
            if (n == 0)
                r->slot[b % r->slots].page = page;
            r->slot[b % r->slots].n = r->arrived = ++n;
            if (n == r->batch) {
                r->filled = ++b;
                r->arrived = n = 0;
            }
            pthread_cond_broadcast(&r->moved);
        }
        pthread_mutex_unlock(&r->lock);
        if (!taken) {
            go = n > 0 || wait_free(r, b);
            continue;
        }
        b++;
        if (!(go = wait_free(r, b)))
            break;
        struct slot *s = &r->slot[b % r->slots];
        memmove(s->in, to, r->in_bytes);
        pthread_mutex_lock(&r->lock);
        s->page = page;
        s->n = r->arrived = n = 1;
        if (n == r->batch) {
            r->filled = ++b;
            r->arrived = n = 0;
        }
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
        go = n > 0 || wait_free(r, b);
    }
    pthread_mutex_lock(&r->lock);
    if (r->filled == b && n > 0)
        r->filled++;
    r->end = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* The same from files that several threads can read: whole batches. */
static int read_batches(struct ring *r, struct vp_err *err)
{
    struct vp_flow *f = r->f;
    const int64_t total = vp_reader_stack(f->reader)->pages;
    const int64_t last = f->last >= 0 && f->last < total ? f->last : total;
    void **raw = vp_alloc_raw((size_t)r->batch, sizeof *raw, "a list of pages", err);
    float **f32 = vp_alloc_raw((size_t)r->batch, sizeof *f32, "a list of pages", err);
    int rc = raw && f32 ? 0 : -1;
    int64_t page = f->first;
    for (int64_t b = 0; !rc && page < last && wait_free(r, b); b++) {
        struct slot *s = &r->slot[b % r->slots];
        const int64_t n = last - page < r->batch ? last - page : r->batch;
        const double t = vp_now();
        for (int64_t i = 0; i < n; i++) {
            raw[i] = s->in + (size_t)i * r->in_bytes;
            f32[i] = raw[i];
        }
        const int64_t got = f->as_f32 ? vp_reader_pages_f32(f->reader, n, f32, &f->bad, r->threads, err)
                                      : vp_reader_pages(f->reader, n, raw, r->threads, err);
        r->read_s += vp_now() - t;
        rc = got == n ? 0 : got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld",
                                                   vp_reader_name(f->reader), (long long)total,
                                                   (long long)(page + got));
        pthread_mutex_lock(&r->lock);
        s->page = page;
        s->n = (int)n;
        r->filled += !rc;
        page += n;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
    free(raw);
    free(f32);
    pthread_mutex_lock(&r->lock);
    r->end = !rc;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static void *reader_main(void *arg)
{
    struct ring *r = arg;
    struct vp_err err = VP_ERR_INIT;
    vp_input_wake(r->wake[0]);
    const bool whole = vp_reader_concurrent(r->f->reader) && r->threads > 1;
    if ((whole ? read_batches : read_pages)(r, &err))
        stop(r, &err);
    vp_input_wake(-1);
    return NULL;
}

static void *writer_main(void *arg)
{
    struct ring *r = arg;
    struct vp_err err = VP_ERR_INIT;
    for (int64_t b = 0;; b++) {
        pthread_mutex_lock(&r->lock);
        while (!r->stop && r->worked == b && !(r->end && r->filled == b))
            pthread_cond_wait(&r->moved, &r->lock);
        const bool go = !r->stop && r->worked > b;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            return NULL;
        const struct slot *s = &r->slot[b % r->slots];
        const double t = vp_now();
        if (vp_writer_pages(r->f->writer, s->n_out, s->out, r->threads, &err)) {
            stop(r, &err);
            return NULL;
        }
        r->write_s += vp_now() - t;
        pthread_mutex_lock(&r->lock);
        r->written = b + 1;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
}

/* Wait for batch b: true if there is one. */
static bool wait_filled(struct ring *r, int64_t b)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stop && r->filled == b && !r->end) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += PATIENCE_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        const int had = r->arrived;
        if (had == 0)
            pthread_cond_wait(&r->moved, &r->lock);
        else if (pthread_cond_timedwait(&r->moved, &r->lock, &until) && r->filled == b && r->arrived == had) {
            r->filled = b + 1; /* nothing came for a while: go on with what there is */
            r->arrived = 0;
        }
    }
    const bool go = !r->stop && r->filled > b;
    pthread_mutex_unlock(&r->lock);
    return go;
}

static void work_all(struct ring *r)
{
    struct vp_flow *f = r->f;
    struct vp_err err = VP_ERR_INIT;
    for (int64_t b = 0; wait_filled(r, b); b++) {
        struct slot *s = &r->slot[b % r->slots];
        const double t = vp_now();
        s->n_out = f->work(f->ctx, s->page, s->n, s->in, s->out, &err);
        r->work_s += vp_now() - t;
        if (s->n_out < 0) {
            stop(r, &err);
            return;
        }
        f->pages += s->n;
        vp_progress_add(f->progress, s->n);
        pthread_mutex_lock(&r->lock);
        r->worked = b + 1;
        if (!f->writer)
            r->written = b + 1;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
}

int vp_flow_room(const struct vp_flow *f, uint64_t need, uint64_t *room, struct vp_err *err)
{
    const uint64_t beside = f->beside + vp_reader_holds(f->reader, !f->as_f32);
    *room = UINT64_MAX;
    if (!f->memory)
        return 0;
    *room = f->memory > beside ? f->memory - beside : 0;
    if (*room >= need)
        return 0;
    char text[32], have[32];
    vp_fail(err, VP_ERESOURCE, "%s: the smallest portion, a page, takes %s: expected at most %s",
            vp_reader_name(f->reader), vp_format_bytes(text, sizeof text, need + beside),
            vp_format_bytes(have, sizeof have, f->memory));
    return vp_hint(err, "allow more with --memory");
}

/* Bytes of a page of input, and pages (with those of output) that the memory can hold: 1 or more. */
static int count_pages(const struct vp_flow *f, size_t *in_bytes, uint64_t *pages, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(f->reader);
    size_t in = vp_page_bytes(s), both;
    if (f->as_f32 &&
        (!vp_mul_size(&in, (size_t)s->nx, (size_t)s->ny) || !vp_mul_size(&in, in, sizeof(float))))
        in = 0;
    if (!in || !vp_add_size(&both, in, f->writer && !f->in_place ? f->out_page_bytes : 0))
        return vp_fail(err, VP_ERESOURCE, "%s: pages of %lldx%lld cannot be held", vp_reader_name(f->reader),
                       (long long)s->nx, (long long)s->ny);
    uint64_t room;
    *in_bytes = in;
    if (vp_flow_room(f, both, &room, err))
        return -1;
    *pages = f->memory ? room / both : UINT64_MAX;
    return 0;
}

int vp_flow_fits(const struct vp_flow *f, struct vp_err *err)
{
    size_t in;
    uint64_t pages;
    return count_pages(f, &in, &pages, err);
}

static int allocate(struct ring *r, struct vp_err *err)
{
    const struct vp_flow *f = r->f;
    const int64_t last = f->last >= 0 ? f->last : vp_reader_stack(f->reader)->pages;
    const bool separate = f->writer && !f->in_place;
    size_t in = 0;
    uint64_t fits = 0;
    if (count_pages(f, &in, &fits, err))
        return -1;
    r->in_bytes = in;
    r->slots = fits < SLOTS ? (int)fits : SLOTS;

    int64_t batch = f->batch;
    if (batch <= 0) {
        const int64_t cores = in <= SMALL_PAGE ? vp_cores() : 1;
        batch = (int64_t)((BATCH_BYTES - 1) / in + 1);
        batch = batch > cores ? batch : cores;
    }
    const int64_t most =
        (int64_t)(fits / (uint64_t)r->slots < INT32_MAX ? fits / (uint64_t)r->slots : INT32_MAX);
    batch = batch < most ? batch : most;
    if (last >= 0 && batch > last - f->first)
        batch = last > f->first ? last - f->first : 1;
    r->batch = (int)batch;
    for (int i = 0; i < r->slots; i++) {
        r->slot[i].in = vp_alloc_raw((size_t)batch, in, "input pages", err);
        r->slot[i].out = separate    ? vp_alloc_raw((size_t)batch, f->out_page_bytes, "output pages", err)
                         : f->writer ? r->slot[i].in
                                     : NULL;
        if (!r->slot[i].in || (f->writer && !r->slot[i].out))
            return -1;
    }
    return 0;
}

static int run_threads(struct ring *r, struct vp_err *err)
{
    pthread_t reader, writer;
    struct vp_err why = VP_ERR_INIT;
    int rc = pthread_create(&reader, NULL, reader_main, r);
    const bool have_reader = !rc, want_writer = r->f->writer != NULL;
    if (!rc && want_writer)
        rc = pthread_create(&writer, NULL, writer_main, r);
    const bool have_writer = !rc && want_writer;
    if (rc) {
        vp_fail(&why, VP_ERESOURCE, "a thread cannot be started: %s", strerror(rc));
        stop(r, &why);
    } else {
        work_all(r);
    }
    if (have_reader)
        pthread_join(reader, NULL);
    if (have_writer)
        pthread_join(writer, NULL);
    if (!r->stop)
        return 0;
    vp_fail(err, r->err.code ? r->err.code : VP_ERUN, "%s", r->err.msg[0] ? r->err.msg : "the work failed");
    return r->err.hint[0] ? vp_hint(err, "%s", r->err.hint) : -1;
}

int vp_flow_run(struct vp_flow *f, struct vp_err *err)
{
    struct ring r = {.f = f, .wake = {-1, -1}, .err = VP_ERR_INIT};
    r.threads = f->threads > 0 ? f->threads : omp_get_max_threads();
    pthread_condattr_t attr;
    f->bad = f->pages = 0;
    pthread_mutex_init(&r.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r.moved, &attr);
    pthread_condattr_destroy(&attr);

    const int64_t pages = vp_reader_stack(f->reader)->pages, last = f->last >= 0 ? f->last : pages;
    int rc = allocate(&r, err);
    if (!rc && pipe2(r.wake, O_CLOEXEC | O_NONBLOCK))
        rc = vp_fail_errno(err, "a pipe cannot be made");
    if (!rc && f->first > 0)
        rc = vp_reader_seekable(f->reader)
                 ? vp_reader_seek(f->reader, f->first < pages ? f->first : pages, err)
             : vp_reader_skip(f->reader, f->first, err) < 0 ? -1
                                                            : 0;
    if (!rc) {
        vp_progress_start(f->progress, f->stage, "pages",
                          last < 0          ? -1
                          : last > f->first ? last - f->first
                                            : 0);
        rc = run_threads(&r, err);
        vp_stats_time(f->stats, "read", r.read_s);
        vp_stats_time(f->stats, f->stage ? f->stage : "work", r.work_s);
        if (f->writer)
            vp_stats_time(f->stats, "write", r.write_s);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (r.slot[i].out != r.slot[i].in)
            free(r.slot[i].out);
        free(r.slot[i].in);
    }
    for (int i = 0; i < 2; i++)
        if (r.wake[i] >= 0)
            close(r.wake[i]);
    pthread_cond_destroy(&r.moved);
    pthread_mutex_destroy(&r.lock);
    return rc;
}
