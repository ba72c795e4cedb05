/* SPDX-License-Identifier: BSD-3-Clause */
/* Selections: which pages and columns they are, and that metadata and geometry follow the pixels: a point's
 * image in the cut detector is its image in the whole one, moved by the cut. */
#include "base/err.h"
#include "geom/geom.h"
#include "pages/select.h"
#include "geometry.h"
#include "test.h"

#include <stdlib.h>

static char note[200];

static struct vp_stack stack(int64_t nx, int64_t ny, int64_t pages)
{
    return (struct vp_stack){.nx = nx, .ny = ny, .pages = pages, .type = VP_F32};
}

/* Pages of `text` from n pages as "3 4 5", "all from 3" for an open end, or "error". */
static const char *pages(const char *text, int64_t n, bool reverse)
{
    static char out[256];
    struct vp_err err = VP_ERR_INIT;
    struct vp_select s;
    const struct vp_stack in = stack(10, 10, n);
    const struct vp_select_params p = {.pages = text, .reverse = reverse};
    int len = 0;

    if (vp_select_make(&s, &p, &in, "input", n >= 0, &err) < 0)
        return err.code == VP_EUSAGE ? "error" : "another error";
    out[0] = '\0';
    if (s.pages < 0)
        snprintf(out, sizeof out, "all from %lld", (long long)vp_select_page(&s, 0));
    for (int64_t i = 0; i < s.pages && len < 200; i++)
        len += snprintf(out + len, sizeof out - (size_t)len, "%s%lld", i ? " " : "",
                        (long long)vp_select_page(&s, i));
    vp_select_free(&s);
    return out;
}

