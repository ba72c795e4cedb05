/* Shared by the reader (reader.c) and its inputs (reader_inputs.c). */
#pragma once

#include "stack/paths.h"
#include "stack/reader.h"
#include "stack/source.h"
#include <pthread.h>

enum { VP_IDLE_INPUTS = 16 };

/* One of the inputs. Its source is shared by all who read it, and stays open for a while after the last. */
struct vp_opened {
    struct vp_source *source; /* NULL: not open */
    int users;
    bool opening; /* by some thread */
    bool keep; /* can be read anywhere, but not be opened again */
};

struct vp_inputs {
    struct vp_paths paths;
    int64_t *first; /* stack page of the first page of input i; n + 1 of them; seekable only */
    _Atomic uint64_t bytes; /* read so far */
    pthread_mutex_t lock; /* protects all below, and `disagrees` */
    pthread_cond_t opened;
    struct vp_opened *input; /* paths.n */
    int64_t idle[VP_IDLE_INPUTS]; /* open, without users, oldest first; only the last one has decoded samples */
    int n_idle;
};

/* Returns the source of input i for use, opened if it is not, checked to fit the stack; NULL with an error. */
struct vp_source *vp_inputs_take(struct vp_reader *r, int64_t i, struct vp_err *err);
/* Ends a use of input i; it stays open for a while. */
void vp_inputs_give(struct vp_reader *r, int64_t i);
/* True if the input can be opened again. */
bool vp_input_lasts(const char *path);
/* Returns the type of the samples that come out of a source for the reader. */
enum vp_type vp_type_read(const struct vp_source *s);

/* A pipe whose rows are copied to a file when they are read for the first time (reader_later.c). */
struct vp_later;
/* Opens it for all that r has not read yet, with a stack of known length. */
int vp_later_open(struct vp_later **l, const struct vp_reader *r, struct vp_err *err);
void vp_later_free(struct vp_later *l);
/* Returns the reader of the pipe; of its members only those of the inputs are its own. */
struct vp_reader *vp_later_from(struct vp_later *l);
/* Returns the descriptor of the copy, which the caller closes. */
int vp_later_fd(const struct vp_later *l);
/* True if rows below y1 of a page have not been copied yet. */
bool vp_later_behind(struct vp_later *l, int64_t page, int64_t y1);
/* Copies all up to row y1 of a page, as far as it is not done. 1: rows [y0, y1) were the next and are in buf, too; 0:
 * they are in the copy; -1. From any thread. */
int vp_later_read(struct vp_later *l, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err);
/* Fails if there are pages after the last one that was promised, once all of these were read. */
int vp_reader_ended(struct vp_reader *r, struct vp_err *err);
