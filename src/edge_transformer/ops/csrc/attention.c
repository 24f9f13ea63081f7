/* Triangular attention on the CPU, forward and backward. Plain C: no PyTorch and no Python headers, so that it builds
 * with any compiler and works with any PyTorch. Python calls it through ctypes with the addresses of the numbers.
 *
 * The mathematics is in attention_kernel.h, included once for each kind of vector; which one runs is chosen for the CPU at
 * hand. Threads share out the (batch, head) pairs.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "threads.h"

enum { BATCH, ROW, COLUMN, HEAD };

/* Filled in by native.py, field by field in this order. */
typedef struct {
    const void *q, *k, *v1, *v2; /* [batch][n][n][head][feature]; v2 is null for the value ablation */
    const void *left, *right;    /* [batch][n][n][head], added to the scores by edges (i, l) and (l, j); each may be null */
    const uint8_t *mask;         /* [batch][n], true for real nodes; or null */
    void *out, *soft_max;        /* soft_max: largest score and inverse sum, [batch][head][2][n][n] */
    const void *dout;
    void *dq, *dk, *dv1, *dv2;
    void *dleft, *dright; /* of zeros; null where left or right is */
    int64_t q_stride[4], k_stride[4], v1_stride[4], v2_stride[4], out_stride[4], dout_stride[4];
    int64_t dq_stride[4], dk_stride[4], dv1_stride[4], dv2_stride[4];
    int64_t left_stride[4], right_stride[4], dleft_stride[4], dright_stride[4];
    double scale, keep_factor;
    uint64_t seed;
    int32_t batch, n, heads, features;
    int32_t causal_from; /* -1 for none */
    int32_t key_is_ij;
    uint32_t drop_below; /* a weight whose random number is below this is dropped; 0 for no dropout */
    int32_t is_double;
    int32_t threads;
    int32_t isa;    /* -1: the best there is; else one of the numbers that best_isa() can give */
    int32_t padded; /* n rounded up to whole vectors; set here */
} problem;

#define MOST_LANES 16
#define CHUNK 16 /* features whose products are summed up before they join the others: fewer roundings in a row */

#define REAL float
#define WHOLE int32_t
#define LANES 4
#define NAME(x) x##_f32_portable
#include "attention_kernel.h"
#define REAL double
#define WHOLE int64_t
#define LANES 2
#define NAME(x) x##_f64_portable
#include "attention_kernel.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define HAS_X86 1

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define REAL float
#define WHOLE int32_t
#define LANES 8
#define NAME(x) x##_f32_avx2
#include "attention_kernel.h"
#define REAL double
#define WHOLE int64_t
#define LANES 4
#define NAME(x) x##_f64_avx2
#include "attention_kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#endif
#define REAL float
#define WHOLE int32_t
#define LANES 16
#define NAME(x) x##_f32_avx512
#include "attention_kernel.h"
#define REAL double
#define WHOLE int64_t
#define LANES 8
#define NAME(x) x##_f64_avx512
#include "attention_kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif /* x86 */

/* One kind of vector for one number type. */
typedef struct {
    int lanes;
    void (*forward)(const problem *, int, int, void *, int *);
    void (*backward)(const problem *, int, int, void *, int *);
    int64_t (*forward_scratch)(const problem *);
    int64_t (*backward_scratch)(const problem *);
} engine;

