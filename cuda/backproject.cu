/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection on a CUDA device: memory, launches, what has been summed. */
#include "backproject_choice.cuh"
#include "launch.cuh"

#include <new>

using namespace vp;

/* The packed buffer as the copy engine sees it: floats of a row (in pairs where a texel has several), rows, slots. */
static int make_map(const choice &c, float *packed, CUtensorMap *map, vp_err *err)
{
    typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                        const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                                        CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill);
    void *symbol = NULL;
    cudaDriverEntryPointQueryResult found;
    if (vp_gpu_check(
            err, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &found),
            "tensor maps"))
        return -1;
    if (!symbol || found != cudaDriverEntryPointSuccess)
        return vp_fail(err, VP_ERUN, "the driver has no tensor maps");
    const int M = c.kind == COLUMN_TILED ? c.R * c.Z : 2, floats = map_floats(M);
    const cuuint64_t size[3] = {(cuuint64_t)(c.pitch * M / floats), (cuuint64_t)c.rows, (cuuint64_t)c.slots};
    const cuuint64_t stride[2] = {(cuuint64_t)(c.pitch * M) * sizeof(float), (cuuint64_t)c.slot_floats * sizeof(float)};
    const cuuint32_t box[3] = {(cuuint32_t)(c.box_pitch * M / floats), (cuuint32_t)c.box_rows, 1}, step[3] = {1, 1, 1};
    const CUresult r = ((encode_function)symbol)(
        map, floats == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, packed, size, stride,
        box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? 0 : vp_fail(err, VP_ERUN, "the driver refused a tensor map (error %d)", (int)r);
}

struct vp_devbp {
    struct vp_devbp_problem p;
    struct vp_devbp_plan plan;
    choice c;
    cudaStream_t stream;
    float *vol, *packed;
    int *next_tile;
    CUtensorMap map;
};

