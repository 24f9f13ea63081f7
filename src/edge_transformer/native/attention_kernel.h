/* Triangular attention for one (batch, head), forward and backward. attention.c includes this file once for every
 * combination of number type and vector width, with these macros set:
 *   REAL, WHOLE   the number type, and the signed integer type of its size
 *   LANES         numbers in a vector
 *   LOG           the logarithm of that type
 *   NAME(x)       the function's name with a suffix of its own
 *
 * Vectors run over j, the end of the updated edge: then soft-max over the pivots l needs no sums across a vector, and
 * the only such sums (over j, for the gradients of q and v1) are done for LANES features at once. For that, k and v2
 * are first rearranged to [l][feature][j], j padded with zeros to whole vectors. A row of scores lives for one i only, so
 * that nothing is larger than n * n * head_dim. The macros are undefined again at the end.
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

/* [j][feature] -> [feature][j], with zeros behind the last j. */
static void NAME(pack)(const REAL *from, int64_t j_stride, REAL *to, int n, int padded, int features) {
    for (int f = 0; f < features; f++) {
        for (int j = 0; j < n; j++) to[(int64_t)f * padded + j] = from[j * j_stride + f];
        for (int j = n; j < padded; j++) to[(int64_t)f * padded + j] = 0;
    }
}

static void NAME(unpack)(const REAL *from, int padded, REAL *to, int64_t j_stride, int n, int features) {
    for (int j = 0; j < n; j++)
        for (int f = 0; f < features; f++) to[j * j_stride + f] = from[(int64_t)f * padded + j];
}

/* What one (batch, head) works on. Pointers are at this batch and head; strides count numbers. */
typedef struct {
    const problem *p;
    int n, padded, features;
    const REAL *q, *k, *v1, *v2;
    const uint8_t *mask;
    int pivots;   /* how many nodes are real */
    int *pivot;   /* which */
    uint64_t key; /* of the random numbers of this batch and head */
    REAL *packed_k, *packed_v2;
} NAME(work);
#define WORK NAME(work)

static inline const REAL *NAME(at)(const REAL *base, const int64_t *stride, int row, int column) {
    return base + row * stride[ROW] + column * stride[COLUMN];
}

/* Whether each attention weight of (i, l) is kept, as the factor it is multiplied with. */
static void NAME(keep)(const WORK *w, int i, int l, REAL *factor) {
    uint32_t key = mix64(w->key + (uint64_t)i * (uint64_t)w->n + (uint64_t)l);
    REAL kept = (REAL)w->p->keep_factor;
    uint32_t limit = w->p->drop_below;
    for (int j = 0; j < w->padded; j++) factor[j] = mix32(key + (uint32_t)j * 0x9E3779B9u) < limit ? 0 : kept;
}

/* The first j whose edge (i, j) may use pivot l: in a decoder's graph, a target node is no pivot for earlier nodes. */
static inline int NAME(first_end)(const WORK *w, int i, int l) {
    return (w->p->causal_from >= 0 && l >= w->p->causal_from && l > i) ? l : 0;
}

static void NAME(set_up)(WORK *w, const problem *p, int batch, int head, REAL *scratch, int *pivot) {
    int64_t plane = (int64_t)p->features * p->padded;
    w->p = p;
    w->n = p->n;
    w->padded = p->padded;
    w->features = p->features;
    w->q = (const REAL *)p->q + batch * p->q_stride[BATCH] + head * p->q_stride[HEAD];
    w->k = (const REAL *)p->k + batch * p->k_stride[BATCH] + head * p->k_stride[HEAD];
    w->v1 = (const REAL *)p->v1 + batch * p->v1_stride[BATCH] + head * p->v1_stride[HEAD];
    w->v2 = p->v2 ? (const REAL *)p->v2 + batch * p->v2_stride[BATCH] + head * p->v2_stride[HEAD] : 0;
    w->mask = p->mask ? p->mask + (int64_t)batch * p->n : 0;
    w->pivot = pivot;
    w->pivots = 0;
    for (int l = 0; l < p->n; l++)
        if (!w->mask || w->mask[l]) pivot[w->pivots++] = l;
    w->key = mix64(p->seed ^ mix64((uint64_t)batch * (uint64_t)p->heads + (uint64_t)head));
    w->packed_k = scratch;
    w->packed_v2 = scratch + p->n * plane;
    for (int l = 0; l < p->n; l++) {
        NAME(pack)(NAME(at)(w->k, p->k_stride, l, 0), p->k_stride[COLUMN], w->packed_k + l * plane, w->n, w->padded, w->features);
        if (w->v2)
            NAME(pack)(NAME(at)(w->v2, p->v2_stride, l, 0), p->v2_stride[COLUMN], w->packed_v2 + l * plane, w->n, w->padded, w->features);
    }
}

