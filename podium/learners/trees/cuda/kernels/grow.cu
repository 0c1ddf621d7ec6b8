// Growing one tree, leaf by leaf or level by level: all blocks run this one kernel, as all workers of the CPU do. One
// block decides, and between two barriers all share rows, columns or features.
//
// Histograms have no counts, so the best split of a leaf may leave too few rows on a side. That is seen when the rows that
// go left have been counted, to partition them: then rows are counted by all slots of all columns, and the leaf competes
// again. The CPU counts one feature after another; its result is the same.

#define NONE (-1)        // in place of a leaf to split
#define CHUNK_ROWS 128   // at least, of a leaf for one block: eight per warp, whose loads overlap
#define FLUSH_ROWS 8160  // of wide histograms: so many rows of 18 bits add up to less than 31

extern "C" {
DYNAMIC_SHARED(shared_memory, 2 * SLOTS * LANES * 4)
}

__device__ Slot* histogram_of(const Tree& t, i64 number) {
    return (Slot*)t.histograms + number * t.slices * SLOTS * LANES;
}

__device__ const u32* rows_of(const Tree& t, int leaf) { return t.leaf_other[leaf] ? t.other : t.rows; }

// Add rows first..last to a histogram in shared memory, [bin][lane]: lane = column, so no two lanes meet in a bank.
__device__ __noinline__ void add_rows(const Tree& t, const u8* bins, const u32* rows, i64 first, i64 last, int* g, int* h) {
    int lane = lane_of(), warps = warps_of();
    i64 k = first + warp_of();
    for (; k + 7 * warps < last; k += 8 * warps) {
        u32 row[8];
        int2 value[8];
        int bin[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) row[i] = rows[k + i * warps];
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            value[i] = t.packed[row[i]];
            bin[i] = bins[(i64)row[i] * LANES + lane];
        }
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            atomicAdd(g + bin[i] * LANES + lane, value[i].x);
            atomicAdd(h + bin[i] * LANES + lane, value[i].y);
        }
    }
    for (; k < last; k += warps) {
        u32 row = rows[k];
        int2 value = t.packed[row];
        int bin = bins[(i64)row * LANES + lane];
        atomicAdd(g + bin * LANES + lane, value.x);
        atomicAdd(h + bin * LANES + lane, value.y);
    }
}

// Bring the sums of a block to the histogram, exactly, and clear them.
__device__ void flush(Slot* histogram, int* g, int* h) {
    for (int i = threadIdx.x; i < SLOTS * LANES; i += blockDim.x) {
        int gradient = g[i], hessian = h[i];
        if (gradient | hessian) {
#if WIDE
            atomicAdd((u64*)&histogram[i].x, (u64)(i64)gradient);
            atomicAdd((u64*)&histogram[i].y, (u64)(u32)hessian);
#else
            atomicAdd((u64*)&histogram[i], ((u64)(i64)gradient << 32) + (u32)hessian);
#endif
            g[i] = h[i] = 0;
        }
    }
}

__device__ void clear_shared(int* words, int n) {
    int4 zeros = make_int4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) ((int4*)words)[i] = zeros;
    __syncthreads();
}

// Chunks of a leaf's rows per slice, for all blocks together.
__device__ u32 chunks_of(const Tree& t, i64 n) {
    u32 chunks = ((u32)n + CHUNK_ROWS - 1) / CHUNK_ROWS, most = gridDim.x / (u32)t.slices;
    if (chunks > most) chunks = most;
    return chunks > 0 ? chunks : 1;
}

__device__ __noinline__ void build_histogram(const Tree& t, int leaf) {
    int *g = (int*)shared_memory, *h = g + SLOTS * LANES;
    const u32* rows = rows_of(t, leaf) + t.leaf_start[leaf];
    i64 n = t.leaf_stop[leaf] - t.leaf_start[leaf];
    u32 chunks = chunks_of(t, n), slices = (u32)t.slices;
    Slot* histogram = histogram_of(t, t.leaf_histogram[leaf]);
    for (u32 item = blockIdx.x; item < slices * chunks; item += gridDim.x) {
        u32 slice = item % slices, chunk = item / slices;
        const u8* bins = t.bins + slice * t.n * LANES;
        i64 last = chunk_start(n, chunk + 1, chunks);
        clear_shared(g, 2 * SLOTS * LANES);
#if WIDE
        for (i64 first = chunk_start(n, chunk, chunks); first < last; first += FLUSH_ROWS) {
            add_rows(t, bins, rows, first, first + FLUSH_ROWS < last ? first + FLUSH_ROWS : last, g, h);
            __syncthreads();
            flush(histogram + (i64)slice * SLOTS * LANES, g, h);
            __syncthreads();
        }
#else
        add_rows(t, bins, rows, chunk_start(n, chunk, chunks), last, g, h);
        __syncthreads();
        flush(histogram + (i64)slice * SLOTS * LANES, g, h);
        __syncthreads();
#endif
    }
}

