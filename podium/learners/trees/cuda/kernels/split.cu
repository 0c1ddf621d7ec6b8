// The best split of a feature in a leaf: a warp has eight bins per lane. As `splitting.py` on the CPU, operation by
// operation; of equal gains the first, missing values to the right before those to the left.


__shared__ double scales[4];  // units per gradient and per hessian, l2 and the least hessian of a side in units

// One feature in one leaf, as a warp sees it.
// A feature, as `FeatureLayout` and `BinEdges` have it.
struct Feature { double sign; int f, column, n_slots, n_bins, offset, common; bool has_missing, categorical, allowed; };

__device__ Feature feature_of(const Tree& t, int f) {
    Feature feature;
    feature.f = f;
    feature.column = t.column[f];
    feature.n_bins = t.n_bins[f];
    feature.offset = t.offset[f];
    feature.common = t.default_bin[f];
    feature.has_missing = t.has_missing[f];
    feature.categorical = t.categorical[f];
    feature.allowed = t.allowed[f] && feature.n_bins + feature.has_missing > 1;
    feature.sign = t.signs[f];
    feature.n_slots = t.n_slots[feature.column];
    return feature;
}

struct Leaf {
    const Slot* own;
    const Slot* less;  // a histogram that is subtracted, or null
    Slot* rest;        // where the difference goes, for a whole column
    double low, high;
    int node;
};

__device__ double sides_gain(double left_g, double left_h, double gradient, double hessian, double l2, double least) {
    double right_h = hessian - left_h, right_g = gradient - left_g;
    double below = left_h + l2, above = right_h + l2;
    double sides = (left_g * left_g * above + right_g * right_g * below) / (below * above);
    return left_h >= least && right_h >= least ? sides : 0.0;
}

__device__ double clipped(double value, double low, double high) {
    double raised = low > value ? low : value;
    return high < raised ? high : raised;
}

__device__ double value_of(double gradient, double hessian, double l2, double low, double high) {
    return clipped(hessian > 0.0 ? -gradient / (hessian + l2) : 0.0, low, high);
}

__device__ double leaf_gain(double gradient, double weight, double value) {
    return -(2.0 * gradient + weight * value) * value;
}

__device__ double bounded_sides_gain(
    double left_g, double left_h, double gradient, double hessian, double l2, double least, double sign, double low,
    double high
) {
    double right_h = hessian - left_h, right_g = gradient - left_g;
    if (left_h < least || right_h < least) return -INFINITE;
    double left_value = value_of(left_g, left_h, l2, low, high), right_value = value_of(right_g, right_h, l2, low, high);
    if (sign * (right_value - left_value) < 0.0) return -INFINITE;
    return leaf_gain(left_g, left_h + l2, left_value) + leaf_gain(right_g, right_h + l2, right_value);
}

__device__ double split_gain(double sides, double whole) {
    double gain = sides - whole;
    double a = fabs(sides), b = fabs(whole), noise = 1e-12 * (a > b ? a : b);
    return gain > noise ? gain * scales[1] / (scales[0] * scales[0]) : 0.0;
}

__device__ i64 place_of(i64 column, int slot) { return ((column >> 5) * SLOTS + slot) * LANES + (column & 31); }

__device__ Sum read_slot(const Leaf& leaf, i64 column, int slot) {
    i64 at = place_of(column, slot);
    Sum sum = load(leaf.own + at);
    return leaf.less ? subtract(sum, load(leaf.less + at)) : sum;
}

// The slot of bin b of a feature; -1 for the default bin of a feature in a bundle.
__device__ int slot_of_bin(int b, int offset, int default_bin) {
    if (default_bin < 0) return b;
    return b == default_bin ? -1 : offset + b - (b > default_bin ? 1 : 0);
}

// A warp's working memory: 256 slots, and the order of categories.
struct Scratch { Slot* slots; u8* order; };

