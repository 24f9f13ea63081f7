/* Backward: see attention_kernel.h, which includes this file. With weights a (before dropout) and kept weights
 * a' = a * factor, for every triangle:
 *   da  = factor * sum_f dout_ij v1_il v2_lj         ds = a * (da - sum_f dout_ij out_ij) * scale
 *   dq_il = sum_j ds k_lj           dk_lj = sum_i ds q_il
 *   dv1_il = sum_j a' dout_ij v2_lj      dv2_lj = sum_i a' dout_ij v1_il
 * A few pivots l at a time are the outer loop: all that belongs to them stays in the cache while the rows i pass by.
 */

#define ROWS 2 /* rows i that share what is loaded of a pivot */

typedef struct {
    REAL *k, *dk;             /* [pivot][feature][j]; [i][feature][j] for the attention ablation */
    REAL *v2, *dv2;           /* [pivot][feature][j] */
    REAL *dout;               /* [i][feature][j] */
    int64_t line, plane;      /* numbers from feature to feature, and in all of them */
    REAL *largest, *inverse_sum, *dot; /* [i][j]: of the soft-max, and sum_f dout_ij out_ij */
    REAL *ds, *kept, *factor; /* [row][j] */
    REAL *dq, *dv1;           /* at this batch and head, as the caller has them */
} NAME(backward_space);

/* From feature to feature: a little more than the vectors need where they would all fall into the same part of a cache. */
static int64_t NAME(line)(int64_t padded) { return padded % 64 == 0 ? padded + LANES : padded; }

/* Pivots that are visited together: as many as have their four planes in half a cache of the second level. */
static int NAME(pivots_together)(const problem *p) {
    int64_t bytes = 4 * p->features * NAME(line)(p->padded) * (int64_t)sizeof(REAL), pivots = 256 * 1024 / bytes;
    return (int)(pivots < 1 ? 1 : pivots > p->n ? p->n : pivots);
}

/* The weights of one block, and the gradients of its scores. */
static inline __attribute__((always_inline)) void NAME(weigh)(
    const WORK *w, const NAME(backward_space) *s, int i, int r, int block, VEC score, VEC gradient) {
    const int padded = w->blocks * LANES;
    const int64_t j = (int64_t)(i + r) * padded + block * LANES, to = (int64_t)r * padded + block * LANES;
    __asm__("" : "+m"(score)); /* round it as the forward pass did: no multiply-add with what follows */
    VEC weight = NAME(exp)(score - NAME(load)(s->largest + j)) * NAME(load)(s->inverse_sum + j);
    VEC factor = w->p->drop_below ? NAME(load)(s->factor + to) : NAME(all)(1);
    NAME(store)(s->kept + to, weight * factor);
    NAME(store)(s->ds + to, weight * (gradient * factor - NAME(load)(s->dot + j)) * (REAL)w->p->scale);
}

/* One pivot and up to ROWS rows from i on. In what follows `rows`, `has_v2` and `blocks` are known to the compiler. */
typedef struct {
    const REAL *q[ROWS], *v1[ROWS], *dout[ROWS]; /* of each row */
    REAL *dq[ROWS], *dv1[ROWS];
    const REAL *k, *v2; /* of the pivot */
    REAL *dk, *dv2;
    int i, x;
} NAME(visit);

static inline __attribute__((always_inline)) void NAME(weigh_rows)(
    const WORK *w, const NAME(backward_space) *s, const NAME(visit) *at, const int rows, const int has_v2) {
    const int features = w->features, padded = w->blocks * LANES;
    const problem *p = w->p;
    const REAL scale = (REAL)p->scale;
    const REAL *k = at->k, *v2 = at->v2;
    for (int r = 0; p->drop_below && r < rows; r++)
        NAME(keep)(w, w->node[at->i + r], w->node[at->x], s->factor + r * padded);
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
            VEC k0 = NAME(load)(k + here), k1 = NAME(load)(k + here + LANES), y0, y1;
            if (has_v2) y0 = NAME(load)(v2 + here), y1 = NAME(load)(v2 + here + LANES);
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
            VEC k0 = NAME(load)(k + here), k1 = NAME(load)(k + here + line), y0, y1;
            if (has_v2) y0 = NAME(load)(v2 + here), y1 = NAME(load)(v2 + here + line);
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
            a[r] += at->q[r][f] * NAME(load)(k + here);
            c[r] += at->v1[r][f] * (has_v2 ? g * NAME(load)(v2 + here) : g);
        }
        for (int r = 0; r < rows; r++)
            NAME(weigh)(w, s, at->i, r, block, (sums[0][r] + (a[r] + b[r])) * scale, sums[1][r] + (c[r] + d[r]));
    }
    for (int r = 0; p->causal_from >= 0 && r < rows; r++)
        for (int j = 0; j < NAME(forbidden)(w, at->i + r, at->x); j++) s->ds[r * padded + j] = s->kept[r * padded + j] = 0;
}

