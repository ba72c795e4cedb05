/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks do together, with pretended ones: who is on whose host, gathering, agreeing, stopping. */
#include "ranks.h"

#include "base/places.h"

#include <unistd.h>

static void gathers(struct vp_ranks *r, void *arg)
{
    struct vp_err err = VP_ERR_INIT;
    int all[RANKS_MOST][3];
    (void)arg;
    for (int round = 0; round < 3; round++) {
        const int mine[3] = {r->rank, r->rank * r->rank, round};
        CHECK(!vp_ranks_gather(r, mine, sizeof mine, all, &err));
        for (int i = 0; i < r->size; i++) {
            CHECK_INT(all[i][0], i);
            CHECK_INT(all[i][1], i * i);
            CHECK_INT(all[i][2], round);
        }
    }
}

static void meets(struct vp_ranks *r, void *arg)
{
    struct vp_err err = VP_ERR_INIT;
    const int places = *(const int *)arg, last = (r->size - 1) / places;
    CHECK(!vp_ranks_meet(r, &err));
    CHECK_INT(r->hosts, last + 1);
    CHECK_INT(r->place, r->rank % places);
    CHECK_INT(r->places, r->rank / places < last ? places : r->size - last * places);
}

static void everybody_hears_everybody(void)
{
    for (int size = 1; size <= RANKS_MOST; size++) {
        ranks_run(size, size, gathers, NULL, false);
        for (int places = 1; places <= 5; places++)
            ranks_run(size, places, meets, &places, false);
    }
}

/* Which ranks fail, and with what. */
struct trouble {
    bool fails[RANKS_MOST];
    bool alike;
    const char *want;
};

static void agrees(struct vp_ranks *r, void *arg)
{
    const struct trouble *t = arg;
    struct vp_err err = VP_ERR_INIT;
    int all[RANKS_MOST], rc = 0, mine = 7 * r->rank;
    if (t->fails[r->rank]) {
        rc = vp_fail(&err, VP_ERESOURCE, "no %s", t->alike ? "file" : r->rank == 2 ? "memory" : "disk");
        vp_hint(&err, "try another");
    }
    rc = vp_ranks_agree(r, rc, &mine, sizeof mine, all, &err);
    CHECK_INT(rc, t->want ? -1 : 0);
    CHECK_STR(err.msg, t->want ? t->want : "");
    CHECK_INT(err.code, t->want ? VP_ERESOURCE : 0);
    CHECK_STR(err.hint, t->want ? "try another" : "");
    for (int i = 0; i < r->size && !rc; i++)
        CHECK_INT(all[i], 7 * i);
    /* the next meeting is one like any other */
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_ranks_agree(r, 0, NULL, 0, NULL, &err));
}

static void the_first_failure_is_told_by_all(void)
{
    for (int size = 4; size <= 7; size++) {
        ranks_run(size, 2, agrees, &(struct trouble){.want = NULL}, false);
        ranks_run(size, 2, agrees, &(struct trouble){.fails = {[2] = true}, .want = "rank 2 (host1): no memory"}, false);
        ranks_run(size, 2, agrees, &(struct trouble){.fails = {[3] = true, [2] = true},
                                                     .want = "rank 2 (host1): no memory"}, false);
        ranks_run(size, 2, agrees, &(struct trouble){.fails = {[0] = true}, .want = "rank 0 (host0): no disk"}, false);
    }
    ranks_run(4, 2, agrees, &(struct trouble){.fails = {true, true, true, true}, .alike = true, .want = "no file"}, false);
}

/* Rank 1 fails while the others wait for what it will never send, or work. */
static void stops(struct vp_ranks *r, void *arg)
{
    struct vp_err err = VP_ERR_INIT;
    static char never[RANKS_MOST][1000];
    struct vp_message *m[2] = {NULL, NULL};
    int rc;
    (void)arg;
    if (r->rank == 1) {
        usleep(20000);
        rc = vp_fail(&err, VP_ERUN, "the disk is full");
        vp_ranks_stop(r);
    } else if (r->rank == 2) {
        while (!(rc = vp_ranks_check(r, &err)))
            usleep(1000);
    } else {
        CHECK(!r->take(r, 1, VP_LANE_VIEWS, never[r->rank], sizeof *never, &m[1], &err));
        rc = vp_ranks_wait(r, m, 2, &err);
    }
    CHECK_INT(rc, -1);
    CHECK(vp_ranks_agree(r, rc, NULL, 0, NULL, &err) == -1);
    CHECK_STR(err.msg, "rank 1 (host0): the disk is full");
}

