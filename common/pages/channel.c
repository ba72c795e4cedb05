/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of a stack. The weights of the luminance are those of TIFF's YCbCr (ITU-R BT.601), as image programs use
 * them. */
#include "pages/channel.h"
#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/axes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 3 };
static const double weight[COLOURS] = {0.299, 0.587, 0.114};

bool vp_channels_are_colours(const struct vp_meta *m)
{
    const char *names = vp_meta_get(m, "channels");
    return names && !strncmp(names, "red green blue", 14);
}

void vp_channel_name(const struct vp_meta *m, int64_t k, char name[VP_CHANNEL_NAME])
{
    const char *at = vp_meta_get(m, "channels");
    char word[VP_CHANNEL_NAME - 8] = "";
    int n = 0;

    for (; at && k >= 0 && sscanf(at, "%31s%n", word, &n) == 1; at += n)
        k--;
    name[0] = '\0';
    if (k < 0)
        snprintf(name, VP_CHANNEL_NAME, " (%s)", word);
}

int vp_channels_axis(const struct vp_axes *axes)
{
    const int samples = vp_axes_find(axes, "sample");
    return samples >= 0 ? samples : vp_axes_find(axes, "channel");
}

/* Lists the pages of channel `at`, or those of the colours (mix), each image's one after the other, as --pages has
 * them. stride: pages from one channel to the next. */
static char *choose(const struct vp_channel *c, bool mix, int64_t at, int64_t stride, int64_t pages)
{
    char *text = NULL;
    const int64_t block = stride * c->count, together = stride == 1 ? COLOURS : 1;
    if (stride == 1 && !mix)
        return asprintf(&text, "%lld::%lld", (long long)at, (long long)c->count) < 0 ? NULL : text;
    if (stride == 1 && c->count == COLOURS)
        return strdup("::");
    FILE *f = vp_text_open();
    for (int64_t b = 0; f && b < pages; b += block) {
        if (!mix)
            fprintf(f, "%s%lld:%lld", b ? "," : "", (long long)(b + at * stride), (long long)(b + (at + 1) * stride));
        for (int64_t i = 0; mix && i < stride; i++)
            for (int64_t k = 0; k < COLOURS; k += together) {
                const int64_t first = b + i + k * stride;
                fprintf(f, "%s%lld:%lld", first ? "," : "", (long long)first, (long long)(first + together));
            }
    }
    return f ? vp_text_close(f, NULL) : NULL;
}

/* Finds the pages of the channels `text`, and the axes that are left. *one: the pages of one channel; malloc'd. */
static int make(struct vp_channel *c, const char *text, const struct vp_stack *in, struct vp_axes *axes, char **one,
                const char *name, struct vp_err *err)
{
    const char *names = vp_meta_get(&in->meta, "channels");
    int which = -1;
    char *end;

    *c = (struct vp_channel){.luminance = !strcmp(text, "luminance")};
    errno = 0;
    const long long k = c->luminance ? 0 : strtoll(text, &end, 10);
    if (!c->luminance && (end == text || *end || errno || k < 0))
        return vp_fail(err, VP_EUSAGE, "--channel: '%s' is not a channel: expected 0, 1, ... or luminance", text);
    if (axes->n == 1 || axes->sized)
        which = vp_axes_find(axes, "channel");
    if (which < 0)
        return vp_fail(err, VP_ERUN, "%s: --channel: the stack has no axis named channel (axes = %s)", name,
                       vp_meta_get(&in->meta, "axes") ? vp_meta_get(&in->meta, "axes") : "not said");
    const int64_t stride = vp_axes_stride(axes, which);
    c->count = axes->size[which];
    const bool listed = stride > 1 || (c->luminance && c->count != COLOURS);
    if (c->count < 0 || (listed && in->pages < 0))
        return vp_fail_hint(err, VP_ERUN, "give the file name instead, or use --spool",
                            "%s: --channel: the number of channels is unknown", name);
    if (k >= c->count)
        return vp_fail(err, VP_EUSAGE, "%s: --channel %lld: expected 0 to %lld", name, k, (long long)c->count - 1);
    if (c->luminance && (c->count < COLOURS || (names && !vp_channels_are_colours(&in->meta))))
        return vp_fail(err, VP_ERUN, "%s: --channel luminance: expected red, green and blue, got %lld channels%s%s",
                       name, (long long)c->count, names ? ": " : "", names ? names : "");
    vp_axes_drop(axes, which);
    c->pages = choose(c, c->luminance, k, stride, in->pages);
    *one = choose(c, false, k, stride, in->pages);
    return c->pages && *one ? 0 : vp_fail(err, VP_ERESOURCE, "out of memory");
}

/* Fills the header, that of one channel, whose pages make a grid, whatever order those of the colours are wanted in. */
static int head(const struct vp_channel *c, const struct vp_axes *axes, const struct vp_select_params *p,
                const struct vp_stack *in, const char *name, bool seekable, struct vp_stack *out, char *note, size_t n,
                struct vp_err *err)
{
    struct vp_stack known = *in; /* from a pipe: with the pages that its axes have */
    struct vp_select one = {0};
    if (in->pages < 0) {
        known.pages = c->count;
        for (int i = 0; i < axes->n; i++)
            known.pages *= axes->size[i];
    }
    int rc = vp_select_make(&one, p, &known, name, seekable, err) || vp_select_stack(&one, &known, out, note, n, err);
    vp_select_free(&one);
    if (rc)
        return -1;
    out->pages = in->pages < 0 ? -1 : in->pages / c->count;
    return vp_axes_set(&out->meta, axes) || vp_meta_set(&out->meta, "channels", NULL)
               ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

int vp_channel_select(struct vp_channel *c, const char *text, struct vp_select *select,
                      const struct vp_select_params *p, const struct vp_stack *in, const char *name, bool seekable,
                      struct vp_stack *out, char *note, size_t n, struct vp_err *err)
{
    if (!text)
        return vp_select_make(select, p, in, name, seekable, err) || vp_select_stack(select, in, out, note, n, err) ? -1
                                                                                                                     : 0;
    struct vp_select_params wanted = *p;
    struct vp_axes axes;
    char *one = NULL;
    if (p->pages)
        return vp_fail_hint(err, VP_EUSAGE, "use two runs in a pipe", "--channel and --pages cannot be combined");
    vp_axes_get(in, &axes);
    int rc = make(c, text, in, &axes, &one, name, err);
    wanted.pages = c->pages;
    rc = rc || vp_select_make(select, &wanted, in, name, seekable, err);
    wanted.pages = one;
    rc = rc || head(c, &axes, &wanted, in, name, seekable, out, note, n, err);
    free(one);
    return rc ? -1 : 0;
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
    const size_t page = (size_t)samples * sizeof *c->sum, room = page * (size_t)vp_channel_sums(*n);
    if (room > c->room) {
        double *more = realloc(c->sum, room);
        if (!more)
            return vp_fail(err, VP_ERESOURCE, "out of memory: the luminance of %d pages", *n);
        c->sum = more;
        c->room = room;
    }
    int whole = 0;
    if (c->done % COLOURS) /* a page was begun after those */
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
