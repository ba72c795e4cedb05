/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/place.h"

#include "app/tool.h"
#include "base/err.h"
#include "base/stats.h"
#include "device/device.h"
#include "engine/rates.h"

#include <stdlib.h>
#include <string.h>

/* The pair takes about this many times as long as FDK's back-projection, for which rates are. */
static const double SLOWER = 3;

int vp_place_choose(const struct vp_run *run, double updates, struct vp_pair_place *place, struct vp_err *err)
{
    const char *const name = run->common.device;
    const struct vp_effort effort = {.on_cpu = SLOWER * updates / vp_rates.cpu_updates / (double)run->common.threads,
                                     .start = vp_rates.device_start, .work = SLOWER * updates / vp_rates.gpu_updates};
    const struct vp_backend *backend;
    int *devices = NULL, n;
    *place = (struct vp_pair_place){.automatic = !strcmp(name, "auto")};
    if (place->automatic && !vp_choose(&effort, 1))
        return 0;
    vp_devices_only(name);
    if (vp_devices_find(&backend, &devices, &n, name, err))
        return -1;
    const bool able = !backend->on_host && backend->kernels && backend->kernels("pair");
    if (able) {
        place->backend = backend;
        while (place->n_devices < n && place->n_devices < VP_PAIR_DEVICES) {
            place->devices[place->n_devices] = devices[place->n_devices];
            place->n_devices++;
        }
    }
    free(devices);
    return able || backend->on_host || place->automatic
         ? 0 : vp_fail(err, VP_ERESOURCE, "device %s: its plugin has no kernels for the pair", name);
}

void vp_place_report(struct vp_run *run, const struct vp_pair_place *place)
{
    vp_stats_text(run->stats, "device", place->used ? place->backend->name : "cpu");
    if (*place->refused)
        vp_note(run, "on the CPU: %s", place->refused);
}

void vp_place_settle(void)
{
    vp_devices_settle();
}
