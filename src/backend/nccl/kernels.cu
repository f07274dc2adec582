// Fills buffers with what `src/collective/data.rs` says they hold, and counts the elements that hold something else.
// That file has the reasons; here are the same values, byte for byte, 16 bytes a thread and step.
//
// Made into ptx/*.ptx by scripts/make-ptx.sh, a module a kind. No header is included, and nothing newer than compute
// capability 7.0 is used. tests/kernels.rs compiles this file as C++, with its own stand-ins for what CUDA has built in,
// and compares.
//
// The driver compiles this at the first start on a node, while a user waits. So only what makes the elements of a whole
// vector is unrolled; a vector that is not as it must be is counted element by element, by the code for the edges.

#define HERE __device__ __forceinline__

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// As in data.rs, field by field.
struct Recipe {
    u64 first, chunk, factor, flip, head;
    u32 rank, ring, stride, spread, window, depth, ranks, slack, kind, form, key[2];
};

struct Work {
    Recipe recipe;
    u64 address;  // of the first element
    u64 len;      // elements
    u64 counter;  // where to add the number of wrong elements; 0 to fill instead
};

static_assert(sizeof(Recipe) == 88, "data.rs has the same layout");
static_assert(sizeof(Work) == 112, "kernels.rs has the same layout");

// `Form` of data.rs.
enum { SENTINEL, SUM, STAIRS, PRODUCT, EXTREME, PAIR, MEAN, SCALED };

static const u32 INDEX_SLOT = 0xffffffffu;
static const u32 PHASE_SLOT = 0xfffffffeu;
static const u32 TURN = 4096;

// ---------------------------------------------------------------------------------------------- random streams

// The first round of the random word `at`, which all slots share.
HERE u32 stem(const Recipe& r, u64 at) {
    u32 x = (u32)at ^ r.key[0];
    x ^= x >> 16;
    return x * 0x31525adbu + r.key[1] + (u32)(at >> 32) * 0x9af3655bu;
}

// The second round, for one slot.
HERE u32 leaf(u32 stem, u32 slot) {
    u32 x = stem + slot * 0x6322ee4fu;
    x ^= x >> 15;
    x *= 0x18ed63b5u;
    return x ^ x >> 16;
}

HERE u64 ones(int bits) { return bits == 64 ? ~0ull : (1ull << bits) - 1; }

// The slot of `rank` in a unit.
HERE u32 slot_of(const Recipe& r, u64 unit, u32 rank) {
    u32 phase = __umulhi(leaf(stem(r, unit / TURN), PHASE_SLOT), r.ring);
    return (rank + phase + (u32)(unit % TURN) * r.stride) % r.ring;
}

// A unit is what one word of a stream makes: four, two or one element of at most 32 bits, or one of 64.
template <int W> struct Stream {
    typedef u32 Unit;
    typedef int Signed;
    u32 word;
    HERE Stream(const Recipe& r, u64 unit) : word(stem(r, unit)) {}
    HERE u32 of(u32 slot) const { return leaf(word, slot); }
    HERE u32 shared() const { return leaf(word, INDEX_SLOT); }
};

template <> struct Stream<64> {
    typedef u64 Unit;
    typedef long long Signed;
    u32 low, high;
    HERE Stream(const Recipe& r, u64 unit) : low(stem(r, 2 * unit)), high(stem(r, 2 * unit + 1)) {}
    HERE u64 of(u32 slot) const { return leaf(low, slot) | (u64)leaf(high, slot) << 32; }
    HERE u32 shared() const { return leaf(low, INDEX_SLOT); }
};

template <int W> struct Width {
    typedef typename Stream<W>::Unit Unit;
    typedef typename Stream<W>::Signed Signed;
    static const int WIDTH = W;
    static const int SIZE = W / 8;
    static const int LANES = W < 32 ? 32 / W : 1;
    static const int UNITS = 16 / SIZE / LANES;  // of a step

    static HERE Unit lane(Unit unit, int at) { return W >= 32 ? unit : (unit >> at * W) & (Unit)ones(W); }

    // The place `bits` have below `bound`: bound * bits / 2^W.
    static HERE u32 below(u32 bound, u32 bits) { return W < 32 ? bound * bits >> W % 32 : __umulhi(bound, bits); }
    static HERE u64 below(u64 bound, u64 bits) { return __umul64hi(bound, bits); }
};

