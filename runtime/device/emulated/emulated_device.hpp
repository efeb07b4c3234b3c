// The emulated device: the device contract on CPU threads and shared memory, for machines without a GPU.
//
// The parts do the work: Memory (what this process has), Peers (what it has mapped of others), Streams, Events. This
// class checks each call against the contract, strictly, and passes it on. Strictness is its purpose: mistakes that a
// GPU tolerates, or shows once a month, are refused here every time.
//
// It has all capabilities, but those that GPURUN_EMULATED_CAPABILITIES switches off: with none it is what the core of
// the contract asks for, and no more.
//
// With a seed, operations linger, copies happen in pieces out of order, and the calls that may wait for the device
// do so now and then.
#pragma once

#include "device/capabilities.hpp"
#include "device/capability/channels.hpp"
#include "device/capability/clock.hpp"
#include "device/capability/counters.hpp"
#include "device/capability/fenced_copies.hpp"
#include "device/capability/fused_reduce.hpp"
#include "device/capability/graphs.hpp"
#include "device/capability/mails.hpp"
#include "device/capability/ordered_memory.hpp"
#include "device/capability/other_devices.hpp"
#include "device/capability/reduce.hpp"
#include "device/device.hpp"
#include "device/emulated/events.hpp"
#include "device/emulated/memory.hpp"
#include "device/emulated/pageable_memo.hpp"
#include "device/emulated/peers.hpp"
#include "device/emulated/reach.hpp"
#include "device/emulated/streams.hpp"
#include "device/options.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace gpurun::device::emulated {

