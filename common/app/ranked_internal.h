/* Internal to ranked*.c: start, files and end (ranked.c), the grid (ranked_grid.c). */
#ifndef VP_RANKED_INTERNAL_H
#define VP_RANKED_INTERNAL_H

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
    int64_t (*rows)[2];          /* rows that each rank of this column processes */
    struct vp_sharing sharing;
    struct vp_adding adding;
    struct vp_normalize_report repaired;
    struct vp_volume out;        /* slices that are added up and written */
    struct vp_writer *writer;
    char *path; /* name of its file; NULL: the output */
    bool leads; /* this rank has opened it */
};

/* Calls vp_ranks_agree(); in a plan for ranks that do not exist, returns alone. */
int vp_ranked_agree(struct vp_ranked *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err);
/* Gathers like vp_ranked_agree() into malloc'd memory; NULL on failure. */
void *vp_ranked_gather(struct vp_ranked *r, int rc, const void *mine, size_t size, const char *what,
                       struct vp_err *err);
int vp_ranked_no_file(const char *name, struct vp_err *err);

/* Set the job of all ranks; then the grid, and this rank's plan on it; then the estimates for --plan. */
int vp_ranked_problem(struct vp_ranked *r, struct vp_session *s, const struct vp_run *run, struct vp_err *err);
int vp_ranked_choose(struct vp_ranked *r, struct vp_session *s, struct vp_err *err);
void vp_ranked_show(const struct vp_ranked *r, struct vp_run *run);

/* True if the path is a sink such as /dev/null. */
bool vp_ranked_discards(const char *path);

#endif
