/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of what convolution costs on n threads, for kernels that vary over the image above all: computation,
 * communication and balance, the three parts of the model of Kepner (J. Parallel Distrib. Comput. 63:360, 2003;
 * astro-ph/0107084). Pure functions, for --plan; results never depend on them.
 *
 * Computation. A tile has T1 x T2 samples, the lengths of its transforms, and N1 x N2 results, N <= T - K + 1 for
 * kernels of K1 x K2. Where m kernels have weights, in v rows of nodes, its work is
 *
 *     W = v' (load T1 T2 + T1 C) + m' (move T1 + R) G + m (product T1 + R) G + v (move N1 G + N1 C) + store N1 N2
 *
 * with C = line T2 / 2 c(T2 / 2) / 32, a column of T2 real samples, R = line T1 c(T1) / 2, a group of 16 rows, and
 * G = T2 / 32 such groups; c(L), in nanoseconds, is vp_line_cost. In a grid with weights of the output v' = m' = 1:
 * samples are transformed once, R comes back for each kernel, C for each row of kernels. With weights of the source
 * v' = v, m' = m, and there is one way back. A single kernel's tiles share columns: T1 C becomes N1 C. Kernels anywhere
 * go over the tile one by one: m times the work of one, and m mix N1 N2. A spectrum, which one thread makes for each
 * kernel, takes K1 C + (move K1 + R) G.
 *
 * Communication. Threads share the image; what they would send each other are copies of borders. A tile loads T1 T2
 * samples for N1 N2 results: border = sum over all tiles of T1 T2 - N1 N2, at `load` each.
 *
 * Balance. With the work W_t that thread t gets, balance = max W_t / mean W_t. Tiles are taken in their order, each by
 * the first thread that is free. In grids an idle thread takes turns of the loops inside the tiles of others, so that
 * not more than the last turn of a tile is waited for; tiles of kernels anywhere are taken whole.
 *
 *     seconds(n) = (spectra + sum of W) / n * balance(n) + start,    efficiency(n) = seconds(1) / (n seconds(n)) */
#pragma once

#include "engine/op.h"

struct vp_rates;

enum vp_convolve_work_kind {
    VP_WORK_LINE,              /* nanoseconds of vp_line_cost, for 16 lines */
    VP_WORK_MOVE,              /* elements of 16 rows that are gathered or scattered */
    VP_WORK_PRODUCT,           /* elements of 16 rows that are multiplied by a spectrum */
    VP_WORK_LOAD,              /* samples */
    VP_WORK_STORE,             /* results */
    VP_WORK_MIX,               /* results of one kernel, and samples of the source, that are weighted */
    VP_WORK_WEIGHT,            /* pixels whose weights are found in triangles */
    VP_WORK_ONES,              /* steps of the sums of weights of the source */
    VP_WORK_EDGE,              /* results near edges that are completed one by one */
    VP_WORK_SUM,               /* nanoseconds, by vp_op.cost, of a method without transforms */
    VP_WORK_KINDS
};

struct vp_convolve_amounts { double of[VP_WORK_KINDS]; };

/* Tiles in the order in which they are taken. */
struct vp_convolve_tile { int32_t n[2], kernels, rows, ones, edge; };

struct vp_convolve_layout {
    int64_t kernel[2], tile[2]; /* K, T; without transforms T is a block of results and its border */
    int64_t cells;             /* nodes of the grid, or kernels anywhere */
    int64_t n;                 /* tiles of a plane */
    struct vp_convolve_tile *tiles;
    double planes;             /* pages that are convolved */
    int64_t spectra;
    bool anywhere, source, strips;
    double sum;                /* nanoseconds of a result, of a method without transforms; else 0 */
};

/* A machine: times of what is compiled for its instruction set, over those of vp_line_cost, and of plain code, over
 * those of the table of rates. */
struct vp_convolve_speed { double vector, scalar; };

struct vp_convolve_times {
    double tiles, cells;       /* numbers */
    double operations;         /* additions and multiplications of a cell, on average */
    double kernels;            /* in a tile, on average */
    double border;             /* samples loaded beyond the results, over the results */
    double spectra, compute, communication; /* seconds of one thread; communication is part of compute */
    double balance, seconds, efficiency; /* by all n threads */
};

/* Fills *l for the operation "convolve" or "convolve-anywhere"; its memory is freed by vp_convolve_layout_free. 1:
 * there is none (volumes' kernels, f64). VP_ERESOURCE. */
int vp_convolve_layout_make(struct vp_convolve_layout *l, const struct vp_op *op, double planes, struct vp_err *err);
void vp_convolve_layout_free(struct vp_convolve_layout *l);
/* Returns the work of a tile, and of a spectrum (tile NULL). */
struct vp_convolve_amounts vp_convolve_work_of(const struct vp_convolve_layout *l, const struct vp_convolve_tile *tile);
/* Fills the speed of an instruction set ("avx512") by the table of rates. */
void vp_convolve_speed(struct vp_convolve_speed *s, const struct vp_rates *rates, const char *isa);
/* Reads `convolve_vector = ...` and `convolve_scalar = ...`, as `make model` measures them; other keys are for other
 * programs. VP_EUSAGE. */
int vp_convolve_speed_read(struct vp_convolve_speed *s, const char *path, struct vp_err *err);
/* Returns the seconds of one thread. */
double vp_convolve_seconds(const struct vp_convolve_amounts *w, const struct vp_rates *rates,
                           const struct vp_convolve_speed *speed);
/* Fills what n threads take. */
void vp_convolve_predict(struct vp_convolve_times *t, const struct vp_convolve_layout *l, const struct vp_rates *rates,
                         const struct vp_convolve_speed *speed, int threads);
