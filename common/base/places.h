/* Folders that the environment names, and what names of files stand for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct vp_err;

/* Do as open and fopen, tried again when a signal interrupts them (EINTR). */
int vp_open_fd(const char *path, int flags, unsigned mode);
FILE *vp_fopen(const char *path, const char *mode);

/* Returns the folder of scratch files, which hold what does not fit in memory: $TMPDIR; without it /tmp, or /var/tmp
 * where /tmp is in memory itself (tmpfs). */
const char *vp_tmpdir(void);
/* Returns true if files of the folder are in memory (tmpfs, ramfs). */
bool vp_in_memory(const char *dir);
/* Returns true if scratch files are in memory, too: then their bytes count as such. */
bool vp_scratch_in_memory(void);
/* Refuses (VP_ERESOURCE) `bytes` of scratch files for `what` that are in memory and more than the `room` there; 0 on a
 * disk. */
int vp_scratch_allow(uint64_t bytes, uint64_t room, const char *what, struct vp_err *err);
/* Returns an open file in that folder that has no name and is gone with the process; -1 with errno. */
int vp_unnamed_file(const char *dir);
/* Returns $VOXPIPE_DEVICE_MEMORY, NULL if it is not set. */
const char *vp_device_memory(void);
/* Returns $VOXPIPE_PLUGINS, NULL if it is not set. */
const char *vp_plugins(void);

/* Returns the number of processes that a launcher has started, as its environment has it (1: no launcher), and the
 * number of this one. */
int vp_launched(int *rank);

/* True if code from this file may run with the rights of its user: no one but the owner (and a group that is the
 * owner's alone), or root, may write it or its folder, or put another in its place. Where the user did not name the
 * file, `strangers` is false, and file and folder must belong to the user, to root or to who owns this program.
 * False with the reason in `why`. */
bool vp_trusted(const char *path, bool strangers, char *why, size_t size);

/* Returns the target of a link (to be freed), relative to the working directory as `path` is; NULL if it is none. */
char *vp_next_link(const char *path);

/* Returns `path` with symbolic links followed, even if no file is at the end; malloc'd, NULL with errno. Where only
 * own links will do, for a file to be written: EACCES at one that another user put where everybody may make one. */
char *vp_follow_links(const char *path, bool own);
/* Returns the folder that `path` lies in, ending in a slash, or "."; malloc'd, NULL without memory. */
char *vp_folder(const char *path);
/* True if two names lead to one regular file or FIFO, or would if it were made. */
bool vp_same_file(const char *a, const char *b);
