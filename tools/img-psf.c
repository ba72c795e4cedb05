/* SPDX-License-Identifier: BSD-3-Clause */
/* img-psf: makes kernels for img-convolve: point spread functions by formula, or measured from stars and beads. */
#include "app/tool.h"
#include "base/size.h"
#include "local/psf.h"
#include "engine/pages.h"
#include "app/open.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1000001 }; /* longest axis in voxels */

struct params {
    struct vp_reals gaussian, moffat, shift;
    double airy, motion, beta, obstruction, angle;
    int64_t samples;
    const char *from, *positions;
    bool given, negative;
    struct vp_size size;
};

static const struct vp_opt options[] = {
    VP_REALS(struct params, gaussian, "gaussian", 0, .metavar = "S|SX,SY[,SZ]", .min = 0, .max = 1e4,
             .group = "By formula",
             .help = "Gaussian with this standard deviation, in pixels",
             .more = "Three numbers make a kernel for volumes. The full width at half maximum is 2.355 times the "
                     "standard deviation."),
    VP_REALS(struct params, moffat, "moffat", 0, .metavar = "W|WX,WY", .min = 0, .max = 1e4,
             .help = "Moffat profile with this full width at half maximum (stars through the atmosphere)"),
    VP_REAL(struct params, beta, "beta", 0, .metavar = "B", .def = "2.5", .min = 1.01, .max = 100,
            .help = "exponent of the Moffat profile",
            .more = "A smaller exponent puts more light far from the centre."),
    VP_REAL(struct params, airy, "airy", 0, .metavar = "R", .min = 0.1, .max = 1e4,
            .help = "Airy disc of a round aperture; R is the radius of the first dark ring",
            .more = "R is 1.22 times wavelength times focal ratio, in pixels."),
    VP_REAL(struct params, obstruction, "obstruction", 0, .metavar = "E", .def = "0", .min = 0, .max = 0.99,
            .help = "diameter of the central obstruction, as a fraction of the aperture"),
    VP_REAL(struct params, motion, "motion", 0, .metavar = "LENGTH", .min = 0, .max = 1e4,
            .help = "straight, uniform motion over LENGTH pixels"),
    VP_REAL(struct params, angle, "angle", 0, .metavar = "DEGREES", .def = "0", .min = -360, .max = 360,
            .help = "direction of the motion or of the x axis of the formula, from x towards y"),
    VP_REALS(struct params, shift, "shift", 0, .metavar = "X,Y[,Z]", .min = -1e3, .max = 1e3,
             .help = "move the centre away from the middle of the kernel"),
    VP_INT(struct params, samples, "samples", 0, .metavar = "N", .def = "1", .min = 1, .max = 100,
           .help = "average N x N points of the formula for each pixel",
           .more = "1 gives the value at the pixel's centre, as img-gauss uses it. 5 or more give what a pixel of a "
                   "camera sees. A motion is always exact."),
    VP_FILE(struct params, from, "from", 0, .metavar = "IMAGE", .group = "From stars or beads",
            .help = "measure the kernel in this image, or in a volume of beads",
            .more = "At each of the --positions, a box of --size voxels plus a margin of six is cut out. The median "
                    "of the margin is the background. The centre is found to a fraction of a voxel; the star is then "
                    "shifted onto a voxel (Lanczos) and scaled to a sum of one. The result is the mean of all stars. "
                    "Brighter stars count more, and samples farther than three sigma from the median of the stars "
                    "are left out."),
    VP_FILE(struct params, positions, "positions", 0, .metavar = "FILE",
            .help = "positions of the stars: a line x y, or x y z, for each",
            .more = "In voxels, counted from 0, with an error of at most about a voxel. # begins a comment. FILE may "
                    "be - (standard input). A star whose surroundings are not all inside the image is left out; -v "
                    "prints which ones and why."),
    VP_FLAG(struct params, given, "given", 0,
            .help = "the positions are exact: do not search for the centres"),
    VP_FLAG(struct params, negative, "negative", 0,
            .help = "keep negative samples instead of setting them to 0"),
    VP_SIZE(struct params, size, "size", 0, .metavar = "N|WxH[xD]", .group = "Kernel",
            .help = "size of the kernel in voxels, odd (default: four widths to each side; 25x25 for stars)"),
    VP_INSTEAD("old-g", 'g', "gaussian"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"A Gaussian of 1.5 pixels, and an image blurred with it.",
     "img-psf --gaussian 1.5 -o psf.tif\nct-phantom --volume 64x64x1 | img-convolve --2d -k psf.tif > blurred.tif"},
    {"Stars through a turbulent atmosphere, as pixels see them; and a motion over 9 pixels, 30 degrees from the x "
     "axis towards y.",
     "img-psf --moffat 3.2 --beta 3 --samples 5 -o air.tif\nimg-psf --motion 9 --angle 30 -o motion.tif"},
    {"The kernel of a confocal microscope, longer along z.", "img-psf --gaussian 1.2,1.2,3 -o spot.tif"},
    {"A kernel measured from stars (here one), whose positions are known to about a pixel.",
     "img-psf --gaussian 2 --shift 0.3,-0.2 --size 99 -o star.tif\n"
     "img-cat star.tif | img-math 'a * 1000 + 5' -o sky.tif\n"
     "echo 49 50 > stars.txt\n"
     "img-psf --from sky.tif --positions stars.txt --size 21 -o measured.tif"},
    {0},
};

