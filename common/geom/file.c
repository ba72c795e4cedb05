/* SPDX-License-Identifier: BSD-3-Clause */
/* Geometry files: reading what is there, writing our own, and the lines of it that travel in a stack's
 * metadata. */
#include "base/text.h"
#include "geom/draft.h"
#include "base/err.h"
#include "base/places.h"
#include "stack/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- reading ------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 30 };

static bool is_tiff(const char *b, size_t n)
{
    return n >= 4 && (!memcmp(b, "II\x2a\0", 4) || !memcmp(b, "II\x2b\0", 4) || !memcmp(b, "MM\0\x2a", 4) ||
                      !memcmp(b, "MM\0\x2b", 4));
}

/* Everything in a file ("-": standard input), malloc'd; a TIFF file stops after its first bytes. */
static char *slurp(const char *path, const char *name, size_t *len, struct vp_err *err)
{
    char *text = NULL;
    size_t n = 0, cap = 0;
    const int fd = !strcmp(path, "-") ? STDIN_FILENO : vp_open_fd(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        vp_fail_errno(err, "%s", name);
        return NULL;
    }
    for (;;) {
        if (n == cap) {
            cap = cap ? 2 * cap : 1 << 16;
            char *more = cap <= MOST_BYTES ? realloc(text, cap) : NULL;
            if (!more) {
                vp_fail(err, VP_ERUN, "%s: too large for a geometry file", name);
                goto fail;
            }
            text = more;
        }
        const ssize_t got = read(fd, text + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            vp_fail_errno(err, "%s", name);
            goto fail;
        }
        n += (size_t)got;
        if (got == 0 || is_tiff(text, n))
            break;
    }
    *len = n;
    goto out;
fail:
    free(text);
    text = NULL;
out:
    if (fd != STDIN_FILENO)
        close(fd);
    return text;
}

static int draft_pairs(struct vp_draft *d, const struct vp_meta *m, const char *name, struct vp_err *err);

static int draft_tiff(struct vp_draft *d, const char *path, const char *name, bool standard_input,
                      struct vp_err *err)
{
    if (standard_input)
        return vp_fail_hint(err, VP_ERUN, "give the stack as a file, not on standard input",
                            "%s: expected the text of a geometry, got TIFF", name);
    const struct vp_reader_options options = {0};
    struct vp_reader *reader = NULL;
    if (vp_reader_open(&reader, &path, 1, &options, err))
        return -1;
    int found = draft_pairs(d, &vp_reader_stack(reader)->meta, name, err);
    /* Only the header was wanted: what closing says of the pages does not matter. */
    struct vp_err unused = VP_ERR_INIT;
    vp_reader_close(reader, &unused);
    if (found == 0)
        found = vp_fail(err, VP_ERUN, "%s carries no scan geometry", name);
    return found < 0 ? -1 : 0;
}

static int draft_file(struct vp_draft *d, const char *path, struct vp_err *err)
{
    const bool standard_input = !strcmp(path, "-");
    const char *name = standard_input ? "standard input" : path;
    size_t len;
    char *text = slurp(path, name, &len, err);
    if (!text)
        return -1;
    const int status = is_tiff(text, len) ? draft_tiff(d, path, name, standard_input, err)
                                          : vp_draft_text(d, text, len, name, err);
    free(text);
    return status;
}

int vp_geom_parse(struct vp_geom *g, const char *text, size_t len, const char *name, struct vp_err *err)
{
    struct vp_draft d = {0};
    int status = vp_draft_text(&d, text, len, name, err);
    if (!status)
        status = vp_draft_finish(&d, g, name, err);
    vp_draft_free(&d);
    return status;
}

int vp_geom_read(struct vp_geom *g, const char *path, struct vp_err *err)
{
    return vp_geom_make(g, path, &(struct vp_geom_params){0}, err);
}

/* --- options over a file -------------------------------------------------------------------------- */

