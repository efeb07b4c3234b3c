#include "device/emulated/emulated_device.hpp"

#include "base/format.hpp"
#include "base/log.hpp"
#include "device/emulated/handles.hpp"
#include "platform/clock.hpp"
#include "platform/wake.hpp"

namespace gpurun::device::emulated {

using base::Status;

EmulatedDevice::EmulatedDevice(Info info, const CapabilitySet& capabilities, uint32_t count, Reach reach,
                               std::unique_ptr<Memory> memory, const Options& options)
    : info_(std::move(info)), capabilities_(capabilities), count_(count), reach_(std::move(reach)),
      pace_(options.emulated_seed, options.emulated_delay_us, kStreams), memory_(std::move(memory)),
      peers_(memory_->control().token()),
      streams_(memory_->control(), options.emulated_seed, options.emulated_delay_us), events_(memory_->control()) {
    PageableMemo::forget();
}

// ---- peers

base::Result<void> EmulatedDevice::add_peer(int peer, const Identity& identity, int fd) {
    platform::UniqueFd owned(fd);
    if (!owned || identity.kind != Kind::kEmulated)
        return {}; // nothing to import from it; saying so is import_memory()'s business
    const auto reached = can_reach(identity);
    return peers_.add(peer, std::move(owned), reached ? std::string() : reached.error().detail);
}

base::Result<void> EmulatedDevice::can_reach(const Identity& identity) {
    if (identity.kind != Kind::kEmulated)
        return base::error(Status::kDevice, "an emulated device cannot reach a CUDA device");
    if (identity.ordinal >= count_)
        return base::error(Status::kDevice, "there is no emulated device {}: there are {}", identity.ordinal, count_);
    if (!reach_.reaches(info_.identity.ordinal, identity.ordinal))
        return base::error(Status::kDevice,
                           "no peer access between emulated devices {} and {} (GPURUN_EMULATED_PEER_ACCESS)",
                           info_.identity.ordinal, identity.ordinal);
    return {};
}

// ---- memory

base::Result<void> EmulatedDevice::maybe_wait() {
    bool wait = false;
    {
        const std::lock_guard lock(pace_mutex_);
        wait = pace_.coin();
    }
    return wait ? streams_.wait_all() : base::Result<void>();
}

base::Result<void> EmulatedDevice::free_later(void* pointer) {
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(pointer, 1));
    const std::lock_guard lock(freed_mutex_);
    if (buffer.base != pointer || !freed_later_.emplace(pointer, buffer.placement).second)
        return base::error(Status::kBuffer, "{} is not the start of an allocation, or it was freed before", pointer);
    any_freed_later_.store(true, std::memory_order_release);
    return {};
}

void EmulatedDevice::give_back() {
    std::map<void*, Placement> freed;
    {
        const std::lock_guard lock(freed_mutex_);
        freed.swap(freed_later_);
        any_freed_later_.store(false, std::memory_order_relaxed);
    }
    std::vector<std::shared_ptr<GraphBody>> graphs; // whose end may take a while
    {
        const std::lock_guard lock(graphs_mutex_);
        graphs.swap(graphs_later_);
    }
    if (auto waited = graphs.empty() ? base::Result<void>() : maybe_wait(); !waited)
        base::log(base::LogLevel::kWarn, "graphs that were destroyed before: {}", waited.error().detail);
    for (const auto& [pointer, placement] : freed)
        if (auto done = placement == Placement::kPinned ? free_pinned(pointer) : free(pointer); !done)
            base::log(base::LogLevel::kWarn, "memory that was freed before: {}", done.error().detail);
}

base::Result<void> EmulatedDevice::free(void* pointer) {
    GPURUN_TRY(maybe_wait());
    return memory_->free(pointer);
}

base::Result<void*> EmulatedDevice::allocate_ordered(size_t bytes, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (queue->captured())
        return base::error(Status::kUnsupported,
                           "memory cannot be allocated in a captured stream of an emulated device");
    const bool was_idle = queue->idle(); // asked before the try: a free may end right after it
    auto allocated = memory_->allocate_ordered(bytes);
    if (allocated || allocated.error().status != Status::kMemory || was_idle)
        return allocated;
    // What the stream is about to free counts as free for what follows in it.
    GPURUN_TRY(queue->wait());
    return memory_->allocate_ordered(bytes);
}

