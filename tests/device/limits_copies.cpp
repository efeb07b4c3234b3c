// Large messages: windows of copies by the engine of one GPU out of the other's memory, and copies through pinned host
// memory, which the two GPUs make one after the other, piece by piece.
//
// What a stream waits for is stored before, or by a stream of the other rank that waits only for earlier pieces: pieces
// are enqueued in their order on both sides, so that streams that share a hardware queue wait for each other in vain
// never.
#include "limits.hpp"

#include <memory>

namespace limits {

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kWindowBytes = 1024 * kMiB;
constexpr int kWindows = 5; // of a round; one more comes first
constexpr unsigned kMostStreams = 16;

struct Window {
    size_t piece;
    unsigned pieces;
    unsigned streams = 1;
    enum class Fence {
        kNone,
        kBoth,         // a wait before each and a signal behind it
        kSignal,       // a signal behind each
        kSignalBeside, // the same, in a stream that waits for an event behind it
    } fence = Fence::kNone;
    bool by_events = false; // from the first stream's begin to its end

    bool first_only() const { return by_events && streams == pieces; }
    double bytes() const { return static_cast<double>(piece) * (first_only() ? 1 : pieces); }
};
using Fence = Window::Fence;

// ---- between the GPUs -------------------------------------------------------------------------------------------

// The leader pulls, the other's GPU does nothing.
class Pulls {
  public:
    explicit Pulls(Pair& pair)
        : pair_(pair), source_(pair, kWindowBytes), begin_(cudaEventDefault), end_(cudaEventDefault) {
        MUST(cudaMalloc(&landing_, kWindowBytes));
        MUST(cudaMemsetAsync(source_.own(), kContents, kWindowBytes, streams_[0]));
        pair_.finish(streams_[0]);
    }
    ~Pulls() { cudaFree(landing_); }
    Pulls(const Pulls&) = delete;
    Pulls& operator=(const Pulls&) = delete;

    Samples measure(const Window& window) {
        Samples samples;
        ++turn_;
        if (pair_.leads()) {
            MUST(cudaMemsetAsync(landing_, 0, kWindowBytes, streams_[0]));
            pair_.finish(streams_[0]);
        }
        pair_.meet();
        for (unsigned i = 0; i < kMostPieces; i++)
            pair_.shared().filled[i].store(turn_); // both store the same
        for (int i = 0; i <= kWindows; i++) {
            pair_.meet();
            const double us = pair_.leads() ? window_us(window) : 0;
            pair_.meet();
            if (i > 0)
                samples.push_back(us);
        }
        if (pair_.leads())
            check(window);
        return samples;
    }

  private:
    static constexpr unsigned char kContents = 0x5a;

    double window_us(const Window& window) {
        const double begin = now_seconds();
        if (window.by_events)
            MUST(cudaEventRecord(begin_, streams_[0]));
        for (unsigned i = 0; i < window.pieces; i++) {
            const Stream& stream = streams_[i % window.streams];
            if (window.fence == Fence::kBoth)
                pair_.await_in(stream, &pair_.shared().filled[i], turn_);
            MUST(cudaMemcpyAsync(landing_ + i * window.piece, source_.theirs() + i * window.piece, window.piece,
                                 cudaMemcpyDefault, stream));
            if (window.fence == Fence::kSignalBeside) {
                MUST(cudaEventRecord(copied_, stream));
                MUST(cudaStreamWaitEvent(beside_, copied_));
            }
            if (window.fence != Fence::kNone)
                pair_.write(window.fence == Fence::kSignalBeside ? beside_ : stream, &pair_.shared().freed[i], turn_);
        }
        if (window.by_events)
            MUST(cudaEventRecord(end_, streams_[0]));
        for (unsigned i = 0; i < window.streams; i++)
            pair_.finish(streams_[i]);
        pair_.finish(beside_);
        const double us = (now_seconds() - begin) * 1e6;
        if (!window.by_events)
            return us;
        float ms = 0;
        MUST(cudaEventElapsedTime(&ms, begin_, end_));
        return static_cast<double>(ms) * 1e3;
    }

    // The last bytes of each piece have come.
    void check(const Window& window) {
        for (unsigned i = 1; i <= window.pieces; i++) {
            unsigned char last = 0;
            MUST(cudaMemcpyAsync(&last, landing_ + i * window.piece - 1, 1, cudaMemcpyDefault, streams_[0]));
            pair_.finish(streams_[0]);
            if (last != kContents)
                pair_.fail("a copy", "did not come");
        }
    }

