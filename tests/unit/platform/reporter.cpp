// The thread of a rank that answers what gpurun asks.
#include "platform/reporter.hpp"
#include "platform/wire.hpp"
#include "support/unit.hpp"

#include <atomic>
#include <cstring>
#include <thread>

using namespace gpurun::platform;
using gpurun::test::must;

TEST_SUITE_BEGIN("reporter");

namespace {

struct Rank {
    MessageSocket launcher;
    MessageSocket own;
    std::unique_ptr<Reporter> reporter;

    explicit Rank(size_t entries) {
        auto [ours, theirs] = must(MessageSocket::pair());
        launcher = std::move(ours);
        own = std::move(theirs);
        reporter = must(Reporter::start(own, [entries](std::vector<wait_report::Entry>& all) {
            all.assign(entries, wait_report::Entry{});
            for (size_t i = 0; i < all.size(); ++i)
                all[i].bytes = i;
            return wait_report::End{.threads = static_cast<uint32_t>(entries)};
        }));
    }
    template <typename Message>
    void say(const Message& message) {
        REQUIRE_OK(launcher.send(std::as_bytes(std::span(&message, 1))));
    }
    template <typename Message>
    Message hear() {
        alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
        const auto received = must(launcher.receive(bytes));
        REQUIRE(received.bytes == sizeof(Message));
        Message message;
        std::memcpy(&message, bytes.data(), sizeof message);
        return message;
    }
};

} // namespace

TEST_CASE("every question is answered, with its number, entry by entry") {
    Rank rank(3);
    for (uint32_t number = 1; number < 5; ++number) {
        rank.say(wire::Ask{.number = number});
        for (uint64_t i = 0; i < 3; ++i) {
            const auto answer = rank.hear<wire::Answer>();
            CHECK(answer.header.kind == wire::Kind::kAnswer);
            CHECK(answer.number == number);
            CHECK(answer.entry.bytes == i);
        }
        const auto last = rank.hear<wire::Answered>();
        CHECK(last.header.kind == wire::Kind::kAnswered);
        CHECK(last.number == number);
        CHECK(last.end.threads == 3);
    }
}

TEST_CASE("it ends although nobody has asked, in the middle of an answer that nobody reads, and when gpurun is gone") {
    { const Rank rank(1); }
    {
        Rank rank(5'000);
        rank.say(wire::Ask{});
        rank.hear<wire::Answer>();
    }
    {
        Rank rank(10);
        rank.launcher = MessageSocket();
    }
}

TEST_CASE("what gpurun does not say is answered by nobody, and keeps nothing from ending") {
    const char nonsense[] = "what is this?";
    Rank rank(1);
    rank.say(nonsense);
    rank.say(wire::Ask{});
}

TEST_CASE("others send on the socket meanwhile") {
    Rank rank(100);
    const wire::Abort abort;
    std::thread aborts([&] {
        for (int i = 0; i < 50; ++i)
            REQUIRE_OK(rank.own.send(std::as_bytes(std::span(&abort, 1))));
    });
    rank.say(wire::Ask{.number = 1});
    int answers = 0;
    int asked_to_abort = 0;
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes;
    while (answers < 101 || asked_to_abort < 50) {
        const auto received = must(rank.launcher.receive(bytes));
        ++(received.bytes == sizeof(wire::Abort) ? asked_to_abort : answers);
    }
    aborts.join();
}

TEST_SUITE_END();
