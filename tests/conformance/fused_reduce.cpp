// Fused reductions: mails that are put, and mails that are reduced with a buffer as they come; buffers of peers that
// are reduced where they are.
#include "box.hpp"

#include "device/capability/fused_reduce.hpp"
#include "platform/job_segment.hpp"
#include "support/reduction_reference.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace gpurun::conformance::fused_reduce {

namespace reference = test::reference;
using device::FusedReduction;
using reference::Content;

namespace {

constexpr std::byte kUntouched{0xee};

// Ranks that reduce together: each puts its buffer to all others, and reduces it with theirs in the order of the ranks.
// All of them are streams of this process.
class Ranks {
  public:
    // `boxes`: number * number, by source and target.
    Ranks(std::deque<Box>& boxes, size_t number, int type, size_t count, size_t skew, bool in_place)
        : type_(type), count_(count), bytes_(count * reference::bytes_of(type)), skew_(skew), in_place_(in_place),
          distance_((bytes_ + skew + 512) & ~size_t{255}), boxes_(boxes), memory_(2 * number * distance_),
          streams_(number) {
        for (size_t rank = 0; rank < number; ++rank)
            contents_.push_back(reference::values(type, count, 100 * number + rank));
    }
    void fill() {
        Bytes all(2 * ranks() * distance_, kUntouched);
        for (size_t rank = 0; rank < ranks(); ++rank)
            std::memcpy(all.data() + rank * distance_ + skew_, contents_[rank].data(), bytes_);
        write(memory_.get(), all);
        for (Box& each : boxes_)
            each.begin();
    }
    void enqueue(size_t rank, int op) {
        const bool average = op == reference::kAvg;
        std::vector<device::OutgoingMail> puts;
        std::vector<FusedReduction::Operand> operands(ranks());
        for (size_t other = 0; other < ranks(); ++other) {
            if (other == rank) {
                operands[rank].buffer = buffer(rank);
                continue;
            }
            puts.push_back({box(rank, other).outgoing(bytes_), buffer(rank)});
            operands[other].mail = box(other, rank).incoming(bytes_);
        }
        const base::Reduction reduction{static_cast<base::Type>(type_),
                                        average ? base::Op::kSum : static_cast<base::Op>(op),
                                        average ? static_cast<uint32_t>(ranks()) : 0};
        REQUIRE_OK(subject().fused_reduce()->put_and_reduce(puts, {reduction, count_, result(rank), operands},
                                                            streams_[rank]));
    }
    void finish() {
        for (const Stream& each : streams_)
            each.finish();
    }
    // Nothing but the results has been written.
    void check(int op) {
        const Content expected = reference::reduced(type_, op, contents_, static_cast<uint32_t>(ranks()));
        for (size_t rank = 0; rank < ranks(); ++rank) {
            CAPTURE(rank);
            const std::byte* const from = result(rank);
            const Bytes got = read(from - skew_, bytes_ + skew_ + 1);
            Content values(bytes_);
            std::memcpy(values.data(), got.data() + skew_, bytes_);
            CHECK(reference::same(type_, values, expected));
            CHECK(got.back() == kUntouched);
            CHECK(std::all_of(got.begin(), got.begin() + static_cast<ptrdiff_t>(skew_),
                              [](std::byte each) { return each == kUntouched; }));
        }
        for (size_t from = 0; from < ranks(); ++from)
            for (size_t to = 0; to < ranks(); ++to)
                if (from != to) {
                    CHECK(box(from, to).is_sent());
                    CHECK(box(from, to).is_taken());
                    box(from, to).check_tickets();
                }
    }
    void run(int op) {
        fill();
        for (size_t rank = 0; rank < ranks(); ++rank)
            enqueue(rank, op);
        finish();
        check(op);
    }
    size_t ranks() const { return contents_.size(); }
    Box& box(size_t from, size_t to) { return boxes_[from * ranks() + to]; }
    const Stream& stream(size_t rank) const { return streams_[rank]; }

  private:
    std::byte* buffer(size_t rank) const { return memory_.get() + rank * distance_ + skew_; }
    std::byte* result(size_t rank) const { return buffer(in_place_ ? rank : ranks() + rank); }

    const int type_;
    const size_t count_, bytes_, skew_;
    const bool in_place_;
    const size_t distance_;
    std::vector<Content> contents_;
    std::deque<Box>& boxes_;
    const Memory memory_;
    std::deque<Stream> streams_;
};

} // namespace

TEST_SUITE_BEGIN("fused-reduce");

TEST_CASE("mails are reduced with a buffer, by every type and operation, at odd lengths and alignments") {
    std::deque<Box> boxes(4);
    for (int type = 1; type <= reference::kTypes; ++type)
        for (const size_t count : {1u, 3u, 1027u})
            for (const size_t skew : {size_t{0}, reference::bytes_of(type)}) {
                Ranks ranks(boxes, 2, type, count, skew, count == 3);
                for (int op = 1; op <= reference::kOps; ++op)
                    if (reference::has_meaning(op, type)) {
                        CAPTURE(base::info_of_type(type).name);
                        CAPTURE(base::kOpNames[static_cast<size_t>(op)]);
                        CAPTURE(count);
                        CAPTURE(skew);
                        ranks.run(op);
                    }
            }
}

