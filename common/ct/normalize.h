/* Raw counts to line integrals: p = -ln((I - dark) / (flat - dark)).
 *
 * A pixel is dead if the mask says so or if its flat is not above its dark (or either is not finite). Its
 * samples are replaced by the mean of the live ones among their eight neighbours in the view, large dead
 * areas from their edge inwards. Samples that are NaN or infinite, and in sinograms those of dead pixels, are
 * interpolated linearly along the detector row; a row without any live sample becomes 0 (transmission 1). */
#pragma once

#include "geom/geom.h"
#include "ct/quantity.h"

struct vp_normalize_params {
    struct vp_strings flat;   /* --flat: each a set, interpolated linearly over the scan */
    struct vp_strings dark;   /* --dark: all one set */
    struct vp_reals flat_at;  /* --flat-at: view number of each set; default evenly over the scan */
    double i0;                /* --i0: unattenuated counts when there is no flat; 0: not given */
    double floor;             /* --floor: smallest transmission before the logarithm */
    double zinger;            /* --zinger T: a sample whose transmission is more than T times the median of
                                 the samples around it on the page (those that exist and are live)
                                 becomes that median; 0: off */
    int64_t zinger_size;      /* --zinger-size N: that median is over N x N samples; odd, to VP_DESPIKE_MOST */
    int64_t flat_modes;       /* --flat-modes N: components of the flats, at most (ct/flat_modes.h); 0: their mean alone */
    const char *dead;         /* --dead FILE: a page nv x nu (in both layouts); non-zero pixels are dead */
    bool transmission;        /* --no-log: stop at the transmission (no floor) */
};

struct vp_normalize;

/* VP_EUSAGE unless exactly one of --flat and --i0 is given and --flat-at fits. Looks at no file. */
int vp_normalize_check(const struct vp_normalize_params *p, struct vp_err *err);
/* Returns the quantity that the input must be: counts, or with an open beam of 1 a transmission. */
enum vp_need vp_normalize_need(const struct vp_normalize_params *p);

/* `flats`: one averaged page (nu x nv, f32) for each flat set (n_flats = 0: p->i0), `dark` (or NULL: 0),
 * `dead` (or NULL: none; non-zero is dead); copied. `views` total, for the interpolation (-1: unknown,
 * allowed with one set or --flat-at). */
int vp_normalize_open(struct vp_normalize **n, const struct vp_normalize_params *p, int64_t nu, int64_t nv,
                      int64_t views, const float *const *flats, int n_flats, const float *dark,
                      const uint8_t *dead, struct vp_err *err);

/* Fits each view's flat with these components, whose memory (of vp_alloc) it takes over. One set of flats; no sinograms;
 * one call of vp_normalize_pages at a time. */
struct vp_flat_modes;
void vp_normalize_modes(struct vp_normalize *n, struct vp_flat_modes *modes);

/* Pages without one usable sample: their number, and the lowest page number (0 while there are none). */
struct vp_blank {
    int64_t pages, first;
};

/* Counts a page; thread safe. */
void vp_blank_add(struct vp_blank *b, int64_t pages, int64_t first);
/* Counts those of n pages of `samples` samples, from page `first`, that hold NaN and infinite samples only. */
void vp_blank_look(struct vp_blank *b, const float *in, int64_t first, int64_t n, int64_t samples);

/* Counts of repaired samples; added to atomically by the functions below, which also take NULL. */
struct vp_normalize_report {
    int64_t floored, zingers, dead; /* dead: samples filled in, NaN and infinite ones too */
    struct vp_blank blank;          /* pages whose samples were all filled in or below the floor */
};

/* Normalises `count` views from view `first` on, or, if sinogram_views > 0, detector rows, each a page of
 * sinogram_views rows; in place or into out; with the number of threads that OpenMP had when it was opened. Bits do not
 * depend on the number of threads nor on how pages are grouped. Thread safe. */
void vp_normalize_pages(const struct vp_normalize *n, int64_t sinogram_views, int64_t first, int64_t count,
                        const float *in, float *out, struct vp_normalize_report *rep);

/* Facts for reports. */
struct vp_normalize_facts {
    int64_t pixels, dead, unlit; /* unlit: of the dead ones, those whose flat is not above the dark field */
    double floor;
    int64_t rows; /* rows of the detector; -1 if every row is treated alike (no flat, dark or mask) */
    size_t bytes; /* memory that it holds */
};
struct vp_normalize_facts vp_normalize_facts(const struct vp_normalize *n);
void vp_normalize_close(struct vp_normalize *n);
