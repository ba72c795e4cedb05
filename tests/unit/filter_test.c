/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter against its definition in float64, its weights against the rays they belong to, and a disc with
 * exact line integrals reconstructed at a few points for every kind of scan. */
#include "test.h"

#include "base/err.h"
#include "ct/filter_internal.h"

#include <stdlib.h>

static const double PI = 3.14159265358979323846;

static uint32_t state = 1;
static double random01(void)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) / 16777216.0;
}

/* The redundancy weight (0 ... 1) of column u in row v of view `view`. */
static double weight_at(const struct vp_filter *f, int64_t view, int64_t u, int64_t v)
{
    float w = f->t.weight && !f->t.fan ? f->t.weight[view * f->t.nu + u] : 1;

    if (f->t.fan)
        vp_filter_weight_row(f, view, v, u, u + 1, &w);
    return (double)w;
}

/* ---- geometries ---- */

struct scan {
    struct vp_geom g;
    struct vp_view *views;
    struct vp_scan scan;
};

static void open_scan(struct scan *s, enum vp_beam beam, int64_t nu, int64_t nv, double offset, int64_t n,
                      double arc, bool closed, bool clockwise)
{
    struct vp_err err = VP_ERR_INIT;

    *s = (struct scan){.g = {.beam = beam, .sod = 400, .sdd = 600, .nu = nu, .nv = nv, .offset_u = offset,
                             .du = 120.0 / (double)nu, .dv = 120.0 / (double)nu, .clockwise = clockwise,
                             .views = n}};
    s->g.angle = malloc((size_t)n * sizeof *s->g.angle);
    for (int64_t k = 0; k < n; k++)
        s->g.angle[k] = 17 + arc * (double)k / (double)(closed ? n - 1 : n);
    CHECK_INT(vp_geom_views(&s->g, &s->views, &s->scan, &err), 0);
}

static void close_scan(struct scan *s)
{
    free(s->views);
    vp_geom_free(&s->g);
}

static struct vp_filter *open_filter(const struct scan *s, const struct vp_filter_params *p, int threads)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_filter *f = NULL;

    if (vp_filter_open(&f, p, &s->g, s->views, &s->scan, threads, &err))
        printf("filter: %s\n", err.msg);
    CHECK(f != NULL);
    return f;
}

static const struct vp_filter_params plain = {.cutoff = 1};

/* ---- the ramp ---- */

static double tap(int64_t n)
{
    return n == 0 ? 0.25 : n % 2 ? -1 / (PI * PI * (double)n * (double)n) : 0;
}

static double window(int kind, double x)
{
    if (x > 1)
        return 0;
    switch (kind) {
    case VP_SHEPP_LOGAN: return x > 0 ? sin(PI * x / 2) / (PI * x / 2) : 1;
    case VP_COSINE: return cos(PI * x / 2);
    case VP_HAMMING: return 0.54 + 0.46 * cos(PI * x);
    case VP_HANN: return 0.5 + 0.5 * cos(PI * x);
    default: return 1;
    }
}

/* Taps 0 ... n-1 of the windowed kernel, by the definition of the transform of length len. */
static void windowed_taps(double *out, int64_t n, int64_t len, int kind, double cutoff)
{
    double *H = malloc((size_t)len * sizeof *H);

    for (int64_t k = 0; k < len; k++) {
        double sum = 0;
        for (int64_t i = -(len / 2 - 1); i < len / 2; i++)
            sum += tap(i) * cos(2 * PI * (double)(k * i % len) / (double)len);
        const double x = (double)(k <= len / 2 ? k : len - k) / (double)(len / 2);
        H[k] = sum * window(kind, x / cutoff);
    }
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < len; k++)
            sum += H[k] * cos(2 * PI * (double)(k * i % len) / (double)len);
        out[i] = sum / (double)len;
    }
    free(H);
}

static int64_t fft_length(const struct vp_filter *f)
{
    const char *s = strstr(vp_filter_tables(f)->describe, "fft length ");
    return s ? atoll(s + 11) : 0;
}

/* The frequencies at which a window is sampled, one side and the other. */
static int64_t window_length(const struct vp_filter *f)
{
    return 2 * vp_filter_tables(f)->m;
}

/* A delta gives the taps, whatever the length of the row. */
static void test_delta(void)
{
    const int64_t widths[] = {1, 2, 3, 5, 16, 17, 37, 100, 560, 1025, 4300};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct scan s;
        open_scan(&s, VP_PARALLEL, widths[i], 1, 0, 4, 180, false, false);
        struct vp_filter *f = open_filter(&s, &plain, 1);
        CHECK(fft_length(f) >= 2 * widths[i] - 1);
        const int64_t nu = widths[i], at = nu / 3;
        float *row = calloc((size_t)(4 * nu), sizeof *row);
        row[at] = 1;
        vp_filter_rows(f, 0, 1, 0, vp_filter_tables(f)->nv, row, row);
        double worst = 0;
        for (int64_t u = 0; u < nu; u++)
            worst = fmax(worst, fabs(row[u] - tap(u - at) * PI / 4 / s.g.du));
        CHECK_NEAR(worst * s.g.du, 0, 1e-7);
        free(row);
        vp_filter_close(f);
        close_scan(&s);
    }
}

