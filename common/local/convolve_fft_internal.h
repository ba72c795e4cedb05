/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: memory of a thread, shared by convolve_fft.c (spectra, tasks of a box), convolve_cells.c
 * and convolve_general.c (tiles). Private to them. */
#ifndef VP_CONVOLVE_FFT_INTERNAL_H
#define VP_CONVOLVE_FFT_INTERNAL_H

#include "local/convolve_internal.h"

#include "base/team.h"

enum {
    VP_CONVOLVE_CHUNK = 8,            /* vectors of 16 columns loaded, and stored, together */
    VP_CONVOLVE_MAX_BLOCKS = 4096 / 4 /* maximum blocks of a tile */
};

/* Sizes of a tile. */
struct vp_convolve_sizes {
    int64_t lanes, e;         /* floats of an element: 2 lanes */
    int64_t blocks;           /* blocks of columns */
    int64_t half, rows;       /* frequencies along the first axis; rounded up to whole lanes */
    int64_t groups;           /* groups of `lanes` rows */
    int64_t mid;              /* transforms along y of volumes; else 1 */
    int64_t x;                /* elements of a row */
    int64_t spectrum;         /* floats */
    int64_t load;             /* floats between rows that are loaded or stored */
};

/* Memory of a thread. */
struct vp_convolve_work {
    struct vp_convolve_sizes s;
    struct vp_team_loop *loop; /* NULL: no other thread shares its loops */
    const float *spectra;     /* [row of nodes modulo `node_rows`][node][piece] */
    int64_t node_rows;
    float *f;                 /* [block][mid][row]: frequencies of columns */
    float *g[2];              /* cells: products, before the way back up the columns */
    float *x, *y[2];          /* rows */
    float *sum;               /* sum of products of several terms: [mid][group][x] */
    float *load, *store[2];   /* rows of samples */
    double *most;             /* largest magnitudes of the columns in f; general tiles: of rows */
    float *less, *along;      /* zeros of a block; weights of the source along a row */
    const void **row;         /* rows of samples of a cell's tile; NULL: zeros */
    float *image;             /* weights of the source: the tile's results */
    struct vp_convolve_ones ones;
    bool bad;                 /* a sample was not finite */
};

/* Runs turns 0 ... n - 1 of a loop of this thread, each with the memory of the thread that takes it. */
void vp_convolve_together(struct vp_convolve_work *w, int64_t n,
                          void (*turn)(const void *of, struct vp_convolve_work *w, int64_t i), const void *of);

/* Turns of a loop over blocks of columns of volumes: transforms along y of the frequencies of z. */
struct vp_convolve_along_y { const struct vp_convolve_cpu *c; float *f; bool back; };
void vp_convolve_along_y(const void *of, struct vp_convolve_work *w, int64_t b);

/* Fills at[] with the addresses of the blocks of columns in f, at index `mid` of y. */
void vp_convolve_blocks_at(const struct vp_convolve_sizes *s, float *f, int64_t mid, float **at, int64_t blocks);

/* True if products of several terms are added up before the inverse transform. */
bool vp_convolve_needs_sum(const struct vp_convolve_params *p);

/* Makes tiles x0 ... x1 - 1 of row iy of tiles of plane z: one kernel of images, or cells of a grid. */
int vp_convolve_cells(const struct vp_convolve_job *j, struct vp_convolve_work *w, int64_t x0, int64_t x1, int64_t iy,
                      int64_t z, struct vp_err *err);
/* Makes the tile whose first result is voxel at[]: volumes, weights of the source, kernels in pieces. */
int vp_convolve_general(const struct vp_convolve_job *j, struct vp_convolve_work *w, const int64_t at[3],
                        struct vp_err *err);

#endif
