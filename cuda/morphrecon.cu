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

/* Numbers of nodes and of edges. */
struct graph_room {
    uint64_t nodes, edges;
};

constexpr uint64_t MOST_EDGES = UINT32_MAX - 1;   /* their indices have 32 bits */
constexpr uint64_t NEVER = UINT64_MAX / 16;       /* bytes that no device has */

/* Returns the most nodes and edges that an image can have: every voxel at a tile's border is a node, and an edge to each
 * neighbour in a later tile. */
template <class TILE> graph_room worst_graph(const recon_shape &s)
{
    const uint64_t tiles = (uint64_t)s.tiles, nodes = tiles * TILE::RIM;
    return {nodes, nodes + tiles * TILE::crossings()};
}

/* Returns the room for a held image: a node for one voxel in 32, and three edges to later tiles for each. White noise
 * has half of these nodes, most images a tenth; for others settle() makes more room, once they are counted. */
template <class TILE> graph_room usual_graph(const recon_shape &s)
{
    const graph_room worst = worst_graph<TILE>(s);
    const uint64_t voxels = (uint64_t)s.tiles * TILE::P;
    const graph_room usual = {voxels / 32, voxels / 8};
    return usual.edges < worst.edges ? usual : worst;
}

/* Lays out the arrays of the graph. `boxes`: with those that only boxes need. */
template <class U> void lay_out_graph(vp_arena &c, const graph_room &room, bool boxes, recon_buffers<U> *b)
{
    b->node_room = (uint32_t)room.nodes;
    b->edge_room = (uint32_t)room.edges;
    c.take(b->label, room.nodes);
    c.take(b->parent, room.nodes);
    c.take(b->marker, room.nodes);
    c.take(b->through, room.nodes);
    c.take(b->result, room.nodes);
    c.take(b->best, room.nodes);
    if (sizeof(U) == 8)
        c.take(b->which, room.nodes);
    if (boxes) {
        c.take(b->beyond, room.nodes);
        c.take(b->number, room.nodes);
    }
    c.take(b->from, room.edges);
    c.take(b->to, room.edges);
    c.take(b->capacity, room.edges);
}

/* Lays out the buffers in `scratch` (NULL: only sizes): of a box or an image of one part, for the worst graph; of a held
 * image, for a usual one. Returns the bytes. */
template <class U, int CONN> uint64_t lay_out(const recon_shape &s, bool held, void *scratch, recon_buffers<U> *b)
{
    typedef tile_of<U, CONN> TILE;
    const graph_room room = held ? usual_graph<TILE>(s) : worst_graph<TILE>(s);
    const uint64_t tiles = (uint64_t)s.tiles, voxels = tiles * TILE::P;
    vp_arena c = {(char *)scratch, 0};
    if (room.edges > MOST_EDGES)
        return NEVER;
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
    lay_out_graph(c, room, !held, b);
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

/* Launches the contraction of all tiles, to `end`; END_EDGES with `shell`: for the summary of a box. */
template <class U, int CONN>
int contract(const recon_buffers<U> &b, const recon_shape &s, enum contract_end end, const struct vp_shell *shell,
             const struct vp_queue *q, struct vp_err *err)
{
    contract_job<U> job = {b, s, {}, 0, s.tiles, end};
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
    return contract<U, CONN>(b, s, END_VALUES, NULL, q, err);
}

/* ---- the passes over a box ---- */

template <class S, int CONN>
int make(const sample_job<S> &j, const shell_job<key<S>> &shell, enum vp_pass pass, const struct vp_queue *q,
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
    if (pass == VP_FINISH
        && vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_RAISE>, rim, threads, 0, shell, faces))
        return -1;
    if (fill<U, CONN>(b, j.s, q, err))
        return -1;
    if (pass != VP_SUMMARY) {
        if (vp_start(err, q->stream, store_kernel<S, FLAT>, all, dim3(SAMPLE_THREADS), staged, j))
            return -1;
        return pass == VP_MAKE && shell.entry
                   ? vp_start(err, q->stream, header_kernel<U>, dim3(1), dim3(1), 0, shell, false)
                   : 0;
    }
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)shell.entry;
    const solve_job<U> job = {b, &e->edges, shell.entry + vp_entry_edge(shell.key, shell.voxels), shell.voxels};
    if (vp_start(err, q->stream, reset_kernel<U>, dim3(1), dim3(1), 0, b, e)
        || contract<U, CONN>(b, j.s, END_EDGES, &shell.shell, q, err)
        || vp_start(err, q->stream, clear_kernel<U>, rim, threads, 0, b)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_COUNT>, rim, threads, 0, shell, faces)
        || launch_resident(summary_kernel<U>, job, vp_div_up((int64_t)j.s.tiles * TILE::RIM, SOLVE_THREADS),
                           SOLVE_THREADS / 32 * sizeof(uint32_t), q, err)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_STORE>, rim, threads, 0, shell, faces)
        || vp_start(err, q->stream, header_kernel<U>, dim3(1), dim3(1), 0, shell, true))
        return -1;
    return 0;
}

/* ---- a held image ---- */

