/* SPDX-License-Identifier: BSD-3-Clause */
/* Combines the inputs: their size, axes and type. */
#include "app/image_internal.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/reader.h"
#include "app/tool.h"

#include <stdio.h>
#include <string.h>

int vp_images_spread(struct vp_images *im, const struct vp_run *run, struct vp_err *err)
{
    int64_t nx = 1, ny = 1;
    for (int k = 0; k < im->n; k++) {
        nx = vp_max64(nx, vp_reader_stack(im->reader[k])->nx);
        ny = vp_max64(ny, vp_reader_stack(im->reader[k])->ny);
    }
    for (int k = 0; k < im->n; k++) {
        struct vp_reader *r = im->reader[k];
        const struct vp_stack *s = vp_reader_stack(r);
        uint64_t held = 0;
        if ((s->nx == nx && s->ny == ny) || (s->nx != nx && s->nx != 1) || (s->ny != ny && s->ny != 1))
            continue;
        if (!vp_reader_seekable(r) && vp_reader_keep(r, run->common.memory / 4, &held, err))
            return -1;
        im->held += held;
        vp_reader_spread(r, nx, ny);
    }
    return 0;
}

/* Chooses the stack whose axes and metadata are used: prefers many pages to one, full size to a stack to be repeated, a
 * known number of pages to a pipe. */
static int first_of(const struct vp_images *im)
{
    int first = 0, best = -1;
    for (int k = 0; k < im->n; k++) {
        const struct vp_stack *s = vp_reader_stack(im->reader[k]);
        const int rank = 4 * (s->pages != 1) + 2 * !vp_reader_is_spread(im->reader[k]) + (s->pages > 0);
        if (rank > best)
            first = k;
        best = rank > best ? rank : best;
    }
    return first;
}

/* Finds stacks of one page, used with every page of the others; checks that the others agree. */
static int compare(struct vp_images *im, struct vp_err *err)
{
    const struct vp_stack *a = vp_reader_stack(im->reader[0]);
    int known = -1;
    bool many = false;
    im->first = first_of(im);
    for (int k = 0; k < im->n; k++) {
        const struct vp_stack *b = vp_reader_stack(im->reader[k]);
        if (a->nx != b->nx || a->ny != b->ny)
            return vp_fail(err, VP_ERUN, "%s has pages of %lldx%lld, %s of %lldx%lld: expected the same size",
                           vp_reader_name(im->reader[0]), (long long)a->nx, (long long)a->ny,
                           vp_reader_name(im->reader[k]), (long long)b->nx, (long long)b->ny);
        many = many || b->pages != 1;
        if (b->pages < 2)
            continue;
        known = known < 0 ? k : known;
        const struct vp_stack *c = vp_reader_stack(im->reader[known]);
        if (b->pages != c->pages)
            return vp_fail(err, VP_ERUN, "%s has %lld pages, %s %lld: expected equal numbers, or one page",
                           vp_reader_name(im->reader[known]), (long long)c->pages, vp_reader_name(im->reader[k]),
                           (long long)b->pages);
    }
    for (int k = 0; k < im->n; k++)
        im->single[k] = many && vp_reader_stack(im->reader[k])->pages == 1;
    return 0;
}

/* Sets sizes, voxel and axes from that stack: images side by side, planes of an image, successive images. */
static int read_axes(struct vp_images *im, struct vp_err *err)
{
    const struct vp_reader *reader = im->reader[im->first];
    const struct vp_stack *stack = vp_reader_stack(reader);
    struct vp_axes axes;

    vp_axes_get(stack, &axes);
    const int z = vp_axes_z(&axes);
    im->inner = im->nz = im->outer = 1;
    /* pages without a named axis are slices; a single one is an image */
    im->flat = im->params.flat || (axes.n ? z < 0 : stack->pages == 1);
    if (im->flat) {
        im->outer = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.n < 2) {
        im->nz = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.sized) {
        for (int i = 0; i < axes.n; i++)
            *(i < z ? &im->inner : i == z ? &im->nz : &im->outer) *= axes.size[i];
    } else {
        const char *sizes = vp_meta_get(&stack->meta, "sizes");
        vp_fail(err, VP_ERUN, "%s: the axes are %s, of unknown sizes: sizes %s, %lld pages",
                vp_reader_name(reader), vp_meta_get(&stack->meta, "axes"), sizes ? sizes : "are missing",
                (long long)stack->pages);
        return vp_hint(err, "%simg-convert --set sizes=... gives them",
                       im->params.voxels ? "" : "with --2d every page is an image of its own; ");
    }
    if (im->flat && !im->params.flat && !im->params.voxels && stack->pages != 1 && axes.n == 1 &&
        !strcmp(axes.name[0], VP_AXIS_PAGE))
        return vp_fail_hint(err, VP_ERUN, "with --2d every page is an image of its own; "
                            "img-convert --set axes=x,y,z makes them a volume",
                            "%s: the meaning of its pages is unknown: the axes are %s",
                            vp_reader_name(reader), vp_meta_get(&stack->meta, "axes"));
    im->size[0] = stack->nx;
    im->size[1] = stack->ny;
    im->size[2] = im->flat ? 1 : im->nz;
    const char *unit = vp_meta_get(&stack->meta, "unit");
    im->voxel[0] = im->voxel[1] = im->voxel[2] = 1;
    double v[3];
    if ((vp_meta_numbers(&stack->meta, "voxel", 3, v) && v[2] > 0) ||
        (im->flat && vp_meta_numbers(&stack->meta, "voxel", 2, v))) {
        im->has_voxel = v[0] > 0 && v[1] > 0 && !(unit && !strcmp(unit, "pixel"));
        for (int a = 0; im->has_voxel && a < (im->flat ? 2 : 3); a++)
            im->voxel[a] = v[a];
    }
    return 0;
}

