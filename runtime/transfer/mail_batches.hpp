// Small mails of requests that share a kernel: launching one costs more than all else that a small message does.
//
// Sends that are posted together, and receives that are matched together, are collected, then launched in an internal
// stream. They wait for nothing but their mails: a request that has its place behind unfinished work in a stream of the
// user's goes alone, or its mail could hold up others. Each mail has its own edges, so whoever waits for a message asks
// these, as ever; but nobody may wait for one that is collected and not launched.
//
// One a rank, in Context; used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <array>
#include <span>

namespace gpurun::transfer {

struct Context;

class MailBatches {
  public:
    // A mail whose record has been published. An error is one of a launch: what it concerns ends as if the peer had
    // died.
    base::Result<void> put(Context& context, const device::OutgoingMail& mail);
    base::Result<void> take(Context& context, const device::IncomingMail& mail);
    bool empty() const { return puts_.count == 0 && takes_.count == 0; }
    base::Result<void> launch(Context& context);

  private:
    template <typename Mail>
    struct Batch {
        size_t count = 0;
        std::array<Mail, device::kMostMails> mails;

        std::span<const Mail> all() const { return std::span(mails).first(count); }
    };
    base::Result<void> launch_puts(Context& context);
    base::Result<void> launch_takes(Context& context);

    Batch<device::OutgoingMail> puts_;
    Batch<device::IncomingMail> takes_;
};

} // namespace gpurun::transfer
