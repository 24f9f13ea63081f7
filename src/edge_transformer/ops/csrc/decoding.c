/* The edge cache of a decoder: a layer remembers a new node and mixes the values of its edges. Called by memory.py
 * through ctypes; the mathematics is in decoding_kernel.h. Threads share out the (batch, head) pairs.
 *
 * The work is bound by the speed of memory: vectors wider than AVX2's would gain nothing, and with LANES the same
 * everywhere the memory looks the same everywhere.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"

/* Filled in by memory.py, field by field in this order. */
typedef struct {
    void *memory;        /* [batch][head][room][2 to 4 grids: q, k, v1, v2][room_inside * features] */
    const void *parts;   /* [2n - 1][batch][3 or 4: q, k, v1, v2][head][feature]: the column, then the row of the new node */
    const uint8_t *mask; /* [batch][n], true for real nodes; or null */
    void *out;           /* [2n - 1][batch][head][feature] */
    double scale;
    int32_t batch, n, heads, features; /* n: with the new node */
    int32_t room, room_inside;         /* nodes that there is room for; room_inside is a multiple of LANES */
    int32_t key_is_ij, has_v2;
    int32_t is_double;
    int32_t threads;
    int32_t isa; /* as in attention.c */
} decoding_step;

#define LANES 8

#define REAL float
#define WHOLE int32_t
#define NAME(x) x##_f32_portable
#include "decoding_kernel.h"
#define REAL double
#define WHOLE int64_t
#define NAME(x) x##_f64_portable
#include "decoding_kernel.h"

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
#define NAME(x) x##_f32_avx2
#include "decoding_kernel.h"
#define REAL double
#define WHOLE int64_t
#define NAME(x) x##_f64_avx2
#include "decoding_kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif /* x86 */

typedef void (*extend)(const decoding_step *, int64_t task, void *scratch);

static const extend engines[2][2] = {
    {extend_f32_portable, extend_f64_portable},
#ifdef HAS_X86
    {extend_f32_avx2, extend_f64_avx2},
#endif
};

int edge_transformer_best_isa(void);

typedef struct {
    const decoding_step *step;
    extend run;
    char *scratch;
    int64_t scratch_bytes; /* for each worker */
} job;

/* A task is a (batch, head). */
static void run_tasks(const void *argument, int worker, int64_t first, int64_t last) {
    const job *j = argument;
    for (int64_t task = first; task < last; task++) j->run(j->step, task, j->scratch + worker * j->scratch_bytes);
}

/* 0, or 1 where memory ran out. */
int edge_transformer_decoding_step(const decoding_step *s) {
    const int isa = edge_transformer_best_isa() > 0 && s->isa != 0;
    const int64_t tasks = (int64_t)s->batch * s->heads, blocks = (s->n + LANES - 1) / LANES;
    job j = {s, engines[isa][s->is_double ? 1 : 0], 0, 2 * blocks * LANES * 8};
    if (!tasks) return 0;
    j.scratch = aligned_alloc(64, (size_t)(j.scratch_bytes * workers_for(s->threads, tasks)));
    if (!j.scratch) return 1;
    share_out(s->threads, tasks, run_tasks, &j);
    free(j.scratch);
    return 0;
}
