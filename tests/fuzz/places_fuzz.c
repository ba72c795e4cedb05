/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of positions (img-convolve --positions): an accepted one is a grid, with one kernel at each of its nodes. */
#include "fuzz.h"
#include "app/kernels.h"

#include <math.h>
#include <unistd.h>

enum { MOST = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[32];
    const int fd = fuzz_input(data, n, false, path);

    for (int64_t kernels = 1; kernels <= MOST; kernels++) {
        double x[MOST], y[MOST], *const at[2] = {x, y};
        int64_t count[2], node[MOST];
        bool taken[MOST] = {false};
        struct vp_err err = VP_ERR_INIT;
        enum vp_among between = VP_BETWEEN_GRID;
        if (vp_kernel_places(at, count, node, &between, path, kernels, &err)) {
            fuzz_refused(&err);
            continue;
        }
        MUST(count[0] > 0 && count[1] > 0 && count[0] * count[1] == kernels);
        for (int a = 0; a < 2; a++)
            for (int64_t i = 0; i < count[a]; i++)
                MUST(isfinite(at[a][i]) && (between || !i || at[a][i - 1] < at[a][i]));
        for (int64_t i = 0; i < kernels; i++) {
            MUST(node[i] >= 0 && node[i] < kernels && !taken[node[i]]);
            taken[node[i]] = true;
        }
        fuzz_accepted();
    }
    close(fd);
    return 0;
}