static void test_pages(void)
{
    CHECK_STR(pages("3", 10, false), "3");
    CHECK_STR(pages("-1,0", 10, false), "9 0");
    CHECK_STR(pages("2:5", 10, false), "2 3 4");
    CHECK_STR(pages(":3,8:", 10, false), "0 1 2 8 9");
    CHECK_STR(pages("::4", 10, false), "0 4 8");
    CHECK_STR(pages("1:9:4", 10, false), "1 5");
    CHECK_STR(pages("1:10:4", 10, false), "1 5 9");
    CHECK_STR(pages("::-3", 10, false), "9 6 3 0");
    CHECK_STR(pages("5:2:-1", 10, false), "5 4 3");
    CHECK_STR(pages("-3:", 10, false), "7 8 9");
    CHECK_STR(pages(":-8", 10, false), "0 1");
    CHECK_STR(pages("0:3,7", 10, true), "7 2 1 0");
    /* as Python has it: a range is cut to what there is */
    CHECK_STR(pages("8:100", 10, false), "8 9");
    CHECK_STR(pages("-100:2", 10, false), "0 1");
    CHECK_STR(pages("-3:100:2", 10, false), "7 9");
    CHECK_STR(pages("100:7:-1", 10, false), "9 8");
    CHECK_STR(pages("2:-100:-1", 10, false), "2 1 0");
    CHECK_STR(pages("-9223372036854775807:9223372036854775807:9", 10, false), "0 9");
    CHECK_STR(pages(NULL, 3, true), "2 1 0");
    CHECK_STR(pages("::3", -1, false), "all from 0");
    CHECK_STR(pages("4,6:", -1, false), "all from 4");
    CHECK_STR(pages("0:9223372036854775807:4611686018427387904", -1, false), "0 4611686018427387904");
    static const char *const bad[] = {"", ",", "a", "3,", "10", "-11", "5:5", "5:3", "11:20", "::0", "1:2:3:4",
                                      "1 ", "2:1:1",
                                      "99999999999999999999", ":::", "1:-", "-"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_STR(pages(bad[i], 10, false), "error");
    CHECK_STR(pages("-1", -1, false), "error");
    CHECK_STR(pages("::-1", -1, false), "error");
    CHECK_STR(pages("5:,3", -1, false), "error");
    CHECK_STR(pages(NULL, -1, true), "error");
    CHECK_STR(pages("5:2:-1", -1, false), "error");
    CHECK_STR(pages("3,3", -1, false), "error");
}

static void test_region(void)
{
    static const char *const bad[] = {"", "0:5", "0:5,", "5,5", "0:11,0:5", "0:5,0:21", "3:3,0:5",
                                      "0:5,0:5,0:5", "0:5:1,0:5",
                                      "0:5x0:5"};
    const struct vp_stack in = stack(10, 20, 3);
    struct vp_err err = VP_ERR_INIT;
    struct vp_select s;

    CHECK(vp_select_make(&s, &(struct vp_select_params){.region = "2:-1,5:"}, &in, "input", true, &err) == 0);
    CHECK(s.x0 == 2 && s.x1 == 9 && s.y0 == 5 && s.y1 == 20);
    CHECK(!vp_select_is_all(&s));
    vp_select_free(&s);
    CHECK(vp_select_make(&s, &(struct vp_select_params){.region = ":,:", .pages = "0:3"}, &in, "input", true,
                         &err) == 0);
    CHECK(vp_select_is_all(&s));
    vp_select_free(&s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(vp_select_make(&s, &(struct vp_select_params){.region = bad[i]}, &in, "input", true, &err) < 0);
}

/* The header of a selection. */
static struct vp_stack cut(const struct vp_stack *in, const char *list, const char *region)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_select s;
    struct vp_stack out = {0};

    const struct vp_select_params p = {.pages = list, .region = region};
    CHECK(vp_select_make(&s, &p, in, "input", true, &err) == 0);
    CHECK(vp_select_stack(&s, in, &out, note, sizeof note, &err) == 0);
    if (err.code)
        printf("%s\n", err.msg);
    vp_select_free(&s);
    return out;
}

static void test_frame(void)
{
    struct vp_stack in = stack(10, 20, 30), out;

    vp_meta_set(&in.meta, "axes", "x y z");
    vp_meta_set(&in.meta, "voxel", "0.5 0.25 2");
    vp_meta_set(&in.meta, "origin", "-1 -2 -3");
    out = cut(&in, "4:30:3", "2:5,4:20");
    CHECK(out.nx == 3 && out.ny == 16 && out.pages == 9);
    CHECK_STR(vp_meta_get(&out.meta, "voxel"), "0.5 0.25 6");
    CHECK_STR(vp_meta_get(&out.meta, "origin"), "0 -1 5");
    CHECK_STR(note, "");
    vp_stack_free(&out);
    out = cut(&in, "::-2", NULL);
    CHECK_STR(vp_meta_get(&out.meta, "voxel"), "0.5 0.25 4");
    CHECK(!vp_meta_get(&out.meta, "origin"));
    CHECK(note[0]);
    vp_stack_free(&out);
    out = cut(&in, "0,1,5", NULL);
    CHECK_STR(vp_meta_get(&out.meta, "voxel"), "0.5 0.25");
    CHECK(!vp_meta_get(&out.meta, "origin"));
    CHECK(note[0]);
    vp_stack_free(&out);
    vp_stack_free(&in);
}

static void test_sizes(void)
{
    struct vp_stack in = stack(10, 20, 30), out;

    vp_meta_set(&in.meta, "axes", "x y channel z time");
    vp_meta_set(&in.meta, "sizes", "10 20 3 5 2");
    out = cut(&in, "15:", "1:,:");
    CHECK_STR(vp_meta_get(&out.meta, "sizes"), "3 5 1");
    CHECK_STR(vp_meta_get(&out.meta, "axes"), "x y channel z time");
    vp_stack_free(&out);
    out = cut(&in, "::2", NULL);
    CHECK(!vp_meta_get(&out.meta, "sizes"));
    CHECK_STR(vp_meta_get(&out.meta, "axes"), "x y page");
    CHECK(note[0]);
    vp_stack_free(&out);
    vp_stack_free(&in);
}

/* What the pages of a selection are, against a walk over them: sizes in either form, channels, slices and times
 * picked, thinned and turned round. */
static void test_grids(void)
{
    static const struct {
        const char *pages, *sizes, *voxel, *origin;
    } cases[] = {
        {"::3", "1 5 2", "0.5 0.25 2", "-1 -2 -3"},  /* a channel */
        {"1::3", "1 5 2", "0.5 0.25 2", "-1 -2 -3"},
        {"3:12", "3 3 1", "0.5 0.25 2", "-1 -2 -1"}, /* slices 1 to 3 of the first time */
        {"0:3,6:9,12:15", "3 3 1", "0.5 0.25 4", "-1 -2 -3"},
        {"::-1", "3 5 2", "0.5 0.25 2", NULL},
        {"0:15:3", "1 5 1", "0.5 0.25 2", "-1 -2 -3"},
        {"3,18", "1 1 2", "0.5 0.25 2", "-1 -2 -1"},
        {"0:3,3:6,9:12", "3 3 1", "0.5 0.25", NULL}, /* uneven slices */
        {"4", "1 1 1", "0.5 0.25 2", "-1 -2 -1"},
        {":", "3 5 2", "0.5 0.25 2", "-1 -2 -3"},
        {"::2", NULL, "0.5 0.25", NULL},
        {"0:4", NULL, "0.5 0.25", NULL},
        {"0:3,7:10", NULL, "0.5 0.25", NULL},
        {"0,4,1", NULL, "0.5 0.25", NULL},
    };
    for (int form = 0; form < 2; form++) {
        struct vp_stack in = stack(10, 20, 30);
        vp_meta_set(&in.meta, "axes", "x y channel z time");
        vp_meta_set(&in.meta, "sizes", form ? "10 20 3 5 2" : "3 5 2");
        vp_meta_set(&in.meta, "voxel", "0.5 0.25 2");
        vp_meta_set(&in.meta, "origin", "-1 -2 -3");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct vp_stack out = cut(&in, cases[i].pages, "0:9,:");
            const char *sizes = vp_meta_get(&out.meta, "sizes"), *origin = vp_meta_get(&out.meta, "origin");
            const bool same = (sizes ? cases[i].sizes && !strcmp(sizes, cases[i].sizes) : !cases[i].sizes)
                              && (origin ? cases[i].origin && !strcmp(origin, cases[i].origin) : !cases[i].origin);
            if (!same)
                printf("  --pages %s: sizes %s, origin %s\n", cases[i].pages, sizes ? sizes : "-",
                       origin ? origin : "-");
            CHECK(same);
            CHECK_STR(vp_meta_get(&out.meta, "voxel"), cases[i].voxel);
            CHECK_STR(vp_meta_get(&out.meta, "axes"), cases[i].sizes ? "x y channel z time" : "x y page");
            CHECK((note[0] != 0) == !cases[i].origin);
            vp_stack_free(&out);
        }
        vp_stack_free(&in);
    }
}

