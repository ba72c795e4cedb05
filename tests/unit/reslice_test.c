/* SPDX-License-Identifier: BSD-3-Clause */
/* img-reslice: every order and direction of the axes, of channels and times too, against the definition sample by
 * sample, in batches of all sizes; and the headers. */
#include "base/err.h"
#include "base/size.h"
#include "geom/geom.h"
#include "pages/reslice.h"
#include "pretend.h"
#include "stack/set.h"

static char dir[] = "/tmp/reslice_test.XXXXXX";

static struct vp_reader *make(const char *path, const int64_t n[3], int64_t inner, int64_t outer, enum vp_type type,
                              unsigned char *data)
{
    struct vp_stack s = {.nx = n[0], .ny = n[1], .pages = inner * n[2] * outer, .type = type};
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    struct vp_reader *r = NULL;
    const struct vp_writer_options o = {0};
    char sizes[64];

    snprintf(sizes, sizeof sizes, "%d %d %d", (int)inner, (int)n[2], (int)outer);
    vp_meta_set(&s.meta, "axes", "x y channel z time");
    vp_meta_set(&s.meta, "sizes", sizes);
    for (size_t i = 0; i < (size_t)s.pages * vp_page_bytes(&s); i++)
        data[i] = (unsigned char)dice(0, 100);
    CHECK_INT(vp_writer_open(&w, path, &s, &o, &err), 0);
    for (int64_t i = 0; i < s.pages; i++)
        CHECK_INT(vp_writer_page(w, data + (size_t)i * vp_page_bytes(&s), &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
    CHECK_INT(vp_reader_open(&r, &path, 1, NULL, &err), 0);
    vp_stack_free(&s);
    return r;
}

static void test_orders(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_F32, VP_F64};
    char path[64], to[64];
    snprintf(path, sizeof path, "%s/in.tif", dir);
    snprintf(to, sizeof to, "%s/out.tif", dir);
    for (int trial = 0; trial < 240; trial++) {
        const int64_t n[3] = {dice(1, 70), dice(1, 40), dice(1, 40)}, inner = dice(1, 3), outer = dice(1, 2);
        const enum vp_type type = types[dice(0, 3)];
        const size_t size = vp_type_size(type), all = (size_t)(n[0] * n[1] * n[2] * inner * outer) * size;
        unsigned char *const data = malloc(all), *const got = malloc(all);
        struct vp_reader *const r = make(path, n, inner, outer, type, data), *back = NULL;
        struct vp_writer *w = NULL;
        struct vp_stack out = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_reslice s = {.flip = {dice(0, 1), dice(0, 1), dice(0, 1)}};
        const struct vp_writer_options o = {0};
        const char *name = to;
        char note[160];

        memcpy(s.from, orders[trial % 6], sizeof s.from);
        CHECK_INT(vp_reslice_make(&s, vp_reader_stack(r), false, "in", &err), 0);
        CHECK_INT(vp_reslice_stack(&s, vp_reader_stack(r), &out, note, sizeof note, &err), 0);
        CHECK_INT(vp_writer_open(&w, to, &out, &o, &err), 0);
        struct vp_pages p = {.reader = r, .writer = w, .memory = (uint64_t)dice(400000, 3000000), .threads = 2};
        CHECK_INT(vp_reslice_run(&s, &p, &err), 0);
        CHECK_INT(vp_writer_close(w, &err), 0);
        CHECK_INT(vp_reader_open(&back, &name, 1, NULL, &err), 0);
        CHECK_INT(vp_reader_stack(back)->pages, inner * s.out[2] * outer);
        for (int64_t i = 0; i < inner * s.out[2] * outer; i++)
            CHECK_INT(vp_reader_next(back, got + (size_t)(i * s.out[0] * s.out[1]) * size, &err), 1);
        int64_t wrong = 0;
        for (int64_t t = 0; t < outer; t++)
            for (int64_t c = 0; c < inner; c++)
                for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
                    const int64_t at[3] = {i % s.out[0], i / s.out[0] % s.out[1], i / s.out[0] / s.out[1]};
                    int64_t f[3];
                    for (int a = 0; a < 3; a++)
                        f[s.from[a]] = s.flip[a] ? s.out[a] - 1 - at[a] : at[a];
                    const int64_t to_page = (t * s.out[2] + at[2]) * inner + c,
                                  from_page = (t * n[2] + f[2]) * inner + c;
                    wrong += !!memcmp(got + (size_t)((to_page * s.out[1] + at[1]) * s.out[0] + at[0]) * size,
                                      data + (size_t)((from_page * n[1] + f[1]) * n[0] + f[0]) * size, size);
                }
        CHECK_INT(wrong, 0);
        vp_reader_close(back, NULL);
        vp_reader_close(r, NULL);
        vp_stack_free(&out);
        free(data);
        free(got);
    }
    unlink(path);
    unlink(to);
}

