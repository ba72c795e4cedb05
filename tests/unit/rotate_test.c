/* SPDX-License-Identifier: BSD-3-Clause */
/* img-reslice --rotate against sums over all samples in f64, voxel by voxel; and the regions that the planner gets. */
#include "apply.h"
#include "base/err.h"
#include "local/rotate.h"
#include "pages/reslice.h"
#include "pretend.h"

static double keys(double t)
{
    return t <= 1 ? 1.5 * t * t * t - 2.5 * t * t + 1 : t < 2 ? -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2 : 0;
}

static double weight(enum vp_rotate_method m, double t)
{
    return m == VP_ROTATE_LINEAR ? fmax(0, 1 - t) : keys(t);
}

/* Sets the position in the input of the centre of a voxel, in voxels, through physical space. */
static void position(const struct vp_rotate_params *p, const int64_t o[3], double at[3])
{
    const int b = (p->about + 1) % 3, c = (p->about + 2) % 3;
    const double angle = p->degrees * (M_PI / 180);
    double q[3];
    for (int a = 0; a < 3; a++)
        q[a] = ((double)o[a] - (double)(p->out[a] - 1) / 2) * p->voxel[a];
    const double x = cos(angle) * q[b] + sin(angle) * q[c], y = cos(angle) * q[c] - sin(angle) * q[b];
    q[b] = x;
    q[c] = y;
    for (int a = 0; a < 3; a++)
        at[a] = q[a] / p->voxel[a] + (double)(p->in[a] - 1) / 2;
}

/* Returns a voxel; *doubt is set if roundings decide which one it is. */
static double reference(const struct vp_rotate_params *p, const double *in, const int64_t o[3], bool *doubt)
{
    double at[3], sum = 0, total = 0;
    bool outside = false;

    position(p, o, at);
    for (int a = 0; a < 3; a++) {
        const double most = (double)p->in[a] - 0.5;
        *doubt = *doubt || fabs(at[a] + 0.5) < 1e-9 || fabs(at[a] - most) < 1e-9
                 || (p->method == VP_ROTATE_NEAREST && fabs(fabs(at[a] - rint(at[a])) - 0.5) < 1e-9);
        outside = outside || at[a] < -0.5 || at[a] > most;
        at[a] = fmin(fmax(at[a], -0.5), most);
    }
    if (outside && !p->edge)
        return p->outside;
    if (p->method == VP_ROTATE_NEAREST) {
        int64_t k[3];
        for (int a = 0; a < 3; a++)
            k[a] = vp_min64(p->in[a] - 1, vp_max64(0, (int64_t)floor(at[a] + 0.5)));
        return in[(k[2] * p->in[1] + k[1]) * p->in[0] + k[0]];
    }
    for (int64_t z = 0; z < p->in[2]; z++)
        for (int64_t y = 0; y < p->in[1]; y++)
            for (int64_t x = 0; x < p->in[0]; x++) {
                const double w = weight(p->method, fabs(at[0] - (double)x)) * weight(p->method, fabs(at[1] - (double)y))
                                 * weight(p->method, fabs(at[2] - (double)z));
                sum += w * in[(z * p->in[1] + y) * p->in[0] + x];
                total += w;
            }
    return sum / total;
}

static void draw(struct vp_rotate_params *p, int64_t most)
{
    static const double angles[] = {0, 90, 180, 270, -90, 45, 30, 360, 89.9};
    *p = (struct vp_rotate_params){.about = (int)dice(0, 2), .method = (enum vp_rotate_method)dice(0, 2),
                                   .edge = dice(0, 2) == 0, .outside = (double)dice(0, 9)};
    p->degrees = dice(0, 2) ? (double)dice(-4000, 4000) / 10 : angles[dice(0, 8)];
    for (int a = 0; a < 3; a++) {
        p->in[a] = dice(0, 5) ? dice(2, most) : 1;
        p->voxel[a] = 1;
    }
    if (dice(0, 2) == 0)
        for (int a = 0; a < 3; a++)
            p->voxel[a] = (double)dice(1, 40) / 10;
    if (dice(0, 1))
        vp_rotate_same(p);
    else
        vp_rotate_whole(p);
}

