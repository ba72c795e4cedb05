/* SPDX-License-Identifier: BSD-3-Clause */
/* Colour maps: straight lines between a few colours, and hues a golden section apart for labels. */
#include "pages/colours.h"

#include <math.h>
#include <string.h>

/* Colours at equal distances. */
static const struct { int n; uint8_t rgb[7][3]; } maps[] = {
    [VP_COLOURS_GRAY] = {2, {{0, 0, 0}, {255, 255, 255}}},
    [VP_COLOURS_VIRIDIS] = {5, {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}},
    [VP_COLOURS_HEAT] = {4, {{0, 0, 0}, {200, 0, 0}, {255, 180, 0}, {255, 255, 255}}},
    [VP_COLOURS_BLUE_RED] = {5, {{5, 48, 97}, {100, 160, 210}, {247, 247, 247}, {220, 110, 90}, {103, 0, 31}}},
};

/* Fills the 256 colours of a map. */
static void make_table(enum vp_colours map, bool invert, uint8_t table[256][3])
{
    for (int i = 0; i < 256; i++) {
        const int lines = maps[map].n - 1, v = (invert ? 255 - i : i) * lines;
        const int k = v / 255 < lines ? v / 255 : lines - 1, part = v - 255 * k;
        for (int c = 0; c < 3; c++)
            table[i][c] = (uint8_t)((maps[map].rgb[k][c] * (255 - part) + maps[map].rgb[k + 1][c] * part + 127) / 255);
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
