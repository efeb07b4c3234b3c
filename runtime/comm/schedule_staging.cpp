// The scratch memory of a run, and staging in it: a run in a stream works on copies of the program's buffers where its
// messages would go in chunks, through staging buffers of their own: long ones of memory that peers cannot map, and all
// of pageable memory. Then each byte is copied once into scratch memory and once out of it, and messages go between
// that, as those of device memory.
#include "comm/schedule_run.hpp"
#include "transfer/protocol/mailbox.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using transfer::Operand;
using Step = Schedule::Step;
using StepId = Schedule::StepId;
using StepKind = Schedule::Step::Kind;

namespace {

// Bytes of a run. More host memory goes as fast in chunks (tests/bench/RESULTS.md, 2026-11-29).
constexpr size_t kMostStaged = size_t{128} << 20, kMostStagedOfHost = size_t{32} << 20;
constexpr size_t kLongestPageable = size_t{256} << 10; // message
// Of pinned memory: longer messages are staged although they could go by themselves, by mails or bounced. Those are
// copied by kernels, each as often as it is sent; what is reduced is read where it lies.
constexpr size_t kLongestPinned = size_t{64} << 10, kLongestPinnedOfTwo = size_t{256} << 10;
constexpr size_t kLongestPinnedReduced = size_t{8} << 10;
constexpr size_t kLongestStagedAlone = size_t{4} << 20; // of pinned memory, where a run has a single message

// Bytes of one region, as disjoint spans in order.
class Spans {
  public:
    struct Span {
        size_t first;
        size_t end;
    };
    void add(Span added) {
        const auto touches = [&](const Span& each) { return each.first <= added.end && added.first <= each.end; };
        for (const Span& each : spans_)
            if (touches(each))
                added = {std::min(added.first, each.first), std::max(added.end, each.end)};
        std::erase_if(spans_, touches);
        const auto before = [&](const Span& each) { return each.first < added.first; };
        spans_.insert(std::partition_point(spans_.begin(), spans_.end(), before), added);
    }
    bool cover(Span bytes) const {
        return std::any_of(spans_.begin(), spans_.end(),
                           [&](const Span& each) { return each.first <= bytes.first && bytes.end <= each.end; });
    }
    auto begin() const { return spans_.begin(); }
    auto end() const { return spans_.end(); }

  private:
    std::vector<Span> spans_;
};

// Memory of the program that steps use, without a gap, and its copy.
struct Region {
    Schedule::Buffer whole;
    Schedule::Buffer copy;
    Spans copied_in;  // what is read before a step has written it
    Spans copied_out; // what is written
    Spans rewritten;  // of that, what steps from the last one on have been found to write
    std::vector<StepId> last_writers;
    bool is_used_by_peers = false; // sent, or written by the reduction that it is the answer of

    bool has(const Schedule::Buffer& part) const {
        return !part.scratch && part.bytes != 0 && part.address >= whole.address &&
               part.address + part.bytes <= whole.address + whole.bytes;
    }
    Spans::Span span_of(const Schedule::Buffer& part) const {
        const auto first = static_cast<size_t>(part.address - whole.address);
        return {first, first + part.bytes};
    }
    bool is_in_host_memory() const { return whole.in({}).in_host_memory(); }
    void read(const Schedule::Buffer& part) {
        if (!copied_out.cover(span_of(part)))
            copied_in.add(span_of(part));
    }
};

bool is_pageable(const Schedule::Buffer& buffer) {
    return !buffer.scratch && buffer.bytes != 0 && buffer.where.placement == device::Placement::kPageable;
}
bool is_unmapped(const Schedule::Buffer& buffer) {
    const Operand operand = buffer.in({});
    return !buffer.scratch && operand.by_device() && !operand.is_mappable();
}
bool is_message(const Step& step) { return step.kind == StepKind::kSend || step.kind == StepKind::kReceive; }
bool writes(const Step& step) { return step.kind != StepKind::kSend && step.kind != StepKind::kLocal; }

class Regions {
  public:
    Regions(const Schedule& schedule, base::FunctionRef<bool(const Schedule::Buffer&)> is_staged) {
        std::vector<Schedule::Buffer> buffers;
        schedule.for_each_buffer([&](const Schedule::Buffer& each) {
            if (each.bytes != 0 && is_staged(each))
                buffers.push_back(each);
        });
        std::sort(buffers.begin(), buffers.end(),
                  [](const auto& one, const auto& other) { return one.address < other.address; });
        for (const Schedule::Buffer& each : buffers)
            add(each);
        for (const Step& each : schedule.steps())
            note(schedule, each);
        for (size_t i = schedule.steps().size(); i-- > 0;)
            note_last_writer(schedule.steps()[i], static_cast<StepId>(i));
        // What comes into device memory is pulled there, whoever has mapped it.
        std::erase_if(regions_, [](const Region& each) { return !each.is_used_by_peers && !each.is_in_host_memory(); });
    }

