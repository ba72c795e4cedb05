/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors, sizes, memory, statistics as JSON, and vp_main(): run in child processes, with what they
 * print and how they end. */
#include "base/err.h"
#include "base/json.h"
#include "base/order.h"
#include "base/places.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/stats.h"
#include "base/team.h"
#include "base/text.h"
#include "base/xml.h"
#include "test.h"
#include "app/tool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- errors ---- */

static void errors(void)
{
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_hint(&err, "no error yet"), -1);
    CHECK_STR(err.hint, "");
    CHECK_INT(vp_fail(&err, VP_EUSAGE, "%s: expected %d", "a.tif", 3), -1);
    CHECK_INT(vp_fail(&err, VP_ERUN, "an echo"), -1);
    errno = ENOSPC;
    CHECK_INT(vp_fail_errno(&err, "another"), -1);
    CHECK_INT(vp_hint(&err, "use %s", "b"), -1);
    CHECK_INT(vp_hint(&err, "not this"), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    CHECK_STR(err.msg, "a.tif: expected 3");
    CHECK_STR(err.hint, "use b");

    /* what is too long loses its middle: the name is recognised, the reason is there */
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    longest[0] = 'a';
    longest[sizeof longest - 1] = '\0';
    err = (struct vp_err)VP_ERR_INIT;
    errno = ENOSPC;
    vp_fail_errno(&err, "%s", longest);
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
    CHECK(!strncmp(err.msg, "axx", 3) && strstr(err.msg, "x ... x") && strstr(err.msg, "xx: No space left on device"));

    err = (struct vp_err)VP_ERR_INIT;
    errno = ENOSPC;
    vp_fail_errno(&err, "%s", "out.tif");
    CHECK_STR(err.msg, "out.tif: No space left on device");
    CHECK_INT(err.code, VP_ERUN);
    CHECK_INT(vp_fail(NULL, VP_ERUN, "nobody listens"), -1);

    char path[3000];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    err = (struct vp_err)VP_ERR_INIT;
    vp_fail_errno(&err, "%s", path);
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);

    struct vp_err kept = VP_ERR_INIT, other = VP_ERR_INIT;
    vp_fail(&other, VP_EUSAGE, "of another thread");
    CHECK_INT(vp_err_keep(&kept, &err), -1);
    CHECK_INT(vp_err_keep(&kept, &other), -1);
    CHECK_INT(kept.code, err.code);
    CHECK(!strcmp(kept.msg, err.msg) && !strcmp(kept.hint, err.hint));
}

/* ---- sizes ---- */

static void sizes(void)
{
    size_t n = 7;
    CHECK(vp_mul_size(&n, SIZE_MAX / 2, 2) && n == SIZE_MAX - 1);
    CHECK(!vp_mul_size(&n, SIZE_MAX / 2 + 1, 2) && n == SIZE_MAX - 1);
    CHECK(vp_mul_size(&n, SIZE_MAX, 0) && n == 0);
    CHECK(vp_add_size(&n, SIZE_MAX - 1, 1) && n == SIZE_MAX);
    CHECK(!vp_add_size(&n, SIZE_MAX, 1) && n == SIZE_MAX);

    const struct { const char *text; uint64_t bytes; } good[] = {
        {"0", 0}, {"64", 64}, {"64B", 64}, {"1K", 1000}, {"1KB", 1000}, {"1k", 1000},
        {"1KiB", 1024}, {"1Ki", 1024},
        {"800M", 800000000}, {"1.5GiB", 1610612736}, {"4gib", 4294967296}, {"2T", 2000000000000},
        {"1TiB", 1099511627776}, {"0.5K", 500}, {".5K", 500}, {"18446744073709551615", UINT64_MAX},
        {"9007199254740993", 9007199254740993}, {"2.0", 2},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t v = 1;
        CHECK(vp_parse_bytes(good[i].text, &v));
        CHECK(v == good[i].bytes);
    }
    const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "G", ".", "1.5", "1.5B", "1X", "1GiBs", "1KK",
                               "1iB", "1e3", "18446744073709551616", "19000000T", "16777216TiB",
                               "0x10", "nan", "inf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t v = 99;
        if (vp_parse_bytes(bad[i], &v) || v != 99)
            printf("accepted: '%s'\n", bad[i]);
        CHECK(v == 99);
    }

    CHECK_STR(vp_bytes_text(0).text, "0 B");
    CHECK_STR(vp_bytes_text(1023).text, "1023 B");
    CHECK_STR(vp_bytes_text(1024).text, "1.0 KiB");
    CHECK_STR(vp_bytes_text(1048575).text, "1.0 MiB");
    CHECK_STR(vp_bytes_text(6657199309).text, "6.2 GiB");
    CHECK_STR(vp_bytes_text(UINT64_MAX).text, "16.0 EiB");
}

