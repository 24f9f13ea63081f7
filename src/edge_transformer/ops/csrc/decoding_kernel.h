/* A step of decoding for one (batch, head): a node N arrives, and its edges get their mixed values. decoding.c includes this
 * file once for every combination of number type and kind of vector, with the macros of attention_kernel.h set.
 *
 * Column and row do the same with other numbers. For the edge of node x and N, with pivots l:
 *
 *   column (x, N)   weights_l = softmax_l(q_xl . k_lN)   sum_l weights_l * (v1_xl * v2_lN)
 *   row    (N, x)   weights_l = softmax_l(k_lx . q_Nl)   sum_l weights_l * (v2_lx * v1_Nl)
 *
 * The first factors are what is remembered of x, the second what is remembered of N: so N is remembered first, and then
 * every number of the other nodes is read once. Lanes are pivots in the scores, features in the sums of values.
 */

#include "vectors.h"

#define SOME 4 /* vectors of features whose sums are in registers at once */
#define INLINE static inline __attribute__((always_inline))

/* What is remembered of a node; null where it is not needed. Scores: [pivot / LANES][feature][pivot % LANES]; values:
 * [pivot][feature]. */
typedef struct {
    REAL *q, *k, *v1, *v2;
} NAME(grids);
#define GRIDS NAME(grids)

INLINE GRIDS NAME(of_node)(const decoding_step *s, int64_t task, int node) {
    const int64_t size = (int64_t)s->room_inside * s->features;
    const int count = 2 + !s->key_is_ij + s->has_v2;
    REAL *p = (REAL *)s->memory + (task * s->room + node) * count * size;
    GRIDS g = {.q = p};
    if (!s->key_is_ij) g.k = p += size;
    g.v1 = p += size;
    if (s->has_v2) g.v2 = p + size;
    return g;
}

/* A new edge's numbers in the place of pivot l. */
INLINE void NAME(put_score)(REAL *grid, int l, int features, const REAL *from) {
    REAL *to = grid + (int64_t)(l / LANES) * LANES * features + l % LANES;
    for (int f = 0; f < features; f++) to[f * LANES] = from[f];
}
INLINE void NAME(put_value)(REAL *grid, int l, int features, const REAL *from) {
    memcpy(grid + (int64_t)l * features, from, (size_t)features * sizeof(REAL));
}

/* Asks for numbers of the next node while those of this one are at work. */
INLINE void NAME(ask)(const REAL *from, int count) {
    for (int m = 0; m < count; m += 64 / (int)sizeof(REAL)) __builtin_prefetch(from + m, 0, 2);
}

/* The soft-max of the products of two grids; of one grid with one vector where `is_vector`. Lanes that are not allowed may
 * hold anything. Gives the inverse of the sum, which the weights still have to be multiplied with. */
INLINE REAL NAME(weigh)(const decoding_step *s, const REAL *grid, const REAL *other, const int is_vector,
                        int64_t ahead, const IVEC *allowed, VEC *weights) {
    const int blocks = (s->n + LANES - 1) / LANES, features = s->features;
    const VEC lowest = NAME(all)(sizeof(REAL) == 8 ? (REAL)-1e300 : (REAL)-1e37);
    VEC most = lowest;
    for (int block = 0; block < blocks; block++) {
        const REAL *a = grid + (int64_t)block * LANES * features, *b = is_vector ? other : other + (a - grid);
        VEC even = {0}, odd = {0};
        int f = 0;
        for (; f + 1 < features; f += 2) {
            NAME(ask)(a + ahead + f * LANES, 2 * LANES);
            even += NAME(load_any)(a + f * LANES) * (is_vector ? NAME(all)(b[f]) : NAME(load_any)(b + f * LANES));
            odd += NAME(load_any)(a + (f + 1) * LANES) * (is_vector ? NAME(all)(b[f + 1]) : NAME(load_any)(b + (f + 1) * LANES));
        }
        if (f < features)
            even += NAME(load_any)(a + f * LANES) * (is_vector ? NAME(all)(b[f]) : NAME(load_any)(b + f * LANES));
        const VEC score = NAME(select)(allowed[block], (even + odd) * (REAL)s->scale, lowest);
        most = NAME(select)(score > most, score, most);
        weights[block] = score;
    }
    REAL largest = most[0], total = 0;
    for (int m = 1; m < LANES; m++) largest = most[m] > largest ? most[m] : largest;
    VEC sum = {0};
    for (int block = 0; block < blocks; block++) sum += weights[block] = NAME(exp)(weights[block] - largest);
    for (int m = 0; m < LANES; m++) total += sum[m];
    return 1 / total;
}

