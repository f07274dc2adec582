// libcuda's stand-in: GPUs whose memory is the processor's, and streams that are threads.
//
// Memory has a page behind it that nothing can touch, so that who writes too far crashes. A call that needs a context
// has only that of the thread that calls, as the real ones.

#include "standin.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>

#include "builtins.h"

// They have names of their own.
namespace kernels {
#include "kernels.cu"
#include "kinds.h"
#include "compute.cu"
}

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CAPTURE_UNSUPPORTED = 900,
    ILLEGAL_STATE = 401,
};

// Of each GPU, and threads that each of them runs at once.
enum { MULTIPROCESSORS = 4, THREADS_AT_ONCE = 2048 };

typedef std::function<int()> Task;
typedef std::vector<Task> Tasks;

// ---------------------------------------------------------------------------------------------------------- devices

namespace {

struct Block { size_t bytes, mapped; int device; };

struct Memory {
    std::mutex lock;
    std::map<uint64_t, Block> blocks;
    std::map<int, size_t> used;
} memory;

std::atomic<bool> initialized{false};
thread_local int current = -1;

// The GPUs of the machine that this process sees, in its order.
const std::vector<int>& visible() {
    static const std::vector<int> list = [] {
        std::vector<int> list;
        const int all = atoi(setting("STANDIN_GPUS", "2").c_str());
        if (!getenv("CUDA_VISIBLE_DEVICES")) {
            for (int gpu = 0; gpu < all; gpu++) list.push_back(gpu);
            return list;
        }
        std::istringstream words(getenv("CUDA_VISIBLE_DEVICES"));
        for (std::string word; std::getline(words, word, ',');) {
            if (atoi(word.c_str()) >= all) break;
            list.push_back(atoi(word.c_str()));
        }
        return list;
    }();
    return list;
}

int gpus() { return (int)visible().size(); }

size_t memory_of_each() {
    static const size_t bytes = strtoull(setting("STANDIN_MEMORY", "4294967296").c_str(), nullptr, 10);
    return bytes;
}

// A context is its device's number, from 1 on.
void* context_of(int device) { return (void*)(uintptr_t)(device + 1); }

int usable() { return !initialized ? NOT_INITIALIZED : current < 0 ? INVALID_CONTEXT : OK; }

}  // namespace

// ---------------------------------------------------------------------------------------------------------- streams

struct standin_stream {
    explicit standin_stream(int device) : device(device) {}

    const int device;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<Task> waiting;
    bool running = false, started = false, capturing = false;
    int error = OK;
    Tasks captured;

    void enqueue(Task work) {
        const std::lock_guard<std::mutex> held(lock);
        if (capturing) {
            captured.push_back(std::move(work));
            return;
        }
        waiting.push_back(std::move(work));
        // Left alone at the end of the process, as what runs on a GPU is.
        if (!started) std::thread([this] { serve(); }).detach();
        started = true;
        changed.notify_all();
    }

    void serve() {
        std::unique_lock<std::mutex> held(lock);
        for (;;) {
            changed.wait(held, [this] { return !waiting.empty(); });
            const Task work = std::move(waiting.front());
            waiting.pop_front();
            running = true;
            held.unlock();
            const int code = error == OK ? work() : OK;
            held.lock();
            if (code != OK) error = code;
            running = false;
            changed.notify_all();
        }
    }

    // With the lock held.
    bool is_empty() const { return waiting.empty() && !running; }
};

namespace {

// The null streams of all GPUs, and all streams that were made. They live as long as the process.
struct Streams {
    std::mutex lock;
    std::map<int, standin_stream*> null;
    std::map<Stream, bool> made;
} streams;

// What a handle means for the thread that calls; null where it means nothing.
standin_stream* stream_of(Stream handle) {
    const std::lock_guard<std::mutex> held(streams.lock);
    if (handle) return streams.made.count(handle) && streams.made[handle] ? handle : nullptr;
    if (current < 0) return nullptr;
    standin_stream*& null = streams.null[current];
    if (!null) null = new standin_stream(current);
    return null;
}

int find_stream(Stream handle, standin_stream** found) {
    if (const int code = usable()) return code;
    *found = stream_of(handle);
    return *found ? OK : INVALID_HANDLE;
}

// A stream of the current context, which all want but copies.
int find_own_stream(Stream handle, standin_stream** found) {
    const int code = find_stream(handle, found);
    return code == OK && (*found)->device != current ? INVALID_HANDLE : code;
}

}  // namespace