#define ENGINE(lanes, suffix) \
    { lanes, forward_##suffix, backward_##suffix, forward_scratch_##suffix, backward_scratch_##suffix }

static const engine engines[3][2] = {
    {ENGINE(4, f32_portable), ENGINE(2, f64_portable)},
#ifdef HAS_X86
    {ENGINE(8, f32_avx2), ENGINE(4, f64_avx2)},
    {ENGINE(16, f32_avx512), ENGINE(8, f64_avx512)},
#endif
};

/* 0: portable, 1: AVX2, 2: AVX-512. */
int edge_transformer_best_isa(void) {
#ifdef HAS_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

typedef struct {
    const problem *p;
    const engine *e;
    int is_backward;
    char *scratch; /* for each worker, scratch_bytes for numbers and node_bytes for nodes */
    int64_t scratch_bytes, node_bytes;
} job;

/* A task is a (batch, head). */
static void run_tasks(const void *argument, int worker, int64_t first, int64_t last) {
    const job *j = argument;
    const problem *p = j->p;
    char *scratch = j->scratch + worker * (j->scratch_bytes + j->node_bytes);
    int *node = (int *)(scratch + j->scratch_bytes);
    for (int64_t x = first; x < last; x++)
        (j->is_backward ? j->e->backward : j->e->forward)(p, (int)(x / p->heads), (int)(x % p->heads), scratch, node);
}

static int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* 0, or 1 where memory ran out. */
static int run(problem *p, int is_backward) {
    int isa = edge_transformer_best_isa();
    if (p->isa >= 0 && p->isa < isa) isa = p->isa;
    const engine *e = &engines[isa][p->is_double ? 1 : 0];
    p->padded = (p->n + e->lanes - 1) / e->lanes * e->lanes;
    if (!p->batch || !p->n || !p->heads || !p->features) return 0;
    const int64_t numbers = is_backward ? e->backward_scratch(p) : e->forward_scratch(p);
    const int64_t tasks = (int64_t)p->batch * p->heads, node_bytes = whole_lines((p->n + MOST_LANES) * (int64_t)sizeof(int));
    job j = {p, e, is_backward, 0, whole_lines(numbers * (p->is_double ? 8 : 4)), node_bytes};
    /* For all threads at once: what a thread gets for itself the C library gives back to the system when it ends. */
    j.scratch = aligned_alloc(64, (size_t)((j.scratch_bytes + node_bytes) * workers_for(p->threads, tasks)));
    if (!j.scratch) return 1;
    share_out(p->threads, tasks, run_tasks, &j);
    free(j.scratch);
    return 0;
}

/* Lets a tensor that lies edge behind edge begin at this edge, as one of graphs of n nodes. */
static void begin_at(const void **tensor, int64_t stride[4], int64_t edge, int64_t n, int64_t bytes) {
    if (!*tensor) return;
    *tensor = (const char *)*tensor + edge * stride[COLUMN] * bytes;
    stride[ROW] = n * stride[COLUMN];
    stride[BATCH] = n * stride[ROW];
}

/* Graphs of several sizes, whose edges lie behind each other: `sizes` are numbers of graphs and their nodes. Of the strides
 * of `all` only those of edges and heads are looked at, of its sizes those that all have in common. */
static int run_groups(const problem *all, const int64_t *sizes, int64_t groups, int64_t smallest_share, int is_backward) {
    const int64_t bytes = all->is_double ? 8 : 4;
    int64_t edge = 0;
    for (int64_t group = 0; group < groups; group++) {
        problem p = *all;
        const int64_t batch = sizes[2 * group], n = sizes[2 * group + 1];
        const int64_t shares = 3 * batch * p.heads * n * n * n * p.features / smallest_share;
#define BEGIN(name) begin_at((const void **)&p.name, p.name##_stride, edge, n, bytes)
        BEGIN(q), BEGIN(k), BEGIN(v1), BEGIN(v2), BEGIN(out), BEGIN(dout), BEGIN(dq), BEGIN(dk), BEGIN(dv1), BEGIN(dv2);
#undef BEGIN
        p.soft_max = (char *)p.soft_max + 2 * edge * p.heads * bytes;
        p.batch = (int32_t)batch, p.n = (int32_t)n, p.seed += (uint64_t)group;
        p.threads = shares < p.threads ? (int32_t)shares : p.threads;
        if (run(&p, is_backward)) return 1;
        edge += batch * n * n;
    }
    return 0;
}

int edge_transformer_forward(problem *p) { return run(p, 0); }
int edge_transformer_backward(problem *p) { return run(p, 1); }
int edge_transformer_groups_forward(const problem *all, const int64_t *sizes, int64_t groups, int64_t smallest_share) {
    return run_groups(all, sizes, groups, smallest_share, 0);
}
int edge_transformer_groups_backward(const problem *all, const int64_t *sizes, int64_t groups, int64_t smallest_share) {
    return run_groups(all, sizes, groups, smallest_share, 1);
}
int edge_transformer_version(void) { return 6; }
