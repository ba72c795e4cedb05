/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection networks that share work between windows, made for any size and any rank.
 *
 * A window is sorted lists merged by Batcher's odd-even merge (Batcher 1968; Knuth, TAOCP 3, 5.3.4) of any two lengths.
 * Windows that lie side by side along x share everything: a list that begins dx samples later is the same registers
 * read dx samples later. Along y a tile of windows shares the merge of the rows that all of them have, halves of the
 * tile share what they have in common, and so on down to the single window (the hierarchical tiling of Sugy, SIGGRAPH
 * 2025, in one axis). Of each list only the positions that can still hold the wanted rank are kept; comparators
 * whose results are not used are dropped, and halved if one of them is used. The last merge is the formula
 * k-th of A and B = min over i + j = k + 1 of max(A[i - 1], B[j - 1]). */
#include "local/rank_internal.h"

#include "base/size.h"
#include "base/sort.h"

#include <stdlib.h>

/* A value is an input (below inputs), or the minimum (inputs + 2 c) or maximum (inputs + 2 c + 1) of comparator c. */
struct ref { int32_t v, dx; };
struct comparator { struct ref a, b; };
/* Returns every `step`-th of r[], dx later. */
struct rank_list { int64_t n, step; int dx; struct ref *r; };

struct block { struct block *next; struct ref r[]; };

struct net {
    int32_t inputs;
    int64_t n, room;
    struct comparator *c;
    struct block *blocks;  /* the lists: freed together */
    bool failed;           /* out of memory; later calls have no effect */
};

static void net_free(struct net *net)
{
    while (net->blocks) {
        struct block *b = net->blocks;
        net->blocks = b->next;
        free(b);
    }
    free(net->c);
}

static struct rank_list new_list(struct net *net, int64_t n)
{
    struct block *b = net->failed ? NULL : malloc(sizeof *b + (size_t)n * sizeof *b->r);

    if (!b) {
        net->failed = true;
        return (struct rank_list){0};
    }
    b->next = net->blocks;
    net->blocks = b;
    return (struct rank_list){n, 1, 0, b->r};
}

/* Returns the list of inputs first ... first + n - 1. */
static struct rank_list inputs_from(struct net *net, int64_t first, int64_t n)
{
    const struct rank_list l = new_list(net, n);

    for (int64_t i = 0; i < l.n; i++)
        l.r[i] = (struct ref){(int32_t)(first + i), 0};
    return l;
}

static struct ref at(struct rank_list l, int64_t i)
{
    const struct ref r = l.r[i * l.step];

    return (struct ref){r.v, r.dx + l.dx};
}

static struct rank_list part_of(struct rank_list l, int64_t from, int64_t to)
{
    return (struct rank_list){to - from, l.step, l.dx, l.r + from * l.step};
}

static struct rank_list every_other(struct rank_list l, int from)
{
    return (struct rank_list){(l.n - from + 1) / 2, 2 * l.step, l.dx, l.r + from * l.step};
}

static struct rank_list later(struct rank_list l, int dx)
{
    l.dx += dx;
    return l;
}

/* lo and hi may alias a and b. */
static void compare(struct net *net, struct ref a, struct ref b, struct ref *lo, struct ref *hi)
{
    const int32_t dx = a.dx < b.dx ? a.dx : b.dx;

    if (net->n == net->room) {
        const int64_t room = net->room ? 2 * net->room : 256;
        struct comparator *grown = room > INT32_MAX / 4 ? NULL : realloc(net->c, (size_t)room * sizeof *grown);
        if (!grown) {
            net->failed = true;
            *lo = a;
            *hi = b;
            return;
        }
        net->c = grown;
        net->room = room;
    }
    net->c[net->n] = (struct comparator){{a.v, a.dx - dx}, {b.v, b.dx - dx}};
    *lo = (struct ref){net->inputs + 2 * (int32_t)net->n, dx};
    *hi = (struct ref){net->inputs + 2 * (int32_t)net->n + 1, dx};
    net->n++;
}