/* ---- forward: rows i .. i + ROWS - 1 share what is loaded of k and v2 ------------------------------------------- */

#define FORWARD_ROWS 4

static inline __attribute__((always_inline)) void NAME(forward_rows)(
    const WORK *w, const int *rows, const int count, REAL *scores, REAL *tile, REAL *factor, REAL *out, REAL *lse) {
    const int n = w->n, padded = w->padded, features = w->features;
    const int64_t plane = (int64_t)features * padded, sheet = (int64_t)n * padded;
    const int64_t *qs = w->p->q_stride, *v1s = w->p->v1_stride;
    const REAL scale = (REAL)w->p->scale;

    for (int x = 0; x < w->pivots; x++) { /* scores[row][x][j] */
        int l = w->pivot[x];
        const REAL *k = w->packed_k + (w->p->key_is_ij ? rows[0] : l) * plane;
        const REAL *q[FORWARD_ROWS];
        for (int r = 0; r < count; r++) q[r] = NAME(at)(w->q, qs, rows[r], l);
        int v = 0;
        for (; v + 2 * LANES <= padded; v += 2 * LANES) {
            VEC a[FORWARD_ROWS], b[FORWARD_ROWS];
            for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
            for (int f = 0; f < features; f++) {
                VEC k0 = NAME(load)(k + f * padded + v), k1 = NAME(load)(k + f * padded + v + LANES);
                for (int r = 0; r < count; r++) {
                    a[r] += q[r][f] * k0;
                    b[r] += q[r][f] * k1;
                }
            }
            for (int r = 0; r < count; r++) {
                NAME(store)(scores + r * sheet + x * padded + v, a[r] * scale);
                NAME(store)(scores + r * sheet + x * padded + v + LANES, b[r] * scale);
            }
        }
        for (; v < padded; v += LANES) {
            VEC a[FORWARD_ROWS];
            for (int r = 0; r < count; r++) a[r] = (VEC){0};
            for (int f = 0; f < features; f++) {
                VEC k0 = NAME(load)(k + f * padded + v);
                for (int r = 0; r < count; r++) a[r] += q[r][f] * k0;
            }
            for (int r = 0; r < count; r++) NAME(store)(scores + r * sheet + x * padded + v, a[r] * scale);
        }
        for (int r = 0; r < count; r++)
            for (int j = 0; j < NAME(first_end)(w, rows[r], l); j++) scores[r * sheet + x * padded + j] = -INFINITY;
    }

    for (int r = 0; r < count; r++) { /* soft-max over the pivots, for LANES ends j at once */
        REAL *s = scores + r * sheet;
        for (int v = 0; v < padded; v += LANES) {
            VEC most = NAME(load)(s + v), sum = {0};
            for (int x = 1; x < w->pivots; x++) {
                VEC one = NAME(load)(s + x * padded + v);
                most = NAME(select)(one > most, one, most);
            }
            for (int x = 0; x < w->pivots; x++) {
                VEC one = NAME(exp)(NAME(load)(s + x * padded + v) - most);
                sum += one;
                NAME(store)(s + x * padded + v, one);
            }
            VEC inverse = 1 / sum;
            for (int x = 0; x < w->pivots; x++)
                NAME(store)(s + x * padded + v, NAME(load)(s + x * padded + v) * inverse);
            for (int lane = 0; lane < LANES && v + lane < n; lane++)
                lse[(int64_t)rows[r] * n + v + lane] = most[lane] + LOG(sum[lane]);
        }
        if (w->p->drop_below)
            for (int x = 0; x < w->pivots; x++) {
                NAME(keep)(w, rows[r], w->pivot[x], factor);
                for (int v = 0; v < padded; v += LANES)
                    NAME(store)(s + x * padded + v, NAME(load)(s + x * padded + v) * NAME(load)(factor + v));
            }
    }

    for (int v = 0; v < padded; v += LANES) { /* tile[row][feature][j] = sum over pivots of weight * v1 * v2 */
        int f = 0;
        for (; f + 2 <= features; f += 2) {
            VEC a[FORWARD_ROWS], b[FORWARD_ROWS];
            for (int r = 0; r < count; r++) a[r] = b[r] = (VEC){0};
            for (int x = 0; x < w->pivots; x++) {
                int l = w->pivot[x];
                VEC x0 = NAME(all)(1), x1 = x0;
                if (w->v2) {
                    x0 = NAME(load)(w->packed_v2 + l * plane + f * padded + v);
                    x1 = NAME(load)(w->packed_v2 + l * plane + (f + 1) * padded + v);
                }
                for (int r = 0; r < count; r++) {
                    const REAL *v1 = NAME(at)(w->v1, v1s, rows[r], l) + f;
                    VEC weight = NAME(load)(scores + r * sheet + x * padded + v);
                    a[r] += weight * (v1[0] * x0);
                    b[r] += weight * (v1[1] * x1);
                }
            }
            for (int r = 0; r < count; r++) {
                NAME(store)(tile + r * plane + f * padded + v, a[r]);
                NAME(store)(tile + r * plane + (f + 1) * padded + v, b[r]);
            }
        }
        for (; f < features; f++)
            for (int r = 0; r < count; r++) {
                VEC a = {0};
                for (int x = 0; x < w->pivots; x++) {
                    int l = w->pivot[x];
                    VEC weight = NAME(load)(scores + r * sheet + x * padded + v);
                    REAL v1 = NAME(at)(w->v1, v1s, rows[r], l)[f];
                    a += w->v2 ? weight * (v1 * NAME(load)(w->packed_v2 + l * plane + f * padded + v)) : weight * v1;
                }
                NAME(store)(tile + r * plane + f * padded + v, a);
            }
    }
    const int64_t *os = w->p->out_stride;
    for (int r = 0; r < count; r++) {
        NAME(unpack)(tile + r * plane, padded, out + rows[r] * os[ROW], os[COLUMN], n, features);
        for (int j = 0; w->mask && j < n; j++)
            if (!w->mask[j]) {
                memset(out + rows[r] * os[ROW] + j * os[COLUMN], 0, (size_t)features * sizeof(REAL));
                lse[(int64_t)rows[r] * n + j] = INFINITY; /* so that backward finds weights of zero */
            }
    }
}

