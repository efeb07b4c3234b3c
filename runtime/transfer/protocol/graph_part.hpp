// What messages of graphs need of one peer: their channels, and what ends with their graphs.
//
// A captured call is matched once, and its message moves whenever the graphs of both sides run, without either host.
// So each has a channel of its own (device::Channel), in the workspaces of both ranks. The source allots it, and names
// it in the message's record: a captured send waits for nobody. Small messages cross in the channel itself. Large ones
// stay with the source, and the channel only says when they are ready and when they have been read: the target's stream
// pulls them, through a mapping of the source's memory, or of a copy that the source's graph makes in a slab, where its
// memory cannot be exported.
//
// A channel lives as long as any graph that has captured it. When the target's are gone, it tells the source; when the
// source's are gone too, the source clears the channel's memory, and allots it again.
//
// Used under the engine lock. Only the ends of graphs come from other threads.
#pragma once

#include "device/capability/channels.hpp"
#include "device/capability/graphs.hpp"
#include "transfer/pool/allotment.hpp"
#include "transfer/state.hpp"

#include <memory>
#include <unordered_map>
#include <vector>

namespace gpurun::transfer {

// How a captured message crosses whenever its graphs run: the body of its record.
struct CapturedMessage {
    enum class Way : uint32_t { kInChannel, kInPlace, kSlab } way;
    uint32_t is_awaited; // 1: its source waits until it is taken
    uint64_t at_target;  // where its channel lies in the memory of the target, and of the source
    uint64_t at_source;
    RemoteBuffer source; // unless kInChannel: where the bytes stay

    // Its source goes on, whether or not it is taken.
    bool waits_for_nobody() const { return way == Way::kInChannel && is_awaited == 0; }
};

class GraphPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 0;

    GraphPart(Resources& resources, Peer& peer);
    ~GraphPart() override;

    // kUnsupported, with the reason and what to do, if a graph's message with the peer cannot use `operand`.
    base::Result<void> check(const Operand& operand);

    // REQUIRES check().
    device::Channels& device() const { return *channels_; }

    // ---- source
    struct Sent {
        device::Channel channel;
        bool awaits_taken = false; // what follows the message comes after channel_await_taken()
    };
    // Enqueues the message in the operand's captured stream, and tells the target. None if there is no room before
    // graphs that have ended are cleared away.
    base::Result<std::optional<Sent>> send(Send& send);
    // When send() has found no room: what will make some, where it is on the device.
    std::optional<CompletionPoint> next_room() const {
        return clearing_.empty() ? std::nullopt : std::optional(CompletionPoint::at(clearing_.front().done.get()));
    }

    // ---- target
    // What a captured message brings beside its envelope.
    struct Arrived {
        CapturedMessage message;
        std::optional<RemoteBuffer> answer; // where its source wants what is reduced of it: of one that is handed over
    };
    // Whether receive() will find the source's memory mapped, if it needs it. Where that cannot be done yet, as what is
    // mapped in its place cannot be unmapped: false, or an error if it `must` be.
    base::Result<bool> map_source(const Arrived& arrived, uint64_t bytes, bool must);
    // Puts the message into the captured `stream`, with what else the call does (CapturedExchange). REQUIRES check().
    // By the thread that captures.
    base::Result<void> receive(Receive& receive, const Arrived& arrived, const Envelope& envelope,
                               device::Stream stream);
    // The same, but for what is enqueued: that is the caller's. `from`: where the bytes lie, if not in the channel.
    struct Taken {
        device::Channel channel;
        const std::byte* from = nullptr;
        std::byte* answer = nullptr;
    };
    base::Result<Taken> open(Receive& receive, const Arrived& arrived, const Envelope& envelope, device::Stream stream);
    // The message that has this name at its source is received by no graph.
    void tell_ended(uint64_t id);
    static Route route_of(CapturedMessage::Way way);

