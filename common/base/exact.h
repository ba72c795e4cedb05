/* Sums of numbers in f64 that are never rounded: integers in units of 2^-1088, in digits of 32 bits with room for
 * what is carried. Any order of additions gives the same. */
#pragma once

#include <stdint.h>

enum { VP_EXACT_DIGITS = 70, VP_EXACT_ONE = 34 /* the digit of 1 */ };

struct vp_exact { int64_t digit[VP_EXACT_DIGITS]; };

/* Adds a finite number. After 2^30 of them digits must be carried. */
void vp_exact_add(struct vp_exact *s, double x);
/* Carries, so that all digits but the last are below 2^32 and not negative. */
void vp_exact_carry(struct vp_exact *s);
/* Adds (`sign` 1) or take away (-1) digits that have been carried; several threads may do so at a time. */
void vp_exact_join(struct vp_exact *s, const struct vp_exact *other, int sign);
/* Returns the nearest number in f64. */
double vp_exact_value(const struct vp_exact *s);
/* Returns the sum divided by n times `by` in f64, n above 0, `by` finite and not 0: rounded once. */
double vp_exact_quotient(const struct vp_exact *s, uint64_t n, double by);
/* Takes n times x away, which is finite. */
void vp_exact_less(struct vp_exact *s, uint64_t n, double x);
/* Returns a sum of integers, of less than 128 bits. */
__int128 vp_exact_integer(const struct vp_exact *s);
/* Returns the standard deviation (divided by the count) of n numbers with this sum and this sum of squares. */
double vp_exact_deviation(const struct vp_exact *sum, const struct vp_exact *squares, uint64_t n);
