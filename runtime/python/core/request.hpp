/*
 * What Python has of an operation: a Request, and the Status of a message.
 */
#pragma once

#include "operation.hpp"

namespace gpurun::python {

struct Status {
    gpurun_message_status value = {};
};

class Request {
  public:
    explicit Request(OperationPtr operation) : operation_(std::move(operation)) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    Request(Request&&) = default;
    Request& operator=(Request&&) = delete;
    /* An operation that nobody has waited for goes on, and its buffers stay until it is complete. */
    ~Request();

    Operation& operation() const { return *operation_; }
    const OperationPtr& pointer() const { return operation_; }

    Status wait(nb::handle stream, nb::handle timeout) const;
    nb::object test(nb::handle stream) const;
    void cancel() const;
    void cancel_quietly() const; // if it can be cancelled
    void start() const;
    void free() const;

  private:
    bool is_active() const;

    OperationPtr operation_;
};

} // namespace gpurun::python