static int check_size(const int64_t size[3], struct vp_err *err)
{
    for (int a = 0; a < 3; a++)
        if (size[a] > LONGEST) {
            return vp_fail(err, VP_EUSAGE, "--size: expected at most %d voxels, got %lld", LONGEST, (long long)size[a]);
        } else if (size[a] % 2 == 0) {
            vp_fail(err, VP_EUSAGE, "--size: expected odd numbers, got %lld", (long long)size[a]);
            return vp_hint(err, "as %lld: a voxel has to be in the middle", (long long)size[a] + 1);
        }
    return 0;
}

/* Writes the kernel. `reader`: the image in which it was measured, or NULL; it is closed. */
static int write_kernel(struct vp_run *run, const float *kernel, const int64_t size[3], struct vp_reader *reader,
                        struct vp_err *err)
{
    const struct vp_stack *like = reader ? vp_reader_stack(reader) : NULL;
    struct vp_stack out = {.nx = size[0], .ny = size[1], .pages = size[2], .type = VP_F32};
    const char *const keys[] = {"voxel", "unit"};
    struct vp_writer *writer = NULL;
    int rc = vp_meta_set(&out.meta, "axes", size[2] > 1 ? "x y z" : "x y")
             || vp_meta_set(&out.meta, "quantity", "point spread function") ? -1 : 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && like && !rc; i++)
        if (vp_meta_get(&like->meta, keys[i]))
            rc = vp_meta_set(&out.meta, keys[i], vp_meta_get(&like->meta, keys[i]));
    if (rc)
        vp_fail(err, VP_ERESOURCE, "out of memory");
    rc = rc || vp_open_output(run, &out, &writer, err) || vp_writer_pages(writer, size[2], kernel, 1, err) ? -1 : 0;
    rc = vp_close(run, reader, writer, rc, err);
    vp_stack_free(&out);
    return rc;
}

/* ---- by formula ---- */

