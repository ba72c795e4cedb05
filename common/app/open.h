/* Inputs and outputs of a program, with the common options applied. */
#ifndef VP_OPEN_H
#define VP_OPEN_H

#include "stack/reader.h"
#include "stack/writer.h"
#include "app/tool.h"

struct vp_select_params;

/* The operands, or standard input (refused with VP_EUSAGE if that is a terminal), as one stack. Several must not be
 * volumes (VP_EUSAGE), but with --join or VP_TOOL_JOINS. For programs that treat one page other than several: of a raw
 * pipe that does not say how many there are a first page of at most `hold` bytes is read, and `pages` is 1 if nothing
 * follows. */
int vp_open_input(struct vp_run *run, size_t hold, enum vp_samples samples, struct vp_reader **reader,
                  struct vp_err *err);

/* The n operands, each as a stack of its own; at most one is standard input, and none of several the output. readers[]
 * are NULL before, and the caller's to close, also after a failure. */
int vp_open_each(struct vp_run *run, int n, enum vp_samples samples, struct vp_reader **readers, struct vp_err *err);

/* A path that an option names (a file, a folder or a list of slices), as one stack of values: recorded scales are undone
 * (VP_AS_VALUES). */
int vp_open_values(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err);

/* The same, of which --pages (p, or NULL) picks: of a file whose pages are not all alike only those are looked at.
 * `colours`: palettes are looked up. p->picked is to be freed. */
int vp_open_pages(struct vp_run *run, size_t hold, enum vp_samples samples, bool colours, struct vp_select_params *p,
                  struct vp_reader **reader, struct vp_err *err);

/* The same of a mask or a kernel; --raw-in is not about it. */
int vp_open_mask(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err);

/* Paths that an option names, as one stack of values whatever they are, for their pages are averaged. */
int vp_open_joined(struct vp_run *run, const char *const *paths, int n, struct vp_reader **reader, struct vp_err *err);

/* Says if an operand is standard input, as it is where there is none. */
bool vp_standard_input(const struct vp_run *run);
/* Refuses (VP_EUSAGE) a list that is standard input ("-"), given by `option`, where the operands are as well. */
int vp_list_apart(const struct vp_run *run, const char *option, const char *list, struct vp_err *err);

/* -o or standard output. `out`'s metadata is written with this run's history line added. */
int vp_open_output(struct vp_run *run, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err);

/* The same for a second result, in a file of its own. */
int vp_open_result(struct vp_run *run, const char *path, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err);

/* Text, whole, to -o or standard output. */
int vp_output_text(const struct vp_run *run, const char *text, size_t n, struct vp_err *err);

/* Add that line to a header that is written otherwise. */
int vp_output_history(const struct vp_run *run, struct vp_stack *out, struct vp_err *err);

/* Bytes that such an output keeps beside the pages in flight, where there is so much memory: see vp_writer_holds. */
uint64_t vp_output_holds(const struct vp_run *run, const struct vp_stack *out, uint64_t memory);

/* Whether it will be a file that is written in any order if its length is known: to open it changes nothing yet that
 * anybody sees. */
bool vp_output_any_order(const struct vp_run *run);

/* Close input and output after the work: bytes go to run->stats; on an error of the work
 * (failed = true) the output is thrown away. Returns 0, or -1 with err. Both may be NULL. */
int vp_close(struct vp_run *run, struct vp_reader *reader, struct vp_writer *writer, bool failed,
             struct vp_err *err);

#endif
