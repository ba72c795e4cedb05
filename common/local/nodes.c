/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/nodes.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 exact;

/* Units of a pixel; largest distance from 0, in pixels: products of four differences fit `exact`. */
enum { UNITS = 256, FARTHEST = 1 << 20 };

struct node { int64_t x, y, index; };
/* A triangle, counterclockwise; near[k] is the triangle beyond the side that does not touch node[k], -1: none. */
struct triangle { int64_t node[3], near[3]; };
struct side { int64_t a, b; };

struct vp_nodes {
    bool nearest;
    int64_t n, triangles, sides;
    struct node *at;            /* in the order of pages */
    struct triangle *triangle;
    struct side *side;          /* sides of the hull; or the segments of a line */
};

/* ---- triangulation ---- */

/* Returns twice the area of a triangle, above 0 if it is counterclockwise. */
static exact area(const struct node *a, const struct node *b, const struct node *c)
{
    return (exact)(b->x - a->x) * (c->y - a->y) - (exact)(b->y - a->y) * (c->x - a->x);
}

/* True if p lies inside the circle through a counterclockwise triangle. */
static bool in_circle(const struct node *a, const struct node *b, const struct node *c, const struct node *p)
{
    const int64_t ax = a->x - p->x, ay = a->y - p->y, bx = b->x - p->x, by = b->y - p->y, cx = c->x - p->x,
        cy = c->y - p->y;

    return (exact)(ax * ax + ay * ay) * ((exact)bx * cy - (exact)by * cx)
           - (exact)(bx * bx + by * by) * ((exact)ax * cy - (exact)ay * cx)
           + (exact)(cx * cx + cy * cy) * ((exact)ax * by - (exact)ay * bx) > 0;
}

static int by_place(const void *a, const void *b)
{
    const struct node *p = a, *q = b;

    return p->x != q->x ? (p->x > q->x) - (p->x < q->x) : (p->y > q->y) - (p->y < q->y);
}

/* The hull while nodes are added from left to right: the next and the last node of each, and the triangle at the side to
 * the next one. Nodes are numbered in the order of their places here. */
struct sweep { const struct node *at; struct triangle *t; int64_t n, *next, *last, *inner; };

static void link_sides(struct sweep *s, int64_t t, int64_t k, int64_t u)
{
    struct triangle *const a = &s->t[t];
    const int64_t from = a->node[(k + 1) % 3], to = a->node[(k + 2) % 3];

    a->near[k] = u;
    for (int i = 0; u >= 0 && i < 3; i++)
        if (s->t[u].node[(i + 1) % 3] == to && s->t[u].node[(i + 2) % 3] == from)
            s->t[u].near[i] = t;
}

/* Adds the triangle of a hull's side a -> b and node p outside. */
static int64_t add_triangle(struct sweep *s, int64_t a, int64_t b, int64_t p, int64_t inner)
{
    const int64_t t = s->n++;

    s->t[t] = (struct triangle){{p, b, a}, {-1, -1, -1}};
    link_sides(s, t, 0, inner);
    return t;
}

/* Adds node p, which lies beyond all nodes so far. */
static void add_node(struct sweep *s, int64_t p, int64_t last)
{
    int64_t first = last, end = last, before = -1, t = -1;

    while (area(&s->at[s->last[first]], &s->at[first], &s->at[p]) < 0)
        first = s->last[first];
    while (area(&s->at[end], &s->at[s->next[end]], &s->at[p]) < 0)
        end = s->next[end];
    for (int64_t a = first; a != end; a = s->next[a]) {
        t = add_triangle(s, a, s->next[a], p, s->inner[a]);
        if (before >= 0) /* the side from p to a */
            link_sides(s, t, 1, before);
        else
            s->inner[first] = t;
        before = t;
    }
    s->inner[p] = t;
    s->next[first] = s->last[end] = p;
    s->last[p] = first;
    s->next[p] = end;
}