class EmulatedDevice final : public Device,
                             public Counters,
                             public FencedCopies,
                             public Mails,
                             public Graphs,
                             public Channels,
                             public OrderedMemory,
                             public OtherDevices,
                             public Clock,
                             public Reduce,
                             public FusedReduce {
  public:
    EmulatedDevice(Info info, const CapabilitySet& capabilities, uint32_t count, Reach reach,
                   std::unique_ptr<Memory> memory, const Options& options);

    const Info& info() const override { return info_; }

    Counters* counters() override { return if_on<Capability::kCounters>(); }
    FencedCopies* fenced_copies() override { return if_on<Capability::kFencedCopies>(); }
    Mails* mails() override { return if_on<Capability::kMails>(); }
    Graphs* graphs() override { return if_on<Capability::kGraphs>(); }
    Channels* channels() override { return if_on<Capability::kChannels>(); }
    OrderedMemory* ordered_memory() override { return if_on<Capability::kOrderedMemory>(); }
    OtherDevices* other_devices() override { return if_on<Capability::kOtherDevices>(); }
    Clock* clock() override { return if_on<Capability::kClock>(); }
    Reduce* reduce() override { return if_on<Capability::kReduce>(); }
    FusedReduce* fused_reduce() override { return if_on<Capability::kFusedReduce>(); }

    base::Result<void> make_current() override { return {}; }
    base::Result<platform::ClockReading> read_clock() override;

    int shareable_fd() const override { return memory_->fd(); }
    base::Result<void> add_peer(int peer, const Identity& identity, int fd) override;
    void forget_peer(int peer) override { peers_.forget(peer); }
    void release_peer(int peer) override {
        peers_.release(peer);
        streams_.release_dead();
    }
    base::Result<void> can_reach(const Identity& identity) override;

    base::Result<void*> allocate(size_t bytes) override { return memory_->allocate(bytes); }
    base::Result<void> free(void* pointer) override;
    base::Result<void*> allocate_ordered(size_t bytes, Stream stream) override;
    base::Result<void> free_ordered(void* pointer, Stream stream) override;
    base::Result<void*> allocate_pinned(size_t bytes) override { return after_change(memory_->allocate_pinned(bytes)); }
    base::Result<void> free_pinned(void* pointer) override { return after_change(memory_->free_pinned(pointer)); }
    base::Result<void> free_later(void* pointer) override;
    void give_back() override;
    base::Result<void> register_host(void* memory, size_t bytes) override {
        return after_change(memory_->register_host(memory, bytes));
    }
    base::Result<void> unregister_host(void* memory) override { return after_change(memory_->unregister_host(memory)); }
    base::Result<Buffer> describe(const void* pointer, size_t bytes) override;
    const std::atomic<uint64_t>* host_memory_changes() const override { return &PageableMemo::changes(); }
    base::Result<MemoryHandle> export_memory(const Buffer& buffer) override;
    base::Result<void*> import_memory(int peer, const MemoryHandle& handle) override;
    base::Result<void> close_memory(void* imported) override;

    base::Result<Stream> create_stream() override { return streams_.create(); }
    base::Result<void> destroy_stream(Stream stream) override { return streams_.destroy(stream); }
    base::Result<bool> is_captured(Stream stream) override;
    base::Result<void> synchronize(Stream stream) override;
    base::Result<bool> query(Stream stream) override;
    base::Result<uint64_t> name(Stream stream) override;
    base::Result<void> synchronize_all() override { return streams_.wait_all(); }

    base::Result<void> copy(void* destination, const void* source, size_t bytes, Stream stream) override;
    base::Result<void> fill(void* destination, int value, size_t bytes, Stream stream) override;
    base::Result<void> copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) override;
    base::Result<void> fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) override;
    base::Result<void> call_host(Stream stream, void (*function)(void*), void* argument) override;
    base::Result<void> write_counter(Stream stream, Counter* counter, uint64_t value) override;
    base::Result<void> await_counter(Stream stream, Counter* counter, uint64_t value) override;
    base::Result<void> write_time(Stream stream, std::atomic<int64_t>* where) override;

    base::Result<void> put_mail(const Mail& mail, const void* source, Stream stream) override;
    base::Result<void> take_mail(const Mail& mail, void* destination, size_t bytes, bool seen, Stream stream) override;
    base::Result<void> exchange(const Exchange& all, Stream stream) override;
    base::Result<void> put_mails(std::span<const OutgoingMail> mails, Stream stream) override;
    base::Result<void> take_mails(std::span<const IncomingMail> mails, Stream stream) override;
    base::Result<void> watch_counter(Stream stream, Counter* counter, uint64_t value) override {
        return await_counter(stream, counter, value);
    }
    base::Result<void> copy_fenced(const FencedCopy& copy, Stream stream) override;
    base::Result<void> reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                       std::span<const void* const> operands, Stream stream) override;
    base::Result<void> put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                      Stream stream) override;

    base::Result<void> begin_capture(Stream stream) override;
    base::Result<uint64_t> capture_number(Stream stream) override;
    base::Result<Graph> end_capture(Stream stream) override;
    base::Result<void> launch(Graph graph, Stream stream) override;
    std::unique_lock<std::mutex> keep_graphs_still() override;
    base::Result<void> destroy_graph(Graph graph) override;
    base::Result<void> destroy_graph_later(Graph graph) override;
    base::Result<void> at_graph_end(Stream captured, void (*function)(void*), void* argument) override;
    base::Result<void> channel_put(const Channel& channel, const void* source, Stream stream) override;
    base::Result<void> channel_await_taken(const Channel& channel, Stream stream) override;
    base::Result<void> channel_take(const Channel& channel, void* destination, size_t bytes, Stream stream) override;
    base::Result<void> channel_await_put(const Channel& channel, Stream stream) override;
    base::Result<void> channel_tell_taken(const Channel& channel, Stream stream) override;
    base::Result<void> channel_exchange(std::span<const device::ChannelPut> puts,
                                        std::span<const device::ChannelTake> takes,
                                        const device::ExchangeBlocks& blocks, Stream stream) override;
    base::Result<void> channel_meet(std::span<const Channel> puts, std::span<const Channel> awaited,
                                    Stream stream) override;
    base::Result<void> channel_part(std::span<const Channel> taken, std::span<const Channel> awaited,
                                    Stream stream) override;
    base::Result<void> reduce_in_graph(const GraphReduction& reduction, Stream stream) override;
    base::Result<void> channel_pull(const Channel& channel, void* destination, const void* source, size_t bytes,
                                    uint32_t* ticket, Stream stream) override;

    base::Result<Event> create_event() override { return events_.create(); }
    base::Result<void> destroy_event(Event event) override { return events_.destroy(event); }
    base::Result<void> record(Event event, Stream stream) override;
    base::Result<void> await_event(Stream stream, Event event) override;
    base::Result<bool> query(Event event) override;
    base::Result<bool> truly_complete(Event event) override;
    base::Result<void> synchronize(Event event) override;
    base::Result<Event> create_shared_event() override { return events_.create_shared(); }
    base::Result<EventHandle> export_event(Event event) override { return events_.export_event(event); }
    base::Result<Event> import_event(int peer, const EventHandle& handle) override;

  private:
    template <Capability kCapability>
    EmulatedDevice* if_on() {
        return capabilities_[static_cast<size_t>(kCapability)] ? this : nullptr;
    }
    enum class Side { kHost, kDevice };
    // Which side a stream would touch at [pointer, pointer + bytes); kBuffer or kDevice if it cannot.
    base::Result<Side> stream_side(const void* pointer, size_t bytes);
    base::Result<void> check_placement(const void* pointer, size_t bytes, Placement placement, const char* what);
    base::Result<void> check_counter(const Counter* counter);
    base::Result<void> check_times(const Times* times); // or null
    base::Result<void> check_times(const void* first, size_t bytes);
    // Device memory, aligned to `alignment`; of this process, where `own`.
    base::Result<void> check_device_memory(const char* what, const void* pointer, size_t bytes, size_t alignment,
                                           bool own);
    base::Result<void> check_operand(const FusedReduction::Operand& operand, size_t bytes);
    base::Result<void> check_small(const Mail& mail, size_t bytes, bool own_words);
    base::Result<void> check_mail(const Mail& mail, size_t bytes, bool own_words);
    base::Result<void> take_all(StreamQueue& queue, std::span<const IncomingMail> mails);
    enum class ChannelEnd { kSource, kTarget };
    base::Result<void> check_channel(const Channel& channel, ChannelEnd end);
    base::Result<void> check_log(const Channel& channel);
    // In calls that may wait for the device: with a seed, half of the time, waits.
    base::Result<void> maybe_wait(); // as CUDA does when it frees, whatever runs
    base::Result<std::shared_ptr<GraphBody>> take_graph(Graph graph);
    bool is_freed_later(const Buffer& buffer);

    template <typename Result>
    static Result after_change(Result result) {
        PageableMemo::forget();
        return result;
    }

    const Info info_;
    const CapabilitySet capabilities_;
    const uint32_t count_;
    const Reach reach_;
    std::mutex pace_mutex_;
    Pace pace_; // of maybe_wait(); guarded by pace_mutex_

    // In this order: streams use the peers' words and the memory until they are gone.
    const std::unique_ptr<Memory> memory_;
    Peers peers_;
    Streams streams_;
    Events events_;

    std::mutex launching_; // before graphs_mutex_
    std::mutex graphs_mutex_;
    std::unordered_map<Graph, std::shared_ptr<GraphBody>, HashHandle> graphs_; // guarded by graphs_mutex_
    std::vector<std::weak_ptr<GraphBody>> destroyed_graphs_;                   // so is this: those that may still run
    std::vector<std::shared_ptr<GraphBody>> graphs_later_; // and this: those to be destroyed by give_back()
    std::mutex freed_mutex_;
    std::map<void*, Placement> freed_later_; // guarded by freed_mutex_
    std::atomic<bool> any_freed_later_{false};
};

} // namespace gpurun::device::emulated
