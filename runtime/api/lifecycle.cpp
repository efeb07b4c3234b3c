// gpurun_init() to gpurun_finalize(), gpurun_abort(), and what may be called at any time.
#include "api/call.hpp"
#include "base/format.hpp"
#include "comm/datatype.hpp"
#include "platform/clock.hpp"
#include "platform/forking.hpp"
#include "platform/meeting_place.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace gpurun::api {

namespace {

using base::Status;

enum class Phase { kBefore, kRunning, kFinalized, kForked }; // the last: as finalized, in the child of a rank

// The one mutable global, with `running`, which says so to calls.
struct Process {
    std::mutex changing; // init and finalize
    std::atomic<Phase> phase{Phase::kBefore};
    std::unique_ptr<Runtime> current;
    // Some thread is in gpurun_abort(). Set before that looks at `running`, read after that has been cleared (both
    // sequentially consistent): either it finds no runtime, or the one that it uses stays.
    std::atomic<bool> aborting{false};
};
Process& process() {
    static auto* const the_process = new Process; // never destroyed: threads may still call while the process exits
    return *the_process;
}

base::Error wrong_phase(Phase phase) {
    if (phase == Phase::kBefore)
        return {Status::kNotInitialized, "gpurun_init() has not been called in this process: call it first"};
    if (phase == Phase::kForked)
        return {Status::kFinalized,
                "this process was forked from a rank and is not a rank: only the rank itself may make calls"};
    return {Status::kFinalized, "gpurun_finalize() has been called; a process joins a job once"};
}

} // namespace

constinit std::atomic<Runtime*> running{nullptr};

base::Error not_running() { return wrong_phase(process().phase.load(std::memory_order_acquire)); }

// In a child that this process forks: it shares the job's memory with the rank, and its calls would pass for the
// rank's. Takes no lock, since a thread that is not in the child may hold it.
static void leave_job_to_parent() {
    if (running.exchange(nullptr, std::memory_order_acq_rel) == nullptr)
        return;
    call_observers.store(nullptr, std::memory_order_release);
    process().phase.store(Phase::kForked, std::memory_order_release);
}

// Whoever sees calls. gpurun_init() began at `begin_ns`, before anybody did.
static void observe_calls(Runtime& started, int64_t begin_ns) {
    auto observers = std::make_unique<CallObservers>();
    observers->ranges = has_range_reader();
    if (const auto& buffer = started.session().trace()) {
        observers->trace = std::make_unique<CallTrace>(buffer);
        observers->trace->add("gpurun_init", begin_ns);
    }
    if (observers->ranges || observers->trace != nullptr)
        call_observers.store(observers.release(), std::memory_order_release);
}

static gpurun_status init(const Membership* as) {
    Process& self = process();
    if (self.phase.load(std::memory_order_acquire) == Phase::kForked) // its lock may be held for ever
        return report(wrong_phase(Phase::kForked));
    const std::lock_guard lock(self.changing);
    const Phase phase = self.phase.load(std::memory_order_acquire);
    if (phase == Phase::kRunning)
        return report(base::Error{Status::kAlreadyInitialized, "gpurun_init() was called before; call it once"});
    if (phase == Phase::kFinalized)
        return report(wrong_phase(phase));
    if (auto heeded = platform::call_in_children(leave_job_to_parent); !heeded)
        return report(std::move(heeded));
    const int64_t begin_ns = platform::now_ns();
    auto started = Runtime::start(as);
    if (!started)
        return report(std::move(started).error());
    self.current = std::move(*started);
    observe_calls(*self.current, begin_ns);
    running.store(self.current.get(), std::memory_order_release);
    self.phase.store(Phase::kRunning, std::memory_order_release);
    return GPURUN_OK;
}

// Not for a process that gpurun started: its environment says which rank it is, and gpurun_init() reads that.
static base::Result<Membership> membership(const char* name, int rank, int size) {
    if (name == nullptr)
        return base::error(Status::kArgument, "name is NULL: give all ranks of the job the same name");
    GPURUN_TRY(platform::check_meeting_name(name));
    if (size < 1 || rank < 0 || rank >= size)
        return base::error(Status::kRank, "rank {} of {}: ranks are 0 to size - 1", rank, size);
    const char* const socket = std::getenv("GPURUN_CONTROL_FD");
    if (socket != nullptr && platform::MessageSocket::is_one(std::atoi(socket)))
        return base::error(Status::kLauncher,
                           "gpurun started this process as a rank of another job: call gpurun_init()");
    return Membership{name, std::to_string(rank), std::to_string(size)};
}