/* Every window, cosine and padding against direct float64 convolution. */
static void test_direct(void)
{
    const struct { int64_t nu; int window; double cutoff, pad; bool keep; } cases[] = {
        {96, VP_RAM_LAK, 1, 0, false}, {97, VP_SHEPP_LOGAN, 1, 0, false}, {120, VP_COSINE, 0.7, 0, false},
        {81, VP_HAMMING, 0.5, 0, true}, {125, VP_HANN, 0.9, 0, false}, {100, VP_RAM_LAK, 0.4, 0, false},
        {60, VP_RAM_LAK, 1, 0.3, false}, {64, VP_HANN, 1, 1, true}, {135, VP_RAM_LAK, 1, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t nu = cases[i].nu, nv = 21, n = 3, pad = (int64_t)ceil(cases[i].pad * (double)nu);
        const struct vp_filter_params p = {cases[i].window, cases[i].cutoff, VP_RED_NONE, cases[i].pad,
                                           cases[i].keep};
        struct scan s;
        open_scan(&s, VP_CONE, nu, nv, 3.25, n, 360, false, false);
        struct vp_filter *f = open_filter(&s, &p, 2);
        float *in = malloc((size_t)(n * nu * nv) * sizeof *in),
              *out = malloc((size_t)(n * nu * nv) * sizeof *out);
        double *taps = malloc((size_t)(nu + 2 * pad) * sizeof *taps),
               *row = malloc((size_t)(nu + 2 * pad) * sizeof *row);
        for (int64_t j = 0; j < n * nu * nv; j++)
            in[j] = (float)random01();
        windowed_taps(taps, nu + 2 * pad, window_length(f), cases[i].window, cases[i].cutoff);
        vp_filter_rows(f, 0, n, 0, vp_filter_tables(f)->nv, in, out);
        double worst = 0, most = 0;
        for (int64_t j = 0; j < n * nv; j++) {
            const struct vp_view *view = &s.views[j / nv];
            for (int64_t u = 0; u < nu; u++) {
                const double a = ((double)u - view->cu) / view->fu,
                             b = ((double)(j % nv) - view->cv) / view->fv;
                row[pad + u] = in[j * nu + u] * (cases[i].keep ? 1 : 1 / sqrt(1 + a * a + b * b));
            }
            for (int64_t k = 0; k < pad; k++) {
                const double fall = 0.5 + 0.5 * cos(PI * (double)(k + 1) / (double)(pad + 1));
                row[pad - 1 - k] = row[pad] * fall;
                row[pad + nu + k] = row[pad + nu - 1] * fall;
            }
            for (int64_t u = 0; u < nu; u++) {
                double sum = 0;
                for (int64_t k = 0; k < nu + 2 * pad; k++)
                    sum += row[k] * taps[llabs(k - u - pad)];
                sum *= 0.5 * view->weight * view->fu / view->sod;
                worst = fmax(worst, fabs(out[j * nu + u] - sum));
                most = fmax(most, fabs(sum));
            }
        }
        CHECK_NEAR(worst / most, 0, 1e-6);
        free(in);
        free(out);
        free(taps);
        free(row);
        vp_filter_close(f);
        close_scan(&s);
    }
}

static void test_linear(void)
{
    struct scan s;
    open_scan(&s, VP_CONE, 200, 3, 0, 5, 360, false, false);
    struct vp_filter *f = open_filter(&s, &plain, 1);
    float a[600], b[600], c[600];
    for (int i = 0; i < 600; i++) {
        a[i] = (float)random01();
        b[i] = (float)random01();
        c[i] = 2 * a[i] - 3 * b[i];
    }
    vp_filter_rows(f, 2, 1, 0, vp_filter_tables(f)->nv, a, a);
    vp_filter_rows(f, 2, 1, 0, vp_filter_tables(f)->nv, b, b);
    vp_filter_rows(f, 2, 1, 0, vp_filter_tables(f)->nv, c, c);
    double worst = 0, most = 0;
    for (int i = 0; i < 600; i++) {
        worst = fmax(worst, fabs(c[i] - (2 * (double)a[i] - 3 * (double)b[i])));
        most = fmax(most, fabs(c[i]));
    }
    CHECK_NEAR(worst / most, 0, 1e-6);
    vp_filter_close(f);
    close_scan(&s);
}

/* ---- the same bits however it is called ---- */

static void test_bits(void)
{
    enum { NU = 75, NV = 13, N = 9 };
    struct scan s;
    open_scan(&s, VP_CONE, NU, NV, 0, N, 230, true, true);
    static float in[N * NV * NU], want[N * NV * NU], got[N * NV * NU], page[4 * N * NU];
    for (int i = 0; i < N * NV * NU; i++)
        in[i] = (float)random01();
    for (int tilted = 0; tilted < 2; tilted++) {
        /* another principal point a view: no shared table of cosines */
        for (int k = 0; tilted && k < N; k++)
            for (int j = 0; j < 4; j++)
                s.views[k].P[j] += 0.1 * k * s.views[k].P[8 + j];
        struct vp_filter *f = open_filter(&s, &plain, 1);
        vp_filter_rows(f, 0, N, 0, vp_filter_tables(f)->nv, in, want);
        for (int threads = 1; threads <= 3; threads++) {
            struct vp_filter *g = open_filter(&s, &plain, threads);
            for (int batch = 1; batch <= 4; batch++) {
                memcpy(got, in, sizeof in);
                for (int k = 0; k < N; k += batch)
                    vp_filter_rows(g, k, N - k < batch ? N - k : batch, 0, vp_filter_tables(g)->nv, got + k * NV * NU,
                                    got + k * NV * NU);
                CHECK(!memcmp(got, want, sizeof want));
            }
            for (int v = 0; v < NV; v += 4) {
                const int rows = NV - v < 4 ? NV - v : 4;
                for (int i = 0; i < rows * N; i++)
                    memcpy(page + i * NU, in + (i % N * NV + v + i / N) * NU, NU * sizeof *in);
                vp_filter_sinograms(g, v, rows, page, page);
                for (int i = 0; i < rows * N; i++)
                    CHECK(!memcmp(page + i * NU, want + (i % N * NV + v + i / N) * NU, NU * sizeof *in));
            }
            vp_filter_close(g);
        }
        const char *const isas[] = {"avx512", "avx2", "generic"};
        for (int i = 0; i < 3; i++) {
            if (!vp_filter_use(f, isas[i]))
                continue;
            double worst = 0, most = 0;
            vp_filter_rows(f, 0, N, 0, vp_filter_tables(f)->nv, in, got);
            for (int j = 0; j < N * NV * NU; j++) {
                worst = fmax(worst, fabs((double)got[j] - want[j]));
                most = fmax(most, fabs(want[j]));
            }
            CHECK_NEAR(worst / most, 0, 1e-6);
        }
        CHECK(!vp_filter_use(f, "abacus"));
        vp_filter_close(f);
    }
    close_scan(&s);
}

/* Rows that break off: the shadow of an ellipse goes on as it is; what ends near zero, or is noise, or too short does
 * not. A row that goes on is filtered as the longer one would be. */
static void test_truncated(void)
{
    enum { NU = 160, WIDE = 3 * NU };
    static float row[NU], wide[WIDE], out[NU], want[WIDE];
    const double radius = 130, center = 71.5;
    struct vp_row_end end[2];

    for (int i = 0; i < WIDE; i++)
        wide[i] = (float)(3 * sqrt(fmax(0, radius * radius - (i - NU - center) * (i - NU - center))));
    memcpy(row, wide + NU, sizeof row);
    CHECK_NEAR(vp_row_ends(row, NU, center, NU, end), 3 * radius, 0.01 * radius);
    for (int side = 0; side < 2; side++) {
        const double axis = side ? NU - 1 - center : center;
        CHECK_NEAR(end[side].value, row[side ? NU - 1 : 0], 1e-3);
        CHECK_NEAR(end[side].axis, axis, 1e-4);
        CHECK_NEAR(end[side].fall * (radius * radius - axis * axis), 1, 1e-4);
    }
    /* a cylinder too wide to end within the detector's width does so all the same */
    for (int i = 0; i < NU; i++)
        out[i] = 1;
    vp_row_ends(out, NU, center, NU, end);
    CHECK_NEAR(end[0].fall * NU * (2 * center + NU), 1, 1e-5);
    for (int i = 0; i < NU; i++)
        out[i] = row[i] * (float)(1.05 - fabs(i - 79.5) / 79.5);
    vp_row_ends(out, NU, center, NU, end);
    CHECK(end[0].value == 0 && end[1].value == 0);
    for (int i = 0; i < NU; i++)
        out[i] = (float)random01() - 0.3f;
    vp_row_ends(out, NU, center, NU, end);
    CHECK(end[0].value == 0 && end[1].value == 0);
    vp_row_ends(row, 31, center, NU, end);
    CHECK(end[0].value == 0 && end[1].value == 0);

    struct scan s, t;
    open_scan(&s, VP_PARALLEL, NU, 1, center - 0.5 * (NU - 1), 4, 180, false, false);
    open_scan(&t, VP_PARALLEL, WIDE, 1, 0, 4, 180, false, false);
    struct vp_filter *f = open_filter(&s, &(struct vp_filter_params){.cutoff = 1, .pad = -1}, 1);
    struct vp_filter *g = open_filter(&t, &plain, 1);
    vp_filter_rows(f, 1, 1, 0, 1, row, out);
    vp_filter_rows(g, 1, 1, 0, 1, wide, want);
    double worst = 0;
    for (int i = 0; i < NU; i++)
        worst = fmax(worst, fabs(out[i] * s.g.du - want[NU + i] * t.g.du));
    CHECK_NEAR(worst / (want[NU + 71] * t.g.du), 0, 1e-3);
    vp_filter_close(f);
    vp_filter_close(g);
    close_scan(&s);
    close_scan(&t);
}

static void test_not_finite(void)
{
    struct scan s;
    open_scan(&s, VP_CONE, 50, 1, 0, 4, 360, false, false);
    struct vp_filter *f = open_filter(&s, &plain, 1);
    float a[50], b[50];
    for (int i = 0; i < 50; i++)
        a[i] = b[i] = (float)random01();
    a[3] = NAN, a[20] = INFINITY, a[49] = -INFINITY;
    b[3] = b[20] = b[49] = 0;
    vp_filter_rows(f, 0, 1, 0, vp_filter_tables(f)->nv, a, a);
    vp_filter_rows(f, 0, 1, 0, vp_filter_tables(f)->nv, b, b);
    CHECK(!memcmp(a, b, sizeof a));
    vp_filter_close(f);
    close_scan(&s);
}

/* ---- weights ---- */

/* Views are placed so that each has the exact opposite of its ray (b, g) at (b + pi + 2 g, -g): the two
 * weights must sum to one, for Parker's and for the smooth weights of an arc that is too short, whatever the
 * sense and offset. */
static void test_short_weights(void)
{
    enum { PAIRS = 400, N = 2 * PAIRS + 2, NU = 101 };
    static const double arcs[] = {186, 240, 200, 300, 345, 350};
    for (int c = 0; c < 24; c++) {
        const double arc = arcs[c / 4] * PI / 180, offset = c & 2 ? c < 12 ? 10 : 2 : 0;
        const bool clockwise = c & 1;
        struct scan s = {.g = {.beam = VP_CONE, .sod = 300, .sdd = 500, .nu = NU, .nv = 1, .du = 1, .dv = 1,
                               .offset_u = offset, .clockwise = clockwise, .views = N}};
        struct vp_err err = VP_ERR_INIT;
        int column[N], mirror[N];
        s.g.angle = malloc(N * sizeof *s.g.angle);
        s.g.angle[N - 2] = 0;
        s.g.angle[N - 1] = arc * 180 / PI;
        for (int i = 0; i < PAIRS;) {
            const int u = (int)(random01() * NU), m = NU - 1 + 2 * (int)offset - u;
            const double g = atan((u - (NU - 1) / 2 - offset) / 500), b = random01() * arc,
                         other = b + PI + 2 * g;
            if (m < 0 || m >= NU || (other > arc && (other < 2 * PI || other > 2 * PI + arc)))
                continue;
            column[2 * i] = u, column[2 * i + 1] = m;
            mirror[2 * i] = 2 * i + 1, mirror[2 * i + 1] = 2 * i;
            s.g.angle[2 * i] = b * 180 / PI;
            s.g.angle[2 * i + 1] = fmod(other, 2 * PI) * 180 / PI;
            i++;
        }
        for (int k = 0; clockwise && k < N; k++)
            s.g.angle[k] = -s.g.angle[k];
        CHECK_INT(vp_geom_views(&s.g, &s.views, &s.scan, &err), 0);
        CHECK_INT(s.scan.kind, VP_SCAN_SHORT);
        CHECK_NEAR(s.scan.arc, arc, 1e-9);
        struct vp_filter *f = open_filter(&s, &plain, 1);
        CHECK_INT(vp_filter_tables(f)->redundancy, VP_RED_PARKER);
        CHECK((vp_filter_tables(f)->warning[0] != 0) == (c / 4 == 0));
        double worst = 0, inner = 0;
        for (int k = 0; k < 2 * PAIRS; k++) {
            const double w = weight_at(f, k, column[k], 0),
                         o = weight_at(f, mirror[k], column[mirror[k]], 0);
            worst = fmax(worst, fabs(w + o - 1));
            inner += w > 0.1 && w < 0.9;
        }
        CHECK_NEAR(worst, 0, 1e-6);
        CHECK(inner > 10);
        vp_filter_close(f);
        close_scan(&s);
    }
}

static void test_wang_weights(void)
{
    for (int side = -1; side <= 1; side += 2) {
        struct scan s;
        open_scan(&s, VP_CONE, 201, 1, side * 60, 90, 360, false, false);
        CHECK_INT(s.scan.offset, 1);
        struct vp_filter *f = open_filter(&s, &plain, 1);
        CHECK_INT(vp_filter_tables(f)->redundancy, VP_RED_WANG);
        const int64_t center = 100 + side * 60;
        double worst = 0;
        for (int64_t k = 0; k <= 40; k++)
            worst = fmax(worst,
                         fabs(weight_at(f, 7, center + k, 0) + weight_at(f, 7, center - k, 0) - 1));
        CHECK_NEAR(worst, 0, 1e-6);
        CHECK_NEAR(weight_at(f, 7, side > 0 ? 0 : 200, 0), 1, 0);      /* the side that sees further */
        CHECK(weight_at(f, 7, side > 0 ? 200 : 0, 0) < 0.01);
        vp_filter_close(f);
        close_scan(&s);
    }
}

/* An offset detector with gaps: a ray whose opposite would be in a gap counts for more, others share as by Wang, the
 * weights of all views at one distance from the axis, on both sides, add up to a full turn, and along a row they are
 * smooth. */
static void test_gap_weights(void)
{
    enum { NU = 240 };
    static const struct { double gap, every; bool clockwise; enum vp_beam beam; int side; } cases[] = {
        {30, 360, false, VP_CONE, -1}, {30, 360, true, VP_CONE, 1}, {60, 360, false, VP_CONE, 1},
        {21, 30, false, VP_CONE, -1}, {30, 360, false, VP_PARALLEL, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct scan s = {.g = {.beam = cases[c].beam, .sod = 300, .sdd = 450, .nu = NU, .nv = 1, .du = 1, .dv = 1,
                               .offset_u = cases[c].side * 70, .clockwise = cases[c].clockwise}};
        struct vp_err err = VP_ERR_INIT;
        s.g.angle = malloc(720 * sizeof *s.g.angle);
        for (int i = 0; i < 720; i++)
            if (fmod(i / 2.0, cases[c].every) >= cases[c].gap)
                s.g.angle[s.g.views++] = i / 2.0;
        CHECK_INT(vp_geom_views(&s.g, &s.views, &s.scan, &err), 0);
        CHECK(s.scan.offset);
        struct vp_filter *f = open_filter(&s, &plain, 1);
        CHECK_INT(vp_filter_tables(f)->redundancy, VP_RED_WANG);
        CHECK(strstr(vp_filter_tables(f)->text, "wang weights by ray") != NULL);
        /* columns that lie at distances +-(i + 1/2) from the axis, towards the side that sees further */
        const int middle = NU / 2 + cases[c].side * 70, turn = -cases[c].side;
        double steepest = 0, alone = 0, wang = 1;
        for (int i = 0; i < 180; i++) {
            const int far = turn > 0 ? middle + i : middle - 1 - i, near = turn > 0 ? middle - 1 - i : middle + i;
            double sum = 0;
            for (int64_t k = 0; k < s.g.views; k++) {
                const double w = weight_at(f, k, far, 0), n = near < 0 || near >= NU ? 0 : weight_at(f, k, near, 0);
                sum += s.views[k].weight * (w + n);
                alone = fmax(alone, i == 5 && w < 2 ? n : 0);
                wang = fmin(wang, i == 5 && w < 2 ? fabs(w + n - 1) : 1);
                /* of the full weight of this view, which is that of the outermost column */
                const double step = weight_at(f, k, far + turn, 0) - w;
                steepest = fmax(steepest, fabs(step) / weight_at(f, k, turn > 0 ? NU - 1 : 0, 0));
            }
            CHECK_NEAR(sum / (2 * PI), 1, cases[c].every < 360 ? 0.04 : 0.004);
        }
        if (getenv("VERBOSE"))
            printf("gap %g: steepest %.4f, alone %.3f, wang %.1g\n", cases[c].gap, steepest, alone, wang);
        CHECK(steepest < (cases[c].every < 360 ? 0.12 : 0.035));
        CHECK(cases[c].gap > 30 || alone > 0.6);
        CHECK(wang < 0.01);
        vp_filter_close(f);
        close_scan(&s);
    }
}

static void test_refusals(void)
{
    const struct { enum vp_beam beam; double arc, offset; int weights; const char *text; } cases[] = {
        {VP_CONE, 360, 0, VP_RED_PARKER, "--weights parker: expected a short scan, got a full turn"},
        {VP_PARALLEL, 180, 0, VP_RED_PARKER,
         "--weights parker: expected a cone or fan beam, got a parallel beam"},
        {VP_CONE, 180, 0, VP_RED_PARKER, "--weights parker: needs an arc of "},
        {VP_CONE, 200, 30, VP_RED_WANG, "--weights wang: expected a full turn, the scan covers "},
        {VP_PARALLEL, 180, 0, VP_RED_WANG, "--weights wang: expected a full turn, the scan covers "},
        {VP_CONE, 360, 60, VP_RED_AUTO, "the detector does not reach past the rotation axis"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scan s;
        struct vp_err err = VP_ERR_INIT;
        struct vp_filter *f = NULL;
        const struct vp_filter_params p = {.cutoff = 1, .redundancy = cases[i].weights};
        open_scan(&s, cases[i].beam, 100, 1, cases[i].offset, 72, cases[i].arc, false, false);
        CHECK_INT(vp_filter_open(&f, &p, &s.g, s.views, &s.scan, 1, &err), -1);
        CHECK_INT(err.code, VP_EUSAGE);
        CHECK(f == NULL);
        CHECK(!strncmp(err.msg, cases[i].text, strlen(cases[i].text)));
        close_scan(&s);
    }
}

/* ---- a disc, all the way ---- */

static const double MU = 0.02, CX = 9, CY = -6, RADIUS = 20;

/* Line integrals of the disc, rays recovered from the definition of the geometry in geom.h. */
static void project(const struct scan *s, float *p)
{
    for (int64_t k = 0; k < s->g.views; k++) {
        const double b = (s->g.clockwise ? -1 : 1) * s->g.angle[k] * PI / 180, sb = sin(b), cb = cos(b);
        for (int64_t u = 0; u < s->g.nu; u++) {
            const double t = ((double)u - 0.5 * (double)(s->g.nu - 1) - s->g.offset_u) * s->g.du;
            double d;           /* distance of the disc's centre from the ray */
            if (s->g.beam == VP_PARALLEL) {
                d = CX * cb + CY * sb - t;
            } else {
                const double dx = s->g.sdd * sb + t * cb, dy = -s->g.sdd * cb + t * sb;
                const double x = CX + s->g.sod * sb, y = CY - s->g.sod * cb;
                d = (x * dy - y * dx) / hypot(dx, dy);
            }
            p[k * s->g.nu + u] =
                (float)(d * d < RADIUS * RADIUS ? 2 * MU * sqrt(RADIUS * RADIUS - d * d) : 0);
        }
    }
}

/* Filtered with what belongs to it; s becomes the scan as it then is. */
static float *filtered(struct scan *s, const struct vp_filter_params *p, const float *in)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_filter *f = open_filter(s, p, 2);
    const int64_t nu = vp_filter_widen(f, &s->g);
    float *out = malloc((size_t)(s->g.views * s->g.nv * nu) * sizeof *out);

    CHECK_INT(nu, s->g.nu);
    vp_filter_rows(f, 0, s->g.views, 0, vp_filter_tables(f)->nv, in, out);
    if (getenv("VERBOSE"))
        printf("%s: ", vp_filter_tables(f)->describe);
    vp_filter_close(f);
    free(s->views);
    CHECK_INT(vp_geom_views(&s->g, &s->views, &s->scan, &err), 0);
    return out;
}

static double backproject(const struct scan *s, const float *q, double x, double y)
{
    double sum = 0;

    for (int64_t k = 0; k < s->g.views; k++) {
        const struct vp_view *v = &s->views[k];
        const double w = v->P[8] * x + v->P[9] * y + v->P[11], u = (v->P[0] * x + v->P[1] * y + v->P[3]) / w;
        const int64_t i = (int64_t)floor(u);
        const float *row = q + k * s->g.nu;
        if (i < -1 || i >= s->g.nu)
            continue;
        const double a = i >= 0 ? row[i] : 0, b = i + 1 < s->g.nu ? row[i + 1] : 0;
        sum += (a + (b - a) * (u - (double)i)) * (s->g.beam == VP_PARALLEL ? 1 : v->sod / w * v->sod / w);
    }
    return sum;
}

/* Root mean square of the relative error at points inside the disc, and the mean on a ring outside it. */
static double reconstruct(const struct scan *s, const float *q, double *outside)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < 60; i++) {
        const double r = 0.85 * RADIUS * sqrt(i / 60.0), a = 2.4 * i;
        const double e = backproject(s, q, CX + r * cos(a), CY + r * sin(a)) / MU - 1;
        sum += e * e;
        n++;
    }
    *outside = 0;
    for (int i = 0; i < n; i++)
        *outside += backproject(s, q, CX + 1.25 * RADIUS * cos(i), CY + 1.25 * RADIUS * sin(i)) / MU / n;
    return sqrt(sum / n);
}

