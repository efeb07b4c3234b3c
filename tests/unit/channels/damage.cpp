// What comes over a fabric from somebody else, or damaged, ends in a sentence and not in a crash.
#include "support/two_ranks.hpp"
#include "transfer/channel/fabric_channel.hpp"

#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

using namespace gpurun;
using namespace gpurun::test;
using base::WorldRank;
using platform::FabricEndpoint;
using transfer::Liveness;

namespace {

constexpr uint64_t kSourcesKey = 77;
constexpr size_t kProvider = 16, kBefore = sizeof kSourcesKey + kProvider; // the address, in the rank record

// As on the wire (transfer/channel/fabric_port.hpp, carried_channel.hpp).
struct Head {
    uint64_t key;
    uint32_t source = 1;
    uint32_t reserved = 0;
    uint64_t number = 0;
};
struct Item {
    uint8_t kind;
    uint8_t notify = 0;
    uint8_t direction = 0;
    uint8_t edge = 0;
    uint16_t number = 0;
    uint16_t index = 0;
    uint32_t bytes = 0;
    uint32_t reserved = 0;
    uint64_t value = 0;
};
constexpr uint8_t kRecord = 1, kTaken = 2, kNotify = 3, kTotal = 4, kEdge = 5, kFilled = 6, kSteps = 7, kLanding = 10;

struct Heard final : FabricEndpoint::Events {
    std::vector<std::vector<std::byte>> frames;

    void on_frame(std::span<const std::byte> frame) override { frames.emplace_back(frame.begin(), frame.end()); }
    void on_written(uint64_t) override {}
    void on_sent(uint64_t) override {}
    void on_failed(uint64_t, const std::string&) override {}
};

struct Note {
    uint64_t key : 26;
    uint64_t source : 14 = 1;
    uint64_t slot : 8 = 0;
    uint64_t use : 8 = 1;
    uint64_t frame : 8 = 0;
};
constexpr uint16_t kEagerWindow = transfer::PeerChannel::kEagerWindow;

// Rank 0 as it is, and rank 1 played by the test.
class Target {
  public:
    Target() : rank_(must(platform::JobSegment::create(2, 2)), 0) {
        const platform::JobSegment& job = rank_.job;
        auto port = open_port(job, WorldRank{0});
        const char* const provider = std::getenv("GPURUN_FABRIC");
        source_ =
            must(FabricEndpoint::open({.provider = provider != nullptr ? provider : "auto", .may_be_loopback = true}));
        platform::RankRecord& far = job.rank(1);
        far.node = 1;
        far.device = job.rank(0).device;
        const auto address = source_->address();
        std::memcpy(far.fabric_address.data(), &kSourcesKey, sizeof kSourcesKey);
        source_->provider().copy(reinterpret_cast<char*>(far.fabric_address.data()) + sizeof kSourcesKey, kProvider);
        std::memcpy(far.fabric_address.data() + kBefore, address.data(), address.size());
        far.fabric_address_bytes = static_cast<uint32_t>(kBefore + address.size());
        const platform::RankRecord& own = job.rank(0);
        std::memcpy(&key, own.fabric_address.data(), sizeof key);
        to_ = must(source_->add_peer(
            std::as_bytes(std::span(own.fabric_address)).subspan(kBefore, own.fabric_address_bytes - kBefore)));
        channel_ = must(transfer::FabricChannel::open(port, *rank_.device, job, WorldRank{0}, WorldRank{1}));
        must(port->start());
    }
    ~Target() {
        must(rank_.job.mark_dead(1)); // nobody waits for its goodbye
    }

    void send(const std::vector<std::byte>& frame) {
        std::memcpy(source_->free_frame(), frame.data(), frame.size());
        while (!must(source_->send(to_, frame.size())))
            (void)must(source_->poll(heard_));
    }
    void make_fence() { (void)must(channel_->fence(transfer::Direction::kIn)); }
    // Looks until it is so, or for some time.
    bool becomes(const std::function<bool(const transfer::FabricChannel&)>& wanted) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!wanted(*channel_) && std::chrono::steady_clock::now() < end) {
            (void)must(source_->poll(heard_));
            std::this_thread::yield();
        }
        return wanted(*channel_);
    }

    // Writes into the eager buffers as the peer would, with this note. False: its provider does not write.
    bool write(const Note& note) {
        if (!source_->can_write())
            return false;
        REQUIRE(becomes([&](const auto&) { return landing().has_value(); }));
        if (!entered_)
            entered_ = must(source_->enter(bytes_));
        while (!must(source_->write(to_, bytes_, *entered_, *landing(), 0, std::bit_cast<uint64_t>(note))))
            (void)must(source_->poll(heard_));
        return true;
    }

    uint64_t key = 0;

  private:
    // What the rank has told of its eager buffers.
    std::optional<FabricEndpoint::Landing> landing() const {
        for (const auto& frame : heard_.frames) {
            Item item{};
            FabricEndpoint::Landing landing;
            if (frame.size() < sizeof(Head) + sizeof item + sizeof landing)
                continue;
            std::memcpy(&item, frame.data() + sizeof(Head), sizeof item);
            std::memcpy(&landing, frame.data() + sizeof(Head) + sizeof item, sizeof landing);
            if (item.kind == kLanding && item.number == kEagerWindow)
                return landing;
        }
        return std::nullopt;
    }

    std::vector<std::byte> bytes_ = std::vector<std::byte>(20'000); // outlives the endpoint
    EmulatedRank rank_;
    Heard heard_;
    std::optional<FabricEndpoint::Entered> entered_;
    std::unique_ptr<FabricEndpoint> source_;
    uint64_t to_ = 0;
    std::unique_ptr<transfer::FabricChannel> channel_;
};

