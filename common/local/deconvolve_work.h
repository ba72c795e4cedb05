/* SPDX-License-Identifier: BSD-3-Clause */
/* The iterations of deconvolution, written for samples REAL (TYPE), f32 or f64: functions are called NAME(), a root is
 * ROOT(); a predicted sample is at least FLOOR of the largest (rounding errors of transforms are not much less), and
 * conjugate gradients end where the square of what is left is ENOUGH of what it was. No guard: deconvolve.c includes
 * it once for each. */

struct NAME(work) {
    const struct vp_deconvolve_params *p;
    int64_t nx, rows, voxels;
    REAL *v[VOLUMES];
    double *sum, *of_row[3];   /* of each row; looked at once */
    void **plane[2];
    void *scratch;
    int threads;
};

static size_t NAME(lay_out)(struct NAME(work) *w, const struct vp_deconvolve_params *p, void *mem, int threads)
{
    size_t at = 0;

    *w = (struct NAME(work)){.p = p, .nx = p->frame[0], .rows = p->frame[1] * p->frame[2], .threads = threads};
    w->voxels = w->nx * w->rows;
    for (int i = 0; i < volumes(p); i++)
        w->v[i] = vp_place(mem, &at, (size_t)w->voxels * sizeof(REAL));
    w->sum = vp_place(mem, &at, (size_t)w->rows * sizeof *w->sum);
    for (int i = 0; i < 3; i++)
        w->of_row[i] = vp_place(mem, &at, (size_t)w->rows * sizeof *w->sum);
    for (int i = 0; i < 2; i++)
        w->plane[i] = vp_place(mem, &at, (size_t)p->frame[2] * sizeof *w->plane[i]);
    w->scratch = vp_place(mem, &at, convolution_scratch(p, threads));
    return at;
}

static double NAME(add_up)(const struct NAME(work) *w)
{
    double sum = 0;

    for (int64_t r = 0; r < w->rows; r++)
        sum += w->sum[r];
    return sum;
}

static double NAME(dot)(struct NAME(work) *w, const REAL *a, const REAL *b)
{
    ROWS(w) {
        double sum = 0;
        OF_ROW(w)
            sum += (double)a[i] * b[i];
        w->sum[r] = sum;
    }
    return NAME(add_up)(w);
}

/* to = A from, or A' from */
static int NAME(apply)(struct NAME(work) *w, const struct vp_op *op, REAL *from, REAL *to, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_box all = {{0, 0, 0}, {p->frame[0], p->frame[1], p->frame[2]}};

    for (int64_t z = 0; z < p->frame[2]; z++) {
        w->plane[0][z] = from + z * w->nx * p->frame[1];
        w->plane[1][z] = to + z * w->nx * p->frame[1];
    }
    const struct vp_part in = {all, w->nx, w->plane[0]}, out = {all, w->nx, w->plane[1]};
    return op->run(op, &in, &out, w->scratch, w->threads, err);
}

/* Mean of the data (NaN is where none are), its largest sample, and the root of the sum of its squares. */
static void NAME(look_at)(struct NAME(work) *w, double *mean, double *most, double *norm)
{
    const REAL *const d = w->v[DATA];
    double sum = 0, n = 0, squares = 0;

    ROWS(w) {
        double of_row = 0, squares_of_row = 0, largest = 0, known = 0;
        OF_ROW(w)
            if (!isnan(d[i])) {
                of_row += d[i];
                squares_of_row += (double)d[i] * d[i];
                largest = fmax(largest, fabs((double)d[i]));
                known++;
            }
        w->sum[r] = of_row;
        w->of_row[0][r] = squares_of_row;
        w->of_row[1][r] = largest;
        w->of_row[2][r] = known;
    }
    *most = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        sum += w->sum[r];
        squares += w->of_row[0][r];
        *most = fmax(*most, w->of_row[1][r]);
        n += w->of_row[2][r];
    }
    *mean = n > 0 ? sum / n : 0;
    *norm = sqrt(squares);
}

