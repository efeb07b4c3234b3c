// A rank's half of the launcher-rank wire (wire.hpp): from the control socket, inherited or of a supervisor
// (joining.hpp), to "every rank is ready".
//
// Used by one thread, inside gpurun_init(); then a Reporter reads, and tell_steps() and abort_job() may be called. A
// process that gpurun did not start, and that names no job, makes a job of its own.
#pragma once

#include "base/settings.hpp"
#include "platform/job_segment.hpp"
#include "platform/message_socket.hpp"
#include "platform/reporter.hpp"
#include "platform/trace_buffer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpurun::platform {

class JobSession {
  public:
    // Says hello with this library's version and receives the job's segment. kVersion, with the launcher's own
    // sentence, if the job cannot start.
    static base::Result<JobSession> connect(const base::Settings& settings, uint32_t version);

    const JobSegment& segment() const { return segment_; }
    uint32_t rank() const { return rank_; }
    bool alone() const { return !socket_; }
    // By which other nodes reach this one, if this job was joined and has ranks there.
    const std::string& node_address() const { return node_address_; }
    // Where this rank records what it does; null if nobody has asked for it (gpurun --trace). Shared with calls, which
    // may end after the session.
    const std::shared_ptr<TraceBuffer>& trace() const { return trace_; }

    // This rank's record in the segment is written. `device_fd` (-1 for none) goes to every peer, who may read this
    // rank's memory if it is `readable`; `device`, its name for people, to gpurun. Returns the peers' descriptors, by
    // rank, once every rank is ready.
    base::Result<std::vector<UniqueFd>> ready(int device_fd, bool readable, const std::string& device);

    // What gpurun asks from now on is answered by `describe` (reporter.hpp), until the result is gone, which the
    // session outlives. REQUIRES ready(), and not alone().
    base::Result<std::unique_ptr<Reporter>> listen(Reporter::Describe describe);

    // Tells gpurun, for the ranks of other nodes if there are any, that this one has come to so many steps of
    // gpurun_finalize().
    void tell_steps(uint32_t steps);
    // Asks gpurun to end the job; false if there is no gpurun to ask.
    bool abort_job(int code);

  private:
    void lose_all_peers() const;
    JobSession(MessageSocket socket, JobSegment segment, uint32_t rank)
        : socket_(std::move(socket)), segment_(std::move(segment)), rank_(rank) {}

    MessageSocket socket_;
    JobSegment segment_;
    uint32_t rank_;
    std::string joined_; // the job that it has joined; empty: gpurun has started it, or it is alone
    std::string node_address_;
    std::shared_ptr<TraceBuffer> trace_;
};

// How many processors this process may use.
uint32_t usable_processors();

} // namespace gpurun::platform
