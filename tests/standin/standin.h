// What both stand-ins share. They are for tests of the program on machines without a GPU: libcuda and libnccl with as
// much in them as the program calls, so that all of its own code for GPUs runs, kernels included, up to the calls
// that only the real libraries can answer. What they refuse, the real ones refuse too; speed and NCCL's inside are not
// theirs.
//
// STANDIN_GPUS     how many GPUs there are (2)
// STANDIN_MEMORY   bytes of memory of each (4 GiB)
// STANDIN_CUDA     the newest CUDA that the driver supports (13000)
// STANDIN_CAPABILITY  the first number of the compute capability (9)
// STANDIN_NETWORK  a network between nodes (NCCL_HOSTID) whose connections are logged as NCCL 2.28 does; each GPU has a NIC (none)
// STANDIN_RAILS    a folder with counters of rails, which are played back as those of a net plugin; none is loaded (none)
// STANDIN_FOLDER   where the ranks meet (/tmp)
// STANDIN_FAULT    what goes wrong, words with commas between:
//                    FUNCTION:CALL:CODE      the CALLth call of that function in a process (from 1; 0 is each) returns CODE
//                    FUNCTION:CALL:CODE:RANK the same, in the process with that rank of MPI alone
//                    FUNCTION@main:…         the same, where only calls of the process's first thread count
//                  and as FUNCTION also what is no function, but happens in a stream:
//                    hang    an operation of NCCL does not end
//                    slow    an operation of NCCL takes CODE milliseconds longer
//                    flip    an operation of NCCL has one wrong bit in its last received byte
//                    before, after  an operation of NCCL changes the byte beside what it receives
//                    send    an operation of NCCL changes the last byte of what it sends
//                    broken  an operation of NCCL ends in a GPU error, CODE, of its stream
//                    async   NCCL reports CODE for a communicator from an operation on, which does not end

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

typedef struct standin_stream* Stream;

// What libcuda's stand-in has beside what libcuda has, for NCCL's.
extern "C" {
// Puts work into a stream, or into its graph while it is captured. The work gives a CUDA error, 0 if all went well.
int standin_enqueue(Stream stream, int device, std::function<int()> work);
// Has all that is in the streams of the device ended?
bool standin_is_idle(int device);
// The device of the thread's context; -1 where there is none.
int standin_current();
void standin_choose(int device);
// Its number on the machine, of which this process may see a part.
int standin_physical(int device);
// Is that memory of the device?
bool standin_owns(int device, uint64_t address, size_t bytes);
uint64_t standin_allocate(size_t bytes);
bool standin_free(uint64_t address);
}

// A mistake of the program that the real libraries would not show, or show as a crash: the test fails.
[[noreturn]] static inline void mistake(const char* what) {
    fprintf(stderr, "stand-in: %s\n", what);
    abort();
}

static inline std::string setting(const char* name, const char* otherwise) {
    const char* value = getenv(name);
    return value ? value : otherwise;
}

// Waits for other threads and processes, which often have no processor of their own: it asks rarely what takes long.
template <class Ready> static void wait_until(Ready ready) {
    for (unsigned pause_us = 20; !ready(); pause_us = std::min(pause_us + pause_us / 8, 500u)) usleep(pause_us);
}

// The code to fail with at this call of `what`, or 0.
static inline int fault(const char* what) {
    struct Plan { std::string what; long call; int code; long rank; };
    static std::mutex lock;
    static std::map<std::string, long> calls;
    static const std::vector<Plan> plans = [] {
        std::vector<Plan> plans;
        std::istringstream words(setting("STANDIN_FAULT", ""));
        for (std::string word; std::getline(words, word, ',');) {
            std::vector<std::string> parts;
            std::istringstream in(word);
            for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
            if (parts.size() < 3) mistake("STANDIN_FAULT is not FUNCTION:CALL:CODE");
            plans.push_back({parts[0], atol(parts[1].c_str()), atoi(parts[2].c_str()),
                             parts.size() > 3 ? atol(parts[3].c_str()) : -1});
        }
        return plans;
    }();
    if (plans.empty()) return 0;
    const std::lock_guard<std::mutex> held(lock);
    const long rank = atol(setting("OMPI_COMM_WORLD_RANK", "0").c_str());
    const bool is_main = getpid() == gettid();
    const std::string of_main = std::string(what) + "@main";
    const long call = ++calls[what], call_of_main = is_main ? ++calls[of_main] : -1;
    for (const Plan& plan : plans) {
        const bool is_here = plan.rank < 0 || plan.rank == rank;
        const bool is_now = plan.what == what && (plan.call == 0 || plan.call == call);
        const bool is_now_on_main = is_main && plan.what == of_main && (plan.call == 0 || plan.call == call_of_main);
        if (is_here && (is_now || is_now_on_main)) return plan.code;
    }
    return 0;
}

#define CAN_FAIL() do { if (const int code = fault(__func__)) return code; } while (0)