/* ---- Richardson and Lucy ---- */

/* Unit vector of the gradient at a voxel: differences to the next one along each axis, none at the end. */
static void NAME(direction)(const struct NAME(work) *w, const REAL *v, const int64_t at[3], REAL least, REAL out[3])
{
    const int64_t *n = w->p->frame, step[3] = {1, n[0], n[0] * n[1]};
    const REAL *const here = v + (at[2] * n[1] + at[1]) * n[0] + at[0];
    REAL squares = least * least;

    for (int a = 0; a < 3; a++) {
        out[a] = at[a] + 1 < n[a] ? here[step[a]] - here[0] : 0;
        squares += out[a] * out[a];
    }
    for (int a = 0; a < 3; a++)
        out[a] /= ROOT(squares);
}

/* div(grad v / |grad v|) */
static REAL NAME(curvature)(const struct NAME(work) *w, const REAL *v, const int64_t at[3], REAL least)
{
    REAL here[3], there[3], sum = 0;

    NAME(direction)(w, v, at, least, here);
    for (int a = 0; a < 3; a++) {
        sum += here[a];
        if (at[a] == 0)
            continue;
        const int64_t before[3] = {at[0] - (a == 0), at[1] - (a == 1), at[2] - (a == 2)};
        NAME(direction)(w, v, before, least, there);
        sum -= there[a];
    }
    return sum;
}

/* t = A y becomes the ratio of the data to it; returns the sum of squares of the difference. */
static double NAME(compare)(struct NAME(work) *w, double floor)
{
    const REAL *const d = w->v[DATA];
    REAL *const t = w->v[T];
    const REAL background = (REAL)w->p->g.background, least = (REAL)floor;

    ROWS(w) {
        double sum = 0;
        OF_ROW(w) {
            const REAL made = t[i] + background;
            if (!isnan(d[i]))
                sum += ((double)made - d[i]) * ((double)made - d[i]);
            t[i] = d[i] > 0 ? d[i] / (made > least ? made : least) : 0;
        }
        w->sum[r] = sum;
    }
    return NAME(add_up)(w);
}

static void NAME(swap)(struct NAME(work) *w, int a, int b)
{
    REAL *const was = w->v[a];

    w->v[a] = w->v[b];
    w->v[b] = was;
}

/* x from y and A' of the ratio */
static void NAME(update)(struct NAME(work) *w, double mean)
{
    const struct vp_deconvolve_params *p = w->p;
    const REAL *const y = w->v[p->g.accelerate ? Y : X], *const u = w->v[U], *const norm = w->v[NORM];
    const REAL tv = (REAL)p->g.tv, least = (REAL)(1e-4 * mean) + (REAL)1e-30;
    REAL *const to = w->v[p->g.tv > 0 ? T : X];

    ROWS(w) {
        const int64_t row = r % p->frame[1], plane = r / p->frame[1];
        for (int64_t x = 0; x < w->nx; x++) {
            const int64_t i = r * w->nx + x;
            REAL v = norm[i] <= (REAL)LEAST ? y[i] : u[i] > 0 ? y[i] * (u[i] / norm[i]) : 0;
            if (tv > 0) {
                const REAL damp = 1 - tv * NAME(curvature)(w, y, (const int64_t[]){x, row, plane}, least);
                v /= damp > (REAL)0.1 ? damp : (REAL)0.1;
            }
            to[i] = v;
        }
    }
    if (tv > 0)
        NAME(swap)(w, X, T);
}

/* y = a point ahead of x, and what x is goes to `before`. */
static void NAME(look_ahead)(struct NAME(work) *w, double alpha)
{
    REAL *const x = w->v[X], *const y = w->v[Y], *const before = w->v[BEFORE];
    const REAL a = (REAL)alpha;

    VOXELS(w) {
        const REAL ahead = x[i] + a * (x[i] - before[i]);
        y[i] = ahead > 0 ? ahead : 0;
        before[i] = x[i];
    }
}