base::Result<void> EmulatedDevice::free_ordered(void* pointer, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (queue->captured())
        return base::error(Status::kUnsupported, "memory cannot be freed in a captured stream of an emulated device");
    GPURUN_ASSIGN(const Arena::Block retired, memory_->retire_ordered(pointer));
    return queue->enqueue(Reclaim{memory_.get(), retired});
}

base::Result<Buffer> EmulatedDevice::describe(const void* pointer, size_t bytes) {
    if (PageableMemo::knows(pointer, bytes))
        return Buffer{};
    const uint64_t seen = PageableMemo::version();
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(pointer, bytes));
    if (is_freed_later(buffer))
        return base::error(Status::kBuffer, "{} lies in memory that was freed", pointer);
    if (buffer.placement != Placement::kPageable)
        return buffer;
    const auto imported = peers_.check_import(pointer, bytes);
    if (!imported || imported.value())
        return base::error(Status::kBuffer, "{} is another process's device memory: pass memory of this rank's device",
                           pointer);
    PageableMemo::remember(pointer, bytes, seen);
    return buffer;
}

bool EmulatedDevice::is_freed_later(const Buffer& buffer) {
    if (!any_freed_later_.load(std::memory_order_acquire))
        return false;
    const std::lock_guard lock(freed_mutex_);
    return freed_later_.count(buffer.base) != 0;
}

base::Result<MemoryHandle> EmulatedDevice::export_memory(const Buffer& buffer) {
    return memory_->export_memory(buffer);
}

base::Result<void*> EmulatedDevice::import_memory(int peer, const MemoryHandle& handle) {
    return after_change(SharedHostMemory::is_handle(handle) ? memory_->import_host_memory(handle)
                                                            : peers_.import_memory(peer, handle));
}

base::Result<void> EmulatedDevice::close_memory(void* imported) {
    GPURUN_TRY(maybe_wait());
    auto closed = memory_->close_host_memory(imported);
    return after_change(closed ? *std::move(closed) : peers_.close_memory(imported));
}

// ---- streams

base::Result<bool> EmulatedDevice::is_captured(Stream stream) {
    if (stream.native == nullptr)
        return false;
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return queue->captured() != nullptr;
}

base::Result<void> EmulatedDevice::synchronize(Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return queue->wait();
}

base::Result<bool> EmulatedDevice::query(Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return queue->idle();
}

base::Result<uint64_t> EmulatedDevice::name(Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (queue->captured()) // as CUDA
        return base::error(Status::kStream, "the name of a captured stream cannot be asked for");
    return queue->name();
}

// ---- enqueue

base::Result<EmulatedDevice::Side> EmulatedDevice::stream_side(const void* pointer, size_t bytes) {
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(pointer, bytes));
    if (buffer.placement == Placement::kPinned)
        return Side::kHost;
    if (buffer.placement == Placement::kElsewhere)
        return base::error(Status::kBuffer, "the {} bytes at {} are another device's: a stream may not reach them",
                           bytes, pointer);
    if (buffer.placement != Placement::kPageable)
        return Side::kDevice;
    GPURUN_ASSIGN(const bool imported, peers_.check_import(pointer, bytes));
    if (imported)
        return Side::kDevice;
    return base::error(Status::kBuffer,
                       "a stream cannot reach the {} bytes at {}: they are neither pinned nor device memory", bytes,
                       pointer);
}

base::Result<void> EmulatedDevice::copy(void* destination, const void* source, size_t bytes, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (bytes == 0)
        return {};
    GPURUN_ASSIGN(const Side to, stream_side(destination, bytes));
    GPURUN_ASSIGN(const Side from, stream_side(source, bytes));
    if (to == Side::kHost && from == Side::kHost)
        return base::error(Status::kBuffer, "a stream copies from or to device memory; both {} and {} are on the host",
                           destination, source);
    return queue->enqueue(Copy{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes});
}

base::Result<void> EmulatedDevice::fill(void* destination, int value, size_t bytes, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (bytes == 0)
        return {};
    GPURUN_ASSIGN(const Side side, stream_side(destination, bytes));
    return queue->enqueue(Fill{static_cast<std::byte*>(destination), value, bytes, side == Side::kDevice});
}

base::Result<void> EmulatedDevice::check_placement(const void* pointer, size_t bytes, Placement placement,
                                                   const char* what) {
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(pointer, bytes));
    if (buffer.placement == placement)
        return {};
    return base::error(Status::kBuffer, "the {} bytes at {} are not {}", bytes, pointer, what);
}

