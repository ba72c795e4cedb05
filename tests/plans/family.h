/* SPDX-License-Identifier: BSD-3-Clause */
/* Families of tests/unit/plans_test.c: the random parameters of one program, and the chain that it makes of them. A
 * file of this folder defines one with FAMILY() and is linked into plans_test; nothing else lists it. */
#pragma once

#include "app/footprint.h"
#include "app/image.h"
#include "base/err.h"
#include "local/footprint.h"

#include <string.h>

/* Images of a run: pages in files. */
struct scene {
    int64_t n[3], inner, outer; /* voxels of an image; channels inside z, images outside */
    int64_t result[3];          /* voxels of its result, as planned */
    int64_t slices, channels;   /* img-math: page p is slice p / channels % slices */
    bool flat, single, odd;     /* pages are images; the second stack is one page; some samples are NaN */
    int stacks;
    enum vp_type stored[2], held, made, stored_out;
    char path[2][64];
    void *data[2];              /* in page order, of type `held` */
    void *want[2];              /* result of one chunk: on the CPU; on a real device */
    int64_t lost[2];            /* samples of it that did not fit */
};

/* Parameters as text; the values are the family's own, in its file: there is one set at a time. */
struct params {
    const struct family *family;
    char text[240];
    enum vp_type out; /* VP_N_TYPES: the program's default */
};

/* One image of the scene, whose size[2] may be VP_UNKNOWN, and the result's type. */
struct request {
    const struct scene *scene;
    struct vp_images im;
    enum vp_type out;
    int64_t *lost; /* set by img-math: counter of samples that do not fit; NULL: there is none */
};

struct family {
    const char *program;  /* "img-gauss" */
    void (*adapt)(struct scene *s); /* changes types and sizes of a random image before it is filled; may be NULL */
    void (*draw)(struct params *p, const struct scene *s);
    /* Appends the program's operations to the empty chain. */
    int (*chain)(struct vp_chain *c, struct request *r, struct vp_err *err);
    bool pages;           /* i8 stays i8; no option --2d */
    bool alone;           /* parts share nothing, so plans do not stream */
    bool keeps;           /* streams on the CPU, too */
    bool unbanded;        /* plans need not have bands */
};

/* Enters the file's family. */
#define FAMILY(...) \
    static const struct family family = {__VA_ARGS__}; \
    __attribute__((constructor)) static void enter(void) { family_enter(&family); }
void family_enter(const struct family *f);

/* Appends to p->text. */
void say(struct params *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Random numbers and texts. */
int64_t draw_int(int64_t lo, int64_t hi); /* both included */
double draw_tenth(double lo, double hi);
int64_t draw_number(const int64_t *list, int64_t n);
const char *draw_text(const char *const *list, int64_t n);
#define ONE_OF(...) \
    draw_number((const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define ONE_TEXT(...) \
    draw_text((const char *const[]){__VA_ARGS__}, (int64_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* Random options, appended to p->text: one length or one for each axis, in voxels; ... */
struct vp_reals draw_lengths(struct params *p, const struct scene *s, const char *option, double lo, double hi);
enum vp_edge draw_edge(struct params *p);
/* A neighbourhood: a box, a ball or any set of offsets. */
struct window { struct vp_footprint_params params; int64_t n[3], center[3]; uint8_t sample[6 * 5 * 4]; };
struct window draw_window(struct params *p, const struct scene *s);
int make_window(struct vp_footprint *f, const struct window *w, const struct vp_images *im, struct vp_err *err);
int64_t draw_iterations(struct params *p, int64_t most);
enum vp_type draw_type(struct params *p);

/* Returns the step of one grey value of u8 in samples of this scene. */
double grey(const struct scene *s);
