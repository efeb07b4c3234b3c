// What a mail needs on both sides.
#pragma once

#include "subject.hpp"

#include "device/capability/mails.hpp"

namespace gpurun::conformance {

constexpr size_t kLargestMail = 262144;

// The place of one mail after another, with what both sides need for it. Words and tickets read 0 at first.
class Box {
  public:
    Box() : words_(device::mail_words_bytes(kLargestMail)), tickets_(2 * sizeof(uint32_t)) {
        write(words_.get(), Bytes(device::mail_words_bytes(kLargestMail)));
        write(tickets_.get(), Bytes(2 * sizeof(uint32_t)));
    }
    // REQUIRES: the mail before was put and taken.
    void begin() { value_ += kStep; }
    uint64_t value() const { return value_; }
    size_t sent() const { return sent_; }
    size_t taken() const { return taken_; }
    bool is_sent() const { return counter(sent_).load(std::memory_order_acquire) >= value_; }
    bool is_taken() const { return counter(taken_).load(std::memory_order_acquire) >= value_; }

    // What the next ones are asked to fill in, from here on.
    void time(device::Times* put, device::Times* take) {
        times_[0] = put;
        times_[1] = take;
    }
    device::Mail outgoing(size_t bytes) const {
        device::Mail mail = common(0);
        mail.bytes = bytes;
        return mail;
    }
    device::Mail incoming(size_t bytes) const {
        device::Mail mail = common(1);
        mail.bytes = bytes;
        return mail;
    }
    void put(const std::byte* source, size_t bytes, device::Stream stream) const {
        const device::Mail mail = outgoing(bytes);
        REQUIRE_OK(subject().mails()->put_mail(mail, source, stream));
    }
    void take(std::byte* destination, size_t bytes, bool seen, device::Stream stream) const {
        REQUIRE_OK(subject().mails()->take_mail(common(1), destination, bytes, seen, stream));
    }
    void check_tickets() const { CHECK(read(tickets_.get(), 2 * sizeof(uint32_t)) == Bytes(2 * sizeof(uint32_t))); }

  private:
    device::Mail common(size_t side) const {
        device::Mail mail;
        mail.words = words_.get();
        mail.mark = static_cast<uint32_t>(value_ / kStep);
        mail.sent = &counter(sent_);
        mail.taken = &counter(taken_);
        mail.value = value_;
        mail.ticket = reinterpret_cast<uint32_t*>(tickets_.get()) + side;
        mail.times = times_[side];
        return mail;
    }

    const Memory words_;
    const Memory tickets_; // the source's, the target's
    const size_t sent_ = new_counter();
    const size_t taken_ = new_counter();
    uint64_t value_ = 0;
    device::Times* times_[2] = {};
};

} // namespace gpurun::conformance