// ----------------------------------------------------------------------------------------- integers and raw bits

template <int W> struct Bits : Width<W> {
    typedef Width<W> Base;
    typedef typename Base::Unit Unit;
    static const bool REAL = false;

    // Lane by lane a - b. Below 32 bits the borrow must stop at each lane's top bit, which is worked out apart.
    static HERE Unit minus(Unit a, Unit b) {
        if (W >= 32) return a - b;
        const Unit top = (Unit)(W == 8 ? 0x80808080u : 0x80008000u);
        return ((a | top) - (b & ~top)) ^ ((a ^ ~b) & top);
    }

    static HERE Unit sum(const Recipe& r, u64 unit, u32 slot, bool) {
        Stream<W> stream(r, unit);
        Unit own = stream.of(slot) & (slot == 0 ? (Unit)r.head : ~(Unit)0);
        return minus(own, slot + 1 < r.ring ? stream.of(slot + 1) : 0);
    }

    // Lane by lane 2 * a: the lowest bit of a lane comes from the one below.
    static HERE Unit twice(Unit a) {
        return a << 1 & ~(Unit)(W == 8 ? 0x01010101u : W == 16 ? 0x00010001u : 0);
    }

    static HERE Unit scaled(const Recipe& r, u64 unit, u32 slot) {
        Stream<W> stream(r, unit);
        Unit own = stream.of(slot), next = slot + 1 < r.ring ? stream.of(slot + 1) : 0;
        Unit half = minus(own, slot == 0 ? twice(next) : next);
        return slot == 0 || slot % 2 == 1 ? half : twice(half);
    }

    static HERE Unit stairs(const Recipe& r, u64 unit, u32 slot) {
        if (W != 8) return 0;
        Stream<W> stream(r, unit);
        // Marks fall from slot to slot and lanes stay below 128, so nothing is borrowed.
        return stair(r, stream, slot) - (slot + 1 < r.ring ? stair(r, stream, slot + 1) : 0);
    }

    static HERE Unit stair(const Recipe& r, const Stream<W>& stream, u32 slot) {
        if (slot >= r.window) return 0;
        return (r.window - 1 - slot) * 0x10101010u + (stream.of(slot) & 0x0f0f0f0fu);
    }

    static HERE Unit inverse(Unit odd) {
        Unit x = odd;
#pragma unroll
        for (int right = 3; right < W; right *= 2) x *= 2 - odd * x;
        return x;
    }

    static HERE Unit product(const Recipe& r, u64 unit, u32 slot) {
        Stream<W> stream(r, unit);
        Unit own = stream.of(slot), next = stream.of(slot + 1), out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) {
            Unit below = slot + 1 < r.ring ? Base::lane(next, at) | 1 : 1;
            out |= Base::lane((Base::lane(own, at) | 1) * inverse(below), 0) << at * W;
        }
        return out;
    }

    static HERE Unit greatest(Unit bits) { return bits; }
    static HERE Unit pattern(Unit order) { return order; }
    static HERE Unit pair(const Recipe&, u64, u32) { return 0; }

    static HERE Unit mean(const Recipe& r, u64 unit) {
        Unit total = Stream<W>(r, unit).of(0) & (Unit)r.head, out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) out |= Base::lane(total, at) / r.ranks << at * W;
        return out;
    }
};

// ------------------------------------------------------------------------------------------------------- floats

// What is narrower is computed in float, in which a product or a sum of two of it is exact, and then rounded once.
// The _rn functions are never fused into a multiply-add.
template <int W> struct Real {
    typedef float T;
    static HERE T factor(const Recipe& r) { return (float)__longlong_as_double((long long)r.factor); }
    static HERE T times(T a, T b) { return __fmul_rn(a, b); }
    static HERE T plus(T a, T b) { return __fadd_rn(a, b); }
    static HERE u32 bits(T x) { return __float_as_uint(x); }
    static HERE T number(u32 bits) { return __uint_as_float(bits); }
};

template <> struct Real<64> {
    typedef double T;
    static HERE T factor(const Recipe& r) { return __longlong_as_double((long long)r.factor); }
    static HERE T times(T a, T b) { return __dmul_rn(a, b); }
    static HERE T plus(T a, T b) { return __dadd_rn(a, b); }
    static HERE u64 bits(T x) { return (u64)__double_as_longlong(x); }
    static HERE T number(u64 bits) { return __longlong_as_double((long long)bits); }
};

