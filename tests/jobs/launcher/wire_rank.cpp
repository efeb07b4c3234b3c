// wire_rank BEHAVIOUR [RANK=BEHAVIOUR]...: a rank that speaks the wire itself, well or badly. See kBehaviours;
// fuzz-SEED is wire_nonsense.
#include "base/settings.hpp"
#include "platform/job_session.hpp"
#include "platform/wake.hpp"
#include "platform/wire.hpp"
#include "wire_nonsense.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gpurun/version.h>
#include <string>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::base::read_settings;

namespace {

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;

gpurun::base::Settings settings() {
    auto result = read_settings([](const char* name) { return std::getenv(name); });
    if (!result)
        std::exit(100);
    return *result;
}

JobSession say_hello(uint32_t version = kVersion) {
    auto session = JobSession::connect(settings(), version);
    if (!session) {
        std::printf("refused with status %d: %s\n", static_cast<int>(session.error().status),
                    session.error().detail.c_str());
        std::fflush(stdout);
        std::exit(9);
    }
    return std::move(*session);
}

void set_state(const JobSession& session, RankState state) {
    session.segment().rank(session.rank()).state.store(static_cast<uint32_t>(state));
}

JobSession join() {
    JobSession session = say_hello();
    set_state(session, RankState::kAlive);
    if (auto peers = session.ready(-1, true, ""); !peers) {
        std::printf("not started, status %d\n", static_cast<int>(peers.error().status));
        std::fflush(stdout);
        std::exit(8);
    }
    return session;
}

int sleep_for_ever() {
    for (;;)
        ::pause();
}

int finalize() {
    set_state(join(), RankState::kFinalized);
    return 0;
}

int quit() {
    join();
    return 0;
}

int crash() {
    join();
    return std::raise(SIGKILL); // a sanitizer would make something else of others
}

int fail_after_finalize() {
    set_state(join(), RankState::kFinalized);
    return 4;
}

int stay() {
    join();
    return sleep_for_ever();
}

// With rank 1 on another node: sleeps until it is woken by the news.
int await_news_of_rank_1(const JobSession& session) {
    const JobSegment& segment = session.segment();
    std::atomic<uint32_t>& bell = segment.rank(session.rank()).death_bell;
    for (uint32_t seen = bell.load(); segment.rank(1).state.load() != static_cast<uint32_t>(RankState::kDead);
         seen = bell.load())
        sleep_while(bell, seen, kForever);
    std::printf("told of a death\n");
    set_state(session, RankState::kFinalized);
    return 0;
}

// Waits for rank 1 as a stream would, and tells when it is released.
int await_rank_1() {
    const JobSession session = join();
    if (!session.segment().is_here(1))
        return await_news_of_rank_1(session);
    auto fences = session.segment().map_fences(1, session.rank());
    auto& word = reinterpret_cast<FenceSlot*>(fences->data())[0].forward;
    while (word.load() == 0)
        sleep_while(word, uint64_t{0}, kForever);
    std::printf("released by %s\n", is_poisoned(word.load()) ? "poison" : "a value");
    set_state(session, RankState::kFinalized);
    return 0;
}

int hello_and_sleep() {
    const JobSession session = say_hello();
    return sleep_for_ever();
}

int hello_and_leave() {
    { const JobSession session = say_hello(); }
    return sleep_for_ever();
}

int hello_and_exit() {
    const JobSession session = say_hello();
    ::_exit(0); // so that the socket closes with the process, however long a sanitizer looks for leaks
}

int other_version() {
    say_hello(kVersion + (1 << 16));
    return 0;
}

int abort_with_5() {
    join().abort_job(5);
    return sleep_for_ever();
}

int abort_with_0() {
    join().abort_job(0);
    return 0;
}

int garbage() {
    const char text[] = "this is no message";
    return ::write(settings().control_fd, text, sizeof text) > 0 ? sleep_for_ever() : 1;
}

int truncated() {
    wire::Hello hello;
    hello.version = kVersion;
    hello.layout = kLayout;
    return ::write(settings().control_fd, &hello, sizeof hello - 4) > 0 ? sleep_for_ever() : 1;
}

int oversized() {
    const std::string text(100'000, 'x');
    return ::write(settings().control_fd, text.data(), text.size()) > 0 ? sleep_for_ever() : 1;
}

int absent() { return 0; }
int absent_later() {
    ::usleep(300'000);
    return 0;
}

// Sends aborts for as long as it lives, with three children, faster than they can be read. None ends when asked to.
int abort_flood() {
    JobSession session = join();
    std::signal(SIGTERM, SIG_IGN);
    for (int child = 0; child < 3; ++child)
        if (::fork() == 0)
            break;
    for (;;)
        session.abort_job(5);
}

// Has joined, and is asked something once it says that it is up.
wire::Ask hear_question() {
    JobSession session = join();
    std::puts("up");
    std::fflush(stdout);
    wire::Ask question{};
    static_cast<void>(::read(settings().control_fd, &question, sizeof question) == sizeof question);
    new JobSession(std::move(session)); // which would close the socket
    return question;
}

template <typename Message>
void say(const Message& message) {
    static_cast<void>(::write(settings().control_fd, &message, sizeof message) > 0);
}

wire::Answer an_answer(uint32_t number, wait_report::Topic topic) {
    wire::Answer answer;
    answer.number = number;
    answer.entry.topic = topic;
    return answer;
}

int up_and_stay() {
    hear_question();
    return sleep_for_ever();
}

int answers_unasked() {
    const wire::Ask question = hear_question();
    say(an_answer(question.number + 1, wait_report::Topic::kThread));
    return sleep_for_ever();
}

int answers_too_much() {
    const wire::Ask question = hear_question();
    for (size_t i = 0; i <= wait_report::kMostThreads; ++i)
        say(an_answer(question.number, wait_report::Topic::kThread));
    return sleep_for_ever();
}

int answers_garbage() {
    wire::Answer answer = an_answer(hear_question().number, wait_report::Topic::kUnexpected);
    answer.entry.peer = 0x7fffffff; // no rank
    say(answer);
    return sleep_for_ever();
}

// Says that there is less than it has said.
int answers_half() {
    const wire::Ask question = hear_question();
    say(an_answer(question.number, wait_report::Topic::kHeld));
    wire::Answered end;
    end.number = question.number;
    say(end);
    return sleep_for_ever();
}

struct Behaviour {
    const char* name;
    int (*act)();
};
constexpr Behaviour kBehaviours[] = {
    {"finalize", finalize},
    {"quit", quit},
    {"crash", crash},
    {"fail-after-finalize", fail_after_finalize},
    {"stay", stay},
    {"await-rank-1", await_rank_1},
    {"hello-and-sleep", hello_and_sleep},
    {"hello-and-leave", hello_and_leave},
    {"hello-and-exit", hello_and_exit},
    {"other-version", other_version},
    {"abort-5", abort_with_5},
    {"abort-0", abort_with_0},
    {"abort-flood", abort_flood},
    {"up-and-stay", up_and_stay},
    {"answers-unasked", answers_unasked},
    {"answers-too-much", answers_too_much},
    {"answers-garbage", answers_garbage},
    {"answers-half", answers_half},
    {"garbage", garbage},
    {"truncated", truncated},
    {"oversized", oversized},
    {"absent", absent},
    {"absent-later", absent_later},
};

} // namespace

int main(int argc, char** argv) {
    const std::string mine = std::string(std::getenv("GPURUN_RANK")) + "=";
    std::string name = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; ++i)
        if (std::strncmp(argv[i], mine.c_str(), mine.size()) == 0)
            name = argv[i] + mine.size();
    if (name.starts_with("fuzz-"))
        return speak_nonsense(settings(), static_cast<unsigned>(std::atoi(name.c_str() + 5)));
    for (const Behaviour& behaviour : kBehaviours)
        if (name == behaviour.name)
            return behaviour.act();
    std::fprintf(stderr, "wire_rank: there is no behaviour '%s'\n", name.c_str());
    return 101;
}
