/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that divide items among themselves. */
#include "app/ranked_internal.h"

#include "ct/pair.h"
#include "base/stats.h"
#include "app/open.h"
#include "stack/outfile.h"

#include <stdio.h>
#include <string.h>

struct vp_share vp_ranked_share(const struct vp_ranked *r)
{
    return r ? (struct vp_share){r->ranks, r->rank, r->size} : (struct vp_share){.size = 1};
}

bool vp_ranked_leads(const struct vp_ranked *r)
{
    return !r || r->rank == 0;
}

int vp_ranked_file(const struct vp_ranked *r, const struct vp_reader *reader, struct vp_err *err)
{
    return !r || !reader || vp_reader_seekable(reader) ? 0 : vp_ranked_no_file(vp_reader_name(reader), err);
}

int vp_ranked_place(struct vp_ranked *r, struct vp_pair_place *place, int rc, struct vp_err *err)
{
    int first;
    if (!r)
        return rc;
    if (vp_ranked_devices(r, place->backend, place->devices, &place->n_devices, &first, &place->memory, rc, err))
        return -1;
    memmove(place->devices, place->devices + first, (size_t)place->n_devices * sizeof *place->devices);
    return 0;
}

int vp_ranked_output(struct vp_ranked *r, struct vp_run *run, const struct vp_stack *out, struct vp_writer **writer, int rc,
                     struct vp_err *err)
{
    const char *const path = run->common.output;
    if (!r)
        return rc || vp_open_output(run, out, writer, err) ? -1 : 0;
    const struct vp_share s = vp_ranked_share(r);
    if (vp_ranked_agree(r, rc, NULL, 0, NULL, err)
        || (path && strcmp(path, "-") && vp_share_expect(&s, path, &r->expected, err)))
        return -1;
    return vp_ranked_agree(r, r->rank == 0 ? vp_open_output(run, out, writer, err) : 0, NULL, 0, NULL, err);
}

int vp_ranked_close_output(struct vp_ranked *r, struct vp_run *run, struct vp_reader *reader, struct vp_writer *writer, int rc,
                           struct vp_err *err)
{
    const bool all = !rc; /* after a failure they have agreed */
    rc = vp_close(run, reader, writer, rc, err);
    if (r && all)
        rc = vp_ranked_agree(r, rc, NULL, 0, NULL, err);
    if (r)
        vp_outfile_arrived(r->expected);
    return rc ? vp_ranked_end(r, run, err) : 0;
}

int vp_ranked_together(struct vp_ranked *r, int rc, struct vp_err *err)
{
    return r ? vp_ranked_agree(r, rc, NULL, 0, NULL, err) : rc;
}

int vp_ranked_worked(struct vp_ranked *r, int rc, struct vp_err *err)
{
    if (r && r->ranks && rc)
        vp_ranks_stop(r->ranks);
    return vp_ranked_together(r, rc, err);
}

void vp_ranked_plan(const struct vp_ranked *r, struct vp_run *run, const char *items, int64_t n, int64_t unit)
{
    enum { SHOWN = 8 };
    char text[40 * (SHOWN + 2)] = "";
    if (!r)
        return;
    const struct vp_share s = vp_ranked_share(r);
    for (int i = 0; i < r->size; i++) {
        const int64_t at = vp_share_at(&s, i, n, unit), end = vp_share_at(&s, i + 1, n, unit);
        const size_t used = strlen(text);
        if (i == SHOWN && i < r->size - 1) {
            snprintf(text + used, sizeof text - used, ", ...");
            i = r->size - 2;
        } else if (at < end) {
            snprintf(text + used, sizeof text - used, "%s%lld to %lld", i ? ", " : "", (long long)at, (long long)end - 1);
        } else {
            snprintf(text + used, sizeof text - used, "%snone", i ? ", " : "");
        }
    }
    if (r->ranks)
        vp_report_plan(run, "ranks", "%d on %d host%s", r->size, r->hosts, r->hosts == 1 ? "" : "s");
    else
        vp_report_plan(run, "ranks", "%d", r->size);
    vp_report_plan(run, items, "%s", text);
}

void vp_ranked_count_in(const struct vp_ranked *r, struct vp_run *run)
{
    if (!r)
        return;
    vp_stats_number(run->stats, "ranks", r->size);
    vp_stats_number(run->stats, "hosts", r->hosts);
}
