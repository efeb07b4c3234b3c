/*
 * A communicator, as Python has it. Its methods are bound in a file for each kind.
 */
#pragma once

#include "python.hpp"

namespace gpurun::python {

class Comm {
  public:
    explicit Comm(gpurun_comm handle) : handle_(handle) {}

    gpurun_comm handle() const { return handle_; }
    void forget() { handle_ = GPURUN_COMM_NULL; }

    int rank() const;
    int size() const;

  private:
    gpurun_comm handle_;
    mutable int rank_ = -1; // once they are known
    mutable int size_ = -1;
};

using CommClass = nb::class_<Comm>;
void bind_messages(CommClass& comm);
void bind_loans(nb::module_& module, CommClass& comm);
void bind_probes(nb::module_& module, CommClass& comm);
void bind_movements(CommClass& comm);
void bind_reductions(CommClass& comm);
void bind_neighbours(CommClass& comm);
void bind_get_group(CommClass& comm);
void bind_making(CommClass& comm);
void bind_meetings(CommClass& comm);
void bind_topologies(nb::module_& module, CommClass& comm);

/* For the new communicator; None where this rank is in none. Waits for other ranks without the GIL. */
template <typename Make>
nb::object new_comm(const char* name, Make make) {
    gpurun_comm handle = GPURUN_COMM_NULL;
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = make(&handle);
    }
    check(status, name);
    return handle.id == 0 ? nb::none() : nb::cast(Comm(handle));
}

} // namespace gpurun::python
