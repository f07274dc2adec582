// An MPI whose all_reduce takes its time to start, for tests: to be preloaded.
//
// SLOW_COLLECTIVE_US  by how many microseconds each nonblocking all_reduce starts late

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

// Handles of MPI are numbers or addresses, and are passed on as they come.
extern "C" int MPI_Iallreduce(const void* send, void* receive, int count, void* type, void* operation, void* communicator,
                              void* request) {
    using Function = int(const void*, void*, int, void*, void*, void*, void*);
    static Function* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "MPI_Iallreduce"));
    const char* late = getenv("SLOW_COLLECTIVE_US");
    usleep(late ? static_cast<useconds_t>(atoi(late)) : 0);
    return next(send, receive, count, type, operation, communicator, request);
}