static int formula(const struct params *p, const struct vp_run *run, struct vp_psf *psf, struct vp_err *err)
{
    const struct vp_reals *w = p->gaussian.n ? &p->gaussian : &p->moffat;
    const int most = p->gaussian.n ? 3 : 2;

    *psf = (struct vp_psf){.beta = p->beta, .obstruction = p->obstruction, .angle = p->angle,
                           .samples = (int)p->samples, .width = {p->airy, p->airy, 0}};
    psf->shape = p->gaussian.n ? VP_PSF_GAUSSIAN : p->moffat.n ? VP_PSF_MOFFAT : vp_given(run, "airy") ? VP_PSF_AIRY
                                                                                                     : VP_PSF_MOTION;
    if (psf->shape == VP_PSF_MOTION)
        psf->width[0] = p->motion;
    if (w->n > most)
        return vp_fail(err, VP_EUSAGE, "--%s: expected one to %d numbers, got %d",
                       p->gaussian.n ? "gaussian" : "moffat", most, w->n);
    for (int a = 0; a < 2 && w->n; a++)
        psf->width[a] = w->v[w->n > 1 ? a : 0];
    psf->width[2] = w->n == 3 ? w->v[2] : 0;
    if (p->shift.n && p->shift.n != 2 && !(p->shift.n == 3 && w->n == 3))
        return vp_fail(err, VP_EUSAGE, "--shift: expected X,Y%s, got %d number%s", w->n == 3 ? " or X,Y,Z" : "",
                       p->shift.n, p->shift.n > 1 ? "s" : "");
    for (int a = 0; a < p->shift.n; a++)
        psf->shift[a] = p->shift.v[a];
    vp_psf_size(psf);
    if (p->size.n == 3 && p->size.v[2] > 1 && w->n != 3)
        return vp_fail_hint(err, VP_EUSAGE, "--gaussian SX,SY,SZ is one of volumes",
                            "--size: %lld planes, but the kernel is one of images", (long long)p->size.v[2]);
    for (int a = 0; a < 3 && p->size.n; a++)
        psf->size[a] = p->size.n == 1 ? (a < 2 || w->n == 3 ? p->size.v[0] : 1) : a < p->size.n ? p->size.v[a]
                                                                                              : psf->size[a];
    return check_size(psf->size, err);
}

static int by_formula(const struct params *p, struct vp_run *run, struct vp_err *err)
{
    struct vp_psf psf;

    if (formula(p, run, &psf, err))
        return -1;
    vp_report_plan(run, "kernel", "%lld x %lld x %lld", (long long)psf.size[0], (long long)psf.size[1],
                   (long long)psf.size[2]);
    const size_t count = (size_t)(psf.size[0] * psf.size[1] * psf.size[2]);
    if (count > run->common.memory / sizeof(float))
        return vp_fail(err, VP_ERESOURCE, "a kernel of %lld x %lld x %lld exceeds the available memory",
                       (long long)psf.size[0], (long long)psf.size[1], (long long)psf.size[2]);
    if (vp_report_plan_done(run))
        return 0;
    float *kernel = vp_alloc_raw(count, sizeof *kernel, "the kernel", err);
    if (!kernel)
        return -1;
    const int rc = vp_psf_make(&psf, kernel, err) || write_kernel(run, kernel, psf.size, NULL, err) ? -1 : 0;
    free(kernel);
    return rc;
}

/* ---- from stars ---- */

struct seen_point { struct vp_stars stars; int64_t nx, page; };

static int find_stars(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct seen_point *s = ctx;

    (void)out, (void)err;
    for (int i = 0; i < n; i++)
        vp_stars_page(&s->stars, (const float *)in + i * s->page, s->nx, page + i);
    return n;
}

static void report(const struct vp_run *run, const struct vp_stars *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->star[i].out)
            vp_note(run, "star %lld at %g %g %g is left out: %s", (long long)i, s->star[i].at[0], s->star[i].at[1],
                    s->star[i].at[2], s->star[i].out);
        else
            vp_note(run, "star %lld: centre %.3f %.3f %.3f", (long long)i, s->star[i].at[0], s->star[i].at[1],
                    s->star[i].at[2]);
    if (s->used < s->n)
        vp_warn(run, "%lld of %lld stars left out (-v shows why)", (long long)(s->n - s->used), (long long)s->n);
}

