/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/place.h"

#include "app/tool.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/device.h"
#include "engine/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pair takes about this many times as long as FDK's back-projection, for which rates are. On a device: projection of
 * slabs of 512 slices 0.64e12 updates/s, transpose 1.79e12 (one H200); wide cones, which take other kernels, 0.31e12. */
static const double SLOWER = 3, SLOWER_ON_DEVICE = 2.1;

const struct vp_opt vp_place_options[] = {
    VP_LIMIT(struct vp_place_params, device_memory, "device-memory", 0, .metavar = "SIZE",
             .group = "Limits",
             .help = "use at most SIZE of the memory of each GPU (default: what is free)",
             .more = "If the volume does not fit, slabs of 512 slices are brought to the GPUs one after the other; the "
                     "result has the same bits. --plan shows whether this applies."),
    VP_OPT_END,
};

struct vp_pair_place vp_place_of(const struct vp_run *run, const struct vp_backend *backend, const int *devices, int n,
                                 uint64_t memory)
{
    struct vp_pair_place place = {.automatic = !strcmp(run->common.device, "auto"), .memory = memory, .backend = backend,
                                  .n_devices = n < VP_PAIR_DEVICES ? n : VP_PAIR_DEVICES};
    memcpy(place.devices, devices, (size_t)place.n_devices * sizeof *devices);
    return place;
}

int vp_place_choose(const struct vp_run *run, double updates, uint64_t memory, struct vp_pair_place *place,
                    struct vp_err *err)
{
    const char *const name = run->common.device;
    const struct vp_effort effort = {.on_cpu = SLOWER * updates / vp_rates.cpu_updates / (double)run->common.threads,
                                     .start = vp_rates.device_start, .work = SLOWER_ON_DEVICE * updates / vp_rates.gpu_updates};
    const struct vp_backend *backend;
    int *devices = NULL, n;
    *place = (struct vp_pair_place){.automatic = !strcmp(name, "auto"), .memory = memory};
    if (place->automatic && !vp_choose(&effort, 1))
        return 0;
    vp_devices_only(name);
    if (vp_devices_find(&backend, &devices, &n, name, err))
        return -1;
    const bool able = !backend->on_host && backend->kernels && backend->kernels("pair");
    if (able)
        *place = vp_place_of(run, backend, devices, n, memory);
    free(devices);
    return able || backend->on_host || place->automatic
         ? 0 : vp_fail(err, VP_ERESOURCE, "device %s: its plugin has no kernels for the pair", name);
}

void vp_place_plan(struct vp_run *run, const struct vp_pair_place *place, int64_t block, const char *what, double updates,
                   double bytes)
{
    const double devices = (double)vp_min64(place->n_devices, place->slabs);
    double seconds = SLOWER * updates / vp_rates.cpu_updates / (double)run->common.threads;
    if (place->travels)
        vp_report_plan(run, "blocks", "%lld views at once, in host memory", (long long)block);
    if (!place->used) {
        vp_report_plan(run, "device", "cpu%s%s", *place->refused ? ": " : "", place->refused);
    } else {
        char list[8 * VP_PAIR_DEVICES] = "";
        for (int d = 0; d < (int)devices; d++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", d ? "," : "", place->devices[d]);
        vp_report_plan(run, "device", "%s:%s: %lld slab%s, %s%s: %s of %s each", place->backend->name, list,
                       (long long)place->slabs, place->slabs == 1 ? "" : "s",
                       !place->travels ? "all held" : place->ahead ? "in turn, the next one beside the present one" : "in turn",
                       place->travels ? ", from host memory" : "", vp_bytes_text(place->bytes).text,
                       vp_bytes_text(place->room).text);
        seconds = (SLOWER_ON_DEVICE * updates / vp_rates.gpu_updates + bytes / vp_rates.views_up) / devices;
    }
    vp_report_plan(run, "time", "about %.2g s %s%s", seconds, what, place->used ? ", kernels and copies of slabs" : "");
}

void vp_place_report(struct vp_run *run, const struct vp_pair_place *place)
{
    vp_stats_text(run->stats, "device", place->used ? place->backend->name : "cpu");
    if (place->used)
        vp_stats_text(run->stats, "slabs", place->travels ? "in turn" : "held");
    if (*place->refused)
        vp_note(run, "on the CPU: %s", place->refused);
}

void vp_place_settle(void)
{
    vp_devices_settle();
}
