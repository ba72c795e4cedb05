/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples that do not exist: kernels "missing", "missing_load" and "missing_store" of local/missing.h. The voxels that
 * are made anew have the CPU's bits: the same sums in float64, in the same order.
 *
 * Overview: the kernel of the stage itself runs first, over a copy of the input that has NaN where samples are missing.
 *   Then the part and its surroundings are loaded as words that carry the state of a sample, and voxels that have
 *   something missing near are marked, along x and y. A thread for each of them makes it by the rule of the stage
 *   (missing_window.cu, missing_sums.cu).
 * Global memory: 4 bytes for each sample that is seen and 1 to 2 for each voxel, besides what a rule needs.
 * Limits: narrow types; those of the rules and of the kernels of the stages. */
#include "missing.cuh"

#include "base/order.h"
#include "local/entropy.h"

namespace vp
{

namespace
{

enum { THREADS = 256, TYPES = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 };

/* ---- kernels ---- */

/* Copies the input, NaN where it is missing. */
__global__ void __launch_bounds__(THREADS) copy_kernel(missing_part p, vp_area to)
{
    vp_each_voxel(to.box, [&](int64_t x, int64_t y, int64_t z) {
        const float v = missing_sample(p, x, y, z);
        *vp_at<float>(to, x, y, z) = v != v ? __uint_as_float(0x7fc00000u) : v;
    });
}

/* Returns the position that stands for p, -1 if there is none or it is 0. */
__device__ __forceinline__ int64_t stands_for(const missing_part &part, int64_t p, int axis)
{
    if (p >= 0 && p < part.image[axis])
        return p;
    return part.edge == VP_EDGE_RENORMALIZE ? -1 : vp_edge_from(part.edge, p, part.image[axis]);
}

__device__ __forceinline__ bool within(const vp_box &b, int64_t p, int axis)
{
    return p >= b.lo[axis] && p < b.hi[axis];
}

/* Fills `seen`. */
__global__ void __launch_bounds__(THREADS) see_kernel(missing_part p, vp_box all, int word, vp_entropy_params bins)
{
    vp_each_voxel(all, [&](int64_t x, int64_t y, int64_t z) {
        const int64_t at[3] = {stands_for(p, p.first[0] + x, 0), stands_for(p, p.first[1] + y, 1),
                               stands_for(p, p.first[2] + z, 2)};
        const bool there = within(p.in.box, at[0], 0) && within(p.in.box, at[1], 1) && within(p.in.box, at[2], 2);
        const bool zero = p.edge == VP_EDGE_ZERO && (at[0] < 0 || at[1] < 0 || at[2] < 0);
        uint32_t to = MISSING_OUTSIDE;
        if (there || zero) {
            const float v = there ? missing_sample(p, at[0], at[1], at[2]) : 0.0f;
            to = v != v ? MISSING_ABSENT
                 : word == MISSING_VALUE ? __float_as_uint(v)
                 : word == MISSING_BIN   ? vp_entropy_bin(&bins, v)
                 : p.in_type == VP_F32   ? vp_order_u32(__float_as_uint(v)) : (uint32_t)((int)v + 32768);
        }
        p.seen[(z * p.n[1] + y) * p.n[0] + x] = to;
    });
}

/* Marks what has something missing near: along x, and of these along y. `all`: near_x, and near_y. */
__global__ void __launch_bounds__(THREADS) near_x_kernel(missing_part p, vp_box all)
{
    vp_each_voxel(all, [&](int64_t x, int64_t y, int64_t z) {
        const int64_t row = z * p.n[1] + y;
        const uint32_t *const seen = p.seen + row * p.n[0] + x;
        bool any = false;
        for (int k = 0; k <= p.hi[0] - p.lo[0] && !any; k++)
            any = seen[k] == MISSING_ABSENT;
        p.near_x[row * p.made[0] + x] = any;
    });
}

__global__ void __launch_bounds__(THREADS) near_y_kernel(missing_part p, vp_box all)
{
    vp_each_voxel(all, [&](int64_t x, int64_t y, int64_t z) {
        const uint8_t *const near = p.near_x + (z * p.n[1] + y) * p.made[0] + x;
        bool any = false;
        for (int k = 0; k <= p.hi[1] - p.lo[1] && !any; k++)
            any = near[k * p.made[0]];
        p.near_y[(z * p.made[1] + y) * p.made[0] + x] = any;
    });
}

/* Stores the last result. */
__global__ void __launch_bounds__(THREADS) store_kernel(missing_part p)
{
    vp_each_voxel(p.out.box, [&](int64_t x, int64_t y, int64_t z) {
        const float v = missing_load(p.in, p.in_type, x, y, z);
        missing_store(p.out, p.out_type, x, y, z, v != v ? p.none : (double)v);
    });
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_missing_params>;

/* The rule by the name of the stage: pointers into local/missing*.c are those of the program, not of the plugin. */
const missing_rule *rule_of(const vp_missing_params *m)
{
    const auto find = [=](const auto &rules) -> const missing_rule * {
        for (const missing_rule &r : rules)
            for (const char *name : r.kernels)
                if (name && !strcmp(name, m->inner.kernel))
                    return &r;
        return NULL;
    };
    const missing_rule *const r = find(missing_rules_window);
    return r ? r : find(missing_rules_sums);
}

/* Returns the stage itself, of this image. */
struct vp_op inner_of(const struct vp_op *op)
{
    struct vp_op inner = params(op)->inner;
    memcpy(inner.image, op->image, sizeof inner.image);
    memcpy(inner.input, op->input, sizeof inner.input);
    return inner;
}

bool has_types(const struct vp_op *op, char *why, size_t size)
{
    return vp_has_types(TYPES >> op->in & 1, op, why, size) &&
           ((TYPES >> op->out & 1) ||
            (snprintf(why, size, "no kernel from %s to %s", vp_type_name(op->in), vp_type_name(op->out)), false));
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    const missing_rule *const r = rule_of(params(op));
    if (!k || !r || k->state) {
        snprintf(why, size, "no cuda kernel for missing samples of %s", inner.kernel);
        return false;
    }
    return has_types(op, why, size) && vp_has_sizes(op, why, size) && k->has(&inner, why, size) &&
           (!r->has || r->has(params(op), why, size));
}

/* Table: that of the rule, then that of the stage, which its kernel may complete. */
uint64_t own_table(const struct vp_op *op)
{
    const missing_rule *const r = rule_of(params(op));
    return r->table ? (uint64_t)vp_round_up((int64_t)r->table(params(op)), VP_ALIGN) : 0;
}

uint64_t table(const struct vp_op *op)
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    return own_table(op) + (k->table ? k->table(&inner) : 0);
}

void fill(const struct vp_op *op, void *to)
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    const missing_rule *const r = rule_of(params(op));
    if (r->fill)
        r->fill(params(op), to);
    if (k->fill)
        k->fill(&inner, (char *)to + own_table(op));
}

uint64_t made(const struct vp_op *op)
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    return k->made ? k->made(&inner) : 0;
}

