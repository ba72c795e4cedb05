/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains of local operations: which boxes every stage must make, and a run of all of them on the CPU.
 *
 * Results between stages, pointers to planes and the scratch of a stage share one block of memory: each lives from
 * the stage that makes it to the last one that reads it, and takes the lowest place that is free for so long. */
#include "base/err.h"
#include "base/size.h"
#include "engine/chain.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, PAGE = 4096 };

int vp_chain_add(struct vp_chain *c, const struct vp_op *op, struct vp_err *err)
{
    assert(op->inputs >= 1 && op->inputs <= VP_MAX_INPUTS);
    if (c->n == c->room) {
        const int room = c->room ? 2 * c->room : 4;
        struct vp_op *grown = realloc(c->stage, (size_t)room * sizeof *grown);
        if (!grown) {
            if (op->free)
                op->free(op->params);
            return vp_fail(err, VP_ERESOURCE, "out of memory: %d operations", room);
        }
        c->stage = grown;
        c->room = room;
    }
    for (int i = 0; i < op->inputs; i++) {
        assert(op->from[i] < c->n && ~op->from[i] < VP_MAX_INPUTS);
        assert(op->from[i] < 0 || c->stage[op->from[i]].out == op->in);
        if (op->from[i] < 0 && ~op->from[i] >= c->stacks)
            c->stacks = ~op->from[i] + 1;
    }
    c->stage[c->n++] = *op;
    return 0;
}

void vp_chain_free(struct vp_chain *c)
{
    for (int s = 0; s < c->n; s++)
        if (c->stage[s].free)
            c->stage[s].free(c->stage[s].params);
    free(c->stage);
    *c = (struct vp_chain){0};
}

struct vp_op *vp_chain_twice(const struct vp_chain *c)
{
    struct vp_op *last = c->n ? &c->stage[c->n - 1] : NULL;
    return last && last->summarize ? last : NULL;
}

static bool is_empty(const struct vp_box *b)
{
    return b->hi[0] <= b->lo[0] || b->hi[1] <= b->lo[1] || b->hi[2] <= b->lo[2];
}

static void join(struct vp_box *b, const struct vp_box *with)
{
    if (is_empty(b)) {
        *b = *with;
        return;
    }
    for (int a = 0; a < 3; a++) {
        b->lo[a] = vp_min64(b->lo[a], with->lo[a]);
        b->hi[a] = vp_max64(b->hi[a], with->hi[a]);
    }
}

struct vp_box vp_op_support(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box in = *out;
    if (is_empty(out))
        return in;
    for (int a = 0; a < 3; a++) {
        const int64_t end = op->image[a] >= VP_UNKNOWN ? op->image[a] : op->image[a] - op->behind[a];
        in.lo[a] = op->whole[a] ? op->before[a] : vp_max64(op->before[a], out->lo[a] - op->halo[a]);
        in.hi[a] = op->whole[a] ? end : vp_min64(end, out->hi[a] + op->halo[a]);
    }
    return in;
}

int64_t vp_op_input(const struct vp_op *op, int axis)
{
    const int64_t n = op->image[axis];
    return n >= VP_UNKNOWN ? n : n - op->before[axis] - op->behind[axis];
}

int64_t vp_op_grows(const struct vp_op *op, int axis)
{
    return op->before[axis] + op->behind[axis] + op->border[axis];
}

int64_t vp_box_tiles(const struct vp_box *of, const int64_t side[3])
{
    int64_t n = 1;
    for (int a = 0; a < 3; a++)
        n *= vp_div_up(vp_box_size(of, a), side[a]);
    return n;
}

struct vp_box vp_box_tile(const struct vp_box *of, const int64_t side[3], int64_t i)
{
    struct vp_box box;
    for (int a = 0; a < 3; a++) {
        const int64_t n = vp_div_up(vp_box_size(of, a), side[a]);
        box.lo[a] = of->lo[a] + i % n * side[a];
        box.hi[a] = vp_min64(box.lo[a] + side[a], of->hi[a]);
        i /= n;
    }
    return box;
}

