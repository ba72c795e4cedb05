/* SPDX-License-Identifier: BSD-3-Clause */
/* The axis of rotation, found in exact projections of discs: parallel and fan, any order of angles, half acquisition, and
 * refused where it cannot be known; and the pieces that it is found with. */
#include "test.h"

#include "base/err.h"
#include "ct/center_internal.h"
#include "stack/views.h"

#include <stdlib.h>
#include <unistd.h>

static const double PI = 3.14159265358979323846;

static uint32_t state = 1;
static double random01(void)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) / 16777216.0;
}

/* Line integral of a disc of density 1 along the ray at `distance` of its centre. */
static double chord(double radius, double distance)
{
    return fabs(distance) < radius ? 2 * sqrt(radius * radius - distance * distance) : 0;
}

/* A scan of one row: discs of several sizes, none of them on the axis. */
struct scan {
    struct vp_geom g;
    double radius;  /* of the field, mm */
    double noise;
    bool backwards; /* turned the other way than the geometry says */
};

static double ray(const struct scan *s, int64_t k, double u)
{
    static const double disc[][4] = {{0.1, 0.05, 0.85, 1}, {0.4, -0.3, 0.2, 1}, {-0.5, 0.1, 0.12, -0.8}, {0.1, 0.55,
                                                                                                          0.15, 2},
                                     {-0.2, -0.6, 0.07, 3}, {0.65, 0.2, 0.05, 4}, {-0.35, 0.4, 0.1, 1.5}};
    const double b = (s->g.clockwise != s->backwards ? -1 : 1) * s->g.angle[k] * PI / 180, x = (u - 0.5 * (double)(s->g.nu - 1) - s->g.offset_u) * s->g.du;
    double sum = 0;

    for (size_t i = 0; i < sizeof disc / sizeof *disc; i++) {
        const double px = disc[i][0] * s->radius, py = disc[i][1] * s->radius, t = px * cos(b) + py * sin(b);
        double distance = t - x;
        if (s->g.beam == VP_CONE) { /* distance of the centre from the line through the source and the pixel */
            const double depth = s->g.sod + px * sin(b) - py * cos(b), length = hypot(x, s->g.sdd);
            distance = (t * s->g.sdd - x * depth) / length;
        }
        sum += disc[i][3] * chord(disc[i][2] * s->radius, distance);
    }
    return sum;
}

/* Finds the axis of a scan; pixels are the mean of 4 rays. */
static int find(const struct scan *s, const struct vp_center_params *p, int threads, struct vp_center *c,
                struct vp_err *err)
{
    char path[] = "/tmp/voxpipe-center-XXXXXX", raw[64];
    const int fd = mkstemp(path);
    const char *const name = path;
    struct vp_reader *reader = NULL;
    struct vp_views *source = NULL;
    struct vp_view *views = NULL;
    struct vp_scan scan;
    struct vp_geom g = s->g;
    float *row = malloc((size_t)g.nu * sizeof *row);

    for (int64_t k = 0; k < g.views; k++) {
        for (int64_t u = 0; u < g.nu; u++) {
            double sum = 0;
            for (int i = 0; i < 4; i++)
                sum += ray(s, k, (double)u + (i - 1.5) / 4) / 4;
            for (int i = 0; i < 4; i++)
                sum += s->noise * (random01() - 0.5);
            row[u] = (float)sum;
        }
        CHECK(write(fd, row, (size_t)g.nu * sizeof *row) == (ssize_t)((size_t)g.nu * sizeof *row));
    }
    close(fd);
    snprintf(raw, sizeof raw, "%lldx1:f32le", (long long)g.nu);
    const struct vp_reader_options o = {.raw = raw};
    CHECK_INT(vp_reader_open(&reader, &name, 1, &o, err), 0);
    CHECK_INT(vp_views_open(&source, reader, false, 1 << 30, err), 0);
    g.offset_u = 0; /* what is searched */
    CHECK_INT(vp_geom_views(&g, &views, &scan, err), 0);
    const struct vp_center_request q = {.p = p, .geom = &g, .views = views, .source = source, .pieces = true,
                                        .memory = 1 << 30, .threads = threads};
    const int rc = vp_center_find(&q, c, err);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    unlink(path);
    free(views);
    free(row);
    return rc;
}

static struct scan make(enum vp_beam beam, int64_t nu, double offset, int64_t views, double arc)
{
    struct scan s = {.g = {.beam = beam, .sod = 300, .sdd = 400, .nu = nu, .nv = 1, .du = 0.5, .dv = 0.5,
                           .offset_u = offset,
                           .views = views}};
    s.radius = 0.5 * (double)nu * s.g.du * 0.45 * 2 * (beam == VP_CONE ? 0.75 : 1);
    s.g.angle = malloc((size_t)views * sizeof *s.g.angle);
    for (int64_t k = 0; k < views; k++)
        s.g.angle[k] = 11 + arc * (double)k / (double)views;
    return s;
}

static void found(const char *what, struct scan s, double tolerance)
{
    const struct vp_center_params p = {.pairs = 32, .least = VP_CENTER_LEAST};
    struct vp_center one, two;
    struct vp_err err = VP_ERR_INIT;

    printf("%s\n", what);
    state = 5;
    CHECK_INT(find(&s, &p, 1, &one, &err), 0);
    if (err.code)
        printf("%s\n", err.msg);
    state = 5;
    CHECK_INT(find(&s, &p, 3, &two, &err), 0);
    CHECK_NEAR(one.offset_u, s.g.offset_u, tolerance);
    CHECK(one.z > VP_CENTER_LEAST && one.second < VP_CENTER_RIVAL && one.error < 0.2);
    CHECK(!memcmp(&one, &two, sizeof one));
    vp_geom_free(&s.g);
}

