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
              .help = "the expression; all operands are then inputs",
              .more = "Without this option the first operand is the expression."),
    VP_CHOICE(struct params, type, "type", 't', "auto|u8|u16|u32|u64|i8|i16|i32|i64|f32|f64", .metavar = "TYPE",
              .def = "auto",
              .help = "sample type of the result",
              .more = "auto is the type of the inputs if it is a float, or if every result is a whole number within "
                      "its range; otherwise f32.\n\n"
                      "In an integer type, values are rounded to the nearest integer (halves to even) and clamped to "
                      "the range of the type, and NaN becomes 0. A message reports the number of clamped samples. If "
                      "the inputs have types that no single type can hold (64-bit integers and floats), --type must "
                      "be given, and they are converted to f64."),
    VP_OPTIONS(struct params, chunk, vp_image_chunk),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The difference of two stacks.",
     "ct-phantom --volume 64x64x64 -o a.tif\nimg-math 'a * 0.9' a.tif -o b.tif\n"
     "img-math 'a - b' a.tif b.tif -o difference.tif"},
    {"Gain and offset, clipped to 8 bits.", "img-math 'clip(a * 5000, 0, 255)' --type u8 a.tif -o a8.tif"},
    {"A mask, and a stack that is zero outside the mask.",
     "img-math 'a > 0.01 and a < 0.03' --type u8 a.tif -o mask.tif\n"
     "img-math 'if(b, a, 0)' a.tif mask.tif -o masked.tif"},
    {"A factor for each page: a stack of 1 x 1 pages, made from a list of numbers.",
     "seq 0.9 0.01 1.53 | perl -ne 'print pack(\"f<\", $_)' >factors.raw\nimg-cat --raw-in 1x1:f32 factors.raw -o "
     "factors.tif\n"
     "img-math 'a / b' a.tif factors.tif -o even.tif"},
    {"Replace NaN and infinite samples by 0.", "img-math 'if(isnan(a) or abs(a) == inf, 0, a)' a.tif -o clean.tif"},
    {0},
};

static const char sections[] =
    "EXPRESSIONS\n"
    "The inputs are called a, b, c, ... in order; with one input, only a exists. Other names, all counted from 0, "
    "and constants:\n\n"
    "- x and y: column and row of the sample\n"
    "- z: its slice, or 0 if pages are single images\n"
    "- page: number of its page\n"
    "- pi, inf and nan\n\n"
    "Operators, those that bind most first:\n\n"
    "- ^ or ** (power, from right to left)\n"
    "- - and + in front of a value\n"
    "- * / %\n"
    "- + -\n"
    "- < <= > >= == !=\n"
    "- not (or !)\n"
    "- and (or &&)\n"
    "- or (or ||)\n\n"
    "Comparisons give 1 or 0; any value except 0 is true. The remainder % has the sign of the divisor, even if it is "
    "0.\n\n"
    "Functions:\n\n"
    "- min(a, b, ...), max(a, b, ...), clip(value, low, high): NaN if an argument is NaN\n"
    "- if(condition, then, else), isnan(a)\n"
    "- abs, sqrt, exp, log (natural), log10, log2, pow(a, b)\n"
    "- floor, ceil, round (halves to even)\n\n"
    "Limits: 1024 operations, about 110 different numbers, about 50 nested parentheses, 16 arguments of min and max.\n\n"
    "Calculation is in double precision, so 64-bit integers beyond 2^53 are rounded. If the expression is only the "
    "name of a stack and the type stays the same, samples are copied.";

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
    if (!rc && math->lost && !vp_type_is_float(type))
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
        "Reads one or more stacks and writes one stack, whose samples are the value of an expression. The inputs are "
        "named a, b, c, ... in order; there may be up to 8. Use it for differences, sums, masks, gain and offset.\n\n"
        "All inputs must have the same size, with these exceptions:\n\n"
        "- A stack of one page is used with every page of the others.\n"
        "- A page of one row is used for every row, a page of one column for every column, and a page of one sample "
        "for every sample. A factor for each view is therefore a stack of 1 x 1 pages.\n\n"
        "Without INPUT, standard input is a. If the metadata record a scale, a name stands for the value, not for "
        "the stored sample. The output has the metadata of the first stack of full size with more than one page, "
        "without `quantity`, `value-unit` and `scale`, because the expression may change their meaning.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "img-convert(1), img-cmp(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .arguments = take_negative,
    .run = img_math,
};
