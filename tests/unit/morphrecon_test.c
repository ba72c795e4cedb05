/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction against its definition, computed in double precision by scans to and fro until nothing
 * changes: every type, neighbourhood, marker and result, images that are hard to follow (spirals, also rising ones,
 * serpentines, combs, plateaus), in one visit and in two under random plans, on the CPU and on pretended devices. */
#include "plans.h"
#include "samples.h"

#include "global/morphrecon.h"
#include "engine/store.h"
#include "stack/writer.h"

#include <math.h>

static char dir[] = "/tmp/morphrecon_test.XXXXXX";

static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32, VP_F64};

/* ---- samples as numbers ---- */

static double lowest(enum vp_type t)
{
    return t == VP_I16 ? INT16_MIN : t == VP_U8 || t == VP_U16 ? 0 : -INFINITY;
}

static double highest(enum vp_type t)
{
    return t == VP_I16 ? INT16_MAX : t == VP_U8 ? 255 : t == VP_U16 ? 65535 : INFINITY;
}

/* ---- images ---- */

enum image { NOISE, STEPS, TEXTURE, SPIRAL, RISING, SERPENTINE, COMB, CONSTANT, IMAGES };

/* The length of the way from outside to a place of a spiral in a plane, -1 on its walls. */
static double spiral(int64_t x, int64_t y, int64_t nx, int64_t ny)
{
    int64_t ring = x < y ? x : y;
    ring = nx - 1 - x < ring ? nx - 1 - x : ring;
    ring = ny - 1 - y < ring ? ny - 1 - y : ring;
    if (ring % 2)
        return (x == ring && y == ring + 1) || (y == ring && x == ring) ? (double)ring * 40 : -1; /* a gate inwards */
    const int64_t w = nx - 2 * ring, h = ny - 2 * ring, a = x - ring, b = y - ring;
    return (double)ring * 40 + (double)(b == 0 ? a : a == w - 1 ? w + b : b == h - 1 ? 2 * w + h - a : 2 * (w + h) - b);
}

/* From 0 to 1. */
static double value_of(enum image kind, int64_t x, int64_t y, int64_t z, const int64_t n[3])
{
    double s;
    switch (kind) {
    case NOISE: return (double)dice(0, 1 << 20) / (1 << 20);
    case STEPS: return (double)dice(0, 4) / 4;
    case TEXTURE:
        return 0.5 + 0.25 * sin((double)x * 0.7 + (double)z) * cos((double)y * 0.9) + 0.2 * (double)dice(0, 100) / 100;
    case SPIRAL: return spiral(x, y, n[0], n[1]) < 0 ? 0.1 : 0.9;
    case RISING: s = spiral(x, y, n[0], n[1]); return s < 0 ? 0 : 0.1 + s / 2000;
    case SERPENTINE:
        return y % 2 == 0 || x == (y / 2 % 2 ? 0 : n[0] - 1) ? (z % 2 == 0 || (x == 0 && y == 0) ? 0.8 : 0.2) : 0.2;
    case COMB: return y == 0 || x % 2 == 0 ? 0.7 + 0.2 * (double)(x % 7) / 7 : 0.1;
    default: return 0.5;
    }
}

static void draw(void *data, enum vp_type t, enum image kind, const int64_t n[3], double scale)
{
    const double lo = t == VP_I16 ? -3000 : vp_type_is_float(t) ? -1 : 0;
    const double hi = t == VP_U8 ? 255 : vp_type_is_float(t) ? 1 : 5000;
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++)
            for (int64_t x = 0; x < n[0]; x++) {
                const double v = lo + (hi - lo) * scale * value_of(kind, x, y, z, n);
                put(data, t, (z * n[1] + y) * n[0] + x, vp_type_is_float(t) ? v : floor(v));
            }
}

/* ---- the definition ---- */

static bool near(const struct vp_morphrecon_params *p, const int64_t d[3])
{
    const int64_t sum = (d[0] != 0) + (d[1] != 0) + (d[2] != 0);
    switch (p->connectivity) {
    case 4: return sum == 1 && !d[2];
    case 8: return sum >= 1 && !d[2];
    case 6: return sum == 1;
    case 18: return sum == 1 || sum == 2;
    default: return sum >= 1;
    }
}

static bool border(const int64_t at[3], const int64_t n[3])
{
    for (int a = 0; a < 3; a++)
        if (n[a] > 1 && (at[a] == 0 || at[a] == n[a] - 1))
            return true;
    return false;
}

