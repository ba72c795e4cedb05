/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/exact.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { DIGIT = 32, BIAS = 1075 }; /* a number in f64 is m 2^(e - BIAS) */
#define MASK UINT32_MAX

void vp_exact_add(struct vp_exact *s, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int e = (int)(bits >> 52 & 0x7ff), at = (e ? e : 1) - BIAS + DIGIT * VP_EXACT_ONE;
    const uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(e > 0) << 52;
    const unsigned __int128 wide = (unsigned __int128)m << at % DIGIT;
    int64_t *digit = &s->digit[at / DIGIT];
    const int64_t sign = bits >> 63 ? -1 : 1;
    digit[0] += sign * (int64_t)(wide & MASK);
    digit[1] += sign * (int64_t)(wide >> DIGIT & MASK);
    digit[2] += sign * (int64_t)(wide >> 2 * DIGIT);
}

void vp_exact_carry(struct vp_exact *s)
{
    int64_t carry = 0;
    for (int i = 0; i < VP_EXACT_DIGITS - 1; i++) {
        const int64_t v = s->digit[i] + carry;
        s->digit[i] = v & MASK;
        carry = v >> DIGIT;
    }
    s->digit[VP_EXACT_DIGITS - 1] += carry;
}

void vp_exact_join(struct vp_exact *s, const struct vp_exact *other, int sign)
{
    for (int i = 0; i < VP_EXACT_DIGITS; i++)
        if (other->digit[i])
            __atomic_fetch_add(&s->digit[i], sign * other->digit[i], __ATOMIC_RELAXED);
}

/* Fills the digits of |s|; true if s is negative. */
static bool magnitude(const struct vp_exact *s, struct vp_exact *to)
{
    *to = *s;
    vp_exact_carry(to);
    const bool negative = to->digit[VP_EXACT_DIGITS - 1] < 0;
    for (int i = 0; negative && i < VP_EXACT_DIGITS; i++)
        to->digit[i] = -to->digit[i];
    vp_exact_carry(to);
    return negative;
}

/* Returns the number of n digits in units of 2^unit: rounded once, to *m 2^(what is returned), m being 0 or at least
 * 2^64. */
static int leading(const int64_t *digit, int n, int unit, double *m)
{
    int i = n - 1;
    while (i > 2 && !digit[i])
        i--;
    unsigned __int128 top = (unsigned __int128)(uint64_t)digit[i] << 2 * DIGIT | (uint64_t)digit[i - 1] << DIGIT
                            | (uint64_t)digit[i - 2];
    for (int k = 0; k < i - 2; k++)
        top |= digit[k] != 0; /* so that halves are not taken for ties */
    *m = (double)top;
    return unit + DIGIT * (i - 2);
}

double vp_exact_value(const struct vp_exact *s)
{
    struct vp_exact of;
    double m;
    const bool negative = magnitude(s, &of);
    const int e = leading(of.digit, VP_EXACT_DIGITS, -DIGIT * VP_EXACT_ONE, &m);
    return ldexp(negative ? -m : m, e);
}

void vp_exact_less(struct vp_exact *s, uint64_t n, double x)
{
    struct vp_exact one = {{0}};
    vp_exact_add(&one, x);
    for (int i = 0; i < VP_EXACT_DIGITS - 2; i++) {
        const int64_t d = one.digit[i], sign = d < 0 ? -1 : 1;
        const unsigned __int128 product = (unsigned __int128)(uint64_t)(sign * d) * n;
        for (int k = 0; k < 3; k++)
            s->digit[i + k] -= sign * (int64_t)(product >> k * DIGIT & MASK);
    }
}

/* Returns q 2^e, q not 0: rounded once, whatever digits the result has. Bit 0 may stand for more below it. */
static double rounded(uint64_t q, int e)
{
    enum { LEAST = -1074 };
    const int bits = 64 - __builtin_clzll(q), most = bits - DBL_MANT_DIG, drop = LEAST - e > most ? LEAST - e : most;
    if (drop <= 0)
        return ldexp((double)q, e);
    if (drop > 64)
        return 0;
    const unsigned __int128 half = ((unsigned __int128)1 << (drop - 1)) - 1, odd = (unsigned __int128)q >> drop & 1;
    return ldexp((double)(uint64_t)((q + half + odd) >> drop), e + drop);
}

