/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring and printing a stack, for img-info. */
#include "pages/info.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/json.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_info_options[] = {
    VP_FLAG(struct vp_info_params, statistics, "statistics", 0, .group = "What to print",
            .help = "print minimum, maximum, mean, standard deviation, sum, and the number of NaN and infinite "
                    "samples"),
    VP_REALS(struct vp_info_params, percent, "percentiles", 0, .metavar = "P,...", .min = 0, .max = 100,
             .help = "print percentiles, such as 1,50,99; 50 is the median (at most 32)",
             .more = "Values between two samples are interpolated linearly, as NumPy and R do by default. "
                     "Percentiles are exact: 32-bit samples are read twice for them and 64-bit samples four times. "
                     "From a pipe they are exact for 8- and 16-bit samples, and within 0.05 % of the value for other "
                     "types; --spool makes them exact."),
    VP_INT(struct vp_info_params, bins, "histogram", 0, .metavar = "BINS", .min = 1, .max = 1 << 20,
           .help = "print a histogram with BINS equal bins over --range",
           .more = "Each line has the lower edge, the upper edge and the count of a bin. A bin includes its lower "
                   "edge; the last bin also includes its upper edge."),
    VP_REALS(struct vp_info_params, range, "range", 0, .metavar = "LO,HI",
             .help = "lower and upper end of the histogram (default: smallest and largest sample)",
             .more = "The default needs an extra pass over the samples. From a pipe, therefore, give --range or "
                     "--spool; only 8- and 16-bit samples need neither, because their default is the range of the "
                     "type."),
    VP_STRINGS(struct vp_info_params, value, "value", 0, .metavar = "NAME,...",
              .help = "print only these values, one a line: mean, min, nx, type, voxel, ...",
              .more = "May be given several times. A name is one of these:\n\n"
                      "- nx ny pages type bytes\n"
                      "- samples min max mean std sum nan inf\n"
                      "- median, or pN for percentile N\n"
                      "- a key of the metadata, such as voxel"),
    VP_FLAG(struct vp_info_params, json, "json", 0, .help = "print one JSON object"),
    VP_FILE(struct vp_info_params, mask, "mask", 0, .metavar = "FILE", .group = "Selection",
            .help = "use only samples where FILE is not zero",
            .more = "FILE is a TIFF stack of the same size. A single page applies to every page of the stack."),
    VP_OPTIONS(struct vp_info_params, select, vp_select_options),
    VP_INSTEAD("old-s", 's', "statistics"),
    VP_OPT_END,
};

/* ---- requests ---- */

static const char *const statistics[] = {"samples", "min", "max", "mean", "std", "sum", "nan", "inf", NULL};

static bool is_statistic(const char *s)
{
    int i = 0;

    while (statistics[i] && strcmp(s, statistics[i]))
        i++;
    return statistics[i];
}

/* Reads "median" or "p99.5" */
static bool is_percentile(const char *s, double *percent)
{
    char *end;

    *percent = 50;
    if (!strcmp(s, "median"))
        return true;
    if (*s != 'p' || s[1] < '0' || s[1] > '9')
        return false;
    *percent = strtod(s + 1, &end);
    return *end == '\0' && *percent <= 100;
}

/* Copies the next name of a list with commas in `name` (of 64 bytes); false at the end. */
static bool next_name(const char **at, char name[64])
{
    const size_t n = strcspn(*at, ",");

    if (!**at)
        return false;
    snprintf(name, 64, "%.*s", (int)(n < 63 ? n : 63), *at);
    *at += n + ((*at)[n] == ',');
    return true;
}

/* Copies the next name of all lists: *i is 0 and *at "" before the first. */
static bool next_value(const struct vp_strings *lists, int *i, const char **at, char name[64])
{
    while (!**at && *i < lists->n)
        *at = lists->v[(*i)++];
    return next_name(at, name);
}

int vp_info_ask(struct vp_info *i, const struct vp_info_params *p, struct vp_err *err)
{
    char name[64];
    double percent;

    *i = (struct vp_info){.p = p};
    i->percent = p->percent;
    i->want_moments = i->p->statistics;
    for (int k = 0; k < p->value.n; k++)
        if (!*p->value.v[k])
            return vp_fail(err, VP_EUSAGE, "--value: expected names, such as mean,max");
    int list = 0;
    for (const char *at = ""; next_value(&p->value, &list, &at, name);) {
        i->want_moments = i->want_moments || is_statistic(name);
        if (!is_percentile(name, &percent))
            continue;
        if (i->percent.n == VP_QUANTILES_MAX)
            return vp_fail(err, VP_EUSAGE, "--value: more than %d percentiles", VP_QUANTILES_MAX);
        i->percent.v[i->percent.n++] = percent;
    }
    if (i->p->range.n && (i->p->range.n != 2 || !i->p->bins))
        return vp_fail(err, VP_EUSAGE, i->p->bins ? "--range: expected LO,HI" : "--range: needs --histogram");
    return 0;
}

