// Exchanges: mails in both directions in one operation of a stream.
#include "box.hpp"

#include <algorithm>

namespace gpurun::conformance::exchanges {

TEST_SUITE_BEGIN("mails");

namespace {

constexpr std::byte kUntouched{0xee};

// `size` bytes that begin with those of `content`.
Bytes expected(size_t size, const std::byte* content, size_t bytes) {
    Bytes all(size, kUntouched);
    std::copy_n(content, bytes, all.begin());
    return all;
}

} // namespace

TEST_CASE("what two streams put in exchanges, the other takes in the same exchange, whatever the sizes") {
    constexpr size_t kEach = device::kMostExchanged;
    constexpr size_t kMost = 9000; // so that all blocks run side by side
    std::vector<Box> boxes(2 * kEach);
    const Memory source(kMost + 2 * kEach), destination(2 * kEach * kMost);
    const Bytes content = pattern(kMost + 2 * kEach, 41);
    write(source.get(), content);
    const Stream streams[2];
    const auto bytes_of = [](size_t box) { return box % 3 == 0 ? 8 + box : box % 3 == 1 ? size_t{4096} : kMost - box; };
    for (const size_t mails : {size_t{1}, size_t{2}, kEach}) {
        CAPTURE(mails);
        write(destination.get(), Bytes(2 * kEach * kMost, kUntouched));
        std::vector<device::OutgoingMail> puts[2];
        std::vector<device::IncomingMail> takes[2];
        for (size_t i = 0; i < 2 * mails; ++i) {
            boxes[i].begin();
            const size_t side = i / mails;
            puts[side].push_back({boxes[i].outgoing(bytes_of(i)), source.get() + i});
            takes[1 - side].push_back({boxes[i].incoming(bytes_of(i)), destination.get() + i * kMost, bytes_of(i), 2});
        }
        for (const size_t side : {0, 1})
            REQUIRE_OK(subject().mails()->exchange({.puts = puts[side], .takes = takes[side]}, streams[side]));
        for (const Stream& each : streams)
            each.finish();
        for (size_t i = 0; i < 2 * mails; ++i) {
            CAPTURE(i);
            CHECK(boxes[i].is_taken());
            CHECK(read(destination.get() + i * kMost, kMost) == expected(kMost, &content[i], bytes_of(i)));
            boxes[i].check_tickets();
        }
    }
}

TEST_CASE("an exchange puts at once, takes what has come, and holds up its stream until it has all") {
    Box out, first, last;
    const Memory source(kLargestMail), destination(2 * kLargestMail);
    write(source.get(), pattern(kLargestMail, 42));
    const Stream stream, other;
    for (Box* each : {&out, &first, &last})
        each->begin();
    const device::OutgoingMail put{out.outgoing(kLargestMail), source.get()};
    const device::IncomingMail takes[] = {
        {last.incoming(8), destination.get(), 8},
        {first.incoming(kLargestMail), destination.get() + kLargestMail, kLargestMail}};
    REQUIRE_OK(subject().mails()->exchange({.puts = {&put, 1}, .takes = takes}, stream));
    first.put(source.get(), kLargestMail, other);
    REQUIRE(reads(out.sent(), out.value()));
    REQUIRE(reads(first.taken(), first.value()));
    watch();
    CHECK_FALSE(last.is_taken());
    CHECK_FALSE(stream.done());
    last.put(source.get(), 8, other);
    stream.finish();
    CHECK(read(destination.get(), 8) == pattern(8, 42));
    CHECK(read(destination.get() + kLargestMail, kLargestMail) == pattern(kLargestMail, 42));
    for (const Box* each : {&out, &first, &last})
        each->check_tickets();
}

TEST_CASE("an exchange copies beside its mails, whatever these wait for") {
    constexpr size_t kSizes[] = {1, 4095, 4096, kLargestMail};
    constexpr size_t kRoom = kLargestMail + 16;
    Box out, in;
    const Memory source(kRoom), destination(5 * kRoom);
    const Bytes content = pattern(kRoom, 43);
    write(source.get(), content);
    write(destination.get(), Bytes(5 * kRoom, kUntouched));
    const Stream stream, other;
    out.begin();
    in.begin();
    std::vector<device::CopyBeside> copies;
    for (size_t i = 0; i < std::size(kSizes); ++i)
        copies.push_back({destination.get() + i * kRoom + i, source.get() + 2 * i, kSizes[i]});
    const Pinned host(2 * 64); // a copy engine would not copy inside of it
    std::copy_n(content.begin(), 64, host.get());
    copies[0] = {host.get() + 64, host.get(), 64};
    const device::OutgoingMail put{out.outgoing(100), source.get()};
    const device::IncomingMail take{in.incoming(8), destination.get() + 4 * kRoom, 8};
    REQUIRE_OK(subject().mails()->exchange({.puts = {&put, 1}, .takes = {&take, 1}, .copies = copies}, stream));
    REQUIRE(reads(out.sent(), out.value()));
    watch();
    CHECK_FALSE(stream.done());
    in.put(source.get(), 8, other);
    stream.finish();
    other.finish();
    CHECK(Bytes(host.get() + 64, host.get() + 128) == Bytes(host.get(), host.get() + 64));
    for (size_t i = 1; i < std::size(kSizes); ++i) {
        const Bytes wanted = expected(kRoom - i, &content[2 * i], kSizes[i]);
        CHECK(read(destination.get() + i * kRoom + i, kRoom - i) == wanted);
    }
    REQUIRE_OK(subject().mails()->exchange({.copies = {copies.data(), 1}}, stream));
    stream.finish();
}

} // namespace gpurun::conformance::exchanges
