/* Cleaning up when a signal ends a program. */
#pragma once

/* Has fn, and nothing else, called when INT, TERM, HUP, QUIT, PIPE or XCPU ends the program (before the signal is
 * raised again), and when it exits; fn must be async-signal-safe. */
void vp_at_signal(void (*fn)(void));

/* Installs the handlers once, before the work: by vp_main(). */
void vp_signals_install(void);