    size_t bytes() const {
        size_t sum = 0;
        for (const Region& each : regions_)
            sum += each.whole.bytes;
        return sum;
    }
    Region* of(const Schedule::Buffer& part) {
        const auto found =
            std::find_if(regions_.begin(), regions_.end(), [&](const Region& each) { return each.has(part); });
        return found != regions_.end() ? &*found : nullptr;
    }
    Schedule::Buffer copy_of(const Schedule::Buffer& part) {
        const Region* const region = of(part);
        return region != nullptr ? region->copy.part(region->span_of(part).first, part.bytes) : part;
    }
    auto begin() { return regions_.begin(); }
    auto end() { return regions_.end(); }

  private:
    // In the order of addresses.
    void add(const Schedule::Buffer& buffer) {
        if (!regions_.empty()) {
            Schedule::Buffer& last = regions_.back().whole;
            if (buffer.address <= last.address + last.bytes && buffer.where.base == last.where.base) {
                const std::byte* const end = std::max(last.address + last.bytes, buffer.address + buffer.bytes);
                last.bytes = static_cast<size_t>(end - last.address);
                return;
            }
        }
        regions_.push_back({.whole = buffer});
    }
    // A receive that may be shorter leaves what is behind it.
    void note(const Schedule& schedule, const Step& step) {
        for (const Schedule::Buffer& each : schedule.operands(step))
            if (Region* const region = of(each))
                region->read(each);
        Region* const region = of(step.buffer);
        if (region == nullptr)
            return;
        if (step.kind == StepKind::kSend || (step.kind == StepKind::kReceive && !step.exact))
            region->read(step.buffer);
        region->is_used_by_peers |= step.kind == StepKind::kSend || step.answers.has_value();
        if (writes(step))
            region->copied_out.add(region->span_of(step.buffer));
    }
    void note_last_writer(const Step& step, StepId id) {
        Region* const region = writes(step) ? of(step.buffer) : nullptr;
        if (region == nullptr || region->rewritten.cover(region->span_of(step.buffer)))
            return;
        region->rewritten.add(region->span_of(step.buffer));
        region->last_writers.push_back(id);
    }

    std::vector<Region> regions_;
};

} // namespace

bool Schedule::stage(base::FunctionRef<bool(const Buffer&)> is_staged, base::FunctionRef<bool(size_t bytes)> admits) {
    Regions regions(*this, is_staged);
    const size_t scratch_before = scratch_bytes_;
    for (Region& each : regions)
        each.copy = scratch(each.whole.bytes);
    if (regions.begin() == regions.end() || !admits(regions.bytes())) {
        scratch_bytes_ = scratch_before;
        return false;
    }
    const auto steps = std::exchange(steps_, {});
    const auto befores = std::exchange(befores_, {});
    const auto operands = std::exchange(operands_, {});
    std::vector<StepId> after;
    for (const Region& region : regions) {
        for (const auto [first, end] : region.copied_in) {
            const Buffer from = region.whole.part(first, end - first);
            after.push_back(
                add({.kind = Step::Kind::kCopy, .buffer = region.copy.part(first, end - first)}, {}, {&from, 1}));
        }
    }
    const auto copied_in = static_cast<StepId>(after.size());
    const auto moved = [&](StepId id) { return id == kDone ? id : id + copied_in; };
    const auto move = [&](std::optional<StepId>& id) {
        if (id)
            id = moved(*id);
    };
    for (const Step& each : steps) {
        Step step = each;
        step.buffer = regions.copy_of(each.buffer);
        step.dependents = 0;
        move(step.bytes_of);
        move(step.answers);
        move(step.answered_by);
        after.resize(copied_in);
        for (size_t i = 0; i < each.befores; ++i)
            after.push_back(moved(befores[each.first_before + i]));
        std::vector<Buffer> its_operands;
        for (size_t i = 0; i < each.operands; ++i)
            its_operands.push_back(regions.copy_of(operands[each.first_operand + i]));
        add(std::move(step), after, its_operands);
    }
    move(received_);
    for (const Region& region : regions) {
        after.clear();
        for (const StepId each : region.last_writers)
            after.push_back(moved(each));
        for (const auto [first, end] : region.copied_out) {
            const Buffer from = region.copy.part(first, end - first);
            add({.kind = Step::Kind::kCopy, .buffer = region.whole.part(first, end - first)}, after, {&from, 1});
        }
    }
    return true;
}

// Where whoever reduces reaches the program's buffers, too: the device, or the CPU. Of a staged run there is some.
Result<void> ScheduleRun::take_scratch() {
    if (schedule_.scratch_bytes() == 0 || staged_)
        return {};
    bool by_device = true, by_cpu = !order_.on_stream();
    schedule_.for_each_buffer([&](const Schedule::Buffer& each) {
        const Operand operand = operand_of(each);
        by_device = by_device && (each.bytes == 0 || operand.by_device());
        by_cpu = by_cpu && operand.in_host_memory();
    });
    using Kind = transfer::ScratchPool::Kind;
    const Kind of_cpu = order_.on_stream() && schedule_.has_steps_done() ? Kind::kPinned : Kind::kHost; // by kernels
    return take_scratch(by_device && !by_cpu ? Kind::kDevice : of_cpu);
}

