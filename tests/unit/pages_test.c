/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages through a function: whatever the batches, the memory and the input, each page once and in order. */
#include "base/size.h"
#include "pages/select.h"
#include "engine/pages.h"
#include "stacks.h"

#include <pthread.h>

struct job {
    int64_t pages, fail_at;
    double sum;
};

static int twice(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct job *j = ctx;
    float *from = in, *to = out;
    if (j->fail_at >= page && j->fail_at < page + n)
        return vp_fail(err, VP_ERUN, "page %lld does not please", (long long)j->fail_at);
    int m = 0;
    for (int k = 0; k < n; k++) {
        CHECK(from[15 * k + 1] == (float)sample(page + k, 1));
        j->sum += from[15 * k + 1];
        for (int i = 0; to && i < 15; i++)
            to[15 * m + i] = 2 * from[15 * k + i];
        m++;
    }
    j->pages += n;
    return out ? m : 0;
}

static int run_file(const char *in, const char *out, int64_t out_pages, struct job *j, struct vp_pages *f,
                struct vp_err *err)
{
    const char *paths[] = {in};
    struct vp_stack s = {5, 3, out_pages, VP_F32, {0, NULL, NULL}};
    struct vp_writer *w = NULL;
    struct vp_err late = VP_ERR_INIT;
    if (vp_reader_open(&f->reader, paths, 1, &plain, err) ||
        (out && vp_writer_open(&w, out, &s, &stream, err)))
        return -1;
    f->writer = w;
    f->as_f32 = true;
    f->out_bytes = 60;
    f->work = twice;
    f->ctx = j;
    const int rc = vp_pages_run(f, err);
    vp_reader_close(f->reader, &late);
    if (rc)
        vp_writer_abort(w);
    else if (w)
        return vp_writer_close(w, err);
    return rc;
}

/* A file through a pipe, 100 bytes every 2 ms. */
struct drops {
    const char *path;
    int fd;
};

static void *slow_writer(void *arg)
{
    const int fd = ((struct drops *)arg)->fd;
    size_t n;
    unsigned char *bytes = slurp(((struct drops *)arg)->path, &n);
    for (size_t at = 0; at < n; at += 100) {
        const size_t k = n - at < 100 ? n - at : 100;
        if (write(fd, bytes + at, k) != (ssize_t)k)
            break;
        usleep(2000);
    }
    close(fd);
    free(bytes);
    return NULL;
}