/* Its tiles are contracted as their planes come, those of the last layer of a part with the next part. */

constexpr const char *FAILED = "the CUDA device failed";

/* Contracts tiles [first, last), whose neighbours are all there; with END_EDGES then finds the edges between all
 * tiles. */
template <class U, int CONN>
int contract_held(const recon_buffers<U> &b, const recon_shape &s, int first, int last, enum contract_end end,
                  const struct vp_queue *q, struct vp_err *err)
{
    recon_control *const c = b.control;
    const contract_job<U> job = {b, s, {}, first, last, end};
    return vp_gpu_check(err, cudaMemsetAsync(c->graph.ticket, 0, sizeof c->graph.ticket, q->stream), FAILED)
                   || vp_gpu_check(err, cudaMemsetAsync(&c->grid, 0, sizeof c->grid, q->stream), FAILED)
                   || launch_resident(contract_kernel<U, CONN, SOLVE_THREADS>, job,
                                      end == END_TILES ? last - first : s.tiles, contract_shared<U, CONN>(), q, err)
               ? -1 : 0;
}

/* Converts the tiles of one part. */
template <class S, int CONN>
int move_part(sample_job<S> j, const struct vp_work *work, struct vp_err *err)
{
    typedef key<S> U;
    const struct vp_queue *const q = work->queue;
    const struct vp_box &box = work->out->box;
    const int layer = j.s.t[0] * j.s.t[1], side = tile_side<U, false>;
    j.first = (int)(box.lo[2] / side) * layer;
    j.last = (int)vp_div_up(box.hi[2], side) * layer;
    const dim3 blocks((unsigned)vp_min64(j.last - j.first, (int64_t)q->sms * 32)), threads(SAMPLE_THREADS);
    if (work->pass == VP_SCATTER)
        return vp_start(err, q->stream, store_kernel<S, false>, blocks, threads, 0, j);
    recon_control *const c = j.b.control;
    if (j.first == 0
        && (vp_gpu_check(err, cudaMemsetAsync(c, 0, sizeof *c, q->stream), FAILED)
            || vp_gpu_check(err, cudaMemsetAsync(&c->contract, 1, 1, q->stream), FAILED)))
        return -1;
    if (vp_start(err, q->stream, load_kernel<S, false>, blocks, threads, 0, j))
        return -1;
    const int first = j.first == 0 ? 0 : j.first - layer, last = j.last == j.s.tiles ? j.last : j.last - layer;
    return last > first ? contract_held<U, CONN>(j.b, j.s, first, last, END_TILES, q, err) : 0;
}

/* Solves a held image whose planes are all there. Its graph gets memory of its own if it has more nodes or edges than
 * there is room for; it is built anew then, in an order of its edges that may cost a few more. */
