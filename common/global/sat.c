/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables on the CPU: eight rows at a time, by strips of columns, one for each thread. A strip passes
 * the row sums of its eight rows to the next strip, so the threads advance down the image like a staircase. */
#include "global/sat.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "base/team.h"
#include "global/sat_isa.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE = 64,
    RING = 16,            /* maximum lead of a strip over the next, groups of rows */
    MAX_STRIPS = 64,
    PAST_BYTES = 1 << 24  /* bytes of a result above which stores bypass the caches */
};

/* Sums of rows that a strip passes to the next: for each of its groups of rows and each table. */
struct strip {
    _Alignas(LINE) int64_t done;
    _Alignas(LINE) double left[RING][2][VP_SAT_ROWS];
};

/* The last columns, which do not fill a tile, go through memory that may be read and written beyond. */
struct spare {
    _Alignas(LINE) char in[VP_SAT_ROWS][VP_SAT_WIDE * 8], out[VP_SAT_ROWS][VP_SAT_WIDE * 8];
};

/* One table. All arrays have p->width numbers. */
struct table {
    void (*rows)(const struct vp_sat_rows *r);
    size_t size, out_size;   /* bytes of a sum, of a sample of the result */
    bool f32;
    char *above, *plane;     /* carried row; carried plane, or NULL */
    double *group;           /* floats: see struct vp_sat_rows */
};

struct job {
    const struct vp_sat *p;
    const struct vp_part *in, *out;
    size_t in_size;
    int line;                /* see struct vp_sat_isa */
    int64_t nx, first, rows; /* rows of a plane in this part (2-D: of the part), the first of them */
    int64_t planes, groups;  /* groups of rows of each plane */
    int64_t tiles;           /* along x */
    bool past;
    struct table table[2];
    struct strip *strip;     /* one for each strip */
    struct spare *spare;
};

static int64_t tiles_of(int64_t columns)
{
    return vp_div_up(columns, VP_SAT_WIDE);
}

static int strips_of(const struct vp_op *op, int threads)
{
    return (int)vp_min64(vp_min64(threads, MAX_STRIPS), tiles_of(op->image[0]));
}

/* ---- one strip ---- */

/* Sums `n` columns of the rows of b: whole tiles first. */
static void make_columns(const struct job *j, const struct table *t, struct vp_sat_rows *b, int64_t n,
                         struct spare *spare)
{
    const int64_t direct = n / VP_SAT_WIDE * VP_SAT_WIDE;
    struct vp_sat_rows rest = *b;

    b->columns = direct;
    b->past = j->past && b->rows == VP_SAT_ROWS;
    for (int r = 0; r < b->rows; r++)
        b->past = b->past && (uintptr_t)b->dst[r] % (uintptr_t)j->line == 0;
    if (direct)
        t->rows(b);
    if (n == direct)
        return;
    const size_t in = (size_t)(n - direct) * j->in_size, out = (size_t)(n - direct) * t->out_size;
    rest.columns = tiles_of(n - direct) * VP_SAT_WIDE;
    rest.past = false;
    rest.above = (char *)rest.above + (size_t)direct * t->size;
    if (t->group)
        rest.group += direct / VP_SAT_WIDE * VP_SAT_GROUP;
    for (int r = 0; r < b->rows; r++) {
        memcpy(spare->in[r], (const char *)b->src[r] + (size_t)direct * j->in_size, in);
        memset(spare->in[r] + in, 0, (size_t)rest.columns * j->in_size - in);
        rest.src[r] = spare->in[r];
        rest.dst[r] = spare->out[r];
        if (rest.plane[r])
            rest.plane[r] = (char *)rest.plane[r] + (size_t)direct * t->size;
    }
    t->rows(&rest);
    for (int r = 0; r < b->rows; r++)
        memcpy((char *)b->dst[r] + (size_t)direct * t->out_size, spare->out[r], out);
}

/* Fills b with group `group` of the rows of a plane, from column x of a table on. */
static void make_group(const struct job *j, int which, int64_t plane, int64_t group, int64_t x, int64_t n, void *left,
                       struct spare *spare)
{
    const struct table *t = &j->table[which];
    const struct vp_part *out = &j->out[which];
    const int64_t first = group * VP_SAT_ROWS, y = j->first + first, end = y + VP_SAT_ROWS;
    struct vp_sat_rows b = {
        .rows = (int)vp_min64(VP_SAT_ROWS, j->rows - first), .square = which == 1, .f32 = t->f32, .left = left,
        .above = t->above + (size_t)x * t->size, .ends_tile = end % j->p->high == 0,
        .group = t->group ? t->group + x / VP_SAT_WIDE * VP_SAT_GROUP : NULL};
    for (int r = 0; r < b.rows; r++) {
        const int64_t at = first + r;
        const int64_t in_y = j->p->volume ? at : 0, z = j->p->volume ? plane : at;
        b.src[r] = vp_part_at(j->in, j->in_size, x, in_y, j->in->box.lo[2] + z);
        b.dst[r] = vp_part_at(out, t->out_size, x, in_y, out->box.lo[2] + z);
        b.plane[r] = t->plane ? t->plane + (size_t)(at * j->p->width + x) * t->size : NULL;
    }
    make_columns(j, t, &b, n, spare);
}

