/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/terminal.h"

#include "base/err.h"
#include "base/size.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <zlib.h>

/* ---- the terminal ---- */

static bool begins(const char *variable, const char *word)
{
    const char *const value = getenv(variable);

    return value && !strncasecmp(value, word, strlen(word));
}

enum vp_terminal vp_terminal_find(void)
{
    static const char *const sixels[] = {"foot", "mlterm", "contour", "yaft", "xterm-sixel"};

    if (getenv("TMUX") || begins("TERM", "tmux") || begins("TERM", "screen")) /* they pass on neither */
        return VP_TERMINAL_BLOCKS;
    if (begins("TERM", "xterm-kitty") || begins("TERM", "xterm-ghostty") || getenv("KITTY_WINDOW_ID")
        || begins("TERM_PROGRAM", "ghostty") || begins("TERM_PROGRAM", "WezTerm") || getenv("KONSOLE_VERSION"))
        return VP_TERMINAL_KITTY;
    for (size_t i = 0; i < sizeof sixels / sizeof *sixels; i++)
        if (begins("TERM", sixels[i]))
            return VP_TERMINAL_SIXEL;
    return begins("TERM_PROGRAM", "iTerm") || begins("TERM_PROGRAM", "mintty") || getenv("WT_SESSION")
               ? VP_TERMINAL_SIXEL : VP_TERMINAL_BLOCKS;
}

void vp_terminal_size(enum vp_terminal way, int fd, int64_t size[2])
{
    struct winsize w = {0};

    if (ioctl(fd, TIOCGWINSZ, &w) || !w.ws_col || !w.ws_row)
        w = (struct winsize){.ws_col = 80, .ws_row = 24};
    const bool known = w.ws_xpixel && w.ws_ypixel;
    const int64_t rows = vp_max64(1, w.ws_row - 2);
    const bool blocks = way == VP_TERMINAL_BLOCKS;
    size[0] = blocks ? w.ws_col : known ? w.ws_xpixel : 8 * w.ws_col;
    size[1] = blocks ? 2 * rows : known ? rows * w.ws_ypixel / w.ws_row : 16 * rows;
}

/* Returns a pixel as 0xrrggbb. */
static uint32_t pixel_at(const struct vp_canvas *c, int64_t x, int64_t y)
{
    const uint8_t *const at = c->v + (y * c->w + x) * c->samples;

    return c->samples == 3 ? (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2] : at[0] * 0x010101u;
}

/* ---- half blocks ---- */

static void put_colour(FILE *out, int ground, uint32_t colour)
{
    fprintf(out, "\033[%d;2;%u;%u;%um", ground, colour >> 16, colour >> 8 & 255, colour & 255);
}

/* Prints two rows of pixels in each line: the upper half of a block is the foreground. */
static void print_blocks(const struct vp_canvas *c, FILE *out)
{
    for (int64_t y = 0; y < c->h; y += 2) {
        uint32_t above = UINT32_MAX, below = UINT32_MAX;
        for (int64_t x = 0; x < c->w; x++) {
            const uint32_t up = pixel_at(c, x, y), down = y + 1 < c->h ? pixel_at(c, x, y + 1) : UINT32_MAX;
            if (up != above)
                put_colour(out, 38, up);
            if (down != below)
                put_colour(out, 48, down);
            above = up;
            below = down;
            fputs("\xe2\x96\x80", out);
        }
        fputs("\033[0m\n", out);
    }
}

/* ---- kitty ---- */

/* Prints an image as deflated samples in base64, in escapes of at most 4096 characters (kitty: Terminal graphics
 * protocol). q=2: the terminal sends no answer. */
static int print_kitty(const struct vp_canvas *c, FILE *out, struct vp_err *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { PIECE = 4096 / 4 * 3 };
    const size_t n = (size_t)(c->w * c->h) * 3;
    uint8_t *const rgb = vp_alloc_raw(n, 1, "picture", err);
    uLongf size = compressBound(n);
    uint8_t *const packed = rgb ? vp_alloc_raw(size + 2, 1, "picture", err) : NULL;
    int rc = packed ? 0 : -1;

    for (int64_t i = 0; rgb && i < c->w * c->h; i++)
        for (int k = 0; k < 3; k++)
            rgb[3 * i + k] = c->v[i * c->samples + (c->samples == 3 ? k : 0)];
    if (!rc && compress2(packed, &size, rgb, n, Z_DEFAULT_COMPRESSION) != Z_OK)
        rc = vp_fail(err, VP_ERESOURCE, "zlib: out of memory");
    for (size_t at = 0; !rc && at < size; at += PIECE) {
        const size_t end = at + PIECE < size ? at + PIECE : size;
        fputs("\033_G", out);
        if (!at)
            fprintf(out, "a=T,q=2,f=24,o=z,s=%lld,v=%lld,", (long long)c->w, (long long)c->h);
        fprintf(out, "m=%d;", end < size);
        for (size_t i = at; i < end; i += 3) {
            const size_t left = end - i;
            const unsigned v = (unsigned)packed[i] << 16 | (left > 1 ? packed[i + 1] : 0u) << 8
                               | (left > 2 ? packed[i + 2] : 0u);
            const char four[] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                                 left > 2 ? digits[v & 63] : '='};
            fwrite(four, 1, 4, out);
        }
        fputs("\033\\", out);
    }
    fputc('\n', out);
    free(rgb);
    free(packed);
    return rc;
}

