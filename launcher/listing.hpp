// Answers gpurun jobs, for whoever watches over a job: asks the ranks, and tells what they say.
//
// Runs on the event loop's thread. The ranks are asked by the job's Inquiry, of which there is one: if it is under way
// for a hang table, what that hears is told here, too.
#pragma once

#include "inquiry.hpp"
#include "job_listing.hpp"
#include "platform/message_socket.hpp"

#include <functional>
#include <span>
#include <vector>

namespace gpurun::launcher {

// The protocol that a Query says is not ours: the sentence that says so.
std::optional<std::string> wrong_protocol(std::span<const std::byte> query);

class Listing {
  public:
    // The job, with what its ranks have said.
    using Describe = std::function<ListedJob(const WaitReports& reports)>;
    explicit Listing(Describe describe) : describe_(std::move(describe)) {}

    void add(platform::MessageSocket asker);
    bool wanted() const { return !askers_.empty(); }
    // Tells all that have asked.
    void answer(const WaitReports& reports);

  private:
    Describe describe_;
    std::vector<platform::MessageSocket> askers_;
};

} // namespace gpurun::launcher
