// Makes a program from its seed.
//
// First positions: each message gets one for its send and one for its receive. Then, in each (source, destination,
// tag), the sends and the receives are paired in order, as they will match. What comes first must not wait for what
// comes later, so the two positions of a pair decide which ways of sending and receiving it may have. Last, some
// receives become wildcards, where match_pair() says that this changes nothing. What is captured is added to that
// (generate_captured.cpp).
#include "stress/program.hpp"
#include "stress/random.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace gpurun::stress {

using test::Kind;

namespace {

constexpr int kTags = 64;              // of an epoch and a thread
constexpr int kGatherTag = kTags - 3;  // of ranks that are about to launch a graph
constexpr int kCapturedTags = 6;       // of two captures at a time; other messages have them, too
constexpr int kRingTag = kTags - 1;    // of sendrecv
constexpr int kNobodysTag = kTags - 2; // of receives that are taken back
constexpr int kMessagesOfPair = 160;   // of an epoch and all threads, at most: more than a pair has fence slots for
constexpr int kCapturePositions = 200; // left to captures, at least
constexpr int kMostJoints = 8;
constexpr int kMostExchanges = 4;
constexpr int kMostRows = 3;

bool is_before(const Message& a, const Message& b) { return a.position < b.position; }
bool is_before_receive(const Receive& a, const Receive& b) { return a.position < b.position; }

class PartMaker {
  public:
    PartMaker(Random& random, const Program& program, int epoch, int thread, Part& part)
        : random_(random), ranks_(program.ranks), threads_(program.threads), alone_(program.threads == 1),
          most_of_pair_(kMessagesOfPair / program.threads), tag_base_((epoch * kTags) * program.threads + thread),
          tag_step_(program.threads), part_(part) {}

    // `crowded`: one pair of ranks gets half of the messages, most of them sent long before they are received.
    void make_determined(int count, bool crowded);
    void make_open(bool any_tag, int count);
    Room room_left() const;
    // Where there are captures, no stream is captured meanwhile that a collective, a row or an exchange needs.
    void settle_domains() {
        if (part_.captures.empty())
            return;
        for (Joint& each : part_.joints)
            each.domain = each.domain_of_completion = 0;
        for (Exchange& each : part_.exchanges)
            each.domain = each.domain_of_completion = 0;
        for (Row& each : part_.rows)
            each.domain = each.domain_of_completion = 0;
    }

  private:
    int tag(int number) const { return tag_base_ + number * tag_step_; }
    size_t any_bytes() { return any_size(random_); }
    // Positions are given out once each, at random; more than are needed.
    void deal(int count) {
        free_.resize(static_cast<size_t>(count));
        for (int i = 0; i < count; i++)
            free_[static_cast<size_t>(i)] = i;
        end_ = count;
        random_.shuffle(free_);
    }
    int position() {
        const int given = free_.back();
        free_.pop_back();
        return given;
    }

    Message& add_message(int source, int dest, int number, int at);
    Receive& add_receive(int rank, int source, int number, int at);
    void add_ring();
    Joint any_joint();
    void add_joints();
    void add_rows();
    void add_exchanges();
    void add_transfers(Exchange& exchange);
    void pair_in_order();
    void choose_ways();
    void choose_wildcards();
    void widen(const std::vector<Receive*>& of_pair, const std::vector<const Message*>& messages);
    bool has_other_sources(const Receive& receive) const;
    void choose_rooms();
    void add_cancelled();
    void add_completions();
    void add_class(int open_class, int dest, bool any_tag, int count);