/* ---- reading ---- */

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct vp_info *i = ctx;
    const enum vp_type type = i->stack->type;
    const int64_t samples = (i->select->x1 - i->select->x0) * i->reading->rows;

    (void)out;
    for (int k = 0; k < n; k++) {
        void *at = (char *)in + (size_t)(k * samples) * vp_type_size(type);
        int64_t count = samples;
        if (i->mask) {
            const void *mask;
            if (vp_beside_rows(i->mask, i->select, page + k, 0, i->reading->rows, &mask, err))
                return -1;
            count = vp_keep_masked(at, type, mask, vp_reader_stack(i->mask->reader)->type, samples);
        }
        if (i->count_moments)
            vp_moments_add(&i->m, at, type, count);
        if (i->count_histogram)
            vp_histogram_add(&i->h, at, type, count);
        if (i->count_quantiles)
            vp_quantiles_add(i->q, at, count);
    }
    return n;
}

/* Makes the passes over the samples that it takes: the first for moments, later ones for a histogram between
 * the extremes that it found and for exact percentiles. */
int vp_info_measure(struct vp_info *i, const struct vp_pages *input, struct vp_err *err)
{
    const bool seekable = vp_reader_seekable(input->reader);
    const enum vp_type type = i->stack->type;
    const bool histogram = i->p->bins > 0;
    const bool find_range = histogram && !i->p->range.n && (seekable || vp_type_size(type) > 2);
    double ends[2] = {i->p->range.v[0], i->p->range.v[1]};

    if (find_range && !seekable)
        return vp_fail_hint(err, VP_EUSAGE, "give --range LO,HI, or --spool",
                            "--histogram: the range of samples from a pipe is unknown until its end");
    if (!vp_meta_numbers(&i->stack->meta, "scale", 2, i->scale))
        memcpy(i->scale, (const double[]){1, 0}, sizeof i->scale);
    if (!i->p->range.n) {
        ends[0] = vp_scale_value(i->scale, vp_type_min(type));
        ends[1] = vp_scale_value(i->scale, vp_type_max(type));
    }
    if (histogram && !find_range && vp_histogram_init(&i->h, ends, i->scale, (int)i->p->bins, err))
        return -1;
    if (i->percent.n && vp_quantiles_open(&i->q, type, i->percent.v, i->percent.n, !seekable, err))
        return -1;
    i->count_moments = i->want_moments || find_range;
    i->count_histogram = histogram && !find_range;
    i->count_quantiles = i->q != NULL;
    for (bool first = true; first || i->count_histogram || i->count_quantiles; first = false) {
        struct vp_pages pages = *input;
        pages.work = work;
        pages.ctx = i;
        pages.height = i->select->y1 - i->select->y0;
        pages.whole = i->mask;
        pages.step = VP_MOMENTS_BLOCK;
        i->reading = &pages;
        pages.beside += (i->q ? vp_quantiles_bytes(type, i->percent.n, !seekable) : 0)
                       + (i->h.count ? vp_histogram_bytes(&i->h) : 0);
        if ((!first && vp_reader_seek(input->reader, 0, err)) || vp_select_run(i->select, &pages, err))
            return -1;
        if (i->pages < 0) /* a pipe has been read to its end, whatever was selected */
            i->pages = vp_reader_position(input->reader);
        i->count_moments = false;
        i->count_quantiles = i->count_quantiles && vp_quantiles_again(i->q);
        i->count_histogram = find_range && first;
        if (i->count_histogram) {
            const double lo = vp_scale_value(i->scale, i->m.min), hi = vp_scale_value(i->scale, i->m.max);
            double half = i->m.n == 0 || hi > lo ? 0 : 0.5;
            if (hi + half == hi - half && half > 0) /* nothing beside so large a number */
                half = fabs(hi) * 0x1p-20;
            ends[0] = i->m.n ? lo - half : 0;
            ends[1] = i->m.n ? hi + half : 1;
            if (vp_histogram_init(&i->h, ends, i->scale, (int)i->p->bins, err))
                return -1;
        }
    }
    return 0;
}

/* ---- printing ---- */

static double percentile(const struct vp_info *i, int k)
{
    return vp_scale_value(i->scale, vp_quantiles_get(i->q, k));
}

