/* Backward: see attention_kernel.h, which includes this file. With weights a (before dropout) and kept weights
 * a' = a * factor, for every triangle:
 *   da  = factor * sum_f dout_ij v1_il v2_lj         ds = a * (da - sum_f dout_ij out_ij) * scale
 *   dq_il = sum_j ds k_lj           dk_lj = sum_i ds q_il
 *   dv1_il = sum_j a' dout_ij v2_lj      dv2_lj = sum_i a' dout_ij v1_il
 *   dleft_il = sum_j ds / scale     dright_lj = sum_i ds / scale
 * Ends j are visited a tile at a time. What belongs to a pivot l in the tile stays in the first cache, with k beside its
 * gradient and v2 beside its own, while the rows i pass by, whose output gradients stay in the second.
 */

#define ROWS 2 /* rows i that share what is loaded of a pivot */

typedef struct {
    REAL *keys;               /* [pivot][feature][block][k, dk][lane]; [i] for the attention ablation */
    REAL *values;             /* [pivot][feature][block][v2, dv2][lane] */
    REAL *dout;               /* [i][feature][j] */
    int64_t line, plane;      /* numbers from feature to feature, and in all of them */
    REAL *largest, *inverse_sum, *dot; /* [i][j]: of the soft-max, and sum_f dout_ij out_ij */
    REAL *weights;            /* [block][row][ds, kept][lane] */
    REAL *factor;             /* [row][j] */
    REAL *dq, *dv1, *dleft;   /* at this batch and head, as the caller has them */
    REAL *right, *dright;     /* [pivot][j]: offsets of the scores, and their gradients */
    REAL *offset;             /* [row][j]: left and right together; null where nothing is added to the scores */
} NAME(backward_space);

/* Blocks of ends j that are visited together: as many as have what belongs to one pivot in the first cache. An even number,
 * so that the scores of two blocks are summed up together as in the forward pass. */
static int NAME(tile)(const problem *p) {
    const int64_t bytes = 4 * p->features * LANES * (int64_t)sizeof(REAL), fit = 32 * 1024 / bytes / 2 * 2;
    const int all = p->padded / LANES, blocks = fit < 4 ? 4 : (int)fit; /* fewer: too many sums across vectors */
    return blocks < all ? blocks : all;
}

/* Rows that pass by each pivot in turn: as many as have their output gradients in half a cache of the second level. */
static int NAME(rows_passing)(const problem *p) {
    const int64_t bytes = (int64_t)p->features * NAME(tile)(p) * LANES * (int64_t)sizeof(REAL);
    const int64_t rows = 200 * 1024 / bytes / ROWS * ROWS;
    return (int)(rows < ROWS ? ROWS : rows > p->n ? p->n : rows);
}

/* The weights of one block, and the gradients of its scores. */
static inline __attribute__((always_inline)) void NAME(weigh)(
    const WORK *w, const NAME(backward_space) *s, int i, int r, int block, VEC score, VEC gradient) {
    const int padded = w->blocks * LANES;
    const int64_t j = (int64_t)(i + r) * padded + block * LANES, to = (int64_t)r * padded + block * LANES;
    __asm__("" : "+m"(score)); /* round it as the forward pass did: no multiply-add with what follows */
    if (s->offset) score += NAME(load)(s->offset + to);
    VEC weight = NAME(exp)(score - NAME(load)(s->largest + j)) * NAME(load)(s->inverse_sum + j);
    VEC factor = w->p->drop_below ? NAME(load)(s->factor + to) : NAME(all)(1);
    REAL *at = s->weights + (block * ROWS + r) * 2 * LANES;
    NAME(store)(at + LANES, weight * factor);
    NAME(store)(at, weight * (gradient * factor - NAME(load)(s->dot + j)) * (REAL)w->p->scale);
}

/* What is added to the scores of one pivot x and of some rows from i on. */
static void NAME(set_offsets)(const WORK *w, const NAME(backward_space) *s, int i, int x, int rows) {
    const int padded = w->blocks * LANES;
    for (int r = 0; r < rows; r++) {
        const REAL left = NAME(left_at)(w, w->node[i + r], w->node[x]);
        for (int j = 0; j < padded; j += LANES)
            NAME(store)(s->offset + r * padded + j, left + NAME(load)(s->right + (int64_t)x * padded + j));
    }
}

