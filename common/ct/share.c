/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/share.h"

#include "base/err.h"
#include "base/size.h"
#include "base/spill.h"
#include "ct/pair.h"
#include "device/ranks.h"
#include "stack/outfile.h"
#include "stack/writer.h"

#include <stdlib.h>

int64_t vp_share_at(const struct vp_share *s, int i, int64_t n, int64_t unit)
{
    const int64_t units = vp_div_up(n, unit), size = s->size > 1 ? s->size : 1;
    return vp_min64(n, units * i / size * unit);
}

void vp_share_own(const struct vp_share *s, int64_t n, int64_t unit, int64_t *from, int64_t *to)
{
    *from = vp_share_at(s, s->rank, n, unit);
    *to = vp_share_at(s, s->rank + 1, n, unit);
}

int64_t vp_share_turn(const struct vp_share *s, bool travels, int64_t block, int64_t views)
{
    return travels ? block : vp_min64(block * vp_max64(1, s->size), views);
}

static char *item(const void *x, int64_t i, uint64_t bytes)
{
    return (char *)(uintptr_t)x + (uint64_t)i * bytes;
}

int vp_share_all(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, struct vp_err *err)
{
    if (!s->ranks)
        return 0;
    const int64_t own = vp_share_at(s, s->rank, n, unit), own_end = vp_share_at(s, s->rank + 1, n, unit);
    struct vp_message **const m = vp_alloc(2 * (size_t)s->size, sizeof *m, "messages of ranks", err);
    int rc = m ? 0 : -1, k = 0;
    for (int step = 1; step < s->size && !rc; step++) { /* so that not all send to the same rank at once */
        const int to = (s->rank + step) % s->size, from = (s->rank + s->size - step) % s->size;
        const int64_t at = vp_share_at(s, from, n, unit), end = vp_share_at(s, from + 1, n, unit);
        if (end > at)
            rc = s->ranks->take(s->ranks, from, VP_LANE_SLICES, item(x, at, bytes), (size_t)((uint64_t)(end - at) * bytes), &m[k++],
                                err);
        if (!rc && own_end > own)
            rc = s->ranks->send(s->ranks, to, VP_LANE_SLICES, item(x, own, bytes), (size_t)((uint64_t)(own_end - own) * bytes),
                                &m[k++], err);
    }
    rc = rc || vp_ranks_wait(s->ranks, m, k, err) ? -1 : 0;
    free(m);
    return rc;
}

int vp_share_next(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, bool after, struct vp_err *err)
{
    if (!s->ranks)
        return 0;
    /* the edge of each part goes to the rank whose part meets it */
    struct vp_message *m[2] = {NULL, NULL};
    const int64_t own = vp_share_at(s, s->rank, n, unit), end = vp_share_at(s, s->rank + 1, n, unit);
    const int64_t wanted = after ? end : own - 1, given = after ? own : end - 1;
    int from = -1, to = -1;
    for (int i = 0; i < s->size && own < end; i++) {
        const int64_t first = vp_share_at(s, i, n, unit), last = vp_share_at(s, i + 1, n, unit);
        if (first == last)
            continue;
        from = wanted >= first && wanted < last ? i : from;
        to = (after ? last == own : first == end) ? i : to;
    }
    if ((from >= 0 && s->ranks->take(s->ranks, from, VP_LANE_SLICES, item(x, wanted, bytes), bytes, &m[0], err))
        || (to >= 0 && s->ranks->send(s->ranks, to, VP_LANE_SLICES, item(x, given, bytes), bytes, &m[1], err)))
        return -1;
    return vp_ranks_wait(s->ranks, m, 2, err);
}

/* Brings items [i, i + n) of rank `owner` to rank 0, into `to`. */
static int bring(const struct vp_share *s, int owner, const void *from, void *to, uint64_t bytes, struct vp_err *err)
{
    struct vp_message *m[1] = {NULL};
    if (owner == 0 || (s->rank != 0 && s->rank != owner))
        return 0;
    if (s->rank == 0 ? s->ranks->take(s->ranks, owner, VP_LANE_SLICES, to, bytes, m, err)
                     : s->ranks->send(s->ranks, 0, VP_LANE_SLICES, from, bytes, m, err))
        return -1;
    return vp_ranks_wait(s->ranks, m, 1, err);
}

int vp_share_first(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, struct vp_err *err)
{
    for (int owner = 1; owner < s->size && s->ranks; owner++) {
        const int64_t at = vp_share_at(s, owner, n, unit), end = vp_share_at(s, owner + 1, n, unit);
        if (end > at && bring(s, owner, item(x, at, bytes), item(x, at, bytes), (uint64_t)(end - at) * bytes, err))
            return -1;
    }
    return 0;
}

