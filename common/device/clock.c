/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/clock.h"

#include "base/err.h"

#include <stdlib.h>

int vp_clock_start(struct vp_clock *c, struct vp_queue *q, struct vp_err *err)
{
    const struct vp_backend *k = c->backend;
    if (c->n == c->capacity) {
        const int capacity = c->capacity ? 2 * c->capacity : 64;
        struct vp_clock_span *grown = realloc(c->span, (size_t)capacity * sizeof *grown);
        if (!grown)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        c->span = grown;
        c->capacity = capacity;
    }
    struct vp_clock_span *t = &c->span[c->n++];
    *t = (struct vp_clock_span){.from = NULL};
    if (k->event_create(c->device, false, &t->from, err) || k->event_create(c->device, false, &t->to, err))
        return -1;
    return k->event_record(q, t->from, err);
}

int vp_clock_stop(struct vp_clock *c, struct vp_queue *q, struct vp_err *err)
{
    return c->backend->event_record(q, c->span[c->n - 1].to, err);
}

int vp_clock_pending(const struct vp_clock *c, int most)
{
    int n = 0;
    while (n < most && n < c->n && !c->backend->event_query(c->span[c->n - 1 - n].to))
        n++;
    return n;
}

double vp_clock_seconds(const struct vp_clock *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += c->backend->event_elapsed(c->span[i].from, c->span[i].to);
    return sum;
}

void vp_clock_close(struct vp_clock *c)
{
    for (int i = 0; i < c->n; i++) {
        c->backend->event_destroy(c->span[i].from);
        c->backend->event_destroy(c->span[i].to);
    }
    free(c->span);
    c->span = NULL;
    c->n = c->capacity = 0;
}
