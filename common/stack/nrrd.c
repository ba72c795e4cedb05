/* SPDX-License-Identifier: BSD-3-Clause */
/* NRRD (teem.sourceforge.net/nrrd/format.html): lines of text, then the samples of two or three axes, raw or gzip; or
 * with the samples in another file. */
#include "base/err.h"
#include "base/text.h"
#include "stack/foreign.h"
#include "stack/samples.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OURS "voxpipe."

struct nrrd {
    int axes;
    int64_t size[3];
    enum vp_type type;
    bool typed, swap, big, packed;
    double step[3][3], origin[3];
    bool placed, moved; /* step, origin */
    double mm;          /* in the unit of step; 0: unknown */
    char space[64], file[1024];
    long long line_skip, byte_skip;
};

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, 8, err);
    (void)o;
    return n < 0 ? -1 : n == 8 && !memcmp(head, "NRRD000", 7);
}

static bool type_of(const char *word, enum vp_type *type)
{
    static const struct vp_type_word words[] = {
        {"signed char", VP_I8}, {"int8", VP_I8}, {"int8_t", VP_I8}, {"uchar", VP_U8}, {"unsigned char", VP_U8},
        {"uint8", VP_U8}, {"uint8_t", VP_U8}, {"short", VP_I16}, {"short int", VP_I16}, {"signed short", VP_I16},
        {"signed short int", VP_I16}, {"int16", VP_I16}, {"int16_t", VP_I16}, {"ushort", VP_U16},
        {"unsigned short", VP_U16}, {"unsigned short int", VP_U16}, {"uint16", VP_U16}, {"uint16_t", VP_U16},
        {"int", VP_I32}, {"signed int", VP_I32}, {"int32", VP_I32}, {"int32_t", VP_I32}, {"uint", VP_U32},
        {"unsigned int", VP_U32}, {"uint32", VP_U32}, {"uint32_t", VP_U32}, {"longlong", VP_I64}, {"long long", VP_I64},
        {"long long int", VP_I64}, {"signed long long", VP_I64}, {"signed long long int", VP_I64}, {"int64", VP_I64},
        {"int64_t", VP_I64}, {"ulonglong", VP_U64}, {"unsigned long long", VP_U64}, {"unsigned long long int", VP_U64},
        {"uint64", VP_U64}, {"uint64_t", VP_U64}, {"float", VP_F32}, {"double", VP_F64}};
    return vp_type_of_word(words, sizeof words / sizeof *words, word, type);
}

/* Parses "(1,0,0) (0,1,0) (0,0,2)", or "none" for an axis that is none of space. */
static bool directions(struct nrrd *r, const char *p)
{
    for (int i = 0, k; i < r->axes; i++, p += k + strspn(p + k, " ")) {
        k = 0; /* stays where the last parenthesis is missing */
        if (r->axes == 3)
            sscanf(p, " ( %lf , %lf , %lf )%n", &r->step[i][0], &r->step[i][1], &r->step[i][2], &k);
        else
            sscanf(p, " ( %lf , %lf )%n", &r->step[i][0], &r->step[i][1], &k);
        if (!k)
            return false;
    }
    return true;
}

/* Reads units in quotes, "mm" "mm" "mm": all alike, or none is known. */
static double units(const char *p, int axes)
{
    char word[32];
    double mm = 0;
    for (int i = 0, k; i < axes; i++, p += k) {
        k = 0;
        if (sscanf(p, " \"%31[^\"]\"%n", word, &k) < 1 || !k || (i && vp_unit_mm(word) != mm))
            return 0;
        mm = vp_unit_mm(word);
    }
    return mm;
}

