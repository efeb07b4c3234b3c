// A second process with a device of its own, for what only two processes can show.
//
// It is this same program, started by exec (CUDA does not survive fork) and told what to do over a socket, one
// request and one reply at a time. So a test reads as one story, though two processes act in it. What the other
// process makes is named by the number that the making returned.
#pragma once

#include "subject.hpp"

#include "platform/message_socket.hpp"

#include <array>
#include <cstring>
#include <sys/types.h>

namespace gpurun::conformance {

constexpr const char* kServeArgument = "--serve";

enum class Command : uint32_t {
    kMeet,
    kAllocate,
    kAllocatePinned,
    kFree,
    kFreePinned,
    kExport,
    kImport,
    kClose,
    kFill,
    kCountBytes,
    kWritePattern,
    kMatchesPattern,
    kCreateSharedEvent,
    kImportEvent,
    kRecord,
    kAwaitEvent,
    kHold,
    kWriteCounter,
    kAwaitCounter,
    kStoreCounter,
    kSynchronize,
    kPutMail,
    kTakeMail,
    kPutInChannel,
    kTakeFromChannel,
    kPullThroughChannel,
    kLaunch,
};

// A mail, in objects of the other process and counters that both have.
struct MailOrder {
    uint32_t words = 0;
    uint32_t buffer = 0;
    uint32_t ticket = 0;
    uint32_t mark = 0;
    uint32_t sent = 0;
    uint32_t taken = 0;
    uint64_t value = 0;
    uint64_t offset = 0; // in the buffer
    uint64_t bytes = 0;  // that are put or taken
};

// One side of a channel, likewise.
struct ChannelOrder {
    uint32_t places = 0;
    uint32_t taken = 0;
    uint32_t turns = 0; // and a ticket behind them
    uint32_t buffer = 0;
    uint32_t alive = 0;
    uint32_t cut = 0;
    uint32_t from = 0;      // what is pulled
    uint32_t bytes = 0;     // of the channel
    uint64_t offset = 0;    // in the buffer
    uint64_t bytes_got = 0; // that are taken, or pulled
};

struct Request {
    Command command{};
    uint32_t object = 0;
    uint64_t a = 0;
    uint64_t b = 0;
    std::array<std::byte, 64> bytes{}; // a handle, an Identity, or an order
};
static_assert(sizeof(MailOrder) <= 64 && sizeof(ChannelOrder) <= 64);

struct Reply {
    int32_t status = 0;
    uint32_t object = 0;
    uint64_t value = 0;
    std::array<std::byte, 64> bytes{};
    char detail[256] = {};
};

// The other process's main().
int serve(const char* selector);

class OtherProcess {
  public:
    explicit OtherProcess(const std::string& selector);
    OtherProcess(const std::string& selector, int peer); // which no other one is now
    ~OtherProcess();                                     // ends it and waits
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    void kill_it(); // SIGKILL

    // It is this peer of the subject, and the subject is its peer 0.
    int peer() const { return peer_; }
    const device::Identity& identity() const { return identity_; }

    // Each waits until the other process has done it, and requires success.
    uint32_t allocate(size_t bytes) { return call({Command::kAllocate, 0, bytes}).object; }
    uint32_t allocate_pinned(size_t bytes) { return call({Command::kAllocatePinned, 0, bytes}).object; }
    void free_pinned(uint32_t memory) { call({Command::kFreePinned, memory}); }
    void free(uint32_t memory) { call({Command::kFree, memory}); }
    device::MemoryHandle export_memory(uint32_t memory) { return {call({Command::kExport, memory}).bytes}; }
    uint32_t import_memory(const device::MemoryHandle& handle) {
        return call({Command::kImport, 0, 0, 0, handle.bytes}).object;
    }
    void close(uint32_t memory) { call({Command::kClose, memory}); }
    size_t count_bytes(uint32_t memory, int value, size_t bytes) {
        return call({Command::kCountBytes, memory, static_cast<uint64_t>(value), bytes}).value;
    }
    // pattern(bytes, variant), at `offset` of its memory. These wait for its stream.
    void write_pattern(uint32_t memory, size_t offset, size_t bytes, unsigned variant) {
        call(about_pattern(Command::kWritePattern, memory, offset, bytes, variant));
    }
    bool matches_pattern(uint32_t memory, size_t offset, size_t bytes, unsigned variant) {
        return call(about_pattern(Command::kMatchesPattern, memory, offset, bytes, variant)).value != 0;
    }
    struct SharedEvent {
        uint32_t event;
        device::EventHandle handle;
    };
    SharedEvent create_shared_event() {
        const Reply reply = call({Command::kCreateSharedEvent});
        return {reply.object, {reply.bytes}};
    }
    uint32_t import_event(const device::EventHandle& handle) {
        return call({Command::kImportEvent, 0, 0, 0, handle.bytes}).object;
    }
    // These only enqueue, into its one stream.
    void fill(uint32_t memory, int value, size_t bytes) {
        call({Command::kFill, memory, static_cast<uint64_t>(value), bytes});
    }
    void record(uint32_t event) { call({Command::kRecord, event}); }
    void await_event(uint32_t event) { call({Command::kAwaitEvent, event}); }
    void hold(size_t index) { call({Command::kHold, 0, index, 1}); }
    void write_counter(size_t index, uint64_t value) { call({Command::kWriteCounter, 0, index, value}); }
    void await_counter(size_t index, uint64_t value) { call({Command::kAwaitCounter, 0, index, value}); }
    void put_mail(const MailOrder& order) { call(about_order(Command::kPutMail, order)); }
    void take_mail(const MailOrder& order) { call(about_order(Command::kTakeMail, order)); }
    void launch(uint32_t graph) { call({Command::kLaunch, graph}); }
    // Graphs of one operation.
    uint32_t put_in_channel(const ChannelOrder& order) {
        return call(about_order(Command::kPutInChannel, order)).object;
    }
    uint32_t take_from_channel(const ChannelOrder& order) {
        return call(about_order(Command::kTakeFromChannel, order)).object;
    }
    uint32_t pull_through_channel(const ChannelOrder& order) {
        return call(about_order(Command::kPullThroughChannel, order)).object;
    }
    // By its CPU, at once.
    void store_counter(size_t index, uint64_t value) { call({Command::kStoreCounter, 0, index, value}); }
    void synchronize() { call({Command::kSynchronize}); }

    Reply call(const Request& request, int fd = -1);

  private:
    template <typename Order>
    static Request about_order(Command command, const Order& order) {
        Request request{command};
        std::memcpy(request.bytes.data(), &order, sizeof order);
        return request;
    }
    static Request about_pattern(Command command, uint32_t memory, size_t offset, size_t bytes, unsigned variant);
    void start(const std::string& selector);
    void meet();

    pid_t pid_ = -1;
    platform::MessageSocket socket_;
    int peer_;
    device::Identity identity_{};
    platform::UniqueFd received_; // with the latest reply
};

// Memory of a peer, mapped here. Closes what it opened.
class Import {
  public:
    Import(int peer, const device::MemoryHandle& handle) : data_(must(subject().import_memory(peer, handle))) {}
    ~Import() { (void)subject().close_memory(data_); }
    Import(const Import&) = delete;
    Import& operator=(const Import&) = delete;
    std::byte* get() const { return static_cast<std::byte*>(data_); }

  private:
    void* data_;
};

} // namespace gpurun::conformance
