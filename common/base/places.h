/* Folders that the environment names, and what names of files stand for. */
#ifndef VP_PLACES_H
#define VP_PLACES_H

#include <stdbool.h>

/* Where unnamed temporary files go: $TMPDIR, or /tmp. */
const char *vp_tmpdir(void);
/* An open file in that folder that has no name and is gone with the process; -1 with errno. */
int vp_unnamed_file(const char *dir);
/* $VOXPIPE_PLUGINS, NULL if it is not set. */
const char *vp_plugins(void);

/* `path` with symbolic links followed, whether the file at the end exists or not; malloc'd, NULL with errno. */
char *vp_follow_links(const char *path);
/* The folder that `path` lies in, ending in a slash, or "."; malloc'd, NULL without memory. */
char *vp_folder(const char *path);
/* Whether two names lead to one regular file or FIFO, or would if it were made. */
bool vp_same_file(const char *a, const char *b);

#endif
