/* SPDX-License-Identifier: BSD-3-Clause */
/* The header and the directories of a TIFF that is written, as bytes (internal to stack/). */
#pragma once

#include "stack/foreign.h"

/* Directories and samples begin at multiples of VP_TIFF_ALIGN, the first directory at VP_TIFF_HEADER. */
enum { VP_TIFF_HEADER = 16, VP_TIFF_ALIGN = 16 };

static inline uint64_t vp_tiff_align(uint64_t n)
{
    return (n + VP_TIFF_ALIGN - 1) / VP_TIFF_ALIGN * VP_TIFF_ALIGN;
}

struct vp_directory {
    const struct vp_stack *stack;
    size_t page_bytes;                /* bytes of the samples of a page */
    bool big;                         /* BigTIFF */
    char *text;                       /* tag 270 of the first page */
    size_t text_len;                  /* with its NUL */
    bool coloured;                    /* tag 320 is there: */
    uint16_t palette[3 * VP_PALETTE];
    bool ending;                      /* the page is the last of an unknown number */
};

/* Composes the directory of a page that lies at `offset` into `head`, unless that is NULL. Returns its length, padding
 * included. All pages from 1 to 65,535 have the same length, and all from there on. */
size_t vp_directory_compose(const struct vp_directory *d, int64_t page, uint64_t offset, unsigned char *head);
/* Returns the most that a directory with its values and padding can take. */
size_t vp_directory_limit(const struct vp_directory *d);
/* Composes the header of the file. */
void vp_directory_header(bool big, unsigned char header[VP_TIFF_HEADER]);