    Random& random_;
    int ranks_, threads_;
    bool alone_;
    int most_of_pair_;
    int tag_base_, tag_step_;
    Part& part_;
    std::vector<int> free_;
    int end_ = 0;
    std::vector<int> earliest_of_send_, earliest_of_receive_; // completion, by index
};

Message& PartMaker::add_message(int source, int dest, int number, int at) {
    Message message{source, dest, tag(number), any_bytes()};
    message.kind = random_.pick(test::kKinds);
    message.domain = random_.below(kDomains);
    message.position = at;
    message.content = random_.next();
    return part_.messages.emplace_back(message);
}

Receive& PartMaker::add_receive(int rank, int source, int number, int at) {
    Receive receive{rank, source, tag(number), 0};
    receive.kind = random_.pick(test::kKinds);
    receive.domain = random_.below(kDomains);
    receive.position = at;
    return part_.receives.emplace_back(receive);
}

// Some ranks pass messages round, all at one position.
void PartMaker::add_ring() {
    std::vector<int> members;
    for (int rank = 0; rank < ranks_; rank++)
        members.push_back(rank);
    random_.shuffle(members);
    members.resize(static_cast<size_t>(1 + random_.below(ranks_)));
    const int at = position();
    const bool in_place = random_.chance(40);
    const size_t bytes = any_bytes();
    for (size_t i = 0; i < members.size(); i++) {
        Message& message = add_message(members[i], members[(i + 1) % members.size()], kRingTag, at);
        message.way = in_place ? SendWay::kReplace : SendWay::kSendrecv;
        if (in_place)
            message.bytes = bytes;
        const int source = members[(i + members.size() - 1) % members.size()];
        Receive& receive = add_receive(members[i], source, kRingTag, at);
        receive.way = in_place ? ReceiveWay::kReplace : ReceiveWay::kSendrecv;
        receive.domain = message.domain;
        if (in_place)
            receive.kind = message.kind;
    }
}

Joint PartMaker::any_joint() {
    static constexpr size_t kCounts[] = {0, 1, 2, 25, 1023, 1024, 1025, 2048, 4099, 20'011};
    Joint joint{};
    joint.what = static_cast<Joint::What>(random_.below(Joint::kAlltoall + 1));
    joint.root = random_.below(ranks_);
    joint.count = random_.pick(kCounts);
    joint.content = random_.next();
    return joint;
}

void PartMaker::add_joints() {
    static constexpr Joint::Form kForms[] = {Joint::kBlocking, Joint::kBlocking, Joint::kStarted, Joint::kPersistent};
    for (int number = random_.chance(50) ? 0 : 1 + random_.below(kMostJoints); number > 0; number--) {
        Joint joint = any_joint();
        joint.form = random_.pick(kForms);
        joint.position = position();
        joint.completion = position();
        if (joint.completion < joint.position)
            std::swap(joint.position, joint.completion);
        joint.kind = random_.chance(50) ? Kind::kPageable : random_.pick(test::kKinds);
        joint.domain = random_.chance(50) ? 0 : random_.below(kDomains);
        joint.domain_of_completion = random_.below(kDomains);
        joint.on_own_comm = random_.chance(50);
        part_.joints.push_back(joint);
    }
}

void PartMaker::add_rows() {
    constexpr int kMostCalls = 4, kMostTurns = 4;
    for (int number = random_.chance(50) ? 0 : 1 + random_.below(kMostRows); number > 0; number--) {
        Row row{};
        row.position = position();
        row.turns = 1 + random_.below(kMostTurns);
        row.domain = random_.below(kDomains);
        row.domain_of_completion = random_.chance(80) ? row.domain : random_.below(kDomains);
        row.content = random_.next();
        const Kind kind = random_.chance(70) ? Kind::kDevice : random_.pick(test::kKinds);
        for (int calls = 1 + random_.below(kMostCalls); calls > 0; calls--)
            row.joints.push_back(any_joint());
        for (Joint& each : row.joints) {
            each.position = row.position;
            each.kind = kind;
        }
        part_.rows.push_back(std::move(row));
    }
}

// Most are what programs do in each step: started in one stream, and completed there at once.
void PartMaker::add_exchanges() {
    static constexpr Exchange::Form kForms[] = {Exchange::kRequests, Exchange::kRequests, Exchange::kStartall,
                                                Exchange::kGroup};
    constexpr int kOrders = 3, kWays = 8, kMostTurns = 6;
    for (int number = random_.chance(40) ? 0 : 1 + random_.below(kMostExchanges); number > 0; number--) {
        Exchange exchange{};
        exchange.form = random_.pick(kForms);
        exchange.order = static_cast<Exchange::Order>(random_.below(kOrders));
        exchange.position = position();
        exchange.turns = 1 + random_.below(kMostTurns);
        exchange.domain = random_.below(kDomains);
        exchange.domain_of_completion = random_.chance(70) ? exchange.domain : random_.below(kDomains);
        exchange.way = random_.chance(60) || exchange.form == Exchange::kStartall
                           ? CompleteWay::kAll
                           : static_cast<CompleteWay>(random_.below(kWays));
        exchange.in_two = random_.chance(20);
        exchange.kind = random_.chance(60) ? Kind::kDevice : random_.pick(test::kKinds);
        exchange.content = random_.next();
        add_transfers(exchange);
        part_.exchanges.push_back(std::move(exchange));
    }
}

// A few messages both ways with each of a few ranks, or many with one: more than one kernel takes.
void PartMaker::add_transfers(Exchange& exchange) {
    constexpr int kFew = 6, kMany = 40;
    const bool crowded = random_.chance(20);
    const int one = random_.below(ranks_), other = random_.below(ranks_);
    const size_t bytes = any_size(random_);
    const bool alike = random_.chance(50) && bytes < kLargeSizes[0];
    for (int left = 1 + random_.below(crowded ? kMany : kFew * ranks_); left > 0; left--) {
        Exchange::Transfer transfer{};
        transfer.source = crowded ? one : random_.below(ranks_);
        transfer.dest = crowded ? other : random_.below(ranks_);
        if (crowded && random_.chance(50))
            std::swap(transfer.source, transfer.dest);
        transfer.bytes = alike ? bytes : random_.pick(kSizes);
        transfer.room = random_.chance(90) ? transfer.bytes : transfer.bytes / 2;
        exchange.transfers.push_back(transfer);
    }
    if (!alike)
        exchange.transfers[0].bytes = exchange.transfers[0].room = bytes;
}

// Of one source, destination and tag, the n-th receive takes the n-th message.
void PartMaker::pair_in_order() {
    std::sort(part_.messages.begin(), part_.messages.end(), is_before);
    std::sort(part_.receives.begin(), part_.receives.end(), is_before_receive);
    using Class = std::tuple<int, int, int>;
    std::map<Class, std::vector<int>> messages;
    std::map<Class, size_t> taken;
    for (size_t i = 0; i < part_.messages.size(); i++) {
        const Message& message = part_.messages[i];
        messages[{message.source, message.dest, message.tag}].push_back(static_cast<int>(i));
    }
    for (Receive& receive : part_.receives) {
        const Class of{receive.source, receive.rank, receive.tag};
        receive.message = messages[of].at(taken[of]++);
    }
}

void PartMaker::choose_ways() {
    static constexpr SendWay kAnySend[] = {SendWay::kSend,   SendWay::kSsend,      SendWay::kIsend,
                                           SendWay::kIssend, SendWay::kPersistent, SendWay::kPersistentSync};
    static constexpr SendWay kStartedSend[] = {SendWay::kIsend, SendWay::kIssend, SendWay::kPersistent,
                                               SendWay::kPersistentSync};
    static constexpr ReceiveWay kAnyReceive[] = {ReceiveWay::kRecv,      ReceiveWay::kProbe,   ReceiveWay::kIprobe,
                                                 ReceiveWay::kMprobe,    ReceiveWay::kImprobe, ReceiveWay::kRetry,
                                                 ReceiveWay::kTakeStart, ReceiveWay::kIrecv,   ReceiveWay::kPersistent};
    static constexpr ReceiveWay kStartedReceive[] = {ReceiveWay::kIrecv, ReceiveWay::kPersistent};
    earliest_of_send_.assign(part_.messages.size(), 0);
    earliest_of_receive_.clear();
    for (Receive& receive : part_.receives) {
        Message& message = part_.messages[static_cast<size_t>(receive.message)];
        earliest_of_receive_.push_back(message.position);
        earliest_of_send_[static_cast<size_t>(receive.message)] = receive.position;
        if (receive.way == ReceiveWay::kSendrecv || receive.way == ReceiveWay::kReplace)
            continue;
        const bool sent_first = message.position < receive.position;
        const bool received_first = message.position > receive.position;
        message.way = sent_first ? random_.pick(kStartedSend) : random_.pick(kAnySend);
        receive.way = received_first ? random_.pick(kStartedReceive) : random_.pick(kAnyReceive);
    }
}

bool PartMaker::has_other_sources(const Receive& receive) const {
    const Message& its = part_.messages[static_cast<size_t>(receive.message)];
    return std::any_of(part_.messages.begin(), part_.messages.end(), [&](const Message& message) {
        return message.dest == its.dest && message.tag == its.tag && message.source != its.source;
    });
}

// Turns receives of one pair of ranks into wildcards as long as each still takes its message.
void PartMaker::widen(const std::vector<Receive*>& of_pair, const std::vector<const Message*>& messages) {
    const std::vector<const Receive*> receives(of_pair.begin(), of_pair.end());
    for (Receive* receive : of_pair) {
        const Receive before = *receive;
        if (!has_other_sources(*receive) && random_.chance(30))
            receive->source = GPURUN_ANY_SOURCE;
        else if (alone_ && random_.chance(35))
            receive->tag = GPURUN_ANY_TAG;
        const std::vector<int> taken = match_pair(messages, receives);
        for (size_t i = 0; i < receives.size(); i++)
            if (taken[i] == kNone ||
                messages[static_cast<size_t>(taken[i])] != &part_.messages[static_cast<size_t>(receives[i]->message)]) {
                *receive = before;
                break;
            }
    }
}

void PartMaker::choose_wildcards() {
    for (int source = 0; source < ranks_; source++)
        for (int dest = 0; dest < ranks_; dest++) {
            std::vector<Receive*> receives;
            std::vector<const Message*> messages;
            for (Receive& receive : part_.receives)
                if (part_.messages[static_cast<size_t>(receive.message)].source == source && receive.rank == dest)
                    receives.push_back(&receive);
            for (const Message& message : part_.messages)
                if (message.source == source && message.dest == dest)
                    messages.push_back(&message);
            widen(receives, messages);
        }
}

void PartMaker::choose_rooms() {
    for (Receive& receive : part_.receives) {
        const size_t bytes = part_.messages[static_cast<size_t>(receive.message)].bytes;
        const int choice = random_.below(10);
        receive.room = choice < 5 ? bytes : choice < 8 ? bytes + static_cast<size_t>(random_.below(5000)) : bytes / 2;
    }
    for (const Message& message : part_.messages)
        if (message.way == SendWay::kReplace)
            part_.receives[static_cast<size_t>(ring_receive(part_, message))].room = message.bytes;
}

void PartMaker::add_cancelled() {
    for (int count = random_.below(3); count > 0; count--) {
        Receive& receive = add_receive(random_.below(ranks_), random_.below(ranks_), kNobodysTag, position());
        receive.way = ReceiveWay::kCancelled;
        receive.room = any_bytes();
        if (random_.chance(50))
            receive.source = GPURUN_ANY_SOURCE;
        earliest_of_receive_.push_back(0);
    }
}

// Each rank completes its requests at a few positions, the last of them at the end.
void PartMaker::add_completions() {
    constexpr int kPoints = 3, kWays = 8;
    std::vector<std::vector<Completion>> of_rank(static_cast<size_t>(ranks_));
    for (int rank = 0; rank < ranks_; rank++)
        for (int point = 0; point < kPoints; point++)
            of_rank[static_cast<size_t>(rank)].push_back({rank,
                                                          point == 0 ? end_ : random_.below(end_),
                                                          static_cast<CompleteWay>(random_.below(kWays)),
                                                          random_.below(kDomains),
                                                          {}});
    const auto put = [&](int rank, int earliest, Started started) {
        std::vector<Completion>& points = of_rank[static_cast<size_t>(rank)];
        Completion& at = points[static_cast<size_t>(random_.below(kPoints))];
        (at.position >= earliest ? at : points[0]).requests.push_back(started);
    };
    for (size_t i = 0; i < part_.messages.size(); i++)
        if (has_request(part_.messages[i].way))
            put(part_.messages[i].source, std::max(part_.messages[i].position, earliest_of_send_[i]),
                {true, static_cast<int>(i)});
    for (size_t i = 0; i < part_.receives.size(); i++)
        if (has_request(part_.receives[i].way))
            put(part_.receives[i].rank, std::max(part_.receives[i].position, earliest_of_receive_[i]),
                {false, static_cast<int>(i)});
    for (std::vector<Completion>& points : of_rank)
        for (Completion& completion : points) {
            random_.shuffle(completion.requests);
            if (!completion.requests.empty())
                part_.completions.push_back(std::move(completion));
        }
}

void PartMaker::make_determined(int count, bool crowded) {
    deal(4 * count + 8 * ranks_ + 16 + 2 * kMostJoints + kMostExchanges + kMostRows + kCapturePositions);
    std::map<std::pair<int, int>, int> of_pair;
    const int busy_source = random_.below(ranks_), busy_dest = random_.below(ranks_);
    for (int i = 0; i < count; i++) {
        const bool in_crowd = crowded && random_.chance(50);
        const int source = in_crowd ? busy_source : random_.below(ranks_);
        const int dest = in_crowd ? busy_dest : random_.below(ranks_);
        if (of_pair[{source, dest}]++ >= most_of_pair_)
            continue;
        const int number = random_.below(3);
        int first = position(), second = random_.chance(40) && source != dest && !in_crowd ? first : position();
        if (in_crowd && second < first)
            std::swap(first, second);
        add_message(source, dest, number, first);
        add_receive(dest, source, number, second);
    }
    for (int rings = random_.below(3); rings > 0; rings--)
        add_ring();
    pair_in_order();
    choose_wildcards();
    choose_ways();
    choose_rooms();
    add_cancelled();
    add_completions();
    add_joints();
    add_exchanges();
    add_rows();
}

// A class of messages from anybody that one rank's wildcard receives share. Either all sends are started before the
// first receive, or all receives before the first send, or nothing in it waits before the end.
void PartMaker::add_class(int open_class, int dest, bool any_tag, int count) {
    enum { kSentFirst, kReceivedFirst, kMixed };
    static constexpr SendWay kBlockingSend[] = {SendWay::kSend, SendWay::kSsend};
    static constexpr SendWay kStartedSend[] = {SendWay::kIsend, SendWay::kIssend, SendWay::kPersistent};
    static constexpr ReceiveWay kBlockingReceive[] = {ReceiveWay::kRecv,     ReceiveWay::kProbe,   ReceiveWay::kIprobe,
                                                      ReceiveWay::kMprobe,   ReceiveWay::kImprobe, ReceiveWay::kRetry,
                                                      ReceiveWay::kTakeStart};
    static constexpr ReceiveWay kStartedReceive[] = {ReceiveWay::kIrecv, ReceiveWay::kPersistent};
    const int layout = random_.below(3);
    std::vector<int> at;
    for (int i = 0; i < 2 * count; i++)
        at.push_back(position());
    if (layout != kMixed)
        std::sort(at.begin(), at.end());
    const auto half = static_cast<size_t>(count);
    for (size_t i = 0; i < half; i++) {
        const int sent = at[layout == kReceivedFirst ? half + i : i];
        const int received = at[layout == kReceivedFirst ? i : half + i];
        Message& message = add_message(random_.below(ranks_), dest, any_tag ? random_.below(40) : open_class, sent);
        message.bytes = random_.pick(kSizes); // any receive of the class may get it
        message.open_class = open_class;
        message.way =
            layout == kReceivedFirst && random_.chance(50) ? random_.pick(kBlockingSend) : random_.pick(kStartedSend);
        Receive& receive = add_receive(dest, GPURUN_ANY_SOURCE, open_class, received);
        if (any_tag)
            receive.tag = GPURUN_ANY_TAG;
        receive.open_class = open_class;
        receive.room = *std::max_element(std::begin(kSizes), std::end(kSizes));
        receive.way =
            layout == kSentFirst && random_.chance(50) ? random_.pick(kBlockingReceive) : random_.pick(kStartedReceive);
    }
    const int last = *std::max_element(at.begin(), at.end());
    earliest_of_send_.resize(part_.messages.size(), last);
    earliest_of_receive_.resize(part_.receives.size(), last);
}

void PartMaker::make_open(bool any_tag, int count) {
    deal(4 * count + 8 * ranks_ + 16 + 2 * kMostJoints + kMostExchanges + kMostRows + kCapturePositions);
    std::vector<int> dests;
    for (int rank = 0; rank < ranks_; rank++)
        for (int classes = any_tag ? 1 : 1 + random_.below(2); classes > 0; classes--)
            dests.push_back(rank);
    const int share = std::max(1, std::min(count / static_cast<int>(dests.size()), most_of_pair_ / 2));
    for (size_t i = 0; i < dests.size(); i++)
        add_class(static_cast<int>(i), dests[i], any_tag, 1 + random_.below(share));
    add_cancelled();
    add_completions();
    add_joints();
    add_exchanges();
    add_rows();
}

Room PartMaker::room_left() const {
    Room room{ranks_, threads_, {}, tag(kGatherTag), free_, end_};
    std::sort(room.positions.begin(), room.positions.end());
    for (int number = 0; number < kCapturedTags; number++)
        room.tags.push_back(tag(number));
    return room;
}

} // namespace

int ring_receive(const Part& part, const Message& message) {
    const auto found = std::find_if(part.receives.begin(), part.receives.end(), [&](const Receive& receive) {
        return receive.rank == message.source && receive.position == message.position;
    });
    return static_cast<int>(found - part.receives.begin());
}

decltype(&gpurun_isend) start_of(SendWay way) {
    switch (way) {
    case SendWay::kIsend: return gpurun_isend;
    case SendWay::kIssend: return gpurun_issend;
    case SendWay::kPersistent: return gpurun_send_init;
    default: return gpurun_ssend_init;
    }
}

bool has_request(SendWay way) {
    return way == SendWay::kIsend || way == SendWay::kIssend || way == SendWay::kPersistent ||
           way == SendWay::kPersistentSync;
}
bool has_request(ReceiveWay way) { return way >= ReceiveWay::kTakeStart && way <= ReceiveWay::kCancelled; }

std::vector<int> match_pair(const std::vector<const Message*>& messages, const std::vector<const Receive*>& receives) {
    std::vector<bool> gone(messages.size(), false);
    std::vector<int> taken;
    for (const Receive* receive : receives) {
        int found = kNone;
        for (size_t i = 0; i < messages.size() && found == kNone; i++)
            if (!gone[i] && (receive->tag == GPURUN_ANY_TAG || receive->tag == messages[i]->tag))
                found = static_cast<int>(i);
        if (found != kNone)
            gone[static_cast<size_t>(found)] = true;
        taken.push_back(found);
    }
    return taken;
}

Program make_program(uint64_t seed, int ranks, const Capturable& capturable) {
    Random random(seed);
    Program program{seed, ranks, random.chance(25) ? 2 + random.below(kMaxThreads - 1) : 1, {}};
    const int epochs = 1 + random.below(6);
    for (int i = 0; i < epochs; i++) {
        Epoch& epoch = program.epochs.emplace_back();
        epoch.parts.resize(static_cast<size_t>(program.threads));
        const int mode = random.below(10);
        const bool any_tag = mode == 9 && program.threads == 1;
        epoch.barrier = any_tag || (program.threads == 1 && random.chance(20));
        for (int thread = 0; thread < program.threads; thread++) {
            PartMaker maker(random, program, i, thread, epoch.parts[static_cast<size_t>(thread)]);
            const bool crowded = random.chance(15);
            const int count = 2 + random.below(crowded ? 2 * kMessagesOfPair : 8 * ranks);
            if (any_tag || mode >= 7)
                maker.make_open(any_tag, count);
            else
                maker.make_determined(count, crowded);
            if (random.chance(35) && capturable.graphs)
                add_captures(epoch.parts[static_cast<size_t>(thread)], maker.room_left(), capturable, random.next());
            maker.settle_domains();
        }
    }
    return program;
}

} // namespace gpurun::stress