#define P struct vp_geom_params
const struct vp_opt vp_geom_options[] = {
    VP_STRING(P, beam, "beam", 0, .metavar = "cone|parallel", .group = "Geometry",
              .help = "cone (a detector of one row is a fan beam) or parallel (default: cone)"),
    VP_STRING(P, sod, "sod", 0, .metavar = "MM", .help = "distance from the source to the rotation axis; or 400mm"),
    VP_STRING(P, sdd, "sdd", 0, .metavar = "MM", .help = "distance from the source to the detector"),
    VP_STRING(P, detector, "detector", 0, .metavar = "WxH", .help = "detector columns and rows"),
    VP_STRING(P, pitch, "pitch", 0, .metavar = "MM",
              .help = "pixel pitch on the detector; or along columns and rows, '0.2 0.3'",
              .more = "A negative number says that columns or rows are numbered the other way: "
                      "'0.2 -0.2' is for images whose first row is on top."),
    VP_STRING(P, offset_u, "offset-u", 0, .metavar = "PIXELS",
              .help = "where the axis falls on the detector, columns from its centre; or 1.5mm",
              .more = "The central ray runs from the source through the rotation axis; this is where it meets "
                      "the detector. With the axis at column c of W, it is c - (W - 1) / 2."),
    VP_STRING(P, offset_v, "offset-v", 0, .metavar = "PIXELS",
              .help = "where the plane of the orbit falls on the detector, rows from its centre; or 1.5mm"),
    VP_STRING(P, tilt, "tilt", 0, .metavar = "DEGREES",
              .help = "detector turned in its plane: the image of the axis leans towards larger columns"),
    VP_STRING(P, views, "views", 0, .metavar = "N", .help = "number of views, spread evenly over the arc"),
    VP_STRING(P, arc, "arc", 0, .metavar = "DEGREES",
              .help = "arc of the views; its end is not measured again (default: 360)"),
    VP_STRING(P, start, "start", 0, .metavar = "DEGREES", .help = "angle of the first view (default: 0)"),
    VP_FILE(P, angles, "angles", 0, .metavar = "FILE", .help = "angles in degrees from a file, one a line"),
    VP_FLAG(P, clockwise, "clockwise", 0,
            .help = "the source turns clockwise around the object, seen from +z",
            .more = "A turning object and a resting source are the same thing with the sense reversed. The "
                    "wrong sense shows as doubled edges (in a parallel beam, as a mirror image)."),
    VP_FLAG(P, counterclockwise, "counterclockwise", 0,
            .help = "the source turns counter-clockwise (the default)"),
    VP_OPT_END,
};
#undef P

static int draft_angles(struct vp_draft *d, const char *path, struct vp_err *err)
{
    size_t len;
    char *text = slurp(path, path, &len, err);
    const int status = text ? vp_draft_angles(d, text, len, path, err) : -1;
    free(text);
    return status;
}

/* What is wrong came from the command line, not from a file. */
static int as_usage(struct vp_err *err)
{
    if (err && err->code == VP_ERUN)
        err->code = VP_EUSAGE;
    return -1;
}

static int draft_options(struct vp_draft *d, const struct vp_geom_params *o, struct vp_err *err)
{
    const struct { const char *value, *option; enum vp_geom_key key; } rows[] = {
        {o->beam, "--beam", VP_GK_BEAM}, {o->sod, "--sod", VP_GK_SOD}, {o->sdd, "--sdd", VP_GK_SDD},
        {o->detector, "--detector", VP_GK_DETECTOR}, {o->pitch, "--pitch", VP_GK_PITCH},
        {o->offset_u, "--offset-u", VP_GK_OFFSET_U}, {o->offset_v, "--offset-v", VP_GK_OFFSET_V},
        {o->tilt, "--tilt", VP_GK_TILT}, {o->views, "--views", VP_GK_VIEWS}, {o->arc, "--arc", VP_GK_ARC},
        {o->start, "--start", VP_GK_START},
    };
    d->seen = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].value)
            continue;
        if (vp_draft_set(d, rows[i].key, rows[i].value, rows[i].option, err)) {
            err->code = VP_EUSAGE;
            return -1;
        }
    }
    if (o->clockwise && o->counterclockwise)
        return vp_fail(err, VP_EUSAGE, "--clockwise and --counterclockwise cannot be combined");
    if (o->clockwise || o->counterclockwise) {
        vp_draft_mark(d, VP_GK_DIRECTION);
        d->clockwise = o->clockwise;
    }
    return o->angles ? draft_angles(d, o->angles, err) : 0;
}