// bins[k] of lane l = bin 8 l + k, in the order in which they are split; returns how many bins that are.
__device__ int read_bins(
    const Leaf& leaf, const Feature& feature, double smoothing, Sum* bins, Sum* missing, Scratch scratch
) {
    int lane = lane_of(), n_bins = feature.n_bins, offset = feature.offset, common = feature.common;
    i64 column = feature.column;
    Sum own = zero();
    #pragma unroll
    for (int k = 0; k < 8; k++) {
        int b = 8 * lane + k, slot = b < n_bins ? slot_of_bin(b, offset, common) : -1;
        bins[k] = slot >= 0 ? read_slot(leaf, column, slot) : zero();
    }
    #pragma unroll
    for (int k = 0; k < 8; k++) own = add(own, bins[k]);
    *missing = feature.has_missing && common < 0 ? read_slot(leaf, column, MISSING) : zero();
    if (common >= 0) {  // the rest of the column
        Sum all = zero();
        for (int slot = lane; slot < feature.n_slots; slot += 32) {
            Sum sum = read_slot(leaf, column, slot);
            all = add(all, sum);
            if (leaf.less) store(leaf.rest + place_of(column, slot), sum);
        }
        Sum rest = subtract(warp_sum(all), warp_sum(own));
        for (int k = 0; k < 8; k++)
            if (8 * lane + k == common) bins[k] = rest;
    }
    if (leaf.less && common < 0) {
        #pragma unroll
        for (int k = 0; k < 8; k++)
            if (8 * lane + k < n_bins) store(leaf.rest + place_of(column, 8 * lane + k), bins[k]);
        if (lane == 0 && feature.has_missing) store(leaf.rest + place_of(column, MISSING), *missing);
    }
    if (!feature.categorical) return n_bins;
    double* ratio = (double*)scratch.slots;
    double more = smoothing * scales[1];
    int used = 0;
    for (int k = 0; k < 8; k++) {
        bool is_there = 8 * lane + k < n_bins && !is_zero(bins[k]);
        ratio[8 * lane + k] = is_there ? (double)bins[k].g / ((double)bins[k].h + more) : INFINITE;
        used += is_there;
    }
    used = (int)warp_sum((i64)used);
    __syncwarp();
    int place[8];
    for (int k = 0; k < 8; k++) {
        int b = 8 * lane + k;
        double own_ratio = ratio[b];
        place[k] = -1;
        if (own_ratio == INFINITE) continue;
        int before = 0;
        for (int other = 0; other < n_bins; other++)
            before += ratio[other] < own_ratio || (ratio[other] == own_ratio && other < b);
        place[k] = before;
    }
    __syncwarp();
    for (int k = 0; k < 8; k++)
        if (place[k] >= 0) {
            store(scratch.slots + place[k], bins[k]);
            scratch.order[place[k]] = (u8)(8 * lane + k);
        }
    __syncwarp();
    for (int k = 0; k < 8; k++) bins[k] = 8 * lane + k < used ? load(scratch.slots + 8 * lane + k) : zero();
    __syncwarp();
    return used;
}

// Counter-based random numbers, as `_runtime/random.py`.
__device__ u64 mix(u64 state) {
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBull;
    return state ^ (state >> 31);
}
__device__ double uniform(u64 stream, i64 number) {
    u64 bits = mix(stream + ((u64)number + 1) * 0x9E3779B97F4A7C15ull);
    return ((double)(bits >> 11) + 0.5) * 1.1102230246251565e-16;
}

// The bin after which extremely randomised trees split a feature; -1 if no bin has rows on both sides.
__device__ int draw_bin(const Tree& t, const Sum* bins, int used, Sum missing, int node, int f) {
    int lane = lane_of(), first = 256, last = -1;
    for (int k = 0; k < 8; k++)
        if (8 * lane + k < used && !is_zero(bins[k])) {
            if (first == 256) first = 8 * lane + k;
            last = 8 * lane + k;
        }
    for (int step = 16; step; step >>= 1) {
        int a = __shfl_xor_sync(FULL, first, step), b = __shfl_xor_sync(FULL, last, step);
        if (a < first) first = a;
        if (b > last) last = b;
    }
    int count = last - first + (is_zero(missing) ? 0 : 1);
    if (first == 256 || count < 1) return -1;
    int drawn = (int)(uniform(t.stream, ((i64)node << 32) + f) * count);
    return first + (drawn < count - 1 ? drawn : count - 1);
}

__device__ bool is_better(double gain, int at, double best, int best_at) {
    return gain > best || (gain == best && at < best_at);
}