/* The same scan as one matrix a view, of any scale. */
static void use_matrices(struct scan *s)
{
    struct vp_err err = VP_ERR_INIT;

    s->g.matrix = malloc((size_t)(12 * s->g.views) * sizeof *s->g.matrix);
    for (int64_t k = 0; k < s->g.views; k++)
        for (int i = 0; i < 12; i++)
            s->g.matrix[12 * k + i] = s->views[k].P[i] * (k % 2 ? -0.01 : 3);
    free(s->views);
    CHECK_INT(vp_geom_views(&s->g, &s->views, &s->scan, &err), 0);
}

static void test_disc(void)
{
    const struct {
        const char *name; enum vp_beam beam; double arc, offset; bool closed, clockwise, matrices;
    } cases[] = {
        {"full", VP_CONE, 360, 0, false, false, false},
        {"full clockwise", VP_CONE, 360, 0, false, true, false},
        {"full, last view repeats the first", VP_CONE, 360, 0, true, false, false},
        {"full, off centre", VP_CONE, 360, 5.3, false, false, false},
        {"short", VP_CONE, 194, 0, true, false, false},
        {"short clockwise", VP_CONE, 194, 0, true, true, false},
        {"short, long arc", VP_CONE, 270, 0, true, false, false},
        {"over-scan", VP_CONE, 300, 2, true, false, false},
        {"over-scan, clockwise", VP_CONE, 345, 0, true, true, false},
        {"all but a few views, matrices", VP_CONE, 356, 0, true, false, true},
        {"short, off centre", VP_CONE, 200, -8, true, true, false},
        {"half detector", VP_CONE, 360, -80, false, false, false},
        {"half detector, other side, clockwise", VP_CONE, 360, 80, false, true, false},
        {"half detector, closed", VP_CONE, 360, 80, true, false, false},
        {"half detector, matrices", VP_CONE, 360, -80, false, true, true},
        {"short, matrices", VP_CONE, 210, 3, true, false, true},
        {"parallel", VP_PARALLEL, 180, 0, false, false, false},
        {"parallel closed", VP_PARALLEL, 180, 24, true, true, false},
        {"parallel full", VP_PARALLEL, 360, 0, false, false, false},
        {"parallel half detector", VP_PARALLEL, 360, 80, false, false, false},
    };
    enum { NU = 240 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scan s;
        const int64_t n = 480;
        open_scan(&s, cases[i].beam, NU, 1, cases[i].offset, n, cases[i].arc, cases[i].closed,
                  cases[i].clockwise);
        if (cases[i].matrices)
            use_matrices(&s);
        float *p = malloc((size_t)(n * NU) * sizeof *p);
        double outside;
        project(&s, p);
        float *q = filtered(&s, &plain, p);
        const double e = reconstruct(&s, q, &outside);
        if (getenv("VERBOSE"))
            printf("%s: rms %.5f outside %.5f\n", cases[i].name, e, outside);
        if (!(e <= 0.0005 && fabs(outside) <= 0.005))
            printf("%s: rms error %g, outside %g\n", cases[i].name, e, outside);
        CHECK_NEAR(e, 0, 0.0005);
        CHECK_NEAR(outside, 0, 0.005);
        free(p);
        free(q);
        close_scan(&s);
    }
}

