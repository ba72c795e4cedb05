/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of a stack. The weights of the luminance are those of TIFF's YCbCr (ITU-R BT.601), as image programs use
 * them. */
#include "ops/channel.h"
#include "base/err.h"
#include "base/size.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3, MOST = 8 };
static const double weight[COLOURS] = {0.299, 0.587, 0.114};

struct axis {
    char name[32];
    int64_t size;
};

/* The axes behind x and y; how many, or -1 if they are not understood. */
static int page_axes(const struct vp_stack *in, struct axis *a)
{
    const char *names = vp_meta_get(&in->meta, "axes"), *sizes = vp_meta_get(&in->meta, "sizes");
    int n = 0;
    if (!names || strncmp(names, "x y ", 4))
        return -1;
    for (const char *s = names + 4; *s; n++) {
        const size_t len = strcspn(s, " ");
        if (n == MOST || !len || len >= sizeof a->name)
            return -1;
        snprintf(a[n].name, sizeof a[n].name, "%.*s", (int)len, s);
        s += len + (s[len] == ' ');
    }
    if (n == 1) {
        a[0].size = in->pages;
        return 1;
    }
    double product = 1;
    for (int i = 0; i < n; i++) {
        char *end;
        const double v = sizes ? strtod(sizes, &end) : 0;
        if (!sizes || end == sizes || !(v >= 1 && v < 1e15))
            return -1;
        a[i].size = (int64_t)v;
        product *= v;
        sizes = end;
    }
    return in->pages < 0 || product == (double)in->pages ? n : -1;
}

static int add_pages(char **text, size_t *len, size_t *room, int64_t first, int64_t last)
{
    if (*room - *len < 64) {
        char *more = realloc(*text, 2 * *room + 64);
        if (!more)
            return -1;
        *text = more;
        *room = 2 * *room + 64;
    }
    *len += (size_t)snprintf(*text + *len, *room - *len, "%s%lld:%lld", *len ? "," : "", (long long)first,
                             (long long)last);
    return 0;
}

/* stride: pages from one channel to the next. */
static int choose(struct vp_channel *c, int64_t at, int64_t stride, int64_t pages)
{
    size_t len = 0, room = 0;
    const int64_t block = stride * c->count;
    if (stride == 1 && !c->luminance)
        return asprintf(&c->pages, "%lld::%lld", (long long)at, (long long)c->count) < 0 ? -1 : 0;
    if (stride == 1 && c->count == COLOURS)
        return (c->pages = strdup("::")) ? 0 : -1;
    for (int64_t b = 0; b < pages; b += block) {
        if (!c->luminance) {
            if (add_pages(&c->pages, &len, &room, b + at * stride, b + (at + 1) * stride))
                return -1;
            continue;
        }
        for (int64_t i = 0; i < (stride == 1 ? 1 : stride); i++)
            for (int64_t k = 0; k < (stride == 1 ? 1 : COLOURS); k++) {
                const int64_t first = b + i + k * stride;
                if (add_pages(&c->pages, &len, &room, first, first + (stride == 1 ? COLOURS : 1)))
                    return -1;
            }
    }
    return 0;
}

static int make(struct vp_channel *c, const char *text, const struct vp_stack *in, const char *name,
                    struct vp_err *err)
{
    struct axis a[MOST];
    const char *names = vp_meta_get(&in->meta, "channels");
    const int n = page_axes(in, a);
    int which = -1, at_name = 0, at_size = 0;
    int64_t stride = 1;
    char *end;

