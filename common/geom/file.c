/* SPDX-License-Identifier: BSD-3-Clause */
/* Geometry files: reads all formats, writes our own and its metadata form, and finds the geometry of a stack. */
#include "base/text.h"
#include "geom/draft.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
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

static bool is_stack(const char *b, size_t n)
{
    return n >= 4 && (!memcmp(b, "II\x2a\0", 4) || !memcmp(b, "II\x2b\0", 4) || !memcmp(b, "MM\0\x2a", 4) ||
                      !memcmp(b, "MM\0\x2b", 4) || !memcmp(b, "\x89HDF", 4) || !memcmp(b, "\xd0\xcf\x11\xe0", 4));
}

/* Reads a file ("-": standard input) into malloc'd memory with a 0 after the last byte; of a stack only the first
 * bytes. */
static char *slurp(const char *path, const char *name, size_t *len, struct vp_err *err)
{
    const bool standard_input = !strcmp(path, "-");
    const int fd = standard_input ? STDIN_FILENO : vp_open_fd(path, O_RDONLY | O_CLOEXEC, 0);
    int rc = fd < 0 ? vp_fail_errno(err, "%s", name) : 0;
    char *text = NULL;
    int64_t n = 0, room = 0;
    for (ssize_t got = 1; !rc && got > 0 && !is_stack(text, (size_t)n);) {
        char *const more = n < MOST_BYTES ? vp_grow(text, n + 1, &room, 1, "the text of a geometry", name, err) : NULL;
        if (!more) {
            rc = vp_fail(err, VP_ERUN, "%s: too large for a geometry file", name);
            break;
        }
        text = more;
        while ((got = read(fd, text + n, (size_t)(room - n - 1))) < 0 && errno == EINTR)
            ;
        if (got < 0)
            rc = vp_fail_errno(err, "%s", name);
        else
            text[n += got] = 0;
        if (!rc && n >= 4 && !is_stack(text, (size_t)n) && memchr(text, 0, (size_t)n))
            rc = vp_fail(err, VP_ERUN, "%s: expected the text of a geometry, got a byte of zero", name);
    }
    if (fd >= 0 && !standard_input)
        close(fd);
    if (rc) {
        free(text);
        return NULL;
    }
    *len = (size_t)n;
    return text;
}

/* Returns 1 if there are geom.* lines, 0 if not, -1 if they are malformed. */
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

static int draft_stack(struct vp_draft *d, const char *path, const char *name, bool standard_input,
                      struct vp_err *err)
{
    if (standard_input)
        return vp_fail_hint(err, VP_ERUN, "give the stack as a file, not on standard input",
                            "%s: expected the text of a geometry, got a stack", name);
    const struct vp_reader_options options = {0};
    struct vp_reader *reader = NULL;
    if (vp_reader_open(&reader, &path, 1, &options, err))
        return -1;
    int found = draft_pairs(d, &vp_reader_stack(reader)->meta, name, err);
    /* Only the header is needed: errors in the pages do not matter. */
    vp_reader_close(reader, NULL);
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
    const int status = is_stack(text, len) ? draft_stack(d, path, name, standard_input, err)
                                          : vp_draft_text(d, text, len, name, err);
    free(text);
    return status;
}

/* --- options over a file -------------------------------------------------------------------------- */

