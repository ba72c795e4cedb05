/* SPDX-License-Identifier: BSD-3-Clause */
/* Headerless samples, of a layout that the user states: WxH[xN]:TYPE[le|be][,skip=BYTES]. */
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include <string.h>

static bool count(const char **s, int64_t *out)
{
    int64_t v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9' && v < INT64_MAX / 16; p++)
        v = 10 * v + (*p - '0');
    if (p == *s)
        return false;
    *s = p;
    *out = v;
    return true;
}

static int parse(struct vp_samples_at *r, const char *spec, struct vp_err *err)
{
    struct vp_stack *s = &r->stack;
    const char *p = spec;
    char type[16];
    int64_t skip = 0;
    bool ok = count(&p, &s->nx) && *p++ == 'x' && count(&p, &s->ny);
    s->pages = -1;
    if (ok && *p == 'x') {
        p++;
        ok = count(&p, &s->pages) && s->pages > 0;
    }
    ok = ok && *p++ == ':';
    size_t n = ok ? strcspn(p, ",") : 0;
    ok = ok && n > 0 && n < sizeof type;
    if (ok) {
        memcpy(type, p, n);
        type[n] = '\0';
        p += n;
        if (n > 2 && (!strcmp(type + n - 2, "le") || !strcmp(type + n - 2, "be"))) {
            r->swap = type[n - 2] == 'b';
            type[n - 2] = '\0';
        }
        ok = vp_type_parse(type, &s->type);
    }
    if (ok && !strncmp(p, ",skip=", 6)) {
        p += 6;
        ok = count(&p, &skip);
    }
    ok = ok && !*p && s->nx > 0 && s->ny > 0;
    r->skip = (uint64_t)skip;
    if (!ok)
        return vp_fail(
            err, VP_EUSAGE,
            "raw layout '%s': expected WxH[xN]:TYPE[le|be][,skip=BYTES] with TYPE u8 u16 u32 u64 i8 "
            "i16 i32 i64 f32 or f64",
            spec);
    if (!vp_page_bytes(s))
        return vp_fail(err, VP_EUSAGE, "raw layout '%s': a page is too large", spec);
    return 0;
}

static int check_size(struct vp_samples_at *r, const char *name, uint64_t size, struct vp_err *err)
{
    struct vp_stack *s = &r->stack;
    const size_t page = vp_page_bytes(s);
    const uint64_t have = size > r->skip ? size - r->skip : 0;
    if (s->pages > 0) {
        size_t want;
        if (!vp_mul_size(&want, page, (size_t)s->pages) || want != have)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages of %zu bytes%s, got %llu bytes", name,
                           (long long)s->pages, page, r->skip ? " after those skipped" : "",
                           (unsigned long long)have);
        return 0;
    }
    if (have == 0 || have % page)
        return vp_fail(err, VP_ERUN,
                       "%s: expected a multiple of %zu bytes (a page of %lldx%lld %s)%s, got %llu", name,
                       page, (long long)s->nx, (long long)s->ny, vp_type_name(s->type),
                       r->skip ? " after those skipped" : "", (unsigned long long)have);
    s->pages = (int64_t)(have / page);
    return 0;
}

int vp_source_raw(struct vp_source **out, struct vp_input *in, const char *spec, size_t hold, struct vp_err *err)
{
    struct vp_samples_at r = {.swap = false};
    if (!parse(&r, spec, err) && !(in->anywhere && check_size(&r, in->name, in->size, err)))
        return vp_source_samples(out, in, &r, hold, err);
    vp_input_close(in);
    return -1;
}
