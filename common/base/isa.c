/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the build for this processor of code that is built for several instruction sets. */
#include "base/isa.h"

#include <stddef.h>
#include <string.h>

enum { GENERIC, AVX2, AVX512, SETS };
static const char *const NAMES[SETS] = {"generic", "avx2", "avx512"};
static int most = AVX512;

static bool runs(int set)
{
#ifndef __x86_64__
    return set == GENERIC;
#elif defined(__clang__) /* it does not know the levels; what they have besides comes with these */
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                      && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    return set == GENERIC || (avx2 && (set == AVX2
           || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
               && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
               && __builtin_cpu_supports("avx512vl"))));
#else
    return set == GENERIC || (set == AVX2 ? __builtin_cpu_supports("x86-64-v3")
                                          : __builtin_cpu_supports("x86-64-v4"));
#endif
}

bool vp_isa_limit(const char *name)
{
    for (int set = GENERIC; set < SETS; set++)
        if (!strcmp(name, NAMES[set])) {
            most = set;
            return true;
        }
    return false;
}

const void *vp_isa_choose(const char *name, const void *avx512, const void *avx2, const void *generic)
{
    const void *const code[SETS] = {generic, avx2, avx512};

#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    for (int set = SETS - 1; set >= 0; set--)
        if (code[set] && runs(set) && (name ? !strcmp(name, NAMES[set]) : set <= most))
            return code[set];
    return NULL;
}

const char *vp_isa_name(void)
{
    return vp_isa_choose(NULL, NAMES[AVX512], NAMES[AVX2], NAMES[GENERIC]);
}
