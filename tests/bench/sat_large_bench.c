/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of more than 2^31 samples through the program, pipe to pipe in 512 MiB, every entry against what it must
 * be: the image is f(y) g(x) + h(y) k(x) of random f, g, h, k, so with capitals for their sums its table is F G + H
 * K. Nothing is stored but rows. Also modulo 2^32. img-sat is looked up in PATH. usage: sat_large_bench [SIZE
 * [OPTION...]] (50000; options for img-sat) */
#include "base/size.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 11, ALL = 4 }; /* 2 * 11 * 11 is a byte */

/* The four of n numbers each, and their sums. */
struct pattern { uint8_t *of[ALL]; uint64_t *sum[ALL]; };

static struct pattern make_pattern(int64_t n)
{
    struct pattern p;
    uint64_t random = 88172645463325252u;
    for (int k = 0; k < ALL; k++) {
        p.of[k] = malloc((size_t)n);
        p.sum[k] = malloc((size_t)n * sizeof *p.sum[k]);
        if (!p.of[k] || !p.sum[k])
            exit(3);
        for (int64_t i = 0; i < n; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            p.of[k][i] = (uint8_t)(random % (MOST + 1));
            p.sum[k][i] = (i ? p.sum[k][i - 1] : 0) + p.of[k][i];
        }
    }
    return p;
}

static int write_image(const struct pattern *p, int64_t n)
{
    uint8_t *row = malloc((size_t)n);
    if (!row)
        return 3;
    for (int64_t y = 0; y < n; y++) {
        const uint8_t f = p->of[0][y], h = p->of[2][y], *g = p->of[1], *k = p->of[3];
        for (int64_t x = 0; x < n; x++)
            row[x] = (uint8_t)(f * g[x] + h * k[x]);
        if (fwrite(row, 1, (size_t)n, stdout) != (size_t)n)
            return 1;
    }
    free(row);
    return fflush(stdout) ? 1 : 0;
}

/* Entries of row y that are not what they must be. */
static int64_t wrong(const struct pattern *p, int64_t n, int64_t y, const void *row, bool wide)
{
    const uint64_t f = p->sum[0][y], h = p->sum[2][y], *g = p->sum[1], *k = p->sum[3];
    int64_t bad = 0;
    if (wide)
        for (int64_t x = 0; x < n; x++)
            bad += ((const uint64_t *)row)[x] != f * g[x] + h * k[x];
    else
        for (int64_t x = 0; x < n; x++)
            bad += ((const uint32_t *)row)[x] != (uint32_t)f * (uint32_t)g[x] + (uint32_t)h * (uint32_t)k[x];
    return bad;
}

static int check(const char *self, const struct pattern *p, int64_t n, bool wide, char **options)
{
    char command[4096];
    const size_t size = wide ? 8 : 4;
    int used = snprintf(command, sizeof command,
                        "'%s' make %" PRId64 " | img-sat -q -m 512M --raw-in %" PRId64 "x%" PRId64 "x1:u8 --type %s --raw-out",
                        self, n, n, n, wide ? "u64" : "u32");
    for (; *options && used < (int)sizeof command; options++)
        used += snprintf(command + used, sizeof command - (size_t)used, " '%s'", *options);
    void *row = malloc((size_t)n * size);
    FILE *table = used < (int)sizeof command ? popen(command, "r") : NULL;
    const double start = vp_now();
    int64_t rows = 0, bad = 0;
    if (!row || !table) {
        fprintf(stderr, "sat_large_bench: error: cannot run %s\n", command);
        return 3;
    }
    for (; rows < n && fread(row, size, (size_t)n, table) == (size_t)n; rows++)
        bad += wrong(p, n, rows, row, wide);
    const bool over = fgetc(table) == EOF;
    const int status = pclose(table);
    printf("%s table of %" PRId64 " x %" PRId64 " u8: %" PRId64 " of %" PRId64 " entries differ, the last is %.4g; %.2f s\n",
           wide ? "u64" : "u32", n, n, bad, rows * n,
           (double)p->sum[0][n - 1] * (double)p->sum[1][n - 1] + (double)p->sum[2][n - 1] * (double)p->sum[3][n - 1],
           vp_now() - start);
    free(row);
    if (rows < n || !over || status)
        printf("rows %" PRId64 " of %" PRId64 "%s, status %d\n", rows, n, over ? "" : ", and more", status);
    return bad || rows < n || !over || status ? 1 : 0;
}

int main(int argc, char **argv)
{
    static char *none[] = {NULL};
    const bool makes = argc > 2 && !strcmp(argv[1], "make");
    const int64_t n = makes ? atoll(argv[2]) : argc > 1 ? atoll(argv[1]) : 50000;
    if (n < 1) {
        fprintf(stderr, "usage: sat_large_bench [SIZE [OPTION...]]\n");
        return 2;
    }
    const struct pattern p = make_pattern(n);
    if (makes)
        return write_image(&p, n);
    char **const options = argc > 2 ? argv + 2 : none;
    const int wide = check(argv[0], &p, n, true, options), narrow = check(argv[0], &p, n, false, options);
    return wide ? wide : narrow;
}
