/* One line of progress on standard error. Drawn only if enabled, at most 6 times a second, and cleared at the
 * end. Thread safe; a NULL progress is allowed everywhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_progress;

/* The first line is drawn as soon as there is a phase, or with `wait` not before a second has passed. */
struct vp_progress *vp_progress_new(const char *program, bool enabled, bool wait);
void vp_progress_free(struct vp_progress *progress);

/* Begins a phase: "filtering", total in `unit`s ("views"), which are not shown if it is NULL; total < 0 is unknown. */
void vp_progress_start(struct vp_progress *progress, const char *what, const char *unit, int64_t total);
void vp_progress_add(struct vp_progress *progress, int64_t n);
/* Sets what is done of the phase, and its name. */
void vp_progress_reach(struct vp_progress *progress, const char *what, int64_t done);
void vp_progress_clear(struct vp_progress *progress);
