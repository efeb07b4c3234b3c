// Fused messages: messages that share kernels, since launching one costs more than all else in them. They are small
// mails of requests, small mails in the host's order, and copies out of a peer's memory where both sides are in the
// host's order. Those in the host's order go this way also alone: the target's kernel is there before its mail, where a
// wait by the stream and a kernel behind it would take twice the time. Only a lone copy, and two long ones, go by copy
// engines, where each rank has a GPU to itself: they take 2 to 6 us less there, and where ranks share a GPU 1 us more.
//
// Sends that are posted together, and receives that are matched together, are collected, then launched in an internal
// stream, where they wait for nothing but their mails; by one kernel where one can do it all. A request whose marker is
// not passed goes alone, since it would hold up the others. Each message has its own edges, by which it is complete.
// What is collected is launched before this rank gives up the engine lock, or at most 30 us later.
//
// A wait for an edge takes a stream, and the host, one or two microseconds. So a stream that waits for several mails of
// one launch waits for an event behind the launch instead. For sends always, since they all end together. For receives
// only if one call completes all of them into that stream, since one of them may wait for a stream that is held at its
// source.
//
// One a rank; used under the engine lock.
#pragma once

#include "device/capability/counters.hpp"
#include "device/capability/mails.hpp"
#include "transfer/pool/pools.hpp"

#include <array>
#include <optional>
#include <span>

namespace gpurun::transfer {

class FusedMessages {
  public:
    FusedMessages(device::Device& device, Pools& pools)
        : device_(device), mails_(device.mails()), counters_(device.counters()), pools_(pools),
          most_takes_(std::clamp<size_t>(pools.kernels.blocks() / 2, 1, device::kMostMails)),
          takers_(pools.streams.limits().takers) {}

    // Collects a mail whose record has been posted (put), or has come (take). Returns the launch that it will be part
    // of. An error is that of a launch: the mails of that launch end as if the peer had died. REQUIRES: the
    // device has mails.
    base::Result<uint64_t> put(const device::OutgoingMail& mail);
    base::Result<uint64_t> take(const device::IncomingMail& mail);
    // A copy of up to kLongestPull that has nothing to wait for.
    static constexpr size_t kLongestPull = size_t{4} << 20;
    base::Result<void> pull(const device::FencedCopy& copy);
    bool empty() const { return puts_.count == 0 && takes_.count == 0 && pulls_.empty(); }
    base::Result<void> launch();
    // Only what goes by copy engines: it gains nothing by being collected, and is held up by what comes first.
    base::Result<void> launch_copies();

    // A call is going to complete requests into a stream: expect() for each launch of takes that the stream has to wait
    // for, once for each mail.
    void begin_completion();
    void expect(uint64_t launch);
    // Enqueue: what follows in `stream` starts once the launch has run. False if there is no event for that: the caller
    // waits for the edges.
    base::Result<bool> await_put(uint64_t launch, device::Stream stream);
    base::Result<bool> await_take(uint64_t launch, device::Stream stream);

    struct Count {
        uint64_t mails = 0;
        uint64_t launches = 0;
    };
    const Count& sent() const { return sent_; }
    const Count& received() const { return received_; }

  private:
    template <typename Mail>
    struct Batch {
        uint64_t launch = 0; // its number, if it is not empty
        size_t count = 0;
        std::array<Mail, device::kMostMails> mails;

        std::span<const Mail> all() const { return std::span(mails).first(count); }
    };
    template <typename Mail>
    void add(Batch<Mail>& batch, const Mail& mail);
    base::Result<void> launch_outward();
    base::Result<void> launch_long_pulls();
    bool are_long() const;
    bool suit_engine() const;
    base::Result<void> pull_by_engine();
    base::Result<void> pull_in_bulk();
    // For what is put or pulled, and ends so.
    base::Result<device::Stream> take_outward(const device::CounterValue& end);
    base::Result<void> launch_takes();
    base::Result<void> put_and_pull();
    base::Result<uint64_t> take_together();
    bool may_exchange() const;
    base::Result<bool> try_exchange();
    void end_outward(bool launched);
    void end_pulls(bool launched);
    void end_takes(bool launched, uint64_t launches);
    base::Result<void> take_apart(std::span<const device::IncomingMail> mails);

    // What says that a launch has run.
    struct LaunchEnd {
        uint64_t launch = 0;
        size_t mails = 0;
        EventLease event;
        // Of the call that is being made:
        size_t expected = 0;
        std::optional<device::Stream> awaited_in;
    };
    static constexpr size_t kFewestToRecord = 4; // waiting for fewer edges takes no longer than an event
    void record_end(device::Stream stream, uint64_t launch, size_t mails);
    LaunchEnd* find_end(uint64_t launch);
    base::Result<void> await(LaunchEnd& end, device::Stream stream);

    // A stream for launches of takes, and the counters that tell whether its last launch still waits. Asking the device
    // would cost as much as a launch.
    struct Taker {
        std::optional<device::Stream> stream;
        size_t mails = 0;
        std::array<const device::Counter*, device::kMostMails> taken;
        std::array<uint64_t, device::kMostMails> values;

        bool waits() const;
        void expect(std::span<const device::IncomingMail> launched);
    };
    base::Result<Taker*> find_taker(); // null if all wait, or no kernel may spin for what is taken

    device::Device& device_;
    device::Mails* const mails_; // null, as the next, where no message goes by mailbox
    device::Counters* const counters_;
    Pools& pools_;
    const size_t most_takes_; // in a launch: two of them may wait at a time
    Batch<device::OutgoingMail> puts_;
    Batch<device::IncomingMail> takes_;
    std::vector<device::FencedCopy> pulls_;
    size_t pulled_bytes_ = 0;
    uint64_t launches_ = 0;
    std::array<LaunchEnd, 8> ends_; // in turn
    size_t next_end_ = 0;
    std::vector<Taker> takers_;
    std::optional<device::Stream> outward_; // where what was put or pulled last went
    device::CounterValue outward_end_{};
    Count sent_;
    Count received_;
};

} // namespace gpurun::transfer
