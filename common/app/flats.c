/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/flats.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/despike.h"
#include "ct/flat_modes.h"
#include "ct/quantity.h"
#include "app/open.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P struct vp_normalize_params
const struct vp_opt vp_normalize_options[] = {
    VP_FILES(P, flat, "flat", 0, .metavar = "FILES", .group = "Counts to line integrals",
             .help = "flat fields (open beam), averaged: a file, directory or @list",
             .more = "Each further --flat is another set. The flat of a view is interpolated linearly between the "
                     "sets before and after the view (see --flat-at)."),
    VP_REALS(P, flat_at, "flat-at", 0, .metavar = "VIEWS", .min = -1e15, .max = 1e15,
             .help = "number of the view at which each set was taken, increasing (default: spread evenly from the "
                     "first to the last view)",
             .more = "The first view is 0. Views before the first set use the first set, views after the last set "
                     "use the last."),
    VP_FILES(P, dark, "dark", 0, .metavar = "FILES",
             .help = "dark fields (no beam), averaged and subtracted from counts and flats"),
    VP_REAL(P, i0, "i0", 0, .metavar = "N", .min = 1e-30, .max = 1e30,
            .help = "counts of the open beam above the dark field, if there are no flats"),
    VP_REAL(P, floor, "floor", 0, .metavar = "T", .min = 1e-30, .max = 1, .def = "1e-5",
            .help = "smallest transmission: smaller and negative values are raised to T",
            .more = "The logarithm needs a positive number. The default corresponds to a line integral of 11.5. It "
                    "is just below 1/65535, the smallest transmission that a 16-bit detector records, so it changes "
                    "no valid sample, and it keeps samples without photons from making stronger streaks than "
                    "necessary. A warning appears if more than 1 % of the samples were raised."),
    VP_REAL(P, zinger, "zinger", 0, .metavar = "T", .min = 1, .max = 1e30,
            .help = "replace samples above T times the median of their neighbourhood by the median (try 1.5)",
            .more = "Zingers are bright spots in single views, caused by stray high-energy photons. The median is "
                    "that of the transmission of the sample and its neighbours on the page. On a page of views these "
                    "are neighbouring pixels; on a page of sinograms they are neighbouring columns and views. "
                    "Neighbours outside the page and dead pixels are left out."),
    VP_INT(P, zinger_size, "zinger-size", 0, .metavar = "N", .min = 3, .max = VP_DESPIKE_MOST, .def = "3",
           .help = "width of the square neighbourhood of --zinger in samples: 3, 5, ... 15",
           .more = "A spot is found if it covers less than half of the square. Use 3 for single pixels, 5 for spots "
                   "of up to 3 x 3 pixels, as neutrons make them, 7 for spots of 4 x 4."),
    VP_FILE(P, dead, "dead", 0, .metavar = "FILE",
            .help = "mask of dead pixels: one page of the detector's size, not 0 where a pixel is dead",
            .more = "In views, the sample of a dead pixel becomes the mean of the live pixels among its eight "
                    "neighbours; large areas are filled from their edge inwards. In sinograms it is interpolated "
                    "linearly along the detector row. Pixels whose flat is not above the dark field are dead, too."),
    VP_FLAG(P, transmission, "no-log", 0,
            .help = "write the transmission; apply neither the floor nor the logarithm"),
    VP_OPT_END,
};
#undef P

/* Makes the name of a part of a file, of flats with the number of their set. */
static int add_name(struct vp_own_fields *own, const char *path, const char *part, int set, struct vp_err *err)
{
    char *name = NULL;
    const int n = set < 0 ? asprintf(&name, "%s:%s", path, part) : asprintf(&name, "%s:%s.%d", path, part, set);
    if (n < 0)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    own->list[own->names] = own->name[own->names] = name;
    own->names++;
    return 0;
}

