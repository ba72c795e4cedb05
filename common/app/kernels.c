/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/kernels.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"
#include "stack/foreign.h"
#include "app/open.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_kernel_options[] = {
    VP_FILE(struct vp_kernel_params, kernel, "kernel", 'k', .metavar = "FILE", .group = "Kernel",
            .help = "file of the kernel, or with --grid of one kernel on each page (required)",
            .more = "A kernel is a stack. One page is a kernel for images, which is applied to every slice of a "
                    "volume; several pages are a kernel for volumes. The centre of the kernel is sample n / 2 along "
                    "each axis of n samples, counted from 0: the middle one if n is odd."),
    VP_SIZE(struct vp_kernel_params, grid, "grid", 0, .metavar = "NXxNY",
            .help = "use one kernel for each of NX by NY equal parts of the image",
            .more = "The pages are the kernels, row by row. Each kernel is exact at the centre of its part. Between "
                    "the centres, kernels (or their results, see --weights) are interpolated bilinearly; beyond the "
                    "outermost centres they are constant. A single number is for both NX and NY."),
    VP_FILE(struct vp_kernel_params, positions, "positions", 0, .metavar = "FILE",
            .help = "use one kernel for each position that FILE lists",
            .more = "Each line is a position, in the order of the pages: x y, in pixels from 0, or page x y. # "
                    "begins a comment. The positions must form a rectangular grid, in any order, with any spacing. "
                    "FILE may be - (standard input) if image and kernels are named files."),
    VP_CHOICE(struct vp_kernel_params, weights, "weights", 0, "output|source", .metavar = "WHOSE", .def = "output",
              .help = "interpolate a grid of kernels at the output pixel, or at the source",
              .more = "W are the interpolation weights and K the kernels.\n\n"
                      "- output: out(p) = sum of W(p) (K * in), the weighted sum of the results of all kernels.\n"
                      "- source: out = sum of K * (W in). Each point of light spreads by the kernel at its own "
                      "position, as in optics.\n\n"
                      "The two differ if kernels change much over their own size."),
    VP_OPT_END,
};

/* ---- positions ---- */

struct places {
    double *x, *y;              /* positions of the pages; NAN: not listed yet */
    int64_t n, kernels;         /* positions listed; pages of kernels */
};

/* Parses a line: x and y, with or without a page. */
static int take_line(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err)
{
    struct places *const p = ctx;
    double v[4];
    int n = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *at = line, *end; n < 4; at = end + strspn(end, " \t,")) {
        v[n] = strtod(at, &end);
        if (end == at) {
            if (*(at + strspn(at, " \t,")))
                n = 4;
            break;
        }
        n++;
    }
    if (n == 0)
        return 0;
    const double page = n == 3 ? v[0] : (double)p->n, x = v[n == 3], y = v[(n == 3) + 1];
    if (n == 1 || n == 4 || !isfinite(x) || !isfinite(y))
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected x y, or page x y", name, (long long)number);
    if (p->n >= p->kernels)
        return vp_fail(err, VP_ERUN, "%s: more positions than the %lld kernels", name, (long long)p->kernels);
    if (!(page >= 0 && page < (double)p->kernels) || page != floor(page) || !isnan(p->x[(int64_t)page]))
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected a page of 0 to %lld that no other line names, got %g",
                       name, (long long)number, (long long)p->kernels - 1, page);
    p->x[(int64_t)page] = x;
    p->y[(int64_t)page] = y;
    p->n++;
    return 0;
}

/* Collects the different values among n, in order; values within a thousandth of a pixel are equal. */
static int64_t different(double *to, const double *from, int64_t n)
{
    int64_t count = 0;

    memcpy(to, from, (size_t)n * sizeof *to);
    vp_sort(to, (size_t)n, sizeof *to, vp_by_double);
    for (int64_t i = 0; i < n; i++)
        if (count == 0 || to[i] - to[count - 1] > 1e-3)
            to[count++] = to[i];
    return count;
}

static int64_t index_of(const double *v, int64_t n, double x)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = fabs(v[i] - x) < fabs(v[best] - x) ? i : best;
    return best;
}

