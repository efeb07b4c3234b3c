// Matching: which message goes to which receive, by MPI's rule.
//
// A receive takes the oldest message that fits its (context, source, tag); a message goes to the oldest receive that
// fits. Messages of one source arrive here in the order in which they were sent, so none overtakes another.
// What arrives before its receive waits in the unexpected queue of its source; inline payloads are kept with it (their
// total is bounded: kEagerCreditBytes a source). Used under the engine lock.
#pragma once

#include "comm/communicator.hpp"
#include "transfer/incoming.hpp"

#include <list>
#include <optional>
#include <span>
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

// One receive, from its call until it is complete for the caller, in whose stack it lives.
struct Receive {
    Receive(transfer::Context& context, const transfer::Operand& operand, const Pattern& pattern_, bool beside_send)
        : pattern(pattern_), incoming(context, operand, beside_send) {}

    Pattern pattern;
    transfer::Incoming incoming;
    int source = kAnySource;       // once matched
    transfer::Envelope envelope{}; // once matched
};

class Matcher {
  public:
    explicit Matcher(size_t sources) : unexpected_(sources) {}

    // Starts `receive` with the message it takes, or keeps it until one comes.
    void post(Receive& receive, std::span<const std::unique_ptr<transfer::Link>> links);
    void withdraw(Receive& receive);
    // Starts the receive that takes the message, or keeps the message.
    void arrive(transfer::Link& link, const transfer::Record& record, std::span<const std::byte> payload);

    std::span<Receive* const> posted() const { return posted_; }
    size_t unexpected(size_t source) const { return unexpected_[source].size(); }

  private:
    struct Unexpected {
        uint64_t arrival = 0;
        transfer::Record record{};
        std::vector<std::byte> payload;
    };
    using Queue = std::list<Unexpected>;

    std::optional<Queue::iterator> find(const Pattern& pattern, size_t source);
    static void start(Receive& receive, transfer::Link& link, const transfer::Record& record,
                      std::span<const std::byte> payload);

    std::vector<Receive*> posted_; // in call order
    std::vector<Queue> unexpected_;
    Queue spare_; // kept with their payload's memory, to be used again
    uint64_t arrivals_ = 0;
};

} // namespace gpurun::comm