static void test_reference(void)
{
    static const enum vp_type types[] = {VP_F32, VP_F64, VP_U8, VP_I16, VP_U32, VP_U16, VP_I8, VP_I32};
    int64_t compared = 0, doubtful = 0, integers = 0;

    for (int trial = 0; trial < 400; trial++) {
        const enum vp_type type = types[trial % 8];
        struct vp_rotate_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        draw(&p, trial % 20 ? 11 : 90);
        if (trial % 20 == 0)
            p.in[p.about] = p.out[p.about] = 1;
        const int64_t samples = p.in[0] * p.in[1] * p.in[2], voxels = p.out[0] * p.out[1] * p.out[2];
        double *in = malloc((size_t)samples * 8), *got = malloc((size_t)voxels * 8);
        void *stored = malloc((size_t)samples * 8), *made = malloc((size_t)voxels * 8);
        for (int64_t i = 0; i < samples; i++)
            in[i] = (double)dice(0, type == VP_U32 ? UINT32_MAX : type == VP_U16 ? 65535 : 120);
        vp_convert(stored, type, in, VP_F64, samples, 1, 0);
        CHECK_INT(vp_rotate_chain(&c, &p, type, &err), 0);
        CHECK_INT(vp_chain_apply(&c, (const void *[]){stored}, made, 2, &err), 0);
        vp_convert(got, VP_F64, made, type, voxels, 1, 0);
        double most = 0;
        for (int64_t i = 0; i < voxels; i++) {
            const int64_t o[3] = {i % p.out[0], i / p.out[0] % p.out[1], i / p.out[0] / p.out[1]};
            bool doubt = false;
            double want = reference(&p, in, o, &doubt);
            const double exact = want;
            if (!vp_type_is_float(type)) {
                char one[8];
                vp_convert(one, type, &want, VP_F64, 1, 1, 0);
                vp_convert(&want, VP_F64, one, type, 1, 1, 0);
                doubt = doubt || fabs(fabs(exact - rint(exact)) - 0.5) < (type == VP_U32 ? 1e-3 : 1e-6);
                integers++;
            }
            doubtful += doubt;
            compared++;
            if (!doubt)
                most = fmax(most, fabs(got[i] - want));
        }
        CHECK(most <= (type == VP_F32 ? 1e-5 : type == VP_F64 ? 1e-10 : 0));
        vp_chain_free(&c);
        free(in);
        free(got);
        free(stored);
        free(made);
    }
    CHECK(doubtful < compared / 8 && integers > compared / 2);
}

/* Quarter turns of a result that contains all are those of img-reslice --turn, for every type. */
static void test_quarters(void)
{
    for (int trial = 0; trial < 200; trial++) {
        const enum vp_type type = (enum vp_type)(trial % VP_N_TYPES);
        const size_t size = vp_type_size(type);
        struct vp_rotate_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_reslice r;
        const int quarters = (int)dice(0, 5);
        draw(&p, 13);
        p.degrees = 90 * quarters - 360 * (trial % 3);
        for (int a = 0; a < 3; a++)
            p.voxel[a] = 1;
        vp_rotate_whole(&p);
        vp_reslice_none(&r);
        for (int i = 0; i < quarters; i++)
            vp_reslice_turn(&r, p.about);
        CHECK(vp_rotate_exact(&p));
        const int64_t n = p.in[0] * p.in[1] * p.in[2];
        CHECK_INT(p.out[0] * p.out[1] * p.out[2], n);
        char *in = malloc((size_t)n * size), *out = malloc((size_t)n * size);
        for (size_t i = 0; i < (size_t)n * size; i++)
            in[i] = (char)dice(0, 255);
        CHECK_INT(vp_rotate_chain(&c, &p, type, &err), 0);
        CHECK_INT(vp_chain_apply(&c, (const void *[]){in}, out, 2, &err), 0);
        int64_t others = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t o[3] = {i % p.out[0], i / p.out[0] % p.out[1], i / p.out[0] / p.out[1]};
            int64_t s[3];
            for (int a = 0; a < 3; a++)
                s[r.from[a]] = r.flip[a] ? p.out[a] - 1 - o[a] : o[a];
            const int64_t from = (s[2] * p.in[1] + s[1]) * p.in[0] + s[0];
            others += memcmp(out + (size_t)i * size, in + (size_t)from * size, size) != 0;
        }
        CHECK_INT(others, 0);
        vp_chain_free(&c);
        free(in);
        free(out);
    }
}

