/* SPDX-License-Identifier: BSD-3-Clause */
/* img-math: evaluates an expression over the samples of one or more stacks: differences, thresholds, masks, clipping,
 * gain and offset. */
#include "app/tool.h"
#include "local/math.h"
#include "app/image_run.h"
#include "stack/reader.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct params {
    const char *expression;
    int type;                 /* 0: chosen automatically, else enum vp_type + 1 */
    struct vp_size chunk;
};

static const struct vp_opt options[] = {
    VP_STRING(struct params, expression, "expression", 'e', .metavar = "EXPR", .group = "Expression",
              .help = "the expression; then all operands are inputs",
              .more = "Without it the first operand is the expression."),
    VP_CHOICE(struct params, type, "type", 't', "auto|u8|u16|u32|u64|i8|i16|i32|i64|f32|f64", .metavar = "TYPE",
              .def = "auto", .help = "sample type of the result",
              .more = "auto is the type of the inputs if it is a float, or if no sample can give a result that "
                      "is out "
                      "of its range or not a whole number; else f32. To integers values are rounded to the nearest "
                      "(halves to even) and clamped to the range of the type; NaN becomes 0. How many samples were "
                      "clamped is said once. Stacks that no type holds alike (64 bit integers and floats) need it, and "
                      "are then taken as f64."),
    VP_OPTIONS(struct params, chunk, vp_image_chunk),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The difference of two stacks.",
     "ct-phantom --volume 64x64x64 -o a.tif\nimg-math 'a * 0.9' a.tif -o b.tif\n"
     "img-math 'a - b' a.tif b.tif -o difference.tif"},
    {"Gain and offset, clipped to 8 bit.", "img-math 'clip(a * 5000, 0, 255)' --type u8 a.tif -o a8.tif"},
    {"A mask, and a stack with all else set to zero.",
     "img-math 'a > 0.01 and a < 0.03' --type u8 a.tif -o mask.tif\n"
     "img-math 'if(b, a, 0)' a.tif mask.tif -o masked.tif"},
    {"A factor for each page: a stack of 1 x 1 pages, made of a list of numbers.",
     "seq 0.9 0.01 1.53 | perl -ne 'print pack(\"f<\", $_)' >factors.raw\nimg-cat --raw-in 1x1:f32 factors.raw -o "
     "factors.tif\n"
     "img-math 'a / b' a.tif factors.tif -o even.tif"},
    {"NaN and infinite samples become 0.", "img-math 'if(isnan(a) or abs(a) == inf, 0, a)' a.tif -o clean.tif"},
    {0},
};

static const char sections[] =
    "EXPRESSIONS\n"
    "The inputs are called a, b, c, ... in order; with one input only a is there. x and y are the column and the row "
    "of a sample, z is its slice (0 where the pages stand alone) and page the number of its page, all counted "
    "from 0. "
    "pi, inf and nan are constants.\n\n"
    "Operators, those that bind most first: ^ or ** (power, to the right); - and + before a value; * / %; + -; < <= > "
    ">= == "
    "!=; not (or !); and (or &&); or (or ||). Comparisons give 1 or 0, and whatever is not 0 counts as true. The "
    "remainder % has the sign of the divisor, also where it is 0.\n\n"
    "Functions: min(a, b, ...), max(a, b, ...), abs, sqrt, exp, log (natural), log10, log2, pow(a, b), floor, ceil, "
    "round (halves to even), clip(value, low, high), if(condition, then, else), isnan. min, max and clip of "
    "NaN are NaN.\n\n"
    "An expression has at most 1024 operations, about 110 different numbers and parentheses about 50 deep; min and max "
    "take up to 16 values.\n\n"
    "Everything is computed in double precision, so 64 bit integers beyond 2^53 are rounded, except where the "
    "expression is just the name of a stack and the type stays: then samples are copied.";

/* Adds the first operand, quoted for a shell, to the history, which otherwise holds options only. */
static int add_to_history(struct vp_run *run, const char *expression, struct vp_err *err)
{
    const size_t n = strlen(expression);
    char *quoted = malloc(4 * n + 3), *p = quoted, *line = NULL;
    if (quoted) {
        *p++ = '\'';
        for (size_t i = 0; i < n; i++)
            p = expression[i] == '\'' ? stpcpy(p, "'\\''") : (*p = expression[i], p + 1);
        strcpy(p, "'");
        if (asprintf(&line, "%s %s", run->history, quoted) < 0)
            line = NULL;
    }
    free(quoted);
    if (!line)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    free(run->history);
    run->history = line;
    return 0;
}

