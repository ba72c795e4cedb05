/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables: integers against the plain sum, floats to the bit against the order that sat.h writes down, and
 * against sums in long double. */
#include "image/sat.h"

#include "base/err.h"
#include "base/size.h"
#include "test.h"

#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t dice(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1));
}

/* ---- what is wanted ---- */

static void prefix(double *s, int n)
{
    for (int d = 1; d < n; d *= 2)
        for (int i = n - 1; i >= d; i--)
            s[i] += s[i - d];
}

/* Sums along x within tiles, and of each row the sum of each tile. */
static void rows_of(const double *a, double *r, double *sum, int64_t nx)
{
    double group[64], s[32];
    for (int64_t tile = 0; tile * 256 < nx; tile++) {
        double g = 0;
        for (int64_t x0 = tile * 256; x0 < tile * 256 + 256; x0 += 64) {
            for (int i = 0; i < 64; i++)
                group[i] = x0 + i < nx ? a[x0 + i] : 0;
            for (int i = 0; i < 32; i++)
                s[i] = group[2 * i] + group[2 * i + 1];
            prefix(s, 32);
            for (int i = 0; i < 64 && x0 + i < nx; i++) {
                const double left = (i > 1 ? s[i / 2 - 1] : 0) + g;
                r[x0 + i] = (i % 2 ? group[i - 1] + group[i] : group[i]) + left;
            }
            g += s[31];
        }
        sum[tile] = g;
    }
}

/* The order that is written down, row by row. */
static void want_floats(const double *a, double *out, int64_t nx, int64_t ny, int64_t segment)
{
    const int64_t tiles = (nx + 255) / 256, groups = (ny + 7) / 8;
    double *r = malloc((size_t)(groups * 8 * nx) * sizeof *r), *l = calloc((size_t)(groups * 8 * tiles), sizeof *l);
    for (int64_t y = 0; y < ny; y++) {
        double *sum = malloc((size_t)tiles * sizeof *sum), left = 0;
        rows_of(a + y * nx, r + y * nx, sum, nx);
        for (int64_t t = 0; t < tiles; t++) {
            l[y * tiles + t] = left;
            left += sum[t];
        }
        free(sum);
    }
    for (int64_t x = 0; x < nx; x++) {
        double p = 0, above = 0, o = 0, q = 0, t = 0;
        for (int64_t g = 0; g < groups; g++) {
            double h[8], v = 0, last = 0;
            for (int k = 0; k < 8; k++)
                h[k] = l[(g * 8 + k) * tiles + x / 256];
            prefix(h, 8);
            for (int64_t y = g * 8; y < ny && y < g * 8 + 8; y++) {
                v = y % 8 ? v + r[y * nx + x] : r[y * nx + x];
                last = out[y * nx + x] = p + (v + ((q + h[y % 8]) + (o + (t + above))));
            }
            o += v;
            q += h[7];
            if (g % 8 == 7) {
                above += o;
                t += q;
                o = q = 0;
            }
            if ((g + 1) * 8 % segment == 0) {
                p = last;
                above = t = 0;
            }
        }
    }
    free(r);
    free(l);
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
static void make_want(void *out, enum vp_type to, const void *a, enum vp_type t, const int64_t n[3], bool volume, bool square,
                      int64_t segment)
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
        want_floats(d + z * page, table + z * page, n[0], n[1], segment);
        for (int64_t i = 0; i < page && volume; i++)
            table[z * page + i] = (z ? table[(z - 1) * page + i] : 0) + table[z * page + i];
    }
    vp_convert(out, to, table, VP_F64, all, 1, 0);
    free(d);
    free(table);
}

/* ---- what is got ---- */

/* Part by part, along rows of an image or planes of a volume. */
static void run_parts(const struct vp_op *op, const void *a, void *const out[2], const int64_t n[3], bool volume,
                      int threads)
{
    const int64_t page = n[0] * n[1], along = volume ? n[2] : n[1];
    const int64_t plane = volume ? page : n[0], step = op->step[2];
    const size_t in_size = vp_type_size(op->in), size[2] = {vp_type_size(op->out), vp_type_size(op->twin_out)};
    for (int64_t image = 0; image < (volume ? 1 : n[2]); image++) {
        const struct vp_box all = {{0, 0, 0}, {n[0], volume ? n[1] : 1, along}};
        const uint64_t bytes = op->keeps(op, &all, threads);
        char *kept = aligned_alloc(64, bytes), *scratch = aligned_alloc(64, (op->scratch(op, &all, &all, threads) + 63) / 64 * 64);
        memset(kept, 0, bytes);
        for (int64_t z = 0; z < along;) {
            int64_t end = vp_min64(along, z + step * dice(1, 3));
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
            CHECK_INT(op->go_on(op, &in, to, scratch, kept, threads, NULL), 0);
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
        if (!vp_sat_use(&op, set)) {
            free(p);
            continue;
        }
        if (dice(0, 3) == 0)
            p->segment = 64, op.step[2] = r.volume ? op.step[2] : 64;
        kinds[p->sum[0]]++;
        void *a = malloc((size_t)all * vp_type_size(in));
        fill(a, in, all);
        void *want[2] = {malloc((size_t)all * 8), malloc((size_t)all * 8)};
        void *got[2] = {malloc((size_t)all * 8), r.squares ? malloc((size_t)all * 8) : NULL};
        const int threads = (int)dice(1, 5);
        run_parts(&op, a, got, n, r.volume, threads);
        for (int k = 0; k < p->tables; k++) {
            const enum vp_type to = k ? op.twin_out : op.out;
            make_want(want[k], to, a, in, n, r.volume, k, p->segment);
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
    printf("%d tables: %d in u32, %d in u64, %d in f64\n", runs, kinds[0], kinds[1], kinds[2]);
    CHECK(runs > 200);
    CHECK(kinds[0] > 20 && kinds[1] > 20 && kinds[2] > 100);
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
        a[i] = (float)(next_random() >> 40) / 16777216.f;
    CHECK_INT(vp_sat_op(&op, &r, size, VP_F32, &err), 0);
    run_parts(&op, a, (void *const[]){t, NULL}, n, false, 2);
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

int main(void)
{
    test_types();
    test_tables();
    test_precision();
    return test_done();
}
