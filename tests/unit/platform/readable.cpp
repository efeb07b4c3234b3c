// Asking whether memory can be read or written, without doing so.
#include "platform/readable.hpp"
#include "support/unit.hpp"

#include <atomic>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace gpurun;

namespace {

class Page {
  public:
    explicit Page(int access, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
        : data_(static_cast<char*>(mmap(nullptr, kBytes, access, flags, fd, 0))) {
        REQUIRE(data_ != MAP_FAILED);
    }
    ~Page() { munmap(data_, kBytes); }
    char* data() const { return data_; }

  private:
    static constexpr size_t kBytes = 4096;
    char* data_;
};

} // namespace

TEST_SUITE_BEGIN("readable");

TEST_CASE("memory is readable and writable as it is mapped, at every address of it") {
    const Page both(PROT_READ | PROT_WRITE);
    const Page one(PROT_READ);
    const Page none(PROT_NONE);
    for (const size_t offset : {0, 1, 2, 3, 4093, 4095}) {
        CAPTURE(offset);
        CHECK(platform::readable(both.data() + offset));
        CHECK(platform::writable(both.data() + offset));
        CHECK(platform::readable(one.data() + offset));
        CHECK_FALSE(platform::writable(one.data() + offset));
        CHECK_FALSE(platform::readable(none.data() + offset));
        CHECK_FALSE(platform::writable(none.data() + offset));
    }
    CHECK_FALSE(platform::writable(nullptr));
}

TEST_CASE("a file that is mapped read-only is not writable, and one that is mapped privately is") {
    const int file = memfd_create("readable", 0);
    REQUIRE(ftruncate(file, 4096) == 0);
    CHECK_FALSE(platform::writable(Page(PROT_READ, MAP_SHARED, file).data()));
    CHECK_FALSE(platform::writable(Page(PROT_READ, MAP_PRIVATE, file).data()));
    CHECK(platform::writable(Page(PROT_READ | PROT_WRITE, MAP_PRIVATE, file).data()));
    close(file);
}

TEST_CASE("what another thread writes meanwhile stays") {
    constexpr uint32_t kTimes = 300'000;
    alignas(4) std::atomic<uint32_t> word{0};
    std::atomic<bool> over{false};
    std::thread writer([&] {
        for (uint32_t i = 0; i < kTimes; ++i)
            word.fetch_add(1, std::memory_order_relaxed);
        over = true;
    });
    bool always = true;
    while (!over)
        always = platform::writable(&word) && always;
    writer.join();
    CHECK(always);
    CHECK(word == kTimes);
}

TEST_SUITE_END();
