// Spans of addresses: what overlaps, and what has all of some bytes, compared with a walk over all.
#include "comm/span_set.hpp"
#include "support/unit.hpp"

#include <deque>
#include <random>
#include <vector>

using namespace gpurun;

namespace {

struct Owner {
    uintptr_t first;
    size_t bytes;
    const void* address() const { return reinterpret_cast<const void*>(first); }
    uintptr_t end() const { return first + bytes; }
};

uintptr_t furthest_end(const std::vector<const Owner*>& all, uintptr_t before) {
    uintptr_t end = 0;
    for (const Owner* each : all)
        if (each->first < before)
            end = std::max(end, each->end());
    return end;
}

} // namespace

TEST_SUITE_BEGIN("span set");

TEST_CASE("spans that overlap, and that begin at the same address, are found as by a walk over all") {
    std::mt19937 random(7);
    const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    comm::SpanSet<Owner> set;
    std::deque<Owner> owners;
    std::vector<const Owner*> all;
    for (int step = 0; step < 20'000; ++step) {
        if (all.empty() || below(5) < 3) {
            owners.push_back({1 + below(500), 1 + below(below(4) == 0 ? 400 : 10)});
            set.add(owners.back().address(), owners.back().bytes, owners.back());
            all.push_back(&owners.back());
        } else {
            std::swap(all[below(all.size())], all.back());
            set.remove(all.back()->address(), *all.back());
            set.remove(all.back()->address(), *all.back()); // is not there any more
            all.pop_back();
        }
        if (all.size() > 60)
            while (all.size() > 20) {
                set.remove(all.back()->address(), *all.back());
                all.pop_back();
            }
        const uintptr_t first = below(600);
        const size_t bytes = 1 + below(50);
        const auto* const span = set.furthest(first);
        REQUIRE((span == nullptr ? 0 : span->end) == furthest_end(all, first));
        const Owner* const found = set.find(reinterpret_cast<const void*>(first), bytes);
        REQUIRE((found != nullptr) == (furthest_end(all, first + bytes) > first));
        if (found != nullptr) {
            REQUIRE(found->first < first + bytes);
            REQUIRE(found->end() > first);
        }
        REQUIRE(set.empty() == all.empty());
    }
    size_t visited = 0;
    uintptr_t last = 0;
    set.for_each([&](const Owner& each) {
        CHECK(each.first >= last);
        last = each.first;
        ++visited;
    });
    CHECK(visited == all.size());
}

TEST_SUITE_END();
