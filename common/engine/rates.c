/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/rates.h"
#include "base/err.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define VALUE(name, value, unit, what, where) .name = value,
struct vp_rates vp_rates = {VP_RATES(VALUE)};

static int take_line(void *to, const char *path, int64_t number, char *line, struct vp_err *err)
{
    struct vp_rates *const rates = to;
    char key[64];
    double value;
    const int found = vp_text_number(line, key, &value);
    if (!found)
        return 0;
    /* within these limits sums stay finite */
    if (found < 0 || value < 1e-30 || value > 1e30)
        return vp_fail(err, VP_EUSAGE, "%s:%lld: expected `name = number`, a number from 1e-30 to 1e30", path,
                       (long long)number);
#define TAKE(name, first, unit, what, where) \
    if (!strcmp(key, #name)) \
        rates->name = value;
    VP_RATES(TAKE)
    return 0;
}

int vp_rates_read(const char *path, struct vp_err *err)
{
    struct vp_rates rates = vp_rates;
    if (!strcmp(path, "-"))
        return vp_fail(err, VP_EUSAGE, "expected the name of a file, got standard input, which is that of samples");
    if (vp_text_lines(path, take_line, &rates, err))
        return -1;
    vp_rates = rates;
    return 0;
}
