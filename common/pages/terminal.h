/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures in a terminal. */
#pragma once

#include "pages/canvas.h"

#include <stdio.h>

/* Ways to show a picture: kitty's graphics protocol, sixels (DEC VT340), and half blocks, characters with a foreground
 * and a background of 24-bit colour that are two pixels each. */
enum vp_terminal { VP_TERMINAL_AUTO, VP_TERMINAL_KITTY, VP_TERMINAL_SIXEL, VP_TERMINAL_BLOCKS };
#define VP_TERMINAL_CHOICES "auto|kitty|sixel|blocks"

/* Returns the best way that the environment names (TERM, TERM_PROGRAM and others); nothing is sent to the terminal. */
enum vp_terminal vp_terminal_find(void);
/* Fills the width and height in pixels of a picture that fits: of the terminal at `fd`, or of one of 80 x 24 characters
 * of 8 x 16 pixels. Two lines are left for the prompt. */
void vp_terminal_size(enum vp_terminal way, int fd, int64_t size[2]);
/* Prints a canvas, and ends the line. VP_ERESOURCE: memory. Gray or colour; `way` is not AUTO. Sixels have 256
 * colours at most: of pictures with more, each pixel becomes one of 252 by ordered dithering. */
int vp_terminal_print(enum vp_terminal way, const struct vp_canvas *c, FILE *out, struct vp_err *err);