/* ---- memory ---- */

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static void memory(void)
{
    static const size_t bytes[] = {0, 1, 63, 4096, (4 << 20) - 1, 4 << 20, (5 << 20) + 4097, (9 << 20) + 1};
    struct vp_err err = VP_ERR_INIT;
    /* twice: the second round gets recycled memory, which must be zeroed as well */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            unsigned char *p = vp_alloc(bytes[i], 1, "pixels", &err);
            CHECK(p != NULL);
            if (!p)
                continue;
            CHECK_INT((uintptr_t)p % (bytes[i] >= 4 << 20 ? 2 << 20 : 64), 0);
            CHECK(all_zero(p, bytes[i]));
            memset(p, 0xff, bytes[i]);
            free(p);
        }
    float *raw = vp_alloc_raw(3 << 20, sizeof *raw, "pixels", &err);
    CHECK(raw && (uintptr_t)raw % (2 << 20) == 0);
    if (raw)
        raw[(3 << 20) - 1] = 1;
    free(raw);
    CHECK_INT(err.code, 0);

    CHECK(!vp_alloc(SIZE_MAX / 2, 4, "volume", &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "volume: "));
#ifndef TEST_SANITIZED /* which ends the program instead */
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_alloc_raw((size_t)1 << 62, 1, "volume", &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK_STR(err.msg, "volume: cannot allocate 4611686018427387904 bytes (4.0 EiB)");
#endif

    CHECK(vp_memory_available() > (64 << 10));
    CHECK(vp_memory_peak() > (64 << 10));
    CHECK(vp_cores() >= 1);
    const double t = vp_now();
    CHECK(vp_now() >= t);
}

/* ---- statistics ---- */

/* A strict reader of JSON: the end of the value at s, or NULL. */
static const char *json_value(const char *s);

static const char *json_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

static const char *json_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s == '\\') {
            s++;
            if (*s == 'u' && strspn(s + 1, "0123456789abcdefABCDEF") >= 4)
                s += 4;
            else if (!*s || !strchr("\"\\/bfnrt", *s))
                return NULL;
        }
    }
    return s + 1;
}

static const char *json_number(const char *s)
{
    s += *s == '-';
    if (!isdigit((unsigned char)*s) || (*s == '0' && isdigit((unsigned char)s[1])))
        return NULL;
    s += strspn(s, "0123456789");
    if (*s == '.') {
        if (!isdigit((unsigned char)*++s))
            return NULL;
        s += strspn(s, "0123456789");
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        if (!isdigit((unsigned char)*s))
            return NULL;
        s += strspn(s, "0123456789");
    }
    return s;
}

static const char *json_object(const char *s)
{
    s = json_space(s + 1);
    if (*s == '}')
        return s + 1;
    for (;;) {
        s = json_string(json_space(s));
        if (!s)
            return NULL;
        s = json_space(s);
        if (*s++ != ':')
            return NULL;
        s = json_value(s);
        if (!s)
            return NULL;
        s = json_space(s);
        if (*s == '}')
            return s + 1;
        if (*s++ != ',')
            return NULL;
    }
}

static const char *json_value(const char *s)
{
    s = json_space(s);
    if (*s == '{')
        return json_object(s);
    if (*s == '"')
        return json_string(s);
    if (!strncmp(s, "null", 4))
        return s + 4;
    return json_number(s);
}

