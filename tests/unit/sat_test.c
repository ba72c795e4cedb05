/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables: integers against the plain sum, floats to the bit against the order that sat.h writes down, and
 * against sums in long double. */
#include "base/isa.h"
#include "global/sat.h"

#include "plans.h"
#include "sat_apply.h"

#include <signal.h>

/* ---- what is wanted ---- */

/* The sum of n numbers (a power of two): of halves that are added to each other. */
static double want_sum(const double *a, int n)
{
    double half[16];
    for (int i = 0; i < n / 2; i++)
        half[i] = a[i] + a[i + n / 2];
    return n == 1 ? a[0] : want_sum(half, n / 2);
}

/* A tile at column x0 and row y0 of an image, of `high` of its `tall` rows, in the order that is written down: r,
 * and of each row what it adds to h. */
static void want_tile(const double *a, double r[][128], double *h, int64_t nx, int64_t x0, int64_t y0, int high,
                      int tall)
{
    double q[128], w[128] = {0}, o[128] = {0}, t[128] = {0}, above = 0;
    for (int y = 0; y < high; y++) {
        double s[32], sum[32];
        for (int x = 0; x < 128; x++) {
            const double v = x0 + x < nx ? a[(y0 + y) * nx + x0 + x] : 0;
            q[x] = x % 4 ? q[x - 1] + v : v;
            if (y && y % 8 == 0)
                o[x] = o[x] + w[x];
            w[x] = y % 8 ? w[x] + q[x] : q[x];
            t[x] = y == tall - 1 ? o[x] + w[x] : (y % 8 ? t[x] : o[x]) + q[x];
        }
        for (int i = 0; i < 32; i++) {
            s[i] = t[4 * i + 3];
            sum[i] = w[4 * i + 3];
        }
        for (int d = 1; d < 32; d *= 2)
            for (int i = 31; i >= d; i--)
                s[i] = s[i] + s[i - d];
        for (int x = 0; x < 128; x++)
            r[y][x] = t[x] + (x < 4 ? 0 : s[x / 4 - 1]);
        h[y] = above + want_sum(sum, 32);
        if (y % 8 == 7)
            above = h[y];
    }
}

static void want_floats(const double *a, double *out, int64_t nx, int64_t ny, int tall)
{
    for (int64_t y0 = 0; y0 < ny; y0 += tall) {
        const int high = (int)vp_min64(tall, ny - y0);
        double left[128] = {0};
        for (int64_t x0 = 0; x0 < nx; x0 += 128) {
            double r[128][128], h[128];
            want_tile(a, r, h, nx, x0, y0, high, tall);
            for (int y = 0; y < high; y++) {
                for (int64_t x = x0; x < nx && x < x0 + 128; x++)
                    out[(y0 + y) * nx + x] = (y0 ? out[(y0 - 1) * nx + x] : 0) + (r[y][x - x0] + left[y]);
                left[y] = left[y] + h[y];
            }
        }
    }
}

static double sample_of(const void *a, enum vp_type t, int64_t i)
{
    double v;
    vp_convert(&v, VP_F64, (const char *)a + (size_t)i * vp_type_size(t), t, 1, 1, 0);
    return v;
}

static uint64_t bits_of(const void *a, enum vp_type t, int64_t i)
{
    int64_t v;
    if (t <= VP_U64) {
        uint64_t u;
        vp_convert(&u, VP_U64, (const char *)a + (size_t)i * vp_type_size(t), t, 1, 1, 0);
        return u;
    }
    vp_convert(&v, VP_I64, (const char *)a + (size_t)i * vp_type_size(t), t, 1, 1, 0);
    return (uint64_t)v;
}

