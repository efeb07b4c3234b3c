// Small mails of requests that share a kernel: launching one costs more than all else that a small message does.
//
// Sends that are posted together, and receives that are matched together, are collected, then launched in an internal
// stream. They wait for nothing but their mails: a request that has its place behind unfinished work in a stream of the
// user's goes alone, or its mail could hold up others. Each mail has its own edges, so whoever waits for a message asks
// these, as ever; but nobody may wait for one that is collected and not launched.
//
// A stream that waits for many edges takes a microsecond or two for each, and so does the host. So there is an event
// behind a launch, and a stream that waits for what was launched together waits for that: of sends always, since they
// all end together; of receives, of which one may wait for a stream that is held at its source, only if all of them are
// completed into that stream by one call.
//
// One a rank, in Context; used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <array>
#include <optional>
#include <span>

namespace gpurun::transfer {

struct Context;

class MailBatches {
  public:
    static constexpr size_t kTakers = 8; // streams of their own for launches of takes

    // A mail whose record has been published. An error is one of a launch: what it concerns ends as if the peer had
    // died. Says which launch it will be part of.
    base::Result<uint64_t> put(Context& context, const device::OutgoingMail& mail);
    base::Result<uint64_t> take(Context& context, const device::IncomingMail& mail);
    bool empty() const { return puts_.count == 0 && takes_.count == 0; }
    base::Result<void> launch(Context& context);

    // Streams are going to wait, each for itself: one call of the program's. expect_join() for each take of it that the
    // same stream is to wait for.
    void begin_joins();
    void expect_join(uint64_t launch);
    // Enqueue: what follows in `stream` starts once the launch has run. False if nothing tells but the edges.
    base::Result<bool> await_put(Context& context, uint64_t launch, device::Stream stream);
    base::Result<bool> await_take(Context& context, uint64_t launch, device::Stream stream);

    struct Tally {
        uint64_t mails = 0;
        uint64_t launches = 0;
    };
    const Tally& sent() const { return sent_; }
    const Tally& received() const { return received_; }

  private:
    template <typename Mail>
    struct Batch {
        uint64_t launch = 0; // its number, if it is not empty
        size_t count = 0;
        std::array<Mail, device::kMostMails> mails;

        std::span<const Mail> all() const { return std::span(mails).first(count); }
    };
    base::Result<void> launch_puts(Context& context);
    base::Result<void> launch_takes(Context& context);

    // The end of a launch.
    struct Mark {
        uint64_t launch = 0;
        size_t mails = 0;
        std::optional<device::Event> event;
        // Of the call that is being made:
        size_t expected = 0;
        std::optional<device::Stream> awaited_in;
    };
    static constexpr size_t kFewestToMark = 4; // fewer edges are awaited as quickly

    // A stream for launches of takes, and what the last of them may wait for. To ask the device whether a stream has
    // run costs as much as a launch.
    struct Taker {
        std::optional<device::Stream> stream;
        size_t mails = 0;
        std::array<const device::Counter*, device::kMostMails> taken;
        std::array<uint64_t, device::kMostMails> values;

        bool waits() const;
        void expect(std::span<const device::IncomingMail> launched);
    };

    template <typename Mail>
    void add(Batch<Mail>& batch, const Mail& mail);
    base::Result<void> put_together(Context& context);
    base::Result<Taker*> find_taker(Context& context);
    base::Result<uint64_t> take_together(Context& context);
    void mark_end(Context& context, device::Stream stream, uint64_t launch, size_t mails);
    Mark* find(uint64_t launch);
    static base::Result<void> await(Context& context, Mark& mark, device::Stream stream);

    Batch<device::OutgoingMail> puts_;
    Batch<device::IncomingMail> takes_;
    uint64_t launches_ = 0;
    std::array<Mark, 8> marks_; // in turn
    std::array<Taker, kTakers> takers_;
    size_t next_mark_ = 0;
    Tally sent_;
    Tally received_;
};

} // namespace gpurun::transfer