/* Replaces the side between t and its neighbour k by the other diagonal. */
static void flip(struct sweep *s, int64_t t, int64_t k)
{
    const int64_t u = s->t[t].near[k];
    int64_t i = 0;

    while (s->t[u].near[i] != t)
        i++;
    const struct triangle a = s->t[t], b = s->t[u];
    const int64_t p = a.node[k], q = a.node[(k + 1) % 3], r = a.node[(k + 2) % 3], o = b.node[i];
    const int64_t pq = a.near[(k + 2) % 3], rp = a.near[(k + 1) % 3], qo = b.near[(i + 1) % 3],
        ro = b.near[(i + 2) % 3];
    s->t[t] = (struct triangle){{p, q, o}, {-1, u, -1}};
    s->t[u] = (struct triangle){{p, o, r}, {-1, -1, t}};
    link_sides(s, t, 0, qo);
    link_sides(s, t, 2, pq);
    link_sides(s, u, 0, ro);
    link_sides(s, u, 1, rp);
}

static bool flip_one(struct sweep *s, int64_t t)
{
    for (int64_t k = 0; k < 3; k++) {
        const int64_t u = s->t[t].near[k];
        int64_t i = 0;
        if (u < 0)
            continue;
        while (s->t[u].near[i] != t)
            i++;
        const int64_t *v = s->t[t].node;
        if (!in_circle(&s->at[v[0]], &s->at[v[1]], &s->at[v[2]], &s->at[s->t[u].node[i]]))
            continue;
        flip(s, t, k);
        return true;
    }
    return false;
}

/* Fills triangles and sides of n nodes in the order of their places. */
static void triangulate(struct vp_nodes *p, struct sweep *s, int64_t n)
{
    int64_t k = 2; /* the first node that is not on the line of those before it */

    while (k < n && area(&s->at[0], &s->at[1], &s->at[k]) == 0)
        k++;
    if (k >= n) {
        for (int64_t i = 0; i + 1 < n || i == 0; i++)
            p->side[p->sides++] = (struct side){i, vp_min64(i + 1, n - 1)};
        return;
    }
    /* the line there and back is a hull whose one side has no triangles yet */
    const bool left = area(&s->at[0], &s->at[1], &s->at[k]) > 0;
    for (int64_t i = 0, before = -1; i + 1 < k; i++) {
        const int64_t t = left ? add_triangle(s, i + 1, i, k, -1) : add_triangle(s, i, i + 1, k, -1);
        if (before >= 0)
            link_sides(s, t, left ? 2 : 1, before);
        before = t;
        if (left) {
            s->next[i] = i + 1;
            s->last[i + 1] = i;
            s->inner[i] = t;
        } else {
            s->next[i + 1] = i;
            s->last[i] = i + 1;
            s->inner[i + 1] = t;
        }
    }
    const int64_t from = left ? k - 1 : 0, to = left ? 0 : k - 1;
    s->next[from] = s->last[to] = k;
    s->last[k] = from;
    s->next[k] = to;
    s->inner[from] = left ? s->n - 1 : 0;
    s->inner[k] = left ? 0 : s->n - 1;
    for (int64_t i = k + 1; i < n; i++)
        add_node(s, i, i - 1);
    for (bool any = true; any;) {
        any = false;
        for (int64_t t = 0; t < s->n; t++)
            any = flip_one(s, t) || any;
    }
    for (int64_t t = 0; t < s->n; t++)
        for (int i = 0; i < 3; i++)
            if (s->t[t].near[i] < 0)
                p->side[p->sides++] = (struct side){s->t[t].node[(i + 1) % 3], s->t[t].node[(i + 2) % 3]};
    p->triangles = s->n;
}

