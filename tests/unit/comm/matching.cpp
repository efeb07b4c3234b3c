// Which receives fit which messages.
#include "comm/matcher.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using comm::kAnySource;
using comm::kAnyTag;
using comm::Pattern;

TEST_SUITE_BEGIN("matching");

TEST_CASE("context, source and tag must agree, unless they are wildcards") {
    const transfer::Envelope envelope{2, 7, 0};
    CHECK(Pattern{2, 1, 7}.fits(1, envelope));
    CHECK(Pattern{2, kAnySource, 7}.fits(1, envelope));
    CHECK(Pattern{2, 1, kAnyTag}.fits(1, envelope));
    CHECK(Pattern{2, kAnySource, kAnyTag}.fits(1, envelope));
    CHECK_FALSE(Pattern{3, kAnySource, kAnyTag}.fits(1, envelope));
    CHECK_FALSE(Pattern{2, 0, 7}.fits(1, envelope));
    CHECK_FALSE(Pattern{2, 1, 8}.fits(1, envelope));
}

TEST_CASE("users' wildcards never take a collective's message") {
    const comm::Communicator world{comm::kWorldId, 0, 2};
    const transfer::Envelope collective{world.collective_context(), 0, 0};
    CHECK_FALSE(Pattern{world.user_context(), kAnySource, kAnyTag}.fits(1, collective));
}

TEST_SUITE_END();