// Floats of W bits, M of them after the point of the significand.
template <int W, int M> struct Floats : Width<W> {
    typedef Width<W> Base;
    typedef Real<W> R;
    typedef typename Base::Unit Unit;
    typedef typename Base::Signed Signed;
    static const bool REAL = true;
    static const Unit SIGN = (Unit)1 << (W - 1);
    static const Unit FRACTION = ((Unit)1 << M) - 1;
    static const Unit BIAS = ((Unit)1 << (W - 2 - M)) - 1;
    static const Unit HALF = (((Unit)1 << (W - 1 - M)) - 2) << M;  // positive normal numbers there are
    static const int DROP = W < 32 ? 23 - M : 1;
    static const u32 REBASE = W < 32 ? (127 - (u32)BIAS) << M : 0;

    static HERE Unit narrow(typename R::T x) {
        Unit bits = R::bits(x);
        if (W >= 32) return bits;
        Unit magnitude = bits & 0x7fffffffu;
        Unit rounded = (magnitude + ((1u << (DROP - 1)) - 1) + (magnitude >> DROP & 1)) >> DROP;
        return (magnitude == 0 ? 0 : rounded - REBASE) | (bits >> 31 & 1) << (W - 1);
    }

    static HERE typename R::T widen(Unit bits) {
        if (W >= 32) return R::number(bits);
        Unit magnitude = bits & (SIGN - 1);
        return R::number((magnitude == 0 ? 0 : magnitude + REBASE) << DROP | (bits & SIGN) << (32 - W) % 32);
    }

    // A rank brings half of its contribution where the library doubles it.
    static HERE Unit sum(const Recipe& r, u64 unit, u32 slot, bool half) {
        Stream<W> stream(r, unit);
        Unit own = slot < r.window ? stream.of(slot) : 0, next = slot + 1 < r.window ? stream.of(slot + 1) : 0;
        u32 shared = stream.shared();
        Signed sign = (int)shared >> 31;
        typename R::T scale = R::times((typename R::T)(1u << (shared & 3)), R::factor(r));
        scale = half ? R::times(scale, (typename R::T)0.5) : scale;
        Unit out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) {
            Unit mark = Base::lane(own, at) >> (W - r.depth) | (slot == 0 ? 1 : 0);
            Signed magnitude = (Signed)(mark - (Base::lane(next, at) >> (W - r.depth)));
            out |= narrow(R::times((typename R::T)((magnitude ^ sign) - sign), scale)) << at * W;
        }
        return out;
    }

    static HERE Unit scaled(const Recipe&, u64, u32) { return 0; }
    static HERE Unit stairs(const Recipe&, u64, u32) { return 0; }

    static HERE Unit product(const Recipe& r, u64 unit, u32 slot) {
        Stream<W> stream(r, unit);
        Unit own = stream.of(slot), next = slot + 1 < r.ring ? stream.of(slot + 1) : 0;
        Unit random = stream.of(INDEX_SLOT), out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) {
            Unit a = Base::lane(own, at), b = Base::lane(next, at);
            Unit exponent = BIAS + (slot < r.window ? a & 1 : 0) - (slot + 1 < r.window ? b & 1 : 0);
            Unit fraction = slot == 0 ? Base::lane(random, at) & FRACTION : 0;
            out |= (((a ^ b) & SIGN) | exponent << M | fraction) << at * W;
        }
        return out;
    }

    static HERE Unit greatest(Unit bits) { return Base::below(2 * HALF, bits); }

    static HERE Unit pattern(Unit order) {
        return (order < HALF ? SIGN | (HALF - 1 - order) : order - HALF) + ((Unit)1 << M);
    }

    static HERE Unit pair(const Recipe& r, u64 unit, u32 slot) {
        if (slot > 1) return 0;
        Stream<W> stream(r, unit);
        u32 shared = stream.shared();
        Unit common = (shared >> 31 ? SIGN : 0) | (BIAS + (shared & 3)) << M, bits = stream.of(slot), out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) out |= (common | (Base::lane(bits, at) & FRACTION)) << at * W;
        return out;
    }

    static HERE Unit mean(const Recipe& r, u64 unit) {
        Unit a = pair(r, unit, 0), b = pair(r, unit, 1), out = 0;
#pragma unroll
        for (int at = 0; at < Base::LANES; at++) {
            Unit one = narrow(R::times(widen(Base::lane(a, at)), R::factor(r)));
            Unit two = narrow(R::times(widen(Base::lane(b, at)), R::factor(r)));
            out |= narrow(R::plus(widen(one), widen(two))) << at * W;
        }
        return out;
    }
};

