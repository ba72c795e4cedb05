/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin voxpipe-hdf5.so: libhdf5 behind the table of stack/hdf5.h. The library of most systems is not thread-safe,
 * so one lock is around all of it. Of libvoxpipe it takes errors only: no second OpenMP is to be loaded. */
#include "base/err.h"
#include "base/plugin.h"
#include "stack/hdf5.h"
#include "build.h"

#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct vp_h5_file { hid_t id; const char *name; };
struct vp_h5_data { hid_t set, space, memory; struct vp_h5_file *file; char path[VP_H5_PATH]; int rank; hsize_t size[VP_H5_RANK]; };
struct vp_h5_out { hid_t file, set, memory; const char *name; hsize_t size[3]; bool grows; };

static void enter(void)
{
    pthread_mutex_lock(&lock);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* errors are ours to report */
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- errors ---- */

enum { REASON = 512 };

static herr_t deepest(unsigned n, const H5E_error2_t *e, void *ctx)
{
    (void)n;
    snprintf(ctx, REASON, "%s", e->desc ? e->desc : "");
    return 0;
}

/* Shortens the reason of a system call to its error message: the library adds times, addresses and counts. */
static void shorten(char *why)
{
    static const char key[] = "error message = '";
    char *const from = strstr(why, key), *const to = from ? strchr(from + sizeof key - 1, '\'') : NULL;
    if (!to)
        return;
    *to = '\0';
    memmove(why, from + sizeof key - 1, strlen(from + sizeof key - 1) + 1);
}

/* Fails with the reason that the library gives last, the one nearest to the cause. */
static int fail(const char *name, const char *path, const char *what, struct vp_err *err)
{
    char why[REASON] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, deepest, why);
    for (char *p = why; *p; p++)
        *p = *p == '\n' ? ' ' : *p;
    shorten(why);
    return vp_fail(err, VP_ERUN, "%s: %s%s%s: %s", name, path, *path ? ": " : "", what,
                   *why ? why : "HDF5 gives no reason");
}

/* ---- files ---- */

static int open_file(struct vp_h5_file **out, const char *path, const char *name, struct vp_err *err)
{
    struct stat st;
    if (!stat(path, &st) && !st.st_nlink) /* the library opens names, and a copy of a pipe has none */
        return vp_fail_hint(err, VP_ERUN, "give the file name instead", "%s: HDF5 cannot be read from a pipe", name);
    struct vp_h5_file *const f = calloc(1, sizeof *f);
    int rc = f ? 0 : vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    if (rc)
        return rc;
    f->name = name;
    enter();
    const hid_t how = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(how, false, true); /* reading needs none, and some file systems have none */
#endif
    f->id = H5Fopen(path, H5F_ACC_RDONLY, how);
    if (f->id < 0)
        rc = fail(name, "", "not readable as HDF5", err);
    H5Pclose(how);
    leave();
    if (rc)
        free(f);
    else
        *out = f;
    return rc;
}

static void close_file(struct vp_h5_file *f)
{
    if (!f)
        return;
    enter();
    H5Fclose(f->id);
    leave();
    free(f);
}

/* ---- data sets ---- */

static void name_class(hid_t type, char *to, size_t size)
{
    static const char *const names[] = {"integers", "floats", "times", "texts", "bit fields", "opaque", "compounds",
                                        "references", "enumerations", "sequences", "arrays"};
    const H5T_class_t c = H5Tget_class(type);
    snprintf(to, size, "%s of %zu bytes", c >= 0 && (size_t)c < sizeof names / sizeof *names ? names[c] : "unknown",
             H5Tget_size(type));
}

/* Sets the type of samples; names that of others. */
static void find_type(hid_t type, struct vp_h5_set *s)
{
    static const enum vp_type whole[2][9] = {
        {[1] = VP_U8, [2] = VP_U16, [4] = VP_U32, [8] = VP_U64}, {[1] = VP_I8, [2] = VP_I16, [4] = VP_I32, [8] = VP_I64}};
    const H5T_class_t c = H5Tget_class(type);
    const hid_t base = c == H5T_ENUM ? H5Tget_super(type) : type;
    const size_t size = H5Tget_size(base);
    if ((c == H5T_INTEGER || c == H5T_ENUM) && (size == 1 || size == 2 || size == 4 || size == 8))
        s->type = whole[H5Tget_sign(base) == H5T_SGN_2][size];
    else if (c == H5T_FLOAT && size <= 8)
        s->type = size > 4 ? VP_F64 : VP_F32;
    else
        name_class(type, s->other, sizeof s->other);
    if (base != type)
        H5Tclose(base);
}