namespace
{

int plan(const struct vp_devbp_problem *p, struct vp_devbp_plan *plan, struct vp_err *err)
{
    choice c;
    return choose(p, &c, plan, err);
}

int open(struct vp_devbp **out, const struct vp_devbp_problem *p, const struct vp_devbp_memory *memory,
         struct vp_queue *queue, struct vp_err *err)
{
    *out = NULL;
    vp_devbp *const b = new (std::nothrow) vp_devbp();
    if (!b)
        return vp_fail(err, VP_ERUN, "out of memory");
    b->p = *p;
    b->stream = queue->stream;
    b->vol = (float *)memory->volume;
    b->packed = (float *)memory->packed;
    b->next_tile = (int *)memory->fixed;
    if (choose(p, &b->c, &b->plan, err) || (b->c.tiled() && make_map(b->c, b->packed, &b->map, err))) {
        delete b;
        return -1;
    }
    *out = b;
    return 0;
}

/* Runs of orbits that lie in consecutive slots. */
template <class F>
int each_run(const struct vp_devbp *b, int64_t first, int64_t n, int64_t most, struct vp_err *err, F f)
{
    if (vp_gpu_check(err, cudaSetDevice(b->p.device), "cannot use the device"))
        return -1;
    while (n > 0) {
        const int64_t slot = first % b->c.slots, run = vp_min64(vp_min64(n, b->c.slots - slot), most);
        if (f(first, slot, (int)run))
            return -1;
        first += run, n -= run;
    }
    return 0;
}

int pack(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q, const float *half_turn,
         struct vp_err *err)
{
    const choice &c = b->c;
    const int64_t view = b->p.nu * (v1 - v0), begin = first;
    return each_run(b, first, n, 1 << 20, err, [&](int64_t o, int64_t slot, int run) {
        pack_args a = {};
        a.q[0] = q ? q + (o - begin) * view : NULL;
        a.q[1] = half_turn && c.R == 2 ? half_turn + (o - begin) * view : NULL;
        if (!a.q[0] && !a.q[1])
            return 0;
        a.packed = b->packed, a.slot_floats = c.slot_floats;
        a.nu = (int)b->p.nu, a.nv = (int)b->p.nv, a.rows = (int)c.rows, a.pitch = (int)c.pitch;
        a.given_first = (int)v0, a.given = (int)(v1 - v0);
        a.row_base = (int)(c.row_base - c.pad);
        a.pad_u = c.kind == COLUMN_TILED ? 0 : 2;
        a.views = c.R, a.channels_z = c.Z, a.pairs = !c.columns();
        a.flip = a.pairs ? 0 : (unsigned)(c.shape.flip_v != c.upper) | (unsigned)!c.shape.flip_v << 1;
        a.slot = (int)slot, a.n = run;
        return vp_gpu_check(err, launch_pack(a, b->stream), "cannot pack projections");
    });
}

/* Pieces [from, from + pieces) of the slab; `fresh`: they hold nothing yet. */
template <class Args, class Launch>
int run_pieces(struct vp_devbp *b, int64_t first, int64_t n, int from, int pieces, bool fresh, Launch launch,
               struct vp_err *err)
{
    Args a = {};
    fill_args(&b->p, b->c, &a);
    a.segment0 += from, a.segments = pieces;
    a.out.vol = b->vol, a.packed = b->packed, a.next_tile = b->next_tile;
    return each_run(b, first, n, b->c.column.batch, err, [&](int64_t o, int64_t slot, int run) {
        fill_views(&b->p, b->c, o, run, &a);
        a.slot = (int)slot, a.out.fresh = fresh;
        fresh = false;
        return vp_gpu_check(err, launch(a), "cannot back-project");
    });
}

int parts(const struct vp_devbp *b, int most)
{
    /* so many tiles for each multiprocessor that those that are left over at the end do not count */
    constexpr int64_t WAVES = 12;
    const choice &c = b->c;
    const int64_t tiles = vp_groups(c.half_x, c.column.tile_x) * vp_groups(b->p.n[1], c.column.tile_y) * c.segments;
    return (int)vp_max64(1, vp_min64(vp_min64(tiles / (WAVES * c.processors), most), c.segments));
}

int run(struct vp_devbp *b, int64_t first, int64_t n, int part, int parts, bool fresh, struct vp_err *err)
{
    const choice &c = b->c;
    int from = (int)((int64_t)c.segments * part / parts), to = (int)((int64_t)c.segments * (part + 1) / parts);
    if (c.upper) { /* worked on from its far end */
        const int turned = c.segments - to;
        to = c.segments - from, from = turned;
    }
    if (c.columns())
        return run_pieces<column_args>(b, first, n, from, to - from, fresh, [&](const column_args &a) {
            return c.kind == COLUMN ? launch_column_portable(c.column, a, b->stream)
                                    : launch_column_tiled(c.column, b->map, a, c.stages, c.processors, b->stream);
        }, err);
    return run_pieces<matrix_args>(b, first, n, from, to - from, fresh, [&](const matrix_args &a) {
        return c.kind == PLAIN    ? launch_plain(a, b->stream)
               : c.kind == MATRIX ? launch_matrix_portable(a, b->stream)
                                  : launch_matrix_tiled(c.box_pitch, c.shape.level, b->map, a, b->stream);
    }, err);
}

int part_of(const struct vp_devbp *b, int64_t z, int parts)
{
    const choice &c = b->c;
    const int64_t nz = b->p.n[2];
    const int64_t k = c.upper || (c.Z == 2 && z >= (nz + 1) / 2) ? nz - 1 - z : z;
    int64_t piece = k / c.column.K - c.segment0;
    if (c.upper)
        piece = c.segments - 1 - piece;
    int part = 0;
    while (part < parts - 1 && piece >= (int64_t)c.segments * (part + 1) / parts)
        part++;
    return part;
}

float *where(const struct vp_devbp *b, int64_t z, int64_t *run)
{
    for (const block &k : b->c.blocks)
        if (z >= k.first && z < k.first + k.n) {
            *run = k.first + k.n - z;
            return b->vol + (k.at + z - k.first) * b->p.n[0] * b->p.n[1];
        }
    return NULL;
}

__global__ void blend_volumes(float *y, const float *x, float a, float keep, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const float kept = keep != 0 ? __fmul_rn(keep, y[i]) : 0;
        y[i] = !x ? kept : keep != 0 ? __fadd_rn(__fmul_rn(a, x[i]), kept) : __fmul_rn(a, x[i]);
    }
}

int blend(struct vp_devbp *b, float a, const float *x, float keep, struct vp_err *err)
{
    constexpr int THREADS = 256, WAVES = 8;
    const int64_t n = (int64_t)(b->plan.bytes_volume / sizeof(float));
    const int64_t blocks = vp_min64((n + THREADS - 1) / THREADS, (int64_t)WAVES * b->c.processors);
    if (vp_gpu_check(err, cudaSetDevice(b->p.device), "cannot use the device"))
        return -1;
    return vp_start(err, b->stream, blend_volumes, dim3((unsigned)blocks), dim3(THREADS), 0, b->vol, x, a, keep, n);
}

void close(struct vp_devbp *b)
{
    delete b;
}

} // namespace

const struct vp_backproject_kernels vp_gpu_backproject = {plan,    open,  pack,  run, parts,
                                                          part_of, where, blend, close};