// --------------------------------------------------------------------------------------------------- all kinds

typedef Bits<8> Bits8;
typedef Bits<16> Bits16;
typedef Bits<32> Bits32;
typedef Bits<64> Bits64;
typedef Floats<16, 10> Half;
typedef Floats<16, 7> Bfloat16;
typedef Floats<32, 23> Float;
typedef Floats<64, 52> Double;
typedef Floats<8, 3> F8e4m3;
typedef Floats<8, 2> F8e5m2;

template <class K> HERE typename K::Unit extreme(const Recipe& r, u64 unit, u32 slot) {
    typedef typename K::Unit Unit;
    Stream<K::WIDTH> stream(r, unit);
    Unit best = stream.of(0), out = 0;
#pragma unroll
    for (int at = 0; at < K::LANES; at++) {
        Unit order = K::greatest(K::lane(best, at));
        if (slot != 0) order = K::below(order, K::lane(stream.of(slot), at));
        out |= K::pattern(order) << at * K::WIDTH;
        slot += r.spread;
        if (slot >= r.ring) slot -= r.ring;
    }
    return out ^ (Unit)r.flip;
}

// Calls `value` for `N` units from `unit` on. Where ranks rotate, the caller sees to it that no turn is in between.
template <bool ROTATES, int N, class Unit, class F>
HERE void each(const Recipe& r, u64 unit, u32 slot, Unit (&out)[N], F value) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        out[n] = value(unit + n, slot);
        if (ROTATES) slot += r.stride;
        if (ROTATES && slot >= r.ring) slot -= r.ring;
    }
}

// All threads go the same way through the switch.
template <class K, int N> HERE void make(const Recipe& r, u64 unit, u32 rank, typename K::Unit (&out)[N]) {
    typedef typename K::Unit Unit;
    const bool rotates = K::REAL || r.form == EXTREME || r.form == STAIRS;
    const u32 slot = rotates ? slot_of(r, unit, rank) : rank;
    const bool half = r.form == SCALED && rank % 2 == 1;
    switch (K::REAL && r.form == SCALED ? SUM : r.form) {
    case SENTINEL: each<false>(r, unit, slot, out, [](u64, u32) { return ~(Unit)0; }); break;
    case SUM: each<K::REAL>(r, unit, slot, out, [&](u64 u, u32 s) { return K::sum(r, u, s, half); }); break;
    case SCALED: each<false>(r, unit, slot, out, [&](u64 u, u32 s) { return K::scaled(r, u, s); }); break;
    case STAIRS: each<true>(r, unit, slot, out, [&](u64 u, u32 s) { return K::stairs(r, u, s); }); break;
    case PRODUCT: each<K::REAL>(r, unit, slot, out, [&](u64 u, u32 s) { return K::product(r, u, s); }); break;
    case EXTREME: each<true>(r, unit, slot, out, [&](u64 u, u32 s) { return extreme<K>(r, u, s); }); break;
    case PAIR: each<K::REAL>(r, unit, slot, out, [&](u64 u, u32 s) { return K::pair(r, u, s); }); break;
    case MEAN: each<false>(r, unit, slot, out, [&](u64 u, u32) { return K::mean(r, u); }); break;
    }
}

// ------------------------------------------------------------------------------------------------------- memory

template <int W> struct Stored { typedef u64 T; };
template <> struct Stored<8> { typedef u8 T; };
template <> struct Stored<16> { typedef u16 T; };
template <> struct Stored<32> { typedef u32 T; };

HERE uint4 packed(const u32 (&u)[4]) { return make_uint4(u[0], u[1], u[2], u[3]); }
HERE uint4 packed(const u64 (&u)[2]) {
    return make_uint4((u32)u[0], (u32)(u[0] >> 32), (u32)u[1], (u32)(u[1] >> 32));
}
HERE bool same(uint4 a, uint4 b) { return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0; }

