// Two ranks in one process, each with an engine, an emulated device and a thread, connected by a channel of some kind.
// What holds for messages must hold over all: a test is a template over OverSocket, OverShm and OverFabric. The
// provider of the last is GPURUN_FABRIC's; where there is none, the test ends as skipped.
#pragma once

#include "comm/engine.hpp"
#include "comm/point_to_point.hpp"
#include "support/emulated_rank.hpp"
#include "support/socket_channel.hpp"
#include "transfer/channel/fabric_port.hpp"

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::test {

enum class Over { kSocket, kShm, kFabric };
struct OverSocket {
    static constexpr Over kOver = Over::kSocket;
};
struct OverShm {
    static constexpr Over kOver = Over::kShm;
};

struct OverFabric {
    static constexpr Over kOver = Over::kFabric;
};

using Bytes = std::vector<uint8_t>;
// Bytes that differ in every position and for every seed.
Bytes pattern(size_t bytes, uint64_t seed);

enum class Kind { kPageable, kPinned, kDevice, kOrdered };
constexpr Kind kKinds[] = {Kind::kPageable, Kind::kPinned, Kind::kDevice, Kind::kOrdered};

// One of the two. Its calls are made by one thread at a time unless a test says otherwise.
class Rank {
  public:
    using Stream = std::optional<device::Stream>; // none: the host's order
    // How a request has ended.
    struct Outcome {
        base::Status status = base::Status::kOk;
        comm::Arrived arrived;
        bool cancelled = false;
        bool truncated = false;
    };

    Rank(platform::JobSegment job, uint32_t self, const base::Settings& settings, Wrap wrap);

    void connect(Rank& other, std::unique_ptr<transfer::PeerChannel> to_other);

    int number() const { return static_cast<int>(base_.self.value); }
    int other() const { return 1 - number(); }
    EmulatedRank& base() { return base_; }
    comm::Engine& engine() { return *engine_; }
    device::Device& device() { return *base_.device; }
    const comm::Communicator& world() const { return *world_; }

    // ---- memory and streams, there until the end
    uint8_t* memory(Kind kind, size_t bytes);
    uint8_t* memory(Kind kind, const Bytes& content);
    device::Stream stream();
    transfer::Operand operand(const void* address, size_t bytes, Stream stream = std::nullopt);

    // ---- calls
    base::Result<void> send(const transfer::Operand& from, int tag, bool synchronous = false);
    base::Result<comm::Arrived> recv(const transfer::Operand& into, int source, int tag);
    uint64_t isend(const transfer::Operand& from, int tag, bool synchronous = false);
    uint64_t irecv(const transfer::Operand& into, int source, int tag);
    uint64_t make(comm::Task::Kind kind, const transfer::Operand& operand, int peer, int tag); // persistent
    // None: it cannot be completed without waiting.
    std::optional<Outcome> test(uint64_t& name, Stream stream = std::nullopt);
    Outcome wait(uint64_t& name, Stream stream = std::nullopt);
    void wait_all(std::span<uint64_t> names, Stream stream = std::nullopt); // all must end well
    size_t wait_any(std::span<uint64_t> names, Outcome& outcome);
    comm::Pattern pattern_of(int source, int tag) const;
    base::Result<std::optional<comm::Messages::Found>> probe(int source, int tag, bool may_wait,
                                                             uint64_t* ret_taken = nullptr);
    base::Result<void> synchronize(device::Stream stream) { return engine().device_waits().synchronize(stream); }
    base::Result<void> barrier(Stream stream = std::nullopt);

    // Leaves the job, together with the other.
    base::Result<void> leave();

  private:
    comm::Task task(comm::Task::Kind kind, const transfer::Operand& operand, int peer, int tag) const;
    std::optional<Outcome> complete(uint64_t& name, Stream stream, bool may_wait);

    EmulatedRank base_;
    std::optional<comm::Communicator> world_;
    std::unique_ptr<comm::Engine> engine_;
    std::vector<std::unique_ptr<uint8_t[]>> pageable_;
};

// Of the provider that GPURUN_FABRIC names; published in the job. Where there is none, the test ends as skipped.
std::shared_ptr<transfer::FabricPort> open_port(const platform::JobSegment& job, base::WorldRank self);

class TwoRanks {
  public:
    explicit TwoRanks(Over over, const base::Settings& settings = rank_settings(), Wrap wrap = nullptr);
    // Both leave, at the same time.
    ~TwoRanks();
    TwoRanks(const TwoRanks&) = delete;
    TwoRanks& operator=(const TwoRanks&) = delete;

    Rank& rank(int number) { return *ranks_[static_cast<size_t>(number)]; }
    // Each side in a thread of its own. The first failure of either is the caller's, and ends the other's waits.
    void run(const std::function<void(Rank&)>& first, const std::function<void(Rank&)>& second);
    void run_both(const std::function<void(Rank&)>& each) { run(each, each); }
    // Each loses the other. REQUIRES that they have no memory in common.
    void cut();

  private:
    void connect_by_sockets();
    void connect_by_shm();
    void connect_by_fabric();
    void end_waits();

    const Over over_;
    std::array<std::unique_ptr<Rank>, 2> ranks_;
    std::array<SocketChannel*, 2> sockets_{};
};

// Where they differ first; -1 if nowhere.
ptrdiff_t first_difference(const uint8_t* got, const Bytes& expected);

} // namespace gpurun::test

TYPE_TO_STRING_AS("OverSocket", gpurun::test::OverSocket);
TYPE_TO_STRING_AS("OverShm", gpurun::test::OverShm);
TYPE_TO_STRING_AS("OverFabric", gpurun::test::OverFabric);