__device__ Scratch scratch_of_warp() {
    Scratch scratch;
    scratch.slots = (Slot*)(shared_memory + warp_of() * SLOTS * sizeof(Slot));
    scratch.order = shared_memory + warps_of() * SLOTS * sizeof(Slot) + warp_of() * SLOTS;
    return scratch;
}

__device__ Leaf leaf_of(const Tree& t, int leaf) {
    Leaf l;
    l.own = histogram_of(t, t.leaf_histogram[leaf]);
    l.less = l.rest = 0;
    l.low = t.leaf_low[leaf];
    l.high = t.leaf_high[leaf];
    l.node = t.leaf_node[leaf];
    return l;
}

__shared__ Feature first_features[32];  // of each warp: that of its first item, when there are two leaves

// The best splits of all features in two new leaves; the larger one has its parent's histogram, of which the smaller one
// is taken. What is left goes to a spare histogram: several features may share a column.
__device__ __noinline__ void evaluate(const Tree& t, int small, int large) {
    __shared__ Leaf leaves[2];
    Scratch scratch = scratch_of_warp();
    int two = small != large ? 2 : 1;
    if (threadIdx.x < two) {  // once for all warps: each number takes as long to load as the work of a warp
        Leaf l = leaf_of(t, threadIdx.x ? large : small);
        if (threadIdx.x) {
            l.less = histogram_of(t, t.leaf_histogram[small]);
            l.rest = histogram_of(t, t.state->spare);
        }
        leaves[threadIdx.x] = l;
    }
    __syncthreads();
    // Neighbours go to different blocks: those of one block would wait for each other's divisions.
    u32 items = two * (u32)t.n_features, step = gridDim.x * warps_of();
    for (u32 item = blockIdx.x + warp_of() * gridDim.x; item < items; item += step) {
        int f = two == 2 ? item >> 1 : item, second = two == 2 ? item & 1 : 0, leaf = second ? large : small;
        const Feature& first = first_features[warp_of()];
        Feature feature = first.f == f ? first : feature_of(t, f);
        Split split;
        split.gain = 0.0;
        if (feature.allowed) split = scan_feature(t, leaves[second], feature, 0, 0, scratch);
        if (lane_of() == 0) t.splits[leaf * t.n_features + f] = split;
    }
}

// A leaf that may be split next.
struct Candidate { double gain; int leaf, depth, f; };

// Of the largest gain, or, level by level, of the least depth; of equals the first. -1: no leaf.
__device__ bool comes_first(const Candidate& one, const Candidate& two) {
    if (one.leaf < 0 || two.leaf < 0) return one.leaf >= 0;
    if (one.depth != two.depth) return one.depth < two.depth;
    return one.gain > two.gain || (one.gain == two.gain && one.leaf < two.leaf);
}

__device__ Candidate candidate_of(const Tree& t, int leaf, double gain, int depth) {
    Candidate candidate;
    bool may_be_split = gain > t.min_gain && !(t.max_depth > 0 && depth >= t.max_depth);
    candidate.leaf = may_be_split ? leaf : -1;
    candidate.gain = gain;
    candidate.depth = t.by_level ? depth : 0;
    candidate.f = -1;
    return candidate;
}

// A leaf with its best feature, that with the largest gain, the first of equals; by one warp.
__device__ Candidate find_best_feature(const Tree& t, int leaf) {
    double best = 0.0;
    int best_f = 1 << 30, depth = t.leaf_depth[leaf];
    #pragma unroll 8
    for (int f = lane_of(); f < t.n_features; f += 32) {
        double gain = t.splits[leaf * t.n_features + f].gain;
        if (gain > best) { best = gain; best_f = f; }
    }
    for (int step = 16; step; step >>= 1) {
        double gain = __shfl_xor_sync(FULL, best, step);
        int f = __shfl_xor_sync(FULL, best_f, step);
        if (is_better(gain, f, best, best_f)) { best = gain; best_f = f; }
    }
    if (lane_of() == 0) {
        t.leaf_best[leaf] = best > 0.0 ? best_f : -1;
        t.leaf_gain[leaf] = best;
    }
    Candidate candidate = candidate_of(t, leaf, best, depth);
    candidate.f = best_f;
    return candidate;
}

