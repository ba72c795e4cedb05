/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of stars (img-psf --positions), and a sky for it: accepted cut-outs lie within the image, and make a valid
 * kernel. */
#include "fuzz.h"
#include "local/psf.h"

#include <math.h>
#include <unistd.h>

enum { NX = 60, NY = 50, NZ = 30, MEMORY = 1 << 22, MANY = 40 };

/* Draws spots of many sizes on a background. */
static void draw(float *page, int64_t z)
{
    for (int64_t i = 0; i < NX * NY; i++) {
        const double x = (double)(i % NX % 20 - 10), y = (double)(i / NX % 25 - 12), d = (double)(z % 15 - 7);
        page[i] = (float)(50 + 1000 * exp(-(x * x + y * y + d * d) / (double)(2 + i / NX % 7)));
    }
}

static void check_stars(struct vp_stars *s, bool volume, bool given, bool negative)
{
    const int64_t size[3] = {7, 5, volume ? 3 : 1}, image[3] = {NX, NY, volume ? NZ : 1};
    static float page[NX * NY];
    float kernel[7 * 5 * 3];
    struct vp_err err = VP_ERR_INIT;
    double sum = 0;

    if (vp_stars_open(s, size, image, MEMORY, &err)) {
        fuzz_refused(&err);
        return;
    }
    for (int64_t z = 0; z < image[2]; z++) {
        draw(page, z);
        vp_stars_page(s, page, NX, z);
    }
    if (vp_stars_average(s, given, negative, kernel, &err)) {
        fuzz_refused(&err);
        return;
    }
    MUST(s->used > 0 && s->used <= s->n);
    fuzz_accepted();
    for (int64_t i = 0; i < size[0] * size[1] * size[2]; i++) {
        MUST(isfinite(kernel[i]) && (negative || kernel[i] >= 0));
        sum += (double)kernel[i];
    }
    MUST(fabs(sum - 1) < 1e-3);
    for (int64_t i = 0; i < s->n; i++)
        for (int a = 0; a < 3 && !s->star[i].out; a++)
            MUST(s->star[i].at[a] >= 0 && s->star[i].at[a] < (double)image[a]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vp_stars s = {0};
    struct vp_err err = VP_ERR_INIT;
    char path[32];
    const int fd = fuzz_input(data, n, false, path);

    if (vp_stars_read(&s, path, &err)) {
        fuzz_refused(&err);
    } else {
        MUST(s.n > 0);
        for (int64_t i = 0; i < s.n; i++)
            for (int a = 0; a < 3; a++)
                MUST(isfinite(s.star[i].at[a]));
        if (s.n <= MANY)
            check_stars(&s, n % 2, n % 4 > 1, n % 8 > 3);
    }
    vp_stars_free(&s);
    close(fd);
    return 0;
}