extern "C" {

int standin_current() { return current; }
int standin_physical(int device) { return visible()[device]; }
void standin_choose(int device) { current = device; }

int standin_enqueue(Stream handle, int device, Task work) {
    const int before = current;
    current = device;
    standin_stream* stream = stream_of(handle);
    current = before;
    if (!stream || stream->device != device) return INVALID_HANDLE;
    stream->enqueue(std::move(work));
    return OK;
}

bool standin_is_idle(int device) {
    const std::lock_guard<std::mutex> held(streams.lock);
    const auto idle = [device](standin_stream* stream) {
        const std::lock_guard<std::mutex> held(stream->lock);
        return stream->device != device || stream->is_empty();
    };
    for (const auto& [number, stream] : streams.null) if (!idle(stream)) return false;
    for (const auto& [stream, lives] : streams.made) if (lives && !idle(stream)) return false;
    return true;
}

// ------------------------------------------------------------------------------------------- driver, devices, contexts

int cuInit(unsigned) {
    CAN_FAIL();
    if (gpus() == 0) return NO_DEVICE;
    initialized = true;
    return OK;
}

int cuDriverGetVersion(int* version) {
    *version = atoi(setting("STANDIN_CUDA", "13000").c_str());
    return OK;
}

int cuGetErrorName(int code, const char** name) {
    static const std::map<int, const char*> names = {
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},     {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},             {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},   {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {NOT_READY, "CUDA_ERROR_NOT_READY"},             {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    };
    const auto found = names.find(code);
    *name = found == names.end() ? nullptr : found->second;
    return found == names.end() ? INVALID_VALUE : OK;
}

int cuGetErrorString(int code, const char** text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : "an error of the stand-in";
    return OK;
}

int cuDeviceGetCount(int* count) {
    if (!initialized) return NOT_INITIALIZED;
    *count = gpus();
    return OK;
}

int cuDeviceGet(int* device, int ordinal) {
    if (!initialized) return NOT_INITIALIZED;
    *device = ordinal;
    return ordinal < 0 || ordinal >= gpus() ? INVALID_DEVICE : OK;
}

int cuDeviceGetName(char* name, int length, int) {
    snprintf(name, (size_t)length, "Stand-in GPU");
    return OK;
}

int cuDeviceGetUuid(unsigned char* uuid, int device) {
    memset(uuid, 0x5d, 15);
    uuid[15] = (unsigned char)standin_physical(device);
    return OK;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }

int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = memory_of_each();
    return OK;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
    switch (attribute) {
        case 16: *value = MULTIPROCESSORS; break;
        case 33: *value = 0x10 + standin_physical(device); break;                // PCI bus
        case 39: *value = THREADS_AT_ONCE; break;                                // of a multiprocessor
        case 75: *value = atoi(setting("STANDIN_CAPABILITY", "9").c_str()); break;  // compute capability
        case 102: *value = 1; break;                                             // virtual memory
        default: *value = 0;
    }
    return OK;
}

int cuDeviceGetP2PAttribute(int* value, int, int, int) {
    *value = 1;
    return OK;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    CAN_FAIL();
    *context = context_of(device);
    return device < gpus() ? OK : INVALID_DEVICE;
}

int cuDevicePrimaryCtxRelease_v2(int) { return OK; }

int cuCtxSetCurrent(void* context) {
    CAN_FAIL();
    current = (int)(uintptr_t)context - 1;
    return OK;
}

int cuCtxGetCurrent(void** context) {
    *context = current < 0 ? nullptr : context_of(current);
    return OK;
}

// The contexts of the thread below the current one.
static thread_local std::vector<int> pushed;

int cuCtxPushCurrent_v2(void* context) {
    CAN_FAIL();
    if (!context) return INVALID_CONTEXT;
    pushed.push_back(current);
    current = (int)(uintptr_t)context - 1;
    return OK;
}

int cuCtxPopCurrent_v2(void** context) {
    if (pushed.empty()) return INVALID_CONTEXT;
    *context = context_of(current);
    current = pushed.back();
    pushed.pop_back();
    return OK;
}

// ----------------------------------------------------------------------------------------------------------- memory

uint64_t standin_allocate(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (bytes + page - 1) / page * page;
    const std::lock_guard<std::mutex> held(memory.lock);
    if (memory.used[current] + mapped > memory_of_each()) return 0;
    char* start = (char*)mmap(nullptr, mapped + page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return 0;
    mprotect(start + mapped, page, PROT_NONE);
    memory.blocks[(uint64_t)start] = {bytes, mapped, current};
    memory.used[current] += mapped;
    return (uint64_t)start;
}

bool standin_free(uint64_t address) {
    const std::lock_guard<std::mutex> held(memory.lock);
    const auto found = memory.blocks.find(address);
    if (found == memory.blocks.end()) return false;
    const Block block = found->second;
    for (size_t at = block.bytes; at < block.mapped; at++)
        if (((char*)address)[at]) mistake("something was written behind the end of a buffer");
    munmap((void*)address, block.mapped + (size_t)sysconf(_SC_PAGESIZE));
    memory.used[block.device] -= block.mapped;
    memory.blocks.erase(found);
    return true;
}

bool standin_owns(int device, uint64_t address, size_t bytes) {
    const std::lock_guard<std::mutex> held(memory.lock);
    auto after = memory.blocks.upper_bound(address);
    if (after == memory.blocks.begin()) return false;
    const auto& [start, block] = *--after;
    return block.device == device && address + bytes <= start + block.bytes;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    if (const int code = usable()) return code;
    const std::lock_guard<std::mutex> held(memory.lock);
    *total = memory_of_each();
    *free = *total - memory.used[current];
    return OK;
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    CAN_FAIL();
    if (const int code = usable()) return code;
    *address = standin_allocate(bytes);
    return *address ? OK : OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t address) { return standin_free(address) ? OK : INVALID_VALUE; }

int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    CAN_FAIL();
    if (const int code = usable()) return code;
    if (!standin_owns(current, from, bytes)) return INVALID_VALUE;
    memcpy(to, (void*)from, bytes);
    return OK;
}

namespace {

// Host memory that copies may use while the processor goes on.
struct Pinned {
    std::mutex lock;
    std::map<uint64_t, size_t> ranges;

    bool has(const void* address, size_t bytes) {
        const std::lock_guard<std::mutex> held(lock);
        auto after = ranges.upper_bound((uint64_t)address);
        if (after == ranges.begin()) return false;
        const auto& [start, length] = *--after;
        return (uint64_t)address + bytes <= start + length;
    }
} pinned;

}  // namespace

int cuMemHostRegister_v2(void* address, size_t bytes, unsigned) {
    CAN_FAIL();
    if (const int code = usable()) return code;
    const std::lock_guard<std::mutex> held(pinned.lock);
    return pinned.ranges.emplace((uint64_t)address, bytes).second ? OK : INVALID_VALUE;
}

int cuMemHostUnregister(void* address) {
    const std::lock_guard<std::mutex> held(pinned.lock);
    return pinned.ranges.erase((uint64_t)address) ? OK : INVALID_VALUE;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream handle) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_stream(handle, &stream)) return code;
    if (!standin_owns(stream->device, from, bytes)) return INVALID_VALUE;
    if (!pinned.has(to, bytes)) mistake("memory that is not pinned is the target of a copy that nobody waits for");
    stream->enqueue([=] {
        memcpy(to, (void*)from, bytes);
        return OK;
    });
    return OK;
}