static void from_files(void)
{
    struct vp_err err = VP_ERR_INIT;
    const char *in = path_of("flow.tif");
    enum { PAGES = 40 };
    CHECK(!write_stack(in, VP_U16, 5, 3, PAGES, false, &stream));
    static const int batches[] = {0, 1, 3, 40, 1000};
    for (int b = 0; b < 5; b++) {
        static const uint64_t memories[] = {0, 120, 240, 1000};
        for (int m = 0; m < 4; m++) {
            struct job j = {0, -1, 0};
            struct vp_pages f = {.batch = batches[b], .memory = memories[m]};
            CHECK_INT(run_file(in, path_of("double.tif"), PAGES, &j, &f, &err), 0);
            CHECK(j.pages == PAGES && f.done == PAGES && f.bad == 0);
        }
    }
    struct vp_reader *r;
    const char *paths[] = {path_of("double.tif")};
    float page[15];
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err));
    for (int p = 0; p < PAGES; p++)
        CHECK(vp_reader_next_f32(r, page, &err) == 1 && page[14] == 2 * sample(p, 14));
    CHECK(!vp_reader_close(r, &err));

    struct job j;
    struct vp_pages f;
    j = (struct job){0, -1, 0};
    f = (struct vp_pages){.batch = 7};
    CHECK_INT(run_file(in, NULL, -1, &j, &f, &err), 0);
    CHECK_INT(j.pages, PAGES);

    /* too little memory, before anything is read */
    f = (struct vp_pages){.memory = 119};
    CHECK(run_file(in, path_of("x.tif"), PAGES, &j, &f, &err) && err.code == VP_ERESOURCE &&
          strstr(err.hint, "--memory"));

    /* failing work, reader, writer; with every batch */
    for (int b = 1; b < 50; b += 6) {
        err = (struct vp_err)VP_ERR_INIT;
        j = (struct job){0, 17, 0};
        f = (struct vp_pages){.batch = b};
        CHECK(run_file(in, path_of("x.tif"), PAGES, &j, &f, &err));
        CHECK_STR(err.msg, "page 17 does not please");

        err = (struct vp_err)VP_ERR_INIT;
        j.fail_at = -1;
        f = (struct vp_pages){.batch = b};
        CHECK(run_file(in, path_of("x.tif"), 20, &j, &f, &err) &&
              strstr(err.msg, "expected 20 pages, got at least 21"));

        err = (struct vp_err)VP_ERR_INIT;
        size_t n;
        unsigned char *bytes = slurp(in, &n);
        char name[32];
        const int fd = as_input(bytes, n - 100, true, name);
        f = (struct vp_pages){.batch = b};
        CHECK(run_file(name, path_of("x.tif"), PAGES, &j, &f, &err) && strstr(err.msg, "page 39: truncated"));
        close(fd);
        free(bytes);
    }
    struct stat st;
    CHECK(stat(path_of("x.tif"), &st)); /* no failed run left a file */

    /* a pipe that comes drop by drop, and batches larger than all of it */
    int p[2];
    pthread_t thread;
    char name[32];
    if (pipe(p))
        abort();
    sprintf(name, "/dev/fd/%d", p[0]);
    struct drops drops = {in, p[1]};
    pthread_create(&thread, NULL, slow_writer, &drops);
    err = (struct vp_err)VP_ERR_INIT;
    j = (struct job){0, -1, 0};
    f = (struct vp_pages){.batch = 1000};
    CHECK_INT(run_file(name, path_of("drop.tif"), PAGES, &j, &f, &err), 0);
    CHECK_INT(j.pages, PAGES);
    pthread_join(thread, NULL);
    close(p[0]);

    /* a pipe that stays open and silent must not keep a failed run alive */
    size_t n;
    unsigned char *bytes = slurp(in, &n);
    if (pipe(p) || write(p[1], bytes, n / 2) != (ssize_t)(n / 2))
        abort();
    sprintf(name, "/dev/fd/%d", p[0]);
    err = (struct vp_err)VP_ERR_INIT;
    j = (struct job){0, 5, 0};
    f = (struct vp_pages){.batch = 1000};
    alarm(20);
    CHECK(run_file(name, path_of("x.tif"), PAGES, &j, &f, &err));
    alarm(0);
    CHECK_STR(err.msg, "page 5 does not please");
    close(p[0]);
    close(p[1]);
    free(bytes);
}

/* ---- in place, and from a function, whose pages come a few at a time ---- */

struct some { int64_t given, pages; };

static int64_t some_pages(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    struct some *s = source;
    (void)threads, (void)err;
    CHECK_INT(page, s->given);
    n = vp_min64(n, s->pages - page);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 15; k++)
            ((float *)to[i])[k] = (float)sample(page + i, k);
    s->given += n;
    return n;
}

static int negate(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    float *v = in;
    (void)err;
    CHECK(in == out);
    CHECK_INT(page, *(int64_t *)ctx);
    *(int64_t *)ctx += n;
    for (int i = 0; i < 15 * n; i++)
        v[i] = -v[i];
    return n;
}

static int count_up(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    float *v = out;
    (void)ctx, (void)err;
    CHECK(!in);
    for (int i = 0; i < 15 * n; i++)
        v[i] = (float)(15 * page + i);
    return n;
}

static void check_file(const char *path, int64_t pages, int kind)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    float page[15];
    int64_t wrong = 0;
    CHECK(!vp_reader_open(&r, &path, 1, &plain, &err) && vp_reader_stack(r)->pages == pages);
    for (int64_t p = 0; p < pages; p++) {
        CHECK_INT(vp_reader_next(r, page, &err), 1);
        for (int i = 0; i < 15; i++)
            wrong += page[i] != (kind == 2 ? (float)(15 * p + i) : (float)((kind ? -1 : 1) * sample(p, i)));
    }
    CHECK_INT(wrong, 0);
    vp_reader_close(r, NULL);
}

