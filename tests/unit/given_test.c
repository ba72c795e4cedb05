/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages given to a pipe: the same bytes as in a file, whoever reads them and however late; and what is not given. */
#include "test.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/given.h"
#include "stack/writer.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

/* ---- readers ---- */

enum how { AT_ONCE, SLOWLY, SPLICED, HOWS };

struct reader {
    int fd, onto[2];
    enum how how;
    char *bytes;
    size_t n, room;
    pthread_t thread, relay;
};

/* Passes pages on from one pipe to another without a look at them, as pv does. */
static void *relay(void *arg)
{
    struct reader *r = arg;
    while (splice(r->fd, NULL, r->onto[1], NULL, MIB, 0) > 0)
        continue;
    close(r->onto[1]);
    return NULL;
}

static void *receive(void *arg)
{
    struct reader *r = arg;
    const int fd = r->how == SPLICED ? r->onto[0] : r->fd;
    for (ssize_t k = 1; k > 0; r->n += k > 0 ? (size_t)k : 0) {
        if (r->how != AT_ONCE)
            usleep(500);
        const size_t most = r->how == AT_ONCE ? r->room : 300001, left = r->room - r->n;
        k = read(fd, r->bytes + r->n, left < most ? left : most);
    }
    return NULL;
}

static void start(struct reader *r, int fd, enum how how, size_t room)
{
    *r = (struct reader){.fd = fd, .how = how, .room = room, .bytes = malloc(room)};
    CHECK(r->bytes);
    if (how == SPLICED) {
        CHECK_INT(pipe(r->onto), 0);
        CHECK_INT(pthread_create(&r->relay, NULL, relay, r), 0);
    }
    CHECK_INT(pthread_create(&r->thread, NULL, receive, r), 0);
}

static void finish(struct reader *r)
{
    pthread_join(r->thread, NULL);
    if (r->how == SPLICED) {
        pthread_join(r->relay, NULL);
        close(r->onto[0]);
    }
    close(r->fd);
}

/* ---- stacks ---- */

/* Fills rows of a stack from row `at` on: every sample depends on its place. */
static void fill(const struct vp_stack *s, int64_t at, int64_t n, unsigned char *rows)
{
    uint32_t *v = (uint32_t *)rows;
    for (int64_t i = 0; i < n * s->nx; i++)
        v[i] = (uint32_t)((at * s->nx + i) * 2654435761u);
}

/* Writes a stack in calls of `portion` rows from one buffer, which is filled anew for each. `threads`: of calls that
 * leave the buffer as it is; 0: calls that give it away. */
static void write_stack(struct vp_writer *w, const struct vp_stack *s, int64_t portion, int threads)
{
    struct vp_err err = VP_ERR_INIT;
    const size_t row = (size_t)s->nx * sizeof(uint32_t);
    const int64_t all = s->ny * (s->pages < 0 ? 7 : s->pages);
    unsigned char *rows = vp_alloc_raw((size_t)portion, row, "rows", &err), *same = malloc((size_t)portion * row);
    CHECK(rows && same);
    for (int64_t at = 0; at < all; at += portion) {
        const int64_t n = vp_min64(portion, all - at);
        fill(s, at, n, rows);
        if (!threads) {
            CHECK_INT(vp_writer_give_lines(w, n, rows, 1, &err), 0);
            continue;
        }
        memcpy(same, rows, (size_t)n * row);
        CHECK_INT(vp_writer_lines(w, n, rows, threads, &err), 0);
        CHECK(!memcmp(same, rows, (size_t)n * row));
    }
    free(rows);
    free(same);
    CHECK_INT(vp_writer_close(w, &err), 0);
    CHECK_STR(err.msg, "");
}

/* Compares the bytes of a stack from a pipe with those of a file. */
static void compare(int64_t nx, int64_t ny, int64_t pages, int64_t portion, int threads, enum how how, bool raw)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_stack s = {.nx = nx, .ny = ny, .pages = pages, .type = VP_F32};
    const struct vp_writer_options o = {.raw = raw};
    const size_t most = (size_t)(nx * ny * (pages < 0 ? 7 : pages)) * sizeof(uint32_t) + MIB;
    struct vp_writer *w;
    struct reader r;
    char name[32];
    int p[2];

    CHECK_INT(vp_writer_open(&w, "given.tif", &s, &o, &err), 0);
    write_stack(w, &s, portion, 1);
    CHECK_INT(pipe(p), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", p[1]);
    CHECK_INT(vp_writer_open(&w, name, &s, &o, &err), 0);
    close(p[1]);
    start(&r, p[0], how, most);
    write_stack(w, &s, portion, threads);
    finish(&r);

    const int fd = open("given.tif", O_RDONLY);
    char *want = malloc(most);
    CHECK(want);
    CHECK_INT(read(fd, want, most), r.n);
    CHECK(!memcmp(want, r.bytes, r.n));
    close(fd);
    unlink("given.tif");
    free(want);
    free(r.bytes);
}