/* The whole table of one kind into out (of type `to`). */
static void make_want(void *out, enum vp_type to, const void *a, enum vp_type t, const int64_t n[3], bool volume,
                      bool square)
{
    const int64_t page = n[0] * n[1], all = page * n[2];
    if (!vp_type_is_float(to)) {
        uint64_t *sum = calloc((size_t)page, sizeof *sum);
        for (int64_t z = 0; z < n[2]; z++) {
            for (int64_t y = 0; y < n[1]; y++) {
                uint64_t row = 0;
                for (int64_t x = 0; x < n[0]; x++) {
                    const int64_t i = y * n[0] + x;
                    const uint64_t v = bits_of(a, t, z * page + i);
                    row += square ? v * v : v;
                    const uint64_t before = volume && z ? sum[i] : 0;
                    /* the plane before is still there, so the row above is taken from what was written */
                    uint64_t above = 0;
                    if (y && vp_type_size(to) == 4)
                        above = ((uint32_t *)out)[z * page + i - n[0]];
                    else if (y)
                        above = ((uint64_t *)out)[z * page + i - n[0]];
                    if (y && volume && z)
                        above -= vp_type_size(to) == 4 ? ((uint32_t *)out)[(z - 1) * page + i - n[0]]
                                                       : ((uint64_t *)out)[(z - 1) * page + i - n[0]];
                    const uint64_t value = before + above + row;
                    sum[i] = value;
                    if (vp_type_size(to) == 4)
                        ((uint32_t *)out)[z * page + i] = (uint32_t)value;
                    else
                        ((uint64_t *)out)[z * page + i] = value;
                }
            }
        }
        free(sum);
        return;
    }
    double *d = malloc((size_t)all * sizeof *d), *table = malloc((size_t)all * sizeof *table);
    for (int64_t i = 0; i < all; i++) {
        d[i] = sample_of(a, t, i);
        d[i] = square ? d[i] * d[i] : d[i];
    }
    for (int64_t z = 0; z < n[2]; z++) {
        want_floats(d + z * page, table + z * page, n[0], n[1], t == VP_F32 && !volume ? 128 : 64);
        for (int64_t i = 0; i < page && volume; i++)
            table[z * page + i] = (z ? table[(z - 1) * page + i] : 0) + table[z * page + i];
    }
    vp_convert(out, to, table, VP_F64, all, 1, 0);
    free(d);
    free(table);
}

/* ---- what is got ---- */

/* Part by part (or an image, or a volume, at once), along rows of an image or planes of a volume. */
static void run_parts(const struct vp_op *op, const void *a, void *const out[2], const int64_t n[3], bool volume,
                      int threads, bool at_once)
{
    const int64_t page = n[0] * n[1], along = volume ? n[2] : n[1];
    const int64_t plane = volume ? page : n[0], step = op->step[2];
    const size_t in_size = vp_type_size(op->in), size[2] = {vp_type_size(op->out), op->second ? vp_type_size(*op->second) : 0};
    for (int64_t image = 0; image < (volume ? 1 : n[2]); image++) {
        const struct vp_box all = {{0, 0, 0}, {n[0], volume ? n[1] : 1, along}};
        const uint64_t bytes = op->carry->state_bytes(op, &all, threads);
        char *kept = aligned_alloc(64, bytes), *scratch = aligned_alloc(64, (op->scratch(op, &all, &all, threads) + 63) / 64 * 64);
        memset(kept, 0, bytes);
        for (int64_t z = 0; z < along;) {
            const int64_t end = at_once ? along : vp_min64(along, z + step * dice(1, 3));
            void **plane_in = malloc((size_t)(end - z) * 3 * sizeof *plane_in), **plane_out = plane_in + (end - z);
            const struct vp_box box = {{0, 0, z}, {n[0], volume ? n[1] : 1, end}};
            struct vp_part in = {box, n[0], plane_in}, to[2] = {{box, n[0], plane_out}, {box, n[0], plane_out + (end - z)}};
            for (int64_t i = z; i < end; i++) {
                const size_t at = (size_t)(image * page + i * plane);
                plane_in[i - z] = (char *)(uintptr_t)a + at * in_size;
                for (int k = 0; k < 2; k++)
                    plane_out[k * (end - z) + i - z] = out[k] ? (char *)out[k] + at * size[k] : NULL;
            }
            memset(scratch, 0x5A, op->scratch(op, &box, &box, threads));
            CHECK_INT(op->carry->advance(op, &in, to, scratch, kept, threads, NULL), 0);
            free(plane_in);
            z = end;
        }
        free(scratch);
        free(kept);
    }
}

static void fill(void *a, enum vp_type t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = next_random();
        if (t == VP_F32)
            ((float *)a)[i] = (float)((double)(v >> 40) * exp2((double)(v % 9)) * (v & 512 ? 1 : -0.37));
        else if (t == VP_F64)
            ((double *)a)[i] = (double)(v >> 11) * exp2((double)(v % 9) - 40);
        else
            memcpy((char *)a + (size_t)i * vp_type_size(t), &v, vp_type_size(t));
    }
}

