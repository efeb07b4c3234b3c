// The matcher against a model: two vectors that are searched from the front, which is MPI's rule as it is written.
#include "comm/matcher.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <cstring>
#include <random>

using namespace gpurun;
using comm::Expected;
using comm::Group;
using comm::kAnySource;
using comm::kAnyTag;
using comm::Matcher;
using comm::Pattern;
using comm::Unexpected;
using comm::WorldRank;
using transfer::Envelope;

namespace {

constexpr int kNone = -1;

struct Message {
    int number = kNone;
    WorldRank source{};
    Envelope envelope{};
};

// A receive and a message fit if their context is the same, and source and tag are, or the receive leaves them open.
bool fit(const Pattern& pattern, const Message& message) {
    return pattern.context == message.envelope.context && (pattern.any_source || pattern.source == message.source) &&
           (pattern.tag == kAnyTag || pattern.tag == message.envelope.tag);
}

// Receives and messages by their numbers.
class MatcherModel {
  public:
    // The message that the receive takes: the oldest that fits. Else it is posted.
    int post(int receive, const Pattern& pattern) {
        const auto found = find(pattern);
        if (found == unexpected_.end()) {
            posted_.push_back({receive, pattern});
            return kNone;
        }
        const int number = found->number;
        unexpected_.erase(found);
        return number;
    }
    bool withdraw(int receive) {
        return std::erase_if(posted_, [&](const Posted& each) { return each.number == receive; }) != 0;
    }
    // The receive that takes the message: the oldest that fits. Else it is kept.
    int arrive(const Message& message) {
        const auto found = std::find_if(posted_.begin(), posted_.end(),
                                        [&](const Posted& each) { return fit(each.pattern, message); });
        if (found == posted_.end()) {
            unexpected_.push_back(message);
            return kNone;
        }
        const int number = found->number;
        posted_.erase(found);
        return number;
    }
    int peek(const Pattern& pattern) {
        const auto found = find(pattern);
        return found == unexpected_.end() ? kNone : found->number;
    }
    void take(int message) {
        std::erase_if(unexpected_, [&](const Message& each) { return each.number == message; });
    }
    bool is_idle(WorldRank source) const {
        return posted_.empty() && std::none_of(unexpected_.begin(), unexpected_.end(),
                                               [&](const Message& each) { return each.source == source; });
    }
    std::vector<int> posted() const {
        std::vector<int> numbers;
        for (const Posted& each : posted_)
            numbers.push_back(each.number);
        return numbers;
    }
    std::vector<int> unexpected() const {
        std::vector<int> numbers;
        for (const Message& each : unexpected_)
            numbers.push_back(each.number);
        return numbers;
    }

  private:
    struct Posted {
        int number;
        Pattern pattern;
    };
    std::vector<Message>::iterator find(const Pattern& pattern) {
        return std::find_if(unexpected_.begin(), unexpected_.end(),
                            [&](const Message& each) { return fit(pattern, each); });
    }

    std::vector<Posted> posted_;      // in the order of their calls
    std::vector<Message> unexpected_; // in the order of their arrival
};

// The same steps by the matcher and by the model.
class Both {
  public:
    struct Receive : Expected {
        Receive(const Pattern& pattern_, int number_) : Expected(pattern_), number(number_) {}
        int number;
    };

    explicit Both(uint32_t sources) : matcher_(sources) {}

    void post(const Pattern& pattern) {
        Receive& receive =
            *receives_.emplace_back(std::make_unique<Receive>(pattern, static_cast<int>(receives_.size())));
        Unexpected* const message = matcher_.post(receive);
        REQUIRE((message == nullptr ? kNone : number_of(*message)) == model_.post(receive.number, pattern));
        if (message != nullptr)
            give_back(*message);
    }
    // Also of one that is not posted any more: nothing happens.
    void withdraw(size_t receive) {
        const bool was_posted = matcher_.has_posted() && is_posted(*receives_[receive]);
        matcher_.withdraw(*receives_[receive]);
        REQUIRE(was_posted == model_.withdraw(receives_[receive]->number));
    }
    void arrive(WorldRank source, const Envelope& envelope) {
        const Message message{static_cast<int>(messages_.size()), source, envelope};
        messages_.push_back(message);
        Expected* const receive = matcher_.arrive(source, envelope);
        REQUIRE((receive == nullptr ? kNone : static_cast<Receive*>(receive)->number) == model_.arrive(message));
        if (receive != nullptr)
            return;
        transfer::Record record(transfer::RecordKind::kMessage, 3, static_cast<uint64_t>(message.number));
        record.envelope = envelope;
        const std::vector<std::byte> payload = payload_of(message);
        matcher_.keep(source, static_cast<uint64_t>(message.number) + 1, record.with(message.number), payload);
    }
    void probe(const Pattern& pattern, bool take) {
        const Unexpected* const message = matcher_.peek(pattern);
        const int number = model_.peek(pattern);
        REQUIRE((message == nullptr ? kNone : number_of(*message)) == number);
        if (message == nullptr || !take)
            return;
        const uint64_t name = matcher_.take(pattern);
        REQUIRE(matcher_.find_taken(name) != nullptr);
        model_.take(number);
        taken_.push_back({name, number});
    }
    // Gives the receiver what a probe has taken out.
    void release_taken(size_t which) {
        const auto [name, number] = taken_[which];
        taken_.erase(taken_.begin() + static_cast<ptrdiff_t>(which));
        Unexpected& message = matcher_.release_taken(name);
        REQUIRE(number_of(message) == number);
        REQUIRE(matcher_.find_taken(name) == nullptr);
        give_back(message);
    }

