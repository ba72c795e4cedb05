/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/signals.h"

#include <signal.h>
#include <stdlib.h>

static void (*volatile at_signal)(void);

void vp_at_signal(void (*fn)(void))
{
    at_signal = fn;
}

static void clean_up(void)
{
    if (at_signal)
        at_signal();
}

static void on_signal(int number)
{
    clean_up();
    /* the handler was installed with SA_RESETHAND: raised again, the signal ends us as the caller expects */
    raise(number);
}

void vp_signals_install(void)
{
    /* PIPE: standard error may be a pipe whose reader has gone while the output is a file */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU};
    signal(SIGXFSZ, SIG_IGN); /* write(2) then fails, and the message says why */
    atexit(clean_up);         /* libgomp exits when it cannot have a thread */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now, ours = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
        sigemptyset(&ours.sa_mask);
        if (!sigaction(signals[i], NULL, &now) && now.sa_handler != SIG_IGN) /* nohup stays nohup */
            sigaction(signals[i], &ours, NULL);
    }
}
