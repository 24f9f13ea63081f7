/* Triangular attention for one (batch, head), forward and backward. attention.c includes this file once for every
 * combination of number type and vector width, with these macros set:
 *   REAL, WHOLE   the number type, and the signed integer type of its size
 *   LANES         numbers in a vector
 *   NAME(x)       the function's name with a suffix of its own
 *
 * Vectors run over j, the end of the updated edge: then soft-max over the pivots l needs no sums across a vector, and
 * the only such sums (over j, for the gradients of q and v1) are done for LANES features at once. For that, k, v2 and the
 * gradient of the output are rearranged into blocks of LANES ends j, padded to whole vectors. Scores live for a few rows i at a
 * time, so that nothing is larger than n * n * head_dim. The macros are undefined again at the end.
 */

#include "vectors.h"

/* Keeps a vector in a register that the compiler would load again each time it is used. */
#if defined(HAS_X86) && LANES >= 8
#define HOLD(v) __asm__("" : "+v"(v))
#else
#define HOLD(v) ((void)0)
#endif

/* The first numbers of a vector, in the place of others or added to them. */
static inline void NAME(put)(REAL *to, VEC v, int some, int add) {
    if (some == LANES) {
        if (add) v += NAME(load_any)(to);
        memcpy(to, &v, sizeof v);
    } else
        for (int m = 0; m < some; m++) to[m] = add ? to[m] + v[m] : v[m];
}

/* Two vectors made from two: of blocks of `step` numbers, LOW takes the even ones of both in turn, HIGH the odd ones. */
#if defined(__clang__) || __GNUC__ >= 12
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (IVEC){__VA_ARGS__})
#endif
#if LANES == 16
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#elif LANES == 8
#define LOW4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH4 4, 5, 6, 7, 12, 13, 14, 15
#define LOW2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW1 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH1 1, 9, 3, 11, 5, 13, 7, 15
#elif LANES == 4
#define LOW2 0, 1, 4, 5
#define HIGH2 2, 3, 6, 7
#define LOW1 0, 4, 2, 6
#define HIGH1 1, 5, 3, 7
#else
#define LOW1 0, 2
#define HIGH1 1, 3
#endif

/* LANES sums of LANES vectors at once: lane f of the result is the sum of v[f]. Each round halves the number of vectors:
 * two of them become one that holds the partial sums of both. */
static inline __attribute__((always_inline)) VEC NAME(sums)(VEC *v) {
#define ROUND(step, low, high) \
    _Pragma("GCC unroll 16") for (int f = 0; f < step; f++) v[f] = MIX(v[f], v[f + step], low) + MIX(v[f], v[f + step], high);
#if LANES > 8
    ROUND(8, LOW8, HIGH8)
#endif
#if LANES > 4
    ROUND(4, LOW4, HIGH4)
#endif
#if LANES > 2
    ROUND(2, LOW2, HIGH2)
#endif
    ROUND(1, LOW1, HIGH1)
#undef ROUND
    return v[0];
}

/* Lane m of v[f] and lane f of v[m] change places. */
static inline __attribute__((always_inline)) void NAME(transpose)(VEC *v) {
#define ROUND(step, low, high)                                        \
    _Pragma("GCC unroll 16") for (int f = 0; f < LANES; f++) {        \
        if (f & step) continue;                                       \
        VEC a = MIX(v[f], v[f + step], low);                          \
        v[f + step] = MIX(v[f], v[f + step], high);                   \
        v[f] = a;                                                     \
    }
#if LANES > 8
    ROUND(8, LOW8, HIGH8)
#endif
#if LANES > 4
    ROUND(4, LOW4, HIGH4)
#endif
#if LANES > 2
    ROUND(2, LOW2, HIGH2)
#endif
    ROUND(1, LOW1, HIGH1)
#undef ROUND
}

/* ---- the arrangement of the numbers ----------------------------------------------------------------------------- */

/* What one (batch, head) works on. Pointers are at this batch and head; strides count numbers. Only real nodes take part:
 * they are counted by x, and node[x] is the node's number; the last is repeated to fill a vector. */
typedef struct {
    const problem *p;
    const REAL *q, *k, *v1, *v2;
    const REAL *left, *right; /* offsets of the scores, or null */
    int features, count; /* real nodes */
    const int *node;
    int blocks, first, end_count; /* ends j at work: vectors that hold them, number of the first, ends from it on */
    const int *ends;              /* node + first */
    uint64_t key; /* of the random numbers of this batch and head */
} NAME(work);
#define WORK NAME(work)