/* kind 0: as they are, 1: changed in place, 2: from nothing. */
static void in_place(void)
{
    const char *in = path_of("in.tif"), *out = path_of("out.tif");
    CHECK(!write_stack(in, VP_F32, 5, 3, 37, false, &stream));
    for (int kind = 0; kind < 3; kind++)
        for (int batch = 0; batch < 12; batch += 1 + batch / 4)
            for (int flight = 1; flight < 5; flight++) {
                struct vp_err err = VP_ERR_INIT;
                struct vp_stack s = {5, 3, 37, VP_F32, {0, NULL, NULL}};
                struct some some = {0, 37};
                int64_t next = 0;
                struct vp_pages p = {.batch = batch, .memory = 60 * (uint64_t)flight, .in_place = kind < 2,
                                     .out_bytes = 60, .ctx = &next, .work = kind == 2 ? count_up : kind ? negate : NULL,
                                     .count = kind == 2 ? 37 : 0};
                CHECK(!vp_writer_open(&p.writer, out, &s, &stream, &err));
                if (kind < 2)
                    CHECK(!vp_reader_open(&p.reader, &in, 1, &plain, &err));
                if (kind < 2 && batch % 2) {
                    p.read = some_pages;
                    p.source = &some;
                    p.in_bytes = 60;
                }
                CHECK_INT(vp_pages_run(&p, &err), 0);
                CHECK_INT(p.done, 37);
                vp_reader_close(p.reader, NULL);
                CHECK_INT(vp_writer_close(p.writer, &err), 0);
                check_file(out, 37, kind);
            }
}

/* What work() has seen of a selection of bytes: in pages, or in rows of them, next to each other. */
struct seen { const struct vp_pages *p; int64_t nx, ny, step, page, row, wrong, parts; const unsigned char *want; };

static int look(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct seen *s = ctx;
    const int64_t rows = s->p->rows;
    (void)out, (void)err;
    s->wrong += page != s->page || rows > s->ny - s->row || (n > 1 && rows < s->ny);
    s->wrong += s->row + rows < s->ny && rows * s->nx % s->step;
    s->wrong += memcmp(in, s->want + (s->page * s->ny + s->row) * s->nx, (size_t)(n * rows * s->nx)) != 0;
    s->parts += rows < s->ny;
    s->page += rows < s->ny ? s->row + rows == s->ny : n;
    s->row = (s->row + rows) % s->ny;
    return n;
}

static int64_t dice(int64_t lo, int64_t hi)
{
    static uint64_t state = 88172645463325252u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return lo + (int64_t)((state >> 33) % (uint64_t)(hi - lo + 1));
}

/* Pages and regions at random, of a file and of a pipe, in all of memory and in little of it. */
static void by_rows(void)
{
    int in_parts = 0, piped = 0;
    for (int trial = 0; trial < 300; trial++) {
        const int64_t nx = dice(1, 40), ny = dice(1, 40), pages = dice(1, 6), first = dice(0, pages - 1);
        const bool all = dice(0, 2) == 0, pipe = dice(0, 1);
        const int64_t x0 = all ? 0 : dice(0, nx - 1), y0 = all ? 0 : dice(0, ny - 1);
        const int64_t x1 = all ? nx : dice(x0 + 1, nx), y1 = all ? ny : dice(y0 + 1, ny);
        const struct vp_stack in = {nx, ny, pages, VP_U8, {0, NULL, NULL}};
        char path[32], region[64], list[32], raw[64];
        struct vp_err err = VP_ERR_INIT;
        struct vp_select select;
        struct seen s = {.nx = x1 - x0, .ny = y1 - y0, .step = dice(1, 30)};
        unsigned char *bytes = malloc((size_t)(nx * ny * pages)), *want = malloc((size_t)(nx * ny * pages)), *at = want;
        for (int64_t i = 0; i < nx * ny * pages; i++)
            bytes[i] = (unsigned char)dice(0, 255);
        for (int64_t p = all ? 0 : first; p < pages; p++)
            for (int64_t y = y0; y < y1; y++, at += x1 - x0)
                memcpy(at, bytes + (p * ny + y) * nx + x0, (size_t)(x1 - x0));
        s.want = want;
        snprintf(region, sizeof region, "%d:%d,%d:%d", (int)x0, (int)x1, (int)y0, (int)y1);
        snprintf(list, sizeof list, "%d:", (int)first);
        snprintf(raw, sizeof raw, "%dx%dx%d:u8", (int)nx, (int)ny, (int)pages);
        const struct vp_select_params params = {.pages = all ? NULL : list, .region = all ? NULL : region};
        const struct vp_reader_options o = {.raw = raw};
        const int fd = as_input(bytes, (size_t)(nx * ny * pages), pipe, path);
        struct vp_pages p = {.work = look, .ctx = &s, .height = s.ny, .step = s.step,
                             .memory = dice(0, 3) ? (uint64_t)dice(1, 3 * nx * ny) : 0};
        const char *const paths[] = {path};
        s.p = &p;
        CHECK(!vp_reader_open(&p.reader, paths, 1, &o, &err));
        CHECK(!vp_select_make(&select, &params, &in, "bytes", !pipe, &err));
        if (!vp_select_run(&select, &p, &err)) {
            CHECK_INT(s.wrong, 0);
            CHECK_INT(s.page, pages - (all ? 0 : first));
            CHECK_INT(s.row, 0);
            CHECK_INT(p.done, s.page);
            in_parts += s.parts > 0;
            piped += s.parts > 0 && pipe;
            CHECK(!vp_reader_close(p.reader, &err));
        } else { /* before anything was read */
            CHECK_INT(err.code, VP_ERESOURCE);
            CHECK(s.page == 0 && s.row == 0);
            vp_reader_close(p.reader, NULL);
        }
        vp_select_free(&select);
        close(fd);
        free(bytes);
        free(want);
    }
    printf("%d in parts, %d of them from pipes\n", in_parts, piped);
    CHECK(in_parts > 40);
    CHECK(piped > 20);
}

