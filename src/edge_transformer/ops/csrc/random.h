/* Counter-based random numbers: a number depends on its seed and its place only, not on threads or order. */

#ifndef EDGE_TRANSFORMER_RANDOM_H
#define EDGE_TRANSFORMER_RANDOM_H

#include <stdint.h>

static inline uint64_t mix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint32_t mix32(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

#endif