    void compare(uint32_t sources) {
        std::vector<int> unexpected;
        REQUIRE(matcher_.for_each_unexpected(SIZE_MAX,
                                             [&](const Unexpected& each) { unexpected.push_back(number_of(each)); }));
        REQUIRE(unexpected == model_.unexpected());
        std::vector<int> posted;
        matcher_.for_each_posted([&](Expected& each) { posted.push_back(static_cast<Receive&>(each).number); });
        std::sort(posted.begin(), posted.end()); // their order is that of their numbers
        REQUIRE(posted == model_.posted());
        REQUIRE(matcher_.has_posted() == !posted.empty());
        for (uint32_t source = 0; source < sources; ++source)
            REQUIRE(matcher_.is_idle(WorldRank{source}) == model_.is_idle(WorldRank{source}));
    }
    size_t receives() const { return receives_.size(); }
    size_t taken() const { return taken_.size(); }

  private:
    static int number_of(const Unexpected& message) { return static_cast<int>(message.record.serial); }
    static std::vector<std::byte> payload_of(const Message& message) {
        return std::vector<std::byte>(static_cast<size_t>(message.number) % 70, static_cast<std::byte>(message.number));
    }
    bool is_posted(const Receive& receive) {
        bool found = false;
        matcher_.for_each_posted([&](Expected& each) { found |= &each == &receive; });
        return found;
    }
    // It is as it came.
    void give_back(Unexpected& message) {
        const Message& sent = messages_[static_cast<size_t>(number_of(message))];
        REQUIRE(message.source == sent.source);
        REQUIRE(message.ordinal == static_cast<uint64_t>(sent.number) + 1);
        REQUIRE(message.record.as<int>() == sent.number);
        REQUIRE(std::memcmp(&message.record.envelope, &sent.envelope, sizeof sent.envelope) == 0);
        REQUIRE(message.payload == payload_of(sent));
        matcher_.give_back(message);
    }

    Matcher matcher_;
    MatcherModel model_;
    std::vector<std::unique_ptr<Receive>> receives_;
    std::vector<Message> messages_;
    std::vector<std::pair<uint64_t, int>> taken_;
};

// What the random steps choose from: few values, so that many fit, and some at the ends of what there can be.
struct Choices {
    static constexpr uint32_t kSources = 5;
    static constexpr int kTags[] = {0, 1, 2, 3, INT32_MAX};
    struct Comm {
        Group group;
        uint32_t context;
    };
    std::vector<Comm> comms{{Group::of_all(kSources), 2},
                            {Group::of_all(kSources), 3},
                            {Group({WorldRank{4}, WorldRank{1}, WorldRank{3}}), 4},
                            {Group::of_all(kSources), 2 | transfer::kCapturedContexts}};
};

class Steps {
  public:
    Steps(uint32_t seed, int arrivals) : random_(seed), arrivals_(arrivals) {}

    // With `arrivals` of 100 a message comes; the rest is divided among the others.
    void step(Both& both) {
        const int dice = number(100);
        const int rest = 100 - arrivals_;
        const Choices::Comm& comm =
            choices_.comms[static_cast<size_t>(number(static_cast<int>(choices_.comms.size())))];
        if (dice < arrivals_)
            arrive(both, comm);
        else if (dice < arrivals_ + rest * 60 / 100)
            both.post(pattern(comm));
        else if (dice < arrivals_ + rest * 75 / 100)
            both.probe(pattern(comm), false);
        else if (dice < arrivals_ + rest * 85 / 100)
            both.probe(pattern(comm), true);
        else if (dice < arrivals_ + rest * 90 / 100 && both.taken() != 0)
            both.release_taken(static_cast<size_t>(number(static_cast<int>(both.taken()))));
        else if (both.receives() != 0)
            both.withdraw(static_cast<size_t>(number(static_cast<int>(both.receives()))));
    }

