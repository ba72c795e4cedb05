/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks for tests: a folder, samples that every type holds, bytes as files and pipes. */
#pragma once

#include "base/err.h"
#include "stack/reader.h"
#include "stack/writer.h"
#include "test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct vp_reader_options plain = {0};
static const struct vp_writer_options stream = {.compress = VP_COMPRESS_NONE};

static char dir[] = "/tmp/voxpipe-stack-XXXXXX";

/* Returns a path; the last 128 stay valid. */
static char *path_of(const char *name)
{
    static char buf[128][128];
    static int k;
    k = (k + 1) % 128;
    snprintf(buf[k], sizeof buf[k], "%s/%s", dir, name);
    return buf[k];
}

/* Returns sample i of page p of a test stack, a number that every type holds. */
static double sample(int64_t p, int64_t i)
{
    return (double)((7 * p + 3 * i) % 100);
}

static void fill(void *buf, enum vp_type t, int64_t p, int64_t n)
{
    double *d = malloc((size_t)n * sizeof *d);
    for (int64_t i = 0; i < n; i++)
        d[i] = sample(p, i);
    vp_convert(buf, t, d, VP_F64, n, 1, 0);
    free(d);
}

static inline int64_t read_pages(struct vp_reader *r, int64_t n, bool f32, void *const *to, int64_t *bad, int threads,
                                 struct vp_err *err)
{
    return vp_reader_read(r, &(struct vp_wanted){VP_NEXT, n, .f32 = f32, .bad = bad, .threads = threads}, to, err);
}

static inline bool read_rows(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, bool f32, void *buf,
                             struct vp_err *err)
{
    return vp_reader_read(r, &(struct vp_wanted){page, 1, y0, y1, .f32 = f32}, &buf, err) != 1;
}

static int write_stack(const char *path, enum vp_type t, int64_t nx, int64_t ny, int64_t pages, bool unknown,
                       const struct vp_writer_options *o)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {nx, ny, unknown ? -1 : pages, t, {0, NULL, NULL}};
    struct vp_writer *w = NULL;
    vp_meta_set(&s.meta, "axes", "x y z");
    vp_meta_set(&s.meta, "voxel", "0.1 0.2 0.3");
    vp_meta_set(&s.meta, "unit", "mm");
    int rc = vp_writer_open(&w, path, &s, o, &err);
    void *page = malloc(vp_page_bytes(&s));
    for (int64_t p = 0; !rc && p < pages; p++) {
        fill(page, t, p, nx * ny);
        rc = vp_writer_page(w, page, &err);
    }
    if (!rc)
        rc = vp_writer_close(w, &err);
    if (rc)
        printf("write %s: %s\n", path, err.msg);
    free(page);
    vp_stack_free(&s);
    return rc;
}

static unsigned char *slurp(const char *path, size_t *n)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    fstat(fileno(f), &st);
    unsigned char *buf = malloc((size_t)st.st_size + 1);
    *n = fread(buf, 1, (size_t)st.st_size, f);
    fclose(f);
    return buf;
}

__attribute__((unused)) static void spit(const char *path, const void *buf, size_t n)
{
    FILE *f = fopen(path, "wb");
    fwrite(buf, 1, n, f);
    fclose(f);
}

/* Makes an input of bytes: a nameless file or a pipe (up to 64 KiB), and the path that opens it. */
static int as_input(const void *buf, size_t n, bool pipe_, char path[32])
{
    int fd;
    if (pipe_) {
        int p[2];
        if (pipe(p) || write(p[1], buf, n) != (ssize_t)n)
            abort();
        close(p[1]);
        fd = p[0];
    } else {
        fd = memfd_create("test", 0);
        if (fd < 0 || write(fd, buf, n) != (ssize_t)n)
            abort();
    }
    sprintf(path, "/dev/fd/%d", fd);
    return fd;
}
