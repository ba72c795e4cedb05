/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/thread.h"
#include "stack/reader.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void *thread_main(void *arg)
{
    struct vp_thread *t = arg;
    if (t->wake[0] >= 0)
        vp_input_wake(t->wake[0]);
    t->rc = t->run(t->ctx, &t->err);
    return NULL;
}

static void close_pipe(struct vp_thread *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->wake[i] >= 0)
            close(t->wake[i]);
        t->wake[i] = -1;
    }
}

int vp_thread_start(struct vp_thread *t, int (*run)(void *ctx, struct vp_err *err), void *ctx, bool reads,
                    struct vp_err *err)
{
    *t = (struct vp_thread){.wake = {-1, -1}, .run = run, .ctx = ctx, .err = VP_ERR_INIT};
    if (reads && pipe2(t->wake, O_CLOEXEC)) {
        t->wake[0] = t->wake[1] = -1;
        return vp_fail_errno(err, "a pipe cannot be made");
    }
    const int why = pthread_create(&t->id, NULL, thread_main, t);
    t->running = !why;
    if (t->running)
        return 0;
    close_pipe(t);
    return vp_fail(err, VP_ERESOURCE, "a thread cannot be started: %s", strerror(why));
}

void vp_thread_wake(struct vp_thread *t)
{
    if (t->running && t->wake[1] >= 0)
        (void)!write(t->wake[1], "", 1);
}

int vp_thread_join(struct vp_thread *t, struct vp_err *err)
{
    if (!t->running)
        return 0;
    pthread_join(t->id, NULL);
    t->running = false;
    close_pipe(t);
    return t->rc ? vp_err_keep(err, &t->err) : 0;
}
