/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress line. Counting is one atomic addition; the line is drawn by whichever thread passes
 * when it is due. It is erased with blanks, not with escape codes, so that any terminal will do. One program at a time
 * has the line of a terminal: a lock on the terminal keeps it from the others, which go on without it. */
#include "base/progress.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FIRST_S 1.0
#define EVERY_S (1.0 / 6)

struct vp_progress {
    pthread_mutex_t lock;
    bool enabled, wait;
    const char *program;
    char what[64], unit[24];
    int64_t total;
    double phase;              /* when it began */
    _Atomic int64_t done;
    _Atomic double due;        /* time of the next drawing */
    int drawn;                 /* characters on the line now */
    int terminal;              /* standard error opened anew, and locked; -1: not ours (yet) */
};

struct vp_progress *vp_progress_new(const char *program, bool enabled, bool wait)
{
    struct vp_progress *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct vp_progress){.enabled = enabled, .wait = wait, .program = program, .total = -1, .terminal = -1,
                              .phase = vp_now()};
    pthread_mutex_init(&p->lock, NULL);
    atomic_store(&p->due, p->phase + (wait ? FIRST_S : 0));
    return p;
}

void vp_progress_free(struct vp_progress *p)
{
    if (!p)
        return;
    vp_progress_clear(p);
    if (p->terminal >= 0)
        close(p->terminal); /* and with it goes the lock */
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Replaces the line by n characters of text; locked. */
static void draw(struct vp_progress *p, const char *text, int n)
{
    const int blanks = p->drawn > n ? p->drawn - n : 0;
    /* a line lost to an error or a signal is no harm */
    (void)!dprintf(STDERR_FILENO, "\r%.*s%*s%s", n, text, blanks, "", n ? "" : "\r");
    p->drawn = n;
}

void vp_progress_clear(struct vp_progress *p)
{
    if (!p || !p->enabled)
        return;
    pthread_mutex_lock(&p->lock);
    if (p->drawn)
        draw(p, "", 0);
    pthread_mutex_unlock(&p->lock);
}

static int left_text(char *buf, size_t n, double seconds)
{
    if (seconds < 90)
        return snprintf(buf, n, ", %.0f s left", seconds);
    if (seconds < 5400)
        return snprintf(buf, n, ", %.0f min left", seconds / 60);
    return snprintf(buf, n, ", %.1f h left", seconds / 3600);
}

static int line_text(const struct vp_progress *p, char *buf, size_t room, double now)
{
    const int64_t done = atomic_load(&p->done);
    int n;
    if (p->total > 0) {
        n = snprintf(buf, room, "%s: %s: %3d %%", p->program, p->what, (int)(100.0 * (double)done / (double)p->total));
        if (p->unit[0] && n < (int)room)
            n += snprintf(buf + n, room - (size_t)n, " (%" PRId64 " of %" PRId64 " %s)", done, p->total, p->unit);
        if (done > 0 && done < p->total && n < (int)room)
            n += left_text(buf + n, room - (size_t)n,
                           (now - p->phase) * (double)(p->total - done) / (double)done);
    } else {
        n = snprintf(buf, room, "%s: %s: %" PRId64 " %s", p->program, p->what, done, p->unit);
    }
    return n < (int)room ? n : (int)room - 1;
}

/* True if the line may be drawn: not while another program draws one on the same terminal. Locks belong to what was
 * opened, which programs of one shell share, so the terminal is opened again. */
static bool have_line(struct vp_progress *p)
{
    char name[128];
    if (p->terminal >= 0 || ttyname_r(STDERR_FILENO, name, sizeof name))
        return true;
    const int fd = open(name, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return true; /* unknown */
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return false;
    }
    p->terminal = fd;
    return true;
}

/* Draws the line as it is now; locked. */
static void show(struct vp_progress *p, double now)
{
    char text[240];
    atomic_store(&p->due, now + EVERY_S);
    if (!have_line(p))
        return;
    int len = line_text(p, text, sizeof text, now);
    struct winsize size;
    const int columns = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : 80;
    if (len > columns - 1)
        len = columns - 1;
    draw(p, text, len);
}

void vp_progress_start(struct vp_progress *p, const char *what, const char *unit, int64_t total)
{
    if (!p || !p->enabled)
        return;
    pthread_mutex_lock(&p->lock);
    snprintf(p->what, sizeof p->what, "%s", what);
    snprintf(p->unit, sizeof p->unit, "%s", unit ? unit : "");
    p->total = total;
    p->phase = vp_now();
    atomic_store(&p->done, 0);
    if (!p->wait && p->phase >= atomic_load(&p->due))
        show(p, p->phase);
    else if (p->drawn)
        draw(p, "", 0);
    pthread_mutex_unlock(&p->lock);
}

void vp_progress_reach(struct vp_progress *p, const char *what, int64_t done)
{
    if (!p || !p->enabled)
        return;
    pthread_mutex_lock(&p->lock);
    snprintf(p->what, sizeof p->what, "%s", what);
    atomic_store(&p->done, done);
    pthread_mutex_unlock(&p->lock);
}

void vp_progress_add(struct vp_progress *p, int64_t n)
{
    if (!p || !p->enabled)
        return;
    atomic_fetch_add(&p->done, n);
    const double now = vp_now();
    if (now < atomic_load(&p->due) || pthread_mutex_trylock(&p->lock))
        return;
    if (now >= atomic_load(&p->due))
        show(p, now);
    pthread_mutex_unlock(&p->lock);
}