/* ---- sixels ---- */

enum { REGISTERS = 256, LEVELS = 101, ROWS = 6 };

/* The colours of an image in percent, (red * 101 + green) * 101 + blue. */
struct sixel_palette {
    int n;
    int colour[REGISTERS];
    uint8_t *number; /* register of a colour; malloc'd */
    uint8_t *used;
};

static int percent_of(uint32_t sample)
{
    return (int)((sample * 100 + 127) / 255);
}

static int place(int r, int g, int b)
{
    return (r * LEVELS + g) * LEVELS + b;
}

/* Adds a colour; false: there are too many. */
static bool add_colour(struct sixel_palette *p, int colour)
{
    if (p->used[colour])
        return true;
    if (p->n == REGISTERS)
        return false;
    p->number[colour] = (uint8_t)p->n;
    p->colour[p->n++] = colour;
    p->used[colour] = 1;
    return true;
}

/* Returns one of `levels` values from 0 to 100 in place of a sample, above or below it by the threshold of its place. */
static int dithered(uint32_t sample, int levels, int64_t x, int64_t y)
{
    static const uint8_t bayer[4][4] = {{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}};
    const int steps = levels - 1, level = ((int)sample * steps * 16 + 255 * bayer[y & 3][x & 3] + 127) / (255 * 16);

    return (level < steps ? level : steps) * 100 / steps;
}

static int colour_at(const struct vp_canvas *c, bool dither, int64_t x, int64_t y)
{
    const uint32_t v = pixel_at(c, x, y), r = v >> 16, g = v >> 8 & 255, b = v & 255;

    return dither ? place(dithered(r, 6, x, y), dithered(g, 7, x, y), dithered(b, 6, x, y))
                  : place(percent_of(r), percent_of(g), percent_of(b));
}

static void put_run(FILE *out, int64_t n, int sixel)
{
    if (n > 3)
        fprintf(out, "!%lld%c", (long long)n, sixel);
    else
        for (; n > 0; n--)
            fputc(sixel, out);
}

/* Prints six rows, whose registers are in `band`, colour by colour. */
static void print_band(const uint8_t *band, int64_t w, int rows, FILE *out)
{
    bool used[REGISTERS] = {false}, first = true;

    for (int64_t i = 0; i < w * rows; i++)
        used[band[i]] = true;
    for (int k = 0; k < REGISTERS; k++) {
        int64_t run = 0;
        int last = 0;
        if (!used[k])
            continue;
        fprintf(out, "%s#%d", first ? "" : "$", k);
        first = false;
        for (int64_t x = 0; x < w; x++) {
            int bits = 0;
            for (int r = 0; r < rows; r++)
                bits |= (band[r * w + x] == k) << r;
            if (bits != last) {
                put_run(out, run, '?' + last);
                run = 0;
            }
            last = bits;
            run++;
        }
        if (last) /* empty ones at the end are left out */
            put_run(out, run, '?' + last);
    }
}

static int print_sixels(const struct vp_canvas *c, FILE *out, struct vp_err *err)
{
    struct sixel_palette p = {.number = vp_alloc(LEVELS * LEVELS * LEVELS, 1, "colours", err)};
    uint8_t *const band = vp_alloc_raw((size_t)c->w, ROWS, "picture", err);
    bool dither = false;
    int rc = -1;

    p.used = vp_alloc(LEVELS * LEVELS * LEVELS, 1, "colours", err);
    if (!p.number || !p.used || !band)
        goto out;
    for (int64_t i = 0; i < c->w * c->h && !dither; i++)
        dither = !add_colour(&p, colour_at(c, false, i % c->w, i / c->w));
    if (dither) {
        memset(p.used, 0, LEVELS * LEVELS * LEVELS);
        p.n = 0;
        for (int64_t i = 0; i < c->w * c->h; i++)
            add_colour(&p, colour_at(c, true, i % c->w, i / c->w));
    }
    /* pixels are square; those that are not painted stay as they are */
    fprintf(out, "\033P0;1;0q\"1;1;%lld;%lld", (long long)c->w, (long long)c->h);
    for (int i = 0; i < p.n; i++)
        fprintf(out, "#%d;2;%d;%d;%d", i, p.colour[i] / LEVELS / LEVELS, p.colour[i] / LEVELS % LEVELS,
                p.colour[i] % LEVELS);
    for (int64_t y = 0; y < c->h; y += ROWS) {
        const int rows = (int)vp_min64(ROWS, c->h - y);
        for (int64_t i = 0; i < c->w * rows; i++)
            band[i] = p.number[colour_at(c, dither, i % c->w, y + i / c->w)];
        if (y)
            fputc('-', out);
        print_band(band, c->w, rows, out);
    }
    fputs("\033\\\n", out);
    rc = 0;
out:
    free(p.number);
    free(p.used);
    free(band);
    return rc;
}

int vp_terminal_print(enum vp_terminal way, const struct vp_canvas *c, FILE *out, struct vp_err *err)
{
    if (way == VP_TERMINAL_KITTY)
        return print_kitty(c, out, err);
    if (way == VP_TERMINAL_SIXEL)
        return print_sixels(c, out, err);
    print_blocks(c, out);
    return 0;
}
