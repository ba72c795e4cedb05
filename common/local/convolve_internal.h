/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to convolve*.c: convolve.c (request, choice of a method), convolve_rows.c (samples and edges),
 * convolve_direct.c (sums), convolve_fft.c, convolve_cells.c, convolve_general.c and convolve_f64.c (transforms). */
#pragma once

#include "base/fft.h"
#include "base/fft64.h"
#include "local/convolve.h"

#include <pthread.h>

/* ---- inner loops other than transforms, built once for each instruction set (convolve_isa.c) ---- */

/* Sum of products, for four rows of output at once. */
struct vp_convolve_rows {
    const void *from;           /* sample under tap (0, 0, 0) for output (0, 0) */
    int64_t row, plane;         /* samples between rows, planes */
    const void *taps;           /* [nz][ny + 6][nx]: three rows of zeros before and after those of each plane */
    int64_t nx, ny, nz;
    void *to[4];                /* NULL: this row and the following ones are not wanted */
    int64_t n;                  /* columns; rounded up to a multiple of 16 (f64: 32) on output */
};

struct vp_convolve_isa {
    /* Loads n samples minus a constant as floats (f64: as doubles). True if a sample is not finite; it becomes 0. */
    bool (*load)(void *to, const void *from, enum vp_type type, int64_t n, double less);
    /* Returns the largest magnitude of n floats (wide: doubles). */
    double (*most)(const void *x, bool wide, int64_t n);
    /* Stores n results: f32 with non-temporal stores; integers rounded and clamped. */
    void (*store)(void *to, enum vp_type type, const float *from, int64_t n);
    /* Loads n columns (a multiple of 16) of all rows minus a constant, to rows `pitch` floats apart; row[i] NULL:
     * zeros. most[]: largest magnitudes of columns (integers: 0), not finite where a sample is not; such samples are
     * kept. */
    void (*load_rows)(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, enum vp_type type,
                      int64_t n, float less, float *most);
    /* Stores rows of n, `stride` and `pitch` floats apart, plus `more`, as f32 with non-temporal stores. */
    void (*store_rows)(float *to, int64_t stride, const float *from, int64_t pitch, int64_t rows, float more, int64_t n);
    void (*add)(float *x, float more, int64_t n);                             /* x += more */
    void (*scale)(float *x, float s, int64_t n);                              /* x *= s */
    void (*blend)(float *to, const float *a, float u, const float *b, float v, int64_t n); /* to = a u + b v */
    void (*rows)(const struct vp_convolve_rows *r);     /* f32 */
    void (*rows_f64)(const struct vp_convolve_rows *r); /* f64 */
};

extern const struct vp_convolve_isa vp_convolve_avx512, vp_convolve_avx2, vp_convolve_generic;

/* ---- methods ---- */

enum vp_convolve_method { VP_DIRECT, VP_SEPARABLE, VP_FFT };
enum { VP_RUN = 16 };
/* Layout of tiles of transforms. */
enum vp_convolve_tiles {
    VP_STRIPS,  /* one kernel of images: VP_RUN tiles in a row share the transforms of their columns */
    VP_CELLS,   /* a grid with weights of the output: the same within cells */
    VP_GENERAL  /* volumes, weights of the source, kernels in pieces */
};

/* Transforms of f64 samples. */
struct vp_convolve_f64 {
    const struct vp_fft64 *fft;
    void *plan;
    bool keeps;                /* all spectra stay; else each is made when needed */
    double *spectra;           /* [node], of `values` numbers, made when the first part is run */
    int64_t samples, values;   /* samples of a tile; numbers of its spectrum */
};