double vp_exact_quotient(const struct vp_exact *s, uint64_t n, double by)
{
    struct vp_exact of;
    int exponent, digit = VP_EXACT_DIGITS - 1, least = 0;
    const bool negative = magnitude(s, &of) != (by < 0);
    /* |by| is m 2^(exponent - 53), so the divisor n m has at most 117 bits */
    const unsigned __int128 divisor = (unsigned __int128)n * (uint64_t)ldexp(frexp(fabs(by), &exponent), DBL_MANT_DIG);
    while (digit > 0 && !of.digit[digit])
        digit--;
    while (least < digit && !of.digit[least])
        least++;
    if (!of.digit[digit])
        return 0;
    /* long division, up to 64 bits that count, and then: is there more? */
    const int end = DIGIT * least;
    unsigned __int128 rest = 0;
    uint64_t q = 0;
    int at = DIGIT * (digit + 1);
    while (!(q >> 63) && (at > end || rest)) {
        at--;
        rest = rest << 1 | (at >= end ? (uint64_t)of.digit[at / DIGIT] >> at % DIGIT & 1 : 0);
        q = q << 1 | (rest >= divisor);
        rest -= rest >= divisor ? divisor : 0;
    }
    const uint64_t below = at > end && at < end + DIGIT ? (UINT64_C(1) << (at - end)) - 1 : 0;
    const bool more = rest || at >= end + DIGIT || (uint64_t)of.digit[least] & below;
    const double v = rounded(q | more, at - DIGIT * VP_EXACT_ONE - (exponent - DBL_MANT_DIG));
    return negative ? -v : v;
}

__int128 vp_exact_integer(const struct vp_exact *s)
{
    struct vp_exact of;
    const bool negative = magnitude(s, &of);
    unsigned __int128 v = 0;
    for (int i = VP_EXACT_ONE + 3; i >= VP_EXACT_ONE; i--)
        v = v << DIGIT | (unsigned __int128)of.digit[i];
    return negative ? -(__int128)v : (__int128)v;
}

double vp_exact_deviation(const struct vp_exact *sum, const struct vp_exact *squares, uint64_t n)
{
    enum { TWICE = 2 * VP_EXACT_DIGITS + 4 };
    struct vp_exact s, q;
    int64_t spread[TWICE] = {0}; /* n squares - sum^2 */
    magnitude(sum, &s);
    magnitude(squares, &q);
    unsigned __int128 wide = 0;
    for (int i = 0; i < VP_EXACT_DIGITS + 3; i++) {
        wide += i < VP_EXACT_DIGITS ? (unsigned __int128)n * (uint64_t)q.digit[i] : 0;
        spread[i + VP_EXACT_ONE] = (int64_t)(wide & MASK);
        wide >>= DIGIT;
    }
    int64_t borrow = 0;
    for (int k = 0; k < TWICE; k++) { /* digit k of sum^2 */
        for (int i = k < VP_EXACT_DIGITS ? 0 : k - VP_EXACT_DIGITS + 1; i <= k && i < VP_EXACT_DIGITS; i++)
            wide += (unsigned __int128)((uint64_t)s.digit[i] * (uint64_t)s.digit[k - i]);
        const int64_t v = spread[k] - (int64_t)(wide & MASK) + borrow;
        spread[k] = v & MASK;
        borrow = v >> DIGIT;
        wide >>= DIGIT;
    }
    double m;
    const int e = leading(spread, TWICE, -2 * DIGIT * VP_EXACT_ONE, &m);
    return borrow ? 0 : sqrt(m) / (double)n * ldexp(1, e / 2); /* less than 0 only by squares too small for f64 */
}