/* The same with `blocks` vectors of ends from number `first` on, or as many as there are. */
static inline WORK NAME(at_ends)(const WORK *w, int first, int blocks) {
    WORK some = *w;
    some.blocks = w->blocks - first < blocks ? w->blocks - first : blocks;
    some.first = first * LANES, some.end_count = w->count - some.first, some.ends = w->node + some.first;
    return some;
}

static inline const REAL *NAME(at)(const REAL *base, const int64_t *stride, int row, int column) {
    return base + row * stride[ROW] + column * stride[COLUMN];
}

static WORK NAME(set_up)(const problem *p, int batch, int head, int *node) {
    WORK w = {.p = p, .features = p->features, .node = node};
    w.q = (const REAL *)p->q + batch * p->q_stride[BATCH] + head * p->q_stride[HEAD];
    w.k = (const REAL *)p->k + batch * p->k_stride[BATCH] + head * p->k_stride[HEAD];
    w.v1 = (const REAL *)p->v1 + batch * p->v1_stride[BATCH] + head * p->v1_stride[HEAD];
    if (p->v2) w.v2 = (const REAL *)p->v2 + batch * p->v2_stride[BATCH] + head * p->v2_stride[HEAD];
    if (p->left) w.left = (const REAL *)p->left + batch * p->left_stride[BATCH] + head * p->left_stride[HEAD];
    if (p->right) w.right = (const REAL *)p->right + batch * p->right_stride[BATCH] + head * p->right_stride[HEAD];
    const uint8_t *mask = p->mask ? p->mask + (int64_t)batch * p->n : 0;
    for (int x = 0; x < p->n; x++)
        if (!mask || mask[x]) node[w.count++] = x;
    w.blocks = (w.count + LANES - 1) / LANES, w.ends = node, w.end_count = w.count;
    for (int x = w.count; x < w.blocks * LANES; x++) node[x] = node[w.count - 1]; /* to fill the last vector */
    w.key = mix64(p->seed ^ mix64((uint64_t)batch * (uint64_t)p->heads + (uint64_t)head));
    return w;
}

/* Asks for the features of an edge before they are needed: edges lie too far apart for the CPU to guess them. */
static inline __attribute__((always_inline)) void NAME(ask)(const REAL *edge, int features, const int to_write) {
    for (int f = 0; f < features; f += 64 / (int)sizeof(REAL))
        if (to_write) /* a constant, even if only GCC sees that it is one here */
            __builtin_prefetch(edge + f, 1);
        else
            __builtin_prefetch(edge + f, 0);
}

/* Row `row` of a tensor, [j][feature], into blocks of LANES ends j: to[block][feature][lane], `feature_step` numbers from
 * feature to feature and `block_step` from block to block. Behind the last j the last one is repeated: those lanes are
 * computed and thrown away. LANES x LANES numbers are turned at once; the last features again with some of those before
 * them where they do not fill a vector. */
static inline void NAME(pack)(const WORK *w, const REAL *from, const int64_t *stride, int row, REAL *to,
                              int64_t block_step, int64_t feature_step) {
    for (int block = 0; block < w->blocks; block++) {
        const REAL *edge[LANES];
        REAL *lanes = to + block * block_step;
        for (int m = 0; m < LANES; m++) {
            const int j = block * LANES + m;
            edge[m] = NAME(at)(from, stride, row, w->ends[j]);
            if (block + 1 < w->blocks)
                NAME(ask)(NAME(at)(from, stride, row, w->ends[j + LANES]), w->features, 0);
            else if (row + 1 < w->p->n)
                NAME(ask)(NAME(at)(from, stride, row + 1, w->ends[m]), w->features, 0);
        }
        if (w->features < LANES) {
            for (int f = 0; f < w->features; f++)
                for (int m = 0; m < LANES; m++) lanes[f * feature_step + m] = edge[m][f];
            continue;
        }
        for (int start = 0; start < w->features; start += LANES) {
            const int f = start + LANES <= w->features ? start : w->features - LANES;
            VEC v[LANES];
            _Pragma("GCC unroll 16") for (int m = 0; m < LANES; m++) v[m] = NAME(load_any)(edge[m] + f);
            NAME(transpose)(v);
            _Pragma("GCC unroll 16") for (int m = 0; m < LANES; m++) NAME(store)(lanes + (f + m) * feature_step, v[m]);
        }
    }
}