void vp_chain_boxes(const struct vp_chain *c, const struct vp_box *out, struct vp_box *made, struct vp_box *given)
{
    memset(made, 0, (size_t)c->n * sizeof *made);
    memset(given, 0, (size_t)c->stacks * sizeof *given);
    made[c->n - 1] = *out;
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        const struct vp_box in = vp_op_support(op, &made[s]);
        if (!is_empty(&made[s]))
            for (int i = 0; i < op->inputs; i++)
                join(op->from[i] < 0 ? &given[~op->from[i]] : &made[op->from[i]], &in);
    }
}

void vp_chain_halo(const struct vp_chain *c, int64_t halo[3])
{
    /* far[s]: from the result of stage s to the output, the longest way. Without memory all of them, one after the
     * other, are enough in any case */
    int64_t (*far)[3] = calloc((size_t)c->n + 1, sizeof *far);
    memset(halo, 0, 3 * sizeof *halo);
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        for (int a = 0; a < 3; a++) {
            const int64_t reach = (far ? far[s][a] : halo[a]) + op->halo[a];
            halo[a] = vp_max64(halo[a], reach);
            for (int i = 0; i < op->inputs && far; i++)
                if (op->from[i] >= 0)
                    far[op->from[i]][a] = vp_max64(far[op->from[i]][a], reach);
        }
    }
    free(far);
}

/* ---- memory of a run ---- */

struct piece { size_t at, bytes; int last; }; /* alive up to stage `last` */

/* Of a stage: its result; pointers to the planes of its inputs and, where the result is ours, of it; scratch. */
enum { RESULT, VIEW, SCRATCH, PIECES };

