#include "transfer/memory/registration.hpp"

#include "base/log.hpp"
#include "platform/clock.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::transfer {

using base::Result;

namespace {

// Who has not given a descriptor is not asked again for so long: it does not answer, or one of the two has no more
// descriptors or memory.
constexpr int64_t kSilenceNs = 30'000'000'000;
constexpr int64_t kShortageNs = 1'000'000'000;

bool may_pass(base::Status status) {
    return status == base::Status::kSystem || status == base::Status::kMemory || status == base::Status::kTimeout;
}

RemoteBuffer locate(const Operand& operand) {
    RemoteBuffer located;
    located.placement = operand.where.placement;
    located.address = reinterpret_cast<uint64_t>(operand.address);
    located.ready = !operand.on_stream();
    return located;
}

} // namespace

RemoteBuffer Registration::describe(const Operand& operand) {
    return operand.in_host_memory() ? locate(operand) : describe_lent(operand);
}

RemoteBuffer Registration::describe_lent(const Operand& operand) {
    RemoteBuffer described = locate(operand);
    if (channel_.to_self() || !operand.where.exportable || !channel_.shares_memory())
        return described;
    const auto handle = resources_.exports.handle(operand.where, channel_.peer().value);
    if (!handle)
        return described;
    described.handle = *handle;
    described.exporter = Exporter::kSender;
    described.in_pieces = operand.where.in_pieces;
    described.allocation_id = operand.where.id;
    described.allocation_base = reinterpret_cast<uint64_t>(operand.where.base);
    described.allocation_bytes = operand.where.size;
    described.offset = described.address - described.allocation_base;
    return described;
}

Reach Registration::reach() {
    if (!reach_)
        reach_ = find_reach(resources_.device, resources_.pools.streams, channel_, probe_);
    return *reach_;
}

Result<void> Registration::close() {
    if (imports_)
        GPURUN_TRY(imports_->close_all());
    return probe_ != nullptr ? resources_.device.close_memory(std::exchange(probe_, nullptr)) : Result<void>();
}

// Mapping 1 GiB and more of another GPU takes 9 to 18 ms, up to 256 MiB 0.1 ms (2 H200). A message on the bounce path
// costs about 2.5 ms more for each GiB.
bool Registration::worth_mapping(const RemoteBuffer& source, uint64_t bytes) {
    constexpr uint64_t kCostly = uint64_t{512} << 20;
    constexpr uint64_t kLongMessage = uint64_t{4} << 30;
    if (source.allocation_bytes < kCostly || bytes >= kLongMessage || used_once_.has(source.allocation_id) ||
        (imports_ && imports_->has(source.allocation_id)))
        return true;
    used_once_.add(source.allocation_id);
    return false;
}

bool Registration::maps(const RemoteBuffer& source) {
    if (has_mapped(source.allocation_id))
        return true;
    if (unmappable_.has(source.allocation_id) ||
        (source.needs_descriptors() && platform::now_ns() < not_asked_until_ns_))
        return false;
    // Opening may wait for the device, which a peer may hold up until it has what this rank has collected.
    (void)resources_.fused.launch();
    auto opened = imports();
    const auto in_the_way = [&] { return opened && !(*opened)->can_open(source); };
    if (in_the_way())
        return false; // for now
    const Result<void> mapped = opened ? (*opened)->open(source) : Result<void>(opened.error());
    if (mapped)
        return true;
    if (in_the_way()) // a graph has been launched meanwhile
        return false;
    base::log(base::LogLevel::kWarn, "memory of rank {} is not mapped, so its messages bounce: {}",
              channel_.peer().value, mapped.error().detail);
    const base::Status status = mapped.error().status;
    if (source.needs_descriptors() && may_pass(status))
        not_asked_until_ns_ = platform::now_ns() + (status == base::Status::kTimeout ? kSilenceNs : kShortageNs);
    else
        unmappable_.add(source.allocation_id);
    return false;
}

Result<ImportCache*> Registration::imports() {
    if (!imports_) {
        GPURUN_ASSIGN(Fence * fence, channel_.fence(Direction::kIn));
        imports_.emplace(resources_.device, *fence, channel_.device_peer(), resources_.try_quiescence);
    }
    return &*imports_;
}

void Registration::revoke(uint64_t allocation_id) {
    if (imports_)
        imports_->revoke(allocation_id);
}

void Registration::revoke_all() {
    if (imports_)
        imports_->revoke_all();
}

} // namespace gpurun::transfer
