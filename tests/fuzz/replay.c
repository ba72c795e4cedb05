/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target on every file given, and on every file of the folders given; prints how many there were. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static int64_t count;

static void one(const char *path)
{
    struct stat st;

    MUST(!stat(path, &st));
    if (S_ISDIR(st.st_mode)) {
        struct dirent **list;
        const int n = scandir(path, &list, NULL, alphasort);
        MUST(n >= 0);
        for (int i = 0; i < n; i++) {
            char name[4096];
            snprintf(name, sizeof name, "%s/%s", path, list[i]->d_name);
            if (list[i]->d_name[0] != '.')
                one(name);
            free(list[i]);
        }
        free(list);
        return;
    }
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc((size_t)st.st_size + 1); /* of its own, so that sanitizers see what is read past it */
    MUST(in && data);
    const size_t n = fread(data, 1, (size_t)st.st_size, in);
    fclose(in);
    fprintf(stderr, "%s\n", path); /* the last one is where it failed */
    data = realloc(data, n ? n : 1);
    MUST(data);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    count++;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        one(argv[i]);
    printf("%lld inputs\n", (long long)count);
    return count == 0;
}
