/* Shared by the files that define select.h. */
#pragma once

#include "geom/geom.h"
#include "pages/select.h"

/* Order of the pages of a stack in its scan geometry; MISFIT: they are not its pages. */
enum vp_page_layout { VP_NO_GEOMETRY, VP_VIEWS, VP_SINOGRAMS, VP_MISFIT };

/* Reads the geometry of a stack: a vp_page_layout (g is to be freed for views and sinograms), -1 if it is malformed. */
int vp_select_layout(const struct vp_stack *in, struct vp_geom *g, const char *name, struct vp_err *err);

/* Makes columns (axis 0) or rows (1) of the detector those at first, first + step, ...: pixel i is at position first +
 * step i of the old ones, between which it may lie. */
void vp_select_columns(struct vp_geom *g, int axis, double first, double step, int64_t count);

bool vp_select_all_columns(const struct vp_select *s);
bool vp_select_all_pages(const struct vp_select *s);