struct vp_convolve_cpu {
    enum vp_convolve_method method;
    const struct vp_convolve_isa *isa;
    void *taps[3];             /* separable: along each axis, in the order of samples; direct: all of them in taps[0] */
    enum vp_convolve_tiles tiles;
    const struct vp_line_isa *fft;
    int first;                 /* the axis of the real columns: 1, of volumes 2 */
    int64_t tile[3];           /* lengths of the transforms; 1 along z of images */
    int64_t piece[3], pieces[3]; /* pieces of a kernel: samples; number along each axis */
    int64_t out[3];            /* maximum outputs of a tile (sums: of a block) */
    struct vp_line along[3];   /* transforms along x, y, z, as needed; along[first] has half the length */
    /* strips, cells: first voxel of each tile (and end of the last); its cell */
    int64_t *at[2], *cell[2], n_at[2];
    int64_t shift;             /* cells: maximum columns before a tile's first one, to align blocks of 16 */
    bool keeps;                /* all spectra stay; else those of some rows of nodes are in the scratch */
    pthread_mutex_t lock;
    float *spectra;            /* [node][piece], or NULL; `made` when the first part is run */
    bool made;
    struct vp_convolve_f64 *exact; /* f64: replaces lines and spectra; else NULL */
};

/* One call of run(). */
struct vp_convolve_job {
    const struct vp_op *op;
    const struct vp_convolve_params *p;
    const struct vp_convolve_cpu *c;
    const struct vp_part *in, *out;
    int64_t lo[3], hi[3];      /* range of samples */
};

static inline bool vp_convolve_is_grid(const struct vp_convolve_params *p)
{
    return p->nodes[0] * p->nodes[1] > 1;
}

static inline double vp_convolve_kernel_at(const struct vp_convolve_params *p, int64_t i)
{
    return p->exact ? p->exact[i] : p->kernels[i];
}

/* True if the edge rule takes samples outside from those inside. */
static inline bool vp_convolve_makes_up(const struct vp_convolve_params *p)
{
    return p->edge != VP_EDGE_ZERO && p->edge != VP_EDGE_RENORMALIZE;
}

/* A result near an edge is its sum times `factor` plus `more`. */
struct vp_convolve_ending { double factor, more; };

/* Constant that is subtracted from all samples before they are summed; zeros beyond the edge count as the constant. */
struct vp_convolve_less {
    double base;
    const double *off; /* more that is subtracted, from the plane under plane k of the kernel; or NULL */
    /* NULL, or cache of the endings of voxels x0 ... x0 + n - 1, which are equal in all rows away from edges along y. */
    struct vp_convolve_ending *ending;
    int64_t x0, n;
};

/* Returns the position of the sample that stands for position q of an axis; -1: it is 0, or no result depends on it. */
int64_t vp_convolve_place(const struct vp_convolve_job *j, int axis, int64_t q);
/* Loads samples x ... x + n - 1 of row (y, z) minus `less` as floats, or doubles if p->exact is given, by the edge
 * rule; 0 where there is none. True if a sample is not finite, and stored as 0. */
bool vp_convolve_load(const struct vp_convolve_job *j, void *to, int64_t x, int64_t n, int64_t y, int64_t z,
                      double less);
/* Returns the constant of a box of results in plane z: the median of a few samples at positions fixed by the box. The
 * box must not depend on chunks. */
double vp_convolve_constant(const struct vp_convolve_job *j, const struct vp_box *box, int64_t z);
/* True if some samples are so far above the others that rounding in transforms would lose these; `most`: largest
 * magnitudes of n rows (or columns) of a tile. Its results are then computed by vp_convolve_sum(). */
bool vp_convolve_is_spiked(const struct vp_convolve_params *p, const double *most, int64_t n, double base);
/* Sums the results of a box directly, in double, from samples minus `base`: into the output, or `to` ([z][y][x]) if not
 * NULL. */
int vp_convolve_sum(const struct vp_convolve_job *j, const struct vp_box *box, double base, void *to,
                    struct vp_err *err);
/* Returns the response of a single kernel to the constant, away from edges. */
double vp_convolve_more(const struct vp_convolve_params *p, const struct vp_convolve_less *less);
/* Stores results x ... x + n - 1 of row (y, z), those inside the output's box. Weights of the output: v are sums of
 * samples minus `less`, completed here (v is overwritten). */
void vp_convolve_store(const struct vp_convolve_job *j, void *v, int64_t x, int64_t n, int64_t y, int64_t z,
                       struct vp_convolve_less *less);