static int make(struct vp_nodes *p, struct node *sorted, int64_t *list, struct vp_err *err)
{
    const int64_t n = p->n;
    struct sweep s = {.at = sorted, .t = p->triangle, .next = list, .last = list + n, .inner = list + 2 * n};

    memcpy(sorted, p->at, (size_t)n * sizeof *sorted);
    vp_sort(sorted, (size_t)n, sizeof *sorted, by_place);
    for (int64_t i = 1; i < n; i++)
        if (!by_place(&sorted[i - 1], &sorted[i])) {
            const int64_t a = sorted[i - 1].index, b = sorted[i].index;
            return vp_fail(err, VP_ERUN, "kernels %lld and %lld have the same position", (long long)vp_min64(a, b),
                           (long long)vp_max64(a, b));
        }
    if (p->nearest)
        return 0;
    triangulate(p, &s, n);
    for (int64_t t = 0; t < p->triangles; t++)
        for (int i = 0; i < 3; i++)
            p->triangle[t].node[i] = sorted[p->triangle[t].node[i]].index;
    for (int64_t i = 0; i < p->sides; i++)
        p->side[i] = (struct side){sorted[p->side[i].a].index, sorted[p->side[i].b].index};
    return 0;
}

struct vp_nodes *vp_nodes_make(const double *x, const double *y, int64_t n, bool nearest, struct vp_err *err)
{
    struct vp_nodes *p = vp_alloc(1, sizeof *p, "nodes", err);
    struct node *sorted = vp_alloc((size_t)n, sizeof *sorted, "nodes", err);
    int64_t *list = vp_alloc((size_t)n * 3, sizeof *list, "nodes", err);
    int rc = -1;

    if (p && sorted && list) {
        *p = (struct vp_nodes){.nearest = nearest, .n = n, .at = vp_alloc((size_t)n, sizeof *p->at, "nodes", err),
                               .triangle = vp_alloc((size_t)n * 2, sizeof *p->triangle, "triangles", err),
                               .side = vp_alloc((size_t)n * 2, sizeof *p->side, "triangles", err)};
        rc = p->at && p->triangle && p->side ? 0 : -1;
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        if (!(fabs(x[i]) <= FARTHEST && fabs(y[i]) <= FARTHEST))
            rc = vp_fail(err, VP_ERUN, "kernel %lld: expected a position within %d pixels of 0, got %g %g",
                         (long long)i,
                         FARTHEST, x[i], y[i]);
        else
            p->at[i] = (struct node){llround(x[i] * UNITS), llround(y[i] * UNITS), i};
    }
    rc = rc || make(p, sorted, list, err) ? -1 : 0;
    free(sorted);
    free(list);
    if (!rc)
        return p;
    vp_nodes_free(p);
    return NULL;
}

void vp_nodes_free(struct vp_nodes *p)
{
    if (!p)
        return;
    free(p->at);
    free(p->triangle);
    free(p->side);
    free(p);
}

/* ---- weights ---- */

static void nearest_row(const struct vp_nodes *p, int64_t x, int64_t n, int64_t y, struct vp_node_weights *to)
{
    const double middle = ((double)x + (double)(n - 1) / 2) * UNITS, reach = (double)(n - 1) / 2 * UNITS,
        row = (double)y * UNITS;
    double closest = INFINITY;

    for (int64_t i = 0; i < n; i++)
        to[i] = (struct vp_node_weights){{0, 0, 0}, {INFINITY, 0, 0}};
    for (int64_t k = 0; k < p->n; k++)
        closest = fmin(closest, hypot((double)p->at[k].x - middle, (double)p->at[k].y - row));
    for (int64_t k = 0; k < p->n; k++) {
        const double dy = (double)p->at[k].y - row;
        if (hypot((double)p->at[k].x - middle, dy) > closest + 2 * reach + 1)
            continue;
        for (int64_t i = 0; i < n; i++) {
            const double dx = (double)p->at[k].x - (double)(x + i) * UNITS, d = dx * dx + dy * dy;
            if (d < to[i].weight[0]) {
                to[i].weight[0] = d;
                to[i].node[0] = (int32_t)k;
            }
        }
    }
    for (int64_t i = 0; i < n; i++)
        to[i].weight[0] = 1;
}

