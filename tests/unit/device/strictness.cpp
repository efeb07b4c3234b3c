// What the device contract leaves undefined, and GPUs may tolerate, is refused by emulated devices.
#include "emulated.hpp"

#include "device/capability/clock.hpp"
#include "device/capability/counters.hpp"
#include "device/capability/fenced_copies.hpp"
#include "device/capability/mails.hpp"
#include "device/capability/ordered_memory.hpp"
#include "device/capability/other_devices.hpp"

#include <cstddef>
#include <new>
#include <vector>

using namespace gpurun;
using base::Status;
using test::must;
using test::open_emulated;

TEST_CASE("a stream copy from or to pageable memory is refused") {
    const auto device = open_emulated();
    void* memory = must(device->allocate(4096));
    std::vector<std::byte> pageable(4096);
    CHECK_STATUS(device->copy(memory, pageable.data(), 4096, {}), Status::kBuffer);
    CHECK_STATUS(device->copy(pageable.data(), memory, 4096, {}), Status::kBuffer);
    CHECK_STATUS(device->fill(pageable.data(), 0, 4096, {}), Status::kBuffer);
}

TEST_CASE("a stream copy from host to host is refused") {
    const auto device = open_emulated();
    auto* pinned = static_cast<std::byte*>(must(device->allocate_pinned(4096)));
    CHECK_STATUS(device->copy(pinned, pinned + 2048, 2048, {}), Status::kBuffer);
}

TEST_CASE("a stream copy past the end of memory, or of memory that was freed, is refused") {
    const auto device = open_emulated();
    void* memory = must(device->allocate(4096));
    void* pinned = must(device->allocate_pinned(8192));
    CHECK_STATUS(device->copy(memory, pinned, 4097, {}), Status::kBuffer);
    CHECK_STATUS(device->fill(memory, 0, 4097, {}), Status::kBuffer);
    REQUIRE_OK(device->free(memory));
    CHECK_STATUS(device->copy(memory, pinned, 1, {}), Status::kBuffer);
    void* more = must(device->allocate(16384));
    CHECK_STATUS(device->copy(more, pinned, 8193, {}), Status::kBuffer);
}

TEST_CASE("memory of another device is reached by its own operations only, from and to pinned memory") {
    device::Options options = gpurun::test::emulated_options();
    options.emulated_ordered = device::Placement::kElsewhere;
    const auto device = open_emulated(options);
    void* elsewhere = must(device->ordered_memory()->allocate_ordered(4096, {}));
    void* own = must(device->allocate(4096));
    void* pinned = must(device->allocate_pinned(8192));
    CHECK(must(device->describe(elsewhere, 4096)).placement == device::Placement::kElsewhere);
    CHECK_STATUS(device->copy(own, elsewhere, 1, {}), Status::kBuffer);
    CHECK_STATUS(device->copy(elsewhere, pinned, 1, {}), Status::kBuffer);
    CHECK_STATUS(device->fill(elsewhere, 0, 1, {}), Status::kBuffer);
    CHECK_STATUS(device->other_devices()->copy_elsewhere(elsewhere, own, 1, {}), Status::kBuffer);
    CHECK_STATUS(device->other_devices()->copy_elsewhere(own, pinned, 1, {}), Status::kBuffer);
    CHECK_STATUS(device->other_devices()->copy_elsewhere(elsewhere, pinned, 4097, {}), Status::kBuffer);
    CHECK_STATUS(device->other_devices()->fill_elsewhere(own, 0, 1, {}), Status::kBuffer);
    REQUIRE_OK(device->other_devices()->copy_elsewhere(pinned, elsewhere, 4096, {}));
    REQUIRE_OK(device->other_devices()->copy_elsewhere(elsewhere, pinned, 4096, {}));
}

TEST_CASE("a counter outside of registered memory is refused") {
    const auto device = open_emulated();
    device::Counter counter{0};
    CHECK_STATUS(device->counters()->write_counter({}, &counter, 1), Status::kBuffer);
    CHECK_STATUS(device->counters()->await_counter({}, &counter, 0), Status::kBuffer);
}

