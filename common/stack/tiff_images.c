/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/tiff_images.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include <string.h>

int vp_tiff_sniff(struct vp_input *in, struct vp_err *err)
{
    unsigned char head[VP_HEAD];
    const int64_t n = vp_source_starts(in, head, 8, err);
    if (n < 2)
        return n < 0 ? -1 : 1;
    if (memcmp(head, "II", 2) && memcmp(head, "MM", 2))
        return 0;
    const int version = head[0] == 'I' ? head[2] | head[3] << 8 : head[3] | head[2] << 8;
    return n < 8 || version == VERSION_CLASSIC || version == VERSION_BIG;
}

int vp_tiff_begin(struct vp_source *s, struct vp_tiff_images *t, bool colours, uint64_t *first, struct vp_err *err)
{
    *t = (struct vp_tiff_images){.tiff = {.in = &s->in, .page = -1, .colours = colours}, .images = 1};
    t->tiff.allowed = s->in.anywhere ? 16 * s->in.size + (1 << 20) : 0;
    return vp_tiff_header(&t->tiff, first, err);
}

int vp_tiff_settle(struct vp_source *s, struct vp_err *err)
{
    return vp_axes_settle(&s->stack) ? vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name) : 0;
}

uint64_t vp_ifd_bytes_before(const struct vp_ifd *d, uint64_t end)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < d->n_strips; i++)
        n += vp_bytes_before(d->offset[i], d->count[i], end);
    return n;
}

int vp_tiff_check_announced(const struct vp_source *s, const struct vp_tiff_images *t, int64_t images,
                            struct vp_err *err)
{
    if (images >= t->announced)
        return 0;
    const char *const by = t->announcer == TAG_UIC2 ? "tag of MetaMorph"
                           : t->announcer == TAG_NIH_IMAGE ? "tag of NIH Image" : "description";
    vp_fail(err, VP_ERUN, "%s: expected %lld images, as its %s says, its directories hold %lld", s->name,
            (long long)t->announced, by, (long long)images);
    return vp_hint(err, "if those are all, take the tag out of the file: tiffset -u %u FILE", t->announcer);
}

int vp_tiff_check(struct vp_source *s, struct vp_tiff_images *t, struct vp_ifd *d, struct vp_err *err)
{
    t->unlike = t->tiff.page == t->tiff.first ? vp_ifd_stack(&t->tiff, d, &s->stack, err)
                                              : vp_ifd_check_page(&t->tiff, d, &s->stack, s->channels, err);
    return t->unlike ? -1 : 0;
}

int vp_tiff_place(struct vp_source *s, struct vp_tiff_images *t, const struct vp_ifd *d, struct vp_tiff_image *p,
                  struct vp_err *err)
{
    if (vp_ifd_check_strips(&t->tiff, d, err))
        return -1;
    const uint64_t there = s->in.anywhere ? vp_ifd_bytes_before(d, s->in.size) : 0;
    if (s->in.anywhere && there < vp_page_bytes(&s->stack))
        return vp_source_cut(s, t->tiff.page, there, err);
    uint64_t at = s->in.position;
    p->apart = 0;
    for (int64_t i = 0; i < d->n_strips; i++) {
        if (!s->in.anywhere && d->offset[i] < at)
            return vp_tiff_disorder(&t->tiff, false, err);
        p->apart = p->apart || (i > 0 && d->offset[i] != at);
        at = d->offset[i] + d->count[i];
    }
    p->data = d->offset[0];
    p->invert = d->form.invert;
    return 0;
}

void vp_tiff_first(struct vp_source *s, struct vp_tiff_images *t, const struct vp_ifd *d,
                   const struct vp_tiff_image *p)
{
    t->form = d->form;
    s->channels = d->form.channels;
    s->lost = d->lost;
    s->need = d->text_cost + t->tiff.need;
    t->announced = d->images;
    t->announcer = d->announcer;
    /* one directory, N pages after each other: ImageJ's way around 4 GiB, and MetaMorph's way */
    if (!d->next && d->images > 1 && vp_ifd_plain(d) && !p->apart)
        t->images = d->images;
}

int vp_tiff_read_strips(struct vp_source *s, int64_t page, const uint64_t *offset, int64_t per, int64_t y0, int64_t y1,
                        char *buf, struct vp_err *err)
{
    const size_t row = (size_t)s->stack.nx * vp_type_size(s->stack.type);
    for (int64_t y = y0; y < y1;) {
        const int64_t in_strip = y % per, m = vp_min64(per - in_strip, y1 - y);
        const size_t n = (size_t)m * row;
        const int rc = vp_source_read(s, page, offset[y / per] + (uint64_t)in_strip * row, buf, n, err);
        if (rc)
            return rc;
        buf += n;
        y += m;
    }
    return 0;
}

void vp_tiff_finish_rows(const struct vp_source *s, const struct vp_tiff_images *t, const struct vp_tiff_image *p,
                         void *buf, int64_t rows)
{
    const size_t n = (size_t)rows * (size_t)s->stack.nx;
    if (t->tiff.swap)
        vp_source_swap(buf, vp_type_size(s->stack.type), n);
    if (p->invert)
        vp_form_invert(buf, s->stack.type, n);
}
