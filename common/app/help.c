/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints --help from the option tables.
 * Texts of tools are plain: paragraphs separated by blank lines, an indented paragraph is printed verbatim, lines that
 * begin with "- " are a list. */
#include "app/help.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 79, COLUMN = 26 };

/* ---- rows ---- */

const char *vp_help_value(const struct vp_opt *row)
{
    static const char *const of_type[] = {
        [VP_T_INT] = "N", [VP_T_REAL] = "X", [VP_T_REALS] = "X,...", [VP_T_STRING] = "TEXT", [VP_T_STRINGS] = "TEXT",
        [VP_T_FILE] = "FILE", [VP_T_OUTFILE] = "FILE", [VP_T_FILES] = "FILE", [VP_T_CHOICE] = "NAME",
        [VP_T_BYTES] = "BYTES", [VP_T_SIZE] = "WxHxD", [VP_T_RANGE] = "A:B", [VP_T_TABLE] = NULL};
    const char *name = row->metavar ? row->metavar : of_type[row->type];
    return name ? name : "";
}

void vp_help_choices(FILE *f, const char *choices, const char *between)
{
    for (; *choices; choices++)
        if (*choices == '|')
            fputs(between, f);
        else
            putc(*choices, f);
}

/* True if the help text itself names every choice. */
static bool choices_named(const struct vp_opt *row)
{
    for (const char *s = row->choices; *s; s += strspn(s, "|")) {
        const size_t n = strcspn(s, "|");
        bool found = false;
        for (const char *h = row->help; *h && !found; h++)
            found = !strncmp(h, s, n) && !isalnum((unsigned char)h[n]) && h[n] != '-'
                    && (h == row->help || !isalnum((unsigned char)h[-1]));
        if (!found)
            return false;
        s += n;
    }
    return true;
}

char *vp_help_facts(const struct vp_opt *row)
{
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    if (row->type == VP_T_CHOICE && !choices_named(row)) {
        fputs("; ", f);
        vp_help_choices(f, row->choices, ", ");
    }
    const bool numeric = row->type == VP_T_INT || row->type == VP_T_REAL || row->type == VP_T_REALS;
    const bool has_default = strstr(row->help, "default");
    if (numeric && !has_default && row->min < row->max && row->max < 1e6 && row->min > -1e6)
        fprintf(f, "; %.10g to %.10g", row->min, row->max);
    if (vp_opt_repeats(row))
        fputs("; repeatable", f);
    if (row->def && !has_default)
        fprintf(f, "; default: %s", row->def);
    char *text = vp_text_close(f, NULL);
    if (text && *text)
        memmove(text, text + 2, strlen(text + 2) + 1);
    return text;
}

static int walk_row(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct vp_help_walk *w = ctx;
    (void)offset;
    if (row->hidden)
        return 0;
    const char *group = row->group ? row->group : w->group ? w->group : "Options";
    const bool changed = !w->group || strcmp(group, w->group);
    w->group = group;
    w->show(w, row, changed);
    return 0;
}

void vp_help_table(const struct vp_help *d, const struct vp_opt *table, FILE *out,
                       void (*show)(struct vp_help_walk *, const struct vp_opt *, bool))
{
    struct vp_help_walk w = {.help = d, .out = out, .show = show};
    vp_opt_each(table, 0, walk_row, &w);
}

void vp_help_all(const struct vp_help *d, FILE *out,
                     void (*show)(struct vp_help_walk *, const struct vp_opt *, bool))
{
    vp_help_table(d, d->tool->options, out, show);
    vp_help_table(d, d->common, out, show);
}

/* ---- --help ---- */