/* ---- detectors that face anywhere ---- */

struct pose { const char *name; double yaw, pitch, tilt, offset, source_x, source_z; };

static void turn_about(const double axis[3], double degrees, double v[3])
{
    const double c = cos(degrees * PI / 180), s = sin(degrees * PI / 180);
    const double along = axis[0] * v[0] + axis[1] * v[1] + axis[2] * v[2];
    const double r[3] = {v[0] * c + (axis[1] * v[2] - axis[2] * v[1]) * s + axis[0] * along * (1 - c),
                         v[1] * c + (axis[2] * v[0] - axis[0] * v[2]) * s + axis[1] * along * (1 - c),
                         v[2] * c + (axis[0] * v[1] - axis[1] * v[0]) * s + axis[2] * along * (1 - c)};
    memcpy(v, r, sizeof r);
}

/* The middle of the detector stays where the ray through the axis meets it, but for the offset; turned about z by
 * yaw, then about its rows by pitch, then in its plane by tilt; the source is moved along the orbit and along z. The
 * line integrals are those of a ball of radius RADIUS at the origin, or of a cylinder along z. */
static float *simulate_pose(struct scan *s, const struct pose *pose, bool cylinder)
{
    enum { NU = 240, NV = 72, N = 120 };
    const double sod = 400, sdd = 600, pitch = 0.75;
    struct vp_err err = VP_ERR_INIT;
    float *p = malloc(NU * NV * N * sizeof *p);

    *s = (struct scan){.g = {.beam = VP_CONE, .sod = sod, .sdd = sdd, .nu = NU, .nv = NV, .du = pitch, .dv = pitch,
                             .views = N, .angle = calloc(N, sizeof(double)),
                             .matrix = malloc(12 * N * sizeof(double))}};
    for (int k = 0; k < N; k++) {
        const double b = 2 * PI * k / N, z[3] = {0, 0, 1}, out[3] = {-sin(b), cos(b), 0};
        double eu[3] = {cos(b), sin(b), 0}, ev[3] = {0, 0, 1}, n[3] = {sin(b), -cos(b), 0}, source[3], middle[3];
        for (int i = 0; i < 3; i++) {
            source[i] = sod * out[i] + pose->source_x * eu[i] + pose->source_z * z[i];
            middle[i] = (sod - sdd) * out[i] - source[i];
        }
        turn_about(z, pose->yaw, eu), turn_about(z, pose->yaw, n);
        turn_about(eu, pose->pitch, ev), turn_about(eu, pose->pitch, n);
        turn_about(n, pose->tilt, eu), turn_about(n, pose->tilt, ev);
        const double cu = 0.5 * (NU - 1) + pose->offset, cv = 0.5 * (NV - 1);
        double *P = s->g.matrix + 12 * k, depth = 0, at_u = 0, at_v = 0;
        for (int i = 0; i < 3; i++)
            depth += middle[i] * n[i], at_u += middle[i] * eu[i], at_v += middle[i] * ev[i];
        for (int i = 0; i < 3; i++) {
            P[i] = depth / pitch * eu[i] + (cu - at_u / pitch) * n[i];
            P[4 + i] = depth / pitch * ev[i] + (cv - at_v / pitch) * n[i];
            P[8 + i] = n[i];
        }
        for (int row = 0; row < 12; row += 4)
            P[row + 3] = -P[row] * source[0] - P[row + 1] * source[1] - P[row + 2] * source[2];
        for (int v = 0; v < NV; v++)
            for (int u = 0; u < NU; u++) {
                double d[3], dd = 0, ds = 0, ss = 0, slant = 0;
                for (int i = 0; i < 3; i++) {
                    d[i] = middle[i] + (u - cu) * pitch * eu[i] + (v - cv) * pitch * ev[i];
                    slant += d[i] * d[i];
                }
                for (int i = 0; i < (cylinder ? 2 : 3); i++)
                    dd += d[i] * d[i], ds += d[i] * source[i], ss += source[i] * source[i];
                const double h = RADIUS * RADIUS - ss + ds * ds / dd;
                p[(k * NV + v) * NU + u] = (float)(h > 0 ? 2 * MU * sqrt(h * slant / dd) : 0);
            }
    }
    CHECK_INT(vp_geom_views(&s->g, &s->views, &s->scan, &err), 0);
    return p;
}

