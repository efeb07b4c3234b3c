// The straight way of a call for a small message between host memory, in the host's order: it checks no more than that
// all is as usual. If a function says no, nothing has happened, and the call goes the way of all others, which finds
// out what is wrong, or different.
#pragma once

#include "api/call.hpp"
#include "comm/datatype.hpp"

namespace gpurun::api {

class ShortMessage {
  public:
    ShortMessage(Access access, const void* buffer, size_t count, gpurun_datatype type, int peer, int tag,
                 gpurun_comm comm, gpurun_stream stream)
        : buffer_(static_cast<std::byte*>(const_cast<void*>(buffer))), // not written by a sender
          type_(static_cast<int>(type)), peer_(peer), tag_(tag) {
        const size_t size = comm::size_of_type(type_);
        Runtime* const found = running.load(std::memory_order_acquire);
        if (found == nullptr || stream != GPURUN_HOST || comm.id != found->world().id || size == 0)
            return;
        const int least_tag = access == Access::kWrite ? GPURUN_ANY_TAG : 0;
        if (peer < 0 || peer >= found->world().size || tag < least_tag || count > found->engine().longest_short())
            return;
        bytes_ = count * size;
        if (bytes_ <= found->engine().longest_short() &&
            (bytes_ == 0 || found->host_pages().know(buffer, bytes_, access)))
            runtime_ = found;
    }

    bool send() const { return runtime_ != nullptr && engine().send_short(peer_, buffer_, envelope()); }
    bool receive(comm::Arrived& ret_arrived) const {
        return runtime_ != nullptr && engine().receive_short(pattern(), {buffer_, bytes_}, ret_arrived);
    }
    size_t bytes() const { return bytes_; }
    // The request's name, or 0.
    uint64_t start_send() const {
        return runtime_ != nullptr ? engine().start_short_send(peer_, buffer_, envelope(), type_) : 0;
    }
    uint64_t start_receive() const {
        return runtime_ != nullptr ? engine().start_short_receive(pattern(), {buffer_, bytes_}, type_) : 0;
    }

  private:
    comm::Engine& engine() const { return runtime_->engine(); }
    transfer::Envelope envelope() const { return {runtime_->world().user_context(), tag_, bytes_}; }
    comm::Pattern pattern() const { return {runtime_->world().user_context(), peer_, tag_}; }

    Runtime* runtime_ = nullptr; // null: it is none
    std::byte* buffer_;
    size_t bytes_ = 0;
    int type_;
    int peer_;
    int tag_;
};

} // namespace gpurun::api
