// Message kernels one behind the other: each reads what the one before it in its stream has written, and may write
// where that one has read, although a device may start it before that one has ended.
#include "box.hpp"
#include "slot.hpp"

using namespace gpurun;
using namespace gpurun::conformance;

TEST_SUITE_BEGIN("chains");

namespace {

constexpr size_t kSizes[] = {8, 4096, kLargestMail};

// Messages of one size that go to and fro between two streams, and between some buffers.
class Chain {
  public:
    explicit Chain(size_t bytes) : bytes_(bytes), buffers_{Memory(bytes), Memory(bytes), Memory(bytes)} {}

    std::byte* buffer(size_t index) const { return buffers_[index].get(); }
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
    size_t bytes_;
    std::array<Memory, 3> buffers_;
    std::array<Box, 4> boxes_;
    std::array<Slot, 2> slots_;
};

} // namespace

TEST_CASE("what one message brings, the next one takes along") {
    constexpr unsigned kRounds = 50;
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        Chain chain(bytes);
        const Pinned first(bytes);
        const Pinned last(bytes);
        const Stream here;
        const Stream there;
        for (unsigned round = 0; round < kRounds; ++round) {
            CAPTURE(round);
            const Bytes content = pattern(bytes, 71 + round);
            std::memcpy(first.get(), content.data(), bytes);
            REQUIRE_OK(subject().copy(chain.buffer(0), first.get(), bytes, here));
            chain.send(0, 0, here, 1, there); // taken, then put at once
            chain.send(1, 1, there, 2, here); // taken, then copied
            chain.copy(0, 2, 0, here);        // copied, then copied
            chain.copy(1, 0, 1, here);        // copied, then put
            chain.send(2, 1, here, 2, there);
            REQUIRE_OK(subject().copy(last.get(), chain.buffer(2), bytes, there));
            there.finish();
            here.finish();
            REQUIRE(Bytes(last.get(), last.get() + bytes) == content);
        }
    }
}

TEST_CASE("what is still to be sent is not overwritten by the message that comes next") {
    constexpr unsigned kRounds = 50;
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        Chain chain(bytes);
        const Pinned mine(bytes);
        const Pinned theirs(bytes);
        const Pinned got(2 * bytes);
        const Stream here;
        const Stream there;
        for (unsigned round = 0; round < kRounds; ++round) {
            CAPTURE(round);
            const Bytes content = pattern(bytes, 171 + round);
            const Bytes other = pattern(bytes, 271 + round);
            std::memcpy(mine.get(), content.data(), bytes);
            std::memcpy(theirs.get(), other.data(), bytes);
            REQUIRE_OK(subject().copy(chain.buffer(0), mine.get(), bytes, here));
            REQUIRE_OK(subject().copy(chain.buffer(1), theirs.get(), bytes, there));
            chain.send(0, 1, there, 2, there); // their message lies there already
            chain.copy(0, 2, 1, there);
            chain.send(1, 0, here, 2, there); // mine, out of the buffer ...
            chain.send(2, 1, there, 0, here); // ... into which theirs comes
            REQUIRE_OK(subject().copy(got.get(), chain.buffer(2), bytes, there));
            REQUIRE_OK(subject().copy(got.get() + bytes, chain.buffer(0), bytes, here));
            there.finish();
            here.finish();
            REQUIRE(Bytes(got.get(), got.get() + bytes) == content);
            REQUIRE(Bytes(got.get() + bytes, got.get() + 2 * bytes) == other);
        }
    }
}

TEST_SUITE_END();
