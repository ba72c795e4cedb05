/* SPDX-License-Identifier: BSD-3-Clause */
/* HDF5 files: one data set is the stack. Samples that lie in the file as they are, are read without the library. */
#include "stack/hdf5_internal.h"
#include "base/err.h"
#include "base/plugin.h"
#include "base/size.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hdf5 {
    const struct vp_h5_plugin *lib;
    struct vp_h5_file *file;
    struct vp_h5_choice choice;
    size_t cache;
    pthread_mutex_t lock; /* protects `data` */
    struct vp_h5_data *data;
};

static const struct vp_h5_plugin *used;

void vp_h5_use(const struct vp_h5_plugin *plugin)
{
    used = plugin;
}

const struct vp_h5_plugin *vp_h5_open(char *why, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!used)
        used = vp_plugin_open(VP_H5_PLUGIN, false, why, size);
    pthread_mutex_unlock(&lock);
    return used;
}

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    static const unsigned char magic[8] = "\x89HDF\r\n\x1a\n";
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, sizeof magic, err);
    (void)o;
    return n < 0 ? -1 : n == sizeof magic && !memcmp(head, magic, sizeof magic);
}

/* Returns the bytes of the chunks that a page, or some rows of it, lies in. */
static double layer_bytes(const struct vp_h5_set *set)
{
    double bytes = (double)vp_type_size(set->type);
    for (int i = 0; i < set->rank; i++) {
        const bool page = i < set->rank - 2;
        bytes *= page ? (double)set->chunk[i]
                      : (double)vp_div_up(set->size[i], set->chunk[i]) * (double)set->chunk[i];
    }
    return bytes;
}

/* Decides how much of decoded chunks is kept: those of a page, as far as memory allows. */
static void set_cache(struct vp_source *s, struct hdf5 *h)
{
    enum { PARTS = 4 };
    const struct vp_h5_set *const set = &h->choice.set;
    if (!set->chunk[0])
        return;
    const double bytes = layer_bytes(set), most = (double)(vp_memory_most() / PARTS);
    h->cache = (size_t)(bytes < most ? bytes : most);
    s->decoding[0] = s->decoding[1] = h->cache;
}

static int open_file(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    char why[1024], path[32];
    struct hdf5 *const h = s->own = vp_alloc(1, sizeof *h, s->name, err);
    if (!h)
        return -1;
    pthread_mutex_init(&h->lock, NULL);
    if (!s->in.anywhere)
        return vp_fail_hint(err, VP_ERUN, "give the file name instead",
                            "%s: HDF5 cannot be read from a pipe", s->name);
    h->lib = vp_h5_open(why, sizeof why);
    if (!h->lib)
        return vp_fail_hint(err, VP_ERESOURCE, "install libhdf5-dev and run make again; voxpipe doctor shows what is there",
                            "%s: HDF5 needs a plugin: %s", s->name, why);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->in.fd);
    if (h->lib->open(&h->file, path, s->name, err)
        || vp_h5_choose(s, h->lib, h->file, o->part, &h->choice, err))
        return -1;
    const struct vp_h5_set *const set = &h->choice.set;
    s->stack.nx = set->size[set->rank - 1];
    s->stack.ny = set->size[set->rank - 2];
    s->stack.pages = h->choice.frame ? h->choice.frames : set->rank == 3 ? set->size[0] : 1;
    s->stack.type = set->type;
    s->need += (uint64_t)h->choice.frames * sizeof *h->choice.frame;
    if (!vp_page_bytes(&s->stack))
        return vp_fail(err, VP_ERUN, "%s: %s: pages of %lldx%lld cannot be held", s->name, h->choice.path,
                       (long long)s->stack.nx, (long long)s->stack.ny);
    const uint64_t page = vp_page_bytes(&s->stack), images = set->rank == 3 ? (uint64_t)set->size[0] : 1;
    if (set->at && (set->at > s->in.size || (s->in.size - set->at) / page < images))
        return vp_fail(err, VP_ERUN, "%s: truncated: expected %llu images of %llu bytes at %llu, got %llu bytes", s->name,
                       (unsigned long long)images, (unsigned long long)page, (unsigned long long)set->at,
                       (unsigned long long)s->in.size);
    s->by_rows = set->at;
    set_cache(s, h);
    return 0;
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct hdf5 *const h = s->own;
    const struct vp_h5_set *const set = &h->choice.set;
    const size_t size = vp_type_size(set->type), n = (size_t)(y1 - y0) * (size_t)s->stack.nx;
    const int64_t image = h->choice.frame ? h->choice.frame[page] : page;
    if (set->at) {
        const uint64_t at = set->at + (uint64_t)image * vp_page_bytes(&s->stack)
                            + (uint64_t)y0 * (uint64_t)s->stack.nx * size;
        if (vp_source_read(s, page, at, buf, n * size, err))
            return -1;
        if (set->swap)
            vp_source_swap(buf, size, n);
        return 0;
    }
    pthread_mutex_lock(&h->lock);
    int rc = h->data ? 0 : h->lib->data(h->file, h->choice.path, h->cache, &h->data, err);
    rc = rc ? rc : h->lib->rows(h->data, image, y0, y1, buf, err);
    pthread_mutex_unlock(&h->lock);
    if (!rc && s->in.read)
        *s->in.read += n * size;
    return rc;
}

/* Frees decoded chunks. */
static void rest(struct vp_source *s)
{
    struct hdf5 *const h = s->own;
    pthread_mutex_lock(&h->lock);
    if (h->data)
        h->lib->close_data(h->data);
    h->data = NULL;
    pthread_mutex_unlock(&h->lock);
}

static void close_file(struct vp_source *s)
{
    struct hdf5 *const h = s->own;
    if (!h)
        return;
    rest(s);
    if (h->file)
        h->lib->close(h->file);
    pthread_mutex_destroy(&h->lock);
    free(h->choice.frame);
    free(h);
}

const struct vp_format vp_hdf5 = {
    .name = "HDF5", .sniff = sniff, .open = open_file, .rows = rows, .rest = rest, .close = close_file, .parts = true,
    .endings = " h5 hdf5 hdf nxs ",
};