int vp_images_stacks(struct vp_images *im, struct vp_err *err)
{
    return compare(im, err) || read_axes(im, err) ? -1 : 0;
}

/* ---- the type ---- */

/* True if type a can represent every value of type b. */
static bool holds(enum vp_type a, enum vp_type b)
{
    if (vp_type_is_float(a))
        return vp_type_is_float(b) ? vp_type_size(a) >= vp_type_size(b)
                                   : vp_type_max(b) <= (a == VP_F32 ? 0x1p24 : 0x1p53);
    return !vp_type_is_float(b) && vp_type_min(a) <= vp_type_min(b) && vp_type_max(a) >= vp_type_max(b);
}

/* Finds the smallest type that holds the values of both; false if there is none, with f64 as the closest. */
static bool common_type(enum vp_type a, enum vp_type b, enum vp_type *out)
{
    int best = -1;
    for (int t = 0; t < VP_N_TYPES; t++)
        if (holds((enum vp_type)t, a) && holds((enum vp_type)t, b)
            && (best < 0 || vp_type_size((enum vp_type)t) < vp_type_size((enum vp_type)best)))
            best = t;
    *out = best < 0 ? VP_F64 : (enum vp_type)best;
    return best >= 0;
}

/* Writes "u8, u16 or f32". */
static void list_types(unsigned types, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < VP_N_TYPES && n < size; t++) {
        if (!(types & 1u << t))
            continue;
        types &= ~(1u << t);
        n += (size_t)snprintf(text + n, size - n, "%s%s", n == 0 ? "" : types ? ", " : " or ",
                              vp_type_name((enum vp_type)t));
    }
}

enum vp_type vp_images_as_f64(struct vp_images *im, bool all)
{
    const enum vp_type same = im->type;

    if (all || VP_TYPES_WIDE & 1u << same)
        im->type = VP_F64;
    return same;
}

int vp_images_type(struct vp_images *im, const struct vp_run *run, unsigned types, struct vp_err *err)
{
    im->all_i8 = true;
    for (int k = 0; k < im->n; k++) {
        const enum vp_type t = vp_reader_stack(im->reader[k])->type;
        im->all_i8 = im->all_i8 && t == VP_I8;
        if (k == 0) {
            im->type = t;
        } else if (!common_type(im->type, t, &im->type) && !im->params.any_types) {
            return vp_fail_hint(err, VP_ERUN,
                                "with --type both are taken as f64, or convert one of them: img-convert --type f64",
                                "%s has %s samples and %s %s: no type holds both", vp_reader_name(im->reader[0]),
                                vp_type_name(vp_reader_stack(im->reader[0])->type), vp_reader_name(im->reader[k]),
                                vp_type_name(t));
        }
    }
    if (types & 1u << im->type)
        return 0;
    if (im->type == VP_I8 && types & 1u << VP_I16) {
        im->type = VP_I16;
        return 0;
    }
    im->all_i8 = false;
    char list[80];
    list_types(types | (types & 1u << VP_I16 ? 1u << VP_I8 : 0), list, sizeof list);
    vp_fail(err, VP_ERUN, "%s: expected samples of %s, got %s", vp_reader_name(im->reader[0]), list,
            vp_type_name(im->type));
    const bool wide = types & 1u << VP_F64 && vp_type_of_values(im->type) == VP_F64;
    return vp_hint(err, "convert first: img-convert --type %s | %s",
                   types & 1u << VP_F32 && !wide ? "f32" : types & 1u << VP_F64 ? "f64" : "u16", run->tool->name);
}