/* Prints the words of text[0..n) from `column`, lines after the first indented. Ends the line. */
static void wrap(FILE *out, int indent, int column, const char *text, size_t n)
{
    const char *end = text + n;
    bool first = true;
    while (text < end) {
        text += strspn(text, " \n");
        const size_t word = strcspn(text, " \n");
        if (text >= end || !word)
            break;
        if (!first && column + 1 + (int)word > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        column += fprintf(out, "%s%.*s", first ? "" : " ", (int)word, text);
        first = false;
        text += word;
    }
    putc('\n', out);
}

size_t vp_help_paragraph(const char *text)
{
    const char *end = strstr(text, "\n\n");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    while (n && text[n - 1] == '\n')
        n--;
    return n;
}

static void help_row(struct vp_help_walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    if (new_group)
        fprintf(out, "\n%s:\n", w->group);
    int column = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->name)
                             : fprintf(out, "      --%s", row->name);
    if (row->type != VP_T_FLAG)
        column += fprintf(out, " %s", vp_help_value(row));
    if (column > COLUMN - 2) {
        putc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", COLUMN - column, "");
    char *extra = vp_help_facts(row), *text = NULL;
    if (asprintf(&text, extra && *extra ? "%s (%s)" : "%s", row->help, extra) >= 0) {
        wrap(out, COLUMN, COLUMN, text, strlen(text));
        free(text);
    }
    free(extra);
}

/* Finds the best position to break a command line of n bytes that is longer than `room`: returns the length of the
 * first part, 0 if there is none. After a pipe sign, else before an option, else at a blank; never inside quotes and
 * parentheses. */
static size_t break_command(const char *s, size_t n, size_t room)
{
    size_t best[3] = {0}; /* last position of each kind */
    char quote = 0;
    int depth = 0;
    for (size_t i = 1; i + 1 < n && i < room; i++) {
        const char c = s[i];
        if (quote) {
            quote = c == quote ? 0 : quote;
            continue;
        }
        if (c == '\'' || c == '"')
            quote = c;
        depth += (c == '(') - (c == ')');
        if (c == ' ' && s[i - 1] != ' ' && !depth)
            best[s[i - 1] == '|' ? 0 : s[i + 1] == '-' ? 1 : 2] = i;
    }
    return best[0] ? best[0] : best[1] ? best[1] : best[2];
}

char *vp_help_command(const char *command)
{
    enum { ROOM = WIDTH - 8 };
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    while (*command) {
        const size_t lead = strspn(command, " ");
        size_t n = strcspn(command, "\n"), indent = 0;
        while (indent + n > ROOM) {
            const size_t at = break_command(command, n, ROOM - 2 - indent);
            if (at <= (indent ? 0 : lead))
                break;
            fprintf(f, "%*s%.*s%s\n", (int)indent, "", (int)at, command, command[at - 1] == '|' ? "" : " \\");
            command += at + 1;
            n -= at + 1;
            indent = lead + 2;
        }
        fprintf(f, "%*s%.*s", (int)indent, "", (int)n, command);
        command += n;
        if (*command)
            putc(*command++, f);
    }
    return vp_text_close(f, NULL);
}

const struct vp_help_status *vp_help_statuses(const struct vp_tool *tool)
{
    static const struct vp_help_status usual[] = {
        {"0", "done"},
        {"1", "the run failed: input or output, bad or truncated data, a device"},
        {"2", "usage: unknown option, bad value, refused terminal"},
        {"3", "resources: no such device, or too little memory"},
        {0}
    };
    static const struct vp_help_status compare[] = {
        {"0", "the inputs agree"},
        {"1", "the inputs differ"},
        {"2", "an error: usage, input or output, bad or truncated data"},
        {0}
    };
    return tool->flags & VP_TOOL_DIFF ? compare : usual;
}

char *vp_help_see_also(const struct vp_tool *tool)
{
    const char *others = tool->see_also ? tool->see_also : "";
    char *text = NULL;
    return asprintf(&text, "%s%s%s", others, *others ? ", " : "", "voxpipe(7)") < 0 ? NULL : text;
}

bool vp_help_heading(const char *line, size_t n)
{
    bool letter = false;
    for (size_t i = 0; i < n; i++) {
        if (!isupper((unsigned char)line[i]) && !isdigit((unsigned char)line[i]) && !strchr(" -,", line[i]))
            return false;
        letter = letter || isupper((unsigned char)line[i]);
    }
    return letter && isupper((unsigned char)line[0]);
}

bool vp_help_is_late(const char *line, size_t n)
{
    static const char *const late[] = {"NOTES", "LIMITS", "MANY HOSTS", "TIMES", "METHOD", "MEMORY", "ACCURACY",
                                       "PICTURE", "RADIUS MAPS", "REFERENCES"};
    for (size_t i = 0; i < sizeof late / sizeof *late; i++)
        if (strlen(late[i]) == n && !strncmp(late[i], line, n))
            return true;
    return false;
}

/* Prints a paragraph of a section: running text, a list, or lines as they are. */
static void help_paragraph(FILE *out, const char *text, size_t n)
{
    for (size_t at = 0, line; at < n; at += line + 1) {
        line = strcspn(text + at, "\n");
        if (at + line > n)
            line = n - at;
        const int indent = strncmp(text + at, "- ", 2) ? 2 : 4;
        fputs("  ", out);
        if (text[at] == ' ')
            fprintf(out, "%.*s\n", (int)line, text + at);
        else
            wrap(out, indent, 2, text + at, line);
    }
}

/* Prints the sections of the man page that are for --help. */
static void help_sections(FILE *out, const char *text)
{
    bool shown = false;
    while (*(text += strspn(text, "\n"))) {
        const size_t line = strcspn(text, "\n"), n = vp_help_paragraph(text);
        size_t from = 0;
        if (vp_help_heading(text, line)) {
            shown = !vp_help_is_late(text, line);
            from = line + (text[line] == '\n');
            if (shown)
                fprintf(out, "\n%c", text[0]);
            for (size_t i = 1; i < line && shown; i++)
                putc(tolower((unsigned char)text[i]), out);
            fputs(shown ? ":\n" : "", out);
        }
        if (shown && from < n)
            help_paragraph(out, text + from, n - from);
        text += n;
    }
}

void vp_help_print(const struct vp_help *d, FILE *out)
{
    const struct vp_tool *t = d->tool;
    fprintf(out, "Usage: %s [OPTION]...%s%s\n\n", t->name, t->operands && *t->operands ? " " : "",
            t->operands ? t->operands : "");
    const char *text = t->description && *t->description ? t->description : t->summary;
    wrap(out, 0, 0, text, vp_help_paragraph(text));
    vp_help_all(d, out, help_row);
    if (t->sections)
        help_sections(out, t->sections);
    if (t->examples && t->examples->command) {
        fputs("\nExamples:\n", out);
        for (const struct vp_example *e = t->examples; e->command; e++) {
            fputs("  ", out);
            wrap(out, 2, 2, e->what, strlen(e->what));
            char *command = vp_help_command(e->command);
            fputs("    ", out);
            for (const char *c = command ? command : ""; *c; c++) {
                putc(*c, out);
                if (*c == '\n')
                    fputs("    ", out);
            }
            putc('\n', out);
            free(command);
        }
    }
    fputs("\nExit status:\n", out);
    for (const struct vp_help_status *s = vp_help_statuses(t); s->status; s++)
        fprintf(out, "  %s  %s\n", s->status, s->text);
    char *refs = vp_help_see_also(t);
    fputs("\nSee also: ", out);
    if (refs)
        wrap(out, 10, 10, refs, strlen(refs));
    free(refs);
}
