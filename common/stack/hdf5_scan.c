/* SPDX-License-Identifier: BSD-3-Clause */
/* The data set of an HDF5 file that is meant, and what is said about it. Scans are NeXus' NXtomo (www.nexusformat.org:
 * views, flats and darks are frames with keys) and DXchange (De Carlo et al. 2014, J. Synchrotron Rad. 21, 1224:
 * /exchange holds data, data_white, data_dark and theta). */
#include "stack/hdf5_internal.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct file {
    struct vp_source *s;
    const struct vp_h5_plugin *lib;
    struct vp_h5_file *f;
    struct vp_err *err;
};

/* Data sets of images, and keys of frames. */
struct h5_entry { char *path; struct vp_h5_set set; };
struct listing {
    const char *name, *under; /* only those in this group */
    struct h5_entry *entry;
    int64_t n, room;
    struct vp_err *err;
    bool failed;
};

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

static int take(void *ctx, const char *path, const struct vp_h5_set *set)
{
    struct listing *const l = ctx;
    const size_t n = strlen(l->under);
    if (strncmp(path, l->under, n) || (n > 1 && path[n] != '/'))
        return 0;
    if (set->rank != 2 && set->rank != 3 && !ends_in(path, "/image_key"))
        return 0;
    struct h5_entry *const more = vp_grow(l->entry, l->n, &l->room, sizeof *more, "the list of data sets", l->name, l->err);
    l->entry = more ? more : l->entry;
    char *const copy = more ? strdup(path) : NULL;
    l->failed = !copy;
    if (more && !copy)
        vp_fail(l->err, VP_ERESOURCE, "%s: out of memory", l->name);
    if (copy)
        l->entry[l->n++] = (struct h5_entry){copy, *set};
    return l->failed;
}

static void free_list(struct listing *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free(l->entry[i].path);
    free(l->entry);
}

int vp_h5_check(const char *name, const char *path, const struct vp_h5_set *set, struct vp_err *err)
{
    if (set->rank != 2 && set->rank != 3)
        return set->rank < 0 ? vp_fail(err, VP_ERUN, "%s: %s: expected 3 axes (page, row, column) or 2, got more than %d",
                                       name, path, VP_H5_RANK)
                             : vp_fail(err, VP_ERUN, "%s: %s: expected 3 axes (page, row, column) or 2, got %d", name,
                                       path, set->rank);
    for (int i = 0; i < set->rank; i++)
        if (set->size[i] <= 0)
            return vp_fail(err, VP_ERUN, "%s: %s: expected samples, got an axis of length 0", name, path);
    if (set->other[0])
        return vp_fail(err, VP_ERUN, "%s: %s: expected integers or floats of at most 8 bytes, got %s", name, path,
                       set->other);
    if (set->lacks[0])
        return vp_fail_hint(err, VP_ERESOURCE,
                            "Debian's hdf5-filter-plugin has LZ4, hdf5-filter-plugin-blosc-serial Blosc; "
                            "HDF5_PLUGIN_PATH names the folder of filters",
                            "%s: %s: it is compressed by HDF5 filter %s, which is not installed", name, path,
                            set->lacks);
    return 0;
}

/* Composes a path below a group. */
static const char *below(char to[VP_H5_PATH], const char *group, const char *name)
{
    const int n = snprintf(to, VP_H5_PATH, "%s/%s", strcmp(group, "/") ? group : "", name);
    if (n >= VP_H5_PATH) /* nothing is there */
        strcpy(to, "/");
    return to;
}

