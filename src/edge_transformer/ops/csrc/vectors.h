/* Vectors of LANES numbers and what every kernel does with them. Included with the macros of attention_kernel.h set, which
 * whoever includes it undefines again, and VEC and IVEC with them.
 */

typedef REAL NAME(vec) __attribute__((vector_size(LANES * sizeof(REAL))));
typedef WHOLE NAME(ivec) __attribute__((vector_size(LANES * sizeof(REAL))));
#define VEC NAME(vec)
#define IVEC NAME(ivec)

static inline VEC NAME(load)(const REAL *p) { return *(const VEC *)p; } /* scratch is aligned */
static inline VEC NAME(load_any)(const REAL *p) {
    VEC v;
    memcpy(&v, p, sizeof v);
    return v;
}
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
