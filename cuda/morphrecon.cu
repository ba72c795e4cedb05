/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction: kernel "morphrecon" of global/morphrecon.h.
 *
 * Overview: samples are converted to keys in tiles (morphrecon_samples.cuh). Flat images are first reconstructed by
 *   active tiles in registers (morphrecon_tiles.cuh). What these leave, and solid images, is reconstructed by
 *   contraction (morphrecon_contract.cuh, morphrecon_solve.cuh). Then keys are converted back to samples. The host does
 *   not wait in between: the queue of tiles sets a flag on the device if the contraction has work left. */
#include "morphrecon_samples.cuh"
#include "morphrecon_shell.cuh"
#include "morphrecon_tiles.cuh"

#include <cstdio>
#include <utility>

namespace
{

using namespace vp;

/* ---- memory ---- */

/* Lays out the buffers in `scratch` (NULL: only sizes), for the largest numbers of nodes of a tile, of edges to later
 * tiles, and of slots of the queue. Returns the bytes. */
template <class U, int CONN> uint64_t lay_out(const recon_shape &s, void *scratch, recon_buffers<U> *b)
{
    typedef tile_of<U, CONN> TILE;
    const uint64_t tiles = (uint64_t)s.tiles, voxels = tiles * TILE::P, nodes = tiles * TILE::RIM,
                   edges = nodes + tiles * TILE::crossings();
    vp_arena c = {(char *)scratch, 0};
    b->slots = 16384; /* more than twice the blocks of a launch */
    while (b->slots < 2 * tiles)
        b->slots *= 2;
    c.take(b->control, 1);
    c.take(b->value, voxels);
    c.take(b->mask, voxels);
    if (TILE::FLAT) {
        c.take(b->transposed, voxels);
        c.take(b->slot, b->slots);
        c.take(b->state, tiles);
    }
    c.take(b->low, voxels);
    c.take(b->high, voxels);
    c.take(b->node, voxels);
    c.take(b->base, tiles);
    c.take(b->label, nodes);
    c.take(b->parent, nodes);
    c.take(b->marker, nodes);
    c.take(b->through, nodes);
    c.take(b->result, nodes);
    c.take(b->best, nodes);
    if (sizeof(U) == 8)
        c.take(b->which, nodes);
    c.take(b->beyond, nodes);
    c.take(b->number, nodes);
    c.take(b->from, edges);
    c.take(b->to, edges);
    c.take(b->capacity, edges);
    return c.used;
}

/* ---- the kernels in order ---- */

/* Returns the number of blocks that are resident on the device at once. */
template <class Kernel> unsigned resident_blocks(Kernel *kernel, const struct vp_queue *q, int threads, size_t shared)
{
    int n = 1;
    if (shared) {
        vp_allow_shared(kernel, shared);
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    }
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, shared) != cudaSuccess || n < 1)
        n = 1;
    return (unsigned)n * (unsigned)q->sms;
}

/* Launches a kernel whose thread blocks synchronise with each other: at most `blocks`, all resident at once. */
template <class Job>
int launch_resident(void (*kernel)(Job), const Job &job, int64_t blocks, size_t shared, const struct vp_queue *q,
                    struct vp_err *err)
{
    const dim3 grid((unsigned)vp_min64(blocks, resident_blocks(kernel, q, SOLVE_THREADS, shared)));
    return vp_gpu_check(err, launch_cooperative(q->stream, kernel, grid, dim3(SOLVE_THREADS), shared, job),
                        "cannot start a CUDA kernel");
}

/* Launches the contraction, or, for the summary of a box with `shell`, only the part that builds its graph. */
template <class U, int CONN>
int contract(const recon_buffers<U> &b, const recon_shape &s, const struct vp_shell *shell, const struct vp_queue *q,
             struct vp_err *err)
{
    contract_job<U> job = {b, s, {}, !shell};
    for (int a = 0; a < 3 && shell; a++) {
        job.outside[2 * a] = shell->lo[a];
        job.outside[2 * a + 1] = shell->hi[a];
    }
    return launch_resident(contract_kernel<U, CONN, SOLVE_THREADS>, job, s.tiles, contract_shared<U, CONN>(), q, err);
}