TEST_CASE("several ranks reduce what all have put, also in place, up to the largest mail") {
    std::deque<Box> boxes(16);
    for (const size_t number : {2u, 3u, 4u})
        for (const size_t bytes : {size_t{8}, size_t{12}, size_t{4096}, size_t{4100}, size_t{65532}, kLargestMail})
            for (const bool in_place : {false, true}) {
                CAPTURE(number);
                CAPTURE(bytes);
                CAPTURE(in_place);
                if (number > 2 && bytes > 65532)
                    continue; // the blocks of more of these would not run side by side on one device
                Ranks ranks(boxes, number, reference::kFloat, bytes / 4, 0, in_place);
                for (int round = 0; round < 3; ++round) // the second finds the words of the first
                    ranks.run(reference::kSum);
            }
}

TEST_CASE("a fused reduction puts at once, and holds up its stream until all has come") {
    std::deque<Box> boxes(4);
    Ranks ranks(boxes, 2, reference::kInt32, 1000, 0, true);
    ranks.fill();
    ranks.enqueue(0, reference::kSum);
    watch();
    CHECK_FALSE(ranks.box(1, 0).is_taken());
    CHECK_FALSE(ranks.stream(0).done());
    ranks.enqueue(1, reference::kSum);
    ranks.finish();
    ranks.check(reference::kSum);
}

TEST_CASE("a fused reduction ends if a mail will never come") {
    std::deque<Box> boxes(4);
    Ranks ranks(boxes, 2, reference::kInt32, 1000, 0, false);
    ranks.fill();
    ranks.enqueue(0, reference::kSum);
    watch();
    CHECK_FALSE(ranks.stream(0).done());
    const size_t sent = ranks.box(1, 0).sent();
    store(sent, counter(sent).load() | platform::kPoison);
    ranks.stream(0).finish();
    CHECK(ranks.box(0, 1).is_sent());
}

namespace {

// The edges of several ranks, one after another.
class Edges {
  public:
    explicit Edges(size_t most_ranks) : ranks_(most_ranks) {
        for (size_t i = 0; i < 2 * most_ranks * most_ranks; ++i)
            counters_.push_back(new_counter());
    }
    void begin() { value_ += kStep; }
    uint64_t value() const { return value_; }
    size_t ready(size_t of, size_t for_rank) const { return counters_[of * ranks_ + for_rank]; }
    size_t read_by(size_t rank, size_t of) const { return counters_[(ranks_ + rank) * ranks_ + of]; }

  private:
    const size_t ranks_;
    std::vector<size_t> counters_;
    uint64_t value_ = 0;
};

// Ranks that reduce together, each a piece of their buffers, which it reads where they are. The result of its piece
// goes to all of them. All of them are streams of this process.
class Readers {
  public:
    Readers(Edges& edges, size_t number, int type, size_t count, size_t skew, bool in_place)
        : edges_(edges), type_(type), count_(count), bytes_(count * reference::bytes_of(type)), skew_(skew),
          in_place_(in_place), // what is not in place is also at no distance of whole words from its operands
          distance_(((number * bytes_ + skew + 512) & ~size_t{255}) + (in_place ? 0 : skew)),
          memory_(2 * number * distance_), words_(number * number * kWordsBytes), streams_(number) {
        for (size_t rank = 0; rank < number; ++rank)
            contents_.push_back(reference::values(type, number * count, 100 * number + rank));
        write(words_.get(), Bytes(number * number * kWordsBytes));
    }
    void fill() {
        Bytes all(2 * ranks() * distance_, kUntouched);
        for (size_t rank = 0; rank < ranks(); ++rank)
            std::memcpy(all.data() + rank * distance_ + skew_, contents_[rank].data(), ranks() * bytes_);
        write(memory_.get(), all);
        edges_.begin();
    }
    // `of_all`: it waits for the others' pieces, too.
    void enqueue(size_t rank, int op, bool of_all = true) {
        std::vector<device::CounterValue> signals, awaits;
        std::vector<FusedReduction::Operand> operands(ranks());
        for (size_t other = 0; other < ranks(); ++other) {
            FusedReduction::Operand& operand = operands[other];
            operand.buffer = piece(buffer(other), rank);
            if (other == rank)
                continue;
            std::byte* const words = words_.get() + (rank * ranks() + other) * kWordsBytes;
            operand.ready = &counter(edges_.ready(other, rank));
            operand.read = &counter(edges_.read_by(rank, other));
            operand.value = edges_.value();
            operand.answer = piece(result(other), rank);
            operand.ticket = reinterpret_cast<uint32_t*>(words);
            operand.gate = reinterpret_cast<uint64_t*>(words + sizeof(uint64_t));
            signals.push_back({&counter(edges_.ready(rank, other)), edges_.value()});
            if (of_all)
                awaits.push_back({&counter(edges_.read_by(other, rank)), edges_.value()});
        }
        const bool average = op == reference::kAvg;
        FusedReduction reduction{{static_cast<base::Type>(type_), average ? base::Op::kSum : static_cast<base::Op>(op),
                                  average ? static_cast<uint32_t>(ranks()) : 0},
                                 count_,
                                 piece(result(rank), rank),
                                 operands};
        reduction.signals = signals;
        reduction.awaits = awaits;
        REQUIRE_OK(subject().fused_reduce()->put_and_reduce({}, reduction, streams_[rank]));
    }
    void finish() {
        for (const Stream& each : streams_)
            each.finish();
    }
    // Nothing but the results has been written.
    void check(int op) {
        const Content expected = reference::reduced(type_, op, contents_, static_cast<uint32_t>(ranks()));
        for (size_t rank = 0; rank < ranks(); ++rank) {
            CAPTURE(rank);
            const Bytes got = read(result(rank) - skew_, skew_ + ranks() * bytes_ + 1);
            Content values(ranks() * bytes_);
            std::memcpy(values.data(), got.data() + skew_, values.size());
            CHECK(reference::same(type_, values, expected));
            CHECK(got.back() == kUntouched);
            for (size_t other = 0; other < ranks(); ++other)
                if (other != rank)
                    CHECK(counter(edges_.read_by(other, rank)).load() == edges_.value());
        }
    }
    void run(int op) {
        fill();
        for (size_t rank = 0; rank < ranks(); ++rank)
            enqueue(rank, op);
        finish();
        check(op);
    }
    size_t ranks() const { return contents_.size(); }
    const Stream& stream(size_t rank) const { return streams_[rank]; }

