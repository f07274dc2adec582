// libnccl's stand-in, of the version that NCCL_VERSION says: with the functions that it has, and no others.
//
// The ranks of a communicator share a file. For a collective each puts what it sends there, all meet, and each makes what
// it receives of it; a message goes through a box of its sender and its receiver. All that happens in the streams, so that a
// call comes back at once, and ranks of one thread that are not started as a group wait for each other for ever, as they do.

#include "standin.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <type_traits>

#ifndef NCCL_VERSION
#define NCCL_VERSION 22803
#endif

// The CUDA that it is built for: the driver has to support its first number.
#ifndef NCCL_CUDA
#define NCCL_CUDA 12
#endif
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
extern const char standin_nccl_name[];
const char standin_nccl_name[] = "NCCL version " TEXT(NCCL_VERSION) "+cuda" TEXT(NCCL_CUDA) ".0";

enum { OK = 0, UNHANDLED_CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, F8E4M3, F8E5M2, TYPES };
enum { SUM, PROD, MAX, MIN, AVG, FIRST_OWN_OP };

extern "C" int cuDriverGetVersion(int*);

static const size_t SIZES[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static thread_local std::string last_error;

// Of a call inside a group, for the group's end; 0 where all went well.
static thread_local int group_error = 0, group_depth = 0;

static int fail(int code, const char* why) {
    last_error = why;
    if (group_depth > 0) group_error = code;
    return code;
}

#undef CAN_FAIL
#define CAN_FAIL() do { if (const int code = fault(__func__)) return fail(code, "STANDIN_FAULT"); } while (0)

// ------------------------------------------------------------------------------------------------------- reductions

// A float of `E` bits of exponent and `M` of fraction, computed with as a double: that has more than twice the bits, so
// that one rounding to it and one from it give what one rounding gives.
template <int E, int M> struct Small {
    typedef double Value;
    static const int BIAS = (1 << (E - 1)) - 1, BITS = E + M + 1;
    typedef typename std::conditional<BITS == 8, uint8_t, uint16_t>::type Raw;

    static double get(Raw raw) { return VALUES[raw]; }

    // `value` is finite, and 0 or far above the smallest normal double.
    static Raw put(double value) {
        uint64_t own;
        memcpy(&own, &value, sizeof own);
        const int exponent = value == 0 ? -BIAS : (int)(own >> 52 & 0x7ff) - 1023;
        const int least = std::max(exponent, 1 - BIAS);
        const long steps = std::lrint(std::fabs(value) * power_of_two(M - least));
        // Steps from 1 << M on are one exponent higher; those that round up to 2 << M carry into it by themselves.
        const long bits = steps + ((long)(least + BIAS - 1) << M), most = (1 << (E + M)) - 1;
        return (Raw)((std::signbit(value) ? 1 << (E + M) : 0) | std::min(bits, most));
    }

private:
    // All of them, because a test computes with millions.
    static inline const std::vector<double> VALUES = [] {
        std::vector<double> values(1 << BITS);
        for (int raw = 0; raw < 1 << BITS; raw++) {
            const int exponent = raw >> M & ((1 << E) - 1), fraction = raw & ((1 << M) - 1);
            const double size = exponent ? std::ldexp((1 << M) + fraction, exponent - BIAS - M)
                                         : std::ldexp(fraction, 1 - BIAS - M);
            values[raw] = raw >> (E + M) ? -size : size;
        }
        return values;
    }();

    // The exponent is that of a normal double.
    static double power_of_two(int exponent) {
        const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
        double power;
        memcpy(&power, &bits, sizeof power);
        return power;
    }
};

template <class T> struct Plain {
    typedef T Value;
    typedef T Raw;
    static T get(T raw) { return raw; }
    static T put(T value) { return value; }
};

// Integers run over as unsigned ones do.
template <class T, class F> static T wrapped(T a, T b, F f, std::true_type) {
    typedef typename std::make_unsigned<T>::type U;
    return (T)(U)f((unsigned long long)(U)a, (unsigned long long)(U)b);
}
template <class T, class F> static T wrapped(T a, T b, F f, std::false_type) { return f(a, b); }

template <class N> static typename N::Value combine(int op, typename N::Value a, typename N::Value b) {
    typedef typename N::Value V;
    const std::is_integral<V> whole{};
    switch (op) {
        case PROD: return wrapped(a, b, [](auto x, auto y) { return x * y; }, whole);
        case MAX: return std::max(a, b);
        case MIN: return std::min(a, b);
        default: return wrapped(a, b, [](auto x, auto y) { return x + y; }, whole);
    }
}

// Element by element, `from` of each rank into `to`. `scalars` is empty, or has what each rank's input is multiplied by.
template <class N>
static void reduce_as(int op, const std::vector<const char*>& from, char* to, size_t count,
                      const std::vector<uint64_t>& scalars) {
    typedef typename N::Raw Raw;
    const auto scalar = [&](size_t rank) { return N::get(*(const Raw*)&scalars[rank]); };
    const auto rounded = [](typename N::Value value) { return N::get(N::put(value)); };
    for (size_t at = 0; at < count; at++) {
        const auto input = [&](size_t rank) {
            Raw raw;
            memcpy(&raw, from[rank] + at * sizeof raw, sizeof raw);
            return scalars.empty() ? N::get(raw) : rounded(combine<N>(PROD, N::get(raw), scalar(rank)));
        };
        typename N::Value all = input(0);
        for (size_t rank = 1; rank < from.size(); rank++) all = rounded(combine<N>(op, all, input(rank)));
        if (op == AVG) all = all / (typename N::Value)from.size();
        const Raw raw = N::put(all);
        memcpy(to + at * sizeof raw, &raw, sizeof raw);
    }
}

typedef void Reduce(int, const std::vector<const char*>&, char*, size_t, const std::vector<uint64_t>&);
static Reduce* const REDUCTIONS[TYPES] = {
    reduce_as<Plain<int8_t>>,   reduce_as<Plain<uint8_t>>,  reduce_as<Plain<int32_t>>, reduce_as<Plain<uint32_t>>,
    reduce_as<Plain<int64_t>>,  reduce_as<Plain<uint64_t>>, reduce_as<Small<5, 10>>,   reduce_as<Plain<float>>,
    reduce_as<Plain<double>>,   reduce_as<Small<8, 7>>,     reduce_as<Small<4, 3>>,    reduce_as<Small<5, 2>>,
};

// ---------------------------------------------------------------------------------------------------- communicators

static const int MOST_RANKS = 16;
// Files are sparse: what is not written takes no room.
static const size_t SLOT = 1ull << 30, BOX = 1ull << 28, HEADER = 1ull << 20;

struct Box { std::atomic<uint32_t> full; uint64_t bytes; };

// The ranks of a collective must agree on this.
struct Signature {
    int kind, type, op, root;
    uint64_t count;
    bool operator!=(const Signature& o) const {
        return kind != o.kind || type != o.type || op != o.op || root != o.root || count != o.count;
    }
};

// The head of the file. It is all zero at first.
struct Shared {
    std::atomic<uint32_t> joined, arrived, generation, failed;
    Signature signatures[MOST_RANKS];
    uint64_t scalars[MOST_RANKS], places[MOST_RANKS];
    Box boxes[MOST_RANKS][MOST_RANKS];
};

static_assert(sizeof(Shared) <= HEADER, "the head has room");

struct Comm {
    int rank, ranks, device;
    Shared* shared = nullptr;
    std::atomic<int> error{OK}, registered{0};
    std::vector<std::pair<int, uint64_t>> own_ops;
    // What was connected so far: rings, and the peers of sends and of receives.
    bool has_rings = false;
    std::set<std::pair<int, bool>> peers;

    char* slot(int of) const { return (char*)shared + HEADER + of * SLOT; }
    char* box(int from, int to) const { return slot(ranks) + ((size_t)from * ranks + to) * BOX; }

    void meet() const {
        const uint32_t generation = shared->generation;
        if (++shared->arrived == (uint32_t)ranks) {
            shared->arrived = 0;
            shared->generation++;
            return;
        }
        wait_until([&] { return shared->generation != generation; });
    }
};

// What a program holds. It ends before the last operation does.
struct Handle { std::shared_ptr<Comm> comm; };

static std::string host_name() {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return host;
}

// Where NCCL_DEBUG_FILE says, like NCCL: opened by name, through links, and cut to nothing. Null if nothing is logged.
static FILE* log_file() {
    static FILE* const log = []() -> FILE* {
        const std::string pattern = setting("NCCL_DEBUG_FILE", "");
        if (pattern.empty() || !getenv("NCCL_DEBUG")) return nullptr;
        std::string name;
        for (size_t at = 0; at < pattern.size(); at++) {
            const std::string two = pattern.substr(at, 2);
            if (two == "%p") name += std::to_string(getpid()), at++;
            else if (two == "%h") name += host_name(), at++;
            else name += pattern[at];
        }
        return fopen(name.c_str(), "w");
    }();
    return log;
}

static void log_line(const std::string& message) {
    FILE* log = log_file();
    if (!log) return;
    fprintf(log, "%s:%d:%d [0] NCCL INFO %s\n", host_name().c_str(), getpid(), getpid(), message.c_str());
    fflush(log);
}

static void log_start() {
    static const bool once = [] {
        log_line("NCCL version 2.99.0+stand-in");
        return true;
    }();
    (void)once;
}

// What NCCL logs of each operation if it is to log TUNING: here, large sizes use more channels.
static void log_tuning(size_t bytes) {
    if (setting("NCCL_DEBUG_SUBSYS", "").find("TUNING") == std::string::npos) return;
    const bool is_large = bytes > 65536;
    log_line("AllReduce: " + std::to_string(bytes) + " Bytes -> Algo RING proto " + (is_large ? "SIMPLE" : "LL") +
             " channel{Lo..Hi}={0.." + (is_large ? "7" : "0") + "}");
}

// The network that STANDIN_NETWORK names joins nodes that have a NIC beside each GPU. Without it, no connection is logged.
static std::string network() { return setting("STANDIN_NETWORK", ""); }

static uint64_t node_of(const Comm& comm, int rank) { return comm.shared->places[rank] >> 8; }

static int rail_of(const Comm& comm, int rank) { return (int)(comm.shared->places[rank] & 0xff) - 1; }

// What NCCL 2.28 logs of a communicator.
static void log_communicator(const Comm& comm, const std::string& name) {
    if (network().empty()) return;
    std::map<uint64_t, int> nodes;
    int local_rank = 0;
    for (int rank = 0; rank < comm.ranks; rank++) {
        if (rank == comm.rank) local_rank = nodes[node_of(comm, rank)];
        nodes[node_of(comm, rank)]++;
    }
    int local_ranks = 0;
    for (const auto& node : nodes) local_ranks = std::max(local_ranks, node.second);
    char own[64], whole[256];
    snprintf(own, sizeof own, "comm %p rank %d", (const void*)&comm, comm.rank);
    snprintf(whole, sizeof whole, "ncclCommInitRankConfig %s nranks %d cudaDev %d nvmlDev %d busId 60 commId 0x%zx - Init ", own,
             comm.ranks, comm.device, rail_of(comm, comm.rank), std::hash<std::string>()(name));
    log_line(whole + std::string("START"));
    log_line(std::string(own) + " nRanks " + std::to_string(comm.ranks) + " nNodes " + std::to_string(nodes.size()) +
             " localRanks " + std::to_string(local_ranks) + " localRank " + std::to_string(local_rank) + " MNNVL 0");
    log_line("8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer");
    log_line(whole + std::string("COMPLETE"));
}

// Returns the rank on this rank's node whose NIC is on the rail of `peer`, if PXN takes its NIC; otherwise -1.
static int relay_to(const Comm& comm, int peer, bool is_ring) {
    const bool is_off = setting("NCCL_PXN_DISABLE", "0") == "1" || (!is_ring && setting("NCCL_P2P_PXN_LEVEL", "2") == "0");
    if (is_off || rail_of(comm, peer) == rail_of(comm, comm.rank)) return -1;
    for (int rank = 0; rank < comm.ranks; rank++)
        if (node_of(comm, rank) == node_of(comm, comm.rank) && rail_of(comm, rank) == rail_of(comm, peer)) return rank;
    return -1;
}

// Logs the connection from or to `peer` on a channel. Returns whether it is relayed.
static bool log_connection(const Comm& comm, int channel, int peer, bool is_send, bool is_ring) {
    const int from = is_send ? comm.rank : peer, to = is_send ? peer : comm.rank;
    char ends[96];
    snprintf(ends, sizeof ends, "Channel %02d/%d : %d[%d] -> %d[%d]", channel, is_ring ? 0 : 1, from, rail_of(comm, from), to,
             rail_of(comm, to));
    if (node_of(comm, from) == node_of(comm, to)) {
        if (is_send) log_line(std::string(ends) + " via P2P/CUMEM");
        return false;
    }
    const int relay = is_send ? relay_to(comm, peer, is_ring) : -1;
    const int nic = relay >= 0 ? rail_of(comm, peer) : rail_of(comm, comm.rank);
    log_line(std::string(ends) + (is_send ? " [send]" : " [receive]") + " via NET/" + network() + "/" + std::to_string(nic) +
             (relay >= 0 ? "(" + std::to_string(relay) + ")" : "") + "/GDRDMA");
    return relay >= 0;
}

// Rings in both directions, each on four channels. NCCL connects them when the first operation needs them.
static void connect_rings(Comm& comm) {
    if (network().empty() || comm.has_rings || comm.ranks < 2) return;
    comm.has_rings = true;
    bool is_relayed = false;
    for (int channel = 0; channel < 8; channel++) {
        const int step = channel % 2 ? comm.ranks - 1 : 1;
        log_connection(comm, channel, (comm.rank + comm.ranks - step) % comm.ranks, false, true);
        is_relayed |= log_connection(comm, channel, (comm.rank + step) % comm.ranks, true, true);
    }
    log_line(std::string("Connected all rings, use ring PXN ") + (is_relayed ? "1" : "0") + " GDR 1");
}

static void connect_peer(Comm& comm, int peer, bool is_send) {
    if (network().empty() || peer == comm.rank || !comm.peers.insert({peer, is_send}).second) return;
    for (int channel = 0; channel < 2; channel++) log_connection(comm, channel, peer, is_send, false);
}

// Stands for a net plugin that writes its counters from the start to the end: those of this rank in the folder that STANDIN_RAILS
// names, of another run.
static void play_back_counters() {
    const std::string from = setting("STANDIN_RAILS", ""), to = setting("PXNBENCH_RAIL_COUNTERS", "");
    if (from.empty() || to.empty()) return;
    const std::string name = "/rails-" + setting("RANK", "0") + ".json";
    std::ofstream(to + name, std::ios::binary) << std::ifstream(from + name, std::ios::binary).rdbuf();
}

static int join(Handle** made, int ranks, std::string name, int rank, int device) {
    log_start();
    if (ranks > MOST_RANKS || rank < 0 || rank >= ranks) return fail(INVALID_ARGUMENT, "no such rank");
    auto comm = std::make_shared<Comm>();
    comm->rank = rank, comm->ranks = ranks, comm->device = device;
    const std::string path = setting("STANDIN_FOLDER", "/tmp") + "/" + name;
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    const size_t bytes = HEADER + ranks * SLOT + (size_t)ranks * ranks * BOX;
    if (file < 0 || ftruncate(file, (off_t)bytes)) return fail(SYSTEM_ERROR, "no room for the ranks to meet");
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (memory == MAP_FAILED) return fail(SYSTEM_ERROR, "no room for the ranks to meet");
    comm->shared = (Shared*)memory;
    const size_t node = std::hash<std::string>()(setting("NCCL_HOSTID", "")) << 8;
    comm->shared->places[rank] = node | (uint64_t)(standin_physical(device) + 1);
    comm->meet();
    if (rank == 0) unlink(path.c_str());
    for (int other = 0; other < ranks; other++)
        if (other != rank && comm->shared->places[other] == comm->shared->places[rank])
            return fail(INVALID_USAGE, "Duplicate GPU detected");
    log_communicator(*comm, name);
    play_back_counters();
    *made = new Handle{comm};
    return OK;
}

// ------------------------------------------------------------------------------------------------------- operations

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, GATHER, SCATTER };

