/* SPDX-License-Identifier: BSD-3-Clause */
/* MetaImage, as ITK writes it: lines `Key = value`, the last of which is ElementDataFile; then the samples (MHA), or in
 * that file (MHD), plain or deflated. */
#include "base/err.h"
#include "stack/samples.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct meta_image {
    int axes;
    int64_t size[3];
    char type[32], file[1024];
    bool swap, packed;
    long long skip;
    double spacing[3], matrix[9], origin[3];
    int spacings, cells, origins; /* numbers of them that were read */
};

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, 16, err);
    (void)o;
    return n < 0 ? -1 : n == 16 && (!memcmp(head, "ObjectType = ", 13) || !memcmp(head, "ObjectType=", 11)
                                    || !memcmp(head, "NDims = ", 8) || !memcmp(head, "NDims=", 6));
}

static int numbers(const char *p, double *to, int most)
{
    int n = 0, k;
    for (; n < most && sscanf(p, " %lf%n", to + n, &k) == 1; n++)
        p += k;
    return n;
}

static bool is_true(const char *value)
{
    return *value == 'T' || *value == 't' || *value == '1';
}

static int take(struct vp_source *s, struct meta_image *m, const char *key, const char *value, struct vp_err *err)
{
    double v[3] = {0};
    if (!strcasecmp(key, "NDims"))
        m->axes = atoi(value);
    else if (!strcasecmp(key, "DimSize"))
        for (int i = 0, n = numbers(value, v, 3); i < n; i++)
            m->size[i] = v[i] >= 1 && v[i] < 1e15 ? (int64_t)v[i] : 0;
    else if (!strcasecmp(key, "ElementType"))
        snprintf(m->type, sizeof m->type, "%s", value);
    else if (!strcasecmp(key, "ElementByteOrderMSB") || !strcasecmp(key, "BinaryDataByteOrderMSB"))
        m->swap = is_true(value);
    else if (!strcasecmp(key, "CompressedData"))
        m->packed = is_true(value);
    else if (!strcasecmp(key, "BinaryData") && !is_true(value))
        return vp_fail(err, VP_ERUN, "%s: expected binary samples, got text", s->name);
    else if (!strcasecmp(key, "ElementNumberOfChannels") && atoi(value) != 1)
        return vp_fail(err, VP_ERUN, "%s: expected one sample a voxel, got ElementNumberOfChannels %.20s", s->name, value);
    else if (!strcasecmp(key, "HeaderSize"))
        m->skip = atoll(value);
    else if (!strcasecmp(key, "ElementSpacing") || (!strcasecmp(key, "ElementSize") && !m->spacings))
        m->spacings = numbers(value, m->spacing, 3);
    else if (!strcasecmp(key, "TransformMatrix") || !strcasecmp(key, "Rotation") || !strcasecmp(key, "Orientation"))
        m->cells = numbers(value, m->matrix, 9);
    else if (!strcasecmp(key, "Offset") || !strcasecmp(key, "Origin") || !strcasecmp(key, "Position"))
        m->origins = numbers(value, m->origin, 3);
    else if (!strcasecmp(key, "ElementDataFile"))
        snprintf(m->file, sizeof m->file, "%s", value);
    return 0;
}

/* Takes the lines up to ElementDataFile, after which *end is. */
static int parse(struct vp_source *s, struct meta_image *m, char *text, size_t n, uint64_t *end, struct vp_err *err)
{
    for (char *line = text, *next; line < text + n && !m->file[0]; line = next) {
        char *const stop = memchr(line, '\n', (size_t)(text + n - line));
        next = stop ? stop + 1 : text + n;
        *next = stop ? *next : '\0';
        if (stop)
            *stop = '\0';
        for (char *tail = line + strlen(line); tail > line && (tail[-1] == '\r' || tail[-1] == ' ');)
            *--tail = '\0';
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        const char *const value = equals + 1 + strspn(equals + 1, " \t");
        while (equals > line && (equals[-1] == ' ' || equals[-1] == '\t'))
            equals--;
        *equals = '\0';
        if (take(s, m, line, value, err))
            return -1;
        *end = (uint64_t)(next - text);
    }
    return m->file[0] ? 0 : vp_fail(err, VP_ERUN, "%s: expected ElementDataFile in the header of a MetaImage", s->name);
}

