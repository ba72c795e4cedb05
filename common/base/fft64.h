/* SPDX-License-Identifier: BSD-3-Clause */
/* Transforms of doubles. None is ours: a program that works in float64 brings a library as this table, and
 * hands it to its operation. */
#pragma once

#include <stdint.h>

struct vp_fft64 {
    const char *name;
    /* A plan for n[2] x n[1] x n[0] real samples ([z][y][x]) and their n[2] x n[1] x (n[0] / 2 + 1) frequencies
     * (pairs); the same plan for the same n, in every process. NULL: there is none. */
    void *(*make)(const int64_t n[3]);
    /* Not scaled: there and back is times n. Memory is aligned to 64 bytes, and what is read may be overwritten. Any
     * number of threads at a time. */
    void (*forward)(const void *plan, double *samples, double *frequencies);
    void (*back)(const void *plan, double *frequencies, double *samples);
    void (*free)(void *plan);
};

/* Returns FFTW's table (fftw/fftw.c), in programs that are linked with it; else its address is NULL. */
extern const struct vp_fft64 vp_fftw __attribute__((weak));