/* The way back, for the real ends j. */
static inline void NAME(unpack)(const WORK *w, const REAL *from, int64_t block_step, int64_t feature_step, REAL *to,
                                const int64_t *stride, int row) {
    for (int block = 0; block < w->blocks; block++) {
        const REAL *lanes = from + block * block_step;
        const int some = w->end_count - block * LANES < LANES ? w->end_count - block * LANES : LANES;
        REAL *edge[LANES];
        for (int m = 0; m < some; m++) edge[m] = to + row * stride[ROW] + w->ends[block * LANES + m] * stride[COLUMN];
        for (int m = 0; block + 1 < w->blocks && m < some; m++)
            NAME(ask)(to + row * stride[ROW] + w->ends[(block + 1) * LANES + m] * stride[COLUMN], w->features, 1);
        if (w->features < LANES) {
            for (int m = 0; m < some; m++)
                for (int f = 0; f < w->features; f++) edge[m][f] = lanes[f * feature_step + m];
            continue;
        }
        for (int start = 0; start < w->features; start += LANES) {
            const int f = start + LANES <= w->features ? start : w->features - LANES;
            VEC v[LANES];
            _Pragma("GCC unroll 16") for (int m = 0; m < LANES; m++) v[m] = NAME(load)(lanes + (f + m) * feature_step);
            NAME(transpose)(v);
            for (int m = 0; m < some; m++) memcpy(edge[m] + f, &v[m], sizeof(VEC));
        }
    }
}

/* The sum over the features of the products of two rows, [j][feature] each, for every end j; zero behind the last. */
static inline void NAME(row_dots)(const WORK *w, const REAL *a, const int64_t *a_stride, const REAL *b,
                                  const int64_t *b_stride, int row, REAL *to) {
    const int whole = w->features / LANES * LANES;
    for (int block = 0; block < w->blocks; block++) {
        VEC v[LANES];
        REAL rest[LANES];
        for (int m = 0; m < LANES; m++) {
            v[m] = (VEC){0}, rest[m] = 0;
            const int j = block * LANES + m;
            if (j >= w->end_count) continue;
            const REAL *x = NAME(at)(a, a_stride, row, w->ends[j]), *y = NAME(at)(b, b_stride, row, w->ends[j]);
            if (block + 1 < w->blocks) NAME(ask)(NAME(at)(a, a_stride, row, w->ends[j + LANES]), w->features, 0);
            for (int f = 0; f < whole; f += LANES) v[m] += NAME(load_any)(x + f) * NAME(load_any)(y + f);
            for (int f = whole; f < w->features; f++) rest[m] += x[f] * y[f];
        }
        NAME(store)(to + block * LANES, NAME(sums)(v) + NAME(load_any)(rest));
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
    for (int j = 0; j < w->blocks * LANES; j++)
        factor[j] = mix32(key + (uint32_t)w->ends[j] * 0x9E3779B9u) < limit ? 0 : kept;
}

/* Whether anything is added to the scores. It is added after a score is complete, so that the rest need not know of it;
 * the offset of an edge that is not there is minus infinity. */
static inline int NAME(has_offsets)(const WORK *w) { return w->left || w->right; }

static inline REAL NAME(left_at)(const WORK *w, int i, int l) {
    return w->left ? *NAME(at)(w->left, w->p->left_stride, i, l) : 0;
}

/* The right offsets of pivot l, for every end j. */
static void NAME(pack_right)(const WORK *w, int l, REAL *to) {
    for (int j = 0; j < w->blocks * LANES; j++)
        to[j] = w->right ? *NAME(at)(w->right, w->p->right_stride, l, w->ends[j]) : 0;
}

/* How many of the first ends j may not use pivot x for an edge from node i: in a decoder's graph, a target node is no
 * pivot for edges of two earlier nodes. */
static inline int NAME(forbidden)(const WORK *w, int i, int x) {
    int l = w->node[x], most = w->blocks * LANES;
    if (w->p->causal_from < 0 || l < w->p->causal_from || l <= w->node[i] || x <= w->first) return 0;
    return x - w->first < most ? x - w->first : most;
}

#include "attention_forward.h"

#include "attention_backward.h"

#undef VEC
#undef HOLD
#undef IVEC
#undef WORK
#undef MIX
#undef LOW8
#undef HIGH8
#undef LOW4
#undef HIGH4
#undef LOW2
#undef HIGH2
#undef LOW1
#undef HIGH1
#undef REAL
#undef WHOLE
#undef LANES
#undef NAME
