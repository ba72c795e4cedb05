/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/checkpoint.h"

#include "app/tool.h"
#include "app/volumes.h"
#include "base/err.h"
#include "base/spill.h"
#include "device/ranks.h"
#include "stack/outfile.h"
#include "stack/reader.h"
#include "stack/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "1"

static int no_memory(struct vp_err *err)
{
    return vp_fail(err, VP_ERESOURCE, "out of memory: the checkpoint");
}

static bool may_change(const char *option)
{
    static const char *const names[] = {"iterations", "stop", "every", "resume"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(option, names[i]))
            return true;
    return false;
}

/* Returns the last use of each option that decides on the result, but for those that may change; NULL after the end. */
static const struct vp_use *option_at(const struct vp_run *run, int *i)
{
    for (; *i < run->parsed.n_uses; ++*i) {
        const struct vp_use *const use = &run->parsed.uses[*i];
        bool last = use->row->history && !may_change(use->row->name);
        for (int later = *i + 1; later < run->parsed.n_uses && last; later++)
            last = use->row != run->parsed.uses[later].row;
        if (last) {
            ++*i;
            return use;
        }
    }
    return NULL;
}

int vp_checkpoint_save(const struct vp_checkpoint *c, const char *path, const struct vp_iterate_state *state,
                       struct vp_err *err)
{
    const int64_t *n = c->grid->n;
    struct vp_stack stack = {.nx = n[0], .ny = n[1], .pages = n[2] * state->volumes, .type = VP_F32};
    struct vp_writer *writer = NULL;
    struct vp_meta *const m = &stack.meta;
    int rc = vp_meta_set(m, "axes", "x y page") || vp_meta_set(m, "checkpoint.version", VERSION)
          || vp_meta_set(m, "checkpoint.method", vp_iterate_name(c->method))
          || vp_meta_setf(m, "checkpoint.iteration", "%lld", (long long)state->iteration) ? no_memory(err) : 0;
    for (int i = 0; i < state->scalars && !rc; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.17g", state->scalar[i]);
        rc = vp_meta_add(m, "checkpoint.number", text) ? no_memory(err) : 0;
    }
    const bool leads = c->share.rank == 0;
    const struct vp_use *use;
    for (int i = 0; !rc && (use = option_at(c->run, &i));) {
        char text[4200];
        snprintf(text, sizeof text, "%s %s", use->row->name, use->value ? use->value : "");
        rc = vp_meta_add(m, "checkpoint.option", text[strlen(text) - 1] == ' ' ? use->row->name : text) ? no_memory(err) : 0;
    }
    int slot = -1;
    if (c->share.ranks)
        rc = vp_ranks_agree(c->share.ranks, rc, NULL, 0, NULL, err) || vp_share_expect(&c->share, path, &slot, err) ? -1 : 0;
    rc = rc || (leads && vp_writer_open(&writer, path, &stack, &(struct vp_writer_options){0}, err)) ? -1 : 0;
    if (c->share.ranks)
        rc = vp_ranks_agree(c->share.ranks, rc, NULL, 0, NULL, err);
    bool bad = false;
    for (int i = 0; i < state->volumes && !rc; i++) { /* to the end, even if it cannot be written: other ranks send it */
        const uint64_t page = (uint64_t)(n[0] * n[1]) * sizeof(float);
        bad = vp_share_write(&c->share, bad ? NULL : writer, state->volume[i], n[2], c->unit, page, 0, n[2],
                             (int)c->run->common.threads, err) || bad;
    }
    if (rc || bad)
        vp_writer_abort(writer);
    rc = rc || bad ? -1 : leads ? vp_writer_close(writer, err) : 0;
    if (c->share.ranks)
        rc = vp_ranks_agree(c->share.ranks, rc, NULL, 0, NULL, err);
    vp_outfile_arrived(slot);
    vp_stack_free(&stack);
    return rc;
}