// The place of a floating number among all; -0 and +0 are one.
template <int W> HERE long long ordered(u64 bits) {
    long long magnitude = (long long)(bits & ones(W - 1));
    return bits >> (W - 1) & 1 ? -magnitude : magnitude;
}

template <int W> HERE bool wrong(const Recipe& r, u64 got, u64 want) {
    if (got == want || r.slack == 0) return got != want;
    long long a = ordered<W>(got), b = ordered<W>(want);
    return (a > b ? (u64)a - (u64)b : (u64)b - (u64)a) > r.slack;
}

// Where a thread is: `at` elements into the chunk of `rank`.
struct Spot {
    u32 rank;
    u64 at;

    // Goes `chunks` chunks and `more` elements on, `more` less than a chunk; careful because a chunk may be 2^64 - 1.
    HERE void go(const Recipe& r, u32 chunks, u64 more) {
        rank += chunks;
        if (at >= r.chunk - more) {
            at -= r.chunk - more;
            rank++;
        } else {
            at += more;
        }
    }
};

// `element` elements from the start; divides, so it is done once a thread. The start may lie inside the first 16 bytes.
HERE Spot spot(const Recipe& r, long long element) {
    Spot s;
    if (element >= 0) {
        const u64 chunks = (u64)element / r.chunk;
        s.rank = r.rank + (u32)chunks;
        s.at = (u64)element - chunks * r.chunk;
    } else {
        const u32 before = (u32)-element, chunks = (before - 1) / (r.chunk < 16 ? (u32)r.chunk : 16) + 1;
        s.rank = r.rank - chunks;
        s.at = chunks * r.chunk - before;
    }
    return s;
}

// The 16 bytes at `memory`, of which `element` is the first; it wraps below 0 before the start. Gives back how many
// elements are wrong.
template <class K> HERE u32 vector(const Work& w, u64 element, Spot s, u8* memory) {
    typedef typename Stored<K::WIDTH>::T T;
    const Recipe& r = w.recipe;
    const int elements = 16 / K::SIZE;
    const u64 index = r.first + s.at;
    // Do all 16 bytes belong to the stretch, to one rank and to one turn, and start with a unit? Before the start, `at`
    // is too near the end of a chunk for that.
    const bool whole = element + elements <= w.len && r.chunk >= elements && s.at <= r.chunk - elements &&
                       index % K::LANES == 0 && index / K::LANES % TURN <= TURN - K::UNITS;
    if (whole) {
        typename K::Unit units[K::UNITS];
        make<K>(r, index / K::LANES, s.rank, units);
        if (w.counter == 0) *(uint4*)memory = packed(units);
        if (w.counter == 0 || same(*(uint4*)memory, packed(units))) return 0;
    }
    u32 count = 0;
#pragma unroll 1
    for (int n = 0; n < elements; n++, element++, s.go(r, 0, 1)) {
        if (element >= w.len) continue;
        typename K::Unit unit[1];
        make<K>(r, (r.first + s.at) / K::LANES, s.rank, unit);
        const T want = (T)K::lane(unit[0], (int)((r.first + s.at) % K::LANES));
        if (w.counter == 0) {
            ((T*)memory)[n] = want;
        } else {
            count += wrong<K::WIDTH>(r, ((T*)memory)[n], want);
        }
    }
    return count;
}

template <class K> HERE void run(const Work& w) {
    const Recipe& r = w.recipe;
    const u64 per = 16 / K::SIZE;
    const u64 threads = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 skip = (w.address & 15) / K::SIZE;  // elements before the start in the first 16 bytes
    const u64 blocks = (skip + w.len + per - 1) / per;
    u8* const memory = (u8*)(w.address & ~15ull);
    const u32 step = (u32)(threads * per), chunks = r.chunk <= step ? step / (u32)r.chunk : 0;
    const u64 more = step - chunks * r.chunk;
    u64 count = 0;
    Spot s = spot(r, (long long)(thread * per) - (long long)skip);
    for (u64 block = thread; block < blocks; block += threads, s.go(r, chunks, more)) {
        count += vector<K>(w, block * per - skip, s, memory + block * 16);
    }
    // Once a thread at most, and not at all where all is well.
    if (count != 0) atomicAdd((u64*)w.counter, count);
}

// The entry of the module of one kind, whose name make-ptx.sh gives.
#ifdef KIND
extern "C" __global__ void data(const Work w) { run<KIND>(w); }
#endif
