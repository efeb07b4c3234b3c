#include "comm.hpp"
#include "perform.hpp"
#include "stream.hpp"

namespace gpurun::python {
namespace {

/* A message that a probe has reserved. */
struct Message {
    gpurun_message handle = GPURUN_MESSAGE_NULL;
    gpurun_message_status status = {};
};

struct Probe { // outlives the call if ^C ends it
    int source;
    int tag;
    gpurun_comm comm;
    bool reserve;
    bool interruptible;
    Message message;
};

gpurun_status look(void* state, int* ret_found) {
    auto& probe = *static_cast<Probe*>(state);
    return probe.reserve ? gpurun_improbe(probe.source, probe.tag, probe.comm, ret_found, &probe.message.handle,
                                          &probe.message.status)
                         : gpurun_iprobe(probe.source, probe.tag, probe.comm, ret_found, &probe.message.status);
}

/* A wait that ^C may end reserves nothing: nobody would receive that message. */
gpurun_status wait(void* state) {
    auto& probe = *static_cast<Probe*>(state);
    return probe.reserve && !probe.interruptible
               ? gpurun_mprobe(probe.source, probe.tag, probe.comm, &probe.message.handle, &probe.message.status)
               : gpurun_probe(probe.source, probe.tag, probe.comm, &probe.message.status);
}

Message probe_now(const char* name, const Comm& comm, int source, int tag, bool reserve) {
    const auto probe = std::make_shared<Probe>(Probe{source, tag, comm.handle(), reserve, in_main_thread(), {}});
    do // once more if another thread has taken what was found
        check(wait_for_message(name, look, wait, probe), name);
    while (reserve && probe->message.handle.id == GPURUN_MESSAGE_NULL.id);
    return probe->message;
}

bool probe_once(const char* name, const Comm& comm, int source, int tag, bool reserve, Message* ret_message) {
    Probe probe{source, tag, comm.handle(), reserve, false, {}};
    int found = 0;
    call_now(name, [&] { return look(&probe, &found); });
    *ret_message = probe.message;
    return found != 0;
}

nb::object receive(Form form, Message& message, nb::handle buffer, nb::handle stream) {
    const char* name = form == Form::kNow ? "Message.recv" : "Message.irecv";
    auto kept = std::make_unique<Kept>();
    kept->first = Buffer(buffer, Access::kWrite, "buffer", stream);
    const Buffer& into = kept->first;
    const gpurun_stream order = order_domain(stream, into.current());
    const auto now = [&](gpurun_message_status* ret) {
        return gpurun_mrecv(into.data(), into.count(), into.type(), &message.handle, order, ret);
    };
    const auto start = [&](gpurun_request* ret) {
        return gpurun_imrecv(into.data(), into.count(), into.type(), &message.handle, order, ret);
    };
    if (form == Form::kStart)
        return nb::cast(Request(started(name, order, std::move(kept), start)));
    return receive_now(name, order, std::move(kept), now, start);
}

} // namespace

void bind_probes(nb::module_& module, CommClass& comm) {
    nb::class_<Message>(module, "Message", "A message that mprobe() has reserved: no other receive can match it.")
        .def_prop_ro("status", [](const Message& m) { return Status{m.status}; })
        .def(
            "recv", [](Message& m, nb::handle b, nb::handle s) { return receive(Form::kNow, m, b, s); }, "buffer"_a,
            nb::kw_only(), "stream"_a = nb::none(), "Receive it, as Comm.recv() would.")
        .def(
            "irecv", [](Message& m, nb::handle b, nb::handle s) { return receive(Form::kStart, m, b, s); }, "buffer"_a,
            nb::kw_only(), "stream"_a = nb::none(), "Start receiving it.");
    const auto bind = [&](const char* name, auto function, const char* text) {
        comm.def(name, function, "source"_a = GPURUN_ANY_SOURCE, "tag"_a = GPURUN_ANY_TAG, text);
    };
    bind(
        "probe",
        [](const Comm& c, int source, int tag) { return Status{probe_now("probe", c, source, tag, false).status}; },
        "Wait until there is a message that recv() would match. Returns its Status, with its length in bytes.");
    bind(
        "mprobe", [](const Comm& c, int source, int tag) { return probe_now("mprobe", c, source, tag, true); },
        "probe() that reserves the message, and returns it.");
    bind(
        "iprobe",
        [](const Comm& c, int source, int tag) -> nb::object {
            Message message;
            return probe_once("iprobe", c, source, tag, false, &message) ? nb::cast(Status{message.status})
                                                                         : nb::none();
        },
        "probe() that does not wait: None if there is no such message.");
    bind(
        "improbe",
        [](const Comm& c, int source, int tag) -> nb::object {
            Message message;
            return probe_once("improbe", c, source, tag, true, &message) ? nb::cast(message) : nb::none();
        },
        "mprobe() that does not wait: None if there is no such message.");
}

} // namespace gpurun::python