// A source that is not pinned can be paged out: as the driver does, this keeps a copy of it until the stream comes here.
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream handle) {
    standin_stream* stream;
    if (const int code = find_stream(handle, &stream)) return code;
    if (!standin_owns(stream->device, to, bytes)) return INVALID_VALUE;
    if (pinned.has(from, bytes)) {
        stream->enqueue([=] {
            memcpy((void*)to, from, bytes);
            return OK;
        });
        return OK;
    }
    const auto staged = std::make_shared<std::vector<char>>((const char*)from, (const char*)from + bytes);
    stream->enqueue([=] {
        memcpy((void*)to, staged->data(), bytes);
        return OK;
    });
    return OK;
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream handle) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_stream(handle, &stream)) return code;
    if (!standin_owns(stream->device, to, bytes) || !standin_owns(stream->device, from, bytes)) return INVALID_VALUE;
    stream->enqueue([=] {
        memcpy((void*)to, (void*)from, bytes);
        return OK;
    });
    return OK;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream handle) {
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    if (!standin_owns(current, to, bytes)) return INVALID_VALUE;
    stream->enqueue([=] {
        memset((void*)to, value, bytes);
        return OK;
    });
    return OK;
}

// ------------------------------------------------------------------------------------------ streams, events, graphs