base::Result<void> EmulatedDevice::copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (bytes == 0)
        return {};
    GPURUN_ASSIGN(const Buffer to, memory_->describe(destination, bytes));
    const bool outward = to.placement == Placement::kElsewhere;
    GPURUN_TRY(check_placement(outward ? destination : source, bytes, Placement::kElsewhere, "another device's"));
    GPURUN_TRY(check_placement(outward ? source : destination, bytes, Placement::kPinned, "pinned memory"));
    return queue->enqueue(Copy{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes});
}

base::Result<void> EmulatedDevice::fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (bytes == 0)
        return {};
    GPURUN_TRY(check_placement(destination, bytes, Placement::kElsewhere, "another device's"));
    return queue->enqueue(Fill{static_cast<std::byte*>(destination), value, bytes, true});
}

base::Result<void> EmulatedDevice::call_host(Stream stream, void (*function)(void*), void* argument) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return queue->enqueue(CallHost{function, argument});
}

base::Result<void> EmulatedDevice::check_counter(const Counter* counter) {
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(counter, sizeof *counter));
    if (buffer.placement != Placement::kPinned)
        return base::error(Status::kBuffer, "the counter at {} is not in registered host memory",
                           static_cast<const void*>(counter));
    return {};
}

base::Result<void> EmulatedDevice::check_times(const void* first, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(first) % alignof(Times) != 0)
        return base::error(Status::kBuffer, "the times at {} are not aligned", first);
    GPURUN_ASSIGN(const Buffer buffer, memory_->describe(first, bytes));
    if (buffer.placement != Placement::kPinned)
        return base::error(Status::kBuffer, "the times at {} are not in registered host memory", first);
    return {};
}

base::Result<void> EmulatedDevice::check_times(const Times* times) {
    return times != nullptr ? check_times(times, sizeof *times) : base::Result<void>();
}

// Its clock is the CPU's.
base::Result<platform::ClockReading> EmulatedDevice::read_clock() {
    const int64_t now_ns = platform::now_ns();
    return platform::ClockReading{now_ns, now_ns, 0};
}

base::Result<void> EmulatedDevice::write_counter(Stream stream, Counter* counter, uint64_t value) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_counter(counter));
    return queue->enqueue(WriteWord{counter, value});
}

base::Result<void> EmulatedDevice::await_counter(Stream stream, Counter* counter, uint64_t value) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_counter(counter));
    return queue->enqueue(AwaitWord{counter, value});
}

base::Result<void> EmulatedDevice::write_time(Stream stream, std::atomic<int64_t>* where) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_times(where, sizeof *where));
    return queue->enqueue(Stamp{where});
}

base::Result<void> EmulatedDevice::check_device_memory(const char* what, const void* pointer, size_t bytes,
                                                       size_t alignment, bool own) {
    if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0)
        return base::error(Status::kBuffer, "the {} at {} is not aligned to {} bytes", what, pointer, alignment);
    GPURUN_ASSIGN(const Side side, stream_side(pointer, bytes));
    if (side != Side::kDevice)
        return base::error(Status::kBuffer, "the {} at {} is not in device memory", what, pointer);
    if (own) {
        GPURUN_ASSIGN(const bool imported, peers_.check_import(pointer, bytes));
        if (imported)
            return base::error(Status::kBuffer, "the {} at {} is another process's", what, pointer);
    }
    return {};
}

base::Result<void> EmulatedDevice::check_mail(const Mail& mail, size_t bytes, bool own_words) {
    if (bytes == 0 || mail.mark == 0)
        return base::error(Status::kArgument, "a mail has bytes and a mark, neither of which is 0");
    GPURUN_TRY(check_device_memory("mail", mail.words, mail_words_bytes(bytes), 16, own_words));
    GPURUN_TRY(check_device_memory("ticket", mail.ticket, sizeof *mail.ticket, alignof(uint32_t), true));
    GPURUN_TRY(check_times(mail.times));
    return check_counter(mail.sent);
}