static int64_t NAME(forward_scratch)(const problem *p) {
    int64_t plane = (int64_t)p->features * p->padded;
    return (2 * p->n + FORWARD_ROWS) * plane + FORWARD_ROWS * (int64_t)p->n * p->padded + p->padded;
}

static void NAME(forward)(const problem *p, int batch, int head, void *scratch, int *pivot) {
    WORK w;
    int64_t plane = (int64_t)p->features * p->padded;
    NAME(set_up)(&w, p, batch, head, scratch, pivot);
    REAL *tile = (REAL *)scratch + 2 * p->n * plane;
    REAL *scores = tile + FORWARD_ROWS * plane, *factor = scores + FORWARD_ROWS * (int64_t)p->n * p->padded;
    REAL *out = (REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    REAL *lse = (REAL *)p->lse + ((int64_t)batch * p->heads + head) * p->n * p->n;
    for (int i = 0; i < p->n; i++)
        if (w.mask && !w.mask[i])
            for (int j = 0; j < p->n; j++) {
                memset(out + i * p->out_stride[ROW] + j * p->out_stride[COLUMN], 0, (size_t)p->features * sizeof(REAL));
                lse[(int64_t)i * p->n + j] = INFINITY;
            }
    int x = 0;
    if (!p->key_is_ij) /* rows of the attention ablation have their own keys: nothing to share */
        for (; x + FORWARD_ROWS <= w.pivots; x += FORWARD_ROWS)
            NAME(forward_rows)(&w, pivot + x, FORWARD_ROWS, scores, tile, factor, out, lse);
    for (; x < w.pivots; x++) NAME(forward_rows)(&w, pivot + x, 1, scores, tile, factor, out, lse);
}

/* ---- backward ---------------------------------------------------------------------------------------------------
 * With weights a (before dropout) and kept weights a' = a * factor, for every triangle:
 *   da  = factor * sum_f dout_ij v1_il v2_lj         ds = a * (da - sum_f dout_ij out_ij) * scale
 *   dq_il = sum_j ds k_lj      dk_lj = sum_i ds q_il
 *   dv1_il = sum_j a' dout_ij v2_lj      dv2_lj = sum_i a' dout_ij v1_il
 */

#define BACKWARD_ROWS 2

typedef struct {
    REAL *dk, *dv2;                /* packed like k and v2 */
    REAL *dout;                    /* [row][feature][j] */
    REAL *lse, *dot;               /* [row][j] */
    REAL *ds, *kept, *factor;      /* [row][j] */
    REAL *dq, *dv1;                /* at this batch and head */
} NAME(gradients);

static inline __attribute__((always_inline)) void NAME(backward_rows)(
    const WORK *w, const NAME(gradients) *g, const int *rows, const int count) {
    const int n = w->n, padded = w->padded, features = w->features;
    const int64_t plane = (int64_t)features * padded;
    const problem *p = w->p;
    const REAL scale = (REAL)p->scale;
    (void)n;
    for (int x = 0; x < w->pivots; x++) {
        int l = w->pivot[x];
        int64_t k_plane = (p->key_is_ij ? rows[0] : l) * plane;
        const REAL *k = w->packed_k + k_plane, *v2 = w->v2 ? w->packed_v2 + l * plane : 0;
        const REAL *q[BACKWARD_ROWS], *v1[BACKWARD_ROWS];
        for (int r = 0; r < count; r++) {
            q[r] = NAME(at)(w->q, p->q_stride, rows[r], l);
            v1[r] = NAME(at)(w->v1, p->v1_stride, rows[r], l);
        }
        for (int r = 0; r < count; r++)
            if (p->drop_below) NAME(keep)(w, rows[r], l, g->factor + r * padded);
        for (int v = 0; v < padded; v += LANES) { /* the weights again, and the gradients of the scores */
            VEC s[BACKWARD_ROWS], da[BACKWARD_ROWS];
            for (int r = 0; r < count; r++) s[r] = da[r] = (VEC){0};
            for (int f = 0; f < features; f++) {
                VEC kf = NAME(load)(k + f * padded + v);
                VEC v2f = v2 ? NAME(load)(v2 + f * padded + v) : NAME(all)(1);
                for (int r = 0; r < count; r++) {
                    s[r] += q[r][f] * kf;
                    da[r] += v1[r][f] * (NAME(load)(g->dout + r * plane + f * padded + v) * v2f);
                }
            }
            for (int r = 0; r < count; r++) {
                VEC a = NAME(exp)(s[r] * scale - NAME(load)(g->lse + r * padded + v));
                VEC factor = p->drop_below ? NAME(load)(g->factor + r * padded + v) : NAME(all)(1);
                NAME(store)(g->kept + r * padded + v, a * factor);
                NAME(store)(g->ds + r * padded + v, a * (da[r] * factor - NAME(load)(g->dot + r * padded + v)) * scale);
            }
        }
        for (int r = 0; r < count; r++)
            for (int j = 0; j < NAME(first_end)(w, rows[r], l); j++)
                g->ds[r * padded + j] = g->kept[r * padded + j] = 0;
        REAL *dk = g->dk + k_plane, *dv2 = w->v2 ? g->dv2 + l * plane : 0;
        for (int f = 0; f < features; f += LANES) { /* LANES features, so that their sums over j are made together */
            VEC dq[BACKWARD_ROWS][LANES], dv1[BACKWARD_ROWS][LANES];
            int some = features - f < LANES ? features - f : LANES;
            for (int m = 0; m < some; m++) {
                int64_t at = (int64_t)(f + m) * padded;
                VEC sum_q[BACKWARD_ROWS], sum_v[BACKWARD_ROWS];
                for (int r = 0; r < count; r++) sum_q[r] = sum_v[r] = (VEC){0};
                for (int v = 0; v < padded; v += LANES) {
                    VEC kf = NAME(load)(k + at + v), dkf = NAME(load)(dk + at + v);
                    VEC v2f = v2 ? NAME(load)(v2 + at + v) : NAME(all)(1);
                    VEC dv2f = dv2 ? NAME(load)(dv2 + at + v) : (VEC){0};
                    for (int r = 0; r < count; r++) {
                        VEC ds = NAME(load)(g->ds + r * padded + v);
                        VEC mixed = NAME(load)(g->kept + r * padded + v) * NAME(load)(g->dout + r * plane + at + v);
                        sum_q[r] += ds * kf;
                        sum_v[r] += mixed * v2f;
                        dkf += q[r][f + m] * ds;
                        dv2f += v1[r][f + m] * mixed;
                    }
                    NAME(store)(dk + at + v, dkf);
                    if (dv2) NAME(store)(dv2 + at + v, dv2f);
                }
                for (int r = 0; r < count; r++) {
                    dq[r][m] = sum_q[r];
                    dv1[r][m] = sum_v[r];
                }
            }
            for (int r = 0; r < count; r++) {
                for (int m = some; m < LANES; m++) dq[r][m] = dv1[r][m] = (VEC){0};
                VEC a = NAME(sums)(dq[r]), b = NAME(sums)(dv1[r]);
                REAL *to_q = g->dq + rows[r] * p->dq_stride[ROW] + l * p->dq_stride[COLUMN] + f;
                REAL *to_v = g->dv1 + rows[r] * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN] + f;
                memcpy(to_q, &a, (size_t)some * sizeof(REAL));
                memcpy(to_v, &b, (size_t)some * sizeof(REAL));
            }
        }
    }
}