/* How far ahead to look next: the step that was made from y, on the one before, which it replaces. */
static double NAME(learn)(struct NAME(work) *w)
{
    const REAL *const x = w->v[X], *const y = w->v[Y];
    REAL *const step = w->v[STEP], *const t = w->v[T];

    VOXELS(w)
        t[i] = x[i] - y[i];
    const double both = NAME(dot)(w, t, step), one = NAME(dot)(w, step, step);
    NAME(swap)(w, STEP, T);
    return one > 0 ? fmin(fmax(both / one, 0), 0.99) : 0;
}

static int NAME(richardson_lucy)(struct NAME(work) *w, int64_t page, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_deconvolve_given *g = &p->g;
    double mean, most, norm, residual = INFINITY, alpha = 0;
    int64_t k = 0;

    NAME(look_at)(w, &mean, &most, &norm);
    const double floor = fmax(most * FLOOR, 1e-35);
    const REAL start = (REAL)fmax(mean - g->background, floor);
    VOXELS(w) {
        w->v[T][i] = !isnan(w->v[DATA][i]);
        w->v[X][i] = start;
        if (g->accelerate) {
            w->v[BEFORE][i] = start;
            w->v[STEP][i] = 0;
        }
    }
    if (NAME(apply)(w, &p->adjoint, w->v[T], w->v[NORM], err))
        return -1;
    for (; k < g->iterations; k++) {
        if (g->accelerate)
            NAME(look_ahead)(w, alpha);
        if (NAME(apply)(w, &p->forward, w->v[g->accelerate ? Y : X], w->v[T], err))
            return -1;
        const double now = norm > 0 ? sqrt(NAME(compare)(w, floor)) / norm : 0;
        if (k > 0)
            tell(p, page, k, now, false);
        if (k > 1 && residual - now < g->stop * residual && g->stop > 0)
            break;
        residual = now;
        if (NAME(apply)(w, &p->adjoint, w->v[T], w->v[U], err))
            return -1;
        NAME(update)(w, mean);
        if (g->accelerate)
            alpha = k > 0 ? NAME(learn)(w) : (NAME(learn)(w), 0);
    }
    if (NAME(apply)(w, &p->forward, w->v[X], w->v[T], err))
        return -1;
    tell(p, page, k, norm > 0 ? sqrt(NAME(compare)(w, floor)) / norm : 0, true);
    return 0;
}

/* ---- Wiener, by conjugate gradients ---- */

/* t where data are, else 0 */
static void NAME(mask)(struct NAME(work) *w, REAL *t)
{
    VOXELS(w)
        t[i] = !isnan(w->v[DATA][i]) ? t[i] : 0;
}

/* a += s b */
static void NAME(add_to)(struct NAME(work) *w, REAL *a, const REAL *b, double s)
{
    const REAL f = (REAL)s;

    VOXELS(w)
        a[i] += f * b[i];
}

