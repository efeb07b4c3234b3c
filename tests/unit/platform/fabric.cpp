// Two endpoints of libfabric in one process, of each provider that this machine has.
#include "platform/clock.hpp"
#include "platform/fabric/endpoint.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

using namespace gpurun;
using namespace gpurun::test;
using platform::FabricEndpoint;

namespace {

constexpr std::array kProviders = {"auto", "tcp;ofi_rxm", "net", "sockets"};
constexpr int64_t kPatienceNs = 20'000'000'000;

struct Heard final : FabricEndpoint::Events {
    std::vector<std::vector<std::byte>> frames;
    std::vector<uint64_t> notes;
    size_t sent = 0;
    std::string failure;

    void on_frame(std::span<const std::byte> frame) override { frames.emplace_back(frame.begin(), frame.end()); }
    void on_written(uint64_t note) override { notes.push_back(note); }
    void on_sent(uint64_t) override { ++sent; }
    void on_failed(uint64_t, const std::string& why) override { failure = why; }
};

struct End {
    std::unique_ptr<FabricEndpoint> endpoint;
    Heard heard;
    uint64_t other = 0;

    // False if it cannot go now.
    bool send(uint32_t number, size_t bytes) const {
        std::byte* const frame = endpoint->free_frame();
        if (frame == nullptr)
            return false;
        std::memset(frame, static_cast<int>(number), bytes);
        std::memcpy(frame, &number, sizeof number);
        return must(endpoint->send(other, bytes));
    }
    void look() { (void)must(endpoint->poll(heard)); }
};

// Both ends, or none: libfabric or its provider is not here.
std::vector<End> make_ends(const char* provider, size_t frame_bytes = FabricEndpoint::kFrameBytes) {
    std::vector<End> ends(2);
    for (End& each : ends) {
        auto opened = FabricEndpoint::open({.provider = provider, .may_be_loopback = true, .frame_bytes = frame_bytes});
        if (!opened) {
            CHECK_STATUS(opened, base::Status::kUnsupported);
            MESSAGE("skipped: ", opened.error().detail);
            return {};
        }
        each.endpoint = std::move(*opened);
    }
    for (size_t i = 0; i < 2; ++i)
        ends[i].other = must(ends[i].endpoint->add_peer(ends[1 - i].endpoint->address()));
    return ends;
}

// Of any length, both ways at once.
void exchange_frames(std::vector<End>& ends, size_t largest) {
    constexpr uint32_t kFrames = 500; // more than may be on their way
    const auto bytes_of = [&](uint32_t number) { return number % 3 == 0 ? largest : size_t{5} + number; };
    std::array<uint32_t, 2> next{};
    int64_t end_ns = platform::now_ns() + kPatienceNs; // after the last frame
    size_t heard_before = 0;
    const auto is_over = [&] {
        return ends[0].heard.frames.size() == kFrames && ends[1].heard.frames.size() == kFrames &&
               ends[0].heard.sent == kFrames && ends[1].heard.sent == kFrames;
    };
    while (!is_over() && platform::now_ns() < end_ns)
        for (size_t i = 0; i < 2; ++i) {
            if (next[i] < kFrames && ends[i].send(next[i], bytes_of(next[i])))
                ++next[i];
            ends[i].look();
            const size_t heard = ends[0].heard.frames.size() + ends[1].heard.frames.size();
            if (std::exchange(heard_before, heard) != heard)
                end_ns = platform::now_ns() + kPatienceNs;
        }
    for (const End& each : ends) {
        CHECK(each.heard.failure.empty());
        CHECK(each.heard.sent == kFrames);
        REQUIRE(each.heard.frames.size() == kFrames);
        for (uint32_t number = 0; number < kFrames; ++number) {
            const std::vector<std::byte>& frame = each.heard.frames[number];
            uint32_t read = 0;
            std::memcpy(&read, frame.data(), sizeof read);
            REQUIRE(read == number);
            REQUIRE(frame.size() == bytes_of(number));
            REQUIRE(frame.back() == static_cast<std::byte>(number));
        }
    }
}

} // namespace

TEST_SUITE_BEGIN("fabric");

TEST_CASE("frames of any length arrive whole, and in the order in which they were sent, both ways at once") {
    for (const char* provider : kProviders)
        for (const size_t frame_bytes : {FabricEndpoint::kFrameBytes, FabricEndpoint::kSmallFrameBytes}) {
            CAPTURE(provider);
            CAPTURE(frame_bytes);
            if (std::vector<End> ends = make_ends(provider, frame_bytes); !ends.empty())
                exchange_frames(ends, frame_bytes);
        }
}

TEST_CASE("what is written is there when its note comes, however long it is") {
    constexpr size_t kBytes = 300'000;
    constexpr uint32_t kRounds = 100;
    constexpr uint64_t kNotes = 0xfedc'ba98'7654'3210;
    for (const char* provider : kProviders) {
        CAPTURE(provider);
        std::vector<std::byte> source(kBytes), target(kBytes); // outlive the endpoints
        std::vector<End> ends = make_ends(provider);
        if (ends.empty() || !ends[0].endpoint->can_write())
            continue;
        const auto from = must(ends[0].endpoint->enter(source));
        const auto into = must(ends[1].endpoint->enter(target));
        const int64_t end_ns = platform::now_ns() + kPatienceNs;
        for (uint32_t round = 0; round < kRounds; ++round) {
            const size_t offset = 1000 * round;
            const size_t bytes = (kBytes - offset) / (1 + round % 3);
            std::memset(source.data(), static_cast<int>(round), kBytes);
            const auto look_until = [&](auto is_done) {
                while (!is_done() && platform::now_ns() < end_ns)
                    for (End& each : ends)
                        each.look();
            };
            look_until([&] {
                return must(ends[0].endpoint->write(ends[0].other, std::span(source).subspan(offset, bytes), from,
                                                    into.landing, offset, kNotes + round));
            });
            look_until([&] { return ends[1].heard.notes.size() > round; });
            REQUIRE(ends[1].heard.notes.size() == round + 1);
            REQUIRE(ends[1].heard.notes.back() == kNotes + round);
            REQUIRE(std::all_of(target.begin() + static_cast<ptrdiff_t>(offset),
                                target.begin() + static_cast<ptrdiff_t>(offset + bytes),
                                [&](std::byte each) { return each == static_cast<std::byte>(round); }));
        }
        CHECK(ends[0].heard.failure.empty());
    }
}

TEST_CASE("a provider that does not exist is refused with a sentence that says what to do") {
    const auto opened = FabricEndpoint::open({.provider = "carrier-pigeon"});
    CHECK_STATUS(opened, base::Status::kUnsupported);
    CHECK(detail_of(opened).find("libfabric") != std::string::npos);
}

TEST_SUITE_END();
