/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements device/ranks.h with MPI: voxpipe-mpi.so, the only MPI code. It provides point-to-point messages;
 * collective operations are built from them in device/ranks.c, in a fixed order. */
#include "device/ranks.h"

#include "base/err.h"
#include "build.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t MOST = (size_t)1 << 30; /* largest message, bytes; MPI counts in int */

struct vp_message {
    int n;
    MPI_Request request[];
};

/* Serializes calls of MPI: none of them blocks, and not every MPI supports concurrent calls. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm all;

static int failed(int rc, const char *what, struct vp_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n;
    if (rc == MPI_SUCCESS)
        return 0;
    MPI_Error_string(rc, text, &n);
    return vp_fail(err, VP_ERUN, "MPI cannot %s: %s", what, text);
}

static int begin(struct vp_ranks *r, bool send, int other, enum vp_lane lane, char *p, size_t n,
                 struct vp_message **out, struct vp_err *err)
{
    const size_t pieces = n ? (n - 1) / MOST + 1 : 1;
    struct vp_message *m = malloc(sizeof *m + pieces * sizeof *m->request);
    int rc = MPI_SUCCESS;
    (void)r;
    if (!m)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    m->n = 0;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; m->n < (int)pieces && rc == MPI_SUCCESS; at += MOST) {
        const int bytes = (int)(n - at < MOST ? n - at : MOST);
        MPI_Request *q = &m->request[m->n];
        rc = send ? MPI_Isend(p + at, bytes, MPI_BYTE, other, (int)lane, all, q)
                  : MPI_Irecv(p + at, bytes, MPI_BYTE, other, (int)lane, all, q);
        m->n += rc == MPI_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    *out = m;
    return failed(rc, send ? "send" : "receive", err);
}

static int send_bytes(struct vp_ranks *r, int to, enum vp_lane lane, const void *from, size_t n, struct vp_message **m,
                      struct vp_err *err)
{
    return begin(r, true, to, lane, (char *)(uintptr_t)from, n, m, err);
}

static int take_bytes(struct vp_ranks *r, int from, enum vp_lane lane, void *to, size_t n, struct vp_message **m,
                      struct vp_err *err)
{
    return begin(r, false, from, lane, to, n, m, err);
}

static int test(struct vp_ranks *r, struct vp_message **m, bool *done, struct vp_err *err)
{
    int flag = 0;
    (void)r;
    pthread_mutex_lock(&lock);
    const int rc = MPI_Testall((*m)->n, (*m)->request, &flag, MPI_STATUSES_IGNORE);
    pthread_mutex_unlock(&lock);
    *done = flag;
    if (flag) {
        free(*m);
        *m = NULL;
    }
    return failed(rc, "finish a message", err);
}

static bool probe(struct vp_ranks *r, enum vp_lane lane, int *from)
{
    MPI_Status status;
    int flag = 0;
    (void)r;
    pthread_mutex_lock(&lock);
    const int rc = MPI_Iprobe(MPI_ANY_SOURCE, (int)lane, all, &flag, &status);
    pthread_mutex_unlock(&lock);
    if (rc != MPI_SUCCESS || !flag)
        return false;
    *from = status.MPI_SOURCE;
    return true;
}

static void abort_ranks(struct vp_ranks *r, int status)
{
    (void)r;
    /* mpirun of Open MPI ends the other ranks when one exits like this, and that of 4.1 sometimes hangs after
     * MPI_Abort. Other launchers may leave them waiting. */
    if (!getenv("OMPI_COMM_WORLD_SIZE")) {
        pthread_mutex_lock(&lock);
        MPI_Abort(all, status);
    }
    exit(status);
}

static void close_ranks(struct vp_ranks *r, bool well)
{
    (void)r;
    /* with pending messages MPI_Finalize would wait forever; the launcher cleans up */
    if (well) {
        MPI_Comm_free(&all);
        MPI_Finalize();
    }
}

static struct vp_ranks *open_ranks(struct vp_err *err)
{
    static struct vp_ranks ranks; /* static, since an allocation that fails on one rank would leave the others waiting
                                     */
    struct vp_ranks *const r = &ranks;
    int provided, n;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    if (failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided), "start", err)
        || failed(MPI_Comm_dup(MPI_COMM_WORLD, &all), "start", err))
        return NULL;
    if (provided < MPI_THREAD_SERIALIZED) {
        vp_fail(err, VP_ERESOURCE, "this MPI supports calls of one thread only: expected MPI_THREAD_SERIALIZED");
        return NULL;
    }
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(all, &r->rank);
    MPI_Comm_size(all, &r->size);
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = 0;
    snprintf(r->library, sizeof r->library, "%.100s", text);
    if (gethostname(r->host, sizeof r->host - 1))
        snprintf(r->host, sizeof r->host, "a host without a name");
    r->send = send_bytes;
    r->take = take_bytes;
    r->test = test;
    r->probe = probe;
    r->close = close_ranks;
    r->abort = abort_ranks;
    return r;
}

__attribute__((visibility("default"))) const void *vp_plugin(void);

const void *vp_plugin(void)
{
    static const struct vp_ranks_plugin plugin = {VP_BUILD, open_ranks};
    return &plugin;
}