int vp_geom_make(struct vp_geom *g, const char *path, const struct vp_geom_params *o, struct vp_err *err)
{
    struct vp_draft d = {0};
    const char *name = !path ? "options" : !strcmp(path, "-") ? "standard input" : path;
    *g = (struct vp_geom){0};
    int status = path ? draft_file(&d, path, err) : 0;
    if (!status)
        status = draft_options(&d, o, err);
    if (!status && vp_draft_finish(&d, g, name, err))
        status = path ? -1 : as_usage(err);
    vp_draft_free(&d);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------- */

/* One line of a geometry file goes to `put`; `note` is a comment for people, or NULL. */
struct sink {
    int (*put)(void *ctx, const char *key, const char *value, const char *note);
    void *ctx;
};

static bool reproduces(const struct vp_geom *g, double step)
{
    for (int64_t k = 0; k < g->views; k++)
        if (g->angle[0] + (double)k * step != g->angle[k])
            return false;
    return true;
}

/* The step such that start + k * step is every angle to the bit: the shortest decimal that does it. */
static bool equal_steps(const struct vp_geom *g, double *step)
{
    if (g->views < 3)
        return false;
    const double mean = (g->angle[g->views - 1] - g->angle[0]) / (double)(g->views - 1);
    const double first = g->angle[1] - g->angle[0];
    for (int digits = 1; digits <= 17; digits++) {
        char text[32];
        snprintf(text, sizeof text, "%.*g", digits, mean);
        *step = strtod(text, NULL);
        if (g->angle[0] + (double)(g->views - 1) * *step == g->angle[g->views - 1] && reproduces(g, *step))
            return true;
    }
    const double near[] = {first, nextafter(mean, INFINITY), nextafter(mean, -INFINITY)};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        *step = near[i];
        if (reproduces(g, *step))
            return true;
    }
    return false;
}

static int put_numbers(const struct sink *s, const char *key, const double *x, int n, const char *note)
{
    char text[12 * 32] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        char one[32];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 vp_geom_number(one, x[i]));
    }
    return s->put(s->ctx, key, text, note);
}

static int put_angles(const struct vp_geom *g, const struct sink *s)
{
    double step;
    if (equal_steps(g, &step)) {
        char text[96], a[32], b[32];
        snprintf(text, sizeof text, "%s:%s:%lld", vp_geom_number(a, g->angle[0]), vp_geom_number(b, step),
                 (long long)g->views);
        return s->put(s->ctx, "angles", text, "degrees, start:step:count");
    }
    for (int64_t k = 0; k < g->views; k += 8) {
        const int n = g->views - k < 8 ? (int)(g->views - k) : 8;
        if (put_numbers(s, "angles", g->angle + k, n, k ? NULL : "degrees"))
            return -1;
    }
    return 0;
}

static int put_pitch(const struct vp_geom *g, const struct sink *s)
{
    const double pitch[2] = {g->du, g->dv};
    return put_numbers(s, "pitch", pitch, g->du == g->dv ? 1 : 2,
                       g->dv < 0 ? "mm; negative: the first row is on top" : "mm");
}

