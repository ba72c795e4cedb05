/* SPDX-License-Identifier: BSD-3-Clause */
/* The option layer: every type, every way to get it wrong, suggestions, embedded tables, history. */
#include "../../docs/docs.h"
#include "base/opt.h"
#include "base/err.h"
#include "test.h"

#include <float.h>
#include <stdarg.h>
#include <stdlib.h>

struct inner {
    double guard;              /* not an option: must stay untouched */
    double sigma;
    int window;
};

struct params {
    bool flag, other;
    int64_t count, whole;
    double shift;
    struct vp_reals list;
    const char *text, *file, *outfile;
    struct vp_strings flat, dark;
    uint64_t bytes;
    struct vp_size size;
    struct vp_range range;
    struct inner inner[2];
};

static const struct vp_opt deep[] = {
    VP_REAL(struct inner, sigma, "sigma", 's', .min = 0.5, .max = 100, .def = "2", .help = "width"),
    VP_CHOICE(struct inner, window, "window", 'w', "ram-lak|shepp-logan|hann", .def = "hann",
              .help = "window"),
    VP_OPT_END
};

static const struct vp_opt table[] = {
    VP_FLAG(struct params, flag, "flag", 'f', .help = "a flag"),
    VP_FLAG(struct params, other, "other-flag", 'o', .help = "another"),
    VP_INT(struct params, count, "count", 'n', .min = 1, .max = 10, .def = "3", .help = "a number"),
    VP_INT(struct params, whole, "whole", 0, .help = "any number"),
    VP_REAL(struct params, shift, "shift", 'x', .def = "-1.5", .help = "a length"),
    VP_REALS(struct params, list, "list", 'l', .min = -1e9, .max = 100, .help = "numbers"),
    VP_STRING(struct params, text, "text", 't', .help = "a text"),
    VP_FILE(struct params, file, "geometry", 'g', .help = "a file"),
    VP_OUTFILE(struct params, outfile, "report", 'r', .help = "an output"),
    VP_FILES(struct params, flat, "flat", 0, .help = "files"),
    VP_FILES(struct params, dark, "dark", 0, .help = "files"),
    VP_BYTES(struct params, bytes, "bytes", 'm', .min = 1, .max = INFINITY, .def = "1KiB", .help = "bytes"),
    VP_SIZE(struct params, size, "size", 0, .help = "a size"),
    VP_RANGE(struct params, range, "slab", 0, .help = "a range"),
    VP_OPTIONS(struct params, inner[1], deep),
    VP_OPT_END
};

static struct params p;
static struct vp_parsed parsed;
static struct vp_err err;

static int parse(const char *first, ...)
{
    char *argv[32] = {(char *)(uintptr_t)"prog"};
    int argc = 1;
    va_list ap;
    va_start(ap, first);
    for (const char *a = first; a && argc < 31; a = va_arg(ap, const char *))
        argv[argc++] = (char *)(uintptr_t)a;
    va_end(ap);
    vp_parsed_free(&parsed);
    err = (struct vp_err)VP_ERR_INIT;
    memset(&p, 0xee, sizeof p);
    p.inner[1].guard = 42;
    if (vp_opt_defaults(table, &p, &err))
        return -2;
    return vp_opt_parse(table, &p, argc, argv, &parsed, &err);
}

#define GOOD(...) CHECK_INT(parse(__VA_ARGS__, (char *)NULL), 0)
#define BAD(message, ...) do { CHECK_INT(parse(__VA_ARGS__, (char *)NULL), -1); \
    CHECK_INT(err.code, VP_EUSAGE); CHECK_STR(err.msg, message); } while (0)

static void defaults(void)
{
    CHECK_INT(parse(NULL), 0);
    CHECK(!p.flag && !p.other);
    CHECK_INT(p.count, 3);
    CHECK_INT(p.whole, 0);
    CHECK_NEAR(p.shift, -1.5, 0);
    CHECK_INT(p.list.n, 0);
    CHECK(!p.text && !p.file && !p.outfile);
    CHECK(p.flat.n == 0 && !p.flat.v);
    CHECK_INT(p.bytes, 1024);
    CHECK_INT(p.size.n, 0);
    CHECK(!p.range.given);
    CHECK_NEAR(p.inner[1].sigma, 2, 0);
    CHECK_INT(p.inner[1].window, 2);
    CHECK_NEAR(p.inner[1].guard, 42, 0);
    CHECK_INT(parsed.n_uses, 0);
    CHECK_INT(parsed.n_operands, 0);
}

