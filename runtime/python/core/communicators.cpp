/*
 * Making communicators, and what they are.
 */
#include "comm.hpp"
#include "completer.hpp"
#include "rank_group.hpp"

#include <string>

namespace gpurun::python {
namespace {

nb::str name_of(const Comm& comm) {
    char name[GPURUN_MAX_OBJECT_NAME] = {};
    check(gpurun_comm_get_name(comm.handle(), name, nullptr), "Comm.name");
    return nb::str(name);
}

nb::object described(const Comm& comm) {
    if (comm.handle().id == 0)
        return nb::str("<gpurun.Comm, freed>");
    if (gpurun_initialized() == 0 || gpurun_finalized() != 0)
        return nb::str("<gpurun.Comm, outside of init() and finalize()>");
    return nb::str("<gpurun.Comm {!r} rank {} of {}>").format(name_of(comm), comm.rank(), comm.size());
}

void free_comm(Comm& comm) {
    gpurun_comm handle = comm.handle();
    if (completes_those_of(handle))
        refuse_in_callback("Comm.free");
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        const bool joint = stop_those_of(handle);
        status = gpurun_comm_free(&handle);
        if (joint && handle.id != 0) // others that were made of it are there
            (void)complete_those_of(handle);
    }
    if (handle.id == 0)
        comm.forget(); // also if a message of a joint job was cut short
    check(status, "Comm.free");
}

} // namespace

int Comm::rank() const {
    if (rank_ < 0)
        check(gpurun_comm_rank(handle_, &rank_), "Comm.rank");
    return rank_;
}

int Comm::size() const {
    if (size_ < 0)
        check(gpurun_comm_size(handle_, &size_), "Comm.size");
    return size_;
}

void bind_making(CommClass& comm) {
    comm.def_prop_ro("rank", &Comm::rank, "This process's rank, 0 to size - 1.")
        .def_prop_ro("size", &Comm::size, "The number of ranks.")
        .def_prop_rw(
            "name", &name_of,
            [](const Comm& c, const char* name) { check(gpurun_comm_set_name(c.handle(), name), "Comm.name"); },
            "Its name in hang tables, traces and errors.")
        .def(
            "split",
            [](const Comm& c, nb::handle colour, int key) {
                const int number = colour.is_none() ? GPURUN_UNDEFINED : nb::cast<int>(colour);
                return new_comm("split",
                                [&](gpurun_comm* ret) { return gpurun_comm_split(c.handle(), number, key, ret); });
            },
            "colour"_a.none(), "key"_a = 0,
            "Make a communicator of the ranks that give the same colour, in the order of their keys.\n\n"
            "All ranks call it. colour: not negative; None: this rank gets None.")
        .def(
            "split_type",
            [](const Comm& c, int type, int key) {
                return new_comm("split_type", [&](gpurun_comm* ret) {
                    return gpurun_comm_split_type(c.handle(), static_cast<gpurun_split_type>(type), key, ret);
                });
            },
            "type"_a = static_cast<int>(GPURUN_SPLIT_NODE), "key"_a = 0,
            "split() by what ranks have in common: SPLIT_NODE, SPLIT_GPU or SPLIT_NUMA_NODE.")
        .def(
            "dup",
            [](const Comm& c) {
                return new_comm("dup", [&](gpurun_comm* ret) { return gpurun_comm_dup(c.handle(), ret); });
            },
            "Make a communicator of the same ranks, whose messages never meet this one's.")
        .def(
            "create",
            [](const Comm& c, const RankGroup& group) {
                return new_comm("create",
                                [&](gpurun_comm* ret) { return gpurun_comm_create(c.handle(), group.handle(), ret); });
            },
            "group"_a, "Make a communicator of the ranks of `group`. All ranks call it; None for those outside.")
        .def(
            "create_group",
            [](const Comm& c, const RankGroup& group, int tag) {
                return new_comm("create_group", [&](gpurun_comm* ret) {
                    return gpurun_comm_create_group(c.handle(), group.handle(), tag, ret);
                });
            },
            "group"_a, "tag"_a = 0, "create() that only the ranks of `group` call.")
        .def(
            "set_algorithm",
            [](const Comm& c, const char* collective, const char* algorithms) {
                gpurun_status status = GPURUN_OK;
                {
                    const nb::gil_scoped_release free;
                    status = gpurun_comm_set_algorithm(c.handle(), collective, algorithms);
                }
                check(status, "Comm.set_algorithm");
            },
            "collective"_a, "algorithms"_a,
            "Choose how a collective is made, by the size of its buffer in bytes. All ranks call it alike.\n\n"
            "collective: 'allreduce', 'reduce' or 'bcast'. algorithms: as GPURUN_ALLREDUCE has them, such as\n"
            "'direct:64K,pieces' or 'auto'. Raises ValueError for others, and if ranks give different ones.")
        .def("free", &free_comm,
             "Free it. What is under way in it completes. That of a joint job, by accept() or connect(), leaves the "
             "job:\n"
             "it waits for the others, and raises PeerLostError if a message was cut short, and has left all the same.")
        .def(
            "__eq__",
            [](const Comm& one, nb::handle other) {
                Comm* as_comm = nullptr;
                return nb::try_cast(other, as_comm) && as_comm != nullptr && as_comm->handle().id == one.handle().id;
            },
            "other"_a.none())
        .def("__hash__", [](const Comm& c) { return static_cast<Py_hash_t>(c.handle().id); })
        .def("__repr__", &described);
}

} // namespace gpurun::python