/* Returns the x of a side at y, the same for both of its triangles. */
static double cross(const struct node *a, const struct node *b, double y)
{
    const struct node *lo = a->index < b->index ? a : b, *hi = lo == a ? b : a;

    return (double)lo->x + (y - (double)lo->y) * ((double)(hi->x - lo->x) / (double)(hi->y - lo->y));
}

/* Finds the part lo ... hi of row y that lies in a triangle. False: none. */
static bool within(const struct node *const v[3], int64_t y, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int i = 0; i < 3; i++) {
        const struct node *a = v[i], *b = v[(i + 1) % 3];
        if (vp_min64(a->y, b->y) > y || vp_max64(a->y, b->y) < y)
            continue;
        const double one = a->y == b->y ? (double)a->x : cross(a, b, (double)y);
        const double other = a->y == b->y ? (double)b->x : one;
        *lo = fmin(*lo, fmin(one, other));
        *hi = fmax(*hi, fmax(one, other));
    }
    return *lo <= *hi;
}

static void in_triangle(const struct node *const v[3], double x, double y, struct vp_node_weights *to)
{
    const double all = (double)area(v[0], v[1], v[2]);
    double sum = 0, w[3];

    for (int i = 0; i < 3; i++) {
        const struct node *a = v[(i + 1) % 3], *b = v[(i + 2) % 3];
        w[i] = (((double)a->x - x) * ((double)b->y - y) - ((double)a->y - y) * ((double)b->x - x)) / all;
        w[i] = w[i] > 0 ? w[i] : 0;
        sum += w[i];
    }
    for (int i = 0; i < 3; i++) {
        to->node[i] = (int32_t)v[i]->index;
        to->weight[i] = w[i] / sum;
    }
}

/* Takes the nearest point of the hull. */
static void outside(const struct vp_nodes *p, double x, double y, struct vp_node_weights *to)
{
    double closest = INFINITY;

    for (int64_t i = 0; i < p->sides; i++) {
        const struct node *a = &p->at[p->side[i].a], *b = &p->at[p->side[i].b];
        const double dx = (double)(b->x - a->x), dy = (double)(b->y - a->y), length = dx * dx + dy * dy;
        const double along = length > 0 ? ((x - (double)a->x) * dx + (y - (double)a->y) * dy) / length : 0;
        const double t = fmin(fmax(along, 0), 1), ex = (double)a->x + t * dx - x, ey = (double)a->y + t * dy - y;
        if (ex * ex + ey * ey >= closest)
            continue;
        closest = ex * ex + ey * ey;
        *to = (struct vp_node_weights){{(int32_t)a->index, (int32_t)b->index, 0}, {1 - t, t, 0}};
    }
}

void vp_nodes_row(const struct vp_nodes *p, int64_t x, int64_t n, int64_t y, struct vp_node_weights *to)
{
    if (p->nearest) {
        nearest_row(p, x, n, y, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i].node[0] = -1;
    for (int64_t t = 0; t < p->triangles; t++) {
        const int64_t *k = p->triangle[t].node;
        const struct node *const v[3] = {&p->at[k[0]], &p->at[k[1]], &p->at[k[2]]};
        double lo, hi;
        if (!within(v, y * UNITS, &lo, &hi))
            continue;
        const int64_t a = vp_max64((int64_t)ceil(lo / UNITS), x), b = vp_min64((int64_t)floor(hi / UNITS), x + n - 1);
        for (int64_t i = a; i <= b; i++)
            if (to[i - x].node[0] < 0)
                in_triangle(v, (double)(i * UNITS), (double)(y * UNITS), &to[i - x]);
    }
    for (int64_t i = 0; i < n; i++)
        if (to[i].node[0] < 0)
            outside(p, (double)((x + i) * UNITS), (double)(y * UNITS), &to[i]);
}
