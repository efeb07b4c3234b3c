// The threads of this process that have ever waited in a call of gpurun, for wait reports, which name the call of each.
//
// A thread enters the list when it waits, so that calls that do not wait pay nothing, and leaves it when it ends. One
// list a process.
#pragma once

#include "base/current_call.hpp"
#include "base/function_ref.hpp"

#include <cstdint>

namespace gpurun::platform {

// The calling thread is one of them from now on. Returns its number, as the system has it.
uint64_t know_this_thread();

struct KnownThread {
    uint64_t id = 0;
    const char* call = nullptr; // null: in none
    int64_t seen_ns = 0;        // when it was first seen in this call, by visit_known_threads()
};
// Each of them, none of which ends meanwhile. `visit` calls nothing of this file.
void visit_known_threads(base::FunctionRef<void(const KnownThread&)> visit);

} // namespace gpurun::platform
