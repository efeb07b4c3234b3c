#include "trace_writer.hpp"

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "device_times.hpp"
#include "trace_rows.hpp"
#include "trace_text.hpp"

#include <algorithm>
#include <cstring>
#include <gpurun/version.h>
#include <iterator>
#include <optional>
#include <set>

namespace gpurun::launcher {

using base::Result;
using platform::TraceBuffer;
using platform::TraceEvent;
using platform::TraceHeader;
using platform::TraceKind;
namespace flags = platform::trace_flags;

namespace {

// Rows of messages have numbers above those of threads.
constexpr uint32_t kOutRows = 100'000;
constexpr uint32_t kInRows = 200'000;
constexpr uint32_t kDeviceOutRows = 300'000;
constexpr uint32_t kDeviceInRows = 400'000;

// What stands in quotes in JSON, whatever it is. Bytes that are no ASCII become the characters with their numbers.
std::string in_quotes(std::string_view text) {
    std::string result = "\"";
    for (const char character : text) {
        const auto byte = static_cast<unsigned char>(character);
        if (character == '"' || character == '\\')
            result += {'\\', character};
        else if (byte < ' ' || byte > '~')
            result += base::format("\\u{:04x}", byte);
        else
            result += character;
    }
    return result + '"';
}

template <size_t size, size_t count>
std::vector<std::string> each_in_quotes(const std::array<std::array<char, size>, count>& texts) {
    std::vector<std::string> result;
    for (const auto& text : texts)
        result.push_back(in_quotes({text.data(), strnlen(text.data(), size)}));
    return result;
}

// An event as it was when its rank ended, with what makes no sense put right.
struct Event {
    explicit Event(const TraceEvent& from)
        : how(from.how.load(std::memory_order_relaxed)), call(from.call), thread(from.thread), tag(from.tag),
          peer(from.peer), context(from.context), bytes(from.bytes), ordinal(from.ordinal), begin_ns(from.begin_ns),
          posted_ns(begin_ns + from.posted_after_ns.load(std::memory_order_relaxed)),
          matched_ns(from.matched_ns.load(std::memory_order_relaxed)),
          end_ns(from.end_ns.load(std::memory_order_relaxed)) {}

    bool has(uint32_t flag) const { return (how & flag) != 0; }
    size_t path() const { return how & 0xff; }
    size_t reason() const { return how >> 8 & 0xff; }
    bool matched() const { return matched_ns != 0; }

    // False if it is nonsense.
    bool fit(int64_t origin_ns, int64_t last_ns) {
        if (begin_ns < origin_ns || begin_ns > last_ns)
            return false;
        ended = end_ns != 0;
        end_ns = std::clamp(ended ? end_ns : last_ns, begin_ns, last_ns);
        end_ns = std::max(end_ns, begin_ns + 1); // what takes no time cannot be seen, nor hold the end of an arrow
        posted_ns = std::clamp(posted_ns, begin_ns, end_ns);
        if (matched())
            matched_ns = std::clamp(matched_ns, begin_ns, end_ns);
        return true;
    }

    uint32_t how;
    uint8_t call;
    uint16_t thread;
    int32_t tag;
    int32_t peer;
    uint32_t context;
    uint64_t bytes;
    uint64_t ordinal;
    int64_t begin_ns;
    int64_t posted_ns;
    int64_t matched_ns;
    int64_t end_ns;
    bool ended = false;
};

// Both ends of an arrow have the same number: of the pair, and of the message in its order.
std::optional<uint64_t> arrow_number(size_t rank, size_t ranks, TraceKind kind, const Event& event) {
    const auto peer = static_cast<size_t>(event.peer);
    constexpr uint64_t kMostOrdinals = uint64_t{1} << 36; // so that the whole is a number that a double can hold
    if (!event.has(flags::kHasOrdinal) || peer >= ranks || event.ordinal >= kMostOrdinals)
        return std::nullopt;
    const uint64_t pair = kind == TraceKind::kSend ? rank * ranks + peer : peer * ranks + rank;
    return (pair * 2 + (event.has(flags::kCaptured) ? 1 : 0)) * kMostOrdinals + event.ordinal;
}

TraceKind kind_of(const TraceEvent& event) {
    return static_cast<TraceKind>(event.kind.load(std::memory_order_relaxed));
}

// A message, by the number of its arrow, and which run of it.
using MovedRun = std::pair<uint64_t, uint64_t>;

// What the devices of all ranks have moved.
struct AllMoved {
    std::vector<std::vector<MovedMessage>> by_rank;
    std::vector<uint64_t> on_both;      // numbers of arrows, in order: both sides have said when
    std::vector<MovedRun> runs_on_both; // of messages of graphs, in order, too

