/* Forward: see attention_kernel.h, which includes this file. */

#define ROWS 4 /* rows i that share what is loaded of k and v2 */

typedef struct {
    REAL *k;      /* [x][block][feature][lane], for the ends of a tile; rows i for the attention ablation */
    REAL *v2;     /* [block][feature][x][lane] */
    REAL *v1;     /* [i][feature][x], with room for whole vectors */
    int64_t line; /* numbers from feature to feature of v1 */
    REAL *scores; /* [row][block][x][lane]: scores, then weights */
    REAL *tile;   /* [row][block][feature][lane]: the output */
    REAL *factor; /* [j] */
    REAL *right;  /* [j]: offsets of the scores of one pivot */
} NAME(forward_space);

/* Blocks of ends j that are computed together: as many as have their k and v2 in or near a second cache, or two. An
 * even number, so that the backward pass sums up the scores of the same two blocks together. */
static int NAME(forward_tile)(const problem *p) {
    const int64_t bytes = 2 * (int64_t)p->n * p->features * LANES * (int64_t)sizeof(REAL), fit = 800 * 1024 / bytes / 2 * 2;
    const int64_t all = p->padded / LANES, blocks = fit < 2 ? 2 : fit;
    return (int)(blocks < all ? blocks : all);
}

/* Rows that are computed together: as many as have their scores in a part of that cache. */
static int NAME(rows_together)(const problem *p) {
    const int64_t sheet = (int64_t)p->n * NAME(forward_tile)(p) * LANES * (int64_t)sizeof(REAL);
    const int64_t rows = 100 * 1024 / sheet / ROWS * ROWS, most = (p->n + ROWS - 1) / ROWS * ROWS;
    return (int)(rows < ROWS ? ROWS : rows > most ? most : rows);
}

static inline __attribute__((always_inline)) void NAME(score_rows)(
    const WORK *w, const NAME(forward_space) *s, int start, int first, int x, const REAL *k, const int count) {
    const int features = w->features;
    const int64_t sheet = (int64_t)w->blocks * w->count * LANES;
    const REAL scale = (REAL)w->p->scale;
    const REAL *q[ROWS];
    REAL *to[ROWS];
    for (int r = 0; r < count; r++) {
        q[r] = NAME(at)(w->q, w->p->q_stride, w->node[start + first + r], w->node[x]);
        to[r] = s->scores + (first + r) * sheet + (int64_t)x * LANES;
        if (x + 1 < w->count)
            NAME(ask)(NAME(at)(w->q, w->p->q_stride, w->node[start + first + r], w->node[x + 1]), features, 0);
    }
    int block = 0;
    for (; block + 2 <= w->blocks; block += 2) {
        const REAL *k0 = k + (int64_t)block * features * LANES, *k1 = k0 + (int64_t)features * LANES;
        VEC a[ROWS], b[ROWS], a_sum[ROWS], b_sum[ROWS];
        for (int r = 0; r < count; r++) a[r] = b[r] = a_sum[r] = b_sum[r] = (VEC){0};
        for (int f = 0; f < features; f++) {
            if (f % CHUNK == 0)
                for (int r = 0; r < count; r++) a_sum[r] += a[r], b_sum[r] += b[r], a[r] = b[r] = (VEC){0};
            VEC x0 = NAME(load)(k0 + f * LANES), x1 = NAME(load)(k1 + f * LANES);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * x0;
                b[r] += q[r][f] * x1;
            }
        }
        for (int r = 0; r < count; r++) {
            NAME(store)(to[r] + (int64_t)block * w->count * LANES, (a_sum[r] + a[r]) * scale);
            NAME(store)(to[r] + (int64_t)(block + 1) * w->count * LANES, (b_sum[r] + b[r]) * scale);
        }
    }
    if (block < w->blocks) {
        const REAL *k0 = k + (int64_t)block * features * LANES;
        VEC a[ROWS], b[ROWS], sum[ROWS]; /* two sums each, so that one need not wait for the other */
        for (int r = 0; r < count; r++) a[r] = b[r] = sum[r] = (VEC){0};
        int f = 0;
        for (; f + 2 <= features; f += 2) {
            if (f % CHUNK == 0)
                for (int r = 0; r < count; r++) sum[r] += a[r] + b[r], a[r] = b[r] = (VEC){0};
            VEC x0 = NAME(load)(k0 + f * LANES), x1 = NAME(load)(k0 + (f + 1) * LANES);
            for (int r = 0; r < count; r++) {
                a[r] += q[r][f] * x0;
                b[r] += q[r][f + 1] * x1;
            }
        }
        for (int r = 0; f < features && r < count; r++) a[r] += q[r][f] * NAME(load)(k0 + f * LANES);
        for (int r = 0; r < count; r++)
            NAME(store)(to[r] + (int64_t)block * w->count * LANES, (sum[r] + (a[r] + b[r])) * scale);
    }
}

