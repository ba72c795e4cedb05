/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that ranks write side by side, or one of each slab. */
#include "tool/ranked_internal.h"

#include "base/size.h"
#include "stack/outfile.h"
#include "tool/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool vp_ranked_discards(const char *path)
{
    struct stat st, null;
    return path && !stat(path, &st) && !stat("/dev/null", &null) && S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev;
}

/* A name for the file of a row. */
static char *slab_path(const char *path, int row)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char *out = NULL;
    const int stem = (int)(dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path));
    return asprintf(&out, "%.*s-%d%s", stem, path, row, path + stem) < 0 ? NULL : out;
}

static int check_output(const struct vp_run *run, struct vp_err *err)
{
    const char *path = run->common.output;
    if (!path || !strcmp(path, "-"))
        return vp_fail_hint(err, VP_EUSAGE, "use -o FILE, in a folder that all hosts share",
                            "ranks write the volume side by side, into a file");
    if (run->common.compress)
        return vp_fail(err, VP_EUSAGE,
                       "--compress: ranks write the pages in any order, which a compressed file cannot take");
    if (!vp_output_any_order(run) && !vp_ranked_discards(path))
        return vp_fail(err, VP_EUSAGE, "%s: ranks write a regular file", path);
    return 0;
}

int vp_ranked_open_outputs(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    enum { LONGEST = 4096 };
    const bool apart = r->params->slab_files;
    const int leader = apart ? r->row : 0;
    struct vp_writer_options o = {.raw = run->common.raw_out};
    char name[LONGEST] = "", (*all)[LONGEST];
    struct vp_stack out = {0};

    if (vp_ranked_agree(r, check_output(run, err), NULL, 0, NULL, err))
        return -1;
    if (vp_ranked_discards(run->common.output))
        return 0;
    r->leads = r->rank == leader;
    r->path = apart ? slab_path(run->common.output, r->row) : strdup(run->common.output);
    const struct vp_reconstruct *of = apart ? &s->job : &r->whole;
    int rc = !r->path || vp_session_header(s, run, of->z0, of->z1, &out, err) ? -1 : 0;
    o.shared = !apart || r->mesh.columns > 1;
    if (!rc && r->leads && !(rc = vp_writer_open(&r->writer, r->path, &out, &o, err))) {
        const char *temporary = vp_writer_temporary(r->writer);
        if (!temporary)
            rc = vp_fail(err, VP_ERUN, "%s: ranks write a regular file", r->path);
        else
            snprintf(name, sizeof name, "%s", temporary);
    }
    all = vp_ranked_gather(r, rc, name, sizeof name, "the names of files", err);
    o.temporary = all ? all[leader] : NULL;
    rc = !all || (!r->leads && vp_writer_open(&r->writer, r->path, &out, &o, err)) ? -1 : 0;
    vp_stack_free(&out);
    free(all);
    return vp_ranked_agree(r, rc, NULL, 0, NULL, err);
}

int vp_ranked_close_outputs(struct vp_ranked *r, int rc, struct vp_err *err)
{
    int64_t mine = r->writer ? vp_writer_rows_put(r->writer) : 0, others = 0, *all;
    struct vp_writer *w = r->writer;
    if (!rc && w && !r->leads) {
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    all = vp_ranked_gather(r, rc, &mine, sizeof mine, "the rows of ranks", err);
    rc = all ? 0 : -1;
    for (int i = 0; i < r->size && !rc; i++)
        others += i != r->rank && (!r->params->slab_files || i % r->mesh.rows == r->row) ? all[i] : 0;
    free(all);
    if (!rc && r->writer) {
        vp_writer_others(r->writer, others);
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    rc = vp_ranked_agree(r, rc, NULL, 0, NULL, err);
    if (rc)
        vp_writer_abort(r->writer);
    r->writer = NULL;
    return rc;
}