    explicit AllMoved(std::span<const TracedRank> ranks) {
        std::vector<uint64_t> messages[2]; // sent, received
        std::vector<MovedRun> runs[2];
        for (size_t rank = 0; rank < ranks.size(); ++rank) {
            const TraceBuffer& buffer = *ranks[rank].buffer;
            by_rank.push_back(moved_messages(buffer));
            for (const MovedMessage& each : by_rank.back()) {
                const TraceEvent* event = buffer.event(each.event);
                if (event == nullptr || each.done_ns == 0)
                    continue;
                const auto number = arrow_number(rank, ranks.size(), kind_of(*event), Event(*event));
                const size_t side = kind_of(*event) == TraceKind::kSend ? 0 : 1;
                if (number && each.run)
                    runs[side].emplace_back(*number, *each.run);
                else if (number)
                    messages[side].push_back(*number);
            }
        }
        intersect(messages, on_both);
        intersect(runs, runs_on_both);
    }

    // Of the arrow between the two sides of a run.
    std::optional<uint64_t> number_of(const MovedRun& run) const {
        const auto found = std::lower_bound(runs_on_both.begin(), runs_on_both.end(), run);
        return found == runs_on_both.end() || *found != run
                   ? std::nullopt
                   : std::optional(static_cast<uint64_t>(found - runs_on_both.begin()));
    }

  private:
    template <typename Each>
    static void intersect(std::vector<Each> (&sides)[2], std::vector<Each>& both) {
        for (std::vector<Each>& side : sides)
            std::sort(side.begin(), side.end());
        std::set_intersection(sides[0].begin(), sides[0].end(), sides[1].begin(), sides[1].end(),
                              std::back_inserter(both));
    }
};

class RankWriter {
  public:
    RankWriter(TraceText& text, const TracedRank& from, size_t rank, const AllMoved& moved, int64_t origin_ns,
               bool& first)
        : text_(text), from_(from), rank_(rank), moved_(moved), origin_ns_(origin_ns), first_(first),
          paths_(each_in_quotes(header().paths)), reasons_(each_in_quotes(header().reasons)),
          calls_(each_in_quotes(header().calls)) {}

    // Up to `end` bytes of the text, of which events and times of devices have parts as they have numbers.
    Result<void> write(uint64_t end) {
        name_process();
        const uint64_t recorded_events = from_.buffer->recorded();
        const uint64_t moved = moved_.by_rank[rank_].size();
        const double share = static_cast<double>(recorded_events) / static_cast<double>(recorded_events + moved + 1);
        const uint64_t room = end - std::min(end, text_.bytes());
        const uint64_t end_of_events = text_.bytes() + static_cast<uint64_t>(static_cast<double>(room) * share);
        uint64_t shown = 0;
        for (; shown < recorded_events && text_.bytes() < end_of_events; ++shown) {
            const uint64_t i = shown;
            const TraceEvent* recorded = from_.buffer->event(i);
            if (recorded == nullptr)
                continue;
            Event event(*recorded);
            const TraceKind kind = kind_of(*recorded);
            if (kind != TraceKind::kThread && !event.fit(origin_ns_, from_.ended_ns))
                continue;
            ++written_;
            write(kind, event);
            GPURUN_TRY(text_.pass_on());
        }
        left_out_ = recorded_events - shown;
        for (const MovedMessage& each : moved_.by_rank[rank_]) {
            if (each.event >= shown || text_.bytes() >= end) {
                ++left_out_;
                continue;
            }
            write_moved(each);
            GPURUN_TRY(text_.pass_on());
        }
        name_rows();
        return text_.pass_on();
    }
    uint64_t written() const { return written_; }
    uint64_t left_out() const { return left_out_; }

