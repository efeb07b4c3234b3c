// Requests over each channel: starting, completing some of several, persistent ones, taking back, giving up, and what
// moves while nobody is in a call.
#include "support/two_ranks.hpp"

#include <algorithm>
#include <latch>
#include <numeric>
#include <random>

using namespace gpurun;
using namespace gpurun::test;
using comm::Arrived;
using comm::kAnySource;
using comm::kAnyTag;
using Outcome = Rank::Outcome;

namespace {

constexpr size_t kSmall = 16;
constexpr size_t kLargeRequest = 700'000;

// Half of the messages in the host's order, half in a stream's.
Rank::Stream every_other(device::Stream stream, size_t i) { return i % 2 == 0 ? Rank::Stream() : Rank::Stream(stream); }

// What both ranks know of a random exchange.
struct Plan {
    struct Message {
        size_t bytes;
        Kind from;
        Kind into;
        bool synchronous;
    };
    std::vector<Message> messages;
    std::vector<size_t> order; // in which they are received

    Plan(uint32_t seed, size_t count) {
        constexpr size_t kRequestSizes[] = {0, 8, 100, 4096, 8192, 8193, 20'000, 65'536, 300'000, 1'500'000};
        std::mt19937 random(seed);
        const auto one_of = [&](const auto& values) { return values[random() % std::size(values)]; };
        for (size_t i = 0; i < count; ++i)
            messages.push_back({one_of(kRequestSizes), one_of(kKinds), one_of(kKinds), random() % 5 == 0});
        order.resize(count);
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), random);
    }
};

} // namespace

TEST_SUITE_BEGIN("requests over channels");

TEST_CASE_TEMPLATE("random messages both ways, started and completed in random orders, all arrive whole", T, OverSocket,
                   OverShm, OverFabric) {
    constexpr size_t kMessages = 40;
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        CAPTURE(seed);
        base::Settings settings = rank_settings();
        settings.emulated_seed = seed % 2 == 0 ? seed : 0; // with delays, and copies out of order
        settings.emulated_delay_us = 200;
        TwoRanks ranks(T::kOver, settings);
        const Plan plan(seed, kMessages);
        ranks.run_both([&](Rank& each) {
            const device::Stream stream = each.stream();
            std::vector<uint64_t> sends;
            for (size_t i = 0; i < kMessages; ++i) {
                const Plan::Message& message = plan.messages[i];
                const Bytes content = pattern(message.bytes, i);
                sends.push_back(
                    each.isend(each.operand(each.memory(message.from, content), message.bytes, every_other(stream, i)),
                               static_cast<int>(i), message.synchronous));
            }
            std::vector<uint64_t> receives;
            std::vector<uint8_t*> buffers;
            for (const size_t i : plan.order) {
                const Plan::Message& message = plan.messages[i];
                buffers.push_back(each.memory(message.into, message.bytes));
                receives.push_back(each.irecv(each.operand(buffers.back(), message.bytes, every_other(stream, i / 2)),
                                              i % 3 == 0 ? kAnySource : each.other(), static_cast<int>(i)));
            }
            for (size_t done = 0; done < kMessages; ++done) {
                Outcome outcome;
                const size_t which = each.wait_any(receives, outcome);
                REQUIRE(which < kMessages);
                const size_t i = plan.order[which];
                CAPTURE(i);
                REQUIRE(outcome.status == base::Status::kOk);
                REQUIRE(outcome.arrived.source == each.other());
                REQUIRE(outcome.arrived.bytes == plan.messages[i].bytes);
                REQUIRE(first_difference(buffers[which], pattern(plan.messages[i].bytes, i)) == -1);
            }
            each.wait_all(sends);
        });
    }
}

TEST_CASE_TEMPLATE("requests are completed into a stream, and what follows there comes after them", T, OverSocket,
                   OverShm, OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {kSmall, kLargeRequest, size_t{3'000'000}}) {
        CAPTURE(bytes);
        ranks.run(
            [&](Rank& sender) {
                const device::Stream stream = sender.stream();
                uint8_t* const from = sender.memory(Kind::kDevice, pattern(bytes, 5));
                uint64_t name = sender.isend(sender.operand(from, bytes, stream), 1);
                CHECK(sender.wait(name, stream).status == base::Status::kOk);
                must(sender.device().fill(from, 0xee, bytes, stream)); // not before it has been read
                REQUIRE_OK(sender.synchronize(stream));
            },
            [&](Rank& receiver) {
                const device::Stream stream = receiver.stream();
                uint8_t* const into = receiver.memory(Kind::kDevice, bytes);
                uint8_t* const kept = receiver.memory(Kind::kDevice, bytes);
                must(receiver.device().fill(into, 0x11, bytes, stream)); // before it is written
                uint64_t name = receiver.irecv(receiver.operand(into, bytes, stream), 0, 1);
                CHECK(receiver.wait(name, stream).arrived.bytes == bytes);
                must(receiver.device().copy(kept, into, bytes, stream));
                REQUIRE_OK(receiver.synchronize(stream));
                CHECK(first_difference(kept, pattern(bytes, 5)) == -1);
            });
    }
}