static double voxel(const struct scan *s, const float *q, double x, double y, double z)
{
    double sum = 0;

    for (int64_t k = 0; k < s->g.views; k++) {
        const double *P = s->views[k].P;
        const double w = P[8] * x + P[9] * y + P[10] * z + P[11], scale = s->views[k].sod / w;
        const double u = (P[0] * x + P[1] * y + P[2] * z + P[3]) / w, v = (P[4] * x + P[5] * y + P[6] * z + P[7]) / w;
        const int64_t i = (int64_t)floor(u), j = (int64_t)floor(v);
        CHECK(i >= 0 && i + 1 < s->g.nu && j >= 0 && j + 1 < s->g.nv);
        const float *r = q + (k * s->g.nv + j) * s->g.nu + i;
        const double a = u - (double)i, c = v - (double)j;
        sum += scale * scale * ((1 - c) * ((1 - a) * r[0] + a * r[1])
                                + c * ((1 - a) * r[s->g.nu] + a * r[s->g.nu + 1]));
    }
    return sum;
}

/* The mean over the inner part of a plane. */
static double mean_error(const struct scan *s, const float *q, double z)
{
    double sum = 0;

    for (int i = 0; i < 40; i++) {
        const double r = 0.7 * RADIUS * sqrt(i / 40.0);
        sum += voxel(s, q, r * cos(2.4 * i), r * sin(2.4 * i), z) / MU - 1;
    }
    return sum / 40;
}

