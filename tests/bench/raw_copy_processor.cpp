#include "raw_copy.hpp"

#include "call.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace gpurun::bench {

namespace {

constexpr size_t kFewestBytes = size_t{64} << 10;

void must(bool well, const char* what) {
    if (well)
        return;
    std::fprintf(stderr, "gpurun-perf: --against=copy: %s: %s\n", what, std::strerror(errno));
    gpurun_abort(1);
}

// Memory that both ranks of a pair see. A memfd, and no file in /dev/shm, which may be small; the partner finds it
// through /proc.
class SharedArena {
  public:
    SharedArena(const Pair& pair, size_t bytes) : bytes_(bytes) {
        const int mine = memfd_create("gpurun-perf", MFD_CLOEXEC);
        must(mine >= 0, "making shared memory");
        must(ftruncate(mine, static_cast<off_t>(bytes)) == 0, "sizing shared memory; use smaller --sizes");
        own_ = map(mine);
        std::memset(own_, pair.rank() + 1, bytes); // no page is touched for the first time inside of what is timed
        struct Place {
            int pid;
            int fd;
        } here{getpid(), mine}, there{};
        pair.exchange(&here, &there, sizeof(here));
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/fd/%d", there.pid, there.fd);
        const int theirs = open(path, O_RDWR | O_CLOEXEC);
        must(theirs >= 0, "opening the partner's memory");
        theirs_ = map(theirs);
        close(theirs);
        pair.meet(); // each has opened the other's
        close(mine);
    }
    ~SharedArena() {
        munmap(own_, bytes_);
        munmap(theirs_, bytes_);
    }
    SharedArena(const SharedArena&) = delete;
    SharedArena& operator=(const SharedArena&) = delete;

    const unsigned char* theirs() const { return static_cast<const unsigned char*>(theirs_); }

  private:
    void* map(int fd) const {
        void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(mapped != MAP_FAILED, "mapping shared memory; use smaller --sizes");
        return mapped;
    }

    size_t bytes_;
    void* own_ = nullptr;
    void* theirs_ = nullptr;
};

class ProcessorCopy final : public RawCopy {
  public:
    ProcessorCopy(const Pair& pair, size_t bytes, bool for_device)
        : source_(pair, bytes), destination_(bytes, 0xee), for_device_(for_device) {}

    std::string how() const override { return "memcpy by one processor, out of shared memory"; }

    double copy_us(const Copies& copies) override {
        // Often enough that it is the copies that are timed, and not the clock.
        const size_t often = std::max<size_t>(1, kFewestBytes / (copies.bytes * static_cast<size_t>(copies.count)));
        const double start = gpurun_wtime();
        for (size_t turn = 0; turn < often; ++turn)
            for (int i = 0; i < copies.count; ++i)
                copy(static_cast<size_t>(i % copies.slots) * copies.bytes, copies.bytes);
        return (gpurun_wtime() - start) * 1e6 / static_cast<double>(often);
    }

    bool by_device() const override { return for_device_; }
    void copy_and_wait(size_t bytes) override { copy(0, bytes); }

  private:
    void copy(size_t offset, size_t bytes) {
        std::memcpy(&destination_[offset], source_.theirs() + offset, bytes);
        asm volatile("" : : "r"(destination_.data()) : "memory"); // it is not optimized away
    }

    SharedArena source_;
    std::vector<unsigned char> destination_;
    bool for_device_;
};

} // namespace

std::unique_ptr<RawCopy> make_processor_copy(const Ground& ground, bool for_device) {
    return std::make_unique<ProcessorCopy>(ground.pair, ground.arena_bytes, for_device);
}

} // namespace gpurun::bench