/* Features of the weighted sum, `vectors` of them. A vector may reach into the numbers behind, whose sums are not kept. */
INLINE void NAME(mix_some)(int n, int features, int kept, const REAL *weights, REAL factor, const REAL *values,
                           const REAL *others, int64_t ahead, REAL *out, const int vectors) {
    VEC sum[2][SOME] = {{{0}}};
    int l = 0;
#define ADD(to, l)                                                                          \
    NAME(ask)(values + ahead + (int64_t)(l)*features, vectors * LANES);                     \
    for (int c = 0; c < vectors; c++) {                                                     \
        VEC value = NAME(load_any)(values + (int64_t)(l)*features + c * LANES);             \
        if (others) value *= NAME(load_any)(others + (int64_t)(l)*features + c * LANES);    \
        sum[to][c] += value * weights[l];                                                   \
    }
    for (; l + 1 < n; l += 2) {
        ADD(0, l)
        ADD(1, l + 1)
    }
    if (l < n) {
        ADD(0, l)
    }
#undef ADD
    for (int c = 0; c < vectors; c++) {
        const VEC v = (sum[0][c] + sum[1][c]) * factor;
        const int left = kept - c * LANES;
        if (left >= LANES)
            memcpy(out + c * LANES, &v, sizeof v);
        else
            for (int m = 0; m < left; m++) out[c * LANES + m] = v[m];
    }
}

INLINE void NAME(mix)(const decoding_step *s, const VEC *weights, REAL factor, const REAL *values, const REAL *others,
                      int64_t ahead, REAL *out) {
    for (int start = 0; start < s->features; start += SOME * LANES) {
        const int kept = s->features - start, vectors = (kept + LANES - 1) / LANES;
        const REAL *from = values + start, *with = others ? others + start : 0;
#define CASE(count) NAME(mix_some)(s->n, s->features, kept, (const REAL *)weights, factor, from, with, ahead, out + start, count)
        if (vectors == 1)
            CASE(1);
        else if (vectors == 2)
            CASE(2);
        else if (vectors == 3)
            CASE(3);
        else
            CASE(SOME);
#undef CASE
    }
}

static void NAME(extend)(const decoding_step *s, int64_t task, void *scratch) {
    const int n = s->n, last = n - 1, features = s->features, parts = 3 + s->has_v2;
    const int64_t batch = task / s->heads, head = task % s->heads, wide = (int64_t)s->heads * features;
    const int blocks = (n + LANES - 1) / LANES;
    IVEC *allowed = scratch;
    VEC *weights = (VEC *)scratch + blocks;
    const uint8_t *mask = s->mask ? s->mask + batch * n : 0;
    for (int l = 0; l < blocks * LANES; l++) allowed[l / LANES][l % LANES] = l < n && (!mask || mask[l]) ? -1 : 0;
    const REAL *first = (const REAL *)s->parts + batch * parts * wide + head * features;
    REAL *out = (REAL *)s->out + batch * wide + head * features;
    const int64_t edge = s->batch * parts * wide, out_edge = s->batch * wide;

    const int64_t ahead = NAME(of_node)(s, task, 1).q - NAME(of_node)(s, task, 0).q; /* from one node to the next */
    const GRIDS new = NAME(of_node)(s, task, last);
    for (int l = 0; l < n; l++) {
        const REAL *column = first + (l < last ? l : 2 * last) * edge, *row = first + (last + l) * edge;
        NAME(put_score)(new.q, l, features, row);
        if (new.k) NAME(put_score)(new.k, l, features, column + wide);
        NAME(put_value)(new.v1, l, features, row + 2 * wide);
        if (new.v2) NAME(put_value)(new.v2, l, features, column + 3 * wide);
    }
    for (int x = 0; x < n; x++) {
        const GRIDS g = NAME(of_node)(s, task, x);
        const REAL *column = first + x * edge, *row = first + (last + x) * edge;
        if (x < last) {
            NAME(put_score)(g.q, last, features, column);
            NAME(put_value)(g.v1, last, features, column + 2 * wide);
            if (g.k) NAME(put_score)(g.k, last, features, row + wide);
            if (g.v2) NAME(put_value)(g.v2, last, features, row + 3 * wide);
            const REAL factor = g.k ? NAME(weigh)(s, g.q, new.k, 0, ahead, allowed, weights)
                                    : NAME(weigh)(s, g.q, column + wide, 1, ahead, allowed, weights);
            NAME(mix)(s, weights, factor, g.v1, new.v2, ahead, out + x * out_edge);
        }
        const REAL factor = g.k ? NAME(weigh)(s, g.k, new.q, 0, ahead, allowed, weights)
                                : NAME(weigh)(s, new.q, row + wide, 1, 0, allowed, weights);
        NAME(mix)(s, weights, factor, g.v2 ? g.v2 : new.v1, g.v2 ? new.v1 : 0, g.v2 ? ahead : 0, out + (last + x) * out_edge);
    }
}

#undef SOME
#undef INLINE
#undef GRIDS
#undef VEC
#undef IVEC
#undef REAL
#undef WHOLE
#undef NAME