static void test_poses(void)
{
    static const struct pose poses[] = {
        {.name = "perpendicular"}, {"yaw 10", 10, 0, 0, 0, 0, 0}, {"yaw -5", -5, 0, 0, 0, 0, 0},
        {"pitch 10", 0, 10, 0, 0, 0, 0}, {"yaw -10, pitch 10", -10, 10, 0, 0, 0, 0},
        {"yaw 10, pitch -10, tilt 3", 10, -10, 3, 0, 0, 0}, {"source along the orbit", 0, 0, 0, 0, 12, 0},
        {"source above", 0, 0, 0, 0, 0, 25}, {"source moved, yaw 5", 5, 0, 0, 0, -12, 20},
    };
    for (size_t i = 0; i < sizeof poses / sizeof *poses; i++) {
        struct scan s;
        float *p = simulate_pose(&s, &poses[i], false);
        float *q = filtered(&s, &plain, p);
        const double e = mean_error(&s, q, 0);
        if (!(fabs(e) < 0.001) || getenv("VERBOSE"))
            printf("%s: %.5f\n", poses[i].name, e);
        CHECK_NEAR(e, 0, 0.001);
        free(p);
        free(q);
        close_scan(&s);
    }
}

/* Wang's weights where rays fan out differently in each row; the cosine of the tilt is known to be missing. */
static void test_tilted_half_detector(void)
{
    static const struct pose poses[] = {
        {"tilt 0", 0, 0, 0, 40, 0, 0}, {"tilt 0.5", 0, 0, 0.5, 40, 0, 0}, {"tilt 3", 0, 0, 3, 40, 0, 0},
        {"tilt -3, little offset", 0, 0, -3, 8, 0, 0}, {"tilt 2, yaw 5, pitch 5", 5, 5, 2, -50, 0, 0},
    };
    for (size_t i = 0; i < sizeof poses / sizeof *poses; i++) {
        struct scan s;
        float *p = simulate_pose(&s, &poses[i], true);
        CHECK(s.scan.offset);
        struct vp_filter *f = open_filter(&s, &plain, 1);
        CHECK_INT(vp_filter_tables(f)->redundancy, VP_RED_WANG);
        vp_filter_close(f);
        float *q = filtered(&s, &plain, p);
        for (int z = -8; z <= 8; z += 8) {
            const double e = mean_error(&s, q, z);
            if (!(fabs(e) < 0.002) || getenv("VERBOSE"))
                printf("%s, z %d: %.5f\n", poses[i].name, z, e);
            CHECK_NEAR(e, 0, 0.002);
        }
        free(p);
        free(q);
        close_scan(&s);
    }
}

