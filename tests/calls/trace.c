/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts who calls whom in a program that is compiled with -finstrument-functions; writes the table of (caller, callee,
 * calls) as addresses to the file CALLS_OUT when it ends. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAIN __attribute__((no_instrument_function))
#define SLOTS (1u << 16)
#define DEPTH 4096

static __thread uintptr_t stack[DEPTH];
static __thread int depth;
static atomic_uintptr_t caller_of[SLOTS], callee_of[SLOTS];
static atomic_long calls[SLOTS];
static atomic_flag busy = ATOMIC_FLAG_INIT;

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

/* Returns the slot of a pair, taken if there is none yet. */
static PLAIN unsigned slot_of(uintptr_t a, uintptr_t b)
{
    unsigned i = (unsigned)((a * 0x9E3779B97F4A7C15u ^ b * 0xC2B2AE3D27D4EB4Fu) >> 48);

    while (callee_of[i] && (caller_of[i] != a || callee_of[i] != b))
        i = (i + 1) % SLOTS;
    return i;
}

PLAIN void __cyg_profile_func_enter(void *function, void *site)
{
    const uintptr_t b = (uintptr_t)function, a = depth > 0 && depth <= DEPTH ? stack[depth - 1] : 0;
    unsigned i = slot_of(a, b);

    (void)site;
    if (!callee_of[i]) {
        while (atomic_flag_test_and_set(&busy))
            ;
        i = slot_of(a, b);
        caller_of[i] = a;
        callee_of[i] = b;
        atomic_flag_clear(&busy);
    }
    calls[i]++;
    if (depth < DEPTH)
        stack[depth] = b;
    depth++;
}

PLAIN void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function, (void)site;
    depth--;
}

static PLAIN __attribute__((destructor)) void write_table(void)
{
    const char *const path = getenv("CALLS_OUT");
    FILE *const out = path ? fopen(path, "w") : NULL;

    if (!out)
        return;
    for (unsigned i = 0; i < SLOTS; i++)
        if (callee_of[i])
            fprintf(out, "%lx %lx %ld\n", (unsigned long)caller_of[i], (unsigned long)callee_of[i], calls[i]);
    fclose(out);
}