/* `blocks` is 0 where there are too many to have their weights in registers. */
static inline __attribute__((always_inline)) void NAME(spread_rows)(
    const WORK *w, const NAME(backward_space) *s, const NAME(visit) *at, const int rows, const int has_v2, const int blocks) {
    const int features = w->features, padded = w->blocks * LANES, all_blocks = blocks ? blocks : w->blocks;
    const REAL *k = at->k, *v2 = at->v2;
    REAL *dk = at->dk, *dv2 = at->dv2;
    VEC all_ds[ROWS][2], all_kept[ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int block = 0; block < blocks; block++) {
            all_ds[r][block] = NAME(load)(s->ds + r * padded + block * LANES);
            all_kept[r][block] = NAME(load)(s->kept + r * padded + block * LANES);
        }
    for (int f = 0; f < features; f += LANES) { /* LANES features, so that their sums over j are made together */
        VEC sums_q[ROWS][LANES], sums_v[ROWS][LANES];
        const int some = features - f < LANES ? features - f : LANES;
        for (int m = 0; m < some; m++) {
            VEC a[ROWS], b[ROWS];
            for (int r = 0; r < rows; r++) a[r] = b[r] = (VEC){0};
            for (int block = 0; block < all_blocks; block++) {
                const int64_t here = (f + m) * s->line + block * LANES;
                VEC kf = NAME(load)(k + here), dkf = NAME(load)(dk + here), v2f, dv2f;
                if (has_v2) v2f = NAME(load)(v2 + here), dv2f = NAME(load)(dv2 + here);
                for (int r = 0; r < rows; r++) {
                    VEC ds = blocks ? all_ds[r][block] : NAME(load)(s->ds + r * padded + block * LANES);
                    VEC kept = blocks ? all_kept[r][block] : NAME(load)(s->kept + r * padded + block * LANES);
                    VEC mixed = kept * NAME(load)(at->dout[r] + here);
                    a[r] += ds * kf;
                    b[r] += has_v2 ? mixed * v2f : mixed;
                    dkf += at->q[r][f + m] * ds;
                    if (has_v2) dv2f += at->v1[r][f + m] * mixed;
                }
                NAME(store)(dk + here, dkf);
                if (has_v2) NAME(store)(dv2 + here, dv2f);
            }
            for (int r = 0; r < rows; r++) sums_q[r][m] = a[r], sums_v[r][m] = b[r];
        }
        for (int r = 0; r < rows; r++) {
            for (int m = some; m < LANES; m++) sums_q[r][m] = sums_v[r][m] = (VEC){0};
            VEC a = NAME(sums)(sums_q[r]), b = NAME(sums)(sums_v[r]);
            NAME(store_some)(at->dq[r] + f, a, some);
            NAME(store_some)(at->dv1[r] + f, b, some);
        }
    }
}

