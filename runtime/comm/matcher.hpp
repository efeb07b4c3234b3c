// Matching: which message goes to which receive, by MPI's rule. Moves no bytes and knows of no transfer.
//
// A receive takes the oldest message that fits its (context, source, tag); a message goes to the oldest posted receive
// that fits. Messages of one source arrive here in the order in which they were sent, so none overtakes another. Both
// queues are hashed: a message looks at the oldest receive for exactly its source and tag, and at that of each kind of
// wildcard that is posted at all; a receive without wildcards looks at the oldest message with its source and tag. One
// of any tag looks through its source's messages, one of any source through all, oldest first.
//
// A matched probe takes a message out of the queue. Used under the engine lock.
#pragma once

#include "comm/hashed_queue.hpp"
#include "comm/names.hpp"
#include "comm/pattern.hpp"

#include <array>
#include <bit>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace gpurun::comm {

struct ByPattern; // the matcher's queues
struct BySource;
struct ByArrival;

// A posted receive, as the matcher sees it.
struct Expected : Hashed<Expected, ByPattern> {
    explicit Expected(const Pattern& pattern_) : pattern(pattern_) {}

    Pattern pattern;
    uint64_t turn = 0; // grows with each that is posted: the oldest has the least
};

// An unexpected message: its record and inline payload. Its memory is used again.
struct Unexpected : Hashed<Unexpected, ByPattern>,
                    base::Linked<Unexpected, BySource>,
                    base::Linked<Unexpected, ByArrival> {
    WorldRank source{};
    uint64_t ordinal = 0; // of the message in its pair, for the trace
    transfer::Record record;
    std::vector<std::byte> payload;
};

class Matcher {
  public:
    explicit Matcher(size_t sources, const Names& names = {}) : of_source_(sources), last_taken_(names.first() + 2) {}

    // The unexpected message that the receive takes: the caller's until give_back(). Null if there is none: the receive
    // is posted.
    Unexpected* post(Expected& receive) {
        if (!by_arrival_.empty())
            if (Unexpected* const message = find(receive.pattern)) {
                forget(*message);
                return message;
            }
        receive.turn = turns_++;
        posted_.push_back(receive, key_of(receive.pattern));
        const size_t kind = kind_of(receive.pattern);
        ++posted_of_kind_[kind];
        posted_kinds_ |= 1u << kind;
        return nullptr;
    }
    // Does nothing if it is not posted.
    void withdraw(Expected& receive) {
        if (!posted_.has(receive))
            return;
        posted_.remove(receive);
        const size_t kind = kind_of(receive.pattern);
        if (--posted_of_kind_[kind] == 0)
            posted_kinds_ &= ~(1u << kind);
    }
    // The posted receive that takes a message, withdrawn; or null: the caller keeps the message (keep()).
    Expected* arrive(WorldRank source, const transfer::Envelope& envelope) {
        Expected* const found = find_posted(source, envelope);
        if (found != nullptr)
            withdraw(*found);
        return found;
    }
    // The posted receive that would take a message now, or null.
    Expected* find_posted(WorldRank source, const transfer::Envelope& envelope) const {
        const auto fits = [&](const Expected& each) { return each.pattern.fits(source, envelope); };
        if (posted_kinds_ == kExactOnly) // the usual way
            return posted_.find(key_of(envelope.context, source.value, static_cast<uint32_t>(envelope.tag)), fits);
        Expected* oldest = nullptr;
        for (uint32_t kinds = posted_kinds_; kinds != 0; kinds &= kinds - 1) {
            const int kind = std::countr_zero(kinds);
            const uint64_t key = key_of(envelope.context, (kind & kAnySourceKind) != 0 ? kAny : source.value,
                                        (kind & kAnyTagKind) != 0 ? kAny : static_cast<uint32_t>(envelope.tag));
            Expected* const found = posted_.find(key, fits);
            if (found != nullptr && (oldest == nullptr || found->turn < oldest->turn))
                oldest = found;
        }
        return oldest;
    }
    void keep(WorldRank source, uint64_t ordinal, const transfer::Record& record, std::span<const std::byte> payload);
    void give_back(Unexpected& message) { unused_.push_back(&message); }