struct Operation {
    std::shared_ptr<Comm> comm;
    Stream stream;
    Signature signature;
    uint64_t send, recv;
    // Of what this rank sends and receives.
    size_t sent, received;
};

struct Message {
    std::shared_ptr<Comm> comm;
    Stream stream;
    bool is_send;
    int peer;
    uint64_t at;
    size_t bytes;
};

// What STANDIN_FAULT has for one operation.
struct Faults {
    int hang, slow, flip, broken, async, before, after, send;
    static Faults now() {
        return {fault("hang"),  fault("slow"),   fault("flip"),  fault("broken"),
                fault("async"), fault("before"), fault("after"), fault("send")};
    }

    // Before the operation.
    void begin(Comm& comm) const {
        if (slow) usleep(slow * 1000u);
        if (async) comm.error = async, comm.shared->failed = 1;
        if (hang || async) wait_until([] { return false; });
    }

    // After it.
    int end(uint64_t recv, size_t received) const {
        if (flip && received) ((char*)recv)[received - 1] ^= 1;
        return broken;
    }

    // After it: changes what is not to be changed. The arguments are addresses.
    void damage(uint64_t send_end, bool sends, uint64_t recv_begin, uint64_t recv_end) const {
        if (before && recv_end > recv_begin) ((char*)recv_begin)[-1] ^= 1;
        if (after && recv_end > recv_begin) *(char*)recv_end ^= 1;
        if (send && sends) ((char*)send_end)[-1] ^= 1;
    }
};

