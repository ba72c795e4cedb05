/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes man(7) pages from the option tables: words that begin with -- are bold; everything that roff could take for a
 * request or an escape is escaped. */
#include "docs.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Date of the release, changed with VERSION, so that pages do not depend on the time of the build. */
#define PAGE_DATE "2026-11-21"

/* True if the help begins with a choice, which is printed as it is typed. */
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

/* Writes one UTF-8 character at s, escaped for roff. Returns the bytes used. */
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

/* Writes text of n bytes within a line; `bold`: options become bold. */
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

/* Writes one line of running text. */
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

/* Writes lines verbatim. */
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

/* Writes the paragraphs of text[0..n). `begin`: a macro precedes the first as well. */
static void put_paragraphs(FILE *out, const char *text, size_t n, bool begin)
{
    const char *end = text + n;
    for (bool first = true; text < end; first = false) {
        while (text < end && *text == '\n')
            text++;
        size_t len = vp_help_paragraph(text);
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

static void man_row(struct vp_help_walk *w, const struct vp_opt *row, bool new_group)
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
        put_roff(out, vp_help_value(row), strlen(vp_help_value(row)), false);
        fputs("\\fR", out);
    }
    putc('\n', out);
    /* make a sentence: capital letter (unless it is a value to type), full stop */
    char *help = strdup(row->help), *extra = vp_help_facts(row);
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
        /* lists, and paragraphs after the first, keep the indentation of the item */
        const size_t first = strncmp(row->more, "- ", 2) ? vp_help_paragraph(row->more) : 0;
        put_paragraphs(out, row->more, first, false);
        if (row->more[first]) {
            fputs(".RS\n", out);
            put_paragraphs(out, row->more + first, strlen(row->more + first), true);
            fputs(".RE\n", out);
        }
    }
}

/* Writes capital words in italics: "[INPUT]...". */
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

/* Writes the sections before or after the examples: "HEADING\n" at column 0 and the paragraphs below it, repeated. */
static void put_sections(FILE *out, const char *text, bool late)
{
    while (text && *text) {
        text += strspn(text, "\n");
        const size_t head = strcspn(text, "\n");
        if (!head)
            break;
        const bool shown = vp_help_is_late(text, head) == late;
        const char *body = text + head, *next = body;
        if (shown) {
            fputs(".SH ", out);
            put_line(out, text, head, false);
        }
        for (;;) {          /* up to the next heading */
            next += strspn(next, "\n");
            const size_t n = strcspn(next, "\n");
            if (!n || (next > body && next[-1] == '\n' && vp_help_heading(next, n)))
                break;
            next += n;
        }
        if (shown)
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

static bool has_row(const struct vp_help *d, const char *name)
{
    const struct vp_opt *row = d->common;
    while (row->type != VP_T_END && strcmp(row->name, name))
        row++;
    return row->type != VP_T_END;
}

static void man_environment(const struct vp_help *d, FILE *out)
{
    const struct { const char *name, *option, *text; } variable[] = {
        {"VOXPIPE_DEVICE", "device", "The device if --device is not given."},
        {"VOXPIPE_THREADS", "threads",
         "The number of threads if --threads is not given. If it is not set either, OMP_NUM_THREADS is used."},
        {"VOXPIPE_MEMORY", "memory", "The memory limit if --memory is not given."},
        {"VOXPIPE_DEVICE_MEMORY", "device",
         "The memory limit of each GPU. If it is not set, all free memory may be used."},
        {"TMPDIR", "spool",
         "Folder of scratch files, such as the copy that --spool makes. The default is /tmp, or /var/tmp if /tmp is in "
         "memory (tmpfs). Scratch files in memory count against --memory."},
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

void vp_docs_man(const struct vp_help *d, FILE *out)
{
    const struct vp_tool *t = d->tool;
    fprintf(out, ".\\\" Generated by \"make docs\" from the option table of %s; do not edit.\n", t->name);
    fputs(".TH \"", out);
    for (const char *s = t->name; *s; s++)
        put_roff_char(out, &(const char){(char)toupper((unsigned char)*s)});
    /* the release, so that the page is the same in every build */
    fputs("\" \"1\" \"" PAGE_DATE "\" \"voxpipe " VP_RELEASE "\" \"voxpipe\"\n", out);
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
        vp_help_table(d, t->options, out, man_row);
    }
    put_sections(out, t->sections, false);
    if (t->examples && t->examples->command) {
        fputs(".SH EXAMPLES\n", out);
        for (const struct vp_example *e = t->examples; e->command; e++) {
            if (e != t->examples)
                fputs(".PP\n", out);
            put_line(out, e->what, strlen(e->what), true);
            fputs(".PP\n", out);
            char *command = vp_help_command(e->command);
            if (command)
                put_literal(out, command, strlen(command), 0);
            free(command);
        }
    }
    put_sections(out, t->sections, true);
    fputs(".SH COMMON OPTIONS\n", out);
    vp_help_table(d, d->common, out, man_row);
    fputs(".SH EXIT STATUS\n", out);
    for (const struct vp_help_status *s = vp_help_statuses(t); s->status; s++) {
        fprintf(out, ".TP 4\n.B %s\n", s->status);
        char *sentence = NULL;
        if (asprintf(&sentence, "%c%s.", toupper((unsigned char)s->text[0]), s->text + 1) >= 0) {
            put_line(out, sentence, strlen(sentence), false);
            free(sentence);
        }
    }
    man_environment(d, out);
    fputs(".SH SEE ALSO\n", out);
    char *refs = vp_help_see_also(t);
    if (refs)
        put_references(out, refs);
    free(refs);
}