template <class U, bool DIAGONAL>
int wave(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, struct vp_err *err)
{
    auto *const kernel = flat_kernel<U, DIAGONAL>;
    const size_t shared = sizeof(tile_memory<U>);
    const uint64_t sms = (uint64_t)q->sms;
    flat_job<U> job = {b, s.t[0], s.t[1], 0, 0, 0, 1};
    /* A visit takes 5 to 20 us; all blocks work in parallel, but on a winding path only one does. The contraction takes
     * about 0.25 us a tile. */
    job.least = 120000;
    job.each = 45 * 132 / sms + 1;
    job.most = 150000 + (uint64_t)s.tiles * 250 * 132 / sms;
    const dim3 blocks((unsigned)vp_min64(s.tiles, resident_blocks(kernel, q, 32, shared)));
    return vp_start(err, q->stream, kernel, blocks, dim3(32), shared, job);
}

/* Launches the reconstruction; marker and mask are in their tiles, all tiles are queued, and the counters are 0. */
template <class U, int CONN>
int fill(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, struct vp_err *err)
{
    if constexpr (CONN == 4 || CONN == 8) {
        if (wave<U, CONN == 8>(b, s, q, err))
            return -1;
    } else if (vp_gpu_check(err, cudaMemsetAsync(&b.control->contract, 1, 1, q->stream), "the CUDA device failed")) {
        return -1;
    }
    return contract<U, CONN>(b, s, NULL, q, err);
}

/* ---- the passes over a box ---- */

template <class S, int CONN>
int make(const sample_job<S> &j, const shell_job<key<S>> &shell, enum vp_visit visit, const struct vp_queue *q,
         struct vp_err *err)
{
    typedef key<S> U;
    typedef tile_of<U, CONN> TILE;
    constexpr bool FLAT = TILE::FLAT;
    const recon_buffers<U> &b = shell.b;
    const int64_t most = (int64_t)q->sms * 32, faces = shell_faces(shell);
    const size_t staged = FLAT ? 2 * sizeof(staged_tile<U>) : 0;
    const dim3 all((unsigned)vp_min64(j.s.tiles, most)), rim((unsigned)vp_min64(vp_div_up(faces, 256), most)),
        threads(256);
    if (vp_gpu_check(err, cudaMemsetAsync(b.control, 0, sizeof *b.control, q->stream), "the CUDA device failed")
        || vp_start(err, q->stream, load_kernel<S, FLAT>, all, dim3(SAMPLE_THREADS), staged, j))
        return -1;
    if (visit == VP_FINISH
        && vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_RAISE>, rim, threads, 0, shell, faces))
        return -1;
    if (fill<U, CONN>(b, j.s, q, err))
        return -1;
    if (visit != VP_SUMMARY) {
        if (vp_start(err, q->stream, store_kernel<S, FLAT>, all, dim3(SAMPLE_THREADS), staged, j))
            return -1;
        return visit == VP_MAKE && shell.entry
                   ? vp_start(err, q->stream, header_kernel<U>, dim3(1), dim3(1), 0, shell, false)
                   : 0;
    }
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)shell.entry;
    const solve_job<U> job = {b, &e->edges, shell.entry + vp_entry_edge(shell.key, shell.voxels), shell.voxels};
    if (vp_start(err, q->stream, reset_kernel<U>, dim3(1), dim3(1), 0, b, e)
        || contract<U, CONN>(b, j.s, &shell.shell, q, err)
        || vp_start(err, q->stream, clear_kernel<U>, rim, threads, 0, b)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_COUNT>, rim, threads, 0, shell, faces)
        || launch_resident(summary_kernel<U>, job, vp_div_up((int64_t)j.s.tiles * TILE::RIM, SOLVE_THREADS),
                           SOLVE_THREADS / 32 * sizeof(uint32_t), q, err)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_STORE>, rim, threads, 0, shell, faces)
        || vp_start(err, q->stream, header_kernel<U>, dim3(1), dim3(1), 0, shell, true))
        return -1;
    return 0;
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_morphrecon_params>;
constexpr unsigned TYPES = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 | 1u << VP_F64;

