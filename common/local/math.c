/* SPDX-License-Identifier: BSD-3-Clause */
/* img-math. The expression becomes a list of steps over blocks of doubles that stay in the first-level cache; constant
 * parts are computed while parsing. Every part has an interval of its possible values, from which the type of the
 * result is chosen. */
#include "local/math.h"
#include "base/err.h"

#include <ctype.h>
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, DEEPEST = 100, MOST_ARGUMENTS = 16 };

/* ---- evaluation ---- */

/* Returns the remainder with the sign of the divisor, so that a % 10 is periodic through 0. */
static double modulo(double a, double b)
{
    const double r = fmod(a, b);
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

static void apply(enum vp_math_code code, double *restrict d, const double *p, const double *q, const double *r, int n)
{
#define STEP(name, value)                                                                                              \
    case VP_MATH_##name:                                                                                               \
        for (int i = 0; i < n; i++) {                                                                                  \
            const double a = p[i], b = q[i];                                                                           \
            (void)a, (void)b;                                                                                          \
            d[i] = (value);                                                                                            \
        }                                                                                                              \
        break;
    switch (code) {
    VP_MATH_CODES(STEP, STEP)
    case VP_MATH_IF:
        for (int i = 0; i < n; i++)
            d[i] = p[i] != 0 ? q[i] : r[i];
    }
#undef STEP
}

/* ---- the parser ---- */

/* Part of the expression: index of its values, and their interval. */
struct term {
    int place;
    bool temporary, constant, whole;
    double lo, hi;
};

struct parser {
    struct vp_math *m;
    const char *text, *at;
    int stacks, depth;
    bool taken[VP_MATH_PLACES];
    struct vp_err *err;
};

static int complain(struct parser *p, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int complain(struct parser *p, const char *at, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return vp_fail(p->err, VP_EUSAGE, "expression: position %d: %s", (int)(at - p->text) + 1, text);
}

static void blanks(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

/* Returns the next token, for messages. */
static const char *found(const struct parser *p, char *text, size_t size)
{
    if (!*p->at)
        return "the end";
    int n = 1;
    if (isalnum((unsigned char)*p->at))
        while (isalnum((unsigned char)p->at[n]) && n < 20)
            n++;
    else
        while (n < 4 && ((unsigned char)p->at[n] & 0xc0) == 0x80) /* the rest of a character in UTF-8 */
            n++;
    snprintf(text, size, "'%.*s'", n, p->at);
    return text;
}

static bool accept(struct parser *p, const char *sign)
{
    blanks(p);
    const size_t n = strlen(sign);
    if (strncmp(p->at, sign, n) ||
        (isalpha((unsigned char)*sign) && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')))
        return false;
    p->at += n;
    return true;
}

static int expect(struct parser *p, const char *sign)
{
    char text[32];
    return accept(p, sign) ? 0 : complain(p, p->at, "expected '%s', got %s", sign, found(p, text, sizeof text));
}

/* fresh: a block that no step writes. */
static int new_place(struct parser *p, const char *at, bool fresh)
{
    for (int i = VP_MATH_FIRST; i < VP_MATH_PLACES; i++)
        if (!p->taken[i] && !(fresh && i < p->m->places)) {
            p->taken[i] = true;
            if (i >= p->m->places)
                p->m->places = i + 1;
            return i;
        }
    return complain(p, at, "the expression is too long");
}

static int constant(struct parser *p, const char *at, double v, struct term *t)
{
    *t = (struct term){.constant = true, .whole = v == floor(v), .lo = v, .hi = v};
    for (int i = VP_MATH_FIRST; i < p->m->places; i++)
        if (p->m->constant[i] && !memcmp(&p->m->value[i], &v, sizeof v)) {
            t->place = i;
            return 0;
        }
    t->place = new_place(p, at, true);
    if (t->place < 0)
        return -1;
    p->m->constant[t->place] = true; /* its blocks are filled once */
    p->m->value[t->place] = v;
    return 0;
}

/* Returns the interval of the products or quotients of the ends; 0 times infinity is NaN. */
static void span4(struct term *t, double a, double b, double c, double d)
{
    const bool known = !isnan(a) && !isnan(b) && !isnan(c) && !isnan(d);
    t->lo = known ? fmin(fmin(a, b), fmin(c, d)) : -INFINITY;
    t->hi = known ? fmax(fmax(a, b), fmax(c, d)) : INFINITY;
}

static const struct term nothing = {.whole = true};

static void bound(enum vp_math_code code, const struct term *a, const struct term *b, const struct term *c,
                  struct term *t)
{
    t->lo = -INFINITY;
    t->hi = INFINITY;
    t->whole = a->whole && b->whole && c->whole;
    switch (code) {
    case VP_MATH_ADD: t->lo = a->lo + b->lo, t->hi = a->hi + b->hi; break;
    case VP_MATH_SUB: t->lo = a->lo - b->hi, t->hi = a->hi - b->lo; break;
    case VP_MATH_MUL: span4(t, a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi); break;
    case VP_MATH_DIV:
        if (b->lo > 0 || b->hi < 0)
            span4(t, a->lo / b->lo, a->lo / b->hi, a->hi / b->lo, a->hi / b->hi);
        t->whole = false;
        break;
    case VP_MATH_MOD:
        if (b->lo > 0)
            t->lo = 0, t->hi = b->hi;
        t->whole = t->whole && b->lo > 0;
        break;
    case VP_MATH_LT: case VP_MATH_LE: case VP_MATH_GT: case VP_MATH_GE: case VP_MATH_EQ: case VP_MATH_NE:
    case VP_MATH_AND: case VP_MATH_OR: case VP_MATH_NOT: case VP_MATH_ISNAN:
        t->lo = 0, t->hi = 1, t->whole = true;
        break;
    case VP_MATH_MIN: t->lo = fmin(a->lo, b->lo), t->hi = fmin(a->hi, b->hi); break;
    case VP_MATH_MAX: t->lo = fmax(a->lo, b->lo), t->hi = fmax(a->hi, b->hi); break;
    case VP_MATH_NEG: t->lo = -a->hi, t->hi = -a->lo; break;
    case VP_MATH_ABS: t->lo = a->lo > 0 ? a->lo : a->hi < 0 ? -a->hi : 0, t->hi = fmax(-a->lo, a->hi); break;
    case VP_MATH_FLOOR: case VP_MATH_CEIL: case VP_MATH_ROUND:
        t->lo = floor(a->lo), t->hi = ceil(a->hi), t->whole = isfinite(a->lo) && isfinite(a->hi);
        break;
    case VP_MATH_IF: t->lo = fmin(b->lo, c->lo), t->hi = fmax(b->hi, c->hi), t->whole = b->whole && c->whole; break;
    case VP_MATH_SQRT:
        if (a->lo >= 0)
            t->lo = sqrt(a->lo), t->hi = sqrt(a->hi);
        t->whole = false;
        break;
    default: t->whole = false;
    }
    if (isnan(t->lo) || isnan(t->hi))
        *t = (struct term){.lo = -INFINITY, .hi = INFINITY};
}

/* Appends the step t = code(from[0..n-1]); t may be one of them. */
static int emit(struct parser *p, const char *at, enum vp_math_code code, int n, const struct term *from,
                struct term *t)
{
    const struct term *arg[3] = {&from[0], n > 1 ? &from[1] : &nothing, n > 2 ? &from[2] : &nothing};
    bool known = true;
    struct term out = {0};

    for (int i = 0; i < n; i++)
        known = known && from[i].constant;
    if (known) {
        double v;
        apply(code, &v, &arg[0]->lo, &arg[1]->lo, &arg[2]->lo, 1);
        return constant(p, at, v, t);
    }
    struct vp_math *m = p->m;
    if (m->n == VP_MATH_LONGEST)
        return complain(p, at, "the expression is too long");
    struct vp_math_step *s = &m->step[m->n++];
    *s = (struct vp_math_step){.code = (uint8_t)code};
    bound(code, arg[0], arg[1], arg[2], &out);
    out.temporary = true;
    out.place = new_place(p, at, false); /* not one of its operands: loops need not handle aliases */
    if (out.place < 0)
        return -1;
    for (int i = 0; i < 3; i++) {
        const struct term *one = &from[i < n ? i : 0];
        s->from[i] = (uint8_t)one->place;
        if (one->temporary)
            p->taken[one->place] = false;
    }
    s->to = (uint8_t)out.place;
    *t = out;
    return 0;
}

/* Precedence of operators; NOT and SIGN are prefixes. */
enum level { OR, AND, NOT, COMPARE, ADD, MULTIPLY, SIGN, POWER };

static int expression(struct parser *p, enum level least, struct term *t);

static const struct function { const char *name; enum vp_math_code code; int least, most; } functions[] = {
    {"min", VP_MATH_MIN, 2, MOST_ARGUMENTS}, {"max", VP_MATH_MAX, 2, MOST_ARGUMENTS}, {"abs", VP_MATH_ABS, 1, 1},
    {"sqrt", VP_MATH_SQRT, 1, 1}, {"exp", VP_MATH_EXP, 1, 1}, {"log", VP_MATH_LOG, 1, 1},
    {"log10", VP_MATH_LOG, 1, 1}, {"log2", VP_MATH_LOG, 1, 1}, {"pow", VP_MATH_POW, 2, 2},
    {"floor", VP_MATH_FLOOR, 1, 1}, {"ceil", VP_MATH_CEIL, 1, 1}, {"round", VP_MATH_ROUND, 1, 1},
    {"clip", VP_MATH_MIN, 3, 3}, {"if", VP_MATH_IF, 3, 3}, {"isnan", VP_MATH_ISNAN, 1, 1},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static int call(struct parser *p, const struct function *f, const char *at, struct term *t)
{
    struct term arg[MOST_ARGUMENTS];
    char text[32];
    int n = 0;

    if (expect(p, "("))
        return -1;
    do {
        if (n == MOST_ARGUMENTS)
            return complain(p, p->at, "%s takes at most %d values", f->name, MOST_ARGUMENTS);
        if (expression(p, OR, &arg[n++]))
            return -1;
    } while (accept(p, ","));
    blanks(p);
    if (*p->at != ')')
        return complain(p, p->at, "expected ',' or ')', got %s", found(p, text, sizeof text));
    if (n < f->least || n > f->most)
        return complain(p, at, "%s takes %s%d value%s, got %d", f->name, f->least < f->most ? "at least " : "",
                        f->least, f->least == 1 ? "" : "s", n);
    p->at++;
    if (!strcmp(f->name, "clip")) {
        struct term two[2];
        if (emit(p, at, VP_MATH_MAX, 2, arg, &two[0]))
            return -1;
        two[1] = arg[2];
        return emit(p, at, VP_MATH_MIN, 2, two, t);
    }
    if (f->code == VP_MATH_LOG && f->name[3]) { /* log(a) / log(base) */
        struct term two[2];
        if (emit(p, at, VP_MATH_LOG, 1, arg, &two[0]) || constant(p, at, f->name[3] == '1' ? log(10) : log(2), &two[1]))
            return -1;
        return emit(p, at, VP_MATH_DIV, 2, two, t);
    }
    if (n < 2 || f->code == VP_MATH_IF)
        return emit(p, at, f->code, n, arg, t);
    struct term two[2] = {arg[0]};
    for (int i = 1; i < n; i++) {
        two[1] = arg[i];
        if (emit(p, at, f->code, 2, two, &two[0]))
            return -1;
    }
    *t = two[0];
    return 0;
}

static int variable(struct parser *p, int place, double lo, double hi, bool whole, struct term *t)
{
    p->m->used[place] = true;
    *t = (struct term){.place = place, .lo = lo, .hi = hi, .whole = whole};
    return 0;
}

static int name(struct parser *p, struct term *t)
{
    static const char *const position[] = {"x", "y", "z", "page"};
    const char *at = p->at;
    char word[24];
    int n = 0;

    while ((isalnum((unsigned char)at[n]) || at[n] == '_') && n < (int)sizeof word - 1)
        n++;
    memcpy(word, at, (size_t)n);
    word[n] = '\0';
    p->at += n;
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!strcmp(word, functions[i].name))
            return call(p, &functions[i], at, t);
    for (int i = 0; i < 4; i++)
        if (!strcmp(word, position[i]))
            return variable(p, VP_MATH_X + i, 0, 0x1p62, true, t);
    if (!strcmp(word, "pi"))
        return constant(p, at, 3.14159265358979323846, t);
    if (!strcmp(word, "nan"))
        return constant(p, at, NAN, t);
    if (!strcmp(word, "inf"))
        return constant(p, at, INFINITY, t);
    if (n == 1 && *word >= 'a' && *word < 'a' + VP_MAX_INPUTS) {
        const int k = *word - 'a';
        if (k >= p->stacks)
            return complain(p, at, "%c is stack %d, but there %s %d", *word, k + 1, p->stacks == 1 ? "is" : "are",
                            p->stacks);
        return variable(p, k, vp_type_min(p->m->of), vp_type_max(p->m->of), !vp_type_is_float(p->m->of), t);
    }
    char stacks[16] = "a";
    if (p->stacks > 1)
        snprintf(stacks, sizeof stacks, "a to %c", 'a' + p->stacks - 1);
    return complain(p, at, "expected a number, a stack (%s), x, y, z, page or a function, got '%s'", stacks, word);
}

static int atom(struct parser *p, struct term *t)
{
    char text[32];
    blanks(p);
    const char *at = p->at;
    if (isdigit((unsigned char)*at) || *at == '.') {
        char *end;
        const double v = strtod(at, &end);
        if (end == at)
            return complain(p, at, "expected a number, got %s", found(p, text, sizeof text));
        if (isinf(v))
            return complain(p, at, "%.*s is larger than any number", end - at < 40 ? (int)(end - at) : 40, at);
        const bool hex = *at == '0' && (at[1] == 'x' || at[1] == 'X'); /* accepted by strtod, but not in the manual */
        p->at = hex ? at + 1 : end;
        if (isalpha((unsigned char)*p->at))
            return complain(p, p->at, "expected an operator, got %s", found(p, text, sizeof text));
        return constant(p, at, v, t);
    }
    if (isalpha((unsigned char)*at))
        return name(p, t);
    if (!accept(p, "("))
        return complain(p, at, "expected a value, got %s", found(p, text, sizeof text));
    return expression(p, OR, t) || expect(p, ")") ? -1 : 0;
}

static const struct operator { const char *text; enum vp_math_code code; enum level level; } operators[] = {
    {"**", VP_MATH_POW, POWER}, /* before * */
    {"or", VP_MATH_OR, OR}, {"||", VP_MATH_OR, OR}, {"and", VP_MATH_AND, AND}, {"&&", VP_MATH_AND, AND},
    {"<=", VP_MATH_LE, COMPARE}, {">=", VP_MATH_GE, COMPARE}, {"==", VP_MATH_EQ, COMPARE},
    {"!=", VP_MATH_NE, COMPARE}, {"<", VP_MATH_LT, COMPARE}, {">", VP_MATH_GT, COMPARE},
    {"+", VP_MATH_ADD, ADD}, {"-", VP_MATH_SUB, ADD},
    {"*", VP_MATH_MUL, MULTIPLY}, {"/", VP_MATH_DIV, MULTIPLY}, {"%", VP_MATH_MOD, MULTIPLY},
    {"^", VP_MATH_POW, POWER},
};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

/* Parses a value and the following operators of precedence `least` or higher. */
static int expression(struct parser *p, enum level least, struct term *t)
{
    struct term two[2];
    const struct operator *o;

    blanks(p);
    const char *at = p->at;
    if (++p->depth > DEEPEST)
        return complain(p, at, "the expression is nested too deeply");
    if (least <= NOT && (accept(p, "not") || (*at == '!' && at[1] != '=' && accept(p, "!")))) {
        if (expression(p, NOT, &two[0]) || emit(p, at, VP_MATH_NOT, 1, &two[0], &two[0]))
            return -1;
    } else if (accept(p, "-")) { /* -a^2 is -(a^2) */
        if (expression(p, SIGN, &two[0]) || emit(p, at, VP_MATH_NEG, 1, &two[0], &two[0]))
            return -1;
    } else if (accept(p, "+") ? expression(p, SIGN, &two[0]) : atom(p, &two[0])) {
        return -1;
    }
    do {
        blanks(p);
        at = p->at;
        for (o = operators; o < operators + N_OPERATORS && (o->level < least || !accept(p, o->text)); o++)
            ;
        if (o < operators + N_OPERATORS /* left-associative, except the last */
            && (expression(p, o->level == POWER ? SIGN : o->level + 1, &two[1])
                || emit(p, at, o->code, 2, two, &two[0])))
            return -1;
    } while (o < operators + N_OPERATORS);
    *t = two[0];
    p->depth--;
    return 0;
}

int vp_math_parse(struct vp_math **out, const char *text, int stacks, enum vp_type type, struct vp_err *err)
{
    struct vp_math *m = calloc(1, sizeof *m);
    struct parser p = {.m = m, .text = text, .at = text, .stacks = stacks, .err = err};
    struct term t;
    char word[32];

    if (!m)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    m->of = type;
    m->places = VP_MATH_FIRST;
    m->inner = m->nz = 1;
    int rc = expression(&p, OR, &t);
    blanks(&p);
    if (!rc && *p.at) {
        rc = complain(&p, p.at, "expected an operator or the end, got %s", found(&p, word, sizeof word));
        if (*p.at == '&' || *p.at == '|')
            vp_hint(err, "conditions are combined by `and` and `or`: (a > 1) and (b < 2)");
        else if (*p.at == '=')
            vp_hint(err, "values are compared by ==");
        else if (*p.at == '?')
            vp_hint(err, "if(condition, value, other) chooses");
    }
    if (rc) {
        free(m);
        return -1;
    }
    m->result = t.place;
    m->lo = t.lo;
    m->hi = t.hi;
    m->whole = t.whole;
    *out = m;
    return 0;
}

void vp_math_free(struct vp_math *m)
{
    free(m);
}

enum vp_type vp_math_type(const struct vp_math *m)
{
    const bool fits = m->whole && m->lo >= vp_type_min(m->of) && m->hi <= vp_type_max(m->of);
    return vp_type_is_float(m->of) || fits ? m->of : VP_F32;
}

/* ---- the operation ---- */

static uint64_t math_scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_math *m = op->params;
    (void)in, (void)out;
    return (uint64_t)threads * (uint64_t)m->places * BLOCK * sizeof(double);
}

static bool is_copy(const struct vp_op *op)
{
    const struct vp_math *m = op->params;
    return m->n == 0 && m->result < VP_MAX_INPUTS && op->in == op->out;
}

struct math_position { int64_t x, y, page; };

/* Evaluates n samples of one row, or of several if no step uses x and y. Returns the number of clamped results. */
static int64_t block(const struct vp_op *op, double *room, const void *const *in, void *out, struct math_position at,
                     int n)
{
    const struct vp_math *m = op->params;
    for (int k = 0; k < op->inputs; k++)
        if (m->used[k])
            vp_convert(room + (size_t)k * BLOCK, VP_F64, in[k], op->in, n, 1, 0);
    const double position[] = {0, (double)at.y, (double)(at.page / m->inner % m->nz), (double)at.page};
    for (int i = 0; i < 4; i++) {
        double *to = room + (size_t)(VP_MATH_X + i) * BLOCK;
        if (!m->used[VP_MATH_X + i])
            continue;
        for (int k = 0; k < n; k++)
            to[k] = i == 0 ? (double)(at.x + k) : position[i];
    }
    for (int i = 0; i < m->n; i++) {
        const struct vp_math_step *s = &m->step[i];
        apply((enum vp_math_code)s->code, room + (size_t)s->to * BLOCK, room + (size_t)s->from[0] * BLOCK,
              room + (size_t)s->from[1] * BLOCK, room + (size_t)s->from[2] * BLOCK, n);
    }
    const double *const result = room + (size_t)m->result * BLOCK;
    const int64_t clamped = vp_convert(out, op->out, result, VP_F64, n, 1, 0);
    int64_t bad = 0;
    if (!vp_type_is_float(op->out))
        return clamped;
    for (int i = 0; i < n; i++)
        bad += !isfinite(result[i]);
    return bad;
}

static int math_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                    int threads, struct vp_err *err)
{
    struct vp_math *m = op->params;
    const int64_t w = vp_box_size(&out->box, 0), h = vp_box_size(&out->box, 1), d = vp_box_size(&out->box, 2);
    const size_t size_in = vp_type_size(op->in), size_out = vp_type_size(op->out);
    /* contiguous rows are one, if no step uses positions */
    bool joined = !m->used[VP_MATH_X] && !m->used[VP_MATH_Y] && out->stride == w;
    for (int k = 0; k < op->inputs; k++)
        joined = joined && in[k].stride == w;
    const int64_t rows = joined ? 1 : h, length = joined ? w * h : w;
    const int64_t pieces = (length + 16 * BLOCK - 1) / (16 * BLOCK), all = d * rows * pieces;
    const bool copy = is_copy(op);
    int64_t lost = 0;

    (void)err;
    #pragma omp parallel num_threads(threads) reduction(+ : lost)
    {
        double *room = (double *)scratch + (size_t)omp_get_thread_num() * (size_t)m->places * BLOCK;
        for (int i = VP_MATH_FIRST; i < m->places && !copy; i++)
            for (int k = 0; k < BLOCK && m->constant[i]; k++)
                room[(size_t)i * BLOCK + (size_t)k] = m->value[i];
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < all; i++) {
            const int64_t z = i / pieces / rows, y = i / pieces % rows, x0 = i % pieces * 16 * BLOCK;
            const int64_t x1 = x0 + 16 * BLOCK < length ? x0 + 16 * BLOCK : length;
            char *to = (char *)out->plane[z] + (size_t)(y * out->stride) * size_out;
            if (copy) {
                memcpy(to + (size_t)x0 * size_out,
                       (char *)in[m->result].plane[z] + (size_t)(y * in[m->result].stride + x0) * size_in,
                       (size_t)(x1 - x0) * size_in);
                continue;
            }
            for (int64_t x = x0; x < x1; x += BLOCK) {
                const void *from[VP_MAX_INPUTS];
                for (int k = 0; k < op->inputs; k++)
                    from[k] = (char *)in[k].plane[z] + (size_t)(y * in[k].stride + x) * size_in;
                lost += block(op, room, from, to + (size_t)x * size_out,
                              (struct math_position){out->box.lo[0] + x, out->box.lo[1] + y, out->box.lo[2] + z},
                              x1 - x < BLOCK ? (int)(x1 - x) : BLOCK);
            }
        }
    }
    #pragma omp atomic
    m->lost += lost;
    return 0;
}

/* Adds the lost samples of a part made by a device. */
static void add_counts(const struct vp_op *op, const void *told)
{
    struct vp_math *m = op->params;
    const int64_t *lost = told;
    #pragma omp atomic
    m->lost += *lost;
}

static const struct vp_report report = {sizeof((struct vp_math *)0)->lost, add_counts};

int vp_math_add(struct vp_chain *c, struct vp_math *m, const int64_t image[3], int stacks, enum vp_type out,
                struct vp_err *err)
{
    struct vp_op op = {.kernel = "math", .inputs = stacks, .in = m->of, .out = out, .params = m, .free = free,
                          .scratch = math_scratch, .run = math_run, .cost = 0.3 * (1 + stacks + m->n),
                          .report = &report};
    memcpy(op.image, image, sizeof op.image);
    for (int k = 0; k < stacks; k++)
        op.from[k] = ~k;
    snprintf(op.text, sizeof op.text, "math, %d step%s, in f64", m->n, m->n == 1 ? "" : "s");
    if (is_copy(&op)) {
        op.cost = 0.2;
        op.report = NULL;
        snprintf(op.text, sizeof op.text, "math, a copy");
    }
    return vp_chain_add(c, &op, err);
}