/* Adds the offsets to the scores of pivot x. */
static void NAME(add_offsets)(const WORK *w, const NAME(forward_space) *s, int start, int rows, int x) {
    NAME(pack_right)(w, w->node[x], s->right);
    for (int r = 0; r < rows; r++) {
        const REAL left = NAME(left_at)(w, w->node[start + r], w->node[x]);
        for (int block = 0; block < w->blocks; block++) {
            REAL *score = s->scores + (((int64_t)r * w->blocks + block) * w->count + x) * LANES;
            NAME(store)(score, NAME(load)(score) + (left + NAME(load)(s->right + block * LANES)));
        }
    }
}

/* Soft-max over the pivots, for LANES ends j at once. What the scores were made smaller by and the exponentials were
 * multiplied with is kept, so that the backward pass comes to the same weights. */
static void NAME(soft_max)(const WORK *w, const NAME(forward_space) *s, int row, int i, REAL *largest, REAL *inverse_sum) {
    for (int block = 0; block < w->blocks; block++) {
        REAL *weights = s->scores + ((int64_t)row * w->blocks + block) * w->count * LANES;
        VEC most = NAME(load)(weights), sum = {0};
        for (int x = 1; x < w->count; x++) {
            VEC one = NAME(load)(weights + (int64_t)x * LANES);
            most = NAME(select)(one > most, one, most);
        }
        most = NAME(select)(most == NAME(all)(-(REAL)INFINITY), NAME(all)(0), most); /* no pivot at all: weights of zero */
        for (int x = 0; x < w->count; x++) {
            VEC one = NAME(exp)(NAME(load)(weights + (int64_t)x * LANES) - most);
            sum += one;
            NAME(store)(weights + (int64_t)x * LANES, one);
        }
        VEC inverse = NAME(select)(sum == NAME(all)(0), NAME(all)(0), 1 / sum);
        for (int x = 0; x < w->count; x++)
            NAME(store)(weights + (int64_t)x * LANES, NAME(load)(weights + (int64_t)x * LANES) * inverse);
        for (int lane = 0; lane < LANES && block * LANES + lane < w->end_count; lane++) {
            const int64_t edge = (int64_t)w->node[i] * w->p->n + w->ends[block * LANES + lane];
            largest[edge] = most[lane];
            inverse_sum[edge] = inverse[lane];
        }
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
    const WORK *w, const NAME(forward_space) *s, int start, int first, int block, int f, const int count, const int pair) {
    const int n = w->count;
    const int64_t line = s->line;
    const REAL *weights[ROWS], *v1[ROWS];
    for (int r = 0; r < count; r++) {
        weights[r] = s->scores + ((int64_t)(first + r) * w->blocks + block) * n * LANES;
        v1[r] = s->v1 + ((int64_t)(start + first + r) * w->features + f) * line;
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
                if (pair) b[r] += weight * (v1[r][line + x] * y1);
            }
        }
    } else {
        for (int x = 0; x < n; x++)
            for (int r = 0; r < count; r++) {
                VEC weight = NAME(load)(weights[r] + (int64_t)x * LANES);
                a[r] += weight * v1[r][x];
                if (pair) b[r] += weight * v1[r][line + x];
            }
    }
    for (int r = 0; r < count; r++) {
        REAL *to = s->tile + (((int64_t)(first + r) * w->blocks + block) * w->features + f) * LANES;
        NAME(store)(to, a[r]);
        if (pair) NAME(store)(to + LANES, b[r]);
    }
}