TEST_CASE_TEMPLATE("a synchronous send is not complete before its message is matched", T, OverSocket, OverShm,
                   OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {size_t{0}, kSmall, kLargeRequest}) {
        CAPTURE(bytes);
        std::latch looked(1);
        ranks.run(
            [&](Rank& sender) {
                const Bytes content = pattern(bytes, 2);
                uint64_t name = sender.isend(sender.operand(content.data(), bytes), 1, true);
                for (int i = 0; i < 20; ++i)
                    CHECK_FALSE(sender.test(name).has_value());
                looked.count_down();
                CHECK(sender.wait(name).status == base::Status::kOk);
            },
            [&](Rank& receiver) {
                looked.wait();
                Bytes got(bytes);
                CHECK(must(receiver.recv(receiver.operand(got.data(), bytes), 0, 1)).bytes == bytes);
            });
    }
}

TEST_CASE_TEMPLATE("persistent requests are started again and again, and keep their order", T, OverSocket, OverShm,
                   OverFabric) {
    constexpr uint64_t kRounds = 25;
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {kSmall, kLargeRequest}) {
        CAPTURE(bytes);
        ranks.run_both([&](Rank& each) {
            uint8_t* const from = each.memory(Kind::kDevice, bytes);
            uint8_t* const into = each.memory(Kind::kDevice, bytes);
            uint64_t names[] = {each.make(comm::Task::Kind::kSend, each.operand(from, bytes), each.other(), 3),
                                each.make(comm::Task::Kind::kReceive, each.operand(into, bytes), kAnySource, kAnyTag)};
            for (uint64_t round = 0; round < kRounds; ++round) {
                const Bytes content = pattern(bytes, round);
                std::copy(content.begin(), content.end(), from);
                comm::Request* const both[] = {each.engine().requests().find(names[0]),
                                               each.engine().requests().find(names[1])};
                each.engine().requests().start_again(both);
                each.wait_all(names);
                REQUIRE(first_difference(into, content) == -1);
            }
            for (const uint64_t name : names)
                must(each.engine().requests().abandon(*each.engine().requests().find(name)));
        });
    }
}

TEST_CASE_TEMPLATE("a receive is taken back or matched, never both and never neither, while messages come", T,
                   OverSocket, OverShm, OverFabric) {
    constexpr uint32_t kMessages = 300;
    TwoRanks ranks(T::kOver);
    ranks.run(
        [&](Rank& sender) {
            for (uint32_t i = 0; i < kMessages; ++i)
                REQUIRE_OK(sender.send(sender.operand(&i, sizeof i), 1));
        },
        [&](Rank& receiver) {
            for (uint32_t received = 0; received < kMessages;) {
                uint32_t number = ~0u;
                uint64_t name = receiver.irecv(receiver.operand(&number, sizeof number), 0, 1);
                receiver.engine().requests().cancel(*receiver.engine().requests().find(name));
                const Outcome outcome = receiver.wait(name);
                REQUIRE(number == (outcome.cancelled ? ~0u : received));
                received += outcome.cancelled ? 0 : 1;
                if (outcome.cancelled)
                    REQUIRE(must(receiver.probe(0, 1, true)));
            }
        });
}

TEST_CASE_TEMPLATE("requests that are given up move their messages all the same", T, OverSocket, OverShm, OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const size_t bytes : {kSmall, kLargeRequest}) {
        CAPTURE(bytes);
        ranks.run_both([&](Rank& each) {
            const uint8_t* const from = each.memory(Kind::kDevice, pattern(bytes, 8));
            uint8_t* const into = each.memory(Kind::kDevice, bytes);
            auto& requests = each.engine().requests();
            must(requests.abandon(*requests.find(each.irecv(each.operand(into, bytes), each.other(), 1))));
            must(requests.abandon(*requests.find(each.isend(each.operand(from, bytes), 1))));
            REQUIRE_OK(each.leave()); // what was started before is over then
            CHECK(first_difference(into, pattern(bytes, 8)) == -1);
        });
        break; // a rank leaves once
    }
}

TEST_CASE_TEMPLATE("large messages move while the receiver computes", T, OverSocket, OverShm, OverFabric) {
    TwoRanks ranks(T::kOver);
    for (const Kind kind : {Kind::kPageable, Kind::kDevice})
        for (const size_t bytes : {kLargeRequest, size_t{3'000'000}}) {
            CAPTURE(static_cast<int>(kind));
            CAPTURE(bytes);
            std::latch sent(1);
            ranks.run(
                [&](Rank& sender) {
                    REQUIRE_OK(sender.send(sender.operand(sender.memory(kind, pattern(bytes, 6)), bytes), 1));
                    sent.count_down();
                },
                [&](Rank& receiver) {
                    uint8_t* const got = receiver.memory(kind, bytes);
                    uint64_t name = receiver.irecv(receiver.operand(got, bytes), 0, 1);
                    sent.wait(); // in no call
                    CHECK(receiver.wait(name).arrived.bytes == bytes);
                    CHECK(first_difference(got, pattern(bytes, 6)) == -1);
                });
        }
}

TEST_CASE_TEMPLATE("thousands of small requests find room one after the other", T, OverSocket, OverShm, OverFabric) {
    constexpr uint32_t kMessages = 3000;
    TwoRanks ranks(T::kOver);
    ranks.run_both([&](Rank& each) {
        std::vector<uint32_t> out(kMessages);
        std::vector<uint32_t> in(kMessages, ~0u);
        std::vector<uint64_t> names;
        for (uint32_t i = 0; i < kMessages; ++i) {
            out[i] = i * 3;
            names.push_back(each.isend(each.operand(&out[i], sizeof out[i]), 1));
        }
        for (uint32_t i = 0; i < kMessages; ++i)
            names.push_back(each.irecv(each.operand(&in[i], sizeof in[i]), each.other(), 1));
        each.wait_all(names);
        CHECK(in == out);
    });
}

TEST_SUITE_END();
