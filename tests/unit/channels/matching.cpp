// Which receive gets which message, over each channel: tags, wildcards, order, lengths, probes.
#include "support/two_ranks.hpp"

using namespace gpurun;
using namespace gpurun::test;
using comm::Arrived;
using comm::kAnySource;
using comm::kAnyTag;

namespace {

// Inline at most; one chunk of a relay, or a single copy; several chunks.
constexpr size_t kSizes[] = {8, 8192, 8193, 100'000, 1'000'000};

} // namespace

TEST_SUITE_BEGIN("matching over channels");

TEST_CASE_TEMPLATE("a receive takes the message with its tag, not the first one", T, OverSocket, OverShm, OverFabric) {
    constexpr int kTags[] = {0, 1, 7, 4096, INT32_MAX};
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {size_t{8}, size_t{5000}}) // both are on their way before the first receive
        ranks.run(
            [&](Rank& sender) {
                for (const int tag : kTags)
                    REQUIRE_OK(sender.send(
                        sender.operand(sender.memory(Kind::kPageable, pattern(bytes, static_cast<uint64_t>(tag))),
                                       bytes),
                        tag));
            },
            [&](Rank& receiver) {
                uint8_t* const got = receiver.memory(Kind::kPageable, bytes);
                for (size_t i = std::size(kTags); i-- > 0;) {
                    const Arrived arrived = must(receiver.recv(receiver.operand(got, bytes), 0, kTags[i]));
                    CHECK(arrived.tag == kTags[i]);
                    CHECK(arrived.source == 0);
                    CHECK(arrived.bytes == bytes);
                    CHECK(first_difference(got, pattern(bytes, static_cast<uint64_t>(kTags[i]))) == -1);
                }
            });
}

TEST_CASE_TEMPLATE("wildcards take the messages in the order in which they were sent", T, OverSocket, OverShm,
                   OverFabric) {
    constexpr uint32_t kMessages = 300;
    TwoRanks ranks(T::kOver);
    ranks.run(
        [&](Rank& sender) {
            for (uint32_t i = 0; i < kMessages; ++i)
                REQUIRE_OK(sender.send(sender.operand(&i, sizeof i), static_cast<int>(i % 3)));
        },
        [&](Rank& receiver) {
            for (uint32_t i = 0; i < kMessages; ++i) {
                uint32_t number = ~0u;
                const int source = i % 2 == 0 ? kAnySource : 0;
                const Arrived arrived = must(receiver.recv(receiver.operand(&number, sizeof number), source, kAnyTag));
                REQUIRE(number == i);
                REQUIRE(arrived.source == 0);
                REQUIRE(arrived.tag == static_cast<int>(i % 3));
            }
        });
}

TEST_CASE_TEMPLATE("messages of one tag do not overtake each other, whatever their sizes, memory and order domains", T,
                   OverSocket, OverShm, OverFabric) {
    constexpr size_t kLargest = 300'000;
    constexpr size_t kLengths[] = {8, 4000, 5000, 40'000, 0, 16, 300'000, 4097, 32'768, 12, 70'000};
    constexpr uint64_t kMessages = 160;
    const auto bytes_of = [&](uint64_t i) { return kLengths[i % std::size(kLengths)]; };
    const auto kind_of = [](uint64_t i) { return kKinds[i % 7 % std::size(kKinds)]; };
    TwoRanks ranks(T::kOver);
    ranks.run(
        [&](Rank& sender) {
            const device::Stream stream = sender.stream();
            std::vector<uint8_t*> buffers;
            for (const Kind kind : kKinds)
                buffers.push_back(sender.memory(kind, kLargest));
            for (uint64_t i = 0; i < kMessages; ++i) {
                uint8_t* const buffer = buffers[static_cast<size_t>(kind_of(i))];
                const Bytes content = pattern(bytes_of(i), i);
                std::copy(content.begin(), content.end(), buffer);
                REQUIRE_OK(sender.send(
                    sender.operand(buffer, content.size(), i % 3 == 0 ? Rank::Stream() : Rank::Stream(stream)), 5));
                REQUIRE_OK(sender.synchronize(stream));
            }
        },
        [&](Rank& receiver) {
            const device::Stream stream = receiver.stream();
            std::vector<uint8_t*> buffers;
            for (const Kind kind : kKinds)
                buffers.push_back(receiver.memory(kind, kLargest));
            for (uint64_t i = 0; i < kMessages; ++i) {
                CAPTURE(i);
                uint8_t* const buffer = buffers[static_cast<size_t>(kind_of(i + 1))];
                const Arrived arrived = must(receiver.recv(
                    receiver.operand(buffer, kLargest, i % 2 == 0 ? Rank::Stream() : Rank::Stream(stream)),
                    i % 5 == 0 ? kAnySource : 0, i % 4 == 0 ? kAnyTag : 5));
                REQUIRE_OK(receiver.synchronize(stream));
                REQUIRE(arrived.bytes == bytes_of(i));
                REQUIRE(first_difference(buffer, pattern(bytes_of(i), i)) == -1);
            }
        });
}