static void receive(const Operation& op) {
    const Comm& comm = *op.comm;
    const Signature& is = op.signature;
    const size_t bytes = is.count * SIZES[is.type];
    char* to = (char*)op.recv;
    const auto reduce = [&](size_t offset) {
        std::vector<const char*> from;
        std::vector<uint64_t> scalars;
        for (int rank = 0; rank < comm.ranks; rank++) {
            from.push_back(comm.slot(rank) + offset);
            if (is.op >= FIRST_OWN_OP) scalars.push_back(comm.shared->scalars[rank]);
        }
        REDUCTIONS[is.type](is.op >= FIRST_OWN_OP ? SUM : is.op, from, to, is.count, scalars);
    };
    switch (is.kind) {
        case ALL_REDUCE: reduce(0); break;
        case REDUCE: if (comm.rank == is.root) reduce(0); break;
        case REDUCE_SCATTER: reduce(bytes * comm.rank); break;
        case BROADCAST: memcpy(to, comm.slot(is.root), bytes); break;
        case SCATTER: memcpy(to, comm.slot(is.root) + bytes * comm.rank, bytes); break;
        case ALL_TO_ALL:
            for (int rank = 0; rank < comm.ranks; rank++) memcpy(to + bytes * rank, comm.slot(rank) + bytes * comm.rank, bytes);
            break;
        case GATHER: if (comm.rank != is.root) break;  // fall through
        case ALL_GATHER:
            for (int rank = 0; rank < comm.ranks; rank++) memcpy(to + bytes * rank, comm.slot(rank), bytes);
    }
}

