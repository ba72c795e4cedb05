/* Inputs that names stand for: files, directories, lists. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct vp_err;

/* "@list", directories and files as the files that they stand for, in order. */
struct vp_paths { int64_t n, room; char **path; };

/* Expands paths. `output` (a file, "-" or NULL for standard output) is refused as one of several inputs, and in a
 * directory that is read: it would become its own input. -1: VP_EUSAGE for that, VP_ERUN for what cannot be read. */
int vp_paths_expand(struct vp_paths *out, const char *const *paths, int n, const char *output, struct vp_err *err);
void vp_paths_free(struct vp_paths *p);

/* Does that check alone, of one of several inputs ("-": standard input). -1: VP_EUSAGE. */
int vp_path_apart(const char *path, const char *output, struct vp_err *err);

/* Returns the length of the name of the file in a path: less than that of the path if it names a part of a file, as in
 * FILE.h5:/entry/data, where a file of that name exists and none of the whole. */
size_t vp_path_file(const char *path);
