// A job that meets another one, again and again, without an engine: meeting accept|connect NAME RANKS TIMEOUT_MS ROUNDS
// [stay]. The process speaks for its job; in each round it starts RANKS processes, which join the joint job. With
// `stay` they stay until a rank of it is lost, and say so.
#include "platform/byte_stream.hpp"
#include "platform/job_meeting.hpp"
#include "platform/job_session.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gpurun/version.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpurun;

namespace {

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;

int fail(const base::Error& error) {
    std::printf("%d: %s\n", static_cast<int>(error.status), error.detail.c_str());
    std::fflush(stdout);
    return 1;
}

void await_a_loss(const platform::JobSession& session) {
    const platform::JobSegment& job = session.segment();
    std::atomic<uint32_t>& bell = job.rank(session.rank()).doorbell;
    while (true) {
        const uint32_t seen = bell.load(std::memory_order_acquire);
        for (uint32_t rank = 0; rank < job.size(); ++rank)
            if (job.rank(rank).state.load(std::memory_order_acquire) ==
                static_cast<uint32_t>(platform::RankState::kDead)) {
                std::printf("rank %u lost rank %u\n", session.rank(), rank);
                std::fflush(stdout);
                return;
            }
        platform::sleep_while(bell, seen, platform::kForever);
    }
}

void finalize(const platform::JobSession& session) {
    session.segment()
        .rank(session.rank())
        .state.store(static_cast<uint32_t>(platform::RankState::kFinalized), std::memory_order_release);
}

int be_rank(const platform::JointJob& joint, uint32_t index, const base::Settings& own, bool stays) {
    auto session = platform::JobSession::connect(settings_in(joint, index, own), kVersion);
    if (!session)
        return fail(session.error());
    if (session->segment().size() != joint.size || session->rank() != joint.first + index)
        return fail({base::Status::kInternal, "not the segment that was agreed on"});
    if (auto ready = session->ready(-1, false, "none"); !ready)
        return fail(ready.error());
    if (stays) {
        std::printf("rank %u of %u, pid %d\n", session->rank(), joint.size, static_cast<int>(::getpid()));
        std::fflush(stdout);
        auto reporter = session->listen([](auto&) { return platform::wait_report::End{}; });
        await_a_loss(*session);
    }
    finalize(*session);
    return 0;
}

// All ranks of this side.
int be_side(const platform::JointJob& joint, uint32_t ranks, const base::Settings& own, bool stays) {
    for (uint32_t index = 0; index < ranks; ++index)
        if (::fork() == 0)
            std::_Exit(be_rank(joint, index, own, stays));
    int failed = 0;
    for (int status = 0; ::wait(&status) > 0;)
        failed += status != 0 ? 1 : 0;
    return failed;
}

long open_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

} // namespace

int main(int argc, char** argv) {
    if (argc < 6)
        return 2;
    const bool accepts = std::strcmp(argv[1], "accept") == 0;
    const auto ranks = static_cast<uint32_t>(std::atoi(argv[3]));
    const bool stays = argc > 6;
    auto own = base::read_settings([](const char* name) { return std::getenv(name); });
    auto job = platform::JobSegment::create(std::max(ranks, 1U), 1);
    if (!own || !job)
        return 2;
    long before = 0;
    for (int round = 0; round < std::atoi(argv[5]); ++round) {
        auto self = platform::Party::of(*job, ranks, std::atoi(argv[4]));
        if (!self)
            return fail(self.error());
        auto joint = accepts ? platform::accept_job(argv[2], *self) : platform::connect_job(argv[2], *self);
        if (!joint)
            return fail(joint.error());
        if (be_side(*joint, ranks, *own, stays) != 0)
            return 1;
        if (before == 0)
            before = open_descriptors();
    }
    std::printf("met %s times, descriptors %ld and %ld\n", argv[5], before, open_descriptors());
    return open_descriptors() == before ? 0 : 1;
}
