/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of a run: a short ordered list of named values under one lock. */
#include "base/stats.h"
#include "base/json.h"
#include "base/places.h"
#include "base/size.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum record_kind { STAGE, COUNT, NUMBER, TEXT, JSON };

struct entry {
    enum record_kind kind;
    char *name;
    double number;
    uint64_t count;
    char *text;
};

struct vp_stats {
    pthread_mutex_t lock;
    double start;
    int n;
    struct entry *entry;
};

struct vp_stats *vp_stats_new(void)
{
    struct vp_stats *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->start = vp_now();
    return s;
}

void vp_stats_free(struct vp_stats *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++) {
        free(s->entry[i].name);
        free(s->entry[i].text);
    }
    free(s->entry);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Returns the entry, made if it is not there; NULL without memory (statistics are no reason to fail). Locked. */
static struct entry *find(struct vp_stats *s, enum record_kind kind, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].name, name) && (s->entry[i].kind == STAGE) == (kind == STAGE)) {
            s->entry[i].kind = kind;
            return &s->entry[i];
        }
    struct entry *grown = realloc(s->entry, (size_t)(s->n + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    s->entry = grown;
    char *copy = strdup(name);
    if (!copy)
        return NULL;
    s->entry[s->n] = (struct entry){.kind = kind, .name = copy};
    return &s->entry[s->n++];
}

/* Stages and counts grow; numbers and texts are the last. */
static void record(struct vp_stats *s, enum record_kind kind, const char *name, double number, uint64_t count, const char *text)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    struct entry *e = find(s, kind, name);
    if (e) {
        e->number = kind == STAGE ? e->number + number : number;
        e->count += count;
        free(e->text);
        e->text = text ? strdup(text) : NULL;
    }
    pthread_mutex_unlock(&s->lock);
}

void vp_stats_time(struct vp_stats *s, const char *name, double seconds)
{
    record(s, STAGE, name, seconds, 0, NULL);
}

void vp_stats_count(struct vp_stats *s, const char *name, uint64_t n)
{
    record(s, COUNT, name, 0, n, NULL);
}

void vp_stats_number(struct vp_stats *s, const char *name, double value)
{
    record(s, NUMBER, name, value, 0, NULL);
}

void vp_stats_text(struct vp_stats *s, const char *name, const char *value)
{
    record(s, TEXT, name, 0, 0, value);
}

void vp_stats_list(struct vp_stats *s, const char *name, const double *value, int64_t n)
{
    FILE *out = vp_text_open();
    if (!out)
        return;
    struct vp_json json = {.out = out};
    vp_json_open(&json, NULL, '[');
    for (int64_t i = 0; i < n; i++)
        vp_json_number(&json, NULL, value[i]);
    vp_json_close(&json, ']');
    char *text = vp_text_close(out, NULL);
    if (text)
        record(s, JSON, name, 0, 0, text);
    free(text);
}

static void put_number(struct vp_json *json, const char *name, double v)
{
    if (isfinite(v))
        vp_json_print(json, name, "%.9g", v);
    else
        vp_json_print(json, name, "null");
}

static void put_entry(struct vp_json *json, const struct entry *e)
{
    if (e->kind == COUNT)
        vp_json_print(json, e->name, "%" PRIu64, e->count);
    else if (e->kind == TEXT)
        vp_json_string(json, e->name, e->text);
    else if (e->kind == JSON)
        vp_json_print(json, e->name, "%s", e->text ? e->text : "null");
    else
        put_number(json, e->name, e->number);
}

bool vp_stats_replaceable(const char *path)
{
    struct stat st;
    char letter[2];
    if (stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
        return true;
    FILE *f = vp_fopen(path, "re");
    const bool ours = f && fscanf(f, " { \"program\" : \"%1[a-z]", letter) == 1;
    if (f)
        fclose(f);
    return ours;
}

int vp_stats_write(const struct vp_stats *s, const char *program, FILE *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&s->lock;
    struct vp_json json = {.out = out};
    pthread_mutex_lock(lock);
    vp_json_open(&json, NULL, '{');
    vp_json_string(&json, "program", program);
    put_number(&json, "seconds", vp_now() - s->start);
    vp_json_open(&json, "stages", '{');
    for (int i = 0; i < s->n; i++)
        if (s->entry[i].kind == STAGE)
            put_entry(&json, &s->entry[i]);
    vp_json_close(&json, '}');
    vp_json_print(&json, "peak_memory", "%" PRIu64, vp_memory_peak());
    for (int i = 0; i < s->n; i++)
        if (s->entry[i].kind != STAGE)
            put_entry(&json, &s->entry[i]);
    vp_json_close(&json, '}');
    putc('\n', out);
    pthread_mutex_unlock(lock);
    return fflush(out) || ferror(out) ? -1 : 0;
}
