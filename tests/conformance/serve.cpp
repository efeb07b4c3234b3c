// The other process's side: does what it is asked to, replies with what came of it, ends with its socket.
#include "other_process.hpp"

#include "device/capability/channels.hpp"
#include "device/capability/graphs.hpp"
#include "device/capability/mails.hpp"
#include "platform/shared_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <unistd.h>

namespace gpurun::conformance {

namespace {

class Server {
  public:
    Server(platform::MessageSocket socket, std::unique_ptr<device::Device> device)
        : socket_(std::move(socket)), device_(std::move(device)) {}

    base::Result<void> run() {
        GPURUN_ASSIGN(stream_, device_->create_stream());
        for (;;) {
            Request request;
            GPURUN_ASSIGN(platform::MessageSocket::Received received,
                          socket_.receive(std::as_writable_bytes(std::span(&request, 1))));
            if (received.bytes == 0)
                return {};
            reply_ = Reply{};
            reply_fd_ = -1;
            if (auto done = act(request, std::move(received.fd)); !done) {
                reply_.status = static_cast<int32_t>(done.error().status);
                std::snprintf(reply_.detail, sizeof reply_.detail, "%s", done.error().detail.c_str());
            }
            GPURUN_TRY(socket_.send(std::as_bytes(std::span(&reply_, 1)), reply_fd_));
        }
    }

  private:
    base::Result<void> act(const Request& request, platform::UniqueFd fd);
    base::Result<void> meet(const Request& request, platform::UniqueFd fd);
    base::Result<void> act_on_memory(const Request& request);
    base::Result<void> act_on_events(const Request& request);
    base::Result<void> count_bytes(const Request& request);
    base::Result<void> act_on_pattern(const Request& request);
    base::Result<void> act_on_mail(const Request& request);
    base::Result<void> act_on_channel(const Request& request);
    base::Result<void> enqueue(Command command, const ChannelOrder& order);
    device::Counter* counter_at(uint64_t index) { return reinterpret_cast<device::Counter*>(counters_.data()) + index; }
    uint32_t keep(void* memory) {
        memory_.push_back(memory);
        return static_cast<uint32_t>(memory_.size() - 1);
    }
    uint32_t keep(device::Event event) {
        events_.push_back(event);
        return static_cast<uint32_t>(events_.size() - 1);
    }

