// The launcher's half of the wire, spoken to over its sockets.
#include "assembly.hpp"
#include "platform/byte_stream.hpp"
#include "platform/trace_buffer.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <functional>
#include <gpurun/version.h>
#include <numeric>
#include <random>

namespace gpurun::test::assembly {

using namespace launcher;
using namespace platform;
using gpurun::base::Status;

namespace {

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;

constexpr wire::Abort kAbort{.code = 5};

struct Noted : Assembly::Observer {
    std::string said;
    std::function<void()> on_abort = [] {};

    void note(const char* what, uint32_t rank) { said += std::string(what) + std::to_string(rank); }
    void rank_said_hello(uint32_t rank) override { note("hello", rank); }
    void rank_misbehaved(uint32_t rank, const std::string&) override { note("misbehaved", rank); }
    void versions_differ(uint32_t rank, const std::string&) override { note("differ", rank); }
    void rank_left_early(uint32_t rank) override { note("left", rank); }
    void rank_leaves(uint32_t rank, uint32_t steps) override { note(steps == 2 ? "leaves2-" : "leaves", rank); }
    void rank_aborted(uint32_t rank, int code) override {
        note(code == 5 ? "abort5-" : "abort", rank);
        on_abort();
    }
    bool rank_answered(uint32_t rank, const wire::Answer& answer) override {
        note("answer", rank);
        return answer.number == 1;
    }
    bool rank_answered_all(uint32_t rank, const wire::Answered& answered) override {
        note("answered", rank);
        return answered.number == 1;
    }
};

std::vector<uint32_t> all_of(uint32_t size) {
    std::vector<uint32_t> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

struct Job {
    explicit Job(uint32_t size, int trace_fd = -1)
        : loop(must(EventLoop::create())), segment(must(JobSegment::create(size, 2))),
          assembly(*loop, segment, noted, all_of(size)) {
        for (uint32_t rank = 0; rank < size; ++rank) {
            auto [ours, theirs] = must(MessageSocket::pair());
            assembly.connect(rank, std::move(ours), trace_fd);
            ranks.push_back(std::move(theirs));
        }
    }

    template <typename Message>
    void say(uint32_t rank, const Message& message, int descriptor = -1) {
        REQUIRE_OK(ranks[rank].send(std::as_bytes(std::span(&message, 1)), descriptor));
        assembly.hear(rank);
    }
    void say_hello(uint32_t rank, uint32_t version = kVersion) {
        wire::Hello hello;
        hello.version = version;
        hello.layout = kLayout;
        hello.rank = static_cast<int32_t>(rank);
        say(rank, hello);
    }
    // The kind of the next message to `rank`, or 0. Its descriptor and its bytes are kept.
    wire::Kind heard(uint32_t rank) {
        auto received = must(ranks[rank].try_receive(bytes));
        wire::Header header{0, wire::Kind{}};
        if (received.has_value() && received->bytes >= sizeof header)
            std::memcpy(&header, bytes.data(), sizeof header);
        fd = received.has_value() ? std::move(received->fd) : UniqueFd();
        return header.kind;
    }
    template <typename Message>
    Message last() const {
        Message message;
        std::memcpy(&message, bytes.data(), sizeof message);
        return message;
    }

    std::unique_ptr<EventLoop> loop;
    JobSegment segment;
    Noted noted;
    Assembly assembly;
    std::vector<MessageSocket> ranks;
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes{};
    UniqueFd fd;
};

} // namespace

TEST_SUITE_BEGIN("assembly");

TEST_CASE("a rank that is traced is told where to record, then welcomed") {
    const TraceBuffer buffer = must(TraceBuffer::create(8));
    Job job(1, buffer.fd());
    job.say_hello(0);
    CHECK(job.heard(0) == wire::Kind::kTrace);
    CHECK(same_file(job.fd.get(), buffer.fd()));
    CHECK(job.heard(0) == wire::Kind::kWelcome);
}

TEST_CASE("ranks are welcomed, hear of each other's devices, and go together") {
    Job job(3);
    Pipe device = must(create_pipe());
    for (uint32_t rank = 0; rank < 3; ++rank) {
        job.say_hello(rank);
        CHECK(job.heard(rank) == wire::Kind::kWelcome);
        CHECK(job.last<wire::Welcome>().size == 3);
        CHECK(must(JobSegment::attach(std::move(job.fd))).size() == 3);
    }
    CHECK(job.assembly.anyone_waits());
    job.say(0, wire::Ready{}, device.read_end.get());
    job.say(1, wire::Ready{});
    CHECK(job.heard(0) == wire::Kind{});
    job.say(2, wire::Ready{});
    CHECK_FALSE(job.assembly.anyone_waits());
    CHECK(job.heard(0) == wire::Kind::kGo);
    for (uint32_t rank = 1; rank < 3; ++rank) {
        CHECK(job.heard(rank) == wire::Kind::kPeerDevice);
        CHECK(job.last<wire::PeerDevice>().rank == 0);
        CHECK(same_file(job.fd.get(), device.read_end.get()));
        CHECK(job.heard(rank) == wire::Kind::kGo);
    }
    CHECK(job.noted.said == "hello0hello1hello2");
}

TEST_CASE("a rank is asked once it was told to go, and no answer of it counts before") {
    Job job(2);
    job.say_hello(0);
    job.say_hello(1);
    job.say(0, wire::Ready{});
    CHECK_FALSE(job.assembly.ask(0, 1));
    job.say(1, wire::Ready{});
    CHECK(job.heard(0) == wire::Kind::kWelcome);
    CHECK(job.heard(0) == wire::Kind::kGo);
    REQUIRE(job.assembly.ask(0, 1));
    CHECK(job.heard(0) == wire::Kind::kAsk);
    CHECK(job.last<wire::Ask>().number == 1);
    job.say(0, wire::Answer{.number = 1});
    job.say(0, wire::Answered{.number = 1});
    job.say(1, wire::Answer{.number = 2}); // which the observer does not accept
    CHECK(job.noted.said == "hello0hello1answer0answered0answer1misbehaved1");
    CHECK_FALSE(job.assembly.ask(1, 2));
    Job early(2);
    early.say_hello(0);
    early.say(0, wire::Answered{.number = 1});
    CHECK(early.noted.said == "hello0misbehaved0");
}

TEST_CASE("a library of another version is told apart, and every rank that comes is refused") {
    Job job(3);
    job.say_hello(0);
    CHECK(job.heard(0) == wire::Kind::kWelcome);
    job.say_hello(1, kVersion + 1);
    CHECK(job.noted.said == "hello0differ1");
    job.assembly.refuse(Status::kVersion, "two versions");
    job.say_hello(2);
    for (uint32_t rank = 0; rank < 3; ++rank) {
        CHECK(job.heard(rank) == wire::Kind::kRefusal);
        CHECK(job.last<wire::Refusal>().status == static_cast<int32_t>(Status::kVersion));
        CHECK(std::string(job.last<wire::Refusal>().text) == "two versions");
    }
}

TEST_CASE("a rank that says that it is ready before it hears of its refusal hears of that, and does not misbehave") {
    Job job(2);
    job.say_hello(0);
    CHECK(job.heard(0) == wire::Kind::kWelcome);
    job.assembly.refuse(Status::kPeerLost, "rank 1 has ended");
    job.say(0, wire::Ready{});
    CHECK(job.noted.said == "hello0");
    CHECK(job.heard(0) == wire::Kind::kRefusal);
}

TEST_CASE("a hello of another protocol may be longer or shorter, and says its version all the same") {
    Job job(2);
    const uint32_t shorter[4] = {wire::kMagic, 1, wire::kProtocol + 1, 0x00020000};
    job.say(0, shorter);
    const uint32_t longer[20] = {wire::kMagic, 1, wire::kProtocol + 1, 0x00020000};
    job.say(1, longer);
    CHECK(job.noted.said == "differ0differ1");
}

TEST_CASE("a refusal's text is cut, never unterminated") {
    Job job(1);
    job.assembly.refuse(Status::kVersion, std::string(5000, 'x'));
    job.say_hello(0);
    CHECK(job.heard(0) == wire::Kind::kRefusal);
    CHECK(std::string(job.last<wire::Refusal>().text).size() == sizeof(wire::Refusal::text) - 1);
}

TEST_CASE("what does not belong there is misbehaviour, and is heard once") {
    const auto expect_misbehaviour = [](const auto& speak) {
        Job job(2);
        speak(job);
        CHECK(job.noted.said.find("misbehaved0") != std::string::npos);
    };
    expect_misbehaviour([](Job& job) { job.say(0, 'x'); });
    expect_misbehaviour([](Job& job) { job.say(0, std::array<char, 4096>{}); });
    expect_misbehaviour([](Job& job) { job.say(0, wire::Ready{}); });
    expect_misbehaviour([](Job& job) { job.say(0, wire::Go{}); });
    expect_misbehaviour([](Job& job) { job.say(0, wire::Welcome{}); });
    expect_misbehaviour([](Job& job) {
        job.say_hello(0);
        job.say_hello(0);
    });
    expect_misbehaviour([](Job& job) {
        job.say_hello(0);
        job.say(0, wire::Ready{});
        job.say(0, wire::Ready{});
    });
    expect_misbehaviour([](Job& job) {
        wire::Hello hello;
        hello.version = kVersion;
        hello.layout = kLayout;
        hello.rank = 1; // on rank 0's socket
        job.say(0, hello);
    });
}

TEST_CASE("random messages never do more than misbehave") {
    std::mt19937 random(20261120);
    for (int round = 0; round < 2000; ++round) {
        Job job(2);
        std::array<uint32_t, 16> words;
        for (uint32_t& word : words)
            word = random() % 4 == 0 ? static_cast<uint32_t>(random()) : random() % 9;
        words[0] = random() % 4 == 0 ? words[0] : wire::kMagic;
        words[2] = random() % 2 == 0 ? words[2] : wire::kProtocol;
        words[3] = random() % 2 == 0 ? words[3] : kVersion;
        const size_t size = 1 + random() % sizeof words;
        REQUIRE_OK(job.ranks[0].send(std::as_bytes(std::span(words)).first(size)));
        job.assembly.hear(0);
        CHECK(job.noted.said.find('1') == std::string::npos);
    }
}

TEST_CASE("a rank that sends without end is not listened to without end") {
    Job job(1);
    job.noted.on_abort = [&] { REQUIRE_OK(job.ranks[0].send(std::as_bytes(std::span(&kAbort, 1)))); };
    job.say(0, kAbort);
    CHECK(job.noted.said.starts_with("abort5-0abort5-0"));
}

TEST_CASE("descriptors that nobody asked for are closed, whatever they came with") {
    Pipe pipe = must(create_pipe());
    {
        Job job(2);
        job.say(0, kAbort, pipe.write_end.get());
        job.say_hello(0);
        job.say(0, wire::Ready{}, pipe.write_end.get());
        job.say(1, 'x', pipe.write_end.get());
    }
    pipe.write_end.reset();
    char none = 0;
    CHECK(read_now(pipe.read_end.get(), std::span(&none, 1)).state == StreamState::kClosed);
}

TEST_CASE("an abort is heard in any state, also from a rank that is gone") {
    Job job(2);
    REQUIRE_OK(job.ranks[1].send(std::as_bytes(std::span(&kAbort, 1))));
    job.ranks[1] = MessageSocket();
    job.assembly.hear(1);
    CHECK(job.noted.said == "abort5-1");
}

TEST_CASE("how far a rank has come in leaving is passed on") {
    Job job(2);
    job.say(1, wire::Leaving{.steps = 2});
    CHECK(job.noted.said == "leaves2-1");
}

TEST_CASE("who closes its socket while others wait has left early, who never came has not") {
    Job job(2);
    job.ranks[1] = MessageSocket();
    job.assembly.hear(1);
    CHECK(job.noted.said.empty());
    job.say_hello(0);
    job.ranks[0] = MessageSocket();
    job.assembly.hear(0);
    CHECK(job.noted.said == "hello0left0");
}

TEST_CASE("ranks that do not read do not stop the launcher") {
    constexpr uint32_t kSize = 64;
    Job job(kSize);
    Pipe device = must(create_pipe());
    for (uint32_t rank = 0; rank < kSize; ++rank)
        job.say_hello(rank);
    for (uint32_t rank = 0; rank < kSize; ++rank)
        job.say(rank, wire::Ready{}, device.read_end.get());
    for (uint32_t rank = 0; rank < kSize; ++rank) {
        uint32_t introductions = 0;
        wire::Kind kind = wire::Kind::kWelcome;
        while (kind != wire::Kind::kGo) {
            kind = job.heard(rank);
            introductions += kind == wire::Kind::kPeerDevice ? 1 : 0;
            if (kind == wire::Kind{})
                REQUIRE_OK(job.loop->run_once());
        }
        CHECK(introductions == kSize - 1);
    }
}

TEST_CASE("the ranks of a node have their numbers in the job, and go when they are released") {
    struct Held : Noted {
        bool all_ready() override {
            said += "ready";
            return false;
        }
    } held;
    const std::unique_ptr<EventLoop> loop = must(EventLoop::create());
    const JobSegment segment = must(JobSegment::create(5, 2));
    Assembly assembly(*loop, segment, held, {3, 4});
    std::vector<MessageSocket> ranks;
    const auto say = [&](uint32_t index, const auto& message, int descriptor = -1) {
        REQUIRE_OK(ranks[index].send(bytes_of(message), descriptor));
        assembly.hear(index);
    };
    alignas(8) std::array<std::byte, MessageSocket::kLargestMessage> bytes{};
    const auto heard = [&](uint32_t index) {
        const auto received = must(ranks[index].try_receive(bytes));
        return received ? wire::header_of(bytes).kind : wire::Kind{};
    };
    const Pipe device = must(create_pipe());
    for (uint32_t index = 0; index < 2; ++index) {
        auto [ours, theirs] = must(MessageSocket::pair());
        assembly.connect(index, std::move(ours));
        ranks.push_back(std::move(theirs));
        wire::Hello hello;
        hello.version = kVersion;
        hello.layout = kLayout;
        hello.rank = static_cast<int32_t>(3 + index);
        say(index, hello);
        CHECK(heard(index) == wire::Kind::kWelcome);
        wire::Welcome welcome;
        std::memcpy(&welcome, bytes.data(), sizeof welcome);
        CHECK(welcome.size == 5);
        say(index, wire::Ready{}, device.read_end.get());
    }
    CHECK(held.said == "hello0hello1ready");
    CHECK(heard(0) == wire::Kind{});
    CHECK(assembly.anyone_waits());
    assembly.release();
    CHECK_FALSE(assembly.anyone_waits());
    for (uint32_t index = 0; index < 2; ++index) {
        CHECK(heard(index) == wire::Kind::kPeerDevice);
        wire::PeerDevice introduction;
        std::memcpy(&introduction, bytes.data(), sizeof introduction);
        CHECK(introduction.rank == static_cast<int32_t>(4 - index));
        CHECK(heard(index) == wire::Kind::kGo);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::assembly