/* Returns f(sample, connectivity) with values of the types of op. */
template <class F> auto by_kind(const struct vp_morphrecon_params *p, const F &f)
{
    const auto with = [&](auto s) {
        switch (p->connectivity) {
        case 4: return f(s, std::integral_constant<int, 4>());
        case 8: return f(s, std::integral_constant<int, 8>());
        case 6: return f(s, std::integral_constant<int, 6>());
        case 18: return f(s, std::integral_constant<int, 18>());
        default: return f(s, std::integral_constant<int, 26>());
        }
    };
    return vp_by_type_of<TYPES & ~(1u << VP_F64), double>(p->type, with);
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    const enum vp_type t = params(op)->type;
    const int c = params(op)->connectivity;
    if (t == VP_F64 && c != 4 && c != 8
        && contract_shared<uint64_t, 26>() > vp_shared_least()) {
        snprintf(why, size, "volumes of f64 take more shared memory than this device has");
        return false;
    }
    return vp_has_types(TYPES & 1u << t, op, why, size);
}

/* True for images of one row and many planes, which are flat, too: y and z are exchanged for them. */
bool is_one_row(const struct vp_op *op)
{
    const int c = params(op)->connectivity;
    return op->image[1] == 1 && op->image[2] > 1 && (c == 4 || c == 8);
}

void swap_yz(int64_t v[3])
{
    std::swap(v[1], v[2]);
}

void swap_yz(struct vp_box *b)
{
    swap_yz(b->lo);
    swap_yz(b->hi);
}

void swap_yz(vp_area *a)
{
    swap_yz(&a->box);
    std::swap(a->pitch, a->plane);
}

uint64_t scratch(const struct vp_op *op, const int64_t[3], const int64_t out[3])
{
    int64_t n[3] = {out[0], out[1], out[2]};
    if (is_one_row(op))
        swap_yz(n);
    return by_kind(params(op), [&](auto s, auto conn) -> uint64_t {
        typedef key<decltype(s)> U;
        recon_buffers<U> b;
        return lay_out<U, conn.value>(recon_shape_of<U, tile_of<U, conn.value>::FLAT>(n), NULL, &b);
    });
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    struct vp_shell s;
    for (int a = 0; a < 3; a++) {
        s.size[a] = out[a];
        s.lo[a] = s.hi[a] = out[a] < op->image[a];
    }
    return vp_entry_bytes(params(op)->key, (uint64_t)vp_shell_voxels(&s));
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    const struct vp_morphrecon_params *p = params(op);
    return by_kind(p, [=](auto s, auto conn) -> int {
        typedef decltype(s) S;
        typedef key<S> U;
        sample_job<S> j = {};
        shell_job<U> shell = {};
        const bool given = p->marker == VP_MARKER_GIVEN;
        j.in[0] = work->in[0];
        j.in[1] = work->in[given ? 1 : 0];
        j.out = *work->out;
        j.box = work->out->box;
        for (int a = 0; a < 3; a++) {
            j.image[a] = op->image[a];
            j.seed[a] = p->seed[a];
        }
        if (is_one_row(op)) {
            swap_yz(j.image);
            swap_yz(j.seed);
            swap_yz(&j.box);
            swap_yz(&j.in[0]);
            swap_yz(&j.in[1]);
            swap_yz(&j.out);
        }
        shell.shell = vp_shell_of(&j.box, j.image);
        shell.s = j.s = recon_shape_of<U, tile_of<U, conn.value>::FLAT>(shell.shell.size);
        shell.key = p->key;
        shell.voxels = (uint32_t)vp_shell_voxels(&shell.shell);
        shell.entry = (char *)work->state;
        lay_out<U, conn.value>(j.s, work->scratch, &shell.b);
        j.marker = p->marker;
        j.result = p->result;
        j.erosion = p->erosion;
        j.h = p->h;
        j.floor = (U)p->floor;
        j.lowest = (U)vp_key_lowest(p->key);
        j.b = shell.b;
        return make<S, conn.value>(j, shell, work->visit, work->queue, err);
    });
}

} // namespace

VP_GPU_KERNEL(morphrecon, has, scratch, NULL, NULL, launch, state);
