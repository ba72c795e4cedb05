/* SPDX-License-Identifier: BSD-3-Clause */
/* Axes of pages. `sizes` names the length of each page axis; those of x and y may stand before them. */
#include "stack/axes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Reads the words of `axes` after the first `skip`; returns their number. */
static int words(const struct vp_meta *m, int skip, char name[VP_AXES_MAX][VP_AXIS_NAME])
{
    const char *p = vp_meta_get(m, "axes");
    char word[VP_AXIS_NAME];
    int n = 0, len;
    for (int i = 0; p && n < VP_AXES_MAX && sscanf(p, " %31s%n", word, &len) == 1; i++, p += len)
        if (i >= skip)
            strcpy(name[n++], word);
    return n;
}

static bool sizes(const struct vp_stack *s, struct vp_axes *a)
{
    double v[VP_AXES_MAX + 2];
    int skip = 2;
    if (!vp_meta_numbers(&s->meta, "sizes", a->n + skip, v)) {
        skip = 0;
        if (!vp_meta_numbers(&s->meta, "sizes", a->n, v))
            return false;
    }
    int64_t product = 1;
    for (int i = 0; i < a->n; i++) {
        const double one = v[skip + i];
        if (!(one >= 1 && one <= 1e15 && one == floor(one)) ||
            __builtin_mul_overflow(product, (int64_t)one, &product))
            return false;
        a->size[i] = (int64_t)one;
    }
    return s->pages < 0 || product == s->pages;
}

void vp_axes_get(const struct vp_stack *s, struct vp_axes *a)
{
    *a = (struct vp_axes){0};
    a->n = words(&s->meta, 2, a->name);
    if (a->n == 1 && s->pages >= 0) {
        a->size[0] = s->pages;
        a->sized = true;
        return;
    }
    a->sized = a->n > 0 && sizes(s, a);
    for (int i = 0; !a->sized && i < a->n; i++)
        a->size[i] = -1;
}

int vp_axes_set(struct vp_meta *m, const struct vp_axes *a)
{
    char first[2][VP_AXIS_NAME] = {"x", "y"}, both[VP_AXES_MAX][VP_AXIS_NAME];
    char text[(VP_AXES_MAX + 2) * VP_AXIS_NAME], *p = text;
    if (words(m, 0, both) >= 2)
        memcpy(first, both, sizeof first);
    p += sprintf(p, "%s %s", first[0], first[1]);
    for (int i = 0; i < a->n; i++)
        p += sprintf(p, " %s", a->name[i]);
    if (vp_meta_set(m, "axes", text))
        return -1;
    if (a->n < 2 || !a->sized)
        return vp_meta_set(m, "sizes", NULL);
    p = text;
    for (int i = 0; i < a->n; i++)
        p += sprintf(p, "%s%lld", i ? " " : "", (long long)a->size[i]);
    return vp_meta_set(m, "sizes", text);
}

int vp_axes_lose(struct vp_meta *m)
{
    return vp_axes_set(m, &(struct vp_axes){.n = 1, .name = {VP_AXIS_PAGE}});
}

int vp_axes_z(const struct vp_axes *a)
{
    for (int i = a->n - 1; i >= 0; i--)
        if (strlen(a->name[i]) == 1 && strchr("xyz", a->name[i][0]))
            return i;
    return -1;
}

int vp_axes_settle(struct vp_stack *s)
{
    struct vp_axes a;
    double said;
    vp_axes_get(s, &a);
    if (a.n != 1 || s->pages < 0 || !vp_meta_numbers(&s->meta, "sizes", 1, &said))
        return 0;
    return said != (double)s->pages ? vp_axes_lose(&s->meta) : vp_meta_set(&s->meta, "sizes", NULL);
}

static int64_t product(const struct vp_axes *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->n; i++) /* vp_axes_get has seen that it fits */
        n *= a->size[i];
    return n;
}

int vp_axes_find(const struct vp_axes *a, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (!strcmp(a->name[i], name))
            return i;
    return -1;
}

int64_t vp_axes_stride(const struct vp_axes *a, int i)
{
    int64_t stride = 1;
    while (i-- > 0)
        stride *= a->size[i];
    return stride;
}

void vp_axes_drop(struct vp_axes *a, int i)
{
    a->n--;
    memmove(a->name + i, a->name + i + 1, (size_t)(a->n - i) * sizeof *a->name);
    memmove(a->size + i, a->size + i + 1, (size_t)(a->n - i) * sizeof *a->size);
}

int vp_axes_channels(struct vp_meta *m, int64_t channels, int64_t images)
{
    struct vp_axes a, all = {.n = 1, .sized = true, .name = {"channel"}, .size = {channels}};
    vp_axes_get(&(struct vp_stack){.pages = -1, .meta = *m}, &a);
    /* A description may have counted the samples of a pixel among the channels. */
    if (a.sized && product(&a) == channels * images)
        for (int i = a.n - 1; i >= 0; i--)
            if (!strcmp(a.name[i], "channel") && a.size[i] == channels)
                vp_axes_drop(&a, i);
    if (images == 1)
        a.n = 0;
    else if (!a.n) /* as of a stack of which nothing is said */
        a = (struct vp_axes){.n = 1, .name = {"z"}};
    else if (a.sized ? product(&a) != images : a.n > 1)
        a = (struct vp_axes){.n = 1, .name = {VP_AXIS_PAGE}};
    if (a.n == 1)
        a.size[0] = images;
    for (int i = 0; i < a.n && all.n < VP_AXES_MAX; i++, all.n++) {
        if (!strcmp(a.name[i], "channel"))
            strcpy(all.name[0], "sample");
        strcpy(all.name[all.n], a.name[i]);
        all.size[all.n] = a.size[i];
    }
    return vp_axes_set(m, &all);
}
