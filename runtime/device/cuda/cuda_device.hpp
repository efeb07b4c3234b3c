// A GPU as a Device: its primary context, and what this process has made in it.
//
// Every function runs with the primary context current and leaves the caller's as it was. Streams and events of the
// user's own, made with CUDA's API, are as good as those made here. What is not given back before the device goes
// away stays with the process, as all of CUDA's memory does: the user may still hold it.
//
// One file a section of the contract: memory.cpp, describe.cpp, sharing.cpp, streams.cpp, mails.cpp, graphs.cpp,
// channels.cpp, events.cpp, clock.cpp.
#pragma once

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
#include "device/cuda/address_record.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/elsewhere.hpp"
#include "device/cuda/graph_runs.hpp"
#include "device/cuda/handle_set.hpp"
#include "device/cuda/kernel_arguments.hpp"
#include "device/cuda/kernels.hpp"
#include "device/cuda/known_allocations.hpp"
#include "device/cuda/mapped_pieces.hpp"
#include "device/cuda/pinned_allocations.hpp"
#include "device/device.hpp"
#include "device/shared_host.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace gpurun::device::cuda {

// What one GPU can do and is, read once.
struct Facts {
    Info info;
    CUdevice device = 0;
    CUcontext context = nullptr;
    bool mig = false;            // a part of a GPU
    bool host_pointers = true;   // streams use registered host memory by its host address
    bool counters = true;        // stream memory operations
    bool ordered_memory = false; // cudaMallocAsync
    bool early_kernels = false;  // a kernel may start before those that it follows have ended
    int urgent_priority = 0;     // of streams: the smaller, the more urgent
};

// By which the CPU asks the kernel for the time.
struct ClockPage {
    alignas(64) Counter asked; // which round; kNoMoreRounds ends it
    alignas(64) Counter time;  // the answer; 0: not yet
};