static int put_all(const struct vp_geom *g, bool matrices, const struct sink *s)
{
    char detector[64];
    const bool cone = g->beam == VP_CONE;
    snprintf(detector, sizeof detector, "%lldx%lld", (long long)g->nu, (long long)g->nv);
    if (s->put(s->ctx, "beam", cone ? "cone" : "parallel", NULL) ||
        (cone && g->sod > 0 && put_numbers(s, "sod", &g->sod, 1, "mm, source to axis")) ||
        (cone && g->sdd > 0 && put_numbers(s, "sdd", &g->sdd, 1, "mm, source to detector")) ||
        s->put(s->ctx, "detector", detector, "columns x rows") || (g->du != 0 && put_pitch(g, s)))
        return -1;
    if (!matrices)
        return put_numbers(s, "offset-u", &g->offset_u, 1, "pixels, of the axis from the centre column") ||
                       put_numbers(s, "offset-v", &g->offset_v, 1,
                                   "pixels, of the orbit from the centre row") ||
                       put_numbers(s, "tilt", &g->tilt, 1, "degrees, of the detector in its plane") ||
                       s->put(s->ctx, "direction", g->clockwise ? "clockwise" : "counterclockwise",
                              "of the source, seen from +z") ||
                       put_angles(g, s)
                   ? -1
                   : 0;

    for (int64_t k = 0; k < g->views; k++) {
        double P[12];
        if (g->matrix) {
            memcpy(P, g->matrix + 12 * k, sizeof P);
        } else {
            struct vp_view view;
            vp_view_from_geom(g, k, &view);
            memcpy(P, view.P, sizeof P);
        }
        if (put_numbers(s, "matrix", P, 12, NULL))
            return -1;
    }
    return 0;
}

static int put_text(void *ctx, const char *key, const char *value, const char *note)
{
    FILE *f = ctx;
    const int used = fprintf(f, "%s = %s", key, value);
    if (used < 0)
        return -1;
    return (note ? fprintf(f, "%*s # %s\n", used < 32 ? 32 - used : 0, "", note) : fputs("\n", f)) < 0 ? -1
                                                                                                       : 0;
}

char *vp_geom_format(const struct vp_geom *g, bool matrices)
{
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    const struct sink s = {put_text, f};
    bool failed =
        fputs("# voxpipe geometry, see ct-geometry(5)\n", f) < 0 || put_all(g, matrices || g->matrix, &s);
    char *text = vp_text_close(f, NULL);
    if (failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- metadata ------------------------------------------------------------------------------------ */

static int put_meta(void *ctx, const char *key, const char *value, const char *note)
{
    char full[64];
    (void)note;
    snprintf(full, sizeof full, "geom.%s", key);
    return vp_meta_add(ctx, full, value);
}

int vp_geom_to_meta(const struct vp_geom *g, struct vp_meta *m, struct vp_err *err)
{
    const struct sink s = {put_meta, m};
    vp_meta_remove_prefix(m, "geom.");
    if (put_all(g, g->matrix, &s))
        return vp_fail(err, VP_ERESOURCE, "out of memory for the geometry in the metadata");
    return 0;
}

/* 1 if there are geom.* lines, 0 if not, -1 if they are wrong. */
static int draft_pairs(struct vp_draft *d, const struct vp_meta *m, const char *name, struct vp_err *err)
{
    int found = 0;
    d->seen = 0;
    for (int i = 0; i < m->n; i++) {
        char where[512];
        enum vp_geom_key key;
        if (strncmp(m->key[i], "geom.", 5))
            continue;
        found = 1;
        snprintf(where, sizeof where, "%.400s: %.80s", name, m->key[i]);
        if (vp_geom_key_find(m->key[i] + 5, &key, where, err) ||
            vp_draft_set(d, key, m->value[i], where, err))
            return -1;
    }
    return found;
}

int vp_geom_from_meta(struct vp_geom *g, const struct vp_meta *m, const char *name, struct vp_err *err)
{
    struct vp_draft d = {0};
    *g = (struct vp_geom){0};
    int found = draft_pairs(&d, m, name, err);
    if (found > 0 && vp_draft_finish(&d, g, name, err))
        found = -1;
    vp_draft_free(&d);
    return found;
}
