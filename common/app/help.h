/* --help from a tool's description and its option tables, and the parts of it that man pages and completions share
 * (docs/). The same bytes every time: no date, no build number, no width of the terminal. */
#ifndef VP_HELP_H
#define VP_HELP_H

#include "app/tool.h"

struct vp_help {
    const struct vp_tool *tool;
    const struct vp_opt *common;   /* the common options that this tool has */
};

/* --help: at most 79 columns. */
void vp_help_print(const struct vp_help *d, FILE *out);

/* The name of the value: the row's, or one made from the type. */
const char *vp_help_value(const struct vp_opt *row);
/* "a|b|c" as "a, b, c" to f. */
void vp_help_choices(FILE *f, const char *choices, const char *between);
/* "hann, hamming; 0 to 1; repeatable; default: 2": what the table knows beyond the help; malloc'd, "" if
 * nothing, NULL without memory. */
char *vp_help_facts(const struct vp_opt *row);

/* Rows with the group they stand under, embedded tables expanded. */
struct vp_help_walk {
    const struct vp_help *help;
    FILE *out;
    const char *group;             /* of the rows so far */
    void (*show)(struct vp_help_walk *w, const struct vp_opt *row, bool new_group);
};

void vp_help_table(const struct vp_help *d, const struct vp_opt *table, FILE *out,
                   void (*show)(struct vp_help_walk *, const struct vp_opt *, bool));
/* The tool's rows, then the common ones. */
void vp_help_all(const struct vp_help *d, FILE *out,
                 void (*show)(struct vp_help_walk *, const struct vp_opt *, bool));

/* Length of the paragraph at text, without the blank line after it. */
size_t vp_help_paragraph(const char *text);
/* Is the line the heading of a section, in capitals? */
bool vp_help_heading(const char *line, size_t n);
/* The command of an example with its long lines broken, as a shell takes them; malloc'd. */
char *vp_help_command(const char *command);

struct vp_help_status { const char *status, *text; };
/* What the exit status of the tool means, ended by {0}. */
const struct vp_help_status *vp_help_statuses(const struct vp_tool *tool);

/* "img-info(1), voxpipe(7)"; malloc'd. */
char *vp_help_see_also(const struct vp_tool *tool);

#endif