/* Takes a line `key: value`. */
static int take(struct vp_source *s, struct nrrd *r, const char *key, char *value, struct vp_err *err)
{
    bool good = true;
    int k = 0;
    if (!strcasecmp(key, "dimension")) {
        r->axes = atoi(value);
        if (r->axes != 2 && r->axes != 3)
            return vp_fail(err, VP_ERUN, "%s: expected 2 or 3 axes, got dimension %.20s", s->name, value);
    } else if (!strcasecmp(key, "type")) {
        r->typed = type_of(value, &r->type);
        if (!r->typed)
            return vp_fail(err, VP_ERUN, "%s: expected samples that are integers or floats, got type %.40s", s->name, value);
    } else if (!strcasecmp(key, "sizes"))
        for (int i = 0; i < r->axes && good; i++, value += k) {
            long long v = 0;
            good = sscanf(value, " %lld%n", &v, &k) == 1;
            r->size[i] = v;
        }
    else if (!strcasecmp(key, "encoding")) {
        r->packed = !strcasecmp(value, "gzip") || !strcasecmp(value, "gz");
        if (!r->packed && strcasecmp(value, "raw"))
            return vp_fail(err, VP_ERUN, "%s: expected encoding raw or gzip, got %.40s", s->name, value);
    } else if (!strcasecmp(key, "endian"))
        r->swap = !strcasecmp(value, "big");
    else if (!strcasecmp(key, "spacings")) {
        for (int i = 0; i < r->axes && good; i++, value += k) {
            char word[40];
            good = sscanf(value, " %39s%n", word, &k) == 1;
            r->step[i][i] = good ? strtod(word, NULL) : 0;
        }
        r->placed = good;
    } else if (!strcasecmp(key, "space directions"))
        r->placed = directions(r, value);
    else if (!strcasecmp(key, "space origin"))
        r->moved = sscanf(value, " ( %lf , %lf , %lf )", &r->origin[0], &r->origin[1], &r->origin[2]) == 3;
    else if (!strcasecmp(key, "units") || !strcasecmp(key, "space units"))
        r->mm = units(value, r->axes);
    else if (!strcasecmp(key, "space"))
        snprintf(r->space, sizeof r->space, "%s", value);
    else if (!strcasecmp(key, "data file") || !strcasecmp(key, "datafile")) {
        if (!strncmp(value, "LIST", 4) || strchr(value, '%'))
            return vp_fail(err, VP_ERUN, "%s: expected one data file, got several: %.80s", s->name, value);
        snprintf(r->file, sizeof r->file, "%s", value);
    } else if (!strcasecmp(key, "line skip") || !strcasecmp(key, "lineskip"))
        r->line_skip = atoll(value);
    else if (!strcasecmp(key, "byte skip") || !strcasecmp(key, "byteskip"))
        r->byte_skip = atoll(value);
    else if (!strcasecmp(key, "kinds"))
        for (const char *p = value; *p; p += strcspn(p, " "), p += strspn(p, " "))
            if (strncasecmp(p, "domain", 6) && strncasecmp(p, "space", 5) && strncasecmp(p, "none", 4)
                && strncasecmp(p, "time", 4) && strncmp(p, "???", 3))
                return vp_fail(err, VP_ERUN, "%s: expected axes of space, got one of kind %.*s", s->name,
                               (int)strcspn(p, " "), p);
    return good ? 0 : vp_fail(err, VP_ERUN, "%s: expected %d numbers in %s", s->name, r->axes, key);
}

/* Takes the lines of the header; *end is the offset after its empty line. */
static int parse(struct vp_source *s, struct nrrd *r, char *text, size_t n, uint64_t *end, struct vp_err *err)
{
    char *line = text, *next;
    for (bool first = true;; first = false, line = next) {
        char *const stop = memchr(line, '\n', (size_t)(text + n - line));
        if (!stop && !r->file[0])
            return vp_fail(err, VP_ERUN, "%s: expected an empty line after the header of a NRRD file within 64 KiB", s->name);
        next = stop ? stop + 1 : text + n;
        if (stop)
            *stop = '\0';
        for (char *tail = line + strlen(line); tail > line && (tail[-1] == '\r' || tail[-1] == ' ');)
            *--tail = '\0';
        *end = (uint64_t)(next - text);
        if (!*line && !first)
            return 0;
        char *const colon = strchr(line, ':');
        if (first || *line == '#' || !colon)
            continue;
        *colon = '\0';
        if (colon[1] == '=') { /* a key and value of their own */
            if (!strncmp(line, OURS, strlen(OURS)))
                (void)vp_meta_add(&s->stack.meta, line + strlen(OURS), colon + 2); /* malformed ones are left out */
        } else if (take(s, r, line, colon + 1 + strspn(colon + 1, " \t"), err))
            return -1;
        if (!stop)
            return 0;
    }
}