// The first among leaves whose best features are known, but for two; by one warp.
__device__ Candidate find_leaf(const Tree& t, int count, int but, int nor) {
    Candidate best;
    best.leaf = -1;
    best.gain = 0.0;
    best.depth = 0;
    for (int first = lane_of(); first < count; first += 32 * 8) {
        double gains[8];
        int depths[8];
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            int leaf = first + 32 * k;
            bool is_known = leaf < count && leaf != but && leaf != nor;
            gains[k] = is_known ? t.leaf_gain[leaf] : -1.0;
            depths[k] = is_known && (t.max_depth > 0 || t.by_level) ? t.leaf_depth[leaf] : 0;
        }
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            Candidate other = candidate_of(t, first + 32 * k, gains[k], depths[k]);
            if (comes_first(other, best)) best = other;
        }
    }
    for (int step = 16; step; step >>= 1) {
        Candidate other;
        other.leaf = __shfl_xor_sync(FULL, best.leaf, step);
        other.depth = __shfl_xor_sync(FULL, best.depth, step);
        other.gain = __shfl_xor_sync(FULL, best.gain, step);
        if (comes_first(other, best)) best = other;
    }
    best.f = best.leaf >= 0 ? t.leaf_best[best.leaf] : -1;
    return best;
}

// Rows of a leaf by the slots of all columns.
__device__ __noinline__ void count_columns(const Tree& t, int leaf) {
    int* counts = (int*)shared_memory;
    const u32* rows = rows_of(t, leaf) + t.leaf_start[leaf];
    i64 n = t.leaf_stop[leaf] - t.leaf_start[leaf];
    u32 chunks = chunks_of(t, n), slices = (u32)t.slices;
    for (u32 item = blockIdx.x; item < slices * chunks; item += gridDim.x) {
        u32 slice = item % slices, chunk = item / slices;
        const u8* bins = t.bins + slice * t.n * LANES;
        clear_shared(counts, SLOTS * LANES);
        for (i64 k = chunk_start(n, chunk, chunks) + warp_of(); k < chunk_start(n, chunk + 1, chunks); k += warps_of())
            atomicAdd(counts + bins[(i64)rows[k] * LANES + lane_of()] * LANES + lane_of(), 1);
        __syncthreads();
        for (int i = threadIdx.x; i < SLOTS * LANES; i += blockDim.x)
            if (counts[i]) atomicAdd(t.counts + ((i64)slice * LANES + (i & 31)) * SLOTS + (i >> 5), counts[i]);
        __syncthreads();
    }
}

// Splits of all features of a leaf with enough rows on both sides.
__device__ __noinline__ void count_features(const Tree& t, int leaf) {
    Scratch scratch = scratch_of_warp();
    i64 n = t.leaf_stop[leaf] - t.leaf_start[leaf];
    for (i64 f = blockIdx.x + (i64)warp_of() * gridDim.x; f < t.n_features; f += gridDim.x * (i64)warps_of()) {
        Split* best = t.splits + leaf * t.n_features + f;
        if (!(best->gain > 0.0)) continue;
        Split split = scan_feature(t, leaf_of(t, leaf), feature_of(t, (int)f), t.counts + t.column[f] * SLOTS, n, scratch);
        __syncwarp();
        if (lane_of() == 0) *best = split;
    }
}

// One block: the leaf to split; its newest leaves have no best features yet, or others than before.
__device__ __noinline__ void choose(const Tree& t, int count, int one, int two) {
    __shared__ Candidate candidates[3];
    for (int task = warp_of(); task < 3; task += warps_of()) {  // side by side: each mostly waits for memory
        Candidate candidate;
        if (task == 2) candidate = find_leaf(t, count, one, two);
        else if (task == 0 || two != one) candidate = find_best_feature(t, task ? two : one);
        else candidate.leaf = -1;
        if (lane_of() == 0) candidates[task] = candidate;
    }
    __syncthreads();
    if (warp_of() != 0) return;
    Candidate best = candidates[0];
    for (int k = 1; k < 3; k++)
        if (comes_first(candidates[k], best)) best = candidates[k];
    if (lane_of() == 0) {
        t.state->leaf = best.leaf;
        t.state->feature = best.f;
    }
    if (best.leaf < 0 || !t.categorical[best.f]) return;
    Scratch scratch = scratch_of_warp();  // for the order of categories
    Split split = scan_feature(t, leaf_of(t, best.leaf), feature_of(t, best.f), 0, 0, scratch);
    for (int k = lane_of(); k < split.used; k += 32) t.order[k] = scratch.order[k];
}

