/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/tally.h"

#include "base/err.h"
#include "base/size.h"
#include "stack/reader.h"

#include <math.h>
#include <stdlib.h>

enum { BINS = 256, BAND_BYTES = 8 << 20 };

static int64_t line_bytes(const struct vp_stack *in)
{
    return in->nx * (int64_t)vp_type_size(in->type);
}

/* Reads all samples in bands of rows: into the range, or, if that is NULL, into the histogram. */
static int pass(struct vp_reader *r, int64_t rows, struct vp_sample_range *range, struct vp_histogram *h,
                struct vp_err *err)
{
    const struct vp_stack *const in = vp_reader_stack(r);
    const int64_t line = line_bytes(in);
    void *const band = vp_alloc_raw((size_t)rows, (size_t)line, "band", err);
    int64_t got = -1;

    if (!band || vp_reader_seek(r, 0, err)) {
        free(band);
        return -1;
    }
    for (int64_t y = 0; ; y = (y + got) % in->ny) {
        got = vp_reader_lines(r, vp_min64(rows, in->ny - y), 0, 0, band, 1, err);
        if (got <= 0)
            break;
        if (range)
            vp_sample_range_add(range, band, in->type, got * in->nx);
        else
            vp_histogram_add(h, band, in->type, got * in->nx);
    }
    free(band);
    return (int)got;
}

int vp_tally(struct vp_reader *r, const double *range, uint64_t memory, struct vp_histogram *h, struct vp_err *err)
{
    static const double unit[] = {1, 0};
    const enum vp_type type = vp_reader_stack(r)->type;
    const bool whole = type != VP_F32 && type != VP_F64;
    struct vp_sample_range found = {.any = false};
    double ends[2] = {0, 1};
    int bins = BINS;
    const int64_t line = line_bytes(vp_reader_stack(r));
    const uint64_t beside = vp_reader_holds(r, false) + BINS * 3 * sizeof(int64_t), least = beside + (uint64_t)line;

    if (least > memory)
        return vp_fail_hint(err, VP_ERESOURCE, "allow more with --memory", "the histogram needs %s, the memory limit is %s",
                            vp_bytes_text(least).text, vp_bytes_text(memory).text);
    const int64_t fit = memory - beside < BAND_BYTES ? (int64_t)(memory - beside) : BAND_BYTES;
    const int64_t rows = vp_min64(vp_reader_stack(r)->ny, vp_max64(1, fit / line));
    if (range) {
        ends[0] = range[0];
        ends[1] = range[1];
    } else if (pass(r, rows, &found, NULL, err)) {
        return -1;
    } else if (found.any && whole) {
        const double values = found.max - found.min + 1, each = ceil(values / BINS);
        bins = (int)ceil(values / each);
        ends[0] = found.min - 0.5;
        ends[1] = ends[0] + each * bins;
    } else if (found.any) {
        const double half = found.max > found.min ? 0 : found.min != 0 ? 0.5 * fabs(found.min) : 0.5;
        ends[0] = found.min - half;
        ends[1] = found.max + half;
    }
    if (!(ends[0] < ends[1])) /* large integers: f64 has no number between neighbours */
        ends[1] = nextafter(ends[0], INFINITY);
    if (!isfinite(ends[1] - ends[0]))
        return vp_fail_hint(err, VP_ERUN, "give --window LO,HI", "a histogram of %g to %g: their difference is beyond f64", ends[0],
                            ends[1]);
    return vp_histogram_init(h, ends, unit, bins, err) || pass(r, rows, NULL, h, err) ? -1 : 0;
}
