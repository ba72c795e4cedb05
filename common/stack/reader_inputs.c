/* SPDX-License-Identifier: BSD-3-Clause */
/* The inputs of a reader: opening each as a source, holding it against the first, and keeping some open. */
#include "stack/reader_internal.h"
#include "base/err.h"
#include "base/places.h"
#include "base/text.h"
#include "stack/axes.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes over standard input: a second reader of it must not get other bytes, and closing ours ends the pipe for the
 * program that writes it. */
static int take_standard_input(void)
{
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDONLY);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        if (null != STDIN_FILENO)
            close(null);
    }
    return fd;
}

bool vp_input_lasts(const char *path)
{
    struct stat st;
    char *const file = strndup(path, vp_path_file(path));
    const bool lasts = file && strcmp(path, "-") && !stat(file, &st) && S_ISREG(st.st_mode);
    free(file);
    return lasts;
}

static const char *name_of(const struct vp_reader *r, int64_t i)
{
    return vp_text_name(r->in->paths.path[i]);
}

int vp_scale_of(const struct vp_meta *m, const char *name, double scale[2], struct vp_err *err)
{
    const char *text = vp_meta_get(m, "scale");
    scale[0] = 1;
    scale[1] = 0;
    if (!text || (vp_meta_numbers(m, "scale", 2, scale) && isfinite(scale[0]) && isfinite(scale[1]) && scale[0]))
        return 0;
    vp_fail(err, VP_ERUN, "%s: the scale in the metadata: expected a gain that is not 0 and an offset, got '%s'", name,
            text);
    return vp_hint(err, "img-convert --set scale= takes the samples for values%s",
                   strncmp(text, "ImageJ", 6) ? "" : "; ImageJ makes values of them as 32-bit images");
}