/* Removes the last name of a path. */
static void up(char *path)
{
    char *const slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

/* Finds the data set `name` in the first of n groups that has it, and returns its path. */
static const char *find_in(const struct file *x, const char *const *groups, int n, const char *name,
                           struct vp_h5_set *set, char to[VP_H5_PATH])
{
    for (int i = 0; i < n; i++)
        if (x->lib->find(x->f, below(to, groups[i], name), set) == 1)
            return to;
    return NULL;
}

/* Reads a length in mm: a number with a unit. 0: there is none. */
static double length_mm(const struct file *x, const char *const *groups, int n, const char *name)
{
    char path[VP_H5_PATH], unit[64];
    struct vp_h5_set set;
    struct vp_err ignored = VP_ERR_INIT;
    double v;
    if (!find_in(x, groups, n, name, &set, path) || !x->lib->text(x->f, path, "units", unit, sizeof unit)
        || x->lib->numbers(x->f, path, NULL, 1, &v, &ignored) || !isfinite(v))
        return 0;
    return v * vp_unit_mm(unit);
}

/* ---- metadata ---- */

static int out_of_memory(const struct file *x)
{
    return vp_fail(x->err, VP_ERESOURCE, "%s: out of memory: its metadata", x->s->name);
}

/* Reads the lines that our own files have, or a size of voxels as Fiji and ilastik write it. */
static int read_own(const struct file *x, const char *path)
{
    enum { MOST = 1 << 26 };
    struct vp_meta *const m = &x->s->stack.meta;
    struct vp_h5_set set;
    struct vp_err ignored = VP_ERR_INIT;
    if (!strcmp(path, VP_H5_OUTPUT) && x->lib->find(x->f, VP_H5_NOTE, &set) == 1) {
        char *text = NULL;
        int rc = 0;
        for (size_t room = 1 << 16; room <= MOST && !text && !rc; room *= 8) {
            text = vp_alloc(room, 1, "its metadata", x->err);
            rc = text ? 0 : -1;
            if (text && !x->lib->text(x->f, VP_H5_NOTE, NULL, text, room)) {
                free(text);
                text = NULL;
            }
        }
        if (text && vp_meta_parse(m, text, strlen(text), NULL))
            rc = vp_fail(x->err, VP_ERESOURCE, "%s: out of memory: its metadata", x->s->name);
        free(text);
        return rc;
    }
    double um[3];
    if (x->lib->numbers(x->f, path, "element_size_um", 3, um, &ignored) || !(um[0] > 0 && um[1] > 0 && um[2] > 0))
        return 0;
    return vp_meta_voxel(m, um[2] / 1000, um[1] / 1000, um[0] / 1000) ? out_of_memory(x) : 0;
}

/* Returns what angles are to be multiplied with to be degrees; 0: that cannot be known. */
static double degrees_in(const struct file *x, const char *path, const double *angle, int64_t n)
{
    char unit[64] = "";
    double most = 0;
    x->lib->text(x->f, path, "units", unit, sizeof unit);
    if (!strncasecmp(unit, "rad", 3))
        return 180 / M_PI;
    if (!strncasecmp(unit, "deg", 3) || !strcmp(unit, "\xc2\xb0"))
        return 1;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(angle[i]));
    return *unit || most <= 7 ? 0 : 1;
}

/* Adds the geometry of a parallel beam, or of a cone where source and detector are said to be so far from the axis. */
static int put_geometry(const struct file *x, const double *angle, const int64_t *frame, int64_t n, double unit,
                        const double pitch[2], double sod, double sdd)
{
    enum { LINE = 8 };
    struct vp_meta *const m = &x->s->stack.meta;
    char number[32];
    int rc = sod > 0 ? vp_meta_add(m, "geom.beam", "cone") || vp_meta_setf(m, "geom.sod", "%.9g", sod)
                           || vp_meta_setf(m, "geom.sdd", "%.9g", sdd)
                     : vp_meta_add(m, "geom.beam", "parallel");
    rc = rc || vp_meta_setf(m, "geom.detector", "%lldx%lld", (long long)x->s->stack.nx, (long long)x->s->stack.ny)
         || vp_meta_setf(m, "geom.pitch", "%.9g %.9g", pitch[0], pitch[1]);
    for (int64_t i = 0; !rc && i < n; i += LINE) {
        char line[LINE * 34] = "", *p = line;
        for (int64_t k = i; k < vp_min64(n, i + LINE); k++)
            p += sprintf(p, "%s%s", k > i ? " " : "", vp_format_number(number, unit * angle[frame ? frame[k] : k]));
        rc = vp_meta_add(m, "geom.angles", line);
    }
    return rc ? out_of_memory(x) : 0;
}

