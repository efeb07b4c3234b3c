#include "comm.hpp"
#include "perform.hpp"
#include "stream.hpp"

namespace gpurun::python {
namespace {

using SendCall = decltype(&gpurun_send);
using StartSendCall = decltype(&gpurun_isend);

gpurun_stream either(const Buffer& one, const Buffer& other) {
    return one.current() != GPURUN_HOST ? one.current() : other.current();
}

template <SendCall kNow, StartSendCall kStart>
nb::object send(Form form, const char* name, StartSendCall prepare, const Comm& comm, nb::handle buffer, int dest,
                int tag, nb::handle stream) {
    auto kept = std::make_unique<Kept>();
    kept->first = Buffer(buffer, Access::kRead, "buffer", stream);
    const Buffer& from = kept->first;
    const gpurun_stream order = order_domain(stream, from.current());
    void* const data = from.data();
    const std::size_t count = from.count();
    const gpurun_datatype type = from.type();
    return perform(
        form, name, order, std::move(kept),
        [=, &comm] { return kNow(data, count, type, dest, tag, comm.handle(), order); },
        [=, &comm](gpurun_request* ret) { return kStart(data, count, type, dest, tag, comm.handle(), order, ret); },
        [=, &comm](gpurun_request* ret) { return prepare(data, count, type, dest, tag, comm.handle(), order, ret); });
}

nb::object recv(Form form, const Comm& comm, nb::handle buffer, int source, int tag, nb::handle stream) {
    auto kept = std::make_unique<Kept>();
    kept->first = Buffer(buffer, Access::kWrite, "buffer", stream);
    const Buffer& into = kept->first;
    const gpurun_stream order = order_domain(stream, into.current());
    void* const data = into.data();
    const std::size_t count = into.count();
    const gpurun_datatype type = into.type();
    const gpurun_comm handle = comm.handle();
    const auto now = [=](gpurun_message_status* ret) {
        return gpurun_recv(data, count, type, source, tag, handle, order, ret);
    };
    const auto start = [=](gpurun_request* ret) {
        return gpurun_irecv(data, count, type, source, tag, handle, order, ret);
    };
    if (form == Form::kNow)
        return receive_now("recv", order, std::move(kept), now, start);
    return perform(
        form, form == Form::kStart ? "irecv" : "recv_init", order, std::move(kept), [=] { return now(nullptr); }, start,
        [=](gpurun_request* ret) { return gpurun_recv_init(data, count, type, source, tag, handle, order, ret); });
}

/* Else nothing is to be started. */
bool can_send(const Comm& comm, int dest, int tag) {
    int size = 0;
    return gpurun_comm_size(comm.handle(), &size) == GPURUN_OK && tag >= 0 &&
           (dest == GPURUN_PROC_NULL || (dest >= 0 && dest < size));
}

/* In host order, both are started: then ^C ends the wait for them. */
nb::object sendrecv(const Comm& comm, nb::handle from, int dest, int send_tag, nb::handle into, int source,
                    int recv_tag, nb::handle stream) {
    auto kept = std::make_unique<Kept>();
    kept->first = Buffer(from, Access::kRead, "sendbuf", stream);
    kept->second = Buffer(into, Access::kWrite, "recvbuf", stream);
    const Buffer& out = kept->first;
    const Buffer& in = kept->second;
    const gpurun_stream order = order_domain(stream, either(out, in));
    if (order == GPURUN_HOST && !in_group() && in_main_thread() && can_send(comm, dest, send_tag)) {
        auto kept_in = std::make_unique<Kept>();
        kept_in->first = std::move(kept->second);
        const Buffer& later = kept_in->first;
        void* const data = later.data();
        const std::size_t count = later.count();
        const gpurun_datatype type = later.type();
        const OperationPtr receive = started("sendrecv", order, std::move(kept_in), [&](gpurun_request* ret) {
            return gpurun_irecv(data, count, type, source, recv_tag, comm.handle(), order, ret);
        });
        const Request waiting(receive); // goes on in the background if the send cannot be started
        OperationPtr send;
        try {
            send = started("sendrecv", order, std::move(kept), [&](gpurun_request* ret) {
                return gpurun_isend(out.data(), out.count(), out.type(), dest, send_tag, comm.handle(), order, ret);
            });
        } catch (const nb::python_error&) {
            waiting.cancel_quietly();
            throw;
        }
        const Request sending(send);
        wait_for(receive, order);
        wait_for(send, order);
        return nb::cast(Status{receive->status});
    }
    const auto both = [&, order](gpurun_message_status* ret) {
        return gpurun_sendrecv(out.data(), out.count(), out.type(), dest, send_tag, in.data(), in.count(), in.type(),
                               source, recv_tag, comm.handle(), order, ret);
    };
    if (in_group())
        return receive_now("sendrecv", order, std::move(kept), both, [](gpurun_request*) { return GPURUN_OK; });
    Status status;
    call_now("sendrecv", [&] { return both(&status.value); });
    keep_until_passed(order, std::move(kept));
    return nb::cast(status);
}

constexpr const char* kSendText =
    "Send `buffer` to rank `dest`.\n\n"
    "buffer: an array or tensor of any shape, contiguous, on the host or a device. Its elements are read in the order "
    "of\n`stream`; None is the library's current stream for device memory, and the calling thread for host memory. In "
    "host\norder the buffer may be reused on return. May wait for the match.\n\n"
    "Raises ArgumentError, PeerLostError, DeviceError; BufferError, TypeError for the buffer.";
constexpr const char* kRecvText =
    "Receive a message of at most as many elements as `buffer` has. Returns its Status.\n\n"
    "Waits until the message is matched; in host order, until it is there. The data comes in the order of `stream`, as "
    "with\nsend(). Raises TruncatedError if the message is longer; BufferError if the memory is read-only.";

} // namespace

void bind_messages(CommClass& comm) {
    const auto bind_send = [&](const char* name, auto function, const char* text) {
        comm.def(name, function, "buffer"_a, "dest"_a, "tag"_a = 0, nb::kw_only(), "stream"_a = nb::none(), text);
    };
    using C = const Comm&;
    using H = nb::handle;
    bind_send(
        "send",
        [](C c, H b, int dest, int tag, H s) {
            return send<gpurun_send, gpurun_isend>(Form::kNow, "send", nullptr, c, b, dest, tag, s);
        },
        kSendText);
    bind_send(
        "ssend",
        [](C c, H b, int dest, int tag, H s) {
            return send<gpurun_ssend, gpurun_issend>(Form::kNow, "ssend", nullptr, c, b, dest, tag, s);
        },
        "send() that does not complete before the message is matched.");
    bind_send(
        "isend",
        [](C c, H b, int dest, int tag, H s) {
            return send<gpurun_send, gpurun_isend>(Form::kStart, "isend", nullptr, c, b, dest, tag, s);
        },
        "Start a send(), and return its Request at once.");
    bind_send(
        "issend",
        [](C c, H b, int dest, int tag, H s) {
            return send<gpurun_ssend, gpurun_issend>(Form::kStart, "issend", nullptr, c, b, dest, tag, s);
        },
        "Start an ssend(), and return its Request at once.");
    bind_send(
        "send_init",
        [](C c, H b, int dest, int tag, H s) {
            return send<gpurun_send, gpurun_isend>(Form::kPrepare, "send_init", gpurun_send_init, c, b, dest, tag, s);
        },
        "Prepare a send() that Request.start() starts, any number of times.");

    const auto bind_recv = [&](const char* name, auto function, const char* text) {
        comm.def(name, function, "buffer"_a, "source"_a = GPURUN_ANY_SOURCE, "tag"_a = GPURUN_ANY_TAG, nb::kw_only(),
                 "stream"_a = nb::none(), text);
    };
    bind_recv(
        "recv", [](C c, H b, int source, int tag, H s) { return recv(Form::kNow, c, b, source, tag, s); }, kRecvText);
    bind_recv(
        "irecv", [](C c, H b, int source, int tag, H s) { return recv(Form::kStart, c, b, source, tag, s); },
        "Start a recv(), and return its Request at once.");
    bind_recv(
        "recv_init", [](C c, H b, int source, int tag, H s) { return recv(Form::kPrepare, c, b, source, tag, s); },
        "Prepare a recv() that Request.start() starts, any number of times.");
    comm.def("sendrecv", &sendrecv, "sendbuf"_a, "dest"_a, "sendtag"_a = 0, "recvbuf"_a, "source"_a = GPURUN_ANY_SOURCE,
             "recvtag"_a = GPURUN_ANY_TAG, nb::kw_only(), "stream"_a = nb::none(),
             "Send one message and receive another at the same time. Returns the Status of the one received.");
}

} // namespace gpurun::python
