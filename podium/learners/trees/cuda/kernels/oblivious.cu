// Oblivious trees: all leaves of a level have the same split, the one with the largest gain summed over them. As
// `oblivious.py` on the CPU; sums of gains are made leaf by leaf, in their order.

// Where the bin at a place in the order is; -1: the default bin of a feature in a bundle.
__device__ int slot_of_place(const Feature& feature, const u8* order, int place) {
    return slot_of_bin(feature.categorical ? order[place] : place, feature.offset, feature.common);
}

// The bins of a feature in one leaf, eight per lane, in an order that is known.
__device__ void read_leaf(const Leaf& leaf, const Feature& feature, const u8* order, int used, Sum* bins, Sum* missing) {
    Sum own = zero();
    int rest_at = -1;
    for (int k = 0; k < 8; k++) {
        int place = 8 * lane_of() + k, slot = place < used ? slot_of_place(feature, order, place) : -1;
        bins[k] = slot >= 0 ? read_slot(leaf, feature.column, slot) : zero();
        if (place < used && slot < 0) rest_at = k;
        own = add(own, bins[k]);
    }
    *missing = feature.has_missing && feature.common < 0 ? read_slot(leaf, feature.column, MISSING) : zero();
    if (feature.common < 0) return;
    Sum all = zero();
    for (int slot = lane_of(); slot < feature.n_slots; slot += 32) all = add(all, read_slot(leaf, feature.column, slot));
    Sum rest = subtract(warp_sum(all), warp_sum(own));
    for (int k = 0; k < 8; k++)
        if (k == rest_at) bins[k] = rest;
}

// What the histograms of all leaves hold of a column, together: in the place of a spare histogram.
__device__ Leaf sum_leaves_of(const Tree& t, const Feature& feature, int count) {
    Slot* sums = histogram_of(t, t.state->spare);
    for (int slot = lane_of(); slot < SLOTS; slot += 32) {
        if (slot >= feature.n_slots && slot != MISSING) continue;
        i64 at = place_of(feature.column, slot);
        Sum sum = zero();
        for (int leaf = 0; leaf < count; leaf++)
            if (t.leaf_histogram[leaf] >= 0) sum = add(sum, load(histogram_of(t, t.leaf_histogram[leaf]) + at));
        store(sums + at, sum);
    }
    __syncwarp();
    Leaf all;
    all.own = sums;
    all.less = all.rest = 0;
    all.low = -INFINITE;
    all.high = INFINITE;
    all.node = count;
    return all;
}

// The split of a feature that gains most in leaves 0 .. count together; by one warp.
__device__ __noinline__ Split find_level_split(const Tree& t, const Feature& feature, int count, Scratch scratch) {
    int lane = lane_of(), used = feature.n_bins, only = -2;
    if (feature.categorical || t.extra_trees) {
        Sum bins[8], missing;
        used = read_bins(sum_leaves_of(t, feature, count), feature, t.smoothing, bins, &missing, scratch);
        if (t.extra_trees) only = draw_bin(t, bins, used, missing, count, feature.f);
    }
    double l2 = scales[2], least = scales[3], all_whole = 0.0, sums[2][8];
    i64 hessians[8];
    for (int k = 0; k < 8; k++) {
        sums[0][k] = sums[1][k] = 0.0;
        hessians[k] = 0;
    }
    for (int number = 0; number < count; number++) {
        if (t.leaf_histogram[number] < 0) continue;
        Leaf leaf = leaf_of(t, number);
        Sum bins[8], missing, own = zero(), before;
        read_leaf(leaf, feature, scratch.order, used, bins, &missing);
        for (int k = 0; k < 8; k++) {
            own = add(own, bins[k]);
            hessians[k] += bins[k].h;
        }
        Sum total = add(warp_sum(own), missing);
        before.g = warp_before(own.g);
        before.h = warp_before(own.h);
        double gradient = (double)total.g, hessian = (double)total.h;
        double whole = leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, leaf.low, leaf.high));
        all_whole += whole;
        for (int side = 0; side < (feature.has_missing ? 2 : 1); side++) {
            Sum left = side ? add(before, missing) : before;
            for (int k = 0; k < 8; k++) {
                left = add(left, bins[k]);
                if (8 * lane + k >= used || (only != -2 && 8 * lane + k != only)) continue;
                double both = bounded_sides_gain(
                    (double)left.g, (double)left.h, gradient, hessian, l2, least, feature.sign, leaf.low, leaf.high);
                sums[side][k] += both > -INFINITE ? both - whole : 0.0;
            }
        }
    }
    double best = 0.0;
    int best_at = 1 << 30;
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 8; k++)
            if (sums[side][k] > best) { best = sums[side][k]; best_at = side * SLOTS + 8 * lane + k; }
    for (int step = 16; step; step >>= 1) {
        double gain = __shfl_xor_sync(FULL, best, step);
        int at = __shfl_xor_sync(FULL, best_at, step);
        if (is_better(gain, at, best, best_at)) { best = gain; best_at = at; }
    }
    Split split;
    split.gain = split_gain(best + all_whole, all_whole);
    split.middle = 0.0;
    split.used = used;
    split.bin = best_at & 255;
    split.missing_left = best_at >= SLOTS;
    if (!feature.has_missing) {  // to the heavier side
        i64 left = 0, all = 0;
        for (int k = 0; k < 8; k++) {
            all += hessians[k];
            if (8 * lane + k <= split.bin) left += hessians[k];
        }
        split.missing_left = 2.0 * (double)warp_sum(left) >= (double)warp_sum(all);
    }
    return split;
}