// sides[slot] = 1 if rows with this slot of the feature's column go right; by one block. order: of categories.
__device__ void fill_sides(const Feature& feature, const Split& split, const u8* order, u8* sides) {
    u8 stray = split.missing_left ? 0 : 1;
    for (int slot = threadIdx.x; slot < SLOTS; slot += blockDim.x) {
        int b = slot;
        if (feature.common >= 0) {  // among the bins without the default one
            b = slot - feature.offset;
            if (slot < feature.offset || b >= feature.n_bins - 1) b = feature.common;
            else if (b >= feature.common) b++;
            sides[slot] = b > split.bin;
        } else sides[slot] = slot == MISSING || feature.categorical ? stray : (u8)(b > split.bin);
    }
    __syncthreads();
    if (feature.categorical)
        for (int k = threadIdx.x; k < split.used; k += blockDim.x) sides[order[k]] = k > split.bin;
    __syncthreads();
}

// The rows of a leaf, those that go left before those that go right, both in their order: from one buffer to the other.
// Each block has a chunk of the rows. Returns how many go left; -1, and nothing has moved, if a side would have fewer than
// `least`.
__device__ __noinline__ i64 partition(const Tree& t, int leaf, int f, const Split& split, i64 least) {
    __shared__ u8 sides[SLOTS];
    __shared__ i64 numbers[32];
    __shared__ int of_warps[32];
    int node = t.leaf_node[leaf];
    i64 start = t.leaf_start[leaf], n = t.leaf_stop[leaf] - start, column = t.column[f];
    const u32* from = rows_of(t, leaf) + start;
    u32* to = (t.leaf_other[leaf] ? t.rows : t.other) + start;
    i64 first = chunk_start(n, blockIdx.x, gridDim.x), last = chunk_start(n, blockIdx.x + 1, gridDim.x), left = 0;
    fill_sides(feature_of(t, f), split, t.order, sides);
    if (blockIdx.x == 0)
        for (int slot = threadIdx.x; slot < SLOTS; slot += blockDim.x) t.node_sides[(i64)node * SLOTS + slot] = sides[slot];
    #pragma unroll 4
    for (i64 k = first + threadIdx.x; k < last; k += blockDim.x) left += !sides[slot_of(t, column, from[k])];
    left = block_sum(left, numbers);
    if (threadIdx.x == 0) t.n_left[blockIdx.x] = left;
    grid_barrier(t.barrier);
    i64 both = 0;  // of all blocks, and of those before this one: neither needs 32 bits
    for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        i64 own = t.n_left[block];
        both += (own << 32) + (block < blockIdx.x ? own : 0);
    }
    both = block_sum(both, numbers);
    i64 before = both & 0xffffffffll, all = both >> 32;
    if (all < least || n - all < least) return -1;
    for (i64 base = first; base < last; base += blockDim.x) {
        i64 k = base + threadIdx.x;
        u32 row = k < last ? from[k] : 0;
        bool goes_left = k < last && !sides[slot_of(t, column, row)];
        u32 mask = __ballot_sync(FULL, goes_left);
        if (lane_of() == 0) of_warps[warp_of()] = __popc(mask);
        __syncthreads();
        i64 lefts = before;
        for (int w = 0; w < warp_of(); w++) lefts += of_warps[w];
        lefts += __popc(mask & ((1u << lane_of()) - 1));
        if (k < last) to[goes_left ? lefts : all + (k - lefts)] = row;
        for (int w = 0; w < warps_of(); w++) before += of_warps[w];
        __syncthreads();
    }
    return all;
}

