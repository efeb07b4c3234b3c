#include "completer.hpp"

#include <mutex>
#include <thread>
#include <utility>

namespace gpurun::python {
namespace {

class Completer {
  public:
    void add(const OperationPtr& operation) {
        const std::scoped_lock lock(mutex_);
        if (!thread_.joinable())
            start();
        added_.push_back(operation);
        wake();
    }

    /* False if the operation is done, and nobody will call it. */
    bool add_callback(Operation& operation, PyObject* callback) {
        const std::scoped_lock lock(mutex_);
        if (operation.done.load(std::memory_order_acquire))
            return false;
        operation.callbacks.push_back(callback);
        return true;
    }

    void stop() {
        {
            const std::scoped_lock lock(mutex_);
            if (!thread_.joinable())
                return;
            stopping_ = true;
            wake();
        }
        thread_.join();
        (void)gpurun_comm_free(&self_);
    }

  private:
    void start() {
        check(gpurun_comm_dup(GPURUN_COMM_SELF, &self_), "wait");
        stopping_ = false;
        woken_ = false;
        thread_ = std::thread([this] { run(); });
    }

    void wake() {
        if (!std::exchange(woken_, true))
            (void)gpurun_send(nullptr, 0, GPURUN_BYTE, 0, 0, self_, GPURUN_HOST);
    }

    /* active_[i] is waited for by requests_[i + 1]; requests_[0] is the receive of the message that wakes. */
    void run() {
        requests_.assign(1, GPURUN_REQUEST_NULL);
        while (listen() && gather()) {
            int index = -1;
            gpurun_message_status status = {};
            const gpurun_status result =
                gpurun_waitany(requests_.size(), requests_.data(), GPURUN_HOST, &index, &status);
            if (index < 0)
                break; // the rank has left
            if (index > 0)
                finish(static_cast<std::size_t>(index) - 1, result, status);
        }
        if (requests_[0].id != 0) {
            (void)gpurun_cancel(requests_.data());
            (void)gpurun_wait(requests_.data(), GPURUN_HOST, nullptr);
        }
        forget();
    }

    bool listen() {
        return requests_[0].id != 0 ||
               gpurun_irecv(nullptr, 0, GPURUN_BYTE, 0, 0, self_, GPURUN_HOST, requests_.data()) == GPURUN_OK;
    }

    bool gather() {
        const std::scoped_lock lock(mutex_);
        woken_ = false;
        for (OperationPtr& operation : added_) {
            requests_.push_back(operation->request);
            active_.push_back(std::move(operation));
        }
        added_.clear();
        return !stopping_;
    }

    void finish(std::size_t index, gpurun_status result, const gpurun_message_status& status) {
        const OperationPtr operation = std::move(active_[index]);
        active_[index] = std::move(active_.back());
        active_.pop_back();
        requests_[index + 1] = requests_.back();
        requests_.pop_back();

        operation->request = GPURUN_REQUEST_NULL;
        operation->result = result;
        operation->status = status;
        if (result != GPURUN_OK)
            operation->detail = gpurun_error_detail();
        std::vector<PyObject*> callbacks;
        {
            const std::scoped_lock lock(mutex_);
            callbacks.swap(operation->callbacks);
            operation->done.store(true, std::memory_order_release); // publishes the result
        }
        PyThread_release_lock(operation->finished);
        let_go(operation, callbacks);
    }

    static void let_go(const OperationPtr& operation, const std::vector<PyObject*>& callbacks) {
        if (callbacks.empty() && operation.use_count() > 1)
            return; // its request has the objects
        const nb::gil_scoped_acquire hold;
        for (PyObject* callback : callbacks) {
            const nb::object called = nb::steal(PyObject_CallNoArgs(callback));
            if (!called.is_valid())
                PyErr_WriteUnraisable(callback);
            Py_DECREF(callback);
        }
        operation->kept.reset();
    }

    /* What is not complete when the rank leaves keeps its buffers: the library may still use them. */
    void forget() {
        for (OperationPtr& operation : active_)
            new OperationPtr(std::move(operation));
        active_.clear();
        requests_.clear();
    }

    std::mutex mutex_;
    std::vector<OperationPtr> added_;
    bool woken_ = false; // a message is on its way
    bool stopping_ = false;
    gpurun_comm self_ = GPURUN_COMM_NULL;
    std::thread thread_;

    std::vector<OperationPtr> active_; // the thread's own
    std::vector<gpurun_request> requests_;
};

/* Never destroyed: a program may end while the thread waits. */
Completer& completer() {
    static auto* const one = new Completer;
    return *one;
}

} // namespace

void complete_in_background(const OperationPtr& operation) {
    if (operation->given)
        return;
    if (operation->persistent)
        raise(GPURUN_ERR_UNSUPPORTED, operation->name,
              "a persistent request cannot be awaited or have a callback; call wait()");
    operation->given = true;
    operation->finished = PyThread_allocate_lock();
    PyThread_acquire_lock(operation->finished, WAIT_LOCK);
    const nb::gil_scoped_release free;
    completer().add(operation);
}

void when_complete(const OperationPtr& operation, nb::handle callback) {
    complete_in_background(operation);
    Py_INCREF(callback.ptr());
    if (completer().add_callback(*operation, callback.ptr()))
        return;
    const nb::object owned = nb::steal(callback);
    owned();
}

void stop_completer() { completer().stop(); }

} // namespace gpurun::python
