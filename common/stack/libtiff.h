/* Everything that needs libtiff: pages with a decoder, and compressed output (internal to stack/). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "stack/writer.h"

struct vp_libtiff_writer;

/* Returns the number of a compression; -1 if this libtiff lacks it. */
int vp_libtiff_compression(enum vp_compress compress, const char *name, struct vp_err *err);

/* Opens a writer. fd: an empty file open for reading and writing, not closed here. text: tag 270 of the first page;
 * palette: tag 320 of u8, or NULL. Name, stack, text and palette are looked at until it is closed. */
int vp_libtiff_writer_open(struct vp_libtiff_writer **w, int fd, const char *name, const struct vp_stack *stack,
                           const char *text, const uint16_t *palette, enum vp_compress compress, bool big,
                           struct vp_err *err);
/* Returns roughly the bytes that it takes. */
size_t vp_libtiff_writer_holds(const struct vp_stack *stack, enum vp_compress compress);
/* Before the first page: writes tiles, and each page in smaller sizes, too (stack/pyramid.h). */
int vp_libtiff_writer_pyramid(struct vp_libtiff_writer *w, struct vp_err *err);
int vp_libtiff_writer_page(struct vp_libtiff_writer *w, const void *page, struct vp_err *err);
/* Frees w; err may be NULL. */
int vp_libtiff_writer_close(struct vp_libtiff_writer *w, struct vp_err *err);

struct vp_libtiff_reader;

struct vp_form;
/* Opens a source of images like one of the form `like`. bytes: counts what is read, or NULL. Name and
 * stack must stay until it is closed. */
int vp_libtiff_reader_open(struct vp_libtiff_reader **r, int fd, const char *name, const struct vp_stack *stack,
                           const struct vp_form *like, _Atomic uint64_t *bytes, struct vp_err *err);
/* Reads rows [y0, y1) of a page into buf. It is in the image whose directory is at `ifd`, which the caller has checked;
 * sparse: see struct vp_ifd. */
int vp_libtiff_reader_rows(struct vp_libtiff_reader *r, uint64_t ifd, bool sparse, int64_t page, int64_t y0, int64_t y1,
                           void *buf, struct vp_err *err);
void vp_libtiff_reader_close(struct vp_libtiff_reader *r);

struct vp_ifd;
/* Returns the memory that reading such an image takes, beside that of its rows: of whole pages, or of some rows at a
 * time. */
uint64_t vp_libtiff_need(const struct vp_ifd *d, bool whole);