static int run(const Operation& op, const Faults& faults) {
    Comm& comm = *op.comm;
    switch (op.signature.kind) {
        case GATHER: case SCATTER: break;
        case ALL_TO_ALL:
            for (int peer = 0; peer < comm.ranks; peer++) connect_peer(comm, peer, true), connect_peer(comm, peer, false);
            break;
        default: connect_rings(comm);
    }
    faults.begin(comm);
    const int own = op.signature.op - FIRST_OWN_OP;
    comm.shared->signatures[comm.rank] = op.signature;
    if (own >= 0) comm.shared->scalars[comm.rank] = comm.own_ops[own].second;
    memcpy(comm.slot(comm.rank), (void*)op.send, op.sent);
    comm.meet();
    if (comm.shared->signatures[0] != op.signature) mistake("the ranks call different operations");
    receive(op);
    comm.meet();
    faults.damage(op.send + op.sent, op.sent > 0, op.recv, op.recv + op.received);
    return faults.end(op.recv, op.received);
}

// All messages of a group on a communicator, at once. What is sent is what the buffers held when the group began.
static int exchange(const std::vector<Message>& messages, const Faults& faults) {
    Comm& comm = *messages[0].comm;
    for (const Message& message : messages) connect_peer(comm, message.peer, message.is_send);
    faults.begin(comm);
    std::vector<std::pair<Message, std::string>> left;
    const Message* last = nullptr;
    for (const Message& message : messages) {
        left.push_back({message, message.is_send ? std::string((char*)message.at, message.bytes) : ""});
        if (!message.is_send) last = &message;
    }
    wait_until([&] {
        // Those to and from one peer keep their order.
        std::vector<std::pair<int, bool>> held;
        for (auto it = left.begin(); it != left.end();) {
            const Message& message = it->first;
            const std::pair<int, bool> way(message.peer, message.is_send);
            const int from = message.is_send ? comm.rank : message.peer, to = message.is_send ? message.peer : comm.rank;
            Box& box = comm.shared->boxes[from][to];
            if (box.full == message.is_send || std::find(held.begin(), held.end(), way) != held.end()) {
                held.push_back(way);
                ++it;
                continue;
            }
            if (message.is_send) {
                memcpy(comm.box(from, to), it->second.data(), message.bytes);
                box.bytes = message.bytes;
            } else {
                if (box.bytes != message.bytes) mistake("a send and its receive differ in size");
                memcpy((void*)message.at, comm.box(from, to), message.bytes);
            }
            box.full = message.is_send;
            it = left.erase(it);
        }
        return left.empty();
    });
    uint64_t send_end = 0, recv_begin = UINT64_MAX, recv_end = 0;
    for (const Message& message : messages) {
        const uint64_t end = message.at + message.bytes;
        if (message.is_send) send_end = std::max(send_end, end);
        else recv_begin = std::min(recv_begin, message.at), recv_end = std::max(recv_end, end);
    }
    faults.damage(send_end, send_end > 0, recv_begin, recv_end);
    return last ? faults.end(last->at, last->bytes) : OK;
}