/* Clears the row above the first one. In an image the carried row stays. */
static void begin_table(const struct job *j, const struct table *t, int64_t x, int64_t n)
{
    const size_t tiles = (size_t)(tiles_of(n));
    if (j->p->volume)
        memset(t->above + (size_t)x * t->size, 0, tiles * VP_SAT_WIDE * t->size);
    if (t->group)
        memset(t->group + x / VP_SAT_WIDE * VP_SAT_GROUP, 0, tiles * VP_SAT_GROUP * sizeof *t->group);
}

/* Makes strip i of n: every group of rows of every plane, once the strip to the left has made it. */
static void make_strip(const struct job *j, int i, int n)
{
    const int64_t x = j->tiles * i / n * VP_SAT_WIDE, end = vp_min64(j->nx, j->tiles * (i + 1) / n * VP_SAT_WIDE);
    struct strip *own = &j->strip[i];
    int64_t done = 0;
    for (int64_t plane = 0; plane < j->planes; plane++) {
        for (int k = 0; k < j->p->tables; k++)
            begin_table(j, &j->table[k], x, end - x);
        for (int64_t g = 0; g < j->groups; g++) {
            double(*left)[VP_SAT_ROWS] = own->left[done % RING];
            if (i)
                vp_team_wait(&own[-1].done, done + 1);
            if (i < n - 1)
                vp_team_wait(&own[1].done, done - RING + 1);
            for (int k = 0; k < j->p->tables; k++) {
                if (i)
                    memcpy(left[k], own[-1].left[done % RING][k], sizeof left[k]);
                else
                    memset(left[k], 0, sizeof left[k]);
                make_group(j, k, plane, g, x, end - x, left[k], &j->spare[i]);
            }
            __atomic_store_n(&own->done, ++done, __ATOMIC_RELEASE);
        }
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* completes non-temporal stores */
}

/* ---- the operation ---- */

/* Fills the workspace with pointers into `scratch` (NULL: none). Returns its bytes. */
static size_t workspace_layout(struct job *j, const struct vp_op *op, void *scratch, char *kept, int strips)
{
    const struct vp_sat *p = op->params;
    const struct vp_sat_isa *isa = VP_ISA_FIND(vp_sat, NULL);
    size_t used = 0;
    j->line = isa->line;
    j->strip = vp_place(scratch, &used, (size_t)strips * sizeof *j->strip);
    j->spare = vp_place(scratch, &used, (size_t)strips * sizeof *j->spare);
    for (int k = 0; k < p->tables; k++) {
        struct table *t = &j->table[k];
        const enum vp_sat_sum sum = p->sum[k];
        char *const carried = kept && k ? kept + vp_sat_carried(op, 0) : kept;
        t->rows = (sum == VP_SAT_U32 ? isa->u32 : sum == VP_SAT_U64 ? isa->u64 : isa->f64)[op->in];
        t->size = vp_sat_size(sum);
        t->out_size = vp_type_size(k ? op->twin_out : op->out);
        t->f32 = !k && op->out == VP_F32;
        t->plane = p->volume ? carried : NULL;
        t->above = p->volume ? vp_place(scratch, &used, (size_t)p->width * t->size) : carried;
        t->group = sum != VP_SAT_F64 ? NULL
                   : vp_place(scratch, &used, (size_t)tiles_of(op->image[0]) * VP_SAT_GROUP * sizeof(double));
    }
    return used;
}

static uint64_t scratch_bytes(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    (void)in, (void)out;
    return workspace_layout(&(struct job){0}, op, NULL, NULL, strips_of(op, threads));
}

/* Returns the bytes of carried state: a row of each table, in volumes a plane. */
static uint64_t keeps(const struct vp_op *op, const struct vp_box *out, int threads)
{
    (void)out, (void)threads;
    return vp_sat_carried(op, 0) + (op->twin ? vp_sat_carried(op, 1) : 0);
}

static int go_on(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch, void *kept,
                 int threads, struct vp_err *err)
{
    const struct vp_sat *p = op->params;
    const int64_t deep = vp_box_size(&out->box, 2);
    struct job j = {.p = p, .in = in, .out = out, .in_size = vp_type_size(op->in), .nx = op->image[0],
                    .first = p->volume ? 0 : out->box.lo[2], .rows = p->volume ? op->image[1] : deep,
                    .planes = p->volume ? deep : 1, .tiles = tiles_of(op->image[0])};
    (void)err;
    j.groups = vp_div_up(j.rows, VP_SAT_ROWS);
    j.past = j.nx * j.rows * j.planes * (int64_t)vp_type_size(op->out) >= PAST_BYTES;
    const int strips = strips_of(op, threads);
    workspace_layout(&j, op, scratch, kept, strips);
    for (int i = 0; i < strips; i++)
        j.strip[i].done = 0;
    #pragma omp parallel num_threads(strips) if (strips > 1)
    make_strip(&j, omp_get_thread_num(), omp_get_num_threads());
    return 0;
}

/* Combines two carried states: adds the later one to the earlier. */
static void join(const struct vp_op *op, void *before, const void *total, uint64_t bytes)
{
    const struct vp_sat *p = op->params;
    const int64_t n = p->width * (p->volume ? op->image[1] : 1);
    char *to = before;
    const char *from = total;
    (void)bytes;
#define ADD_UP(T)                   \
    for (int64_t i = 0; i < n; i++) \
        ((T *)to)[i] += ((const T *)from)[i];
    for (int k = 0; k < p->tables; k++) {
        if (p->sum[k] == VP_SAT_U32)
            ADD_UP(uint32_t)
        else if (p->sum[k] == VP_SAT_U64)
            ADD_UP(uint64_t)
        else
            ADD_UP(double)
        to += vp_sat_carried(op, k);
        from += vp_sat_carried(op, k);
    }
}

/* ---- types ---- */

static bool is_signed(enum vp_type t)
{
    return t >= VP_I8 && t <= VP_I64;
}

enum vp_type vp_sat_type(enum vp_type in, double samples)
{
    const double most = is_signed(in) ? -vp_type_min(in) : vp_type_max(in);
    if (vp_type_is_float(in))
        return VP_F64;
    const bool narrow = samples > 0 && samples * most < (is_signed(in) ? 2147483648.0 : 4294967296.0);
    return is_signed(in) ? (narrow ? VP_I32 : VP_I64) : narrow ? VP_U32 : VP_U64;
}

enum vp_type vp_sat_squares(enum vp_type out)
{
    return vp_type_is_float(out) ? VP_F64 : VP_U64;
}

int vp_sat_check(enum vp_type in, enum vp_type out, struct vp_err *err)
{
    if (out == VP_F32 || out == VP_F64)
        return 0;
    if (vp_type_size(out) >= 4 && !vp_type_is_float(in) && is_signed(in) == is_signed(out)
        && vp_type_size(in) <= vp_type_size(out))
        return 0;
    vp_fail(err, VP_EUSAGE, "--type %s: there is no such table of %s samples", vp_type_name(out), vp_type_name(in));
    return vp_hint(err, "%s", vp_type_is_float(in) ? "f64, or f32, which keeps 24 bits of every sum"
                              : is_signed(in) ? "i64, i32 (modulo 2^32) or f64" : "u64, u32 (modulo 2^32) or f64");
}

static enum vp_sat_sum sum_of(enum vp_type out)
{
    return vp_type_is_float(out) ? VP_SAT_F64 : vp_type_size(out) == 4 ? VP_SAT_U32 : VP_SAT_U64;
}

int vp_sat_op(struct vp_op *op, const struct vp_sat_request *r, const int64_t size[3], enum vp_type in,
              struct vp_err *err)
{
    if (vp_sat_check(in, r->out, err))
        return -1;
    struct vp_sat *p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const enum vp_type squares = vp_sat_squares(r->out);
    *p = (struct vp_sat){.volume = r->volume, .tables = r->squares ? 2 : 1, .sum = {sum_of(r->out), sum_of(squares)},
                         .high = in == VP_F32 && !r->volume ? VP_SAT_TALL : VP_SAT_HIGH,
                         .width = tiles_of(size[0]) * VP_SAT_WIDE};
    /* integers: segments may begin at any row */
    const int64_t step = p->volume ? 1 : p->sum[0] == VP_SAT_F64 ? p->high : 2 * VP_SAT_ROWS;
    *op = (struct vp_op){.kernel = "sat", .image = {size[0], size[1], size[2]}, .inputs = 1, .from = {~0}, .in = in,
                         .out = r->out, .twin = r->squares, .twin_out = squares,
                         .border = {r->exclusive, r->exclusive && r->volume, r->exclusive},
                         .step = {size[0], size[1], step},
                         .cost = (p->sum[0] == VP_SAT_F64 ? 0.8 : 0.4) * p->tables, .params = p, .free = free,
                         .scratch = scratch_bytes, .keeps = keeps, .go_on = go_on, .carries = true,
                         .join = r->out == VP_F32 ? NULL : join}; /* rounded sums cannot be added to */
    snprintf(op->text, sizeof op->text, "table of sums, %s%s%s%s, %s", r->volume ? "3-D" : "2-D",
             r->exclusive ? ", exclusive" : "", r->squares ? ", and of squares, " : "",
             r->squares ? vp_type_name(squares) : "", vp_isa_name());
    return 0;
}
