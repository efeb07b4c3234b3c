#include "base/current_call.hpp"
#include "support/unit.hpp"

#include <string_view>
#include <thread>

using gpurun::base::CallScope;
using gpurun::base::this_call;

TEST_CASE("a thread is in no call before one and after it") {
    CHECK(this_call().name == nullptr);
    {
        const CallScope call("gpurun_send");
        CHECK(std::string_view(this_call().name) == "gpurun_send");
    }
    CHECK(this_call().name == nullptr);
}

TEST_CASE("a call within a call stays the outer one") {
    const CallScope outer("gpurun_bcast");
    CHECK(outer.outermost());
    {
        const CallScope inner("gpurun_send");
        CHECK(!inner.outermost());
        CHECK(std::string_view(this_call().name) == "gpurun_bcast");
    }
    CHECK(std::string_view(this_call().name) == "gpurun_bcast");
}

TEST_CASE("each thread is in a call of its own") {
    const CallScope call("gpurun_wait");
    std::thread([] {
        CHECK(this_call().name == nullptr);
        const CallScope its_own("gpurun_recv");
        CHECK(std::string_view(this_call().name) == "gpurun_recv");
    }).join();
    CHECK(std::string_view(this_call().name) == "gpurun_wait");
}

TEST_CASE("another thread may read the name at any time") {
    const auto& call = this_call();
    std::atomic<bool> ends{false};
    std::thread reader([&] {
        while (!ends.load(std::memory_order_relaxed)) {
            const char* name = call.name.load(std::memory_order_relaxed);
            if (name != nullptr)
                CHECK(std::string_view(name) == "gpurun_test");
        }
    });
    for (int i = 0; i < 100'000; ++i)
        const CallScope in("gpurun_test");
    ends = true;
    reader.join();
}
