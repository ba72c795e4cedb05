/* Shared by the files that define select.h. */
#pragma once

#include "geom/geom.h"
#include "pages/select.h"

/* Order of the pages of a stack in its scan geometry; MISFIT: they are not its pages. */
enum vp_page_layout { VP_NO_GEOMETRY, VP_VIEWS, VP_SINOGRAMS, VP_MISFIT };

/* Reads the geometry of a stack: a vp_page_layout (g is to be freed for views and sinograms), -1 if it is malformed. */
int vp_select_layout(const struct vp_stack *in, struct vp_geom *g, const char *name, struct vp_err *err);

bool vp_select_all_columns(const struct vp_select *s);
bool vp_select_all_pages(const struct vp_select *s);
