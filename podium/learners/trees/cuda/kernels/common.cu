// What all kernels share: sums, barriers, and loops over what a warp or the whole grid does.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define MISSING 255
#define SLOTS 256            // per column
#define LANES 32             // columns per slice of the bins, and threads per warp
#define FULL 0xffffffffu
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)

// A sum of gradients and hessians in units. In memory: 64 bits with the gradient in the upper half, as on the CPU; or,
// where histograms are wide, two integers.
struct Sum { i64 g, h; };
#if WIDE
typedef longlong2 Slot;
__device__ Sum load(const Slot* slot) { Sum s; s.g = slot->x; s.h = slot->y; return s; }
__device__ void store(Slot* slot, Sum s) { slot->x = s.g; slot->y = s.h; }
#else
typedef i64 Slot;
__device__ Sum load(const Slot* slot) { i64 v = *slot; Sum s; s.g = v >> 32; s.h = v & 0xffffffffll; return s; }
__device__ void store(Slot* slot, Sum s) { *slot = (i64)((u64)s.g << 32) + s.h; }
#endif
__device__ Sum zero() { Sum s; s.g = 0; s.h = 0; return s; }
__device__ Sum add(Sum a, Sum b) { a.g += b.g; a.h += b.h; return a; }
__device__ Sum subtract(Sum a, Sum b) { a.g -= b.g; a.h -= b.h; return a; }
__device__ bool is_zero(Sum a) { return a.g == 0 && a.h == 0; }

__device__ int lane_of() { return threadIdx.x & 31; }
__device__ int warp_of() { return threadIdx.x >> 5; }
__device__ int warps_of() { return blockDim.x >> 5; }

__shared__ u32 barrier_phase;  // of this block; read from memory once

__device__ void begin_barriers(u32* barrier) {
    if (threadIdx.x == 0) barrier_phase = LOAD_ACQUIRE(barrier + 1);
    __syncthreads();
}

// All blocks of the grid, which are all resident: the launch is cooperative. The last block to arrive does the work, if
// there is any, before the others go on. What a block wrote before is seen by all behind: one thread releases and
// acquires for all of its block.
template <typename Work>
__device__ void grid_barrier(u32* barrier, Work work) {
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) is_last = ADD_RELEASE(barrier, 1u) == gridDim.x - 1;
    __syncthreads();
    if (is_last) {
        work();
        __syncthreads();
        if (threadIdx.x == 0) {
            barrier[0] = 0;
            STORE_RELEASE(barrier + 1, ++barrier_phase);
        }
    } else if (threadIdx.x == 0) {
        while (LOAD_ACQUIRE(barrier + 1) == barrier_phase) SPIN();
        barrier_phase++;
    }
    __syncthreads();
}
__device__ void grid_barrier(u32* barrier) {
    grid_barrier(barrier, [] {});
}

__device__ i64 warp_sum(i64 value) {
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(FULL, value, step);
    return value;
}
__device__ Sum warp_sum(Sum s) { s.g = warp_sum(s.g); s.h = warp_sum(s.h); return s; }

// The sum over the lanes before this one.
__device__ i64 warp_before(i64 value) {
    i64 sum = value;
    for (int step = 1; step < 32; step <<= 1) {
        i64 other = __shfl_up_sync(FULL, sum, step);
        if (lane_of() >= step) sum += other;
    }
    return sum - value;
}

// The sum over a block, in all its threads; `shared` has room for a number per warp.
__device__ i64 block_sum(i64 value, i64* shared) {
    value = warp_sum(value);
    if (lane_of() == 0) shared[warp_of()] = value;
    __syncthreads();
    i64 total = warp_sum(lane_of() < warps_of() ? shared[lane_of()] : 0);
    __syncthreads();
    return total;
}

// Where a worker's range of n items begins. Divisions of 64 bits take as long as a load from memory.
__device__ i64 chunk_start(i64 n, u32 worker, u32 workers) {
    i64 start = (i64)worker * (((u32)n + workers - 1) / workers);
    return start < n ? start : n;
}

__device__ u8 slot_of(const Tree& t, i64 column, u32 row) {
    return t.bins[((column >> 5) * t.n + row) * LANES + (column & 31)];
}

// The exponent e of a positive number in [2^(e - 1), 2^e), as frexp has it, and powers of two.
__device__ int exponent_of(double value) { return (int)((__double_as_longlong(value) >> 52) & 0x7ff) - 1022; }
__device__ double power_of_2(int exponent) { return __longlong_as_double((i64)(exponent + 1023) << 52); }
__device__ i64 on_grid(double value, double units) { return (i64)rint(value * units); }