/* Their gradients, from those of the scores. */
static void NAME(spread_offsets)(const WORK *w, const NAME(backward_space) *s, int i, int x, int rows) {
    const int padded = w->blocks * LANES;
    const REAL scale = (REAL)w->p->scale;
    for (int r = 0; r < rows; r++) {
        VEC sum = {0};
        for (int block = 0; block < w->blocks; block++) {
            VEC ds = NAME(load)(s->weights + (block * ROWS + r) * 2 * LANES);
            REAL *to = s->dright + (int64_t)x * padded + block * LANES;
            NAME(store)(to, NAME(load)(to) + ds);
            sum += ds;
        }
        if (!s->dleft) continue;
        REAL total = 0;
        for (int lane = 0; lane < LANES; lane++) total += sum[lane];
        s->dleft[w->node[i + r] * w->p->dleft_stride[ROW] + w->node[x] * w->p->dleft_stride[COLUMN]] += total / scale;
    }
}

/* One pivot and up to ROWS rows from i on. In what follows `rows`, `has_v2` and `blocks` are known to the compiler. */
typedef struct {
    const REAL *q[ROWS], *v1[ROWS], *dout[ROWS]; /* of each row */
    REAL *dq[ROWS], *dv1[ROWS];
    REAL *keys, *values; /* of the pivot */
    int i, x, add;       /* whether to add to what is in dq and dv1 */
} NAME(visit);

static inline __attribute__((always_inline)) void NAME(weigh_rows)(
    const WORK *w, const NAME(backward_space) *s, const NAME(visit) *at, const int rows, const int has_v2) {
    const int features = w->features, padded = w->blocks * LANES;
    const problem *p = w->p;
    const REAL scale = (REAL)p->scale;
    const REAL *k = at->keys, *v2 = at->values;
    for (int r = 0; p->drop_below && r < rows; r++)
        NAME(keep)(w, w->node[at->i + r], w->node[at->x], s->factor + r * padded);
    if (s->offset) NAME(set_offsets)(w, s, at->i, at->x, rows);
    /* Sums of the scores in the same order as in the forward pass, so that the weights come out the same. */
    const int64_t line = s->line;
    int block = 0;
    for (; block + 2 <= w->blocks; block += 2) {
        VEC a[ROWS], b[ROWS], c[ROWS], d[ROWS], sums[4][ROWS];
        for (int r = 0; r < rows; r++) {
            a[r] = b[r] = c[r] = d[r] = (VEC){0};
            sums[0][r] = sums[1][r] = sums[2][r] = sums[3][r] = (VEC){0};
        }
        for (int f = 0; f < features; f++) {
            if (f % CHUNK == 0)
                for (int r = 0; r < rows; r++) {
                    sums[0][r] += a[r], sums[1][r] += b[r], sums[2][r] += c[r], sums[3][r] += d[r];
                    a[r] = b[r] = c[r] = d[r] = (VEC){0};
                }
            const int64_t here = (int64_t)block * LANES + f * line;
            VEC k0 = NAME(load)(k + 2 * here), k1 = NAME(load)(k + 2 * here + 2 * LANES), y0, y1;
            HOLD(k0);
            HOLD(k1);
            if (has_v2) {
                y0 = NAME(load)(v2 + 2 * here), y1 = NAME(load)(v2 + 2 * here + 2 * LANES);
                HOLD(y0);
                HOLD(y1);
            }
            for (int r = 0; r < rows; r++) {
                VEC g0 = NAME(load)(at->dout[r] + here), g1 = NAME(load)(at->dout[r] + here + LANES);
                a[r] += at->q[r][f] * k0;
                b[r] += at->q[r][f] * k1;
                c[r] += at->v1[r][f] * (has_v2 ? g0 * y0 : g0);
                d[r] += at->v1[r][f] * (has_v2 ? g1 * y1 : g1);
            }
        }
        for (int r = 0; r < rows; r++) {
            NAME(weigh)(w, s, at->i, r, block, (sums[0][r] + a[r]) * scale, sums[2][r] + c[r]);
            NAME(weigh)(w, s, at->i, r, block + 1, (sums[1][r] + b[r]) * scale, sums[3][r] + d[r]);
        }
    }
    if (block < w->blocks) {
        VEC a[ROWS], b[ROWS], c[ROWS], d[ROWS], sums[2][ROWS];
        for (int r = 0; r < rows; r++) a[r] = b[r] = c[r] = d[r] = sums[0][r] = sums[1][r] = (VEC){0};
        int f = 0;
        for (; f + 2 <= features; f += 2) {
            if (f % CHUNK == 0)
                for (int r = 0; r < rows; r++) {
                    sums[0][r] += a[r] + b[r], sums[1][r] += c[r] + d[r];
                    a[r] = b[r] = c[r] = d[r] = (VEC){0};
                }
            const int64_t here = (int64_t)block * LANES + f * line;
            VEC k0 = NAME(load)(k + 2 * here), k1 = NAME(load)(k + 2 * (here + line)), y0, y1;
            HOLD(k0);
            HOLD(k1);
            if (has_v2) {
                y0 = NAME(load)(v2 + 2 * here), y1 = NAME(load)(v2 + 2 * (here + line));
                HOLD(y0);
                HOLD(y1);
            }
            for (int r = 0; r < rows; r++) {
                VEC g0 = NAME(load)(at->dout[r] + here), g1 = NAME(load)(at->dout[r] + here + line);
                a[r] += at->q[r][f] * k0;
                b[r] += at->q[r][f + 1] * k1;
                c[r] += at->v1[r][f] * (has_v2 ? g0 * y0 : g0);
                d[r] += at->v1[r][f + 1] * (has_v2 ? g1 * y1 : g1);
            }
        }
        for (int r = 0; f < features && r < rows; r++) {
            const int64_t here = (int64_t)block * LANES + f * line;
            VEC g = NAME(load)(at->dout[r] + here);
            a[r] += at->q[r][f] * NAME(load)(k + 2 * here);
            c[r] += at->v1[r][f] * (has_v2 ? g * NAME(load)(v2 + 2 * here) : g);
        }
        for (int r = 0; r < rows; r++)
            NAME(weigh)(w, s, at->i, r, block, (sums[0][r] + (a[r] + b[r])) * scale, sums[1][r] + (c[r] + d[r]));
    }
    for (int r = 0; p->causal_from >= 0 && r < rows; r++)
        for (int j = 0; j < NAME(forbidden)(w, at->i + r, at->x); j++) {
            REAL *weight = s->weights + (j / LANES * ROWS + r) * 2 * LANES + j % LANES;
            weight[0] = weight[LANES] = 0;
        }
    if (s->offset) NAME(spread_offsets)(w, s, at->i, at->x, rows);
}