/* Returns the value of a statistic; false if there is none of this name. */
static bool statistic(const struct vp_info *i, const char *name, double *v)
{
    const struct { const char *name; double v; } all[] = {
        {"samples", (double)i->m.n}, {"min", i->m.n ? vp_scale_value(i->scale, i->m.min) : NAN},
        {"max", i->m.n ? vp_scale_value(i->scale, i->m.max) : NAN},
        {"mean", i->m.n ? vp_moments_sum(&i->m, i->scale) / (double)i->m.n : NAN},
        {"std", vp_moments_std(&i->m) / vp_scale_steps(i->scale, 1)}, {"sum", vp_moments_sum(&i->m, i->scale)},
        {"nan", (double)i->m.nan}, {"inf", (double)i->m.inf},
        {"nx", (double)i->stack->nx}, {"ny", (double)i->stack->ny}, {"pages", (double)i->pages},
        {"bytes", (double)i->pages * (double)vp_page_bytes(i->stored)},
    };
    double percent;

    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!strcmp(name, all[k].name)) {
            *v = all[k].v;
            return true;
        }
    if (!is_percentile(name, &percent))
        return false;
    for (int k = 0; k < i->percent.n; k++)
        if (i->percent.v[k] == percent)
            *v = percentile(i, k);
    return true;
}

static int print_values(const struct vp_info *i, FILE *out, struct vp_err *err)
{
    char name[64], text[32];
    double v = NAN;
    int list = 0;
    for (const char *at = ""; next_value(&i->p->value, &list, &at, name);) {
        const char *value = !strcmp(name, "type") ? vp_type_name(i->stored->type)
                            : statistic(i, name, &v) ? vp_format_number(text, v)
                                : vp_meta_get(&i->stored->meta, name);
        if (!value)
            return vp_fail(err, VP_ERUN, "%s: no value '%s': neither a statistic nor in the metadata",
                           i->name, name);
        vp_put_plain(out, value);
        fputc('\n', out);
    }
    return 0;
}

struct line { const char *key; int at; };

static int by_key(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order ? order : x->at - y->at;
}

/* Prints members of an object, a key that is there several times once, with a list; history always is one. */
static int print_metadata(const struct vp_meta *meta, struct vp_json *json, struct vp_err *err)
{
    struct line *line = vp_alloc((size_t)meta->n, sizeof *line, "metadata", err);
    int *next = vp_alloc((size_t)meta->n, sizeof *next, "metadata", err); /* next line with the same key; 0: none */
    if (!line || !next) {
        free(line);
        free(next);
        return -1;
    }
    for (int k = 0; k < meta->n; k++)
        line[k] = (struct line){meta->key[k], k};
    vp_sort(line, (size_t)meta->n, sizeof *line, by_key);
    for (int i = 0; i + 1 < meta->n; i++)
        if (!strcmp(line[i].key, line[i + 1].key))
            next[line[i].at] = line[i + 1].at;
    bool *later = (bool *)line; /* not the first of its key: the order is in `next` now */
    memset(later, 0, (size_t)meta->n * sizeof *later);
    for (int k = 0; k < meta->n; k++)
        if (next[k])
            later[next[k]] = true;
    for (int k = 0; k < meta->n; k++) {
        if (later[k])
            continue;
        const bool list = next[k] || !strcmp(meta->key[k], "history");
        const char *name = meta->key[k]; /* key of a member; elements of a list have none */
        if (list) {
            vp_json_open(json, name, '[');
            name = NULL;
        }
        vp_json_string(json, name, meta->value[k]);
        for (int m = next[k]; m; m = next[m])
            vp_json_string(json, NULL, meta->value[m]);
        if (list)
            vp_json_close(json, ']');
    }
    free(line);
    free(next);
    return 0;
}

