/* Ellipsoid phantoms: exact line integrals and voxel volumes. */
#pragma once

#include "geom/geom.h"

/* An ellipsoid of uniform density; densities of overlapping ellipsoids add up. */
struct vp_ellipsoid {
    double center[3], axis[3];   /* mm; half axes, > 0 */
    double phi;                  /* degrees: turned about z, counter-clockwise, first axis towards +y */
    double density;              /* 1/mm */
};

/* Loads a phantom by name: "shepp-logan" (3-D, Kak & Slaney), "shepp-logan-contrast" (the same head in Toft's
 * contrast), "spheres" (off-centre spheres of several sizes and densities, some far from the mid-plane), "ball",
 * "asymmetric" (no flip and no rotation maps it onto itself); or else a text file: one ellipsoid a line, "x y z a b c
 * phi density" in mm, degrees and 1/mm, # comments. Named phantoms lie inside the sphere of `radius` mm about the
 * origin, and a relative density of 1 is `density`; files are taken as they are. *list is malloc'd. */
int vp_phantom_load(struct vp_ellipsoid **list, int *n, const char *name_or_file, double radius,
                    double density, struct vp_err *err);

bool vp_phantom_named(const char *name);

/* Returns the radius, mm, of the largest sphere about the origin that no view cuts off; <= 0 if there is none. An
 * offset detector of a full scan need see one side only, and a detector whose height is less than a quarter of its
 * width is taken to show slices of something taller; of a helix those slices count that are seen from all directions.
 * */
double vp_phantom_radius(const struct vp_view *views, int64_t n_views, const struct vp_scan *scan, int64_t nu,
                         int64_t nv);

/* Returns the radius of the largest sphere about the origin that a volume holds, by the same rule. */
double vp_phantom_radius_in(const struct vp_grid *grid);

/* Fills page k of the voxel volume: density at voxel centres, or the mean over samples^3 points. out is ny x nx. */
void vp_phantom_slice(const struct vp_ellipsoid *list, int n, const struct vp_grid *grid, int64_t k,
                      int samples, float *out);

/* Replaces n line integrals by the counts of a detector with i0 photons a pixel, Poisson numbers of mean i0 * exp(-p),
 * or by the line integrals -log(max(N, 1) / i0) of such counts N. The random number of a pixel depends on (seed, view,
 * its index in the view) only, so the result does not depend on threads, chunks or layout; p[0] is pixel `first` of the
 * view. */
void vp_phantom_noise(float *p, int64_t n, double i0, bool counts, uint64_t seed, int64_t view, int64_t first);

/* A simulated scan, as pages. */
struct vp_phantom_scan {
    const struct vp_ellipsoid *list;
    int n;
    const struct vp_view *views;
    enum vp_beam beam;
    int64_t nu;
    int samples;
    double i0;            /* 0: no noise */
    uint64_t seed;
    bool counts;          /* photons, not line integrals */
    bool curved;          /* the detector is curved: see vp_geom */
    bool sinograms;       /* pages are detector rows, rows are views; else pages are views */
};
/* Fills rows [r0, r1) of a page, by the calling thread: out is (r1 - r0) x nu. Line integrals are dimensionless; rays
 * run from the source through the pixel centres, recovered from the view's matrix, in double; samples > 1 averages
 * samples x samples rays a pixel. */
void vp_phantom_block(const struct vp_phantom_scan *s, int64_t page, int64_t r0, int64_t r1, float *out);