/* `blocks` is 0 where there are too many to have their weights in registers. */
static inline __attribute__((always_inline)) void NAME(spread_rows)(
    const WORK *w, const NAME(backward_space) *s, const NAME(visit) *at, const int rows, const int has_v2, const int blocks) {
    const int features = w->features, all_blocks = blocks ? blocks : w->blocks;
    REAL *keys = at->keys, *values = at->values;
    VEC all_ds[ROWS][2], all_kept[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int block = 0; block < blocks; block++) {
            all_ds[r][block] = NAME(load)(s->weights + (block * ROWS + r) * 2 * LANES);
            all_kept[r][block] = NAME(load)(s->weights + (block * ROWS + r) * 2 * LANES + LANES);
        }
    for (int f = 0; f < features; f += LANES) { /* LANES features, so that their sums over j are made together */
        VEC sums_q[ROWS][LANES], sums_v[ROWS][LANES];
        const int some = features - f < LANES ? features - f : LANES;
        for (int m = 0; m < some; m++) {
            VEC a[ROWS], b[ROWS], q[ROWS], v1[ROWS];
            for (int r = 0; r < rows; r++) {
                a[r] = b[r] = (VEC){0};
                q[r] = NAME(all)(at->q[r][f + m]), v1[r] = NAME(all)(at->v1[r][f + m]);
                HOLD(q[r]);
                HOLD(v1[r]);
            }
            const int64_t here = (f + m) * s->line;
            REAL *key = keys + 2 * here, *value = has_v2 ? values + 2 * here : 0;
            const REAL *g0 = at->dout[0] + here, *g1 = at->dout[rows - 1] + here, *weights = s->weights;
            for (int block = 0; block < all_blocks; block++) {
                VEC kf = NAME(load)(key), dkf = NAME(load)(key + LANES), v2f, dv2f;
                HOLD(kf);
                if (has_v2) {
                    v2f = NAME(load)(value), dv2f = NAME(load)(value + LANES);
                    HOLD(v2f);
                }
                for (int r = 0; r < rows; r++) {
                    VEC ds = blocks ? all_ds[r][block] : NAME(load)(weights + r * 2 * LANES);
                    VEC kept = blocks ? all_kept[r][block] : NAME(load)(weights + r * 2 * LANES + LANES);
                    VEC mixed = kept * NAME(load)(r ? g1 : g0);
                    HOLD(ds);
                    a[r] += ds * kf;
                    b[r] += has_v2 ? mixed * v2f : mixed;
                    dkf += q[r] * ds;
                    if (has_v2) dv2f += v1[r] * mixed;
                }
                NAME(store)(key + LANES, dkf);
                if (has_v2) NAME(store)(value + LANES, dv2f), value += 2 * LANES;
                key += 2 * LANES, weights += ROWS * 2 * LANES, g0 += LANES, g1 += LANES;
            }
            for (int r = 0; r < rows; r++) sums_q[r][m] = a[r], sums_v[r][m] = b[r];
        }
        for (int r = 0; r < rows; r++) {
            for (int m = some; m < LANES; m++) sums_q[r][m] = sums_v[r][m] = (VEC){0};
            VEC a = NAME(sums)(sums_q[r]), b = NAME(sums)(sums_v[r]);
            NAME(put)(at->dq[r] + f, a, some, at->add);
            NAME(put)(at->dv1[r] + f, b, some, at->add);
        }
    }
}

