// Asking whether memory can be read or written, without doing so.
#include "platform/readable.hpp"
#include "support/unit.hpp"

#include <array>
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

TEST_CASE("a range is readable, writable and mapped if all of its pages are") {
    constexpr size_t kPage = 4096, kPages = 200;
    const auto map = [](int access) {
        return static_cast<char*>(mmap(nullptr, kPages * kPage, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    char* const whole = map(PROT_READ | PROT_WRITE);
    REQUIRE(whole != MAP_FAILED);
    const auto all = [&](size_t first, size_t bytes) {
        return std::array{platform::readable(whole + first, bytes), platform::writable(whole + first, bytes),
                          platform::mapped(whole + first, bytes)};
    };
    CHECK(all(0, kPages * kPage) == std::array{true, true, true});
    CHECK(all(5, 1) == std::array{true, true, true});
    for (const size_t changed : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{128}, kPages - 1}) {
        CAPTURE(changed);
        const size_t at = changed * kPage;
        REQUIRE(mprotect(whole + at, kPage, PROT_READ) == 0);
        CHECK(all(0, kPages * kPage) == std::array{true, false, true});
        REQUIRE(mprotect(whole + at, kPage, PROT_NONE) == 0);
        CHECK(all(0, kPages * kPage) == std::array{false, false, true});
        CHECK(all(at + kPage - 1, 1) == std::array{false, false, true});
        if (changed + 1 < kPages)
            CHECK(all(at + kPage, (kPages - changed - 1) * kPage) == std::array{true, true, true}); // begins behind it
        if (changed > 0)
            CHECK(all(0, at) == std::array{true, true, true}); // ends before it
        REQUIRE(munmap(whole + at, kPage) == 0);
        CHECK(all(0, kPages * kPage) == std::array{false, false, false});
        CHECK(all(at + kPage - 1, 1) == std::array{false, false, false});
        REQUIRE(mmap(whole + at, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                whole + at);
    }
    CHECK(all(0, SIZE_MAX) == std::array{false, false, false});
    CHECK(all(0, SIZE_MAX - kPage) == std::array{false, false, false});
    munmap(whole, kPages * kPage);
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
