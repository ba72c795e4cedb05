/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders that the environment names, and what names of files stand for. */
#include "base/places.h"
#include "base/err.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MAX_LINKS = 40 };

int vp_open_fd(const char *path, int flags, unsigned mode)
{
    int fd;
    do
        fd = open(path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

FILE *vp_fopen(const char *path, const char *mode)
{
    FILE *f;
    do
        f = fopen(path, mode);
    while (!f && errno == EINTR);
    return f;
}

bool vp_in_memory(const char *dir)
{
    struct statfs fs;
    return !statfs(dir, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

const char *vp_tmpdir(void)
{
    const char *dir = getenv("TMPDIR"); /* ENVVAR TMPDIR: folder of scratch files, as the copy that --spool makes */
    if (dir && *dir)
        return dir;
    return vp_in_memory("/tmp") && !access("/var/tmp", W_OK) && !vp_in_memory("/var/tmp") ? "/var/tmp" : "/tmp";
}

bool vp_scratch_in_memory(void)
{
    return vp_in_memory(vp_tmpdir());
}

int vp_scratch_allow(uint64_t bytes, uint64_t room, const char *what, struct vp_err *err)
{
    if (bytes <= room || !vp_scratch_in_memory())
        return 0;
    vp_fail(err, VP_ERESOURCE, "%s takes %s in %s, which is in memory itself: expected at most %s", what,
            vp_bytes_text(bytes).text, vp_tmpdir(), vp_bytes_text(room).text);
    return vp_hint(err, "set TMPDIR to a folder on a disk, or allow more --memory");
}

const char *vp_device_memory(void)
{
    const char *text = getenv("VOXPIPE_DEVICE_MEMORY"); /* ENVVAR VOXPIPE_DEVICE_MEMORY: the most to take of a device */
    return text && *text ? text : NULL;
}

const char *vp_plugins(void)
{
    const char *dir = getenv("VOXPIPE_PLUGINS"); /* ENVVAR VOXPIPE_PLUGINS: folder of the plugins */
    return dir && *dir ? dir : NULL;
}

static int number_of(const char *text)
{
    char *end;
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && end > text && !*end && n >= 0 && n < 1 << 24 ? (int)n : -1;
}

int vp_launched(int *rank)
{
    /* a batch script of Slurm has SLURM_NTASKS and SLURM_PROCID, too: only what srun starts is in a step with tasks */
    const char *const known[][2] = {
        /* ENVVAR OMPI_COMM_WORLD_SIZE: of Open MPI's mpirun: the number of ranks */
        {getenv("OMPI_COMM_WORLD_SIZE"), getenv("OMPI_COMM_WORLD_RANK")},
        {getenv("PMI_SIZE"), getenv("PMI_RANK")}, /* ENVVAR PMI_SIZE: the same, of MPICH's and others' */
        {getenv("SLURM_STEP_NUM_TASKS"), getenv("SLURM_PROCID")}, /* ENVVAR SLURM_STEP_NUM_TASKS: the same, of srun */
    };
    *rank = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int size = number_of(known[i][0]), it = number_of(known[i][1]);
        if (size < 1 || it < 0)
            continue;
        *rank = it;
        return size;
    }
    return 1;
}

/* Judges as Linux does where fs.protected_symlinks is set: in a sticky folder that all may write, a link counts only
 * for who made it, or if the folder's owner did. */
static bool foreign_link(const char *path)
{
    struct stat link, in;
    char *folder = vp_folder(path);
    const bool foreign = !folder || lstat(path, &link) || stat(folder, &in)
                         || (S_ISLNK(link.st_mode) && in.st_mode & S_ISVTX && in.st_mode & S_IWOTH
                             && link.st_uid != geteuid() && link.st_uid != in.st_uid);
    free(folder);
    return foreign;
}

char *vp_next_link(const char *path)
{
    char link[PATH_MAX], *next = NULL;
    const ssize_t n = readlink(path, link, sizeof link - 1);
    const char *const slash = strrchr(path, '/');
    if (n < 0)
        return NULL;
    link[n] = '\0';
    if (link[0] == '/' || !slash)
        return strdup(link);
    return asprintf(&next, "%.*s%s", (int)(slash - path + 1), path, link) < 0 ? NULL : next;
}

char *vp_follow_links(const char *path, bool own)
{
    char *now = strdup(path), link;
    for (int i = 0; now && i < MAX_LINKS; i++) {
        if (readlink(now, &link, 1) < 0)
            return now; /* not a link, or nothing there */
        if (own && foreign_link(now)) {
            free(now);
            errno = EACCES;
            return NULL;
        }
        char *const next = vp_next_link(now);
        free(now);
        now = next;
    }
    free(now);
    errno = ELOOP;
    return NULL;
}

/* True if the group has no member but the owner, which many systems make for each user. */
static bool private_group(uid_t owner, gid_t group)
{
    const struct passwd *user = getpwuid(owner);
    char *name = user && user->pw_gid == group ? strdup(user->pw_name) : NULL;
    const struct group *g = name ? getgrgid(group) : NULL;
    bool alone = g && !strcmp(g->gr_name, name);
    for (char **member = alone ? g->gr_mem : NULL; member && *member; member++)
        alone = alone && !strcmp(*member, name);
    free(name);
    return alone;
}

static bool others_write(const struct stat *st)
{
    return st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && st->st_gid != 0 && !private_group(st->st_uid, st->st_gid));
}

bool vp_trusted(const char *path, bool strangers, char *why, size_t size)
{
    struct stat st, program;
    char *at = realpath(path, NULL);
    const uid_t maker = stat("/proc/self/exe", &program) ? 0 : program.st_uid;
    if (!at) {
        snprintf(why, size, "%s", strerror(errno));
        return false;
    }
    bool good = true;
    for (int up = 0; good; up++) {
        char *slash = strrchr(at, '/');
        if (stat(at, &st)) {
            snprintf(why, size, "%s: %s", at, strerror(errno));
            good = false;
        } else if (others_write(&st) && (up < 2 || !(st.st_mode & S_ISVTX))) {
            /* further up the sticky bit is enough: others cannot take away what is not theirs */
            snprintf(why, size, "others than its owner may write %s", at);
            good = false;
        } else if (up < 2 && !strangers && st.st_uid && st.st_uid != geteuid() && st.st_uid != maker) {
            snprintf(why, size, "%s belongs to another user", at);
            good = false;
        }
        if (!at[1])
            break;
        slash[slash == at] = '\0';
    }
    free(at);
    return good;
}

char *vp_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
}

static bool same_entry(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* True if two names would make one file: the same last part in the same folder. */
static bool same_place(const char *a, const char *b)
{
    char *folder_a = vp_folder(a), *folder_b = vp_folder(b);
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
    struct stat in_a, in_b;
    const bool same = !strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b) && folder_a && folder_b
                      && !stat(folder_a, &in_a) && !stat(folder_b, &in_b) && same_entry(&in_a, &in_b);
    free(folder_a);
    free(folder_b);
    return same;
}

bool vp_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const bool is_a = !stat(a, &of_a), is_b = !stat(b, &of_b);
    if (is_a && is_b)
        return same_entry(&of_a, &of_b) && (S_ISREG(of_a.st_mode) || S_ISFIFO(of_a.st_mode));
    if (is_a || is_b)
        return false;
    char *to_a = vp_follow_links(a, false), *to_b = vp_follow_links(b, false);
    const bool same = to_a && to_b && same_place(to_a, to_b);
    free(to_a);
    free(to_b);
    return same;
}

int vp_unnamed_file(const char *dir)
{
#ifdef O_TMPFILE
    const int fd = vp_open_fd(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
#endif
    char *name;
    if (asprintf(&name, "%s/voxpipe-XXXXXX", dir) < 0)
        return -1;
    const int named = mkostemp(name, O_CLOEXEC);
    const int why = errno;
    if (named >= 0)
        unlink(name);
    free(name);
    errno = why;
    return named;
}
