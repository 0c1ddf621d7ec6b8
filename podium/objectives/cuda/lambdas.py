"""Lambdas on an NVIDIA GPU: `_lambda_queries` of `lambdas.py` by a warp per query, operation by operation."""

from __future__ import annotations

import numpy as np

from podium.metrics.closed_forms import ADDITIVE, CASCADE, FIRST, PRECISION, ClosedForm
from podium.objectives.cuda.form import CudaObjective

_SHORT_TOP = 32  # up to so many places, the best ones are picked; above, lists are sorted


def cuda_lambdas(
    form: ClosedForm,
    sigma: float,
    normalised: bool,
    hessian_factor: float,
    offsets: np.ndarray,
    query_weights: np.ndarray,
    weights: np.ndarray,
) -> CudaObjective:
    """`_lambda_queries` by a warp per query, for the closed form of a metric."""
    arrays = {"offsets": offsets, "values": form.values, "scales": form.scales, "query_weights": query_weights}
    arrays |= {"table": form.table.astype(np.float32), "table_starts": form.starts}
    if len(weights):
        arrays["document_weight"] = weights
    choices = {"KIND": form.kind, "NORMALISED": int(normalised), "WEIGHTED": int(len(weights) > 0)}
    choices |= {"SHORT_TOP": _SHORT_TOP}
    source = "".join(f"#define {name} {value}\n" for name, value in choices.items()) + _LAMBDA_CUDA
    numbers = {"cutoff": int(form.cutoff), "sigma": float(sigma), "hessian_factor": float(hessian_factor)}
    doubles = {ADDITIVE: 0, PRECISION: 2, FIRST: 1, CASCADE: 4}[form.kind]
    return CudaObjective(source, arrays, numbers, len(offsets) - 1, doubles_per_row=doubles)