// The best split of a feature in a leaf. counts: rows per slot of the column, or null; n_rows: of the leaf. Leaves the
// order of categories in the scratch memory. No copies of it: each would be compiled for seconds.
__device__ __noinline__ Split scan_feature(
    const Tree& t, const Leaf& leaf, const Feature& feature, const int* counts, i64 n_rows, Scratch scratch
) {
    Sum bins[8], missing;
    int lane = lane_of(), used = read_bins(leaf, feature, t.smoothing, bins, &missing, scratch);
    double l2 = scales[2], least = scales[3], sign = feature.sign, low = leaf.low, high = leaf.high;
    Sum own = zero();
    for (int k = 0; k < 8; k++) own = add(own, bins[k]);
    Sum before, total = add(warp_sum(own), missing);
    before.g = warp_before(own.g);
    before.h = warp_before(own.h);
    int rows[8], rows_before = 0, missing_rows = 0;
    if (counts) {
        int common = feature.common, offset = feature.offset, n_bins = feature.n_bins, outside = 0, own_rows = 0;
        if (common < 0) missing_rows = counts[MISSING];
        else {
            for (int b = lane; b < n_bins; b += 32) {
                int slot = slot_of_bin(b, offset, common);
                if (slot >= 0) outside += counts[slot];
            }
            outside = (int)warp_sum((i64)outside);
        }
        for (int k = 0; k < 8; k++) {
            int at = 8 * lane + k;
            rows[k] = 0;
            if (at < used) {
                int b = feature.categorical ? scratch.order[at] : at, slot = slot_of_bin(b, offset, common);
                rows[k] = slot >= 0 ? counts[slot] : (int)n_rows - outside;
            }
            own_rows += rows[k];
        }
        rows_before = (int)warp_before((i64)own_rows);
        // Categories without rows in the histogram have none here: all rows of a leaf are counted or missing.
        n_rows = warp_sum((i64)own_rows) + missing_rows;
    }
    double gradient = (double)total.g, hessian = (double)total.h;
    bool bounded = sign != 0.0 || low > -INFINITE || high < INFINITE;
    double whole = bounded ? leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
                           : gradient * gradient / (hessian + l2);
    int only = t.extra_trees ? draw_bin(t, bins, used, missing, leaf.node, feature.f) : -2;
    double best = bounded ? -INFINITE : 0.0;
    int best_at = 1 << 30;
    for (int side = 0; side < (is_zero(missing) ? 1 : 2); side++) {
        Sum left = side ? add(before, missing) : before;
        i64 left_rows = rows_before + (side ? missing_rows : 0);
        double sides[8];  // all of them before any is compared: their divisions overlap
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            left = add(left, bins[k]);
            double left_g = (double)left.g, left_h = (double)left.h;
            sides[k] = bounded ? bounded_sides_gain(left_g, left_h, gradient, hessian, l2, least, sign, low, high)
                               : sides_gain(left_g, left_h, gradient, hessian, l2, least);
        }
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            int b = 8 * lane + k;
            bool is_tried = b < used && (only == -2 || b == only);
            if (counts) {
                left_rows += rows[k];
                is_tried = is_tried && left_rows >= t.min_samples && n_rows - left_rows >= t.min_samples;
            }
            if (is_tried && sides[k] > best) { best = sides[k]; best_at = side * SLOTS + b; }
        }
    }
    for (int step = 16; step; step >>= 1) {
        double gain = __shfl_xor_sync(FULL, best, step);
        int at = __shfl_xor_sync(FULL, best_at, step);
        if (is_better(gain, at, best, best_at)) { best = gain; best_at = at; }
    }
    Split split;
    split.gain = split_gain(best, whole);
    split.bin = best_at & 255;
    split.used = used;
    split.middle = 0.0;
    split.missing_left = 0;
    if (best_at == 1 << 30) return split;
    // The sums on the left of the best split, in the lane that has them.
    Sum left = best_at >= SLOTS ? add(before, missing) : before;
    for (int k = 0; k < 8; k++)
        if (8 * lane + k <= split.bin) left = add(left, bins[k]);
    left.g = __shfl_sync(FULL, left.g, split.bin >> 3);
    left.h = __shfl_sync(FULL, left.h, split.bin >> 3);
    double left_g = (double)left.g, left_h = (double)left.h, right_h = hessian - left_h;
    double left_value = value_of(left_g, left_h, l2, low, high);
    split.middle = 0.5 * (left_value + value_of(gradient - left_g, right_h, l2, low, high));
    split.missing_left = is_zero(missing) ? left_h >= right_h : best_at >= SLOTS;
    return split;
}