template <class U, int CONN>
int settle_image(recon_buffers<U> b, const recon_shape &s, recon_control *found, const struct vp_queue *q,
                 struct vp_err *err)
{
    void *more = NULL;
    int rc = contract_held<U, CONN>(b, s, 0, 0, END_EDGES, q, err);
    for (;;) {
        recon_control *const c = b.control;
        rc = rc || vp_gpu_check(err, cudaMemcpyAsync(found, c, sizeof *found, cudaMemcpyDeviceToHost, q->stream), FAILED)
             || vp_gpu_check(err, cudaStreamSynchronize(q->stream), FAILED) ? -1 : 0;
        const uint64_t nodes = found->graph.nodes, edges = nodes + found->graph.crossing;
        if (rc || (nodes <= b.node_room && edges <= b.edge_room))
            break;
        const graph_room room = {nodes, edges + edges / 8 + 4096};
        recon_buffers<U> sizes;
        vp_arena arena = {NULL, 0};
        lay_out_graph(arena, room, false, &sizes);
        if (more)
            cudaFree(more);
        more = NULL;
        if (room.edges > MOST_EDGES || cudaMalloc(&more, arena.used) != cudaSuccess) {
            cudaGetLastError();
            rc = vp_fail(err, VP_ERESOURCE, "the graph of the image has %llu nodes and %llu edges: %s on the device",
                         (unsigned long long)nodes, (unsigned long long)edges, vp_bytes_text(arena.used).text);
            break;
        }
        arena = {(char *)more, 0};
        lay_out_graph(arena, room, false, &b);
        rc = vp_gpu_check(err, cudaMemsetAsync(&c->graph, 0, sizeof c->graph, q->stream), FAILED)
             || contract_held<U, CONN>(b, s, 0, s.tiles, END_EDGES, q, err) ? -1 : 0;
    }
    const dim3 blocks((unsigned)vp_min64(vp_div_up((int64_t)vp_max64(found->graph.nodes, 1), SOLVE_THREADS),
                                         resident_blocks(solve_kernel<U>, q, SOLVE_THREADS, 64)));
    rc = rc || vp_gpu_check(err, cudaMemsetAsync(&b.control->grid, 0, sizeof b.control->grid, q->stream), FAILED)
         || vp_gpu_check(err, launch_cooperative(q->stream, solve_kernel<U>, blocks, dim3(SOLVE_THREADS),
                                                 SOLVE_THREADS / 32 * sizeof(uint32_t), b),
                         "cannot start a CUDA kernel")
         || vp_start(err, q->stream, apply_kernel<U, CONN>, dim3((unsigned)q->sms * 8), dim3(256), 0, b, s.tiles)
         || vp_gpu_check(err, cudaStreamSynchronize(q->stream), FAILED) ? -1 : 0;
    if (more)
        cudaFree(more);
    return rc;
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

uint64_t scratch(const struct vp_op *op, const int64_t[3], const int64_t out[3])
{
    return by_kind(params(op), [&](auto s, auto conn) -> uint64_t {
        typedef key<decltype(s)> U;
        recon_buffers<U> b;
        return lay_out<U, conn.value>(recon_shape_of<U, tile_of<U, conn.value>::FLAT>(out), false, NULL, &b);
    });
}

/* Images of floats whose result is a difference are not held: it needs the samples of the mask, for NaN. */
uint64_t hold(const struct vp_op *op, int64_t *step)
{
    const struct vp_morphrecon_params *const p = params(op);
    const bool samples = p->result == VP_RECON_DIFFERENCE && (p->type == VP_F32 || p->type == VP_F64);
    return by_kind(p, [&](auto s, auto conn) -> uint64_t {
        typedef key<decltype(s)> U;
        typedef tile_of<U, conn.value> TILE;
        if (TILE::FLAT || samples || op->image[0] * op->image[1] * op->image[2] / TILE::P > INT32_MAX / 2)
            return 0;
        const recon_shape shape = recon_shape_of<U, TILE::FLAT>(op->image);
        recon_buffers<U> b;
        *step = TILE::DEPTH;
        return worst_graph<TILE>(shape).nodes > MOST_EDGES ? 0 : lay_out<U, conn.value>(shape, true, NULL, &b);
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

/* Fills what a job has of its operation: all but the areas and the buffers. */
template <class S, bool FLAT>
sample_job<S> job_of(const struct vp_op *op, const struct vp_box &box)
{
    const struct vp_morphrecon_params *p = params(op);
    sample_job<S> j = {};
    int64_t size[3];
    j.box = box;
    for (int a = 0; a < 3; a++) {
        j.image[a] = op->image[a];
        j.seed[a] = p->seed[a];
        size[a] = vp_box_size(&box, a);
    }
    j.s = recon_shape_of<key<S>, FLAT>(size);
    j.last = j.s.tiles;
    j.marker = p->marker;
    j.result = p->result;
    j.erosion = p->erosion;
    j.h = p->h;
    j.floor = (key<S>)p->floor;
    j.lowest = (key<S>)vp_key_lowest(p->key);
    return j;
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    const struct vp_morphrecon_params *p = params(op);
    return by_kind(p, [=](auto s, auto conn) -> int {
        typedef decltype(s) S;
        typedef key<S> U;
        constexpr bool FLAT = tile_of<U, conn.value>::FLAT;
        const bool held = work->pass == VP_GATHER || work->pass == VP_SCATTER;
        const struct vp_box image = {{0, 0, 0}, {op->image[0], op->image[1], op->image[2]}};
        sample_job<S> j = job_of<S, FLAT>(op, held ? image : work->out->box);
        shell_job<U> shell = {};
        j.in[0] = work->in[0];
        j.in[1] = work->in[p->marker == VP_MARKER_GIVEN ? 1 : 0];
        j.out = *work->out;
        lay_out<U, conn.value>(j.s, held, work->scratch, &j.b);
        if constexpr (!FLAT)
            if (held)
                return move_part<S, conn.value>(j, work, err);
        shell.b = j.b;
        shell.s = j.s;
        shell.shell = vp_shell_of(&j.box, j.image);
        shell.key = p->key;
        shell.voxels = (uint32_t)vp_shell_voxels(&shell.shell);
        shell.entry = (char *)work->state;
        return make<S, conn.value>(j, shell, work->pass, work->queue, err);
    });
}

int settle(const struct vp_op *op, void *scratch, void *counts, struct vp_queue *queue, struct vp_err *err)
{
    if (vp_gpu_check(err, cudaSetDevice(queue->device), "the CUDA device failed"))
        return -1;
    return by_kind(params(op), [=](auto s, auto conn) -> int {
        typedef key<decltype(s)> U;
        if constexpr (!tile_of<U, conn.value>::FLAT) {
            const recon_shape shape = recon_shape_of<U, false>(op->image);
            recon_buffers<U> b;
            recon_control found;
            lay_out<U, conn.value>(shape, true, scratch, &b);
            if (settle_image<U, conn.value>(b, shape, &found, queue, err))
                return -1;
            *(struct vp_morphrecon_entry *)counts = {};
            ((struct vp_morphrecon_entry *)counts)->clipped = found.clipped;
            ((struct vp_morphrecon_entry *)counts)->nan = found.nan;
            return 0;
        }
        return vp_fail(err, VP_ERUN, "flat images are not held");
    });
}

} // namespace

VP_GPU_KERNEL(morphrecon, has, scratch, NULL, NULL, launch, state, NULL, NULL, NULL, hold, settle);