static int64_t NAME(forward_scratch)(const problem *p) {
    const int64_t n = p->n, ends = NAME(forward_tile)(p) * LANES, rows = NAME(rows_together)(p);
    return 2 * n * p->features * ends + rows * (n + p->features) * ends + 2 * ends + n * p->features * p->padded;
}

static void NAME(forward)(const problem *p, int batch, int head, void *scratch, int *node) {
    const WORK all = NAME(set_up)(p, batch, head, node);
    const int64_t n = p->n, features = p->features;
    const int tile = NAME(forward_tile)(p), together = NAME(rows_together)(p), count = all.count;
    REAL *out = (REAL *)p->out + batch * p->out_stride[BATCH] + head * p->out_stride[HEAD];
    REAL *largest = (REAL *)p->soft_max + ((int64_t)batch * p->heads + head) * 2 * n * n, *inverse_sum = largest + n * n;

    for (int first = 0; first < all.blocks; first += tile) {
        const WORK some = NAME(at_ends)(&all, first, tile), *w = &some;
        const int64_t ends = w->blocks * LANES, block = features * LANES, plane = features * ends;
        NAME(forward_space) space = {.line = all.blocks * LANES}, *s = &space;
        s->v1 = scratch; /* stays from tile to tile */
        s->k = s->v1 + n * features * p->padded;
        s->v2 = s->k + n * plane;
        s->scores = s->v2 + n * plane;
        s->tile = s->scores + together * n * ends;
        s->factor = s->tile + together * plane;
        s->right = s->factor + ends;
        for (int x = 0; x < count; x++) {
            NAME(pack)(w, w->k, p->k_stride, w->node[x], s->k + x * plane, block, LANES);
            if (w->v2)
                NAME(pack)(w, w->v2, p->v2_stride, w->node[x], s->v2 + x * LANES, block * count, (int64_t)count * LANES);
        }
        for (int start = 0; start < count; start += together) {
            const int rows = count - start < together ? count - start : together;
            if (first == 0)
                for (int i = start; i < start + rows; i++)
                    NAME(pack)(&all, w->v1, p->v1_stride, w->node[i], s->v1 + i * features * s->line, LANES, s->line);
            for (int x = 0; x < count; x++) {
                int r = 0;
                if (!p->key_is_ij) /* rows of the attention ablation have keys of their own: nothing to share */
                    for (; r + ROWS <= rows; r += ROWS) NAME(score_rows)(w, s, start, r, x, s->k + x * plane, ROWS);
                for (; r < rows; r++) NAME(score_rows)(w, s, start, r, x, s->k + (p->key_is_ij ? start + r : x) * plane, 1);
                if (NAME(has_offsets)(w)) NAME(add_offsets)(w, s, start, rows, x);
                for (r = 0; p->causal_from >= 0 && r < rows; r++)
                    for (int j = 0; j < NAME(forbidden)(w, start + r, x); j++)
                        s->scores[(((int64_t)r * w->blocks + j / LANES) * count + x) * LANES + j % LANES] = -INFINITY;
            }
            for (int r = 0; r < rows; r++) NAME(soft_max)(w, s, r, start + r, largest, inverse_sum);
            for (int b = 0; b < w->blocks; b++)
                for (int f = 0; f < features; f += 2) {
                    int r = 0;
                    if (f + 1 < features) {
                        for (; r + ROWS <= rows; r += ROWS) NAME(mix_rows)(w, s, start, r, b, f, ROWS, 1);
                        for (; r < rows; r++) NAME(mix_rows)(w, s, start, r, b, f, 1, 1);
                    }
                    for (; r < rows; r++) NAME(mix_rows)(w, s, start, r, b, f, 1, 0);
                }
            for (int r = 0; r < rows; r++)
                NAME(unpack)(w, s->tile + r * plane, block, LANES, out, p->out_stride, w->node[start + r]);
        }
    }
    NAME(clear_padding)(&all, out, p->out_stride);
}

#undef ROWS
