/* Dropout fused with what stands beside it. The mask is never stored: backward makes the same random numbers again.
 *
 *   forward:  y = residual + factor * f(x)       f is the identity or ReLU; residual may be null
 *   backward: dx = factor * dy, and 0 where y is not positive if f is ReLU (then y must come without residual)
 */

#include <stddef.h>
#include <stdint.h>

#include "random.h"
#include "threads.h"

#define BLOCK 4096 /* numbers that share one key: 32-bit counters would repeat in long tensors */

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FOR_THIS_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_THIS_CPU
#endif

/* Filled in by dropout.py, field by field in this order. */
typedef struct {
    const void *x, *residual; /* for the backward pass of ReLU: dy and y */
    void *to;
    int64_t count;
    uint64_t seed;
    double keep_factor;
    uint32_t drop_below;
    int32_t relu;
    int32_t threads;
} dropout_job;

/* A task is a block of numbers. */
#define DEFINE(REAL, SUFFIX)                                                                                    \
    FOR_THIS_CPU static void dropout_##SUFFIX(const void *argument, int worker, int64_t first, int64_t last) {  \
        (void)worker;                                                                                           \
        const dropout_job *j = argument;                                                                        \
        const REAL kept = (REAL)j->keep_factor, *residual = j->residual;                                        \
        const uint32_t drop_below = j->drop_below;                                                              \
        for (int64_t block = first; block < last; block++) {                                                    \
            const int64_t start = block * BLOCK, left = j->count - start;                                       \
            const uint32_t key = (uint32_t)mix64(j->seed + (uint64_t)block);                                    \
            const uint32_t count = (uint32_t)(left < BLOCK ? left : BLOCK);                                     \
            const REAL *in = (const REAL *)j->x + start;                                                        \
            REAL *out = (REAL *)j->to + start;                                                                  \
            if (j->relu)                                                                                        \
                for (uint32_t e = 0; e < count; e++) {                                                          \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                         \
                    out[e] = factor * (in[e] <= 0 ? 0 : in[e]); /* NaN stays NaN */                             \
                }                                                                                               \
            else if (residual)                                                                                  \
                for (uint32_t e = 0; e < count; e++) {                                                          \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                         \
                    out[e] = residual[start + e] + factor * in[e];                                              \
                }                                                                                               \
            else                                                                                                \
                for (uint32_t e = 0; e < count; e++) {                                                          \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                         \
                    out[e] = factor * in[e];                                                                    \
                }                                                                                               \
        }                                                                                                       \
    }                                                                                                           \
    /* y is positive only where the number was kept and x positive */                                           \
    FOR_THIS_CPU static void relu_backward_##SUFFIX(const void *argument, int worker, int64_t first, int64_t last) {\
        (void)worker;                                                                                           \
        const dropout_job *j = argument;                                                                        \
        const REAL kept = (REAL)j->keep_factor, *dy = j->x, *y = j->residual;                                   \
        REAL *dx = j->to;                                                                                       \
        const int64_t end = last * BLOCK < j->count ? last * BLOCK : j->count;                                  \
        for (int64_t e = first * BLOCK; e < end; e++) dx[e] = y[e] > 0 ? kept * dy[e] : 0;                      \
    }                                                                                                           \
    void edge_transformer_dropout_##SUFFIX(const dropout_job *j) {                                              \
        share_out(j->threads, (j->count + BLOCK - 1) / BLOCK, dropout_##SUFFIX, j);                             \
    }                                                                                                           \
    void edge_transformer_relu_dropout_backward_##SUFFIX(const dropout_job *j) {                                \
        share_out(j->threads, (j->count + BLOCK - 1) / BLOCK, relu_backward_##SUFFIX, j);                       \
    }

DEFINE(float, f32)
DEFINE(double, f64)
