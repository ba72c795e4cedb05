/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that are compiled for each instruction set of x86-64, one of which is picked as a program starts. */
#pragma once

/* not with ThreadSanitizer: clones are picked before its run time is up */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif
