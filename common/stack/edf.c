/* SPDX-License-Identifier: BSD-3-Clause */
/* EDF, the ESRF data format: for each image a header `{ key = value ; ... }`, filled up to a multiple of 512 bytes, and
 * its samples. */
#include "base/err.h"
#include "base/size.h"
#include "stack/foreign.h"
#include "stack/samples.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct edf {
    uint64_t *at; /* samples of the images whose headers were read */
    int64_t n, room;
    bool swap;
};

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, VP_HEAD, err);
    int64_t i = 1;
    (void)o;
    if (n < 8)
        return n < 0 ? -1 : 0;
    while (i < n && isspace(head[i]))
        i++;
    const int64_t word = i;
    while (i < n && (isalnum(head[i]) || strchr("_-. :", head[i])))
        i++;
    return head[0] == '{' && isspace(head[1]) && i > word && i < n && head[i] == '=';
}

/* Copies the value of a key, without the blanks around it; false if there is none. */
static bool value_of(const char *text, const char *key, char *to, size_t size)
{
    const size_t n = strlen(key);
    for (const char *p = text + 1; p && *p; p = strchr(p, ';'), p = p ? p + 1 : NULL) {
        p += strspn(p, " \t\r\n");
        const char *q = p + n;
        if (strncasecmp(p, key, n))
            continue;
        q += strspn(q, " \t");
        if (*q++ != '=')
            continue;
        q += strspn(q, " \t");
        int k = (int)strcspn(q, ";\n}");
        while (k > 0 && isspace((unsigned char)q[k - 1]))
            k--;
        snprintf(to, size, "%.*s", k, q);
        return true;
    }
    return false;
}

static int parse(struct vp_source *s, const char *text, struct vp_stack *k, bool *swap, struct vp_err *err)
{
    static const struct vp_type_word words[] = {
        {"UnsignedByte", VP_U8}, {"SignedByte", VP_I8}, {"UnsignedShort", VP_U16}, {"SignedShort", VP_I16},
        {"UnsignedInteger", VP_U32}, {"SignedInteger", VP_I32}, {"UnsignedLong", VP_U32}, {"SignedLong", VP_I32},
        {"Unsigned64", VP_U64}, {"Signed64", VP_I64}, {"FloatValue", VP_F32}, {"Float", VP_F32}, {"Real", VP_F32},
        {"DoubleValue", VP_F64}, {"Double", VP_F64}};
    char type[64] = "", value[64] = "1";
    value_of(text, "DataType", type, sizeof type);
    if (!vp_type_of_word(words, sizeof words / sizeof *words, type, &k->type))
        return vp_fail(err, VP_ERUN, "%s: expected a DataType of integers or floats, got '%s'", s->name, type);
    if (value_of(text, "Dim_3", value, sizeof value) && atoll(value) > 1)
        return vp_fail(err, VP_ERUN, "%s: expected images of Dim_1 x Dim_2, got a Dim_3 of %s", s->name, value);
    if (value_of(text, "Compression", value, sizeof value) && strcasecmp(value, "None") && strcasecmp(value, "NoCompression"))
        return vp_fail(err, VP_ERUN, "%s: expected samples without compression, got %s", s->name, value);
    k->nx = value_of(text, "Dim_1", value, sizeof value) ? atoll(value) : 0;
    k->ny = value_of(text, "Dim_2", value, sizeof value) ? atoll(value) : 1;
    *swap = value_of(text, "ByteOrder", value, sizeof value) && !strcasecmp(value, "HighByteFirst");
    return 0;
}

/* Sets the size of pixels, which these files have in m. */
static int read_pixel(struct vp_source *s, const char *text, struct vp_err *err)
{
    char value[64];
    const double x = value_of(text, "PSize_1", value, sizeof value) ? 1e3 * strtod(value, NULL) : 0,
                 y = value_of(text, "PSize_2", value, sizeof value) ? 1e3 * strtod(value, NULL) : 0;
    return x > 0 && y > 0 && vp_meta_voxel(&s->stack.meta, x, y, 0)
               ? vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name) : 0;
}

/* Reads the header of the next image: 1; 0 if there is none; -1. */
static int next_header(struct vp_source *s, struct edf *e, struct vp_err *err)
{
    const uint64_t at = e->n ? e->at[e->n - 1] + vp_page_bytes(&s->stack) : 0;
    size_t n;
    char *const text = vp_samples_header(s, at, &n, err);
    uint64_t *const more = text ? vp_grow(e->at, e->n, &e->room, sizeof *more, "the table of its images", s->name, err) : NULL;
    if (!more) {
        free(text);
        return -1;
    }
    e->at = more;
    if (e->n && !n) {
        free(text);
        return !s->in.anywhere && s->in.position < at ? vp_source_cut(s, e->n - 1, vp_page_bytes(&s->stack) - (at - s->in.position), err)
                                                      : 0;
    }
    char *end = strstr(text, "}\n");
    struct vp_stack k = {0};
    bool swap = false;
    int rc = *text != '{' || !end
                 ? vp_page_fail(s->name, e->n, err, "expected a header { ... } within 64 KiB") : 0;
    if (!rc) {
        *end = '\0';
        rc = parse(s, text, &k, &swap, err);
    }
    if (!rc && !e->n) {
        rc = vp_samples_stack(s, 2, (int64_t[]){k.nx, k.ny}, k.type, err) || read_pixel(s, text, err) ? -1 : 0;
        e->swap = swap;
    } else if (!rc && (k.nx != s->stack.nx || k.ny != s->stack.ny || k.type != s->stack.type || swap != e->swap))
        rc = vp_page_fail(s->name, e->n, err, "expected %lldx%lld %s as the first, got %lldx%lld %s", (long long)s->stack.nx,
                          (long long)s->stack.ny, vp_type_name(s->stack.type), (long long)k.nx, (long long)k.ny,
                          vp_type_name(k.type));
    const uint64_t samples = at + (uint64_t)(end ? end + 2 - text : 0);
    free(text);
    if (rc)
        return -1;
    const uint64_t left = vp_bytes_before(samples, vp_page_bytes(&s->stack), s->in.size);
    if (s->in.anywhere && left < vp_page_bytes(&s->stack))
        return vp_source_cut(s, e->n, left, err);
    e->at[e->n++] = samples;
    return 1;
}

static int open_edf(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct edf *const e = s->own = vp_alloc(1, sizeof *e, s->name, err);
    (void)o;
    int rc = e ? next_header(s, e, err) : -1;
    while (rc == 1 && s->in.anywhere)
        rc = next_header(s, e, err);
    s->stack.pages = e && s->in.anywhere ? e->n : -1;
    s->need += e ? (uint64_t)e->room * sizeof *e->at : 0;
    return rc < 0 ? -1 : 0;
}

static int begin(struct vp_source *s, int64_t page, struct vp_err *err)
{
    struct edf *const e = s->own;
    int rc = 1;
    while (rc == 1 && e->n <= page)
        rc = next_header(s, e, err);
    return rc;
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    const struct edf *const e = s->own;
    const size_t size = vp_type_size(s->stack.type), n = (size_t)(y1 - y0) * (size_t)s->stack.nx;
    const uint64_t at = e->at[page] + (uint64_t)y0 * (uint64_t)s->stack.nx * size;
    const int rc = vp_source_read(s, page, at, buf, n * size, err);
    if (rc)
        return rc < 0 ? -1 : vp_source_cut(s, page, s->in.position - e->at[page], err);
    if (e->swap)
        vp_source_swap(buf, size, n);
    return 0;
}

static void close_edf(struct vp_source *s)
{
    struct edf *const e = s->own;
    if (e)
        free(e->at);
    free(e);
}

const struct vp_format vp_edf = {
    .name = "EDF", .sniff = sniff, .open = open_edf, .begin = begin, .rows = rows, .close = close_edf,
};