static void statistics(void)
{
    struct vp_stats *s = vp_stats_new();
    CHECK(s != NULL);
    if (!s)
        return;
    vp_stats_time(s, "read", 0.25);
    vp_stats_time(s, "say \"hi\"", 1e-7);
    vp_stats_count(s, "bytes_read", UINT64_MAX - 5);
    #pragma omp parallel for num_threads(4)
    for (int i = 0; i < 400; i++) {
        vp_stats_time(s, "read", 0.25);
        vp_stats_count(s, "views", 2);
    }
    vp_stats_count(s, "bytes_read", 5);
    vp_stats_number(s, "gups", 1);
    vp_stats_number(s, "gups", 5.25);
    vp_stats_number(s, "psnr", INFINITY);
    vp_stats_text(s, "path", "old");
    vp_stats_text(s, "path", "a\\b\t\x01 caf\xc3\xa9 \xff\xc3");
    vp_stats_time(NULL, "x", 1);
    vp_stats_count(NULL, "x", 1);
    vp_stats_number(NULL, "x", 1);
    vp_stats_text(NULL, "x", "1");

    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    CHECK_INT(vp_stats_write(s, "pro\"g", f), 0);
    fclose(f);
    const char *end = json_value(text);
    CHECK(end && !strcmp(end, "\n"));
    const char *const want[] = {
        "{\"program\": \"pro\\\"g\", \"seconds\": ",
        "\"stages\": {\"read\": 100.25, \"say \\\"hi\\\"\": 1e-07}",
        "\"peak_memory\": ", "\"bytes_read\": 18446744073709551615", "\"views\": 800", "\"gups\": 5.25",
        "\"psnr\": null", "\"path\": \"a\\\\b\\t\\u0001 caf\xc3\xa9 \\ufffd\\ufffd\"",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!strstr(text, want[i])) {
            printf("missing %s in %s", want[i], text);
            CHECK(!"statistics");
        }
    free(text);

    f = fopen("/dev/full", "w");
    if (f) {
        CHECK_INT(vp_stats_write(s, "p", f), -1);
        CHECK_INT(errno, ENOSPC);
        fclose(f);
    }
    vp_stats_free(s);
    vp_stats_free(NULL);

    vp_progress_start(NULL, "x", "y", 1);
    vp_progress_add(NULL, 1);
    vp_progress_clear(NULL);
    vp_progress_free(NULL);
}

/* ---- vp_main ---- */

struct params { double sigma; const char *mode; int shape; int64_t exits; };

static const struct vp_opt options[] = {
    VP_REAL(struct params, sigma, "sigma", 's', .metavar = "MM", .min = 0, .max = 9, .def = "2",
            .group = "Filter", .help = "width; it's 'here'",
            .more = "See --mode.\n\nMore.\n\n  .literal \\n"),
    VP_STRING(struct params, mode, "mode", 0, .metavar = "MODE", .help = "what to do"),
    VP_CHOICE(struct params, shape, "shape", 0, "box|ball", .help = "box or ball"),
    VP_INT(struct params, exits, "exits", 0, .help = "secret", .hidden = true),
    VP_OPT_END
};

static void clean_up(void)
{
    if (write(STDERR_FILENO, "cleaned\n", 8) < 0)
        _exit(99);
}

static int run(struct vp_run *r, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const char *mode = p->mode ? p->mode : "";
    vp_report_plan(r, "sigma", "%g mm", p->sigma);
    vp_report_plan(r, "threads used", "%d", omp_get_max_threads());
    if (vp_report_plan_done(r))
        return 0;
    vp_note(r, "a note");
    vp_warn(r, "a warning");
    if (!strcmp(mode, "fail")) {
        vp_fail(err, VP_ERUN, "x\n\033[2J.tif: bad");
        return vp_hint(err, "look");
    }
    if (!strcmp(mode, "silent"))
        return -1;
    if (!strcmp(mode, "term")) {
        vp_at_signal(clean_up);
        vp_at_signal(clean_up);
        raise(SIGTERM);
    }
    if (!strcmp(mode, "device"))
        printf("%s %d\n", r->common.device, vp_device_cpu(r, err));
    if (!strcmp(mode, "history"))
        printf("%s\n", r->history);
    if (!strcmp(mode, "limits"))
        printf("%lld %llu\n", (long long)r->common.threads, (unsigned long long)r->common.memory);
    return (int)p->exits;
}

static const struct vp_example examples[] = {
    {"Do it.", "ct-demo -s 2 in.tif |\n  ct-demo -o 'a b.tif'"},
    {"Lines that are too long are broken where a shell allows it.",
     "ct-demo --sigma 2 in.tif | ct-demo --sigma 3 | ct-demo --sigma 4 | ct-demo --sigma 5 -o out.tif\n"
     "  ct-demo --mode 'quoted words stay together, whatever their length' --sigma 7 --verbose"},
    {0}
};

