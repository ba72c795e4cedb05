/* SPDX-License-Identifier: BSD-3-Clause */
/* What convolve.c (what is asked for, the choice of a method), convolve_rows.c (samples and edges), convolve_fft.c and
 * convolve_direct.c share. */
#ifndef VP_CONVOLVE_INTERNAL_H
#define VP_CONVOLVE_INTERNAL_H

#include "base/fft.h"
#include "base/fft64.h"
#include "local/convolve.h"
#include "local/convolve_isa.h"

#include <pthread.h>

enum vp_convolve_method { VP_DIRECT, VP_SEPARABLE, VP_FFT };
/* How tiles of transforms are laid out. */
enum vp_convolve_tiles {
    VP_STRIPS,  /* one kernel of images: tiles in a row share the transforms of their columns */
    VP_CELLS,   /* a grid with weights of the output: the same within cells */
    VP_GENERAL  /* volumes, weights of the source, kernels in pieces */
};

/* Of f64 samples. */
struct vp_convolve_f64 {
    const struct vp_fft64 *fft;
    void *plan;
    bool keeps;                /* all spectra stay; else each is made where it is needed */
    double *spectra;           /* [node], of `values` numbers, made when the first part is run */
    int64_t samples, values;   /* of a tile, of its frequencies */
};

struct vp_convolve_cpu {
    enum vp_convolve_method method;
    const struct vp_convolve_isa *isa;
    void *taps[3];             /* separable: along each axis, in the order of samples; direct: all of them in taps[0] */
    enum vp_convolve_tiles tiles;
    const struct vp_line_isa *fft;
    int first;                 /* the axis of the real columns: 1, of volumes 2 */
    int64_t tile[3];           /* lengths of the transforms; 1 along z of images */
    int64_t piece[3], pieces[3]; /* of a kernel: samples, and how many along each axis */
    int64_t out[3];            /* outputs of a tile, at most */
    struct vp_line along[3];   /* transforms along x, y, z as far as there are any; of along[first] the half */
    /* strips, cells: where tiles begin (and the last ends), and the cell of each */
    int64_t *at[2], *cell[2], n_at[2];
    int64_t shift;             /* cells: columns that a tile may begin before its first one, to share blocks of 16 */
    bool keeps;                /* all spectra stay; else those of some rows of nodes are in the scratch */
    double *across;            /* sums of the kernels' columns, in the order of samples, for each node */
    double *total;             /* of each kernel */
    pthread_mutex_t lock;
    float *spectra;            /* [node][piece], or NULL; `made` when the first part is run */
    bool made;
    struct vp_convolve_f64 *exact; /* of f64, else NULL: what there is instead of lines and spectra */
};

/* One call of run(). */
struct vp_convolve_job {
    const struct vp_op *op;
    const struct vp_convolve_params *p;
    const struct vp_convolve_cpu *c;
    const struct vp_part *in, *out;
    int64_t lo[3], hi[3];      /* the samples that exist */
};

static inline bool vp_convolve_is_grid(const struct vp_convolve_params *p)
{
    return p->nodes[0] * p->nodes[1] > 1;
}

static inline double vp_convolve_kernel_at(const struct vp_convolve_params *p, int64_t i)
{
    return p->exact ? p->exact[i] : p->kernels[i];
}

/* Whether the samples beyond the edges are made of those that exist. */
static inline bool vp_convolve_makes_up(const struct vp_convolve_params *p)
{
    return p->edge != VP_EDGE_ZERO && p->edge != VP_EDGE_RENORMALIZE;
}

/* Where sample q along an axis is taken from; -1: it is 0. */
int64_t vp_convolve_place(const struct vp_convolve_job *j, int axis, int64_t q);
/* Samples and results are floats while they are worked on, or (where p->exact is given) doubles. Samples x ... x + n -
 * 1 of row (y, z), with what the edge's rule makes up; whether one is not finite, which is then 0. */
bool vp_convolve_load(const struct vp_convolve_job *j, void *to, int64_t x, int64_t n, int64_t y, int64_t z);
/* Results x ... x + n - 1 of row (y, z), as far as they are wanted; `v` is scaled as the edge asks for. */
void vp_convolve_store(const struct vp_convolve_job *j, void *v, int64_t x, int64_t n, int64_t y, int64_t z);
/* NaN to all results in `box` that a sample reaches which is not finite. */
int vp_convolve_spoil(const struct vp_convolve_job *j, const struct vp_box *box, struct vp_err *err);
/* All of a box in tiles of side[] voxels, for which each thread has `bytes` of the scratch: make() says whether one of
 * the samples was not finite. */
int vp_convolve_tiles(struct vp_convolve_job *j, const int64_t side[3], size_t bytes, void *scratch, int threads,
                      bool (*make)(const struct vp_convolve_job *j, const struct vp_box *tile, void *mem),
                      struct vp_err *err);
/* The weight of node `node` along an axis at q, rounded as its use asks for. */
double vp_convolve_weight(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q);
/* Nodes a ... b whose weight is not nothing somewhere in lo ... hi - 1. */
void vp_convolve_nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a, int64_t *b);

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, const struct vp_box *out, int threads);
int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
/* Bytes of all spectra with so many lanes. */
uint64_t vp_convolve_spectra(const struct vp_convolve_params *p);

uint64_t vp_convolve_direct_scratch(const struct vp_op *op, int threads);
int vp_convolve_direct(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
int vp_convolve_direct_make(struct vp_convolve_params *p, struct vp_err *err);
/* Whether the kernel is a product of one along each axis; then their taps are made. */
bool vp_convolve_separable(const struct vp_convolve_params *p, struct vp_err *err);

/* Of f64: the tiles, for results of image[] voxels made of size[]; returns what they cost. Then their transforms. */
double vp_convolve_f64_choose(struct vp_convolve_params *p, const int64_t given[3], const int64_t image[3],
                              const int64_t size[3]);
int vp_convolve_f64_make(struct vp_convolve_params *p, struct vp_err *err);
uint64_t vp_convolve_f64_scratch(const struct vp_op *op, int threads);
int vp_convolve_f64(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
/* Bytes of all spectra. */
uint64_t vp_convolve_f64_spectra(const struct vp_convolve_params *p);
void vp_convolve_f64_free(struct vp_convolve_f64 *f);

#endif