  private:
    static constexpr size_t kWordsBytes = 16; // a ticket, a gate

    std::byte* buffer(size_t rank) const { return memory_.get() + rank * distance_ + skew_; }
    std::byte* result(size_t rank) const { return buffer(in_place_ ? rank : ranks() + rank); }
    std::byte* piece(std::byte* whole, size_t number) const { return whole + number * bytes_; }

    Edges& edges_;
    const int type_;
    const size_t count_, bytes_, skew_;
    const bool in_place_;
    const size_t distance_;
    std::vector<Content> contents_;
    const Memory memory_;
    const Memory words_;
    std::deque<Stream> streams_;
};

} // namespace

TEST_CASE("buffers of peers are reduced by every type and operation, and the results written there") {
    Edges edges(2);
    for (int type = 1; type <= reference::kTypes; ++type)
        for (const size_t count : {1u, 8u, 1027u})
            for (const size_t skew : {size_t{0}, reference::bytes_of(type)}) {
                Readers readers(edges, 2, type, count, skew, count == 8);
                for (int op = 1; op <= reference::kOps; ++op)
                    if (reference::has_meaning(op, type)) {
                        CAPTURE(base::info_of_type(type).name);
                        CAPTURE(base::kOpNames[static_cast<size_t>(op)]);
                        CAPTURE(count);
                        CAPTURE(skew);
                        readers.run(op);
                    }
            }
}

TEST_CASE("several ranks read each other's buffers, also in place, at any length") {
    Edges edges(4);
    for (const size_t number : {2u, 3u, 4u})
        for (const size_t count : {size_t{1}, size_t{2048}, size_t{100003}, size_t{262144}})
            for (const bool in_place : {false, true}) {
                CAPTURE(number);
                CAPTURE(count);
                CAPTURE(in_place);
                if (number > 2 && count > 100003)
                    continue; // the blocks of more of these would not run side by side on one device
                Readers readers(edges, number, reference::kFloat, count, 0, in_place);
                for (int round = 0; round < 3; ++round)
                    readers.run(reference::kSum);
            }
}

TEST_CASE("what is not ready is not read, and the stream goes on once all have read") {
    Edges edges(2);
    Readers readers(edges, 2, reference::kInt32, 1000, 0, true);
    readers.fill();
    readers.enqueue(0, reference::kSum);
    CHECK(soon([&] { return counter(edges.ready(0, 1)).load() != 0; })); // it says that it is ready itself
    watch();
    CHECK_FALSE(readers.stream(0).done());
    CHECK(counter(edges.read_by(0, 1)).load() == 0);
    readers.enqueue(1, reference::kSum, false);
    readers.finish();
    readers.check(reference::kSum);
}

TEST_CASE("a fused reduction ends if a peer's buffer will never be ready") {
    Edges edges(2);
    Readers readers(edges, 2, reference::kInt32, 1000, 0, false);
    readers.fill();
    readers.enqueue(0, reference::kSum);
    watch();
    CHECK_FALSE(readers.stream(0).done());
    for (const size_t each : {edges.ready(1, 0), edges.read_by(1, 0)})
        store(each, counter(each).load() | platform::kPoison);
    readers.stream(0).finish();
    CHECK(counter(edges.read_by(0, 1)).load() != 0);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::fused_reduce