/* Opens the file of a path, which may name a part of it. */
static int open_path(const char *path, const char **part, struct vp_err *err)
{
    const size_t length = vp_path_file(path);
    char *const file = strndup(path, length);
    const int fd = file ? vp_open_fd(file, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (fd < 0)
        vp_fail_errno(err, "%s", path);
    free(file);
    *part = path[length] ? path + length + 1 : *part;
    return fd;
}

int vp_fields_find(const char *path, struct vp_fields *f, struct vp_err *err)
{
    struct vp_reader_options options = {0};
    struct vp_input in;
    struct vp_source *s;
    *f = (struct vp_fields){0};
    if (!vp_input_lasts(path))
        return 0;
    const int fd = open_path(path, &options.part, err);
    if (fd < 0 || vp_input_open(&in, fd, path, NULL, err))
        return -1;
    const int rc = vp_source_holds_fields(&in, &options, err);
    if (rc != 1) {
        vp_input_close(&in);
        return rc;
    }
    if (vp_source_open(&s, &in, &options, err))
        return -1;
    *f = s->fields;
    s->fields.at = NULL;
    vp_source_close(s);
    return 0;
}

/* Opens the source of input i, by itself. */
static int open_stored(struct vp_reader *r, int64_t i, struct vp_source **out, struct vp_err *err)
{
    const char *path = r->in->paths.path[i], *name = name_of(r, i);
    struct vp_reader_options options = r->options;
    struct vp_input in;
    const int fd = strcmp(path, "-") ? open_path(path, &options.part, err) : take_standard_input();
    if (fd < 0)
        return vp_fail_errno(err, "%s", name);
    if (vp_input_open(&in, fd, name, &r->in->bytes, err))
        return -1;
    if (r->options.spool && !in.anywhere) {
        if (vp_spool(&in, err))
            return -1;
        r->spooled += vp_scratch_in_memory() ? in.size : 0;
    }
    options.pick = r->in->paths.n == 1 ? options.pick : NULL;
    return vp_source_open(out, &in, &options, err);
}

/* Checks that the files after the first that can be opened at any time are as the first. If not, values are what they
 * have in common. */
static int all_alike(struct vp_reader *r, const struct vp_source *first, bool *alike, struct vp_err *err)
{
    *alike = true;
    for (int64_t i = 1; i < r->in->paths.n && *alike; i++) {
        struct vp_source *s;
        double scale[2];
        if (!vp_input_lasts(r->in->paths.path[i]))
            continue;
        if (open_stored(r, i, &s, err))
            return -1;
        const int rc = vp_scale_of(&s->stack.meta, s->name, scale, err);
        *alike = s->stack.type == first->stack.type && !memcmp(scale, first->scale, sizeof scale);
        vp_source_close(s);
        if (rc)
            return -1;
    }
    return 0;
}

/* Decides if values must be made of the first input. Integers are turned round if that is enough. */
static int steps_of(struct vp_reader *r, struct vp_source *s, struct vp_err *err)
{
    const enum vp_type type = s->stack.type;
    bool alike = true;
    if (!vp_meta_get(&s->stack.meta, "scale"))
        return 0;
    if (all_alike(r, s, &alike, err))
        return -1;
    s->turned = alike && !vp_type_is_float(type) && vp_type_size(type) < 8 && s->scale[0] < 0;
    s->scaled = !alike || vp_type_is_float(type) || (s->scale[0] < 0 && !s->turned);
    r->turned = s->turned;
    return 0;
}

/* Decides if values are to be made of the samples. */
static int undo_scale(struct vp_reader *r, struct vp_source *s, struct vp_err *err)
{
    const bool first = !r->stored.nx, stored = r->options.samples == VP_AS_STORED;
    const char *const said = vp_meta_get(&s->stack.meta, "scale");
    const char *const of_all = vp_meta_get(&r->stored.meta, "scale");
    double of_first[2];
    if (first && vp_stack_copy(&r->stored, &s->stack))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", s->name);
    if (stored && (first || (said && of_all && !strcmp(said, of_all))))
        return 0;
    if (vp_scale_of(&s->stack.meta, s->name, s->scale, err) ||
        vp_scale_of(&r->stored.meta, name_of(r, 0), of_first, err))
        return -1;
    s->turned = r->turned;
    s->scaled = r->options.samples == VP_AS_VALUES ? vp_meta_get(&s->stack.meta, "scale") != NULL
                                           : r->options.samples == VP_UPRIGHT && first && s->scale[0] < 0;
    if (first && r->options.samples == VP_AS_STEPS && steps_of(r, s, err))
        return -1;
    if (first)
        r->undone = s->scaled;
    s->scaled = s->scaled || r->undone;
    if (s->scaled || (s->scale[0] == of_first[0] && s->scale[1] == of_first[1]))
        return 0;
    vp_fail(err, VP_ERUN, "%s: expected the scale %.9g %.9g as in the first input, got %.9g %.9g", s->name,
            of_first[0], of_first[1], s->scale[0], s->scale[1]);
    return vp_hint(err, "undo it in each of them first: img-convert --unscale");
}

enum vp_type vp_type_read(const struct vp_source *s)
{
    return s->scaled ? vp_type_of_values(s->stack.type) : s->stack.type;
}

static int check_like_first(const struct vp_reader *r, const struct vp_source *s, struct vp_err *err)
{
    const struct vp_stack *a = &r->stored, *b = &s->stack;
    if (a->nx != b->nx || a->ny != b->ny || r->stack.type != vp_type_read(s)) {
        vp_fail(err, VP_ERUN, "%s: expected pages of %lldx%lld %s as in %s, got %lldx%lld %s", s->name,
                (long long)a->nx, (long long)a->ny, vp_type_name(r->stack.type), name_of(r, 0), (long long)b->nx,
                (long long)b->ny, vp_type_name(vp_type_read(s)));
        if (r->options.samples == VP_AS_VALUES && a->nx == b->nx && a->ny == b->ny)
            vp_hint(err, "if one has a scale and another has none: img-convert --unscale");
        return -1;
    }
    if (r->channels == s->channels)
        return 0;
    vp_fail(err, VP_ERUN, "%s: expected images of %lld channels as in %s, got %lld", s->name, (long long)r->channels,
            name_of(r, 0), (long long)s->channels);
    return vp_hint(err, "take one channel of each first, as with: img-convert --channel luminance");
}

/* Finds the next line of the scan geometry from line i on, of a key that the other one has, too. */
static int shared_line(const struct vp_meta *m, int i, const struct vp_meta *other)
{
    while (i < m->n && (strncmp(m->key[i], "geom.", 5) || !vp_meta_get(other, m->key[i])))
        i++;
    return i;
}

/* Returns the key on which a later input contradicts the first; NULL if none. */
static const char *disagreement(const struct vp_meta *a, const struct vp_meta *b)
{
    static const char *const keys[] = {"quantity", "value-unit", "voxel", "palette"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *x = vp_meta_get(a, keys[i]), *y = vp_meta_get(b, keys[i]);
        if (x && y && strcmp(x, y))
            return keys[i];
    }
    /* line by line: lists of angles and of matrices are many lines of one key */
    int i = shared_line(a, 0, b), k = shared_line(b, 0, a);
    while (i < a->n && k < b->n && !strcmp(a->key[i], b->key[k]) && !strcmp(a->value[i], b->value[k])) {
        i = shared_line(a, i + 1, b);
        k = shared_line(b, k + 1, a);
    }
    return i < a->n || k < b->n ? "scan geometry" : NULL;
}

/* Refuses a volume as one of several inputs: along the seam it would be mixed with the next. */
static int check_alone(const struct vp_reader *r, const struct vp_source *s, struct vp_err *err)
{
    const struct vp_stack *k = &s->stack;
    struct vp_axes a;
    if (r->in->paths.n == 1 || !r->options.volumes || k->pages == 1)
        return 0;
    vp_axes_get(k, &a);
    const int z = vp_axes_z(&a);
    /* pages without a named axis are slices if they have an origin, whatever the program takes them for */
    const bool slices = z >= 0 ? a.size[z] != 1 : a.n == 0 && (!r->options.views || vp_meta_get(&k->meta, "origin"));
    const int64_t n = z >= 0 ? a.size[z] : k->pages;
    char text[32] = "several";
    if (!slices)
        return 0;
    if (n > 0)
        snprintf(text, sizeof text, "%lld", (long long)n);
    return vp_fail_hint(err, VP_EUSAGE, r->options.volumes, "%s: one of %lld files: expected one slice, got a volume of %s",
                        s->name, (long long)r->in->paths.n, text);
}

/* Opens the source of input i, which fits the stack; NULL with an error. */
static struct vp_source *open_source(struct vp_reader *r, int64_t i, struct vp_err *err)
{
    struct vp_source *s;
    if (open_stored(r, i, &s, err))
        return NULL;
    if (!check_alone(r, s, err) && !undo_scale(r, s, err) && !(r->stack.nx && check_like_first(r, s, err)))
        return s;
    vp_source_close(s);
    return NULL;
}

/* Frees the decoded samples of the last idle input: many stay open, without these. */
static void rest_last(struct vp_reader *r, int64_t but)
{
    const int64_t last = r->in->n_idle ? r->in->idle[r->in->n_idle - 1] : but;
    if (last != but)
        vp_source_rest(r->in->input[last].source);
}

static int64_t drop_idle(struct vp_reader *r, int k)
{
    const int64_t i = r->in->idle[k];
    memmove(r->in->idle + k, r->in->idle + k + 1, (size_t)(--r->in->n_idle - k) * sizeof *r->in->idle);
    return i;
}

struct vp_source *vp_inputs_take(struct vp_reader *r, int64_t i, struct vp_err *err)
{
    struct vp_opened *in = &r->in->input[i];
    pthread_mutex_lock(&r->in->lock);
    rest_last(r, i);
    while (in->opening)
        pthread_cond_wait(&r->in->opened, &r->in->lock);
    for (int k = 0; k < r->in->n_idle; k++)
        if (r->in->idle[k] == i)
            drop_idle(r, k);
    struct vp_source *s = in->source;
    in->users += s != NULL;
    in->opening = !s;
    pthread_mutex_unlock(&r->in->lock);
    if (s)
        return s;

    s = open_source(r, i, err);
    const char *key = s && i > 0 ? disagreement(&r->stack.meta, &s->stack.meta) : NULL;
    pthread_mutex_lock(&r->in->lock);
    r->disagrees = r->disagrees ? r->disagrees : key;
    in->opening = false;
    in->source = s;
    in->users = s != NULL;
    in->keep = s && s->seekable && !vp_input_lasts(r->in->paths.path[i]);
    pthread_cond_broadcast(&r->in->opened);
    pthread_mutex_unlock(&r->in->lock);
    return s;
}

void vp_inputs_give(struct vp_reader *r, int64_t i)
{
    struct vp_opened *in = &r->in->input[i], *old = NULL;
    struct vp_source *closing = NULL;
    pthread_mutex_lock(&r->in->lock);
    if (--in->users == 0 && !in->keep) {
        rest_last(r, i);
        if (!in->source->seekable)
            old = in;
        else if (r->in->n_idle == VP_IDLE_INPUTS)
            old = &r->in->input[drop_idle(r, 0)];
        if (old != in)
            r->in->idle[r->in->n_idle++] = i;
        if (old) {
            closing = old->source;
            old->source = NULL;
        }
    }
    pthread_mutex_unlock(&r->in->lock);
    vp_source_close(closing);
}