/* Rejects options that the stored run did not have, or had with another value. */
static int compare_options(const struct vp_checkpoint *c, const struct vp_meta *m, const char *path, struct vp_err *err)
{
    const struct vp_use *use;
    int stored = 0, given = 0;
    for (int i = 0; (use = option_at(c->run, &i)); given++) {
        const size_t length = strlen(use->row->name);
        const char *other = NULL;
        for (int k = 0; k < m->n && !other; k++)
            if (!strcmp(m->key[k], "checkpoint.option") && !strncmp(m->value[k], use->row->name, length)
                && (m->value[k][length] == ' ' || m->value[k][length] == '\0'))
                other = m->value[k] + length + (m->value[k][length] == ' ');
        if (!other)
            return vp_fail(err, VP_EUSAGE, "--resume %s: the checkpoint was made without --%s", path, use->row->name);
        if (strcmp(other, use->value ? use->value : ""))
            return vp_fail(err, VP_EUSAGE, "--resume %s: expected --%s %s, got %s", path, use->row->name, other, use->value);
    }
    for (int k = 0; k < m->n; k++)
        stored += !strcmp(m->key[k], "checkpoint.option");
    for (int k = 0; k < m->n && stored > given; k++) {
        bool found = strcmp(m->key[k], "checkpoint.option") != 0;
        for (int i = 0; !found && (use = option_at(c->run, &i));)
            found = !strncmp(m->value[k], use->row->name, strlen(use->row->name))
                 && strchr(" ", m->value[k][strlen(use->row->name)]);
        if (!found)
            return vp_fail(err, VP_EUSAGE, "--resume %s: the checkpoint was made with --%s", path, m->value[k]);
    }
    return 0;
}

static int read_state(const struct vp_checkpoint *c, struct vp_reader *reader, struct vp_iterate_state *state,
                      struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);
    const char *const name = vp_reader_name(reader), *const version = vp_meta_get(&s->meta, "checkpoint.version");
    const char *const iteration = vp_meta_get(&s->meta, "checkpoint.iteration");
    int scalars = 0;
    if (!version || strcmp(version, VERSION) || !iteration)
        return vp_fail(err, VP_EUSAGE, "--resume %s: expected a checkpoint of version " VERSION ", got %s%s", name,
                       version ? "version " : "none", version ? version : "");
    if (compare_options(c, &s->meta, name, err))
        return -1;
    if (s->nx != c->grid->n[0] || s->ny != c->grid->n[1] || s->pages != c->grid->n[2] * state->volumes)
        return vp_fail(err, VP_EUSAGE, "--resume %s: expected %lld x %lld x %lld, %d volumes, got %lld x %lld, %lld pages", name,
                       (long long)c->grid->n[0], (long long)c->grid->n[1], (long long)c->grid->n[2], state->volumes,
                       (long long)s->nx, (long long)s->ny, (long long)s->pages);
    state->iteration = atoll(iteration);
    for (int k = 0; k < s->meta.n; k++)
        if (!strcmp(s->meta.key[k], "checkpoint.number") && scalars < state->scalars)
            state->scalar[scalars++] = atof(s->meta.value[k]);
    if (scalars < state->scalars || state->iteration < 1)
        return vp_fail(err, VP_EUSAGE, "--resume %s: expected %d numbers, got %d", name, state->scalars, scalars);
    const int64_t slices = c->grid->n[2];
    int64_t first, last;
    vp_share_own(&c->share, slices, c->unit, &first, &last);
    for (int64_t z = 0; z < s->pages; z++) {
        if (z % slices < first || z % slices >= last) {
            const int skipped = vp_reader_skip(reader, 1, err);
            if (skipped != 1)
                return skipped < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: truncated: expected %lld pages, got %lld", name,
                                                  (long long)s->pages, (long long)z);
            continue;
        }
        void *to = state->volume[z / slices] + z % slices * s->nx * s->ny;
        const int64_t got = vp_reader_read(reader, &(struct vp_wanted){VP_NEXT, 1, .f32 = true}, &to, err);
        if (got != 1)
            return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: truncated: expected %lld pages, got %lld", name,
                                          (long long)s->pages, (long long)z);
        vp_spill_leave(to, (uint64_t)(s->nx * s->ny) * sizeof(float), true);
    }
    return 1;
}

int vp_checkpoint_load(const struct vp_checkpoint *c, const char *path, struct vp_iterate_state *state,
                       struct vp_err *err)
{
    struct vp_reader *reader = NULL;
    const struct vp_reader_options o = {.samples = VP_AS_STORED};
    const int rc = vp_reader_open(&reader, &path, 1, &o, err) ? -1 : read_state(c, reader, state, err);
    vp_reader_close(reader, NULL);
    return rc;
}