/* Zeros before rows, pages and images: what is read again is what was written, shifted. */
static void padding(void)
{
    for (int trial = 0; trial < 24; trial++) {
        const int64_t inner = 1 + trial % 2, deep = 1 + trial % 3, times = 1 + trial / 3 % 2;
        const struct vp_padding pad = {trial / 2 % 3, trial / 4 % 3, trial % 4 ? inner : 0,
                                       trial % 4 ? (deep + 1) * inner : 0};
        const int64_t nx = 5, ny = 4, planes = deep + (trial % 4 != 0), wide = nx + pad.columns, high = ny + pad.rows;
        const int64_t pages = planes * inner * times, given = deep * inner * times * ny;
        const struct vp_stack stack = {.nx = wide, .ny = high, .pages = trial % 5 ? pages : -1, .type = VP_U16};
        const struct vp_writer_options o = {.compress = trial % 7 == 3 ? VP_COMPRESS_DEFLATE : VP_COMPRESS_NONE};
        uint16_t *const rows = malloc((size_t)(given * nx) * sizeof *rows), *const page = malloc((size_t)(wide * high) * 2);
        struct vp_err err = VP_ERR_INIT;
        struct vp_writer *w = NULL;
        struct vp_reader *r = NULL;
        char path[96];
        const char *const paths[] = {path};
        int64_t wrong = 0, at = 0;
        snprintf(path, sizeof path, "%s/padded.tif", dir);
        for (int64_t i = 0; i < given * nx; i++)
            rows[i] = (uint16_t)(i + 1);
        CHECK_INT(vp_writer_open(&w, path, &stack, &o, &err), 0);
        CHECK_INT(vp_writer_pad(w, &pad, &err), 0);
        for (int64_t y = 0, n; y < given; y += n) {
            n = trial % 3 ? vp_min64(1 + (y * 7 + trial) % 11, given - y) : ny;
            CHECK_INT(trial % 3 ? vp_writer_lines(w, n, rows + y * nx, 1 + trial % 2, &err)
                                : vp_writer_pages(w, 1, rows + y * nx, 1, &err), 0);
        }
        CHECK_INT(vp_writer_close(w, &err), 0);
        CHECK_INT(vp_reader_open(&r, paths, 1, NULL, &err), 0);
        CHECK_INT(vp_reader_stack(r)->pages, pages);
        for (int64_t p = 0; p < pages; p++) {
            CHECK_INT(vp_reader_next(r, page, &err), 1);
            const bool zeros = trial % 4 && p % pad.every < pad.pages;
            for (int64_t i = 0; i < wide * high; i++) {
                const bool inside = !zeros && i % wide >= pad.columns && i / wide >= pad.rows;
                wrong += page[i] != (inside ? rows[at++] : 0);
            }
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(at, given * nx);
        vp_reader_close(r, NULL);
        unlink(path);
        free(rows);
        free(page);
    }
}

int main(void)
{
    if (!mkdtemp(dir))
        return 2;
    from_files();
    in_place();
    by_rows();
    padding();
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        return 2;
    return test_done();
}