#define P struct vp_geom_params
const struct vp_opt vp_geom_options[] = {
    VP_STRING(P, beam, "beam", 0, .metavar = "cone|parallel", .group = "Geometry",
              .help = "cone (a detector of one row is a fan beam) or parallel (default: cone)"),
    VP_STRING(P, sod, "sod", 0, .metavar = "MM",
              .help = "source-to-axis distance in mm, also written as 400mm"),
    VP_STRING(P, sdd, "sdd", 0, .metavar = "MM",
              .help = "source-to-detector distance"),
    VP_STRING(P, detector, "detector", 0, .metavar = "WxH", .help = "detector columns and rows"),
    VP_STRING(P, pitch, "pitch", 0, .metavar = "MM",
              .help = "pixel pitch of the detector; or one for columns and one for rows, '0.2 0.3'",
              .more = "A negative pitch reverses the numbering of columns or rows: '0.2 -0.2' is for images whose "
                      "first row is at the top."),
    VP_STRING(P, offset_u, "offset-u", 0, .metavar = "PIXELS",
              .help = "column where the rotation axis meets the detector, from its centre; or 1.5mm",
              .more = "It is the point where the ray from the source through the rotation axis meets the detector. "
                      "If that is column c of W columns, the offset is c - (W - 1) / 2."),
    VP_STRING(P, offset_v, "offset-v", 0, .metavar = "PIXELS",
              .help = "row where the plane of the orbit meets the detector, from its centre; or 1.5mm"),
    VP_FLAG(P, curved, "curved", 0,
            .help = "the detector is part of a cylinder around the source; columns are at equal angles",
            .more = "--pitch is then the distance between columns along the arc."),
    VP_STRING(P, tilt, "tilt", 0, .metavar = "DEGREES",
              .help = "rotation of the detector in its plane: the image of the axis leans towards larger columns"),
    VP_STRING(P, pitch_z, "pitch-z", 0, .metavar = "MM",
              .help = "helix: distance that the source moves along z in one turn (default: 0)",
              .more = "z is 0 in the middle of the scan. Give --arc for several turns: 1800 degrees are five. If the "
                      "pitch is negative, the source moves towards -z as the angle grows."),
    VP_STRING(P, lamino, "lamino", 0, .metavar = "DEGREES",
              .help = "laminography: the angle from the axis to the plane of the detector's columns (default: 0)",
              .more = "Seen from the isocentre, the source is above the plane z = 0 and the detector below it. sod "
                      "and sdd are measured along the central ray."),
    VP_FLAG(P, fixed, "fixed-detector", 0,
            .help = "planar CT: the detector moves with the source, but does not rotate",
            .more = "Needs --lamino. The detector is perpendicular to the rotation axis, its columns along x and its "
                    "rows along y. Its centre is on the central ray, at distance sdd from the source."),
    VP_STRING(P, views, "views", 0, .metavar = "N", .help = "number of views, spread evenly over the arc"),
    VP_STRING(P, arc, "arc", 0, .metavar = "DEGREES",
              .help = "arc of the scan; the last view is one step before its end (default: 360)"),
    VP_STRING(P, start, "start", 0, .metavar = "DEGREES", .help = "angle of the first view (default: 0)"),
    VP_FILE(P, angles, "angles", 0, .metavar = "FILE",
            .help = "read the angles from a file: one a line, in degrees"),
    VP_FILE(P, shifts, "shifts", 0, .metavar = "FILE|none",
            .help = "read the shift of each view from a file: columns and rows in pixels, one view a line",
            .more = "The image of a view is moved by these amounts towards larger columns and rows. The geometry "
                    "then has one matrix for each view. If a scanner's log records movements, `none` ignores them."),
    VP_FLAG(P, clockwise, "clockwise", 0,
            .help = "the source turns clockwise around the object, seen from +z",
            .more = "A rotating object and a fixed source are equivalent to a source that rotates the other way. The "
                    "wrong direction shows as doubled edges; in a parallel beam, as a mirror image."),
    VP_FLAG(P, counterclockwise, "counterclockwise", 0,
            .help = "the source turns counter-clockwise around the object (the default)"),
    VP_OPT_END,
};
#undef P

/* Changes the code of an error in the command line, rather than in a file, to VP_EUSAGE. */
static int as_usage(struct vp_err *err)
{
    if (err && err->code == VP_ERUN)
        err->code = VP_EUSAGE;
    return -1;
}

static int draft_list(struct vp_draft *d, enum vp_geom_key key, const char *path, struct vp_err *err)
{
    size_t len;
    char *text = path ? slurp(path, path, &len, err) : NULL;
    const int status = !path ? 0 : text ? vp_draft_list(d, key, text, len, path, err) : -1;
    free(text);
    return status;
}

static int draft_options(struct vp_draft *d, const struct vp_geom_params *o, struct vp_err *err)
{
    d->seen = 0;
    for (const struct vp_opt *row = vp_geom_options; row->type != VP_T_END; row++) {
        const char *value;
        char option[32];
        enum vp_geom_key key;
        if (row->type != VP_T_STRING)
            continue;
        memcpy(&value, (const char *)o + row->offset, sizeof value);
        snprintf(option, sizeof option, "--%s", row->name);
        if (value && (vp_geom_key_find(row->name, &key, option, err) || vp_draft_set(d, key, value, option, err)))
            return as_usage(err);
    }
    if (o->clockwise && o->counterclockwise)
        return vp_fail(err, VP_EUSAGE, "--clockwise and --counterclockwise cannot be combined");
    if (o->clockwise || o->counterclockwise) {
        vp_draft_mark(d, VP_GK_DIRECTION);
        d->g.clockwise = o->clockwise;
    }
    if (o->curved) {
        vp_draft_mark(d, VP_GK_SHAPE);
        d->g.curved = true;
    }
    if (o->fixed) {
        vp_draft_mark(d, VP_GK_MOTION);
        d->g.fixed = true;
    }
    const bool unmoved = o->shifts && !strcmp(o->shifts, "none");
    if (unmoved) {
        d->moved = NULL;
        d->shift.n = 0;
        d->given &= ~(1u << VP_GK_SHIFTS);
    }
    return draft_list(d, VP_GK_ANGLES, o->angles, err) ||
        (!unmoved && draft_list(d, VP_GK_SHIFTS, o->shifts, err)) ? -1 : 0;
}

