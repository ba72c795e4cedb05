/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements base/fft64.h with FFTW 3, for the programs that work in float64. Plans are estimated, never measured, and
 * `wisdom` is ignored, so that they, and the bits of results, depend on lengths and alignment alone. */
#include "base/fft64.h"

#include <fftw3.h>
#include <stdlib.h>

struct plan { fftw_plan forward, back; };

static void give_back(void *plan)
{
    struct plan *p = plan;

    if (p && p->forward)
        fftw_destroy_plan(p->forward);
    if (p && p->back)
        fftw_destroy_plan(p->back);
    free(p);
}

static fftw_plan make_one(const int length[3], void *samples, void *frequencies, int back)
{
    fftw_forget_wisdom();
    return back ? fftw_plan_dft_c2r(3, length, frequencies, samples, FFTW_ESTIMATE | FFTW_DESTROY_INPUT)
                : fftw_plan_dft_r2c(3, length, samples, frequencies, FFTW_ESTIMATE | FFTW_DESTROY_INPUT);
}

static void *make(const int64_t n[3])
{
    /* planning depends on the alignment of arrays, not on their contents: execution may use others of the same
     * alignment */
    static _Alignas(64) double samples[8], frequencies[8];
    const int length[3] = {(int)n[2], (int)n[1], (int)n[0]};
    struct plan *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->forward = make_one(length, samples, frequencies, 0);
    p->back = make_one(length, samples, frequencies, 1);
    if (p->forward && p->back)
        return p;
    give_back(p);
    return NULL;
}

static void forward(const void *plan, double *samples, double *frequencies)
{
    fftw_execute_dft_r2c(((const struct plan *)plan)->forward, samples, (fftw_complex *)frequencies);
}

static void back(const void *plan, double *frequencies, double *samples)
{
    fftw_execute_dft_c2r(((const struct plan *)plan)->back, (fftw_complex *)frequencies, samples);
}

const struct vp_fft64 vp_fftw = {"FFTW", make, forward, back, give_back};
