#include "hang_table.hpp"

#include "base/collectives.hpp"
#include "base/format.hpp"
#include "deadlock.hpp"
#include "remarks.hpp"
#include "text_table.hpp"
#include "wait_text.hpp"

#include <algorithm>
#include <span>

namespace gpurun::launcher {

namespace wait_report = platform::wait_report;
using wait_report::Entry;
using wait_report::What;
using Presence = RankReport::Presence;

namespace {

constexpr size_t kMostRemarks = 8;
constexpr size_t kMostRows = 6; // of one kind, of a rank: the others are counted

using Row = std::vector<std::string>;

class Table {
  public:
    Table(const WaitReports& ranks, int64_t now_ns) : ranks_(ranks), now_ns_(now_ns) {
        for (const RankReport& rank : ranks)
            with_threads_ = with_threads_ || rank.threads.size() > 1;
        rows_.push_back(
            {"rank", "call", "waited", "does", "peer", "tag", "communicator", "bytes", "path", "waits for"});
    }

    std::string text() {
        for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
            add(rank, ranks_[rank]);
        drop_empty_columns(rows_);
        return format_table(rows_);
    }

  private:
    void add_remark(uint32_t rank, const std::string& call, const std::string& time, const std::string& text) {
        rows_.push_back({std::to_string(rank), call, time, "-", "-", "-", "-", "-", "-", text});
    }

    void add_message(uint32_t rank, const std::string& call, const std::string& time, const Entry& entry,
                     const std::string& text) {
        const EntryWords words = words_of(entry);
        rows_.push_back({std::to_string(rank), call, time, words.does, words.peer, words.tag, words.communicator,
                         words.bytes, words.path, text});
    }

    static std::span<const Entry> shown(const std::vector<Entry>& entries) {
        return std::span(entries).first(std::min(entries.size(), kMostRows));
    }

    // "and 37 more"
    void add_rest(uint32_t rank, size_t number, size_t shown, const char* of_what) {
        if (number > shown)
            add_remark(rank, "", "", base::format("and {} more{}", number - shown, of_what));
    }

    void add(uint32_t index, const ThreadReport& thread) {
        std::string call = thread.call.empty() ? "-" : thread.call;
        if (thread.awaited.size() > 1)
            call += base::format(" ({} of {})", thread.any ? "any" : "all", thread.number);
        if (with_threads_)
            call += base::format(" [{}]", thread.id);
        std::string time = format_time(thread.since_ns, now_ns_);
        if (!thread.waits())
            add_remark(index, call, time, thread.call.empty() ? "in no call" : words_for_no_message(thread));
        for (const Entry& entry : shown(thread.awaited)) {
            add_message(index, call, time, entry, cause(entry, now_ns_));
            call = time = "";
        }
        add_rest(index, thread.number, shown(thread.awaited).size(), "");
    }

    void add_answer(uint32_t index, const RankReport& rank) {
        if (rank.end.phase == wait_report::Phase::kStarting) {
            add_remark(index, "gpurun_init", "-", "opens the devices of other ranks");
            return;
        }
        if (rank.end.phase == wait_report::Phase::kBusy)
            add_remark(index, "-", "-", "only calls are known: a thread in a long call holds its lock");
        const bool all_idle = std::all_of(rank.threads.begin(), rank.threads.end(), [](const ThreadReport& thread) {
            return thread.call.empty() && !thread.waits();
        });
        if (all_idle)
            add_remark(index, "-", "-", base::format("not in a gpurun call; its process {}", rank.system));
        for (const ThreadReport& thread : rank.threads)
            if (!thread.call.empty() || thread.waits())
                add(index, thread);
        if (rank.end.threads > rank.threads.size())
            add_rest(index, rank.end.threads, rank.threads.size(), " threads");
        for (const Entry& entry : shown(rank.held))
            add_message(index, base::format("stream {:#x}", entry.bytes), "-", without_message(entry),
                        base::format("rank {}'s stream: {}", entry.peer, describe_edge(entry)));
        add_rest(index, rank.end.held, shown(rank.held).size(), " fence slots that streams wait for");
        for (const Entry& entry : shown(rank.graphs))
            add_message(index, "a graph", format_time(entry.since_ns, now_ns_), entry, cause(entry, now_ns_));
        add_rest(index, rank.end.graphs, shown(rank.graphs).size(), " messages of graphs that wait");
        for (const Entry& entry : shown(rank.unawaited))
            add_message(index, "-", "-", entry, cause(entry, now_ns_) + "; no call waits for this");
        add_rest(index, rank.end.unawaited, shown(rank.unawaited).size(), " that no call waits for");
        for (const Entry& entry : shown(rank.unexpected))
            add_message(index, "-", "-", entry,
                        entry.has(wait_report::kCollective)
                            ? base::format("arrived; this rank has not called its {}", base::collective_name(entry.tag))
                            : "arrived; no matching receive posted");
        add_rest(index, rank.end.unexpected, shown(rank.unexpected).size(), " unexpected messages");
        if (rank.end.phase != wait_report::Phase::kBusy && (rank.end.flags & wait_report::kLookedAll) == 0)
            add_remark(index, "", "", "and more messages, which it had no time to list");
    }