/* From now on tables are made with this instruction set; false if this processor cannot. */
static bool use_isa(const char *name)
{
    return vp_isa_limit(name) && !strcmp(vp_isa_name(), name);
}

static void test_tables(void)
{
    static const char *const sets[] = {"avx512", "avx2", "generic"};
    int runs = 0, kinds[3] = {0};
    for (int trial = 0; trial < 700; trial++) {
        const enum vp_type in = (enum vp_type)(trial % VP_N_TYPES);
        static const enum vp_type outs[] = {VP_U32, VP_U64, VP_I32, VP_I64, VP_F64, VP_F32};
        struct vp_sat_request r = {.volume = dice(0, 1), .squares = dice(0, 1), .out = outs[dice(0, 5)]};
        struct vp_err err = VP_ERR_INIT;
        if (vp_sat_check(in, r.out, &err))
            continue;
        int64_t n[3] = {dice(0, 1) ? dice(1, 90) : dice(1, 1200), dice(1, 40), dice(1, 5)};
        if (dice(0, 5) == 0)
            n[1] = dice(200, 600), n[0] = dice(1, 300);
        const int64_t size[3] = {n[0], r.volume ? n[1] : 1, r.volume ? n[2] : n[1]}, all = n[0] * n[1] * n[2];
        struct vp_op op;
        CHECK_INT(vp_sat_op(&op, &r, size, in, &err), 0);
        struct vp_sat *p = op.params;
        const char *set = sets[dice(0, 2)];
        if (!use_isa(set)) {
            free(p);
            continue;
        }
        kinds[p->sum[0]]++;
        void *a = malloc((size_t)all * vp_type_size(in));
        fill(a, in, all);
        void *want[2] = {malloc((size_t)all * 8), malloc((size_t)all * 8)};
        void *got[2] = {malloc((size_t)all * 8), r.squares ? malloc((size_t)all * 8) : NULL};
        const int threads = (int)dice(1, 5);
        run_parts(&op, a, got, n, r.volume, threads, false);
        for (int k = 0; k < p->tables; k++) {
            const enum vp_type to = k && op.second ? *op.second : op.out;
            make_want(want[k], to, a, in, n, r.volume, k);
            const bool same = !memcmp(want[k], got[k], (size_t)all * vp_type_size(to));
            CHECK(same);
            if (!same)
                printf("%s to %s%s, %s, %lld x %lld x %lld, %s, %d threads\n", vp_type_name(in), vp_type_name(to),
                       k ? " of squares" : "", r.volume ? "volume" : "images", (long long)n[0], (long long)n[1],
                       (long long)n[2], set, threads);
        }
        runs++;
        for (int k = 0; k < 2; k++) {
            free(want[k]);
            free(got[k]);
        }
        free(a);
        free(p);
    }
    vp_isa_limit("avx512");
    printf("%d tables: %d in u32, %d in u64, %d in f64\n", runs, kinds[0], kinds[1], kinds[2]);
    CHECK(runs > 200);
    CHECK(kinds[0] > 20 && kinds[1] > 20 && kinds[2] > 100);
}

/* Results so large that they go past the caches. */
static void test_large(void)
{
    static const struct { enum vp_type in, out; bool volume, squares; } kinds[] = {
        {VP_U8, VP_U32, false, false}, {VP_U16, VP_U64, false, true}, {VP_U8, VP_U64, true, false},
        {VP_F32, VP_F64, false, true}, {VP_F32, VP_F64, true, false}, {VP_F64, VP_F64, false, false}};
    const int64_t all = 1568 * 3300;
    void *a = aligned_alloc(64, (size_t)all * 8), *want = malloc((size_t)all * 8);
    void *got[2] = {aligned_alloc(64, (size_t)all * 8), aligned_alloc(64, (size_t)all * 8)};
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        static const char *const sets[] = {"avx512", "avx2", "generic"};
        const struct vp_sat_request r = {.volume = kinds[i].volume, .squares = kinds[i].squares, .out = kinds[i].out};
        const int64_t n[3] = {1568, r.volume ? 1100 : 3300, r.volume ? 3 : 1};
        const int64_t size[3] = {n[0], r.volume ? n[1] : 1, r.volume ? n[2] : n[1]};
        struct vp_err err = VP_ERR_INIT;
        struct vp_op op;
        CHECK_INT(vp_sat_op(&op, &r, size, kinds[i].in, &err), 0);
        fill(a, kinds[i].in, all);
        for (int k = 0; k < 2; k++) {
            const enum vp_type to = k && op.second ? *op.second : op.out;
            if (k && !op.second)
                continue;
            make_want(want, to, a, kinds[i].in, n, r.volume, k);
            for (int s = 0; s < 3; s++) {
                void *const out[2] = {got[0], op.second ? got[1] : NULL};
                if (!use_isa(sets[s]))
                    continue;
                memset(got[k], 0, (size_t)all * 8);
                run_parts(&op, a, out, n, r.volume, 2, true);
                CHECK(!memcmp(want, got[k], (size_t)all * vp_type_size(to)));
            }
        }
        free(op.params);
    }
    vp_isa_limit("avx512");
    free(a);
    free(want);
    free(got[0]);
    free(got[1]);
}