__device__ __noinline__ void find_level_splits(const Tree& t, int count) {
    Scratch scratch = scratch_of_warp();
    for (u32 f = blockIdx.x + warp_of() * gridDim.x; f < t.n_features; f += gridDim.x * warps_of()) {
        Feature feature = feature_of(t, f);
        Split split;
        split.gain = 0.0;
        if (feature.allowed) split = find_level_split(t, feature, count, scratch);
        __syncwarp();
        if (lane_of() == 0) t.splits[f] = split;
    }
}

// One block: the feature that splits the level; -1 if none gains enough.
__device__ __noinline__ void choose_level(const Tree& t, int count) {
    if (warp_of() != 0) return;
    Candidate best = find_best_feature(t, 0);
    if (lane_of() == 0) t.state->feature = best.gain > t.min_gain ? best.f : -1;
    if (!(best.gain > t.min_gain) || !t.categorical[best.f]) return;
    Scratch scratch = scratch_of_warp();  // for the order of categories
    Split split = find_level_split(t, feature_of(t, best.f), count, scratch);
    for (int k = lane_of(); k < split.used; k += 32) t.order[k] = scratch.order[k];
}

// What the level's split gains in one leaf, and the middle of the values of its sides; by one warp.
__device__ void evaluate_leaf(const Tree& t, int number, const Feature& feature, Split* split) {
    Leaf leaf = leaf_of(t, number);
    double l2 = scales[2];
    if (t.leaf_histogram[number] < 0) {
        split->gain = 0.0;
        split->middle = clipped(0.0, leaf.low, leaf.high);
        return;
    }
    const u8* sides = t.node_sides + (i64)t.leaf_node[number] * SLOTS;
    Sum total = zero(), left = zero();
    for (int slot = lane_of(); slot < SLOTS; slot += 32) {
        if (slot >= feature.n_slots && slot != MISSING) continue;
        Sum sum = read_slot(leaf, feature.column, slot);
        total = add(total, sum);
        if (!sides[slot]) left = add(left, sum);
    }
    total = warp_sum(total);
    left = warp_sum(left);
    double gradient = (double)total.g, hessian = (double)total.h, left_g = (double)left.g, left_h = (double)left.h;
    double low = leaf.low, high = leaf.high, left_value = value_of(left_g, left_h, l2, low, high);
    split->middle = 0.5 * (left_value + value_of(gradient - left_g, hessian - left_h, l2, low, high));
    double whole = leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high));
    double both = bounded_sides_gain(left_g, left_h, gradient, hessian, l2, scales[3], feature.sign, low, high);
    split->gain = split_gain(both, whole);
}

// Of every leaf that has rows, what its new sibling does not have; columns that a leaf has no rows in are 0 in both.
__device__ void subtract_siblings(const Tree& t, int count) {
    i64 slots = t.slices * SLOTS * LANES;
    for (int leaf = 0; leaf < count; leaf++) {
        int sibling = t.leaf_histogram[count + leaf];
        if (sibling < 0) continue;
        Slot *rest = histogram_of(t, t.leaf_histogram[leaf]), *taken = histogram_of(t, sibling);
        for (i64 k = blockIdx.x * (i64)blockDim.x + threadIdx.x; k < slots; k += (i64)gridDim.x * blockDim.x)
            store(rest + k, subtract(load(rest + k), load(taken + k)));
    }
}

// Cooperative. Histograms were cleared. Fills nodes and leaves, and `state->count`.
extern "C" __global__ void __launch_bounds__(THREADS, 2) grow_oblivious(const Tree* arguments) {
    __shared__ Tree t;
    __shared__ Split own;
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    if (threadIdx.x < 4) scales[threadIdx.x] = t.state->scales[threadIdx.x];
    begin_barriers(t.barrier);
    grid_barrier(t.barrier, [&] {
        if (threadIdx.x == 0) write_root(t);
    });
    build_histogram(t, 0);
    grid_barrier(t.barrier);
    int count = 1;
    while (2 * count <= t.most) {
        find_level_splits(t, count);
        grid_barrier(t.barrier, [&] { choose_level(t, count); });
        int f = t.state->feature;
        if (f < 0) break;
        Feature feature = feature_of(t, f);
        Split split = t.splits[f];
        for (int leaf = 0; leaf < count; leaf++) {
            i64 n_left = partition(t, leaf, f, split, 0);
            grid_barrier(t.barrier, [&] {
                if (warp_of() == 0) {
                    Split of_leaf = split;
                    evaluate_leaf(t, leaf, feature, &of_leaf);
                    if (lane_of() == 0) own = of_leaf;
                }
                __syncthreads();
                if (threadIdx.x == 0) write_split(t, leaf, count + leaf, n_left, f, own);
            });
        }
        count *= 2;
        if (2 * count > t.most) break;
        for (int leaf = count / 2; leaf < count; leaf++)
            if (t.leaf_histogram[leaf] >= 0) build_histogram(t, leaf);
        grid_barrier(t.barrier);
        subtract_siblings(t, count / 2);
        grid_barrier(t.barrier);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) t.state->count = count;
}