static const char *filter_name(H5Z_filter_t id)
{
    static const struct { H5Z_filter_t id; const char *name; } known[] = {
        {H5Z_FILTER_DEFLATE, "deflate"}, {H5Z_FILTER_SZIP, "szip"}, {307, "bzip2"}, {32000, "LZF"}, {32001, "Blosc"},
        {32004, "LZ4"}, {32008, "bitshuffle"}, {32013, "ZFP"}, {32015, "Zstandard"}, {32017, "SZ"}, {32026, "Blosc2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].name;
    return "unknown";
}

/* Sets how the samples are stored: returns if they lie in the file as they are. */
static bool find_layout(hid_t set, struct vp_h5_set *s)
{
    const hid_t how = H5Dget_create_plist(set);
    const int filters = H5Pget_nfilters(how);
    bool plain = H5Pget_layout(how) == H5D_CONTIGUOUS && H5Pget_external_count(how) == 0;
    for (int i = 0; i < filters; i++) {
        unsigned flags;
        size_t n = 0;
        const H5Z_filter_t id = H5Pget_filter2(how, (unsigned)i, &flags, &n, NULL, 0, NULL, NULL);
        if (id >= 0 && !s->lacks[0] && H5Zfilter_avail(id) <= 0)
            snprintf(s->lacks, sizeof s->lacks, "%d (%s)", id, filter_name(id));
        plain = false;
    }
    hsize_t chunk[H5S_MAX_RANK];
    if (H5Pget_layout(how) == H5D_CHUNKED && H5Pget_chunk(how, H5S_MAX_RANK, chunk) == s->rank)
        for (int i = 0; i < s->rank; i++)
            s->chunk[i] = (int64_t)chunk[i];
    H5Pclose(how);
    return plain;
}

/* True if the type is one of the two byte orders of the sample type; sets which. */
static bool is_standard(hid_t type, struct vp_h5_set *s)
{
    const hid_t le[] = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE, H5T_STD_I8LE, H5T_STD_I16LE,
                        H5T_STD_I32LE, H5T_STD_I64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    const hid_t be[] = {H5T_STD_U8BE, H5T_STD_U16BE, H5T_STD_U32BE, H5T_STD_U64BE, H5T_STD_I8BE, H5T_STD_I16BE,
                        H5T_STD_I32BE, H5T_STD_I64BE, H5T_IEEE_F32BE, H5T_IEEE_F64BE};
    s->swap = H5Tequal(type, be[s->type]) > 0 && H5Tget_size(type) > 1;
    return s->swap || H5Tequal(type, le[s->type]) > 0 || H5Tequal(type, be[s->type]) > 0;
}

static int describe(hid_t set, struct vp_h5_set *s)
{
    const hid_t space = H5Dget_space(set), type = H5Dget_type(set);
    hsize_t size[H5S_MAX_RANK];
    *s = (struct vp_h5_set){0};
    s->rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, size, NULL);
    s->rank = s->rank > VP_H5_RANK ? -1 : s->rank;
    for (int i = 0; i < s->rank; i++)
        s->size[i] = size[i] > INT64_MAX ? INT64_MAX : (int64_t)size[i];
    find_type(type, s);
    if (find_layout(set, s) && !s->other[0] && is_standard(type, s)) {
        const haddr_t at = H5Dget_offset(set);
        s->at = at == HADDR_UNDEF ? 0 : at;
    }
    H5Tclose(type);
    H5Sclose(space);
    return 0;
}

struct visit {
    hid_t file;
    int (*take)(void *ctx, const char *path, const struct vp_h5_set *s);
    void *ctx;
};

static herr_t visit(hid_t group, const char *name, const H5O_info_t *info, void *ctx)
{
    const struct visit *const v = ctx;
    struct vp_h5_set s;
    char path[VP_H5_PATH];
    if (info->type != H5O_TYPE_DATASET || snprintf(path, sizeof path, "/%s", name) >= (int)sizeof path)
        return 0;
    const hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
    if (set < 0)
        return 0;
    describe(set, &s);
    H5Dclose(set);
    return v->take(v->ctx, path, &s) ? 1 : 0;
}

static int each(struct vp_h5_file *f, int (*take)(void *ctx, const char *path, const struct vp_h5_set *s), void *ctx,
                struct vp_err *err)
{
    struct visit v = {f->id, take, ctx};
    enter();
#if H5_VERSION_GE(1, 12, 0)
    const herr_t got = H5Ovisit3(f->id, H5_INDEX_NAME, H5_ITER_INC, visit, &v, H5O_INFO_BASIC);
#else
    const herr_t got = H5Ovisit2(f->id, H5_INDEX_NAME, H5_ITER_INC, visit, &v, H5O_INFO_BASIC);
#endif
    const int rc = got < 0 ? fail(f->name, "", "its groups cannot be read", err) : 0;
    leave();
    return rc;
}

/* Returns the kind of the object at a path, which each of its groups must lead to. */
static H5I_type_t kind_of(struct vp_h5_file *f, const char *path, hid_t *object)
{
    *object = H5Oopen(f->id, path, H5P_DEFAULT);
    return *object < 0 ? H5I_BADID : H5Iget_type(*object);
}

static int find(struct vp_h5_file *f, const char *path, struct vp_h5_set *s)
{
    hid_t object;
    enter();
    const bool there = kind_of(f, path, &object) == H5I_DATASET;
    if (there)
        describe(object, s);
    if (object >= 0)
        H5Oclose(object);
    leave();
    return there;
}

static bool group(struct vp_h5_file *f, const char *path)
{
    hid_t object;
    enter();
    const bool there = kind_of(f, path, &object) == H5I_GROUP;
    if (object >= 0)
        H5Oclose(object);
    leave();
    return there;
}

static int numbers(struct vp_h5_file *f, const char *path, const char *attribute, int64_t n, double *to,
                   struct vp_err *err)
{
    hid_t object, a = -1;
    enter();
    const bool set = kind_of(f, path, &object) == H5I_DATASET;
    if (object >= 0 && attribute && H5Aexists(object, attribute) > 0)
        a = H5Aopen(object, attribute, H5P_DEFAULT);
    const hid_t space = attribute ? a < 0 ? -1 : H5Aget_space(a) : set ? H5Dget_space(object) : -1;
    const hssize_t there = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    int rc = 0;
    if (there >= 0 && there != n)
        rc = vp_fail(err, VP_ERUN, "%s: %s: expected %lld numbers, got %lld", f->name, path, (long long)n,
                     (long long)there);
    else if (there < 0 || (attribute ? H5Aread(a, H5T_NATIVE_DOUBLE, to)
                                     : H5Dread(object, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, to)) < 0)
        rc = fail(f->name, path, "expected numbers", err);
    if (space >= 0)
        H5Sclose(space);
    if (a >= 0)
        H5Aclose(a);
    if (object >= 0)
        H5Oclose(object);
    leave();
    return rc;
}

/* Reads the text of an attribute or a data set. */
static bool read_text(hid_t from, bool attribute, char *to, size_t size)
{
    const hid_t type = attribute ? H5Aget_type(from) : H5Dget_type(from),
                space = attribute ? H5Aget_space(from) : H5Dget_space(from);
    const bool one = H5Sget_simple_extent_npoints(space) == 1 && H5Tget_class(type) == H5T_STRING;
    bool got = false;
    if (one && H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        const hid_t memory = H5Tcopy(type);
        const herr_t rc = attribute ? H5Aread(from, memory, &text)
                                    : H5Dread(from, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text);
        got = rc >= 0 && text && strlen(text) < size;
        if (got)
            memcpy(to, text, strlen(text) + 1);
        H5free_memory(text);
        H5Tclose(memory);
    } else if (one && H5Tget_size(type) < size) {
        const size_t n = H5Tget_size(type);
        got = (attribute ? H5Aread(from, type, to) : H5Dread(from, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to)) >= 0;
        to[n] = '\0';
        for (char *end = to + strlen(to); got && end > to && end[-1] == ' ';)
            *--end = '\0';
    }
    H5Sclose(space);
    H5Tclose(type);
    return got;
}

static bool text(struct vp_h5_file *f, const char *path, const char *attribute, char *to, size_t size)
{
    hid_t object;
    bool got = false;
    enter();
    const H5I_type_t kind = kind_of(f, path, &object);
    if (object >= 0 && attribute && H5Aexists(object, attribute) > 0) {
        const hid_t a = H5Aopen(object, attribute, H5P_DEFAULT);
        got = a >= 0 && read_text(a, true, to, size);
        if (a >= 0)
            H5Aclose(a);
    } else if (kind == H5I_DATASET && !attribute) {
        got = read_text(object, false, to, size);
    }
    if (object >= 0)
        H5Oclose(object);
    leave();
    return got;
}

/* ---- samples ---- */

/* Returns the type of samples in memory: the file's own in the host's byte order, of short floats f32. */
static hid_t type_in_memory(hid_t set)
{
    const hid_t type = H5Dget_type(set);
    const hid_t own = H5Tget_class(type) == H5T_FLOAT
                          ? H5Tcopy(H5Tget_size(type) > 4 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT)
                          : H5Tget_native_type(type, H5T_DIR_DEFAULT);
    H5Tclose(type);
    return own;
}

static int open_data(struct vp_h5_file *f, const char *path, size_t cache, struct vp_h5_data **out, struct vp_err *err)
{
    enum { SLOTS = 12421 }; /* a prime, more than the chunks of a layer mostly are */
    struct vp_h5_data *const d = calloc(1, sizeof *d);
    if (!d)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", f->name);
    snprintf(d->path, sizeof d->path, "%s", path);
    d->file = f;
    enter();
    const hid_t how = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(how, SLOTS, cache, 1);
    d->set = H5Dopen2(f->id, path, how);
    H5Pclose(how);
    d->space = d->set < 0 ? -1 : H5Dget_space(d->set);
    d->memory = d->set < 0 ? -1 : type_in_memory(d->set);
    d->rank = d->space < 0 ? -1 : H5Sget_simple_extent_ndims(d->space);
    int rc = d->memory < 0 || d->rank < 2 || d->rank > VP_H5_RANK ? fail(f->name, path, "cannot be opened", err) : 0;
    if (!rc)
        H5Sget_simple_extent_dims(d->space, d->size, NULL);
    leave();
    *out = d;
    return rc;
}

static void close_data(struct vp_h5_data *d)
{
    if (!d)
        return;
    enter();
    if (d->memory >= 0)
        H5Tclose(d->memory);
    if (d->space >= 0)
        H5Sclose(d->space);
    if (d->set >= 0)
        H5Dclose(d->set);
    leave();
    free(d);
}

static int rows(struct vp_h5_data *d, int64_t image, int64_t y0, int64_t y1, void *to, struct vp_err *err)
{
    hsize_t start[VP_H5_RANK] = {0}, count[VP_H5_RANK];
    for (int i = d->rank - 1; i >= 0; i--) {
        const bool page = i < d->rank - 2;
        count[i] = page ? 1 : i == d->rank - 2 ? (hsize_t)(y1 - y0) : d->size[i];
        start[i] = page ? (hsize_t)image % d->size[i] : i == d->rank - 2 ? (hsize_t)y0 : 0;
        image = page ? image / (int64_t)d->size[i] : image;
    }
    enter();
    const hid_t memory = H5Screate_simple(d->rank, count, NULL);
    H5Sselect_hyperslab(d->space, H5S_SELECT_SET, start, NULL, count, NULL);
    const int rc = H5Dread(d->set, d->memory, memory, d->space, H5P_DEFAULT, to) < 0
                       ? fail(d->file->name, d->path, "cannot be read", err) : 0;
    H5Sclose(memory);
    leave();
    return rc;
}

/* ---- outputs ---- */

static hid_t type_of(enum vp_type t)
{
    const hid_t native[] = {H5T_STD_U8LE, H5T_STD_U16LE, H5T_STD_U32LE, H5T_STD_U64LE, H5T_STD_I8LE, H5T_STD_I16LE,
                            H5T_STD_I32LE, H5T_STD_I64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
    return native[t];
}

static int add_label(hid_t object, const char *attribute, const char *words, int n, const double *v)
{
    const hsize_t size = (hsize_t)n;
    const hid_t kind = words ? H5Tcopy(H5T_C_S1) : H5Tcopy(H5T_IEEE_F64LE);
    if (words)
        H5Tset_size(kind, strlen(words) + 1);
    const hid_t space = words ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, NULL),
                a = H5Acreate2(object, attribute, kind, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool good = a >= 0 && H5Awrite(a, words ? kind : H5T_NATIVE_DOUBLE, words ? (const void *)words : v) >= 0;
    if (a >= 0)
        H5Aclose(a);
    H5Sclose(space);
    H5Tclose(kind);
    return good ? 0 : -1;
}

static int finish(struct vp_h5_out *o, struct vp_err *err)
{
    int rc = 0;
    if (!o)
        return 0;
    enter();
    if (o->set >= 0)
        H5Dclose(o->set);
    if (o->file >= 0 && H5Fclose(o->file) < 0 && err)
        rc = fail(o->name, "", "cannot be written", err);
    leave();
    free(o);
    return rc;
}

/* Makes the groups above the data set, as NeXus has them: viewers find it through them. */
static int make_groups(hid_t file)
{
    const hid_t entry = H5Gcreate2(file, "/entry", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                data = H5Gcreate2(file, "/entry/data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const int rc = entry < 0 || data < 0 || add_label(file, "default", "entry", 0, NULL)
                           || add_label(entry, "NX_class", "NXentry", 0, NULL)
                           || add_label(entry, "default", "data", 0, NULL)
                           || add_label(data, "NX_class", "NXdata", 0, NULL)
                           || add_label(data, "signal", "data", 0, NULL) ? -1 : 0;
    if (data >= 0)
        H5Gclose(data);
    if (entry >= 0)
        H5Gclose(entry);
    return rc;
}

static int create(struct vp_h5_out **out, const char *path, const char *name, const struct vp_stack *s, bool deflate,
                  struct vp_err *err)
{
    enum { MOST_CHUNK = 1 << 30, LEVEL = 4 };
    struct vp_h5_out *const o = calloc(1, sizeof *o);
    if (!o)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    const uint64_t row = (uint64_t)s->nx * H5Tget_size(type_of(s->type)), most = row < MOST_CHUNK ? MOST_CHUNK / row : 1;
    const hsize_t chunk[3] = {1, (uint64_t)s->ny < most ? (hsize_t)s->ny : most, (hsize_t)s->nx};
    *o = (struct vp_h5_out){-1, -1, -1, name, {s->pages > 0 ? (hsize_t)s->pages : 0, (hsize_t)s->ny, (hsize_t)s->nx},
                            s->pages <= 0};
    const hsize_t limit[3] = {o->grows ? H5S_UNLIMITED : o->size[0], o->size[1], o->size[2]};
    enter();
    o->memory = type_of(s->type);
    const hid_t space = H5Screate_simple(3, o->size, limit), how = H5Pcreate(H5P_DATASET_CREATE),
                access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk(how, 3, chunk);
    H5Pset_fill_time(how, H5D_FILL_TIME_NEVER); /* every page is written */
    H5Pset_obj_track_times(how, false);         /* the same run gives the same bytes */
    H5Pset_chunk_cache(access, 1, 0, 1);
    if (deflate) {
        H5Pset_shuffle(how);
        H5Pset_deflate(how, LEVEL);
    }
    o->file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (o->file >= 0 && !make_groups(o->file))
        o->set = H5Dcreate2(o->file, VP_H5_OUTPUT, o->memory, space, H5P_DEFAULT, how, access);
    const int rc = o->set < 0 ? fail(name, "", "cannot be made", err) : 0;
    H5Pclose(access);
    H5Pclose(how);
    H5Sclose(space);
    leave();
    if (rc)
        finish(o, NULL);
    else
        *out = o;
    return rc;
}

static int page(struct vp_h5_out *o, int64_t number, const void *samples, struct vp_err *err)
{
    const hsize_t start[3] = {(hsize_t)number, 0, 0}, count[3] = {1, o->size[1], o->size[2]};
    enter();
    if (o->grows && (hsize_t)number >= o->size[0]) {
        o->size[0] = (hsize_t)number + 1;
        H5Dset_extent(o->set, o->size);
    }
    const hid_t space = H5Dget_space(o->set), memory = H5Screate_simple(3, count, NULL);
    const bool good = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0
                      && H5Dwrite(o->set, o->memory, memory, space, H5P_DEFAULT, samples) >= 0;
    const int rc = good ? 0 : fail(o->name, "", "cannot be written", err);
    H5Sclose(memory);
    H5Sclose(space);
    leave();
    return rc;
}

static int label(struct vp_h5_out *o, const char *attribute, int n, const double *v, struct vp_err *err)
{
    enter();
    const int rc = add_label(o->set, attribute, NULL, n, v) ? fail(o->name, attribute, "cannot be written", err) : 0;
    leave();
    return rc;
}

static int add_group(struct vp_h5_out *o, const char *path, const char *class, struct vp_err *err)
{
    enter();
    const hid_t g = H5Gcreate2(o->file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const int rc = g < 0 || add_label(g, "NX_class", class, 0, NULL) ? fail(o->name, path, "cannot be written", err) : 0;
    if (g >= 0)
        H5Gclose(g);
    leave();
    return rc;
}

/* Writes a small data set and frees type and space. */
static int add_set(struct vp_h5_out *o, const char *path, hid_t kind, hid_t space, hid_t memory, const void *v,
                   const char *unit, struct vp_err *err)
{
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(how, false);
    const hid_t set = H5Dcreate2(o->file, path, kind, space, H5P_DEFAULT, how, H5P_DEFAULT);
    const bool good = set >= 0 && H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0
                      && (!unit || !add_label(set, "units", unit, 0, NULL));
    const int rc = good ? 0 : fail(o->name, path, "cannot be written", err);
    if (set >= 0)
        H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
    H5Tclose(kind);
    return rc;
}

static int add_text(struct vp_h5_out *o, const char *path, const char *words, struct vp_err *err)
{
    enter();
    const hid_t kind = H5Tcopy(H5T_C_S1);
    H5Tset_size(kind, strlen(words) + 1);
    const int rc = add_set(o, path, kind, H5Screate(H5S_SCALAR), kind, words, NULL, err);
    leave();
    return rc;
}

static int add_numbers(struct vp_h5_out *o, const char *path, const char *unit, bool integers, int64_t n,
                       const double *v, struct vp_err *err)
{
    const hsize_t size = (hsize_t)n;
    enter();
    const int rc = add_set(o, path, H5Tcopy(integers ? H5T_STD_I32LE : H5T_IEEE_F64LE),
                           n ? H5Screate_simple(1, &size, NULL) : H5Screate(H5S_SCALAR), H5T_NATIVE_DOUBLE, v, unit, err);
    leave();
    return rc;
}

static int add_link(struct vp_h5_out *o, const char *path, const char *to, struct vp_err *err)
{
    enter();
    const int rc = H5Lcreate_hard(o->file, to, o->file, path, H5P_DEFAULT, H5P_DEFAULT) < 0
                       ? fail(o->name, path, "cannot be written", err) : 0;
    leave();
    return rc;
}

__attribute__((visibility("default"))) const void *vp_plugin(void);

const void *vp_plugin(void)
{
    static struct vp_h5_plugin plugin = {
        .build = VP_BUILD, .open = open_file, .close = close_file, .each = each, .find = find, .group = group,
        .numbers = numbers, .text = text, .data = open_data, .rows = rows, .close_data = close_data, .create = create,
        .page = page, .label = label, .add_group = add_group, .add_text = add_text, .add_numbers = add_numbers,
        .add_link = add_link, .finish = finish,
    };
    unsigned major = 0, minor = 0, release = 0;
    H5dont_atexit(); /* threads may still be in it when the process ends */
    H5get_libversion(&major, &minor, &release);
    snprintf(plugin.version, sizeof plugin.version, "%u.%u.%u", major, minor, release);
    return &plugin;
}
