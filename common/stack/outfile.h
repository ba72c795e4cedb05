/* Output files of any kind that appear whole or not at all: stacks, pictures, text. */
#ifndef VP_OUTFILE_H
#define VP_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct vp_err;

/* Write all of buf to fd: loops over short writes and EINTR. On EPIPE with SIGPIPE ignored, restores
 * the default and re-raises. */
int vp_write_all(int fd, const void *buf, size_t n, const char *name, struct vp_err *err);

/* A FILE-like handle on a temporary file beside `path`, or on standard output. */
struct vp_outfile;
int vp_outfile_open(struct vp_outfile **f, const char *path, struct vp_err *err);
int vp_outfile_write(struct vp_outfile *f, const void *buf, size_t n, struct vp_err *err);
int vp_outfile_close(struct vp_outfile *f, struct vp_err *err);   /* flush, check, rename; frees */
void vp_outfile_abort(struct vp_outfile *f);

/* Unlink every temporary output; async-signal-safe. Registered with vp_at_signal() by the first one. */
void vp_outputs_unlink(void);

/* ---- for stack/ and run/store.c ---- */

int vp_outfile_fd(const struct vp_outfile *f);           /* read-write if it is a temporary file */
const char *vp_outfile_name(const struct vp_outfile *f); /* for messages */
/* The name of it until it is closed; NULL: it is none. */
const char *vp_outfile_temporary(const struct vp_outfile *f);
/* Open the temporary file of another process, as `path`: closing it changes no name, aborting it removes it. */
int vp_outfile_join(struct vp_outfile **f, const char *path, const char *temporary, struct vp_err *err);
/* Whether `path` would be one. */
bool vp_outfile_is_new(const char *path);

/* Write two buffers as one (either may be empty), at a place of a file, or from where it stands if at < 0. */
int vp_write_two(int fd, off_t at, const void *a, size_t na, const void *b, size_t nb, const char *name,
                 struct vp_err *err);

#endif
