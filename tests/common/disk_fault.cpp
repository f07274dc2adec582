// A file system that fails or is slow, for tests: to be preloaded.
//
// DISK_FAULT        what goes wrong: an error such as EIO, or the seconds that a call takes
// DISK_FAULT_CALLS  in which calls: some of open (for writing), write and sync, with commas between
// DISK_FAULT_PATH   a part of the absolute paths of the files that it concerns
// DISK_FAULT_SKIP   how many of these calls are well before the first fault; 0 unless set
// DISK_FAULT_TIMES  how many have it; all unless set
// DISK_FAULT_WHILE  a file that exists while there is the fault; always unless set

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <string>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

namespace {

template <typename Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name, const char* otherwise = "") {
    const char* value = getenv(name);
    return value ? value : otherwise;
}

bool concerns(const char* call, const std::string& path) {
    static const std::string calls = "," + variable("DISK_FAULT_CALLS") + ",", part = variable("DISK_FAULT_PATH"),
                             while_there = variable("DISK_FAULT_WHILE");
    if (part.empty() || calls.find(std::string(",") + call + ",") == std::string::npos) return false;
    if (path.find(part) == std::string::npos) return false;
    return while_there.empty() || access(while_there.c_str(), F_OK) == 0;
}

// Waits, or returns the error that the call has instead of its effect; 0 if it has none.
int fault(const char* call, const std::string& path) {
    static const std::map<std::string, int> errors = {{"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EIO", EIO},
                                                      {"ENOSPC", ENOSPC}, {"EROFS", EROFS},   {"ESTALE", ESTALE}};
    static const std::string what = variable("DISK_FAULT");
    static const long skip = atol(variable("DISK_FAULT_SKIP", "0").c_str());
    static const long times = atol(variable("DISK_FAULT_TIMES", "1000000000").c_str());
    static std::atomic<long> calls(0);
    if (!concerns(call, path)) return 0;
    const long number = calls++;
    if (number < skip || number >= skip + times) return 0;
    const auto error = errors.find(what);
    if (error != errors.end()) return error->second;
    const double seconds = atof(what.c_str());
    timespec left = {static_cast<time_t>(seconds), static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    return 0;
}

std::string absolute(const char* path) {
    char folder[4096];
    if (path[0] == '/' || !getcwd(folder, sizeof folder)) return path;
    return std::string(folder) + "/" + path;
}

std::string path_of(int file) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    const ssize_t length = readlink(link.c_str(), path, sizeof path);
    return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

template <typename Result, typename Call>
Result unless_faulty(const char* name, const std::string& path, Call call) {
    const int error = fault(name, path);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return call();
}

} // namespace

extern "C" {

int open64(const char* path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    static const auto real = next<int(const char*, int, ...)>("open64");
    if ((flags & O_ACCMODE) == O_RDONLY) return real(path, flags, mode);
    return unless_faulty<int>("open", absolute(path), [=] { return real(path, flags, mode); });
}

ssize_t write(int file, const void* bytes, size_t count) {
    static const auto real = next<ssize_t(int, const void*, size_t)>("write");
    return unless_faulty<ssize_t>("write", path_of(file), [=] { return real(file, bytes, count); });
}

ssize_t writev(int file, const iovec* parts, int count) {
    static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
    return unless_faulty<ssize_t>("write", path_of(file), [=] { return real(file, parts, count); });
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t at) {
    static const auto real = next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
    return unless_faulty<ssize_t>("write", path_of(file), [=] { return real(file, bytes, count, at); });
}

int fsync(int file) {
    static const auto real = next<int(int)>("fsync");
    return unless_faulty<int>("sync", path_of(file), [=] { return real(file); });
}

int fdatasync(int file) {
    static const auto real = next<int(int)>("fdatasync");
    return unless_faulty<int>("sync", path_of(file), [=] { return real(file); });
}

} // extern "C"
