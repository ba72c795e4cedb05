/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line, one argument per line: parsed or rejected; parsed values are within the table's limits. */
#include "fuzz.h"
#include "base/opt.h"

#include <math.h>
#include <string.h>

struct params {
    bool flag;
    int64_t count;
    double real;
    struct vp_reals reals;
    const char *text, *file;
    struct vp_strings files;
    int choice;
    uint64_t bytes;
    struct vp_size size;
    struct vp_range range;
};

static const struct vp_opt table[] = {
    VP_FLAG(struct params, flag, "flag", 'f', .help = "a flag"),
    VP_INT(struct params, count, "count", 'n', .min = 1, .max = 10, .def = "3", .help = "a number"),
    VP_REAL(struct params, real, "real", 'x', .min = -10, .max = 10, .help = "a length"),
    VP_REALS(struct params, reals, "reals", 'l', .min = -1e9, .max = 100, .help = "numbers"),
    VP_STRING(struct params, text, "text", 't', .help = "a text"),
    VP_FILE(struct params, file, "geometry", 'g', .help = "a file"),
    VP_FILES(struct params, files, "flat", 0, .help = "files"),
    VP_CHOICE(struct params, choice, "window", 'w', "ram-lak|hann|cosine", .help = "a window"),
    VP_BYTES(struct params, bytes, "bytes", 'm', .min = 1, .max = INFINITY, .def = "1KiB", .help = "bytes"),
    VP_SIZE(struct params, size, "size", 's', .help = "a size"),
    VP_RANGE(struct params, range, "slab", 'r', .help = "a range"),
    VP_OPT_END
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { MOST = 64 };
    char *const text = fuzz_text(data, n), name[] = "fuzz";
    char *argv[MOST + 2] = {name};
    int argc = 1;
    struct params p = {0};
    struct vp_parsed parsed = {0};
    struct vp_err err = VP_ERR_INIT;

    for (char *at = text; at && argc <= MOST;) {
        argv[argc++] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    MUST(!vp_opt_defaults(table, &p, &err));
    if (vp_opt_parse(table, &p, argc, argv, &parsed, &err)) {
        fuzz_refused(&err);
        MUST(err.code == VP_EUSAGE);
    } else {
        MUST(p.count >= 1 && p.count <= 10 && p.real >= -10 && p.real <= 10 && p.bytes >= 1);
        MUST(p.choice >= 0 && p.choice < 3 && p.range.lo <= p.range.hi);
        MUST(p.reals.n >= 0 && p.reals.n <= 8 && p.size.n >= 0 && p.size.n <= 3);
        for (int i = 0; i < p.reals.n; i++)
            MUST(p.reals.v[i] >= -1e9 && p.reals.v[i] <= 100);
        for (int i = 0; i < p.size.n; i++)
            MUST(p.size.v[i] > 0);
        for (int i = 0; i < p.files.n; i++)
            MUST(p.files.v[i]);
        char *const history = vp_opt_history(&parsed, "fuzz");
        MUST(history && !strchr(history, '\n'));
        free(history);
        fuzz_accepted();
    }
    vp_parsed_free(&parsed);
    free(text);
    return 0;
}
