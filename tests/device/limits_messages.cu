// Messages of two kernels, one that puts and one that takes: in a stream, where the host launches each, and in graphs,
// where it launches none; and of kernels that run all the while, which nothing launches at all. Each rank puts what it
// has taken, so that a round trip is one chain.
//
// In a stream, or a graph, the leader puts and takes in turns, the other takes and puts: whatever a kernel waits for is
// launched by a host that waits for nothing.
#include "limits_kernels.cuh"

#include <deque>

namespace limits {

namespace {

// ---- no launches ------------------------------------------------------------------------------------------------

struct Talk {
    unsigned char* data;
    unsigned char* own;
    unsigned char* theirs;
    uint64_t* over;
    uint64_t* took_ns;
    uint32_t mark; // of the first round
    uint32_t first_rounds, rounds;
    uint32_t leads;
};

// A thread moves 8 bytes; a message has come when all of it is there for all threads.
__global__ void __launch_bounds__(kMostThreads) converse(const Talk talk) {
    const uint64_t at = uint64_t{8} * threadIdx.x;
    uint64_t began = 0;
    for (uint32_t round = 0; round < talk.first_rounds + talk.rounds; ++round) {
        const uint32_t mark = talk.mark + round;
        const uint64_t place = mark % 2 * kPlaceBytes + 2 * at;
        if (round == talk.first_rounds)
            began = global_ns();
        if (talk.leads != 0)
            store_word(talk.theirs + place, eight_bytes(talk.data, at), mark);
        MarkedWord word = {};
        const bool came = await(talk.over, [&] {
            word = load_word(talk.own + place);
            return word.low_mark == mark && word.high_mark == mark;
        });
        eight_bytes(talk.data, at) = word.low | static_cast<uint64_t>(word.high) << 32;
        if (__syncthreads_or(came ? 0 : 1) != 0)
            return;
        if (talk.leads == 0)
            store_word(talk.theirs + place, eight_bytes(talk.data, at), mark);
    }
    if (threadIdx.x == 0)
        store_host(talk.took_ns, global_ns() - began);
}

class Conversation {
  public:
    explicit Conversation(Pair& pair) : pair_(pair), arena_(pair) {
        MUST(cudaMallocHost(&took_ns_, sizeof(*took_ns_)));
    }
    ~Conversation() { cudaFreeHost(took_ns_); }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    Samples measure(size_t bytes) {
        constexpr uint32_t kFirst = 50, kRounds = 500;
        constexpr int kConversations = 10;
        const Kernel talks = kernel(converse, 1, static_cast<unsigned>(bytes / 8));
        Samples samples;
        arena_.begin();
        for (int i = 0; i < kConversations; i++) {
            launch(pair_, talks, stream_,
                   Talk{arena_.data(), arena_.mailbox(0), arena_.their_mailbox(0), pair_.shared().over.address(),
                        took_ns_, mark_, kFirst, kRounds, pair_.leads() ? 1u : 0u});
            mark_ += kFirst + kRounds;
            pair_.finish(stream_);
            samples.push_back(static_cast<double>(*took_ns_) / (2e3 * kRounds));
        }
        arena_.check(bytes);
        return samples;
    }

  private:
    Pair& pair_;
    Arena arena_;
    Stream stream_;
    uint64_t* took_ns_ = nullptr;
    uint32_t mark_ = 1;
};

// ---- in a stream ------------------------------------------------------------------------------------------------

class InStream {
  public:
    explicit InStream(Pair& pair) : pair_(pair), arena_(pair) {}

    Samples measure(size_t bytes, unsigned grid, unsigned threads, bool early) {
        constexpr int kWindows = 20, kTrips = 100; // two launches each
        const Kernel puts = kernel(put<1>, grid, threads, early);
        const Kernel takes = kernel(take<1>, grid, threads, early);
        Samples samples;
        arena_.begin();
        for (int window = 0; window <= kWindows; window++) {
            pair_.meet();
            const double begin = now_seconds();
            for (int i = 0; i < kTrips; i++) {
                ++mark_;
                if (pair_.leads())
                    launch(pair_, puts, stream_, mail(arena_.their_mailbox(0), bytes));
                launch(pair_, takes, stream_, mail(arena_.mailbox(0), bytes));
                if (!pair_.leads())
                    launch(pair_, puts, stream_, mail(arena_.their_mailbox(0), bytes));
            }
            pair_.finish(stream_);
            if (window > 0)
                samples.push_back((now_seconds() - begin) / (2 * kTrips) * 1e6);
        }
        arena_.check(bytes);
        return samples;
    }

  private:
    Mail mail(unsigned char* mailbox, size_t bytes) const {
        Mail made{};
        made.data = arena_.data();
        made.mailbox = mailbox;
        made.over = pair_.shared().over.address();
        made.bytes = bytes;
        made.mark = mark_;
        return made;
    }