/* The marker of one sample, in a world where the mask is above it; `sign` is -1 for erosion. */
static double marker_of(const struct vp_morphrecon_params *p, double given, double mask, const int64_t at[3],
                        const int64_t n[3], double sign, double floor_)
{
    const double least = sign > 0 ? lowest(p->type) : -highest(p->type);
    double m = floor_;
    switch (p->marker) {
    case VP_MARKER_GIVEN: m = isnan(given) ? least : sign * given; break;
    case VP_MARKER_SHIFT:
        m = sign * mask - p->h;
        m = p->type == VP_F32 ? (double)((float)(sign * mask) - (float)p->h) : p->type == VP_F64 ? m : fmax(m, floor_);
        break;
    case VP_MARKER_LESS:
        m = p->type == VP_F32   ? (double)nextafterf((float)(sign * mask), -INFINITY)
            : p->type == VP_F64 ? nextafter(sign * mask, -INFINITY)
                                : fmax(least, sign * mask - 1);
        break;
    case VP_MARKER_BORDER: m = border(at, n) ? sign * mask : floor_; break;
    case VP_MARKER_SEED:
        m = at[0] == p->seed[0] && at[1] == p->seed[1] && at[2] == p->seed[2] ? sign * mask : floor_;
        break;
    }
    return m;
}