    *c = (struct vp_channel){.luminance = !strcmp(text, "luminance")};
    errno = 0;
    const long long k = c->luminance ? 0 : strtoll(text, &end, 10);
    if (!c->luminance && (end == text || *end || errno || k < 0))
        return vp_fail(err, VP_EUSAGE, "--channel: '%s' is not a channel: expected 0, 1, ... or luminance", text);
    for (int i = 0; i < n; i++)
        which = !strcmp(a[i].name, "channel") && which < 0 ? i : which;
    if (which < 0)
        return vp_fail(err, VP_ERUN, "%s: --channel: the stack has no axis named channel (axes = %s)", name,
                       vp_meta_get(&in->meta, "axes") ? vp_meta_get(&in->meta, "axes") : "not said");
    for (int i = 0; i < which; i++)
        stride *= a[i].size;
    c->count = a[which].size;
    if (c->count < 0 || (stride > 1 && in->pages < 0))
        return vp_fail(err, VP_ERUN, "%s: --channel: how many channels there are is not known", name),
               vp_hint(err, "give the file name instead, or use --spool");
    if (k >= c->count)
        return vp_fail(err, VP_EUSAGE, "%s: --channel %lld: expected 0 to %lld", name, k, (long long)c->count - 1);
    if (c->luminance && (c->count < COLOURS || (names && strncmp(names, "red green blue", 14))))
        return vp_fail(err, VP_ERUN, "%s: --channel luminance: expected red, green and blue, got %lld channels%s%s",
                       name, (long long)c->count, names ? ": " : "", names ? names : "");
    for (int i = 0; i < n; i++) {
        if (i == which)
            continue;
        at_name += snprintf(c->axes + at_name, sizeof c->axes - (size_t)at_name, " %.24s", a[i].name);
        at_size += snprintf(c->sizes + at_size, sizeof c->sizes - (size_t)at_size, "%s%lld", at_size ? " " : "",
                            (long long)a[i].size);
    }
    if (n <= 2)
        c->sizes[0] = '\0';
    return choose(c, k, stride, in->pages) ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

/* The header of the chosen pages becomes that of the channel. */
static int head(const struct vp_channel *c, const struct vp_stack *in, struct vp_stack *out, struct vp_err *err)
{
    char axes[sizeof c->axes + 4];
    snprintf(axes, sizeof axes, "x y%s", c->axes);
    out->pages = in->pages < 0 ? -1 : in->pages / c->count;
    if (vp_meta_set(&out->meta, "axes", axes) || vp_meta_set(&out->meta, "sizes", *c->sizes ? c->sizes : NULL) ||
        vp_meta_set(&out->meta, "channels", NULL))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    return 0;
}

int vp_channel_select(struct vp_channel *c, const char *text, struct vp_select *select,
                      const struct vp_select_params *p, const struct vp_stack *in, const char *name, bool seekable,
                      struct vp_stack *out, char *note, size_t n, struct vp_err *err)
{
    struct vp_select_params wanted = *p;
    if (text && p->pages) {
        vp_fail(err, VP_EUSAGE, "--channel and --pages exclude each other");
        return vp_hint(err, "use two runs in a pipe");
    }
    if (text && make(c, text, in, name, err))
        return -1;
    if (text)
        wanted.pages = c->pages;
    if (vp_select_make(select, &wanted, in, name, seekable, err) ||
        vp_select_stack(select, in, out, note, n, err) || (text && head(c, in, out, err)))
        return -1;
    return 0;
}

static void add(double *sum, const void *page, enum vp_type type, int64_t n, int colour)
{
    enum { PART = 1 << 12 };
    #pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += PART) {
        const int64_t m = vp_min64(PART, n - at);
        double v[PART];
        vp_convert(v, VP_F64, (const char *)page + (size_t)at * vp_type_size(type), type, m, 1, 0);
        for (int64_t i = 0; i < m; i++)
            sum[at + i] = (colour ? sum[at + i] : 0) + weight[colour] * v[i];
    }
}

int vp_channel_mix(struct vp_channel *c, int64_t samples, void **in, int *n, enum vp_type *type, struct vp_err *err)
{
    if (!c->luminance)
        return 0;
    const size_t page = (size_t)samples * sizeof *c->sum, room = page * (size_t)(*n / COLOURS + 2);
    if (room > c->room) {
        double *more = realloc(c->sum, room);
        if (!more)
            return vp_fail(err, VP_ERESOURCE, "not enough memory for the luminance of %d pages", *n);
        c->sum = more;
        c->room = room;
    }
    int whole = 0;
    if (c->done % COLOURS) /* a page was begun behind those */
        memmove(c->sum, c->sum + c->whole * samples, page);
    for (int k = 0; k < *n; k++, c->done++) {
        const int colour = (int)(c->done % COLOURS);
        const char *page_k = (const char *)*in + (size_t)(k * samples) * vp_type_size(*type);
        add(c->sum + whole * samples, page_k, *type, samples, colour);
        whole += colour == COLOURS - 1;
    }
    *in = c->sum;
    *n = whole;
    c->whole = whole;
    *type = VP_F64;
    return 0;
}

void vp_channel_free(struct vp_channel *c)
{
    free(c->pages);
    free(c->sum);
    *c = (struct vp_channel){0};
}