static int open_image(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    static const struct vp_type_word words[] = {
        {"MET_UCHAR", VP_U8}, {"MET_CHAR", VP_I8}, {"MET_USHORT", VP_U16}, {"MET_SHORT", VP_I16}, {"MET_UINT", VP_U32},
        {"MET_INT", VP_I32}, {"MET_ULONG", VP_U32}, {"MET_LONG", VP_I32}, {"MET_ULONG_LONG", VP_U64},
        {"MET_LONG_LONG", VP_I64}, {"MET_FLOAT", VP_F32}, {"MET_DOUBLE", VP_F64}};
    struct meta_image m = {0};
    enum vp_type type = VP_U8;
    size_t n;
    uint64_t at = 0;
    char *const text = vp_samples_header(s, 0, &n, err);
    (void)o;
    int rc = text ? parse(s, &m, text, n, &at, err) : -1;
    free(text);
    if (!rc && !vp_type_of_word(words, sizeof words / sizeof *words, m.type, &type))
        rc = vp_fail(err, VP_ERUN, "%s: expected an ElementType of integers or floats, got '%s'", s->name, m.type);
    if (!rc && (!strncmp(m.file, "LIST", 4) || strchr(m.file, '%')))
        rc = vp_fail(err, VP_ERUN, "%s: expected one ElementDataFile, got several: %.80s", s->name, m.file);
    rc = rc || vp_samples_stack(s, m.axes, m.size, type, err) ? -1 : 0;
    double step[3][3] = {{0}};
    for (int i = 0; !rc && i < m.axes; i++)
        for (int k = 0; k < m.axes; k++)
            step[i][k] = m.spacing[i] * (m.cells == m.axes * m.axes ? m.matrix[i * m.axes + k] : i == k);
    if (!rc && m.spacings == m.axes)
        rc = vp_samples_place(s, m.axes, step, m.origins == 3 ? m.origin : NULL, err);
    if (!rc && strcasecmp(m.file, "LOCAL")) {
        rc = vp_samples_elsewhere(s, m.file, err);
        at = 0;
    }
    const uint64_t bytes = rc ? 0 : vp_samples_bytes(&s->stack);
    if (!rc && m.skip == -1 && !m.packed) {
        if (!s->in.anywhere || s->in.size < bytes)
            rc = vp_fail(err, VP_ERUN, "%s: HeaderSize -1: expected a file of at least %llu bytes", s->name,
                         (unsigned long long)bytes);
        at = rc ? 0 : s->in.size - bytes;
    } else {
        at += m.skip > 0 ? (uint64_t)m.skip : 0;
    }
    if (!rc && m.packed) {
        rc = vp_samples_inflate(s, at, bytes, err);
        at = 0;
    }
    return rc ? rc : vp_samples_open(s, at, m.swap, err);
}

static int head(const struct vp_stack *s, const char *name, FILE *to, struct vp_err *err)
{
    static const char *const types[] = {"MET_UCHAR", "MET_USHORT", "MET_UINT", "MET_ULONG_LONG", "MET_CHAR", "MET_SHORT",
                                        "MET_INT", "MET_LONG_LONG", "MET_FLOAT", "MET_DOUBLE"};
    double v[3] = {1, 1, 1}, at[3];
    (void)name, (void)err;
    fprintf(to, "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
                "CompressedData = False\nTransformMatrix = 1 0 0 0 1 0 0 0 1\n");
    if (vp_samples_placed(s, v, at))
        fprintf(to, "Offset = %.9g %.9g %.9g\nElementSpacing = %.9g %.9g %.9g\n", at[0], at[1], at[2], v[0], v[1], v[2]);
    fprintf(to, "DimSize = %lld %lld %19lld\nElementType = %s\nElementDataFile = LOCAL\n", (long long)s->nx,
            (long long)s->ny, (long long)s->pages, types[s->type]);
    return 0;
}

const struct vp_format vp_meta_image = {
    .name = "MetaImage", .sniff = sniff, .open = open_image, .begin = vp_samples_begin, .rows = vp_samples_rows,
    .close = vp_samples_close, .endings = " mha ", .head = head,
};
