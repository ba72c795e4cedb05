/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by formats of a header and plain samples. */
#include "stack/samples.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/foreign.h"
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { GZIP_OR_ZLIB = 15 + 32, BLOCK = 1 << 20, MOST_EXPANSION = 1032, IN_MEMORY = 64 << 20 };

char *vp_samples_header(struct vp_source *s, uint64_t at, size_t *n, struct vp_err *err)
{
    const unsigned char *start = NULL;
    int64_t got = s->in.anywhere ? 0 : vp_input_at(&s->in, at, NULL, 0, err);
    if (got >= 0 && !s->in.anywhere)
        got = s->in.position < at ? 0 : vp_input_peek(&s->in, &start, VP_HEADER_MOST, err);
    char *const text = got < 0 ? NULL : vp_alloc(VP_HEADER_MOST + 1, 1, "a header", err);
    if (text && s->in.anywhere)
        got = vp_input_at(&s->in, at, text, VP_HEADER_MOST, err);
    else if (text && got)
        memcpy(text, start, (size_t)got);
    if (got < 0) {
        free(text);
        return NULL;
    }
    *n = (size_t)got;
    return text;
}

size_t vp_inflate_first(const void *from, size_t m, void *to, size_t n)
{
    z_stream z = {.next_in = (unsigned char *)from, .avail_in = (unsigned)m, .next_out = to, .avail_out = (unsigned)n};
    if (inflateInit2(&z, GZIP_OR_ZLIB) != Z_OK)
        return 0;
    (void)inflate(&z, Z_SYNC_FLUSH);
    inflateEnd(&z);
    return n - z.avail_out;
}

/* Fills the inflater's input from offset *at of the source. Returns the number of bytes, 0 at the end, or -1. */
static int64_t feed(struct vp_source *s, uint64_t *at, unsigned char *buf, z_stream *z, struct vp_err *err)
{
    const int64_t n = s->in.anywhere ? vp_input_at(&s->in, *at, buf, BLOCK, err) : vp_input_read(&s->in, buf, BLOCK, err);
    *at += n > 0 ? (uint64_t)n : 0;
    z->next_in = buf;
    z->avail_in = n > 0 ? (unsigned)n : 0;
    return n;
}

/* Inflates all of it into k; a gzip file may have several members. */
static int inflate_all(struct vp_source *s, uint64_t at, uint64_t bytes, struct vp_kept *k, unsigned char *buf, z_stream *z,
                       struct vp_err *err)
{
    uint64_t done = 0;
    int64_t fed = 1;
    for (int state = Z_OK; fed > 0;) {
        if (!z->avail_in && (fed = feed(s, &at, buf, z, err)) < 0)
            return -1;
        if (state == Z_STREAM_END && (!fed || inflateReset(z) != Z_OK))
            break;
        unsigned char *const to = vp_kept_next(k, BLOCK, err);
        if (!to)
            return -1;
        z->next_out = to;
        z->avail_out = BLOCK;
        state = inflate(z, Z_NO_FLUSH);
        if (state != Z_OK && state != Z_STREAM_END && !(state == Z_BUF_ERROR && !fed))
            return vp_fail(err, VP_ERUN, "%s: its compressed data are damaged: %s", s->name,
                           z->msg ? z->msg : "no zlib stream");
        const size_t n = BLOCK - z->avail_out;
        done += n;
        if (done > bytes)
            return vp_fail(err, VP_ERUN, "%s: expected %llu bytes, inflated, got more", s->name, (unsigned long long)bytes);
        if (n && vp_kept_add(k, n, true, err))
            return -1;
    }
    return done == bytes ? 0
                         : vp_fail(err, VP_ERUN, "%s: truncated: expected %llu bytes, inflated, got %llu", s->name,
                                   (unsigned long long)bytes, (unsigned long long)done);
}

int vp_samples_inflate(struct vp_source *s, uint64_t at, uint64_t bytes, struct vp_err *err)
{
    if (s->in.anywhere && bytes / MOST_EXPANSION > s->in.size)
        return vp_fail(err, VP_ERUN, "%s: %llu bytes of compressed data cannot hold %llu", s->name,
                       (unsigned long long)s->in.size, (unsigned long long)bytes);
    if (!s->in.anywhere && vp_input_at(&s->in, at, NULL, 0, err) < 0)
        return -1;
    struct vp_kept k;
    z_stream z = {0};
    unsigned char *const buf = vp_alloc_raw(1, BLOCK, "compressed data", err);
    if (!buf)
        return -1;
    int rc = vp_kept_open(&k, s->name, IN_MEMORY, 1, BLOCK, err);
    if (!rc && inflateInit2(&z, GZIP_OR_ZLIB) != Z_OK)
        rc = vp_fail(err, VP_ERESOURCE, "%s: out of memory", s->name);
    else if (!rc) {
        rc = inflate_all(s, at, bytes, &k, buf, &z, err);
        inflateEnd(&z);
    }
    free(buf);
    if (rc) {
        vp_kept_free(&k);
        return -1;
    }
    const struct vp_input old = s->in;
    s->need += k.fd < 0 ? bytes : 0;
    s->in = vp_kept_input(&k);
    s->in.read = old.read;
    vp_input_close(&(struct vp_input){.fd = old.fd, .buf = old.buf, .memory = old.memory});
    return 0;
}

