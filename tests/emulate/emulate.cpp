/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a block as fibers, and as much of CUDA's runtime as cuda/ calls: queues whose work is done when it is
 * queued. Every thread of the system has fibers of its own. EMULATED_DEVICES: how many devices there are (2). */
#include "emulate.h"

#include <cstdio>
#include <ctime>
#include <sys/mman.h>
#include <vector>

namespace emulate
{

thread_local place now;

enum { READY, EXCHANGING, AT_BARRIER, ENDED };
static const size_t STACK = 192 << 10;

struct warp {
    uint32_t waiting, there; /* lanes */
    uint64_t given[LANES];
};

/* The block that is running. */
struct block {
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<char> shared;
    char *stacks;
    size_t n_stacks;
    void *scheduler;
    const std::function<void()> *kernel;
    int n, left, waiting, any, result;
};
static thread_local block b;

[[noreturn]] static void die(const char *why)
{
    fprintf(stderr, "emulated device: %s\n", why);
    abort();
}

/* Leaves this stack for another one, both with what a function has to keep on top. */
extern "C" void emulate_switch(void **from, void *to);
asm(".text\n"
    ".type emulate_switch,@function\n"
    "emulate_switch:\n"
    "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
    "ret\n"
    ".size emulate_switch, .-emulate_switch\n");
enum { KEPT = 6 };

void yield()
{
    emulate_switch(&now.at->stack, b.scheduler);
}

static void wait()
{
    while (now.at->state != READY)
        yield();
}

/* Lanes whose partners are all there (those that have ended are not waited for) get what was given. */
static void release_lanes(int w)
{
    warp *const all = &b.warps[w];
    thread *const lane = &b.threads[w * LANES];
    for (int i = 0; i < LANES; i++) {
        if (!(all->waiting >> i & 1))
            continue;
        const uint32_t partners = lane[i].mask & all->there;
        if ((all->waiting & partners) != partners)
            continue;
        for (int k = 0; k < LANES; k++) {
            if (!(partners >> k & 1))
                continue;
            if (lane[k].mask != lane[i].mask)
                die("lanes of a warp exchange with different masks");
            memcpy(lane[k].got, all->given, sizeof all->given);
            lane[k].state = READY;
        }
        all->waiting &= ~partners;
    }
}

static void release_barrier()
{
    if (!b.left || b.waiting < b.left)
        return;
    b.result = b.any;
    b.any = b.waiting = 0;
    for (int i = 0; i < b.n; i++)
        if (b.threads[i].state == AT_BARRIER)
            b.threads[i].state = READY;
}

void exchange(uint32_t mask, uint64_t value)
{
    thread *const t = now.at;
    if (!(mask >> t->lane & 1))
        die("a lane is not in its own mask");
    b.warps[t->warp].given[t->lane] = value;
    b.warps[t->warp].waiting |= 1u << t->lane;
    t->mask = mask;
    t->state = EXCHANGING;
    release_lanes(t->warp);
    wait();
}

int barrier(int value)
{
    b.any |= value;
    b.waiting++;
    now.at->state = AT_BARRIER;
    release_barrier();
    wait();
    return b.result;
}

static void fiber()
{
    (*b.kernel)();
    thread *const t = now.at;
    t->state = ENDED;
    b.left--;
    b.warps[t->warp].there &= ~(1u << t->lane);
    release_lanes(t->warp);
    release_barrier();
    yield();
    die("a thread that has ended goes on");
}

static void run_block()
{
    const dim3 size = now.threads;
    b.left = b.n;
    b.waiting = b.any = 0;
    for (warp &w : b.warps)
        w.waiting = w.there = 0;
    for (int i = 0; i < b.n; i++) {
        const unsigned u = (unsigned)i;
        thread *const t = &b.threads[i];
        t->index = {u % size.x, u / size.x % size.y, u / size.x / size.y};
        t->lane = i % LANES;
        t->warp = i / LANES;
        t->state = READY;
        b.warps[t->warp].there |= 1u << t->lane;
        /* as if fiber() had been called: 8 bytes below a multiple of 16 */
        void **top = (void **)(b.stacks + (size_t)(i + 1) * STACK) - 1;
        *--top = (void *)fiber;
        for (int k = 0; k < KEPT; k++)
            *--top = NULL;
        t->stack = top;
    }
    while (b.left) {
        bool any = false;
        for (int i = 0; i < b.n; i++) {
            if (b.threads[i].state != READY)
                continue;
            any = true;
            now.at = &b.threads[i];
            emulate_switch(&b.scheduler, now.at->stack);
        }
        if (!any)
            die("the threads of a block wait for each other for ever");
    }
}

void launch(const cudaLaunchConfig_t *c, const std::function<void()> &kernel)
{
    const dim3 n = c->gridDim;
    now.threads = c->blockDim;
    now.blocks = n;
    b.n = (int)(c->blockDim.x * c->blockDim.y * c->blockDim.z);
    b.kernel = &kernel;
    b.warps.resize((size_t)(b.n + LANES - 1) / LANES);
    if (b.threads.size() < b.warps.size() * LANES)
        b.threads.resize(b.warps.size() * LANES);
    if (b.n_stacks < (size_t)b.n) {
        if (b.stacks)
            munmap(b.stacks, b.n_stacks * STACK);
        b.n_stacks = (size_t)b.n;
        b.stacks = (char *)mmap(NULL, b.n_stacks * STACK, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (b.stacks == MAP_FAILED)
            die("no memory for the threads of a block");
    }
    b.shared.resize(c->dynamicSmemBytes + 2048);
    now.shared = (char *)(((uintptr_t)b.shared.data() + 1023) / 1024 * 1024);
    for (unsigned i = 0; i < n.x * n.y * n.z; i++) {
        now.block = {i % n.x, i / n.x % n.y, i / n.x / n.y};
        memset(now.shared, 0xa5, c->dynamicSmemBytes);
        run_block();
    }
}

uint64_t tick()
{
    static thread_local uint64_t t;
    return t += 10;
}

}

/* ---- the runtime ---- */

struct CUevent_st {
    struct timespec t;
};

static thread_local int current;

static cudaError_t allot(void **p, size_t bytes)
{
    const size_t all = bytes / 4096 * 4096 + 8192;
    *p = aligned_alloc(4096, all);
    if (!*p)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xcd, all);
    return cudaSuccess;
}

