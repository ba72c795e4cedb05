/* SPDX-License-Identifier: BSD-3-Clause */
/* Pretended ranks for tests: threads of one process that pass bytes as late as the rules allow. A message is copied
 * after a number of polls by sender or receiver, not before, and until then the receive buffer is full of rubbish. So
 * code that uses or changes memory before a message is done receives or sends rubbish. */
#pragma once

#include "device/ranks.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 16 };

struct vp_message {
    struct ranks_world *world;
    bool send, matched, done;
    int rank, other;
    enum vp_lane lane;
    char *p;
    size_t n;
    int patience;             /* polls before the message is copied */
    struct vp_message *with;  /* the matching message of the other rank */
    struct vp_message *next, *older; /* list of unmatched messages; list of all messages */
};

static struct ranks_world {
    pthread_mutex_t lock;
    struct vp_message *begun; /* in order, not yet matched */
    struct vp_message *all;   /* all pending messages */
    uint64_t random;
    uint64_t bytes[4];        /* bytes received in each lane */
    int open;                 /* messages not polled to completion */
} ranks_world = {.lock = PTHREAD_MUTEX_INITIALIZER, .random = 88172645463325252u};

static unsigned ranks_dice(unsigned n)
{
    uint64_t *s = &ranks_world.random;
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return (unsigned)(*s % n);
}

static int ranks_begin(struct vp_ranks *r, bool send, int other, enum vp_lane lane, void *p, size_t n,
                       struct vp_message **out)
{
    struct ranks_world *w = &ranks_world;
    struct vp_message *m = calloc(1, sizeof *m);
    pthread_mutex_lock(&w->lock);
    *m = (struct vp_message){.world = w, .send = send, .rank = r->rank, .other = other, .lane = lane, .p = p, .n = n,
                             .patience = (int)ranks_dice(6)};
    if (!send)
        memset(p, 0xa5, n);
    struct vp_message **at = &w->begun;
    while (*at && !((*at)->send != send && (*at)->rank == other && (*at)->other == r->rank && (*at)->lane == lane))
        at = &(*at)->next;
    if (*at) {
        m->with = *at;
        *at = m->with->next;
        m->with->with = m;
        m->matched = m->with->matched = true;
        CHECK_INT(m->n, m->with->n);
    } else {
        for (; *at; at = &(*at)->next)
            ;
        *at = m;
    }
    w->open++;
    m->older = w->all;
    w->all = m;
    pthread_mutex_unlock(&w->lock);
    *out = m;
    return 0;
}

static int ranks_send(struct vp_ranks *r, int to, enum vp_lane lane, const void *from, size_t n, struct vp_message **m,
                      struct vp_err *err)
{
    (void)err;
    return ranks_begin(r, true, to, lane, (void *)(uintptr_t)from, n, m);
}

static int ranks_take(struct vp_ranks *r, int from, enum vp_lane lane, void *to, size_t n, struct vp_message **m,
                      struct vp_err *err)
{
    (void)err;
    return ranks_begin(r, false, from, lane, to, n, m);
}

/* Copies at the last poll of both sides; a small message is sent at once, as with any MPI. */
static int ranks_test(struct vp_ranks *r, struct vp_message **m, bool *done, struct vp_err *err)
{
    struct ranks_world *w = &ranks_world;
    struct vp_message *it = *m;
    (void)r, (void)err;
    pthread_mutex_lock(&w->lock);
    *done = it->done || (it->lane == VP_LANE_STOP && it->send);
    if (!*done && it->matched && it->patience-- <= 0) {
        struct vp_message *from = it->send ? it : it->with, *to = it->send ? it->with : it;
        memcpy(to->p, from->p, to->n);
        w->bytes[to->lane] += to->n;
        it->with->done = it->done = *done = true;
    }
    if (*done) {
        w->open--;
        if (it->done) { /* the stopping rank's message may be polled after it has left */
            struct vp_message **at = &w->all;
            while (*at != it)
                at = &(*at)->older;
            *at = it->older;
            free(it);
        }
        *m = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static bool ranks_probe(struct vp_ranks *r, enum vp_lane lane, int *from)
{
    struct ranks_world *w = &ranks_world;
    bool there = false;
    pthread_mutex_lock(&w->lock);
    for (const struct vp_message *m = w->begun; m && !there; m = m->next)
        if (m->send && m->other == r->rank && m->lane == lane) {
            there = true;
            *from = m->rank;
        }
    pthread_mutex_unlock(&w->lock);
    return there;
}

static void ranks_close(struct vp_ranks *r, bool well)
{
    (void)well;
    free(r);
}

/* Makes rank `rank` of `size`, with `places` ranks per host. */
static struct vp_ranks *ranks_open(int rank, int size, int places)
{
    struct vp_ranks *r = calloc(1, sizeof *r);
    r->rank = rank;
    r->size = size;
    snprintf(r->host, sizeof r->host, "host%d", rank / places);
    snprintf(r->library, sizeof r->library, "pretended");
    r->send = ranks_send;
    r->take = ranks_take;
    r->test = ranks_test;
    r->probe = ranks_probe;
    r->close = ranks_close;
    return r;
}

struct ranks_thread {
    struct vp_ranks *ranks;
    void (*work)(struct vp_ranks *r, void *arg);
    void *arg;
    pthread_t id;
};

static void *ranks_main(void *arg)
{
    struct ranks_thread *t = arg;
    t->work(t->ranks, t->arg);
    return NULL;
}

/* Runs work(rank, arg) on `size` ranks. Afterwards no message may be pending, unless `failed`. */
static void ranks_run(int size, int places, void (*work)(struct vp_ranks *r, void *arg), void *arg, bool failed)
{
    struct ranks_thread t[RANKS_MOST];
    memset(ranks_world.bytes, 0, sizeof ranks_world.bytes);
    for (int i = 0; i < size; i++) {
        t[i] = (struct ranks_thread){.ranks = ranks_open(i, size, places), .work = work, .arg = arg};
        CHECK(!pthread_create(&t[i].id, NULL, ranks_main, &t[i]));
    }
    for (int i = 0; i < size; i++) {
        pthread_join(t[i].id, NULL);
        vp_ranks_close(t[i].ranks, !failed);
    }
    if (!failed)
        CHECK_INT(ranks_world.open, 0);
    /* removes messages left by a run that failed */
    for (struct vp_message *m = ranks_world.all, *older; m; m = older) {
        older = m->older;
        free(m);
    }
    ranks_world.begun = ranks_world.all = NULL;
    ranks_world.open = 0;
}