/* Passes over lines of a data file. */
static int skip_lines(struct vp_source *s, long long lines, uint64_t *at, struct vp_err *err)
{
    size_t n;
    char *const text = lines ? vp_samples_header(s, *at, &n, err) : NULL;
    if (!lines)
        return 0;
    if (!text)
        return -1;
    const char *p = text;
    for (; p && lines > 0; lines--) {
        p = memchr(p, '\n', (size_t)(text + n - p));
        p = p ? p + 1 : NULL;
    }
    *at += p ? (uint64_t)(p - text) : 0;
    free(text);
    return p ? 0 : vp_fail(err, VP_ERUN, "%s: expected %lld more lines to skip within 64 KiB", s->name, lines + 1);
}

static int open_nrrd(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct nrrd r = {0};
    size_t n;
    uint64_t at = 0;
    char *const text = vp_samples_header(s, 0, &n, err);
    (void)o;
    int rc = text ? parse(s, &r, text, n, &at, err) : -1;
    free(text);
    if (!rc && (!r.typed || !r.axes))
        rc = vp_fail(err, VP_ERUN, "%s: expected dimension, type and sizes in the header of a NRRD file", s->name);
    rc = rc || vp_samples_stack(s, r.axes, r.size, r.type, err) ? -1 : 0;
    /* in a named space lengths are mm, unless another unit is said */
    r.mm = r.mm > 0 ? r.mm : r.space[0] ? 1 : 0;
    for (int i = 0; i < 9; i++)
        r.step[i / 3][i % 3] *= r.mm;
    for (int i = 0; i < 3; i++)
        r.origin[i] *= r.mm;
    if (!rc && r.placed && r.mm > 0 && !vp_meta_get(&s->stack.meta, "voxel"))
        rc = vp_samples_place(s, r.axes, r.step, r.moved ? r.origin : NULL, err);
    else if (!rc && r.placed && !(r.mm > 0))
        s->remark = "its spacing is left out: it has no unit of length";
    if (!rc && r.file[0]) {
        rc = vp_samples_elsewhere(s, r.file, err);
        at = 0;
    }
    rc = rc || (r.line_skip && skip_lines(s, r.line_skip, &at, err)) ? -1 : 0;
    const uint64_t bytes = rc ? 0 : vp_samples_bytes(&s->stack);
    if (!rc && r.packed) {
        rc = r.byte_skip ? vp_fail(err, VP_ERUN, "%s: byte skip of gzip: expected 0, got %lld", s->name, r.byte_skip)
                         : vp_samples_inflate(s, at, bytes, err);
        at = 0;
    } else if (!rc && r.byte_skip == -1) {
        if (!s->in.anywhere || s->in.size < bytes)
            rc = vp_fail(err, VP_ERUN, "%s: byte skip -1: expected a file of at least %llu bytes", s->name,
                         (unsigned long long)bytes);
        at = rc ? 0 : s->in.size - bytes;
    } else if (!rc) {
        at += r.byte_skip > 0 ? (uint64_t)r.byte_skip : 0;
    }
    return rc ? rc : vp_samples_open(s, at, r.swap, err);
}

static int head(const struct vp_stack *s, const char *name, FILE *to, struct vp_err *err)
{
    static const char *const types[] = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float",
                                        "double"};
    double v[3], at[3];
    (void)name, (void)err;
    fprintf(to, "NRRD0004\ntype: %s\ndimension: 3\n", types[s->type]);
    const bool placed = vp_samples_placed(s, v, at);
    if (placed)
        fprintf(to, "space: left-posterior-superior\n");
    fprintf(to, "sizes: %lld %lld %19lld\nkinds: domain domain domain\nendian: little\nencoding: raw\n",
            (long long)s->nx, (long long)s->ny, (long long)s->pages);
    if (placed)
        fprintf(to, "space directions: (%.9g,0,0) (0,%.9g,0) (0,0,%.9g)\nspace origin: (%.9g,%.9g,%.9g)\n", v[0], v[1], v[2],
                at[0], at[1], at[2]);
    for (int i = 0; i < s->meta.n; i++)
        fprintf(to, OURS "%s:=%s\n", s->meta.key[i], s->meta.value[i]);
    fputc('\n', to);
    return 0;
}

const struct vp_format vp_nrrd = {
    .name = "NRRD", .sniff = sniff, .open = open_nrrd, .begin = vp_samples_begin, .rows = vp_samples_rows,
    .close = vp_samples_close, .endings = " nrrd ", .head = head,
};