    // Whether nothing is posted, and no message of the source is unexpected: then its next message goes to the next
    // receive that fits.
    bool is_idle(WorldRank source) const { return posted_.empty() && of_source_[source.value].empty(); }
    bool has_unexpected(WorldRank source) const { return !of_source_[source.value].empty(); }
    bool has_posted() const { return !posted_.empty(); }

    // The message that a receive with this pattern would take now, or null.
    const Unexpected* peek(const Pattern& pattern) const { return find(pattern); }
    // The oldest unexpected message of the source for which the condition holds: the caller's until give_back(). Null
    // if there is none.
    template <typename Condition>
    Unexpected* take_message(WorldRank source, const Condition& condition) {
        Unexpected* const message = of_source_[source.value].find(condition);
        if (message != nullptr)
            forget(*message);
        return message;
    }
    // REQUIRES peek(). Takes that message out: the caller's until give_back().
    Unexpected& take_now(const Pattern& pattern);
    // The same, for later; the number names it.
    uint64_t take(const Pattern& pattern);
    // The taken message with the number; null if there is none.
    const Unexpected* find_taken(uint64_t number) const {
        const auto found = taken_.find(number);
        return found != taken_.end() ? found->second : nullptr;
    }
    // How often messages were taken for later.
    uint32_t most_uses() const { return Names::use_of(last_taken_); }
    // REQUIRES find_taken(). The caller's until give_back().
    Unexpected& release_taken(uint64_t number);

    // Every posted receive; `visit` may withdraw the one that it is given.
    template <typename Visit>
    void for_each_posted(const Visit& visit) {
        posted_.for_each([&](Expected& each) { visit(each); });
    }
    // Messages that no receive has taken, in the order in which they came, up to `most`. False if there are more.
    template <typename Visit>
    bool for_each_unexpected(size_t most, const Visit& visit) const {
        const Unexpected* each = by_arrival_.front();
        for (; each != nullptr && most != 0; each = base::List<Unexpected, ByArrival>::next(*each), --most)
            visit(*each);
        return each == nullptr;
    }
    // Messages that were taken out by a number, and not released.
    template <typename Visit>
    void for_each_taken(const Visit& visit) const {
        for (const auto& [number, message] : taken_)
            visit(*message);
    }

    // How many entries of a queue are looked at, at most, for a message, or a receive without wildcards. For tests.
    size_t most_looks() const { return std::max(posted_.most_looks(), unexpected_.most_looks()); }

  private:
    // Kinds of patterns, by their wildcards.
    static constexpr size_t kAnyTagKind = 1;
    static constexpr size_t kAnySourceKind = 2;
    static constexpr size_t kKinds = 4;
    static constexpr uint32_t kExactOnly = 1; // of posted_kinds_: no wildcards
    static size_t kind_of(const Pattern& pattern) {
        return (pattern.any_source ? kAnySourceKind : 0) | (pattern.any_tag() ? kAnyTagKind : 0);
    }
    static constexpr uint64_t kAny = UINT32_MAX; // in place of a source or a tag, none of which is so large
    static uint64_t key_of(uint32_t context, uint64_t source, uint64_t tag) {
        return (uint64_t{context} * 0x9e3779b97f4a7c15 + source) * 0xff51afd7ed558ccd + tag;
    }
    static uint64_t key_of(const Pattern& pattern) {
        return key_of(pattern.context, pattern.any_source ? kAny : pattern.source.value,
                      pattern.any_tag() ? kAny : static_cast<uint32_t>(pattern.tag));
    }

    Unexpected* find(const Pattern& pattern) const;
    void forget(Unexpected& message);

    HashedQueue<Expected, ByPattern> posted_;
    std::array<size_t, kKinds> posted_of_kind_{};
    uint32_t posted_kinds_ = 0; // a bit for each kind of which some are posted
    uint64_t turns_ = 0;
    HashedQueue<Unexpected, ByPattern> unexpected_;
    std::vector<base::List<Unexpected, BySource>> of_source_;
    base::List<Unexpected, ByArrival> by_arrival_;
    std::deque<Unexpected> all_;
    std::vector<Unexpected*> unused_;
    std::unordered_map<uint64_t, Unexpected*> taken_;
    uint64_t
        last_taken_; // its number, a name (names.hpp) of one place, which is used again and again; 0 and 1 name none
};

} // namespace gpurun::comm
