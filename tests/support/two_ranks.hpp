// Two ranks in one process, each with an engine, an emulated device and a thread, connected by a channel of either
// kind. What holds for messages must hold over both: a test is a template over OverSocket and OverShm.
#pragma once

#include "comm/engine.hpp"
#include "comm/point_to_point.hpp"
#include "support/emulated_rank.hpp"
#include "support/socket_channel.hpp"

#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::test {

enum class Over { kSocket, kShm };
struct OverSocket {
    static constexpr Over kOver = Over::kSocket;
};
struct OverShm {
    static constexpr Over kOver = Over::kShm;
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

    Rank(platform::JobSegment job, uint32_t self, const base::Settings& settings);

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

class TwoRanks {
  public:
    explicit TwoRanks(Over over, const base::Settings& settings = rank_settings());
    // Both leave, at the same time.
    ~TwoRanks();
    TwoRanks(const TwoRanks&) = delete;
    TwoRanks& operator=(const TwoRanks&) = delete;

    Rank& rank(int number) { return *ranks_[static_cast<size_t>(number)]; }
    // Each side in a thread of its own. The first failure of either is the caller's, and ends the other's waits.
    void run(const std::function<void(Rank&)>& first, const std::function<void(Rank&)>& second);
    void run_both(const std::function<void(Rank&)>& each) { run(each, each); }
    // Each loses the other. REQUIRES a socket.
    void cut();

  private:
    void connect_by_sockets();
    void connect_by_shm();
    void end_waits();

    const Over over_;
    std::array<std::unique_ptr<Rank>, 2> ranks_;
    std::array<SocketChannel*, 2> sockets_{};
};

// Where they differ first; -1 if nowhere.
ptrdiff_t first_difference(const uint8_t* got, const Bytes& expected);

} // namespace gpurun::test
