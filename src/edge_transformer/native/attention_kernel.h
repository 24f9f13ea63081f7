/* Triangular attention for one (batch, head), forward and backward. attention.c includes this file once for every
 * combination of number type and vector width, with these macros set:
 *   REAL, WHOLE   the number type, and the signed integer type of its size
 *   LANES         numbers in a vector
 *   LOG           the logarithm of that type
 *   NAME(x)       the function's name with a suffix of its own
 *
 * Vectors run over j, the end of the updated edge: then soft-max over the pivots l needs no sums across a vector, and
 * the only such sums (over j, for the gradients of q and v1) are done for LANES features at once. For that, k, v2 and the
 * gradient of the output are rearranged into blocks of LANES ends j, padded with zeros. Scores live for a few rows i at a
 * time, so that nothing is larger than n * n * head_dim. The macros are undefined again at the end.
 */

typedef REAL NAME(vec) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef WHOLE NAME(ivec) __attribute__((vector_size(LANES * sizeof(REAL))));
#define VEC NAME(vec)
#define IVEC NAME(ivec)

static inline VEC NAME(load)(const REAL *p) { return *(const VEC *)p; } /* scratch is aligned */
static inline void NAME(store)(REAL *p, VEC v) { *(VEC *)p = v; }
static inline VEC NAME(all)(REAL x) { return x - (VEC){0}; }
static inline VEC NAME(select)(IVEC condition, VEC yes, VEC no) {
    return (VEC)((condition & (IVEC)yes) | (~condition & (IVEC)no));
}

/* exp(x) for x <= 0 (a little above does no harm): 2^k * e^r with |r| <= ln(2)/2, e^r by its Taylor polynomial. */
static inline VEC NAME(exp)(VEC x) {
    const int is_double = sizeof(REAL) == 8;
    const REAL low = is_double ? (REAL)-708.0 : (REAL)-87.0;
    const REAL magic = is_double ? (REAL)6755399441055744.0 : (REAL)12582912.0; /* 1.5 * 2^(mantissa bits) rounds */
    const REAL ln2_high = is_double ? (REAL)0.693147180369123816490 : (REAL)0.693359375;
    const REAL ln2_low = is_double ? (REAL)1.90821492927058770002e-10 : (REAL)-2.12194440e-4;
    IVEC tiny = x < NAME(all)(low);
    VEC shifted = NAME(select)(tiny, NAME(all)(low), x) * (REAL)1.44269504088896340736 + magic;
    VEC whole = shifted - magic;
    VEC r = NAME(select)(tiny, NAME(all)(low), x) - whole * ln2_high;
    r = r - whole * ln2_low;
    VEC p;
    if (is_double) {
        p = NAME(all)((REAL)1.6059043836821614599e-10);
        p = p * r + (REAL)2.0876756987868098979e-9;
        p = p * r + (REAL)2.5052108385441718775e-8;
        p = p * r + (REAL)2.7557319223985890653e-7;
        p = p * r + (REAL)2.7557319223985890653e-6;
        p = p * r + (REAL)2.4801587301587301587e-5;
        p = p * r + (REAL)1.9841269841269841270e-4;
        p = p * r + (REAL)1.3888888888888888889e-3;
    } else {
        p = NAME(all)((REAL)1.9841269841269841270e-4);
        p = p * r + (REAL)1.3888888888888888889e-3;
    }
    p = p * r + (REAL)8.3333333333333333333e-3;
    p = p * r + (REAL)4.1666666666666666667e-2;
    p = p * r + (REAL)1.6666666666666666667e-1;
    p = p * r + (REAL)0.5;
    p = p * r + (REAL)1.0;
    p = p * r + (REAL)1.0;
    VEC result = (VEC)((IVEC)p + ((IVEC)shifted << (is_double ? 52 : 23)));
    return NAME(select)(tiny, NAME(all)(0), result);
}

/* LANES sums of LANES vectors at once: lane f of the result is the sum of v[f]. Each round halves the number of vectors:
 * two of them become one that holds the partial sums of both. */