int cuStreamCreate(Stream* stream, unsigned) {
    CAN_FAIL();
    if (const int code = usable()) return code;
    *stream = new standin_stream(current);
    const std::lock_guard<std::mutex> held(streams.lock);
    streams.made[*stream] = true;
    return OK;
}

// As on a GPU, a smaller number is a higher priority.
static constexpr int LEAST_PRIORITY = 0, MOST_PRIORITY = -5;

int cuCtxGetStreamPriorityRange(int* least, int* most) {
    if (const int code = usable()) return code;
    *least = LEAST_PRIORITY;
    *most = MOST_PRIORITY;
    return OK;
}

int cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
    CAN_FAIL();
    // Only the highest one is wanted.
    if (priority != MOST_PRIORITY) return INVALID_VALUE;
    return cuStreamCreate(stream, flags);
}

int cuStreamDestroy_v2(Stream stream) {
    const std::lock_guard<std::mutex> held(streams.lock);
    // The stream itself stays for its thread.
    if (!streams.made.count(stream)) return INVALID_HANDLE;
    streams.made[stream] = false;
    return OK;
}

int cuStreamQuery(Stream handle) {
    CAN_FAIL();
    standin_stream* stream = stream_of(handle);
    if (!stream) return INVALID_CONTEXT;
    const std::lock_guard<std::mutex> held(stream->lock);
    if (stream->capturing) return CAPTURE_UNSUPPORTED;
    return stream->error ? stream->error : stream->is_empty() ? OK : NOT_READY;
}

typedef std::chrono::steady_clock Clock;
struct Event {
    std::atomic<bool> passed{false};
    // How often it was recorded, and how many of these have passed.
    std::atomic<unsigned> recorded{0}, reached{0};
    Clock::time_point at;
    bool is_timed = true;
};

int cuEventCreate(Event** event, unsigned flags) {
    *event = new Event;
    (*event)->is_timed = !(flags & 2);  // CU_EVENT_DISABLE_TIMING
    return OK;
}

int cuEventQuery(Event* event) { return event->passed ? OK : NOT_READY; }

int cuEventRecord(Event* event, Stream handle) {
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    event->passed = false;
    event->recorded++;
    stream->enqueue([=] {
        event->at = Clock::now();
        event->reached++;
        event->passed = true;
        return OK;
    });
    return OK;
}

int cuStreamWaitEvent(Stream handle, Event* event, unsigned) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    // What is recorded later does not count.
    const unsigned recorded = event->recorded;
    stream->enqueue([=] {
        wait_until([=] { return event->reached >= recorded; });
        return OK;
    });
    return OK;
}