std::vector<std::byte> frame_of(const Head& head, const Item& item, size_t more = 0) {
    std::vector<std::byte> bytes(sizeof head + sizeof item + more, std::byte{0xff});
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &item, sizeof item);
    return bytes;
}

bool is_dead(const transfer::FabricChannel& channel) { return channel.liveness() == Liveness::kDead; }

} // namespace

TEST_SUITE_BEGIN("damage");

TEST_CASE_TEMPLATE("a damaged frame of a peer ends the messages with it", T, OverFabric) {
    static_assert(T::kOver == Over::kFabric);
    const Item damaged[] = {
        {.kind = 0},
        {.kind = 99},
        {.kind = kNotify, .notify = 7},
        {.kind = kNotify, .bytes = 5000},            // that are not there
        {.kind = kRecord, .bytes = 40, .value = 40}, // its head has a length of 65535
        {.kind = kRecord, .bytes = 40, .value = 8},
        {.kind = kTaken, .value = 1}, // of none that were posted
        {.kind = kTotal, .number = 999},
        {.kind = kTotal, .direction = 2},
        {.kind = kEdge, .number = 9999},
        {.kind = kEdge, .edge = 2},
        {.kind = kFilled, .number = 9, .bytes = 8},
        {.kind = kFilled, .number = 8, .index = 32, .bytes = 8},
        {.kind = kFilled, .number = 8, .bytes = 8, .value = transfer::kEagerPiece - 4},
        {.kind = kFilled, .index = 4, .bytes = 8},
        {.kind = kFilled, .bytes = 8, .value = platform::kRelayBufferBytes - 4},
        {.kind = kFilled, .bytes = 8, .value = ~uint64_t{0}},
        {.kind = kLanding, .number = 9, .bytes = 16},
        {.kind = kLanding, .number = 1, .bytes = 15},
    };
    for (const Item& each : damaged) {
        CAPTURE(int{each.kind});
        Target target;
        target.send(frame_of({.key = target.key}, each, each.bytes < 100 ? each.bytes : 0));
        CHECK(target.becomes(is_dead));
    }
}

TEST_CASE_TEMPLATE("a frame that is missing is noticed", T, OverFabric) {
    static_assert(T::kOver == Over::kFabric);
    Target target;
    target.send(frame_of({.key = target.key, .number = 1}, {.kind = kNotify}));
    CHECK(target.becomes(is_dead));
}

TEST_CASE_TEMPLATE("frames of strangers are dropped", T, OverFabric) {
    static_assert(T::kOver == Over::kFabric);
    Target target;
    target.send(std::vector<std::byte>(3));
    target.send(frame_of({.key = target.key + 1}, {.kind = 99}));
    target.send(frame_of({.key = target.key, .source = 5}, {.kind = 99}));
    target.send(frame_of({.key = target.key}, {.kind = kSteps, .value = 3})); // as rank 1 would
    CHECK(target.becomes([](const auto& channel) { return channel.steps_of_leaving() == 3; }));
    CHECK(target.becomes([](const auto& channel) { return channel.liveness() == Liveness::kAlive; }));
}

TEST_CASE_TEMPLATE("bytes that are written are told of by their number, and by no other", T, OverFabric) {
    static_assert(T::kOver == Over::kFabric);
    const uint8_t slot = transfer::first_slot(transfer::SlotClass::kEager);
    const auto edge_of = [](const transfer::FabricChannel& channel) {
        return channel.open_fence(transfer::Direction::kIn)->counter(transfer::Edge::kForward, slot).load();
    };
    const Note damaged[] = {{.key = 0, .slot = slot}, {.key = 0, .slot = slot, .use = 3}, {.key = 0, .frame = 4}};
    for (Note each : damaged) {
        Target target;
        target.make_fence();
        target.send(frame_of({.key = target.key}, {.kind = kFilled, .number = kEagerWindow, .bytes = 8}, 8));
        const uint64_t key = target.key & ((uint64_t{1} << 26) - 1);
        if (!target.write({.key = key + 1, .slot = slot})) // a stranger's
            return;
        (void)target.write({.key = key, .source = 7, .slot = slot});
        (void)target.write({.key = key, .slot = slot});
        REQUIRE(target.becomes([&](const auto& channel) { return edge_of(channel) == transfer::kSlotStep; }));
        CHECK(target.becomes([](const auto& channel) { return channel.liveness() == Liveness::kAlive; }));
        each.key = key;
        (void)target.write(each);
        CHECK(target.becomes(is_dead));
    }
}

TEST_SUITE_END();