static void refused(const char *why, struct scan s, const struct vp_center_params *p)
{
    struct vp_center c;
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(find(&s, p, 2, &c, &err), -1);
    CHECK_INT(err.code, VP_ERUN);
    CHECK(strstr(err.msg, why) != NULL);
    if (!strstr(err.msg, why))
        printf("expected \"%s\", got \"%s\"\n", why, err.msg);
    vp_geom_free(&s.g);
}

static void test_axes(void)
{
    struct scan s = make(VP_PARALLEL, 200, 5.37, 181, 181);

    found("half a turn, both ends", s, 0.05);
    found("half a turn without its end", make(VP_PARALLEL, 200, -7.81, 180, 180), 0.05);
    found("a full turn", make(VP_PARALLEL, 200, 3.21, 360, 360), 0.03);
    found("a full turn of an odd number of views", make(VP_PARALLEL, 200, 3.21, 361, 360), 0.03);
    s = make(VP_PARALLEL, 200, 2.63, 360, 360);
    for (int64_t k = 0; k < s.g.views; k++)
        s.g.angle[k] = fmod(137.50776405003785 * (double)k, 360);
    found("golden angle", s, 0.05);
    s = make(VP_PARALLEL, 200, -61.3, 720, 360);
    s.radius *= 1.8;
    found("half acquisition", s, 0.05);
    s = make(VP_PARALLEL, 200, 4.5, 360, 360);
    s.noise = 0.6 * s.radius;
    found("noise", s, 0.3);
    found("more columns than are tried at once", make(VP_PARALLEL, 2500, 40.3, 90, 360), 0.05);
    found("fan", make(VP_CONE, 200, 6.4, 720, 360), 0.05);
    s = make(VP_CONE, 200, 6.4, 720, 360);
    s.g.clockwise = true;
    found("fan, clockwise", s, 0.05);
    s = make(VP_CONE, 200, -70.3, 720, 360);
    s.radius *= 1.7;
    found("fan, half acquisition", s, 0.1);
    found("fan, short scan", make(VP_CONE, 200, 3.3, 440, 220), 0.1);
}

static void test_refusals(void)
{
    const struct vp_center_params all = {.pairs = 32, .least = VP_CENTER_LEAST}, part = {.pairs = 32,
                                                                                         .least = VP_CENTER_LEAST, .search = {2, {-40, 3.5}}};
    struct scan s = make(VP_PARALLEL, 200, 0, 360, 360);

    refused("half a turn apart", make(VP_PARALLEL, 200, 2, 150, 150), &all);
    s.radius = 0;
    refused("constant", s, &all);
    s = make(VP_PARALLEL, 200, 0, 360, 360);
    s.radius = 1e-3;
    s.noise = 1;
    refused("no axis stands out", s, &all);
    s = make(VP_CONE, 200, 6.4, 720, 360);
    s.backwards = true;
    refused("turns the other way", s, &all);
    refused("the end of the range", make(VP_PARALLEL, 200, 4, 360, 360), &part);
}

static void test_pieces(void)
{
    struct vp_view views[12] = {0};
    struct vp_circle circle;
    struct vp_between b;
    struct vp_err err = VP_ERR_INIT;

    for (int k = 0; k < 12; k++)
        views[k].angle = (double)((k * 5) % 12) * 10 * PI / 180; /* 0, 50, 100, 30, ... 110 */
    CHECK_INT(vp_circle_open(&circle, views, 12, &err), 0);
    CHECK_NEAR(circle.step, 10 * PI / 180, 1e-12);
    CHECK(vp_circle_at(&circle, 50 * PI / 180, &b) && b.view[0] == 1 && b.w[0] == 1 && b.w[1] == 0 && !b.beyond);
    CHECK(vp_circle_at(&circle, 52.5 * PI / 180 - 4 * PI, &b) && b.view[0] == 1 && b.view[1] == 6 && !b.beyond);
    CHECK_NEAR(b.w[0], 0.75, 1e-6);
    CHECK_NEAR(b.w[1], 0.25, 1e-6);
    CHECK(vp_circle_at(&circle, 115 * PI / 180, &b) && b.view[0] == 7 && b.view[1] == 2 && b.beyond);
    CHECK_NEAR(b.w[0], 1.5, 1e-6);
    CHECK_NEAR(b.w[1], -0.5, 1e-6);
    CHECK(!vp_circle_at(&circle, 125 * PI / 180, &b));
    CHECK(!vp_circle_at(&circle, 200 * PI / 180, &b));
    vp_circle_close(&circle);

    float row[64], out[64], work[128];
    for (int i = 0; i < 64; i++)
        row[i] = 7;
    vp_center_band(row, 64, out, work);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(out[i], 0, 1e-5);
    for (int i = 0; i < 64; i++)
        row[i] = i % 2 ? 1 : -1;
    vp_center_band(row, 64, out, work);
    CHECK_NEAR(out[32], 0, 0.05);
    row[10] = NAN, row[20] = 50;
    vp_center_clean(row, 64, false, work);
    for (int i = 0; i < 64; i++)
        CHECK(fabsf(row[i]) <= 1);

    struct vp_match match[3];
    for (int i = 0; i < 3; i++)
        match[i] = (struct vp_match){0.9 - 0.01 * (i - 1.3) * (i - 1.3), 100};
    CHECK_NEAR(vp_center_vertex(match, 1, 1, 0, 1, 17), 17.3, 1e-9);
    CHECK_NEAR(vp_center_fisher((struct vp_match){0.5, 103}), 10 * atanh(0.49), 1e-12);
}

int main(void)
{
    test_pieces();
    test_axes();
    test_refusals();
    return test_done();
}
