// Adds captures to a part: their calls, as generate.cpp makes them for the part itself, and their runs.
//
// A window is a row of positions that are free. One or two captures share it, each of streams of its own and with tags
// of its own, since messages of captured calls are matched whatever the capture. The first positions of a window begin
// the captures, the last ones end them. Launches come behind it, at positions of their own.
#include "stress/program.hpp"
#include "stress/random.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace gpurun::stress {

using test::Kind;

namespace {

constexpr int kMostWindows = 2;
constexpr int kMostTags = 3;   // of a capture
constexpr int kMostBursts = 3; // launches, of several runs each
constexpr int kMostRuns = 3;
// What captured messages of one pair of ranks may take of their memory at the target (gpurun_capture_begin(3)), in all
// captures of an epoch: some of the epoch before may not have been cleared away yet.
constexpr size_t kMemoryOfPair = 340 << 10;
constexpr Kind kCapturedKinds[] = {Kind::kDevice, Kind::kOrdered, Kind::kPinned};

// What a captured message takes of that, with some to spare.
size_t memory_of(size_t bytes) {
    constexpr size_t kLargest = 64 << 10, kPlaces = 2, kWords = 2, kRest = 512;
    return kRest + (bytes > kLargest ? 0 : kPlaces * kWords * (bytes + bytes / 8));
}

class CaptureMaker {
  public:
    CaptureMaker(Random& random, const Room& room, const Capturable& capturable)
        : random_(random), room_(room), capturable_(capturable), line_(room.positions) {
        for (const std::vector<bool>& row : capturable.pairs)
            all_ = all_ && std::all_of(row.begin(), row.end(), [](bool can) { return can; });
    }
    std::vector<Capture> make();

  private:
    void make_window(size_t first, size_t count);
    void fill(Capture& capture, std::vector<int> positions, size_t first_tag);
    Kind any_kind() {
        const Kind kind = random_.pick(kCapturedKinds);
        return kind == Kind::kOrdered && !capturable_.ordered ? Kind::kDevice : kind;
    }
    bool has_room(int source, int dest, size_t bytes);
    Message& add_message(Capture& capture, int source, int dest, int tag, int at);
    Receive& add_receive(Capture& capture, int rank, int source, int tag, int at);
    void add_ring(Capture& capture, int tag, int at);
    void add_collective(Capture& capture, int at);
    void choose_ways(Capture& capture);
    void add_completions(Capture& capture);
    void add_runs();
    int free_domain(int position);

