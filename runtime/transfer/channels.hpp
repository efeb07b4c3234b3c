// Messages of graphs, between this rank and one peer.
//
// A captured call is matched once, and its message moves whenever the graphs of both sides run, without either host.
// So each has a channel of its own (device::Channel), in the workspaces of both ranks. The source allots it, and names
// it in the message's record (kCaptured): a captured send waits for nobody. Small messages cross in the channel itself.
// Large ones stay with the source, and the channel only says when they are ready and when they have been read: the
// target's stream pulls them, through a mapping of the source's memory, or of a copy that the source's graph makes in a
// slab, where its memory cannot be exported.
//
// A channel lives as long as any graph that has captured it. When the target's are gone, it tells the source
// (kChannelEnded); when the source's are gone too, the source clears the channel's memory, and allots it again.
//
// Part of a link; used under the engine lock. Only the ends of graphs come from other threads.
#pragma once

#include "transfer/awaited.hpp"
#include "transfer/import_cache.hpp"
#include "transfer/operand.hpp"
#include "transfer/path.hpp"
#include "transfer/record.hpp"

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gpurun::transfer {

class Link;

// Parts of a piece of memory that somebody else addresses. First fit.
class Allotment {
  public:
    static constexpr size_t kUnit = 128;

    explicit Allotment(size_t bytes) : free_{{0, bytes}} {}
    std::optional<size_t> take(size_t bytes); // the offset
    void give_back(size_t offset, size_t bytes);

  private:
    std::map<size_t, size_t> free_; // bytes, by offset
};

class Channels {
  public:
    Channels(Context& context, Link& link);
    ~Channels();

    // kUnsupported, with the reason and what to do, if a graph's message with the peer cannot use `operand`.
    base::Result<void> check(const Operand& operand);

    struct Sent {
        device::Channel channel;
        bool awaits_taken = false; // what follows the message comes after channel_await_taken()
        Choice choice{};
    };
    // Source: enqueues the message in the operand's captured stream, and tells the target. None if there is no room
    // before graphs that have ended are cleared away. `runs`: its name in the trace's log of them, or 0.
    base::Result<std::optional<Sent>> send(const Operand& operand, const Envelope& envelope, bool synchronous,
                                           uint32_t runs);
    // Target: whether receive() will find the source's memory mapped, if it needs it. Where that cannot be done yet, as
    // what is mapped in its place cannot be unmapped: false, or an error if it `must` be.
    base::Result<bool> map_source(const Record& record, uint64_t bytes, bool must);
    // Target: enqueues the first `bytes` of a kCaptured record's message in the captured `stream`. REQUIRES check().
    // `one_of_many`: any number may wait side by side, so each does it with one thread. By the thread that captures.
    base::Result<void> receive(const Record& record, const Operand& operand, uint64_t bytes, device::Stream stream,
                               bool one_of_many, uint32_t runs);
    // Target: the record's message is received by no graph.
    void refuse(const Record& record) { tell_ended(record.serial); }
    // By which path a kCaptured record's message goes.
    static Choice choice_of(const Record& record);
    // kChannelEnded has come.
    void ended_at_target(uint64_t id);
    // Nothing to sweep.
    bool quiet() const { return ends_->count.load(std::memory_order_acquire) == ends_seen_ && clearing_.empty(); }
    // What graphs have let go of is told to the peer, or cleared, or free again.
    base::Result<void> sweep();
    // A captured message, for people, and what its side says of its wait; of the graphs that are not known to be gone.
    struct Captured {
        Envelope envelope;
        Choice choice;
        const device::ChannelWait* wait = nullptr;
        bool sent = false;
    };
    template <typename Call>
    void for_each_captured(Call call) const {
        for (const auto& [id, source] : sources_)
            if (source.about.wait != nullptr)
                call(source.about);
        for (const Target& target : targets_)
            if (target.about.wait != nullptr)
                call(target.about);
    }
    // When send() has found no room: what will make some, where it is on the device.
    std::optional<Awaited> next_room() const {
        return clearing_.empty() ? std::nullopt : std::optional(Awaited::event_of(clearing_.front().done));
    }
    // No graph runs any more, and the peer's workspace is about to be unmapped: nothing in it is cleared from now on.
    void let_go();
    // Once the peer has unmapped what it read; lets go, too.
    base::Result<void> close();

  private:
    // How many captured messages' graphs are gone. Outlives the link: a graph may.
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
        uint64_t allocation_id; // of the source's, held mapped, or 0
        device::ChannelWait* wait = nullptr;
        Captured about{};
    };
    struct Clearing {
        Source source;
        device::Event done;
    };
    enum class Way { kInChannel, kInPlace, kSlab };

    Way way_of(const Operand& operand, uint64_t bytes) const;
    std::optional<Source> allot(size_t bytes);
    void free(const Source& source);
    bool some_end() const;
    base::Result<std::shared_ptr<GraphEnd>> watch(device::Stream captured);
    base::Result<void> enqueue(device::Channel channel, const Operand& operand, Way way, Source& source,
                               bool awaits_taken);
    base::Result<device::Channel> source_end(const Source& source, uint32_t runs);
    base::Result<device::Channel> target_end(const Record& record, size_t bytes, uint32_t runs);
    void log_runs(device::Channel& channel, uint32_t runs, std::byte* place) const;
    base::Result<void> await_put(device::Channel& channel, device::Stream stream);
    base::Result<const std::byte*> find_source(const Record& record, Target& target);
    base::Result<void> pull(device::Channel channel, const std::byte* from, const Operand& operand, uint64_t bytes,
                            device::Stream stream, bool awaits_first);
    void tell_ended(uint64_t id);
    base::Result<Slab> take_slab(size_t bytes);
    base::Result<void> clear(Source source);
    base::Result<void> clear_ended();

    Context& context_;
    Link& link_;
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