static int from_stars(const struct params *p, struct vp_run *run, struct vp_err *err)
{
    struct seen_point s = {.stars = {0}};
    struct vp_reader *reader = NULL;
    float *kernel = NULL;
    int64_t size[3] = {25, 25, 1};
    int rc = -1;

    for (int a = 0; a < p->size.n || (p->size.n == 1 && a < 2); a++)
        size[a] = p->size.v[p->size.n == 1 ? 0 : a];
    if (check_size(size, err) || vp_stars_read(&s.stars, p->positions, err)
        || vp_open_values(run, p->from, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    s.nx = in->nx;
    s.page = in->nx * in->ny;
    vp_report_plan(run, "kernel", "%lld x %lld x %lld of %lld stars", (long long)size[0], (long long)size[1],
                   (long long)size[2], (long long)s.stars.n);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    struct vp_pages pages = {.reader = reader, .as_f32 = true, .work = find_stars, .ctx = &s, .stage = "stars",
                             .memory = run->common.memory, .stats = run->stats, .progress = run->progress};
    const int64_t image[3] = {in->nx, in->ny, in->pages < 0 ? INT64_MAX : in->pages};
    if (vp_stars_open(&s.stars, size, image, run->common.memory, err)
        || !(kernel = vp_alloc((size_t)(size[0] * size[1] * size[2]), sizeof *kernel, "the kernel", err)))
        goto out;
    pages.beside = s.stars.bytes;
    if (vp_pages_run(&pages, err))
        goto out;
    vp_stars_end(&s.stars, pages.done);
    if (vp_stars_average(&s.stars, p->given, p->negative, kernel, err))
        goto out;
    report(run, &s.stars);
    rc = write_kernel(run, kernel, size, reader, err);
    reader = NULL;
out:
    rc = vp_close(run, reader, NULL, rc, err);
    free(kernel);
    vp_stars_free(&s.stars);
    return rc;
}

static int img_psf(struct vp_run *run, void *params, struct vp_err *err)
{
    static const char *const ways[] = {"gaussian", "moffat", "airy", "motion", "from"};
    static const struct { const char *option, *with; } pairs[] = {
        {"beta", "moffat"}, {"obstruction", "airy"}, {"positions", "from"}, {"given", "from"}, {"negative", "from"}};
    const struct params *p = params;
    const char *way = NULL;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (vp_given(run, ways[i])) {
            if (way)
                return vp_fail(err, VP_EUSAGE, "--%s and --%s cannot be combined: expected one kernel", way, ways[i]);
            way = ways[i];
        }
    if (!way)
        return vp_fail_hint(err, VP_EUSAGE, "--gaussian, --moffat, --airy, --motion, or --from IMAGE --positions FILE",
                            "expected a kernel, got none");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (vp_given(run, pairs[i].option) && strcmp(way, pairs[i].with))
            return vp_fail(err, VP_EUSAGE, "--%s needs --%s, got --%s", pairs[i].option, pairs[i].with, way);
    if (strcmp(way, "from"))
        return by_formula(p, run, err);
    for (size_t i = 0; i < 3; i++)
        if (vp_given(run, ((const char *[]){"angle", "shift", "samples"})[i]))
            return vp_fail(err, VP_EUSAGE, "--%s needs a formula, got --from",
                           ((const char *[]){"angle", "shift", "samples"})[i]);
    if (!p->positions)
        return vp_fail_hint(err, VP_EUSAGE, "--positions FILE, with a line x y for each",
                            "--from: --positions is missing");
    if (!strcmp(p->from, "-") && !strcmp(p->positions, "-"))
        return vp_fail(err, VP_EUSAGE, "only one of --from and --positions can be standard input");
    return from_stars(p, run, err);
}

const struct vp_tool vp_program = {
    .name = "img-psf",
    .summary = "make kernels for img-convolve by formula, or measure them from stars and beads",
    .description =
        "Writes a point spread function as a kernel for img-convolve and img-deconvolve (-k). The kernel is given by "
        "a formula (Gaussian, Moffat, Airy disc, motion), or is measured from stars in an image or beads in a "
        "volume. Its samples are f32 and add up to one; its sizes are odd, and its centre is the middle voxel.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-convolve(1), img-gauss(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE | VP_TOOL_SOURCE,
    .run = img_psf,
};