/* Means of boxes of a table of f32, against sums in long double. */
static void test_precision(void)
{
    enum { NX = 3000, NY = 2000 };
    struct vp_op op;
    struct vp_err err = VP_ERR_INIT;
    const struct vp_sat_request r = {.out = VP_F64};
    const int64_t size[3] = {NX, 1, NY}, n[3] = {NX, NY, 1};
    float *a = malloc(sizeof(float) * NX * NY);
    double *t = malloc(sizeof(double) * NX * NY), worst = 0;
    for (int64_t i = 0; i < NX * NY; i++)
        a[i] = (float)((double)(next_random() >> 40) * exp2(-24 - (double)dice(0, 19)));
    CHECK_INT(vp_sat_op(&op, &r, size, VP_F32, &err), 0);
    run_parts(&op, a, (void *const[]){t, NULL}, n, false, 2, true);
    for (int i = 0; i < 200; i++) {
        const int64_t x0 = dice(1, NX - 60), y0 = dice(1, NY - 60), x1 = x0 + dice(3, 50), y1 = y0 + dice(3, 50);
        long double sum = 0;
        for (int64_t y = y0; y < y1; y++)
            for (int64_t x = x0; x < x1; x++)
                sum += (long double)a[y * NX + x];
#define AT(y, x) t[(y) * NX + (x)]
        const double box = (AT(y1 - 1, x1 - 1) - AT(y0 - 1, x1 - 1)) - (AT(y1 - 1, x0 - 1) - AT(y0 - 1, x0 - 1));
        worst = fmax(worst, fabs((double)((long double)box / sum - 1)));
    }
    printf("boxes of 3 x 3 to 50 x 50 in %d x %d: at most %.1e off\n", NX, NY, worst);
    CHECK(worst < 1e-9);
    free(op.params);
    free(a);
    free(t);
}

static void test_types(void)
{
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_sat_type(VP_U8, 16843009), VP_U32); /* 255 x 16843009 is 2^32 - 1 */
    CHECK_INT(vp_sat_type(VP_U8, 16843010), VP_U64);
    CHECK_INT(vp_sat_type(VP_U8, 0), VP_U64);
    CHECK_INT(vp_sat_type(VP_I8, 16777215), VP_I32);
    CHECK_INT(vp_sat_type(VP_I8, 16777216), VP_I64);
    CHECK_INT(vp_sat_type(VP_U64, 1), VP_U64);
    CHECK_INT(vp_sat_type(VP_F32, 1), VP_F64);
    CHECK_INT(vp_sat_check(VP_F32, VP_U32, &err), -1);
    CHECK_INT(vp_sat_check(VP_U8, VP_I32, &err), -1);
    CHECK_INT(vp_sat_check(VP_U64, VP_U32, &err), -1);
    CHECK_INT(vp_sat_check(VP_U8, VP_U16, &err), -1);
    CHECK_INT(vp_sat_check(VP_I32, VP_F64, &err), 0);
}

/* ---- plans ---- */

static char dir[] = "/tmp/sat_test.XXXXXX";

struct scene {
    struct vp_sat_request r;
    enum vp_type in;
    int64_t n[3], inner, outer; /* one volume, or one page: n[2] is 1 */
    struct vp_chain chain;
    char path[64];
    void *data, *want[2];
};

/* n[] as the engine sees it. */
static void engine_size(const struct scene *s, int64_t size[3])
{
    size[0] = s->n[0];
    size[1] = s->r.volume ? s->n[1] : 1;
    size[2] = s->r.volume ? s->n[2] : s->n[1];
}

