// What CUDA C++ text needs to run on the CPU: blocks as threads, threads as fibers.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <thread>
#include <type_traits>
#include <vector>
using std::rint;

#define __device__ static
#define __global__
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define SPIN() sched_yield()
#define DYNAMIC_SHARED(name, bytes) static thread_local unsigned char name[(bytes) + 65536] __attribute__((aligned(16)));

static unsigned ADD_RELEASE(unsigned* at, unsigned value) { return __sync_fetch_and_add(at, value); }
static unsigned LOAD_ACQUIRE(const unsigned* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static void STORE_RELEASE(unsigned* at, unsigned value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }

struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
static int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
struct float2 { float x, y; };
struct longlong2 { long long x, y; };
static float2 make_float2(float x, float y) { return {x, y}; }
struct Index { int x; };

// Switches stacks: saves what a call must keep, and goes on where the other stack was left.
extern "C" void switch_stack(void** from, void* to);
#if defined(__x86_64__)
asm(".text\n.globl switch_stack\n.hidden switch_stack\nswitch_stack:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
#error "kernels run on the CPU of x86-64 only"
#endif

struct Fiber { void* stack_pointer; std::vector<char> stack; bool done; };
struct Block {
    std::vector<Fiber> fibers;
    void* scheduler;
    int current, running, arrived, phase;
    std::vector<int> warp_arrived, warp_phase;
    std::vector<uint64_t> slots;
    void (*kernel)(const void*);
    const void* arguments;
};
static thread_local Block* block;
static thread_local Index blockIdx;
static thread_local Index blockDim, gridDim;
struct ThreadIndex { struct X { operator int() const { return block->current; } } x; };
static ThreadIndex threadIdx;

static void pause_fiber() { Block* b = block; switch_stack(&b->fibers[b->current].stack_pointer, b->scheduler); }
static void __syncthreads() {
    Block* b = block;
    int phase = b->phase;
    if (++b->arrived == b->running) { b->arrived = 0; b->phase++; return; }
    while (b->phase == phase) pause_fiber();
}
static void __syncwarp(unsigned = 0) {
    Block* b = block;
    int warp = b->current >> 5, phase = b->warp_phase[warp];
    if (++b->warp_arrived[warp] == 32) { b->warp_arrived[warp] = 0; b->warp_phase[warp]++; return; }
    while (b->warp_phase[warp] == phase) pause_fiber();
}
template <typename T> static T exchange(T value, int lane) {
    static_assert(sizeof(T) <= 8, "");
    Block* b = block;
    int me = b->current;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    b->slots[me] = bits;
    __syncwarp();
    bits = b->slots[(me & ~31) + (lane & 31)];
    __syncwarp();
    memcpy(&value, &bits, sizeof(T));
    return value;
}
template <typename T> static T __shfl_sync(unsigned, T value, int lane) { return exchange(value, lane); }
template <typename T> static T __shfl_xor_sync(unsigned, T value, int step) { return exchange(value, (block->current & 31) ^ step); }
template <typename T> static T __shfl_up_sync(unsigned, T value, int step) {
    int lane = block->current & 31;
    return exchange(value, lane >= step ? lane - step : lane);
}
static unsigned __ballot_sync(unsigned, bool vote) {
    Block* b = block;
    int me = b->current;
    b->slots[me] = vote;
    __syncwarp();
    unsigned mask = 0;
    for (int lane = 0; lane < 32; lane++) mask |= (unsigned)b->slots[(me & ~31) + lane] << lane;
    __syncwarp();
    return mask;
}
static int __popc(unsigned mask) { return __builtin_popcount(mask); }
static void __threadfence() { __sync_synchronize(); }
template <typename T, typename V> static T atomicAdd(T* at, V value) { return __sync_fetch_and_add(at, (T)value); }
template <typename T, typename V> static T atomicMax(T* at, V value) {
    T old = *at;
    while (old < (T)value && !__sync_bool_compare_and_swap(at, old, (T)value)) old = *at;
    return old;
}
template <typename To, typename From> static To bits_as(From value) { To to; memcpy(&to, &value, sizeof(To)); return to; }
static double __longlong_as_double(long long v) { return bits_as<double>(v); }
static long long __double_as_longlong(double v) { return bits_as<long long>(v); }
static float __int_as_float(int v) { return bits_as<float>(v); }
static float __uint_as_float(unsigned v) { return bits_as<float>(v); }
static unsigned __float_as_uint(float v) { return bits_as<unsigned>(v); }

static void fiber_main() {
    Block* b = block;
    b->kernel(b->arguments);
    b->fibers[b->current].done = true;
    if (--b->running > 0 && b->arrived == b->running) { b->arrived = 0; b->phase++; }
    pause_fiber();
}
static void run_block(int number, int blocks, int threads, void (*kernel)(const void*), const void* arguments) {
    Block own;
    block = &own;
    blockIdx.x = number;
    blockDim.x = threads;
    gridDim.x = blocks;
    own.kernel = kernel;
    own.arguments = arguments;
    own.arrived = own.phase = 0;
    own.running = threads;
    own.warp_arrived.assign(threads / 32, 0);
    own.warp_phase.assign(threads / 32, 0);
    own.slots.assign(threads, 0);
    own.fibers.resize(threads);
    for (auto& fiber : own.fibers) {
        fiber.stack.resize(65536);
        fiber.done = false;
        uintptr_t top = ((uintptr_t)fiber.stack.data() + fiber.stack.size()) & ~(uintptr_t)15;
        void** words = (void**)top - 8;  // six registers, where to begin, and a return address that is never used
        words[6] = (void*)fiber_main;
        fiber.stack_pointer = words;
    }
    while (own.running > 0)
        for (own.current = 0; own.current < threads; own.current++)
            if (!own.fibers[own.current].done) switch_stack(&own.scheduler, own.fibers[own.current].stack_pointer);
}
template <typename Argument>
static void run_grid(int blocks, int threads, void (*kernel)(Argument), const void* arguments) {
    std::vector<std::thread> grid;
    for (int number = 0; number < blocks; number++)
        grid.emplace_back(run_block, number, blocks, threads, (void (*)(const void*))kernel, arguments);
    for (auto& one : grid) one.join();
}
#define KERNEL(name) extern "C" __attribute__((visibility("default"))) void run_##name(int blocks, int threads, const void* arguments) { run_grid(blocks, threads, name, arguments); }
