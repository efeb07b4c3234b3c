// Makes this rank's wait report: what its threads wait for, and which messages are unexpected
// (platform/wait_report.hpp).
//
// Called by the reporter's thread, which is in no call. Takes the engine lock for a short time. Asks the device
// nothing, so it works while streams are blocked; makes no progress, so that looking changes nothing.
#pragma once

#include "comm/schedules.hpp"
#include "comm/waiter.hpp"
#include "platform/wait_report.hpp"

#include <span>

namespace gpurun::comm {

class WaitReport {
  public:
    WaitReport(Core& core, const Waiter& waiter) : core_(core), waiter_(waiter) {}

    // Fills `entries`, and returns the lengths of its lists. If the lock cannot be taken within 200 ms, it only has the
    // names of the calls that threads are in.
    platform::wait_report::End describe(std::vector<platform::wait_report::Entry>& entries);

    // Another job's report has been made: gives this one's name to the threads in it that wait here.
    void name_waits(std::vector<platform::wait_report::Entry>& others, const std::string& job);

  private:
    using Entry = platform::wait_report::Entry;
    using End = platform::wait_report::End;

    void describe(const WaitingCall& call, std::vector<Entry>& entries) GPURUN_REQUIRES(engine_lock);
    void describe_requests(std::vector<Entry>& entries, End& end) GPURUN_REQUIRES(engine_lock);
    void mark_held_back(std::span<Entry> awaited) const GPURUN_REQUIRES(engine_lock);
    void describe_unexpected(std::vector<Entry>& entries, End& end) const GPURUN_REQUIRES(engine_lock);
    void describe_held(std::vector<Entry>& entries, End& end) const GPURUN_REQUIRES(engine_lock);
    void describe_graphs(std::vector<Entry>& entries, End& end) const GPURUN_REQUIRES(engine_lock);

    Core& core_;
    const Waiter& waiter_;
};

} // namespace gpurun::comm
