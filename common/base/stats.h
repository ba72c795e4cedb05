/* Statistics of a run: seconds per stage, bytes, named numbers; written as JSON by --stats. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct vp_stats;

struct vp_stats *vp_stats_new(void);   /* NULL if out of memory */
void vp_stats_free(struct vp_stats *stats);

/* Adds seconds to the stage `name` (created on first use; stages keep their order). NULL is allowed. */
void vp_stats_time(struct vp_stats *stats, const char *name, double seconds);
/* Adds to a counter ("bytes_read", "bytes_written", "views"). */
void vp_stats_count(struct vp_stats *stats, const char *name, uint64_t n);
/* Sets a number ("gups", "threads") or a text ("path": "circular, z mirror, avx512"). */
void vp_stats_number(struct vp_stats *stats, const char *name, double value);
void vp_stats_text(struct vp_stats *stats, const char *name, const char *value);
/* Sets a list of n numbers, which is written with all of their digits. */
void vp_stats_list(struct vp_stats *stats, const char *name, const double *value, int64_t n);

/* Writes {"program": ..., "seconds": total, "stages": {...}, "peak_memory": ..., ...} and a newline. 0 or -1 (errno). */
int vp_stats_write(const struct vp_stats *stats, const char *program, FILE *out);
/* True if a path may be written over: a regular file that holds such statistics, or nothing; any other file; and
 * what is not there. */
bool vp_stats_replaceable(const char *path);
