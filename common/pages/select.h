/* Parts of a stack: pages picked by number and a region of each, with the metadata and the scan geometry of
 * what is left; and second stacks (a mask, the other side of a comparison) read beside the first. */
#pragma once

#include "base/opt.h"
#include "engine/pages.h"

struct vp_select_params {
    const char *pages;    /* --pages "0,5,10:20,::2,-1": slices as in Python */
    const char *region;   /* --region "x0:x1,y0:y1": half open, either side of a colon may be missing */
    bool reverse;         /* not in the table: turn the order of the pages round */
    char *picked;         /* not in the table: counts instead of `pages` after vp_select_pick; to be free()d */
};
extern const struct vp_opt vp_select_options[];   /* --pages, --region */

/* `count` pages first, first + step, ...; the stack's pages from `at` on. count < 0: to an end not known
 * yet. */
struct vp_page_range { int64_t first, step, count, at; };

struct vp_select {
    int64_t nx, ny, in_pages;    /* size of the input; in_pages -1: unknown */
    int64_t x0, x1, y0, y1;
    int64_t pages;               /* selected; -1: unknown */
    int n_spans;
    struct vp_page_range *span;        /* malloc'd */
};

/* Picks the images of the pages that --pages names: a vp_pick, whose context are the parameters. `picked` is then that
 * list with the numbers that the pages have in the stack. */
int vp_select_pick(void *params, const char *name, const int64_t *first, int64_t images, bool *keep,
                   struct vp_err *err);

/* Checks the parameters against the input. VP_EUSAGE if they do not fit it, or want pages out of
 * order of what is not seekable. If the number of pages is unknown but
 * `in` has a geometry with a view a page, it is taken from there. */
int vp_select_make(struct vp_select *s, const struct vp_select_params *p, const struct vp_stack *in,
                   const char *name, bool seekable, struct vp_err *err);
void vp_select_free(struct vp_select *s);
bool vp_select_is_all(const struct vp_select *s);

/* Fills the header of what is selected: size, pages, origin, voxel, axes, sizes and geom.*. `note` (of n bytes) is
 * "" or says what could not be kept ("the scan geometry is left out: ..."). `out` is to be freed. */
int vp_select_stack(const struct vp_select *s, const struct vp_stack *in, struct vp_stack *out, char *note,
                    size_t n, struct vp_err *err);

/* Returns the input page of selected page i. */
int64_t vp_select_page(const struct vp_select *s, int64_t i);

/* Does vp_pages_run() over the selection only: p->work gets selected, cropped pages, counted from 0 in the order of the
 * selection; p->work NULL copies them to the output. How they are read is set here. All of the input is checked: on a
 * pipe what follows the last selected page is read as well. Pages out of order need a seekable input. */
int vp_select_run(const struct vp_select *s, struct vp_pages *p, struct vp_err *err);

/* A stack read beside another one, page by page in increasing order (any order if seekable). */
struct vp_beside {
    struct vp_reader *reader;   /* not owned */
    bool repeat;
    bool single;                /* its only page goes with every page */
    void *rows;                 /* rows of the region */
    int64_t at;                 /* the page that they are of; -1: none */
};
/* Opens it. repeat: a stack of one page goes with every page of the other. Its pages must be of the size and number
 * of `in`. */
int vp_beside_open(struct vp_beside *b, struct vp_reader *reader, const struct vp_stack *in, bool repeat,
                   struct vp_err *err);
/* Returns the bytes of memory that it takes at most. */
uint64_t vp_beside_bytes(const struct vp_beside *b, const struct vp_select *s);
/* Reads rows y0 to y0 + n of the region of page s->page(i), in the stack's own type, valid until the next call: of all
 * pages in increasing order, where they are not whole; the first call reads the most. */
int vp_beside_rows(struct vp_beside *b, const struct vp_select *s, int64_t i, int64_t y0, int64_t n, const void **rows,
                   struct vp_err *err);
/* Finishes after the last page: reads a pipe to its end; an error if the stack's pages are not `pages` (-1: any). */
int vp_beside_finish(struct vp_beside *b, int64_t pages, struct vp_err *err);
void vp_beside_close(struct vp_beside *b);   /* not the reader */

/* Moves the samples whose mask is not zero (nor NaN) to the front; returns how many there are. */
int64_t vp_keep_masked(void *samples, enum vp_type type, const void *mask, enum vp_type mask_type, int64_t n);