    Random& random_;
    const Room& room_;
    const Capturable& capturable_;
    bool all_ = true;
    std::vector<int> line_;
    std::vector<Capture> made_;
    std::map<std::pair<int, int>, size_t> memory_; // taken, by source and target
};

bool CaptureMaker::has_room(int source, int dest, size_t bytes) {
    if (bytes == 0)
        return true; // next to nothing
    size_t& taken = memory_[{source, dest}];
    if (taken + memory_of(bytes) > kMemoryOfPair / static_cast<size_t>(room_.threads))
        return false;
    taken += memory_of(bytes);
    return true;
}

Message& CaptureMaker::add_message(Capture& capture, int source, int dest, int tag, int at) {
    Message message{source, dest, tag, any_size(random_)};
    while (!has_room(source, dest, message.bytes))
        message.bytes /= 2;
    message.kind = any_kind();
    message.domain = random_.pick(capture.domains);
    message.position = at;
    message.content = random_.next();
    message.refused = !capturable_.pairs[static_cast<size_t>(source)][static_cast<size_t>(dest)];
    return capture.messages.emplace_back(message);
}

Receive& CaptureMaker::add_receive(Capture& capture, int rank, int source, int tag, int at) {
    Receive receive{rank, source, tag, 0};
    receive.kind = any_kind();
    receive.domain = random_.pick(capture.domains);
    receive.position = at;
    return capture.receives.emplace_back(receive);
}

// Either all of its messages can be captured, or none: a call that is refused does not make its other half either.
void CaptureMaker::add_ring(Capture& capture, int tag, int at) {
    std::vector<int> members;
    for (int rank = 0; rank < room_.ranks; rank++)
        members.push_back(rank);
    random_.shuffle(members);
    members.resize(static_cast<size_t>(1 + random_.below(room_.ranks)));
    const auto neighbour = [&](size_t i, size_t distance) { return members[(i + distance) % members.size()]; };
    size_t can = 0;
    for (size_t i = 0; i < members.size(); i++)
        can += capturable_.pairs[static_cast<size_t>(members[i])][static_cast<size_t>(neighbour(i, 1))] ? 1 : 0;
    if (can != 0 && can != members.size())
        return;
    for (size_t i = 0; i < members.size(); i++) {
        Message& message = add_message(capture, members[i], neighbour(i, 1), tag, at);
        message.way = SendWay::kSendrecv;
        Receive& receive = add_receive(capture, members[i], neighbour(i, members.size() - 1), tag, at);
        receive.way = ReceiveWay::kSendrecv;
        receive.domain = message.domain;
    }
}

void CaptureMaker::add_collective(Capture& capture, int at) {
    Collective call{at, random_.chance(40), random_.below(room_.ranks), any_size(random_), Kind::kDevice, 0, 0};
    for (int source = 0; source < room_.ranks; source++)
        for (int dest = 0; dest < room_.ranks; dest++)
            while (!has_room(source, dest, call.bytes))
                call.bytes /= 2;
    call.kind = any_kind();
    call.domain = random_.pick(capture.domains);
    call.content = random_.next();
    capture.collectives.push_back(call);
}

// Of one source, destination and tag, the n-th receive takes the n-th message; what comes first must not wait for what
// comes later.
void CaptureMaker::choose_ways(Capture& capture) {
    static constexpr SendWay kAnySend[] = {SendWay::kSend,   SendWay::kSsend,      SendWay::kIsend,
                                           SendWay::kIssend, SendWay::kPersistent, SendWay::kPersistentSync};
    static constexpr SendWay kStartedSend[] = {SendWay::kIsend, SendWay::kIssend, SendWay::kPersistent,
                                               SendWay::kPersistentSync};
    static constexpr ReceiveWay kAnyReceive[] = {ReceiveWay::kRecv, ReceiveWay::kIrecv, ReceiveWay::kPersistent};
    static constexpr ReceiveWay kStartedReceive[] = {ReceiveWay::kIrecv, ReceiveWay::kPersistent};
    const auto by_position = [](const auto& a, const auto& b) { return a.position < b.position; };
    std::sort(capture.messages.begin(), capture.messages.end(), by_position);
    std::sort(capture.receives.begin(), capture.receives.end(), by_position);
    std::map<std::tuple<int, int, int>, std::vector<int>> messages;
    for (size_t i = capture.messages.size(); i-- > 0;)
        messages[{capture.messages[i].source, capture.messages[i].dest, capture.messages[i].tag}].push_back(
            static_cast<int>(i));
    for (Receive& receive : capture.receives) {
        std::vector<int>& open = messages[{receive.source, receive.rank, receive.tag}];
        receive.message = open.back();
        open.pop_back();
        Message& message = capture.messages[static_cast<size_t>(receive.message)];
        const int room = random_.below(10);
        receive.room = room < 5   ? message.bytes
                       : room < 8 ? message.bytes + static_cast<size_t>(random_.below(5000))
                                  : message.bytes / 2;
        if (receive.way == ReceiveWay::kSendrecv)
            continue;
        message.way = message.position < receive.position ? random_.pick(kStartedSend) : random_.pick(kAnySend);
        receive.way = message.position > receive.position ? random_.pick(kStartedReceive) : random_.pick(kAnyReceive);
    }
}

// At a few positions of each rank, the last of them at the end of the capture.
void CaptureMaker::add_completions(Capture& capture) {
    constexpr int kPoints = 3, kWays = 8;
    std::vector<std::vector<Completion>> of_rank(static_cast<size_t>(room_.ranks));
    for (int rank = 0; rank < room_.ranks; rank++)
        for (int point = 0; point < kPoints; point++)
            of_rank[static_cast<size_t>(rank)].push_back(
                {rank,
                 point == 0 ? capture.end : capture.begin + 1 + random_.below(capture.end - capture.begin),
                 static_cast<CompleteWay>(random_.below(kWays)),
                 random_.pick(capture.domains),
                 {}});
    const auto put = [&](int rank, int earliest, Started started) {
        std::vector<Completion>& points = of_rank[static_cast<size_t>(rank)];
        Completion& at = points[static_cast<size_t>(random_.below(kPoints))];
        (at.position >= earliest ? at : points[0]).requests.push_back(started);
    };
    for (size_t i = 0; i < capture.receives.size(); i++) {
        const Receive& receive = capture.receives[i];
        const Message& message = capture.messages[static_cast<size_t>(receive.message)];
        const int earliest = std::max(message.position, receive.position);
        if (has_request(message.way) && !message.refused)
            put(message.source, earliest, {true, receive.message});
        if (has_request(receive.way) && !message.refused)
            put(receive.rank, earliest, {false, static_cast<int>(i)});
    }
    for (std::vector<Completion>& points : of_rank)
        for (Completion& completion : points) {
            random_.shuffle(completion.requests);
            if (!completion.requests.empty())
                capture.completions.push_back(std::move(completion));
        }
}

// `positions` in random order, each to be used once.
void CaptureMaker::fill(Capture& capture, std::vector<int> positions, size_t first_tag) {
    const auto tag = [&] { return room_.tags[first_tag + static_cast<size_t>(random_.below(kMostTags - 1))]; };
    const auto position = [&] {
        const int given = positions.back();
        positions.pop_back();
        return given;
    };
    for (int calls = all_ && room_.threads == 1 ? random_.below(3) : 0; calls > 0 && !positions.empty(); calls--)
        add_collective(capture, position());
    for (int rings = random_.below(3); rings > 0 && !positions.empty(); rings--)
        add_ring(capture, room_.tags[first_tag + kMostTags - 1], position());
    while (positions.size() >= 2) {
        const int source = random_.below(room_.ranks), dest = random_.below(room_.ranks);
        const int number = tag(), first = position();
        const int second = random_.chance(40) && source != dest ? first : position();
        add_message(capture, source, dest, number, first);
        add_receive(capture, dest, source, number, second);
    }
    choose_ways(capture);
    add_completions(capture);
}

void CaptureMaker::make_window(size_t first, size_t count) {
    const size_t captures = random_.chance(30) ? 2 : 1;
    std::vector<int> positions(line_.begin() + static_cast<ptrdiff_t>(first),
                               line_.begin() + static_cast<ptrdiff_t>(first + count));
    std::vector<int> streams;
    for (int domain = 1; domain < kDomains; domain++)
        streams.push_back(domain);
    random_.shuffle(streams);
    const std::vector<int> inner(positions.begin() + static_cast<ptrdiff_t>(captures),
                                 positions.end() - static_cast<ptrdiff_t>(captures));
    for (size_t i = 0; i < captures; i++) {
        Capture& capture = made_.emplace_back();
        capture.begin = positions[i];
        capture.end = positions[count - 1 - i];
        capture.domains = {streams[i]};
        if (captures == 1 && random_.chance(40))
            capture.domains.push_back(streams[1]);
        std::vector<int> share;
        for (size_t each = i; each < inner.size(); each += captures)
            share.push_back(inner[each]);
        random_.shuffle(share);
        fill(capture, std::move(share), i * kMostTags);
    }
}

// A stream that is not captured at the position.
int CaptureMaker::free_domain(int position) {
    std::vector<int> free;
    for (int domain = 1; domain < kDomains; domain++)
        if (std::none_of(made_.begin(), made_.end(), [&](const Capture& capture) {
                return capture.begin <= position && position <= capture.end &&
                       std::count(capture.domains.begin(), capture.domains.end(), domain) != 0;
            }))
            free.push_back(domain);
    return random_.pick(free);
}

void CaptureMaker::add_runs() {
    for (Capture& capture : made_) {
        if (room_.threads > 1)
            capture.gather_tag = room_.gather_tag;
        std::vector<int> after; // positions behind the capture that nothing has
        for (const int position : line_)
            if (position > capture.end)
                after.push_back(position);
        random_.shuffle(after);
        after.resize(std::min(after.size(), static_cast<size_t>(random_.below(kMostBursts + 1))));
        std::sort(after.begin(), after.end());
        for (const int position : after) {
            const int runs = 1 + random_.below(kMostRuns);
            for (int run = 0; run < runs; run++) {
                Launch& launch = capture.launches.emplace_back(Launch{position, run == 0, {}});
                for (int rank = 0; rank < room_.ranks; rank++)
                    launch.domains.push_back(free_domain(position));
            }
            line_.erase(std::find(line_.begin(), line_.end(), position));
        }
        const int last = after.empty() ? capture.end : after.back();
        for (int rank = 0; rank < room_.ranks; rank++)
            capture.destroys.push_back(last + 1 + random_.below(std::max(1, room_.end - last)));
    }
}

std::vector<Capture> CaptureMaker::make() {
    size_t next = static_cast<size_t>(random_.below(static_cast<int>(line_.size() / 3)));
    std::vector<std::pair<size_t, size_t>> windows;
    for (int left = 1 + random_.below(kMostWindows); left > 0; left--) {
        const size_t count = 5 + static_cast<size_t>(random_.below(8 * room_.ranks));
        if (next + count > line_.size())
            break;
        windows.emplace_back(next, count);
        next += count + static_cast<size_t>(random_.below(30));
    }
    for (const auto& [first, count] : windows)
        make_window(first, count);
    for (auto window = windows.rbegin(); window != windows.rend(); ++window)
        line_.erase(line_.begin() + static_cast<ptrdiff_t>(window->first),
                    line_.begin() + static_cast<ptrdiff_t>(window->first + window->second));
    add_runs();
    return std::move(made_);
}

} // namespace

void add_captures(Part& part, const Room& room, const Capturable& capturable, uint64_t seed) {
    Random random(seed);
    part.captures = CaptureMaker(random, room, capturable).make();
    // The same for both halves of a sendrecv: by position and domain.
    const auto leave = [&](int position, int& domain) {
        std::vector<bool> captured(kDomains, false);
        for (const Capture& capture : part.captures)
            for (const int stream : capture.domains)
                if (capture.begin <= position && position <= capture.end)
                    captured[static_cast<size_t>(stream)] = true;
        if (captured[static_cast<size_t>(domain)])
            domain = position % 2 == 0
                         ? 0
                         : static_cast<int>(std::find(captured.begin() + 1, captured.end(), false) - captured.begin());
    };
    for (Message& message : part.messages)
        leave(message.position, message.domain);
    for (Receive& receive : part.receives)
        leave(receive.position, receive.domain);
    for (Completion& completion : part.completions)
        leave(completion.position, completion.domain);
}

} // namespace gpurun::stress
