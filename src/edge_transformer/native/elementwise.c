/* Dropout fused with what stands beside it. The mask is never stored: backward makes the same random numbers again.
 *
 *   forward:  y = residual + factor * f(x)       f is the identity or ReLU; residual may be null
 *   backward: dx = factor * dy, and 0 where y is not positive if f is ReLU (then y must come without residual)
 */

#include <stddef.h>
#include <stdint.h>

#include "random.h"

#define BLOCK 4096 /* numbers that share one key: 32-bit counters would repeat in long tensors */

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FOR_THIS_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_THIS_CPU
#endif

#define DEFINE(REAL, SUFFIX)                                                                                         \
    FOR_THIS_CPU void edge_transformer_dropout_##SUFFIX(const REAL *x, const REAL *residual, REAL *y, int64_t first, \
                                                        int64_t last, uint64_t seed, uint32_t drop_below,            \
                                                        double keep_factor, int32_t relu) {                          \
        const REAL kept = (REAL)keep_factor;                                                                         \
        for (int64_t start = first; start < last; start += BLOCK) {                                                  \
            const uint32_t key = (uint32_t)mix64(seed + (uint64_t)(start / BLOCK));                                  \
            const int64_t end = start + BLOCK < last ? start + BLOCK : last;                                         \
            const uint32_t count = (uint32_t)(end - start);                                                          \
            const REAL *in = x + start;                                                                              \
            REAL *out = y + start;                                                                                   \
            if (relu)                                                                                                \
                for (uint32_t e = 0; e < count; e++) {                                                               \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                              \
                    out[e] = factor * (in[e] <= 0 ? 0 : in[e]); /* NaN stays NaN */                                  \
                }                                                                                                    \
            else if (residual)                                                                                       \
                for (uint32_t e = 0; e < count; e++) {                                                               \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                              \
                    out[e] = residual[start + e] + factor * in[e];                                                   \
                }                                                                                                    \
            else                                                                                                     \
                for (uint32_t e = 0; e < count; e++) {                                                               \
                    REAL factor = mix32(key + e * 0x9E3779B9u) < drop_below ? 0 : kept;                              \
                    out[e] = factor * in[e];                                                                         \
                }                                                                                                    \
        }                                                                                                            \
    }                                                                                                                \
    FOR_THIS_CPU void edge_transformer_relu_dropout_backward_##SUFFIX(const REAL *dy, const REAL *y, REAL *dx,       \
                                                                      int64_t first, int64_t last,                   \
                                                                      double keep_factor) {                          \
        const REAL kept = (REAL)keep_factor; /* y is positive only where the number was kept and x positive */       \
        for (int64_t e = first; e < last; e++) dx[e] = y[e] > 0 ? kept * dy[e] : 0;                                  \
    }

DEFINE(float, f32)
DEFINE(double, f64)