#if defined(__clang__) || __GNUC__ >= 12
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (IVEC){__VA_ARGS__})
#endif
static inline VEC NAME(sums)(VEC *v) {
#if LANES == 16
    for (int f = 0; f < 8; f++)
        v[f] = MIX(v[f], v[f + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               MIX(v[f], v[f + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    for (int f = 0; f < 4; f++)
        v[f] = MIX(v[f], v[f + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
               MIX(v[f], v[f + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    for (int f = 0; f < 2; f++)
        v[f] = MIX(v[f], v[f + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
               MIX(v[f], v[f + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    return MIX(v[0], v[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
           MIX(v[0], v[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
#elif LANES == 8
    for (int f = 0; f < 4; f++)
        v[f] = MIX(v[f], v[f + 4], 0, 1, 2, 3, 8, 9, 10, 11) + MIX(v[f], v[f + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    for (int f = 0; f < 2; f++)
        v[f] = MIX(v[f], v[f + 2], 0, 1, 8, 9, 4, 5, 12, 13) + MIX(v[f], v[f + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    return MIX(v[0], v[1], 0, 8, 2, 10, 4, 12, 6, 14) + MIX(v[0], v[1], 1, 9, 3, 11, 5, 13, 7, 15);
#elif LANES == 4
    for (int f = 0; f < 2; f++)
        v[f] = MIX(v[f], v[f + 2], 0, 1, 4, 5) + MIX(v[f], v[f + 2], 2, 3, 6, 7);
    return MIX(v[0], v[1], 0, 4, 2, 6) + MIX(v[0], v[1], 1, 5, 3, 7);
#else
    return MIX(v[0], v[1], 0, 2) + MIX(v[0], v[1], 1, 3);
#endif
}

/* ---- the arrangement of the numbers ----------------------------------------------------------------------------- */

/* What one (batch, head) works on. Pointers are at this batch and head; strides count numbers. Only real nodes take part:
 * they are counted by x, and node[x] is the node's number. */
typedef struct {
    const problem *p;
    const REAL *q, *k, *v1, *v2;
    int features, count, blocks; /* real nodes; vectors that hold them */
    const int *node;
    uint64_t key; /* of the random numbers of this batch and head */
} NAME(work);
#define WORK NAME(work)

static inline const REAL *NAME(at)(const REAL *base, const int64_t *stride, int row, int column) {
    return base + row * stride[ROW] + column * stride[COLUMN];
}

static WORK NAME(set_up)(const problem *p, int batch, int head, int *node) {
    WORK w = {.p = p, .features = p->features, .node = node};
    w.q = (const REAL *)p->q + batch * p->q_stride[BATCH] + head * p->q_stride[HEAD];
    w.k = (const REAL *)p->k + batch * p->k_stride[BATCH] + head * p->k_stride[HEAD];
    w.v1 = (const REAL *)p->v1 + batch * p->v1_stride[BATCH] + head * p->v1_stride[HEAD];
    if (p->v2) w.v2 = (const REAL *)p->v2 + batch * p->v2_stride[BATCH] + head * p->v2_stride[HEAD];
    const uint8_t *mask = p->mask ? p->mask + (int64_t)batch * p->n : 0;
    for (int x = 0; x < p->n; x++)
        if (!mask || mask[x]) node[w.count++] = x;
    w.blocks = (w.count + LANES - 1) / LANES;
    w.key = mix64(p->seed ^ mix64((uint64_t)batch * (uint64_t)p->heads + (uint64_t)head));
    return w;
}

/* Row `row` of a tensor, [j][feature], into blocks of LANES ends j: to[block][feature][lane], `feature_step` numbers from
 * feature to feature and `block_step` from block to block. Zeros behind the last j. */
static inline void NAME(pack)(const WORK *w, const REAL *from, const int64_t *stride, int row, REAL *to,
                              int64_t block_step, int64_t feature_step) {
    for (int j = 0; j < w->blocks * LANES; j++) {
        REAL *lane = to + j / LANES * block_step + j % LANES;
        if (j < w->count) {
            const REAL *edge = NAME(at)(from, stride, row, w->node[j]);
            for (int f = 0; f < w->features; f++) lane[f * feature_step] = edge[f];
        } else {
            for (int f = 0; f < w->features; f++) lane[f * feature_step] = 0;
        }
    }
}

/* The way back. */
static inline void NAME(unpack)(const WORK *w, const REAL *from, int64_t block_step, int64_t feature_step, REAL *to,
                                const int64_t *stride, int row) {
    for (int j = 0; j < w->count; j++) {
        const REAL *lane = from + j / LANES * block_step + j % LANES;
        REAL *edge = to + row * stride[ROW] + w->node[j] * stride[COLUMN];
        for (int f = 0; f < w->features; f++) edge[f] = lane[f * feature_step];
    }
}

/* Zero on every edge of a padding node. */
static void NAME(clear_padding)(const WORK *w, REAL *to, const int64_t *stride) {
    if (w->count == w->p->n) return;
    for (int i = 0, x = 0; i < w->p->n; i++) {
        int real = x < w->count && w->node[x] == i;
        x += real;
        for (int j = 0, y = 0; j < w->p->n; j++) {
            int both = real && y < w->count && w->node[y] == j;
            y += y < w->count && w->node[y] == j;
            if (!both) memset(to + i * stride[ROW] + j * stride[COLUMN], 0, (size_t)w->features * sizeof(REAL));
        }
    }
}

/* Whether each attention weight of (i, l) is kept, as the factor it is multiplied with. */
static void NAME(keep)(const WORK *w, int i, int l, REAL *factor) {
    uint32_t key = (uint32_t)mix64(w->key + (uint64_t)i * (uint64_t)w->p->n + (uint64_t)l);
    REAL kept = (REAL)w->p->keep_factor;
    uint32_t limit = w->p->drop_below;
    for (int j = 0; j < w->blocks * LANES; j++) factor[j] = mix32(key + (uint32_t)j * 0x9E3779B9u) < limit ? 0 : kept;
}

/* How many of the first ends j may not use pivot x for an edge from node i: in a decoder's graph, a target node is no
 * pivot for edges of two earlier nodes. */
static inline int NAME(forbidden)(const WORK *w, int i, int x) {
    int l = w->node[x];
    return (w->p->causal_from >= 0 && l >= w->p->causal_from && l > w->node[i]) ? x : 0;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

#define ROWS 4 /* rows i that share what is loaded of k and v2 */

typedef struct {
    REAL *k;      /* [x][block][feature][lane] */
    REAL *v2;     /* [block][feature][x][lane] */
    REAL *q;      /* [row][x][feature] */
    REAL *v1;     /* [row][feature][x] */
    REAL *scores; /* [row][block][x][lane]: scores, then weights */
    REAL *tile;   /* [row][block][feature][lane]: the output */
    REAL *factor; /* [j] */
} NAME(forward_space);

/* Rows that are computed together: as many as have their scores in a cache of the second level. */
static int NAME(rows_together)(const problem *p) {
    int64_t sheet = (int64_t)p->n * p->padded * (int64_t)sizeof(REAL), rows = 160 * 1024 / sheet / ROWS * ROWS;
    int64_t most = (p->n + ROWS - 1) / ROWS * ROWS;
    rows = rows < ROWS ? ROWS : rows;
    return (int)(rows > most ? most : rows);
}

static inline __attribute__((always_inline)) void NAME(score_rows)(
    const WORK *w, const NAME(forward_space) *s, int first, int x, const REAL *k, const int count) {
    const int features = w->features;
    const int64_t sheet = (int64_t)w->blocks * w->count * LANES;
    const REAL scale = (REAL)w->p->scale;
    const REAL *q[ROWS];
    REAL *to[ROWS];
    for (int r = 0; r < count; r++) {
        q[r] = s->q + ((int64_t)(first + r) * w->count + x) * features;
        to[r] = s->scores + (first + r) * sheet + (int64_t)x * LANES;
    }
    int block = 0;
    for (; block + 2 <= w->blocks; block += 2) {
        const REAL *k0 = k + (int64_t)block * features * LANES, *k1 = k0 + (int64_t)features * LANES;
        VEC a[ROWS], b[ROWS];
        for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
        for (int f = 0; f < features; f++) {
            VEC x0 = NAME(load)(k0 + f * LANES), x1 = NAME(load)(k1 + f * LANES);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * x0;
                b[r] += q[r][f] * x1;
            }
        }
        for (int r = 0; r < count; r++) {
            NAME(store)(to[r] + (int64_t)block * w->count * LANES, a[r] * scale);
            NAME(store)(to[r] + (int64_t)(block + 1) * w->count * LANES, b[r] * scale);
        }
    }
    if (block < w->blocks) {
        const REAL *k0 = k + (int64_t)block * features * LANES;
        VEC a[ROWS], b[ROWS]; /* two sums each, so that one need not wait for the other */
        for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
        int f = 0;
        for (; f + 2 <= features; f += 2) {
            VEC x0 = NAME(load)(k0 + f * LANES), x1 = NAME(load)(k0 + (f + 1) * LANES);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * x0;
                b[r] += q[r][f + 1] * x1;
            }
        }
        for (int r = 0; f < features && r < count; r++) a[r] += q[r][f] * NAME(load)(k0 + f * LANES);
        for (int r = 0; r < count; r++) NAME(store)(to[r] + (int64_t)block * w->count * LANES, (a[r] + b[r]) * scale);
    }
}

/* Soft-max over the pivots, for LANES ends j at once; the log of the sum is kept for the backward pass. */
static void NAME(soft_max)(const WORK *w, const NAME(forward_space) *s, int row, int i, REAL *lse) {
    for (int block = 0; block < w->blocks; block++) {
        REAL *weights = s->scores + ((int64_t)row * w->blocks + block) * w->count * LANES;
        VEC most = NAME(load)(weights), sum = {0};
        for (int x = 1; x < w->count; x++) {
            VEC one = NAME(load)(weights + (int64_t)x * LANES);
            most = NAME(select)(one > most, one, most);
        }
        for (int x = 0; x < w->count; x++) {
            VEC one = NAME(exp)(NAME(load)(weights + (int64_t)x * LANES) - most);
            sum += one;
            NAME(store)(weights + (int64_t)x * LANES, one);
        }
        VEC inverse = 1 / sum;
        for (int x = 0; x < w->count; x++)
            NAME(store)(weights + (int64_t)x * LANES, NAME(load)(weights + (int64_t)x * LANES) * inverse);
        for (int lane = 0; lane < LANES && block * LANES + lane < w->count; lane++)
            lse[(int64_t)w->node[i] * w->p->n + w->node[block * LANES + lane]] = most[lane] + LOG(sum[lane]);
    }
    for (int x = 0; w->p->drop_below && x < w->count; x++) {
        NAME(keep)(w, w->node[i], w->node[x], s->factor);
        for (int block = 0; block < w->blocks; block++) {
            REAL *weight = s->scores + (((int64_t)row * w->blocks + block) * w->count + x) * LANES;
            NAME(store)(weight, NAME(load)(weight) * NAME(load)(s->factor + block * LANES));
        }
    }
}

static inline __attribute__((always_inline)) void NAME(mix_rows)(
    const WORK *w, const NAME(forward_space) *s, int first, int block, int f, const int count, const int pair) {
    const int n = w->count;
    const REAL *weights[ROWS], *v1[ROWS];
    for (int r = 0; r < count; r++) {
        weights[r] = s->scores + ((int64_t)(first + r) * w->blocks + block) * n * LANES;
        v1[r] = s->v1 + ((int64_t)(first + r) * w->features + f) * n;
    }
    const REAL *x0 = s->v2 + ((int64_t)block * w->features + f) * n * LANES, *x1 = x0 + (int64_t)n * LANES;
    VEC a[ROWS], b[ROWS];
    for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
    if (w->v2) {
        for (int x = 0; x < n; x++) {
            VEC y0 = NAME(load)(x0 + (int64_t)x * LANES), y1 = pair ? NAME(load)(x1 + (int64_t)x * LANES) : y0;
            for (int r = 0; r < count; r++) {
                VEC weight = NAME(load)(weights[r] + (int64_t)x * LANES);
                a[r] += weight * (v1[r][x] * y0);
                if (pair) b[r] += weight * (v1[r][n + x] * y1);
            }
        }
    } else {
        for (int x = 0; x < n; x++)
            for (int r = 0; r < count; r++) {
                VEC weight = NAME(load)(weights[r] + (int64_t)x * LANES);
                a[r] += weight * v1[r][x];
                if (pair) b[r] += weight * v1[r][n + x];
            }
    }
    for (int r = 0; r < count; r++) {
        REAL *to = s->tile + (((int64_t)(first + r) * w->blocks + block) * w->features + f) * LANES;
        NAME(store)(to, a[r]);
        if (pair) NAME(store)(to + LANES, b[r]);
    }
}

static int64_t NAME(forward_scratch)(const problem *p) {
    int64_t n = p->n, plane = (int64_t)p->features * p->padded, rows = NAME(rows_together)(p);
    return 2 * n * plane + rows * (2 * round_up(n * p->features) + n * p->padded + plane) + p->padded;
}

static void NAME(forward)(const problem *p, int batch, int head, void *scratch, int *node) {
    const WORK work = NAME(set_up)(p, batch, head, node), *w = &work;
    const int64_t n = p->n, plane = (int64_t)p->features * p->padded;
    const int together = NAME(rows_together)(p), features = p->features, count = w->count;
    NAME(forward_space) space, *s = &space;
    s->k = scratch;
    s->v2 = s->k + n * plane;
    s->scores = s->v2 + n * plane;
    s->tile = s->scores + together * n * p->padded;
    s->factor = s->tile + together * plane;
    s->q = s->factor + p->padded;
    s->v1 = s->q + together * round_up(n * features);
    REAL *out = (REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    REAL *lse = (REAL *)p->lse + ((int64_t)batch * p->heads + head) * n * n;
    const int64_t block = (int64_t)features * LANES;
    for (int x = 0; x < count; x++) {
        NAME(pack)(w, w->k, p->k_stride, w->node[x], s->k + x * w->blocks * block, block, LANES);
        if (w->v2)
            NAME(pack)(w, w->v2, p->v2_stride, w->node[x], s->v2 + (int64_t)x * LANES, block * count, (int64_t)count * LANES);
    }
    for (int start = 0; start < count; start += together) {
        const int rows = count - start < together ? count - start : together;
        for (int r = 0; r < rows; r++)
            for (int x = 0; x < count; x++) {
                const REAL *q = NAME(at)(w->q, p->q_stride, w->node[start + r], w->node[x]);
                const REAL *v1 = NAME(at)(w->v1, p->v1_stride, w->node[start + r], w->node[x]);
                memcpy(s->q + ((int64_t)r * count + x) * features, q, (size_t)features * sizeof(REAL));
                for (int f = 0; f < features; f++) s->v1[((int64_t)r * features + f) * count + x] = v1[f];
            }
        for (int x = 0; x < count; x++) {
            int r = 0;
            if (!p->key_is_ij) /* rows of the attention ablation have keys of their own: nothing to share */
                for (; r + ROWS <= rows; r += ROWS) NAME(score_rows)(w, s, r, x, s->k + x * w->blocks * block, ROWS);
            for (; r < rows; r++)
                NAME(score_rows)(w, s, r, x, s->k + (p->key_is_ij ? start + r : x) * w->blocks * block, 1);
            for (r = 0; p->causal_from >= 0 && r < rows; r++)
                for (int j = 0; j < NAME(forbidden)(w, start + r, x); j++)
                    s->scores[(((int64_t)r * w->blocks + j / LANES) * count + x) * LANES + j % LANES] = -INFINITY;
        }
        for (int r = 0; r < rows; r++) NAME(soft_max)(w, s, r, start + r, lse);
        for (int b = 0; b < w->blocks; b++)
            for (int f = 0; f < features; f += 2) {
                int r = 0;
                if (f + 1 < features) {
                    for (; r + ROWS <= rows; r += ROWS) NAME(mix_rows)(w, s, r, b, f, ROWS, 1);
                    for (; r < rows; r++) NAME(mix_rows)(w, s, r, b, f, 1, 1);
                }
                for (; r < rows; r++) NAME(mix_rows)(w, s, r, b, f, 1, 0);
            }
        for (int r = 0; r < rows; r++)
            NAME(unpack)(w, s->tile + r * w->blocks * block, block, LANES, out, p->out_stride, w->node[start + r]);
    }
    NAME(clear_padding)(w, out, p->out_stride);
}

/* ---- backward -----------------------------------------------------------------------------------------------------
 * With weights a (before dropout) and kept weights a' = a * factor, for every triangle:
 *   da  = factor * sum_f dout_ij v1_il v2_lj         ds = a * (da - sum_f dout_ij out_ij) * scale
 *   dq_il = sum_j ds k_lj           dk_lj = sum_i ds q_il
 *   dv1_il = sum_j a' dout_ij v2_lj      dv2_lj = sum_i a' dout_ij v1_il
 * The pivot l is the outer loop: all that belongs to it stays in the cache while the rows i pass by.
 */

#undef ROWS
#define ROWS 2

typedef struct {
    REAL *k, *v2, *dk, *dv2; /* [feature][j] of one pivot (of one row, for k of the attention ablation) */
    REAL *dout;              /* [i][feature][j] */
    int64_t line, plane;     /* numbers from feature to feature, and in all of them */
    REAL *lse, *dot;         /* [i][j] */
    REAL *q, *v1;            /* [i][feature] of one pivot */
    REAL *ds, *kept, *factor; /* [row][j] */
} NAME(backward_space);

/* From feature to feature: a little more than the vectors need where they would all fall into the same part of a cache. */
static int64_t NAME(line)(int64_t padded) { return padded % 64 == 0 ? padded + LANES : padded; }

/* The weights of one block, and the gradients of its scores. */
static inline __attribute__((always_inline)) void NAME(weigh)(
    const WORK *w, const NAME(backward_space) *s, int i, int r, int block, VEC score, VEC gradient) {
    const int padded = w->blocks * LANES;
    const int64_t j = (int64_t)(i + r) * padded + block * LANES, to = (int64_t)r * padded + block * LANES;
    VEC weight = NAME(exp)(score - NAME(load)(s->lse + j));
    VEC factor = w->p->drop_below ? NAME(load)(s->factor + to) : NAME(all)(1);
    NAME(store)(s->kept + to, weight * factor);
    NAME(store)(s->ds + to, weight * (gradient * factor - NAME(load)(s->dot + j)) * (REAL)w->p->scale);
}

static inline __attribute__((always_inline)) void NAME(weigh_rows)(
    const WORK *w, const NAME(backward_space) *s, int i, int x, const REAL *k, const int count) {
    const int features = w->features, padded = w->blocks * LANES;
    const problem *p = w->p;
    const REAL scale = (REAL)p->scale;
    const REAL *q[ROWS], *v1[ROWS], *dout[ROWS];
    for (int r = 0; r < count; r++) {
        q[r] = s->q + (int64_t)(i + r) * features;
        v1[r] = s->v1 + (int64_t)(i + r) * features;
        dout[r] = s->dout + (i + r) * s->plane;
        if (p->drop_below) NAME(keep)(w, w->node[i + r], w->node[x], s->factor + r * padded);
    }
    /* Sums of the scores in the same order as in the forward pass, so that the weights come out the same. */
    const int64_t line = s->line;
    int block = 0;
    for (; block + 2 <= w->blocks; block += 2) {
        const int64_t at = (int64_t)block * LANES;
        VEC a[ROWS], b[ROWS], c[ROWS], d[ROWS];
        for (int r = 0; r < count; r++) a[r] = b[r] = c[r] = d[r] = (VEC){0};
        for (int f = 0; f < features; f++) {
            const int64_t here = at + f * line;
            VEC k0 = NAME(load)(k + here), k1 = NAME(load)(k + here + LANES);
            VEC y0 = NAME(all)(1), y1 = y0;
            if (w->v2) y0 = NAME(load)(s->v2 + here), y1 = NAME(load)(s->v2 + here + LANES);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * k0;
                b[r] += q[r][f] * k1;
                c[r] += v1[r][f] * (NAME(load)(dout[r] + here) * y0);
                d[r] += v1[r][f] * (NAME(load)(dout[r] + here + LANES) * y1);
            }
        }
        for (int r = 0; r < count; r++) {
            NAME(weigh)(w, s, i, r, block, a[r] * scale, c[r]);
            NAME(weigh)(w, s, i, r, block + 1, b[r] * scale, d[r]);
        }
    }
    if (block < w->blocks) {
        const int64_t at = (int64_t)block * LANES;
        VEC a[ROWS], b[ROWS], c[ROWS], d[ROWS];
        for (int r = 0; r < count; r++) a[r] = b[r] = c[r] = d[r] = (VEC){0};
        int f = 0;
        for (; f + 2 <= features; f += 2) {
            const int64_t here = at + f * line;
            VEC k0 = NAME(load)(k + here), k1 = NAME(load)(k + here + line);
            VEC y0 = NAME(all)(1), y1 = y0;
            if (w->v2) y0 = NAME(load)(s->v2 + here), y1 = NAME(load)(s->v2 + here + line);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * k0;
                b[r] += q[r][f + 1] * k1;
                c[r] += v1[r][f] * (NAME(load)(dout[r] + here) * y0);
                d[r] += v1[r][f + 1] * (NAME(load)(dout[r] + here + line) * y1);
            }
        }
        for (int r = 0; f < features && r < count; r++) {
            VEC y0 = w->v2 ? NAME(load)(s->v2 + at + f * line) : NAME(all)(1);
            a[r] += q[r][f] * NAME(load)(k + at + f * line);
            c[r] += v1[r][f] * (NAME(load)(dout[r] + at + f * line) * y0);
        }
        for (int r = 0; r < count; r++) NAME(weigh)(w, s, i, r, block, (a[r] + b[r]) * scale, c[r] + d[r]);
    }
    for (int r = 0; p->causal_from >= 0 && r < count; r++)
        for (int j = 0; j < NAME(forbidden)(w, i + r, x); j++) s->ds[r * padded + j] = s->kept[r * padded + j] = 0;
}

static inline __attribute__((always_inline)) void NAME(spread_rows)(
    const WORK *w, const NAME(backward_space) *s, int i, const REAL *k, REAL *dk, REAL *dq[ROWS], REAL *dv1[ROWS],
    const int count) {
    const int features = w->features, padded = w->blocks * LANES;
    const REAL *q[ROWS], *v1[ROWS], *dout[ROWS];
    for (int r = 0; r < count; r++) {
        q[r] = s->q + (int64_t)(i + r) * features;
        v1[r] = s->v1 + (int64_t)(i + r) * features;
        dout[r] = s->dout + (i + r) * s->plane;
    }
    for (int f = 0; f < features; f += LANES) { /* LANES features, so that their sums over j are made together */
        VEC sums_q[ROWS][LANES], sums_v[ROWS][LANES];
        const int some = features - f < LANES ? features - f : LANES;
        for (int m = 0; m < some; m++) {
            VEC a[ROWS], b[ROWS];
            for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
            for (int block = 0; block < w->blocks; block++) {
                const int64_t at = (f + m) * s->line + block * LANES;
                VEC kf = NAME(load)(k + at), dkf = NAME(load)(dk + at);
                VEC v2f = NAME(all)(1), dv2f = v2f;
                if (w->v2) v2f = NAME(load)(s->v2 + at), dv2f = NAME(load)(s->dv2 + at);
                for (int r = 0; r < count; r++) {
                    VEC ds = NAME(load)(s->ds + r * padded + block * LANES);
                    VEC mixed = NAME(load)(s->kept + r * padded + block * LANES) * NAME(load)(dout[r] + at);
                    a[r] += ds * kf;
                    b[r] += mixed * v2f;
                    dkf += q[r][f + m] * ds;
                    dv2f += v1[r][f + m] * mixed;
                }
                NAME(store)(dk + at, dkf);
                if (w->v2) NAME(store)(s->dv2 + at, dv2f);
            }
            for (int r = 0; r < count; r++) sums_q[r][m] = a[r], sums_v[r][m] = b[r];
        }
        for (int r = 0; r < count; r++) {
            for (int m = some; m < LANES; m++) sums_q[r][m] = sums_v[r][m] = (VEC){0};
            VEC a = NAME(sums)(sums_q[r]), b = NAME(sums)(sums_v[r]);
            memcpy(dq[r] + f, &a, (size_t)some * sizeof(REAL));
            memcpy(dv1[r] + f, &b, (size_t)some * sizeof(REAL));
        }
    }
}

static int64_t NAME(backward_scratch)(const problem *p) {
    int64_t n = p->n, plane = p->features * NAME(line)(p->padded), keys = p->key_is_ij ? n : 1;
    return (2 * keys + 2 + n) * plane + 2 * n * p->padded + 3 * ROWS * (int64_t)p->padded + 2 * round_up(n * p->features);
}

static void NAME(backward)(const problem *p, int batch, int head, void *scratch, int *node) {
    const WORK work = NAME(set_up)(p, batch, head, node), *w = &work;
    const int64_t n = p->n, line = NAME(line)(p->padded), plane = p->features * line, keys = p->key_is_ij ? n : 1;
    const int features = p->features, count = w->count, padded = w->blocks * LANES;
    NAME(backward_space) space = {.line = line, .plane = plane}, *s = &space;
    s->k = scratch;
    s->dk = s->k + keys * plane;
    s->v2 = s->dk + keys * plane;
    s->dv2 = s->v2 + plane;
    s->dout = s->dv2 + plane;
    s->lse = s->dout + n * plane;
    s->dot = s->lse + n * p->padded;
    s->ds = s->dot + n * p->padded;
    s->kept = s->ds + ROWS * p->padded;
    s->factor = s->kept + ROWS * p->padded;
    s->q = s->factor + ROWS * p->padded;
    s->v1 = s->q + round_up(n * features);
    const REAL *out = (const REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    const REAL *dout = (const REAL *)p->dout + batch * p->dout_stride[BATCH] + head * p->dout_stride[HEAD];
    const REAL *lse = (const REAL *)p->lse + ((int64_t)batch * p->heads + head) * n * n;
    REAL *dq = (REAL *)p->dq + batch * p->dq_stride[BATCH] + head * p->dq_stride[HEAD];
    REAL *dk = (REAL *)p->dk + batch * p->dk_stride[BATCH] + head * p->dk_stride[HEAD];
    REAL *dv1 = (REAL *)p->dv1 + batch * p->dv1_stride[BATCH] + head * p->dv1_stride[HEAD];
    REAL *dv2 = w->v2 ? (REAL *)p->dv2 + batch * p->dv2_stride[BATCH] + head * p->dv2_stride[HEAD] : 0;

    for (int i = 0; i < count; i++) {
        NAME(pack)(w, dout, p->dout_stride, w->node[i], s->dout + i * plane, LANES, line);
        for (int j = 0; j < padded; j++) {
            REAL dot = 0;
            for (int f = 0; j < count && f < features; f++)
                dot += NAME(at)(out, p->out_stride, w->node[i], w->node[j])[f] *
                       NAME(at)(dout, p->dout_stride, w->node[i], w->node[j])[f];
            s->dot[i * padded + j] = dot;
            s->lse[i * padded + j] = j < count ? lse[w->node[i] * n + w->node[j]] : INFINITY; /* weights of zero */
        }
        if (p->key_is_ij) NAME(pack)(w, w->k, p->k_stride, w->node[i], s->k + i * plane, LANES, line);
    }
    if (p->key_is_ij) memset(s->dk, 0, (size_t)(count * plane) * sizeof(REAL));
    for (int x = 0; x < count; x++) {
        const int l = w->node[x];
        if (!p->key_is_ij) {
            NAME(pack)(w, w->k, p->k_stride, l, s->k, LANES, line);
            memset(s->dk, 0, (size_t)plane * sizeof(REAL));
        }
        if (w->v2) {
            NAME(pack)(w, w->v2, p->v2_stride, l, s->v2, LANES, line);
            memset(s->dv2, 0, (size_t)plane * sizeof(REAL));
        }
        for (int i = 0; i < count; i++) {
            memcpy(s->q + (int64_t)i * features, NAME(at)(w->q, p->q_stride, w->node[i], l), (size_t)features * sizeof(REAL));
            memcpy(s->v1 + (int64_t)i * features, NAME(at)(w->v1, p->v1_stride, w->node[i], l), (size_t)features * sizeof(REAL));
        }
        for (int i = 0; i < count;) {
            const int pair = !p->key_is_ij && i + ROWS <= count;
            const REAL *k = s->k + (p->key_is_ij ? i * plane : 0);
            REAL *to_k = s->dk + (p->key_is_ij ? i * plane : 0), *to_q[ROWS], *to_v[ROWS];
            for (int r = 0; r < (pair ? ROWS : 1); r++) {
                to_q[r] = dq + w->node[i + r] * p->dq_stride[ROW] + l * p->dq_stride[COLUMN];
                to_v[r] = dv1 + w->node[i + r] * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN];
            }
            if (pair) {
                NAME(weigh_rows)(w, s, i, x, k, ROWS);
                NAME(spread_rows)(w, s, i, k, to_k, to_q, to_v, ROWS);
            } else {
                NAME(weigh_rows)(w, s, i, x, k, 1);
                NAME(spread_rows)(w, s, i, k, to_k, to_q, to_v, 1);
            }
            i += pair ? ROWS : 1;
        }
        if (!p->key_is_ij) NAME(unpack)(w, s->dk, LANES, line, dk, p->dk_stride, l);
        if (w->v2) NAME(unpack)(w, s->dv2, LANES, line, dv2, p->dv2_stride, l);
    }
    for (int i = 0; p->key_is_ij && i < count; i++) NAME(unpack)(w, s->dk + i * plane, LANES, line, dk, p->dk_stride, w->node[i]);
    NAME(clear_padding)(w, dq, p->dq_stride);
    NAME(clear_padding)(w, dk, p->dk_stride);
    NAME(clear_padding)(w, dv1, p->dv1_stride);
    if (w->v2) NAME(clear_padding)(w, dv2, p->dv2_stride);
}

#undef ROWS
#undef VEC
#undef IVEC
#undef WORK
#undef MIX
#undef REAL
#undef WHOLE
#undef LOG
#undef LANES
#undef NAME