static int64_t NAME(backward_scratch)(const problem *p) {
    int64_t plane = (int64_t)p->features * p->padded;
    return (4 * p->n + BACKWARD_ROWS) * plane + 5 * BACKWARD_ROWS * (int64_t)p->padded;
}

static void NAME(backward)(const problem *p, int batch, int head, void *scratch, int *pivot) {
    WORK w;
    NAME(gradients) g;
    int64_t plane = (int64_t)p->features * p->padded;
    NAME(set_up)(&w, p, batch, head, scratch, pivot);
    g.dk = (REAL *)scratch + 2 * p->n * plane;
    g.dv2 = g.dk + p->n * plane;
    g.dout = g.dv2 + p->n * plane;
    g.lse = g.dout + BACKWARD_ROWS * plane;
    g.dot = g.lse + BACKWARD_ROWS * p->padded;
    g.ds = g.dot + BACKWARD_ROWS * p->padded;
    g.kept = g.ds + BACKWARD_ROWS * p->padded;
    g.factor = g.kept + BACKWARD_ROWS * p->padded;
    g.dq = (REAL *)p->dq + batch * p->dq_stride[BATCH] + head * p->dq_stride[HEAD];
    g.dv1 = (REAL *)p->dv1 + batch * p->dv1_stride[BATCH] + head * p->dv1_stride[HEAD];
    memset(g.dk, 0, (size_t)(2 * p->n * plane) * sizeof(REAL));
    const REAL *out = (const REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    const REAL *dout = (const REAL *)p->dout + batch * p->dout_stride[BATCH] + head * p->dout_stride[HEAD];
    const REAL *lse = (const REAL *)p->lse + ((int64_t)batch * p->heads + head) * p->n * p->n;
    for (int x = 0; x < w.pivots;) {
        int count = !p->key_is_ij && x + BACKWARD_ROWS <= w.pivots ? BACKWARD_ROWS : 1;
        for (int r = 0; r < count; r++) {
            int i = pivot[x + r];
            NAME(pack)(NAME(at)(dout, p->dout_stride, i, 0), p->dout_stride[COLUMN], g.dout + r * plane, p->n, p->padded, p->features);
            for (int j = 0; j < p->padded; j++) {
                REAL dot = 0;
                if (j < p->n) {
                    const REAL *a = NAME(at)(out, p->out_stride, i, j), *b = NAME(at)(dout, p->dout_stride, i, j);
                    for (int f = 0; f < p->features; f++) dot += a[f] * b[f];
                }
                g.dot[r * p->padded + j] = dot;
                g.lse[r * p->padded + j] = j < p->n ? lse[(int64_t)i * p->n + j] : INFINITY;
            }
        }
        if (count == BACKWARD_ROWS)
            NAME(backward_rows)(&w, &g, pivot + x, BACKWARD_ROWS);
        else
            NAME(backward_rows)(&w, &g, pivot + x, 1);
        x += count;
    }
    REAL *dk = (REAL *)p->dk + batch * p->dk_stride[BATCH] + head * p->dk_stride[HEAD];
    REAL *dv2 = p->v2 ? (REAL *)p->dv2 + batch * p->dv2_stride[BATCH] + head * p->dv2_stride[HEAD] : 0;
    for (int l = 0; l < p->n; l++) {
        NAME(unpack)(g.dk + l * plane, p->padded, dk + l * p->dk_stride[ROW], p->dk_stride[COLUMN], p->n, p->features);
        if (dv2)
            NAME(unpack)(g.dv2 + l * plane, p->padded, dv2 + l * p->dv2_stride[ROW], p->dv2_stride[COLUMN], p->n, p->features);
        for (int i = 0; w.mask && i < p->n; i++) /* edges of padding nodes got no gradient */
            if (!w.mask[l] || !w.mask[i]) {
                memset(g.dq + i * p->dq_stride[ROW] + l * p->dq_stride[COLUMN], 0, (size_t)p->features * sizeof(REAL));
                memset(g.dv1 + i * p->dv1_stride[ROW] + l * p->dv1_stride[COLUMN], 0, (size_t)p->features * sizeof(REAL));
            }
    }
}

#undef VEC
#undef IVEC
#undef WORK
#undef MIX
#undef FORWARD_ROWS
#undef BACKWARD_ROWS
#undef REAL
#undef WHOLE
#undef LOG
#undef LANES
#undef NAME
