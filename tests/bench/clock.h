/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of benchmarks. */
#pragma once

#include "base/size.h"

#include <time.h>

/* Returns seconds: of one thread the time of the processor, because others may have it in between. */
static inline double bench_now(int threads)
{
    struct timespec t;
    if (threads > 1)
        return vp_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