  private:
    const TraceHeader& header() const { return from_.buffer->header(); }

    void write(TraceKind kind, const Event& event) {
        switch (kind) {
        case TraceKind::kSend: write_send(event); break;
        case TraceKind::kReceive: write_receive(event); break;
        case TraceKind::kCall: write_call(event); return;
        case TraceKind::kThread: name_thread(event); return;
        case TraceKind::kNone: return;
        }
        if (event.has(flags::kIsCall))
            write_call(call_of(event));
    }

    // ---- what stands around the events

    // One more event of the list.
    template <typename... Parts>
    void add(const Parts&... parts) {
        text_.add(first_ ? "" : ",\n", parts...);
        first_ = false;
    }

    void name_process() {
        const std::string name = in_quotes(base::format("rank {} ({}, pid {})", rank_, from_.device, from_.pid));
        add(R"({"ph":"M","pid":)", from_.process, R"(,"name":"process_name","args":{"name":)", name, "}}");
        add(R"({"ph":"M","pid":)", from_.process, R"(,"name":"process_sort_index","args":{"sort_index":)", rank_, "}}");
    }

    void name_row(uint32_t row, const std::string& name) {
        add(R"({"ph":"M","pid":)", from_.process, R"(,"tid":)", row, R"(,"name":"thread_name","args":{"name":)",
            in_quotes(name), "}}");
        add(R"({"ph":"M","pid":)", from_.process, R"(,"tid":)", row,
            R"(,"name":"thread_sort_index","args":{"sort_index":)", row, "}}");
    }

    void name_thread(const Event& event) {
        const bool main = event.ordinal == static_cast<uint64_t>(from_.pid);
        name_row(event.thread, main ? "calls of the main thread" : base::format("calls of thread {}", event.ordinal));
    }

    void name_rows() {
        const auto name = [](const char* what, size_t row) {
            return row == 0 ? std::string(what) : base::format("{} ({})", what, row + 1);
        };
        const auto name_rows = [&](const TraceRows& rows, uint32_t first, const char* what) {
            for (size_t row = 0; row < rows.count(); ++row)
                name_row(first + static_cast<uint32_t>(row), name(what, row));
        };
        name_rows(out_, kOutRows, "messages out");
        name_rows(in_, kInRows, "messages in");
        name_rows(device_out_, kDeviceOutRows, "device, messages out");
        name_rows(device_in_, kDeviceInRows, "device, messages in");
    }

    // ---- slices

    // Up to its arguments, which follow.
    void open_slice(uint32_t row, int64_t begin_ns, int64_t end_ns, const char* category) {
        add(R"({"ph":"X","pid":)", from_.process, R"(,"tid":)", row, R"(,"ts":)", Micros{begin_ns - origin_ns_},
            R"(,"dur":)", Micros{end_ns - begin_ns}, R"(,"cat":")", category, R"(","name":)");
    }

    // A part of a message's.
    void add_part(uint32_t row, int64_t begin_ns, int64_t end_ns, const char* category, const char* name) {
        if (end_ns <= begin_ns)
            return;
        open_slice(row, begin_ns, end_ns, category);
        text_.add('"', name, R"("})");
    }