// ----------------------------------------------------------------------------------------------------------- groups

namespace {

// What a rank does together with the others of its communicator while the call waits: joining it, registering a window.
struct Meeting { std::shared_ptr<Comm> comm; std::function<int()> work; };

struct Group {
    std::vector<Meeting> meetings;
    std::vector<Operation> operations;
    std::vector<Message> messages;
};

thread_local Group group;

int enqueue(const std::shared_ptr<Comm>& comm, Stream stream, std::function<int()> work) {
    const int code = standin_enqueue(stream, comm->device, work);
    return code == OK ? OK : fail(UNHANDLED_CUDA_ERROR, "the stream is not one of the communicator's GPU");
}

int begin_all(Group& all) {
    // The ranks of a group meet at the same time. Those meetings of one rank keep their order: `Comm::meet` counts ranks,
    // and a rank that arrives twice before the others have left is lost.
    std::vector<std::vector<std::function<int()>>> by_rank;
    std::map<std::shared_ptr<Comm>, size_t> places;
    for (const Meeting& meeting : all.meetings) {
        const bool is_known = meeting.comm && places.count(meeting.comm);
        if (!is_known) by_rank.emplace_back();
        if (!is_known && meeting.comm) places[meeting.comm] = by_rank.size() - 1;
        by_rank[is_known ? places[meeting.comm] : by_rank.size() - 1].push_back(meeting.work);
    }
    std::vector<std::thread> threads;
    std::atomic<int> code{OK};
    std::string why;
    std::mutex lock;
    for (const auto& meetings : by_rank)
        threads.emplace_back([&] {
            for (const auto& meet : meetings) {
                const int own = meet();
                const std::lock_guard<std::mutex> held(lock);
                if (own != OK) code = own, why = last_error;
            }
        });
    for (std::thread& thread : threads) thread.join();
    if (code != OK) return fail(code, why.c_str());
    while (!all.messages.empty()) {
        const auto comm = all.messages[0].comm;
        std::vector<Message> own, others;
        for (const Message& message : all.messages) (message.comm == comm ? own : others).push_back(message);
        const Faults faults = Faults::now();
        if (const int failed = enqueue(comm, own[0].stream, [=] { return exchange(own, faults); })) return failed;
        all.messages = others;
    }
    for (const Operation& op : all.operations) {
        const Faults faults = Faults::now();
        if (const int failed = enqueue(op.comm, op.stream, [=] { return run(op, faults); })) return failed;
    }
    return OK;
}

// Ends a call: at once, or when its group ends.
int begin_now() {
    if (group_depth > 0) return OK;
    Group all;
    std::swap(all, group);
    return begin_all(all);
}

// `sent` and `received` are how many times `count` this rank's buffers hold.
int collective(int kind, uint64_t send, uint64_t recv, size_t count, int type, int op, int root, Handle* handle,
               Stream stream, int sent, int received) {
    if (!handle) return fail(INVALID_ARGUMENT, "no communicator");
    const auto& comm = handle->comm;
    if (type < 0 || type >= TYPES || root < 0 || root >= comm->ranks) return fail(INVALID_ARGUMENT, "no such type or root");
    if (op >= FIRST_OWN_OP + (int)comm->own_ops.size()) return fail(INVALID_ARGUMENT, "no such operation");
    const size_t bytes = count * SIZES[type];
    if ((sent && !standin_owns(comm->device, send, bytes * sent)) ||
        (received && !standin_owns(comm->device, recv, bytes * received)))
        return fail(INVALID_ARGUMENT, "a buffer is not memory of the communicator's GPU, or too short");
    if (bytes * std::max(sent, received) > SLOT) return fail(SYSTEM_ERROR, "the stand-in has no room for so much");
    group.operations.push_back({comm, stream, {kind, type, op, root, count}, send, recv, bytes * sent, bytes * received});
    return begin_now();
}

int message(bool is_send, uint64_t at, size_t count, int type, int peer, Handle* handle, Stream stream) {
    if (!handle) return fail(INVALID_ARGUMENT, "no communicator");
    const auto& comm = handle->comm;
    if (type < 0 || type >= TYPES || peer < 0 || peer >= comm->ranks) return fail(INVALID_ARGUMENT, "no such type or peer");
    const size_t bytes = count * SIZES[type];
    if (!standin_owns(comm->device, at, bytes)) return fail(INVALID_ARGUMENT, "a buffer is not memory of the GPU");
    if (bytes > BOX) return fail(SYSTEM_ERROR, "the stand-in has no room for so much");
    group.messages.push_back({comm, stream, is_send, peer, at, bytes});
    return begin_now();
}

}  // namespace