/* One pivot (number `slot` of those visited together) and some rows: everything their triangles add to the gradients. */
static inline __attribute__((always_inline)) void NAME(visit_rows)(
    const WORK *w, const NAME(backward_space) *s, int i, int x, int slot, const int rows) {
    const problem *p = w->p;
    const int64_t keys = (p->key_is_ij ? i : slot) * s->plane;
    NAME(visit) visit = {.k = s->k + keys, .dk = s->dk + keys, .i = i, .x = x}, *at = &visit;
    if (w->v2) at->v2 = s->v2 + slot * s->plane, at->dv2 = s->dv2 + slot * s->plane;
    for (int r = 0; r < rows; r++) {
        const int row = w->node[i + r], l = w->node[x];
        at->q[r] = NAME(at)(w->q, p->q_stride, row, l);
        at->v1[r] = NAME(at)(w->v1, p->v1_stride, row, l);
        at->dout[r] = s->dout + (i + r) * s->plane;
        at->dq[r] = s->dq + row * p->dq_stride[ROW] + l * p->dq_stride[COLUMN];
        at->dv1[r] = s->dv1 + row * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN];
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

static int64_t NAME(backward_scratch)(const problem *p) {
    int64_t n = p->n, plane = p->features * NAME(line)(p->padded), pivots = NAME(pivots_together)(p);
    return (2 * (p->key_is_ij ? n : pivots) + 2 * pivots + n) * plane + 3 * (n + ROWS) * p->padded;
}

static void NAME(backward)(const problem *p, int batch, int head, void *scratch, int *node) {
    const WORK work = NAME(set_up)(p, batch, head, node), *w = &work;
    const int64_t n = p->n, line = NAME(line)(p->padded), plane = p->features * line;
    const int count = w->count, padded = w->blocks * LANES, together = NAME(pivots_together)(p);
    const int64_t keys = p->key_is_ij ? n : together;
    NAME(backward_space) space = {.line = line, .plane = plane}, *s = &space;
    s->k = scratch;
    s->dk = s->k + keys * plane;
    s->v2 = s->dk + keys * plane;
    s->dv2 = s->v2 + together * plane;
    s->dout = s->dv2 + together * plane;
    s->largest = s->dout + n * plane;
    s->inverse_sum = s->largest + n * p->padded;
    s->dot = s->inverse_sum + n * p->padded;
    s->ds = s->dot + n * p->padded;
    s->kept = s->ds + ROWS * p->padded;
    s->factor = s->kept + ROWS * p->padded;
    s->dq = (REAL *)p->dq + batch * p->dq_stride[BATCH] + head * p->dq_stride[HEAD];
    s->dv1 = (REAL *)p->dv1 + batch * p->dv1_stride[BATCH] + head * p->dv1_stride[HEAD];
    const REAL *out = (const REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    const REAL *dout = (const REAL *)p->dout + batch * p->dout_stride[BATCH] + head * p->dout_stride[HEAD];
    const REAL *largest = (const REAL *)p->soft_max + ((int64_t)batch * p->heads + head) * 2 * n * n;
    const REAL *inverse_sum = largest + n * n;
    REAL *dk = (REAL *)p->dk + batch * p->dk_stride[BATCH] + head * p->dk_stride[HEAD];
    REAL *dv2 = w->v2 ? (REAL *)p->dv2 + batch * p->dv2_stride[BATCH] + head * p->dv2_stride[HEAD] : 0;

    for (int i = 0; i < count; i++) {
        NAME(pack)(w, dout, p->dout_stride, w->node[i], s->dout + i * plane, LANES, line);
        NAME(row_dots)(w, out, p->out_stride, dout, p->dout_stride, w->node[i], s->dot + i * padded);
        for (int j = 0; j < padded; j++) { /* no end j: weights of zero */
            s->largest[i * padded + j] = j < count ? largest[w->node[i] * n + w->node[j]] : INFINITY;
            s->inverse_sum[i * padded + j] = j < count ? inverse_sum[w->node[i] * n + w->node[j]] : 0;
        }
        if (p->key_is_ij) NAME(pack)(w, w->k, p->k_stride, w->node[i], s->k + i * plane, LANES, line);
    }
    if (p->key_is_ij) memset(s->dk, 0, (size_t)(count * plane) * sizeof(REAL));
    for (int start = 0; start < count; start += together) {
        const int pivots = count - start < together ? count - start : together;
        for (int slot = 0; slot < pivots; slot++) {
            const int l = w->node[start + slot];
            if (!p->key_is_ij) NAME(pack)(w, w->k, p->k_stride, l, s->k + slot * plane, LANES, line);
            if (w->v2) NAME(pack)(w, w->v2, p->v2_stride, l, s->v2 + slot * plane, LANES, line);
        }
        if (!p->key_is_ij) memset(s->dk, 0, (size_t)(pivots * plane) * sizeof(REAL));
        if (w->v2) memset(s->dv2, 0, (size_t)(pivots * plane) * sizeof(REAL));
        int i = 0;
        if (!p->key_is_ij) /* rows of the attention ablation have keys of their own: nothing to share */
            for (; i + ROWS <= count; i += ROWS)
                for (int slot = 0; slot < pivots; slot++) NAME(visit_rows)(w, s, i, start + slot, slot, ROWS);
        for (; i < count; i++)
            for (int slot = 0; slot < pivots; slot++) NAME(visit_rows)(w, s, i, start + slot, slot, 1);
        for (int slot = 0; slot < pivots; slot++) {
            const int l = w->node[start + slot];
            if (!p->key_is_ij) NAME(unpack)(w, s->dk + slot * plane, LANES, line, dk, p->dk_stride, l);
            if (w->v2) NAME(unpack)(w, s->dv2 + slot * plane, LANES, line, dv2, p->dv2_stride, l);
        }
    }
    for (int i = 0; p->key_is_ij && i < count; i++) NAME(unpack)(w, s->dk + i * plane, LANES, line, dk, p->dk_stride, w->node[i]);
    NAME(clear_padding)(w, s->dq, p->dq_stride);
    NAME(clear_padding)(w, dk, p->dk_stride);
    NAME(clear_padding)(w, s->dv1, p->dv1_stride);
    if (w->v2) NAME(clear_padding)(w, dv2, p->dv2_stride);
}

#undef ROWS