int make(const struct vp_op *op, void *to, struct vp_queue *queue, struct vp_err *err)
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    return k->make ? k->make(&inner, (char *)to + own_table(op), queue, err) : 0;
}

/* The halo of a stage's kernel is never less than what its voxels need. */
void demand(const struct vp_op *op, int64_t step[3], int64_t halo[3])
{
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    if (k->demand)
        k->demand(&inner, step, halo);
}

/* Scratch: the copy of the input; then that of the stage, and in its place what the rule needs. */
struct missing_layout {
    void *copy, *inner, *rule;
    uint32_t *seen;
    uint8_t *near_x, *near_y;
};

uint64_t lay_out(const struct vp_op *op, const int64_t in[3], const int64_t out[3], void *memory,
                 struct missing_layout *l)
{
    const vp_missing_params *const m = params(op);
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    const missing_rule *const r = rule_of(m);
    int64_t seen[3];
    vp_arena a = {(char *)memory, 0};

    for (int i = 0; i < 3; i++)
        seen[i] = out[i] + m->hi[i] - m->lo[i];
    l->copy = a.take<char>(m->copies ? (uint64_t)(vp_round_up(in[0], VP_ROW_ALIGN / 4) * in[1] * in[2]) * 4 : 0);
    vp_arena b = a;
    l->inner = a.take<char>(k->scratch ? k->scratch(&inner, in, out) : 0);
    l->seen = b.take<uint32_t>((uint64_t)(seen[0] * seen[1] * seen[2]));
    l->near_x = b.take<uint8_t>((uint64_t)(out[0] * seen[1] * seen[2]));
    l->near_y = b.take<uint8_t>((uint64_t)(out[0] * out[1] * seen[2]));
    l->rule = b.take<char>(r->scratch ? r->scratch(m, seen, out) : 0);
    return (uint64_t)vp_max64((int64_t)a.used, (int64_t)b.used);
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    struct missing_layout l;
    return lay_out(op, in, out, NULL, &l);
}