// ----------------------------------------------------------------------------------------------------------- nccl.h

struct Id { char bytes[128]; };
struct Config { size_t size; unsigned magic, version; };

extern "C" {

int ncclGetVersion(int* version) {
    *version = NCCL_VERSION;
    return OK;
}

int ncclGetUniqueId(Id* id) {
    CAN_FAIL();
    std::random_device random;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "standin-%08x%08x%08x%08x", random(), random(), random(), random());
    return OK;
}

const char* ncclGetErrorString(int code) {
    switch (code) {
        case OK: return "no error";
        case UNHANDLED_CUDA_ERROR: return "unhandled cuda error";
        case SYSTEM_ERROR: return "unhandled system error";
        case INVALID_ARGUMENT: return "invalid argument";
        case INVALID_USAGE: return "invalid usage";
        case REMOTE_ERROR: return "remote process exited or there was a network error";
        default: return "internal error";
    }
}

const char* ncclGetLastError(Handle*) { return last_error.c_str(); }

int ncclCommInitRankConfig(Handle** comm, int ranks, Id id, int rank, const Config* config) {
    CAN_FAIL();
    const size_t known = NCCL_VERSION >= 23000 ? 96 : NCCL_VERSION >= 22800 ? 80 : NCCL_VERSION >= 22700 ? 72 : 48;
    int supported = 0;
    cuDriverGetVersion(&supported);
    if (supported < NCCL_CUDA * 1000) {
        return fail(UNHANDLED_CUDA_ERROR, "Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'");
    }
    if (config->magic != 0xcafebeef || config->size > known) return fail(INVALID_ARGUMENT, "no such configuration");
    if (standin_current() < 0) return fail(UNHANDLED_CUDA_ERROR, "no GPU is current");
    const std::string name = id.bytes;
    const int device = standin_current();
    // There is no communicator yet: each rank joins on a thread of its own.
    group.meetings.push_back({nullptr, [=] { return join(comm, ranks, name, rank, device); }});
    return begin_now();
}

