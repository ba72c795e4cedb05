/* SPDX-License-Identifier: BSD-3-Clause */
/* Output files that appear whole or not at all: a temporary file beside the target, renamed at the end. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "base/signals.h"
#include "stack/outfile.h"
#include "stack/series.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_TEMPORARIES = 32, PIPE_BYTES = 1 << 20 };

/* Files that a signal handler unlinks. A slot is filled before its file exists and emptied after the rename, so the
 * handler may meet a name without a file but never misses a file. */
static char temporary[MAX_TEMPORARIES][PATH_MAX];
static volatile sig_atomic_t temporary_used[MAX_TEMPORARIES];
static pthread_mutex_t temporary_lock = PTHREAD_MUTEX_INITIALIZER;

void vp_outputs_unlink(void)
{
    vp_series_unlink();
    for (int i = 0; i < MAX_TEMPORARIES; i++)
        if (temporary_used[i])
            unlink(temporary[i]);
}

static void broken_pipe(void)
{
    /* The parent had SIGPIPE ignored; die of it as any filter does, silently and with status 141. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    vp_outputs_unlink();
    signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGPIPE);
}

int vp_write_again(int fd, const char *name, struct vp_err *err)
{
    if (errno == EINTR)
        return 0;
    if (errno == EAGAIN) { /* another process made the pipe non-blocking */
        (void)poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        return 0;
    }
    if (errno == EPIPE)
        broken_pipe();
    return vp_fail_errno(err, "%s", name);
}

int vp_write_two(int fd, off_t at, const void *a, size_t na, const void *b, size_t nb, const char *name,
                 struct vp_err *err)
{
    struct iovec v[2] = {{(void *)a, na}, {(void *)b, nb}};
    while (v[0].iov_len + v[1].iov_len > 0) {
        const int first = v[0].iov_len == 0;
        ssize_t n = at < 0 ? writev(fd, v + first, 2 - first) : pwritev(fd, v + first, 2 - first, at);
        if (n < 0) {
            if (vp_write_again(fd, name, err))
                return -1;
            continue;
        }
        at += at < 0 ? 0 : n;
        for (int i = first; i < 2 && n > 0; i++) {
            const size_t k = (size_t)n < v[i].iov_len ? (size_t)n : v[i].iov_len;
            v[i].iov_base = (char *)v[i].iov_base + k;
            v[i].iov_len -= k;
            n -= (ssize_t)k;
        }
    }
    return 0;
}

/* Remembers a name until its slot is set to 0. Returns the slot, or -1 with errno. */
static int take(const char *name)
{
    const size_t length = strlen(name);
    int slot = -1;
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    vp_at_signal(vp_outputs_unlink);
    pthread_mutex_lock(&temporary_lock);
    for (int i = 0; i < MAX_TEMPORARIES && slot < 0; i++)
        if (!temporary_used[i]) {
            memcpy(temporary[i], name, length + 1);
            temporary_used[i] = 1;
            slot = i;
        }
    pthread_mutex_unlock(&temporary_lock);
    errno = EMFILE;
    return slot;
}

static int take_slot(struct vp_outfile *f, const char *name)
{
    const int slot = take(name);
    if (slot < 0)
        return -1;
    f->temporary = temporary[slot];
    f->used = &temporary_used[slot];
    return 0;
}

int vp_outfile_expect(const char *name, struct vp_err *err)
{
    const int slot = take(name);
    return slot < 0 ? vp_fail_errno(err, "%s", name) : slot;
}

void vp_outfile_arrived(int slot)
{
    if (slot >= 0)
        temporary_used[slot] = 0;
}

static void give_slot(struct vp_outfile *f)
{
    if (f->used)
        *f->used = 0;
    f->used = NULL;
    f->temporary = NULL;
}

/* Names a temporary file beside the target. Returns the length of the name, which is cut to `size`. */
static size_t name_temporary(const char *path, int serial, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    const int dir = slash ? (int)(slash - path + 1) : 0;
    return (size_t)snprintf(name, size, "%.*s.voxpipe-%ld-%d.tmp", dir, path, (long)getpid(), serial);
}