namespace {

base::Result<void> stamp(StreamQueue& queue, std::atomic<int64_t> Times::*which, Times* times) {
    return times != nullptr ? queue.enqueue(Stamp{&(times->*which)}) : base::Result<void>();
}

base::Result<void> put(StreamQueue& queue, const Mail& mail, const void* source) {
    GPURUN_TRY(stamp(queue, &Times::began, mail.times));
    GPURUN_TRY(stamp(queue, &Times::moving, mail.times));
    GPURUN_TRY(queue.enqueue(Copy{mail.words, static_cast<const std::byte*>(source), mail.bytes}));
    GPURUN_TRY(stamp(queue, &Times::done, mail.times));
    return queue.enqueue(WriteWord{mail.sent, mail.value});
}

} // namespace

// An emulated mail lies in its words as it is, and has come when its counter says so.
base::Result<void> EmulatedDevice::put_mail(const Mail& mail, const void* source, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_mail(mail, mail.bytes, false));
    GPURUN_TRY(stream_side(source, mail.bytes));
    return put(*queue, mail, source);
}

base::Result<void> EmulatedDevice::take_mail(const Mail& mail, void* destination, size_t bytes, bool, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_mail(mail, bytes, true));
    GPURUN_TRY(check_counter(mail.taken));
    GPURUN_TRY(stream_side(destination, bytes));
    const Copy copy{static_cast<std::byte*>(destination), mail.words, bytes};
    GPURUN_TRY(stamp(*queue, &Times::began, mail.times));
    GPURUN_TRY(queue->enqueue(AwaitWord{mail.sent, mail.value}));
    GPURUN_TRY(stamp(*queue, &Times::moving, mail.times));
    GPURUN_TRY(queue->enqueue(CopyIfCame{copy, mail.sent, mail.value}));
    GPURUN_TRY(stamp(*queue, &Times::done, mail.times));
    return queue->enqueue(WriteWord{mail.taken, mail.value});
}

base::Result<void> EmulatedDevice::check_small(const Mail& mail, size_t bytes, bool own_words) {
    if (mail.bytes > kSmallMailBytes || bytes == 0 || bytes > mail.bytes || mail.mark == 0)
        return base::error(Status::kArgument, "one of several mails has 1 to {} bytes and a mark", kSmallMailBytes);
    GPURUN_TRY(check_device_memory("mail", mail.words, mail_words_bytes(mail.bytes), 16, own_words));
    GPURUN_TRY(check_times(mail.times));
    return check_counter(mail.sent);
}

// What waits comes behind all that does not; none of it waits for another part of the same exchange.
base::Result<void> EmulatedDevice::exchange(const Exchange& all, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (std::max({all.puts.size(), all.takes.size(), all.signals.size(), all.awaits.size()}) > kMostExchanged ||
        all.copies.size() > kMostCopiedBeside || all.pulls.size() > kMostPulled)
        return base::error(Status::kArgument,
                           "up to {} mails are exchanged each way, with up to {} copies and {} pulls", kMostExchanged,
                           kMostCopiedBeside, kMostPulled);
    if (all.puts.empty() && all.takes.empty() && all.copies.empty() && all.pulls.empty() && all.signals.empty() &&
        all.awaits.empty())
        return base::error(Status::kArgument, "an exchange has something to do");
    for (const auto& [mail, source] : all.puts) {
        GPURUN_TRY(check_mail(mail, mail.bytes, false));
        GPURUN_TRY(stream_side(source, mail.bytes));
    }
    for (const IncomingMail& take : all.takes)
        GPURUN_TRY(check_mail(take.mail, take.bytes, true));
    for (const auto& [destination, source, bytes] : all.copies) {
        GPURUN_TRY(stream_side(destination, bytes));
        GPURUN_TRY(stream_side(source, bytes));
    }
    for (const CounterValue& each : all.signals)
        GPURUN_TRY(write_counter(stream, each.counter, each.value));
    for (const auto& [mail, source] : all.puts)
        GPURUN_TRY(put(*queue, mail, source));
    for (const auto& [destination, source, bytes] : all.copies)
        GPURUN_TRY(
            queue->enqueue(Copy{static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes}));
    for (const FencedCopy& each : all.pulls)
        GPURUN_TRY(copy_fenced(each, stream));
    GPURUN_TRY(take_all(*queue, all.takes));
    for (const CounterValue& each : all.awaits)
        GPURUN_TRY(await_counter(stream, each.counter, each.value));
    return {};
}