static void forms(void)
{
    GOOD("--flag", "--count=4", "--shift", "-2", "a", "-n5", "b", "-n", "6");
    CHECK(p.flag && !p.other);
    CHECK_INT(p.count, 6);                      /* the last one wins */
    CHECK_NEAR(p.shift, -2, 0);
    CHECK_INT(parsed.n_operands, 2);
    CHECK_STR(parsed.operands[0], "a");
    CHECK_STR(parsed.operands[1], "b");
    CHECK_INT(parsed.n_uses, 5);
    CHECK_STR(parsed.uses[0].row->name, "flag");
    CHECK_STR(parsed.uses[1].row->name, "count");
    CHECK_STR(parsed.uses[2].row->name, "shift");
    CHECK_STR(parsed.uses[3].value, "5");
    CHECK_STR(parsed.uses[4].value, "6");
    CHECK(vp_opt_given(&parsed, "count") && !vp_opt_given(&parsed, "whole"));

    GOOD("-fon7", "--", "-f", "--nonsense", "--");
    CHECK(p.flag && p.other);
    CHECK_INT(p.count, 7);
    CHECK_INT(parsed.n_operands, 3);
    CHECK_STR(parsed.operands[2], "--");

    GOOD("-", "./-", "");                       /* a single dash is an operand */
    CHECK_INT(parsed.n_operands, 3);
    CHECK_STR(parsed.operands[0], "-");

    GOOD("--text", "--flag", "-g", "-");        /* what follows is always the value */
    CHECK_STR(p.text, "--flag");
    CHECK_STR(p.file, "-");
    CHECK(!p.flag);
    GOOD("--text=");
    CHECK_STR(p.text, "");
    GOOD("--text=a=b");
    CHECK_STR(p.text, "a=b");
    GOOD("-x-24");
    CHECK_NEAR(p.shift, -24, 0);
    GOOD("--shift=-24", "--sigma", "7");
    CHECK_NEAR(p.shift, -24, 0);
    CHECK_NEAR(p.inner[1].sigma, 7, 0);
    CHECK_NEAR(p.inner[1].guard, 42, 0);
}

