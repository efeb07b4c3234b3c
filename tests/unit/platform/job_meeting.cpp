// Two jobs that meet, in one process: what comes of it. tests/join/meeting_test.py has processes that die and
// strangers.
#include "platform/job_meeting.hpp"
#include "platform/meeting_place.hpp"
#include "platform/private_folder.hpp"
#include "support/unit.hpp"

#include <atomic>
#include <cstdlib>
#include <poll.h>
#include <thread>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::detail_of;
using gpurun::test::must;

namespace {

constexpr int64_t kLongMs = 60'000;

// Where the jobs of a test meet.
struct Place {
    Place() : folder(must(PrivateFolder::create("gpurun-unit-"))) {
        ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
    }
    ~Place() { ::unsetenv("XDG_RUNTIME_DIR"); }

    PrivateFolder folder;
};

struct Met {
    gpurun::base::Result<JointJob> acceptor;
    gpurun::base::Result<JointJob> connector;
};

Met meet(const Party& acceptor, const Party& connector) {
    const Place place;
    gpurun::base::Result<JointJob> accepted = JointJob{};
    std::thread accepting([&] { accepted = accept_job("unit", acceptor); });
    auto connected = connect_job("unit", connector);
    accepting.join();
    return {std::move(accepted), std::move(connected)};
}

} // namespace

TEST_SUITE_BEGIN("job meeting");

TEST_CASE("both sides know the joint job, and the acceptor's ranks are first") {
    const JobSegment one = must(JobSegment::create(3, 1));
    const JobSegment other = must(JobSegment::create(2, 1));
    Met met = meet(must(Party::of(one, 3, kLongMs)), must(Party::of(other, 2, kLongMs)));
    const JointJob acceptor = must(std::move(met.acceptor));
    const JointJob connector = must(std::move(met.connector));
    CHECK(acceptor.name == connector.name);
    REQUIRE_OK(check_meeting_name(acceptor.name));
    CHECK(acceptor.first == 0);
    CHECK(connector.first == 3);
    CHECK(acceptor.size == 5);
    CHECK(connector.size == 5);
    gpurun::base::Settings own;
    own.control_fd = 7;
    const gpurun::base::Settings there = settings_in(connector, 1, own);
    CHECK(there.job == connector.name);
    CHECK(there.rank == 4);
    CHECK(there.size == 5);
    CHECK(there.control_fd == -1);
}

TEST_CASE("a job does not meet itself") {
    const JobSegment job = must(JobSegment::create(4, 1));
    const Met met = meet(must(Party::of(job, 2, 500)), must(Party::of(job, 2, kLongMs)));
    CHECK_STATUS(met.connector, Status::kLauncher);
    CHECK(detail_of(met.connector).find("cannot connect to itself") != std::string::npos);
    CHECK_STATUS(met.acceptor, Status::kTimeout);
}

TEST_CASE("a joint job has at most as many ranks as a job") {
    const JobSegment one = must(JobSegment::create(1, 1));
    const JobSegment other = must(JobSegment::create(1, 1));
    const Met met = meet(must(Party::of(one, kMaxRanks - 1, 500)), must(Party::of(other, 2, kLongMs)));
    CHECK(detail_of(met.connector).find("the two would have 257 ranks together") != std::string::npos);
    CHECK_STATUS(met.acceptor, Status::kTimeout);
}

TEST_CASE("the folder goes with the last who waits there") {
    const Place place;
    const JobSegment job = must(JobSegment::create(1, 1));
    CHECK_STATUS(connect_job("nobody", must(Party::of(job, 1, 50))), Status::kTimeout);
    CHECK_STATUS(accept_job("nobody", must(Party::of(job, 1, 50))), Status::kTimeout);
    CHECK(must(jobs_that_meet()).empty());
    CHECK(::access((place.folder.path() + "/gpurun").c_str(), F_OK) != 0);
}

TEST_CASE("a socket that is just being made is not taken for one that was left") {
    const Place place;
    const OwnSocket other = must(OwnSocket::listen("other")); // so that the folder stays
    std::atomic<bool> over = false;                           // tells the thread to end
    std::thread sweeping([&] {
        while (!over)
            for (const std::string& path : must(jobs_that_meet()))
                sweep_now(path);
    });
    int missing = 0;
    for (int i = 0; i < 3000; ++i) {
        const OwnSocket own = must(OwnSocket::listen("own-" + std::to_string(i)));
        missing += ::access(own.path().c_str(), F_OK) == 0 ? 0 : 1;
    }
    over = true;
    sweeping.join();
    CHECK(missing == 0);
}

TEST_CASE("the socket of who was killed goes, also while the kernel still closes its descriptors") {
    const Place place;
    must(open_meeting_place());
    UniqueFd listener;
    std::string path;
    {
        const MeetingPlace locked = must(MeetingPlace::lock());
        path = locked.path_of("killed");
        listener = must(locked.listen(path));
    }
    CHECK_FALSE(sweep_now(path)); // somebody listens
    must(accept_caller(listener.get()));
    std::thread sweeping([&] { sweep_after_death(path); });
    pollfd called{listener.get(), POLLIN, 0};
    CHECK(::poll(&called, 1, static_cast<int>(kLongMs)) == 1);
    listener = {};
    sweeping.join();
    CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_SUITE_END();
