/* Runs local operations in tests: a whole image in one box, and the same image in random boxes at random addresses with
 * random strides, which must give the same bits. */
#pragma once

#include "apply.h"
#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "test.h"

#include <stdlib.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}

static int64_t random_in(int64_t lo, int64_t hi) /* inclusive */
{
    return lo + (int64_t)(random_bits() % (uint64_t)(hi - lo + 1));
}

/* Selects the instruction set of all later operations; false if this processor does not have it. */
static inline bool use_isa(const char *name)
{
    return vp_isa_limit(name) && !strcmp(vp_isa_name(), name);
}

/* Runs `op` for the box `out` of an image whose samples are at `image`; the box's support and `slack` voxels beyond are
 * in memory. Stores the result at the box's position in `result`. Far from the end of the image its size is unknown.
 * With `kept` the operation continues, and only planes from `from` on of the support are in memory. */
static int local_part(const struct vp_op *op, const void *image, void *result, const struct vp_box *out,
                      int64_t slack, void *kept, int64_t from, int threads)
{
    const int64_t *n = op->image;
    struct vp_op here = *op;
    const size_t si = vp_type_size(op->in), so = vp_type_size(op->out);
    struct vp_box in = vp_op_region(op, out);
    struct vp_err err = VP_ERR_INIT;

    int64_t m[3]; /* of the input */
    for (int a = 0; a < 3; a++) {
        m[a] = vp_op_input(op, a);
        in.lo[a] = vp_max64(in.lo[a] - slack, 0);
        in.hi[a] = vp_min64(in.hi[a] + slack, m[a]);
    }
    if (kept)
        in.lo[2] = from;
    const int64_t ix = vp_box_size(&in, 0), iy = vp_box_size(&in, 1), iz = vp_box_size(&in, 2);
    const int64_t ox = vp_box_size(out, 0), oy = vp_box_size(out, 1), oz = vp_box_size(out, 2);
    const int64_t is = ix + slack, os = ox + slack;
    /* every plane is an allocation of its own: the address sanitizer detects accesses outside it */
    void **ip = calloc((size_t)iz, sizeof *ip), **op_ = calloc((size_t)oz, sizeof *op_);
    for (int64_t z = 0; z < iz; z++) {
        ip[z] = malloc((size_t)((iy - 1) * is + ix) * si);
        for (int64_t y = 0; y < iy; y++)
            memcpy((char *)ip[z] + (size_t)(y * is) * si,
                   (const char *)image + (size_t)(((in.lo[2] + z) * m[1] + in.lo[1] + y) * m[0] + in.lo[0]) * si,
                   (size_t)ix * si);
    }
    for (int64_t z = 0; z < oz; z++) {
        op_[z] = (char *)malloc((size_t)(oy * os + slack) * so) + (size_t)slack * so;
        memset(op_[z], 0xA5, (size_t)(oy * os) * so);
    }
    const struct vp_part pi = {in, is, ip}, po = {*out, os, op_};
    void *scratch = NULL;
    if (vp_op_region(op, out).hi[2] < m[2])
        here.image[2] = here.input[2] = VP_UNKNOWN;
    const uint64_t bytes = op->scratch ? op->scratch(&here, &in, out, threads) : 0;
    if (bytes && posix_memalign(&scratch, 64, bytes))
        exit(1);
    const int rc = kept ? op->carry->advance(&here, &pi, &po, scratch, kept, threads, &err)
                        : op->run(&here, &pi, &po, scratch, threads, &err);
    CHECK_STR(err.msg, "");
    for (int64_t z = 0; z < oz; z++) {
        for (int64_t y = 0; y < oy; y++) {
            const char *row = (char *)op_[z] + (size_t)(y * os) * so;
            memcpy((char *)result + (size_t)(((out->lo[2] + z) * n[1] + out->lo[1] + y) * n[0] + out->lo[0]) * so,
                   row, (size_t)ox * so);
            for (size_t i = (size_t)ox * so; i < (size_t)os * so; i++)
                if (row[i] != (char)0xA5) { /* wrote outside the box */
                    CHECK(!"canary");
                    break;
                }
        }
        free((char *)op_[z] - (size_t)slack * so);
    }
    for (int64_t z = 0; z < iz; z++)
        free(ip[z]);
    free(ip);
    free(op_);
    free(scratch);
    return rc;
}

static inline int local_box(const struct vp_op *op, const void *image, void *result, const struct vp_box *out,
                            int64_t slack, int threads)
{
    return local_part(op, image, result, out, slack, NULL, 0, threads);
}

