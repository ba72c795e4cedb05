/* Tags and attributes of an XML text, read in passing: no tree, no entities, no check that tags match. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A tag within the text. */
struct vp_xml_tag {
    const char *name;            /* local: "Pixels" of <ome:Pixels ...> and of </ome:Pixels> */
    size_t length;               /* characters of the name */
    bool end, empty;             /* </...>, <.../> */
    const char *attributes;      /* after the name */
    const char *stop;            /* its '>'; NULL: it does not end */
};

/* Finds the next tag from *at on, passing over comments, declarations and instructions, and moves *at after it (after
 * its name if it does not end); false at the end of the text. */
bool vp_xml_next(const char **at, struct vp_xml_tag *tag);
/* True if the tag has this local name. */
bool vp_xml_is(const struct vp_xml_tag *tag, const char *name);
/* Copies the value of an attribute, as it is written and cut to `size`; false if there is none. The tag must end. */
bool vp_xml_attribute(const struct vp_xml_tag *tag, const char *name, char *value, size_t size);