    void add_arguments(const Event& event) {
        const char* const order = event.has(flags::kCaptured)   ? "graph"
                                  : event.has(flags::kOnStream) ? "stream"
                                                                : "host";
        text_.add(R"(,"args":{"peer":)", event.peer, R"(,"tag":)", event.tag, R"(,"bytes":)", event.bytes,
                  R"(,"order":")", order, '"');
        if (event.has(flags::kHasPath) && event.path() < paths_.size() && event.reason() < reasons_.size())
            text_.add(R"(,"path":)", paths_[event.path()], R"(,"why":)", reasons_[event.reason()]);
        if (is_collective(event))
            text_.add(R"(,"collective":")", base::collective_name(event.tag), '"');
        add_communicator(event.context / 2);
        if (event.has(flags::kHasOrdinal))
            text_.add(R"(,"number":)", event.ordinal);
        constexpr struct {
            uint32_t flag;
            const char* name;
        } kMarks[] = {{flags::kRequest, "request"},      {flags::kSynchronous, "synchronous"},
                      {flags::kAnySource, "any_source"}, {flags::kAnyTag, "any_tag"},
                      {flags::kTruncated, "truncated"},  {flags::kFailed, "failed"}};
        for (const auto& mark : kMarks)
            if (event.has(mark.flag))
                text_.add(R"(,")", mark.name, R"(":true)");
        if (!event.ended)
            text_.add(R"(,"unfinished":true)");
        text_.add("}}");
    }

    // Unless it is that of all ranks, or none.
    void add_communicator(uint32_t id) {
        if (id == 0 || id == header().world)
            return;
        for (const platform::TraceCommunicator& each : header().communicators)
            if (each.id.load(std::memory_order_acquire) == id && each.name[0] != '\0')
                return text_.add(R"(,"communicator":)",
                                 in_quotes({each.name.data(), strnlen(each.name.data(), each.name.size())}));
        text_.add(R"(,"communicator":)", id);
    }

    const char* category(const Event& event) const {
        if (event.context == header().copy_context)
            return "copy";
        return is_collective(event) ? "collective" : "message";
    }
    bool is_collective(const Event& event) const {
        return event.context != header().copy_context && (event.context & header().collective_contexts) != 0;
    }

    // Once it is matched. A copy in a stream's order moves when the stream comes to it, which the host does not see.
    static const char* last_part(const Event& event) {
        return event.has(flags::kCaptured) ? "capture" : event.has(flags::kEnqueuedOnly) ? "enqueue" : "moving";
    }

    void write_send(const Event& event) {
        const uint32_t row = kOutRows + static_cast<uint32_t>(out_.place(event.begin_ns, event.end_ns));
        open_slice(row, event.begin_ns, event.end_ns, category(event));
        text_.add(R"("send to )", event.peer, '"');
        add_arguments(event);
        const bool posted = event.has(flags::kHasOrdinal);
        if (event.has(flags::kHeldUp))
            add_part(row, event.begin_ns, posted ? event.posted_ns : event.end_ns, "waiting", "waiting for room");
        if (event.has(flags::kReadByPeer)) {
            add_part(row, event.posted_ns, event.end_ns, "waiting", "waiting, and being read");
        } else if (event.matched()) {
            add_part(row, event.posted_ns, event.matched_ns, "waiting", "waiting for the receiver");
            add_part(row, event.matched_ns, event.end_ns, "moving", last_part(event));
        } else if (posted && !event.ended) {
            add_part(row, event.posted_ns, event.end_ns, "waiting", "waiting for the receiver");
        }
        if (posted)
            add_arrow('s', row, std::min(event.posted_ns, event.end_ns - 1), TraceKind::kSend, event);
    }

    void write_receive(const Event& event) {
        const uint32_t row = kInRows + static_cast<uint32_t>(in_.place(event.begin_ns, event.end_ns));
        open_slice(row, event.begin_ns, event.end_ns, category(event));
        if (event.peer < 0)
            text_.add(R"("receive from any")");
        else
            text_.add(R"("receive from )", event.peer, '"');
        add_arguments(event);
        add_part(row, event.begin_ns, event.matched() ? event.matched_ns : event.end_ns, "waiting",
                 "waiting for the message");
        if (!event.matched())
            return;
        add_part(row, event.matched_ns, event.end_ns, "moving", last_part(event));
        add_arrow('f', row, std::min(event.matched_ns, event.end_ns - 1), TraceKind::kReceive, event);
    }

