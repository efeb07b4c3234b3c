// What happens when a public call fails: its sentence is kept for gpurun_error_detail(), and, as GPURUN_ERRORS,
// gpurun_errors_set() and GPURUN_LOG say, a line on standard error tells it, or the job ends.
//
// A call that succeeds meets nothing of this. Any thread, in every state of the process, also before gpurun_init().
#pragma once

#include "base/settings.hpp"
#include "base/status.hpp"

#include <gpurun/gpurun.h>

namespace gpurun::api {

// What a public function returns for an error, if this returns. `call` is its name if it enters no CallScope.
gpurun_status report(base::Error error, const char* call = nullptr);
inline gpurun_status report(base::Result<void> result, const char* call = nullptr) {
    return result ? GPURUN_OK : report(std::move(result).error(), call);
}
// A status that is no mistake, but one of the answers of the call `call`: in the log, and nothing more.
gpurun_status answer(base::Error error, const char* call);
const char* last_detail();

// In gpurun_init(), as soon as the settings are known.
void configure_errors(const base::Settings& settings);

// Of gpurun_abort().
[[noreturn]] void abort_job(int code);

} // namespace gpurun::api