static void test_stacks(void)
{
    for (int how = AT_ONCE; how < HOWS; how++) {
        compare(1024, 1024, 6, 2048, 0, (enum how)how, false); /* whole huge pages */
        compare(997, 1003, 7, 2500, 0, (enum how)how, false);  /* portions that are none, and begin within pages */
        compare(1024, 1024, 6, 6144, 4, (enum how)how, false); /* copies of what stays the caller's */
        compare(997, 1003, 7, 7021, 5, (enum how)how, true);
    }
    compare(61, 67, 900, 67 * 500, 0, AT_ONCE, false);  /* pages of 16 KiB */
    compare(61, 67, 900, 67 * 900, 8, AT_ONCE, false);
    compare(1000, 999, -1, 999, 0, SPLICED, false);     /* of unknown number: pages are held back, and given then */
    compare(3000, 999, -1, 999, 0, SPLICED, false);
    compare(40, 30, 3, 30, 0, AT_ONCE, false);
}

/* ---- pages ---- */

static bool pipe_gets_pages(void)
{
    struct vp_given g;
    int p[2];
    CHECK_INT(pipe(p), 0);
    vp_given_open(&g, p[1], "a pipe", true, 0);
    const bool on = g.on;
    close(p[0]);
    close(p[1]);
    return on;
}

/* What waits in a pipe keeps its bytes, though its buffer has others by now. */
static void test_waiting(void)
{
    struct vp_err err = VP_ERR_INIT;
    const size_t n = 512 << 10;
    struct vp_given g;
    unsigned char resident;
    int p[2];
    char *buf = vp_alloc_raw(4, MIB, "a buffer", &err), *got = malloc(n);

    CHECK_INT(pipe(p), 0);
    CHECK(fcntl(p[1], F_SETPIPE_SZ, MIB) >= MIB);
    vp_given_open(&g, p[1], "a pipe", true, 0);
    memset(buf, 1, 4 * MIB);
    vp_given_begin(&g, buf, 4 * MIB);
    CHECK_INT(vp_given_put(&g, "head", 4, buf, n, &err), 0);
    CHECK_INT(g.some, g.on);
    CHECK_INT(vp_given_end(&g, &err), 0);
    CHECK_INT(mincore(buf, PAGE, &resident), 0);
    CHECK_INT(resident & 1, !g.on);
    memset(buf, 2, 4 * MIB);
    CHECK_INT(read(p[0], got, 4), 4);
    CHECK(!memcmp(got, "head", 4));
    CHECK_INT(read(p[0], got, n), n);
    for (size_t i = 0; i < n; i += 1000)
        CHECK_INT(got[i], 1);
    close(p[0]);
    close(p[1]);
    free(buf);
    free(got);
}

/* A descriptor that refuses pages is written to, the buffer left as it is. */
static void test_refused(void)
{
    struct vp_err err = VP_ERR_INIT;
    const size_t n = 5 * MIB + 77;
    struct vp_given g;
    struct reader r;
    int s[2];
    char *buf = vp_alloc_raw(8, MIB, "a buffer", &err);

    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    vp_given_open(&g, s[1], "a socket", true, 0);
    CHECK(!g.on);
    g.on = true;
    start(&r, s[0], AT_ONCE, 2 * n);
    memset(buf, 3, 8 * MIB);
    vp_given_begin(&g, buf, 8 * MIB);
    CHECK_INT(g.to - g.from, 8 * MIB);
    CHECK_INT(vp_given_put(&g, "head", 4, buf + 5, n, &err), 0);
    CHECK(!g.on && !g.some);
    CHECK_INT(vp_given_end(&g, &err), 0);
    CHECK_INT(buf[0], 3);
    CHECK_INT(buf[4 * MIB], 3);
    close(s[1]);
    finish(&r);
    CHECK_INT(r.n, n + 4);
    CHECK_INT(r.bytes[3], 'd');
    CHECK_INT(r.bytes[4], 3);
    CHECK_INT(r.bytes[n + 3], 3);
    free(r.bytes);
    free(buf);
}