static void project(const struct vp_view *v, const double x[3], double *u, double *w)
{
    double h[3];

    for (int r = 0; r < 3; r++)
        h[r] = v->P[4 * r] * x[0] + v->P[4 * r + 1] * x[1] + v->P[4 * r + 2] * x[2] + v->P[4 * r + 3];
    *u = h[0] / h[2];
    *w = h[1] / h[2];
}

/* View i of the cut scan must see points where view from[i] of the whole one does, less (u0, v0), with rows
 * `step` times as far apart. */
static void same_images(const struct vp_geom *whole, const struct vp_geom *part, const int64_t *from,
                        double u0, double v0,
                        double step)
{
    struct vp_view *a = NULL, *b = NULL;
    struct vp_scan scan;
    struct vp_err err = VP_ERR_INIT;

    CHECK(vp_geom_views(whole, &a, &scan, &err) == 0);
    CHECK(vp_geom_views(part, &b, &scan, &err) == 0);
    for (int64_t i = 0; a && b && i < part->views; i++)
        for (int k = 0; k < 5; k++) {
            const double x[3] = {3 * k - 7, 5 - 2 * k, k * k - 6};
            double u, v, pu, pv;
            project(&a[from[i]], x, &u, &v);
            project(&b[i], x, &pu, &pv);
            CHECK_NEAR(pu, u - u0, 1e-9);
            CHECK_NEAR(pv, (v - v0) / step, 1e-9);
        }
    free(a);
    free(b);
}

