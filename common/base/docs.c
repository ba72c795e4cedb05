/* SPDX-License-Identifier: BSD-3-Clause */
/* --help, man(7) pages and completions from the option tables.
 *
 * Texts of tools are plain: paragraphs separated by blank lines, an indented paragraph is shown as it
 * stands, lines that begin with "- " are a list. On a man page every word that begins with -- becomes
 * bold; everything that roff could take for a request or an escape is made harmless. */
#include "base/docs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 79, COLUMN = 26 };

/* Of the release, changed with VERSION: pages made at any time are the same. */
#define PAGE_DATE "2026-11-21"

/* ---- what a row says ---- */

/* The name of the value: the row's, or one made from the type. */
static const char *value_name(const struct vp_opt *row)
{
    if (row->metavar)
        return row->metavar;
    switch (row->type) {
    case VP_T_INT: return "N";
    case VP_T_REAL: return "X";
    case VP_T_REALS: return "X,...";
    case VP_T_STRING: return "TEXT";
    case VP_T_FILE: case VP_T_OUTFILE: return "FILE";
    case VP_T_FILES: return "FILE";
    case VP_T_CHOICE: return "NAME";
    case VP_T_BYTES: return "BYTES";
    case VP_T_SIZE: return "WxHxD";
    case VP_T_RANGE: return "A:B";
    case VP_T_FLAG: case VP_T_END: case VP_T_TABLE: break;
    }
    return "";
}

/* "a|b|c" as "a, b, c" to f. */
static void put_choices(FILE *f, const char *choices, const char *between)
{
    for (; *choices; choices++)
        if (*choices == '|')
            fputs(between, f);
        else
            putc(*choices, f);
}

/* True if the help itself names every choice. */
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

/* True if the help begins with a choice, which stands as it is typed. */
static bool begins_with_choice(const struct vp_opt *row)
{
    const size_t n = strcspn(row->help, " ,:;|");
    for (const char *s = row->choices ? row->choices : ""; *s; s += strspn(s, "|")) {
        const size_t m = strcspn(s, "|");
        if (m == n && !strncmp(s, row->help, n))
            return true;
        s += m;
    }
    return false;
}

/* "hann, hamming; 0 to 1; repeatable; default: 2": what the table knows beyond the help; malloc'd, "" if
 * nothing, NULL without memory. */
static char *facts(const struct vp_opt *row)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    const char *semicolon = "";
    if (row->type == VP_T_CHOICE && !choices_named(row)) {
        put_choices(f, row->choices, ", ");
        semicolon = "; ";
    }
    const bool numeric = row->type == VP_T_INT || row->type == VP_T_REAL || row->type == VP_T_REALS;
    const bool has_default = strstr(row->help, "default");
    if (numeric && !has_default && row->min < row->max && row->max < 1e6 && row->min > -1e6) {
        fprintf(f, "%s%.10g to %.10g", semicolon, row->min, row->max);
        semicolon = "; ";
    }
    if (row->type == VP_T_FILES) {
        fprintf(f, "%srepeatable", semicolon);
        semicolon = "; ";
    }
    if (row->def && !has_default)
        fprintf(f, "%sdefault: %s", semicolon, row->def);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Rows with the group they stand under, embedded tables expanded. */
struct walk {
    const struct vp_docs *docs;
    FILE *out;
    const char *group;             /* of the rows so far */
    bool any;                      /* a row has been shown */
    void (*show)(struct walk *w, const struct vp_opt *row, bool new_group);
};

static int walk_row(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct walk *w = ctx;
    (void)offset;
    if (row->hidden)
        return 0;
    const char *group = row->group ? row->group : w->group ? w->group : "Options";
    const bool changed = !w->group || strcmp(group, w->group);
    w->group = group;
    w->show(w, row, changed);
    w->any = true;
    return 0;
}

static void walk_table(const struct vp_docs *d, const struct vp_opt *table, FILE *out,
                       void (*show)(struct walk *, const struct vp_opt *, bool))
{
    struct walk w = {.docs = d, .out = out, .show = show};
    vp_opt_each(table, 0, walk_row, &w);
}