struct layout {
    struct vp_part *result; /* of each stage, in a run; all lie in this block */
    struct vp_box *made, given[VP_MAX_INPUTS];
    struct piece (*piece)[PIECES];
    size_t bytes;
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Samples from one row to the next of a result: rows start at cache lines, but rows of a power of two do not all
 * fall into the same sets of the cache. */
static int64_t row_stride(const struct vp_box *b, enum vp_type type)
{
    size_t bytes = round_up((size_t)vp_box_size(b, 0) * vp_type_size(type));
    if (bytes % PAGE == 0)
        bytes += ALIGN;
    return (int64_t)(bytes / vp_type_size(type));
}

/* The lowest place that stays free from stage `now` on. */
static void place(struct layout *l, int which, size_t bytes, int now, int last)
{
    struct piece p = {0, round_up(bytes), last};
    for (bool moved = bytes; moved;) {
        moved = false;
        for (int i = 0; i < now * PIECES + which; i++) {
            const struct piece *q = &l->piece[i / PIECES][i % PIECES];
            if (q->last >= now && p.at < q->at + q->bytes && q->at < p.at + p.bytes) {
                p.at = q->at + q->bytes;
                moved = true;
            }
        }
    }
    l->piece[now][which] = p;
    if (p.at + p.bytes > l->bytes)
        l->bytes = p.at + p.bytes;
}

static int lay_out(struct layout *l, const struct vp_chain *c, const struct vp_box *out, int threads)
{
    const size_t n = (size_t)c->n;
    *l = (struct layout){.result = malloc(n * (sizeof *l->result + sizeof *l->made + sizeof *l->piece))};
    if (!l->result)
        return -1;
    l->made = (struct vp_box *)(l->result + n);
    l->piece = (struct piece (*)[PIECES])(l->made + n);
    vp_chain_boxes(c, out, l->made, l->given);
    for (int s = 0; s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        const struct vp_box *box = &l->made[s], in = vp_op_support(op, box);
        const bool ours = s < c->n - 1 && !is_empty(box);
        int last = s;
        for (int next = s + 1; next < c->n; next++)
            for (int i = 0; i < c->stage[next].inputs; i++)
                if (c->stage[next].from[i] == s)
                    last = next;
        const int64_t planes = ours ? vp_box_size(box, 2) : 0, views = op->inputs * vp_box_size(&in, 2);
        const size_t page = (size_t)(row_stride(box, op->out) * vp_box_size(box, 1)) * vp_type_size(op->out);
        place(l, RESULT, (size_t)planes * page, s, last);
        place(l, VIEW, is_empty(box) ? 0 : (size_t)(views + planes) * sizeof(void *), s, last);
        place(l, SCRATCH, op->scratch && !is_empty(box) ? op->scratch(op, &in, box, threads) : 0, s, s);
    }
    return 0;
}

uint64_t vp_chain_bytes(const struct vp_chain *c, const struct vp_box *out, int threads)
{
    struct layout l;
    if (lay_out(&l, c, out, threads))
        return UINT64_MAX;
    free(l.result);
    return l.bytes;
}

/* The part of `from` that is `box`, with pointers in `plane`. */
static struct vp_part view(const struct vp_part *from, const struct vp_box *box, size_t size, void **plane)
{
    const int64_t x = box->lo[0] - from->box.lo[0], y = box->lo[1] - from->box.lo[1], z = box->lo[2] - from->box.lo[2];
    for (int a = 0; a < 3; a++)
        assert(box->lo[a] >= from->box.lo[a] && box->hi[a] <= from->box.hi[a]);
    for (int64_t i = 0; i < vp_box_size(box, 2); i++)
        plane[i] = (char *)from->plane[z + i] + (size_t)(y * from->stride + x) * size;
    return (struct vp_part){*box, from->stride, plane};
}

int vp_chain_visit(const struct vp_chain *c, enum vp_visit visit, const struct vp_part *in, const struct vp_part *out,
                   void *entry, void *scratch, int threads, struct vp_err *err)
{
    struct layout l;
    int rc = 0;
    if (lay_out(&l, c, &out->box, threads))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int s = 0; !rc && s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        const struct vp_box *box = &l.made[s], need = vp_op_support(op, box);
        if (is_empty(box))
            continue;
        void **plane = (void **)((char *)scratch + l.piece[s][VIEW].at);
        struct vp_part args[VP_MAX_INPUTS];
        for (int i = 0; i < op->inputs; i++, plane += vp_box_size(&need, 2))
            args[i] = view(op->from[i] < 0 ? &in[~op->from[i]] : &l.result[op->from[i]], &need, vp_type_size(op->in),
                           plane);
        if (s == c->n - 1) {
            l.result[s] = *out;
        } else {
            const int64_t stride = row_stride(box, op->out);
            l.result[s] = (struct vp_part){*box, stride, plane};
            for (int64_t z = 0; z < vp_box_size(box, 2); z++)
                plane[z] = (char *)scratch + l.piece[s][RESULT].at
                           + (size_t)(z * vp_box_size(box, 1) * stride) * vp_type_size(op->out);
        }
        void *const own = (char *)scratch + l.piece[s][SCRATCH].at;
        if (s < c->n - 1 || visit == VP_MAKE)
            rc = op->run(op, args, &l.result[s], own, threads, err);
        else if (visit == VP_SUMMARY)
            rc = op->summarize(op, args, box, entry, own, threads, err);
        else
            rc = op->finish(op, args, &l.result[s], entry, own, threads, err);
    }
    free(l.result);
    return rc;
}

int vp_chain_run(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                 int threads, struct vp_err *err)
{
    return vp_chain_visit(c, VP_MAKE, in, out, NULL, scratch, threads, err);
}

uint64_t vp_chain_keeps(const struct vp_chain *c, const struct vp_box *out, int threads)
{
    const struct vp_op *op = &c->stage[0];

    return c->n == 1 && op->keeps ? op->keeps(op, out, threads) : 0;
}

int vp_chain_go_on(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   void *kept, int threads, struct vp_err *err)
{
    const struct vp_op *op = &c->stage[0];
    struct vp_part args[VP_MAX_INPUTS];

    for (int i = 0; i < op->inputs; i++)
        args[i] = in[~op->from[i]];
    return op->go_on(op, args, out, scratch, kept, threads, err);
}