/* A ball that both sides of a tilted detector see is as good as on a detector that is not to one side: opposite views
 * of equal weight make up for what tilted rows do where the object changes along z. */
static void test_tilted_ball(void)
{
    static const struct pose poses[] = {{"tilt 2", 0, 0, 2, 30, 0, 0}, {"the other side", 0, 0, -2, -30, 0, 0}};

    for (int i = 0; i < 2; i++) {
        struct scan s;
        float *p = simulate_pose(&s, &poses[i], false);
        CHECK(s.scan.offset);
        float *q = filtered(&s, &plain, p);
        const double below = mean_error(&s, q, -8), above = mean_error(&s, q, 8);
        if (!(fabs(below - above) < 0.0005) || getenv("VERBOSE"))
            printf("%s: %.5f below, %.5f above\n", poses[i].name, below, above);
        CHECK_NEAR(below - above, 0, 0.0005);
        free(p);
        free(q);
        close_scan(&s);
    }
}

/* Parker's weights put in by hand, once as they are and once for the wrong sense of rotation: the test above
 * would notice. */
static void test_wrong_sense(void)
{
    enum { NU = 240, N = 389 };
    struct scan s;
    open_scan(&s, VP_CONE, NU, 1, 0, N, 194, true, false);
    struct vp_filter *w = open_filter(&s, &plain, 1);
    const struct vp_filter_params none = {.cutoff = 1, .redundancy = VP_RED_NONE};
    struct vp_filter *f = open_filter(&s, &none, 1);
    float *p = malloc(NU * N * sizeof *p), *q = malloc(NU * N * sizeof *q);
    double total = 0, outside;
    for (int k = 0; k < N; k++)
        total += s.views[k].weight;
    project(&s, p);
    for (int wrong = 0; wrong < 2; wrong++) {
        for (int i = 0; i < NU * N; i++) {
            const int u = wrong ? NU - 1 - i % NU : i % NU;
            q[i] = (float)(p[i] * weight_at(w, i / NU, u, 0) * total / PI);
        }
        vp_filter_rows(f, 0, N, 0, vp_filter_tables(f)->nv, q, q);
        const double e = reconstruct(&s, q, &outside);
        if (getenv("VERBOSE"))
            printf("parker, %s sense: rms %.5f outside %.5f\n", wrong ? "wrong" : "right", e, outside);
        CHECK(wrong ? e > 0.01 : e < 0.0005);
    }
    free(p);
    free(q);
    vp_filter_close(w);
    vp_filter_close(f);
    close_scan(&s);
}

int main(void)
{
    test_delta();
    test_direct();
    test_linear();
    test_bits();
    test_truncated();
    test_not_finite();
    test_short_weights();
    test_wang_weights();
    test_gap_weights();
    test_refusals();
    test_disc();
    test_poses();
    test_tilted_half_detector();
    test_tilted_ball();
    test_wrong_sense();
    return test_done();
}