static inline int local_whole(const struct vp_op *op, const void *image, void *result, int threads)
{
    const struct vp_box all = {{0, 0, 0}, {op->image[0], op->image[1], op->image[2]}};

    return local_box(op, image, result, &all, 0, threads);
}

/* Compares results of random cuts of the image with `want`, byte by byte. */
static inline void check_boxes(const struct vp_op *op, const void *image, const void *want, int times)
{
    const int64_t *n = op->image;
    const size_t bytes = (size_t)(n[0] * n[1] * n[2]) * vp_type_size(op->out);
    char *got = malloc(bytes);

    for (int i = 0; i < times; i++) {
        int64_t cut[3][4];
        memset(got, 0x5A, bytes);
        for (int a = 0; a < 3; a++) {
            const int64_t p = random_in(0, n[a]), q = random_in(0, n[a]);
            cut[a][0] = 0;
            cut[a][1] = p < q ? p : q;
            cut[a][2] = p < q ? q : p;
            cut[a][3] = n[a];
            for (int k = 1; k < 3 && op->step[a] > 1; k++)
                cut[a][k] -= cut[a][k] % op->step[a];
        }
        for (int b = 0; b < 27; b++) {
            const int k[3] = {b % 3, b / 3 % 3, b / 9};
            struct vp_box box;
            for (int a = 0; a < 3; a++) {
                box.lo[a] = cut[a][k[a]];
                box.hi[a] = cut[a][k[a] + 1];
            }
            if (box.lo[0] < box.hi[0] && box.lo[1] < box.hi[1] && box.lo[2] < box.hi[2])
                local_box(op, image, got, &box, random_in(0, 3), (int)random_in(1, 3));
        }
        if (memcmp(got, want, bytes)) {
            printf("%s\n", op->text);
            CHECK(!"boxes give the bytes of the whole");
        }
    }
    free(got);
}

/* Compares results of random columns through the image, in successive parts of random depth, with `want`. Kept state
 * starts uninitialized. */
static inline void check_columns(const struct vp_op *op, const void *image, const void *want, int times)
{
    const int64_t *n = op->image;
    const size_t size = vp_type_size(op->out), bytes = (size_t)(n[0] * n[1] * n[2]) * size;
    char *got = malloc(bytes);

    for (int i = 0; i < times; i++) {
        const int threads = (int)random_in(1, 3);
        struct vp_box out;
        void *kept = NULL;
        for (int a = 0; a < 2; a++) {
            out.lo[a] = i % 3 ? random_in(0, n[a] - 1) : 0;
            out.hi[a] = i % 3 ? random_in(out.lo[a] + 1, n[a]) : n[a];
        }
        out.lo[2] = out.hi[2] = 0;
        const uint64_t room = op->carry->state_bytes(op, &out, threads);
        CHECK(room > 0);
        if (posix_memalign(&kept, 64, room))
            exit(1);
        memset(kept, 0xFF, room);
        for (int image_number = 0; image_number < 2; image_number++) { /* a second image may follow */
            int64_t had = 0, wrong = 0;
            memset(got, 0x5A, bytes);
            for (out.lo[2] = 0; out.lo[2] < n[2]; out.lo[2] = out.hi[2]) {
                const int64_t left = n[2] - out.lo[2];
                out.hi[2] = out.lo[2] + random_in(1, random_in(0, 1) || left < 4 ? left : 4);
                local_part(op, image, got, &out, 0, kept, had, threads);
                had = out.hi[2] + op->halo[2] < n[2] ? out.hi[2] + op->halo[2] : n[2];
            }
            for (int64_t r = 0; r < n[1] * n[2]; r++) {
                const size_t at = (size_t)(r * n[0] + out.lo[0]) * size;
                if (r % n[1] >= out.lo[1] && r % n[1] < out.hi[1])
                    wrong += memcmp(got + at, (const char *)want + at, (size_t)vp_box_size(&out, 0) * size) != 0;
            }
            CHECK_INT(wrong, 0);
        }
        free(kept);
    }
    free(got);
}

/* Checks on an image large enough for tiles that any number of threads gives the same bytes. */
static inline void check_tiles(const struct vp_op *op, const void *image, void *got)
{
    const size_t bytes = (size_t)(op->image[0] * op->image[1] * op->image[2]) * vp_type_size(op->out);
    char *again = malloc(bytes);

    local_whole(op, image, got, 1);
    for (int threads = 2; threads < 40; threads = 3 * threads + 1) {
        memset(again, 0x5A, bytes);
        local_whole(op, image, again, threads);
        CHECK(!memcmp(again, got, bytes));
    }
    check_boxes(op, image, got, 1);
    free(again);
}
