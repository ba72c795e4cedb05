/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy's NPY, versions 1 to 3: a Python dictionary before the samples of one array. */
#include "base/err.h"
#include "stack/samples.h"
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, LENGTH = 128 };

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, MAGIC, err);
    (void)o;
    return n < 0 ? -1 : n == MAGIC && !memcmp(head, magic, MAGIC);
}

/* Finds the value of a key of the dictionary. */
static const char *value_of(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    p = p ? p + strlen(key) : NULL;
    while (p && (*p == ' ' || *p == ':' || *p == '\'' || *p == '"'))
        p++;
    return p;
}

/* Parses '<u2'. False: it is none of our types. */
static bool type_of(const char *p, enum vp_type *type, bool *swap)
{
    static const struct vp_type_word words[] = {{"u1", VP_U8},  {"u2", VP_U16}, {"u4", VP_U32}, {"u8", VP_U64},
                                                {"i1", VP_I8},  {"i2", VP_I16}, {"i4", VP_I32}, {"i8", VP_I64},
                                                {"f4", VP_F32}, {"f8", VP_F64}, {"b1", VP_U8}};
    char word[3] = "";
    *swap = *p == '>';
    if (!strchr("<>|=", *p))
        return false;
    strncpy(word, p + 1, 2);
    return (p[3] == '\'' || p[3] == '"') && vp_type_of_word(words, sizeof words / sizeof *words, word, type);
}

static int parse(struct vp_source *s, const char *text, bool *swap, struct vp_err *err)
{
    const char *const descr = value_of(text, "'descr'"), *const order = value_of(text, "'fortran_order'"),
               *shape = value_of(text, "'shape'");
    enum vp_type type = VP_U8;
    int64_t all[4] = {0}, size[3] = {0};
    int n = 0, k;
    if (!descr || !order || !shape || *shape++ != '(')
        return vp_fail(err, VP_ERUN, "%s: expected descr, fortran_order and shape in the header of a NumPy file", s->name);
    if (!type_of(descr, &type, swap))
        return vp_fail(err, VP_ERUN, "%s: expected integers or floats of 4 or 8 bytes, got '%.*s'", s->name,
                       (int)strcspn(descr, "',\n}"), descr);
    for (long long v; n < 4 && sscanf(shape, " %lld%n", &v, &k) == 1; n++) {
        all[n] = v;
        shape += k + strspn(shape + k, "L, ");
    }
    if (n < 4 && *shape != ')')
        return vp_fail(err, VP_ERUN, "%s: the shape of a NumPy file: expected numbers, got '%.*s'", s->name,
                       (int)strcspn(shape, ")\n"), shape);
    for (int i = 0; i < n && i < 3; i++)
        size[i] = all[n - 1 - i];
    if (n > 3)
        n = 4;
    if (!strncmp(order, "True", 4))
        return vp_fail_hint(err, VP_ERUN, "numpy.save(file, numpy.ascontiguousarray(array)) stores the last axis first",
                            "%s: its array is in Fortran's order: expected pages one after the other", s->name);
    return vp_samples_stack(s, n, size, type, err);
}

static int open_npy(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    size_t n;
    bool swap = false;
    char *const text = vp_samples_header(s, 0, &n, err);
    (void)o;
    if (!text)
        return -1;
    const unsigned char *const u = (const unsigned char *)text;
    const size_t start = u[MAGIC] < 2 ? 10 : 12;
    const size_t length = n < start ? 0 : (size_t)u[8] | (size_t)u[9] << 8
                                              | (start == 12 ? (size_t)u[10] << 16 | (size_t)u[11] << 24 : 0);
    int rc;
    if (n < start || u[MAGIC] < 1 || u[MAGIC] > 3 || length > n - start)
        rc = vp_fail(err, VP_ERUN, "%s: expected a NumPy file of version 1 to 3 with a header of less than 64 KiB", s->name);
    else {
        text[start + length] = '\0';
        rc = parse(s, text + start, &swap, err);
    }
    free(text);
    return rc ? rc : vp_samples_open(s, start + length, swap, err);
}

static int head(const struct vp_stack *s, const char *name, FILE *to, struct vp_err *err)
{
    static const char *const types[] = {"|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8"};
    char text[LENGTH + 1];
    (void)name, (void)err;
    const int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %lld, %lld), }",
                           types[s->type], (long long)s->pages, (long long)s->ny, (long long)s->nx);
    fwrite(magic, 1, MAGIC, to);
    fputc(1, to);
    fputc(0, to);
    fputc(LENGTH - 10, to);
    fputc(0, to);
    fprintf(to, "%s%*s\n", text, LENGTH - 11 - n, "");
    return 0;
}

const struct vp_format vp_npy = {
    .name = "NumPy", .sniff = sniff, .open = open_npy, .begin = vp_samples_begin, .rows = vp_samples_rows,
    .close = vp_samples_close, .endings = " npy ", .head = head,
};
