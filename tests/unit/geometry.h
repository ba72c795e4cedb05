/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a geometry from a text, as programs make one from a file (geom/file.c). */
#pragma once

#include "geom/draft.h"
#include "base/err.h"
#include <stdlib.h>
#include <string.h>

/* `name` is the prefix of messages ("scan.geom: line 7: ..."). */
static inline int parse_geometry(struct vp_geom *g, const char *text, size_t len, const char *name, struct vp_err *err)
{
    struct vp_draft d = {0};
    char *copy = malloc(len + 1);
    if (!copy)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    memcpy(copy, text, len);
    copy[len] = 0;
    const int status = vp_draft_text(&d, copy, len, name, err) || vp_draft_finish(&d, g, name, err) ? -1 : 0;
    free(copy);
    vp_draft_free(&d);
    return status;
}