TEST_CASE("host memory that is not page-aligned, or registered already, is refused") {
    const auto device = open_emulated();
    alignas(4096) static std::byte memory[3 * 4096];
    CHECK_STATUS(device->register_host(memory + 64, 4096), Status::kArgument);
    CHECK_STATUS(device->register_host(memory, 0), Status::kArgument);
    REQUIRE_OK(device->register_host(memory + 4096, 4096));
    CHECK_STATUS(device->register_host(memory, 2 * 4096), Status::kArgument);
    CHECK_STATUS(device->register_host(memory + 4096, 4096), Status::kArgument);
    CHECK_STATUS(device->unregister_host(memory), Status::kArgument);
    REQUIRE_OK(device->unregister_host(memory + 4096));
    CHECK_STATUS(device->unregister_host(memory + 4096), Status::kArgument);
}

TEST_CASE("a function that a stream runs cannot use that stream") {
    const auto device = open_emulated();
    struct Call {
        device::Device* device;
        device::Stream stream;
        int enqueued = -1;
        int waited = -1;
    } call{device.get(), must(device->create_stream())};
    REQUIRE_OK(device->call_host(
        call.stream,
        [](void* argument) {
            auto& inside = *static_cast<Call*>(argument);
            inside.enqueued = test::status_of(inside.device->call_host(
                inside.stream, [](void*) {}, nullptr));
            inside.waited = test::status_of(inside.device->synchronize(inside.stream));
        },
        &call));
    REQUIRE_OK(device->synchronize(call.stream));
    CHECK(call.enqueued == static_cast<int>(Status::kUnsupported));
    CHECK(call.waited == static_cast<int>(Status::kUnsupported));
}

TEST_CASE("only shared events are exported, and stream-ordered memory is not") {
    const auto device = open_emulated();
    CHECK_STATUS(device->export_event(must(device->create_event())), Status::kEvent);
    void* ordered = must(device->ordered_memory()->allocate_ordered(4096, {}));
    CHECK_STATUS(device->export_memory(must(device->describe(ordered, 4096))), Status::kBuffer);
}

TEST_CASE("bytes that are no handle are refused") {
    const auto device = open_emulated();
    CHECK_STATUS(device->import_memory(1, device::MemoryHandle{}), Status::kArgument);
    CHECK_STATUS(device->import_event(1, device::EventHandle{}), Status::kEvent);
}

namespace {

// A device with what a mail and a fenced copy need, all of it right.
struct Post {
    std::unique_ptr<device::Device> device = open_emulated();
    std::byte* memory = static_cast<std::byte*>(must(device->allocate(65536)));
    std::byte* pinned = static_cast<std::byte*>(must(device->allocate_pinned(4096)));
    uint32_t* ticket = reinterpret_cast<uint32_t*>(memory + 32768);
    device::Counter* counters = reinterpret_cast<device::Counter*>(pinned + 2048);

    Post() { REQUIRE_OK(device->fill(memory, 0, 65536, {})); }
    device::Mail mail() const { return {memory, 100, 1, counters, counters + 1, 2, ticket}; }
    device::FencedCopy copy() const {
        return {memory, memory + 4096, 101, counters, counters + 1, 2, ticket, reinterpret_cast<uint64_t*>(ticket + 2)};
    }
    void check(const device::Mail& mail, Status expected) const {
        CHECK_STATUS(device->mails()->put_mail(mail, pinned, {}), expected);
        CHECK_STATUS(device->mails()->take_mail(mail, pinned, 100, true, {}), expected);
    }
    void check(const device::FencedCopy& copy, Status expected) const {
        CHECK_STATUS(device->fenced_copies()->copy_fenced(copy, {}), expected);
    }
};

} // namespace

TEST_CASE("mails and fenced copies that are right pass") {
    const Post post;
    post.check(post.mail(), Status::kOk);
    post.counters[0].store(2);
    post.check(post.copy(), Status::kOk);
    REQUIRE_OK(post.device->synchronize(device::Stream{}));
}

TEST_CASE("a mail without a mark or without bytes is refused") {
    const Post post;
    device::Mail mail = post.mail();
    mail.mark = 0;
    post.check(mail, Status::kArgument);
    mail = post.mail();
    mail.bytes = 0;
    CHECK_STATUS(post.device->mails()->put_mail(mail, post.pinned, {}), Status::kArgument);
    CHECK_STATUS(post.device->mails()->take_mail(post.mail(), post.pinned, 0, true, {}), Status::kArgument);
}