static int img_math(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const struct vp_image_params image = {.chunk = p->chunk, .values = true, .any_types = p->type, .voxels = true};
    struct vp_images im = {0};
    struct vp_math *math = NULL;
    struct vp_parsed *given = &run->parsed;
    const char *expression = p->expression;

    if (!expression) {
        if (!given->n_operands)
            return vp_fail_hint(err, VP_EUSAGE, "as: img-math 'a * 2' stack.tif", "expected an expression");
        expression = given->operands[0] + strspn(given->operands[0], " ");
        given->n_operands--;
        memmove(given->operands, given->operands + 1, (size_t)given->n_operands * sizeof *given->operands);
        if (add_to_history(run, expression, err))
            return -1;
    }
    /* errors in the expression are reported before anything is opened */
    const int stacks = given->n_operands > 1 ? given->n_operands : 1;
    if (vp_math_parse(&math, expression, stacks < VP_MAX_INPUTS ? stacks : VP_MAX_INPUTS, VP_F32, err)) {
        if (!p->expression && !access(expression, F_OK))
            vp_hint(err, "the expression comes first: img-math 'a * 2' %s", expression);
        return -1;
    }
    vp_math_free(math);
    if (vp_images_open(&im, run, &image, VP_MAX_INPUTS, ~0u, err) ||
        vp_math_parse(&math, expression, im.n, im.type, err))
        return vp_images_end(&im, run, -1, NULL, err);
    vp_images_join(&im, &math->inner, &math->nz);
    const enum vp_type type = p->type ? (enum vp_type)(p->type - 1) : vp_math_type(math);
    const int rc = vp_math_add(&im.chain, math, im.size, im.n, type, err)
                   || vp_images_run(&im, run, &im.chain, &(struct vp_result){VP_NO_VALUES, ""}, err) ? -1 : 0;
    if (!rc && math->lost)
        vp_warn(run, "%lld samples do not fit %s: clamped, NaN to 0", (long long)math->lost, vp_type_name(type));
    vp_images_close(&im);
    return rc;
}

/* True if an argument with a dash is an expression: "-log(a)", "-(a + 1)", "-2*a". */
static bool is_negative(const char *arg)
{
    static const char *const functions[] = {"min", "max", "abs", "sqrt", "exp", "log", "log10", "log2", "pow", "floor",
                                            "ceil", "round", "clip", "if", "isnan"};
    const size_t n = strspn(arg + 1, "abcdefghijklmnopqrstuvwxyz0123456789");
    bool found = arg[1] == '(' || (arg[1] >= '0' && arg[1] <= '9') || arg[1] == '.';
    for (size_t i = 0; i < sizeof functions / sizeof *functions && arg[1 + n] == '('; i++)
        found = found || (strlen(functions[i]) == n && !memcmp(functions[i], arg + 1, n));
    return *arg == '-' && found;
}

/* Sets a blank before the dash of an expression, so that it begins no option; only the first argument of this form can
 * be the expression. */
static void take_negative(int argc, char **argv)
{
    static char *with_blank; /* lives as long as argv */
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (is_negative(argv[i]) && strcmp(argv[i - 1], "-e") && strcmp(argv[i - 1], "--expression")) {
            if (asprintf(&with_blank, " %s", argv[i]) > 0)
                argv[i] = with_blank;
            return;
        }
}

const struct vp_tool vp_program = {
    .name = "img-math",
    .operands = "EXPR [INPUT]...",
    .summary = "compute an expression over the samples of one or more stacks",
    .description =
        "Computes EXPR for every sample of the inputs, which are called a, b, c, ... in order: differences, sums, "
        "thresholds, masks, gain and offset.\n\n"
        "Each INPUT is a stack (at most 8): a file, a directory of pages or a list of files as @list; all have the "
        "same size. A stack of one page goes with every page of the others. A page of one row goes with every row, of "
        "one column with every column, of one sample with every sample: a factor for each view is a stack of 1 x 1 "
        "pages. Without INPUT standard input is a. Metadata are those of the first stack of full size with more than "
        "one page, but for `quantity`, `value-unit` and `scale`, which an expression may change: they are left out. "
        "Where a scale is recorded, names stand for the values, not for the samples as they are stored.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "img-convert(1), img-cmp(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .arguments = take_negative,
    .run = img_math,
};