/* One pivot x and some rows from i on: everything their triangles add to the gradients. */
static inline __attribute__((always_inline)) void NAME(visit_rows)(
    const WORK *w, const NAME(backward_space) *s, int i, int x, const int rows) {
    const problem *p = w->p;
    NAME(visit) visit = {.i = i, .x = x, .add = w->first > 0}, *at = &visit;
    at->keys = s->keys + (p->key_is_ij ? i : x) * 2 * s->plane;
    if (w->v2) at->values = s->values + x * 2 * s->plane;
    const int l = w->node[x];
    for (int r = 0; r < rows; r++) {
        const int row = w->node[i + r];
        at->q[r] = NAME(at)(w->q, p->q_stride, row, l);
        at->v1[r] = NAME(at)(w->v1, p->v1_stride, row, l);
        at->dq[r] = s->dq + row * p->dq_stride[ROW] + l * p->dq_stride[COLUMN];
        at->dv1[r] = s->dv1 + row * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN];
        at->dout[r] = s->dout + (i + r) * s->plane;
    }
    for (int r = 0; i + rows + r < w->count && r < rows; r++) {
        const int row = w->node[i + rows + r];
        NAME(ask)(NAME(at)(w->q, p->q_stride, row, l), w->features, 0);
        NAME(ask)(NAME(at)(w->v1, p->v1_stride, row, l), w->features, 0);
        NAME(ask)(s->dq + row * p->dq_stride[ROW] + l * p->dq_stride[COLUMN], w->features, 1);
        NAME(ask)(s->dv1 + row * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN], w->features, 1);
    }
    if (!w->v2) {
        NAME(weigh_rows)(w, s, at, rows, 0);
        NAME(spread_rows)(w, s, at, rows, 0, 0);
        return;
    }
    NAME(weigh_rows)(w, s, at, rows, 1);
    if (w->blocks == 1)
        NAME(spread_rows)(w, s, at, rows, 1, 1);
    else if (w->blocks == 2)
        NAME(spread_rows)(w, s, at, rows, 1, 2);
    else
        NAME(spread_rows)(w, s, at, rows, 1, 0);
}

/* In pairs of numbers and their gradients, [..][number, gradient][lane]: all gradients are set to zero. */
static void NAME(clear_gradients)(REAL *pairs, int64_t numbers) {
    for (int64_t x = 0; x < numbers; x += LANES) NAME(store)(pairs + 2 * x + LANES, (VEC){0});
}

static int64_t NAME(backward_scratch)(const problem *p) {
    const int64_t n = p->n, line = NAME(tile)(p) * LANES, plane = p->features * line;
    const int64_t offsets = p->left || p->right ? 2 * n * line + ROWS * line : 0;
    return 5 * n * plane + 3 * n * line + 3 * ROWS * line + offsets;
}

/* The numbers of soft-max for row i, at the ends at work; weights of zero where there is no end. */
static void NAME(pack_soft_max)(
    const WORK *w, const REAL *largest, const REAL *inverse_sum, int i, NAME(backward_space) *s) {
    const int padded = w->blocks * LANES;
    for (int j = 0; j < padded; j++) {
        const int64_t edge = (int64_t)w->node[i] * w->p->n + w->ends[j];
        s->largest[i * padded + j] = j < w->end_count ? largest[edge] : INFINITY;
        s->inverse_sum[i * padded + j] = j < w->end_count ? inverse_sum[edge] : 0;
    }
}

