#include "comm.hpp"

#include <stdexcept>

/* What waits in the background calls back into the main interpreter. */
static void refuse_subinterpreters() {
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
        throw std::runtime_error(
            "gpurun works in the main interpreter only: a process is one rank; import it there, or "
            "start another process");
}

NB_MODULE(_core, module) {
    using namespace gpurun::python;
    refuse_subinterpreters();
    nb::set_leak_warnings(false); // what is under way when a program ends keeps its buffers
    bind_errors();
    bind_job(module);
    bind_streams(module);
    bind_memory(module);
    bind_requests(module);
    bind_groups(module);
    bind_group_calls(module);
    bind_segments(module);

    CommClass comm(module, "Comm", "A communicator: ranks whose messages meet only each other.");
    bind_making(comm);
    bind_meetings(comm);
    bind_get_group(comm);
    bind_messages(comm);
    bind_probes(module, comm);
    bind_loans(module, comm);
    bind_movements(comm);
    bind_reductions(comm);
    bind_topologies(module, comm);
    bind_neighbours(comm);
    module.attr("COMM_WORLD") = nb::cast(Comm(GPURUN_COMM_WORLD));
    module.attr("COMM_SELF") = nb::cast(Comm(GPURUN_COMM_SELF));
}