/* Reads the angles of the views and adds the geometry. entry: the group of the scan; detector: that of its numbers. */
static int read_geometry(const struct file *x, const char *const *angles_in, int n_in, const char *angles,
                         const struct vp_h5_choice *c, const double pixel[2], const char *entry)
{
    char path[VP_H5_PATH], type[64] = "", group[2][VP_H5_PATH];
    struct vp_h5_set set;
    if (!find_in(x, angles_in, n_in, angles, &set, path)) {
        x->s->remark = "it has no angles: -g gives the geometry";
        return 0;
    }
    const int64_t images = c->set.size[0], views = c->frame ? c->frames : images;
    const bool viewed = set.rank == 1 && set.size[0] == views && views != images;
    const int64_t n = viewed ? views : images;
    double *const angle = vp_alloc((size_t)n, sizeof *angle, "the angles", x->err);
    int rc = angle ? x->lib->numbers(x->f, path, NULL, n, angle, x->err) : -1;
    const int64_t *const frame = viewed ? NULL : c->frame;
    for (int64_t i = 0; !rc && i < views; i++)
        if (!isfinite(angle[frame ? frame[i] : i]))
            rc = vp_fail(x->err, VP_ERUN, "%s: %s: the angle of view %lld: expected a number, got %g", x->s->name, path,
                         (long long)i, angle[frame ? frame[i] : i]);
    const double unit = rc ? 0 : degrees_in(x, path, angle, n);
    const char *const instrument[] = {below(group[0], entry, "instrument/detector")},
                      *const source[] = {below(group[1], entry, "instrument/source")};
    char of_type[VP_H5_PATH];
    const double to_detector = length_mm(x, instrument, 1, "distance"), to_source = fabs(length_mm(x, source, 1, "distance"));
    const bool tube = x->lib->text(x->f, below(of_type, source[0], "type"), NULL, type, sizeof type)
                      && (strcasestr(type, "tube") || strcasestr(type, "metal jet"));
    double pitch[2] = {pixel[0], pixel[1]};
    if (!rc && unit == 0)
        x->s->remark = "its angles are left out: they have no known unit, and are within 7: -g gives the geometry";
    else if (!rc && tube && !(to_detector > 0 && to_source > 0))
        x->s->remark = "its angles are left out: it is of an X-ray tube, and the distances of source and detector from the "
                       "axis are not both there: -g gives the geometry";
    else if (!rc) {
        if (!(pitch[0] > 0 && pitch[1] > 0)) {
            pitch[0] = pitch[1] = 1;
            x->s->remark = "its pixel size is not known: 1 mm is assumed; ct-geom --pitch changes it";
        }
        rc = put_geometry(x, angle, frame, views, unit, pitch, tube ? to_source : 0, to_source + to_detector);
    }
    free(angle);
    return rc;
}

/* Sets the metadata that all images of a scan share. */
static int label(const struct file *x, const double pixel[2])
{
    struct vp_meta *const m = &x->s->stack.meta;
    return vp_meta_set(m, "axes", "u v view") || vp_meta_set(m, "quantity", "counts")
                   || (pixel[0] > 0 && pixel[1] > 0 && vp_meta_voxel(m, pixel[0], pixel[1], 0)) ? out_of_memory(x) : 0;
}

/* ---- scans ---- */

