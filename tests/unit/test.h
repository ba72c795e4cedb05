/* A unit test is a program: checks that print expected and actual values, and a count at the end. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The address and the thread sanitizer replace the heap. */
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED
#endif
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define TEST_SANITIZED
#endif

static _Atomic int test_checks, test_failures; /* atomic since operations check in their threads */

#define CHECK(cond) do { test_checks++; if (!(cond)) { test_failures++; \
    printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); } } while (0)
#define CHECK_INT(got, want) do { long long g_ = (long long)(got), w_ = (long long)(want); test_checks++; \
    if (g_ != w_) { test_failures++; \
    printf("%s:%d: %s: expected %lld, got %lld\n", __FILE__, __LINE__, #got, w_, g_); } } while (0)
#define CHECK_STR(got, want) do { const char *g_ = (got), *w_ = (want); test_checks++; \
    if (!g_ || strcmp(g_, w_)) { test_failures++; \
    printf("%s:%d: %s: expected \"%s\", got \"%s\"\n", __FILE__, __LINE__, #got, w_, g_ ? g_ : "(null)"); } } while (0)
/* Checks |got - want| <= tol; NaN fails. */
#define CHECK_NEAR(got, want, tol) do { double g_ = (got), w_ = (want), t_ = (tol); test_checks++; \
    if (!(fabs(g_ - w_) <= t_)) { test_failures++; \
    printf("%s:%d: %s: expected %.17g +- %g, got %.17g\n", __FILE__, __LINE__, #got, w_, t_, g_); } } while (0)

static inline int test_done(void)
{
    printf("%d checks, %d failed\n", test_checks, test_failures);
    return test_failures || !test_checks;
}