Result<void> ScheduleRun::take_scratch(transfer::ScratchPool::Kind kind) {
    GPURUN_ASSIGN(scratch_, core_.resources().pools.scratch.take(kind, schedule_.scratch_bytes(), order_));
    schedule_.move_scratch({scratch_->data, schedule_.scratch_bytes()});
    return {};
}

// What a reduction has read where it was is not in its place in scratch memory.
bool ScheduleRun::has_used_scratch() const {
    if (schedule_.has_steps_done())
        return true;
    for (StepId i = 0; i < schedule_.steps().size(); ++i)
        if (schedule_.steps()[i].buffer.scratch && !states_[i].handed_over)
            return true;
    return false;
}

void ScheduleRun::give_scratch_back() {
    if (scratch_ == nullptr)
        return;
    transfer::ScratchPool::Block& block = *std::exchange(scratch_, nullptr);
    transfer::ScratchPool& pool = core_.resources().pools.scratch;
    if (!error_ && !has_used_scratch())
        pool.give_back_unused(block);
    else if (!error_ || !order_.on_stream() || core_.resources().releases_streams()) // else it may be used for ever
        pool.give_back(block, order_);
}

// A single message of host memory that is long, pageable, or between two ranks is not staged: its chunks are copied in
// while others are copied out. The same goes for what a root gathers or scatters: at the others that is single.
void ScheduleRun::stage() {
    if (!order_.on_stream() || order_.captured() || !core_.resources().exchanges.has_mails())
        return;
    // Longer messages of memory that peers cannot map go in chunks.
    const size_t longest_mail =
        transfer::longest_plain_mail(core_.resources(), transfer::Reduced::kNot, messages_beside());
    size_t messages = 0, longest = 0, longest_pinned = 0;
    bool any_pageable = false, any_unmapped = false, reduces = false;
    schedule_.for_each_buffer([&](const Schedule::Buffer& each) { any_pageable |= is_pageable(each); });
    for (const Step& each : schedule_.steps()) {
        if (each.kind == StepKind::kLocal) // which may use buffers that the schedule does not know
            return;
        reduces |= each.kind == StepKind::kReduce;
        if (!is_message(each) || each.buffer.bytes == 0)
            continue;
        ++messages;
        longest = std::max(longest, each.buffer.bytes);
        if (!is_unmapped(each.buffer))
            continue;
        if (each.buffer.in({}).in_host_memory())
            longest_pinned = std::max(longest_pinned, each.buffer.bytes);
        else
            any_unmapped |= each.buffer.bytes > longest_mail;
    }
    const bool any_pinned = longest_pinned != 0;
    any_unmapped |= longest_pinned > (reduces                        ? std::min(kLongestPinnedReduced, longest_mail)
                                      : schedule_.comm().size() == 2 ? kLongestPinnedOfTwo
                                                                     : kLongestPinned);
    const bool is_on_host = any_pageable || any_pinned;
    // Pageable memory goes into pinned memory, whose long messages would go in chunks as well.
    const bool is_needed = any_pageable ? longest <= std::min(longest_mail, kLongestPageable) : any_unmapped;
    const bool is_rooted = base::moves_at_root_alone(schedule_.kind()) && schedule_.kind() != base::Collective::kBcast;
    const bool is_single = messages == 1 || (is_rooted && any_pinned);
    const bool goes_in_chunks = any_pageable || schedule_.comm().size() == 2 || longest > kLongestStagedAlone;
    if (!is_needed || (is_on_host && is_single && goes_in_chunks) || !reaches_all())
        return;
    const size_t most = is_on_host ? kMostStagedOfHost : kMostStaged;
    const auto kind = any_pageable ? transfer::ScratchPool::Kind::kPinned : transfer::ScratchPool::Kind::kDevice;
    staged_ = schedule_.stage(
        [&](const Schedule::Buffer& each) { return any_pageable ? is_pageable(each) : is_unmapped(each); },
        [&](size_t bytes) {
            assume_engine_lock();
            return bytes <= most && static_cast<bool>(take_scratch(kind)); // without memory for it, in chunks
        });
    make_states();
}

// Whether all its messages go between ranks that map each other's memory.
bool ScheduleRun::reaches_all() {
    return std::all_of(schedule_.steps().begin(), schedule_.steps().end(), [&](const Step& each) {
        assume_engine_lock();
        return !is_message(each) || each.peer == schedule_.comm().rank() ||
               core_.peer(schedule_.members().world(each.peer)).part<transfer::MailboxPart>().open();
    });
}

} // namespace gpurun::comm
