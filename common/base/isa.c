/* SPDX-License-Identifier: BSD-3-Clause */
/* Which build of code for several instruction sets runs here. */
#include "base/isa.h"

#include <stddef.h>
#include <string.h>

const void *vp_isa_choose(const char *name, const void *avx512, const void *avx2, const void *generic)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (avx512 && __builtin_cpu_supports("x86-64-v4") && (!name || !strcmp(name, "avx512")))
        return avx512;
    if (avx2 && __builtin_cpu_supports("x86-64-v3") && (!name || !strcmp(name, "avx2")))
        return avx2;
#endif
    return !name || !strcmp(name, "generic") ? generic : NULL;
}