TEST_CASE_TEMPLATE("messages that nobody has asked for are kept, found, and received last to first", T, OverSocket,
                   OverShm, OverFabric) {
    constexpr size_t kLengths[] = {0, 1, 100, 4095, 4096, 4097, 8192, 8193, 16'385, 32'769, 200'000};
    constexpr int kMessages = 220; // more than any part of a channel has room for
    const auto bytes_of = [&](int tag) { return kLengths[static_cast<size_t>(tag) % std::size(kLengths)]; };
    for (const Kind kind : {Kind::kPageable, Kind::kDevice})
        for (const bool on_stream : {false, true}) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(on_stream);
            TwoRanks ranks(T::kOver);
            ranks.run_both([&](Rank& each) {
                const Rank::Stream stream = on_stream ? Rank::Stream(each.stream()) : Rank::Stream();
                std::vector<uint64_t> names;
                for (int tag = 0; tag < kMessages; ++tag) { // both ranks, and neither has a receive
                    const Bytes content = pattern(bytes_of(tag), static_cast<uint64_t>(tag));
                    names.push_back(each.isend(each.operand(each.memory(kind, content), content.size(), stream), tag));
                }
                uint8_t* const got = each.memory(kind, 200'000);
                REQUIRE(must(each.probe(each.other(), kMessages - 1, true))); // behind all others: they are here
                for (int tag = kMessages; tag-- > 0;) {
                    const auto found = must(each.probe(tag % 2 == 0 ? kAnySource : each.other(), tag, false));
                    REQUIRE(found);
                    REQUIRE(found->envelope.bytes == bytes_of(tag));
                    const Arrived arrived = must(
                        each.recv(each.operand(got, 200'000, stream), tag % 3 == 0 ? kAnySource : each.other(), tag));
                    if (stream)
                        REQUIRE_OK(each.synchronize(*stream));
                    REQUIRE(arrived.bytes == bytes_of(tag));
                    REQUIRE(first_difference(got, pattern(bytes_of(tag), static_cast<uint64_t>(tag))) == -1);
                }
                each.wait_all(names, stream);
                if (stream)
                    REQUIRE_OK(each.synchronize(*stream));
            });
        }
}

TEST_CASE_TEMPLATE("a message that is longer than its buffer fills it and no more, and tells its true length", T,
                   OverSocket, OverShm, OverFabric) {
    constexpr uint8_t kUntouched = 0x21;
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : kSizes)
        for (const Kind kind : kKinds)
            for (const size_t room : {size_t{0}, bytes / 2, bytes - 1}) {
                CAPTURE(bytes);
                CAPTURE(static_cast<int>(kind));
                CAPTURE(room);
                ranks.run(
                    [&](Rank& sender) {
                        REQUIRE_OK(sender.send(sender.operand(sender.memory(kind, pattern(bytes, 3)), bytes), 1));
                    },
                    [&](Rank& receiver) {
                        uint8_t* const got = receiver.memory(kind, Bytes(bytes, kUntouched));
                        const Arrived arrived = must(receiver.recv(receiver.operand(got, room), 0, 1));
                        CHECK(arrived.bytes == bytes);
                        Bytes expected = pattern(bytes, 3);
                        std::fill(expected.begin() + static_cast<ptrdiff_t>(room), expected.end(), kUntouched);
                        CHECK(first_difference(got, expected) == -1);
                    });
            }
}

TEST_CASE_TEMPLATE("a message of no bytes matches like any other, in every order domain", T, OverSocket, OverShm,
                   OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const bool sent_on_stream : {false, true})
        for (const bool received_on_stream : {false, true}) {
            CAPTURE(sent_on_stream);
            CAPTURE(received_on_stream);
            ranks.run(
                [&](Rank& sender) {
                    const device::Stream stream = sender.stream();
                    REQUIRE_OK(sender.send(
                        sender.operand(nullptr, 0, sent_on_stream ? Rank::Stream(stream) : Rank::Stream()), 9));
                    REQUIRE_OK(sender.synchronize(stream));
                },
                [&](Rank& receiver) {
                    const device::Stream stream = receiver.stream();
                    const Arrived arrived = must(receiver.recv(
                        receiver.operand(nullptr, 0, received_on_stream ? Rank::Stream(stream) : Rank::Stream()),
                        kAnySource, 9));
                    REQUIRE_OK(receiver.synchronize(stream));
                    CHECK(arrived.source == 0);
                    CHECK(arrived.tag == 9);
                    CHECK(arrived.bytes == 0);
                });
        }
}

TEST_CASE_TEMPLATE("a probed message is that which is received, whatever comes behind it", T, OverSocket, OverShm,
                   OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : kSizes) {
        CAPTURE(bytes);
        ranks.run(
            [&](Rank& sender) {
                const uint64_t seeds[] = {1, 2};
                std::vector<uint64_t> names;
                for (const uint64_t seed : seeds)
                    names.push_back(
                        sender.isend(sender.operand(sender.memory(Kind::kDevice, pattern(bytes, seed)), bytes), 4));
                sender.wait_all(names);
            },
            [&](Rank& receiver) {
                uint64_t taken = 0;
                const auto found = must(receiver.probe(kAnySource, kAnyTag, true, &taken));
                REQUIRE(found);
                CHECK(found->source == base::WorldRank{0});
                CHECK(found->envelope.tag == 4);
                CHECK(found->envelope.bytes == bytes);
                uint8_t* const got = receiver.memory(Kind::kDevice, bytes);
                (void)must(receiver.recv(receiver.operand(got, bytes), 0, 4)); // the one behind it
                CHECK(first_difference(got, pattern(bytes, 2)) == -1);
                const transfer::Operand into = receiver.operand(got, bytes);
                const Arrived arrived =
                    must(comm::recv_taken(receiver.engine(), receiver.world(), into, taken, nullptr));
                CHECK(arrived.source == 0);
                CHECK(first_difference(got, pattern(bytes, 1)) == -1);
            });
    }
}

TEST_CASE_TEMPLATE("blocking sends that fill a receiver wait for it, and lose nothing", T, OverSocket, OverShm,
                   OverFabric) {
    constexpr uint32_t kMessages = 1500; // of up to 4096 bytes: more than a channel has room for
    TwoRanks ranks(T::kOver);
    ranks.run(
        [&](Rank& sender) {
            for (uint32_t i = 0; i < kMessages; ++i) {
                const Bytes content = pattern(i * 37 % 4097, i);
                REQUIRE_OK(sender.send(sender.operand(content.data(), content.size()), 1));
            }
            REQUIRE_OK(sender.send(sender.operand(nullptr, 0), 2));
        },
        [&](Rank& receiver) {
            Bytes got(4096);
            REQUIRE(must(receiver.probe(0, 1, true))); // some are here before the first is taken
            for (uint32_t i = 0; i < kMessages; ++i) {
                const Arrived arrived = must(receiver.recv(receiver.operand(got.data(), got.size()), kAnySource, 1));
                const Bytes content = pattern(i * 37 % 4097, i);
                REQUIRE(arrived.bytes == content.size());
                REQUIRE(first_difference(got.data(), content) == -1);
            }
            (void)must(receiver.recv(receiver.operand(nullptr, 0), 0, 2));
        });
}

TEST_SUITE_END();