// The new leaf takes the smaller child; the old one, which has the parent's histogram, becomes the larger. One thread.
__device__ void write_split(const Tree& t, int leaf, int count, i64 n_left, int f, const Split& split) {
    int node = t.leaf_node[leaf], child = 2 * count - 1;
    t.node_feature[node] = f;
    t.node_column[node] = t.column[f];
    t.node_bin[node] = split.bin;
    t.node_missing_left[node] = split.missing_left;
    t.node_gain[node] = split.gain;
    i64 start = t.leaf_start[leaf], stop = t.leaf_stop[leaf], middle = start + n_left;
    t.node_left[node] = child;
    t.node_left[child] = child;
    t.node_left[child + 1] = child + 1;
    t.node_feature[child] = t.node_feature[child + 1] = -1;
    t.node_size[child] = n_left;
    t.node_size[child + 1] = stop - middle;
    bool small_left = n_left <= stop - middle;
    t.leaf_node[count] = small_left ? child : child + 1;
    t.leaf_node[leaf] = small_left ? child + 1 : child;
    t.leaf_start[count] = small_left ? start : middle;
    t.leaf_stop[count] = small_left ? middle : stop;
    t.leaf_start[leaf] = small_left ? middle : start;
    t.leaf_stop[leaf] = small_left ? stop : middle;
    t.leaf_depth[leaf] += 1;
    t.leaf_depth[count] = t.leaf_depth[leaf];
    t.leaf_low[count] = t.leaf_low[leaf];
    t.leaf_high[count] = t.leaf_high[leaf];
    t.leaf_other[leaf] = !t.leaf_other[leaf];
    t.leaf_other[count] = t.leaf_other[leaf];
    t.leaf_histogram[count] = -1;
    if (t.leaf_stop[count] > t.leaf_start[count]) t.leaf_histogram[count] = t.state->next_histogram++;
    double sign = t.signs[f];
    if (sign != 0.0) {
        int left = small_left ? count : leaf, right = small_left ? leaf : count;
        int below = sign > 0.0 ? left : right, above = sign > 0.0 ? right : left;
        t.leaf_high[below] = split.middle;
        t.leaf_low[above] = split.middle;
    }
}

__device__ void write_root(const Tree& t) {
    t.node_feature[0] = -1;
    t.node_left[0] = 0;
    t.node_size[0] = t.n_sample;
    t.leaf_node[0] = 0;
    t.leaf_start[0] = 0;
    t.leaf_stop[0] = t.n_sample;
    t.leaf_depth[0] = 0;
    t.leaf_low[0] = -INFINITE;
    t.leaf_high[0] = INFINITE;
    t.leaf_other[0] = 0;
    t.leaf_histogram[0] = 0;
    t.state->next_histogram = 2;
    t.state->spare = 1;
}

// Rows of a leaf are counted, and its splits are others; then it competes again.
__device__ void count_leaf(const Tree& t, int leaf, int count) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < t.slices * LANES * SLOTS; i += (i64)gridDim.x * blockDim.x)
        t.counts[i] = 0;
    grid_barrier(t.barrier);
    count_columns(t, leaf);
    grid_barrier(t.barrier);
    count_features(t, leaf);
    grid_barrier(t.barrier, [&] { choose(t, count, leaf, leaf); });
}

// The rest is the histogram of the larger leaf; what it had is spare.
__device__ void take_rest(const Tree& t, int large) {
    i64 rest = t.state->spare;
    t.state->spare = t.leaf_histogram[large];
    t.leaf_histogram[large] = rest;
}

// Cooperative. Histograms were cleared. Fills nodes and leaves, and `state->count`.
extern "C" __global__ void __launch_bounds__(THREADS, 2) grow(const Tree* arguments) {
    __shared__ Tree t;
    if (threadIdx.x == 0) t = *arguments;
    __syncthreads();
    u32 item = blockIdx.x + warp_of() * gridDim.x;
    if (lane_of() == 0) {
        first_features[warp_of()].f = -1;
        if (item / 2 < t.n_features) first_features[warp_of()] = feature_of(t, item / 2);
    }
    if (threadIdx.x < 4) scales[threadIdx.x] = t.state->scales[threadIdx.x];
    begin_barriers(t.barrier);
    int count = 1, small = 0, large = 0;
    grid_barrier(t.barrier, [&] {
        if (threadIdx.x == 0) write_root(t);
    });
    while (true) {
        build_histogram(t, small);
        grid_barrier(t.barrier);
        evaluate(t, small, large);
        grid_barrier(t.barrier, [&] {
            if (small != large && threadIdx.x == 0) take_rest(t, large);
            __syncthreads();
            choose(t, count, small, large);
        });
        int leaf = t.state->leaf;
        i64 n_left = -1, least = t.min_samples > 1 ? t.min_samples : 0;
        int f = t.state->feature;
        while (leaf >= 0 && (n_left = partition(t, leaf, f, t.splits[leaf * t.n_features + f], least)) < 0) {
            count_leaf(t, leaf, count);
            leaf = t.state->leaf;
            f = t.state->feature;
        }
        if (leaf < 0) break;
        bool is_last = count + 1 == t.most;
        grid_barrier(t.barrier, [&] {
            if (threadIdx.x == 0) write_split(t, leaf, count, n_left, f, t.splits[leaf * t.n_features + f]);
        });
        small = count;
        large = leaf;
        count += 1;
        if (is_last) break;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) t.state->count = count;
}
