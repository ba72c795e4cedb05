/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"
#include "stack/foreign.h"
#include "stack/reader.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIPE = 1 << 16, MOST = 1 << 22, MANY = 1 << 10 };

int fuzz_input(const void *data, size_t n, bool pipe_, char path[32])
{
    int fd, ends[2];

    if (pipe_) {
        if (n > PIPE)
            return -1;
        MUST(!pipe(ends) && (n == 0 || write(ends[1], data, n) == (ssize_t)n));
        close(ends[1]);
        fd = ends[0];
    } else {
        fd = memfd_create("fuzz", 0);
        MUST(fd >= 0 && (n == 0 || write(fd, data, n) == (ssize_t)n));
    }
    sprintf(path, "/dev/fd/%d", fd);
    return fd;
}

static int64_t taken;

void fuzz_accepted(void)
{
    taken++;
}

int64_t fuzz_taken(void)
{
    return taken;
}

int fuzz_refused(const struct vp_err *err)
{
    MUST(err->code == VP_ERUN || err->code == VP_EUSAGE || err->code == VP_ERESOURCE);
    MUST(err->msg[0] && !strchr(err->msg, '\n') && !strchr(err->hint, '\n'));
    return -1;
}

static void mix(uint64_t *sum, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *sum = (*sum ^ p[i]) * UINT64_C(1099511628211);
}

/* Checks that pages read in any order, and rows of them, have the same samples. */
static void check_rows(struct vp_reader *r, const struct vp_stack *s, int64_t page, const unsigned char *want)
{
    const size_t row = vp_page_bytes(s) / (size_t)s->ny;
    const int64_t y0 = s->ny / 3, y1 = s->ny - s->ny / 4;
    unsigned char *rows = malloc((size_t)(y1 - y0) * row + 1);
    struct vp_err err = VP_ERR_INIT;

    MUST(rows);
    const struct vp_wanted w = {.page = page, .n = 1, .y0 = y0, .y1 = y1};
    if (vp_reader_read(r, &w, (void *const *)&rows, &err) < 0)
        fuzz_refused(&err);
    else
        MUST(!memcmp(rows, want + (size_t)y0 * row, (size_t)(y1 - y0) * row));
    free(rows);
}

static void read_pages(struct vp_reader *r, const struct vp_stack *s, struct fuzz_stack *f)
{
    const size_t bytes = vp_page_bytes(s);
    unsigned char *page = NULL;

    MUST(s->nx > 0 && s->ny > 0 && bytes > 0 && (s->pages > 0 || s->pages == -1) && s->type < VP_N_TYPES);
    if (bytes > MOST || !(page = malloc(bytes))) {
        f->rc = 1;
        return;
    }
    for (;;) {
        memset(page, 0xa5, bytes);
        const int got = vp_reader_next(r, page, &f->err);
        if (got < 0)
            f->rc = fuzz_refused(&f->err);
        if (got < 1)
            break;
        f->pages++;
        mix(&f->sum, page, bytes);
        if (f->pages < 4 && vp_reader_seekable(r))
            check_rows(r, s, f->pages - 1, page);
        if (f->pages * (int64_t)bytes > MOST || f->pages > MANY) {
            f->rc = 1;
            break;
        }
    }
    MUST(f->rc || s->pages < 0 || s->pages == f->pages);
    free(page);
}

struct fuzz_stack fuzz_read(const void *data, size_t n, bool pipe_, const char *raw)
{
    return fuzz_read_as(data, n, pipe_, &(struct vp_reader_options){.raw = raw});
}

struct fuzz_stack fuzz_read_as(const void *data, size_t n, bool pipe_, const struct vp_reader_options *options)
{
    struct fuzz_stack f = {.err = VP_ERR_INIT, .sum = UINT64_C(14695981039346656037)};
    struct vp_reader *r = NULL;
    char path[32];
    const char *const paths[] = {path};
    const int fd = fuzz_input(data, n, pipe_, path);

    if (fd < 0) {
        f.rc = 1;
        return f;
    }
    if (vp_reader_open(&r, paths, 1, options, &f.err)) {
        f.rc = fuzz_refused(&f.err);
    } else {
        const struct vp_stack *s = vp_reader_stack(r);
        f.nx = s->nx;
        f.ny = s->ny;
        f.type = s->type;
        char *text = vp_description(s);
        MUST(text && strstr(text, "\n" VP_META_MARK "voxpipe = 1\n"));
        free(text);
        read_pages(r, s, &f);
        struct vp_err late = VP_ERR_INIT;
        if (vp_reader_close(r, &late) && f.rc == 0) {
            f.err = late;
            f.rc = fuzz_refused(&late);
        }
    }
    close(fd);
    if (f.rc == 0)
        fuzz_accepted();
    return f;
}

char *fuzz_text(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);

    MUST(text);
    if (n)
        memcpy(text, data, n);
    text[n] = '\0';
    return text;
}