    Pair& pair_;
    Exported source_;
    Stream streams_[kMostStreams];
    Stream beside_;
    Event begin_, end_;
    Event copied_{cudaEventDisableTiming};
    unsigned char* landing_ = nullptr;
    uint64_t turn_ = 0;
};

const char* title_of(Fence fence) {
    switch (fence) {
    case Fence::kNone: break;
    case Fence::kBoth: return "wait and write each, ";
    case Fence::kSignal: return "write each, ";
    case Fence::kSignalBeside: return "write each beside, ";
    }
    return "";
}

std::string title_of(const Window& window) {
    return "5 " + std::to_string(window.pieces) + " x " + std::to_string(window.piece / kMiB) + " MiB, " +
           title_of(window.fence) + std::to_string(window.streams) + (window.streams == 1 ? " stream" : " streams") +
           (window.by_events ? ", by events" : "") + (window.first_only() ? ", until the first has ended" : "");
}

const char* gpurun_does(const Window& window) {
    if (window.piece < 64 * kMiB)
        return window.fence == Fence::kBoth && window.streams == 2 ? "bounce" : "no";
    if (window.fence == Fence::kNone)
        return window.streams == 1 ? "is the reference 'copy'" : "no";
    if (window.fence == Fence::kSignalBeside && window.streams == 2)
        return "requests";
    if (window.fence != Fence::kBoth)
        return "no";
    return window.streams == 1  ? "blocking receives on a stream"
           : window.streams > 4 ? "requests whose source's stream lags"
                                : "no";
}

void pulls(Pair& pair, Report& report) {
    std::unique_ptr<Pulls> on;
    std::vector<Window> windows;
    for (const auto& [piece, pieces] : {std::pair(64 * kMiB, 16u), std::pair(256 * kMiB, 4u)}) {
        windows.push_back({piece, pieces, 1, Fence::kNone, true});
        windows.push_back({piece, pieces});
        for (unsigned streams = 1; streams <= pieces; streams *= streams == 4 ? 4 : 2)
            windows.push_back({piece, pieces, streams, Fence::kBoth});
        for (const Fence fence : {Fence::kSignal, Fence::kSignalBeside})
            for (const unsigned streams : {1u, 2u, 4u})
                windows.push_back({piece, pieces, streams, fence});
        if (pieces == kMostStreams) {
            windows.push_back({piece, pieces, pieces, Fence::kSignalBeside});
            windows.push_back({piece, pieces, pieces, Fence::kNone, true});
        }
    }
    for (const auto& [piece, pieces] : {std::pair(4 * kMiB, 64u), std::pair(8 * kMiB, 32u)}) {
        windows.push_back({piece, pieces});
        for (const unsigned streams : {1u, 2u})
            windows.push_back({piece, pieces, streams, Fence::kBoth});
    }
    std::vector<Case> cases;
    for (const Window& each : windows)
        cases.push_back(
            {title_of(each), gpurun_does(each), [&, each] { return on->measure(each); }, "us", each.bytes()});
    if (!report.selects(cases))
        return;
    on = std::make_unique<Pulls>(pair);
    report.take_turns(cases);
}

// ---- through host memory ----------------------------------------------------------------------------------------

// The leader's GPU copies to pinned memory, the other's out of it.
class Staged {
  public:
    explicit Staged(Pair& pair) : pair_(pair) {
        MUST(cudaHostRegister(pair.ring(0), kRings * kRingBytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
        MUST(cudaMalloc(&memory_, kMessageBytes));
        MUST(cudaMemsetAsync(memory_, kContents, kMessageBytes, streams_[0]));
        pair_.finish(streams_[0]);
    }
    ~Staged() {
        cudaFree(memory_);
        cudaHostUnregister(pair_.ring(0));
    }
    Staged(const Staged&) = delete;
    Staged& operator=(const Staged&) = delete;

    // One of them, or both at once without waiting for each other; the slower one counts.
    Samples apart(bool down, bool up, bool same_memory) {
        const bool copies = pair_.leads() ? down : up;
        unsigned char* const ring = pair_.ring(pair_.leads() || same_memory ? 0 : 1);
        return measure([&] {
            for (size_t at = 0; at < kMessageBytes && copies; at += kLargestPiece)
                copy(at, ring + at % kRingBytes, kLargestPiece, streams_[0]);
        });
    }

    // Each piece through one of kSlots, once what was there is gone, and out of it, once it is there.
    Samples pipeline(size_t piece, unsigned streams, bool beside) {
        const auto pieces = static_cast<unsigned>(message_bytes(piece) / piece);
        return measure([&] {
            ++turn_;
            for (unsigned i = 0; i < pieces; i++) {
                const Stream& stream = streams_[i % streams];
                unsigned char* const slot = pair_.ring(0) + i % kSlots * piece;
                auto& filled = pair_.shared().filled[i];
                auto& freed = pair_.shared().freed[i];
                if (pair_.leads() && i >= kSlots)
                    pair_.await_in(stream, &pair_.shared().freed[i - kSlots], turn_);
                if (!pair_.leads())
                    pair_.await_in(stream, &filled, turn_);
                copy(i * piece, slot, piece, stream);
                if (beside) {
                    MUST(cudaEventRecord(copied_, stream));
                    MUST(cudaStreamWaitEvent(beside_, copied_));
                }
                pair_.write(beside ? beside_ : stream, pair_.leads() ? &filled : &freed, turn_);
            }
        });
    }

    static size_t message_bytes(size_t piece) { return std::min(kMessageBytes, kMostPieces * piece); }
    static constexpr size_t kMessageBytes = 256 * kMiB;

  private:
    static constexpr unsigned kSlots = 4;
    static constexpr size_t kLargestPiece = 8 * kMiB;
    static constexpr unsigned char kContents = 0x5a;
    static_assert(kSlots * kLargestPiece <= kRingBytes, "room for the slots");

    void copy(size_t at, unsigned char* slot, size_t bytes, cudaStream_t stream) {
        unsigned char* const here = memory_ + at;
        MUST(cudaMemcpyAsync(pair_.leads() ? slot : here, pair_.leads() ? here : slot, bytes, cudaMemcpyDefault,
                             stream));
    }

    template <typename Enqueue>
    Samples measure(const Enqueue& enqueue) {
        Samples samples;
        for (int i = 0; i <= kWindows; i++) {
            pair_.meet();
            const double begin = now_seconds();
            enqueue();
            for (const Stream& each : streams_)
                pair_.finish(each);
            pair_.finish(beside_);
            const double us = pair_.larger((now_seconds() - begin) * 1e6);
            if (i > 0)
                samples.push_back(us);
        }
        return samples;
    }

    Pair& pair_;
    Stream streams_[2];
    Stream beside_;
    Event copied_{cudaEventDisableTiming};
    unsigned char* memory_ = nullptr;
    uint64_t turn_ = kFirstTurn;
    static constexpr uint64_t kFirstTurn = uint64_t{1} << 32; // above what pulls have left in the counters
};

} // namespace

void staged(Pair& pair, Report& report) {
    std::unique_ptr<Staged> on;
    constexpr double kBytes = static_cast<double>(Staged::kMessageBytes);
    std::vector<Case> cases = {
        {"6 GPU 0 to pinned memory, alone", "is the reference 'copy', or", [&] { return on->apart(true, false, true); },
         "us", kBytes},
        {"6 pinned memory to GPU 1, alone", "this, if it is slower", [&] { return on->apart(false, true, true); }, "us",
         kBytes},
        {"6 both at once, different memory", "", [&] { return on->apart(true, true, false); }, "us", kBytes},
        {"6 both at once, the same memory", "", [&] { return on->apart(true, true, true); }, "us", kBytes},
    };
    for (const size_t piece : {kMiB, 2 * kMiB, 4 * kMiB, 8 * kMiB})
        for (const bool beside : {false, true})
            for (const unsigned streams : {1u, 2u})
                cases.push_back({"6 one behind the other, pieces of " + std::to_string(piece / kMiB) + " MiB, " +
                                     (beside ? "signals beside, " : "") + std::to_string(streams) +
                                     (streams == 1 ? " stream a side" : " streams a side"),
                                 piece == 8 * kMiB && streams == 1 && !beside ? "staged" : "no",
                                 [&, piece, streams, beside] { return on->pipeline(piece, streams, beside); }, "us",
                                 static_cast<double>(Staged::message_bytes(piece))});
    if (!report.selects(cases))
        return;
    on = std::make_unique<Staged>(pair);
    report.take_turns(cases);
}

void copies(Pair& pair, Report& report) {
    pulls(pair, report);
    staged(pair, report);
}

} // namespace limits
