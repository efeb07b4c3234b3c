#include "api/errors.hpp"

#include "api/call_scope.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

#include <atomic>
#include <cstdlib>

namespace gpurun::api {

using base::ErrorMode;
using base::LogLevel;
using base::Status;

namespace {

static_assert(static_cast<int>(ErrorMode::kReturn) == GPURUN_ERRORS_RETURN &&
              static_cast<int>(ErrorMode::kWarn) == GPURUN_ERRORS_WARN &&
              static_cast<int>(ErrorMode::kAbort) == GPURUN_ERRORS_ABORT);

constexpr int kMostWarnings = 10; // of a process: a loop that nobody checks fills no disk

thread_local std::string detail;

constexpr int kOpen = 0; // neither the program nor gpurun_init() has said it
// An ErrorMode, or kOpen. Relaxed, as is the next: they publish nothing.
std::atomic<int> mode_now{kOpen};
std::atomic<int> warnings{0};

ErrorMode mode() {
    if (mode_now.load(std::memory_order_relaxed) == kOpen) // before gpurun_init(), or its settings cannot be used
        configure_errors(base::usable_settings([](const char* name) { return std::getenv(name); }));
    return static_cast<ErrorMode>(mode_now.load(std::memory_order_relaxed));
}

const char* name_of(const char* call) {
    const char* const entered = base::this_call().name.load(std::memory_order_relaxed);
    return entered != nullptr ? entered : call;
}

void say(const char* call, const base::Error& error, const char* consequence) {
    base::log_line(LogLevel::kError,
                   base::format("{}: {}: {}{}", call, gpurun_status_string(static_cast<gpurun_status>(error.status)),
                                error.detail, consequence));
}

void warn(const char* call, const base::Error& error) {
    if (error.status == Status::kPeerLost) // gpurun itself tells who has died
        return;
    if (warnings.load(std::memory_order_relaxed) >= kMostWarnings)
        return;
    const int before = warnings.fetch_add(1, std::memory_order_relaxed);
    if (before >= kMostWarnings)
        return;
    say(call, error, "");
    if (before + 1 == kMostWarnings)
        base::log_line(LogLevel::kError, "further errors are not shown; GPURUN_LOG=error shows all of them");
}

} // namespace

static gpurun_status keep(base::Error error) {
    detail = std::move(error.detail);
    return static_cast<gpurun_status>(error.status);
}

gpurun_status answer(base::Error error, const char* call) {
    (void)mode(); // the log's level is known with it
    if (base::log_enabled(LogLevel::kError))
        say(call, error, "");
    return keep(std::move(error));
}

gpurun_status report(base::Error error, const char* call) {
    const ErrorMode chosen = mode();
    call = name_of(call);
    if (chosen == ErrorMode::kAbort) {
        say(call, error, " (GPURUN_ERRORS=abort)");
        abort_job(static_cast<int>(error.status));
    }
    if (base::log_enabled(LogLevel::kError))
        say(call, error, "");
    else if (chosen == ErrorMode::kWarn)
        warn(call, error);
    return keep(std::move(error));
}

const char* last_detail() { return detail.c_str(); }

void configure_errors(const base::Settings& settings) {
    base::configure_log(static_cast<LogLevel>(settings.log_level), settings.size > 1 ? settings.rank : -1);
    int open = kOpen; // else the program has said it: that holds
    mode_now.compare_exchange_strong(open, static_cast<int>(settings.errors), std::memory_order_relaxed);
}

static base::Result<void> set_mode(gpurun_errors chosen, gpurun_errors* ret_previous) {
    if (chosen != GPURUN_ERRORS_RETURN && chosen != GPURUN_ERRORS_WARN && chosen != GPURUN_ERRORS_ABORT)
        return base::error(Status::kArgument,
                           "{} is no mode: pass GPURUN_ERRORS_RETURN, GPURUN_ERRORS_WARN or GPURUN_ERRORS_ABORT",
                           static_cast<int>(chosen));
    (void)mode(); // what the environment says is the previous one
    const int previous = mode_now.exchange(static_cast<int>(chosen), std::memory_order_relaxed);
    if (ret_previous != nullptr)
        *ret_previous = static_cast<gpurun_errors>(previous);
    return {};
}

} // namespace gpurun::api

extern "C" {

gpurun_status gpurun_errors_set(gpurun_errors mode, gpurun_errors* ret_previous) {
    return gpurun::api::report(gpurun::api::set_mode(mode, ret_previous), __func__);
}

const char* gpurun_error_detail(void) { return gpurun::api::last_detail(); }

const char* gpurun_status_string(gpurun_status status) {
    switch (status) {
    case GPURUN_OK: return "GPURUN_OK";
    case GPURUN_ERR_NOT_INITIALIZED: return "GPURUN_ERR_NOT_INITIALIZED";
    case GPURUN_ERR_ALREADY_INITIALIZED: return "GPURUN_ERR_ALREADY_INITIALIZED";
    case GPURUN_ERR_FINALIZED: return "GPURUN_ERR_FINALIZED";
    case GPURUN_ERR_ARGUMENT: return "GPURUN_ERR_ARGUMENT";
    case GPURUN_ERR_COMM: return "GPURUN_ERR_COMM";
    case GPURUN_ERR_RANK: return "GPURUN_ERR_RANK";
    case GPURUN_ERR_TAG: return "GPURUN_ERR_TAG";
    case GPURUN_ERR_COUNT: return "GPURUN_ERR_COUNT";
    case GPURUN_ERR_TYPE: return "GPURUN_ERR_TYPE";
    case GPURUN_ERR_BUFFER: return "GPURUN_ERR_BUFFER";
    case GPURUN_ERR_STREAM: return "GPURUN_ERR_STREAM";
    case GPURUN_ERR_EVENT: return "GPURUN_ERR_EVENT";
    case GPURUN_ERR_TRUNCATED: return "GPURUN_ERR_TRUNCATED";
    case GPURUN_ERR_PEER_LOST: return "GPURUN_ERR_PEER_LOST";
    case GPURUN_ERR_DEVICE: return "GPURUN_ERR_DEVICE";
    case GPURUN_ERR_MEMORY: return "GPURUN_ERR_MEMORY";
    case GPURUN_ERR_VERSION: return "GPURUN_ERR_VERSION";
    case GPURUN_ERR_SYSTEM: return "GPURUN_ERR_SYSTEM";
    case GPURUN_ERR_SETTING: return "GPURUN_ERR_SETTING";
    case GPURUN_ERR_LAUNCHER: return "GPURUN_ERR_LAUNCHER";
    case GPURUN_ERR_UNSUPPORTED: return "GPURUN_ERR_UNSUPPORTED";
    case GPURUN_ERR_INTERNAL: return "GPURUN_ERR_INTERNAL";
    case GPURUN_ERR_REQUEST: return "GPURUN_ERR_REQUEST";
    case GPURUN_ERR_OP: return "GPURUN_ERR_OP";
    case GPURUN_ERR_COLLECTIVE: return "GPURUN_ERR_COLLECTIVE";
    case GPURUN_ERR_LOAN: return "GPURUN_ERR_LOAN";
    case GPURUN_ERR_TIMEOUT: return "GPURUN_ERR_TIMEOUT";
    }
    return "GPURUN_ERR_?";
}

} // extern "C"
