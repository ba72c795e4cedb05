/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations of ranks: connect, agree, stop. */
#include "device/ranks.h"

#include "base/places.h"
#include "base/plugin.h"
#include "base/size.h"
#include "device/device.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Limits of polling, in turns and ns. Messages make progress only during polls, so those that work waits for are polled
 * often; an idle rank yields the processor. */
enum { SPINS = 200, BUSY_SPINS = 1000, BUSY_NAP = 20000, MOST_NAP = 500000 };
static const double UNHEARD_SECONDS = 10, STOP_SECONDS = 1;

/* ---- the launcher ---- */

int vp_ranks_open(struct vp_ranks **out, struct vp_err *err)
{
    char why[2 * PATH_MAX] = "";
    int rank;
    const int size = vp_launched(&rank);
    *out = NULL;
    if (size <= 1)
        return 0;
    /* libraries that an MPI loads itself must find its symbols */
    const struct vp_ranks_plugin *plugin = vp_plugin_open("voxpipe-mpi.so", true, why, sizeof why);
    if (!plugin) {
        vp_fail(err, VP_ERESOURCE, "this is rank %d of %d, which cannot work together: %s", rank, size, why);
        return vp_hint(err,
                       "build voxpipe where mpicc is found (make MPI=1), or, to run this process alone, use --ranks 1");
    }
    struct vp_ranks *r = plugin->open(err);
    if (!r)
        return -1;
    if (r->size != size) {
        vp_fail(err, VP_ERESOURCE, "the launcher has started %d ranks, of which %s sees %d", size, r->library, r->size);
        vp_ranks_close(r, false);
        return vp_hint(err, "use the launcher of the MPI that voxpipe was built with, or, with srun, one of the kinds "
                            "that srun --mpi=list names");
    }
    *out = r;
    r->lost = vp_ranks_meet(r, err);
    return r->lost ? -1 : 0;
}

int vp_ranks_meet(struct vp_ranks *r, struct vp_err *err)
{
    char (*host)[sizeof r->host] = vp_alloc((size_t)r->size, sizeof *host, "the names of the hosts", err);
    const int rc = host ? vp_ranks_gather(r, r->host, sizeof r->host, host, err) : -1;
    r->place = r->places = r->hosts = 0;
    for (int i = 0; i < r->size && !rc; i++) {
        bool known = false;
        for (int k = 0; k < i && !known; k++)
            known = !strcmp(host[i], host[k]);
        r->hosts += !known;
        if (strcmp(host[i], r->host))
            continue;
        r->place += i < r->rank;
        r->places++;
    }
    free(host);
    return rc;
}

void vp_ranks_close(struct vp_ranks *r, bool well)
{
    if (r)
        r->close(r, well);
}

/* ---- waiting ---- */

static void nap(int64_t turn, bool busy)
{
    const int spins = busy ? BUSY_SPINS : SPINS;
    const long ns = 1000L * (turn - spins + 1), most = busy ? BUSY_NAP : MOST_NAP;
    if (turn < spins)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, ns < most ? ns : most}, NULL);
}

int vp_ranks_check(struct vp_ranks *r, struct vp_err *err)
{
    int from;
    if (!r->stopped && r->probe(r, VP_LANE_STOP, &from))
        r->stopped = from + 1;
    return r->stopped ? vp_fail(err, VP_ERUN, "rank %d has stopped", r->stopped - 1) : 0;
}

/* Reaction of a waiting rank after another has stopped: return, or wait for it, with a timeout. */
enum heed { GIVE_UP, A_WHILE };

/* Waits until all messages are done: 0; 1 when `until` (0: never) is past or a rank has stopped; -1 on errors. */
static int wait_for(struct vp_ranks *r, struct vp_message **m, int n, double until, enum heed heed, struct vp_err *err)
{
    for (int64_t turn = 0;; turn++) {
        bool all = true, done;
        for (int i = 0; i < n; i++) {
            if (m[i] && r->test(r, &m[i], &done, err))
                return -1;
            all = all && !m[i];
        }
        if (all)
            return 0;
        struct vp_err ignored = VP_ERR_INIT;
        if (until > 0 ? vp_now() > until : vp_ranks_check(r, &ignored) && heed == GIVE_UP)
            return 1;
        if (until <= 0 && r->stopped)
            until = vp_now() + UNHEARD_SECONDS;
        nap(turn, heed == GIVE_UP);
    }
}

int vp_ranks_wait(struct vp_ranks *r, struct vp_message **m, int n, struct vp_err *err)
{
    const int rc = wait_for(r, m, n, 0, GIVE_UP, err);
    return rc > 0 ? vp_ranks_check(r, err) : rc;
}

void vp_ranks_stop(struct vp_ranks *r)
{
    static const char word = 1;
    struct vp_err ignored = VP_ERR_INIT;
    const double until = vp_now() + STOP_SECONDS;
    if (r->stopped)
        return;
    r->stopped = r->rank + 1;
    r->announced = true;
    for (int i = 1; i < r->size; i++) {
        struct vp_message *m = NULL;
        if (!r->send(r, (r->rank + i) % r->size, VP_LANE_STOP, &word, 1, &m, &ignored))
            (void)wait_for(r, &m, 1, until, A_WHILE, &ignored);
    }
}

