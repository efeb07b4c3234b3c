#include "platform/shared_memory.hpp"

#include "platform/system_error.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace gpurun::platform {

namespace {

// Who may not make files as large (RLIMIT_FSIZE) would be ended by the system, did it not have SIGXFSZ blocked.
int set_size(int fd, size_t size) {
    sigset_t too_large;
    sigset_t before;
    ::sigemptyset(&too_large);
    ::sigaddset(&too_large, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &too_large, &before);
    const int failed = ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
    if (const timespec now{}; failed == EFBIG && ::sigismember(&before, SIGXFSZ) == 0)
        ::sigtimedwait(&too_large, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return failed;
}

} // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

Mapping::~Mapping() { unmap(); }

void Mapping::unmap() {
    if (data_ != nullptr)
        ::munmap(data_, size_);
}

base::Result<Mapping> Mapping::map(int fd, size_t offset, size_t size) {
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (data == MAP_FAILED)
        return system_error("mapping shared memory");
    return Mapping(static_cast<std::byte*>(data), size);
}

base::Result<Mapping> Mapping::map_own(size_t size) {
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return system_error("mapping memory");
    return Mapping(static_cast<std::byte*>(data), size);
}

base::Result<UniqueFd> create_segment(const char* name, size_t size) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd)
        return system_error("creating shared memory");
    if (const int failed = set_size(fd.get(), size); failed != 0)
        return system_error(
            failed == EFBIG ? "sizing shared memory (ulimit -f unlimited allows it)" : "sizing shared memory", failed);
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        return system_error("sealing shared memory");
    return fd;
}

base::Result<size_t> segment_size(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0)
        return system_error("reading the size of shared memory");
    return static_cast<size_t>(status.st_size);
}

base::Result<void> punch_hole(int fd, size_t offset, size_t size) {
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(size)) != 0)
        return system_error("releasing shared memory");
    return {};
}

void write_zeros(std::byte* begin, size_t bytes) {
    constexpr size_t kLeast = size_t{1} << 20; // else to touch them again costs more
    const size_t page = page_size();
    const size_t before = (page - reinterpret_cast<uintptr_t>(begin) % page) % page;
    const size_t whole = bytes > before ? (bytes - before) / page * page : 0;
    if (whole < kLeast || ::madvise(begin + before, whole, MADV_REMOVE) != 0) {
        std::memset(begin, 0, bytes);
        return;
    }
    std::memset(begin, 0, before);
    std::memset(begin + before + whole, 0, bytes - before - whole);
}

size_t page_size() {
    static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

size_t available_memory() {
    std::ifstream lines("/proc/meminfo");
    for (std::string line; std::getline(lines, line);)
        if (unsigned long long kilobytes = 0; std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kilobytes) == 1)
            return static_cast<size_t>(kilobytes) * 1024;
    return 0;
}

} // namespace gpurun::platform