static int print_json(const struct vp_info *i, FILE *out, struct vp_err *err)
{
    struct vp_json json = {.out = out};
    double v = NAN;

    vp_json_open(&json, NULL, '{');
    vp_json_string(&json, "name", i->name);
    vp_json_print(&json, "nx", "%lld", (long long)i->stack->nx);
    vp_json_print(&json, "ny", "%lld", (long long)i->stack->ny);
    vp_json_number(&json, "pages", i->pages < 0 ? NAN : (double)i->pages);
    vp_json_string(&json, "type", vp_type_name(i->stored->type));
    vp_json_open(&json, "metadata", '{');
    if (print_metadata(&i->stored->meta, &json, err))
        return -1;
    vp_json_close(&json, '}');
    if (i->want_moments) {
        vp_json_open(&json, "statistics", '{');
        for (int k = 0; statistics[k]; k++) {
            statistic(i, statistics[k], &v);
            vp_json_number(&json, statistics[k], v);
        }
        vp_json_close(&json, '}');
    }
    if (i->percent.n) {
        vp_json_open(&json, "percentiles", '[');
        for (int k = 0; k < i->percent.n; k++) {
            vp_json_open(&json, NULL, '[');
            vp_json_print(&json, NULL, "%.15g", i->percent.v[k]);
            vp_json_number(&json, NULL, percentile(i, k));
            vp_json_close(&json, ']');
        }
        vp_json_close(&json, ']');
    }
    if (i->h.count) {
        vp_json_open(&json, "histogram", '{');
        vp_json_number(&json, "lo", i->h.lo);
        vp_json_number(&json, "hi", i->h.hi);
        vp_json_print(&json, "below", "%lld", (long long)i->h.below);
        vp_json_print(&json, "above", "%lld", (long long)i->h.above);
        vp_json_open(&json, "count", '[');
        for (int k = 0; k < i->h.bins; k++)
            vp_json_print(&json, NULL, "%lld", (long long)i->h.count[k]);
        vp_json_close(&json, ']');
        vp_json_close(&json, '}');
    }
    vp_json_close(&json, '}');
    fputc('\n', out);
    return 0;
}

static void print_line(const struct vp_meta *meta, int k, bool verbose, FILE *out)
{
    const char *value = meta->value[k];
    fprintf(out, "%-12s ", meta->key[k]);
    if (!strcmp(meta->key[k], "palette") && !verbose) {
        int n = 1;
        while ((value = strchr(value, ' ')))
            n += *++value != ' ';
        fprintf(out, "%d colours", n);
    } else {
        vp_put_plain(out, value);
    }
    fputc('\n', out);
}

static void print_text(const struct vp_info *i, bool verbose, FILE *out)
{
    const struct vp_stack *s = i->stored;
    char text[32];
    int geometry = 0;
    double v = NAN;

    vp_put_plain(out, i->name);
    fprintf(out, "\n%-12s %lld x %lld", "size", (long long)s->nx, (long long)s->ny);
    if (i->pages >= 0)
        fprintf(out, ", %lld page%s", (long long)i->pages, i->pages == 1 ? "" : "s");
    fprintf(out, "\n%-12s %s", "type", vp_type_name(s->type));
    if (i->pages >= 0)
        fprintf(out, ", %s", vp_bytes_text((uint64_t)i->pages * vp_page_bytes(s)).text);
    fputc('\n', out);
    for (int k = 0; k < s->meta.n; k++) {
        const bool geom = !strncmp(s->meta.key[k], "geom.", 5);
        geometry += geom;
        if ((!geom || verbose) && strcmp(s->meta.key[k], "history"))
            print_line(&s->meta, k, verbose, out);
    }
    if (geometry && !verbose)
        fprintf(out, "%-12s %d line%s (shown with -v; explained by ct-geom --show)\n", "geometry", geometry,
                geometry == 1 ? "" : "s");
    for (int k = 0; i->want_moments && statistics[k]; k++) {
        statistic(i, statistics[k], &v);
        fprintf(out, "%-12s %s\n", statistics[k], vp_format_number(text, v));
    }
    for (int k = 0; k < i->percent.n; k++) {
        char name[32];
        snprintf(name, sizeof name, i->percent.v[k] == 50 ? "median" : "p%.10g", i->percent.v[k]);
        fprintf(out, "%-12s %s%s\n", name, vp_format_number(text, percentile(i, k)),
                vp_quantiles_exact(i->q) ? "" : " (within 0.05 %)");
    }
    for (int k = 0; k < i->h.bins; k++) {
        char hi[32];
        fprintf(out, "%-12s %-12s %lld\n", vp_format_number(text, i->h.edge[k]),
                vp_format_number(hi, i->h.edge[k + 1]), (long long)i->h.count[k]);
    }
    if (i->h.below || i->h.above)
        fprintf(out, "%-12s %lld below, %lld above\n", "outside", (long long)i->h.below,
                (long long)i->h.above);
    for (int k = 0; k < s->meta.n; k++) /* it grows with every program: last */
        if (!strcmp(s->meta.key[k], "history"))
            print_line(&s->meta, k, verbose, out);
}

int vp_info_print(const struct vp_info *i, bool verbose, FILE *out, struct vp_err *err)
{
    if (i->p->value.n)
        return print_values(i, out, err);
    if (i->p->json)
        return print_json(i, out, err);
    print_text(i, verbose, out);
    return 0;
}

bool vp_info_needs_samples(const struct vp_info *i)
{
    return i->want_moments || i->p->bins || i->percent.n;
}

void vp_info_free(struct vp_info *i)
{
    vp_histogram_free(&i->h);
    vp_quantiles_close(i->q);
    i->q = NULL;
}
