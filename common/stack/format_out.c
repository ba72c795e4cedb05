/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs of other formats than TIFF: which one a name stands for, and headers before the samples. */
#include "base/err.h"
#include "base/text.h"
#include "stack/outfile.h"
#include "stack/source.h"
#include "stack/writer.h"
#include <stdlib.h>
#include <string.h>

const char *vp_output_format(const char *path)
{
    const struct vp_format *const format = vp_format_of(path);
    return format ? format->name : NULL;
}

bool vp_output_in_order(const char *path)
{
    const struct vp_format *const format = vp_format_of(path);
    return format && !format->head;
}

int vp_format_lead(const struct vp_format *format, const struct vp_stack *s, struct vp_outfile *file, bool again,
                   uint64_t *lead, struct vp_err *err)
{
    size_t n = 0;
    FILE *const to = vp_text_open();
    int rc = to ? format->head(s, file->name, to, err) : -1;
    char *const head = to ? vp_text_close(to, &n) : NULL;
    if (!rc && head)
        rc = again ? vp_write_two(file->fd, 0, head, n, NULL, 0, file->name, err)
                   : vp_outfile_write(file, head, n, err);
    else if (!rc || !to)
        rc = vp_fail(err, VP_ERESOURCE, "%s: out of memory", file->name);
    free(head);
    *lead = n;
    return rc;
}