    Pair& pair_;
    Arena arena_;
    Stream stream_;
    uint32_t mark_ = 0;
};

// ---- in a graph -------------------------------------------------------------------------------------------------

constexpr uint64_t kLineBytes = 120;
constexpr uint64_t kLineThreads = 8;

__device__ void store_pair(unsigned char* where, uint64_t low, uint64_t high) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(where), "l"(low), "l"(high) : "memory");
}

__device__ void load_pair(const unsigned char* where, uint64_t& low, uint64_t& high) {
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(where) : "memory");
}

// Which part of which line a thread has. The last thread of a line carries 8 bytes and the mark.
struct LinePart {
    __device__ explicit LinePart(uint64_t message_bytes) {
        const uint64_t line = first_index() / kLineThreads, part = first_index() % kLineThreads;
        place = 16 * first_index();
        from = kLineBytes * line + 16 * part;
        there = kLineBytes * line < message_bytes;
        marks = part == kLineThreads - 1;
        has_low = from < message_bytes;
        has_high = !marks && from + 8 < message_bytes;
    }
    uint64_t place, from;
    bool there, marks, has_low, has_high;
};

__global__ void __launch_bounds__(kMostThreads) put_lines(const Mail mail) {
    const uint64_t mark = mark_of(mail);
    const LinePart part(mail.bytes);
    let_next_start();
    await_predecessors();
    const uint64_t low = part.has_low ? eight_bytes(mail.data, part.from) : 0;
    const uint64_t high = part.marks ? mark : part.has_high ? eight_bytes(mail.data, part.from + 8) : 0;
    __syncwarp(); // a line is stored at once
    if (part.there)
        store_pair(place_of(mail, mark) + part.place, low, high);
    end_mail(mail, mark);
}

// `kAgain`: what a warp has read beside a mark that came is read again behind it, as NCCL does.
template <bool kAgain>
__global__ void __launch_bounds__(kMostThreads) take_lines(const Mail mail) {
    const uint64_t mark = mark_of(mail);
    const LinePart part(mail.bytes);
    const unsigned char* const where = place_of(mail, mark) + part.place;
    uint64_t low = 0, high = 0;
    const bool came = await_by_warp(mail.over, [&] {
        if (part.there)
            load_pair(where, low, high);
        return __any_sync(kWholeWarp, part.there && part.marks && high != mark) == 0;
    });
    if (kAgain && part.there)
        load_pair(where, low, high);
    let_next_start();
    await_predecessors();
    if (came && part.has_low)
        eight_bytes(mail.data, part.from) = low;
    if (came && part.has_high)
        eight_bytes(mail.data, part.from + 8) = high;
    end_mail(mail, mark);
}

struct Shape {
    Kernel put, take;
    size_t bytes;
    bool clears = false;
};

// A graph of messages, each with a mailbox and with turns of its own, so that no kernel of a run reads what another of
// the same run has written without waiting for it.
class InGraph {
  public:
    InGraph(Pair& pair, const Shape& shape) : pair_(pair), shape_(shape), arena_(pair) {
        MUST(cudaMalloc(&turns_, 2 * kRoundTrips * kTurns * sizeof(uint64_t)));
        MUST(cudaMemsetAsync(turns_, 0, 2 * kRoundTrips * kTurns * sizeof(uint64_t), stream_));
        graph_.emplace(stream_, [&] { enqueue(); });
        pair_.finish(stream_);
    }
    ~InGraph() { cudaFree(turns_); }
    InGraph(const InGraph&) = delete;
    InGraph& operator=(const InGraph&) = delete;

    Samples measure() {
        constexpr int kWindows = 20, kRuns = 5; // of 64 kernels each
        Samples samples;
        arena_.begin();
        for (int window = 0; window <= kWindows; window++) {
            pair_.meet();
            const double begin = now_seconds();
            for (int run = 0; run < kRuns; run++)
                graph_->launch(stream_);
            pair_.finish(stream_);
            if (window > 0)
                samples.push_back((now_seconds() - begin) / (2.0 * kRoundTrips * kRuns) * 1e6);
        }
        arena_.check(shape_.bytes);
        return samples;
    }

  private:
    static constexpr unsigned kTurns = 8; // a block's is one

    void enqueue() {
        for (unsigned i = 0; i < kRoundTrips; i++) {
            const Mail out = mail(arena_.their_mailbox(i), 2 * i), in = mail(arena_.mailbox(i), 2 * i + 1);
            if (pair_.leads())
                launch(pair_, shape_.put, stream_, out);
            launch(pair_, shape_.take, stream_, in);
            if (!pair_.leads())
                launch(pair_, shape_.put, stream_, out);
        }
    }
    Mail mail(unsigned char* mailbox, unsigned number) const {
        Mail made{};
        made.data = arena_.data();
        made.mailbox = mailbox;
        made.turns = shape_.clears ? nullptr : turns_ + number * kTurns;
        made.over = pair_.shared().over.address();
        made.bytes = shape_.bytes;
        made.mark = 1;
        made.clears = shape_.clears ? 1 : 0;
        return made;
    }

