/* SPDX-License-Identifier: BSD-3-Clause */
/* The last failure of a thread, for interfaces whose functions return -1 and keep a line of text. */
#ifndef VP_FAILURE_CUH
#define VP_FAILURE_CUH

#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdio>

namespace vp
{

struct failure {
    char text[512];
    bool memory; /* it was device memory that fell short */

    __attribute__((format(printf, 2, 3))) int say(const char *format, ...)
    {
        va_list list;
        va_start(list, format);
        vsnprintf(text, sizeof text, format, list);
        va_end(list);
        return -1;
    }

    int check(cudaError_t e, const char *what)
    {
        if (e == cudaSuccess)
            return 0;
        memory = e == cudaErrorMemoryAllocation;
        cudaGetLastError(); /* or the next launch would report it again */
        return say("%s: %s", what, cudaGetErrorString(e));
    }
};

}

#endif