static cudaError_t copy(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        memmove((char *)to + i * to_row, (const char *)from + i * from_row, bytes);
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *n)
{
    const char *given = getenv("EMULATED_DEVICES");
    *n = given ? atoi(given) : 2;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated device %d", device);
    p->major = 8;
    p->multiProcessorCount = 1;
    p->uuid.bytes[0] = (char)(device + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int)
{
    *value = which == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 163 << 10
             : which == cudaDevAttrMultiProcessorCount        ? 1
             : which == cudaDevAttrClockRate                  ? 200000000 /* kHz: for plans, as fast as real ones */
             : which == cudaDevAttrComputeCapabilityMajor     ? 8
                                                              : 0;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = (size_t)1 << 30;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "of the emulated device"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **f, unsigned, unsigned long long,
                                             enum cudaDriverEntryPointQueryResult *)
{
    *f = NULL;
    return cudaErrorNotSupported;
}

cudaError_t cudaMalloc(void **p, size_t bytes) { return allot(p, bytes); }
cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) { return allot(p, bytes); }
cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaErrorNotSupported; }
cudaError_t cudaHostUnregister(void *) { return cudaErrorInvalidValue; }

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
    return copy(to, 0, from, 0, bytes, 1);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t)
{
    return copy(to, 0, from, 0, bytes, 1);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes, size_t rows,
                              enum cudaMemcpyKind, cudaStream_t)
{
    return copy(to, to_row, from, from_row, bytes, rows);
}
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t)
{
    for (size_t z = 0; z < p->extent.depth; z++) {
        const cudaPitchedPtr to = p->dstPtr, from = p->srcPtr;
        copy((char *)to.ptr + ((p->dstPos.z + z) * to.ysize + p->dstPos.y) * to.pitch + p->dstPos.x, to.pitch,
             (char *)from.ptr + ((p->srcPos.z + z) * from.ysize + p->srcPos.y) * from.pitch + p->srcPos.x, from.pitch,
             p->extent.width, p->extent.height);
    }
    return cudaSuccess;
}
cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    memset(p, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) { return cudaMemset(p, value, bytes); }
cudaError_t cudaMemset2DAsync(void *p, size_t row, int value, size_t bytes, size_t rows, cudaStream_t)
{
    for (size_t i = 0; i < rows; i++)
        memset((char *)p + i * row, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = (cudaStream_t)malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return cudaFree(s); }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = (cudaEvent_t)calloc(1, sizeof(CUevent_st));
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return cudaFree(e); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t)
{
    clock_gettime(CLOCK_MONOTONIC, &e->t);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(1e3 * (double)(to->t.tv_sec - from->t.tv_sec) + 1e-6 * (double)(to->t.tv_nsec - from->t.tv_nsec));
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *)
{
    memset(a, 0, sizeof *a);
    a->maxDynamicSharedSizeBytes = 163 << 10;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int, size_t)
{
    *n = 1;
    return cudaSuccess;
}
}
