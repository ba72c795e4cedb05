/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks of f32 whose sums depend on their order, for tests of operations that know more than their halo. */
#pragma once

#include "plans.h"

/* `lines`: the planes are rows of pages. A second output is twice the first, as f64. */
struct scene {
    int64_t n[3], inner, outer;
    bool lines, second;
    float *data, *want;
    char path[96];
    struct vp_chain chain;
};

static int64_t pages_of_scene(const struct scene *s)
{
    return s->inner * s->n[2] * s->outer;
}

/* n, inner and outer are given: samples, room for what is wanted of them, and a file in `dir`. */
static void write_scene(struct scene *s, const char *dir)
{
    static int number;
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    const struct vp_writer_options o = {0};
    const int64_t page = s->n[0] * s->n[1], samples = pages_of_scene(s) * page;
    s->data = malloc((size_t)samples * sizeof(float));
    s->want = calloc((size_t)samples, sizeof(float));
    for (int64_t i = 0; i < samples; i++)
        s->data[i] = (float)dice(1, 1 << 24) * (dice(0, 3) ? 1e-6f : 1.3f);
    snprintf(s->path, sizeof s->path, "%s/%d.tif", dir, number++);
    const struct vp_stack stack = {.nx = s->n[0], .ny = s->lines ? s->n[2] : s->n[1], .type = VP_F32,
                                   .pages = s->lines ? s->outer : pages_of_scene(s)};
    CHECK_INT(vp_writer_open(&w, s->path, &stack, &o, &err), 0);
    for (int64_t i = 0; i < pages_of_scene(s) && !s->lines; i++)
        CHECK_INT(vp_writer_page(w, s->data + i * page, &err), 0);
    for (int64_t i = 0, n; i < pages_of_scene(s) && s->lines; i += n) {
        n = vp_min64(dice(1, 2 * s->n[2]), pages_of_scene(s) - i);
        CHECK_INT(vp_writer_lines(w, n, s->data + i * page, (int)dice(1, 2), &err), 0);
    }
    CHECK_INT(vp_writer_close(w, &err), 0);
}

static void free_scene(struct scene *s)
{
    unlink(s->path);
    vp_chain_free(&s->chain);
    free(s->data);
    free(s->want);
}

/* The problem of a scene on the CPU, or on up to four pretended devices. */
static struct vp_problem problem_of_scene(const struct scene *s, bool on_devices)
{
    struct vp_problem p = {.chain = &s->chain, .image = {s->n[0], s->n[1], s->n[2]}, .inner = s->inner,
                           .outer = s->outer, .stored_in = 4, .stored_out = 4, .threads = (int)dice(1, 3),
                           .memory = 1 << 30};
    p.lines = s->lines;
    p.stored_out += s->second ? 8 : 0;
    p.backend = on_devices ? &pretended : NULL;
    p.devices = on_devices ? (int)dice(1, 4) : 0;
    for (int d = 0; d < p.devices; d++)
        p.free[d] = 1 << 30;
    return p;
}

/* How a scene is run: from a pipe; with two visits, whose entries have so much memory; and what is to fail in it (NULL:
 * nothing), at page `fail_at` if that is not negative. `smaller`: out: vp_execute's, or NULL. */
struct way { bool piped, twice; uint64_t memory; const char *says; int64_t fail_at; int *smaller; };

/* The second output, of which all must come as well. */
struct both_got { struct got first, second; };

static int take_first(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    return take_page(&((struct both_got *)ctx)->first, page, samples, n, err);
}

static int take_second(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    return take_page(&((struct both_got *)ctx)->second, page, samples, n, err);
}

/* 0 if the bytes are the wanted ones. */
static int run_scene_plan(struct scene *s, struct vp_problem *p, struct vp_plan *plan, const struct way *way)
{
    const int64_t page = s->n[0] * s->n[1], pages = s->inner * s->n[2] * s->outer, all = page * pages;
    struct both_got got = {{.data = malloc((size_t)all * sizeof(float)), .size = sizeof(float), .page = page,
                            .fail_at = way->says ? way->fail_at : -1},
                           {.data = malloc((size_t)all * sizeof(double)), .size = sizeof(double), .page = page,
                            .fail_at = -1}};
    struct vp_execute e = {.problem = p, .plan = plan, .chain = &s->chain, .held = VP_F32, .stored_out = VP_F32,
                           .device = {1, 2, 3, 4}, .page = take_first, .second_page = take_second, .ctx = &got};
    struct source source;
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(source_open(&source, s->path, NULL, way->piped, &err), 0);
    e.reader[0] = source.reader;
    if (way->twice)
        plan->entries = way->memory;
    int rc = way->twice ? vp_execute_twice(&e, NULL, &err) : vp_execute(&e, NULL, &err);
    if (way->smaller)
        *way->smaller = e.smaller;
    const bool expected = way->says && strstr(err.msg, way->says);
    if (rc && !expected)
        printf("%s\n", err.msg);
    CHECK(!rc || expected);
    source_close(&source);
    s->chain.stage[0].image[2] = s->n[2];
    rc = rc || got.first.next != pages || memcmp(got.first.data, s->want, (size_t)all * sizeof(float));
    for (int64_t i = 0; i < all && s->second && !rc; i++)
        rc = ((double *)got.second.data)[i] != 2 * (double)s->want[i];
    free(got.first.data);
    free(got.second.data);
    return rc;
}