/* Merges two sorted lists. */
static struct rank_list merge(struct net *net, struct rank_list a, struct rank_list b)
{
    if (!a.n || !b.n || net->failed)
        return a.n ? a : b;
    struct rank_list out = new_list(net, a.n + b.n);
    if (net->failed)
        return a;
    if (out.n == 2) {
        compare(net, at(a, 0), at(b, 0), &out.r[0], &out.r[1]);
        return out;
    }
    const struct rank_list even = merge(net, every_other(a, 0), every_other(b, 0));
    const struct rank_list odd = merge(net, every_other(a, 1), every_other(b, 1));
    if (net->failed)
        return a;
    const int64_t pairs = even.n - 1 < odd.n ? even.n - 1 : odd.n;
    out.r[0] = at(even, 0);
    for (int64_t i = 0; i < pairs; i++)
        compare(net, at(even, i + 1), at(odd, i), &out.r[2 * i + 1], &out.r[2 * i + 2]);
    if (even.n - 1 > pairs)
        out.r[out.n - 1] = at(even, even.n - 1);
    else if (odd.n > pairs)
        out.r[out.n - 1] = at(odd, odd.n - 1);
    return out;
}

/* Makes positions lo ... hi of the merge, in a list as long as the whole merge. Of a and b only positions lo - (length
 * of the other) ... hi are needed. */
static struct rank_list merge_range(struct net *net, struct rank_list a, struct rank_list b, int64_t lo, int64_t hi)
{
    const int64_t skip_a = vp_max64(lo - b.n, 0), skip_b = vp_max64(lo - a.n, 0);
    const struct rank_list m = merge(net, part_of(a, skip_a, vp_max64(vp_min64(a.n, hi + 1), skip_a)),
                                part_of(b, skip_b, vp_max64(vp_min64(b.n, hi + 1), skip_b)));
    struct rank_list out = new_list(net, a.n + b.n);

    for (int64_t i = 0; !net->failed && i < vp_min64(m.n, out.n - skip_a - skip_b); i++)
        out.r[skip_a + skip_b + i] = at(m, i);
    return out;
}

/* Makes positions lo ... hi of n lists merged, as merge_range. */
static struct rank_list merge_all(struct net *net, const struct rank_list *list, int64_t n, int64_t lo, int64_t hi)
{
    int64_t left = 0, right = 0;

    if (n == 1)
        return list[0];
    for (int64_t i = 0; i < n; i++)
        *(i < n / 2 ? &left : &right) += list[i].n;
    const struct rank_list a = merge_all(net, list, n / 2, vp_max64(lo - right, 0), hi);
    const struct rank_list b = merge_all(net, list + n / 2, n - n / 2, vp_max64(lo - left, 0), hi);
    return merge_range(net, a, b, lo, hi);
}

/* Returns the k-th of two lists together, of which positions k - (length of the other) ... k are defined. */
static struct ref pick(struct net *net, struct rank_list a, struct rank_list b, int64_t k)
{
    struct ref best = {-1, 0}, unused;

    for (int64_t i = vp_max64(k + 1 - b.n, 0); i <= vp_min64(a.n, k + 1) && !net->failed; i++) {
        const int64_t j = k + 1 - i;
        struct ref high;
        if (i && j)
            compare(net, at(a, i - 1), at(b, j - 1), &unused, &high);
        else
            high = i ? at(a, i - 1) : at(b, j - 1);
        if (best.v < 0)
            best = high;
        else
            compare(net, best, high, &best, &unused);
    }
    return best;
}

/* Returns the k-th of n lists together: the first `half` of them merged, against the others. */
static struct ref pick_all(struct net *net, const struct rank_list *list, int64_t n, int64_t half, int64_t k)
{
    int64_t left = 0, right = 0;

    for (int64_t i = 0; i < n; i++)
        *(i < half ? &left : &right) += list[i].n;
    const struct rank_list a = merge_all(net, list, half, vp_max64(k - right, 0), k);
    const struct rank_list b = merge_all(net, list + half, n - half, vp_max64(k - left, 0), k);
    return pick(net, a, b, k);
}

/* Merges `width` lists, each dx = 1 after the one before. */
static struct rank_list run_along(struct net *net, struct rank_list l, int width)
{
    if (width == 1)
        return l;
    if (width % 2)
        return merge(net, run_along(net, l, width - 1), later(l, width - 1));
    const struct rank_list half = run_along(net, l, width / 2);
    return merge(net, half, later(half, width / 2));
}

/* ---- from comparators to a program ---- */

/* Locations of values while the program runs. */
struct homes {
    struct vp_rank_place *at; /* file -1: none yet */
    int64_t *last;     /* last op that reads it; -1: dead */
    int32_t *spare;    /* registers of file 0 */
    int64_t spares;
};

