/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target on each given file, on each file of given folders, and, if the first argument is a number, on that
 * number of mutants of each, always the same; prints the number of inputs, and of those accepted. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

static int64_t count, mutants;
static uint64_t state = 88172645463325252u;

static size_t below(size_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (size_t)(state >> 11) % n : 0;
}

/* Passes bytes in an allocation of their own, so that sanitizers detect reads past the end. */
static void hand(const uint8_t *data, size_t n)
{
    uint8_t *own = malloc(n ? n : 1);
    MUST(own);
    if (n)
        memcpy(own, data, n);
    LLVMFuzzerTestOneInput(own, n);
    free(own);
}

/* Changes a byte, deletes, repeats or moves some, once or a few times. */
static size_t mutate(uint8_t *to, const uint8_t *from, size_t n)
{
    memcpy(to, from, n);
    for (size_t times = 1 + below(4); times && n; times--) {
        const size_t at = below(n), length = 1 + below(n - at < 16 ? n - at : 16), other = below(n - length + 1);
        switch (below(5)) {
        case 0: to[at] ^= (uint8_t)(1 << below(8)); break;
        case 1: to[at] = (uint8_t)below(256); break;
        case 2: memmove(to + at, to + at + length, n - at - length); n -= length; break;
        case 3: memmove(to + at + length, to + at, n - at); n += length; break;
        default: memmove(to + at, to + other, length);
        }
    }
    return n;
}

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
    uint8_t *data = malloc((size_t)st.st_size + 1);
    MUST(in && data);
    const size_t n = fread(data, 1, (size_t)st.st_size, in);
    fclose(in);
    fprintf(stderr, "%s\n", path); /* the last path printed is the failing one */
    hand(data, n);
    for (int64_t i = 0; i < mutants; i++) {
        uint8_t *const mutant = malloc(n + 64); /* grows by 16 four times at most */
        MUST(mutant);
        hand(mutant, mutate(mutant, data, n));
        free(mutant);
    }
    free(data);
    count++;
}

int main(int argc, char **argv)
{
    char *end;
    mutants = argc > 1 ? strtoll(argv[1], &end, 10) : 0;
    for (int i = argc > 1 && !*end ? 2 : 1; i < argc; i++)
        one(argv[i]);
    printf("%lld inputs, %lld taken\n", (long long)count, (long long)fuzz_taken());
    return count == 0 || fuzz_taken() == 0;
}
