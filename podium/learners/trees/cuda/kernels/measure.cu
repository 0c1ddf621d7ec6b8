// Before a tree: the grids of exact sums, the units of histograms, and both derivatives of every row in these units.

__device__ double units_for(double largest, i64 n) {
    if (largest == 0.0 || n == 0) return 1.0;
    int bits = 61 - exponent_of((double)n);
    if (bits > 52) bits = 52;
    int exponent = bits - exponent_of(largest);
    return power_of_2(exponent < 1000 ? exponent : 1000);
}

// Units such that no sum of rows overflows 31 bits; of wide histograms, at least so many that the largest row has 18.
__device__ double units_of(double total, double largest, i64 n) {
    if (!(total > 0.0)) return 1.0;
    double units = power_of_2(exponent_of((2147483648.0 - 2.0 * (double)n - 2.0) / total) - 1);
#if WIDE
    double fine = power_of_2(18 - exponent_of(largest));
    if (fine > units) units = fine;
#endif
    return units;
}

// Largest sizes of gradients, hessians and the weights of splits, as bits of floats; whether a hessian is negative.
__device__ void find_largest(const Tree& t, i64 n) {
    u32 largest[3] = {0, 0, 0};
    bool is_negative = false;
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < n; k += (i64)gridDim.x * blockDim.x) {
        u32 row = t.sample ? t.sample[k] : (u32)k;
        t.rows[k] = row;
        u32 size[3] = {__float_as_uint(t.gradients[row]), __float_as_uint(t.hessians[row]), __float_as_uint(t.weights[row])};
        is_negative = is_negative || t.hessians[row] < 0.0f;
        for (int i = 0; i < 3; i++) {
            size[i] &= 0x7fffffffu;
            if (size[i] > largest[i]) largest[i] = size[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int step = 16; step; step >>= 1) {
            u32 other = __shfl_xor_sync(FULL, largest[i], step);
            if (other > largest[i]) largest[i] = other;
        }
        if (lane_of() == 0 && largest[i]) atomicMax(&t.state->largest[i], largest[i]);
    }
    if (is_negative) t.state->negative = 1;
}

__device__ void sum_sizes(const Tree& t, i64 n, double g_units, double w_units, i64* shared) {
    i64 gradients = 0, weights = 0;
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < n; k += (i64)gridDim.x * blockDim.x) {
        u32 row = t.rows[k];
        gradients += on_grid(fabs((double)t.gradients[row]), g_units);
        weights += on_grid((double)t.weights[row], w_units);
    }
    gradients = block_sum(gradients, shared);
    weights = block_sum(weights, shared);
    if (threadIdx.x == 0) {
        atomicAdd((u64*)&t.state->totals[0], (u64)gradients);
        atomicAdd((u64*)&t.state->totals[1], (u64)weights);
    }
}

__device__ void pack_rows(const Tree& t, i64 n, double g_units, double w_units) {
    for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < n; k += (i64)gridDim.x * blockDim.x) {
        u32 row = t.rows[k];
        int2 packed;
        packed.x = (int)rint((double)t.gradients[row] * g_units);
        packed.y = (int)rint((double)t.weights[row] * w_units);
        if (packed.y < 1) packed.y = 1;
        t.packed[row] = packed;
    }
}

// Cooperative. The state was cleared; rows become those of the sample, or all.
extern "C" __global__ void __launch_bounds__(THREADS) measure(const Tree* arguments) {
    __shared__ Tree t;
    __shared__ i64 shared[32];
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    begin_barriers(t.barrier);
    i64 n = t.n_sample;
    find_largest(t, n);
    grid_barrier(t.barrier);
    double size[3], grid[3];
    for (int i = 0; i < 3; i++) {
        size[i] = (double)__uint_as_float(t.state->largest[i]);
        grid[i] = units_for(size[i], n);
    }
    if (t.state->largest[0] >= 0x7f800000u || t.state->largest[1] >= 0x7f800000u)
        return;  // all blocks: nothing can be grown, and the host says why
    sum_sizes(t, n, grid[0], grid[2], shared);
    grid_barrier(t.barrier);
    double g_units = units_of((double)t.state->totals[0] / grid[0], size[0], n);
    double w_units = units_of((double)t.state->totals[1] / grid[2], size[2], n);
    pack_rows(t, n, g_units, w_units);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        State* s = t.state;
        s->units[0] = grid[0];
        s->units[1] = grid[1];
        s->scales[0] = g_units;
        s->scales[1] = w_units;
        s->scales[2] = t.l2 * w_units;
        if (t.by_gradients) {
            double least = 1.0;
            if (t.even_weights) {  // rows of the same weight: so many of them
                double one = rint((double)t.weights[t.rows[0]] * w_units);
                least = (double)t.min_samples * (one > 1.0 ? one : 1.0);
            }
            s->scales[3] = least;
        } else {
            double least = t.min_hessian * w_units;
            s->scales[3] = least > 1.0 ? least : 1.0;
        }
    }
}
