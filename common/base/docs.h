/* The texts made from a tool's description and its option tables: --help, the man page, completions.
 * The same bytes every time: no date, no build number, no width of the terminal. */
#ifndef VP_DOCS_H
#define VP_DOCS_H

#include "base/tool.h"

struct vp_docs {
    const struct vp_tool *tool;
    const struct vp_opt *common;   /* the common options that this tool has */
};

/* --help: at most 79 columns. */
void vp_docs_help(const struct vp_docs *d, FILE *out);

/* kind: "man", "bash", "zsh", "fish", "options" (a line an option: name, letter, type, value, default,
 * help, separated by tabs) or "examples" (a shell script). 0, or -1 (VP_EUSAGE) if there is no such kind. */
int vp_docs_generate(const struct vp_docs *d, const char *kind, FILE *out, struct vp_err *err);

#endif