    // ---- for the hang table
    // A captured message, and what its side says of its wait; of the graphs that are not known to be gone.
    struct Captured {
        Envelope envelope{};
        Route route{};
        const device::ChannelWait* wait = nullptr;
        bool sent = false;
    };
    template <typename Call>
    void for_each_captured(const Call& call) const {
        for (const auto& [id, source] : sources_)
            if (source.about.wait != nullptr)
                call(source.about);
        for (const Target& target : targets_)
            if (target.about.wait != nullptr)
                call(target.about);
    }

    void on_notice(const Record& notice) override; // the target's graph is gone
    bool quiet() const override { return sources_.empty() && targets_.empty() && clearing_.empty(); }
    bool progress() override;
    // No graph runs any more, and the peer's workspace is about to be unmapped: nothing in it is cleared from now on.
    base::Result<void> let_go() override;
    base::Result<void> close() override;

  private:
    using Way = CapturedMessage::Way;
    // How many captured messages' graphs are gone. Outlives the peer: a graph may.
    struct Ends {
        std::atomic<uint32_t> count{0};
    };
    // One captured message's graph.
    struct GraphEnd {
        std::shared_ptr<Ends> ends;
        std::atomic<bool> come{false}; // released with the count
    };
    struct Slab {
        std::byte* memory;
        size_t bytes;
    };
    struct Source {
        std::shared_ptr<GraphEnd> graph;
        bool ended_at_target = false;
        size_t at_target; // offsets in the two allotments
        size_t at_source;
        size_t bytes;
        std::optional<Slab> slab;
        device::ChannelWait* wait = nullptr;
        Captured about{};
    };
    struct Target {
        std::shared_ptr<GraphEnd> graph;
        uint64_t id;
        std::array<uint64_t, 2> allocation_ids{}; // of the source's, held mapped: of the message, of the answer; or 0
        device::ChannelWait* wait = nullptr;
        Captured about{};
    };
    struct Clearing {
        Source source;
        EventLease done;
    };

    bool is_open();
    WorkspaceView own_workspace() const { return resources_.workspace.view(); }
    WorkspaceView peers_workspace() const;
    std::optional<RemoteBuffer> describe_answer(const Send& send) const;
    bool is_better_read(const Send& send) const;
    Way way_of(const Send& send) const;
    Way way_beside_channel(const Operand& operand) const;
    std::optional<Source> allot(size_t bytes);
    base::Result<std::optional<Source>> allot_for(const Send& send, Way& way);
    base::Result<RemoteBuffer> describe(const Operand& operand, Way way, const Source& source);
    void free(const Source& source);
    bool some_end() const;
    bool none_has_ended() const {
        return ends_->count.load(std::memory_order_acquire) == ends_seen_ && clearing_.empty();
    }
    base::Result<std::shared_ptr<GraphEnd>> watch(device::Stream captured);
    base::Result<void> enqueue(device::Channel channel, Send& send, Way way, Source& source, bool awaits_taken);
    base::Result<device::Channel> source_end(const Source& source, uint32_t runs);
    base::Result<device::Channel> target_end(const CapturedMessage& message, size_t bytes, uint32_t runs);
    void log_runs(device::Channel& channel, uint32_t runs, std::byte* place) const;
    base::Result<const std::byte*> hold(const RemoteBuffer& buffer, uint64_t& allocation_id);
    base::Result<bool> map(const RemoteBuffer& buffer, bool must);
    base::Result<void> pull(device::Channel channel, const std::byte* from, const Operand& operand, uint64_t bytes,
                            device::Stream stream);
    base::Result<Slab> take_slab(size_t bytes);
    void sweep_targets();
    base::Result<void> sweep();
    base::Result<void> clear(Source source);
    base::Result<void> clear_ended();

    Resources& resources_;
    Peer& peer_;
    device::Channels* const channels_; // null where check() says no
    Allotment at_target_;
    Allotment at_source_;
    std::shared_ptr<Ends> ends_ = std::make_shared<Ends>();
    uint32_t ends_seen_ = 0;
    uint64_t next_id_ = 1;
    std::unordered_map<uint64_t, Source> sources_;
    std::vector<Target> targets_;
    std::vector<Clearing> clearing_;
    std::vector<Slab> idle_slabs_; // never freed while streams wait for peers: that could wait for them
};

} // namespace gpurun::transfer