    // Of a stream only its peer is known.
    static Entry without_message(Entry entry) {
        entry.what = What::kRank;
        return entry;
    }

    void add(uint32_t index, const RankReport& rank) {
        switch (rank.presence) {
        case Presence::kNoGpurun:
            add_remark(index, "-", "-", base::format("no gpurun_init() yet, or not a gpurun program; {}", rank.system));
            break;
        case Presence::kJoining:
            add_remark(index, "gpurun_init", format_time(rank.since_ns, now_ns_),
                       base::format("opens its device; {}", rank.system));
            break;
        case Presence::kReady: add_remark(index, "gpurun_init", format_time(rank.since_ns, now_ns_), missing()); break;
        case Presence::kNoAnswer: add_remark(index, "-", "-", base::format("does not answer; {}", rank.system)); break;
        case Presence::kFinalized:
            add_remark(index, "-", "-", base::format("has returned from gpurun_finalize(); {}", rank.system));
            break;
        case Presence::kEnded: add_remark(index, "-", "-", "has ended"); break;
        case Presence::kAnswered: add_answer(index, rank); break;
        }
    }

    // In gpurun_init().
    std::string missing() const {
        std::vector<uint32_t> late;
        for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
            if (ranks_[rank].presence == Presence::kNoGpurun || ranks_[rank].presence == Presence::kJoining)
                late.push_back(rank);
        if (late.empty())
            return "gpurun to go on: all other ranks have called gpurun_init() or ended";
        return base::format("rank{} {} to call gpurun_init()", late.size() == 1 ? "" : "s", format_ranks(late));
    }

    const WaitReports& ranks_;
    int64_t now_ns_;
    bool with_threads_ = false;
    std::vector<Row> rows_;
};

std::string describe(const Deadlock& deadlock) {
    std::string text = "deadlock: ";
    for (const WaitsFor& each : deadlock.cycle) {
        text += &each == deadlock.cycle.data() ? "" : ", ";
        text += base::format("rank {} waits for {} ({})", each.rank,
                             each.rank == each.peer ? "itself" : std::to_string(each.peer),
                             format_wait(each.call, each.entry));
    }
    const bool one = deadlock.followers.size() == 1;
    if (!deadlock.followers.empty())
        text += base::format("; {} {} {} for these", one ? "rank" : "ranks", format_ranks(deadlock.followers),
                             one ? "waits" : "wait");
    return text;
}

} // namespace

std::string format_hangs(const WaitReports& ranks, int64_t now_ns, const std::string& why) {
    std::string text = base::format("what each rank waits for ({}):\n{}", why, Table(ranks, now_ns).text());
    std::vector<std::string> said;
    for (const Deadlock& deadlock : find_deadlocks(ranks))
        said.push_back(describe(deadlock));
    for (std::string& remark : find_remarks(ranks))
        said.push_back(std::move(remark));
    if (said.size() > kMostRemarks) {
        const size_t more = said.size() - kMostRemarks;
        said.resize(kMostRemarks);
        said.push_back(base::format("and {} more findings", more));
    }
    for (const std::string& sentence : said)
        text += sentence + '\n';
    text.pop_back();
    return text;
}

} // namespace gpurun::launcher
