/* A rank: the beginning, the files and the end (ranked.c), the grid (ranked_grid.c). */
#pragma once

#include "ct/ranked_work.h"
#include "device/ranks.h"
#include "app/ranked.h"
#include "app/session.h"
#include "app/tool.h"

struct vp_ranked {
    const struct vp_ranked_params *params;
    struct vp_ranks *ranks; /* NULL: only the plan for `size` */
    int rank, size, hosts;
    struct vp_model model;
    struct vp_mesh_problem problem;
    struct vp_reconstruct whole; /* the whole job; the session's job is this rank's part */
    struct vp_mesh mesh;
    struct vp_mesh_times times;
    int row, column;
    int64_t (*rows)[2];          /* detector rows that the ranks of this column need */
    struct vp_sharing sharing;
    struct vp_adding adding;
    struct vp_normalize_report repaired;
    struct vp_volume out;        /* slices that are added up and written */
    struct vp_writer *writer;
    char *path; /* path of its file; NULL: the output */
    bool leads; /* this rank opened it */
    int expected; /* slot of the temporary file of the output (ct/share.h), or -1 */
};

/* Agrees as vp_ranks_agree() does; for a plan of ranks that do not exist alone. */
int vp_ranked_agree(struct vp_ranked *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err);
/* Gathers a record of each rank, malloc'd. NULL: it failed. */
void *vp_ranked_gather(struct vp_ranked *r, int rc, const void *mine, size_t size, const char *what,
                       struct vp_err *err);
int vp_ranked_no_file(const char *name, struct vp_err *err);

/* Sets the problem of all ranks; then chooses the grid, and this rank's plan on it; and shows both, with the expected
 * times, for --plan. */
int vp_ranked_problem(struct vp_ranked *r, struct vp_session *s, const struct vp_run *run, struct vp_err *err);
int vp_ranked_choose(struct vp_ranked *r, struct vp_session *s, struct vp_err *err);
void vp_ranked_show(const struct vp_ranked *r, struct vp_run *run);

/* True if the path keeps nothing: /dev/null. */
bool vp_ranked_discards(const char *path);
