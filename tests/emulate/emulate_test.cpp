/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the emulated devices with kernels of a few lines: errors that they return or detect, and results. */
#include "emulate.h"

#define _Atomic /* one thread */
#include "../unit/test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace emulate;

typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static encode_function encode;

template <class... P, class... A>
static cudaError_t run(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared, const A &...args)
{
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = threads;
    c.dynamicSmemBytes = shared;
    return start(&c, kernel, args...);
}

/* Checks that a kernel with n threads and 4 KiB of shared memory aborts with a line that contains `what`. */
template <class... A> static void dies(const char *what, void (*kernel)(A...), int n, A... args)
{
    int ends[2], status = 0;
    char text[4096] = "";
    CHECK(!pipe(ends));
    const pid_t child = fork();
    if (!child) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], 2);
        run(kernel, dim3(1), dim3((unsigned)n), 4096, args...);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t at = 0, got; (got = read(ends[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
        at += got;
    close(ends[0]);
    waitpid(child, &status, 0);
    const bool right = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, what) &&
                       strchr(text, '\n') == text + strlen(text) - 1;
    if (!right)
        printf("expected \"%s\", got \"%s\"\n", what, text);
    CHECK(right);
}

/* ---- launches ---- */

static void nothing() {}

static void refused()
{
    const cudaError_t bad = cudaErrorInvalidConfiguration;
    CHECK_INT(run(nothing, dim3(1, 65535), dim3(1), 0), cudaSuccess);
    CHECK_INT(run(nothing, dim3(1), dim3(32, 32), 48 << 10), cudaSuccess);
    for (const dim3 &blocks : {dim3(0), dim3(1, 0), dim3(1, 65536), dim3(1, 1, 65536), dim3(1u << 31)})
        CHECK_INT(run(nothing, blocks, dim3(1), 0), bad);
    for (const dim3 &threads : {dim3(0), dim3(1025), dim3(1, 1, 65), dim3(33, 32)})
        CHECK_INT(run(nothing, dim3(1), threads, 0), bad);
    CHECK_INT(cudaGetLastError(), bad);
    CHECK_INT(cudaGetLastError(), cudaSuccess);

    /* the limit of shared memory belongs to this kernel on this device */
    const int more = (48 << 10) + 1, most = 227 << 10;
    const auto which = cudaFuncAttributeMaxDynamicSharedMemorySize;
    CHECK_INT(run(nothing, dim3(1), dim3(1), more), cudaErrorInvalidValue);
    CHECK_INT(cudaFuncSetAttribute(nothing, which, most + 1), cudaErrorInvalidValue);
    CHECK_INT(cudaFuncSetAttribute(nothing, which, most), cudaSuccess);
    CHECK_INT(run(nothing, dim3(1), dim3(1), most), cudaSuccess);
    CHECK_INT(run(nothing, dim3(1), dim3(1), most + 1), cudaErrorInvalidValue);
    cudaSetDevice(1);
    CHECK_INT(run(nothing, dim3(1), dim3(1), more), cudaErrorInvalidValue);
    setenv("EMULATED_CAPABILITY", "8", 1);
    CHECK_INT(cudaFuncSetAttribute(nothing, which, most), cudaErrorInvalidValue);
    setenv("EMULATED_CAPABILITY", "9", 1);
    cudaSetDevice(0);
    cudaGetLastError();
}

/* ---- scheduling ---- */

static void note_warps(int *order)
{
    if (now.at->lane == 0)
        order[order[0]++] = now.at->warp;
}

static void note_lanes(int *order)
{
    order[order[0]++] = now.at->lane;
}

/* The second warp, released by the arrival of the first, reads before or after the first has resumed. */
static void note_arrival(int *order)
{
    if (threadIdx().x == 0)
        phases_init(now.shared, 1);
    __syncthreads();
    if (threadIdx().x == 0)
        phases_arrive(now.shared);
    if (threadIdx().x == 32)
        phases_wait(now.shared, 0);
    if (now.at->lane == 0)
        order[order[0]++] = now.at->warp;
}

static void turns()
{
    static const int first[] = {0, 2}, lane[] = {31, 0}, arrived[] = {0, 1};
    for (int device = 0; device < 2; device++) {
        int order[40] = {1};
        cudaSetDevice(device);
        CHECK_INT(run(note_warps, dim3(1), dim3(96), 0, order), cudaSuccess);
        CHECK_INT(order[1], first[device]);
        CHECK_INT(order[2], 1);
        order[0] = 1;
        run(note_lanes, dim3(1), dim3(32), 0, order);
        CHECK_INT(order[1], lane[device]);
        order[0] = 1;
        run(note_arrival, dim3(1), dim3(64), 64, order);
        CHECK_INT(order[1], arrived[device]);
    }
    cudaSetDevice(0);
}

static void wait_for_phase()
{
    if (threadIdx().x == 0)
        phases_init(now.shared, 2);
    __syncthreads();
    if (threadIdx().x == 0)
        phases_arrive(now.shared);
    phases_wait(now.shared, 0);
}
static void wait_for_word(int *word)
{
    while (atomicCAS(word, 1, 0) != 1) {
    }
}
static void wait_for_lanes()
{
    if (now.at->lane % 2)
        __syncthreads();
    __syncwarp();
}

/* ---- copies ---- */

static void copy_in_groups(const int *from, int *seen)
{
    int *const to = (int *)now.shared;
    copy_later(to, from, 4);
    close_copies();
    copy_later(to + 1, from + 1, 4);
    close_copies();
    seen[0] = to[0];
    await_copies(1);
    seen[1] = to[0], seen[2] = to[1];
    await_copies(0);
    seen[3] = to[1];
}

/* A box of 4 x 3 x 2 floats and 32 contiguous bytes. */
enum { BOX = 4 * 3 * 2 };
static void bring(const CUtensorMap map, int x, int y, int z, const float *row, float *out)
{
    float *const to = (float *)now.shared;
    void *const full = now.shared + 1024;
    if (threadIdx().x == 0) {
        phases_init(full, 1);
        phases_expect(full, BOX * 4 + 32);
        copy_box(to, &map, x, y, z, full);
        copy_bulk(to + 32, row, 32, full);
        CHECK(to[0] != to[0]); /* rubbish */
    }
    __syncthreads();
    phases_wait(full, 0);
    for (int i = 0; i < BOX; i++)
        out[i] = to[i];
    for (int i = 0; i < 8; i++)
        out[BOX + i] = to[32 + i];
}

alignas(128) static float volume[3][5][8];

static CUresult map_volume(CUtensorMap *map, cuuint64_t row, cuuint32_t wide, char *base = (char *)volume)
{
    const cuuint64_t size[] = {7, 5, 3}, stride[] = {row, 5 * 8 * 4};
    const cuuint32_t box[] = {wide, 3, 2}, step[] = {1, 1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, base, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void copies()
{
    const int from[] = {5, 6};
    int seen[4];
    run(copy_in_groups, dim3(1), dim3(1), 64, from, seen);
    CHECK(seen[0] == -1 && seen[1] == 5 && seen[2] == -1 && seen[3] == 6);

    CUtensorMap map;
    for (int i = 0; i < 3 * 5 * 8; i++)
        volume[0][0][i] = (float)(i + 1);
    CHECK_INT(map_volume(&map, 32, 4), CUDA_SUCCESS);
    for (int at = -8; at < 12; at += 4) { /* boxes begin at multiples of 16 bytes */
        float out[BOX + 8];
        run(bring, dim3(1), dim3(64), 2048, map, at, at / 2, at / 3, volume[0][0], out);
        for (int i = 0; i < BOX; i++) {
            const int x = at + i % 4, y = at / 2 + i / 4 % 3, z = at / 3 + i / 12;
            const bool inside = x >= 0 && x < 7 && y >= 0 && y < 5 && z >= 0 && z < 3;
            CHECK_NEAR(out[i], inside ? volume[z][y][x] : 0, 0);
        }
        CHECK_NEAR(out[BOX + 7], 8, 0);
    }
    for (const int wrong : {8, 24, 36})
        CHECK_INT(map_volume(&map, wrong, 4), CUDA_ERROR_INVALID_VALUE);
    for (const unsigned wrong : {0, 3, 257, 260})
        CHECK_INT(map_volume(&map, 32, wrong), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(map_volume(&map, 32, 4, (char *)volume + 8), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(map_volume((CUtensorMap *)((char *)&map + 32), 32, 4), CUDA_ERROR_INVALID_VALUE);
}

/* Kernels for dies(), with one error each. */
static void misplaced(const CUtensorMap map, int to, int barrier)
{
    void *const full = now.shared + 3072;
    phases_init(full, 1);
    copy_box(now.shared + to, &map, 0, 0, 0, now.shared + barrier);
}
static void between(const CUtensorMap map, int x)
{
    phases_init(now.shared + 3072, 1);
    copy_box(now.shared, &map, x, 0, 0, now.shared + 3072);
}
static void too_many()
{
    phases_init(now.shared, 1);
    phases_expect(now.shared, 16);
    phases_arrive(now.shared);
}
static void odd_bytes(const float *from, int skip, int bytes)
{
    phases_init(now.shared + 512, 1);
    copy_bulk(now.shared, from + skip, (size_t)bytes, now.shared + 512);
}
static void odd_copy(const char *from) { copy_later(now.shared, from + 4, 8); }
static void beyond() { now.shared[4096] = 1; }
static void load_beyond() { load_shared<float2>((unsigned)(uintptr_t)now.shared + 4092); }
static void no_registers() { set_registers(now.at->warp < 4 ? 256 : 250); }
static void many_registers() { set_registers(256); }

static void slips()
{
    CUtensorMap map;
    int word = 0;
    map_volume(&map, 32, 4);
    dies("64 threads that are left of a block wait for ever", wait_for_phase, 64);
    dies("1 for published words", wait_for_word, 1, &word);
    dies("16 at __syncthreads, 0 for barriers in shared memory, 16 for lanes", wait_for_lanes, 32);
    dies("more arrive at a barrier", too_many, 1);
    dies("not aligned to 128 bytes", misplaced, 1, map, 64, 3072);
    dies("a box of 96 bytes at 4096", misplaced, 1, map, 4096, 3072);
    dies("is no barrier", misplaced, 1, map, 0, 2048);
    dies("before its requests to the copy engine are complete", misplaced, 1, map, 0, 3072);
    dies("a box that begins -24 bytes into a row", between, 1, map, -6);
    dies("a box that begins 4 bytes into a row", between, 1, map, 1);
    dies("no tensor map", misplaced, 1, CUtensorMap{}, 0, 3072);
    dies("a bulk copy of 32 bytes", odd_bytes, 1, (const float *)volume, 1, 32);
    dies("a bulk copy of 24 bytes", odd_bytes, 1, (const float *)volume, 0, 24);
    dies("a copy of 8 bytes", odd_copy, 1, (const char *)volume);
    dies("wrote beyond its shared memory", beyond, 1);
    dies("a load of 8 bytes at 4092", load_beyond, 1);
    dies("cannot have 250 registers", no_registers, 256);
    dies("want 81920 registers", many_registers, 320);
}

int main()
{
    cudaDriverEntryPointQueryResult found;
    setenv("EMULATED_CAPABILITY", "9", 1);
    CHECK_INT(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000, cudaEnableDefault,
                                               &found), cudaSuccess);
    CHECK_INT(found, cudaDriverEntryPointSuccess);
    refused();
    turns();
    copies();
    slips();
    return test_done();
}
