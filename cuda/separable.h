/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations made of 1-D filters of local/gauss.h along x, y and z, on the device: what gauss.cu and log.cu share. */
#ifndef VP_SEPARABLE_H
#define VP_SEPARABLE_H

#include "local.h"

extern "C" {
#include "local/gauss.h"
}

namespace vp
{

/* filters = 1: filter[axis][0]. filters = 2: the sum of second derivatives of local/log.h, [0] smooth and [1] second. */
struct separable {
    int filters;
    const vp_taps *filter[3][2];
    bool highpass;
};

/* As in struct vp_kernel. */
bool separable_has(const vp_op *op, const separable &s, char *why, size_t size);
uint64_t separable_scratch(const vp_op *op, const separable &s, const int64_t in[3], const int64_t out[3]);
uint64_t separable_table(const separable &s);
void separable_fill(const separable &s, void *table);
int separable_launch(const vp_op *op, const separable &s, const vp_work *args, vp_err *err);

/* The functions of struct vp_kernel for the operation whose filters FILTERS finds. */
template <separable (*FILTERS)(const vp_op *)> struct separable_kernel {
    static bool has(const vp_op *op, char *why, size_t size) { return separable_has(op, FILTERS(op), why, size); }
    static uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
    {
        return separable_scratch(op, FILTERS(op), in, out);
    }
    static uint64_t table(const vp_op *op) { return separable_table(FILTERS(op)); }
    static void fill(const vp_op *op, void *table) { separable_fill(FILTERS(op), table); }
    static int launch(const vp_op *op, const vp_work *args, vp_err *err)
    {
        return separable_launch(op, FILTERS(op), args, err);
    }
};

}

#endif