/* The tables of all images, with the pages of volumes interleaved. */
static void want_of_scene(struct scene *s)
{
    const struct vp_op *op = &s->chain.stage[0];
    const int64_t images = s->inner * s->outer, voxels = s->n[0] * s->n[1] * s->n[2];
    int64_t size[3];
    engine_size(s, size);
    for (int k = 0; k < 1 + (op->second != NULL); k++) {
        const enum vp_type to = k ? *op->second : op->out;
        const size_t in = vp_type_size(s->in), out = vp_type_size(to);
        s->want[k] = calloc((size_t)(voxels * images), out);
        void *image = malloc((size_t)voxels * in), *table = malloc((size_t)voxels * out);
        for (int64_t i = 0; i < images; i++) {
            for (int64_t z = 0; z < size[2]; z++)
                memcpy((char *)image + (size_t)(z * size[0] * size[1]) * in,
                       (char *)s->data + (size_t)(((i / s->inner * size[2] + z) * s->inner + i % s->inner) * size[0]
                                                  * size[1]) * in, (size_t)(size[0] * size[1]) * in);
            make_want(table, to, image, s->in, s->n, s->r.volume, k);
            for (int64_t z = 0; z < size[2]; z++) {
                const int64_t page = (i / s->inner * size[2] + z) * s->inner + i % s->inner;
                memcpy((char *)s->want[k] + (size_t)(page * size[0] * size[1]) * out,
                       (char *)table + (size_t)(z * size[0] * size[1]) * out, (size_t)(size[0] * size[1]) * out);
            }
        }
        free(image);
        free(table);
    }
}