/* Assigns pages to the nodes of the grid that their positions form: node[page]. */
static int make_grid(double *const at[2], int64_t n[2], const char *name, const struct places *p, int64_t *node,
                     struct vp_err *err)
{
    for (int a = 0; a < 2; a++)
        n[a] = different(at[a], a ? p->y : p->x, p->n);
    if (n[0] > p->n / n[1] || n[0] * n[1] != p->n)
        return vp_fail(err, VP_ERUN,
                       "%s: %lld positions of %lld different x and %lld different y: expected a rectangular grid",
                       name, (long long)p->n, (long long)n[0], (long long)n[1]);
    for (int64_t i = 0; i < p->n; i++) {
        node[i] = index_of(at[1], n[1], p->y[i]) * n[0] + index_of(at[0], n[0], p->x[i]);
        for (int64_t other = 0; other < i; other++)
            if (node[other] == node[i])
                return vp_fail(err, VP_ERUN, "%s: pages %lld and %lld have the same position", name, (long long)other,
                               (long long)i);
    }
    return 0;
}

int vp_kernel_places(double *const at[2], int64_t n[2], int64_t *node, const char *path, int64_t kernels,
                     struct vp_err *err)
{
    struct places p = {.x = vp_alloc_raw((size_t)kernels, sizeof(double), "places", err),
                       .y = vp_alloc_raw((size_t)kernels, sizeof(double), "places", err), .kernels = kernels};
    int rc = p.x && p.y ? 0 : -1;
    for (int64_t i = 0; !rc && i < kernels; i++)
        p.x[i] = NAN;
    rc = rc ? rc : vp_text_lines(path, take_line, &p, err);
    if (!rc && p.n < kernels)
        rc = vp_fail(err, VP_ERUN, "%s: %lld positions, but %lld kernels", vp_text_name(path), (long long)p.n,
                     (long long)kernels);
    rc = rc ? rc : make_grid(at, n, vp_text_name(path), &p, node, err);
    free(p.x);
    free(p.y);
    return rc;
}

/* ---- the file ---- */

static int check(const struct vp_kernel_params *p, const struct vp_stack *s, const struct vp_images *im,
                 const char *name, struct vp_err *err)
{
    if (p->grid.n && p->positions)
        return vp_fail(err, VP_EUSAGE, "--grid and --positions: expected one of them");
    if (p->grid.n > 2)
        return vp_fail(err, VP_EUSAGE, "--grid: expected NXxNY, got three numbers");
    if (s->pages < 0)
        return vp_fail_hint(err, VP_ERUN, "give a file, or --spool", "%s: the number of pages is unknown", name);
    if (p->grid.n) {
        const int64_t nx = p->grid.v[0], ny = p->grid.n == 2 ? p->grid.v[1] : nx;
        if (nx > s->pages || ny > s->pages || nx * ny != s->pages)
            return vp_fail(err, VP_ERUN, "%s: %lld page%s: --grid %lldx%lld expects a kernel on each of %.15g", name,
                           (long long)s->pages, s->pages == 1 ? "" : "s", (long long)nx, (long long)ny,
                           (double)nx * (double)ny);
    } else if (!p->positions && s->pages > 1 && im->flat) {
        return vp_fail_hint(err, VP_ERUN, "--grid says that they are a grid of kernels",
                            "%s: %lld pages are a kernel for volumes, but the pages of the input are single images",
                                name, (long long)s->pages);
    }
    return 0;
}

/* Warns if the known voxel sizes of kernel and image differ by more than rounding; kernels are applied voxel by voxel
 * in any case. `axes`: of the kernel. */
static void compare_voxels(const struct vp_run *run, const struct vp_stack *s, const char *name, int axes,
                           const struct vp_images *im)
{
    enum { X, Y, Z, AXES };
    const double tolerance = 1e-3;
    const struct vp_meta *m = &vp_reader_stack(im->reader[im->first])->meta;
    const char *unit = vp_meta_get(&s->meta, "unit"), *of_image = vp_meta_get(m, "unit");
    const double mm = unit ? vp_unit_mm(unit) : 0, image_mm = of_image ? vp_unit_mm(of_image) : 0;
    double v[AXES] = {0};
    bool differs = false;

    if (!im->has_voxel || mm <= 0 || image_mm <= 0
        || !(vp_meta_numbers(&s->meta, "voxel", AXES, v) || vp_meta_numbers(&s->meta, "voxel", AXES - 1, v)))
        return;
    for (int a = 0; a < axes; a++)
        differs = differs || (v[a] > 0 && fabs(v[a] * mm / (im->voxel[a] * image_mm) - 1) > tolerance);
    if (!differs)
        return;
    char size[2][96];
    const double *const both[2] = {v, im->voxel}, scale[2] = {mm, image_mm};
    for (int k = 0; k < 2; k++) {
        const int n = snprintf(size[k], sizeof size[k], "%.6g x %.6g", both[k][X] * scale[k], both[k][Y] * scale[k]);
        if (axes == AXES)
            snprintf(size[k] + n, sizeof size[k] - (size_t)n, " x %.6g", both[k][Z] * scale[k]);
    }
    vp_warn(run, "%s: expected voxels of %s mm, as in %s, got %s mm", name, size[1],
            vp_reader_name(im->reader[im->first]), size[0]);
}