int vp_samples_elsewhere(struct vp_source *s, const char *file, struct vp_err *err)
{
    char path[PATH_MAX];
    char *const folder = vp_folder(s->name);
    struct vp_input in;
    if (!folder)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", s->name);
    const char *const slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    const int n = *file == '/' ? snprintf(path, sizeof path, "%s", file)
                               : snprintf(path, sizeof path, "%s%s%s", folder, slash, file);
    free(folder);
    if (!strcmp(s->name, "standard input") || !s->in.anywhere)
        return vp_fail_hint(err, VP_ERUN, "give the file name instead", "%s: its samples are in another file, '%s'",
                            s->name, file);
    const int fd = n < (int)sizeof path ? vp_open_fd(path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (fd < 0)
        return vp_fail_errno(err, "%s: its samples, %s", s->name, file);
    if (vp_input_open(&in, fd, s->name, s->in.read, err))
        return -1;
    if (!in.anywhere) {
        vp_input_close(&in);
        return vp_fail(err, VP_ERUN, "%s: its samples, %s: expected a file", s->name, file);
    }
    vp_input_close(&s->in);
    s->in = in;
    return 0;
}

int vp_samples_stack(struct vp_source *s, int axes, const int64_t *size, enum vp_type type, struct vp_err *err)
{
    if (axes != 2 && axes != 3)
        return vp_fail(err, VP_ERUN, "%s: expected 2 or 3 axes, got %d", s->name, axes);
    for (int i = 0; i < axes; i++)
        if (size[i] <= 0 || size[i] >= INT64_MAX / 16)
            return vp_fail(err, VP_ERUN, "%s: expected axes of at least 1 sample, got %lld", s->name, (long long)size[i]);
    s->stack.nx = size[0];
    s->stack.ny = size[1];
    s->stack.pages = axes == 3 ? size[2] : 1;
    s->stack.type = type;
    if (!vp_page_bytes(&s->stack))
        return vp_fail(err, VP_ERUN, "%s: pages of %lldx%lld cannot be held", s->name, (long long)size[0],
                       (long long)size[1]);
    return 0;
}

uint64_t vp_samples_bytes(const struct vp_stack *s)
{
    size_t all;
    return vp_mul_size(&all, vp_page_bytes(s), (size_t)s->pages) ? all : UINT64_MAX / 2;
}

int vp_samples_place(struct vp_source *s, int axes, double step[3][3], const double *origin, struct vp_err *err)
{
    double v[3] = {0};
    bool straight = true, known = true;
    for (int i = 0; i < axes; i++) {
        for (int k = 0; k < axes; k++) {
            v[i] += step[i][k] * step[i][k];
            straight = straight && (i == k ? step[i][k] > 0 : step[i][k] == 0 || fabs(step[i][k]) < 1e-6 * fabs(step[i][i]));
        }
        v[i] = sqrt(v[i]);
        known = known && isfinite(v[i]) && v[i] > 0;
    }
    if (!known)
        return 0;
    int rc = vp_meta_voxel(&s->stack.meta, v[0], v[1], axes == 3 ? v[2] : 0);
    if (!straight)
        s->remark = "its orientation is left out: rows and pages are as they are stored, not turned into space";
    else if (!rc && origin && axes == 3 && isfinite(origin[0] + origin[1] + origin[2]))
        rc = vp_meta_setf(&s->stack.meta, "origin", "%.9g %.9g %.9g", origin[0], origin[1], origin[2]);
    return rc ? vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name) : 0;
}

bool vp_samples_placed(const struct vp_stack *s, double voxel[3], double origin[3])
{
    const char *const unit = vp_meta_get(&s->meta, "unit");
    if (!vp_meta_numbers(&s->meta, "origin", 3, origin))
        origin[0] = origin[1] = origin[2] = 0;
    voxel[2] = 1;
    return unit && !strcmp(unit, "mm")
           && (vp_meta_numbers(&s->meta, "voxel", 3, voxel) || vp_meta_numbers(&s->meta, "voxel", 2, voxel));
}

bool vp_type_of_word(const struct vp_type_word *words, size_t n, const char *name, enum vp_type *type)
{
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(words[i].name, name)) {
            *type = words[i].type;
            return true;
        }
    return false;
}