int vp_own_fields(struct vp_normalize_params *p, struct vp_own_fields *own, struct vp_run *run, struct vp_err *err)
{
    const bool flats = !p->flat.n && !(p->i0 > 0), darks = !p->dark.n;
    const char *const path = run->parsed.n_operands == 1 ? run->parsed.operands[0] : "-";
    struct vp_fields f;
    *own = (struct vp_own_fields){0};
    if ((!flats && !darks) || run->common.raw_in || !strcmp(path, "-") || *path == '@')
        return 0;
    if (vp_fields_find(path, &f, err))
        return -1;
    own->name = vp_alloc(VP_REALS_MAX + 1, sizeof *own->name, "names of flats", err);
    own->list = vp_alloc(VP_REALS_MAX + 1, sizeof *own->list, "names of flats", err);
    int rc = own->name && own->list ? 0 : -1;
    if (!rc && flats && f.flats) {
        const int sets = f.at && f.flats <= VP_REALS_MAX && !p->flat_at.n ? (int)f.flats : 1;
        p->flat = (struct vp_strings){sets, own->list};
        for (int i = 0; !rc && i < sets; i++) {
            rc = add_name(own, path, "flats", sets > 1 ? i : -1, err);
            p->flat_at.v[i] = sets > 1 ? f.at[i] : 0;
        }
        p->flat_at.n = sets > 1 ? sets : p->flat_at.n;
        vp_note(run, "%s: flats of the file, %d set%s", path, sets, sets > 1 ? "s" : "");
    }
    if (!rc && darks && f.darks) {
        p->dark = (struct vp_strings){1, own->list + own->names};
        rc = add_name(own, path, "darks", -1, err);
        vp_note(run, "%s: darks of the file", path);
    }
    free(f.at);
    return rc;
}

void vp_own_fields_free(struct vp_own_fields *own)
{
    for (int i = 0; i < own->names; i++)
        free(own->name[i]);
    free(own->name);
    free(own->list);
    *own = (struct vp_own_fields){0};
}

/* Computes the mean of the pages of f32 samples, summed in double. Sinograms (one page per detector row): the mean of
 * the rows of each page becomes a row of out. */
static int mean(struct vp_reader *r, bool sinograms, int64_t nv, float *out, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(r);
    const int64_t nu = s->nx, n = sinograms ? nu : nu * s->ny;
    double *sum = vp_alloc((size_t)n, sizeof *sum, "the mean page", err);
    float *page = sinograms ? vp_alloc_raw((size_t)nu, (size_t)s->ny * sizeof *page, "a page of flats", err) : out;
    int64_t pages = 0;
    int got = -1;

    while (sum && page && (got = vp_reader_next_f32(r, page, err)) > 0 && !(sinograms && pages == nv)) {
        for (int64_t y = 0; y < s->ny; y++)
            for (int64_t u = 0; u < nu; u++)
                sum[(sinograms ? 0 : y * nu) + u] += page[y * nu + u];
        for (int64_t u = 0; u < nu && sinograms; u++) {
            out[pages * nu + u] = (float)(sum[u] / (double)s->ny);
            sum[u] = 0;
        }
        pages++;
    }
    for (int64_t i = 0; i < n && !sinograms && !got; i++)
        out[i] = (float)(sum[i] / (double)pages);
    free(sum);
    if (sinograms)
        free(page);
    if (got >= 0 && sinograms && (got || pages < nv))
        got = vp_fail(err, VP_ERUN, "%s: expected %lld sinograms, got %s", vp_reader_name(r), (long long)nv,
                      got ? "more" : "fewer");
    return got || pages ? got : vp_fail(err, VP_ERUN, "%s: no pages", vp_reader_name(r));
}

/* Checks that memory suffices for `pages` detector pages, each as read and as vp_normalize_open makes it, and the sums
 * of one. */
static int check_memory(const struct vp_run *run, int pages, int64_t nu, int64_t nv, struct vp_err *err)
{
    const double bytes = (double)nu * (double)nv * (2 * (double)pages * sizeof(float) + sizeof(double));
    const struct vp_bytes_text need = vp_bytes_text((uint64_t)fmin(bytes, 0x1p63));

    if (bytes <= (double)run->common.memory)
        return 0;
    vp_fail(err, VP_ERESOURCE, "the flats need %s while they are read, the memory limit is %s", need.text,
            vp_bytes_text(run->common.memory).text);
    return vp_hint(err, "allow --memory %s", need.text);
}