static struct vp_tool tool = {
    .name = "ct-demo", .operands = "[INPUT]...", .summary = "demonstrate", .options = options,
    .description = "Does --mode in C:\\x.\n.dot at the start\n'quote\n\nSecond.\n\n- one\n- two\n",
    .params_size = sizeof(struct params), .examples = examples,
    .sections = "NOTES\nText.\n\nSECOND PART 2-D\nMore text.\n\n- one\n- two\n\n  as it is\n",
    .see_also = "ct-filter(1)", .run = run, .flags = VP_TOOL_TEXT,
};

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static char out[1 << 16], errs[1 << 16];

static void slurp(FILE *f, char *buf, size_t room)
{
    rewind(f);
    buf[fread(buf, 1, room - 1, f)] = '\0';
    fclose(f);
}

/* Run the tool; the exit status, or -signal. `stdout_path`: instead of being captured. */
static int call_to(const char *stdout_path, const char *arguments)
{
    char copy[512], *argv[32] = {(char *)(uintptr_t)"ct-demo"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", arguments);
    for (char *save = NULL, *t = strtok_r(copy, " ", &save); t && argc < 31; t = strtok_r(NULL, " ", &save))
        argv[argc++] = t;
    fflush(NULL);
    FILE *o = tmpfile(), *e = tmpfile();
    if (!o || !e)
        return 1000;
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(stdout_path ? open(stdout_path, O_WRONLY) : fileno(o), 1);
        dup2(fileno(e), 2);
        _exit(vp_main(&tool, argc, argv));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    slurp(o, out, sizeof out);
    slurp(e, errs, sizeof errs);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int call(const char *arguments)
{
    return call_to(NULL, arguments);
}

static void running(void)
{
    CHECK_INT(call(""), 0);
    CHECK_STR(out, "");
    CHECK_STR(errs, "ct-demo: warning: a warning\n");
    CHECK_INT(call("-q a b"), 0);
    CHECK_STR(errs, "");
    CHECK_INT(call("-v"), 0);
    CHECK(strstr(errs, "ct-demo: sigma:        2 mm\n"));
    CHECK(strstr(errs, "ct-demo: a note\n"));
    CHECK(strstr(errs, "peak memory"));
    CHECK_INT(call("--plan -j 3 --sigma 4"), 0);
    CHECK_STR(out, "sigma:        4 mm\nthreads used: 3\n");
    CHECK_STR(errs, "");
    CHECK_INT(call("--mode history -j 2 -m 1GiB -d cpu --progress never -s 3 -q --raw-in 2x2:u8"), 0);
    CHECK_STR(out, "ct-demo --mode history --sigma 3\n");

    CHECK_INT(call("--mode fail"), 1);
    CHECK_STR(errs, "ct-demo: warning: a warning\nct-demo: error: x\\x0a\\x1b[2J.tif: bad\nct-demo: hint: look\n");
    CHECK_INT(call("-q --mode silent"), 1);
    CHECK(strstr(errs, "ct-demo: error: "));
    CHECK_INT(call("--nonsense"), 2);
    CHECK_STR(errs, "ct-demo: error: unknown option --nonsense\nTry 'ct-demo --help'.\n");
    CHECK_INT(call("-q -v"), 2);
    CHECK_INT(call("-q --exits 7"), 7);
    tool.flags = VP_TOOL_TEXT | VP_TOOL_DIFF;
    CHECK_INT(call("-q --mode fail"), 2);
    CHECK_INT(call("-q --exits 1"), 1);
    CHECK_INT(call("-q -o x"), 2);
    tool.flags = VP_TOOL_TEXT;
    tool.operands = NULL;
    CHECK_INT(call("-q a"), 2);
    CHECK_STR(errs, "ct-demo: error: 'a': no operand is expected\nTry 'ct-demo --help'.\n");
    tool.operands = "[INPUT]...";

    CHECK_INT(call("-q --mode term"), -SIGTERM);
    CHECK_STR(errs, "cleaned\n");
    if (!access("/dev/full", W_OK)) {
        CHECK_INT(call_to("/dev/full", "--plan"), 1);
        CHECK_STR(errs, "ct-demo: error: standard output: No space left on device\n");
        CHECK_INT(call_to("/dev/full", "--help"), 1);
        CHECK_INT(call("-q --stats /dev/full"), 1);
    }
    CHECK_INT(call("-q --stats -"), 0);
    CHECK(json_value(out) && strstr(out, "\"program\": \"ct-demo\""));
    CHECK_INT(call("-q --stats /dev/stderr"), 0);
    CHECK(json_value(errs) && strstr(errs, "\"stages\""));
    CHECK_INT(call("-q --mode fail --stats -"), 1);
    CHECK_STR(out, "");                         /* only of a run that succeeded */
    CHECK_INT(call("-q --stats /nonexistent/x"), 1);
    CHECK_STR(errs, "ct-demo: error: /nonexistent/x: No such file or directory\n");
    tool.flags = 0;
    CHECK_INT(call("--stats -"), 2);
    CHECK_INT(call("--compress zstd"), 2);
    CHECK_INT(call("-q -o /dev/null --compress zstd"), 0);
    CHECK_INT(call("-o x --compress zstd --raw-out"), 2);
    tool.flags = VP_TOOL_TEXT;
}

static void devices(void)
{
    CHECK_INT(call("-q --mode device"), 0);
    CHECK_STR(out, "auto 0\n");
    CHECK_INT(call("-q --mode device -d cpu"), 0);
    CHECK_STR(out, "cpu 0\n");
    CHECK_INT(call("-d cuda:0,2"), 3);
    CHECK_STR(errs, "ct-demo: error: device cuda:0,2: ct-demo works on the CPU only\n"
                    "ct-demo: hint: use --device cpu, or auto\n");
    CHECK_INT(call("--plan --device cuda"), 3);
    static const char *const bad[] = {"gpu", "cuda:", "cuda:a", "cuda:0,", "cuda:,0", "cuda0", "CPU",
                                      "cuda:0 1", "cuda:-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[64];
        snprintf(line, sizeof line, "--device=%s", bad[i]);
        CHECK_INT(call(line), strchr(bad[i], ' ') ? 3 : 2); /* a blank makes two words, the first is good */
    }
    tool.flags = VP_TOOL_TEXT | VP_TOOL_NO_DEVICE;
    CHECK_INT(call("--device cpu"), 2);
    setenv("VOXPIPE_DEVICE", "nonsense", 1);
    CHECK_INT(call("-q"), 0);                   /* no concern of this program */
    tool.flags = VP_TOOL_TEXT;

    CHECK_INT(call("-q"), 2);
    CHECK(strstr(errs, "error: VOXPIPE_DEVICE: 'nonsense' is not a device"));
    CHECK_INT(call("-q -d cpu"), 0);            /* the option comes before the environment */
    setenv("VOXPIPE_DEVICE", "cuda", 1);
    CHECK_INT(call("-q"), 0);
    setenv("VOXPIPE_DEVICE", "", 1);
    CHECK_INT(call("-q"), 0);
    unsetenv("VOXPIPE_DEVICE");

    setenv("VOXPIPE_THREADS", "5", 1);
    setenv("VOXPIPE_MEMORY", "3KiB", 1);
    CHECK_INT(call("-q --mode limits"), 0);
    CHECK_STR(out, "5 3072\n");
    CHECK_INT(call("-q --mode limits -j 2 -m 1M"), 0);
    CHECK_STR(out, "2 1000000\n");
    setenv("VOXPIPE_THREADS", "0", 1);
    CHECK_INT(call("-q"), 2);
    CHECK(strstr(errs, "error: VOXPIPE_THREADS: expected 1 to"));
    unsetenv("VOXPIPE_THREADS");
    setenv("VOXPIPE_MEMORY", "lots", 1);
    CHECK_INT(call("-q"), 2);
    CHECK(strstr(errs, "error: VOXPIPE_MEMORY: 'lots' is not"));
    unsetenv("VOXPIPE_MEMORY");
    CHECK_INT(call("-q --mode limits"), 0);
    long long threads = 0;
    unsigned long long bytes = 0;
    CHECK_INT(sscanf(out, "%lld %llu", &threads, &bytes), 2);
    CHECK_INT(threads, vp_cores());
    CHECK_NEAR((double)bytes, 0.8 * (double)vp_memory_available(), 0.2 * (double)vp_memory_available());
}

static int lines_longer(const char *text, size_t limit)
{
    int n = 0;
    for (; *text; text += strcspn(text, "\n") + 1)
        n += strcspn(text, "\n") > limit;
    return n;
}

static void texts(void)
{
    CHECK_INT(call("--help"), 0);
    CHECK_STR(errs, "");
    CHECK(starts(out, "Usage: ct-demo [OPTION]... [INPUT]...\n\nDoes --mode in C:\\x."));
    CHECK(strstr(out, "\nFilter:\n  -s, --sigma MM          width; it's 'here' (0 to 9; default: 2)\n"));
    CHECK(strstr(out, "\nCommon options:\n"));
    CHECK(strstr(out, "\nExit status:\n  0  done\n"));
    CHECK(strstr(out, "\n    ct-demo -s 2 in.tif |\n      ct-demo -o 'a b.tif'\n"));
    CHECK(strstr(out, "\n    ct-demo --sigma 2 in.tif | ct-demo --sigma 3 | ct-demo --sigma 4 |\n"
                      "      ct-demo --sigma 5 -o out.tif\n"
                      "      ct-demo --mode 'quoted words stay together, whatever their length' \\\n"
                      "        --sigma 7 --verbose\n"));
    CHECK(strstr(out, "\nSee also: ct-filter(1), voxpipe(7)\n"));
    CHECK(strstr(out, "\nSecond part 2-d:\n  More text.\n  - one\n  - two\n    as it is\n") && !strstr(out, "Notes:"));
    CHECK(!strstr(out, "Second.") && !strstr(out, "secret"));
    CHECK(!strchr(out, '\033'));
    CHECK(!strstr(out, "--raw-out") && !strstr(out, "--force"));
    CHECK_INT(lines_longer(out, 80), 0);
    tool.flags = VP_TOOL_NO_DEVICE | VP_TOOL_SOURCE;
    CHECK_INT(call("--help"), 0);
    CHECK(strstr(out, "--raw-out") && strstr(out, "--raw-in") && !strstr(out, "--device"));
    tool.operands = NULL;
    CHECK_INT(call("--help"), 0);
    CHECK(!strstr(out, "--raw-in") && !strstr(out, "--spool"));
    tool.operands = "[INPUT]...";
    tool.flags = VP_TOOL_TEXT;

    CHECK_INT(call("--version"), 0);
    CHECK(starts(out, "ct-demo (voxpipe) "));
    CHECK_INT(strchr(out, '\n') ? strchr(strchr(out, '\n') + 1, '\n') - out + 1 - (long)strlen(out) : 1, 0);
}

/* ---- opening ---- */

static const char *fifo;
static pthread_t opener;

static void interrupted(int number)
{
    (void)number;
}

/* Interrupts the main thread, which waits for somebody to write, and then writes. */
static void *interrupt(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        usleep(10000);
        pthread_kill(opener, SIGUSR1);
    }
    const int fd = open(fifo, O_WRONLY);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
    return NULL;
}

static void opening(void)
{
    struct sigaction ours = {.sa_handler = interrupted}; /* no SA_RESTART */
    char dir[] = "/tmp/base_test-XXXXXX", path[64];
    pthread_t thread;
    CHECK(mkdtemp(dir) && !sigaction(SIGUSR1, &ours, NULL));
    snprintf(path, sizeof path, "%s/fifo", dir);
    CHECK(!mkfifo(path, 0600));
    fifo = path;
    opener = pthread_self();
    for (int stream = 0; stream < 2; stream++) {
        char c = 0;
        CHECK(!pthread_create(&thread, NULL, interrupt, NULL));
        if (stream) {
            FILE *f = vp_fopen(path, "r");
            CHECK(f && fread(&c, 1, 1, f) == 1 && c == 'x');
            if (f)
                fclose(f);
        } else {
            const int fd = vp_open_fd(path, O_RDONLY, 0);
            CHECK(fd >= 0 && read(fd, &c, 1) == 1 && c == 'x');
            close(fd);
        }
        pthread_join(thread, NULL);
    }
    CHECK(!unlink(path) && !rmdir(dir));
    signal(SIGUSR1, SIG_DFL);
}

/* ---- sorting ---- */

struct sorted { int key, at; char rest[5]; };

static int steps; /* comparisons so far */

static int by_key(const void *a, const void *b)
{
    const struct sorted *p = a, *q = b;
    steps++;
    return (p->key > q->key) - (p->key < q->key);
}

/* A comparison that makes the input bad for quicksort as it goes (McIlroy, A killer adversary for quicksort, 1999):
 * keys are decided as late as can be. */
static int bad_key[5000], solid, candidate;

static int by_bad_key(const void *a, const void *b)
{
    enum { GAS = INT_MAX };
    const int x = *(const int *)a, y = *(const int *)b;
    steps++;
    if (bad_key[x] == GAS && bad_key[y] == GAS)
        bad_key[x == candidate ? x : y] = solid++;
    if (bad_key[x] == GAS)
        candidate = x;
    else if (bad_key[y] == GAS)
        candidate = y;
    return (bad_key[x] > bad_key[y]) - (bad_key[x] < bad_key[y]);
}

static void sorting(void)
{
    enum { MOST = 3000 };
    static struct sorted v[MOST];
    static bool seen[MOST];
    uint32_t random = 1;
    for (int n = 0; n < MOST; n += n < 40 ? 1 : 977)
        for (int kind = 0; kind < 6; kind++) {
            for (int i = 0; i < n; i++) {
                random = random * 1664525u + 1013904223u;
                const int key[] = {(int)(random >> 8), i, n - i, 7, i < n / 2 ? i : n - i, (int)(random >> 8) % 3};
                v[i] = (struct sorted){key[kind], i, "rest"};
            }
            memset(seen, 0, sizeof seen);
            steps = 0;
            vp_sort(v, (size_t)n, sizeof *v, by_key);
            for (int i = 0; i < n; i++) {
                CHECK(!i || v[i - 1].key <= v[i].key);
                CHECK(!seen[v[i].at] && !strcmp(v[i].rest, "rest"));
                seen[v[i].at] = true;
            }
            CHECK(steps <= 3 * n * (int)ceil(log2(n + 2))); /* n log n, whatever the order */
        }
    static int at[sizeof bad_key / sizeof *bad_key];
    const int n = (int)(sizeof at / sizeof *at);
    for (int i = 0; i < n; i++) {
        at[i] = i;
        bad_key[i] = INT_MAX;
    }
    steps = 0;
    vp_sort(at, (size_t)n, sizeof *at, by_bad_key);
    CHECK(steps < 10 * n * (int)ceil(log2(n))); /* as against n^2 / 4 */
    for (int i = 1; i < n; i++)
        CHECK(bad_key[at[i - 1]] <= bad_key[at[i]]);
}

/* ---- JSON, XML ---- */

static void json(void)
{
    struct vp_json j = {.out = vp_text_open()};
    vp_json_open(&j, NULL, '{');
    vp_json_string(&j, "a \"b\"", "c\n\x1b\xff");
    vp_json_number(&j, "half", 0.5);
    vp_json_number(&j, "nan", NAN);
    vp_json_open(&j, "list", '[');
    vp_json_close(&j, ']');
    vp_json_open(&j, "lists", '[');
    vp_json_open(&j, NULL, '[');
    vp_json_print(&j, NULL, "%d", 1);
    vp_json_print(&j, NULL, "%s", "true");
    vp_json_close(&j, ']');
    vp_json_string(&j, NULL, NULL);
    vp_json_close(&j, ']');
    vp_json_close(&j, '}');
    char *text = vp_text_close(j.out, NULL);
    CHECK_STR(text, "{\"a \\\"b\\\"\": \"c\\n\\u001b\\ufffd\", \"half\": 0.5, \"nan\": null, \"list\": [], "
                    "\"lists\": [[1, true], \"\"]}");
    free(text);

    j = (struct vp_json){.out = vp_text_open(), .lines = true};
    vp_json_open(&j, NULL, '[');
    for (int i = 0; i < 2; i++) {
        vp_json_open(&j, NULL, '{');
        vp_json_print(&j, "x", "%d", i);
        vp_json_print(&j, "y", "%d", i);
        vp_json_close(&j, '}');
    }
    vp_json_close(&j, ']');
    text = vp_text_close(j.out, NULL);
    CHECK_STR(text, "[\n {\"x\": 0, \"y\": 0},\n {\"x\": 1, \"y\": 1}\n]");
    free(text);
}

static void xml(void)
{
    const char *at = "<?xml version='1.0'?><!-- <a> --><ns:Root a='1' bb = \"x > '<y>'\" c=\"it's\"><Leaf/></ns:Root><Cut <b>";
    struct vp_xml_tag t;
    char value[8];
    CHECK(vp_xml_next(&at, &t) && vp_xml_is(&t, "Root") && !vp_xml_is(&t, "Roo") && !t.end && !t.empty && t.stop);
    CHECK(vp_xml_attribute(&t, "a", value, sizeof value) && !strcmp(value, "1"));
    CHECK(vp_xml_attribute(&t, "bb", value, sizeof value) && !strcmp(value, "x > '<y"));
    CHECK(vp_xml_attribute(&t, "c", value, sizeof value) && !strcmp(value, "it's"));
    CHECK(!vp_xml_attribute(&t, "b", value, sizeof value));
    CHECK(vp_xml_next(&at, &t) && vp_xml_is(&t, "Leaf") && t.empty && !t.end);
    CHECK(vp_xml_next(&at, &t) && vp_xml_is(&t, "Root") && t.end);
    CHECK(vp_xml_next(&at, &t) && vp_xml_is(&t, "Cut") && !t.stop && *at == '<');
    CHECK(vp_xml_next(&at, &t) && vp_xml_is(&t, "b") && t.stop);
    CHECK(!vp_xml_next(&at, &t));
    at = "<a b='>";
    CHECK(vp_xml_next(&at, &t) && !t.stop && !*at);
    at = "<!-- <a>";
    CHECK(!vp_xml_next(&at, &t));
}

/* ---- keys ---- */

static void keys(void)
{
    static const float v[] = {-INFINITY, -FLT_MAX, -1, -FLT_MIN, -1e-45f, -0.0f, 0.0f, 1e-45f, FLT_MIN, 1, FLT_MAX, INFINITY};
    const int n = sizeof v / sizeof *v;
    for (int i = 0; i < n; i++) {
        CHECK(!memcmp(&(float){vp_f32_of_signed_key(vp_signed_key_f32(v[i]))}, &v[i], sizeof *v));
        CHECK(vp_signed_key_f32(v[i]) < vp_signed_key_f32(NAN) && vp_signed_key_f32(v[i]) < vp_signed_key_f32(-NAN));
        for (int r = 0; r < 2; r++) {
            CHECK(!memcmp(&(float){vp_f32_of_key(vp_key_f32(v[i], r), r)}, &v[i], sizeof *v));
            CHECK(vp_f64_of_key(vp_key_f64(v[i], r), r) == v[i] && vp_key_f32(v[i], r) >= VP_KEY_LOWEST_F32);
        }
        if (i) {
            CHECK(vp_signed_key_f32(v[i - 1]) < vp_signed_key_f32(v[i]));
            CHECK(vp_key_f32(v[i - 1], false) < vp_key_f32(v[i], false) && vp_key_f32(v[i - 1], true) > vp_key_f32(v[i], true));
            CHECK(vp_key_f64(v[i - 1], false) < vp_key_f64(v[i], false) && vp_key_f64(v[i - 1], true) > vp_key_f64(v[i], true));
        }
    }
    CHECK(vp_signed_key_f32(NAN) == VP_NAN_F32 && vp_key_f32(NAN, true) == 0 && vp_key_f64(-NAN, false) == 0);
}

/* ---- teams ---- */

enum { TEAM = 3, TURNS = 500 };

static void count_turn(const void *ctx, void *thread, int64_t i)
{
    __atomic_add_fetch((int *)(uintptr_t)ctx + i, 1, __ATOMIC_RELAXED);
    ++*(int64_t *)thread;
}

/* Every owner's iterations are done once each when its loop returns, whichever thread takes them. */
static void teams(void)
{
    static struct vp_team_loop loop[TEAM];
    static int turns[TEAM][TURNS];
    int64_t taken[TEAM] = {0}, done = 0;
    bool whole = true;
    #pragma omp parallel num_threads(TEAM) reduction(&& : whole)
    {
        const int me = omp_get_thread_num();
        for (int k = me; k < TEAM; k += omp_get_num_threads()) {
            vp_team_run(&loop[k], TURNS, count_turn, turns[k], &taken[me]);
            for (int i = 0; i < TURNS; i++)
                whole = whole && __atomic_load_n(&turns[k][i], __ATOMIC_RELAXED) == 1;
            __atomic_add_fetch(&done, 1, __ATOMIC_RELEASE);
        }
        for (int64_t idle = 0; __atomic_load_n(&done, __ATOMIC_ACQUIRE) < TEAM; idle++) {
            vp_team_help(loop, TEAM, &taken[me]);
            vp_team_pause(idle);
        }
        vp_team_wait(&done, TEAM);
    }
    CHECK(whole);
    CHECK_INT(taken[0] + taken[1] + taken[2], TEAM * TURNS);
}

int main(void)
{
    unsetenv("VOXPIPE_DEVICE");
    unsetenv("VOXPIPE_MEMORY");
    unsetenv("VOXPIPE_THREADS");
    unsetenv("OMP_NUM_THREADS");
    errors();
    sizes();
    memory();
    running();      /* forks: before OpenMP has threads */
    devices();
    texts();
    statistics();
    opening();
    sorting();
    json();
    xml();
    keys();
    teams();
    return test_done();
}