static int name_slot(struct vp_outfile *f, int serial)
{
    char name[PATH_MAX + 1];
    name_temporary(f->path, serial, name, sizeof name);
    return take_slot(f, name);
}

int vp_outfile_propose(const char *path, char *name, size_t size, struct vp_err *err)
{
    char *target = vp_follow_links(path, true);
    struct stat st;
    size_t n;
    int serial = 0;
    if (!target)
        return vp_fail_errno(err, "%s", path);
    do
        n = name_temporary(target, serial++, name, size);
    while (n < size && !lstat(name, &st));
    free(target);
    return n < size ? 0 : vp_fail(err, VP_ERUN, "%s: the name is too long", path);
}

/* True if the new file has the access control list of the old one, or neither has one: a folder may hand down its
 * own. */
static bool same_acl(int fd, const char *path)
{
    static const char name[] = "system.posix_acl_access";
    char acl[4096];
    const ssize_t n = getxattr(path, name, acl, sizeof acl);
    if (n > 0)
        return !fsetxattr(fd, name, acl, (size_t)n, 0);
    return (errno == ENODATA || errno == ENOTSUP) && (!fremovexattr(fd, name) || errno == ENODATA || errno == ENOTSUP);
}

/* Copies the owner, the group and the permissions of the file that will be replaced, as far as we may give them. A
 * user who could not read or write the old file cannot do so with the new one; set-uid, set-gid and sticky bits were
 * given to the old content. */
static void inherit(int fd, const char *path, const struct stat *old)
{
    struct stat st;
    mode_t mode = old->st_mode & 0777;
    if (fstat(fd, &st))
        return;
    if (st.st_uid != old->st_uid && !fchown(fd, old->st_uid, (gid_t)-1))
        st.st_uid = old->st_uid;
    if (st.st_gid != old->st_gid && !fchown(fd, (uid_t)-1, old->st_gid))
        st.st_gid = old->st_gid;
    const mode_t user = mode >> 6 & 7, group = mode >> 3 & 7, other = mode & 7;
    const mode_t owner = st.st_uid == old->st_uid ? 7 : user; /* the old owner is now one of the others */
    if (!same_acl(fd, path))
        mode = user << 6;
    else if (st.st_gid != old->st_gid) /* and so are the members of the old group */
        mode = user << 6 | (group & other & owner) << 3 | (group & other & owner);
    else
        mode = user << 6 | (group & owner) << 3 | (other & owner);
    if ((st.st_mode & 0777) != mode)
        (void)!fchmod(fd, mode); /* some file systems have no modes */
}

static int open_temporary(struct vp_outfile *f, const struct stat *old, struct vp_err *err)
{
    errno = EEXIST;
    for (int serial = 0; serial < 1000 && f->fd < 0 && errno == EEXIST; serial++) {
        give_slot(f);
        if (!name_slot(f, serial))
            f->fd = vp_open_fd(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, old ? 0600 : 0666);
    }
    if (f->fd < 0) {
        vp_fail_errno(err, "%s", f->name);
        give_slot(f); /* its name is another file's */
        return -1;
    }
    if (old)
        inherit(f->fd, f->path, old);
    return 0;
}

/* Opens /dev/fd/N and the like: that file is meant, not a new one in its place. */
static bool names_open_file(const char *path)
{
    return !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/dev/std", 8) || !strncmp(path, "/proc/", 6);
}

bool vp_outfile_is_new(const char *path)
{
    struct stat st;
    return path && strcmp(path, "-") && (stat(path, &st) || (S_ISREG(st.st_mode) && !names_open_file(path)));
}