/* Returns what a stage and its neighbourhood need to know of a part. */
missing_part part_of(const struct vp_op *op, const vp_missing *given, bool first, const struct vp_work *work)
{
    missing_part p = {};
    p.in = work->in[0];
    p.out = *work->out;
    p.in_type = op->in;
    p.out_type = op->out;
    p.first_stage = first;
    p.valued = given->valued;
    p.masked = first && given->masked;
    if (p.masked)
        p.mask = work->in[1];
    p.keeps = given->keeps;
    p.value = given->value;
    p.coverage = given->coverage;
    for (int a = 0; a < 3; a++)
        p.image[a] = op->mapping ? op->input[a] : op->image[a];
    return p;
}

vp_box box_of(int64_t x, int64_t y, int64_t z)
{
    return {{0, 0, 0}, {x, y, z}};
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    const vp_missing_params *const m = params(op);
    const struct vp_op inner = inner_of(op);
    const struct vp_kernel *const k = vp_gpu_kernel(inner.kernel);
    const missing_rule *const r = rule_of(m);
    missing_part p = part_of(op, &m->given, m->first, work);
    int64_t in[3], out[3];
    struct missing_layout l;

    for (int a = 0; a < 3; a++) {
        in[a] = vp_box_size(&work->in[0].box, a);
        out[a] = vp_box_size(&work->out->box, a);
        p.lo[a] = (int)m->lo[a];
        p.hi[a] = (int)m->hi[a];
        p.made[a] = out[a];
        p.n[a] = out[a] + p.hi[a] - p.lo[a];
        p.first[a] = work->out->box.lo[a] - m->shift[a] + p.lo[a];
    }
    lay_out(op, in, out, work->scratch, &l);
    p.edge = m->edge;
    p.none = m->none;
    p.seen = l.seen;
    p.near_x = l.near_x;
    p.near_y = l.near_y;
    struct vp_work whole = *work;
    const vp_area copy = m->copies ? vp_packed_part(work->in[0].box, VP_ROW_ALIGN / 4, l.copy) : vp_area();
    if (m->copies && vp_start_voxels(err, work, copy.box, copy_kernel, p, copy))
        return -1;
    if (m->copies)
        whole.in = &copy;
    whole.table = (const char *)work->table + own_table(op);
    whole.scratch = l.inner;
    if (k->launch(&inner, &whole, err))
        return -1;
    const vp_entropy_params bins = r->word == MISSING_BIN ? *(const vp_entropy_params *)inner.params
                                                          : vp_entropy_params();
    const vp_box all = box_of(p.n[0], p.n[1], p.n[2]), along_x = box_of(p.made[0], p.n[1], p.n[2]);
    return vp_start_voxels(err, work, all, see_kernel, p, all, (int)r->word, bins) ||
           vp_start_voxels(err, work, along_x, near_x_kernel, p, along_x) ||
           vp_start_voxels(err, work, box_of(p.made[0], p.made[1], p.n[2]), near_y_kernel, p,
                           box_of(p.made[0], p.made[1], p.n[2])) ||
           r->launch(p, op, work, work->table, l.rule, err) ? -1 : 0;
}

int launch_load(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    return vp_start_voxels(err, work, work->out->box, copy_kernel, part_of(op, vp_params<vp_missing>(op), true, work),
                           *work->out);
}

int launch_store(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    missing_part p = part_of(op, vp_params<vp_missing>(op), false, work);
    p.none = vp_params<vp_missing>(op)->fill;
    return vp_start_voxels(err, work, work->out->box, store_kernel, p);
}

} // namespace

}

VP_GPU_KERNEL(missing, vp::has, vp::scratch, vp::table, vp::fill, vp::launch, nullptr, vp::demand, vp::made, vp::make);
VP_GPU_KERNEL(missing_load, vp::has_types, nullptr, nullptr, nullptr, vp::launch_load);
VP_GPU_KERNEL(missing_store, vp::has_types, nullptr, nullptr, nullptr, vp::launch_store);