static gpurun_status init_as(const char* name, int rank, int size) {
    auto as = membership(name, rank, size);
    return as ? init(&*as) : report(std::move(as).error());
}

static gpurun_status finalize() {
    Process& self = process();
    if (self.phase.load(std::memory_order_acquire) == Phase::kForked)
        return report(wrong_phase(Phase::kForked));
    const std::lock_guard lock(self.changing);
    const Phase phase = self.phase.load(std::memory_order_acquire);
    if (phase != Phase::kRunning)
        return report(wrong_phase(phase));
    if (auto refused = refuse_in_group("gpurun_finalize"); !refused)
        return report(std::move(refused));
    auto stopped = self.current->stop();
    self.phase.store(Phase::kFinalized, std::memory_order_release);
    running.store(nullptr);
    if (self.aborting.load())
        (void)self.current.release(); // this process is about to end
    self.current.reset();
    return report(std::move(stopped));
}

void abort_job(int code) {
    const int status = (code & 0xff) == 0 ? 1 : code & 0xff;
    std::fflush(nullptr);
    process().aborting.store(true);
    if (Runtime* const current = running.load())
        (void)current->session().abort_job(status); // without gpurun, this process is the job
    std::_Exit(status);
}

static base::Result<size_t> count_of(const gpurun_message_status* status, gpurun_datatype type) {
    if (status == nullptr)
        return base::error(Status::kArgument,
                           "status is NULL: pass that of a receive, of a completed request or of a probe");
    GPURUN_ASSIGN(const size_t size, comm::type_size(static_cast<int>(type)));
    if (status->bytes % size != 0)
        return base::error(Status::kCount,
                           "the message has {} bytes, which is not a whole number of elements of {} bytes",
                           status->bytes, size);
    return status->bytes / size;
}

} // namespace gpurun::api

using gpurun::api::process;

extern "C" {

gpurun_status gpurun_init(void) {
    const gpurun::base::CallScope call(__func__);
    const bool has_reader = gpurun::api::has_range_reader(); // not known to an api::CallScope before
    if (has_reader)
        gpurun::api::begin_range(__func__, {});
    const gpurun_status status = gpurun::api::init(nullptr);
    if (has_reader)
        gpurun::api::end_range();
    return status;
}

gpurun_status gpurun_init_as(const char* name, int rank, int size) {
    const gpurun::base::CallScope call(__func__);
    return gpurun::api::init_as(name, rank, size);
}

gpurun_status gpurun_finalize(void) {
    const gpurun::api::CallScope call(__func__);
    return gpurun::api::finalize();
}

int gpurun_initialized(void) {
    return process().phase.load(std::memory_order_acquire) == gpurun::api::Phase::kBefore ? 0 : 1;
}

int gpurun_finalized(void) {
    const gpurun::api::Phase phase = process().phase.load(std::memory_order_acquire);
    return phase == gpurun::api::Phase::kFinalized || phase == gpurun::api::Phase::kForked ? 1 : 0;
}

void gpurun_abort(int code) {
    const gpurun::api::CallScope call(__func__);
    gpurun::api::abort_job(code);
}

double gpurun_wtime(void) { return static_cast<double>(gpurun::platform::now_ns()) * 1e-9; }

void gpurun_version(int* ret_major, int* ret_minor, int* ret_patch) {
    if (ret_major != nullptr)
        *ret_major = GPURUN_VERSION_MAJOR;
    if (ret_minor != nullptr)
        *ret_minor = GPURUN_VERSION_MINOR;
    if (ret_patch != nullptr)
        *ret_patch = GPURUN_VERSION_PATCH;
}

gpurun_status gpurun_type_size(gpurun_datatype type, size_t* ret_size) {
    if (auto checked = gpurun::api::check_output(ret_size, "ret_size"); !checked)
        return gpurun::api::report(std::move(checked), __func__);
    auto size = gpurun::comm::type_size(static_cast<int>(type));
    if (!size)
        return gpurun::api::report(std::move(size).error(), __func__);
    *ret_size = *size;
    return GPURUN_OK;
}

gpurun_status gpurun_get_count(const gpurun_message_status* status, gpurun_datatype type, size_t* ret_count) {
    if (auto checked = gpurun::api::check_output(ret_count, "ret_count"); !checked)
        return gpurun::api::report(std::move(checked), __func__);
    auto count = gpurun::api::count_of(status, type);
    if (!count) {
        gpurun::base::Error error = std::move(count).error();
        return error.status == gpurun::base::Status::kCount ? gpurun::api::answer(std::move(error), __func__)
                                                            : gpurun::api::report(std::move(error), __func__);
    }
    *ret_count = *count;
    return GPURUN_OK;
}

} // extern "C"