static int open_target(struct vp_outfile *f, const char *path, struct vp_err *err)
{
    struct stat st;
    const bool exists = !stat(path, &st);
    if (exists && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        vp_fail_errno(err, "%s", path);
        return vp_hint(err, "name a file in it");
    }
    if (exists && (!S_ISREG(st.st_mode) || names_open_file(path))) {
        /* O_CREAT: the kernel then minds whose FIFO it is, where everybody may make one */
        const int more = S_ISREG(st.st_mode) ? O_TRUNC : S_ISFIFO(st.st_mode) ? O_CREAT : 0;
        f->fd = vp_open_fd(path, O_WRONLY | O_CLOEXEC | more, 0600);
        return f->fd < 0 ? vp_fail_errno(err, "%s", path) : 0;
    }
    if (exists && access(path, W_OK))
        return vp_fail_errno(err, "%s", path);
    f->path = vp_follow_links(path, true);
    if (!f->path && errno == EACCES) {
        vp_fail(err, VP_ERUN, "%s: a symbolic link that another user made in a folder that all may write", path);
        return vp_hint(err, "name its target, if that is intended");
    }
    if (!f->path)
        return vp_fail_errno(err, "%s", path);
    return open_temporary(f, exists ? &st : NULL, err);
}

static void release(struct vp_outfile *f)
{
    give_slot(f);
    free(f->path);
    free(f->name);
    free(f);
}

static struct vp_outfile *new_file(const char *name, struct vp_err *err)
{
    struct vp_outfile *f = vp_alloc(1, sizeof *f, name, err);
    if (!f)
        return NULL;
    f->fd = -1;
    f->name = strdup(name);
    if (f->name)
        return f;
    vp_fail_errno(err, "%s", name);
    free(f);
    return NULL;
}

int vp_outfile_open(struct vp_outfile **out, const char *path, struct vp_err *err)
{
    const bool standard = !path || !strcmp(path, "-");
    struct vp_outfile *f = new_file(standard ? "standard output" : path, err);
    struct stat st;
    if (!f)
        return -1;
    f->standard = standard;
    f->fd = standard ? STDOUT_FILENO : -1;
    if (standard ? fstat(f->fd, &st) && vp_fail_errno(err, "%s", f->name) : open_target(f, path, err)) {
        release(f);
        return -1;
    }
#ifdef F_SETPIPE_SZ
    (void)!fcntl(f->fd, F_SETPIPE_SZ, PIPE_BYTES); /* fewer switches between the programs of a pipeline */
#endif
    *out = f;
    return 0;
}

int vp_outfile_join(struct vp_outfile **out, const char *path, const char *name, struct vp_err *err)
{
    struct vp_outfile *f = new_file(path, err);
    if (!f)
        return -1;
    f->joined = true;
    f->fd = vp_open_fd(name, O_RDWR | O_CLOEXEC, 0);
    if (f->fd >= 0 && !take_slot(f, name)) {
        *out = f;
        return 0;
    }
    vp_fail_errno(err, "%s: the file that another rank has begun, %s", path, name);
    if (errno == ENOENT)
        vp_hint(err, "the output must be in a folder that all hosts share, or use --slab-files");
    if (f->fd >= 0)
        close(f->fd);
    release(f);
    return -1;
}

int vp_outfile_write(struct vp_outfile *f, const void *buf, size_t n, struct vp_err *err)
{
    return vp_write_two(f->fd, -1, buf, n, NULL, 0, f->name, err);
}

int vp_outfile_close(struct vp_outfile *f, struct vp_err *err)
{
    /* Some file systems report a full disk only when a descriptor is closed; standard output itself stays
     * open. */
    const int fd = f->standard ? dup(f->fd) : f->fd;
    int rc = fd < 0 || close(fd) ? vp_fail_errno(err, "%s", f->name) : 0;
    if (!rc && f->temporary && !f->joined && rename(f->temporary, f->path))
        rc = vp_fail_errno(err, "%s", f->name);
    if (rc && f->temporary)
        unlink(f->temporary);
    release(f);
    return rc;
}

void vp_outfile_abort(struct vp_outfile *f)
{
    if (!f)
        return;
    if (!f->standard)
        close(f->fd);
    if (f->temporary)
        unlink(f->temporary);
    release(f);
}

int vp_outfile_end(struct vp_outfile *f, int rc, struct vp_err *err)
{
    if (!rc)
        return vp_outfile_close(f, err);
    vp_outfile_abort(f);
    return rc;
}
