// What belongs to each kind of elements, in the order of `Kind` in recipe.rs: the kernel, and the bytes of an element. To be
// included after kernels.cu.

static void (*const RUN[])(const Work&) = {run<Bits8>,    run<Bits16>, run<Bits32>, run<Bits64>, run<Half>,
                                           run<Bfloat16>, run<Float>,  run<Double>, run<F8e4m3>, run<F8e5m2>};
static const u64 BYTES[] = {1, 2, 4, 8, 2, 2, 4, 8, 1, 1};