    void add_arrow(char end, uint32_t row, int64_t at_ns, TraceKind kind, const Event& event) {
        if (const auto number = arrow_number(rank_, moved_.by_rank.size(), kind, event))
            add_arrow(end, row, at_ns, "message", *number);
    }
    void add_arrow(char end, uint32_t row, int64_t at_ns, const char* name, uint64_t number) {
        add(R"({"ph":")", end, R"(","pid":)", from_.process, R"(,"tid":)", row, R"(,"ts":)", Micros{at_ns - origin_ns_},
            R"(,"cat":"arrow","name":")", name, R"(","id":)", number, end == 'f' ? R"(,"bp":"e")" : "", "}");
    }

    // The device's part of a message. Readings of clocks are a little off, and must not show it before its message.
    void write_moved(const MovedMessage& moved) {
        const TraceEvent* const recorded = from_.buffer->event(moved.event);
        if (recorded == nullptr)
            return;
        const TraceKind kind = kind_of(*recorded);
        Event event(*recorded);
        if ((kind != TraceKind::kSend && kind != TraceKind::kReceive) || !event.fit(origin_ns_, from_.ended_ns))
            return;
        const bool over = moved.done_ns != 0;
        const int64_t last_ns = from_.ended_ns;
        const int64_t begin_ns = std::clamp(moved.began_ns != 0 ? moved.began_ns : event.end_ns, event.begin_ns,
                                            std::max(last_ns - 1, event.begin_ns));
        const int64_t end_ns =
            std::clamp(over ? moved.done_ns : last_ns, begin_ns + 1, std::max(last_ns, begin_ns + 1));
        const int64_t moving_ns = std::clamp(moved.moving_ns != 0 ? moved.moving_ns : end_ns, begin_ns, end_ns);
        const bool out = kind == TraceKind::kSend;
        TraceRows& rows = out ? device_out_ : device_in_;
        const uint32_t row =
            (out ? kDeviceOutRows : kDeviceInRows) + static_cast<uint32_t>(rows.place(begin_ns, end_ns));
        open_slice(row, begin_ns, end_ns, category(event));
        text_.add('"', out ? "to" : "from", " ", event.peer, R"(","args":{"peer":)", event.peer, R"(,"tag":)",
                  event.tag, R"(,"bytes":)", event.bytes, R"(,"number":)", event.ordinal);
        if (moved.run)
            add_run_arguments(event, *moved.run);
        text_.add(over ? "" : R"(,"unfinished":true)", "}}");
        add_part(row, begin_ns, moving_ns, "waiting", out ? "waiting" : "waiting for the bytes");
        add_part(row, moving_ns, end_ns, "moving", "moving");
        const auto number = arrow_number(rank_, moved_.by_rank.size(), kind, event);
        if (!number)
            return;
        const int64_t arrow_ns = std::min(moving_ns, end_ns - 1);
        if (const auto run = moved.run ? moved_.number_of({*number, *moved.run}) : std::nullopt)
            add_arrow(out ? 's' : 'f', row, arrow_ns, "run", *run);
        else if (!moved.run && std::binary_search(moved_.on_both.begin(), moved_.on_both.end(), *number))
            add_arrow(out ? 's' : 'f', row, arrow_ns, "bytes", *number);
    }

    // Of a message whose other slice is that of its capture.
    void add_run_arguments(const Event& event, uint64_t run) {
        text_.add(R"(,"order":"graph","run":)", run);
        if (event.has(flags::kHasPath) && event.path() < paths_.size())
            text_.add(R"(,"path":)", paths_[event.path()]);
    }

