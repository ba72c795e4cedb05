/* SPDX-License-Identifier: BSD-3-Clause */
/* Composes the directories of a TIFF. TIFF 6.0 (1992), BigTIFF (2007). */
#include "stack/directory.h"
#include "stack/tiff.h"
#include <math.h>
#include <string.h>

enum { MAX_ENTRIES = 17 };
static const char SOFTWARE[] = "voxpipe";

/* An entry of a directory: one value, or `data` of any length. */
struct page_entry {
    uint16_t tag, type;
    uint64_t count; /* 0: it is left out */
    uint64_t value;
    const void *data;
    size_t size;
};

static void put(unsigned char **p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*p)++ = (unsigned char)(v >> 8 * i);
}

/* Pixels per centimetre as a fraction: of a size in few decimals the very one, for others make a size of it again. */
static void resolution(double voxel_mm, uint32_t fraction[2])
{
    const double r = 10 / voxel_mm;
    double den = 1;
    for (double num = 10; num <= 1e9; num *= 10) {
        den = rint(voxel_mm * (num / 10));
        if (den >= 1 && den < 4e9 && den / (num / 10) == voxel_mm) {
            fraction[0] = (uint32_t)num;
            fraction[1] = (uint32_t)den;
            return;
        }
    }
    den = 1;
    while (den < 1e6 && r * den * 10 < 4e9 && r * den != floor(r * den))
        den *= 10;
    fraction[0] = (uint32_t)lrint(r * den);
    fraction[1] = (uint32_t)den;
}

size_t vp_directory_compose(const struct vp_directory *d, int64_t page, uint64_t offset, unsigned char *head)
{
    const struct vp_stack *s = d->stack;
    const uint16_t place_type = d->big ? FIELD_LONG8 : FIELD_LONG;
    const size_t word = d->big ? 8 : 4, entry_size = d->big ? 20 : 12, count_size = d->big ? 8 : 2;
    const uint64_t total = s->pages > 0 && s->pages <= UINT16_MAX ? (uint64_t)s->pages : 0;
    uint32_t res[2][2];
    double v[2];
    const bool sized = vp_voxel_mm(&s->meta, v);
    for (int i = 0; i < 2 && sized; i++)
        resolution(v[i], res[i]);

    struct page_entry all[] = {
        {TAG_IMAGE_WIDTH, FIELD_LONG, 1, .value = (uint64_t)s->nx},
        {TAG_IMAGE_LENGTH, FIELD_LONG, 1, .value = (uint64_t)s->ny},
        {TAG_BITS_PER_SAMPLE, FIELD_SHORT, 1, .value = 8 * vp_type_size(s->type)},
        {TAG_COMPRESSION, FIELD_SHORT, 1, .value = 1},
        {TAG_PHOTOMETRIC, FIELD_SHORT, 1, .value = d->coloured ? PHOTO_PALETTE : PHOTO_BLACK_IS_ZERO},
        {TAG_IMAGE_DESCRIPTION, FIELD_ASCII, page ? 0 : d->text_len, .data = d->text, .size = d->text_len},
        {TAG_STRIP_OFFSETS, place_type, 1, .value = 0},
        {TAG_SAMPLES_PER_PIXEL, FIELD_SHORT, 1, .value = 1},
        {TAG_ROWS_PER_STRIP, FIELD_LONG, 1, .value = (uint64_t)s->ny},
        {TAG_STRIP_BYTE_COUNTS, place_type, 1, .value = d->page_bytes},
        {TAG_X_RESOLUTION, FIELD_RATIONAL, sized, .data = res[0], .size = sizeof *res},
        {TAG_Y_RESOLUTION, FIELD_RATIONAL, sized, .data = res[1], .size = sizeof *res},
        {TAG_RESOLUTION_UNIT, FIELD_SHORT, sized, .value = RESOLUTION_CM},
        {TAG_PAGE_NUMBER, FIELD_SHORT, page <= UINT16_MAX ? 2 : 0, .value = (uint64_t)page | total << 16},
        {TAG_SOFTWARE, FIELD_ASCII, sizeof SOFTWARE, .data = SOFTWARE, .size = sizeof SOFTWARE},
        {TAG_COLOR_MAP, FIELD_SHORT, d->coloured ? 3 * VP_PALETTE : 0, .data = d->palette, .size = sizeof d->palette},
        {TAG_SAMPLE_FORMAT, FIELD_SHORT, 1, .value = vp_sample_format(s->type)},
    };
    struct page_entry *const stop = all + sizeof all / sizeof *all;
    _Static_assert(sizeof all / sizeof *all <= MAX_ENTRIES, "vp_directory_limit");
    uint64_t n = 0;
    for (struct page_entry *e = all; e < stop; e++)
        n += e->count > 0;

    /* the layout */
    uint64_t end = (offset + count_size + n * entry_size + word + 7) / 8 * 8;
    for (struct page_entry *e = all; e < stop; e++)
        if (e->count && e->size > word) {
            e->value = end;
            end = (end + e->size + 7) / 8 * 8;
        } else if (e->count && e->size) {
            memcpy(&e->value, e->data, e->size);
        }
    const uint64_t data = vp_tiff_align(end);

    const size_t length = (size_t)(data - offset);
    if (!head)
        return length;
    memset(head, 0, length);
    unsigned char *p = head;
    put(&p, n, (int)count_size);
    for (struct page_entry *e = all; e < stop; e++) {
        if (!e->count)
            continue;
        put(&p, e->tag, 2);
        put(&p, e->type, 2);
        put(&p, e->count, (int)word);
        put(&p, e->tag == TAG_STRIP_OFFSETS ? data : e->value, (int)word);
        if (e->size > word)
            memcpy(head + (e->value - offset), e->data, e->size);
    }
    const bool last = page == s->pages - 1 || d->ending;
    put(&p, last ? 0 : vp_tiff_align(data + d->page_bytes), (int)word);
    return length;
}

size_t vp_directory_limit(const struct vp_directory *d)
{
    return 8 + MAX_ENTRIES * 20 + 8 + d->text_len + 8 + 2 * 8 + 16 + 2 * VP_TIFF_ALIGN + (d->coloured ? sizeof d->palette : 0);
}

void vp_directory_header(bool big, unsigned char header[VP_TIFF_HEADER])
{
    unsigned char *p = header;
    memset(header, 0, VP_TIFF_HEADER);
    memcpy(p, "II", 2);
    p += 2;
    if (big) {
        put(&p, VERSION_BIG, 2);
        put(&p, 8, 2);
        put(&p, 0, 2);
        put(&p, 16, 8);
    } else {
        put(&p, VERSION_CLASSIC, 2);
        put(&p, 16, 4);
        put(&p, 0, 8); /* the first directory aligned like all others */
    }
}