    platform::MessageSocket socket_;
    platform::Mapping counters_; // outlives the device, whose streams use it
    std::unique_ptr<device::Device> device_;
    Holder holder_{*device_};
    device::Stream stream_;
    std::vector<void*> memory_;
    std::vector<device::Event> events_;
    std::vector<device::Graph> graphs_; // kept until it ends
    Reply reply_;
    int reply_fd_ = -1;
};

base::Result<void> Server::act(const Request& request, platform::UniqueFd fd) {
    switch (request.command) {
    case Command::kMeet: return meet(request, std::move(fd));
    case Command::kHold: return holder_.hold(stream_, *counter_at(request.a), request.b);
    case Command::kWriteCounter: return device_->counters()->write_counter(stream_, counter_at(request.a), request.b);
    case Command::kAwaitCounter: return device_->counters()->await_counter(stream_, counter_at(request.a), request.b);
    case Command::kStoreCounter: platform::store_and_wake(*counter_at(request.a), request.b); return {};
    case Command::kSynchronize: return device_->synchronize(stream_);
    case Command::kCreateSharedEvent:
    case Command::kImportEvent:
    case Command::kRecord:
    case Command::kAwaitEvent: return act_on_events(request);
    case Command::kPutMail:
    case Command::kTakeMail: return act_on_mail(request);
    case Command::kPutInChannel:
    case Command::kTakeFromChannel:
    case Command::kPullThroughChannel: return act_on_channel(request);
    case Command::kLaunch: return device_->graphs()->launch(graphs_[request.object], stream_);
    default: return act_on_memory(request);
    }
}

base::Result<void> Server::meet(const Request& request, platform::UniqueFd fd) {
    if (counters_.data() == nullptr) {
        GPURUN_ASSIGN(counters_, platform::Mapping::map(fd.get(), 0, kCounterBytes));
        return device_->register_host(counters_.data(), counters_.size());
    }
    device::Identity other;
    std::memcpy(&other, request.bytes.data(), sizeof other);
    GPURUN_TRY(device_->add_peer(0, other, fd.release()));
    const device::Identity own = device_->info().identity;
    std::memcpy(reply_.bytes.data(), &own, sizeof own);
    reply_fd_ = device_->shareable_fd();
    return {};
}

base::Result<void> Server::act_on_memory(const Request& request) {
    void* memory = request.object < memory_.size() ? memory_[request.object] : nullptr;
    switch (request.command) {
    case Command::kAllocate: {
        GPURUN_ASSIGN(void* const allocated, device_->allocate(request.a));
        reply_.object = keep(allocated);
        return {};
    }
    case Command::kAllocatePinned: {
        GPURUN_ASSIGN(void* const allocated, device_->allocate_pinned(request.a));
        reply_.object = keep(allocated);
        return {};
    }
    case Command::kFree: return device_->free(memory);
    case Command::kFreePinned: return device_->free_pinned(memory);
    case Command::kExport: {
        GPURUN_ASSIGN(const device::Buffer buffer, device_->describe(memory, 1));
        GPURUN_ASSIGN(const device::MemoryHandle handle, device_->export_memory(buffer));
        reply_.bytes = handle.bytes;
        return {};
    }
    case Command::kImport: {
        GPURUN_ASSIGN(void* const imported, device_->import_memory(0, {request.bytes}));
        reply_.object = keep(imported);
        return {};
    }
    case Command::kClose: return device_->close_memory(memory);
    case Command::kFill: return device_->fill(memory, static_cast<int>(request.a), request.b, stream_);
    case Command::kCountBytes: return count_bytes(request);
    case Command::kWritePattern:
    case Command::kMatchesPattern: return act_on_pattern(request);
    default: return base::Error{Status::kInternal, "no such request"};
    }
}

base::Result<void> Server::count_bytes(const Request& request) {
    const auto count = [&](const void* bytes) {
        const auto* first = static_cast<const std::byte*>(bytes);
        reply_.value = static_cast<uint64_t>(std::count(first, first + request.b, static_cast<std::byte>(request.a)));
    };
    void* const memory = memory_[request.object];
    auto buffer = device_->describe(memory, request.b); // an error if it is imported device memory
    if (buffer && buffer->placement == device::Placement::kPinned) {
        count(memory);
        return {};
    }
    GPURUN_ASSIGN(void* const pinned, device_->allocate_pinned(request.b));
    GPURUN_TRY(device_->copy(pinned, memory, request.b, stream_));
    GPURUN_TRY(device_->synchronize(stream_));
    count(pinned);
    return device_->free_pinned(pinned);
}

base::Result<void> Server::act_on_pattern(const Request& request) {
    unsigned variant = 0;
    std::memcpy(&variant, request.bytes.data(), sizeof variant);
    const Bytes content = pattern(request.b, variant);
    auto* const memory = static_cast<std::byte*>(memory_[request.object]) + request.a;
    GPURUN_ASSIGN(void* const pinned, device_->allocate_pinned(request.b));
    if (request.command == Command::kWritePattern) {
        std::memcpy(pinned, content.data(), content.size());
        GPURUN_TRY(device_->copy(memory, pinned, request.b, stream_));
        GPURUN_TRY(device_->synchronize(stream_));
    } else {
        GPURUN_TRY(device_->copy(pinned, memory, request.b, stream_));
        GPURUN_TRY(device_->synchronize(stream_));
        reply_.value = std::memcmp(pinned, content.data(), content.size()) == 0 ? 1 : 0;
    }
    return device_->free_pinned(pinned);
}

base::Result<void> Server::act_on_mail(const Request& request) {
    MailOrder order;
    std::memcpy(&order, request.bytes.data(), sizeof order);
    device::Mail mail;
    mail.words = static_cast<std::byte*>(memory_[order.words]);
    mail.bytes = order.bytes;
    mail.mark = order.mark;
    mail.sent = counter_at(order.sent);
    mail.taken = counter_at(order.taken);
    mail.value = order.value;
    mail.ticket = static_cast<uint32_t*>(memory_[order.ticket]);
    auto* const buffer = static_cast<std::byte*>(memory_[order.buffer]) + order.offset;
    return request.command == Command::kPutMail ? device_->mails()->put_mail(mail, buffer, stream_)
                                                : device_->mails()->take_mail(mail, buffer, order.bytes, true, stream_);
}

base::Result<void> Server::act_on_channel(const Request& request) {
    ChannelOrder order;
    std::memcpy(&order, request.bytes.data(), sizeof order);
    GPURUN_TRY(device_->graphs()->begin_capture(stream_));
    auto enqueued = enqueue(request.command, order);
    auto graph = device_->graphs()->end_capture(stream_);
    GPURUN_TRY(std::move(enqueued));
    if (!graph)
        return std::move(graph).error();
    graphs_.push_back(*graph);
    reply_.object = static_cast<uint32_t>(graphs_.size() - 1);
    return {};
}

base::Result<void> Server::enqueue(Command command, const ChannelOrder& order) {
    device::Channel channel;
    channel.places = static_cast<std::byte*>(memory_[order.places]);
    channel.taken = static_cast<uint64_t*>(memory_[order.taken]);
    channel.turns = static_cast<uint64_t*>(memory_[order.turns]);
    channel.bytes = order.bytes;
    channel.alive = counter_at(order.alive);
    channel.cut = counter_at(order.cut);
    auto* const buffer = static_cast<std::byte*>(memory_[order.buffer]) + order.offset;
    if (command == Command::kPutInChannel)
        return device_->channels()->channel_put(channel, buffer, stream_);
    if (command == Command::kTakeFromChannel)
        return device_->channels()->channel_take(channel, buffer, order.bytes_got, stream_);
    auto* const ticket = reinterpret_cast<uint32_t*>(channel.turns + device::kMostLanes);
    return device_->channels()->channel_pull(channel, buffer, memory_[order.from], order.bytes_got, ticket, stream_);
}

base::Result<void> Server::act_on_events(const Request& request) {
    switch (request.command) {
    case Command::kCreateSharedEvent: {
        GPURUN_ASSIGN(const device::Event event, device_->create_shared_event());
        GPURUN_ASSIGN(const device::EventHandle handle, device_->export_event(event));
        reply_.object = keep(event);
        reply_.bytes = handle.bytes;
        return {};
    }
    case Command::kImportEvent: {
        GPURUN_ASSIGN(const device::Event event, device_->import_event(0, {request.bytes}));
        reply_.object = keep(event);
        return {};
    }
    case Command::kRecord: return device_->record(events_[request.object], stream_);
    default: return device_->await_event(stream_, events_[request.object]);
    }
}

} // namespace

int serve(const char* selector) {
    auto opened = device::open_device(options_for(selector));
    if (!opened) {
        std::fprintf(stderr, "the other process: %s\n", opened.error().detail.c_str());
        return 1;
    }
    Server server(platform::MessageSocket(platform::UniqueFd(STDIN_FILENO)), std::move(*opened));
    if (auto ran = server.run(); !ran) {
        std::fprintf(stderr, "the other process: %s\n", ran.error().detail.c_str());
        return 1;
    }
    return 0;
}

} // namespace gpurun::conformance