int vp_share_place(const struct vp_share *s, struct vp_pair *pair, struct vp_pair_place *place, int64_t unit, int rc,
                   struct vp_err *err)
{
    const int64_t mine = rc ? 0 : place->used ? unit : -1;
    bool alike = true;
    if (!s->ranks)
        return rc;
    int64_t *const all = vp_alloc((size_t)s->size, sizeof *all, "the devices of ranks", err);
    rc = vp_ranks_agree(s->ranks, rc || !all ? -1 : 0, &mine, sizeof mine, all, err);
    for (int i = 0; i < s->size && !rc; i++)
        alike = alike && all[i] == mine;
    free(all);
    if (rc || alike)
        return rc ? -1 : 0;
    if (place->used && !place->automatic)
        rc = vp_fail(err, VP_ERESOURCE, "expected GPUs on all ranks, that hold the same slabs");
    else if (place->used)
        vp_pair_refuse(pair, place, "other ranks have no GPU for it");
    return vp_ranks_agree(s->ranks, rc, NULL, 0, NULL, err) ? -1 : 1;
}

int vp_share_expect(const struct vp_share *s, const char *path, int *slot, struct vp_err *err)
{
    enum { LONGEST = 4096 };
    char name[LONGEST] = "", (*all)[LONGEST];
    *slot = -1;
    if (!s->ranks)
        return 0;
    all = vp_alloc((size_t)s->size, sizeof *all, "the names of files", err);
    int rc = !all || (s->rank == 0 && vp_outfile_propose(path, name, sizeof name, err)) ? -1 : 0;
    rc = vp_ranks_agree(s->ranks, rc, name, sizeof name, all, err);
    if (!rc && s->rank > 0)
        rc = (*slot = vp_outfile_expect(all[0], err)) < 0 ? -1 : 0;
    free(all);
    return vp_ranks_agree(s->ranks, rc, NULL, 0, NULL, err);
}

/* Gathers a number of each rank, malloc'd. NULL: an error. */
static int64_t *gather(const struct vp_share *s, int64_t value, struct vp_err *err)
{
    int64_t *const all = vp_alloc((size_t)s->size, sizeof *all, "numbers of ranks", err);
    if (!vp_ranks_agree(s->ranks, all ? 0 : -1, &value, sizeof value, all, err))
        return all;
    free(all);
    return NULL;
}

int vp_share_least(const struct vp_share *s, int64_t *value, struct vp_err *err)
{
    int64_t *const all = s->ranks ? gather(s, *value, err) : NULL;
    for (int i = 0; i < s->size && all; i++)
        *value = vp_min64(*value, all[i]);
    free(all);
    return s->ranks && !all ? -1 : 0;
}

int vp_share_sum(const struct vp_share *s, int64_t *value, struct vp_err *err)
{
    int64_t *const all = s->ranks ? gather(s, *value, err) : NULL;
    for (int i = 0; i < s->size && all; i++)
        *value = i ? *value + all[i] : all[0];
    free(all);
    return s->ranks && !all ? -1 : 0;
}

/* Returns the rank that owns item i. */
static int owner_of(const struct vp_share *s, int64_t n, int64_t unit, int64_t i)
{
    int owner = 0;
    while (vp_share_at(s, owner + 1, n, unit) <= i)
        owner++;
    return owner;
}

int vp_share_one(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, int64_t i, struct vp_err *err)
{
    return s->ranks ? bring(s, owner_of(s, n, unit, i), item(x, i, bytes), item(x, i, bytes), bytes, err) : 0;
}

/* Parts that lie in a scratch folder are read one after the other. */
static int write_alone(struct vp_writer *writer, const void *x, uint64_t bytes, int64_t first, int64_t last, int threads,
                       struct vp_err *err)
{
    const int64_t most = vp_spill_holds(x) ? vp_max64(1, (64 << 20) / (int64_t)bytes) : last - first;
    for (int64_t i = first; i < last; i += most) {
        const int64_t n = vp_min64(most, last - i);
        if (!vp_spill_fetch(item(x, i, bytes), (uint64_t)n * bytes, false))
            return vp_spill_check(err);
        if (vp_writer_pages(writer, n, item(x, i, bytes), threads, err))
            return -1;
        vp_spill_leave(item(x, i, bytes), (uint64_t)n * bytes, false);
    }
    return 0;
}

int vp_share_write(const struct vp_share *s, struct vp_writer *writer, const void *x, int64_t n, int64_t unit, uint64_t bytes,
                   int64_t first, int64_t last, int threads, struct vp_err *err)
{
    enum { BYTES = 16 << 20 };
    struct vp_err why = VP_ERR_INIT;
    const int64_t most = vp_max64(1, BYTES / (int64_t)bytes);
    bool bad = !writer;
    if (!s->ranks)
        return !writer ? -1 : write_alone(writer, x, bytes, first, last, threads, err);
    void *const buffer = s->rank == 0 ? vp_alloc_raw((size_t)most, bytes, "the pages of ranks", err) : NULL;
    if (s->rank == 0 && !buffer) {
        vp_ranks_stop(s->ranks); /* others send to it */
        return -1;
    }
    for (int64_t i = first, count; i < last; i += count) {
        const int owner = owner_of(s, n, unit, i);
        count = vp_min64(vp_min64(most, last - i), vp_share_at(s, owner + 1, n, unit) - i);
        if (bring(s, owner, item(x, i, bytes), buffer, (uint64_t)count * bytes, err))
            return -1; /* the buffer stays */
        if (s->rank == 0 && !bad)
            bad = vp_writer_pages(writer, count, owner ? buffer : item(x, i, bytes), threads, &why) != 0;
    }
    free(buffer);
    return s->rank == 0 && bad ? vp_err_keep(err, &why) : 0;
}
