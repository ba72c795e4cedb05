/* A fuzz target: properties that hold for any bytes. libFuzzer generates the bytes (`make fuzz`); replay.c runs those
 * in corpus/ (`make check`). */
#pragma once

#include "base/err.h"
#include "stack/stack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(cond) do { if (!(cond)) { \
    fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); abort(); } } while (0)

/* Makes an input of the bytes: a pipe or a file. `path` has room for 32; the caller closes the descriptor. -1: they do
 * not fit in a pipe. */
int fuzz_input(const void *data, size_t n, bool pipe_, char path[32]);

/* All pages of a stack and its properties. */
struct fuzz_stack {
    int rc;               /* 0; -1: rejected, with err; 1: too large for the test */
    struct vp_err err;
    int64_t nx, ny, pages;
    enum vp_type type;
    uint64_t sum;         /* sum of the samples, in order */
};
struct fuzz_stack fuzz_read(const void *data, size_t n, bool pipe_, const char *raw);
struct vp_reader_options;
struct fuzz_stack fuzz_read_as(const void *data, size_t n, bool pipe_, const struct vp_reader_options *options);

/* Checks that an error has a code and a message of one line. Returns -1. */
int fuzz_refused(const struct vp_err *err);

/* Count accepted inputs; fuzz_taken() returns their number. */
void fuzz_accepted(void);
int64_t fuzz_taken(void);

/* Returns the bytes as a text ended by 0; free it. */
char *fuzz_text(const uint8_t *data, size_t n);
