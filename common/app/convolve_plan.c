/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/convolve_plan.h"

#include "app/image.h"
#include "app/tool.h"
#include "base/isa.h"
#include "engine/rates.h"
#include "local/convolve_model.h"

/* Returns the pages; 0: not known. */
static double pages_of(const struct vp_images *im)
{
    return im->size[2] >= VP_UNKNOWN || im->outer >= VP_UNKNOWN
           ? 0 : (double)im->size[2] * (double)im->inner * (double)im->outer;
}

int vp_convolve_plan(struct vp_run *run, const struct vp_images *im, const struct vp_op *op, const char *model,
                     struct vp_err *err)
{
    const double pages = pages_of(im);
    struct vp_convolve_speed speed;
    struct vp_convolve_layout l;
    struct vp_convolve_times t;

    if (model && !run->common.plan)
        return vp_fail(err, VP_EUSAGE, "--model needs --plan");
    if (model && vp_convolve_speed_read(&speed, model, err))
        return -1;
    if (!run->common.plan)
        return 0;
    if (!model)
        vp_convolve_speed(&speed, &vp_rates, vp_isa_name());
    const int rc = vp_convolve_layout_make(&l, op, pages > 0 ? pages : 1, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    vp_convolve_predict(&t, &l, &vp_rates, &speed, 1);
    vp_report_plan(run, "work", "%.0f tiles a page, %.1f kernels each; %.3g operations a kernel and page", t.tiles,
                   t.kernels, t.operations);
    vp_report_plan(run, "borders", "%.2f samples a result are loaded again, %.1f %% of the work; spectra %.1f %%",
                   t.border, 100 * t.communication / (t.compute + t.spectra), 100 * t.spectra / (t.compute + t.spectra));
    for (int64_t n = 1, most = run->common.threads; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
        vp_convolve_predict(&t, &l, &vp_rates, &speed, (int)n);
        vp_report_plan(run, "on the CPU", "%lld thread%s: %.3g s%s, efficiency %.0f %%, largest share %.2f of the mean",
                       (long long)n, n > 1 ? "s" : "", t.seconds, pages > 0 ? "" : " a page", 100 * t.efficiency,
                       t.balance);
    }
    vp_convolve_layout_free(&l);
    return 0;
}