static void values(void)
{
    GOOD("--whole", "-9223372036854775808");
    CHECK(p.whole == INT64_MIN);
    GOOD("--whole", "+12");
    CHECK_INT(p.whole, 12);
    BAD("--whole: '9223372036854775808' is not a whole number", "--whole", "9223372036854775808");
    BAD("--whole: '1.5' is not a whole number", "--whole", "1.5");
    BAD("--whole: '' is not a whole number", "--whole", "");
    BAD("--whole: ' 1' is not a whole number", "--whole", " 1");
    BAD("--whole: '0x10' is not a whole number", "--whole", "0x10");
    BAD("--count: expected 1 to 10, got 0", "--count", "0");
    BAD("--count: expected 1 to 10, got 11", "-n11");

    GOOD("--shift", "1e-3");
    CHECK_NEAR(p.shift, 1e-3, 0);
    GOOD("--shift", ".5");
    CHECK_NEAR(p.shift, 0.5, 0);
    BAD("--shift: '3px' is not a number", "--shift", "3px");
    BAD("--shift: 'nan' is not a number", "--shift", "nan");
    BAD("--shift: 'inf' is not a number", "--shift", "inf");
    BAD("--shift: '1e999' is not a number", "--shift", "1e999");
    BAD("--shift: '0x1p3' is not a number", "--shift", "0x1p3");
    BAD("--shift: '1,5' is not a number", "--shift", "1,5");
    BAD("--shift: '--' is not a number", "--shift", "--");
    BAD("--sigma: expected 0.5 to 100, got 0.4", "-s0.4");
    GOOD("--sigma", "0.5");
    GOOD("--sigma", "100");

    GOOD("--list", "1,2.5,-3");
    CHECK_INT(p.list.n, 3);
    CHECK_NEAR(p.list.v[1], 2.5, 0);
    CHECK_NEAR(p.list.v[2], -3, 0);
    GOOD("-l8,7,6,5,4,3,2,1");
    CHECK_INT(p.list.n, 8);
#define EIGHT "8,7,6,5,4,3,2,1"
#define MANY EIGHT "," EIGHT "," EIGHT "," EIGHT
    GOOD("-l" MANY);
    CHECK_INT(p.list.n, VP_REALS_MAX);
    BAD("--list: '" MANY ",9': expected at most 32 numbers", "-l" MANY ",9");
    BAD("--list: '1,,2' is not a list of numbers separated by commas", "--list", "1,,2");
    BAD("--list: '1,' is not a list of numbers separated by commas", "--list", "1,");
    BAD("--list: '' is not a list of numbers separated by commas", "--list", "");
    BAD("--list: expected -1000000000 to 100, got 1,101", "--list", "1,101");

    GOOD("--window", "ram-lak");
    CHECK_INT(p.inner[1].window, 0);
    GOOD("-wshepp-logan");
    CHECK_INT(p.inner[1].window, 1);
    BAD("--window: 'hamm' is not one of ram-lak, shepp-logan, hann; did you mean hann?", "--window", "hamm");
    BAD("--window: 'xyz' is not one of ram-lak, shepp-logan, hann", "--window", "xyz");
    BAD("--window: '' is not one of ram-lak, shepp-logan, hann", "--window=");
    BAD("--window: 'ram-lak|shepp-logan' is not one of ram-lak, shepp-logan, hann",
        "--window", "ram-lak|shepp-logan");

    GOOD("--bytes", "1.5MiB");
    CHECK_INT(p.bytes, 1572864);
    BAD("--bytes: '3px' is not a number of bytes: expected as in 800M or 1.5GiB", "--bytes", "3px");
    BAD("--bytes: expected at least 1, got 0", "--bytes", "0");

    GOOD("--size", "256x128x64");
    CHECK_INT(p.size.n, 3);
    CHECK_INT(p.size.v[2], 64);
    GOOD("--size=512");
    CHECK_INT(p.size.n, 1);
    CHECK_INT(p.size.v[0], 512);
    GOOD("--size", "5000000000x2");
    CHECK_INT(p.size.v[0], 5000000000);
    const char *const sizes[] = {"", "x", "256x", "x256", "0x3", "-1x3", "1x2x3x4", "2.5x3", "256X3",
                                 "99999999999999999999"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_INT(parse("--size", sizes[i], (char *)NULL), -1);
        CHECK(strstr(err.msg, "is not a size"));
    }

    GOOD("--slab", "3:9");
    CHECK(p.range.given && p.range.lo == 3 && p.range.hi == 9);
    GOOD("--slab", ":9");
    CHECK(p.range.lo == 0 && p.range.hi == 9);
    GOOD("--slab", "3:");
    CHECK(p.range.lo == 3 && p.range.hi == INT64_MAX);
    GOOD("--slab", "7");
    CHECK(p.range.lo == 7 && p.range.hi == 8);
    GOOD("--slab", "0");
    CHECK(p.range.lo == 0 && p.range.hi == 1);
    BAD("--slab: '5:5' is empty: expected the end above the first", "--slab", "5:5");
    BAD("--slab: '5:3' is empty: expected the end above the first", "--slab", "5:3");
    BAD("--slab: ':0' is empty: expected the end above the first", "--slab", ":0");
    const char *const ranges[] = {"", "a", "1:b", "-1:3", "1:2:3", "1.5:2", "9223372036854775807"};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        CHECK_INT(parse("--slab", ranges[i], (char *)NULL), -1);
        CHECK(strstr(err.msg, "is not a range"));
    }

    GOOD("--flat", "a", "--dark=d", "--flat", "b", "--flat", "@list");
    CHECK_INT(p.flat.n, 3);
    CHECK_STR(p.flat.v[0], "a");
    CHECK_STR(p.flat.v[1], "b");
    CHECK_STR(p.flat.v[2], "@list");
    CHECK_INT(p.dark.n, 1);
    CHECK_STR(p.dark.v[0], "d");
    CHECK_INT(parsed.n_uses, 4);
    BAD("--flat: the file name is empty", "--flat", "a", "--flat=");
    BAD("--geometry: the file name is empty", "-g", "");
}

static void misuse(void)
{
    BAD("unknown option --sgima; did you mean --sigma?", "--sgima", "3");
    BAD("unknown option --sgima; did you mean --sigma?", "--sgima=3");
    BAD("unknown option --geom; did you mean --geometry?", "--geom", "x");  /* exact names only */
    BAD("unknown option --otherflag; did you mean --other-flag?", "--otherflag");
    BAD("unknown option --utterly-different", "--utterly-different");
    BAD("unknown option --Flag; did you mean --flag?", "--Flag");
    BAD("unknown option -Z", "-Z");
    BAD("unknown option -q", "-fq");
    BAD("unknown option -count; did you mean --count?", "-count");
    BAD("--flag: takes no value, got '1'", "--flag=1");
    BAD("--count: a value is missing", "--count");
    BAD("-n (--count): a value is missing", "-fn");
    BAD("--sigma: 'igma' is not a number", "-sigma", "3");
    CHECK_STR(err.hint, "did you mean --sigma?");
    CHECK_INT(parse("--=3", (char *)NULL), -1);
    CHECK_INT(parse("---", (char *)NULL), -1);
    /* what was parsed before the mistake is gone */
    CHECK_INT(parse("--flat", "a", "b", "--nonsense", (char *)NULL), -1);
    CHECK(!parsed.operands && !parsed.uses && !p.flat.v);
}

