/*
 * An operation that was started: the library's request, and the Python objects that its message uses.
 *
 * Whoever holds the GIL owns it, until it is given to the completer, a thread that waits for all that it was given.
 * Then the result is read once `done` is set.
 */
#pragma once

#include "buffer.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpurun::python {

/* What has to stay as it is while an operation is under way. Freed with the GIL held. */
struct Kept {
    Buffer first;
    Buffer second;
    std::vector<Buffer> lent;
    std::vector<std::size_t> sizes[4]; // counts and displacements
    nb::object status;                 // of a receive in a group, which is written at its end
    nb::object stream;                 // in which it is: a gpurun.Stream, or none
};

struct Operation {
    gpurun_request request = GPURUN_REQUEST_NULL;
    gpurun_request handle = GPURUN_REQUEST_NULL; // the same, also once it is complete
    gpurun_stream stream = GPURUN_HOST;          // where it was started
    const char* name = "";                       // the method that started it
    bool persistent = false;
    std::unique_ptr<Kept> kept;

    bool given = false; // to the completer
    std::atomic<bool> done{false};
    gpurun_status result = GPURUN_OK;
    gpurun_message_status status = {};
    std::string detail;                    // of an error
    std::vector<PyObject*> callbacks;      // called by the completer; guarded by its mutex until `done`
    PyThread_type_lock finished = nullptr; // held until the completer is done with it

    Operation() = default;
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    ~Operation() {
        if (kept != nullptr) { // the last one may be the completer
            const nb::gil_scoped_acquire hold;
            kept.reset();
        }
        if (finished != nullptr)
            PyThread_free_lock(finished);
    }
};

using OperationPtr = std::shared_ptr<Operation>;

/* One that nobody can complete any more: the library may still use its buffers. */
inline void keep_for_ever(OperationPtr operation) { new OperationPtr(std::move(operation)); }

} // namespace gpurun::python