/* Reads, checks and averages one flat set or the darks, out of `pages` pages kept in memory. *nv may be -1 and is then
 * set. */
static int load_mean(float **out, struct vp_run *run, const char *const *paths, int n, int pages, int64_t nu,
                     int64_t *nv, bool sinograms, bool mask, struct vp_err *err)
{
    struct vp_reader *r = NULL;
    int rc = -1;

    if (vp_open_joined(run, paths, n, &r, err))
        return -1;
    const struct vp_stack *s = vp_reader_stack(r);
    const int64_t rows = sinograms ? s->pages : s->ny;
    if (*nv < 0)
        *nv = rows;
    if (!mask && vp_quantity_check(s, VP_NEED_FLATS, vp_reader_name(r), err)) {
        vp_reader_close(r, NULL);
        return -1;
    }
    if (rows < 0 && *nv < 0)
        vp_fail(err, VP_EUSAGE, "%s: the number of detector rows is unknown", vp_reader_name(r));
    else if (s->nx != nu || (rows >= 0 && rows != *nv))
        vp_fail(err, VP_ERUN, "%s is %lldx%lld pixels, the detector %lldx%lld", vp_reader_name(r),
                (long long)s->nx, (long long)rows, (long long)nu, (long long)*nv);
    else if (!check_memory(run, pages, nu, *nv, err) &&
             (*out = vp_alloc_raw((size_t)nu, (size_t)*nv * sizeof(float), "a flat field", err)))
        rc = mean(r, sinograms, *nv, *out, err);
    if (vp_reader_close(r, rc ? NULL : err))
        rc = -1;
    return rc;
}

static int load_mask(uint8_t **out, struct vp_run *run, const char *path, int64_t nu, int64_t nv,
                     struct vp_err *err)
{
    float *page = NULL;

    if (load_mean(&page, run, &path, 1, 1, nu, &nv, false, true, err)) {
        free(page);
        return -1;
    }
    const size_t pixels = (size_t)nu * (size_t)nv;
    if ((*out = vp_alloc_raw(pixels, 1, "the mask", err)))
        for (size_t i = 0; i < pixels; i++)
            (*out)[i] = page[i] != 0;
    free(page);
    return *out ? 0 : -1;
}

/* Reads all flats, whose mean is known, and finds their components. NULL in *modes if none stands out. */
static int load_modes(struct vp_flat_modes **modes, struct vp_run *run, const struct vp_normalize_params *p, int64_t nu,
                      int64_t nv, const float *flat, const float *dark, struct vp_err *err)
{
    struct vp_reader *r = NULL;
    float *pages = NULL;
    int rc = -1;

    *modes = NULL;
    if (vp_open_joined(run, p->flat.v, 1, &r, err))
        return -1;
    const int64_t flats = vp_reader_stack(r)->pages;
    if (flats < 0)
        vp_fail(err, VP_EUSAGE, "--flat-modes: %s: the number of pages is unknown", vp_reader_name(r));
    else if (!check_memory(run, (int)vp_min64(flats, INT_MAX), nu, nv, err)
             && (pages = vp_alloc_raw((size_t)(nu * nv), (size_t)flats * sizeof *pages, "the flats", err))) {
        rc = 0;
        for (int64_t i = 0; i < flats && !rc; i++)
            rc = vp_reader_next_f32(r, pages + i * nu * nv, err) > 0 ? 0 : -1;
    }
    if (vp_reader_close(r, rc ? NULL : err))
        rc = -1;
    struct vp_flat_modes *const m = rc ? NULL : vp_alloc(1, sizeof *m, "the modes of the flats", err);
    if (m && !vp_flat_modes_open(m, pages, flats, flat, dark, nu, nv, (int)p->flat_modes, err)) {
        if (m->n)
            vp_note(run, "--flat-modes: %d of %lld components of the flats stand out of the noise, with %.3g %% of their "
                         "variance", m->n, (long long)flats - 1, 100 * m->part);
        else
            vp_warn(run, "--flat-modes: no component of the %lld flats stands out of the noise: their mean is used",
                    (long long)flats);
        *modes = m->n ? m : NULL;
    } else {
        rc = -1;
    }
    if (m && !*modes) {
        vp_flat_modes_free(m);
        free(m);
    }
    free(pages);
    return rc;
}