/* Parses "flats", "flats.3" or "darks"; *set is -1 for all flats. False: it is something else. */
static bool field_of(const char *part, int *key, int64_t *set)
{
    char *end;
    *set = -1;
    *key = !strncmp(part, "flats", 5) ? VP_H5_FLAT : !strcmp(part, "darks") ? VP_H5_DARK : VP_H5_VIEW;
    if (*key != VP_H5_FLAT || !part[5])
        return *key != VP_H5_VIEW;
    *set = strtoll(part + 6, &end, 10);
    return part[5] == '.' && end > part + 6 && !*end && *set >= 0;
}

static int no_field(const struct file *x, int key)
{
    return vp_fail(x->err, VP_ERUN, "%s: the scan has no such %s", x->s->name, key == VP_H5_FLAT ? "flats" : "darks");
}

/* Counts the sets of flats and notes where they are: between other views, each is one. */
static int count_flats(const struct file *x, const double *key, int64_t n)
{
    struct vp_fields *const fields = &x->s->fields;
    int64_t views = 0, room = 0;
    bool within = false;
    for (int64_t i = 0; i < n; i++) {
        fields->darks = fields->darks || key[i] == VP_H5_DARK;
        if (key[i] == VP_H5_FLAT && !within) {
            double *const more = vp_grow(fields->at, fields->flats, &room, sizeof *more, "the flats", x->s->name, x->err);
            if (!more)
                return -1;
            fields->at = more;
            fields->at[fields->flats++] = (double)views - 0.5;
        }
        within = key[i] == VP_H5_FLAT || (within && key[i] != VP_H5_VIEW);
        views += key[i] == VP_H5_VIEW;
    }
    return 0;
}

/* Lists the frames of a kind: all, or those of one set of flats. */
static int list_frames(const struct file *x, struct vp_h5_choice *c, const double *key, int64_t n, int kind,
                       int64_t only)
{
    int64_t set = -1;
    bool within = false;
    c->frame = vp_alloc((size_t)n, sizeof *c->frame, "the list of frames", x->err);
    if (!c->frame)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        set += key[i] == VP_H5_FLAT && !within;
        within = key[i] == VP_H5_FLAT || (within && key[i] != VP_H5_VIEW);
        if (key[i] == kind && (only < 0 || set == only))
            c->frame[c->frames++] = i;
    }
    return c->frames ? 0
           : kind == VP_H5_VIEW ? vp_fail(x->err, VP_ERUN, "%s: expected views (0 in image_key), got none", x->s->name)
                          : no_field(x, kind);
}

/* Chooses frames of the NXtomo whose key is at `path`. */
static int choose_nexus(const struct file *x, const char *path, int kind, int64_t only, struct vp_h5_choice *c)
{
    char entry[VP_H5_PATH], own[VP_H5_PATH], other[3][VP_H5_PATH];
    snprintf(own, sizeof own, "%s", path);
    up(own);
    snprintf(entry, sizeof entry, "%s", own);
    up(entry);
    if (ends_in(entry, "/instrument"))
        up(entry);
    const char *const detector[] = {own, below(other[0], entry, "instrument/detector"), below(other[1], entry, "data")},
                      *const rotation[] = {below(other[2], entry, "sample"), other[1], own};
    struct vp_h5_set keys;
    if (!find_in(x, detector, 3, "data", &c->set, c->path))
        return vp_fail(x->err, VP_ERUN, "%s: %s: there is no data set `data` beside it", x->s->name, path);
    if (vp_h5_check(x->s->name, c->path, &c->set, x->err) || x->lib->find(x->f, path, &keys) != 1)
        return -1;
    const int64_t n = c->set.rank == 3 ? c->set.size[0] : 1;
    double *const key = vp_alloc((size_t)n, sizeof *key, "the keys of its frames", x->err);
    double pixel[2] = {length_mm(x, detector, 3, "x_pixel_size"), length_mm(x, detector, 3, "y_pixel_size")};
    int rc = key ? x->lib->numbers(x->f, path, NULL, n, key, x->err) : -1;
    pixel[1] = pixel[1] > 0 ? pixel[1] : pixel[0];
    x->s->stack.nx = c->set.size[c->set.rank - 1];
    x->s->stack.ny = c->set.size[c->set.rank - 2];
    rc = rc || list_frames(x, c, key, n, kind, only) || label(x, pixel) ? -1 : 0;
    rc = rc || (kind == VP_H5_VIEW && count_flats(x, key, n)) ? -1 : 0;
    if (!rc && kind == VP_H5_VIEW && !strcmp(c->path, VP_H5_OUTPUT) && x->lib->find(x->f, VP_H5_NOTE, &keys) == 1)
        rc = read_own(x, c->path); /* all of the geometry */
    else if (!rc && kind == VP_H5_VIEW && c->set.rank == 3)
        rc = read_geometry(x, rotation, 3, "rotation_angle", c, pixel, entry);
    free(key);
    return rc;
}

