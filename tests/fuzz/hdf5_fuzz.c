/* SPDX-License-Identifier: BSD-3-Clause */
/* An HDF5 file as libhdf5 may describe it: the bytes choose data sets, their sizes, types, texts and numbers. What the
 * library itself does with bytes is its own matter. */
#include "fuzz.h"
#include "stack/hdf5.h"
#include "stack/reader.h"

#include <string.h>

static const char *const names[] = {
    "/entry/instrument/detector/data", "/entry/instrument/detector/image_key", "/entry/data/data",
    "/entry/data/image_key", "/entry/data/rotation_angle", "/entry/sample/rotation_angle",
    "/entry/instrument/detector/x_pixel_size", "/entry/instrument/detector/distance", "/entry/instrument/source/distance",
    "/entry/instrument/source/type", "/exchange/data", "/exchange/data_white", "/exchange/data_dark", "/exchange/theta",
    "/measurement/instrument/detector/pixel_size_x", "/entry2/tomo/data/image_key", "/entry2/tomo/data/data", "/volume",
    "/a/b/c", VP_H5_NOTE};
static const char *const texts[] = {"", "m", "mm", "um", "deg", "degree", "rad", "X-ray tube", "nothing", "quantity = counts"};
enum { NAMES = sizeof names / sizeof *names, TEXTS = sizeof texts / sizeof *texts };

struct vp_h5_file { int unused; };
static struct vp_h5_file file;
static struct { const uint8_t *at, *end; } bytes;
static struct { bool there; struct vp_h5_set set; uint8_t text, number; } sets[NAMES];

static int next(int below)
{
    return bytes.at < bytes.end ? *bytes.at++ % below : 0;
}

static int index_of(const char *path)
{
    for (int i = 0; i < NAMES; i++)
        if (!strcmp(path, names[i]) && sets[i].there)
            return i;
    return -1;
}

static int open_file(struct vp_h5_file **f, const char *path, const char *name, struct vp_err *err)
{
    (void)path;
    *f = &file;
    return next(20) == 19 ? vp_fail(err, VP_ERUN, "%s: is none", name) : 0;
}

static void close_file(struct vp_h5_file *f)
{
    MUST(f == &file);
}

static int each(struct vp_h5_file *f, int (*take)(void *ctx, const char *path, const struct vp_h5_set *s), void *ctx,
                struct vp_err *err)
{
    (void)f, (void)err;
    for (int i = 0; i < NAMES; i++)
        if (sets[i].there && take(ctx, names[i], &sets[i].set))
            break;
    return 0;
}

static int find(struct vp_h5_file *f, const char *path, struct vp_h5_set *s)
{
    const int i = index_of(path);
    (void)f;
    if (i >= 0)
        *s = sets[i].set;
    return i >= 0;
}

static bool group(struct vp_h5_file *f, const char *path)
{
    (void)f;
    return !strcmp(path, "/entry") || !strcmp(path, "/exchange");
}

static int numbers(struct vp_h5_file *f, const char *path, const char *attribute, int64_t n, double *to,
                   struct vp_err *err)
{
    static const double values[] = {0, 1, 2, 3, -1, 0.5, 90, 1e300, -0.0, __builtin_nan(""), __builtin_inf()};
    const int i = index_of(path);
    (void)f;
    if (i < 0)
        return vp_fail(err, VP_ERUN, "%s: is not there", path);
    int64_t count = 1;
    for (int k = 0; k < sets[i].set.rank; k++)
        count *= sets[i].set.size[k];
    if (n != (attribute ? 3 : count))
        return vp_fail(err, VP_ERUN, "%s: expected %lld numbers, got %lld", path, (long long)n, (long long)count);
    for (int64_t k = 0; k < n; k++)
        to[k] = sets[i].number ? values[next(sizeof values / sizeof *values)] : (double)(k % 3);
    return 0;
}

static bool text(struct vp_h5_file *f, const char *path, const char *attribute, char *to, size_t size)
{
    const int i = index_of(path);
    (void)f, (void)attribute;
    if (i < 0 || !sets[i].text || strlen(texts[sets[i].text]) >= size)
        return false;
    strcpy(to, texts[sets[i].text]);
    return true;
}

static int data(struct vp_h5_file *f, const char *path, size_t cache, struct vp_h5_data **d, struct vp_err *err)
{
    const int i = index_of(path);
    (void)f, (void)cache;
    MUST(i >= 0);
    *d = (struct vp_h5_data *)&sets[i].set;
    return next(20) == 19 ? vp_fail(err, VP_ERUN, "%s: cannot be opened", path) : 0;
}

static int rows(struct vp_h5_data *d, int64_t image, int64_t y0, int64_t y1, void *to, struct vp_err *err)
{
    const struct vp_h5_set *const s = (const struct vp_h5_set *)d;
    const int64_t images = s->rank == 3 ? s->size[0] : 1, ny = s->size[s->rank - 2], nx = s->size[s->rank - 1];
    (void)err;
    MUST(image >= 0 && image < images && y0 >= 0 && y0 < y1 && y1 <= ny);
    memset(to, (int)(image + 1), (size_t)((y1 - y0) * nx) * vp_type_size(s->type));
    return 0;
}

static void close_data(struct vp_h5_data *d)
{
    MUST(d);
}

static const struct vp_h5_plugin plugin = {.version = "0", .open = open_file, .close = close_file, .each = each,
                                           .find = find, .group = group, .numbers = numbers, .text = text,
                                           .data = data, .rows = rows, .close_data = close_data};

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t n)
{
    static const char *const parts[] = {NULL, "flats", "flats.0", "flats.1", "darks", "/entry", "/exchange", "/volume",
                                        "/entry:flats", "/a/b/c", "x", ""};
    bytes.at = input;
    bytes.end = input + n;
    memset(sets, 0, sizeof sets);
    const char *const part = parts[next(sizeof parts / sizeof *parts)];
    for (int i = 0; i < NAMES; i++) {
        struct vp_h5_set *const s = &sets[i].set;
        sets[i].there = next(2);
        if (!sets[i].there)
            continue;
        s->rank = next(6) - 1;
        for (int k = 0; k < s->rank; k++) {
            s->size[k] = next(9);
            s->chunk[k] = s->size[k] && next(2) ? 1 + next(9) : 0;
        }
        for (int k = 0; k < s->rank; k++) /* all or none */
            s->chunk[k] = s->chunk[0] ? s->chunk[k] + !s->chunk[k] : 0;
        s->type = (enum vp_type)next(VP_N_TYPES);
        s->at = !s->chunk[0] && next(2) ? 8 + (uint64_t)next(64) : 0;
        s->swap = next(2);
        snprintf(s->other, sizeof s->other, "%s", next(12) == 11 ? "compounds of 8 bytes" : "");
        snprintf(s->lacks, sizeof s->lacks, "%s", next(12) == 11 ? "32008 (bitshuffle)" : "");
        sets[i].text = (uint8_t)next(TEXTS);
        sets[i].number = (uint8_t)next(4) == 3;
    }
    enum { FILE_BYTES = 1 << 14 };
    static char content[FILE_BYTES] = "\x89HDF\r\n\x1a\n";
    vp_h5_use(&plugin);
    fuzz_read_as(content, sizeof content, false, &(struct vp_reader_options){.part = part});
    return 0;
}