TEST_CASE("times that a device could not write are refused") {
    const Post post;
    post.counters[0].store(2);
    device::Times pageable{};
    auto* const crooked = reinterpret_cast<device::Times*>(reinterpret_cast<std::byte*>(post.counters) + 513);
    auto* const on_device = reinterpret_cast<device::Times*>(post.memory + 40960);
    for (device::Times* const times : {&pageable, crooked, on_device}) {
        device::Mail mail = post.mail();
        mail.times = times;
        post.check(mail, Status::kBuffer);
        const device::OutgoingMail outgoing{mail, post.pinned};
        const device::IncomingMail incoming{mail, post.pinned, 100};
        CHECK_STATUS(post.device->mails()->put_mails({&outgoing, 1}, {}), Status::kBuffer);
        CHECK_STATUS(post.device->mails()->take_mails({&incoming, 1}, {}), Status::kBuffer);
        device::FencedCopy copy = post.copy();
        copy.times = times;
        post.check(copy, Status::kBuffer);
        auto* const done = reinterpret_cast<std::byte*>(times) + offsetof(device::Times, done);
        CHECK_STATUS(post.device->clock()->write_time({}, reinterpret_cast<std::atomic<int64_t>*>(done)),
                     Status::kBuffer);
    }
}

TEST_CASE("mail words that are not aligned, not in device memory, or reach past it are refused") {
    const Post post;
    alignas(16) std::byte pageable[4096];
    for (std::byte* words :
         {post.memory + 8, post.pinned, pageable, post.memory + 65536 - 192, static_cast<std::byte*>(nullptr)}) {
        device::Mail mail = post.mail();
        mail.words = words;
        post.check(mail, Status::kBuffer);
    }
}

TEST_CASE("tickets and gates outside of the process's device memory are refused") {
    const Post post;
    uint32_t pageable[4]{};
    for (uint32_t* ticket : {pageable, reinterpret_cast<uint32_t*>(post.pinned),
                             reinterpret_cast<uint32_t*>(post.memory + 2), static_cast<uint32_t*>(nullptr)}) {
        device::Mail mail = post.mail();
        mail.ticket = ticket;
        post.check(mail, Status::kBuffer);
        device::FencedCopy copy = post.copy();
        copy.ticket = ticket;
        post.check(copy, Status::kBuffer);
        copy = post.copy();
        copy.gate = reinterpret_cast<uint64_t*>(ticket);
        post.check(copy, Status::kBuffer);
    }
}

TEST_CASE("mails and fenced copies with counters outside of registered memory are refused") {
    const Post post;
    device::Counter pageable{0};
    for (device::Counter* counter : {&pageable, reinterpret_cast<device::Counter*>(post.memory)}) {
        device::Mail mail = post.mail();
        mail.sent = counter;
        post.check(mail, Status::kBuffer);
        mail = post.mail();
        mail.taken = counter;
        CHECK_STATUS(post.device->mails()->take_mail(mail, post.pinned, 100, true, {}), Status::kBuffer);
        device::FencedCopy copy = post.copy();
        copy.before = counter;
        post.check(copy, Status::kBuffer);
        copy = post.copy();
        copy.after = counter;
        post.check(copy, Status::kBuffer);
    }
}

TEST_CASE("mails from and into memory that a stream cannot reach are refused") {
    const Post post;
    std::vector<std::byte> pageable(100);
    for (std::byte* buffer : {pageable.data(), post.pinned + 4096 - 99, post.memory + 65536 - 99}) {
        CHECK_STATUS(post.device->mails()->put_mail(post.mail(), buffer, {}), Status::kBuffer);
        CHECK_STATUS(post.device->mails()->take_mail(post.mail(), buffer, 100, true, {}), Status::kBuffer);
    }
}

TEST_CASE("fenced copies of nothing, of pageable memory, and past the end of an allocation are refused") {
    const Post post;
    std::vector<std::byte> pageable(101);
    device::FencedCopy copy = post.copy();
    copy.bytes = 0;
    post.check(copy, Status::kArgument);
    for (std::byte* buffer : {pageable.data(), post.pinned + 4096 - 96, post.memory + 65536 - 96}) {
        copy = post.copy();
        copy.destination = buffer;
        post.check(copy, Status::kBuffer);
        copy = post.copy();
        copy.source = buffer;
        post.check(copy, Status::kBuffer);
    }
}

TEST_CASE("what was refused left nothing in the stream") {
    const Post post;
    device::FencedCopy copy = post.copy(); // its `before` does not come
    copy.after = nullptr;
    post.check(copy, Status::kBuffer);
    device::Mail mail = post.mail();
    mail.taken = nullptr;
    CHECK_STATUS(post.device->mails()->take_mail(mail, post.pinned, 100, true, {}), Status::kBuffer);
    REQUIRE_OK(post.device->synchronize(device::Stream{}));
    CHECK(post.counters[0].load() == 0);
}
