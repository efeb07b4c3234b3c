// Matching: which message goes to which receive, by MPI's rule.
//
// A receive takes the oldest message that fits its (context, source, tag); a message goes to the oldest receive that
// fits. Messages of one source arrive here in the order in which they were sent, so none overtakes another.
// Receives wait in a list for each source, and those of any source in one more, so that a message looks at receives
// that could be its own only. What arrives before its receive waits in the unexpected queue of its source; inline
// payloads are kept with it (their total is bounded: kEagerCreditBytes a source), a request keeps its bytes with its
// sender. A matched probe takes a message out of the queue. Used under the engine lock.
#pragma once

#include "comm/communicator.hpp"
#include "transfer/incoming.hpp"

#include <functional>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace gpurun::comm {

struct Pattern {
    uint32_t context;
    int source; // a world rank, or kAnySource
    int tag;    // or kAnyTag

    bool fits(int from, const transfer::Envelope& envelope) const {
        return context == envelope.context && (source == kAnySource || source == from) &&
               (tag == kAnyTag || tag == envelope.tag);
    }
};

struct Posted; // the matcher's lists

// What waits in the matcher's lists for a message: a Receive, or a ShortReceive.
struct Expected : base::Linked<Expected, Posted> {
    Pattern pattern{};
    uint64_t turn = 0; // among the posted ones
    bool is_short = false;
};

// A receive into a small buffer in host memory, in the host's order, which most likely gets its message inline. All
// others of its messages make it a Receive first.
struct ShortReceive : Expected {
    ShortReceive() { is_short = true; }

    std::byte* into = nullptr;
    size_t room = 0;
    bool open = false; // posted, and its message has not come
    Arrived arrived{kAnySource, kAnyTag, 0};
};

// One receive, from its call until it is complete for the caller, with whom it lives.
struct Receive : Expected {
    Receive(transfer::Context& context, const transfer::Operand& operand, const Pattern& pattern_, bool beside_send,
            transfer::Ending ending = transfer::Ending::kInStream)
        : incoming(context, operand, beside_send, ending) {
        pattern = pattern_;
        if (operand.captured)
            pattern.context |= transfer::kCapturedContexts;
        if (context.trace != nullptr) [[unlikely]]
            tell_trace(operand);
    }
    [[gnu::noinline]] void tell_trace(const transfer::Operand& operand);

    transfer::Incoming incoming;
    int source = kAnySource;       // once matched
    transfer::Envelope envelope{}; // once matched
};

class Matcher {
  public:
    // `promote` makes a Receive of a short one, in its place if it is posted.
    using Promote = std::function<Receive&(ShortReceive&)>;
    Matcher(size_t sources, Promote promote)
        : posted_(sources + 1), unexpected_(sources), promote_(std::move(promote)) {}

    // Starts `receive` with the message it takes (true), or keeps it until one comes.
    bool post(Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links);
    // REQUIRES has_unexpected() of its source to be false.
    void post_short(ShortReceive& receive);
    // Gives the messages that are there to short receives, as long as each is the next one's and takes one line.
    // Whether there were any.
    bool take_in_turn(transfer::Link& link);
    bool has_unexpected(int source) const { return !unexpected_[static_cast<size_t>(source)].empty(); }
    size_t open_short() const { return open_short_; }
    // `receive` stands for the short one from now on.
    void promoted(ShortReceive& from, Receive& receive);
    // All that are posted, up to `most`. False if there are more.
    bool promote_all(size_t most = SIZE_MAX);
    void withdraw(Expected& receive);
    // Whether no receive waits that could take a message of the source's, and no message of it: its next one goes to
    // the next receive, if it fits.
    bool is_idle(int source) const {
        const auto index = static_cast<size_t>(source);
        return posted_[index].empty() && posted_.back().empty() && unexpected_[index].empty();
    }
    // Starts the receive that takes the message, which is returned, or keeps the message.
    Receive* arrive(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload);

    // The message that a receive with this pattern would take now.
    struct Found {
        int source;
        transfer::Envelope envelope;
    };
    std::optional<Found> peek(const Pattern& pattern);
    // REQUIRES peek(). Takes that message out; the number names it.
    uint64_t take(const Pattern& pattern);
    bool has_taken(uint64_t number) const { return taken_.contains(number); }
    // REQUIRES has_taken().
    void start_taken(uint64_t number, Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links);

    // Every posted receive; `visit` may withdraw the one that it is given.
    template <typename Visit>
    void for_each_posted(const Visit& visit) {
        promote_all();
        for (auto& list : posted_)
            list.for_each([&](Expected& each) { visit(static_cast<Receive&>(each)); });
    }

    // Messages that no receive has taken, by source, in the order in which they came, up to `most`. False if there are
    // more.
    template <typename Visit>
    bool for_each_unexpected(size_t most, const Visit& visit) const {
        for (size_t source = 0; source < unexpected_.size(); ++source)
            for (const Unexpected& each : unexpected_[source]) {
                if (most-- == 0)
                    return false;
                visit(static_cast<int>(source), each.record.envelope);
            }
        return true;
    }

  private:
    struct Unexpected {
        uint64_t arrival = 0;
        uint32_t source = 0;
        uint64_t ordinal = 0; // among its pair's messages
        transfer::Record record{};
        std::vector<std::byte> payload;
    };
    using Queue = std::list<Unexpected>;
    using List = base::List<Expected, Posted>;

    List& list_of(const Pattern& pattern) {
        return pattern.source == kAnySource ? posted_.back() : posted_[static_cast<size_t>(pattern.source)];
    }
    // The oldest that fits, in its source's queue.
    bool find(const Pattern& pattern, Queue::iterator& ret_oldest);
    Expected* take_oldest(const transfer::Link& link, const transfer::Envelope& envelope);
    void take_inline(ShortReceive& receive, transfer::Link& link, const transfer::Envelope& envelope,
                     std::span<const std::byte> payload);
    static void start(Receive& receive, transfer::Link& link, const transfer::Record& record,
                      std::span<const std::byte> payload, uint64_t ordinal);

    std::vector<List> posted_; // by source, each in call order; the last one of any source
    uint64_t turns_ = 0;
    size_t open_short_ = 0;
    std::vector<Queue> unexpected_;
    Queue spare_; // kept with their payload's memory, to be used again
    uint64_t arrivals_ = 0;
    std::unordered_map<uint64_t, Queue> taken_; // queues of one
    uint64_t taken_numbers_ = 1;                // 0 and 1 name none
    const Promote promote_;
};

} // namespace gpurun::comm