static void setting(void)
{
    struct inner in = {0};
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_opt_set_from("--sigma", &deep[0], &in, "12", &err), 0);
    CHECK_NEAR(in.sigma, 12, 0);
    CHECK_INT(vp_opt_set_from("--sigma", &deep[0], &in, "x", &err), -1);
    CHECK_STR(err.msg, "--sigma: 'x' is not a number");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_opt_set_from("scan.geom: line 3: sigma", &deep[0], &in, "1000", &err), -1);
    CHECK_STR(err.msg, "scan.geom: line 3: sigma: expected 0.5 to 100, got 1000");
    CHECK_NEAR(in.sigma, 12, 0);                /* a refused value changes nothing */
}

static void check_history(const char *want)
{
    char *got = vp_opt_history(&parsed, "prog");
    CHECK_STR(got, want);
    free(got);
}

static void history(void)
{
    CHECK_INT(parse(NULL), 0);
    check_history("prog");
    GOOD("-w", "hann", "in.tif", "--report", "out", "-fs3", "-s", "4", "-g", "/a/b/scan.geom");
    check_history("prog --window hann --flag --sigma 4 --geometry scan.geom");
    GOOD("--flat", "d/a b.tif", "--shift=-24", "--flat", "dir/", "--text", "it's", "--dark", "/");
    check_history("prog --flat 'a b.tif' --flat dir/ --shift -24 --text 'it'\\''s' --dark /");
    GOOD("--text", "two\nlines");
    check_history("prog --text 'two?lines'");
    GOOD("--text=");
    check_history("prog --text ''");
}

static int count_rows(void *ctx, const struct vp_opt *row, size_t offset)
{
    int *n = ctx;
    (*n)++;
    if (!strcmp(row->name, "sigma"))
        CHECK_INT(offset, 100 + offsetof(struct params, inner) + sizeof(struct inner)
                          + offsetof(struct inner, sigma));
    return !strcmp(row->name, "window") ? 7 : 0;
}

static void tables(void)
{
    int n = 0;
    CHECK_INT(vp_opt_each(table, 100, count_rows, &n), 7);
    CHECK_INT(n, 16);
    CHECK(vp_docs_check(table, &p) == NULL);
    const struct vp_opt ellipsis[] = {VP_FLAG(struct params, flag, "a", 0, .help = "x, ..."), VP_OPT_END};
    CHECK(vp_docs_check(ellipsis, &p) == NULL);

    const struct { struct vp_opt rows[3]; const char *want; } wrong[] = {
        {{table[0], table[0]}, "--flag: appears twice"},
        {{VP_FLAG(struct params, flag, "a", 'x', .help = "h"),
          VP_FLAG(struct params, other, "b", 'x', .help = "h")},
         "--b: its letter belongs to another option as well"},
        {{VP_FLAG(struct params, flag, "a", 0)}, "--a: has no help"},
        {{VP_FLAG(struct params, flag, "a", 0, .help = "Ends.")},
         "--a: the help is not one line without a full stop"},
        {{VP_FLAG(struct params, flag, NULL, 0, .help = "h")}, "--(no name): has no name"},
        {{VP_FLAG(struct params, flag, "A_b", 0, .help = "h")},
         "--A_b: the name is not of lower case letters, digits and dashes"},
        {{VP_INT(struct params, count, "a", 0, .help = "h", .def = "11", .min = 1, .max = 10)},
         "--a: default of --a: expected 1 to 10, got 11"},
        {{VP_INT(struct params, count, "a", 0, .help = "h", .min = 3, .max = 1)},
         "--a: the least value is above the largest"},
        {{VP_CHOICE(struct inner, window, "a", 0, NULL, .help = "h")}, "--a: has no choices"},
        {{VP_CHOICE(struct inner, window, "a", 0, "x|y", .help = "h", .def = "z")},
         "--a: default of --a: 'z' is not one of x, y"},
        {{VP_OPTIONS(struct params, inner[0], deep), VP_OPTIONS(struct params, inner[1], deep)},
         "--sigma: appears twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STR(vp_docs_check(wrong[i].rows, &p), wrong[i].want);
}

int main(void)
{
    defaults();
    forms();
    values();
    misuse();
    setting();
    history();
    tables();
    vp_parsed_free(&parsed);
    return test_done();
}
