#include "waiting.hpp"

#include "completer.hpp"
#include "stream_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace gpurun::python {
namespace {

std::atomic<int> calls_apart{0};

/* How long the main thread looks before it gives an operation away, which costs some 20 us. Where ranks share cores, it
 * leaves them to each other. */
std::chrono::microseconds patience() {
    static const std::chrono::microseconds limit = [] {
        int ranks = 1;
        (void)gpurun_comm_size(GPURUN_COMM_WORLD, &ranks);
        const bool alone = static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency();
        return std::chrono::microseconds(alone ? 500 : 20);
    }();
    return limit;
}

/* Calls `look` until it has found something, failed, or the patience is at its end. Without the GIL. */
template <typename Look>
gpurun_status look_for_a_moment(Look look, int* ret_found) {
    *ret_found = 0;
    gpurun_status status = look(ret_found);
    if (status != GPURUN_OK || *ret_found != 0)
        return status;
    const auto end = std::chrono::steady_clock::now() + patience();
    do {
        status = look(ret_found);
    } while (status == GPURUN_OK && *ret_found == 0 && std::chrono::steady_clock::now() < end);
    return status;
}

enum class Outcome { kComplete, kRaised, kLate };

/* kRaised: a signal handler has raised. Without the GIL. */
Outcome interruptible(PyThread_type_lock lock, double seconds = -1) {
    using Clock = std::chrono::steady_clock;
    const bool limited = seconds >= 0;
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::microseconds>(end - Clock::now()).count();
        const PyLockStatus status = PyThread_acquire_lock_timed(lock, limited ? std::max<long long>(left, 0) : -1, 1);
        if (status == PY_LOCK_ACQUIRED) {
            PyThread_release_lock(lock);
            return Outcome::kComplete;
        }
        if (status == PY_LOCK_FAILURE)
            return Outcome::kLate;
        const nb::gil_scoped_acquire hold;
        if (PyErr_CheckSignals() != 0)
            return Outcome::kRaised;
    }
}

/* After a call that was to complete it. One that was refused has not: it is still under way, and keeps its buffers. */
void finish(Operation& operation, gpurun_status result, gpurun_stream stream = GPURUN_HOST) {
    if (!operation.given && result != GPURUN_OK && operation.request.id != 0)
        raise(result, operation.name);
    operation.done = true;
    if (!operation.persistent)
        keep_until_passed(stream, std::move(operation.kept));
    if (result != GPURUN_OK && operation.detail.empty())
        raise(result, operation.name);
    if (result != GPURUN_OK)
        raise(result, operation.name, operation.detail.c_str());
}

void wait_in_background(const OperationPtr& operation, double seconds = -1) {
    if (!operation->done.load(std::memory_order_acquire))
        refuse_in_callback("wait");
    complete_in_background(operation);
    Outcome outcome = Outcome::kComplete;
    {
        const nb::gil_scoped_release free;
        outcome = interruptible(operation->finished, seconds);
    }
    if (outcome == Outcome::kComplete)
        return finish(*operation, operation->result);
    if (outcome == Outcome::kLate) {
        PyErr_Format(PyExc_TimeoutError, "%s is not complete; it goes on, and can be waited for again",
                     operation->name);
        throw nb::python_error();
    }
    const nb::python_error error;
    gpurun_request copy = operation->handle;
    (void)gpurun_cancel(&copy); // of what is no receive: refused
    throw nb::python_error(error);
}

} // namespace

bool in_main_thread() {
    static const unsigned long main =
        nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
    return PyThread_get_thread_ident() == main;
}

void wait_for(const OperationPtr& operation, gpurun_stream stream) {
    if (operation->given)
        return wait_in_background(operation);
    if (stream == GPURUN_HOST && !operation->persistent && in_main_thread())
        return wait_for_at_most(operation, -1);
    gpurun_status result = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        result = gpurun_wait(&operation->request, stream, &operation->status);
    }
    finish(*operation, result, stream);
}

void wait_for_at_most(const OperationPtr& operation, double seconds) {
    if (operation->given)
        return wait_in_background(operation, seconds);
    gpurun_status result = GPURUN_OK;
    int done = 0;
    {
        const nb::gil_scoped_release free;
        result = look_for_a_moment(
            [&](int* ret) { return gpurun_test(&operation->request, GPURUN_HOST, ret, &operation->status); }, &done);
    }
    if (result == GPURUN_OK && done == 0)
        return wait_in_background(operation, seconds);
    finish(*operation, result);
}

bool test(const OperationPtr& operation, gpurun_stream stream) {
    if (operation->given) {
        if (!operation->done.load(std::memory_order_acquire))
            return false;
        finish(*operation, operation->result);
        return true;
    }
    int done = 0;
    gpurun_status result = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        result = gpurun_test(&operation->request, stream, &done, &operation->status);
    }
    if (result == GPURUN_OK && done == 0)
        return false;
    finish(*operation, result, stream);
    return true;
}

gpurun_status wait_for_message(const char* name, gpurun_status (*look)(void* state, int* ret_found),
                               gpurun_status (*wait)(void* state), const std::shared_ptr<void>& state) {
    if (in_main_thread()) {
        const nb::gil_scoped_release free;
        int found = 0;
        const gpurun_status status = look_for_a_moment([&](int* ret) { return look(state.get(), ret); }, &found);
        if (status != GPURUN_OK || found != 0)
            return status;
    }
    return call_apart(name, wait, state);
}

gpurun_status call_apart(const char* name, gpurun_status (*call)(void* state), const std::shared_ptr<void>& state) {
    if (!in_main_thread()) {
        const nb::gil_scoped_release free;
        return call(state.get());
    }
    struct Call {
        PyThread_type_lock finished = PyThread_allocate_lock();
        gpurun_status result = GPURUN_OK;
        std::string detail;
        ~Call() { PyThread_free_lock(finished); }
    };
    const auto apart = std::make_shared<Call>();
    PyThread_acquire_lock(apart->finished, WAIT_LOCK);
    ++calls_apart;
    Outcome outcome = Outcome::kComplete;
    {
        const nb::gil_scoped_release free;
        std::thread([apart, state, call] {
            apart->result = call(state.get());
            if (apart->result != GPURUN_OK)
                apart->detail = gpurun_error_detail();
            --calls_apart;
            PyThread_release_lock(apart->finished);
        }).detach();
        outcome = interruptible(apart->finished);
    }
    if (outcome != Outcome::kComplete)
        throw nb::python_error();
    if (apart->result != GPURUN_OK)
        raise(apart->result, name, apart->detail.c_str());
    return GPURUN_OK;
}

bool is_in_call_apart() { return calls_apart.load() != 0; }

} // namespace gpurun::python
