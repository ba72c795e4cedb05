/* --help from a tool's description and its option tables, and the parts of it that man pages and completions share
 * (docs/). The output is always the same: no date, no build number, no terminal width. */
#pragma once

#include "app/tool.h"

struct vp_help {
    const struct vp_tool *tool;
    const struct vp_opt *common;   /* the common options that this tool has */
};

/* Prints --help, at most 79 columns wide. */
void vp_help_print(const struct vp_help *d, FILE *out);

/* Returns the placeholder of the value: the row's, or one made from the type. */
const char *vp_help_value(const struct vp_opt *row);
/* Writes "a|b|c" as "a, b, c" to f. */
void vp_help_choices(FILE *f, const char *choices, const char *between);
/* Returns facts of the table beyond the help text: "hann, hamming; 0 to 1; repeatable; default: 2"; malloc'd, "" if
 * none, NULL if out of memory. */
char *vp_help_facts(const struct vp_opt *row);

/* An iteration over rows with their group, embedded tables expanded. */
struct vp_help_walk {
    const struct vp_help *help;
    FILE *out;
    const char *group;             /* group of the current row */
    void (*show)(struct vp_help_walk *w, const struct vp_opt *row, bool new_group);
};

void vp_help_table(const struct vp_help *d, const struct vp_opt *table, FILE *out,
                   void (*show)(struct vp_help_walk *, const struct vp_opt *, bool));
/* Calls `show` for the tool's rows, then for the common ones. */
void vp_help_all(const struct vp_help *d, FILE *out,
                 void (*show)(struct vp_help_walk *, const struct vp_opt *, bool));

/* Returns the length of the paragraph at text, without the blank line after it. */
size_t vp_help_paragraph(const char *text);
/* True if the line is the heading of a section, in capitals. */
bool vp_help_heading(const char *line, size_t n);
/* True if the section of this heading is not for --help, and in manuals comes after the examples. */
bool vp_help_is_late(const char *line, size_t n);
/* Returns the command of an example with long lines broken in shell syntax; malloc'd. */
char *vp_help_command(const char *command);

struct vp_help_status { const char *status, *text; };
/* Returns the meanings of the tool's exit statuses, ended by {0}. */
const struct vp_help_status *vp_help_statuses(const struct vp_tool *tool);

/* Returns "img-info(1), voxpipe(7)"; malloc'd. */
char *vp_help_see_also(const struct vp_tool *tool);
