// An emulated device that counts what is made on it, and fails when a test says so: for good, as GPUs do. What gives
// things back goes through all the same.
#pragma once

#include "device/device.hpp"

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

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpurun::test {

class ScriptedDevice final : public device::Device,
                             public device::Counters,
                             public device::FencedCopies,
                             public device::Mails,
                             public device::Graphs,
                             public device::Channels,
                             public device::OrderedMemory,
                             public device::OtherDevices,
                             public device::Clock,
                             public device::Reduce,
                             public device::FusedReduce {
  public:
    using Stream = device::Stream;
    using Event = device::Event;
    using Graph = device::Graph;
    template <typename T>
    using Result = base::Result<T>;

    explicit ScriptedDevice(std::unique_ptr<Device> real) : real_(std::move(real)), info_(real_->info()) {}
    // As CUDA: what waits for an event of a dead rank stays blocked.
    void keep_events() { info_.releases_events = false; }
    // However long a call takes, nothing else is enqueued meanwhile (Info::shortest_enqueue_ns).
    void enqueue_slowly() { info_.shortest_enqueue_ns = INT64_MAX; }
    void lack_reduce() { lacks_reduce_ = true; }

    size_t made = 0;               // streams, events and pieces of memory
    std::atomic<size_t> calls = 0; // that can fail
    size_t works_for = SIZE_MAX;   // so many calls, and for none after them
    size_t awaited = 0;            // counters, in exchanges and fused reductions

    // What was enqueued, and asked, from a time on.
    struct Enqueued {
        size_t kernels = 0;
        size_t events = 0;        // recorded
        size_t event_waits = 0;   // of streams
        size_t counter_waits = 0; // the same, and writes, by memory operations
        size_t counter_writes = 0;
        size_t copies = 0;    // by a copy engine
        size_t queries = 0;   // of events and streams
        size_t elsewhere = 0; // of all these but queries, what is in another stream than the one that is watched
    };
    // Since the last time. Any thread.
    Enqueued take_enqueued() {
        const std::lock_guard lock(counting_);
        return std::exchange(enqueued_, Enqueued());
    }
    Stream watched; // a stream of the program's

    Device& real() { return *real_; } // for what the test itself does: that is not counted, and never fails

    const device::Info& info() const override { return info_; }

    // ---- capabilities
    device::Counters* counters() override { return real_->counters() != nullptr ? this : nullptr; }
    device::FencedCopies* fenced_copies() override { return real_->fenced_copies() != nullptr ? this : nullptr; }
    device::Mails* mails() override { return real_->mails() != nullptr ? this : nullptr; }
    device::Graphs* graphs() override { return real_->graphs() != nullptr ? this : nullptr; }
    device::Channels* channels() override { return real_->channels() != nullptr ? this : nullptr; }
    device::OrderedMemory* ordered_memory() override { return real_->ordered_memory() != nullptr ? this : nullptr; }
    device::OtherDevices* other_devices() override { return real_->other_devices() != nullptr ? this : nullptr; }
    device::Clock* clock() override { return real_->clock() != nullptr ? this : nullptr; }
    device::Reduce* reduce() override { return real_->reduce() != nullptr && !lacks_reduce_ ? this : nullptr; }

    device::FusedReduce* fused_reduce() override {
        return real_->fused_reduce() != nullptr && !lacks_reduce_ ? this : nullptr;
    }

    Result<void> put_and_reduce(std::span<const device::OutgoingMail> puts, const device::FusedReduction& reduction,
                                Stream stream) override {
        awaited += reduction.awaits.size();
        count(&Enqueued::kernels, stream);
        size_t answers = 0;
        for (const auto& each : reduction.operands)
            answers += each.answer != nullptr ? 1 : 0;
        return in_graph(numbered("reduce buffers", reduction.operands.size(), answers), stream,
                        [&] { return real_->fused_reduce()->put_and_reduce(puts, reduction, stream); });
    }
    Result<void> reduce_elements(const base::Reduction& reduction, size_t elements, void* result,
                                 std::span<const void* const> operands, Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->reduce()->reduce_elements(reduction, elements, result, operands, stream); });
    }
    Result<void> make_current() override { return real_->make_current(); }
    Result<platform::ClockReading> read_clock() override {
        return tried([&] { return real_->clock()->read_clock(); });
    }

    // ---- peers
    int shareable_fd() const override { return real_->shareable_fd(); }
    Result<void> add_peer(int peer, const device::Identity& identity, int fd) override {
        return real_->add_peer(peer, identity, fd);
    }
    void release_peer(int peer) override { real_->release_peer(peer); }
    void forget_peer(int peer) override { real_->forget_peer(peer); }
    Result<void> can_reach(const device::Identity& identity) override { return real_->can_reach(identity); }

    // ---- memory
    Result<void*> allocate(size_t bytes) override {
        return makes([&] { return real_->allocate(bytes); });
    }
    Result<void> free(void* pointer) override { return real_->free(pointer); }
    Result<void*> allocate_ordered(size_t bytes, Stream stream) override {
        return makes([&] { return real_->ordered_memory()->allocate_ordered(bytes, stream); });
    }
    Result<void> free_ordered(void* pointer, Stream stream) override {
        return real_->ordered_memory()->free_ordered(pointer, stream);
    }
    Result<void*> allocate_pinned(size_t bytes) override {
        return makes([&] { return real_->allocate_pinned(bytes); });
    }
    Result<void> free_pinned(void* pointer) override { return real_->free_pinned(pointer); }
    Result<void> free_later(void* pointer) override { return real_->free_later(pointer); }
    void give_back() override { real_->give_back(); }
    Result<void> register_host(void* memory, size_t bytes) override {
        return makes([&] { return real_->register_host(memory, bytes); });
    }
    Result<void> unregister_host(void* memory) override { return real_->unregister_host(memory); }
    Result<device::Buffer> describe(const void* pointer, size_t bytes) override {
        return tried([&] { return real_->describe(pointer, bytes); });
    }
    const std::atomic<uint64_t>* host_memory_changes() const override { return real_->host_memory_changes(); }
    Result<device::MemoryHandle> export_memory(const device::Buffer& buffer) override {
        return tried([&] { return real_->export_memory(buffer); });
    }
    Result<void*> import_memory(int peer, const device::MemoryHandle& handle) override {
        return makes([&] { return real_->import_memory(peer, handle); });
    }
    Result<void> close_memory(void* imported) override { return real_->close_memory(imported); }

    // ---- streams
    Result<Stream> create_stream() override {
        return makes([&] { return real_->create_stream(); });
    }
    Result<Stream> create_urgent_stream() override {
        return makes([&] { return real_->create_urgent_stream(); });
    }
    Result<void> reserve_urgent_streams(size_t count) override {
        return tried([&] { return real_->reserve_urgent_streams(count); });
    }
    Result<Stream> take_reserved_stream() override {
        return makes([&] { return real_->take_reserved_stream(); });
    }
    Result<void> destroy_stream(Stream stream) override { return real_->destroy_stream(stream); }
    Result<bool> is_captured(Stream stream) override {
        return tried([&] { return real_->is_captured(stream); });
    }
    Result<void> synchronize(Stream stream) override {
        return tried([&] { return real_->synchronize(stream); });
    }
    Result<bool> query(Stream stream) override {
        count(&Enqueued::queries, watched);
        return tried([&] { return real_->query(stream); });
    }
    Result<uint64_t> name(Stream stream) override {
        return tried([&] { return real_->name(stream); });
    }
    Result<void> synchronize_all() override {
        return tried([&] { return real_->synchronize_all(); });
    }

    // ---- enqueue
    Result<void> copy(void* destination, const void* source, size_t bytes, Stream stream) override {
        count(&Enqueued::copies, stream);
        return tried([&] { return real_->copy(destination, source, bytes, stream); });
    }
    Result<void> fill(void* destination, int value, size_t bytes, Stream stream) override {
        return tried([&] { return real_->fill(destination, value, bytes, stream); });
    }
    Result<void> copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) override {
        return tried([&] { return real_->other_devices()->copy_elsewhere(destination, source, bytes, stream); });
    }
    Result<void> fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) override {
        return tried([&] { return real_->other_devices()->fill_elsewhere(destination, value, bytes, stream); });
    }
    Result<void> call_host(Stream stream, void (*function)(void*), void* argument) override {
        return tried([&] { return real_->call_host(stream, function, argument); });
    }
    Result<void> write_counter(Stream stream, device::Counter* counter, uint64_t value) override {
        count(&Enqueued::counter_writes, stream);
        return tried([&] { return real_->counters()->write_counter(stream, counter, value); });
    }
    Result<void> await_counter(Stream stream, device::Counter* counter, uint64_t value) override {
        count(&Enqueued::counter_waits, stream);
        return tried([&] { return real_->counters()->await_counter(stream, counter, value); });
    }
    Result<void> write_time(Stream stream, std::atomic<int64_t>* where) override {
        return tried([&] { return real_->clock()->write_time(stream, where); });
    }
    Result<void> put_mail(const device::Mail& mail, const void* source, Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->mails()->put_mail(mail, source, stream); });
    }
    Result<void> take_mail(const device::Mail& mail, void* destination, size_t bytes, bool seen,
                           Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->mails()->take_mail(mail, destination, bytes, seen, stream); });
    }
    Result<void> exchange(const device::Exchange& all, Stream stream) override {
        awaited += all.awaits.size();
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->mails()->exchange(all, stream); });
    }
    Result<void> put_mails(std::span<const device::OutgoingMail> mails, Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->mails()->put_mails(mails, stream); });
    }
    Result<void> take_mails(std::span<const device::IncomingMail> mails, Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->mails()->take_mails(mails, stream); });
    }
    Result<void> watch_counter(Stream stream, device::Counter* counter, uint64_t value) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->counters()->watch_counter(stream, counter, value); });
    }
    Result<void> copy_fenced(const device::FencedCopy& copy, Stream stream) override {
        count(&Enqueued::kernels, stream);
        return tried([&] { return real_->fenced_copies()->copy_fenced(copy, stream); });
    }

    // ---- graphs
    Result<uint64_t> capture_number(Stream stream) override { return real_->graphs()->capture_number(stream); }
    Result<void> begin_capture(Stream stream) override {
        return tried([&] { return real_->graphs()->begin_capture(stream); });
    }
    Result<Graph> end_capture(Stream stream) override { return real_->graphs()->end_capture(stream); }
    Result<void> launch(Graph graph, Stream stream) override {
        return tried([&] { return real_->graphs()->launch(graph, stream); });
    }
    std::unique_lock<std::mutex> keep_graphs_still() override { return real_->graphs()->keep_graphs_still(); }
    Result<void> destroy_graph(Graph graph) override { return real_->graphs()->destroy_graph(graph); }
    Result<void> destroy_graph_later(Graph graph) override { return real_->graphs()->destroy_graph_later(graph); }
    Result<void> at_graph_end(Stream captured, void (*function)(void*), void* argument) override {
        if (!works()) {
            function(argument); // at once
            return failed();
        }
        return real_->graphs()->at_graph_end(captured, function, argument);
    }
    Result<void> channel_put(const device::Channel& channel, const void* source, Stream stream) override {
        return in_graph(channel.bytes != 0 ? "put" : "signal", stream,
                        [&] { return real_->channels()->channel_put(channel, source, stream); });
    }
    Result<void> channel_await_taken(const device::Channel& channel, Stream stream) override {
        return in_graph("await taken", stream, [&] { return real_->channels()->channel_await_taken(channel, stream); });
    }
    Result<void> channel_take(const device::Channel& channel, void* destination, size_t bytes, Stream stream) override {
        return in_graph("take", stream,
                        [&] { return real_->channels()->channel_take(channel, destination, bytes, stream); });
    }
    Result<void> channel_await_put(const device::Channel& channel, Stream stream) override {
        return in_graph("await put", stream, [&] { return real_->channels()->channel_await_put(channel, stream); });
    }
    Result<void> channel_tell_taken(const device::Channel& channel, Stream stream) override {
        return in_graph("tell taken", stream, [&] { return real_->channels()->channel_tell_taken(channel, stream); });
    }
    Result<void> channel_pull(const device::Channel& channel, void* destination, const void* source, size_t bytes,
                              uint32_t* ticket, Stream stream) override {
        return in_graph("pull", stream, [&] {
            return real_->channels()->channel_pull(channel, destination, source, bytes, ticket, stream);
        });
    }
    Result<void> channel_exchange(std::span<const device::ChannelPut> puts, std::span<const device::ChannelTake> takes,
                                  const device::ExchangeBlocks& blocks, Stream stream) override {
        return in_graph(numbered("exchange", puts.size(), takes.size()), stream,
                        [&] { return real_->channels()->channel_exchange(puts, takes, blocks, stream); });
    }
    Result<void> channel_meet(std::span<const device::Channel> puts, std::span<const device::Channel> awaited_,
                              Stream stream) override {
        return in_graph(numbered("meet", puts.size(), awaited_.size()), stream,
                        [&] { return real_->channels()->channel_meet(puts, awaited_, stream); });
    }
    Result<void> channel_part(std::span<const device::Channel> taken, std::span<const device::Channel> awaited_,
                              Stream stream) override {
        return in_graph(numbered("part", taken.size(), awaited_.size()), stream,
                        [&] { return real_->channels()->channel_part(taken, awaited_, stream); });
    }
    Result<void> reduce_in_graph(const device::GraphReduction& reduction, Stream stream) override {
        return in_graph(numbered("reduce", reduction.puts.size(), reduction.operands.size()), stream,
                        [&] { return real_->fused_reduce()->reduce_in_graph(reduction, stream); });
    }
    // What graphs are made of, by its names; not passed on.
    std::optional<std::vector<std::string>> told_of_graphs;
    Stream last_in_graph; // where the last of it was enqueued

    // ---- events
    Result<Event> create_event() override {
        return makes([&] { return real_->create_event(); });
    }
    Result<void> destroy_event(Event event) override { return real_->destroy_event(event); }
    Result<void> record(Event event, Stream stream) override {
        count(&Enqueued::events, stream);
        return tried([&] { return real_->record(event, stream); });
    }
    Result<void> await_event(Stream stream, Event event) override {
        count(&Enqueued::event_waits, stream);
        return tried([&] { return real_->await_event(stream, event); });
    }
    Result<bool> query(Event event) override {
        count(&Enqueued::queries, watched);
        return tried([&] { return real_->query(event); });
    }
    Result<bool> truly_complete(Event event) override {
        return tried([&] { return real_->truly_complete(event); });
    }
    Result<void> synchronize(Event event) override {
        return tried([&] { return real_->synchronize(event); });
    }
    Result<Event> create_shared_event() override {
        return makes([&] { return real_->create_shared_event(); });
    }
    Result<device::EventHandle> export_event(Event event) override {
        return tried([&] { return real_->export_event(event); });
    }
    Result<Event> import_event(int peer, const device::EventHandle& handle) override {
        return makes([&] { return real_->import_event(peer, handle); });
    }

  private:
    static std::string numbered(const std::string& name, size_t first, size_t second) {
        return name + " " + std::to_string(first) + " " + std::to_string(second);
    }
    template <typename Call>
    Result<void> in_graph(const std::string& name, Stream stream, const Call& call) {
        if (!told_of_graphs)
            return tried(call);
        last_in_graph = stream;
        told_of_graphs->push_back(name);
        return {};
    }
    static base::Error failed() { return {base::Status::kDevice, "the device has failed, as the test said"}; }
    bool works() { return calls++ < works_for; }
    void count(size_t Enqueued::*what, Stream stream) {
        const std::lock_guard lock(counting_);
        ++(enqueued_.*what);
        enqueued_.elsewhere += stream == watched ? 0 : 1;
    }
    template <typename Call>
    auto tried(const Call& call) -> decltype(call()) {
        if (!works())
            return failed();
        return call();
    }
    template <typename Call>
    auto makes(const Call& call) -> decltype(call()) {
        ++made;
        return tried(call);
    }

    std::unique_ptr<Device> real_;
    bool lacks_reduce_ = false;
    std::mutex counting_;
    Enqueued enqueued_;
    device::Info info_;
};

} // namespace gpurun::test