static void define(const struct vp_morphrecon_params *p, double floor_, const int64_t n[3], const void *given,
                   const void *mask, void *want, enum vp_type out, struct vp_morphrecon_counts *told)
{
    const int64_t voxels = n[0] * n[1] * n[2];
    const double sign = p->erosion ? -1 : 1;
    double *r = malloc((size_t)voxels * sizeof *r), *g = malloc((size_t)voxels * sizeof *g);
    for (int64_t i = 0; i < voxels; i++) {
        const int64_t at[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
        const double m = given ? sample(given, p->type, i) : 0, v = sample(mask, p->type, i);
        g[i] = sign * v;
        told->nan += (uint64_t)(isnan(v) + isnan(m));
        r[i] = marker_of(p, m, v, at, n, sign, floor_);
        told->clipped += p->marker == VP_MARKER_GIVEN && r[i] > g[i];
        r[i] = isnan(g[i]) ? NAN : fmin(r[i], g[i]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t k = 0; k < 2 * voxels; k++) {
            const int64_t i = k < voxels ? k : 2 * voxels - 1 - k;
            const int64_t at[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
            if (isnan(g[i]))
                continue;
            for (int64_t j = 0; j < 27; j++) {
                const int64_t d[3] = {j % 3 - 1, j / 3 % 3 - 1, j / 9 - 1};
                const int64_t b[3] = {at[0] + d[0], at[1] + d[1], at[2] + d[2]};
                if (!near(p, d) || b[0] < 0 || b[1] < 0 || b[2] < 0 || b[0] >= n[0] || b[1] >= n[1] || b[2] >= n[2])
                    continue;
                const double v = r[(b[2] * n[1] + b[1]) * n[0] + b[0]];
                if (!isnan(v) && fmin(v, g[i]) > r[i]) {
                    r[i] = fmin(v, g[i]);
                    changed = true;
                }
            }
        }
    }
    for (int64_t i = 0; i < voxels; i++) {
        double v = sign * r[i];
        if (p->result == VP_RECON_MARK)
            v = !isnan(g[i]) && r[i] != g[i];
        else if (p->result == VP_RECON_DIFFERENCE)
            v = r[i] == g[i] ? 0 : p->type == VP_F32 ? (double)((float)g[i] - (float)r[i]) : g[i] - r[i];
        put(want, out, i, v);
    }
    free(g);
    free(r);
}

/* ---- scenes: a stack of images, the operation, what is wanted ---- */

struct scene {
    int64_t n[3], inner, outer;
    struct vp_morphrecon_params p;
    struct vp_morphrecon_counts told, want_told;
    struct vp_chain chain;
    enum vp_type out;
    bool lines; /* rows of pages are planes */
    void *want;
    char path[2][96];
};

static void write_stack(const struct scene *s, const char *path, const void *data)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    const struct vp_writer_options o = {0};
    const size_t page = (size_t)(s->n[0] * s->n[1]) * vp_type_size(s->p.type);
    const struct vp_stack stack = {.nx = s->n[0], .ny = s->n[1], .pages = s->inner * s->n[2] * s->outer, .type = s->p.type};
    CHECK_INT(vp_writer_open(&w, path, &stack, &o, &err), 0);
    for (int64_t i = 0; i < stack.pages; i++)
        CHECK_INT(vp_writer_page(w, (const char *)data + (size_t)i * page, &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
}

/* The key of a sample, and the sample as the definition has it. */
static uint64_t key_of(enum vp_type t, double v, bool erosion)
{
    switch (t) {
    case VP_U8: return vp_key_u8((uint8_t)v, erosion);
    case VP_U16: return vp_key_u16((uint16_t)v, erosion);
    case VP_I16: return vp_key_i16((int16_t)v, erosion);
    case VP_F32: return vp_key_f32((float)v, erosion);
    default: return vp_key_f64(v, erosion);
    }
}

static void make_scene(struct scene *s, int number)
{
    static const int CONNECTIVITY[] = {4, 8, 6, 18, 26};
    struct vp_err err = VP_ERR_INIT;
    *s = (struct scene){.inner = dice(1, 2), .outer = dice(1, 2)};
    struct vp_morphrecon_params *p = &s->p;
    *p = (struct vp_morphrecon_params){.type = TYPES[number % 5], .connectivity = CONNECTIVITY[number / 5 % 5],
                                       .erosion = dice(0, 1), .counts = &s->told};
    const bool flat = p->connectivity == 4 || p->connectivity == 8;
    const bool large = number % 8 == 3; /* several tiles of a box */
    s->n[0] = dice(1, flat ? (large ? 190 : 40) : large ? 70 : 18);
    s->n[1] = dice(1, flat ? (large ? 150 : 40) : large ? 40 : 14);
    s->n[2] = flat ? 1 : dice(1, large ? 34 : 14);
    p->marker = (enum vp_morphrecon_marker)(dice(0, 2) ? VP_MARKER_GIVEN : dice(VP_MARKER_GIVEN, VP_MARKER_SEED));
    p->result = (enum vp_morphrecon_result)(dice(0, 2) ? VP_RECON_VALUE : dice(VP_RECON_VALUE, VP_RECON_MARK));
    if (p->marker == VP_MARKER_LESS) /* one key less than 0 is -0 */
        p->result = VP_RECON_MARK;
    p->h = vp_type_is_float(p->type) ? 0.3 : (double)dice(0, 40);
    const bool zero = dice(0, 1);
    const double lowest_ = p->erosion ? highest(p->type) : lowest(p->type);
    const double floor_ = zero ? 0 : p->erosion ? -lowest_ : lowest_;
    p->floor = key_of(p->type, zero ? 0 : lowest_, p->erosion);
    for (int a = 0; a < 3; a++)
        p->seed[a] = dice(0, s->n[a] - 1);
    s->out = p->result == VP_RECON_MARK ? VP_U8
             : p->result == VP_RECON_DIFFERENCE && p->type == VP_I16 ? VP_U16 : p->type;

    const int64_t pages = s->inner * s->n[2] * s->outer, page = s->n[0] * s->n[1], image = page * s->n[2];
    const size_t size = vp_type_size(p->type), out = vp_type_size(s->out);
    char *mask = malloc((size_t)(pages * page) * size), *marker = malloc((size_t)(pages * page) * size);
    char *g = malloc((size_t)image * size), *m = malloc((size_t)image * size), *w = malloc((size_t)image * out);
    s->want = malloc((size_t)(pages * page) * out);
    for (int64_t k = 0; k < s->inner * s->outer; k++) {
        const enum image kind = (enum image)dice(0, IMAGES - 1);
        draw(g, p->type, kind, s->n, 1);
        draw(m, p->type, dice(0, 1) ? NOISE : kind, s->n, p->erosion ? 1 : 0.8);
        if (dice(0, 1)) /* but for a few voxels nothing */
            for (int64_t i = 0, kept = dice(0, image - 1); i < image; i++)
                if (i != kept && !(i % 97 == 3 && dice(0, 3) == 0))
                    put(m, p->type, i, p->erosion ? highest(p->type) : lowest(p->type));
        for (int64_t i = 0; vp_type_is_float(p->type) && number % 3 == 0 && i < image; i++) {
            if (dice(0, 9) == 0)
                put(g, p->type, i, dice(0, 1) ? NAN : dice(0, 1) ? INFINITY : -INFINITY);
            if (dice(0, 9) == 0)
                put(m, p->type, i, NAN);
        }
        define(p, floor_, s->n, p->marker == VP_MARKER_GIVEN ? m : NULL, g, w, s->out, &s->want_told);
        for (int64_t z = 0; z < s->n[2]; z++) {
            const int64_t at = (k / s->inner * s->n[2] + z) * s->inner + k % s->inner;
            memcpy(mask + (size_t)(at * page) * size, g + (size_t)(z * page) * size, (size_t)page * size);
            memcpy(marker + (size_t)(at * page) * size, m + (size_t)(z * page) * size, (size_t)page * size);
            memcpy((char *)s->want + (size_t)(at * page) * out, w + (size_t)(z * page) * out, (size_t)page * out);
        }
    }
    for (int i = 0; i < 2; i++)
        snprintf(s->path[i], sizeof s->path[i], "%s/%d-%d.tif", dir, number, i);
    write_stack(s, s->path[p->marker == VP_MARKER_GIVEN ? 1 : 0], mask);
    if (p->marker == VP_MARKER_GIVEN)
        write_stack(s, s->path[0], marker);
    struct vp_op op;
    s->lines = flat && s->inner == 1 && dice(0, 1);
    const int64_t *n = s->lines ? (const int64_t[3]){s->n[0], 1, s->n[1]} : s->n;
    CHECK_INT(vp_morphrecon_op(&op, p, n, &err), 0);
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
    free(w);
    free(m);
    free(g);
    free(marker);
    free(mask);
}

static void free_scene(struct scene *s)
{
    unlink(s->path[0]);
    if (s->p.marker == VP_MARKER_GIVEN)
        unlink(s->path[1]);
    vp_chain_free(&s->chain);
    free(s->want);
}

static struct vp_problem problem_of(const struct scene *s, bool on_devices)
{
    const size_t size = vp_type_size(s->p.type);
    struct vp_problem p = {.chain = &s->chain, .image = {s->n[0], s->n[1], s->n[2]}, .inner = s->inner,
                           .outer = s->outer, .stored_in = size, .stored_out = size, .threads = (int)dice(1, 3),
                           .memory = 1 << 30};
    if (s->lines) {
        p.image[1] = 1;
        p.image[2] = s->n[1];
        p.lines = true;
    }
    p.backend = on_devices ? &pretended : NULL;
    p.devices = on_devices ? (int)dice(1, 4) : 0;
    for (int d = 0; d < p.devices; d++)
        p.free[d] = 1 << 30;
    return p;
}

/* A plan at random: one visit or two. */
static bool make_plan(const struct scene *s, const struct vp_problem *p, struct vp_plan *plan)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t *n = p->image, planes = n[2] * s->outer;
    if (dice(0, 4) == 0) {
        struct vp_problem own = *p;
        for (int a = 0; dice(0, 1) && a < 3; a++)
            own.chunk[a] = dice(1, n[a]);
        const int rc = vp_plan_make(plan, &own, &err);
        if (rc)
            printf("%s\n", err.msg);
        return !rc;
    }
    for (int i = 0; i < 400; i++) {
        *plan = (struct vp_plan){.bands = 1, .band = n[1], .slab = dice(1, planes), .slabs = (int)dice(1, 3),
                                 .lanes = (int)dice(1, 3), .twice = dice(0, 3) > 0};
        plan->window = vp_min64(planes, plan->slab + dice(0, 3));
        for (int a = 0; a < 3; a++)
            plan->part[a] = plan->twice ? dice(n[a] > 40 ? n[a] / 3 : 1, n[a]) : n[a];
        plan->part[2] = vp_min64(plan->part[2], plan->slab);
        if (plan->twice && dice(0, 1)) {
            plan->band = dice(1, n[1]);
            plan->bands = (n[1] + plan->band - 1) / plan->band;
            plan->part[1] = vp_min64(plan->part[1], plan->band);
        }
        if (vp_plan_try(plan, p)) {
            static const uint64_t held[] = {1000, 1 << 20, 1 << 30}; /* some of it; all; and no memory is left to solve in */
            plan->entries = held[dice(0, 2)];
            return true;
        }
    }
    return false;
}

static int run_plan(struct scene *s, struct vp_problem *p, struct vp_plan *plan)
{
    const int64_t page = s->n[0] * s->n[1], pages = s->inner * s->n[2] * s->outer;
    const size_t size = vp_type_size(s->out);
    struct got got = {.data = malloc((size_t)(page * pages) * size), .size = size, .page = page, .fail_at = -1};
    struct vp_execute e = {.problem = p, .plan = plan, .chain = &s->chain, .held = s->p.type, .stored_out = s->out,
                           .device = {1, 2, 3, 4}, .page = take_page, .ctx = &got};
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    char out[128];
    int rc = 0;

    snprintf(out, sizeof out, "%s/out.tif", dir);
    for (int k = 0; k < s->chain.stacks; k++) {
        const char *path = s->path[k];
        CHECK_INT(vp_reader_open(&e.reader[k], &path, 1, NULL, &err), 0);
    }
    if (plan->bands > 1 || s->lines) { /* only to a file */
        const struct vp_stack stack = {.nx = s->n[0], .ny = s->n[1], .pages = pages, .type = s->out};
        const struct vp_writer_options o = {0};
        CHECK_INT(vp_writer_open(&w, out, &stack, &o, &err), 0);
        e.writer = w;
    }
    s->told = (struct vp_morphrecon_counts){0};
    rc = plan->twice ? vp_execute_twice(&e, NULL, &err) : vp_execute(&e, NULL, &err);
    if (rc)
        printf("%s\n", err.msg);
    if (w) {
        struct vp_reader *r = NULL;
        const char *path = out;
        CHECK_INT(vp_writer_close(w, &err), 0);
        CHECK_INT(vp_reader_open(&r, &path, 1, NULL, &err), 0);
        for (int64_t i = 0; i < pages; i++)
            CHECK_INT(vp_reader_next(r, (char *)got.data + (size_t)(i * page) * size, &err), 1);
        vp_reader_close(r, NULL);
        unlink(out);
    }
    for (int k = 0; k < s->chain.stacks; k++)
        vp_reader_close(e.reader[k], NULL);
    CHECK_INT(s->told.clipped, s->want_told.clipped);
    CHECK_INT(s->told.nan, s->want_told.nan);
    int64_t differ = 0;
    for (int64_t i = 0; i < page * pages && !rc; i++) {
        const double a = sample(got.data, s->out, i), b = sample(s->want, s->out, i);
        differ += !(a == b || (isnan(a) && isnan(b)));
    }
    CHECK_INT(differ, 0);
    if (differ)
        printf("%lld differ: %lld x %lld x %lld, inner %lld outer %lld, type %s, %s, result %d, twice %d bands %lld part "
               "%lld x %lld x %lld, %s\n", (long long)differ, (long long)s->n[0], (long long)s->n[1],
               (long long)s->n[2], (long long)s->inner, (long long)s->outer, vp_type_name(s->p.type),
               s->chain.stage[0].text, (int)s->p.result, plan->twice, (long long)plan->bands,
               (long long)plan->part[0], (long long)plan->part[1], (long long)plan->part[2],
               p->backend ? "devices" : "cpu");
    free(got.data);
    return rc;
}

static void test_plans(void)
{
    int runs = 0, twice = 0, banded = 0, on[2] = {0};
    for (int trial = 0; trial < 300; trial++) {
        struct scene s;
        make_scene(&s, trial);
        for (int i = 0; i < 4; i++) {
            struct vp_problem p = problem_of(&s, i % 2);
            struct vp_plan plan;
            p.rows = true;
            const bool made = make_plan(&s, &p, &plan);
            CHECK(made);
            if (!made)
                continue;
            CHECK_INT(run_plan(&s, &p, &plan), 0);
            runs++;
            twice += plan.twice;
            banded += plan.bands > 1;
            on[p.backend != NULL]++;
        }
        free_scene(&s);
    }
    printf("%d runs: %d in two visits, %d in bands, %d on the CPU, %d on devices\n", runs, twice, banded, on[0], on[1]);
    CHECK(twice > 600 && runs - twice > 100 && banded > 100);
    CHECK_INT(pretend.open, 0);
}

/* Keys are in the order of their samples, and back they are the same. */
static void test_keys(void)
{
    const float f[] = {-INFINITY, -3e38f, -1, -1e-40f, -0.0f, 0.0f, 1e-40f, 1, 3e38f, INFINITY};
    for (int erosion = 0; erosion < 2; erosion++)
        for (int i = 0; i < (int)(sizeof f / sizeof *f); i++) {
            const uint32_t k = vp_key_f32(f[i], erosion);
            const uint64_t d = vp_key_f64(f[i], erosion);
            CHECK(k >= vp_key_lowest(VP_KEY_U32) && d >= vp_key_lowest(VP_KEY_U64));
            CHECK(vp_f32_of_key(k, erosion) == f[i] && signbit(vp_f32_of_key(k, erosion)) == signbit(f[i]));
            CHECK(vp_f64_of_key(d, erosion) == f[i]);
            if (i > 0) {
                CHECK(erosion ? k < vp_key_f32(f[i - 1], true) : k > vp_key_f32(f[i - 1], false));
                CHECK(erosion ? d < vp_key_f64(f[i - 1], true) : d > vp_key_f64(f[i - 1], false));
            }
        }
    CHECK_INT(vp_key_f32(-INFINITY, false), vp_key_lowest(VP_KEY_U32));
    CHECK_INT(vp_key_f64(INFINITY, true), vp_key_lowest(VP_KEY_U64));
    CHECK(isnan(vp_f32_of_key(0, false)) && isnan(vp_f32_of_key(0, true)) && isnan(vp_f64_of_key(0, true)));
    CHECK_INT(vp_key_f32(NAN, true), 0);
    CHECK_INT(vp_key_f64(NAN, false), 0);
    for (int v = INT16_MIN; v <= INT16_MAX; v += 13)
        for (int erosion = 0; erosion < 2; erosion++)
            CHECK_INT(vp_i16_of_key(vp_key_i16((int16_t)v, erosion), erosion), v);
}

/* The shell's voxels are counted one by one. */
static void test_shell(void)
{
    for (int i = 0; i < 20000; i++) {
        struct vp_shell s;
        int64_t n = 0, wrong = 0;
        for (int a = 0; a < 3; a++) {
            s.size[a] = dice(1, 5);
            s.lo[a] = dice(0, 1);
            s.hi[a] = dice(0, 1);
        }
        for (int64_t z = 0; z < s.size[2]; z++)
            for (int64_t y = 0; y < s.size[1]; y++)
                for (int64_t x = 0; x < s.size[0]; x++) {
                    const int64_t at[3] = {x, y, z};
                    bool of = false;
                    for (int a = 0; a < 3; a++)
                        of = of || (s.lo[a] && at[a] == 0) || (s.hi[a] && at[a] == s.size[a] - 1);
                    wrong += vp_shell_index(&s, x, y, z) != (of ? n++ : -1);
                }
        CHECK(wrong == 0 && vp_shell_voxels(&s) == n);
    }
}

/* However much memory there is, and however thin the boxes: the places of one can be counted in 30 bits. */
static void test_largest(void)
{
    const int64_t sizes[][3] = {{4096, 4096, 8192}, {40, 30000, 60000}, {200000, 3, 200000}, {30000, 1000000, 1}};
    struct vp_err err = VP_ERR_INIT;
    int twice = 0;
    for (int i = 0; i < 16; i++) {
        const int64_t *n = sizes[i % 4];
        const struct vp_morphrecon_params params = {.type = i < 8 ? VP_U8 : VP_F32, .marker = VP_MARKER_BORDER,
                                                    .connectivity = n[2] > 1 ? 26 : 8};
        struct vp_chain chain = {0};
        struct vp_op op;
        struct vp_plan plan = {0};
        CHECK_INT(vp_morphrecon_op(&op, &params, n, &err), 0);
        CHECK_INT(vp_chain_add(&chain, &op, &err), 0);
        const size_t size = vp_type_size(params.type);
        const struct vp_problem p = {.chain = &chain, .image = {n[0], n[1], n[2]}, .inner = 1, .outer = 1,
                                     .stored_in = size, .stored_out = size, .threads = i % 2 ? 8 : 1,
                                     .memory = UINT64_C(100) << 30, .rows = true};
        CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
        const int64_t line = 64 / (int64_t)size, stride = (plan.part[0] + 1 + line - 1) / line * line;
        const int64_t plane = stride * (plan.part[1] + 1);
        if (plan.twice)
            CHECK(plan.part[2] * plane + 2 * (stride + 1 + (n[2] > 1 ? plane : 0)) < 1 << 30);
        twice += plan.twice;
        vp_chain_free(&chain);
    }
    CHECK(twice > 8);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    end_trouble();
    test_keys();
    test_shell();
    test_largest();
    test_plans();
    rmdir(dir);
    return test_done();
}
