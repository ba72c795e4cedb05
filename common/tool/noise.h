/* The noise of images that nobody gives. */
#ifndef VP_NOISE_H
#define VP_NOISE_H

struct vp_err;
struct vp_footprint;
struct vp_images;
struct vp_run;

/* For img-wiener: the mean of the local variances over all images (those that are finite), in a pass of
 * its own. With --plan it is -1, unknown, and nothing is read. */
int vp_wiener_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err);

#endif
