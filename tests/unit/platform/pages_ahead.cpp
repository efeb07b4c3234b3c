#include "platform/pages_ahead.hpp"
#include "platform/clock.hpp"
#include "platform/shared_memory.hpp"
#include "support/unit.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <vector>

using namespace gpurun::platform;
using gpurun::test::must;

namespace {

constexpr size_t kSteps = 4;
constexpr size_t kStep = PagesAhead::kStepBytes;

struct Memory {
    UniqueFd fd = must(create_segment("pages", kSteps* kStep));
    Mapping mapping = must(Mapping::map(fd.get(), 0, kSteps* kStep));

    // Pages that are there, from the front on.
    size_t there() const {
        std::vector<unsigned char> resident(kSteps * kStep / page_size());
        REQUIRE(::mincore(mapping.data(), kSteps * kStep, resident.data()) == 0);
        size_t count = 0;
        while (count < resident.size() && (resident[count] & 1) != 0)
            ++count;
        return count * page_size();
    }
    void await(size_t bytes) const {
        const int64_t until_ns = now_ns() + 20'000'000'000;
        while (there() < bytes && now_ns() < until_ns)
            ::sched_yield();
    }
    bool supported() const {
#ifdef MADV_POPULATE_WRITE
        return ::madvise(mapping.data(), page_size(), MADV_POPULATE_WRITE) == 0;
#else
        return false;
#endif
    }
};

} // namespace

TEST_SUITE_BEGIN("pages ahead");

TEST_CASE("the first step is there at once, the others once they are wanted, and no more than there is") {
    const Memory memory;
    if (!memory.supported()) {
        MESSAGE("skipped: this kernel cannot populate pages");
        return;
    }
    const auto ahead = must(PagesAhead::start(memory.mapping.data(), kSteps * kStep));
    CHECK(memory.there() == kStep);
    ahead->wanted(kStep + 1);
    memory.await(2 * kStep);
    CHECK(memory.there() == 2 * kStep);
    ahead->wanted(100 * kStep);
    memory.await(kSteps * kStep);
    CHECK(memory.there() == kSteps * kStep);
    ahead->wanted(200 * kStep); // nobody is there any more
}

TEST_CASE("what was written there stays") {
    const Memory memory;
    memory.mapping.data()[kStep] = std::byte{42};
    const auto ahead = must(PagesAhead::start(memory.mapping.data(), kSteps * kStep));
    ahead->wanted(2 * kStep);
    CHECK(memory.mapping.data()[kStep] == std::byte{42});
}

TEST_CASE("it ends in the midst of it") {
    const Memory memory;
    for (int i = 0; i < 100; ++i)
        must(PagesAhead::start(memory.mapping.data(), kSteps * kStep))->wanted(kSteps * kStep);
}

TEST_SUITE_END();
