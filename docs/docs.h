/* Files generated from the option tables at build time: man pages, completions, examples. */
#pragma once

#include "app/help.h"

void vp_docs_man(const struct vp_help *d, FILE *out);
void vp_docs_bash(const struct vp_help *d, FILE *out);
void vp_docs_zsh(const struct vp_help *d, FILE *out);
void vp_docs_fish(const struct vp_help *d, FILE *out);
/* Writes a shell script. */
void vp_docs_examples(const struct vp_help *d, FILE *out);

/* Finds errors in a table: duplicate names or letters, missing help, bad defaults. NULL, or a description. */
const char *vp_docs_check(const struct vp_opt *table, void *params);