static void who_waits_for_a_rank_that_fails_stops(void)
{
    for (int size = 2; size <= 9; size++)
        ranks_run(size, 3, stops, NULL, true);
}

static int cannot_send(struct vp_ranks *r, int to, enum vp_lane lane, const void *from, size_t n, struct vp_message **m,
                       struct vp_err *err)
{
    (void)r, (void)to, (void)lane, (void)from, (void)n, (void)m;
    return vp_fail(err, VP_ERESOURCE, "out of memory");
}

/* A rank that cannot speak keeps its own error, and goes to no other agreement, where it would be taken for that of the
 * one before. */
static void falls_silent(struct vp_ranks *r, void *arg)
{
    struct vp_err err = VP_ERR_INIT;
    int64_t all[RANKS_MOST];
    (void)arg;
    if (r->rank != 1)
        return;
    r->send = cannot_send;
    CHECK_INT(vp_ranks_agree(r, 0, &(int64_t){1}, sizeof *all, all, &err), -1);
    CHECK_STR(err.msg, "out of memory");
    CHECK(r->lost);
    const int open = ranks_world.open;
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_ranks_agree(r, 0, NULL, 0, NULL, &err), -1);
    CHECK_INT(err.code, VP_ERUN);
    CHECK_INT(ranks_world.open, open);
}

/* Memory is the message's until it is done. */
static void passes(struct vp_ranks *r, void *arg)
{
    enum { N = 5000 };
    struct vp_err err = VP_ERR_INIT;
    const int to = (r->rank + 1) % r->size, from = (r->rank + r->size - 1) % r->size;
    char *out = malloc(4 * N), *in = malloc(4 * N);
    struct vp_message *m[8];
    (void)arg;
    memset(out, r->rank, 4 * N);
    for (int i = 0; i < 4; i++) {
        const enum vp_lane lane = i % 2 ? VP_LANE_VIEWS : VP_LANE_SLICES;
        out[i * N] = (char)(100 + i);
        CHECK(!r->take(r, from, lane, in + i * N, N, &m[i], &err) && !r->send(r, to, lane, out + i * N, N, &m[4 + i], &err));
    }
    CHECK(!vp_ranks_wait(r, m, 8, &err));
    for (int i = 0; i < 4; i++) {
        CHECK_INT(in[i * N], 100 + i);
        CHECK_INT(in[i * N + N - 1], from);
    }
    free(out);
    free(in);
}

static void messages_of_a_lane_keep_their_order(void)
{
    for (int size = 2; size <= 6; size++)
        ranks_run(size, size, passes, NULL, false);
}

/* What launchers leave in the environment. */
static void launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
                                        "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS"};
    int rank;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    CHECK_INT(vp_launched(&rank), 1);
    setenv("SLURM_NTASKS", "8", 1); /* a batch script is no rank */
    setenv("SLURM_PROCID", "0", 1);
    CHECK_INT(vp_launched(&rank), 1);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    setenv("SLURM_PROCID", "5", 1);
    CHECK_INT(vp_launched(&rank), 8);
    CHECK_INT(rank, 5);
    setenv("PMI_SIZE", "x", 1);
    CHECK_INT(vp_launched(&rank), 8);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    CHECK_INT(vp_launched(&rank), 3);
    CHECK_INT(rank, 2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

int main(void)
{
    launched();
    everybody_hears_everybody();
    messages_of_a_lane_keep_their_order();
    the_first_failure_is_told_by_all();
    who_waits_for_a_rank_that_fails_stops();
    ranks_run(3, 3, falls_silent, NULL, true);
    return test_done();
}