static void release(struct homes *h, const struct comparator *c, int64_t op)
{
    const int32_t v[2] = {c->a.v, c->b.v};

    for (int i = 0; i < (v[0] == v[1] ? 1 : 2); i++)
        if (h->last[v[i]] == op && h->at[v[i]].file == 0)
            h->spare[h->spares++] = h->at[v[i]].reg;
}

static void settle(struct homes *h, int64_t value, int *registers)
{
    if (h->last[value] >= 0 && h->at[value].file < 0)
        h->at[value] = (struct vp_rank_place){0, h->spares ? h->spare[--h->spares] : (*registers)++, 0};
}

static struct vp_rank_place place_of(const struct homes *h, struct ref r)
{
    return (struct vp_rank_place){h->at[r.v].file, h->at[r.v].reg, r.dx};
}

/* Emits the live comparators in order; then copies of results that are not yet in their registers. */
static void emit(struct vp_rank_program *p, struct homes *h, const struct net *net, const struct ref *output,
                 int outputs, int file)
{
    for (int64_t i = 0; i < net->n + outputs; i++) {
        const bool copy = i >= net->n;
        const int32_t to = (int32_t)(i - net->n);
        const struct comparator c = copy ? (struct comparator){output[to], output[to]} : net->c[i];
        const int64_t lo = net->inputs + 2 * i, hi = lo + 1;
        struct vp_rank_step s = {VP_RANK_MIN, place_of(h, c.a), place_of(h, c.b), {file, to, 0}, {0}};
        if (copy) {
            if (s.a.file == file && s.a.reg == to && !s.a.dx)
                continue;
        } else {
            if (h->last[lo] < 0 && h->last[hi] < 0)
                continue;
            release(h, &c, i); /* results may replace operands: these begin no earlier, and are read first */
            settle(h, lo, &p->registers);
            settle(h, hi, &p->registers);
            s.kind = h->last[hi] < 0 ? VP_RANK_MIN : h->last[lo] < 0 ? VP_RANK_MAX : VP_RANK_BOTH;
            s.lo = h->at[lo];
            s.hi = h->at[hi];
        }
        p->step[p->n++] = s;
        p->cost += s.kind == VP_RANK_BOTH ? 2 : 1;
    }
}

/* Inputs are in files of `each` from file 1 on; or (0) the first registers of file 0, reused once they have been read.
 * Outputs are in the next file. */
static int assemble(struct vp_rank_program *p, const struct net *net, int each, const struct ref *output, int outputs)
{
    const int taken = each ? 0 : net->inputs, file = each ? 1 + net->inputs / each : 1;
    const int64_t values = net->inputs + 2 * net->n;
    struct homes h = {malloc((size_t)(values + 1) * sizeof *h.at), malloc((size_t)(values + 1) * sizeof *h.last),
                      malloc((size_t)(values + taken + 1) * sizeof *h.spare), 0};
    int rc = -1;

    *p = (struct vp_rank_program){.registers = taken};
    p->step = malloc((size_t)(net->n + outputs + 1) * sizeof *p->step);
    if (net->failed || !h.at || !h.last || !h.spare || !p->step)
        goto out;
    for (int64_t v = 0; v < values; v++) {
        h.last[v] = -1;
        h.at[v] = v >= net->inputs ? (struct vp_rank_place){-1, 0, 0}
                : each ? (struct vp_rank_place){1 + (int32_t)v / each, (int32_t)v % each, 0}
                       : (struct vp_rank_place){0, (int32_t)v, 0};
    }
    for (int i = 0; i < outputs; i++) {
        const struct ref f = output[i];
        h.last[f.v] = net->n + i;
        if (f.v >= net->inputs && !f.dx && h.at[f.v].file < 0) /* directly into the output register */
            h.at[f.v] = (struct vp_rank_place){file, i, 0};
    }
    for (int64_t c = net->n - 1; c >= 0; c--) {
        if (h.last[net->inputs + 2 * c] < 0 && h.last[net->inputs + 2 * c + 1] < 0)
            continue;
        const int32_t a = net->c[c].a.v, b = net->c[c].b.v;
        h.last[a] = h.last[a] < c ? c : h.last[a];
        h.last[b] = h.last[b] < c ? c : h.last[b];
    }
    emit(p, &h, net, output, outputs, file);
    rc = 0;
out:
    free(h.at);
    free(h.last);
    free(h.spare);
    if (rc)
        vp_rank_program_free(p);
    return rc;
}