/* Nothing is given of a buffer without a whole huge page, to files, and where memory is short. */
static void test_limits(void)
{
    struct vp_given g;
    int p[2];
    const int file = open("/dev/null", O_WRONLY);
    CHECK_INT(vp_given_holds(UINT64_C(64) * MIB - 1), 0);
    CHECK_INT(vp_given_holds(UINT64_C(64) * MIB), 4 * MIB);
    CHECK_INT(vp_given_holds(UINT64_C(320) * MIB), 20 * MIB);
    CHECK_INT(vp_given_holds(0), 20 * MIB);
    vp_given_open(&g, file, "/dev/null", true, 0);
    CHECK(!g.on && !g.copies);
    close(file);
    CHECK_INT(pipe(p), 0);
    vp_given_open(&g, p[1], "a pipe", true, UINT64_C(64) * MIB - 1);
    CHECK(!g.on && !g.copies);
    vp_given_open(&g, p[1], "a pipe", true, UINT64_C(64) * MIB);
    CHECK_INT(g.on, pipe_gets_pages());
    CHECK(!g.copies);
    g.on = true;
    char *const at = (char *)(uintptr_t)(2 * MIB + 1);
    vp_given_begin(&g, at, 4 * MIB - 2);
    CHECK(g.from == g.to);
    vp_given_begin(&g, at, 4 * MIB - 1);
    CHECK_INT((uintptr_t)g.from, 4 * MIB);
    CHECK_INT(g.to - g.from, 2 * MIB);
    vp_given_begin(&g, at - 1, 3 * MIB);
    CHECK_INT((uintptr_t)g.from, 2 * MIB);
    CHECK_INT(g.to - g.from, 2 * MIB);
    close(p[0]);
    close(p[1]);
}

/* Memory that comes in pages of 4 KiB is not worth it: giving ends. */
static void test_small_pages(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_given g;
    struct reader r;
    int p[2];
    char *buf = mmap(NULL, 10 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(buf != MAP_FAILED);
    (void)madvise(buf, 10 * MIB, MADV_NOHUGEPAGE);
    CHECK_INT(pipe(p), 0);
    vp_given_open(&g, p[1], "a pipe", true, 0);
    const bool gives = g.on;
    start(&r, p[0], AT_ONCE, 150 * MIB);
    for (int i = 0; i < 14; i++) {
        memset(buf, i, 10 * MIB);
        vp_given_begin(&g, buf, 10 * MIB);
        CHECK_INT(vp_given_put(&g, NULL, 0, buf, 10 * MIB, &err), 0);
        CHECK_INT(vp_given_end(&g, &err), 0);
        if (gives && i == 0)
            CHECK(g.on);
    }
    CHECK(!g.on);
    close(p[1]);
    finish(&r);
    CHECK_INT(r.n, 140 * MIB);
    for (int i = 0; i < 140; i++)
        CHECK_INT(r.bytes[(size_t)i * MIB + 500000], i / 10);
    munmap(buf, 10 * MIB);
    free(r.bytes);
}

/* A reader that leaves is an error, after which no page of the buffer is the pipe's. */
static void test_closed(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_given g;
    int p[2];
    char *buf = vp_alloc_raw(4, MIB, "a buffer", &err);

    CHECK_INT(pipe(p), 0);
    vp_given_open(&g, p[1], "a pipe", true, 0);
    memset(buf, 1, 4 * MIB);
    vp_given_begin(&g, buf, 4 * MIB);
    close(p[0]);
    const pid_t child = fork();
    if (child == 0) { /* dies of SIGPIPE, even though it was ignored */
        signal(SIGPIPE, SIG_IGN);
        (void)vp_given_put(&g, NULL, 0, buf, 4 * MIB, &err);
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    close(p[1]);
    free(buf);
}

int main(void)
{
    char dir[] = "/tmp/voxpipe-given-XXXXXX";
    CHECK(mkdtemp(dir) && !chdir(dir));
    if (!pipe_gets_pages())
        printf("no huge pages: pipes are written to\n");
    test_limits();
    test_refused();
    test_waiting();
    test_small_pages();
    test_closed();
    test_stacks();
    CHECK_INT(rmdir(dir), 0);
    return test_done();
}