int ncclCommDestroy(Handle* comm) {
    CAN_FAIL();
    play_back_counters();
    if (!standin_is_idle(comm->comm->device)) mistake("a communicator is destroyed while something runs on its GPU");
    if (comm->comm->registered) mistake("a communicator is destroyed before its buffers are deregistered");
    delete comm;
    return OK;
}

int ncclCommGetAsyncError(Handle* comm, int* state) {
    CAN_FAIL();
    *state = comm->comm->error;
    if (*state == OK && comm->comm->shared->failed) *state = REMOTE_ERROR;
    return OK;
}

int ncclGroupStart() {
    group_depth++;
    return OK;
}

#if NCCL_VERSION >= 22200
struct SimInfo { size_t size; unsigned magic, version; float time; };

// A model of 10 us and 100 GB/s, for collectives only. Nothing is run.
int ncclGroupSimulateEnd(SimInfo* info) {
    CAN_FAIL();
    if (group_depth == 0) return fail(INVALID_USAGE, "a group ends that did not begin");
    group_depth--;
    if (!info || info->size < sizeof *info || info->magic != 0x74685283)
        return fail(INVALID_ARGUMENT, "the structure is not initialized");
    for (const Operation& op : group.operations) info->time = 10 + (float)std::max(op.sent, op.received) / 1e5f;
    group = Group();
    return OK;
}
#endif

int ncclGroupEnd() {
    CAN_FAIL();
    if (group_depth == 0) return fail(INVALID_USAGE, "a group ends that did not begin");
    if (--group_depth > 0) return OK;
    // Nothing of a group is begun in which a call failed.
    if (const int code = group_error) {
        group_error = OK;
        group = Group();
        return code;
    }
    return begin_now();
}

#if NCCL_VERSION >= 21900
int ncclMemAlloc(uint64_t* address, size_t bytes) {
    CAN_FAIL();
    if (standin_current() < 0) return fail(UNHANDLED_CUDA_ERROR, "no GPU is current");
    *address = standin_allocate(bytes);
    return *address ? OK : fail(UNHANDLED_CUDA_ERROR, "out of memory");
}

int ncclMemFree(uint64_t address) { return standin_free(address) ? OK : fail(INVALID_ARGUMENT, "no such memory"); }

