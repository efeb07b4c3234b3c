// Joining a job whose launcher says nonsense.
#include "platform/job_session.hpp"
#include "platform/byte_stream.hpp"
#include "platform/message_socket.hpp"
#include "platform/shared_memory.hpp"
#include "platform/wire.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

using namespace gpurun::platform;
using gpurun::base::Settings;
using gpurun::test::must;

namespace {

constexpr uint32_t kVersion = 0x000100;

// A launcher's end of a wire, and the settings of a rank that finds its own end there.
struct Launcher {
    MessageSocket end;
    Settings settings;
};

Launcher launcher() {
    auto [ours, theirs] = must(MessageSocket::pair());
    Launcher launcher{std::move(ours), {}};
    launcher.settings.size = 2;
    launcher.settings.control_fd = ::dup(theirs.fd());
    return launcher;
}

template <typename Message>
void say(const MessageSocket& end, const Message& message, int fd = -1) {
    REQUIRE_OK(MessageSocket(UniqueFd(::dup(end.fd()))).send(std::as_bytes(std::span(&message, 1)), fd));
}

// Everything has been said.
bool joins(Launcher& launcher) {
    REQUIRE(::shutdown(launcher.end.fd(), SHUT_WR) == 0);
    auto session = JobSession::connect(launcher.settings, kVersion);
    return session && session->ready(-1, false, "");
}

} // namespace

TEST_SUITE_BEGIN("job session");

TEST_CASE("a launcher that says the right things is joined") {
    Launcher well = launcher();
    const JobSegment segment = must(JobSegment::create(2, 1));
    say(well.end, wire::Welcome{.size = 2}, segment.fd());
    say(well.end, wire::PeerDevice{.rank = 1}, segment.fd());
    say(well.end, wire::Go{});
    CHECK(joins(well));
}

TEST_CASE("a descriptor that has become another file's stays the program's") {
    const Pipe pipe = must(create_pipe());
    Settings settings;
    settings.size = 2;
    settings.control_fd = pipe.read_end.get();
    const auto session = JobSession::connect(settings, kVersion);
    REQUIRE_FALSE(session);
    CHECK(session.error().status == gpurun::base::Status::kLauncher);
    CHECK(::fcntl(pipe.read_end.get(), F_GETFD) >= 0);
}

TEST_CASE("a launcher that traces says where to record before it welcomes") {
    Launcher well = launcher();
    const JobSegment segment = must(JobSegment::create(2, 1));
    const TraceBuffer buffer = must(TraceBuffer::create(8));
    say(well.end, wire::Trace{}, buffer.fd());
    say(well.end, wire::Welcome{.size = 2}, segment.fd());
    const JobSession session = must(JobSession::connect(well.settings, kVersion));
    REQUIRE(session.trace() != nullptr);
    TraceBuffer::publish(*session.trace()->begin(), TraceKind::kCall);
    CHECK(buffer.recorded() == 2);
}

TEST_CASE("a place to record that is none is refused") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    for (const int fd : {-1, segment.fd()}) {
        Launcher liar = launcher();
        say(liar.end, wire::Trace{}, fd);
        say(liar.end, wire::Welcome{.size = 2}, segment.fd());
        CHECK_FALSE(joins(liar));
    }
    Launcher twice = launcher();
    const TraceBuffer buffer = must(TraceBuffer::create(8));
    say(twice.end, wire::Trace{}, buffer.fd());
    say(twice.end, wire::Trace{}, buffer.fd());
    say(twice.end, wire::Welcome{.size = 2}, segment.fd());
    CHECK_FALSE(joins(twice));
}

TEST_CASE("segments that are none, or lie about their size, are refused") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    const JobSegment other = must(JobSegment::create(3, 1));
    JobHeader lies = segment.header();
    lies.size = kMaxRanks; // far behind its end
    std::vector<UniqueFd> wrong;
    wrong.push_back(UniqueFd(::dup(other.fd())));
    wrong.push_back(must(create_segment("short", 16)));
    wrong.push_back(must(create_segment("zeros", size_t{1} << 20)));
    wrong.push_back(must(create_segment("liar", size_t{1} << 20)));
    REQUIRE(::pwrite(wrong.back().get(), &lies, sizeof lies, 0) == sizeof lies);
    wrong.push_back(must(create_pipe()).read_end);
    for (const UniqueFd& fd : wrong) {
        Launcher liar = launcher();
        say(liar.end, wire::Welcome{.size = 2}, fd.get());
        CHECK_FALSE(joins(liar));
    }
}

TEST_CASE("a device of a rank that is none, or of none at all, is refused") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    for (const int32_t rank : {-1, 2, 0x7fffffff}) {
        Launcher liar = launcher();
        say(liar.end, wire::Welcome{.size = 2}, segment.fd());
        say(liar.end, wire::PeerDevice{.rank = rank}, segment.fd());
        say(liar.end, wire::Go{});
        CHECK_FALSE(joins(liar));
    }
    Launcher empty = launcher();
    say(empty.end, wire::Welcome{.size = 2}, segment.fd());
    say(empty.end, wire::PeerDevice{.rank = 1});
    say(empty.end, wire::Go{});
    CHECK_FALSE(joins(empty));
}

TEST_CASE("nonsense of any kind is an error, never more") {
    const JobSegment segment = must(JobSegment::create(2, 1));
    std::mt19937 random(20261121);
    for (int round = 0; round < 2000; ++round) {
        Launcher mad = launcher();
        if (random() % 2 == 0)
            say(mad.end, wire::Welcome{.size = 2}, random() % 4 == 0 ? -1 : segment.fd());
        for (int message = static_cast<int>(random() % 4); message > 0; --message) {
            std::array<uint32_t, 128> words;
            for (uint32_t& word : words)
                word = static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 9);
            words[0] = random() % 4 == 0 ? words[0] : wire::kMagic;
            const size_t sizes[] = {8, 12, 16, 512, 1 + random() % sizeof words};
            size_t size = sizes[random() % std::size(sizes)];
            if (size == sizeof(wire::Go) && words[1] == static_cast<uint32_t>(wire::Kind::kGo))
                ++size; // else it could be right
            const auto bytes = std::as_bytes(std::span(words)).first(size);
            REQUIRE_OK(mad.end.send(bytes, random() % 2 == 0 ? segment.fd() : -1));
        }
        CHECK_FALSE(joins(mad));
    }
}

TEST_SUITE_END();