int cuEventSynchronize(Event* event) {
    // cudarc waits for events before it reads them; this program waits for the stream first.
    return event->passed ? OK : NOT_READY;
}

int cuEventElapsedTime(float* ms, Event* from, Event* to) {
    if (!from->passed || !to->passed) return NOT_READY;
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return OK;
}

int cuEventDestroy_v2(Event* event) {
    // CUDA allows it; who destroys an event to be read has not waited for it. One that is still in a stream stays.
    if (!event->passed && event->is_timed) mistake("an event is destroyed before it has passed");
    if (event->passed) delete event;
    return OK;
}

int cuStreamBeginCapture_v2(Stream handle, int) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    // The null stream cannot be captured.
    if (!handle) return CAPTURE_UNSUPPORTED;
    const std::lock_guard<std::mutex> held(stream->lock);
    if (stream->capturing) return ILLEGAL_STATE;
    stream->capturing = true;
    stream->captured.clear();
    return OK;
}

typedef std::shared_ptr<const Tasks> Graph;

int cuStreamEndCapture(Stream handle, Graph** graph) {
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    const std::lock_guard<std::mutex> held(stream->lock);
    if (!stream->capturing) return ILLEGAL_STATE;
    stream->capturing = false;
    *graph = new Graph(std::make_shared<const Tasks>(std::move(stream->captured)));
    return OK;
}

int cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
    CAN_FAIL();
    *executable = new Graph(*graph);
    return OK;
}

int cuGraphLaunch(Graph* executable, Stream handle) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    for (const Task& work : **executable) stream->enqueue(work);
    return OK;
}

int cuGraphExecDestroy(Graph* executable) {
    delete executable;
    return OK;
}

int cuGraphDestroy(Graph* graph) {
    delete graph;
    return OK;
}

// ---------------------------------------------------------------------------------------------------------- kernels

// A module is a copy of the text it was made from, and so is its function. Which kind of data the parameters say.
int cuModuleLoadDataEx(char** module, const char* text, unsigned, int*, void**) {
    CAN_FAIL();
    if (const int code = usable()) return code;
    if (!strstr(text, ".entry data(") && !strstr(text, ".entry compute(")) return INVALID_IMAGE;
    *module = strdup(text);
    return OK;
}

int cuModuleGetFunction(char** function, char* module, const char* name) {
    *function = module;
    return strstr(module, (".entry " + std::string(name) + "(").c_str()) ? OK : NOT_FOUND;
}

int cuModuleUnload(char* module) {
    free(module);
    return OK;
}

static int run_kernel(const kernels::Work& work) {
    // Two threads, so that the places where the work of one ends and another's begins are there.
    gridDim.x = 1;
    blockDim.x = 2;
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernels::RUN[work.recipe.kind](work);
    return OK;
}

// Of all blocks that run at once, one.
static int run_computation(const kernels::Computation& work, unsigned waves) {
    threadIdx.x = 0;
    for (unsigned wave = 0; wave < waves; wave++) kernels::compute(work);
    return OK;
}

int cuLaunchKernel(char* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                   Stream handle, void** parameters, void**) {
    CAN_FAIL();
    standin_stream* stream;
    if (const int code = find_own_stream(handle, &stream)) return code;
    if (strstr(function, ".entry compute(")) {
        const auto work = *(const kernels::Computation*)parameters[0];
        const unsigned at_once = MULTIPROCESSORS * (THREADS_AT_ONCE / threads);
        const unsigned waves = (blocks + at_once - 1) / at_once;
        stream->enqueue([=] { return run_computation(work, waves); });
        return OK;
    }
    const auto work = *(const kernels::Work*)parameters[0];
    const int device = current;
    stream->enqueue([=] {
        const bool there = standin_owns(device, work.address, work.len * kernels::BYTES[work.recipe.kind]) &&
                           (!work.counter || standin_owns(device, work.counter, sizeof(uint64_t)));
        return there ? run_kernel(work) : ILLEGAL_ADDRESS;
    });
    return OK;
}

}  // extern "C"