int vp_geom_make(struct vp_geom *g, const char *path, const struct vp_geom_params *o, struct vp_err *err)
{
    static const struct vp_geom_params none;
    struct vp_draft d = {0};
    const char *name = !path ? "options" : !strcmp(path, "-") ? "standard input" : path;
    *g = (struct vp_geom){0};
    int status = path ? draft_file(&d, path, err) : 0;
    if (!status)
        status = draft_options(&d, o ? o : &none, err);
    if (!status && vp_draft_finish(&d, g, name, err))
        status = path ? -1 : as_usage(err);
    vp_draft_free(&d);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------- */

/* Destination of the lines: metadata, or the text of a file. */
struct sink { struct vp_meta *meta; FILE *file; };

/* Writes a line; `more` is appended to the key's note; NULL: no note. */
static int put(const struct sink *s, enum vp_geom_key key, const char *value, const char *more)
{
    const struct vp_geom_field *f = &vp_geom_fields[key];
    char full[64];
    snprintf(full, sizeof full, "geom.%s", f->name);
    if (s->meta)
        return vp_meta_add(s->meta, full, value);
    const int used = fprintf(s->file, "%s = %s", f->name, value);
    if (f->note && more)
        fprintf(s->file, "%*s # %s%s", used < 32 ? 32 - used : 0, "", f->note, more);
    putc('\n', s->file);
    return 0;
}

static int put_numbers(const struct sink *s, enum vp_geom_key key, const double *x, int n, const char *more)
{
    char text[12 * 32] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", vp_geom_number(x[i]).text);
    return put(s, key, text, more);
}

/* True if start + k * step equals every angle to the bit; *step is the shortest such decimal. */
static bool equal_steps(const struct vp_geom *g, double *step)
{
    const double *a = g->angle, mean = (a[g->views - 1] - a[0]) / (double)(g->views - 1);
    for (int digits = 1; digits <= 20 && g->views >= 3; digits++) {
        char text[32];
        snprintf(text, sizeof text, "%.*g", digits, mean);
        *step = digits <= 17    ? strtod(text, NULL)
                : digits == 18 ? a[1] - a[0] : nextafter(mean, digits == 19 ? INFINITY : -INFINITY);
        int64_t k = g->views - 1;
        while (k >= 0 && a[0] + (double)k * *step == a[k])
            k--;
        if (k < 0)
            return true;
    }
    return false;
}

static int put_angles(const struct vp_geom *g, const struct sink *s)
{
    double step;
    int rc = 0;
    if (equal_steps(g, &step)) {
        char text[96];
        snprintf(text, sizeof text, "%s:%s:%lld", vp_geom_number(g->angle[0]).text, vp_geom_number(step).text,
                 (long long)g->views);
        return put(s, VP_GK_ANGLES, text, ", start:step:count");
    }
    for (int64_t k = 0; k < g->views && !rc; k += 8)
        rc = put_numbers(s, VP_GK_ANGLES, g->angle + k, (int)vp_min64(g->views - k, 8), k ? NULL : "");
    return rc;
}

static int put_all(const struct vp_geom *g, bool matrices, const struct sink *s)
{
    const bool cone = g->beam == VP_CONE;
    const double middle = vp_geom_middle(g);
    char detector[64];
    int rc = 0;
    snprintf(detector, sizeof detector, "%lldx%lld", (long long)g->nu, (long long)g->nv);
    if (put(s, VP_GK_BEAM, vp_geom_fields[VP_GK_BEAM].words[!cone], "") ||
        (cone && g->sod > 0 && put_numbers(s, VP_GK_SOD, &g->sod, 1, "")) ||
        (cone && g->sdd > 0 && put_numbers(s, VP_GK_SDD, &g->sdd, 1, "")) ||
        put(s, VP_GK_DETECTOR, detector, "") ||
        (g->du != 0 && put_numbers(s, VP_GK_PITCH, (double[]){g->du, g->dv}, g->du == g->dv ? 1 : 2,
                                   g->dv < 0 ? "; negative: the first row is on top" : "")) ||
        (g->curved && put(s, VP_GK_SHAPE, vp_geom_fields[VP_GK_SHAPE].words[1], "")))
        return -1;
    if (!matrices)
        return put_numbers(s, VP_GK_OFFSET_U, &g->offset_u, 1, "") ||
                       put_numbers(s, VP_GK_OFFSET_V, &g->offset_v, 1, "") ||
                       put_numbers(s, VP_GK_TILT, &g->tilt, 1, "") ||
                       (g->pitch_z != 0 && put_numbers(s, VP_GK_PITCH_Z, &g->pitch_z, 1, "")) ||
                       (g->lamino != 0 && put_numbers(s, VP_GK_LAMINO, &g->lamino, 1, "")) ||
                       (g->fixed && put(s, VP_GK_MOTION, vp_geom_fields[VP_GK_MOTION].words[1], "")) ||
                       put(s, VP_GK_DIRECTION, vp_geom_fields[VP_GK_DIRECTION].words[g->clockwise], "") ||
                       put_angles(g, s)
                   ? -1
                   : 0;
    for (int64_t k = 0; k < g->views && !rc; k++) {
        struct vp_view view = {.sod = 0};
        if (!g->matrix)
            vp_view_of(g, k, middle, &view);
        rc = put_numbers(s, VP_GK_MATRIX, g->matrix ? g->matrix + 12 * k : view.P, 12, NULL);
    }
    return rc;
}

char *vp_geom_format(const struct vp_geom *g, bool matrices)
{
    const struct sink s = {.file = vp_text_open()};
    if (!s.file)
        return NULL;
    fputs("# voxpipe geometry, see ct-geometry(5)\n", s.file);
    put_all(g, matrices || g->matrix, &s);
    return vp_text_close(s.file, NULL); /* NULL if a write failed */
}

/* --- metadata ------------------------------------------------------------------------------------ */

int vp_geom_to_meta(const struct vp_geom *g, struct vp_meta *m, struct vp_err *err)
{
    const struct sink s = {.meta = m};
    vp_meta_remove_prefix(m, "geom.");
    if (put_all(g, g->matrix, &s))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the geometry in the metadata");
    return 0;
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

/* --- of a stack of projections ------------------------------------------------------------------ */

#define P struct vp_projection_params
const struct vp_opt vp_projection_options[] = {
    VP_FILE(P, geometry, "geometry", 'g', .metavar = "FILE", .group = "Projections",
            .help = "scan geometry (default: the geometry in the metadata of the input)",
            .more = "FILE is a geometry file of ct-geom(1), a file of 3x4 matrices (one a line), RTK XML, Nikon "
                    ".xtekct, Bruker .log, or a stack with a geometry in its metadata. See ct-geometry(5)."),
    VP_CHOICE(P, layout, "layout", 0, "views|sinograms", .def = "views",
              .help = "content of a page: one view, or one detector row of all views",
              .more = "With sinograms each page is one detector row: its columns run along x, the views along y."),
    VP_OPT_END,
};
#undef P

static int check_size(const struct vp_geom *g, bool sinograms, const struct vp_stack *s, const char *name,
                      struct vp_err *err)
{
    /* in layout views and in sinograms */
    const int64_t rows[2] = {g->nv, g->views}, pages[2] = {g->views, g->nv};
    bool fits[2];
    for (int i = 0; i < 2; i++)
        fits[i] = s->nx == g->nu && s->ny == rows[i] && (s->pages < 0 || s->pages == pages[i]);
    if (fits[sinograms])
        return 0;
    if (s->nx == g->nu && s->ny == rows[sinograms])
        vp_fail(err, VP_ERUN, "%s has %lld pages, the geometry %lld %s", name, (long long)s->pages,
                (long long)pages[sinograms], sinograms ? "sinograms" : "views");
    else if (sinograms)
        vp_fail(err, VP_ERUN, "%s is %lldx%lld, the geometry's sinograms %lldx%lld (%lld columns, %lld views)", name,
                (long long)s->nx, (long long)s->ny, (long long)g->nu, (long long)g->views, (long long)g->nu,
                (long long)g->views);
    else
        vp_fail(err, VP_ERUN, "%s is %lldx%lld, the geometry's detector %lldx%lld", name, (long long)s->nx,
                (long long)s->ny, (long long)g->nu, (long long)g->nv);
    return fits[!sinograms] ? vp_hint(err, "use --layout %s", sinograms ? "views" : "sinograms") : -1;
}

int vp_geom_of(struct vp_geom *g, const struct vp_projection_params *o, const struct vp_stack *s,
               const char *name, struct vp_err *err)
{
    *g = (struct vp_geom){0};
    if (o->geometry) {
        if (vp_geom_make(g, o->geometry, NULL, err))
            return -1;
    } else {
        const int found = vp_geom_from_meta(g, &s->meta, name, err);
        if (found < 0)
            return -1;
        if (!found)
            return vp_fail_hint(err, VP_EUSAGE, "give -g FILE (see ct-geom(1))", "%s carries no scan geometry", name);
    }
    if (check_size(g, o->layout == VP_LAYOUT_SINOGRAMS, s, name, err)) {
        vp_geom_free(g);
        return -1;
    }
    return 0;
}
