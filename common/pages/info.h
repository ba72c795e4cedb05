/* Description of a stack, as img-info prints it: header, statistics, histogram, percentiles. */
#pragma once

#include "pages/select.h"
#include "pages/statistics.h"

#include <stdio.h>

struct vp_info_params {
    bool statistics, json;     /* --statistics, --json */
    struct vp_strings value;   /* --value NAME,... */
    const char *mask;          /* --mask FILE */
    int64_t bins;              /* --histogram BINS; 0: none */
    struct vp_reals range;     /* --range LO,HI */
    struct vp_reals percent;   /* --percentiles */
    struct vp_select_params select;
};
extern const struct vp_opt vp_info_options[];

struct vp_info {
    const struct vp_info_params *p;
    struct vp_reals percent;          /* those of --percentiles and of --value */
    bool want_moments;
    /* set by the caller after vp_info_ask() */
    const struct vp_stack *stack;     /* as it is read: integers as they are stored, else values */
    const struct vp_stack *stored;    /* type and metadata as stored */
    const char *name;
    int64_t pages;                    /* -1: unknown; found out by a pass over all pages */
    const struct vp_select *select;
    struct vp_beside *mask;           /* or NULL */
    const struct vp_pages *reading;   /* in the pass being made */
    /* results */
    struct vp_moments m;
    struct vp_histogram h;            /* count NULL: none */
    struct vp_quantiles *q;           /* NULL: none */
    double scale[2];                  /* scale of the samples as they are read */
    bool count_moments, count_histogram, count_quantiles;   /* in the pass being made */
};

/* Starts with what the parameters request. VP_EUSAGE if they make no sense. */
int vp_info_ask(struct vp_info *i, const struct vp_info_params *p, struct vp_err *err);
bool vp_info_needs_samples(const struct vp_info *i);
/* Reads what `input` reads (work and ctx are set here), as often as it takes. */
int vp_info_measure(struct vp_info *i, const struct vp_pages *pages, struct vp_err *err);
/* Prints text, JSON or bare values. verbose: the geometry in full. */
int vp_info_print(const struct vp_info *i, bool verbose, FILE *out, struct vp_err *err);
void vp_info_free(struct vp_info *i);