base::Result<void> EmulatedDevice::check_operand(const FusedReduction::Operand& operand, size_t bytes) {
    if (operand.is_mail()) {
        GPURUN_TRY(check_mail(operand.mail, bytes, true));
        return check_counter(operand.mail.taken);
    }
    if (operand.answer != nullptr)
        GPURUN_TRY(check_device_memory("answer", operand.answer, bytes, 1, false));
    if (!operand.is_peers())
        return {};
    GPURUN_TRY(check_device_memory("ticket", operand.ticket, sizeof *operand.ticket, alignof(uint32_t), true));
    GPURUN_TRY(check_times(operand.times));
    if (operand.ready != nullptr) {
        GPURUN_TRY(check_device_memory("gate", operand.gate, sizeof *operand.gate, alignof(uint64_t), true));
        GPURUN_TRY(check_counter(operand.ready));
    }
    return check_counter(operand.read);
}

namespace {

// What an operand waits for, and what it tells: of a mail, or of a peer's buffer.
struct OperandEdges {
    Counter* before;
    Counter* after;
    uint64_t value;
    Times* times;
};
OperandEdges edges_of(const FusedReduction::Operand& operand) {
    if (operand.is_mail())
        return {operand.mail.sent, operand.mail.taken, operand.mail.value, operand.mail.times};
    return {operand.ready, operand.read, operand.value, operand.times};
}

} // namespace

base::Result<void> EmulatedDevice::put_and_reduce(std::span<const OutgoingMail> puts, const FusedReduction& reduction,
                                                  Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    std::vector<const void*> operands;
    std::vector<OperandEdges> edges;
    for (const FusedReduction::Operand& each : reduction.operands) {
        GPURUN_TRY(check_operand(each, reduction.bytes()));
        if (each.is_combined())
            operands.push_back(each.is_mail() ? each.mail.words : each.buffer);
        if (each.is_mail() || each.is_peers())
            edges.push_back(edges_of(each));
    }
    if (reduction.count == 0)
        return base::error(Status::kArgument, "a fused reduction has elements");
    if (!puts.empty() || !reduction.signals.empty())
        GPURUN_TRY(exchange({.puts = puts, .signals = reduction.signals}, stream));
    for (const OperandEdges& each : edges) {
        GPURUN_TRY(stamp(*queue, &Times::began, each.times));
        if (each.before != nullptr)
            GPURUN_TRY(queue->enqueue(AwaitWord{each.before, each.value}));
        GPURUN_TRY(stamp(*queue, &Times::moving, each.times));
    }
    GPURUN_TRY(reduce_elements(reduction.reduction, reduction.count, reduction.result, operands, stream));
    for (const FusedReduction::Operand& each : reduction.operands)
        if (each.answer != nullptr)
            GPURUN_TRY(copy(each.answer, reduction.result, reduction.bytes(), stream));
    for (const OperandEdges& each : edges) {
        GPURUN_TRY(stamp(*queue, &Times::done, each.times));
        GPURUN_TRY(queue->enqueue(WriteWord{each.after, each.value}));
    }
    for (const CounterValue& each : reduction.awaits)
        GPURUN_TRY(await_counter(stream, each.counter, each.value));
    return {};
}

base::Result<void> EmulatedDevice::put_mails(std::span<const OutgoingMail> mails, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    for (const auto& [mail, source] : mails) {
        GPURUN_TRY(check_small(mail, mail.bytes, false));
        GPURUN_TRY(stream_side(source, mail.bytes));
    }
    for (const auto& [mail, source] : mails)
        GPURUN_TRY(put(*queue, mail, source));
    return {};
}

base::Result<void> EmulatedDevice::take_mails(std::span<const IncomingMail> mails, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    for (const IncomingMail& take : mails)
        GPURUN_TRY(check_small(take.mail, take.bytes, true));
    return take_all(*queue, mails);
}

base::Result<void> EmulatedDevice::take_all(StreamQueue& queue, std::span<const IncomingMail> mails) {
    if (mails.empty())
        return {};
    TakeMails all;
    for (const auto& [mail, destination, bytes, blocks] : mails) {
        GPURUN_TRY(check_counter(mail.taken));
        GPURUN_TRY(stream_side(destination, bytes));
        all.mails->push_back(
            {CopyIfCame{{static_cast<std::byte*>(destination), mail.words, bytes}, mail.sent, mail.value},
             WriteWord{mail.taken, mail.value}, mail.times});
    }
    return queue.enqueue(all);
}

