// A wall clock that is set while a program runs, for tests: to be preloaded.
//
// WALL_CLOCK_ONCE  the file that exists once the clock is set
// WALL_CLOCK_BY    by how many seconds

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static time_t shift() {
    const int error = errno;
    const char* once = getenv("WALL_CLOCK_ONCE");
    const char* by = getenv("WALL_CLOCK_BY");
    const bool is_set = once && by && access(once, F_OK) == 0;
    errno = error;
    return is_set ? atol(by) : 0;
}

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
    const long answer = syscall(SYS_clock_gettime, clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME) now->tv_sec += shift();
    return static_cast<int>(answer);
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
    timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

extern "C" time_t time(time_t* seconds) noexcept {
    timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (seconds) *seconds = exact.tv_sec;
    return exact.tv_sec;
}