static void walk_all(const struct vp_docs *d, FILE *out,
                     void (*show)(struct walk *, const struct vp_opt *, bool))
{
    walk_table(d, d->tool->options, out, show);
    walk_table(d, d->common, out, show);
}

/* ---- --help ---- */

/* Words of text[0..n) from `column`, lines after the first indented. Ends the line. */
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

/* Length of the paragraph at text, without the blank line after it. */
static size_t paragraph(const char *text)
{
    const char *end = strstr(text, "\n\n");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    while (n && text[n - 1] == '\n')
        n--;
    return n;
}

static void help_row(struct walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    if (new_group)
        fprintf(out, "\n%s:\n", w->group);
    int column = row->letter ? fprintf(out, "  -%c, --%s", row->letter, row->name)
                             : fprintf(out, "      --%s", row->name);
    if (row->type != VP_T_FLAG)
        column += fprintf(out, " %s", value_name(row));
    if (column > COLUMN - 2) {
        putc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", COLUMN - column, "");
    char *extra = facts(row), *text = NULL;
    if (asprintf(&text, extra && *extra ? "%s (%s)" : "%s", row->help, extra) >= 0) {
        wrap(out, COLUMN, COLUMN, text, strlen(text));
        free(text);
    }
    free(extra);
}

/* Where a command line of n bytes, longer than `room`, is best broken: the length of the first part, 0 if
 * nowhere. After a pipe sign, else before an option, else at a blank; never inside quotes and parentheses. */
static size_t break_command(const char *s, size_t n, size_t room)
{
    size_t best[3] = {0}; /* the last place of each kind */
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

/* The command of an example with its long lines broken, as a shell takes them; malloc'd. */
static char *example_command(const char *command)
{
    enum { ROOM = WIDTH - 8 };
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
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
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

struct status_text { const char *status, *text; };

static const struct status_text *exit_status(const struct vp_tool *tool)
{
    static const struct status_text usual[] = {
        {"0", "done"},
        {"1", "the run failed: input or output, bad or cut data, a device"},
        {"2", "usage: unknown option, bad value, refused terminal"},
        {"3", "resources: no such device, or too little memory"},
        {0}
    };
    static const struct status_text compare[] = {
        {"0", "the inputs agree"},
        {"1", "they differ"},
        {"2", "trouble: usage, input or output, bad or cut data"},
        {0}
    };
    return tool->flags & VP_TOOL_DIFF ? compare : usual;
}

static bool has_row(const struct vp_docs *d, const char *name)
{
    const struct vp_opt *row = d->common;
    while (row->type != VP_T_END && strcmp(row->name, name))
        row++;
    return row->type != VP_T_END;
}

/* "img-info(1), voxpipe(7)" */
static void see_also(const struct vp_docs *d, FILE *out)
{
    if (d->tool->see_also)
        fprintf(out, "%s%s", d->tool->see_also,
                strstr(d->tool->see_also, "voxpipe(7)") ? "" : ", voxpipe(7)");
    else
        fputs("voxpipe(7)", out);
}

static bool is_heading(const char *line, size_t n)
{
    bool letter = false;
    for (size_t i = 0; i < n; i++) {
        if (!isupper((unsigned char)line[i]) && !isdigit((unsigned char)line[i]) && !strchr(" -,", line[i]))
            return false;
        letter = letter || isupper((unsigned char)line[i]);
    }
    return letter && isupper((unsigned char)line[0]);
}

/* The further sections of the man page, but where it all comes from. */
static void help_sections(FILE *out, const char *text)
{
    bool shown = false;
    while (*(text += strspn(text, "\n"))) {
        const size_t line = strcspn(text, "\n"), n = paragraph(text);
        size_t from = 0;
        if (is_heading(text, line)) {
            shown = line != 10 || strncmp(text, "REFERENCES", 10);
            from = line + (text[line] == '\n');
            if (shown)
                fprintf(out, "\n%c", text[0]);
            for (size_t i = 1; i < line && shown; i++)
                putc(tolower((unsigned char)text[i]), out);
            fputs(shown ? ":\n" : "", out);
        }
        if (shown && from < n) {
            fputs("  ", out);
            wrap(out, 2, 2, text + from, n - from);
        }
        text += n;
    }
}

void vp_docs_help(const struct vp_docs *d, FILE *out)
{
    const struct vp_tool *t = d->tool;
    fprintf(out, "Usage: %s [OPTION]...%s%s\n\n", t->name, t->operands && *t->operands ? " " : "",
            t->operands ? t->operands : "");
    const char *text = t->description && *t->description ? t->description : t->summary;
    wrap(out, 0, 0, text, paragraph(text));
    walk_all(d, out, help_row);
    if (t->sections)
        help_sections(out, t->sections);
    if (t->examples && t->examples->command) {
        fputs("\nExamples:\n", out);
        for (const struct vp_example *e = t->examples; e->command; e++) {
            fputs("  ", out);
            wrap(out, 2, 2, e->what, strlen(e->what));
            char *command = example_command(e->command);
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
    for (const struct status_text *s = exit_status(t); s->status; s++)
        fprintf(out, "  %s  %s\n", s->status, s->text);
    char *refs = NULL;
    size_t size;
    FILE *f = open_memstream(&refs, &size);
    if (!f)
        return;
    fputs("See also: ", f);
    see_also(d, f);
    fclose(f);
    putc('\n', out);
    wrap(out, 10, 0, refs, size);
    free(refs);
}

/* ---- man(7) ---- */

/* One character of UTF-8 at s, made harmless for roff. Returns the bytes used. */
static size_t put_roff_char(FILE *out, const char *s)
{
    static const struct { char c; const char *roff; } special[] = {
        {'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'"', "\\(dq"},
        {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"},
    };
    const unsigned char c = (unsigned char)*s;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].c == *s) {
            fputs(special[i].roff, out);
            return 1;
        }
    if (c < 0x80) {
        putc(c, out);
        return 1;
    }
    const int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    unsigned code = c & (0x3fu >> more);
    size_t n = 1;
    for (int i = 0; i < more && ((unsigned char)s[n] & 0xc0) == 0x80; i++)
        code = code << 6 | ((unsigned char)s[n++] & 0x3f);
    fprintf(out, "\\[u%04X]", code);
    return n;
}

/* Text of n bytes within a line; `bold`: words that are options become bold. */
static void put_roff(FILE *out, const char *text, size_t n, bool bold)
{
    const char *s = text, *end = text + n;
    while (s < end) {
        const bool word_start = s == text || strchr(" (/[\n", s[-1]);
        size_t option = 0;
        if (bold && word_start && s[0] == '-' && s + 1 < end) {
            const size_t dashes = s[1] == '-' ? 2 : 1;
            if (s + dashes < end && isalpha((unsigned char)s[dashes]))
                option = dashes + (dashes == 2 ? strspn(s + 2, "abcdefghijklmnopqrstuvwxyz0123456789-") : 1);
            if (option && s + option < end && isalnum((unsigned char)s[option]))
                option = 0;
        }
        if (option) {
            fputs("\\fB", out);
            for (size_t i = 0; i < option; i++)
                put_roff_char(out, s + i);
            fputs("\\fR", out);
            s += option;
        } else {
            s += put_roff_char(out, s);
        }
    }
}

/* One line of running text. */
static void put_line(FILE *out, const char *text, size_t n, bool bold)
{
    while (n && (*text == ' ' || *text == '\t')) {
        text++;
        n--;
    }
    if (n && *text == '.')
        fputs("\\&", out);
    put_roff(out, text, n, bold);
    putc('\n', out);
}

/* Lines as they stand. */
static void put_literal(FILE *out, const char *text, size_t n, size_t indent)
{
    fputs(".RS 4\n.nf\n", out);
    while (n) {
        const char *nl = memchr(text, '\n', n);
        const size_t line = nl ? (size_t)(nl - text) : n;
        size_t skip = 0;
        while (skip < indent && skip < line && text[skip] == ' ')
            skip++;
        if (skip < line && text[skip] == '.')
            fputs("\\&", out);
        if (skip == line)
            fputs("\\&", out);
        put_roff(out, text + skip, line - skip, false);
        putc('\n', out);
        text += line + (nl != NULL);
        n -= line + (nl != NULL);
    }
    fputs(".fi\n.RE\n", out);
}

/* The paragraphs of text[0..n). `begin`: a macro goes before the first as well. */
static void put_paragraphs(FILE *out, const char *text, size_t n, bool begin)
{
    const char *end = text + n;
    for (bool first = true; text < end; first = false) {
        while (text < end && *text == '\n')
            text++;
        size_t len = paragraph(text);
        if (text + len > end)
            len = (size_t)(end - text);
        if (!len)
            break;
        if (*text == ' ') {
            if (!first || begin)
                fputs(".PP\n", out);
            put_literal(out, text, len, strspn(text, " "));
        } else {
            if (strncmp(text, "- ", 2) && (!first || begin))
                fputs(".PP\n", out);
            for (size_t at = 0; at < len;) {
                const char *nl = memchr(text + at, '\n', len - at);
                const size_t line = nl ? (size_t)(nl - text) - at : len - at;
                if (line > 2 && !strncmp(text + at, "- ", 2)) {
                    fputs(".IP \\(bu 2\n", out);
                    put_line(out, text + at + 2, line - 2, true);
                } else {
                    put_line(out, text + at, line, true);
                }
                at += line + 1;
            }
        }
        text += len;
    }
}

static void man_row(struct walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    if (new_group) {
        fputs(".SS ", out);
        put_line(out, w->group, strlen(w->group), false);
    }
    fputs(".TP\n", out);
    if (row->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", out);
    put_roff(out, row->name, strlen(row->name), false);
    fputs("\\fR", out);
    if (row->type != VP_T_FLAG) {
        fputs(" \\fI", out);
        put_roff(out, value_name(row), strlen(value_name(row)), false);
        fputs("\\fR", out);
    }
    putc('\n', out);
    /* a sentence: capital letter (unless it is a value to type), full stop */
    char *help = strdup(row->help), *extra = facts(row);
    if (help && islower((unsigned char)help[0]) && !isupper((unsigned char)help[1]) && !begins_with_choice(row))
        help[0] = (char)toupper((unsigned char)help[0]);
    char *text = NULL;
    const bool stopped = help && *help && help[strlen(help) - 1] == '.'; /* an ellipsis */
    if (help && asprintf(&text, extra && *extra ? "%s (%s)." : stopped ? "%s" : "%s.", help, extra) >= 0) {
        put_line(out, text, strlen(text), true);
        free(text);
    }
    free(help);
    free(extra);
    if (row->more) {
        /* paragraphs after the first keep the indentation of the item */
        const size_t first = paragraph(row->more);
        put_paragraphs(out, row->more, first, false);
        if (row->more[first]) {
            fputs(".RS\n", out);
            put_paragraphs(out, row->more + first, strlen(row->more + first), true);
            fputs(".RE\n", out);
        }
    }
}

/* Capital words in italics: "[INPUT]...". */
static void put_operands(FILE *out, const char *s)
{
    while (*s) {
        const size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        if (n) {
            fprintf(out, "\\fI%.*s\\fR", (int)n, s);
            s += n;
        } else {
            s += put_roff_char(out, s);
        }
    }
}

/* "HEADING\n" at column 0 and the paragraphs below it, repeated. */
static void put_sections(FILE *out, const char *text)
{
    while (*text) {
        text += strspn(text, "\n");
        const size_t head = strcspn(text, "\n");
        if (!head)
            break;
        const char *body = text;
        if (is_heading(text, head)) {
            fputs(".SH ", out);
            put_line(out, text, head, false);
            body = text + head;
        }
        const char *next = body;
        for (;;) {          /* up to the next heading */
            next += strspn(next, "\n");
            const size_t n = strcspn(next, "\n");
            if (!n || (next > body && next[-1] == '\n' && is_heading(next, n)))
                break;
            next += n;
        }
        put_paragraphs(out, body, (size_t)(next - body), false);
        text = next;
    }
}

static void put_references(FILE *out, const char *refs)
{
    /* "name(1), other(5)": one macro each, the comma outside the bold name */
    while (*refs) {
        refs += strspn(refs, ", ");
        const size_t n = strcspn(refs, ","), name = strcspn(refs, "(");
        if (!n)
            break;
        if (name < n) {
            fputs(".BR ", out);
            put_roff(out, refs, name, false);
            fprintf(out, " %.*s%s\n", (int)(n - name), refs + name, refs[n] ? "," : "");
        } else {
            fprintf(out, "%.*s%s\n", (int)n, refs, refs[n] ? "," : "");
        }
        refs += n;
    }
}

static void man_environment(const struct vp_docs *d, FILE *out)
{
    const struct { const char *name, *option, *text; } variable[] = {
        {"VOXPIPE_DEVICE", "device", "The device where --device is not given."},
        {"VOXPIPE_THREADS", "threads",
         "The number of threads where --threads is not given; after it, OMP_NUM_THREADS."},
        {"VOXPIPE_MEMORY", "memory", "The memory to use where --memory is not given."},
        {"TMPDIR", "spool", "Where --spool keeps its copy; /tmp if it is not set."},
        {"NO_COLOR", NULL, "If it is set and not empty, messages have no colour."},
    };
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        if (variable[i].option && !has_row(d, variable[i].option))
            continue;
        fprintf(out, ".TP\n.B %s\n", variable[i].name);
        put_line(out, variable[i].text, strlen(variable[i].text), true);
    }
}

static void generate_man(const struct vp_docs *d, FILE *out)
{
    const struct vp_tool *t = d->tool;
    fprintf(out, ".\\\" Generated by \"%s --generate man\" from its option table; do not edit.\n", t->name);
    fputs(".TH \"", out);
    for (const char *s = t->name; *s; s++)
        put_roff_char(out, &(const char){(char)toupper((unsigned char)*s)});
    /* the release without what a build adds to it, so that the page is the same from every build */
    fprintf(out, "\" \"1\" \"" PAGE_DATE "\" \"voxpipe %s\" \"voxpipe\"\n", vp_release);
    fputs(".SH NAME\n", out);
    put_roff(out, t->name, strlen(t->name), false);
    fputs(" \\- ", out);
    put_line(out, t->summary, strlen(t->summary), false);
    fputs(".SH SYNOPSIS\n.B ", out);
    put_line(out, t->name, strlen(t->name), false);
    fputs("[\\fIOPTION\\fR]...", out);
    if (t->operands && *t->operands) {
        putc(' ', out);
        put_operands(out, t->operands);
    }
    fputs("\n.SH DESCRIPTION\n", out);
    const char *text = t->description && *t->description ? t->description : t->summary;
    put_paragraphs(out, text, strlen(text), false);
    if (t->options && t->options->type != VP_T_END) {
        fputs(".SH OPTIONS\n", out);
        walk_table(d, t->options, out, man_row);
    }
    fputs(".SH COMMON OPTIONS\n", out);
    walk_table(d, d->common, out, man_row);
    if (t->sections)
        put_sections(out, t->sections);
    if (t->examples && t->examples->command) {
        fputs(".SH EXAMPLES\n", out);
        for (const struct vp_example *e = t->examples; e->command; e++) {
            if (e != t->examples)
                fputs(".PP\n", out);
            put_line(out, e->what, strlen(e->what), true);
            fputs(".PP\n", out);
            char *command = example_command(e->command);
            if (command)
                put_literal(out, command, strlen(command), 0);
            free(command);
        }
    }
    fputs(".SH EXIT STATUS\n", out);
    for (const struct status_text *s = exit_status(t); s->status; s++) {
        fprintf(out, ".TP 4\n.B %s\n", s->status);
        char *sentence = NULL;
        if (asprintf(&sentence, "%c%s.", toupper((unsigned char)s->text[0]), s->text + 1) >= 0) {
            put_line(out, sentence, strlen(sentence), false);
            free(sentence);
        }
    }
    man_environment(d, out);
    fputs(".SH SEE ALSO\n", out);
    char *refs = NULL;
    size_t size;
    FILE *f = open_memstream(&refs, &size);
    if (!f)
        return;
    see_also(d, f);
    fclose(f);
    put_references(out, refs);
    free(refs);
}

/* ---- completions ---- */

static bool is_file(const struct vp_opt *row)
{
    return row->type == VP_T_FILE || row->type == VP_T_OUTFILE || row->type == VP_T_FILES;
}

static void put_identifier(FILE *out, const char *name)
{
    for (; *name; name++)
        putc(isalnum((unsigned char)*name) ? *name : '_', out);
}

static void bash_words(struct walk *w, const struct vp_opt *row, bool new_group)
{
    (void)new_group;
    fprintf(w->out, " --%s", row->name);
    if (row->letter)
        fprintf(w->out, " -%c", row->letter);
}

static void bash_case(struct walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    (void)new_group;
    if (row->type == VP_T_FLAG)
        return;
    fprintf(out, "    --%s", row->name);
    if (row->letter)
        fprintf(out, "|-%c", row->letter);
    if (row->choices) {
        fputs(")\n        mapfile -t COMPREPLY < <(compgen -W '", out);
        put_choices(out, row->choices, " ");
        fputs("' -- \"$cur\")\n        return ;;\n", out);
    } else if (is_file(row)) {
        fputs(")\n        compopt -o filenames 2>/dev/null\n"
              "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n        return ;;\n", out);
    } else {
        fputs(")\n        return ;;\n", out);
    }
}

static void generate_bash(const struct vp_docs *d, FILE *out)
{
    const char *name = d->tool->name;
    const bool operands = d->tool->operands && *d->tool->operands;
    fprintf(out, "# bash completion of %s; generated by \"%s --generate bash\"\n_", name, name);
    put_identifier(out, name);
    fputs("()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    COMPREPLY=()\n"
          "    # bash takes --name=value apart at the =\n"
          "    if [[ $cur == = ]]; then\n"
          "        cur=\n"
          "    elif [[ $prev == = ]]; then\n"
          "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "    fi\n"
          "    case $prev in\n", out);
    walk_all(d, out, bash_case);
    fputs("    esac\n    if [[ $cur == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W '", out);
    walk_all(d, out, bash_words);
    fputs("' -- \"$cur\")\n", out);
    if (operands)
        fputs("    else\n        compopt -o filenames 2>/dev/null\n"
              "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n", out);
    fputs("    fi\n}\ncomplete -F _", out);
    put_identifier(out, name);
    fprintf(out, " %s\n", name);
}

/* Text inside '...' of a shell; the characters of `escape` get a backslash. */
static void put_quoted(FILE *out, const char *text, const char *escape, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(quote, out);
        else {
            if (strchr(escape, *text))
                putc('\\', out);
            putc(*text, out);
        }
    }
}

static void zsh_row(struct walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    const bool value = row->type != VP_T_FLAG;
    (void)new_group;
    fputs(" \\\n        ", out);
    if (row->type == VP_T_FILES)
        fputs("'*'", out);
    else if (row->letter)
        fprintf(out, "'(-%c --%s)'", row->letter, row->name);
    if (row->letter)
        fprintf(out, "{-%c%s,--%s%s}", row->letter, value ? "+" : "", row->name, value ? "=" : "");
    else
        fprintf(out, "--%s%s", row->name, value ? "=" : "");
    fputs("'[", out);
    put_quoted(out, row->help, "[]\\:", "'\\''");
    putc(']', out);
    if (value) {
        putc(':', out);
        put_quoted(out, value_name(row), "[]\\:", "'\\''");
        putc(':', out);
        if (row->choices) {
            putc('(', out);
            for (const char *c = row->choices; *c; c++) /* a bare colon would end the list */
                fprintf(out, "%s%c", *c == ':' ? "\\" : "", *c == '|' ? ' ' : *c);
            putc(')', out);
        } else if (is_file(row)) {
            fputs("_files", out);
        } else {
            putc(' ', out);
        }
    }
    putc('\'', out);
}

static void generate_zsh(const struct vp_docs *d, FILE *out)
{
    const char *name = d->tool->name;
    fprintf(out, "#compdef %s\n# zsh completion of %s; generated by \"%s --generate zsh\"\n\n_",
            name, name, name);
    put_identifier(out, name);
    fputs("() {\n    _arguments -s -S", out);
    walk_all(d, out, zsh_row);
    if (d->tool->operands && *d->tool->operands)
        fputs(" \\\n        '*:input:_files'", out);
    fputs("\n}\n\n_", out);
    put_identifier(out, name);
    fputs(" \"$@\"\n", out);
}

static void fish_row(struct walk *w, const struct vp_opt *row, bool new_group)
{
    FILE *out = w->out;
    (void)new_group;
    fprintf(out, "complete -c %s -l %s", w->docs->tool->name, row->name);
    if (row->letter)
        fprintf(out, " -s %c", row->letter);
    if (row->choices && row->type != VP_T_FLAG) {
        fputs(" -x -a '", out);
        put_choices(out, row->choices, " ");
        putc('\'', out);
    } else if (is_file(row)) {
        fputs(" -r -F", out);
    } else if (row->type != VP_T_FLAG) {
        fputs(" -x", out);
    }
    fputs(" -d '", out);
    put_quoted(out, row->help, "\\", "\\'");
    fputs("'\n", out);
}

static void generate_fish(const struct vp_docs *d, FILE *out)
{
    const char *name = d->tool->name;
    fprintf(out, "# fish completion of %s; generated by \"%s --generate fish\"\n", name, name);
    if (!d->tool->operands || !*d->tool->operands)
        fprintf(out, "complete -c %s -f\n", name);
    walk_all(d, out, fish_row);
}

static void option_row(struct walk *w, const struct vp_opt *row, bool new_group)
{
    static const char *const type[] = {
        [VP_T_END] = "", [VP_T_FLAG] = "flag", [VP_T_INT] = "int", [VP_T_REAL] = "real",
        [VP_T_REALS] = "reals", [VP_T_STRING] = "string", [VP_T_FILE] = "file",
        [VP_T_OUTFILE] = "outfile", [VP_T_FILES] = "files", [VP_T_CHOICE] = "choice",
        [VP_T_BYTES] = "bytes", [VP_T_SIZE] = "size", [VP_T_RANGE] = "range", [VP_T_TABLE] = "",
    };
    (void)new_group;
    fprintf(w->out, "--%s\t", row->name);
    if (row->letter)
        fprintf(w->out, "-%c", row->letter);
    fprintf(w->out, "\t%s\t%s\t%s\t%s\n", type[row->type],
            row->choices ? row->choices : value_name(row), row->def ? row->def : "", row->help);
}

static void generate_options(const struct vp_docs *d, FILE *out)
{
    walk_all(d, out, option_row);
}

/* The examples as a script, in order: what they need is made by those before. */
static void generate_examples(const struct vp_docs *d, FILE *out)
{
    for (const struct vp_example *e = d->tool->examples; e && e->command; e++)
        fprintf(out, "# %s\n%s\n", e->what, e->command);
}

int vp_docs_generate(const struct vp_docs *d, const char *kind, FILE *out, struct vp_err *err)
{
    static const struct {
        const char *kind;
        void (*generate)(const struct vp_docs *d, FILE *out);
    } known[] = {
        {"man", generate_man}, {"bash", generate_bash}, {"zsh", generate_zsh}, {"fish", generate_fish},
        {"options", generate_options}, {"examples", generate_examples},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].kind, kind)) {
            known[i].generate(d, out);
            return 0;
        }
    return vp_fail(err, VP_EUSAGE, "--generate: '%s' is not one of man, bash, zsh, fish, options, examples", kind);
}