static void test_geometry(enum vp_beam beam, bool matrices)
{
    enum { VIEWS = 12 };
    struct vp_geom g = {.beam = beam, .sod = 300, .sdd = 500, .nu = 40, .nv = 30, .du = 0.8, .dv = 0.9,
                        .offset_u = 1.25,
                        .offset_v = -2.5, .tilt = matrices ? 0 : 3, .views = VIEWS}, part = {0}, again = {0};
    struct vp_err err = VP_ERR_INIT;
    int64_t from[VIEWS];

    g.angle = malloc(VIEWS * sizeof *g.angle);
    for (int i = 0; i < VIEWS; i++)
        g.angle[i] = 30.5 * i;
    if (matrices) {
        char *text = vp_geom_format(&g, true);
        CHECK(parse_geometry(&again, text, strlen(text), "matrices", &err) == 0);
        CHECK(again.matrix != NULL);
        free(text);
        vp_geom_free(&g);
        g = again;
    }
    /* a view a page */
    struct vp_stack in = stack(40, 30, VIEWS), out;
    vp_meta_set(&in.meta, "axes", "u v view");
    CHECK(vp_geom_to_meta(&g, &in.meta, &err) == 0);
    out = cut(&in, "1,10:3:-2,::5", "7:40,3:20");
    const int64_t picked[] = {1, 10, 8, 6, 4, 0, 5, 10};
    CHECK(vp_geom_from_meta(&part, &out.meta, "cut", &err) == 1);
    CHECK(part.nu == 33 && part.nv == 17 && part.views == 8);
    if (g.angle && part.angle)
        for (int i = 0; i < 8; i++)
            CHECK(part.angle[i] == g.angle[picked[i]]);
    same_images(&g, &part, picked, 7, 3, 1);
    vp_geom_free(&part);
    vp_stack_free(&out);
    /* from a pipe that does not know its length, the geometry tells it */
    in.pages = -1;
    out = cut(&in, "-2:", NULL);
    CHECK_INT(out.pages, 2);
    vp_stack_free(&out);
    /* a geometry of another scan is not kept */
    in.pages = VIEWS + 1;
    out = cut(&in, "0", NULL);
    CHECK(vp_geom_from_meta(&part, &out.meta, "cut", &err) == 0);
    CHECK(strstr(note, "not that of these pages"));
    vp_stack_free(&out);
    vp_stack_free(&in);
    /* sinograms: a detector row a page, views as its rows */
    in = stack(40, VIEWS, 30);
    vp_meta_set(&in.meta, "axes", "u view v");
    CHECK(vp_geom_to_meta(&g, &in.meta, &err) == 0);
    out = cut(&in, "4:29:3", "7:40,2:9");
    CHECK(vp_geom_from_meta(&part, &out.meta, "cut", &err) == 1);
    CHECK(part.nu == 33 && part.nv == 9 && part.views == 7);
    for (int i = 0; i < 7; i++)
        from[i] = i + 2;
    same_images(&g, &part, from, 7, 4, 3);
    vp_geom_free(&part);
    vp_stack_free(&out);
    out = cut(&in, "0,1,5", NULL);
    CHECK(vp_geom_from_meta(&part, &out.meta, "cut", &err) == 0);
    CHECK(strstr(note, "geometry"));
    vp_stack_free(&out);
    vp_stack_free(&in);
    vp_geom_free(&g);
}

static void test_mask(void)
{
    float v[6] = {1, 2, 3, 4, 5, 6};
    const float m[6] = {0, 1, NAN, -1, 0, 0.5f};

    CHECK_INT(vp_keep_masked(v, VP_F32, m, VP_F32, 6), 3);
    CHECK(v[0] == 2 && v[1] == 4 && v[2] == 6);
}

int main(void)
{
    test_pages();
    test_region();
    test_frame();
    test_sizes();
    test_grids();
    for (int beam = 0; beam < 2; beam++)
        for (int matrices = 0; matrices < 2; matrices++)
            test_geometry(beam ? VP_PARALLEL : VP_CONE, matrices);
    test_mask();
    return test_done();
}
