// Computation of a known amount: a number of dependent operations for each thread, whatever time they take. As beside a real
// kernel of computation, a block of NCCL's takes room from it: where both run, computation takes longer.
//
// Compiled for the GPU by scripts/make-ptx.sh, and as C++ by tests/standin, which has what CUDA has built in.

// The parameter, laid out as in compute.rs.
struct Computation {
    unsigned iterations;  // of each thread
    float never;          // no result is less than this
    float* nowhere;       // never written, but the compiler does not know that, and so keeps the work
};

// A block has half of the threads of a multiprocessor, and few registers: two of them leave no room for one of NCCL's. All
// iterations take the same: there is no rest of a loop that is unrolled.
extern "C" __global__ void __launch_bounds__(1024) compute(const Computation work) {
    float value = 1.0f + (float)threadIdx.x;
#pragma unroll 1
    for (unsigned n = 0; n < work.iterations; n++) {
#pragma unroll
        for (int step = 0; step < 4; step++) value = __fmaf_rn(value, 0.999f, 0.001f);
    }
    if (value < work.never) *work.nowhere = value;
}