/* Regions grow at both ends along z, and along y unless said otherwise; they are no larger than the planner expects;
 * and a box made from its region alone has the bits of the whole. */
static void test_regions(void)
{
    for (int trial = 0; trial < 1500; trial++) {
        struct vp_rotate_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_box out, next;
        draw(&p, 40);
        CHECK_INT(vp_rotate_chain(&c, &p, VP_F32, &err), 0);
        const struct vp_op *op = c.stage;
        for (int a = 0; a < 3; a++) {
            out.lo[a] = dice(0, p.out[a] - 1);
            out.hi[a] = dice(out.lo[a] + 1, p.out[a]);
        }
        const struct vp_box in = vp_op_region(op, &out);
        for (int a = 0; a < 3; a++) {
            CHECK(in.lo[a] >= 0 && in.hi[a] <= p.in[a] && in.lo[a] < in.hi[a]);
            CHECK(vp_box_size(&in, a) <= vp_op_extent(op, a, vp_box_size(&out, a)));
            next = out;
            next.lo[a] = dice(out.lo[a], p.out[a] - 1);
            next.hi[a] = dice(vp_max64(next.lo[a] + 1, out.hi[a]), p.out[a]);
            const struct vp_box more = vp_op_region(op, &next);
            if (a == 2 || (a == 1 && !op->mapping->any_order))
                CHECK(more.lo[a] >= in.lo[a] && more.hi[a] >= in.hi[a]);
        }
        vp_chain_free(&c);
    }
}

/* A constant stays the same to the bit, and a NaN spoils no voxel in which it has no weight. */
static void test_exact(void)
{
    for (int trial = 0; trial < 200; trial++) {
        const bool f64 = trial % 2;
        struct vp_rotate_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        draw(&p, 30);
        p.edge = true;
        const int64_t voxels = p.out[0] * p.out[1] * p.out[2], samples = p.in[0] * p.in[1] * p.in[2];
        CHECK_INT(vp_rotate_chain(&c, &p, f64 ? VP_F64 : VP_F32, &err), 0);
        CHECK_INT(vp_chain_changes(&c, f64, samples, voxels, &err), 0);
        vp_chain_free(&c);
    }
    /* half a turn of 5 x 4 in 4 x 4: positions are between samples along x only */
    for (int method = VP_ROTATE_LINEAR; method <= VP_ROTATE_CUBIC; method++) {
        struct vp_rotate_params p = {.about = 2, .degrees = 180, .voxel = {1, 1, 1}, .in = {5, 4, 1}, .out = {4, 4, 1},
                                     .method = (enum vp_rotate_method)method, .outside = 7};
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        float in[20], out[16];
        for (int i = 0; i < 20; i++)
            in[i] = (float)i;
        in[7] = NAN;
        CHECK_INT(vp_rotate_chain(&c, &p, VP_F32, &err), 0);
        CHECK_INT(vp_chain_apply(&c, (const void *[]){in}, out, 1, &err), 0);
        for (int i = 0; i < 16; i++)
            CHECK(isnan(out[i]) == (i / 4 == 2 && (method == VP_ROTATE_CUBIC || i % 4 == 1 || i % 4 == 2)));
        vp_chain_free(&c);
    }
}

static void test_refused(void)
{
    struct vp_rotate_params p = {.about = 2, .degrees = 10, .voxel = {1, 1, 1}, .in = {4, 4, 1}, .out = {4, 4, 1},
                                 .method = VP_ROTATE_LINEAR};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_rotate_chain(&c, &p, VP_U64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

int main(void)
{
    test_reference();
    test_quarters();
    test_regions();
    test_exact();
    test_refused();
    return test_done();
}
