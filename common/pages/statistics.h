/* Statistics of samples: moments, histograms and quantiles, accumulated page by page. Results do not
 * depend on the number of threads; they use OpenMP inside. */
#pragma once

#include "stack/stack.h"

/* Samples in a block of the sums, counted from the first that is added. */
enum { VP_MOMENTS_BLOCK = 4096 };

/* Zero-initialise ({0}); min, max and mean mean something if n > 0. */
struct vp_moments {
    int64_t n, nan, inf; /* finite samples; the others are counted apart and not used */
    double min, max;
    double mean, m2;     /* m2: sum of squared deviations from the mean; */
    double mean_low;     /* its low word: with large offsets more than the deviations */
    double sum, sum_low; /* the sum in two words: exact for integers; see vp_moments_sum */
};
/* Adds n samples; 64-bit integers beyond 2^53 are rounded to double. */
void vp_moments_add(struct vp_moments *m, const void *samples, enum vp_type type, int64_t n);
/* Returns the sum of the values that samples with this scale stand for; it is undone once, of the sum. */
double vp_moments_sum(const struct vp_moments *m, const double scale[2]);
/* Returns the standard deviation of the samples themselves (divided by n); NaN if n = 0. */
double vp_moments_std(const struct vp_moments *m);

/* The sum of the squares of the finite samples, in a fraction of the time. Zero-initialise ({0}). */
struct vp_squares {
    int64_t n; /* finite samples */
    double sum, low;
};
/* Adds n samples of f32 or f64. */
void vp_squares_add(struct vp_squares *s, const void *samples, enum vp_type type, int64_t n);
/* Returns the mean square; NaN if n = 0. */
double vp_squares_mean(const struct vp_squares *s);

/* The smallest and the largest finite sample alone, in a fraction of the time. Zero-initialise ({0}); without any
 * finite sample `any` stays false. 64-bit integers beyond 2^53 are rounded to double. */
struct vp_sample_range {
    double min, max;
    bool any;
};
void vp_sample_range_add(struct vp_sample_range *e, const void *samples, enum vp_type type, int64_t n);

/* True of samples that are all the same to the bit (not `varies`). Zero-initialise ({0}). Stops at the first that
 * differs, so pictures cost nothing. */
struct vp_flatness {
    unsigned char first[8];
    bool seen, varies;
};
void vp_flatness_add(struct vp_flatness *f, const void *samples, enum vp_type type, int64_t n);

/* Counts in `bins` counters that several threads fill. For the types below. */
struct vp_counter {
    int64_t *count;
    int64_t bins;
    int parts;
};

/* Histogram with equal bins [edge[i], edge[i + 1][, the last one closed; values outside are counted in
 * below and above (infinities too), NaN in nan. */
struct vp_histogram {
    double lo, hi;
    double scale[2]; /* scale of the samples: their values are counted */
    int bins;
    double *edge;   /* bins + 1 */
    int64_t *count; /* bins */
    int64_t below, above, nan;
    struct vp_counter counter;
};
/* Starts a histogram; ends[0] < ends[1], 1 <= bins <= 2^20, else VP_EUSAGE. */
int vp_histogram_init(struct vp_histogram *h, const double ends[2], const double scale[2], int bins,
                      struct vp_err *err);
void vp_histogram_add(struct vp_histogram *h, const void *samples, enum vp_type type, int64_t n);
/* Returns the bytes of memory that it takes. */
uint64_t vp_histogram_bytes(const struct vp_histogram *h);
void vp_histogram_free(struct vp_histogram *h);

/* Quantiles of the finite samples, with linear interpolation between neighbours in rank (Hyndman and Fan's
 * type 7, the default of numpy and R). Exact; 8- and 16-bit types need one pass over the samples, 32-bit
 * types two, 64-bit types four. If only one pass can be made (`single`), types of more than 16 bits are
 * counted in 2^20 bins of their value as float32, and the result is within 2^-11 (0.05 %) of a true one (0 if
 * that is below 1e-38, 3.4e38 if it is beyond that), between the smallest and the largest sample. */
struct vp_quantiles;
enum { VP_QUANTILES_MAX = 32 };
/* Starts quantiles; percent[0..n): each in [0, 100], 1 <= n <= VP_QUANTILES_MAX, else VP_EUSAGE. */
int vp_quantiles_open(struct vp_quantiles **q, enum vp_type type, const double *percent, int n, bool single,
                      struct vp_err *err);
/* Returns the bytes of memory that this takes. */
uint64_t vp_quantiles_bytes(enum vp_type type, int n, bool single);
void vp_quantiles_add(struct vp_quantiles *q, const void *samples, int64_t n);
/* Ends of a pass: true if the samples must be added once more. */
bool vp_quantiles_again(struct vp_quantiles *q);
/* Returns quantile i, after vp_quantiles_again() said false; NaN if there were no finite samples. */
double vp_quantiles_get(const struct vp_quantiles *q, int i);
bool vp_quantiles_exact(const struct vp_quantiles *q);
void vp_quantiles_close(struct vp_quantiles *q);
