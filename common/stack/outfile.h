/* Output files of any kind that appear whole or not at all: stacks, pictures, text. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vp_err;

/* A file that is written under a temporary name beside its own, or standard output. */
struct vp_outfile {
    int fd;                  /* read-write if it is a temporary file */
    char *name;              /* as the user said it */
    const char *temporary;   /* the name of it until it is closed; NULL: it is written in place */
    /* private to outfile.c */
    volatile sig_atomic_t *used; /* that name */
    char *path;              /* the real target, symbolic links followed */
    bool standard;
    bool joined;             /* the temporary file is another process's, which renames it */
};
int vp_outfile_open(struct vp_outfile **f, const char *path, struct vp_err *err);
int vp_outfile_write(struct vp_outfile *f, const void *buf, size_t n, struct vp_err *err);
int vp_outfile_close(struct vp_outfile *f, struct vp_err *err);   /* flush, check, rename; frees */
void vp_outfile_abort(struct vp_outfile *f);
/* Closes the file if rc is 0, otherwise discards it. Returns rc, or -1 if it cannot be closed. */
int vp_outfile_end(struct vp_outfile *f, int rc, struct vp_err *err);

/* Unlinks every temporary output; async-signal-safe. Registered with vp_at_signal() by the first one. */
void vp_outputs_unlink(void);

/* ---- for stack/ and base/store.c ---- */

/* Opens the temporary file of another process, as `path`: closing it changes no name, aborting it removes it. */
int vp_outfile_join(struct vp_outfile **f, const char *path, const char *temporary, struct vp_err *err);
/* Before a process opens `path`, it proposes the name of its temporary file (an unused one, with its zero within `size`
 * bytes) to the others, which expect it: if one of them is ended by a signal, it removes that file, so none is left if
 * the first is killed before it can say that it has opened it. Returns a slot, for vp_outfile_arrived (-1: no slot). */
int vp_outfile_propose(const char *path, char *name, size_t size, struct vp_err *err);
int vp_outfile_expect(const char *name, struct vp_err *err);
void vp_outfile_arrived(int slot);
/* True if `path` would be one. */
bool vp_outfile_is_new(const char *path);

/* Writes two buffers as one (either may be empty), at a place of a file, or from where it stands if at < 0: loops over
 * short writes and EINTR. On EPIPE with SIGPIPE ignored, restores the default and re-raises. */
int vp_write_two(int fd, off_t at, const void *a, size_t na, const void *b, size_t nb, const char *name,
                 struct vp_err *err);
/* Handles errno after a write that failed: 0 if it can be repeated now, or -1. */
int vp_write_again(int fd, const char *name, struct vp_err *err);

/* A file of a known size whose pieces come in any order, from several threads: a regular one open for reading and
 * writing, not closed here. name: for messages, kept by the caller. `ahead`: all of it will be written from here, so
 * its memory may be made in advance. */
struct vp_reserved;
int vp_reserved_open(struct vp_reserved **r, int fd, const char *name, uint64_t size, bool ahead, struct vp_err *err);
/* Writes two buffers (either may be empty) as one at a place. */
int vp_reserved_put(struct vp_reserved *r, uint64_t at, const void *a, size_t na, const void *b, size_t nb,
                    struct vp_err *err);
/* Waits until all that was put is in the file. NULL is allowed. */
void vp_reserved_close(struct vp_reserved *r);