/* Sets the results in `box` that depend on a sample that is not finite to NaN. */
int vp_convolve_spoil(const struct vp_convolve_job *j, const struct vp_box *box, struct vp_err *err);
/* Makes a box in tiles of side[] voxels, with `bytes` of the scratch for each thread. make() makes a tile and sets *bad
 * if a sample was not finite. */
int vp_convolve_tiles(struct vp_convolve_job *j, const int64_t side[3], size_t bytes, void *scratch, int threads,
                      int (*make)(const struct vp_convolve_job *j, const struct vp_box *tile, void *mem, bool *bad,
                                  struct vp_err *err),
                      struct vp_err *err);
/* Returns the weight of node `node` along an axis at q, rounded to the precision of the sums. */
double vp_convolve_weight(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q);
/* Finds the nodes a ... b with a weight above 0 in lo ... hi - 1. */
void vp_convolve_nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a,
                            int64_t *b);

/* Sums of a tile with weights at the source. */
struct vp_convolve_ones {
    double *ones[2];           /* weights of each result: everywhere; inside the image */
    double *rows, *sums[2];    /* sums along x; prefix sums of a row or column, of values and of positions times values */
};

/* Places it at *at of `mem` (NULL: only counts); 0 bytes for weights of the output. */
void vp_convolve_ones_place(struct vp_convolve_ones *o, const struct vp_convolve_params *p, void *mem, size_t *at);
/* Completes and stores the results of a tile at `at`, image[y][x] of out[], made of samples minus `base`; overwrites
 * them. */
void vp_convolve_store_source(const struct vp_convolve_job *j, const struct vp_convolve_ones *o, const int64_t at[3],
                              void *image, double base);

/* Makes the operation for nodes anywhere (convolve_anywhere.c). */
int vp_convolve_anywhere(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in,
                         enum vp_type out, struct vp_err *err);

/* Returns the operation of its first kernel; the number of kernels, and if weights are those of the source. */
const struct vp_op *vp_convolve_anywhere_node(const struct vp_op *op);
int64_t vp_convolve_anywhere_kernels(const struct vp_op *op, bool *source);
/* Counts the kernels that have weights in a box of at most a tile, in memory of its own (open: NULL, VP_ERESOURCE). */
struct vp_convolve_near;
struct vp_convolve_near *vp_convolve_anywhere_open(const struct vp_op *op, struct vp_err *err);
int64_t vp_convolve_anywhere_near(struct vp_convolve_near *n, const struct vp_box *box);
void vp_convolve_anywhere_done(struct vp_convolve_near *n); /* NULL is fine */

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, int threads);
int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
/* Returns the bytes of all spectra. */
uint64_t vp_convolve_spectra(const struct vp_convolve_params *p);

uint64_t vp_convolve_direct_scratch(const struct vp_op *op, int threads);
int vp_convolve_direct(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
int vp_convolve_direct_make(struct vp_convolve_params *p, struct vp_err *err);
/* True if the kernel is a product of one along each axis, whose taps are then made. */
bool vp_convolve_separable(const struct vp_convolve_params *p, struct vp_err *err);

/* Transforms of f64. Chooses the tiles for results of image[] voxels from size[]; returns their cost. */
double vp_convolve_f64_choose(struct vp_convolve_params *p, const int64_t given[3], const int64_t image[3],
                              const int64_t size[3]);
int vp_convolve_f64_make(struct vp_convolve_params *p, struct vp_err *err);
uint64_t vp_convolve_f64_scratch(const struct vp_op *op, int threads);
int vp_convolve_f64(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err);
/* Returns the bytes of all spectra. */
uint64_t vp_convolve_f64_spectra(const struct vp_convolve_params *p);
void vp_convolve_f64_free(struct vp_convolve_f64 *f);

/* ---- transforms of f32: memory of a thread, shared by convolve_fft.c (spectra, tasks of a box), convolve_cells.c and
 * convolve_general.c (tiles) ---- */

struct vp_team_loop;

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
    /* Waits until the spectra of nodes u[0] ... u[1] by v[0] ... v[1] are made; NULL: they are. */
    void (*await)(struct vp_convolve_work *w, const int64_t u[2], const int64_t v[2]);
    void *tasks;              /* its tasks */
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
