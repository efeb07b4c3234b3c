#include "platform/known_threads.hpp"
#include "support/unit.hpp"

#include <string>
#include <thread>
#include <vector>

using namespace gpurun::platform;
using gpurun::base::CallScope;

TEST_SUITE_BEGIN("known threads");

namespace {

struct Seen {
    uint64_t id;
    std::string call;
    int64_t seen_ns;
};
std::vector<Seen> all_seen() {
    std::vector<Seen> all;
    visit_known_threads([&](const KnownThread& each) {
        all.push_back({each.id, each.call != nullptr ? each.call : "", each.seen_ns});
    });
    return all;
}

} // namespace

TEST_CASE("a thread is known from when it says so until it ends, with the call that it is in") {
    std::thread([] {
        const size_t before = all_seen().size();
        const uint64_t id = know_this_thread();
        CHECK(know_this_thread() == id);
        REQUIRE(all_seen().size() == before + 1);
        CHECK(all_seen().back().call.empty());
        CHECK(all_seen().back().seen_ns == 0);
        const CallScope call("gpurun_recv");
        CHECK(all_seen().back().call == "gpurun_recv");
    }).join();
    for (const Seen& each : all_seen())
        CHECK(each.call != "gpurun_recv");
}

TEST_CASE("who is in the same call as before was seen then, and who is in another one is seen anew") {
    std::thread([] {
        know_this_thread();
        int64_t first_ns = 0;
        {
            const CallScope call("gpurun_malloc");
            first_ns = all_seen().back().seen_ns;
            CHECK(first_ns > 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            CHECK(all_seen().back().seen_ns == first_ns);
        }
        const CallScope call("gpurun_malloc");
        CHECK(all_seen().back().seen_ns > first_ns);
    }).join();
}

TEST_CASE("threads come, call and go while others look") {
    std::atomic<bool> ends{false};
    std::thread looks([&] {
        while (!ends)
            all_seen();
    });
    for (int i = 0; i < 200; ++i)
        std::thread([] {
            know_this_thread();
            for (int calls = 0; calls < 20; ++calls)
                const CallScope call("gpurun_send");
        }).join();
    ends = true;
    looks.join();
}

TEST_SUITE_END();