static int read_samples(struct vp_convolve_given *g, struct vp_reader *reader, const struct vp_kernel_params *p,
                        bool exact, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);
    const int64_t pages = s->pages, page = s->nx * s->ny, across = p->grid.n ? p->grid.v[0] : 1;
    const size_t n = (size_t)pages, size = exact ? sizeof *g->exact : sizeof *g->kernels;
    double *at[2] = {NULL, NULL};
    int got = -1;

    *g = (struct vp_convolve_given){.n = {s->nx, s->ny, p->grid.n || p->positions ? 1 : pages},
                                    .nodes = {across, p->grid.n == 2 ? p->grid.v[1] : across},
                                    .weights = (enum vp_weights)p->weights};
    if (vp_memory_claim((uint64_t)pages * (uint64_t)page * 3 * size, "kernels", vp_reader_name(reader), err))
        return -1;
    void *const samples = vp_alloc_raw(n, (size_t)page * size, "the kernels", err);
    void *const own = vp_alloc_raw((size_t)page, vp_type_size(s->type), "a kernel", err);
    int64_t *node = vp_alloc_raw(n, sizeof *node, "the kernels", err);
    for (int a = 0; a < 2 && p->positions; a++)
        g->node[a] = at[a] = vp_alloc_raw(n, sizeof(double), "places", err);
    g->kernels = exact ? NULL : samples;
    g->exact = exact ? samples : NULL;
    if (!samples || !own || !node || (p->positions && (!at[0] || !at[1])))
        goto out;
    for (int64_t i = 0; i < pages; i++)
        node[i] = i;
    if (p->positions && vp_kernel_places(at, g->nodes, node, p->positions, pages, err))
        goto out;
    got = 1;
    for (int64_t i = 0; i < pages && got == 1; i++) {
        got = vp_reader_next(reader, own, err);
        if (got == 1)
            vp_convert((char *)samples + (size_t)(node[i] * page) * size, exact ? VP_F64 : VP_F32, own, s->type, page,
                       1, 0);
        if (got == 0)
            vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", vp_reader_name(reader), (long long)pages,
                    (long long)i);
    }
out:
    free(own);
    free(node);
    return got == 1 ? 0 : -1;
}

int vp_kernels_read(struct vp_convolve_given *g, struct vp_run *run, const struct vp_kernel_params *p,
                    const struct vp_images *im, struct vp_err *err)
{
    struct vp_reader *reader = NULL;

    *g = (struct vp_convolve_given){.nodes = {1, 1}};
    if (!p->kernel)
        return vp_fail_hint(err, VP_EUSAGE, "give a stack that holds it: -k kernel.tif",
                            "--kernel is missing");
    if (p->positions && vp_list_apart(run, "--positions", p->positions, err))
        return -1;
    if (p->positions && !strcmp(p->positions, "-") && !strcmp(p->kernel, "-"))
        return vp_fail(err, VP_EUSAGE, "only one of --kernel and --positions can be standard input");
    if (vp_open_mask(run, p->kernel, &reader, err))
        return -1;
    const struct vp_stack *s = vp_reader_stack(reader);
    int rc = check(p, s, im, vp_reader_name(reader), err)
             || read_samples(g, reader, p, im->type == VP_F64, err) ? -1 : 0;
    if (!rc)
        compare_voxels(run, s, vp_reader_name(reader), g->n[2] > 1 ? 3 : 2, im);
    if (vp_reader_close(reader, rc ? NULL : err))
        rc = -1;
    if (rc)
        vp_kernels_free(g);
    return rc;
}

enum vp_type vp_kernels_type(int choice, enum vp_type in)
{
    enum { AUTO, F32, SAME };
    return choice == SAME || (choice == AUTO && in == VP_F64) ? in : VP_F32;
}

void vp_kernels_free(struct vp_convolve_given *g)
{
    free((void *)g->kernels);
    free((void *)g->exact);
    for (int a = 0; a < 2; a++)
        free((void *)g->node[a]);
    *g = (struct vp_convolve_given){0};
}
