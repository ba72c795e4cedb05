/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/deconvolve.h"
#include "convolution.h"

static struct { struct convolution kernel; int64_t iterations; bool accelerate; } own;

static void draw(struct params *p, const struct scene *s)
{
    draw_convolution(p, s, &own.kernel);
    own.iterations = draw_int(1, 3);
    own.accelerate = draw_int(0, 1);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_op op;
    return vp_deconvolve_local(&op, &(struct vp_deconvolve_given){.kernel = own.kernel.given, .iterations = own.iterations,
                               .accelerate = own.accelerate}, r->im.size, r->im.type, r->out, err)
           || vp_chain_add(c, &op, err);
}

FAMILY(.program = "img-deconvolve", .adapt = adapt_convolution, .draw = draw, .chain = chain, .unbanded = true, .alone = true)