void vp_rank_program_free(struct vp_rank_program *p)
{
    free(p->step);
    *p = (struct vp_rank_program){0};
}

/* ---- the three programs ---- */

int vp_rank_slab(struct vp_rank_program *p, int width, int depth)
{
    struct net net = {.inputs = depth};
    struct rank_list *row = malloc((size_t)depth * sizeof *row);
    int rc = -1;

    if (row) {
        for (int z = 0; z < depth; z++)
            row[z] = inputs_from(&net, z, 1);
        const struct rank_list sorted = run_along(&net, merge_all(&net, row, depth, 0, depth - 1), width);
        rc = assemble(p, &net, 0, sorted.r, (int)sorted.n);
    }
    free(row);
    net_free(&net);
    return rc;
}

struct join {
    struct net net;
    struct rank_list *slab;
    int slab_size, height;
    int64_t rank;
    struct ref *output;
};

/* Makes windows first ... end - 1 of the tile; `core` has the slabs end - 1 ... first + height - 1 shared by all of
 * them, at the positions that can matter. */
static void join_tile(struct join *j, int first, int end, struct rank_list core)
{
    const int middle = (first + end) / 2;

    if (end - first == 1)
        return;
    for (int half = 0; half < 2; half++) {
        const int lo = half ? middle : first, hi = half ? end : middle;
        const int from = half ? first + j->height : middle - 1, to = half ? middle + j->height : end - 1;
        const int64_t missing = (int64_t)(hi - lo - 1) * j->slab_size, least = vp_max64(j->rank - missing, 0);
        const struct rank_list more = merge_all(&j->net, j->slab + from, to - from, vp_max64(least - core.n, 0), j->rank);
        if (hi - lo == 1)
            j->output[lo] = pick(&j->net, core, more, j->rank);
        else
            join_tile(j, lo, hi, merge_range(&j->net, core, more, least, j->rank));
    }
}

int vp_rank_join(struct vp_rank_program *p, int slab, int height, int tile, int64_t rank)
{
    const int slabs = height + tile - 1;
    const int64_t n = (int64_t)slabs * slab;
    struct join j = {.net = {.inputs = (int32_t)n}, .slab_size = slab, .height = height, .rank = rank,
                     .slab = malloc((size_t)slabs * sizeof *j.slab), .output = calloc((size_t)tile, sizeof *j.output)};
    int rc = -1;

    if (!j.slab || !j.output)
        goto out;
    for (int s = 0; s < slabs; s++)
        j.slab[s] = inputs_from(&j.net, (int64_t)s * slab, slab);
    if (j.net.failed)
        goto out;
    if (height == 1) {
        j.output[0] = at(j.slab[0], rank);
    } else if (tile == 1) {
        j.output[0] = pick_all(&j.net, j.slab, height, height / 2, rank);
    } else {
        const int64_t missing = (int64_t)(tile - 1) * slab;
        const struct rank_list core = merge_all(&j.net, j.slab + tile - 1, height - tile + 1,
                                           vp_max64(rank - missing, 0), rank);
        join_tile(&j, 0, tile, core);
    }
    rc = assemble(p, &j.net, slab, j.output, tile);
out:
    free(j.slab);
    free(j.output);
    net_free(&j.net);
    return rc;
}

static int by_length(const void *a, const void *b)
{
    const struct rank_list *x = a, *y = b;

    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->r->v > y->r->v) - (x->r->v < y->r->v);
}

int vp_rank_rows(struct vp_rank_program *p, const struct vp_footprint *ball, int64_t rank)
{
    const int64_t rows = ball->spans;
    struct net net = {.inputs = (int32_t)rows};
    struct rank_list *list = malloc((size_t)rows * sizeof *list);
    int rc = -1;

    if (!list)
        goto out;
    for (int64_t i = 0; i < rows; i++) {
        const struct vp_span *s = &ball->span[i];
        list[i] = run_along(&net, later(inputs_from(&net, i, 1), (int)ball->reach[0] + s->x0), s->x1 - s->x0 + 1);
    }
    if (net.failed)
        goto out;
    vp_sort(list, (size_t)rows, sizeof *list, by_length); /* lists of the same length merge best */
    const struct ref output = rows == 1 ? at(list[0], rank) : pick_all(&net, list, rows, rows - rows / 2, rank);
    rc = assemble(p, &net, 0, &output, 1);
out:
    free(list);
    net_free(&net);
    return rc;
}