_LAMBDA_CUDA = r"""
// Places by rising score, later rows first among equals: sorted for the best `top`, or all of them.
__device__ bool is_above(double one, int row, double two, int other) {
    return one > two || (one == two && row < other);
}

__device__ void pick_top(const Query& q, int top) {
    double last = 0.0;
    int last_row = -1;
    for (int rank = 0; rank < top; rank++) {
        double best = 0.0;
        int row = -1;
        for (int k = lane_of(); k < q.n; k += 32) {
            double score = q.scores[k];
            bool is_left = rank == 0 || is_above(last, last_row, score, k);
            if (is_left && (row < 0 || is_above(score, k, best, row))) { best = score; row = k; }
        }
        for (int step = 16; step; step >>= 1) {
            double other = __shfl_xor_sync(FULL, best, step);
            int other_row = __shfl_xor_sync(FULL, row, step);
            if (other_row >= 0 && (row < 0 || is_above(other, other_row, best, row))) { best = other; row = other_row; }
        }
        if (lane_of() == 0) q.places[q.n - 1 - rank] = row;
        last = best;
        last_row = row;
    }
    int others = 0;
    for (int first = 0; first < q.n; first += 32) {
        int k = first + lane_of();
        bool is_other = k < q.n && is_above(last, last_row, q.scores[k], k);
        unsigned int mask = __ballot_sync(FULL, is_other);
        if (is_other) q.places[others + __popc(mask & ((1u << lane_of()) - 1))] = k;
        others += __popc(mask);
    }
    __syncwarp();
}

__device__ void sort_all(const Query& q) {
    for (int k = lane_of(); k < q.n; k += 32) {
        double score = q.scores[k];
        int rank = 0;
        for (int other = 0; other < q.n; other++) rank += is_above(q.scores[other], other, score, k);
        q.places[q.n - 1 - rank] = k;
    }
    __syncwarp();
}

__device__ void load_powers(const Query& q, int n, float middle) {
    for (int k = lane_of(); k < n; k += 32) q.powers[k] = exp32(flat(q.single[k] - middle));
    __syncwarp();
}

// What the closed forms need per place, by one lane, as `load_deltas`; returns how many rows can have a change.
struct Numbers { double *one, *two, *three, *four; };
__device__ int load_deltas(const Query& q, int top, const double* values, Numbers m) {
    int rows = top, found = 0;
    double hits = 0.0, passed = 0.0, reach = 1.0, total = 0.0;
    if (lane_of() == 0)
        for (int rank = 0; rank < q.n; rank++) {
            int k = q.n - 1 - rank;
            double inverse = rank < top ? 1.0 / (double)(rank + 1) : 0.0;
            double relevant = (double)q.gains[k];
            if (KIND == 1) {
                hits += relevant;
                passed += relevant * inverse;
                m.one[k] = hits * inverse - passed;
                m.two[k] = m.one[k] + inverse;
            } else if (KIND == 2) {
                m.one[k] = inverse;
                if (relevant > 0.0 && found < 2) {
                    if (found == 0 && rank + 1 < rows) rows = rank + 1;
                    found++;
                }
            } else if (KIND == 3) {
                double stop = values[q.places[k]];
                double here = rank < top ? reach / (double)(rank + 1) : 0.0;
                m.one[k] = stop;
                m.two[k] = here;
                double before = total;
                total = before + here * stop;
                m.four[k] = before + here;
                m.three[k] = total;
                reach *= 1.0 - stop;
            }
        }
    __syncwarp();
    return __shfl_sync(FULL, rows, 0);
}

extern "C" __global__ void derivatives(const Objective* objective) {
    const Objective o = *objective;
    i64 warps = blockDim.x >> 5, all = gridDim.x * warps;
    for (i64 number = blockIdx.x * warps + (threadIdx.x >> 5); number < o.n_queries; number += all) {
        Query q = query_of(o, o.offsets, number);
        i64 start = o.offsets[number];
        double scale = o.scales[number], sigma = o.sigma;
        if (q.n < 2 || !(scale > 0.0)) { write_zeros(q); continue; }
        int n = q.n, top = o.cutoff < n ? (int)o.cutoff : n, rows = top;
        if (o.cutoff <= SHORT_TOP) pick_top(q, top);
        else sort_all(q);
        const double* values = o.values + start;
        double least = q.scores[0], largest = q.scores[q.places[n - 1]];
        for (int k = lane_of(); k < n; k += 32) least = q.scores[k] < least ? q.scores[k] : least;
        least = warp_least(least);
        bool wide = (largest - least) * sigma > 70.0;
        float nearest = least < largest ? 0.01f : 1.0f, inverse = least < largest ? (float)(1.0 / sigma) : 0.0f;
        load_scores(q, q.places, largest, sigma);
        if (!wide) load_powers(q, n, (float)((least - largest) * sigma * 0.5));
        for (int k = lane_of(); k < n; k += 32) q.gains[k] = (float)values[q.places[k]];
        __syncwarp();
        const float* table = o.table + o.table_starts[number] + n - 1;  // of place k: table[-k]
        Numbers m;
        m.one = o.numbers + start;
        m.two = m.one + o.n;
        m.three = m.two + o.n;
        m.four = m.three + o.n;
        double first_relevant = 0.0, second_relevant = 0.0;
        if (KIND != 0) rows = load_deltas(q, top, values, m);
        if (KIND == 2) {  // inverse ranks of the first two relevant places
            int found = 0;
            for (int k = n - 1; k >= 0 && found < 2; k--)
                if (q.gains[k] > 0.0f) { (found ? second_relevant : first_relevant) = m.one[k]; found++; }
        }
        double total = 0.0;
        int end = n - 1 - rows > 0 ? n - 1 - rows : 0;
        for (int i = n - 1; i > end; i--) {
            if (wide) load_powers(q, i + 1, q.single[i]);
            float score = q.single[i], power = q.powers[i], gain = q.gains[i];
            float gradient_sum = 0.0f, hessian_sum = 0.0f, strength = 0.0f;
            const double* weights = KIND == 1 ? (gain > 0.0f ? m.one : m.two) : m.one;
            double stay = KIND == 3 ? 1.0 / (1.0 - m.one[i]) : 0.0;
            for (int j = lane_of(); j < i; j += 32) {
                float weight, other = q.powers[j];
                if (KIND == 0) weight = (gain - q.gains[j]) * fabsf(table[-i] - table[-j]);
                else if (KIND == 1) weight = (gain - q.gains[j]) * (float)fabs(weights[i] - weights[j]);
                else if (KIND == 2) {
                    if (gain > 0.0f) {
                        double behind = m.one[j] > second_relevant ? m.one[j] : second_relevant;
                        weight = (1.0f - q.gains[j]) * (float)(m.one[i] - behind);
                    } else weight = -q.gains[j] * (float)(m.one[i] - first_relevant);
                } else {
                    double drop = m.two[i] - (m.four[j] - m.three[i]) * stay;
                    weight = (float)((m.one[i] - m.one[j]) * fabs(drop));
                }
#if WEIGHTED
                weight *= (float)(o.document_weight[start + q.places[i]] * o.document_weight[start + q.places[j]]);
#endif
                float share = power + other;
#if NORMALISED
                float far = nearest + inverse * fabsf(score - q.single[j]);
                float both = 1.0f / (share * far);
                weight *= both * share;
                share = both * far;
#else
                share = 1.0f / share;
#endif
                float gradient = weight * (share * (weight > 0.0f ? other : power));
                float hessian = fabsf(weight) * ((share * power) * (share * other));
                q.gradient_sums[j] -= gradient;
                q.hessian_sums[j] += hessian;
                gradient_sum += gradient;
                hessian_sum += hessian;
                strength += fabsf(gradient);
            }
            gradient_sum = fold(gradient_sum);
            hessian_sum = fold(hessian_sum);
            if (NORMALISED) total += (double)fold(strength);
            __syncwarp();
            if (lane_of() == 0) { q.gradient_sums[i] += gradient_sum; q.hessian_sums[i] += hessian_sum; }
            __syncwarp();
        }
        double factor = scale * o.query_weights[number], lambdas = 2.0 * sigma * scale * total;
        if (NORMALISED && lambdas > 0.0) factor *= log2_64(1.0 + lambdas) / lambdas;
        store_derivatives(q, q.places, factor * sigma, factor * sigma * sigma * o.hessian_factor);
    }
}
"""
