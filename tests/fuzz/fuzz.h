/* A fuzz target: what it must hold for any bytes. libFuzzer makes the bytes up (`make fuzz`); replay.c goes through
 * those that are kept in corpus/ (`make check`). */
#ifndef VP_FUZZ_H
#define VP_FUZZ_H

#include "base/err.h"
#include "stack/stack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(cond) do { if (!(cond)) { \
    fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); abort(); } } while (0)

/* The bytes as something to open: a pipe or a file. `path` has room for 32; the descriptor is the caller's. -1: they do
 * not fit a pipe. */
int fuzz_input(const void *data, size_t n, bool pipe_, char path[32]);

/* All pages of a stack and what it says of itself. */
struct fuzz_stack {
    int rc;               /* 0; -1: refused, err says why; 1: too large for here */
    struct vp_err err;
    int64_t nx, ny, pages;
    enum vp_type type;
    uint64_t sum;         /* of the samples, in order */
};
struct fuzz_stack fuzz_read(const void *data, size_t n, bool pipe_, const char *raw);
struct vp_reader_options;
struct fuzz_stack fuzz_read_as(const void *data, size_t n, bool pipe_, const struct vp_reader_options *options);

/* A refusal has a code and says why in one line. Returns -1. */
int fuzz_refused(const struct vp_err *err);

/* Count an input that was taken, not refused. fuzz_taken(): how many were. */
void fuzz_accepted(void);
int64_t fuzz_taken(void);

/* The bytes as a text of its own, ended by 0; free it. */
char *fuzz_text(const uint8_t *data, size_t n);

#endif