/* ---- together ---- */

/* After step k a rank has the bytes of the 2^k ranks that begin with itself. Returns 0; 1 if time is up; -1. */
static int gather(struct vp_ranks *r, const void *mine, size_t size, char *all, double until, enum heed heed,
                  struct vp_err *err)
{
    const int n = r->size;
    char *from_me = vp_alloc((size_t)n, size, "messages of ranks", err); /* in the order rank, rank + 1, ... */
    int rc = from_me ? 0 : -1;
    if (!rc)
        memcpy(from_me, mine, size);
    for (int have = 1; have < n && !rc; have *= 2) {
        const int more = have < n - have ? have : n - have;
        struct vp_message *m[2] = {NULL, NULL};
        const size_t bytes = (size_t)more * size;
        if (r->take(r, (r->rank + have) % n, VP_LANE_ALL, from_me + (size_t)have * size, bytes, &m[0], err)
            || r->send(r, (r->rank + n - have) % n, VP_LANE_ALL, from_me, bytes, &m[1], err))
            rc = -1;
        else
            rc = wait_for(r, m, 2, until, heed, err);
        if (rc)
            return rc; /* abandoned messages may still arrive: keep their memory */
    }
    for (int i = 0; i < n && !rc; i++)
        memcpy(all + (size_t)((r->rank + i) % n) * size, from_me + (size_t)i * size, size);
    free(from_me);
    return rc;
}

int vp_ranks_gather(struct vp_ranks *r, const void *mine, size_t size, void *all, struct vp_err *err)
{
    const int rc = gather(r, mine, size, all, 0, GIVE_UP, err);
    return rc > 0 ? vp_ranks_check(r, err) : rc;
}

/* A rank's contribution to an agreement, followed by `size` bytes. */
struct rank_status {
    int code;      /* 0: no error */
    bool follows;  /* stopped only because another rank had */
    char msg[480], hint[320], host[64];
};

static void fill(struct rank_status *w, const struct vp_ranks *r, int rc, const struct vp_err *err)
{
    w->code = rc ? err->code ? err->code : VP_ERUN : 0;
    w->follows = rc && r->stopped && !r->announced;
    if (rc) {
        snprintf(w->msg, sizeof w->msg, "%.*s", (int)sizeof w->msg - 1, err->msg);
        snprintf(w->hint, sizeof w->hint, "%.*s", (int)sizeof w->hint - 1, err->hint);
    }
    memcpy(w->host, r->host, sizeof w->host);
}

/* Chooses the error to report: the first that no other rank caused. */
static int choose_error(struct vp_ranks *r, const char *statuses, size_t step, struct vp_err *err)
{
    const struct rank_status *worst = NULL;
    int who = 0;
    bool all = true;
    for (int i = 0; i < r->size; i++) {
        const struct rank_status *w = (const struct rank_status *)(statuses + (size_t)i * step);
        if (w->code && (!worst || (worst->follows && !w->follows))) {
            worst = w;
            who = i;
        }
    }
    if (!worst)
        return 0;
    for (int i = 0; i < r->size; i++) {
        const struct rank_status *w = (const struct rank_status *)(statuses + (size_t)i * step);
        all = all && w->code == worst->code && !strcmp(w->msg, worst->msg);
    }
    r->reporter = who;
    *err = (struct vp_err)VP_ERR_INIT;
    if (all)
        vp_fail(err, worst->code, "%s", worst->msg);
    else
        vp_fail(err, worst->code, "rank %d (%s): %s", who, worst->host, worst->msg);
    if (worst->hint[0])
        vp_hint(err, "%s", worst->hint);
    return -1;
}

int vp_ranks_agree(struct vp_ranks *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err)
{
    const size_t step = (sizeof(struct rank_status) + size + 7) / 8 * 8;
    if (r->lost) /* the others are at another agreement */
        return vp_fail(err, VP_ERUN, "the other ranks do not respond any more");
    struct vp_err own = rc ? *err : (struct vp_err)VP_ERR_INIT, trouble = VP_ERR_INIT;
    char *sent = vp_alloc(1, step, "message of a rank", &trouble);
    char *statuses = vp_alloc((size_t)r->size, step, "messages of ranks", &trouble);
    int got = sent && statuses ? 0 : -1;
    if (!got) {
        fill((struct rank_status *)sent, r, rc, &own);
        if (size)
            memcpy(sent + sizeof(struct rank_status), mine, size);
        /* a rank without errors waits as long as the others work: on failure they stop first, and then still arrive */
        got = gather(r, sent, step, statuses, rc ? vp_now() + UNHEARD_SECONDS : 0, A_WHILE, &trouble);
    }
    r->lost = got;
    if (!got)
        got = choose_error(r, statuses, step, err);
    else if (got > 0)
        got = rc ? -1 : vp_fail(err, VP_ERUN, "another rank does not respond any more");
    else if (!rc)
        *err = trouble;
    for (int i = 0; i < r->size && !got && size; i++)
        memcpy((char *)all + (size_t)i * size, statuses + (size_t)i * step + sizeof(struct rank_status), size);
    free(sent);
    free(statuses);
    return got;
}
