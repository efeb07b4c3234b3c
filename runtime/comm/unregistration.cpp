#include "comm/unregistration.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "transfer/protocol/pull.hpp"

namespace gpurun::comm {

using base::Result;

namespace {

base::Error still_mapped(const device::Buffer& buffer, const std::vector<WorldRank>& holders) {
    std::string ranks;
    for (const WorldRank each : holders)
        ranks += base::format("{}{}", ranks.empty() ? "" : ", ", each.value);
    return base::error(
        base::Status::kTimeout,
        "the allocation of {} bytes at {} is still mapped by rank{} {}: a rank unmaps it once its streams "
        "and graphs have done with it, and it makes calls of gpurun or has GPURUN_PROGRESS=thread",
        buffer.size, buffer.base, holders.size() == 1 ? "" : "s", ranks);
}

} // namespace

std::vector<WorldRank> Unregistration::ask(const device::Buffer& buffer) {
    transfer::ExportCache& exports = core_.resources().exports;
    const std::vector<uint64_t> ids = exports.ids_of(buffer);
    std::vector<WorldRank> holders;
    for (const auto& each : core_.peers()) {
        const uint32_t rank = each->rank().value;
        const bool is_gone = each->lost() && each->channel().has_ended();
        if (is_gone || each->to_self() || !each->channel().shares_memory())
            continue;
        bool holds = false;
        for (const uint64_t id : ids) {
            holds = holds || exports.may_have(id, rank);
            if (!each->lost() && exports.must_be_asked(id, rank))
                each->part<transfer::PullPart>().ask_to_unmap(id);
        }
        if (holds)
            holders.push_back(each->rank());
    }
    return holders;
}

Result<void> Unregistration::run(const device::Buffer& buffer, int timeout_ms) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    if (core_.resources().exports.may_have_forgotten(buffer))
        (void)core_.resources().exports.handle(buffer, core_.self().value);
    const int64_t end_ns = platform::now_ns() + int64_t{timeout_ms} * 1'000'000;
    const auto is_over = [&] { return timeout_ms >= 0 && platform::now_ns() >= end_ns; };
    std::vector<WorldRank> holders;
    const WaitReason reason{.kind = WaitReason::Kind::kUnmapping, .holders = &holders};
    const auto done = [&] {
        assume_engine_lock();
        holders = ask(buffer);
        return holders.empty() || is_over();
    };
    GPURUN_TRY(waiter_.wait(lock, reason, done, [&] {
        assume_engine_lock();
        if (timeout_ms >= 0)
            alarms_.look_again_by(end_ns);
        if (core_.any_peer([](const transfer::Peer& each) { return each.lost(); }))
            alarms_.look_again(); // one that has not ended does not tell
        return Result<void>();
    }));
    return holders.empty() ? Result<void>() : Result<void>(still_mapped(buffer, holders));
}

} // namespace gpurun::comm