/* Chooses the data set of a DXchange file in group `group` (/exchange). */
static int choose_exchange(const struct file *x, const char *group, int kind, int64_t only, struct vp_h5_choice *c)
{
    static const char *const names[] = {[VP_H5_VIEW] = "data", [VP_H5_FLAT] = "data_white", [VP_H5_DARK] = "data_dark"};
    static const char *const detector[] = {"/measurement/instrument/detector"};
    char path[VP_H5_PATH];
    struct vp_h5_set set;
    if (only > 0 || x->lib->find(x->f, below(c->path, group, names[kind]), &c->set) != 1)
        return no_field(x, kind);
    if (vp_h5_check(x->s->name, c->path, &c->set, x->err))
        return -1;
    double pixel[2] = {length_mm(x, detector, 1, "pixel_size_x"), length_mm(x, detector, 1, "pixel_size_y")};
    if (!(pixel[0] > 0)) {
        pixel[0] = length_mm(x, detector, 1, "x_pixel_size");
        pixel[1] = length_mm(x, detector, 1, "y_pixel_size");
    }
    pixel[1] = pixel[1] > 0 ? pixel[1] : pixel[0];
    x->s->stack.nx = c->set.size[c->set.rank - 1];
    x->s->stack.ny = c->set.size[c->set.rank - 2];
    if (label(x, pixel))
        return -1;
    if (kind != VP_H5_VIEW || c->set.rank != 3)
        return 0;
    x->s->fields.flats = x->lib->find(x->f, below(path, group, names[VP_H5_FLAT]), &set) == 1;
    x->s->fields.darks = x->lib->find(x->f, below(path, group, names[VP_H5_DARK]), &set) == 1;
    return read_geometry(x, &group, 1, "theta", c, pixel, "/measurement");
}

/* ---- the choice ---- */

/* Refuses, with a list of what there is to choose from. */
static int which(const struct file *x, const struct listing *l, const char *suffix, int rank)
{
    char text[400] = "", *p = text;
    int64_t n = 0, shown = 0;
    for (int64_t i = 0; i < l->n; i++) {
        const struct h5_entry *const e = &l->entry[i];
        if (suffix ? !ends_in(e->path, suffix) : rank != e->set.rank && rank)
            continue;
        n++;
        const int left = (int)(text + sizeof text - p), cut = suffix ? (int)(strlen(e->path) - strlen(suffix)) : 10000;
        const int k = snprintf(p, (size_t)left, "%s%.*s", n > 1 ? ", " : "", cut, e->path);
        if (k >= left) {
            *p = '\0';
            continue;
        }
        p += k;
        shown++;
    }
    if (!n)
        return vp_fail(x->err, VP_ERUN, "%s: expected a data set of 3 axes or 2, got none", x->s->name);
    vp_fail(x->err, VP_ERUN, "%s: expected one data set, got %lld: %s%s", x->s->name, (long long)n, text,
            shown < n ? ", ..." : "");
    return vp_hint(x->err, "name one, as in FILE.h5:%s", l->entry[0].path);
}