int vp_normalize_load(struct vp_normalize **out, struct vp_run *run, const struct vp_normalize_params *p,
                      int64_t nu, int64_t nv, int64_t views, bool sinograms, struct vp_err *err)
{
    const int sets = p->flat.n, pages = sets + (p->dark.n > 0);
    struct vp_flat_modes *modes = NULL;
    uint8_t *mask = NULL;
    int rc = vp_normalize_check(p, err);
    if (!rc && p->flat_modes && sinograms)
        rc = vp_fail(err, VP_EUSAGE, "--flat-modes and --layout sinograms cannot be combined");
    if (!rc && p->flat_modes && !strcmp(p->flat.v[0], "-"))
        rc = vp_fail(err, VP_EUSAGE, "--flat-modes reads the flats twice: expected files, got standard input");
    float **field = rc ? NULL : vp_alloc((size_t)sets + 1, sizeof *field, "the flats", err); /* the last is the dark */

    *out = NULL;
    if (!field)
        return -1;
    for (int s = 0; s < pages && !rc; s++)
        rc = load_mean(&field[s], run, s < sets ? &p->flat.v[s] : p->dark.v, s < sets ? 1 : p->dark.n, pages, nu, &nv,
                       sinograms, false, err);
    if (!rc && p->flat_modes)
        rc = load_modes(&modes, run, p, nu, nv, field[0], field[sets], err);
    if (!rc && p->dead)
        rc = load_mask(&mask, run, p->dead, nu, nv, err);
    if (!rc)
        rc = vp_normalize_open(out, p, nu, nv > 0 ? nv : 1, views, (const float *const *)field, sets, field[sets],
                               mask, err);
    if (!rc && modes)
        vp_normalize_modes(*out, modes);
    else if (modes) {
        vp_flat_modes_free(modes);
        free(modes);
    }
    for (int s = 0; s < pages; s++)
        free(field[s]);
    free(field);
    free(mask);
    return rc;
}

void vp_blank_report(const struct vp_blank *b, const char *page, const struct vp_run *run)
{
    if (b->pages == 1)
        vp_warn(run, "%s %lld has no usable sample: all are dark, NaN or infinite", page, (long long)b->first);
    else if (b->pages)
        vp_warn(run, "%lld %ss have no usable sample, the first is %s %lld: all of theirs are dark, NaN or infinite",
                (long long)b->pages, page, page, (long long)b->first);
}

void vp_normalize_warn(const struct vp_normalize *n, const struct vp_run *run,
                       const struct vp_normalize_report *rep, int64_t samples, int64_t bad)
{
    const struct vp_normalize_facts f = vp_normalize_facts(n);
    const double percent = samples > 0 ? 100 * (double)rep->floored / (double)samples : 0;

    if (f.unlit)
        vp_warn(run,
                "%lld of %lld pixels are dead, their flat not above the dark field; filled in from their "
                "neighbours",
                (long long)f.unlit, (long long)f.pixels);
    if (f.dead > f.unlit)
        vp_note(run, "%lld pixels are dead in the mask; filled in from their neighbours",
                (long long)(f.dead - f.unlit));
    if (bad)
        vp_warn(run, "%lld samples are NaN or infinite; filled in from their neighbours", (long long)bad);
    if (rep->zingers)
        vp_note(run, "%lld zingers (%.3g %% of the samples) were replaced", (long long)rep->zingers,
                100 * (double)rep->zingers / (double)samples);
    if (rep->floored)
        (percent > 1 ? vp_warn
         : vp_note)(run, "%lld samples (%.3g %%) have a transmission below %g and were raised to it",
                                          (long long)rep->floored, percent, f.floor);
}
