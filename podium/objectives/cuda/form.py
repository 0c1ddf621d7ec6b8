"""Objectives on an NVIDIA GPU with the bits of the CPU: a CUDA kernel, and the arrays and numbers that it reads.

The kernel of an objective stands in its module as CUDA C++ text, beside its kernel for the CPU, and makes the same
operations in the same order: a warp takes a query, and lane l the documents l, l + 32, ... of a row of pairs, which are
the lanes of `lane_sums`. What is computed once when an objective is bound stays on the host. Needs no Numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# What every objective is given: scores (n,), outputs (n,), and working memory of 4 bytes per row each. Scores of the
# rows of pairs and their powers are kept in the outputs, which are written last.
_COMMON = (
    "const double* scores; float* gradients; float* hessians; long long n; long long n_queries; "
    "unsigned int* places; float* gradient_sums; float* hessian_sums; float* gains; double* numbers;"
)
_TYPES = {"f4": "const float*", "f8": "const double*", "i8": "const long long*", "u4": "const unsigned int*"}


@dataclass(frozen=True, eq=False)
class CudaObjective:
    """One objective on one data set: text with the kernel `derivatives`, whose argument is an `Objective`."""

    source: str
    arrays: Mapping[str, np.ndarray]  # float32, float64, int64 or uint32
    numbers: Mapping[str, float | int]
    n_queries: int
    per_row: bool = False  # a thread per row, not a warp per query
    doubles_per_row: int = 0  # of further working memory, `numbers`

    @property
    def text(self) -> str:
        """All that is compiled."""
        kinds = [f"{_TYPES[array.dtype.str[1:]]} {name};" for name, array in self.arrays.items()]
        kinds += [f"{'double' if isinstance(v, float) else 'long long'} {name};" for name, v in self.numbers.items()]
        return f"struct Objective {{ {_COMMON} {' '.join(kinds)} }};\n{_HELPERS}\n{self.source}"


_HELPERS = r"""
#define FULL 0xffffffffu
#define FARTHEST 1e30
#define FLATTEST 35.0f
typedef long long i64;

// The kernels of `portable.py` and `pair_losses.py`.
__device__ double exp64(double x) {
    const double table[14] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
        1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0};
    x = x > -700.0 ? x : -700.0;
    x = x < 700.0 ? x : 700.0;
    double k = rint(x * 1.4426950408889634);
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 0.0;
    for (int i = 0; i < 14; i++) p = p * r + table[i];
    return p * __longlong_as_double(((i64)k + 1023) << 52);
}
__device__ double log2_64(double x) {
    i64 bits = __double_as_longlong(x);
    double exponent = (double)((bits >> 52) - 1023);
    double mantissa = __longlong_as_double((bits & 0xFFFFFFFFFFFFFll) | 0x3FF0000000000000ll);
    if (mantissa > 1.4142135623730951) { mantissa = 0.5 * mantissa; exponent = exponent + 1.0; }
    double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s, p = 0.0;
    for (int k = 11; k >= 0; k--) p = p * square + 2.0 * 1.4426950408889634 / (double)(2 * k + 1);
    return exponent + s * p;
}
__device__ float exp32(float x) {
    float power = x * 1.4426950408889634f;
    int biased = (int)(power + 127.5f);
    float f = power - (float)(biased - 127);
    float p = 1.3276471979e-3f;
    p = p * f + 9.6755413342e-3f;
    p = p * f + 5.5507132735e-2f;
    p = p * f + 0.24022119724f;
    p = p * f + 0.69314696706f;
    p = p * f + 1.0000000717f;
    return p * __int_as_float(biased << 23);
}
__device__ float flat(float o) {
    o = o > -FLATTEST ? o : -FLATTEST;
    return o < FLATTEST ? o : FLATTEST;
}

__device__ int lane_of() { return threadIdx.x & 31; }
// The fold of 32 lanes, the upper half onto the lower one; all lanes have the sum.
__device__ float fold(float lane) {
    for (int step = 16; step; step >>= 1) lane = lane + __shfl_xor_sync(FULL, lane, step);
    return lane;
}
__device__ double warp_least(double value) {
    for (int step = 16; step; step >>= 1) {
        double other = __shfl_xor_sync(FULL, value, step);
        value = other < value ? other : value;
    }
    return value;
}

// The rows of one query.
struct Query {
    i64 q;
    int n;
    const double* scores;
    float *gradients, *hessians, *single, *powers, *gradient_sums, *hessian_sums, *gains;
    unsigned int* places;
};
__device__ Query query_of(const Objective& o, const i64* offsets, i64 q) {
    i64 start = offsets[q];
    Query query;
    query.q = q;
    query.n = (int)(offsets[q + 1] - start);
    query.scores = o.scores + start;
    query.gradients = query.single = o.gradients + start;
    query.hessians = query.powers = o.hessians + start;
    query.gradient_sums = o.gradient_sums + start;
    query.hessian_sums = o.hessian_sums + start;
    query.gains = o.gains + start;
    query.places = o.places + start;
    return query;
}
__device__ void write_zeros(const Query& query) {
    for (int k = lane_of(); k < query.n; k += 32) query.gradients[k] = query.hessians[k] = 0.0f;
}
__device__ void load_scores(const Query& query, const unsigned int* places, double largest, double sigma) {
    for (int k = lane_of(); k < query.n; k += 32) {
        double far = (query.scores[places[k]] - largest) * sigma;
        query.single[k] = (float)(far > -FARTHEST ? far : -FARTHEST);
        query.gradient_sums[k] = query.hessian_sums[k] = 0.0f;
    }
    __syncwarp();
}
__device__ void store_derivatives(const Query& query, const unsigned int* places, double first, double second) {
    __syncwarp();
    for (int k = lane_of(); k < query.n; k += 32) {
        query.gradients[places[k]] = (float)(-first * (double)query.gradient_sums[k]);
        query.hessians[places[k]] = (float)(second * (double)query.hessian_sums[k]);
    }
    __syncwarp();
}
"""
