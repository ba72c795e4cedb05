/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of boxes (img-sat --boxes), and images of ones for it: every box that is accepted lies in the image, and
 * sums up to its size. */
#include "fuzz.h"
#include "global/boxes.h"
#include "stack/outfile.h"

#include <string.h>
#include <unistd.h>

enum { NX = 9, NY = 7, NZ = 5, PAGE = NX * NY, IMAGES = 2, MANY = 200 };

static int measure(struct vp_boxes *b, enum vp_type type, struct vp_err *err)
{
    static const double ones[PAGE * NZ * IMAGES] = {[0 ... PAGE * NZ * IMAGES - 1] = 1};
    const int64_t rows = NY * IMAGES * (b->volume ? NZ : 1);
    double samples[PAGE * NZ * IMAGES];
    vp_convert(samples, type, ones, VP_F64, PAGE * NZ * IMAGES, 1, 0);
    return vp_outfile_open(&b->out, "/dev/null", err) || vp_boxes_begin(b, type, 1, IMAGES, 2, err)
           || vp_boxes_rows(b, 0, rows, samples, err) || vp_boxes_end(b, err) ? -1 : 0;
}

static void check_list(const char *path, bool volume, enum vp_type type, bool json)
{
    const int64_t size[3] = {NX, NY, volume ? NZ : 1};
    struct vp_boxes b;
    struct vp_err err = VP_ERR_INIT;
    if (vp_boxes_read(&b, path, size, volume, &err)) {
        fuzz_refused(&err);
        vp_boxes_free(&b);
        return;
    }
    MUST(b.n > 0);
    fuzz_accepted();
    for (int64_t i = 0; i < 2 * b.n; i++)
        MUST(b.event[i].box >= 0 && b.event[i].box < b.n && (!i || b.event[i - 1].at <= b.event[i].at));
    for (int64_t i = 0; i < b.n; i++) {
        MUST(b.box[i].name && b.box[i].image >= VP_EVERY);
        for (int a = 0; a < 3; a++)
            MUST(b.box[i].lo[a] >= 0 && b.box[i].lo[a] < b.box[i].hi[a] && b.box[i].hi[a] <= size[a]);
    }
    b.json = json;
    if (b.n <= MANY && measure(&b, type, &err)) {
        fuzz_refused(&err);
    } else if (b.n <= MANY) {
        for (int64_t i = 0; i < b.n; i++) {
            const struct vp_box_wanted *w = &b.box[i];
            double count = w->image == VP_EVERY || w->image == IMAGES - 1;
            for (int a = 0; a < 3; a++)
                count *= (double)(w->hi[a] - w->lo[a]);
            MUST(vp_exact_value(&b.sums[i].sum) == count && vp_exact_value(&b.sums[i].squares) == count);
        }
    }
    vp_boxes_free(&b);
}

/* A stream has unknown length. */
static void check_stream(const char *path)
{
    const int64_t size[3] = {NX, NY, VP_UNKNOWN};
    struct vp_boxes b;
    struct vp_err err = VP_ERR_INIT;
    if (vp_boxes_read(&b, path, size, true, &err))
        fuzz_refused(&err);
    vp_boxes_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const enum vp_type types[] = {VP_U8, VP_F32, VP_I16, VP_U32};
    char path[32];
    const int fd = fuzz_input(data, n, false, path);

    check_list(path, false, types[n % 4], n % 8 > 3);
    check_list(path, true, types[n % 4], n % 8 > 3);
    check_stream(path);
    close(fd);
    return 0;
}