base::Result<void> EmulatedDevice::copy_fenced(const FencedCopy& fenced, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (fenced.bytes == 0)
        return base::error(Status::kArgument, "a fenced copy has at least one byte");
    GPURUN_TRY(stream_side(fenced.destination, fenced.bytes));
    GPURUN_TRY(stream_side(fenced.source, fenced.bytes));
    GPURUN_TRY(check_device_memory("ticket", fenced.ticket, sizeof *fenced.ticket, alignof(uint32_t), true));
    GPURUN_TRY(check_counter(fenced.after));
    GPURUN_TRY(check_times(fenced.times));
    if (fenced.before != nullptr) {
        GPURUN_TRY(check_counter(fenced.before));
        GPURUN_TRY(check_device_memory("gate", fenced.gate, sizeof *fenced.gate, alignof(uint64_t), true));
    }
    if (fenced.before != nullptr) {
        GPURUN_TRY(stamp(*queue, &Times::began, fenced.times));
        GPURUN_TRY(queue->enqueue(AwaitWord{fenced.before, fenced.value}));
        GPURUN_TRY(queue->enqueue(WriteWord{reinterpret_cast<Counter*>(fenced.gate), fenced.value}));
    }
    GPURUN_TRY(stamp(*queue, &Times::moving, fenced.times));
    GPURUN_TRY(queue->enqueue(
        Copy{static_cast<std::byte*>(fenced.destination), static_cast<const std::byte*>(fenced.source), fenced.bytes}));
    GPURUN_TRY(stamp(*queue, &Times::done, fenced.times));
    return queue->enqueue(WriteWord{fenced.after, fenced.value});
}

base::Result<void> EmulatedDevice::reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                                   std::span<const void* const> operands, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    if (operands.empty() || operands.size() > base::kMostOperands || !base::has_meaning(reduction.op, reduction.type) ||
        reduction.op == base::Op::kAverage)
        return base::error(Status::kArgument, "a reduction has 1 to {} operands and an operation of their type",
                           base::kMostOperands);
    if (count == 0)
        return {};
    const size_t bytes = count * base::size_of_type(static_cast<int>(reduction.type));
    GPURUN_TRY(stream_side(result, bytes));
    for (const void* const each : operands) {
        GPURUN_TRY(stream_side(each, bytes));
        if (each != result && static_cast<const std::byte*>(each) < static_cast<std::byte*>(result) + bytes &&
            static_cast<std::byte*>(result) < static_cast<const std::byte*>(each) + bytes)
            return base::error(Status::kBuffer, "the result at {} overlaps the operand at {}", result, each);
    }
    return queue->enqueue(ReduceElements{std::make_shared<ReduceElements::Arguments>(ReduceElements::Arguments{
        reduction, count, result, std::vector<const void*>(operands.begin(), operands.end())})});
}

// ---- events

base::Result<void> EmulatedDevice::record(Event event, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return events_.record(event, *queue);
}

base::Result<void> EmulatedDevice::await_event(Stream stream, Event event) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_ASSIGN(const Events::Captured captured, events_.captured(event));
    if (captured.graph)
        return queue->join_capture(captured.graph, captured.edge);
    if (queue->captured())
        return base::error(Status::kEvent, "the event was recorded outside of the capture that the stream is in");
    GPURUN_ASSIGN(const Events::Target target, events_.latch(event));
    if (target.reached())
        return {};
    return queue->enqueue(AwaitWord{target.word, target.mark});
}

base::Result<bool> EmulatedDevice::query(Event event) {
    GPURUN_ASSIGN(const Events::Target target, events_.latch(event));
    return target.reached();
}

base::Result<bool> EmulatedDevice::truly_complete(Event event) {
    GPURUN_ASSIGN(const Events::Target target, events_.latch(event));
    return target.truly_reached();
}

base::Result<void> EmulatedDevice::synchronize(Event event) {
    GPURUN_ASSIGN(const Events::Target target, events_.latch(event));
    while (!target.reached()) {
        const uint64_t seen = platform::load_published(*target.word);
        if (seen < target.mark)
            platform::sleep_while(*target.word, seen, platform::kForever);
    }
    return {};
}

base::Result<Event> EmulatedDevice::import_event(int peer, const EventHandle& handle) {
    const auto bytes = unpack<EventHandleBytes>(handle);
    if (bytes.magic != kEventHandleMagic)
        return base::error(Status::kEvent, "this is not an event handle");
    GPURUN_ASSIGN(const Control* const control, peers_.control(peer, bytes.token));
    return events_.import_event(*control, bytes.slot);
}

} // namespace gpurun::device::emulated