static void make_scene(struct scene *s, int trial)
{
    static const enum vp_type outs[] = {VP_U32, VP_U64, VP_I32, VP_I64, VP_F64, VP_F32};
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    struct vp_op op;
    *s = (struct scene){.in = (enum vp_type)(trial % VP_N_TYPES), .inner = 1, .outer = dice(1, 3)};
    do
        s->r = (struct vp_sat_request){.volume = dice(0, 1), .squares = dice(0, 2) == 0,
                                       .out = outs[dice(0, 5)]};
    while (vp_sat_check(s->in, s->r.out, &err));
    s->n[0] = dice(0, 3) ? dice(1, 60) : dice(1, 700);
    s->n[1] = dice(0, 2) ? dice(1, 40) : s->r.volume ? dice(1, 60) : dice(1, 500);
    s->n[2] = s->r.volume ? dice(1, 20) : 1;
    s->inner = s->r.volume ? dice(1, 2) : 1;
    const int64_t size[3] = {s->n[0], s->r.volume ? s->n[1] : 1, s->r.volume ? s->n[2] : s->n[1]};
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_sat_op(&op, &s->r, size, s->in, &err), 0);
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
    const struct vp_stack stack = {.nx = s->n[0], .ny = s->n[1], .pages = s->inner * s->n[2] * s->outer, .type = s->in};
    const struct vp_writer_options o = {0};
    const int64_t samples = s->n[0] * s->n[1] * stack.pages;
    s->data = malloc((size_t)samples * vp_type_size(s->in));
    fill(s->data, s->in, samples);
    snprintf(s->path, sizeof s->path, "%s/in.tif", dir);
    CHECK_INT(vp_writer_open(&w, s->path, &stack, &o, &err), 0);
    CHECK_INT(vp_writer_pages(w, stack.pages, s->data, 1, &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
    want_of_scene(s);
}

struct both { struct got table[2]; };

static int take_table(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    return take_page(&((struct both *)ctx)->table[0], page, samples, n, err);
}

static int take_squares(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    return take_page(&((struct both *)ctx)->table[1], page, samples, n, err);
}

/* 0 if the bytes are the wanted ones. */
static int run_plan(struct scene *s, const struct vp_problem *p, const struct vp_plan *plan, bool piped)
{
    const struct vp_op *op = &s->chain.stage[0];
    int64_t size[3];
    engine_size(s, size);
    const int64_t page = size[0] * size[1], pages = size[2] * s->inner * s->outer;
    struct both got;
    struct vp_err err = VP_ERR_INIT;
    struct source source;
    for (int k = 0; k < 2; k++) {
        const size_t bytes = k && !op->second ? 1 : vp_type_size(k ? *op->second : op->out);
        got.table[k] = (struct got){.data = malloc((size_t)(page * pages) * bytes), .size = bytes, .page = page,
                                    .fail_at = -1};
    }
    struct vp_execute e = {.problem = p, .plan = plan, .chain = &s->chain, .held = s->in, .stored_out = op->out,
                           .device = {1, 2, 3, 4}, .page = take_table, .second_page = take_squares, .ctx = &got};
    CHECK_INT(source_open(&source, s->path, NULL, piped, &err), 0);
    e.reader[0] = source.reader;
    int rc = vp_execute(&e, NULL, &err);
    if (rc)
        printf("%s\n", err.msg);
    source_close(&source);
    s->chain.stage[0].image[2] = size[2];
    for (int k = 0; k < 1 + (op->second != NULL); k++) {
        rc = rc || got.table[k].next != pages
             || memcmp(got.table[k].data, s->want[k], (size_t)(page * pages) * got.table[k].size) ? -1 : 0;
    }
    free(got.table[0].data);
    free(got.table[1].data);
    return rc;
}

static void test_plans(void)
{
    int runs = 0, wrong = 0, side = 0, streams = 0, piped_runs = 0, types[VP_N_TYPES] = {0};
    pretend_apply = sat_apply;
    pretend.fail_at = -1;
    for (int trial = 0; trial < 400; trial++) {
        struct scene s;
        make_scene(&s, trial);
        int64_t size[3];
        engine_size(&s, size);
        struct vp_problem p = {.chain = &s.chain, .image = {size[0], size[1], size[2]}, .inner = s.inner,
                               .outer = s.outer, .lines = !s.r.volume, .stored_in = vp_type_size(s.in), .stored_out = 8,
                               .threads = (int)dice(1, 3), .memory = 1 << 30};
        p.backend = trial % 3 ? &pretended : NULL;
        p.devices = p.backend ? (int)dice(1, 3) : 0;
        for (int d = 0; d < p.devices; d++)
            p.free[d] = 1 << 30;
        for (int i = 0; i < 6; i++) {
            const int64_t step = vp_min64(s.chain.stage[0].step[2], size[2]);
            const bool piped = dice(0, 2) == 0;
            struct vp_plan plan;
            struct vp_err err = VP_ERR_INIT;
            bool made = i == 0 && !vp_plan_make(&plan, &p, &err);
            CHECK(i || made);
            for (int k = 0; k < 100 && !made; k++) { /* whole rows, of whole tiles, or planes */
                const int64_t depth = vp_min64(size[2], step * dice(1, 4));
                plan = (struct vp_plan){.bands = 1, .band = size[1], .slab = depth, .slabs = (int)dice(1, 3),
                                        .lanes = (int)dice(1, 3), .stream = dice(0, 1),
                                        .part = {size[0], size[1], depth}, .window = depth * dice(1, 3)};
                made = vp_plan_try(&plan, &p);
            }
            if (!made)
                continue;
            const int rc = run_plan(&s, &p, &plan, piped);
            CHECK_INT(rc, 0);
            if (rc)
                printf("%s to %s%s%s, %s %lld x %lld x %lld, %lld side by side, %lld images, %s, %d workers, slab %lld\n",
                       vp_type_name(s.in), vp_type_name(s.r.out), s.r.squares ? " and squares" : "",
                       s.r.exclusive ? ", exclusive" : "", s.r.volume ? "volumes" : "images", (long long)s.n[0],
                       (long long)s.n[1], (long long)s.n[2], (long long)s.inner, (long long)s.outer,
                       p.backend ? "devices" : "CPU", plan.workers, (long long)plan.slab);
            wrong += rc != 0;
            runs++;
            types[s.in]++;
            side += plan.offset && plan.workers > 1;
            streams += plan.stream;
            piped_runs += piped;
        }
        unlink(s.path);
        vp_chain_free(&s.chain);
        free(s.data);
        free(s.want[0]);
        free(s.want[1]);
    }
    printf("%d plans, %d differ: %d streams, %d side by side on devices, %d from pipes; of each type", runs, wrong,
           streams, side, piped_runs);
    for (int t = 0; t < VP_N_TYPES; t++) {
        printf(" %d", types[t]);
        CHECK(types[t] >= 200);
    }
    printf("\n");
    CHECK(side >= 100 && streams >= 500 && piped_runs >= 300);
    CHECK_INT(pretend.open, 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    signal(SIGPIPE, SIG_IGN);
    test_plans();
    CHECK_INT(rmdir(dir), 0);
    test_types();
    test_tables();
    test_large();
    test_precision();
    return test_done();
}