/* Four turns about an axis are none, and two are two flips. */
static void test_turns(void)
{
    for (int a = 0; a < 3; a++) {
        struct vp_reslice r, twice;
        vp_reslice_none(&r);
        vp_reslice_none(&twice);
        vp_reslice_turn(&r, a);
        vp_reslice_turn(&r, a);
        vp_reslice_flip(&twice, (a + 1) % 3);
        vp_reslice_flip(&twice, (a + 2) % 3);
        CHECK(!memcmp(r.from, twice.from, sizeof r.from) && !memcmp(r.flip, twice.flip, sizeof r.flip));
        vp_reslice_turn(&r, a);
        vp_reslice_turn(&r, a);
        vp_reslice_none(&twice);
        CHECK(!memcmp(r.from, twice.from, sizeof r.from) && !memcmp(r.flip, twice.flip, sizeof r.flip));
    }
}

/* The matrix of a view maps a point to the pixel that shows it, also after flips and in sinograms. */
static void test_geometry(void)
{
    for (int trial = 0; trial < 16; trial++) {
        const bool matrices = trial & 1, sinograms = trial & 2;
        const struct vp_geom_params p = {.sod = "100", .sdd = "200", .detector = "20x10", .pitch = "1", .views = "8",
                                         .offset_u = "1.5", .offset_v = "-0.5"};
        struct vp_stack in = {.nx = 20, .ny = 10, .pages = 8, .type = VP_F32}, out = {0};
        struct vp_reslice r = {.flip = {dice(0, 1), dice(0, 1), dice(0, 1)}, .from = {0, sinograms ? 2 : 1,
                                                                                        sinograms ? 1 : 2}};
        struct vp_geom g = {0}, h = {0};
        struct vp_err err = VP_ERR_INIT;
        char note[160], *text;

        CHECK_INT(vp_geom_make(&g, NULL, &p, &err), 0);
        if (matrices) {
            char path[64];
            snprintf(path, sizeof path, "%s/m.geom", dir);
            FILE *f = fopen(path, "w");
            fputs(text = vp_geom_format(&g, true), f);
            fclose(f);
            free(text);
            vp_geom_free(&g);
            CHECK_INT(vp_geom_make(&g, path, NULL, &err), 0);
            unlink(path);
        }
        vp_meta_set(&in.meta, "axes", "u v view");
        CHECK_INT(vp_geom_to_meta(&g, &in.meta, &err), 0);
        CHECK_INT(vp_reslice_make(&r, &in, false, "in", &err), 0);
        CHECK_INT(vp_reslice_stack(&r, &in, &out, note, sizeof note, &err), 0);
        CHECK_STR(note, "");
        CHECK_STR(vp_meta_get(&out.meta, "axes"), sinograms ? "u view v" : "u v view");
        CHECK_INT(vp_geom_from_meta(&h, &out.meta, "out", &err), 1);
        struct vp_view *a = NULL, *b = NULL;
        struct vp_scan sa, sb;
        CHECK_INT(vp_geom_views(&g, &a, &sa, &err), 0);
        CHECK_INT(vp_geom_views(&h, &b, &sb, &err), 0);
        for (int v = 0; v < 8; v++) {
            const int view = r.flip[sinograms ? 1 : 2] ? 7 - v : v;
            const double x[4] = {3, -4, 2, 1};
            double pa[3] = {0}, pb[3] = {0};
            for (int k = 0; k < 12; k++) {
                pa[k / 4] += a[view].P[k] * x[k % 4];
                pb[k / 4] += b[v].P[k] * x[k % 4];
            }
            CHECK_NEAR(pb[0] / pb[2], r.flip[0] ? 19 - pa[0] / pa[2] : pa[0] / pa[2], 1e-9);
            CHECK_NEAR(pb[1] / pb[2], r.flip[sinograms ? 2 : 1] ? 9 - pa[1] / pa[2] : pa[1] / pa[2], 1e-9);
        }
        free(a);
        free(b);
        vp_geom_free(&g);
        vp_geom_free(&h);
        vp_stack_free(&in);
        vp_stack_free(&out);
    }
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_orders();
    test_turns();
    test_geometry();
    rmdir(dir);
    return test_done();
}
