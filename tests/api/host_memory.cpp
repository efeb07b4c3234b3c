// Host memory that is not there, or not all of it, is refused in place of a crash, also where a message has used it
// before: as far as gpurun(7) promises.
#include "support/job.hpp"

#include <memory>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace gpurun::test;

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSmall = 3 * kPage + 100;
constexpr size_t kLarge = 64 * kPage + 100; // is looked at in each call
constexpr int kTag = 4;

// What the program maps, and may unmap in part. Each at an address of its own, where no call has found usable memory
// before, and far below those that the system chooses by itself: no thread's memory comes into a hole.
class Mapping {
  public:
    explicit Mapping(size_t bytes)
        : bytes_((bytes + kPage - 1) / kPage * kPage), data_(static_cast<uint8_t*>(new_address(bytes_))) {
        REQUIRE(mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
                data_);
    }
    ~Mapping() { munmap(data_, bytes_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    uint8_t* get() const { return data_; }
    void unmap(size_t first_page, size_t pages) const {
        REQUIRE(munmap(data_ + first_page * kPage, pages * kPage) == 0);
    }
    void protect(size_t first_page, int access) const {
        REQUIRE(mprotect(data_ + first_page * kPage, kPage, access) == 0);
    }

  private:
    static void* new_address(size_t bytes) {
        static uintptr_t next = uintptr_t{0x3000} << 32;
        const uintptr_t address = next;
        next += bytes + kPage;
        return reinterpret_cast<void*>(address);
    }
    size_t bytes_;
    uint8_t* data_;
};

// Memory that was given back, so that no other comes to its address.
class Kept {
  public:
    Kept(void* address, size_t bytes)
        : bytes_((bytes + kPage - 1) / kPage * kPage),
          at_(mmap(address, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {}
    ~Kept() {
        if (is_there())
            munmap(at_, bytes_);
    }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    bool is_there() const { return at_ != MAP_FAILED; }

  private:
    size_t bytes_;
    void* at_;
};

void check_refused(gpurun_status status) {
    CHECK(status == GPURUN_ERR_BUFFER);
    CHECK(std::string(gpurun_error_detail()).size() > 10);
}

// A rank's message to itself, which uses both buffers.
void use(void* from, void* into, size_t bytes, gpurun_stream stream) {
    REQUIRE_OK(gpurun_sendrecv(from, bytes, GPURUN_BYTE, rank(), kTag, into, bytes, GPURUN_BYTE, rank(), kTag, kWorld,
                               stream, nullptr));
    synchronize(stream);
}

// The other side of a copy. Made before anything is unmapped: it must not come to that address.
uint8_t g_other[kLarge];

void check_unreadable(const void* buffer, size_t bytes, gpurun_stream stream) {
    CAPTURE(bytes);
    gpurun_request request = GPURUN_REQUEST_NULL;
    check_refused(gpurun_send(buffer, bytes, GPURUN_BYTE, rank(), kTag, kWorld, stream));
    check_refused(gpurun_isend(buffer, bytes, GPURUN_BYTE, rank(), kTag, kWorld, stream, &request));
    check_refused(gpurun_memcpy(g_other, buffer, bytes, stream));
    CHECK(request.id == GPURUN_REQUEST_NULL.id);
}

void check_unwritable(void* buffer, size_t bytes, gpurun_stream stream) {
    CAPTURE(bytes);
    gpurun_request request = GPURUN_REQUEST_NULL;
    check_refused(gpurun_recv(buffer, bytes, GPURUN_BYTE, rank(), kTag, kWorld, stream, nullptr));
    check_refused(gpurun_irecv(buffer, bytes, GPURUN_BYTE, rank(), kTag, kWorld, stream, &request));
    check_refused(gpurun_memcpy(buffer, g_other, bytes, stream));
    check_refused(gpurun_memset(buffer, 0, bytes, stream));
    CHECK(request.id == GPURUN_REQUEST_NULL.id);
}

template <typename Check>
void in_both_domains(const Check& check) {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        CAPTURE((domain == GPURUN_HOST));
        check(domain);
    }
}

} // namespace

TEST_SUITE_BEGIN("host memory");

TEST_CASE("pinned memory that gpurun_free has freed is refused, though messages have used it") {
    int checked = 0;
    in_both_domains([&](gpurun_stream domain) {
        for (const size_t bytes : {size_t{8}, kSmall, kLarge}) {
            void* pinned = nullptr;
            Bytes other(bytes);
            REQUIRE_OK(gpurun_malloc_host(&pinned, bytes));
            for (int round = 0; round < 3; ++round) {
                use(pinned, other.data(), bytes, domain);
                use(other.data(), pinned, bytes, domain);
            }
            REQUIRE_OK(gpurun_free(pinned));
            const Kept kept(pinned, bytes);
            if (!kept.is_there()) // a thread that starts has got the address meanwhile
                continue;
            check_unreadable(pinned, bytes, domain);
            check_unwritable(pinned, bytes, domain);
            ++checked;
        }
    });
    CHECK(checked > 0);
}

TEST_CASE("a persistent request whose pinned memory was freed does not start") {
    void* pinned = nullptr;
    Bytes got(kSmall);
    REQUIRE_OK(gpurun_malloc_host(&pinned, kSmall));
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_send_init(pinned, kSmall, GPURUN_BYTE, rank(), kTag, kWorld, GPURUN_HOST, &request));
    for (int round = 0; round < 3; ++round) {
        REQUIRE_OK(gpurun_start(&request));
        REQUIRE_OK(gpurun_recv(got.data(), kSmall, GPURUN_BYTE, rank(), kTag, kWorld, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    }
    REQUIRE_OK(gpurun_free(pinned));
    check_refused(gpurun_start(&request));
    REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("a buffer that reaches past an allocation of gpurun_malloc_host, or into one, is refused") {
    constexpr size_t kBytes = 100;
    Memory pinned(Kind::kPinned, kBytes);
    in_both_domains([&](gpurun_stream domain) {
        for (const size_t bytes : {kBytes + 1, kPage, 2 * kPage, kLarge}) {
            check_unreadable(pinned.get(), bytes, domain);
            check_unwritable(pinned.get(), bytes, domain);
        }
        check_unwritable(pinned.at(kBytes - 1), 2, domain);
        check_unwritable(pinned.at(kBytes), 1, domain);
        check_unwritable(pinned.get() - kPage, 2 * kPage, domain);
    });
    Bytes other(kBytes);
    use(pinned.get(), other.data(), kBytes, GPURUN_HOST); // all of it may be used
    use(other.data(), pinned.at(1), kBytes - 1, GPURUN_HOST);
}

TEST_CASE("what is received into an allocation leaves its neighbours as they are") {
    constexpr size_t kBytes = 100, kTooMany = 2 * kPage;
    std::vector<std::unique_ptr<Memory>> pinned;
    for (int i = 0; i < 16; ++i) {
        pinned.push_back(std::make_unique<Memory>(Kind::kPinned, kBytes));
        pinned.back()->write(Bytes(kBytes, 0x5a));
    }
    Bytes message(kTooMany, 0xff);
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_isend(message.data(), kTooMany, GPURUN_BYTE, rank(), kTag, kWorld, GPURUN_HOST, &request));
    for (const auto& each : pinned)
        check_refused(gpurun_recv(each->get(), kTooMany, GPURUN_BYTE, rank(), kTag, kWorld, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_recv(message.data(), 0, GPURUN_BYTE, GPURUN_PROC_NULL, kTag, kWorld, GPURUN_HOST, nullptr));
    Bytes got(kTooMany);
    REQUIRE_OK(gpurun_recv(got.data(), kTooMany, GPURUN_BYTE, rank(), kTag, kWorld, GPURUN_HOST, nullptr));
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    CHECK(got == message);
    for (const auto& each : pinned)
        CHECK(each->read() == Bytes(kBytes, 0x5a));
}

TEST_CASE("a hole in the middle of a buffer is refused") {
    in_both_domains([](gpurun_stream domain) {
        for (const size_t bytes : {kSmall, 12 * kPage, kLarge}) {
            const Mapping mapping(bytes);
            mapping.unmap(1, 1);
            check_unreadable(mapping.get(), bytes, domain);
            check_unwritable(mapping.get(), bytes, domain);
        }
    });
}

TEST_CASE("a page in the middle of a small buffer that may not be read, or not written, is refused") {
    in_both_domains([](gpurun_stream domain) {
        for (const size_t bytes : {kSmall, 12 * kPage}) {
            const Mapping nothing(bytes), reading(bytes);
            nothing.protect(1, PROT_NONE);
            check_unreadable(nothing.get(), bytes, domain);
            check_unwritable(nothing.get(), bytes, domain);
            Bytes got(bytes);
            reading.protect(1, PROT_READ);
            check_unwritable(reading.get(), bytes, domain);
            CHECK(std::string(gpurun_error_detail()).find("read-only") != std::string::npos);
            use(reading.get(), got.data(), bytes, domain); // it may be sent
        }
    });
}

TEST_CASE("a large buffer is refused once it is unmapped, all of it or a part, though messages have used it") {
    in_both_domains([](gpurun_stream domain) {
        for (const size_t pages : {size_t{1}, size_t{30}}) {
            const Mapping mapping(kLarge);
            Bytes other(kLarge);
            for (int round = 0; round < 3; ++round) {
                use(mapping.get(), other.data(), kLarge, domain);
                use(other.data(), mapping.get(), kLarge, domain);
            }
            mapping.unmap(5, pages);
            check_unreadable(mapping.get(), kLarge, domain);
            check_unwritable(mapping.get(), kLarge, domain);
        }
        const Mapping all(kLarge);
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(gpurun_send_init(all.get(), kLarge, GPURUN_BYTE, GPURUN_PROC_NULL, kTag, kWorld, domain, &request));
        all.unmap(0, kLarge / kPage + 1);
        check_refused(gpurun_start(&request));
        REQUIRE_OK(gpurun_request_free(&request));
    });
}

TEST_CASE("memory that comes to the address of freed pinned memory is used as what it is") {
    void* pinned = nullptr;
    REQUIRE_OK(gpurun_malloc_host(&pinned, kSmall));
    Bytes other(kSmall, 3);
    use(other.data(), pinned, kSmall, GPURUN_HOST);
    REQUIRE_OK(gpurun_free(pinned));
    void* const again =
        mmap(pinned, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (again == MAP_FAILED)
        return; // something else is there, which the device keeps
    use(other.data(), again, kSmall, GPURUN_HOST);
    CHECK(Bytes(static_cast<uint8_t*>(again), static_cast<uint8_t*>(again) + kSmall) == other);
    munmap(again, 4 * kPage);
}

TEST_SUITE_END();
