#include "api/connecting.hpp"

#include "api/collective_call.hpp"
#include "api/new_communicator.hpp"
#include "base/format.hpp"
#include "comm/collective/allreduce.hpp"
#include "comm/collective/barrier.hpp"
#include "comm/collective/bcast.hpp"
#include "platform/job_meeting.hpp"
#include "platform/meeting_place.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::api {

using base::Result;
using base::Status;

namespace {

constexpr int kLongestJoinS = 60; // of ranks that have all been told at the same time

// Hardware queues of a GPU for a rank that is in so many jobs: then some are left to the program (tests/unit/transfer).
constexpr uint32_t fewest_queues(uint32_t jobs) { return jobs == 2 ? 8 : 5 * jobs; }

const char* name_of(Side side) { return side == Side::kAccepts ? "gpurun_comm_accept" : "gpurun_comm_connect"; }

// What rank 0 of the communicator has found, as it tells the others.
struct Found {
    Side side{};
    int32_t status = 0; // a base::Status; if it is not kOk, `detail` says why, and nothing else is there
    uint32_t first = 0;
    uint32_t size = 0;
    uint32_t mps = 0;
    char name[80] = {};
    char detail[400] = {};
};
static_assert(std::is_trivially_copyable_v<Found>);

template <size_t size>
void copy_text(char (&to)[size], const std::string& from) {
    from.copy(to, size - 1);
}

// A number for the joint job's world, which is given back unless it is used.
class Seat {
  public:
    static Result<Seat> take(Runtime& runtime) {
        const uint32_t engines = runtime.engines() + 1;
        const uint32_t queues = runtime.settings().hardware_queues;
        if (runtime.device().info().identity.kind == device::Kind::kCuda && queues < fewest_queues(engines))
            return base::error(Status::kUnsupported,
                               "{} hardware queues of the GPU are not enough for a rank that is in {} jobs at the same "
                               "time: set CUDA_DEVICE_MAX_CONNECTIONS to {} or more",
                               queues, engines, fewest_queues(engines));
        const auto names = runtime.joint_worlds().reserve();
        if (!names)
            return base::error(Status::kMemory,
                               "this rank is in {} joint jobs: free the communicator of one of them first",
                               JointWorlds::kMost);
        return Seat(runtime, *names);
    }
    Seat(Seat&& other) noexcept
        : runtime_(other.runtime_), names_(other.names_), taken_(std::exchange(other.taken_, false)) {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    Seat& operator=(Seat&&) = delete;
    ~Seat() {
        if (taken_)
            runtime_.joint_worlds().give_back(names_);
    }
    const comm::Names& names() const { return names_; }
    void use() { taken_ = false; }

  private:
    Seat(Runtime& runtime, const comm::Names& names) : runtime_(runtime), names_(names) {}

    Runtime& runtime_;
    comm::Names names_;
    bool taken_ = true;
};

Result<void> check(const Call& call, const char* name) {
    if (name == nullptr)
        return base::error(Status::kArgument, "name is NULL: both jobs give the same name");
    GPURUN_TRY(platform::check_meeting_name(name));
    if (call.engine != &call.runtime->engine())
        return base::error(Status::kComm,
                           "the communicator is of a joint job: a job meets another one by a communicator of its own");
    if (!call.runtime->settings().progress_thread)
        return base::error(Status::kUnsupported,
                           "with GPURUN_PROGRESS=calls a call would move the messages of one job only: leave it at "
                           "thread");
    const platform::JobSegment& job = call.runtime->session().segment();
    const uint32_t node = job.rank(call.engine->self().value).node;
    for (const base::WorldRank each : call.comm->group().members())
        if (job.rank(each.value).node != node)
            return base::error(Status::kUnsupported,
                               "ranks of several nodes cannot meet another job: use a communicator of "
                               "gpurun_comm_split_type(GPURUN_SPLIT_NODE)");
    return {};
}

// A rank that has no seat says so before rank 0 looks for another job: else the others would wait for it.
Result<void> have_seats(const Call& call, const Result<Seat>& seat) {
    constexpr int64_t kAll = INT64_MAX;
    constexpr int kStatusBits = 16;
    int64_t first_without = kAll; // its rank, and its base::Status
    if (!seat)
        first_without = (int64_t{call.comm->rank().value} << kStatusBits) | static_cast<int>(seat.error().status);
    transfer::Operand operand;
    operand.address = reinterpret_cast<std::byte*>(&first_without);
    operand.bytes = sizeof first_without;
    const comm::Schedule::Buffer word = buffer_of(operand);
    const auto build = [&](comm::Schedule& schedule) {
        comm::build_allreduce(schedule, {{base::Type::kInt64, base::Op::kMin}, word, word});
    };
    GPURUN_TRY(call.engine->schedules().run(
        comm::Signature(base::Collective::kAllreduce)
            .with_elements(1, static_cast<int>(base::Type::kInt64), static_cast<uint32_t>(base::Op::kMin)),
        *call.comm, operand, build));
    if (!seat)
        return seat.error();
    if (first_without != kAll)
        return base::error(static_cast<Status>(first_without & ((1 << kStatusBits) - 1)),
                           "rank {} of the communicator cannot meet another job, and is told why",
                           first_without >> kStatusBits);
    return {};
}

// Of rank 0 of the communicator.
Result<platform::JointJob> find_other(Side side, const Call& call, const char* name, int timeout_ms) {
    const auto ranks = static_cast<uint32_t>(call.comm->size());
    GPURUN_ASSIGN(platform::Party self, platform::Party::of(call.runtime->session().segment(), ranks, timeout_ms));
    const base::Settings& settings = call.runtime->settings();
    self.mps = settings.mps && settings.control_fd < 0; // gpurun starts an MPS for each job
    return side == Side::kAccepts ? platform::accept_job(name, self) : platform::connect_job(name, self);
}

Found describe(Side side, Result<platform::JointJob> met) {
    Found found;
    found.side = side;
    if (!met) {
        found.status = static_cast<int32_t>(met.error().status);
        copy_text(found.detail, met.error().detail);
        return found;
    }
    found.first = met->first;
    found.size = met->size;
    found.mps = met->mps ? 1 : 0;
    copy_text(found.name, met->name);
    return found;
}

Result<void> tell_all(const Call& call, Found& found) {
    transfer::Operand operand;
    operand.address = reinterpret_cast<std::byte*>(&found);
    operand.bytes = sizeof found;
    const auto build = [&](comm::Schedule& schedule) {
        comm::build_bcast(schedule, {buffer_of(operand), comm::Rank{0}});
    };
    GPURUN_TRY(call.engine->schedules().run(
        comm::Signature(base::Collective::kBcast).with_root(0).with_bytes(sizeof found), *call.comm, operand, build));
    return {};
}

// Until all ranks of the joint job are there: what fails in one fails in all of them.
Result<void> meet_all(World& world) {
    GPURUN_TRY(world.engine().schedules().run(comm::Signature(base::Collective::kBarrier), world.all(),
                                              transfer::Operand(),
                                              [](comm::Schedule& schedule) { comm::build_barrier(schedule, false); }));
    return {};
}

} // namespace

Result<void> meet(Side side, const char* name, int timeout_ms, gpurun_comm comm, gpurun_comm* ret_comm) {
    Call call;
    GPURUN_TRY(enter_new(call, comm, ret_comm));
    GPURUN_TRY(check(call, name));
    Runtime& runtime = *call.runtime;
    const comm::CommunicatorUse use(*call.comm);
    Result<Seat> seat = Seat::take(runtime);
    GPURUN_TRY(have_seats(call, seat));
    const auto rank = static_cast<uint32_t>(call.comm->rank().value);
    Found found;
    if (rank == 0)
        found = describe(side, find_other(side, call, name, timeout_ms));
    GPURUN_TRY(tell_all(call, found));
    if (found.status != 0)
        return base::Error{static_cast<Status>(found.status), found.detail};
    if (found.side != side)
        return base::error(Status::kArgument, "rank 0 of the communicator has called {}(): all its ranks call that",
                           name_of(found.side));
    base::Settings settings =
        platform::settings_in({found.name, found.first, found.size, found.mps != 0}, rank, runtime.settings());
    settings.join_timeout_s = std::min(settings.join_timeout_s, kLongestJoinS);
    GPURUN_ASSIGN(std::unique_ptr<World> world, runtime.open_joint(settings, seat->names()));
    seat->use();
    if (auto met = meet_all(*world); !met) {
        static_cast<void>(runtime.leave_joint(std::move(world)));
        return met;
    }
    world->engine().communicators().set_name(world->all(),
                                             std::string(name, strnlen(name, GPURUN_MAX_OBJECT_NAME - 1)));
    const uint64_t handle = world->engine().communicators().world_handle();
    runtime.joint_worlds().add(std::move(world));
    *ret_comm = gpurun_comm{handle};
    return {};
}

Result<void> leave_joint_job(const Call& call, gpurun_comm* comm) {
    if (const size_t open = call.engine->communicators().open(); open != 0)
        return base::error(Status::kComm,
                           "{} communicators that were made of this one are there: free them first, since it is that "
                           "of all ranks of a joint job, which this call leaves",
                           open);
    std::unique_ptr<World> world = call.runtime->joint_worlds().take(comm->id);
    if (world == nullptr)
        return base::error(Status::kComm, "another thread is freeing the communicator");
    *comm = GPURUN_COMM_NULL;
    return call.runtime->leave_joint(std::move(world));
}

} // namespace gpurun::api

namespace api = gpurun::api;

extern "C" {

gpurun_status gpurun_comm_accept(const char* name, int timeout_ms, gpurun_comm comm, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::meet(api::Side::kAccepts, name, timeout_ms, comm, ret_comm));
}

gpurun_status gpurun_comm_connect(const char* name, int timeout_ms, gpurun_comm comm, gpurun_comm* ret_comm) {
    const api::CallScope call(__func__);
    return api::report(api::meet(api::Side::kConnects, name, timeout_ms, comm, ret_comm));
}

} // extern "C"