int ncclCommRegister(Handle* comm, uint64_t address, size_t bytes, void** handle) {
    CAN_FAIL();
    if (!standin_owns(comm->comm->device, address, bytes)) return fail(INVALID_ARGUMENT, "no such memory");
    comm->comm->registered++;
    *handle = (void*)address;
    return OK;
}

int ncclCommDeregister(Handle* comm, void* handle) {
    if (!handle) return fail(INVALID_ARGUMENT, "no such handle");
    comm->comm->registered--;
    return OK;
}
#endif

#if NCCL_VERSION >= 22700
int ncclCommWindowRegister(Handle* comm, uint64_t address, size_t bytes, void** window, int) {
    CAN_FAIL();
    if (!standin_owns(comm->comm->device, address, bytes)) return fail(INVALID_ARGUMENT, "no such memory");
    const auto shared = comm->comm;
    group.meetings.push_back({shared, [=] {
        shared->meet();
        shared->registered++;
        *window = (void*)address;
        return OK;
    }});
    return begin_now();
}

int ncclCommWindowDeregister(Handle* comm, void* window) { return ncclCommDeregister(comm, window); }
#endif

int ncclRedOpCreatePreMulSum(int* op, const void* scalar, int type, int, Handle* comm) {
    CAN_FAIL();
    uint64_t bits = 0;
    memcpy(&bits, scalar, SIZES[type]);
    comm->comm->own_ops.push_back({type, bits});
    *op = FIRST_OWN_OP + (int)comm->comm->own_ops.size() - 1;
    return OK;
}

int ncclRedOpDestroy(int, Handle*) { return OK; }

int ncclAllReduce(uint64_t send, uint64_t recv, size_t count, int type, int op, Handle* comm, Stream stream) {
    CAN_FAIL();
    log_tuning(count * SIZES[type]);
    return collective(ALL_REDUCE, send, recv, count, type, op, 0, comm, stream, 1, 1);
}

int ncclAllGather(uint64_t send, uint64_t recv, size_t count, int type, Handle* comm, Stream stream) {
    CAN_FAIL();
    return collective(ALL_GATHER, send, recv, count, type, SUM, 0, comm, stream, 1, comm->comm->ranks);
}

int ncclReduceScatter(uint64_t send, uint64_t recv, size_t count, int type, int op, Handle* comm, Stream stream) {
    CAN_FAIL();
    return collective(REDUCE_SCATTER, send, recv, count, type, op, 0, comm, stream, comm->comm->ranks, 1);
}

int ncclBroadcast(uint64_t send, uint64_t recv, size_t count, int type, int root, Handle* comm, Stream stream) {
    CAN_FAIL();
    return collective(BROADCAST, send, recv, count, type, SUM, root, comm, stream, comm->comm->rank == root, 1);
}

int ncclReduce(uint64_t send, uint64_t recv, size_t count, int type, int op, int root, Handle* comm, Stream stream) {
    CAN_FAIL();
    return collective(REDUCE, send, recv, count, type, op, root, comm, stream, 1, comm->comm->rank == root);
}

#if NCCL_VERSION >= 22800
int ncclAlltoAll(uint64_t send, uint64_t recv, size_t count, int type, Handle* comm, Stream stream) {
    CAN_FAIL();
    const int ranks = comm->comm->ranks;
    return collective(ALL_TO_ALL, send, recv, count, type, SUM, 0, comm, stream, ranks, ranks);
}

int ncclGather(uint64_t send, uint64_t recv, size_t count, int type, int root, Handle* comm, Stream stream) {
    CAN_FAIL();
    const int received = comm->comm->rank == root ? comm->comm->ranks : 0;
    return collective(GATHER, send, recv, count, type, SUM, root, comm, stream, 1, received);
}

int ncclScatter(uint64_t send, uint64_t recv, size_t count, int type, int root, Handle* comm, Stream stream) {
    CAN_FAIL();
    const int sent = comm->comm->rank == root ? comm->comm->ranks : 0;
    return collective(SCATTER, send, recv, count, type, SUM, root, comm, stream, sent, 1);
}
#endif

int ncclSend(uint64_t send, size_t count, int type, int peer, Handle* comm, Stream stream) {
    CAN_FAIL();
    return message(true, send, count, type, peer, comm, stream);
}

int ncclRecv(uint64_t recv, size_t count, int type, int peer, Handle* comm, Stream stream) {
    CAN_FAIL();
    return message(false, recv, count, type, peer, comm, stream);
}

}  // extern "C"
