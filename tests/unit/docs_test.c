/* SPDX-License-Identifier: BSD-3-Clause */
/* Man page and completions of a tool whose texts are full of what roff and shells could take for their own. */
#include "../../docs/docs.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

struct params { double sigma; const char *mode; int shape; int64_t exits; };

static const struct vp_opt options[] = {
    VP_REAL(struct params, sigma, "sigma", 's', .metavar = "MM", .min = 0, .max = 9, .def = "2",
            .group = "Filter", .help = "width; it's 'here'",
            .more = "See --mode.\n\nMore.\n\n  .literal \\n"),
    VP_STRING(struct params, mode, "mode", 0, .metavar = "MODE", .help = "what to do"),
    VP_CHOICE(struct params, shape, "shape", 0, "box|ball", .help = "box or ball"),
    VP_INT(struct params, exits, "exits", 0, .help = "secret", .hidden = true),
    VP_OPT_END
};

static const struct vp_example examples[] = {
    {"Do it.", "ct-demo -s 2 in.tif |\n  ct-demo -o 'a b.tif'"},
    {0}
};

static const struct vp_tool tool = {
    .name = "ct-demo", .operands = "[INPUT]...", .summary = "demonstrate", .options = options,
    .description = "Does --mode in C:\\x.\n.dot at the start\n'quote\n\nSecond.\n\n- one\n- two\n",
    .params_size = sizeof(struct params), .examples = examples,
    .sections = "NOTES\nText.\n\nSECOND PART 2-D\nMore text.\n",
    .see_also = "ct-filter(1)", .flags = VP_TOOL_TEXT,
};

static char out[1 << 16];

/* What write() says of the tool goes to `out`. */
static void generate(void (*write)(const struct vp_help *, FILE *))
{
    struct vp_opt common[VP_MAX_COMMON];
    vp_tool_common(&tool, common);
    memset(out, 0, sizeof out);
    FILE *f = fmemopen(out, sizeof out - 1, "w");
    CHECK(f != NULL);
    if (f) {
        write(&(struct vp_help){&tool, common}, f);
        fclose(f);
    }
}

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static void pages(void)
{
    generate(vp_docs_man);
    const char *const man[] = {
        ".TH \"CT\\-DEMO\" \"1\" \"", ".SH NAME\nct\\-demo \\- demonstrate\n",
        ".SH SYNOPSIS\n.B ct\\-demo\n[\\fIOPTION\\fR]... [\\fIINPUT\\fR]...\n",
        ".SH DESCRIPTION\nDoes \\fB\\-\\-mode\\fR in C:\\ex.\n"
        "\\&.dot at the start\n\\(aqquote\n.PP\nSecond.\n",
        ".IP \\(bu 2\none\n.IP \\(bu 2\ntwo\n",
        ".SH OPTIONS\n.SS Filter\n.TP\n\\fB\\-s\\fR, \\fB\\-\\-sigma\\fR \\fIMM\\fR\n"
        "Width; it\\(aqs \\(aqhere\\(aq (0 to 9; default: 2).\n",
        "See \\fB\\-\\-mode\\fR.\n.RS\n.PP\nMore.\n.PP\n.RS 4\n.nf\n\\&.literal \\en\n.fi\n.RE\n.RE\n",
        "\nWhat to do.\n", "\nbox or ball.\n", ".SH SECOND PART 2\\-D\nMore text.\n",
        ".SH EXAMPLES\nDo it.\n", ".SH NOTES\nText.\n.SH COMMON OPTIONS\n",
        ".SH EXIT STATUS\n", ".SH ENVIRONMENT\n", ".B VOXPIPE_DEVICE\n",
        ".SH SEE ALSO\n.BR ct\\-filter (1),\n.BR voxpipe (7)\n",
    };
    const char *from = out;
    for (size_t i = 0; i < sizeof man / sizeof *man; i++) {     /* all of it, in this order */
        const char *at = strstr(from, man[i]);
        if (!at)
            printf("man page: missing after %.20s...: %s\n", from, man[i]);
        CHECK(at != NULL);
        from = at ? at + 1 : from;
    }
    CHECK(!strstr(out, "secret"));
    if (!system("command -v mandoc >/dev/null 2>&1")) {
        FILE *f = popen("mandoc -T lint -W warning >&2", "w");
        CHECK(f && fputs(out, f) >= 0 && pclose(f) == 0);
    }
    static char again[sizeof out];
    memcpy(again, out, sizeof out);
    generate(vp_docs_man);
    CHECK_STR(out, again);
}

static void completions(void)
{
    generate(vp_docs_bash);
    CHECK(strstr(out, "complete -F _ct_demo ct-demo\n") && strstr(out, "compgen -W 'auto always never'"));
    CHECK(!strstr(out, "secret") && !strstr(out, "--exits"));
    generate(vp_docs_zsh);
    CHECK(starts(out, "#compdef ct-demo\n") && strstr(out, "'[width; it'\\''s '\\''here'\\'']:MM: '"));
    generate(vp_docs_fish);
    CHECK(strstr(out, "complete -c ct-demo -l sigma -s s -x -d 'width; it\\'s \\'here\\''\n"));
    generate(vp_docs_examples);
    CHECK_STR(out, "# Do it.\nct-demo -s 2 in.tif |\n  ct-demo -o 'a b.tif'\n");
}

int main(void)
{
    pages();
    completions();
    return test_done();
}
