// How a rank reaches ranks of other nodes: one endpoint of libfabric, which the channels to all of them share.
//
// One mutex guards the endpoint and what its channels carry. Two threads, neither of which takes the engine lock: the
// progress thread looks at the endpoint while no thread of the rank does so in a call, and the watch learns from the
// job segment who has died, which libfabric does not know.
//
// A frame is a head and whole items. The head has the receiver's key, which only the job knows, and the frame's number
// among those of its source, so that a frame of a stranger, and one that is damaged, is found.
#pragma once

#include "base/world_rank.hpp"
#include "platform/death_watch.hpp"
#include "platform/fabric/endpoint.hpp"
#include "platform/fabric/tcp_connections.hpp"
#include "platform/fabric/wait_bell.hpp"
#include "platform/job_segment.hpp"
#include "platform/quiet_thread.hpp"
#include "transfer/channel/carried_channel.hpp"
#include "transfer/channel/own_pages.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpurun::transfer {

class FabricPeer;

class FabricPort final : private platform::FabricEndpoint::Events {
  public:
    static base::Result<std::shared_ptr<FabricPort>> open(const platform::JobSegment& job, base::WorldRank self,
                                                          const platform::FabricEndpoint::Options& options);
    ~FabricPort() override;

    // In this rank's record: where others reach it.
    void publish(platform::RankRecord& own) const;
    // REQUIRES that all channels are open. Before this, what peers send waits.
    base::Result<void> start();

    const std::string& provider() const { return endpoint_->provider(); }
    std::mutex& mutex() { return mutex_; }
    // By a thread that waits in a call: looks once, unless another thread does.
    void poll();

    // REQUIRES mutex(), as the next ones.
    base::Result<void> add(FabricPeer& channel);
    void remove(FabricPeer& channel);
    // The peer may write what was made here, and has told where this rank may. False: damaged.
    void offer(FabricPeer& channel, uint32_t window, std::span<std::byte> pages);
    bool accept(FabricPeer& channel, uint32_t window, std::span<const std::byte> how);
    // Sends what the channel has to carry, as far as it goes now; the rest goes by itself.
    void flush(FabricPeer& channel);
    // Sends it when somebody looks, or with what comes next.
    void list(FabricPeer& channel);
    // An edge is watched: looks again soon, also if this thread leaves its call.
    void look_soon(FabricPeer& channel);
    // Says goodbye to all peers, and waits until this one has too, so that nothing that is on its way gets lost.
    void part_from(FabricPeer& channel, std::unique_lock<std::mutex>& lock);

  private:
    struct FrameHead {
        uint64_t key;
        uint32_t source;
        uint32_t reserved;
        uint64_t number; // from 0
    };
    // What a written buffer's receiver gets with it. Who can guess a part of the key can only say that bytes are here
    // which are not.
    struct Note {
        uint64_t key : 26; // some bits of it
        uint64_t source : 14;
        uint64_t slot : 8;
        uint64_t use : 8;
        uint64_t frame : 8; // in front of the bytes, in units of kNoteUnit
    };
    static constexpr uint64_t kNoteKey = (uint64_t{1} << 26) - 1;
    static constexpr size_t kNoteUnit = 8;
    static_assert(sizeof(Note) == sizeof(uint64_t) && platform::kMaxJobRanks <= 1u << 14);
    struct Address; // as it stands in the rank record
    static constexpr size_t kProviderBytes = 16;
    static constexpr int kMostLooks = 256; // in a row
    static constexpr int64_t kBeatNs = 1'000'000'000;

    FabricPort(const platform::JobSegment& job, base::WorldRank self, platform::WaitBell bell)
        : job_(job), self_(self), bell_(std::move(bell)) {}

    bool look(); // at the endpoint, once
    // Whether any edge had come that a channel has watched.
    bool flush_busy();
    void send_frames(FabricPeer& channel);
    // Takes from the outbox what goes next: bytes that are written, if there are any, and a frame.
    size_t fill_frame(FabricPeer& channel, std::byte* frame, std::optional<FilledBytes>& ret_written);
    bool is_large(size_t bytes) const;
    bool may_write(FabricPeer& channel, const FilledBytes& bytes);
    bool write(FabricPeer& channel, const FilledBytes& bytes, std::span<const std::byte> frame);
    enum class Rest : uint8_t { kNone, kNap, kSleep }; // kNap: a short one
    void wake_progress(Rest least);
    void lose_who_is_silent();
    void lose_the_dead();
    void await_answer(FabricPeer& channel, int64_t now_ns);
    void beat();
    bool waits() const; // whether the rank does, for anything
    void lose_the_unreachable(const std::vector<FabricPeer*>& doubtful, int64_t now_ns);
    bool answers(const FabricPeer& channel, const std::vector<platform::TcpConnection>& connections,
                 int64_t quiet_ms) const;
    bool is_over_tcp() const;
    void lose_unreachable(FabricPeer& channel, const std::string& why);
    void on_frame(std::span<const std::byte> frame) override;
    void on_written(uint64_t note) override;
    void on_sent(uint64_t) override {}
    void lose_damaged(FabricPeer& channel);
    void on_failed(uint64_t peer, const std::string& why) override;
    bool send_frame(FabricPeer& channel, size_t bytes);
    void note_sent(FabricPeer& channel, bool frame);
    void arrive_bytes(FabricPeer& channel, const Note& note);

    void make_progress();
    void rest(bool moved, bool is_left);
    bool may_sleep(int& ret_fd);
    bool is_left_to_callers();

    const platform::JobSegment& job_;
    const base::WorldRank self_;
    uint64_t key_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;              // something has arrived, or somebody is lost
    std::vector<std::unique_ptr<OwnPages>> pages_; // of channels that have ended; the endpoint may still use them
    std::unique_ptr<platform::FabricEndpoint> endpoint_;
    std::map<uint32_t, FabricPeer*> channels_; // by rank
    std::vector<FabricPeer*> busy_;            // those of them that are
    bool parting_ = false;
    std::atomic<bool> beats_{false}; // since some peer was met; set under the mutex
    int64_t beat_at_ns_ = 0;
    // The progress thread's. It says how it is going to rest, and then looks whether it was rung; who rings does so in
    // the opposite order.
    std::atomic<Rest> rests_{Rest::kNone};
    std::atomic<Rest> asked_{Rest::kNone}; // since it last rested: to wake if it rests so deeply
    int64_t moved_at_ns_ = 0;              // when it last found, or was given, something to do
    std::atomic<uint32_t> looks_{0};       // of threads in calls
    std::atomic<uint32_t> flushes_{0};     // the same
    uint32_t looks_seen_ = 0;              // the progress thread's, as the next ones
    uint32_t flushes_seen_ = 0;
    int skips_ = 0;
    std::atomic<bool> stops_{false};
    platform::WaitBell bell_; // of the progress thread
    std::optional<platform::QuietThread> progress_;
    std::unique_ptr<platform::DeathWatch> watch_;
};

} // namespace gpurun::transfer