static void NAME(backward)(const problem *p, int batch, int head, void *scratch, int *node) {
    const WORK all = NAME(set_up)(p, batch, head, node);
    const int64_t n = p->n;
    const int count = all.count, tile = NAME(tile)(p), together = NAME(rows_passing)(p);
    const REAL *out = (const REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    const REAL *dout = (const REAL *)p->dout + batch * p->dout_stride[BATCH] + head * p->dout_stride[HEAD];
    const REAL *largest = (const REAL *)p->soft_max + ((int64_t)batch * p->heads + head) * 2 * n * n;
    const REAL *inverse_sum = largest + n * n;
    REAL *dq = (REAL *)p->dq + batch * p->dq_stride[BATCH] + head * p->dq_stride[HEAD];
    REAL *dk = (REAL *)p->dk + batch * p->dk_stride[BATCH] + head * p->dk_stride[HEAD];
    REAL *dv1 = (REAL *)p->dv1 + batch * p->dv1_stride[BATCH] + head * p->dv1_stride[HEAD];
    REAL *dleft = all.left ? (REAL *)p->dleft + batch * p->dleft_stride[BATCH] + head * p->dleft_stride[HEAD] : 0;
    REAL *dright = all.right ? (REAL *)p->dright + batch * p->dright_stride[BATCH] + head * p->dright_stride[HEAD] : 0;
    REAL *dv2 = all.v2 ? (REAL *)p->dv2 + batch * p->dv2_stride[BATCH] + head * p->dv2_stride[HEAD] : 0;

    for (int first = 0; first < all.blocks; first += tile) {
        const WORK some = NAME(at_ends)(&all, first, tile), *w = &some;
        const int64_t line = w->blocks * LANES, plane = p->features * line;
        NAME(backward_space) space = {.line = line, .plane = plane, .dq = dq, .dv1 = dv1, .dleft = dleft}, *s = &space;
        s->keys = scratch;
        s->values = s->keys + 2 * n * plane;
        s->dout = s->values + 2 * n * plane;
        s->largest = s->dout + n * plane;
        s->inverse_sum = s->largest + n * line;
        s->dot = s->inverse_sum + n * line;
        s->weights = s->dot + n * line;
        s->factor = s->weights + 2 * ROWS * line;
        if (NAME(has_offsets)(w)) {
            s->right = s->factor + ROWS * line;
            s->dright = s->right + n * line;
            s->offset = s->dright + n * line;
            memset(s->dright, 0, (size_t)(n * line) * sizeof(REAL));
            for (int x = 0; x < count; x++) NAME(pack_right)(w, w->node[x], s->right + x * line);
        }
        for (int x = 0; x < count; x++) { /* rows i, and pivots: k and v2 of their edges */
            const int row = w->node[x];
            NAME(pack)(w, dout, p->dout_stride, row, s->dout + x * plane, LANES, line);
            NAME(row_dots)(w, out, p->out_stride, dout, p->dout_stride, row, s->dot + x * line);
            NAME(pack_soft_max)(w, largest, inverse_sum, x, s);
            NAME(pack)(w, w->k, p->k_stride, row, s->keys + 2 * x * plane, 2 * LANES, 2 * line);
            if (w->v2) NAME(pack)(w, w->v2, p->v2_stride, row, s->values + 2 * x * plane, 2 * LANES, 2 * line);
        }
        NAME(clear_gradients)(s->keys, count * plane);
        if (w->v2) NAME(clear_gradients)(s->values, count * plane);
        for (int start = 0; start < count; start += together) {
            const int end = start + together < count ? start + together : count;
            for (int x = 0; x < count; x++) {
                int i = start;
                if (!p->key_is_ij) /* rows of the attention ablation have keys of their own: nothing to share */
                    for (; i + ROWS <= end; i += ROWS) NAME(visit_rows)(w, s, i, x, ROWS);
                for (; i < end; i++) NAME(visit_rows)(w, s, i, x, 1);
            }
        }
        for (int x = 0; x < count; x++) {
            const REAL *keys = s->keys + 2 * x * plane + LANES, *values = s->values + 2 * x * plane + LANES; /* gradients */
            NAME(unpack)(w, keys, 2 * LANES, 2 * line, dk, p->dk_stride, w->node[x]);
            if (w->v2) NAME(unpack)(w, values, 2 * LANES, 2 * line, dv2, p->dv2_stride, w->node[x]);
            for (int j = 0; dright && j < line && j < w->end_count; j++)
                dright[w->node[x] * p->dright_stride[ROW] + w->ends[j] * p->dright_stride[COLUMN]] =
                    s->dright[x * line + j] / (REAL)p->scale;
        }
    }
    NAME(clear_padding)(&all, dq, p->dq_stride);
    NAME(clear_padding)(&all, dk, p->dk_stride);
    NAME(clear_padding)(&all, dv1, p->dv1_stride);
    if (all.v2) NAME(clear_padding)(&all, dv2, p->dv2_stride);
}

#undef ROWS
