#include "completer.hpp"

#include "comm.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

namespace gpurun::python {
namespace {

std::mutex callbacks_mutex; // guards those of operations that are given

thread_local bool completes = false; // a completer's thread

constexpr const char* kNoRank = "this process is leaving its job, or was forked from a rank, and cannot complete it";

/* False if the operation is done, and nobody will call it. */
bool add_callback(Operation& operation, PyObject* callback) {
    const std::scoped_lock lock(callbacks_mutex);
    if (operation.done.load(std::memory_order_acquire))
        return false;
    operation.callbacks.push_back(callback);
    return true;
}

void let_go(const OperationPtr& operation, const std::vector<PyObject*>& callbacks) {
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

void publish(const OperationPtr& operation, gpurun_status result, const gpurun_message_status& status,
             const char* detail) {
    operation->request = GPURUN_REQUEST_NULL;
    operation->result = result;
    operation->status = status;
    operation->detail = detail;
    std::vector<PyObject*> callbacks;
    {
        const std::scoped_lock lock(callbacks_mutex);
        callbacks.swap(operation->callbacks);
        operation->done.store(true, std::memory_order_release); // publishes the result
    }
    PyThread_release_lock(operation->finished);
    let_go(operation, callbacks);
}

/* Of the requests of one job. */
class Completer {
  public:
    explicit Completer(gpurun_comm job) : job_(job) {}

    gpurun_comm job() const { return job_; }

    /* GPURUN_ERR_FINALIZED once it is to stop. */
    gpurun_status add(const OperationPtr& operation) {
        const std::scoped_lock lock(mutex_);
        if (stopping_)
            return GPURUN_ERR_FINALIZED;
        const gpurun_status status = thread_.joinable() ? GPURUN_OK : start();
        if (status != GPURUN_OK)
            return status;
        added_.push_back(operation);
        wake();
        return GPURUN_OK;
    }

    gpurun_status start() {
        const gpurun_status status = make_self();
        if (status != GPURUN_OK)
            return status;
        woken_ = false;
        thread_ = std::thread([this] { run(); });
        return GPURUN_OK;
    }

    void stop() {
        {
            const std::scoped_lock lock(mutex_);
            stopping_ = true;
            if (!thread_.joinable())
                return;
            wake();
        }
        thread_.join();
        (void)gpurun_comm_free(&self_);
    }

  private:
    static constexpr int kWake = 0; // tags
    static constexpr int kNever = 1;

    /* A communicator of this rank alone. */
    gpurun_status make_self() {
        if (job_.id == GPURUN_COMM_SELF.id)
            return gpurun_comm_dup(job_, &self_);
        int rank = 0;
        gpurun_group all = GPURUN_GROUP_NULL;
        gpurun_group alone = GPURUN_GROUP_NULL;
        gpurun_status status = gpurun_comm_rank(job_, &rank);
        if (status == GPURUN_OK)
            status = gpurun_comm_group(job_, &all);
        if (status == GPURUN_OK)
            status = gpurun_group_incl(all, 1, &rank, &alone);
        if (status == GPURUN_OK)
            status = gpurun_comm_create_group(job_, alone, 0, &self_);
        if (alone.id != 0)
            (void)gpurun_group_free(&alone);
        if (all.id != 0)
            (void)gpurun_group_free(&all);
        return status;
    }

    void wake() {
        if (!std::exchange(woken_, true))
            (void)gpurun_send(nullptr, 0, GPURUN_BYTE, 0, kWake, self_, GPURUN_HOST);
    }

    /* active_[i] is waited for by requests_[i + 1]; requests_[0] is the receive of the message that wakes. */
    void run() {
        completes = true;
        requests_.assign(1, GPURUN_REQUEST_NULL);
        (void)gpurun_irecv(nullptr, 0, GPURUN_BYTE, 0, kNever, self_, GPURUN_HOST, &never_);
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
        cancel(requests_.data());
        cancel(&never_);
        forget();
    }

    static void cancel(gpurun_request* request) {
        if (request->id == 0)
            return;
        (void)gpurun_cancel(request);
        (void)gpurun_wait(request, GPURUN_HOST, nullptr);
    }

    bool listen() {
        return requests_[0].id != 0 ||
               gpurun_irecv(nullptr, 0, GPURUN_BYTE, 0, kWake, self_, GPURUN_HOST, requests_.data()) == GPURUN_OK;
    }

    bool gather() {
        std::vector<OperationPtr> added;
        bool stopping = false;
        {
            const std::scoped_lock lock(mutex_);
            woken_ = false;
            stopping = stopping_;
            added.swap(added_);
        }
        for (const OperationPtr& operation : added)
            take(operation);
        return !stopping;
    }

    /* What is of another job cannot be completed together with a request of this one. */
    void take(const OperationPtr& operation) {
        gpurun_request both[2] = {never_, operation->request};
        int index = -1;
        int done = 0;
        gpurun_message_status status = {};
        const gpurun_status result = gpurun_testany(2, both, GPURUN_HOST, &done, &index, &status);
        if (result == GPURUN_ERR_REQUEST && index < 0)
            return pass_on(operation);
        requests_.push_back(operation->request);
        active_.push_back(operation);
        if (index == 1)
            finish(active_.size() - 1, result, status);
    }

    void pass_on(const OperationPtr& operation) const;

    void finish(std::size_t index, gpurun_status result, const gpurun_message_status& status) {
        const OperationPtr operation = std::move(active_[index]);
        if (index + 1 != active_.size())
            active_[index] = std::move(active_.back());
        active_.pop_back();
        requests_[index + 1] = requests_.back();
        requests_.pop_back();
        publish(operation, result, status, result == GPURUN_OK ? "" : gpurun_error_detail());
    }

    /* What is not complete when the rank leaves keeps its buffers, which the library may still use. */
    void forget() {
        {
            const std::scoped_lock lock(mutex_);
            stopping_ = true;
            active_.insert(active_.end(), added_.begin(), added_.end());
            added_.clear();
        }
        for (const OperationPtr& operation : active_) {
            (void)operation->kept.release();
            publish(operation, GPURUN_ERR_FINALIZED, {}, "it was not complete when this rank left the job");
        }
        active_.clear();
        requests_.clear();
    }

    const gpurun_comm job_; // a communicator of the job
    std::mutex mutex_;
    std::vector<OperationPtr> added_;
    bool woken_ = false; // a message is on its way
    bool stopping_ = false;
    gpurun_comm self_ = GPURUN_COMM_NULL;
    std::thread thread_;

    // The thread's own.
    gpurun_request never_ = GPURUN_REQUEST_NULL; // a receive that nothing matches
    std::vector<OperationPtr> active_;
    std::vector<gpurun_request> requests_;
};

using CompleterPtr = std::shared_ptr<Completer>;

/* Those of all jobs that the rank is in, its own first. */
class Completers {
  public:
    CompleterPtr own() { return at(0); }

    CompleterPtr after(const Completer& one) {
        const std::scoped_lock lock(mutex_);
        for (std::size_t i = 0; i + 1 < all_.size(); ++i)
            if (all_[i].get() == &one)
                return all_[i + 1];
        return nullptr;
    }

    bool has(gpurun_comm joint) {
        const std::scoped_lock lock(mutex_);
        return find(joint) != all_.end();
    }

    gpurun_status add(gpurun_comm joint) {
        const auto made = std::make_shared<Completer>(joint);
        const gpurun_status status = made->start();
        const std::scoped_lock lock(mutex_);
        if (status == GPURUN_OK)
            all_.push_back(made);
        return status;
    }

    bool stop(gpurun_comm joint) {
        CompleterPtr found;
        {
            const std::scoped_lock lock(mutex_);
            if (const auto each = find(joint); each != all_.end()) {
                found = *each;
                all_.erase(each);
            }
        }
        if (found != nullptr)
            found->stop();
        return found != nullptr;
    }

    bool stopped() const { return stopped_.load(); }

    void stop_all() {
        stopped_ = true;
        while (const CompleterPtr joint = at(1))
            (void)stop(joint->job());
        own()->stop();
    }

  private:
    /* With the mutex. */
    std::vector<CompleterPtr>::iterator find(gpurun_comm joint) {
        return std::find_if(all_.begin() + 1, all_.end(),
                            [&](const CompleterPtr& each) { return each->job().id == joint.id; });
    }

    CompleterPtr at(std::size_t index) {
        const std::scoped_lock lock(mutex_);
        return index < all_.size() ? all_[index] : nullptr;
    }

    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    std::vector<CompleterPtr> all_{std::make_shared<Completer>(GPURUN_COMM_SELF)};
};

/* Never destroyed: a program may end while the threads wait. */
Completers& completers() {
    static auto* const all = new Completers;
    return *all;
}

void Completer::pass_on(const OperationPtr& operation) const {
    const CompleterPtr next = completers().after(*this);
    if (next == nullptr || next->add(operation) != GPURUN_OK)
        publish(operation, GPURUN_ERR_REQUEST, {}, "the joint job that it is of was left");
}

} // namespace

void complete_in_background(const OperationPtr& operation) {
    if (!operation->done.load(std::memory_order_acquire) && gpurun_finalized() != 0)
        raise(GPURUN_ERR_FINALIZED, operation->name, kNoRank);
    if (operation->given)
        return;
    if (operation->persistent)
        raise(GPURUN_ERR_UNSUPPORTED, operation->name,
              "a persistent request cannot be awaited or have a callback; call wait()");
    operation->given = true;
    if (operation->finished == nullptr) {
        operation->finished = PyThread_allocate_lock();
        PyThread_acquire_lock(operation->finished, WAIT_LOCK);
    }
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = completers().own()->add(operation);
    }
    if (status != GPURUN_OK)
        operation->given = false;
    if (status == GPURUN_ERR_FINALIZED)
        raise(status, operation->name, kNoRank);
    check(status, "wait");
}

void when_complete(const OperationPtr& operation, nb::handle callback) {
    complete_in_background(operation);
    Py_INCREF(callback.ptr());
    if (add_callback(*operation, callback.ptr()))
        return;
    const nb::object owned = nb::steal(callback);
    owned();
}

void forget_callback(Operation& operation, nb::handle callback) {
    nb::object forgotten; // let go of without the mutex
    const std::scoped_lock lock(callbacks_mutex);
    const auto found = std::find(operation.callbacks.begin(), operation.callbacks.end(), callback.ptr());
    if (found == operation.callbacks.end())
        return;
    forgotten = nb::steal(*found);
    operation.callbacks.erase(found);
}

bool completes_those_of(gpurun_comm joint) { return completers().has(joint); }

gpurun_status complete_those_of(gpurun_comm joint) { return completers().add(joint); }

bool stop_those_of(gpurun_comm joint) { return completers().stop(joint); }

void stop_completers() { completers().stop_all(); }

void refuse_in_callback(const char* function) {
    if (completes)
        raise(GPURUN_ERR_REQUEST, function,
              "a callback cannot wait for the thread that it is called in, which completes requests; call this in "
              "another thread, or add a callback to what it would wait for");
}

bool completers_are_stopped() { return completers().stopped(); }

} // namespace gpurun::python