  private:
    int number(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
    int tag() { return Choices::kTags[number(static_cast<int>(std::size(Choices::kTags)))]; }
    Pattern pattern(const Choices::Comm& comm) {
        const int source = number(3) == 0 ? kAnySource : number(comm.group.size());
        return Pattern::of(comm.group, comm.context, source, number(3) == 0 ? kAnyTag : tag());
    }
    void arrive(Both& both, const Choices::Comm& comm) {
        const WorldRank source = comm.group.world(comm::Rank{number(comm.group.size())});
        both.arrive(source, {comm.context, tag(), static_cast<uint64_t>(number(1 << 20))});
    }

    const Choices choices_;
    std::mt19937 random_;
    const int arrivals_;
};

} // namespace

TEST_SUITE_BEGIN("matcher");

TEST_CASE("random posts, withdrawals, arrivals and probes go as in the model, step by step") {
    for (const int arrivals : {20, 40, 60}) // receives pile up; balanced; messages pile up
        for (uint32_t seed = 1; seed <= 60; ++seed) {
            CAPTURE(arrivals);
            CAPTURE(seed);
            Steps steps(seed, arrivals);
            Both both(Choices::kSources);
            for (int i = 0; i < 400; ++i) {
                steps.step(both);
                both.compare(Choices::kSources);
            }
        }
}

TEST_CASE("receives of one source and tag take its messages in the order of the calls, whatever their wildcards") {
    const Group world = Group::of_all(2);
    const Envelope envelope{2, 7, 0};
    Matcher matcher(2);
    Expected exact(Pattern::of(world, 2, 1, 7));
    Expected any_tag(Pattern::of(world, 2, 1, kAnyTag));
    Expected any_source(Pattern::of(world, 2, kAnySource, 7));
    Expected any(Pattern::of(world, 2, kAnySource, kAnyTag));
    Expected* order[] = {&any_tag, &exact, &any, &any_source};
    std::sort(std::begin(order), std::end(order));
    do {
        for (Expected* each : order)
            REQUIRE(matcher.post(*each) == nullptr);
        for (Expected* each : order)
            REQUIRE(matcher.arrive(WorldRank{1}, envelope) == each);
        REQUIRE(matcher.arrive(WorldRank{1}, envelope) == nullptr);
    } while (std::next_permutation(std::begin(order), std::end(order)));
}

// ------------------------------------------------------------------------------------------------- long queues

namespace {

constexpr int kMany = 20'000;
constexpr size_t kMostLooks = 16; // at entries that a look-up without wildcards may pass

transfer::Record message(int tag) {
    transfer::Record record(transfer::RecordKind::kMessage, 1);
    record.envelope = {2, tag, 0};
    return record;
}

} // namespace

TEST_CASE("20,000 unexpected messages are received in the opposite order without passing many others") {
    const Group world = Group::of_all(2);
    Matcher matcher(2);
    for (int tag = 0; tag < kMany; ++tag)
        matcher.keep(WorldRank{1}, static_cast<uint64_t>(tag), message(tag), {});
    CHECK(matcher.most_looks() <= kMostLooks);
    for (int tag = kMany; tag-- > 0;) {
        Expected receive(Pattern::of(world, 2, 1, tag));
        Unexpected* const taken = matcher.post(receive);
        REQUIRE(taken != nullptr);
        REQUIRE(taken->record.envelope.tag == tag);
        matcher.give_back(*taken);
    }
    CHECK(matcher.is_idle(WorldRank{1}));
}

TEST_CASE("20,000 receives get their messages in the opposite order without passing many others") {
    const Group world = Group::of_all(2);
    Matcher matcher(2);
    std::deque<Expected> receives;
    for (int tag = 0; tag < kMany; ++tag)
        REQUIRE(matcher.post(receives.emplace_back(Pattern::of(world, 2, 1, tag))) == nullptr);
    CHECK(matcher.most_looks() <= kMostLooks);
    for (int tag = kMany; tag-- > 0;)
        REQUIRE(matcher.arrive(WorldRank{1}, {2, tag, 0}) == &receives[static_cast<size_t>(tag)]);
    CHECK(matcher.is_idle(WorldRank{1}));
}

TEST_CASE("messages of many sources and few tags are spread as well") {
    constexpr uint32_t kSources = 256;
    constexpr int kTags = 80;
    Matcher matcher(kSources);
    for (uint32_t source = 0; source < kSources; ++source)
        for (int tag = 0; tag < kTags; ++tag)
            matcher.keep(WorldRank{source}, static_cast<uint64_t>(tag), message(tag), {});
    CHECK(matcher.most_looks() <= kMostLooks);
}

TEST_SUITE_END();
