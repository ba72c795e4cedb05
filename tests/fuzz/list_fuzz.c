/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of files (@list): every line is a name, in order. */
#include "fuzz.h"
#include "stack/paths.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vp_paths p = {0};
    struct vp_err err = VP_ERR_INIT;
    char path[32], list[33];
    const char *const paths[] = {list};
    const int fd = fuzz_input(data, n, false, path);

    snprintf(list, sizeof list, "@%s", path);
    if (vp_paths_expand(&p, paths, 1, NULL, &err)) {
        fuzz_refused(&err);
    } else {
        MUST(p.n > 0);
        for (int64_t i = 0; i < p.n; i++)
            MUST(p.path[i] && !strchr(p.path[i], '\n'));
        vp_paths_free(&p);
        fuzz_accepted();
    }
    close(fd);
    return 0;
}
