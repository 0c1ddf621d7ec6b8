// After a tree: the exact sums of its leaves, and its values added to the scores.

#define TILE 4096  // rows of a leaf that a block takes at a time

// work(leaf, first, last) for the tiles of this block; leaves lie in the buffer that `leaf_other` says.
template <typename Work>
__device__ void for_tiles(const Tree& t, Work work) {
    i64 tile = 0;
    for (int leaf = 0; leaf < t.state->count; leaf++) {
        i64 start = t.leaf_start[leaf], stop = t.leaf_stop[leaf], tiles = (stop - start + TILE - 1) / TILE;
        i64 own = (blockIdx.x + gridDim.x - tile % gridDim.x) % gridDim.x;  // the first tile of the leaf that is ours
        for (; own < tiles; own += gridDim.x) {
            i64 first = start + own * TILE;
            work(leaf, first, first + TILE < stop ? first + TILE : stop);
        }
        tile += tiles;
    }
}

// leaf_sums[leaf] = both sums in units of `state->units`; they were cleared.
extern "C" __global__ void __launch_bounds__(THREADS) sum_leaves(const Tree* arguments) {
    __shared__ Tree t;
    __shared__ i64 shared[32];
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    double g_units = t.state->units[0], h_units = t.state->units[1];
    for_tiles(t, [&](int leaf, i64 first, i64 last) {
        const u32* rows = t.leaf_other[leaf] ? t.other : t.rows;
        i64 gradient = 0, hessian = 0;
        for (i64 k = first + threadIdx.x; k < last; k += blockDim.x) {
            gradient += on_grid((double)t.gradients[rows[k]], g_units);
            hessian += on_grid((double)t.hessians[rows[k]], h_units);
        }
        gradient = block_sum(gradient, shared);
        hessian = block_sum(hessian, shared);
        if (threadIdx.x == 0) {
            atomicAdd((u64*)&t.leaf_sums[2 * leaf], (u64)gradient);
            atomicAdd((u64*)&t.leaf_sums[2 * leaf + 1], (u64)hessian);
        }
    });
}

// scores[row] += node_values[node of its leaf], for the rows of the tree.
extern "C" __global__ void __launch_bounds__(THREADS) add_leaves(const Tree* arguments) {
    __shared__ Tree t;
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    for_tiles(t, [&](int leaf, i64 first, i64 last) {
        const u32* rows = t.leaf_other[leaf] ? t.other : t.rows;
        double value = t.node_values[t.leaf_node[leaf]];
        for (i64 k = first + threadIdx.x; k < last; k += blockDim.x) t.scores[rows[k]] += value;
    });
}

// The same for all rows, also those that were not sampled: down the tree. node_values: per node.
extern "C" __global__ void __launch_bounds__(THREADS) add_to_all(const Tree* arguments) {
    __shared__ Tree t;
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < t.n; row += (i64)gridDim.x * blockDim.x) {
        int node = 0;
        while (t.node_feature[node] >= 0)
            node = t.node_left[node] + t.node_sides[(i64)node * SLOTS + slot_of(t, t.node_column[node], (u32)row)];
        t.scores[row] += t.node_values[node];
    }
}