    // What its arguments were. The bytes are the message's.
    static Event call_of(const Event& message) {
        constexpr int32_t kAny = -1; // as in gpurun.h
        Event call = message;
        call.how = message.how | flags::kHasBytes;
        if (message.has(flags::kAnySource))
            call.peer = kAny;
        if (message.has(flags::kAnyTag))
            call.tag = kAny;
        return call;
    }

    void write_call(const Event& event) {
        if (event.call >= calls_.size())
            return;
        constexpr int32_t kNone = INT32_MIN; // as in base/current_call.hpp: it has no such argument
        open_slice(event.thread, event.begin_ns, event.end_ns, "call");
        text_.add(calls_[event.call], R"(,"args":{)");
        const char* comma = "";
        const auto add_argument = [&](bool there, const char* name, auto value) {
            if (there)
                text_.add(comma, '"', name, R"(":)", value);
            comma = there ? "," : comma;
        };
        add_argument(event.peer != kNone, "peer", event.peer);
        add_argument(event.tag != kNone, "tag", event.tag);
        add_argument(event.has(flags::kHasBytes), "bytes", event.bytes);
        add_argument(!event.has(flags::kHasBytes) && event.ordinal != 0, "count", event.ordinal);
        add_argument(!event.ended, "unfinished", "true");
        text_.add("}}");
    }

    TraceText& text_;
    const TracedRank& from_;
    const size_t rank_;
    const AllMoved& moved_;
    const int64_t origin_ns_;
    bool& first_; // nothing has been written yet
    std::vector<std::string> paths_;
    std::vector<std::string> reasons_;
    std::vector<std::string> calls_;
    TraceRows out_;
    TraceRows in_;
    TraceRows device_out_;
    TraceRows device_in_;
    uint64_t written_ = 0;
    uint64_t left_out_ = 0;
};

// For the last event that still fits in part, and the end of the file.
constexpr uint64_t kAtTheEnd = 4096;

} // namespace

Result<TraceSummary> write_trace(std::span<const TracedRank> ranks, int64_t origin_ns, uint64_t most_bytes,
                                 TraceSink sink, std::optional<int64_t> nodes_off_by_ns) {
    TraceSummary summary;
    for (const TracedRank& rank : ranks) {
        summary.lost += rank.buffer->lost();
        summary.untimed += rank.buffer->untimed();
        summary.lost_runs += rank.buffer->lost_runs();
        for (const platform::ClockReading& reading : rank.buffer->header().clocks)
            summary.clocks_off_by_ns = std::max(summary.clocks_off_by_ns, reading.error_ns);
    }
    const AllMoved moved(ranks);
    most_bytes -= std::min(most_bytes, kAtTheEnd);
    TraceText text(sink);
    text.add(R"({"displayTimeUnit":"ns","otherData":{"program":"gpurun )", GPURUN_VERSION,
             R"(","clock":"CLOCK_MONOTONIC of the machine, )",
             nodes_off_by_ns ? "to which those of other nodes were converted" : "which all ranks share",
             R"(","node_clocks_off_by_ns":)", nodes_off_by_ns.value_or(0), R"(,"lost_events":)", summary.lost,
             R"(,"without_device_times":)", summary.untimed, R"(,"lost_runs":)", summary.lost_runs,
             R"(,"device_clocks_off_by_ns":)", summary.clocks_off_by_ns, R"(},"traceEvents":[)", '\n');
    bool first = true;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
        RankWriter writer(text, ranks[rank], rank, moved, origin_ns, first);
        const uint64_t room = most_bytes - std::min(most_bytes, text.bytes());
        GPURUN_TRY(writer.write(text.bytes() + room / (ranks.size() - rank)));
        summary.events += writer.written();
        summary.left_out += writer.left_out();
    }
    text.add("\n],\"left_out_events\":", summary.left_out, "}\n");
    GPURUN_TRY(text.pass_on(0));
    return summary;
}

} // namespace gpurun::launcher
