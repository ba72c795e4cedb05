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
enum { VP_RUN = 16 };
/* How tiles of transforms are laid out. */
enum vp_convolve_tiles {
    VP_STRIPS,  /* one kernel of images: VP_RUN tiles in a row share the transforms of their columns */
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
    double *plane;             /* sums of the planes of a single kernel */
    int64_t out[3];            /* outputs of a tile (of sums: of a block), at most */
    struct vp_line along[3];   /* transforms along x, y, z as far as there are any; of along[first] the half */
    /* strips, cells: where tiles begin (and the last ends), and the cell of each */
    int64_t *at[2], *cell[2], n_at[2];
    int64_t shift;             /* cells: columns that a tile may begin before its first one, to share blocks of 16 */
    bool keeps;                /* all spectra stay; else those of some rows of nodes are in the scratch */
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

/* A result near an edge is its sum times `factor` plus `more`. */
struct vp_convolve_ending { double factor, more; };

/* A constant that is taken off all samples before they are summed up; those that are 0 beyond the edge count as it. */
struct vp_convolve_less {
    double base;
    const double *off; /* NULL, or what more is taken off the plane that plane k of the kernel meets */
    /* NULL, or room for the endings of a row's voxels, which are those of other rows at the same x that no edge along y is
     * near; those of x0 ... x0 + n - 1 are there. */
    struct vp_convolve_ending *ending;
    int64_t x0, n;
};

/* Where sample q along an axis is taken from; -1: it is 0, or no result depends on it. */
int64_t vp_convolve_place(const struct vp_convolve_job *j, int axis, int64_t q);
/* Samples and results are floats while they are worked on, or (where p->exact is given) doubles. Samples x ... x + n -
 * 1 of row (y, z) minus `less`, with what the edge's rule makes up and 0 where nothing is; whether one is not finite,
 * which is then 0, too. */
bool vp_convolve_load(const struct vp_convolve_job *j, void *to, int64_t x, int64_t n, int64_t y, int64_t z, double less);
/* The constant of a box of results in plane z: the median of a few samples, which depend on the box alone. It must not
 * depend on chunks, nor must the box. */
double vp_convolve_constant(const struct vp_convolve_job *j, const struct vp_box *box, int64_t z);
/* True if samples are so far from the others that transforms would lose these: `most` are the largest magnitudes of n
 * rows (or columns) of a tile. Then the tile's results are sums as they are defined, vp_convolve_sum(). */
bool vp_convolve_is_spiked(const struct vp_convolve_params *p, const double *most, int64_t n, double base);
/* The results of a box, in double, of samples minus `base`: stored, or, where `to` is not NULL, to [z][y][x] of it. */
int vp_convolve_sum(const struct vp_convolve_job *j, const struct vp_box *box, double base, void *to, struct vp_err *err);
/* Response of a single kernel to the constant where no edge is near. */
double vp_convolve_more(const struct vp_convolve_params *p, const struct vp_convolve_less *less);
/* Results x ... x + n - 1 of row (y, z), as far as they are wanted: those of weights of the output are given as sums of
 * what `less` was taken off, and are completed here (`v` is overwritten). */
void vp_convolve_store(const struct vp_convolve_job *j, void *v, int64_t x, int64_t n, int64_t y, int64_t z,
                       struct vp_convolve_less *less);
/* NaN to all results in `box` that a sample reaches which is not finite. */
int vp_convolve_spoil(const struct vp_convolve_job *j, const struct vp_box *box, struct vp_err *err);
/* All of a box in tiles of side[] voxels, for which each thread has `bytes` of the scratch: make() finds out whether one
 * of the samples was not finite. */
int vp_convolve_tiles(struct vp_convolve_job *j, const int64_t side[3], size_t bytes, void *scratch, int threads,
                      int (*make)(const struct vp_convolve_job *j, const struct vp_box *tile, void *mem, bool *bad,
                                  struct vp_err *err),
                      struct vp_err *err);
/* The weight of node `node` along an axis at q, rounded as its use asks for. */
double vp_convolve_weight(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q);
/* Nodes a ... b whose weight is not nothing somewhere in lo ... hi - 1. */
void vp_convolve_nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a, int64_t *b);

/* Sums of a tile with weights at the source. */
struct vp_convolve_ones {
    double *ones[2];           /* weights of each result: everywhere, and where samples are */
    double *rows, *sums[2];    /* sums along x; of a row or column up to each place, and of the places times that */
};

/* Its room at *at of `mem` (NULL: only how much), nothing for other weights. */
void vp_convolve_ones_place(struct vp_convolve_ones *o, const struct vp_convolve_params *p, void *mem, size_t *at);
/* The results of a tile at `at` of samples minus `base`, [y][x] of out[], completed and stored; overwritten. */
void vp_convolve_store_source(const struct vp_convolve_job *j, const struct vp_convolve_ones *o, const int64_t at[3],
                              void *image, double base);

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, int threads);
int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
/* Bytes of all spectra with so many lanes. */
uint64_t vp_convolve_spectra(const struct vp_convolve_params *p);

uint64_t vp_convolve_direct_scratch(const struct vp_op *op, int threads);
int vp_convolve_direct(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
void vp_convolve_direct_blocks(struct vp_convolve_cpu *c); /* where they begin: c->out */
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
