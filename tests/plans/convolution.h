/* SPDX-License-Identifier: BSD-3-Clause */
/* Random kernels of img-convolve and img-deconvolve. */
#pragma once

#include "family.h"
#include "base/fft64.h"
#include "local/convolve.h"

struct convolution {
    struct vp_convolve_given given;
    float kernels[6 * 24 * 20];
    double exact[6 * 24 * 20];
};

/* Samples of f32 become f64, sometimes, where FFTW is linked. */
static inline void adapt_convolution(struct scene *s)
{
    if (s->held == VP_F32 && &vp_fftw && draw_int(0, 1))
        s->stored[0] = s->stored[1] = s->held = VP_F64;
}

static inline void draw_convolution(struct params *p, const struct scene *s, struct convolution *k)
{
    static const char *const method[] = {NULL, "fft", "direct"};
    struct vp_convolve_given *g = &k->given;
    const bool deep = s->n[2] > 1 && draw_int(0, 3) == 0, grid = !deep && draw_int(0, 2) == 0;

    *g = (struct vp_convolve_given){.n = {draw_int(1, 20), draw_int(1, 24), 1}, .nodes = {1, 1}};
    if (deep)
        for (int a = 0; a < 3; a++)
            g->n[a] = draw_int(1, 7);
    if (grid) {
        g->nodes[0] = draw_int(1, 3);
        g->nodes[1] = draw_int(1, 2);
        g->weights = draw_int(0, 1) ? VP_WEIGHTS_SOURCE : VP_WEIGHTS_OUTPUT;
    } else {
        g->method = method[draw_int(0, 2)];
    }
    g->correlate = draw_int(0, 1);
    g->normalize = draw_int(0, 1);
    say(p, " %dx%dx%d grid %dx%d %s %s%s%s", (int)g->n[0], (int)g->n[1], (int)g->n[2], (int)g->nodes[0], (int)g->nodes[1],
        g->weights ? "source" : "output", g->method ? g->method : "auto", g->correlate ? " --correlate" : "",
        g->normalize ? " --normalize" : "");
    g->edge = draw_edge(p);
    if (draw_int(0, 2) == 0 && g->edge != VP_EDGE_RENORMALIZE) {
        g->crop = VP_CROP_FULL;
        say(p, " --crop full");
    } else if (draw_int(0, 2) == 0) {
        g->crop = VP_CROP_VALID;
        for (int a = 0; a < 3; a++)
            g->n[a] = g->n[a] > s->n[a] ? s->n[a] : g->n[a];
        say(p, " --crop valid (%dx%dx%d)", (int)g->n[0], (int)g->n[1], (int)g->n[2]);
    }
    for (size_t i = 0; i < sizeof k->kernels / sizeof *k->kernels; i++) {
        k->kernels[i] = (float)draw_int(1, 999) / 1000;
        k->exact[i] = (double)k->kernels[i] / 3;
    }
    g->kernels = k->kernels;
    g->exact = k->exact;
    g->fft = &vp_fftw;
    p->out = g->normalize ? draw_type(p) : VP_F32;
}