    Pair& pair_;
    Shape shape_;
    Arena arena_;
    Stream stream_;
    uint64_t* turns_ = nullptr;
    std::optional<Graph> graph_;
};

template <unsigned kWords>
Shape words_of(size_t bytes, unsigned grid, bool early = true) {
    const auto threads = static_cast<unsigned>((bytes / 8 / grid / kWords + 31) / 32 * 32);
    return {kernel(put<kWords>, grid, threads, early), kernel(take<kWords>, grid, threads, early), bytes};
}

template <bool kAgain>
Shape lines_of(size_t bytes, unsigned grid) {
    const size_t threads = (bytes + kLineBytes - 1) / kLineBytes * kLineThreads;
    const auto of_block = static_cast<unsigned>((threads + grid - 1) / grid + 31) / 32 * 32;
    return {kernel(put_lines, grid, of_block, true), kernel(take_lines<kAgain>, grid, of_block, true), bytes};
}

void in_graphs(Pair& pair, Report& report) {
    constexpr const char* kGpurun = "a word a thread, blocks of 512";
    std::deque<InGraph> made;
    std::vector<Case> cases;
    std::vector<Shape> shapes;
    const auto add = [&](const char* title, const Shape& shape, const char* gpurun = "no") {
        const size_t number = cases.size();
        shapes.push_back(shape);
        cases.push_back({title, gpurun, [&, number] { return made[number].measure(); }, "us", 0, true});
    };
    Shape cleared = words_of<1>(8, 1);
    cleared.clears = true;
    add("4 graph, 8 B", words_of<1>(8, 1), "the same");
    add("4 graph, 8 B, cleared marks, no number of the run", cleared);
    add("4 graph, 8 B, launched late", words_of<1>(8, 1, false));
    add("4 graph, 4 KiB, 1 block of 512", words_of<1>(4096, 1), kGpurun);
    add("4 graph, 4 KiB, 1 block of 256, two words each", words_of<2>(4096, 1));
    add("4 graph, 4 KiB, 2 blocks of 256", words_of<1>(4096, 2));
    add("4 graph, 8 KiB, 2 blocks of 512", words_of<1>(8192, 2), kGpurun);
    add("4 graph, 8 KiB, 1 block of 512, two words each", words_of<2>(8192, 1));
    add("4 graph, 8 KiB, 1 block of 1024", words_of<1>(8192, 1));
    add("4 graph, 8 KiB, 4 blocks of 256", words_of<1>(8192, 4));
    add("4 graph, 8 KiB, lines of 128 B, 1 block", lines_of<true>(8192, 1));
    add("4 graph, 8 KiB, lines of 128 B, 3 blocks", lines_of<true>(8192, 3));
    add("4 graph, 8 KiB, lines of 128 B read once, 1 block", lines_of<false>(8192, 1));
    if (!report.selects(cases))
        return;
    for (const Shape& each : shapes)
        made.emplace_back(pair, each);
    report.take_turns(cases);
    while (!made.empty()) // both give theirs back in the same order
        made.pop_back();
}

} // namespace

void kernel_messages(Pair& pair, Report& report) {
    {
        std::optional<Conversation> on;
        std::vector<Case> cases;
        for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{8192}})
            cases.push_back({"0 kernels that run all the while, " + std::to_string(bytes) + " B",
                             "no: a message is a kernel", [&, bytes] { return on->measure(bytes); }, "us", 0, true});
        if (report.selects(cases)) {
            on.emplace(pair);
            report.take_turns(cases);
        }
    }
    {
        std::optional<InStream> on;
        const std::vector<Case> cases = {
            {"3 stream order, 8 B", "before kernels were early", [&] { return on->measure(8, 1, 32, false); }, "us", 0,
             true},
            {"3 stream order, 8 B, early", "the same", [&] { return on->measure(8, 1, 32, true); }, "us", 0, true},
            {"3 stream order, 8 KiB", "before kernels were early", [&] { return on->measure(8192, 2, 512, false); },
             "us", 0, true},
            {"3 stream order, 8 KiB, early", "the same", [&] { return on->measure(8192, 2, 512, true); }, "us", 0,
             true},
            {"3 stream order, 8 KiB, early, 1 block of 1024", "2 blocks of 512",
             [&] { return on->measure(8192, 1, 1024, true); }, "us", 0, true},
        };
        if (report.selects(cases)) {
            on.emplace(pair);
            report.take_turns(cases);
        }
    }
    in_graphs(pair, report);
}

} // namespace limits
