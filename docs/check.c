/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds errors in an option table that no compiler finds. */
#include "docs.h"

#include "base/err.h"

#include <ctype.h>
#include <string.h>

struct check {
    const struct vp_opt *table;
    const struct vp_opt *self;   /* row compared with the others */
    bool past_self;
    void *params;
};

static char mistakes[1200];

static int report(const struct vp_opt *row, const char *what)
{
    snprintf(mistakes, sizeof mistakes, "--%s: %s", row->name ? row->name : "(no name)", what);
    return 1;
}

static int compare_rows(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct check *c = ctx;
    (void)offset;
    /* the same row twice is a table embedded twice */
    if (row == c->self ? c->past_self : row->name && !strcmp(row->name, c->self->name))
        return report(row, "appears twice");
    c->past_self = c->past_self || row == c->self;
    if (row != c->self && row->letter && row->letter == c->self->letter)
        return report(row, "its letter belongs to another option as well");
    return 0;
}

static int check_row(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct check *c = ctx;
    if (!row->name || !*row->name)
        return report(row, "has no name");
    const size_t letters = strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (letters > 60 || row->name[letters] || row->name[0] == '-')
        return report(row, "the name is not of lower case letters, digits and dashes");
    if (row->letter && !isalnum((unsigned char)row->letter))
        return report(row, "the letter is no letter");
    if (!row->hidden && (!row->help || !*row->help))
        return report(row, "has no help");
    const size_t n = row->help ? strlen(row->help) : 0;
    const bool ellipsis = n >= 3 && !strcmp(row->help + n - 3, "...");
    if (n && (strchr(row->help, '\n') || (row->help[n - 1] == '.' && !ellipsis)))
        return report(row, "the help is not one line without a full stop");
    if (row->type == VP_T_CHOICE && (!row->choices || !*row->choices))
        return report(row, "has no choices");
    if (row->def && (row->type == VP_T_FLAG || vp_opt_repeats(row)))
        return report(row, "cannot have a default");
    if (row->min > row->max)
        return report(row, "the least value is above the largest");
    struct vp_err err = VP_ERR_INIT;
    const struct vp_opt alone[] = {*row, VP_OPT_END};
    if (vp_opt_defaults(alone, (char *)c->params + (offset - row->offset), &err))
        return report(row, err.msg);
    struct check others = {.self = row};
    return vp_opt_each(c->table, 0, compare_rows, &others);
}

const char *vp_docs_check(const struct vp_opt *table, void *params)
{
    return vp_opt_each(table, 0, check_row, &(struct check){.table = table, .params = params}) ? mistakes : NULL;
}
