// Message kernels one behind the other: each reads what the one before it in its stream has written, and may write
// where that one has read, although a device may start it before that one has ended.
#include "box.hpp"
#include "slot.hpp"

namespace gpurun::conformance::chains {

TEST_SUITE_BEGIN("chains");

namespace {

constexpr size_t kSizes[] = {8, 4096, kLargestMail};

constexpr unsigned kRounds = 50;

// Messages of one size that go to and fro between two streams, and between some buffers.
class Chain {
  public:
    explicit Chain(size_t bytes)
        : bytes_(bytes), buffers_{Memory(bytes), Memory(bytes), Memory(bytes)}, pinned_{Pinned(bytes), Pinned(bytes),
                                                                                        Pinned(bytes)} {}

    // REQUIRES: the round before has finished. What is set in a stream is got there, if it is.
    void set(size_t index, const Bytes& content, const Stream& stream) {
        std::memcpy(pinned_[index].get(), content.data(), bytes_);
        REQUIRE_OK(subject().copy(buffer(index), pinned_[index].get(), bytes_, stream));
    }
    // What lies in the buffer when `stream` gets there; content() has it after finish().
    void get(size_t index, const Stream& stream) {
        REQUIRE_OK(subject().copy(pinned_[index].get(), buffer(index), bytes_, stream));
    }
    Bytes content(size_t index) const { return Bytes(pinned_[index].get(), pinned_[index].get() + bytes_); }
    void finish() const {
        there.finish();
        here.finish();
    }
    // From `from`, in one stream, into `to`, in the other.
    void send(size_t box, size_t from, const Stream& sender, size_t to, const Stream& receiver) {
        boxes_[box].begin();
        boxes_[box].put(buffer(from), bytes_, sender);
        boxes_[box].take(buffer(to), bytes_, false, receiver);
    }
    void copy(size_t slot, size_t from, size_t to, const Stream& stream) {
        slots_[slot].begin();
        slots_[slot].copy(buffer(to), buffer(from), bytes_, false, stream);
    }

  private:
    std::byte* buffer(size_t index) const { return buffers_[index].get(); }

    size_t bytes_;
    std::array<Memory, 3> buffers_;
    std::array<Pinned, 3> pinned_;
    std::array<Box, 4> boxes_;
    std::array<Slot, 2> slots_;

  public: // last, so that they are the first to go
    const Stream here;
    const Stream there;
};

template <typename Round>
void run_rounds(const Round& run) {
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        Chain chain(bytes);
        for (unsigned round = 0; round < kRounds; ++round) {
            CAPTURE(round);
            run(chain, bytes, round);
        }
    }
}

} // namespace

TEST_CASE("what one message brings, the next one takes along") {
    run_rounds([](Chain& chain, size_t bytes, unsigned round) {
        const Bytes content = pattern(bytes, 71 + round);
        chain.set(0, content, chain.here);
        chain.send(0, 0, chain.here, 1, chain.there); // taken, then put at once
        chain.send(1, 1, chain.there, 2, chain.here); // taken, then copied
        chain.copy(0, 2, 0, chain.here);              // copied, then copied
        chain.copy(1, 0, 1, chain.here);              // copied, then put
        chain.send(2, 1, chain.here, 2, chain.there);
        chain.get(2, chain.there);
        chain.finish();
        REQUIRE(chain.content(2) == content);
    });
}

TEST_CASE("what is still to be sent is not overwritten by the message that comes next") {
    run_rounds([](Chain& chain, size_t bytes, unsigned round) {
        const Bytes mine = pattern(bytes, 171 + round);
        const Bytes theirs = pattern(bytes, 271 + round);
        chain.set(0, mine, chain.here);
        chain.set(1, theirs, chain.there);
        chain.send(0, 1, chain.there, 2, chain.there); // theirs lies there already
        chain.copy(0, 2, 1, chain.there);
        chain.send(1, 0, chain.here, 2, chain.there); // mine, out of the buffer ...
        chain.send(2, 1, chain.there, 0, chain.here); // ... into which theirs comes
        chain.get(2, chain.there);
        chain.get(0, chain.here);
        chain.finish();
        REQUIRE(chain.content(2) == mine);
        REQUIRE(chain.content(0) == theirs);
    });
}

TEST_SUITE_END();

} // namespace gpurun::conformance::chains