class CudaDevice final : public Device,
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
    CudaDevice(const Driver& driver, Facts facts, Kernels kernels)
        : driver_(driver), facts_(std::move(facts)), kernels_(kernels), pieces_(driver_, facts_.context, facts_.device),
          elsewhere_(driver_, facts_.context), graph_runs_(driver_) {}
    ~CudaDevice() override;

    const Info& info() const override { return facts_.info; }
    void share_among(uint32_t processes) override { processes_ = std::max(processes_.load(), processes); }

    Counters* counters() override { return facts_.counters ? this : nullptr; }
    FencedCopies* fenced_copies() override { return facts_.counters ? this : nullptr; }
    Mails* mails() override { return facts_.counters ? this : nullptr; }
    Graphs* graphs() override { return this; }
    Channels* channels() override { return facts_.counters ? this : nullptr; }
    OrderedMemory* ordered_memory() override { return facts_.ordered_memory ? this : nullptr; }
    OtherDevices* other_devices() override { return this; }
    Clock* clock() override { return this; }
    Reduce* reduce() override { return this; }
    FusedReduce* fused_reduce() override { return facts_.counters ? this : nullptr; }

    base::Result<void> make_current() override;
    base::Result<platform::ClockReading> read_clock() override;

    int shareable_fd() const override { return -1; }
    base::Result<void> add_peer(int peer, const Identity& identity, int fd) override;
    // Nothing that could be done: CUDA neither completes the events of a process that ends, nor does an importer's
    // own record end the waits on them (seen on H200, driver 580; tests/device/facts). Hence the counter fence.
    void release_peer(int) override {}
    void forget_peer(int peer) override;
    base::Result<void> can_reach(const Identity& identity) override;

    base::Result<void*> allocate(size_t bytes) override;
    base::Result<void> free(void* pointer) override;
    base::Result<void*> allocate_ordered(size_t bytes, Stream stream) override;
    base::Result<void> free_ordered(void* pointer, Stream stream) override;
    base::Result<void*> allocate_pinned(size_t bytes) override;
    base::Result<void> free_pinned(void* pointer) override;
    base::Result<void> free_later(void* pointer) override;
    void give_back() override;
    base::Result<void> register_host(void* memory, size_t bytes) override;
    base::Result<void> unregister_host(void* memory) override;
    base::Result<Buffer> describe(const void* pointer, size_t bytes) override;
    base::Result<MemoryHandle> export_memory(const Buffer& buffer) override;
    base::Result<void*> import_memory(int peer, const MemoryHandle& handle) override;
    std::vector<void*> take_stale_imports(int peer) override { return pieces_.take_stale(peer); }
    base::Result<void> close_memory(void* imported) override;

    base::Result<Stream> create_stream() override { return make_stream(0); }
    base::Result<Stream> create_urgent_stream() override { return make_stream(facts_.urgent_priority); }
    base::Result<void> reserve_urgent_streams(size_t count) override;
    void release_reserved_streams(size_t count) override;
    base::Result<Stream> take_reserved_stream() override;
    base::Result<void> destroy_stream(Stream stream) override;
    base::Result<bool> is_captured(Stream stream) override;
    base::Result<void> synchronize(Stream stream) override;
    base::Result<bool> query(Stream stream) override;
    base::Result<uint64_t> name(Stream stream) override;
    base::Result<void> synchronize_all() override;

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
    base::Result<void> watch_counter(Stream stream, Counter* counter, uint64_t value) override;
    base::Result<void> copy_fenced(const FencedCopy& copy, Stream stream) override;
    base::Result<void> reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                       std::span<const void* const> operands, Stream stream) override;
    base::Result<void> put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                      Stream stream) override;
    base::Result<void> reduce_in_graph(const GraphReduction& reduction, Stream stream) override;

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
    base::Result<void> channel_pull(const Channel& channel, void* destination, const void* source, size_t bytes,
                                    uint32_t* ticket, Stream stream) override;
    base::Result<void> channel_exchange(std::span<const ChannelPut> puts, std::span<const ChannelTake> takes,
                                        const ExchangeBlocks& blocks, Stream stream) override;
    base::Result<void> channel_meet(std::span<const Channel> puts, std::span<const Channel> awaited,
                                    Stream stream) override;
    base::Result<void> channel_part(std::span<const Channel> taken, std::span<const Channel> awaited,
                                    Stream stream) override;

    base::Result<Event> create_event() override;
    base::Result<void> destroy_event(Event event) override;
    base::Result<void> record(Event event, Stream stream) override;
    base::Result<void> await_event(Stream stream, Event event) override;
    base::Result<bool> query(Event event) override;
    base::Result<bool> truly_complete(Event event) override { return query(event); } // nothing is ever released
    base::Result<void> synchronize(Event event) override;
    base::Result<Event> create_shared_event() override;
    base::Result<EventHandle> export_event(Event event) override;
    base::Result<Event> import_event(int peer, const EventHandle& handle) override;

    struct Attributes; // of an address: describe.cpp
    struct Mapping;

  private:
    ScopedContext enter() const { return ScopedContext(driver_, facts_.context); }
    struct Entered {
        ScopedContext context;
        BesideCapture beside;
    };
    Entered enter_beside_capture() const { return {ScopedContext(driver_, facts_.context), BesideCapture(driver_)}; }
    base::Error out_of_memory(size_t bytes) const;
    base::Result<SharedHostMemory::Allocation> pin(size_t bytes);
    base::Result<void> unpin(void* pointer);
    base::Result<CUdeviceptr> device_address(const Counter* counter) const;
    base::Result<uint64_t*> device_address(const Times* times) const; // null where there are none
    base::Result<PutMailArguments> arguments_of(const OutgoingMail& put) const;
    base::Result<TakeMailArguments> arguments_of(const IncomingMail& take, bool seen) const;
    base::Result<FencedCopyArguments> arguments_of(const FencedCopy& copy) const;
    base::Result<FusedOperand> arguments_of(const FusedReduction::Operand& operand) const;
    base::Result<void> arguments_of(std::span<const CounterValue> counters, CounterArguments* arguments,
                                    uint32_t& number) const;
    uint32_t most_mail_blocks(size_t mails, size_t longest, uint32_t other_blocks) const;
    uint32_t most_mail_blocks(const Exchange& exchange, uint32_t other_blocks) const;
    template <typename Arguments>
    base::Result<void> exchange_by(CUfunction kernel, const Exchange& exchange, Stream stream);
    base::Result<void> prepare_clock();
    base::Result<ChannelArguments> arguments(const Channel& channel) const;
    base::Result<RunLogArguments> log_arguments(const Channel& channel) const; // without `taken` if it has none
    base::Result<LoggedChannel> logged_arguments(const Channel& channel) const;
    base::Result<LoggedPut> logged_arguments(const ChannelPut& put) const;
    base::Result<void> logged_arguments(std::span<const Channel> channels, LoggedChannel* arguments,
                                        uint32_t& number) const;
    template <typename Arguments>
    base::Result<void> launch(const Channel& channel, const ChannelKernel& kernel, unsigned grid, unsigned threads,
                              const Arguments& arguments, Stream stream) const;
    template <typename Arguments>
    base::Result<void> launch(CUfunction kernel, unsigned grid, unsigned threads, const Arguments& arguments,
                              Stream stream) const; // launch.hpp
    struct Capture {
        cuuint64_t number = 0;
        CUgraph graph = nullptr;
    };
    base::Result<Capture> capture_of(Stream stream) const;
    std::optional<Buffer> recall(const void* pointer, size_t bytes) const;
    base::Result<Buffer> describe_unknown(const void* pointer, size_t bytes);
    base::Result<Buffer> describe_host(const Attributes& found, const void* pointer, size_t bytes);
    base::Result<Buffer> describe_allocation(const Attributes& found, const void* pointer, size_t bytes);
    base::Result<Buffer> describe_mapped(const Attributes& found, const void* pointer, size_t bytes);
    struct Span; // of pieces
    base::Result<Span> walk(const void* pointer, size_t bytes) const;
    std::optional<unsigned> granted(CUdevice device, const void* pointer) const;
    base::Result<CUdevice> device_of(const void* first, const void* second) const;
    void complete_copies_to(const void* pointer) const;
    base::Result<Stream> make_stream(int priority);
    base::Result<Event> make_event(unsigned flags);
    base::Result<std::string> peer_name(int peer);

    const Driver driver_;
    const Facts facts_;
    const Kernels kernels_;              // in the primary context, for as long as that lives
    std::atomic<uint32_t> processes_{1}; // that use the device, as share_among() says

    HandleSet device_memory_;
    HandleSet ordered_memory_;
    SharedHostMemory host_memory_; // that is pinned: pinned_memory_ knows it to the byte
    PinnedAllocations pinned_memory_;
    HandleSet device_memory_later_; // for give_back(), as is the next
    HandleSet graphs_later_;
    HandleSet imported_memory_;
    HandleSet streams_;
    struct Reserve {      // streams that nobody has taken yet
        std::mutex mutex; // guards the others
        std::vector<Stream> streams;
        size_t wanted = 0; // by all who have reserved some
    } reserve_;
    HandleSet events_;
    HandleSet graphs_;
    AddressRecord seen_;
    KnownAllocations known_; // of cudaMalloc(), on the rank's device
    MappedPieces pieces_;
    Elsewhere elsewhere_;
    GraphRuns graph_runs_;
    struct Clock {
        std::mutex mutex; // guards the others
        ClockPage* page = nullptr;
        Stream stream;
        bool lost = false; // a kernel has not come
    } clock_;

    std::mutex peers_mutex_;
    std::map<int, Identity> peers_;
};

inline CUdeviceptr device_pointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline void* host_view(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }
inline CUstream native(Stream stream) { return stream.native; }
inline CUevent native(Event event) { return event.native; }

} // namespace gpurun::device::cuda
