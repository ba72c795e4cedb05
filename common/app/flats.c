/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/flats.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/quantity.h"
#include "app/open.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P struct vp_normalize_params
const struct vp_opt vp_normalize_options[] = {
    VP_FILES(P, flat, "flat", 0, .metavar = "FILES", .group = "Counts to line integrals",
             .help = "flat field (open beam): a file, directory or @list, averaged",
             .more = "Given more than once, each is a set of its own, and the flat of a view is "
                     "interpolated linearly between the sets before and after it (see --flat-at)."),
    VP_REALS(P, flat_at, "flat-at", 0, .metavar = "VIEWS", .min = -1e15, .max = 1e15,
             .help = "view number of each flat set, increasing (default: evenly, first to last view)",
             .more = "0 is the first view. Before the first set and after the last their flats are used as "
                     "they are."),
    VP_FILES(P, dark, "dark", 0, .metavar = "FILES",
             .help = "dark field (no beam): averaged and subtracted from counts and flats"),
    VP_REAL(P, i0, "i0", 0, .metavar = "N", .min = 1e-30, .max = 1e30,
            .help = "counts of the open beam (above the dark field) where there is no flat"),
    VP_REAL(P, floor, "floor", 0, .metavar = "T", .min = 1e-30, .max = 1, .def = "1e-5",
            .help = "smallest transmission: what is below, or negative, is raised to it",
            .more = "The logarithm needs a positive number. The default, a line integral of 11.5, is just "
                    "below the smallest transmission that a 16-bit detector can show (1/65535), so it "
                    "alters no sample that means anything, and is not so small that a starved sample makes "
                    "more of a streak than it must. A warning says if more than 1 % of the samples were "
                    "raised."),
    VP_REAL(P, zinger, "zinger", 0, .metavar = "T", .min = 1, .max = 1e30,
            .help = "replace samples above T times the median of their 3x3 samples by it (try 1.5)",
            .more = "For stray high-energy photons and gamma hits on the sensor, which brighten single "
                    "pixels of single views. The median is over the transmission of the sample and its "
                    "eight neighbours on the page: in the view, or with sinograms in detector column and "
                    "view. At the page's edge, and beside dead pixels, it is over those that there are."),
    VP_FILE(P, dead, "dead", 0, .metavar = "FILE",
            .help = "mask of dead pixels: a page of the detector's size, not 0 is dead",
            .more = "Their samples are replaced by the mean of the live ones among their eight neighbours "
                    "in the view, large areas from their edge inwards; in sinograms, by linear "
                    "interpolation along the detector row. Pixels whose flat is not above the dark field "
                    "are dead as well."),
    VP_FLAG(P, transmission, "no-log", 0, .help = "stop at the transmission, without floor and logarithm"),
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

int vp_normalize_load(struct vp_normalize **out, struct vp_run *run, const struct vp_normalize_params *p,
                      int64_t nu, int64_t nv, int64_t views, bool sinograms, struct vp_err *err)
{
    const int sets = p->flat.n, pages = sets + (p->dark.n > 0);
    uint8_t *mask = NULL;
    int rc = vp_normalize_check(p, err);
    float **field = rc ? NULL : vp_alloc((size_t)sets + 1, sizeof *field, "the flats", err); /* the last is the dark */

    *out = NULL;
    if (!field)
        return -1;
    for (int s = 0; s < pages && !rc; s++)
        rc = load_mean(&field[s], run, s < sets ? &p->flat.v[s] : p->dark.v, s < sets ? 1 : p->dark.n, pages, nu, &nv,
                       sinograms, false, err);
    if (!rc && p->dead)
        rc = load_mask(&mask, run, p->dead, nu, nv, err);
    if (!rc)
        rc = vp_normalize_open(out, p, nu, nv > 0 ? nv : 1, views, (const float *const *)field, sets, field[sets],
                               mask, err);
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