static int NAME(wiener)(struct NAME(work) *w, int64_t page, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const struct vp_deconvolve_given *g = &p->g;
    REAL *const d = w->v[DATA], *const x = w->v[X], *const t = w->v[T], *const q = w->v[U], *const rest = w->v[NORM];
    REAL *const step = w->v[Y], *const left = w->v[STEP];
    double mean, most, norm, residual;
    int64_t k = 0;

    NAME(look_at)(w, &mean, &most, &norm);
    mean -= g->background;
    VOXELS(w)
        x[i] = (REAL)mean;
    if (NAME(apply)(w, &p->forward, x, t, err))
        return -1;
    /* left: of the data; rest = A' left - noise (x - mean): of the equations */
    VOXELS(w)
        left[i] = !isnan(d[i]) ? d[i] - (REAL)g->background - t[i] : 0;
    if (NAME(apply)(w, &p->adjoint, left, rest, err))
        return -1;
    ROWS(w)
        memcpy(step + r * w->nx, rest + r * w->nx, (size_t)w->nx * sizeof *step);
    double squares = NAME(dot)(w, rest, rest);
    const double first = squares;
    residual = norm > 0 ? sqrt(NAME(dot)(w, left, left)) / norm : 0;
    for (; k < g->iterations && squares > ENOUGH * first; k++) {
        if (NAME(apply)(w, &p->forward, step, t, err))
            return -1;
        NAME(mask)(w, t);
        if (NAME(apply)(w, &p->adjoint, t, q, err))
            return -1;
        NAME(add_to)(w, q, step, g->noise);
        const double along = NAME(dot)(w, step, q), a = along > 0 ? squares / along : 0;
        NAME(add_to)(w, x, step, a);
        NAME(add_to)(w, rest, q, -a);
        NAME(add_to)(w, left, t, -a);
        const double next = NAME(dot)(w, rest, rest), b = squares > 0 ? next / squares : 0;
        squares = next;
        VOXELS(w)
            step[i] = rest[i] + (REAL)b * step[i];
        const double now = norm > 0 ? sqrt(NAME(dot)(w, left, left)) / norm : 0;
        tell(p, page, k + 1, now, false);
        const bool enough = k > 0 && residual - now < g->stop * residual && g->stop > 0;
        residual = now;
        if (enough) {
            k++;
            break;
        }
    }
    tell(p, page, k, residual, true);
    return 0;
}

/* ---- an image ---- */

/* Row y of plane z of the image in the frame. */
static REAL *NAME(row_of)(const struct NAME(work) *w, int volume, int64_t y, int64_t z)
{
    const struct vp_deconvolve_params *p = w->p;

    return w->v[volume] + ((z + p->before[2]) * p->frame[1] + y + p->before[1]) * w->nx + p->before[0];
}

/* Planes z0 ... z1 - 1 of the box as one image. */
static int NAME(solve)(struct NAME(work) *w, const struct vp_part *in, const struct vp_part *out, int64_t z0, int64_t z1,
                       struct vp_err *err)
{
    const struct vp_deconvolve_params *p = w->p;
    const int64_t nx = vp_box_size(&out->box, 0), ny = vp_box_size(&out->box, 1), rows = ny * (z1 - z0);
    const int64_t *const at = out->box.lo;
    bool known = false;

    VOXELS(w)
        w->v[DATA][i] = w->v[X][i] = NAN;
    #pragma omp parallel for num_threads(w->threads) schedule(static) reduction(|| : known)
    for (int64_t r = 0; r < rows; r++) {
        REAL *const to = NAME(row_of)(w, DATA, r % ny, r / ny);
        const void *const from = vp_part_at(in, vp_type_size(p->in), at[0], at[1] + r % ny, z0 + r / ny);
        vp_convert(to, TYPE, from, p->in, nx, 1, 0);
        for (int64_t x = 0; x < nx; x++) {
            to[x] = isfinite(to[x]) ? to[x] : NAN;
            known = known || !isnan(to[x]);
        }
    }
    if (!known)
        ; /* nothing to go by: NaN */
    else if (p->g.method == VP_LEAST_SQUARES ? NAME(wiener)(w, z0, err) : NAME(richardson_lucy)(w, z0, err))
        return -1;
    #pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        vp_convert(vp_part_at(out, vp_type_size(p->out), at[0], at[1] + r % ny, z0 + r / ny), p->out,
                   NAME(row_of)(w, X, r % ny, r / ny), TYPE, nx, 1, 0);
    return 0;
}

static int NAME(run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
                     struct vp_err *err)
{
    const struct vp_deconvolve_params *p = op->params;
    struct NAME(work) w;

    NAME(lay_out)(&w, p, mem, threads);
    if (op->halo[2])
        return NAME(solve)(&w, in, out, out->box.lo[2], out->box.hi[2], err);
    for (int64_t z = out->box.lo[2]; z < out->box.hi[2]; z++)
        if (NAME(solve)(&w, in, out, z, z + 1, err))
            return -1;
    return 0;
}
