/* Opens and closes inputs and outputs of a program, with the common options applied. */
#pragma once

#include "stack/reader.h"
#include "stack/writer.h"
#include "app/tool.h"

struct vp_select_params;

/* Opens the operands, or standard input (VP_EUSAGE if that is a terminal), as one stack. Several volumes are an error
 * (VP_EUSAGE) without --join or VP_TOOL_JOINS. For programs that treat a single page differently: of a raw pipe of
 * unknown length a first page of at most `hold` bytes is read, and `pages` is 1 if nothing follows. */
int vp_open_input(struct vp_run *run, size_t hold, enum vp_samples samples, struct vp_reader **reader,
                  struct vp_err *err);

/* Opens each of n operands as a stack; at most one is standard input, and none is the output if there are several.
 * readers[] must be NULL before, and the caller closes them, also after a failure. */
int vp_open_each(struct vp_run *run, int n, enum vp_samples samples, struct vp_reader **readers, struct vp_err *err);

/* Opens a path from an option (a file, a folder or a list of slices) as one stack of values: recorded scales are undone
 * (VP_AS_VALUES). */
int vp_open_values(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err);

/* Opens the operands with --pages (p, or NULL): of a file whose pages differ, only the selected ones are checked.
 * `colours`: palettes are resolved. The caller frees p->picked. */
int vp_open_pages(struct vp_run *run, size_t hold, enum vp_samples samples, bool colours, struct vp_select_params *p,
                  struct vp_reader **reader, struct vp_err *err);

/* Opens a mask or a kernel; --raw-in does not apply. */
int vp_open_mask(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err);

/* Opens paths from an option as one stack of values, of any axes, since their pages are averaged. */
int vp_open_joined(struct vp_run *run, const char *const *paths, int n, struct vp_reader **reader, struct vp_err *err);

/* True if an operand is standard input, or there is none. */
bool vp_standard_input(const struct vp_run *run);
/* Rejects (VP_EUSAGE) a list on standard input ("-"), given by `option`, if an operand is standard input, too. */
int vp_list_apart(const struct vp_run *run, const char *option, const char *list, struct vp_err *err);

/* Opens -o or standard output. Writes `out`'s metadata with this run's history line added. */
int vp_open_output(struct vp_run *run, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err);

/* Opens a second result, in a file. */
int vp_open_result(struct vp_run *run, const char *path, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err);

/* Writes a complete text to -o or standard output. */
int vp_output_text(const struct vp_run *run, const char *text, size_t n, struct vp_err *err);

/* Adds the history line to a header that is written elsewhere. */
int vp_output_history(const struct vp_run *run, struct vp_stack *out, struct vp_err *err);

/* Returns the bytes that such an output keeps in addition to pages in flight, memory permitting: see vp_writer_holds.
 * */
uint64_t vp_output_holds(const struct vp_run *run, const struct vp_stack *out, uint64_t memory);

/* Returns those that are given to a pipe, of so much memory; 0: none are. */
uint64_t vp_output_given(const struct vp_run *run, uint64_t memory);

/* True if the output is a file that can be written in any order once its length is known: opening it has no visible
 * effect yet. */
bool vp_output_any_order(const struct vp_run *run);

/* Closes input and output after the work: byte counts go to run->stats; after a failure (rc) the output is discarded.
 * Returns 0; -1 after a failure, or with a new error in err. Both may be NULL. */
int vp_close(struct vp_run *run, struct vp_reader *reader, struct vp_writer *writer, int rc, struct vp_err *err);
