/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of boxes (img-sat --boxes), and tables of ones for it: every box that is accepted lies in the image, and sums
 * up to its size. */
#include "fuzz.h"
#include "image/boxes.h"
#include "stack/outfile.h"

#include <string.h>
#include <unistd.h>

enum { NX = 9, NY = 7, NZ = 5, PAGE = (NX + 1) * (NY + 1), MANY = 200 };

/* The exclusive tables of an image of ones, and of the squares, go by. */
static int go_by(struct vp_boxes *b, int64_t image, enum vp_type type, struct vp_err *err)
{
    const int64_t planes = b->volume ? NZ + 1 : NY + 1, wide = NX + 1, high = b->volume ? NY + 1 : 1;
    for (int64_t z = 0; z < planes; z++) {
        uint64_t sums[PAGE];
        double floats[PAGE];
        for (int64_t i = 0; i < wide * high; i++) {
            sums[i] = (uint64_t)(i % wide * (b->volume ? i / wide : 1) * z);
            floats[i] = (double)sums[i];
        }
        const void *const plane = vp_boxes_table(type) == VP_F64 ? (void *)floats : (void *)sums;
        if (vp_boxes_sums(b, image * planes + z, plane, wide * high, err)
            || vp_boxes_squares(b, image * planes + z, plane, wide * high, err))
            return -1;
    }
    return 0;
}

static int measure(struct vp_boxes *b, enum vp_type type, int64_t images, struct vp_err *err)
{
    if (vp_outfile_open(&b->out, "/dev/null", err) || vp_boxes_begin(b, type, 1, images, err))
        return -1;
    for (int64_t i = 0; i < images; i++)
        if (go_by(b, i, type, err))
            return -1;
    return vp_boxes_end(b, err);
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
    for (int64_t i = 0; i < 2 * b.n; i++)
        MUST(b.event[i].box >= 0 && b.event[i].box < b.n && (!i || b.event[i - 1].at <= b.event[i].at));
    for (int64_t i = 0; i < b.n; i++) {
        MUST(b.box[i].name && b.box[i].image >= VP_EVERY);
        for (int a = 0; a < 3; a++)
            MUST(b.box[i].lo[a] >= 0 && b.box[i].lo[a] < b.box[i].hi[a] && b.box[i].hi[a] <= size[a]);
    }
    b.json = json;
    if (b.n <= MANY && measure(&b, type, 2, &err)) {
        fuzz_refused(&err);
    } else if (b.n <= MANY) {
        for (int64_t i = 0; i < b.n; i++) {
            const struct vp_box_wanted *w = &b.box[i];
            uint64_t count = 1;
            for (int a = 0; a < 3; a++)
                count *= (uint64_t)(w->hi[a] - w->lo[a]);
            double is[2];
            memcpy(is, b.sums[i].of, sizeof is);
            for (int k = 0; k < 2; k++)
                MUST(b.floats ? is[k] == (double)count : b.sums[i].of[k] == count);
        }
    }
    vp_boxes_free(&b);
}

/* Of a stream nobody knows how long it will be. */
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