/* Counts entries of a rank (or that end in a name); *at is the last one. */
static int64_t count(const struct listing *l, const char *suffix, int rank, int64_t *at)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++)
        if (suffix ? ends_in(l->entry[i].path, suffix) : l->entry[i].set.rank == rank) {
            *at = i;
            n++;
        }
    return n;
}

/* Counts scans: keys in one group or in those of its data are about the same. */
static int64_t count_scans(const struct listing *l, int64_t *at)
{
    char path[VP_H5_PATH], first[VP_H5_PATH] = "";
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (!ends_in(l->entry[i].path, "/image_key"))
            continue;
        snprintf(path, sizeof path, "%s", l->entry[i].path);
        up(path);
        up(path);
        if (ends_in(path, "/instrument"))
            up(path);
        if (n && !strcmp(path, first))
            continue;
        snprintf(first, sizeof first, "%s", path);
        *at = n++ ? *at : i;
    }
    return n;
}

/* Chooses in a group: a scan, or the one data set of images that is there. */
static int choose_under(const struct file *x, const char *group, int kind, int64_t only, struct vp_h5_choice *c)
{
    struct listing l = {.name = x->s->name, .under = group, .err = x->err};
    char path[VP_H5_PATH];
    struct vp_h5_set set;
    int64_t at = 0;
    int rc = x->lib->each(x->f, take, &l, x->err) || l.failed ? -1 : 0;
    const int64_t scans = rc ? 0 : count_scans(&l, &at);
    if (!rc && scans == 1)
        rc = choose_nexus(x, l.entry[at].path, kind, only, c);
    else if (!rc && scans > 1)
        rc = which(x, &l, "/image_key", 0);
    else if (!rc && x->lib->find(x->f, below(path, ends_in(group, "exchange") ? group : "/exchange", "data"), &set) == 1) {
        up(path);
        rc = choose_exchange(x, path, kind, only, c);
    } else if (!rc && kind != VP_H5_VIEW)
        rc = no_field(x, kind);
    else if (!rc) {
        const int rank = count(&l, NULL, 3, &at) ? 3 : 2;
        rc = count(&l, NULL, rank, &at) == 1 ? 0 : which(x, &l, NULL, rank);
        if (!rc) {
            snprintf(c->path, sizeof c->path, "%s", l.entry[at].path);
            c->set = l.entry[at].set;
            rc = vp_h5_check(x->s->name, c->path, &c->set, x->err) || read_own(x, c->path) ? -1 : 0;
        }
    }
    free_list(&l);
    return rc;
}

int vp_h5_choose(struct vp_source *s, const struct vp_h5_plugin *lib, struct vp_h5_file *f, const char *part,
                 struct vp_h5_choice *c, struct vp_err *err)
{
    const struct file x = {s, lib, f, err};
    int kind = VP_H5_VIEW;
    int64_t only = -1;
    if (!part || field_of(part, &kind, &only))
        return choose_under(&x, "/", kind, only, c);
    const char *const colon = strrchr(part, ':');
    const bool field = colon && field_of(colon + 1, &kind, &only);
    const size_t length = field ? (size_t)(colon - part) : strlen(part);
    if (part[0] != '/' || length >= VP_H5_PATH)
        return vp_fail(err, VP_ERUN, "%s: expected :/PATH, :flats, :flats.N or :darks after the file's name", s->name);
    snprintf(c->path, sizeof c->path, "%.*s", (int)length, part);
    for (char *end = c->path + strlen(c->path); end > c->path + 1 && end[-1] == '/';)
        *--end = '\0';
    if (!field && lib->find(f, c->path, &c->set) == 1)
        return vp_h5_check(s->name, c->path, &c->set, err) || read_own(&x, c->path) ? -1 : 0;
    if (lib->group(f, c->path)) {
        char group[VP_H5_PATH];
        memcpy(group, c->path, sizeof group);
        return choose_under(&x, group, kind, only, c);
    }
    return vp_fail(err, VP_ERUN, "%s: there is no data set or group %s", s->name, c->path);
}
