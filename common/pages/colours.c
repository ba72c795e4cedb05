/* SPDX-License-Identifier: BSD-3-Clause */
/* Colour maps: straight lines between a few colours, and hues a golden section apart for labels. */
#include "pages/colours.h"

#include <math.h>
#include <string.h>

/* Colours at equal distances, red in the highest byte. Those of viridis, magma, inferno and plasma are entries 0, 15, ...
 * 255 of the tables of Smith and van der Walt (2015, CC0); lines between them stay within 5 of 255. */
static const struct { int n; uint32_t colour[18]; } maps[] = {
    [VP_COLOURS_GRAY] = {2, {0x000000, 0xffffff}},
    [VP_COLOURS_VIRIDIS] = {18, {0x440154, 0x481769, 0x472a7a, 0x433d84, 0x3d4e8a, 0x355e8d, 0x2e6d8e, 0x297b8e, 0x23898e,
                                 0x1f978b, 0x21a585, 0x2eb37c, 0x46c06f, 0x65cb5e, 0x89d548, 0xb0dd2f, 0xd8e219, 0xfde725}},
    [VP_COLOURS_MAGMA] = {18, {0x000004, 0x090720, 0x1a1042, 0x311165, 0x4a1079, 0x621980, 0x792282, 0x912b81, 0xaa337d,
                               0xc23b75, 0xd9466b, 0xec5860, 0xf7725c, 0xfc8e64, 0xfeaa74, 0xfec68a, 0xfde2a3, 0xfcfdbf}},
    [VP_COLOURS_INFERNO] = {18, {0x000004, 0x0a0722, 0x1e0c45, 0x380962, 0x510e6c, 0x69166e, 0x801f6c, 0x982766, 0xb0315b,
                                 0xc63d4d, 0xd94d3d, 0xe9612b, 0xf47918, 0xfa9407, 0xfcb014, 0xf8cd37, 0xf2ea69, 0xfcffa4}},
    [VP_COLOURS_PLASMA] = {18, {0x0d0887, 0x2f0596, 0x4903a0, 0x6100a7, 0x7801a8, 0x8e0ca4, 0xa21d9a, 0xb42e8d, 0xc43e7f,
                                0xd24f71, 0xde6164, 0xe97257, 0xf3854b, 0xf99a3e, 0xfdaf31, 0xfdc627, 0xf8df25, 0xf0f921}},
    [VP_COLOURS_HOT] = {9, {0x000000, 0x550000, 0xaa0000, 0xff0000, 0xff5500, 0xffaa00, 0xffff00, 0xffff80, 0xffffff}},
    [VP_COLOURS_BLUE_RED] = {5, {0x053061, 0x64a0d2, 0xf7f7f7, 0xdc6e5a, 0x67001f}},
};

/* Fills the 256 colours of a map. */
static void make_table(enum vp_colours map, bool invert, uint8_t table[256][3])
{
    for (int i = 0; i < 256; i++) {
        const int lines = maps[map].n - 1, v = (invert ? 255 - i : i) * lines;
        const int k = v / 255 < lines ? v / 255 : lines - 1, part = v - 255 * k;
        const uint32_t from = maps[map].colour[k], to = maps[map].colour[k + 1];
        for (int c = 0; c < 3; c++) {
            const int a = (int)(from >> (16 - 8 * c) & 255), b = (int)(to >> (16 - 8 * c) & 255);
            table[i][c] = (uint8_t)((a * (255 - part) + b * part + 127) / 255);
        }
    }
}

/* Colours a label: neighbours in number have hues far apart; three levels of brightness. */
static void label(double v, uint8_t rgb[3])
{
    const double n = rint(v);
    memset(rgb, 0, 3);
    if (!(fabs(n) >= 1))
        return;
    const double turn = fmod(fabs(n) * 0.61803398874989485, 1) * 6, light = 255 - 45 * fmod(fabs(n), 3);
    for (int c = 0; c < 3; c++) {
        const double from = fabs(fmod(turn + 6 - 2 * c, 6) - 3); /* 3: this hue, below 1: the opposite ones */
        const double share = fmin(1, fmax(0, from - 1));
        rgb[c] = (uint8_t)(light * (0.2 + 0.8 * share) + 0.5);
    }
}

void vp_picture_colour(const struct vp_picture *p, enum vp_colours map, double lo, double hi, bool invert, uint8_t *dst)
{
    const double gain = 255 / (hi - lo);
    uint8_t table[256][3];

    if (map != VP_COLOURS_LABELS)
        make_table(map, invert, table);
    for (int64_t i = 0; i < p->w * p->h; i++, dst += 3) {
        if (isnan(p->v[i])) {
            memset(dst, 0, 3);
        } else if (map == VP_COLOURS_LABELS) {
            label(p->v[i], dst);
        } else {
            const double g = floor((p->v[i] - lo) * gain + 0.5);
            memcpy(dst, table[g >= 255 ? 255 : g > 0 ? (int)g : 0], 3);
        }
    }
}
